"""RBF sums in twice the precision of float64, for the few samples that decide the rounding error of a certificate.

A number is a pair: a float64 and its rounding error, which is at most half a unit in its last place (T. J. Dekker, "A
floating-point technique for extending the available precision", Numerische Mathematik 18, 1971). ``fma`` makes the rounding
error of a product exact. Samples are columns, so that every loop over them runs in vectors; nothing here uses fast-math.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.kernel_sum_loops import put_columns
from maxmargin.data.caching import njit
from maxmargin.data.error_free_loops import fma, two_sum
from maxmargin.problem.kernel_loops import LEAST, MANTISSA_BITS, ONE_BITS, SHIFT

WIDTH = 64
"""Samples at a time."""
LOG2_E, LOG2_E_REST = 1.4426950408889634, 2.0355273740931033e-17
LN_2, LN_2_REST = 0.6931471805599453, 2.3190468138462996e-17
HALVINGS = 8
SMALL = 0.5**HALVINGS


class NormedRows(NamedTuple):
    """A matrix (values, indices, indptr) and the squared norms of its rows, as pairs."""

    rows: tuple[Any, Any, Any]
    sqnorms: Any
    rests: Any


class Gaussian(NamedTuple):
    """exp(-gamma |x - z|^2), over the given number of features."""

    n_features: int
    gamma: float


@njit(inline="always")
def normal(a, b):
    """a + b for |a| >= |b| (Dekker)."""
    total = a + b
    return total, b - (total - a)


@njit(inline="always")
def add(a, a_rest, b, b_rest):
    total, rest = two_sum(a, b)
    return normal(total, rest + (a_rest + b_rest))


@njit(inline="always")
def times(a, a_rest, b, b_rest):
    product = a * b
    return normal(product, fma(a, b, -product) + fma(a, b_rest, a_rest * b))


@njit(inline="always")
def exp2_minus_1(r, r_rest):
    """2^r - 1 for |r| <= 1/2: e^t - 1 for t = r ln 2 / 256 by its series, whose terms from t^3 on need no second number as
    they are below 1e-6 of the first; then eight times e^(2t) - 1 = e (2 + e)."""
    t, t_rest = times(SMALL * r, SMALL * r_rest, LN_2, LN_2_REST)
    square, square_rest = times(t, t_rest, t, t_rest)
    tail = fma(fma(fma(fma(1.0 / 5040.0, t, 1.0 / 720.0), t, 1.0 / 120.0), t, 1.0 / 24.0), t, 1.0 / 6.0)
    e, e_rest = add(0.5 * square, 0.5 * square_rest, tail * t * square, 0.0)
    e, e_rest = add(t, t_rest, e, e_rest)
    for _ in range(HALVINGS):
        double, double_rest = add(2.0, 0.0, e, e_rest)
        e, e_rest = times(e, e_rest, double, double_rest)
    return e, e_rest


@njit(cache=True, nogil=True, boundscheck=False)
def precise_sqnorms(rows):
    """|x_i|^2 as pairs, for a matrix (values, indices, indptr)."""
    values, _indices, indptr = rows
    n = indptr.shape[0] - 1
    sqnorms, rests = np.empty(n), np.empty(n)
    for i in range(n):
        total = rest = 0.0
        for s in range(indptr[i], indptr[i + 1]):
            x = np.float64(values[s])
            square, square_rest = times(x, 0.0, x, 0.0)
            total, rest = add(total, rest, square, square_rest)
        sqnorms[i], rests[i] = total, rest
    return sqnorms, rests


@njit(cache=True, nogil=True, boundscheck=False)
def precise_rbf_sums(vectors, scales, samples, kernel, start, stop, totals):
    """sums_i + rests_i = sum_j scale_j exp(-gamma |x_j - x_i|^2) for the samples start <= i < stop, over all vectors j.
    ``vectors`` and ``samples`` are ``NormedRows``, ``kernel`` is a ``Gaussian``, and ``totals`` are (sums, rests)."""
    columns = np.zeros(kernel.n_features * WIDTH)
    dots, dot_rests, powers = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    factor = times(LOG2_E, LOG2_E_REST, -kernel.gamma, 0.0)
    for first in range(start, stop, WIDTH):
        last = min(stop, first + WIDTH)
        put_columns(samples.rows, first, last, 1.0, WIDTH, columns)
        norms = samples.sqnorms[first:last], samples.rests[first:last]
        for j in range(scales.shape[0]):
            precise_dots(vectors.rows, j, columns, dots, dot_rests)
            exponents((vectors.sqnorms[j], vectors.rests[j]), norms, factor, (dots, dot_rests), powers)
            add_powers(scales[j], dots, dot_rests, powers, totals[0][first:last], totals[1][first:last])
        put_columns(samples.rows, first, last, 0.0, WIDTH, columns)


@njit(cache=True, nogil=True, boundscheck=False)
def precise_difference_sums(vectors, scales, samples, kernel, start, stop, totals):
    """The same from the differences x_j - x_i. The vectors are ``NormedRows`` with an element for every feature, and no norm is
    looked at but that of the samples, which must be zero."""
    columns = np.zeros(kernel.n_features * WIDTH)
    halves, half_rests, powers = np.empty(WIDTH), np.empty(WIDTH), np.empty(WIDTH)
    factor = times(LOG2_E, LOG2_E_REST, -kernel.gamma, 0.0)
    for first in range(start, stop, WIDTH):
        last = min(stop, first + WIDTH)
        put_columns(samples.rows, first, last, 1.0, WIDTH, columns)
        norms = samples.sqnorms[first:last], samples.rests[first:last]
        for j in range(scales.shape[0]):
            precise_half_squares(vectors.rows, j, columns, halves, half_rests)
            exponents((0.0, 0.0), norms, factor, (halves, half_rests), powers)
            add_powers(scales[j], halves, half_rests, powers, totals[0][first:last], totals[1][first:last])
        put_columns(samples.rows, first, last, 0.0, WIDTH, columns)


@njit(cache=True, nogil=True, boundscheck=False)
def precise_half_squares(vectors, j, columns, halves, half_rests):
    """-|x_j - x_i|^2 / 2 for the samples that are columns: what x_j . x_i is where norms are zero."""
    values, indices, indptr = vectors
    width = np.uint64(WIDTH)
    halves[:] = 0.0
    half_rests[:] = 0.0
    for s in range(indptr[j], indptr[j + 1]):
        value, column = np.float64(values[s]), np.uint64(indices[s]) * width
        for i in range(width):
            difference, rest = two_sum(value, -columns[column + i])
            square, square_rest = times(difference, rest, -0.5 * difference, -0.5 * rest)
            halves[i], half_rests[i] = add(halves[i], half_rests[i], square, square_rest)


@njit(cache=True, nogil=True, boundscheck=False)
def precise_dots(vectors, j, columns, dots, dot_rests):
    """x_j . x_i for the samples that are columns."""
    values, indices, indptr = vectors
    width = np.uint64(WIDTH)
    dots[:] = 0.0
    dot_rests[:] = 0.0
    for s in range(indptr[j], indptr[j + 1]):
        value, column = np.float64(values[s]), np.uint64(indices[s]) * width
        for i in range(width):
            x = columns[column + i]
            product = value * x
            total, rest = two_sum(dots[i], product)
            dots[i] = total
            dot_rests[i] += rest + fma(value, x, -product)


@njit(cache=True, nogil=True, boundscheck=False)
def exponents(own_norm, all_norms, all_factors, all_dots, powers):
    """-gamma |x_j - x_i|^2 / ln 2 = whole + r with |r| <= 1/2: r in the place of the dot products, and whole, shifted, in
    ``powers``. The other arguments are pairs: a number, or an array, and its rounding error."""
    (norm, norm_rest), (norms, norm_rests) = own_norm, all_norms
    (factor, factor_rest), (dots, dot_rests) = all_factors, all_dots
    for i in range(np.uint64(norms.shape[0])):
        dot, dot_rest = normal(dots[i], dot_rests[i])
        square, square_rest = add(norm, norm_rest, norms[i], norm_rests[i])
        square, square_rest = add(square, square_rest, -2.0 * dot, -2.0 * dot_rest)
        is_positive = square > 0.0
        x, x_rest = times(square if is_positive else 0.0, square_rest if is_positive else 0.0, factor, factor_rest)
        is_small = x > LEAST
        x, x_rest = x if is_small else LEAST, x_rest if is_small else 0.0
        whole = x + SHIFT
        powers[i] = whole
        dots[i], dot_rests[i] = normal(x - (whole - SHIFT), x_rest)


@njit(cache=True, nogil=True, boundscheck=False)
def add_powers(scale, r, r_rest, powers, sums, rests):
    """Add scale 2^(whole + r)."""
    bits = powers.view(np.int64)
    n = np.uint64(sums.shape[0])
    for i in range(n):
        bits[i] = (bits[i] << MANTISSA_BITS) + ONE_BITS
    for i in range(n):
        e, e_rest = exp2_minus_1(r[i], r_rest[i])
        value, value_rest = add(1.0, 0.0, e, e_rest)
        value, value_rest = times(value, value_rest, scale, 0.0)
        sums[i], rests[i] = add(sums[i], rests[i], value * powers[i], value_rest * powers[i])

"""The kernel certificate's own pass over X: nothing here is shared with a solver, and nothing uses fast-math.

For each sample i it sums scale_j k(x_j, x_i) over the support vectors j. All terms are positive. ``totals_i`` is the sum, and
``rests_i`` the rounding error of its additions. No loop over samples is a reduction, so the compiler can use vector
instructions without permission to reorder sums. ``fma`` rounds a b + c once. It is written where it is meant, not left to the
compiler.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.error_free_loops import fma

SHIFT = 1.5 * 2.0**52
"""x + SHIFT has no room for a fraction: its low bits are x rounded to a whole number."""
MANTISSA_BITS, ONE_BITS = np.int64(52), np.int64(1023 << 52)
LEAST = -1022.0
COLUMN_BYTES, LEAST_WIDTH, GREATEST_WIDTH = 1 << 18, 64, 128
"""The layout of the samples that are made dense at a time: bytes of the block, so that it stays in the second cache, and the
least and the greatest number of samples."""
ONE, TWO, THREE, FOUR = (np.uint64(k) for k in range(1, 5))
VECTORS, GROUP = 64, 8
"""Support vectors that are multiplied with such a block at a time, and those whose terms are summed before they are added to
the total."""
MIRRORED_ROWS = 8
"""Rows of a block whose mirror image is written at a time: their values fill a cache line."""
SUMMED_SAMPLES, TERMS_A_BLOCK = 1024, 32
"""Samples whose terms are summed at most, and terms in a block. The sums of blocks are summed in turn, so no term goes through
more than 64 roundings."""


def _interpolate(degree):
    """The coefficients of the polynomial that is (2^r - 1) / r at the Chebyshev nodes of |r| <= 1/2, in exact arithmetic but
    for 2^r itself, which is summed until nothing changes."""
    from fractions import Fraction

    nodes = [Fraction(0.5 * math.cos(math.pi * (k + 0.5) / (degree + 1))) for k in range(degree + 1)]
    log2 = Fraction(math.log(2.0)) + Fraction(2.3190468138462996e-17)  # what float64 leaves out
    values = [sum(log2**k * r ** (k - 1) / math.factorial(k) for k in range(1, 30)) for r in nodes]
    differences = list(values)
    for order in range(1, degree + 1):
        for k in range(degree, order - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - order])
    powers = [Fraction(0)] * (degree + 1)
    for difference, node in zip(reversed(differences), reversed(nodes), strict=True):  # Newton's form, multiplied out
        powers = [difference - node * powers[0]] + [powers[k - 1] - node * powers[k] for k in range(1, degree + 1)]
    return [float(power) for power in powers]


P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10 = _interpolate(10)


@njit(cache=True, nogil=True, boundscheck=False)
def judge_sparse(vectors, chosen, scales, sqnorms, samples, sample_sqnorms, n_features, log2_scale, start, stop, totals, rests):
    """RBF sums for the samples start <= i < stop; both matrices are (values, indices, indptr), and the support vectors are
    the chosen rows of the first."""
    width = min(GREATEST_WIDTH, max(LEAST_WIDTH, COLUMN_BYTES // (8 * n_features) // LEAST_WIDTH * LEAST_WIDTH))
    columns, products = np.zeros(n_features * width), np.empty((VECTORS, width))
    n_chosen = chosen.shape[0]
    for first in range(start, stop, width):
        last = min(stop, first + width)
        put_columns(samples, first, last, 1.0, width, columns)
        for begin in range(0, n_chosen, VECTORS):
            part, here = slice(begin, min(n_chosen, begin + VECTORS)), slice(first, last)
            multiply(vectors, chosen[part], columns, width, products)
            add_rbf(products, chosen[part], scales[part], sqnorms, sample_sqnorms[here], log2_scale, totals[here], rests[here])
        put_columns(samples, first, last, 0.0, width, columns)


@njit(cache=True, nogil=True, boundscheck=False)
def put_columns(samples, first, last, scale, width, columns):
    """The samples first <= i < last, made dense and transposed: columns[k width + i - first] = scale x_ik."""
    values, indices, indptr = samples
    for i in range(first, last):
        for s in range(indptr[i], indptr[i + 1]):
            columns[indices[s] * width + i - first] = scale * values[s]


@njit(cache=True, nogil=True, boundscheck=False)
def multiply(vectors, chosen, columns, width, products):
    """products[j, i] = sum_k x_jk columns[k width + i] for the chosen j, four nonzeros at a time. Offsets into one array
    replace rows of a matrix: Numba counts references to rows, and does not load them by vector instructions."""
    values, indices, indptr = vectors
    width = np.uint64(width)
    for j in range(np.uint64(chosen.shape[0])):
        s, stop = np.uint64(indptr[chosen[j]]), np.uint64(indptr[chosen[j] + 1])
        for i in range(width):
            products[j, i] = 0.0
        while s + FOUR <= stop:
            v0, v1, v2, v3 = values[s], values[s + ONE], values[s + TWO], values[s + THREE]
            k0, k1 = np.uint64(indices[s]) * width, np.uint64(indices[s + ONE]) * width
            k2, k3 = np.uint64(indices[s + TWO]) * width, np.uint64(indices[s + THREE]) * width
            for i in range(width):
                first = fma(np.float64(v0), columns[k0 + i], np.float64(v1) * columns[k1 + i])
                products[j, i] += fma(np.float64(v2), columns[k2 + i], fma(np.float64(v3), columns[k3 + i], first))
            s += FOUR
        while s < stop:
            v0, k0 = np.float64(values[s]), np.uint64(indices[s]) * width
            for i in range(width):
                products[j, i] = fma(v0, columns[k0 + i], products[j, i])
            s += ONE


@njit(inline="always")
def halve_exponent(products, j, here, sample_sqnorms, log2_scale, power, bits):
    """exp(-gamma |x_j - x_i|^2) = 2^(log2_scale |x_j - x_i|^2) from x_j . x_i, as two factors: products[j, i] for the fraction
    of the exponent, power[i] for its whole part. ``bits`` are those of ``power``."""
    n = np.uint64(sample_sqnorms.shape[0])
    for i in range(n):
        square = fma(-2.0, products[j, i], here + sample_sqnorms[i])
        x = log2_scale * (square if square > 0.0 else 0.0)
        x = x if x > LEAST else LEAST
        whole = x + SHIFT
        power[i] = whole
        r = x - (whole - SHIFT)
        p = fma(fma(fma(fma(fma(P10, r, P9), r, P8), r, P7), r, P6), r, P5)
        p = fma(fma(fma(fma(fma(p, r, P4), r, P3), r, P2), r, P1), r, P0)
        products[j, i] = fma(p, r, 1.0)
    for i in range(n):
        bits[i] = (bits[i] << MANTISSA_BITS) + ONE_BITS


@njit(cache=True, nogil=True, boundscheck=False)
def rbf_values(products, sqnorms, other_sqnorms, log2_scale, power, bits):
    """exp(-gamma |x_j - z_i|^2) in the place of each x_j . z_i. ``power`` is memory for one row, and ``bits`` are its bits. The
    caller allocates both: allocating and viewing inside takes a quarter of a second to compile."""
    for j in range(np.uint64(products.shape[0])):
        halve_exponent(products, j, sqnorms[j], other_sqnorms, log2_scale, power, bits)
        for i in range(np.uint64(other_sqnorms.shape[0])):
            products[j, i] *= power[i]


@njit(cache=True, nogil=True, boundscheck=False)
def add_rbf(products, chosen, scales, sqnorms, sample_sqnorms, log2_scale, totals, rests):
    """From x_j . x_i, a row a support vector: exp(-gamma |x_j - x_i|^2) = 2^(log2_scale |x_j - x_i|^2), and its sums."""
    n, n_chosen = np.uint64(sample_sqnorms.shape[0]), np.uint64(chosen.shape[0])
    power, sums = np.empty(sample_sqnorms.shape[0]), np.empty(sample_sqnorms.shape[0])
    bits = power.view(np.int64)
    for begin in range(np.uint64(0), n_chosen, np.uint64(GROUP)):
        sums[:] = 0.0
        for j in range(begin, min(n_chosen, begin + np.uint64(GROUP))):
            here, scale = sqnorms[chosen[j]], scales[j]
            halve_exponent(products, j, here, sample_sqnorms, log2_scale, power, bits)
            for i in range(n):
                sums[i] = fma(scale, products[j, i] * power[i], sums[i])
        for i in range(n):
            total = totals[i]
            new = total + sums[i]
            added = new - total
            rests[i] += (total - (new - added)) + (sums[i] - added)
            totals[i] = new


@njit(cache=True, nogil=True, boundscheck=False)
def rbf_values_across(products, sqnorms, other_sqnorms, log2_scale, out, middle):
    """``rbf_values`` for the samples of two classes, in the two blocks of their matrix ``out`` that are mirror images of each
    other. The second class begins at ``middle``. The products are overwritten."""
    n, n_others = np.uint64(products.shape[0]), np.uint64(other_sqnorms.shape[0])
    power = np.empty(other_sqnorms.shape[0])
    bits = power.view(np.int64)
    for first in range(np.uint64(0), n, np.uint64(MIRRORED_ROWS)):
        last = min(n, first + np.uint64(MIRRORED_ROWS))
        for j in range(first, last):
            halve_exponent(products, j, sqnorms[j], other_sqnorms, log2_scale, power, bits)
            for i in range(n_others):
                products[j, i] *= power[i]
                out[j, np.uint64(middle) + i] = products[j, i]
        for i in range(n_others):
            for j in range(first, last):
                out[np.uint64(middle) + i, j] = products[j, i]


@njit(cache=True, nogil=True, boundscheck=False)
def held_outputs(values, signed):
    """f_i = sum_j s_j K_ij from a symmetric matrix that is held: a row for each s_j that is not zero."""
    n = np.uint64(signed.shape[0])
    outputs = np.zeros(signed.shape[0])
    for j in range(n):
        scale = signed[j]
        if scale != 0.0:
            for i in range(n):
                outputs[i] = fma(scale, values[j, i], outputs[i])
    return outputs


@njit(cache=True, nogil=True, boundscheck=False)
def hinge_sums(outputs, errors, alpha, y, C, b, own_error):
    """The sums of the certificate with hinge loss over at most SUMMED_SAMPLES samples: of C_i loss_i, of the gap terms and of
    their errors, of alpha_i y_i f_i, of alpha_i, of alpha_i y_i and of alpha_i |1 - y_i f_i|. Also the number of alpha_i > 0
    that are C_i. The error of a margin is ``errors`` plus ``own_error`` (1 + |margin| + |b|)."""
    totals = np.zeros(7)
    n, n_at_bound = outputs.shape[0], 0
    for first in range(0, n, TERMS_A_BLOCK):
        loss = gap = rounding = sqnorm = total = imbalance = slope = 0.0
        for i in range(first, min(n, first + TERMS_A_BLOCK)):
            margin = y[i] * (outputs[i] + b)
            slack, room, a = 1.0 - margin, C[i] - alpha[i], alpha[i]
            below, above = max(slack, 0.0), max(-slack, 0.0)
            error = errors[i] + own_error * (1.0 + abs(margin) + abs(b))
            steepest = max(room, a) if abs(slack) <= error else (room if slack > 0.0 else a)
            loss += C[i] * below
            gap += room * below + a * above
            rounding += steepest * error
            sqnorm += a * y[i] * outputs[i]
            total += a
            imbalance += a * y[i]
            slope += a * abs(1.0 - y[i] * outputs[i])
            n_at_bound += a == C[i] and a > 0.0
        totals += np.array([loss, gap, rounding, sqnorm, total, imbalance, slope])
    return totals, n_at_bound


@njit(cache=True, nogil=True, boundscheck=False)
def sparse_sqnorms(values, indices, indptr):
    """|x_i|^2 right to the last digit, in the form that ``judge_sparse`` is given a matrix in."""
    sqnorms = np.empty(indptr.shape[0] - 1)
    for i in range(sqnorms.shape[0]):
        total = rest = 0.0
        for s in range(indptr[i], indptr[i + 1]):
            total, rest = add_square(np.float64(values[s]), total, rest)
        sqnorms[i] = total + rest
    return sqnorms


@njit(cache=True, nogil=True, boundscheck=False)
def dense_sqnorms(matrix, sqnorms):
    """sqnorms_i = |x_i|^2 right to the last digit."""
    for i in range(matrix.shape[0]):
        total = rest = 0.0
        for k in range(matrix.shape[1]):
            total, rest = add_square(np.float64(matrix[i, k]), total, rest)
        sqnorms[i] = total + rest


@njit(inline="always")
def add_square(x, total, rest):
    """total + x^2, and the rest with the rounding errors of the square and of the addition."""
    square = x * x
    new = total + square
    added = new - total
    return new, rest + (fma(x, x, -square) + ((total - (new - added)) + (square - added)))

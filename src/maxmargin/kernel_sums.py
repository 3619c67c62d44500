r"""Sums of kernel values in float64: :math:`f_i = \sum_j s_j k(z_j, x_i)` for all samples :math:`x_i`, which is what a
certificate judges and what a model predicts.

No kernel value is kept. Tiles of dot products small enough for the caches are made on all cores, by matrix products where
the samples are dense and by compiled code of the certificate's own where they are sparse, and the kernel is a function of
them. Nothing here is shared with a solver."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data import Array
from maxmargin.kernels import DENSE_FEATURES, RBF, Kernel, OfDotProducts, Points, dot_products
from maxmargin.threads import Crew, single_threaded_blas

VECTORS_A_TILE, SAMPLES_A_TILE = 512, 256
EVALUATIONS_TO_GROUP, MOST_DISTINCT = 1 << 24, 0.9
"""Equal rows are looked for when so many kernel values are to be made, and counted once when so few rows are distinct."""
MOST_NONZERO = 0.3
SAMPLES_A_TASK = 1024
"""A task is some milliseconds of work, so that both cores end together and Ctrl-C is heard."""


class Sums(NamedTuple):
    """f, and :math:`\\sum_j |s_j k(z_j, x_i)|`, by which the rounding error of f is measured."""

    outputs: Array
    magnitudes: Array


def kernel_sums(kernel: Kernel, points: Points, chosen: Array, signed: Array, samples: Points | None = None) -> Sums:
    """f at the samples, or at the points themselves, from the chosen points and their signed coefficients."""
    points = _sparse_where_mostly_zero(kernel, points, len(chosen))
    samples = points if samples is None else samples
    if _is_compiled(kernel, points) and _is_compiled(kernel, samples):
        if samples is points and len(chosen) * len(points) > EVALUATIONS_TO_GROUP:
            return _sums_of_distinct(kernel, points, chosen, signed)
        return _compiled_sums(kernel, points, chosen, signed, samples)
    n = len(samples)
    sums = Sums(np.zeros(n), np.zeros(n))
    crew = Crew(n * len(chosen))
    with single_threaded_blas():
        for first in range(0, len(chosen), VECTORS_A_TILE):
            part = slice(first, first + VECTORS_A_TILE)
            _add_tiles(crew, kernel, points[chosen[part]], signed[part], samples, sums)
    return sums


def _sparse_where_mostly_zero(kernel: Kernel, points: Points, n_chosen: int) -> Points:
    """Dense points as CSR where that is less work than matrix products, by enough to pay for it."""
    matrix = points.matrix
    if not isinstance(kernel, RBF) or sparse.issparse(matrix) or len(points) * n_chosen < EVALUATIONS_TO_GROUP:
        return points
    is_sparse = matrix.shape[1] <= DENSE_FEATURES and np.count_nonzero(matrix) < MOST_NONZERO * matrix.size
    return Points(sparse.csr_array(matrix), points.sqnorms) if is_sparse else points


def _is_compiled(kernel: Kernel, points: Points) -> bool:
    return isinstance(kernel, RBF) and sparse.issparse(points.matrix) and points.matrix.shape[1] <= DENSE_FEATURES


def _compiled_sums(kernel: Any, points: Points, chosen: Array, signed: Array, samples: Points) -> Sums:
    from maxmargin.compiled.kernel_certificate import judge_sparse

    n, scale = len(samples), -kernel.gamma / math.log(2.0)
    plus, minus = np.zeros(n), np.zeros(n)
    vectors, others = _arrays(points.matrix), _arrays(samples.matrix)
    width = points.matrix.shape[1]

    def task(start: int) -> None:
        stop = min(n, start + SAMPLES_A_TASK)
        judge_sparse(vectors, chosen, signed, points.sqnorms, others, samples.sqnorms, width, scale, start, stop, plus, minus)

    Crew(n * len(chosen)).run([(start,) for start in range(0, n, SAMPLES_A_TASK)], task)
    return Sums(plus - minus, plus + minus)


def _sums_of_distinct(kernel: Any, points: Points, chosen: Array, signed: Array) -> Sums:
    """Equal points have equal f, and equal support vectors of the same sign are one with the sum of their coefficients."""
    group, first = equal_points(points.matrix)
    if len(first) > MOST_DISTINCT * len(points):
        return _compiled_sums(kernel, points, chosen, signed, points)
    keys, place = np.unique(2 * group[chosen] + (signed > 0.0), return_inverse=True)
    distinct = points[first]
    sums = _compiled_sums(kernel, distinct, keys // 2, np.bincount(place, signed), distinct)
    return Sums(sums.outputs[group], sums.magnitudes[group])


def equal_points(matrix: Any) -> tuple[Array, Array]:
    """For each row of a CSR matrix the number of its set of equal rows, and the first row of each set. Rows that have the same
    product with a fixed vector are compared, neighbour by neighbour; equal rows between which another one comes are missed."""
    n, lengths = matrix.shape[0], np.diff(matrix.indptr)
    products = matrix @ np.cos(np.arange(1.0, matrix.shape[1] + 1.0))
    order = np.argsort(products, kind="stable")
    one, other = order[:-1], order[1:]
    is_equal = (products[one] == products[other]) & (lengths[one] == lengths[other])
    alike = np.flatnonzero(is_equal)
    is_equal[alike] = _are_equal(matrix, one[alike], other[alike], lengths)
    numbers = np.concatenate([[0], np.cumsum(~is_equal)]) if n else np.empty(0, np.intp)
    group = np.empty(n, np.intp)
    group[order] = numbers
    return group, order[np.flatnonzero(np.concatenate([[True], ~is_equal]))] if n else order


def _are_equal(matrix: Any, one: Array, other: Array, lengths: Array) -> Array:
    """Whether these pairs of rows, of equal lengths, have the same elements."""
    counts = lengths[one]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    a, b = np.repeat(matrix.indptr[one], counts) + within, np.repeat(matrix.indptr[other], counts) + within
    differs = (matrix.indices[a] != matrix.indices[b]) | (matrix.data[a] != matrix.data[b])
    return np.bincount(np.repeat(np.arange(len(one)), counts), differs, len(one)) == 0.0


def _arrays(matrix: Any) -> tuple[Array, Array, Array]:
    return matrix.data, matrix.indices, matrix.indptr


def _add_tiles(crew: Crew, kernel: Kernel, vectors: Points, signed: Array, samples: Points, sums: Sums) -> None:
    """Add what these support vectors give to every sample."""
    vectors = vectors.in_double() if isinstance(kernel, OfDotProducts) else vectors
    n = len(samples)

    def task(start: int) -> None:
        stop = min(n, start + SAMPLES_A_TASK)
        for first in range(start, stop, SAMPLES_A_TILE):
            here = slice(first, min(stop, first + SAMPLES_A_TILE))
            _add_tile(kernel, vectors, signed, samples[here], sums.outputs[here], sums.magnitudes[here])

    crew.run([(start,) for start in range(0, n, SAMPLES_A_TASK)], task)


def _add_tile(kernel: Kernel, vectors: Points, signed: Array, samples: Points, outputs: Array, magnitudes: Array) -> None:
    if isinstance(kernel, RBF):
        from maxmargin.compiled.kernel_certificate import add_rbf

        plus, minus = np.zeros(len(samples)), np.zeros(len(samples))
        scale = -kernel.gamma / math.log(2.0)
        everyone = np.arange(len(vectors))
        add_rbf(dot_products(vectors, samples), everyone, signed, vectors.sqnorms, samples.sqnorms, scale, plus, minus)
        outputs += plus - minus
        magnitudes += plus + minus
    else:
        block = kernel.block(vectors, samples)
        outputs += signed @ block
        magnitudes += np.abs(signed) @ np.abs(block, out=block)

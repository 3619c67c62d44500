r"""Sums of kernel values in float64, and how wrong they can be: :math:`f_i = \sum_j s_j k(z_j, x_i)` for all samples
:math:`x_i`, which is what a certificate judges and what a model predicts.

No kernel value is kept. All cores make tiles of dot products that fit into the caches, and apply the kernel to them. Dense
samples are multiplied by BLAS, sparse ones and those with few features by compiled code of the certificate's own. Where the
chosen points are many, a value between two of them is made once, for both of its sides. Nothing here is shared with a solver.

**Rounding, for the RBF kernel.** Let :math:`u = 2^{-53}`, G the greatest :math:`|x|^2`, and m the number of roundings that a
term of a dot product meets. Norms are right to 2u, a dot product to :math:`m u G`, so that :math:`|x - z|^2` is wrong by at
most :math:`u G (10 + 2 m)`, and after multiplication with gamma, which adds 3u of at most :math:`4 \gamma G`, the exponent by
:math:`u \gamma G (22 + 2 m)`. The exponential adds 2u. Where the samples are sparse, the terms are added in groups of eight,
and the groups with what each addition loses kept apart, so that a sum is wrong by 12u of the sum of the magnitudes. Where
they are dense, a term meets as many additions as a tile is wide and as there are tiles. To first order, for which 1% is
added. The kernel that makes its values from differences states its own bound (``problem.differences``)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.certificate import policy
from maxmargin.certificate.equal_points import equal_points
from maxmargin.certificate.rounding import gamma as roundings
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import Crew, single_threaded_blas
from maxmargin.problem import policy as problem_policy
from maxmargin.problem.kernels import SECOND_ORDER, Kernel, Points
from maxmargin.problem.losses import UNIT_ROUNDOFF

TASK_STEP = 64
"""Samples by which a task of compiled code grows."""
GROUP_ROUNDINGS = 12.0
"""Roundings of a sum in groups of eight, as derived above."""


class KernelSums(NamedTuple):
    """f, and a bound on the error of each element."""

    outputs: Array
    errors: Array

    @classmethod
    def of_columns(cls, gram: Any, signed: Array, n: int) -> KernelSums:
        """The sums from given kernel values: ``gram(rows)`` has a column for each coefficient."""
        outputs, magnitudes = np.zeros(n), np.zeros(n)
        for start in range(0, n, policy.KERNEL.vectors_a_tile):
            check_point()
            rows = slice(start, start + policy.KERNEL.vectors_a_tile)
            block = gram(rows)
            outputs[rows] = block @ signed
            magnitudes[rows] = np.abs(block, out=block) @ np.abs(signed)
        return cls(outputs, roundings(len(signed) + 2.0) * magnitudes)


def kernel_sums(kernel: Kernel, points: Points, chosen: Array, signed: Array, samples: Points | None = None) -> KernelSums:
    """f at the samples, or at the points themselves, from the chosen points and their signed coefficients."""
    if kernel.is_gaussian and kernel.dot_function is not None:
        return _rbf_sums(kernel, points, chosen, signed, samples)
    samples = points if samples is None else samples
    outputs, magnitudes = np.zeros(len(samples)), np.zeros(len(samples))

    def add(vectors: Points, part: slice, here: slice) -> None:
        block = kernel.quick_block(vectors, samples[here])
        outputs[here] += signed[part] @ block
        magnitudes[here] += np.abs(signed[part]) @ np.abs(block, out=block)

    _tiles(points, chosen, len(samples), add, may_share=not kernel.is_foreign)
    errors = kernel.sum_errors(points[chosen], np.abs(signed), samples) + roundings(len(chosen) + 2.0) * magnitudes
    return KernelSums(outputs, errors)


def _tiles(points: Points, chosen: Array, n: int, add: Any, may_share: bool = True) -> None:
    """``add(vectors, part, here)`` for every part of the chosen and every tile of the n samples, tiles on all cores if they
    may be."""
    crew = Crew(n * len(chosen) if may_share else 0)
    with single_threaded_blas():
        for first in range(0, len(chosen), policy.KERNEL.vectors_a_tile):
            part = slice(first, first + policy.KERNEL.vectors_a_tile)
            vectors = points[chosen[part]]

            def task(start: int, vectors: Points = vectors, part: slice = part) -> None:
                stop = min(n, start + policy.KERNEL.samples_a_task)
                for begin in range(start, stop, policy.KERNEL.samples_a_tile):
                    check_point()
                    add(vectors, part, slice(begin, min(stop, begin + policy.KERNEL.samples_a_tile)))

            crew.run([(start,) for start in range(0, n, policy.KERNEL.samples_a_task)], task)


def _rbf_sums(kernel: Any, points: Points, chosen: Array, signed: Array, samples: Points | None) -> KernelSums:
    is_large = len(chosen) * len(points if samples is None else samples) > policy.KERNEL.evaluations_to_prepare
    points = _prepared(points, is_large)
    others = points if samples is None else _prepared(samples, is_large)
    if not _are_narrow(points, others):
        return _tile_sums(kernel, points, chosen, signed, None if samples is None else others)
    if samples is not None or not is_large or not sparse.issparse(points.matrix):
        return _sparse_sums(kernel, points, chosen, signed, others)
    group, first = equal_points(points.matrix)
    if len(first) > policy.KERNEL.most_distinct * len(points):
        return _sparse_sums(kernel, points, chosen, signed, others)
    distinct = points[first]
    keys, place = np.unique(2 * group[chosen] + (signed > 0.0), return_inverse=True)
    scales, n_added = np.bincount(place, signed), float(np.bincount(place).max(initial=0))
    sums = _sparse_sums(kernel, distinct, keys // 2, scales, distinct, n_added)
    return KernelSums(sums.outputs[group], sums.errors[group])


def _prepared(points: Points, is_large: bool) -> Points:
    """The points with norms that are right to the last digit. A large dense matrix becomes CSR where enough of it is zero; a
    small sparse one becomes dense, which needs less compiled code."""
    from maxmargin.problem.kernel_loops import dense_sqnorms, sparse_sqnorms

    matrix = points.matrix
    if not is_large and sparse.issparse(matrix) and matrix.shape[0] * matrix.shape[1] <= policy.KERNEL.few_elements:
        matrix = matrix.toarray()
    if is_large and not sparse.issparse(matrix) and matrix.shape[1] <= problem_policy.KERNEL.dense_features:
        is_sparse = np.count_nonzero(matrix) < policy.KERNEL.most_nonzero * matrix.size
        matrix = sparse.csr_array(matrix) if is_sparse else matrix
    if sparse.issparse(matrix):
        return Points(matrix, sparse_sqnorms(*_arrays(matrix)))
    sqnorms = np.empty(len(matrix))
    dense_sqnorms(np.ascontiguousarray(matrix), sqnorms)
    return Points(matrix, sqnorms)


def _are_narrow(points: Points, samples: Points) -> bool:
    """Whether compiled code makes the sums at once: both are sparse with few features, or both dense with very few."""
    are_sparse = [sparse.issparse(each.matrix) for each in (points, samples)]
    n_features = points.matrix.shape[1]
    if any(are_sparse):
        return all(are_sparse) and n_features <= problem_policy.KERNEL.dense_features
    return n_features <= policy.KERNEL.few_features


def _rbf_error(kernel: Any, points: Points, samples: Points, n_additions: float) -> float:
    """The error of a sum, relative to the sum of the magnitudes: see the head of this module."""
    greatest = float(max(points.sqnorms.max(initial=0.0), samples.sqnorms.max(initial=0.0)))
    m = max(_dot_roundings(points.matrix), _dot_roundings(samples.matrix))
    exponent = kernel.gamma * greatest * (22.0 + 2.0 * m) * UNIT_ROUNDOFF
    return SECOND_ORDER * (math.expm1(min(exponent, 700.0)) + (2.0 + n_additions) * UNIT_ROUNDOFF)


def _dot_roundings(matrix: Any) -> float:
    """The roundings that a term of a dot product meets: one for each element, or in the compiled code four, and one for each
    four."""
    if not sparse.issparse(matrix):
        n_features = matrix.shape[1]
        return float(n_features // 4 + 8 if n_features <= policy.KERNEL.few_features else n_features + 1)
    most = np.diff(matrix.indptr).max(initial=0)
    return float(most + 1 if matrix.shape[1] > problem_policy.KERNEL.dense_features else most // 4 + 8)


def _sparse_sums(
    kernel: Any, points: Points, chosen: Array, signed: Array, samples: Points, n_added: float = 0.0
) -> KernelSums:
    """The sums with positive and with negative coefficients: their difference, and what it can be wrong by. Coefficients are
    themselves sums of up to ``n_added`` numbers."""
    if samples is points and _is_worth_halving(len(chosen), len(points)):
        plus, minus, n_more = _symmetric_sums(kernel, points, chosen, signed)
    else:
        n_more = 0
        plus, minus = (
            _positive_sums(kernel, points, chosen[is_here], np.abs(signed[is_here]), samples)
            for is_here in (signed > 0.0, signed < 0.0)
        )
    error = _rbf_error(kernel, points, samples, GROUP_ROUNDINGS + n_more)
    return KernelSums(plus - minus, (error + roundings(n_added)) * (plus + minus))


def _samples_a_task(n_vectors: int) -> int:
    """Samples of a task: a multiple of what a vector holds, unless a task may have fewer."""
    fitting = policy.KERNEL.values_a_task // max(1, n_vectors) // TASK_STEP * TASK_STEP
    return min(policy.KERNEL.samples_a_task, max(TASK_STEP, fitting))


def _is_worth_halving(n_chosen: int, n: int) -> bool:
    return n_chosen >= policy.KERNEL.symmetric_share * n and n_chosen**2 > policy.KERNEL.values_to_halve


def _symmetric_sums(kernel: Any, points: Points, chosen: Array, signed: Array) -> tuple[Array, Array, int]:
    """The same at the points themselves. Among the chosen ones a value is computed once, for both of its sides; the parts of
    the tasks are added in one order, and how many there are is the third number."""
    is_first, is_chosen = signed > 0.0, np.zeros(len(points), np.bool_)
    order = np.concatenate([np.flatnonzero(is_first), np.flatnonzero(signed < 0.0)])
    is_chosen[chosen] = True
    plus, minus = np.zeros((2, len(points)))
    among, n_parts = _sums_among_rows(kernel, points[chosen[order]], np.abs(signed[order]), int(is_first.sum()))
    plus[chosen[order]], minus[chosen[order]] = among
    others = points[~is_chosen]
    for side, is_here in ((plus, is_first), (minus, signed < 0.0)):
        side[~is_chosen] = _positive_sums(kernel, points, chosen[is_here], np.abs(signed[is_here]), others)
    return plus, minus, n_parts


def _sums_among_rows(kernel: Any, vectors: Points, scales: Array, n_first: int) -> tuple[Array, int]:
    """The sums at the vectors: those over the first of them, and those over the others."""
    from maxmargin.certificate.kernel_sum_loops import LANES, JudgedSums, judge_among

    n, rows, size = len(vectors), _elements(vectors.matrix), _samples_a_task(len(vectors))
    log2_scale = -kernel.gamma / math.log(2.0)
    job = JudgedSums(rows, np.array([n_first]), scales, vectors.sqnorms, rows, vectors.sqnorms, log2_scale)
    starts = [*range(0, n_first, size), *range(n_first, n, size)]
    sums, crew, a_turn = np.zeros((2, n)), Crew(n * n // 2), policy.KERNEL.strips_a_turn

    def task(start: int) -> Array:
        totals, rests = np.zeros((2, 2, n))
        stop = min(n_first if start < n_first else n, start + size)
        judge_among(job, start, stop, np.zeros((vectors.matrix.shape[1] + 5) * int(LANES)), totals, rests)
        return np.asarray(totals + rests)

    for begin in range(0, len(starts), a_turn):
        for found in crew.run([(start,) for start in starts[begin : begin + a_turn]], task):
            sums += found
    return sums, len(starts)


def _positive_sums(kernel: Any, points: Points, chosen: Array, scales: Array, samples: Points) -> Array:
    from maxmargin.certificate.kernel_sum_loops import LANES, JudgedSums, judge_rows

    n, totals, rests = len(samples), np.zeros(len(samples)), np.zeros(len(samples))
    vectors, others = _elements(points.matrix), _elements(samples.matrix)
    log2_scale = -kernel.gamma / math.log(2.0)
    job = JudgedSums(vectors, chosen, scales, points.sqnorms, others, samples.sqnorms, log2_scale)

    size = _samples_a_task(len(chosen))

    def task(start: int) -> None:
        columns = np.zeros((points.matrix.shape[1] + 5) * int(LANES))
        judge_rows(job, start, min(n, start + size), columns, totals, rests)

    Crew(n * len(chosen)).run([(start,) for start in range(0, n, size)], task)
    return totals + rests


def _tile_sums(kernel: Any, points: Points, chosen: Array, signed: Array, samples: Points | None) -> KernelSums:
    """The sums from tiles of kernel values, and their products with the coefficients and with the magnitudes of those."""
    vectors, scales = points[chosen], np.stack([signed, np.abs(signed)])
    others = points if samples is None else samples
    with single_threaded_blas():
        if samples is not None:
            sums = _sums_at(kernel, vectors, scales, samples, np.arange(len(samples)))
        else:
            is_chosen = np.zeros(len(points), np.bool_)
            is_chosen[chosen] = True
            sums = np.empty((2, len(points)))
            sums[:, chosen] = _sums_among(kernel, vectors, scales)
            sums[:, ~is_chosen] = _sums_at(kernel, vectors, scales, points, np.flatnonzero(~is_chosen))
    n_additions = min(len(chosen), policy.KERNEL.vectors_a_tile) + -(-len(chosen) // policy.KERNEL.samples_a_tile) + 2.0
    return KernelSums(sums[0], _rbf_error(kernel, points, others, n_additions) * sums[1])


def _sums_at(kernel: Any, vectors: Points, scales: Array, samples: Points, places: Array) -> Array:
    """sum_j scales_j k(z_j, x) for the samples x at these places and either row of scales. Samples are gathered a tile at a
    time: to gather all of a wide set at once takes half a second, in which no limit is heard."""
    n, sums = len(places), np.zeros((2, len(places)))

    def task(start: int) -> None:
        for begin in range(start, min(n, start + policy.KERNEL.samples_a_task), policy.KERNEL.samples_a_tile):
            here = slice(begin, min(n, start + policy.KERNEL.samples_a_task, begin + policy.KERNEL.samples_a_tile))
            x = samples[places[here]]
            for first in range(0, len(vectors), policy.KERNEL.vectors_a_tile):
                check_point()
                part = slice(first, first + policy.KERNEL.vectors_a_tile)
                tile = kernel.quick_block(x, vectors[part])
                for row, one in zip(sums, scales, strict=True):  # twice a product with a vector is faster than one with two
                    row[here] += tile @ one[part]

    Crew(n * len(vectors)).run([(start,) for start in range(0, n, policy.KERNEL.samples_a_task)], task)
    return sums


def _sums_among(kernel: Any, vectors: Points, scales: Array) -> Array:
    """The same at the vectors themselves. A task makes the tiles from the diagonal to the right for some of them, and says what
    these add to its own sums and to those after; the parts are added in one order, whoever made them."""
    n = len(vectors)

    def task(start: int) -> Array:
        here = slice(start, min(n, start + policy.KERNEL.samples_a_tile))
        x, width, found = vectors[here], here.stop - start, np.zeros((2, n - start))
        tile = kernel.quick_block(x, x)
        for row, one in zip(found, scales, strict=True):
            row[:width] = tile @ one[here]
        for first in range(here.stop, n, policy.KERNEL.vectors_a_tile):
            check_point()
            part = slice(first, min(n, first + policy.KERNEL.vectors_a_tile))
            tile = kernel.quick_block(x, vectors[part])
            for row, one in zip(found, scales, strict=True):
                row[:width] += tile @ one[part]
                row[part.start - start : part.stop - start] = one[here] @ tile
        return found

    sums, crew = np.zeros((2, n)), Crew(n * n // 2)
    size = policy.KERNEL.samples_a_tile
    a_turn = policy.KERNEL.strips_a_turn * size
    for begin in range(0, n, a_turn):
        starts = range(begin, min(n, begin + a_turn), size)
        for start, found in zip(starts, crew.run([(start,) for start in starts], task), strict=True):
            sums[:, start:] += found
    return sums


def _dense(points: Points) -> Array:
    return np.asarray(points.matrix.toarray() if sparse.issparse(points.matrix) else points.matrix)


def _arrays(matrix: Any) -> tuple[Array, Array, Array]:
    return matrix.data, matrix.indices, matrix.indptr


def _elements(matrix: Any) -> Any:
    """The matrix in the form that the certificate's loop takes."""
    return _arrays(matrix) if sparse.issparse(matrix) else np.ascontiguousarray(matrix)

"""The certificate's own sums of RBF values, from rows to sums in one loop: no tile of values is kept.

Sums over support vectors j, for samples i, of scale_j k(x_j, x_i), all positive: totals_i, and what its additions have lost
in rests_i. The loops write their vector instructions themselves: one rounding where ``fma`` is written, sums in the order that
is written, and nothing left to the compiler. Nothing here is shared with a solver.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maxmargin.data.caching import njit
from maxmargin.data.lanes import (
    INDEX,
    address,
    clipped,
    constant,
    counted,
    lanes,
    load,
    power_of_two,
    spread,
    store,
    total_of_lanes,
)
from maxmargin.data.lanes import fma as lane_fma
from maxmargin.data.rows import Array
from maxmargin.problem.kernel_loops import LEAST, P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, SHIFT

LANES = np.uint64(lanes(8))
"""Samples whose sums are made at a time."""
ZERO, ONE, TWO, THREE, FOUR, FIVE = (np.uint64(k) for k in range(6))
GROUP = np.uint64(8)
"""Support vectors that are added up before they are added to the rest."""


class JudgedSums(NamedTuple):
    """What ``judge_rows`` adds up. The support vectors are the chosen rows of ``vectors``. Both matrices are CSR, (values,
    indices, indptr), or both are dense arrays. ``log2_scale`` is -gamma / ln 2."""

    vectors: Any
    chosen: Array
    scales: Array
    sqnorms: Array
    samples: Any
    sample_sqnorms: Array
    log2_scale: float


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def judge_rows(job, start, stop, columns, totals, rests):
    """RBF sums for the samples start <= i < stop. LANES samples are made dense and transposed at a time: ``columns``, zero
    before and after, has a line for each feature, and five more: one for ``judge_among``, and those for the squared norms, the
    sums of GROUP support vectors, the totals and the rests."""
    end, n_chosen = np.uint64(stop), np.uint64(job.chosen.shape[0])
    norms = np.uint64(columns.shape[0]) - FOUR * LANES
    for first in range(np.uint64(start), end, LANES):
        count = min(LANES, end - first)
        put_columns(job.samples, first, first + count, 1.0, LANES, columns)
        for i in range(count):
            columns[norms + i] = job.sample_sqnorms[first + i]
        for j in range(n_chosen):
            add_rbf_values(job, np.uint64(job.chosen[j]), job.scales[j], columns)
            if (j + ONE) % GROUP == ZERO or j + ONE == n_chosen:
                fold_group(columns)
        for i in range(count):
            totals[first + i] = columns[norms + TWO * LANES + i]
            rests[first + i] = columns[norms + THREE * LANES + i]
        put_columns(job.samples, first, first + count, 0.0, LANES, columns)
        for i in range(FOUR * LANES):
            columns[norms + i] = 0.0


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def judge_among(job, start, stop, columns, totals, rests):
    """RBF sums among the support vectors, each value once: the rows start <= i < stop, of one sign, meet those from i on.

    ``job.samples`` is not looked at, and the vectors are all rows: first those with positive coefficients, ``job.chosen[0]`` in
    number. totals[0] and rests[0] are the sums over them, totals[1] and rests[1] those over the others. The first of the five
    lines is for the coefficients."""
    top, bottom, n_first = np.uint64(start), np.uint64(stop), np.uint64(job.chosen[0])
    n, extra = np.uint64(job.scales.shape[0]), np.uint64(columns.shape[0]) - FIVE * LANES
    own = ZERO if top < n_first else ONE
    for first in range(top, bottom, LANES):
        last = min(bottom, first + LANES)
        put_columns(job.vectors, first, last, 1.0, LANES, columns)
        for i in range(first, last):
            columns[extra + i - first], columns[extra + LANES + i - first] = job.scales[i], job.sqnorms[i]
        for side in range(own, TWO):
            begin, end = first if side == own else n_first, n_first if side == ZERO else n
            for j in range(begin, end):
                back = add_rbf_values(job, j, job.scales[j], columns)
                if j >= last:
                    add_to_total(totals, rests, own, j, back)
                if (j - begin + ONE) % GROUP == ZERO or j + ONE == end:
                    fold_group(columns)
            for i in range(first, last):
                place = extra + THREE * LANES + i - first
                add_to_total(totals, rests, side, i, columns[place])
                rests[side, i] += columns[place + LANES]
                columns[place] = columns[place + LANES] = 0.0
        put_columns(job.vectors, first, last, 0.0, LANES, columns)
        for i in range(FIVE * LANES):
            columns[extra + i] = 0.0


@njit(inline="always")
def add_to_total(totals, rests, side, i, more):
    """Add ``more`` to totals[side, i], and the rounding error of the sum to the rests."""
    total = totals[side, i]
    new = total + more
    added = new - total
    rests[side, i] += (total - (new - added)) + (more - added)
    totals[side, i] = new


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def put_columns(samples, first, last, scale, width, columns):
    """The samples first <= i < last, made dense and transposed: columns[k width + i - first] = scale x_ik."""
    top, lanes = np.uint64(first), np.uint64(width)
    for i in range(top, np.uint64(last)):
        begin, end = row_ends(samples, i)
        for s in range(begin, end):
            columns[feature_at(samples, s, begin) * lanes + i - top] = scale * np.float64(number_at(samples, s))


def _elements(context, builder, kind, matrix, field):
    """The numbers of a matrix, or the ``field`` of a CSR matrix, and their type."""
    if isinstance(kind, types.Array):
        return context.make_array(kind)(context, builder, matrix).data, kind.dtype
    array = context.make_array(kind.types[field])(context, builder, builder.extract_value(matrix, field))
    return array.data, kind.types[field].dtype


def _whole_number(context, builder, kind, matrix, field, place):
    data, number = _elements(context, builder, kind, matrix, field)
    return context.cast(builder, builder.load(builder.gep(data, [place])), number, types.uint64)


def _row_ends(context, builder, kind, matrix, i):
    if isinstance(kind, types.Array):
        width = builder.extract_value(context.make_array(kind)(context, builder, matrix).shape, 1)
        begin = builder.mul(i, width)
        return begin, builder.add(begin, width)
    return tuple(_whole_number(context, builder, kind, matrix, 2, builder.add(i, INDEX(more))) for more in (0, 1))


def _feature_at(context, builder, kind, matrix, place, begin):
    return (
        builder.sub(place, begin) if isinstance(kind, types.Array) else _whole_number(context, builder, kind, matrix, 1, place)
    )


@intrinsic
def row_ends(typing_context, matrix, i):
    """Where the elements of row i begin and end among all elements."""

    def generate(context, builder, signature, arguments):
        return context.make_tuple(builder, signature.return_type, _row_ends(context, builder, matrix, *arguments))

    return types.UniTuple(types.uint64, 2)(matrix, types.uint64), generate


@intrinsic
def feature_at(typing_context, matrix, place, begin):
    """The feature of an element, whose row begins at ``begin``."""

    def generate(context, builder, signature, arguments):
        return _feature_at(context, builder, matrix, *arguments)

    return types.uint64(matrix, types.uint64, types.uint64), generate


@intrinsic
def number_at(typing_context, matrix, place):
    def generate(context, builder, signature, arguments):
        data, _ = _elements(context, builder, matrix, arguments[0], 0)
        return builder.load(builder.gep(data, [arguments[1]]))

    return (matrix.dtype if isinstance(matrix, types.Array) else matrix.types[0].dtype)(matrix, types.uint64), generate


@intrinsic
def add_rbf_values(typing_context, job, j, scale, columns):
    """Add scale k(x_j, x_i) to the sums of the samples i in ``columns``, for row j of the vectors. The answer is the sum over i
    of k(x_j, x_i) times the coefficients in ``columns``: no term of it goes through more than six roundings."""

    def generate(context, builder, signature, arguments):
        job_value, j, scale, columns = arguments
        lines = context.make_array(signature.args[3])(context, builder, columns)
        dots = _dot_products(context, builder, job.types[0], builder.extract_value(job_value, 0), j, lines.data)
        last = builder.gep(lines.data, [builder.extract_value(lines.shape, 0)])
        norms = load(builder, builder.gep(last, [INDEX(-4 * dots.type.count)]), dots.type)
        here = builder.load(address(context, builder, job.types[3], builder.extract_value(job_value, 3), j))
        square = lane_fma(builder, constant(dots.type, -2.0), dots, builder.fadd(spread(builder, here, dots.type), norms))
        values = _exp2(
            builder,
            builder.fmul(spread(builder, builder.extract_value(job_value, 6), dots.type), clipped(builder, ">", square, 0.0)),
        )
        sums = builder.gep(last, [INDEX(-3 * dots.type.count)])
        store(builder, lane_fma(builder, spread(builder, scale, dots.type), values, load(builder, sums, dots.type)), sums)
        coefficients = load(builder, builder.gep(last, [INDEX(-5 * dots.type.count)]), dots.type)
        return total_of_lanes(builder, builder.fmul(coefficients, values))

    return types.float64(job, types.uint64, types.float64, columns), generate


def _dot_products(context, builder, kind, matrix, j, lines):
    """sum_k x_jk times line k, four elements at a time: no term goes through more roundings than the number of fours and
    seven."""
    vector, (begin, end) = ir.VectorType(ir.DoubleType(), int(LANES)), _row_ends(context, builder, kind, matrix, j)
    data, number = _elements(context, builder, kind, matrix, 0)

    def term(place):
        value = context.cast(builder, builder.load(builder.gep(data, [place])), number, types.float64)
        feature = _feature_at(context, builder, kind, matrix, place, begin)
        line = load(builder, builder.gep(lines, [builder.mul(feature, INDEX(vector.count))]), vector)
        return spread(builder, value, vector), line

    def add_four(place, total):
        (a, b, c, d) = (term(builder.add(place, INDEX(more))) for more in range(4))
        first = lane_fma(builder, *a, builder.fmul(*b))
        return builder.fadd(total, lane_fma(builder, *c, lane_fma(builder, *d, first)))

    place, total = counted(builder, begin, end, 4, constant(vector, 0.0), add_four)
    return counted(builder, place, end, 1, total, lambda place, total: lane_fma(builder, *term(place), total))[1]


def _exp2(builder, x):
    """2^x for x <= 0, within two units in the last place; below the normal numbers, the least of them."""
    vector = x.type
    x = clipped(builder, ">", x, LEAST)
    whole = builder.fadd(x, constant(vector, SHIFT))
    r = builder.fsub(x, builder.fsub(whole, constant(vector, SHIFT)))
    p = constant(vector, P10)
    for coefficient in (P9, P8, P7, P6, P5, P4, P3, P2, P1, P0, 1.0):
        p = lane_fma(builder, p, r, constant(vector, coefficient))
    return builder.fmul(p, power_of_two(builder, whole))


@intrinsic
def fold_group(typing_context, columns):
    """Add the sums to the totals, with what the addition loses added to the rests, and begin the next sums at zero."""

    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(ir.DoubleType(), int(LANES))
        lines = context.make_array(signature.args[0])(context, builder, arguments[0])
        last = builder.gep(lines.data, [builder.extract_value(lines.shape, 0)])
        places = [builder.gep(last, [INDEX(-k * vector.count)]) for k in (3, 2, 1)]
        sums, total, rest = (load(builder, place, vector) for place in places)
        new = builder.fadd(total, sums)
        added = builder.fsub(new, total)
        lost = builder.fadd(builder.fsub(total, builder.fsub(new, added)), builder.fsub(sums, added))
        for value, place in zip((constant(vector, 0.0), new, builder.fadd(rest, lost)), places, strict=True):
            store(builder, value, place)
        return context.get_dummy_value()

    return types.void(columns), generate

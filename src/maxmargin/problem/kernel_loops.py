"""The kernel certificate's own pass over X: nothing here is shared with a solver, and nothing uses fast-math.

Sums over support vectors j, for samples i, of scale_j k(x_j, x_i), all positive: totals_i, and what its additions have lost
in rests_i. No loop over samples is a reduction, so all of them run in vectors without a licence to reorder sums. ``fma``
rounds a b + c once: it is written where it is meant, not left to the compiler.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maxmargin.data.caching import njit
from maxmargin.data.error_free_loops import fma
from maxmargin.data.lanes import INDEX, address, clipped, constant, counted, lanes, load, power_of_two, spread, store
from maxmargin.data.lanes import fma as lane_fma
from maxmargin.data.rows import Array

SHIFT = 1.5 * 2.0**52
"""x + SHIFT has no room for a fraction: its low bits are x rounded to a whole number."""
MANTISSA_BITS, ONE_BITS = np.int64(52), np.int64(1023 << 52)
LEAST = -1022.0
LANES = np.uint64(lanes(8))
"""Samples whose sums are made at a time."""
ONE, TWO, THREE, FOUR = (np.uint64(k) for k in range(1, 5))
GROUP = np.uint64(8)
"""Support vectors that are added up before they are added to the rest."""
SUMMED_SAMPLES, TERMS_A_BLOCK = 1024, 32
"""Up to so many samples have their terms added up in blocks of so many: no term goes through more than 64 roundings."""


P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10 = (
    float(power)
    for power in [
        "0.6931471805599453",
        "0.24022650695910097",
        "0.0555041086648216",
        "0.009618129107606888",
        "0.0013333558146416936",
        "0.0001540353044173605",
        "1.525273382983612e-05",
        "1.321544258792169e-06",
        "1.0178062445845774e-07",
        "7.072585949269223e-09",
        "4.4549605981865186e-10",
    ]
)
"""The polynomial that is (2^r - 1) / r at the Chebyshev nodes of |r| <= 1/2. A test computes it again in rational arithmetic,
which takes 0.07 s: too long for every process that fits."""


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


@njit(cache=True, nogil=True, boundscheck=False)
def judge_rows(job, start, stop, columns, totals, rests):
    """RBF sums for the samples start <= i < stop. LANES samples are made dense and transposed at a time: ``columns``, zero
    before and after, has a line for each feature, and four more for their squared norms, the sums of GROUP support vectors,
    the totals and the rests."""
    start, stop, n_chosen = np.uint64(start), np.uint64(stop), np.uint64(job.chosen.shape[0])
    norms = np.uint64(columns.shape[0]) - FOUR * LANES
    for first in range(start, stop, LANES):
        count = min(LANES, stop - first)
        put_columns(job.samples, first, first + count, 1.0, LANES, columns)
        for i in range(count):
            columns[norms + i] = job.sample_sqnorms[first + i]
        for j in range(n_chosen):
            add_rbf_values(job, np.uint64(job.chosen[j]), job.scales[j], columns)
            if (j + ONE) % GROUP == np.uint64(0) or j + ONE == n_chosen:
                fold_group(columns)
        for i in range(count):
            totals[first + i] = columns[norms + TWO * LANES + i]
            rests[first + i] = columns[norms + THREE * LANES + i]
        put_columns(job.samples, first, first + count, 0.0, LANES, columns)
        for i in range(FOUR * LANES):
            columns[norms + i] = 0.0


@njit(cache=True, nogil=True, boundscheck=False)
def put_columns(samples, first, last, scale, width, columns):
    """The samples first <= i < last, made dense and transposed: columns[k width + i - first] = scale x_ik."""
    first, width = np.uint64(first), np.uint64(width)
    for i in range(first, np.uint64(last)):
        begin, end = row_ends(samples, i)
        for s in range(begin, end):
            columns[feature_at(samples, s, begin) * width + i - first] = scale * np.float64(number_at(samples, s))


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
    """Add scale k(x_j, x_i) to the sums of the samples i in ``columns``, for row j of the vectors."""

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
        return context.get_dummy_value()

    return types.void(job, types.uint64, types.float64, columns), generate


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


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def rbf_values(products, sqnorms, other_sqnorms, log2_scale, power, bits):
    """exp(-gamma |x_j - z_i|^2) in the place of each x_j . z_i. ``power`` is memory for one row, and ``bits`` are its bits: to
    allocate and to view inside takes a quarter of a second to compile."""
    for j in range(np.uint64(products.shape[0])):
        halve_exponent(products, j, sqnorms[j], other_sqnorms, log2_scale, power, bits)
        for i in range(np.uint64(other_sqnorms.shape[0])):
            products[j, i] *= power[i]


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def held_outputs(values, signed, outputs):
    """f_i = sum_j s_j K_ij, added to ``outputs``, from a symmetric matrix that is held: a row for each s_j that is not zero."""
    n = np.uint64(signed.shape[0])
    for j in range(n):
        scale = signed[j]
        if scale != 0.0:
            for i in range(n):
                outputs[i] = fma(scale, values[j, i], outputs[i])


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def hinge_sums(outputs, errors, alpha, y, C, b, own_error):
    """Everything that the certificate with hinge loss adds up over at most SUMMED_SAMPLES samples: C_i loss_i, gap terms,
    what an error of the output does to each, of alpha_i y_i f_i, of alpha_i, of alpha_i y_i and of alpha_i |1 - y_i f_i|;
    and how many alpha_i > 0 are C_i. The error of a margin is ``errors`` and ``own_error`` (1 + |margin| + |b|)."""
    losses = gaps = roundings = sqnorms = totals = imbalances = slopes = 0.0
    n, n_at_bound = np.uint64(outputs.shape[0]), 0
    for first in range(np.uint64(0), n, np.uint64(TERMS_A_BLOCK)):
        loss = gap = rounding = sqnorm = total = imbalance = slope = 0.0
        last = first + np.uint64(TERMS_A_BLOCK)
        for i in range(first, last if last < n else n):
            margin = y[i] * (outputs[i] + b)
            slack, room, a = 1.0 - margin, C[i] - alpha[i], alpha[i]
            below, above = 0.0 if slack < 0.0 else slack, 0.0 if slack > 0.0 else -slack  # what is not a number stays that
            error = errors[i] + own_error * (1.0 + abs(margin) + abs(b))
            is_in_doubt = abs(slack) <= error
            steepest = room if (room > a if is_in_doubt else slack > 0.0) else a
            loss += C[i] * below
            gap += room * below + a * above
            rounding += steepest * error
            sqnorm += a * y[i] * outputs[i]
            total += a
            imbalance += a * y[i]
            slope += a * abs(1.0 - y[i] * outputs[i])
            n_at_bound += a == C[i] and a > 0.0
        losses, gaps, roundings, sqnorms = losses + loss, gaps + gap, roundings + rounding, sqnorms + sqnorm
        totals, imbalances, slopes = totals + total, imbalances + imbalance, slopes + slope
    return losses, gaps, roundings, sqnorms, totals, imbalances, slopes, n_at_bound


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


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def dense_sqnorms(matrix, sqnorms):
    """sqnorms_i = |x_i|^2 right to the last digit."""
    for i in range(matrix.shape[0]):
        total = rest = 0.0
        for k in range(matrix.shape[1]):
            total, rest = add_square(np.float64(matrix[i, k]), total, rest)
        sqnorms[i] = total + rest


@njit(inline="always")
def add_square(x, total, rest):
    """total + x^2, with what the square and the addition lose added to the rest."""
    square = x * x
    new = total + square
    added = new - total
    return new, rest + (fma(x, x, -square) + ((total - (new - added)) + (square - added)))

"""The certificate's own pass over X: nothing here is shared with a solver, and nothing uses fast-math.

For the rows start <= i < stop, in float64: outputs[i - start] = w . x_i, magnitudes[i - start] = sum_j |w_j x_ij|,
squares[i - start] = |x_i|^2 without the constant feature, and weights += signed_alpha_i x_i. Every x_i ends with the constant
feature ``bias``, whose weight is ``bias_weight`` and the last of ``weights``. Returned is sum_i |signed_alpha_i x_i|, the scale
of the rounding error in ``weights``. ``pair`` is a ``JudgedPair`` of ``linear_sums.py``, and ``sums`` a ``RowSums``.

The sums of a row are made in two parts where X is sparse, and in four where it is dense. No term goes through more than the
k + 3 roundings that ``linear_sums.operations`` counts for a row of k elements. In two parts these are the product, at most
(k + 1) / 2 additions, and one that joins the parts. In four parts they are the product, k / 4 additions, of which the first
is exact because it adds to zero, two that join the parts, at most three of the last elements, and that of the constant
feature: at most k / 4 + 6, rounded down, which is no more than k + 3 where k is four or more. A row of three elements or fewer
has no parts.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maxmargin.data.caching import njit
from maxmargin.data.lanes import INDEX, absolute, add_fours, address, constant, counted_all, total_of_lanes

ONE, TWO, FOUR = (np.uint64(k) for k in (1, 2, 4))
"""Unsigned, as indices are: a signed one takes a test at every access, which is a fifth of the time of a pass."""


@njit(inline="always")
def csr_sums(rows, i, w, bias_weight):
    """w . x_i, sum_j |w_j x_ij| and |x_i|^2. Two sums of each are made at once: a sum waits for its last addition."""
    values, indices, indptr, bias = rows
    output, magnitude, square = bias * bias_weight, abs(bias * bias_weight), 0.0
    output_2 = magnitude_2 = square_2 = 0.0
    begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + ONE])
    whole = end - (end - begin) % TWO
    for k in range(begin, whole, TWO):
        value, value_2 = np.float64(values[k]), np.float64(values[k + ONE])
        term, term_2 = value * w[np.uint64(indices[k])], value_2 * w[np.uint64(indices[k + ONE])]
        output += term
        output_2 += term_2
        magnitude += abs(term)
        magnitude_2 += abs(term_2)
        square += value * value
        square_2 += value_2 * value_2
    if whole < end:
        value = np.float64(values[whole])
        term = value * w[np.uint64(indices[whole])]
        output += term
        magnitude += abs(term)
        square += value * value
    return output + output_2, magnitude + magnitude_2, square + square_2


@njit(inline="always")
def csr_add(rows, i, alpha, weights):
    """weights += alpha x_i, without the constant feature."""
    values, indices, indptr, _ = rows
    for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + ONE])):
        weights[np.uint64(indices[k])] += alpha * np.float64(values[k])


@njit(cache=True, allocates=False, nogil=True)
def judge_csr_rows(rows, start, stop, pair, sums):
    bias = rows.bias
    w, bias_weight, signed_alpha = pair
    outputs, magnitudes, squares, weights = sums
    first, last, scale = np.uint64(start), np.uint64(weights.shape[0] - 1), 0.0
    for i in range(first, np.uint64(stop)):
        output, magnitude, square = csr_sums(rows, i, w, bias_weight)
        outputs[i - first] = output
        magnitudes[i - first] = magnitude
        squares[i - first] = square
        alpha = signed_alpha[i - first]
        if alpha != 0.0:
            csr_add(rows, i, alpha, weights)
            weights[last] += alpha * bias
            scale += abs(alpha) * np.sqrt(square + bias * bias)
    return scale


@intrinsic
def _sums_of_fours(typing_context, values, place, w, length):
    """sum_k w_k x_k, sum_k |w_k x_k| and sum_k x_k^2 over 0 <= k < length, a multiple of four, with x_k the number at ``place``
    + k of ``values``, counted flat. Four sums of each are made at once, of which the first two are added to the last two, and
    then the two that are left: without fast-math LLVM makes no such sums of a loop."""
    four, number = ir.VectorType(ir.DoubleType(), 4), values.dtype

    def generate(context, builder, signature, arguments):
        values_type, _, w_type, _ = signature.args
        first, start, weights, stop = arguments
        stored = ir.VectorType(context.get_value_type(number), four.count)

        def loaded(array_type, array, where, kind):
            pointer = builder.bitcast(address(context, builder, array_type, array, where), kind.as_pointer())
            return builder.load(pointer, align=array_type.dtype.bitwidth // 8)

        def add(k, sums):
            x = loaded(values_type, first, builder.add(start, k), stored)
            x = x if stored == four else builder.fpext(x, four)
            term = builder.fmul(x, loaded(w_type, weights, k, four))
            terms = term, absolute(builder, term), builder.fmul(x, x)
            return [builder.fadd(total, more) for total, more in zip(sums, terms, strict=True)]

        _, sums = counted_all(builder, INDEX(0), stop, four.count, [constant(four, 0.0)] * 3, add)
        return context.make_tuple(builder, signature.return_type, [total_of_lanes(builder, each) for each in sums])

    return types.UniTuple(types.float64, 3)(values, types.uint64, w, types.uint64), generate


@njit(inline="always")
def dense_sums(rows, i, w, bias_weight):
    """w . x_i, sum_j |w_j x_ij| and |x_i|^2."""
    values, bias = rows
    last = np.uint64(values.shape[1])
    whole = last - last % FOUR
    output, magnitude, square = _sums_of_fours(values, i * last, w, whole)
    for j in range(whole, last):
        value = np.float64(values[i, j])
        term = value * w[j]
        output += term
        magnitude += abs(term)
        square += value * value
    return output + bias * bias_weight, magnitude + abs(bias * bias_weight), square


@intrinsic
def _add_fours(typing_context, values, place, scale, weights):
    """weights_k += scale x_k for all whole fours of a row of ``values``, which begins at ``place``, counted flat. Returned is
    the first k that is left. LLVM cannot know that the two do not overlap, and tests that in each row."""

    def generate(context, builder, signature, arguments):
        values_type, _, _, weights_type = signature.args
        first, start, factor, sums = arguments
        x = address(context, builder, values_type, first, start)
        w = address(context, builder, weights_type, sums, INDEX(0))
        length = builder.extract_value(context.make_array(values_type)(context, builder, first).shape, 1)
        return add_fours(context, builder, (x, w), (values_type.dtype, weights_type.dtype), factor, length)

    return types.uint64(values, types.uint64, types.float64, weights), generate


@njit(inline="always")
def dense_add(rows, i, alpha, weights):
    """weights += alpha x_i, without the constant feature."""
    values = rows.values
    for j in range(_add_fours(values, i * np.uint64(values.shape[1]), alpha, weights), np.uint64(values.shape[1])):
        weights[j] += alpha * np.float64(values[i, j])


@njit(cache=True, allocates=False, nogil=True)
def judge_dense_rows(rows, start, stop, pair, sums):
    bias = rows.bias
    w, bias_weight, signed_alpha = pair
    outputs, magnitudes, squares, weights = sums
    first, last, scale = np.uint64(start), np.uint64(weights.shape[0] - 1), 0.0
    for i in range(first, np.uint64(stop)):
        output, magnitude, square = dense_sums(rows, i, w, bias_weight)
        outputs[i - first] = output
        magnitudes[i - first] = magnitude
        squares[i - first] = square
        alpha = signed_alpha[i - first]
        if alpha != 0.0:
            dense_add(rows, i, alpha, weights)
            weights[last] += alpha * bias
            scale += abs(alpha) * np.sqrt(square + bias * bias)
    return scale

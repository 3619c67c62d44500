"""The certificate's own pass over X: nothing here is shared with a solver, and nothing uses fast-math.

For the rows start <= i < stop, in float64: outputs[i - start] = w . x_i, magnitudes[i - start] = sum_j |w_j x_ij|,
squares[i - start] = |x_i|^2 without the constant feature, and weights += signed_alpha_i x_i. Every x_i ends with the constant
feature ``bias``, whose weight is ``bias_weight`` and the last of ``weights``. Returned is sum_i |signed_alpha_i x_i|, the scale
of the rounding error in ``weights``. The sums of a row are made of two or four parts. A term goes through one product and no
more additions than where all terms are added one after the other, so that the bound on rounding is the same. ``pair`` is a
``JudgedPair`` of ``linear_sums.py``, and ``sums`` a ``RowSums``.
"""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit

ZERO, ONE, TWO, THREE, FOUR = (np.uint64(k) for k in range(5))
"""Unsigned, as indices are: a signed one takes a test at every access, which is a fifth of the time of a pass."""


@njit(cache=True, allocates=False, nogil=True)
def judge_csr_rows(rows, start, stop, pair, sums):
    values, indices, indptr, bias = rows
    w, bias_weight, signed_alpha = pair
    outputs, magnitudes, squares, weights = sums
    first, last, scale = np.uint64(start), np.uint64(weights.shape[0] - 1), 0.0
    for i in range(first, np.uint64(stop)):
        output, magnitude, square = bias * bias_weight, abs(bias * bias_weight), 0.0
        output_2 = magnitude_2 = square_2 = 0.0
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + ONE])
        whole = end - (end - begin) % TWO
        for k in range(begin, whole, TWO):  # two sums at once, as below: a sum waits for its last addition
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
        square += square_2
        outputs[i - first] = output + output_2
        magnitudes[i - first] = magnitude + magnitude_2
        squares[i - first] = square
        alpha = signed_alpha[i - first]
        if alpha != 0.0:
            for k in range(begin, end):
                weights[np.uint64(indices[k])] += alpha * np.float64(values[k])
            weights[last] += alpha * bias
            scale += abs(alpha) * np.sqrt(square + bias * bias)
    return scale


@njit(cache=True, allocates=False, nogil=True)
def judge_dense_rows(rows, start, stop, pair, sums):
    values, bias = rows
    w, bias_weight, signed_alpha = pair
    outputs, magnitudes, squares, weights = sums
    first, last, scale = np.uint64(start), np.uint64(weights.shape[0] - 1), 0.0
    whole = last - last % FOUR
    for i in range(first, np.uint64(stop)):
        output, magnitude, square = bias * bias_weight, abs(bias * bias_weight), 0.0
        output_2 = output_3 = output_4 = magnitude_2 = magnitude_3 = magnitude_4 = 0.0
        square_2 = square_3 = square_4 = 0.0
        for j in range(ZERO, whole, FOUR):  # four sums at once: without fast-math the compiler may not make them
            value, value_2 = np.float64(values[i, j]), np.float64(values[i, j + ONE])
            value_3, value_4 = np.float64(values[i, j + TWO]), np.float64(values[i, j + THREE])
            term, term_2 = value * w[j], value_2 * w[j + ONE]
            term_3, term_4 = value_3 * w[j + TWO], value_4 * w[j + THREE]
            output += term
            output_2 += term_2
            output_3 += term_3
            output_4 += term_4
            magnitude += abs(term)
            magnitude_2 += abs(term_2)
            magnitude_3 += abs(term_3)
            magnitude_4 += abs(term_4)
            square += value * value
            square_2 += value_2 * value_2
            square_3 += value_3 * value_3
            square_4 += value_4 * value_4
        for j in range(whole, last):
            value = np.float64(values[i, j])
            term = value * w[j]
            output += term
            magnitude += abs(term)
            square += value * value
        outputs[i - first] = (output + output_2) + (output_3 + output_4)
        magnitudes[i - first] = (magnitude + magnitude_2) + (magnitude_3 + magnitude_4)
        square = (square + square_2) + (square_3 + square_4)
        squares[i - first] = square
        alpha = signed_alpha[i - first]
        if alpha != 0.0:
            for j in range(last):
                weights[j] += alpha * np.float64(values[i, j])
            weights[last] += alpha * bias
            scale += abs(alpha) * np.sqrt(square + bias * bias)
    return scale

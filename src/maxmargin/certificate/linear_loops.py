"""The certificate's own pass over X: nothing here is shared with a solver, and nothing uses fast-math.

For the rows start <= i < stop, in float64: outputs[i - start] = w . x_i, magnitudes[i - start] = sum_j |w_j x_ij|, and
weights += signed_alpha_i x_i. Every x_i ends with the constant feature ``bias``, whose weight is ``bias_weight`` and the last
of ``weights``. Returned is sum_i |signed_alpha_i x_i|, the scale of the rounding error in ``weights``. ``pair`` is a
``JudgedPair`` of ``linear.py``, and ``sums`` a ``RowSums``.
"""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit


@njit(cache=True, allocates=False, nogil=True)
def judge_csr_rows(rows, start, stop, pair, sums):
    values, indices, indptr, bias = rows
    w, bias_weight, signed_alpha = pair
    outputs, magnitudes, weights = sums
    last = weights.shape[0] - 1
    scale = 0.0
    for i in range(start, stop):
        output = bias * bias_weight
        magnitude = abs(output)
        for k in range(indptr[i], indptr[i + 1]):
            term = np.float64(values[k]) * w[indices[k]]
            output += term
            magnitude += abs(term)
        outputs[i - start] = output
        magnitudes[i - start] = magnitude
        alpha = signed_alpha[i - start]
        if alpha != 0.0:
            sqnorm = bias * bias
            for k in range(indptr[i], indptr[i + 1]):
                value = np.float64(values[k])
                weights[indices[k]] += alpha * value
                sqnorm += value * value
            weights[last] += alpha * bias
            scale += abs(alpha) * np.sqrt(sqnorm)
    return scale


@njit(cache=True, allocates=False, nogil=True)
def judge_dense_rows(rows, start, stop, pair, sums):
    values, bias = rows
    w, bias_weight, signed_alpha = pair
    outputs, magnitudes, weights = sums
    last = weights.shape[0] - 1
    scale = 0.0
    for i in range(start, stop):
        output, magnitude = bias * bias_weight, abs(bias * bias_weight)
        output_2 = output_3 = output_4 = magnitude_2 = magnitude_3 = magnitude_4 = 0.0
        for j in range(0, last - 3, 4):  # four sums at once: without fast-math the compiler may not make them
            term = np.float64(values[i, j]) * w[j]
            term_2 = np.float64(values[i, j + 1]) * w[j + 1]
            term_3 = np.float64(values[i, j + 2]) * w[j + 2]
            term_4 = np.float64(values[i, j + 3]) * w[j + 3]
            output += term
            output_2 += term_2
            output_3 += term_3
            output_4 += term_4
            magnitude += abs(term)
            magnitude_2 += abs(term_2)
            magnitude_3 += abs(term_3)
            magnitude_4 += abs(term_4)
        for j in range(last - last % 4, last):
            term = np.float64(values[i, j]) * w[j]
            output += term
            magnitude += abs(term)
        outputs[i - start] = (output + output_2) + (output_3 + output_4)
        magnitudes[i - start] = (magnitude + magnitude_2) + (magnitude_3 + magnitude_4)
        alpha = signed_alpha[i - start]
        if alpha != 0.0:
            sqnorm = bias * bias
            for j in range(last):
                value = np.float64(values[i, j])
                weights[j] += alpha * value
                sqnorm += value * value
            weights[last] += alpha * bias
            scale += abs(alpha) * np.sqrt(sqnorm)
    return scale

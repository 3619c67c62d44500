"""The certificate's own pass over X: nothing here is shared with a solver, and nothing uses fast-math."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import overload

from maxmargin.data import CsrRows, DenseRows


@njit(cache=True, nogil=True)
def judge_rows(rows, start, stop, w, signed_alpha, outputs, magnitudes, weights):
    """For the rows start <= i < stop, in float64 and in the order of storage.

    outputs[i - start] = w . x_i, magnitudes[i - start] = sum_j |w_j x_ij|, weights += signed_alpha_i x_i.
    Returns sum_i |signed_alpha_i x_i|, the scale of the rounding error in ``weights``.
    """
    scale = 0.0
    for i in range(start, stop):
        output, magnitude, sqnorm = judge_row(rows, i, w, signed_alpha[i - start], weights)
        outputs[i - start] = output
        magnitudes[i - start] = magnitude
        scale += abs(signed_alpha[i - start]) * np.sqrt(sqnorm)
    return scale


def judge_row(rows, i, w, signed_alpha, weights):
    raise TypeError("judge_row exists only inside compiled code")


@overload(judge_row)
def _judge_row(rows, i, w, signed_alpha, weights):
    if rows.instance_class is CsrRows:

        def sparse(rows, i, w, signed_alpha, weights):
            last = w.shape[0] - 1
            output = rows.bias * w[last]
            magnitude = abs(output)
            for k in range(rows.indptr[i], rows.indptr[i + 1]):
                term = np.float64(rows.values[k]) * w[rows.indices[k]]
                output += term
                magnitude += abs(term)
            sqnorm = 0.0
            if signed_alpha != 0.0:
                sqnorm = rows.bias * rows.bias
                for k in range(rows.indptr[i], rows.indptr[i + 1]):
                    value = np.float64(rows.values[k])
                    weights[rows.indices[k]] += signed_alpha * value
                    sqnorm += value * value
                weights[last] += signed_alpha * rows.bias
            return output, magnitude, sqnorm

        return sparse
    if rows.instance_class is DenseRows:

        def dense(rows, i, w, signed_alpha, weights):
            last = w.shape[0] - 1
            output, output_2, output_3, output_4 = rows.bias * w[last], 0.0, 0.0, 0.0
            magnitude, magnitude_2, magnitude_3, magnitude_4 = abs(output), 0.0, 0.0, 0.0
            for j in range(0, last - 3, 4):  # four sums at once: without fast-math the compiler may not make them
                term = np.float64(rows.values[i, j]) * w[j]
                term_2 = np.float64(rows.values[i, j + 1]) * w[j + 1]
                term_3 = np.float64(rows.values[i, j + 2]) * w[j + 2]
                term_4 = np.float64(rows.values[i, j + 3]) * w[j + 3]
                output += term
                output_2 += term_2
                output_3 += term_3
                output_4 += term_4
                magnitude += abs(term)
                magnitude_2 += abs(term_2)
                magnitude_3 += abs(term_3)
                magnitude_4 += abs(term_4)
            for j in range(last - last % 4, last):
                term = np.float64(rows.values[i, j]) * w[j]
                output += term
                magnitude += abs(term)
            sqnorm = 0.0
            if signed_alpha != 0.0:
                sqnorm = rows.bias * rows.bias
                for j in range(last):
                    value = np.float64(rows.values[i, j])
                    weights[j] += signed_alpha * value
                    sqnorm += value * value
                weights[last] += signed_alpha * rows.bias
            output = (output + output_2) + (output_3 + output_4)
            magnitude = (magnitude + magnitude_2) + (magnitude_3 + magnitude_4)
            return output, magnitude, sqnorm

        return dense
    return None

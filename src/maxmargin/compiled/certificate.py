"""The certificate's own pass over X: nothing here is shared with a solver, and nothing uses fast-math."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import overload

from maxmargin.data import CsrRows, DenseRows


@njit(cache=True, nogil=True)
def judge_rows(rows, start, stop, w, signed_alpha, outputs, magnitudes, weights):  # type: ignore[no-untyped-def]
    """For the rows start <= i < stop, in float64 and in the order of storage.

    outputs[i - start] = w . x_i, magnitudes[i - start] = sum_j |w_j x_ij|, weights += signed_alpha_i x_i.
    Returns sum_i |signed_alpha_i| |x_i|, the scale of the rounding error in ``weights``.
    """
    scale = 0.0
    for i in range(start, stop):
        output, magnitude, sqnorm = judge_row(rows, i, w, signed_alpha[i - start], weights)
        outputs[i - start] = output
        magnitudes[i - start] = magnitude
        scale += abs(signed_alpha[i - start]) * np.sqrt(sqnorm)
    return scale


def judge_row(rows, i, w, signed_alpha, weights):  # type: ignore[no-untyped-def]
    raise TypeError("judge_row exists only inside compiled code")


@overload(judge_row, inline="always")
def _judge_row(rows, i, w, signed_alpha, weights):  # type: ignore[no-untyped-def]
    if rows.instance_class is CsrRows:

        def sparse(rows, i, w, signed_alpha, weights):  # type: ignore[no-untyped-def]
            last = w.shape[0] - 1
            output = rows.bias * w[last]
            magnitude = abs(output)
            sqnorm = rows.bias * rows.bias
            for k in range(rows.indptr[i], rows.indptr[i + 1]):
                value = np.float64(rows.values[k])
                term = value * w[rows.indices[k]]
                output += term
                magnitude += abs(term)
                sqnorm += value * value
            if signed_alpha != 0.0:
                for k in range(rows.indptr[i], rows.indptr[i + 1]):
                    weights[rows.indices[k]] += signed_alpha * np.float64(rows.values[k])
                weights[last] += signed_alpha * rows.bias
            return output, magnitude, sqnorm

        return sparse
    if rows.instance_class is DenseRows:

        def dense(rows, i, w, signed_alpha, weights):  # type: ignore[no-untyped-def]
            last = w.shape[0] - 1
            output = rows.bias * w[last]
            magnitude = abs(output)
            sqnorm = rows.bias * rows.bias
            for j in range(last):
                value = np.float64(rows.values[i, j])
                term = value * w[j]
                output += term
                magnitude += abs(term)
                sqnorm += value * value
                weights[j] += signed_alpha * value
            weights[last] += signed_alpha * rows.bias
            return output, magnitude, sqnorm

        return dense
    return None

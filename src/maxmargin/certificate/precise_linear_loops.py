"""The certificate's pass over X in about twice the precision of float64, for data whose sums cancel.

A sum is a pair: the float64 sum, and the sum of what each product and each addition lost, both exact before they are added
(T. Ogita, S. M. Rump, S. Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26, 2005, algorithm Dot2). The pair of a
sum of k products is wrong by at most gamma_k^2 times the sum of their magnitudes, where the float64 sum alone is wrong by
gamma_k times it. Nothing here is shared with a solver, and nothing uses fast-math.

The arguments are those of ``maxmargin.certificate.linear_loops``; ``rests`` is the second half of ``weights``.
"""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.error_free_loops import fma, two_sum


@njit(inline="always")
def plus_product(total, rest, a, b):
    """The pair (total, rest) plus a b. The rounding errors of the product and of the addition go to ``rest``."""
    product = a * b
    total, lost = two_sum(total, product)
    return total, rest + (lost + fma(a, b, -product))


@njit(cache=True, nogil=True, boundscheck=False)
def judge_csr_rows_precisely(rows, start, stop, pair, sums, rests):
    values, indices, indptr, bias = rows
    w, bias_weight, signed_alpha = pair
    outputs, magnitudes, squares, weights = sums
    last = weights.shape[0] - 1
    scale = 0.0
    for i in range(start, stop):
        output, rest = plus_product(0.0, 0.0, bias, bias_weight)
        magnitude, sqnorm = abs(output), 0.0
        for k in range(indptr[i], indptr[i + 1]):
            value, weight = np.float64(values[k]), w[indices[k]]
            output, rest = plus_product(output, rest, value, weight)
            magnitude += abs(value * weight)
            sqnorm += value * value
        outputs[i - start] = output + rest
        magnitudes[i - start] = magnitude
        squares[i - start] = sqnorm
        alpha = signed_alpha[i - start]
        if alpha != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                value, j = np.float64(values[k]), indices[k]
                weights[j], rests[j] = plus_product(weights[j], rests[j], alpha, value)
            weights[last], rests[last] = plus_product(weights[last], rests[last], alpha, bias)
            scale += abs(alpha) * np.sqrt(sqnorm + bias * bias)
    return scale


@njit(cache=True, nogil=True, boundscheck=False)
def judge_dense_rows_precisely(rows, start, stop, pair, sums, rests):
    values, bias = rows
    w, bias_weight, signed_alpha = pair
    outputs, magnitudes, squares, weights = sums
    last = weights.shape[0] - 1
    scale = 0.0
    for i in range(start, stop):
        output, rest = plus_product(0.0, 0.0, bias, bias_weight)
        magnitude, sqnorm = abs(output), 0.0
        for j in range(last):
            value = np.float64(values[i, j])
            output, rest = plus_product(output, rest, value, w[j])
            magnitude += abs(value * w[j])
            sqnorm += value * value
        outputs[i - start] = output + rest
        magnitudes[i - start] = magnitude
        squares[i - start] = sqnorm
        alpha = signed_alpha[i - start]
        if alpha != 0.0:
            for j in range(last):
                value = np.float64(values[i, j])
                weights[j], rests[j] = plus_product(weights[j], rests[j], alpha, value)
            weights[last], rests[last] = plus_product(weights[last], rests[last], alpha, bias)
            scale += abs(alpha) * np.sqrt(sqnorm + bias * bias)
    return scale


@njit(cache=True, nogil=True, boundscheck=False)
def csr_spread(values, indices, indptr, bias, centre, centre_sqnorm, alpha):
    """sum_i |alpha_i| |x_i - centre| and, as its squares cancel, the sum with each square made as large as rounding allows."""
    unit = 2.0**-53
    spread = 0.0
    for i in range(alpha.shape[0]):
        if alpha[i] != 0.0:
            sqnorm = magnitude = centre_sqnorm
            for k in range(indptr[i], indptr[i + 1]):
                middle = centre[indices[k]]
                square = (np.float64(values[k]) - middle) ** 2
                sqnorm += square - middle * middle
                magnitude += square + middle * middle
            n_roundings = 2 * np.int64(indptr[i + 1] - indptr[i]) + centre.shape[0] + 8
            spread += abs(alpha[i]) * np.sqrt(max(sqnorm, 0.0) + n_roundings * unit * magnitude)
    return spread


@njit(cache=True, nogil=True, boundscheck=False)
def dense_spread(values, bias, centre, centre_sqnorm, alpha):
    """``csr_spread`` for a dense X, where every term of a square is positive."""
    spread = 0.0
    for i in range(alpha.shape[0]):
        if alpha[i] != 0.0:
            sqnorm = 0.0
            for j in range(centre.shape[0]):
                sqnorm += (np.float64(values[i, j]) - centre[j]) ** 2
            spread += abs(alpha[i]) * np.sqrt(sqnorm)
    return spread

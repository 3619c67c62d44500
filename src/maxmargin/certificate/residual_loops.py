"""What a certificate adds up over the samples of a regression, in one pass over their residuals. Nothing here is shared with a
solver, and nothing uses fast-math."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.rows import Array

UNIT_ROUNDOFF = 2.0**-53
"""The largest relative error of one rounding to float64."""
UNDERFLOW = 2.0**-1000
"""More than underflow can cost a dot product of fewer than 2^70 terms. (Arithmetic with the tiny numbers themselves takes ten
times as long.)"""


class ResidualSamples(NamedTuple):
    """An element for each sample: alpha, C, the target, the price of the offset, and the roundings in the output. A number that
    is the same for all samples need only be repeated as often as ``sums`` of ``judge_residuals`` has columns."""

    alpha: Array
    C: Array
    targets: Array
    prices: Array
    roundings: Array


@njit(inline="always")
def positive(value):
    return value if value > 0.0 else 0.0


@njit(inline="always")
def greater(one, other):
    return one if one > other else other


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy")
def judge_residuals(outputs, magnitudes, samples, pieces, is_precise, terms, sums):
    """Add to the rows of ``sums``, for each sample: C_i loss_i, p_i alpha_i - e |alpha_i| - D_ii alpha_i^2 / 2, the gap term,
    how wrong the gap term and C_i loss_i can be when their residual is wrong, |alpha_i|, and alpha_i less its price. The first
    four are the formulas of ``maxmargin.problem.regression_losses``, but that these leave out the loss: where alpha_i = C_i,
    the residual does not count in the gap, and it does in the primal value. Returned is how many alpha_i are not zero, at a
    bound, and outside of their box. ``pieces`` is a ``ResidualPieces``; ``residual_errors`` has the formula for the error of a
    residual. ``terms`` is memory of the same shape. Where there are more samples than columns, a column has the sum of every
    so many samples.

    With a = |alpha| and s the residual in the direction of alpha, U is the bound of alpha in its direction and V that in the
    other: (U - a) (s - e)_+ + a (e - s)_+ + V (-s - e)_+, and with squares C ((s - e)_+ - a / 2C)^2 + a (e - s)_+
    + C (-s - e)_+^2. There are no branches, so that the compiler works on several samples at once."""
    alphas, C, targets, prices, roundings = samples
    epsilon, up, down, is_squared = pieces
    own = 0.0 if (up == 1.0 or up == 0.0) and (down == 1.0 or down == 0.0) else 4.0 * UNIT_ROUNDOFF  # U and V are rounded
    n_support, n_at_bound, n_outside = 0, 0, 0
    n, n_columns, zero = np.uint64(len(outputs)), np.uint64(terms.shape[1]), np.uint64(0)
    for first in range(zero, n, n_columns):
        C_at, price_at = first if len(C) == len(outputs) else zero, first if len(prices) == len(outputs) else zero
        target_at = first if len(targets) == len(outputs) else zero
        rounding_at = first if len(roundings) == len(outputs) else zero
        for k in range(n_columns if first + n_columns < n else n - first):
            i = first + k
            alpha, cost, target, output = alphas[i], C[C_at + k], targets[target_at + k], outputs[i]
            residual, a, lost = target - output, abs(alpha), roundings[rounding_at + k] * UNIT_ROUNDOFF
            share = lost / (1.0 - lost)
            reach = abs(output) if is_precise else magnitudes[i]
            wrong = (share * share if is_precise else share) * magnitudes[i]
            wrong += 2.0 * UNIT_ROUNDOFF * (abs(target) + reach) + UNDERFLOW
            upper, lower = cost * up, cost * down
            is_other = (alpha < 0.0) | ((alpha == 0.0) & (residual < 0.0))
            along = -residual if is_other else residual
            U, V = lower if is_other else upper, upper if is_other else lower
            above, other = positive(along - epsilon), positive(-along - epsilon)
            inside = a * positive(epsilon - along)
            wrong += 2.0 * UNIT_ROUNDOFF * (epsilon + abs(along))
            linear = target * alpha - epsilon * a
            if is_squared:
                half = 0.5 / cost if cost > 0.0 else 0.0
                wrong += 4.0 * UNIT_ROUNDOFF * a * half
                missing = above - a * half
                terms[0, k] = cost * (above * above + other * other)
                terms[1, k] = linear - 0.5 * half * alpha * alpha
                terms[2, k] = cost * missing * missing + inside + cost * other * other
                bend = cost * wrong if (along > epsilon - wrong) | (along < wrong - epsilon) else 0.0
                terms[3, k] = (greater(abs(2.0 * cost * above - a), a) + 2.0 * cost * other + bend) * wrong
                n_outside += 0 if (a == 0.0) | ((cost > 0.0) & (a >= 0.0)) else 1
            else:
                slope = a if (along < epsilon + wrong) & (along > -epsilon - wrong) else 0.0
                slope = greater(slope, U if along > epsilon - wrong else 0.0)
                slope = greater(slope, V + a if along < -epsilon + wrong else 0.0)
                terms[0, k] = U * above + V * other
                terms[1, k] = linear
                terms[2, k] = positive(U - a) * above + inside + V * other
                terms[3, k] = slope * wrong + own * (cost + a) * (abs(along) + wrong)
                n_outside += 0 if (alpha >= -lower) & (alpha <= upper) else 1
                n_at_bound += 1 if (a != 0.0) & ((alpha == upper) | (alpha == -lower)) else 0
            terms[4, k] = a
            terms[5, k] = alpha - prices[price_at + k]
            n_support += 1 if a != 0.0 else 0
        for row in range(sums.shape[0]):
            for k in range(n_columns if first + n_columns < n else n - first):
                sums[row, k] += terms[row, k]
    return n_support, n_at_bound, n_outside

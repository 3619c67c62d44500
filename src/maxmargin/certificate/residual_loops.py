"""What a certificate adds up over the samples of a regression, in one pass over their residuals. Nothing here is shared with a
solver, and nothing uses fast-math."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.certificate.lane_loops import COUNT, LANES, add_up, clear, fill
from maxmargin.data.caching import njit
from maxmargin.data.rows import Array

UNIT_ROUNDOFF = 2.0**-53
"""The largest relative error of one rounding to float64."""
UNDERFLOW = 2.0**-1000
"""More than underflow can cost a dot product of fewer than 2^70 terms. (Arithmetic with the tiny numbers themselves takes ten
times as long.)"""


OUTPUT, MAGNITUDE, ALPHA, COST, TARGET, PRICE, ROUNDINGS = (np.uint64(LANES * k) for k in range(7))
LOSS, LINEAR, GAP, ERROR, TOTAL, EXCESS = (np.uint64(LANES * k) for k in range(7, 13))
KINDS = 13
"""Kinds of numbers in a column: what ``judge_residuals`` is given, and what it adds up."""


class ResidualSamples(NamedTuple):
    """An element for each sample: alpha, C, the target, the price of the offset, and the roundings in the output. A number that
    is the same for all samples is repeated ``LANES`` times."""

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
def judge_residuals(outputs, magnitudes, samples, pieces, is_precise, lanes, sums):
    """Write to the rows of ``sums``, for each ``LANES`` samples one after the other, their sums of C_i loss_i, p_i alpha_i
    - e |alpha_i| - D_ii alpha_i^2 / 2, the gap term, how wrong the gap term and C_i loss_i can be when their residual is wrong,
    |alpha_i|, and alpha_i less its price. The first four are the formulas of ``maxmargin.problem.regression_losses``, but that
    these leave out the loss: where alpha_i = C_i, the residual does not count in the gap, and it does in the primal value.
    Returned is how many alpha_i are not zero, at a bound, and outside of their box. ``pieces`` is a ``ResidualPieces``;
    ``residual_errors`` has the formula for the error of a residual. ``lanes`` is memory for ``KINDS`` times ``LANES`` numbers.

    With a = |alpha| and s the residual in the direction of alpha, U is the bound of alpha in its direction and V that in the
    other: (U - a) (s - e)_+ + a (e - s)_+ + V (-s - e)_+, and with squares C ((s - e)_+ - a / 2C)^2 + a (e - s)_+
    + C (-s - e)_+^2."""
    alphas, C, targets, prices, roundings = samples
    epsilon, up, down, is_squared = pieces
    own = 0.0 if (up == 1.0 or up == 0.0) and (down == 1.0 or down == 0.0) else 4.0 * UNIT_ROUNDOFF  # U and V are rounded
    n_support, n_at_bound, n_outside, n = 0, 0, 0, np.uint64(len(outputs))
    for column in range(np.uint64(sums.shape[1])):
        first = column * COUNT
        length = COUNT if first + COUNT < n else n - first
        if length < COUNT:
            clear(lanes)
        fill(lanes, OUTPUT, outputs, first, length, n)
        fill(lanes, MAGNITUDE, magnitudes, first, length, n)
        fill(lanes, ALPHA, alphas, first, length, n)
        fill(lanes, COST, C, first, length, n)
        fill(lanes, TARGET, targets, first, length, n)
        fill(lanes, PRICE, prices, first, length, n)
        fill(lanes, ROUNDINGS, roundings, first, length, n)
        for k in range(COUNT):
            alpha, cost, target, output = lanes[ALPHA + k], lanes[COST + k], lanes[TARGET + k], lanes[OUTPUT + k]
            residual, a, lost = target - output, abs(alpha), lanes[ROUNDINGS + k] * UNIT_ROUNDOFF
            share = lost / (1.0 - lost)
            reach = abs(output) if is_precise else lanes[MAGNITUDE + k]
            wrong = (share * share if is_precise else share) * lanes[MAGNITUDE + k]
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
                lanes[LOSS + k] = cost * (above * above + other * other)
                lanes[LINEAR + k] = linear - 0.5 * half * alpha * alpha
                lanes[GAP + k] = cost * missing * missing + inside + cost * other * other
                bend = cost * wrong if (along > epsilon - wrong) | (along < wrong - epsilon) else 0.0
                lanes[ERROR + k] = (greater(abs(2.0 * cost * above - a), a) + 2.0 * cost * other + bend) * wrong
                n_outside += 0 if (a == 0.0) | ((cost > 0.0) & (a >= 0.0)) else 1
            else:
                slope = a if (along < epsilon + wrong) & (along > -epsilon - wrong) else 0.0
                slope = greater(slope, U if along > epsilon - wrong else 0.0)
                slope = greater(slope, V + a if along < -epsilon + wrong else 0.0)
                lanes[LOSS + k] = U * above + V * other
                lanes[LINEAR + k] = linear
                lanes[GAP + k] = positive(U - a) * above + inside + V * other
                lanes[ERROR + k] = slope * wrong + own * (cost + a) * (abs(along) + wrong)
                n_outside += 0 if (alpha >= -lower) & (alpha <= upper) else 1
                n_at_bound += 1 if (a != 0.0) & ((alpha == upper) | (alpha == -lower)) else 0
            lanes[TOTAL + k] = a
            lanes[EXCESS + k] = alpha - lanes[PRICE + k]
            n_support += 1 if a != 0.0 else 0
        add_up(lanes, LOSS, sums, column)
    return n_support, n_at_bound, n_outside

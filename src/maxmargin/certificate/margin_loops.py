"""What a certificate adds up over the samples of two classes, in one pass over their margins. Nothing here is shared with a
solver, and nothing uses fast-math."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.certificate.lane_loops import COUNT, LANES, add_up, clear, fill
from maxmargin.certificate.residual_loops import UNDERFLOW, UNIT_ROUNDOFF
from maxmargin.data.caching import njit
from maxmargin.data.rows import Array

MARGIN, MAGNITUDE, ALPHA, COST, ROUNDINGS = (np.uint64(LANES * k) for k in range(5))
LOSS, LINEAR, GAP, ERROR, TOTAL = (np.uint64(LANES * k) for k in range(5, 10))
KINDS = 10
"""Kinds of numbers in a column: what ``judge_margins`` is given, and what it adds up."""


class MarginSamples(NamedTuple):
    """An element for each sample: alpha, C, and the roundings in the output. A number that is the same for all samples is
    repeated ``LANES`` times."""

    alpha: Array
    C: Array
    roundings: Array


@njit(inline="always")
def positive(value):
    """max(0, value); what is not a number stays that."""
    return 0.0 if value < 0.0 else value


@njit(inline="always")
def greater(one, other):
    return other if one < other else one


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy")
def judge_margins(margins, magnitudes, samples, is_squared, is_precise, lanes, sums):
    """Write to the rows of ``sums``, for each ``LANES`` samples one after the other, their sums of C_i loss_i, alpha_i - D_ii
    alpha_i^2 / 2, the gap term, how wrong the gap term can be when its residual 1 - m_i is wrong, and alpha_i. The first four
    are the formulas of ``Hinge`` and ``SquaredHinge`` in ``maxmargin.problem.losses``, with |alpha_i| = alpha_i. Returned is
    how many alpha_i are not zero, and how many of these are at a bound. ``residual_errors`` has the formula for the error of a
    residual. ``lanes`` is memory for ``KINDS`` times ``LANES`` numbers."""
    alphas, C, roundings = samples
    n_support, n_at_bound, n = 0, 0, np.uint64(len(margins))
    for column in range(np.uint64(sums.shape[1])):
        first = column * COUNT
        length = COUNT if first + COUNT < n else n - first
        if length < COUNT:
            clear(lanes)
        fill(lanes, MARGIN, margins, first, length, n)
        fill(lanes, MAGNITUDE, magnitudes, first, length, n)
        fill(lanes, ALPHA, alphas, first, length, n)
        fill(lanes, COST, C, first, length, n)
        fill(lanes, ROUNDINGS, roundings, first, length, n)
        for k in range(COUNT):
            alpha, cost, margin = lanes[ALPHA + k], lanes[COST + k], lanes[MARGIN + k]
            residual, lost = 1.0 - margin, lanes[ROUNDINGS + k] * UNIT_ROUNDOFF
            share = lost / (1.0 - lost)
            reach = abs(margin) if is_precise else lanes[MAGNITUDE + k]
            wrong = (share * share if is_precise else share) * lanes[MAGNITUDE + k]
            wrong += 2.0 * UNIT_ROUNDOFF * (1.0 + reach) + UNDERFLOW
            above, below = positive(residual), positive(-residual)
            if is_squared:
                half = 0.5 / cost if cost > 0.0 else 0.0
                part = alpha * half
                missing = above - part
                wrong += 4.0 * UNIT_ROUNDOFF * part + 4.0 * UNIT_ROUNDOFF * (1.0 + abs(margin))
                slope = abs(2.0 * cost * above - alpha)
                steepest = slope if residual > 2.0 * wrong else greater(slope, alpha)
                lanes[LOSS + k] = cost * (above * above)
                lanes[LINEAR + k] = alpha - 0.5 * half * (alpha * alpha)
                lanes[GAP + k] = cost * (missing * missing) + alpha * below
                curvature = 0.0 if residual < -2.0 * wrong else 2.0 * cost
                lanes[ERROR + k] = (steepest + curvature * wrong) * wrong
            else:
                left = cost - alpha
                slope = left if residual > wrong else (alpha if residual < -wrong else greater(left, alpha))
                lanes[LOSS + k] = cost * above
                lanes[LINEAR + k] = alpha
                lanes[GAP + k] = left * above + alpha * below
                lanes[ERROR + k] = slope * wrong
                n_at_bound += 1 if (alpha != 0.0) & (alpha == cost) else 0
            lanes[TOTAL + k] = alpha
            n_support += 1 if alpha != 0.0 else 0
        add_up(lanes, LOSS, sums, column)
    return n_support, n_at_bound

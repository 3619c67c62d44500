"""What a certificate adds up over the samples of two classes, in one pass over their margins. Nothing here is shared with a
solver, and nothing uses fast-math."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.certificate.residual_loops import UNDERFLOW, UNIT_ROUNDOFF
from maxmargin.data.caching import njit
from maxmargin.data.rows import Array


class MarginSamples(NamedTuple):
    """An element for each sample: alpha, C, and the roundings in the output. A C or a number of roundings that is the same for
    all samples need only be repeated as often as ``sums`` of ``judge_margins`` has columns."""

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
def judge_margins(margins, magnitudes, samples, is_squared, is_precise, terms, sums):
    """Add to the rows of ``sums``, for each sample: C_i loss_i, alpha_i - D_ii alpha_i^2 / 2, the gap term, how wrong the gap
    term can be when its residual 1 - m_i is wrong, and alpha_i. The first four are the formulas of ``Hinge`` and
    ``SquaredHinge`` in ``maxmargin.problem.losses``, with |alpha_i| = alpha_i. Returned is how many alpha_i are not zero, and
    how many of these are at a bound. ``residual_errors`` has the formula for the error of a residual. ``terms`` is memory of
    the same shape. Where there are more samples than columns, a column has the sum of every so many samples. There are no
    branches, so that the compiler works on several samples at once."""
    alphas, C, roundings = samples
    n_support, n_at_bound = 0, 0
    n, n_columns, zero = np.uint64(len(margins)), np.uint64(terms.shape[1]), np.uint64(0)
    for first in range(zero, n, n_columns):
        C_at = first if len(C) == len(margins) else zero
        rounding_at = first if len(roundings) == len(margins) else zero
        for k in range(n_columns if first + n_columns < n else n - first):
            i = first + k
            alpha, cost, margin = alphas[i], C[C_at + k], margins[i]
            residual, lost = 1.0 - margin, roundings[rounding_at + k] * UNIT_ROUNDOFF
            share = lost / (1.0 - lost)
            reach = abs(margin) if is_precise else magnitudes[i]
            wrong = (share * share if is_precise else share) * magnitudes[i]
            wrong += 2.0 * UNIT_ROUNDOFF * (1.0 + reach) + UNDERFLOW
            above, below = positive(residual), positive(-residual)
            if is_squared:
                half = 0.5 / cost if cost > 0.0 else 0.0
                part = alpha * half
                missing = above - part
                wrong += 4.0 * UNIT_ROUNDOFF * part + 4.0 * UNIT_ROUNDOFF * (1.0 + abs(margin))
                slope = abs(2.0 * cost * above - alpha)
                steepest = slope if residual > 2.0 * wrong else greater(slope, alpha)
                terms[0, k] = cost * (above * above)
                terms[1, k] = alpha - 0.5 * half * (alpha * alpha)
                terms[2, k] = cost * (missing * missing) + alpha * below
                curvature = 0.0 if residual < -2.0 * wrong else 2.0 * cost
                terms[3, k] = (steepest + curvature * wrong) * wrong
            else:
                left = cost - alpha
                slope = left if residual > wrong else (alpha if residual < -wrong else greater(left, alpha))
                terms[0, k] = cost * above
                terms[1, k] = alpha
                terms[2, k] = left * above + alpha * below
                terms[3, k] = slope * wrong
                n_at_bound += 1 if (alpha != 0.0) & (alpha == cost) else 0
            terms[4, k] = alpha
            n_support += 1 if alpha != 0.0 else 0
        for row in range(sums.shape[0]):
            for k in range(n_columns if first + n_columns < n else n - first):
                sums[row, k] += terms[row, k]
    return n_support, n_at_bound

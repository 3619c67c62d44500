"""The step length along a direction: the root of a slope that never falls."""

from __future__ import annotations

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy


def step_length(slacks: Array, change: Array, C: Array, linear: float, curved: float, policy: SparseNewtonPolicy) -> float:
    """The t in [0, 1] that minimises sum_i C_i (r_i - t q_i)_+^2 + t linear + t^2 curved / 2, with the slacks r = 1 - m.

    The L1 norm is replaced by its chord, which lies above it. The full step t = 1 is taken if its slope is negative, or
    positive only by rounding error: an exact Newton step ends with a slope of zero."""
    if float(np.max(np.abs(change), initial=0.0)) <= policy.short_step:
        return 1.0

    def slope(t: float) -> float:
        return linear + t * curved - 2.0 * float(C @ (np.maximum(0.0, slacks - t * change) * change))

    first, last = slope(0.0), slope(1.0)
    if not first < 0.0:
        return 0.0
    if last <= 1e-10 * abs(first):
        return 1.0
    low, high, low_slope, high_slope = 0.0, 1.0, first, last
    for k in range(policy.most_halvings):
        share = low_slope / (low_slope - high_slope) if k % 3 != 2 else 0.5
        t = low + (high - low) * share
        here = slope(t)
        if abs(here) <= 1e-3 * abs(first) or high - low < 1e-12:
            break
        if here < 0.0:
            low, low_slope = t, here
        else:
            high, high_slope = t, here
    return t if t > 0.0 else low

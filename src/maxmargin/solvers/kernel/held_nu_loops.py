"""A round of the solver for the problems with nu on a kernel matrix that is held, in one call: SMO, v itself, and the gap.

A sample has one v and, in each of the two groups, a variable: row g of ``s``, ``lower`` and ``upper``. In a group that a sample
does not belong to its variable has lower = upper = 0. So nothing is put into the order of the groups, and the two variables of
a sample of a regression share their kernel values. Both variables of a pair belong to one group: the group with the greater
violation, as in LIBSVM's ``Solver_NU``. Beyond the samples all variables have lower = upper = 0, and K = 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.rows import Array
from maxmargin.solvers.kernel.batched_smo_loops import LEAST_CURVATURE, RUN, best_partner, greater, lesser, place_of

FLAGS = {"contract", "nsz", "reassoc", "arcp"}
N_MASKS = 5
"""Rows of memory for the masks of both groups, and for gains."""


class GroupedProblem(NamedTuple):
    """K and its diagonal, the targets t and v = t - K (s_0 + s_1), and the variables with their box, a row for each group."""

    K: Array
    diagonal: Array
    v: Array
    t: Array
    s: Array
    lower: Array
    upper: Array


class RoundPlan(NamedTuple):
    """The violation that SMO is asked for is ``share`` times |D| over ``total``, which is what all variables add up to. SMO
    makes at most ``most_steps``."""

    share: float
    total: float
    most_steps: int


@njit(inline="always")
def set_group_masks(g, i, local, masks):
    masks[g, i] = -np.inf if local.s[g, i] >= local.upper[g, i] else 0.0
    masks[g + np.uint64(2), i] = np.inf if local.s[g, i] <= local.lower[g, i] else 0.0


@njit(inline="always")
def run_smo(local, masks, tolerance, max_steps):
    """Move pairs until in each group max v over those that can rise <= min v over those that can fall + tolerance. Returns the
    steps made."""
    K, diagonal, v, s, lower, upper = local.K, local.diagonal, local.v, local.s, local.lower, local.upper
    zero, q, infinity = np.uint64(0), np.uint64(v.shape[0]), np.inf
    for g in range(np.uint64(2)):
        for k in range(q):
            set_group_masks(g, k, local, masks)
    rise_0, rise_1, fall_0, fall_1 = masks[0], masks[1], masks[2], masks[3]
    i = j = zero
    step, made = 0.0, 0
    for steps in range(max_steps + 1):  # the last round only updates v
        top_0, top_1, bottom_0, bottom_1, run_0, run_1 = -infinity, -infinity, infinity, infinity, zero, zero
        for first in range(zero, q, RUN):
            high_0, high_1, low_0, low_1 = -infinity, -infinity, infinity, infinity
            for k in range(first, first + RUN):
                new = v[k] - step * (K[i, k] - K[j, k])
                v[k] = new
                high_0, low_0 = greater(high_0, new + rise_0[k]), lesser(low_0, new + fall_0[k])
                high_1, low_1 = greater(high_1, new + rise_1[k]), lesser(low_1, new + fall_1[k])
            if high_0 > top_0:
                top_0, run_0 = high_0, first
            if high_1 > top_1:
                top_1, run_1 = high_1, first
            bottom_0, bottom_1 = lesser(bottom_0, low_0), lesser(bottom_1, low_1)
        g, top, bottom, run = zero, top_0, bottom_0, run_0
        if top_1 - bottom_1 > top_0 - bottom_0:
            g, top, bottom, run = np.uint64(1), top_1, bottom_1, run_1
        made = steps
        if not top - bottom > tolerance or steps == max_steps:
            break
        i = place_of(v, masks[g], top, run)
        j = best_partner(K, local, (masks[4], masks[g + np.uint64(2)], masks[4]), i, top, zero, q)
        curvature = greater(diagonal[i] + diagonal[j] - 2.0 * K[i, j], LEAST_CURVATURE)
        room_up, room_down = upper[g, i] - s[g, i], s[g, j] - lower[g, j]
        step = lesser((v[i] - v[j]) / curvature, lesser(room_up, room_down))
        s[g, i] = upper[g, i] if step == room_up else s[g, i] + step
        s[g, j] = lower[g, j] if step == room_down else s[g, j] - step
        set_group_masks(g, i, local, masks)
        set_group_masks(g, j, local, masks)
    return made


@njit(inline="always")
def renew(local):
    """v = t - K s, free of the rounding of the steps that led here. Most s_j are zero, and K is symmetric."""
    v, s = local.v, local.s
    for i in range(np.uint64(v.shape[0])):
        v[i] = local.t[i]
    for j in range(np.uint64(v.shape[0])):
        scale, row = s[0, j] + s[1, j], local.K[j]
        if scale != 0.0:
            for i in range(np.uint64(v.shape[0])):
                v[i] -= scale * row[i]


@njit(inline="always")
def survey(local):
    """The gap at the mean v of the free variables of each group, which is an offset; without free ones, between the greatest v
    of what can rise and the least of what can fall. Near the optimum no other offset is much better. Returns the gap, the dual
    value, and what the gap would be if each output were wrong by the sizes of the terms that it is a sum of."""
    v, t, n = local.v, local.t, np.uint64(local.v.shape[0])
    gap = dual = size = room = greatest = farthest = target = 0.0
    for g in range(np.uint64(2)):
        s, lower, upper = local.s[g], local.lower[g], local.upper[g]
        total, n_free, top, bottom = 0.0, 0, -np.inf, np.inf
        for i in range(n):
            can_rise, can_fall = s[i] < upper[i], s[i] > lower[i]
            top = v[i] if can_rise and v[i] > top else top
            bottom = v[i] if can_fall and v[i] < bottom else bottom
            total += v[i] if can_rise and can_fall else 0.0
            n_free += can_rise and can_fall
        b = total / n_free if n_free else between(top, bottom)
        for i in range(n):
            above = v[i] - b
            gap += (upper[i] - s[i]) * above if above > 0.0 else (lower[i] - s[i]) * above
            dual += 0.5 * s[i] * (t[i] + v[i])
            size += abs(s[i])
            room += upper[i] - lower[i]
            greatest = local.diagonal[i] if local.diagonal[i] > greatest else greatest
            target = abs(t[i]) if abs(t[i]) > target else target
        farthest = abs(b) if abs(b) > farthest else farthest
    return gap, dual, (size * greatest + farthest + target) * room


@njit(inline="always")
def between(top, bottom):
    """A threshold between what can rise and what can fall; the one of them that is there where the other is not."""
    if top == -np.inf:
        return bottom if bottom < np.inf else 0.0
    return 0.5 * (top + bottom) if bottom < np.inf else top


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def run_round(local, masks, plan):
    """SMO until the violation is small enough. |D| falls under way, and with it the violation that SMO is asked for. Returns
    the steps of SMO, and what ``survey`` does. Without steps only v is made anew, and the gap."""
    steps, violation = 0, np.inf
    while True:
        renew(local)
        gap, dual, scale = survey(local)
        asked = plan.share * abs(dual) / plan.total
        if steps >= plan.most_steps or not violation > 2.0 * asked:
            break
        violation = asked
        steps += run_smo(local, masks, violation, plan.most_steps - steps)
    return steps, gap, dual, scale

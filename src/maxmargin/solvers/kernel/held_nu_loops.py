"""A round of the solver for the problems with nu on a kernel matrix that is held: SMO, v itself, the gap, and least squares for
tens of free variables, in one call.

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
LEAST_PIVOT = 1e-10
"""The least pivot of the factor, relative to the diagonal: with a smaller one the solution is mostly rounding error. This
follows from float64 and is not a setting."""
MOVED, OUTSIDE, LEFT = 0, 1, 2
"""The outcome of ``leap``: it moved to the solution of the system, the solution is outside the box, or the system is left to
others, because it is singular or has too many variables."""
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
    masks[g + 2, i] = np.inf if local.s[g, i] <= local.lower[g, i] else 0.0


@njit(inline="always")
def run_smo(local, masks, tolerance, max_steps):
    """Move pairs until in each group max v over those that can rise <= min v over those that can fall + tolerance. Returns the
    steps made."""
    K, diagonal, v, s, lower, upper = local.K, local.diagonal, local.v, local.s, local.lower, local.upper
    zero, q, infinity = np.uint64(0), np.uint64(v.shape[0]), np.inf
    for g in range(2):
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
        g = 0 if top_0 - bottom_0 >= top_1 - bottom_1 else 1
        top, bottom, run = (top_0, bottom_0, run_0) if g == 0 else (top_1, bottom_1, run_1)
        made = steps
        if not top - bottom > tolerance or steps == max_steps:
            break
        i = place_of(v, masks[g], top, run)
        j = best_partner(K, local, (masks[4], masks[g + 2], masks[4]), i, top, zero, q)
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
    for g in range(2):
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


@njit(inline="always")
def leap(local, work, free):
    """Move to the optimum of the present face, if that is inside the box: K d + G b = v and G'd = 0 over the free variables, by
    Cholesky's method. G'd is zero, so that adding a multiple of G G' to K changes nothing, and makes the matrix definite where
    few features alone do not. ``work`` has a row for each variable that may be free, and three columns more; ``free`` has two
    rows, of groups and of samples."""
    K, v, s, lower, upper = local.K, local.v, local.s, local.lower, local.upper
    m, scale = np.uint64(0), 0.0
    for g in range(2):
        for i in range(np.uint64(v.shape[0])):
            if s[g, i] > lower[g, i] and s[g, i] < upper[g, i]:
                if m == np.uint64(work.shape[0]):
                    return LEFT
                free[0, m], free[1, m] = g, i
                scale += local.diagonal[i]
                m += np.uint64(1)
    if m == np.uint64(0):
        return OUTSIDE
    scale /= m
    for k in range(m):
        g, i, row = free[0, k], np.uint64(free[1, k]), work[k]
        for j in range(k, m):
            row[j] = K[i, np.uint64(free[1, j])] + (scale if g == free[0, j] else 0.0)
        row[m], row[m + 1], row[m + 2] = v[i], (1.0 if g == 0 else 0.0), (1.0 if g == 1 else 0.0)
    for k in range(m):
        row = work[k]
        if not row[k] > LEAST_PIVOT * (local.diagonal[np.uint64(free[1, k])] + scale):
            return LEFT
        inverse = 1.0 / np.sqrt(row[k])
        for i in range(k, m + 3):
            row[i] *= inverse
        for j in range(k + 1, m):
            factor, below = row[j], work[j]
            for i in range(j, m + 3):
                below[i] -= factor * row[i]
    for c in range(m, m + 3):
        for back in range(m):
            k = m - np.uint64(1) - back
            total = work[k, c]
            for i in range(k + 1, m):
                total -= work[k, i] * work[i, c]
            work[k, c] = total / work[k, k]
    return take(local, work, free, m)


@njit(inline="always")
def take(local, work, free, m):
    """The solution from those for the three right sides, of which the last two are the groups: their sums are to be zero."""
    s, lower, upper = local.s, local.lower, local.upper
    v_0 = v_1 = a = b = c = 0.0
    for k in range(m):
        if free[0, k] == 0:
            v_0, a, b = v_0 + work[k, m], a + work[k, m + 1], b + work[k, m + 2]
        else:
            v_1, c = v_1 + work[k, m], c + work[k, m + 2]
    a, c = (a if a > 0.0 else 1.0), (c if c > 0.0 else 1.0)  # a group without free variables
    determinant = a * c - b * b
    b_0, b_1, is_inside = (c * v_0 - b * v_1) / determinant, (a * v_1 - b * v_0) / determinant, True
    for k in range(m):
        g, i = free[0, k], np.uint64(free[1, k])
        new = s[g, i] + work[k, m] - b_0 * work[k, m + 1] - b_1 * work[k, m + 2]
        work[k, m] = new
        is_inside &= new > lower[g, i] and new < upper[g, i]
    if is_inside:
        for k in range(m):
            s[free[0, k], np.uint64(free[1, k])] = work[k, m]
    return MOVED if is_inside else OUTSIDE


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def run_round(local, masks, plan, work, free):
    """SMO, and the optimum of the face that it has found. |D| falls under way, and with it the violation that SMO is asked for.
    Returns the steps of SMO, what ``survey`` does, and the outcome of the leap. Without memory for a system nobody leaps, and
    without steps nothing is moved before that."""
    steps, violation, outcome, is_over = 0, np.inf, LEFT, False
    while True:
        renew(local)
        gap, dual, scale = survey(local)
        if is_over:
            break
        asked = plan.share * abs(dual) / plan.total
        if steps < plan.most_steps and violation > 2.0 * asked:
            violation = asked
            steps += run_smo(local, masks, violation, plan.most_steps - steps)
        else:
            is_over = True
            outcome = leap(local, work, free)
            if outcome != MOVED:
                break
    return steps, gap, dual, scale, outcome

"""SMO on the local block of a working set whose variables are in two groups, each with a sum of its own.

As ``maxmargin.solvers.kernel.batched_smo_loops``, but that both variables of a pair belong to one group: the group with the
greater violation, as in LIBSVM's ``Solver_NU``. The first ``split`` places are the first group's; it is a multiple of RUN."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.solvers.kernel.batched_smo_loops import (
    FLAGS,
    LEAST_CURVATURE,
    RUN,
    best_partner,
    greater,
    lesser,
    mask_all,
    place_of,
    set_masks,
)


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def solve_in_groups(local, masks, split, tolerance, max_steps):
    """Move pairs until in each group max v over those that can rise <= min v over those that can fall + tolerance. The steps
    made. v and s are changed in place."""
    K, diagonal, v, s, lower, upper, epsilon = local
    number, zero, q, middle = v.dtype.type, np.uint64(0), np.uint64(s.shape[0]), np.uint64(split)
    cannot_rise, cannot_fall = masks[0], masks[1]
    mask_all(s, lower, upper, epsilon, cannot_rise, cannot_fall)
    i = j = zero
    step = number(0.0)
    for steps in range(max_steps):
        worst, top, top_run, start, stop = number(-np.inf), number(0.0), zero, zero, q
        for side in range(2):
            begin, end = (zero, middle) if side == 0 else (middle, q)
            side_top, side_run, side_bottom = number(-np.inf), begin, number(np.inf)
            for first in range(begin, end, RUN):
                run_top, run_bottom = number(-np.inf), number(np.inf)
                for k in range(first, first + RUN):
                    new = v[k] - step * (number(K[i, k]) - number(K[j, k]))
                    v[k] = new
                    run_top = greater(run_top, new + cannot_rise[k])
                    run_bottom = lesser(run_bottom, new + cannot_fall[k])
                if run_top > side_top:
                    side_top, side_run = run_top, first
                side_bottom = min(side_bottom, run_bottom)
            if side_top - side_bottom > worst:
                worst, top, top_run, start, stop = side_top - side_bottom, side_top, side_run, begin, end
        if not worst > tolerance:
            return steps
        i = place_of(v, cannot_rise, top, top_run)
        j = best_partner(K, (diagonal, v), masks, i, top, start, stop)

        curvature = max(diagonal[i] + diagonal[j] - 2.0 * np.float64(K[i, j]), LEAST_CURVATURE)
        room_up, room_down = upper[i] - s[i], s[j] - lower[j]
        move = min((np.float64(v[i]) - np.float64(v[j])) / curvature, room_up, room_down)
        s[i] = upper[i] if move == room_up else s[i] + move
        s[j] = lower[j] if move == room_down else s[j] - move
        set_masks(i, s, lower, upper, epsilon, cannot_rise, cannot_fall)
        set_masks(j, s, lower, upper, epsilon, cannot_rise, cannot_fall)
        step = number(move)
    return max_steps

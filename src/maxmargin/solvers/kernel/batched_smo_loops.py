"""SMO on the local block of a working set: K of q x q, in the signed variables s_i = y_i alpha_i.

The dual is D(s) = y . s - s K s / 2 over lower_i <= s_i <= upper_i, and v = y - K s is its gradient; with an offset s adds
up to zero, so that two variables move at a time, one up and one down. With the tube of regression -epsilon |s| is added to D:
its slope upwards is v - epsilon where s >= 0 and v + epsilon below, downwards v - epsilon where s > 0 and v + epsilon below,
and a step ends at the kink s = 0. In classification zero is a bound, so that this takes nothing.

q is a multiple of RUN (padded with lower = upper = 0). A reduction over a run has a fixed length, which LLVM vectorises, and
only the best run is searched for the position of its extreme value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from maxmargin.data.by_type import by_type, loop_by_type
from maxmargin.data.caching import njit
from maxmargin.data.rows import Array
from maxmargin.problem.held_values import MULTIPLE, RowsOnDemand
from maxmargin.problem.kernel_loops import make_bent_row, make_row

RUN = np.uint64(MULTIPLE)
"""The samples of a run."""


class LocalProblem(NamedTuple):
    """A working set: its kernel block and diagonal, the gradient v and the variables s, which the loops change, and their box.
    v and the diagonal have one element type, float32 or float64; s and its box are float64. ``epsilon`` is half the
    width of the tube of regression."""

    K: Array
    diagonal: Array
    v: Array
    s: Array
    lower: Array
    upper: Array
    epsilon: float = 0.0

    @property
    def masks(self) -> Array:
        """Memory for the masks of all variables and for gains, allocated by the caller: an allocation inside a compiled loop
        takes 0.2 s to compile."""
        return np.empty((3, len(self.v)), self.v.dtype)


class OnDemandProblem(NamedTuple):
    """The same with all samples of a problem as the working set, whose kernel rows are made when they are first read."""

    rows: RowsOnDemand
    diagonal: Array
    v: Array
    s: Array
    lower: Array
    upper: Array
    epsilon: float = 0.0

    @property
    def masks(self) -> Array:
        return np.empty((3, len(self.v)), self.v.dtype)


class BentProblem(OnDemandProblem):
    """The same with another function of dot products than the RBF kernel."""


@by_type
def matrix_of(local):
    """The kernel block."""


@by_type
def has_row(local, i):
    """Whether row i of the kernel block is there. It is made if that is still allowed."""


@matrix_of.when(LocalProblem)
def _(local):
    return local.K


@has_row.when(LocalProblem)
def _(local, i):
    return True


@matrix_of.when(OnDemandProblem, BentProblem)
def _(local):
    return local.rows.values


@has_row.when(OnDemandProblem)
def _(local, i):
    rows = local.rows
    if not rows.is_there[i] and rows.counts[0] < rows.counts[1]:
        make_row(rows, i)
    return rows.is_there[i] != 0


@has_row.when(BentProblem)
def _(local, i):
    rows = local.rows
    if not rows.is_there[i] and rows.counts[0] < rows.counts[1]:
        make_bent_row(rows, i)
    return rows.is_there[i] != 0


LEAST_CURVATURE = 1e-12
"""Where the kernel is flat or not positive semidefinite, a step goes as far as the box allows: R.-E. Fan, P.-H. Chen and C.-J.
Lin, "Working set selection using second order information", JMLR 2005, section 2.3."""
LEAST_DETERMINANT = 1e-6
"""The least K_ii K_jj - K_ij^2, relative to its first term, in the choice of a pair: less is rounding in float32."""
FLAGS = {"contract", "nnan", "nsz", "reassoc", "arcp"}


def _extreme(operation):
    """Numba's own max and min are a comparison and a choice without flags, of which LLVM cannot make a vector reduction."""

    @intrinsic
    def extreme(typing_context, a, b):
        def generate(context, builder, signature, arguments):
            number = arguments[0].type
            function = builder.module.declare_intrinsic(operation, [number], ir.FunctionType(number, [number, number]))
            return builder.call(function, arguments, fastmath=("nnan", "nsz"))

        return a(a, b), generate

    return extreme


greater, lesser = _extreme("llvm.maxnum"), _extreme("llvm.minnum")


@njit(inline="always")
def set_masks(i, s, lower, upper, epsilon, cannot_rise, cannot_fall):
    """Masks to add to v: -inf if s_i is at its upper bound and +inf if it is at its lower bound, which rules the sample out.
    Elsewhere v plus the mask is a slope of the dual; without a tube the mask is zero there."""
    it = s[i]
    cannot_rise[i] = -np.inf if it >= upper[i] else (-epsilon if it >= 0.0 else epsilon)
    cannot_fall[i] = np.inf if it <= lower[i] else (-epsilon if it > 0.0 else epsilon)


@njit(inline="always")
def mask_all(s, lower, upper, epsilon, cannot_rise, cannot_fall):
    for i in range(np.uint64(s.shape[0])):
        set_masks(i, s, lower, upper, epsilon, cannot_rise, cannot_fall)


@njit(inline="always")
def place_of(values, masks, wanted, first):
    """Where in the run from ``first`` the masked value is the wanted one."""
    for i in range(first, first + RUN):
        if values[i] + masks[i] == wanted:
            return i
    return first


@loop_by_type("local", cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def solve_with_offset(local, masks, tolerance, max_steps):
    """Move pairs until max v over those that can rise <= min v over those that can fall + tolerance. The steps made. It ends
    earlier where it needs a kernel row that is not there and that it may not make.

    The first of a pair is the worst of those that can rise, the second the one with the greatest gain: the second-order
    choice (WSS 2) of Fan, Chen and Lin. v and s are changed in place."""
    diagonal, v, s, lower, upper = local.diagonal, local.v, local.s, local.lower, local.upper
    K, epsilon, q, number = matrix_of(local), local.epsilon, np.uint64(s.shape[0]), v.dtype.type
    cannot_rise, cannot_fall = masks[0], masks[1]
    mask_all(s, lower, upper, epsilon, cannot_rise, cannot_fall)
    i = j = np.uint64(0)
    step, infinity = number(0.0), number(np.inf)
    for steps in range(max_steps + 1):  # the last round only updates v
        # v -= step (K_i - K_j), and the greatest v that can rise and the least that can fall
        top, top_run, bottom = -infinity, np.uint64(0), infinity
        for first in range(np.uint64(0), q, RUN):
            run_top, run_bottom = -infinity, infinity
            for k in range(first, first + RUN):
                new = v[k] - step * (number(K[i, k]) - number(K[j, k]))
                v[k] = new
                run_top = greater(run_top, new + cannot_rise[k])
                run_bottom = lesser(run_bottom, new + cannot_fall[k])
            if run_top > top:
                top, top_run = run_top, first
            bottom = lesser(bottom, run_bottom)
        if not top - bottom > tolerance or steps == max_steps:
            return steps
        i = place_of(v, cannot_rise, top, top_run)
        if not has_row(local, i):
            return steps
        j = best_partner(K, (diagonal, v), masks, i, top, np.uint64(0), q)
        if not has_row(local, j):
            return steps

        curvature = greater(diagonal[i] + diagonal[j] - 2.0 * np.float64(K[i, j]), LEAST_CURVATURE)
        end_up = upper[i] if s[i] >= 0.0 else lesser(upper[i], 0.0)
        end_down = lower[j] if s[j] <= 0.0 else greater(lower[j], 0.0)
        room_up, room_down = end_up - s[i], s[j] - end_down
        slope = (np.float64(v[i]) + np.float64(cannot_rise[i])) - (np.float64(v[j]) + np.float64(cannot_fall[j]))
        move = lesser(lesser(slope / curvature, room_up), room_down)
        s[i] = end_up if move == room_up else s[i] + move
        s[j] = end_down if move == room_down else s[j] - move
        moved = i
        for _ in range(2):
            set_masks(moved, s, lower, upper, epsilon, cannot_rise, cannot_fall)
            moved = j
        step = number(move)
    return max_steps


@njit(inline="always")
def best_partner(K, sides, masks, i, top, start, stop):
    """The j with the greatest (v_i - v_j)^2 / (K_ii + K_jj - 2 K_ij) among those of start .. stop that can fall and have v_j <
    v_i. ``sides`` are the diagonal and v. The gains are kept, because to compute those of the best run again takes a third of
    a step."""
    diagonal, v = sides
    cannot_fall, gains, number = masks[1], masks[2], v.dtype.type
    zero, two, least, here = number(0.0), number(2.0), number(LEAST_CURVATURE), number(diagonal[i])
    best, best_run = number(-1.0), start
    for first in range(start, stop, RUN):
        run_best = number(-1.0)
        for k in range(first, first + RUN):
            fall = greater(top - (v[k] + cannot_fall[k]), zero)
            gain = fall * fall / greater(here + diagonal[k] - two * number(K[i, k]), least)
            gains[k] = gain
            run_best = greater(run_best, gain)
        if run_best > best:
            best, best_run = run_best, first
    for k in range(best_run, best_run + RUN):
        if gains[k] == best:
            return k
    return best_run


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def solve_without_offset(local, masks, tolerance, max_steps):
    """The same without an offset: v <= tolerance for all that can rise, v >= -tolerance for all that can fall.

    Two variables move at a time, each either way: the worst, and the one that promises the greatest gain with it (I.
    Steinwart, D. Hush and C. Scovel, "Training SVMs without offset", JMLR 2011, section 3)."""
    K, diagonal, v, s, lower, upper, epsilon = local
    q = np.uint64(s.shape[0])
    cannot_rise, cannot_fall = masks[0], masks[1]
    mask_all(s, lower, upper, epsilon, cannot_rise, cannot_fall)
    i = j = np.uint64(0)
    step_i = step_j = v.dtype.type(0.0)
    for steps in range(max_steps + 1):  # the last round only updates v
        top, top_run = v.dtype.type(-np.inf), np.uint64(0)
        bottom, bottom_run = v.dtype.type(np.inf), np.uint64(0)
        for first in range(np.uint64(0), q, RUN):
            run_top, run_bottom = v.dtype.type(-np.inf), v.dtype.type(np.inf)
            for k in range(first, first + RUN):
                new = v[k] - (step_i * v.dtype.type(K[i, k]) + step_j * v.dtype.type(K[j, k]))
                v[k] = new
                run_top = greater(run_top, new + cannot_rise[k])
                run_bottom = lesser(run_bottom, new + cannot_fall[k])
            if run_top > top:
                top, top_run = run_top, first
            if run_bottom < bottom:
                bottom, bottom_run = run_bottom, first
        if not max(top, -bottom) > tolerance or steps == max_steps:
            return steps
        i = place_of(v, cannot_rise, top, top_run) if top >= -bottom else place_of(v, cannot_fall, bottom, bottom_run)
        j = best_companion(K, diagonal, v, cannot_rise, cannot_fall, i)

        old_i, old_j = s[i], s[j]
        move_pair(local, i, j)
        set_masks(i, s, lower, upper, epsilon, cannot_rise, cannot_fall)
        set_masks(j, s, lower, upper, epsilon, cannot_rise, cannot_fall)
        step_i = v.dtype.type(s[i] - old_i)
        step_j = v.dtype.type(s[j] - old_j) if i != j else v.dtype.type(0.0)
    return max_steps


@njit(inline="always")
def best_companion(K, diagonal, v, cannot_rise, cannot_fall, i):
    """The j with the greatest (v_i^2 K_jj - 2 v_i v_j K_ij + v_j^2 K_ii) / (K_ii K_jj - K_ij^2), twice the gain of a pair that
    has room, among those whose bounds let it move; i itself if there is none."""
    number = v.dtype.type
    best, best_run = number(-1.0), np.uint64(0)
    for first in range(np.uint64(0), np.uint64(v.shape[0]), RUN):
        run_best = number(-1.0)
        for k in range(first, first + RUN):
            run_best = greater(run_best, pair_gain(K, diagonal, v, cannot_rise, cannot_fall, i, k))
        if run_best > best:
            best, best_run = run_best, first
    best, j = number(-1.0), i
    for k in range(best_run, best_run + RUN):
        gain = pair_gain(K, diagonal, v, cannot_rise, cannot_fall, i, k)
        if k != i and gain > best:
            best, j = gain, k
    return j


@njit(inline="always")
def pair_gain(K, diagonal, v, cannot_rise, cannot_fall, i, k):
    number = v.dtype.type
    here, there, across, zero = diagonal[i], diagonal[k], number(K[i, k]), number(0.0)
    move_i, move_k = there * v[i] - across * v[k], here * v[k] - across * v[i]
    determinant = greater(here * there - across * across, number(LEAST_DETERMINANT) * here * there + number(LEAST_CURVATURE))
    rise_i, fall_i, rise_k, fall_k = cannot_rise[i], -cannot_fall[i], cannot_rise[k], -cannot_fall[k]
    blocked_i = rise_i if move_i > zero else fall_i
    blocked_k = rise_k if move_k > zero else fall_k
    return (v[i] * move_i + v[k] * move_k) / determinant + (blocked_i + blocked_k)


@njit(inline="always")
def move_pair(local, i, j):
    """The greatest gain v_i a + v_j c - (K_ii a^2 + 2 K_ij a c + K_jj c^2) / 2 within the box: inside, or on an edge."""
    K, diagonal, v, s, lower, upper, _ = local
    K_ii, K_jj, K_ij = np.float64(diagonal[i]), np.float64(diagonal[j]), np.float64(K[i, j])
    v_i, v_j = np.float64(v[i]), np.float64(v[j])
    if i == j:
        s[i] = clip(s[i] + v_i / max(K_ii, LEAST_CURVATURE), lower[i], upper[i])
        return
    determinant = K_ii * K_jj - K_ij * K_ij
    if determinant > LEAST_CURVATURE * K_ii * K_jj:
        inside_i = s[i] + (K_jj * v_i - K_ij * v_j) / determinant
        inside_j = s[j] + (K_ii * v_j - K_ij * v_i) / determinant
        if lower[i] <= inside_i <= upper[i] and lower[j] <= inside_j <= upper[j]:
            s[i], s[j] = inside_i, inside_j
            return
    best, best_i, best_j = -np.inf, s[i], s[j]
    for edge in range(4):
        if edge < 2:
            new_i = lower[i] if edge == 0 else upper[i]
            new_j = clip(s[j] + (v_j - K_ij * (new_i - s[i])) / max(K_jj, LEAST_CURVATURE), lower[j], upper[j])
        else:
            new_j = lower[j] if edge == 2 else upper[j]
            new_i = clip(s[i] + (v_i - K_ij * (new_j - s[j])) / max(K_ii, LEAST_CURVATURE), lower[i], upper[i])
        a, c = new_i - s[i], new_j - s[j]
        gain = v_i * a + v_j * c - 0.5 * (K_ii * a * a + 2.0 * K_ij * a * c + K_jj * c * c)
        if gain > best:
            best, best_i, best_j = gain, new_i, new_j
    s[i], s[j] = best_i, best_j


@njit(inline="always")
def clip(x, low, high):
    return min(max(x, low), high)


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, fastmath=FLAGS)
def extremes(v, s, lower, upper, epsilon):
    """The greatest slope of what can rise and the least of what can fall."""
    top, bottom = -np.inf, np.inf
    for i in range(np.uint64(v.shape[0])):
        rise = v[i] - (epsilon if s[i] >= 0.0 else -epsilon)
        fall = v[i] - (epsilon if s[i] > 0.0 else -epsilon)
        top = greater(top, rise if s[i] < upper[i] else -np.inf)
        bottom = lesser(bottom, fall if s[i] > lower[i] else np.inf)
    return top, bottom


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, fastmath=FLAGS)
def gap_and_dual(v, y, s, lower, upper, b, epsilon):
    """P - D as a sum of terms that are never negative, and D = y . s - epsilon |s| - s . f / 2 = (y + v) . s / 2 - epsilon |s|.

    With the parts s+ and s- of s above and below zero, and g = v - b, the term of a sample is

        (upper - s+) (g - epsilon)_+ + s+ (epsilon - g)_+ + (s- - lower) (-g - epsilon)_+ - s- (g + epsilon)_+ ."""
    gap = dual = 0.0
    for i in range(np.uint64(v.shape[0])):
        above, below = v[i] - b - epsilon, v[i] - b + epsilon
        plus, minus = greater(s[i], 0.0), lesser(s[i], 0.0)
        gap += (upper[i] - plus) * greater(above, 0.0) + plus * greater(-above, 0.0)
        gap += (minus - lower[i]) * greater(-below, 0.0) - minus * greater(below, 0.0)
        dual += 0.5 * s[i] * (y[i] + v[i]) - epsilon * (plus - minus)
    return gap, dual


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, fastmath=FLAGS)
def best_offset(v, lower, upper, epsilon, passes=52):
    """The b that minimises the primal, up to rounding: its slope in b begins with minus the sum of ``upper``, and rises by
    upper_i at v_i - epsilon and by -lower_i at v_i + epsilon. By bisection, since 50 passes take a fifth of the time of
    sorting. With fewer passes b is within a share 2^-passes of the range of v."""
    low, high, level = np.inf, -np.inf, 0.0
    for i in range(np.uint64(v.shape[0])):
        is_present = upper[i] > lower[i]
        low = lesser(low, v[i] if is_present else np.inf)
        high = greater(high, v[i] if is_present else -np.inf)
        level += upper[i]
    low, high = low - epsilon, high + epsilon
    for _ in range(passes):
        middle = 0.5 * (low + high)
        first, second, weight = middle + epsilon, middle - epsilon, 0.0
        if epsilon == 0.0:
            for i in range(np.uint64(v.shape[0])):
                weight += upper[i] - lower[i] if v[i] <= middle else 0.0
        else:
            for i in range(np.uint64(v.shape[0])):
                weight += (upper[i] if v[i] <= first else 0.0) - (lower[i] if v[i] <= second else 0.0)
        if weight < level:
            low = middle
        else:
            high = middle
    return high

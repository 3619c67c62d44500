r"""The optimum of the dual over a working set, by least squares: F. Perez-Cruz, P. L. Alarcon-Diana, A. Navia-Vazquez, A.
Artes-Rodriguez, "Fast training of support vector classifiers", Table 1, as an active-set Newton method that always ends.

In signed variables :math:`s_i = y_i \alpha_i`, each in its box, with the gradient :math:`v = y - f` of the dual,

.. math:: \max_s \; D(s) = y \cdot s - \tfrac12 s K s - f_{out} \cdot s, \qquad \sum_i s_i = \text{const if there is an offset},

where the paper's :math:`G_{in} = y f_{out}` is what the variables outside contribute, and the constant its
:math:`G_{b,in}`. Its three sets are S1, where s is free, S2, where alpha is 0, and S3, where alpha is C. An iteration solves

.. math:: \begin{bmatrix} K_{11} & 1 \\ 1' & 0 \end{bmatrix} \begin{bmatrix} d \\ b \end{bmatrix} = \begin{bmatrix} v_1 \\ 0
          \end{bmatrix}

(step 1, written for the change d of s, so that rounding errors do not build up; e = v - b are the paper's errors). It moves
along d by an exact line search, or to the projection of s + d onto the box if that gains more. Then the sets change (step 4): a
variable that has reached a bound leaves S1, and when S1 is optimal, the variables of S2 and S3 whose error has the wrong sign
enter S1. At first all of them enter; when steps are cut short, fewer and fewer. With one at a time and steps to the first bound
this is the classical active-set method: every face is left for good with a greater dual value, so it ends. The number of
iterations is bounded nevertheless, and the outcome says when the bound was reached.

Table 1 has 1/a_i = e_i y_i / (2C) on the diagonal, which keeps early steps small; in S1 it vanishes at the optimum. Here
projection and line search do that, and the diagonal has what keeps a singular matrix factorable (``free_factor``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.kernel.irwls.free_factor import FreeFactor
from maxmargin.solvers.patience import IdleRounds


@dataclass(frozen=True)
class ClimbPolicy:
    """The numbers that tune an ascent."""

    noise: float = 8.0
    """A violation counts as rounding error below this many units in the last place of the terms of its sum."""
    fewer: int = 4
    """Factor on the number of variables that may enter S1 at a time, after a step that was cut short."""
    more: int = 4
    """Factor on that number after a full step."""
    idle_steps: int = 3
    """The ascent ends after this many full steps in a row that do not halve the violation."""
    most_failures: int = 3
    """The ascent ends after this many systems in a row without a move that raises the dual value."""
    most_shifts: int = 100
    """The most steps of Newton's method for a projection onto the box and the sum."""
    spare_systems: int = 100
    """Linear systems, besides one for each variable, that an ascent may take where no limit is given."""


class Outcome(Enum):
    OPTIMAL = "Every condition holds to the tolerance asked for, or to rounding."
    STILL = "No step raises the dual any more: rounding keeps it from the tolerance."
    LIMIT = "The limit on iterations was reached."
    NOT_FINITE = "The kernel has values that are not finite, or overflow when they are added up."


class WorkingSet(NamedTuple):
    """The dual over a few variables: their kernel block in float64, their current values, and the gradient v = y - f, which
    includes the variables outside."""

    K: Array
    s: Array
    v: Array
    lower: Array
    upper: Array
    has_offset: bool

    @classmethod
    def of_alpha(cls, K: Array, y: Array, C: Array, alpha: Array, G_in: Array, has_offset: bool) -> WorkingSet:
        """Make a working set from the paper's terms: G_in = H_{w,in} beta_in, with H_ij = y_i y_j K_ij. The sum of alpha y is
        kept."""
        s = y * alpha
        return cls(K, s, y * (1.0 - G_in) - K @ s, np.minimum(y * C, 0.0), np.maximum(y * C, 0.0), has_offset)


class Optimum(NamedTuple):
    """``b`` is the multiplier of the equality constraint; ``violation`` the greatest v that can rise minus the least that can
    fall (without an offset, the greatest of either and 0)."""

    s: Array
    v: Array
    b: float
    violation: float
    outcome: Outcome
    iterations: int
    factorisations: int
    updates: int

    @property
    def alpha(self) -> Array:
        return np.abs(self.s)


def optimise(
    work: WorkingSet, tolerance: float = 0.0, max_iterations: int | None = None, policy: ClimbPolicy | None = None
) -> Optimum:
    """Move s to the optimum: to a violation of ``tolerance``, or as far as rounding allows. At most ``max_iterations`` linear
    systems are solved, by default as many as there are variables and some more."""
    policy = policy or ClimbPolicy()
    climb = _Climb(work, len(work.s) + policy.spare_systems if max_iterations is None else max_iterations, policy)
    with np.errstate(all="ignore"):
        outcome = climb.to_the_top(tolerance)
        climb.restore_sum()
    top, bottom = climb.extremes()
    return Optimum(
        s=climb.s,
        v=climb.v,
        b=float(np.clip(climb.b, min(top, bottom), max(top, bottom))) if work.has_offset else 0.0,
        violation=max(0.0, top - bottom),
        outcome=outcome,
        iterations=climb.iterations,
        factorisations=climb.factor.factorisations,
        updates=climb.factor.updates,
    )


class _Move(NamedTuple):
    """A change of s, what it does to v, and to the dual."""

    change: Array
    change_of_v: Array
    gain: float
    is_full: bool = False
    is_projected: bool = False


NO_MOVE = _Move(np.empty(0), np.empty(0), 0.0)


class _Climb:
    """One ascent. ``in_S1`` is S1; of the others, those at 0 are S2 and those at C are S3."""

    def __init__(self, work: WorkingSet, max_iterations: int, policy: ClimbPolicy) -> None:
        self.policy = policy
        self.K, self.lower, self.upper, self.has_offset = work.K, work.lower, work.upper, work.has_offset
        self.s, self.v = np.clip(work.s, work.lower, work.upper), work.v.copy()
        self.total = math.fsum(work.s)
        self.factor = FreeFactor(work.K)
        self.no_ridge = np.zeros(len(self.s))
        self.max_iterations = max_iterations
        self.iterations = 0
        self.allowance = len(self.s)
        top, bottom = self.extremes()
        self.b = 0.5 * (top + bottom) if self.has_offset and math.isfinite(top - bottom) else 0.0
        self.in_S1 = self.is_inside
        self.idle = IdleRounds(share=0.5)
        self.failures = 0
        self.may_project = True  # a second projection in a row that leaves S1 unchanged would gain nothing
        self.roots = np.sqrt(np.abs(np.diagonal(work.K)))

    @property
    def is_inside(self) -> Array:
        mask: Array = (self.s > self.lower) & (self.s < self.upper)
        return mask

    @property
    def noise(self) -> float:
        magnitude = float(np.abs(self.s) @ self.roots) * float(self.roots.max(initial=0.0))
        return self.policy.noise * UNIT_ROUNDOFF * (1.0 + abs(self.b) + magnitude)

    def extremes(self) -> tuple[float, float]:
        """The greatest v that can rise, the least that can fall; without an offset they are compared with 0."""
        top = float(self.v[self.s < self.upper].max(initial=-np.inf))
        bottom = float(self.v[self.s > self.lower].min(initial=np.inf))
        return (top, bottom) if self.has_offset else (max(top, 0.0), min(bottom, 0.0))

    def to_the_top(self, tolerance: float) -> Outcome:
        self.release()
        while True:
            top, bottom = self.extremes()
            if not math.isfinite(float(self.v @ self.s)):
                return Outcome.NOT_FINITE
            if top - bottom <= max(tolerance, self.noise) and not self.restore_sum():
                return Outcome.OPTIMAL
            if self.iterations >= self.max_iterations:
                return Outcome.LIMIT
            self.iterations += 1
            check_point()
            if not self.in_S1.any():
                self.release()
            if not self.in_S1.any() or not self.factor.follow(self.in_S1, self.no_ridge):
                return Outcome.NOT_FINITE if self.in_S1.any() else Outcome.STILL
            if not self.step():
                return Outcome.STILL

    def step(self) -> bool:
        """Solve one linear system and move. False if no move raises the dual value."""
        before = self.in_S1
        direction = self.newton_direction()
        move = self.best_move(direction)
        if not move.gain > 0.0:
            return self.drop_blocked(direction) or self.begin_again()
        self.s += move.change
        self.v -= move.change_of_v
        np.clip(self.s, self.lower, self.upper, out=self.s)
        self.reorder()
        self.failures = 0
        if move.is_full:
            self.release()
            self.allowance = min(len(self.s), self.policy.more * self.allowance)
        is_same = np.array_equal(self.in_S1, before)
        self.may_project = not (move.is_projected and is_same)
        return not (move.is_full and is_same) or self.is_getting_better()

    def newton_direction(self) -> Array:
        """Step 1 for the change of s; b is what the multiplier will be at the end of it."""
        order = self.factor.order
        right = np.ones((len(order), 2), order="F")
        right[:, 0] = self.v[order] - self.b
        found = self.factor.solve(right)
        direction = np.zeros(len(self.s))
        direction[order] = found[:, 0]
        if self.has_offset:
            weights = found[:, 1] / found[:, 1].sum()
            rise = float(found[:, 0].sum()) / float(found[:, 1].sum())
            direction[order] -= rise * found[:, 1]
            direction[order] -= float(direction[order].sum()) * weights
            self.b += rise
        return direction

    def best_move(self, direction: Array) -> _Move:
        """The full step if the box allows it; otherwise a step to the first bound, or towards the projection of its end."""
        room = self.room(direction)
        straight = self.along(direction, room)
        if room >= 1.0:
            return straight._replace(is_full=True)
        if not self.may_project:
            return straight
        projected = self.along(self.projected(self.s + direction) - self.s, 1.0)
        return projected._replace(is_projected=True) if projected.gain > straight.gain else straight

    def room(self, direction: Array) -> float:
        """How far s can go."""
        bound = np.where(direction > 0.0, self.upper, self.lower)
        moves = direction != 0.0
        return float(((bound - self.s)[moves] / direction[moves]).min(initial=np.inf))

    def along(self, direction: Array, room: float) -> _Move:
        """The exact line search: t = v.d / d.K.d, or as far as there is room."""
        slope = float(self.v @ direction)
        if not slope > 0.0 or not room > 0.0:
            return NO_MOVE
        change_of_v = self.K @ direction
        curvature = float(direction @ change_of_v)
        t = min(room, slope / curvature) if curvature > 0.0 else room
        change = t * direction
        if t == room:  # what stops it is at its bound exactly
            end = self.s + change
            slack = self.policy.noise * UNIT_ROUNDOFF * (self.upper - self.lower)
            change = np.where(end >= self.upper - slack, self.upper - self.s, change)
            change = np.where(end <= self.lower + slack, self.lower - self.s, change)
            change[direction == 0.0] = 0.0
        return _Move(change, t * change_of_v, t * (slope - 0.5 * t * curvature))

    def projected(self, point: Array) -> Array:
        """The nearest point in the box with the same sum: all are shifted by one number, and clipped."""
        if not self.has_offset:
            return np.clip(point, self.lower, self.upper)
        here = self.in_S1
        nearest = self.s.copy()
        total, most = float(self.s[here].sum()), self.policy.most_shifts
        nearest[here] = _with_sum(point[here], self.lower[here], self.upper[here], total, most)
        return nearest

    def reorder(self) -> None:
        """Steps 4b and 4c: what is at a bound leaves S1, unless its error drives it inwards."""
        e = self.v - self.b
        inwards = ((self.s < self.upper) & (e > 0.0)) | ((self.s > self.lower) & (e < 0.0))
        self.in_S1 = self.is_inside | (self.in_S1 & inwards)

    def release(self) -> None:
        """Steps 4a and 4d: those at a bound whose error has the wrong sign come into S1, the worst first, and where S1 is
        empty one from each side."""
        top, bottom = self.extremes()
        if self.has_offset and not self.is_inside.any():
            self.b = 0.5 * (top + bottom) if math.isfinite(top - bottom) else self.b
        e = self.v - self.b
        wrong = np.where(self.s < self.upper, np.maximum(e, 0.0), 0.0) + np.where(self.s > self.lower, np.maximum(-e, 0.0), 0.0)
        wrong[self.in_S1] = 0.0
        least = 0.0
        count = int(np.count_nonzero(wrong))
        if count > self.allowance:
            least = float(np.partition(wrong, len(wrong) - self.allowance)[-self.allowance])
        self.in_S1 = self.in_S1 | (wrong >= max(least, self.noise))
        if self.has_offset and not self.is_inside.any():
            self.in_S1 |= (self.v == top) & (self.s < self.upper)
            self.in_S1 |= (self.v == bottom) & (self.s > self.lower)

    def drop_blocked(self, direction: Array) -> bool:
        """Return to S2 or S3 the variables at a bound whose step leads out of the box. False if there are none."""
        blocked = self.in_S1 & (((self.s <= self.lower) & (direction < 0.0)) | ((self.s >= self.upper) & (direction > 0.0)))
        self.in_S1 &= ~blocked
        self.allowance = max(1, self.allowance // self.policy.fewer)
        return bool(blocked.any()) and bool(self.in_S1.any())

    def begin_again(self) -> bool:
        """Handle a state in which no move gains: start again from the free variables and fewer others, then only one. False if
        that has been tried."""
        self.failures += 1
        self.allowance = 1 if self.failures > 1 else max(1, self.allowance // self.policy.fewer)
        self.in_S1 = self.is_inside
        self.release()
        return self.failures <= self.policy.most_failures

    def is_getting_better(self) -> bool:
        top, bottom = self.extremes()
        return self.idle.note(top - bottom) < self.policy.idle_steps

    def restore_sum(self) -> bool:
        """Add the rounding error of the sum to the free variable with most room. Returns whether the error was larger than the
        last digits: if K is singular, a direction may be so long that its rounding error matters, and the optimum is
        elsewhere."""
        if not self.has_offset or not self.is_inside.any():
            return False
        astray = self.total - math.fsum(self.s)
        room = self.upper - self.s if astray > 0.0 else self.s - self.lower
        k = int(np.argmax(np.where(self.is_inside, room, 0.0)))
        if astray == 0.0 or not room[k] > abs(astray):
            return False
        self.s[k] += astray
        self.v -= astray * self.K[:, k]
        return abs(astray) * float(self.roots[k]) * float(self.roots.max()) > self.noise


def _with_sum(point: Array, lower: Array, upper: Array, total: float, most_shifts: int) -> Array:
    """clip(point - shift) with the shift that makes its sum ``total``: Newton's method on a function that falls and is
    piecewise linear, within an interval that it never leaves."""
    low, high, shift = float((point - upper).min()), float((point - lower).max()), 0.0
    nearest, excess = point, 0.0
    for _ in range(most_shifts):
        moved = point - shift
        nearest = np.clip(moved, lower, upper)
        excess = float(nearest.sum()) - total
        low, high = (shift, high) if excess > 0.0 else (low, shift)
        slope = np.count_nonzero(nearest == moved)
        shift = shift + excess / slope if slope else np.inf
        if not low < shift < high:
            shift = 0.5 * (low + high)
        if excess == 0.0 or not low < shift < high:
            break
    return _without(nearest, excess, nearest - lower if excess > 0.0 else nearest - upper)


def _without(point: Array, excess: float, room: Array) -> Array:
    """Subtract the excess that rounding has left from the first variables with room. It is large when points are far away."""
    before = np.cumsum(room) - room
    taken = np.clip(excess - before, 0.0, room) if excess > 0.0 else np.clip(excess - before, room, 0.0)
    return point - taken

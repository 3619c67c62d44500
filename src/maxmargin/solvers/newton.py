r"""Semismooth Newton on the augmented Lagrangian, for problems with few features and any C.

**Outside**, the proximal-point method on the dual, which is the method of multipliers on the primal (R. T. Rockafellar,
"Augmented Lagrangians and applications of the proximal point algorithm in convex programming", Math. Oper. Res. 1, 1976):

    alpha+ = argmax over the box of D(a) - sum_i (a_i - alpha_i)^2 / (2 s C_i),

with a penalty s that grows while the inner problems are easy. **Inside**, its dual in w, which is smooth:

    min F(w) = 1/2 |w|^2 + sum_i phi_i(m_i),    a_i(m) = -phi_i'(m) = clip(alpha_i + s C_i (1 - m), 0, U_i).

F is piecewise quadratic, with gradient g = w - w(a) and, where a_i is not clipped (sample i is *free*), Hessian

    H = I + s sum over the free samples of C_i x_i x_i',

so a Newton step costs a pass over X and one Cholesky factorisation of the size of w (semismooth Newton: L. Qi and J. Sun,
"A nonsmooth version of Newton's method", Math. Programming 58, 1993; on augmented Lagrangians: X. Y. Zhao, D. Sun, K.-C.
Toh, SIAM J. Optim. 20, 2010; for support vector machines: Y. Yan and Q. Li, Optim. Methods Softw. 35, 2020). The step along
it is exact: F' is piecewise linear and rising along a line, and a safeguarded Newton iteration finds its root in a few
passes over the margins.

w and the a that answers it are a primal and a dual point, and for the inner problem their gap is exactly |g|^2 / 2. That makes
the test for when to go outside: |g|^2 / 2 <= 0.3 (D(a) - D(alpha)).

**Squared hinge and least squares** are smooth as they are: a_i = clip(2 C_i (1 - m), 0, inf) without a proximal term, H
with weights 2 C_i, and Newton runs on the primal directly. **An intercept without penalty** is a coordinate without its 1
in H: at the inner optimum its g is -sum_i a_i y_i = 0, the equality constraint of the dual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.data import Array
from maxmargin.problem import LinearProblem
from maxmargin.solvers.base import Budget, Stage, refuse_huber
from maxmargin.solvers.newton_passes import Answer, passes_for
from maxmargin.threads import single_threaded_blas

SEARCH_ACCURACY = 1e-4
"""How small the slope along the direction is to be at the end of the line search, relative to where it began."""
SEARCH_PASSES = 40
ROUNDING = 2.0**-52
GREATEST_PENALTY = 1e8
"""Beyond this the rounding of a margin, times the penalty, is more than is gained."""
TRUSTED_DIFFERENCE = 1e-11
"""Down to this, relative to the dual value, the gap between two points is known from the difference of their values."""
MOST_STEPS_A_CALL = 200
"""On small data a step is far cheaper than its elements say, and Ctrl-C is heard only between calls."""
STILL_OUTER_STEPS = 3
"""So many outer steps in a row that do not raise the dual value are the end."""
IDLE_STEPS, IDLE_FACTOR = 100, 0.9
"""And so many Newton steps in which the gap does not fall to this share of what it was."""


@dataclass(frozen=True)
class Newton:
    """``penalty`` is the first s above, ``acceptance`` the 0.3, ``growth`` what s is multiplied by after an inner problem that
    took at most so many steps; a longer one multiplies it by ``fall``."""

    penalty: float = 2.0
    acceptance: float = 0.3
    growth: tuple[tuple[int, float], ...] = ((3, 4.0), (8, 2.0), (20, 1.0))
    fall: float = 0.5

    def __post_init__(self) -> None:
        for name in ("penalty", "acceptance", "fall"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be positive and finite; got {getattr(self, name)!r}.")

    @property
    def name(self) -> str:
        return "newton"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> NewtonState:
        refuse_huber(problem, self.name)
        with np.errstate(all="ignore"):
            return NewtonState(problem, warm_start, self.penalty)

    def advance(self, problem: LinearProblem, state: NewtonState, budget: Budget) -> None:
        """Whole Newton steps, each counted as an epoch; at least one, and not so many that Ctrl-C would wait."""
        end = state.steps + min(budget.steps, MOST_STEPS_A_CALL * problem.n_samples)
        with single_threaded_blas(), np.errstate(all="ignore"):
            if state.looks_done:
                state.look_closer()
            while not state.looks_done and state.steps < end:
                if state.solves_inner_problem(self.acceptance):
                    state.go_outside(self._factor(state.inner_steps))
                state.step()
                state.looks_done = state.is_stuck or state.gap <= budget.target * state.caution * abs(state.best_dual)

    def candidate(self, problem: LinearProblem, state: NewtonState) -> tuple[Array, Array]:
        w, alpha = state.answer()
        return w[: problem.n_weights], alpha

    def _factor(self, inner_steps: int) -> float:
        return next((factor for most, factor in self.growth if inner_steps <= most), self.fall)


class NewtonState:
    """w with its margins, the answer ``alpha`` to them, and the ``anchor`` of the proximal term."""

    has_best_w = True

    def __init__(self, problem: LinearProblem, warm_start: Array | None, penalty: float) -> None:
        n, box = problem.n_samples, problem.box
        self.problem = problem
        self.stage = Stage("newton")
        answer = Answer.of(problem)
        self.passes = passes_for(problem, answer)
        self.is_direct = answer.is_direct
        self.regulariser = problem.regulariser
        self.penalty = 1.0 if self.is_direct else penalty
        self.alpha = np.zeros(n) if warm_start is None else np.clip(warm_start, box.L, box.U)
        self.anchor = self.alpha if self.is_direct else self.alpha.copy()
        self.margin, self.along = np.zeros(n), np.empty(n)
        self.free = np.zeros(n, bool)
        self.steps = self.inner_steps = self.n_free = self.still_outer_steps = 0
        self.looks_done = self.is_stuck = self.is_at_rounding = False
        self.caution = 1.0
        self.least_primal = self.least_gap = np.inf
        self.idle_steps = 0
        self.w = self.passes.restart(self.alpha)
        self.best_w = self.w.copy()
        self.passes.products(self.w, self.margin)
        linear = float(np.sum(self.alpha - 0.5 * box.D * np.square(self.alpha)))
        self.anchor_dual = linear - 0.5 * float(self.regulariser @ np.square(self.w))
        self._respond()

    @property
    def active(self) -> int:
        return self.n_free

    @property
    def gap(self) -> float:
        """Of the better of the two pairs that ``answer`` chooses between."""
        return min(self.pair_gap, self._difference)

    @property
    def best_dual(self) -> float:
        return max(self.dual, self.anchor_dual)

    @property
    def _difference(self) -> float:
        difference = self.least_primal - self.best_dual
        return difference if difference > TRUSTED_DIFFERENCE * abs(self.best_dual) else np.inf

    def answer(self) -> tuple[Array, Array]:
        """The present pair; or the best w so far with the better of the two dual points, if their gap is less."""
        if self.pair_gap <= self._difference:
            return self.w, self._balanced(self.alpha)
        return self.best_w, self._balanced(self.alpha if self.dual >= self.anchor_dual else self.anchor)

    def solves_inner_problem(self, acceptance: float) -> bool:
        if self.is_direct or self.inner_steps == 0:
            return False
        return self.is_at_rounding or self.inner_gap <= acceptance * (self.dual - self.anchor_dual)

    def go_outside(self, factor: float) -> None:
        """The proximal-point step: alpha becomes the anchor of the next inner problem."""
        rise = self.dual - self.anchor_dual
        self.still_outer_steps = 0 if rise > ROUNDING * abs(self.dual) else self.still_outer_steps + 1
        self.is_stuck = self.still_outer_steps >= STILL_OUTER_STEPS
        np.copyto(self.anchor, self.alpha)
        self.anchor_dual = self.dual
        self.penalty = min(self.penalty * factor, GREATEST_PENALTY)
        self.inner_steps = 0
        self._respond()

    def step(self) -> None:
        """One Newton step on the inner problem with an exact line search."""
        self.steps += self.problem.n_samples
        self.inner_steps += 1
        hessian = self.passes.hessian
        hessian.update(self.free, self.n_free)
        direction = hessian.solve(self.penalty, self._damped_regulariser, self.gradient, self.free)
        if direction is None:
            self.is_stuck = True
            return
        decrement = -float(self.gradient @ direction)
        self.is_at_rounding = not decrement > ROUNDING * abs(self.dual)
        self.is_stuck |= self.is_direct and self.is_at_rounding
        if decrement > 0.0:
            self.passes.products(direction, self.along)
            self._move(direction, self._search(direction))
        self._note_progress()

    def _note_progress(self) -> None:
        if self.gap <= IDLE_FACTOR * self.least_gap:
            self.least_gap, self.idle_steps = self.gap, 0
        else:
            self.idle_steps += 1
            self.is_stuck |= self.idle_steps >= IDLE_STEPS

    def _move(self, direction: Array, length: float) -> None:
        n_free, inner_gap = self.n_free, self.inner_gap
        self.w += length * direction
        self.margin += length * self.along
        self._respond()
        hessian = self.passes.hessian
        if hessian.in_float32 and self.n_free == n_free and not hessian.pending and self.inner_gap > 0.1 * inner_gap:
            hessian.in_float32 = False  # nothing changed and still the step missed: the matrix is not good enough
            hessian.rebuild(self.free)

    @property
    def _damped_regulariser(self) -> Array:
        """An intercept without penalty has no curvature while no sample is free: keep its step within about half a margin.
        The damping is proportional to its gradient, so it vanishes as the inner problem is solved."""
        if self.problem.penalizes_intercept:
            return self.regulariser
        damped = self.regulariser.copy()
        damped[-1] = 2.0 * abs(float(self.gradient[-1])) * self.problem.intercept_scaling
        return damped

    def look_closer(self) -> None:
        """A certificate was refused: wash out the rounding of the steps that led here, and ask more of the inner test."""
        self.caution *= 0.5
        self.looks_done = False
        self.passes.restart(self.alpha)
        self.passes.products(self.w, self.margin)
        self._respond()

    def _search(self, direction: Array) -> float:
        """The t > 0 with F'(w + t direction) = 0: Newton on a rising, piecewise linear function, kept between two bounds."""
        linear = float((self.regulariser * self.w) @ direction)
        quadratic = float((self.regulariser * direction) @ direction)
        enough = SEARCH_ACCURACY * abs(float(self.gradient @ direction))
        t, low, high = 1.0, 0.0, np.inf
        for _ in range(SEARCH_PASSES):
            first, second = self.passes.slope(self.margin, self.along, self.anchor, self.penalty, t)
            first, second = first + linear + t * quadratic, second + quadratic
            if abs(first) <= enough:
                break
            low, high = (t, high) if first < 0.0 else (low, t)
            t = t - first / second if second > 0.0 else np.inf
            if not low < t < high:
                t = 0.5 * (low + high) if np.isfinite(high) else 2.0 * low
        return t

    def _respond(self) -> None:
        """alpha = a(m), and everything that is known from it."""
        sums = self.passes.respond(self.margin, self.anchor, self.penalty, self.alpha, self.free)
        w_alpha, self.n_free = sums.w_alpha, sums.n_free
        self.gradient = self.regulariser * self.w - w_alpha
        self.inner_gap = 0.5 * float(self.regulariser @ np.square(self.gradient)) + self._imbalance
        self.pair_gap = sums.gap_terms + self.inner_gap
        self.dual = sums.linear - 0.5 * float(self.regulariser @ np.square(w_alpha)) - self._imbalance
        primal = 0.5 * float(self.regulariser @ np.square(self.w)) + sums.loss
        if primal < self.least_primal:
            self.least_primal = primal
            np.copyto(self.best_w, self.w)

    @property
    def _imbalance(self) -> float:
        """About what it costs the dual to make sum_i alpha_i y_i zero, where an intercept without penalty asks for that."""
        if self.problem.penalizes_intercept:
            return 0.0
        return abs(float(self.gradient[-1])) * (1.0 / self.problem.intercept_scaling + abs(float(self.w[-1])))

    def _balanced(self, alpha: Array) -> Array:
        return alpha if self.problem.penalizes_intercept else self.problem.balanced(alpha)

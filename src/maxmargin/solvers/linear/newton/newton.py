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

**Squared hinge, least squares and Huber loss** are smooth as they are. With D_ii = k / C_i the answer is a_i(m) =
clip((anchor_i + s C_i (1 - m)) / (1 + s k)). Without a proximal term (s = inf) the answer is clip(C_i (1 - m) / k), and Newton
runs on the primal directly. **An intercept without penalty** is a coordinate without its 1 in H: at the inner optimum its g is
-sum_i a_i y_i = 0, the equality constraint of the dual.

**Columns as they come.** Cholesky does not care about the scale of a column, but rounding does: a margin is known to about
1e-16 |w| |x|, and a_i to s C_i times that. Where this noise hides the rise of the dual value, a smaller s makes less of it.
In regression s C_i is a change of a_i for a unit of the output, so targets are brought to size one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.newton.frame import Reduction, lengthened, reduced, regulariser_of, with_best_offset
from maxmargin.solvers.linear.newton.hessian import Regulariser
from maxmargin.solvers.linear.newton.line_search import rising_root
from maxmargin.solvers.linear.newton.passes import Prox, curve_of, passes_for
from maxmargin.solvers.presolve import CentredColumns
from maxmargin.solvers.scaled_targets import ScaledTargets

SEARCH_ACCURACY, ROUGH_ACCURACY = 1e-4, 1e-3
"""How small the slope along the direction is to be at the end of the line search, relative to where it began; the second is for
directions that are themselves known to a tenth only."""
AIM = 0.5
"""A rough direction is good enough when the gap that it leads to, as far as F is quadratic, is this share of the target."""
ROUNDING = 2.0**-52
GREATEST_PENALTY = 1e8
"""Beyond this the rounding of a margin, times the penalty, is more than is gained."""
TRUSTED_DIFFERENCE = 1e-11
"""Down to this, relative to the dual value, the gap between two points is known from the difference of their values."""
CONVERGED = 1e-12
"""A relative gap below this is rounding, as far as the solver can tell."""
BETTER_PAIR = 0.7
"""A pair is copied when its gap is less than this share of the best one's."""
MOST_STEPS_A_CALL = 200
"""On small data a step is far cheaper than its elements say, and Ctrl-C is heard only between calls."""
RETREAT = 1.0 / 16.0
"""The penalty is multiplied by this when rounding hides what an outer step gains."""
MOST_RETREATS = 3
"""So many retreats in a row that do not raise the dual value are the end, as far as the solver can tell."""
MOST_REFUSALS = 4
"""So many certificates refused at that end, each followed by a far smaller penalty, and the solver is stuck."""
REFUSED_RETREAT = 1.0 / 64.0
"""What the penalty is multiplied by after the first of these refusals."""
LEAST_PENALTY = 1e-100
"""No penalty is smaller: its reciprocal has to be finite."""
RESOLVED = 1e6
"""s C |x|^2 where rounding has forced a smaller penalty: see ``_resolved_penalty``."""
REFINEMENTS = 2
"""Newton steps in higher precision before an answer is offered again."""
CAREFUL_STEPS = 30
"""After so many Newton steps of the kind below the matrix is factored with more care."""
IDLE_STEPS, IDLE_FACTOR = 100, 0.9
"""So many Newton steps in which the gap does not fall to this share of what it was are the end as well."""
LONG_MARGIN, NOTICEABLE = 1e3, 1e-9
"""A margin is the sum of terms of this size at the most, as far as the solver guesses; and a share of the objective below this
is not looked at."""


@dataclass(frozen=True)
class Newton:
    """``penalty`` is the first s above when there is a point to start from, ``cold_penalty`` when there is none: below 1 every
    sample is free at w = 0, and the first step solves a least-squares problem. ``acceptance`` is the 0.3, ``growth`` what s is
    multiplied by after an inner problem that took at most so many steps; a longer one multiplies it by ``fall``. With
    ``polishes`` the answer is taken as far as float64 goes, whatever the target is."""

    penalty: float = 2.0
    cold_penalty: float = 0.5
    acceptance: float = 0.3
    growth: tuple[tuple[int, float], ...] = ((3, 4.0), (8, 2.0), (20, 1.0))
    fall: float = 0.5
    polishes: bool = False

    def __post_init__(self) -> None:
        for name in ("penalty", "cold_penalty", "acceptance", "fall"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be positive and finite; got {getattr(self, name)!r}.")

    @property
    def name(self) -> str:
        return "newton"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> NewtonState:
        with single_threaded_blas(), np.errstate(all="ignore"):
            return NewtonState(problem, warm_start, self)

    def advance(self, problem: LinearProblem, state: NewtonState, budget: Budget) -> None:
        """Whole Newton steps, each counted as an epoch; at least one, and not so many that Ctrl-C would wait."""
        end = state.steps + min(budget.steps, MOST_STEPS_A_CALL * problem.n_samples)
        with single_threaded_blas(), np.errstate(all="ignore"):
            if state.looks_done:
                state.look_closer(budget.target)
            while not state.looks_done and state.steps < end:
                state.step(budget.target)
                if state.solves_inner_problem(self.acceptance):
                    state.go_outside(self.factor(state.inner_steps))
                elif state.is_at_rounding:
                    state.retreat(self.factor(state.inner_steps))
                if state.gap <= budget.target * state.caution * abs(state.best_dual):
                    state.meet_target(self.polishes)

    def candidate(self, problem: LinearProblem, state: NewtonState) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            w, alpha = state.answer()
            w = w[: state.problem.n_weights]
            for reduction in reversed(state.reductions):
                w, alpha = reduction.expand(w, alpha)
            if problem.offset_prices is not None:
                return with_best_offset(problem, w), alpha
            is_lengthened = state.hangs_on_rounding and not problem.loss.is_regression
            return (lengthened(problem, w) if is_lengthened else w), alpha

    def factor(self, inner_steps: int) -> float:
        """What multiplies the penalty after an inner problem of so many steps."""
        return next((factor for most, factor in self.growth if inner_steps <= most), self.fall)


@dataclass
class Pair:
    """A primal and a dual point that answer each other, and the gap between them."""

    gap: float
    w: Array
    alpha: Array

    def take(self, gap: float, w: Array, alpha: Array) -> None:
        self.gap = gap
        np.copyto(self.w, w)
        np.copyto(self.alpha, alpha)


class NewtonState:
    """w with its margins, the answer ``alpha`` to them, and the ``anchor`` of the proximal term: the best dual point so far."""

    has_best_w = True

    def __init__(self, problem: LinearProblem, warm_start: Array | None, settings: Newton) -> None:
        self.original, self.settings = problem, settings
        self.stage = Stage("newton")
        self.steps = 0
        self.kept: tuple[Array, Array] | None = None
        reductions = reduced(problem)
        alpha = problem.first_dual_point if warm_start is None else warm_start
        for reduction in reductions:
            alpha = reduction.reduce(alpha)
        self._begin(reductions, alpha)

    def _begin(self, reductions: list[Reduction], alpha: Array) -> None:
        """Start from ``alpha`` on the problem as ``reductions`` leave it."""
        self.reductions = reductions
        self.problem = problem = reductions[-1].problem if reductions else self.original
        n, box = problem.n_samples, problem.box
        self.curve = curve_of(problem)
        self.passes = passes_for(problem, self.curve)
        self.regulariser = regulariser_of(problem, reductions)
        self.alpha = np.clip(alpha, box.L, box.U)
        if problem.offset_prices is not None:
            self.alpha = problem.balanced(self.alpha)
        self.price = 0.0 if problem.offset_prices is None else problem.intercept_scaling * float(problem.offset_prices.sum())
        self.anchor = self.alpha.copy()
        self.margin, self.along = np.empty(n), np.empty(n)
        self.free = np.zeros(n, bool)
        self.inner_steps = self.n_free = self.retreats = self.refusals = self.idle_steps = 0
        self.looks_done = self.is_stuck = self.is_at_rounding = self.is_at_end = self.is_washed = self.is_refined = False
        self.caution = 1.0
        self.least_primal = self.least_gap = np.inf
        w_alpha = self.passes.restart(self.alpha)
        self.anchor_dual = float(np.sum(box.terms(self.alpha))) - 0.5 * self.regulariser.conjugate(w_alpha)
        self.w = self.regulariser.minimiser(w_alpha)
        if self.price:
            self.w[-1] = 0.0
        self.best_w = self.w.copy()
        self.best_pair = Pair(np.inf, self.w.copy(), self.alpha.copy())
        self.passes.products(self.w, self.margin)
        self._set_penalty(self.settings.penalty)
        self._respond()
        self._start_at_zero_if_better(self.settings.cold_penalty)

    def _set_penalty(self, penalty: float) -> None:
        """A smooth loss needs no proximal term until rounding asks for one."""
        limited = max(LEAST_PENALTY, min(penalty, GREATEST_PENALTY))
        self.penalty = np.inf if self.curve.is_smooth and self.refusals == 0 else limited
        self.prox = Prox.of(self.anchor, self.penalty, self.curve.softness)

    def _start_at_zero_if_better(self, penalty: float) -> None:
        """w(alpha) of a poor alpha can have a primal value many orders of magnitude above that of w = 0."""
        is_at_zero = not self.w.any()
        if is_at_zero and self.curve.is_smooth and np.isinf(self.penalty):  # without a proximal term a penalty changes nothing
            return
        if self.least_primal < self.problem.primal_at_zero and not is_at_zero:
            return
        self.w[:] = 0.0
        self.margin[:] = 0.0
        self._set_penalty(penalty)
        self._respond()

    @property
    def active(self) -> int:
        return self.n_free

    @property
    def gap(self) -> float:
        """Of the better of the two that ``answer`` chooses between."""
        return min(self.best_pair.gap, self._difference)

    def meets(self, target: float) -> bool:
        """Whether the relative gap is within the target, as far as the solver can tell."""
        return bool(np.isfinite(self.gap) and self.gap <= target * abs(self.best_dual))

    @property
    def best_dual(self) -> float:
        return max(self.dual, self.anchor_dual)

    @property
    def _difference(self) -> float:
        difference = self.least_primal - self.best_dual
        return difference if difference > TRUSTED_DIFFERENCE * abs(self.best_dual) else np.inf

    def answer(self) -> tuple[Array, Array]:
        """The best pair so far; or the best w with the better of the two dual points, if their gap is less. After a refusal
        the pair that met the target before it was polished, or the present pair, refined, is offered in turn with these."""
        if self.refusals == 1 and self.kept is not None:
            return self.kept
        if self.refusals % 2 == 1:
            w, alpha = self._refined()
            return w, self._balanced(alpha)
        if self.best_pair.gap <= self._difference:
            return self.best_pair.w, self._balanced(self.best_pair.alpha)
        return self.best_w, self._balanced(self.alpha if self.dual >= self.anchor_dual else self.anchor)

    def meet_target(self, polishes: bool) -> None:
        """The end; or, if the answer is to be polished, a pair to come back to."""
        if not polishes or self.refusals > 0:
            self.looks_done = True
        elif self.kept is None:
            w, alpha = self.answer()
            self.kept = w.copy(), alpha.copy()

    def _refined(self) -> tuple[Array, Array]:
        """The present pair after Newton steps whose gradient w - w(alpha) is known to more than float64, and whose change of
        alpha is added to alpha: an alpha_i that answers a rounded margin is wrong by rate C_i times the rounding."""
        w, alpha = self.w.copy(), self.alpha.copy()
        scales, along = self.prox.rate * self.curve.C * self.free, np.empty(len(alpha))
        self.passes.hessian.update(self.free, self.n_free)
        for _ in range(REFINEMENTS):
            gradient = self._gradient(w, self.problem.precise_weights(alpha))
            direction = self.passes.hessian.solve(self.prox.rate, self._damped_regulariser, gradient, self.free)
            if direction is None:
                break
            self.passes.products(direction, along)
            w += direction
            alpha = np.clip(alpha - scales * along, self.problem.box.L, self.problem.box.U)
        return w, alpha

    def solves_inner_problem(self, acceptance: float) -> bool:
        return np.isfinite(self.penalty) and self.inner_gap <= acceptance * self._rise

    @property
    def _rise(self) -> float:
        return self.dual - self.anchor_dual

    def go_outside(self, factor: float) -> None:
        """The proximal-point step: alpha becomes the anchor of the next inner problem."""
        rise = self._move_anchor()
        self.retreats = 0 if rise > ROUNDING * abs(self.anchor_dual) else self.retreats + 1
        if self.retreats >= MOST_RETREATS or (self.retreats > 0 and self._has_converged):
            self._end()
            return
        self._begin_inner_problem(self.penalty * factor)

    def _move_anchor(self) -> float:
        """Let the present alpha, made feasible, be the anchor if its dual value is greater; returns by how much it is."""
        if self.problem.penalizes_intercept:
            return self._take_anchor(self.alpha, self.dual)
        alpha = self.problem.balanced(self.alpha)
        weights = np.append(self.problem.weights(alpha)[:-1], 0.0)
        return self._take_anchor(
            alpha, float(np.sum(self.problem.box.terms(alpha))) - 0.5 * self.regulariser.conjugate(weights)
        )

    def _take_anchor(self, alpha: Array, dual: float) -> float:
        rise = dual - self.anchor_dual
        if rise > 0.0:
            np.copyto(self.anchor, alpha)
            self.anchor_dual = dual
        return rise

    def _has_risen_by_refinement(self) -> bool:
        """Whether the present pair, refined, raises the dual value, once for each inner problem. If so it is the new anchor."""
        if self.is_refined:
            return False
        self.is_refined = True
        alpha = self._balanced(self._refined()[1])
        weights = self.problem.precise_weights(alpha)
        dual = float(np.sum(self.problem.box.terms(alpha))) - 0.5 * self.regulariser.conjugate(weights)
        return self._take_anchor(alpha, dual) > ROUNDING * abs(dual)

    def retreat(self, factor: float) -> None:
        """No step lowers F any more, and still alpha is not good enough for an outer step: rounding hides what it would gain.

        First the rounding of the steps that led here is washed out. A rise of the dual value that is there all the same, or
        after a refinement in higher precision, is taken. Else the inner problem is made easier by a smaller penalty."""
        if self._has_converged:
            self._end()
        elif not self.is_washed:
            self.passes.hessian.is_careful = True
            self._wash()
        elif np.isinf(self.penalty):
            self._end()
        elif self._rise > -CONVERGED * abs(self.dual):
            self.go_outside(factor if self.inner_gap <= CONVERGED * abs(self.dual) else 1.0)
        elif self._has_risen_by_refinement():
            self.retreats = 0
            self._begin_inner_problem(self.penalty)
        else:
            self.retreats += 1
            if self.retreats >= MOST_RETREATS:
                self._end()
            else:
                self._begin_inner_problem(self.penalty * RETREAT)

    @property
    def _has_converged(self) -> bool:
        """Whether what is left of the gap is rounding."""
        return self.pair_gap <= CONVERGED * abs(self.dual)

    def _end(self) -> None:
        self.looks_done = self.is_at_end = True

    def _begin_inner_problem(self, penalty: float) -> None:
        self._set_penalty(penalty)
        self.inner_steps = 0
        self.is_washed = self.is_refined = False
        self._respond()

    def _wash(self) -> None:
        """Compute w(alpha) and the margins anew, free of the rounding of earlier steps."""
        self.is_washed = True
        self.passes.restart(self.alpha)
        self.passes.products(self.w, self.margin)
        self._respond()

    @property
    def hangs_on_rounding(self) -> bool:
        """Whether margins of the free samples that are below one by rounding alone could cost a noticeable part of the primal
        value."""
        rounding = UNIT_ROUNDOFF * (self.problem.n_weights + 4) * LONG_MARGIN
        cost = float(self.curve.C.max()) * self.n_free * rounding
        return self.refusals > 0 or (not self.curve.is_smooth and cost > NOTICEABLE * self.least_primal)

    def look_closer(self, target: float) -> None:
        """A certificate was refused: ask more of the inner test. At the end of what the penalty allows, take a far smaller one,
        and go on from the best two points. (Where the target is zero every certificate is refused, and the end is the end.)"""
        if target == 0.0 and self.is_at_end:
            self.is_stuck = True
            return
        self.caution *= 0.5
        self.looks_done = False
        if not self.is_at_end:
            self._wash()
            return
        self.refusals += 1
        if self.refusals >= MOST_REFUSALS:
            self._centre_or_give_up()
            return
        self.is_at_end, self.retreats, self.idle_steps, self.least_gap = False, 0, 0, np.inf
        self._move_anchor()
        self.best_pair.gap = np.inf  # as the certificate sees it, it is not that small
        np.copyto(self.w, self.best_w)
        self._wash()
        smaller = min(1.0, self.penalty * REFUSED_RETREAT)
        self._begin_inner_problem(smaller if self.refusals == 1 else min(smaller, self._resolved_penalty))

    def _centre_or_give_up(self) -> None:
        """A penalised intercept is small beside w . x in most data, and then centred columns only add rounding. Where they are
        not centred yet, they are the last resort."""
        targets = [reduction for reduction in self.reductions if isinstance(reduction, ScaledTargets)]
        is_plain = len(targets) == len(self.reductions) and not self.price
        centred = CentredColumns.of(self.problem) if is_plain else None
        if centred is None:
            self.is_stuck = self.looks_done = True
        else:
            self.kept = None
            self._begin([*targets, centred], self.anchor)

    @property
    def _resolved_penalty(self) -> float:
        """With this s the rounding of a margin of one moves alpha_i by 1e-10 of 1 / |x|^2: what alpha_i is about where the data
        can be separated, however large C is."""
        return max(LEAST_PENALTY, float(np.divide(RESOLVED, self.curve.C.max() * self._mean_sqnorm)))

    def step(self, target: float = 0.0) -> None:
        """One Newton step on the inner problem with an exact line search, for a relative gap of ``target``."""
        self.steps += self.problem.n_samples
        self.inner_steps += 1
        hessian = self.passes.hessian
        hessian.update(self.free, self.n_free)
        if self.problem.penalizes_intercept:
            hessian.aim(AIM * target * self.caution * self.least_primal)
        direction = hessian.solve(self.prox.rate, self._damped_regulariser, self.gradient, self.free)
        if direction is None:
            self.is_stuck = self.looks_done = True
            return
        decrement = -float(self.gradient @ direction)
        self.is_at_rounding = not decrement > ROUNDING * self.least_primal
        if decrement > 0.0:
            before = self.inner_gap, self.pair_gap
            self.passes.products(direction, self.along)
            self._move(direction, self._search(direction))
            self.is_at_rounding |= before == (self.inner_gap, self.pair_gap)
        self._note_progress()

    def _note_progress(self) -> None:
        if self.gap <= IDLE_FACTOR * self.least_gap:
            self.least_gap, self.idle_steps = self.gap, 0
        else:
            self.idle_steps += 1
            self.passes.hessian.is_careful |= self.idle_steps >= CAREFUL_STEPS
            if self.idle_steps >= IDLE_STEPS:
                self._end()

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
    def _damped_regulariser(self) -> Regulariser:
        """An intercept without penalty has no curvature while no sample is free: keep its step within about half a margin.
        The damping is proportional to its gradient, so it vanishes as the inner problem is solved."""
        if self.problem.penalizes_intercept:
            return self.regulariser
        damped = self.regulariser.ones.copy()
        damped[-1] = 2.0 * abs(float(self.gradient[-1])) * self.problem.intercept_scaling or 1.0
        return Regulariser(damped)

    def _search(self, direction: Array) -> float:
        """The t > 0 with F'(w + t direction) = 0."""
        linear = float(self.regulariser.times(self.w) @ direction) + self.price * float(direction[-1])
        quadratic = self.regulariser.sqnorm(direction)
        accuracy = ROUGH_ACCURACY if self.passes.hessian.is_rough else SEARCH_ACCURACY
        enough = accuracy * abs(float(self.gradient @ direction))

        def look(t: float) -> tuple[float, float]:
            first, second = self.passes.slope(self.margin, self.along, self.prox, t)
            return first + linear + t * quadratic, second + quadratic

        return rising_root(look, enough)

    def _respond(self) -> None:
        """alpha = a(m), and everything that is known from it."""
        sums = self.passes.respond(self.margin, self.prox, self.alpha, self.free)
        w_alpha, self.n_free = sums.w_alpha, sums.n_free
        self.gradient = self._gradient(self.w, w_alpha)
        self.inner_gap = 0.5 * self.regulariser.conjugate(self.gradient) + self._imbalance
        self.pair_gap = sums.gap_terms + self.inner_gap
        self.dual = sums.linear - 0.5 * self.regulariser.conjugate(w_alpha) - self._imbalance
        primal = 0.5 * self.regulariser.sqnorm(self.w) + sums.loss + self.price * float(self.w[-1])
        if primal < self.least_primal:
            self.least_primal = primal
            np.copyto(self.best_w, self.w)
        if self.pair_gap < BETTER_PAIR * self.best_pair.gap:
            self.best_pair.take(self.pair_gap, self.w, self.alpha)

    def _gradient(self, w: Array, w_alpha: Array) -> Array:
        gradient = self.regulariser.times(w) - w_alpha
        gradient[-1] += self.price
        return gradient

    @property
    def _imbalance(self) -> float:
        """About what it costs the dual to make r = sum_i alpha_i y_i zero, where an intercept without penalty asks for that:
        |r| (|p| + |b|) in the linear terms, and r^2 / 2 times the mean of |x|^2 where w(alpha) moves."""
        if self.problem.penalizes_intercept:
            return 0.0
        scaling = self.problem.intercept_scaling
        excess = abs(float(self.gradient[-1])) / scaling
        offset = abs(float(self.w[-1])) * scaling
        return excess * (self._mean_target + offset) + 0.5 * excess * excess * self._mean_sqnorm

    @cached_property
    def _mean_sqnorm(self) -> float:
        return float(np.mean(self.problem.rows.squared_norms()))

    @cached_property
    def _mean_target(self) -> float:
        return float(np.mean(np.abs(self.problem.box.p))) + self.problem.box.e

    def _balanced(self, alpha: Array) -> Array:
        return alpha if self.problem.penalizes_intercept else self.problem.balanced(alpha)

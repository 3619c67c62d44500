"""The state of the semismooth Newton method: its points, its penalty, and its steps.

``newton.py`` has the mathematics. A *pair* is a primal and a dual point that answer each other. The *anchor* is the centre of
the proximal term. An *inner problem* is solved between two moves of the anchor."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.base import Stage
from maxmargin.solvers.linear.dual_mending import is_worth_mending, mended
from maxmargin.solvers.linear.newton.frame import Reduction, reduced, regulariser_of
from maxmargin.solvers.linear.newton.hessian import Regulariser
from maxmargin.solvers.linear.newton.line_search import least_along
from maxmargin.solvers.linear.newton.pair import PrimalDualPair
from maxmargin.solvers.linear.newton.passes import Prox, curve_of, passes_for
from maxmargin.solvers.linear.newton.scale import Scale
from maxmargin.solvers.linear.newton.standing import ROUNDING, Standing
from maxmargin.solvers.patience import IdleRounds
from maxmargin.solvers.presolve import CentredColumns
from maxmargin.solvers.scaled_targets import ScaledTargets

if TYPE_CHECKING:
    from maxmargin.solvers.linear.newton.newton import Newton


class NewtonState(Standing):
    """w with its margins, the answer ``alpha`` to them, and the ``anchor`` of the proximal term: the best dual point so far."""

    has_best_w = True

    def __init__(self, problem: LinearProblem, warm_start: Array | None, settings: Newton) -> None:
        self.original, self.settings, self.policy = problem, settings, settings.policy
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
        self.passes = passes_for(problem, self.curve, self.policy)
        self.regulariser = regulariser_of(problem, reductions)
        self.scale = Scale(problem)
        self.alpha = np.clip(alpha, box.L, box.U)
        self.price = 0.0
        if problem.offset_prices is not None:
            self.alpha = problem.balanced(self.alpha)
            self.price = problem.intercept_scaling * float(problem.offset_prices.sum())
        self.anchor = self.alpha.copy()
        self.margin, self.along = np.zeros(n), np.empty(n)
        self.free = np.zeros(n, bool)
        self.inner_steps = self.n_free = self.retreats = self.refusals = 0
        self.idle = IdleRounds(self.policy.idle_share)
        self.looks_done = self.is_stuck = self.is_at_rounding = self.is_at_end = self.is_washed = self.is_refined = False
        self.caution, self.least_primal, self.is_stiff = 1.0, np.inf, False
        w_alpha = self.passes.restart(self.alpha)
        self.anchor_dual = float(np.sum(box.terms(self.alpha))) - 0.5 * self.regulariser.conjugate(w_alpha)
        self.w = self.regulariser.minimiser(w_alpha)
        if self.price:
            self.w[-1] = 0.0
        self.best_w = self.w.copy()
        self.best_pair = PrimalDualPair(np.inf, self.w.copy(), self.alpha.copy())
        if self.w.any():
            self.passes.products(self.w, self.margin)
        self._set_penalty(self.settings.penalty)
        self._respond()
        self._start_at_zero_if_better(self.settings.cold_penalty)

    def _set_penalty(self, penalty: float) -> None:
        """A smooth loss needs no proximal term until rounding asks for one."""
        is_without = self.curve.is_smooth and self.refusals == 0 and not self.is_stiff
        self.penalty = np.inf if is_without else self._limited(penalty)
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
        """The gap of the better of the two answers that ``answer`` chooses between."""
        return min(self.best_pair.gap, self._difference)

    def meets(self, target: float) -> bool:
        """Whether the relative gap is within the target, as far as the solver can tell."""
        return bool(np.isfinite(self.gap) and self.gap <= target * abs(self.best_dual))

    @property
    def best_dual(self) -> float:
        return max(self.dual, self.anchor_dual)

    @property
    def _difference(self) -> float:
        return self._difference_from(self.best_dual)

    def answer(self) -> tuple[Array, Array]:
        """The best pair so far, or the best w with the better of the two dual points if their gap is less. After a refused
        certificate, two other pairs take turns with these: the pair that met the target before polishing, and the current pair,
        refined."""
        if self.refusals == 1 and self.kept is not None:
            return self.kept
        if self.refusals % 2 == 1:
            w, alpha = self._refined()
            return w, self._balanced(alpha)
        if self.best_pair.gap <= self._difference:
            return self.best_pair.w, self._balanced(self.best_pair.alpha)
        return self.best_w, self._balanced(self.alpha if self.dual >= self.anchor_dual else self.anchor)

    def meet_target(self, polishes: bool) -> None:
        """End the iteration. If the answer is to be polished, keep the pair to come back to."""
        if not polishes or self.refusals > 0:
            self.looks_done = True
        elif self.kept is None:
            w, alpha = self.answer()
            self.kept = w.copy(), alpha.copy()

    def _refined(self) -> tuple[Array, Array]:
        """The current pair after Newton steps with the gradient w - w(alpha) in more than float64 precision. The change is
        added to alpha: computed from a rounded margin, alpha_i would be wrong by rate C_i times the rounding error."""
        w, alpha = self.w.copy(), self.alpha.copy()
        scales, along = self.prox.rate * self.curve.C * self.free, np.empty(len(alpha))
        self.passes.hessian.update(self.free, self.n_free)
        for _ in range(self.policy.refinements):
            gradient = self._gradient(w, self.problem.precise_weights(alpha))
            direction = self.passes.hessian.solve(self.prox.rate, self._damped_regulariser, gradient, self.free)
            if direction is None:
                break
            self.passes.products(direction, along)
            w += direction
            alpha = np.clip(alpha - scales * along, self.problem.box.L, self.problem.box.U)
        return w, alpha

    def go_outside(self, factor: float) -> None:
        """The proximal-point step: alpha becomes the anchor of the next inner problem."""
        rise = self._move_anchor()
        self.retreats = 0 if rise > ROUNDING * abs(self.anchor_dual) else self.retreats + 1
        if self.retreats >= self.policy.most_retreats or (self.retreats > 0 and self._has_converged):
            self._end()
            return
        self._begin_inner_problem(self.penalty * factor)

    def _move_anchor(self) -> float:
        """Make the current alpha, made feasible, the anchor if that raises the dual value. Returns by how much."""
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
        w, alpha = self._refined()
        alpha = self._mended(w, self._balanced(alpha))
        weights = self.problem.precise_weights(alpha)
        dual = float(np.sum(self.problem.box.terms(alpha))) - 0.5 * self.regulariser.conjugate(weights)
        if not self._take_anchor(alpha, dual) > ROUNDING * abs(dual):
            return False
        self.w[:] = w
        self.passes.products(self.w, self.margin)
        return True

    def _mended(self, w: Array, alpha: Array) -> Array:
        """alpha with the rounding errors of its large elements made good by small ones, where these errors may hide what a
        refinement gains. It is not done for scaled targets and rotated rows."""
        if not all(isinstance(reduction, CentredColumns) for reduction in self.reductions):
            return alpha
        w = w[: self.problem.n_weights]
        for centred in self.reductions:
            w, alpha = centred.expand(w, alpha)
        return mended(self.original, w, alpha) if is_worth_mending(self.original, alpha, self.pair_gap) else alpha

    def retreat(self, factor: float) -> None:
        """Handle an inner problem in which no step lowers F, and alpha is still not good enough for an outer step: rounding
        hides the gain. First w is computed anew, then columns far from zero are centred. If the dual value rises, or does so
        after a refinement in higher precision, the outer step is taken, and the penalty may grow: a refined pair has solved its
        inner problem. Otherwise a smaller penalty makes the inner problem easier."""
        if self._has_converged:
            self._end()
        elif not self.is_washed:
            self.passes.hessian.is_careful = True
            self._wash()
        elif np.isinf(self.penalty):
            self._end()
        elif not self._centres():
            self._retreat_in_these_columns(factor)

    def _retreat_in_these_columns(self, factor: float) -> None:
        if self._rise > -self.policy.converged * abs(self.dual):
            self.go_outside(factor if self.inner_gap <= self.policy.converged * abs(self.dual) else 1.0)
        elif self._has_risen_by_refinement():
            self.retreats = 0
            self._begin_inner_problem(self.penalty * factor)
        else:
            self.retreats += 1
            if self.retreats >= self.policy.most_retreats:
                self._end()
            else:
                self._begin_inner_problem(self.penalty * self.policy.retreat)

    @property
    def _has_converged(self) -> bool:
        """Whether the rest of the gap is rounding."""
        return self.pair_gap <= self.policy.converged * abs(self.dual)

    def _end(self) -> None:
        self.looks_done = self.is_at_end = True

    def _begin_inner_problem(self, penalty: float) -> None:
        self._set_penalty(penalty)
        self.inner_steps = 0
        self.is_washed = self.is_refined = False
        self._respond()

    def _wash(self) -> None:
        """Compute w(alpha) and the margins anew, without the rounding error of earlier steps."""
        self.is_washed = True
        self.passes.restart(self.alpha)
        self.passes.products(self.w, self.margin)
        self._respond()

    @property
    def hangs_on_rounding(self) -> bool:
        """Whether margins of the free samples that are below one by rounding alone could cost a noticeable part of the primal
        value."""
        rounding = UNIT_ROUNDOFF * (self.problem.n_weights + 4) * self.policy.long_margin
        cost = float(self.curve.C.max()) * self.n_free * rounding
        return self.refusals > 0 or (not self.curve.is_smooth and cost > self.policy.noticeable * self.least_primal)

    def look_closer(self, target: float) -> None:
        """React to a refused certificate: tighten the inner test. If the penalty allows no more progress, take a far smaller
        one and continue from the best two points. (With a target of zero every certificate is refused, and the solve ends.)"""
        if target == 0.0 and self.is_at_end:
            self.is_stuck = True
            return
        self.caution *= 0.5
        self.looks_done = False
        if not self.is_at_end:
            self._wash()
            return
        self.refusals += 1
        if self._centres():
            return
        if self.refusals >= self.policy.most_refusals:
            self.is_stuck = self.looks_done = True
            return
        self.is_at_end, self.retreats = False, 0
        self.idle = IdleRounds(self.policy.idle_share)
        self._move_anchor()
        self.best_pair.gap = np.inf  # the certificate found a larger gap than the solver
        np.copyto(self.w, self.best_w)
        self._wash()
        smaller = min(1.0, self.penalty * self.policy.refused_retreat)
        self._begin_inner_problem(smaller if self.refusals == 1 else min(smaller, self._resolved_penalty))

    def _centres(self) -> bool:
        """Centre the columns if some are far from zero for their spread, and say whether that was done. It is done where
        rounding hides progress, not before: in most data a penalised intercept is small beside w . x, and centred columns only
        add rounding error."""
        targets = [reduction for reduction in self.reductions if isinstance(reduction, ScaledTargets)]
        is_plain = len(targets) == len(self.reductions) and not self.price
        if not is_plain or (centred := CentredColumns.of(self.problem)) is None:
            return False
        self.kept = None
        self._begin([*targets, centred], self.anchor)
        return True

    @property
    def _resolved_penalty(self) -> float:
        """The s at which the rounding error of a margin of one moves alpha_i by 1e-10 / |x|^2. On separable data alpha_i is
        about 1 / |x|^2, however large C is."""
        return max(self.policy.least_penalty, float(np.divide(self.policy.resolved, self.scale.stiffness)))

    def step(self, target: float = 0.0) -> None:
        """One Newton step on the inner problem with an exact line search, for a relative gap of ``target``."""
        self.steps += self.problem.n_samples
        self.inner_steps += 1
        hessian = self.passes.hessian
        hessian.update(self.free, self.n_free)
        if self.problem.penalizes_intercept:
            hessian.aim(self.policy.aim * target * self.caution * self.least_primal)
        direction = hessian.solve(self.prox.rate, self._damped_regulariser, self.gradient, self.free)
        if direction is None:
            self.is_stuck = self.looks_done = True
            return
        decrement = -float(self.gradient @ direction)
        self.is_at_rounding = self._gains_nothing(decrement)
        if decrement > 0.0:
            before = self.inner_gap, self.pair_gap
            self.passes.products(direction, self.along)
            self._move_along(direction)
            self.is_at_rounding |= before == (self.inner_gap, self.pair_gap)
        self._note_progress()
        if self.inner_steps == self.policy.stiff_steps and self._looks_stiff:
            self._begin_with_proximal_term()

    @property
    def _looks_stiff(self) -> bool:
        """Whether C |x|^2 is so large that only the kinks decide, but not beyond float64, and the answer is still far away."""
        may_be = self.problem.penalizes_intercept and not (self.is_stiff or self.passes.hessian.is_rough)
        is_far = self.dual < 0.0 and self.anchor_dual < self.policy.stiff_dual * self.least_primal
        stiffness = self.scale.stiffness
        return may_be and is_far and stiffness < 1.0 / ROUNDING and self.penalty * stiffness >= self.policy.stiff

    def _begin_with_proximal_term(self) -> None:
        """Begin again at the anchor, with a proximal term of the size of K: on separable data at large C the loss is as good
        as a constraint, and without such a term Newton's method finds the samples of the margin one by one."""
        self.is_stiff = True
        np.copyto(self.alpha, self.anchor)
        self.w = self.regulariser.minimiser(self.passes.restart(self.alpha))
        self.passes.products(self.w, self.margin)
        self._begin_inner_problem(self.policy.stiff_start / self.scale.stiffness)

    def _note_progress(self) -> None:
        idle_steps = self.idle.note(self.gap)
        self.passes.hessian.is_careful |= idle_steps >= self.policy.careful_steps
        if idle_steps >= self.policy.idle_steps:
            self._end()

    def _move_along(self, direction: Array) -> None:
        self._move(direction, self._search(direction))

    def _move(self, direction: Array, length: float) -> None:
        n_free, inner_gap = self.n_free, self.inner_gap
        self._shift(direction, length)
        self._respond()
        hessian = self.passes.hessian
        if hessian.in_float32 and self.n_free == n_free and not hessian.pending and self.inner_gap > 0.1 * inner_gap:
            hessian.in_float32 = False  # no sample changed and the step still missed: the matrix is not precise enough
            hessian.rebuild(self.free)

    def _shift(self, direction: Array, length: float) -> None:
        self.w += length * direction
        self.margin += length * self.along

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
        accuracy = self.policy.line_search.rough_accuracy if self.passes.hessian.is_rough else self.policy.line_search.accuracy
        enough = accuracy * abs(float(self.gradient @ direction))
        slope = partial(self.passes.slope, self.margin, self.along, self.prox)
        return least_along(slope, self._penalty_along(direction), enough, self.policy.line_search)

    def _respond(self) -> None:
        """alpha = a(m), and everything that is known from it."""
        self.take(self.passes.respond(self.margin, self.prox, self.alpha, self.free))
        if self.pair_gap < self.policy.better_pair * self.best_pair.gap:
            self.best_pair.take(self.pair_gap, self.w, self.alpha)

    @property
    def _imbalance(self) -> float:
        return self.scale.cost_of_imbalance(float(self.gradient[-1]), float(self.w[-1]))

    def _balanced(self, alpha: Array) -> Array:
        return alpha if self.problem.penalizes_intercept else self.problem.balanced(alpha)

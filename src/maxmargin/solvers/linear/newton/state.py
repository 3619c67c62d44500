"""The state of the semismooth Newton method whose samples are in memory: its points, and how its samples are asked.

``newton.py`` has the mathematics, ``iteration.py`` the order of the steps. A *pair* is a primal and a dual point that answer
each other. The *anchor* is the centre of the proximal term. An *inner problem* is solved between two moves of the anchor."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.base import Stage
from maxmargin.solvers.linear.column_mending import can_be_mended_in_levels
from maxmargin.solvers.linear.digit_mending import can_mend_digits
from maxmargin.solvers.linear.dual_mending import is_worth_mending, mended
from maxmargin.solvers.linear.newton.conjugate_gradients import ProductHessian
from maxmargin.solvers.linear.newton.frame import Reduction, reduced, regulariser_of
from maxmargin.solvers.linear.newton.hessian import FreeHessian, Regulariser
from maxmargin.solvers.linear.newton.iteration import Asking, Iteration, finished
from maxmargin.solvers.linear.newton.line_search import least_along
from maxmargin.solvers.linear.newton.pair import PrimalDualPair
from maxmargin.solvers.linear.newton.passes import Prox, Response, curve_of, passes_for
from maxmargin.solvers.linear.newton.scale import Scale
from maxmargin.solvers.linear.newton.turned_columns import TurnedColumns
from maxmargin.solvers.linear.newton.wide_columns import hides_the_objective, noise_of_weights
from maxmargin.solvers.presolve import CentredColumns
from maxmargin.solvers.scaled_targets import ScaledTargets

if TYPE_CHECKING:
    from maxmargin.solvers.linear.newton.newton import Newton


class NewtonState(Iteration):
    """w with its margins, the answer ``alpha`` to them, and the ``anchor`` of the proximal term: the best dual point so far."""

    has_best_w = True

    def __init__(self, problem: LinearProblem, warm_start: Array | None, settings: Newton) -> None:
        self.original, self.settings, self.policy = problem, settings, settings.policy
        self.stage = Stage("newton")
        self.steps = 0
        self.kept: tuple[Array, Array] | None = None
        self.polished_by = 0
        self.ignores_noise = self.is_trial = hides_the_objective(problem)
        self.mends, self.has_tried, self.after_trial = not self.is_trial, self.is_trial, np.zeros(problem.n_samples)
        self._begin_from(problem.first_dual_point if warm_start is None else warm_start)

    def _begin_from(self, alpha: Array) -> None:
        """Start from ``alpha`` of the original problem."""
        reductions = reduced(self.original)
        for reduction in reductions:
            alpha = reduction.reduce(alpha)
        self._begin(reductions, alpha)

    def _offers_mended(self) -> bool:
        """In a trial, offer the same point once more, with a mended alpha."""
        if not self.is_trial or self.mends:
            return False
        self.mends = self.looks_done = True
        return True

    def _ends_trial(self) -> bool:
        """Go back to counting the rounding of alpha: from the beginning, or from where it was before it was left out."""
        if not self.is_trial:
            return False
        self.ignores_noise, self.is_trial, self.mends, self.kept = False, False, True, None
        self._begin_from(self.after_trial)
        return True

    def _tries_without_noise(self) -> bool:
        noise = self._noise()
        is_noisy = self.policy.noisy * self.gap < 0.5 * float(noise @ noise) < np.inf
        if self.has_tried or self.ignores_noise or not (is_noisy and can_be_mended_in_levels(self.original)):
            return False
        self.has_tried = self.is_trial = True
        self.after_trial = self.expanded(self.w, self._balanced(self.anchor))[1].copy()
        return self._begins_without_noise()

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
        self.free, self.n_free = np.zeros(n, bool), 0
        self._forget()
        w_alpha = self.passes.restart(self.alpha)
        terms = np.sum(box.terms(self.alpha)) if self.alpha.any() else 0.0
        self.anchor_dual = float(terms) - 0.5 * self.regulariser.conjugate(w_alpha)
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
        super()._set_penalty(penalty)
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
    def hessian(self) -> FreeHessian | ProductHessian:
        return self.passes.hessian

    @property
    def rate(self) -> float:
        return self.prox.rate

    @property
    def is_smooth(self) -> bool:
        return self.curve.is_smooth

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
            w = finished(self._refined())
            return w, self._balanced(self.refined_alpha)
        if self.best_pair.gap <= self._difference:
            return self.best_pair.w, self._balanced(self.best_pair.alpha)
        return self.best_w, self._balanced(self.alpha if self.dual >= self.anchor_dual else self.anchor)

    def meet_target(self, polishes: bool) -> None:
        """End the iteration. If the answer is to be polished, keep the pair to come back to, and limit the steps of that."""
        super().meet_target(polishes)
        if self.looks_done:
            return
        if self.kept is None:
            w, alpha = self.answer()
            self.kept = w.copy(), alpha.copy()
            n, policy = self.problem.n_samples, self.policy
            self.polished_by = self.steps + max(policy.polishing_steps * n, int(policy.polishing_share * self.steps))
        elif self.steps >= self.polished_by:
            self.looks_done = True

    # -- what the samples are asked ----------------------------------------------------------------------------------------

    def step(self, target: float = 0.0) -> Asking[None]:
        """One Newton step, which counts as an epoch."""
        self.steps += self.problem.n_samples
        yield from super().step(target)

    def _aim(self, target: float) -> None:
        if self.problem.penalizes_intercept:
            super()._aim(target)

    @property
    def _damped_regulariser(self) -> Regulariser:
        """An intercept without penalty has no curvature while no sample is free: keep its step within about half a margin.
        The damping is proportional to its gradient, so it vanishes as the inner problem is solved."""
        if self.problem.penalizes_intercept:
            return self.regulariser
        damped = self.regulariser.ones.copy()
        damped[-1] = 2.0 * abs(float(self.gradient[-1])) * self.problem.intercept_scaling or 1.0
        return Regulariser(damped)

    def take(self, response: Response) -> None:
        """Everything that is known from the answer to w. Where noise is ignored, what w(alpha) lacks of w does not count in the
        gap and in the dual value as far as it may be rounding of alpha. Otherwise the dual value of an alpha that is better
        than the anchor would seem lower."""
        super().take(response)
        if self.ignores_noise:
            gradient = self.gradient
            rest = np.where(np.abs(gradient) <= self._noise(), 0.0, gradient)
            super().take(response._replace(w_alpha=self.regulariser.times(self.w) - rest))
            self.gradient = gradient

    def _noise(self) -> Array:
        rate = self.prox.rate * float(self.curve.C.max()) * self.n_free
        return noise_of_weights(self.problem, self.w, self.alpha, rate, self.policy.alpha_roundings)

    def _begins_without_noise(self) -> bool:
        """Begin anew, with centred columns, and do not count rounding errors of alpha: ``column_mending.py`` makes them good at
        the end. It is done once, where nothing else helps."""
        if self.ignores_noise or not (can_be_mended_in_levels(self.original) or can_mend_digits(self.original)):
            return False
        self.ignores_noise, self.kept = True, None
        reductions: list[Reduction] = [ScaledTargets.of(self.original)] if self.original.loss.is_regression else []
        centred = CentredColumns.of(reductions[-1].problem if reductions else self.original)
        self._begin(reductions if centred is None else [*reductions, centred], np.zeros(self.original.n_samples))
        return True

    def _respond(self) -> None:
        """alpha = a(m), and everything that is known from it."""
        self.take(self.passes.respond(self.margin, self.prox, self.alpha, self.free))
        if self.pair_gap < self.policy.better_pair * self.best_pair.gap:
            self.best_pair.take(self.pair_gap, self.w, self.alpha)

    def _answer(self) -> Asking[None]:
        self._respond()
        yield from ()

    def _answer_anew(self) -> Asking[None]:
        self.passes.restart(self.alpha)
        self.passes.products(self.w, self.margin)
        self._respond()
        yield from ()

    def _complete_matrix(self) -> Asking[None]:
        self.passes.hessian.update(self.free, self.n_free)
        yield from ()

    def _move_along(self, direction: Array) -> Asking[None]:
        self.passes.products(direction, self.along)
        self._move_on_line(direction)
        yield from ()

    def _move_on_line(self, direction: Array) -> None:
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

    def _search(self, direction: Array) -> float:
        """The t > 0 with F'(w + t direction) = 0."""
        accuracy = self.policy.line_search.rough_accuracy if self.passes.hessian.is_rough else self.policy.line_search.accuracy
        enough = accuracy * abs(float(self.gradient @ direction))
        slope = partial(self.passes.slope, self.margin, self.along, self.prox)
        return least_along(slope, self._penalty_along(direction), enough, self.policy.line_search)

    def _move_anchor(self) -> float:
        """Make the current alpha, made feasible, the anchor if that raises the dual value. Returns by how much."""
        if self.problem.penalizes_intercept:
            return self._take_anchor(self.alpha, self.dual)
        alpha = self.problem.balanced(self.alpha)
        if self.ignores_noise:
            return self._take_anchor(alpha, self.dual)
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

    def _begin_refinement(self) -> Asking[Array]:
        self.refined_alpha = self.alpha.copy()
        yield from ()
        return self.problem.precise_weights(self.refined_alpha)

    def _refine_along(self, direction: Array) -> Asking[Array]:
        along, box = np.empty(len(self.alpha)), self.problem.box
        self.passes.products(direction, along)
        along *= self.prox.rate * self.curve.C * self.free
        self.refined_alpha = np.clip(self.refined_alpha - along, box.L, box.U)
        yield from ()
        return self.problem.precise_weights(self.refined_alpha)

    def _move_anchor_to_refined(self, w: Array) -> float:
        alpha = self._mended(w, self._balanced(self.refined_alpha))
        weights = self.problem.precise_weights(alpha)
        rise = self._take_anchor(
            alpha, float(np.sum(self.problem.box.terms(alpha))) - 0.5 * self.regulariser.conjugate(weights)
        )
        if rise > 0.0:
            self.w[:] = w
            self.passes.products(self.w, self.margin)
        return rise

    def expanded(self, w: Array, alpha: Array) -> tuple[Array, Array]:
        """The pair in the coordinates of the original problem."""
        w = w[: self.problem.n_weights]
        for reduction in reversed(self.reductions):
            w, alpha = reduction.expand(w, alpha)
        return w, alpha

    def _mended(self, w: Array, alpha: Array) -> Array:
        """alpha with the rounding errors of its large elements made good by small ones, where these errors may hide what a
        refinement gains. It is not done for scaled targets and rotated rows."""
        if not all(isinstance(reduction, (CentredColumns, TurnedColumns)) for reduction in self.reductions):
            return alpha
        w, problem = w[: self.problem.n_weights], self.problem
        if self.original.penalizes_intercept:
            problem = self.original
            w, alpha = self.expanded(w, alpha)
        return mended(problem, w, alpha) if is_worth_mending(problem, alpha, self.pair_gap) else alpha

    def _stiffness(self) -> Asking[float]:
        yield from ()
        return self.scale.stiffness

    @property
    def _may_be_stiff(self) -> bool:
        """With a free intercept: from then on, while no more samples have an alpha than there are weights. Where labels cannot
        be separated, X'alpha is nearly zero, and so few rows are independent: more of them have an alpha there."""
        if self.problem.penalizes_intercept:
            return super()._may_be_stiff
        n_weights = self.problem.n_weights
        if self.is_stiff or self.inner_steps < self.policy.stiff_steps or n_weights < self.policy.stiff_weights:
            return False
        return bool(np.count_nonzero(self.alpha) <= n_weights)

    def _stand_at_anchor(self) -> Asking[None]:
        np.copyto(self.alpha, self.anchor)
        self.w = self.regulariser.minimiser(self.passes.restart(self.alpha))
        self.passes.products(self.w, self.margin)
        yield from ()

    def _go_to_best(self) -> None:
        self.best_pair.gap = np.inf
        np.copyto(self.w, self.best_w)

    @property
    def _is_polishing(self) -> bool:
        return self.kept is not None and self.refusals == 0

    def _centres(self) -> bool:
        """Centre the columns if some are far from zero for their spread. It is done where rounding hides progress, not before:
        in most data a penalised intercept is small beside w . x, and centred columns only add rounding error."""
        targets = [reduction for reduction in self.reductions if isinstance(reduction, (ScaledTargets, TurnedColumns))]
        is_plain = len(targets) == len(self.reductions) and not self.price
        centred = CentredColumns.of(self.problem) if is_plain else None
        if centred is None:
            return False
        self.kept = None
        self._begin([*targets, centred], self.anchor)
        return True

    @property
    def hangs_on_rounding(self) -> bool:
        """Whether margins of the free samples that are below one by rounding alone could cost a noticeable part of the primal
        value."""
        rounding = UNIT_ROUNDOFF * (self.problem.n_weights + 4) * self.policy.long_margin
        cost = float(self.curve.C.max()) * self.n_free * rounding
        return self.refusals > 0 or (not self.curve.is_smooth and cost > self.policy.noticeable * self.least_primal)

    @property
    def _imbalance(self) -> float:
        return self.scale.cost_of_imbalance(float(self.gradient[-1]), float(self.w[-1]))

    def _balanced(self, alpha: Array) -> Array:
        return alpha if self.problem.penalizes_intercept else self.problem.balanced(alpha)

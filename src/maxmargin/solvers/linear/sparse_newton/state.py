r"""Newton's method on a working set of features, and the passes over all features between.

On the samples with margins below one squared hinge is least squares, so that a Newton step on them,

.. math:: H = 2 A_W^\top \mathrm{diag}(C) A_W, \qquad g = -A_W^\top s, \qquad s_i = 2 C_i (1 - m_i)_+ \sigma_i ,

is exact once the set of these samples does not change any more. H is updated by the samples that enter and leave the set."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Stage
from maxmargin.solvers.linear.sparse_newton import mending
from maxmargin.solvers.linear.sparse_newton.features import Block, Features
from maxmargin.solvers.linear.sparse_newton.inside import InnerPoint, solve_inside
from maxmargin.solvers.linear.sparse_newton.model import QuadraticModel
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy
from maxmargin.solvers.linear.sparse_newton.search import step_length


@dataclass
class WorkingSet:
    """Some features, their columns, and the Hessian of the loss on the samples that are active."""

    chosen: Array
    block: Block
    l1: Array
    l2: Array
    H: Array
    active: Array

    @classmethod
    def of(cls, chosen: Array, features: Features, problem: LinearProblem, l1: Array, l2: Array) -> WorkingSet:
        size = len(chosen)
        H = np.zeros((size, size))
        H[np.diag_indices(size)] = l2[chosen]
        none = np.zeros(problem.n_samples, bool)
        return cls(chosen, features.block(chosen), l1[chosen], l2[chosen], H, none)

    def update(self, active: Array, C: Array, policy: SparseNewtonPolicy) -> float:
        """Bring H to these active samples, by those that enter and leave, or from the beginning where they are many. Returned
        is their share."""
        entering, leaving = active & ~self.active, self.active & ~active
        n_changed = int(np.count_nonzero(entering) + np.count_nonzero(leaving))
        n_active = int(np.count_nonzero(active))
        if n_changed > max(1, policy.rebuild_share * n_active):
            self.H[:] = 0.0
            self.H[np.diag_indices(len(self.H))] = self.l2
            entering, leaving = active, np.zeros_like(active)
        changed = np.flatnonzero(entering | leaving)
        weights = np.where(entering[changed], 2.0, -2.0) * C[changed]
        for start in range(0, len(changed), policy.rows_a_slice):
            check_point()
            part = slice(start, start + policy.rows_a_slice)
            self.block.add_outer(changed[part], weights[part], self.H)
        self.active = active.copy()
        return n_changed / max(1, n_active)


class Offer(NamedTuple):
    """A point of the interior-point method, and whether its alpha may be mended."""

    point: InnerPoint
    is_mended: bool


class DualPoint(NamedTuple):
    """An alpha, and its v of the features that are left."""

    alpha: Array
    v: Array


@dataclass
class SparseNewtonState:
    """Where the solver stands: w, the slacks 1 - m, the dual point of the last look, and the features that are left. Where C
    times a column is large, slacks are small: the alpha that answers them has digits that margins near one would have lost."""

    problem: LinearProblem
    policy: SparseNewtonPolicy
    features: Features
    w: Array
    l1: Array
    l2: Array
    slacks: Array
    kept: Array
    working: WorkingSet
    stage: Stage
    alpha: Array = field(default_factory=lambda: np.empty(0))
    squares: Array = field(default_factory=lambda: np.empty(0))
    steps: int = 0
    gap: float = math.inf
    primal: float = math.inf
    target: float = math.inf
    working_target: float = 0.0
    needs_look: bool = False
    looks_done: bool = False
    is_stuck: bool = False
    idle: int = 0
    best_gap: float = math.inf
    best_primal: float = math.inf
    has_best_w: bool = True
    ramp: Any = None
    """The way up from a smaller C, while it lasts."""
    has_ramped: bool = False
    turns: int = 0
    """Of the models of Newton's method."""
    has_been_inside: bool = False
    offers: list[Offer] = field(default_factory=list)
    """What the interior-point method has found, and no look has seen."""

    @property
    def active(self) -> int:
        """Features that are not screened."""
        return len(self.kept)

    @property
    def margins(self) -> Array:
        return 1.0 - self.slacks

    @property
    def answering_alpha(self) -> Array:
        """2 C (1 - m)_+, the alpha that answers the slacks."""
        return np.asarray(2.0 * self.problem.C * np.maximum(0.0, self.slacks))

    def advance(self, target: float) -> None:
        """A pass over all features, or a Newton step on the working set."""
        if self.offers:
            self.take_offer()
            return
        if self.looks_done:  # a certificate was refused: look closer
            self.target *= 0.1
            self.working_target *= 0.1
            self.looks_done = False
            self.leave_screened()
            if self.idle > self.policy.most_idle:
                self.is_stuck = True
        self.target = min(self.target, target)
        if self.needs_look:
            self.look()
        else:
            self.newton_step()

    def move_to(self, w: Array) -> None:
        """Go on from this w, with the features that are not zero there."""
        problem, constant = self.problem, np.arange(self.problem.rows.n_features, self.problem.n_weights)
        self.w = w.copy()
        self.working = WorkingSet.of(np.union1d(np.flatnonzero(w), constant), self.features, problem, self.l1, self.l2)
        self.slacks = 1.0 - problem.signs * self.working.block.times(w[self.working.chosen])
        self.needs_look = True

    def go_inside(self) -> None:
        """Go on from the points where the interior-point method ends; if they do not serve, from them with a mended alpha."""
        points, steps = solve_inside(self.problem, self.policy.inside_target * self.target, self.policy.inside)
        self.offers = [Offer(point, is_mended) for is_mended in (False, True) for point in points]
        self.steps, self.has_been_inside, self.has_ramped = self.steps + steps * self.problem.n_samples, True, True
        self.take_offer()

    def take_offer(self) -> None:
        """Look at the next of these points, with all features."""
        (self.w, self.slacks, alpha), may_mend = self.offers.pop(0)
        self.kept = np.arange(self.problem.n_weights)
        self.working = WorkingSet.of(self.kept, self.features, self.problem, self.l1, self.l2)
        self.idle, self.best_gap, self.best_primal = 0, math.inf, math.inf
        self.looks_done = self.is_stuck = False
        self._look_with(alpha, may_mend=may_mend)

    def look(self) -> None:
        """A pass over all features that are left: the gap, what it screens, and the next working set."""
        self._look_with(self.answering_alpha, may_mend=self.idle > 0)

    def _look_with(self, alpha: Array, *, may_mend: bool) -> None:
        problem, penalty = self.problem, self.problem.penalty
        if not problem.penalizes_intercept:
            alpha = problem.balanced(alpha)
        v = self.features.products(alpha * problem.signs, self.kept)
        share = self._dual_share(alpha, penalty.feasible_share(v[self.kept < problem.n_penalised]))
        best = DualPoint(share * alpha, share * v)
        self.gap, self.primal = self._gap_with(best)
        self.steps += problem.n_samples
        mended = self._mended(alpha) if may_mend and (share < 1.0 or penalty.l2 > 0.0) else None
        if mended is not None and ((gap := self._gap_with(mended)[0]) < self.gap or gap <= self._asked):
            best, v, self.gap = mended, mended.v, gap
        self.alpha = best.alpha
        self._screen(best.v)
        self._choose(v)

    def _gap_with(self, point: DualPoint) -> tuple[float, float]:
        """The gap of w and this point, and the primal value."""
        problem, inside = self.problem, self.kept < self.problem.n_penalised
        w = self.w[self.kept][inside]
        terms = problem.loss.gap_terms(self.margins, point.alpha, problem.C, problem.targets)
        loss = problem.C @ problem.loss.value(self.margins, problem.targets)
        gap = float(np.sum(problem.penalty.gap_terms(w, point.v[inside]))) + float(np.sum(terms))
        return gap, problem.penalty.value(w) + float(loss)

    @property
    def _asked(self) -> float:
        """The gap at which a certificate is asked for."""
        return self.policy.target_share * self.target * self.primal

    def _mended(self, alpha: Array) -> DualPoint | None:
        """An alpha that is feasible as it is, where this one misses that by rounding alone."""
        problem, chosen, policy = self.problem, self.working.chosen, self.policy
        if len(chosen) * problem.n_samples > policy.most_mended:
            return None
        found = mending.mended_in_levels(problem, self.w, alpha)
        if found is not None:
            share = problem.penalty.feasible_share(np.array([found.greatest]))
            return DualPoint(share * found.alpha if share < 1.0 else found.alpha, share * found.v[self.kept])
        if problem.penalty.l2 > 0.0:
            return None
        mended = mending.mended(problem, chosen, self.working.block.dense, alpha, policy)
        if mended is None:
            return None
        v = self.features.products(mended * problem.signs, self.kept)
        return DualPoint(mended, v * problem.penalty.feasible_share(v[self.kept < problem.n_penalised]))

    def _dual_share(self, alpha: Array, feasible: float) -> float:
        """The share of alpha that is best for the dual, at most what is feasible. An elastic net takes all."""
        if self.problem.penalty.l2 > 0.0:
            return 1.0
        curved = float(np.square(alpha) @ self.problem.box.D)
        return min(feasible, float(alpha.sum()) / curved) if curved > 0.0 else feasible

    def _screen(self, v: Array) -> None:
        """Gap-safe screening (E. Ndiaye, O. Fercoq, A. Gramfort, J. Salmon, JMLR 18, 2017): sum_i (alpha_i - alpha*_i)^2 / (4
        C_i) <= gap, so that |v_j - v*_j| <= 2 sqrt(gap sum_i C_i x_ij^2). Below l1, w*_j is zero."""
        if len(self.squares) == 0:
            self.squares = self.features.squares(self.problem.C)
        reach = 2.0 * np.sqrt(self.gap * self.squares[self.kept])
        is_zero = np.abs(v) + reach < self.l1[self.kept] * (1.0 - 1e-9)
        lost = self.kept[is_zero]
        if len(lost) == 0:
            self._left = np.ones(len(self.kept), bool)
            return
        self._drop(lost)
        self._left = ~is_zero
        self.kept = self.kept[self._left]

    def _drop(self, lost: Array) -> None:
        """Set these weights to zero, and compute the slacks anew. Slacks are never computed anew elsewhere: with large columns
        the updated slacks, and the alpha that answers them, have more correct digits than w can hold."""
        if np.any(self.w[lost]):
            self.w[lost] = 0.0
            self.slacks = 1.0 - self.problem.signs * self.working.block.times(self.w[self.working.chosen])

    def _choose(self, v: Array) -> None:
        """Add the features whose conditions of optimality are violated most."""
        v = np.abs(v[self._left])
        inside = np.isin(self.kept, self.working.chosen, assume_unique=True)
        excess = np.where(inside, 0.0, v - self.l1[self.kept])
        violators = np.flatnonzero(excess > 0.0)
        asked = self.target * self.primal
        self.looks_done = self.gap <= self._asked
        is_nonzero = self.w[self.kept] != 0.0
        room = int(max(self.policy.first_features, self.policy.growth * np.count_nonzero(is_nonzero)))
        if len(violators) > room:
            violators = violators[np.argpartition(-excess[violators], room)[:room]]
        self.working_target = self.policy.gap_share * (min(self.gap, asked) if len(violators) == 0 else self.gap)
        self.needs_look = False
        if self.looks_done:
            return
        has_gone = len(self.working.chosen) > np.count_nonzero(inside)
        if len(violators) == 0 and not has_gone:
            self.is_stuck = self.idle > self.policy.most_idle
            return
        self.idle, self.best_gap = 0, math.inf
        stays = inside & (is_nonzero | (v >= self.policy.keep_share * self.l1[self.kept]))
        stays[violators] = True
        chosen = self.kept[stays]
        self.working = WorkingSet.of(chosen, self.features, self.problem, self.l1, self.l2)

    def leave_screened(self) -> None:
        """Take the features that the last look has screened out of the working set."""
        stays = np.isin(self.working.chosen, self.kept, assume_unique=True)
        if not np.all(stays):
            self.working = WorkingSet.of(self.working.chosen[stays], self.features, self.problem, self.l1, self.l2)

    def newton_step(self) -> None:
        """One step on the working set. If its problem is solved well enough, a pass over all features instead."""
        problem, working, policy = self.problem, self.working, self.policy
        alpha = self.answering_alpha
        v = working.block.transposed_times(alpha * problem.signs)
        check_point()
        w = self.w[working.chosen]
        gap = self._working_gap(alpha, v, w)
        self._note_progress(gap)
        if gap <= self._aim or self.idle > policy.most_idle:
            self.needs_look = True
            return
        changed = working.update(self.slacks > 0.0, problem.C, policy)
        gradient = working.l2 * w - v
        model = QuadraticModel(working.H, working.l1)
        step = model.best_step(w, gradient, policy, is_rough=changed > policy.rough_share)
        self._move(w, step.d)
        self.turns += step.turns
        self.steps += problem.n_samples

    @property
    def _aim(self) -> float:
        """The gap at which the problem of the working set counts as solved. Where it holds all features that are left, its gap
        is the whole one."""
        if len(self.working.chosen) < len(self.kept):
            return self.working_target
        return self.policy.target_share * self.target * self.best_primal

    def _note_progress(self, gap: float) -> None:
        """Count the steps in a row after which neither the gap of the working set nor the primal value was better."""
        problem = self.problem
        loss = float(problem.C @ problem.loss.value(self.margins, problem.targets))
        primal = problem.penalty.value(self.w[: problem.n_penalised]) + loss
        is_better = gap < 0.5 * self.best_gap or primal < self.best_primal * (1.0 - 1e-12)
        self.idle = 0 if is_better else self.idle + 1
        self.best_gap, self.best_primal = min(self.best_gap, gap), min(self.best_primal, primal)

    def _move(self, w: Array, d: Array) -> None:
        working, problem = self.working, self.problem
        new = w + d
        change = problem.signs * working.block.times(d)
        keeps_sign = (w * new > 0.0) | (d == 0.0)
        lasso = float(working.l1 @ np.where(keeps_sign, np.sign(w) * d, np.abs(new) - np.abs(w)))
        ridge = float(working.l2 @ (w * d)), float(working.l2 @ np.square(d))
        t = step_length(self.slacks, change, problem.C, lasso + ridge[0], ridge[1], self.policy)
        self.w[working.chosen] = new if t == 1.0 else w + t * d
        self.slacks = self.slacks - t * change

    def _working_gap(self, alpha: Array, v: Array, w: Array) -> float:
        """The gap if the working set held all features. What a free intercept lacks of balance is charged roughly."""
        problem, penalty = self.problem, self.problem.penalty
        inside = self.working.chosen < problem.n_penalised
        share = self._dual_share(alpha, penalty.feasible_share(v[inside]))
        terms = problem.loss.gap_terms(self.margins, share * alpha, problem.C, problem.targets)
        gap = float(np.sum(penalty.gap_terms(w[inside], share * v[inside]))) + float(np.sum(terms))
        return gap + float(np.sum(np.abs(v[~inside]))) / max(problem.intercept_scaling, 1e-300)


def state_at(
    problem: LinearProblem, policy: SparseNewtonPolicy, features: Features, w: Array, *, is_warm: bool
) -> SparseNewtonState:
    """At this w. The first working set holds all features where they are few."""
    n = problem.n_weights
    l1, l2 = np.full(n, problem.penalty.l1), np.full(n, problem.penalty.l2)
    l1[problem.n_penalised :] = l2[problem.n_penalised :] = 0.0
    constant = np.arange(problem.rows.n_features, n)
    is_whole = n <= policy.whole_features and features.passes_for_all <= policy.whole_passes
    chosen = np.arange(n) if is_whole else np.union1d(np.flatnonzero(w), constant)
    working = WorkingSet.of(chosen, features, problem, l1, l2)
    slacks = 1.0 - problem.signs * working.block.times(w[chosen])
    stage = Stage("sparse-newton", "L1 penalty")
    state = SparseNewtonState(problem, policy, features, w, l1, l2, slacks, np.arange(n), working, stage)
    state.alpha, state.needs_look = np.zeros(problem.n_samples), len(chosen) == 0 or is_warm
    state.working_target, state.has_ramped = 1e-3 * problem.primal_at_zero, is_warm
    return state

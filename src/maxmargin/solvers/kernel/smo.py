"""Sequential minimal optimisation with shrinking: Zimmert et al., "Safe screening for support vector machines", 2015,
Algorithm 1. Without an offset its working sets are of one or of two samples, with an offset of two.

A rule (``maxmargin.screening.shrinking``) removes samples. Removed samples are no longer updated, and the gap that drives the
rule is the gap of the active samples. When this gap meets the target, the gradient of all samples is updated, and the gap of
the whole problem decides. The loops are in ``maxmargin.solvers.kernel.smo_loops``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.offset import best_offsets, offset_interval, offset_level
from maxmargin.screening.rules import Screened, gap_ball, gap_terms, gradient_reach
from maxmargin.screening.shrinking import DEFAULT_RULE, ActiveSet, FSafeAsPrinted, ShrinkingRule
from maxmargin.solvers.base import Budget, KernelSolver, Stage, StoppingRule, check_stop, ends_by_own_rule, refuse_regression
from maxmargin.solvers.kernel.position_rows import DefinedValues, PositionRows
from maxmargin.solvers.kernel.smo_loops import (
    NEEDS_ROW,
    PROGRESS,
    STILL,
    Floors,
    PositionArrays,
    ascend_pairs,
    ascend_without_offset,
    swap_out,
)
from maxmargin.solvers.patience import Patience


@dataclass(frozen=True)
class SMOPolicy:
    """The numbers that tune SMO."""

    curvature_floor: float = 1e-12
    """A smaller curvature, or a negative one, is raised to this share of the greatest k(x, x), as LIBSVM does."""
    least_noise: float = 4.0
    """A gradient counts as rounding error below this many units in the last place of the terms of its sum."""
    steps_to_stall: int = 2_000_000
    """Steps before the solver can be said to have stalled."""
    closer: float = 0.3
    """Factor on the inner target when reaching it was not enough for the whole problem."""
    steps_to_check: int = 100
    """Limit on the steps between two computations of the gap. One computation costs about as much as a step."""


@dataclass(frozen=True)
class SMO(KernelSolver):
    """``working_set`` is the number of samples that a step changes; ``cache_mb`` the megabytes of kernel rows kept.

    With ``stop="paper"`` a solve ends when LIBSVM's violation of the conditions of optimality is below ``epsilon`` for all
    samples: the paper takes its stopping rule from LIBSVM. As in Algorithm 1, the rule is then looked at after every step."""

    working_set: int = 2
    shrinking: ShrinkingRule | FSafeAsPrinted = DEFAULT_RULE
    cache_mb: float = 500.0
    epsilon: float = 1e-3
    stop: StoppingRule = "gap"
    policy: SMOPolicy = SMOPolicy()

    def __post_init__(self) -> None:
        check_stop(self.stop)
        if not self.epsilon > 0.0:
            raise ValueError(f"epsilon must be positive; got {self.epsilon!r}.")
        if self.working_set not in (1, 2):
            raise ValueError(f"working_set must be 1 or 2; got {self.working_set!r}.")
        is_rule = isinstance(self.shrinking, FSafeAsPrinted) or hasattr(self.shrinking, "removable")
        if isinstance(self.shrinking, type) or not is_rule:
            raise TypeError(f"shrinking must be a rule such as FSafe(0.1) or NoShrinking(); got {self.shrinking!r}.")
        if not self.cache_mb >= 0.0:
            raise ValueError(f"cache_mb must be zero or positive; got {self.cache_mb!r}.")

    @property
    def name(self) -> str:
        return "smo"

    @property
    def budget_mb(self) -> float:
        return self.cache_mb

    def within(self, budget_mb: float) -> SMO:
        return replace(self, cache_mb=budget_mb)

    def init(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> SMOState:
        refuse_regression(problem, self.name)
        if problem.has_offset and self.working_set == 1:
            raise ValueError("With an offset a step must change two samples: set working_set=2.")
        if problem.has_offset and isinstance(self.shrinking, FSafeAsPrinted):
            raise ValueError("FSafeAsPrinted sets one alpha at a time, which an offset does not allow: use FSafe.")
        state = SMOState.start(problem, self.cache_mb, self.policy)
        state.removals_are_safe = self.shrinking.is_safe and problem.kernel.is_positive_semidefinite
        state.looks_at_violation = ends_by_own_rule(self) or not problem.kernel.is_positive_semidefinite
        if warm_start is not None:
            state.variables.alpha[:] = problem.nearest_feasible(warm_start)[state.variables.sample]
            with single_threaded_blas():
                state.refresh()
        return state

    def advance(self, problem: KernelProblem, state: SMOState, budget: Budget) -> None:
        with single_threaded_blas():
            if state.looks_done and not state.is_stuck:
                state.look_closer(budget.target)
            target = self.epsilon if ends_by_own_rule(self) else budget.target * state.caution
            end = state.steps + budget.steps
            while state.steps < end and not state.looks_done:
                self._work(state, min(end, state.next_check))
                if state.is_still or state.steps >= state.next_check:
                    self._check(state, target)
                    state.next_check = state.steps + self._steps_to_check(state)

    def candidate(self, problem: KernelProblem, state: SMOState) -> Array:
        """The present alpha."""
        alpha = np.zeros(problem.n_samples)
        alpha[state.variables.sample] = state.variables.alpha
        return alpha

    def take_outputs(self, problem: KernelProblem, state: SMOState, outputs: Array) -> None:
        """The f of the present alpha, which a certificate has computed anyway."""
        state.take_outputs(outputs)

    def _work(self, state: SMOState, end: int) -> None:
        """Line 8: steps on the active samples, and the kernel rows that they need."""
        known = state.variables, state.rows.cache, state.progress, end, Floors(state.floor, state.least_noise)
        outcome = NEEDS_ROW
        while outcome == NEEDS_ROW:
            outcome = ascend_pairs(*known) if state.has_offset else ascend_without_offset(*known, self.working_set)
            if outcome == NEEDS_ROW:
                check_point()
                state.rows.fetch(state.progress["wanted"], state.active, state.progress)
        state.is_still = outcome == STILL

    def _steps_to_check(self, state: SMOState) -> int:
        return 1 if ends_by_own_rule(self) else max(1, min(state.present, self.shrinking.every, self.policy.steps_to_check))

    def _check(self, state: SMOState, target: float) -> None:
        """Lines 9 to 14."""
        state.measure(state.active_set())
        is_whole = state.active == state.present
        if is_whole and state.relative_gap <= target:
            state.looks_done = True
        elif not is_whole and (state.relative_gap <= target * state.inner or state.is_still):
            self._check_all(state, target)
        elif not is_whole and not state.was_unshrunk and state.relative_gap <= target * self.shrinking.unshrinks_at:
            state.was_unshrunk = True
            state.update_removed()
            state.take_all_back()
        elif state.is_still or state.is_stalled:
            state.end_or_refresh()
        if not state.looks_done and state.steps >= state.next_removal:
            self._shrink(state)
            state.next_removal = state.steps + min(state.present, self.shrinking.every)

    def _shrink(self, state: SMOState) -> None:
        """Line 10."""
        if not isinstance(self.shrinking, FSafeAsPrinted):
            state.remove(self.shrinking.removable(state.active_set()))
        elif state.resets < self.shrinking.most_resets:
            state.set_to_bounds(screened := self.shrinking.screened(state.active_set()))
            state.remove(screened.at_zero | screened.at_C)

    def _check_all(self, state: SMOState, target: float) -> None:
        """Lines 12 and 13. Samples that were removed safely do not return."""
        allowed = state.allowed_on_the_wrong_side()
        state.update_removed()
        whole = state.active_set(everyone=True)
        state.measure(whole)
        state.removals_are_safe &= state.are_within(whole, allowed)
        if state.relative_gap <= target:
            state.looks_done = True
        elif not state.removals_are_safe:
            state.take_all_back()
        elif state.is_still:
            state.end_or_refresh()
        else:
            state.inner *= self.policy.closer


@dataclass
class SMOState:
    """The samples with C_i > 0 by position, the active ones first. The kink of a removed sample dates from its removal."""

    variables: PositionArrays
    rows: PositionRows
    has_offset: bool
    progress: Array
    floor: float
    entry_error: float
    policy: SMOPolicy
    stage: ClassVar[Stage] = Stage("smo")
    looks_at_violation: bool = False
    gap: float = np.inf
    violation: float = np.inf
    removals_are_safe: bool = False
    removals: int = 0
    resets: int = 0
    set_alphas: int = 0  # by a removal
    next_check: int = 0
    next_removal: int = 0
    checking_evaluations: int = 0
    caution: float = 1.0  # falls with every certificate that was refused
    inner: float = 1.0  # falls when the gap of all was too large though that of the active samples was small enough
    is_stalled: bool = False
    patience: Patience = field(init=False)
    looks_done: bool = False
    is_stuck: bool = False
    is_still: bool = False
    was_unshrunk: bool = False
    was_refreshed_when_still: bool = False
    refreshed_at: int = 0

    def __post_init__(self) -> None:
        self.patience = Patience(self.policy.steps_to_stall)

    @classmethod
    def start(cls, problem: KernelProblem, cache_mb: float, policy: SMOPolicy) -> SMOState:
        present = np.flatnonzero(problem.C > 0.0)
        y = problem.y[present].astype(np.float64)
        diagonal = problem.diagonal[present].astype(np.float64)
        variables = PositionArrays(present, y, np.array(problem.C[present]), np.zeros(len(y)), y.copy(), diagonal)
        progress = np.zeros(1, PROGRESS)
        progress["active"] = len(present)
        greatest = float(np.abs(diagonal).max(initial=0.0))
        return cls(
            variables=variables,
            rows=PositionRows(DefinedValues(problem.kernel, problem.points), variables, cache_mb),
            has_offset=problem.has_offset,
            progress=progress,
            floor=max(policy.curvature_floor * greatest, np.finfo(np.float64).tiny),
            entry_error=problem.kernel.rounding_error(problem.points, problem.points),
            policy=policy,
        )

    @property
    def steps(self) -> int:
        return int(self.progress["steps"][0])

    @property
    def active(self) -> int:
        return int(self.progress["active"][0])

    @property
    def present(self) -> int:
        """Samples with C_i > 0."""
        return len(self.variables.y)

    @property
    def dual(self) -> float:
        return float(self.progress["dual"][0])

    @property
    def kernel_evaluations(self) -> int:
        return self.rows.source.evaluations

    @property
    def relative_gap(self) -> float:
        """The relative gap of the samples that were looked at last: the active ones, or all. Where the kernel is not positive
        semidefinite, or the solve ends by the violation, it is LIBSVM's violation in its place."""
        return self.violation if self.looks_at_violation else relative(self.gap, self.dual + self.gap, self.dual)

    def measure(self, looked_at: ActiveSet) -> None:
        self.gap, self.violation = looked_at.gap, looked_at.violation
        self.is_stalled = self.patience.note(self.steps, self.dual, self.dual + self.gap)

    @property
    def least_noise(self) -> float:
        """What rounding leaves in a kink at least: a difference of gradients below that says nothing."""
        _, _, _, alpha, kinks, diagonal = self.variables
        size = float(np.abs(kinks[: self.active]).max(initial=0.0)) + float(np.linalg.norm(alpha * diagonal))
        return self.policy.least_noise * UNIT_ROUNDOFF * (1.0 + size)

    @property
    def noise(self) -> float:
        """How wrong a kink may be: each kernel value by its own rounding, and a sum by its additions, those of all
        steps since it was last made anew among them."""
        alpha, diagonal = self.variables.alpha, self.variables.diagonal
        n_additions = np.count_nonzero(alpha) + 2.0 * (self.steps - self.refreshed_at) + 8.0
        magnitude = 1.0 + float(alpha @ np.sqrt(np.abs(diagonal))) * float(np.sqrt(np.abs(diagonal).max(initial=0.0)))
        return self.entry_error * float(alpha.sum()) + UNIT_ROUNDOFF * n_additions * magnitude

    @property
    def imbalance(self) -> float:
        """How far rounding may have led sum_i alpha_i y_i from zero."""
        alpha, y = self.variables.alpha, self.variables.y
        return abs(float(alpha @ y)) + UNIT_ROUNDOFF * len(y) * float(alpha.sum()) if self.has_offset else 0.0

    def active_set(self, everyone: bool = False) -> ActiveSet:
        """The active samples, or all, with the gap of the problem in which the others are fixed where they are."""
        stop = self.present if everyone else self.active
        _, y, C, alpha, kinks, diagonal = (array[:stop] for array in self.variables)
        level = offset_level(y, alpha, C) if self.has_offset else 0.0
        b = best_offsets(kinks, C, level).middle if self.has_offset else 0.0
        gap = float(np.sum(gap_terms(y * (kinks - b), alpha, C)))
        return ActiveSet(y, C, alpha, kinks, diagonal, self.has_offset, level, self.imbalance, b, gap, self.noise)

    def allowed_on_the_wrong_side(self) -> Array:
        """The greatest gradient of the wrong sign that a removed sample may have now, if the kernel is positive semidefinite.
        It is limited by how far w and the offset can still move."""
        radius = gap_ball(self.gap + self.noise * float(self.variables.C.sum()))
        reach = gradient_reach(self.variables.diagonal, radius) + self.noise
        if self.has_offset:
            active = self.active_set()
            offsets = offset_interval(active.kinks, active.C, active.level, reach[: self.active], active.imbalance)
            reach += max(active.b - offsets.low, offsets.high - active.b)
        return reach[self.active :]

    def are_within(self, whole: ActiveSet, allowed: Array) -> bool:
        """Whether the removed samples are where safe removals can be; if not, the kernel is not positive semidefinite."""
        gradient = whole.y * (whole.kinks - self.active_set().b)
        wrong = np.where(whole.alpha > 0.0, -gradient, gradient)[self.active :]
        return bool(np.all(wrong <= allowed))

    def set_to_bounds(self, screened: Screened) -> None:
        """Rule (1): alpha_i = 0 or alpha_i = C, and all active kinks and the dual value with it."""
        _, y, C, alpha, kinks, diagonal = self.variables
        bounds = np.where(screened.at_C, C[: self.active], 0.0)
        for i in np.flatnonzero((screened.at_zero | screened.at_C) & (alpha[: self.active] != bounds)):
            self.rows.fetch(np.array([i]), self.active, self.progress)
            change = bounds[i] - alpha[i]
            self.progress["dual"] += change * (y[i] * kinks[i] - 0.5 * change * diagonal[i])
            kinks[: self.active] -= change * y[i] * self.rows.cache.values[self.rows.cache.slot_of[i], : self.active]
            alpha[i] = bounds[i]
            self.set_alphas += 1

    def remove(self, removable: Array) -> None:
        """Line 10."""
        if removable.any():
            self.removals += int(swap_out(self.variables, self.rows.cache, self.progress, removable))

    def update_removed(self) -> None:
        """Line 13: the kinks of the removed samples, made anew."""
        before = self.kernel_evaluations
        self._renew(self.active)
        self.checking_evaluations += self.kernel_evaluations - before

    def take_all_back(self) -> None:
        """Line 12. Samples that the rule removes again go at once, unless nothing moves without them."""
        self.next_removal = self.steps + (1 if self.is_still else 0)
        self.progress["active"] = self.present
        self.is_still = False
        self.inner = 1.0
        self.resets += 1

    def refresh(self) -> None:
        """Compute all kinks and the dual value anew from alpha, without the rounding error of earlier steps."""
        if not self.is_fresh:
            self._renew(0)
        self._note_refreshed()

    def take_outputs(self, outputs: Array) -> None:
        self.variables.kink[:] = self.variables.y - outputs[self.variables.sample]
        self._note_refreshed()

    @property
    def is_fresh(self) -> bool:
        """Whether no step was made since all kinks were computed anew."""
        return self.refreshed_at == self.steps > 0

    def _note_refreshed(self) -> None:
        alpha = self.variables.alpha
        self.progress["dual"] = 0.5 * float(alpha @ (1.0 + self.variables.y * self.variables.kink))
        self.refreshed_at = self.steps

    def _renew(self, start: int) -> None:
        self.variables.kink[start:] = self.variables.y[start:]
        self.rows.add_outputs(self.variables.kink, start)

    def end_or_refresh(self) -> None:
        """Handle a state in which nothing moves: try once more with a new gradient, then the solver is stuck."""
        if self.was_refreshed_when_still:
            self.looks_done = self.is_stuck = True
        else:
            self.was_refreshed_when_still = True
            self.is_still = False
            self.refresh()

    def look_closer(self, target: float) -> None:
        """React to a refused certificate: bring all samples back, compute the gradient anew, and set a target below the current
        gap, unless the gap is only rounding error."""
        self.looks_done = False
        self.caution = self.policy.closer * min(self.caution, self.relative_gap / target if target > 0.0 else 1.0)
        self.refresh()
        self.next_check = self.steps
        self.measure(self.active_set(everyone=True))
        self.is_stuck = self.looks_done = self.gap <= self.least_noise * float(self.variables.C.sum())
        if self.active < self.present and not self.removals_are_safe:
            self.take_all_back()

r"""The default for kernel problems: equal samples are merged, batched SMO finds which samples are at which bound, and least
squares compute the free variables.

SMO is quick to find the sets of the IRWLS paper (papers/irwls_svc, Table 1): S2, where alpha is 0, and S3, where it is C. It is
slow to find the values of S1, the free variables. So once the gap is small, the paper's method
(``maxmargin.solvers.kernel.irwls.active_set_newton``) solves the problem of the free variables and the samples near the margin
to rounding error, on kernel values in float64, with all other variables fixed. The margins of the other samples are not
updated: the certificate, which comes next, computes all margins. If it shows that a sample far from the margin has to move, SMO
takes over the margins of the certificate and continues. Where nearly every variable is free, SMO may need less time than least
squares down to 1e-7: ``maxmargin.solvers.kernel.prices`` compares the two. After a refused certificate least squares run again
at once if the gap is much smaller than before; otherwise when SMO has reduced the gap again.

If SMO has taken longer than a factorisation of the kernel matrix would, and the matrix has a low rank, Newton's method takes
over (``maxmargin.solvers.kernel.factored``). If SMO has taken longer than least squares with all samples would, and their
matrix fits in the budget, these are tried once. Both decisions compare counted work in estimated nanoseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.kernel_matrix.rows import MEGABYTE
from maxmargin.problem.kernel import KernelProblem
from maxmargin.solvers.base import Budget, KernelSolver, Stage
from maxmargin.solvers.kernel.auto_policy import KernelAutoPolicy
from maxmargin.solvers.kernel.batched_smo import BatchedSMO
from maxmargin.solvers.kernel.batched_smo_state import BatchedPolicy, BatchedSMOState, Work
from maxmargin.solvers.kernel.factored import FactoredNewton, factor
from maxmargin.solvers.kernel.held_smo import HeldState
from maxmargin.solvers.kernel.irwls.active_set_newton import WorkingSet, optimise
from maxmargin.solvers.kernel.pace import Pace, PaceMark
from maxmargin.solvers.kernel.prices import Prices
from maxmargin.solvers.kernel.units import start_in_units
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.presolve import MergedSamples

FIRST = Stage("batched-smo", "to find out which samples are at a bound")
AGAIN = Stage("batched-smo", "samples far from the margin have to move")


@dataclass(frozen=True)
class KernelAuto(KernelSolver):
    """``cache_mb`` is the budget for kernel values."""

    cache_mb: float = 500.0
    shrinks: bool = True
    policy: KernelAutoPolicy = field(default_factory=KernelAutoPolicy)
    smo: BatchedPolicy = field(default_factory=BatchedPolicy)

    @property
    def name(self) -> str:
        return "auto"

    @property
    def shares_values(self) -> bool:
        """It reads shared kernel values, because batched SMO does."""
        return True

    @property
    def holds_values(self) -> bool:
        """It reads the float64 matrix of few samples, where there is one."""
        return True

    def for_features(self) -> Auto:
        """What solves the problem where it is a linear one, on the features of its kernel."""
        return Auto()

    @property
    def budget_mb(self) -> float:
        return self.cache_mb

    def within(self, budget_mb: float) -> KernelAuto:
        return replace(self, cache_mb=budget_mb)

    def init(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> KernelAutoState:
        state = KernelAutoState(seed)
        state.few = self.few(problem, warm_start)
        if state.few is None:
            state.many = self._many(problem, warm_start, seed, Work())
        return state

    def few(self, problem: KernelProblem, warm_start: Array | None = None, is_trial: bool = False) -> HeldState | None:
        """The state of the solver for few samples, where it can solve the problem. ``is_trial``: another method is waiting."""
        held = problem.held
        if held is None or held.nbytes > self.cache_mb * MEGABYTE:
            return None
        return HeldState.of(problem, held, warm_start, self.policy.trial if is_trial else self.policy.held)

    def _many(self, problem: KernelProblem, warm_start: Array | None, seed: int, work: Work) -> ManyState:
        """``work`` counts what other solvers have done for the same problem."""
        merged = MergedSamples.of(problem, self.policy.merge_saving)
        reduced = merged.problem if merged else problem
        start = merged.reduce(warm_start) if merged and warm_start is not None else warm_start
        rows_mb = self.policy.row_share * self.cache_mb
        solver = BatchedSMO(cache_mb=rows_mb, shrinks=self.shrinks, policy=self.smo)
        smo = solver.init(reduced, start, seed)
        smo.take_work(work)
        most_near = math.isqrt(int(0.5 * MEGABYTE * (self.cache_mb - rows_mb) / np.dtype(float).itemsize))
        return ManyState(reduced, merged, solver, smo, most_near, self.policy, finish_below=self.policy.early_gap)

    def advance(self, problem: KernelProblem, state: KernelAutoState, budget: Budget) -> None:
        state.present.advance(budget)
        if state.few is not None and state.few.has_given_up:
            state.many = self._many(problem, state.few.alpha, state.seed, Work(state.few.steps))
            state.few = None

    def candidate(self, problem: KernelProblem, state: KernelAutoState) -> Array:
        return state.present.alpha

    def take_outputs(self, problem: KernelProblem, state: KernelAutoState, outputs: Array) -> None:
        state.present.take_outputs(outputs)


@dataclass
class KernelAutoState:
    """The state of one of two solvers: the solver for few samples until it gives up, then the solver for many."""

    seed: int
    few: HeldState | None = None
    many: ManyState | None = None

    @property
    def present(self) -> Any:
        return self.few if self.few is not None else self.many

    @property
    def steps(self) -> int:
        return int(self.present.steps)

    @property
    def stage(self) -> Stage:
        return self.present.stage

    @property
    def active(self) -> int:
        return int(self.present.active)

    @property
    def looks_done(self) -> bool:
        return bool(self.present.looks_done)

    @property
    def is_stuck(self) -> bool:
        return bool(self.present.is_stuck)

    @property
    def relative_gap(self) -> float:
        """The solver's own estimate."""
        return float(self.present.relative_gap)

    @property
    def b(self) -> float:
        return float(self.present.b)

    @property
    def kernel_evaluations(self) -> int:
        return int(self.present.kernel_evaluations)


@dataclass
class ManyState:
    """The merged problem, and the state of SMO on it. ``is_finished`` means that alpha comes from least squares: f is up to
    date for the samples of their block only."""

    problem: KernelProblem
    merged: MergedSamples | None
    solver: BatchedSMO
    smo: BatchedSMOState
    most_near: int
    policy: KernelAutoPolicy
    finish_below: float
    stage: Stage = FIRST
    looks_done: bool = False
    is_finished: bool = False
    newton: FactoredNewton | None = None
    L: Array | None = None
    was_factored: bool = False
    was_slow: bool = False
    was_whole: bool = False
    is_from_newton: bool = False
    gap_before: float = math.inf
    pace: Pace = field(default_factory=Pace)

    def advance(self, budget: Budget) -> None:
        if self.looks_done:
            self.learn_from_refusal()
        if self.newton is not None:
            self.run_newton(budget)
        elif self.is_from_newton:
            self.is_from_newton = False
            if self.may_finish and len(self._near()) <= self.most_near:
                self.finish()
        elif self.is_ready and self.smo.relative_gap > budget.target and self.pays(budget.target):
            self.finish()
        elif self.is_small_and_slow:
            self.was_slow = True
            self.finish()
        elif self.may_factor:
            self.try_factor()
        elif self.may_take_all:
            self.was_whole = True
            self.finish(np.arange(self.problem.n_samples))
        else:
            self.run_smo(budget)

    @property
    def alpha(self) -> Array:
        alpha = self.solver.candidate(self.problem, self.smo)
        return self.merged.expand(alpha) if self.merged else alpha

    def take_outputs(self, outputs: Array) -> None:
        own = self.merged.reduce_outputs(outputs) if self.merged else outputs
        self.solver.take_outputs(self.problem, self.smo, own)

    @property
    def steps(self) -> int:
        return self.smo.steps + (self.newton.steps if self.newton else 0)

    @property
    def active(self) -> int:
        return self.smo.active

    @property
    def relative_gap(self) -> float:
        return self.smo.relative_gap

    @property
    def b(self) -> float:
        return self.smo.units.offset_of(self.smo.b)

    @property
    def is_stuck(self) -> bool:
        """Whether rounding stops SMO, and nothing else is left to try."""
        return self.smo.is_stuck and not self.is_finished and self.newton is None and not self._has_newton_left

    @property
    def _has_newton_left(self) -> bool:
        return not self.was_factored and self.problem.kernel.is_positive_semidefinite

    @property
    def kernel_evaluations(self) -> int:
        return self.smo.kernel_evaluations

    @property
    def may_finish(self) -> bool:
        """Whether the free variables fit in a block, with some room for other samples."""
        return self.smo.n_free <= self.policy.block_room * self.most_near

    @property
    def is_ready(self) -> bool:
        """Whether the sets S1, S2 and S3 are nearly known: besides the free variables, few samples can still change their
        set."""
        return self.smo.relative_gap <= self.finish_below and len(self._near()) <= self._most_worth_it

    def pays(self, target: float) -> bool:
        """Whether least squares take less time than SMO would, at its pace since the gap was ten times as large. It may not
        where nearly every variable is free and SMO needs few steps for each: narrow kernels, and tubes with a small C."""
        now, prices = self._pace_mark, self.prices
        if not prices.are_known or not now.gap > target >= self.policy.least_target_of_smo:
            return True
        near, left = self._near(), self.pace.work_left(now, target)
        squares = prices.least_squares(len(near))
        return squares <= left or squares <= left + prices.of_rounding(near, target, self.pace.a_decade(now))

    @property
    def _pace_mark(self) -> PaceMark:
        return PaceMark(self.smo.relative_gap, self.prices.pace)

    @property
    def prices(self) -> Prices:
        return Prices(self.problem, self.smo, self.solver.working_set, self.policy)

    @property
    def _most_worth_it(self) -> int:
        if self.smo.relative_gap > self.policy.small_gap:
            return self.policy.early_near
        return int(min(self.most_near, self.policy.few_near + self.policy.near_a_free * self.smo.n_free))

    def run_smo(self, budget: Budget) -> None:
        goal = max(budget.target, self.finish_below) if self.may_finish else budget.target
        self.stage = FIRST if self.stage is FIRST else AGAIN
        self.solver.advance(self.problem, self.smo, budget._replace(target=goal))
        self.pace.note(*self._pace_mark)
        self.looks_done = self.smo.looks_done
        if self.smo.looks_done and goal > budget.target:  # good enough for least squares, not for a certificate
            self.looks_done = False
            self.smo.go_on()
            if not self.is_ready or self.smo.relative_gap <= budget.target or not self.pays(budget.target):
                self.finish_below = self._next_threshold
        elif self.looks_done and self.problem.n_samples <= self.policy.few_samples:
            self.finish()

    @property
    def _next_threshold(self) -> float:
        """The gap at which least squares are tried next, after a try that was too early or did not pay off."""
        if self.smo.relative_gap > self.policy.small_gap:
            return self.policy.small_gap
        return self.policy.enough * min(self.finish_below, self.smo.relative_gap)

    @property
    def is_small_and_slow(self) -> bool:
        """Whether to try least squares whatever the gap is: for few samples they cost less than more steps. This happens
        once."""
        n = self.problem.n_samples
        return not self.was_slow and n <= self.policy.few_samples and self.smo.steps > self.policy.many_epochs * n

    @property
    def may_take_all(self) -> bool:
        """Whether SMO has taken as long as least squares with all samples would, and these fit in a block. This happens once.
        With a smooth kernel and a large C, SMO makes many millions of tiny steps."""
        n = self.problem.n_samples
        may_be = not self.was_whole and n <= self.most_near and self.problem.kernel.is_positive_semidefinite
        return may_be and self.prices.smo > self.policy.ns_a_pair_of_all * n**2

    @property
    def may_factor(self) -> bool:
        """Whether SMO has taken as long as a factorisation would, or, if the factor is known, as long as Newton's method
        would; or rounding stops SMO."""
        n, columns = self.problem.n_samples, self._most_columns if self.L is None else self.L.shape[1]
        done = self.policy.ns_a_step_and_sample * self.smo.steps * min(n, self.solver.working_set)
        passes = 1 if self.L is None else self.policy.newton_steps
        is_time = done > self.policy.ns_a_flop * passes * (n + columns) * columns**2
        return self._has_newton_left and (is_time or self.smo.is_stuck)

    @property
    def _most_columns(self) -> int:
        """A factor has as much memory as the block of least squares."""
        return int(min(self.problem.n_samples, self.policy.most_columns, self.most_near**2 / self.problem.n_samples))

    def try_factor(self) -> None:
        """Factor the kernel matrix, or begin with Newton where that is done."""
        if self.L is not None:
            self.was_factored = True
            self.newton = FactoredNewton(self.problem, self.L, self.solver.candidate(self.problem, self.smo))
            reason = "rounding stops SMO" if self.smo.is_stuck else "SMO takes too long"
            self.stage = Stage("newton", f"the samples lie in {self.L.shape[1]} dimensions, and {reason}")
            return
        rows = KernelMatrix(self.problem.kernel, self.problem.points, np.float64)
        with single_threaded_blas():
            self.L = factor(self.problem, rows, self._most_columns)
        self.smo.take_work(Work(kernel_evaluations=rows.kernel_evaluations))
        self.was_factored = self.L is None

    def run_newton(self, budget: Budget) -> None:
        """The target of Newton's method: rounding error. A kernel problem keeps only w(alpha), which is farther from the
        optimum than Newton's own w. If the certificate refuses it, least squares follow: Newton has found the free samples, and
        their outputs at w(alpha) are still wrong by what an alpha of 1e5 loses in the factor."""
        assert self.newton is not None
        self.newton.advance(budget._replace(target=0.0))
        if self.newton.is_over:
            self.smo.take_point(start_in_units(self.problem, self.newton.alpha)[0].s, Work(self.newton.steps))
            self.newton, self.L = None, None
            self.gap_before, self.is_finished, self.looks_done = self.smo.relative_gap, True, True
            self.is_from_newton = True

    def finish(self, samples: Array | None = None) -> None:
        """Solve for the free variables and the samples near the margin by least squares, or for the samples given, then ask
        for a certificate."""
        smo, near = self.smo, self._near() if samples is None else samples
        most_systems = self.policy.most_systems if samples is None else None
        rows = KernelMatrix(self.problem.kernel, self.problem.points, np.float64)
        with single_threaded_blas():
            K, others = rows.square(near), np.setdiff1d(np.flatnonzero(smo.s), near, assume_unique=True)
            v = smo.y[near] - (K @ smo.s[near] + rows.sums_at(near, others, smo.s[others]))
            cells = smo.at(near).cells(v - smo.b)
            work = WorkingSet(K, smo.s[near], v - cells.shift, cells.lower, cells.upper, self.problem.has_offset)
            found = optimise(work, max_iterations=most_systems)
        f = smo.y[near] - (found.v + cells.shift)
        smo.take_part(near, found.s, f, Work(found.iterations, rows.kernel_evaluations))
        self.gap_before, self.is_finished, self.looks_done = smo.relative_gap, True, True
        which = "all" if samples is not None else f"the {len(near)}"
        self.stage = Stage(
            "irwls", f"least squares for {which} samples{' that are free or near the margin' * (samples is None)}"
        )

    def _near(self) -> Array:
        smo, near = self.smo, self.policy.near
        if smo.units.is_signed:
            near = min(near, self.policy.near_the_tube * smo.units.epsilon)
        return np.flatnonzero(smo.is_free | (np.abs(smo.cell_errors(smo.b)) <= max(near, smo.top - smo.bottom)))

    def learn_from_refusal(self) -> None:
        """React to a refused certificate after least squares, with an exact f: run least squares again at once if they paid
        off."""
        self.looks_done = False
        if not self.is_finished:
            return
        self.is_finished = False
        self.smo.survey(self.problem)
        self.pace.begin_again(self._pace_mark)
        gap, enough = self.smo.relative_gap, self.policy.enough
        self.finish_below = gap if gap <= enough * self.gap_before else enough * min(gap, self.gap_before)

r"""The default for kernel problems: equal samples are merged, batched SMO finds out who is at which bound, and least squares
finish the rest.

SMO is quick to find the sets of the IRWLS paper (papers/irwls_svc, Table 1): S2, where alpha is 0, and S3, where it is C. It is
slow to find the values of S1, the free variables. So once the gap is small, the problem of the free variables and those near
the margin is solved to rounding by the paper's method (``maxmargin.solvers.irwls_step``), on kernel values in float64, with
all others where they are. Their margins are not even brought up to date: the certificate, which comes next, computes them
all. If it shows that somebody far from the margin has to move after all, its margins are taken over, and SMO goes on.

The same is done again when the certificate was refused but its gap is much smaller than before; otherwise only when SMO has
made the gap small once more.

Where SMO has taken longer than a factorisation of the kernel matrix would, and the samples turn out to lie in few dimensions,
Newton's method takes over (``maxmargin.solvers.factored``). That is decided by counted work in estimated nanoseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.data import Array
from maxmargin.kernel_problem import KernelProblem
from maxmargin.kernel_rows import MEGABYTE, KernelRows
from maxmargin.reductions import MergedSamples
from maxmargin.solvers.auto import Auto
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.batched_smo import BatchedSMO, BatchedSMOState
from maxmargin.solvers.factored import FactoredNewton, factor
from maxmargin.solvers.held_smo import HeldState
from maxmargin.solvers.irwls_step import WorkingSet, optimise
from maxmargin.threads import single_threaded_blas

MERGE_SAVING = 0.05
"""The share of samples that must be equal to others to be worth a copy of X."""
ROW_SHARE = 0.6
"""Of the budget for kernel values, what rows may take; the rest is for the block of least squares and its factor."""
SMALL_GAP = 1e-3
"""Above it least squares are too early, unless they cost little."""
EARLY_GAP, EARLY_NEAR = 1e-2, 256
"""Above this gap they are too early even for so few samples near the margin, for which they take as long as a working set."""
NEAR = 0.05
"""Samples whose margin is within this of one, or within the violation, are near."""
FEW_NEAR, NEAR_A_FREE = 1000, 2.0
"""So many samples near the margin, and so many more for each free one, are few."""
ENOUGH = 0.1
"""A gap that has fallen to this share of the last was worth it; one that has not must be made so small by SMO first."""
MOST_SYSTEMS = 200
FEW_SAMPLES = 256
"""So few are finished to rounding whatever the target: it costs next to nothing, and equal problems get equal answers."""

NS_A_STEP_AND_SAMPLE, NS_A_FLOP = 1.0, 0.15
"""About what a step of SMO takes for each sample of its working set, and a multiplication of Newton's and of the factorisation,
in nanoseconds: estimates, not measured."""
MOST_COLUMNS, NEWTON_STEPS = 1000, 40
"""Of a factor that is tried, and what Newton is taken to need with it."""
MANY_EPOCHS = 50
"""Steps of SMO for each of few samples after which least squares are tried, however large the gap is."""

FIRST = Stage("batched-smo", "to find out which samples are at a bound")
AGAIN = Stage("batched-smo", "samples far from the margin have to move")


@dataclass(frozen=True)
class KernelAuto:
    """``cache_mb`` is the budget for kernel values."""

    cache_mb: float = 500.0
    shrinks: bool = True

    @property
    def name(self) -> str:
        return "auto"

    @property
    def shares_values(self) -> bool:
        """As SMO does."""
        return True

    @property
    def holds_values(self) -> bool:
        """It reads the float64 matrix of few samples, where there is one."""
        return True

    def for_features(self) -> Auto:
        """What solves the problem where it is a linear one, on the features of its kernel."""
        return Auto()

    def init(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> KernelAutoState:
        state = KernelAutoState(seed)
        if problem.held is not None and problem.kernel.is_positive_semidefinite and self._can_hold(problem):
            state.few = HeldState.of(problem, problem.held, warm_start)
        else:
            state.many = self._many(problem, warm_start, seed)
        return state

    def _can_hold(self, problem: KernelProblem) -> bool:
        return problem.held is not None and problem.held.padded.nbytes <= self.cache_mb * MEGABYTE

    def _many(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> ManyState:
        merged = MergedSamples.of(problem, MERGE_SAVING)
        reduced = merged.problem if merged else problem
        start = merged.reduce(warm_start) if merged and warm_start is not None else warm_start
        solver = BatchedSMO(cache_mb=ROW_SHARE * self.cache_mb, shrinks=self.shrinks)
        most_near = math.isqrt(int(0.5 * (1.0 - ROW_SHARE) * MEGABYTE * self.cache_mb / np.dtype(float).itemsize))
        return ManyState(reduced, merged, solver, solver.init(reduced, start, seed), most_near)

    def advance(self, problem: KernelProblem, state: KernelAutoState, budget: Budget) -> None:
        if state.few is not None:
            state.few.advance(budget)
            if state.few.has_given_up:
                few, state.few = state.few, None
                state.many = self._many(problem, few.alpha, state.seed)
                state.many.smo.steps = few.steps
        else:
            state.present.advance(budget)

    def candidate(self, problem: KernelProblem, state: KernelAutoState) -> Array:
        return state.present.alpha

    def take_outputs(self, problem: KernelProblem, state: KernelAutoState, outputs: Array) -> None:
        state.present.take_outputs(outputs)


@dataclass
class KernelAutoState:
    """One of two: the solver of few samples until it has given up, or the course of many."""

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
    def b(self) -> float:
        return float(self.present.b)

    @property
    def kernel_evaluations(self) -> int:
        return int(self.present.kernel_evaluations)


@dataclass
class ManyState:
    """The problem that is solved in place of the one that was asked for, and where SMO stands. ``is_finished`` says that the
    present alpha is that of least squares, so that f is up to date in their block alone."""

    problem: KernelProblem
    merged: MergedSamples | None
    solver: BatchedSMO
    smo: BatchedSMOState
    most_near: int
    stage: Stage = FIRST
    looks_done: bool = False
    is_finished: bool = False
    newton: FactoredNewton | None = None
    L: Array | None = None
    was_factored: bool = False
    was_slow: bool = False
    finish_below: float = EARLY_GAP
    gap_before: float = math.inf

    def advance(self, budget: Budget) -> None:
        if self.looks_done:
            self.learn_from_refusal()
        if self.newton is not None:
            self.run_newton(budget)
        elif self.is_ready and self.smo.relative_gap > budget.target:
            self.finish()
        elif self.is_small_and_slow:
            self.was_slow = True
            self.finish()
        elif self.may_factor:
            self.try_factor()
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
    def b(self) -> float:
        return self.smo.b

    @property
    def is_stuck(self) -> bool:
        return self.smo.is_stuck and not self.is_finished

    @property
    def kernel_evaluations(self) -> int:
        return self.smo.kernel_evaluations

    @property
    def may_finish(self) -> bool:
        """The free variables fit in a block, with some room for others."""
        return self.smo.n_free <= 0.9 * self.most_near

    @property
    def is_ready(self) -> bool:
        """The sets are nearly known: few samples but the free ones can still change theirs."""
        return self.smo.relative_gap <= self.finish_below and len(self._near()) <= self._most_worth_it

    @property
    def _most_worth_it(self) -> int:
        if self.smo.relative_gap > SMALL_GAP:
            return EARLY_NEAR
        return int(min(self.most_near, FEW_NEAR + NEAR_A_FREE * self.smo.n_free))

    def run_smo(self, budget: Budget) -> None:
        goal = max(budget.target, self.finish_below) if self.may_finish else budget.target
        self.stage = FIRST if self.stage is FIRST else AGAIN
        self.solver.advance(self.problem, self.smo, budget._replace(target=goal))
        self.looks_done = self.smo.looks_done
        if self.smo.looks_done and goal > budget.target:  # good enough for least squares, but for no certificate
            self.looks_done = self.smo.looks_done = False
            if not self.is_ready or self.smo.relative_gap <= budget.target:
                self.finish_below = self._next_threshold
        elif self.looks_done and self.problem.n_samples <= FEW_SAMPLES:
            self.finish()

    @property
    def _next_threshold(self) -> float:
        """Where least squares are tried next, after the last threshold came too early or was no use."""
        if self.smo.relative_gap > SMALL_GAP:
            return SMALL_GAP
        return ENOUGH * min(self.finish_below, self.smo.relative_gap)

    @property
    def is_small_and_slow(self) -> bool:
        """Least squares for so few samples cost less than more steps, whatever the gap is. Once."""
        n = self.problem.n_samples
        return not self.was_slow and n <= FEW_SAMPLES and self.smo.steps > MANY_EPOCHS * n

    @property
    def may_factor(self) -> bool:
        """SMO has taken as long as a factorisation, and with a factor as long as Newton would."""
        n, columns = self.problem.n_samples, self._most_columns if self.L is None else self.L.shape[1]
        done = NS_A_STEP_AND_SAMPLE * self.smo.steps * min(n, self.solver.working_set)
        passes = 1 if self.L is None else NEWTON_STEPS
        is_wanted = not self.was_factored and self.problem.kernel.is_positive_semidefinite
        return is_wanted and done > NS_A_FLOP * passes * (n + columns) * columns**2

    @property
    def _most_columns(self) -> int:
        """A factor has as much memory as the block of least squares."""
        return int(min(self.problem.n_samples, MOST_COLUMNS, self.most_near**2 / self.problem.n_samples))

    def try_factor(self) -> None:
        """Factor the kernel matrix, or begin with Newton where that is done."""
        if self.L is not None:
            self.was_factored = True
            self.newton = FactoredNewton(self.problem, self.L, self.solver.candidate(self.problem, self.smo))
            self.stage = Stage("newton", f"the samples lie in {self.L.shape[1]} dimensions, and SMO takes too long")
            return
        rows = KernelRows(self.problem, np.float64, 0.0)
        with single_threaded_blas():
            self.L = factor(self.problem, rows, self._most_columns)
        self.smo.evaluations_before += rows.kernel_evaluations
        self.was_factored = self.L is None

    def run_newton(self, budget: Budget) -> None:
        """To rounding: w(alpha) is all that there is of w, and it lies farther from the optimum than Newton's own w."""
        assert self.newton is not None
        self.newton.advance(budget._replace(target=0.0))
        if self.newton.is_over:
            smo = self.smo
            smo.s[:] = smo.y * self.newton.alpha
            smo.steps += self.newton.steps
            smo.is_exact = smo.looks_done = smo.is_stuck = False
            self.newton, self.L = None, None
            self.gap_before, self.is_finished, self.looks_done = smo.relative_gap, True, True

    def finish(self) -> None:
        """Least squares for the free variables and all others near the margin; then it is the certificate's turn."""
        smo, near = self.smo, self._near()
        rows = KernelRows(self.problem, np.float64, 0.0)
        with single_threaded_blas():
            K, others = rows.square(near), np.setdiff1d(np.flatnonzero(smo.s), near, assume_unique=True)
            smo.f[near] = K @ smo.s[near] + rows.sums_at(near, others, smo.s[others])
            work = WorkingSet(K, smo.s[near], smo.v[near], smo.lower[near], smo.upper[near], self.problem.has_offset)
            found = optimise(work, max_iterations=MOST_SYSTEMS)
        smo.s[near], smo.f[near] = found.s, smo.y[near] - found.v
        smo.steps += found.iterations
        smo.evaluations_before += rows.kernel_evaluations
        smo.is_exact = smo.looks_done = False
        self.gap_before, self.is_finished, self.looks_done = smo.relative_gap, True, True
        self.stage = Stage("irwls", f"least squares for the {len(near)} samples that are free or near the margin")

    def _near(self) -> Array:
        smo = self.smo
        is_free = (smo.lower < smo.s) & (smo.s < smo.upper)
        return np.flatnonzero(is_free | (np.abs(smo.v - smo.b) <= max(NEAR, smo.top - smo.bottom)))

    def learn_from_refusal(self) -> None:
        """The certificate of a finished alpha was refused, and f is exact: finish again at once if it was worth it."""
        self.looks_done = False
        if not self.is_finished:
            return
        self.is_finished = False
        self.smo.survey(self.problem)
        gap = self.smo.relative_gap
        self.finish_below = gap if gap <= ENOUGH * self.gap_before else ENOUGH * min(gap, self.gap_before)

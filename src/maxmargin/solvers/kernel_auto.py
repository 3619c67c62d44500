"""The default for kernel problems: equal samples are merged, and batched SMO solves what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxmargin.data import Array
from maxmargin.kernel_problem import KernelProblem
from maxmargin.reductions import MergedSamples
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.batched_smo import BatchedSMO

MERGE_SAVING = 0.05
"""The share of samples that must be equal to others to be worth a copy of X."""


@dataclass(frozen=True)
class KernelAuto:
    """``cache_mb`` is the budget for kernel rows."""

    cache_mb: float = 500.0

    @property
    def name(self) -> str:
        return "auto"

    def init(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> KernelAutoState:
        merged = MergedSamples.of(problem, MERGE_SAVING)
        solver = BatchedSMO(cache_mb=self.cache_mb)
        inner = merged.problem if merged else problem
        start = merged.reduce(warm_start) if merged and warm_start is not None else warm_start
        return KernelAutoState(inner, merged, solver, solver.init(inner, start, seed))

    def advance(self, problem: KernelProblem, state: KernelAutoState, budget: Budget) -> None:
        state.solver.advance(state.problem, state.inner, budget)

    def candidate(self, problem: KernelProblem, state: KernelAutoState) -> Array:
        alpha = state.solver.candidate(state.problem, state.inner)
        return state.merged.expand(alpha) if state.merged else alpha

    def take_outputs(self, problem: KernelProblem, state: KernelAutoState, outputs: Array) -> None:
        state.solver.take_outputs(state.problem, state.inner, state.merged.reduce_outputs(outputs) if state.merged else outputs)


@dataclass
class KernelAutoState:
    """The problem that is solved in place of the one that was asked for, and where its solver stands."""

    problem: KernelProblem
    merged: MergedSamples | None
    solver: Any
    inner: Any

    @property
    def stage(self) -> Stage:
        return Stage(self.solver.name, "")

    @property
    def steps(self) -> int:
        return int(self.inner.steps)

    @property
    def active(self) -> int:
        return int(self.inner.active)

    @property
    def looks_done(self) -> bool:
        return bool(self.inner.looks_done)

    @property
    def is_stuck(self) -> bool:
        return bool(self.inner.is_stuck)

    @property
    def kernel_evaluations(self) -> int:
        return int(self.inner.kernel_evaluations)

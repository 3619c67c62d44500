"""The solver for L1 and elastic-net penalties with squared hinge loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.sparse_newton.features import features_of
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy
from maxmargin.solvers.linear.sparse_newton.state import SparseNewtonState, WorkingSet


@dataclass(frozen=True)
class SparseNewton:
    """Newton's method on a working set of features, with gap-safe screening of the others. A warm start is a w."""

    policy: SparseNewtonPolicy = field(default=SparseNewtonPolicy(), repr=False)
    fits_kinks: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "sparse-newton"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> SparseNewtonState:
        refuse_other_losses(problem)
        features, n = features_of(problem), problem.n_weights
        l1, l2 = np.full(n, problem.penalty.l1), np.full(n, problem.penalty.l2)
        l1[problem.n_penalised :] = l2[problem.n_penalised :] = 0.0
        w = np.zeros(n) if warm_start is None else warm_start.copy()
        constant = np.arange(problem.rows.n_features, n)
        is_whole = n <= self.policy.whole_features and features.passes_for_all <= self.policy.whole_passes
        chosen = np.arange(n) if is_whole else np.union1d(np.flatnonzero(w), constant)
        working = WorkingSet.of(chosen, features, problem, l1, l2)
        slacks = 1.0 - problem.signs * working.block.times(w[chosen])
        kept = np.arange(n)
        state = SparseNewtonState(
            problem, self.policy, features, w, l1, l2, slacks, kept, working, Stage(self.name, "L1 penalty")
        )
        state.alpha, state.needs_look = np.zeros(problem.n_samples), len(chosen) == 0 or warm_start is not None
        state.working_target = 1e-3 * problem.primal_at_zero
        return state

    def advance(self, problem: LinearProblem, state: SparseNewtonState, budget: Budget) -> None:
        if state.looks_done:  # a certificate was refused: look closer
            state.target *= 0.1
            state.working_target *= 0.1
            state.looks_done = False
            state.leave_screened()
            if state.idle > self.policy.most_idle:
                state.is_stuck = True
        state.target = min(state.target, budget.target)
        if state.needs_look:
            state.look()
        else:
            state.newton_step()

    def candidate(self, problem: LinearProblem, state: SparseNewtonState) -> tuple[Array, Array]:
        return state.w, state.alpha


def refuse_other_losses(problem: LinearProblem) -> None:
    pieces = None if problem.loss.is_regression else problem.loss.margin_pieces()
    if pieces is None or pieces.has_bounded_slope or pieces.is_two_sided:
        raise ValueError(f"The penalty {problem.penalty!r} is fitted with squared hinge loss only; got {problem.loss!r}.")

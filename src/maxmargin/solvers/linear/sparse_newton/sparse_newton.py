"""The solver for L1 and elastic-net penalties with squared hinge loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.sparse_newton.features import features_of
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy
from maxmargin.solvers.linear.sparse_newton.ramp import Ramp
from maxmargin.solvers.linear.sparse_newton.state import SparseNewtonState, state_at


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
        features = features_of(problem)
        if warm_start is not None:
            return state_at(problem, self.policy, features, warm_start.copy(), is_warm=True)
        return state_at(problem, self.policy, features, np.zeros(problem.n_weights), is_warm=False)

    def advance(self, problem: LinearProblem, state: SparseNewtonState, budget: Budget) -> None:
        if state.ramp is None:
            state.advance(budget.target)
            if self._is_slow(problem, state):
                state.go_inside()
            elif not state.has_ramped and self._is_steep(problem, state):
                state.ramp, state.has_ramped = Ramp.of(problem, self.policy, state.features), True
            return
        state.steps += problem.n_samples
        if state.ramp.is_up():
            state.move_to(state.ramp.state.w)
            state.ramp = None

    def _is_slow(self, problem: LinearProblem, state: SparseNewtonState) -> bool:
        """Whether the interior-point method should take over."""
        n, d, policy = problem.n_samples, problem.n_weights, self.policy
        if state.has_been_inside or state.looks_done:
            return False
        elements = float(n + d) * d * d
        is_at_its_end = state.is_stuck or len(state.working.chosen) > n
        is_late = state.turns >= policy.inside_after * (1.0 + elements / policy.inside_unit)
        return is_late or (is_at_its_end and elements <= policy.inside_elements)

    def _is_steep(self, problem: LinearProblem, state: SparseNewtonState) -> bool:
        """Whether smaller C should come first: Newton's model is singular, or many steps were not enough."""
        is_late = state.steps >= self.policy.ramp_after * problem.n_samples
        return len(state.working.chosen) > problem.n_samples or (is_late and not state.looks_done)

    def candidate(self, problem: LinearProblem, state: SparseNewtonState) -> tuple[Array, Array]:
        return state.w, state.alpha


def refuse_other_losses(problem: LinearProblem) -> None:
    pieces = None if problem.loss.is_regression else problem.loss.margin_pieces()
    if pieces is None or pieces.has_bounded_slope or pieces.is_two_sided:
        raise ValueError(f"The penalty {problem.penalty!r} is fitted with squared hinge loss only; got {problem.loss!r}.")

"""Newton's method for a small problem: one compiled call, and the method in Python where that call has not been enough.

The compiled call (``small_newton_loop``) takes the answer as far as float64 goes. It does without what columns of
very different scales need. Where its gap or its certificate is not good enough, ``maxmargin.solvers.linear.newton.newton``
begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin.data.rows import Array, DenseRows
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.passes import curve_of, has_few_elements
from maxmargin.solvers.linear.newton.small_newton_loop import Outer, Start, solve_small
from maxmargin.solvers.linear.newton.state import NewtonState

POLISHING = Newton(polishes=True)


@dataclass(frozen=True)
class SmallNewton:
    """``careful`` is the method that takes over where the compiled call was not enough; the call has its settings."""

    careful: Newton = POLISHING

    @property
    def name(self) -> str:
        return "newton"

    @cached_property
    def outer(self) -> Outer:
        careful = self.careful
        factors = tuple(careful.factor(steps) for steps in (3, 8, 20, 21))
        policy, search = careful.policy, careful.policy.line_search
        return Outer(
            careful.penalty,
            careful.cold_penalty,
            careful.acceptance,
            factors,  # type: ignore[arg-type]
            policy.converged,
            policy.better_pair,
            policy.small_idle,
            search.accuracy,
            search.most_looks,
        )

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> SmallState:
        return SmallState(problem, warm_start)

    def advance(self, problem: LinearProblem, state: SmallState, budget: Budget) -> None:
        if state.is_fresh:
            state.run(self._outer_for(problem, budget.target), self.careful.policy.small_steps, budget)
        else:
            state.go_on(self.careful, budget)

    def _outer_for(self, problem: LinearProblem, target: float) -> Outer:
        """To rounding where that costs next to nothing, else to a part of the target."""
        policy = self.careful.policy
        if has_few_elements(problem, policy.matrix):
            return self.outer
        return self.outer._replace(converged=max(policy.converged, policy.small_aim * target))

    def candidate(self, problem: LinearProblem, state: SmallState) -> tuple[Array, Array]:
        if state.careful is not None:
            return self.careful.candidate(problem, state.careful)
        return state.w[: problem.n_weights], state.alpha


class SmallState:
    """The pair of the compiled call, until the careful method has taken over."""

    has_best_w = True

    def __init__(self, problem: LinearProblem, warm_start: Array | None) -> None:
        self.problem, self.warm_start = problem, warm_start
        self.stage = Stage("newton")
        self.careful: NewtonState | None = None
        self.is_fresh = True
        self.looks_done = self.is_stuck = False
        self.gap, self.best_dual, self.active, self.own_steps = np.inf, 0.0, problem.n_samples, 0
        self.w = np.zeros(problem.rows.n_features + 1)
        self.alpha = np.zeros(problem.n_samples) if warm_start is None else self._inside(warm_start)
        if warm_start is not None:  # the answer may be here already
            self.w[: problem.n_weights] = problem.weights(self.alpha)

    def _inside(self, alpha: Array) -> Array:
        clipped: Array = np.clip(alpha, self.problem.box.L, self.problem.box.U)
        return clipped

    @property
    def steps(self) -> int:
        return self.own_steps + (self.careful.steps if self.careful else 0)

    def meets(self, target: float) -> bool:
        """Whether the gap is within the target, as far as the solver can tell."""
        return bool(np.isfinite(self.gap) and self.gap <= target * abs(self.best_dual))

    def run(self, outer: Outer, allowed_steps: int, budget: Budget) -> None:
        """The compiled call. If it was cut short by the budget, the careful method goes on from its alpha."""
        problem, self.is_fresh = self.problem, False
        most_steps = max(1, min(allowed_steps, budget.steps // problem.n_samples))
        linear = float(np.sum(problem.box.terms(self.alpha))) if self.warm_start is not None else 0.0
        start = Start(self.alpha, self.w, linear, problem.primal_at_zero, most_steps)
        found = solve_small(_rows(problem), problem.signs, curve_of(problem), outer, start)
        self.gap, self.best_dual, n_steps, self.active = found
        self.own_steps += max(1, n_steps) * problem.n_samples
        self.looks_done = self.meets(budget.target)
        if n_steps == most_steps and n_steps < allowed_steps and not self.looks_done:
            self.warm_start = self.alpha

    def go_on(self, solver: Newton, budget: Budget) -> None:
        if self.careful is None:
            self.careful = solver.init(self.problem, self.warm_start, 0)
        solver.advance(self.problem, self.careful, budget)
        self.looks_done, self.is_stuck = self.careful.looks_done, self.careful.is_stuck
        self.gap, self.best_dual, self.active = self.careful.gap, self.careful.best_dual, self.careful.active


def _rows(problem: LinearProblem) -> DenseRows:
    """X as dense float64, whatever it is: so few elements are soon copied, and one type is soon compiled."""
    rows = problem.compiled_rows
    if isinstance(rows, DenseRows) and rows.values.dtype == np.float64:
        return rows
    values = np.ascontiguousarray(problem.rows.dense(), np.float64)
    values.flags.writeable = False
    return DenseRows(values, rows.bias)

"""Newton's method for a small problem: one compiled call, and the method in Python where that call has not been enough.

The compiled call (``small_newton_loop``) solves to the precision of float64. It lacks the safeguards for columns of very
different scales. If its gap or its certificate is not good enough, ``maxmargin.solvers.linear.newton.newton`` starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.passes import curve_of, has_few_elements
from maxmargin.solvers.linear.newton.small_newton_loop import Samples, Settings, Weights, solve_small
from maxmargin.solvers.linear.newton.state import NewtonState

POLISHING = Newton(polishes=True)


@dataclass(frozen=True)
class SmallNewton:
    """``careful`` is the method that takes over if the compiled call was not enough. The call uses the same settings."""

    careful: Newton = POLISHING

    @property
    def name(self) -> str:
        return "newton"

    @cached_property
    def settings(self) -> Settings:
        """The settings from w = 0 for the hinge loss."""
        careful = self.careful
        policy, search = careful.policy, careful.policy.line_search
        return Settings(
            hardness=policy.small_hardness,
            epsilon=0.0,
            penalty=careful.cold_penalty,
            anchor_dual=0.0,
            acceptance=careful.acceptance,
            factors=(careful.factor(3), careful.factor(8), careful.factor(20), careful.factor(21)),
            converged=policy.converged,
            better_pair=policy.better_pair,
            most_idle=policy.small_idle,
            search_accuracy=search.accuracy,
            most_looks=search.most_looks,
            most_steps=policy.small_steps,
        )

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> SmallState:
        return SmallState(problem, warm_start)

    def advance(self, problem: LinearProblem, state: SmallState, budget: Budget) -> None:
        if state.is_fresh:
            state.run(self._settings_for(problem, budget.target), self.careful.penalty, budget)
        else:
            state.go_on(self.careful, budget)

    def _settings_for(self, problem: LinearProblem, target: float) -> Settings:
        """The gap at which the call ends: rounding error for the smallest problems, otherwise a share of the target."""
        policy = self.careful.policy
        if has_few_elements(problem, policy.matrix):
            return self.settings
        return self.settings._replace(converged=max(policy.converged, policy.small_aim * target))

    def candidate(self, problem: LinearProblem, state: SmallState) -> tuple[Array, Array]:
        if state.careful is not None:
            return self.careful.candidate(problem, state.careful)
        return state.w, state.alpha


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
        self.w, self.alpha = np.zeros(problem.n_weights), np.zeros(problem.n_samples)
        if warm_start is not None:  # the warm start may be optimal already
            self.alpha = np.clip(warm_start, problem.box.L, problem.box.U)
            self.w = problem.weights(self.alpha)

    @property
    def steps(self) -> int:
        return self.own_steps + (self.careful.steps if self.careful else 0)

    def meets(self, target: float) -> bool:
        """Whether the gap is within the target, as far as the solver can tell."""
        return bool(np.isfinite(self.gap) and self.gap <= target * abs(self.best_dual))

    def run(self, settings: Settings, warm_penalty: float, budget: Budget) -> None:
        """The compiled call. If the budget cut it short, the careful method continues from its alpha."""
        self.is_fresh, allowed_steps, n = False, settings.most_steps, self.problem.n_samples
        most_steps = max(1, min(allowed_steps, budget.steps // n))
        memory = Memory(self.problem, settings._replace(most_steps=most_steps))
        if self.warm_start is not None:
            memory.begin(self.problem, self.warm_start, warm_penalty)
        self.gap, self.best_dual, n_steps, self.active = memory.solve()
        self.alpha, self.w = memory.samples.best_alpha, memory.weights.best_w
        self.own_steps += max(1, n_steps) * n
        self.looks_done = self.meets(budget.target)
        if n_steps == most_steps and n_steps < allowed_steps and not self.looks_done:
            self.warm_start = self.alpha

    def go_on(self, solver: Newton, budget: Budget) -> None:
        if self.careful is None:
            self.careful = solver.init(self.problem, self.warm_start, 0)
        solver.advance(self.problem, self.careful, budget)
        self.looks_done, self.is_stuck = self.careful.looks_done, self.careful.is_stuck
        self.gap, self.best_dual, self.active = self.careful.gap, self.careful.best_dual, self.careful.active


class Memory:
    """What the compiled call reads and writes. It begins at w = 0 and alpha = 0."""

    def __init__(self, problem: LinearProblem, settings: Settings) -> None:
        curve, n, d = curve_of(problem), problem.n_samples, problem.n_weights
        bounds, of_samples = np.empty((2, n)), np.zeros((5, n))
        bounds[0], bounds[1] = curve.lower, curve.target
        anchor, margin, along, alpha, best_alpha = of_samples
        of_free = np.zeros((2, n), np.bool_)
        dual = anchor, margin, along, alpha, of_free[0], of_free[1], best_alpha
        self.samples = Samples(curve.C, bounds[0], curve.U, bounds[1], *dual)
        self.weights = Weights(*np.zeros((6, d)), *np.zeros((2, d, d)))
        self.settings = settings
        if curve.is_smooth:
            self.settings = settings._replace(hardness=1.0 / curve.softness, penalty=np.inf, epsilon=curve.epsilon)
        elif curve.is_tube:
            self.settings = settings._replace(epsilon=curve.epsilon)
        self.Z = signed_rows(problem)

    def begin(self, problem: LinearProblem, alpha: Array, penalty: float) -> None:
        """Where an alpha is given: w = w(alpha), unless w = 0 has the lesser primal value. w(alpha) of a poor alpha can be
        far off."""
        alpha = np.clip(alpha, problem.box.L, problem.box.U)
        w = problem.weights(alpha)
        self.samples.alpha[:] = self.samples.anchor[:] = alpha
        self.weights.w_alpha[:] = w
        self.settings = self.settings._replace(anchor_dual=problem.dual(alpha))
        if w.any() and problem.primal(w) < problem.primal_at_zero:
            self.weights.w[:], self.samples.margin[:] = w, problem.margins(w)
            if self.settings.penalty < np.inf:
                self.settings = self.settings._replace(penalty=penalty)

    def solve(self) -> tuple[float, float, int, int]:
        """The gap and the dual value of the best pair, Newton steps, and samples free."""
        gap, dual, steps, n_free = solve_small(self.Z, self.samples, self.weights, self.settings)
        return gap, dual, steps, n_free


def signed_rows(problem: LinearProblem) -> Array:
    """sigma_i x_i as dense float64 with the constant column, whatever X is. Copying few elements is cheap, and the loop is
    compiled for one type only."""
    d, signs = problem.rows.n_features, problem.signs.astype(np.float64)
    Z = np.empty((problem.n_samples, problem.n_weights))
    np.multiply(problem.rows.dense(), signs[:, None], out=Z[:, :d])
    if problem.n_weights > d:
        np.multiply(signs, problem.intercept_scaling, out=Z[:, d])
    return Z

"""The last resort for one class: an interior-point method, where pair descent and Newton's method get no farther.

In columns of very different scales the steps of both drown in rounding long before w is optimal. The interior-point method of
:mod:`maxmargin.solvers.interior_point` does not depend on the scales. It needs X as a dense array, and a matrix of the size of
its features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import summed
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.interior_point import Point, solve_inside
from maxmargin.solvers.interior_program import InteriorPolicy, Program
from maxmargin.solvers.interior_zero import shortened
from maxmargin.solvers.linear.newton.frame import with_best_offset


@dataclass(frozen=True)
class Interior:
    """``policy`` says how far the steps go, and when they end."""

    policy: InteriorPolicy = field(default=InteriorPolicy(), repr=False)

    @property
    def name(self) -> str:
        return "interior-point"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> InteriorState:
        return InteriorState(problem)

    def advance(self, problem: LinearProblem, state: InteriorState, budget: Budget) -> None:
        """Solve, or go on to the next point where a certificate was refused."""
        state.go_on(self.policy, budget.target)

    def candidate(self, problem: LinearProblem, state: InteriorState) -> tuple[Array, Array]:
        return state.candidate()


class InteriorState:
    """The points that the method has found, of which one after the other is offered."""

    stage: ClassVar[Stage] = Stage("interior-point")
    has_best_w: ClassVar[bool] = True

    def __init__(self, problem: LinearProblem) -> None:
        self.problem, self.steps, self.active = problem, 0, problem.n_samples
        self.looks_done = self.is_stuck = False
        self.points: list[tuple[Array, Array | None]] = [(problem.first_dual_point, None)]

    @property
    def has_other_points(self) -> bool:
        """Whether there are points that no certificate has seen."""
        return len(self.points) > 1

    def go_on(self, policy: InteriorPolicy, target: float) -> None:
        if self.steps == 0:
            self._solve(policy, target)
        elif len(self.points) > 1:
            self.points.pop(0)
            self.steps += 1
        self.looks_done, self.is_stuck = len(self.points) > 1, len(self.points) == 1

    def _solve(self, policy: InteriorPolicy, target: float) -> None:
        """To a small share of the target: a point inside of the box has a greater gap than the point on its border."""
        problem, n = self.problem, self.problem.n_samples
        prices = problem.offset_prices
        assert prices is not None
        M, total = problem.rows.dense().astype(np.float64), np.array([summed(prices)])
        program = Program(M, np.zeros(M.shape[1]), np.zeros(n), np.array(problem.box.U), np.ones((n, 1)), total)
        points, steps = solve_inside(program, policy.aim * target, policy)
        points = [Point(x, 0.0 * points[-1].w) for x in shortened(program, points[-1].x, policy)[:1]] + points
        self.points = [(problem.balanced(np.clip(x, 0.0, problem.box.U)), w) for x, w in points]
        self.steps = max(1, steps) * n

    def candidate(self) -> tuple[Array, Array]:
        alpha, w = self.points[0]
        w = self.problem.precise_weights(alpha) if w is None else np.append(w, 0.0)
        return with_best_offset(self.problem, w), alpha

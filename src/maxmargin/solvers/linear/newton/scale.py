"""The size of the rows and targets of a problem, and what an unbalanced alpha costs at that size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin.problem.linear import LinearProblem


@dataclass(frozen=True)
class Scale:
    problem: LinearProblem

    @cached_property
    def sqnorm(self) -> float:
        """The mean of |x_i|^2."""
        return float(np.mean(self.problem.rows.squared_norms()))

    @property
    def stiffness(self) -> float:
        """The greatest C_i times the mean of |x_i|^2."""
        return float(self.problem.C.max()) * self.sqnorm

    @cached_property
    def _target(self) -> float:
        return float(np.mean(np.abs(self.problem.box.p))) + self.problem.box.e

    def cost_of_imbalance(self, gradient: float, weight: float) -> float:
        """About what it costs the dual to make r = sum_i alpha_i y_i zero, where an intercept without penalty asks for that:
        |r| (|p| + |b|) in the linear terms, and r^2 / 2 times the mean of |x|^2 where w(alpha) moves. ``gradient`` and
        ``weight`` are those of the intercept."""
        if self.problem.penalizes_intercept:
            return 0.0
        scaling = self.problem.intercept_scaling
        excess, offset = abs(gradient) / scaling, abs(weight) * scaling
        return excess * (self._target + offset) + 0.5 * excess * excess * self.sqnorm

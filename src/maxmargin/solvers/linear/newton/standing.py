"""Where the iteration of Newton's method stands, wherever its samples are.

The samples may be in memory (``state.py``) or in partitions that are visited by passes (``maxmargin.scale_out.newton``). In
both cases they answer a point w with the same few sums. What follows from these sums is here: the gradient, the gaps, the best
w so far, when an inner problem is solved, the limits of the penalty, and when rounding hides what a step would gain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.solvers.linear.newton.hessian import Regulariser
from maxmargin.solvers.linear.newton.line_search import Parabola
from maxmargin.solvers.linear.newton.passes import Response

if TYPE_CHECKING:
    from maxmargin.solvers.linear.newton.newton import Newton

ROUNDING = 2.0**-52
"""The distance from 1.0 to the next float64: mathematics, not a setting."""


class Standing:
    """The point w, what the samples answer to it, and the best points so far. ``price`` is what a unit of the offset costs."""

    settings: Newton
    regulariser: Regulariser
    w: Array
    best_w: Array
    gradient: Array
    penalty: float
    dual: float
    anchor_dual: float
    inner_gap: float
    pair_gap: float
    primal: float
    least_primal: float
    n_free: int
    price: float = 0.0

    def take(self, response: Response) -> None:
        """Everything that is known from the answer to w."""
        w_alpha, self.n_free = response.w_alpha, response.n_free
        self.gradient = self._gradient(self.w, w_alpha)
        self.inner_gap = 0.5 * self.regulariser.conjugate(self.gradient) + self._imbalance
        self.pair_gap = response.gap_terms + self.inner_gap
        self.dual = response.linear - 0.5 * self.regulariser.conjugate(w_alpha) - self._imbalance
        self.primal = 0.5 * self.regulariser.sqnorm(self.w) + response.loss + self.price * float(self.w[-1])
        if self.primal < self.least_primal:
            self.least_primal = self.primal
            np.copyto(self.best_w, self.w)

    def _gradient(self, w: Array, w_alpha: Array) -> Array:
        gradient = self.regulariser.times(w) - w_alpha
        gradient[-1] += self.price
        return gradient

    @property
    def _imbalance(self) -> float:
        """What it costs the dual to make alpha feasible, if it is not."""
        return 0.0

    def _difference_from(self, dual: float) -> float:
        """The gap between the least primal value and a dual one, where rounding lets it be seen."""
        difference = self.least_primal - dual
        return difference if difference > self.settings.policy.trusted_difference * abs(dual) else math.inf

    def solves_inner_problem(self, acceptance: float) -> bool:
        return math.isfinite(self.penalty) and self.inner_gap <= acceptance * self._rise

    @property
    def _rise(self) -> float:
        return self.dual - self.anchor_dual

    def _limited(self, penalty: float) -> float:
        limits = self.settings.policy
        return max(limits.least_penalty, min(penalty, limits.greatest_penalty))

    def _gains_nothing(self, decrement: float) -> bool:
        """Whether what a step would lower F by is rounding. (A decrement that is not a number gains nothing either.)"""
        return not decrement > ROUNDING * self.least_primal

    def _penalty_along(self, direction: Array) -> Parabola:
        """The change of the penalty, and of the price of the offset, along a line from w."""
        linear = float(self.regulariser.times(self.w) @ direction) + self.price * float(direction[-1])
        return Parabola(linear, self.regulariser.sqnorm(direction))

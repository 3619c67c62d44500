r"""Regression with targets of size one: what a solver whose steps are measured in units of the output works on.

With :math:`t_i = c + \sigma t_i'` the answers are :math:`w = \sigma w'` and :math:`\alpha = \sigma \alpha'`, and a free offset
is :math:`b = c + \sigma b'`. A loss of the residual becomes :math:`C_i \ell(r) = \sigma^2 C_i' \ell'(r')` with a loss of its
kind, so that the primal and the dual value are both divided by :math:`\sigma^2` and relative gaps stay as they are. The size
:math:`\sigma` is a power of two: the division does not round. The targets are moved by c only where the intercept is free."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem

SMALLEST_SIZE, GREATEST_SIZE = 2.0**-200, 2.0**200
"""Targets of a size beyond these are left as they are: their squares would leave float64."""


@dataclass(frozen=True, eq=False)
class ScaledTargets:
    """A regression problem with targets of size one, and the way back."""

    original: LinearProblem
    problem: LinearProblem
    size: float
    centre: float

    @classmethod
    def of(cls, problem: LinearProblem) -> ScaledTargets:
        prices = problem.offset_prices
        is_moved = not problem.penalizes_intercept and prices is None
        centre = float(np.median(problem.y[problem.C > 0.0])) if is_moved else 0.0
        moved = problem.y - centre
        size = power_of_two(moved if prices is None else _spread_of_outputs(problem, prices))
        loss: Any = problem.loss
        scaled = loss.rescaled(size)
        costs = _times(problem.C, scaled.cost_factor)
        prices = None if prices is None else prices * scaled.cost_factor
        return cls(problem, replace(problem, y=moved / size, C=costs, loss=scaled.loss, offset_prices=prices), size, centre)

    def reduce(self, alpha: Array) -> Array:
        return alpha / self.size

    def expand(self, w: Array, alpha: Array) -> tuple[Array, Array]:
        w = w * self.size
        if not self.original.penalizes_intercept:
            w[-1] += self.centre / self.original.intercept_scaling
        box = self.original.box
        return w, np.clip(alpha * self.size, box.L, box.U)


def _spread_of_outputs(problem: LinearProblem, alpha: Array) -> Array:
    """The outputs of w(alpha), taken from their mean: the unit of a problem whose targets are all zero."""
    outputs = problem.rows.matrix @ problem.weights(alpha)[:-1]
    return np.asarray(outputs - outputs.mean())


def power_of_two(numbers: Array) -> float:
    """The power of two next to their root-mean-square; one if they are all zero or far out of range."""
    with np.errstate(over="ignore"):
        size = math.sqrt(float(numbers @ numbers) / max(1, len(numbers)))
    return 2.0 ** round(math.log2(size)) if SMALLEST_SIZE < size < GREATEST_SIZE else 1.0


def _times(C: Array, factor: float) -> Array:
    """C times a factor; one value for all samples stays one."""
    return np.broadcast_to(C[0] * factor, C.shape) if C.strides == (0,) else C * factor

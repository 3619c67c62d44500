r"""The units that a solver of kernel problems works in, and the tube of regression in signed variables.

With targets :math:`t_i = c + \sigma t_i'` and :math:`s = \sigma s'` the dual of regression becomes

.. math:: D(s) = \sigma^2 \left[ \sum_i (t_i' s_i' - \epsilon' |s_i'|) - \tfrac12 s' K s' \right],
          \qquad \epsilon' = \epsilon / \sigma,

up to :math:`c \sum_i s_i`, which is zero with an offset. So every number that tunes a solver, and was found on labels of -1 and
1, means the same for targets in any unit. :math:`\sigma` is a power of two: the way back does not round.

The term :math:`\epsilon |s|` has a kink at zero. On either side of it, in a **cell** [0, upper] or [lower, 0], the dual is that
of classification with the gradient :math:`v \mp \epsilon` in the place of v."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.kernel import KernelProblem, SignedVariables
from maxmargin.solvers.scaled_targets import power_of_two


class Units(NamedTuple):
    """``size`` and ``centre`` of the targets, and the half-width of the tube in units of that size. ``is_signed``: alpha is a
    multiple of s, and not its magnitude."""

    size: float = 1.0
    centre: float = 0.0
    epsilon: float = 0.0
    is_signed: bool = False

    def alpha_of(self, s: Array) -> Array:
        return self.size * s if self.is_signed else np.abs(s)

    def outputs_of(self, outputs: Array) -> Array:
        """The outputs of a problem in these units."""
        return outputs if self.size == 1.0 else outputs / self.size

    def offset_of(self, b: float) -> float:
        return self.centre + self.size * b


LABELS = Units()
"""The units of classification."""


class Cells(NamedTuple):
    """The side of the kink that each variable is on: the bounds there, and what the tube takes from the gradient."""

    lower: Array
    upper: Array
    shift: Array | float


def units_of(problem: KernelProblem) -> Units:
    if not problem.loss.is_regression:
        return LABELS
    present = problem.y[problem.C > 0.0]
    centre = float(np.median(present)) if problem.has_offset and len(present) else 0.0
    size = power_of_two(present - centre)
    return Units(size, centre, problem.box.e / size, is_signed=True)


def start_in_units(problem: KernelProblem, alpha: Array | None) -> tuple[SignedVariables, Units]:
    """Where a solver starts: at the nearest feasible point to alpha, or at zero."""
    signed, units = problem.signed(alpha), units_of(problem)
    if units is LABELS:
        return signed, units
    y, lower, upper, s = signed
    return SignedVariables((y - units.centre) / units.size, lower / units.size, upper / units.size, s / units.size), units


def cells_of(s: Array, error: Array, lower: Array, upper: Array, epsilon: float) -> Cells:
    """The cells by the sign of s, and at s = 0 by that of the error v - b. Without a tube there is no kink."""
    if epsilon == 0.0:
        return Cells(lower, upper, 0.0)
    is_above = (s > 0.0) | ((s == 0.0) & (error > 0.0))
    return Cells(np.where(is_above, 0.0, lower), np.where(is_above, upper, 0.0), np.where(is_above, epsilon, -epsilon))

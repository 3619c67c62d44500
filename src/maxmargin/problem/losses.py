r"""The losses of the primal, and the terms that each gives the dual.

A loss is a function of an output f and a target t, and all losses here are functions of the residual r = t - f. A problem of
two classes is **oriented**: every sample is multiplied by its label, so that its output is the margin :math:`y_i (w \cdot x_i +
b)` and its target is 1. In regression the output is :math:`w \cdot x_i + b` itself. With the conjugate of the loss the dual is

.. math:: D(\alpha) = \sum_i \left(p_i \alpha_i - e |\alpha_i| - \tfrac12 D_{ii} \alpha_i^2\right) - \tfrac12 |w(\alpha)|^2,
          \qquad L_i \le \alpha_i \le U_i .

=========================  ==========================  ============  ==========  ===========  ==========  ==========
loss                       of the residual r           L             U           D            p           e
=========================  ==========================  ============  ==========  ===========  ==========  ==========
Hinge                      max(0, r)                   0             C           0            t           0
SquaredHinge               max(0, r)^2                 0             inf         1 / (2C)     t           0
LeastSquares               r^2                         -inf          inf         1 / (2C)     t           0
Huber(h)                   see below                   0             C           2h / C       t + h       0
EpsilonInsensitive         max(0, abs(r) - epsilon)    -C            C           0            t           epsilon
SquaredEpsilonInsensitive  max(0, abs(r) - epsilon)^2  -inf          inf         1 / (2C)     t           epsilon
Quantile(q)                q r, or (q - 1) r if r < 0  -C (1 - q)    C q         0            t           0
=========================  ==========================  ============  ==========  ===========  ==========  ==========

Huber's loss (Chapelle, 2007; Guillory and Bilmes, eq. (5)) is r from r = h on, 0 up to r = -h, and (r + h)^2 / (4h) between. It
is the hinge loss with its kink rounded, and at most h / 4 above it. Epsilon-insensitive losses: C.-H. Ho and C.-J. Lin,
"Large-scale linear support vector regression", JMLR 13, 2012.

A sample with C_i = 0 is absent: its box is the point 0.

By the inequality of Fenchel and Young the **gap term** C l(r) + l*(alpha) + alpha f is never negative. Each loss computes it in
a form without cancellation. The duality gap is the sum of the gap terms plus the gap of the penalty
(:mod:`maxmargin.problem.penalties`).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import (
    UNIT_ROUNDOFF,
    DualBox,
    Loss,
    Pieces,
    Targets,
    half_inverse,
    infinite_where_present,
    quadratic_box,
    repeated,
    residual_rounding,
)

__all__ = ["UNIT_ROUNDOFF", "DualBox", "Hinge", "Huber", "LeastSquares", "Loss", "Pieces", "SquaredHinge"]


@dataclass(frozen=True)
class Hinge:
    """max(0, 1 - m): the L1-SVM."""

    is_regression: ClassVar[bool] = False
    has_ellipsoid: ClassVar[bool] = True
    is_smooth: ClassVar[bool] = False

    def value(self, output: Array, target: Targets = 1.0) -> Array:
        return np.maximum(0.0, target - output)

    def slope(self, output: Array, target: Targets = 1.0) -> Array:
        return np.where(output < target, 1.0, 0.0)

    def margin_pieces(self) -> Pieces:
        return Pieces(1.0, 1.0)

    def dual(self, C: Array, target: Targets = 1.0) -> DualBox:
        zero = repeated(0.0, len(C))
        return DualBox(zero, C, zero, repeated(target, len(C)))

    def gap_terms(self, output: Array, alpha: Array, C: Array, target: Targets = 1.0) -> Array:
        residual = target - output
        return (C - alpha) * np.maximum(0.0, residual) + alpha * np.maximum(0.0, -residual)

    def gap_sensitivity(self, output: Array, alpha: Array, C: Array, error: Array, target: Targets = 1.0) -> Array:
        residual = target - output
        kink = np.maximum(C - alpha, alpha)
        return np.where(residual > error, C - alpha, np.where(residual < -error, alpha, kink)) * error

    def held_residual(self, alpha: Array, C: Array) -> Array:
        """The residual at which the gap term of a free alpha vanishes."""
        return np.zeros(len(alpha))

    def held_slack(self, least: Array, most: Array, C: Array) -> Array:
        """How firmly an alpha between these two holds its residual: the gap term rises at least this fast on either side."""
        return np.minimum(least, C - most)

    def held_reach(self, gap: float, slack: Array) -> Array:
        """How far the residual of a held sample can be from ``held_residual`` while the gap term is at most ``gap``."""
        return gap / slack

    def held_curvature(self, least: Array, most: Array, reach: Array, C: Array) -> Array:
        """The greatest q with gap term >= q r^2 for residuals within ``reach`` of the held one."""
        return self.held_slack(least, most, C) / reach


@dataclass(frozen=True)
class SquaredHinge:
    """max(0, 1 - m)^2: the L2-SVM."""

    is_regression: ClassVar[bool] = False
    has_ellipsoid: ClassVar[bool] = True
    is_smooth: ClassVar[bool] = True

    def value(self, output: Array, target: Targets = 1.0) -> Array:
        return np.square(np.maximum(0.0, target - output))

    def slope(self, output: Array, target: Targets = 1.0) -> Array:
        return 2.0 * np.maximum(0.0, target - output)

    def steepness(self) -> float:
        """By how much the slope changes at most for a unit of the output."""
        return 2.0

    def margin_pieces(self) -> Pieces:
        return Pieces(-np.inf, 1.0, 2.0)

    def dual(self, C: Array, target: Targets = 1.0) -> DualBox:
        n = len(C)
        return DualBox(repeated(0.0, n), infinite_where_present(C), half_inverse(C), repeated(target, n))

    def gap_terms(self, output: Array, alpha: Array, C: Array, target: Targets = 1.0) -> Array:
        residual = target - output
        return C * np.square(np.maximum(0.0, residual) - alpha * half_inverse(C)) + alpha * np.maximum(0.0, -residual)

    def gap_sensitivity(self, output: Array, alpha: Array, C: Array, error: Array, target: Targets = 1.0) -> Array:
        """Where the residual r is positive whatever the error e is, the term is C (r - alpha / 2C)^2, which changes by at most
        |2 C r - alpha| e + C e^2: next to nothing at the optimum. Elsewhere its slope may also be -alpha, that of
        alpha max(0, -r). The rounding of r counts as a part of e, and a second C e^2 pays for that of the slope, which is
        at most u (2 C r + alpha) with u r <= e / 2. Where r is negative whatever e is, the term is alpha^2 / 4C - alpha r,
        which has no curvature."""
        residual = target - output
        error = error + residual_rounding(alpha, C) + 4.0 * UNIT_ROUNDOFF * (np.abs(target) + np.abs(output))
        slope = np.abs(2.0 * C * np.maximum(0.0, residual) - alpha)
        steepest = np.where(residual > 2.0 * error, slope, np.maximum(slope, alpha))
        curvature = np.where(residual < -2.0 * error, 0.0, 2.0 * C)
        return (steepest + curvature * error) * error

    def held_residual(self, alpha: Array, C: Array) -> Array:
        """See :class:`Hinge`."""
        return alpha / (2.0 * C)

    def held_slack(self, least: Array, most: Array, C: Array) -> Array:
        """See :class:`Hinge`."""
        return np.where(C > 0.0, np.abs(least), 0.0)

    def held_reach(self, gap: float, slack: Array) -> Array:
        """See :class:`Hinge`."""
        return 2.0 * gap / slack

    def held_curvature(self, least: Array, most: Array, reach: Array, C: Array) -> Array:
        """See :class:`Hinge`."""
        share = least / reach
        is_inside = reach <= least / (2.0 * C) * (1.0 - 8.0 * UNIT_ROUNDOFF)
        outwards = 1.0 + 8.0 * UNIT_ROUNDOFF
        return np.where(is_inside, C, np.maximum(0.0, share - np.square(share) / (4.0 * C) * outwards))


@dataclass(frozen=True)
class LeastSquares:
    """(1 - m)^2: regularised least squares, the same dual without bounds (Hsieh et al., section 6)."""

    is_regression: ClassVar[bool] = False
    has_ellipsoid: ClassVar[bool] = True
    is_smooth: ClassVar[bool] = True

    def value(self, output: Array, target: Targets = 1.0) -> Array:
        return np.square(target - output)

    def slope(self, output: Array, target: Targets = 1.0) -> Array:
        return 2.0 * (target - output)

    def steepness(self) -> float:
        """By how much the slope changes at most for a unit of the output."""
        return 2.0

    def margin_pieces(self) -> Pieces:
        return Pieces(-np.inf, 1.0, 2.0, is_two_sided=True)

    def dual(self, C: Array, target: Targets = 1.0) -> DualBox:
        return quadratic_box(C, target)

    def gap_terms(self, output: Array, alpha: Array, C: Array, target: Targets = 1.0) -> Array:
        return C * np.square((target - output) - alpha * half_inverse(C))

    def gap_sensitivity(self, output: Array, alpha: Array, C: Array, error: Array, target: Targets = 1.0) -> Array:
        error = error + residual_rounding(alpha, C)
        return (np.abs(2.0 * C * (target - output) - alpha) + C * error) * error

    def held_residual(self, alpha: Array, C: Array) -> Array:
        """See :class:`Hinge`."""
        return alpha / (2.0 * C)

    def held_slack(self, least: Array, most: Array, C: Array) -> Array:
        """See :class:`Hinge`."""
        return np.where(C > 0.0, np.abs(most), 0.0)

    def held_reach(self, gap: float, slack: Array) -> Array:
        """See :class:`Hinge`."""
        return 2.0 * gap / slack

    def held_curvature(self, least: Array, most: Array, reach: Array, C: Array) -> Array:
        """See :class:`Hinge`."""
        return C


@dataclass(frozen=True)
class Huber:
    """Hinge loss with its kink rounded over ``width`` to either side of 1."""

    width: float = 0.01
    is_regression: ClassVar[bool] = False
    has_ellipsoid: ClassVar[bool] = False
    is_smooth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.width, Real) and 0.0 < self.width < np.inf):
            raise ValueError(f"The width of the Huber loss must be positive and finite; got {self.width!r}.")

    def value(self, output: Array, target: Targets = 1.0) -> Array:
        residual = target - output
        rounded = np.square(np.maximum(0.0, residual + self.width)) / (4.0 * self.width)
        return np.where(residual >= self.width, residual, rounded)

    def slope(self, output: Array, target: Targets = 1.0) -> Array:
        return np.clip((target + self.width - output) / (2.0 * self.width), 0.0, 1.0)

    def steepness(self) -> float:
        """The greatest change of the slope for a unit of the output, plus one because the slope is clipped after rounding."""
        return 1.0 + 1.0 / self.width

    def margin_pieces(self) -> Pieces:
        return Pieces(1.0 - self.width, 1.0 + self.width, 0.5 / self.width)

    def dual(self, C: Array, target: Targets = 1.0) -> DualBox:
        D = 4.0 * self.width * quadratic_box(C, target).D
        return DualBox(repeated(0.0, len(C)), C, D, repeated(target + self.width, len(C)))

    def gap_terms(self, output: Array, alpha: Array, C: Array, target: Targets = 1.0) -> Array:
        """On the three pieces, with u = alpha / C and the slope s of the middle one: C (1 - u) (r - h + h (1 - u)),
        C h (s - u)^2 and C u (-r - h + h u)."""
        h, u = self.width, _share(alpha, C)
        residual = target - output
        left = (1.0 - u) * ((residual - h) + h * (1.0 - u))
        right = u * ((-residual - h) + h * u)
        middle = h * np.square((residual + h) / (2.0 * h) - u)
        return C * np.where(residual >= h, left, np.where(residual <= -h, right, middle))

    def gap_sensitivity(self, output: Array, alpha: Array, C: Array, error: Array, target: Targets = 1.0) -> Array:
        """The derivative by the output is C (u - s), and s changes by at most error / (2h)."""
        error = error + 16.0 * UNIT_ROUNDOFF * (np.abs(target) + self.width)
        change = np.minimum(error / (2.0 * self.width), 1.0)
        return C * (np.abs(_share(alpha, C) - self.slope(output, target)) + change) * error


def _share(alpha: Array, C: Array) -> Array:
    return np.divide(alpha, C, out=np.zeros(alpha.shape), where=C > 0.0)

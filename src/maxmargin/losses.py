r"""The losses of the primal, and the box and diagonal that each gives the dual.

Every loss :math:`\ell(m)` of the margin m here leads to the dual of Hsieh et al. (ICML 2008), eq. (4), written
as a maximum and with a C of its own for every sample:

.. math:: D(\alpha) = \sum_i \left(a \, \alpha_i - \tfrac12 D_{ii} \alpha_i^2\right) - \tfrac12 |w(\alpha)|^2,
          \qquad L_i \le \alpha_i \le U_i, \qquad w(\alpha) = \sum_i \alpha_i y_i x_i .

==============  ======================  =======  =======  =================  =======
loss            :math:`\ell(m)`         L        U        D                  a
==============  ======================  =======  =======  =================  =======
Hinge           max(0, 1 - m)           0        C        0                  1
SquaredHinge    max(0, 1 - m)^2         0        inf      1 / (2C)           1
LeastSquares    (1 - m)^2               -inf     inf      1 / (2C)           1
Huber(h)        see below               0        C        2h / C             1 + h
==============  ======================  =======  =======  =================  =======

Huber's (Chapelle, 2007; Guillory and Bilmes, eq. (5)) is 1 - m up to 1 - h, 0 from 1 + h on, and (1 + h - m)^2 / (4h)
between: hinge loss with its kink rounded, at most h / 4 above it.

A sample with C_i = 0 is absent: its box is the point 0.

By Fenchel and Young the **gap term** ``C l(m) + l*(alpha) + alpha m`` is never negative; each is given
in a form that does not cancel, and the duality gap is their sum plus ``1/2 |w - w(alpha)|^2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple, Protocol

import numpy as np

from maxmargin.data import Array

UNIT_ROUNDOFF = 2.0**-53


class DualBox(NamedTuple):
    """The arrays of the dual: lower and upper bounds and the added diagonal, one value a sample; and ``a``, by which
    alpha_i is multiplied in D(alpha)."""

    L: Array
    U: Array
    D: Array
    a: float = 1.0

    def terms(self, alpha: Array) -> Array:
        """a alpha_i - D_ii alpha_i^2 / 2"""
        return self.a * alpha - 0.5 * self.D * np.square(alpha)


class Loss(Protocol):
    def value(self, margin: Array) -> Array:
        """The loss at a margin, without C."""

    def dual(self, C: Array) -> DualBox:
        """L, U and D of the dual problem."""

    def gap_terms(self, margin: Array, alpha: Array, C: Array) -> Array:
        """C l(m) + l*(alpha) + alpha m for each sample: zero at the optimum, never negative."""

    def gap_sensitivity(self, margin: Array, alpha: Array, C: Array, error: Array) -> Array:
        """How wrong a gap term can be when its margin is wrong by ``error``, beyond a few units of its own last place."""


@dataclass(frozen=True)
class Hinge:
    """max(0, 1 - m): the L1-SVM."""

    def value(self, margin: Array) -> Array:
        return np.maximum(0.0, 1.0 - margin)

    def dual(self, C: Array) -> DualBox:
        zero = np.broadcast_to(0.0, C.shape)
        return DualBox(zero, C, zero)

    def gap_terms(self, margin: Array, alpha: Array, C: Array) -> Array:
        slack = 1.0 - margin
        return (C - alpha) * np.maximum(0.0, slack) + alpha * np.maximum(0.0, -slack)

    def gap_sensitivity(self, margin: Array, alpha: Array, C: Array, error: Array) -> Array:
        slack = 1.0 - margin
        kink = np.maximum(C - alpha, alpha)
        return np.where(slack > error, C - alpha, np.where(slack < -error, alpha, kink)) * error


@dataclass(frozen=True)
class SquaredHinge:
    """max(0, 1 - m)^2: the L2-SVM."""

    def value(self, margin: Array) -> Array:
        return np.square(np.maximum(0.0, 1.0 - margin))

    def dual(self, C: Array) -> DualBox:
        box = _quadratic_box(C)
        return DualBox(np.broadcast_to(0.0, C.shape), box.U, box.D)

    def gap_terms(self, margin: Array, alpha: Array, C: Array) -> Array:
        slack = 1.0 - margin
        residual = np.maximum(0.0, slack) - alpha * _diagonal(C)
        return C * np.square(residual) + alpha * np.maximum(0.0, -slack)

    def gap_sensitivity(self, margin: Array, alpha: Array, C: Array, error: Array) -> Array:
        error = error + _residual_rounding(alpha, C)
        slope = np.abs(2.0 * C * np.maximum(0.0, 1.0 - margin) - alpha)
        return (np.maximum(slope, alpha) + C * error) * error


@dataclass(frozen=True)
class LeastSquares:
    """(1 - m)^2: regularised least squares, the same dual without bounds (Hsieh et al., section 6)."""

    def value(self, margin: Array) -> Array:
        return np.square(1.0 - margin)

    def dual(self, C: Array) -> DualBox:
        return _quadratic_box(C)

    def gap_terms(self, margin: Array, alpha: Array, C: Array) -> Array:
        return C * np.square((1.0 - margin) - alpha * _diagonal(C))

    def gap_sensitivity(self, margin: Array, alpha: Array, C: Array, error: Array) -> Array:
        error = error + _residual_rounding(alpha, C)
        return (np.abs(2.0 * C * (1.0 - margin) - alpha) + C * error) * error


@dataclass(frozen=True)
class Huber:
    """Hinge loss with its kink rounded over ``width`` to either side of 1."""

    width: float = 0.01

    def __post_init__(self) -> None:
        if not (isinstance(self.width, Real) and 0.0 < self.width < np.inf):
            raise ValueError(f"The width of the Huber loss must be positive and finite; got {self.width!r}.")

    def value(self, margin: Array) -> Array:
        slack = 1.0 + self.width - margin
        return np.where(slack >= 2.0 * self.width, 1.0 - margin, np.square(np.maximum(0.0, slack)) / (4.0 * self.width))

    def dual(self, C: Array) -> DualBox:
        D = np.broadcast_to(4.0 * self.width * _diagonal(C), C.shape)
        return DualBox(np.broadcast_to(0.0, C.shape), C, D, 1.0 + self.width)

    def gap_terms(self, margin: Array, alpha: Array, C: Array) -> Array:
        """On the three pieces, with u = alpha / C and the slope s of the middle one: C (1 - u) (1 - h - m + h (1 - u)),
        C h (s - u)^2 and C u (m - 1 - h + h u)."""
        h, u = self.width, _share(alpha, C)
        slack = 1.0 - margin
        left = (1.0 - u) * ((slack - h) + h * (1.0 - u))
        right = u * ((-slack - h) + h * u)
        middle = h * np.square((slack + h) / (2.0 * h) - u)
        return C * np.where(slack >= h, left, np.where(slack <= -h, right, middle))

    def gap_sensitivity(self, margin: Array, alpha: Array, C: Array, error: Array) -> Array:
        """The derivative by the margin is C (u - s), and s changes by at most error / (2h)."""
        error = error + 16.0 * UNIT_ROUNDOFF * (1.0 + self.width)
        slope = np.clip((1.0 + self.width - margin) / (2.0 * self.width), 0.0, 1.0)
        change = np.minimum(error / (2.0 * self.width), 1.0)
        return C * (np.abs(_share(alpha, C) - slope) + change) * error


def _share(alpha: Array, C: Array) -> Array:
    return np.divide(alpha, C, out=np.zeros(alpha.shape), where=C > 0.0)


def _quadratic_box(C: Array) -> DualBox:
    """The box and diagonal of a loss that grows quadratically on both sides; absent samples get the box [0, 0]."""
    U = np.where(_distinct(C) > 0.0, np.inf, 0.0)
    L, U, D = (np.broadcast_to(array, C.shape) for array in (-U, U, _diagonal(C)))
    return DualBox(L, U, D)


def _diagonal(C: Array) -> Array:
    """1 / (2C), and zero for absent samples: one value where there is one C for all."""
    values = _distinct(C)
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(values > 0.0, 0.5 / values, 0.0)


def _distinct(C: Array) -> Array:
    return C[:1] if C.strides == (0,) else C


def _residual_rounding(alpha: Array, C: Array) -> Array:
    """The rounding in ``1 - m - alpha D`` that is not the margin's: of D, of the product and of the subtraction."""
    return 4.0 * UNIT_ROUNDOFF * np.abs(alpha * _diagonal(C))

r"""The losses of regression, functions of the residual r = t - f: :mod:`maxmargin.problem.losses` has the table.

Gap terms: with a = |alpha| and s the residual in the direction of alpha (its size where alpha is 0), see each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.data.real import is_real
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import (
    UNIT_ROUNDOFF,
    DualBox,
    Kinks,
    ResidualPieces,
    Targets,
    half_inverse,
    one_or_all,
    quadratic_box,
    repeated,
    residual_rounding,
)


class Rescaled(NamedTuple):
    """A loss of residuals in another unit: C l(size r) = size^2 (cost_factor C) loss(r)."""

    loss: Any
    cost_factor: float


@dataclass(frozen=True)
class EpsilonInsensitive:
    """max(0, |r| - epsilon): support vector regression with L1 loss."""

    epsilon: float = 0.0
    is_regression: ClassVar[bool] = True
    has_ellipsoid: ClassVar[bool] = False
    is_smooth: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    def value(self, output: Array, target: Targets = 1.0) -> Array:
        return np.maximum(0.0, np.abs(target - output) - self.epsilon)

    def slope(self, output: Array, target: Targets = 1.0) -> Array:
        residual = target - output
        return np.sign(residual) * (np.abs(residual) > self.epsilon)

    def dual(self, C: Array, target: Targets = 1.0) -> DualBox:
        n = len(C)
        lower = repeated(-float(C[0]), n) if C.strides == (0,) else -C
        return DualBox(lower, C, repeated(0.0, n), repeated(target, n), self.epsilon)

    def gap_terms(self, output: Array, alpha: Array, C: Array, target: Targets = 1.0) -> Array:
        """With a = |alpha| and s the residual in the direction of alpha (of 0, its own): (C - a) (s - e)_+ + a (e - s)_+
        + C (-s - e)_+."""
        size, along = np.abs(alpha), _along(target - output, alpha)
        above, below, other = along - self.epsilon, self.epsilon - along, -along - self.epsilon
        return (C - size) * np.maximum(0.0, above) + size * np.maximum(0.0, below) + C * np.maximum(0.0, other)

    def gap_sensitivity(self, output: Array, alpha: Array, C: Array, error: Array, target: Targets = 1.0) -> Array:
        """The steepest slope of a gap term by the residual: C - a above the tube, a inside, C + a below it."""
        size, along = np.abs(alpha), _along(target - output, alpha)
        error = error + 2.0 * UNIT_ROUNDOFF * (self.epsilon + np.abs(along))
        above = np.where(along > self.epsilon - error, C - size, 0.0)
        inside = np.where((along < self.epsilon + error) & (along > -self.epsilon - error), size, 0.0)
        below = np.where(along < -self.epsilon + error, C + size, 0.0)
        return np.maximum(np.maximum(above, inside), below) * error

    def residual_pieces(self) -> ResidualPieces:
        return ResidualPieces(self.epsilon, 1.0, 1.0)

    def rescaled(self, size: float) -> Rescaled:
        return Rescaled(EpsilonInsensitive(self.epsilon / size), 1.0 / size)

    def kinks(self, output: Array, C: Array, target: Array) -> Kinks:
        """Two kinks for each sample: at t - f - epsilon, where the loss stops falling, and at t - f + epsilon, where it begins
        to rise."""
        residual = target - output
        offsets = np.concatenate([residual - self.epsilon, residual + self.epsilon])
        return Kinks(offsets, np.concatenate([C, C]), float(C.sum()))

    def held_residual(self, alpha: Array, C: Array) -> Array:
        """The residual at which the gap term of a free alpha vanishes: an edge of the tube."""
        return np.sign(alpha) * self.epsilon

    def held_slack(self, least: Array, most: Array, C: Array) -> Array:
        """How firmly an alpha between these two, which have one sign, holds its residual: the gap term rises at least this
        fast on either side."""
        farthest = np.maximum(np.abs(least), np.abs(most))
        return np.minimum(C - farthest, np.minimum(np.abs(least), np.abs(most)) if self.epsilon > 0.0 else C + farthest)


@dataclass(frozen=True)
class SquaredEpsilonInsensitive:
    """max(0, |r| - epsilon)^2: support vector regression with L2 loss."""

    epsilon: float = 0.0
    is_regression: ClassVar[bool] = True
    has_ellipsoid: ClassVar[bool] = False
    is_smooth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    def value(self, output: Array, target: Targets = 1.0) -> Array:
        return np.square(np.maximum(0.0, np.abs(target - output) - self.epsilon))

    def slope(self, output: Array, target: Targets = 1.0) -> Array:
        residual = target - output
        return 2.0 * np.sign(residual) * np.maximum(0.0, np.abs(residual) - self.epsilon)

    def residual_pieces(self) -> ResidualPieces:
        return ResidualPieces(self.epsilon, 1.0, 1.0, is_squared=True)

    def rescaled(self, size: float) -> Rescaled:
        return Rescaled(SquaredEpsilonInsensitive(self.epsilon / size), 1.0)

    def steepness(self) -> float:
        """By how much the slope changes at most for a unit of the output."""
        return 2.0

    def dual(self, C: Array, target: Targets = 1.0) -> DualBox:
        return quadratic_box(C, target)._replace(e=self.epsilon)

    def gap_terms(self, output: Array, alpha: Array, C: Array, target: Targets = 1.0) -> Array:
        """With a and s as for the loss that is not squared: C ((s - e)_+ - a / 2C)^2 + a (e - s)_+ + C (-s - e)_+^2."""
        size, along = np.abs(alpha), _along(target - output, alpha)
        above, below, other = along - self.epsilon, self.epsilon - along, -along - self.epsilon
        held = C * np.square(np.maximum(0.0, above) - size * half_inverse(C))
        return held + size * np.maximum(0.0, below) + C * np.square(np.maximum(0.0, other))

    def gap_sensitivity(self, output: Array, alpha: Array, C: Array, error: Array, target: Targets = 1.0) -> Array:
        """The slope of a gap term is |2C (|r| - e)_+ - a| above the tube, a inside, and 2C (|r| - e)_+ + a below it."""
        size, along = np.abs(alpha), _along(target - output, alpha)
        error = error + residual_rounding(alpha, C) + 2.0 * UNIT_ROUNDOFF * (self.epsilon + np.abs(along))
        above = np.abs(2.0 * C * np.maximum(0.0, along - self.epsilon) - size)
        below = 2.0 * C * np.maximum(0.0, -along - self.epsilon)
        bend = np.where(np.abs(along) > self.epsilon - error, C * error, 0.0)  # none where the residual is surely inside
        return (np.maximum(above, size) + below + bend) * error


@dataclass(frozen=True)
class Quantile:
    """q r for r > 0 and (1 - q) |r| below: the quantile (pinball) loss, whose free intercept is a q-quantile of the
    residuals."""

    q: float = 0.5
    is_regression: ClassVar[bool] = True
    has_ellipsoid: ClassVar[bool] = False
    is_smooth: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (isinstance(self.q, Real) and 0.0 < self.q < 1.0):
            raise ValueError(f"The quantile must be greater than 0 and less than 1; got {self.q!r}.")

    def value(self, output: Array, target: Targets = 1.0) -> Array:
        residual = target - output
        return self.q * np.maximum(0.0, residual) + (1.0 - self.q) * np.maximum(0.0, -residual)

    def slope(self, output: Array, target: Targets = 1.0) -> Array:
        return np.where(output < target, self.q, self.q - 1.0)

    def dual(self, C: Array, target: Targets = 1.0) -> DualBox:
        values = one_or_all(C)
        L, U, D, p = (np.broadcast_to(a, C.shape) for a in (-values * (1.0 - self.q), values * self.q, 0.0, target))
        return DualBox(L, U, D, p)

    def gap_terms(self, output: Array, alpha: Array, C: Array, target: Targets = 1.0) -> Array:
        residual = target - output
        up, down = C * self.q - alpha, C * (1.0 - self.q) + alpha
        return np.maximum(0.0, up) * np.maximum(0.0, residual) + np.maximum(0.0, down) * np.maximum(0.0, -residual)

    def gap_sensitivity(self, output: Array, alpha: Array, C: Array, error: Array, target: Targets = 1.0) -> Array:
        """The two slopes are rounded themselves: each by a few units in the last place of C, times the residual."""
        residual = target - output
        up, down = C * self.q - alpha, C * (1.0 - self.q) + alpha
        slope = np.where(residual > error, up, np.where(residual < -error, down, np.maximum(up, down)))
        return np.maximum(0.0, slope) * error + 4.0 * UNIT_ROUNDOFF * (C + np.abs(alpha)) * (np.abs(residual) + error)

    def residual_pieces(self) -> ResidualPieces:
        return ResidualPieces(0.0, self.q, 1.0 - self.q)

    def rescaled(self, size: float) -> Rescaled:
        return Rescaled(self, 1.0 / size)

    def kinks(self, output: Array, C: Array, target: Array) -> Kinks:
        """One a sample, at t - f."""
        return Kinks(target - output, C, self.q * float(C.sum()))

    def held_residual(self, alpha: Array, C: Array) -> Array:
        """The residual at which the gap term of a free alpha vanishes."""
        return np.zeros(len(alpha))

    def held_slack(self, least: Array, most: Array, C: Array) -> Array:
        """How firmly an alpha between these two holds its residual."""
        return np.minimum(self.q * C - most, least + (1.0 - self.q) * C)


def _check_epsilon(epsilon: Any) -> None:
    if not (is_real(epsilon) and 0.0 <= float(epsilon) < np.inf):
        raise ValueError(f"epsilon must be finite and not negative; got {epsilon!r}.")


def _along(residual: Array, alpha: Array) -> Array:
    """The residual in the direction of alpha; its size where alpha is 0."""
    return np.where(alpha > 0.0, residual, np.where(alpha < 0.0, -residual, np.abs(residual)))

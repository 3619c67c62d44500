r"""Scores of a regression that a race over C can bound: R^2, the mean squared and the mean absolute error.

Each is a constant minus a weighted sum of :math:`|r_i|^p` over the validation samples of all folds, with the residuals r and p
= 2 or 1. R^2 divides the squared error of a fold by the sum of squares of its targets around their mean.

**Between two knots** a prediction is in an interval whose centre moves along a line, and whose reach is the same on a whole
part (:class:`Enclosed`). Its distance from the target is at least

.. math:: d_i(\theta) = \max(0, \; r_i(\theta) - \rho_i, \; -r_i(\theta) - \rho_i) ,

a maximum of lines, and with several such intervals the maximum over all of them. So :math:`h = \sum_i w_i d_i^p` is a convex
function of the position. It is nowhere below its tangents at the two ends of the part, and where these two lines meet is a
bound for the whole part, not for some points of it.

**Regret.** R^2 has no unit: its regret is a difference. That of an error is a share of the error of the best C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.rounding import PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.rows import Array
from maxmargin.model_selection.range_scores import ROUNDING, Bounds, with_article
from maxmargin.problem.dual_box import UNIT_ROUNDOFF


@dataclass(frozen=True)
class RangeError:
    """A score by the name of its error, and by the power of the residuals."""

    name: str
    power: int
    is_relative: bool = False
    """Whether it is R^2: one minus the error, as a share of that of the mean."""

    @property
    def greatest(self) -> float:
        return 1.0 if self.is_relative else 0.0

    @property
    def rounding(self) -> float:
        """Sums of errors come with their own rounding."""
        return ROUNDING if self.is_relative else 0.0

    def enough(self, floor: float, regret: float) -> float:
        """The ceiling that proves a regret."""
        return floor + regret if self.is_relative else floor * (1.0 - regret)

    def regret(self, ceiling: float, floor: float) -> float:
        if self.is_relative:
            return ceiling - floor
        return (ceiling - floor) / -floor if floor < 0.0 else 0.0

    def stated(self, low: float, high: float) -> str:
        low, high = (low, high) if self.is_relative else (-high, -low)
        return f"Cross-validated {self.name} {{}} is proved to be between {low:.6g} and {high:.6g}."

    def denied(self, ceiling: float) -> str:
        if self.is_relative:
            return f"has {with_article(self.name)} above {ceiling:.6g}"
        return f"has {with_article(self.name)} below {-ceiling:.6g}"


R2 = RangeError("R^2", 2, is_relative=True)
SQUARED_ERROR = RangeError("mean squared error", 2)
ABSOLUTE_ERROR = RangeError("mean absolute error", 1)


@dataclass(eq=False)
class Residuals:
    """The validation samples of one fold, with weights by which the sum of errors is that of the score."""

    y: Array
    weights: Array
    score: RangeError

    @classmethod
    def of(cls, y: Array, score: RangeError, sample_weight: Array | None = None) -> Residuals:
        y = np.asarray(y, dtype=np.float64)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        total = float(weights.sum())
        if score.is_relative:
            total = float(weights @ np.square(y - np.average(y, weights=weights)))
        if not total > 0.0:
            raise ValueError(
                "A proof of R^2 over a range needs targets that differ in every fold; take scoring='neg_mean_squared_error'."
            )
        return cls(y, weights / total, score)

    @cached_property
    def signs(self) -> Array:
        """What outputs are multiplied by."""
        return np.ones(len(self.y))

    @property
    def of_empty_rows(self) -> Array:
        """The predictions for rows without features."""
        return np.zeros(len(self.y))

    def value(self, sizes: Array) -> float:
        """The score of residuals with these magnitudes."""
        return self.score.greatest - float(np.sum(self.weights * sizes**self.score.power))

    def bounds(self, predictions: Array, reach: Array) -> Bounds:
        """The score, if every prediction is within ``reach`` of the given one."""
        sizes = np.abs(self.y - predictions)
        moved = reach + 2.0 * UNIT_ROUNDOFF * (np.abs(self.y) + np.abs(predictions))
        low, high = self.value(sizes + moved), self.value(np.maximum(0.0, sizes - moved))
        room = 2.0 * gamma(PAIRWISE_ROUNDINGS + 16.0)
        ends = low - room * (self.score.greatest - low), high + room * (self.score.greatest - high)
        return Bounds(*ends, self.value(sizes))


class Enclosed(NamedTuple):
    """Intervals that hold the predictions of one fold on each part of an interval of C, a row for each part: the centres at the
    first and the last end of the part, between which they move along lines, and the reach around them."""

    first: Array
    last: Array
    reach: Array


class Lines(NamedTuple):
    """The residuals of all samples at the first and the last end of each part, between which they move along lines, and by how
    much the exact ones can differ."""

    first: Array
    last: Array
    reach: Array

    @classmethod
    def of(cls, y: Array, enclosed: Sequence[Enclosed]) -> Lines:
        """``enclosed`` are the intervals of each fold by one proof."""
        first, last, reach = (np.concatenate(each, axis=1) for each in zip(*enclosed, strict=True))
        rounding = 8.0 * UNIT_ROUNDOFF * (np.abs(y) + np.abs(first) + np.abs(last))
        return cls(y - first, y - last, reach + rounding)


@dataclass(frozen=True, eq=False)
class Pooled:
    """The validation samples of all folds: their weights, and their residuals by one proof or several."""

    weights: Array
    lines: list[Lines]
    power: int

    @classmethod
    def of(cls, folds: Sequence[Residuals], enclosed: Sequence[Enclosed]) -> Pooled:
        y, weights = (np.concatenate([getattr(fold, name) for fold in folds]) for name in ("y", "weights"))
        return cls(weights / len(folds), [Lines.of(y, enclosed)], folds[0].score.power)

    def also(self, other: Pooled) -> Pooled:
        """With the proofs of both."""
        return replace(self, lines=[*self.lines, *other.lines])

    def least_error(self, factor: float = 1.0) -> float:
        """A lower bound on the mean error of the folds at every position, were the reaches multiplied by this factor."""
        return float(_least(self._at(factor, "first"), self._at(factor, "last")).min())

    def _at(self, factor: float, end: str) -> Tangents:
        """The tangents at the first or the last end of each part. Of several proofs the one counts that is farthest from the
        target."""
        distance, slope = self._distances(self.lines[0], factor, end)
        for other in self.lines[1:]:
            farther, other_slope = self._distances(other, factor, end)
            slope = np.where(farther > distance, other_slope, slope)
            distance = np.maximum(distance, farther)
        distance = np.maximum(0.0, distance)
        if self.power == 1:
            return Tangents.of(distance * self.weights, np.where(distance > 0.0, slope, 0.0) * self.weights)
        weighted = distance * self.weights
        return Tangents.of(weighted * distance, 2.0 * weighted * slope)

    def _distances(self, lines: Lines, factor: float, end: str) -> tuple[Array, Array]:
        """How far the targets are from their intervals, and how that changes over the part."""
        here = getattr(lines, end)
        return np.abs(here) - factor * lines.reach, np.copysign(lines.last - lines.first, here * (lines.last - lines.first))


class Tangents(NamedTuple):
    """A convex function at one end of each part: its value, its slope by the position in the part, and their rounding."""

    value: Array
    slope: Array
    error: Array

    @classmethod
    def of(cls, values: Array, slopes: Array) -> Tangents:
        sizes = values.sum(axis=1) + np.abs(slopes).sum(axis=1)
        return cls(values.sum(axis=1), slopes.sum(axis=1), gamma(PAIRWISE_ROUNDINGS + 64.0) * sizes)


def _least(first: Tangents, last: Tangents) -> Array:
    """The least height of the greater tangent between the ends of each part, rounded downwards."""
    falls, rises = first.slope < 0.0, last.slope > 0.0
    with np.errstate(all="ignore"):
        meeting = (last.value - last.slope - first.value) / (first.slope - last.slope)
    position = np.where(falls & rises, np.clip(np.nan_to_num(meeting), 0.0, 1.0), np.where(falls, 1.0, 0.0))
    heights = first.value + position * first.slope, last.value + (position - 1.0) * last.slope
    least = np.where(falls & rises, np.minimum(*heights), np.maximum(*heights))
    return np.asarray(least - 2.0 * (first.error + last.error))

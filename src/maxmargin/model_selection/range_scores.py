r"""Scores that a race over C can bound, because they depend on the weights of the samples with a right label alone.

Let p and n be the weights of the validation samples of a fold in the positive and the negative class whose label is right, and
P and N those of all. Accuracy and balanced accuracy are (p + n) / (P + N), where balanced accuracy gives every class the same
weight. F1 is

.. math:: \frac{2 p}{2 p + (P - p) + (N - n)} .

None falls when a wrong label is made right. So the samples that are not proved wrong give an upper bound, and those that are
proved right a lower one. The score of all folds is the mean of theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.model_selection.positions import Open

ROUNDING = 2e-12
"""Scores are sums of shares, and are wrong by less than this."""


class Bounds(NamedTuple):
    """The least and the greatest score of a fold's exact optimum, and that of the fit."""

    low: float
    high: float
    value: float


class Totals(NamedTuple):
    """The weights of the validation samples of one fold, by class."""

    positive: float
    negative: float


def _share(positive: Array, negative: Array, totals: Totals) -> Array:
    return np.asarray((positive + negative) / (totals.positive + totals.negative))


def _f1(positive: Array, negative: Array, totals: Totals) -> Array:
    """0 where no positive sample has a right label, as in scikit-learn."""
    positive = np.maximum(positive, 0.0)
    all_errors = totals.positive + totals.negative - negative
    with np.errstate(all="ignore"):
        return np.where(positive > 0.0, 2.0 * positive / np.maximum(positive + all_errors, 2.0 * positive), 0.0)


def _equal(y: Array, weights: Array) -> Array:
    return weights


def _equal_classes(y: Array, weights: Array) -> Array:
    """A class that the fold does not have does not count."""
    codes = (y > 0).astype(np.intp)
    return np.asarray(weights / np.bincount(codes, weights, 2)[codes])


@dataclass(frozen=True)
class RangeScore:
    """A score by its name in a sentence, what a sample weighs in it, and its value."""

    name: str
    weights: Callable[[Array, Array], Array]
    value: Callable[[Array, Array, Totals], Array]
    greatest: ClassVar[float] = 1.0
    rounding: ClassVar[float] = ROUNDING

    def enough(self, floor: float, regret: float) -> float:
        """The ceiling that proves a regret."""
        return floor + regret

    def regret(self, ceiling: float, floor: float) -> float:
        return ceiling - floor

    def stated(self, low: float, high: float) -> str:
        return f"Cross-validated {self.name} {{}} is proved to be between {low:.4f} and {high:.4f}."

    def denied(self, ceiling: float) -> str:
        return f"has {with_article(self.name)} above {ceiling:.4f}"


def with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouFR' else 'a'} {name}"


ACCURACY = RangeScore("accuracy", _equal, _share)
BALANCED_ACCURACY = RangeScore("balanced accuracy", _equal_classes, _share)
F1 = RangeScore("F1", _equal, _f1)


@dataclass(eq=False)
class Counts:
    """The validation samples of one fold: y is +1 or -1."""

    y: Array
    weights: Array
    score: RangeScore

    @property
    def signs(self) -> Array:
        """What outputs are multiplied by."""
        return self.y

    @property
    def of_empty_rows(self) -> Array:
        """The scores of rows without features: the label of the output zero is that of the negative class."""
        return -self.y

    def bounds(self, margins: Array, reach: Array) -> Bounds:
        """The score, if every margin is within ``reach`` of the given one."""
        return Bounds(*(float(self.value(each)) for each in (margins > reach, margins >= -reach, margins > 0.0)))

    @classmethod
    def of(cls, y: Array, score: RangeScore, sample_weight: Array | None = None) -> Counts:
        given = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return cls(y, score.weights(y, given), score)

    @cached_property
    def totals(self) -> Totals:
        return Totals(float(self.weights[self.y > 0].sum()), float(self.weights[self.y < 0].sum()))

    def value(self, is_counted: Array) -> Array:
        """The score if these samples have right labels and no others. One mask, or one in each row."""
        own = is_counted * self.weights
        return self.score.value(own @ (self.y > 0), own @ (self.y < 0), self.totals)

    def steps(self, samples: Array, opens: Open) -> Steps:
        """The score at every position if samples count where they are open. Those that are not named count everywhere."""
        there, others = opens.low <= opens.high, self._others(samples)
        chosen, low, high = samples[there], opens.low[there], opens.high[there]
        places = Places(np.concatenate([low, high]), np.repeat([False, True], len(chosen)))
        order, weights = places.order, self.weights[chosen]
        changes, is_positive = np.concatenate([weights, -weights])[order], np.tile(self.y[chosen] > 0, 2)[order]
        positive = others.positive + np.cumsum(np.where(is_positive, changes, 0.0))
        negative = others.negative + np.cumsum(np.where(is_positive, 0.0, changes))
        first = float(self.score.value(np.asarray(others.positive), np.asarray(others.negative), self.totals))
        values = self.score.value(positive, negative, self.totals)
        return Steps(places.taken(order), first, values - np.concatenate([[first], values[:-1]]))

    def _others(self, samples: Array) -> Totals:
        """The weights of all samples but these."""
        weights, is_positive = self.weights[samples], self.y[samples] > 0
        named = float(weights[is_positive].sum()), float(weights[~is_positive].sum())
        return Totals(self.totals.positive - named[0], self.totals.negative - named[1])


class Places(NamedTuple):
    """Positions between two knots at which an open interval begins or ends. Both ends belong to an interval: at equal positions
    those that begin come before those that end."""

    positions: Array
    is_end: Array

    @property
    def order(self) -> Array:
        return np.lexsort((self.is_end, self.positions))

    def taken(self, order: Array) -> Places:
        return Places(self.positions[order], self.is_end[order])


class Steps(NamedTuple):
    """A score before the first of some places, and by how much it changes at each."""

    places: Places
    first: float
    changes: Array


def greatest_mean(steps: Sequence[Steps]) -> float:
    """The greatest value over all positions of the mean over folds."""
    order = Places(*(np.concatenate(each) for each in zip(*(one.places for one in steps), strict=True))).order
    changes = np.concatenate([one.changes for one in steps])[order]
    return float((sum(one.first for one in steps) + np.cumsum(np.concatenate([[0.0], changes])).max()) / len(steps))

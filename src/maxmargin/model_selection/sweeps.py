"""The greatest score between two knots, swept over the whole interval: of labels by counting, of a regression by its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxmargin.model_selection import policy
from maxmargin.model_selection.positions import Open
from maxmargin.model_selection.race_fold import Parts, RaceFold
from maxmargin.model_selection.range_errors import Pooled
from maxmargin.model_selection.range_scores import greatest_mean

Crew = Callable[[Callable[[RaceFold], Any], Sequence[RaceFold]], list[Any]]
"""Does a piece of work for each fold."""


class Swept(NamedTuple):
    """No C has a score above ``ceiling``, and into how many pieces the interval is to be divided if that is not enough."""

    ceiling: float
    pieces: int


@dataclass(frozen=True, eq=False)
class Interval:
    """Two knots; ``enough`` is the ceiling that is asked for."""

    low: float
    high: float
    enough: float
    is_inverse: bool
    """Whether positions are in 1/C, which all folds have to agree on."""


@dataclass(frozen=True, eq=False)
class LabelSweep:
    """Two classes: a sample counts at every position at which its label is not proved wrong."""

    folds: list[RaceFold]
    policy: Any
    crew: Crew

    def __call__(self, between: Interval) -> Swept:
        """The sharper proof is tried where the ball is not enough."""
        low, high, n_parts, is_inverse = between.low, between.high, self.policy.parts, between.is_inverse
        parts = self.crew(lambda fold: fold.parts(low, high, -1.0, n_parts, is_inverse), self.folds)
        found = self._greatest(parts)
        if found > between.enough + self.folds[0].counts.score.rounding:
            known = dict(zip(map(id, self.folds), parts, strict=True))
            parts = self.crew(lambda fold: fold.sharpen(known[id(fold)]), self.folds)
            found = self._greatest(parts)
        return Swept(found, self._pieces(found, parts, between.enough))

    def _pieces(self, found: float, parts: list[Parts], enough: float) -> int:
        """The least number of pieces for which the bound would be good enough, if what it takes from the scores falls like the
        square of their length."""
        enough += self.folds[0].counts.score.rounding
        if found <= enough or not all(len(part.losses) for part in parts):
            return 2
        for pieces in range(2, self.policy.most_pieces):
            factor = pieces**-self.policy.power
            scores = [
                fold.counts.value(part.would_be_open(factor, len(fold.counts.y)))
                for fold, part in zip(self.folds, parts, strict=True)
            ]
            if float(np.mean(np.stack(scores), axis=0).max()) <= enough:
                return pieces
        return int(self.policy.most_pieces)

    def _greatest(self, parts: list[Parts]) -> float:
        return max(self._greatest_on(parts, opens) for opens in zip(*(part.opens for part in parts), strict=True))

    def _greatest_on(self, parts: list[Parts], opens: tuple[Open, ...]) -> float:
        """On one part of an interval."""
        triples = zip(self.folds, parts, opens, strict=True)
        return greatest_mean([fold.counts.steps(part.samples, own) for fold, part, own in triples])  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class ErrorSweep:
    """A regression: the errors of all folds are a convex function of the position (:mod:`range_errors`)."""

    folds: list[RaceFold]
    policy: Any
    crew: Crew

    def __call__(self, between: Interval) -> Swept:
        """The sharper proof is tried where the first one is not enough, and both count."""
        arguments = between.low, between.high, self._n_parts, between.is_inverse
        pooled = self._pooled(self.crew(lambda fold: fold.enclosed(*arguments), self.folds))
        found = self._ceiling(pooled)
        if found > between.enough:
            pooled = pooled.also(self._pooled(self.crew(lambda fold: fold.sharper_enclosed(*arguments), self.folds)))
            found = self._ceiling(pooled)
        return Swept(found, self._pieces(found, pooled, between.enough))

    @property
    def _n_parts(self) -> int:
        return int(self.policy.parts) if all(fold.has_gradients for fold in self.folds) else policy.RULERS.parts

    def _pooled(self, enclosed: list[Any]) -> Pooled:
        return Pooled.of([fold.counts for fold in self.folds], enclosed)  # type: ignore[misc]

    def _ceiling(self, pooled: Pooled, factor: float = 1.0) -> float:
        return float(self.folds[0].counts.score.greatest - pooled.least_error(factor))

    def _pieces(self, found: float, pooled: Pooled, enough: float) -> int:
        """The least number of pieces for which the bound would be good enough, if reaches fall like the square of their
        length."""
        if found <= enough:
            return 2
        candidates = range(2, self.policy.most_pieces)
        good = (pieces for pieces in candidates if self._ceiling(pooled, pieces**-self.policy.power) <= enough)
        return next(good, int(self.policy.most_pieces))

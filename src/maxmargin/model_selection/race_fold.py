"""One fold of a race: its fits at the knots, and what they prove of its validation samples between two knots.

A fold with a linear model and one with a kernel differ in how they are trained, and in the outputs, lengths and products that
they have of their validation samples. The proofs are here: the ball of the interpolation, and with hinge loss the rulers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.rounding import OUTWARDS
from maxmargin.data.rows import Array
from maxmargin.model_selection import policy
from maxmargin.model_selection.gradients import Gradients
from maxmargin.model_selection.positions import SLACK, Open, open_below, open_interval, parabola_of
from maxmargin.model_selection.range_errors import Enclosed, Residuals
from maxmargin.model_selection.range_scores import Bounds, Counts
from maxmargin.model_selection.rulers import Products, Ruled, Rulers
from maxmargin.model_selection.transfer import Between, Fit, Problem

NOTHING = np.empty(0)


class Parts(NamedTuple):
    """Between two knots: some validation samples, and where each is open on each part of the interval, with their scores at
    the ends of the parts. The others are open everywhere."""

    low: float
    high: float
    sign: float
    samples: Array
    opens: list[Open]
    scores: Array = NOTHING
    gradients: Gradients | None = None
    losses: Array = NOTHING
    """What the bound takes from each score at each end of the parts. It falls like a power of the interval's length."""

    def would_be_open(self, factor: float, n_samples: int) -> Array:
        """Which samples would be open at each end of the parts, were the losses multiplied by this factor. A row for each."""
        is_open = np.ones((len(self.scores), n_samples), bool)
        is_open[:, self.samples] = self.scores <= factor * self.losses
        return is_open


@dataclass(eq=False)
class RaceFold(ABC):
    """One fold: the problem of its training samples at C = 1, its validation samples with upper bounds on their lengths, its
    fits, and for each fit y times the output of each validation sample with a bound on its error. A subclass trains, and knows
    the inner products of samples."""

    problem: Problem
    counts: Counts | Residuals
    lengths: Array
    fits: dict[float, Fit] = field(default_factory=dict)
    scores: dict[float, tuple[Array, Array]] = field(default_factory=dict)

    has_gradients: bool = field(default=False, init=False)
    """Whether the gradient bounds the distance of the optimum: with squared hinge loss."""
    _pair: Between | None = field(default=None, init=False, repr=False)

    @abstractmethod
    def train(self, C: float, tol: float, solver: Any) -> None:
        """Make the fit at C, and what is known of the validation samples there."""

    def in_order(self, knots: list[float]) -> list[float]:
        """The order in which the first knots are fitted, each from the one next to it."""
        return knots

    def between(self, low: float, high: float) -> Between:
        """Two fits, as a pair that is made once: its bound takes products of long vectors."""
        first, second = self.fits[low], self.fits[high]
        if self._pair is None or self._pair.first is not first or self._pair.second is not second:
            self._pair = Between(first, second)
        return self._pair

    @property
    @abstractmethod
    def products(self) -> Products:
        """The inner products of samples."""

    def offset_reach(self, one: Fit, two: Fit, radius: float) -> float:
        """Bound the distance of b* from that of the mixture, at every C between two fits. Zero unless the offset is free."""
        return 0.0

    def lift_length(self, low: float, high: float, is_inverse: bool) -> float:
        """How long the gradient is between two knots, up to a factor, where no sample crosses the margin. Infinite where no
        gradient bounds the optimum."""
        return math.inf

    def fitted_share(self, low: float, high: float) -> float:
        """The share of the bound on the gradient between two knots that comes from the fits themselves. Zero where no gradient
        bounds the optimum."""
        return 0.0

    def at(self, C: float) -> Bounds:
        """The score at a knot."""
        (margins, errors), fit = self.scores[C], self.fits[C]
        radius = math.sqrt(fit.terms + 0.25 * fit.apart(1.0) ** 2) * OUTWARDS
        reach = (radius * self.lengths + errors + self.offset_reach(fit, fit, radius)) * OUTWARDS
        return self.counts.bounds(margins, reach)

    def parts(self, low: float, high: float, sign: float, n_parts: int, is_inverse: bool = False) -> Parts:
        """Where each sample is not proved wrong (``sign`` is -1) or not proved right (+1) between two knots, by the ball: one
        part. A sample whose score has the other sign at both knots is open everywhere."""
        tried, p0, p1 = self._tried(low, high, sign)
        return Parts(low, high, sign, tried, [self._by_ball(low, high, tried, p0, p1)])

    def _tried(self, low: float, high: float, sign: float) -> tuple[Array, Array, Array]:
        """The samples that can be proved, and their scores at both knots, with room for rounding."""
        scores = self.scores[low], self.scores[high]
        tried = np.flatnonzero(np.maximum(sign * scores[0][0], sign * scores[1][0]) > 0.0)
        (one, error), (two, other_error) = ((each[tried] for each in score) for score in scores)
        slack = np.maximum(error, other_error) + SLACK * (np.abs(one) + np.abs(two))
        return tried, sign * one - slack, sign * two - slack

    def _by_ball(self, low: float, high: float, tried: Array, p0: Array, p1: Array) -> Open:
        pair = self.between(low, high)
        away = self._offset_within(pair)
        return open_interval(p0 - away, p1 - away, self.lengths[tried], parabola_of(pair))

    def _offset_within(self, pair: Between) -> float:
        return self.offset_reach(pair.first, pair.second, math.sqrt(max(0.0, pair.greatest_gap)) * OUTWARDS) * OUTWARDS

    def sharpen(self, parts: Parts) -> Parts:
        """Try the samples that the ball leaves open again, by the rulers."""
        pair, n_parts = self.between(parts.low, parts.high), policy.RULERS.parts
        (by_ball,) = parts.opens
        is_open = by_ball.low <= by_ball.high
        opens = [by_ball.on_part(k, n_parts) for k in range(n_parts)]
        if not is_open.any():
            return parts._replace(opens=opens)
        rulers = Rulers(pair, self.products, n_parts, self._offset_within(pair))
        ruled = rulers.on_parts(parts.samples[is_open])
        _, p0, p1 = self._tried(parts.low, parts.high, parts.sign)
        ends = np.linspace(0.0, 1.0, n_parts + 1)[:, None]
        scores = (1.0 - ends) * p0[is_open] + ends * p1[is_open]
        signs = parts.sign * self.counts.signs[parts.samples[is_open]]
        for k, (each, found) in enumerate(zip(opens, ruled, strict=True)):
            if found is not None:
                each.meet(is_open, _open_by(found, scores[k : k + 2], signs))
        return parts._replace(opens=opens)

    def enclosed(self, low: float, high: float, n_parts: int, is_inverse: bool = False) -> Enclosed:
        """Where the predictions of the validation samples are on each part between two knots, by the ball."""
        pair = self.between(low, high)
        values, slack = self._values(low, high, n_parts)
        ends = np.linspace(0.0, 1.0, n_parts + 1)
        gaps = [pair.greatest_gap_within(*part) for part in pairwise(ends.tolist())]
        reach = np.sqrt(np.maximum(0.0, gaps))[:, None] * self.lengths + slack + self._offset_within(pair)
        return Enclosed(values[:-1], values[1:], reach * OUTWARDS)

    def _values(self, low: float, high: float, n_parts: int) -> tuple[Array, Array]:
        """The outputs at the ends of the parts, and how wrong they can be."""
        (one, error), (two, other_error) = self.scores[low], self.scores[high]
        ends = np.linspace(0.0, 1.0, n_parts + 1)[:, None]
        slack = np.maximum(error, other_error) + SLACK * (np.abs(one) + np.abs(two))
        return (1.0 - ends) * one + ends * two, slack

    def sharper_enclosed(self, low: float, high: float, n_parts: int, is_inverse: bool = False) -> Enclosed:
        """The same by the rulers, and infinite where there is none."""
        pair = self.between(low, high)
        values, slack = self._values(low, high, n_parts)
        first, last, reach = values[:-1].copy(), values[1:].copy(), np.full(values[1:].shape, np.inf)
        ruled = Rulers(pair, self.products, n_parts, self._offset_within(pair)).on_parts(np.arange(len(slack)))
        for k, found in enumerate(ruled):
            if found is not None:
                first[k] += found.shifts[0]
                last[k] += found.shifts[1]
                reach[k] = (found.reach + slack) * (1.0 + SLACK)
        return Enclosed(first, last, reach)


def _open_by(found: Ruled, scores: Array, signs: Array) -> Open:
    first, last = scores + signs * found.shifts
    return open_below(first, last, found.reach * (1.0 + SLACK))

r"""A cross-validated score over a range of C: a proof that no C in it is much better than the one found.

Knots are values of C at which every fold is fitted. Between two knots the optimum of each fold is in a ball around the
mixture of two fits, whose squared radius is at most a parabola g of the position
(:class:`maxmargin.model_selection.transfer.Between`). The score p of a validation sample, its sign turned so that p > 0 is an
error, is linear in the position. So the sample is **proved wrong** where p > 0 and

.. math:: p(\theta)^2 - |x|^2 g(\theta) > 0 ,

a convex quadratic: the positions at which it is not proved wrong are one interval, with the roots as its ends. One sort of
all ends gives the least error on the whole interval between the knots, not at some points of it. Squared hinge loss has a
better bound (:mod:`maxmargin.model_selection.gradients`): a radius for each part of the interval. With hinge loss the samples
inside their box sharpen the ball (:mod:`maxmargin.model_selection.rulers`). The interval whose bound is worst is divided, or
the gaps of its ends are made smaller, whichever limits it, until no C can be better than the best knot by more than the regret
asked for. Scores are those of :mod:`maxmargin.model_selection.range_scores`. Folds are linear
(:mod:`maxmargin.model_selection.linear_fold`) or have a kernel (:mod:`maxmargin.model_selection.kernel_fold`).

A. Shibagaki, Y. Suzuki, M. Karasuyama and I. Takeuchi, "Regularization path of cross-validation error lower bounds", NeurIPS
2015 (arXiv 1502.02344), have the idea, with the ball of a single fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxmargin.data.threads import single_threaded_blas
from maxmargin.model_selection.positions import Open
from maxmargin.model_selection.race_fold import Bounds, Parts, RaceFold
from maxmargin.model_selection.range_scores import greatest_mean
from maxmargin.model_selection.transfer import Between, Fit

ROUNDING = 2e-12
"""Scores are sums of shares, and are wrong by less than this."""


@dataclass(frozen=True)
class RacePolicy:
    """When knots are added, and how well each is fitted."""

    first_knots: int = 13
    """Knots at equal ratios before any interval is divided."""
    first_tol: float = 1e-9
    """The relative gap of their fits. Hinge loss on a1a took 82 values of C in 5.3 s, and with 1e-5 100 values in 10.1 s."""
    smooth_tol: float = 1e-10
    """The same for squared hinge loss. Newton's method takes one or two steps more than for 1e-5, and the bound between two
    knots then depends on their distance alone."""
    least_tol: float = 1e-12
    """The least relative gap that is asked of a fit."""
    gap_share: float = 0.1
    """The gaps of the fits may take this share of the greatest gap between two knots. Beyond it they are made smaller."""
    sharper: float = 0.25
    """Fits are made to this part of that share, so that the next division finds them good enough."""
    parts: int = 8
    """Parts of an interval, each with its own bound on the gradient. An estimate, not measured."""
    most_pieces: int = 4
    """An interval is divided into at most this many at once."""
    power: float = 2.0
    """What the bound takes from a score falls like this power of the length of an interval."""
    most_knots: int = 400
    """The search ends with this many knots, whatever is proved by then."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """Between two knots: no C has a score above ``ceiling`` there."""

    low: float
    high: float
    ceiling: float
    gap: float
    fitted_gap: float
    """The gap at the worst position, and the part of it that the fits at the two ends have. Sums over folds."""
    pieces: int = 2
    """Into how many it is to be divided, by an estimate."""


@dataclass(eq=False)
class Race:
    """Folds over a range. ``floors`` and ``ceilings`` bound the score at the knots."""

    folds: list[RaceFold]
    solver: Any = "auto"
    policy: RacePolicy = field(default_factory=RacePolicy)
    knots: list[float] = field(default_factory=list)
    floors: dict[float, float] = field(default_factory=dict)
    ceilings: dict[float, float] = field(default_factory=dict)
    stretches: dict[tuple[float, float], Stretch] = field(default_factory=dict)
    n_fits: int = 0
    asked: float = 0.0
    """The regret that is asked for."""
    elsewhere: float = -math.inf
    """The best score that is proved outside of this race: with another gamma."""
    enough: float = -math.inf
    """The score below which a ceiling need not be made any lower."""

    def run(self, low: float, high: float, regret: float) -> Race:
        self.asked = regret
        with single_threaded_blas():
            knots = np.geomspace(low, high, self.policy.first_knots).tolist()
            for C in self.folds[0].in_order(knots):
                self._train(C, self._first_tol)
            self._measure()
            while self.regret > regret and len(self.knots) < self.policy.most_knots:
                if not self._improve(regret):
                    break
        return self

    @property
    def best(self) -> float:
        """The knot with the best proved score; the smallest of them."""
        return max(self.knots, key=lambda C: (self.floors[C], -C))

    @property
    def floor(self) -> float:
        """The best score that is proved, here or elsewhere."""
        return max(self.floors[self.best], self.elsewhere)

    @property
    def ceiling(self) -> float:
        return max(stretch.ceiling for stretch in self.stretches.values())

    @property
    def regret(self) -> float:
        """By how much any C of the range can be better than the best score that is proved."""
        return known_regret(self.ceiling - self.floor, self.asked)

    def _improve(self, regret: float) -> bool:
        """Where the bound is worst. False where nothing can be improved any more."""
        best = self.best
        if (
            self.floors[best] > self.elsewhere
            and self.ceilings[best] - self.floors[best] > 0.5 * regret
            and self._sharpen(best, 0.01)
        ):
            self._measure()
            return True
        worst = max(self.stretches.values(), key=lambda stretch: (stretch.ceiling, stretch.high / stretch.low))
        allowed = self.policy.gap_share * worst.gap
        if worst.fitted_gap > 2.0 * allowed and not self._has_gradients:
            factor = self.policy.sharper * allowed / worst.fitted_gap
            were_sharpened = [self._sharpen(C, factor) for C in (worst.low, worst.high)]
            if any(were_sharpened):
                self._measure()
                return True
        return self._divide(worst)

    def _divide(self, worst: Stretch) -> bool:
        """Fit at equal ratios inside. False where the knots are too close to each other."""
        inside = np.geomspace(worst.low, worst.high, worst.pieces + 1)[1:-1].tolist()
        if not worst.low * (1.0 + 1e-9) < inside[0] < worst.high:
            return False
        share = self.policy.sharper * self.policy.gap_share / 4.0  # an interval of half the length has a quarter of the gap
        gap = math.inf if self._has_gradients else share * worst.gap / len(self.folds)
        for C in inside:
            self._train(C, self._tolerance(C, gap))
        self._measure()
        return True

    def _tolerance(self, C: float, gap: float) -> float:
        """The relative gap that means this gap in a fold, by the objective of the nearest knot."""
        near = min(self.knots, key=lambda knot: abs(math.log(knot / C)))
        objective = max(_objective(fold.fits[near]) for fold in self.folds)
        return min(self._first_tol, max(self.policy.least_tol, gap / max(objective, 1e-300)))

    @property
    def _first_tol(self) -> float:
        return self.policy.smooth_tol if self._has_gradients else self.policy.first_tol

    @property
    def _has_gradients(self) -> bool:
        return all(fold.has_gradients for fold in self.folds)

    def _sharpen(self, C: float, factor: float) -> bool:
        """Fit a knot again, to a smaller gap. False where no fit can be asked for less."""
        objective = max(_objective(fold.fits[C]) for fold in self.folds)
        reached = max(fold.fits[C].gap for fold in self.folds) / max(objective, 1e-300)
        if reached <= 4.0 * self.policy.least_tol:
            return False
        self._train(C, max(self.policy.least_tol, factor * reached))
        now = max(fold.fits[C].gap for fold in self.folds) / max(objective, 1e-300)
        self.stretches = {ends: stretch for ends, stretch in self.stretches.items() if C not in ends}
        return now < 0.9 * reached

    def _train(self, C: float, tol: float) -> None:
        for fold in self.folds:
            fold.train(C, tol, self.solver)
        self.n_fits += len(self.folds)
        low, high, _ = np.mean(self.at(C), axis=0)
        self.floors[C], self.ceilings[C] = float(low), float(high)
        if C not in self.knots:
            self.knots = sorted([*self.knots, C])

    def at(self, C: float) -> list[Bounds]:
        """The scores of the folds at a knot."""
        return [fold.at(C) for fold in self.folds]

    def _measure(self) -> None:
        """Bound the stretches that are new."""
        self.enough = self.floor + self.asked
        ends = list(zip(self.knots[:-1], self.knots[1:], strict=True))
        self.stretches = {pair: self.stretches.get(pair) or self._stretch(*pair) for pair in ends}

    def _pairs(self, low: float, high: float) -> list[Between]:
        return [Between(fold.fits[low], fold.fits[high]) for fold in self.folds]

    def _stretch(self, low: float, high: float) -> Stretch:
        pairs = self._pairs(low, high)
        found, parts = self._swept(low, high)
        fitted = sum(max(pair.first.gap, pair.second.gap) for pair in pairs)
        gap = sum(pair.greatest_gap for pair in pairs)
        return Stretch(low, high, min(1.0, found + 0.5 * ROUNDING), gap, fitted, self._pieces(found, parts))

    def _swept(self, low: float, high: float) -> tuple[float, list[Parts]]:
        """The greatest score, over all positions between two knots, if no label is wrong that is not proved wrong. The sharper
        proof is tried where the ball is not enough."""
        is_inverse = self._has_gradients and self._is_inverse(low, high)
        parts = [fold.parts(low, high, -1.0, self.policy.parts, is_inverse) for fold in self.folds]
        found = self._greatest(parts)
        if found <= self.enough + ROUNDING:
            return found, parts
        parts = [fold.sharpen(part) for fold, part in zip(self.folds, parts, strict=True)]
        return self._greatest(parts), parts

    def _is_inverse(self, low: float, high: float) -> bool:
        """Whether the gradients are shorter where positions are in 1/C. All folds have to have the same positions."""
        in_C, in_inverse = (sum(fold.lift_length(low, high, way) for fold in self.folds) for way in (False, True))
        return in_inverse < in_C

    def _pieces(self, found: float, parts: list[Parts]) -> int:
        """The least number of pieces for which the bound would be good enough, if what it takes from the scores falls like the
        square of their length."""
        if found <= self.enough + ROUNDING or not all(len(part.losses) for part in parts):
            return 2
        for pieces in range(2, self.policy.most_pieces):
            factor = pieces**-self.policy.power
            scores = [
                fold.counts.value(part.would_be_open(factor, len(fold.counts.y)))
                for fold, part in zip(self.folds, parts, strict=True)
            ]
            if float(np.mean(scores, axis=0).max()) <= self.enough + ROUNDING:
                return pieces
        return self.policy.most_pieces

    def _greatest(self, parts: list[Parts]) -> float:
        return max(self._greatest_on(parts, opens) for opens in zip(*(part.opens for part in parts), strict=True))

    def _greatest_on(self, parts: list[Parts], opens: tuple[Open, ...]) -> float:
        """On one part of an interval."""
        triples = zip(self.folds, parts, opens, strict=True)
        return greatest_mean([fold.counts.steps(part.samples, own) for fold, part, own in triples])


def known_regret(found: float, asked: float) -> float:
    """What differs from the regret asked for by less than the rounding of sums is equal to it: accuracies are whole numbers of
    samples."""
    return asked if abs(found - asked) <= ROUNDING else max(0.0, found)


def _objective(fit: Fit) -> float:
    return 0.5 * fit.w.greatest_norm**2 + fit.C * fit.loss

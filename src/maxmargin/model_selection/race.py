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
asked for. Scores are those of :mod:`maxmargin.model_selection.range_scores`, and in regression of
:mod:`maxmargin.model_selection.range_errors`; :mod:`maxmargin.model_selection.sweeps` bounds them between two knots. Folds are
linear (:mod:`maxmargin.model_selection.linear_fold`) or have a kernel (:mod:`maxmargin.model_selection.kernel_fold`).

When the time is up, what was proved so far stays. The ends of the range that have no knot yet may have any score.

A. Shibagaki, Y. Suzuki, M. Karasuyama and I. Takeuchi, "Regularization path of cross-validation error lower bounds", NeurIPS
2015 (arXiv 1502.02344), have the idea, with the ball of a single fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.data.limits import OutOfTimeError, Stop, check_point
from maxmargin.data.threads import Crew, single_threaded_blas
from maxmargin.model_selection.race_fold import RaceFold
from maxmargin.model_selection.range_scores import ROUNDING, Bounds, RangeScore
from maxmargin.model_selection.sweeps import ErrorSweep, Interval, LabelSweep
from maxmargin.model_selection.transfer import Fit


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
    fitted_share: float = 0.5
    """The share of the bound that the gradients at the fits may take where the loss is smooth. Beyond it the fits are made
    better. An estimate, not measured."""
    least_factor: float = 1e-3
    """By what the gap of such a fit is multiplied: one step of Newton's method is enough. An estimate, not measured."""
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
    stop: Stop = field(default_factory=Stop)
    n_threads: int = 1
    """Threads for the folds."""
    enough: float = -math.inf
    """The score below which a ceiling need not be made any lower."""
    ends: tuple[float, float] = (0.0, 0.0)
    was_cut: bool = False
    """Whether the time was up."""
    blunt: set[float] = field(default_factory=set)
    """The knots whose fits rounding keeps from a smaller gap: they are not fitted again."""
    proved: dict[tuple[float, float], float] = field(default_factory=dict)
    """All ceilings that were ever proved, by the ends of their intervals."""

    def __post_init__(self) -> None:
        self.crew = Crew.of_size(min(self.n_threads, len(self.folds)))
        sweep = LabelSweep if isinstance(self.score, RangeScore) else ErrorSweep
        self.sweep = sweep(self.folds, self.policy, lambda work, folds: self.crew.run([(fold,) for fold in folds], work))

    @property
    def score(self) -> Any:
        return self.folds[0].counts.score

    def run(self, low: float, high: float, regret: float) -> Race:
        self.asked, self.ends = regret, (low, high)
        with single_threaded_blas(), self.stop.heard():
            try:
                self._search(low, high, regret)
            except OutOfTimeError:
                self.was_cut = True
        if self.stop.is_told:
            raise KeyboardInterrupt
        self._cover()
        return self

    def _search(self, low: float, high: float, regret: float) -> None:
        knots = np.geomspace(low, high, self.policy.first_knots).tolist()
        for C in self.folds[0].in_order(knots):
            self._train(C, self._first_tol)
        self._measure()
        while self.regret > regret and len(self.knots) < self.policy.most_knots:
            if not self._improve(regret):
                break

    def _cover(self) -> None:
        """Give the intervals that there was no time for the ceiling of what they are a part of."""
        ends = list(pairwise(self.knots))
        unknown = {pair: Stretch(*pair, self._known_ceiling(*pair), math.inf, math.inf) for pair in ends}
        self.stretches = {pair: self.stretches.get(pair) or unknown[pair] for pair in ends}

    def _known_ceiling(self, low: float, high: float) -> float:
        """What was proved of an interval, or of a longer one."""
        known = (ceiling for ends, ceiling in self.proved.items() if ends[0] <= low and high <= ends[1])
        return min(known, default=self.score.greatest)

    @property
    def is_covered(self) -> bool:
        """Whether the knots reach from one end of the range to the other."""
        return bool(self.knots) and (self.knots[0], self.knots[-1]) == self.ends

    @property
    def best(self) -> float:
        """The knot with the best proved score; the smallest of them."""
        return max(self.knots, key=lambda C: (self.floors[C], -C))

    @property
    def floor(self) -> float:
        """The best score that is proved, here or elsewhere."""
        return max(self.floors[self.best] if self.knots else -math.inf, self.elsewhere)

    @property
    def ceiling(self) -> float:
        if not self.is_covered:
            return float(self.score.greatest)
        return max(stretch.ceiling for stretch in self.stretches.values())

    @property
    def regret(self) -> float:
        """By how much any C of the range can be better than the best score that is proved."""
        return known_regret(self.score.regret(self.ceiling, self.floor), self.asked)

    def _improve(self, regret: float) -> bool:
        """Where the bound is worst. False where nothing can be improved any more."""
        best = self.best
        if self.floors[best] > self.elsewhere:
            width = self.score.regret(self.ceilings[best], self.floors[best])
            if width > 0.5 * regret and self._sharpen(best, 0.01):
                self._measure()
                return True
            if width > regret:  # rounding limits the score at a knot: more knots cannot help
                return False
        worst = max(self.stretches.values(), key=lambda stretch: (stretch.ceiling, stretch.high / stretch.low))
        allowed = self.policy.gap_share * worst.gap
        is_limited = worst.fitted_gap > 2.0 * allowed
        if self._has_gradients:
            is_limited = max(fold.fitted_share(worst.low, worst.high) for fold in self.folds) > self.policy.fitted_share
        if is_limited:
            factor = self.policy.least_factor if self._has_gradients else self.policy.sharper * allowed / worst.fitted_gap
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
        if reached <= 4.0 * self.policy.least_tol or C in self.blunt:
            return False
        self._train(C, max(self.policy.least_tol, factor * reached))
        now = max(fold.fits[C].gap for fold in self.folds) / max(objective, 1e-300)
        self.stretches = {ends: stretch for ends, stretch in self.stretches.items() if C not in ends}
        if not now < 0.9 * reached:
            self.blunt.add(C)
        return now < 0.9 * reached

    def _train(self, C: float, tol: float) -> None:
        self.crew.run([(fold,) for fold in self.folds], lambda fold: fold.train(C, tol, self.solver))
        check_point()
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
        self.enough = self.score.enough(self.floor, self.asked)
        self.stretches = {pair: self.stretches.get(pair) or self._stretch(*pair) for pair in pairwise(self.knots)}

    def _stretch(self, low: float, high: float) -> Stretch:
        check_point()
        pairs = [fold.between(low, high) for fold in self.folds]
        is_inverse = self._has_gradients and self._is_inverse(low, high)
        found, pieces = self.sweep(Interval(low, high, self.enough, is_inverse))
        ceiling = min(self._known_ceiling(low, high), found + 0.5 * self.score.rounding)
        self.proved[low, high] = ceiling
        fitted = sum(max(pair.first.gap, pair.second.gap) for pair in pairs)
        return Stretch(low, high, ceiling, sum(pair.greatest_gap for pair in pairs), fitted, pieces)

    def _is_inverse(self, low: float, high: float) -> bool:
        """Whether the gradients are shorter where positions are in 1/C. All folds have to have the same positions."""
        in_C, in_inverse = (sum(fold.lift_length(low, high, way) for fold in self.folds) for way in (False, True))
        return in_inverse < in_C


def known_regret(found: float, asked: float) -> float:
    """What differs from the regret asked for by less than the rounding of sums is equal to it: accuracies are whole numbers of
    samples."""
    return asked if abs(found - asked) <= ROUNDING else max(0.0, found)


def _objective(fit: Fit) -> float:
    return 0.5 * fit.w.greatest_norm**2 + fit.C * fit.loss

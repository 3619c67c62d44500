r"""Cross-validated accuracy over a whole range of C: a proof that no C in it is much better than the one that was found.

Knots are values of C at which every fold is fitted. Between two knots the optimum of each fold is in a ball around the
mixture of two fits, whose squared radius is at most a parabola g of the position
(:class:`maxmargin.model_selection.transfer.Between`). The score p of a validation sample, its sign turned so that p > 0 is an
error, is linear in the position. So the sample is **proved wrong** where p > 0 and

.. math:: p(\theta)^2 - |x|^2 g(\theta) > 0 ,

a convex quadratic: the positions at which it is not proved wrong are one interval, with the roots as its ends. One sort of
all ends gives the least error on the whole interval between the knots, not at some points of it. The interval whose bound is
least is divided, or the gaps of its ends are made smaller, whichever limits it, until no C can be better than the best knot
by more than the regret asked for. Without a free offset.

A. Shibagaki, Y. Suzuki, M. Karasuyama and I. Takeuchi, "Regularization path of cross-validation error lower bounds", NeurIPS
2015 (arXiv 1502.02344), have the idea, with the ball of a single fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.predictions import linear_values, norms
from maxmargin.certificate.rounding import OUTWARDS
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.model_selection.gradients import Gradients, Slope, has_gradients
from maxmargin.model_selection.path import fit_of
from maxmargin.model_selection.points import Weights
from maxmargin.model_selection.track import Place, Track
from maxmargin.model_selection.transfer import Between, Fit, Parabola, has_free_offset, row_lengths, scaled_costs, with_costs
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.driver import Limits


@dataclass(frozen=True)
class RacePolicy:
    """When knots are added, and how well each is fitted."""

    first_knots: int = 13
    """Knots at equal ratios before any interval is divided."""
    first_tol: float = 1e-5
    """The relative gap of their fits."""
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
    most_knots: int = 400
    """The search ends with this many knots, whatever is proved by then."""


ROOT_SLACK = 1e-7
"""Roots are moved outwards by this much of the interval: more than the square root of the rounding in their quadratic."""
SLACK = 1e-12
"""Relative, added to radii and errors for the rounding of the quadratics themselves."""


NOTHING = np.empty(0)


class Sweep(NamedTuple):
    """The positions, sorted, at which the sum of the weights changes, and the sum from each on."""

    positions: Array
    sums: Array


@dataclass(eq=False)
class Validation:
    """The validation samples of one fold: y is +1 or -1, and ``weight`` what one of them counts."""

    X: Any
    y: Array
    lengths: Array
    weight: float

    @classmethod
    def of(cls, problem: LinearProblem, X: Any, y: Array, n_folds: int) -> Validation:
        """Features that no training sample has do not count: their weight is zero at every C."""
        present = (problem.rows.column_magnitudes() > 0.0).astype(X.dtype)
        X = X.multiply(present).tocsr() if problem.rows.is_sparse else X * present
        constant = problem.intercept_scaling if problem.penalizes_intercept else 0.0
        is_empty = np.asarray(abs(X).max(axis=1).todense() if problem.rows.is_sparse else np.abs(X).max(axis=1)).ravel() == 0.0
        lengths = np.where(is_empty, constant, np.hypot(norms(X), constant) * OUTWARDS)
        return cls(X, y, lengths, 1.0 / (n_folds * len(y)))

    def scores(self, fit: Fit) -> tuple[Array, Array]:
        """y times the value of the middle between w and v, and how wrong it can be. A row without features has the score zero
        at every C, and its label is that of the negative class."""
        assert isinstance(fit.w, Weights)
        assert isinstance(fit.v, Weights)
        middle, d = 0.5 * (fit.w.values + fit.v.values), self.X.shape[1]
        b = fit.problem.intercept_scaling * middle[d:].sum()  # type: ignore[union-attr]
        values, errors = (part[:, 0] for part in linear_values(self.X, middle[None, :d], np.array([b])))
        away = 0.5 * (fit.w.error + fit.v.error) + 16.0 * UNIT_ROUNDOFF * (fit.w.greatest_norm + fit.v.greatest_norm)
        errors = (errors + away * self.lengths) * OUTWARDS
        is_empty = self.lengths == 0.0
        return np.where(is_empty, -self.y, self.y * values), np.where(is_empty, 0.0, errors)


@dataclass(eq=False)
class RaceFold:
    """One fold: the problem of its training samples at C = 1, and its fits."""

    problem: LinearProblem
    validation: Validation
    fits: dict[float, Fit] = field(default_factory=dict)
    scores: dict[float, tuple[Array, Array]] = field(default_factory=dict)
    slopes: dict[float, Slope] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lengths = row_lengths(self.problem)
        self.track = Track(self.problem)

    def train(self, C: float, tol: float, solver: Any) -> None:
        self.track.solver, self.track.place = solver, self.start(C)
        solution = self.track.solve(C, Limits(tol), stop=Stop())
        problem = with_costs(self.problem, scaled_costs(self.problem.C, C))
        self.fits[C] = fit_of(problem, solution, C, self.lengths)
        self.scores[C] = self.validation.scores(self.fits[C])
        if has_gradients(self.problem):
            self.slopes[C] = Slope.of(self.fits[C])

    def start(self, C: float) -> Place | None:
        """The fit at C if there is one; the mixture of its neighbours; the nearest fit."""
        if C in self.fits:
            return self._place(C)
        below = max((each for each in self.fits if each < C), default=None)
        above = min((each for each in self.fits if each > C), default=None)
        if below is not None and above is not None:
            theta = (C - below) / (above - below)
            one, two = self._place(below), self._place(above)
            return Place(C, (1.0 - theta) * one.w + theta * two.w, (1.0 - theta) * one.alpha + theta * two.alpha)
        near = below if below is not None else above
        if near is None:
            return None
        return self.track.place if self.track.place and self.track.place.C == near else self._place(near)

    def _place(self, C: float) -> Place:
        fit = self.fits[C]
        assert isinstance(fit.w, Weights)
        return Place(C, fit.w.values, fit.alpha)

    def at(self, C: float) -> tuple[float, float]:
        """The least and the greatest share of errors of the exact optimum at a knot."""
        margins, errors = self.scores[C]
        fit = self.fits[C]
        radius = math.sqrt(fit.terms + 0.25 * fit.apart(1.0) ** 2) * OUTWARDS
        reach = (radius * self.validation.lengths + errors) * OUTWARDS
        weight = self.validation.weight
        is_wrong, is_right = margins < -reach, margins > reach
        return weight * float(np.count_nonzero(is_wrong)), weight * float(np.count_nonzero(~is_right))

    def open_positions(self, pair: Between, sign: float) -> tuple[Array, Array]:
        """Where in an interval each sample is not proved wrong (``sign`` is -1) or not proved right (+1): from here to there.
        An interval that ends before it begins is empty."""
        one, two = (self.scores[fit.C] for fit in (pair.first, pair.second))
        slack = np.maximum(one[1], two[1]) + SLACK * (np.abs(one[0]) + np.abs(two[0]))
        g = parabola_of(pair)
        return open_interval(sign * one[0] - slack, sign * two[0] - slack, self.validation.lengths, g)

    def parts(self, low: float, high: float, sign: float, n_parts: int) -> Parts:
        """The same for each part of the interval between two knots; one part where there is only the ball."""
        pair = Between(self.fits[low], self.fits[high])
        if low not in self.slopes or high not in self.slopes:
            return Parts([self.open_positions(pair, sign)])
        one, two = self.scores[low], self.scores[high]
        slack = np.maximum(one[1], two[1]) + SLACK * (np.abs(one[0]) + np.abs(two[0]))
        slack = slack + 0.5 * max(pair.first.apart(1.0), pair.second.apart(1.0)) * self.validation.lengths * OUTWARDS
        ends = np.linspace(0.0, 1.0, n_parts + 1)[:, None]
        p = sign * ((1.0 - ends) * one[0] + ends * two[0]) - slack
        gradients = Gradients((pair.first, pair.second), (self.slopes[low], self.slopes[high]), n_parts)
        return Parts(_opens(p, self.validation.lengths, gradients.radii), p, gradients)

    def sharpen(self, parts: Parts) -> Parts:
        """Try the samples that the ball leaves open again, in the sharper norm."""
        if parts.gradients is None or parts.gradients.sharper_norm is None:
            return parts
        p, norm = parts.scores, parts.gradients.sharper_norm
        tried = np.flatnonzero(np.any([low <= high for low, high in parts.opens], axis=0) & (p > 0.0).any(axis=0))
        if len(tried) == 0:
            return parts
        found = _opens(p[:, tried], norm.reach(self.validation.X[tried]), parts.gradients.sharper_radii(norm))
        for (low, high), (lower, upper) in zip(parts.opens, found, strict=True):
            low[tried], high[tried] = np.maximum(low[tried], lower), np.minimum(high[tried], upper)
        return parts


class Parts(NamedTuple):
    """Where each validation sample is open, for each part of an interval; the scores at the ends of the parts."""

    opens: list[tuple[Array, Array]]
    scores: Array = NOTHING
    gradients: Gradients | None = None


def _opens(p: Array, lengths: Array, radii: Array) -> list[tuple[Array, Array]]:
    squares = (np.square(radii) * (1.0 + SLACK)).tolist()
    return [open_interval(p[k], p[k + 1], lengths, Parabola(r, r, 0.0)) for k, r in enumerate(squares)]


def parabola_of(pair: Between) -> Parabola:
    """With room for its own rounding, and not bent the other way."""
    first, second, bend = pair.parabola
    slack = SLACK * (first + second + abs(bend))
    return Parabola(first + slack, second + slack, max(0.0, bend))


def open_interval(p0: Array, p1: Array, lengths: Array, g: Parabola) -> tuple[Array, Array]:
    """The positions in [0, 1] at which p > 0 and p^2 > |x|^2 g do not both hold, p from p0 to p1: one interval for each
    sample."""
    squares, dp = np.square(lengths), p1 - p0
    c0 = np.square(p0) - squares * g.first
    c1 = 2.0 * p0 * dp - squares * (g.second - g.first + g.bend)
    c2 = np.square(dp) + squares * g.bend
    discriminant = np.square(c1) - 4.0 * c2 * c0
    has_roots = discriminant > -SLACK * np.square(c1)
    root = np.sqrt(np.maximum(0.0, discriminant))
    with np.errstate(all="ignore"):
        low, high = (-c1 - root) / (2.0 * c2) - ROOT_SLACK, (-c1 + root) / (2.0 * c2) + ROOT_SLACK
    is_flat = ~(np.isfinite(low) & np.isfinite(high))
    low, high = np.where(has_roots, low, 2.0), np.where(has_roots, high, -1.0)
    low, high = np.where(p0 <= 0.0, 0.0, low), np.where(p1 <= 0.0, 1.0, high)
    holds_flat = is_flat & (c0 > 0.0) & (p0 > 0.0) & (p1 > 0.0)
    low, high = np.where(is_flat, 0.0, low), np.where(is_flat, 1.0, high)
    return np.where(holds_flat, 2.0, np.maximum(low, 0.0)), np.where(holds_flat, -1.0, np.minimum(high, 1.0))


def sweep(low: Array, high: Array, weights: Array) -> Sweep:
    """The sum of the weights of the intervals that hold a position, for every position in [0, 1]. Both ends belong to an
    interval: at equal positions those that begin come before those that end."""
    there = low <= high
    low, high, weights = low[there], high[there], weights[there]
    positions = np.concatenate([[0.0], low, high])
    changes = np.concatenate([[0.0], weights, -weights])
    order = np.lexsort((changes < 0.0, positions))
    return Sweep(positions[order], np.cumsum(changes[order]))


@dataclass(frozen=True, eq=False)
class Stretch:
    """Between two knots: no C has an accuracy above ``ceiling`` there."""

    low: float
    high: float
    ceiling: float
    gap: float
    fitted_gap: float
    """The gap at the worst position, and the part of it that the fits at the two ends have. Sums over folds."""


@dataclass(eq=False)
class Race:
    """Folds over a range. ``floors`` and ``ceilings`` bound the accuracy at the knots."""

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
    enough: float = -math.inf
    """The accuracy below which a ceiling need not be made any lower."""

    def run(self, low: float, high: float, regret: float) -> Race:
        self.asked = regret
        with single_threaded_blas():
            for C in np.geomspace(low, high, self.policy.first_knots).tolist():
                self._train(C, self._first_tol)
            self._measure()
            while self.regret > regret and len(self.knots) < self.policy.most_knots:
                if not self._improve(regret):
                    break
        return self

    @property
    def best(self) -> float:
        """The knot with the best proved accuracy; the smallest of them."""
        return max(self.knots, key=lambda C: (self.floors[C], -C))

    @property
    def ceiling(self) -> float:
        return max(stretch.ceiling for stretch in self.stretches.values())

    @property
    def regret(self) -> float:
        """By how much any C of the range can be better than the best knot."""
        return max(0.0, self.ceiling - self.floors[self.best])

    def _improve(self, regret: float) -> bool:
        """Where the bound is worst. False where nothing can be improved any more."""
        best = self.best
        if self.ceilings[best] - self.floors[best] > 0.5 * regret and self._sharpen(best, 0.01):
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
        middle = math.sqrt(worst.low * worst.high)
        if not worst.low * (1.0 + 1e-9) < middle < worst.high:
            return False
        share = self.policy.sharper * self.policy.gap_share / 4.0  # an interval of half the length has a quarter of the gap
        gap = math.inf if self._has_gradients else share * worst.gap / len(self.folds)
        self._train(middle, self._tolerance(middle, gap))
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
        return all(has_gradients(fold.problem) for fold in self.folds)

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
        errors = np.sum([fold.at(C) for fold in self.folds], axis=0)
        self.ceilings[C], self.floors[C] = 1.0 - float(errors[0]), 1.0 - float(errors[1])
        if C not in self.knots:
            self.knots = sorted([*self.knots, C])

    def _measure(self) -> None:
        """Bound the stretches that are new."""
        self.enough = self.floors[self.best] + self.asked
        ends = list(zip(self.knots[:-1], self.knots[1:], strict=True))
        self.stretches = {pair: self.stretches.get(pair) or self._stretch(*pair) for pair in ends}

    def _pairs(self, low: float, high: float) -> list[Between]:
        return [Between(fold.fits[low], fold.fits[high]) for fold in self.folds]

    def _stretch(self, low: float, high: float) -> Stretch:
        pairs = self._pairs(low, high)
        found = self.swept(low, high, -1.0)
        fitted = sum(max(pair.first.gap, pair.second.gap) for pair in pairs)
        gap = sum(pair.greatest_gap for pair in pairs)
        return Stretch(low, high, min(1.0, found + 1e-12), gap, fitted)

    def swept(self, low: float, high: float, sign: float) -> float:
        """The greatest share of samples, over all positions between two knots, that are not proved wrong (-1) or not proved
        right (+1). The sharper norm is used where the ball is not enough."""
        parts = [fold.parts(low, high, sign, self.policy.parts) for fold in self.folds]
        found = self._greatest(parts)
        if found <= self.enough:
            return found
        return self._greatest([fold.sharpen(part) for fold, part in zip(self.folds, parts, strict=True)])

    def _greatest(self, parts: list[Parts]) -> float:
        weights = np.concatenate([np.full(len(fold.validation.y), fold.validation.weight) for fold in self.folds])
        greatest = 0.0
        for opens in zip(*(part.opens for part in parts), strict=True):
            low, high = (np.concatenate(ends) for ends in zip(*opens, strict=True))
            greatest = max(greatest, float(sweep(low, high, weights).sums.max()))
        return greatest

    def proof(self) -> str:
        """What is proved, in two sentences."""
        best = self.best
        return (
            f"Cross-validated accuracy at C = {best:.4g} is proved to be between {self.floors[best]:.4f} and "
            f"{self.ceilings[best]:.4f}. No C between {self.knots[0]:g} and {self.knots[-1]:g} has an accuracy above "
            f"{self.ceiling:.4f}. {len(self.knots)} values of C, {self.n_fits} fits."
        )


def _objective(fit: Fit) -> float:
    return 0.5 * fit.w.greatest_norm**2 + fit.C * fit.loss


def race_fold(problem: LinearProblem, X_test: Any, y_test: Array, n_folds: int) -> RaceFold:
    """``y_test`` is +1 or -1."""
    if has_free_offset(problem):
        raise ValueError("A proof over a range needs an intercept that is penalised, or none.")
    return RaceFold(problem, Validation.of(problem, X_test, y_test, n_folds))

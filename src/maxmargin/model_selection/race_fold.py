"""One fold of a race: its fits at the knots, and what they prove of its validation samples between two knots."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.predictions import linear_values, norms
from maxmargin.certificate.rounding import OUTWARDS, gamma
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.model_selection import policy
from maxmargin.model_selection.gradients import Enclosure, Gradients, Slope, has_gradients, lift_length
from maxmargin.model_selection.path import fit_of
from maxmargin.model_selection.points import Weights
from maxmargin.model_selection.positions import SLACK, Open, open_below, open_interval, parabola_of
from maxmargin.model_selection.track import Place, Track
from maxmargin.model_selection.transfer import Between, Fit, has_free_offset, row_lengths, scaled_costs, with_costs
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.driver import Limits

NOTHING = np.empty(0)


@dataclass(eq=False)
class Validation:
    """The validation samples of one fold: y is +1 or -1, and ``weights`` what each counts in the score of all folds."""

    X: Any
    y: Array
    lengths: Array
    weights: Array

    @classmethod
    def of(cls, problem: LinearProblem, X: Any, y: Array, weights: Array) -> Validation:
        """Features that no training sample has do not count: their weight is zero at every C."""
        present = (problem.rows.column_magnitudes() > 0.0).astype(X.dtype)
        X = X.multiply(present).tocsr() if problem.rows.is_sparse else X * present
        constant = problem.intercept_scaling if problem.penalizes_intercept else 0.0
        is_empty = np.asarray(abs(X).max(axis=1).todense() if problem.rows.is_sparse else np.abs(X).max(axis=1)).ravel() == 0.0
        lengths = np.where(is_empty, constant, np.hypot(norms(X), constant) * OUTWARDS)
        return cls(X, y, lengths, weights)

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
        weights, is_wrong, is_right = self.validation.weights, margins < -reach, margins > reach
        return float(weights[is_wrong].sum()), float(weights[~is_right].sum())

    def parts(self, low: float, high: float, sign: float, n_parts: int, is_inverse: bool = False) -> Parts:
        """Where each sample is not proved wrong (``sign`` is -1) or not proved right (+1) between two knots, for each part of
        the interval; one part where there is only the ball of the interpolation. A sample whose score has the other sign at
        both knots is open everywhere. Positions are in C, or in 1/C where ``is_inverse``."""
        pair, scores = Between(self.fits[low], self.fits[high]), (self.scores[low], self.scores[high])
        tried = np.flatnonzero(np.maximum(sign * scores[0][0], sign * scores[1][0]) > 0.0)
        (one, error), (two, other_error) = ((each[tried] for each in score) for score in scores)
        slack = np.maximum(error, other_error) + SLACK * (np.abs(one) + np.abs(two))
        lengths, weights = self.validation.lengths[tried], self.validation.weights[tried]
        always = float(np.delete(self.validation.weights, tried).sum())
        by_ball = open_interval(sign * one - slack, sign * two - slack, lengths, parabola_of(pair))
        if low not in self.slopes or high not in self.slopes:
            return Parts(tried, weights, always, [by_ball])
        gradients = Gradients((pair.first, pair.second), (self.slopes[low], self.slopes[high]), n_parts, is_inverse)
        by_ball = by_ball.in_inverse(high / low) if is_inverse else by_ball
        apart = 0.5 * max(pair.first.apart(1.0), pair.second.apart(1.0))  # the scores are those of the middle of w and v
        ends = np.linspace(0.0, 1.0, n_parts + 1)[:, None]
        p = sign * ((1.0 - ends) * one + ends * two) - slack - apart * lengths * OUTWARDS
        opens, losses = self._opens(p, tried, lengths, gradients.ball, sign)
        met = [each.met(by_ball.on_part(k, n_parts)) for k, each in enumerate(opens)]
        return Parts(tried, weights, always, met, sign, p, gradients, losses)

    def lift_length(self, low: float, high: float, is_inverse: bool) -> float:
        """How long the gradient is between two knots, up to a factor, where no sample crosses the margin."""
        return lift_length(self.slopes[low], self.slopes[high], is_inverse)

    def _opens(self, p: Array, tried: Array, lengths: Array, enclosure: Enclosure, sign: float) -> tuple[list[Open], Array]:
        """Where each sample is open on each part, and what the bound takes from its score at the ends."""
        shift = self._shift(enclosure, tried, sign)
        levels = enclosure.radii[:, None] * lengths * (1.0 + SLACK)
        rest = p - shift
        opens = [Open(*part) for part in zip(*open_below(rest[:-1], rest[1:], levels), strict=True)]
        return opens, shift + np.concatenate([levels, levels[-1:]])

    def _shift(self, enclosure: Enclosure, chosen: Array, sign: float) -> Array:
        """What the shifts of the centres add to the scores of some samples, with room for rounding. One row for each end."""
        X, d, shifts = self.validation.X[chosen], self.validation.X.shape[1], enclosure.shifts
        values = np.asarray(X @ shifts[:, :d].T).T
        if shifts.shape[1] > d:
            values = values + self.problem.intercept_scaling * shifts[:, d:]
        room = gamma(d + 8.0) * np.linalg.norm(shifts, axis=1)[:, None] * self.validation.lengths[chosen]
        return np.asarray(sign * self.validation.y[chosen] * values + room * OUTWARDS)

    def sharpen(self, parts: Parts) -> Parts:
        """Try the samples that the ball leaves open again, in the sharper norm."""
        if parts.gradients is None or parts.gradients.sharper_norm is None:
            return parts
        norm = parts.gradients.sharper_norm
        is_open = np.any([each.low <= each.high for each in parts.opens], axis=0)
        tried = parts.samples[is_open]
        if len(tried) == 0:
            return parts
        lengths = norm.reach(self.validation.X[tried])
        found, losses = self._opens(parts.scores[:, is_open], tried, lengths, parts.gradients.sharper(norm), parts.sign)
        parts.losses[:, is_open] = np.minimum(parts.losses[:, is_open], losses)
        for each, sharper in zip(parts.opens, found, strict=True):
            low, high = Open(each.low[is_open], each.high[is_open]).met(sharper)
            each.low[is_open], each.high[is_open] = low, high
        return parts


class Parts(NamedTuple):
    """Some validation samples with their weights, and where each is open, for each part of an interval, with their scores at
    the ends of the parts. The others are open everywhere, and weigh ``always``."""

    samples: Array
    weights: Array
    always: float
    opens: list[Open]
    sign: float = -1.0
    scores: Array = NOTHING
    gradients: Gradients | None = None
    losses: Array = NOTHING
    """What the bound takes from each score at each end of the parts. It falls like the square of the interval's length."""

    def share_open(self, factor: float) -> Array:
        """The weight of the samples that would be open at each end of the parts, were the losses multiplied by this factor."""
        return np.asarray(self.always + (self.scores <= factor * self.losses) @ self.weights)


def race_fold(problem: LinearProblem, X_test: Any, y_test: Array, weights: Array) -> RaceFold:
    """``y_test`` is +1 or -1, and ``weights`` says what each validation sample counts in the score of all folds."""
    if has_free_offset(problem):
        raise ValueError("A proof over a range needs an intercept that is penalised, or none.")
    problem, X_test = _dense_where_small(problem, X_test)
    return RaceFold(problem, Validation.of(problem, X_test, y_test, weights))


def weights_of_accuracy(y_test: Array, n_folds: int) -> Array:
    """What a validation sample counts in the mean accuracy of all folds."""
    return np.full(len(y_test), 1.0 / (n_folds * len(y_test)))


def weights_of_balanced_accuracy(y_test: Array, n_folds: int) -> Array:
    """The same for scikit-learn's balanced accuracy, the mean over the classes of the share that is right. A class that the
    fold does not have does not count."""
    labels, codes, counts = np.unique(y_test, return_inverse=True, return_counts=True)
    return 1.0 / (n_folds * len(labels) * counts[codes])


def _dense_where_small(problem: LinearProblem, X_test: Any) -> tuple[LinearProblem, Any]:
    """Few samples of few features are dense: a race takes rows out of X thousands of times, and a sparse matrix takes long to
    begin."""
    n_bytes = np.dtype(np.float64).itemsize * problem.n_samples * problem.rows.n_features
    if not problem.rows.is_sparse or n_bytes > policy.RACE_FOLD.dense_bytes:
        return problem, X_test
    X = np.ascontiguousarray(problem.rows.matrix.toarray(), np.float64)
    return replace(problem, rows=Rows.from_matrix(X)), X_test.toarray().astype(np.float64, copy=False)

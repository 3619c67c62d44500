"""A fold of a race with a linear model, whose intercept is penalised or absent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.certificate.predictions import linear_values, norms
from maxmargin.certificate.rounding import OUTWARDS, gamma
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.model_selection import policy
from maxmargin.model_selection.gradients import Enclosure, Gradients, Slope, has_gradients, lift_length
from maxmargin.model_selection.path import fit_of
from maxmargin.model_selection.points import Weights
from maxmargin.model_selection.positions import SLACK, Open, open_below
from maxmargin.model_selection.race_fold import Parts, RaceFold
from maxmargin.model_selection.range_errors import Enclosed, Residuals
from maxmargin.model_selection.range_scores import Counts
from maxmargin.model_selection.rulers import Products
from maxmargin.model_selection.track import Place, Track
from maxmargin.model_selection.transfer import Fit, has_free_offset, row_lengths, scaled_costs, with_costs
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.driver import Limits


@dataclass(eq=False)
class LinearProducts:
    """Products of rows, with the constant feature of an intercept."""

    rows: Any
    tests: Any
    constant: float

    def among(self, chosen: Array) -> Array:
        rows = self.rows[chosen]
        return _dense(rows @ rows.T) + self.constant**2

    def across(self, tests: Array, chosen: Array) -> Array:
        return _dense(self.tests[tests] @ self.rows[chosen].T) + self.constant**2

    def squares(self, tests: Array) -> Array:
        return np.square(norms(self.tests[tests])) + self.constant**2

    @property
    def n_dimensions(self) -> float:
        return self.rows.shape[1] + 1.0

    @property
    def error(self) -> float:
        return float(gamma(self.rows.shape[1] + 16.0))


def _dense(products: Any) -> Array:
    return np.asarray(products.toarray() if sparse.issparse(products) else products, dtype=np.float64)


@dataclass(eq=False)
class LinearFold(RaceFold):
    """``X`` are the validation samples."""

    X: Any = None
    slopes: dict[float, Slope] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert isinstance(self.problem, LinearProblem)
        self.row_lengths = row_lengths(self.problem)
        self.track = Track(self.problem)
        self.has_gradients = has_gradients(self.problem)

    def train(self, C: float, tol: float, solver: Any) -> None:
        self.track.solver, self.track.place = solver, self.start(C)
        solution = self.track.solve(C, Limits(tol), stop=Stop.within(math.inf))
        problem = with_costs(self.problem, scaled_costs(self.problem.C, C))
        self.fits[C] = fit_of(problem, solution, C, self.row_lengths)
        self.scores[C] = self._scores_of(self.fits[C])
        if self.has_gradients:
            self.slopes[C] = Slope.of(self.fits[C])

    def _scores_of(self, fit: Fit) -> tuple[Array, Array]:
        """The value of the middle between w and v, times y where there are two classes, and how wrong it can be. A row without
        features has the value zero at every C."""
        assert isinstance(fit.w, Weights)
        assert isinstance(fit.v, Weights)
        middle, d = 0.5 * (fit.w.values + fit.v.values), self.X.shape[1]
        b = self._constant * middle[d:].sum()
        values, errors = (part[:, 0] for part in linear_values(self.X, middle[None, :d], np.array([b])))
        away = 0.5 * (fit.w.error + fit.v.error) + 16.0 * UNIT_ROUNDOFF * (fit.w.greatest_norm + fit.v.greatest_norm)
        errors = (errors + away * self.lengths) * OUTWARDS
        is_empty, counts = self.lengths == 0.0, self.counts
        return np.where(is_empty, counts.of_empty_rows, counts.signs * values), np.where(is_empty, 0.0, errors)

    @property
    def _constant(self) -> float:
        assert isinstance(self.problem, LinearProblem)
        return self.problem.intercept_scaling

    @property
    def products(self) -> Products:
        return LinearProducts(self.problem.rows.matrix, self.X, self._constant)

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

    def parts(self, low: float, high: float, sign: float, n_parts: int, is_inverse: bool = False) -> Parts:
        """The open positions; with squared hinge loss by the gradients too, for each part of the interval. Positions are in C,
        or in 1/C where ``is_inverse``."""
        if not self.has_gradients:
            return super().parts(low, high, sign, n_parts)
        tried, p0, p1 = self._tried(low, high, sign)
        by_ball, gradients = self._by_ball(low, high, tried, p0, p1), self._gradients(low, high, n_parts, is_inverse)
        by_ball = by_ball.in_inverse(high / low) if is_inverse else by_ball
        apart = 0.5 * max(fit.apart(1.0) for fit in gradients.fits)  # the scores are those of the middle of w and v
        ends = np.linspace(0.0, 1.0, n_parts + 1)[:, None]
        p = (1.0 - ends) * p0 + ends * p1 - apart * self.lengths[tried] * OUTWARDS
        opens, losses = self._opens(p, tried, self.lengths[tried], gradients.ball, sign)
        met = [each.met(by_ball.on_part(k, n_parts)) for k, each in enumerate(opens)]
        return Parts(low, high, sign, tried, met, p, gradients, losses)

    def lift_length(self, low: float, high: float, is_inverse: bool) -> float:
        return lift_length(self.slopes[low], self.slopes[high], is_inverse)

    def fitted_share(self, low: float, high: float) -> float:
        return self._gradients(low, high, 1, is_inverse=False).fitted_share

    def _opens(self, p: Array, tried: Array, lengths: Array, enclosure: Enclosure, sign: float) -> tuple[list[Open], Array]:
        """Where each sample is open on each part, and what the bound takes from its score at the ends."""
        shift = self._shift(enclosure, tried, sign)
        levels = enclosure.radii[:, None] * lengths * (1.0 + SLACK)
        rest = p - shift
        opens = [Open(*part) for part in zip(*open_below(rest[:-1], rest[1:], levels), strict=True)]
        return opens, shift + np.concatenate([levels, levels[-1:]])

    def _shift(self, enclosure: Enclosure, chosen: Array, sign: float) -> Array:
        """What the shifts of the centres add to the scores of some samples, with room for rounding. One row for each end."""
        values, room = self._moves(enclosure, chosen)
        return np.asarray(sign * self.counts.signs[chosen] * values + room)

    def _moves(self, enclosure: Enclosure, chosen: Array) -> tuple[Array, Array]:
        """What the shifts of the centres take from the outputs of some samples, and the rounding of that."""
        X, d, shifts = self.X[chosen], self.X.shape[1], enclosure.shifts
        values = np.asarray(X @ shifts[:, :d].T).T
        if shifts.shape[1] > d:
            values = values + self._constant * shifts[:, d:]
        room = gamma(d + 8.0) * np.linalg.norm(shifts, axis=1)[:, None] * self.lengths[chosen]
        return values, room * OUTWARDS

    def enclosed(self, low: float, high: float, n_parts: int, is_inverse: bool = False) -> Enclosed:
        """Where the predictions are, with a squared loss by the gradients."""
        if not self.has_gradients:
            return super().enclosed(low, high, n_parts)
        gradients = self._gradients(low, high, n_parts, is_inverse)
        return self._within(low, high, gradients.ball, self.lengths)

    def sharper_enclosed(self, low: float, high: float, n_parts: int, is_inverse: bool = False) -> Enclosed:
        """The same in the sharper norm."""
        if not self.has_gradients:
            return super().sharper_enclosed(low, high, n_parts)
        gradients = self._gradients(low, high, n_parts, is_inverse)
        norm = gradients.sharper_norm
        if norm is None:
            return self._within(low, high, gradients.ball, self.lengths)
        return self._within(low, high, gradients.sharper(norm), norm.reach(self.X))

    def _gradients(self, low: float, high: float, n_parts: int, is_inverse: bool) -> Gradients:
        fits, slopes = (self.fits[low], self.fits[high]), (self.slopes[low], self.slopes[high])
        return Gradients(fits, slopes, n_parts, is_inverse)

    def _within(self, low: float, high: float, enclosure: Enclosure, lengths: Array) -> Enclosed:
        """The scores are those of the middle of w and v, and the enclosure is one around w."""
        values, slack = self._values(low, high, len(enclosure.radii))
        moves, room = self._moves(enclosure, np.arange(len(slack)))
        apart = 0.5 * max(self.fits[C].apart(1.0) for C in (low, high))
        reach = enclosure.radii[:, None] * lengths + slack + apart * self.lengths + np.maximum(room[:-1], room[1:])
        return Enclosed(values[:-1] - moves[:-1], values[1:] - moves[1:], reach * OUTWARDS)

    def sharpen(self, parts: Parts) -> Parts:
        """Sharpen the parts, with squared hinge loss in the sharper norm."""
        if parts.gradients is None:
            return super().sharpen(parts)
        norm = parts.gradients.sharper_norm
        is_open = np.any([each.low <= each.high for each in parts.opens], axis=0)
        tried = parts.samples[is_open]
        if norm is None or len(tried) == 0:
            return parts
        lengths = norm.reach(self.X[tried])
        found, losses = self._opens(parts.scores[:, is_open], tried, lengths, parts.gradients.sharper(norm), parts.sign)
        parts.losses[:, is_open] = np.minimum(parts.losses[:, is_open], losses)
        for each, sharper in zip(parts.opens, found, strict=True):
            each.meet(is_open, sharper)
        return parts


def linear_fold(problem: LinearProblem, X_test: Any, counts: Counts | Residuals) -> LinearFold:
    if has_free_offset(problem):
        raise ValueError("A proof over a range needs an intercept that is penalised, or none.")
    problem, X_test = _dense_where_small(problem, X_test)
    X_test = _seen(problem, X_test)
    return LinearFold(problem, counts, _lengths(problem, X_test), X=X_test)


def _seen(problem: LinearProblem, X: Any) -> Any:
    """Features that no training sample has do not count: their weight is zero at every C."""
    present = (problem.rows.column_magnitudes() > 0.0).astype(X.dtype)
    return X.multiply(present).tocsr() if problem.rows.is_sparse else X * present


def _lengths(problem: LinearProblem, X: Any) -> Array:
    constant = problem.intercept_scaling if problem.penalizes_intercept else 0.0
    is_empty = np.asarray(abs(X).max(axis=1).todense() if problem.rows.is_sparse else np.abs(X).max(axis=1)).ravel() == 0.0
    return np.where(is_empty, constant, np.hypot(norms(X), constant) * OUTWARDS)


def _dense_where_small(problem: LinearProblem, X_test: Any) -> tuple[LinearProblem, Any]:
    """Few samples of few features are dense: a race takes rows out of X thousands of times, and a sparse matrix takes long to
    begin."""
    n_bytes = np.dtype(np.float64).itemsize * problem.n_samples * problem.rows.n_features
    if not problem.rows.is_sparse or n_bytes > policy.RACE_FOLD.dense_bytes:
        return problem, X_test
    X = np.ascontiguousarray(problem.rows.matrix.toarray(), np.float64)
    return replace(problem, rows=Rows.from_matrix(X)), X_test.toarray().astype(np.float64, copy=False)

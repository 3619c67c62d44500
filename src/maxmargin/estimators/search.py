"""Cross-validation over a list of values: which values are trained, to which gap, and which is the best.

All values of C are trained on a fold by one estimator, with ``warm_start`` each from the dual variables of its neighbour. The
first value is the one in the middle of the list; the others follow outwards. The score of a fold is bounded by the
certificate: a validation label that is not proved may turn out right or wrong at the exact optimum. Two things follow from
the bounds:

- A fold is done when all its validation labels are proved, however large the gap is.
- A value is given up when its score cannot reach the best one, whatever happens on the folds that it was not trained on.

A search obeys one Stop. Each training has an equal share of the time that is left; when the time is up, what is left is not
trained. Ctrl-C ends a search without an answer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.predictions import CertifiedLabels
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import policy
from maxmargin.estimators.jobs import thread_count, wait_for
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution

TRAINED = "trained to tol"
SHORT = "stopped before tol"
PROVED = "ended early: every validation label is proved"
GIVEN_UP = "not trained: this value cannot be the best one"
OUT_OF_TIME = "not trained: the time was up"


BOUNDED = ("accuracy", "balanced_accuracy", "f1")
"""The scores of classes that have bounds."""
BOUNDED_ERRORS = ("r2", "neg_mean_squared_error", "neg_mean_absolute_error")
"""The same of a regression."""
RESIDUAL_ROUNDING = 2.0**-52
"""A bound on the rounding of a difference, relative to what is subtracted."""


class FoldScore(NamedTuple):
    """The score of the labels at hand, and its least and greatest value at the exact optimum."""

    value: float
    low: float
    high: float


Metric = Callable[[Array, Array, Array], float]
"""A function of the true codes of the classes, a mask of the samples whose label is right, and the weights of the samples."""


class BoundedMetric(NamedTuple):
    """A metric that never falls when a wrong label is made right. Its greatest value is one."""

    of: Metric
    greatest: float = 1.0

    def of_fold(self, fold: Fold) -> FoldScore:
        labels = fold.estimator._certified_labels(fold.X_test)
        return self(fold.y_test, labels, fold.classes, fold.score_params.get("sample_weight"))

    def __call__(self, y: Array, labels: CertifiedLabels, classes: Array, weights: Array | None = None) -> FoldScore:
        codes, is_right = np.searchsorted(classes, y), labels.labels == y
        weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
        low, high = is_right & labels.proved, is_right | ~labels.proved
        return FoldScore(*(self.of(codes, mask, weights) for mask in (is_right, low, high)))


def _accuracy(codes: Array, is_right: Array, weights: Array) -> float:
    return float(weights @ is_right / weights.sum())


def _balanced_accuracy(codes: Array, is_right: Array, weights: Array) -> float:
    """The mean of the classes' own accuracies, over the classes that occur."""
    counts, hits = np.bincount(codes, weights), np.bincount(codes, weights * is_right)
    occurs = counts > 0.0
    return float(np.mean(hits[occurs] / counts[occurs]))


def _f1_of(positive: int) -> Metric:
    """F1 of two classes, where a wrong label is that of the other class."""

    def f1(codes: Array, is_right: Array, weights: Array) -> float:
        hits, errors = float(weights @ (is_right & (codes == positive))), float(weights @ ~is_right)
        return 2.0 * hits / (2.0 * hits + errors) if hits else 0.0

    return f1


def bounded_metric(scoring: Any, classes: Array) -> BoundedMetric | None:
    """The metric behind a score that can be bounded; None for other scores, by which no value is given up. F1 is bounded for
    two classes, the positive one of which has the label 1, as in scikit-learn."""
    known: dict[Any, Metric] = {None: _accuracy, "accuracy": _accuracy, "balanced_accuracy": _balanced_accuracy}
    if len(classes) == 2 and classes.dtype.kind in "iufb" and 1 in classes:
        known["f1"] = _f1_of(int(np.flatnonzero(classes == 1)[0]))
    metric = known.get(scoring) if scoring is None or isinstance(scoring, str) else None
    return None if metric is None else BoundedMetric(metric)


class BoundedErrors(NamedTuple):
    """A score of a regression that falls with the magnitude of each residual: of the targets, the magnitudes of the residuals,
    and the weights of the samples."""

    of: Metric
    greatest: float

    def of_fold(self, fold: Fold) -> FoldScore:
        """The score at the values, and at the residuals that are greatest and least within their radii."""
        y, found = fold.y_test, fold.estimator._certified_values(fold.X_test)
        weights = fold.score_params.get("sample_weight")
        weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
        residuals = np.abs(y - found.values)
        radius = found.radius + RESIDUAL_ROUNDING * (np.abs(y) + np.abs(found.values))
        ends = residuals, residuals + radius, np.maximum(0.0, residuals - radius)
        return FoldScore(*(self.of(y, each, weights) for each in ends))


def _r2(y: Array, residuals: Array, weights: Array) -> float:
    """One minus the squared error by the variance of the targets; 1 or 0, as in scikit-learn, where all targets are equal."""
    error = float(weights @ np.square(residuals))
    total = float(weights @ np.square(y - np.average(y, weights=weights)))
    if total == 0.0:
        return 1.0 if error == 0.0 else 0.0
    return 1.0 - error / total


def _negative_mean(power: int) -> Metric:
    def score(y: Array, residuals: Array, weights: Array) -> float:
        return -float(weights @ residuals**power / weights.sum())

    return score


def bounded_errors(scoring: Any) -> BoundedErrors | None:
    """The errors behind a score of a regression that can be bounded; None for other scores."""
    known = {
        None: BoundedErrors(_r2, 1.0),
        "r2": BoundedErrors(_r2, 1.0),
        "neg_mean_squared_error": BoundedErrors(_negative_mean(2), 0.0),
        "neg_mean_absolute_error": BoundedErrors(_negative_mean(1), 0.0),
    }
    return known.get(scoring) if scoring is None or isinstance(scoring, str) else None


@dataclass
class Fold:
    """The training and the validation samples of one fold, and the estimator that is trained on it again and again."""

    estimator: Any
    X: Any
    y: Array
    sample_weight: Array | None
    X_test: Any
    y_test: Array
    score_params: dict[str, Any]
    classes: Array
    train_rows: Array
    """The places of the training samples among all."""
    test_rows: Array
    first_start: Any = None
    was_settled: bool = False
    """Whether the labels of the last value were all proved."""

    def train(self, C: float, limits: Limits) -> list[Solution]:
        self.estimator.C = C
        solutions: list[Solution] = self.estimator._train(self.X, self.y, self.sample_weight, limits)
        return solutions

    def score(self, scorer: Any, metric: BoundedMetric | BoundedErrors | None) -> FoldScore:
        if metric is not None and set(self.score_params) <= {"sample_weight"}:
            return metric.of_fold(self)
        value = float(scorer(self.estimator, self.X_test, self.y_test, **self.score_params))
        return FoldScore(value, -math.inf, math.inf)

    def remember(self) -> None:
        """Keep where the first value ended."""
        self.first_start = getattr(self.estimator, "_warm_start", None)  # there is none where no time was left

    def turn_back(self) -> None:
        """Start the next value from the first one again."""
        self.estimator._warm_start = self.first_start


@dataclass
class ListSearch:
    """Scores of every value (columns) on every fold (rows). ``solutions`` are those that ended before ``tol`` without a proof
    of their labels."""

    folds: Sequence[Fold]
    Cs: Array
    limits: Limits
    scorer: Any
    metric: BoundedMetric | BoundedErrors | None
    n_jobs: int | None
    best_low: float = -math.inf
    """The best proved mean score so far. It may come from another gamma."""
    stop: Stop = field(default_factory=Stop)
    solutions: list[Solution] = field(default_factory=list)

    def __post_init__(self) -> None:
        shape = len(self.folds), len(self.Cs)
        self.is_over = np.zeros(shape, bool)
        self.scores, self.outcomes = np.full(shape, np.nan), np.full(shape, GIVEN_UP, dtype=object)
        self.low, self.high = np.full(shape, -math.inf), np.full(shape, self.metric.greatest if self.metric else math.inf)

    def run(self) -> ListSearch:
        middle = len(self.Cs) // 2
        for k in range(middle, len(self.Cs)):
            self._try(k)
            if k == middle:
                for fold in self.folds:
                    fold.remember()
        for fold in self.folds:
            fold.turn_back()
        for k in range(middle - 1, -1, -1):
            self._try(k)
        return self

    def _try(self, k: int) -> None:
        """Train one value on fold after fold, as long as it can win; on several threads on all folds at once."""
        if thread_count(self.n_jobs, len(self.folds)) > 1:
            self._in_threads(lambda i: self._train(i, k), range(len(self.folds)))
        else:
            for i in range(len(self.folds)):
                if not self._can_win(k):
                    break
                self._train(i, k)
        self.is_over[:, k] = True
        self.best_low = max(self.best_low, float(self.low[:, k].mean()))

    def _in_threads(self, work: Callable[[int], None], places: Sequence[int]) -> None:
        """Each of these folds in a thread. Ctrl-C ends all of them."""

        def heard(i: int) -> None:
            with self.stop.heard():
                work(i)

        with ThreadPoolExecutor(thread_count(self.n_jobs, len(places))) as pool:
            futures: list[Future[None]] = []
            try:
                futures += [pool.submit(heard, i) for i in places]
                wait_for(futures)
            except KeyboardInterrupt:
                self.stop.set()
                raise
            for future in futures:
                future.result()

    def _can_win(self, k: int) -> bool:
        return not float(self.high[:, k].mean()) < self.best_low

    def _train(self, i: int, k: int) -> None:
        """One value on one fold, unless the time is up."""
        try:
            if self.stop.is_due:
                raise OutOfTimeError
            self._train_in_time(i, k)
        except OutOfTimeError:
            self.outcomes[i, k] = OUT_OF_TIME
        if self.stop.is_told:
            raise KeyboardInterrupt
        self.is_over[i, k] = True

    @property
    def _next_share(self) -> Stop:
        """The Stop of the next training."""
        n_left = np.count_nonzero(~self.is_over)
        return self.stop.share(n_left / thread_count(self.n_jobs, len(self.folds)))

    def _train_in_time(self, i: int, k: int) -> None:
        fold, tol = self.folds[i], self.limits.tol
        coarse = min(policy.SEARCH.coarsest, policy.SEARCH.coarse_factor * tol) if fold.was_settled else tol
        for each in [coarse, tol] if coarse > tol else [tol]:
            with self._next_share.heard():
                solutions = fold.train(float(self.Cs[k]), replace(self.limits, tol=each))
            if self.stop.is_told:  # no score is asked for after Ctrl-C
                raise OutOfTimeError
            with self.stop.last_chance().heard():
                score = fold.score(self.scorer, self.metric)
            is_settled = score.low == score.high
            if is_settled:
                break
        fold.was_settled = is_settled
        self.scores[i, k], self.low[i, k], self.high[i, k] = score
        short = [] if is_settled else [solution for solution in solutions if not solution.status.is_as_asked]
        self.solutions += short
        self.outcomes[i, k] = PROVED if is_settled and each > tol else (SHORT if short else TRAINED)

    @property
    def mean_scores(self) -> Array:
        """Minus infinity for a value that was given up."""
        means = self.scores.mean(axis=0)
        return np.where(np.isnan(means), -math.inf, means)

    @property
    def partial_scores(self) -> Array:
        """The means over the folds that a value was trained on. Minus infinity where there is none."""
        is_known = ~np.isnan(self.scores)
        sums = np.where(is_known, self.scores, 0.0).sum(axis=0)
        return np.where(is_known.any(axis=0), sums / np.maximum(1, is_known.sum(axis=0)), -math.inf)


class Best(NamedTuple):
    """The search and the value with the best mean score."""

    search: int
    value: int
    score: float


def best_of(searches: Sequence[ListSearch]) -> Best:
    """The best value by the mean over all folds. If the time was not enough for that with any value, by the folds that there
    are; if there are none, the value in the middle, where a search begins."""
    for scores in ([each.mean_scores for each in searches], [each.partial_scores for each in searches]):
        means = np.stack(scores)
        if np.isfinite(means).any():
            search, value = np.unravel_index(int(np.argmax(means)), means.shape)
            return Best(int(search), int(value), float(means[search, value]))
    return Best(0, len(searches[0].Cs) // 2, math.nan)


def warn_if_cut(outcomes: Array) -> None:
    """Raise a ConvergenceWarning if the time was not enough for all folds and values."""
    n_lost = int(np.count_nonzero(outcomes == OUT_OF_TIME))
    if n_lost:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"max_seconds was reached during the search: {n_lost} of {outcomes.size} fits on folds were not made (outcomes_ "
            "says which), and the chosen values are the best of those that were tried.",
            ConvergenceWarning,
            stacklevel=3,
        )

"""The proof over a range of C: what LinearSVCCV, SVCCV, LinearSVRCV and SVRCV share."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import checks
from maxmargin.estimators.cross_validated import known_score
from maxmargin.estimators.jobs import thread_count
from maxmargin.estimators.search import BOUNDED, BOUNDED_ERRORS, OUT_OF_TIME, Fold
from maxmargin.model_selection.linear_fold import linear_fold
from maxmargin.model_selection.path import checked_range
from maxmargin.model_selection.race import Race, known_regret
from maxmargin.model_selection.range_errors import ABSOLUTE_ERROR, R2, SQUARED_ERROR, RangeError, Residuals
from maxmargin.model_selection.range_scores import ACCURACY, BALANCED_ACCURACY, F1, Counts, RangeScore
from maxmargin.problem.linear import LinearProblem

IN_RANGE = "trained as far as the proof over the range needs"

RANGE_SCORES = {None: ACCURACY, "accuracy": ACCURACY, "balanced_accuracy": BALANCED_ACCURACY, "f1": F1}
RANGE_ERRORS = {None: R2, "r2": R2, "neg_mean_squared_error": SQUARED_ERROR, "neg_mean_absolute_error": ABSOLUTE_ERROR}

Score = RangeScore | RangeError


class Asked(NamedTuple):
    """The ends of a range, the regret that is asked for, and the score that is proved over the range."""

    low: float
    high: float
    regret: float
    score: Any


def checked_search(search: Any, y: Array, given: Any) -> Asked:
    """What is asked of a classifier."""
    score = _checked_score(
        search, given, known_score(search.scoring, BOUNDED), RANGE_SCORES, "accuracy, balanced_accuracy or f1"
    )
    classes = checks.two_classes_of(y)
    if score is F1 and not (classes.dtype.kind in "iufb" and classes[1] == 1):
        raise ValueError(
            f"F1 over a range needs the label 1 for the positive class, and a smaller one; got {classes.tolist()}."
        )
    return Asked(*checked_range(search.C_range), float(search.regret), score)


def checked_error_search(search: Any, given: Any) -> Asked:
    """What is asked of a regression."""
    words = "r2, neg_mean_squared_error or neg_mean_absolute_error"
    score = _checked_score(search, given, known_score(search.scoring, BOUNDED_ERRORS), RANGE_ERRORS, words)
    return Asked(*checked_range(search.C_range), float(search.regret), score)


def _checked_score(search: Any, given: Any, name: Any, known: dict[Any, Any], words: str) -> Any:
    checked_range(search.C_range)
    checks.number("regret", search.regret, at_least=0.0)
    is_known = (name is None or isinstance(name, str)) and name in known
    if not is_known or not set(given.scorer.score) <= {"sample_weight"}:
        raise ValueError(f"C_range proves {words}; got scoring={search.scoring!r}. Others take a list Cs=[...].")
    return known[name]


def counts_of(fold: Fold, score: Score) -> Counts | Residuals:
    """The validation samples of a fold."""
    weights = fold.score_params.get("sample_weight")
    if isinstance(score, RangeError):
        return Residuals.of(fold.y_test, score, weights)
    return Counts.of(np.where(fold.y_test == fold.classes[1], 1, -1), score, weights)


def race_linear(search: Any, folds: Sequence[Fold], problems: Sequence[LinearProblem], asked: Asked, stop: Stop) -> None:
    """Race over a range with linear models, and keep what is found. ``problems`` are those of the folds at C = 1."""
    own = [
        linear_fold(problem, fold.X_test, counts_of(fold, asked.score)) for problem, fold in zip(problems, folds, strict=True)
    ]
    n_threads = thread_count(search.n_jobs, len(folds))
    race = Race(list(own), solver=search.solver, stop=stop, n_threads=n_threads).run(asked.low, asked.high, asked.regret)
    result = RangeResult.of(race)
    result.keep(search)
    search.regret_, search.proof_ = race.regret, sentence([result], result)


class RangeResult(NamedTuple):
    """What is left of a race: the values of C with fits, the scores of the folds there with their bounds, and the ceilings
    between them. Where the time was up, ``Cs`` may not reach to the ``ends`` of the range, or be empty."""

    Cs: Array
    scores: Array
    bounds: Array
    ceilings: Array
    best: int
    n_fits: int
    score: Any
    ends: tuple[float, float]
    ceiling: float
    """What no C of the range exceeds."""
    was_cut: bool

    @classmethod
    def of(cls, race: Race) -> RangeResult:
        if not race.knots:
            return cls.nothing(race.ends, len(race.folds), race.score)
        low, high, scores = np.array([race.at(C) for C in race.knots]).transpose(2, 1, 0)
        ceilings = np.array([stretch.ceiling for stretch in race.stretches.values()])
        place = race.knots.index(race.best)
        figures = np.array(race.knots), scores, np.stack([low, high]), ceilings
        return cls(*figures, place, race.n_fits, race.score, race.ends, race.ceiling, race.was_cut)

    @classmethod
    def nothing(cls, ends: tuple[float, float], n_folds: int, score: Score) -> RangeResult:
        """The result of a race that there was no time for."""
        empty = np.empty((n_folds, 0))
        return cls(np.empty(0), empty, np.stack([empty, empty]), np.empty(0), 0, 0, score, ends, score.greatest, True)

    @property
    def C(self) -> float:
        """The best C; the one in the middle where there is none."""
        return float(self.Cs[self.best]) if len(self.Cs) else math.sqrt(self.ends[0] * self.ends[1])

    @property
    def floor(self) -> float:
        """The best score that is proved."""
        return float(self.bounds[0, :, self.best].mean()) if len(self.Cs) else -math.inf

    @property
    def proved_ends(self) -> tuple[float, float]:
        return float(self.Cs[0]), float(self.Cs[-1])

    def keep(self, search: Any) -> None:
        """Set the attributes of a search. ``regret_`` and ``proof_`` are up to the search."""
        search.C_ = self.C
        (self._keep_knots if len(self.Cs) else self._keep_nothing)(search)

    def _keep_knots(self, search: Any) -> None:
        search.Cs_, search.scores_, search.score_bounds_, search.ceilings_ = self.Cs, self.scores, self.bounds, self.ceilings
        search.best_score_ = float(self.scores[:, self.best].mean())
        search.outcomes_ = np.full(self.scores.shape, IN_RANGE, dtype=object)

    def _keep_nothing(self, search: Any) -> None:
        shape = self.scores.shape[0], 1
        search.Cs_, search.scores_, search.ceilings_ = np.array([self.C]), np.full(shape, np.nan), np.empty(0)
        search.score_bounds_ = np.stack([np.full(shape, -math.inf), np.full(shape, self.score.greatest)])
        search.best_score_, search.outcomes_ = math.nan, np.full(shape, OUT_OF_TIME, dtype=object)


def regret_of(results: Sequence[RangeResult], best: RangeResult, asked: float) -> float:
    """By how much any C, with the gamma of any of the results, can be better than the best one."""
    ceiling = max(each.ceiling for each in results)
    return known_regret(best.score.regret(ceiling, best.floor), asked) if len(best.Cs) else math.inf


def sentence(results: Sequence[RangeResult], best: RangeResult, gammas: Array | None = None, gamma: float = 0.0) -> str:
    """What the results of all gammas prove, in a few words."""
    if not len(best.Cs):
        return "Nothing is proved: the time was up before the first value of C was trained on all folds."
    here = f"at C = {best.C:.4g}" + (f", gamma = {gamma:.4g}" if gammas is not None else "")
    score, (low, high) = best.score, best.bounds[:, :, best.best].mean(axis=1)
    n_values, n_fits = sum(len(each.Cs) for each in results), sum(each.n_fits for each in results)
    words = [score.stated(low, high).format(here), *_denials(results, best, gammas), f"{n_values} values of C, {n_fits} fits."]
    return " ".join(words)


def _denials(results: Sequence[RangeResult], best: RangeResult, gammas: Array | None) -> list[str]:
    """What no C exceeds. A result that does not reach to the ends of the range has a sentence of its own."""
    names = [""] * len(results) if gammas is None else [f"{each:.4g}" for each in gammas]
    is_whole = [bool(len(each.Cs)) and each.proved_ends == each.ends for each in results]
    whole = [each for each, covers in zip(results, is_whole, strict=True) if covers]
    words = []
    if whole:
        there = (
            ""
            if gammas is None
            else f" with gamma = {', '.join(n for n, covers in zip(names, is_whole, strict=True) if covers)}"
        )
        ceiling = max(each.ceiling for each in whole)
        words.append(f"No C between {best.ends[0]:g} and {best.ends[1]:g}{there} {best.score.denied(ceiling)}.")
    for each, name, covers in zip(results, names, is_whole, strict=True):
        if not covers:
            words.append(_cut_denial(each, "" if gammas is None else f" with gamma = {name}"))
    if any(each.was_cut for each in results):
        words.append("The time was up before the regret that was asked for was proved.")
    return words


def _cut_denial(result: RangeResult, there: str) -> str:
    if len(result.Cs) < 2:
        return f"Nothing is proved of other values of C{there}."
    low, high = result.proved_ends
    denied = result.score.denied(float(result.ceilings.max()))
    return f"No C between {low:g} and {high:g}{there} {denied}, and nothing is proved of the rest of the range."


def warn_if_unproved(search: Any) -> None:
    """Raise a ConvergenceWarning if the regret that was asked for is not proved."""
    if getattr(search, "C_range", None) is None or search.regret_ <= search.regret:
        return
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"The proof over the range has a regret of {search.regret_:.4g}; {search.regret:g} was asked for. proof_ says what is "
        "proved. Bounds grow with the lengths of the samples: standardised columns (StandardScaler) have better ones.",
        ConvergenceWarning,
        stacklevel=3,
    )

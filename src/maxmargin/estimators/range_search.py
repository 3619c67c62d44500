"""The proof over a range of C: what LinearSVCCV and SVCCV share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.estimators import checks
from maxmargin.estimators.cross_validated import known_score
from maxmargin.estimators.search import BOUNDED, Fold
from maxmargin.model_selection.path import checked_range
from maxmargin.model_selection.race import Race
from maxmargin.model_selection.range_scores import ACCURACY, BALANCED_ACCURACY, F1, Counts, RangeScore

IN_RANGE = "trained as far as the proof over the range needs"

RANGE_SCORES = {None: ACCURACY, "accuracy": ACCURACY, "balanced_accuracy": BALANCED_ACCURACY, "f1": F1}


def checked_search(search: Any, y: Array, given: Any) -> tuple[float, float, RangeScore]:
    """The ends of the range, and the score that is proved over it."""
    low, high = checked_range(search.C_range)
    checks.number("regret", search.regret, at_least=0.0)
    name = known_score(search.scoring, BOUNDED)
    is_known = (name is None or isinstance(name, str)) and name in RANGE_SCORES
    if not is_known or not set(given.scorer.score) <= {"sample_weight"}:
        raise ValueError(
            f"C_range proves accuracy, balanced_accuracy or f1; got scoring={search.scoring!r}. Others take a list Cs=[...]."
        )
    classes = checks.two_classes_of(y)
    if name == "f1" and not (classes.dtype.kind in "iufb" and classes[1] == 1):
        raise ValueError(
            f"F1 over a range needs the label 1 for the positive class, and a smaller one; got {classes.tolist()}."
        )
    return low, high, RANGE_SCORES[name]


def counts_of(fold: Fold, score: RangeScore) -> Counts:
    """The validation samples of a fold."""
    return Counts.of(np.where(fold.y_test == fold.classes[1], 1, -1), score, fold.score_params.get("sample_weight"))


class RangeResult(NamedTuple):
    """What is left of a race: the values of C with fits, the scores of the folds there with their bounds, and the ceilings
    between them."""

    Cs: Array
    scores: Array
    bounds: Array
    ceilings: Array
    best: int
    n_fits: int
    score: RangeScore

    @classmethod
    def of(cls, race: Race) -> RangeResult:
        low, high, scores = np.array([race.at(C) for C in race.knots]).transpose(2, 1, 0)
        ceilings = np.array([stretch.ceiling for stretch in race.stretches.values()])
        place = race.knots.index(race.best)
        return cls(
            np.array(race.knots), scores, np.stack([low, high]), ceilings, place, race.n_fits, race.folds[0].counts.score
        )

    @property
    def C(self) -> float:
        return float(self.Cs[self.best])

    @property
    def floor(self) -> float:
        """The best score that is proved."""
        return float(self.bounds[0, :, self.best].mean())

    @property
    def ceiling(self) -> float:
        """What no C of the range exceeds."""
        return float(self.ceilings.max())

    def keep(self, search: Any) -> None:
        """Set the attributes of a search. ``regret_`` and ``proof_`` are up to the search."""
        search.Cs_, search.C_ = self.Cs, self.C
        search.scores_, search.score_bounds_, search.ceilings_ = self.scores, self.bounds, self.ceilings
        search.best_score_ = float(self.scores[:, self.best].mean())
        search.outcomes_ = np.full(self.scores.shape, IN_RANGE, dtype=object)


def sentence(results: Sequence[RangeResult], best: RangeResult, gammas: Array | None = None, gamma: float = 0.0) -> str:
    """What the results of all gammas prove, in a few words."""
    low, high = best.bounds[:, :, best.best].mean(axis=1)
    here, there = "", ""
    if gammas is not None:
        here, there = f", gamma = {gamma:.4g}", f" with gamma = {', '.join(f'{each:.4g}' for each in gammas)}"
    ceiling, n_values = max(each.ceiling for each in results), sum(len(each.Cs) for each in results)
    return (
        f"Cross-validated {best.score.name} at C = {best.C:.4g}{here} is proved to be between {low:.4f} and {high:.4f}. "
        f"No C between {best.Cs[0]:g} and {best.Cs[-1]:g}{there} has {best.score.with_article} above {ceiling:.4f}. "
        f"{n_values} values of C, {sum(each.n_fits for each in results)} fits."
    )

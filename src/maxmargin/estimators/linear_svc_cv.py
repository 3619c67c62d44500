"""LinearSVCCV: LinearSVC that chooses its own C by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import checks, policy
from maxmargin.estimators.cross_validated import adopt, folds_of, routed, router_of, scorer_of, values_of
from maxmargin.estimators.jobs import warn_if_uncertified
from maxmargin.estimators.linear_search import FoldLinearSVC
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.parameters import explained
from maxmargin.estimators.presentation import fit_task, with_callbacks
from maxmargin.estimators.search import Fold, ListSearch, best_of, bounded_metric, warn_if_cut
from maxmargin.model_selection.path import checked_range
from maxmargin.model_selection.race import Race
from maxmargin.model_selection.race_fold import race_fold
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution

IN_RANGE = "trained as far as the proof over the range needs"

OWN = ("Cs", "C_range", "regret", "cv", "scoring", "refit", "n_jobs")
"""Parameters of the search, and not of the model."""


class LinearSVCCV(LinearSVC):
    """Linear support vector classification with C chosen by cross-validation.

    All values of C share each fold's rows, and each fit starts from the dual variables of its neighbour. A fold is done when
    all its validation labels are proved to be those of the exact optimum, or at ``tol``. A value of C that provably cannot be
    the best one is not trained any further.

    Parameters
    ----------
    Cs : int or list of float, default 13
        The values to try. A number means that many values from 1e-3 to 1e3, at equal ratios.
    C_range : (float, float), optional
        Instead of a list: the least and the greatest C. Fits are added until it is proved that no C of the range has a
        cross-validated accuracy that is better by more than ``regret``. Only for two classes and accuracy, with a penalised
        intercept or none. ``tol`` applies to the final model.
    regret : float, default 0.005
        With ``C_range``: how much better another C may be, in accuracy.
    cv : int, splitter or iterable, optional
        As in scikit-learn; the default is five stratified folds.
    scoring : str or callable, optional
        As in scikit-learn; the default is accuracy. "accuracy", "balanced_accuracy" and, with two classes, "f1" have bounds.
        With any other score, every value is trained to ``tol`` on every fold.
    refit : bool, default True
        Train the model on all samples with the best C. Without it there is nothing that predicts.
    n_jobs : int, optional
        Threads for the folds.
    loss, penalty, dual, tol, multi_class, fit_intercept, intercept_scaling, class_weight, verbose, random_state, max_iter, \
solver, max_seconds, penalize_intercept, sharp_proofs
        As in :class:`maxmargin.LinearSVC`. ``max_iter`` limits each fit, and ``max_seconds`` the
        search and the last fit together; folds that it leaves no time for are not trained. ``C_range`` has no limit.

    Attributes
    ----------
    C_ : float
        The best C; of several the smallest.
    Cs_ : array of shape (n_Cs,)
        The values, in rising order.
    scores_ : array of shape (n_folds, n_Cs)
        NaN where a value was not trained because it cannot be the best one.
    score_bounds_ : array of shape (2, n_folds, n_Cs)
        The least and the greatest score that the exact optimum can have; infinite where the score has no bounds.
    best_score_ : float
        The mean of ``scores_`` at ``C_``.
    outcomes_ : array of str of shape (n_folds, n_Cs)
        How each training ended.
    proof_ : str
        With ``C_range``: what is proved, in a few words.
    regret_ : float
        With ``C_range``: by how much any C of the range can be better than ``C_``.
    ceilings_ : array of shape (n_Cs - 1,)
        With ``C_range``: the greatest accuracy that any C between two neighbours of ``Cs_`` can have.
    coef_, intercept_, classes_, certificate_, ...
        Those of the :class:`maxmargin.LinearSVC` that was trained on all samples.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import LinearSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = LinearSVCCV(Cs=[0.01, 0.1, 1.0]).fit(StandardScaler().fit_transform(X), y)
    >>> bool(search.best_score_ > 0.96)
    True
    """

    @explained
    def __init__(
        self,
        Cs: Any = 13,
        *,
        C_range: Any = None,
        regret: float = 0.005,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        n_jobs: int | None = None,
        penalty: Literal["l1", "l2"] = "l2",
        loss: Literal["hinge", "squared_hinge"] = "squared_hinge",
        dual: Literal["auto"] | bool = "auto",
        tol: float = 1e-4,
        multi_class: Literal["ovr", "crammer_singer"] = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = -1,
        solver: Any = "auto",
        max_seconds: float | None = None,
        penalize_intercept: bool = True,
        sharp_proofs: bool = False,
    ) -> None:
        self.Cs = Cs
        self.C_range = C_range
        self.regret = regret
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.max_seconds = max_seconds
        self.penalize_intercept = penalize_intercept
        self.sharp_proofs = sharp_proofs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> LinearSVCCV:
        """Choose C, and train with it on all samples. ``groups`` go to the splitter; other metadata is routed as in
        scikit-learn."""
        solutions, limits = self._fit_all(X, y, sample_weight, params)
        warn_if_cut(self.outcomes_)
        warn_if_uncertified(solutions, limits)
        return self

    @with_callbacks
    def _fit_all(self, X: Any, y: Any, sample_weight: Any, params: dict[str, Any]) -> tuple[list[Solution], Limits]:
        """The certificates that scikit-learn's callbacks hear of are those of the last fit, on all samples."""
        with fit_task(self, X, y, sample_weight), checks.unchanged_on_error(self):
            model = self._model()
            limits = model._check_parameters()
            whole, folds_stop = (Stop.after(share * limits.max_seconds) for share in (1.0, policy.SEARCH.time_share))
            checks.flag("refit", self.refit)
            X, y = checks.validated(self, X, y)
            given = routed(self, sample_weight, params)
            if self.C_range is None:
                folds = folds_of(self, self._model(FoldLinearSVC, warm_start=True), X, y, sample_weight, given)
                with folds_stop.heard():
                    solutions = self._search_list(folds, checks.classes_of(y), limits, folds_stop)
            else:
                solutions = self._search_range(model, X, y, sample_weight, given)
            if self.refit:
                model = self._model().set_params(C=self.C_, n_jobs=self.n_jobs, callback=self._watcher())
                solutions += model._train(X, y, sample_weight, replace(limits, max_seconds=whole.seconds_left))
                adopt(self, model)
        return solutions, limits

    def _search_list(self, folds: list[Fold], classes: Array, limits: Limits, stop: Stop) -> list[Solution]:
        Cs, metric = values_of(self.Cs), bounded_metric(self.scoring, classes)
        search = ListSearch(folds, Cs, limits, scorer_of(self), metric, self.n_jobs, stop=stop).run()
        self._keep_search(search)
        return list(search.solutions)

    def _search_range(self, model: LinearSVC, X: Any, y: Array, sample_weight: Any, given: Any) -> list[Solution]:
        low, high = checked_range(self.C_range)
        checks.number("regret", self.regret, at_least=0.0)
        if self.scoring not in (None, "accuracy") or given.scorer.score.get("sample_weight") is not None:
            raise ValueError("C_range proves accuracy, of samples of equal weight: leave scoring and sample_weight out.")
        if self.penalty != "l2":
            raise ValueError(f"C_range is proved for penalty='l2'; got penalty={self.penalty!r}. Cs takes a list of values.")
        classes = checks.two_classes_of(y)
        folds = folds_of(self, model, X, y, sample_weight, given)
        races = [
            race_fold(
                fold.estimator.binary_problem(fold.X, fold.y, fold.sample_weight),
                fold.X_test,
                np.where(fold.y_test == classes[1], 1, -1),
                len(folds),
            )
            for fold in folds
        ]
        self._keep_race(Race(races, solver=self.solver).run(low, high, float(self.regret)))
        return []

    def _keep_race(self, race: Race) -> None:
        self.Cs_, self.C_ = np.array(race.knots), race.best
        at_knots = np.array([[fold.at(C) for C in race.knots] for fold in race.folds])
        self.score_bounds_ = 1.0 - len(race.folds) * np.moveaxis(at_knots, 2, 0)[::-1]
        margins = [[fold.scores[C][0] > 0.0 for C in race.knots] for fold in race.folds]
        self.scores_ = np.array([[float(right.mean()) for right in fold] for fold in margins])
        self.best_score_ = float(self.scores_[:, race.knots.index(race.best)].mean())
        self.ceilings_ = np.array([stretch.ceiling for stretch in race.stretches.values()])
        self.regret_, self.proof_ = race.regret, race.proof()
        self.outcomes_ = np.array([[IN_RANGE] * len(race.knots)] * len(race.folds), dtype=object)

    def _model(self, cls: type[LinearSVC] = LinearSVC, **more: Any) -> LinearSVC:
        """The estimator whose C is searched."""
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        return cls(**parameters, **more)

    def _keep_search(self, search: ListSearch) -> None:
        best = best_of([search])
        self.Cs_, self.C_ = search.Cs, float(search.Cs[best.value])
        self.scores_, self.best_score_ = search.scores, best.score
        self.score_bounds_ = np.stack([search.low, search.high])
        self.outcomes_ = search.outcomes

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """By ``scoring``."""
        return float(scorer_of(self)(self, X, y, **({} if sample_weight is None else {"sample_weight": sample_weight})))

    def get_metadata_routing(self) -> Any:
        return router_of(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "certificate_")

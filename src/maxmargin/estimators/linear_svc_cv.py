"""LinearSVCCV: LinearSVC that chooses its own C by cross-validation."""

from __future__ import annotations

from typing import Any, Literal

from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import checks
from maxmargin.estimators.cross_validated import Samples, Searching, folds_of, known_score, scorer_of, values_of
from maxmargin.estimators.linear_search import FoldLinearSVC
from maxmargin.estimators.linear_svc import LinearSVC
from maxmargin.estimators.parameters import explained
from maxmargin.estimators.range_search import checked_search, race_linear, warn_if_unproved
from maxmargin.estimators.search import BOUNDED, Fold, ListSearch, bounded_metric
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class LinearSVCCV(Searching, LinearSVC):
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
        cross-validated score that is better by more than ``regret``. Only for two classes, with a penalised intercept or none;
        ``scoring`` may be accuracy (the default), "balanced_accuracy" or "f1". ``tol`` applies to the final model.
    regret : float, default 0.005
        With ``C_range``: how much better the score of another C may be.
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
        search and the last fit together; folds that it leaves no time for are not trained. With ``C_range``, ``proof_`` and
        ``regret_`` say what is proved by then.

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
        With ``C_range``: the greatest score that any C between two neighbours of ``Cs_`` can have.
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

    _own = ("Cs", "C_range", "regret", "cv", "scoring", "refit", "n_jobs")
    _plain = LinearSVC

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

    def _search(self, samples: Samples, given: Any, limits: Limits, stop: Stop) -> list[Solution]:
        if self.C_range is not None:
            return self._search_range(samples, given, stop)
        folds = folds_of(self, self._model(FoldLinearSVC, warm_start=True), *samples, given)
        with stop.heard():
            return self._search_list(folds, checks.classes_of(samples.y), limits, stop)

    def _search_list(self, folds: list[Fold], classes: Array, limits: Limits, stop: Stop) -> list[Solution]:
        Cs, metric = values_of(self.Cs), bounded_metric(known_score(self.scoring, BOUNDED), classes)
        return self._keep_list(ListSearch(folds, Cs, limits, scorer_of(self), metric, self.n_jobs, stop=stop).run())

    def _search_range(self, samples: Samples, given: Any, stop: Stop) -> list[Solution]:
        asked = checked_search(self, samples.y, given)
        if self.penalty != "l2":
            raise ValueError(f"C_range is proved for penalty='l2'; got penalty={self.penalty!r}. Cs takes a list of values.")
        folds = folds_of(self, self._model(), *samples, given)
        problems = [fold.estimator.binary_problem(fold.X, fold.y, fold.sample_weight) for fold in folds]
        race_linear(self, folds, problems, asked, stop)
        return []

    def _warn_of_search(self) -> None:
        warn_if_unproved(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags

"""LinearSVRCV: LinearSVR that chooses its own C by cross-validation."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import validate_data

from maxmargin.data.limits import Stop
from maxmargin.data.rows import DTYPES, Array, sound
from maxmargin.estimators.cross_validated import Samples, Searching, folds_of, known_score, scorer_of, values_of
from maxmargin.estimators.linear_search import FoldLinearSVR
from maxmargin.estimators.linear_svr import LinearSVR
from maxmargin.estimators.range_search import checked_error_search, race_linear, warn_if_unproved
from maxmargin.estimators.search import BOUNDED_ERRORS, ListSearch, bounded_errors
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class LinearSVRCV(Searching, LinearSVR):
    """Linear support vector regression with C chosen by cross-validation.

    All values of C share each fold's rows, and each fit starts where that of its neighbour ended. The score of a fold is
    bounded by the certificate. A value of C that provably cannot be the best one is not trained any further.

    Parameters
    ----------
    Cs : int or list of float, default 13
        The values to try. A number means that many values from 1e-3 to 1e3, at equal ratios.
    C_range : (float, float), optional
        Instead of a list: the least and the greatest C. Fits are added until it is proved that no C of the range has a
        cross-validated score that is better by more than ``regret``. Only with an intercept that is penalised, or none.
        ``scoring`` may be R^2 (the default), "neg_mean_squared_error" or "neg_mean_absolute_error". ``tol`` applies to the
        final model.
    regret : float, default 0.005
        With ``C_range``: how much better the score of another C may be. For R^2 that is a difference, which is a share of the
        variance of y. For an error it is a share of the error of ``C_``.
    cv : int, splitter or iterable, optional
        As in scikit-learn; the default is five folds.
    scoring : str or callable, optional
        As in scikit-learn; the default is R^2. "r2", "neg_mean_squared_error" and "neg_mean_absolute_error" have bounds, by the
        radius of every prediction. With any other score, every value is trained on every fold.
    refit : bool, default True
        Train the model on all samples with the best values. Without it there is nothing that predicts.
    n_jobs : int, optional
        Threads for the folds.
    epsilon, tol, loss, fit_intercept, intercept_scaling, dual, verbose, random_state, max_iter, quantile, penalize_intercept, \
solver, max_seconds
        As in :class:`maxmargin.LinearSVR`. ``max_iter`` limits each fit, ``max_seconds`` the search and the last fit together.
        With ``C_range``, ``proof_`` and ``regret_`` say what is proved by then.

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
        With ``C_range``: by how much any C of the range can be better than ``C_``, measured as ``regret`` is.
    ceilings_ : array of shape (n_Cs - 1,)
        With ``C_range``: the greatest score that any C between two neighbours of ``Cs_`` can have.
    coef_, intercept_, certificate_, ...
        Those of the :class:`maxmargin.LinearSVR` that was trained on all samples.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import LinearSVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = LinearSVRCV(Cs=[1.0, 10.0, 100.0], epsilon=5.0).fit(X, y)
    >>> bool(search.best_score_ > 0.4)
    True
    """

    _own = ("Cs", "C_range", "regret", "cv", "scoring", "refit", "n_jobs")
    _plain = LinearSVR

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
        epsilon: float = 0.0,
        tol: float = 1e-4,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        dual: Any = "auto",
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = -1,
        quantile: float = 0.5,
        penalize_intercept: bool = True,
        solver: Any = "auto",
        max_seconds: float | None = None,
    ) -> None:
        self.Cs = Cs
        self.C_range = C_range
        self.regret = regret
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.epsilon = epsilon
        self.tol = tol
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.quantile = quantile
        self.penalize_intercept = penalize_intercept
        self.solver = solver
        self.max_seconds = max_seconds

    def _validated_samples(self, X: Any, y: Any) -> tuple[Any, Array]:
        return one_target(self, X, y)

    def _search(self, samples: Samples, given: Any, limits: Limits, stop: Stop) -> list[Solution]:
        asked = None if self.C_range is None else checked_error_search(self, given)
        Cs = values_of(self.Cs)
        folds = folds_of(self, self._model(FoldLinearSVR, warm_start=True), *samples, given)
        if asked is not None:
            problems = [fold.estimator.problem(fold.X, fold.y, fold.sample_weight) for fold in folds]
            race_linear(self, folds, problems, asked, stop)
            return []
        with stop.heard():
            metric = bounded_errors(known_score(self.scoring, BOUNDED_ERRORS))
            arguments = limits, scorer_of(self), metric, self.n_jobs
            return self._keep_list(ListSearch(folds, Cs, *arguments, stop=stop).run())

    def _warn_of_search(self) -> None:
        warn_if_unproved(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags


def one_target(search: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """X and one column of numbers, checked."""
    settings: dict[str, Any] = {"dtype": DTYPES, "order": "C", "y_numeric": True}
    X, y = validate_data(search, sound(X), y, accept_sparse="csr", accept_large_sparse=True, **settings)
    return X, y

"""SVRCV: SVR that chooses its own C and gamma by cross-validation."""

from __future__ import annotations

from typing import Any

from maxmargin.certificate.predictions import CertifiedValues
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import checks
from maxmargin.estimators.cross_validated import Samples, known_score, scorer_of
from maxmargin.estimators.gamma_race import race_of
from maxmargin.estimators.gamma_search import GammaSearching
from maxmargin.estimators.linear_svr_cv import one_target
from maxmargin.estimators.parameters import explained
from maxmargin.estimators.range_search import checked_error_search, warn_if_unproved
from maxmargin.estimators.search import BOUNDED_ERRORS, Fold, ListSearch, bounded_errors
from maxmargin.estimators.svr import SVR
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Kernel
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class FoldSVR(SVR):
    """The SVR of one fold."""

    def _certified_values(self, X: Any, diagonal: Array | None = None) -> CertifiedValues:
        return super()._certified_values(X, diagonal)


class SVRCV(GammaSearching, SVR):
    """Support vector regression with kernels, with C and gamma chosen by cross-validation.

    On each fold the fit of a value of C starts from the dual variables of its neighbour. The score of a fold is bounded by the
    certificate. A pair of values that provably cannot be the best one is not trained any further.

    Parameters
    ----------
    Cs : int or list of float, default 13
        The values to try. A number means that many values from 1e-3 to 1e3, at equal ratios.
    gammas : list of float, "scale" or "auto", optional
        The values of ``gamma`` to try. None means ``gamma="scale"`` alone. Kernels without gamma ignore it.
    C_range : (float, float), optional
        Instead of a list: the least and the greatest C. Fits are added until it is proved that no C of the range, with any of
        the ``gammas``, has a cross-validated score that is better by more than ``regret``. Only for a positive semidefinite
        kernel that is computed from X. ``scoring`` may be R^2 (the default), "neg_mean_squared_error" or
        "neg_mean_absolute_error". ``tol`` applies to the final model.
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
    kernel, degree, coef0, tol, epsilon, shrinking, cache_size, verbose, max_iter, loss, quantile, solver, max_seconds
        As in :class:`maxmargin.SVR`. ``max_seconds`` limits the search and the last fit together. With ``C_range``, ``proof_``
        and ``regret_`` say what is proved by then.

    Attributes
    ----------
    C_, gamma_ : float
        The best values.
    Cs_, gammas_ : arrays
    scores_ : array of shape (n_folds, n_gammas, n_Cs)
        NaN where values were not trained because they cannot be the best ones.
    score_bounds_ : array of shape (2, n_folds, n_gammas, n_Cs)
        The least and the greatest score that the exact optimum can have; infinite where the score has no bounds.
    best_score_ : float
    outcomes_ : array of str of shape (n_folds, n_gammas, n_Cs)
        How each training ended.
    proof_ : str
        With ``C_range``: what is proved, in a few words.
    regret_ : float
        With ``C_range``: by how much any C of the range can be better than ``C_``, measured as ``regret`` is.
    ceilings_ : array of shape (n_Cs - 1,)
        With ``C_range``: the greatest score that any C between two neighbours of ``Cs_`` can have. Then ``Cs_``, ``scores_``,
        ``score_bounds_``, ``outcomes_`` and ``ceilings_`` are those of ``gamma_``, without an axis for gamma.
    gamma_ceilings_ : array of shape (n_gammas,)
        With ``C_range``: the greatest score that any C of the range can have with each gamma.
    support_, dual_coef_, certificate_, ...
        Those of the :class:`maxmargin.SVR` that was trained on all samples.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import SVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = SVRCV(Cs=[10.0, 100.0], gammas=[1.0, 10.0], epsilon=5.0).fit(X, y)
    >>> bool(search.best_score_ > 0.4)
    True
    """

    _own = (*GammaSearching._own, "C_range", "regret")
    _plain = SVR

    @explained
    def __init__(
        self,
        Cs: Any = 13,
        *,
        gammas: Any = None,
        C_range: Any = None,
        regret: float = 0.005,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        n_jobs: int | None = None,
        kernel: Any = "rbf",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 500.0,
        verbose: int = 0,
        max_iter: int = -1,
        loss: str = "epsilon_insensitive",
        quantile: float = 0.5,
        solver: Any = "auto",
        max_seconds: float | None = None,
    ) -> None:
        self.Cs = Cs
        self.gammas = gammas
        self.C_range = C_range
        self.regret = regret
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.loss = loss
        self.quantile = quantile
        self.solver = solver
        self.max_seconds = max_seconds

    def _validated_samples(self, X: Any, y: Any) -> tuple[Any, Array]:
        return one_target(self, X, y)

    def _fold_model(self, samples: Samples) -> SVR:
        checks.weighted_costs(1.0, samples.sample_weight, samples.X)
        model: SVR = self._model(FoldSVR, warm_start=True)
        return model

    def _search(self, samples: Samples, given: Any, limits: Limits, stop: Stop) -> list[Solution]:
        if self.C_range is None:
            return super()._search(samples, given, limits, stop)
        asked = checked_error_search(self, given)
        race_of(self, samples, given, asked, limits, stop).run()
        return []

    def _fold_problem(self, fold: Fold, kernel: Kernel) -> KernelProblem:
        """The problem of a fold at C = 1."""
        return self.problem(fold.X, fold.y, fold.sample_weight, kernel)

    def _warn_of_search(self) -> None:
        warn_if_unproved(self)

    def _searched(
        self, X: Any, y: Array, folds: list[Fold], gamma: float, Cs: Array, limits: Limits, best: float, stop: Stop
    ) -> ListSearch:
        """A kernel matrix says nothing of the lengths of the validation samples, so that it gives no bounds."""
        metric = None if self.kernel == "precomputed" else bounded_errors(known_score(self.scoring, BOUNDED_ERRORS))
        for fold in folds:
            fold.estimator.set_params(gamma=float(gamma))
            fold.estimator._warm_start = fold.first_start = None
        return ListSearch(folds, Cs, limits, scorer_of(self), metric, self.n_jobs, best, stop).run()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

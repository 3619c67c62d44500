"""SVCCV: SVC that chooses its own C and gamma by cross-validation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from maxmargin.certificate.predictions import CertifiedLabels
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import checks, policy
from maxmargin.estimators.cross_validated import Samples, known_score, scorer_of
from maxmargin.estimators.gamma_race import race_of
from maxmargin.estimators.gamma_search import GammaSearching
from maxmargin.estimators.kernel_search import SharedFold, SharedPolicy, SharedSearch
from maxmargin.estimators.linear_classifier import bounds_of
from maxmargin.estimators.pairs import KernelProblems, Pair, PairProblems
from maxmargin.estimators.parameters import explained
from maxmargin.estimators.range_search import checked_search, warn_if_unproved
from maxmargin.estimators.search import BOUNDED, Fold, ListSearch, bounded_metric
from maxmargin.estimators.svc import SVC
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.model_selection.transfer import with_costs
from maxmargin.problem import policy as problem_policy
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Kernel, Points
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class FoldValues:
    """The problems of the pairs of classes of one fold, made once for all values of C. The values of ``everyone``, the kernel
    matrix of all samples, are not computed again."""

    def __init__(self, everyone: KernelMatrix | None, train: Array, keeps: bool) -> None:
        self._everyone, self._train, self._keeps = everyone, train, keeps
        self._known: dict[tuple[int, int], KernelProblem] = {}

    def outputs(self, test: Array, support: Array, dual_coef: Array) -> Array | None:
        """Decision values of two classes without the offset, in float32; None where the kernel matrix is not there."""
        if self._everyone is None:
            return None
        return np.asarray(self._everyone.block(test, self._train[support]) @ dual_coef[0])

    def problem(self, pair: Pair, problem: KernelProblem) -> KernelProblem:
        """The problem with what was prepared for the pair at another C."""
        place = pair.first, pair.second
        if place in self._known:
            return with_costs(self._known[place], problem.C)
        if self._everyone is not None and len(pair.samples) > problem_policy.HELD.most_samples:
            problem = replace(problem, fast_values=self._everyone.part(self._train[pair.samples]))
        if self._keeps or len(pair.samples) <= problem_policy.HELD.most_samples:
            self._known[place] = problem
        return problem


@dataclass(frozen=True, eq=False)
class PreparedProblems(KernelProblems):
    """Problems of pairs whose kernel values outlive a fit."""

    values: FoldValues

    def problem(self, pair: Pair) -> KernelProblem:
        return self.values.problem(pair, super().problem(pair))


class FoldSVC(SVC):
    """The SVC of one fold and one gamma. ``_values`` is given to it before its first fit. A fit begins at zero: on 2,000 rows
    it took no longer than one that began at the alpha of another C."""

    _values: FoldValues | None = None
    _test: Array
    """The places of the validation samples among all."""
    _diagonal: Array
    """k(x, x) of the validation samples."""

    def _problems(self, X: Any, kernel: Kernel, costs: Array, codes: Array, pairs: list[Pair]) -> PairProblems:
        problems = super()._problems(X, kernel, costs, codes, pairs)
        if self._values is None or not isinstance(problems, KernelProblems):
            return problems
        return PreparedProblems(X, kernel, costs, problems.has_offset, problems.solver, None, self._values)

    def _certified_labels(self, X: Any) -> CertifiedLabels:
        """Labels and proofs; with two classes first by the values that the fold has anyway."""
        outputs = self._values.outputs(self._test, self.support_, self.dual_coef_) if self._values else None
        if outputs is None or len(self.classes_) > 2 or self._feature_weights_ is not None:
            return self.certified_predict(X)
        values = outputs + self.intercept_[0]
        bounds = bounds_of(self)
        is_open = np.abs(values) <= bounds.distance[0] * np.sqrt(self._diagonal) + bounds.offset[0]
        if is_open.mean() <= policy.SEARCH.open_share:
            return self.certified_predict(X)
        near = np.abs(values) <= policy.SEARCH.fast_digits * np.abs(self.dual_coef_).sum()
        if near.any():
            values[near] = self._pair_values(X[near])[:, 0]
        return CertifiedLabels(self.classes_[(values > 0.0).astype(int)], np.zeros(len(values), bool))


SearchArguments = tuple[list[Fold], Array, Limits, Any, Any, int | None, float]
"""Folds, values of C, limits, scorer, metric, threads, and the best score so far."""


class SVCCV(GammaSearching, SVC):
    """Support vector classification with kernels, with C and gamma chosen by cross-validation.

    The kernel values of all samples are computed once for each gamma, and shared by all folds and all values of C. With two
    classes and the RBF kernel every model is trained on these values in float32, and all models of a gamma are judged together
    in float64: each is certified to be within ``tol``. Otherwise a fold is done when all its validation labels are proved to be
    those of the exact optimum, or at ``tol``. A pair of values that provably cannot be the best one is not trained any further.

    Parameters
    ----------
    Cs : int or list of float, default 13
        The values to try. A number means that many values from 1e-3 to 1e3, at equal ratios.
    gammas : list of float, "scale" or "auto", optional
        The values of ``gamma`` to try. None means ``gamma="scale"`` alone. Kernels without gamma ignore it.
    C_range : (float, float), optional
        Instead of a list of values of C: the least and the greatest C. Fits are added until it is proved that no C of the
        range, with any of the ``gammas``, has a cross-validated score that is better by more than ``regret``. Only for two
        classes and a positive semidefinite kernel that is computed from X. ``scoring`` may be accuracy (the default),
        "balanced_accuracy" or "f1". Where several offsets are optimal, the middle one is meant. ``tol`` applies to the final
        model.
    regret : float, default 0.005
        With ``C_range``: how much better the score of other values may be.
    cv : int, splitter or iterable, optional
        As in scikit-learn; the default is five stratified folds.
    scoring : str or callable, optional
        As in scikit-learn; the default is accuracy. "accuracy", "balanced_accuracy" and, with two classes, "f1" have bounds.
    refit : bool, default True
        Train the model on all samples with the best values. Without it there is nothing that predicts.
    n_jobs : int, optional
        Threads for the folds.
    kernel, degree, coef0, shrinking, tol, cache_size, class_weight, verbose, max_iter, decision_function_shape, break_ties, \
random_state, solver, fit_intercept, max_seconds
        As in :class:`maxmargin.SVC`. ``cache_size`` is the number of megabytes for the kernel values that folds share.
        ``max_seconds`` limits the search and the last fit together. Folds that it leaves no time for are not trained. With
        ``C_range``, ``proof_`` and ``regret_`` say what is proved by then.

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
        With ``C_range``: by how much any C of the range, with any gamma, can be better than ``C_`` and ``gamma_``.
    ceilings_ : array of shape (n_Cs - 1,)
        With ``C_range``: the greatest score that any C between two neighbours of ``Cs_`` can have. Then ``Cs_``, ``scores_``,
        ``score_bounds_``, ``outcomes_`` and ``ceilings_`` are those of ``gamma_``, without an axis for gamma.
    gamma_ceilings_ : array of shape (n_gammas,)
        With ``C_range``: the greatest score that any C of the range can have with each gamma.
    support_, dual_coef_, classes_, certificate_, ...
        Those of the :class:`maxmargin.SVC` that was trained on all samples.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import SVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = SVCCV(Cs=[0.1, 1.0, 10.0], gammas=[0.01, 0.03]).fit(StandardScaler().fit_transform(X), y)
    >>> bool(search.best_score_ > 0.96)
    True
    """

    _own = (*GammaSearching._own, "C_range", "regret")
    _plain = SVC

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
        shrinking: Any = True,
        tol: float = 1e-3,
        cache_size: float = 500.0,
        class_weight: Any = None,
        verbose: int = 0,
        max_iter: int = -1,
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        solver: Any = "auto",
        fit_intercept: bool = True,
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
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.max_seconds = max_seconds

    def _fold_model(self, samples: Samples) -> SVC:
        checks.sample_costs(1.0, self.class_weight, samples.sample_weight, samples.X, checks.classes_of(samples.y), samples.y)
        return self._model(FoldSVC)

    def _trained(self, model: SVC, samples: Samples, limits: Limits) -> list[Solution]:
        model._objects_ = None
        solutions = model._train(*samples, limits)
        model.class_weight_ = model._class_weights(samples.y, samples.sample_weight)
        return solutions

    def _search(self, samples: Samples, given: Any, limits: Limits, stop: Stop) -> list[Solution]:
        if self.C_range is None:
            return super()._search(samples, given, limits, stop)
        asked = checked_search(self, samples.y, given)
        race_of(self, samples, given, asked, limits, stop).run()
        return []

    def _fold_problem(self, fold: Fold, kernel: Kernel) -> KernelProblem:
        """The problem of a fold at C = 1."""
        return SharedFold(fold, kernel, self.fit_intercept, self.class_weight).problem

    def _warn_of_search(self) -> None:
        warn_if_unproved(self)

    def _searched(
        self, X: Any, y: Array, folds: list[Fold], gamma: float, Cs: Array, limits: Limits, best: float, stop: Stop
    ) -> ListSearch:
        """All values of C with one gamma."""
        model = self._model(SVC, gamma=float(gamma))
        model._objects_ = None
        kernel = model._kernel(X, None)
        name = known_score(self.scoring, BOUNDED)
        metric = bounded_metric(name, checks.classes_of(y)) if self.kernel != "precomputed" else None
        for fold in folds:
            fold.estimator.set_params(gamma=float(gamma))._objects_ = None
        if self._has_time_to_share and self._may_share(X, y, kernel, metric, limits):
            arguments = folds, Cs, limits, scorer_of(self), metric, self.n_jobs, best
            search = self._shared_search(X, kernel, arguments, stop)
            if search is not None:
                return search
        everyone, keeps = self._matrix(X, kernel, len(folds))
        for fold in folds:
            estimator = fold.estimator
            estimator._warm_start = None
            estimator._values = FoldValues(everyone, fold.train_rows, keeps)
            estimator._test = fold.test_rows
            if everyone is not None:
                estimator._diagonal = kernel.diagonal(Points.of(fold.X_test))
        return ListSearch(folds, Cs, limits, scorer_of(self), metric, self.n_jobs, best, stop).run()

    def _may_share(self, X: Any, y: Array, kernel: Kernel, metric: Any, limits: Limits) -> bool:
        """Whether the folds can be trained on the float32 values of all samples."""
        is_plain = kernel.is_gaussian and self.solver == "auto" and len(checks.classes_of(y)) == 2 and metric is not None
        if not (is_plain and math.isinf(limits.max_epochs) and limits.tol >= SharedPolicy().least_tol):
            return False
        return KernelMatrix(kernel, Points.of(X), np.float32).megabytes_to_hold <= self.cache_size

    def _shared_search(self, X: Any, kernel: Kernel, arguments: SearchArguments, stop: Stop) -> ListSearch | None:
        """The search on values that all folds share. It has scores at its end only, so that with a limit on the seconds it gets
        a part of them. Where that is not enough, None: fold after fold is trained by itself, and so they are with the next
        gammas."""
        own = stop.share(1.0 / SharedPolicy().limited_share)
        try:
            with own.heard():
                matrix = KernelMatrix.rounded(kernel, Points.of(X), self._memory)
                search = SharedSearch(
                    *arguments, own, matrix=matrix, class_weight=self.class_weight, has_offset=self.fit_intercept
                ).run()
        except OutOfTimeError:
            if stop.is_told or stop.deadline == math.inf:
                raise
            self._memory, self._has_time_to_share = None, False
            return None
        self._memory = matrix.whole
        return search

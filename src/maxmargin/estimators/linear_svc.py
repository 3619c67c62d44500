"""LinearSVC: linear support vector classification with a certificate."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin.data import DTYPES, Array, Rows
from maxmargin.estimators import checks
from maxmargin.estimators.one_vs_rest import run_jobs, serialised, warn_if_uncertified
from maxmargin.losses import Hinge, Loss, SquaredHinge
from maxmargin.problem import LinearProblem
from maxmargin.solution import Solution
from maxmargin.solve import Limits, drive, seed_from
from maxmargin.solvers.registry import solver_named

NOTHING = np.empty(0)
"""In place of an alpha that nobody asked to keep: with many classes they would outweigh X."""

LOSSES: dict[str, Loss] = {"hinge": Hinge(), "squared_hinge": SquaredHinge()}


class LinearSVC(ClassifierMixin, BaseEstimator):
    r"""Linear support vector classification, trained to a certified optimum.

    Minimises :math:`\tfrac12 |w|^2 + \sum_i C_i \ell(y_i (w \cdot x_i + b))` for each class against the rest, with
    scikit-learn's parameters, defaults and attributes. What is added: ``tol`` is the relative duality gap, the fit goes
    on until the certificate shows it, and every answer says how far from the optimum it can be.

    Parameters
    ----------
    penalty : {"l2"}, default "l2"
        "l1" is not there yet.
    loss : {"squared_hinge", "hinge"}, default "squared_hinge"
    dual : {"auto", True, False}, default "auto"
        For compatibility. Every fit solves the primal and the dual together: the gap between them is the certificate.
    tol : float, default 1e-4
        The relative duality gap to reach, ``gap / max(|primal|, |dual|)``.
    C : float, default 1.0
        Weight of the loss, which is a sum over the samples.
    multi_class : {"ovr"}, default "ovr"
        "crammer_singer" is not there yet.
    fit_intercept : bool, default True
    intercept_scaling : float, default 1.0
        The intercept is the weight of a constant feature of this value; like every weight it is regularised, and the less
        the larger this value.
    class_weight : dict or "balanced", optional
        C_i is C times the weight of the sample's own class times its ``sample_weight``, in every binary problem: exactly a
        sample weight. (LIBLINEAR, with more than two classes, weights only the positive class of each binary problem.)
    verbose : int, default 0
        Print a line for each certificate.
    random_state : int, RandomState or None
        Seeds the order of the coordinates. None means 0, so the same call gives the same answer.
    max_iter : int, default -1
        Limit on epochs, each as many steps as there are samples; -1 for none.
    solver : str or solver object, default "auto"
        "auto", "dcd", or for example ``DCD(shrinking=None)``.
    max_seconds : float, optional
        Limit on the time of each binary problem.
    warm_start : bool, default False
        Start from the last fit's dual variables when the number of samples and the classes are the same; they are
        scaled to the new C.
    n_jobs : int, optional
        Threads for the binary problems of a multiclass fit; they share one copy of X.
    callback : callable, optional
        Called with a :class:`maxmargin.Progress` at each certificate; returning True stops the fit.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    classes_, n_features_in_, feature_names_in_, n_iter_
        As in scikit-learn; ``n_iter_`` is the greatest number of epochs.
    certificate_ : Certificate, or a list with one for each class
    relative_gap_ : float
        The worst.
    status_ : Status, or a list with one for each class
    trace_ : tuple of Progress, or a list with one for each class

    A fit that ends before ``tol`` raises a ConvergenceWarning with the gap asked and the gap reached. Ctrl-C ends a fit
    in the same way, with the best answer so far. A fit that fails leaves the estimator as it was.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC(tol=1e-6).fit(StandardScaler().fit_transform(X), y)
    >>> model.relative_gap_ <= 1e-6
    True
    """

    coef_: Any

    def __init__(
        self,
        penalty: str = "l2",
        loss: str = "squared_hinge",
        *,
        dual: Any = "auto",
        tol: float = 1e-4,
        C: float = 1.0,
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = -1,
        solver: Any = "auto",
        max_seconds: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Any = None,
    ) -> None:
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVC:
        """Fit to X of shape (n_samples, n_features), dense or sparse, and labels y of any type."""
        with checks.unchanged_on_error(self):
            limits = self._check_parameters()
            X, y = validate_data(
                self, X, y, accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, order="C", ensure_min_features=1
            )
            check_classification_targets(y)
            classes = np.unique(y)
            if len(classes) < 2:
                raise ValueError(f"The number of classes has to be greater than one; got {len(classes)} class: {classes[0]!r}.")
            costs = checks.sample_costs(self.C, self.class_weight, sample_weight, X, classes, y)
            solutions = self._solve(Rows.from_matrix(X, check=False), y, classes, costs, limits)
            self._keep(classes, solutions)
        warn_if_uncertified(solutions, limits)
        return self

    def decision_function(self, X: Any) -> Array:
        """w . x + b: one column a class, or one value a sample when there are two classes."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return np.asarray(scores).ravel() if scores.shape[1] == 1 else np.asarray(scores)

    def predict(self, X: Any) -> Array:
        """The class with the greatest decision value."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        predicted: Array = self.classes_[codes]
        return predicted

    def sparsify(self) -> LinearSVC:
        """Keep ``coef_`` as a sparse matrix, for models most of whose weights are zero."""
        check_is_fitted(self)
        self.coef_ = sparse.csr_matrix(self.coef_)
        return self

    def densify(self) -> LinearSVC:
        """Take ``sparsify`` back."""
        check_is_fitted(self)
        if sparse.issparse(self.coef_):
            self.coef_ = self.coef_.toarray()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> Limits:
        if self.penalty == "l1":
            raise ValueError("penalty='l1' is not there yet: maxmargin trains with penalty='l2'.")
        if self.multi_class == "crammer_singer":
            raise ValueError("multi_class='crammer_singer' is not there yet: maxmargin trains with multi_class='ovr'.")
        checks.one_of("penalty", self.penalty, ("l2",))
        checks.one_of("multi_class", self.multi_class, ("ovr",))
        checks.one_of("loss", self.loss, tuple(LOSSES))
        checks.one_of("dual", self.dual, ("auto", True, False))
        checks.number("C", self.C, above=0.0)
        checks.number("tol", self.tol, at_least=0.0)
        checks.flag("fit_intercept", self.fit_intercept)
        checks.flag("warm_start", self.warm_start)
        checks.number("intercept_scaling", self.intercept_scaling, above=0.0 if self.fit_intercept else -math.inf)
        checks.thread_count(self.n_jobs)
        solver_named(self.solver)
        seed_from(self.random_state if isinstance(self.random_state, (int, np.integer)) else None)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be callable; got {self.callback!r}.")
        return Limits(float(self.tol), checks.epochs_from(self.max_iter), checks.seconds_from(self.max_seconds))

    def _solve(self, rows: Rows, y: Array, classes: Array, costs: Array, limits: Limits) -> list[Solution]:
        """One problem for two classes, else one for each class against the rest; all share X."""
        solver, seed = solver_named(self.solver), seed_from(self.random_state)
        callback = serialised(self.callback, self.verbose)
        scaling = float(self.intercept_scaling) if self.fit_intercept else 0.0

        def job(positive: Any, start: Array | None) -> Any:
            def run(stop: threading.Event) -> Solution:
                signs = np.where(y == positive, np.int8(1), np.int8(-1))
                problem = LinearProblem.build(rows, signs, costs, LOSSES[self.loss], scaling)
                solution = drive(problem, solver, limits, warm_start=start, callback=callback, seed=seed, stop=stop)
                return solution if self.warm_start else replace(solution, alpha=NOTHING)

            return run

        positives = classes[1:] if len(classes) == 2 else classes
        starts: Sequence[Array | None] = self._starts(len(y), classes) or [None] * len(positives)
        return run_jobs([job(*pair) for pair in zip(positives, starts, strict=True)], self.n_jobs)

    def _starts(self, n_samples: int, classes: Array) -> list[Array] | None:
        """Where the problems start: at the last alphas, scaled to the new C, if they fit."""
        last: _WarmStart | None = getattr(self, "_warm_start", None)
        if not self.warm_start or last is None:
            return None
        if len(last.alphas[0]) != n_samples or not np.array_equal(last.classes, classes):
            return None
        return [alpha * (self.C / last.C) for alpha in last.alphas]

    def _keep(self, classes: Array, solutions: list[Solution]) -> None:
        self.classes_ = classes
        weights = [solution.w[: self.n_features_in_] for solution in solutions]
        self.coef_ = weights[0].reshape(1, -1) if len(weights) == 1 else np.stack(weights)
        self.intercept_ = np.array([solution.b for solution in solutions])
        self.n_iter_ = max(1, math.ceil(max(solution.epochs for solution in solutions)))
        self.relative_gap_ = max(solution.certificate.relative_gap for solution in solutions)
        self.certificate_ = one_or_all([solution.certificate for solution in solutions])
        self.status_ = one_or_all([solution.status for solution in solutions])
        self.trace_ = one_or_all([solution.trace for solution in solutions])
        self._warm_start = _WarmStart(self.C, classes, [s.alpha for s in solutions]) if self.warm_start else None


class _WarmStart(NamedTuple):
    """What the next fit may start from."""

    C: float
    classes: Array
    alphas: list[Array]


def dense_weights(model: LinearSVC) -> tuple[Array, Array]:
    """Coefficients and intercepts as plain float64 arrays, also of a model that was sparsified."""
    coef = model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_
    return np.asarray(coef, dtype=np.float64), np.asarray(model.intercept_, dtype=np.float64)


def one_or_all(values: list[Any]) -> Any:
    """What an estimator shows of several binary problems: the value of the only one, or the list."""
    return values[0] if len(values) == 1 else values

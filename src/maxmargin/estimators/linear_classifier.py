"""Linear classification without scikit-learn: the parameters, the binary problems and the fitted attributes.

``LinearSVC`` adds scikit-learn's checks and interface. The command line trains with the class here, because importing
scikit-learn takes longer than reading and fitting most files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from scipy import sparse

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.ellipsoid import enclose, sharpened
from maxmargin.certificate.predictions import Bounds, CertifiedLabels, Decisions, linear_decisions
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import single_threaded_blas
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import Watched, run_jobs, serialised
from maxmargin.estimators.linear_fit import (
    NOTHING,
    all_of,
    check_intercept,
    checked_limits,
    keep_proofs,
    one_or_all,
    scaling_of,
)
from maxmargin.estimators.multiclass import OneAgainstRest
from maxmargin.estimators.parameters import explained
from maxmargin.estimators.penalties import check_penalty, penalty_of_model
from maxmargin.problem.linear import LinearProblem, costs_of
from maxmargin.problem.losses import Hinge, Loss, SquaredHinge
from maxmargin.solvers.registry import solver_named
from maxmargin.solving.driver import Limits, drive, seed_from
from maxmargin.solving.incumbent import unsolved
from maxmargin.solving.solution import Progress, Solution, Status

LOSSES: dict[str, Loss] = {"hinge": Hinge(), "squared_hinge": SquaredHinge()}


class LinearClassifier(checks.PickledByName, Watched):
    """What :class:`maxmargin.LinearSVC` is, for data that is known to be sound: its ``fit`` checks the parameters only."""

    coef_: Any
    """An array, or a sparse matrix after ``sparsify``."""
    intercept_: Array
    classes_: Array
    certificate_: Certificate | list[Certificate]
    status_: Status | list[Status]
    trace_: tuple[Progress, ...] | list[tuple[Progress, ...]]

    @explained
    def __init__(
        self,
        penalty: Literal["l1", "l2", "elasticnet"] = "l2",
        loss: Literal["hinge", "squared_hinge"] = "squared_hinge",
        *,
        dual: Literal["auto"] | bool = "auto",
        tol: float = 1e-4,
        C: float = 1.0,
        multi_class: Literal["ovr", "crammer_singer"] = "ovr",
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
        penalize_intercept: bool = True,
        sharp_proofs: bool = False,
        l1_ratio: float = 0.5,
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
        self.penalize_intercept = penalize_intercept
        self.sharp_proofs = sharp_proofs
        self.l1_ratio = l1_ratio

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X, a finite CSR matrix or C-ordered array of floats, and an array y of finite labels."""
        with checks.unchanged_on_error(self):
            self._train(X, y, sample_weight, self._check_parameters())
        return self

    def _check_parameters(self) -> Limits:
        if self.multi_class == "crammer_singer":
            raise ValueError("multi_class='crammer_singer' is not supported yet: maxmargin trains with multi_class='ovr'.")
        checks.one_of("multi_class", self.multi_class, ("ovr",))
        checks.one_of("loss", self.loss, tuple(LOSSES))
        checks.one_of("dual", self.dual, ("auto", True, False))
        checks.cost(self.C)
        checks.flag("sharp_proofs", self.sharp_proofs)
        check_penalty(self)
        check_intercept(self)
        return checked_limits(self)

    def _train(self, X: Any, y: Array, sample_weight: Any, limits: Limits) -> list[Solution]:
        classes = checks.classes_of(y)
        cost = 1.0 if self._has_hard_margin else self.C
        costs = checks.sample_costs(cost, self.class_weight, sample_weight, X, classes, y)
        solutions = self._solve(Rows.from_matrix(X, check=False), y, classes, costs, limits)
        self._keep(X.shape[1], classes, solutions)
        return solutions

    def _solve(self, rows: Rows, y: Array, classes: Array, costs: Array, limits: Limits) -> list[Solution]:
        """One problem for two classes, else one for each class against the rest; all share X."""
        solver, seed = solver_named(self.solver), seed_from(self.random_state)
        callback = serialised(self._watcher(), self.verbose)
        scaling, penalty = scaling_of(self), penalty_of_model(self)
        is_penalized, costs = bool(self.penalize_intercept) or scaling == 0.0, costs_of(costs, rows)

        def job(positive: Any, start: Array | None) -> Any:
            def run(stop: Stop) -> Solution:
                signs = np.where(y == positive, np.int8(1), np.int8(-1))
                problem = LinearProblem(rows, signs, costs, LOSSES[self.loss], scaling, is_penalized, penalty=penalty)
                if stop.is_due and start is None:
                    return unsolved(problem, solver, stop)
                if self._has_hard_margin:
                    from maxmargin.solving.hard_margin import solve_hard_margin

                    solution = solve_hard_margin(problem, solver, limits, callback=callback, seed=seed, stop=stop)
                else:
                    solution = drive(problem, solver, limits, warm_start=start, callback=callback, seed=seed, stop=stop)
                if self.sharp_proofs and not stop.is_due:
                    ellipsoid = enclose(problem, solution.w, solution.alpha, solution.certificate)
                    solution = replace(solution, ellipsoid=ellipsoid)
                return solution if self.warm_start else replace(solution, alpha=NOTHING)

            return run

        positives = classes[1:] if len(classes) == 2 else classes
        starts: Sequence[Array | None] = self._starts(len(y), rows.n_features + (scaling != 0.0), classes) or [None] * len(
            positives
        )
        with single_threaded_blas():
            return run_jobs([job(*pair) for pair in zip(positives, starts, strict=True)], self.n_jobs, limits.max_seconds)

    @property
    def _has_hard_margin(self) -> bool:
        return math.isinf(self.C)

    def _starts(self, n_samples: int, n_weights: int, classes: Array) -> list[Array] | None:
        """Where the problems start: at the last alphas, scaled to the new C, if they fit; with an L1 penalty at the last w."""
        last: _WarmStart | None = getattr(self, "_warm_start", None)
        if not self.warm_start or last is None or self._has_hard_margin or math.isinf(last.C):
            return None
        if len(last.alphas[0]) != n_samples or not np.array_equal(last.classes, classes):
            return None
        if penalty_of_model(self).has_kink:
            return last.weights if last.weights and len(last.weights[0]) == n_weights else None
        return [alpha * (self.C / last.C) for alpha in last.alphas]

    def _keep(self, n_features: int, classes: Array, solutions: list[Solution]) -> None:
        self.n_features_in_ = n_features
        self.classes_ = classes
        weights = [solution.w[:n_features] for solution in solutions]
        self.coef_ = weights[0].reshape(1, -1) if len(weights) == 1 else np.stack(weights)
        self.intercept_ = np.array([solution.b for solution in solutions])
        keep_proofs(self, solutions)
        self.ellipsoid_ = one_or_all([solution.ellipsoid for solution in solutions])
        weights = [np.array(solution.w) for solution in solutions] if penalty_of_model(self).has_kink else []
        self._warm_start = _WarmStart(self.C, classes, [s.alpha for s in solutions], weights) if self.warm_start else None

    def _decisions(self, X: Any) -> Decisions:
        """The decisions with the bounds of the ball around w."""
        coef, intercept = dense_weights(self)
        constant = float(self.intercept_scaling) if self.fit_intercept and self.penalize_intercept else 0.0
        return linear_decisions(X, coef, intercept, bounds_of(self), constant)

    def _certified_labels(self, X: Any) -> CertifiedLabels:
        """The labels of an X that was checked before. Labels that the ball leaves open are judged again by the ellipsoid."""
        decisions, scheme = self._decisions(X), OneAgainstRest(len(self.classes_))
        codes, proved = scheme.codes(decisions.values), scheme.proved(decisions)
        open_rows = np.flatnonzero(~proved)
        ellipsoids = all_of(getattr(self, "ellipsoid_", None))
        if len(open_rows) and any(ellipsoid is not None for ellipsoid in ellipsoids):
            proved[open_rows] = scheme.proved(sharpened(decisions, ellipsoids, X, open_rows))
        return CertifiedLabels(self.classes_[codes], proved)


class _WarmStart(NamedTuple):
    """What the next fit may start from: the alphas, and each w where the penalty has a kink."""

    C: float
    classes: Array
    alphas: list[Array]
    weights: list[Array]


def dense_weights(model: LinearClassifier) -> tuple[Array, Array]:
    """Coefficients and intercepts as plain float64 arrays, also of a model that was sparsified."""
    coef = model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_
    return np.asarray(coef, dtype=np.float64), np.asarray(model.intercept_, dtype=np.float64)


def bounds_of(model: Any) -> Bounds:
    """What the certificates of a fitted model prove of its optimum."""
    if not hasattr(model, "certificate_"):
        raise ValueError("This model has no certificate (it was imported), so nothing can be proved of its predictions.")
    certificates = all_of(model.certificate_)
    # Old files hold no offset bound. A model with a free intercept then proves nothing.
    offsets = all_of(getattr(model, "offset_bound_", [math.inf] * len(certificates)))
    distances = [certificate.distance_bound for certificate in certificates]
    return Bounds(np.array(distances, dtype=float), np.array(offsets, dtype=float))

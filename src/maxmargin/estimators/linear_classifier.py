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
from maxmargin.estimators.all_classes import check_all_classes, reach_of_a_class, solve_all_classes, weights_and_intercepts
from maxmargin.estimators.jobs import Watched, run_jobs, serialised
from maxmargin.estimators.labels import BinaryProblems, dense_indicator, is_indicator, one_a_column, one_against_rest
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
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem, costs_of
from maxmargin.problem.losses import Hinge, Loss, SquaredHinge
from maxmargin.solvers.registry import solver_named
from maxmargin.solving.driver import Limits, drive, seed_from
from maxmargin.solving.solution import Progress, Solution, Status
from maxmargin.solving.unsolved import unsolved

LOSSES: dict[str, Loss] = {"hinge": Hinge(), "squared_hinge": SquaredHinge()}


class LinearClassifier(checks.PickledByName, Watched):
    """What :class:`maxmargin.LinearSVC` is, for data that is known to be sound: its ``fit`` checks the parameters only."""

    coef_: Array
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
        checks.one_of("multi_class", self.multi_class, ("ovr", "crammer_singer"))
        checks.one_of("loss", self.loss, tuple(LOSSES))
        checks.one_of("dual", self.dual, ("auto", True, False))
        checks.cost(self.C)
        checks.flag("sharp_proofs", self.sharp_proofs)
        check_penalty(self)
        check_intercept(self)
        if self._takes_all_classes:
            check_all_classes(self)
        return checked_limits(self)

    def _train(self, X: Any, y: Any, sample_weight: Any, limits: Limits) -> list[Solution]:
        cost, rows = 1.0 if self._has_hard_margin else self.C, Rows.from_matrix(X, check=False).smallest()
        if is_indicator(y):
            if self._takes_all_classes:
                raise ValueError("multi_class='crammer_singer' takes one class a sample; y has a column for each label.")
            problems = one_a_column(dense_indicator(y), cost, self.class_weight, sample_weight, X)
            return self._keep(X.shape[1], problems, self._solve(rows, problems, limits))
        classes = checks.classes_of(y)
        costs = checks.sample_costs(cost, self.class_weight, sample_weight, X, classes, y)
        problems = one_against_rest(y, classes, costs)
        if not self._takes_all_classes:
            return self._keep(X.shape[1], problems, self._solve(rows, problems, limits))
        codes, start = np.searchsorted(classes, y), self._starts(len(y), rows.n_features, problems)
        first = start[0] if start else None
        return self._keep(X.shape[1], problems, [solve_all_classes(self, rows, codes, len(classes), costs, limits, first)])

    def _solve(self, rows: Rows, problems: BinaryProblems, limits: Limits) -> list[Solution]:
        """One problem for two classes, else one for each class against the rest or for each label; all share X."""
        solver, seed = solver_named(self.solver), seed_from(self.random_state)
        callback = serialised(self._watcher(), self.verbose)
        scaling, penalty = scaling_of(self), penalty_of_model(self)
        is_penalized = bool(self.penalize_intercept) or scaling == 0.0

        def job(make_signs: Any, costs: Array, start: Array | None) -> Any:
            def run(stop: Stop) -> Solution:
                problem = LinearProblem(
                    rows, make_signs(), costs_of(costs, rows), LOSSES[self.loss], scaling, is_penalized, penalty=penalty
                )
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

        n_weights = rows.n_features + (scaling != 0.0)
        nowhere: list[Array | None] = [None] * len(problems.signs)
        starts: Sequence[Array | None] = self._starts(rows.n_samples, n_weights, problems) or nowhere
        with single_threaded_blas():
            jobs = [job(*each) for each in zip(problems.signs, problems.costs, starts, strict=True)]
            return run_jobs(jobs, self.n_jobs, limits.seconds_left)

    @property
    def _takes_all_classes(self) -> bool:
        return self.multi_class == "crammer_singer"

    @property
    def _has_hard_margin(self) -> bool:
        return math.isinf(self.C)

    def _starts(self, n_samples: int, n_weights: int, problems: BinaryProblems) -> list[Array] | None:
        """Where the problems start: at the last alphas, scaled to the new C, if they fit; with an L1 penalty at the last w."""
        last: _WarmStart | None = getattr(self, "_warm_start", None)
        if not self.warm_start or last is None or self._has_hard_margin or math.isinf(last.C):
            return None
        if len(last.alphas[0]) != n_samples or not np.array_equal(last.classes, problems.classes):
            return None
        n_problems = 1 if self._takes_all_classes else len(problems.signs)
        if (last.alphas[0].ndim == 2) != self._takes_all_classes or len(last.alphas) != n_problems:
            return None
        if penalty_of_model(self).has_kink and not self._takes_all_classes:
            return last.weights if last.weights and len(last.weights[0]) == n_weights else None
        return [alpha * (self.C / last.C) for alpha in last.alphas]

    def _keep(self, n_features: int, problems: BinaryProblems, solutions: list[Solution]) -> list[Solution]:
        self.n_features_in_, self.classes_, self.multilabel_ = n_features, problems.classes, problems.is_multilabel
        if self._takes_all_classes:
            self.coef_, self.intercept_ = weights_and_intercepts(self, solutions[0].w, n_features)
        else:
            rows = [solution.w[:n_features] for solution in solutions]
            self.coef_ = rows[0].reshape(1, -1) if len(rows) == 1 else np.stack(rows)
            self.intercept_ = np.array([solution.b for solution in solutions])
        keep_proofs(self, solutions)
        self.ellipsoid_ = one_or_all([solution.ellipsoid for solution in solutions])
        weights = [np.array(solution.w) for solution in solutions] if penalty_of_model(self).has_kink else []
        alphas = [solution.alpha for solution in solutions]
        self._warm_start = _WarmStart(self.C, problems.classes, alphas, weights) if self.warm_start else None
        return solutions

    def _decisions(self, X: Any) -> Decisions:
        """The decisions with the bounds of the ball around w."""
        coef, intercept = dense_weights(self)
        constant = float(self.intercept_scaling) if self.fit_intercept and self.penalize_intercept else 0.0
        return linear_decisions(X, coef, intercept, bounds_of(self), constant)

    def _certified_labels(self, X: Any) -> CertifiedLabels:
        """The labels of an X that was checked before. Labels that the ball leaves open are judged again by the ellipsoid."""
        decisions, scheme = self._decisions(X), OneAgainstRest(len(self.classes_))
        if getattr(self, "multilabel_", False):
            return CertifiedLabels((decisions.values > 0.0).astype(int), decisions.is_proved)
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
    coef: Any = model.coef_
    coef = coef.toarray() if sparse.issparse(coef) else coef
    return np.asarray(coef, dtype=np.float64), np.asarray(model.intercept_, dtype=np.float64)


def bounds_of(model: Any) -> Bounds:
    """What the certificates of a fitted model prove of its optimum."""
    if not hasattr(model, "certificate_"):
        raise ValueError("This model has no certificate (it was imported), so nothing can be proved of its predictions.")
    certificates = all_of(model.certificate_)
    # Old files hold no offset bound. A model with a free intercept then proves nothing.
    offsets = all_of(getattr(model, "offset_bound_", [math.inf] * len(certificates)))
    distances = np.array([certificate.distance_bound for certificate in certificates], dtype=float)
    if getattr(model, "multi_class", "ovr") == "crammer_singer":
        distances = distances * reach_of_a_class(len(model.classes_)) * (1.0 + 4.0 * UNIT_ROUNDOFF)
    return Bounds(distances, np.array(offsets, dtype=float))

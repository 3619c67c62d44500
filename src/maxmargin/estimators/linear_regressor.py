"""Linear regression by support vectors, without scikit-learn: the parameters, the problems and the fitted attributes.

``LinearSVR`` adds scikit-learn's checks and interface; the command line trains with the class here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.predictions import CertifiedValues, linear_decisions
from maxmargin.data.rows import Array, Rows
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import Watched
from maxmargin.estimators.linear_classifier import bounds_of
from maxmargin.estimators.linear_fit import check_intercept, checked_limits, keep_proofs, scaling_of, solve_all
from maxmargin.estimators.regression import WarmStart, check_loss, finite_cost, starts_of
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.regression_losses import EpsilonInsensitive, Quantile, SquaredEpsilonInsensitive
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution, Status

LOSSES: dict[str, Callable[[Any], Any]] = {
    "epsilon_insensitive": lambda model: EpsilonInsensitive(float(model.epsilon)),
    "squared_epsilon_insensitive": lambda model: SquaredEpsilonInsensitive(float(model.epsilon)),
    "quantile": lambda model: Quantile(float(model.quantile)),
}
"""The losses by name, each made from the parameters of a model."""


class LinearRegressor(checks.PickledByName, Watched):
    """What :class:`maxmargin.LinearSVR` is, for data that is known to be sound: its ``fit`` checks the parameters only."""

    coef_: Array
    intercept_: Array
    certificate_: Certificate | list[Certificate]
    status_: Status | list[Status]

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-4,
        C: float = 1.0,
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
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
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
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X, a finite CSR matrix or C-ordered array of floats, and an array y of finite targets."""
        with checks.unchanged_on_error(self):
            self._train(X, y, sample_weight, self._check_parameters())
        return self

    def _check_parameters(self) -> Limits:
        check_loss(self, LOSSES)
        checks.one_of("dual", self.dual, ("auto", True, False))
        check_intercept(self)
        return checked_limits(self)

    def problem(self, X: Any, y: Array, sample_weight: Any) -> LinearProblem:
        """The problem of one target and C = 1."""
        costs, rows = checks.weighted_costs(1.0, sample_weight, X), Rows.from_matrix(X, check=False)
        return LinearProblem.build(rows, y, costs, LOSSES[self.loss](self), scaling_of(self), bool(self.penalize_intercept))

    def _train(self, X: Any, y: Array, sample_weight: Any, limits: Limits) -> list[Solution]:
        """One problem for each column of y; all share X."""
        costs = checks.weighted_costs(finite_cost(self), sample_weight, X)
        rows, loss, scaling = Rows.from_matrix(X, check=False).smallest(), LOSSES[self.loss](self), scaling_of(self)
        columns = np.atleast_2d(np.asarray(y, dtype=np.float64).T)
        is_penalised = bool(self.penalize_intercept)
        problems = [partial(LinearProblem.build, rows, t, costs, loss, scaling, is_penalised) for t in columns]
        solutions = solve_all(self, problems, starts_of(self, columns), limits)
        self._keep(rows.n_features, np.ndim(y) == 1, solutions)
        return solutions

    def _keep(self, n_features: int, is_one: bool, solutions: list[Solution]) -> None:
        self.n_features_in_ = n_features
        weights = np.array([solution.w[:n_features] for solution in solutions])
        self.coef_ = weights[0] if is_one else weights
        self.intercept_ = np.array([solution.b for solution in solutions])
        self._warm_start = WarmStart.of(self, solutions)
        keep_proofs(self, solutions)

    def _certified_values(self, X: Any) -> CertifiedValues:
        """Predictions and radii for an X that is known to be sound."""
        constant = scaling_of(self) if self.penalize_intercept else 0.0
        decisions = linear_decisions(X, np.atleast_2d(self.coef_), np.asarray(self.intercept_), bounds_of(self), constant)
        shape = (X.shape[0], *self.coef_.shape[:-1])
        return CertifiedValues(decisions.values.reshape(shape), decisions.reach.reshape(shape))

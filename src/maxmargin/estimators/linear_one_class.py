"""The linear one-class machine without scikit-learn: the parameters, the problem and the fitted attributes.

``LinearOneClassSVM`` adds scikit-learn's checks and interface; the command line trains with the class here.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.predictions import CertifiedLabels, linear_decisions
from maxmargin.data.rows import Array, Rows
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import Watched
from maxmargin.estimators.linear_classifier import bounds_of
from maxmargin.estimators.linear_fit import checked_limits, keep_proofs, solve_all
from maxmargin.problem.one_class import one_class_problem
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution, Status

READING_SOLVERS = ("auto", "pair-descent")
"""The solvers that begin with a pass over all of X, if they are not given an alpha."""


class LinearOneClass(checks.PickledByName, Watched):
    """What :class:`maxmargin.LinearOneClassSVM` is, for data that is known to be sound: its ``fit`` checks the parameters
    only."""

    coef_: Array
    offset_: Array
    certificate_: Certificate
    status_: Status

    def __init__(
        self,
        *,
        nu: float = 0.5,
        tol: float = 1e-4,
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = -1,
        solver: Any = "auto",
        max_seconds: float | None = None,
        warm_start: bool = False,
        callback: Any = None,
    ) -> None:
        self.nu = nu
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.callback = callback

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to X, a finite CSR matrix or C-ordered array of floats; y is not looked at."""
        with checks.unchanged_on_error(self):
            self._train(X, sample_weight, self._check_parameters())
        return self

    def _check_parameters(self) -> Limits:
        checks.number("nu", self.nu)
        if not 0.0 < self.nu <= 1.0:
            raise ValueError(f"nu must be greater than 0 and at most 1; got {self.nu!r}.")
        return checked_limits(self)

    def _train(self, X: Any, sample_weight: Any, limits: Limits) -> list[Solution]:
        rows = Rows.from_matrix(X, check=False)
        weights, start = checks.weighted_costs(1.0, sample_weight, rows.matrix), self._start(rows.n_samples)
        if start is not None or self.solver not in READING_SOLVERS:
            rows.check()
        problem = partial(one_class_problem, rows, float(self.nu), weights)
        solutions = solve_all(self, [problem], [start], limits)
        if not solutions[0].status.is_certified:  # the solver may have been stopped before it read all rows
            rows.check()
        self._keep(rows.n_features, solutions[0])
        return solutions

    def _start(self, n_samples: int) -> Array | None:
        """The last alpha, if it fits. A solver brings its sum to what the new nu asks for."""
        last = getattr(self, "_last_alpha", None)
        return last if self.warm_start and last is not None and len(last) == n_samples else None

    def _keep(self, n_features: int, solution: Solution) -> None:
        self.n_features_in_ = n_features
        self.coef_ = solution.w[:n_features].reshape(1, -1)
        self.intercept_ = np.array([solution.b])
        self.offset_ = -self.intercept_
        self._last_alpha = solution.alpha if self.warm_start else None
        keep_proofs(self, [solution])

    def _certified_labels(self, X: Any) -> CertifiedLabels:
        """Labels and proofs for an X that is known to be sound."""
        decisions = linear_decisions(X, self.coef_, self.intercept_, bounds_of(self), 0.0)
        labels = np.where(decisions.values[:, 0] >= 0.0, 1, -1)
        return CertifiedLabels(labels, decisions.is_proved[:, 0])

"""Proving how far a model is from the optimum of the problem that it was trained for, whoever trained it."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.certificate import Certificate, certify
from maxmargin.data import Rows
from maxmargin.estimators import checks
from maxmargin.estimators.linear_classifier import LOSSES, dense_weights
from maxmargin.problem import LinearProblem
from maxmargin.solve import solve


def prove(estimator: Any, X: Any, y: Any, *, C: float, tol: float, max_seconds: float) -> list[Certificate]:
    """For each binary problem, the certificate of the model's own weights with the best dual point found in the time."""
    unknown = np.setdiff1d(np.unique(y), estimator.classes_)
    if len(unknown):
        raise ValueError(f"The data has the label {unknown[0]!r}, which the model does not know.")
    rows = Rows.from_matrix(X)
    costs = checks.sample_costs(C, estimator.class_weight, None, X, estimator.classes_, y)
    scaling = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
    coef, intercept = dense_weights(estimator)
    proofs = []
    for k, positive in enumerate(estimator.classes_[1:] if len(estimator.classes_) == 2 else estimator.classes_):
        signs, loss = np.where(y == positive, 1, -1), LOSSES[estimator.loss]
        problem = LinearProblem.build(rows, signs, costs, loss, scaling, estimator.penalize_intercept)
        w = np.append(coef[k], intercept[k] / scaling) if scaling else coef[k]
        proofs.append(certify(problem, w, solve(problem, tol=0.3 * tol, max_seconds=max_seconds).alpha))
    return proofs

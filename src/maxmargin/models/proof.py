"""Proving how far a model is from the optimum of the problem that it was trained for, whoever trained it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.crammer_singer import certify_crammer_singer
from maxmargin.certificate.linear import certify
from maxmargin.data.rows import Array, Rows
from maxmargin.estimators import checks
from maxmargin.estimators.kernel_classifier import KernelClassifier
from maxmargin.estimators.kernel_machine import KernelMachine
from maxmargin.estimators.linear_classifier import LOSSES, dense_weights
from maxmargin.estimators.linear_fit import scaling_of
from maxmargin.estimators.linear_one_class import LinearOneClass
from maxmargin.estimators.linear_regressor import LOSSES as REGRESSION_LOSSES
from maxmargin.estimators.linear_regressor import LinearRegressor
from maxmargin.estimators.penalties import penalty_of_model
from maxmargin.models.kernel_proof import prove_classes, prove_outputs
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.one_class import one_class_problem
from maxmargin.solving.driver import solve


@dataclass(frozen=True)
class ProofPolicy:
    """How much work goes into the dual bound."""

    share_of_tol: float = 0.3
    """How close to the optimum the dual bound should be, of what may lie between it and the model."""


def prove(estimator: Any, X: Any, y: Any, *, C: float, tol: float, max_seconds: float) -> list[Certificate]:
    """For each binary problem, the certificate of the model as it is with the best dual point found in the time."""
    if math.isinf(C):
        raise ValueError(
            "The file keeps the certificate of its fit with C = infinity (the hard margin), and this proof is of a finite C. "
            "Train again to prove it anew, or give a C with -c."
        )
    tol = ProofPolicy().share_of_tol * tol
    if isinstance(estimator, LinearOneClass):
        return [_prove_one_class(estimator, X, tol, max_seconds)]
    if isinstance(estimator, LinearRegressor):
        return _prove_regression(estimator, X, y, C=C, tol=tol, max_seconds=max_seconds)
    if isinstance(estimator, KernelMachine):
        return [prove_outputs(estimator, X, y, C=C, tol=tol, max_seconds=max_seconds)]
    unknown = np.setdiff1d(np.unique(y), estimator.classes_)
    if len(unknown):
        raise ValueError(f"The data has the label {unknown[0]}, which the model does not know.")
    prove_one = prove_classes if isinstance(estimator, KernelClassifier) else _prove_linear
    return prove_one(estimator, X, y, C=C, tol=tol, max_seconds=max_seconds)


def with_settings(estimator: Any, name: str, *, C: float | None, epsilon: float | None, nu: float | None) -> Any:
    """The model with what the user says of its training. An imported model does not know it, so that all of it must be said."""
    is_imported, known = not hasattr(estimator, "certificate_"), estimator.get_params()
    given = {"C": (C, "-c"), "epsilon": (epsilon, "-p"), "nu": (nu, "-n")}
    for key, (value, switch) in given.items():
        if value is not None and key not in known:
            raise ValueError(f"{name} is a {type(estimator).__name__}, which has no {key}: leave {switch} out.")
        if value is None and key in known and is_imported:
            raise ValueError(f"{name} does not say with which {key} it was trained: give it with {switch}.")
    return estimator.set_params(**{key: value for key, (value, _) in given.items() if value is not None})


def _prove_regression(estimator: Any, X: Any, y: Any, *, C: float, tol: float, max_seconds: float) -> list[Certificate]:
    """One output after the other."""
    rows, loss = Rows.from_matrix(X), REGRESSION_LOSSES[estimator.loss](estimator)
    scaling = scaling_of(estimator)
    weights = np.atleast_2d(estimator.coef_)
    if scaling:
        weights = np.column_stack([weights, estimator.intercept_ / scaling])
    columns = np.atleast_2d(np.asarray(y, dtype=np.float64).T)
    if len(columns) != len(weights):
        raise ValueError(f"The data has {len(columns)} target for each sample, and the model predicts {len(weights)}.")
    problems = [LinearProblem.build(rows, t, C, loss, scaling, estimator.penalize_intercept) for t in columns]
    return [_certified(*each, tol, max_seconds) for each in zip(problems, weights, strict=True)]


def _prove_one_class(estimator: Any, X: Any, tol: float, max_seconds: float) -> Certificate:
    problem = one_class_problem(X, float(estimator.nu))
    return _certified(problem, np.append(estimator.coef_[0], estimator.intercept_), tol, max_seconds)


def _certified(problem: LinearProblem, w: Array, tol: float, max_seconds: float) -> Certificate:
    return certify(problem, w, solve(problem, tol=tol, max_seconds=max_seconds).alpha)


def _prove_all_classes(estimator: Any, rows: Rows, y: Any, costs: Array, tol: float, max_seconds: float) -> Certificate:
    """The machine of Crammer and Singer. Of two classes the file holds the difference: each has half of it."""
    codes, scaling = np.searchsorted(estimator.classes_, y), scaling_of(estimator)
    coef, intercept = dense_weights(estimator)
    if len(estimator.classes_) == 2:
        coef, intercept = np.vstack([-0.5 * coef, 0.5 * coef]), np.concatenate([-0.5 * intercept, 0.5 * intercept])
    W = np.vstack([coef.T, intercept / scaling]) if scaling else coef.T
    problem = CrammerSingerProblem.build(rows, codes, costs, scaling)
    return certify_crammer_singer(problem, W, solve(problem, tol=tol, max_seconds=max_seconds).alpha)


def _prove_linear(estimator: Any, X: Any, y: Any, *, C: float, tol: float, max_seconds: float) -> list[Certificate]:
    """One class against the rest."""
    rows = Rows.from_matrix(X)
    costs = checks.sample_costs(C, estimator.class_weight, None, X, estimator.classes_, y)
    if getattr(estimator, "multi_class", "ovr") == "crammer_singer":
        return [_prove_all_classes(estimator, rows, y, costs, tol, max_seconds)]
    scaling = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
    coef, intercept = dense_weights(estimator)
    proofs = []
    for k, positive in enumerate(estimator.classes_[1:] if len(estimator.classes_) == 2 else estimator.classes_):
        signs, loss = np.where(y == positive, 1, -1), LOSSES[estimator.loss]
        penalty = penalty_of_model(estimator)
        problem = LinearProblem.build(rows, signs, costs, loss, scaling, estimator.penalize_intercept, penalty)
        w = np.append(coef[k], intercept[k] / scaling) if scaling else coef[k]
        proofs.append(certify(problem, w, solve(problem, tol=tol, max_seconds=max_seconds).alpha))
    return proofs

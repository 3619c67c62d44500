"""Proving how far a model is from the optimum of the problem that it was trained for, whoever trained it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.linear import certify
from maxmargin.certificate.model import KernelModel, certify_model
from maxmargin.data.rows import Array, Rows
from maxmargin.estimators import checks
from maxmargin.estimators.kernel_classifier import KernelClassifier
from maxmargin.estimators.linear_classifier import LOSSES, dense_weights
from maxmargin.estimators.linear_fit import scaling_of
from maxmargin.estimators.linear_one_class import LinearOneClass
from maxmargin.estimators.linear_regressor import LOSSES as REGRESSION_LOSSES
from maxmargin.estimators.linear_regressor import LinearRegressor
from maxmargin.estimators.pair_features import FeatureProblems, certificate_of_kernel
from maxmargin.estimators.pairs import Pair, pair_weights
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.one_class import one_class_problem
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solving.driver import solve


@dataclass(frozen=True)
class ProofPolicy:
    """How hard the dual bound is looked for."""

    share_of_tol: float = 0.3
    """How close to the optimum the dual bound should be, of what may lie between it and the model."""


def prove(estimator: Any, X: Any, y: Any, *, C: float, tol: float, max_seconds: float) -> list[Certificate]:
    """For each binary problem, the certificate of the model as it is with the best dual point found in the time."""
    tol = ProofPolicy().share_of_tol * tol
    if isinstance(estimator, LinearOneClass):
        return [_prove_one_class(estimator, X, tol, max_seconds)]
    if isinstance(estimator, LinearRegressor):
        return _prove_regression(estimator, X, y, C=C, tol=tol, max_seconds=max_seconds)
    unknown = np.setdiff1d(np.unique(y), estimator.classes_)
    if len(unknown):
        raise ValueError(f"The data has the label {unknown[0]}, which the model does not know.")
    prove_one = _prove_kernel if isinstance(estimator, KernelClassifier) else _prove_linear
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


def _prove_linear(estimator: Any, X: Any, y: Any, *, C: float, tol: float, max_seconds: float) -> list[Certificate]:
    """One class against the rest."""
    rows = Rows.from_matrix(X)
    costs = checks.sample_costs(C, estimator.class_weight, None, X, estimator.classes_, y)
    scaling = float(estimator.intercept_scaling) if estimator.fit_intercept else 0.0
    coef, intercept = dense_weights(estimator)
    proofs = []
    for k, positive in enumerate(estimator.classes_[1:] if len(estimator.classes_) == 2 else estimator.classes_):
        signs, loss = np.where(y == positive, 1, -1), LOSSES[estimator.loss]
        problem = LinearProblem.build(rows, signs, costs, loss, scaling, estimator.penalize_intercept)
        w = np.append(coef[k], intercept[k] / scaling) if scaling else coef[k]
        proofs.append(certify(problem, w, solve(problem, tol=tol, max_seconds=max_seconds).alpha))
    return proofs


def _prove_kernel(estimator: Any, X: Any, y: Any, *, C: float, tol: float, max_seconds: float) -> list[Certificate]:
    """One pair of classes after the other."""
    _check_kernel(estimator, y)
    X, classes = Rows.from_matrix(X).matrix, estimator.classes_
    costs = np.broadcast_to(checks.sample_costs(C, estimator.class_weight, None, X, classes, y), len(y))
    order = np.argsort(classes)  # a model of LIBSVM's has them in an order of its own
    codes = order[np.searchsorted(classes, y, sorter=order)]
    sign = -1.0 if len(classes) == 2 else 1.0
    offsets, features = sign * estimator.intercept_, estimator._feature_weights_
    if features is not None:
        problems = FeatureProblems(features.map, features.map.of(X), costs, bool(estimator.fit_intercept), Auto())
        parts = zip(Pair.all_of(codes), sign * features.weights, offsets, strict=True)
        return [_prove_features(problems, *each, tol, max_seconds) for each in parts]
    weights = sign * pair_weights(estimator.dual_coef_, estimator.n_support_)
    pairs = [Pair.of(i, j, codes) for i, j in combinations(range(len(classes)), 2)]
    machine = _Machine(estimator, X, costs, tol, max_seconds)
    return [machine.prove(*each) for each in zip(pairs, weights.T, offsets.tolist(), strict=True)]


def _check_kernel(estimator: Any, y: Array) -> None:
    """The data has every class, and there is an optimum to be near to."""
    missing = np.setdiff1d(estimator.classes_, y)
    if len(missing):
        raise ValueError(f"The data has no sample with the label {missing[0]}, which the model knows.")
    if not estimator._kernel_.is_positive_semidefinite:
        raise ValueError(
            f"{estimator._kernel_} is not positive semidefinite: no bound on the optimum of its problem can be proved."
        )


@dataclass(frozen=True)
class _Machine:
    """A kernel model and the samples that it is judged by."""

    estimator: Any
    X: Any
    costs: Array
    tol: float
    max_seconds: float

    def prove(self, pair: Pair, coefficients: Array, offset: float) -> Certificate:
        """The certificate of one pair of classes."""
        kernel, n_samples = self.estimator._kernel_, len(self.costs)
        part, costs = pair.part(self.X, kernel), self.costs[pair.samples]
        problem = KernelProblem.build(part, pair.signs, costs, kernel, self.estimator.fit_intercept, check=False)
        known = _of_samples(self.estimator, np.abs(coefficients), n_samples)
        start = None if known is None else known[pair.samples]
        solution = solve(problem, tol=self.tol, max_seconds=self.max_seconds, warm_start=start)
        model = _model(self.estimator, coefficients, offset, pair, n_samples)
        return certify_model(problem, model, solution.alpha)


def _prove_features(problems: FeatureProblems, pair: Pair, w: Array, b: float, tol: float, max_seconds: float) -> Certificate:
    """A pair whose w is on the features of its kernel."""
    problem = problems.problem(pair)
    w = np.append(w, b) if problems.has_offset else w
    alpha = solve(problem, tol=tol, max_seconds=max_seconds).alpha
    return certificate_of_kernel(problems.map, problem, w, alpha, certify(problem, w, alpha))


def _of_samples(estimator: Any, values: Array, n_samples: int) -> Array | None:
    """Values of support vectors as values of the samples that they are, if the model says which."""
    if not hasattr(estimator, "support_") or getattr(estimator, "shape_fit_", (n_samples,))[0] != n_samples:
        return None
    everyone = np.zeros(n_samples)
    everyone[estimator.support_] = values
    return everyone


def _model(estimator: Any, coefficients: Array, b: float, pair: Pair, n_samples: int) -> KernelModel:
    if not estimator._kernel_.is_given:
        used = np.flatnonzero(coefficients)
        return KernelModel(coefficients[used], b, estimator.support_vectors_[used])
    everyone = _of_samples(estimator, coefficients, n_samples)
    if everyone is None:
        raise ValueError(f"A precomputed kernel of {n_samples} samples is not the one that the model was trained on.")
    return KernelModel(everyone[pair.samples], b)

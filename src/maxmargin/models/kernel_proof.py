"""Proving how far a model with a kernel is from the optimum of its problem, whoever trained it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.certificate.certificate import Certificate, refusal
from maxmargin.certificate.linear import certify
from maxmargin.certificate.model import KernelModel, certify_model
from maxmargin.certificate.nu_model import certify_nu_model, completed
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.estimators import checks
from maxmargin.estimators.kernel_regressor import LOSSES
from maxmargin.estimators.nu_fit import cost_search
from maxmargin.estimators.nu_svc import NuSVC, rho_of, weighted_problem
from maxmargin.estimators.nu_svr import NuSVR
from maxmargin.estimators.one_class_svm import OneClassSVM
from maxmargin.estimators.pair_features import FeatureProblems, certificate_of_kernel
from maxmargin.estimators.pairs import Pair, pair_weights
from maxmargin.problem.class_pairs import class_pairs
from maxmargin.problem.feature_maps import FeatureMap
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.nu import NuProblem, nu_svc, nu_svr, one_class
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solving.driver import Limits, drive, solve
from maxmargin.solving.nu_cost import Machine, solve_by_cost
from maxmargin.solving.solution import Solution


def prove_classes(estimator: Any, X: Any, y: Any, *, C: float, tol: float, max_seconds: float) -> list[Certificate]:
    """One pair of classes after the other."""
    check_kernel(estimator, y)
    X, classes = Rows.from_matrix(X).matrix, estimator.classes_
    costs = np.broadcast_to(checks.sample_costs(C, estimator.class_weight, None, X, classes, y), len(y))
    order = np.argsort(classes)  # a model of LIBSVM's has them in an order of its own
    codes = order[np.searchsorted(classes, y, sorter=order)]
    sign = -1.0 if len(classes) == 2 else 1.0
    offsets, features = sign * estimator.intercept_, estimator._feature_weights_
    if features is not None and not isinstance(estimator, NuSVC):
        problems = FeatureProblems(features.map, X, costs, bool(estimator.fit_intercept), Auto())
        parts = zip(Pair.all_of(codes), sign * features.weights, offsets, strict=True)
        return [_prove_features(problems.map, problems.problem(pair), w, b, tol, max_seconds) for pair, w, b in parts]
    weights = sign * pair_weights(estimator.dual_coef_, estimator.n_support_)
    pairs = [Pair.of(i, j, codes) for i, j in class_pairs(len(classes))]
    machine = _JudgedMachine(estimator, X, costs, tol, max_seconds)
    if features is not None:
        parts = zip(pairs, sign * features.weights, offsets.tolist(), strict=True)
        return [_prove_nu_features(machine, features.map, pair, np.append(w, b)) for pair, w, b in parts]
    prove_one = _prove_nu_pair if isinstance(estimator, NuSVC) else _prove_pair
    return [prove_one(machine, *each) for each in zip(pairs, weights.T, offsets.tolist(), strict=True)]


def prove_outputs(estimator: Any, X: Any, y: Any, *, C: float, tol: float, max_seconds: float) -> Certificate:
    """A machine whose output is a number: SVR, NuSVR or OneClassSVM."""
    check_definite(estimator)
    if len(estimator.intercept_) != 1:
        raise ValueError(f"The data has one target for each sample, and the model predicts {len(estimator.intercept_)}.")
    machine = _JudgedMachine(estimator, Rows.from_matrix(X).matrix, np.full(X.shape[0], float(C)), tol, max_seconds)
    if isinstance(estimator, OneClassSVM):
        return machine.prove_nu(one_class(machine.X, estimator._kernel_, float(estimator.nu)), estimator.dual_coef_[0])
    y = np.asarray(y, dtype=np.float64)
    if isinstance(estimator, NuSVR):
        return machine.prove_nu(nu_svr(machine.X, y, estimator._kernel_, float(estimator.nu), C), estimator.dual_coef_[0])
    return _prove_regression(machine, y)


def _prove_regression(machine: _JudgedMachine, y: Array) -> Certificate:
    estimator, loss = machine.estimator, LOSSES[machine.estimator.loss](machine.estimator)
    features, b = estimator._feature_weights_, float(estimator.intercept_[0])
    if features is not None and not isinstance(estimator, NuSVC):
        problems = FeatureProblems(features.map, machine.X, machine.costs, True, Auto())
        problem = problems.regression(y, loss)
        return _prove_features(features.map, problem, features.weights[0], b, machine.tol, machine.max_seconds)
    kernel_problem = KernelProblem.build(machine.X, y, machine.costs, estimator._kernel_, loss=loss, check=False)
    return machine.prove(kernel_problem, estimator.dual_coef_[0], b, estimator.dual_coef_[0])


def _prove_pair(machine: _JudgedMachine, pair: Pair, coefficients: Array, offset: float) -> Certificate:
    """The certificate of one pair of classes."""
    estimator = machine.estimator
    part, costs = pair.part(machine.X, estimator._kernel_), machine.costs[pair.samples]
    problem = KernelProblem.build(part, pair.signs, costs, estimator._kernel_, estimator.fit_intercept, check=False)
    return machine.prove(problem, coefficients, offset, np.abs(coefficients), pair.samples)


def _prove_nu_pair(machine: _JudgedMachine, pair: Pair, coefficients: Array, offset: float) -> Certificate:
    """The same with nu."""
    kernel, estimator = machine.estimator._kernel_, machine.estimator
    part = Rows.from_matrix(pair.part(machine.X, kernel), check=False)
    problem = nu_svc(part, pair.signs, kernel, float(estimator.nu))
    if estimator.class_weight is None:
        return machine.prove_nu(problem, coefficients, offset, pair.samples)
    weighted = weighted_problem(machine.X, kernel, machine.costs, 1.0 / rho_of(machine.solved(problem)), pair)
    return machine.prove(weighted, coefficients, offset, np.abs(coefficients), pair.samples)


def _prove_nu_features(machine: _JudgedMachine, map: FeatureMap, pair: Pair, w: Array) -> Certificate:
    """The same for a w on the features of the kernel, with the rho that is best for it."""
    estimator = machine.estimator
    problem = nu_svc(Rows.from_matrix(pair.rows(machine.X), check=False), pair.signs, estimator._kernel_, float(estimator.nu))
    search = cost_search(problem, map, Limits(tol=machine.tol, max_seconds=machine.max_seconds))
    point = completed(problem, search.outputs(w).values.reshape(-1), float(w[:-1] @ w[:-1]), float(w[-1]))
    if not point.scale > 0.0:
        return refusal(0)
    dual = solve_by_cost(search, machine.solved(problem))
    return search.certified(Machine(1.0 / point.scale, w, dual.alpha / point.scale))


def check_kernel(estimator: Any, y: Array) -> None:
    """The data has every class, and there is an optimum to be near to."""
    missing = np.setdiff1d(estimator.classes_, y)
    if len(missing):
        raise ValueError(f"The data has no sample with the label {missing[0]}, which the model knows.")
    check_definite(estimator)


def check_definite(estimator: Any) -> None:
    if not estimator._kernel_.is_positive_semidefinite:
        raise ValueError(
            f"{estimator._kernel_} is not positive semidefinite: no bound on the optimum of its problem can be proved."
        )


@dataclass(frozen=True)
class _JudgedMachine:
    """A kernel model and the samples that it is judged by."""

    estimator: Any
    X: Any
    costs: Array
    tol: float
    max_seconds: float

    def prove(
        self, problem: KernelProblem, coefficients: Array, offset: float, start: Array, samples: Any = slice(None)
    ) -> Certificate:
        """``start`` has a dual variable for each support vector, ``samples`` says which samples the problem has."""
        known = _of_samples(self.estimator, start, len(self.costs))
        warm_start = None if known is None else known[samples]
        solution = solve(problem, tol=self.tol, max_seconds=self.max_seconds, warm_start=warm_start)
        return certify_model(problem, self._model(coefficients, offset, samples), solution.alpha)

    def prove_nu(
        self, problem: NuProblem, coefficients: Array, offset: float | None = None, samples: Any = slice(None)
    ) -> Certificate:
        """The same with nu. A model has no dual point of this problem: that of nu-SVR has two variables a sample."""
        solution = self.solved(problem)
        b = float(self.estimator.intercept_[0]) if offset is None else offset
        return certify_nu_model(problem, self._model(coefficients, b, samples), solution.alpha)

    def solved(self, problem: NuProblem) -> Solution:
        limits = Limits(tol=self.tol, max_seconds=self.max_seconds)
        return drive(problem, NuSMO(), limits, warm_start=None, callback=None, seed=0, stop=Stop.after(self.max_seconds))

    def _model(self, coefficients: Array, b: float, samples: Any) -> KernelModel:
        estimator, n_samples = self.estimator, len(self.costs)
        if not estimator._kernel_.is_given:
            used = np.flatnonzero(coefficients)
            return KernelModel(coefficients[used], b, estimator.support_vectors_[used])
        everyone = _of_samples(estimator, coefficients, n_samples)
        if everyone is None:
            raise ValueError(f"A precomputed kernel of {n_samples} samples is not the one that the model was trained on.")
        return KernelModel(everyone[samples], b)


def _prove_features(map: FeatureMap, problem: LinearProblem, w: Array, b: float, tol: float, max_seconds: float) -> Certificate:
    """A problem whose w is on the features of its kernel."""
    w = np.append(w, b) if problem.intercept_scaling else w
    alpha = solve(problem, tol=tol, max_seconds=max_seconds).alpha
    return certificate_of_kernel(map, problem, w, alpha, certify(problem, w, alpha))


def _of_samples(estimator: Any, values: Array, n_samples: int) -> Array | None:
    """Values of support vectors as values of the samples that they are, if the model says which."""
    if not hasattr(estimator, "support_") or getattr(estimator, "shape_fit_", (n_samples,))[0] != n_samples:
        return None
    everyone = np.zeros(n_samples)
    everyone[estimator.support_] = values
    return everyone

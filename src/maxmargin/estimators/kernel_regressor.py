"""Regression with kernels, without scikit-learn: the parameters, one problem for each output, and the fitted attributes.

``SVR`` adds scikit-learn's checks and interface. Several outputs share X, the kernel and, where it fits in the budget, the
kernel matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from maxmargin.certificate.predictions import CertifiedValues
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.data.threads import available_cores
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import serialised, thread_count
from maxmargin.estimators.kernel_machine import KernelMachine
from maxmargin.estimators.linear_regressor import LOSSES as ALL_LOSSES
from maxmargin.estimators.pair_features import FeatureProblems, exact_features
from maxmargin.estimators.parameters import explained
from maxmargin.estimators.regression import WarmStart, check_loss, finite_cost, has_hard_tube, starts_of
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.problem import policy as problem_policy
from maxmargin.problem.held_values import HeldValues
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.losses import Loss
from maxmargin.solvers.base import KernelSolver
from maxmargin.solving.driver import Limits, drive
from maxmargin.solving.solution import Solution

LOSSES: dict[str, Callable[[Any], Loss]] = {name: ALL_LOSSES[name] for name in ("epsilon_insensitive", "quantile")}
"""The losses of kernel regression by name: those that are piecewise linear."""


class KernelRegressor(KernelMachine):
    """What :class:`maxmargin.SVR` is, for data that is known to be sound: its ``fit`` checks the parameters only."""

    @explained
    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 500.0,
        verbose: int = 0,
        max_iter: int = -1,
        loss: str = "epsilon_insensitive",
        quantile: float = 0.5,
        solver: Any = "auto",
        max_seconds: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Any = None,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.loss = loss
        self.quantile = quantile
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
        return self._checked_limits()

    def problem(self, X: Any, y: Array, sample_weight: Any, kernel: Kernel | None = None) -> KernelProblem:
        """The problem of one target and C = 1."""
        costs, loss = checks.weighted_costs(1.0, sample_weight, X), LOSSES[self.loss](self)
        return KernelProblem.build(X, y, costs, kernel or self._kernel(X, sample_weight), loss=loss, check=False)

    def _train(self, X: Any, y: Array, sample_weight: Any, limits: Limits) -> list[Solution]:
        """One problem for each column of y."""
        costs = np.broadcast_to(checks.weighted_costs(finite_cost(self), sample_weight, X), X.shape[0])
        kernel, loss = self._kernel(X, sample_weight), LOSSES[self.loss](self)
        columns = np.ascontiguousarray(np.atleast_2d(np.asarray(y, dtype=np.float64).T))
        problems = self._problems(X, kernel, costs, loss, len(columns))
        solutions = self._solve(problems, columns, limits)
        self._keep(X, kernel, np.stack([solution.alpha for solution in solutions]), solutions)
        self._is_one_ = np.ndim(y) == 1
        self._feature_weights_ = problems.weights(solutions)
        self._warm_start = WarmStart.of(self, solutions)
        return solutions

    def _problems(self, X: Any, kernel: Kernel, costs: Array, loss: Loss, n_outputs: int) -> OutputProblems:
        """Linear ones where the features of the kernel are few, else those of the kernel."""
        solver, n_threads = self._solver(), min(thread_count(self.n_jobs, n_outputs), available_cores())
        features = FeatureProblems.where_it_pays(X, kernel, costs, True, solver, X.shape[0], self.cache_size)
        features = exact_features(features) if has_hard_tube(self) else features
        return OutputProblems(X, kernel, costs, loss, solver, n_outputs, n_threads, features)

    def _solve(self, problems: OutputProblems, columns: Array, limits: Limits) -> list[Solution]:
        callback, own_limits = serialised(self._watcher(), self.verbose), problems.limits(limits)

        def job(y: Array, start: Array | None, stop: Stop) -> Solution:
            problem = problems.problem(y)
            solver, seed = problems.present_solver, 0
            if has_hard_tube(self):
                from maxmargin.solving.hard_tube import solve_hard_tube

                return solve_hard_tube(problem, solver, limits, callback=callback, seed=seed, stop=stop)
            solution = drive(problem, solver, own_limits, warm_start=start, callback=callback, seed=seed, stop=stop)
            return problems.finished(problem, solution, limits.until(stop))

        starts = starts_of(self, columns)
        return self._run([partial(job, *each) for each in zip(columns, starts, strict=True)], limits)

    def _shaped(self, values: Array) -> Array:
        """One value a sample where y had one column."""
        return values[:, 0] if self._is_one_ else values

    def _certified_values(self, X: Any, diagonal: Array | None) -> CertifiedValues:
        """Predictions and radii for an X that is known to be sound."""
        decisions = self._decisions(X, diagonal)
        return CertifiedValues(self._shaped(decisions.values), self._shaped(decisions.reach))


class OutputProblems:
    """The problems of all outputs, which differ in their targets alone, and what solves them."""

    def __init__(
        self,
        X: Any,
        kernel: Kernel,
        costs: Array,
        loss: Loss,
        solver: KernelSolver,
        n_outputs: int,
        n_threads: int,
        features: FeatureProblems | None,
    ) -> None:
        self.X, self.kernel, self.costs, self.loss = X, kernel, costs, loss
        self.solver, self.n_outputs, self.n_threads, self.features = solver, n_outputs, n_threads, features

    @cached_property
    def first(self) -> KernelProblem:
        """A problem with all targets zero."""
        zeros = np.zeros(self.X.shape[0])
        return KernelProblem.build(self.X, zeros, self.costs, self.kernel, loss=self.loss, check=False)

    @cached_property
    def values(self) -> KernelMatrix | None:
        """All kernel values, where several outputs share them and they fit."""
        budget_mb = self.solver.budget_mb
        if self.n_outputs == 1 or budget_mb is None or not self.solver.shares_values or self.first.held is not None:
            return None
        matrix = KernelMatrix(self.kernel, self.first.points, np.float32)
        if self.kernel.dot_function is None or matrix.megabytes_to_hold > problem_policy.HELD.share_of_budget * budget_mb:
            return None
        matrix.hold()
        return matrix

    @property
    def present_solver(self) -> Any:
        """The solver with its part of the budget."""
        if self.features is not None:
            return self.features.solver
        budget_mb = self.solver.budget_mb
        if budget_mb is None:
            return self.solver
        left_mb = budget_mb - (self.values.megabytes_to_hold if self.values is not None else 0.0)
        return self.solver.within(left_mb / self.n_threads)

    def limits(self, limits: Limits) -> Limits:
        return self.features.limits(limits) if self.features is not None else limits

    def problem(self, y: Array) -> Any:
        if self.features is not None:
            return self.features.regression(y, self.loss)
        first = self.first
        held = first.held

        if held is not None and self.n_outputs > 1:
            _ = held.padded  # several threads read the matrix: none of them is to make a row

        def matrix() -> HeldValues:
            assert held is not None
            return held

        return replace(first, y=y, fast_values=self.values, matrix=matrix if held is not None else None)

    def finished(self, problem: Any, solution: Solution, limits: Limits) -> Solution:
        return self.features.finished(problem, solution, limits) if self.features is not None else solution

    def weights(self, solutions: list[Solution]) -> Any:
        return self.features.signed_weights(solutions) if self.features is not None else None

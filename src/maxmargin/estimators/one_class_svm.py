"""OneClassSVM: the support of a distribution, with kernels and a certificate."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import validate_data

from maxmargin.certificate.predictions import CertifiedLabels
from maxmargin.data.limits import Stop
from maxmargin.data.rows import DTYPES, Array, Rows, sound
from maxmargin.estimators import checks, nu_fit, policy
from maxmargin.estimators.advice import without_cost
from maxmargin.estimators.fitted_kernel import FittedKernel
from maxmargin.estimators.jobs import serialised, warn_if_uncertified
from maxmargin.estimators.kernel_machine import KernelMachine, checked_diagonal
from maxmargin.estimators.parameters import explained
from maxmargin.estimators.presentation import Presented, fit_task, with_callbacks
from maxmargin.problem.nu import NuProblem, one_class
from maxmargin.solvers.base import KernelSolver
from maxmargin.solving.driver import Limits
from maxmargin.solving.nu_pair import solve_one_class_pair
from maxmargin.solving.solution import Solution


class OneClassSVM(OutlierMixin, Presented, FittedKernel, KernelMachine, BaseEstimator):
    r"""One-class SVM with kernels: a region that contains all samples except a share nu, trained to a certified optimum.

    Minimises :math:`\tfrac12 |w|^2 - \nu S \rho + \sum_i s_i \max(0, \rho - w \cdot \phi(x_i))`, where S is the sum of the
    sample weights :math:`s_i`, with scikit-learn's parameters, defaults and attributes. In addition, ``tol`` is the relative
    duality gap, a fit continues until its certificate proves this gap, and ``certified_predict`` says which inliers and
    outliers are proved.

    Parameters
    ----------
    kernel, degree, gamma, coef0
        As in :class:`maxmargin.SVC`.
    tol : float, default 1e-3
        The relative duality gap to reach, ``gap / max(|primal|, |dual|)``.
    nu : float, default 0.5
        In (0, 1]: at most this share of the training samples are outliers, and at least this share are support vectors.
    shrinking : bool, default True
        For compatibility.
    cache_size : float, default 500
        Megabytes for kernel values.
    verbose : int, default 0
        Print a line for each certificate.
    max_iter : int, default -1
        Limit on epochs, each as many steps as there are samples; -1 for none.
    solver : {"auto", "nu-smo"} or a NuSMO object, default "auto"
    max_seconds : float, optional
        Limit on the time of the fit.
    callback : callable, optional
        Called with a :class:`maxmargin.Progress` at each certificate; returning True stops the fit.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, offset_, coef_, fit_status_, shape_fit_, n_iter_
        As in scikit-learn; ``offset_`` is rho. With nu = 1 any rho that is large enough is optimal: it is the least.
    certificate_, relative_gap_, status_, trace_
        How far from the optimum the answer can be, and how it was found.
    offset_bound_ : float
        How far ``offset_`` can be from that of the exact optimum.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import OneClassSVM
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = OneClassSVM(nu=0.1, tol=1e-8).fit(X)
    >>> labels, proved = model.certified_predict(X)
    >>> bool(proved.mean() > 0.9)
    True
    """

    warm_start = False
    """There is none: it would have to be feasible for another nu."""

    @explained
    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float = 500.0,
        verbose: int = 0,
        max_iter: int = -1,
        solver: Any = "auto",
        max_seconds: float | None = None,
        callback: Any = None,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.solver = solver
        self.max_seconds = max_seconds
        self.callback = callback

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OneClassSVM:
        """Fit to X of shape (n_samples, n_features), dense or sparse; y is not looked at. With ``kernel="precomputed"`` X is
        the kernel matrix."""
        solutions, limits = self._fit(X, sample_weight)
        warn_if_uncertified(solutions, limits, self._columns(X), without_cost)
        return self

    @with_callbacks
    def _fit(self, X: Any, sample_weight: Any) -> tuple[list[Solution], Limits]:
        with fit_task(self, X, None, sample_weight), checks.unchanged_on_error(self):
            nu_fit.check(self)
            limits = self._checked_limits()
            whole = Stop.within(limits.seconds_left)
            X = validate_data(self, sound(X), accept_sparse="csr", dtype=DTYPES, order="C")
            weights = checks.weighted_costs(1.0, sample_weight, X)
            kernel = self._kernel(X, sample_weight)
            problem = one_class(Rows.from_matrix(X, check=False), kernel, float(self.nu), weights)
            callback = serialised(self._watcher(), self.verbose)
            left = limits.until(whole)
            solutions = self._run([partial(self._solve, problem, limits, callback)], left)
            signed = problem.coefficients(solutions[0].alpha)[None]
            self._keep(X, kernel, signed, solutions)
            self._feature_weights_ = nu_fit.weights_of(kernel, X, signed, solutions)
            self.offset_ = -self.intercept_
        return solutions, limits

    def _solve(self, problem: NuProblem, limits: Limits, callback: Any, stop: Stop) -> Solution:
        def pair(found: Solution) -> Solution:
            return solve_one_class_pair(problem, float(self.nu), limits, callback, stop)

        return nu_fit.solve_with_pair(problem, nu_fit.nu_solver(self), limits, callback, stop, nu_fit.LinearForm(pair))

    def _solver(self) -> KernelSolver:
        return nu_fit.nu_solver(self)

    def decision_function(self, X: Any) -> Array:
        """w . phi(x) - rho: negative for outliers. On the border, where it is zero up to rounding, it is zero: its sign agrees
        with ``predict``."""
        values = self._values(self._validated(X))[:, 0]
        return np.where(np.abs(values) <= self._width_of_border, 0.0, values)

    def score_samples(self, X: Any) -> Array:
        """w . phi(x)"""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Array:
        """1 for inliers, the border included, and -1 for outliers."""
        return self._labels(self.decision_function(X))

    def certified_predict(self, X: Any, diagonal: Any = None) -> CertifiedLabels:
        """1 for inliers and -1 for outliers, and a mask of those that are proved: the exact optimum gives the same label.

        ``diagonal`` holds k(x, x) of each sample; it is needed with ``kernel="precomputed"`` and with nothing else."""
        X = self._validated(X)
        decisions = self._decisions(X, checked_diagonal(self.kernel, diagonal, X.shape[0]))
        return CertifiedLabels(self._labels(decisions.values[:, 0]), decisions.is_proved[:, 0])

    def _labels(self, values: Array) -> Array:
        return np.where(values >= -self._width_of_border, 1, -1)

    @property
    def _width_of_border(self) -> Array:
        return np.asarray(policy.ONE_CLASS.border * np.abs(self.offset_))

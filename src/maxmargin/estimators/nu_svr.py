"""NuSVR: kernel regression with a certificate, in which nu, a share of the samples, determines the width of the tube."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import validate_data

from maxmargin.certificate.predictions import CertifiedValues
from maxmargin.data.limits import Stop
from maxmargin.data.rows import DTYPES, Array, Rows, sound
from maxmargin.estimators import checks, nu_fit, policy
from maxmargin.estimators.fitted_kernel import FittedKernel
from maxmargin.estimators.jobs import serialised, thread_count, warn_if_uncertified
from maxmargin.estimators.kernel_machine import KernelMachine, checked_diagonal
from maxmargin.estimators.parameters import explained
from maxmargin.estimators.presentation import Presented, fit_task, with_callbacks
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.nu import NuProblem, nu_svr
from maxmargin.solvers.base import KernelSolver
from maxmargin.solving.driver import Limits
from maxmargin.solving.nu_pair import judged_nu_svr_pair, solve_nu_svr_pair
from maxmargin.solving.nu_tube import has_small_targets, solve_nu_svr_tube, solve_without_tube
from maxmargin.solving.solution import Solution


class NuSVR(RegressorMixin, Presented, FittedKernel, KernelMachine, BaseEstimator):
    r"""Kernel regression with a tube of free width, trained to a certified optimum.

    Minimises

    .. math:: \tfrac12 |w|^2 + \nu \epsilon \sum_i C_i + \sum_i C_i \max(0, |y_i - w \cdot \phi(x_i) - b| - \epsilon)

    over w, b and :math:`\epsilon \ge 0`, with scikit-learn's parameters, defaults and attributes. In addition, ``tol`` is the
    relative duality gap, a fit continues until its certificate proves this gap, and predictions have proved intervals.

    Parameters
    ----------
    nu : float, default 0.5
        In (0, 1]: at most this share of the samples are outside of the tube, and at least this share are support vectors.
    C : float, default 1.0
    kernel, degree, gamma, coef0, tol, shrinking, cache_size, verbose, max_iter, max_seconds, n_jobs, callback
        As in :class:`maxmargin.SVR`; ``shrinking`` is for compatibility.
    solver : {"auto", "nu-smo"} or a NuSMO object, default "auto"

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, fit_status_, shape_fit_, n_iter_
        As in scikit-learn, and as in :class:`maxmargin.SVR` where y has several columns.
    epsilon_ : float, or an array with one for each output
        Half the width of the tube.
    certificate_, relative_gap_, status_, trace_
        How far from the optimum the answer can be, and how it was found; lists where y has several columns.
    offset_bound_ : float, or a list
        How far ``intercept_`` and ``epsilon_`` can be from those of the exact optimum.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import NuSVR
    >>> model = NuSVR(C=100.0, nu=0.3, tol=1e-6).fit(*load_diabetes(return_X_y=True))
    >>> bool(model.relative_gap_ <= 1e-6)
    True
    """

    warm_start = False
    """There is none: it would have to be feasible for another nu."""

    @explained
    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: float = 500.0,
        verbose: int = 0,
        max_iter: int = -1,
        solver: Any = "auto",
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        callback: Any = None,
    ) -> None:
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.solver = solver
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NuSVR:
        """Fit to X of shape (n_samples, n_features), dense or sparse, and targets y, one column for each output; with
        ``kernel="precomputed"`` X is the kernel matrix."""
        solutions, limits = self._fit(X, y, sample_weight)
        warn_if_uncertified(solutions, limits, self._columns(X))
        return self

    @with_callbacks
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[list[Solution], Limits]:
        with fit_task(self, X, y, sample_weight), checks.unchanged_on_error(self):
            checks.number("C", self.C, above=0.0)
            nu_fit.check(self)
            limits = self._checked_limits()
            options: dict[str, Any] = {"multi_output": True, "y_numeric": True, "order": "C", "dtype": DTYPES}
            X, y = validate_data(self, sound(X), y, accept_sparse="csr", **options)
            return self._train(X, y, sample_weight, limits), limits

    def _train(self, X: Any, y: Array, sample_weight: Any, limits: Limits) -> list[Solution]:
        costs, kernel = checks.weighted_costs(self.C, sample_weight, X), self._kernel(X, sample_weight)
        columns = np.atleast_2d(np.asarray(y, dtype=np.float64).T)
        jobs = [partial(self._fit_one, X, column, kernel, costs, limits) for column in columns]
        solutions = self._run(jobs, limits)
        up, down = np.stack([solution.alpha.reshape(2, -1) for solution in solutions], axis=1)
        signed = up - down
        self._keep(X, kernel, signed, solutions)
        self._feature_weights_ = nu_fit.weights_of(kernel, X, signed, solutions)
        widths = np.array([-0.5 * float(solution.w.sum()) for solution in solutions])
        self._is_one_ = np.ndim(y) == 1
        self.epsilon_ = float(widths[0]) if self._is_one_ else widths
        return solutions

    def _fit_one(self, X: Any, y: Array, kernel: Kernel, costs: Array, limits: Limits, stop: Stop) -> Solution:
        solver = nu_fit.nu_solver(self, 1.0 / max(1, thread_count(self.n_jobs, 2)))
        callback = serialised(self._watcher(), self.verbose)
        problem = self._problem(X, y, kernel, costs)

        def without_tube() -> Solution | None:
            is_definite = kernel.is_positive_semidefinite
            is_worth_it = is_definite and has_small_targets(problem, policy.NU.small_targets)
            return solve_without_tube(problem, limits, stop) if is_worth_it else None

        form = nu_fit.LinearForm(
            solve=lambda found: solve_nu_svr_pair(problem, found, limits, stop),
            judge=lambda found: judged_nu_svr_pair(problem, found, limits, stop),
            by_tubes=lambda found: solve_nu_svr_tube(problem, found, limits, stop),
            without_tube=without_tube,
        )
        return nu_fit.solve_with_pair(problem, solver, limits, callback, stop, form)

    def _problem(self, X: Any, y: Array, kernel: Kernel, costs: Array) -> NuProblem:
        return nu_svr(Rows.from_matrix(X, check=False), y, kernel, float(self.nu), costs)

    def _solver(self) -> KernelSolver:
        return nu_fit.nu_solver(self)

    def predict(self, X: Any) -> Array:
        """One value a sample, or one column for each output."""
        return self._shaped(self._values(self._validated(X)))

    def certified_predict(self, X: Any, diagonal: Any = None) -> CertifiedValues:
        """Predictions, and for each a radius within which that of the exact optimum is proved to lie: see
        :meth:`maxmargin.SVR.certified_predict`."""
        X = self._validated(X)
        decisions = self._decisions(X, checked_diagonal(self.kernel, diagonal, X.shape[0]))
        return CertifiedValues(self._shaped(decisions.values), self._shaped(decisions.reach))

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self._is_one_ else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

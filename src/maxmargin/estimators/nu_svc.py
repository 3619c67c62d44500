"""NuSVC: kernel classification with a share of the samples in the place of C, and a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from maxmargin.certificate.predictions import Bounds
from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import available_cores
from maxmargin.estimators import nu_fit
from maxmargin.estimators.linear_classifier import bounds_of
from maxmargin.estimators.pairs import Pair, most_threads
from maxmargin.estimators.parameters import explained
from maxmargin.estimators.svc import SVC
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.nu import NuProblem, largest_nu, nu_svc
from maxmargin.solvers.base import KernelSolver
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class NuSVC(SVC):
    r"""Kernel classification with nu, trained to a certified optimum.

    For each pair of classes it minimises

    .. math:: \tfrac12 |w|^2 - \nu S \rho + \sum_i s_i \max(0, \rho - y_i (w \cdot \phi(x_i) + b)),

    where S is the sum of the weights :math:`s_i`, with scikit-learn's parameters, defaults and attributes. As there, the
    machine that is kept is divided by rho: it is that of :class:`maxmargin.SVC` with C = 1 / rho. What is added: ``tol`` is the
    relative duality gap, the fit goes on until the certificate shows it, and ``class_weight`` counts.

    Parameters
    ----------
    nu : float, default 0.5
        In (0, 1]: at most this share of the samples have a margin below one, and at least this share are support vectors. A nu
        for which no machine exists is refused before any kernel value is computed, and the largest nu that works is named.
    kernel, degree, gamma, coef0, tol, cache_size, class_weight, decision_function_shape, break_ties
        As in :class:`maxmargin.SVC`.
    verbose, max_iter, max_seconds, n_jobs, callback
        As in :class:`maxmargin.SVC`.
    shrinking, random_state
        For compatibility: no sample is set aside, and nothing depends on chance.
    solver : {"auto", "nu-smo"} or a NuSMO object, default "auto"

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_, coef_, n_iter_, fit_status_, shape_fit_
        As in scikit-learn.
    rho_ : array
        By what the machine of each pair of classes was divided. Where w = 0 is optimal, rho is zero, nothing is divided, and 1
        stands here.
    certificate_, relative_gap_, status_, trace_, offset_bound_
        As in :class:`maxmargin.SVC`, of the problem before the division.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import NuSVC
    >>> model = NuSVC(nu=0.2, tol=1e-6).fit(*load_iris(return_X_y=True))
    >>> bool(model.relative_gap_ <= 1e-6)
    True
    """

    C = 1.0
    fit_intercept = True
    warm_start = False

    @explained
    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: float = 500.0,
        class_weight: Any = None,
        verbose: int = 0,
        max_iter: int = -1,
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        solver: Any = "auto",
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        callback: Any = None,
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.solver = solver
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.callback = callback

    def _check_parameters(self) -> Limits:
        nu_fit.check(self)
        return super()._check_parameters()

    def _solver(self) -> KernelSolver:
        return nu_fit.nu_solver(self)

    def _problems(self, X: Any, kernel: Kernel, costs: Array, codes: Array, pairs: list[Pair]) -> Any:
        largest = min(largest_nu(pair.signs, costs[pair.samples]) for pair in pairs)
        if self.nu > largest * (1.0 + 1e-12):
            raise ValueError(
                f"nu={self.nu:g} is infeasible for these classes and weights; the largest nu that works is {largest:.9g}."
            )
        return NuPairs(X, kernel, costs, float(self.nu), nu_fit.nu_solver(self, 1.0 / most_threads(len(pairs))))

    def _keep(self, X: Any, kernel: Kernel, classes: Array, codes: Array, pairs: list[Pair], solutions: list[Solution]) -> None:
        self.rho_ = np.array([rho_of(solution) for solution in solutions])
        divided = [replace(s, alpha=s.alpha / rho, b=s.b / rho) for s, rho in zip(solutions, self.rho_, strict=True)]
        super()._keep(X, kernel, classes, codes, pairs, divided)

    def _bounds(self) -> Bounds:
        bounds = bounds_of(self)
        return Bounds(bounds.distance / self.rho_, bounds.offset / self.rho_)


def rho_of(solution: Solution) -> float:
    """(u + v) / 2, and 1 where that is not positive: then w = 0 is optimal, or nearly."""
    rho = 0.5 * float(solution.w.sum())
    return rho if rho > 0.0 else 1.0


@dataclass(frozen=True, eq=False)
class NuPairs:
    """The problems of pairs of classes."""

    X: Any
    kernel: Kernel
    costs: Array
    nu: float
    solver: NuSMO

    def limits(self, limits: Limits) -> Limits:
        return limits

    @property
    def most_threads(self) -> int:
        return available_cores()

    def problem(self, pair: Pair) -> NuProblem:
        rows = Rows.from_matrix(pair.part(self.X, self.kernel), check=False)
        return nu_svc(rows, pair.signs, self.kernel, self.nu, self.costs[pair.samples])

    def finished(self, problem: Any, solution: Solution, tol: float) -> Solution:
        return solution

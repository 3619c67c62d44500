"""NuSVC: kernel classification with a certificate, in which nu, a share of the samples, replaces C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from maxmargin.certificate.predictions import Bounds
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import available_cores
from maxmargin.estimators import advice, checks, nu_fit, policy
from maxmargin.estimators.kernel_settings import kernel_solver
from maxmargin.estimators.linear_classifier import bounds_of
from maxmargin.estimators.pair_features import FeatureProblems, FeatureWeights, weights_on_features
from maxmargin.estimators.pairs import Pair, most_threads
from maxmargin.estimators.parameters import explained
from maxmargin.estimators.svc import SVC
from maxmargin.problem.feature_maps import FeatureMap, feature_map
from maxmargin.problem.held_values import ClassValues
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.nu import NuProblem, nu_svc
from maxmargin.solvers.base import KernelSolver
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Limits
from maxmargin.solving.nu_pair import PairSolution
from maxmargin.solving.solution import Solution, Status
from maxmargin.solving.unsolved import unsolved_nu, unsolved_pair


class NuSVC(SVC):
    r"""Kernel classification with nu, trained to a certified optimum.

    For each pair of classes it minimises

    .. math:: \tfrac12 |w|^2 - \nu S \rho + \sum_i s_i \max(0, \rho - y_i (w \cdot \phi(x_i) + b)),

    where S is the sum of the weights :math:`s_i`, with scikit-learn's parameters, defaults and attributes. As in scikit-learn,
    the fitted model is divided by rho: it is the model of :class:`maxmargin.SVC` with C = 1 / rho. In addition, ``tol`` is the
    relative duality gap, and a fit continues until its certificate proves this gap. ``class_weight`` has an effect, as
    scikit-learn documents it: the C of class i is ``class_weight[i]`` times the C = 1 / rho that nu gives without class
    weights. The fitted and certified model is then that of a second fit, of :class:`maxmargin.SVC` with these costs.

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
        The divisor of each pair of classes. It is 1, and nothing is divided, where w = 0 is optimal (rho is zero), and with
        class weights.
    cost_ : array
        1 / rho for each pair of classes: the C that nu stands for.
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

    def _advice(self, worst: Solution, X: Any) -> str:
        has_no_margin = advice.has_no_margin(worst, self._kernel_, self.support_vectors_)
        return advice.without_margin(float(self.nu), X) if has_no_margin else advice.without_cost(worst, X)

    def _train(self, X: Any, y: Array, sample_weight: Any, limits: Limits) -> list[Solution]:
        """Train; with class weights in two fits: nu says what C is, and the weights multiply it."""
        if self.class_weight is None:
            solutions = super()._train(X, y, sample_weight, limits)
            self._feature_weights_ = self._weights_of(solutions)
            return solutions
        classes = checks.classes_of(y)
        weights = np.broadcast_to(checks.sample_costs(1.0, self.class_weight, sample_weight, X, classes, y), len(y))
        plain = np.broadcast_to(checks.weighted_costs(1.0, sample_weight, X), len(y))
        kernel, codes = self._kernel(X, sample_weight), np.searchsorted(classes, y)
        pairs = Pair.all_of(codes)
        first = self._solve(self._problems(X, kernel, plain, codes, pairs), pairs, limits)
        costs = [1.0 / rho_of(solution) for solution in first]
        solver = kernel_solver("auto", self.shrinking, float(self.cache_size) / most_threads(len(pairs)))
        weighted = WeightedPairs(X, kernel, weights, costs, pairs, solver)
        solutions = [_with_status_of(*each) for each in zip(self._solve(weighted, pairs, limits), first, strict=True)]
        super()._keep(X, kernel, classes, codes, pairs, solutions)
        self.rho_, self.cost_ = np.ones(len(pairs)), np.array(costs)
        return solutions

    def _problems(self, X: Any, kernel: Kernel, costs: Array, codes: Array, pairs: list[Pair]) -> Any:
        weights = np.bincount(codes, costs)
        largest = 2.0 * float(weights.min()) / float(weights.min() + weights.max())  # of the smallest class with the largest
        if self.nu > largest * (1.0 + 1e-12):
            raise ValueError(
                f"nu={self.nu:g} is infeasible for these classes and weights; the largest nu that works is {largest:.9g}."
            )
        n_threads, n_samples = most_threads(len(pairs)), max(len(pair.samples) for pair in pairs)
        shared = ClassValues.where_it_pays(X, kernel, codes, float(self.cache_size), n_threads)
        solver = nu_fit.nu_solver(self, 1.0 / n_threads)
        return NuPairs(X, kernel, costs, float(self.nu), solver, shared, n_samples, float(self.cache_size), len(pairs))

    def _keep(self, X: Any, kernel: Kernel, classes: Array, codes: Array, pairs: list[Pair], solutions: list[Solution]) -> None:
        rhos = np.array([rho_of(solution) for solution in solutions])
        divided = [replace(s, alpha=s.alpha / rho, b=s.b / rho) for s, rho in zip(solutions, rhos, strict=True)]
        super()._keep(X, kernel, classes, codes, pairs, divided)
        self.rho_, self.cost_ = rhos, 1.0 / rhos

    def _weights_of(self, solutions: list[Solution]) -> FeatureWeights | None:
        """The w of each pair, divided, where one of them has a w of its own."""
        if not any(isinstance(solution, PairSolution) for solution in solutions):
            return None
        found = feature_map(self._kernel_, self.n_features_in_, True)
        assert found is not None
        own = [
            replace(s, w=s.feature_weights / rho if isinstance(s, PairSolution) else np.empty(0))
            for s, rho in zip(solutions, self.rho_, strict=True)
        ]
        return weights_on_features(found, own, self.dual_coef_, self.n_support_, self.support_vectors_)

    def _bounds(self) -> Bounds:
        bounds = bounds_of(self)
        return Bounds(bounds.distance / self.rho_, bounds.offset / self.rho_)


def rho_of(solution: Solution) -> float:
    """(u + v) / 2, and 1 where that is not positive: then w = 0 is optimal, or nearly."""
    rho = 0.5 * float(solution.w.sum())
    return rho if rho > 0.0 else 1.0


def _with_status_of(solution: Solution, first: Solution) -> Solution:
    """Warn about a C that was not found to the requested gap."""
    return solution if first.status.is_as_asked else replace(solution, status=first.status)


@dataclass(frozen=True, eq=False)
class NuPairs:
    """The problems of pairs of classes."""

    X: Any
    kernel: Kernel
    costs: Array
    nu: float
    solver: NuSMO
    shared: ClassValues | None
    n_samples: int  # of the largest pair
    cache_mb: float
    n_pairs: int

    @cached_property
    def map(self) -> FeatureMap | None:
        """The features by which a pair that SMO leaves open is solved; None where that would take too long."""
        arguments = self.X, self.kernel, self.costs, True, kernel_solver("auto", True, self.cache_mb)
        features = FeatureProblems.where_it_pays(*arguments, self._most_features, self.cache_mb)
        return None if features is None else features.map

    @property
    def _most_features(self) -> int:
        """Samples of the largest pair, or monomials that are still searched for a machine: there kernel values are no help."""
        found = feature_map(self.kernel, self.X.shape[1], True)
        is_rounded = found is not None and found.relative_error > 0.0
        return int(policy.NU.monomials_a_sample * self.n_samples) if is_rounded else self.n_samples

    @property
    def share(self) -> float:
        """The share of the work of a fit that a pair may take by its features. Most pairs take little of theirs."""
        return float(self.n_pairs**policy.NU.share_of_pairs)

    def limits(self, limits: Limits) -> Limits:
        return limits

    def solved_at_once(self, limits: Limits, stop: Stop) -> None:
        return None

    @property
    def most_threads(self) -> int:
        is_short = self.shared is not None and self.shared.largest <= policy.JOBS.short_pair
        return 1 if is_short else available_cores()

    def unsolved(self, pair: Pair, stop: Stop) -> Solution | None:
        return unsolved_nu(len(pair.samples), 2, self.solver, stop)

    def problem(self, pair: Pair) -> NuProblem:
        matrix = None if self.shared is None else partial(self.shared.pair, pair.first, pair.second, True)
        rows = Rows.from_matrix(pair.part(self.X, self.kernel), check=False) if matrix is None else pair.late_rows(self.X)
        is_even = self.costs.strides == (0,)
        costs = float(self.costs[0]) if is_even else self.costs[pair.samples]
        return nu_svc(rows, pair.signs, self.kernel, self.nu, costs, matrix)

    def finished(self, problem: NuProblem, solution: Solution, limits: Limits) -> Solution:
        """The solution of SMO, or where it ends without a certificate, of the problem by its features."""
        if solution.status is not Status.PRECISION_LIMIT or self.map is None:
            return solution
        return nu_fit.solve_by_features(problem, self.map, limits, solution, self.share)


@dataclass(frozen=True, eq=False)
class WeightedPairs:
    """The problems of pairs of classes whose C is known: ``costs`` has one for each pair, which the weights multiply."""

    X: Any
    kernel: Kernel
    weights: Array
    costs: list[float]
    pairs: list[Pair]
    solver: KernelSolver

    def limits(self, limits: Limits) -> Limits:
        return limits

    def solved_at_once(self, limits: Limits, stop: Stop) -> None:
        return None

    @property
    def most_threads(self) -> int:
        return available_cores()

    def unsolved(self, pair: Pair, stop: Stop) -> Solution | None:
        costs = self.costs[self.pairs.index(pair)] * self.weights[pair.samples]
        return unsolved_pair(costs, self.solver, stop) if self.kernel.is_positive_semidefinite else None

    def problem(self, pair: Pair) -> KernelProblem:
        return weighted_problem(self.X, self.kernel, self.weights, self.costs[self.pairs.index(pair)], pair)

    def finished(self, problem: Any, solution: Solution, limits: Limits) -> Solution:
        return solution


def weighted_problem(X: Any, kernel: Kernel, weights: Array, C: float, pair: Pair) -> KernelProblem:
    """C-SVC of one pair of classes."""
    return KernelProblem.build(pair.part(X, kernel), pair.signs, C * weights[pair.samples], kernel, True, check=False)

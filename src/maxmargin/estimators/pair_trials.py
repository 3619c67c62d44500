r"""Pairs of classes whose kernel has a finite feature map, tried by SMO on their kernel matrix before Newton's method on the
features.

On most tables SMO needs a step for every one or two samples, and Newton's method takes several times as long. On columns of
very different scales SMO does not end. So a trial has a limit, a share of what Newton's method is expected to take, and what it
finds counts only if the certificate of the kernel's own problem accepts it. There is no trial where the scales of the columns
say that it would fail: the number of steps of a method of descent grows with the square of the ratio of two scales. (That is
asked of the linear kernel only. In powers of x times a small gamma, small columns have no part.)

**What is proved.** The certificate is that of w(alpha). The model predicts by the w that float64 makes of alpha. It is within
:math:`(\gamma_n + e) \sum_i \alpha_i |\phi(x_i)|` of w(alpha), with e the relative error of the features, and that is added
to the distance bound of the certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.certificate.rounding import OUTWARDS, gamma
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import policy
from maxmargin.estimators.pairs import KernelProblems, Pair, most_threads
from maxmargin.problem import policy as problem_policy
from maxmargin.problem.class_pairs import number_of_pairs
from maxmargin.problem.feature_maps import FeatureMap
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import SECOND_ORDER, Kernel
from maxmargin.solvers.linear.costs import LinearCosts
from maxmargin.solvers.linear.switching import SwitchingPolicy
from maxmargin.solving.at_once import tried
from maxmargin.solving.driver import Callback, Limits
from maxmargin.solving.pair_batch import BatchGoal
from maxmargin.solving.solution import Solution


def trial_steps(n: int, n_inputs: int, n_features: int) -> int:
    """The steps of SMO that n samples are worth before Newton's method on ``n_features`` features. The kernel matrix of rows
    with ``n_inputs`` columns comes first."""
    costs, own = LinearCosts(), policy.FEATURES
    matrix_ns = own.ns_a_feature * n_inputs * n * n / 2.0
    is_short = n_features + 1 <= SwitchingPolicy.few_weights
    newton = costs.call_by_size if is_short else costs.newton_by_size
    left = own.trial_share * newton(n, n_features + 1, own.newton_steps) - matrix_ns
    return int(max(0.0, left) / (own.ns_a_step_and_sample * n + own.ns_a_step_of_one / n))


def ratio_of_scales(X: Any) -> float:
    """The greatest standard deviation of a column of X over the median one, constant columns apart. One for a sparse X, which
    is hardly ever a raw table. Not over the least: some columns that hardly vary, such as pixels at the edge of a picture, have
    no part in the answer."""
    if sparse.issparse(X):
        return 1.0
    with np.errstate(all="ignore"):
        deviations = X.std(axis=0, dtype=np.float64)
        deviations = deviations[deviations > 0.0]
        return float(deviations.max() / np.median(deviations)) if len(deviations) else 1.0


@dataclass(frozen=True, eq=False)
class PairTrials:
    """The kernel's problems of pairs, and the map to the features in whose space w is."""

    problems: KernelProblems
    map: FeatureMap

    @classmethod
    def where_it_pays(
        cls, X: Any, kernel: Kernel, costs: Array, has_offset: bool, solver: Any, codes: Array, map: FeatureMap
    ) -> PairTrials | None:
        """The trials; None where the solver has no form for few samples, a pair of classes is too large for its kernel matrix
        to be held, or the scales of the columns differ too much for SMO."""
        sizes = np.bincount(codes)
        largest = int(np.sort(sizes)[-2:].sum())
        if not solver.holds_values or largest > problem_policy.HELD.most_samples:
            return None
        if map.relative_error == 0.0 and ratio_of_scales(X) ** 2 > trial_steps(largest, X.shape[1], map.n_features):
            return None
        n_threads = most_threads(number_of_pairs(len(sizes)))
        problems = KernelProblems.of(X, kernel, costs, has_offset, solver, codes, n_threads)
        return cls(problems, map) if len(sizes) == 2 or problems.shared is not None else None

    def solved(self, pair: Pair, start: Array | None, limits: Limits, callback: Callback | None, stop: Stop) -> Solution | None:
        """The solution, if it was found within the limit of a trial."""
        if limits.max_epochs < math.inf:
            return None
        most_steps = trial_steps(len(pair.samples), self.problems.X.shape[1], self.map.n_features)
        if most_steps < 1:
            return None
        problem = self.problems.problem(pair)
        solution = tried(problem, self.problems.solver, start, most_steps, limits.tol, stop)
        if solution is None:
            return None
        if callback is not None and callback(solution.trace[-1]):
            stop.set()
        return self._with_rounded_weights(problem, solution)

    def solved_at_once(self, limits: Limits, stop: Stop) -> list[Solution | None] | None:
        """The solutions of all pairs that are found within the limit of a trial, in few compiled calls."""
        batch, X, n_features = self.problems.batch(is_trial=True), self.problems.X, self.map.n_features
        if batch is None:
            return None
        return batch.solved(BatchGoal(limits.tol, lambda n: trial_steps(n, X.shape[1], n_features), self.rounding), stop)

    def rounding(self, n: Any, reach: Any, total: Any) -> Any:
        """What is added to the distance bound of n samples: see the head of this module. ``reach`` is sum_i alpha_i
        |phi(x_i)|, and ``total`` sum_i alpha_i. All may be arrays."""
        rounding = (gamma(n + 8.0) + self.map.relative_error) * reach + self.map.absolute_error * n * total
        return SECOND_ORDER * OUTWARDS * rounding

    def _with_rounded_weights(self, problem: KernelProblem, solution: Solution) -> Solution:
        """The solution with a distance bound that holds for the computed w, too."""
        size, n = np.abs(solution.alpha), len(solution.alpha)
        bounds = problem.held.bounds if problem.held is not None else None
        reach = float(size @ (np.sqrt(np.abs(problem.diagonal)) if bounds is None else bounds.lengths))
        distance = (solution.certificate.distance_bound + self.rounding(float(n), reach, float(size.sum()))) * OUTWARDS
        return replace(solution, certificate=replace(solution.certificate, distance_bound=distance))

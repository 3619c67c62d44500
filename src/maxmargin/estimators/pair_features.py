r"""Pairs of classes under a kernel with a finite feature map: each is a linear problem, and keeps a w of its own.

On a raw table w(alpha) is not precise enough in float64: one unit in the last place of an alpha, times a column of 1e9, moves
an output by more than a margin. Newton's own w is precise enough. So the certificate judges the pair (w, alpha), and the model
predicts by w.

**What is proved.** The certificate of the linear problem is about the features as they were computed, :math:`\tilde\phi`, each
within e of phi relatively. With the true features, to first order, for which 1% is added,

- the output of sample i changes by at most :math:`e \sum_j |w_j \tilde\phi_{ij}|`, which goes through the gap terms by their
  slopes: the greater one where the rounding of the outputs hides on which side of a kink a sample is;
- w(alpha) changes by at most :math:`\delta = e \, | \sum_i |\alpha_i| |\tilde\phi_i| |`, which adds at most
  :math:`\delta \, |w - w(\alpha)| + \delta^2 / 2`, and :math:`|w - w(\alpha)|^2 \le 2 \, gap`.

Both are added to the rounding error, so that the certificate is one of the kernel's own problem."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.intercept import linear_offset_bound
from maxmargin.certificate.predictions import Bounds, Decisions, Values, linear_decisions, linear_values, norms
from maxmargin.certificate.rounding import OUTWARDS, gamma
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import available_cores, single_threaded_blas
from maxmargin.estimators import policy
from maxmargin.estimators.pair_trials import PairTrials
from maxmargin.estimators.pairs import Pair, pair_weights
from maxmargin.kernel_matrix.rows import MEGABYTE
from maxmargin.kernel_matrix.tiles import TilePolicy
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.feature_maps import FeatureMap, feature_map
from maxmargin.problem.kernels import SECOND_ORDER, Kernel, Points
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Loss
from maxmargin.solvers.base import Solver
from maxmargin.solvers.linear.costs import LinearCosts, newton_weights
from maxmargin.solvers.linear.newton.policy import HessianPolicy
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution, Status

ELEMENT = np.dtype(np.float64).itemsize


def newton_pays(X: Any, n_samples: int) -> bool:
    """Whether Newton's method on so many rows of X is the better choice for the linear kernel. It is not for long sparse rows:
    their kernel values are cheap, and Newton's matrix is not."""
    if X.shape[1] < policy.FEATURES.few_weights:
        return True
    rows, ones = Rows.from_matrix(X[:n_samples], check=False), np.ones(n_samples)
    problem = LinearProblem(rows, ones, ones, Hinge(), 1.0, penalizes_intercept=False)
    stored = problem.rows.n_stored / max(1, n_samples)
    tiles = TilePolicy()
    a_value = tiles.ns_a_value + (tiles.ns_a_nonzero if problem.rows.is_sparse else tiles.ns_a_feature) * stored
    has_matrix = newton_weights(problem) <= HessianPolicy.most_matrix_weights
    is_cheaper = (
        LinearCosts().newton(problem) <= policy.FEATURES.preference * policy.FEATURES.kernel_passes * a_value * n_samples**2
    )
    return bool(has_matrix and is_cheaper)


def _is_stiff(X: Any, kernel: Kernel, costs: Array) -> bool:
    """Whether C k(x, x) is beyond the digits of float64, so that a matrix of kernel values has none left for small features."""
    with np.errstate(over="ignore"):
        return float(costs.max()) * float(kernel.diagonal(Points.of(X)).max()) > policy.FEATURES.stiff


@dataclass(frozen=True, eq=False)
class RoundedProblem(LinearProblem):
    """The problem of a pair whose rows are phi of ``inputs``, each element rounded."""

    inputs: Any = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class FeatureProblems:
    """The problems of pairs as linear ones on phi of the samples, and what solves them. ``trials`` solve what they can by the
    kernel before that."""

    map: FeatureMap
    X: Any
    costs: Array
    has_offset: bool
    solver: Solver
    trials: PairTrials | None = None

    @classmethod
    def where_it_pays(
        cls, X: Any, kernel: Kernel, costs: Array, has_offset: bool, solver: Any, n_samples: int, cache_mb: float
    ) -> FeatureProblems | None:
        """The linear problems; None where the kernel has no short feature map, the solver has no form for linear problems, or
        kernel values are far cheaper for the largest pair of classes, of ``n_samples``."""
        found, linear = feature_map(kernel, X.shape[1], has_offset), solver.for_features()
        if found is None or linear is None:
            return None
        if found.relative_error == 0.0:
            return cls(found, X, costs, has_offset, linear) if newton_pays(X, n_samples) else None
        size, is_few = found.n_features, found.n_features <= max(n_samples, policy.FEATURES.few_weights)
        if ELEMENT * size * X.shape[0] > MEGABYTE * cache_mb or not (is_few or _is_stiff(X, kernel, costs)):
            return None
        problems = cls(found, X, costs, has_offset, linear)
        return problems if _is_far_from_overflow(kernel, X) or np.isfinite(problems.matrix).all() else None

    @cached_property
    def matrix(self) -> Any:
        """phi of all samples."""
        return self.map.of(self.X)

    def limits(self, limits: Limits) -> Limits:
        return limits if self.map.relative_error == 0.0 else replace(limits, tol=policy.FEATURES.kept_share * limits.tol)

    def solved_at_once(self, limits: Limits, stop: Stop) -> list[Solution | None] | None:
        return None if self.trials is None else self.trials.solved_at_once(limits, stop)

    @property
    def most_threads(self) -> int:
        return self.trials.problems.most_threads if self.trials else available_cores()

    def unsolved(self, pair: Pair, stop: Stop) -> Solution | None:
        """None: the certificate of the kernel's problem takes a pass over the samples."""
        return None

    def problem(self, pair: Pair) -> LinearProblem:
        rows, scaling = Rows.from_matrix(pair.rows(self.matrix), check=False), 1.0 if self.has_offset else 0.0
        known = rows, pair.signs, self.costs[pair.samples], Hinge(), scaling, not self.has_offset
        if self.map.relative_error == 0.0:
            return LinearProblem(*known)
        return RoundedProblem(*known, inputs=pair.rows(self.X), has_exact_rows=False)

    def regression(self, targets: Array, loss: Loss) -> LinearProblem:
        """The problem of all samples with real targets."""
        rows, scaling = Rows.from_matrix(self.matrix, check=False), 1.0 if self.has_offset else 0.0
        is_exact = self.map.relative_error == 0.0
        return LinearProblem(rows, targets, self.costs, loss, scaling, not self.has_offset, has_exact_rows=is_exact)

    def finished(self, problem: LinearProblem, solution: Solution, limits: Limits) -> Solution:
        if self.map.relative_error == 0.0:
            return solution
        found = _of_the_kernel(self.map, problem, solution, limits.tol)
        if found.status is not Status.PRECISION_LIMIT or not isinstance(problem, RoundedProblem):
            return found
        return self._of_large_features(problem, found, limits)

    def _of_large_features(self, problem: RoundedProblem, solution: Solution, limits: Limits) -> Solution:
        """The solution where features are too large for the digits of float64."""
        from maxmargin.solving.stiff_features import solve_stiff

        X = np.asarray(problem.inputs.toarray() if sparse.issparse(problem.inputs) else problem.inputs)
        found = solve_stiff(self.map, problem, X, solution, self.solver, limits)
        relative = SECOND_ORDER * self.map.relative_error
        return replace(found, offset_bound=linear_offset_bound(problem, found.w, found.certificate, relative))

    def weights(self, solutions: list[Solution], dual_coef: Array, n_support: Array, vectors: Any) -> FeatureWeights | None:
        """The w of every pair. None where the kernel has solved them all, and nobody has computed any features."""
        if not any(len(solution.w) for solution in solutions) and self.map.relative_error > 0.0:
            return None
        total_cost = float(np.sum(self.costs))
        return weights_on_features(self.map, solutions, dual_coef, n_support, vectors, total_cost)

    def signed_weights(self, solutions: list[Solution], sign: float = 1.0) -> FeatureWeights:
        return FeatureWeights(self.map, sign * np.stack([solution.w[: self.map.n_features] for solution in solutions]))


def weights_on_features(
    map: FeatureMap,
    solutions: list[Solution],
    dual_coef: Array,
    n_support: Array,
    vectors: Any,
    total_cost: float | None = None,
) -> FeatureWeights:
    """The w of every pair, in the sign of scikit-learn's: with two classes the second is the positive one. A pair that the
    kernel has solved has an empty w, and gets w(alpha), in long double unless the sum of all costs says that it need not be."""
    own, sign = [place for place, solution in enumerate(solutions) if len(solution.w)], -1.0 if len(solutions) == 1 else 1.0
    weights = np.zeros((len(solutions), map.n_features))
    if len(own) < len(solutions):
        coefficients = pair_weights(dual_coef, n_support) if len(n_support) > 2 else dual_coef.T
        features = map.of(vectors)
        with single_threaded_blas():
            weights[:] = np.asarray(features.T @ coefficients, dtype=np.float64).T
        rough = np.ones(len(solutions), np.bool_)
        if total_cost is not None:
            primal = np.array([solution.certificate.primal for solution in solutions])
            rough = _are_rough(norms(features), coefficients, weights, total_cost, primal)
        for place in np.flatnonzero(rough).tolist():
            own_vectors = coefficients[:, place].nonzero()[0]
            weights[place] = features[own_vectors].T @ coefficients[own_vectors, place].astype(np.longdouble)
    for place in own:
        weights[place] = sign * solutions[place].w[: map.n_features]
    return FeatureWeights(map, weights)


def _are_rough(lengths: Array, coefficients: Array, weights: Array, total_cost: float, primal: Array) -> Array:
    """Whether the rounding of w(alpha) can cost more than a negligible share of the objective, which was certified for the
    exact w(alpha). Where the columns of X are large, the costs of samples are larger still."""
    rounding = gamma(len(lengths) + 8.0) * (lengths @ np.abs(coefficients))
    steepness = np.linalg.norm(weights, axis=1) + total_cost * float(lengths.max(initial=0.0))
    rough: Array = ~(rounding * steepness <= policy.FEATURES.negligible_rounding * np.abs(primal))
    return rough


def _is_far_from_overflow(kernel: Kernel, X: Any) -> bool:
    """Whether no feature can be infinite, whatever its rounding: |phi(x)|^2 = k(x, x), which is far below 2^1024."""
    with np.errstate(all="ignore"):
        return bool(kernel.diagonal(Points.of(X)).max(initial=0.0) < 2.0**1000)


def exact_features(features: FeatureProblems | None) -> FeatureProblems | None:
    """The features where they have no rounding error. C = infinity asks that a constraint holds, and not nearly: with features
    that are rounded the problem of the kernel is solved itself."""
    return features if features is not None and features.map.relative_error == 0.0 else None


def _of_the_kernel(map: FeatureMap, problem: LinearProblem, solution: Solution, tol: float) -> Solution:
    """The solution with the rounding of the features in its certificate."""
    certificate = certificate_of_kernel(map, problem, solution.w, solution.alpha, solution.certificate)
    offset_bound = linear_offset_bound(problem, solution.w, certificate, SECOND_ORDER * map.relative_error)
    status = solution.status
    if status is Status.CERTIFIED and not certificate.meets(tol):
        status = Status.PRECISION_LIMIT
    return replace(solution, certificate=certificate, status=status, offset_bound=offset_bound)


def certificate_of_kernel(
    map: FeatureMap, problem: LinearProblem, w: Array, alpha: Array, certificate: Certificate
) -> Certificate:
    """See the head of this module."""
    with np.errstate(all="ignore"):
        features, weights = np.abs(problem.rows.matrix), np.abs(w[: problem.rows.n_features])
        relative, absolute = SECOND_ORDER * map.relative_error, map.absolute_error
        errors = relative * (features @ weights) + absolute * float(weights.sum())
        margins = problem.margins(w)
        size, targets = np.abs(alpha), problem.targets
        # The margins are rounded, too: that is counted already, but it may hide on which side of a kink a sample is.
        magnitudes = features @ weights + float(np.abs(w[len(weights) :]).sum()) * problem.intercept_scaling
        reach = errors + gamma(len(w) + 8.0) * magnitudes + 4.0 * UNIT_ROUNDOFF * (np.abs(targets) + np.abs(margins))
        effects = problem.loss.gap_sensitivity(margins, alpha, problem.C, reach, targets)
        through_margins = float(np.sum(effects * (errors / np.where(reach > 0.0, reach, 1.0))))
        delta = relative * float(np.linalg.norm(size @ features)) + absolute * float(size.sum()) * len(weights)
        worst = certificate.gap + certificate.rounding_error
        added = SECOND_ORDER * (through_margins + delta * math.sqrt(2.0 * worst) + 0.5 * delta * delta)
        if not math.isfinite(added):
            return replace(certificate, rounding_error=math.inf, distance_bound=math.inf)
        distance = math.sqrt(2.0 * (worst + added)) * OUTWARDS
        return replace(certificate, rounding_error=certificate.rounding_error + added, distance_bound=distance)


@dataclass(frozen=True, eq=False)
class FeatureWeights:
    """The w of each pair of classes, a row a pair, and the map to the features that they belong to."""

    map: FeatureMap
    weights: Array

    def values(self, X: Any, intercept: Array) -> Array:
        """Decision values, a column a pair."""
        return np.asarray(self.map.of(X) @ self.weights.T) + intercept

    def decisions(self, X: Any, intercept: Array, bounds: Bounds) -> Decisions:
        """Decision values, and how far those of the exact optimum can be from them."""
        features = self.map.of(X)
        found = linear_decisions(features, self.weights, intercept, bounds, 0.0)
        if self.map.relative_error == 0.0:
            return found
        added = self._feature_errors(features, bounds)
        return Decisions(found.values, (found.reach + added) * OUTWARDS, (found.errors + added) * OUTWARDS)

    def exact_values(self, X: Any, intercept: Array) -> Values:
        """Decision values in float64, and how wrong each can be."""
        features = self.map.of(X)
        found = linear_values(features, self.weights, intercept)
        if self.map.relative_error == 0.0:
            return found
        nothing = Bounds(*np.zeros((2, len(intercept))))
        return Values(found.values, found.errors + self._feature_errors(features, nothing))

    def _feature_errors(self, features: Array, bounds: Bounds) -> Array:
        """The errors of w . phi(x), and of |w - w*| |phi(x)|."""
        size = np.abs(self.weights)
        relative, absolute = SECOND_ORDER * self.map.relative_error, self.map.absolute_error
        lengths = np.linalg.norm(features, axis=1)[:, None] * bounds.distance
        with np.errstate(invalid="ignore"):
            added = relative * (np.abs(features) @ size.T + lengths) + absolute * (size.sum(axis=1) + len(size.T))
        return np.where(np.isnan(added), np.inf, added)

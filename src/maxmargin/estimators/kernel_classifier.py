"""Kernel classification without scikit-learn: the parameters, the problems of pairs of classes, and the fitted attributes.

``SVC`` adds scikit-learn's checks and interface. With more than two classes every pair has its problem, in the order of
LIBSVM: (0, 1), (0, 2), ..., and the first class of a pair is its positive one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from maxmargin.certificate.predictions import Bounds, Decisions
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import run_until, serialised, thread_count
from maxmargin.estimators.kernel_settings import KernelSettings
from maxmargin.estimators.linear_classifier import bounds_of
from maxmargin.estimators.linear_fit import one_or_all
from maxmargin.estimators.pair_features import FeatureProblems, FeatureWeights, exact_features
from maxmargin.estimators.pair_trials import PairTrials
from maxmargin.estimators.pairs import KernelProblems, Pair, PairProblems, most_threads, pair_weights, ray_of_all_samples
from maxmargin.estimators.parameters import explained
from maxmargin.kernel_matrix.outputs import PairMachines
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.driver import Callback, Limits, drive, seed_from
from maxmargin.solving.solution import Progress, Solution


class KernelClassifier(KernelSettings):
    """What :class:`maxmargin.SVC` is, for data that is known to be sound: its ``fit`` checks the parameters only."""

    classes_: Array
    support_vectors_: Any
    trace_: tuple[Progress, ...] | list[tuple[Progress, ...]]
    _feature_weights_: FeatureWeights | None = None
    """The w of each pair where the kernel has a short feature map: what predicts, then."""

    @explained
    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: Any = True,
        tol: float = 1e-3,
        cache_size: float = 500.0,
        class_weight: Any = None,
        verbose: int = 0,
        max_iter: int = -1,
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        solver: Any = "auto",
        fit_intercept: bool = True,
        max_seconds: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Any = None,
    ) -> None:
        self.C = C
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
        self.fit_intercept = fit_intercept
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X, a finite CSR matrix or C-ordered array of floats, and an array y of finite labels."""
        with checks.unchanged_on_error(self):
            self._train(X, y, sample_weight, self._check_parameters())
        return self

    def _check_parameters(self) -> Limits:
        checks.cost(self.C)
        checks.flag("fit_intercept", self.fit_intercept)
        checks.flag("break_ties", self.break_ties)
        checks.one_of("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        seed_from(self.random_state if isinstance(self.random_state, (int, np.integer)) else None)
        return self._checked_limits()

    def _train(self, X: Any, y: Array, sample_weight: Any, limits: Limits) -> list[Solution]:
        stop, classes, cost = Stop.within(limits.seconds_left), checks.classes_of(y), 1.0 if self._has_hard_margin else self.C
        costs = np.broadcast_to(checks.sample_costs(cost, self.class_weight, sample_weight, X, classes, y), len(y))
        kernel, codes = self._kernel(X, sample_weight), np.searchsorted(classes, y)
        pairs = Pair.all_of(codes)
        problems = self._problems(X, kernel, costs, codes, pairs)
        solutions = self._solve(problems, pairs, limits.until(stop))
        self._keep(X, kernel, classes, codes, pairs, solutions)
        self._feature_weights_ = None
        if isinstance(problems, FeatureProblems):
            self._feature_weights_ = problems.weights(solutions, self.dual_coef_, self.n_support_, self.support_vectors_)
        return solutions

    def _problems(self, X: Any, kernel: Kernel, costs: Array, codes: Array, pairs: list[Pair]) -> PairProblems:
        """Linear problems where the kernel has few features, else kernel problems."""
        solver, largest = self._solver(), max(len(pair.samples) for pair in pairs)
        features = FeatureProblems.where_it_pays(X, kernel, costs, self.fit_intercept, solver, largest, self.cache_size)
        arguments = X, kernel, costs, self.fit_intercept
        if features is None or (self._has_hard_margin and exact_features(features) is None):
            return KernelProblems.of(*arguments, solver, codes, most_threads(len(pairs)))
        if self._has_hard_margin:
            return features
        trials = PairTrials.where_it_pays(*arguments, solver, codes, features.map)
        return replace(features, trials=trials)

    def _solve(self, problems: PairProblems, pairs: list[Pair], limits: Limits) -> list[Solution]:
        """Solve many small pairs in few calls where that is possible, and what is left one by one."""
        stop, callback = Stop.within(limits.max_seconds), serialised(self._watcher(), self.verbose)
        starts = self._starts(pairs)
        is_plain = starts is None and callback is None and limits.max_epochs == math.inf and not self._has_hard_margin
        with single_threaded_blas():
            known = _solved_at_once(problems, limits, stop) if is_plain else None
            if known is None:
                jobs = self._jobs(problems, pairs, starts or [None] * len(pairs), limits, callback)
                return self._run(problems, jobs, stop)
            left = [place for place, solution in enumerate(known) if solution is None]
            if left:
                problems = replace(problems, trials=None) if isinstance(problems, FeatureProblems) else problems
                jobs = self._jobs(problems, [pairs[place] for place in left], [None] * len(left), limits, callback)
                for place, solution in zip(left, self._run(problems, jobs, stop), strict=True):
                    known[place] = solution
        return [solution for solution in known if solution is not None]

    def _run(self, problems: PairProblems, jobs: list[Any], stop: Stop) -> list[Solution]:
        n_threads = min(thread_count(self.n_jobs, len(jobs)), most_threads(len(jobs)), problems.most_threads)
        return run_until(stop, jobs, n_threads)

    def _jobs(
        self, problems: PairProblems, pairs: list[Pair], starts: list[Array | None], limits: Limits, callback: Callback | None
    ) -> list[Any]:
        seed, own_limits, solver = seed_from(self.random_state), problems.limits(limits), problems.solver
        trials = problems.trials if isinstance(problems, FeatureProblems) else None
        n_samples = 1 + max(int(pair.samples.max()) for pair in pairs)

        def job(pair: Pair, start: Array | None, stop: Stop) -> Solution:
            solved = trials.solved(pair, start, limits, callback, stop) if trials else None
            if solved is not None:
                return solved
            if stop.is_due and not self._has_hard_margin:
                nothing = problems.unsolved(pair, stop)
                if nothing is not None:
                    return nothing
            problem = problems.problem(pair)
            if self._has_hard_margin:
                with ray_of_all_samples(pair, n_samples):
                    return self._hard_margin(problem, solver, limits, callback, stop)
            solution = drive(problem, solver, own_limits, warm_start=start, callback=callback, seed=seed, stop=stop)
            with stop.heard():
                return problems.finished(problem, solution, limits.until(stop))

        return [partial(job, *each) for each in zip(pairs, starts, strict=True)]

    @property
    def _has_hard_margin(self) -> bool:
        return math.isinf(self.C)

    def _hard_margin(self, problem: Any, solver: Any, limits: Limits, callback: Callback | None, stop: Stop) -> Solution:
        """The problem of a pair for C = infinity."""
        if isinstance(problem, LinearProblem):
            from maxmargin.solving.hard_margin import solve_hard_margin

            seed = seed_from(self.random_state)
            return solve_hard_margin(problem, solver, limits, callback=callback, seed=seed, stop=stop)
        from maxmargin.solving.hard_kernel import solve_hard_kernel

        budget_mb = float(self.cache_size if solver.budget_mb is None else solver.budget_mb)
        return solve_hard_kernel(problem, budget_mb, limits, callback=callback, stop=stop)

    def _starts(self, pairs: list[Pair]) -> list[Array | None] | None:
        """The alphas of the last fit, scaled to the new C. None where the samples of a pair are others."""
        last: _WarmStart | None = getattr(self, "_warm_start", None)
        if not self.warm_start or last is None or len(last.alphas) != len(pairs) or math.isinf(self.C + last.C):
            return None
        if any(len(alpha) != len(pair.samples) for alpha, pair in zip(last.alphas, pairs, strict=True)):
            return None
        return [alpha * (self.C / last.C) for alpha in last.alphas]

    def _keep(self, X: Any, kernel: Kernel, classes: Array, codes: Array, pairs: list[Pair], solutions: list[Solution]) -> None:
        """scikit-learn's attributes: support vectors class by class, and for each a coefficient in each of its pairs."""
        n, n_classes = X.shape[0], len(classes)
        signed = np.zeros((n_classes - 1, n))
        for pair, solution in zip(pairs, solutions, strict=True):
            pair.put(solution.alpha, signed)
        is_support = np.any(signed != 0.0, axis=0)
        self.support_ = np.concatenate([np.flatnonzero(is_support & (codes == k)) for k in range(n_classes)]).astype(np.int32)
        self.n_support_ = np.bincount(codes[self.support_], minlength=n_classes).astype(np.int32)
        sign = -1.0 if n_classes == 2 else 1.0  # with two classes the second is the positive one
        self.dual_coef_ = sign * signed[:, self.support_]
        self.intercept_ = np.array([sign * solution.b for solution in solutions])
        self.support_vectors_ = X[self.support_] if not kernel.is_given else np.empty((0, 0))
        self.classes_ = classes
        self.n_features_in_ = X.shape[1]
        self.shape_fit_ = X.shape
        self.n_iter_ = np.array([max(1, math.ceil(solution.epochs)) for solution in solutions])
        self.fit_status_ = int(not all(solution.status.is_as_asked for solution in solutions))
        self.relative_gap_ = max(solution.certificate.relative_gap for solution in solutions)
        self.certificate_ = one_or_all([solution.certificate for solution in solutions])
        self.status_ = one_or_all([solution.status for solution in solutions])
        self.trace_ = one_or_all([solution.trace for solution in solutions])
        self.offset_bound_ = one_or_all([solution.offset_bound for solution in solutions])
        self._kernel_ = kernel
        self._warm_start = _WarmStart(self.C, [s.alpha for s in solutions]) if self.warm_start else None

    def _pair_values(self, X: Any) -> Array:
        """One column for each pair of classes; with two classes positive for the second, else for the first of the pair."""
        if self._feature_weights_ is not None:
            return self._feature_weights_.values(X, self.intercept_)
        vectors = self.support_ if self._kernel_.is_given else self.support_vectors_
        return PairMachines(self._kernel_, vectors, self.dual_coef_, self.n_support_, self.intercept_).values(X)

    def _pair_decisions(self, X: Any, diagonal: Array | None) -> Decisions:
        """``_pair_values`` in float64 by the definition of the kernel, and how far the exact optimum's can be from them."""
        bounds = self._bounds()
        if self._feature_weights_ is not None:
            return self._feature_weights_.decisions(X, self.intercept_, bounds)
        return self._exact_decisions(X, diagonal, pair_weights(self.dual_coef_, self.n_support_), bounds)

    def _bounds(self) -> Bounds:
        """The bounds that are proved for the machines as they are kept."""
        return bounds_of(self)


def _solved_at_once(problems: PairProblems, limits: Limits, stop: Stop) -> list[Solution | None] | None:
    """What few compiled calls can solve. Ctrl-C ends the fit with what was solved before."""
    try:
        with stop.heard():
            return problems.solved_at_once(limits, stop)
    except OutOfTimeError:
        return None
    except KeyboardInterrupt:
        stop.set()
        return None


class _WarmStart(NamedTuple):
    """What the next fit may start from."""

    C: float
    alphas: list[Array]

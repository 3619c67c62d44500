"""The proof over a range of C for each gamma of a list: no pair of values is much better than the one found.

A search over a few values of C says which gamma looks best. It is raced first, and the other gammas only have to be proved
worse than its best score, which many are at the first knots. A race is forgotten when it is over: its fits take much memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import policy
from maxmargin.estimators.cross_validated import Samples, folds_of
from maxmargin.estimators.jobs import thread_count
from maxmargin.estimators.range_search import Asked, RangeResult, counts_of, regret_of, sentence
from maxmargin.estimators.search import Fold
from maxmargin.kernel_matrix.rows import MEGABYTE
from maxmargin.model_selection.kernel_fold import KernelFold, kernel_fold
from maxmargin.model_selection.race import Race, RacePolicy
from maxmargin.model_selection.race_fold import RaceFold
from maxmargin.problem.held_values import held_values
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Kernel
from maxmargin.solving.driver import Limits


@dataclass(eq=False)
class GammaRace:
    """``search`` is the SVCCV or the SVRCV, and keeps what is found."""

    search: Any
    samples: Samples
    folds: list[Fold]
    asked: Asked
    limits: Limits
    stop: Stop

    def run(self) -> None:
        gammas = self.search._gammas(self.samples.X, self.samples.sample_weight)
        results: dict[int, RangeResult] = {}
        for k, g in enumerate(self._order(gammas)):
            best = max((each.floor for each in results.values()), default=-np.inf)
            results[g] = self._result(float(gammas[g]), best, self.stop.share(len(gammas) - k))
        self._keep(gammas, [results[g] for g in range(len(gammas))])

    def _result(self, gamma: float, best: float, stop: Stop) -> RangeResult:
        """The race with one gamma, within its share of the time."""
        low, high, regret, score = self.asked
        try:
            with stop.heard():
                folds: list[RaceFold] = list(self._kernel_folds(gamma))
        except OutOfTimeError:
            return RangeResult.nothing((low, high), len(self.folds), score)
        n_threads = thread_count(self.search.n_jobs, len(folds))
        race = Race(folds, solver=self.search.solver, elsewhere=best, stop=stop, n_threads=n_threads)
        return RangeResult.of(race.run(low, high, regret))

    def _order(self, gammas: Array) -> list[int]:
        """The best gamma first, by a search over a few values of C."""
        if len(gammas) == 1:
            return [0]
        Cs, search, (X, y, _) = np.geomspace(self.asked.low, self.asked.high, RacePolicy.first_knots), self.search, self.samples
        search._memory, search._has_time_to_share = None, True
        found = []
        for k, gamma in enumerate(gammas):
            stop = self.stop.share(policy.SEARCH.races_a_list * (len(gammas) - k))
            with stop.heard():
                found.append(search._searched(X, y, self.folds, gamma, Cs, self.limits, -np.inf, stop))
        del search._memory, search._has_time_to_share
        return [int(g) for g in np.argsort([-each.mean_scores.max() for each in found], kind="stable")]

    def _kernel_folds(self, gamma: float) -> list[KernelFold]:
        search, X = self.search, self.samples.X
        model = search._model(search._plain, gamma=gamma)
        model._objects_ = None
        kernel = model._kernel(X, None)
        problems = [search._fold_problem(fold, kernel) for fold in self.folds]
        return [
            kernel_fold(problem, fold.X_test, counts_of(fold, self.asked.score))
            for problem, fold in zip(self._with_values(problems, kernel), self.folds, strict=True)
        ]

    def _with_values(self, problems: list[KernelProblem], kernel: Kernel) -> list[KernelProblem]:
        """The problems with their kernel values: in float64 where ``cache_size`` has room for all folds, which halves the time
        of a fit, because its certificate needs them too; else in float32."""
        search = self.search
        megabytes = sum(np.dtype(np.float64).itemsize * problem.n_samples**2 for problem in problems) / MEGABYTE
        if megabytes <= search.cache_size:
            return [replace(problem, matrix=partial(held_values, kernel, problem.points)) for problem in problems]
        everyone, keeps = search._matrix(self.samples.X, kernel, len(self.folds))
        if everyone is None or not keeps:
            return problems
        parts = (everyone.part(fold.train_rows) for fold in self.folds)
        return [replace(problem, fast_values=part) for problem, part in zip(problems, parts, strict=True)]

    def _keep(self, gammas: Array, results: list[RangeResult]) -> None:
        search = self.search
        g = int(np.argmax([each.floor for each in results]))
        results[g].keep(search)
        search.gammas_, search.gamma_ = gammas, float(gammas[g])
        search.gamma_ceilings_ = np.array([each.ceiling for each in results])
        search.regret_ = regret_of(results, results[g], self.asked.regret)
        has_gamma = not (search.kernel == "linear" or callable(search.kernel))
        search.proof_ = sentence(results, results[g], gammas if has_gamma else None, search.gamma_)


def race_of(model: Any, samples: Samples, given: Any, asked: Asked, limits: Limits, stop: Stop) -> GammaRace:
    """The race of a model with kernels over its ``C_range``."""
    if model.kernel == "precomputed":
        raise ValueError(
            "C_range takes a kernel that is computed from X; with kernel='precomputed', Cs takes a list of values."
        )
    folds = folds_of(model, model._fold_model(samples), *samples, given)
    return GammaRace(model, samples, folds, asked, limits, stop)

"""The search over C and gamma: what SVCCV and SVRCV share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array
from maxmargin.estimators.cross_validated import Samples, Searching, folds_of, values_of
from maxmargin.estimators.kernel_settings import width
from maxmargin.estimators.search import Fold, ListSearch, best_of
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.problem import policy as problem_policy
from maxmargin.problem.kernels import Kernel, Points
from maxmargin.solving.driver import Limits
from maxmargin.solving.solution import Solution


class GammaSearching(Searching):
    """A search over the values of C for one gamma after another. A subclass makes the estimator of a fold in
    ``_fold_model``, and searches with one gamma in ``_searched``."""

    _own: ClassVar[tuple[str, ...]] = ("Cs", "gammas", "cv", "scoring", "refit", "n_jobs")
    Cs: Any
    gammas: Any
    kernel: Any
    cache_size: float

    @abstractmethod
    def _fold_model(self, samples: Samples) -> Any:
        """The estimator of a fold."""

    @abstractmethod
    def _searched(
        self, X: Any, y: Array, folds: list[Fold], gamma: float, Cs: Array, limits: Limits, best: float, stop: Stop
    ) -> ListSearch:
        """Search with one gamma."""

    def _search(self, samples: Samples, given: Any, limits: Limits, stop: Stop) -> list[Solution]:
        X, y, sample_weight = samples
        Cs = values_of(self.Cs)
        model = self._fold_model(samples)  # says what is wrong
        gammas = self._gammas(X, sample_weight)
        folds = folds_of(self, model, X, y, sample_weight, given)
        searches: list[ListSearch] = []
        self._memory: Array | None = None
        self._has_time_to_share = True
        for k, gamma in enumerate(gammas):
            best = max((search.best_low for search in searches), default=-np.inf)
            own = stop.share(len(gammas) - k)
            with own.heard():
                searches.append(self._searched(X, y, folds, gamma, Cs, limits, best, own))
        del self._memory, self._has_time_to_share
        self._keep_search(gammas, searches)
        return [solution for search in searches for solution in search.solutions]

    def _chosen(self) -> dict[str, Any]:
        return {"C": self.C_, "gamma": self.gamma_}

    def _gammas(self, X: Any, sample_weight: Any) -> Array:
        """The values of gamma as numbers; the names of scikit-learn mean what they do on all samples."""
        if self.kernel in ("linear", "precomputed") or callable(self.kernel):
            return np.ones(1)
        wanted = ["scale"] if self.gammas is None else np.atleast_1d(np.asarray(self.gammas, dtype=object)).tolist()
        if not wanted:
            raise ValueError("gammas must hold at least one value.")
        for each in wanted:
            self._plain(gamma=each)._check_parameters()
        return np.array([width(each, X, sample_weight) for each in wanted])

    def _keep_search(self, gammas: Array, searches: list[ListSearch]) -> None:
        g, c, score = best_of(searches)
        self.Cs_, self.gammas_ = searches[0].Cs, gammas
        self.C_, self.gamma_, self.best_score_ = float(self.Cs_[c]), float(gammas[g]), score
        self.scores_ = np.stack([search.scores for search in searches], axis=1)
        low, high = (np.stack([getattr(search, end) for search in searches], axis=1) for end in ("low", "high"))
        self.score_bounds_ = np.stack([low, high])
        self.outcomes_ = np.stack([search.outcomes for search in searches], axis=1)

    def _matrix(self, X: Any, kernel: Kernel, n_folds: int) -> tuple[KernelMatrix | None, bool]:
        """The values of all samples, where they take no more than ``cache_size``; and whether those of all folds do, too."""
        if X.shape[0] <= problem_policy.HELD.most_samples or kernel.is_given or kernel.is_foreign:
            return None, True
        matrix = KernelMatrix(kernel, Points.of(X), np.float32)
        if matrix.megabytes_to_hold > self.cache_size:
            return None, True
        try:
            matrix.hold()
        except OutOfTimeError:
            return None, True
        return matrix, matrix.megabytes_to_hold * (1 + n_folds) <= self.cache_size

"""Kernel rows of the samples that a solver still looks at: when many have been left out, rows get shorter."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data import Array, Rows
from maxmargin.kernel_pairs import PairRows, kernel_rows
from maxmargin.kernel_problem import KernelProblem
from maxmargin.kernels import Precomputed

WORTH_IT = 0.6
"""Rows are made anew, and what was kept of the old ones is lost, when they would be no longer than this share of them."""


class ActiveRows:
    """``samples`` are those whose columns there are: at first all."""

    def __init__(self, problem: KernelProblem, cache_mb: float, dtype: Any = np.float64) -> None:
        self.problem, self.cache_mb, self.dtype = problem, cache_mb, np.dtype(dtype)
        self._evaluations_before = 0
        self._look_at(np.arange(problem.n_samples), problem)

    @property
    def is_narrow(self) -> bool:
        return len(self.samples) < self.problem.n_samples

    @property
    def others(self) -> Array:
        """The samples that there are no columns for."""
        return np.flatnonzero(self._place < 0)

    @property
    def kernel_evaluations(self) -> int:
        return self._evaluations_before + self._rows.kernel_evaluations

    @property
    def whole(self) -> Array | None:
        """The kernel matrix, with zeros to a multiple of RUN, where pairs of classes share their values."""
        return self._rows.padded if isinstance(self._rows, PairRows) else None

    def narrow_to(self, samples: Array) -> None:
        """Only these will be asked for. Values that are given or shared, and not computed, are not worth copying."""
        is_there = isinstance(self.problem.kernel, Precomputed) or self.whole is not None
        if len(samples) <= WORTH_IT * len(self.samples) and not is_there:
            self._exchange(samples)

    def widen(self) -> None:
        """All samples again."""
        if self.is_narrow:
            self._exchange(np.arange(self.problem.n_samples))

    def block(self, chosen: Array, out: Array | None = None) -> Array:
        """k(x_i, x_j) for the chosen i and j, into the first rows and columns of ``out`` if given."""
        here = self._place[chosen]
        return self._rows.block(here, here, out)

    def add_to(self, f: Array, chosen: Array, scales: Array) -> None:
        """f += sum_k scales_k K[chosen_k, :], at the samples that there are columns for."""
        sums = f[self.samples] if self.is_narrow else f
        self._rows.add_to(sums, self._place[chosen], scales)
        if sums is not f:
            f[self.samples] = sums

    def _exchange(self, samples: Array) -> None:
        self._evaluations_before = self.kernel_evaluations
        problem = self.problem
        if len(samples) < problem.n_samples:
            rows = Rows.from_matrix(problem.rows.matrix[samples], check=False)
            problem = KernelProblem(rows, problem.y[samples], problem.C[samples], problem.kernel, False)
        self._look_at(samples, problem)

    def _look_at(self, samples: Array, problem: KernelProblem) -> None:
        self.samples = samples
        self._place = np.full(self.problem.n_samples, -1, np.int64)
        self._place[samples] = np.arange(len(samples))
        self._rows = kernel_rows(problem, self.dtype, self.cache_mb)

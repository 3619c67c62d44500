"""Kernel rows of the samples that a solver still looks at: when many have been left out, rows get shorter.

Where the whole matrix fits in the budget in float32, it is computed and held as soon as the values that were computed so far
have cost as much as that would: half of its values, and memory that is touched for the first time (the ski-rental rule, as in
``kernel_rows``). Two working sets and their rows are taken to be needed in any case."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array, Rows
from maxmargin.kernel_matrix.rows import KernelRows
from maxmargin.kernel_matrix.shared import HeldRows, held_megabytes, kernel_rows
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Precomputed

WORTH_IT = 0.6
"""Rows are made anew, and what was kept of the old ones is lost, when they would be no longer than this share of them."""

FEW_SAMPLES = 2048
"""The matrix of so few samples is held from the first: a working set and its rows are a good part of it."""
WORKING_SET, SETS_AHEAD = 1024, 2
"""The usual working set of batched SMO, and how many of them are counted before they are asked for."""


class ActiveRows:
    """``samples`` are those whose columns there are: at first all."""

    def __init__(self, problem: KernelProblem, cache_mb: float, dtype: Any = np.float64) -> None:
        self.problem, self.cache_mb, self.dtype = problem, cache_mb, np.dtype(dtype)
        self._evaluations_before = 0
        self._rows: KernelRows | HeldRows
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
        """The kernel matrix, with zeros to a multiple of RUN, where it is held."""
        self._hold_if_it_pays()
        return self._rows.padded if isinstance(self._rows, HeldRows) else None

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
        self._hold_if_it_pays()
        here = self._place[chosen]
        return self._rows.block(here, here, out)

    def add_to(self, f: Array, chosen: Array, scales: Array) -> None:
        """f += sum_k scales_k K[chosen_k, :], at the samples that there are columns for."""
        self._hold_if_it_pays()
        sums = f[self.samples] if self.is_narrow else f
        self._rows.add_to(sums, self._place[chosen], scales)
        if sums is not f:
            f[self.samples] = sums

    def _hold_if_it_pays(self) -> None:
        n, rows = len(self.samples), self._rows
        if isinstance(rows, HeldRows) or self.dtype != HeldRows.dtype or isinstance(self.problem.kernel, Precomputed):
            return
        ahead = SETS_AHEAD * WORKING_SET * (WORKING_SET + n)
        is_worth_it = n <= FEW_SAMPLES or rows.nanoseconds(ahead) >= rows.nanoseconds_to_hold
        if is_worth_it and held_megabytes(n) <= self.cache_mb:
            self._evaluations_before += rows.kernel_evaluations
            self._rows = HeldRows.of(rows.problem)

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

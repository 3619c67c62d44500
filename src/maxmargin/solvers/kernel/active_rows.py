"""Kernel rows of the active samples of a solver: when many samples have been left out, rows get shorter.

If the whole matrix fits in the budget in float32, it is computed and held as soon as the values computed so far have cost as
much as the whole matrix would: half of its values, and writing to new memory (the ski-rental rule, as in
``maxmargin.kernel_matrix.rows``). The count starts with a few working sets and their rows, which every solve needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.matrix import KernelMatrix


@dataclass(frozen=True)
class HoldingPolicy:
    """When rows are made shorter, and when the whole matrix is held."""

    worth_exchanging: float = 0.6
    """Rows are made shorter when at most this share of their columns is still needed. The rows kept so far are lost."""
    few_samples: int = 2048
    """The matrix of at most this many samples is held from the start: a working set and its rows are a good part of it."""
    working_set: int = 1024
    """Samples of each working set that is counted in advance."""
    sets_ahead: int = 2
    """The number of working sets, with the rows of their samples, that are counted in advance."""


class ActiveRows:
    """``samples`` are the samples that have columns: at first all samples of the kernel matrix."""

    def __init__(self, matrix: KernelMatrix, policy: HoldingPolicy | None = None) -> None:
        self.matrix, self.policy = matrix, policy or HoldingPolicy()
        self._evaluations_before = 0
        self._look_at(np.arange(matrix.n_samples), matrix)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return self.matrix.dtype

    @property
    def is_narrow(self) -> bool:
        return len(self.samples) < self.matrix.n_samples

    @property
    def others(self) -> Array:
        """The samples without columns."""
        return np.flatnonzero(self._place < 0)

    @property
    def kernel_evaluations(self) -> int:
        return self._evaluations_before + self._rows.kernel_evaluations

    @property
    def whole(self) -> Array | None:
        """The kernel matrix of the samples, with zeros to a multiple of RUN, where it is held."""
        self._hold_if_it_pays()
        return self._rows.whole

    def narrow_to(self, samples: Array) -> None:
        """Restrict the columns to these samples. Values that are given or held are not copied: reading them is cheap."""
        is_there = self.matrix.kernel.is_given or self.whole is not None
        if len(samples) <= self.policy.worth_exchanging * len(self.samples) and not is_there:
            self._exchange(samples)

    def widen(self) -> None:
        """All samples again."""
        if self.is_narrow:
            self._exchange(np.arange(self.matrix.n_samples))

    def block(self, chosen: Array, out: Array | None = None) -> Array:
        """k(x_i, x_j) for the chosen i and j, into the first rows and columns of ``out`` if given."""
        self._hold_if_it_pays()
        here = self._place[chosen]
        return self._rows.block(here, here, out)

    def add_to(self, f: Array, chosen: Array, scales: Array) -> None:
        """f += sum_k scales_k K[chosen_k, :], for the samples that have columns."""
        self._hold_if_it_pays()
        sums = f[self.samples] if self.is_narrow else f
        self._rows.add_to(sums, self._place[chosen], scales)
        if sums is not f:
            f[self.samples] = sums

    def _hold_if_it_pays(self) -> None:
        rows, policy, n = self._rows, self.policy, len(self.samples)
        if rows.whole is not None or rows.dtype != np.float32 or rows.kernel.is_given:
            return
        ahead = policy.sets_ahead * policy.working_set * (policy.working_set + n)
        is_worth_it = n <= policy.few_samples or rows.nanoseconds(ahead) >= rows.nanoseconds_to_hold
        if is_worth_it and rows.megabytes_to_hold <= rows.cache_mb:
            rows.hold()

    def _exchange(self, samples: Array) -> None:
        """Values that were kept are dropped first: there is one budget for all rows."""
        self._evaluations_before = self.kernel_evaluations
        self._rows.forget()
        self.matrix.forget()
        is_whole = len(samples) == self.matrix.n_samples
        self._look_at(samples, self.matrix.for_one_solve() if is_whole else self.matrix.part(samples))

    def _look_at(self, samples: Array, rows: KernelMatrix) -> None:
        self.samples, self._rows = samples, rows
        self._place = np.full(self.matrix.n_samples, -1, np.int64)
        self._place[samples] = np.arange(len(samples))

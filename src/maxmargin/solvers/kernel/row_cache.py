"""Rows of the kernel matrix for a solver that takes one at a time: where they come from, and the latest of them kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Points
from maxmargin.solvers.kernel.smo_loops import NOBODY, Cache, Variables

ROWS_A_BLOCK = 64
MEGABYTE = 1e6
LEAST_ROWS = 2
"""A step changes two samples, so that the rows of both must be at hand."""
STALE = 0.5
"""The samples that columns are computed from are gathered anew when less than this share of them is asked for."""


class KernelValues:
    """k(x_i, x_j) in float64 for the chosen i and the j among which, and how many values were computed."""

    def __init__(self, problem: KernelProblem) -> None:
        self.problem = problem
        self.evaluations = 0
        self._gathered: Points | None = None
        self._place = np.full(problem.n_samples, NOBODY)
        self._kernel: Any = problem.kernel

    def rows(self, chosen: Array, among: Array) -> Array:
        self.evaluations += len(chosen) * len(among)
        if self._kernel.dot_function is None:
            return self.problem.gram(chosen, among)
        gathered = self._gather(among)
        vectors = self.problem.points.matrix[chosen]
        vectors = (vectors.toarray() if sparse.issparse(vectors) else vectors).astype(np.float64, copy=False)
        dots = np.ascontiguousarray((gathered.matrix @ vectors.T).T)
        sqnorms = self.problem.points.sqnorms[chosen]
        return self._kernel.of_dots(dots, sqnorms[:, None], gathered.sqnorms[None, :])[:, self._place[among]]

    def _gather(self, among: Array) -> Points:
        """A copy of the samples among which, or a somewhat larger one made before."""
        places = self._place[among]
        if self._gathered is None or len(among) < STALE * len(self._gathered) or places.min(initial=0) == NOBODY:
            self._place[:] = NOBODY
            self._place[among] = np.arange(len(among))
            points = self.problem.points[among]
            self._gathered = Points(points.matrix.astype(np.float64, copy=False), points.sqnorms)
        return self._gathered


class RowCache:
    """The rows used last, by position, within ``megabytes``."""

    def __init__(self, source: KernelValues, variables: Variables, megabytes: float) -> None:
        n = len(variables.y)
        n_slots = int(min(max(n, LEAST_ROWS), max(LEAST_ROWS, megabytes * MEGABYTE // (8 * max(n, 1)))))
        self.source, self.variables = source, variables
        self.cache = Cache(
            values=np.empty((n_slots, n)),
            slot_of=np.full(n, NOBODY),
            owner=np.full(n_slots, NOBODY),
            length=np.zeros(n_slots, dtype=np.int64),
            stamp=np.zeros(n_slots, dtype=np.int64),
        )

    def fetch(self, positions: Array, length: int, progress: Array) -> None:
        """Hold the rows of these positions (no more of them than there are slots) for the first ``length`` columns."""
        held = self._held(positions)
        for start in np.unique(held[held < length]):
            group = positions[held == start]
            block = self._block(group, int(start), length)
            for position, row in zip(group, block, strict=True):
                slot = self._slot(position, progress)
                self.cache.values[slot, start:length] = row
                self.cache.length[slot] = length

    def add_outputs(self, kinks: Array, start: int) -> None:
        """Subtract sum_j alpha_j y_j k(x_j, .) from the kinks from ``start`` on. Rows that are held are made longer where they
        are too short; of the others only what is needed is computed, and nothing of it is kept."""
        n = len(kinks)
        support = np.flatnonzero(self.variables.alpha)
        signed = self.variables.alpha * self.variables.y
        held = self._held(support)
        for begin in np.unique(held):
            group = support[held == begin]
            for first in range(0, len(group), ROWS_A_BLOCK):
                batch = group[first : first + ROWS_A_BLOCK]
                if begin == 0:
                    kinks[start:] -= signed[batch] @ self._block(batch, start, n)
                    continue
                slots = self.cache.slot_of[batch]
                if begin < n:
                    self.cache.values[slots, begin:] = self._block(batch, int(begin), n)
                    self.cache.length[slots] = n
                kinks[start:] -= signed[batch] @ self.cache.values[slots, start:]

    def _held(self, positions: Array) -> Array:
        """How many columns of each row are known."""
        slots = self.cache.slot_of[positions]
        held: Array = np.where(slots == NOBODY, 0, self.cache.length[slots])
        return held

    def _block(self, positions: Array, start: int, stop: int) -> Array:
        sample = self.variables.sample
        return self.source.rows(sample[positions], sample[start:stop])

    def _slot(self, position: int, progress: Array) -> int:
        """Its own, or that of the row not used for longest."""
        cache = self.cache
        slot = int(cache.slot_of[position])
        if slot == NOBODY:
            slot = int(np.argmin(cache.stamp))
            if cache.owner[slot] != NOBODY:
                cache.slot_of[cache.owner[slot]] = NOBODY
            cache.owner[slot], cache.slot_of[position] = position, slot
        progress["clock"] += 1
        cache.stamp[slot] = progress["clock"][0]
        return slot

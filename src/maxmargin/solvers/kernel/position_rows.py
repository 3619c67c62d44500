"""Rows of the kernel matrix for SMO, which takes one at a time: by the definition, and the rows used last are kept.

SMO moves samples that it removes to the end, and its rows have their columns in that order: by position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.rows import MEGABYTE
from maxmargin.problem.kernels import Kernel, Points
from maxmargin.solvers.kernel.smo_loops import NOBODY, HeldRows, PositionArrays


@dataclass(frozen=True)
class PositionRowsPolicy:
    """How rows are computed and kept."""

    rows_a_block: int = 64
    """Rows that are computed at a time, and dropped after use, where the outputs of removed samples are made anew."""
    least_rows: int = 2
    """Rows that are kept whatever the budget: a step changes two samples, and needs the rows of both."""
    stale: float = 0.5
    """The samples that columns are computed from are gathered anew when less than this share of them is asked for."""


class DefinedValues:
    """k(x_i, x_j) in float64, by the definition, for the chosen i and the j among which; and how many values were computed."""

    def __init__(self, kernel: Kernel, points: Points, policy: PositionRowsPolicy | None = None) -> None:
        self.kernel, self.points, self.policy = kernel, points, policy or PositionRowsPolicy()
        self.evaluations = 0
        self._gathered: Points | None = None
        self._place = np.full(len(points), NOBODY)

    def rows(self, chosen: Array, among: Array) -> Array:
        self.evaluations += len(chosen) * len(among)
        if self.kernel.dot_function is None:
            return self.kernel.gram(self.points, chosen, among)
        gathered = self._gather(among)
        vectors = self.points.matrix[chosen]
        vectors = (vectors.toarray() if sparse.issparse(vectors) else vectors).astype(np.float64, copy=False)
        dots = np.ascontiguousarray((gathered.matrix @ vectors.T).T)
        sqnorms = self.points.sqnorms[chosen]
        return self.kernel.of_dots(dots, sqnorms[:, None], gathered.sqnorms[None, :])[:, self._place[among]]

    def _gather(self, among: Array) -> Points:
        """A copy of the samples among which, or a somewhat larger one made before."""
        places = self._place[among]
        if self._gathered is None or len(among) < self.policy.stale * len(self._gathered) or places.min(initial=0) == NOBODY:
            self._place[:] = NOBODY
            self._place[among] = np.arange(len(among))
            points = self.points[among]
            self._gathered = Points(points.matrix.astype(np.float64, copy=False), points.sqnorms)
        return self._gathered


class PositionRows:
    """The rows used last, by position, within ``megabytes``."""

    def __init__(self, source: DefinedValues, variables: PositionArrays, megabytes: float) -> None:
        n, least = len(variables.y), source.policy.least_rows
        n_slots = int(min(max(n, least), max(least, megabytes * MEGABYTE // (8 * max(n, 1)))))
        self.source, self.variables = source, variables
        self.cache = HeldRows(
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
        n, size = len(kinks), self.source.policy.rows_a_block
        support = np.flatnonzero(self.variables.alpha)
        signed = self.variables.alpha * self.variables.y
        held = self._held(support)
        for begin in np.unique(held):
            group = support[held == begin]
            for first in range(0, len(group), size):
                batch = group[first : first + size]
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
        """The slot of this position, or that of the row that was not used for longest."""
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

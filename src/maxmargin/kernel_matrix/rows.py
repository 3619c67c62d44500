"""Rows of the kernel matrix: computed in blocks on all cores, and kept in a cache that honours its budget.

Memory that is touched for the first time is slow, 0.3 to 4 GB/s on a virtual machine: to keep a new row can take longer than
to compute it again. A row is therefore kept only when what it has cost already would have paid for that (the ski-rental
rule: never more than twice the cost of the best decision in hindsight)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.threads import Crew, single_threaded_blas
from maxmargin.kernel_matrix.blocks import KernelBlocks, Side, fill, mirrored
from maxmargin.kernel_matrix.tile_loops import add_scaled_rows, copy_rows
from maxmargin.problem.kernel import KernelProblem

ROWS_A_TILE, COLUMNS_A_TILE = 512, 1024
MEGABYTE = 1e6
NS_A_NEW_BYTE = 1.0
"""What it takes to touch a byte of memory for the first time."""

Consumer = Callable[[Array, int], None]
"""Is given a tile of kernel values and the number of its first column."""


class RowCache:
    """Whole rows by sample, the least recently used first to go. Memory is taken from the system when a row is written."""

    def __init__(self, n_samples: int, dtype: Any, cache_mb: float, asks_to_be_kept: int) -> None:
        capacity = min(n_samples, max(0, int(cache_mb * MEGABYTE / max(1, n_samples * np.dtype(dtype).itemsize))))
        self.rows = np.empty((capacity, n_samples), dtype)
        self._place = np.full(n_samples, -1, np.int64)
        self._sample = np.full(capacity, -1, np.int64)
        self._last_use = np.zeros(capacity, np.int64)
        self._asks = np.zeros(n_samples, np.int32)
        self._asks_to_be_kept = asks_to_be_kept
        self._n_filled = 0
        self._clock = 0

    @property
    def capacity(self) -> int:
        return len(self.rows)

    def find(self, samples: Array) -> Array:
        """Where the rows of these samples are, -1 where they are not. They will not make room until the next call."""
        self._clock += 1
        self._asks[samples] += 1
        places = self._place[samples]
        self._last_use[places[places >= 0]] = self._clock
        return places

    def make_room(self, samples: Array, *, at_once: bool = False) -> Array:
        """Places for the rows of these samples, which are not here; -1 for those that are not to be kept yet."""
        wanted = np.flatnonzero(self._asks[samples] >= self._asks_to_be_kept) if not at_once else np.arange(len(samples))
        places = np.full(len(samples), -1, np.int64)
        given = self._vacate(len(wanted))
        kept = wanted[: len(given)]
        places[kept] = given
        self._sample[given] = samples[kept]
        self._place[samples[kept]] = given
        self._last_use[given] = self._clock
        return places

    def _vacate(self, count: int) -> Array:
        fresh = np.arange(self._n_filled, min(self.capacity, self._n_filled + count))
        self._n_filled += len(fresh)
        old = np.flatnonzero(self._last_use[: self._n_filled - len(fresh)] < self._clock)
        needed = min(count - len(fresh), len(old))
        if needed <= 0:
            return fresh
        oldest = old[np.argpartition(self._last_use[old], needed - 1)[:needed]]
        self._place[self._sample[oldest]] = -1
        return np.concatenate([fresh, oldest])


class KernelRows:
    """Blocks and whole rows of the kernel matrix of a problem, in ``dtype``.

    ``kernel_evaluations`` counts the values that were computed and not found in the cache of ``cache_mb`` megabytes.
    """

    def __init__(self, problem: KernelProblem, dtype: Any = np.float32, cache_mb: float = 500.0) -> None:
        if not cache_mb >= 0.0:
            raise ValueError(f"cache_mb must be a number of megabytes >= 0; got {cache_mb!r}.")
        self.problem = problem
        self.dtype = np.dtype(dtype)
        self.kernel_evaluations = 0
        self._blocks = KernelBlocks(problem, dtype)
        asks_to_be_kept = math.ceil(NS_A_NEW_BYTE * self.dtype.itemsize / self._blocks.ns_a_value)
        self._cache = RowCache(problem.n_samples, dtype, cache_mb, asks_to_be_kept)

    def nanoseconds(self, ahead: int) -> float:
        """What the values that were computed, and so many more, cost on one core."""
        return (self.kernel_evaluations + ahead) * self._blocks.ns_a_value

    @property
    def nanoseconds_to_hold(self) -> float:
        """What it would cost to compute half of the matrix and to write all of it to new memory."""
        return self.problem.n_samples**2 * (0.5 * self._blocks.ns_a_value + NS_A_NEW_BYTE * self.dtype.itemsize)

    def block(self, chosen: Array, among: Array | None = None, out: Array | None = None) -> Array:
        """k(x_i, x_j) for the chosen i, and for all j or those among which, into the first rows and columns of
        ``out`` if given."""
        blocks = self._blocks
        other = blocks.everyone if among is None else blocks.right(among)
        block = np.empty((len(chosen), other.n_samples), self.dtype) if out is None else out
        for first in range(0, len(chosen), ROWS_A_TILE):
            part = chosen[first : first + ROWS_A_TILE]
            self._tiles(part, other, _copier(block[first : first + len(part)]))
        return block

    def square(self, chosen: Array) -> Array:
        """k(x_i, x_j) for the chosen i and j, each value computed once."""
        values = np.empty((len(chosen), len(chosen)), self.dtype)
        self.kernel_evaluations += fill(self._blocks, chosen, chosen, mirrored(values), is_square=True)
        return values

    def row(self, i: int) -> Array:
        """The i-th row, from the cache or into it. The next call of a method may overwrite it."""
        one = np.array([i])
        place = int(self._cache.find(one)[0])
        if place < 0:
            place = int(self._cache.make_room(one, at_once=True)[0])
            row = self._cache.rows[place] if place >= 0 else np.empty(self.problem.n_samples, self.dtype)
            self._tiles(one, self._blocks.everyone, _copier(row[None, :]))
            return row
        return self._cache.rows[place]

    def add_to(self, sums: Array, chosen: Array, scales: Array) -> None:
        """sums += sum_k scales_k K[chosen_k, :], in float64. No sample may be chosen twice."""
        places = self._cache.find(chosen)
        is_here = places >= 0
        self._add_kept(sums, places[is_here], scales[is_here])
        missing, missing_scales = chosen[~is_here], scales[~is_here]
        places = self._cache.make_room(missing)
        for first in range(0, len(missing), ROWS_A_TILE):
            part = slice(first, first + ROWS_A_TILE)
            self._tiles(missing[part], self._blocks.everyone, self._adder(sums, missing_scales[part], places[part]))

    def sums_at(self, places: Array, chosen: Array, scales: Array) -> Array:
        """sum_k scales_k K[chosen_k, i] for the samples i in ``places`` alone. No row is kept or looked for in the cache."""
        sums, other = np.zeros(len(places)), self._blocks.right(places)
        for first in range(0, len(chosen), ROWS_A_TILE):
            part = slice(first, first + ROWS_A_TILE)
            nowhere = np.full(len(chosen[part]), -1)
            self._tiles(chosen[part], other, self._adder(sums, scales[part], nowhere))
        return sums

    def _add_kept(self, sums: Array, places: Array, scales: Array) -> None:
        if len(places):
            rows, crew = self._cache.rows, Crew(len(places) * len(sums))
            crew.share(len(sums), lambda k, start, stop: add_scaled_rows(rows, places, scales, start, stop, sums, 0))

    def _adder(self, sums: Array, scales: Array, places: Array) -> Consumer:
        everyone = np.arange(len(scales))
        kept = np.flatnonzero(places >= 0)
        kept_places = places[kept]

        def consume(tile: Array, first: int) -> None:
            add_scaled_rows(tile, everyone, scales, 0, tile.shape[1], sums, first)
            copy_rows(tile, kept, self._cache.rows, kept_places, first)

        return consume

    def _tiles(self, chosen: Array, other: Side, consume: Consumer) -> None:
        """Every tile of the chosen rows, on all cores."""
        blocks = self._blocks
        one = blocks.left(chosen)
        n, m = other.n_samples, len(chosen)
        crew = Crew(int(n * m * blocks.ns_a_value) if blocks.is_thread_safe else 0)
        self.kernel_evaluations += n * m

        def work(k: int, start: int, stop: int) -> None:
            memory = np.empty(m * min(COLUMNS_A_TILE, stop - start), self.dtype)
            for first in range(start, stop, COLUMNS_A_TILE):
                last = min(stop, first + COLUMNS_A_TILE)
                tile = memory[: m * (last - first)].reshape(m, last - first)
                blocks.tile(one, other, first, last, tile)
                consume(tile, first)

        with single_threaded_blas():
            crew.share(n, work)


def _copier(block: Array) -> Consumer:
    def consume(tile: Array, first: int) -> None:
        block[:, first : first + tile.shape[1]] = tile

    return consume

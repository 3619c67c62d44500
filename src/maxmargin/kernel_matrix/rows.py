"""A cache of rows of the kernel matrix that honours its budget.

Memory that is touched for the first time is slow, 0.3 to 4 GB/s on a virtual machine: keeping a new row can take longer than
computing it again. A row is therefore kept only after computing it has already cost as much as keeping it would. This
ski-rental rule never costs more than twice the best decision in hindsight."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array

MEGABYTE = 1e6
"""Bytes: the unit of every budget."""


class RowCache:
    """Whole rows by sample; the least recently used row is the first to go. Memory is taken from the system when a row is
    written. ``asks_to_be_kept`` is the number of times that a row is asked for before it is kept."""

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
        """The places of the rows of these samples, -1 for a row that is not kept. None of them makes room before the next
        call."""
        self._clock += 1
        self._asks[samples] += 1
        places = self._place[samples]
        self._last_use[places[places >= 0]] = self._clock
        return places

    def make_room(self, samples: Array, *, at_once: bool = False) -> Array:
        """Places for the rows of these samples, none of which is kept; -1 for a row that is not to be kept yet."""
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

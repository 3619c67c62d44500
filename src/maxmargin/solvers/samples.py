"""Some of the samples, for a first answer."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from maxmargin.data.rows import Array

MIXER = np.uint64(0x9E3779B97F4A7C15)
"""An odd number whose bits look random: 2^64 divided by the golden ratio."""


@lru_cache(maxsize=1)
def one_of_each(every: int, n: int) -> Array:
    """One number out of each ``every``, at a place that looks random: rows may come in an order with a period. The last answer
    is kept, and cannot be written to."""
    numbers = np.arange(n // every, dtype=np.uint64)
    chosen = (numbers * np.uint64(every) + (numbers * MIXER >> np.uint64(32)) % np.uint64(every)).astype(np.intp)
    chosen.flags.writeable = False
    return chosen

"""Columns of samples in lanes, for the sums of a certificate over its samples.

A column is a few samples one after the other, whose numbers of each kind lie in ``lanes`` at places that are known when a loop
is compiled. So the compiler works on several samples at once. Between arrays of the caller it would have to test for overlap,
more often than it is willing to. Nothing here uses fast-math.
"""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit

LANES = 16
"""Samples of a column, at the most. A lane without a sample is zero. Part of a proof: the sums of columns are added by
``np.sum``, which makes fewer than 32 roundings of up to 2^18 terms, and ``add_up`` adds four, so that they stay below
``PAIRWISE_ROUNDINGS``."""
COUNT, ZERO, ONE, TWO, FOUR, EIGHT = (np.uint64(k) for k in (LANES, 0, 1, 2, 4, 8))


@njit(inline="always")
def fill(lanes, kind, values, first, length, n):
    """Take the numbers of one kind from sample ``first`` on. A number that is the same for all n samples is repeated ``LANES``
    times."""
    at = first if len(values) == n else ZERO
    for k in range(length):
        lanes[kind + k] = values[at + k]


@njit(inline="always")
def clear(lanes):
    """Begin a column that has fewer samples than lanes."""
    for k in range(np.uint64(len(lanes))):
        lanes[k] = 0.0


@njit(inline="always")
def add_up(lanes, kind, sums, column):
    """Write the sums of the lanes to a column of ``sums``: its rows are the kinds from ``kind`` on. Halves are added, so that a
    term goes through four additions."""
    for row in range(np.uint64(sums.shape[0])):
        at = kind + row * COUNT
        for k in range(EIGHT):
            lanes[at + k] += lanes[at + EIGHT + k]
        for k in range(FOUR):
            lanes[at + k] += lanes[at + FOUR + k]
        sums[row, column] = (lanes[at] + lanes[at + TWO]) + (lanes[at + ONE] + lanes[at + TWO + ONE])

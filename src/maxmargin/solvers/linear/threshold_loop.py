"""The projection on a simplex, which the two methods for Crammer and Singer's machine share."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit


@njit(inline="always")
def threshold(D, size, total):
    """The t with sum_q max(0, D_q - t) = total over the first ``size`` numbers, and how many of them are greater than t (C.
    Michelot, J. Optim. Theory Appl. 50, 1986).

    It ends where that count stops falling, whatever rounding does."""
    t, n = -np.inf, size + 1
    while True:
        count, added = 0, 0.0
        for q in range(size):
            if D[q] > t:
                count += 1
                added += D[q]
        if count == 0 or count >= n:
            return t, count
        t, n = (added - total) / count, count

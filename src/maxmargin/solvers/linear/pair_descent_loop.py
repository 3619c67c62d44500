"""The steps of pair descent: two samples at a time, so that the sum of alpha stays as it is."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import column_of, row_add, row_dot, row_length, row_start


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", inline="always")
def _clear(rows, i, w):
    start = row_start(rows, i)
    for k in range(row_length(rows, i)):
        w[column_of(rows, start, k)] = 0.0
    w[w.shape[0] - 1] = 0.0


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
def descend_pairs(rows, pairs, alpha, upper, w, other):
    """For each pair (i, j) move alpha_i up and alpha_j down, or the other way, by the same amount: to the least |w(alpha)| that
    their boxes allow. ``other`` is a vector of zeros, which it is again at the end."""
    for k in range(pairs.shape[0]):
        i, j = np.uint64(pairs[k, 0]), np.uint64(pairs[k, 1])
        slope = row_dot(rows, j, w) - row_dot(rows, i, w)
        room = min(upper[i] - alpha[i], alpha[j]) if slope > 0.0 else -min(alpha[i], upper[j] - alpha[j])
        if slope == 0.0 or room == 0.0:
            continue
        row_add(rows, i, 1.0, other)
        row_add(rows, j, -1.0, other)
        curvature = row_dot(rows, i, other) - row_dot(rows, j, other)  # |x_i - x_j|^2
        _clear(rows, i, other)
        _clear(rows, j, other)
        step = slope / curvature if abs(slope) < abs(room) * curvature else room
        alpha[i] = min(max(alpha[i] + step, 0.0), upper[i])
        alpha[j] = min(max(alpha[j] - step, 0.0), upper[j])
        row_add(rows, i, step, w)
        row_add(rows, j, -step, w)

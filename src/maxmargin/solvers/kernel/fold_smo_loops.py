"""How long w should be for the least primal value, along the line through w(alpha)."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit

FLAGS = {"contract", "nnan", "nsz", "reassoc", "arcp"}


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def stretched_loss(f, y, costs, stretch, b):
    """sum_i C_i max(0, 1 - y_i (stretch f_i + b))"""
    total = 0.0
    for i in range(np.uint64(f.shape[0])):
        total += costs[i] * max(0.0, 1.0 - y[i] * (stretch * f[i] + b))
    return total


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def best_stretch(f, y, costs, sqnorm, b, longest):
    """The factor from 1 to ``longest`` with the least stretch^2 |w|^2 / 2 + loss, by bisection of its slope."""
    low, high = 1.0, longest
    for _ in range(24):
        stretch = 0.5 * (low + high)
        slope = stretch * sqnorm
        for i in range(np.uint64(f.shape[0])):
            here = y[i] * f[i]
            slope -= costs[i] * here if y[i] * b + stretch * here < 1.0 else 0.0
        if slope < 0.0:
            low = stretch
        else:
            high = stretch
    return 0.5 * (low + high)

"""A sweep of dual coordinate descent that computes a margin only where the bounds (2) of Guillory and Bilmes (2007) leave it
open; ``benchmarks.papers.bounds_tried`` says what is tried."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.random_loops import below, next_random
from maxmargin.data.row_loops import row_add, row_dot, row_sqnorm

KNOWN = np.dtype([("margin", "f8"), ("norm", "f8"), ("path", "f8"), ("alpha", "f8"), ("U", "f8"), ("D", "f8")])
"""A sample: its margin when that was last computed or stored, its norm, and how far w had travelled by then."""

TRAVEL = np.dtype(
    [
        ("random", "u8"),
        ("path", "f8"),  # how far w has travelled, step by step
        ("squared", "f8"),  # |w - w'|^2
        ("M", "f8"),  # the greatest projected gradient of the sweep
        ("m", "f8"),  # the least
        ("products", "u8"),  # margins computed in the sweep
    ]
)

EVERYWHERE, ALONG_THE_PATH, FROM_ONE_POINT = 0, 1, 2
"""No bounds; w is no farther from where it was than the sum of its steps; |w - w'| is carried along exactly."""
SAFE = 1.0 + 1e-9
"""More than rounding takes from a distance, relatively."""


@njit(cache=True, nogil=True, error_model="numpy")
def bounded_sweep(rows: Any, y: Any, known: Any, index: Any, w: Any, travel: Any, how: int) -> None:
    """Algorithm 1 of Hsieh et al. (2008) in a new random order, all samples, the same steps whatever ``how`` is."""
    state = travel[0]
    state.M, state.m, state.products = -np.inf, np.inf, 0
    n = np.uint64(index.shape[0])
    for s in range(n):
        state.random = next_random(state.random)  # type: ignore[call-arg]
        other = s + below(state.random, n - s)
        index[s], index[other] = index[other], index[s]
        i = np.uint64(index[s])
        sample = known[i]
        sign, alpha, U, D = np.float64(y[i]), sample.alpha, sample.U, sample.D
        if how != EVERYWHERE:
            distance = state.path - sample.path if how == ALONG_THE_PATH else np.sqrt(max(state.squared, 0.0))
            reach = distance * sample.norm * SAFE
            if (alpha == 0.0 and sample.margin - reach > 1.0) or (alpha == U and sample.margin + reach < 1.0):
                state.M, state.m = max(state.M, 0.0), min(state.m, 0.0)
                continue
        margin = sign * row_dot(rows, i, w)
        state.products += np.uint64(1)
        stored = sample.margin
        if how == ALONG_THE_PATH:
            sample.margin, sample.path = margin, state.path
        G = margin - 1.0 + D * alpha
        PG = G
        if alpha == 0.0:
            PG = min(G, 0.0)
        elif alpha == U:
            PG = max(G, 0.0)
        state.M, state.m = max(state.M, PG), min(state.m, PG)
        if PG == 0.0:
            continue
        squares = sample.norm * sample.norm
        step = max(min(alpha - G / (D + squares), U), 0.0) - alpha
        if step == 0.0:
            continue
        sample.alpha = alpha + step
        row_add(rows, i, step * sign, w)
        state.path += abs(step) * sample.norm
        state.squared += step * (2.0 * (margin - stored) + step * squares)


@njit(cache=True, nogil=True, error_model="numpy")
def store_margins(rows: Any, y: Any, known: Any, w: Any) -> None:
    """Algorithm 1 of Guillory and Bilmes without its sort: one product for each sample."""
    for i in range(np.uint64(y.shape[0])):
        known[i].margin = np.float64(y[i]) * row_dot(rows, i, w)
        known[i].norm = np.sqrt(row_sqnorm(rows, i))

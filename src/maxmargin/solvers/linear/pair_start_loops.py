"""The loops with which pair descent begins: a rough solution for some of the samples, and an alpha for all of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import row_add, row_dot
from maxmargin.data.rows import Array
from maxmargin.solvers.linear.pair_descent_loop import OPTIONS

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)
MIXER, HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
"""An odd number whose bits look random, 2^64 divided by the golden ratio, and half of the bits."""


class Filling(NamedTuple):
    """How much weight alpha lacks, how many samples are to stay chosen, and memory for the order of the chosen ones."""

    missing: float
    size: int
    order: Array


class SamplePlan(NamedTuple):
    """Which rows ``sample_rows`` takes, and which of these are in the mean."""

    every: int
    mean_every: int


@njit(inline="always")
def _key_of_middle(keys, order, left, right):
    """The middle one of three keys: one from each end, and one between them."""
    one, two, three = keys[order[left]], keys[order[(left + right) // TWO]], keys[order[right - ONE]]
    return max(min(one, two), min(max(one, two), three))


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy")
def select_by_weight(order, n, keys, upper, weight):
    """Put the first n numbers of ``order`` into an order in which those with the least keys come first, up to the place at
    which the sum of their ``upper`` exceeds ``weight``. Returns that place, n if there is none, and the sum before it.
    Quickselect with three parts: below, at, and above a key. A single ``upper`` is that of all."""
    is_even, left, right, before = len(upper) == 1, ZERO, np.uint64(n), 0.0
    while left < right:
        pivot, low, at, high, weight_low, weight_at = _key_of_middle(keys, order, left, right), left, left, right, 0.0, 0.0
        while at < high:
            number = order[at]
            key, own = keys[number], upper[ZERO if is_even else number]
            if key < pivot:
                order[at], order[low] = order[low], number
                weight_low += own
                low, at = low + ONE, at + ONE
            elif key == pivot:
                weight_at += own
                at += ONE
            else:
                high -= ONE
                order[at], order[high] = order[high], number
        if before + weight_low > weight:
            right = low
        elif before + weight_low + weight_at > weight:
            before, left = before + weight_low, low
            while left < high:
                own = upper[ZERO if is_even else order[left]]
                if before + own > weight:
                    break
                before, left = before + own, left + ONE
            return left, before
        else:
            before, left = before + weight_low + weight_at, high
    return left, before


@njit(**OPTIONS)
def sample_rows(rows, plan, placed, w):
    """Choose one sample out of each ``every``, at a place that looks random: rows may come in an order with a period. Compute
    their outputs of w. Where ``mean_every`` is not zero, the mean of one out of so many of the chosen ones takes the place of
    w. Afterwards w is zero. Returns the sum of the bounds of the chosen ones."""
    upper, outputs, chosen = placed.upper, placed.outputs, placed.chosen
    every, mean_every, weight = np.uint64(plan.every), np.uint64(plan.mean_every), 0.0
    for k in range(np.uint64(len(chosen))):
        i = k * every + (k * MIXER >> HALF) % every
        chosen[k] = i
        weight += upper[i]
        if mean_every != ZERO and k % mean_every == ZERO:
            row_add(rows, i, upper[i], w)
    for i in chosen:
        outputs[i] = row_dot(rows, i, w)
    for j in range(len(w)):
        w[j] = 0.0
    return weight


@njit(**OPTIONS)
def band_of_sample(working_set, placed, low, high):
    """The outputs at which the bounds of the sample add up to the two weights. The alpha of the sample become zero."""
    chosen, outputs, order, own = working_set.chosen, working_set.outputs, working_set.below, working_set.squares
    n = np.uint64(len(chosen))
    for k in range(n):
        order[k], own[k] = k, placed.upper[chosen[k]]
        placed.alpha[chosen[k]] = 0.0
    least, greatest = -np.inf, np.inf
    for side in range(2):
        weight = low if side == 0 else high
        place, _ = select_by_weight(order, n, outputs, own, weight)
        found = outputs[order[place]] if place < n else np.inf
        least, greatest = (found if low > 0.0 else least, greatest) if side == 0 else (least, found)
    return least, greatest


@njit(**OPTIONS)
def fill_rows(rows, placed, filling, w, ones):
    """Raise alpha on the chosen samples, from the least output on, by ``missing`` together, and add them to w. Where the chosen
    are more than twice ``size``, those nearest to the last that was raised come first in ``order``. Returns how many stay
    chosen; ``ones`` is an array of a single one."""
    upper, alpha, outputs, chosen = placed
    missing, size, order = filling
    n, kept = np.uint64(len(chosen)), np.uint64(size)
    for k in range(n):
        order[k] = chosen[k]
    place, before = select_by_weight(order, n, outputs, upper, missing)
    for k in range(place + ONE if place < n else n):
        i = order[k]
        alpha[i] = upper[i] if k < place else min(max(0.0, missing - before), upper[i])
        row_add(rows, i, alpha[i], w)
    if n <= TWO * kept:
        return n
    half = kept // TWO
    first = min(place - half if place > half else ZERO, n - kept)
    for is_second in range(2):
        size, before_it = (first + kept, first) if is_second == 1 else (n, first + kept)
        select_by_weight(order, size, outputs, ones, np.float64(before_it))
    for k in range(kept):
        order[k] = order[first + k]
    return kept

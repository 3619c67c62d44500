"""The loops with which pair descent begins: an alpha for all samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import row_add
from maxmargin.data.rows import Array
from maxmargin.solvers.linear.pair_descent_loop import OPTIONS

ZERO, ONE, TWO = np.uint64(0), np.uint64(1), np.uint64(2)


class Filling(NamedTuple):
    """How much weight alpha lacks, how many samples are to stay chosen, and memory for the order of the chosen ones."""

    missing: float
    size: int
    order: Array


@njit(inline="always")
def _key_of_middle(keys, order, left, right):
    """The middle one of three keys: one from each end, and one between them."""
    one, two, three = keys[order[left]], keys[order[(left + right) // TWO]], keys[order[right - ONE]]
    low, high = (one, two) if one < two else (two, one)  # Numba's own min and max are functions that take time to compile
    return low if three < low else (three if three < high else high)


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
        rest = missing - before if missing > before else 0.0
        alpha[i] = upper[i] if k < place or rest > upper[i] else rest
        row_add(rows, i, alpha[i], w)
    if n <= TWO * kept:
        return n
    half = kept // TWO
    first = place - half if place > half else ZERO
    first = first if first < n - kept else n - kept
    for is_second in range(2):
        size, before_it = (first + kept, first) if is_second == 1 else (n, first + kept)
        select_by_weight(order, size, outputs, ones, np.float64(before_it))
    for k in range(kept):
        order[k] = order[first + k]
    return kept

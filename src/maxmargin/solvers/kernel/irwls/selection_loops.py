"""The three strategies of ``maxmargin.solvers.kernel.irwls.selection``, compiled: small working sets are many, and NumPy
takes longer to
choose one than it takes to solve it. What is returned are places, in any order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.random_loops import below, next_random
from maxmargin.solvers.kernel.irwls.cholesky_loops import OPTIONS

RANDOM, BY_SIZE = 0, 1


class Strategy(NamedTuple):
    """``kind`` is RANDOM or BY_SIZE. By size, ``sign`` is 1 for the smallest |e| and -1 for the largest, and ``by_side`` takes
    half from those that rise and half from those that fall."""

    kind: int
    sign: float
    by_side: bool


class Candidates(NamedTuple):
    """The samples that may be chosen: their errors, their labels, whether s may rise and may fall, and eps."""

    e: np.ndarray
    y: np.ndarray
    can_rise: np.ndarray
    can_fall: np.ndarray
    epsilon: float


@njit(inline="always")
def rises(errors, i):
    return errors.can_rise[i] and errors.e[i] >= errors.epsilon


@njit(inline="always")
def falls(errors, i):
    return errors.can_fall[i] and errors.e[i] <= -errors.epsilon


@njit(**OPTIONS)
def list_candidates(errors, places):
    """The places of those that violate (9), (10) or (11), or are free; returns how many. Without a branch, as none could be
    foretold."""
    e, can_rise, can_fall, epsilon = errors.e, errors.can_rise, errors.can_fall, errors.epsilon
    count = 0
    for i in range(len(e)):
        places[count] = i
        rise, fall = can_rise[i], can_fall[i]
        count += (rise & fall) | (rise & (e[i] >= epsilon)) | (fall & (e[i] <= -epsilon))
    return count


@njit(**OPTIONS)
def count_candidates(errors):
    """How many there are."""
    e, can_rise, can_fall, epsilon = errors.e, errors.can_rise, errors.can_fall, errors.epsilon
    count = 0
    for i in range(np.uint64(len(e))):
        rise, fall = can_rise[i], can_fall[i]
        count += (rise & fall) | (rise & (e[i] >= epsilon)) | (fall & (e[i] <= -epsilon))
    return count


@njit(**OPTIONS)
def places_of(chosen):
    """In ascending order."""
    places, count = np.empty(len(chosen), np.int64), 0
    for i in range(len(chosen)):
        places[count] = i
        count += chosen[i]
    return places[:count]


@njit(**OPTIONS)
def kth_lowest(values, k):
    """By quickselect, which reorders ``values``. (NumPy's partition takes seconds to compile.)"""
    low, high = 0, len(values) - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    return values[k]


@njit(**OPTIONS)
def take_lowest(rank, is_there, count, chosen):
    """Of those that are there, the ``count`` with the lowest rank become chosen; all if they are fewer."""
    values, here = np.empty(len(rank)), 0
    for i in range(len(rank)):
        if is_there[i]:
            values[here] = rank[i]
            here += 1
    if count <= 0 or here == 0:
        return
    limit = kth_lowest(values[:here], min(count, here) - 1)
    left = count
    for i in range(len(rank)):
        if is_there[i] and rank[i] < limit:
            chosen[i] = True
            left -= 1
    for i in range(len(rank)):
        if left > 0 and is_there[i] and rank[i] == limit:
            chosen[i] = True
            left -= 1


@njit(**OPTIONS)
def complete(errors, size, chosen):
    """Step 5: with those that fulfil their conditions and have the lowest |e|, the free ones before the others."""
    n = len(chosen)
    rank, is_other, left, greatest = np.empty(n), np.empty(n, np.bool_), size, 0.0
    for i in range(n):
        greatest = max(greatest, abs(errors.e[i]))
    for i in range(n):
        rank[i] = abs(errors.e[i]) if errors.can_rise[i] and errors.can_fall[i] else abs(errors.e[i]) + greatest
        is_other[i] = not chosen[i]
        left -= chosen[i]
    take_lowest(rank, is_other, left, chosen)


@njit(**OPTIONS)
def bring_one_of_each_kind(errors, candidates, size):
    """Step 3: for each class and each of (9), (10), (11), the worst comes to the front of the candidates. Returns how many."""
    e, y, can_rise, can_fall, epsilon = errors
    worst, where = np.full(12, -1.0), np.full(12, -1)
    for k in range(len(candidates)):
        i = candidates[k]
        size_of_e = abs(e[i])
        position = 2 * can_rise[i] + can_fall[i] - 1  # 0 and 1 at a bound, 2 free
        kind = 3 * (2 * (e[i] > 0.0) + (y[i] > 0.0)) + position
        if size_of_e >= epsilon and size_of_e > worst[kind]:
            worst[kind], where[kind] = size_of_e, k
    front = 0
    for kind in range(12):
        k = where[kind]
        if k >= 0 and front < size:
            candidates[front], candidates[k] = candidates[k], candidates[front]
            for other in range(kind + 1, 12):  # the one that stood at the front stands at k now
                where[other] = k if where[other] == front else where[other]
            front += 1
    return front


@njit(**OPTIONS)
def choose_random(errors, size, word):
    """The six steps of section 3; "n" there is the size of the working set."""
    n = len(errors.e)
    candidates = np.empty(n, np.int64)
    count = list_candidates(errors, candidates)  # 1
    if count < size:  # 2
        chosen = np.zeros(n, np.bool_)
        for k in range(count):
            chosen[candidates[k]] = True
        complete(errors, size, chosen)  # 5
        return places_of(chosen)
    front = bring_one_of_each_kind(errors, candidates[:count], size)  # 3
    for k in range(front, size):  # 4: the first of a random order of those that are left
        word = next_random(word)
        other = k + np.int64(below(word, np.uint64(count - k)))
        candidates[k], candidates[other] = candidates[other], candidates[k]
    return candidates[:size]  # 6


@njit(**OPTIONS)
def choose_by_size(errors, size, sign, by_side):
    """The violators with the lowest sign |e|; more from one side where the other has too few."""
    n = len(errors.e)
    chosen, rising, falling = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    rank, n_rising, n_falling = np.empty(n), 0, 0
    for i in range(n):
        rising[i], falling[i], rank[i] = rises(errors, i), falls(errors, i), sign * abs(errors.e[i])
        n_rising += rising[i]
        n_falling += falling[i]
    if by_side and n_rising + n_falling > size:
        n_rising = min(n_rising, max(size // 2, size - n_falling))
        take_lowest(rank, rising, n_rising, chosen)
        take_lowest(rank, falling, size - n_rising, chosen)
        return places_of(chosen)
    for i in range(n):
        rising[i] = rising[i] or falling[i]
    take_lowest(rank, rising, size, chosen)
    complete(errors, size, chosen)
    return places_of(chosen)


@njit(**OPTIONS)
def choose(errors, size, strategy, word):
    """The places of ``size`` samples, or of all if there are fewer. ``word`` is random."""
    if strategy.kind == RANDOM:
        return choose_random(errors, size, word)
    return choose_by_size(errors, size, strategy.sign, strategy.by_side)

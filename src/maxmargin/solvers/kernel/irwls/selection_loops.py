"""The three strategies of ``maxmargin.solvers.kernel.irwls.selection``, compiled: small working sets are many, and NumPy
takes longer to choose one than it takes to solve it. The chosen places stand at the front of the caller's memory, in any
order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.random_loops import below, next_random
from maxmargin.solvers.kernel.irwls.cholesky_loops import LOOP

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


KINDS = 12
"""Kinds of violators: two classes, two signs of the error, and three places of s, at either bound or free."""


class SelectionMemory(NamedTuple):
    """What choosing from n samples needs: the ``places`` hold the answer, with room for two more."""

    places: np.ndarray
    rank: np.ndarray
    values: np.ndarray
    masks: np.ndarray
    worst: np.ndarray
    where: np.ndarray

    @classmethod
    def of(cls, n: int) -> SelectionMemory:
        vectors = np.empty(n), np.empty(n), np.empty((4, n), np.bool_)
        return cls(np.empty(n + 2, np.int64), *vectors, np.empty(KINDS), np.empty(KINDS, np.int64))


class Choice(NamedTuple):
    """How many places were chosen, and how many candidates there were."""

    size: int
    candidates: int


@njit(inline="always")
def rises(errors, i):
    return errors.can_rise[i] and errors.e[i] >= errors.epsilon


@njit(inline="always")
def falls(errors, i):
    return errors.can_fall[i] and errors.e[i] <= -errors.epsilon


@njit(**LOOP)
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


@njit(**LOOP)
def count_candidates(errors):
    """How many there are."""
    e, can_rise, can_fall, epsilon = errors.e, errors.can_rise, errors.can_fall, errors.epsilon
    count = 0
    for i in range(np.uint64(len(e))):
        rise, fall = can_rise[i], can_fall[i]
        count += (rise & fall) | (rise & (e[i] >= epsilon)) | (fall & (e[i] <= -epsilon))
    return count


@njit(**LOOP)
def list_places(chosen, places):
    """List the marked places in ascending order; returns how many."""
    count = 0
    for i in range(len(chosen)):
        places[count] = i
        count += chosen[i]
    return count


@njit(**LOOP)
def kth_lowest(values, count, k):
    """The k-th lowest of the first ``count`` values, by quickselect, which reorders them. (NumPy's partition takes seconds to
    compile.)"""
    low, high = 0, count - 1
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


@njit(**LOOP)
def take_lowest(memory, is_there, count, chosen):
    """Choose the ``count`` samples of the lowest rank among those marked in ``is_there``, or all of these if they are fewer."""
    rank, values, here = memory.rank, memory.values, 0
    for i in range(len(rank)):
        if is_there[i]:
            values[here] = rank[i]
            here += 1
    if count <= 0 or here == 0:
        return
    limit = kth_lowest(values, here, min(count, here) - 1)
    left = count
    for i in range(len(rank)):
        if is_there[i] and rank[i] < limit:
            chosen[i] = True
            left -= 1
    for i in range(len(rank)):
        if left > 0 and is_there[i] and rank[i] == limit:
            chosen[i] = True
            left -= 1


@njit(**LOOP)
def complete(errors, size, chosen, memory):
    """Step 5: with those that fulfil their conditions and have the lowest |e|, the free ones before the others."""
    n, rank, is_other = len(chosen), memory.rank, memory.masks[3]
    left, greatest = size, 0.0
    for i in range(n):
        greatest = max(greatest, abs(errors.e[i]))
    for i in range(n):
        rank[i] = abs(errors.e[i]) if errors.can_rise[i] and errors.can_fall[i] else abs(errors.e[i]) + greatest
        is_other[i] = not chosen[i]
        left -= chosen[i]
    take_lowest(memory, is_other, left, chosen)


@njit(**LOOP)
def bring_one_of_each_kind(errors, count, size, memory):
    """Step 3: for each class and each of (9), (10), (11), the worst comes to the front of the candidates. Returns how many."""
    e, y, can_rise, can_fall, epsilon = errors
    candidates, worst, where = memory.places, memory.worst, memory.where
    for kind in range(KINDS):
        worst[kind], where[kind] = -1.0, -1
    for k in range(np.uint64(count)):
        i = np.uint64(candidates[k])
        size_of_e = abs(e[i])
        position = 2 * can_rise[i] + can_fall[i] - 1  # 0 and 1 at a bound, 2 free
        kind = 3 * (2 * (e[i] > 0.0) + (y[i] > 0.0)) + position
        if size_of_e >= epsilon and size_of_e > worst[kind]:
            worst[kind], where[kind] = size_of_e, k
    front = 0
    for kind in range(KINDS):
        place = where[kind]
        if place >= 0 and front < size:
            candidates[front], candidates[place] = candidates[place], candidates[front]
            for other in range(kind + 1, KINDS):  # the one that stood at the front stands at ``place`` now
                where[other] = place if where[other] == front else where[other]
            front += 1
    return front


@njit(**LOOP)
def choose_random(errors, size, word, memory):
    """The six steps of section 3; "n" there is the size of the working set."""
    candidates, chosen = memory.places, memory.masks[0]
    count = list_candidates(errors, candidates)  # 1
    if count < size:  # 2
        for i in range(len(chosen)):
            chosen[i] = False
        for k in range(count):
            chosen[candidates[k]] = True
        complete(errors, size, chosen, memory)  # 5
        return Choice(list_places(chosen, candidates), count)
    front = bring_one_of_each_kind(errors, count, size, memory)  # 3
    for k in range(front, size):  # 4: the first of a random order of those that are left
        word = next_random(word)
        other = k + np.int64(below(word, np.uint64(count - k)))
        candidates[k], candidates[other] = candidates[other], candidates[k]
    return Choice(size, count)  # 6


@njit(**LOOP)
def choose_by_size(errors, size, sign, by_side, memory):
    """The violators with the lowest sign |e|; more from one side where the other has too few."""
    chosen, rising, falling, rank = memory.masks[0], memory.masks[1], memory.masks[2], memory.rank
    n_rising = n_falling = 0
    for i in range(len(rank)):
        rising[i], falling[i], rank[i] = rises(errors, i), falls(errors, i), sign * abs(errors.e[i])
        n_rising += rising[i]
        n_falling += falling[i]
        chosen[i] = False
    if by_side and n_rising + n_falling > size:
        n_rising = min(n_rising, max(size // 2, size - n_falling))
        take_lowest(memory, rising, n_rising, chosen)
        take_lowest(memory, falling, size - n_rising, chosen)
    else:
        for i in range(len(rank)):
            rising[i] = rising[i] or falling[i]
        take_lowest(memory, rising, size, chosen)
        complete(errors, size, chosen, memory)
    return Choice(list_places(chosen, memory.places), count_candidates(errors))


@njit(**LOOP)
def choose(errors, size, strategy, word, memory):
    """``size`` samples, or all if there are fewer. ``word`` is random."""
    if strategy.kind == RANDOM:
        return choose_random(errors, size, word, memory)
    return choose_by_size(errors, size, strategy.sign, strategy.by_side, memory)

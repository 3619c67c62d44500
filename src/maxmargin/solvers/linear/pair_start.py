"""Where pair descent begins: which samples come first by their outputs. Nothing here is compiled: samples and working sets
are short, and a loop that does the same takes 0.7 s of a first fit."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array


class Lowest(NamedTuple):
    """The numbers of the samples with the least keys whose bounds add up to ``before``. The last of ``numbers`` is that of the
    sample that comes next, if ``has_next``."""

    numbers: Array
    before: float
    has_next: bool


def lowest(keys: Array, upper: Array, weight: float) -> Lowest:
    """The samples with the least keys, up to the place at which the sum of their ``upper`` exceeds ``weight``. A single
    ``upper`` is that of all."""
    n = len(keys)
    if len(upper) == 1:
        place = ranks_of([weight], float(upper[0]), n)[0]
        return Lowest(_first(keys, place), place * float(upper[0]), place < n)
    order = np.argsort(keys, kind="stable")
    sums = np.cumsum(upper[order])
    place = int(np.searchsorted(sums, weight, side="right"))
    return Lowest(order[: place + 1], float(sums[place - 1]) if place > 0 else 0.0, place < n)


def keys_at(keys: Array, upper: Array, weights: list[float]) -> list[float]:
    """For each weight the key at that place: minus infinity where a weight is not positive."""
    last = len(keys) - 1
    if len(upper) == 1:
        ranks = [min(rank, last) for rank in ranks_of(weights, float(upper[0]), len(keys))]
        ordered = np.partition(keys, ranks)
    else:
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        ranks = [min(int(rank), last) for rank in np.searchsorted(np.cumsum(upper[order]), weights, side="right")]
    return [float(ordered[rank]) if weight > 0.0 else -math.inf for rank, weight in zip(ranks, weights, strict=True)]


def ranks_of(weights: list[float], bound: float, n: int) -> list[int]:
    """How many samples of the same bound have no more than each weight together."""
    return [max(0, min(n, math.floor(weight / bound))) if bound > 0.0 else n for weight in weights]


def nearest(keys: Array, is_raised: Array, size: int) -> Array:
    """The numbers of ``size`` samples, in rising order: those with the greatest keys of the raised ones, and those with the
    least keys of the others, half of each if there are so many. Where many keys are equal, both halves are needed for pairs."""
    raised, others = np.flatnonzero(is_raised), np.flatnonzero(~is_raised)
    n_others = min(len(others), max(size - size // 2, size - len(raised)))
    return np.sort(np.concatenate([_least(raised, -keys[raised], size - n_others), _least(others, keys[others], n_others)]))


def _least(numbers: Array, keys: Array, count: int) -> Array:
    """So many of the numbers, with the least keys."""
    return numbers[np.argpartition(keys, count)[:count]] if count < len(numbers) else numbers


def _first(keys: Array, place: int) -> Array:
    """The numbers of the ``place`` least keys and, at the end, of the next. Values are put into order, not numbers: that takes
    a quarter of the time."""
    if place >= len(keys):
        return np.arange(len(keys))
    key = np.partition(keys, place)[place]
    below = np.flatnonzero(keys < key)
    return np.concatenate([below, np.flatnonzero(keys == key)[: place + 1 - len(below)]])

"""Where pair descent begins: between which outputs rho is, and which samples are nearest to it. Nothing here is compiled:
samples and working sets are short, and each loop adds to the time of a first fit."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.data.rows import Array, Rows


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


def on_empty_rows(rows: Rows, upper: Array, total: float) -> Array | None:
    """An alpha on rows without stored elements alone, if these can bear all of the sum: w = 0 is optimal then. Pairs take alpha
    off the other rows by ever smaller shares, and the last digits of a rare column stay."""
    if not rows.is_sparse:
        return None
    indptr = rows.matrix.indptr
    empty = np.flatnonzero(indptr[1:] == indptr[:-1])
    bounds = upper[empty]
    if len(empty) == 0 or bounds.sum() < total:
        return None
    rows.check()
    alpha = np.zeros(len(upper))
    alpha[empty] = _with_sum(np.clip(total - (np.cumsum(bounds) - bounds), 0.0, bounds), bounds, total)
    return alpha


def _with_sum(alpha: Array, upper: Array, total: float) -> Array:
    """alpha whose sum is right but for rounding: one element inside its box takes up the rest."""
    rest = total - math.fsum(alpha)
    inside = np.flatnonzero((alpha > 0.0) & (alpha < upper) & (alpha + rest >= 0.0) & (alpha + rest <= upper))
    alpha[inside[:1]] += rest
    return alpha


def _least(numbers: Array, keys: Array, count: int) -> Array:
    """So many of the numbers, with the least keys."""
    return numbers[np.argpartition(keys, count)[:count]] if count < len(numbers) else numbers

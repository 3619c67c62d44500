"""The loops of pair descent: one pass over all samples, and the steps on a working set, two samples at a time, so that the sum
of alpha stays as it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import column_of, row_dot, row_length, row_sqnorm, row_start, short_row_add
from maxmargin.data.rows import Array

ZERO, ONE, THREE = np.uint64(0), np.uint64(1), np.uint64(3)
ROUNDING = 2.0**-53
"""The largest relative error of one rounding to float64."""
OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    "allocates": False,
}


class Placed(NamedTuple):
    """An element for each sample: the bound of alpha, alpha, and the output. ``chosen`` takes numbers of samples, one more than
    there are, and ``raised`` those of as many rows as are looked at together."""

    upper: Array
    alpha: Array
    outputs: Array
    chosen: Array
    raised: Array


class WorkingSet(NamedTuple):
    """The samples of a working set, their outputs, memory for |x_i|^2, and for numbers of those that violate optimality on each
    side."""

    chosen: Array
    outputs: Array
    squares: Array
    below: Array
    above: Array


class Task(NamedTuple):
    """What ends the steps on a working set: the relative gap to reach, a number of rows read, or a w that is nothing but
    rounding, where w = 0 is optimal. ``total`` is the sum of all alpha. Where ``spread`` is not zero, the gap does not count:
    the outputs of two samples that can be paired are to differ by at most ``spread`` times |w| |x|. A round computes the
    outputs, halves the interval that holds rho ``halvings`` times, and pairs each violator ``sweeps`` times. ``alike`` is a
    field of ``PairPolicy``."""

    target: float
    most_read: float
    total: float
    spread: float
    sweeps: int
    halvings: int
    alike: float


@njit(**OPTIONS)
def place_rows(rows, w, band, placed, new_w, start, stop):
    """All outputs of w. An output below the band puts alpha at its bound, and adds the sample to ``new_w``. A sample in the
    band is chosen. Returns how many are chosen, and the sum of alpha below the band. No branch depends on an output, which is
    not to be foreseen: some rows at a time are looked at, and those below the band are added afterwards."""
    upper, alpha, outputs, chosen, raised = placed
    low, high = band
    n_chosen, total, end = ZERO, 0.0, np.uint64(stop)
    for first in range(np.uint64(start), end, np.uint64(len(raised))):
        n_raised = ZERO
        for i in range(first, first + np.uint64(len(raised)) if first + np.uint64(len(raised)) < end else end):
            output, bound = row_dot(rows, i, w), upper[i]
            outputs[i] = output
            alpha[i] = bound if output < low else 0.0
            raised[n_raised], chosen[n_chosen] = i, i
            n_raised += ONE if output < low else ZERO
            n_chosen += ONE if (output >= low) & (output <= high) else ZERO
        for place in range(n_raised):
            i = raised[place]
            total += upper[i]
            short_row_add(rows, i, upper[i], new_w)
    return n_chosen, total


@njit(inline="always")
def lesser_of(one, other):
    """Numba's own min is a function that takes time to compile."""
    return one if one < other else other


@njit(inline="always")
def _cleared(rows, i, w):
    """The squares of the elements of w where x_i has elements, which become zero."""
    start, total = row_start(rows, i), 0.0
    for k in range(row_length(rows, i)):
        column = column_of(rows, start, k)
        total += w[column] * w[column]
        w[column] = 0.0
    return total


@njit(inline="always")
def _sort(numbers, n, keys, sign):
    """Shell's sort of the first n numbers by ``sign`` times their keys."""
    stride = ONE
    while stride * THREE < n:
        stride = THREE * stride + ONE
    while stride > 0:
        for a in range(stride, n):
            number, place = numbers[a], a
            key = sign * keys[number]
            while place >= stride and sign * keys[numbers[place - stride]] > key:
                numbers[place] = numbers[place - stride]
                place -= stride
            numbers[place] = number
        stride //= THREE


@njit(**OPTIONS)
def descend_pairs(rows, working_set, alpha, upper, w, other, task):
    """Move alpha on the working set towards the least |w(alpha)|, all other alpha fixed. ``other`` is a vector of zeros, which
    it is again at the end. Returns rho, the gap, the rows read, and the greatest |x_i|^2.

    A round computes all outputs of the set, takes rho between its two sides, and pairs the samples below rho whose alpha can
    rise, from the worst on, with the samples above rho whose alpha can fall. A pair (i, j) moves alpha_i up and alpha_j down,
    or the other way, by the same amount: to the least |w(alpha)| that their boxes allow. At the end one free alpha takes up
    what rounding left of their sum."""
    chosen, outputs, squares, below, above = working_set
    n, rho, gap, n_read, longest, rest = np.uint64(len(chosen)), 0.0, np.inf, 0.0, 0.0, 0.0
    for k in range(n):
        squares[k] = row_sqnorm(rows, chosen[k])
        longest = squares[k] if squares[k] > longest else longest
        rest -= alpha[chosen[k]]
    while True:
        low, high = np.inf, -np.inf
        for k in range(n):
            i = chosen[k]
            output = row_dot(rows, i, w)
            outputs[k] = output
            low = output if alpha[i] < upper[i] and output < low else low
            high = output if alpha[i] > 0.0 and output > high else high
        n_read += n
        if low >= high:  # no pair can be moved
            rho = 0.5 * (low + high) if low - high < np.inf else (high if high > -np.inf else low)
            gap = 0.0
            break
        wanted = 0.0  # the weight that is to be between ``low`` and rho
        for k in range(n):
            i = chosen[k]
            wanted += alpha[i] - (upper[i] if outputs[k] < low else 0.0)
        least, greatest = low, high
        for _ in range(task.halvings):
            rho, weight = 0.5 * (least + greatest), 0.0
            for k in range(n):
                weight += upper[chosen[k]] if (outputs[k] >= low) & (outputs[k] < rho) else 0.0
            least, greatest = (least, rho) if weight > wanted else (rho, greatest)
        gap, n_below, n_above = 0.0, np.uint64(0), np.uint64(0)
        for k in range(n):
            i = chosen[k]
            lacking, it = rho - outputs[k], alpha[i]
            gap += (upper[i] - it) * lacking if lacking > 0.0 else -it * lacking
            below[n_below], above[n_above] = k, k
            n_below += ONE if lacking > 0.0 and it < upper[i] else ZERO
            n_above += ONE if lacking < 0.0 and it > 0.0 else ZERO
        sqnorm = 0.0
        for j in range(len(w)):
            sqnorm += w[j] * w[j]
        zero = ROUNDING * task.total
        is_zero = sqnorm <= zero * zero * longest
        is_done = gap <= task.target * 0.5 * sqnorm
        if task.spread > 0.0:
            is_done = high - low <= task.spread * np.sqrt(sqnorm * longest)
        if is_zero or is_done or n_read > task.most_read or n_below == 0 or n_above == 0:
            gap = 0.0 if is_zero else gap
            break
        for side in range(2):  # one text for both: each takes 0.2 s to compile
            _sort(below if side == 0 else above, n_below if side == 0 else n_above, outputs, 1.0 - 2.0 * side)
        size = n_below if n_below > n_above else n_above
        shift = size // np.uint64(task.sweeps)
        for k in range(size * np.uint64(task.sweeps)):
            p, q = below[k % size % n_below], above[(k % size + k // size * shift) % n_above]
            i, j = chosen[p], chosen[q]
            slope = row_dot(rows, j, w) - row_dot(rows, i, w)
            room = lesser_of(upper[i] - alpha[i], alpha[j]) if slope > 0.0 else -lesser_of(alpha[i], upper[j] - alpha[j])
            if slope == 0.0 or room == 0.0:
                continue
            short_row_add(rows, i, 1.0, other)
            both = squares[p] + squares[q]
            curvature = both - 2.0 * row_dot(rows, j, other)  # |x_i - x_j|^2
            are_alike = curvature <= task.alike * both
            if are_alike:  # by what is left after x_j is taken away: the difference has lost its digits
                short_row_add(rows, j, -1.0, other)
                curvature = _cleared(rows, j, other)
            rest_of_i = _cleared(rows, i, other)
            curvature += rest_of_i if are_alike else 0.0
            step = slope / curvature if abs(slope) < abs(room) * curvature else room
            alpha[i] = lesser_of(alpha[i] + step if alpha[i] + step > 0.0 else 0.0, upper[i])
            alpha[j] = lesser_of(alpha[j] - step if alpha[j] > step else 0.0, upper[j])
            short_row_add(rows, i, step, w)
            short_row_add(rows, j, -step, w)
        n_read += 2.0 * size * task.sweeps
    for k in range(n):
        rest += alpha[chosen[k]]
    for k in range(n):
        it = alpha[chosen[k]] - rest
        if it > 0.0 and it < upper[chosen[k]]:
            alpha[chosen[k]] = it
            break
    return rho, gap, n_read, longest

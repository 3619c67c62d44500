"""The loops of pair descent: one pass over all samples, and the steps on a working set, two samples at a time, so that the sum
of alpha stays as it is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.by_type import by_type, loop_by_type
from maxmargin.data.caching import njit
from maxmargin.data.row_loops import column_of, row_dot, row_length, row_sqnorm, row_start, short_row_add, value_of
from maxmargin.data.rows import Array, CsrRows, DenseRows

ZERO, ONE, TWO, THREE = (np.uint64(k) for k in range(4))
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
    """An element for each sample: the bound of alpha (or one for all of them), alpha, and the output. ``chosen`` takes numbers
    of samples, one more than there are, and ``raised`` those of as many rows as are looked at together."""

    upper: Array
    alpha: Array
    outputs: Array
    chosen: Array
    raised: Array


class WorkingSet(NamedTuple):
    """The samples of a working set, and memory: for their outputs, alpha and bounds, one after the other, and for the numbers
    of those that violate optimality on each side."""

    chosen: Array
    outputs: Array
    alpha: Array
    upper: Array
    below: Array
    above: Array


class Task(NamedTuple):
    """What ends the steps on a working set: the relative gap to reach, a number of rows read, or a w that is nothing but
    rounding, where w = 0 is optimal. ``total`` is the sum of all alpha. Where ``spread`` is not zero, the gap does not count:
    the outputs of two samples that can be paired are to differ by at most ``spread`` times |w| |x|. A round computes the
    outputs, halves the interval that holds rho ``halvings`` times, and pairs each violator ``sweeps`` times."""

    target: float
    most_read: float
    total: float
    spread: float
    sweeps: int
    halvings: int


@njit(inline="always")
def bound_of(upper, i):
    """The bound of alpha_i, where there may be one for all samples."""
    return upper[i if len(upper) > 1 else ZERO]


@njit(**OPTIONS)
def place_rows(rows, w, band, placed, new_w, start, stop):
    """All outputs of w. An output below the band puts alpha at its bound, and adds the sample to ``new_w``. A sample in the
    band is chosen. Returns how many are chosen, and the sum of alpha below the band. No branch depends on an output, which is
    not to be foreseen: some rows at a time are looked at, and those below the band are added afterwards."""
    upper, alpha, outputs, chosen, raised = placed
    low, high = band
    n_chosen, total, end = ZERO, 0.0, np.uint64(stop)
    for first in range(np.uint64(start), end, np.uint64(len(raised))):
        n_raised, last = ZERO, first + np.uint64(len(raised))
        last = last if last < end else end
        for i in range(first, last):  # nothing else is in this loop: with the next one it took twice as long
            outputs[i] = row_dot(rows, i, w)
        for i in range(first, last):
            output, bound = outputs[i], bound_of(upper, i)
            alpha[i] = bound if output < low else 0.0
            raised[n_raised], chosen[n_chosen] = i, i
            n_raised += ONE if output < low else ZERO
            n_chosen += ONE if (output >= low) & (output <= high) else ZERO
        for place in range(n_raised):
            i = raised[place]
            total += bound_of(upper, i)
            short_row_add(rows, i, bound_of(upper, i), new_w)
    return n_chosen, total


@njit(**OPTIONS)
def find_outputs(rows, w, outputs, start, stop):
    """outputs_i = w . x_i"""
    for i in range(np.uint64(start), np.uint64(stop)):
        outputs[i] = row_dot(rows, i, w)


@njit(**OPTIONS)
def raise_least(rows, placed, missing, numbers, w):
    """Raise alpha to its bound on the chosen samples, from the least output on, as long as their sum is at most ``missing``,
    give what is left to the next, and add all rows to w. ``numbers`` is memory for the chosen samples.

    The place in their order at which the sum of the bounds exceeds ``missing`` is found as in quicksort: samples are parted by
    the output of one of them, and the search goes on among those on one side."""
    upper, alpha, outputs, chosen, _ = placed
    n_chosen, first, before = np.uint64(len(chosen)), ZERO, 0.0
    last = n_chosen
    for k in range(last):
        numbers[k] = chosen[k]
    while first < last:
        pivot, n_less, n_greater, weight = outputs[numbers[first + (last - first) // TWO]], first, last, 0.0
        k = first
        while k < n_greater:
            i = numbers[k]
            if outputs[i] < pivot:
                weight += bound_of(upper, i)
                numbers[k], numbers[n_less] = numbers[n_less], i
                n_less += ONE
                k += ONE
            elif outputs[i] > pivot:
                n_greater -= ONE
                numbers[k], numbers[n_greater] = numbers[n_greater], i
            else:
                k += ONE
        if before + weight > missing:
            last = n_less
            continue
        before += weight
        first = n_less
        while first < n_greater and before + bound_of(upper, numbers[first]) <= missing:
            before += bound_of(upper, numbers[first])
            first += ONE
        if first < n_greater:
            break
    for k in range(first):
        alpha[numbers[k]] = bound_of(upper, numbers[k])
    if first < n_chosen:
        rest = missing - before
        alpha[numbers[first]] = rest if rest > 0.0 else 0.0
    for k in range(n_chosen):
        i = chosen[k]
        if alpha[i] != 0.0:
            short_row_add(rows, i, alpha[i], w)


@njit(inline="always")
def lesser_of(one, other):
    """Numba's own min is a function that takes time to compile."""
    return one if one < other else other


@by_type
def pair_terms(rows, i, j, w, other):
    """w . (x_j - x_i) and |x_j - x_i|^2. Differences are taken element by element: those of products or squares would have few
    digits where both rows are long and alike. ``other`` is a vector of zeros, before and after."""


@pair_terms.when(CsrRows)
def _(rows, i, j, w, other):
    slope = curvature = 0.0
    start_i, start_j = row_start(rows, i), row_start(rows, j)
    for k in range(row_length(rows, i)):
        other[column_of(rows, start_i, k)] = value_of(rows, start_i, k)
    for k in range(row_length(rows, j)):
        column = column_of(rows, start_j, k)
        change = value_of(rows, start_j, k) - other[column]
        other[column] = 0.0
        slope += w[column] * change
        curvature += change * change
    for k in range(row_length(rows, i)):  # what is left are the columns of x_i alone
        column = column_of(rows, start_i, k)
        change = other[column]
        other[column] = 0.0
        slope -= w[column] * change
        curvature += change * change
    return slope, curvature


@pair_terms.when(DenseRows)
def _(rows, i, j, w, other):
    slope = curvature = 0.0
    for k in range(row_length(rows, i)):
        change = np.float64(rows.values[j, k]) - rows.values[i, k]
        slope += w[k] * change
        curvature += change * change
    return slope, curvature


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


@loop_by_type("rows", **OPTIONS)
def descend_pairs(rows, working_set, alphas, uppers, w, other, task):
    """Move alpha on the working set towards the least |w(alpha)|, all other alpha fixed. ``other`` is a vector of zeros, which
    it is again at the end. Returns rho, the gap, the rows read, and the greatest |x_i|^2.

    A round computes all outputs of the set, takes rho between its two sides, and pairs the samples below rho whose alpha can
    rise, from the worst on, with the samples above rho whose alpha can fall. A pair (i, j) moves alpha_i up and alpha_j down,
    or the other way, by the same amount: to the least |w(alpha)| that their boxes allow. At the end one free alpha takes up
    what rounding left of their sum."""
    chosen, outputs, alpha, upper, below, above = working_set
    n, rho, gap, n_read, longest, rest = np.uint64(len(chosen)), 0.0, np.inf, 0.0, 0.0, 0.0
    for k in range(n):
        i = chosen[k]
        square = row_sqnorm(rows, i)
        longest = square if square > longest else longest
        alpha[k], upper[k] = alphas[i], bound_of(uppers, i)
        rest -= alpha[k]
    while True:
        low, high = np.inf, -np.inf
        for k in range(n):
            outputs[k] = row_dot(rows, chosen[k], w)
        for k in range(n):
            low = outputs[k] if (alpha[k] < upper[k]) & (outputs[k] < low) else low
            high = outputs[k] if (alpha[k] > 0.0) & (outputs[k] > high) else high
        n_read += n
        if low >= high:  # no pair can be moved
            rho = 0.5 * (low + high) if low - high < np.inf else (high if high > -np.inf else low)
            gap = 0.0
            break
        wanted = 0.0  # the weight that is to be between ``low`` and rho
        for k in range(n):
            wanted += alpha[k] - (upper[k] if outputs[k] < low else 0.0)
        least, greatest = low, high
        for _ in range(task.halvings):
            rho, weight = 0.5 * (least + greatest), 0.0
            for k in range(n):
                weight += upper[k] if (outputs[k] >= low) & (outputs[k] < rho) else 0.0
            least, greatest = (least, rho) if weight > wanted else (rho, greatest)
        gap, n_below, n_above = 0.0, np.uint64(0), np.uint64(0)
        for k in range(n):
            lacking, it, bound = rho - outputs[k], alpha[k], upper[k]
            gap += (bound - it) * lacking if lacking > 0.0 else -it * lacking
            below[n_below], above[n_above] = k, k
            n_below += ONE if (lacking > 0.0) & (it < bound) else ZERO
            n_above += ONE if (lacking < 0.0) & (it > 0.0) else ZERO
        sqnorm = 0.0
        for column in range(np.uint64(len(w))):
            sqnorm += w[column] * w[column]
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
        for sweep in range(np.uint64(task.sweeps)):
            at_below, at_above = ZERO, sweep * shift % n_above
            for _ in range(size):
                p, q = below[at_below], above[at_above]
                at_below = at_below + ONE if at_below + ONE < n_below else ZERO
                at_above = at_above + ONE if at_above + ONE < n_above else ZERO
                rise, fall = lesser_of(upper[p] - alpha[p], alpha[q]), lesser_of(alpha[p], upper[q] - alpha[q])
                if rise + fall == 0.0:
                    continue
                i, j = chosen[p], chosen[q]
                slope, curvature = pair_terms(rows, i, j, w, other)
                room = rise if slope > 0.0 else -fall
                step = slope / curvature if abs(slope) < abs(room) * curvature else room
                if slope == 0.0 or step == 0.0:
                    continue
                alpha[p] = lesser_of(alpha[p] + step if alpha[p] + step > 0.0 else 0.0, upper[p])
                alpha[q] = lesser_of(alpha[q] - step if alpha[q] > step else 0.0, upper[q])
                for side in range(2):
                    short_row_add(rows, i if side == 0 else j, step * (1.0 - 2.0 * side), w)
        n_read += 2.0 * size * task.sweeps
    for k in range(n):
        rest += alpha[k]
    for k in range(n):
        it = alpha[k] - rest
        if it > 0.0 and it < upper[k]:
            alpha[k] = it
            break
    for k in range(n):
        alphas[chosen[k]] = alpha[k]
    return rho, gap, n_read, longest

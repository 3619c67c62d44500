"""The two traversals of Algorithm 2 of Guillory and Bilmes (2007); ``maxmargin.margin_bounds.sorted_sums`` has the mathematics.

Samples and losses are given as in ``maxmargin.margin_bounds.pruned_loss_loops``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import prefetch, prefetch_row_start, prefetch_whole_row, row_add, row_dot
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.pruned_loss_loops import FAST, FETCHED_AHEAD, LOCATED_AHEAD, loss_of, slope_of

LOCATED_STEPS, FETCHED_STEPS = int(LOCATED_AHEAD), int(FETCHED_AHEAD)
"""How many samples ahead a row is located and fetched."""


class SortedList(NamedTuple):
    """What Algorithm 1 leaves of one list. Entry i of ``costs`` is the sum of C_j over the first i samples. Row i of
    ``sums`` is sum_j C_j y_j x_j over the same samples; if there is only one row, that row is Sum_Boundary."""

    samples: Array
    margins: Array
    costs: Array
    sums: Array
    boundary: int


class ListMove(NamedTuple):
    """How far the margins of a list moved: all of them by ``shift`` with the offset, and each by at most ``reach`` besides, the
    m_delta of line 5. ``room`` is for Sum_Boundary on its way to Sum_i."""

    shift: float
    reach: float
    room: Array


class Traversal(NamedTuple):
    """``first`` is how many samples the stored sum stands for, and ``examined`` how many margins were computed."""

    loss: float
    slopes: float
    first: int
    examined: int


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def sum_to_boundary(samples, chosen, sums):
    """Algorithm 1, line 5, for i = Boundary alone: the sum over the ``chosen`` samples."""
    for i in chosen:
        row = np.uint64(i)
        row_add(samples.rows, row, samples.C[row * samples.stride] * np.float64(samples.y[row]), sums[0])


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def sum_all(samples, chosen, sums):
    """Algorithm 1, line 5: row i of ``sums`` is the sum over the first i of the ``chosen`` samples."""
    for i in range(chosen.shape[0]):
        row = np.uint64(chosen[i])
        for j in range(sums.shape[1]):
            sums[i + 1, j] = sums[i, j]
        row_add(samples.rows, row, samples.C[row * samples.stride] * np.float64(samples.y[row]), sums[i + 1])


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def left_open(listed, pieces, move):
    """Lines 6 to 8, 14 and 15: the places, from the first to before the last, that the bounds do not decide. They depend on the
    stored margins alone, so that all rows can be asked for before they are needed."""
    first, end = listed.boundary, listed.boundary
    while end < listed.samples.shape[0] and listed.margins[end] + move.shift - move.reach < pieces.high:  # line 7
        end += 1
    while first > 0 and listed.margins[first - 1] + move.shift + move.reach >= pieces.low:  # line 15
        first -= 1
    return first, end


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def traverse(samples, w, pieces, listed, move, gradient, averages):
    """Algorithm 2, lines 6 to 23, for one list. ``gradient`` receives sum_i C_i s_i y_i x_i."""
    rows, y, is_step, moved = samples.rows, samples.y, pieces.is_step, move.room
    first, end = left_open(listed, pieces, move)
    loss, slopes = listed.costs[first], listed.costs[first]
    stores_all = listed.sums.shape[0] > 1
    moves = first > 0 and not stores_all and not is_step
    if moves:
        for j in range(moved.shape[0]):
            moved[j] = listed.sums[0, j]
    for i in range(first, end):
        if i + LOCATED_STEPS < end:
            prefetch_row_start(rows, np.uint64(listed.samples[i + LOCATED_STEPS]))
            prefetch(y, np.uint64(listed.samples[i + LOCATED_STEPS]))
        if i + FETCHED_STEPS < end:
            prefetch_whole_row(rows, np.uint64(listed.samples[i + FETCHED_STEPS]))
        row = np.uint64(listed.samples[i])
        sign, cost = np.float64(y[row]), samples.C[row * samples.stride]
        margin = sign * row_dot(rows, row, w)
        slope = slope_of(margin, pieces)
        loss += cost * loss_of(margin, pieces)  # lines 11 and 21
        slopes += cost * slope
        if slope != 0.0 and not is_step:
            row_add(rows, row, cost * slope * sign, gradient)  # lines 10 and 20
        if averages.weight != 0.0:
            averages.sums[row] += averages.weight * slope
        if moves and i < listed.boundary:  # Sum_i from the sum that has one sample more
            row_add(rows, row, -cost * sign, moved)
    if first > 0 and not is_step:
        settled = listed.sums[first] if stores_all else moved
        for j in range(w.shape[0]):
            gradient[j] += settled[j]  # line 16
            loss -= w[j] * settled[j]  # line 17
    return Traversal(loss, slopes, first, end - first)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def add_prefixes(samples, prefix_weights, average):
    """average_i += the sum of the prefix weights p with p > the place of sample i: one such weight stands for an
    evaluation at which the first p samples had the slope one."""
    total = 0.0
    for i in range(samples.shape[0] - 1, -1, -1):
        total += prefix_weights[i + 1]
        prefix_weights[i + 1] = 0.0
        average[samples[i]] += total

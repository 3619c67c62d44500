"""The two traversals of Algorithm 2 of Guillory and Bilmes (2007); ``maxmargin.sorted_sums`` has the mathematics.

A loss is given by its shape (low, high, curvature, is_step), as in ``maxmargin.compiled.margin_bounds``. ``C`` has one
element a sample, or one for all: ``stride`` is 1 or 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.compiled.caching import njit
from maxmargin.compiled.margin_bounds import FAST, loss_of, slope_of
from maxmargin.compiled.rows import row_add, row_dot
from maxmargin.data import Array


class SortedList(NamedTuple):
    """What Algorithm 1 leaves of one list. Entry i of ``costs`` is the sum of C_j over the first i samples. Row i of
    ``sums`` is sum_j C_j y_j x_j over the same samples; if there is only one row, that row is Sum_Boundary."""

    samples: Array
    margins: Array
    costs: Array
    sums: Array
    boundary: int


class Traversal(NamedTuple):
    """``first`` is how many samples the stored sum stands for, and ``examined`` how many margins were computed."""

    loss: float
    slopes: float
    first: int
    examined: int


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def sum_to_boundary(rows, y, C, stride, samples, sums):
    """Algorithm 1, line 5, for i = Boundary alone: the sum over ``samples``."""
    for i in samples:
        row = np.uint64(i)
        row_add(rows, row, C[row * stride] * np.float64(y[row]), sums[0])


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def sum_all(rows, y, C, stride, samples, sums):
    """Algorithm 1, line 5: row i of ``sums`` is the sum over the first i samples."""
    for i in range(samples.shape[0]):
        row = np.uint64(samples[i])
        for j in range(sums.shape[1]):
            sums[i + 1, j] = sums[i, j]
        row_add(rows, row, C[row * stride] * np.float64(y[row]), sums[i + 1])


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def slope_added(rows, y, C, stride, w, low, high, curvature, is_step, row, gradient, average, weight):
    """Lines 9 to 11, and 19 to 21: computes the margin of one sample, and returns its loss and its slope, each times
    C_i."""
    sign, cost = np.float64(y[row]), C[row * stride]
    margin = sign * row_dot(rows, row, w)
    slope = slope_of(margin, low, high, curvature)
    if slope != 0.0:
        if not is_step:
            row_add(rows, row, cost * slope * sign, gradient)
        if weight != 0.0:
            average[row] += weight * slope
    return cost * loss_of(margin, low, high, curvature, is_step), cost * slope


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def traverse(rows, y, C, stride, w, low, high, curvature, is_step, listed, shift, reach, moved, gradient, average, weight):
    """Algorithm 2, lines 6 to 23, for one list. ``shift`` is how far all margins of the list moved with the offset,
    ``reach`` is m_delta, and ``moved`` is room for Sum_Boundary on its way to Sum_i. ``gradient`` receives sum_i C_i s_i
    y_i x_i."""
    loss, slopes, examined = 0.0, 0.0, 0
    for i in range(listed.boundary, listed.samples.shape[0]):
        if listed.margins[i] + shift - reach >= high:  # line 7
            break
        row = np.uint64(listed.samples[i])
        added, slope = slope_added(rows, y, C, stride, w, low, high, curvature, is_step, row, gradient, average, weight)
        loss, slopes, examined = loss + added, slopes + slope, examined + 1
    stores_all = listed.sums.shape[0] > 1
    if not stores_all:
        for j in range(moved.shape[0]):
            moved[j] = listed.sums[0, j]
    first = 0
    for i in range(listed.boundary - 1, -1, -1):
        if listed.margins[i] + shift + reach < low:  # line 15
            first = i + 1
            break
        row = np.uint64(listed.samples[i])
        added, slope = slope_added(rows, y, C, stride, w, low, high, curvature, is_step, row, gradient, average, weight)
        loss, slopes, examined = loss + added, slopes + slope, examined + 1
        if not stores_all:  # Sum_i from the sum that has one sample more
            row_add(rows, row, -C[row * stride] * np.float64(y[row]), moved)
    if first > 0:
        settled = listed.sums[first] if stores_all else moved
        loss += listed.costs[first]
        slopes += listed.costs[first]
        if not is_step:
            product = 0.0
            for j in range(w.shape[0]):
                gradient[j] += settled[j]  # line 16
                product += w[j] * settled[j]
            loss -= product  # line 17
    return Traversal(loss, slopes, first, examined)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def add_prefixes(samples, prefix_weights, average):
    """average_i += the sum of the prefix weights p with p > the place of sample i: one such weight stands for an
    evaluation at which the first p samples had the slope one."""
    total = 0.0
    for i in range(samples.shape[0] - 1, -1, -1):
        total += prefix_weights[i + 1]
        prefix_weights[i + 1] = 0.0
        average[samples[i]] += total

"""The loops of ``rare_columns.py``: lists of the columns with few elements, and exact minimisation over one such column after
another."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import column_of, row_add, row_length, row_start, value_of

FAST = {"reassoc", "contract", "nsz", "arcp"}
MOST_TRIES = 16
"""Steps towards the minimum over one column. Newton's method takes two or three. Where it would cycle, the interval is
halved."""


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy")
def count_elements(rows, counts):
    """counts_j = stored elements of column j"""
    for i in range(np.uint64(rows.indptr.shape[0] - 1)):
        start = row_start(rows, i)
        for k in range(row_length(rows, i)):
            counts[column_of(rows, start, k)] += 1


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy")
def list_elements(rows, signs, is_rare, columns, samples, values):
    """The elements of the rare columns, row by row. Values are sigma_i x_ij."""
    n = 0
    for i in range(np.uint64(rows.indptr.shape[0] - 1)):
        start = row_start(rows, i)
        for k in range(row_length(rows, i)):
            j = column_of(rows, start, k)
            if is_rare[j]:
                columns[n], samples[n], values[n] = j, i, signs[i] * value_of(rows, start, k)
                n += 1


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def predict_alpha(rows, signs, point, curve, rate, alpha, w):
    """alpha_i - rate C_i along_i for the free samples, stopped at zero, and alpha_i for the others. ``w`` gains what the stops
    change in w(alpha). Returned is the sum of p alpha_i - D_ii alpha_i^2 / 2. ``point`` is (alpha, free, along)."""
    before, free, along = point
    value = 0.0
    for i in range(np.uint64(alpha.shape[0])):
        new = before[i] - (rate * curve.C[i] * along[i] if free[i] else 0.0)
        if new < 0.0:
            row_add(rows, i, -new * signs[i], w)
            new = 0.0
        alpha[i] = new
        half_D = 0.5 * curve.softness / curve.C[i] if curve.C[i] > 0.0 else 0.0
        value += new * (curve.target - half_D * new)
    return value


@njit(inline="always")
def has_crossed(elements, column, crossed):
    """Whether a sample of the column passed its kink."""
    found = False
    for q in range(elements.starts[column], elements.starts[column + 1]):
        found |= crossed[elements.samples[q]]
    return found


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def settle(elements, crossed, margin, curve, rate, w):
    """Minimise F over one rare column after another, where a sample has crossed its kink. Margins follow.

    The slope of F along w_j is piecewise linear, and rises. Its root is where Newton's step changes no sample from free to not
    free or back."""
    for column in range(elements.columns.shape[0]):
        if not has_crossed(elements, column, crossed):
            continue
        j, low, high, step = elements.columns[column], -np.inf, np.inf, 0.0
        for tries in range(MOST_TRIES + 1):
            slope, curvature, n_changed = w[j], 1.0, 0
            for q in range(elements.starts[column], elements.starts[column + 1]):
                i, value = elements.samples[q], elements.values[q]
                before = curve.target - margin[i]
                slack = before - step * value
                margin[i] += step * value
                n_changed += (slack > 0.0) != (before > 0.0)
                if slack > 0.0:
                    slope -= rate * curve.C[i] * slack * value
                    curvature += rate * curve.C[i] * value * value
            new = w[j] - slope / curvature
            if (tries > 0 and n_changed == 0) or tries == MOST_TRIES or new == w[j]:
                break
            low, high = (w[j], high) if slope < 0.0 else (low, w[j])
            if not (new > low and new < high):
                new = 0.5 * (low + high)
            step = new - w[j]
            w[j] = new

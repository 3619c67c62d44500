"""The parts of SMO on a held kernel matrix besides its steps: least squares for tens of free variables, v itself, and the
offset and gap at v. For a few hundred samples each takes some microseconds; NumPy would take several times as long.

``vectors`` are y, lower, upper, s, v and the diagonal of K, in the rows of one array. They may be longer than there are
samples: beyond them lower = upper = 0 and K = 0."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.solvers.kernel.batched_smo_loops import extremes as shared_extremes
from maxmargin.solvers.kernel.batched_smo_loops import gap_and_dual as shared_gap_and_dual
from maxmargin.solvers.kernel.batched_smo_loops import greater

LEAST_PIVOT = 1e-10
"""The least pivot of the factor, relative to the diagonal of K: with a smaller one the solution is mostly rounding error. This
follows from float64 and is not a setting."""
MOVED, OUTSIDE, MANY = 0, 1, 2
"""The outcome of ``leap``: it moved to the solution of the system, the solution is outside the box, or too many variables are
free."""
FLAGS = {"contract", "nsz", "reassoc", "arcp"}
extremes = njit(inline="always")(shared_extremes.py_func)
gap_and_dual = njit(inline="always")(shared_gap_and_dual.py_func)
"""Inlined, these two are compiled once and not twice: a quarter of a second of the first fit."""


@njit(inline="always")
def eliminate(U, m):
    """Make U of the upper triangle of A = U'U in the first m columns, and A^-1 z of each of the two columns z after them.
    Variables that depend on those before them, as equal samples do, get a zero."""
    for k in range(m):
        row = U[k]
        inverse = 1.0 / np.sqrt(row[k]) if row[k] > LEAST_PIVOT * row[m + 2] else 0.0
        for i in range(k, m + 2):
            row[i] *= inverse
        row[m + 2] = inverse
        for j in range(k + 1, m):
            scale, below = row[j], U[j]
            for i in range(j, m + 2):
                below[i] -= scale * row[i]
    for k in range(m - 1, -1, -1):
        one, two, row = U[k, m], U[k, m + 1], U[k]
        for i in range(k + 1, m):
            one, two = one - row[i] * U[i, m], two - row[i] * U[i, m + 1]
        row[m], row[m + 1] = one * row[m + 2], two * row[m + 2]


@njit(inline="always")
def leap(K, vectors, epsilon, has_offset, work, free):
    """K d + b = v and sum d = 0 over the free samples, by Cholesky's method; s + d takes the place of s if it is inside, and
    if rounding has left sum d at zero: with kernel values of 1e-8 and 1e7 side by side it was half of C. With a
    tube v is less by epsilon where s > 0 and more where s < 0, and zero is a bound. ``work`` has a row for each variable that
    may be free, and three columns more."""
    lower, upper, s, v, m = vectors[1], vectors[2], vectors[3], vectors[4], 0
    for i in range(np.uint64(len(s))):
        if s[i] > lower[i] and s[i] < upper[i] and (epsilon == 0.0 or s[i] != 0.0):
            if m == len(work):
                return MANY
            free[m] = i
            m += 1
    for k in range(m):
        i = free[k]
        for j in range(k, m):
            work[k, j] = K[i, free[j]]
        work[k, m], work[k, m + 1], work[k, m + 2] = v[i] - (epsilon if s[i] > 0.0 else -epsilon), 1.0, K[i, i]
    eliminate(work, m)
    total = weight = 0.0
    for k in range(m):
        total, weight = total + work[k, m], weight + work[k, m + 1]
    mean, is_inside, drift, size = total / weight if has_offset else 0.0, True, 0.0, 0.0
    for k in range(m):
        i = free[k]
        change = work[k, m] - mean * work[k, m + 1]
        work[k, m] = s[i] + change
        drift, size = drift + change, size + abs(work[k, m])
        is_inside &= work[k, m] > lower[i] and work[k, m] < upper[i] and (epsilon == 0.0 or work[k, m] * s[i] > 0.0)
    if not is_inside or (has_offset and not abs(drift) <= LEAST_PIVOT * size):
        return OUTSIDE
    for k in range(m):
        s[free[k]] = work[k, m]
    return MOVED


@njit(inline="always")
def renew(K, vectors):
    """v = y - K s, free of the rounding of the steps that led here. Most s_j are zero, and K is symmetric."""
    y, s, v = vectors[0], vectors[3], vectors[4]
    for i in range(np.uint64(len(v))):
        v[i] = y[i]
    for j in range(np.uint64(len(s))):
        if s[j] != 0.0:
            row = K[j]
            for i in range(np.uint64(len(v))):
                v[i] -= s[j] * row[i]


@njit(inline="always")
def survey(vectors, has_offset, epsilon):
    """The gap at the mean slope of the free variables, which is an offset; without free ones, between the greatest slope of
    what can rise and the least of what can fall. Near the optimum no other offset is much better. Returns the offset, the gap,
    the dual value, and what the gap would be if each margin were wrong by the sizes of the terms that it is a sum of."""
    y, lower, upper, s, v, diagonal = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4], vectors[5]
    size = room = greatest = total = b = 0.0
    n_free = 0
    for i in range(np.uint64(len(s))):
        size += abs(s[i])
        room += upper[i] - lower[i]
        greatest = greater(greatest, diagonal[i])  # no value of a positive semidefinite kernel is greater
        if s[i] > lower[i] and s[i] < upper[i] and (epsilon == 0.0 or s[i] != 0.0):
            total += v[i] - (epsilon if s[i] > 0.0 else -epsilon)
            n_free += 1
    if has_offset:
        top, bottom = extremes(v, s, lower, upper, epsilon)
        b = total / n_free if n_free else (0.5 * (top + bottom) if top - bottom > -np.inf else 0.0)
    gap, dual = gap_and_dual(v, y, s, lower, upper, b, epsilon)
    return b, gap, dual, (1.0 + abs(b) + size * greatest) * room


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def settle(K, vectors, epsilon, has_offset, work, free):
    """Leap if no more variables are free than ``work`` has rows, make v anew unless the leap has failed, and look where that
    leads. Without rows nobody leaps. The kernel rows of all s_i that are not zero must be there. Returns what ``survey`` does,
    and the outcome of the leap."""
    outcome = leap(K, vectors, epsilon, has_offset, work, free) if len(work) else MOVED
    if outcome == MOVED:
        renew(K, vectors)
    b, gap, dual, scale = survey(vectors, has_offset, epsilon)
    return b, gap, dual, scale, outcome

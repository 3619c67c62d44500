"""The parts of SMO on a held kernel matrix besides its steps: least squares for tens of free variables, v itself, and the
offset and gap at v. For a few hundred samples each takes some microseconds; NumPy would take several times as long. Vectors may
be longer than there are samples: beyond them lower = upper = 0 and K = 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.solvers.kernel.batched_smo_loops import best_offset as shared_best_offset
from maxmargin.solvers.kernel.batched_smo_loops import gap_and_dual as shared_gap_and_dual
from maxmargin.solvers.kernel.irwls.cholesky_loops import factor, substitute

LEAST_PIVOT = 1e-10
"""The least pivot of the factor, relative to the diagonal of K: with a smaller one the solution is mostly rounding error. This
follows from float64 and is not a setting."""
MOVED, OUTSIDE, SINGULAR = 0, 1, 2
"""The outcome of ``leap``: it moved to the solution of the system, the solution is outside the box, or there is no solution."""
FLAGS = {"contract", "nsz", "reassoc", "arcp"}
best_offset = njit(inline="always")(shared_best_offset.py_func)
gap_and_dual = njit(inline="always")(shared_gap_and_dual.py_func)
"""Inlined, these two are compiled once and not twice: a quarter of a second of the first fit."""


class Stand(NamedTuple):
    """The best offset, the gap and the dual value at v, sum_i |s_i|, and sum_i C_i."""

    b: float
    gap: float
    dual: float
    size: float
    room: float


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def leap(K, v, s, lower, upper, free, has_offset):
    """K d + b = v and sum d = 0 over the free samples, by Cholesky's method; s + d takes the place of s if it is inside."""
    m = len(free)
    U, change, ones = np.empty((m, m)), np.empty(m), np.ones(m)
    for k in range(m):
        change[k] = v[free[k]]
        for j in range(k, m):
            U[k, j] = K[free[k], free[j]]
    if not factor(U, m):
        return SINGULAR
    for k in range(m):
        if U[k, k] * U[k, k] <= LEAST_PIVOT * K[free[k], free[k]]:
            return SINGULAR
    substitute(U, m, change)
    if has_offset:
        substitute(U, m, ones)
        change -= np.sum(change) / np.sum(ones) * ones
    for k in range(m):
        moved = s[free[k]] + change[k]
        if not (moved > lower[free[k]] and moved < upper[free[k]]):
            return OUTSIDE
    for k in range(m):
        s[free[k]] += change[k]
    return MOVED


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def renew(K, y, s, v):
    """v = y - K s, free of the rounding of the steps that led here. Most s_j are zero, and K is symmetric."""
    for i in range(len(v)):
        v[i] = y[i]
    for j in range(np.uint64(len(s))):
        if s[j] != 0.0:
            row = K[j]
            for i in range(np.uint64(len(v))):
                v[i] -= s[j] * row[i]


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def survey(v, y, s, lower, upper, has_offset, epsilon):
    b = best_offset(v, lower, upper, epsilon) if has_offset else 0.0
    gap, dual = gap_and_dual(v, y, s, lower, upper, b, epsilon)
    size = room = 0.0
    for i in range(len(s)):
        size += abs(s[i])
        room += upper[i] - lower[i]
    return Stand(b, gap, dual, size, room)

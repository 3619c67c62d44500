"""Pairs of variables before linear systems: the start of active-set Newton for working sets of tens of samples.

A system that has samples in S1 which belong at a bound leads out of the box after a small part of the way, and then one bound
is found by each system. A step of SMO takes a fiftieth of the time of a system and finds a bound just as well. So some steps
come first, and systems only where they have not been enough: R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set selection using
second order information", JMLR 2005, whose choice of a pair this is."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.solvers.kernel.batched_smo_loops import FLAGS, LEAST_CURVATURE, greater, lesser

OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": FLAGS,
    "allocates": False,
}


@njit(**OPTIONS)
def span(v, s, lower, upper):
    """The greatest v that can rise, and the least that can fall."""
    top, bottom = -np.inf, np.inf
    for i in range(np.uint64(len(v))):
        top = greater(top, v[i] if s[i] < upper[i] else -np.inf)
        bottom = lesser(bottom, v[i] if s[i] > lower[i] else np.inf)
    return top, bottom


@njit(**OPTIONS)
def place_at(values, wanted, s, bound):
    """The first with this value that is not at its bound."""
    for i in range(len(values)):
        if values[i] == wanted and s[i] != bound[i]:
            return i
    return 0


@njit(**OPTIONS)
def best_partner(block, s, v, diagonal, rise, gains):
    """The j with the greatest (v_i - v_j)^2 / (K_ii + K_jj - 2 K_ij) among those that can fall. ``gains`` is memory."""
    row, lower, top, here = block.K[rise], block.lower, v[rise], diagonal[rise]
    best = -1.0
    for j in range(np.uint64(len(s))):
        slope = greater(top - v[j], 0.0)
        gain = slope * slope / greater(here + diagonal[j] - 2.0 * row[j], LEAST_CURVATURE)
        gains[j] = gain if s[j] > lower[j] else -1.0
        best = greater(best, gains[j])
    return place_at(gains, best, s, lower)


@njit(**OPTIONS)
def move_pair(block, s, v, diagonal, rise, fall):
    """Move a pair as far as the dual rises and the box allows. Returns the ``span`` of v from there on."""
    one, other, upper, lower = block.K[rise], block.K[fall], block.upper, block.lower
    room, left = upper[rise] - s[rise], s[fall] - lower[fall]
    curvature = max(diagonal[rise] + diagonal[fall] - 2.0 * one[fall], LEAST_CURVATURE)
    t = min((v[rise] - v[fall]) / curvature, room, left)
    s[rise] = upper[rise] if t == room else s[rise] + t
    s[fall] = lower[fall] if t == left else s[fall] - t
    top, bottom = -np.inf, np.inf
    for i in range(np.uint64(len(s))):
        v[i] -= t * (one[i] - other[i])
        top = greater(top, v[i] if s[i] < upper[i] else -np.inf)
        bottom = lesser(bottom, v[i] if s[i] > lower[i] else np.inf)
    return top, bottom


@njit(**OPTIONS)
def move_pairs(block, s, v, tolerance, most):
    """Move at most ``most`` pairs, while the greatest v that can rise is more than ``tolerance`` above the least that can fall.
    Return how many were moved."""
    diagonal, gains = block.memory.vectors[0][: len(s)], block.memory.vectors[1][: len(s)]
    for i in range(len(s)):
        diagonal[i] = block.K[i, i]
    top, bottom = span(v, s, block.lower, block.upper)
    for steps in range(most):
        if not top - bottom > tolerance:
            return steps
        rise = place_at(v, top, s, block.upper)
        fall = best_partner(block, s, v, diagonal, rise, gains)
        top, bottom = move_pair(block, s, v, diagonal, rise, fall)
    return most

"""What the judge of the problems with nu adds up where all costs are equal. Nothing here uses fast-math, and nothing is shared
with a solver."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.rows import Array
from maxmargin.problem.kernel_loops import TERMS_A_BLOCK

TAKEN, LEFT, TAKEN_H, LEFT_H, TAKEN_REACH, LEFT_REACH, LOSS, GAP, ERROR, LINEAR = range(10)
"""The sums over the variables of a group: alpha_i and c - alpha_i, each alone, times |h_i| and times the length of the sample;
the loss, the gap terms, what rounding can do to each, and sigma_i t_i alpha_i."""
N_SUMS = 10
AT_BOUND, GREATEST_H = N_SUMS, N_SUMS + 1
"""What else is found of a group: how many alpha_i are c, and the greatest |h_i|."""
N_NUMBERS = N_SUMS + 2


class EvenVariables(NamedTuple):
    """The variables: variable k belongs to sample k modulo their number. ``thresholds`` has one for each group."""

    signs: Array
    targets: Array
    group: Array
    thresholds: Array


class EvenBounds(NamedTuple):
    """One cost for all, lengths of the samples, the errors of their outputs, and the error of h as a share of the terms that it
    is a sum of."""

    cost: float
    lengths: Array
    errors: Array
    own_error: float


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def even_nu_sums(outputs, alpha, variables, bounds, found):
    """Add up all that the certificate needs, in blocks, so that no term goes through more than 64 roundings. ``found`` has two
    rows for each group, the second of which is memory, and is zero before."""
    signs, targets, group, thresholds = variables
    cost, lengths, errors, own_error = bounds
    n, n_variables = np.uint64(lengths.shape[0]), np.uint64(alpha.shape[0])
    for first in range(np.uint64(0), n_variables, np.uint64(TERMS_A_BLOCK)):
        last = first + np.uint64(TERMS_A_BLOCK)
        for k in range(first, last if last < n_variables else n_variables):
            i, g, a, t = k if k < n else k - n, np.uint64(group[k]), alpha[k], targets[k]
            theta, room, block = thresholds[g], cost - a, found[1, g]
            h = theta - signs[k] * (outputs[i] - t)
            size, error = abs(h), errors[i] + own_error * (abs(theta) + abs(outputs[i]) + abs(t))
            steepest = (room if room > a else a) if size <= error else (room if h > 0.0 else a)
            block[TAKEN] += a
            block[LEFT] += room
            block[TAKEN_H] += a * size
            block[LEFT_H] += room * size
            block[TAKEN_REACH] += a * lengths[i]
            block[LEFT_REACH] += room * lengths[i]
            block[LOSS] += cost * size if h > 0.0 else 0.0
            block[GAP] += (room if h > 0.0 else a) * size
            block[ERROR] += steepest * error
            block[LINEAR] += signs[k] * t * a
            found[0, g, AT_BOUND] += a == cost
            found[0, g, GREATEST_H] = size if size > found[0, g, GREATEST_H] else found[0, g, GREATEST_H]
        for g in range(np.uint64(found.shape[1])):
            for c in range(np.uint64(N_SUMS)):
                found[0, g, c] += found[1, g, c]
                found[1, g, c] = 0.0

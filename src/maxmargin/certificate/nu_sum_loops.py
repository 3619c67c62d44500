"""What the judge of the problems with nu adds up where the kernel matrix is held and all costs are equal. Nothing here uses
fast-math, and nothing is shared with a solver but the matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.error_free_loops import fma
from maxmargin.data.rows import Array
from maxmargin.problem.kernel_loops import TERMS_A_BLOCK, order

TAKEN, LEFT, TAKEN_H, LEFT_H, TAKEN_REACH, LEFT_REACH, LOSS, GAP, ERROR, LINEAR = range(10)
"""The sums over the variables of a group: alpha_i and c - alpha_i, each alone, times |h_i| and times the length of the sample;
the loss, the gap terms, what rounding can do to each, and sigma_i t_i alpha_i."""
N_SUMS = 10
AT_BOUND, GREATEST_H, GREATEST_KINK, LOW, HIGH, THRESHOLD = range(N_SUMS, N_SUMS + 6)
"""What else is found of a group: how many alpha_i are c, the greatest |h_i| and |kink|, which are not finite if one of them is
not, the kinks on both sides of the threshold, and the threshold."""
N_NUMBERS = N_SUMS + 6


class EvenVariables(NamedTuple):
    """The variables: variable k belongs to sample k modulo their number. ``ranks`` are, for each group, how many kinks are at
    or below the threshold, and one where the threshold is in the middle between the last of them and the next one."""

    signs: Array
    targets: Array
    group: Array
    ranks: Array


class EvenBounds(NamedTuple):
    """One cost for all; lengths l with |k(x_i, x_j)| <= l_i l_j; the error of output i as a share of l_i times the sum of |s_j|
    l_j; and that of a threshold and a target, as a share of them."""

    cost: float
    lengths: Array
    relative_error: float
    own_error: float


@njit(inline="always")
def add_outputs(values, alpha, variables, bounds, memory):
    """The coefficients and outputs of all samples, in the first two rows of ``memory``. Returns the sum of |s_j| l_j, and
    whether all alpha_i are in their box."""
    coefficients, outputs, n = memory[0], memory[1], np.uint64(bounds.lengths.shape[0])
    is_sound, reach = True, 0.0
    for i in range(n):
        coefficients[i], outputs[i] = 0.0, 0.0
    for k in range(np.uint64(alpha.shape[0])):
        i = k if k < n else k - n
        is_sound &= alpha[k] >= 0.0 and alpha[k] <= bounds.cost
        coefficients[i] += variables.signs[k] * alpha[k]
    for j in range(n):
        scale = coefficients[j]
        reach += abs(scale) * bounds.lengths[j]
        if scale != 0.0:
            for i in range(n):
                outputs[i] = fma(scale, values[j, i], outputs[i])
    return reach, is_sound


@njit(inline="always")
def find_threshold(g, outputs, variables, kinks, found):
    """The threshold of a group, and the kinks on both sides of it. ``kinks`` is memory."""
    m, n, greatest, finite = 0, np.uint64(outputs.shape[0]), 0.0, 0.0
    for k in range(np.uint64(variables.group.shape[0])):
        if variables.group[k] == g:
            kink = variables.signs[k] * (outputs[k if k < n else k - n] - variables.targets[k])
            kinks[m] = kink
            greatest = abs(kink) if abs(kink) > greatest else greatest
            finite += 0.0 * kink  # zero, or not a number
            m += 1
    low, high = order(kinks[:m], variables.ranks[g, 0])
    is_between = variables.ranks[g, 1] > 0 and high < np.inf
    found[LOW], found[HIGH], found[GREATEST_KINK] = low, (high if variables.ranks[g, 1] > 0 else low), greatest + finite
    found[THRESHOLD] = 0.5 * (low + high) if is_between else low


@njit(inline="always")
def add_terms(g, alpha, variables, bounds, memory, found):
    """The sums of a group, in blocks, so that no term goes through more than 64 roundings."""
    outputs, errors, lengths = memory[1], memory[2], bounds.lengths
    n, n_variables, theta = np.uint64(lengths.shape[0]), np.uint64(alpha.shape[0]), found[THRESHOLD]
    block, farthest, at_bound = memory[3], 0.0, 0.0
    for first in range(np.uint64(0), n_variables, np.uint64(TERMS_A_BLOCK)):
        for c in range(N_SUMS):
            block[c] = 0.0
        last = first + np.uint64(TERMS_A_BLOCK)
        for k in range(first, last if last < n_variables else n_variables):
            if variables.group[k] == g:
                i, a, sign, t = k if k < n else k - n, alpha[k], variables.signs[k], variables.targets[k]
                h, room = theta - sign * (outputs[i] - t), bounds.cost - a
                size, error = abs(h), errors[i] + bounds.own_error * (abs(theta) + abs(outputs[i]) + abs(t))
                above, below = (h if h > 0.0 else 0.0), (-h if h < 0.0 else 0.0)
                steepest = (room if room > a else a) if size <= error else (room if h > 0.0 else a)
                block[TAKEN] += a
                block[LEFT] += room
                block[TAKEN_H] += a * size
                block[LEFT_H] += room * size
                block[TAKEN_REACH] += a * lengths[i]
                block[LEFT_REACH] += room * lengths[i]
                block[LOSS] += bounds.cost * above
                block[GAP] += room * above + a * below
                block[ERROR] += steepest * error
                block[LINEAR] += sign * t * a
                farthest = size if size > farthest else farthest
                at_bound += a == bounds.cost
        for c in range(N_SUMS):
            found[c] += block[c]
    found[AT_BOUND], found[GREATEST_H] = at_bound, farthest


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def even_nu_sums(values, alpha, variables, bounds, memory, found):
    """Everything that the certificate needs: a row of ``found`` for each group, which is zero before, and |w|^2 and the
    sum of |s_i| l_i. ``memory`` has four rows of as many numbers as there are variables: of the samples the coefficients,
    outputs and errors, and more. The last sum is negative where an alpha_i is outside of its box."""
    reach, is_sound = add_outputs(values, alpha, variables, bounds, memory)
    n = np.uint64(bounds.lengths.shape[0])
    sqnorm = 0.0
    for first in range(np.uint64(0), n, np.uint64(TERMS_A_BLOCK)):
        last, square = first + np.uint64(TERMS_A_BLOCK), 0.0
        for i in range(first, last if last < n else n):
            memory[2, i] = bounds.relative_error * reach * bounds.lengths[i]
            square += memory[0, i] * memory[1, i]
        sqnorm += square
    for g in range(found.shape[0]):
        find_threshold(g, memory[1, :n], variables, memory[3], found[g])
        add_terms(g, alpha, variables, bounds, memory, found[g])
    return sqnorm, (reach if is_sound else -1.0)

"""The loops of sequential minimal optimisation for the kernel SVM.

Samples are held by **position**: the active ones come first, so that every loop runs over contiguous memory, and what is
removed is swapped to the end, in the columns of the cached rows too. With kinks ``t_i = y_i - f_i`` the dual's gradient
without an offset is ``g_i = y_i t_i``, and a change of ``alpha_i`` by s changes all kinks by ``-s y_i k(x_i, .)``.

A loop that needs a row which is not held returns NEEDS_ROW, with the row's position in ``progress``. Called again with the row,
it continues. Selection: I. Steinwart, D. Hush, C. Scovel, "Training SVMs without offset", JMLR 2011, for singles and doubles;
R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set selection using second order information", JMLR 2005, for pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.rows import Array


class PositionArrays(NamedTuple):
    """One entry a position."""

    sample: Array
    y: Array
    C: Array
    alpha: Array
    kink: Array
    diagonal: Array


class HeldRows(NamedTuple):
    """Rows of the kernel matrix: slot s holds the columns of positions 0 .. length[s] for the row of position owner[s]."""

    values: Array
    slot_of: Array
    owner: Array
    length: Array
    stamp: Array


class Floors(NamedTuple):
    """A smaller ``curvature`` is raised to this one; a gradient within the ``noise`` is nothing but rounding."""

    curvature: float
    noise: float


class TwoVariables(NamedTuple):
    """Two variables, i and j: the gradient, alpha, C and diagonal of each, and q = y_i y_j k(x_i, x_j)."""

    g: tuple[float, float]
    alpha: tuple[float, float]
    C: tuple[float, float]
    k: tuple[float, float]
    q: float


PROGRESS = np.dtype(
    [
        ("active", "i8"),
        ("steps", "i8"),
        ("clock", "i8"),  # of the stamps: when a row was last used
        ("wanted", "i8"),  # the position whose row is needed
        ("dual", "f8"),  # D(alpha), by the gains of the steps
    ]
)

ALL_STEPS, NEEDS_ROW, STILL = 0, 1, 2
NOBODY = -1


@njit(cache=True, nogil=True, error_model="numpy")
def ascend_without_offset(variables, cache, progress, end, floors, working_set):
    """Steps without an offset. Each moves the alpha_i with the greatest gain to its best value; with working sets of two,
    together with its best partner."""
    _, y, C, alpha, kink, diagonal = variables
    floor, state = floors.curvature, progress[0]
    while state.steps < end:
        i = most_gaining(variables, state.active, floors)
        if i == NOBODY:
            return STILL
        if not holds_row(cache, state, i):
            return NEEDS_ROW
        j = NOBODY
        if working_set == 2:
            j = best_partner(variables, cache.values[cache.slot_of[i]], state.active, i, floor)
        if j == NOBODY:
            j = i
        elif not holds_row(cache, state, j):
            return NEEDS_ROW
        q = 0.0 if j == i else y[i] * y[j] * cache.values[cache.slot_of[i], j]
        gradients = (y[i] * kink[i], y[j] * kink[j])
        pair = TwoVariables(gradients, (alpha[i], alpha[j]), (C[i], C[j]), (diagonal[i], diagonal[j]), q)
        if j == i:
            step_i, step_j = best_step(gradients[0], alpha[i], C[i], diagonal[i], floor), 0.0
        else:
            step_i, step_j = best_steps(pair, floor)
        new_i, new_j = moved(alpha[i], step_i, C[i]), moved(alpha[j], step_j, C[j])
        if new_i == alpha[i] and (j == i or new_j == alpha[j]):
            return STILL
        add_row(cache, state, i, (alpha[i] - new_i) * y[i], kink)
        if j != i:
            add_row(cache, state, j, (alpha[j] - new_j) * y[j], kink)
            alpha[j] = new_j
        alpha[i] = new_i
        state.dual += gain_of(pair, step_i, step_j)
        state.steps += 1
    return ALL_STEPS


@njit(cache=True, nogil=True, error_model="numpy")
def ascend_pairs(variables, cache, progress, end, floors):
    """Working sets of two with an offset: alpha_i y_i rises by as much as alpha_j y_j falls. Fan, Chen, Lin, WSS 2."""
    _, y, C, alpha, kink, diagonal = variables
    floor, state = floors.curvature, progress[0]
    while state.steps < end:
        i = highest_to_rise(variables, state.active)
        if i == NOBODY:
            return STILL
        if not holds_row(cache, state, i):
            return NEEDS_ROW
        row = cache.values[cache.slot_of[i]]
        j = best_to_fall(variables, row, state.active, i, floors)
        if j == NOBODY:
            return STILL
        if not holds_row(cache, state, j):
            return NEEDS_ROW
        violation = kink[i] - kink[j]
        curvature = diagonal[i] + diagonal[j] - 2.0 * row[j]
        room_i = C[i] - alpha[i] if y[i] > 0.0 else alpha[i]
        room_j = alpha[j] if y[j] > 0.0 else C[j] - alpha[j]
        step = min(violation / max(curvature, floor), room_i, room_j)
        new_i, new_j = moved(alpha[i], y[i] * step, C[i]), moved(alpha[j], -y[j] * step, C[j])
        if new_i == alpha[i] and new_j == alpha[j]:
            return STILL
        add_row(cache, state, i, (alpha[i] - new_i) * y[i], kink)
        add_row(cache, state, j, (alpha[j] - new_j) * y[j], kink)
        alpha[i], alpha[j] = new_i, new_j
        state.dual += step * (violation - 0.5 * step * curvature)
        state.steps += 1
    return ALL_STEPS


@njit(inline="always")
def best_step(g, alpha, C, curvature, floor):
    """The maximiser of s g - s^2 k / 2 with alpha + s in [0, C]; a curvature below the floor, or negative, is raised to it."""
    return min(max(g / max(curvature, floor), -alpha), C - alpha)


@njit(inline="always")
def moved(alpha, step, C):
    """alpha + step, and the bound itself where the step leads there."""
    if step >= C - alpha:
        return C
    return 0.0 if step <= -alpha else alpha + step


@njit(inline="always")
def gain_of(pair, step_i, step_j):
    """How much these steps raise the dual."""
    own_i = step_i * (pair.g[0] - 0.5 * step_i * pair.k[0])
    own_j = step_j * (pair.g[1] - 0.5 * step_j * pair.k[1])
    return own_i + own_j - step_i * step_j * pair.q


@njit(inline="always")
def most_gaining(variables, active, floors):
    """The sample whose own step raises the dual most; those whose gradient is within the noise do not count."""
    _, y, C, alpha, kink, diagonal = variables
    best, chosen = 0.0, NOBODY
    for k in range(active):
        g = y[k] * kink[k]
        step = best_step(g, alpha[k], C[k], diagonal[k], floors.curvature)
        gain = step * (g - 0.5 * step * diagonal[k])
        if gain > best and abs(g) > floors.noise:
            best, chosen = gain, k
    return chosen


@njit(inline="always")
def best_partner(variables, row, active, i, floor):
    """The j with the greatest gain after i has moved. If i is free to move again, its curvature is eliminated (Schur
    complement)."""
    _, y, C, alpha, kink, diagonal = variables
    g_i = y[i] * kink[i]
    step_i = best_step(g_i, alpha[i], C[i], diagonal[i], floor)
    is_free = diagonal[i] > floor and -alpha[i] < step_i < C[i] - alpha[i]
    eliminated = 1.0 / diagonal[i] if is_free else 0.0
    best, chosen = 0.0, NOBODY
    for j in range(active):
        q = y[i] * y[j] * row[j]
        g = y[j] * kink[j] - q * step_i
        curvature = max(diagonal[j] - eliminated * q * q, floor)
        step = best_step(g, alpha[j], C[j], curvature, floor)
        gain = step * (g - 0.5 * step * curvature)
        if gain > best and j != i:
            best, chosen = gain, j
    return chosen


@njit(inline="always")
def best_steps(pair, floor):
    """The maximiser of the dual in two variables over their box: inside it, or on one of its four edges."""
    (g_i, g_j), (alpha_i, alpha_j), (C_i, C_j), (k_ii, k_jj), q = pair
    determinant = k_ii * k_jj - q * q
    if k_ii > floor and determinant > floor * k_ii:
        step_i, step_j = (g_i * k_jj - g_j * q) / determinant, (g_j * k_ii - g_i * q) / determinant
        if -alpha_i <= step_i <= C_i - alpha_i and -alpha_j <= step_j <= C_j - alpha_j:
            return step_i, step_j
    best, best_i, best_j = -np.inf, 0.0, 0.0
    for edge in range(4):
        if edge < 2:
            step_i = -alpha_i if edge == 0 else C_i - alpha_i
            step_j = best_step(g_j - q * step_i, alpha_j, C_j, k_jj, floor)
        else:
            step_j = -alpha_j if edge == 2 else C_j - alpha_j
            step_i = best_step(g_i - q * step_j, alpha_i, C_i, k_ii, floor)
        gain = gain_of(pair, step_i, step_j)
        if gain > best:
            best, best_i, best_j = gain, step_i, step_j
    return best_i, best_j


@njit(inline="always")
def highest_to_rise(variables, active):
    """The greatest kink among those whose alpha y may rise: the set I_up."""
    _, y, C, alpha, kink, _ = variables
    best, chosen = -np.inf, NOBODY
    for k in range(active):
        may_rise = alpha[k] < C[k] if y[k] > 0.0 else alpha[k] > 0.0
        if may_rise and kink[k] > best:
            best, chosen = kink[k], k
    return chosen


@njit(inline="always")
def best_to_fall(variables, row, active, i, floors):
    """The j of I_low whose step with i gains most, the box left aside."""
    _, y, C, alpha, kink, diagonal = variables
    best, chosen = 0.0, NOBODY
    for k in range(active):
        violation = kink[i] - kink[k]
        may_fall = alpha[k] > 0.0 if y[k] > 0.0 else alpha[k] < C[k]
        if may_fall and violation > floors.noise:
            gain = violation * violation / max(diagonal[i] + diagonal[k] - 2.0 * row[k], floors.curvature)
            if gain > best:
                best, chosen = gain, k
    return chosen


@njit(inline="always")
def holds_row(cache, state, i):
    """Whether the row of position i is held for all active samples; if so it counts as used, if not it is asked for."""
    slot = cache.slot_of[i]
    state.wanted = i
    if slot == NOBODY or cache.length[slot] < state.active:
        return False
    state.clock += 1
    cache.stamp[slot] = state.clock
    return True


@njit(inline="always")
def add_row(cache, state, i, factor, kink):
    row = cache.values[cache.slot_of[i]]
    for k in range(state.active):
        kink[k] += factor * row[k]


@njit(cache=True, nogil=True)
def swap_out(variables, cache, progress, removable):
    """Move the removable active samples behind the other active ones, and return their number."""
    state = progress[0]
    last, k = state.active - 1, 0
    while k <= last:
        if not removable[k]:
            k += 1
        elif removable[last]:
            last -= 1
        else:
            swap(variables, cache, k, last)
            last -= 1
            k += 1
    removed = state.active - 1 - last
    state.active = last + 1
    return removed


@njit(inline="always")
def swap(variables, cache, i, j):
    """Exchange positions i < j in all that is held by position."""
    sample, y, C, alpha, kink, diagonal = variables
    sample[i], sample[j] = sample[j], sample[i]
    y[i], y[j] = y[j], y[i]
    C[i], C[j] = C[j], C[i]
    alpha[i], alpha[j] = alpha[j], alpha[i]
    kink[i], kink[j] = kink[j], kink[i]
    diagonal[i], diagonal[j] = diagonal[j], diagonal[i]
    cache.slot_of[i], cache.slot_of[j] = cache.slot_of[j], cache.slot_of[i]
    for position in (i, j):
        if cache.slot_of[position] != NOBODY:
            cache.owner[cache.slot_of[position]] = position
    for slot in range(len(cache.owner)):
        if cache.length[slot] > j:
            cache.values[slot, i], cache.values[slot, j] = cache.values[slot, j], cache.values[slot, i]
        elif cache.length[slot] > i:  # column j is not known: what lies before i is kept
            cache.length[slot] = i

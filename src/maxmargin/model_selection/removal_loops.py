r"""Leaving out a sample of a kernel machine: the walk (:mod:`maxmargin.model_selection.removal`).

The walk decides nothing. What its end proves is computed by ``removal_judge_loops``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.rows import Array
from maxmargin.solvers.kernel.batched_smo_loops import greater, lesser

FLAGS = {"contract", "nnan", "nsz", "reassoc", "arcp"}
RUN = np.uint64(64)
"""Samples of a run, in which the loops look for the nearest end of a segment."""
NO_RATE = 1e-10
"""A rate of change below this is rounding."""
FAR = 1e300
"""Beyond the end of every segment."""
SINGULAR = 1e-11
"""A pivot below this is rounding."""

AT_LOWER, AT_UPPER, FREE, ENTERED, LEFT, OUT = 0, 1, 2, 3, 4, 5
"""Where a sample is: at a bound; free as in the fit; free now and not in the fit; free in the fit and at a bound now; left
out."""


class Columns(NamedTuple):
    """Functions whose values at all samples are known: row c of ``values`` is the function c, its offset included, and no value
    is wrong by more than ``errors[c]``, or greater than ``sizes[c]``.

    The free samples of the fit are the samples 0 .. n_free - 1. Function c < n_free leaves the output of all free samples but c
    as it is. The other functions are one unit of s at the sample ``samples[c]``, with the response of the free samples that
    keeps their outputs. Row c of ``weights`` has the coefficients at the free samples. ``places`` has the column of each
    sample, or -1."""

    values: Array
    weights: Array
    samples: Array
    places: Array
    errors: Array
    sizes: Array


class Start(NamedTuple):
    """The fit: s, z = y - f - b and how wrong each z can be, the box, and where each sample is. ``idle`` are samples strictly
    between their bounds whose kernel functions are sums of those of the free samples. ``imbalance`` bounds the sum of s,
    ``offset`` the magnitude of b; ``greatest`` is the greatest k(x, x)."""

    s: Array
    z: Array
    errors: Array
    lower: Array
    upper: Array
    places: Array
    idle: Array
    has_offset: bool
    imbalance: float
    offset: float
    greatest: float


class Work(NamedTuple):
    """Memory. ``n_near`` samples come first, and a walk looks at no others."""

    s: Array
    z: Array
    rates: Array
    free_rates: Array
    sides: Array
    places: Array
    chosen: Array
    amounts: Array
    steps: Array
    rest: Array
    matrix: Array


class Walk(NamedTuple):
    """``most_turns`` limits the segments of a walk, ``overshoot`` is the share of C by which s_i may go beyond zero."""

    n_near: int
    most_turns: int
    overshoot: float


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def solved(matrix, rest, steps, p):
    """Solve p equations by elimination, into ``steps``. False where they are singular."""
    for k in range(p):
        pivot = k
        for q in range(k + 1, p):
            if abs(matrix[q, k]) > abs(matrix[pivot, k]):
                pivot = q
        if abs(matrix[pivot, k]) < SINGULAR:
            return False
        if pivot != k:
            rest[k], rest[pivot] = rest[pivot], rest[k]
            for c in range(k, p):
                matrix[k, c], matrix[pivot, c] = matrix[pivot, c], matrix[k, c]
        for q in range(k + 1, p):
            factor = matrix[q, k] / matrix[k, k]
            if factor != 0.0:
                rest[q] -= factor * rest[k]
                for c in range(k + 1, p):
                    matrix[q, c] -= factor * matrix[k, c]
    for k in range(p - 1, -1, -1):
        left = rest[k]
        for c in range(k + 1, p):
            left -= matrix[k, c] * steps[c]
        steps[k] = left / matrix[k, k]
    return True


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def find_direction(columns, work, i, sign, p, n_near):
    """How all change while s_i falls by ``sign`` a unit of time. False where no direction is found.

    ``chosen`` are the p columns that make the direction; the first is that of i. An entered sample keeps its output, and one
    that has left keeps its s."""
    values, weights, chosen, steps = columns.values, columns.weights, work.chosen, work.steps
    n_free = weights.shape[1]
    for q in range(p):
        column = chosen[q]
        for k in range(p):
            other = chosen[k]
            work.matrix[q, k] = weights[other, column] if column < n_free else values[other, columns.samples[column]]
        work.rest[q] = 0.0
    if chosen[0] >= n_free:
        for k in range(p):
            work.matrix[0, k] = 1.0 if k == 0 else 0.0
    work.rest[0] = -sign
    if not solved(work.matrix, work.rest, steps, p):
        return False
    add_columns(values, chosen, steps, p, n_near, work.rates)
    add_columns(weights, chosen, steps, p, n_free, work.free_rates)
    return True


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def add_columns(values, chosen, steps, p, n, out):
    """out = sum_q steps_q values[chosen_q], of the first n elements"""
    first, one = np.uint64(chosen[0]), steps[0]
    for j in range(np.uint64(n)):
        out[j] = one * values[first, j]
    q = 1
    while q + 1 < p:
        a, b, one, two = np.uint64(chosen[q]), np.uint64(chosen[q + 1]), steps[q], steps[q + 1]
        for j in range(np.uint64(n)):
            out[j] += one * values[a, j] + two * values[b, j]
        q += 2
    if q < p:
        a, one = np.uint64(chosen[q]), steps[q]
        for j in range(np.uint64(n)):
            out[j] += one * values[a, j]


@njit(inline="always")
def time_to(s, rate, lower, upper):
    """When s reaches a bound."""
    if rate > NO_RATE:
        return max(0.0, (upper - s) / rate)
    return max(0.0, (lower - s) / rate) if rate < -NO_RATE else FAR


@njit(inline="always")
def time_to_margin(z, rate, side):
    towards = side * rate
    return greater(side * z, 0.0) / towards if towards > NO_RATE else FAR


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def first_at_margin(work, n_near):
    """When the first of the near samples at a bound reaches the margin, and which."""
    z, rates, sides = work.z, work.rates, work.sides
    best, best_run, end = FAR, np.uint64(0), np.uint64(n_near)
    for first in range(np.uint64(0), end, RUN):
        run_best = FAR
        for j in range(first, min(first + RUN, end)):
            run_best = lesser(run_best, time_to_margin(z[j], rates[j], sides[j]))
        if run_best < best:
            best, best_run = run_best, first
    for j in range(best_run, min(best_run + RUN, end)):
        if time_to_margin(z[j], rates[j], sides[j]) == best:
            return best, np.int64(j)
    return best, np.int64(best_run)


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def first_at_bound(columns, start, work, p):
    """When the first free or entered sample reaches a bound, and which."""
    best, who = FAR, -1
    n_free = columns.weights.shape[1]
    for k in range(n_free):
        if work.places[k] == FREE:
            when = time_to(work.s[k], work.free_rates[k], start.lower[k], start.upper[k])
            if when < best:
                best, who = when, k
    for q in range(1, p):
        j = columns.samples[work.chosen[q]]
        if work.places[j] == ENTERED:
            when = time_to(work.s[j], work.steps[q], start.lower[j], start.upper[j])
            if when < best:
                best, who = when, j
    return best, who


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def advance(columns, work, i, p, time, n_near):
    """Move along the direction."""
    n_free = columns.weights.shape[1]
    for j in range(np.uint64(n_near)):
        work.z[j] -= time * work.rates[j]
    for k in range(n_free):
        if work.places[k] == FREE or k == i:
            work.s[k] += time * work.free_rates[k]
    for q in range(p):
        column = work.chosen[q]
        work.amounts[column] += time * work.steps[q]
        if column >= n_free:
            work.s[columns.samples[column]] += time * work.steps[q]


@njit(cache=True, nogil=True, boundscheck=False)
def dropped(work, column, p):
    """Take a column out of the direction."""
    for q in range(1, p):
        if work.chosen[q] == column:
            for k in range(q, p - 1):
                work.chosen[k] = work.chosen[k + 1]
            return p - 1
    return p


@njit(cache=True, nogil=True, boundscheck=False)
def fix(columns, start, work, j, rate, p):
    """Sample j stops at the bound that it has reached. Returns the number of columns."""
    is_up = rate > 0.0
    work.s[j] = start.upper[j] if is_up else start.lower[j]
    work.sides[j] = 1.0 if is_up else -1.0
    if work.places[j] == FREE:
        work.places[j] = LEFT
        work.chosen[p] = columns.places[j]
        return p + 1
    work.places[j] = AT_UPPER if is_up else AT_LOWER
    return dropped(work, columns.places[j], p)


@njit(cache=True, nogil=True, boundscheck=False)
def release(columns, work, j, p):
    """Sample j at the margin becomes free. Returns the number of columns."""
    work.sides[j] = 0.0
    if work.places[j] == LEFT:
        work.places[j] = FREE
        return dropped(work, columns.places[j], p)
    work.places[j] = ENTERED
    work.chosen[p] = columns.places[j]
    return p + 1


@njit(cache=True, nogil=True, boundscheck=False)
def next_to_move(start, work, is_up, skipped, n_near):
    """The sample that can take over when no sample is free: the next that can rise, or fall, as the offset moves."""
    best, who = -FAR, -1
    for j in range(n_near):
        can = work.s[j] < start.upper[j] if is_up else work.s[j] > start.lower[j]
        slope = work.z[j] if is_up else -work.z[j]
        if can and j != skipped and slope > best:
            best, who = slope, j
    return who


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def idle_to_release(columns, start, work, i):
    """An idle sample that the direction would take off the margin, and that is not free yet."""
    for k in range(start.idle.shape[0]):
        j = start.idle[k]
        if j != i and work.places[j] == FREE and abs(work.rates[j]) > 1e-9:
            return j
    return -1


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def begin(columns, start, work, i, n_near):
    """Put the fit into memory. Returns 1, the number of columns."""
    for j in range(np.uint64(start.s.shape[0])):
        work.s[j] = start.s[j]
        work.places[j] = start.places[j]
    for j in range(np.uint64(n_near)):
        work.z[j] = start.z[j]
        place = start.places[j]
        work.sides[j] = 1.0 if place == AT_UPPER else (-1.0 if place == AT_LOWER else 0.0)
    for c in range(work.amounts.shape[0]):
        work.amounts[c] = 0.0
    work.places[i] = OUT
    if i < n_near:
        work.sides[i] = 0.0
    work.chosen[0] = columns.places[i]
    return 1


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def target_of(amount, margin, slope, least):
    """Where alpha_i is to stop: half way between zero and where the margin is zero, and not below ``least``."""
    crossing = amount - margin / slope if slope > NO_RATE else (-FAR if margin > 0.0 else FAR)
    return max(0.5 * crossing, least)


@njit(cache=True, nogil=True, boundscheck=False, fastmath=FLAGS)
def walk(columns, start, i, work, settings):
    """Move s_i until its sign, or that of its margin, has changed. Returns the offset that was added besides those of the
    columns, and the sample whose column is missing; or -1, and -2 where the walk failed."""
    n_near, n_free = settings.n_near, columns.weights.shape[1]
    p, shift, z = begin(columns, start, work, i, n_near), 0.0, start.z[i]
    sign = 1.0 if start.upper[i] > 0.0 else -1.0
    least = -settings.overshoot * (start.upper[i] - start.lower[i])
    n_moving, last = n_free - (1 if i < n_free else 0), -1
    for _ in range(settings.most_turns):
        if n_moving == 0 and start.has_offset:  # the offset moves until another sample can take over
            j = next_to_move(start, work, sign > 0.0, i, n_near)
            if j < 0 or columns.places[j] < 0:
                return shift, j if j >= 0 else -2
            move = work.z[j]
            shift, z = shift + move, z - move
            for k in range(np.uint64(n_near)):
                work.z[k] -= move
            p, n_moving, last = release(columns, work, j, p), 1, j
        if p + 2 >= work.steps.shape[0]:
            return shift, -2
        if not find_direction(columns, work, i, sign, p, n_near):
            if last < 0 or work.places[last] != ENTERED:
                return shift, -2
            work.places[last] = AT_UPPER if work.s[last] >= start.upper[last] else AT_LOWER  # its row is a sum of other rows
            p, n_moving, last = p - 1, n_moving - 1, -1
            continue
        j = idle_to_release(columns, start, work, i)
        if j >= 0:
            if columns.places[j] < 0:
                return shift, j
            p, n_moving, last = release(columns, work, j, p), n_moving + 1, j
            continue
        rate = 0.0
        for q in range(p):
            rate += work.steps[q] * columns.values[work.chosen[q], i]
        amount = sign * work.s[i]
        target = target_of(amount, 1.0 - sign * z, -sign * rate, least)
        at_bound, bounded = first_at_bound(columns, start, work, p)
        at_margin, entering = first_at_margin(work, n_near)
        time = max(0.0, min(amount - target, min(at_bound, at_margin)))
        advance(columns, work, i, p, time, n_near)
        z -= time * rate
        if amount - target <= min(at_bound, at_margin):
            return shift, -1
        if at_margin <= at_bound:
            if columns.places[entering] < 0:
                return shift, entering
            p, n_moving, last = release(columns, work, entering, p), n_moving + 1, entering
            continue
        speed = work.free_rates[bounded] if work.places[bounded] == FREE else 0.0
        for q in range(1, p):
            speed = work.steps[q] if columns.samples[work.chosen[q]] == bounded and work.places[bounded] == ENTERED else speed
        p, n_moving, last = fix(columns, start, work, bounded, speed, p), n_moving - 1, -1
    return shift, -2

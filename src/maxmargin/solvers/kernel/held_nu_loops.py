"""The solver for the problems with nu on a kernel matrix that is held, in three calls a round: SMO, a leap, and v itself with
the gap. In one call they would take twice as long to compile.

``vectors`` are the diagonal of K, v = t - K s and the targets t, in the rows of one array, an element a sample. ``boxes`` are
s, lower and upper, an element a variable: all samples have a variable in each group, those of the first group come first, and
in a group that a sample does not belong to its variable has lower = upper = 0. So nothing is put into the order of the groups,
and the two variables of a sample of a regression share their kernel values. Both variables of a pair belong to one group: the
group with the greater violation, as in LIBSVM's ``Solver_NU``. Beyond the samples lower = upper = 0, and K = 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.rows import Array
from maxmargin.solvers.kernel.batched_smo_loops import LEAST_CURVATURE, RUN, greater, lesser
from maxmargin.solvers.kernel.held_smo_loops import LEAST_PIVOT, MANY, MOVED, OUTSIDE

FLAGS = {"contract", "nsz", "reassoc", "arcp"}
RIGHT = 3
"""Right sides of a leap: v, all variables, and those of the second group. One more column holds pivots."""
ZERO, ONE, TWO, THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(RIGHT)
LEAST_DETERMINANT = 1e-12
"""The least determinant of the system of two offsets, relative to its first term: with less there is one offset."""


class Memory(NamedTuple):
    """Memory of the loop: the masks of all variables and gains, the runs of samples that a group has, the system of a leap, and
    its variables."""

    masks: Array
    spans: Array
    system: Array
    free: Array

    @classmethod
    def of(cls, spans: Array, size: int, most_free: int) -> Memory:
        system = np.empty((most_free, most_free + RIGHT + 1))
        return cls(np.empty((3, len(spans) * size)), spans, system, np.empty(most_free, np.uint64))


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def run_smo(K, vectors, boxes, masks, spans, tolerance, max_steps):
    """Move pairs until in each group max v over those that can rise <= min v over those that can fall + tolerance. The second
    of a pair is the one with the greatest gain, as in ``solve_with_offset``. Returns the steps made."""
    diagonal, v, s, lower, upper = vectors[0], vectors[1], boxes[0], boxes[1], boxes[2]
    rise, fall, gains, q, infinity = masks[0], masks[1], masks[2], np.uint64(vectors.shape[1]), np.inf
    for k in range(np.uint64(s.shape[0])):
        rise[k], fall[k] = -infinity if s[k] >= upper[k] else 0.0, infinity if s[k] <= lower[k] else 0.0
    i = j = ZERO
    step, made = 0.0, 0
    for steps in range(max_steps + 1):  # the last round only updates v
        for k in range(q):
            v[k] -= step * (K[i, k] - K[j, k])
        worst, top, at, base, group = -infinity, -infinity, ZERO, ZERO, ZERO
        for h in range(np.uint64(spans.shape[0])):
            own, high, low, run = h * q, -infinity, infinity, ZERO
            for first in range(spans[h, 0], spans[h, 1], RUN):
                run_high, run_low = -infinity, infinity
                for k in range(first, first + RUN):
                    run_high, run_low = greater(run_high, v[k] + rise[own + k]), lesser(run_low, v[k] + fall[own + k])
                if run_high > high:
                    high, run = run_high, first
                low = lesser(low, run_low)
            if high - low > worst:
                worst, top, at, base, group = high - low, high, run, own, h
        made = steps
        if not worst > tolerance or steps == max_steps:
            break
        i = at
        for k in range(at, at + RUN):
            if v[k] + rise[base + k] == top:
                i = k
        best, here, j = -1.0, diagonal[i], at
        for first in range(spans[group, 0], spans[group, 1], RUN):
            run_best = -1.0
            for k in range(first, first + RUN):
                drop = greater(top - (v[k] + fall[base + k]), 0.0)
                gains[k] = drop * drop / greater(here + diagonal[k] - 2.0 * K[i, k], LEAST_CURVATURE)
                run_best = greater(run_best, gains[k])
            if run_best > best:
                best, at = run_best, first
        for k in range(at, at + RUN):
            if gains[k] == best:
                j = k
        up, down, curvature = base + i, base + j, greater(here + diagonal[j] - 2.0 * K[i, j], LEAST_CURVATURE)
        room_up, room_down = upper[up] - s[up], s[down] - lower[down]
        step = lesser((v[i] - v[j]) / curvature, lesser(room_up, room_down))
        s[up] = upper[up] if step == room_up else s[up] + step
        s[down] = lower[down] if step == room_down else s[down] - step
        rise[up], fall[up] = -infinity if s[up] >= upper[up] else 0.0, infinity if s[up] <= lower[up] else 0.0
        rise[down], fall[down] = -infinity if s[down] >= upper[down] else 0.0, infinity if s[down] <= lower[down] else 0.0
    return made


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def leap(K, vectors, boxes, U, free, worth):
    """Move to the optimum of the face: K d + b_g = v, with a sum of zero over each group. Where that is outside the box, move
    to the first bound on the way, and look for the optimum of what is left of the face, while that takes no more than
    ``worth`` multiplications. The dual value never falls. v is not made anew.

    The same number is added to all values of K within a group. Where the sums are fixed, that changes nothing. It makes v and
    the members of a group combinations of the columns, also where K has few features."""
    diagonal, v, s, lower, upper = vectors[0], vectors[1], boxes[0], boxes[1], boxes[2]
    q, m, left, outcome, shift = np.uint64(v.shape[0]), ZERO, 1.0, OUTSIDE, 0.0
    for k in range(np.uint64(s.shape[0])):
        if s[k] > lower[k] and s[k] < upper[k]:
            if m == np.uint64(free.shape[0]):
                return MANY
            free[m] = k
            m += ONE
            shift = diagonal[k % q] if diagonal[k % q] > shift else shift
    while m > ZERO and worth >= 0.0 and outcome == OUTSIDE:
        for a in range(m):
            row, i, is_second = U[a], free[a] % q, free[a] >= q
            for b in range(m):
                row[b] = K[i, free[b] % q] + (shift if (free[b] >= q) == is_second else 0.0)
            row[m], row[m + ONE], row[m + TWO], row[m + THREE] = left * v[i], 1.0, 1.0 if is_second else 0.0, row[a]
        solve(U, m)
        point(U, free, m, q)
        share = 1.0
        for k in range(m):
            p, d = free[k], U[k, m]
            room = (upper[p] if d > 0.0 else lower[p]) - s[p]
            share = room / d if abs(room) < share * abs(d) else share
        kept = ZERO
        for k in range(m):
            p, d = free[k], U[k, m]
            bound, new = upper[p] if d > 0.0 else lower[p], s[p] + share * d
            is_there = abs(bound - s[p]) <= share * abs(d) or not (new > lower[p] and new < upper[p])
            s[p] = bound if is_there else new
            free[kept] = p
            kept += ZERO if is_there else ONE
        outcome = MOVED if share == 1.0 else OUTSIDE
        worth -= np.float64(m) * np.float64(m) * (np.float64(m) / 2.0 + 4.0)
        m, left = kept, left * (1.0 - share)
    return outcome


@njit(inline="always")
def solve(U, m):
    """A^-1 z of each right side z after the m columns of A, by the method of Gauss and Jordan. Variables that depend on those
    before them, as equal samples do, get a zero."""
    width = m + THREE
    for k in range(m):
        row = U[k]
        inverse = 1.0 / row[k] if row[k] > LEAST_PIVOT * row[width] else 0.0
        row[width] = inverse
        for j in range(m):
            below = U[j]
            scale = below[k] * inverse if j != k else 0.0
            for i in range(k + ONE, width):
                below[i] -= scale * row[i]
    for k in range(m):
        for i in range(m, width):
            U[k, i] *= U[k, width]


@njit(inline="always")
def point(U, free, m, q):
    """Make the direction of a leap of the solutions: the first less multiples of the others, so that its sums are zero."""
    a = b = d = first = second = 0.0
    for k in range(m):
        is_second = 1.0 if free[k] >= q else 0.0
        a, b, d = a + U[k, m + ONE], b + U[k, m + TWO], d + is_second * U[k, m + TWO]
        first, second = first + U[k, m], second + is_second * U[k, m]
    determinant = a * d - b * b
    is_two = determinant > LEAST_DETERMINANT * a * d
    x = (first * d - b * second) / determinant if is_two else (first / a if a != 0.0 else 0.0)
    y = (a * second - b * first) / determinant if is_two else 0.0
    for k in range(m):
        U[k, m] -= x * U[k, m + ONE] + y * U[k, m + TWO]


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FLAGS)
def survey(K, vectors, boxes):
    """Make v anew, free of the rounding of the steps that led here, and find the gap at the mean v of the free variables of
    each group, which is an offset; without free ones, between the greatest v of what can rise and the least of what can fall.
    Near the optimum no other offset is much better. Returns the gap, the dual value, and the greatest size of an offset."""
    v, t, s, lower, upper, q = vectors[1], vectors[2], boxes[0], boxes[1], boxes[2], np.uint64(vectors.shape[1])
    for i in range(q):
        v[i] = t[i]
    for k in range(np.uint64(s.shape[0])):
        if s[k] != 0.0:  # most are zero, and K is symmetric
            scale, row = s[k], K[k % q]
            for i in range(q):
                v[i] -= scale * row[i]
    gap = dual = farthest = 0.0
    for own in range(ZERO, np.uint64(s.shape[0]), q):
        total, n_free, top, bottom = 0.0, 0.0, -np.inf, np.inf
        for i in range(q):
            can_rise, can_fall = s[own + i] < upper[own + i], s[own + i] > lower[own + i]
            top, bottom = greater(top, v[i] if can_rise else -np.inf), lesser(bottom, v[i] if can_fall else np.inf)
            is_free = 1.0 if can_rise and can_fall else 0.0
            total, n_free = total + is_free * v[i], n_free + is_free
        b = total / n_free if n_free > 0.0 else between(top, bottom)
        for i in range(q):
            above = v[i] - b
            gap += greater((upper[own + i] - s[own + i]) * above, (lower[own + i] - s[own + i]) * above)
            dual += 0.5 * s[own + i] * (t[i] + v[i])
        farthest = greater(farthest, abs(b))
    return gap, dual, farthest


@njit(inline="always")
def between(top, bottom):
    """A threshold between what can rise and what can fall; the one of them that is there where the other is not."""
    if top == -np.inf:
        return bottom if bottom < np.inf else 0.0
    return 0.5 * (top + bottom) if bottom < np.inf else top

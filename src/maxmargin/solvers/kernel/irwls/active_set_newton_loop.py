r"""Active-set Newton for working sets of tens of samples. It is the method of
``maxmargin.solvers.kernel.irwls.active_set_newton`` without limits on the variables that enter S1 and without updates of
factors, which pay off only for large systems. The outcome says when the loop is stuck or takes too long.

In signed variables with the gradient v of the dual, an iteration solves K_11 d + b 1 = v_1, 1'd = 0 for the variables of S1,
and moves along d: all of the way if the box allows, else to the first bound, or to the best point on the way to the projection
of the far end if that gains more. What has reached a bound leaves S1. When S1 is optimal, those whose error has the wrong sign
come in. Some pairs of variables are moved before the first system (``pair_loops``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.solvers.kernel.irwls.cholesky_loops import LOOP, factor, substitute, substitute_two
from maxmargin.solvers.kernel.irwls.pair_loops import move_pairs, span

NOISE, UNIT_ROUNDOFF = 8.0, 2.0**-53
"""A violation counts as rounding error below this many units in the last place of the terms of its sum."""
MOST_SHIFTS = 100
"""Newton steps and bisections for the shift of a projection: float64 has fewer halvings than this between two numbers of one
size. A bound on rounding, not a setting."""
OPTIMAL, LIMIT, STUCK = 0, 1, 2
ZERO, ONE = np.uint64(0), np.uint64(1)


class BlockMemory(NamedTuple):
    """What solving a working set needs besides its values, made once for all of them: an allocation in a loop takes longer than
    a pair of variables."""

    factor: np.ndarray
    vectors: np.ndarray
    members: np.ndarray
    in_S1: np.ndarray

    @classmethod
    def of(cls, size: int) -> BlockMemory:
        """Enough for a working set of ``size`` samples."""
        return cls(np.empty((size, size)), np.empty((6, size)), np.empty(size, np.uint64), np.empty(size, np.bool_))


class LocalBlock(NamedTuple):
    """A working set: its kernel values, the bounds of its variables, and whether their sum is fixed. ``K`` and the memory may
    be larger than the working set."""

    K: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    has_offset: bool
    memory: BlockMemory


class Effort(NamedTuple):
    """When a working set is left: at a violation of ``tolerance``, or after ``max_iterations`` systems. ``jitter`` is added to
    the diagonal of a system. At most ``pairs`` pairs of variables are moved before the first system. ``needs_system`` asks for
    a system even if the pairs have brought the violation within the tolerance. The loop is stuck when S1 was made anew more
    than ``most_failures`` times in a row without a move that gains."""

    tolerance: float
    max_iterations: int
    jitter: float
    pairs: int
    needs_system: bool
    most_failures: int


class Move(NamedTuple):
    gain: float
    length: float


@njit(**LOOP)
def rounding_of(block, s, b):
    greatest = total = 0.0
    for i in range(len(s)):
        root = np.sqrt(abs(block.K[i, i]))
        greatest = max(greatest, root)
        total += abs(s[i]) * root
    return NOISE * UNIT_ROUNDOFF * (1.0 + abs(b) + greatest * total)


@njit(**LOOP)
def extremes_of(block, s, v):
    """The greatest v that can rise, the least that can fall; without an offset they are compared with 0."""
    top, bottom = span(v, s, block.lower, block.upper)
    return (top, bottom) if block.has_offset else (max(top, 0.0), min(bottom, 0.0))


@njit(**LOOP)
def middle(block, top, bottom, b):
    """The b of a working set that pairs alone have solved, where no system has given one: the b with which the conditions are
    violated least. The last b would make violators of samples that are none."""
    between = 0.5 * (top + bottom)
    return between if block.has_offset and np.isfinite(between) else b


@njit(**LOOP)
def has_any(mask):
    """NumPy's ``any`` takes longer to compile."""
    count = 0
    for i in range(len(mask)):
        count += mask[i]
    return count > 0


@njit(**LOOP)
def release(block, s, v, b, noise, in_S1):
    """Let the variables whose error has the wrong sign come into S1. Where S1 is empty, b is free: it is put in the middle of
    the greatest v that can rise and the least that can fall, so that both come in. Returns b."""
    if block.has_offset and not has_any(in_S1):
        top, bottom = extremes_of(block, s, v)
        b = 0.5 * (top + bottom)
    for i in range(len(s)):
        e = v[i] - b
        in_S1[i] = in_S1[i] or (s[i] < block.upper[i] and e > noise) or (s[i] > block.lower[i] and e < -noise)
    return b


@njit(**LOOP)
def newton_direction(block, v, b, in_S1, jitter, d):
    """d, zero outside S1; returns the new b, or nan where there is no factor."""
    q, members, n = np.uint64(len(v)), block.memory.members, ZERO
    for i in range(q):
        d[i] = 0.0
        if in_S1[i]:
            members[n] = i
            n += ONE
    U, found, ones = block.memory.factor, block.memory.vectors[0][:n], block.memory.vectors[1][:n]
    for k in range(n):
        row = block.K[members[k]]
        found[k], ones[k] = v[members[k]] - b, 1.0
        for i in range(k, n):
            U[k, i] = row[members[i]]
        U[k, k] += jitter
    if n == ZERO or not factor(U, n):
        return np.nan
    rise = 0.0
    if not block.has_offset:
        substitute(U, n, found)
    else:
        substitute_two(U, n, found, ones)
        total = ones.sum()
        rise = found.sum() / total
        for k in range(n):
            found[k] -= rise * ones[k]
        left = found.sum() / total
        for k in range(n):
            found[k] -= left * ones[k]
    for k in range(n):
        d[members[k]] = found[k]
    return b + rise if np.isfinite(found.sum()) else np.nan


@njit(**LOOP)
def multiply(K, x, out):
    """out = K x, by the rows of what is not zero."""
    q = np.uint64(len(x))
    for i in range(q):
        out[i] = 0.0
    for j in range(q):
        if x[j] != 0.0:
            scale, row = x[j], K[j]
            for i in range(q):
                out[i] += scale * row[i]


@njit(**LOOP)
def along(d, product, v, room):
    """The exact line search: how far, t = v.d / d.K.d or as far as there is room, and what it gains."""
    slope = curvature = 0.0
    for i in range(len(d)):
        slope += v[i] * d[i]
        curvature += d[i] * product[i]
    if not slope > 0.0 or not room > 0.0:
        return Move(0.0, 0.0)
    t = min(room, slope / curvature) if curvature > 0.0 else room
    return Move(t * (slope - 0.5 * t * curvature), t)


@njit(**LOOP)
def room_of(block, s, d):
    """How much of d the box allows."""
    room = np.inf
    for i in range(len(s)):
        if d[i] != 0.0:
            room = min(room, ((block.upper[i] if d[i] > 0.0 else block.lower[i]) - s[i]) / d[i])
    return room


@njit(**LOOP)
def shift_to_sum(block, s, in_S1, d):
    """The number by which the S1 of s + d are shifted, before they are clipped to the box, so that their sum is that of s:
    Newton's method on a sum that falls and is piecewise linear, within an interval that it never leaves."""
    low, high, total = np.inf, -np.inf, 0.0
    for i in range(len(s)):
        if in_S1[i]:
            total += s[i]
            low = min(low, s[i] + d[i] - block.upper[i])
            high = max(high, s[i] + d[i] - block.lower[i])
    shift = 0.0
    for _ in range(MOST_SHIFTS):
        excess, slope = -total, 0
        for i in range(len(s)):
            if in_S1[i]:
                end = s[i] + d[i] - shift
                excess += min(max(end, block.lower[i]), block.upper[i])
                slope += block.lower[i] < end and end < block.upper[i]
        if excess > 0.0:
            low = shift
        else:
            high = shift
        if abs(excess) <= UNIT_ROUNDOFF * abs(total):
            break
        shift = shift + excess / slope if slope > 0 else np.inf
        if not (low < shift and shift < high):
            shift = 0.5 * (low + high)
            if shift == low or shift == high:
                break
    return shift


@njit(**LOOP)
def towards_projection(block, s, in_S1, d, change):
    """``change`` leads from s to the projection of s + d onto the box and the sum."""
    shift = shift_to_sum(block, s, in_S1, d) if block.has_offset else 0.0
    for i in range(len(s)):
        change[i] = 0.0
        if in_S1[i]:
            change[i] = min(max(s[i] + d[i] - shift, block.lower[i]), block.upper[i]) - s[i]
    if block.has_offset:
        take_excess(block, s, in_S1, change)


@njit(**LOOP)
def take_excess(block, s, in_S1, change):
    """Subtract what rounding has left of the sum of ``change`` from the first variables with room. It is large when s + d is
    far away."""
    excess = change.sum()
    for i in range(len(s)):
        if in_S1[i] and excess != 0.0:
            end = s[i] + change[i]
            taken = min(excess, end - block.lower[i]) if excess > 0.0 else max(excess, end - block.upper[i])
            change[i] -= taken
            excess -= taken


@njit(**LOOP)
def restore_sum(block, s, v, total):
    """Add the rounding error of the sum to the free variable with most room."""
    astray = total - s.sum()
    best, place = abs(astray), -1
    for i in range(len(s)):
        room = block.upper[i] - s[i] if astray > 0.0 else s[i] - block.lower[i]
        if s[i] > block.lower[i] and s[i] < block.upper[i] and room > best:
            best, place = room, i
    if astray != 0.0 and place >= 0:
        s[place] += astray
        for i in range(len(v)):
            v[i] -= astray * block.K[place, i]


@njit(**LOOP)
def apply_move(block, s, v, d, product, length):
    """Set variables that are within rounding error of a bound to the bound."""
    for i in range(len(s)):
        if d[i] != 0.0:
            slack = NOISE * UNIT_ROUNDOFF * (block.upper[i] - block.lower[i])
            end = s[i] + length * d[i]
            end = block.upper[i] if end >= block.upper[i] - slack else end
            s[i] = block.lower[i] if end <= block.lower[i] + slack else end
        v[i] -= length * product[i]


@njit(**LOOP)
def keep_inside(block, s, v, b, in_S1):
    """What is at a bound leaves S1, unless its error drives it inwards."""
    for i in range(len(s)):
        if in_S1[i]:
            e = v[i] - b
            in_S1[i] = (s[i] < block.upper[i] or e < 0.0) and (s[i] > block.lower[i] or e > 0.0)


@njit(**LOOP)
def drop_blocked(block, s, d, in_S1):
    """Take the variables at a bound that would have to leave the box out of S1. Returns how many they are."""
    count = 0
    for i in range(len(s)):
        if in_S1[i] and ((s[i] <= block.lower[i] and d[i] < 0.0) or (s[i] >= block.upper[i] and d[i] > 0.0)):
            in_S1[i] = False
            count += 1
    return count


@njit(**LOOP)
def begin_again(block, s, v, in_S1):
    """Set S1 to the variables inside the box and the worst pair, which can always move. Returns b, between the two errors."""
    top, bottom = extremes_of(block, s, v)
    for i in range(len(s)):
        can_rise, can_fall = s[i] < block.upper[i], s[i] > block.lower[i]
        in_S1[i] = (can_rise and can_fall) or (can_rise and v[i] == top) or (can_fall and v[i] == bottom)
    return 0.5 * (top + bottom) if block.has_offset else 0.0


@njit(**LOOP)
def climb(block, s, v, b, effort):
    """Move s, and v with it, to a violation of ``effort.tolerance`` or to rounding: the outcome, the iterations, and b."""
    q, vectors, in_S1 = len(s), block.memory.vectors, block.memory.in_S1[: len(s)]
    d, product, other, other_product = vectors[2][:q], vectors[3][:q], vectors[4][:q], vectors[5][:q]
    failures, total = 0, s.sum()
    if block.has_offset:
        move_pairs(block, s, v, effort.tolerance, effort.pairs)
    for i in range(q):
        in_S1[i] = s[i] > block.lower[i] and s[i] < block.upper[i]
    b = release(block, s, v, b, 0.0, in_S1)
    for iteration in range(effort.max_iterations):
        top, bottom = extremes_of(block, s, v)
        noise = rounding_of(block, s, b)
        tolerance = 0.0 if effort.needs_system and iteration == 0 else effort.tolerance
        if not top - bottom > max(tolerance, noise):
            if block.has_offset:
                restore_sum(block, s, v, total)
            return OPTIMAL, iteration, b if iteration > 0 else middle(block, top, bottom, b)
        new_b = newton_direction(block, v, b, in_S1, effort.jitter, d)
        if np.isnan(new_b):
            return STUCK, iteration + 1, b
        multiply(block.K, d, product)
        room = room_of(block, s, d)
        move = along(d, product, v, min(room, 1.0))
        if room < 1.0:
            towards_projection(block, s, in_S1, d, other)
            multiply(block.K, other, other_product)
            projected = along(other, other_product, v, 1.0)
            if projected.gain > move.gain:
                move = projected
                d, other, product, other_product = other, d, other_product, product
        if not move.gain > 0.0:
            if drop_blocked(block, s, d, in_S1) == 0 or not has_any(in_S1):
                failures += 1
                if failures > effort.most_failures:
                    return STUCK, iteration + 1, b
                b = begin_again(block, s, v, in_S1)
            continue
        failures = 0
        b = new_b
        apply_move(block, s, v, d, product, move.length)
        keep_inside(block, s, v, b, in_S1)
        if room >= 1.0 or not has_any(in_S1):
            b = release(block, s, v, b, noise, in_S1)
    return LIMIT, effort.max_iterations, b

"""The compiled chunking scheme of IRWLS, for small working sets of problems whose kernel matrix is held: choose a working set,
solve it by active-set Newton, update f, repeat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.random_loops import next_random
from maxmargin.solvers.kernel.batched_smo_loops import gap_and_dual
from maxmargin.solvers.kernel.irwls.active_set_newton_loop import (
    OPTIMAL,
    BlockMemory,
    Effort,
    LocalBlock,
    climb,
    restore_sum,
)
from maxmargin.solvers.kernel.irwls.cholesky_loops import LOOP
from maxmargin.solvers.kernel.irwls.pair_loops import move_pairs, span
from maxmargin.solvers.kernel.irwls.selection_loops import Candidates, SelectionMemory, Strategy, choose

ZERO = np.uint64(0)


class Variables(NamedTuple):
    """The whole problem: the labels, the bounds of s, s itself, and f = K s."""

    y: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    s: np.ndarray
    f: np.ndarray


class ChunkPlan(NamedTuple):
    """How chunks are made, and when to come back: after ``max_steps``, when (9) to (11) hold with eps, or when the gap,
    relative to the objective, is within ``target``."""

    size: int
    strategy: Strategy
    adds_worst_pair: bool
    local_tolerance: float
    max_iterations: int
    jitter: float
    pairs: int
    most_failures: int
    has_offset: bool
    epsilon: float
    target: float
    max_steps: int


class Workspace(NamedTuple):
    """What making chunks needs besides the problem, allocated once: v = y - f and the errors of all samples; the memory of a
    choice; and of a working set its values, and its bounds, s and v as rows of ``local``."""

    v: np.ndarray
    e: np.ndarray
    can_rise: np.ndarray
    can_fall: np.ndarray
    selection: SelectionMemory
    values: np.ndarray
    local: np.ndarray
    block: BlockMemory

    @classmethod
    def of(cls, n: int, size: int) -> Workspace:
        """Memory for n samples, and working sets of at most ``size``."""
        errors = np.empty(n), np.empty(n), np.empty(n, np.bool_), np.empty(n, np.bool_)
        return cls(*errors, SelectionMemory.of(n), np.empty((size, size)), np.empty((4, size)), BlockMemory.of(size))


class ChunkReport(NamedTuple):
    """``is_unsolved``: the last working set that was chosen was not solved, and is as it was."""

    chunks: int
    handovers: int
    iterations: int
    steps: int
    b: float
    word: int
    is_unsolved: bool


class ChunkSurvey(NamedTuple):
    """The greatest v that can rise, the least that can fall, the gap and the dual."""

    top: float
    bottom: float
    gap: float
    dual: float


@njit(**LOOP)
def survey(variables, v, has_offset):
    """How far from optimal all samples are."""
    y, lower, upper, s, _ = variables
    top, bottom = span(v, s, lower, upper)
    if not has_offset:
        top, bottom = max(top, 0.0), min(bottom, 0.0)
    middle = 0.5 * (top + bottom) if has_offset else 0.0
    gap, dual = gap_and_dual(v, y, s, lower, upper, middle, 0.0)
    return ChunkSurvey(top, bottom, gap, dual)


@njit(**LOOP)
def note_errors(variables, v, b, errors):
    """The errors of all samples, and the directions in which they may move."""
    lower, upper, s = variables.lower, variables.upper, variables.s
    e, can_rise, can_fall = errors.e, errors.can_rise, errors.can_fall
    for i in range(np.uint64(len(v))):
        e[i], can_rise[i], can_fall[i] = v[i] - b, s[i] < upper[i], s[i] > lower[i]


@njit(**LOOP)
def missing_place(may_move, v, value, places, count):
    """The first sample that may move and has this v; -1 where one of the places is such a sample."""
    for k in range(count):
        if v[places[k]] == value and may_move[places[k]]:
            return -1
    for i in range(len(v)):
        if v[i] == value and may_move[i]:
            return i
    return -1


@njit(**LOOP)
def with_worst_pair(errors, v, here, places, count):
    """Add the worst pair to the places where it is missing; returns how many there are then. It seldom is: the paper's step 3
    takes the worst of each kind."""
    rise = missing_place(errors.can_rise, v, here.top, places, count)
    fall = missing_place(errors.can_fall, v, here.bottom, places, count)
    if rise >= 0:
        places[count] = rise
        count += 1
    if fall >= 0 and fall != rise:
        places[count] = fall
        count += 1
    return count


@njit(**LOOP)
def take(values, places, out):
    """The values at the places."""
    for k in range(np.uint64(len(places))):
        out[k] = values[np.uint64(places[k])]


@njit(**LOOP)
def gather(K, places, values):
    """Half of the values are read, each for both of its places: most reads miss the nearest cache."""
    q = np.uint64(len(places))
    for k in range(q):
        row = K[np.uint64(places[k])]
        for i in range(k, q):
            values[k, i] = values[i, k] = row[np.uint64(places[i])]


@njit(**LOOP)
def take_over(s, places, found):
    """s at the places becomes what was found, and ``found`` the change."""
    for k in range(np.uint64(len(places))):
        i = np.uint64(places[k])
        change = found[k] - s[i]
        s[i], found[k] = found[k], change


@njit(**LOOP)
def subtract_rows(K, places, change, v):
    """v -= sum_k change_k K[places_k, :], four rows at a time. ``places`` and ``change`` are overwritten."""
    n, count = np.uint64(len(v)), 0
    for k in range(len(change)):
        if change[k] != 0.0:
            places[count], change[count] = places[k], change[k]
            count += 1
    whole = count - count % 4
    for k in range(0, whole, 4):
        one, two, three, four = K[places[k]], K[places[k + 1]], K[places[k + 2]], K[places[k + 3]]
        p, q, r, t = change[k], change[k + 1], change[k + 2], change[k + 3]
        for i in range(ZERO, n):
            v[i] -= p * one[i] + q * two[i] + r * three[i] + t * four[i]
    for k in range(whole, count):
        row, p = K[places[k]], change[k]
        for i in range(ZERO, n):
            v[i] -= p * row[i]


@njit(**LOOP)
def next_places(here, plan, errors, word, space):
    """The working set to the front of the places: its size, and whether it leaves a candidate out."""
    choice = choose(errors, plan.size, plan.strategy, word, space.selection)
    size = choice.size
    if plan.adds_worst_pair:
        size = with_worst_pair(errors, space.v, here, space.selection.places, size)
    return size, choice.candidates > size


@njit(**LOOP)
def solve_block(block, s, v, b, effort):
    """Active-set Newton, and as many pairs of variables again where Newton reaches its limit or is stuck: whether the working
    set is left, the systems, b, and whether pairs were needed. The dual has risen, and the next working set may hold what this
    one leaves."""
    total = s.sum()
    outcome, systems, new_b = climb(block, s, v, b, effort)
    if outcome == OPTIMAL or not block.has_offset:
        return outcome == OPTIMAL, systems, new_b, False
    move_pairs(block, s, v, effort.tolerance, max(effort.pairs, len(s)))
    restore_sum(block, s, v, total)
    top, bottom = span(v, s, block.lower, block.upper)
    return np.isfinite(v.sum()), systems, 0.5 * (top + bottom), True


@njit(**LOOP)
def run_chunks(K, variables, plan, b, word, space):
    """Working set after working set. s and f are changed in place."""
    v, local = space.v, space.local
    iterations = steps = chunks = handovers = 0
    is_unsolved = False
    for i in range(len(v)):
        v[i] = variables.y[i] - variables.f[i]
    while steps < plan.max_steps:
        here = survey(variables, v, plan.has_offset)
        violation = here.top - here.bottom
        is_met = here.gap <= plan.target * max(abs(here.dual), abs(here.dual + here.gap))
        if is_met or not violation >= 2.0 * plan.epsilon:
            break
        errors = Candidates(space.e, variables.y, space.can_rise, space.can_fall, min(plan.epsilon, 0.5 * violation))
        note_errors(variables, v, b, errors)
        word = next_random(word)
        q, leaves_some = next_places(here, plan, errors, word, space)
        places, s, local_v = space.selection.places[:q], local[0][:q], local[1][:q]
        block = LocalBlock(space.values, local[2][:q], local[3][:q], plan.has_offset, space.block)
        gather(K, places, space.values)
        take(variables.lower, places, block.lower)
        take(variables.upper, places, block.upper)
        take(variables.s, places, s)
        take(v, places, local_v)
        tolerance = plan.local_tolerance * violation if leaves_some else 0.0
        effort = Effort(tolerance, plan.max_iterations, plan.jitter, plan.pairs, False, plan.most_failures)
        is_solved, systems, new_b, was_handed_over = solve_block(block, s, local_v, b, effort)
        iterations += systems
        steps += q * (systems + 1)
        is_unsolved = not is_solved
        if is_unsolved:
            break
        b = new_b
        chunks += 1
        handovers += was_handed_over
        take_over(variables.s, places, s)
        subtract_rows(K, places, s, v)
    for i in range(len(v)):
        variables.f[i] = variables.y[i] - v[i]
    return ChunkReport(chunks, handovers, iterations, steps, b, word, is_unsolved)

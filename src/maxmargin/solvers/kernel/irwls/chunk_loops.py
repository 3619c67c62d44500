"""The compiled chunking scheme of IRWLS, for small working sets of problems whose kernel matrix is held: choose a working set,
solve it by active-set Newton, update f, repeat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.random_loops import next_random
from maxmargin.solvers.kernel.batched_smo_loops import gap_and_dual
from maxmargin.solvers.kernel.irwls.active_set_newton_loop import OPTIMAL, Block, Effort, climb, restore_sum
from maxmargin.solvers.kernel.irwls.cholesky_loops import OPTIONS
from maxmargin.solvers.kernel.irwls.pair_loops import move_pairs, span
from maxmargin.solvers.kernel.irwls.selection_loops import Candidates, Strategy, choose, count_candidates

ZERO = np.uint64(0)


class Variables(NamedTuple):
    """Of the whole problem: the labels, the bounds of s, s itself, and f = K s."""

    y: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    s: np.ndarray
    f: np.ndarray


class Plan(NamedTuple):
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
    steps_a_variable: int
    has_offset: bool
    epsilon: float
    target: float
    max_steps: int


class Report(NamedTuple):
    """``is_unsolved``: the last working set that was chosen was not solved, and is as it was."""

    chunks: int
    handovers: int
    iterations: int
    steps: int
    b: float
    word: int
    is_unsolved: bool


class Survey(NamedTuple):
    """The greatest v that can rise, the least that can fall, the gap and the dual."""

    top: float
    bottom: float
    gap: float
    dual: float


@njit(**OPTIONS)
def survey(variables, v, has_offset):
    """How far from optimal all samples are."""
    y, lower, upper, s, _ = variables
    top, bottom = span(v, s, lower, upper)
    if not has_offset:
        top, bottom = max(top, 0.0), min(bottom, 0.0)
    middle = 0.5 * (top + bottom) if has_offset else 0.0
    gap, dual = gap_and_dual(v, y, s, lower, upper, middle, 0.0)
    return Survey(top, bottom, gap, dual)


@njit(**OPTIONS)
def note_errors(variables, v, b, errors):
    """The errors of all samples, and the directions in which they may move."""
    lower, upper, s = variables.lower, variables.upper, variables.s
    e, can_rise, can_fall = errors.e, errors.can_rise, errors.can_fall
    for i in range(np.uint64(len(v))):
        e[i], can_rise[i], can_fall[i] = v[i] - b, s[i] < upper[i], s[i] > lower[i]


@njit(**OPTIONS)
def missing_place(may_move, v, value, places):
    """The first sample that may move and has this v; -1 where one of the places is such a sample."""
    for i in places:
        if v[i] == value and may_move[i]:
            return -1
    for i in range(len(v)):
        if v[i] == value and may_move[i]:
            return i
    return -1


@njit(**OPTIONS)
def with_worst_pair(errors, v, here, places):
    """Add the worst pair to the places where it is missing. It seldom is: the paper's step 3 takes the worst of each kind."""
    rise = missing_place(errors.can_rise, v, here.top, places)
    fall = missing_place(errors.can_fall, v, here.bottom, places)
    q, has_rise, has_fall = len(places), rise >= 0, fall >= 0 and fall != rise
    if not has_rise and not has_fall:
        return places
    more = np.empty(q + has_rise + has_fall, np.int64)
    for k in range(q):
        more[k] = places[k]
    if has_rise:
        more[q] = rise
    if has_fall:
        more[q + has_rise] = fall
    return more


@njit(**OPTIONS)
def taken(values, places):
    out = np.empty(len(places))
    for k in range(len(places)):
        out[k] = values[places[k]]
    return out


@njit(**OPTIONS)
def block_of(K, variables, places, memory, has_offset):
    """Half of the values are read, each for both of its places: most reads miss the nearest cache."""
    q = len(places)
    values = np.empty((q, q))
    for k in range(q):
        row = K[places[k]]
        for i in range(k, q):
            values[k, i] = values[i, k] = row[places[i]]
    return Block(values, taken(variables.lower, places), taken(variables.upper, places), has_offset, memory)


@njit(**OPTIONS)
def take_over(s, places, found):
    """s at the places becomes what was found, and ``found`` the change."""
    for k in range(len(places)):
        change = found[k] - s[places[k]]
        s[places[k]], found[k] = found[k], change


@njit(**OPTIONS)
def subtract_rows(K, places, change, v):
    """v -= sum_k change_k K[places_k, :], four rows at a time. ``places`` and ``change`` are overwritten."""
    n, count = np.uint64(len(v)), 0
    for k in range(len(places)):
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


@njit(**OPTIONS)
def next_places(v, here, plan, errors, word):
    """The working set, and whether it leaves a candidate out."""
    places = choose(errors, plan.size, plan.strategy, word)
    if plan.adds_worst_pair:
        places = with_worst_pair(errors, v, here, places)
    return places, count_candidates(errors) > len(places)


@njit(**OPTIONS)
def solve_block(block, s, v, b, effort):
    """Active-set Newton, and SMO where Newton reaches its limit or is stuck: whether it was solved, the systems, b, and whether
    SMO was needed."""
    total = s.sum()
    outcome, systems, new_b = climb(block, s, v, b, effort)
    if outcome == OPTIMAL or not block.has_offset:
        return outcome == OPTIMAL, systems, new_b, False
    move_pairs(block, s, v, effort.tolerance, effort.steps_a_variable * len(s))
    restore_sum(block, s, v, total)
    top, bottom = span(v, s, block.lower, block.upper)
    return np.isfinite(v.sum()), systems, 0.5 * (top + bottom), True


@njit(**OPTIONS)
def run_chunks(K, variables, plan, b, word):
    """Working set after working set. s and f are changed in place."""
    n = len(variables.y)
    memory = np.empty((plan.size + 2, plan.size + 2))
    e, can_rise, can_fall = np.empty(n), np.empty(n, np.bool_), np.empty(n, np.bool_)
    iterations = steps = chunks = handovers = 0
    is_unsolved = False
    v = variables.y - variables.f
    while steps < plan.max_steps:
        here = survey(variables, v, plan.has_offset)
        violation = here.top - here.bottom
        is_met = here.gap <= plan.target * max(abs(here.dual), abs(here.dual + here.gap))
        if is_met or not violation >= 2.0 * plan.epsilon:
            break
        errors = Candidates(e, variables.y, can_rise, can_fall, min(plan.epsilon, 0.5 * violation))
        note_errors(variables, v, b, errors)
        word = next_random(word)
        places, leaves_some = next_places(v, here, plan, errors, word)
        block = block_of(K, variables, places, memory, plan.has_offset)
        s, local_v = taken(variables.s, places), taken(v, places)
        tolerance = plan.local_tolerance * violation if leaves_some else 0.0
        failures, most = plan.most_failures, plan.steps_a_variable
        effort = Effort(tolerance, plan.max_iterations, plan.jitter, plan.pairs, False, failures, most)
        is_solved, systems, new_b, was_handed_over = solve_block(block, s, local_v, b, effort)
        iterations += systems
        steps += len(places) * (systems + 1)
        is_unsolved = not is_solved
        if is_unsolved:
            break
        b = new_b
        chunks += 1
        handovers += was_handed_over
        take_over(variables.s, places, s)
        subtract_rows(K, places, s, v)
    for i in range(n):
        variables.f[i] = variables.y[i] - v[i]
    return Report(chunks, handovers, iterations, steps, b, word, is_unsolved)

"""The chunking scheme of IRWLS compiled, for small working sets of problems whose kernel matrix is held: choose, solve by
active-set Newton, bring f up to date, and again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.random_loops import next_random
from maxmargin.solvers.kernel.batched_smo_loops import gap_and_dual
from maxmargin.solvers.kernel.irwls.active_set_newton_loop import OPTIMAL, Block, climb
from maxmargin.solvers.kernel.irwls.cholesky_loops import OPTIONS
from maxmargin.solvers.kernel.irwls.selection_loops import Candidates, Strategy, choose, is_candidate

ZERO = np.uint64(0)


class Variables(NamedTuple):
    """Of the whole problem: the labels, the bounds of s, s itself, and f = K s."""

    y: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    s: np.ndarray
    f: np.ndarray


class Plan(NamedTuple):
    """How chunks are made, and when to come back: after ``max_chunks``, when (9) to (11) hold with eps, or when the gap,
    relative to the objective, is within ``target``."""

    size: int
    strategy: Strategy
    adds_worst_pair: bool
    local_tolerance: float
    max_iterations: int
    jitter: float
    has_offset: bool
    epsilon: float
    target: float
    max_chunks: int


class Report(NamedTuple):
    """``is_unsolved``: the last working set that was chosen was not solved, and is as it was."""

    chunks: int
    iterations: int
    steps: int
    b: float
    word: int
    is_unsolved: bool


class Survey(NamedTuple):
    """The sample that rises with the greatest v and the one that falls with the least, -1 where there is none."""

    rise: int
    fall: int
    violation: float
    gap: float
    dual: float


@njit(**OPTIONS)
def leaves_some(errors, chosen):
    """Whether a candidate is not chosen."""
    count = 0
    for i in range(len(chosen)):
        count += not chosen[i] and is_candidate(errors, i)
    return count > 0


@njit(**OPTIONS)
def survey(variables, v, b, has_offset, e, can_rise, can_fall):
    """One pass over all samples: their errors and the directions in which they may move, the worst pair, and the gap."""
    rise, fall, top, bottom = -1, -1, -np.inf, np.inf
    for i in range(len(v)):
        s = variables.s[i]
        e[i], can_rise[i], can_fall[i] = v[i] - b, s < variables.upper[i], s > variables.lower[i]
        if can_rise[i] and v[i] > top:
            rise, top = i, v[i]
        if can_fall[i] and v[i] < bottom:
            fall, bottom = i, v[i]
    if not has_offset:
        top, bottom = max(top, 0.0), min(bottom, 0.0)
    middle = 0.5 * (top + bottom) if has_offset else 0.0
    gap, dual = gap_and_dual(v, variables.y, variables.s, variables.lower, variables.upper, middle)
    return Survey(rise, fall, top - bottom, gap, dual)


@njit(**OPTIONS)
def places_of(chosen):
    places, count = np.empty(len(chosen), np.int64), 0
    for i in range(len(chosen)):
        if chosen[i]:
            places[count] = i
            count += 1
    return places[:count]


@njit(**OPTIONS)
def taken(values, places):
    out = np.empty(len(places))
    for k in range(len(places)):
        out[k] = values[places[k]]
    return out


@njit(**OPTIONS)
def block_of(K, variables, places, memory, has_offset):
    q = len(places)
    values = np.empty((q, q))
    for k in range(q):
        row = K[places[k]]
        for i in range(q):
            values[k, i] = row[places[i]]
    return Block(values, taken(variables.lower, places), taken(variables.upper, places), has_offset, memory)


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
def run_chunks(K, variables, plan, b, word):
    """Working set after working set. s and f are changed in place."""
    n = len(variables.y)
    memory = np.empty((plan.size + 2, plan.size + 2))
    e, can_rise, can_fall = np.empty(n), np.empty(n, np.bool_), np.empty(n, np.bool_)
    iterations = steps = chunks = 0
    is_unsolved = False
    v = variables.y - variables.f
    while chunks < plan.max_chunks:
        here = survey(variables, v, b, plan.has_offset, e, can_rise, can_fall)
        is_met = here.gap <= plan.target * max(abs(here.dual), abs(here.dual + here.gap))
        if is_met or not here.violation >= 2.0 * plan.epsilon:
            break
        errors = Candidates(e, variables.y, can_rise, can_fall, min(plan.epsilon, 0.5 * here.violation))
        word = next_random(word)
        chosen = choose(errors, plan.size, plan.strategy, word)
        if plan.adds_worst_pair:
            chosen[here.rise] = chosen[here.rise] or here.rise >= 0
            chosen[here.fall] = chosen[here.fall] or here.fall >= 0
        places = places_of(chosen)
        tolerance = plan.local_tolerance * here.violation if leaves_some(errors, chosen) else 0.0
        block = block_of(K, variables, places, memory, plan.has_offset)
        s, local_v = taken(variables.s, places), taken(v, places)
        outcome, systems, new_b = climb(block, s, local_v, b, tolerance, plan.max_iterations, plan.jitter)
        iterations += systems
        steps += len(places) * (systems + 1)
        if outcome != OPTIMAL:
            is_unsolved = True
            break
        b = new_b
        chunks += 1
        for k in range(len(places)):
            change = s[k] - variables.s[places[k]]
            variables.s[places[k]], s[k] = s[k], change
        subtract_rows(K, places, s, v)
    for i in range(n):
        variables.f[i] = variables.y[i] - v[i]
    return Report(chunks, iterations, steps, b, word, is_unsolved)

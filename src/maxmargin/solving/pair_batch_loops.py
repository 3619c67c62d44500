"""SMO, least squares and the certificate for pairs of classes with few samples, many pairs in one compiled call.

It makes the steps that ``maxmargin.solvers.kernel.held_smo`` makes with one linear system a round, by the same loops. What
decides is the judge's own loop, ``maxmargin.certificate.even_loops``, which reads alpha and the kernel rows and nothing else of
the solver. Nothing here is fast-math: the loops of the solver have flags of their own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.certificate.even_loops import DUAL, GAP, JUDGE_ROWS, PRIMAL, RELATIVE_GAP, ROUNDING, EvenSamples, judge_even
from maxmargin.data.by_type import by_type, loop_by_type
from maxmargin.data.caching import njit
from maxmargin.data.rows import Array
from maxmargin.problem.class_rows import RowMemory, rows_of_pair
from maxmargin.problem.held_values import MULTIPLE
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.kernel.batched_smo_loops import BentProblem, OnDemandProblem, solve_with_offset
from maxmargin.solvers.kernel.held_smo_loops import settle

ROUNDS, STEPS, VIOLATION, SHARE, IS_TRUSTED = range(5)
"""Where the state of a pair is kept: its rounds and steps so far, the violation for the next round, the share of the target
that the solver's own gap is to reach, and whether that gap was not measured."""
N_STATE = 5
VECTORS, MASKS = 6, 3
"""Rows of the memory of the solver."""


class BatchRule(NamedTuple):
    """The numbers of a :class:`maxmargin.solvers.kernel.held_smo.HeldSMOPolicy` that matter here, the target, C, the bound on
    the error of a kernel value as a share of the lengths, and whether these are all one. ``ends_slow``: a round that takes all
    its steps is the last."""

    tol: float
    C: float
    share: float
    is_uniform: bool
    first_violation: float
    greatest_violation: float
    gap_a_violation: float
    next_violation: float
    steps_a_sample: int
    most_rounds: int
    few_samples: int
    noise: float
    safety: float
    ends_slow: bool


class BatchMemory(NamedTuple):
    """Memory for the largest pair."""

    rows: RowMemory
    vectors: Array
    masks: Array
    work: Array
    free: Array
    judge: Array
    state: Array


class Gaussian(NamedTuple):
    """Memory for pairs under the RBF kernel."""

    memory: BatchMemory


class Bent(NamedTuple):
    """Memory for pairs under the other kernels that are functions of dot products."""

    memory: BatchMemory


@by_type
def local_of(kind, rows, vectors):
    """The problem of a pair for the loop of SMO."""


@by_type
def run_smo(kind, local, masks, violation, most):
    """SMO on that problem. The steps made."""


@local_of.when(Gaussian)
def _(kind, rows, vectors):
    return OnDemandProblem(rows, vectors[5], vectors[4], vectors[3], vectors[1], vectors[2], 0.0)


@local_of.when(Bent)
def _(kind, rows, vectors):
    return BentProblem(rows, vectors[5], vectors[4], vectors[3], vectors[1], vectors[2], 0.0)


_gaussian_smo, _bent_smo = solve_with_offset.of(OnDemandProblem), solve_with_offset.of(BentProblem)


@run_smo.when(Gaussian)
def _(kind, local, masks, violation, most):
    return _gaussian_smo(local, masks, violation, most)


@run_smo.when(Bent)
def _(kind, local, masks, violation, most):
    return _bent_smo(local, masks, violation, most)


@njit(inline="always")
def begin(vectors, classes, first, second, C):
    """alpha = 0: y, lower, upper, s, v and the diagonal of K, with zeros beyond the samples."""
    place = 0
    for side in range(2):
        k, sign = (first, 1.0) if side == 0 else (second, -1.0)
        for i in range(classes.starts[k], classes.starts[k + 1]):
            vectors[0, place], vectors[4, place], vectors[3, place] = sign, sign, 0.0
            vectors[1, place], vectors[2, place] = (0.0, C) if side == 0 else (-C, 0.0)
            vectors[5, place] = classes.diagonal[i]
            place += 1
    for row in range(VECTORS):
        for i in range(place, vectors.shape[1]):
            vectors[row, i] = 0.0


@njit(inline="always")
def expected_violation(vectors, goal, rule):
    """The violation at which the gap is expected to be small enough: see ``HeldState.run_to_gap``."""
    dual = 0.0
    for i in range(vectors.shape[1]):
        dual += vectors[3, i] * (vectors[0, i] + vectors[4, i])
    return goal * 0.5 * dual / (rule.gap_a_violation * rule.C)


@loop_by_type("kind", cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=False)
def advance_pair(kind, local, vectors, masks, rule, most_steps, n):
    """Rounds of SMO and least squares until the gap is small enough. False where they are over before that."""
    memory = kind.memory
    state, values = memory.state, local.rows.values
    goal = state[SHARE] * rule.tol
    while state[ROUNDS] < rule.most_rounds and state[STEPS] < most_steps:
        state[ROUNDS] += 1.0
        steps = np.int64(state[STEPS])
        most = min(most_steps, steps + rule.steps_a_sample * n)
        state[IS_TRUSTED] = 0.0
        if n > rule.few_samples and state[ROUNDS] == 1.0:
            wanted = rule.greatest_violation
            while steps < most:
                steps += run_smo(kind, local, masks, wanted, most - steps)
                expected = expected_violation(vectors, goal, rule)
                if steps >= most or not (state[VIOLATION] <= expected and expected < wanted):
                    state[IS_TRUSTED] = steps < most and expected >= wanted
                    break
                wanted = expected
        if state[IS_TRUSTED] > 0.0:
            state[STEPS] = steps
            return True
        if steps < most:
            steps += run_smo(kind, local, masks, state[VIOLATION], most - steps)
        is_slow = steps >= most
        state[STEPS], state[VIOLATION] = steps, state[VIOLATION] * rule.next_violation
        b, gap, dual, scale, outcome = settle(values, vectors, 0.0, True, memory.work, memory.free)
        greatest = max(abs(dual), abs(dual + gap))
        is_small, is_at_rounding = gap <= goal * greatest, gap <= rule.noise * UNIT_ROUNDOFF * scale
        if is_at_rounding or (is_small and n > rule.few_samples):
            return True
        if rule.ends_slow and is_slow:
            return False
    return False


@loop_by_type("kind", cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=False)
def solve_pairs(kind, classes, rule, pairs, alphas, numbers):
    """Solve and judge the pairs. A row of ``pairs`` is the two classes, the place in ``alphas`` at which the alpha of the pair
    begins, the most steps, and, afterwards, the steps made, none where the pair is not solved, and the kernel rows made. ``numbers`` has a row for each
    certificate."""
    memory = kind.memory
    for p in range(pairs.shape[0]):
        first, second, at, most_steps = pairs[p, 0], pairs[p, 1], pairs[p, 2], pairs[p, 3]
        middle = classes.starts[first + 1] - classes.starts[first]
        n = middle + classes.starts[second + 1] - classes.starts[second]
        padded = (n + MULTIPLE - 1) // MULTIPLE * MULTIPLE
        rows = rows_of_pair(classes, memory.rows, first, second, padded)
        vectors = memory.vectors[: VECTORS * padded].reshape((VECTORS, padded))
        masks = memory.masks[: MASKS * padded].reshape((MASKS, padded))
        begin(vectors, classes, first, second, rule.C)
        local, state = local_of(kind, rows, vectors), memory.state
        state[ROUNDS], state[STEPS], state[VIOLATION], state[SHARE] = 0.0, 0.0, rule.first_violation, rule.safety
        alpha, lengths = alphas[at : at + n], memory.judge[:n]
        own = memory.judge[n : n + JUDGE_ROWS * n].reshape((JUDGE_ROWS, n))
        for i in range(n):
            lengths[i] = classes.lengths[classes.starts[first] + i if i < middle else classes.starts[second] + i - middle]
        samples = EvenSamples(vectors[0, :n], lengths, rule.C, rule.share, rule.is_uniform, True)
        pairs[p, 4] = pairs[p, 5] = 0
        while advance_pair(kind, local, vectors, masks, rule, most_steps, n):
            for i in range(n):
                alpha[i] = abs(vectors[3, i])
            is_judged = judge_even(rows.values, rows.is_there, alpha, samples, own, numbers[p])
            scale = max(abs(numbers[p, PRIMAL]), abs(numbers[p, DUAL]))
            worst = numbers[p, GAP] + numbers[p, ROUNDING]
            if is_judged and numbers[p, RELATIVE_GAP] <= rule.tol and worst <= rule.tol * scale:
                pairs[p, 4], pairs[p, 5] = np.int64(state[STEPS]), memory.rows.counts[0]
                break
            state[SHARE] *= 1.0 if state[IS_TRUSTED] > 0.0 else 0.1

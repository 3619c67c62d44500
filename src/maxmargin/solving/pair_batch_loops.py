"""SMO, least squares and the certificate for pairs of classes with few samples, many pairs in one compiled call.

It makes the steps that ``maxmargin.solvers.kernel.held_smo`` makes with one linear system a round, by the same loops. What
counts is made by the judge's own loop, ``maxmargin.problem.kernel_loops.even_sums``, which reads alpha and the kernel rows and
nothing else of the solver. ``maxmargin.certificate.kernel`` makes the certificate of these sums. Nothing here is fast-math: the
loops of the solver have flags of their own."""

from __future__ import annotations

from typing import NamedTuple

from maxmargin.data.by_type import by_type, loop_by_type
from maxmargin.data.rows import Array
from maxmargin.problem.class_row_loops import RowMemory, rows_of_pair
from maxmargin.problem.held_values import MULTIPLE
from maxmargin.problem.kernel_loops import (
    ALPHA,
    ERRORS,
    GREATEST,
    HIGH,
    LENGTHS,
    LOW,
    N_SUPPORT,
    OFFSET,
    OUTPUTS,
    REACH,
    SIGNS,
    SUMS,
    even_sums,
)
from maxmargin.solvers.kernel.batched_smo_loops import BentProblem, OnDemandProblem, solve_with_offset
from maxmargin.solvers.kernel.held_smo_loops import settle

VECTORS, MASKS = 6, 3
"""Rows of the memory of the solver."""
JUDGE_ROWS = 4
"""Rows of the memory of the judge. The first holds the outputs afterwards, the third the bounds on their errors."""


class BatchRule(NamedTuple):
    """The numbers of a :class:`maxmargin.solvers.kernel.held_smo.HeldSMOPolicy` that matter here, the target, and C.
    ``noise`` is in units of one, ``ends_slow``: a round that takes all its steps is the last."""

    tol: float
    C: float
    first_violation: float
    greatest_violation: float
    gap_a_violation: float
    next_violation: float
    share_of_goal: float
    steps_a_sample: int
    most_rounds: int
    most_idle: int
    few_samples: int
    easy_steps: int
    insists: bool
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


@loop_by_type("kind", cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=False)
def solve_pairs(kind, classes, rule, pairs, bounds, samples, numbers):
    """Solve the pairs, and add up what their certificates need. A row of ``pairs`` is the two classes, the place of the pair's
    first sample in ``samples``, the most steps, and, afterwards, the steps made, none where the pair is not solved,
    and the kernel rows made. ``samples`` and ``numbers`` are those of a :class:`maxmargin.certificate.even.EvenSums`;
    ``bounds`` are the relative errors of an output and of a margin for every pair: see ``even_sums``.

    A round ends when SMO has reached its violation, and least squares have looked for the optimum of the face. The first round
    of more than a few samples may end earlier, where the violation lets expect a small gap."""
    memory, starts = kind.memory, classes.starts
    for p in range(pairs.shape[0]):
        first, second, at, most_steps = pairs[p, 0], pairs[p, 1], pairs[p, 2], pairs[p, 3]
        middle, last = starts[first + 1] - starts[first], starts[second + 1] - starts[second]
        n, padded = middle + last, (middle + last + MULTIPLE - 1) // MULTIPLE * MULTIPLE
        rows = rows_of_pair(classes, memory.rows, first, second, padded)
        vectors = memory.vectors[: VECTORS * padded].reshape((VECTORS, padded))
        masks = memory.masks[: MASKS * padded].reshape((MASKS, padded))
        own = memory.judge[n : n + JUDGE_ROWS * n].reshape((JUDGE_ROWS, n))
        alpha, lengths = samples[ALPHA, at : at + n], memory.judge[:n]
        y, lower, upper, s, v, diagonal = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4], vectors[5]
        for i in range(padded):
            is_first, is_sample = i < middle, i < n
            place = starts[first] + i if is_first else (starts[second] + i - middle if is_sample else 0)
            sign = 1.0 if is_first else (-1.0 if is_sample else 0.0)
            y[i], v[i], s[i], diagonal[i] = sign, sign, 0.0, (classes.diagonal[place] if is_sample else 0.0)
            upper[i], lower[i] = (rule.C if is_first else 0.0), (-rule.C if is_sample and not is_first else 0.0)
            if is_sample:
                lengths[i] = classes.lengths[place]
        local = local_of(kind, rows, vectors)
        pairs[p, 4] = pairs[p, 5] = steps = rounds = idle = 0
        violation, share, is_easy, is_small = rule.first_violation, rule.safety, n <= rule.few_samples, False
        wanted, most = (violation if is_easy else rule.greatest_violation), min(most_steps, rule.steps_a_sample * n)
        easy_steps = min(most, rule.easy_steps * n)
        while rounds < rule.most_rounds and steps < most_steps and idle < rule.most_idle:
            limit = easy_steps if is_easy and (rounds == 0 or is_small) else most
            made = run_smo(kind, local, masks, wanted, limit - steps)
            steps, idle = steps + made, idle + (made == 0)
            is_slow, is_trusted, goal = steps >= most, False, share * rule.tol
            if is_easy and steps >= easy_steps:
                is_easy = False
                if rounds == 0 and not is_slow:
                    wanted = rule.greatest_violation
                    continue
            if wanted != violation and not is_slow:
                dual = 0.0
                for i in range(n):
                    dual += s[i] * (y[i] + v[i])
                expected = goal * 0.5 * dual / (rule.gap_a_violation * rule.C)
                is_trusted = expected >= wanted
                if not is_trusted:
                    wanted = expected if expected >= violation else violation
                    continue
            rounds, most, wanted = rounds + 1, min(most_steps, steps + rule.steps_a_sample * n), violation
            if not is_trusted:
                _offset, gap, dual, scale, _outcome = settle(rows.values, vectors, 0.0, True, memory.work, memory.free)
                wanted_gap = goal * max(abs(dual), abs(dual + gap))
                is_small, is_at_rounding = gap <= wanted_gap, gap <= rule.noise * scale
                share_left = 0.0 if is_small else rule.share_of_goal * wanted_gap / gap
                wanted = violation = violation * max(rule.next_violation, share_left)
                is_last = idle >= rule.most_idle or rounds >= rule.most_rounds or steps >= most_steps
                if not is_at_rounding and not (is_small and (is_last or not is_easy or not rule.insists)):
                    if is_last or (is_slow and rule.ends_slow):
                        break
                    continue
            for i in range(n):
                alpha[i] = abs(s[i])
            known = lengths, bounds[p, 0], bounds[p, 1]
            found = even_sums(rows.values, rows.is_there, alpha, vectors[0, :n], rule.C, known, own)
            n_support, b, low, high, greatest, reach, sums = found
            loss, gap, rounding, sqnorm = sums[0], sums[1], sums[2], sums[3]
            if n_support > 0 and gap + rounding <= rule.tol * (0.5 * sqnorm + loss):
                numbers[p, N_SUPPORT], numbers[p, OFFSET], numbers[p, LOW], numbers[p, HIGH] = n_support, b, low, high
                numbers[p, GREATEST], numbers[p, REACH] = greatest, reach
                numbers[p, SUMS], numbers[p, SUMS + 1], numbers[p, SUMS + 2], numbers[p, SUMS + 3] = loss, gap, rounding, sqnorm
                numbers[p, SUMS + 4], numbers[p, SUMS + 5], numbers[p, SUMS + 6] = sums[4], sums[5], sums[6]
                numbers[p, SUMS + 7] = sums[7]
                for i in range(n):
                    samples[OUTPUTS, at + i], samples[ERRORS, at + i] = own[0, i], own[2, i]
                    samples[LENGTHS, at + i], samples[SIGNS, at + i] = lengths[i], y[i]
                pairs[p, 4], pairs[p, 5] = steps, memory.rows.counts[0]
                break
            share *= 1.0 if is_trusted else 0.1

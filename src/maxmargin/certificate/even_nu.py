"""The verdict on a problem with nu from one compiled call, where the kernel matrix is held and all costs are equal.

For a hundred samples the steps of ``maxmargin.certificate.nu`` take several times as long as the solver. Here errors are
bounded by the lengths of the samples instead of sums of magnitudes, which is never less. So this verdict is only taken where it
is within the tolerance; else ``maxmargin.certificate.nu`` judges again."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Certificate, Counts, GapParts, assemble
from maxmargin.certificate.kernel import BestKinks, even_errors
from maxmargin.certificate.nu_sum_loops import (
    AT_BOUND,
    ERROR,
    GAP,
    GREATEST_H,
    GREATEST_KINK,
    HIGH,
    LEFT_REACH,
    LINEAR,
    LOSS,
    LOW,
    N_NUMBERS,
    TAKEN,
    THRESHOLD,
    EvenBounds,
    EvenVariables,
    even_nu_sums,
)
from maxmargin.certificate.nu_sums import GroupSums, joined_charges
from maxmargin.certificate.rounding import PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.held_values import HeldValues
from maxmargin.problem.kernel_loops import SUMMED_SAMPLES
from maxmargin.problem.nu import NuProblem


class EvenVerdict(NamedTuple):
    """The certificate, the thresholds with the kinks on both sides, and f of every sample with its error."""

    certificate: Certificate
    thresholds: Array
    kinks: list[BestKinks]
    outputs: Array
    output_errors: Array


def even_nu_verdict(problem: NuProblem, alpha: Array) -> EvenVerdict | None:
    """Judge alpha. None where the problem is not of this kind, alpha is outside its box, or a group has no kink below its
    threshold."""
    held, cost, n = problem.samples.held, problem.even_cost, problem.samples.n_samples
    is_even = cost is not None and len(alpha) <= SUMMED_SAMPLES and problem.kernel.is_positive_semidefinite
    if not is_even or cost is None or held is None or held.bounds is None:
        return None
    ranks = [_ranks(len(members), cost, total) for members, total in zip(problem.members, problem.totals.tolist(), strict=True)]
    if min(ranks)[0] < 1:
        return None
    memory, found = np.empty((4, max(len(alpha), N_NUMBERS))), np.zeros((len(ranks), N_NUMBERS))
    variables = EvenVariables(problem.signs, problem.targets, problem.group, np.array(ranks))
    bounds = EvenBounds(cost, held.bounds.lengths, *even_errors(held.bounds.share, n))
    values = _values(held, problem, alpha)
    sqnorm, reach = even_nu_sums(values, alpha, variables, bounds, memory, found)
    if reach < 0.0:
        return None
    certificate = _certificate(problem, alpha, found, sqnorm)
    kinks = [BestKinks(*row) for row in found[:, [LOW, HIGH, GREATEST_KINK]].tolist()]
    return EvenVerdict(certificate, found[:, THRESHOLD].copy(), kinks, memory[1, :n], memory[2, :n])


def _values(held: HeldValues, problem: NuProblem, alpha: Array) -> Array:
    return held.padded if held.wants_all else held.with_rows(problem.coefficients(alpha).nonzero()[0])


def _ranks(n: int, cost: float, level: float) -> tuple[int, int]:
    """How many of n kinks are at or below the threshold, and one where it may be anywhere up to the next kink: the optimal
    thresholds are the quantiles at ``level`` of kinks of this cost. Any threshold would do for the certificate."""
    slack = 4.0 * UNIT_ROUNDOFF * (n + 1.0) * (n * cost + abs(level))
    low, high = math.ceil((level - slack) / cost), math.floor((level + slack) / cost)
    return min(low, n), int(high >= low)


def _certificate(problem: NuProblem, alpha: Array, found: Array, sqnorm: float) -> Certificate:
    sums = found.sum(axis=0).tolist()
    rows, lengths = found.tolist(), problem.samples.held.bounds.lengths  # type: ignore[union-attr]
    groups, greatest, cost = [], float(lengths.max()), float(problem.even_cost or 0.0)
    for g, row in enumerate(rows):
        is_full = row[AT_BOUND] == len(problem.members[g]) and problem.is_full(g)
        costs = cost * len(problem.members[g])
        taken_and_left = row[TAKEN : LEFT_REACH + 1]
        groups.append(GroupSums._make([*taken_and_left, costs, row[GREATEST_H], greatest, is_full]))
    thresholds = [row[THRESHOLD] for row in rows]
    priced = sum(total * theta for total, theta in zip(problem.totals.tolist(), thresholds, strict=True))
    taken = sum(row[TAKEN] * theta for row, theta in zip(rows, thresholds, strict=True))
    parts = GapParts(
        primal=0.5 * sqnorm + sums[LOSS] - priced,
        dual=sums[LINEAR] - 0.5 * sqnorm + taken - priced,
        gap=sums[GAP],
        error=sums[ERROR],
        roundings=gamma(float(PAIRWISE_ROUNDINGS)),
    )
    imbalance = joined_charges(groups, problem.totals)
    is_proof = sqnorm >= -(parts.error + imbalance.error + parts.roundings * parts.gap)
    counts = Counts(int(np.count_nonzero(alpha)), int(sums[AT_BOUND]))
    return assemble(parts, imbalance, counts, is_proof=is_proof)

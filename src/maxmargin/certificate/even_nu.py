"""The verdict on a problem with nu from compiled sums, where the kernel matrix is held and all costs are equal.

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
    LEFT_REACH,
    LINEAR,
    LOSS,
    N_NUMBERS,
    TAKEN,
    EvenBounds,
    EvenVariables,
    even_nu_sums,
)
from maxmargin.certificate.nu_sums import ROUNDINGS, GroupSums, joined_charges
from maxmargin.data.rows import Array
from maxmargin.problem.held_values import HeldValues
from maxmargin.problem.kernel_loops import SUMMED_SAMPLES, held_outputs
from maxmargin.problem.nu import NuProblem
from maxmargin.problem.offset import Interval, even_ranks


class EvenVerdict(NamedTuple):
    """The certificate, the thresholds with the kinks on both sides, and f of every sample with its error."""

    certificate: Certificate
    thresholds: Array
    kinks: list[BestKinks]
    outputs: Array
    output_errors: Array


def even_nu_verdict(problem: NuProblem, alpha: Array) -> EvenVerdict | None:
    """Judge alpha. None where the problem is not of this kind, or alpha is outside its box."""
    held, cost, n = problem.samples.held, problem.even_cost, problem.samples.n_samples
    is_even = cost is not None and n <= SUMMED_SAMPLES and problem.kernel.is_positive_semidefinite
    if not is_even or cost is None or held is None or held.bounds is None or not (alpha.min() >= 0.0 and alpha.max() <= cost):
        return None
    coefficients, outputs, lengths = problem.coefficients(alpha), np.zeros(n), held.bounds.lengths
    held_outputs(_rows_of(held, coefficients), coefficients, outputs)
    best = _best_kinks(problem, cost, problem.kinks(problem.of_variables(outputs)))
    thresholds = [Interval(low, high).middle for low, high, _ in best]
    relative_error, own_error = even_errors(held.bounds.share, n)
    errors = (relative_error * float(np.abs(coefficients) @ lengths)) * lengths
    found, at = np.zeros((2, len(best), N_NUMBERS)), np.array(thresholds)
    variables = EvenVariables(problem.signs, problem.targets, problem.group, at)
    even_nu_sums(outputs, alpha, variables, EvenBounds(cost, lengths, errors, own_error), found)
    certificate = _certificate(problem, alpha, found[0].tolist(), thresholds, float(coefficients @ outputs))
    return EvenVerdict(certificate, at, best, outputs, errors)


def _rows_of(held: HeldValues, coefficients: Array) -> Array:
    """The kernel matrix, in which the rows of the support vectors are there."""
    return held.rows.values if held.rows.is_there.all() else held.with_rows(coefficients.nonzero()[0])


def _best_kinks(problem: NuProblem, cost: float, kinks: Array) -> list[BestKinks]:
    """The kinks between which thresholds are optimal, for each group: their quantiles at its sum."""
    greatest, found = max(float(kinks.max()), -float(kinks.min())), []
    for members, total in zip(problem.members, problem.totals.tolist(), strict=True):
        own, n = kinks[members], len(members)
        low, high = even_ranks(n, cost, total)
        has_low, has_high = 0 <= low < n, high < n
        own.partition([rank for rank in (low, high) if 0 <= rank < n] or 0)
        ends = float(own[low]) if has_low else -math.inf, float(own[high]) if has_high else math.inf
        found.append(BestKinks(*ends, greatest))
    return found


def _certificate(
    problem: NuProblem, alpha: Array, rows: list[list[float]], thresholds: list[float], sqnorm: float
) -> Certificate:
    sums = [sum(column) for column in zip(*rows, strict=True)]
    lengths, cost = problem.samples.held.bounds.lengths, float(problem.even_cost or 0.0)  # type: ignore[union-attr]
    groups, greatest = [], float(lengths.max())
    for g, row in enumerate(rows):
        size = len(problem.members[g])
        is_full = row[AT_BOUND] == size and problem.is_full(g)
        groups.append(GroupSums._make([*row[TAKEN : LEFT_REACH + 1], cost * size, row[GREATEST_H], greatest, is_full]))
    priced = sum(total * theta for total, theta in zip(problem.totals.tolist(), thresholds, strict=True))
    taken = sum(row[TAKEN] * theta for row, theta in zip(rows, thresholds, strict=True))
    parts = GapParts(
        primal=0.5 * sqnorm + sums[LOSS] - priced,
        dual=sums[LINEAR] - 0.5 * sqnorm + taken - priced,
        gap=sums[GAP],
        error=sums[ERROR],
        roundings=ROUNDINGS,
    )
    imbalance = joined_charges(groups, problem.totals)
    is_proof = sqnorm >= -(parts.error + imbalance.error + parts.roundings * parts.gap)
    counts = Counts(int(np.count_nonzero(alpha)), int(sums[AT_BOUND]))
    return assemble(parts, imbalance, counts, is_proof=is_proof)

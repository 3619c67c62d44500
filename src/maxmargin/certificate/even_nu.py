"""The verdict on a problem with nu from one compiled call, where the kernel matrix is held and all costs are equal.

For a hundred samples the steps of ``maxmargin.certificate.nu`` take several times as long as the solver. Here errors are
bounded by the lengths of the samples instead of sums of magnitudes, which is never less. So this verdict is only taken where it
is within the tolerance; else ``maxmargin.certificate.nu`` judges again."""

from __future__ import annotations

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
from maxmargin.certificate.nu_sums import GroupSums, joined_charges
from maxmargin.certificate.rounding import PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import repeated
from maxmargin.problem.kernel_loops import SUMMED_SAMPLES, held_outputs
from maxmargin.problem.nu import NuProblem
from maxmargin.problem.offset import Interval, best_offsets


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
    is_even = cost is not None and len(alpha) <= SUMMED_SAMPLES and problem.kernel.is_positive_semidefinite
    if not is_even or cost is None or held is None or held.bounds is None or not (alpha.min() >= 0.0 and alpha.max() <= cost):
        return None
    coefficients, outputs, lengths = problem.coefficients(alpha), np.zeros(n), held.bounds.lengths
    held_outputs(held.with_rows(coefficients.nonzero()[0]), coefficients, outputs)
    kinks = problem.kinks(problem.of_variables(outputs))
    totals, greatest = problem.totals.tolist(), float(np.abs(kinks).max())
    best = [_best_kinks(kinks[own], cost, total, greatest) for own, total in zip(problem.members, totals, strict=True)]
    thresholds = np.array([Interval(low, high).middle for low, high, _ in best])
    relative_error, own_error = even_errors(held.bounds.share, n)
    errors = (relative_error * float(np.abs(coefficients) @ lengths)) * lengths
    found = np.zeros((2, len(best), N_NUMBERS))
    variables = EvenVariables(problem.signs, problem.targets, problem.group, thresholds)
    even_nu_sums(outputs, alpha, variables, EvenBounds(cost, lengths, errors, own_error), found)
    certificate = _certificate(problem, alpha, found[0], thresholds.tolist(), float(coefficients @ outputs))
    return EvenVerdict(certificate, thresholds, best, outputs, errors)


def _best_kinks(kinks: Array, cost: float, level: float, greatest: float) -> BestKinks:
    """The kinks between which thresholds are optimal: their quantiles at ``level``."""
    return BestKinks(*best_offsets(kinks, repeated(cost, len(kinks)), level), greatest)


def _certificate(problem: NuProblem, alpha: Array, found: Array, thresholds: list[float], sqnorm: float) -> Certificate:
    sums = found.sum(axis=0).tolist()
    rows, lengths = found.tolist(), problem.samples.held.bounds.lengths  # type: ignore[union-attr]
    groups, greatest, cost = [], float(lengths.max()), float(problem.even_cost or 0.0)
    for g, row in enumerate(rows):
        is_full = row[AT_BOUND] == len(problem.members[g]) and problem.is_full(g)
        costs = cost * len(problem.members[g])
        taken_and_left = row[TAKEN : LEFT_REACH + 1]
        groups.append(GroupSums._make([*taken_and_left, costs, row[GREATEST_H], greatest, is_full]))
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

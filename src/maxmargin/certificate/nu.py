r"""The judge of the problems with nu: the duality gap of alpha, recomputed from the data by the definition of the kernel.

With :math:`h_i = \theta_{g(i)} + a_i - m_i` and sums that are right the gap is

.. math:: P - D = \sum_i (c_i - \alpha_i) \max(0, h_i) + \alpha_i \max(0, -h_i) ,

none of whose terms is negative, at the thresholds that are best for w(alpha). What a sum costs that is wrong by r says
``maxmargin.certificate.nu_sums``.

**Where w = 0 is nearly optimal** and all targets are equal, P(0) = 0 is better than P(w(alpha)), whose loss terms fall with
|w(alpha)| while D falls with its square. Where D is a zero up to rounding, the pair of w = 0 and alpha is judged. Its gap is
at most :math:`\tfrac12 (|w(\alpha)| + |r| \sum_i q_i \sqrt{k(x_i, x_i)})^2`, and so is
:math:`\tfrac12 |w(\alpha) - w^*|^2`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.certificate.certificate import Certificate, Counts, GapParts, Imbalance, assemble, or_zero, refusal
from maxmargin.certificate.even_nu import even_nu_verdict
from maxmargin.certificate.kernel import BestKinks, outputs_of
from maxmargin.certificate.kernel_sums import KernelSums
from maxmargin.certificate.nu_sums import GroupSums, joined_charges
from maxmargin.certificate.precise_sums import precise_sums
from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, gamma, vector
from maxmargin.certificate.zero import is_zero
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.nu import NuProblem
from maxmargin.problem.offset import offset_interval

ZERO_ROUNDINGS = 2.0
"""Where all targets are equal, the value of w = 0 is zero, and where w = 0 is optimal both values are. They are taken for zeros
where, with their gap, they are below what rounding can have made of them, so that the sum of all three and of the rounding
error is below twice the latter. (Beside w = 0 the gap is as large as the dual value, and the gap alone is to be below it: with
constant targets both are nothing but rounding.) With other targets a value is as large as they are, and small only beside the
rounding of large kernel values: that is no zero."""


@dataclass(frozen=True, eq=False)
class NuVerdict:
    """The certificate, a threshold for each group, and f of every sample. ``violation`` is LIBSVM's, where there is no
    proof. ``kinks`` are those on both sides of each threshold, where they are known."""

    certificate: Certificate
    thresholds: Array
    outputs: Array
    output_errors: Array
    kernel_evaluations: int
    violation: float = math.inf
    kinks: list[BestKinks] | None = None

    @property
    def b(self) -> float:
        """The offset of nu-SVC and nu-SVR; minus the threshold of one class."""
        return float(-self.thresholds[0] if len(self.thresholds) == 1 else 0.5 * (self.thresholds[1] - self.thresholds[0]))

    def meets(self, tol: float) -> bool:
        if self.certificate.is_proof:
            return self.certificate.meets(tol)
        return math.isfinite(self.certificate.gap) and self.violation <= tol


def certify_nu(problem: NuProblem, alpha: Any, thresholds: Any = None, tol: float | None = None) -> NuVerdict:
    """Judge alpha with the thresholds that are best for it, or with those given. With ``tol`` outputs are computed in twice the
    precision where their rounding is what keeps the certificate from it."""
    alpha = vector(alpha, problem.n_samples, "alpha")
    quick = _quick_verdict(problem, alpha, tol) if thresholds is None and tol is not None else None
    if quick is not None:
        return quick
    n = problem.samples.n_samples
    if not problem.is_feasible(alpha):
        return NuVerdict(
            refusal(int(np.count_nonzero(alpha))), np.zeros(len(problem.totals)), np.zeros(n), np.full(n, np.inf), 0
        )
    with np.errstate(all="ignore"):
        coefficients = problem.coefficients(alpha)
        support = np.flatnonzero(coefficients)
        verdict = _verdict(problem, alpha, coefficients, outputs_of(problem.samples, coefficients, support), thresholds)
        certificate = verdict.certificate
        if tol is None or certificate.meets(tol) or _is_hopeless(certificate, tol):
            return verdict
        samples, everyone = problem.samples, np.arange(n)
        precise = precise_sums(samples.kernel, samples.points, support, coefficients[support], everyone)
        if precise is None:
            return verdict
        sharper = _verdict(problem, alpha, coefficients, precise, thresholds)
        return replace(sharper, kernel_evaluations=verdict.kernel_evaluations + n * len(support))


def _quick_verdict(problem: NuProblem, alpha: Array, tol: float) -> NuVerdict | None:
    """The verdict of one compiled call, if that proves a gap within ``tol``."""
    with np.errstate(all="ignore"):
        found = even_nu_verdict(problem, alpha)
    if found is None or not (found.certificate.is_proof and found.certificate.meets(tol) and found.certificate.scale > 0.0):
        return None
    return NuVerdict(found.certificate, found.thresholds, found.outputs, found.output_errors, 0, kinks=found.kinks)


def _verdict(problem: NuProblem, alpha: Array, coefficients: Array, sums: KernelSums, thresholds: Any) -> NuVerdict:
    n, outputs = problem.samples.n_samples, problem.of_variables(sums.outputs)
    if thresholds is None:
        thresholds = [interval.middle for interval in problem.best_thresholds(outputs)]
    thresholds = np.asarray(thresholds, dtype=np.float64)
    certificate = _certificate(problem, alpha, coefficients, sums, thresholds)
    violated = math.inf if certificate.is_proof else violation(problem, alpha, outputs)
    evaluations = n * int(np.count_nonzero(coefficients)) if problem.samples.held is None else 0
    return NuVerdict(certificate, thresholds, sums.outputs, sums.errors, evaluations, violated)


def _certificate(problem: NuProblem, alpha: Array, coefficients: Array, sums: KernelSums, thresholds: Array) -> Certificate:
    outputs, C, theta = problem.of_variables(sums.outputs), problem.C, thresholds[problem.group]
    kinks = problem.kinks(outputs)
    h = theta - kinks
    errors = problem.of_variables(np.asarray(sums.errors))
    errors = errors + 4.0 * UNIT_ROUNDOFF * (np.abs(theta) + np.abs(outputs) + np.abs(problem.targets))
    sqnorm = float(coefficients @ sums.outputs)
    price = float(problem.totals @ thresholds)
    slopes = np.where(h > errors, C - alpha, np.where(h < -errors, alpha, np.maximum(C - alpha, alpha)))
    lacking = np.array([alpha[members].sum() for members in problem.members]) - problem.totals
    parts = GapParts(
        primal=0.5 * sqnorm + float(C @ np.maximum(0.0, h)) - price,
        dual=float((problem.signs * problem.targets) @ alpha) - 0.5 * sqnorm + float(lacking @ thresholds),
        gap=float(np.sum((C - alpha) * np.maximum(0.0, h) + alpha * np.maximum(0.0, -h))),
        error=float(np.sum(slopes * errors)),
        roundings=gamma(float(PAIRWISE_ROUNDINGS)),
    )
    imbalance = imbalance_of(problem, alpha, h)
    noise = parts.error + imbalance.error + parts.roundings * parts.gap
    is_proof = problem.kernel.is_positive_semidefinite and sqnorm >= -noise
    certificate = assemble(parts, imbalance, Counts.of(alpha, alpha == C), is_proof=is_proof)
    if not (is_proof and np.ptp(problem.targets) == 0.0):
        return certificate
    length = math.sqrt(max(0.0, sqnorm + _square_error(coefficients, sums))) * OUTWARDS + imbalance.move
    known_to, beside = ZERO_ROUNDINGS * noise, _beside_zero(certificate, 0.5 * length**2 * OUTWARDS)
    zero = or_zero(beside, 2.0 * beside.gap * OUTWARDS) if beside.gap <= known_to else or_zero(certificate, known_to)
    return zero if zero is not certificate and is_zero(problem, alpha, noise) else unless_zero(certificate)


def unless_zero(certificate: Certificate) -> Certificate:
    """The certificate of a w that may not be zero. Values that rounding has made equal to zero are as far apart as it may have
    moved them."""
    if certificate.scale > 0.0 or certificate.rounding_error == 0.0:
        return certificate
    return replace(certificate, gap=certificate.rounding_error, relative_gap=math.inf)


def _is_hopeless(certificate: Certificate, tol: float) -> bool:
    """Whether more precise outputs cannot help: the gap is too large by itself."""
    return certificate.relative_gap > tol and certificate.rounding_error <= tol * certificate.scale


def _square_error(coefficients: Array, sums: KernelSums) -> float:
    """How wrong the sum of coefficients times outputs can be, as |w|^2."""
    size, roundings = np.abs(coefficients), gamma(float(PAIRWISE_ROUNDINGS))
    return float(size @ sums.errors) + roundings * float(size @ np.abs(sums.outputs))


def _beside_zero(certificate: Certificate, fall: float) -> Certificate:
    """The certificate of the pair of w = 0, whose primal value is zero, with alpha, whose dual value is at least ``-fall``."""
    distance = math.sqrt(2.0 * fall) * OUTWARDS
    there = replace(certificate, primal=0.0, dual=-fall, gap=fall, relative_gap=1.0)
    return replace(there, rounding_error=0.0, distance_bound=distance)


def imbalance_of(problem: NuProblem, alpha: Array, h: Array) -> Imbalance:
    """The imbalance of all groups together."""
    roots = problem.of_variables(np.sqrt(np.abs(np.asarray(problem.samples.diagonal))))
    groups = [
        GroupSums.of(alpha[members], problem.C[members], np.abs(h[members]), roots[members], problem.is_full(g))
        for g, members in enumerate(problem.members)
    ]
    return joined_charges(groups, problem.totals)


def violation(problem: NuProblem, alpha: Array, outputs: Array) -> float:
    """LIBSVM's violation: the greatest over the groups of the greatest h that can rise minus the least that can fall."""
    h = -problem.kinks(outputs)
    found = [0.0]
    for members in problem.members:
        own, a, C = h[members], alpha[members], problem.C[members]
        found.append(float(own[a < C].max(initial=-math.inf)) - float(own[a > 0.0].min(initial=math.inf)))
    return max(found)


def threshold_bound(problem: NuProblem, verdict: NuVerdict) -> float:
    """How far each threshold can be from any optimal one: the weighted quantiles of kinks that are moved by the ball around w.
    Offset and half-width, which are means of two thresholds, are no farther."""
    if not (problem.kernel.is_positive_semidefinite and math.isfinite(verdict.certificate.distance_bound)):
        return math.inf
    samples = problem.samples
    if verdict.kinks is not None and samples.kernel.is_gaussian and samples.held is not None:
        return _uniform_bound(problem, verdict, verdict.kinks, samples.held.error)
    with np.errstate(all="ignore"):
        entry_error = samples.held.error if samples.held else samples.kernel.rounding_error(samples.points, samples.points)
        lengths = np.sqrt(np.maximum(np.asarray(samples.diagonal) + entry_error, 0.0)) * OUTWARDS
        reach = problem.of_variables(verdict.certificate.distance_bound * lengths + verdict.output_errors)
        kinks = problem.kinks(problem.of_variables(verdict.outputs))
        reach = reach + 2.0 * UNIT_ROUNDOFF * (np.abs(kinks) + np.abs(problem.targets) + reach)
        bounds = [_bound_of_group(problem, g, kinks, reach, float(theta)) for g, theta in enumerate(verdict.thresholds)]
    return max(bounds)


def _bound_of_group(problem: NuProblem, g: int, kinks: Array, reach: Array, theta: float) -> float:
    """Where every variable is at its bound, any threshold above the greatest kink is optimal: the least is meant."""
    members = problem.members[g]
    if problem.is_full(g):
        return float(np.max(reach[members]))
    interval = offset_interval(kinks[members], problem.C[members], float(problem.totals[g]), reach[members])
    farthest = max(interval.high - theta, theta - interval.low)
    return float(farthest * OUTWARDS) if math.isfinite(farthest) else math.inf


def _uniform_bound(problem: NuProblem, verdict: NuVerdict, kinks: list[BestKinks], entry_error: float) -> float:
    """The same where every length is one and the kinks on both sides of each threshold are known: every kink moves by as much,
    beside its own rounding."""
    reach = verdict.certificate.distance_bound * math.sqrt(1.0 + entry_error) * OUTWARDS + float(verdict.output_errors[0])
    largest, found = float(np.abs(problem.targets).max()), []
    for g, (low, high, greatest) in enumerate(kinks):
        theta, moved = float(verdict.thresholds[g]), reach + 2.0 * UNIT_ROUNDOFF * (greatest + largest + reach)
        farthest = moved if problem.is_full(g) else max(high + moved - theta, theta - (low - moved)) * OUTWARDS
        found.append(farthest if math.isfinite(farthest) else math.inf)
    return max(found)

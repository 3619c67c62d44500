r"""The judge of kernel machines: the duality gap of alpha, recomputed from the data by the definition of the kernel.

The gap is the sum of the gap terms of the loss minus :math:`b \sum_i s_i`, which is zero up to rounding with an offset. The
terms of hinge loss are :math:`(C_i - \alpha_i) \max(0, 1 - m_i) + \alpha_i \max(0, m_i - 1)`. None is negative. Kernel values
are computed again in float64, block by block, for the columns of the support vectors. Neither a gradient nor compiled code of a
solver is used. If the gap is within a tolerance and only the bound on its rounding error is not, the outputs of the samples at
the margin, on which that bound depends, are computed once more in twice the precision.

**A kernel that is not positive semidefinite** has no such proof: :math:`|w|^2` may be negative, and the dual value bounds
nothing. What can be said is whether alpha is stationary, and the measure of that is LIBSVM's violation,

.. math:: \max_{i \,\text{can rise}} (y_i - f_i) - \min_{i \,\text{can fall}} (y_i - f_i) ,

where a sample can rise if :math:`\alpha_i y_i` can. Without an offset both are compared with zero."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import BALANCED, Certificate, Counts, GapParts, Imbalance, assemble, refusal
from maxmargin.certificate.kernel_sums import KernelSums, kernel_sums
from maxmargin.certificate.precise_sums import precise_sums
from maxmargin.certificate.rounding import PAIRWISE_ROUNDINGS, Number, gamma, vector
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import repeated
from maxmargin.problem.held_values import HeldValues
from maxmargin.problem.kernel import EvenProblem, KernelProblem
from maxmargin.problem.kernel_loops import SUMMED_SAMPLES, even_sums, held_outputs, hinge_sums
from maxmargin.problem.kernels import SECOND_ORDER
from maxmargin.problem.losses import UNIT_ROUNDOFF


class BestKinks(NamedTuple):
    """The kinks between which the primal is least in b, infinite where there is none, and the greatest magnitude of any
    kink."""

    low: float
    high: float
    greatest: float


@dataclass(frozen=True, eq=False)
class KernelVerdict:
    """The certificate, the offset that minimises the primal (or was given), and f: all that prediction needs besides alpha.
    ``output_errors`` bounds the rounding error of each f_i. ``violation`` is LIBSVM's, where there is no proof.
    ``kernel_evaluations`` counts the values that were computed besides the matrix that the problem holds. ``kinks`` are there
    where the certificate has found them on its way."""

    certificate: Certificate
    b: float
    outputs: Array
    output_errors: Array
    kernel_evaluations: int
    violation: float = math.inf
    kinks: BestKinks | None = None

    def meets(self, tol: float) -> bool:
        """Whether the relative gap is proved to be within ``tol``; where there is no proof, whether LIBSVM's violation is."""
        if self.certificate.is_proof:
            return self.certificate.meets(tol)
        return math.isfinite(self.certificate.gap) and self.violation <= tol

    def least_margin(self, problem: KernelProblem) -> float:
        """A lower bound on the margins of all samples. Zero in regression."""
        if problem.loss.is_regression:
            return 0.0
        rounding = self.output_errors + 8.0 * UNIT_ROUNDOFF * (1.0 + abs(self.b) + np.abs(self.outputs))
        return float((problem.signs * (self.outputs + self.b) - rounding).min())


def certify_kernel(problem: KernelProblem, alpha: Array, b: float | None = None, tol: float | None = None) -> KernelVerdict:
    """Judge alpha, with its own best offset or with the b given. With ``tol`` the rounding error is made small enough, where
    possible, to tell whether the relative gap is within ``tol``."""
    alpha = vector(alpha, problem.n_samples, "alpha")
    verdict = _even_verdict(problem, problem.even, alpha) if b is None and problem.even is not None else None
    if verdict is not None and not _is_in_doubt(verdict.certificate, tol):
        return verdict
    support = alpha.nonzero()[0]
    if not problem.is_feasible(alpha):
        return KernelVerdict(refusal(len(support)), 0.0, np.zeros(problem.n_samples), np.full(problem.n_samples, np.inf), 0)
    with np.errstate(all="ignore"):
        verdict = verdict or _verdict(problem, alpha, support, outputs_of(problem, alpha, support), b)
        if tol is None or not _is_in_doubt(verdict.certificate, tol):
            return verdict
        return _sharpened(problem, alpha, support, verdict, b, tol)


def _is_in_doubt(certificate: Certificate, tol: float | None) -> bool:
    """Whether the gap is within ``tol``, and only the bound on its rounding error is not."""
    return tol is not None and certificate.relative_gap <= tol and not certificate.meets(tol)


def _verdict(problem: KernelProblem, alpha: Array, support: Array, sums: KernelSums, b: float | None) -> KernelVerdict:
    b = problem.best_offset(sums.outputs) if b is None else float(b)
    certificate = _certificate(problem, alpha, support, sums, b)
    violated = math.inf if certificate.is_proof else violation(problem, alpha, sums.outputs)
    evaluations = problem.n_samples * len(support) if problem.held is None else 0
    return KernelVerdict(certificate, b, *sums, evaluations, violated)


def _even_verdict(problem: KernelProblem, even: EvenProblem, alpha: Array) -> KernelVerdict | None:
    """The verdict from one compiled call, with errors bounded by the lengths of the samples. None where alpha is zero or
    outside its box."""
    held, n, memory = even.held, len(alpha), np.empty((4, len(alpha)))
    if n > SUMMED_SAMPLES:
        return None
    bounds, rows = (even.bounds.lengths, *even_errors(even.bounds.share, n)), held.rows
    found = even_sums(rows.values, rows.is_there, alpha, even.signs, even.C, bounds, memory)
    if found[0] < 0:
        values = held.with_rows(alpha.nonzero()[0])
        found = even_sums(values, rows.is_there, alpha, even.signs, even.C, bounds, memory)
    n_support, b, low, high, greatest, reach, sums = found
    if n_support <= 0:
        return None
    totals, kernel, outputs = Totals.of(sums), problem.kernel, memory[0]
    imbalance, error = offset_imbalance(totals.balance, reach, b), even_sqnorm_error(totals, bounds[1], reach)
    certificate = _assembled(totals, imbalance, error, n_support, kernel.is_positive_semidefinite)
    violated = math.inf if certificate.is_proof else violation(problem, alpha, outputs)
    return KernelVerdict(certificate, b, outputs, memory[2], 0, violated, BestKinks(low, high, greatest))


def even_errors(share: float, n: Number) -> tuple[Number, float]:
    """The relative errors of an output and of a margin of n samples, whose kernel values are wrong by at most that ``share`` of
    the products of lengths."""
    return SECOND_ORDER * (share + gamma(n + 2.0)), 4.0 * UNIT_ROUNDOFF  # type: ignore[return-value]


def violation(problem: KernelProblem, alpha: Array, outputs: Array) -> float:
    """LIBSVM's: see the head of this module. With a tube the slope of the dual is less by epsilon where |s_i| rises."""
    signed = problem.signed(None)._replace(s=alpha * problem.signs)
    slopes, s, epsilon = signed.y - outputs, signed.s, problem.box.e
    rising = slopes - np.where(s >= 0.0, epsilon, -epsilon)
    falling = slopes - np.where(s > 0.0, epsilon, -epsilon)
    top = float(rising[s < signed.upper].max(initial=-math.inf))
    bottom = float(falling[s > signed.lower].min(initial=math.inf))
    if not problem.has_offset:
        top, bottom = max(top, 0.0), min(bottom, 0.0)
    return max(0.0, top - bottom)


def _sharpened(
    problem: KernelProblem, alpha: Array, support: Array, verdict: KernelVerdict, b: float | None, tol: float
) -> KernelVerdict:
    """The verdict with precise outputs where they matter for this tolerance. The same verdict where no precise outputs
    exist."""
    at, errors = _at_offset(problem, verdict.outputs, verdict.b), verdict.output_errors
    effects = problem.loss.gap_sensitivity(at.outputs, alpha, problem.C, errors, at.targets)
    allowed = tol * verdict.certificate.scale
    decisive = np.flatnonzero(effects > policy.KERNEL.negligible * allowed / problem.n_samples)
    precise = precise_sums(problem.kernel, problem.points, support, (alpha * problem.signs)[support], decisive)
    if precise is None:
        return verdict
    sums = KernelSums(verdict.outputs.copy(), errors.copy())
    sums.outputs[decisive], sums.errors[decisive] = precise
    sharper = _verdict(problem, alpha, support, sums, b)
    return replace(sharper, kernel_evaluations=sharper.kernel_evaluations + len(decisive) * len(support))


def outputs_of(problem: KernelProblem, alpha: Array, support: Array) -> KernelSums:
    """f_i for every sample, and a bound on its error: the rounding of the kernel values and that of the additions."""
    if problem.held is not None:
        return _held_sums(problem, problem.held, alpha, support)
    if len(support):
        check_point()  # before the samples are prepared, which takes 20 ms for each of many pairs of classes
    signed = (alpha * problem.signs)[support]
    if problem.kernel.is_given:
        return KernelSums.of_columns(lambda rows: problem.gram(rows, support), signed, problem.n_samples)
    return kernel_sums(problem.kernel, problem.points, support, signed)


def _held_sums(problem: KernelProblem, held: HeldValues, alpha: Array, support: Array) -> KernelSums:
    """The sums from kernel values that are each known to within an error. No value of the RBF kernel is greater than one, so
    one bound serves all samples. Models may have coefficients of either sign instead of alpha."""
    outputs, sizes, additions = np.zeros(len(alpha)), np.abs(alpha), gamma(len(alpha) + 2.0)
    values = held.with_rows(support)
    held_outputs(values, alpha * problem.signs, outputs)
    if problem.kernel.is_gaussian:
        error = SECOND_ORDER * (held.error + additions) * float(sizes.sum())
        return KernelSums(outputs, repeated(error, len(alpha)))
    errors = problem.kernel.sum_errors(problem.points, sizes, problem.points)
    own = np.abs(values[support, : held.n])  # the rows of which the outputs are made: the others are times zero
    return KernelSums(outputs, errors + additions * (sizes[support] @ own))


class _AtOffset(NamedTuple):
    """What a loss is given at an offset: outputs and targets, and the slopes of the dual's linear term that belong to them.
    ``b`` is what is left of the offset: none in regression, where it is taken from the targets."""

    outputs: Array
    targets: Array
    p: Array
    b: float


def _at_offset(problem: KernelProblem, outputs: Array, b: float) -> _AtOffset:
    """In regression the targets t - b and the outputs f, instead of t and f + b: on the points with sum_i s_i = 0 that is the
    same problem, and targets far from zero cost no digits."""
    sigma, t = problem.signs, problem.targets
    if problem.loss.is_regression and problem.has_offset:
        return _AtOffset(outputs, t - b, problem.box.p - b, 0.0)
    return _AtOffset(sigma * (outputs + b), t, problem.box.p, b)


def _certificate(problem: KernelProblem, alpha: Array, support: Array, sums: KernelSums, b: float) -> Certificate:
    found = _totals(problem, alpha, sums, b, len(support) > 0)
    is_moved = problem.loss.is_regression and problem.has_offset  # then the targets are counted from b
    imbalance = imbalance_of(problem, alpha, found.balance, 0.0 if is_moved else b)
    size = np.abs(alpha)
    error = sqnorm_error(float(size @ sums.errors), float(size @ np.abs(sums.outputs)))
    return _assembled(found, imbalance, error, len(support), problem.kernel.is_positive_semidefinite)


def _assembled(found: Totals, imbalance: Imbalance, error: float, n_support: int, is_positive: bool) -> Certificate:
    """``error`` is that of |w|^2. ``is_positive``: the kernel was declared positive semidefinite. It may turn out not to be."""
    parts = gap_parts(found)
    is_proof = is_positive and is_plausible(found, parts, imbalance, error)
    return assemble(parts, imbalance, Counts(n_support, found.n_at_bound), is_proof=is_proof)


def gap_parts(found: Totals) -> GapParts:
    """The parts of the gap. Here and in the next function all fields may be arrays, one element a problem."""
    return GapParts(
        primal=0.5 * found.sqnorm + found.loss,
        dual=found.conjugate - 0.5 * found.sqnorm,
        gap=found.gap,
        error=found.rounding,
        roundings=gamma(float(PAIRWISE_ROUNDINGS)),
    )


def is_plausible(found: Totals, parts: GapParts, imbalance: Imbalance, error: float) -> bool:
    """Whether |w|^2 is no more negative than rounding can make it. The error of the gap alone does not bound that of |w|^2: an
    alpha_i = C_i below its margin adds nothing to it."""
    return found.sqnorm >= -(error + parts.error + imbalance.error + parts.roundings * parts.gap)


def sqnorm_error(output_errors: Number, magnitude: Number) -> Number:
    """How wrong |w|^2 = sum_i s_i f_i can be, from sum_i |alpha_i| times the error of f_i, and from sum_i |alpha_i f_i|: a term
    goes through two roundings of its own and those of the sum."""
    return SECOND_ORDER * (output_errors + gamma(PAIRWISE_ROUNDINGS + 2.0) * magnitude)  # type: ignore[return-value]


def even_sqnorm_error(found: Totals, relative_error: Number, reach: Number) -> Number:
    """The same where the error of f_i is ``relative_error`` times the reach and the length of sample i. With alpha_i >= 0,
    sum_i alpha_i |f_i| is at most sum_i alpha_i |1 - sigma_i f_i| + sum_i alpha_i."""
    return sqnorm_error(relative_error * reach * reach, found.balance.slope + found.balance.size)  # type: ignore[operator, return-value]


class Balance(NamedTuple):
    """sum_i |alpha_i|, sum_i s_i, and sum_i |alpha_i| (|p_i - sigma_i f_i| + epsilon)."""

    size: float
    excess: float
    slope: float

    @classmethod
    def of(cls, problem: KernelProblem, alpha: Array, outputs: Array, p: Array | None = None) -> Balance:
        """``p`` is in the place of the problem's own, where targets are counted from an offset."""
        size = np.abs(alpha)
        slopes = np.abs((problem.box.p if p is None else p) - problem.signs * outputs) + problem.box.e
        return cls(float(size.sum()), float((alpha * problem.signs).sum()), float(size @ slopes))


class Totals(NamedTuple):
    """Sums over the samples: of C_i loss_i, of the gap terms, of what rounding can do to each, of s_i f_i, and of the dual's
    terms. No term goes through more roundings than PAIRWISE_ROUNDINGS."""

    loss: float
    gap: float
    rounding: float
    sqnorm: float
    conjugate: float
    balance: Balance
    n_at_bound: int

    @classmethod
    def of(cls, found: tuple[float, ...]) -> Totals:
        """The totals from what ``hinge_sums`` returns."""
        loss, gap, rounding, sqnorm, total, excess, slope, n_at_bound = found
        return cls(loss, gap, rounding, sqnorm, total, Balance(total, excess, slope), int(n_at_bound))


def _totals(problem: KernelProblem, alpha: Array, sums: KernelSums, b: float, has_support: bool) -> Totals:
    is_rounded = has_support or problem.loss.is_regression  # without support vectors the outputs of classes are +b and -b
    own_error = 4.0 * UNIT_ROUNDOFF if is_rounded else 0.0
    if len(alpha) > SUMMED_SAMPLES or problem.loss.is_regression:
        return _totals_of_many(problem, alpha, sums, b, own_error)
    errors, C = np.ascontiguousarray(sums.errors), np.ascontiguousarray(problem.C)
    return Totals.of(hinge_sums(sums.outputs, errors, alpha, problem.signs, C, b, own_error))


def _totals_of_many(problem: KernelProblem, alpha: Array, sums: KernelSums, b: float, own_error: float) -> Totals:
    C, loss = problem.C, problem.loss
    outputs, t, p, left = _at_offset(problem, sums.outputs, b)
    errors = sums.errors + own_error * (np.abs(t) + np.abs(outputs) + abs(left)) if own_error else sums.errors
    is_at_bound = (alpha == problem.box.U) | (alpha == problem.box.L)
    return Totals(
        loss=float(C @ loss.value(outputs, t)),
        gap=float(np.sum(loss.gap_terms(outputs, alpha, C, t))),
        rounding=float(np.sum(loss.gap_sensitivity(outputs, alpha, C, errors, t))),
        sqnorm=float((alpha * problem.signs) @ sums.outputs),
        conjugate=float(np.sum(problem.box._replace(p=p).terms(alpha))),
        balance=Balance.of(problem, alpha, sums.outputs, p),
        n_at_bound=int(np.count_nonzero(is_at_bound & (alpha != 0.0))),
    )


def imbalance_of(problem: KernelProblem, alpha: Array, balance: Balance, b: float) -> Imbalance:
    """The feasible alpha' has the heavier sign of s_i scaled by 1 - e, e <= 2 |r| / sum |alpha|, and the dual falls by at most

        e sum_i |alpha_i| (|p_i - sigma_i f_i| + epsilon) + e^2 (sum_i |alpha_i| k(x_i, x_i)^1/2)^2 / 2;

    the ball is around the point between w(alpha) and w(alpha')."""
    total = balance.size
    if not problem.has_offset or total == 0.0:
        return BALANCED
    diagonal = problem.diagonal
    is_one = diagonal.strides == (0,)  # one value for all
    reach = total * math.sqrt(abs(diagonal[0])) if is_one else float(np.abs(alpha) @ np.sqrt(np.abs(diagonal)))
    return offset_imbalance(balance, reach, b)


def offset_imbalance(balance: Balance, reach: float, b: float) -> Imbalance:
    """``reach`` is sum_i |alpha_i| k(x_i, x_i)^1/2, and no sum is zero. All may be arrays, one element a problem."""
    total = balance.size

    def fall(r: float) -> float:
        e = 2.0 * r / total
        return e * balance.slope + 0.5 * (e * reach) ** 2

    excess_error = gamma(float(PAIRWISE_ROUNDINGS)) * total
    return Imbalance.of(abs(balance.excess), excess_error, abs(b), fall, 2.0 / total * reach)

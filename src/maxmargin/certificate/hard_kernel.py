r"""The hard margin, C = infinity, of problems with a kernel: the proofs of :mod:`maxmargin.certificate.hard_margin`.

The outputs :math:`f_i` and their rounding errors are those of the certificate. The length of :math:`v = w(\alpha)` is
:math:`(\sum_i s_i f_i)^{1/2}`, and what rounding can have done to that sum is added before the root is taken: a kernel value is
known to some 1e-16, so that a length below some 1e-8 is not told from zero.

**Equal samples** of different classes, or with targets more than 2 epsilon apart, have :math:`v = 0` exactly, whatever the
kernel is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import sparse

from maxmargin.certificate.certificate import refusal
from maxmargin.certificate.equal_points import equal_points
from maxmargin.certificate.hard_margin import (
    Ray,
    hard_loss,
    hard_offset_bound,
    judged_cost,
    least_room,
    offset_room,
    worth_of,
)
from maxmargin.certificate.kernel import KernelVerdict, certify_kernel, outputs_of
from maxmargin.certificate.predictions import kernel_lengths
from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.kernel import KernelProblem


def certify_hard_kernel(problem: KernelProblem, alpha: Array, b: float) -> KernelVerdict:
    """Judge alpha with the offset b for C = infinity. Of the problem's C only one thing counts: which C_i are zero."""
    is_here, held = problem.C > 0.0, problem.held
    C = np.where(is_here, judged_cost(alpha), 0.0)
    matrix = None if held is None else lambda: held
    verdict = certify_kernel(replace(problem, C=C, loss=hard_loss(problem.loss), matrix=matrix), alpha, b)
    values = verdict.outputs + b
    errors = verdict.output_errors + 2.0 * UNIT_ROUNDOFF * (np.abs(values) + 1.0)
    parts = (each[is_here] for each in (problem.signs, problem.targets, values, errors))
    if least_room(problem.loss, *parts) >= 0.0:
        return verdict
    return replace(verdict, certificate=refusal(int(np.count_nonzero(alpha))))


def kernel_ray(problem: KernelProblem, alpha: Array) -> Ray:
    """The ray of a dual point that is not zero. With an offset it must be balanced up to rounding."""
    alpha = alpha / np.abs(alpha).sum()
    sums = outputs_of(problem, alpha, np.flatnonzero(alpha))
    signed = alpha * problem.signs
    square = float(signed @ sums.outputs)
    error = float(np.abs(alpha) @ (sums.errors + gamma(float(PAIRWISE_ROUNDINGS)) * np.abs(sums.outputs)))
    if problem.has_offset:  # the offset is the weight of a feature that is one
        excess = abs(float(signed.sum())) + gamma(float(PAIRWISE_ROUNDINGS))
        square, error = square + excess * excess, error + excess * excess
    length = math.sqrt(max(0.0, square) + error) * OUTWARDS
    return Ray.with_worth(alpha, length, math.sqrt(error), worth_of(problem.loss, problem.targets, alpha))


def ray_of_equal_samples(problem: KernelProblem) -> Ray | None:
    """The ray of two equal samples that ask for different values; None where there are none such."""
    is_here = np.flatnonzero(problem.C > 0.0)
    if problem.kernel.is_given or not len(is_here):
        return None
    group, first = equal_points(sparse.csr_array(problem.rows.matrix[is_here]))
    low, high = offset_room(problem, np.zeros(problem.n_samples))
    highest, lowest = np.full(len(first), -1), np.full(len(first), -1)
    for place, bounds in ((highest, low), (lowest, -high)):  # the greatest least value, and the least greatest one
        order = np.argsort(bounds[is_here], kind="stable")
        place[group[order]] = is_here[order]
    wrong = np.flatnonzero(low[highest] - high[lowest] > 4.0 * UNIT_ROUNDOFF * (np.abs(low[highest]) + np.abs(high[lowest])))
    if not len(wrong):
        return None
    alpha = np.zeros(problem.n_samples)
    alpha[highest[wrong[0]]], alpha[lowest[wrong[0]]] = 0.5, 0.5 if not problem.loss.is_regression else -0.5
    return Ray(alpha, 0.0, 0.0)


def kernel_hard_offset_bound(problem: KernelProblem, verdict: KernelVerdict) -> float:
    """An upper bound on |b - b*|; zero without an offset."""
    distance = verdict.certificate.distance_bound
    if not problem.has_offset or not math.isfinite(distance):
        return 0.0 if not problem.has_offset else math.inf
    reach = distance * _lengths(problem) + verdict.output_errors
    return hard_offset_bound(problem, verdict.outputs, reach, verdict.b)


def _lengths(problem: KernelProblem) -> Array:
    """sqrt(k(x, x)) for each sample, rounded upwards."""
    if problem.kernel.is_given:
        return np.asarray(np.sqrt(np.maximum(problem.diagonal, 0.0)) * OUTWARDS)
    return kernel_lengths(problem.kernel, problem.points)

r"""The judge of models with nu as they are: support vectors that need not be samples, coefficients that need not be feasible.

For :math:`w = \sum_j c_j \phi(z_j)`, any thresholds and any feasible alpha, with the symbols of ``maxmargin.problem.nu`` and
:math:`h_i = \theta_{g(i)} + a_i - m_i` at the outputs of w,

.. math:: P(w, \theta) - D(\alpha) = \sum_i \left[ (c_i - \alpha_i) \max(0, h_i) + \alpha_i \max(0, -h_i) \right]
          + \tfrac12 |w - w(\alpha)|^2 .

A file holds what predicts, and not all that P depends on. What is missing is chosen so that P is least:

- **nu-SVC** is kept divided by rho. :math:`P(r w, r (1 - b), r (1 + b)) = \tfrac12 r^2 |w|^2 - r (\nu S - \sum s_i \xi_i)` with
  :math:`\xi_i = \max(0, 1 - y_i f_i)`, which is least at :math:`r = \max(0, \nu S - \sum_i s_i \xi_i) / |w|^2`.
- **nu-SVR** says nothing of the width of its tube: the best :math:`\epsilon` for w and b is a weighted quantile of
  :math:`|y_i - f_i|`.
- **one class** says everything: its threshold is rho."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Certificate, Counts, GapParts, assemble, or_zero, refusal
from maxmargin.certificate.model import KernelModel, WeightedSum, with_vectors
from maxmargin.certificate.nu import ZERO_ROUNDINGS, imbalance_of, unless_zero
from maxmargin.certificate.rounding import PAIRWISE_ROUNDINGS, gamma, vector
from maxmargin.certificate.zero import is_zero, is_zero_sum
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.nu import NuProblem
from maxmargin.problem.offset import best_offsets


class Completed(NamedTuple):
    """A factor for w, and a threshold for each group of variables: what makes a point of a problem of a model."""

    scale: float
    thresholds: Array


def certify_nu_model(problem: NuProblem, model: KernelModel, alpha: Array) -> Certificate:
    """Judge the model with alpha as the dual point, and with what its file does not say chosen best."""
    if not problem.kernel.is_positive_semidefinite:
        raise ValueError(f"{problem.kernel} is not positive semidefinite: no dual value is a bound on its optimum.")
    alpha = vector(alpha, problem.n_samples, "alpha")
    is_finite = bool(np.isfinite(alpha).all() and np.isfinite(model.coefficients).all() and math.isfinite(model.b))
    if not (is_finite and problem.is_feasible(alpha)):
        return refusal(int(np.count_nonzero(alpha)))
    with np.errstate(all="ignore"):
        everyone = with_vectors(problem.samples, model.vectors)
        n, size = problem.samples.n_samples, everyone.n_samples
        signed, dual_signed = np.zeros(size), np.zeros(size)
        signed[size - len(model.coefficients) :] = model.coefficients
        dual_signed[:n] = problem.coefficients(alpha)
        w, dual_w = WeightedSum.of(everyone, signed), WeightedSum.of(everyone, dual_signed)
        point = completed(problem, w.outputs[:n], w.sqnorm, model.b)
        certificate, noise = _certificate(problem, w, dual_w, point, alpha)
        zero = or_zero(certificate, ZERO_ROUNDINGS * noise)
        if zero is certificate or not is_zero(problem, alpha, noise):
            return unless_zero(certificate)
        is_zero_model = is_zero_sum(problem.kernel, everyone.rows.matrix, point.scale * signed, len(problem.totals) > 1)
        return zero if is_zero_model else unless_zero(certificate)


def completed(problem: NuProblem, outputs: Array, sqnorm: float, b: float) -> Completed:
    """What the model does not say: see the head of this module. ``outputs`` are w . phi(x_i), without b."""
    if len(problem.totals) == 1:
        return Completed(1.0, np.array([-b]))
    if problem.n_copies == 1:
        slack = np.maximum(0.0, 1.0 - problem.signs * (outputs + b))
        slope = float(problem.totals.sum()) - float(problem.C @ slack)
        scale = max(0.0, slope) / sqnorm if sqnorm > 0.0 else 0.0
        return Completed(scale, scale * np.array([1.0 - b, 1.0 + b]))
    n = len(outputs)
    residuals = np.abs(problem.targets[:n] - outputs - b)
    epsilon = max(0.0, -best_offsets(-residuals, problem.C[:n], float(problem.totals.sum())).middle)
    return Completed(1.0, np.array([-(b + epsilon), b - epsilon]))


def _certificate(
    problem: NuProblem, w: WeightedSum, dual_w: WeightedSum, point: Completed, alpha: Array
) -> tuple[Certificate, float]:
    """The certificate, and how wrong its values can be by rounding."""
    n, C, theta, scale = problem.samples.n_samples, problem.C, point.thresholds[problem.group], point.scale
    outputs = problem.of_variables(scale * w.outputs[:n])
    h = theta - problem.kinks(outputs)
    errors = problem.of_variables(scale * np.asarray(w.errors[:n]))
    errors = errors + 4.0 * UNIT_ROUNDOFF * (np.abs(theta) + np.abs(outputs) + np.abs(problem.targets))
    difference = scale * w.signed - dual_w.signed
    sqdistance = max(0.0, float(difference @ (scale * w.outputs - dual_w.outputs)))
    sqdistance_error = 2.0 * float(np.abs(difference) @ (scale * np.asarray(w.errors) + dual_w.errors))
    slopes = np.where(h > errors, C - alpha, np.where(h < -errors, alpha, np.maximum(C - alpha, alpha)))
    sums = np.array([alpha[members].sum() for members in problem.members])
    apart = math.sqrt(sqdistance + sqdistance_error) if math.isfinite(sqdistance + sqdistance_error) else math.inf
    linear = float((problem.signs * problem.targets) @ alpha)
    parts = GapParts(
        primal=0.5 * scale * scale * w.sqnorm + float(C @ np.maximum(0.0, h)) - float(problem.totals @ point.thresholds),
        dual=linear - 0.5 * dual_w.sqnorm + float((sums - problem.totals) @ point.thresholds),
        gap=float(np.sum((C - alpha) * np.maximum(0.0, h) + alpha * np.maximum(0.0, -h))) + 0.5 * sqdistance,
        error=float(np.sum(slopes * errors)) + 0.5 * sqdistance_error,
        roundings=gamma(float(PAIRWISE_ROUNDINGS)),
        apart=apart,
    )
    # On the way to the right sums w(alpha) moves, and |w - w(alpha)|^2 / 2 grows by its length times the move, too.
    imbalance = imbalance_of(problem, alpha, h)
    imbalance = imbalance._replace(error=imbalance.error + (apart * imbalance.move if imbalance.move else 0.0))
    certificate = assemble(parts, imbalance, Counts(int(np.count_nonzero(w.signed)), int(np.count_nonzero(alpha == C))))
    return certificate, parts.error + imbalance.error + parts.roundings * parts.gap

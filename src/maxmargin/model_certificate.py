r"""The judge of kernel models as they are: support vectors that need not be samples, coefficients that need not be feasible.

For :math:`w = \sum_j c_j \phi(z_j)`, any b and any feasible alpha, with :math:`f_i = \sum_j c_j k(z_j, x_i)` and margins
:math:`m_i = y_i (f_i + b)`,

.. math:: P(w, b) - D(\alpha) = \sum_i \left[ (C_i - \alpha_i) \max(0, 1 - m_i) + \alpha_i \max(0, m_i - 1) \right]
          - b \sum_i \alpha_i y_i + \tfrac12 |w - w(\alpha)|^2 .

So a model of anybody's can be judged with a dual point of anybody's, also when its file has rounded the support vectors. It
takes a kernel that is positive semidefinite: otherwise the last term is no square, and the dual value bounds nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.certificate import PAIRWISE_ROUNDINGS, Certificate, gamma, refusal, relative, vector
from maxmargin.data import Array, Rows
from maxmargin.kernel_certificate import charge, outputs_of
from maxmargin.kernel_problem import KernelProblem
from maxmargin.losses import UNIT_ROUNDOFF


@dataclass(frozen=True, eq=False)
class KernelModel:
    """w = sum_j coefficients_j phi(vectors_j), and b. Without vectors the coefficients are those of the samples."""

    coefficients: Array
    b: float
    vectors: Any = None


def certify_model(problem: KernelProblem, model: KernelModel, alpha: Array) -> Certificate:
    """Judge the model with alpha as the dual point."""
    if not problem.kernel.is_positive_semidefinite:
        raise ValueError(f"{problem.kernel} is not positive semidefinite: no dual value is a bound on its optimum.")
    if model.b != 0.0 and not problem.has_offset:
        raise ValueError(f"The problem has no offset, but the model's is {model.b:g}.")
    alpha = vector(alpha, problem.n_samples, "alpha")
    is_finite = bool(np.isfinite(alpha).all() and np.isfinite(model.coefficients).all() and math.isfinite(model.b))
    if not (is_finite and problem.is_feasible(alpha)):
        return refusal(alpha)
    with np.errstate(all="ignore"):
        everyone = _with_vectors(problem, model.vectors)
        n, size = problem.n_samples, everyone.n_samples
        signed, dual_signed = np.zeros(size), np.zeros(size)
        signed[size - len(model.coefficients) :] = model.coefficients
        dual_signed[:n] = alpha * problem.y
        return _certificate(problem, _Sum.of(everyone, signed), _Sum.of(everyone, dual_signed), model.b, alpha)


def _with_vectors(problem: KernelProblem, vectors: Any) -> KernelProblem:
    """The samples and after them the support vectors, all of sign +."""
    if vectors is None:
        rows = problem.rows
    elif problem.rows.is_sparse:
        rows = Rows.from_matrix(sparse.vstack([problem.rows.matrix, sparse.csr_matrix(vectors)]).tocsr(), check=False)
    else:
        dense = vectors.toarray() if sparse.issparse(vectors) else vectors
        rows = Rows.from_matrix(np.concatenate([problem.rows.matrix, dense]), check=False)
    ones = np.ones(rows.n_samples)
    return KernelProblem(rows, ones, ones, problem.kernel, problem.has_offset)


@dataclass(frozen=True, eq=False)
class _Sum:
    """A vector sum_j s_j phi(x_j), its products with all phi(x_i), and how wrong those can be by rounding."""

    signed: Array
    outputs: Array
    errors: Array

    @classmethod
    def of(cls, everyone: KernelProblem, signed: Array) -> _Sum:
        support = np.flatnonzero(signed)
        return cls(signed, *outputs_of(everyone, signed, support))

    @property
    def sqnorm(self) -> float:
        return float(self.signed @ self.outputs)


def _certificate(problem: KernelProblem, w: _Sum, dual_w: _Sum, b: float, alpha: Array) -> Certificate:
    y, C, loss, n = problem.y, problem.C, problem.loss, problem.n_samples
    margins = y * (w.outputs[:n] + b)
    difference = w.signed - dual_w.signed
    sqdistance = max(0.0, float(difference @ (w.outputs - dual_w.outputs)))
    sqdistance_error = 2.0 * float(np.abs(difference) @ (w.errors + dual_w.errors))
    total = float(alpha.sum())
    imbalance = float((alpha * y).sum()) if problem.has_offset else 0.0
    slope = float(alpha @ np.abs(1.0 - y * dual_w.outputs[:n]))
    shift, fall, charge_error, move = charge(problem, alpha, slope, b, imbalance, total)
    primal = 0.5 * w.sqnorm + float(C @ loss.value(margins))
    dual = total - 0.5 * dual_w.sqnorm - fall
    gap = float(np.sum(loss.gap_terms(margins, alpha, C))) + 0.5 * sqdistance + shift + fall
    errors = w.errors[:n] + 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(margins) + abs(b))
    rounding = float(np.sum(loss.gap_sensitivity(margins, alpha, C, errors))) + charge_error
    rounding += 0.5 * sqdistance_error + gamma(PAIRWISE_ROUNDINGS) * gap
    if not np.isfinite([primal, dual, gap, rounding]).all():
        return refusal(alpha)
    return Certificate(
        primal=primal,
        dual=dual,
        gap=gap,
        relative_gap=relative(gap, primal, dual),
        rounding_error=rounding,
        distance_bound=min(
            math.sqrt(2.0 * (gap + rounding)),
            math.sqrt(gap + rounding) + 0.5 * (math.sqrt(sqdistance + sqdistance_error) + move),
        ),
        n_support=int(np.count_nonzero(w.signed)),
        n_at_bound=int(np.count_nonzero((alpha == C) & (alpha > 0.0))),
    )

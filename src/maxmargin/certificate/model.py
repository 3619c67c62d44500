r"""The judge of kernel models as they are: support vectors that need not be samples, coefficients that need not be feasible.

For :math:`w = \sum_j c_j \phi(z_j)`, any b and any feasible alpha, with :math:`f_i = \sum_j c_j k(z_j, x_i)` and margins
:math:`m_i = y_i (f_i + b)`,

.. math:: P(w, b) - D(\alpha) = \sum_i \left[ (C_i - \alpha_i) \max(0, 1 - m_i) + \alpha_i \max(0, m_i - 1) \right]
          - b \sum_i \alpha_i y_i + \tfrac12 |w - w(\alpha)|^2 .

So any model can be judged with any dual point, even if its file has rounded the support vectors. The kernel must be positive
semidefinite: otherwise the last term is no square, and the dual value bounds nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.certificate.certificate import Certificate, Counts, GapParts, assemble, refusal
from maxmargin.certificate.kernel import Balance, imbalance_of, outputs_of
from maxmargin.certificate.rounding import PAIRWISE_ROUNDINGS, gamma, vector
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF


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
        return refusal(int(np.count_nonzero(alpha)))
    with np.errstate(all="ignore"):
        everyone = with_vectors(problem, model.vectors)
        n, size = problem.n_samples, everyone.n_samples
        signed, dual_signed = np.zeros(size), np.zeros(size)
        signed[size - len(model.coefficients) :] = model.coefficients
        dual_signed[:n] = alpha * problem.signs
        return _certificate(problem, WeightedSum.of(everyone, signed), WeightedSum.of(everyone, dual_signed), model.b, alpha)


def with_vectors(problem: KernelProblem, vectors: Any) -> KernelProblem:
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
class WeightedSum:
    """A vector sum_j s_j phi(x_j), its products with all phi(x_i), and how wrong those can be by rounding."""

    signed: Array
    outputs: Array
    errors: Array

    @classmethod
    def of(cls, everyone: KernelProblem, signed: Array) -> WeightedSum:
        support = np.flatnonzero(signed)
        return cls(signed, *outputs_of(everyone, signed, support))

    @property
    def sqnorm(self) -> float:
        return float(self.signed @ self.outputs)


def _certificate(problem: KernelProblem, w: WeightedSum, dual_w: WeightedSum, b: float, alpha: Array) -> Certificate:
    sigma, C, t, loss, n = problem.signs, problem.C, problem.targets, problem.loss, problem.n_samples
    outputs = sigma * (w.outputs[:n] + b)
    difference = w.signed - dual_w.signed
    sqdistance = max(0.0, float(difference @ (w.outputs - dual_w.outputs)))
    sqdistance_error = 2.0 * float(np.abs(difference) @ (w.errors + dual_w.errors))
    errors = w.errors[:n] + 4.0 * UNIT_ROUNDOFF * (np.abs(t) + np.abs(outputs) + abs(b))
    parts = GapParts(
        primal=0.5 * w.sqnorm + float(C @ loss.value(outputs, t)),
        dual=float(np.sum(problem.box.terms(alpha))) - 0.5 * dual_w.sqnorm,
        gap=float(np.sum(loss.gap_terms(outputs, alpha, C, t))) + 0.5 * sqdistance,
        error=float(np.sum(loss.gap_sensitivity(outputs, alpha, C, errors, t))) + 0.5 * sqdistance_error,
        roundings=gamma(float(PAIRWISE_ROUNDINGS)),
        apart=math.sqrt(sqdistance + sqdistance_error) if math.isfinite(sqdistance + sqdistance_error) else math.inf,
    )
    is_at_bound = ((alpha == problem.box.U) | (alpha == problem.box.L)) & (alpha != 0.0)
    counts = Counts(int(np.count_nonzero(w.signed)), int(np.count_nonzero(is_at_bound)))
    balance = Balance.of(problem, alpha, dual_w.outputs[:n])
    return assemble(parts, imbalance_of(problem, alpha, balance, b), counts)

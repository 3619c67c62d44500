r"""The judge of the machine of Crammer and Singer.

For any W and any feasible a the gap is a sum of terms that are never negative,

.. math:: P - D = \tfrac12 |W - W(a)|^2 + \sum_i \left[ (C_i - A_i) \xi_i + \sum_{m \ne y_i} a_i^m (\xi_i - s_i^m) \right],
          \qquad s_i^m = 1 + z_i^m - z_i^{y_i} .

Where the a of a sample add up to more than C_i, they are scaled down first: the certificate is that of the scaled point."""

from __future__ import annotations

import numpy as np

from maxmargin.certificate.certificate import BALANCED, Certificate, Counts, GapParts, assemble, refusal
from maxmargin.certificate.rounding import OUTWARDS, SMALLEST, gamma
from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.problem.dual_box import UNIT_ROUNDOFF


def certify_crammer_singer(problem: CrammerSingerProblem, W: Array, b: Array) -> Certificate:
    """Judge W, one row a feature and one column a class, and the coefficients b, one row a sample."""
    W, b = _matrix(W, problem.n_weights, problem.n_classes, "W"), _matrix(b, problem.n_samples, problem.n_classes, "b")
    with np.errstate(all="ignore"):
        if not (np.isfinite(W).all() and np.isfinite(b).all() and problem.is_feasible(b)):
            return refusal(int(np.count_nonzero(np.any(b != 0.0, axis=1))))
        return _verdict(problem, W, *_feasible(problem, b))


def _feasible(problem: CrammerSingerProblem, b: Array) -> tuple[Array, Array]:
    """a with A_i <= C_i in exact arithmetic, zero for the class of each sample, and A in float64."""
    a = -b
    a[problem.own] = 0.0
    A = a.sum(axis=1) * (1.0 + gamma(problem.n_classes + 8))
    share = np.where(A > problem.C, np.divide(problem.C, A, out=np.zeros_like(A), where=A > 0.0), 1.0)
    a *= share[:, None]
    return a, a.sum(axis=1)


def _verdict(problem: CrammerSingerProblem, W: Array, a: Array, A: Array) -> Certificate:
    n, C, k = problem.n_samples, problem.C, problem.n_classes
    slacks, wrong = problem.slacks(problem.outputs(W)), _slack_errors(problem, W)
    xi = np.maximum(slacks.max(axis=1), 0.0)
    terms = np.maximum(C - A, 0.0) * xi + np.sum(a * np.maximum(xi[:, None] - slacks, 0.0), axis=1)
    coefficients = -a
    coefficients[problem.own] = A
    W_of_a = problem.weights(coefficients)
    apart = float(np.linalg.norm(W - W_of_a))
    apart_error = _weights_error(problem, coefficients) + UNIT_ROUNDOFF * float(np.linalg.norm(W))
    slacks[problem.own] = -np.inf
    may_pay = slacks.max(axis=1) > -wrong
    error = np.where(may_pay, C - A, 0.0) * wrong + 2.0 * A * wrong + (k + 8.0) * UNIT_ROUNDOFF * C * xi
    parts = GapParts(
        primal=0.5 * float(np.sum(np.square(W))) + float(C @ xi),
        dual=float(A.sum()) - 0.5 * float(np.sum(np.square(W_of_a))),
        gap=float(terms.sum()) + 0.5 * apart * apart,
        error=float(error.sum()) + (apart + apart_error) * apart_error + (n + problem.n_weights) * k * SMALLEST,
        roundings=gamma(n + problem.n_weights * k + 16),
        apart=apart + apart_error,
    )
    return assemble(parts, BALANCED, Counts.of(A, A >= C))


def _slack_errors(problem: CrammerSingerProblem, W: Array) -> Array:
    """How wrong the slacks of a sample can be: two dot products and their difference, by the greatest |w_jm| of a feature."""
    largest = np.max(np.abs(W), axis=1)
    magnitudes = np.abs(problem.rows.matrix) @ largest[: problem.rows.n_features]
    if problem.intercept_scaling:
        magnitudes = magnitudes + problem.intercept_scaling * largest[-1]
    operations = problem.rows.n_features if not problem.rows.is_sparse else np.diff(problem.rows.matrix.indptr).astype(float)
    return np.asarray((2.0 * gamma(operations + 4.0) * magnitudes + 4.0 * UNIT_ROUNDOFF * (1.0 + magnitudes)) * OUTWARDS)


def _weights_error(problem: CrammerSingerProblem, b: Array) -> float:
    """How far W(a) can be off: by roundings of its sums, and because each A_i is rounded."""
    lengths = np.sqrt(problem.rows.squared_norms(problem.intercept_scaling)) * OUTWARDS
    total = float(lengths @ np.linalg.norm(b, axis=1)) * OUTWARDS
    return gamma(problem.n_samples + problem.n_classes + 16) * total


def _matrix(values: Array, n_rows: int, n_columns: int, name: str) -> Array:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (n_rows, n_columns):
        raise ValueError(f"{name} must have the shape ({n_rows}, {n_columns}) for this problem; it has {values.shape}.")
    return values

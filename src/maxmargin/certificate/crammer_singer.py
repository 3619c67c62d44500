r"""The judge of the machine of Crammer and Singer.

For any W and any feasible a the gap is a sum of terms that are never negative,

.. math:: P - D = \tfrac12 |W - W(a)|^2 + \sum_i \left[ (C_i - A_i) \xi_i + \sum_{m \ne y_i} a_i^m (\xi_i - s_i^m) \right],
          \qquad s_i^m = 1 + z_i^m - z_i^{y_i} .

Where the a of a sample add up to more than C_i, they are scaled down first: the certificate is that of the scaled point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.certificate.certificate import BALANCED, Certificate, Counts, GapParts, assemble, refusal
from maxmargin.certificate.class_sums import ClassSums, Coefficients, plain_sums, precise_sums
from maxmargin.certificate.linear import better, is_in_doubt
from maxmargin.certificate.policy import CLASSES
from maxmargin.certificate.rounding import SMALLEST, gamma
from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.problem.dual_box import UNIT_ROUNDOFF


class JudgedWeights(NamedTuple):
    """W(a), and the certificate of both."""

    W: Array
    certificate: Certificate


def certify_crammer_singer(problem: CrammerSingerProblem, W: Array, b: Array) -> Certificate:
    """Judge W, one row a feature and one column a class, and the coefficients b, one row a sample."""
    W, b = _matrix(W, problem.n_weights, problem.n_classes, "W"), _matrix(b, problem.n_samples, problem.n_classes, "b")
    with np.errstate(all="ignore"):
        found = _feasible(problem, b)
        if found is None or not np.isfinite(W).all():
            return refusal(int(np.count_nonzero(np.any(b != 0.0, axis=1))))
        return _judged(problem, W, _weights(problem, found), found)


def certify_coefficients(problem: CrammerSingerProblem, b: Array) -> JudgedWeights:
    """Judge the coefficients b with the W that they make. It is computed once, where ``certify_crammer_singer`` would be given
    it and compute it again."""
    b = _matrix(b, problem.n_samples, problem.n_classes, "b")
    with np.errstate(all="ignore"):
        found = _feasible(problem, b)
        if found is None:
            zero = np.zeros((problem.n_weights, problem.n_classes))
            return JudgedWeights(zero, certify_crammer_singer(problem, zero, b))
        W = _weights(problem, found)
        return JudgedWeights(W, _judged(problem, W, W, found))


def _feasible(problem: CrammerSingerProblem, b: Array) -> Coefficients | None:
    """a, where a row of b that adds up to more than C_i only by rounding is scaled down; None where b is not feasible."""
    if not np.isfinite(b).all():
        return None
    a = -b
    a[problem.own] = 0.0
    A = a.sum(axis=1)
    if not (a.min() >= 0.0 and np.all(A <= problem.C * (1.0 + 1e-9))):
        return None
    A *= 1.0 + gamma(problem.n_classes + 8)
    above = np.flatnonzero(A > problem.C)
    a[above] *= (problem.C[above] / A[above])[:, None]
    return Coefficients(a, a.sum(axis=1))


def _weights(problem: CrammerSingerProblem, found: Coefficients) -> Array:
    """W(a)"""
    b = -found.a
    b[problem.own] = found.A
    return problem.weights(b)


def _judged(problem: CrammerSingerProblem, W: Array, W_of_a: Array, found: Coefficients) -> Certificate:
    """Judge W and a, with precise sums where rounding matters. ``W_of_a`` may be W itself."""
    quick = _verdict(problem, W, plain_sums(problem, W, W_of_a, found), found)
    if not is_in_doubt(quick):
        return quick
    return better(quick, _verdict(problem, W, precise_sums(problem, W, found), found))


def _verdict(problem: CrammerSingerProblem, W: Array, sums: ClassSums, found: Coefficients) -> Certificate:
    n, C, k, A = problem.n_samples, problem.C, problem.n_classes, found.A
    greatest, unpaid = _slacks(problem, sums.outputs, found.a)
    xi, wrong, (apart, apart_error) = np.maximum(greatest, 0.0), sums.wrong, sums[3:]
    terms = np.maximum(C - A, 0.0) * xi + unpaid
    error = np.where(greatest > -wrong, C - A, 0.0) * wrong + 2.0 * A * wrong + (k + 8.0) * UNIT_ROUNDOFF * C * xi
    parts = GapParts(
        primal=0.5 * float(np.vdot(W, W)) + float(C @ xi),
        dual=float(A.sum()) - 0.5 * sums.sqnorm,
        gap=float(terms.sum()) + 0.5 * apart * apart,
        error=float(error.sum()) + (apart + apart_error) * apart_error + (n + problem.n_weights) * k * SMALLEST,
        roundings=gamma(n + problem.n_weights * k + 16),
        apart=apart + apart_error,
    )
    return assemble(parts, BALANCED, Counts.of(A, A >= C))


def _slacks(problem: CrammerSingerProblem, z: Array, a: Array) -> tuple[Array, Array]:
    """The greatest slack of each sample among the classes that are not its own, and sum_m a_i^m (xi_i - s_i^m). Few samples
    are taken at a time, so that their numbers stay in the caches. The outputs z are used up."""
    step = max(1, CLASSES.outputs_a_block // problem.n_classes)
    greatest, unpaid = np.empty(len(z)), np.empty(len(z))
    for start in range(0, len(z), step):
        block = slice(start, start + step)
        part, own = z[block], (np.arange(len(z[block])), problem.y[block])
        part += (1.0 - part[own])[:, None]
        part[own] = -np.inf
        greatest[block] = part.max(axis=1)
        part[own] = 0.0
        np.subtract(np.maximum(greatest[block], 0.0)[:, None], part, out=part)
        unpaid[block] = np.einsum("ij,ij->i", a[block], part)
    return greatest, unpaid


def _matrix(values: Array, n_rows: int, n_columns: int, name: str) -> Array:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (n_rows, n_columns):
        raise ValueError(f"{name} must have the shape ({n_rows}, {n_columns}) for this problem; it has {values.shape}.")
    return values

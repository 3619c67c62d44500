"""An alpha that is feasible in spite of its rounding, for columns that are large beside 1 / C.

The dual of the L1 penalty asks for |v_j| <= 1 with v = X's. Where C times a column is above 1e9 or so, the terms of v_j cancel
to one part in 1e14: the rounding of alpha alone moves v_j by some thousandths. Alpha scaled until |v_j| <= 1 would cost as many
thousandths of the dual value. A change of alpha by a few roundings costs nothing, and brings every v_j inside."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy


def mended(problem: LinearProblem, chosen: Array, columns: Array, alpha: Array, policy: SparseNewtonPolicy) -> Array | None:
    """``columns`` are the chosen ones, dense: those that can be near their limits. None where rounding hides too much."""
    signed = alpha * problem.signs
    noise = UNIT_ROUNDOFF * np.sqrt(np.square(columns).T @ np.square(signed))
    limits = np.where(chosen < problem.n_penalised, 1.0 - policy.mend_margin * noise, 0.0)
    if float(np.min(limits[chosen < problem.n_penalised], initial=1.0)) < policy.least_limit:
        return None
    weights = alpha / max(float(np.max(alpha, initial=0.0)), 1e-300)
    exact = columns.astype(np.longdouble).T
    for _ in range(policy.most_mendings):
        v = np.asarray(exact @ signed.astype(np.longdouble), dtype=np.float64)
        above = np.sign(v) * np.maximum(0.0, np.abs(v) - limits)
        if np.all(np.abs(above) <= noise):
            return np.asarray(_balanced(problem, signed) * problem.signs)
        near = np.flatnonzero(np.abs(v) >= 2.0 * limits - 1.0)
        signed = signed - _least_change(columns[:, near], weights, above[near])
        signed = np.where(signed * problem.signs > 0.0, signed, 0.0)
    return None


def _least_change(columns: Array, weights: Array, above: Array) -> Array:
    """The change of s with X'change = above that is least in relation to the weights."""
    scaled = columns * weights[:, None]
    lengths = np.maximum(np.linalg.norm(scaled, axis=0), 1e-300)
    return np.asarray(weights * np.linalg.lstsq((scaled / lengths).T, above / lengths, rcond=1e-10)[0])


def _balanced(problem: LinearProblem, signed: Array) -> Array:
    """For a free intercept the sum of s is zero without any rounding: the sample of least alpha takes what is left, which is
    exact where that alpha is zero."""
    if problem.penalizes_intercept:
        return signed
    rest = math.fsum(signed.tolist())
    takers = np.flatnonzero(problem.signs * rest < 0.0)
    if len(takers):
        signed[takers[np.argmin(np.abs(signed[takers]))]] -= rest
    return signed

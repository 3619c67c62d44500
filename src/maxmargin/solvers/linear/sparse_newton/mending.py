"""An alpha that is feasible in spite of its rounding, for columns that are large beside 1 / C.

The dual of the L1 penalty asks for |v_j| <= 1 with v = X's. Where C times a column is above 1e9 or so, the terms of v_j cancel
to one part in 1e14: the rounding of alpha alone moves v_j by some thousandths. Alpha scaled until |v_j| <= 1 would cost as many
thousandths of the dual value. A change of alpha by a few roundings costs nothing, and brings every v_j inside. Where the
rounding of alpha moves v_j by more than its limit, some alphas that are zero get tiny values (``level_mending.py``)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array, Rows
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.column_mending import DEFAULT as COLUMNS
from maxmargin.solvers.linear.column_mending import ColumnMending
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


@dataclass(frozen=True, eq=False)
class LimitMending(ColumnMending):
    """Here ``w`` holds the v that is wanted, and a v_j that is wrong by a little costs that share of the dual value."""

    @property
    def _negligible_cost(self) -> float:
        return SparseNewtonPolicy.negligible_excess**2


class Mended(NamedTuple):
    """alpha, and its v, each element of which is wrong by at most ``errors``."""

    alpha: Array
    v: Array
    errors: Array

    @property
    def greatest(self) -> float:
        """A bound on every |v_j|."""
        return float((np.abs(self.v) + self.errors).max())


def mended_in_levels(problem: LinearProblem, w: Array, alpha: Array) -> Mended | None:
    """alpha with every v_j within its limit; in an elastic net, with v_j = l1 sign(w_j) + l2 w_j where w_j is not zero. None
    where there are not more samples than features, or too many elements."""
    n, d, penalty, policy = problem.n_samples, problem.n_weights, problem.penalty, SparseNewtonPolicy
    if not d < n or n * d > COLUMNS.most_elements:
        return None
    limits = np.full(d, (1.0 - policy.inside_limit) * penalty.l1)
    limits[problem.n_penalised :] = 0.0
    best = None
    with np.errstate(all="ignore"):
        v, columns = problem.precise_weights(alpha)[:d], _with_constant_column(problem)
        for _ in range(policy.most_limits):
            wanted = np.clip(v, -limits, limits)
            if penalty.l2 > 0.0:
                wanted = np.where((w != 0.0) & (limits > 0.0), limits * np.sign(w) + penalty.l2 * w, wanted)
            mending = LimitMending(wanted, alpha, linear=columns)
            mended = _balanced(problem, mending.best() * problem.signs) * problem.signs
            found = Mended(mended, wanted, mending.missing(mended))
            best = found if best is None or found.greatest < best.greatest else best
            if penalty.l2 > 0.0 or best.greatest <= penalty.l1:
                break
            limits = np.maximum(0.0, limits - 2.0 * found.errors)
        return best


def _with_constant_column(problem: LinearProblem) -> LinearProblem:
    """The problem with the feature of a penalised intercept as a column like others: there are no two equations for what sum_i
    s_i and the centred columns are to be, of which only one sum counts."""
    if not (problem.penalizes_intercept and problem.intercept_scaling):
        return problem
    X = problem.rows.dense()
    rows = Rows(np.column_stack([X, np.full(len(X), problem.intercept_scaling)]))
    return replace(problem, rows=rows, intercept_scaling=0.0)


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

"""Columns whose numbers use up the digits of alpha: account numbers, nanoseconds since 1970.

One unit in the last place of an alpha, times such a number, may move w(alpha) by more than an output. The certificate bounds
the weight of such a column by other means (``maxmargin.certificate.weight_bounds``), so that the solver need not get that
element of w(alpha) right. It only has to know beforehand what the certificate will let pass. Nothing is proved here."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.certificate import policy as judge_policy
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF, summed
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.newton import policy


def expected_reaches(problem: LinearProblem, columns: Array, unit: float) -> Array | None:
    """How far the certificate is expected to let single weights be from the optimum: some units of output over the deviation of
    a column, where the last digits of alpha cost something in that column, and else infinity; None where that is so of all.
    ``columns`` are those of X, and ``unit`` is the size of the targets."""
    limit = _size_that_costs(judge_policy.WEIGHTS.wide_scale, problem, unit)
    if summed(problem.C) * problem.rows.greatest <= limit or not problem.has_exact_rows:
        return None
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        reaches = policy.WIDE.reach * unit / problem.rows.dense().std(axis=0, dtype=np.float64)
        is_wide = np.abs(columns) @ problem.C > limit
    return np.where(is_wide & (reaches > 0.0), reaches, np.inf)


def costly_columns(problem: LinearProblem, share: float) -> Array:
    """The columns in which the last digits of alpha may cost more than this share of the objective, where the certificate can
    do without them: as indices."""
    if not _may_cost(problem, share):
        return np.empty(0, np.intp)
    return np.flatnonzero(problem.C @ np.abs(problem.rows.dense()) > _size_that_costs(share, problem, _unit(problem)))


def hides_the_objective(problem: LinearProblem) -> bool:
    """Whether the last digits of alpha cost far more than the objective, and the certificate can do without them."""
    return _may_cost(problem, policy.WIDE.hopeless)


def _may_cost(problem: LinearProblem, share: float) -> bool:
    if problem.rows.is_sparse or problem.offset_prices is not None or not problem.has_exact_rows:
        return False
    with np.errstate(over="ignore"):
        total, greatest = summed(problem.C), problem.rows.greatest
        has_squares = bool(np.isfinite(np.square(total) * np.square(greatest)))
        return has_squares and total * greatest > _size_that_costs(share, problem, _unit(problem))


def noise_of_weights(problem: LinearProblem, w: Array, alpha: Array, rate: float, roundings: float) -> Array:
    """What rounding can make of each element of w(alpha): of alpha, and of the margins that alpha was computed from. ``rate``
    is the change of all alpha together for each unit of the margins, ``roundings`` the policy's ``alpha_roundings``."""
    sizes = np.append(problem.rows.column_magnitudes(), problem.intercept_scaling)[: len(w)]
    total = float(np.sum(np.abs(alpha))) + rate * float(np.abs(w) @ sizes)
    return roundings * 2.0 * UNIT_ROUNDOFF * total * sizes


def _unit(problem: LinearProblem) -> float:
    """The size of the targets."""
    return float(np.mean(np.abs(problem.targets))) if problem.loss.is_regression else 1.0


def _size_that_costs(share: float, problem: LinearProblem, unit: float) -> float:
    """The sum of C_i |x_ij| whose rounding costs this share of the objective, which is at most about the sum of C_i."""
    return math.sqrt(2.0 * share * summed(problem.C) * unit) / UNIT_ROUNDOFF

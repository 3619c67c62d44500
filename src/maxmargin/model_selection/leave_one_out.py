r"""The exact leave-one-out error: from one fit, and from short refits where the fit does not decide.

Without sample i the optimum is in a ball around :math:`\tfrac12 (w + v')` with :math:`v' = v - \alpha_i \sigma_i x_i` (see
:mod:`maxmargin.model_selection.transfer`). With :math:`q_i = |x_i|^2` and the margins m of w and :math:`m^v` of v, the margin
of sample i at that optimum is within

.. math:: \tfrac12 (m_i + m_i^v - \alpha_i q_i) \pm \sqrt{q_i} \, \sqrt{T - t_i + \tfrac14 |w - v'|^2} .

At an exact optimum this is :math:`[m_i - \alpha_i q_i, \, m_i]`, the bound of T. Jaakkola and D. Haussler, "Probabilistic
kernel regression models", 1999. A sample whose interval has one sign is decided. The others are left out one after the other:
a refit starts from the alpha of the fit, and ends as soon as the certificate proves the sign.

A free offset: for a sample with alpha_i = 0 nothing changes but the level of the quantile that b is, by at most 2 C_i. The
others are moved one by one where the model is linear (``Fit.without``).

Kernels: support vectors that are still open are left out by a walk from the fit (:mod:`maxmargin.model_selection.removal`).
What no walk decides is refitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.ellipsoid import enclose
from maxmargin.certificate.predictions import linear_values
from maxmargin.certificate.rounding import OUTWARDS, SMALLEST, gamma
from maxmargin.data.rows import Array
from maxmargin.model_selection import policy
from maxmargin.model_selection.path import fit_of, prepared
from maxmargin.model_selection.removal import Removals, decided_by_own_margin
from maxmargin.model_selection.sparse_fits import refuse_kinks
from maxmargin.model_selection.transfer import (
    Fit,
    Problem,
    has_free_offset,
    point_outputs,
    scaled_costs,
    with_costs,
)
from maxmargin.model_selection.whole_fits import solve_whole
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.solution import Solution


class Range(NamedTuple):
    """The least and the greatest margin that each sample can have when it is left out."""

    low: Array
    high: Array

    @property
    def is_decided(self) -> Array:
        """Whether the margin has one sign. Zero is an error."""
        return np.asarray((self.low > 0.0) | (self.high <= 0.0))


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Masks with one entry for each sample. ``is_proved`` is false where not even the refit could prove the sign of the margin;
    the label is then that of the refit. A margin of zero is an error. ``was_stepped`` are the samples that one fit did not
    decide, and a walk from it did; ``was_refitted`` those that took a solve of their own."""

    is_wrong: Array
    is_proved: Array
    was_stepped: Array
    was_refitted: Array
    solution: Solution

    @property
    def n_errors(self) -> int:
        return int(np.count_nonzero(self.is_wrong))

    @property
    def error(self) -> float:
        return self.n_errors / len(self.is_wrong)

    @property
    def error_bounds(self) -> tuple[float, float]:
        """The least and the greatest error of the exact optima; equal where all labels are proved."""
        n, n_open = len(self.is_wrong), int(np.count_nonzero(~self.is_proved))
        surely = int(np.count_nonzero(self.is_wrong & self.is_proved))
        return surely / n, (surely + n_open) / n

    def __repr__(self) -> str:
        n, n_open = len(self.is_wrong), int(np.count_nonzero(self.was_stepped | self.was_refitted))
        low, high = self.error_bounds
        proved = "proved" if low == high else f"proved between {low:.4g} and {high:.4g}"
        return f"LeaveOneOut(error {self.error:.4g}, {proved}; {n - n_open} of {n} samples decided by one fit)"


def leave_one_out(
    model: Any, X: Any = None, y: Any = None, *, sample_weight: Any = None, tol: float = 1e-8, solver: Any = "auto"
) -> LeaveOneOut:
    """The error on every sample of the model that is trained on all others.

    Parameters
    ----------
    model : LinearProblem, KernelProblem, LinearSVC or SVC
        Of two classes. An estimator needs X and y, and is used with its own C.
    tol : float, default 1e-8
        The relative gap of the first fit. The smaller it is, the more samples are decided without a refit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> import maxmargin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> loo = maxmargin.leave_one_out(maxmargin.LinearSVC(), StandardScaler().fit_transform(X)[:100], y[:100])
    >>> bool(loo.is_proved.all())
    True
    """
    problem = prepared(model if isinstance(model, Problem) else _problem_of(model, X, y, sample_weight))
    refuse_kinks(problem, "leave_one_out")
    if problem.loss.is_regression:
        raise ValueError("leave_one_out counts wrong labels: it takes a problem of two classes.")
    solution = solve_whole(problem, solver, tol)
    fit = fit_of(problem, solution, 1.0)
    ranges = _offset_ranges(fit) if has_free_offset(problem) else _closed_ranges(fit)
    if isinstance(problem, LinearProblem):
        ranges = _within_ellipsoid(problem, solution, ranges)
    was_moved = ~ranges.is_decided
    if isinstance(problem, KernelProblem):
        ranges = _walks_without(fit, ranges)
    is_wrong, is_proved = ranges.high <= 0.0, ranges.is_decided
    was_refitted = ~is_proved
    for i in np.flatnonzero(was_refitted):
        is_wrong[i], is_proved[i] = _refitted(fit, int(i), solver)
    return LeaveOneOut(is_wrong, is_proved, was_moved & ~was_refitted, was_refitted, solution)


def _problem_of(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Problem:
    if not hasattr(estimator, "binary_problem"):
        raise TypeError(f"leave_one_out takes a LinearProblem, a KernelProblem, a LinearSVC or an SVC; got {estimator!r}.")
    if X is None or y is None:
        raise ValueError("leave_one_out needs X and y with an estimator.")
    problem: Problem = estimator.binary_problem(X, y, sample_weight)
    return with_costs(problem, scaled_costs(problem.C, float(estimator.C)))


def _closed_ranges(fit: Fit) -> Range:
    """The ranges without a free offset, for all samples at once."""
    problem, alpha, lengths = fit.problem, fit.alpha, fit.lengths
    of_v, error = point_outputs(problem, fit.v, lengths)
    m, m_v = fit.outputs, problem.signs * of_v
    q_low = np.square(lengths) * (1.0 - 64.0 * UNIT_ROUNDOFF) - _length_slack(problem)
    left = _terms_left(fit)
    apart = fit.apart(1.0)
    # |w - v'| = |w - v + alpha x|, and its square is a sum of three terms
    change = 2.0 * np.abs(alpha) * (np.abs(m - m_v) + fit.output_errors + error)
    squared = apart**2 + change + np.square(alpha * lengths)
    radius = np.sqrt(left + 0.25 * squared) * OUTWARDS + 0.5 * fit.v.error
    middle = 0.5 * (m + m_v)
    rounding = fit.output_errors + error + 16.0 * UNIT_ROUNDOFF * (np.abs(m) + np.abs(m_v) + alpha * np.square(lengths))
    reach = radius * lengths * OUTWARDS + rounding
    return Range(middle - 0.5 * alpha * np.square(lengths) - reach, middle - 0.5 * alpha * q_low + reach)


def _length_slack(problem: Problem) -> Array | float:
    """By how much the squared length can be too great, besides its last digits."""
    if isinstance(problem, KernelProblem):
        return 2.0 * problem.kernel.rounding_error(problem.points, problem.points)
    return gamma(problem.rows.n_features + 32.0) * problem.rows.squared_norms(problem.intercept_scaling)


def _terms_left(fit: Fit) -> Array:
    """T - t_i at most, for each sample."""
    problem, t = fit.problem, fit.problem.targets
    own = problem.loss.gap_terms(fit.outputs, fit.alpha, problem.C, t)
    doubt = problem.loss.gap_sensitivity(fit.outputs, fit.alpha, problem.C, fit.output_errors, t)
    own = np.maximum(0.0, own * (1.0 - 64.0 * UNIT_ROUNDOFF) - doubt)
    return np.maximum(0.0, fit.terms - own) + 4.0 * UNIT_ROUNDOFF * fit.terms


def _offset_ranges(fit: Fit) -> Range:
    """The ranges with a free offset. Samples that cannot be moved at a bearable price stay open."""
    problem, n = fit.problem, fit.problem.n_samples
    low, high = np.full(n, -math.inf), np.full(n, math.inf)
    idle = np.flatnonzero(fit.alpha == 0.0)
    if len(idle):
        low[idle], high[idle] = _idle_range(fit, idle)
    if isinstance(problem, LinearProblem):
        for i in np.flatnonzero(fit.alpha):
            low[i], high[i] = _moved_range(fit, int(i))
    else:
        high = np.minimum(high, decided_by_own_margin(fit))
    return Range(low, high)


def _within_ellipsoid(problem: LinearProblem, solution: Solution, ranges: Range) -> Range:
    """The ranges of open samples by the ellipsoid of the fit, which raw columns are in need of. Without a sample whose alpha is
    zero it holds as well, with a gap that is no greater. Without any other sample its margin is no greater than with it, if the
    loss falls up to the margin one and stays zero."""
    samples = np.flatnonzero(~ranges.is_decided)
    found = enclose(problem, solution.w, solution.alpha, solution.certificate) if len(samples) else None
    if found is None:
        return ranges
    rows, b = problem.rows.matrix[samples], np.array([solution.b])
    outputs = linear_values(rows, solution.w[None, : problem.rows.n_features], b)
    margins = problem.signs[samples] * outputs.values[:, 0]
    reach = (found.reach(rows) + outputs.errors[:, 0]) * OUTWARDS
    is_idle = solution.alpha[samples] == 0.0
    ranges.low[samples] = np.where(is_idle, np.maximum(ranges.low[samples], margins - reach), ranges.low[samples])
    stays_zero = float(problem.loss.slope(np.array([2.0]), np.array([1.0]))[0]) == 0.0
    ranges.high[samples] = np.where(
        is_idle | stays_zero, np.minimum(ranges.high[samples], margins + reach), ranges.high[samples]
    )
    return ranges


def _walks_without(fit: Fit, ranges: Range) -> Range:
    """The ranges after the open support vectors of a kernel machine are left out one by one."""
    candidates = np.flatnonzero(~ranges.is_decided & (fit.alpha > 0.0))
    found = Removals(fit).signs(candidates)
    ranges.low[candidates[found > 0]] = SMALLEST
    ranges.high[candidates[found < 0]] = 0.0
    return ranges


def _idle_range(fit: Fit, idle: Array) -> tuple[Array, Array]:
    """The range of samples with alpha_i = 0: the ball of the fit holds for each of the problems without one of them."""
    problem = fit.problem
    ball = fit.ball_at(fit.C)
    outputs, errors = point_outputs(problem, ball.centre, fit.lengths)
    offsets = fit.offsets_without(ball, outputs, errors, float(problem.C[idle].max()))
    reach = (ball.radius * fit.lengths + errors) * OUTWARDS
    ends = np.sort(problem.signs * np.stack([outputs - reach + offsets.low, outputs + reach + offsets.high]), axis=0)
    slack = 8.0 * UNIT_ROUNDOFF * np.abs(ends)
    low, high = ends[0] - slack[0], ends[1] + slack[1]
    return low[idle], high[idle]


def _moved_range(fit: Fit, i: int) -> tuple[float, float]:
    fewer = fit.without(np.array([i]))
    if not _has_both_classes(fewer):
        return -math.inf, math.inf
    ball = fewer.ball_at(fit.C)
    outputs, errors = point_outputs(fewer.problem, ball.centre, fit.lengths)
    offsets = fewer.offsets_in(ball, fit.C)
    reach = (ball.radius * fit.lengths[i] + errors[i]) * OUTWARDS
    sign = float(fit.problem.signs[i])
    low, high = sorted((sign * (outputs[i] - reach + offsets.low), sign * (outputs[i] + reach + offsets.high)))
    return low - 8.0 * UNIT_ROUNDOFF * abs(low), high + 8.0 * UNIT_ROUNDOFF * abs(high)


def _has_both_classes(fit: Fit) -> bool:
    present = fit.problem.signs[fit.problem.C > 0.0]
    return bool((present > 0).any() and (present < 0).any())


def _refitted(fit: Fit, i: int, solver: Any) -> tuple[bool, bool]:
    """Whether sample i is wrong when it is left out, and whether that is proved."""
    costs = np.array(fit.problem.C)
    costs[i] = 0.0
    problem = with_costs(fit.problem, costs)
    start = fit.alpha.copy()
    start[i] = 0.0
    margin, reached = 0.0, math.inf
    for tol in policy.LEAVE_ONE_OUT.tolerances:
        if reached <= tol:
            continue  # the last refit was as good as this one would be
        solution = solve_whole(problem, solver, tol, start)
        margin, error = _margin(problem, solution, i)
        if abs(margin) > (_reach(problem, solution, fit, i) + error) * OUTWARDS:
            return margin <= 0.0, True
        if not solution.status.is_as_asked:
            break  # rounding ends the refit, and would end the next one
        start, reached = solution.alpha, solution.certificate.relative_gap
    return margin <= 0.0, False


def _reach(problem: Problem, solution: Solution, fit: Fit, i: int) -> float:
    """How far the output of sample i can be from that of the exact optimum: by the ball, or by the ellipsoid, which raw columns
    are in need of."""
    by_ball = solution.certificate.distance_bound * fit.lengths[i] + solution.offset_bound
    if isinstance(problem, KernelProblem) or abs(_margin(problem, solution, i)[0]) > by_ball:
        return float(by_ball)
    ellipsoid = enclose(problem, solution.w, solution.alpha, solution.certificate)
    if ellipsoid is None:
        return float(by_ball)
    return float(min(by_ball, ellipsoid.reach(problem.rows.matrix[[i]])[0]))


def _margin(problem: Problem, solution: Solution, i: int) -> tuple[float, float]:
    """The margin of sample i, with the offset, and how wrong it can be."""
    sign = float(problem.signs[i])
    if isinstance(problem, LinearProblem):
        row = problem.rows.matrix[[i]]
        row = np.asarray(row.todense() if problem.rows.is_sparse else row, dtype=np.float64).ravel()
        w = solution.w[: len(row)]
        scale = float(np.abs(row) @ np.abs(w)) + abs(solution.b)
        return sign * (float(row @ w) + solution.b), gamma(len(row) + 8.0) * scale
    support = np.flatnonzero(solution.alpha)
    s = (solution.alpha * problem.signs)[support]
    values = problem.gram(np.array([i]), support)[0]
    error = problem.kernel.rounding_error(problem.points, problem.points) * float(np.abs(s).sum())
    scale = float(np.abs(values) @ np.abs(s)) + abs(solution.b)
    return sign * (float(values @ s) + solution.b), error + gamma(len(support) + 8.0) * scale

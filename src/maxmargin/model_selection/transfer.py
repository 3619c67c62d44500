r"""Move a proof: what one fit says about the optimum at another C, two fits about every C between them, and a fit about the
problem without some of its samples.

**A fit** is any w and b with any feasible :math:`\alpha`; it need not be optimal. The costs are :math:`C_i = C c_i`, in which
only the number C changes. Write :math:`v = w(\alpha)`, and T for the sum of the samples' gap terms. The duality gap is

.. math:: \text{gap} = T + \tfrac12 |w - v|^2 .

**The ball.** Primal and dual are strongly convex, so that the gap is at least
:math:`\tfrac12 |w - w^*|^2 + \tfrac12 |v - w^*|^2`. That sum is :math:`|w^* - \tfrac12 (w + v)|^2 + \tfrac14 |w - v|^2`, hence

.. math:: |w^* - \tfrac12 (w + v)|^2 \le \text{gap} - \tfrac14 |w - v|^2 = T + \tfrac14 |w - v|^2 .

**At another C'**, with :math:`\rho = C' / C`: the point :math:`\rho \alpha` is feasible there, and every gap term is rho times
the old one, because each loss is :math:`C \ell`. So T becomes rho T, v becomes rho v, and w stays.

**Between two fits**, at :math:`C_\theta = (1 - \theta) C_1 + \theta C_2`: the same mixtures of w, b and alpha are feasible. The
loss is convex, and so is :math:`(\alpha, C) \mapsto C \ell^*(-\alpha / C)`. With the sums of losses
:math:`L = \sum_i c_i \ell_i`,

.. math:: \text{gap}_\theta \le (1 - \theta) \text{gap}_1 + \theta \, \text{gap}_2
          + \theta (1 - \theta) \left[ (C_2 - C_1)(L_1 - L_2) - \tfrac12 |w_2 - w_1|^2 - \tfrac12 |v_2 - v_1|^2 \right] .

The bound is a parabola in theta, and no pass over the data is needed to draw it. For hinge loss
:mod:`maxmargin.model_selection.hinge_pieces` computes the gap itself.

**Without some samples**: their alpha and their costs become zero, and the other samples keep theirs. If the offset is free,
alpha is balanced again.

**A free offset.** The ball bounds each training output, and the outputs bound b*
(:func:`maxmargin.certificate.intercept.offsets_within`).

The ball at another C is in Shibagaki et al., NeurIPS 2015 (arXiv 1502.02344). One sample left out of an exact optimum is in
T. Jaakkola and D. Haussler, 1999. All bounds here allow for rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from maxmargin.certificate.intercept import offsets_within
from maxmargin.certificate.kernel import outputs_of
from maxmargin.certificate.kernel_sums import KernelSums
from maxmargin.certificate.predictions import norms
from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, SMALLEST, gamma
from maxmargin.data.rows import Array
from maxmargin.model_selection import policy
from maxmargin.model_selection.points import Expansion, Point, Weights, long_rounding
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.offset import Interval, excess_of, offset_interval

Problem = LinearProblem | KernelProblem
AnyProblem = TypeVar("AnyProblem", bound=Problem)

SHARED = ("compiled_rows", "regulariser", "signs", "points", "diagonal", "held", "targets")
"""The attributes that a problem computes once and that do not depend on its costs."""

NO_OFFSET = Interval(0.0, 0.0)


def with_costs(problem: AnyProblem, C: Array) -> AnyProblem:
    """Return the problem with other costs. It shares X, and whatever was computed from X."""
    other = replace(problem, C=C)
    other.__dict__.update({name: problem.__dict__[name] for name in SHARED if name in problem.__dict__})
    return other


def scaled_costs(C: Array, factor: float) -> Array:
    """Multiply the costs. Costs that are one number for all samples stay one number."""
    return np.broadcast_to(C[:1] * factor, C.shape) if C.strides == (0,) else C * factor


class Ball(NamedTuple):
    """A ball that holds the optimal w. Its centre is the sum of the ``parts``: factors times points."""

    parts: tuple[tuple[float, Point], ...]
    radius: float

    @property
    def centre(self) -> Point:
        total: Point | None = None
        for factor, point in self.parts:
            total = point.scaled(factor) if total is None else total.mixed(1.0, point, factor)  # type: ignore[arg-type]
        assert total is not None
        return total

    @classmethod
    def of(cls, parts: tuple[tuple[float, Point], ...], squared_radius: float) -> Ball:
        """Make the ball, and widen it by the distance of the computed centre from the exact one."""
        away = sum(abs(factor) * (point.error + 8.0 * UNIT_ROUNDOFF * point.greatest_norm) for factor, point in parts)
        return cls(parts, math.sqrt(max(0.0, squared_radius)) * OUTWARDS + away)


@dataclass(frozen=True, eq=False)
class Fit:
    """Any w and b, and any feasible alpha, at the number C of the costs.

    ``outputs`` are the arguments of the losses: the margins, where there are two classes. ``terms`` is T, with a bound on its
    rounding added. ``loss`` is the sum of c_i loss_i. ``lengths`` are the norms of the rows."""

    problem: Problem
    C: float
    w: Point
    v: Point
    b: float
    alpha: Array
    outputs: Array
    output_errors: Array
    terms: float
    charge: float
    """The part of ``terms`` that pays for a sum of alpha_i sigma_i that should be zero and is not."""
    loss: float
    loss_error: float
    lengths: Array

    @cached_property
    def gap(self) -> float:
        return self.gap_at(self.C)

    def apart(self, rho: float) -> float:
        """Return an upper bound on |w - rho v|."""
        return self.w.mixed(1.0, self.v, -rho).greatest_norm  # type: ignore[arg-type]

    def gap_at(self, C: float) -> float:
        """Bound the gap of w and rho alpha at another C."""
        rho = C / self.C
        return (rho * self.terms + 0.5 * self.apart(rho) ** 2) * OUTWARDS

    def ball_at(self, C: float) -> Ball:
        rho = C / self.C
        return Ball.of(((0.5, self.w), (0.5 * rho, self.v)), rho * self.terms + 0.25 * self.apart(rho) ** 2)

    def offsets_at(self, C: float) -> Interval:
        """Return an interval that holds every optimal b at C."""
        return self.offsets_in(self.ball_at(C), C)

    def offsets_in(self, ball: Ball, C: float) -> Interval:
        """Return an interval that holds every optimal b at C, if the optimal w is in the ball."""
        if not has_free_offset(self.problem):
            return NO_OFFSET
        problem = with_costs(self.problem, scaled_costs(self.problem.C, C / self.C))
        outputs, errors = point_outputs(problem, ball.centre, self.lengths)
        return offsets_within(problem, outputs, ball.radius * self.lengths * OUTWARDS + errors, self.b)

    def offsets_without(self, ball: Ball, outputs: Array, errors: Array, cost: float) -> Interval:
        """Return an interval that holds every optimal b of every problem that leaves out one sample, of at most ``cost``.

        The optimal w of each of these problems must be in the ball, whose centre has these outputs. For a piecewise linear
        loss the level of the quantile, and the sum of costs up to any kink, change by no more than ``cost``. For other losses
        the interval is infinite."""
        if self.problem.loss.is_smooth:
            return Interval(-math.inf, math.inf)
        problem = self.problem
        kinks = problem.y - outputs
        reach = ball.radius * self.lengths * OUTWARDS + errors + 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(outputs))
        level = float(problem.C[problem.y > 0].sum())
        return offset_interval(kinks, problem.C, level, reach, 2.0 * cost * OUTWARDS)

    def without(self, samples: Array) -> Fit:
        """Take the same w and b as an answer to the problem without these samples."""
        C = np.array(self.problem.C)
        alpha = self.alpha.copy()
        C[samples], alpha[samples] = 0.0, 0.0
        problem = with_costs(self.problem, C)
        if has_free_offset(problem):
            alpha = _balanced(problem, alpha)
        v = _dual_point(problem, alpha, self.lengths)
        return _fit(problem, self.C, self.w, v, self.b, alpha, KernelSums(self.outputs, self.output_errors), self.lengths)


def linear_fit(problem: LinearProblem, w: Array, alpha: Array, C: float = 1.0, lengths: Array | None = None) -> Fit:
    """Make a fit of any w and any alpha in its box, in at most three passes over X.

    The costs are multiples of the number ``C``. ``lengths`` are the norms of the rows (:func:`row_lengths`), if they are
    known."""
    lengths = row_lengths(problem) if lengths is None else lengths
    alpha = problem.balanced(alpha) if has_free_offset(problem) else alpha
    b = float(w[-1]) * problem.intercept_scaling if has_free_offset(problem) else 0.0
    with np.errstate(all="ignore"):
        outputs = KernelSums(problem.margins(w), _rounding(problem, float(np.linalg.norm(w)), lengths, b))
        v = _dual_point(problem, alpha, lengths)
        return _fit(problem, C, Weights(np.asarray(w[: problem.n_penalised])), v, b, alpha, outputs, lengths)


def kernel_fit(problem: KernelProblem, alpha: Array, b: float, C: float = 1.0) -> Fit:
    """Make a fit of any feasible alpha and any b; w is w(alpha). The kernel rows of the support vectors are computed again."""
    if not problem.kernel.is_positive_semidefinite:
        raise ValueError("A kernel that is not positive semidefinite has no dual bound, so that no proof can be moved.")
    lengths = row_lengths(problem)
    alpha = problem.nearest_feasible(alpha)
    v = _dual_point(problem, alpha, lengths)
    assert isinstance(v, Expansion)
    outputs = problem.signs * (v.outputs + b)
    errors = v.output_errors + 4.0 * UNIT_ROUNDOFF * (np.abs(v.outputs) + abs(b))
    return _fit(problem, C, v._replace(error=0.0), v, b, alpha, KernelSums(outputs, errors), lengths)


def dual_expansion(problem: KernelProblem, alpha: Array, sums: KernelSums, lengths: Array) -> Expansion:
    """Return w(alpha) of a feasible alpha whose outputs are known."""
    size = float(np.sum(np.abs(alpha) * lengths)) * (1.0 + gamma(PAIRWISE_ROUNDINGS))
    away = _share_off_balance(problem, alpha, float(np.sum(np.abs(alpha)))) * size
    return Expansion(alpha * problem.signs, sums.outputs, sums.errors, away)


def expansion_fit(problem: KernelProblem, alpha: Array, v: Expansion, w: Expansion, C: float, lengths: Array) -> Fit:
    """Make a fit of a feasible alpha, with v = w(alpha), and of any other w. Its offset is the best one."""
    b = problem.best_offset(w.outputs)
    errors = w.output_errors + 4.0 * UNIT_ROUNDOFF * (np.abs(w.outputs) + abs(b))
    return _fit(problem, C, w, v, b, alpha, KernelSums(problem.signs * (w.outputs + b), errors), lengths)


def row_lengths(problem: Problem) -> Array:
    """Return upper bounds on |phi(x_i)|. The constant feature of a penalised intercept counts."""
    if isinstance(problem, KernelProblem):
        error = problem.kernel.rounding_error(problem.points, problem.points)
        return np.sqrt(np.maximum(problem.diagonal, 0.0) + error) * OUTWARDS
    constant = problem.intercept_scaling if problem.penalizes_intercept else 0.0
    return np.hypot(norms(problem.rows.matrix), constant) * OUTWARDS


def has_free_offset(problem: Problem) -> bool:
    return problem.has_offset if isinstance(problem, KernelProblem) else not problem.penalizes_intercept


def _balanced(problem: Problem, alpha: Array) -> Array:
    return problem.nearest_feasible(alpha) if isinstance(problem, KernelProblem) else problem.balanced(alpha)


def _rounding(problem: LinearProblem, norm: float, lengths: Array, b: float) -> Array:
    """Bound the rounding error of each output: gamma_k |w| |x_i| for a row of k elements, plus that of the intercept."""
    k = problem.rows.n_features + 4.0
    if problem.rows.is_sparse:
        k = np.diff(problem.rows.matrix.indptr) + 4.0
    return (gamma(k) * (norm * (lengths + problem.intercept_scaling) + abs(b)) + k * SMALLEST) * OUTWARDS


def _dual_point(problem: Problem, alpha: Array, lengths: Array) -> Point:
    """Return w(alpha), with a bound on its distance from the w of the exactly balanced alpha."""
    total, scale = float(np.sum(np.abs(alpha))), float(np.sum(np.abs(alpha) * lengths)) * (1.0 + gamma(PAIRWISE_ROUNDINGS))
    away = _share_off_balance(problem, alpha, total) * scale
    if isinstance(problem, KernelProblem):
        outputs, errors = outputs_of(problem, alpha, np.flatnonzero(alpha))
        return Expansion(alpha * problem.signs, outputs, np.array(errors), away)
    weights = problem.weights(alpha)[: problem.n_penalised]
    rounding = gamma(problem.n_samples + 8.0) * scale
    if rounding > policy.TRANSFER.loose * float(np.linalg.norm(weights)):
        weights = problem.precise_weights(alpha)[: problem.n_penalised]
        rounding = long_rounding(problem.n_samples, scale) + UNIT_ROUNDOFF * float(np.linalg.norm(weights)) * OUTWARDS
    return Weights(weights, rounding + away)


def _share_off_balance(problem: Problem, alpha: Array, total: float) -> float:
    """Bound the share by which the alphas of one sign would have to shrink to make sum_i alpha_i sigma_i = 0."""
    if not has_free_offset(problem) or total == 0.0:
        return 0.0
    excess = abs(excess_of(alpha * problem.signs)) + gamma(PAIRWISE_ROUNDINGS) * UNIT_ROUNDOFF * total
    return 2.0 * excess / total * OUTWARDS


def _fit(problem: Problem, C: float, w: Point, v: Point, b: float, alpha: Array, outputs: KernelSums, lengths: Array) -> Fit:
    """Add up the gap terms and the losses, each with a bound on its rounding error."""
    f, t, loss = outputs.outputs, problem.targets, problem.loss
    errors = outputs.errors + 4.0 * UNIT_ROUNDOFF * (np.abs(t) + np.abs(f))
    terms = np.sum(loss.gap_terms(f, alpha, problem.C, t)) + np.sum(loss.gap_sensitivity(f, alpha, problem.C, errors, t))
    charge = _charge(problem, alpha, f)
    costs = problem.C / C
    value = float(np.sum(costs * loss.value(f, t)))
    steepest = np.maximum(np.abs(loss.slope(f - errors, t)), np.abs(loss.slope(f + errors, t)))
    return Fit(
        problem,
        C,
        w,
        v,
        b,
        alpha,
        f,
        errors,
        (float(terms) + charge) * (1.0 + gamma(PAIRWISE_ROUNDINGS + 16.0)) + len(f) * SMALLEST,
        charge,
        value,
        (float(np.sum(costs * steepest * errors)) + gamma(PAIRWISE_ROUNDINGS + 8.0) * value) * OUTWARDS,
        lengths,
    )


def _charge(problem: Problem, alpha: Array, outputs: Array) -> float:
    """Bound what balancing alpha would add to T. A unit of alpha_i changes the gap term of sample i by at most
    |p_i - f_i| + e + D_i |alpha_i|."""
    size, box = np.abs(alpha), problem.box
    share = _share_off_balance(problem, alpha, float(np.sum(size)))
    return share * float(np.sum(size * (np.abs(box.p - outputs) + box.e + box.D * size))) if share else 0.0


def point_outputs(problem: Problem, centre: Point, lengths: Array) -> tuple[Array, Array]:
    """Return the outputs of a point at the training samples, without a free offset, and a bound on the error of each."""
    if isinstance(centre, Expansion):
        return centre.outputs, centre.output_errors
    assert isinstance(problem, LinearProblem)
    n_features = problem.rows.n_features
    outputs = problem.rows.matrix @ centre.values[:n_features] + problem.intercept_scaling * centre.values[n_features:].sum()
    return outputs, _rounding(problem, centre.greatest_norm, lengths, 0.0)


class Parabola(NamedTuple):
    """An upper bound on the gap between two fits: first (1 - theta) + second theta + bend theta (1 - theta)."""

    first: float
    second: float
    bend: float


@dataclass(frozen=True, eq=False)
class Between:
    """Two fits of the same samples, the first at the smaller C. Their mixtures bound the gap at every C between them."""

    first: Fit
    second: Fit

    def position(self, C: float) -> float:
        """Return theta: 0 at the first fit, 1 at the second."""
        return min(1.0, max(0.0, (C - self.first.C) / (self.second.C - self.first.C)))

    @cached_property
    def bend(self) -> float:
        """The bracket of the bound, which theta (1 - theta) multiplies."""
        one, two = self.first, self.second
        fall = (one.loss - two.loss + one.loss_error + two.loss_error) * (two.C - one.C)
        squares = _least_distance(one.w, two.w) ** 2 + _least_distance(one.v, two.v) ** 2
        return fall + abs(fall) * 8.0 * UNIT_ROUNDOFF - 0.5 * squares * (1.0 - 8.0 * UNIT_ROUNDOFF)

    @property
    def parabola(self) -> Parabola:
        return Parabola(self.first.gap, self.second.gap, self.bend)

    def gap_at(self, C: float) -> float:
        return self.gap_of(self.position(C))

    def gap_of(self, theta: float) -> float:
        """Bound the gap at a position between the fits. The last term covers the rounding of theta and of the products."""
        one, two = self.first.gap, self.second.gap
        bound = (1.0 - theta) * one + theta * two + theta * (1.0 - theta) * self.bend
        return max(0.0, bound) + 16.0 * UNIT_ROUNDOFF * (one + two + abs(self.bend))

    @property
    def worst_position(self) -> float:
        """The theta at which the bound is greatest."""
        if self.bend <= 0.0:
            return 0.0 if self.first.gap >= self.second.gap else 1.0
        return min(1.0, max(0.0, 0.5 + (self.second.gap - self.first.gap) / (2.0 * self.bend)))

    @cached_property
    def greatest_gap(self) -> float:
        return self.gap_of(self.worst_position)

    def greatest_gap_within(self, first: float, last: float) -> float:
        """Between two positions. A parabola is greatest at an end, or at its vertex."""
        return max(self.gap_of(theta) for theta in (first, last, min(last, max(first, self.worst_position))))

    def ball_at(self, C: float) -> Ball:
        theta = self.position(C)
        parts = (
            (0.5 * (1.0 - theta), self.first.w),
            (0.5 * (1.0 - theta), self.first.v),
            (0.5 * theta, self.second.w),
            (0.5 * theta, self.second.v),
        )
        return Ball.of(parts, self.gap_of(theta))

    def offsets_at(self, C: float) -> Interval:
        """Return an interval that holds every optimal b at C."""
        return self.first.offsets_in(self.ball_at(C), C)


def _least_distance(one: Point, other: Point) -> float:
    return one.mixed(1.0, other, -1.0).least_norm  # type: ignore[arg-type]


Scorer = Callable[[Point], tuple[Array, Array]]
"""Returns the outputs of a point at some samples, without an offset, and a bound on the error of each."""


def score_interval(ball: Ball, offsets: Interval, score: Scorer, lengths: Array) -> tuple[Array, Array]:
    """Return the least and the greatest decision value of each sample over all optima in the ball. ``lengths`` are the norms of
    the samples."""
    values, errors = score(ball.centre)
    reach = (ball.radius * lengths + errors) * OUTWARDS
    low, high = values - reach + offsets.low, values + reach + offsets.high
    ends = UNIT_ROUNDOFF * 4.0
    return low - ends * np.abs(low), high + ends * np.abs(high)

r"""How far single weights of an answer can be from those of the exact optimum, and what that leaves of the gap.

A column of account numbers, or of nanoseconds since 1970, uses up the digits of float64. One unit in the last place of an
alpha, times a number of 1e16, is of the size of a margin, so that no alpha in float64 has :math:`w(\alpha)_j = w_j` there, and
:math:`\tfrac12 (w_j - w(\alpha)_j)^2` would be most of the gap. But nobody doubts that weight: the optimal one is about 1e-16,
because a larger one would cost more than the whole objective. The certificate says so. If :math:`|w_j^* - w_j| \le \Delta_j`,
and for a free offset :math:`|b^* - b| \le \Delta_b`, it is enough to minimise the Lagrangian over these intervals, and

.. math:: P(w) - P(w^*) \le \sum_i \left[ C_i \ell(f_i, t_i) + \ell^*(\alpha_i) + \alpha_i f_i \right]
          + \sum_j H_{\Delta_j}\big(w_j - w(\alpha)_j\big) + \Delta_b \Big| \sum_i \alpha_i \sigma_i \Big| ,

where :math:`H_\Delta(\delta) = \max_{|u| \le \Delta} (u \delta - u^2 / 2)` is Huber's function: :math:`\delta^2 / 2` up to
:math:`\Delta`, and :math:`\Delta |\delta| - \Delta^2 / 2` beyond. With :math:`\Delta_j` = 1e-16 a difference of 1 costs 1e-16.

**The intervals.** Every feasible dual point c bounds the optimum. With :math:`v = \sum_i c_i \sigma_i z_i` and
:math:`u = w^* - w`, weak duality at c and :math:`P(w^*) \le P(w)` give

.. math:: -u \cdot v \le \Gamma(c) = \tfrac12 |w|^2 + \sum_i \left[ C_i \ell(f_i, t_i) + \ell^*(c_i) + c_i f_i \right] .

So a c whose v points along one weight, :math:`v = \pm \tau e_j`, bounds that weight on one side. Such points are near
:math:`\alpha / 2`, whose own v is nearly zero in the columns at hand if the intercept is free. With :math:`\rho_i` the room
that :math:`\alpha_i / 2` has in its box, and :math:`G = \sum_i \rho_i z_i z_i'`,

.. math:: c_i = \tfrac12 \alpha_i + \rho_i \sigma_i \, z_i \cdot (g_0 \pm \tau g), \qquad G g = e_j, \qquad
          G g_0 = - \tfrac12 w(\alpha), \qquad |z_i \cdot (g_0 \pm \tau g)| \le 1

has :math:`v = \pm \tau e_j`. How g was found does not matter to the proof: v is computed from c, with a bound on its
rounding, and what it has along the other weights counts with their own intervals, :math:`\Delta_k \le |w_k| + \sqrt{2 P(w)}`
to begin with. These shrink in turn, so that a few rounds are enough. The offset is one more weight, with z = 1. If it is free,
rows are taken from the mean of X, z = x - mean, so that :math:`\alpha / 2` is nearly balanced and its v nearly zero. If it is
penalised, z = x: :math:`w(\alpha)` is nearly w there, and from the mean it would be as long as the offset times the mean.

**Columns that depend on each other**, such as a temperature in two units: their weights have no intervals of their own, only
some sums of them have. As :math:`|u|^2` is the same in every orthonormal basis, the weights of all columns at hand are taken
along the main axes of these columns, and intervals are along the axes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import BALANCED, Certificate, Counts, GapParts, Imbalance, assemble
from maxmargin.certificate.linear_sums import PartSums
from maxmargin.certificate.linear_verdict import Moved
from maxmargin.certificate.rounding import OUTWARDS, SMALLEST, gamma, two_sum
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem


class Turn(NamedTuple):
    """Some columns of X, and an orthonormal ``basis`` for their weights: a column of it for each direction. It is orthonormal
    up to rounding, by ``error``."""

    columns: Array
    basis: Array
    error: float

    @classmethod
    def of(cls, columns: Array, rows: Array) -> Turn:
        """The main axes of these rows, of the columns that are turned: those of columns that depend on each other have no part
        in each other's direction. Where the squares of the rows are beyond float64, the axes are those of the columns."""
        squares = rows.T @ rows
        basis = np.linalg.eigh(squares)[1] if len(columns) > 1 and np.isfinite(squares).all() else np.eye(len(columns))
        lack = np.abs(basis.T @ basis - np.eye(len(columns))).sum() + gamma(len(columns) + 4.0) * len(columns) ** 2
        return cls(columns, basis, 2.0 * float(lack))

    def turned(self, weights: Array) -> Array:
        """A vector with an element for each weight, in the new directions."""
        weights = weights.copy()
        weights[self.columns] = self.basis.T @ weights[self.columns]
        return weights

    def turned_errors(self, weights: Array, errors: Array) -> Array:
        """How wrong ``turned(weights)`` is, if an element of ``weights`` may be wrong by its ``errors``."""
        own, errors = np.abs(weights[self.columns]), errors.copy()
        lost = (gamma(len(own) + 4.0) * own + errors[self.columns]) * OUTWARDS
        errors[self.columns] = (np.abs(self.basis).T @ lost + self.error * float(own.sum())) * OUTWARDS
        return errors


class WeightBounds(NamedTuple):
    """``reaches`` has :math:`\\Delta_j` of the penalised weights, infinite for those that nothing was asked of, and
    ``offset_reach`` that of the offset. Those of some columns are along the axes of ``turn``."""

    reaches: Array
    offset_reach: float
    turn: Turn


class Pair(NamedTuple):
    """The answer whose weights are bounded."""

    w: Array
    alpha: Array


def may_be_wide(problem: LinearProblem, sums: PartSums, found: Certificate) -> bool:
    """Whether the last digits of alpha can cost more than is negligible, and w(alpha) or the balance of alpha is a share of the
    gap that counts."""
    limits, rows = policy.WEIGHTS, sums.rows
    noise = UNIT_ROUNDOFF * rows.weights_scale
    return (
        0.5 * noise * noise > limits.wide_scale * found.primal
        and rows.gap + rows.error < (1.0 - limits.share) * (found.gap + found.rounding_error) < math.inf
        and problem.has_exact_rows
        and problem.offset_prices is None
        and problem.n_weights <= limits.most_weights
        and problem.n_samples * problem.rows.n_features <= limits.most_elements
    )


def with_bounded_weights(
    problem: LinearProblem, pair: Pair, sums: PartSums, centre: Array, moved: Moved | None
) -> Certificate | None:
    """The certificate with intervals of the weights of wide columns, and of a free offset. ``sums`` and ``moved`` are those of
    the precise pass. None where nothing could be proved."""
    w, alpha, d, n = pair.w, pair.alpha, problem.n_penalised, problem.n_samples
    primal, magnitudes = 0.5 * float(w[:d] @ w[:d]) + sums.rows.loss, np.abs(alpha)
    sizes = magnitudes @ np.abs(problem.rows.dense())
    is_wide = 0.5 * np.square(UNIT_ROUNDOFF * sizes) > policy.WEIGHTS.wide_scale * primal
    sizes = np.append(sizes, problem.intercept_scaling * float(magnitudes.sum()))[:d] * (1.0 + gamma(n + 8.0))
    errors, there, imbalance = gamma(n + 8.0) ** 2 * sizes + n * SMALLEST, moved, BALANCED
    if moved is not None:
        lengths = np.abs(centre)
        errors = errors + moved.excess_error * lengths + 8.0 * UNIT_ROUNDOFF**2 * (abs(moved.excess) * lengths + sizes)
    if there is None:
        assert sums.rests is not None
        there = Moved(sums.weights[:d], sums.rests[:d])
    differences, lost = two_sum(w[:d], -there.weights)
    differences += lost - there.rest
    errors = (errors + 8.0 * UNIT_ROUNDOFF * np.abs(differences)) * OUTWARDS
    costs = 0.5 * np.square(np.abs(differences) + errors)[: len(is_wide)]
    columns = np.flatnonzero(is_wide & (costs > policy.WEIGHTS.wide_scale * primal))
    columns = columns[np.argsort(-costs[columns], kind="stable")][: policy.WEIGHTS.most_columns]
    bounds = weight_bounds(problem, pair, centre, columns)
    if bounds is None:
        return None
    if moved is not None:
        reach = bounds.offset_reach * OUTWARDS
        imbalance = Imbalance(fall=reach * abs(moved.excess), error=reach * moved.excess_error)
    errors, differences = bounds.turn.turned_errors(differences, errors), bounds.turn.turned(differences)
    gap = sums.rows.gap + float(np.sum(huber(differences, bounds.reaches))) * (1.0 + bounds.turn.error)
    hidden = float(np.sum(np.minimum(np.abs(differences) + errors, bounds.reaches) * errors)) * (1.0 + bounds.turn.error)
    parts = GapParts(
        primal=primal,
        dual=primal - gap,
        gap=gap,
        error=sums.rows.error + hidden + (n + problem.n_weights) * SMALLEST,
        roundings=gamma(max(n, problem.n_weights) + 16),
        apart=math.inf,
    )
    found = assemble(parts, imbalance, Counts(sums.dual.n_support, sums.dual.n_at_bound))
    return replace(found, has_bounded_weights=True)


def weight_bounds(problem: LinearProblem, pair: Pair, centre: Array, columns: Array) -> WeightBounds | None:
    """The intervals of the weights of ``columns``, and of a free offset for rows taken from ``centre``. None where a bound is
    not finite."""
    with np.errstate(all="ignore"), single_threaded_blas():
        rows = _Rows.of(problem, pair, np.zeros_like(centre) if problem.penalizes_intercept else centre, columns)
        targets = columns if problem.intercept_scaling == 0.0 else np.append(columns, rows.Z.shape[1] - 1)
        points = rows.dual_points(targets)
        if points is None:
            return None
        tests = rows.tested(points)
        reaches = np.full(rows.Z.shape[1], math.inf)
        reaches[: problem.rows.n_features] = math.sqrt(rows.sqnorm) + math.sqrt(2.0 * rows.primal)
        if problem.penalizes_intercept and problem.intercept_scaling != 0.0:
            reaches[-1] = problem.intercept_scaling * (math.sqrt(rows.sqnorm) + math.sqrt(2.0 * rows.primal))
        reaches *= 1.0 + gamma(len(reaches) + 8.0) + rows.turn.error
        for _ in range(policy.WEIGHTS.most_rounds):
            before = reaches[targets]
            for one, other in zip(tests[::2], tests[1::2], strict=True):
                reaches[one.target] = min(reaches[one.target], max(one.reach(reaches), other.reach(reaches)))
            if not np.any(reaches[targets] < policy.WEIGHTS.shrinking * before):
                break
        if not np.isfinite(reaches).all():
            return None
        kept = np.full(problem.n_penalised, math.inf)
        kept[columns] = reaches[columns]
        return WeightBounds(kept, float(reaches[-1]), rows.turn)


class _DualPoint(NamedTuple):
    """A dual point c whose v is mostly along one weight, in the direction of ``sign``."""

    c: Array
    target: int
    sign: float


class _Test(NamedTuple):
    """A dual point c that bounds one weight on one side: -u . v <= ``most``. ``others`` has |v_k| from above, and zero for
    the weight itself, whose |v_j| is at least ``own``."""

    target: int
    most: float
    own: float
    others: Array

    def reach(self, reaches: Array) -> float:
        """How far the weight can be on this side."""
        if not self.own > 0.0:
            return math.inf
        used = self.others > 0.0
        rest = float(self.others[used] @ reaches[used])
        return (self.most + rest) / self.own * (1.0 + gamma(2.0 * len(reaches) + 16.0))


class _Rows(NamedTuple):
    """The rows from a centre, turned, with a column of ones for the offset; and the answer there. An element of ``Z`` is
    wrong by at most some units of roundoff times that of ``magnitudes``."""

    problem: LinearProblem
    Z: Array
    magnitudes: Array
    turn: Turn
    alpha: Array
    outputs: Array
    errors: Array
    sqnorm: float

    @classmethod
    def of(cls, problem: LinearProblem, pair: Pair, centre: Array, columns: Array) -> _Rows:
        d, has_offset = problem.rows.n_features, problem.intercept_scaling != 0.0
        Z = np.ones((problem.n_samples, d + has_offset))
        np.subtract(problem.rows.dense(), centre, out=Z[:, :d])
        weights, b = pair.w[:d], float(pair.w[-1]) * problem.intercept_scaling if has_offset else 0.0
        outputs = Z[:, :d] @ weights + (float(weights @ centre) + b)
        magnitudes = np.abs(Z)
        known = magnitudes[:, :d] @ np.abs(weights) + (float(np.abs(weights) @ np.abs(centre)) + abs(b))
        errors = gamma(d + 8.0) * known + 4.0 * UNIT_ROUNDOFF * np.abs(problem.targets)
        turn = Turn.of(columns, Z[:, columns] * np.sqrt(np.abs(pair.alpha))[:, None])
        turn_errors = turn.error * magnitudes[:, columns].sum(axis=1, keepdims=True)
        magnitudes[:, columns] = magnitudes[:, columns] @ np.abs(turn.basis) + turn_errors / UNIT_ROUNDOFF
        Z[:, columns] = Z[:, columns] @ turn.basis
        sqnorm = float(pair.w[: problem.n_penalised] @ pair.w[: problem.n_penalised])
        return cls(problem, Z, magnitudes, turn, pair.alpha, outputs * problem.signs, errors, sqnorm)

    def dual_points(self, targets: Array) -> list[_DualPoint] | None:
        """Dual points in pairs, for both sides of a weight. The first pair of all moves every alpha by its room: it bounds the
        offset while nothing else is known. Then the directions leave out either all other weights, or those of ``targets``
        alone, which is all that fewer samples than weights allow."""
        box, half = self.problem.box, 0.5 * self.alpha
        room, size = np.minimum(half - box.L, box.U - half), float(np.mean(np.abs(self.alpha)))
        if not size > 0.0:
            return None
        room = np.where(np.isfinite(room), room, size)
        found = self._directed(half, room, targets, targets)
        found += self._directed(half, room, targets, np.arange(self.Z.shape[1]))
        if self.problem.intercept_scaling != 0.0:
            found = [*self._both(half, room * self.problem.signs, self.Z.shape[1] - 1), *found]
        return found

    def _directed(self, half: Array, room: Array, targets: Array, among: Array) -> list[_DualPoint]:
        """The dual points for each target, with G of the weights ``among``; none where G cannot be factorised."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        Z, signs = self.Z[:, among], self.problem.signs
        rooted = Z * np.sqrt(room)[:, None]
        scales = np.sqrt(np.einsum("ij,ij->j", rooted, rooted))
        scales[~(scales > 0.0)] = 1.0
        rooted /= scales
        G = rooted.T @ rooted
        G[np.diag_indices(len(G))] += policy.WEIGHTS.ridge
        wanted = (among[:, None] == np.append(targets, -1)).astype(float)
        is_target = wanted.any(axis=1)
        wanted[is_target, -1] = -((half * signs) @ Z[:, is_target]) / scales[is_target]
        try:
            moves = Z @ (cho_solve(cho_factor(G, lower=True), wanted) / scales[:, None])
        except (LinAlgError, ValueError):
            return []
        moves, centring = moves[:, :-1] / np.abs(moves[:, :-1]).max(axis=0), moves[:, -1]
        used = float(np.abs(centring).max())
        share = min(1.0, policy.WEIGHTS.most_centring / used) if used > 0.0 else 0.0
        base, left = half + (share * room * signs) * centring, (1.0 - share * used) * room * signs
        return [point for k, target in enumerate(targets) for point in self._both(base, left * moves[:, k], int(target))]

    def _both(self, base: Array, move: Array, target: int) -> list[_DualPoint]:
        box = self.problem.box
        return [_DualPoint(np.clip(base + sign * move, box.L, box.U), target, sign) for sign in (1.0, -1.0)]

    @property
    def primal(self) -> float:
        """At least P(w)."""
        return float(self._gammas(np.zeros((1, len(self.alpha))))[0])

    def _gammas(self, points: Array) -> Array:
        """At least Gamma(c) of each row c, which is P(w) where c = 0."""
        problem = self.problem
        terms = problem.loss.gap_terms(self.outputs, points, problem.C, problem.targets)
        lost = problem.loss.gap_sensitivity(self.outputs, points, problem.C, self.errors, problem.targets)
        found: Array = (0.5 * self.sqnorm + np.sum(terms + lost, axis=1)) * (1.0 + gamma(points.shape[1] + 32.0))
        return found

    def tested(self, points: list[_DualPoint]) -> list[_Test]:
        """What each dual point says of its weight, some points at a time."""
        size = max(1, policy.WEIGHTS.elements_a_block // len(self.alpha))
        return [test for first in range(0, len(points), size) for test in self._tested(points[first : first + size])]

    def _tested(self, points: list[_DualPoint]) -> list[_Test]:
        C = np.stack([point.c for point in points])
        v = (C * self.problem.signs) @ self.Z
        errors = gamma(C.shape[1] + len(self.turn.columns) + 12.0) * (np.abs(C) @ self.magnitudes) * OUTWARDS
        tests, gammas, others = [], self._gammas(C), np.abs(v) + errors
        for k, (_, target, sign) in enumerate(points):
            own, others[k, target] = sign * v[k, target] - errors[k, target], 0.0
            tests.append(_Test(target, float(gammas[k]), float(own), others[k]))
        return tests


def huber(differences: Array, reaches: Array) -> Array:
    """max_u (u delta - u^2 / 2) with abs(u) at most the reach."""
    size = np.abs(differences)
    inner = np.minimum(size, reaches)
    result: Array = inner * (size - 0.5 * inner)
    return result

r"""An interior-point method for the whole problem, where Newton's steps from kink to kink are many.

Labels that can nearly be separated make Newton's method slow where C is large: each step changes the set of active samples. The
steps of this method stay inside of all inequalities, and their number hardly depends on C. With :math:`A = \sigma X`, slopes
:math:`v = A' \alpha`, D = 1 / (2 C) and w = w^+ - w^-, the optimum has

.. math:: t = A w + D \alpha - 1, \quad z^\pm = \lambda \pm (\lambda_2 w - v), \quad
          \alpha_i t_i = w_j^\pm z_j^\pm = 0, \quad \alpha, w^\pm, t, z^\pm \ge 0 ,

and v = 0 for a free intercept. Here all products are brought to zero together, by the steps of S. Mehrotra, "On the
implementation of a primal-dual interior point method", SIAM J. Optimization 2, 1992. A step solves

.. math:: E \, d\alpha + A \, dw = q, \qquad K dw - A' d\alpha = h, \qquad E = D + t / \alpha ,
          \quad K = \lambda_2 + 1 / (w^+ / z^+ + w^- / z^-) ,

by a QR factorisation of the rows :math:`E^{-1/2} A` and :math:`K^{1/2}`, the longest first. Columns that are nearly parallel,
as columns far from zero are to the constant one, lose half as many digits in it as in :math:`A' E^{-1} A`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import linalg

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.sparse_newton.policy import InsidePolicy
from maxmargin.solvers.presolve import exact_centre

Solve = Callable[[Array, Array], tuple[Array, Array]]
"""The dw and d alpha of a step, for its h and q."""


class InnerPoint(NamedTuple):
    """w, its slacks 1 - m, and alpha."""

    w: Array
    slacks: Array
    alpha: Array


class Program(NamedTuple):
    """The problem in columns of greatest element one, in this ``order``: the first ``len(l1)`` are penalised. ``start`` is an
    alpha."""

    A: Array
    l1: Array
    l2: Array
    C: Array
    D: Array
    start: Array
    order: Array

    @property
    def n_penalised(self) -> int:
        return len(self.l1)

    def penalised(self, of_columns: Array) -> Array:
        return of_columns[: self.n_penalised]

    def with_free(self, of_penalised: Array, of_free: Array) -> Array:
        return np.concatenate([of_penalised, of_free])

    def noise(self, alpha: Array) -> Array:
        """What rounding can make of slopes that are zero."""
        return np.asarray(4.0 * UNIT_ROUNDOFF * self.penalised(alpha @ np.abs(self.A)))

    def hides(self, alpha: Array, policy: InsidePolicy) -> Array:
        """Whether that is a good part of the limit."""
        return np.asarray(self.noise(alpha) > policy.hidden * (self.l1 + self.l2))


@dataclass
class Iterate:
    """``values`` are alpha, w^+ and w^-, one after the other; ``rooms`` are t, z^+ and z^-; ``free`` are the weights without a
    penalty."""

    program: Program
    values: Array
    rooms: Array
    free: Array

    def parts(self, numbers: Array) -> tuple[Array, Array, Array]:
        """Split such numbers into those of alpha, of w^+ and of w^-."""
        n, p = len(self.program.A), self.program.n_penalised
        return numbers[:n], numbers[n : n + p], numbers[n + p :]

    @property
    def alpha(self) -> Array:
        return self.parts(self.values)[0]

    @property
    def w(self) -> Array:
        _, up, down = self.parts(self.values)
        return self.program.with_free(up - down, self.free)

    def rooms_of(self, w: Array, alpha: Array, constant: float) -> Array:
        """t, z^+ and z^- of this point where ``constant`` is one, and their change by a change of it where that is zero."""
        program = self.program
        turn = program.l2 * program.penalised(w) - program.penalised(alpha @ program.A)
        t = program.A @ w + program.D * alpha - constant
        return np.concatenate([t, constant * program.l1 + turn, constant * program.l1 - turn])

    def lacking(self) -> Array:
        """What the rooms lack of those of w and alpha. Slopes that are nothing but rounding count as zero."""
        found = self.rooms_of(self.w, self.alpha, 1.0) - self.rooms
        noise = self.program.noise(self.alpha)
        hidden = np.concatenate([np.zeros(len(self.alpha)), noise, noise])
        return np.where(np.abs(found) <= hidden, 0.0, found)

    def gap(self) -> tuple[float, float]:
        """The gap of w with alpha, made feasible but for rounding, and the primal value."""
        program, alpha = self.program, self.alpha
        w, v = program.penalised(self.w), program.penalised(alpha @ program.A)
        loss = np.square(np.maximum(0.0, 1.0 - program.A @ self.w))
        primal = float(program.l1 @ np.abs(w)) + 0.5 * float(program.l2 @ np.square(w)) + float(program.C @ loss)
        beyond = np.maximum(0.0, np.abs(v) - program.noise(alpha) - program.l1)
        total, curved = float(alpha.sum()), float(np.square(alpha) @ program.D)
        if np.any(program.l2 > 0.0):
            return primal - total + 0.5 * curved + float((np.square(beyond) / (2.0 * program.l2)).sum()), primal
        share = min(1.0 / (1.0 + float((beyond / program.l1).max(initial=0.0))), total / max(curved, 1e-300))
        return primal - share * total + 0.5 * share * share * curved, primal


def solve_inside(problem: LinearProblem, target: float, policy: InsidePolicy) -> tuple[list[InnerPoint], int]:
    """The optimum of the face that the last point is near to, and that point, the best one on the way to the relative gap
    ``target``; and the number of steps. Where rounding hides the limit of a slope, the weight costs next to nothing, and takes
    part as one without a penalty."""
    is_free, steps = np.arange(problem.n_weights) >= problem.n_penalised, 0
    with np.errstate(all="ignore"):
        centre = _centre(problem)
        columns = _columns(problem, centre)
        for _ in range(policy.most_rounds):
            program = _program(problem, columns, is_free)
            best, count = _followed(program, target, policy)
            hidden, steps = program.order[: program.n_penalised][program.hides(best.alpha, policy)], steps + count
            if len(hidden) == 0:
                break
            is_free[hidden] = True
        found = [_unscaled(problem, columns, best.program, *pair) for pair in (_on_face(best, policy), (best.w, best.alpha))]
        return [_uncentred(problem, centre, point) for point in found], steps


def _centre(problem: LinearProblem) -> Array:
    """What is taken from the columns. A free intercept takes it over; with a penalty it would have a price."""
    X = problem.rows.dense()
    if problem.penalizes_intercept or problem.intercept_scaling == 0.0:
        return np.zeros(X.shape[1])
    return exact_centre(X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64))


def _uncentred(problem: LinearProblem, centre: Array, point: InnerPoint) -> InnerPoint:
    if np.any(centre):
        point.w[-1] -= float(centre @ point.w[:-1]) / problem.intercept_scaling
    return point


def _columns(problem: LinearProblem, centre: Array) -> Array:
    """The centred columns times the signs, with the constant one."""
    X = problem.rows.dense().astype(np.float64) - centre
    if problem.intercept_scaling:
        X = np.column_stack([X, np.full(len(X), problem.intercept_scaling)])
    return np.asarray(X * problem.signs[:, None])


def _program(problem: LinearProblem, columns: Array, is_free: Array) -> Program:
    """Samples without a cost take no part."""
    order, C = np.argsort(is_free, kind="stable"), problem.C[problem.C > 0.0]
    sizes, p = _sizes(columns)[order], int(np.count_nonzero(~is_free))
    A, l1, l2 = columns[problem.C > 0.0][:, order] / sizes, problem.penalty.l1 / sizes[:p], problem.penalty.l2 / sizes[:p] ** 2
    start = _first_alpha(problem)
    slopes = np.abs(start @ A)[:p] / (1.0 if problem.penalty.l2 else l1)
    length = min(2.0 * float(C.min()), 0.5 / float(slopes.max(initial=1e-300)))
    return Program(A, l1, l2, C, 0.5 / C, length * start, order)


def _sizes(columns: Array) -> Array:
    sizes = np.abs(columns).max(axis=0)
    return np.where(sizes > 0.0, sizes, 1.0)


def _first_alpha(problem: LinearProblem) -> Array:
    """Ones; balanced for a free intercept."""
    signs = problem.signs[problem.C > 0.0]
    if problem.penalizes_intercept:
        return np.ones(len(signs))
    return np.where(signs > 0.0, np.mean(signs < 0.0), np.mean(signs > 0.0))


def _unscaled(problem: LinearProblem, columns: Array, program: Program, scaled: Array, inner: Array) -> InnerPoint:
    w, alpha = np.zeros(columns.shape[1]), np.zeros(problem.n_samples)
    w[program.order], alpha[problem.C > 0.0] = scaled, np.maximum(inner, 0.0)
    w /= _sizes(columns)
    return InnerPoint(w, 1.0 - columns @ w, alpha)


def _on_face(at: Iterate, policy: InsidePolicy) -> tuple[Array, Array]:
    """The optimum among the points with the zeros that this one has nearly: the values that a step without any centre would at
    least halve (A. S. El-Bakry, R. A. Tapia, Y. Zhang, "A study of indicators", SIAM Review 36, 1994)."""
    program, w, alpha, zeros = at.program, at.w, at.alpha, np.zeros(len(at.free))
    values, _, _ = _direction(at, _system(at, policy), at.lacking(), np.zeros(len(at.values)))
    answers, up, down = at.parts(values > -0.5 * at.values)
    stays = program.with_free(up | down, zeros == 0.0)
    if not (stays.any() and answers.any()):
        return w, alpha
    w, alpha, A = np.where(stays, w, 0.0), np.where(answers, alpha, 0.0), program.A[np.ix_(answers, stays)]
    l1, l2 = (program.with_free(part, zeros)[stays] for part in (program.l1 * np.sign(program.penalised(w)), program.l2))
    D = program.D[answers]
    solve = _solve(A, D, l2, policy)
    for _ in range(policy.face_steps):
        dw, d_alpha = solve(alpha[answers] @ A - l1 - l2 * w[stays], 1.0 - A @ w[stays] - D * alpha[answers])
        w[stays] += dw
        alpha[answers] += d_alpha
    return w, alpha


def _beginning(program: Program, policy: InsidePolicy) -> Iterate:
    """Where all products are the same."""
    alpha, t = program.start, np.full(len(program.start), policy.first_room)
    product, v = policy.first_room * float(alpha.mean()), program.penalised(alpha @ program.A)
    least = 0.5 * np.maximum(program.l1, program.l2)
    rooms = [np.maximum(program.l1 - v, least), np.maximum(program.l1 + v, least)]
    values = np.concatenate([alpha, *(product / room for room in rooms)])
    return Iterate(program, values, np.concatenate([t, *rooms]), np.zeros(program.A.shape[1] - program.n_penalised))


def _followed(program: Program, target: float, policy: InsidePolicy) -> tuple[Iterate, int]:
    """The best point, and the steps. While no point is feasible the gap says nothing, and idle steps are not counted."""
    at = _beginning(program, policy)
    best, least, idle, steps = replace(at), np.inf, 0, 0
    while steps < policy.most_steps and idle < policy.idle_steps:
        check_point()
        gap, primal = at.gap()
        if program.hides(at.alpha, policy).any():
            return at, steps
        idle = idle + 1 if least < policy.feasible_gap and not gap < least * primal else 0
        if gap < least * primal:
            best, least = replace(at), gap / primal
        if gap <= target * primal or not _step(at, policy):
            break
        steps += 1
    return best, steps


def _step(at: Iterate, policy: InsidePolicy) -> bool:
    """One predictor and corrector. False where no step can be computed."""
    lacking, solve = at.lacking(), _system(at, policy)
    product = float(at.values @ at.rooms) / len(at.values)
    values, rooms, _ = _direction(at, solve, lacking, np.zeros(len(at.values)))
    reach = min(1.0, _reach(at, values, rooms))
    after = float((at.values + reach * values) @ (at.rooms + reach * rooms)) / len(at.values)
    centre = product * min(1.0, max(0.0, after / max(product, 1e-300))) ** 3
    values, rooms, free = _direction(at, solve, lacking, centre - values * rooms)
    length = min(1.0, policy.to_the_bound * _reach(at, values, rooms))
    if not np.isfinite(length * (values.sum() + rooms.sum() + free.sum())):
        return False
    at.values, at.rooms, at.free = at.values + length * values, at.rooms + length * rooms, at.free + length * free
    return bool((at.values > 0.0).all() and (at.rooms > 0.0).all())


def _reach(at: Iterate, values: Array, rooms: Array) -> float:
    """The longest step at which nothing is negative."""
    fastest = max(float((-values / at.values).max()), float((-rooms / at.rooms).max()))
    return 1.0 / max(fastest, 1e-300)


def _direction(at: Iterate, solve: Solve, lacking: Array, products: Array) -> tuple[Array, Array, Array]:
    """The change of values, rooms and free weights that brings the products to these, and makes the rooms right."""
    program, wanted, ratio = at.program, products / at.rooms - at.values, at.values / at.rooms
    moved, over = at.parts(wanted - ratio * lacking), at.parts(ratio)
    h = program.with_free((moved[1] - moved[2]) / (over[1] + over[2]), (at.alpha @ program.A)[program.n_penalised :])
    w, alpha = solve(h, moved[0] / over[0])
    rooms = lacking + at.rooms_of(w, alpha, 0.0)
    values = wanted - ratio * rooms
    at.parts(values)[0][:] = alpha
    at.parts(rooms)[0][:] = (at.parts(wanted)[0] - alpha) / over[0]
    return values, rooms, w[program.n_penalised :]


def _system(at: Iterate, policy: InsidePolicy) -> Solve:
    """What solves the equations of a step."""
    program, over = at.program, at.parts(at.values / at.rooms)
    K = program.with_free(program.l2 + 1.0 / (over[1] + over[2]), np.zeros(len(at.free)))
    return _solve(program.A, program.D + 1.0 / over[0], K, policy)


def _solve(A: Array, E: Array, K: Array, policy: InsidePolicy) -> Solve:
    """Solves E d alpha + A dw = q and K dw - A' d alpha = h, and once more for what is left of h and q."""
    weighted, factor = A / E[:, None], _factor(A, E, K, policy)

    def rough(h: Array, q: Array) -> tuple[Array, Array]:
        w = factor(h + q @ weighted)
        return w, (q - A @ w) / E

    def solved(h: Array, q: Array) -> tuple[Array, Array]:
        w, alpha = rough(h, q)
        dw, d_alpha = rough(h - K * w + alpha @ A, q - E * alpha - A @ w)
        return w + dw, alpha + d_alpha

    return solved


def _factor(A: Array, E: Array, K: Array, policy: InsidePolicy) -> Callable[[Array], Array]:
    """Solves with A' E^-1 A + K."""
    rows = np.vstack([A / np.sqrt(E)[:, None], np.diag(np.sqrt(K))])
    sizes = np.linalg.norm(rows, axis=0)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    rows /= sizes
    rows = rows[np.argsort(-np.abs(rows).max(axis=1), kind="stable")]
    R, order = linalg.qr(rows, mode="r", pivoting=True, check_finite=False)
    R, pivots = R[: len(K)].copy(), np.diagonal(R)
    R[np.diag_indices(len(K))] = np.where(np.abs(pivots) > policy.least_pivot, pivots, policy.least_pivot)

    def solved(right: Array) -> Array:
        half = linalg.solve_triangular(R, (right / sizes)[order], trans="T", check_finite=False)
        found = np.empty(len(K))
        found[order] = linalg.solve_triangular(R, half, check_finite=False)
        return found / sizes

    return solved

r"""An interior-point method for the problems with nu whose kernel matrix has a factor: where SMO gives up.

With :math:`K = F F'` and M the rows of F of the variables times their signs, the dual of ``maxmargin.problem.nu`` is

.. math:: \min_x \tfrac12 |w_0 + M' x|^2 - q' x, \qquad A x = T, \quad 0 \le x \le c .

SMO approaches w = 0 ever more slowly, and where columns of F have very different scales its steps get nowhere. This method does
neither: it is the predictor-corrector method of S. Mehrotra, "On the implementation of a primal-dual interior point method",
SIAM J. Optimization 2, 1992. With a w of its own beside x, a step solves

.. math:: D dx + M dw - A' d\theta = r, \qquad dw - M' dx = e, \qquad A dx = l ,

with a diagonal D and :math:`e = w_0 + M' x - w`. Where F has few columns, the unknowns are dw and :math:`d\theta` (S. Fine and
K. Scheinberg, JMLR 2, 2001), and each is scaled so that its diagonal element is one: the scales of the columns drop out. The
last digit of an x moves M' x by more than a margin where a column is large, and w is not moved by it. Elsewhere w = w_0 + M' x.

The gap of x and w is :math:`\tfrac12 |w_0 + M' x - w|^2` and the terms of complementarity at the outputs of w.

Every point lies inside of the box. Where w = 0 is optimal, one least-squares step that is short beside the distances from the
bounds makes w zero up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.solvers.interior_program import InteriorPolicy, Program
from maxmargin.solvers.interior_zero import is_rounding, shortened

Solve = Callable[["Change"], "Change"]
"""Solves the equations of a step."""


@dataclass
class Iterate:
    """x inside of its box, w, the multipliers of both bounds, and one for each sum."""

    x: Array
    w: Array
    low: Array
    high: Array
    theta: Array


class Point(NamedTuple):
    """x, and the w that belongs to it."""

    x: Array
    w: Array


def solve_inside(program: Program, target: float, policy: InteriorPolicy | None = None) -> tuple[list[Point], int]:
    """Points that may serve, the sparsest first, from where the gap and from where the value was least on the way to the
    relative gap ``target``; and the number of steps."""
    policy = policy or InteriorPolicy()
    with np.errstate(all="ignore"):
        at, gram = _beginning(program), program.gram()
        best, lowest, least, idle, steps = replace(at), at.x, (np.inf, np.inf), 0, 0
        while steps < policy.most_steps and idle < policy.idle_steps:
            check_point()
            gap, value = program.gap(at.x, at.w), program.value(at.x)
            idle = 0 if gap < least[0] else idle + 1
            if gap < least[0]:
                best = replace(at)
            if value < least[1]:
                lowest = at.x
            least = min(gap, least[0]), min(value, least[1])
            if gap <= target * value or not _step(program, at, policy, gram):
                break
            steps += 1
        points = [Point(x, best.w) for x in (*_on_face(program, best, policy), _rounded(program, best, policy), best.x)]
        if min(program.M.shape) > policy.most_decomposed:
            return points, steps
        if least[0] <= target * program.value(best.x):
            return points, steps  # w is not zero, or no smaller gap is asked for
        for x in (best.x, lowest):
            points += [Point(moved, 0.0 * best.w) for moved in shortened(program, x, policy)]
            if is_rounding(program, points[-1].x):
                break
        return points, steps


def zero_points(program: Program, policy: InteriorPolicy | None = None) -> Iterator[Array]:
    """Points with w zero, if it can be: from the program in other coordinates of w, in which no direction is small beside
    another. Where columns have very different scales the small ones do not count in the program as it is."""
    policy = policy or InteriorPolicy()
    with np.errstate(all="ignore"):
        sizes = np.linalg.norm(program.M, axis=0)
        sizes = np.where(sizes > 0.0, sizes, 1.0)
        columns = program.M / sizes
    if not np.isfinite(columns).all() or program.M.shape[1] > policy.most_decomposed:
        return
    U, values, V = np.linalg.svd(columns, full_matrices=False)
    for share in policy.zero_directions:
        kept = values > share * values.max(initial=0.0)
        w0 = (V[kept] @ (program.w0 / sizes)) / values[kept]
        even = program._replace(M=np.ascontiguousarray(U[:, kept]), w0=w0, shift=0.0)
        last = solve_inside(even, policy.aim, policy)[0][-1].x
        with np.errstate(all="ignore"):
            moved = shortened(even, last, policy)[:1]
        yield from [*moved, last]


def _beginning(program: Program) -> Iterate:
    x = program.inside()
    w = program.weights(x)
    gradient = program.gradient(x, w)
    theta = program.thresholds(gradient)
    slope = gradient - program.groups @ theta
    usual = float(np.abs(slope).mean()) or 1.0
    return Iterate(x, w, np.maximum(slope, 0.0) + usual, np.maximum(-slope, 0.0) + usual, theta)


def _step(program: Program, at: Iterate, policy: InteriorPolicy, gram: Array | None) -> bool:
    """One predictor and corrector. False where no step can be computed."""
    room = program.c - at.x
    residual = program.groups @ at.theta + at.low - at.high - program.gradient(at.x, at.w)
    apart, lacking = program.weights(at.x) - at.w, program.totals - program.groups.T @ at.x
    solve = _system(program, at.low / at.x + at.high / room, policy, gram)
    if solve is None:
        return False

    def direction(low: Array, high: Array) -> tuple[Array, Array, Array, Array, Array]:
        """The direction for these values of x times its multiplier, and of the room times its own."""
        right = residual + low / at.x - at.low - high / room + at.high
        dx, dw, theta = solve(Change(right, apart, lacking))
        return dx, low / at.x - at.low - at.low / at.x * dx, high / room - at.high + at.high / room * dx, dw, theta

    pairs = len(at.x) * 2.0
    mean = float(at.x @ at.low + room @ at.high) / pairs
    dx, low, high, _, _ = direction(np.zeros_like(room), np.zeros_like(room))
    reach, dual_reach = _reach(at.x, dx, room), _longest((at.low, low), (at.high, high))
    after = float((at.x + reach * dx) @ (at.low + dual_reach * low) + (room - reach * dx) @ (at.high + dual_reach * high))
    centre = mean * min(1.0, max(0.0, after / pairs / mean) ** 3)
    dx, low, high, dw, theta = direction(centre - dx * low, centre + dx * high)
    if not (np.isfinite(dx).all() and np.isfinite(low).all() and np.isfinite(high).all()):
        return False
    reach = min(1.0, policy.to_the_bound * _reach(at.x, dx, room, np.inf))
    dual_reach = min(1.0, policy.to_the_bound * _longest((at.low, low), (at.high, high), most=np.inf))
    length = min(reach, dual_reach)
    at.x, at.low, at.high = program.with_sums(at.x + length * dx), at.low + length * low, at.high + length * high
    at.theta = at.theta + length * theta
    at.w = at.w + length * dw if gram is None else program.weights(at.x)
    inside = (at.x > 0.0) & (at.x < program.c) & (at.low > 0.0) & (at.high > 0.0)
    return bool(inside.all())


def _reach(x: Array, dx: Array, room: Array, most: float = 1.0) -> float:
    return _longest((x, dx), (room, -dx), most=most)


def _longest(*moves: tuple[Array, Array], most: float = 1.0) -> float:
    """The longest step up to ``most`` at which nothing is negative."""
    for value, change in moves:
        falls = change < 0.0
        most = min(most, float((-value[falls] / change[falls]).min(initial=np.inf)))
    return most


class Change(NamedTuple):
    """The right-hand sides r, e and l of a step, or its dx, dw and d theta."""

    x: Array
    w: Array
    theta: Array

    def plus(self, other: Change) -> Change:
        return Change(self.x + other.x, self.w + other.w, self.theta + other.theta)


def _system(program: Program, D: Array, policy: InteriorPolicy, gram: Array | None) -> Solve | None:
    """What solves the equations of a step. The residual is solved for again: where D is small, dx is a small difference of
    large numbers. None where D is not finite."""
    if not np.isfinite(D).all():
        return None
    rough = _by_columns(program, D, policy.ridge) if gram is None else _by_samples(program, D, policy.ridge, gram)
    if rough is None:
        return None

    def residual(right: Change, found: Change) -> Change:
        """What is left of the right-hand sides. By samples dw is M' dx + e, up to rounding that is not to be counted twice."""
        dw = found.w if gram is None else right.w + program.M.T @ found.x
        r = right.x - D * found.x - program.M @ dw + program.groups @ found.theta
        return Change(r, right.w - dw + program.M.T @ found.x, right.theta - program.groups.T @ found.x)

    def solved(right: Change) -> Change:
        found = rough(right)
        for _ in range(policy.refinements):
            found = found.plus(rough(residual(right, found)))
        return found

    return solved


def _by_columns(program: Program, D: Array, ridge: float) -> Solve | None:
    B = np.hstack([program.M, -program.groups])
    size = program.M.shape[1]
    weighted = B / D[:, None]
    solve = _scaled(B.T @ weighted + np.diag((np.arange(B.shape[1]) < size) * 1.0), ridge)
    if solve is None:
        return None

    def solved(right: Change) -> Change:
        unknown = solve(weighted.T @ right.x + np.concatenate([right.w, right.theta]))
        return Change((right.x - B @ unknown) / D, unknown[:size], unknown[size:])

    return solved


def _by_samples(program: Program, D: Array, ridge: float, gram: Array) -> Solve | None:
    """Without w: here it is always w_0 + M' x, so that e is zero."""
    H = gram.copy()
    H[np.diag_indices_from(H)] += D
    solve = _scaled(H, ridge)
    if solve is None:
        return None
    sums = solve(program.groups)
    schur = program.groups.T @ sums

    def solved(right: Change) -> Change:
        first = solve(right.x)
        d = np.linalg.lstsq(schur, right.theta - program.groups.T @ first, rcond=None)[0]
        dx = first + sums @ d
        return Change(dx, right.w + program.M.T @ dx, d)

    return solved


def _scaled(matrix: Array, ridge: float) -> Callable[[Array], Array] | None:
    """Solve with a symmetric positive definite matrix, brought to ones on its diagonal."""
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(matrix), np.finfo(float).tiny))
    matrix = matrix * scale[:, None] * scale
    if not np.isfinite(matrix).all():
        return None
    while True:
        try:
            factor = cho_factor(matrix + ridge * np.eye(len(matrix)), check_finite=False)
            break
        except np.linalg.LinAlgError:
            ridge *= 100.0
            if ridge > 1.0:
                return None

    def solved(right: Array) -> Array:
        right = (right.T * scale).T
        found = cho_solve(factor, right, check_finite=False)
        found = found + cho_solve(factor, right - matrix @ found, check_finite=False)
        return np.asarray((found.T * scale).T)

    return solved


def _rounded(program: Program, at: Iterate, policy: InteriorPolicy) -> Array:
    """x with the variables that are nearly at a bound put there."""
    room, share = program.c - at.x, policy.at_bound * program.c
    x = np.where((at.x < share) & (at.low * program.c > at.x), 0.0, at.x)
    return np.where((room < share), program.c, x)


def _on_face(program: Program, at: Iterate, policy: InteriorPolicy) -> list[Array]:
    """The optimum among the points that have the same variables at their bounds as the optimum seems to have, if there is one
    in the box. A variable is at the bound of which it is nearer to zero, in units of its box, than the multiplier, in units
    of the multipliers. Where columns of M have very different scales, steps inside of the box end before this point."""
    c, usual = program.c, float((at.low + at.high).mean())
    is_low, is_high = at.x * usual < at.low * c, (c - at.x) * usual < at.high * c
    free = ~(is_low | is_high)
    if np.count_nonzero(free) > policy.most_decomposed:
        return []
    x = np.where(free, at.x, np.where(is_high & ~is_low, c, 0.0))
    for _ in range(policy.face_steps):
        x[free] += _face_step(program, x, free)
    is_inside = bool(((x >= 0.0) & (x <= c)).all())
    return [x] if is_inside else []


def _face_step(program: Program, x: Array, free: Array) -> Array:
    """Newton's step for the free variables, by the equations M_F w - A_F theta = q_F and A x = T. Sums are in long double,
    where the machine has it."""
    M, A = program.M[free], program.groups[free]
    precise = x.astype(np.longdouble)
    w = program.w0 + precise @ program.M
    slope = M @ w - (program.q - program.shift)[free] if np.ndim(program.shift) else M @ w - program.q[free] + program.shift
    lacking = program.totals - precise @ program.groups
    n, k = A.shape
    system = np.block([[M @ M.T, -A], [A.T, np.zeros((k, k))]])
    scale = 1.0 / np.sqrt(np.maximum(np.abs(system).max(axis=1, initial=0.0), np.finfo(float).tiny))
    right = np.concatenate([-slope, lacking]).astype(np.float64) * scale
    return np.asarray((np.linalg.lstsq(system * scale[:, None] * scale, right, rcond=None)[0] * scale)[:n])

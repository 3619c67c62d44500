r"""An interior-point method for the problems with nu whose kernel matrix has a factor: where SMO gives up.

With :math:`K = F F'` and M the rows of F of the variables times their signs, the dual of ``maxmargin.problem.nu`` is

.. math:: \min_x \tfrac12 |w_0 + M' x|^2 - q' x, \qquad A x = T, \quad 0 \le x \le c .

SMO approaches w = 0 ever more slowly, and where columns of F have very different scales its steps get nowhere. This method does
neither: it is the predictor-corrector method of S. Mehrotra, "On the implementation of a primal-dual interior point method",
SIAM J. Optimization 2, 1992. A step solves :math:`(D + M M') dx - A' d\theta = r`, :math:`A dx = 0` with a diagonal D. Where F
has few columns, the unknowns are :math:`dw = M' dx` and :math:`d\theta` (S. Fine and K. Scheinberg, JMLR 2, 2001), and each
unknown is scaled so that its diagonal element is one: the scales of the columns drop out.

Every point lies inside of the box. Where w = 0 is optimal, one least-squares step that is short beside the distances from the
bounds makes w zero up to rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.offset import best_offsets

Solve = Callable[[Array], Array]


@dataclass(frozen=True)
class InteriorPolicy:
    """How far the steps go, and when they end."""

    most_steps: int = 100
    """The usual number is 15 to 40."""
    idle_steps: int = 8
    """Steps, one after the other, that do not make the gap smaller: rounding is reached."""
    to_the_bound: float = 0.995
    """A step goes at most this share of the way to the nearest bound."""
    ridge: float = 1e-14
    """Added to the ones on the diagonal of a scaled system, so that a factor exists where columns depend on each other."""
    refinements: int = 2
    """How often the residual of a system is solved for. With none the gap of RBF kernels stood still at 1e-10."""
    short_steps: int = 3
    """Steps of least squares to w = 0: the first leaves what rounding makes of it, the others what is left of that."""
    least_directions: tuple[float, ...] = (1e-12, 1e-9, 1e-6, 1e-3)
    """Directions of w that are shorter than this share of the longest are not looked at in these steps; each is tried."""
    face_steps: int = 3
    """Newton steps to the optimum with the free variables alone: one, and two for what its rounding has left."""
    most_decomposed: int = 1024
    """The largest system that is solved by its singular values, on the face and for w = 0. Of twice the size it takes ten
    seconds, in which no limit is heard. An estimate."""
    aim: float = 1e-3
    """Relative gap to reach, as a share of the target, where the point is offered to a judge: nearly at the optimum the steps
    are cheap, and a point that is refused costs a whole certificate."""
    at_bound: float = 1e-7
    """A variable this near to a bound, as a share of its box, is moved there, if its multiplier says so."""


class Program(NamedTuple):
    """The quadratic program of the head of this module. ``groups`` has a column of zeros and ones for each sum. ``shift`` is
    added to the gradient: what the factor has lost of it."""

    M: Array
    w0: Array
    q: Array
    c: Array
    groups: Array
    totals: Array
    shift: Array | float = 0.0

    def gradient(self, x: Array) -> Array:
        return np.asarray(self.M @ (self.w0 + self.M.T @ x) - self.q + self.shift)

    def thresholds(self, gradient: Array) -> Array:
        """The best threshold of each group."""
        found = []
        for members, total in zip(self.groups.T > 0.0, self.totals, strict=True):
            found.append(best_offsets(gradient[members], self.c[members], float(total)).middle)
        return np.array(found)

    def gap(self, x: Array) -> float:
        gradient = self.gradient(x)
        h = self.groups @ self.thresholds(gradient) - gradient
        return float(np.sum((self.c - x) * np.maximum(0.0, h) + x * np.maximum(0.0, -h)))

    def value(self, x: Array) -> float:
        """The magnitude of the value that is minimised."""
        w = self.w0 + self.M.T @ x
        return abs(0.5 * float(w @ w) - float(self.q @ x))

    def gram(self) -> Array | None:
        """M M', where a system of its size takes less work than one of the columns of M: n^3 / 3 and n k^2 multiplications, for
        n rows and k columns. None elsewhere."""
        n, k = self.M.shape
        return np.asarray(self.M @ self.M.T) if 3 * k * k >= n * n else None

    def inside(self) -> Array:
        """A point with the right sums and as far from the bounds as can be."""
        shares = self.totals / (self.groups.T @ self.c)
        return np.asarray((self.groups @ shares) * self.c)


@dataclass
class Iterate:
    """x inside of its box, the multipliers of both bounds, and one for each sum."""

    x: Array
    low: Array
    high: Array
    theta: Array


def solve_inside(program: Program, target: float, policy: InteriorPolicy | None = None) -> tuple[list[Array], int]:
    """Points that may serve, the sparsest first, from where the gap and from where the value was least on the way to the
    relative gap ``target``; and the number of steps."""
    policy = policy or InteriorPolicy()
    with np.errstate(all="ignore"):
        at, gram = _beginning(program), program.gram()
        best, lowest, least, idle, steps = replace(at), at.x, (np.inf, np.inf), 0, 0
        while steps < policy.most_steps and idle < policy.idle_steps:
            check_point()
            gap, value = program.gap(at.x), program.value(at.x)
            idle = 0 if gap < least[0] else idle + 1
            if gap < least[0]:
                best = replace(at)
            if value < least[1]:
                lowest = at.x
            least = min(gap, least[0]), min(value, least[1])
            if gap <= target * value or not _step(program, at, policy, gram):
                break
            steps += 1
        points = [*_on_face(program, best, policy), _rounded(program, best, policy), best.x]
        if min(program.M.shape) > policy.most_decomposed:
            return points, steps
        if least[0] <= target * program.value(best.x):
            return points, steps  # w is not zero, or no smaller gap is asked for
        return points + [point for x in (best.x, lowest) for point in shortened(program, x, policy)], steps


def _beginning(program: Program) -> Iterate:
    x = program.inside()
    gradient = program.gradient(x)
    theta = program.thresholds(gradient)
    slope = gradient - program.groups @ theta
    usual = float(np.abs(slope).mean()) or 1.0
    return Iterate(x, np.maximum(slope, 0.0) + usual, np.maximum(-slope, 0.0) + usual, theta)


def _step(program: Program, at: Iterate, policy: InteriorPolicy, gram: Array | None) -> bool:
    """One predictor and corrector. False where no step can be computed."""
    room = program.c - at.x
    residual = program.groups @ at.theta + at.low - at.high - program.gradient(at.x)
    lacking = program.totals - program.groups.T @ at.x
    solve = _system(program, at.low / at.x + at.high / room, policy, gram)
    if solve is None:
        return False

    def direction(low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
        """The direction for these values of x times its multiplier, and of the room times its own."""
        right = residual + low / at.x - at.low - high / room + at.high
        dx, theta = np.split(solve(np.concatenate([right, lacking])), [len(at.x)])
        return dx, low / at.x - at.low - at.low / at.x * dx, high / room - at.high + at.high / room * dx, theta

    pairs = len(at.x) * 2.0
    mean = float(at.x @ at.low + room @ at.high) / pairs
    dx, low, high, _ = direction(np.zeros_like(room), np.zeros_like(room))
    reach, dual_reach = _reach(at.x, dx, room), _longest((at.low, low), (at.high, high))
    after = float((at.x + reach * dx) @ (at.low + dual_reach * low) + (room - reach * dx) @ (at.high + dual_reach * high))
    centre = mean * min(1.0, max(0.0, after / pairs / mean) ** 3)
    dx, low, high, theta = direction(centre - dx * low, centre + dx * high)
    if not (np.isfinite(dx).all() and np.isfinite(low).all() and np.isfinite(high).all()):
        return False
    reach = min(1.0, policy.to_the_bound * _reach(at.x, dx, room, np.inf))
    dual_reach = min(1.0, policy.to_the_bound * _longest((at.low, low), (at.high, high), most=np.inf))
    length = min(reach, dual_reach)
    at.x, at.low, at.high = _with_sums(program, at.x + length * dx), at.low + length * low, at.high + length * high
    at.theta = at.theta + length * theta
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


def _system(program: Program, D: Array, policy: InteriorPolicy, gram: Array | None) -> Solve | None:
    """What solves (D + M M') dx - A' d = r, A dx = l for the right-hand side (r, l). The residual is solved for again: where D
    is small, dx is a small difference of large numbers. None where it is not finite."""
    rough = _rough_system(program, D, policy.ridge, gram)
    if rough is None:
        return None

    def residual(right: Array, found: Array) -> Array:
        dx, d = np.split(found, [len(D)])
        left = D * dx + program.M @ (program.M.T @ dx) - program.groups @ d
        return right - np.concatenate([left, program.groups.T @ dx])

    def solved(right: Array) -> Array:
        found = rough(right)
        for _ in range(policy.refinements):
            found = found + rough(residual(right, found))
        return found

    return solved


def _rough_system(program: Program, D: Array, ridge: float, gram: Array | None) -> Solve | None:
    B = np.hstack([program.M, -program.groups])
    size = program.M.shape[1]
    if not np.isfinite(D).all():
        return None
    if gram is not None:
        return _dense_system(program, D, ridge, gram)
    weighted = B / D[:, None]
    solve = _scaled(B.T @ weighted + np.diag((np.arange(B.shape[1]) < size) * 1.0), ridge)
    if solve is None:
        return None

    def solved(right: Array) -> Array:
        r, lacking = right[: len(D)], right[len(D) :]
        unknown = solve(weighted.T @ r + np.concatenate([np.zeros(size), lacking]))
        return np.concatenate([(r - B @ unknown) / D, unknown[size:]])

    return solved


def _dense_system(program: Program, D: Array, ridge: float, gram: Array) -> Solve | None:
    H = gram.copy()
    H[np.diag_indices_from(H)] += D
    solve = _scaled(H, ridge)
    if solve is None:
        return None
    sums = solve(program.groups)
    schur = program.groups.T @ sums

    def solved(right: Array) -> Array:
        first = solve(right[: len(D)])
        d = np.linalg.lstsq(schur, right[len(D) :] - program.groups.T @ first, rcond=None)[0]
        return np.concatenate([first + sums @ d, d])

    return solved


def _scaled(matrix: Array, ridge: float) -> Solve | None:
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


def shortened(program: Program, x: Array, policy: InteriorPolicy) -> list[Array]:
    """Points with w zero in those directions in which short steps inside of the box make it so. In the others no x is long, or
    w = 0 is not optimal: they are left as they are."""
    found = []
    for share in policy.least_directions:
        moved, step = x, np.zeros(1)
        for _ in range(policy.short_steps):
            size = np.minimum(moved, program.c - moved)
            step = _to_zero(program, moved, size, share)
            if not np.abs(step).max() < 1.0:
                break
            moved = _with_sums(program, moved + step * size)
        if moved is not x and np.abs(step).max() < 1.0:
            found.append(moved)
    return found


def _to_zero(program: Program, x: Array, size: Array, share: float) -> Array:
    """The shortest step to w = 0, in units of ``size``, without the directions below a share of the longest."""
    columns, most = program.M * size[:, None], float(size.max())
    weight = (float(np.abs(columns).max(initial=0.0)) or 1.0) / most
    lacking = weight * (program.totals - program.groups.T @ x)
    missing = np.concatenate([-(program.w0 + program.M.T @ x), lacking])
    system = np.hstack([columns, weight * program.groups * size[:, None]]).T
    return np.asarray(np.linalg.lstsq(system, missing, rcond=share)[0])


def _with_sums(program: Program, x: Array) -> Array:
    """x with its sums brought back to what they are to be. Rounding of the steps has moved them a little."""
    size = np.minimum(x, program.c - x)
    lacking = (program.totals - program.groups.T @ x) / (program.groups.T @ size)
    return np.asarray(x + size * (program.groups @ lacking))

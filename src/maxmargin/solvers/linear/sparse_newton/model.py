r"""The quadratic model of a Newton step on a working set, with its L1 term.

.. math:: \min_u \; g \cdot (u - w) + \tfrac12 (u - w)^\top H (u - w) + \sum_j \lambda_j |u_j|

Coordinate descent finds out which :math:`u_j` are zero. Where it is slow, a linear system on the others takes over: with their
signs fixed the model is quadratic (feature-sign search: H. Lee, A. Battle, R. Raina, A. Y. Ng, "Efficient sparse coding
algorithms", NIPS 2006). Both only lower the model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy


class ModelStep(NamedTuple):
    """The step d, and the turns of coordinate descent and linear system that it took."""

    d: Array
    turns: int


class QuadraticModel(NamedTuple):
    """H, and the weights lambda of the L1 norm."""

    H: Array
    l1: Array

    def best_step(self, w: Array, gradient: Array, policy: SparseNewtonPolicy, *, is_rough: bool = False) -> ModelStep:
        """The step d = u - w to an approximate minimiser u of the model: the last steps lower the model by ``forcing``^2 of
        what the first steps did. After a linear system on the support all coordinates are checked again. With large columns d
        is needed to more digits than u can hold, so the last system changes d alone. A rough step leaves out both."""
        from maxmargin.solvers.linear.sparse_newton.column_loops import descend

        u, gradient = w.copy(), gradient.copy()
        moved = np.empty(len(w), np.int64)
        tol = (policy.rough_forcing if is_rough else policy.forcing) * self._first_step(w, gradient)
        for turn in range(policy.most_turns):
            check_point()
            updates = self._affordable_updates(u, policy)
            worst, _ = descend((self.H, self.l1), u, gradient, moved, (tol, updates))
            if worst <= tol and (turn > 0 or is_rough):
                break
            self._solve_on_support(u, gradient)
        if is_rough:
            return ModelStep(u - w, turn + 1)
        flat = (np.diag(self.H) <= 0.0) & (np.abs(gradient) < self.l1)  # no active sample has them: the L1 norm alone counts
        return ModelStep(np.where(flat, -w, (u - w) + self._polish(u, gradient)), turn + 1)

    def _polish(self, u: Array, gradient: Array) -> Array:
        """The Newton step on the support, if it changes no sign."""
        added, support = np.zeros(len(u)), np.flatnonzero(u)
        signs = np.sign(u[support])
        if len(support):
            direction = self._solution(support, -(gradient[support] + self.l1[support] * signs))
            if np.all(np.isfinite(direction)) and np.all((u[support] + direction) * signs > 0.0):
                added[support] = direction
        return added

    def _first_step(self, w: Array, gradient: Array) -> float:
        """The longest step along a coordinate, in the unit of ``descend``."""
        curvature = np.maximum(np.diag(self.H), np.finfo(float).tiny)
        target = w * curvature - gradient
        new = np.sign(target) * np.maximum(np.abs(target) - self.l1, 0.0) / curvature
        return float(np.max(np.abs(new - w) * np.sqrt(curvature), initial=0.0))

    def _affordable_updates(self, u: Array, policy: SparseNewtonPolicy) -> int:
        """As many coordinate steps as take the time of one factorisation, and a few sweeps at least."""
        support = np.count_nonzero(u) + 1
        factor = policy.factor_overhead + policy.factor_share * support**3
        return int(max(policy.least_sweeps * len(u), factor / (len(u) + policy.step_overhead)))

    def _solve_on_support(self, u: Array, gradient: Array) -> None:
        """A Newton step on the nonzero elements. Elements that change sign become zero, or the step ends at the least point
        of the model along it: the lower of the two."""
        support = np.flatnonzero(u)
        if len(support) == 0:
            return
        signs, here = np.sign(u[support]), u[support]
        slope = gradient[support] + self.l1[support] * signs
        direction = self._solution(support, -slope)
        with np.errstate(over="ignore", invalid="ignore"):
            fall = float(direction @ slope)
        if not -np.inf < fall < 0.0:  # a curvature that is only rounding makes an endless step
            return
        target = here + direction
        crosses = target * signs < 0.0
        if np.any(crosses):
            target[crosses] = 0.0
            target = self._lower_of(support, here, target, direction, gradient[support])
        gradient += (target - here) @ self.H[support]
        u[support] = target

    def _lower_of(self, support: Array, u: Array, target: Array, direction: Array, gradient: Array) -> Array:
        """``target``, or the least point along the direction if that is lower."""
        H, l1 = self.H[np.ix_(support, support)], self.l1[support]
        slope, curvature = float(gradient @ direction), float(direction @ H @ direction)
        along = _least_along(u, direction, l1, slope, curvature)

        def change(new: Array) -> float:
            d = new - u
            return float(gradient @ d) + 0.5 * float(d @ H @ d) + float(l1 @ (np.abs(new) - np.abs(u)))

        return target if change(target) <= min(0.0, change(along)) else along

    def _solution(self, support: Array, right: Array) -> Array:
        """H_SS^-1 right, by a Cholesky factor of H_SS scaled to a diagonal of ones, with a ridge where it is singular. Features
        that no active sample has, whose diagonal is zero, stay where they are: with them there is no factor."""
        curved = np.flatnonzero(np.diag(self.H)[support] > 0.0)
        H = self.H[np.ix_(support[curved], support[curved])]
        scale = 1.0 / np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))
        H *= scale[:, None]
        H *= scale
        solution = np.zeros(len(right))
        for ridge in (0.0, 1e-13, 1e-10, 1e-7):
            H[np.diag_indices(len(H))] = 1.0 + ridge
            try:
                factor = linalg.cho_factor(H, lower=True, check_finite=False)
            except linalg.LinAlgError:
                continue
            if not np.square(np.diag(factor[0])).min(initial=1.0) > 8.0 * len(H) * UNIT_ROUNDOFF:
                continue  # a pivot that is nothing but rounding makes an endless step
            solution[curved] = scale * linalg.cho_solve(factor, scale * right[curved], check_finite=False)
            break
        return solution


def _least_along(u: Array, direction: Array, l1: Array, slope: float, curvature: float) -> Array:
    """The least point on the line u + t direction, 0 <= t <= 1, of slope t + curvature t^2 / 2 + sum_j l1_j |u_j + t d_j|. Its
    slope rises by 2 l1_j |d_j| where element j changes its sign. Where the minimum is such a point, the element is zero."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        crossing = np.where(u * direction < 0.0, -u / direction, np.inf)
        order = np.argsort(crossing)
        order = order[: np.searchsorted(crossing[order], 1.0, side="right")]
        rises = 2.0 * np.cumsum(l1[order] * np.abs(direction[order]))
    first = slope + float(l1 @ (np.sign(u) * direction))
    after = first + curvature * crossing[order] + rises
    k = int(np.searchsorted(after >= 0.0, True))
    behind = rises[k - 1] if k else 0.0
    t = min(1.0, -(first + behind) / curvature) if curvature > 0.0 else 1.0
    if k == len(order) or t < crossing[order[k]]:
        return np.asarray(u + t * direction)
    target = np.asarray(u + crossing[order[k]] * direction)
    target[order[k]] = 0.0
    return target

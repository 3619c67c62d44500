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
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy


class QuadraticModel(NamedTuple):
    """H, and the weights lambda of the L1 norm."""

    H: Array
    l1: Array

    def best_step(self, w: Array, gradient: Array, policy: SparseNewtonPolicy) -> Array:
        """The step d = u - w to the u that minimises the model, or almost: the last steps lower it by ``forcing``^2 of what the
        first ones did. After a linear system on the support all coordinates are looked at again. Where columns are large d
        counts to more digits than u can hold, so that the last system adds to d alone."""
        from maxmargin.solvers.linear.sparse_newton.column_loops import descend

        u, gradient = w.copy(), gradient.copy()
        moved = np.empty(len(w), np.int64)
        tol = policy.forcing * self._first_step(w, gradient)
        for turn in range(policy.most_turns):
            check_point()
            updates = self._affordable_updates(u, policy)
            worst, _ = descend((self.H, self.l1), u, gradient, moved, (tol, updates))
            if worst <= tol and turn > 0:
                break
            self._solve_on_support(u, gradient)
        return (u - w) + self._polish(u, gradient)

    def _polish(self, u: Array, gradient: Array) -> Array:
        """The Newton step on the support, if it changes no sign."""
        added, support = np.zeros(len(u)), np.flatnonzero(u)
        signs = np.sign(u[support])
        if len(support):
            direction = self._solution(support, -(gradient[support] + self.l1[support] * signs))
            if np.all((u[support] + direction) * signs > 0.0):
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
        """A Newton step on the elements that are not zero. What changes its sign becomes zero, if that lowers the model; else
        the step ends where the first sign changes."""
        support = np.flatnonzero(u)
        if len(support) == 0:
            return
        signs = np.sign(u[support])
        slope = gradient[support] + self.l1[support] * signs
        direction = self._solution(support, -slope)
        if not float(direction @ slope) < 0.0:
            return
        target = u[support] + direction
        target[target * signs < 0.0] = 0.0
        if self._change(support, u, target, gradient) > 0.0:
            target = _until_first_crossing(u[support], direction)
        gradient += (target - u[support]) @ self.H[support]
        u[support] = target

    def _solution(self, support: Array, right: Array) -> Array:
        """H_SS^-1 right, by a Cholesky factor of H_SS scaled to a diagonal of ones, with a ridge where it is singular."""
        H = self.H[np.ix_(support, support)]
        scale = 1.0 / np.sqrt(np.maximum(np.diag(H), np.finfo(float).tiny))
        H *= scale[:, None]
        H *= scale
        for ridge in (0.0, 1e-13, 1e-10, 1e-7):
            H[np.diag_indices(len(H))] = 1.0 + ridge
            try:
                factor = linalg.cho_factor(H, lower=True, check_finite=False)
            except linalg.LinAlgError:
                continue
            return np.asarray(scale * linalg.cho_solve(factor, scale * right, check_finite=False))
        return np.zeros(len(right))

    def _change(self, support: Array, u: Array, target: Array, gradient: Array) -> float:
        """By how much the model changes from u to ``target`` on the support."""
        d = target - u[support]
        curved = 0.5 * float(d @ self.H[np.ix_(support, support)] @ d)
        lasso = float(self.l1[support] @ (np.abs(target) - np.abs(u[support])))
        return float(gradient[support] @ d) + curved + lasso


def _until_first_crossing(u: Array, direction: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = np.where(u * direction < 0.0, -u / direction, np.inf)
    first = int(np.argmin(crossing))
    share = min(1.0, float(crossing[first]))
    target = np.asarray(u + share * direction)
    if share < 1.0:
        target[first] = 0.0
    return target

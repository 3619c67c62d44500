"""Newton directions without a matrix, for many features: conjugate gradients on (R + rate S) d = -g.

S = sum over the free samples of C_i x_i x_i' enters only through products with vectors, two passes over the free rows each. The
preconditioner is the diagonal. It is exact where no two features share a row: on one-hot columns a few dozen products are
enough, however frequent each column is. A direction that is cut short still is a descent direction. The residual asked for
falls with the gradient, so that the last Newton steps converge superlinearly (R. S. Dembo, S. C. Eisenstat, T. Steihaug,
"Inexact Newton methods", SIAM J. Numer. Anal. 19, 1982)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array, OneValueRows
from maxmargin.data.threads import Crew
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.newton.direction_costs import DirectionCosts
from maxmargin.solvers.linear.newton.hessian import Regulariser
from maxmargin.solvers.linear.newton.policy import NewtonPolicy


class Smoothed(NamedTuple):
    """The combination of directions with the least residual. Conjugate gradients lower F at every step, while their residual
    rises and falls; the inner gap is |residual|^2 / 2, so a mean of two directions can be good enough where neither is (W.
    Schoenauer, "Scientific Computing on Vector Computers", 1987)."""

    direction: Array
    residual: Array

    def with_new(self, direction: Array, residual: Array) -> Smoothed:
        change = residual - self.residual
        share = -float(self.residual @ change) / float(change @ change)
        return Smoothed(self.direction + share * (direction - self.direction), self.residual + share * change)

    @property
    def gap(self) -> float:
        return 0.5 * float(self.residual @ self.residual)


class ProductHessian:
    """The interface of ``FreeHessian``, implemented by products with vectors."""

    in_float32 = is_careful = False
    is_rough = True
    """Whether directions approximate Newton's direction."""

    def __init__(self, problem: LinearProblem, C: Array, crew: Crew, policy: NewtonPolicy) -> None:
        from maxmargin.solvers.linear.newton import pass_loops as newton

        self.problem, self.C, self.crew, self.policy = problem, C, crew, policy
        self.rows = problem.rows.compact(problem.intercept_scaling)
        self._costs = DirectionCosts.of(problem, policy)
        self._add_diagonal: Any = newton.add_hessian_diagonal
        is_short = isinstance(self.rows, OneValueRows)
        self._add_product: Any = newton.short_add_hessian_product if is_short else newton.add_hessian_product
        self.pending: list[Array] = []
        self._free = np.empty(0, np.int64)
        self._diagonal = np.zeros(problem.rows.n_features + 1)
        self._sums = np.empty((crew.size, problem.rows.n_features + 1))
        self._first_norm = self._enough = 0.0
        self.residual = np.empty(0)
        self.n_products = self.n_directions = 0

    def take_costs(self, weight: Array, factor: float) -> None:
        """Continue with other costs: those of before times ``factor``."""
        self.C = weight
        self._diagonal *= factor
        self._first_norm = self._enough = 0.0

    def note(self, changed: Array) -> None:
        if len(changed):
            self.pending.append(changed.copy())

    def update(self, free: Array, n_free: int) -> None:
        """Take over which samples are free."""
        if self.pending:
            changed = np.concatenate(self.pending)
            self._list(free)
            self._diagonal = np.maximum(0.0, self._diagonal + self._summed(self._add_diagonal, changed))

    def rebuild(self, free: Array) -> None:
        self._list(free)
        self._diagonal = self._summed(self._add_diagonal, self._free)

    def _list(self, free: Array) -> None:
        """The free samples as a list. Testing each row for being free would cost a seventh of a product."""
        self.pending.clear()
        self._free = np.flatnonzero(free)

    def aim(self, gap: float) -> None:
        """Set the inner gap |g|^2 / 2 at which a direction is good enough. Where F is quadratic along the direction, g at its
        end is the residual."""
        self._enough = gap

    def solve(self, rate: float, regulariser: Regulariser, gradient: Array, free: Array) -> Array | None:
        """The direction -(R + rate S)^-1 g to the precision that is worth its cost; None if it overflows. ``residual`` becomes
        what is left of -g.

        A direction that lowers F by less than the gap that is good enough is found to that gap: only the dual point is still
        missing there."""
        self.n_directions += 1
        inverse = 1.0 / (regulariser.ones + rate * self._diagonal + np.finfo(float).tiny)
        direction, residual = np.zeros_like(gradient), -gradient
        scaled = inverse * residual
        along, sqnorm = scaled, float(residual @ scaled)
        self._first_norm = max(self._first_norm, sqnorm)
        enough = self._residual_share(sqnorm) ** 2 * sqnorm
        smooth: Smoothed | None = None
        gain = 0.0
        for _ in range(self._most_products):
            check_point()
            product = regulariser.times(along) + rate * self._times(along)
            curvature = float(along @ product)
            if not curvature > 0.0:
                break
            length = sqnorm / curvature
            gain += 0.5 * length * sqnorm
            direction += length * along
            residual = residual - length * product
            scaled = inverse * residual
            previous, sqnorm = sqnorm, float(residual @ scaled)
            gap = 0.5 * float(residual @ residual)
            if gap <= self._enough or (sqnorm <= enough and gain > self._enough):
                break
            if gap <= self.policy.products.near * self._enough:
                smooth = smooth.with_new(direction, residual) if smooth else Smoothed(direction.copy(), residual)
                if smooth.gap <= self._enough:
                    self.residual = smooth.residual
                    return smooth.direction
            along = scaled + (sqnorm / previous) * along
        self.residual = residual
        return direction if np.isfinite(direction).all() else None

    def _residual_share(self, sqnorm: float) -> float:
        """The residual that ends the iteration, relative to a gradient of this squared norm."""
        if not self._first_norm > 0.0:
            return self.policy.products.loosest
        wanted = (sqnorm / self._first_norm) ** self.policy.products.forcing
        return min(self.policy.products.loosest, max(self.policy.products.tightest, wanted))

    @property
    def _most_products(self) -> int:
        policy = self.policy.products
        affordable = policy.elements_a_solve // max(1, 2 * self.problem.rows.n_stored)
        if self.may_become_matrix:
            affordable = min(affordable, int(self._products_allowed))
        return max(policy.fewest_products, min(policy.most_products, affordable))

    @property
    def may_become_matrix(self) -> bool:
        """Whether a matrix with so many weights can be factored."""
        return self.problem.n_weights <= self.policy.matrix.most_matrix_weights

    @property
    def is_dearer_than_matrix(self) -> bool:
        """Whether the products took so long, or lead so slowly, that further steps are better made with the matrix."""
        is_slow = self.n_directions >= self.policy.directions.most_directions
        return self.may_become_matrix and (is_slow or self.n_products >= self._products_allowed)

    @property
    def _products_allowed(self) -> float:
        return self.policy.directions.patience * self._costs.products_prepaid(self.n_directions)

    def _times(self, v: Array) -> Array:
        """S v"""
        self.n_products += 1
        return self._summed(self._add_product, self._free, v)

    def _summed(self, kernel: Any, samples: Array, *arguments: Array) -> Array:
        """A sum over the given samples, divided among the threads."""
        self._sums[:] = 0.0
        known = (self.rows, samples, self.C, *arguments)
        self.crew.share(len(samples), lambda k, *part: kernel(*known, self._sums[k], *part))
        return np.asarray(self._sums.sum(axis=0))

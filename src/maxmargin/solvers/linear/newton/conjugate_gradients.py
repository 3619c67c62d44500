"""Newton directions without a matrix, for many features: conjugate gradients on (R + rate S) d = -g.

S = sum over the free samples of C_i x_i x_i' enters only through products with vectors, two passes over the free rows each.
The preconditioner is the diagonal, which is all of S where no two features share a row: on one-hot columns a few dozen
products are enough, whatever the counts of their values. A direction that is cut short is a direction of descent all the same.
The residual asked for falls with the gradient, so that the last Newton steps converge superlinearly (R. S. Dembo, S. C.
Eisenstat, T. Steihaug, "Inexact Newton methods", SIAM J. Numer. Anal. 19, 1982)."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array, OneValueRows
from maxmargin.data.threads import Crew
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.newton.hessian import Regulariser

LOOSEST, TIGHTEST, FORCING = 0.1, 1e-8, 0.25
"""The residual that ends the iteration, relative to the gradient: at first, at the least, and between them the power of
|g|^2, relative to the first, that it follows. Of six choices on generated one-hot columns and text this one was never far from
the best."""
ELEMENTS_A_SOLVE = 200_000_000
"""Stored elements that the products of one direction may touch: about half a second, so that Ctrl-C and limits are heard."""
FEWEST_PRODUCTS, MOST_PRODUCTS = 10, 1000
"""Products for one direction, whatever the number of elements says."""


class ProductHessian:
    """The same questions as to ``FreeHessian``, answered by products."""

    in_float32 = is_careful = False
    is_rough = True
    """Whether a direction is only about Newton's."""

    def __init__(self, problem: LinearProblem, C: Array, crew: Crew) -> None:
        from maxmargin.solvers.linear.newton import pass_loops as newton

        self.problem, self.C, self.crew = problem, C, crew
        self.rows = problem.rows.compact(problem.intercept_scaling)
        self._add_diagonal: Any = newton.add_hessian_diagonal
        is_short = isinstance(self.rows, OneValueRows)
        self._add_product: Any = newton.add_hessian_product_in_order if is_short else newton.add_hessian_product
        self.pending: list[Array] = []
        self._free = np.empty(0, np.int64)
        self._diagonal = np.zeros(problem.rows.n_features + 1)
        self._sums = np.empty((crew.size, problem.rows.n_features + 1))
        self._first_norm = self._enough = 0.0

    def note(self, changed: Array) -> None:
        if len(changed):
            self.pending.append(changed.copy())

    def update(self, free: Array, n_free: int) -> None:
        """Learn who is free."""
        if self.pending:
            changed = np.concatenate(self.pending)
            self._list(free)
            self._diagonal = np.maximum(0.0, self._diagonal + self._summed(self._add_diagonal, changed))

    def rebuild(self, free: Array) -> None:
        self._list(free)
        self._diagonal = self._summed(self._add_diagonal, self._free)

    def _list(self, free: Array) -> None:
        """The free samples as a list: a test for each row of whether it is free costs a seventh of a product."""
        self.pending.clear()
        self._free = np.flatnonzero(free)

    def aim(self, gap: float) -> None:
        """A direction after which the inner gap |g|^2 / 2 would be at most this is enough. Where F is quadratic along the
        direction, g at its end is the residual."""
        self._enough = gap

    def solve(self, rate: float, regulariser: Regulariser, gradient: Array, free: Array) -> Array | None:
        """The direction -(R + rate S)^-1 g, as far as it is worth; None if it overflows."""
        inverse = 1.0 / (regulariser.ones + rate * self._diagonal + np.finfo(float).tiny)
        direction, residual = np.zeros_like(gradient), -gradient
        scaled = inverse * residual
        along, sqnorm = scaled, float(residual @ scaled)
        self._first_norm = max(self._first_norm, sqnorm)
        share = min(LOOSEST, max(TIGHTEST, (sqnorm / self._first_norm) ** FORCING)) if self._first_norm > 0.0 else LOOSEST
        enough = share**2 * sqnorm
        for _ in range(self._most_products):
            check_point()
            product = regulariser.times(along) + rate * self._times(along)
            curvature = float(along @ product)
            if not curvature > 0.0:
                break
            length = sqnorm / curvature
            direction += length * along
            residual = residual - length * product
            scaled = inverse * residual
            previous, sqnorm = sqnorm, float(residual @ scaled)
            if sqnorm <= enough or 0.5 * float(residual @ residual) <= self._enough:
                break
            along = scaled + (sqnorm / previous) * along
        return direction if np.isfinite(direction).all() else None

    @property
    def _most_products(self) -> int:
        return max(FEWEST_PRODUCTS, min(MOST_PRODUCTS, ELEMENTS_A_SOLVE // max(1, 2 * self.problem.rows.n_stored)))

    def _times(self, v: Array) -> Array:
        """S v"""
        return self._summed(self._add_product, self._free, v)

    def _summed(self, kernel: Any, samples: Array, *arguments: Array) -> Array:
        """What the threads add up, each over its share of these samples."""
        self._sums[:] = 0.0
        known = (self.rows, samples, self.C, *arguments)
        self.crew.share(len(samples), lambda k, *part: kernel(*known, self._sums[k], *part))
        return np.asarray(self._sums.sum(axis=0))

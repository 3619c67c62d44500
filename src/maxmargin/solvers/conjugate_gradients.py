"""Newton directions without a matrix, for many features: conjugate gradients on (R + rate S) d = -g.

S = sum over the free samples of C_i x_i x_i' enters only through products with vectors, two passes over the free rows each. The
preconditioner is the diagonal, which is all of S where no two features share a row: on one-hot columns a few dozen products are
enough, whatever the counts of their values. A direction that is cut short is a direction of descent all the same; the residual
asked for falls with the gradient, so that the last Newton steps converge superlinearly (R. S. Dembo, S. C. Eisenstat, T. Steihaug,
"Inexact Newton methods", SIAM J. Numer. Anal. 19, 1982)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data import Array
from maxmargin.problem import LinearProblem
from maxmargin.solvers.hessian import Regulariser

LOOSEST, TIGHTEST = 0.1, 1e-8
"""The residual that ends the iteration, relative to the gradient, at first and at the least."""
ELEMENTS_A_SOLVE = 200_000_000
"""Stored elements that the products of one direction may touch: about half a second, so that Ctrl-C and limits are heard."""
FEWEST_PRODUCTS, MOST_PRODUCTS = 10, 1000
"""Products for one direction, whatever the number of elements says."""


class ProductHessian:
    """The same questions as to ``FreeHessian``, answered by products."""

    in_float32 = False

    def __init__(self, problem: LinearProblem, C: Array) -> None:
        self.problem, self.C = problem, C
        self.pending: list[Array] = []
        self._rows: Any = None
        self._first_norm = 0.0

    def note(self, changed: Array) -> None:
        if len(changed):
            self.pending.append(changed)

    def update(self, free: Array, n_free: int) -> None:
        """Take the free rows out of X when they have changed."""
        if self.pending or self._rows is None:
            self.rebuild(free)

    def rebuild(self, free: Array) -> None:
        self.pending.clear()
        self._rows = self.problem.rows.matrix[free]
        self._weights = self.C[free]
        squares = self._rows.multiply(self._rows) if sparse.issparse(self._rows) else np.square(self._rows)
        self._diagonal = np.append(squares.T @ self._weights, self.problem.intercept_scaling**2 * self._weights.sum())

    def solve(self, rate: float, regulariser: Regulariser, gradient: Array, free: Array) -> Array | None:
        """The direction -(R + rate S)^-1 g, as far as it is worth; None if it overflows."""
        inverse = 1.0 / (regulariser.ones + rate * self._diagonal + np.finfo(float).tiny)
        direction, residual = np.zeros_like(gradient), -gradient
        scaled = inverse * residual
        along, sqnorm = scaled, float(residual @ scaled)
        self._first_norm = max(self._first_norm, sqnorm)
        share = min(LOOSEST, max(TIGHTEST, np.sqrt(sqnorm / self._first_norm))) if self._first_norm > 0.0 else LOOSEST
        enough = share**2 * sqnorm
        for _ in range(self._most_products):
            product = regulariser.times(along) + rate * self._times(along)
            curvature = float(along @ product)
            if not curvature > 0.0:
                break
            length = sqnorm / curvature
            direction += length * along
            residual = residual - length * product
            scaled = inverse * residual
            previous, sqnorm = sqnorm, float(residual @ scaled)
            if sqnorm <= enough:
                break
            along = scaled + (sqnorm / previous) * along
        return direction if np.isfinite(direction).all() else None

    @property
    def _most_products(self) -> int:
        return max(FEWEST_PRODUCTS, min(MOST_PRODUCTS, ELEMENTS_A_SOLVE // max(1, 2 * self.problem.rows.n_stored)))

    def _times(self, v: Array) -> Array:
        """S v"""
        scaling = self.problem.intercept_scaling
        outputs = self._weights * (self._rows @ v[:-1] + scaling * v[-1])
        return np.append(self._rows.T @ outputs, scaling * outputs.sum())

r"""A regression with few free samples, solved to all digits that w and alpha can hold.

Where as many samples as there are weights, or fewer, lie on the kinks of their losses, the objective may be far below the
rounding of a residual. One row with a time in milliseconds, x = 1.6e12, and the target 1 has the objective 2e-25, and a
residual in the last digit of the target costs 1e-16 C. Then only a residual without that digit will do.

**The dual point.** The free samples F are those whose alpha is inside its box. Their residuals are known,

.. math:: t_i - w(\alpha) \cdot x_i - b = \rho_i = \operatorname{sign}(\alpha_i) e + D_{ii} \alpha_i ,

linear equations in :math:`\alpha_F` with the matrix :math:`X_F X_F' + D_F`. What they lack is computed exactly, so that a few
rounds of refinement give all digits of alpha. A sample that leaves its box ends at its bound; a sample on the wrong side of its
kink becomes free. A free intercept asks for :math:`\sum_i \alpha_i = 0`: the equations are multiplied by a basis of the vectors
whose sum is zero.

**The primal point** is w(alpha), rounded and mended: see ``weight_mending.py``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.rounding import exact_sums
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.linear.row_factor import RowFactor


@dataclass(frozen=True)
class ExactPolicy:
    """When a pair is made exact, and by how much work."""

    most_elements: int = 1 << 16
    """Elements of X, zeros counted, up to which it is tried: an exact sum over all of them takes 15 ms."""
    most_products: float = 1e7
    """Weights times the square of the free samples up to which it is tried. An estimate, not measured."""
    most_changes: int = 10
    """Times that the set of free samples is changed. A solver's alpha mostly has the right set."""
    refinements: int = 4
    """Rounds that solve the equations of one set."""
    enough: float = 1e-3
    """Share of the residual that a round must leave at most for another to follow."""
    cutoff: float = 1e-14
    """Share of the longest row below which what is left of a row counts as zero: the row is a sum of others."""
    group: float = 2.0**-6
    """Share of the coarsest digit from which columns of weights are held together."""
    tries: int = 4
    """Columns of which one is held, where the others could not mend all residuals without the whole group."""
    within: float = 16.0
    """Units in the last place of the width of a tube by which residuals stay inside."""
    far: float = 64.0
    """The same in multiples of ``within``, by which a squared loss must push a residual out for it to stay outside: the error
    of the loss is then below a thousandth of it."""


DEFAULT = ExactPolicy()


class Pair(NamedTuple):
    w: Array
    alpha: Array


def can_be_exact(problem: LinearProblem, policy: ExactPolicy = DEFAULT) -> bool:
    """Whether the problem is a regression of not too many elements."""
    is_plain = problem.loss.is_regression and problem.offset_prices is None and not problem.penalty.has_kink
    return is_plain and problem.n_samples * problem.n_weights <= policy.most_elements


def exact_pair(problem: LinearProblem, alpha: Array, policy: ExactPolicy = DEFAULT) -> Pair | None:
    """The pair that the free samples of ``alpha`` lead to. None where there are no free samples, or too many."""
    from maxmargin.solvers.linear.weight_mending import WeightMending

    with np.errstate(all="ignore"):
        try:
            solve = ExactSolve(problem, policy)
            found = solve.dual_point(alpha)
            return None if found is None else Pair(WeightMending(solve, found).w(), found.alpha)
        except (OverflowError, ValueError, np.linalg.LinAlgError):
            return None


class DualPoint(NamedTuple):
    """alpha, its free samples with their signs, and w(alpha) in two parts, of which the first is rounded."""

    alpha: Array
    free: Array
    signs: Array
    parts: tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class ExactSolve:
    """The equations of the free samples, solved by refinement."""

    problem: LinearProblem
    policy: ExactPolicy = DEFAULT

    @cached_property
    def X(self) -> Array:
        """The rows, with the constant feature of the intercept if there is one."""
        X, scaling = np.asarray(self.problem.rows.dense(), dtype=np.float64), self.problem.intercept_scaling
        return X if scaling == 0.0 else np.column_stack([X, np.full(len(X), scaling)])

    @cached_property
    def columns(self) -> Array:
        return np.ascontiguousarray(self.X.T)

    @property
    def is_balanced(self) -> bool:
        """Whether the intercept is free, so that the sum of alpha must be zero."""
        return not self.problem.penalizes_intercept

    def dual_point(self, alpha: Array) -> DualPoint | None:
        """The alpha whose free samples are on their kinks, and the others on the right sides of theirs."""
        alpha = alpha.copy()
        for _ in range(self.policy.most_changes):
            check_point()
            free = self._free(alpha)
            if not len(free) or self.X.shape[1] * float(len(free)) ** 2 > self.policy.most_products:
                return None
            found = self._solved(alpha, free)
            if not self._changes(found):
                return found
            alpha = found.alpha
        return None

    def _free(self, alpha: Array) -> Array:
        box = self.problem.box
        return np.flatnonzero((alpha > box.L) & (alpha < box.U) & ((alpha != 0.0) | (box.e == 0.0)))

    def _solved(self, alpha: Array, free: Array) -> DualPoint:
        rows, squares = (self.X[free, :-1] if self.is_balanced else self.X[free]), self.problem.box.D[free]
        equations, signs = Equations.of(rows, squares, self), np.sign(alpha[free])
        offset, last = 0.0, np.inf
        for _ in range(self.policy.refinements):
            found = DualPoint(alpha, free, signs, self._weights(alpha, offset))
            missing = self.missing(found, found.parts)
            size = float(np.abs(missing).max())
            if not size < self.policy.enough * last:
                break
            last, step = size, equations.solve(missing, -float(alpha.sum()))
            alpha[free] += step.alpha
            offset += step.offset
        return self._with_offset(found._replace(parts=self._weights(alpha, offset)))

    def _with_offset(self, found: DualPoint) -> DualPoint:
        """The same with a free offset at which the residuals are right in the mean."""
        if self.is_balanced:
            found.parts[0][-1] += float(np.mean(self.missing(found, found.parts))) / self.problem.intercept_scaling
        return found

    def _weights(self, alpha: Array, offset: float) -> tuple[Array, Array]:
        """w(alpha), rounded, and what that lacks. A free intercept is an element of the first."""
        first = exact_sums(self.columns, alpha)
        rest = exact_sums(self.columns, alpha, terms=[-first])
        if self.is_balanced:
            first[-1], rest[-1] = offset / self.problem.intercept_scaling, 0.0
        return first, rest

    def missing(self, point: DualPoint, parts: tuple[Array, ...], is_inside: bool = False) -> Array:
        """What the residuals of the free samples are above those that their alpha asks for. With ``is_inside`` they are to be
        some digits inside a tube, unless they are far outside."""
        e, squares = self.problem.box.e, (self.problem.box.D * point.alpha)[point.free]
        digits = self.policy.within * UNIT_ROUNDOFF * e
        inner = np.where(np.abs(squares) <= self.policy.far * digits, digits if is_inside else 0.0, 0.0)
        terms = [self.problem.targets[point.free], (inner - e) * point.signs, -squares]
        return exact_sums(self.X[point.free], *(-part for part in parts), terms=terms)

    def _changes(self, found: DualPoint) -> bool:
        """Change the set of free samples, in place, where a sample left its box or is on the wrong side of its kink. Returned
        is whether there was one."""
        box, alpha = self.problem.box, found.alpha
        residuals = exact_sums(self.X, *(-part for part in found.parts), terms=[self.problem.targets])
        inside = np.zeros(len(alpha), bool)
        inside[found.free] = True
        left = inside & ((alpha < box.L) | (alpha > box.U))
        alpha[:] = np.clip(alpha, box.L, box.U)
        turned = found.free[(np.sign(alpha[found.free]) != found.signs) & (box.e > 0.0)]
        alpha[turned] = 0.0
        slack = self.policy.within * UNIT_ROUNDOFF * box.e
        wrong = ~inside & (
            ((alpha == box.U) & (residuals < box.e - slack))
            | ((alpha == box.L) & (residuals > slack - box.e))
            | ((alpha == 0.0) & (np.abs(residuals) > box.e + slack))
        )
        alpha[wrong] += np.sign(residuals[wrong]) * self._nudges(alpha)[wrong]
        return bool(left.any() or len(turned) or wrong.any())

    def _nudges(self, alpha: Array) -> Array:
        """Changes of alpha that are too small to count, and make a sample free."""
        return UNIT_ROUNDOFF * np.maximum(np.abs(alpha), np.abs(alpha).max())


class Step(NamedTuple):
    alpha: Array
    offset: float


class Equations(NamedTuple):
    """(A A') step = missing, or with a free offset the same for steps whose sum is given. A has a row for each free sample."""

    A: Array
    basis: Array | None
    factor: RowFactor

    @classmethod
    def of(cls, rows: Array, squares: Array, solve: ExactSolve) -> Equations:
        basis = None
        if solve.is_balanced:
            rows, basis = rows - rows.mean(axis=0), _zero_sums(len(rows))
        A = np.hstack([rows, np.diag(np.sqrt(squares))]) if squares.any() else rows
        return cls(A, basis, RowFactor.of(A if basis is None else basis.T @ A, solve.policy.cutoff))

    def solve(self, missing: Array, total: float) -> Step:
        if self.basis is None:
            return Step(self.factor.normal(missing), 0.0)
        even = np.full(len(missing), total / len(missing))
        step = even + self.basis @ self.factor.normal(self.basis.T @ (missing - self._times(even)))
        return Step(step, float(np.mean(missing - self._times(step))))

    def _times(self, step: Array) -> Array:
        return np.asarray(self.A @ (self.A.T @ step))


def _zero_sums(n: int) -> Array:
    """An orthonormal basis of the vectors whose sum is zero: columns of a reflection of the vector of ones."""
    reflected = np.full(n, 1.0 / np.sqrt(n))
    reflected[0] += 1.0
    return np.asarray((np.eye(n) - np.outer(reflected, reflected) / reflected[0])[:, 1:])

r"""Alpha mended in levels (``level_mending.py``), in the columns of X or in monomials, with a sum of alpha that is given.

A machine of nu-SVC divided by rho is one of C-SVC for which :math:`\sum_i \alpha_i = C T`, and what the sum lacks or exceeds
counts in the gap. So the sum is one more equation beside those of ``column_mending.py`` and ``moment_mending.py``. It is
counted like the sum of the signed alpha, as the weight of a column that is as long as the rows. The changes of single elements
at the end are tiny, and leave the sum alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from maxmargin.certificate.monomials import MonomialJudge
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.linear.column_mending import DEFAULT, ColumnMending
from maxmargin.solvers.linear.level_mending import LevelPolicy
from maxmargin.solvers.linear.moment_mending import MomentMending


def can_be_mended_to_size(problem: LinearProblem) -> bool:
    """Whether there are not too many elements."""
    return problem.n_samples * problem.n_weights <= DEFAULT.most_elements


def mended_to_size(problem: LinearProblem, w: Array, alpha: Array, size: float) -> Array:
    """alpha with changes that bring w(alpha) to w and the sum of alpha to ``size``, as far as the digits of float64 allow."""
    return _nearest(SizedMending(w, alpha, linear=problem, size=size))


def coefficients_mended_to_size(problem: LinearProblem, w: Array, beta: Array, size: float) -> Array:
    """The same for the signed variables of a regression, whose sizes have the given sum. A sample whose variable is zero is
    taken on the side of its residual: a tiny variable costs the least there."""
    residuals = problem.targets - problem.margins(w)
    signs = np.where(beta != 0.0, np.sign(beta), np.where(residuals < 0.0, -1.0, 1.0))
    known = problem.rows, signs.astype(np.int8), problem.C, Hinge(), problem.intercept_scaling, False
    classes = LinearProblem(*known, has_exact_rows=False)
    return signs * _nearest(SizedMending(w, np.abs(beta), linear=classes, size=size, policy=LevelPolicy(negligible=0.0)))


def moments_mended_to_size(judge: MonomialJudge, w: Array, alpha: Array, size: float) -> Array:
    """The same in the monomials of a polynomial kernel."""
    return _nearest(SizedMoments(w, alpha, judge=judge, size=size))


def _nearest(mending: SizedMending | SizedMoments) -> Array:
    with np.errstate(all="ignore"):
        return min((mending.mended(fall) for fall in mending.attempts()), key=mending.distance)


@dataclass(frozen=True, eq=False)
class SizedMending(ColumnMending):
    size: float = field(kw_only=True)

    @cached_property
    def _sizes(self) -> Array:
        sizes = super()._sizes
        return np.append(sizes, sizes[-1])

    @cached_property
    def _rows(self) -> Array:
        return np.vstack([super()._rows, np.ones(self.linear.n_samples)])

    def _exact_residual(self, alpha: Array) -> Array:
        return np.append(super()._exact_residual(alpha), math.fsum([self.size, *-alpha]))


@dataclass(frozen=True, eq=False)
class SizedMoments(MomentMending):
    size: float = field(kw_only=True)

    @cached_property
    def _sizes(self) -> Array:
        sizes = super()._sizes
        return np.append(sizes, sizes.max())

    @cached_property
    def _rows(self) -> Array:
        return np.vstack([super()._rows, np.ones(self.problem.n_samples)])

    def _exact_residual(self, alpha: Array) -> Array:
        return np.append(super()._exact_residual(alpha), math.fsum([self.size, *-alpha]))

    def distance(self, alpha: Array) -> float:
        """About |w - w(alpha)|."""
        return float(np.linalg.norm(self._exact_residual(alpha) * self._sizes))

r"""Alpha mended in levels (``level_mending.py``), in the columns of X.

Columns far from zero for their spread make all rows nearly parallel. With the centre c of the columns,
:math:`r = \sum_i \alpha_i \sigma_i` and the weight b of the intercept's constant feature, :math:`w(\alpha)` is

.. math:: \sum_i \alpha_i \sigma_i (x_i - c) + r c .

So the equations are those of the centred columns, and one for r: it is to be b / scaling if the intercept is penalised, and
zero if it is free. An error of r costs as much as :math:`|c|` and the longest row say."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from maxmargin.certificate.rounding import two_product
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.dual_mending import mended_singly
from maxmargin.solvers.linear.level_mending import LevelMending
from maxmargin.solvers.linear.long_sums import RunningProducts, rounded
from maxmargin.solvers.presolve import exact_centre


@dataclass(frozen=True)
class ColumnPolicy:
    """When alpha is mended in levels."""

    most_elements: int = 1 << 20
    """Elements of X, zeros counted, up to which it is done. A round of 2^20 elements takes 0.1 s, and there are ten or so."""


DEFAULT = ColumnPolicy()


def can_be_mended_in_levels(problem: LinearProblem, policy: ColumnPolicy = DEFAULT) -> bool:
    """Whether there are two classes, no price for the offset, more samples than equations, and not too many elements."""
    is_plain = not problem.loss.is_regression and problem.offset_prices is None and not problem.penalty.has_kink
    n, d = problem.n_samples, problem.n_weights
    return is_plain and d < n and n * d <= policy.most_elements


def mended_in_levels(problem: LinearProblem, w: Array, alpha: Array) -> Array:
    """alpha with changes that bring w(alpha) to w, as far as the digits of float64 allow."""
    with np.errstate(all="ignore"):
        return ColumnMending(w, alpha, linear=problem).best()


@dataclass(frozen=True, eq=False)
class ColumnMending(LevelMending):
    linear: LinearProblem = field(kw_only=True)

    @property
    def problem(self) -> LinearProblem:
        return self.linear

    @cached_property
    def _centre(self) -> Array:
        X = self.linear.rows.dense()
        if self.linear.intercept_scaling == 0.0:
            return np.zeros(X.shape[1])
        return exact_centre(X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64))

    @cached_property
    def _columns(self) -> Array:
        """The centred columns, one after another in memory."""
        return np.asfortranarray(self.linear.rows.dense() - self._centre)

    @cached_property
    def _products(self) -> RunningProducts:
        return RunningProducts(self._columns)

    @property
    def _has_sum(self) -> bool:
        """Whether one of the equations is for r."""
        return self.linear.intercept_scaling != 0.0

    @property
    def _wanted_sum(self) -> float:
        is_wanted = self._has_sum and self.linear.penalizes_intercept
        return float(self.w[-1]) / self.linear.intercept_scaling if is_wanted else 0.0

    @cached_property
    def _sizes(self) -> Array:
        sizes = np.abs(self._columns).max(axis=0)
        sizes[sizes == 0.0] = 1.0
        longest = max(float(np.linalg.norm(self._centre)), float(np.linalg.norm(sizes)), self.linear.intercept_scaling)
        return np.append(sizes, longest) if self._has_sum else sizes

    @cached_property
    def _rows(self) -> Array:
        rows = (self._columns / self._sizes[: self._columns.shape[1]]).T
        rows = np.vstack([rows, np.ones(rows.shape[1])]) if self._has_sum else rows
        return rows * self.linear.signs

    def _exact_residual(self, alpha: Array) -> Array:
        signed, d, wanted = -alpha * self.linear.signs, self._columns.shape[1], self._wanted_sum
        others = np.array([self.w[:d], *two_product(np.full(d, -wanted), self._centre)])
        found = rounded(np.concatenate([self._products.of(signed), others]))
        found = np.append(found, math.fsum([*signed, wanted])) if self._has_sum else found
        found[:d] /= self._sizes[:d]
        return found

    def mended(self, fall: float) -> Array:
        """By least squares, and then by single elements: where no alpha is tiny, that is the only way to finer digits."""
        alpha = super().mended(fall)
        n_equations = self._columns.shape[1] + int(self._has_sum)
        missing, longest = (self._exact_residual(alpha) * self._sizes)[:n_equations], float(self._sizes[-1])
        scaling = longest if self._has_sum else 0.0
        rows = Rows(np.ascontiguousarray(self._columns))
        centred = replace(self.linear, rows=rows, intercept_scaling=scaling, penalizes_intercept=True)
        return mended_singly(centred, missing, alpha)

    def best(self) -> Array:
        """The alpha of the first ratio that leaves a distance that costs next to nothing, or of the best one."""
        best, least = self.alpha, math.inf
        for fall in self.attempts():
            alpha = self.mended(fall)
            distance = self.distance(alpha)
            if distance < least:
                best, least = alpha, distance
            if 0.5 * least * least <= self._negligible_cost:
                break
        return best

    def distance(self, alpha: Array) -> float:
        """About |w - w(alpha)|."""
        return float(np.linalg.norm(self._exact_residual(alpha) * self._sizes))

    def missing(self, alpha: Array) -> Array:
        """What each element of w(alpha) lacks of w, at most: what r lacks counts in each of them."""
        found = np.abs(self._exact_residual(alpha) * self._sizes)
        if not self._has_sum:
            return found
        r = found[-1] / self._sizes[-1]
        return np.append(found[:-1] + r * np.abs(self._centre), r * self.linear.intercept_scaling)

r"""Between two fits with a loss that has kinks: the samples inside their box measure where the optimum is.

Let :math:`\alpha` and the middle c of w and v be the mixtures of two fits, g the gap, u the distance of w* from c and beta that
of b* from b. The duality gap is a sum of terms that are not negative, at the optimum too, so that

.. math:: |u|^2 + \sum_i q_i \, |1 - m_i^*| \le g , \qquad q_i = \min(\alpha_i, C_i - \alpha_i) .

A sample with :math:`q_i > 0` is a *ruler*: its margin at the optimum is 1, up to g / q_i. That falls like the gap, and the
radius of the ball only like its root. For any factors :math:`\gamma_i`, whose sum is 1 if the offset is free,

.. math:: u \cdot x + \beta = \sum_i \gamma_i (u \cdot x_i + \beta) + u \cdot \left(x - \sum_i \gamma_i x_i\right) .

With :math:`\rho_i = 1 - m_i` of the mixture, the first part is :math:`\sum_i \gamma_i \sigma_i \rho_i`, which is known, up to
:math:`M \sum_i q_i |1 - m_i^*|`, where :math:`M = \max_i |\gamma_i| / q_i`. The second part is at most R |u|, where R is the
length of the rest of x. Both draw on the same gap:

.. math:: \max_{0 \le t \le g} \; t M + \sqrt{g - t} \, R =
          \begin{cases} R \sqrt g & R \ge 2 M \sqrt g \\ g M + R^2 / (4 M) & \text{otherwise.} \end{cases}

Any factors give a proof. Good ones have a small R and a small M: those of a ridge regression of x on the rulers, whose penalty
is :math:`g / q_i^2`. An interval is cut into parts, because a sample that is at a bound at one of the fits is a ruler in
between. Where most rulers are free at both fits, one part is enough. With a kernel x stands for phi(x).

In regression the margin 1 becomes the target, minus epsilon or plus epsilon, and :math:`q_i` is how fast the gap term of the
sample rises on either side of it (``held_slack`` of the loss). A sample that changes from one edge of the tube to the other
between the two fits is no ruler."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin.certificate.rounding import OUTWARDS, gamma
from maxmargin.data.rows import Array
from maxmargin.model_selection import policy
from maxmargin.model_selection.transfer import Between, has_free_offset
from maxmargin.problem.dual_box import UNIT_ROUNDOFF


class Products(Protocol):
    """Inner products of training samples, and of validation samples with them."""

    def among(self, chosen: Array) -> Array:
        """The products of these training samples with each other."""

    def across(self, tests: Array, chosen: Array) -> Array:
        """The products of these validation samples, a row each, with these training samples."""

    def squares(self, tests: Array) -> Array:
        """The products of these validation samples with themselves."""

    @property
    def n_dimensions(self) -> float:
        """The number of coordinates of a sample, if that is finite."""

    @property
    def error(self) -> float:
        """How wrong any of these numbers can be, relative to the greatest square."""


class Ruled(NamedTuple):
    """On one part of an interval: what to add to the outputs of some validation samples at both ends of the part, between which
    it moves along a line, and how far the optimum can be from there."""

    shifts: Array
    reach: Array


@dataclass(eq=False)
class Rulers:
    """Two fits, the first at the smaller C. ``offset_reach`` bounds the distance of b* from the mixture."""

    pair: Between
    products: Products
    n_parts: int
    offset_reach: float

    @cached_property
    def prices(self) -> Array:
        """q at the ends of the parts, a row each. On a part it is at least the smaller one: it is concave."""
        one, two = self.pair.first, self.pair.second
        alpha, costs = (self._mixed(each, other) for each, other in ((one.alpha, two.alpha), (one.problem.C, two.problem.C)))
        loss: Any = one.problem.loss
        at_ends = (loss.held_residual(fit.alpha, fit.problem.C) for fit in (one, two))
        has_one_kink = np.multiply(*at_ends) >= 0.0
        least = policy.RULERS.least_share * one.problem.C
        found = loss.held_slack(alpha, alpha, costs)
        return np.where((found > least) & has_one_kink, found - 64.0 * UNIT_ROUNDOFF * costs, 0.0)

    @cached_property
    def _levels(self) -> Array:
        """The outputs that the rulers have at the optimum, towards their own class where there are two."""
        one, two = self.pair.first, self.pair.second
        loss: Any = one.problem.loss
        return np.asarray(one.problem.targets - loss.held_residual(one.alpha + two.alpha, one.problem.C))

    @cached_property
    def residuals(self) -> Array:
        """rho of the mixture, a row for each end."""
        return self._mixed(self._levels - self.pair.first.outputs, self._levels - self.pair.second.outputs)

    def _mixed(self, one: Array, two: Array) -> Array:
        ends = np.linspace(0.0, 1.0, self.n_parts + 1)[:, None]
        return np.asarray((1.0 - ends) * one + ends * two)

    @cached_property
    def chosen(self) -> Array:
        """The samples that are rulers on some part. Of too many, those with the greatest prices."""
        prices = np.minimum(self.prices[:-1], self.prices[1:]).max(axis=0)
        found = np.flatnonzero(prices > 0.0)
        most = int(min(policy.RULERS.most, policy.RULERS.most_a_dimension * self.products.n_dimensions))
        return found if len(found) <= most else np.sort(found[np.argpartition(-prices[found], most)[:most]])

    @cached_property
    def _among(self) -> Array:
        return self.products.among(self.chosen)

    @cached_property
    def _errors(self) -> Array:
        """How wrong rho can be: by the rounding of outputs, which are those of w and not of the middle of w and v."""
        one, two = self.pair.first, self.pair.second
        apart = 0.5 * max(one.apart(1.0), two.apart(1.0))
        sizes = np.abs(one.problem.targets) + np.abs(self._levels) + np.maximum(np.abs(one.outputs), np.abs(two.outputs))
        errors = np.maximum(one.output_errors, two.output_errors) + apart * one.lengths + 8.0 * UNIT_ROUNDOFF * sizes
        return np.asarray(errors[self.chosen] * OUTWARDS)

    def on_parts(self, tests: Array) -> list[Ruled | None]:
        """The rulers for each part; None where there is no ruler. Where most rulers serve the whole interval, it is one
        part."""
        if not len(self.chosen):
            return [None] * self.n_parts
        across, squares = self.products.across(tests, self.chosen), self.products.squares(tests)
        if not self._is_steady:
            return [self._ruled(k, k + 1, across, squares) for k in range(self.n_parts)]
        whole = self._ruled(0, self.n_parts, across, squares)
        if whole is None:
            return [None] * self.n_parts
        shifts = self._mixed(*whole.shifts)
        return [Ruled(shifts[k : k + 2], whole.reach) for k in range(self.n_parts)]

    @property
    def _is_steady(self) -> bool:
        both = np.count_nonzero(np.minimum(self.prices[0], self.prices[-1])[self.chosen])
        return bool(both >= policy.RULERS.steady_share * len(self.chosen))

    def _ruled(self, first: int, last: int, across: Array, squares: Array) -> Ruled | None:
        """What the rulers say from one end of a part to the other."""
        prices = np.minimum(self.prices[first], self.prices[last])[self.chosen]
        own = np.flatnonzero(prices > 0.0)
        if not len(own):
            return None
        gap = self.pair.greatest_gap_within(first / self.n_parts, last / self.n_parts)
        K, across, prices = self._among[np.ix_(own, own)], across[:, own], prices[own]
        factors = self._factors(K, across, gap / np.square(prices))
        if factors is None:
            return None
        reach = _farthest(gap, self._rest(K, across, squares, factors), np.max(np.abs(factors) / prices[:, None], axis=0))
        chosen = self.chosen[own]
        shifts = (self.residuals[[first, last]][:, chosen] * self.pair.first.problem.signs[chosen]) @ factors
        return Ruled(shifts, (reach + self._rounding(factors, own)) * OUTWARDS)

    def _factors(self, K: Array, across: Array, ridge: Array) -> Array | None:
        """The factors of the ridge regression, a column for each validation sample."""
        from scipy.linalg.lapack import dpotrf, dpotrs

        matrix = np.array(K, order="F")
        matrix.flat[:: len(K) + 1] += ridge + policy.RULERS.noise * float(np.trace(K)) / len(K)
        factor, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
        if failed:
            return None
        factors, _ = dpotrs(factor, across.T, lower=1)
        if self._is_free:
            ones, _ = dpotrs(factor, np.ones(len(K)), lower=1)
            factors = factors + np.outer(ones / ones.sum(), 1.0 - factors.sum(axis=0))
        return factors if np.isfinite(factors).all() else None

    @property
    def _is_free(self) -> bool:
        return has_free_offset(self.pair.first.problem)

    def _rest(self, K: Array, across: Array, squares: Array, factors: Array) -> Array:
        """R, rounded upwards."""
        found = squares - 2.0 * np.sum(across.T * factors, axis=0) + np.sum(factors * (K @ factors), axis=0)
        greatest = max(float(squares.max(initial=0.0)), float(np.diagonal(K).max()))
        sizes = np.square(1.0 + np.sum(np.abs(factors), axis=0)) * greatest
        return np.sqrt(np.maximum(found, 0.0) + (self.products.error + gamma(2.0 * len(K) + 16.0)) * sizes) * OUTWARDS

    def _rounding(self, factors: Array, own: Array) -> Array:
        """The rounding of the residuals and their sums, and of a sum of factors that should be 1."""
        residuals = np.abs(self.residuals[:, self.chosen[own]]).max(axis=0)
        found = np.abs(factors).T @ (self._errors[own] + gamma(len(own) + 8.0) * (1.0 + residuals))
        if not self._is_free:
            return np.asarray(found)
        sums = np.abs(1.0 - factors.sum(axis=0)) + gamma(len(own) + 8.0) * np.abs(factors).sum(axis=0)
        return np.asarray(found + sums * self.offset_reach)


def _farthest(gap: float, rest: Array, M: Array) -> Array:
    """The maximum of t M + sqrt(g - t) R."""
    root = math.sqrt(gap)
    with np.errstate(all="ignore"):
        return np.where(rest >= 2.0 * M * root, rest * root, gap * M + np.square(rest) / (4.0 * M))

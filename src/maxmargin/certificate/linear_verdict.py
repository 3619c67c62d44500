r"""From the sums over rows to a certificate: w beside w(alpha), the price of an imbalance, and the bound on rounding.

Nothing here looks at the data. :mod:`maxmargin.certificate.linear` has the mathematics, and
:mod:`maxmargin.certificate.linear_sums` the sums, which may be those of one problem in memory or of many parts of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.certificate import (
    BALANCED,
    Certificate,
    Counts,
    GapParts,
    Imbalance,
    assemble,
    refusal,
)
from maxmargin.certificate.linear_sums import PartSums, RowTotals
from maxmargin.certificate.rounding import PAIRWISE_ROUNDINGS, SMALLEST, gamma, length, two_sum
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF, Loss, summed


class ProblemShape(NamedTuple):
    """What a verdict asks of a problem whose samples are in several parts. A ``LinearProblem`` has all of it, too."""

    n_samples: int
    n_weights: int
    loss: Loss
    intercept_scaling: float
    penalizes_intercept: bool = True
    offset_prices: Array | None = None

    @property
    def n_penalised(self) -> int:
        return self.n_weights if self.penalizes_intercept else self.n_weights - 1


class Comparison(NamedTuple):
    """w beside w(alpha): squared norms of both, their distance and how wrong that can be; and for a free intercept the bounds
    of ``imbalance_of``: |w(alpha)|, sum_i |alpha_i| |x_i|, sum_i |alpha_i|, |sum_i alpha_i sigma_i| with its error, b with its
    error, and sum_i |alpha_i| (|p_i| + e)."""

    sqnorm: float
    sqnorm_of_alpha: float
    difference: float
    difference_error: float
    norm: float
    spread: float
    total: float
    excess: float
    excess_error: float
    offset: float
    offset_error: float = 0.0
    linear: float = 0.0


def certificate_of_parts(shape: ProblemShape, w: Array, sums: PartSums) -> Certificate:
    """The certificate of (w, alpha) from the sums of all parts, which are used up. The intercept is penalised, or there is
    none."""
    if not (sums.is_feasible and np.isfinite(w).all()):
        return refusal(sums.dual.n_support)
    with np.errstate(all="ignore"):
        comparison = compared(shape, w, sums) if sums.rests is None else compared_precisely(shape, w, sums)
        return verdict(shape, sums, comparison, imbalance_of(shape, comparison))


def compared(shape: Any, w: Array, sums: PartSums) -> Comparison:
    """w with w(alpha), as float64 knows it."""
    n, n_penalised = shape.n_samples, shape.n_penalised
    w_of_alpha, total = sums.weights[:n_penalised], sums.dual.total
    norm = length(sums.weights)
    sqnorm = float(w_of_alpha @ w_of_alpha)
    np.subtract(w[:n_penalised], w_of_alpha, out=w_of_alpha)
    return Comparison(
        sqnorm=float(w[:n_penalised] @ w[:n_penalised]),
        sqnorm_of_alpha=sqnorm,
        difference=length(w_of_alpha),
        difference_error=gamma(n + 8) * sums.rows.weights_scale + UNIT_ROUNDOFF * length(w[:n_penalised]),
        norm=norm,
        spread=sums.rows.weights_scale,
        total=total,
        excess=abs(sums.dual.excess),
        excess_error=gamma(PAIRWISE_ROUNDINGS) * (total if shape.offset_prices is None else 2.0 * total),
        offset=float(w[-1]) * shape.intercept_scaling,
        linear=sums.dual.linear,
    )


class Moved(NamedTuple):
    """Where x is taken from the mean of X: w(alpha) in two parts, and what ``Comparison`` says of a free intercept there."""

    weights: Array
    rest: Array
    error: float = 0.0
    spread: float = 0.0
    excess: float = 0.0
    excess_error: float = 0.0
    offset: float = 0.0
    offset_error: float = 0.0
    linear: float = 0.0


def compared_precisely(shape: Any, w: Array, sums: PartSums, moved: Moved | None = None) -> Comparison:
    """The same from pairs of floats."""
    d = shape.n_penalised
    assert sums.rests is not None
    moved = moved or Moved(sums.weights[:d], sums.rests[:d], spread=sums.rows.weights_scale)
    squared_gamma = gamma(shape.n_samples + 8) ** 2
    error = squared_gamma * sums.rows.weights_scale + shape.n_samples * SMALLEST * float(np.sqrt(shape.n_weights)) + moved.error
    difference, lost = two_sum(w[:d], -moved.weights)
    difference += lost - moved.rest
    norm = float(np.linalg.norm(difference))
    weights = moved.weights + moved.rest
    return Comparison(
        sqnorm=float(w[:d] @ w[:d]),
        sqnorm_of_alpha=float(weights @ weights),
        difference=norm,
        difference_error=error + 8.0 * UNIT_ROUNDOFF * norm,
        norm=float(np.linalg.norm(weights)),
        spread=moved.spread,
        total=sums.dual.total,
        excess=abs(moved.excess),
        excess_error=moved.excess_error,
        offset=moved.offset,
        offset_error=moved.offset_error,
        linear=moved.linear,
    )


def verdict(shape: Any, sums: PartSums, comparison: Comparison, imbalance: Imbalance) -> Certificate:
    """Put the certificate together."""
    difference, difference_error = comparison.difference, comparison.difference_error
    parts = GapParts(
        primal=0.5 * comparison.sqnorm + sums.rows.loss + _price(shape, comparison),
        dual=sums.rows.conjugate - 0.5 * comparison.sqnorm_of_alpha - _dual_shift(shape, comparison),
        gap=sums.rows.gap + 0.5 * difference * difference,
        error=sums.rows.error
        + (difference + difference_error) * difference_error
        + (shape.n_samples + shape.n_weights) * SMALLEST,
        roundings=gamma(max(shape.n_samples, shape.n_weights) + 16),
        apart=difference + difference_error,
    )
    return assemble(parts, imbalance, Counts(sums.dual.n_support, sums.dual.n_at_bound))


def zero_value(shape: Any, sums: RowTotals) -> float:
    """|w(alpha)|^2 / 2 where w(alpha) is nothing but the rounding of its sums in float64."""
    length = gamma(shape.n_samples + 8) * sums.weights_scale
    return 0.5 * length * length


def _price(shape: Any, comparison: Comparison) -> float:
    prices = shape.offset_prices
    return 0.0 if prices is None else comparison.offset * summed(prices)


def _dual_shift(shape: Any, comparison: Comparison) -> float:
    """|b r|: how much less the dual value can be where the targets are taken from b."""
    return abs(comparison.offset) * comparison.excess if may_move_targets(shape) else 0.0


def may_move_targets(shape: Any) -> bool:
    """Whether a number added to all targets and to b changes neither the primal nor the dual value."""
    return shape.loss.is_regression and not shape.penalizes_intercept and shape.offset_prices is None


def imbalance_of(shape: Any, comparison: Comparison) -> Imbalance:
    """The feasible point is alpha with the heavier sign of alpha_i sigma_i scaled by 1 - e, e = |r| / (the sum of that
    sign)
    <= 2 |r| / sum |alpha|. D is quadratic on the way, and |dD/dalpha_i| <= |p_i| + e_tube + |w(alpha)| |x_i| but for its
    diagonal, which only gains. So with s = sum_i |alpha_i| |x_i| the fall is at most e (sum_i |alpha_i| (|p_i| + e_tube) +
    |w(alpha)| s) + e^2 s^2 / 2. It holds for x taken from any centre, as long as b and w(alpha) are taken from there
    too. In regression the targets may be moved along with b: they are taken from b, which leaves no b to multiply r."""
    total = comparison.total
    if shape.penalizes_intercept or total == 0.0:
        return BALANCED
    s, offset = comparison.spread, abs(comparison.offset) + comparison.offset_error
    if may_move_targets(shape):
        offset = comparison.offset_error
    steepness = comparison.linear + comparison.norm * s

    def fall(r: float) -> float:
        e = 2.0 * r / total
        return e * steepness + 0.5 * (e * s) * (e * s)

    return Imbalance.of(comparison.excess, comparison.excess_error, offset, fall, 2.0 / total * s)

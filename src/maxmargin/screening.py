r"""Which samples are at a bound of every optimal alpha: J. Zimmert, C. Schroeder de Witt, G. Kerg, M. Kloft, "Safe screening
for support vector machines", 2015.

The dual's gradient is :math:`g_i = \nabla D(\alpha)_i = 1 - y_i (f_i + b)`, with b = 0 where there is no offset. A sample's
**kink** is :math:`t_i = y_i - f_i`, the b at which its hinge bends: :math:`g_i = y_i (t_i - b)`.

Everything here may be applied to the samples that are left when others were proved to be at their bounds and removed: those
left form an SVM of their own with the same optimum. docs/screening.md proves this, and the interval for b*."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.data import Array
from maxmargin.losses import UNIT_ROUNDOFF


class Screened(NamedTuple):
    """Two masks: the samples whose optimal alpha is 0, and those whose optimal alpha is C."""

    at_zero: Array
    at_C: Array


class Interval(NamedTuple):
    low: float
    high: float

    @property
    def middle(self) -> float:
        """The midpoint; the finite end if the other is infinite, and 0 if both are."""
        finite = [end for end in self if math.isfinite(end)]
        return sum(finite) / len(finite) if finite else 0.0


def gap_terms(gradient: Array, alpha: Array, C: Array) -> Array:
    """What each sample adds to the duality gap G_D: (C - alpha) max(0, g) + alpha max(0, -g), never negative."""
    terms: Array = np.where(gradient > 0.0, C - alpha, -alpha) * gradient
    return terms


def gap_ball(gap: float) -> float:
    """Corollary 4.2: the distance of w(alpha) from w* is at most the square root of the gap. It holds with an offset too."""
    return math.sqrt(max(0.0, gap))


def gradient_reach(diagonal: Array, radius: float) -> Array:
    """Corollary 4.3: how far <w, phi(x_i)> can be from <w*, phi(x_i)> when w is within ``radius`` of w*."""
    reach: Array = np.sqrt(np.maximum(diagonal, 0.0)) * radius
    return reach


def safe_rule(gradient: Array, diagonal: Array, gap: float) -> Screened:
    """Section 5, the boxed rule: proved for a positive semidefinite kernel and no offset."""
    return f_safe_rule(gradient, diagonal, gap, 1.0)


def f_safe_rule(gradient: Array, diagonal: Array, gap: float, f: float) -> Screened:
    """The rule (1): with f < 1 a heuristic, with f = 1 the safe rule."""
    return screen(gradient, gradient_reach(diagonal, f * gap_ball(gap)))


def screen(gradient: Array, reach: Array) -> Screened:
    """By Remark 5.1, when the optimal gradient is within ``reach`` of this one, sample by sample."""
    return Screened(gradient < -reach, gradient > reach)


def screen_with_offset(kinks: Array, y: Array, reach: Array, offsets: Interval) -> Screened:
    """The same with an offset: the optimal g_i is y_i (t_i* - b*), |t_i* - t_i| <= reach_i, and b* lies in ``offsets``."""
    above = kinks - reach > offsets.high
    below = kinks + reach < offsets.low
    return Screened(np.where(y > 0, below, above), np.where(y > 0, above, below))


def offset_interval(kinks: Array, C: Array, level: float, reach: Array | float, imbalance: float = 0.0) -> Interval:
    """Every optimal b*, when each optimal kink is within ``reach`` of the one given, and the level within ``imbalance``: what
    rounding has left of sum_i alpha_i y_i.

    The slope of the primal in b is sum_{t_i < b} C_i - level, so that the optimal offsets are the weighted quantiles of the
    kinks at ``level`` (see :func:`offset_level`), and quantiles rise with every kink.
    """
    if isinstance(reach, float):
        middle = _quantiles(kinks, C, level, imbalance)
        return Interval(middle.low - reach, middle.high + reach)
    low, high = _quantiles(kinks - reach, C, level, imbalance).low, _quantiles(kinks + reach, C, level, imbalance).high
    return Interval(low, high)


def best_offsets(kinks: Array, C: Array, level: float) -> Interval:
    """The offsets that minimise the primal for these kinks."""
    return _quantiles(kinks, C, level)


def offset_level(y: Array, alpha: Array, C: Array) -> float:
    """By how much sum_i alpha_i y_i could rise over these samples. With all samples and a balanced alpha, the sum of the
    positive class's C."""
    return float(np.sum(np.where(y > 0, C - alpha, alpha)))


def _quantiles(kinks: Array, C: Array, level: float, imbalance: float = 0.0) -> Interval:
    """inf {b : sum_{t_i <= b} C_i >= level} and sup {b : sum_{t_i < b} C_i <= level}, rounded outwards."""
    n = len(kinks)
    is_even = n > 0 and float(C[0]) > 0.0 and (C.strides == (0,) or bool(np.all(C == C[0])))
    if is_even:
        return _even_quantiles(kinks, float(C[0]), level, imbalance)
    order = np.argsort(kinks, kind="stable")
    sums = np.cumsum(C[order])
    slack = 4.0 * UNIT_ROUNDOFF * (n + 1.0) * (float(C.sum()) + abs(level)) + imbalance
    low = int(np.searchsorted(sums, level - slack, side="left"))
    high = int(np.searchsorted(sums, level + slack, side="right"))
    ordered = kinks[order]
    has_low, has_high = level - slack > 0.0 and low < n, high < n
    return Interval(float(ordered[low]) if has_low else -math.inf, float(ordered[high]) if has_high else math.inf)


def _even_quantiles(kinks: Array, cost: float, level: float, imbalance: float) -> Interval:
    """The same with one C for all: the two ranks are known before anything is sorted, and two order statistics are enough."""
    n = len(kinks)
    slack = 4.0 * UNIT_ROUNDOFF * (n + 1.0) * (n * cost + abs(level)) + imbalance
    low, high = math.ceil((level - slack) / cost) - 1, math.floor((level + slack) / cost)
    has_low, has_high = 0 <= low < n, high < n
    ranks = [rank for rank, is_there in ((low, has_low), (max(0, high), has_high)) if is_there]
    ordered = np.partition(kinks, ranks) if ranks else kinks
    return Interval(float(ordered[low]) if has_low else -math.inf, float(ordered[max(0, high)]) if has_high else math.inf)

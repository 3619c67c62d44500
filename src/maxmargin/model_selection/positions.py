"""Positions between two knots at which samples are not proved wrong, or not proved right: one interval for each sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.model_selection.transfer import Between, Parabola

ROOT_SLACK = 1e-7
"""Roots are moved outwards by this much of the interval: more than the square root of the rounding in their quadratic."""
SLACK = 1e-12
"""Relative, added to radii and errors for the rounding of the quadratics themselves."""


class Open(NamedTuple):
    """For each sample the positions from ``low`` to ``high``; none where low is above high."""

    low: Array
    high: Array

    def met(self, other: Open) -> Open:
        """What both leave open."""
        return Open(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def meet(self, chosen: Array, other: Open) -> None:
        """Keep of the chosen samples what both leave open."""
        self.low[chosen] = np.maximum(self.low[chosen], other.low)
        self.high[chosen] = np.minimum(self.high[chosen], other.high)

    def on_part(self, k: int, n_parts: int) -> Open:
        """On part k of the interval, whose own positions go from 0 to 1."""
        return Open(n_parts * self.low - k - ROOT_SLACK, n_parts * self.high - k + ROOT_SLACK)

    def in_inverse(self, ratio: float) -> Open:
        """The same values of C by their positions in 1/C. ``ratio`` is C_2 / C_1."""
        return Open(inverse_position(self.low, ratio), inverse_position(self.high, ratio))


def inverse_position(theta: Array, ratio: float) -> Array:
    """The position in 1/C of a position in C; what is outside of [0, 1] stays."""
    inside = np.clip(theta, 0.0, 1.0)
    return np.where(theta == inside, ratio * inside / (1.0 + inside * (ratio - 1.0)), theta)


def parabola_of(pair: Between) -> Parabola:
    """With room for its own rounding, and not bent the other way."""
    first, second, bend = pair.parabola
    slack = SLACK * (first + second + abs(bend))
    return Parabola(first + slack, second + slack, max(0.0, bend))


def open_interval(p0: Array, p1: Array, lengths: Array, g: Parabola) -> Open:
    """The positions in [0, 1] at which p > 0 and p^2 > |x|^2 g do not both hold, p from p0 to p1: one interval for each
    sample."""
    squares, dp = np.square(lengths), p1 - p0
    c0 = np.square(p0) - squares * g.first
    c1 = 2.0 * p0 * dp - squares * (g.second - g.first + g.bend)
    c2 = np.square(dp) + squares * g.bend
    discriminant = np.square(c1) - 4.0 * c2 * c0
    has_roots = discriminant > -SLACK * np.square(c1)
    root = np.sqrt(np.maximum(0.0, discriminant))
    with np.errstate(all="ignore"):
        low, high = (-c1 - root) / (2.0 * c2) - ROOT_SLACK, (-c1 + root) / (2.0 * c2) + ROOT_SLACK
    is_flat = ~(np.isfinite(low) & np.isfinite(high))
    low, high = np.where(has_roots, low, 2.0), np.where(has_roots, high, -1.0)
    low, high = np.where(p0 <= 0.0, 0.0, low), np.where(p1 <= 0.0, 1.0, high)
    holds_flat = is_flat & (c0 > 0.0) & (p0 > 0.0) & (p1 > 0.0)
    low, high = np.where(is_flat, 0.0, low), np.where(is_flat, 1.0, high)
    return Open(np.where(holds_flat, 2.0, np.maximum(low, 0.0)), np.where(holds_flat, -1.0, np.minimum(high, 1.0)))


def open_below(p0: Array, p1: Array, level: Array) -> Open:
    """The positions at which p, from p0 to p1 on a line, is not above ``level``."""
    is_first, is_second = p0 <= level, p1 <= level
    with np.errstate(all="ignore"):
        root = (level - p0) / (p1 - p0)
    root = np.where(np.isfinite(root), root, 0.5)
    low = np.where(is_first, 0.0, np.where(is_second, np.maximum(0.0, root - ROOT_SLACK), 2.0))
    high = np.where(is_second, 1.0, np.where(is_first, np.minimum(1.0, root + ROOT_SLACK), -1.0))
    return Open(low, high)

"""The root of a rising, piecewise linear function: where a convex function is least along a line."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.solvers.linear.newton.policy import LineSearchPolicy


class Parabola(NamedTuple):
    """linear t + quadratic t^2 / 2"""

    linear: float
    quadratic: float

    def added_to(self, t: float, first: float, second: float) -> tuple[float, float]:
        """The first two derivatives at t of a function and this parabola together, from those of the function."""
        return first + self.linear + t * self.quadratic, second + self.quadratic


def least_along(
    slope: Callable[[float], tuple[float, float]], penalty: Parabola, enough: float, policy: LineSearchPolicy
) -> float:
    """The t > 0 where a loss and a penalty along a line are least; ``slope`` gives the first two derivatives of the loss."""
    return rising_root(lambda t: penalty.added_to(t, *slope(t)), enough, policy)


def rising_root(look: Callable[[float], tuple[float, float]], enough: float, policy: LineSearchPolicy) -> float:
    """The t > 0 where a rising function is at most ``enough`` from zero; ``look`` gives its value and its slope.

    Newton from t = 1, kept between two bounds. If the bounds are far apart, the interval is halved on a logarithmic scale: on
    unscaled columns the root can be 1e-20."""
    t, low, high, shrink = 1.0, 0.0, math.inf, 0.25
    for _ in range(policy.most_looks):
        value, slope = look(t)
        if abs(value) <= enough:
            break
        low, high = (t, high) if value < 0.0 else (low, t)
        t = t - value / slope if slope > 0.0 else math.inf
        if not low < t < high:
            t = _between(low, high, shrink, policy.wide_bracket)
            shrink *= shrink if low == 0.0 else 1.0
    return t


def _between(low: float, high: float, shrink: float, wide_bracket: float) -> float:
    """A point between two bounds, the lower of which may be zero and the upper infinite."""
    if math.isinf(high):
        return low / shrink
    if low == 0.0:
        return high * shrink
    return math.sqrt(low) * math.sqrt(high) if high > wide_bracket * low else 0.5 * (low + high)


Looked = list[tuple[float, float]]
"""The value of a rising function and its slope, at several lengths."""


def looks_for_root(n_lengths: int, shorter: float, most_looks: int) -> Generator[Array, Looked, float]:
    """About where a rising function is zero, by few looks at several lengths each, for functions where a look is dear. Yields
    the lengths of a look, the longest first, and is sent what was seen there.

    The first look is at the powers of ``shorter``. Where the function is positive at all lengths, the next look goes down far
    faster. The search ends between two lengths at which the function changes sign, once these are as near to each other as
    those of the first look."""
    lengths, ratio = shorter ** np.arange(n_lengths), shorter
    below, above = (0.0, 0.0), (math.inf, 0.0)
    for _ in range(most_looks):
        for t, (value, slope) in zip(lengths.tolist(), (yield lengths), strict=True):
            if value < 0.0:
                if math.isinf(above[0]):
                    return t - value / slope
                below = t, value
                break
            above = t, value
        if below[0] == 0.0:
            ratio **= 4
            lengths = above[0] * ratio ** np.arange(1, n_lengths + 1)
        elif above[0] <= 1.01 * below[0] / shorter:
            break
        else:
            lengths = np.geomspace(above[0], below[0], n_lengths + 2)[1:-1]
    return above[0] if below[0] == 0.0 else _secant(below, above)


def _secant(below: tuple[float, float], above: tuple[float, float]) -> float:
    """Where the line through two points is zero, the first of which is below zero and the second not."""
    (low, value), (high, other) = below, above
    return low - value * (high - low) / (other - value)

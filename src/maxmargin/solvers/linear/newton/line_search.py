"""The root of a rising, piecewise linear function: where a convex function is least along a line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

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

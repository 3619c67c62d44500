r"""Which samples are at a bound of every optimal alpha: J. Zimmert, C. Schroeder de Witt, G. Kerg, M. Kloft, "Safe screening
for support vector machines", 2015.

The dual's gradient is :math:`g_i = \nabla D(\alpha)_i = 1 - y_i (f_i + b)`, with b = 0 where there is no offset. A sample's
**kink** is :math:`t_i = y_i - f_i`, the b at which its hinge bends: :math:`g_i = y_i (t_i - b)`.

Everything here also applies after samples that are proved to be at their bounds were removed. The samples that are left form an
SVM of their own with the same optimum. docs/screening.md proves this, and the interval for b*."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.offset import Interval


class Screened(NamedTuple):
    """Two masks: the samples whose optimal alpha is 0, and those whose optimal alpha is C."""

    at_zero: Array
    at_C: Array


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
    """The boxed rule of section 5. It is proved for a positive semidefinite kernel without an offset."""
    return f_safe_rule(gradient, diagonal, gap, 1.0)


def f_safe_rule(gradient: Array, diagonal: Array, gap: float, f: float) -> Screened:
    """Rule (1). With f < 1 it is a heuristic, with f = 1 it is the safe rule."""
    return screen(gradient, gradient_reach(diagonal, f * gap_ball(gap)))


def screen(gradient: Array, reach: Array) -> Screened:
    """Screen by Remark 5.1, if the optimal gradient is within ``reach`` of this one, sample by sample."""
    return Screened(gradient < -reach, gradient > reach)


def screen_with_offset(kinks: Array, y: Array, reach: Array, offsets: Interval) -> Screened:
    """``screen`` with an offset. The optimal g_i is y_i (t_i* - b*), |t_i* - t_i| <= reach_i, and b* lies in ``offsets``."""
    above = kinks - reach > offsets.high
    below = kinks + reach < offsets.low
    return Screened(np.where(y > 0, below, above), np.where(y > 0, above, below))

r"""Vectors whose distance from the true ones is bounded: weights of a linear model, or a sum of kernel functions.

Both are called *points*. A point knows its norm from above and from below, and mixes with another point of its kind. The
``error`` of a point is a bound on the distance between what was computed and the exact vector that it stands for."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF


class Weights(NamedTuple):
    """The penalised elements of w."""

    values: Array
    error: float = 0.0

    def mixed(self, a: float, other: Weights, b: float) -> Weights:
        """a self + b other"""
        rounding = 4.0 * UNIT_ROUNDOFF * (abs(a) * self.greatest_norm + abs(b) * other.greatest_norm)
        return Weights(a * self.values + b * other.values, abs(a) * self.error + abs(b) * other.error + rounding)

    def scaled(self, a: float) -> Weights:
        return Weights(a * self.values, abs(a) * self.error + 2.0 * UNIT_ROUNDOFF * abs(a) * self.greatest_norm)

    @property
    def greatest_norm(self) -> float:
        return float(np.linalg.norm(self.values)) * (1.0 + gamma(len(self.values) + 8.0)) + self.error

    @property
    def least_norm(self) -> float:
        return max(0.0, float(np.linalg.norm(self.values)) * (1.0 - gamma(len(self.values) + 8.0)) - self.error)


class Expansion(NamedTuple):
    r"""The function :math:`\sum_i s_i k(x_i, \cdot)`, with its values at the samples. ``output_errors`` bounds how wrong each
    value is; |w|^2 is the sum of s_i f_i."""

    s: Array
    outputs: Array
    output_errors: Array
    error: float = 0.0

    def mixed(self, a: float, other: Expansion, b: float) -> Expansion:
        """a self + b other"""
        return self.scaled(a).plus(other.scaled(b))

    def plus(self, other: Expansion) -> Expansion:
        errors = self.output_errors + other.output_errors
        errors = errors + 2.0 * UNIT_ROUNDOFF * (np.abs(self.outputs) + np.abs(other.outputs))
        return Expansion(self.s + other.s, self.outputs + other.outputs, errors, self.error + other.error)

    def scaled(self, a: float) -> Expansion:
        """The rounding of s is not a distance, because the outputs are those of the exact s: it changes |w|^2 only."""
        errors = abs(a) * self.output_errors + UNIT_ROUNDOFF * np.abs(a * self.outputs)
        return Expansion(a * self.s, a * self.outputs, errors, abs(a) * self.error)

    @property
    def _sqnorm(self) -> tuple[float, float]:
        """|w|^2 and how wrong it can be."""
        products = self.s * self.outputs
        error = float(np.sum(np.abs(self.s) * self.output_errors))
        return float(np.sum(products)), error + gamma(PAIRWISE_ROUNDINGS + 8.0) * float(np.sum(np.abs(products)))

    @property
    def greatest_norm(self) -> float:
        value, error = self._sqnorm
        return math.sqrt(max(0.0, value) + 2.0 * error) + self.error

    @property
    def least_norm(self) -> float:
        value, error = self._sqnorm
        return max(0.0, math.sqrt(max(0.0, value - 2.0 * error)) - self.error)


Point = Weights | Expansion


def long_rounding(n: int, scale: float) -> float:
    """Bound the rounding of sums of n products in long double, with u' = eps twice its unit roundoff: at most
    (n + 8) u' / (1 - (n + 8) u') times the sum of the sizes. Where long double is float64 nothing is gained or lost."""
    share = (n + 8.0) * float(np.finfo(np.longdouble).eps)
    return share / (1.0 - share) * scale * OUTWARDS

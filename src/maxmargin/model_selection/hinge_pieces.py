r"""The gap between two fits with hinge loss: a piecewise quadratic function of the position, whose maximum is exact.

At the position theta the costs, alpha and the residuals r = 1 - m are mixtures of those of the two fits, so that each gap term

.. math:: (C_i - \alpha_i) \max(0, r_i) + \alpha_i \max(0, -r_i)

is one quadratic up to the position at which r_i changes its sign, and another one after it. A sample whose residual has one
sign at both fits has one quadratic. All pieces are found with one sort."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.rounding import gamma
from maxmargin.data.rows import Array
from maxmargin.model_selection.sparse_fits import SparseBetween, SparseFit
from maxmargin.model_selection.transfer import Between, Fit


def between(first: Fit, second: Fit) -> Between:
    """What two fits prove in between, by the sharpest bound that their loss has."""
    if first.C > second.C:
        first, second = second, first
    if not first.C < second.C:
        raise ValueError(f"The two fits must have different values of C; both have {first.C:g}.")
    if isinstance(first, SparseFit):
        return SparseBetween(first, second)
    loss = first.problem.loss
    has_pieces = not loss.is_regression and loss.margin_pieces().has_kink  # hinge loss, and no other
    return HingeBetween(first, second) if has_pieces else Between(first, second)


class Pieces(NamedTuple):
    """Piece k is coefficients[k] . (1, theta, theta^2) from breaks[k] to breaks[k + 1]. ``error`` bounds the rounding."""

    breaks: Array
    coefficients: Array
    error: float

    def value(self, theta: float) -> float:
        k = min(int(np.searchsorted(self.breaks, theta, side="right")) - 1, len(self.coefficients) - 1)
        c0, c1, c2 = self.coefficients[k]
        return float(c0 + theta * (c1 + theta * c2)) + self.error

    def greatest(self) -> tuple[float, float]:
        """Position and value. On each piece the maximum is at an end, or at the vertex."""
        low, high = self.breaks[:-1], self.breaks[1:]
        c0, c1, c2 = self.coefficients.T
        vertex = np.divide(-0.5 * c1, c2, out=low.copy(), where=c2 < 0.0)
        places = np.stack([low, high, np.clip(vertex, low, high)])
        values = c0 + places * (c1 + places * c2)
        best = np.unravel_index(int(values.argmax()), values.shape)
        return float(places[best]), float(values[best]) + self.error


@dataclass(frozen=True, eq=False)
class HingeBetween(Between):
    """:class:`Between` with the gap itself where that is less than the bound."""

    @cached_property
    def pieces(self) -> Pieces:
        return gap_pieces(self.first, self.second)

    def gap_of(self, theta: float) -> float:
        return min(super().gap_of(theta), max(0.0, self.pieces.value(theta)))

    @cached_property
    def greatest_gap(self) -> float:
        return min(Between.gap_of(self, self.worst_position), max(0.0, self.pieces.greatest()[1]))


def gap_pieces(first: Fit, second: Fit) -> Pieces:
    """The part |w - v|^2 / 2 is convex in the position: it is at most the mixture of its two ends."""
    r1, r2 = 1.0 - first.outputs, 1.0 - second.outputs
    left = _product(first.problem.C - first.alpha, second.problem.C - second.alpha, r1, r2)
    right = -_product(first.alpha, second.alpha, r1, r2)
    is_crossing = r1 * r2 < 0.0
    starts_left = (r1 > 0.0) | ((r1 == 0.0) & (r2 > 0.0))
    before, after = np.where(starts_left, left, right), np.where(starts_left, right, left)[:, is_crossing]
    positions = r1[is_crossing] / (r1 - r2)[is_crossing]
    order = np.argsort(positions)
    changes = (after - before[:, is_crossing])[:, order]
    steps = np.concatenate([before.sum(axis=1)[:, None], changes], axis=1)
    coefficients = np.cumsum(steps, axis=1).T + _distance_part(first, second)
    breaks = np.clip(np.concatenate([[0.0], positions[order], [1.0]]), 0.0, 1.0)
    size = float(np.abs(before).sum() + 2.0 * np.abs(changes).sum() + np.abs(coefficients).max())
    return Pieces(breaks, coefficients, _rounding(first, second) + gamma(len(r1) + 64.0) * size)


def _product(u1: Array, u2: Array, r1: Array, r2: Array) -> Array:
    """The coefficients of (u1 + theta (u2 - u1)) (r1 + theta (r2 - r1)), a column for each sample."""
    du, dr = u2 - u1, r2 - r1
    return np.stack([u1 * r1, u1 * dr + r1 * du, du * dr])


def _distance_part(first: Fit, second: Fit) -> Array:
    one, two = 0.5 * first.apart(1.0) ** 2, 0.5 * second.apart(1.0) ** 2
    return np.array([one, two - one, 0.0])


def _rounding(first: Fit, second: Fit) -> float:
    """A residual that is wrong by e changes its gap term by at most C_i e."""
    costs = np.maximum(first.problem.C, second.problem.C)
    errors = np.maximum(first.output_errors, second.output_errors)
    return float(np.sum(costs * errors)) * 1.01 + max(first.charge, second.charge)

r"""Bounds on the change in the margin of a kernel machine: A. Guillory, J. Bilmes, "Practical Methods for Exploiting Bounds on
Change in the Margin", 2007, section 5, "Kernel Classifiers".

When alpha' moves to alpha, with :math:`\delta_i = y_i (\alpha_i - \alpha'_i)`, w moves by eq. (6):

.. math:: |w - w'| = \sqrt{\sum_{ij} \delta_i \delta_j k(x_i, x_j)} \le \sum_i |\delta_i| \sqrt{k(x_i, x_i)},

and the margin of sample i, with an offset, from :math:`m'_i` to within :math:`|w - w'| \sqrt{k(x_i, x_i)}` of
:math:`m'_i + y_i (b - b')`. Only the samples whose alpha has changed are in the sum; the cheap bound on the right is taken
where they are so many that their kernel values would cost more than is to be saved.

Algorithm 2 then goes **forward** through the sorted margins, and stops where the bounds say that no loss is left. It cannot
stop backward: the sum over the samples that surely have a loss would need :math:`\phi` of a sum. Zero-one loss is constant on
either side, so for it both ends are left out, and so they are for the subgradient, which asks only which margins are below 1.

The samples of each class are a list of their own, so that the move of b is known exactly (section 3). Within the range that
the list's greatest :math:`\sqrt{k(x_i, x_i)}` leaves open, each sample has its own bound.

An evaluation is exact: the samples that are not examined are decided by proved bounds, in which the rounding of the stored
margins is counted. ``kernel_evaluations`` is what it cost.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.certificate import gamma, vector
from maxmargin.data import Array
from maxmargin.kernel_problem import KernelProblem
from maxmargin.losses import UNIT_ROUNDOFF

ROWS_A_BLOCK = 1 << 10
EXACT_DISTANCE_SHARE = 0.125
"""Eq. (6) is computed in full where its kernel values are at most this share of those of all margins."""


class Evaluation(NamedTuple):
    """Of a loss at some alpha and b: sum_i C_i loss(m_i); which samples are below the loss's knee, which is the subgradient
    :math:`-\\sum_i C_i y_i \\phi(x_i)` over them; how many margins were computed, and how many kernel values that took."""

    loss: float
    is_below: Array
    examined: int
    kernel_evaluations: int


class KernelMargins:
    """The margins of a kernel machine at the last ``sort``, and exact losses at any later alpha and b."""

    def __init__(self, problem: KernelProblem) -> None:
        if not problem.kernel.is_positive_semidefinite:
            raise ValueError(f"The margins of {problem.kernel!r} have no bounds: it is not positive semidefinite.")
        self.problem = problem
        entry_error = problem.kernel.rounding_error(problem.points, problem.points)
        self._radii = np.sqrt(np.maximum(problem.diagonal, 0.0) + entry_error) * (1.0 + gamma(8.0))
        self._entry_error = entry_error
        self._alpha: Array | None = None
        self._b = 0.0

    def sort(self, alpha: Array, b: float = 0.0) -> int:
        """Algorithm 1: compute and keep all margins at alpha and b, sorted within each class. Returns the kernel values that
        it took."""
        alpha, b = self._checked(alpha, b)
        y = self.problem.y
        margins, self._errors = self._margins(np.arange(len(y)), alpha, b)
        self._alpha, self._b = alpha.copy(), b
        self._stored = margins
        self._orders = {sign: _sorted(np.flatnonzero(y == sign), margins) for sign in (1, -1)}
        return len(y) * int(np.count_nonzero(alpha))

    def hinge(self, alpha: Array, b: float = 0.0) -> Evaluation:
        """Algorithm 2 with its forward stop: max(0, 1 - m)."""
        return self._evaluate(alpha, b, knee=1.0, is_step=False)

    def zero_one(self, alpha: Array, b: float = 0.0) -> Evaluation:
        """1 where m < 0, stopping in both directions."""
        return self._evaluate(alpha, b, knee=0.0, is_step=True)

    def below(self, alpha: Array, b: float = 0.0, knee: float = 1.0) -> Evaluation:
        """Which margins are below the knee, stopping in both directions; its ``loss`` is the sum of their C."""
        return self._evaluate(alpha, b, knee=knee, is_step=True)

    def distance(self, alpha: Array) -> tuple[float, int]:
        """\\|w - w'\\| from the last sort to alpha, rounded upwards, and the kernel values that it took."""
        if self._alpha is None:
            raise ValueError("There are no margins yet to be bounded: call sort() first.")
        problem, move = self.problem, (alpha - self._alpha) * self.problem.y
        changed = np.flatnonzero(move)
        size = np.abs(move[changed]) * (1.0 + gamma(2.0))
        cheap = float(size @ self._radii[changed]) * (1.0 + gamma(len(changed) + 2.0))
        n_values = len(changed) ** 2
        if n_values > EXACT_DISTANCE_SHARE * problem.n_samples * max(1, int(np.count_nonzero(alpha))):
            return cheap, 0
        block = problem.gram(changed, changed)
        square = float(move[changed] @ block @ move[changed])  # (6)
        scale = float(size @ np.abs(block) @ size)
        error = self._entry_error * float(size.sum()) ** 2 + gamma(2.0 * len(changed) + 6.0) * scale
        return min(cheap, math.sqrt(max(0.0, square) + error) * (1.0 + gamma(4.0))), n_values

    def _evaluate(self, alpha: Array, b: float, knee: float, is_step: bool) -> Evaluation:
        alpha, b = self._checked(alpha, b)
        distance, n_values = self.distance(alpha)
        is_below, undecided = self._decide(distance, b, knee, is_step)
        margins, _ = self._margins(undecided, alpha, b)
        is_below[undecided] = margins < knee
        costs = self.problem.C
        terms = costs[is_below] if is_step else costs[undecided] * np.maximum(0.0, knee - margins)
        n_values += len(undecided) * int(np.count_nonzero(alpha))
        return Evaluation(float(np.sum(terms)), is_below, len(undecided), n_values)

    def _decide(self, distance: float, b: float, knee: float, stops_backward: bool) -> tuple[Array, Array]:
        """The samples that are surely below the knee, as far as that is asked, and those that must be examined."""
        is_below = np.zeros(self.problem.n_samples, bool)
        undecided = []
        for sign, order in self._orders.items():
            shift = sign * (b - self._b)
            slack = 4.0 * UNIT_ROUNDOFF * (abs(shift) + abs(b) + abs(self._b) + abs(knee))
            reach = distance * self._radii[order.samples] + self._errors[order.samples] + slack
            greatest = float(np.max(reach, initial=0.0)) * (1.0 + gamma(4.0))
            # (2): the lower bound m' + shift - reach rises along the list, so all from some place on are at or above the knee.
            end = int(np.searchsorted(order.margins, knee - shift + greatest, side="left"))
            start = int(np.searchsorted(order.margins, knee - shift - greatest, side="left")) if stops_backward else 0
            is_below[order.samples[:start]] = True
            part, middle = order.samples[start:end], order.margins[start:end] + shift
            is_above, is_under = middle - reach[start:end] >= knee, middle + reach[start:end] < knee
            is_below[part[is_under]] = True
            undecided.append(part[~(is_above | is_under)] if stops_backward else part[~is_above])
        return is_below, np.concatenate(undecided)

    def _margins(self, chosen: Array, alpha: Array, b: float) -> tuple[Array, Array]:
        """y_i (f_i + b) for the chosen samples, and how wrong by rounding each can be."""
        problem, support = self.problem, np.flatnonzero(alpha)
        signed = (alpha * problem.y)[support]
        outputs, magnitudes = np.empty(len(chosen)), np.empty(len(chosen))
        for start in range(0, len(chosen), ROWS_A_BLOCK):
            part = slice(start, start + ROWS_A_BLOCK)
            block = problem.gram(chosen[part], support)
            outputs[part] = block @ signed
            magnitudes[part] = np.abs(block) @ np.abs(signed)
        errors = self._entry_error * float(np.abs(signed).sum()) + gamma(len(support) + 6.0) * (magnitudes + abs(b))
        return problem.y[chosen] * (outputs + b), errors

    def _checked(self, alpha: Array, b: float) -> tuple[Array, float]:
        alpha = vector(alpha, self.problem.n_samples, "alpha")
        if not (np.isfinite(alpha).all() and np.isfinite(b)):
            raise ValueError(
                f"alpha and b must be finite; b is {b!r}, and {np.count_nonzero(~np.isfinite(alpha))} alphas are not."
            )
        return alpha, float(b)


class _Order(NamedTuple):
    """The samples of a class by rising margin."""

    samples: Array
    margins: Array


def _sorted(samples: Array, margins: Array) -> _Order:
    order = np.argsort(margins[samples], kind="stable")
    return _Order(samples[order], margins[samples][order])

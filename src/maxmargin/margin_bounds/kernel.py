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
margins is counted. ``kernel_evaluations`` is what it cost. Margins are stored anew by the rule of section 3, which is as cheap
here as evaluating without bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.rounding import gamma, vector
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.bound import margin_bounds
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF


@dataclass(frozen=True)
class KernelMarginPolicy:
    """When eq. (6) is computed in full, and how much memory an evaluation takes."""

    exact_distance_share: float = 0.125
    """Share of the kernel values of all margins that those of eq. (6) may be, for (6) to be computed and not bounded."""
    rows_a_block: int = 1 << 10
    """Samples whose kernel values are in memory at once."""


class KernelLossAt(NamedTuple):
    """A loss at some alpha and b: sum_i C_i loss(m_i); which samples are below the loss's knee, which is the subgradient
    :math:`-\\sum_i C_i y_i \\phi(x_i)` over them; how many margins were computed, and how many kernel values that took."""

    loss: float
    is_below: Array
    examined: int
    kernel_evaluations: int


class KernelMargins:
    """Exact losses of a kernel machine at one alpha and b after the other, with as few margins as (2) and (6) allow.

    All margins are computed, stored and sorted at the first evaluation, and again by the rule of section 3: when a) the last
    one left out less than half of the samples that could have been left out, or b) (left out since the last sort) -
    (evaluations since then) (left out the last time) > the number of samples.
    """

    def __init__(self, problem: KernelProblem, policy: KernelMarginPolicy | None = None) -> None:
        if not problem.kernel.is_positive_semidefinite:
            raise ValueError(f"The margins of {problem.kernel!r} have no bounds: it is not positive semidefinite.")
        self.problem, self.policy = problem, policy or KernelMarginPolicy()
        entry_error = problem.kernel.rounding_error(problem.points, problem.points)
        self._radii = np.sqrt(np.maximum(problem.diagonal, 0.0) + entry_error) * (1.0 + gamma(8.0))
        self._entry_error, self._greatest = entry_error, float(np.max(self._radii))
        self._alpha: Array | None = None
        self._b = 0.0
        self._is_due = True
        self.sorts = 0

    def sort(self, alpha: Array, b: float = 0.0) -> int:
        """Algorithm 1: compute and keep all margins at alpha and b, sorted within each class. Returns the kernel values that
        it took. Evaluations do this by themselves when it is due."""
        alpha, b = self._checked(alpha, b)
        y = self.problem.y
        self._stored, self._errors = self._margins(np.arange(len(y)), alpha, b)
        self._alpha, self._b = alpha.copy(), b
        self._orders = {sign: _sorted(np.flatnonzero(y == sign), self._stored) for sign in (1, -1)}
        self._is_due, self._since, self._saved_since = False, 0, 0
        self.sorts += 1
        return len(y) * int(np.count_nonzero(alpha))

    def hinge(self, alpha: Array, b: float = 0.0) -> KernelLossAt:
        """Algorithm 2 with its forward stop: max(0, 1 - m)."""
        return self._evaluate(alpha, b, knee=1.0, is_step=False)

    def zero_one(self, alpha: Array, b: float = 0.0) -> KernelLossAt:
        """1 where m < 0, stopping in both directions."""
        return self._evaluate(alpha, b, knee=0.0, is_step=True)

    def below(self, alpha: Array, b: float = 0.0, knee: float = 1.0) -> KernelLossAt:
        """Which margins are below the knee, stopping in both directions; its ``loss`` is the sum of their C."""
        return self._evaluate(alpha, b, knee=knee, is_step=True)

    def distance(self, alpha: Array) -> tuple[float, int]:
        """\\|w - w'\\| from the last sort to alpha, rounded upwards, and the kernel values that it took."""
        if self._alpha is None:
            raise ValueError("There are no margins yet to be bounded: call sort() first.")
        alpha, _ = self._checked(alpha, 0.0)
        problem, move = self.problem, (alpha - self._alpha) * self.problem.y
        changed = np.flatnonzero(move)
        size = np.abs(move[changed]) * (1.0 + gamma(2.0))
        cheap = float(size @ self._radii[changed]) * (1.0 + gamma(len(changed) + 2.0))
        n_values = len(changed) ** 2
        if n_values > self.policy.exact_distance_share * problem.n_samples * max(1, int(np.count_nonzero(alpha))):
            return cheap, 0
        block = problem.gram(changed, changed)
        square = float(move[changed] @ block @ move[changed])  # (6)
        scale = float(size @ np.abs(block) @ size)
        error = self._entry_error * float(size.sum()) ** 2 + gamma(2.0 * len(changed) + 6.0) * scale
        return min(cheap, math.sqrt(max(0.0, square) + error) * (1.0 + gamma(4.0))), n_values

    def _evaluate(self, alpha: Array, b: float, knee: float, is_step: bool) -> KernelLossAt:
        alpha, b = self._checked(alpha, b)
        n, costs = self.problem.n_samples, self.problem.C
        if self._is_due:
            n_values = self.sort(alpha, b)
            undecided, margins, is_below = np.arange(n), self._stored, np.zeros(n, bool)
        else:
            distance, n_values = self.distance(alpha)
            is_below, undecided = self._decide(distance, b, knee, is_step)
            margins, _ = self._margins(undecided, alpha, b)
            n_values += len(undecided) * int(np.count_nonzero(alpha))
        is_below[undecided] = margins < knee
        terms = costs[is_below] if is_step else costs[undecided] * np.maximum(0.0, knee - margins)
        self._count(n - len(undecided), n if is_step else n - int(np.count_nonzero(is_below)))
        return KernelLossAt(float(np.sum(terms)), is_below, len(undecided), n_values)

    def _count(self, saved: int, could_be_saved: int) -> None:
        """The rule of section 3; the evaluation that has just sorted is not counted."""
        if self._since > 0:
            self._saved_since += saved
            saved_before = self._saved_since - self._since * saved
            self._is_due = 2 * saved < could_be_saved or saved_before > self.problem.n_samples
        self._since += 1

    def _decide(self, distance: float, b: float, knee: float, stops_backward: bool) -> tuple[Array, Array]:
        """The samples that are surely below the knee, as far as that is asked, and those that must be examined."""
        is_below = np.zeros(self.problem.n_samples, bool)
        undecided = []
        for sign, order in self._orders.items():
            shift = sign * (b - self._b)
            slack = 4.0 * UNIT_ROUNDOFF * (abs(b) + abs(self._b) + abs(knee) + distance * self._greatest)
            errors = self._errors[order.samples] + slack
            reach = distance * float(np.max(self._radii[order.samples], initial=0.0)) + float(np.max(errors, initial=0.0))
            greatest = reach * (1.0 + gamma(4.0))
            # (2): the lower bound m' + shift - reach rises along the list, so all from some place on are at or above the knee.
            end = int(np.searchsorted(order.margins, knee - shift + greatest, side="left"))
            start = int(np.searchsorted(order.margins, knee - shift - greatest, side="left")) if stops_backward else 0
            is_below[order.samples[:start]] = True
            part = order.samples[start:end]
            low, high = margin_bounds(order.margins[start:end], distance, self._radii[part], shift)
            is_above, is_under = low - errors[start:end] >= knee, high + errors[start:end] < knee
            is_below[part[is_under]] = True
            undecided.append(part[~(is_above | is_under)] if stops_backward else part[~is_above])
        return is_below, np.concatenate(undecided)

    def _margins(self, chosen: Array, alpha: Array, b: float) -> tuple[Array, Array]:
        """y_i (f_i + b) for the chosen samples, and how wrong by rounding each can be."""
        problem, support = self.problem, np.flatnonzero(alpha)
        signed = (alpha * problem.y)[support]
        outputs, magnitudes = np.empty(len(chosen)), np.empty(len(chosen))
        size = self.policy.rows_a_block
        for start in range(0, len(chosen), size):
            part = slice(start, start + size)
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

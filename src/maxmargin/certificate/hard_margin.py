r"""The hard margin, C = infinity: what proves an answer, and what proves that there is none.

.. math:: \min_w \tfrac12 |w|^2 \;\text{ with }\; y_i (w \cdot x_i + b) \ge 1 \;\text{ or }\;
          |t_i - w \cdot x_i - b| \le \epsilon \;\text{ for all } i, \qquad
          \max_\alpha \sum_i (p_i \alpha_i - e |\alpha_i|) - \tfrac12 |w(\alpha)|^2 ,

for two classes (p = 1, e = 0, :math:`\alpha \ge 0`) or in regression (p = t, e = epsilon).

**An answer.** Where every loss is zero, rounding included, it is zero whatever C is, and a dual point is feasible for every C
from its greatest :math:`|\alpha_i|` on. So the certificate of the problem with such a C is that of the hard margin.

**No answer.** Let alpha be a dual point, balanced where the intercept is free, :math:`v = w(\alpha)` and
:math:`\omega = \sum_i p_i \alpha_i - e |\alpha_i| > 0`. For every w whose losses are all zero,
:math:`\omega \le \sum_i \alpha_i \sigma_i (w \cdot x_i + b) = w \cdot v \le |w| |v|`: w is at least :math:`\omega / |v|`
long, and no margin 1 / \|w\| exceeds :math:`|v| / \omega`. With v = 0 there is no such w at all (P. Gordan, 1873), and alpha is
a ray along which the dual value grows without end. In regression the two classes are the targets raised by epsilon and those
lowered by it, and no graph of a function lies between them.

**The offset.** Every optimal b* satisfies the constraints of all samples with w*, which is within r = ``distance_bound`` of w.
So a free b* is not below the greatest :math:`y_i - w \cdot x_i - r |x_i|` of the positive class, nor above the least
:math:`y_i - w \cdot x_i + r |x_i|` of the negative one; in a tube :math:`t_i \mp \epsilon` stand for :math:`y_i`.

Here are linear problems; :mod:`maxmargin.certificate.hard_kernel` has those with a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import Certificate, refusal
from maxmargin.certificate.linear import certify
from maxmargin.certificate.predictions import linear_values, norms
from maxmargin.certificate.rounding import OUTWARDS, gamma
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF, Loss
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.problem.regression_losses import EpsilonInsensitive


class InseparableError(ValueError):
    """The classes cannot be separated, or no function stays within the tube of a regression. ``ray`` holds the weights of the
    samples that prove it, and ``margin`` is what no margin, 1 / \\|w\\|, exceeds."""

    def __init__(self, sentence: str, ray: Array, margin: float) -> None:
        super().__init__(sentence)
        self.ray, self.margin = ray, margin


@dataclass(frozen=True, eq=False)
class Ray:
    """Weights whose sizes add up to one, the bound on the margin that they prove, and the rounding error of that bound."""

    alpha: Array
    margin: float
    rounding: float
    is_rounding: bool = True
    """Whether every element of v is within its own rounding error: beside a column of 1e15 the length of v says nothing of a
    column of ones."""

    @classmethod
    def of(cls, problem: LinearProblem, alpha: Array) -> Ray:
        """Make a ray from a dual point that is not zero. With a free intercept it must be balanced up to rounding."""
        alpha = alpha / np.abs(alpha).sum()
        lengths = np.hypot(norms(problem.rows.matrix), problem.intercept_scaling)
        share = gamma(problem.n_samples + 8.0)
        rounding = share * float(np.abs(alpha) @ lengths)
        # The weight of a free intercept is what alpha lacks of balance: it counts like the others.
        v = problem.precise_weights(alpha)
        errors = share * np.append(abs(problem.rows.matrix).T @ np.abs(alpha), problem.intercept_scaling)
        worth = worth_of(problem.loss, problem.targets, alpha)
        found = cls.with_worth(alpha, float(np.linalg.norm(v)) + rounding, rounding, worth)
        return replace(found, is_rounding=bool(np.all(np.abs(v) <= errors)))

    @classmethod
    def with_worth(cls, alpha: Array, length: float, rounding: float, worth: float) -> Ray:
        """``length`` bounds |v|, ``rounding`` is what of it is rounding, and ``worth`` is omega, rounded downwards."""
        return cls(alpha, length / worth, rounding / worth) if worth > 0.0 else cls(alpha, math.inf, 0.0)

    @property
    def is_proof(self) -> bool:
        """Whether the bound on the margin is no greater than its rounding error, so that no hyperplane separates."""
        return self.is_rounding and self.margin <= 2.0 * self.rounding

    @property
    def order(self) -> tuple[bool, float]:
        """The better of two rays has the lesser."""
        return not self.is_proof, self.margin / max(self.rounding, 1e-300)


def worth_of(loss: Loss, targets: Array, alpha: Array) -> float:
    """omega of the head of this module, rounded downwards, for an alpha whose sizes add up to one."""
    if not loss.is_regression:
        return 1.0
    size, epsilon = np.abs(alpha), epsilon_of(loss)
    exact = float(targets @ alpha) - epsilon
    return exact - gamma(len(alpha) + 8.0) * (float(np.abs(targets) @ size) + epsilon)


def epsilon_of(loss: Loss) -> float:
    """Half the width of the tube of a loss of regression."""
    return float(loss.residual_pieces().epsilon)  # type: ignore[attr-defined]


def hard_loss(loss: Loss) -> Loss:
    """The piecewise linear loss that is zero where this one is."""
    found: Any = EpsilonInsensitive(epsilon_of(loss)) if loss.is_regression else Hinge()
    return found


def least_room(loss: Loss, signs: Array, targets: Array, values: Array, errors: Array) -> float:
    """How far inside its constraint the worst of these samples is, rounded downwards: y f - 1, or epsilon - |t - f|. The values
    f, offset included, are known up to ``errors``."""
    if not loss.is_regression:
        return float((signs * values - errors - 1.0).min())
    epsilon = epsilon_of(loss)
    errors = errors + 4.0 * UNIT_ROUNDOFF * (np.abs(targets) + np.abs(values) + epsilon)
    return float((epsilon - np.abs(targets - values) - errors).min())


def least_margin(problem: LinearProblem, w: Array) -> float:
    """The least margin of the samples with C_i > 0, rounded downwards."""
    values, errors = _values(problem, w)
    return float((problem.y * values - errors)[problem.C > 0.0].min())


def _values(problem: LinearProblem, w: Array) -> tuple[Array, Array]:
    """w . x + b for each sample, and how wrong each can be."""
    d = problem.rows.n_features
    intercept = float(w[-1]) * problem.intercept_scaling if problem.intercept_scaling else 0.0
    values, errors = linear_values(problem.rows.matrix, w[None, :d], np.array([intercept]))
    return values[:, 0], errors[:, 0]


def certify_hard_margin(problem: LinearProblem, w: Array, alpha: Array) -> Certificate:
    """Judge the pair (w, alpha) for C = infinity. Of the problem's C only one thing counts: which C_i are zero."""
    is_here = problem.C > 0.0
    values, errors = _values(problem, w)
    parts = (each[is_here] for each in (problem.signs, problem.targets, values, errors))
    if not (np.isfinite(w).all() and least_room(problem.loss, *parts) >= 0.0):
        return refusal(int(np.count_nonzero(alpha)))
    greatest = judged_cost(alpha)
    return certify(replace(problem, C=np.where(is_here, greatest, 0.0), loss=hard_loss(problem.loss)), w, alpha)


def linear_hard_offset_bound(problem: LinearProblem, w: Array, certificate: Certificate) -> float:
    """An upper bound on |b - b*|, where the intercept is free; zero where the ball of the certificate covers it."""
    if problem.penalizes_intercept:
        return 0.0
    weights = np.append(w[:-1], 0.0)
    outputs, errors = _values(problem, weights)
    reach = certificate.distance_bound * norms(problem.rows.matrix) + errors
    return hard_offset_bound(problem, outputs, reach, float(w[-1]) * problem.intercept_scaling)


def hard_offset_bound(problem: LinearProblem | KernelProblem, outputs: Array, reach: Array, b: float) -> float:
    """An upper bound on |b - b*|, if each optimal output is within ``reach`` of the given one. See the head of this module."""
    is_here = problem.C > 0.0
    reach = (reach + 4.0 * UNIT_ROUNDOFF * (np.abs(outputs) + np.abs(problem.targets) + 1.0)) * OUTWARDS
    low, high = offset_room(problem, outputs)
    farthest = max(float((high + reach)[is_here].min()) - b, b - float((low - reach)[is_here].max()))
    return farthest * OUTWARDS + 4.0 * UNIT_ROUNDOFF * abs(b) if math.isfinite(farthest) else math.inf


def offset_room(problem: LinearProblem | KernelProblem, outputs: Array) -> tuple[Array, Array]:
    """The least and the greatest offset that the constraint of each sample allows."""
    if problem.loss.is_regression:
        residuals, epsilon = problem.targets - outputs, epsilon_of(problem.loss)
        return residuals - epsilon, residuals + epsilon
    kinks, is_positive = problem.signs - outputs, problem.y > 0
    return np.where(is_positive, kinks, -np.inf), np.where(is_positive, np.inf, kinks)


def judged_cost(alpha: Array) -> float:
    """The C of the problem that stands for C = infinity."""
    return policy.HARD_MARGIN.times_greatest_alpha * float(np.abs(alpha).max(initial=0.0)) or 1.0


def with_margin_one(problem: LinearProblem, w: Array) -> Array:
    """w, made longer or shorter until its least margin is one, rounding included; w itself where it does not separate. Where
    rounding moves margins by more than a step has made w longer, the next step is longer."""
    least, longer = least_margin(problem, w), UNIT_ROUNDOFF
    for k in range(policy.HARD_MARGIN.most_scalings):
        if not 0.0 < least < math.inf or 1.0 <= least <= (math.inf if k else 1.0 + 1e-15):
            break
        w, longer = w * ((1.0 + 2.0 * longer) / least), longer * policy.HARD_MARGIN.scaling_growth
        least = least_margin(problem, w)
    return w

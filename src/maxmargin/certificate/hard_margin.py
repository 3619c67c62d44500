r"""The hard margin, C = infinity: what proves an answer, and what proves that there is none.

.. math:: \min_w \tfrac12 |w|^2 \;\text{ with }\; y_i (w \cdot x_i + b) \ge 1 \text{ for all } i, \qquad
          \max_{\alpha \ge 0} \sum_i \alpha_i - \tfrac12 |w(\alpha)|^2 .

**An answer.** Where every margin is at least one, rounding included, hinge loss is zero whatever C is, and a dual point is
feasible for every C from its greatest :math:`\alpha_i` on. So the certificate of the problem with such a C is that of the hard
margin.

**No answer.** Let :math:`\alpha \ge 0` with :math:`\sum_i \alpha_i = 1`, balanced where the intercept is free, and
:math:`v = w(\alpha)`. For every w whose margins are at least one, :math:`1 \le \sum_i \alpha_i y_i (w \cdot x_i + b) = w \cdot
v \le |w| |v|`: no hyperplane has a margin of more than :math:`|v|`. With v = 0 there is none at all (P. Gordan, 1873), and
alpha is a ray along which the dual value grows without end."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import Certificate, refusal
from maxmargin.certificate.linear import certify
from maxmargin.certificate.predictions import linear_values, norms
from maxmargin.certificate.rounding import gamma
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge


class InseparableError(ValueError):
    """The classes cannot be separated. ``ray`` holds the weights of the samples that prove it, and ``margin`` is what no
    hyperplane's margin exceeds."""

    def __init__(self, sentence: str, ray: Array, margin: float) -> None:
        super().__init__(sentence)
        self.ray, self.margin = ray, margin


@dataclass(frozen=True, eq=False)
class Ray:
    """Weights that add up to one, the bound on the margin that they prove, and the rounding error of that bound."""

    alpha: Array
    margin: float
    rounding: float

    @classmethod
    def of(cls, problem: LinearProblem, alpha: Array) -> Ray:
        """Make a ray from an alpha >= 0 that is not zero. With a free intercept alpha must be balanced up to rounding."""
        alpha = alpha / alpha.sum()
        lengths = np.hypot(norms(problem.rows.matrix), problem.intercept_scaling)
        rounding = gamma(problem.n_samples + 8.0) * float(alpha @ lengths)
        # The weight of a free intercept is what alpha lacks of balance: it counts like the others.
        return cls(alpha, float(np.linalg.norm(problem.weights(alpha))) + rounding, rounding)

    @property
    def is_proof(self) -> bool:
        """Whether the bound on the margin is no greater than its rounding error, so that no hyperplane separates."""
        return self.margin <= 2.0 * self.rounding


def least_margin(problem: LinearProblem, w: Array) -> float:
    """The least margin of the samples with C_i > 0, rounded downwards."""
    d = problem.rows.n_features
    intercept = float(w[-1]) * problem.intercept_scaling if problem.intercept_scaling else 0.0
    values, errors = linear_values(problem.rows.matrix, w[None, :d], np.array([intercept]))
    return float((problem.y * values[:, 0] - errors[:, 0])[problem.C > 0.0].min())


def certify_hard_margin(problem: LinearProblem, w: Array, alpha: Array) -> Certificate:
    """Judge the pair (w, alpha) for C = infinity. Of the problem's C only one thing counts: which C_i are zero."""
    if not (np.isfinite(w).all() and least_margin(problem, w) >= 1.0):
        return refusal(int(np.count_nonzero(alpha)))
    greatest = policy.HARD_MARGIN.times_greatest_alpha * float(alpha.max(initial=0.0)) or 1.0
    return certify(replace(problem, C=np.where(problem.C > 0.0, greatest, 0.0), loss=Hinge()), w, alpha)


def with_margin_one(problem: LinearProblem, w: Array) -> Array:
    """w, made longer or shorter until its least margin is one, rounding included; w itself where it does not separate."""
    least = least_margin(problem, w)
    for _ in range(8):
        if not 0.0 < least < math.inf or 1.0 <= least <= 1.0 + 1e-15:
            break
        w = w * ((1.0 + 2.0**-52) / least)
        least = least_margin(problem, w)
    return w

r"""An alpha whose w(alpha) is nearer to a given w, by tiny changes of a few elements.

In a column of milliseconds since 1970, x is about 1.6e12. The last digit of an alpha of 1e6 is 1e-10, and it moves w(alpha) by
160, where w is 1e-11. The gap has the term :math:`|w - w(\alpha)|^2 / 2`, so rounding alpha alone costs 1e4, however good w is.
But a small alpha has finer digits. A sample with alpha = 0 can take 1e-10 to sixteen digits, and its own gap term grows by no
more than 1e-10 times its margin. So the small elements make good the rounding errors of the large ones: each round changes the
one element that lowers :math:`|w - w(\alpha)|^2` the most, with what float64 makes of the change counted.

A free intercept asks for :math:`r = \sum_i \alpha_i \sigma_i = 0`, and an r other than zero costs about :math:`r^2 |x|^2 / 2`.
So r is mended like the weight of one more feature, which is as long as the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF


@dataclass(frozen=True)
class MendingPolicy:
    """When the rounding of alpha is mended, and for how long."""

    noticeable: float = 1e-3
    """Share of the gap that the rounding of alpha must be able to cause."""
    rounds_a_weight: int = 4
    """Changes for each weight, besides ``least_rounds``. A change removes the error in about one direction."""
    least_rounds: int = 16
    """Changes that are made at most, however few the weights are, unless one lowers nothing any more."""
    most_elements: float = 1e8
    """Stored elements that all rounds together may touch: 0.1 s."""


DEFAULT = MendingPolicy()


def is_worth_mending(problem: LinearProblem, alpha: Array, gap: float, policy: MendingPolicy = DEFAULT) -> bool:
    """Whether the last digits of alpha can cause a noticeable part of the gap."""
    if problem.offset_prices is not None or problem.penalty.has_kink or not np.isfinite(gap):
        return False
    return rounding_of_alpha(problem, alpha) > policy.noticeable * gap


def rounding_of_alpha(problem: LinearProblem, alpha: Array) -> float:
    """The part of the gap that is to be expected from the last digit of every alpha, wrong by a unit of roundoff each."""
    with np.errstate(all="ignore"):
        return 0.5 * UNIT_ROUNDOFF**2 * float(np.square(alpha) @ problem.rows.squared_norms())


def mended(problem: LinearProblem, w: Array, alpha: Array, policy: MendingPolicy = DEFAULT) -> Array:
    """alpha with changes that bring w(alpha) to w, as far as the digits of float64 allow. Where the intercept is free, its
    weight in w does not count, and the columns must be centred."""
    if not problem.penalizes_intercept:
        length = float(np.sqrt(problem.rows.squared_norms().max()))
        problem, w = replace(problem, intercept_scaling=length, penalizes_intercept=True), np.append(w[:-1], 0.0)
    return mended_singly(problem, w - problem.precise_weights(alpha)[: len(w)], alpha, policy)


def mended_singly(problem: LinearProblem, missing: Array, alpha: Array, policy: MendingPolicy = DEFAULT) -> Array:
    """alpha with changes of single elements after which w(alpha) has moved by ``missing``, as nearly as the digits of float64
    allow."""
    box, sqnorms = problem.box, problem.rows.squared_norms(problem.intercept_scaling)
    missing, alpha, change = missing.copy(), alpha.copy(), np.zeros(len(alpha))
    rounds = policy.least_rounds + policy.rounds_a_weight * problem.n_weights
    with np.errstate(all="ignore"):
        for _ in range(min(rounds, int(policy.most_elements / max(1, problem.rows.n_stored)))):
            slopes = problem.margins(missing)
            changes = np.clip(alpha + slopes / sqnorms, box.L, box.U) - alpha
            gains = (2.0 * slopes - changes * sqnorms) * changes
            best = int(np.argmax(np.where(gains > 0.0, gains, 0.0)))
            if not gains[best] > 0.0:
                break
            alpha[best] += changes[best]
            change[best] = changes[best]
            missing -= problem.weights(change)
            change[best] = 0.0
    return alpha

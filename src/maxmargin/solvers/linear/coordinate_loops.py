"""One step of dual coordinate descent, for the loops of ``dcd_loop`` and ``avsf_loop``: Hsieh et al. (ICML 2008), section 2.

The loops minimise minus the dual, whose gradient is G = sigma_i w . x_i - p_i + D_ii alpha_i. The terms of the dual have one of
two types, and a loop is compiled for each type:

- ``OneSided``: two classes, p_i = 1, and alpha_i >= ``lower`` for all samples, which is 0 or, for least squares, -inf;
- ``TwoSided``: regression, where -epsilon |alpha_i| adds a kink at 0 (C.-H. Ho and C.-J. Lin, "Large-scale linear support
  vector regression", JMLR 13, 2012, section 3.2). The slope upwards then differs from the slope downwards.

``NotedOneSided`` and ``NotedTwoSided`` are the same, and note for each sample what its last visit found: a fit by passes
chooses from that which samples to read again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.by_type import by_type
from maxmargin.data.caching import njit
from maxmargin.data.rows import Array

COORDINATE = np.dtype([("alpha", "f8"), ("U", "f8"), ("D", "f8"), ("inverse_Q", "f8")])
"""What a step needs to know of its sample, side by side in memory. inverse_Q is 1 / (|x_i|^2 + D_ii): infinite for a zero row,
and UNKNOWN until the first step, which has the row in the cache anyway."""
TWO_SIDED_COORDINATE = np.dtype([*COORDINATE.descr, ("L", "f8"), ("target", "f8")])

UNKNOWN = 0.0


class OneSided(NamedTuple):
    """``y`` is the label of each sample, ``lower`` the lower bound of every alpha_i."""

    y: Array
    lower: float


class TwoSided(NamedTuple):
    """The targets and bounds are in the samples' records."""

    epsilon: float


class NotedOneSided(NamedTuple):
    """``slopes`` and ``gaps`` are written at every visit of a sample: see ``note_visit``."""

    y: Array
    lower: float
    slopes: Array
    gaps: Array


class NotedTwoSided(NamedTuple):
    """The same for regression."""

    epsilon: float
    slopes: Array
    gaps: Array


@by_type
def note_visit(terms, i, slope, gap):
    """Note minus |projected gradient| where the sample can move, and otherwise the slope that holds it at its bound; and its
    gap term before the step."""


@note_visit.when(OneSided, TwoSided)
def _(terms, i, slope, gap):
    pass


@note_visit.when(NotedOneSided, NotedTwoSided)
def _(terms, i, slope, gap):
    terms.slopes[i] = slope
    terms.gaps[i] = gap


@by_type
def sign_of(terms, i):
    """sigma_i"""


@sign_of.when(OneSided, NotedOneSided)
def _(terms, i):
    return np.float64(terms.y[i])


@sign_of.when(TwoSided, NotedTwoSided)
def _(terms, i):
    return 1.0


@by_type
def target_of(terms, sample):
    """p_i"""


@target_of.when(OneSided, NotedOneSided)
def _(terms, sample):
    return 1.0


@target_of.when(TwoSided, NotedTwoSided)
def _(terms, sample):
    return sample.target


@by_type
def slopes_of(terms, alpha, G):
    """The slope of the dual, minimised, to the right of alpha_i and to the left."""


@slopes_of.when(OneSided, NotedOneSided)
def _(terms, alpha, G):
    return G, G


@slopes_of.when(TwoSided, NotedTwoSided)
def _(terms, alpha, G):
    up = G + terms.epsilon if alpha >= 0.0 else G - terms.epsilon
    down = G + terms.epsilon if alpha > 0.0 else G - terms.epsilon
    return up, down


@by_type
def projected_gradient(terms, sample, up, down):
    """Eq. (8): the slope in the direction in which alpha_i can move, and 0 where no allowed move lowers the objective."""


@projected_gradient.when(OneSided, NotedOneSided)
def _(terms, sample, up, down):
    if sample.alpha == terms.lower:
        return min(up, 0.0)
    if sample.alpha == sample.U:
        return max(up, 0.0)
    return up


@projected_gradient.when(TwoSided, NotedTwoSided)
def _(terms, sample, up, down):
    if up < 0.0 and sample.alpha != sample.U:
        return up
    if down > 0.0 and sample.alpha != sample.L:
        return down
    return 0.0


@by_type
def is_out_of_reach(terms, sample, up, down, above, below):
    """Eq. (16): whether alpha_i is at a bound and its slope holds it there by more than the thresholds of the last sweep."""


@is_out_of_reach.when(OneSided, NotedOneSided)
def _(terms, sample, up, down, above, below):
    if sample.alpha == terms.lower:
        return up > above
    return sample.alpha == sample.U and up < below


@is_out_of_reach.when(TwoSided, NotedTwoSided)
def _(terms, sample, up, down, above, below):
    may_rise = sample.alpha != sample.U and up <= above
    may_fall = sample.alpha != sample.L and down >= below
    return not may_rise and not may_fall


@by_type
def minimiser(terms, sample, G, up, down, inverse_Q):
    """Eq. (9): the alpha_i that is optimal along its axis. Call it where ``up`` is negative or ``down`` positive."""


@minimiser.when(OneSided, NotedOneSided)
def _(terms, sample, G, up, down, inverse_Q):
    return max(min(sample.alpha - G * inverse_Q, sample.U), terms.lower)


@minimiser.when(TwoSided, NotedTwoSided)
def _(terms, sample, G, up, down, inverse_Q):
    alpha, beyond = sample.alpha, 2.0 * terms.epsilon
    if up < 0.0:
        new = alpha - up * inverse_Q
        if alpha < 0.0 < new:  # beyond the kink it is steeper
            new = max(0.0, alpha - (up + beyond) * inverse_Q)
        return min(new, sample.U)
    new = alpha - down * inverse_Q
    if new < 0.0 < alpha:
        new = min(0.0, alpha - (down - beyond) * inverse_Q)
    return max(new, sample.L)


@by_type
def kink_rise(terms, alpha, new_alpha):
    """epsilon (|new alpha_i| - |alpha_i|)"""


@kink_rise.when(OneSided, NotedOneSided)
def _(terms, alpha, new_alpha):
    return 0.0


@kink_rise.when(TwoSided, NotedTwoSided)
def _(terms, alpha, new_alpha):
    return terms.epsilon * (abs(new_alpha) - abs(alpha))


@by_type
def gap_term(terms, sample, G):
    """What a sample adds to the duality gap."""


@gap_term.when(OneSided, NotedOneSided)
def _(terms, sample, G):
    return one_sided_gap(G, sample.alpha, sample.U, sample.D, terms.lower)


@gap_term.when(TwoSided, NotedTwoSided)
def _(terms, sample, G):
    if sample.U < np.inf:  # a piecewise linear loss: D holds only features that were folded into it
        return two_sided_gap(sample, 0.0, -G, terms.epsilon)
    return two_sided_gap(sample, sample.D, sample.D * sample.alpha - G, terms.epsilon)


@njit(inline="always")
def one_sided_gap(G, alpha, U, D, lower):
    """Where alpha has an upper bound, the loss is the hinge, whatever D is."""
    if U < np.inf:
        return (U - alpha) * max(0.0, -G) + alpha * max(0.0, G)
    if lower < 0.0 or G < D * alpha:
        return G * G / (2.0 * D)
    return alpha * (G - 0.5 * D * alpha)


@njit(inline="always")
def two_sided_gap(sample, D, residual, epsilon):
    """With h(a) = a r - epsilon |a| - D a^2 / 2: the greatest h in the box, which is C times the loss, minus h(alpha)."""
    pull = max(0.0, residual - epsilon) + min(0.0, residual + epsilon)
    best = 0.0
    if pull != 0.0:
        best = pull / D if D > 0.0 else np.inf * pull
        best = max(min(best, sample.U), sample.L)
    alpha = sample.alpha
    return (best - alpha) * (residual - 0.5 * D * (best + alpha)) - epsilon * (abs(best) - abs(alpha))

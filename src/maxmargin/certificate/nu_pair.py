r"""The judges of machines with nu as machines without: with a finite feature map by a pair (w, alpha), where w need not be
w(alpha). On a raw table w(alpha) is not precise enough in float64, as in ``maxmargin.estimators.pair_features``.

**nu-SVR.** Where C is large beside the targets, both variables of a sample are about C, and their difference beta has lost its
digits. With the signed variables :math:`\beta`, a tube of :math:`\epsilon \ge 0` and :math:`T = \nu \sum_i C_i`, nu-SVR is

.. math:: P(w, b, \epsilon) = P_\epsilon(w, b) + T \epsilon, \qquad
          D(\beta) = D_\epsilon(\beta) + \epsilon \sum_i |\beta_i|, \quad \sum_i |\beta_i| \le T ,

with :math:`P_\epsilon` and :math:`D_\epsilon` the values of regression with that tube. So the gap is that of the regression
(:mod:`maxmargin.certificate.linear`, or :mod:`maxmargin.certificate.kernel` with w = w(beta)) and
:math:`\epsilon (T - \sum_i |\beta_i|)`, which is not negative either. The judge of the regression charges what
:math:`\sum_i \beta_i` lacks of zero by making the heavier sign smaller, so that the sum of sizes stays below T.

**nu-SVC** divided by rho is C-SVC with C = 1 / rho. With :math:`T = \nu \sum_i s_i` and :math:`w = \rho w', \alpha = \rho
\alpha'`,

.. math:: P = \rho^2 (P_C(w', b') - C T), \qquad
          D = \rho^2 (D_C(\alpha') - \sum_i \alpha'_i), \quad \sum_i \alpha'_i \ge C T .

(With rho >= 0, which is no restriction where nu is feasible, the sum of alpha may be above T.) So the gap is that of C-SVC and
:math:`\sum_i \alpha'_i - C T`, times :math:`\rho^2`. What balances alpha' makes its sum smaller.

**A full group.** Where T is twice the sum of the weights of one class, every alpha of that class is at its bound, and rho is
free: with alpha' = C s there, and alpha' of the other class with the same sum, :math:`\sum_i \alpha'_i = C T` at every C, so
that the gap is that of C-SVC times :math:`\rho^2`. C is a power of two, so that the bounds C s are not rounded. What balances
alpha' makes the other class smaller, if that is the heavier one.

All hold for any alpha, because a dual value bounds P at every tube and every rho. A certificate with intervals of weights
(:mod:`maxmargin.certificate.weight_bounds`) bounds the optimum of one tube, or of one rho, alone, and is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from maxmargin.certificate.certificate import Certificate, refusal, relative
from maxmargin.certificate.hard_margin import epsilon_of
from maxmargin.certificate.linear import certify
from maxmargin.certificate.rounding import OUTWARDS
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem

ROUNDED = 16.0
"""Units in the last place by which a term of a value can be wrong where costs, their sum and the products with C are rounded.
There are fewer than ten roundings."""


def certify_nu_pair(problem: LinearProblem, total: float, w: Array, beta: Array) -> Certificate:
    """Judge the pair for nu-SVR. ``problem`` is the regression with the tube of the answer and a free intercept, and ``total``
    is T."""
    return with_tube(certify(problem, w, beta), epsilon_of(problem.loss), total, beta)


def with_tube(own: Certificate, epsilon: float, total: float, beta: Array) -> Certificate:
    """The certificate of nu-SVR from that of the regression with this tube. The point whose beta_i add up to zero has a sum of
    sizes that is less by what they lack of zero."""
    size = math.fsum(np.abs(beta))
    if not (size <= total and _bounds_every_alternative(own)):
        return refusal(int(np.count_nonzero(beta)))
    size -= abs(math.fsum(beta))
    primal, dual = own.primal + epsilon * total, own.dual + epsilon * size
    gap = own.gap + epsilon * (total - size)
    rounding = own.rounding_error + 4.0 * UNIT_ROUNDOFF * (epsilon * (total + size) + gap)
    distance = math.sqrt(2.0 * (gap + rounding)) * OUTWARDS
    found = replace(own, primal=primal, dual=dual, gap=gap, rounding_error=rounding, distance_bound=distance)
    return replace(found, relative_gap=relative(gap, primal, dual))


def with_cost(own: Certificate, C: float, total: float, signed: Array) -> Certificate:
    """The certificate of nu-SVC from that of C-SVC, whose costs are the products of C and the weights, rounded. ``total`` is
    T, and ``signed`` the alpha' with their signs. A cost that is rounded is wrong by one unit in the last place, and so are
    the terms of both values."""
    size, needed = math.fsum(np.abs(signed)), C * total
    least = size - abs(math.fsum(signed))
    if not (least >= needed * (1.0 + ROUNDED * UNIT_ROUNDOFF) and _bounds_every_alternative(own)):
        return refusal(int(np.count_nonzero(signed)))
    primal, dual, gap = own.primal - needed, own.dual - size, own.gap + (size - needed)
    rounding = own.rounding_error + ROUNDED * UNIT_ROUNDOFF * (own.primal + abs(own.dual) + size + needed)
    return _undivided(own, C, primal, dual, gap, rounding)


def with_full_group(own: Certificate, C: float, weights: Array, signed: Array, is_full: Array) -> Certificate:
    """The certificate of nu-SVC with a full group from that of C-SVC. ``weights`` are the s of all samples, and ``is_full`` is
    true for those of the group."""
    costs = C * weights
    is_exact = math.frexp(C)[0] == 0.5 and bool(np.all(costs / C == weights))
    at_bound = bool(np.all(np.abs(signed[is_full]) == costs[is_full]))
    is_lighter = abs(math.fsum(signed[is_full])) <= abs(math.fsum(signed[~is_full]))
    if not (is_exact and at_bound and is_lighter and _bounds_every_alternative(own)):
        return refusal(int(np.count_nonzero(signed)))
    needed = 2.0 * math.fsum(costs[is_full])
    rounding = own.rounding_error + ROUNDED * UNIT_ROUNDOFF * (own.primal + abs(own.dual) + needed)
    return _undivided(own, C, own.primal - needed, own.dual - needed, own.gap, rounding)


def _undivided(own: Certificate, C: float, primal: float, dual: float, gap: float, rounding: float) -> Certificate:
    """The certificate with these values of the divided machine, times the square of rho = 1 / C."""
    distance, square = math.sqrt(2.0 * (gap + rounding)) * OUTWARDS / C, C * C
    found = replace(own, primal=primal / square, dual=dual / square, gap=gap / square, rounding_error=rounding / square)
    return replace(found, distance_bound=distance * OUTWARDS, relative_gap=relative(gap, primal, dual))


def _bounds_every_alternative(own: Certificate) -> bool:
    return math.isfinite(own.gap) and own.is_proof and not own.has_bounded_weights

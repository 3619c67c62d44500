r"""The judge of nu-SVR by the signed variables beta: with the linear kernel by a pair (w, beta), where w need not be w(beta).

Where C is large beside the targets, both variables of a sample are about C, and their difference beta has lost its digits. And
on a raw table w(beta) is not precise enough in float64, as in ``maxmargin.estimators.pair_features``. With the signed variables
:math:`\beta`, a tube of :math:`\epsilon \ge 0` and :math:`T = \nu \sum_i C_i`, nu-SVR is

.. math:: P(w, b, \epsilon) = P_\epsilon(w, b) + T \epsilon, \qquad
          D(\beta) = D_\epsilon(\beta) + \epsilon \sum_i |\beta_i|, \quad \sum_i |\beta_i| \le T ,

with :math:`P_\epsilon` and :math:`D_\epsilon` the values of regression with that tube. So the gap is that of the regression
(:mod:`maxmargin.certificate.linear`, or :mod:`maxmargin.certificate.kernel` with w = w(beta)) and
:math:`\epsilon (T - \sum_i |\beta_i|)`, which is not negative either. The judge of the regression charges what
:math:`\sum_i \beta_i` lacks of zero by making the heavier sign smaller, so that the sum of sizes stays below T."""

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


def certify_nu_pair(problem: LinearProblem, total: float, w: Array, beta: Array) -> Certificate:
    """Judge the pair for nu-SVR. ``problem`` is the regression with the tube of the answer and a free intercept, and ``total``
    is T."""
    return with_tube(certify(problem, w, beta), epsilon_of(problem.loss), total, beta)


def with_tube(own: Certificate, epsilon: float, total: float, beta: Array) -> Certificate:
    """The certificate of nu-SVR from that of the regression with this tube. The point whose beta_i add up to zero has a sum of
    sizes that is less by what they lack of zero."""
    size = math.fsum(np.abs(beta))
    if not (size <= total and math.isfinite(own.gap) and own.is_proof):
        return refusal(int(np.count_nonzero(beta)))
    size -= abs(math.fsum(beta))
    primal, dual = own.primal + epsilon * total, own.dual + epsilon * size
    gap = own.gap + epsilon * (total - size)
    rounding = own.rounding_error + 4.0 * UNIT_ROUNDOFF * (epsilon * (total + size) + gap)
    distance = math.sqrt(2.0 * (gap + rounding)) * OUTWARDS
    found = replace(own, primal=primal, dual=dual, gap=gap, rounding_error=rounding, distance_bound=distance)
    return replace(found, relative_gap=relative(gap, primal, dual))

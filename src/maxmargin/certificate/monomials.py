r"""The judge of a polynomial kernel's problem in its monomials, where w(alpha) is known without rounding.

With the features :math:`\phi_e(x) = c_e x^e` (:mod:`maxmargin.problem.feature_maps`) and signed dual variables s,

.. math:: w(\alpha)_e = c_e \sum_i s_i x_i^e , \qquad
          P - D = \tfrac12 |w - w(\alpha)|^2 + \sum_i \left[ C_i \ell_i + \ell_i^* + \alpha_i f_i \right] .

The sums are exact (:mod:`maxmargin.problem.whole_monomials`). Let :math:`u = 2^{-53}`. Rounding a sum to float64 costs 1.01 u,
the coefficient :math:`c_e` is right to 4 u, and their product adds u: an element of w(alpha) is right to 7 u of itself. So the
first term is wrong by at most :math:`|w - w(\alpha)| \delta + \delta^2 / 2` with :math:`\delta = 7 u |w(\alpha)|`.

The outputs :math:`f_i` are computed from features that are each right to ``relative_error``, in a sum of m products, whose
errors go through the gap terms by their slopes. With a free offset the dual asks for :math:`\sum_i s_i = 0`. Where that sum is
r, also exact, one sample k with room in its box takes the change -r. The dual falls by at most

.. math:: |r| \left( |p_k| + \epsilon + |w(\alpha)| |\phi_k| \right) + \tfrac12 r^2 |\phi_k|^2 ,

and the sample with the shortest :math:`\phi_k` is taken."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.certificate.certificate import BALANCED, Certificate, Counts, GapParts, Imbalance, assemble, refusal
from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, SMALLEST, gamma, vector
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.feature_maps import Monomials
from maxmargin.problem.kernels import SECOND_ORDER
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.whole_monomials import Scaled, WholeMonomials, exact_sum

WEIGHT_ERROR = 7.0 * UNIT_ROUNDOFF
"""Relative error of an element of w(alpha): see the head of this module."""


@dataclass(frozen=True, eq=False)
class MonomialJudge:
    """``certify`` for many pairs of one problem, whose rows are phi of the samples as ``map`` computes it."""

    map: Monomials
    problem: LinearProblem
    whole: WholeMonomials

    @cached_property
    def coefficients(self) -> Array:
        return np.concatenate([part for _, part in self.map.terms()])

    @cached_property
    def magnitudes(self) -> Array:
        return np.abs(self.problem.rows.matrix)

    @cached_property
    def lengths(self) -> Array:
        """A bound on each |phi_i|."""
        growth = 1.0 + SECOND_ORDER * (self.map.relative_error + gamma(self._n_features + 4.0))
        return growth * np.linalg.norm(self.magnitudes, axis=1) + self.map.absolute_error * self._n_features

    @property
    def _n_features(self) -> int:
        return len(self.whole.exponents)

    def sums(self, alpha: Array) -> list[Scaled]:
        """sum_i s_i x_i^e for each monomial."""
        return self.whole.sums(alpha * self.problem.signs)

    def certify(self, w: Array, alpha: Array) -> Certificate:
        w, alpha = vector(w, self.problem.n_weights, "w"), vector(alpha, self.problem.n_samples, "alpha")
        counts = Counts.of(alpha, (alpha == self.problem.box.U) | (alpha == self.problem.box.L))
        if not (np.isfinite(w).all() and self._is_in_box(alpha)):
            return refusal(counts.n_support)
        with np.errstate(all="ignore"):
            own = self.coefficients * np.array([float(total) for total in self.sums(alpha)])
            return assemble(self._parts(w, own, alpha), self._imbalance(w, own, alpha), counts)

    def _is_in_box(self, alpha: Array) -> bool:
        return bool(np.all((alpha >= self.problem.box.L) & (alpha <= self.problem.box.U)))

    def _parts(self, w: Array, own: Array, alpha: Array) -> GapParts:
        problem, loss = self.problem, self.problem.loss
        margins, C, targets = problem.margins(w), problem.C, problem.targets
        apart, size = w[: self._n_features] - own, float(np.linalg.norm(own)) * OUTWARDS
        distance, delta = float(np.linalg.norm(apart)) * OUTWARDS, WEIGHT_ERROR * size + SMALLEST * self._n_features
        effects = loss.gap_sensitivity(margins, alpha, C, self.output_errors(w), targets)
        gap = 0.5 * float(apart @ apart) + float(np.sum(loss.gap_terms(margins, alpha, C, targets)))
        return GapParts(
            primal=problem.primal(w),
            dual=float(np.sum(problem.box.terms(alpha))) - 0.5 * float(own @ own),
            gap=gap,
            error=SECOND_ORDER * (float(np.sum(effects)) + distance * delta + 0.5 * delta * delta),
            roundings=gamma(float(PAIRWISE_ROUNDINGS + self._n_features)),
            apart=distance + delta,
        )

    def output_errors(self, w: Array) -> Array:
        """How wrong each residual t_i - f_i can be."""
        weights, offset = np.abs(w[: self._n_features]), float(np.abs(w[self._n_features :]).sum())
        relative = self.map.relative_error + gamma(self._n_features + 4.0)
        magnitudes = self.magnitudes @ weights + offset * self.problem.intercept_scaling
        own = 4.0 * UNIT_ROUNDOFF * (magnitudes + np.abs(self.problem.targets))
        return SECOND_ORDER * (relative * magnitudes + own + self.map.absolute_error * float(weights.sum()))

    def _imbalance(self, w: Array, own: Array, alpha: Array) -> Imbalance:
        problem = self.problem
        if problem.penalizes_intercept:
            return BALANCED
        excess = float(exact_sum(alpha * problem.signs))
        worst = abs(excess) * (1.0 + 4.0 * UNIT_ROUNDOFF)
        step = -math.copysign(worst, excess) * problem.signs
        has_room = (alpha + 2.0 * step >= problem.box.L) & (alpha + 2.0 * step <= problem.box.U)
        if excess == 0.0:
            return BALANCED
        length = float(np.min(self.lengths, where=has_room, initial=math.inf))
        steepness = float(np.abs(problem.box.p).max()) + problem.box.e + SECOND_ORDER * float(np.linalg.norm(own)) * length

        def fall(r: float) -> float:
            return r * steepness + 0.5 * (r * length) * (r * length)

        offset = abs(float(w[-1])) * problem.intercept_scaling
        return Imbalance.of(worst, UNIT_ROUNDOFF * worst, offset, fall, length)


def monomial_judge(map: Any, problem: LinearProblem, X: Array, most_numbers: int) -> MonomialJudge | None:
    """The judge; None where the sums would take too long, or a coefficient is outside the range of float64."""
    if not isinstance(map, Monomials) or problem.n_samples * map.n_features > most_numbers:
        return None
    coefficients = np.concatenate([part for _, part in map.terms()])
    if not (np.isfinite(coefficients) & (coefficients > np.finfo(np.float64).tiny)).all():
        return None
    judge = MonomialJudge(map, problem, WholeMonomials.of(map, X))
    return judge if math.isfinite(float(judge.lengths.max(initial=0.0))) else None

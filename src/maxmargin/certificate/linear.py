r"""The judge: how far an answer is from the optimum, recomputed from the data alone.

For any w and any feasible alpha the duality gap is a sum of terms that are never negative,

.. math:: P(w) - D(\alpha) = \sum_i \left[ C_i \ell(f_i, t_i) + \ell^*(\alpha_i) + \alpha_i f_i \right]
          + \tfrac12 |w - w(\alpha)|^2 ,

so nothing cancels, and a gap of 1e-12 is known as well as a gap of 1. (A free intercept is not in the last term. The dual then
asks for sum_i alpha_i sigma_i = 0, and where that sum is not zero its cost is added to the gap.) Everything is computed in
float64 in one pass over X, and the certificate bounds its own rounding error: a dot product of k terms is wrong by at most
:math:`\gamma_k \sum_j |w_j x_{ij}|` with :math:`\gamma_k = k u / (1 - k u)` (Higham, Accuracy and Stability of Numerical
Algorithms, section 3.1), and that error goes through each gap term by its slope.

In raw columns, such as times in seconds since 1970, the sums of w(alpha) cancel by many digits. If the bound on rounding is of
the size of the gap, a second pass computes the outputs, w(alpha) and sum_i alpha_i sigma_i in about twice the precision. Where
the intercept is free, that pass takes x from the mean of X. :math:`\gamma_k^2` then takes the place of :math:`\gamma_k`. In
regression a third pass computes the residuals exactly, where that is needed (``exact_residuals.py``).

The module imports no solver and no compiled code of a solver.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import BALANCED, Certificate, Imbalance, as_zero, or_zero, refusal
from maxmargin.certificate.exact_residuals import can_be_exact, with_exact_residuals
from maxmargin.certificate.linear_sums import DualTotals, PartSums, PassOutput, has_compiled_sums, shared_sums
from maxmargin.certificate.linear_verdict import (
    Comparison,
    Moved,
    compared,
    compared_precisely,
    imbalance_of,
    may_move_targets,
    verdict,
    zero_value,
)
from maxmargin.certificate.rounding import OUTWARDS, gamma, two_product, two_sum, vector
from maxmargin.certificate.weight_bounds import Pair, may_be_wide, with_bounded_weights
from maxmargin.certificate.zero import DualPoint, are_zeros_beside, is_zero_in_columns
from maxmargin.data.rows import Array
from maxmargin.data.threads import Crew
from maxmargin.problem.dual_box import UNIT_ROUNDOFF, one_or_all, summed
from maxmargin.problem.linear import LinearProblem


def certify(problem: LinearProblem, w: Array, alpha: Array) -> Certificate:
    """Judge the pair (w, alpha). It costs one pass over X, on all cores when X is large.

    With an L1 penalty the dual asks for |w(alpha)_j| <= 1: alpha is scaled down to that first, and the certificate is that of
    the scaled alpha."""
    return judge_of(problem).certify(w, alpha)


def judge_of(problem: LinearProblem) -> Judge:
    """The judge for the penalty of this problem."""
    if not problem.penalty.has_kink:
        return Judge(problem)
    from maxmargin.certificate.sparse import SparseJudge

    return SparseJudge(problem)


class Judge:
    """``certify`` for many answers to one problem. It keeps the memory for w(alpha), which matters when w is long. Of ``tol``,
    the relative gap that is asked for, only the judge of sparse models makes use."""

    tol: float = 0.0

    def __init__(self, problem: LinearProblem) -> None:
        self.problem = problem
        self._crew = Crew.in_parts(problem.rows.n_stored, 2 * problem.n_weights)
        self._weights = np.empty((self._crew.n_parts, problem.rows.n_features + 1))
        self.squares: Array | None = None
        self.margins: Array | None = None
        """Where the offset has a price, |x_i|^2 as the last pass has found them, and memory for the outputs. They share a piece
        of memory, because a large one comes in large pages."""
        if problem.offset_prices is not None:
            self.squares, self.margins = np.empty((2, problem.n_samples))

    def certify(self, w: Array, alpha: Array, margins: Array | None = None) -> Certificate:
        """``margins``, if given, is filled with the outputs sigma_i (w . x_i)."""
        w = np.ascontiguousarray(vector(w, self.problem.n_weights, "w"))
        alpha = vector(alpha, self.problem.n_samples, "alpha")
        with np.errstate(all="ignore"):
            is_judged_later = self.problem.loss.is_regression
            if not (np.isfinite(w).all() and (is_judged_later or self.problem.is_feasible(alpha))):
                return refusal(int(np.count_nonzero(alpha)))
            sums = self._sums(PassOutput(w, alpha, margins, self._weights, None, self.squares))
            if not sums.is_feasible:
                return refusal(sums.dual.n_support)
            quick = self._or_zero(self._verdict(sums, compared(self.problem, w, sums)), w, alpha, sums)
            if not (is_in_doubt(quick) or may_be_wide(self.problem, sums, quick)):
                return quick
            sums = self._sums(PassOutput(w, alpha, None, self._weights, np.zeros_like(self._weights)))
            moved = None if self.problem.penalizes_intercept else self._moved(w, alpha, sums)
            comparison = compared_precisely(self.problem, w, sums, moved)
            found = better(quick, self._verdict(sums, comparison))
            if is_in_doubt(found) and can_be_exact(self.problem):
                exact = with_exact_residuals(self.problem, w, alpha, sums)
                if exact is not None:
                    sums, found = exact, better(found, self._verdict(exact, comparison))
            if may_be_wide(self.problem, sums, found):
                bounded = with_bounded_weights(self.problem, Pair(w, alpha), sums, self._centre, moved)
                found = found if bounded is None else better(found, bounded)
            return self._or_zero(found, w, alpha, sums)

    def _or_zero(self, certificate: Certificate, w: Array, alpha: Array, sums: PartSums) -> Certificate:
        """The certificate of one class whose optimum is w = 0, where that is what w and alpha show. Of w = 0 itself nothing is
        asked but a feasible zero near alpha: where its columns are few, the last digits of alpha need not be below rounding."""
        problem, prices = self.problem, self.problem.offset_prices
        if prices is None:
            return certificate
        value, X = zero_value(problem, sums.rows), problem.rows.matrix
        zero = or_zero(certificate, value) if w.any() else as_zero(certificate, value)
        if zero is certificate or not are_zeros_beside(w[: X.shape[1]], X, alpha):
            return certificate
        support = np.flatnonzero(alpha)  # a sample whose alpha is zero adds nothing, and has no room
        support = support if len(support) else np.arange(len(alpha))
        ones, upper = np.ones(len(support)), np.asarray(problem.box.U)[support]
        point = DualPoint(alpha[support], upper, ones, ones[:, None], np.array([summed(prices)]))
        return zero if is_zero_in_columns(X[support], point) else certificate

    def _sums(self, output: PassOutput) -> PartSums:
        """The sums over all rows."""
        totals = shared_sums(self.problem, self._crew, output)
        linear = self._linear(output.alpha, float(output.w[-1]) * self.problem.intercept_scaling)
        rests = None if output.rests is None else output.rests[0]
        if has_compiled_sums(self.problem):
            dual = DualTotals.of_rows(totals, len(output.alpha), linear)
        else:
            dual = DualTotals.of(self.problem, output.alpha, linear)
        return PartSums(totals, dual, self._weights[0], rests, totals.n_outside == 0)

    def _linear(self, alpha: Array, offset: float) -> float:
        """sum_i |alpha_i| (|p_i| + e), of which only a free intercept without a price makes use."""
        if self.problem.penalizes_intercept or self.problem.offset_prices is not None:
            return 0.0
        box = self.problem.box
        linear = np.abs(box.p - offset) * OUTWARDS if may_move_targets(self.problem) else np.abs(box.p)
        return float(np.abs(alpha) @ (linear + box.e))

    def _verdict(self, sums: PartSums, comparison: Comparison) -> Certificate:
        return verdict(self.problem, sums, comparison, self._imbalance(comparison))

    def _moved(self, w: Array, alpha: Array, sums: PartSums) -> Moved:
        """w(alpha) from pairs of floats, where sum_i alpha_i sigma_i = r should be zero: x is taken from the mean c of X, so
        that w(alpha) becomes w(alpha) - r c, and the offset b + w . c."""
        problem, d, scaling = self.problem, self.problem.n_penalised, self.problem.intercept_scaling
        assert sums.rests is not None
        squared_gamma = gamma(problem.n_samples + 8) ** 2
        excess = self._precise_excess(alpha, float(sums.weights[-1] + sums.rests[-1]))
        centre = self._centre
        product, lost = two_product(np.full(d, -excess), centre)
        weights, lost_too = two_sum(sums.weights[:d], product)
        excess_error = squared_gamma * sums.dual.total + 4.0 * UNIT_ROUNDOFF * abs(excess)
        length = float(np.linalg.norm(centre))
        magnitude = float(np.abs(w[:d]) @ np.abs(centre)) + abs(float(w[-1])) * scaling
        offset = float(w[:d] @ centre) + float(w[-1]) * scaling
        return Moved(
            weights=weights,
            rest=sums.rests[:d] + (lost + lost_too),
            error=excess_error * length + 8.0 * UNIT_ROUNDOFF**2 * (abs(excess) * length + sums.rows.weights_scale),
            spread=self._spread(alpha),
            excess=excess,
            excess_error=excess_error,
            offset=offset,
            offset_error=gamma(d + 8) * magnitude,
            linear=self._linear(alpha, offset),
        )

    @cached_property
    def _centre(self) -> Array:
        """The mean of each column of X. Any vector would do; the mean makes x - c short. With a price on the offset it must be
        zero."""
        if self.problem.offset_prices is not None or self.problem.intercept_scaling == 0.0:
            return np.zeros(self.problem.rows.n_features)
        return np.asarray(self.problem.rows.matrix.mean(axis=0, dtype=np.float64)).reshape(-1)

    def _precise_excess(self, alpha: Array, summed: float) -> float:
        """sum_i alpha_i sigma_i, from the sums of the pass, or exactly where the offset has a price."""
        prices = self.problem.offset_prices
        if prices is None:
            return summed / self.problem.intercept_scaling
        return math.fsum(np.concatenate([alpha, -prices]))

    def _spread(self, alpha: Array) -> float:
        """A bound on sum_i |alpha_i| |x_i - c|."""
        from maxmargin.certificate.precise_linear_loops import csr_spread, dense_spread

        centre = self._centre
        measure: Any = csr_spread if self.problem.rows.is_sparse else dense_spread
        found: float = measure(*self.problem.compiled_rows, centre, float(centre @ centre), np.ascontiguousarray(alpha))
        return found * (1.0 + gamma(self.problem.n_samples + self.problem.n_weights + 8))

    def _imbalance(self, comparison: Comparison) -> Imbalance:
        if self.problem.offset_prices is None or self.problem.penalizes_intercept:
            return imbalance_of(self.problem, comparison)
        return BALANCED if comparison.total == 0.0 else self._imbalance_with_price(comparison)

    def _imbalance_with_price(self, comparison: Comparison) -> Imbalance:
        """The feasible point is reached by moves of one direction that add up to r, so that w(alpha) moves by at most r times
        the longest |x_i|, and the linear terms by r times the greatest |p_i|."""
        assert self.squares is not None
        longest = math.sqrt(float(self.squares.max())) * (1.0 + gamma(self.problem.n_weights + 8))
        targets = one_or_all(self.problem.targets)
        steepness = max(float(targets.max()), -float(targets.min())) + comparison.norm * longest

        def fall(r: float) -> float:
            return r * steepness + 0.5 * (r * longest) * (r * longest)

        return Imbalance.of(comparison.excess, comparison.excess_error, abs(comparison.offset), fall, longest)


def better(one: Certificate, other: Certificate) -> Certificate:
    """The certificate that proves more."""
    return other if other.gap + other.rounding_error < one.gap + one.rounding_error else one


def is_in_doubt(quick: Certificate) -> bool:
    """Whether the bound on rounding matters beside the gap, so that the precise pass is worth its cost."""
    rounding = quick.rounding_error
    return (
        math.isfinite(quick.gap)
        and rounding > policy.LINEAR.precise_share * quick.gap
        and rounding > policy.LINEAR.precise_scale * quick.scale
    )

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
the intercept is free, that pass takes x from the mean of X. :math:`\gamma_k^2` then takes the place of :math:`\gamma_k`.

The module imports no solver and no compiled code of a solver.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import BALANCED, Certificate, Counts, GapParts, Imbalance, assemble, or_zero, refusal
from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, SMALLEST, gamma, two_product, two_sum, vector
from maxmargin.data.rows import Array, CsrRows, DenseRows
from maxmargin.data.threads import Crew
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
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
    """``certify`` for many answers to one problem. It keeps the memory for w(alpha), which matters when w is long."""

    def __init__(self, problem: LinearProblem) -> None:
        self.problem = problem
        self._crew = Crew(problem.rows.n_stored, 2 * problem.n_weights)
        self._weights = np.empty((self._crew.size, problem.rows.n_features + 1))

    def certify(self, w: Array, alpha: Array, margins: Array | None = None) -> Certificate:
        """``margins``, if given, is filled with the outputs sigma_i (w . x_i)."""
        w = np.ascontiguousarray(vector(w, self.problem.n_weights, "w"))
        alpha = vector(alpha, self.problem.n_samples, "alpha")
        with np.errstate(all="ignore"):
            if not (np.isfinite(w).all() and self.problem.is_feasible(alpha)):
                return refusal(int(np.count_nonzero(alpha)))
            sums = self._sums(w, alpha, margins, None)
            quick = self._verdict(alpha, sums, self._compare(w, alpha, sums))
            if not is_in_doubt(quick):
                return quick
            rests = np.zeros_like(self._weights)
            sums = self._sums(w, alpha, None, rests)
            precise = self._verdict(alpha, sums, self._compare_precisely(w, alpha, sums, rests))
            return precise if precise.gap + precise.rounding_error < quick.gap + quick.rounding_error else quick

    def _sums(self, w: Array, alpha: Array, margins: Array | None, rests: Array | None) -> _RowTotals:
        """Add up over all rows, each thread over its own; ``self._weights[0]`` is w(alpha) afterwards, and ``rests[0]``, if
        given, what it lacks."""
        sums = self._crew.share(
            len(alpha),
            lambda k, *part: _sum_over_rows(
                self.problem, w, alpha, margins, self._weights[k], None if rests is None else rests[k], *part
            ),
        )
        for k in range(1, self._crew.size):
            if rests is None:
                self._weights[0] += self._weights[k]
            else:
                self._weights[0], lost = two_sum(self._weights[0], self._weights[k])
                rests[0] += rests[k] + lost
        return _RowTotals(*map(sum, zip(*sums, strict=True)))

    def _compare(self, w: Array, alpha: Array, sums: _RowTotals) -> _Comparison:
        """Compare w with w(alpha) in float64."""
        n, n_penalised = self.problem.n_samples, self.problem.n_penalised
        w_of_alpha, total = self._weights[0, :n_penalised], float(np.sum(np.abs(alpha)))
        norm = float(np.linalg.norm(self._weights[0]))
        sqnorm = float(w_of_alpha @ w_of_alpha)
        np.subtract(w[:n_penalised], w_of_alpha, out=w_of_alpha)
        return _Comparison(
            sqnorm=float(w[:n_penalised] @ w[:n_penalised]),
            sqnorm_of_alpha=sqnorm,
            difference=float(np.linalg.norm(w_of_alpha)),
            difference_error=gamma(n + 8) * sums.weights_scale + UNIT_ROUNDOFF * float(np.linalg.norm(w[:n_penalised])),
            norm=norm,
            spread=sums.weights_scale,
            total=total,
            excess=abs(float(np.sum(self.problem.unbalanced(alpha)))),
            excess_error=gamma(PAIRWISE_ROUNDINGS) * (total if self.problem.offset_prices is None else 2.0 * total),
            offset=float(w[-1]) * self.problem.intercept_scaling,
        )

    def _compare_precisely(self, w: Array, alpha: Array, sums: _RowTotals, rests: Array) -> _Comparison:
        """Compare w with w(alpha) from pairs of float64. Where sum_i alpha_i sigma_i = r should be zero, take x from the mean c
        of X: w(alpha) becomes w(alpha) - r c, and the offset b + w . c."""
        problem, d = self.problem, self.problem.n_penalised
        total, scaling = float(np.sum(np.abs(alpha))), problem.intercept_scaling
        squared_gamma = gamma(problem.n_samples + 8) ** 2
        weights, rest = self._weights[0, :d], rests[0, :d]
        difference_error = squared_gamma * sums.weights_scale + problem.n_samples * SMALLEST * math.sqrt(problem.n_weights)
        spread, excess, excess_error, offset, offset_error = sums.weights_scale, 0.0, 0.0, 0.0, 0.0
        if not problem.penalizes_intercept:
            excess = self._precise_excess(alpha, float(self._weights[0, -1] + rests[0, -1]))
            centre = self._centre
            product, lost = two_product(np.full(d, -excess), centre)
            weights, lost_too = two_sum(weights, product)
            rest = rest + (lost + lost_too)
            spread = self._spread(alpha)
            excess_error = squared_gamma * total + 4.0 * UNIT_ROUNDOFF * abs(excess)
            length = float(np.linalg.norm(centre))
            difference_error += excess_error * length + 8.0 * UNIT_ROUNDOFF**2 * (abs(excess) * length + sums.weights_scale)
            magnitude = float(np.abs(w[:d]) @ np.abs(centre)) + abs(float(w[-1])) * scaling
            offset, offset_error = float(w[:d] @ centre) + float(w[-1]) * scaling, gamma(d + 8) * magnitude
        difference, lost = two_sum(w[:d], -weights)
        difference += lost - rest
        norm = float(np.linalg.norm(difference))
        weights = weights + rest
        return _Comparison(
            sqnorm=float(w[:d] @ w[:d]),
            sqnorm_of_alpha=float(weights @ weights),
            difference=norm,
            difference_error=difference_error + 8.0 * UNIT_ROUNDOFF * norm,
            norm=float(np.linalg.norm(weights)),
            spread=spread,
            total=total,
            excess=abs(excess),
            excess_error=excess_error,
            offset=offset,
            offset_error=offset_error,
        )

    @cached_property
    def _centre(self) -> Array:
        """The mean of each column of X. Any vector would do; the mean makes x - c short. With a price on the offset it must be
        zero."""
        if self.problem.offset_prices is not None:
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

    def _verdict(self, alpha: Array, sums: _RowTotals, comparison: _Comparison) -> Certificate:
        problem = self.problem
        difference, difference_error = comparison.difference, comparison.difference_error
        parts = GapParts(
            primal=0.5 * comparison.sqnorm + sums.loss + self._price(comparison),
            dual=sums.conjugate - 0.5 * comparison.sqnorm_of_alpha - self._dual_shift(comparison),
            gap=sums.gap + 0.5 * difference * difference,
            error=sums.error
            + (difference + difference_error) * difference_error
            + (problem.n_samples + problem.n_weights) * SMALLEST,
            roundings=gamma(max(problem.n_samples, problem.n_weights) + 16),
            apart=difference + difference_error,
        )
        is_at_bound = (alpha == problem.box.U) | (alpha == problem.box.L)
        certificate = assemble(parts, self._imbalance(alpha, comparison), Counts.of(alpha, is_at_bound))
        return certificate if problem.offset_prices is None else or_zero(certificate, self._zero_value(sums))

    def _zero_value(self, sums: _RowTotals) -> float:
        """The greatest |w(alpha)|^2 / 2 that the rounding of its sums in float64 can make of zero."""
        length = gamma(self.problem.n_samples + 8) * sums.weights_scale
        return 0.5 * length * length

    def _price(self, comparison: _Comparison) -> float:
        prices = self.problem.offset_prices
        return 0.0 if prices is None else comparison.offset * float(prices.sum())

    def _dual_shift(self, comparison: _Comparison) -> float:
        """|b r|: how much less the dual value can be where the targets are taken from b."""
        return abs(comparison.offset) * comparison.excess if self._may_move_targets else 0.0

    @property
    def _may_move_targets(self) -> bool:
        """Whether a number added to all targets and to b changes neither the primal nor the dual value."""
        problem = self.problem
        return problem.loss.is_regression and not problem.penalizes_intercept and problem.offset_prices is None

    def _imbalance(self, alpha: Array, comparison: _Comparison) -> Imbalance:
        """The feasible point is alpha with the heavier sign of alpha_i sigma_i scaled by 1 - e, e = |r| / (the sum of that
        sign)
        <= 2 |r| / sum |alpha|. D is quadratic on the way, and |dD/dalpha_i| <= |p_i| + e_tube + |w(alpha)| |x_i| but for its
        diagonal, which only gains. So with s = sum_i |alpha_i| |x_i| the fall is at most e (sum_i |alpha_i| (|p_i| + e_tube) +
        |w(alpha)| s) + e^2 s^2 / 2. It holds for x taken from any centre, as long as b and w(alpha) are taken from there
        too. In regression the targets may be moved along with b: they are taken from b, which leaves no b to multiply r."""
        total, box = comparison.total, self.problem.box
        if self.problem.penalizes_intercept or total == 0.0:
            return BALANCED
        if self.problem.offset_prices is not None:
            return self._imbalance_with_price(comparison)
        s, offset = comparison.spread, abs(comparison.offset) + comparison.offset_error
        linear = np.abs(box.p)
        if self._may_move_targets:
            linear, offset = np.abs(box.p - comparison.offset) * OUTWARDS, comparison.offset_error
        steepness = float(np.abs(alpha) @ (linear + box.e)) + comparison.norm * s

        def fall(r: float) -> float:
            e = 2.0 * r / total
            return e * steepness + 0.5 * (e * s) * (e * s)

        return Imbalance.of(comparison.excess, comparison.excess_error, offset, fall, 2.0 / total * s)

    def _imbalance_with_price(self, comparison: _Comparison) -> Imbalance:
        """The feasible point is reached by moves of one direction that add up to r, so that w(alpha) moves by at most r times
        the longest |x_i|, and the linear terms by r times the greatest |p_i|."""
        longest = math.sqrt(float(self.problem.rows.squared_norms().max())) * (1.0 + gamma(self.problem.n_weights + 8))
        steepness = float(np.abs(self.problem.box.p).max()) + comparison.norm * longest

        def fall(r: float) -> float:
            return r * steepness + 0.5 * (r * longest) * (r * longest)

        return Imbalance.of(comparison.excess, comparison.excess_error, abs(comparison.offset), fall, longest)


def is_in_doubt(quick: Certificate) -> bool:
    """Whether the bound on rounding matters beside the gap, so that the precise pass is worth its cost."""
    rounding = quick.rounding_error
    return (
        math.isfinite(quick.gap)
        and rounding > policy.LINEAR.precise_share * quick.gap
        and rounding > policy.LINEAR.precise_scale * quick.scale
    )


class _Comparison(NamedTuple):
    """w beside w(alpha): squared norms of both, their distance and how wrong that can be; and for a free intercept the bounds
    of ``_imbalance``: |w(alpha)|, sum_i |alpha_i| |x_i|, sum_i |alpha_i|, |sum_i alpha_i sigma_i| with its error, and b with
    its error."""

    sqnorm: float
    sqnorm_of_alpha: float
    difference: float
    difference_error: float
    norm: float
    spread: float
    total: float
    excess: float
    excess_error: float
    offset: float
    offset_error: float = 0.0


class _RowTotals(NamedTuple):
    """The sums of a pass over some of the rows, besides their part of w(alpha)."""

    loss: float
    conjugate: float
    gap: float
    error: float
    weights_scale: float


class JudgedPair(NamedTuple):
    """What a pass judges: w, the weight of the constant feature, and sigma_i alpha_i of the rows at hand."""

    w: Array
    bias_weight: float
    signed_alpha: Array


class RowSums(NamedTuple):
    """What a pass writes: the outputs of the rows at hand, the sums of their magnitudes, and a part of w(alpha)."""

    outputs: Array
    magnitudes: Array
    weights: Array


def _sum_over_rows(
    problem: LinearProblem,
    w: Array,
    alpha: Array,
    margins_of_all: Array | None,
    weights: Array,
    rests: Array | None,
    start: int,
    stop: int,
) -> _RowTotals:
    """Sums over the rows start <= i < stop; their part of w(alpha) goes to ``weights``, and what that lacks to ``rests``: it
    is None where float64 is enough."""
    judge_rows = judge_of_rows(problem.rows.is_sparse, rests)
    rows, loss = problem.compiled_rows, problem.loss
    bias_weight = w[-1] if problem.intercept_scaling != 0.0 else 0.0
    weights[:] = 0.0
    total = np.zeros(len(_RowTotals._fields))
    for first in range(start, stop, policy.LINEAR.rows_a_block):
        block = slice(first, min(first + policy.LINEAR.rows_a_block, stop))
        signs, targets, C, a = problem.signs[block], problem.targets[block], problem.C[block], alpha[block]
        outputs, magnitudes = np.empty(len(a)), np.empty(len(a))
        pair, sums = JudgedPair(w, bias_weight, a * signs), RowSums(outputs, magnitudes, weights)
        scale = judge_rows(rows, block.start, block.stop, pair, sums)
        outputs = np.multiply(outputs, signs, out=outputs)
        if margins_of_all is not None:
            margins_of_all[block] = outputs
        roundings = operations(rows, block)
        errors = residual_errors(outputs, magnitudes, np.abs(targets), roundings, is_precise=rests is not None)
        total += (
            C @ loss.value(outputs, targets),
            np.sum(problem.box_of(block).terms(a)),
            np.sum(loss.gap_terms(outputs, a, C, targets)),
            np.sum(loss.gap_sensitivity(outputs, a, C, errors, targets)),
            scale,
        )
    return _RowTotals(*total.tolist())


def residual_errors(outputs: Array, magnitudes: Array, targets: Array, operations: Array | float, *, is_precise: bool) -> Array:
    """How wrong t_i - f_i can be: by its dot product, and by the rounding of the difference."""
    if is_precise:
        lost = np.square(gamma(operations)) * magnitudes
        return lost + 2.0 * UNIT_ROUNDOFF * (targets + np.abs(outputs)) + 4.0 * operations * SMALLEST
    return gamma(operations) * magnitudes + 2.0 * UNIT_ROUNDOFF * (targets + magnitudes) + operations * SMALLEST


def judge_of_rows(is_sparse: bool, rests: Array | None) -> Any:
    if rests is None:
        from maxmargin.certificate.linear_loops import judge_csr_rows, judge_dense_rows

        return judge_csr_rows if is_sparse else judge_dense_rows
    from maxmargin.certificate.precise_linear_loops import judge_csr_rows_precisely, judge_dense_rows_precisely

    return partial(_judge_precisely, judge_csr_rows_precisely if is_sparse else judge_dense_rows_precisely, rests)


def _judge_precisely(judge_rows: Any, rests: Array, *arguments: Any) -> float:
    scale: float = judge_rows(*arguments, rests)
    return scale


def operations(rows: CsrRows | DenseRows, block: slice) -> Array | float:
    """The roundings in each row's dot product: those of its stored elements and of the intercept."""
    if isinstance(rows, CsrRows):
        return np.diff(rows.indptr[block.start : block.stop + 1]).astype(np.float64) + 3.0
    return rows.values.shape[1] + 3.0

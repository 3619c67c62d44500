r"""The judge of the L1 and elastic-net penalties.

For any w, and any alpha for which the conjugate of the penalty is finite, the gap is

.. math:: P(w) - D(\alpha) = \sum_j \left[ g(w_j) + g^*(v_j) - w_j v_j \right]
          + \sum_i \left[ C_i \ell(f_i, t_i) + \ell^*(\alpha_i) + \alpha_i f_i \right], \qquad v = w(\alpha) ,

and no term is negative. With the penalty :math:`|w|_1` the dual asks for :math:`|v_j| \le 1`. An alpha that misses it is scaled
down first, by the greatest :math:`|v_j|` with what rounding can hide of it, so that the point that is judged is feasible in
exact arithmetic. Its elements need not be float64 numbers: v is scaled, and not summed again. A sum :math:`v_j` is wrong by at
most :math:`\gamma_n s_j`, and :math:`s_j = \sum_i |\alpha_i x_{ij}| \le |\alpha| \, |x_j|` by Cauchy and Schwarz, with the
length of the column.

With a free intercept the dual asks for :math:`\sum_i \alpha_i \sigma_i = 0` too. What alpha lacks of that, r, is charged: the
heavier sign is scaled by 1 - e with :math:`e \le 2 r / \sum_i \alpha_i`, which moves :math:`v_j` by at most :math:`e s_j`, and
a second scaling repairs that. Columns are taken from their means there, which changes no balanced sum.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxmargin.certificate import policy
from maxmargin.certificate.certificate import BALANCED, Certificate, Counts, GapParts, Imbalance, assemble, refusal
from maxmargin.certificate.linear import Judge, is_in_doubt
from maxmargin.certificate.linear_sums import JudgedPair, RowSums, judge_of_rows, operations, residual_errors
from maxmargin.certificate.rounding import OUTWARDS, SMALLEST, gamma, two_sum, vector
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.offset import excess_of


class SparseJudge(Judge):
    """``certify`` for a penalty with a kink. Column lengths are computed once. The precise pass is left out where the quick one
    meets ``tol``."""

    def certify(self, w: Array, alpha: Array, margins: Array | None = None) -> Certificate:
        w = np.ascontiguousarray(vector(w, self.problem.n_weights, "w"))
        alpha = vector(alpha, self.problem.n_samples, "alpha")
        with np.errstate(all="ignore"):
            if not (np.isfinite(w).all() and np.isfinite(alpha).all() and self.problem.is_feasible(alpha)):
                return refusal(int(np.count_nonzero(alpha)))
            quick, lost = self._judged(w, alpha, is_precise=False)
            is_sure = not is_in_doubt(quick) and lost <= policy.LINEAR.lost_share * quick.relative_gap
            if quick.meets(self.tol) or is_sure:
                return quick
            precise, _ = self._judged(w, alpha, is_precise=True)
            return precise if precise.gap + precise.rounding_error < quick.gap + quick.rounding_error else quick

    def _judged(self, w: Array, alpha: Array, *, is_precise: bool) -> tuple[Certificate, float]:
        """The certificate, and the share of alpha that may be scaled away because of rounding alone."""
        problem, d = self.problem, self.problem.n_penalised
        sums = self._pass(w, alpha, is_precise)
        balance = self._balance(alpha, is_precise)
        v, errors, spread = self._columns(sums, alpha, balance, is_precise)
        share = problem.penalty.feasible_share((np.abs(v) + errors) * OUTWARDS) / OUTWARDS
        lost = max(0.0, problem.penalty.feasible_share(np.maximum(np.abs(v) - errors, 0.0)) - share)
        is_scaled = share < 1.0 / OUTWARDS
        if is_scaled:
            alpha, v, balance = share * alpha, share * v, balance.scaled(share)
        terms = problem.penalty.gap_terms(w[:d], v)
        loss = self._loss_terms(sums, alpha, is_scaled=is_scaled)
        parts = GapParts(
            primal=problem.penalty.value(w[:d]) + float(problem.C @ problem.loss.value(sums.outputs, problem.targets)),
            dual=float(np.sum(problem.box.terms(alpha))) - problem.penalty.conjugate(v),
            gap=float(np.sum(terms)) + loss.gap,
            error=loss.error + self._penalty_error(w[:d], v, errors) + (problem.n_samples + problem.n_weights) * SMALLEST,
            roundings=gamma(max(problem.n_samples, problem.n_weights) + 16),
            apart=self._apart(w[:d], v, errors),
            strong_convexity=problem.penalty.strong_convexity,
        )
        is_at_bound = np.zeros(len(alpha), bool)
        return assemble(parts, self._charge(w, alpha, v, spread, balance), Counts.of(alpha, is_at_bound)), lost

    def _pass(self, w: Array, alpha: Array, is_precise: bool) -> _Pass:
        """Outputs of all samples, and v = w(alpha); in a precise pass what v lacks is added to it at the end."""
        problem, n = self.problem, self.problem.n_samples
        signed = alpha * problem.signs
        outputs, magnitudes, squares = np.empty(n), np.empty(n), np.empty(n)
        rests = np.zeros_like(self._weights)
        bias_weight = float(w[-1]) if problem.intercept_scaling != 0.0 else 0.0

        def judge(k: int, start: int, stop: int) -> None:
            self._weights[k] = 0.0
            judge_rows = judge_of_rows(problem.rows.is_sparse, rests[k] if is_precise else None)
            for first in range(start, stop, policy.LINEAR.rows_a_block):
                part = slice(first, min(first + policy.LINEAR.rows_a_block, stop))
                pair = JudgedPair(w, bias_weight, signed[part])
                judge_rows(
                    problem.compiled_rows,
                    part.start,
                    part.stop,
                    pair,
                    RowSums(outputs[part], magnitudes[part], squares[part], self._weights[k]),
                )

        self._crew.share(n, judge)
        for k in range(1, self._crew.n_parts):
            self._weights[0], lost = two_sum(self._weights[0], self._weights[k])
            rests[0] += rests[k] + lost
        counted = operations(problem.compiled_rows, slice(0, n))
        outputs *= problem.signs
        errors = residual_errors(outputs, magnitudes, np.abs(problem.targets), counted, is_precise=is_precise)
        return _Pass(outputs, errors, (self._weights[0] + rests[0])[: problem.n_penalised])

    def _columns(self, sums: _Pass, alpha: Array, balance: _Balance, is_precise: bool) -> tuple[Array, Array, Array]:
        """v of balanced columns, how wrong it can be, and s_j."""
        n, length = self.problem.n_samples, float(np.linalg.norm(alpha)) * OUTWARDS
        scale = self._lengths * length
        if is_precise:
            errors = gamma(n + 8) ** 2 * scale + 4.0 * UNIT_ROUNDOFF * np.abs(sums.v) + n * SMALLEST
        else:
            errors = gamma(n + 8) * scale
        v = sums.v
        if not self.problem.penalizes_intercept:
            v = v - balance.excess * self._middle
            errors = errors + np.abs(self._middle) * (balance.error + 4.0 * UNIT_ROUNDOFF * abs(balance.excess))
        return v, errors, self._centred_lengths * length

    def _loss_terms(self, sums: _Pass, alpha: Array, *, is_scaled: bool) -> _LossTerms:
        """The derivative of a term by alpha_i is m_i - p_i + D_ii alpha_i, and a scaled alpha_i is known up to its rounding."""
        problem, box = self.problem, self.problem.box
        terms = problem.loss.gap_terms(sums.outputs, alpha, problem.C, problem.targets)
        wrong = problem.loss.gap_sensitivity(sums.outputs, alpha, problem.C, sums.errors, problem.targets)
        if is_scaled:
            wrong = wrong + 2.0 * UNIT_ROUNDOFF * alpha * (np.abs(sums.outputs) + np.abs(box.p) + box.D * alpha)
        return _LossTerms(float(np.sum(terms)), float(np.sum(wrong)))

    def _answers(self, v: Array) -> Array:
        """w(v), the w that answers v; zeros where the penalty is not strongly convex."""
        penalty = self.problem.penalty
        if penalty.l2 == 0.0:
            return np.zeros(len(v))
        return (v - np.clip(v, -penalty.l1, penalty.l1)) / penalty.l2

    def _penalty_error(self, w: Array, v: Array, errors: Array) -> float:
        """The derivative of a term by v_j is w(v)_j - w_j, and that changes by at most errors / l2."""
        l2 = self.problem.penalty.l2
        curved = float(errors @ errors) / (2.0 * l2) if l2 else 0.0
        rounded = 8.0 * UNIT_ROUNDOFF * float(np.abs(w) @ np.minimum(np.abs(v), self.problem.penalty.l1 + l2))
        return float(np.abs(self._answers(v) - w) @ errors) + curved + rounded

    def _apart(self, w: Array, v: Array, errors: Array) -> float:
        l2 = self.problem.penalty.l2
        if l2 == 0.0:
            return 0.0
        return (float(np.linalg.norm(w - self._answers(v))) + float(np.linalg.norm(errors)) / l2) * OUTWARDS

    def _balance(self, alpha: Array, is_precise: bool) -> _Balance:
        """sum_i alpha_i sigma_i, in long double or rounded once, with a bound on its error."""
        if self.problem.penalizes_intercept:
            return _Balance(0.0, 0.0)
        if is_precise:
            exact = math.fsum((alpha * self.problem.signs).tolist())
            return _Balance(exact, 2.0 * UNIT_ROUNDOFF * abs(exact))
        excess, total = excess_of(alpha * self.problem.signs), float(np.sum(np.abs(alpha)))
        long_roundoff = float(np.finfo(np.longdouble).eps)
        return _Balance(excess, 128.0 * long_roundoff * total + 2.0 * UNIT_ROUNDOFF * abs(excess))

    def _charge(self, w: Array, alpha: Array, v: Array, spread: Array, balance: _Balance) -> Imbalance:
        """See the head of this module. The second scaling takes at most e times the greatest s_j."""
        total = float(np.sum(np.abs(alpha)))
        if self.problem.penalizes_intercept or total == 0.0:
            return BALANCED
        l2, d = self.problem.penalty.l2, self.problem.n_penalised
        widest = float(np.max(spread, initial=0.0)) if l2 == 0.0 else 0.0
        answers = float(np.abs(self._answers(v)) @ spread) if l2 else 0.0
        curved = float(spread @ spread) / (2.0 * l2) if l2 else 0.0

        def fall(r: float) -> float:
            e = 2.0 * r / total
            return e * (1.0 + widest) * float(np.abs(self.problem.box.p) @ alpha) + e * answers + e * e * curved

        magnitude = float(np.abs(w[:d]) @ np.abs(self._middle)) + abs(float(w[-1])) * self.problem.intercept_scaling
        offset = abs(float(w[:d] @ self._middle) + float(w[-1]) * self.problem.intercept_scaling)
        move = 2.0 / total * float(np.linalg.norm(spread)) / l2 if l2 else 0.0
        return Imbalance.of(abs(balance.excess), balance.error, offset + gamma(d + 8) * magnitude, fall, move)

    @cached_property
    def _middle(self) -> Array:
        """The mean of each column: any vector would do, and this one makes the columns short. Zeros where the intercept is
        not free."""
        if self.problem.penalizes_intercept:
            return np.zeros(self.problem.n_penalised)
        return np.asarray(self.problem.rows.matrix.mean(axis=0, dtype=np.float64)).reshape(-1)

    @cached_property
    def _squared_lengths(self) -> Array:
        matrix, scaling = self.problem.rows.matrix, self.problem.intercept_scaling
        if self.problem.rows.is_sparse:
            squares = type(matrix)((np.square(matrix.data, dtype=np.float64), matrix.indices, matrix.indptr), matrix.shape)
            squared = np.asarray(squares.T @ np.ones(self.problem.n_samples))
        else:
            squared = np.einsum("ij,ij->j", matrix, matrix, dtype=np.float64)
        squared = squared if scaling == 0.0 else np.append(squared, self.problem.n_samples * scaling**2)
        return squared[: self.problem.n_penalised] * (1.0 + gamma(self.problem.n_samples + 8))

    @cached_property
    def _lengths(self) -> Array:
        """An upper bound on the length of each column that is penalised."""
        return np.sqrt(self._squared_lengths) * OUTWARDS

    @cached_property
    def _centred_lengths(self) -> Array:
        """The same of the columns taken from ``_middle``."""
        if self.problem.penalizes_intercept:
            return self._lengths
        n, squared = self.problem.n_samples, np.square(self._middle) * self.problem.n_samples
        rest = np.maximum(0.0, self._squared_lengths - squared) + gamma(4 * n + 64) * (self._squared_lengths + squared)
        return np.asarray(np.sqrt(rest) * OUTWARDS)


class _Pass(NamedTuple):
    """Outputs sigma_i f_i, how wrong the residuals can be, and v of the elements that are penalised."""

    outputs: Array
    errors: Array
    v: Array


class _LossTerms(NamedTuple):
    gap: float
    error: float


class _Balance(NamedTuple):
    """sum_i alpha_i sigma_i where it should be zero, and how wrong that number can be."""

    excess: float
    error: float

    def scaled(self, share: float) -> _Balance:
        return _Balance(share * self.excess, share * self.error + 2.0 * UNIT_ROUNDOFF * abs(self.excess))

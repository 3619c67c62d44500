r"""The judge: how far an answer is from the optimum, recomputed from the data alone.

For any w and any feasible alpha the duality gap is a sum of terms that are never negative,

.. math:: P(w) - D(\alpha) = \sum_i \left[ C_i \ell(m_i) + \ell^*(\alpha_i) + \alpha_i m_i \right]
          + \tfrac12 |w - w(\alpha)|^2 ,

so nothing cancels, and a gap of 1e-12 is known as well as one of 1. (The intercept's weight is not in the last term when it
is not penalised; the dual then asks for sum_i alpha_i y_i = 0, and what an alpha lacks of that is charged to the gap.)
Everything is computed in float64 in one pass over X, and the certificate bounds its own rounding error: a dot product of k
terms is wrong by at most :math:`\gamma_k \sum_j |w_j x_{ij}|` with :math:`\gamma_k = k u / (1 - k u)` (Higham, Accuracy and
Stability of Numerical Algorithms, section 3.1), and that error goes through each gap term by its slope.

Imports no solver and none of a solver's compiled code: the judge is not the player.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from maxmargin.data import Array, CsrRows, DenseRows
from maxmargin.losses import UNIT_ROUNDOFF
from maxmargin.problem import LinearProblem
from maxmargin.threads import Crew

Number = TypeVar("Number", bound=Array | float)

SMALLEST = 2.0**-1074
PAIRWISE_ROUNDINGS = 64
"""NumPy adds up a contiguous array in pairs, so no element goes through more roundings than this."""
ROWS_A_BLOCK = 1 << 13


@dataclass(frozen=True)
class Certificate:
    """A proof that ``primal`` is within ``gap`` (and its rounding error) of the optimum of the problem.

    ``distance_bound`` is how far w can be from the true optimum in the Euclidean norm: sqrt(gap) where
    w = w(alpha), else sqrt(2 gap), the rounding error included. An alpha outside its box proves nothing: its
    dual value is minus infinity and its gap infinite. Where a kernel is not positive semidefinite the gap is that of
    the conditions of optimality, and the distance is not bounded.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    rounding_error: float
    distance_bound: float
    n_support: int
    n_at_bound: int

    def meets(self, tol: float) -> bool:
        """Whether the relative gap is at most ``tol`` also with the rounding error added to the gap."""
        return self.relative_gap <= tol and self.gap + self.rounding_error <= tol * self.scale

    @property
    def is_proof(self) -> bool:
        """Whether it bounds the optimum. It does not for an alpha outside its box, nor where the dual value is no bound because
        a kernel is not positive semidefinite."""
        return math.isfinite(self.distance_bound)

    @property
    def is_limited_by_rounding(self) -> bool:
        """Whether what is left of the gap may be nothing but rounding."""
        return self.gap <= 2.0 * self.rounding_error

    @property
    def scale(self) -> float:
        """What a relative gap is relative to."""
        return max(abs(self.primal), abs(self.dual))

    def __str__(self) -> str:
        within = f"within {self.relative_gap:.2e} of the optimum"
        return (
            f"primal {self.primal:.10g}, dual {self.dual:.10g}: "
            f"{within if self.is_proof else f'{self.relative_gap:.2e} apart, which proves no optimum'} "
            f"(gap {self.gap:.2e}, known to {self.rounding_error:.0e}; "
            f"{self.n_support} support vectors, {self.n_at_bound} at the bound)"
        )


def relative(gap: float, primal: float, dual: float) -> float:
    """The gap relative to the greater of the two values; infinite where that says nothing."""
    scale = max(abs(primal), abs(dual))
    return gap / scale if 0.0 < scale < np.inf else (0.0 if gap == 0.0 else np.inf)


def certify(problem: LinearProblem, w: Array, alpha: Array) -> Certificate:
    """Judge the pair (w, alpha). It costs one pass over X, on all cores when X is large."""
    return Judge(problem).certify(w, alpha)


class Judge:
    """``certify`` for many answers to one problem: the memory for w(alpha) is kept, which matters when w is long."""

    def __init__(self, problem: LinearProblem) -> None:
        self.problem = problem
        self._crew = Crew(problem.rows.n_stored, 2 * problem.n_weights)
        self._weights = np.empty((self._crew.size, problem.rows.n_features + 1))

    def certify(self, w: Array, alpha: Array, margins: Array | None = None) -> Certificate:
        """``margins``, if given, is filled with the m_i of w."""
        w = np.ascontiguousarray(vector(w, self.problem.n_weights, "w"))
        alpha = vector(alpha, self.problem.n_samples, "alpha")
        with np.errstate(all="ignore"):
            if not (np.isfinite(w).all() and self.problem.is_feasible(alpha)):
                return refusal(alpha)
            return self._verdict(w, alpha, self._sums(w, alpha, margins))

    def _sums(self, w: Array, alpha: Array, margins: Array | None) -> _Sums:
        """Add up over all rows, each thread over its own; ``self._weights[0]`` is w(alpha) afterwards."""
        sums = self._crew.share(
            len(alpha), lambda k, *part: _sum_over_rows(self.problem, w, alpha, margins, self._weights[k], *part)
        )
        for weights in self._weights[1:]:
            self._weights[0] += weights
        return _Sums(*map(sum, zip(*sums, strict=True)))

    def _verdict(self, w: Array, alpha: Array, sums: _Sums) -> Certificate:
        problem, w_of_alpha = self.problem, self._weights[0, : self.problem.n_penalised]
        shift, fall, imbalance_error, move = self._imbalance(w, alpha, sums)
        w = w[: problem.n_penalised]
        primal = 0.5 * float(w @ w) + sums.loss
        dual = sums.conjugate - 0.5 * float(w_of_alpha @ w_of_alpha) - fall
        np.subtract(w, w_of_alpha, out=w_of_alpha)
        difference = float(np.linalg.norm(w_of_alpha))
        difference_error = gamma(problem.n_samples + 8) * sums.weights_scale + UNIT_ROUNDOFF * float(np.linalg.norm(w))
        gap = sums.gap + 0.5 * difference**2 + shift + fall
        rounding = (
            sums.error
            + imbalance_error
            + gamma(max(problem.n_samples, problem.n_weights) + 16) * gap
            + (difference + difference_error) * difference_error
            + (problem.n_samples + problem.n_weights) * SMALLEST
        )
        if not np.isfinite([primal, dual, gap, rounding]).all():
            return refusal(alpha)
        worst = gap + rounding
        return Certificate(
            primal=primal,
            dual=dual,
            gap=gap,
            relative_gap=relative(gap, primal, dual),
            rounding_error=rounding,
            # P and D are both 1-strongly convex in w: |w - w*|^2 + |w(alpha') - w*|^2 <= 2 gap, alpha' the feasible alpha.
            distance_bound=min(math.sqrt(2.0 * worst), math.sqrt(worst) + 0.5 * (difference + difference_error + move)),
            n_support=int(np.count_nonzero(alpha)),
            n_at_bound=int(np.count_nonzero((alpha == problem.box.U) & (alpha > 0.0))),
        )

    def _imbalance(self, w: Array, alpha: Array, sums: _Sums) -> tuple[float, float, float, float]:
        """What r = sum_i alpha_i y_i costs where it should be zero: |b r| in the gap terms, and the fall of the dual to a
        feasible point; how far rounding can hide an r; and how far w(alpha) is from that point's.

        That point is alpha with its heavier class scaled by 1 - e, e = |r| / (the sum of that class) <= 2 |r| / sum alpha.
        D is quadratic and |dD/dalpha_i| <= a + |w(alpha)| |x_i|, so with s = sum_i alpha_i |x_i| the fall is at most
        e (a sum alpha + |w(alpha)| s) + e^2 s^2 / 2. Where alpha has no lower bound, every |alpha_i| grows or falls by that
        share at most, and what the diagonal takes, q = sum_i D_ii alpha_i^2, can grow too: e (1 + e / 2) q more."""
        total, box = float(np.sum(np.abs(alpha))), self.problem.box
        if self.problem.penalizes_intercept or total == 0.0:
            return 0.0, 0.0, 0.0, 0.0
        b = abs(float(w[-1])) * self.problem.intercept_scaling
        norm, s = float(np.linalg.norm(self._weights[0])), sums.weights_scale
        q = float(np.sum(box.D * np.square(alpha))) if np.isinf(box.L).any() else 0.0

        def fall(r: float) -> float:
            e = 2.0 * r / total
            return e * (box.a * total + norm * s) + 0.5 * (e * s) ** 2 + e * (1.0 + 0.5 * e) * q

        r, r_error = abs(float(np.sum(alpha * self.problem.y))), gamma(PAIRWISE_ROUNDINGS) * total
        return r * b, fall(r), fall(r + r_error) - fall(r) + r_error * b, 2.0 * (r + r_error) / total * s


class _Sums(NamedTuple):
    """What a pass over some of the rows adds up, besides their part of w(alpha)."""

    loss: float
    conjugate: float
    gap: float
    error: float
    weights_scale: float


def refusal(alpha: Array) -> Certificate:
    return Certificate(
        primal=np.inf,
        dual=-np.inf,
        gap=np.inf,
        relative_gap=np.inf,
        rounding_error=np.inf,
        distance_bound=np.inf,
        n_support=int(np.count_nonzero(alpha)),
        n_at_bound=0,
    )


def _sum_over_rows(
    problem: LinearProblem, w: Array, alpha: Array, margins_of_all: Array | None, weights: Array, start: int, stop: int
) -> _Sums:
    """Sums over the rows start <= i < stop; their part of w(alpha) goes to ``weights``."""
    from maxmargin.compiled.certificate import judge_csr_rows, judge_dense_rows

    judge_rows: Any = judge_csr_rows if problem.rows.is_sparse else judge_dense_rows
    rows, loss = problem.compiled_rows, problem.loss
    bias_weight = w[-1] if problem.intercept_scaling != 0.0 else 0.0
    weights[:] = 0.0
    total = np.zeros(len(_Sums._fields))
    for first in range(start, stop, ROWS_A_BLOCK):
        block = slice(first, min(first + ROWS_A_BLOCK, stop))
        y, C, a, D = problem.y[block], problem.C[block], alpha[block], problem.box.D[block]
        outputs, magnitudes = np.empty(len(a)), np.empty(len(a))
        scale = judge_rows(*rows, block.start, block.stop, w, bias_weight, a * y, outputs, magnitudes, weights)
        margins = np.multiply(outputs, y, out=outputs)
        if margins_of_all is not None:
            margins_of_all[block] = margins
        operations = _operations(rows, block)
        margin_errors = gamma(operations) * magnitudes + 2.0 * UNIT_ROUNDOFF * (1.0 + magnitudes) + operations * SMALLEST
        total += (
            C @ loss.value(margins),
            np.sum(problem.box.a * a - 0.5 * D * np.square(a)),
            np.sum(loss.gap_terms(margins, a, C)),
            np.sum(loss.gap_sensitivity(margins, a, C, margin_errors)),
            scale,
        )
    return _Sums(*total.tolist())


def _operations(rows: CsrRows | DenseRows, block: slice) -> Array | float:
    """The roundings in each row's dot product: those of its stored elements and of the intercept."""
    if isinstance(rows, CsrRows):
        return np.diff(rows.indptr[block.start : block.stop + 1]).astype(np.float64) + 3.0
    return rows.values.shape[1] + 3.0


def gamma(k: Number) -> Number:
    return k * UNIT_ROUNDOFF / (1.0 - k * UNIT_ROUNDOFF)  # type: ignore[return-value]


def vector(array: Array, length: int, name: str) -> Array:
    array = np.asarray(array, dtype=np.float64)
    if array.shape != (length,):
        raise ValueError(f"{name} must be a vector of {length} numbers for this problem; its shape is {array.shape}.")
    return array

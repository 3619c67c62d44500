r"""The judge: how far an answer is from the optimum, recomputed from the data alone.

For any w and any feasible alpha the duality gap is a sum of terms that are never negative,

.. math:: P(w) - D(\alpha) = \sum_i \left[ C_i \ell(m_i) + \ell^*(\alpha_i) + \alpha_i m_i \right]
          + \tfrac12 |w - w(\alpha)|^2 ,

so nothing cancels, and a gap of 1e-12 is known as well as one of 1. (The intercept's weight is not in the last term when it
is not penalised; the dual then asks for sum_i alpha_i y_i = 0, and what an alpha lacks of that is charged to the gap.)
Everything is computed in float64 in one pass over X, and the certificate bounds its own rounding error: a dot product of k
terms is wrong by at most :math:`\gamma_k \sum_j |w_j x_{ij}|` with :math:`\gamma_k = k u / (1 - k u)` (Higham, Accuracy and
Stability of Numerical Algorithms, section 3.1), and that error goes through each gap term by its slope.

On columns as they come, such as times in seconds since 1970, the sums of w(alpha) cancel by many digits. Where that bound is of
the size of the gap, a second pass computes the margins, w(alpha) and sum_i alpha_i y_i in about twice the precision, and where
the intercept is free it takes x from the mean of X: :math:`\gamma_k^2` takes the place of :math:`\gamma_k`.

Imports no solver and none of a solver's compiled code: the judge is not the player.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from maxmargin.certificate.html import certificate_html
from maxmargin.data.rows import Array, CsrRows, DenseRows
from maxmargin.data.threads import Crew
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF

Number = TypeVar("Number", bound=Array | float)

SMALLEST = 2.0**-1074
PAIRWISE_ROUNDINGS = 64
"""NumPy adds up a contiguous array in pairs, so no element goes through more roundings than this."""
ROWS_A_BLOCK = 1 << 13
PRECISE_SHARE, PRECISE_SCALE = 0.1, 1e-11
"""The second, precise pass is made where the bound on rounding is more than this share of the gap and more than this relative
to the objective. It costs about three of the first."""


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
        """Whether the relative gap is at most ``tol`` also with the rounding error added to the gap. Where the objective is
        zero there is nothing to be relative to, and nothing below it: a gap of zero is the optimum."""
        if self.scale == 0.0:
            return self.gap == 0.0
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

    def __repr__(self) -> str:
        return f"<Certificate: relative gap {self.relative_gap:.2e}, objective {self.primal:.6g}>"

    def _repr_html_(self) -> str:
        return certificate_html(self)


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
            sums = self._sums(w, alpha, margins, None)
            quick = self._verdict(alpha, sums, self._compare(w, alpha, sums))
            if not _is_in_doubt(quick):
                return quick
            rests = np.zeros_like(self._weights)
            sums = self._sums(w, alpha, None, rests)
            precise = self._verdict(alpha, sums, self._compare_precisely(w, alpha, sums, rests))
            return precise if precise.gap + precise.rounding_error < quick.gap + quick.rounding_error else quick

    def _sums(self, w: Array, alpha: Array, margins: Array | None, rests: Array | None) -> _Sums:
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
                self._weights[0], lost = _two_sum(self._weights[0], self._weights[k])
                rests[0] += rests[k] + lost
        return _Sums(*map(sum, zip(*sums, strict=True)))

    def _compare(self, w: Array, alpha: Array, sums: _Sums) -> _Comparison:
        """w with w(alpha), as float64 knows it."""
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
            excess=abs(float(np.sum(alpha * self.problem.y))),
            excess_error=gamma(PAIRWISE_ROUNDINGS) * total,
            offset=abs(float(w[-1])) * self.problem.intercept_scaling,
        )

    def _compare_precisely(self, w: Array, alpha: Array, sums: _Sums, rests: Array) -> _Comparison:
        """The same from pairs. Where sum_i alpha_i y_i = r should be zero, take x from the mean c of X: w(alpha) becomes
        w(alpha) - r c, and the offset b + w . c."""
        problem, d = self.problem, self.problem.n_penalised
        total, scaling = float(np.sum(np.abs(alpha))), problem.intercept_scaling
        squared_gamma = gamma(problem.n_samples + 8) ** 2
        weights, rest = self._weights[0, :d], rests[0, :d]
        difference_error = squared_gamma * sums.weights_scale + problem.n_samples * SMALLEST * math.sqrt(problem.n_weights)
        spread, excess, excess_error, offset = sums.weights_scale, 0.0, 0.0, 0.0
        if not problem.penalizes_intercept:
            excess = float(self._weights[0, -1] + rests[0, -1]) / scaling
            centre = self._centre
            product, lost = _two_product(np.full(d, -excess), centre)
            weights, lost_too = _two_sum(weights, product)
            rest = rest + (lost + lost_too)
            spread = self._spread(alpha)
            excess_error = squared_gamma * total + 4.0 * UNIT_ROUNDOFF * abs(excess)
            length = float(np.linalg.norm(centre))
            difference_error += excess_error * length + 8.0 * UNIT_ROUNDOFF**2 * (abs(excess) * length + sums.weights_scale)
            magnitude = float(np.abs(w[:d]) @ np.abs(centre)) + abs(float(w[-1])) * scaling
            offset = abs(float(w[:d] @ centre) + float(w[-1]) * scaling) + gamma(d + 8) * magnitude
        difference, lost = _two_sum(w[:d], -weights)
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
        )

    @cached_property
    def _centre(self) -> Array:
        """The mean of X by columns: any vector would do, and this one makes x - c short."""
        return np.asarray(self.problem.rows.matrix.mean(axis=0, dtype=np.float64)).reshape(-1)

    def _spread(self, alpha: Array) -> float:
        """A bound on sum_i |alpha_i| |x_i - c|."""
        from maxmargin.certificate.precise_linear_loops import csr_spread, dense_spread

        centre = self._centre
        measure: Any = csr_spread if self.problem.rows.is_sparse else dense_spread
        found: float = measure(*self.problem.compiled_rows, centre, float(centre @ centre), np.ascontiguousarray(alpha))
        return found * (1.0 + gamma(self.problem.n_samples + self.problem.n_weights + 8))

    def _verdict(self, alpha: Array, sums: _Sums, comparison: _Comparison) -> Certificate:
        problem = self.problem
        primal = 0.5 * comparison.sqnorm + sums.loss
        difference, difference_error = comparison.difference, comparison.difference_error
        shift, fall, imbalance_error, move = self._imbalance(alpha, comparison)
        dual = sums.conjugate - 0.5 * comparison.sqnorm_of_alpha - fall
        gap = sums.gap + 0.5 * difference * difference + shift + fall
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

    def _imbalance(self, alpha: Array, comparison: _Comparison) -> tuple[float, float, float, float]:
        """What r = sum_i alpha_i y_i costs where it should be zero: |b r| in the gap terms, and the fall of the dual to a
        feasible point; how far rounding can hide an r; and how far w(alpha) is from that point's.

        That point is alpha with its heavier class scaled by 1 - e, e = |r| / (the sum of that class) <= 2 |r| / sum alpha.
        D is quadratic and |dD/dalpha_i| <= a + |w(alpha)| |x_i|, so with s = sum_i alpha_i |x_i| the fall is at most
        e (a sum alpha + |w(alpha)| s) + e^2 s^2 / 2. Where alpha has no lower bound, every |alpha_i| grows or falls by that
        share at most, and what the diagonal takes, q = sum_i D_ii alpha_i^2, can grow too: e (1 + e / 2) q more.
        All of it holds for x taken from any centre, as long as b and w(alpha) are taken from there too."""
        total, box = comparison.total, self.problem.box
        if self.problem.penalizes_intercept or total == 0.0:
            return 0.0, 0.0, 0.0, 0.0
        b, norm, s = comparison.offset, comparison.norm, comparison.spread
        q = float(np.sum(box.D * np.square(alpha))) if np.isinf(box.L).any() else 0.0

        def fall(r: float) -> float:
            e = 2.0 * r / total
            return e * (box.a * total + norm * s) + 0.5 * (e * s) * (e * s) + e * (1.0 + 0.5 * e) * q

        r, r_error = comparison.excess, comparison.excess_error
        return r * b, fall(r), fall(r + r_error) - fall(r) + r_error * b, 2.0 * (r + r_error) / total * s


def _is_in_doubt(quick: Certificate) -> bool:
    """Whether the bound on rounding says more than the gap does."""
    rounding = quick.rounding_error
    return math.isfinite(quick.gap) and rounding > PRECISE_SHARE * quick.gap and rounding > PRECISE_SCALE * quick.scale


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b and what it lacks (Knuth)."""
    total = a + b
    added = total - a
    return total, (a - (total - added)) + (b - added)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a b and what it lacks, by splitting both (Dekker, Veltkamp): exact unless a part overflows."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _split(a: Array) -> tuple[Array, Array]:
    scaled = (2.0**27 + 1.0) * a
    high = scaled - (scaled - a)
    return high, a - high


class _Comparison(NamedTuple):
    """w beside w(alpha): squared norms of both, their distance and how wrong that can be; and for a free intercept the bounds
    of ``_imbalance``: |w(alpha)|, sum_i |alpha_i| |x_i|, sum_i |alpha_i|, |sum_i alpha_i y_i| with its error, and |b|."""

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
    problem: LinearProblem,
    w: Array,
    alpha: Array,
    margins_of_all: Array | None,
    weights: Array,
    rests: Array | None,
    start: int,
    stop: int,
) -> _Sums:
    """Sums over the rows start <= i < stop; their part of w(alpha) goes to ``weights``, and what that lacks to ``rests``: it
    is None where float64 is enough."""
    judge_rows = _judge_of_rows(problem.rows.is_sparse, rests)
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
        if rests is None:
            margin_errors = gamma(operations) * magnitudes + 2.0 * UNIT_ROUNDOFF * (1.0 + magnitudes) + operations * SMALLEST
        else:
            lost = np.square(gamma(operations)) * magnitudes
            margin_errors = lost + 2.0 * UNIT_ROUNDOFF * (1.0 + np.abs(margins)) + 4.0 * operations * SMALLEST
        total += (
            C @ loss.value(margins),
            np.sum(problem.box.a * a - 0.5 * D * np.square(a)),
            np.sum(loss.gap_terms(margins, a, C)),
            np.sum(loss.gap_sensitivity(margins, a, C, margin_errors)),
            scale,
        )
    return _Sums(*total.tolist())


def _judge_of_rows(is_sparse: bool, rests: Array | None) -> Any:
    if rests is None:
        from maxmargin.certificate.linear_loops import judge_csr_rows, judge_dense_rows

        return judge_csr_rows if is_sparse else judge_dense_rows
    from maxmargin.certificate.precise_linear_loops import judge_csr_rows_precisely, judge_dense_rows_precisely

    return partial(_judge_precisely, judge_csr_rows_precisely if is_sparse else judge_dense_rows_precisely, rests)


def _judge_precisely(judge_rows: Any, rests: Array, *arguments: Any) -> float:
    scale: float = judge_rows(*arguments, rests)
    return scale


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

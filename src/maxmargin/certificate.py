r"""The judge: how far an answer is from the optimum, recomputed from the data alone.

For any w and any feasible alpha the duality gap is a sum of terms that are never negative,

.. math:: P(w) - D(\alpha) = \sum_i \left[ C_i \ell(m_i) + \ell^*(\alpha_i) + \alpha_i m_i \right]
          + \tfrac12 |w - w(\alpha)|^2 ,

so nothing cancels, and a gap of 1e-12 is known as well as one of 1. Everything is computed in float64 in
one pass over X, and the certificate bounds its own rounding error: a dot product of k terms is wrong by at most
:math:`\gamma_k \sum_j |w_j x_{ij}|` with :math:`\gamma_k = k u / (1 - k u)` (Higham, Accuracy and Stability of
Numerical Algorithms, section 3.1), and that error goes through each gap term by its slope.

Imports no solver and none of a solver's compiled code: the judge is not the player.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from maxmargin.data import Array, CsrRows, DenseRows
from maxmargin.losses import UNIT_ROUNDOFF
from maxmargin.problem import LinearProblem

Number = TypeVar("Number", bound=Array | float)

SMALLEST = 2.0**-1074
ROWS_A_BLOCK = 1 << 15
ELEMENTS_A_THREAD = 1 << 20
"""Below this many stored elements a thread costs more than it saves."""


@dataclass(frozen=True)
class Certificate:
    """A proof that ``primal`` is within ``gap`` (and its rounding error) of the optimum of the problem.

    ``distance_bound`` is how far w can be from the true optimum in the Euclidean norm: sqrt(gap) where
    w = w(alpha), else sqrt(2 gap), the rounding error included. An alpha outside its box proves nothing: its
    dual value is minus infinity and its gap infinite.
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
        """Whether the relative gap is at most ``tol`` whatever the rounding did."""
        return self.relative_gap <= tol and self.gap + self.rounding_error <= tol * self._scale

    @property
    def is_limited_by_rounding(self) -> bool:
        """Whether what is left of the gap may be nothing but rounding."""
        return self.gap <= 2.0 * self.rounding_error

    @property
    def _scale(self) -> float:
        return max(abs(self.primal), abs(self.dual))

    def __str__(self) -> str:
        return (
            f"primal {self.primal:.10g}, dual {self.dual:.10g}: within {self.relative_gap:.2e} of the optimum "
            f"(gap {self.gap:.2e}, known to {self.rounding_error:.0e}; "
            f"{self.n_support} support vectors, {self.n_at_bound} at the bound)"
        )


def certify(problem: LinearProblem, w: Array, alpha: Array) -> Certificate:
    """Judge the pair (w, alpha). It costs one pass over X, on all cores when X is large."""
    w = _vector(w, problem.n_weights, "w")
    alpha = _vector(alpha, problem.n_samples, "alpha")
    with np.errstate(all="ignore"):
        if not (np.isfinite(w).all() and problem.is_feasible(alpha)):
            return _refusal(alpha)
        return _verdict(problem, w, alpha, _sum_over_threads(problem, w, alpha))


class _Sums(NamedTuple):
    """What a pass over some of the rows adds up."""

    loss: float
    conjugate: float
    gap: float
    error: float
    weights_scale: float
    weights: Array


def _verdict(problem: LinearProblem, w: Array, alpha: Array, sums: _Sums) -> Certificate:
    w_of_alpha = sums.weights[: problem.n_weights]
    difference = float(np.linalg.norm(w - w_of_alpha))
    difference_error = _gamma(problem.n_samples + 8) * sums.weights_scale + UNIT_ROUNDOFF * float(np.linalg.norm(w))
    primal = 0.5 * float(w @ w) + sums.loss
    dual = sums.conjugate - 0.5 * float(w_of_alpha @ w_of_alpha)
    gap = sums.gap + 0.5 * difference**2
    rounding = (
        sums.error
        + _gamma(problem.n_samples + 16) * gap
        + (difference + difference_error) * difference_error
        + (problem.n_samples + problem.n_weights) * SMALLEST
    )
    if not np.isfinite([primal, dual, gap, rounding]).all():
        return _refusal(alpha)
    scale = max(abs(primal), abs(dual))
    worst = gap + rounding
    return Certificate(
        primal=primal,
        dual=dual,
        gap=gap,
        relative_gap=gap / scale if scale > 0.0 else (0.0 if gap == 0.0 else np.inf),
        rounding_error=rounding,
        # P and D are both 1-strongly convex in w: |w - w*|^2 + |w(alpha) - w*|^2 <= 2 gap.
        distance_bound=min(math.sqrt(2.0 * worst), math.sqrt(worst) + 0.5 * (difference + difference_error)),
        n_support=int(np.count_nonzero(alpha)),
        n_at_bound=int(np.count_nonzero((alpha == problem.box.U) & (alpha > 0.0))),
    )


def _refusal(alpha: Array) -> Certificate:
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


def _sum_over_threads(problem: LinearProblem, w: Array, alpha: Array) -> _Sums:
    padded = w if problem.intercept_scaling != 0.0 else np.append(w, 0.0)
    edges = np.linspace(0, problem.n_samples, _n_threads(problem) + 1).astype(int)
    parts = list(pairwise(edges))
    if len(parts) == 1:
        return _sum_over_rows(problem, padded, alpha, *parts[0])
    with ThreadPoolExecutor(len(parts)) as pool:
        sums = list(pool.map(lambda part: _sum_over_rows(problem, padded, alpha, *part), parts))
    return _Sums(*(sum(column[1:], start=column[0]) for column in zip(*sums, strict=True)))


def _n_threads(problem: LinearProblem) -> int:
    """As many as there are cores, while each has enough to do to pay for itself and for its own w(alpha)."""
    worthwhile = problem.rows.n_stored // (ELEMENTS_A_THREAD + 2 * problem.n_weights)
    return max(1, min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, worthwhile))


def _sum_over_rows(problem: LinearProblem, w: Array, alpha: Array, start: int, stop: int) -> _Sums:
    from maxmargin.compiled.certificate import judge_rows

    rows = problem.compiled_rows()
    weights = np.zeros(w.shape[0])
    loss = conjugate = gap = error = weights_scale = 0.0
    for first in range(start, stop, ROWS_A_BLOCK):
        block = slice(first, min(first + ROWS_A_BLOCK, stop))
        y, C, a, D = problem.y[block], problem.C[block], alpha[block], problem.box.D[block]
        outputs, magnitudes = np.empty(a.shape[0]), np.empty(a.shape[0])
        weights_scale += judge_rows(rows, block.start, block.stop, w, a * y, outputs, magnitudes, weights)
        margins = y * outputs
        operations = _operations(rows, block)
        margin_errors = _gamma(operations) * magnitudes + 2.0 * UNIT_ROUNDOFF * (1.0 + magnitudes) + operations * SMALLEST
        loss += float(C @ problem.loss.value(margins))
        conjugate += float(np.sum(a - 0.5 * D * np.square(a)))
        gap += float(np.sum(problem.loss.gap_terms(margins, a, C)))
        error += float(np.sum(problem.loss.gap_sensitivity(margins, a, C, margin_errors)))
    return _Sums(loss, conjugate, gap, error, weights_scale, weights)


def _operations(rows: CsrRows | DenseRows, block: slice) -> Array | float:
    """The roundings in each row's dot product: those of its stored elements and of the intercept."""
    if isinstance(rows, CsrRows):
        return np.diff(rows.indptr[block.start : block.stop + 1]).astype(np.float64) + 3.0
    return rows.values.shape[1] + 3.0


def _gamma(k: Number) -> Number:
    return k * UNIT_ROUNDOFF / (1.0 - k * UNIT_ROUNDOFF)  # type: ignore[return-value]


def _vector(array: Array, length: int, name: str) -> Array:
    array = np.ascontiguousarray(array, dtype=np.float64)
    if array.shape != (length,):
        raise ValueError(f"{name} must be a vector of {length} numbers for this problem; its shape is {array.shape}.")
    return array

"""What the semismooth Newton method asks of the samples: products with a vector, the answer a(m), the slope along a line,
and the sum of outer products for its Hessian. Compiled for data of any size; in NumPy for small data, where a compilation
would take longer than the whole solve."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin.data import Array
from maxmargin.problem import LinearProblem
from maxmargin.solvers.hessian import FreeHessian, HessianOfFew
from maxmargin.threads import Crew

SMALL_ELEMENTS = 100_000
"""Up to this many elements, stored densely, a problem is small."""


class Answer(NamedTuple):
    """The constants of a_i(m) = clip(anchor_i + penalty weight_i (1 - m_i), L_i, U_i)."""

    weight: Array
    U: Array
    is_direct: bool  # without an anchor: the loss is smooth as it is
    unbounded: bool  # L is minus infinity

    @classmethod
    def of(cls, problem: LinearProblem) -> Answer:
        box = problem.box
        is_direct = bool(np.isinf(box.U).any())
        weight = np.ascontiguousarray(2.0 * problem.C if is_direct else problem.C)
        return cls(weight, np.ascontiguousarray(box.U), is_direct, bool(np.isinf(box.L).any()))


class Sums(NamedTuple):
    """sum_i alpha_i - D_ii alpha_i^2 / 2, sum of the gap terms, sum of C_i loss_i, samples free, and w(alpha)."""

    linear: float
    gap_terms: float
    loss: float
    n_free: int
    w_alpha: Array


class Passes(Protocol):
    """``respond`` changes ``alpha`` and ``free`` in place and tells the Hessian."""

    @property
    def hessian(self) -> FreeHessian: ...

    def restart(self, alpha: Array) -> Array:
        """w(alpha), free of the rounding of earlier changes."""

    def products(self, w: Array, out: Array) -> None:
        """out_i = y_i (x_i . w)"""

    def respond(self, margin: Array, anchor: Array, penalty: float, alpha: Array, free: Array) -> Sums: ...

    def slope(self, margin: Array, along: Array, anchor: Array, penalty: float, t: float) -> tuple[float, float]:
        """First and second derivative by t of sum_i phi_i(margin_i + t along_i)."""


def passes_for(problem: LinearProblem, answer: Answer) -> Passes:
    elements = problem.n_samples * problem.n_weights
    return DensePasses(problem, answer) if elements <= SMALL_ELEMENTS else CompiledPasses(problem, answer)


class CompiledPasses:
    """Compiled loops, shared among the cores."""

    def __init__(self, problem: LinearProblem, answer: Answer) -> None:
        from maxmargin.compiled import newton

        self._kernels: Any = newton
        self.problem, self.answer = problem, answer
        self.crew = Crew(problem.rows.n_stored, 2 * problem.n_weights)
        self.hessian = FreeHessian(problem, answer.weight, self.crew)
        self._w_alpha = np.zeros((self.crew.size, problem.rows.n_features + 1))
        self._changed = np.empty(problem.n_samples, np.int64)
        self._sums = np.zeros((self.crew.size, 4))

    def restart(self, alpha: Array) -> Array:
        from maxmargin.compiled.rows import add_rows

        rows, signed = self.problem.compiled_rows, alpha * self.problem.y
        self._w_alpha[:] = 0.0
        self.crew.share(len(signed), lambda k, *part: add_rows(rows, signed, self._w_alpha[k], *part))
        return np.asarray(self._w_alpha.sum(axis=0))

    def products(self, w: Array, out: Array) -> None:
        kernel, rows, y = self._kernels.signed_products, self.problem.compiled_rows, self.problem.y
        self.crew.share(len(out), lambda k, *part: kernel(rows, y, w, out, *part))

    def respond(self, margin: Array, anchor: Array, penalty: float, alpha: Array, free: Array) -> Sums:
        kernel, n = self._kernels.respond, len(margin)
        known = (self.problem.compiled_rows, self.problem.y, margin, anchor, penalty, *self.answer)
        found = (alpha, free, self._changed)
        lengths = self.crew.share(n, lambda k, *part: kernel(*known, *found, self._sums[k], self._w_alpha[k], *part))
        for (start, _), length in zip(self.crew.parts(n), lengths, strict=True):
            self.hessian.note(self._changed[start : start + length])
        linear, gap_terms, loss, n_free = self._sums.sum(axis=0).tolist()
        return Sums(linear, gap_terms, loss, int(n_free), self._w_alpha.sum(axis=0))

    def slope(self, margin: Array, along: Array, anchor: Array, penalty: float, t: float) -> tuple[float, float]:
        kernel, known = self._kernels.slope, (margin, along, anchor, penalty, *self.answer, t)
        self.crew.share(len(margin), lambda k, *part: kernel(*known, self._sums[k], *part))
        first, second = self._sums[:, :2].sum(axis=0).tolist()
        return first, second


class DensePasses:
    """The same in NumPy, on a dense copy Z of the y_i x_i."""

    def __init__(self, problem: LinearProblem, answer: Answer) -> None:
        self.answer = answer
        rows = problem.rows
        dense = rows.matrix.toarray() if rows.is_sparse else rows.matrix
        self._Z = np.column_stack([dense, np.full(len(dense), problem.intercept_scaling)]) * problem.y[:, None].astype(float)
        self.hessian = HessianOfFew(self._Z, answer.weight)

    def restart(self, alpha: Array) -> Array:
        return np.asarray(alpha @ self._Z)

    def products(self, w: Array, out: Array) -> None:
        np.dot(self._Z, w, out=out)

    def respond(self, margin: Array, anchor: Array, penalty: float, alpha: Array, free: Array) -> Sums:
        wanted = self._wanted(1.0 - margin, anchor, penalty)
        alpha[:] = self._clipped(wanted)
        is_free = (alpha == wanted) & (alpha < self.answer.U) & (self.answer.unbounded | (alpha > 0.0))
        changed = np.flatnonzero(is_free != free)
        self.hessian.note(np.where(is_free[changed], changed, ~changed))
        free[:] = is_free
        return Sums(*self._values(1.0 - margin, alpha), int(is_free.sum()), alpha @ self._Z)

    def slope(self, margin: Array, along: Array, anchor: Array, penalty: float, t: float) -> tuple[float, float]:
        wanted = self._wanted(1.0 - margin - t * along, anchor, penalty)
        clipped = self._clipped(wanted)
        curvature = np.where(clipped == wanted, penalty * self.answer.weight, 0.0)
        return -float(clipped @ along), float(curvature @ np.square(along))

    def _wanted(self, slack: Array, anchor: Array, penalty: float) -> Array:
        pull = penalty * self.answer.weight * slack
        return pull if self.answer.is_direct else anchor + pull

    def _clipped(self, wanted: Array) -> Array:
        return np.minimum(wanted if self.answer.unbounded else np.maximum(wanted, 0.0), self.answer.U)

    def _values(self, slack: Array, alpha: Array) -> tuple[float, float, float]:
        weight, U = self.answer.weight, self.answer.U
        if self.answer.is_direct:
            present = weight > 0.0
            loss = 0.5 * float(np.sum(np.square(alpha[present]) / weight[present]))
            return float(alpha.sum()) - loss, 0.0, loss
        shortfall, excess = np.maximum(slack, 0.0), np.maximum(-slack, 0.0)
        return float(alpha.sum()), float((U - alpha) @ shortfall + alpha @ excess), float(U @ shortfall)

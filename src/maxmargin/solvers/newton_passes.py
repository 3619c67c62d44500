"""What the semismooth Newton method asks of the samples: products with a vector, the answer a(m), the slope along a line,
and the sum of outer products for its Hessian. Compiled for data of any size; in NumPy for small data, where a compilation
would take longer than the whole solve."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin.data import Array
from maxmargin.problem import LinearProblem
from maxmargin.solvers.conjugate_gradients import ProductHessian
from maxmargin.solvers.hessian import FreeHessian, HessianOfFew
from maxmargin.threads import Crew

SMALL_ELEMENTS = 100_000
"""Up to this many elements, stored densely, a problem is small."""

MOST_MATRIX_WEIGHTS = 2000
"""Up to this many weights a Newton direction is found by a Cholesky factorisation, which takes a tenth of a second there; with
more, by conjugate gradients."""


class Curve(NamedTuple):
    """What the loss gives the dual: sum_i a alpha_i - D_ii alpha_i^2 / 2, D_ii = softness / C_i, lower <= alpha_i <= U_i."""

    C: Array
    U: Array
    lower: float
    a: float
    softness: float

    @classmethod
    def of(cls, problem: LinearProblem) -> Curve:
        box, C = problem.box, np.ascontiguousarray(problem.C)
        present = np.flatnonzero(C)[0]
        lower = -np.inf if np.isinf(box.L[present]) else 0.0
        return cls(C, np.ascontiguousarray(box.U), lower, box.a, float(box.D[present] * C[present]))

    @property
    def is_smooth(self) -> bool:
        """Whether the loss has a derivative everywhere, so that Newton needs no proximal term."""
        return self.softness > 0.0


class Prox(NamedTuple):
    """The proximal term (alpha_i - anchor_i)^2 / (2 s C_i) in the answer alpha_i = clip(keep anchor_i + rate C_i (a - m_i)):
    1 / rate = 1 / s + softness and keep = rate / s."""

    anchor: Array
    rate: float
    keep: float

    @classmethod
    def of(cls, anchor: Array, penalty: float, softness: float) -> Prox:
        return cls(anchor, 1.0 / (1.0 / penalty + softness), 1.0 / (1.0 + penalty * softness))


class Found(NamedTuple):
    """What ``respond`` writes: the answer, who is free, and whose freedom changed."""

    alpha: Array
    free: Array
    changed: Array


class Sums(NamedTuple):
    """sum_i a alpha_i - D_ii alpha_i^2 / 2, sum of the gap terms, sum of C_i loss_i, samples free, and w(alpha)."""

    linear: float
    gap_terms: float
    loss: float
    n_free: int
    w_alpha: Array


class Passes(Protocol):
    """``respond`` changes ``alpha`` and ``free`` in place and tells the Hessian."""

    @property
    def hessian(self) -> FreeHessian | ProductHessian: ...

    def restart(self, alpha: Array) -> Array:
        """w(alpha), free of the rounding of earlier changes."""

    def products(self, w: Array, out: Array) -> None:
        """out_i = y_i (x_i . w)"""

    def respond(self, margin: Array, prox: Prox, alpha: Array, free: Array) -> Sums: ...

    def slope(self, margin: Array, along: Array, prox: Prox, t: float) -> tuple[float, float]:
        """First and second derivative by t of sum_i phi_i(margin_i + t along_i)."""


def passes_for(problem: LinearProblem, curve: Curve) -> Passes:
    elements = problem.n_samples * problem.n_weights
    return DensePasses(problem, curve) if elements <= SMALL_ELEMENTS else CompiledPasses(problem, curve)


def hessian_of(problem: LinearProblem, C: Array, crew: Crew) -> FreeHessian | ProductHessian:
    return FreeHessian(problem, C, crew) if problem.n_weights <= MOST_MATRIX_WEIGHTS else ProductHessian(problem, C, crew)


class CompiledPasses:
    """Compiled loops, shared among the cores."""

    def __init__(self, problem: LinearProblem, curve: Curve) -> None:
        from maxmargin.compiled import newton

        self._kernels: Any = newton
        self.problem, self.curve = problem, curve
        self.crew = Crew(problem.rows.n_stored, 2 * problem.n_weights)
        self.hessian = hessian_of(problem, curve.C, self.crew)
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

    def respond(self, margin: Array, prox: Prox, alpha: Array, free: Array) -> Sums:
        kernel, n = self._kernels.respond, len(margin)
        known = (self.problem.compiled_rows, self.problem.y, margin, self.curve, prox, Found(alpha, free, self._changed))
        lengths = self.crew.share(n, lambda k, *part: kernel(*known, self._sums[k], self._w_alpha[k], *part))
        for (start, _), length in zip(self.crew.parts(n), lengths, strict=True):
            self.hessian.note(self._changed[start : start + length])
        linear, gap_terms, loss, n_free = self._sums.sum(axis=0).tolist()
        return Sums(linear, gap_terms, loss, int(n_free), self._w_alpha.sum(axis=0))

    def slope(self, margin: Array, along: Array, prox: Prox, t: float) -> tuple[float, float]:
        kernel, known = self._kernels.slope, (margin, along, self.curve, prox, t)
        self.crew.share(len(margin), lambda k, *part: kernel(*known, self._sums[k], *part))
        first, second = self._sums[:, :2].sum(axis=0).tolist()
        return first, second


class DensePasses:
    """The same in NumPy, on a dense copy Z of the y_i x_i."""

    def __init__(self, problem: LinearProblem, curve: Curve) -> None:
        self.curve = curve
        self._half_D = np.divide(0.5 * curve.softness, curve.C, out=np.zeros(len(curve.C)), where=curve.C > 0.0)
        dense = problem.rows.dense()
        self._Z = np.column_stack([dense, np.full(len(dense), problem.intercept_scaling)]) * problem.y[:, None].astype(float)
        self.hessian = HessianOfFew(self._Z, curve.C)

    def restart(self, alpha: Array) -> Array:
        return np.asarray(alpha @ self._Z)

    def products(self, w: Array, out: Array) -> None:
        np.dot(self._Z, w, out=out)

    def respond(self, margin: Array, prox: Prox, alpha: Array, free: Array) -> Sums:
        slack = self.curve.a - margin
        wanted = prox.rate * self.curve.C * slack + prox.keep * prox.anchor
        alpha[:] = self._clipped(wanted)
        is_free = (alpha == wanted) & (alpha < self.curve.U) & (alpha > self.curve.lower)
        changed = np.flatnonzero(is_free != free)
        self.hessian.note(np.where(is_free[changed], changed, ~changed))
        free[:] = is_free
        return Sums(*self._values(slack, alpha), int(is_free.sum()), alpha @ self._Z)

    def slope(self, margin: Array, along: Array, prox: Prox, t: float) -> tuple[float, float]:
        gain = prox.rate * self.curve.C
        wanted = gain * (self.curve.a - margin - t * along) + prox.keep * prox.anchor
        clipped = self._clipped(wanted)
        return -float(clipped @ along), float(np.where(clipped == wanted, gain, 0.0) @ np.square(along))

    def _clipped(self, wanted: Array) -> Array:
        return np.maximum(np.minimum(wanted, self.curve.U), self.curve.lower)

    def _values(self, slack: Array, alpha: Array) -> tuple[float, float, float]:
        """As in the compiled ``respond``: the best alpha_i for its margin gives the loss, what alpha_i lacks the gap term."""
        half_D, curve = self._half_D, self.curve
        best = np.where(slack > 0.0, curve.U, 0.0)
        if curve.is_smooth:
            best = self._clipped(np.divide(0.5 * slack, half_D, out=np.zeros(len(slack)), where=half_D > 0.0))
        linear = float(np.sum(alpha * (curve.a - half_D * alpha)))
        gap_terms = float(np.sum((best - alpha) * (slack - half_D * (best + alpha))))
        return linear, gap_terms, float(np.sum(best * (slack - half_D * best)))

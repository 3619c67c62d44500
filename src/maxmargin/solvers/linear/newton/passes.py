"""The passes of the semismooth Newton method over the samples: products with a vector, the response a(m), the slope along a
line, and the sum of outer products for the Hessian. They are compiled for data of any size, and in NumPy for small data, where
compiling would take longer than the whole solve."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin.data.rows import Array, OneValueRows
from maxmargin.data.threads import Crew
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.newton.conjugate_gradients import ProductHessian
from maxmargin.solvers.linear.newton.curves import Curve, Tube
from maxmargin.solvers.linear.newton.direction_costs import begins_with_products
from maxmargin.solvers.linear.newton.hessian import FreeHessian, HessianOfFew, packed
from maxmargin.solvers.linear.newton.policy import HessianPolicy, NewtonPolicy


def curve_of(problem: LinearProblem) -> Curve | Tube:
    """What the loss gives the dual, with D_ii = softness / C_i: the compiled passes are chosen by its type."""
    return contiguous(plain_curve_of(problem))


def plain_curve_of(problem: LinearProblem) -> Curve | Tube:
    """The same, where one number for all samples may take the memory of one."""
    box, C = problem.box, problem.C
    present = 0 if C.strides == (0,) else np.flatnonzero(C)[0]
    softness = float(box.D[present] * C[present])
    if problem.loss.is_regression:
        return Tube(C, box.U, box.L, box.p, softness, box.e)
    return Curve(C, box.U, -np.inf if np.isinf(box.L).any() else 0.0, float(box.p[0]), softness)


def contiguous(curve: Curve | Tube) -> Curve | Tube:
    """The same curve with an element of its own for each sample."""
    values: Any = (np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value for value in curve)
    return type(curve)(*values)


class Prox(NamedTuple):
    """The proximal term (alpha_i - anchor_i)^2 / (2 s C_i) in the answer alpha_i = clip(keep anchor_i + rate C_i (p_i - m_i)):
    1 / rate = 1 / s + softness and keep = rate / s."""

    anchor: Array
    rate: float
    keep: float

    @classmethod
    def of(cls, anchor: Array, penalty: float, softness: float) -> Prox:
        return cls(anchor, 1.0 / (1.0 / penalty + softness), 1.0 / (1.0 + penalty * softness))


class Found(NamedTuple):
    """The output of ``respond``: alpha, which samples are free, which samples changed, sums, and w(alpha). ``signs`` is only
    read. ``step`` and ``moved`` are memory for the change of alpha, and for the samples whose alpha changed."""

    signs: Array
    alpha: Array
    free: Array
    changed: Array
    sums: Array
    w: Array
    step: Array
    moved: Array


class SearchLine(NamedTuple):
    """The margins, and how they change along a direction."""

    margin: Array
    along: Array


class Response(NamedTuple):
    """sum_i p_i alpha_i - D_ii alpha_i^2 / 2, sum of the gap terms, sum of C_i loss_i, samples free, and w(alpha)."""

    linear: float
    gap_terms: float
    loss: float
    n_free: int
    w_alpha: Array


class Changes(NamedTuple):
    """What a partition of the samples contributes at a new w: the sums of its ``Response``, and the changes of w(alpha) and of
    the sum of C_i x_i x_i' over the free samples (its lower triangle, packed, or nothing). The contributions of several
    partitions are added."""

    sums: Array
    w_alpha: Array
    outer: Array

    def plus(self, other: Changes) -> Changes:
        """The sum of both contributions. The arrays of this one are overwritten."""
        for mine, its in zip(self, other, strict=True):
            mine += its
        return self

    def response(self, w_alpha: Array) -> Response:
        """What all partitions answer together, with their w(alpha)."""
        linear, gap_terms, loss, n_free = self.sums.tolist()
        return Response(linear, gap_terms, loss, int(n_free), w_alpha)

    @classmethod
    def none(cls, n_weights: int, has_matrix: bool) -> Changes:
        return cls(np.zeros(4), np.zeros(n_weights), np.zeros(n_weights * (n_weights + 1) // 2 if has_matrix else 0))


class Passes(Protocol):
    """``respond`` changes ``alpha`` and ``free`` in place and tells the Hessian."""

    @property
    def hessian(self) -> FreeHessian | ProductHessian: ...

    def restart(self, alpha: Array) -> Array:
        """w(alpha) computed anew, without the rounding error of earlier changes."""

    def take_costs(self, curve: Curve | Tube, factor: float) -> None:
        """Continue with the costs of ``curve``: those of before times ``factor``, and with them w(alpha) and the Hessian."""

    def products(self, w: Array, out: Array) -> None:
        """out_i = y_i (x_i . w)"""

    def respond(self, margin: Array, prox: Prox, alpha: Array, free: Array) -> Response: ...

    def slope(self, margin: Array, along: Array, prox: Prox, t: float) -> tuple[float, float]:
        """First and second derivative by t of sum_i phi_i(margin_i + t along_i)."""


def passes_for(problem: LinearProblem, curve: Curve | Tube, policy: NewtonPolicy) -> Passes:
    if has_few_elements(problem, policy.matrix):
        return DensePasses(problem, curve, policy.matrix)
    return CompiledPasses(problem, curve, policy)


def has_few_elements(problem: LinearProblem, policy: HessianPolicy) -> bool:
    """Whether a problem is small."""
    if problem.loss.is_regression:
        most = policy.small_regression_elements
    else:
        most = policy.small_elements if problem.penalizes_intercept else policy.small_free_elements
    return problem.n_samples * problem.n_weights <= most


def hessian_of(problem: LinearProblem, C: Array, crew: Crew, policy: NewtonPolicy) -> FreeHessian | ProductHessian:
    if begins_with_products(problem, policy):
        return ProductHessian(problem, C, crew, policy)
    return FreeHessian(problem, C, crew, policy=policy.matrix)


class CompiledPasses:
    """Compiled loops, shared among the cores."""

    def __init__(self, problem: LinearProblem, curve: Curve | Tube, policy: NewtonPolicy) -> None:
        from maxmargin.solvers.linear.newton import pass_loops as newton

        self._kernels: Any = newton
        self.problem, self.curve, self.policy = problem, curve, policy
        self.rows = problem.rows.compact(problem.intercept_scaling)
        self.crew = Crew(problem.rows.n_stored, 2 * problem.n_weights)
        self.hessian = hessian_of(problem, curve.C, self.crew, policy)
        is_short = isinstance(self.rows, OneValueRows)
        self._products: Any = newton.short_signed_products if is_short else newton.signed_products
        self._w_alpha = np.zeros((self.crew.size, problem.rows.n_features + 1))
        self._changed = np.empty(problem.n_samples, np.int64)
        self._memory = np.empty(problem.n_samples), np.empty(problem.n_samples, np.int64)
        self._sums = np.zeros((self.crew.size, 4))

    def restart(self, alpha: Array) -> Array:
        from maxmargin.data.row_loops import add_rows

        self._w_alpha[:] = 0.0
        if alpha.any():
            rows, signed = self.rows, alpha * self.problem.signs
            self.crew.share(len(signed), lambda k, *part: add_rows(rows, signed, self._w_alpha[k], *part))
        return np.asarray(self._w_alpha.sum(axis=0))

    def take_costs(self, curve: Curve | Tube, factor: float) -> None:
        self.curve = curve
        self.hessian.take_costs(curve.C, factor)
        self._w_alpha *= factor

    def make_matrix(self, free: Array) -> None:
        """Directions come from a factorisation from now on."""
        self.hessian = FreeHessian(self.problem, self.curve.C, self.crew, policy=self.policy.matrix)
        self.hessian.rebuild(free)

    def products(self, w: Array, out: Array) -> None:
        kernel, rows, y = self._products, self.rows, self.problem.signs
        self.crew.share(len(out), lambda k, *part: kernel(rows, y, w, out, *part))

    def respond(self, margin: Array, prox: Prox, alpha: Array, free: Array) -> Response:
        kernel, n = self._kernels.respond, len(margin)
        found = Found(self.problem.signs, alpha, free, self._changed, self._sums[0], self._w_alpha[0], *self._memory)
        known = (self.rows, margin, self.curve, prox)
        lengths = self.crew.share(
            n, lambda k, *part: kernel(*known, found._replace(sums=self._sums[k], w=self._w_alpha[k]), *part)
        )
        for (start, _), length in zip(self.crew.parts(n), lengths, strict=True):
            self.hessian.note(self._changed[start : start + length])
        linear, gap_terms, loss, n_free = self._sums.sum(axis=0).tolist()
        return Response(linear, gap_terms, loss, int(n_free), self._w_alpha.sum(axis=0))

    def matrix_change(self) -> Array:
        """What the matrix of few features changed by since this was last asked."""
        assert isinstance(self.hessian, FreeHessian)
        return self.hessian.change()

    def changes(self, margin: Array, prox: Prox, alpha: Array, free: Array, *, has_matrix: bool) -> Changes:
        """Respond to the margins of the samples of one partition: ``alpha`` and ``free`` change in place. Without the matrix,
        the Hessian remembers what changed."""
        self._w_alpha[:] = 0.0
        response = self.respond(margin, prox, alpha, free)
        sums = np.array([response.linear, response.gap_terms, response.loss, response.n_free], dtype=np.float64)
        return Changes(sums, response.w_alpha, packed(self.matrix_change()) if has_matrix else np.empty(0))

    def slope(self, margin: Array, along: Array, prox: Prox, t: float) -> tuple[float, float]:
        kernel, known = self._kernels.slope, (SearchLine(margin, along), self.curve, prox, t)
        self.crew.share(len(margin), lambda k, *part: kernel(*known, self._sums[k], *part))
        first, second = self._sums[:, :2].sum(axis=0).tolist()
        return first, second


class DensePasses:
    """The same in NumPy, on a dense copy Z of the y_i x_i."""

    def __init__(self, problem: LinearProblem, curve: Curve | Tube, policy: HessianPolicy) -> None:
        self._set_curve(curve)
        dense = problem.rows.dense()
        self._Z = np.column_stack([dense, np.full(len(dense), problem.intercept_scaling)]) * problem.signs[:, None].astype(
            float
        )
        self.hessian = HessianOfFew(self._Z, curve.C, policy)

    def _set_curve(self, curve: Curve | Tube) -> None:
        self.curve = curve
        self._half_D = np.divide(0.5 * curve.softness, curve.C, out=np.zeros(len(curve.C)), where=curve.C > 0.0)

    def take_costs(self, curve: Curve | Tube, factor: float) -> None:
        self._set_curve(curve)
        self.hessian.take_costs(curve.C, factor)

    def restart(self, alpha: Array) -> Array:
        return np.asarray(alpha @ self._Z)

    def products(self, w: Array, out: Array) -> None:
        np.dot(self._Z, w, out=out)

    def respond(self, margin: Array, prox: Prox, alpha: Array, free: Array) -> Response:
        slack = self.curve.target - margin
        gain = prox.rate * self.curve.C
        wanted = self._softened(gain * slack + prox.keep * prox.anchor, gain)
        alpha[:] = self._clipped(wanted)
        is_free = (alpha == wanted) & (alpha < self.curve.U) & (alpha > self.curve.lower) & self._is_off_kink(alpha)
        changed = np.flatnonzero(is_free != free)
        self.hessian.note(np.where(is_free[changed], changed, ~changed))
        free[:] = is_free
        return Response(*self._values(slack, alpha), int(is_free.sum()), alpha @ self._Z)

    def slope(self, margin: Array, along: Array, prox: Prox, t: float) -> tuple[float, float]:
        gain = prox.rate * self.curve.C
        wanted = self._softened(gain * (self.curve.target - margin - t * along) + prox.keep * prox.anchor, gain)
        clipped = self._clipped(wanted)
        is_free = (clipped == wanted) & self._is_off_kink(clipped)
        return -float(clipped @ along), float(np.where(is_free, gain, 0.0) @ np.square(along))

    def _clipped(self, wanted: Array) -> Array:
        return np.maximum(np.minimum(wanted, self.curve.U), self.curve.lower)

    def _softened(self, wanted: Array, gain: Array | float) -> Array:
        """The answer with the kink -epsilon |alpha_i| at 0."""
        if self.curve.epsilon == 0.0:
            return wanted
        threshold = self.curve.epsilon * gain
        return np.maximum(0.0, wanted - threshold) + np.minimum(0.0, wanted + threshold)

    def _is_off_kink(self, alpha: Array) -> Array | bool:
        return True if self.curve.epsilon == 0.0 else alpha != 0.0

    def _values(self, slack: Array, alpha: Array) -> tuple[float, float, float]:
        """Loss and gap terms as in the compiled ``respond``: the best alpha_i for its margin gives the loss, what alpha_i lacks
        the gap term."""
        half_D, curve, e = self._half_D, self.curve, self.curve.epsilon
        pull = self._softened(slack, 1.0)
        best = np.where(pull > 0.0, curve.U, np.where(pull < 0.0, curve.lower, 0.0) if e or curve.is_tube else 0.0)
        if curve.is_smooth:
            best = self._clipped(np.divide(0.5 * pull, half_D, out=np.zeros(len(slack)), where=half_D > 0.0))
        linear = float(np.sum(alpha * (curve.target - half_D * alpha)))
        gap_terms = float(np.sum((best - alpha) * (slack - half_D * (best + alpha))))
        loss = float(np.sum(best * (slack - half_D * best)))
        if e == 0.0:
            return linear, gap_terms, loss
        held, most = e * float(np.sum(np.abs(alpha))), e * float(np.sum(np.abs(best)))
        return linear - held, gap_terms + held - most, loss - most

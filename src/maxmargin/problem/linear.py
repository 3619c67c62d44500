r"""The linear problem, in mathematics and with no algorithm.

With the penalty :math:`g(w) = \tfrac12 |w|^2` (:mod:`maxmargin.problem.penalties`), a loss of an output and a target
(:mod:`maxmargin.problem.losses`) and a sign :math:`\sigma_i` for each sample, which is its label where there are two classes
and 1 in regression,

.. math:: P(w) = g(w) + \sum_i C_i \, \ell(\sigma_i w \cdot x_i, \, t_i), \qquad
          D(\alpha) = -g^*(w(\alpha)) + \sum_i \left(p_i \alpha_i - e |\alpha_i| - \tfrac12 D_{ii} \alpha_i^2\right), \qquad
          w(\alpha) = \sum_i \alpha_i \sigma_i x_i .

Where there are two classes, the target is 1 and the output is the margin. An intercept is a constant feature of value
``intercept_scaling`` appended to every row (Hsieh et al., eq. (3)). The last element of w is its weight, and b = w[-1] *
intercept_scaling. The intercept is penalised like every other feature. With ``penalizes_intercept=False`` g leaves it out, and
the dual has the constraint sum_i alpha_i sigma_i = 0, as in a kernel SVM."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxmargin.data.kept import kept
from maxmargin.data.real import is_real
from maxmargin.data.rows import Array, CsrRows, DenseRows, Rows
from maxmargin.problem import policy
from maxmargin.problem.dual_box import DualBox, Loss, repeated
from maxmargin.problem.losses import Hinge
from maxmargin.problem.offset import balanced, excess_of, filled
from maxmargin.problem.penalties import L2, Penalty


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """min P(w) over w, equal to max D(alpha) over the box. ``y`` is +1 or -1, or any number in regression; ``C`` one positive
    or zero value a sample.

    ``intercept_scaling=0`` means no intercept.
    """

    rows: Rows
    y: Array
    C: Array
    loss: Loss
    intercept_scaling: float = 0.0
    penalizes_intercept: bool = True
    penalty: Penalty = field(default_factory=L2, kw_only=True)
    offset_prices: Array | None = field(default=None, kw_only=True)
    """c: a free offset b has the price b sum_i c_i in the primal, and the dual asks for sum_i alpha_i sigma_i = sum_i c_i. None
    for zeros."""
    has_exact_rows: bool = field(default=True, kw_only=True)
    """Whether X is what is asked about, and not the rounded features of another problem. Intervals of single weights
    (``certificate/weight_bounds.py``) say nothing of the other problem."""

    @classmethod
    def build(
        cls,
        X: Any,
        y: Any,
        C: Any = 1.0,
        loss: Loss | None = None,
        intercept_scaling: float = 0.0,
        penalizes_intercept: bool = True,
        penalty: Penalty | None = None,
    ) -> LinearProblem:
        """Check everything and bring it to the few types that the loops are compiled for."""
        rows = Rows.from_matrix(X)
        scaling = _scaling(intercept_scaling)
        is_penalized = bool(penalizes_intercept) or scaling == 0.0
        loss = _loss(loss)
        y = targets_of(y, rows) if loss.is_regression else signs_of(y, rows)
        return cls(rows, y, costs_of(C, rows), loss, scaling, is_penalized, penalty=L2() if penalty is None else penalty)

    @kept
    def n_samples(self) -> int:
        return self.rows.n_samples

    @kept
    def n_weights(self) -> int:
        """The length of w: the features, and one for the intercept if there is one."""
        return self.rows.n_features + (self.intercept_scaling != 0.0)

    @kept
    def n_penalised(self) -> int:
        """How many elements of w, from the first on, are penalised."""
        return self.n_weights if self.penalizes_intercept else self.rows.n_features

    @kept
    def signs(self) -> Array:
        """sigma: the labels, or ones in regression."""
        return np.ones(self.n_samples, np.int8) if self.loss.is_regression else self.y

    @kept
    def targets(self) -> Array:
        """t: ones, or y in regression."""
        return self.y if self.loss.is_regression else repeated(1.0, self.n_samples)

    @kept
    def box(self) -> DualBox:
        return self.loss.dual(self.C, self.targets)

    def box_of(self, block: slice) -> DualBox:
        """The dual's terms and bounds of some samples."""
        box = self.box
        return DualBox(box.L[block], box.U[block], box.D[block], box.p[block], box.e)

    @kept
    def compiled_rows(self) -> DenseRows | CsrRows:
        return self.rows.compiled(self.intercept_scaling)

    @kept
    def regulariser(self) -> Array:
        """One for each element of w that is penalised, in the layout of the compiled loops: the last is the intercept's."""
        ones = np.ones(self.rows.n_features + 1)
        ones[-1] = float(self.penalizes_intercept)
        return ones

    def balanced(self, alpha: Array) -> Array:
        """alpha with sum_i alpha_i sigma_i = 0, or the sum of the offset's prices, and still in the box."""
        if self.offset_prices is not None:
            return filled(alpha, self.box.U, self.offset_prices)
        is_inside = (alpha > self.box.L) & (alpha < self.box.U)
        return np.asarray(balanced(alpha * self.signs, is_inside) * self.signs)

    def margins(self, w: Array) -> Array:
        """The outputs sigma_i (w . x_i), the intercept included: margins, where there are two classes."""
        outputs = self.rows.matrix @ w[: self.rows.n_features]
        if self.intercept_scaling != 0.0:
            outputs = outputs + w[-1] * self.intercept_scaling
        return self.signs * outputs

    def weights(self, alpha: Array) -> Array:
        """w(alpha) = sum_i alpha_i sigma_i x_i."""
        signed = alpha * self.signs
        w = self.rows.matrix.T @ signed
        return w if self.intercept_scaling == 0.0 else np.append(w, self.intercept_scaling * signed.sum())

    def precise_weights(self, alpha: Array) -> Array:
        """w(alpha) summed in long double, where the machine has it. Without an intercept the last element is zero."""
        return self.long_weights(alpha).astype(np.float64)

    def long_weights(self, alpha: Array) -> Array:
        """The same in long double, for sums of several parts."""
        signed = (alpha * self.signs).astype(np.longdouble)
        total = np.zeros(self.rows.n_features, np.longdouble)
        for start in range(0, self.n_samples, policy.LINEAR.precise_rows):
            block = slice(start, start + policy.LINEAR.precise_rows)
            total += self.rows.matrix[block].T @ signed[block]
        return np.append(total, self.intercept_scaling * signed.sum())

    def primal(self, w: Array) -> float:
        losses = self.loss.value(self.margins(w), self.targets)
        return self.penalty.value(w[: self.n_penalised]) + float(self.C @ losses) + self.offset_price(w)

    def offset_price(self, w: Array) -> float:
        """b sum_i c_i"""
        return 0.0 if self.offset_prices is None else float(w[-1]) * self.intercept_scaling * float(self.offset_prices.sum())

    @kept
    def first_dual_point(self) -> Array:
        """A feasible alpha that is known without computing: zero, or the prices of the offset."""
        return np.zeros(self.n_samples) if self.offset_prices is None else np.array(self.offset_prices)

    def unbalanced(self, alpha: Array) -> Array:
        """alpha_i sigma_i minus the prices of the offset. Their sum is zero where a free offset is optimal."""
        signed = alpha * self.signs
        return signed if self.offset_prices is None else signed - self.offset_prices

    @kept
    def primal_at_zero(self) -> float:
        """P(0), which no optimum exceeds."""
        return float(self.C @ self.loss.value(np.zeros(self.n_samples), self.targets))

    def sqnorm(self, w: Array) -> float:
        """|w|^2 over the elements that are penalised."""
        return float(w[: self.n_penalised] @ w[: self.n_penalised])

    def dual(self, alpha: Array) -> float:
        """D(alpha), and minus infinity outside the box or, with an intercept without penalty, off sum_i alpha_i sigma_i = 0."""
        if not self.is_feasible(alpha):
            return -np.inf
        if not self.penalizes_intercept and abs(excess_of(self.unbalanced(alpha))) > policy.LINEAR.balance * np.sum(
            np.abs(alpha)
        ):
            return -np.inf
        v = self.weights(alpha)[: self.n_penalised]
        share = self.penalty.feasible_share(v)
        if share < 1.0 - policy.LINEAR.balance:
            return -np.inf
        return float(np.sum(self.box.terms(share * alpha))) - self.penalty.conjugate(share * v)

    def is_feasible(self, alpha: Array) -> bool:
        return bool(np.all((alpha >= self.box.L) & (alpha <= self.box.U)))


def signs_of(y: Any, rows: Rows) -> Array:
    y = np.asarray(y)
    if y.shape != (rows.n_samples,):
        raise ValueError(f"y must have one label for each of the {rows.n_samples} rows of X; its shape is {y.shape}.")
    wrong = np.flatnonzero((y != 1) & (y != -1))
    if wrong.size:
        raise ValueError(f"The labels of a binary problem are +1 and -1; y[{wrong[0]}] is {y[wrong[0]]!r}.")
    return y.astype(np.int8)


def targets_of(y: Any, rows: Rows) -> Array:
    y = np.asarray(y, dtype=np.float64)
    if y.shape != (rows.n_samples,):
        raise ValueError(f"y must have one target for each of the {rows.n_samples} rows of X; its shape is {y.shape}.")
    is_finite = np.isfinite(y)
    if not is_finite.all():
        wrong = int(np.argmin(is_finite))
        raise ValueError(f"The targets must be finite; y[{wrong}] is {y[wrong]}.")
    return y


def costs_of(C: Any, rows: Rows) -> Array:
    C = np.asarray(C, dtype=np.float64)
    if C.ndim == 0 and 0.0 < (value := float(C)) < math.inf:  # at once, which counts in small fits
        return repeated(value, rows.n_samples)
    if C.shape not in ((), (1,), (rows.n_samples,)):
        raise ValueError(f"C must be one number or one for each of the {rows.n_samples} rows; its shape is {C.shape}.")
    is_sound = np.isfinite(C) & (C >= 0.0)
    if not is_sound.all():
        raise ValueError(f"C must be finite and not negative; it holds {C.flat[int(np.argmin(is_sound))]}.")
    if not C.any():
        raise ValueError("C is zero for every sample: there is nothing to fit.")
    return C if C.shape == (rows.n_samples,) else repeated(float(C.flat[0]), rows.n_samples)


def _loss(loss: Loss | None) -> Loss:
    if loss is None:
        return Hinge()
    if isinstance(loss, type) or not hasattr(loss, "gap_terms"):
        raise TypeError(f"loss must be a loss object such as Hinge(); got {loss!r}.")
    return loss


def _scaling(intercept_scaling: float) -> float:
    if not is_real(intercept_scaling) or not math.isfinite(intercept_scaling) or intercept_scaling < 0.0:
        raise ValueError(f"intercept_scaling must be finite and not negative; got {intercept_scaling!r}.")
    return float(intercept_scaling)

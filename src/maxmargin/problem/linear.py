r"""The optimisation problems, in mathematics and with no algorithm.

The linear problem, with :math:`m_i = y_i (w \cdot x_i)` and a loss from :mod:`maxmargin.problem.losses`:

.. math:: P(w) = \tfrac12 |w|^2 + \sum_i C_i \, \ell(m_i), \qquad
          D(\alpha) = \sum_i \left(a \, \alpha_i - \tfrac12 D_{ii} \alpha_i^2\right) - \tfrac12 |w(\alpha)|^2 .

An intercept is a constant feature of value ``intercept_scaling`` appended to every row (Hsieh et al., eq. (3)): the last
element of w is then its weight, and b = w[-1] * intercept_scaling. It is regularised like every other feature, unless
``penalizes_intercept`` is false: then |w|^2 is without it, and the dual has the constraint sum_i alpha_i y_i = 0, as in a
kernel SVM."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from maxmargin.data.rows import Array, CsrRows, DenseRows, Rows
from maxmargin.problem.losses import DualBox, Hinge, Loss

BALANCE = 1e-12
"""Up to this share of sum_i alpha_i, sum_i alpha_i y_i is rounding."""

PRECISE_ROWS = 4096
"""Rows that are brought to a higher precision at a time."""


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """min P(w) over w, equal to max D(alpha) over the box. ``y`` is +1 or -1, ``C`` one positive or zero value a sample.

    ``intercept_scaling=0`` means no intercept.
    """

    rows: Rows
    y: Array
    C: Array
    loss: Loss
    intercept_scaling: float = 0.0
    penalizes_intercept: bool = True

    @classmethod
    def build(
        cls,
        X: Any,
        y: Any,
        C: Any = 1.0,
        loss: Loss | None = None,
        intercept_scaling: float = 0.0,
        penalizes_intercept: bool = True,
    ) -> LinearProblem:
        """Check everything and bring it to the few types that the loops are compiled for."""
        rows = Rows.from_matrix(X)
        scaling = _scaling(intercept_scaling)
        is_penalized = bool(penalizes_intercept) or scaling == 0.0
        return cls(rows, signs_of(y, rows), costs_of(C, rows), _loss(loss), scaling, is_penalized)

    @property
    def n_samples(self) -> int:
        return self.rows.n_samples

    @property
    def n_weights(self) -> int:
        """The length of w: the features, and one for the intercept if there is one."""
        return self.rows.n_features + (self.intercept_scaling != 0.0)

    @property
    def n_penalised(self) -> int:
        """How many elements of w, from the first on, are penalised."""
        return self.n_weights if self.penalizes_intercept else self.rows.n_features

    @cached_property
    def box(self) -> DualBox:
        return self.loss.dual(self.C)

    @cached_property
    def compiled_rows(self) -> DenseRows | CsrRows:
        return self.rows.compiled(self.intercept_scaling)

    @cached_property
    def regulariser(self) -> Array:
        """One for each element of w that is penalised, in the layout of the compiled loops: the last is the intercept's."""
        ones = np.ones(self.rows.n_features + 1)
        ones[-1] = float(self.penalizes_intercept)
        return ones

    def balanced(self, alpha: Array) -> Array:
        """alpha with sum_i alpha_i y_i = 0 and still in the box: the class with the greater sum is scaled down, only where
        it is not at a bound if that suffices. What rounding leaves of the sum is taken from one sample."""
        excess = self._excess(alpha)
        if excess == 0.0:
            return alpha
        if np.isinf(self.box.L).any():
            return alpha - self.y * np.abs(alpha) * (excess / np.abs(alpha).sum())
        heavier = self.y > 0 if excess > 0.0 else self.y < 0
        inside = heavier & (alpha > self.box.L) & (alpha < self.box.U)
        chosen = inside if abs(excess) <= alpha[inside].sum() else heavier
        scaled = np.where(chosen, alpha * (1.0 - abs(excess) / alpha[chosen].sum()), alpha)
        rest = self.y * self._excess(scaled)
        room = np.flatnonzero((rest > 0.0) & (scaled > 2.0 * rest))
        if len(room):
            least = room[np.argmin(scaled[room])]  # a small number takes a small change with the least rounding
            scaled[least] -= rest[least]
        return scaled

    def _excess(self, alpha: Array) -> float:
        """sum_i alpha_i y_i, in more than float64 where the machine has it: its terms cancel."""
        return float(np.sum(alpha * self.y, dtype=np.longdouble))

    def margins(self, w: Array) -> Array:
        """m_i = y_i (w . x_i), the intercept included."""
        outputs = self.rows.matrix @ w[: self.rows.n_features]
        if self.intercept_scaling != 0.0:
            outputs = outputs + w[-1] * self.intercept_scaling
        return self.y * outputs

    def weights(self, alpha: Array) -> Array:
        """w(alpha) = sum_i alpha_i y_i x_i."""
        signed = alpha * self.y
        w = self.rows.matrix.T @ signed
        return w if self.intercept_scaling == 0.0 else np.append(w, self.intercept_scaling * signed.sum())

    def precise_weights(self, alpha: Array) -> Array:
        """w(alpha) with a zero for an intercept that is not there, summed in more than float64 where the machine has it."""
        signed = (alpha * self.y).astype(np.longdouble)
        total = np.zeros(self.rows.n_features, np.longdouble)
        for start in range(0, self.n_samples, PRECISE_ROWS):
            block = slice(start, start + PRECISE_ROWS)
            total += self.rows.matrix[block].T @ signed[block]
        return np.append(total, self.intercept_scaling * signed.sum()).astype(np.float64)

    def primal(self, w: Array) -> float:
        return 0.5 * self.sqnorm(w) + float(self.C @ self.loss.value(self.margins(w)))

    def sqnorm(self, w: Array) -> float:
        """|w|^2 over the elements that are penalised."""
        return float(w[: self.n_penalised] @ w[: self.n_penalised])

    def dual(self, alpha: Array) -> float:
        """D(alpha), and minus infinity outside the box or, with an intercept without penalty, off sum_i alpha_i y_i = 0."""
        if not self.is_feasible(alpha):
            return -np.inf
        if not self.penalizes_intercept and abs(np.sum(alpha * self.y)) > BALANCE * np.sum(np.abs(alpha)):
            return -np.inf
        return float(np.sum(self.box.terms(alpha))) - 0.5 * self.sqnorm(self.weights(alpha))

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


def costs_of(C: Any, rows: Rows) -> Array:
    C = np.asarray(C, dtype=np.float64)
    if C.shape not in ((), (1,), (rows.n_samples,)):
        raise ValueError(f"C must be one number or one for each of the {rows.n_samples} rows; its shape is {C.shape}.")
    wrong = np.flatnonzero(~(np.isfinite(C) & (C >= 0.0)))
    if wrong.size:
        raise ValueError(f"C must be finite and not negative; it holds {C.reshape(-1)[wrong[0]]}.")
    if not C.any():
        raise ValueError("C is zero for every sample: there is nothing to fit.")
    return np.broadcast_to(C, (rows.n_samples,))


def _loss(loss: Loss | None) -> Loss:
    if loss is None:
        return Hinge()
    if isinstance(loss, type) or not hasattr(loss, "gap_terms"):
        raise TypeError(f"loss must be a loss object such as Hinge(); got {loss!r}.")
    return loss


def _scaling(intercept_scaling: float) -> float:
    if not isinstance(intercept_scaling, Real) or not np.isfinite(intercept_scaling) or intercept_scaling < 0.0:
        raise ValueError(f"intercept_scaling must be finite and not negative; got {intercept_scaling!r}.")
    return float(intercept_scaling)

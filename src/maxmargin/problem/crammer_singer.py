r"""The machine of Crammer and Singer (JMLR 2, 2001): one problem for all classes.

With :math:`z_i^m = w_m \cdot x_i` and :math:`e_i^m = 1` for every class but that of the sample,

.. math:: P(W) = \tfrac12 \sum_m |w_m|^2 + \sum_i C_i \xi_i, \qquad
          \xi_i = \max_m \left(e_i^m + z_i^m - z_i^{y_i}\right), \qquad
          D(a) = \sum_i A_i - \tfrac12 \sum_m |w_m(a)|^2, \quad A_i = \sum_m a_i^m \le C_i ,

where :math:`a_i^m \ge 0`, zero for the class of the sample, and :math:`w_m(a) = \sum_i b_i^m x_i` with :math:`b_i^m = -a_i^m`,
and :math:`b_i^{y_i} = A_i`. The coefficients b are what is kept: each row adds up to zero. An intercept is a constant feature
that is penalised."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.data.rows import Array, Rows
from maxmargin.problem.linear import costs_of


@dataclass(frozen=True, eq=False)
class CrammerSingerProblem:
    """min P(W) = max D(a). ``y`` holds the number of each sample's class, from 0; ``C`` one value a sample. W has one row a
    feature and one column a class, so that a feature touches memory that is contiguous."""

    rows: Rows
    y: Array
    n_classes: int
    C: Array
    intercept_scaling: float = 0.0
    penalizes_intercept: bool = True

    @classmethod
    def build(cls, X: Any, y: Any, C: Any = 1.0, intercept_scaling: float = 0.0) -> CrammerSingerProblem:
        """Build the problem from X, and the number of each sample's class in y."""
        rows = Rows.from_matrix(X)
        y = np.asarray(y)
        if y.shape != (rows.n_samples,) or y.dtype.kind not in "iu" or y.min() < 0:
            raise ValueError(f"y must hold the number of a class, from 0, for each of the {rows.n_samples} rows of X.")
        return cls(rows, y.astype(np.int64), int(y.max()) + 1, costs_of(C, rows), float(intercept_scaling))

    @property
    def n_samples(self) -> int:
        return self.rows.n_samples

    @property
    def n_weights(self) -> int:
        """Rows of W: the features, and one for the intercept if there is one."""
        return self.rows.n_features + (self.intercept_scaling != 0.0)

    @cached_property
    def own(self) -> tuple[Array, Array]:
        """The place of each sample's own class in an array of samples and classes."""
        return np.arange(self.n_samples), self.y

    def outputs(self, W: Array) -> Array:
        """z: one row a sample, one column a class."""
        z = np.asarray(self.rows.matrix @ W[: self.rows.n_features])
        return z if self.intercept_scaling == 0.0 else z + self.intercept_scaling * W[-1]

    def weights(self, b: Array) -> Array:
        """W(a) = X'b"""
        W = np.asarray(self.rows.matrix.T @ b)
        return W if self.intercept_scaling == 0.0 else np.vstack([W, self.intercept_scaling * b.sum(axis=0)])

    def slacks(self, z: Array) -> Array:
        """e_i^m + z_i^m - z_i^{y_i}, which is zero for the class of the sample."""
        slacks = 1.0 + z - z[self.own][:, None]
        slacks[self.own] = 0.0
        return np.asarray(slacks)

    def primal(self, W: Array) -> float:
        return 0.5 * float(np.sum(np.square(W))) + float(self.C @ self.slacks(self.outputs(W)).max(axis=1))

    def dual(self, b: Array) -> float:
        return float(np.sum(b[self.own])) - 0.5 * float(np.sum(np.square(self.weights(b)))) if self.is_feasible(b) else -np.inf

    def is_feasible(self, b: Array) -> bool:
        """Whether every a_i^m is at least zero and A_i at most C_i, up to rounding. A_i is by the others of its row."""
        others = b.copy()
        others[self.own] = 0.0
        return bool(np.all(others <= 0.0) and np.all(-others.sum(axis=1) <= self.C * (1.0 + 1e-9)))

    @property
    def primal_at_zero(self) -> float:
        """P(0): every slack is one."""
        return float(self.C.sum())

r"""The columns in which ``class_interior.py`` works, and the systems of its steps.

All columns of X, the constant one too, are multiplied by an orthonormal Q that makes them orthogonal, and divided by their
lengths: see ``turned_columns.py``. Where there are fewer rows than columns, Q consists of the singular vectors of X, because W
is in the space of the rows.

M takes no notice of a number added to all classes of a sample. So the last class of a step is zero until the mean is taken off,
and (I - 1/k) stands for I among the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, svd
from scipy.linalg.blas import dsyrk

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.solvers.linear.class_policy import ClassInteriorPolicy
from maxmargin.solvers.linear.newton.turned_columns import (
    columns_far_from_zero,
    orthogonal_basis,
    product_in_pairs,
    turned_from,
)


class Normal:
    """The matrix (ridge) + X'MX of all classes but the last, where M_i = diag(D_i) - D_i D_i' / sum D_i, and its factor. ``D``
    may have rows of zeros. ``ridge`` has a number for each column of X."""

    def __init__(self, X: Array, D: Array, ridge: Array, policy: ClassInteriorPolicy) -> None:
        self.X, self.D = X, D
        self.sums = np.where((totals := D.sum(axis=1)) > 0.0, totals, 1.0)
        H = self._assembled(ridge)
        scales = H.diagonal().copy()
        self.scales = 1.0 / np.sqrt(np.where(scales > 0.0, scales, 1.0))
        H *= self.scales[:, None] * self.scales
        self.factor = factor(H, policy)

    def _assembled(self, ridge: Array) -> Array:
        X, D, (d, k) = self.X, self.D, (self.X.shape[1], self.D.shape[1])
        H = np.zeros(((k - 1) * d, (k - 1) * d), order="F")
        for p in range(k - 1):
            for q in range(p + 1):
                check_point()
                others = np.delete(D, p, axis=1).sum(axis=1) if p == q else D[:, q]  # the sum less D_p would cancel
                weights = D[:, p] * (others / self.sums)
                block = dsyrk(1.0 if p == q else -1.0, (X * np.sqrt(weights)[:, None]).T)
                block += np.triu(block, 1).T
                block[np.diag_indices(d)] += ((p == q) - 1.0 / k) * ridge
                H[p * d : (p + 1) * d, q * d : (q + 1) * d] = block
        return H

    def solved(self, right: Array) -> Array:
        """The step for this right side, one column a class, with zero for the last class."""
        d, k = right.shape
        step = np.zeros((d, k))
        known = self.scales * right[:, :-1].T.reshape(-1)
        step[:, :-1] = (self.scales * cho_solve(self.factor, known, check_finite=False)).reshape(k - 1, d).T
        return step

    def times_M(self, outputs: Array) -> Array:
        """M times the numbers of each sample."""
        return np.asarray(self.D * (outputs - (np.einsum("ij,ij->i", self.D, outputs) / self.sums)[:, None]))


@dataclass(frozen=True, eq=False)
class ClassFrame:
    """X Q with columns of length one, Q, and the lengths."""

    problem: CrammerSingerProblem
    X: Array
    basis: Array
    lengths: Array

    @classmethod
    def of(cls, problem: CrammerSingerProblem, policy: ClassInteriorPolicy) -> ClassFrame:
        """Q is made from some of the rows, and from all of them where they are fewer than the columns."""
        columns = columns_of(problem)
        if is_wide(problem):
            basis = svd(columns, full_matrices=False)[2].T
        else:
            basis = orthogonal_basis(columns[:: max(1, len(columns) // policy.rows_to_turn)], False)
        turned, _ = turned_from(columns, basis, False)
        lengths = np.linalg.norm(turned, axis=0)
        lengths = np.where(lengths > 0.0, lengths, 1.0)
        return cls(problem, turned / lengths, basis, lengths)

    @cached_property
    def ridge(self) -> Array:
        """The penalty on each row of V."""
        return np.asarray(1.0 / np.square(self.lengths))

    def weights(self, V: Array) -> Array:
        """W in the columns of X."""
        total, rest = product_in_pairs(self.basis, V / self.lengths[:, None])
        return np.asarray(total + rest)

    def turned(self, lack: Array) -> Array:
        """What W(a) lacks, given in the columns of X, in those of the frame."""
        return np.asarray((self.basis.T @ lack) / self.lengths[:, None])

    def lacking(self, V: Array, a: Array) -> Array:
        """V - X'b"""
        return np.asarray(self.ridge[:, None] * V - self.X.T @ coefficients(self.problem, a))

    def moved(
        self, V: Array, a: Array, moves: int, price: float, policy: ClassInteriorPolicy, still: Array | None = None
    ) -> Array:
        """a, moved until X'b is V as nearly as its digits allow. Each a moves in proportion to its square, so that small ones
        stay positive. Those of ``still`` do not move. To move one by its own size counts as much as ``price``."""
        greatest = float(self.problem.C.max())
        for _ in range(moves):
            D = np.square(a / greatest)
            if still is not None:
                D[still] = 0.0
            normal = Normal(self.X, D, price / greatest**2 * self.ridge, policy)
            da = -normal.times_M(self.X @ normal.solved(self.lacking(V, a)))
            a = a + min(1.0, policy.to_zero * longest(a, da)) * da
        return a


def fits_inside(problem: CrammerSingerProblem, policy: ClassInteriorPolicy) -> bool:
    """Whether X and the matrix of a step are small, and all numbers are of moderate size. W is in the space of the rows."""
    n, k = problem.n_samples, problem.n_classes
    d = min(n, problem.n_weights)
    may_turn = is_wide(problem) or d <= policy.most_columns
    has_few_weights = (k - 1) * d <= policy.most_weights and n * float(d * k) ** 2 <= policy.most_work
    is_small = may_turn and has_few_weights and n * float(problem.n_weights) <= policy.most_elements
    return is_small and problem.rows.greatest * float(problem.C.max()) <= policy.greatest


def is_wide(problem: CrammerSingerProblem) -> bool:
    """Whether there are fewer rows than columns."""
    return problem.n_samples < problem.n_weights


def has_uneven_columns(problem: CrammerSingerProblem, policy: ClassInteriorPolicy) -> bool:
    """Whether columns have very different sizes, or are far from zero for their spread."""
    X = problem.rows.dense().astype(np.float64, copy=False)
    sizes = np.sqrt(np.einsum("ij,ij->j", X, X) / len(X))
    present = sizes > 0.0
    if not present.any():
        return False
    is_uneven = float(sizes.max()) > policy.spread * float(sizes[present].min())
    return is_uneven or bool(len(columns_far_from_zero(X[:, present])))


def columns_of(problem: CrammerSingerProblem) -> Array:
    """X, dense, with a column for the intercept."""
    X = problem.rows.dense().astype(np.float64, copy=False)
    scaling = problem.intercept_scaling
    return np.column_stack([X, np.full(len(X), scaling)]) if scaling != 0.0 else X


def longest(values: Array, step: Array) -> float:
    """How much of a step leaves these values positive; at most 1 / 0.9, so that a whole step stays whole."""
    shares = np.where(step < 0.0, -step / values, 0.0)
    most = float(np.nanmax(shares))
    return 1.0 / max(most, 0.9)


def factor(H: Array, policy: ClassInteriorPolicy) -> tuple[Array, bool]:
    """A Cholesky factor, with as little added to the diagonal, which is one, as allows one."""
    added = policy.least_added
    while added < policy.most_added:
        trial = H.copy(order="F")
        trial[np.diag_indices(len(H))] += added
        try:
            return cho_factor(trial, lower=True, overwrite_a=True, check_finite=True)
        except LinAlgError:
            added *= policy.added_growth
    raise LinAlgError("The matrix of a step has no factor.")


def coefficients(problem: CrammerSingerProblem, a: Array) -> Array:
    """b, in which the coefficient of each sample's own class is the sum of the others."""
    b = -a
    b[problem.own] = 0.0
    b[problem.own] = -b.sum(axis=1)
    return b

r"""Newton's method for kernel problems whose samples lie in few dimensions of the feature space.

SMO moves two variables at a time, and where the kernel matrix has a low rank or columns of very different scales, millions of
such steps get nowhere. But then :math:`K = L L'` with few columns in L, and the problem is a linear one whose samples are the
rows of L. Newton's method solves it whatever the scales are (``maxmargin.solvers.linear.newton.newton``).

L is the pivoted Cholesky factor, as in S. Fine and K. Scheinberg, "Efficient SVM training using low-rank kernel
representations", JMLR 2, 2001, but to rounding: it stops when no diagonal element of :math:`K - L L'` is more than that. Only
the rows of the pivots are computed. With an offset the origin of the feature space is moved to one of the samples. The dual
does not change, because :math:`\sum_i \alpha_i y_i = 0`, and this removes a constant that may be much greater than the
differences between samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.differences import half_squares
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.points import Points
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.newton.newton import Newton


@dataclass(frozen=True)
class FactorPolicy:
    """How a kernel matrix is factored."""

    pivots: int = 16
    """Rows of the kernel matrix that are computed at a time."""
    origins: int = 16
    """Samples among which the origin of ``factor_of_falls`` is chosen: the one with the greatest sum of its values. Beside a
    sample that is far from all others, the others differ by as little as beside the constant. An estimate, not measured."""
    work_in_long_double: int = 30_000_000
    """Multiplications in long double up to which ``factor_of_falls`` makes L again: a tenth of a second. An estimate."""
    residual: float = 64.0
    """A diagonal element of K - L L' is taken for rounding below this many units of roundoff of the greatest one of K."""


class GaussianFalls:
    """Rows of k(x, z) - 1 = exp(-gamma |x - z|^2) - 1, each value right to some roundings of itself: in float64, or in long
    double, which has more digits on some machines."""

    def __init__(self, gamma: float, points: Points, is_long: bool = False) -> None:
        self.gamma, self.points, self.is_long = gamma, points, is_long
        self.columns = np.ascontiguousarray(_dense(points.matrix).T).astype(np.longdouble) if is_long else None

    @property
    def roundoff(self) -> float:
        return 0.5 * float(np.finfo(np.longdouble).eps) if self.is_long else UNIT_ROUNDOFF

    def block(self, chosen: Array) -> Array:
        if self.columns is None:
            return np.asarray(np.expm1(2.0 * self.gamma * half_squares(self.points[chosen], self.points)))
        squares = np.zeros((len(chosen), self.columns.shape[1]), np.longdouble)
        for column in self.columns:
            squares += np.square(column[chosen, None] - column)
        return np.asarray(np.expm1(-np.longdouble(self.gamma) * squares))


class KernelRows(Protocol):
    """Gives rows of the kernel matrix in float64."""

    def block(self, chosen: Array) -> Array: ...


def factor(problem: KernelProblem, rows: KernelRows, most_columns: int, policy: FactorPolicy | None = None) -> Array | None:
    """L with L L' = K up to rounding; None where L has more columns than ``most_columns``, or K is not finite."""
    policy = policy or FactorPolicy()
    origin = int(np.argmin(problem.diagonal))
    least = policy.residual * UNIT_ROUNDOFF * float(np.abs(problem.diagonal).max())
    with np.errstate(all="ignore"):
        shift = rows.block(np.array([origin]))[0] if problem.has_offset else np.zeros(problem.n_samples)
    moved = MovedRows(rows, shift, float(shift[origin]) if problem.has_offset else 0.0)
    return _factor(moved, moved.diagonal(problem.diagonal), least, most_columns, policy.pivots)


def factor_of_falls(gamma: float, points: Points, most_columns: int, policy: FactorPolicy | None = None) -> Array | None:
    """L with L L' = K of the RBF kernel up to rounding of the differences between samples, where the origin is one of the
    samples; None where L has more columns than ``most_columns``. A short L is made again in long double, and its columns are
    centred, before it is rounded."""
    policy = policy or FactorPolicy()
    found = _factor_of_falls(GaussianFalls(gamma, points), most_columns, policy)
    if found is None or policy.work_in_long_double < found.size * (found.shape[1] + points.matrix.shape[1]):
        return found
    longer = _factor_of_falls(GaussianFalls(gamma, points, is_long=True), min(most_columns, 2 * found.shape[1]), policy)
    return found if longer is None else (longer - longer.mean(axis=0)).astype(np.float64)


def _factor_of_falls(rows: GaussianFalls, most_columns: int, policy: FactorPolicy) -> Array | None:
    n = len(rows.points)
    block = rows.block(np.unique(np.linspace(0, n - 1, min(n, policy.origins)).astype(np.int64)))
    moved = MovedRows(rows, block[int(np.argmax(block.sum(axis=1)))], 0.0)
    diagonal = moved.diagonal(np.zeros(n))
    return _factor(moved, diagonal, policy.residual * rows.roundoff * float(diagonal.max()), most_columns, policy.pivots)


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)


@dataclass(frozen=True)
class MovedRows:
    """Rows of a kernel whose origin is moved to a sample. ``shift`` are the values of that sample, ``constant`` that of it with
    itself."""

    rows: KernelRows
    shift: Array
    constant: float

    def block(self, chosen: Array) -> Array:
        return self.rows.block(chosen) - self.shift - self.shift[chosen, None] + self.constant

    def diagonal(self, diagonal: Array) -> Array:
        return np.asarray(diagonal - 2.0 * self.shift + self.constant)


def _factor(rows: KernelRows, left: Array, least: float, most_columns: int, n_pivots: int) -> Array | None:
    """The factor of a matrix whose diagonal is ``left``. Diagonal elements of the rest of at most ``least`` are rounding."""
    n = len(left)
    with np.errstate(all="ignore"):
        columns, count = np.empty((n, min(n, most_columns)), dtype=left.dtype, order="F"), 0
        while left.max() > least:
            check_point()
            pivots = np.argsort(-left, kind="stable")[:n_pivots]
            pivots = pivots[left[pivots] > least]
            block = rows.block(pivots).T
            block -= columns[:, :count] @ columns[pivots, :count].T
            found = _eliminated(block, pivots, left, least)
            if not np.isfinite(found).all() or count + found.shape[1] > columns.shape[1]:
                return None
            columns[:, count : count + found.shape[1]] = found
            count += found.shape[1]
        return np.ascontiguousarray(columns[:, : max(1, count)]) if count else np.zeros((n, 1))


def _eliminated(block: Array, pivots: Array, left: Array, least: float) -> Array:
    """The columns of L that these pivots give, the greatest first. ``left``, the diagonal of K - L L', is brought up to
    date."""
    found, is_left = [], np.ones(len(pivots), bool)
    while is_left.any():
        k = int(np.argmax(np.where(is_left, left[pivots], -np.inf)))
        is_left[k] = False
        square = left[pivots[k]]
        if not square > least:
            break
        column = block[:, k] / np.sqrt(square)
        block -= column[:, None] * column[pivots]
        left -= np.square(column)
        left[pivots[k]] = 0.0
        found.append(column)
    return np.stack(found, axis=1)


class FactoredNewton:
    """Newton's method on the rows of L, from an alpha."""

    def __init__(self, problem: KernelProblem, L: Array, alpha: Array) -> None:
        scaling = 1.0 if problem.has_offset else 0.0
        rows = Rows.from_matrix(L, check=False)
        self.problem = LinearProblem(rows, problem.y, problem.C, problem.loss, scaling, not problem.has_offset)
        self.solver = Newton()
        self.state = self.solver.init(self.problem, alpha, 0)

    @property
    def steps(self) -> int:
        return int(self.state.steps)

    @property
    def is_over(self) -> bool:
        return bool(self.state.looks_done or self.state.is_stuck)

    def advance(self, budget: Budget) -> None:
        self.solver.advance(self.problem, self.state, budget)

    @property
    def alpha(self) -> Array:
        return np.clip(self.solver.candidate(self.problem, self.state)[1], self.problem.box.L, self.problem.box.U)

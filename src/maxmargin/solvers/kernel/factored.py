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
from typing import Protocol

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.newton.newton import Newton


@dataclass(frozen=True)
class FactorPolicy:
    """How a kernel matrix is factored."""

    pivots: int = 16
    """Rows of the kernel matrix that are computed at a time."""
    residual: float = 64.0
    """A diagonal element of K - L L' is taken for rounding below this many units of roundoff of the greatest one of K."""


class KernelRows(Protocol):
    """Gives rows of the kernel matrix in float64."""

    def block(self, chosen: Array) -> Array: ...


def factor(problem: KernelProblem, rows: KernelRows, most_columns: int, policy: FactorPolicy | None = None) -> Array | None:
    """L with L L' = K up to rounding; None where L has more columns than ``most_columns``, or K is not finite."""
    policy = policy or FactorPolicy()
    n, origin = problem.n_samples, int(np.argmin(problem.diagonal))
    with np.errstate(all="ignore"):
        shift = rows.block(np.array([origin]))[0] if problem.has_offset else np.zeros(n)
        left = problem.diagonal - 2.0 * shift + (shift[origin] if problem.has_offset else 0.0)
        least = policy.residual * UNIT_ROUNDOFF * float(np.abs(problem.diagonal).max())
        columns, count = np.empty((n, min(n, most_columns)), order="F"), 0
        while left.max() > least:
            check_point()
            pivots = np.argsort(-left, kind="stable")[: policy.pivots]
            pivots = pivots[left[pivots] > least]
            block = (rows.block(pivots) - shift - shift[pivots, None] + (shift[origin] if problem.has_offset else 0.0)).T
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
        square = float(left[pivots[k]])
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

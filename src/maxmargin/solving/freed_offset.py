r"""A penalised intercept that rounding keeps from its optimum: the problem with a free intercept is solved in its place.

A column of milliseconds since 1970 is nearly constant, and so nearly a multiple of the intercept's own column of ones. With a
free intercept the columns are centred, and Newton's method sees the differences alone. With a penalised one it cannot: the
penalty is on the intercept at x = 0, 1970. But with a large C the penalty :math:`b^2 / 2` is nothing beside the losses, so that
the optimum of the one problem is nearly that of the other. The judge of the penalised problem says how nearly.

**Columns carry the intercept.** Let m be the means of the columns, the intercept's own s among them, and v their variances. For
any c with :math:`c \cdot m = 1` the weights :math:`w + b c` have the outputs :math:`w \cdot x + b + b\, c \cdot (x - m)`: the
offset b without an intercept, up to the last term. A column of large mean and small spread carries it at next to no price, so
that a penalised intercept is as good as a free one. The c that is least for :math:`\sum_j c_j^2 (1 + v_j \sum_i C_i)`, the
price of the weights and of the losses, is :math:`c_j \propto m_j / (1 + v_j \sum_i C_i)`. Where such a column hides the
differences of the others from Newton's method, the free problem is solved first."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.certificate.linear import judge_of
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.policy import FreeingPolicy
from maxmargin.solving.solution import Solution, Status

EFFORT = ("trace", "steps", "epochs", "seconds")
"""What two solves add up."""


class Carrier(NamedTuple):
    """The weights c of the head of this module, and the greatest ratio of a column's mean to its standard deviation."""

    weights: Array
    ratio: float

    @classmethod
    def of(cls, problem: LinearProblem, step: int = 1) -> Carrier:
        """Measure the columns on every row, or on one in ``step``."""
        means, variances = _moments(problem.rows.matrix[::step])
        means, variances = np.append(means, problem.intercept_scaling), np.append(variances, 0.0)
        with np.errstate(all="ignore"):
            slopes = means / (1.0 + variances * float(np.sum(problem.C)))
            ratios = np.abs(means) / np.sqrt(variances)
            ratio = float(np.max(ratios, where=variances > 0.0, initial=0.0))
            return cls(slopes / float(slopes @ means), ratio)

    @property
    def square(self) -> float:
        """|c|^2: the price of an offset of one, twice."""
        return float(self.weights @ self.weights)

    def carried(self, w: Array, scaling: float) -> Array:
        """The weights with the intercept in the columns."""
        return np.append(w[:-1], 0.0) + w[-1] * scaling * self.weights


def _moments(X: Any) -> tuple[Array, Array]:
    """The mean and the variance of each column."""
    means = np.asarray(X.mean(axis=0, dtype=np.float64)).reshape(-1)
    if not sparse.issparse(X):
        return means, X.var(axis=0, dtype=np.float64)
    squares = np.asarray(X.power(2).mean(axis=0, dtype=np.float64)).reshape(-1)
    return means, np.maximum(squares - np.square(means), 0.0)


def _has_penalised_intercept(problem: Any, solver: Any, limits: Any) -> bool:
    if solver.name != "auto" or limits.max_epochs < math.inf or not isinstance(problem, LinearProblem):
        return False
    is_plain = problem.intercept_scaling != 0.0 and problem.offset_prices is None
    return is_plain and problem.penalizes_intercept and not problem.penalty.has_kink


def hides_offset(problem: Any, solver: Any, limits: Any, policy: FreeingPolicy) -> bool:
    """Whether to solve the free problem first: a column that hardly varies carries the intercept, and hides the others."""
    if not (_has_penalised_intercept(problem, solver, limits) and limits.tol > 0.0):
        return False
    if Carrier.of(problem, max(1, problem.n_samples // policy.rows)).ratio < policy.ratio:
        return False
    carrier = Carrier.of(problem)
    return carrier.ratio >= policy.ratio and carrier.square <= policy.most_square


def may_free(problem: Any, solver: Any, solution: Solution, limits: Any, policy: FreeingPolicy) -> bool:
    """Whether to try: the default solver has come as far as it can, the intercept is penalised, and its penalty is no more than
    a share of ``tol``, or columns carry it."""
    if solution.status is not Status.PRECISION_LIMIT or not _has_penalised_intercept(problem, solver, limits):
        return False
    penalty, scale = 0.5 * float(solution.w[-1]) ** 2, solution.certificate.scale
    if not 0.0 < limits.tol * scale < math.inf:
        return False
    return penalty < policy.share * limits.tol * scale or Carrier.of(problem).square <= policy.most_square


def freed(problem: Any) -> LinearProblem:
    """The same problem with a free intercept."""
    return replace(problem, penalizes_intercept=False)


def judged(problem: Any, first: Solution, free: Solution, tol: float) -> Solution:
    """The answer of the free problem as one of the penalised problem, if that is within ``tol``. Else the first answer."""
    effort: dict[str, Any] = {name: getattr(first, name) + getattr(free, name) for name in EFFORT}
    own = penalised(problem, free, tol)
    return replace(first if own is None else own, **effort)


def penalised(problem: Any, free: Solution, tol: float) -> Solution | None:
    """The answer of the free problem as one of the penalised problem: as it is, or with the intercept in the columns. None
    where neither is within ``tol``."""
    judge, scaling = judge_of(problem), problem.intercept_scaling
    judge.tol = tol
    for carries in (False, True):
        w = Carrier.of(problem).carried(free.w, scaling) if carries else free.w
        certificate = judge.certify(w, free.alpha)
        if certificate.meets(tol):
            certified, b = Status.CERTIFIED, float(w[-1] * scaling)
            return replace(free, w=w, b=b, certificate=certificate, status=certified, offset_bound=0.0)
    return None

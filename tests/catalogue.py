"""Named problems x named solvers. Every solver is tested on every problem; later solvers are added here.

All problems are small, made from a fixed seed, and between them hold what real data holds: overlap and separation, more
features than samples and fewer, sparse rows, zero rows, duplicates, weights, an intercept, float32, a large C, and columns
that leave a Hessian singular.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, LeastSquares, Loss, SquaredHinge
from maxmargin.solvers.base import Solver
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.avsf import AVSF
from maxmargin.solvers.linear.dcd import DCD, Order, Shrinking
from maxmargin.solvers.linear.newton.newton import Newton

LOSSES: dict[str, Loss] = {"hinge": Hinge(), "squared_hinge": SquaredHinge(), "least_squares": LeastSquares()}

SOLVERS: dict[str, Solver] = {
    "dcd": DCD(),
    "dcd-no-shrinking": DCD(shrinking=None),
    "dcd-aggressive-shrinking": DCD(shrinking=Shrinking(factor=0.5)),
    "dcd-cyclic": DCD(order=Order.CYCLIC),
    "dcd-cyclic-no-shrinking": DCD(order=Order.CYCLIC, shrinking=None),
    "dcd-online": DCD(order=Order.ONLINE, shrinking=None),
    "avsf": AVSF(),
    "newton": Newton(),
    "auto": Auto(),
}


def labelled(n: int, d: int, noise: float, seed: int) -> tuple[Array, Array]:
    """Gaussian points and the signs of a noisy linear function of them; both classes occur."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) + noise * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


def _overlapping(loss: Loss) -> LinearProblem:
    return LinearProblem.build(*labelled(120, 6, 1.5, 1), 1.0, loss)


def _with_intercept(loss: Loss) -> LinearProblem:
    X, y = labelled(90, 5, 1.0, 2)
    return LinearProblem.build(X + 0.7, y, 0.5, loss, intercept_scaling=2.0)


def _separable(loss: Loss) -> LinearProblem:
    return LinearProblem.build(*labelled(60, 4, 0.0, 3), 1.0, loss)


def _wide(loss: Loss) -> LinearProblem:
    return LinearProblem.build(*labelled(30, 80, 0.5, 4), 0.1, loss)


def _sparse(loss: Loss) -> LinearProblem:
    X, y = labelled(150, 40, 0.5, 5)
    X[np.random.default_rng(5).random(X.shape) < 0.85] = 0.0
    return LinearProblem.build(sparse.csr_array(X), y, 1.0, loss)


def _sparse_float32_long_indices(loss: Loss) -> LinearProblem:
    problem = _sparse(loss)
    X = problem.rows.matrix.astype(np.float32)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return LinearProblem.build(X, problem.y, 1.0, loss, intercept_scaling=1.0)


def _float32(loss: Loss) -> LinearProblem:
    X, y = labelled(100, 7, 1.0, 6)
    return LinearProblem.build(X.astype(np.float32), y, 1.0, loss)


def _zero_rows(loss: Loss) -> LinearProblem:
    X, y = labelled(50, 4, 1.0, 7)
    X[::7] = 0.0
    return LinearProblem.build(X, y, 1.0, loss)


def _contradictions(loss: Loss) -> LinearProblem:
    """Every row twice, once with each label, and a constant and a duplicated column."""
    X, y = labelled(30, 3, 0.5, 8)
    X = np.column_stack([X, X[:, 0], np.ones(30)])
    return LinearProblem.build(np.vstack([X, X, X]), np.concatenate([y, -y, y]), 0.3, loss)


def _weighted(loss: Loss) -> LinearProblem:
    X, y = labelled(80, 5, 1.0, 9)
    C = np.random.default_rng(9).exponential(size=80)
    C[::5] = 0.0
    return LinearProblem.build(X, y, C, loss, intercept_scaling=1.0)


def _one_feature(loss: Loss) -> LinearProblem:
    return LinearProblem.build(*labelled(40, 1, 0.5, 10), 1.0, loss)


def _small_C(loss: Loss) -> LinearProblem:
    return LinearProblem.build(*labelled(70, 5, 1.0, 11), 1e-6, loss)


def _large_C(loss: Loss) -> LinearProblem:
    return LinearProblem.build(*labelled(40, 3, 1.0, 12), 1e3, loss)


def _constant_columns(loss: Loss) -> LinearProblem:
    """A constant, a doubled and a zero column: without the regulariser the Hessian would be singular."""
    X, y = labelled(60, 4, 1.0, 13)
    X = np.column_stack([X, X[:, 1], np.full(60, 3.0), np.zeros(60)])
    return LinearProblem.build(X, y, 1.0, loss, intercept_scaling=1.0)


def _d_close_to_n(loss: Loss) -> LinearProblem:
    return LinearProblem.build(*labelled(41, 40, 1.0, 14), 1.0, loss)


def _same_rows(loss: Loss) -> LinearProblem:
    """One row again and again, with either label."""
    X, _ = labelled(30, 3, 1.0, 15)
    return LinearProblem.build(np.broadcast_to(X[0], X.shape), np.where(np.arange(30) % 3 == 0, -1, 1), 0.5, loss)


PROBLEMS: dict[str, Callable[[Loss], LinearProblem]] = {
    "overlapping": _overlapping,
    "with-intercept": _with_intercept,
    "separable": _separable,
    "wide": _wide,
    "sparse": _sparse,
    "sparse-float32-long-indices": _sparse_float32_long_indices,
    "float32": _float32,
    "zero-rows": _zero_rows,
    "contradictions": _contradictions,
    "weighted": _weighted,
    "one-feature": _one_feature,
    "small-C": _small_C,
    "large-C": _large_C,
    "constant-columns": _constant_columns,
    "d-close-to-n": _d_close_to_n,
    "same-rows": _same_rows,
}


def feasible_point(problem: LinearProblem, seed: int) -> tuple[Array, Array]:
    """A random w and a random alpha in the box, some of it on the bounds."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=problem.n_weights)
    ceiling = np.where(np.isfinite(problem.box.U), problem.box.U, 10.0 * problem.C)
    alpha = ceiling * rng.random(problem.n_samples)
    alpha[rng.random(problem.n_samples) < 0.3] = 0.0
    at_bound = rng.random(problem.n_samples) < 0.3
    alpha[at_bound] = ceiling[at_bound]
    return w, alpha

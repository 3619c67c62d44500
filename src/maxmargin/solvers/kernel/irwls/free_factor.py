"""The Cholesky factor of K_FF + D for a set F of free variables that changes little from one step to the next.

Variables that cease to be free are rotated out of the factor, n^2 operations each; those that become free are appended by
one triangular solve. When many change, or D does, it is factored anew, n^3 / 3 operations, but at the speed of BLAS 3.

A large matrix is factored in float32 first, which takes half the time. Its answers are refined once by their residual in
float64. A residual that is not small tells that K is too ill-conditioned for float32, and K is factored in float64 (N. J.
Higham, Accuracy and Stability of Numerical Algorithms, section 12.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs, spotrf, spotrs

from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.tile_loops import gather
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.kernel.irwls.cholesky_loops import drop_columns


@dataclass(frozen=True)
class FreeFactorPolicy:
    """When a factor is brought up to date, and when it is made anew."""

    jitter: float = 8.0
    """The least that is added to the diagonal: units in the last place of its greatest element, for each variable."""
    jitter_growth: float = 16.0
    """The factor by which that grows while the matrix is not positive definite."""
    jitters: int = 16
    """How often it may grow: enough for any K."""
    dropped: float = 1 / 64
    """The share of F that may be rotated out before it is cheaper to factor anew."""
    appended: float = 1 / 4
    """The share of F that may be appended before it is cheaper to factor anew."""
    most_updates: float = 1.0
    """Changes, in multiples of the size of F, after which a new factor does away with their rounding."""
    rough_from: int = 1000
    """The size of F from which the first factor is in float32: there a factorisation in float64 takes 10 ms."""
    rough_residual: float = 1e-3
    """The greatest residual of an answer of that factor, relative to the right-hand side, with which it is kept. One refinement
    then leaves about the square of this."""


class FreeFactor:
    """``follow`` the free variables, then ``solve``."""

    def __init__(self, K: Array, policy: FreeFactorPolicy | None = None) -> None:
        self.K, self.policy = K, policy or FreeFactorPolicy()
        self.factorisations = 0
        self.updates = 0
        self.order = np.empty(0, np.int64)
        self._upper: Array | None = None  # U with U'U = K[order, order] + D
        self._ridge = np.empty(0)
        self._greatest = float(np.abs(np.diagonal(K)).max(initial=0.0))
        self._growth = 1.0
        self._changes = 0
        self.is_rough = False  # whether the factor is from float32
        self._may_be_rough = True

    def follow(self, is_free: Array, ridge: Array) -> bool:
        """Bring the factor up to date with F and D = diag(ridge), given for all variables. False: there is none, as K is not
        finite."""
        gone = np.flatnonzero(~is_free[self.order])
        is_new = is_free.copy()
        is_new[self.order] = False
        new = np.flatnonzero(is_new)
        if self._is_cheap(gone, new, ridge):
            if len(gone) + len(new) > 0:
                self._upper = np.asarray(self._upper, dtype=np.float64)  # what brings it up to date is compiled for float64
            self._drop(gone)
            if self._append(new, ridge):
                return True
            self._growth *= self.policy.jitter_growth
        return self._start(np.flatnonzero(is_free), ridge)

    def solve(self, right: Array) -> Array:
        """(K_FF + D)^-1 of one or more columns, all in the order of ``order``."""
        if not self.is_rough:
            return self._substituted(right)
        rough = self._substituted(right)
        rest = right - self._times(rough)
        if np.linalg.norm(rest) <= self.policy.rough_residual * np.linalg.norm(right):
            return rough + self._substituted(rest)
        self._may_be_rough = False
        self._start(self.order, self._ridge_of_all)
        return self._substituted(right)

    def _substituted(self, right: Array) -> Array:
        assert self._upper is not None
        substitute = spotrs if self._upper.dtype == np.float32 else dpotrs
        return np.asarray(substitute(self._upper.T, right, lower=1)[0], dtype=np.float64)

    def _times(self, x: Array) -> Array:
        """(K_FF + D) x"""
        of_all = np.zeros((len(self.K), *x.shape[1:]))
        of_all[self.order] = x
        return np.asarray((self.K @ of_all)[self.order] + (self._ridge * x.T).T)

    @property
    def _ridge_of_all(self) -> Array:
        ridge = np.zeros(len(self.K))
        ridge[self.order] = self._ridge
        return ridge

    def _is_cheap(self, gone: Array, new: Array, ridge: Array) -> bool:
        n = len(self.order)
        return (
            self._upper is not None
            and n > 0
            and len(gone) <= max(1.0, self.policy.dropped * n)
            and len(new) <= max(1.0, self.policy.appended * n)
            and self._changes + len(gone) + len(new) <= self.policy.most_updates * n
            and np.array_equal(ridge[self.order], self._ridge)
        )

    def _start(self, free: Array, ridge: Array) -> bool:
        self.order, self._ridge, self._changes = free, ridge[free], 0
        self.is_rough = self._may_be_rough and len(free) >= self.policy.rough_from and self._start_roughly(free)
        if self.is_rough:
            return True
        for _ in range(self.policy.jitters):
            self.factorisations += 1
            matrix = np.empty((len(free), len(free)))
            gather(self.K, free, free, matrix)
            self._upper = _factor(matrix, self._ridge + self._jitter(len(free)))
            if self._upper is not None:
                return True
            self._growth *= self.policy.jitter_growth
        return False

    def _start_roughly(self, free: Array) -> bool:
        """Factor in float32, if that can be done without help to the diagonal."""
        self.factorisations += 1
        matrix = np.empty((len(free), len(free)), np.float32)
        gather(self.K, free, free, matrix)
        self._upper = _factor(matrix, self._ridge)
        self._may_be_rough = self._upper is not None
        return self._may_be_rough

    def _jitter(self, n: int) -> float:
        return max(self.policy.jitter * UNIT_ROUNDOFF * n * self._greatest * self._growth, float(np.finfo(np.float64).tiny))

    def _drop(self, gone: Array) -> None:
        if len(gone):
            assert self._upper is not None
            drop_columns(self._upper, gone)
            n = len(self.order) - len(gone)
            self._upper = np.ascontiguousarray(self._upper[:n, :n])
            self.order, self._ridge = np.delete(self.order, gone), np.delete(self._ridge, gone)
            self.updates += len(gone)
            self._changes += len(gone)

    def _append(self, new: Array, ridge: Array) -> bool:
        """Append to the factor by blocks: [[U, W], [0, V]] with U'W = K[order, new] and V'V = K[new, new] + D - W'W."""
        if not len(new):
            return True
        assert self._upper is not None
        n, m = len(self.order), len(new)
        across = dtrtrs(self._upper.T, self.K[np.ix_(self.order, new)], lower=1)[0] if n else np.empty((0, m))
        corner = _factor(self.K[np.ix_(new, new)] - across.T @ across, ridge[new] + self._jitter(n + m))
        if corner is None:
            return False
        upper = np.zeros((n + m, n + m))
        upper[:n, :n], upper[:n, n:], upper[n:, n:] = self._upper, across, corner
        self._upper = upper
        self.order, self._ridge = np.concatenate([self.order, new]), np.concatenate([self._ridge, ridge[new]])
        self.updates += m
        self._changes += m
        return True


def _factor(matrix: Array, ridge: Array) -> Array | None:
    """U of U'U = matrix + diag(ridge), which is overwritten; None if that is not positive definite. What lies below the
    diagonal of U is left as it was."""
    matrix.reshape(-1)[:: len(matrix) + 1] += ridge
    lower, info = (spotrf if matrix.dtype == np.float32 else dpotrf)(matrix.T, lower=1, clean=0, overwrite_a=1)
    return np.ascontiguousarray(lower.T) if info == 0 and np.isfinite(lower[-1, -1]) else None

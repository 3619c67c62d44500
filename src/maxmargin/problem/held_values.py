r"""The whole kernel matrix of few samples, in float64 and by the definition of the kernel.

A solver reads the matrix thousands of times, and the certificate multiplies alpha with it. This module makes the matrix, and no
solver writes to it, so the certificate relies on no code of a solver. An entry is wrong by at most ``kernel.rounding_error``.
So :math:`f_i = \sum_j s_j K_{ij}` is wrong by at most that times :math:`\sum_j |s_j|`, plus the rounding of n products.
"""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem import policy
from maxmargin.problem.kernels import Kernel, Points, dot_products

MULTIPLE = 64
"""The memory has a multiple of this many rows and columns, because the loops of the solvers work on this many at a time."""


class HeldValues(NamedTuple):
    """``padded`` has zeros beyond the first n rows and columns. ``evaluations`` counts the kernel values that were computed. No
    value is wrong by more than ``error``."""

    padded: Array
    n: int
    evaluations: int
    error: float

    @property
    def values(self) -> Array:
        return self.padded[: self.n, : self.n]


def held_values(kernel: Kernel, points: Points) -> HeldValues:
    """Compute the matrix: every value once, for both of its places. A precomputed matrix is copied."""
    n = len(points)
    padded = np.zeros((_rounded(n), _rounded(n)))
    if kernel.is_given:
        matrix = points.matrix
        padded[:n, :n] = matrix.toarray() if sparse.issparse(matrix) else matrix
        return HeldValues(padded, n, 0, 0.0)
    with single_threaded_blas():
        evaluations = _fill_square(kernel, kernel.prepared(points), padded[:n, :n])
    return HeldValues(padded, n, evaluations, kernel.rounding_error(points, points))


def _fill_square(kernel: Kernel, points: Points, out: Array) -> int:
    """Compute the matrix by strips from the diagonal to the right, with their mirror images, and return how many values were
    computed. The user's own function is called once, because a call may take long to begin."""
    n = len(points)
    is_sparse = sparse.issparse(points.matrix)
    rows_a_strip = n if kernel.is_foreign else policy.HELD.sparse_rows_a_strip if is_sparse else policy.HELD.rows_a_strip
    for start in range(0, n, rows_a_strip):
        check_point()
        rows, rest = slice(start, start + rows_a_strip), slice(start, n)
        strip = kernel.quick_block(points[rows], points[rest])
        out[rows, rest] = strip
        out[rest, rows] = strip.T
    return sum(min(rows_a_strip, n - start) * (n - start) for start in range(0, n, rows_a_strip))


def _fill_across(kernel: Kernel, one: Points, other: Points, out: Array, memory: Array) -> None:
    """Compute the two blocks of ``out`` between the first and the second of two classes. They are mirror images of each other.
    ``memory`` holds the dot products."""
    middle, n = len(one), len(one) + len(other)
    across = _products(one, other, memory) if kernel.is_gaussian else kernel.quick_block(one, other)
    if kernel.is_gaussian:
        from maxmargin.problem.kernel_loops import rbf_values

        scale, power = -kernel.gamma / math.log(2.0), np.empty(len(other))  # type: ignore[attr-defined]
        rbf_values(across, one.sqnorms, other.sqnorms, scale, power, power.view(np.int64))
    out[:middle, middle:n] = across
    out[middle:n, :middle] = across.T


def _products(one: Points, other: Points, memory: Array) -> Array:
    """x . z, in that memory where both are dense."""
    if sparse.issparse(one.matrix):
        return np.ascontiguousarray(dot_products(one, other))
    out = memory[: len(one) * len(other)].reshape(len(one), len(other))
    return np.dot(one.matrix, other.matrix.T, out=out)


class ClassValues:
    """The kernel matrices of pairs of classes. The values within a class are computed once, when they are first used, by
    whichever thread is first."""

    def __init__(self, X: Any, kernel: Kernel, codes: Array, n_threads: int = 1) -> None:
        """``codes`` are the classes of the samples: 0, 1, ... ``megabytes`` is the memory of the values within all classes,
        plus the matrix of a pair for each thread."""
        points = kernel.prepared(Points.of(X))
        self._kernel, self._error = kernel, kernel.rounding_error(points, points)
        self._classes = [points[np.flatnonzero(codes == k)] for k in range(int(codes.max()) + 1)]
        self._squares: list[Array | None] = [None] * len(self._classes)
        self._locks = [threading.Lock() for _ in self._classes]
        self._memory = threading.local()
        sizes = np.bincount(codes)
        self.largest = _largest_pair(sizes)
        self.megabytes = _megabytes(sizes, n_threads)

    @classmethod
    def where_it_pays(cls, X: Any, kernel: Kernel, codes: Array, cache_mb: float, n_threads: int) -> ClassValues | None:
        """None where a pair is too large to be held, or there are fewer than three classes, or the values are given."""
        sizes = np.bincount(codes)
        if len(sizes) < 3 or kernel.is_given or _largest_pair(sizes) > policy.HELD.most_samples:
            return None
        return (
            cls(X, kernel, codes, n_threads) if _megabytes(sizes, n_threads) <= policy.HELD.share_of_budget * cache_mb else None
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the values within classes that are computed so far."""
        return sum(square.nbytes for square in self._squares if square is not None)

    def square(self, k: int) -> tuple[Array, int]:
        """The values within a class, and how many of them this call computed."""
        with self._locks[k]:
            known, evaluations = self._squares[k], 0
            if known is None:
                points = self._classes[k]
                known = np.empty((len(points), len(points)))
                evaluations = _fill_square(self._kernel, points, known)
                self._squares[k] = known
            return known, evaluations

    def pair(self, first: int, second: int) -> HeldValues:
        """The matrix of all samples of the first class, then all of the second. It is valid until this thread asks for the next
        pair."""
        (one, n_one), (other, n_other) = self.square(first), self.square(second)
        middle, n = len(one), len(one) + len(other)
        padded, memory = self._matrices(_rounded(n))
        padded[n:], padded[:, n:] = 0.0, 0.0
        padded[:middle, :middle], padded[middle:n, middle:n] = one, other
        _fill_across(self._kernel, self._classes[first], self._classes[second], padded, memory)
        return HeldValues(padded, n, n_one + n_other + len(one) * len(other), self._error)

    def _matrices(self, size: int) -> tuple[Array, Array]:
        """Memory for a matrix of this size and for its dot products. A thread uses the same memory again, because new pages are
        slow."""
        if not hasattr(self._memory, "values"):
            self._memory.values = np.empty(_rounded(self.largest) ** 2)
            self._memory.products = np.empty(self.largest**2 // 4)
        return self._memory.values[: size * size].reshape(size, size), self._memory.products


def _largest_pair(sizes: Array) -> int:
    return int(np.sort(sizes)[-2:].sum())


def _megabytes(sizes: Array, n_threads: int) -> float:
    squares = float(np.square(sizes, dtype=np.float64).sum())
    of_a_pair = 1.25 * _rounded(_largest_pair(sizes)) ** 2  # and a quarter of that for products
    return float(np.dtype(np.float64).itemsize * (squares + n_threads * of_a_pair) / 1e6)


def _rounded(n: int) -> int:
    """The least multiple of MULTIPLE that is not less than n."""
    return -(-n // MULTIPLE) * MULTIPLE

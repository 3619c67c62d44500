r"""The whole kernel matrix of few samples, in float64 and by the definition of the kernel.

A solver reads it thousands of times, and the certificate multiplies alpha with it. The certificate's module makes it, and no
solver writes to it, so that the judge still relies on nothing of the player's. An entry is wrong by at most
``kernel.rounding_error``, so that :math:`f_i = \sum_j s_j K_{ij}` is wrong by at most that times :math:`\sum_j |s_j|`, and by
the rounding of a sum of n products.
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
"""The rows and columns of the memory are a multiple of this: the loops of the solvers go in runs of so many."""


class HeldValues(NamedTuple):
    """``padded`` has zeros beyond the first n rows and columns. ``evaluations`` are the values that had to be computed, and no
    value is wrong by more than ``error``."""

    padded: Array
    n: int
    evaluations: int
    error: float

    @property
    def values(self) -> Array:
        return self.padded[: self.n, : self.n]


def held_values(kernel: Kernel, points: Points) -> HeldValues:
    """Every value is computed once, and is there twice. A matrix that is given is copied."""
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
    """By strips from the diagonal to the right, and their mirror images. How many values were computed. The user's own function
    is called once: it may take long to begin."""
    n = len(points)
    rows_a_strip = n if kernel.is_foreign else policy.HELD.rows_a_strip
    for start in range(0, n, rows_a_strip):
        check_point()
        rows, rest = slice(start, start + rows_a_strip), slice(start, n)
        strip = kernel.quick_block(points[rows], points[rest])
        out[rows, rest] = strip
        out[rest, rows] = strip.T
    return sum(min(rows_a_strip, n - start) * (n - start) for start in range(0, n, rows_a_strip))


def _fill_across(kernel: Kernel, one: Points, other: Points, out: Array, memory: Array) -> None:
    """The two blocks of ``out`` between the first and the second of two classes, each the mirror image of the other. ``memory``
    is for what comes between."""
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
    """The kernel matrices of pairs of classes. The values within a class are made once, when they are first asked for. Several
    threads may ask."""

    def __init__(self, X: Any, kernel: Kernel, codes: Array, n_threads: int = 1) -> None:
        """``codes`` are the classes of the samples: 0, 1, ... ``megabytes`` is what the values of all classes take, and the
        matrix of a pair for each of so many threads."""
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
        """Of the values within classes that there are."""
        return sum(square.nbytes for square in self._squares if square is not None)

    def square(self, k: int) -> tuple[Array, int]:
        """The values within a class, and how many had to be computed for this call."""
        with self._locks[k]:
            known, evaluations = self._squares[k], 0
            if known is None:
                points = self._classes[k]
                known = np.empty((len(points), len(points)))
                evaluations = _fill_square(self._kernel, points, known)
                self._squares[k] = known
            return known, evaluations

    def pair(self, first: int, second: int) -> HeldValues:
        """All samples of the first class, then all of the second, until this thread asks for the next pair."""
        (one, n_one), (other, n_other) = self.square(first), self.square(second)
        middle, n = len(one), len(one) + len(other)
        padded, memory = self._matrices(_rounded(n))
        padded[n:], padded[:, n:] = 0.0, 0.0
        padded[:middle, :middle], padded[middle:n, middle:n] = one, other
        _fill_across(self._kernel, self._classes[first], self._classes[second], padded, memory)
        return HeldValues(padded, n, n_one + n_other + len(one) * len(other), self._error)

    def _matrices(self, size: int) -> tuple[Array, Array]:
        """One of that size and memory for another, which this thread has used before: new pages are slow."""
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

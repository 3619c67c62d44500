r"""The kernel matrix of few samples, in float64 and by the definition of the kernel.

A solver reads the matrix thousands of times, and the certificate multiplies alpha with it. This module and the loops of
``kernel_loops`` make the matrix, and no code of a solver does, so the certificate relies on none. An entry is wrong by at most
``kernel.rounding_error``. So :math:`f_i = \sum_j s_j K_{ij}` is wrong by at most that times :math:`\sum_j |s_j|`, plus the
rounding of n products.

**Rows on demand.** A solver that moves two samples at a time reads the rows of those samples only: on digits 55 of the 360 rows
of a pair of classes. So the rows of the RBF kernel are made when they are first read. When so many are made that a product of
matrices would have made them all in the same time, the rest is made at once.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem import policy
from maxmargin.problem.kernels import Kernel, Points, dot_products

FORMS = ("rbf", "identity", "power", "tanh")
"""The forms of a kernel, at the numbers by which ``kernel_loops`` knows them."""
MULTIPLE = 64
"""The memory has a multiple of this many rows and columns, because the loops of the solvers work on this many at a time."""


NOTHING = np.empty((0, 0))


class Part(NamedTuple):
    """Samples of which rows are made, with a sample in each row of ``samples`` and a feature in each row of ``columns``, and
    their |x|^2. One more feature, the last, is zero for all samples. ``square`` holds the kernel values among them where these
    are known, and is empty where they are not."""

    samples: Array
    columns: Array
    sqnorms: Array
    square: Array

    @classmethod
    def of(cls, points: Points, square: Array) -> Part:
        n, n_features = points.matrix.shape
        samples = np.zeros((n, n_features + 1))
        samples[:, :n_features] = points.matrix
        return cls(samples, np.ascontiguousarray(samples.T), np.array(points.sqnorms), square)

    def joined(self, other: Part) -> Part:
        """The samples of two classes, whose kernel values are not known."""
        samples, sqnorms = np.concatenate([self.samples, other.samples]), np.concatenate([self.sqnorms, other.sqnorms])
        return Part(samples, np.concatenate([self.columns, other.columns], axis=1), sqnorms, NOTHING)


NO_PART = Part(NOTHING, NOTHING, np.empty(0), NOTHING)
"""Where no rows are made."""


class RowFunction(NamedTuple):
    """A kernel as a function of dot products, for the loop that makes rows. ``scale`` is gamma, or -gamma / ln 2 of the RBF
    kernel; ``shift`` is coef0."""

    form: int
    scale: float = 1.0
    shift: float = 0.0
    degree: int = 1

    @property
    def is_gaussian(self) -> bool:
        return self.form == 0

    @classmethod
    def of(cls, kernel: Kernel) -> RowFunction | None:
        """The function of a kernel. None where no loop makes its rows."""
        known = kernel.dot_function
        if known is None or not 1 <= known.degree <= policy.KERNEL.most_factors:
            return None
        scale = -known.gamma / math.log(2.0) if kernel.is_gaussian else known.gamma
        return cls(FORMS.index(known.name), scale, known.coef0, known.degree)


NO_FUNCTION = RowFunction(FORMS.index("rbf"))
"""Where no rows are made."""


class RowsOnDemand(NamedTuple):
    """What a compiled loop needs to read the matrix, and to make a row of it. ``is_there`` has a one for each row that is made.
    The rows of the ``first`` part come before ``middle``; those of the second, if there are two, come after it. ``counts`` are
    the number of rows that were made, and the number from which on no loop makes another. ``power`` is memory for a row, and
    ``bits`` are its bits; ``features`` is memory for the features of a sample that are not zero."""

    values: Array
    is_there: Array
    first: Part
    second: Part
    middle: int
    n: int
    function: RowFunction
    power: Array
    bits: Array
    features: Array
    counts: Array


class ValueBounds(NamedTuple):
    """The values k(x, x), and lengths with |k(x_i, x_j)| <= l_i l_j. A value is wrong by at most ``share`` l_i l_j. Lengths are
    one for a kernel without values above one, and else the roots of k(x, x) by the inequality of Cauchy and Schwarz."""

    diagonal: Array
    lengths: Array
    share: float

    @classmethod
    def of(cls, kernel: Kernel, points: Points) -> ValueBounds | None:
        """The bounds of a kernel. None where it has none of these forms."""
        known = kernel.dot_function
        if known is not None and known.name in ("identity", "power") and kernel.is_positive_semidefinite:
            diagonal = kernel.diagonal(points)
            return cls(diagonal, np.sqrt(diagonal), kernel.share_of_lengths(points))  # type: ignore[attr-defined]
        if kernel.is_gaussian or (known is not None and known.name == "tanh"):
            diagonal = np.ascontiguousarray(kernel.diagonal(points))
            return cls(diagonal, np.ones(len(points)), kernel.rounding_error(points, points))
        return None

    def part(self, chosen: Array) -> ValueBounds:
        return ValueBounds(self.diagonal[chosen], self.lengths[chosen], self.share)

    def joined(self, other: ValueBounds) -> ValueBounds:
        """The bounds of the samples of two classes."""
        diagonal = np.concatenate([self.diagonal, other.diagonal])
        return ValueBounds(diagonal, np.concatenate([self.lengths, other.lengths]), self.share)


class HeldValues:
    """The matrix of n samples, in memory that ends in zeros in both directions. No value is wrong by more than ``error``."""

    def __init__(
        self,
        rows: RowsOnDemand,
        error: float,
        evaluations: int,
        fill: Callable[[], int] | None = None,
        bounds: ValueBounds | None = None,
    ) -> None:
        """``evaluations`` values were computed for these rows, and ``fill`` makes all rows at once; None where they are all
        there."""
        self.rows, self.error, self.n, self.bounds = rows, error, rows.n, bounds
        self._evaluations, self._fill, self._lock = evaluations, fill, threading.Lock()

    @classmethod
    def whole(cls, padded: Array, n: int, error: float, evaluations: int, bounds: ValueBounds | None = None) -> HeldValues:
        return cls(_rows_in(padded, n, NO_PART, NO_PART, n, NO_FUNCTION), error, evaluations, None, bounds)

    @property
    def nbytes(self) -> int:
        return int(self.rows.values.nbytes)

    @property
    def padded(self) -> Array:
        """The whole matrix, with zeros beyond the first n rows and columns. Several threads may ask for it: one of them fills
        it, and the others wait."""
        if self._fill is not None:
            with self._lock:
                self._fill_once()
        return self.rows.values

    def _fill_once(self) -> None:
        if self._fill is not None:
            self._evaluations = self.evaluations + self._fill()
            self.rows.counts[0] = 0
            self.rows.is_there[:] = 1
            self._fill = None  # now, and not before: other threads may read the matrix from here on

    @property
    def values(self) -> Array:
        return self.padded[: self.n, : self.n]

    @property
    def evaluations(self) -> int:
        """How many kernel values were computed."""
        rows = self.rows
        columns = rows.n if not len(rows.first.square) else rows.n // 2  # about half of a row of two parts is known
        return self._evaluations + int(rows.counts[0]) * columns

    @property
    def wants_all(self) -> bool:
        """Whether so many rows are made that it is time to make the others at once."""
        return self._fill is not None and bool(self.rows.counts[0] >= self.rows.counts[1])

    def with_rows(self, chosen: Array) -> Array:
        """The memory of the matrix, in which these rows are there."""
        if self._fill is None or self.rows.is_there[chosen].all():
            return self.rows.values
        if len(chosen) > self.rows.counts[1]:
            return self.padded
        from maxmargin.problem.kernel_loops import make_bent_rows, make_rows

        (make_rows if self.rows.function.is_gaussian else make_bent_rows)(self.rows, chosen)
        return self.rows.values


def _rows_in(padded: Array, n: int, first: Part, second: Part, middle: int, function: RowFunction) -> RowsOnDemand:
    """Rows in this memory, none of which is there yet, but for those that hold zeros only."""
    is_there, power = np.zeros(len(padded), np.uint8), np.empty(len(padded))
    is_there[n if first.columns.size else 0 :] = 1
    if first.columns.size:
        padded[0] = 0.0  # a loop adds zero times this row before it has chosen one, and new memory may hold infinities
    features, counts = np.empty(len(first.columns) + 3, np.int64), np.array([0, int(policy.HELD.most_rows * n)])
    return RowsOnDemand(padded, is_there, first, second, middle, n, function, power, power.view(np.int64), features, counts)


def _waiting(kernel: Kernel, points: Points, n_read: int) -> RowFunction | None:
    """The function by which rows are made on demand: for kernels of dot products between dense samples, where a cache holds
    the ``n_read`` samples that are read for a row. None where all rows are made at once."""
    n_bytes = n_read * points.matrix.shape[1] * np.dtype(np.float64).itemsize
    if sparse.issparse(points.matrix) or n_bytes > policy.HELD.cache_bytes:
        return None
    return RowFunction.of(kernel)


def _is_rbf_of_dots(kernel: Kernel) -> bool:
    return kernel.is_gaussian and kernel.dot_function is not None


def _log2_scale(kernel: Kernel) -> float:
    return -kernel.gamma / math.log(2.0)  # type: ignore[attr-defined]


def held_values(kernel: Kernel, points: Points, is_whole: bool = False) -> HeldValues:
    """The matrix. Each value is computed once, for both of its places, unless rows are made on demand. A precomputed matrix is
    copied. ``is_whole``: the solver reads all rows, so they are all made now."""
    n = len(points)
    if kernel.is_given:
        padded, matrix = np.zeros((padded_size(n), padded_size(n))), points.matrix
        padded[:n, :n] = matrix.toarray() if sparse.issparse(matrix) else matrix
        return HeldValues.whole(padded, n, 0.0, 0)
    error, prepared = kernel.rounding_error(points, points), kernel.prepared(points)
    bounds, function = ValueBounds.of(kernel, prepared), None if is_whole else _waiting(kernel, prepared, n)
    padded = np.empty((padded_size(n), padded_size(n)))

    def fill() -> int:
        padded[n:], padded[:, n:] = 0.0, 0.0
        with single_threaded_blas():
            return fill_square(kernel, prepared, padded[:n, :n])

    if function is None:
        return HeldValues.whole(padded, n, error, fill(), bounds)
    part = Part.of(prepared, NOTHING)
    return HeldValues(_rows_in(padded, n, part, part, n, function), error, 0, fill, bounds)


def fill_square(kernel: Kernel, points: Points, out: Array) -> int:
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
    across = _products(one, other, memory) if _is_rbf_of_dots(kernel) else kernel.quick_block(one, other)
    if _is_rbf_of_dots(kernel):
        from maxmargin.problem.kernel_loops import rbf_values

        power = np.empty(len(other))
        rbf_values(across, one.sqnorms, other.sqnorms, _log2_scale(kernel), power, power.view(np.int64))
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
        self.kernel, self._error, self.points, self.codes = kernel, kernel.rounding_error(points, points), points, codes
        self.classes = [points[np.flatnonzero(codes == k)] for k in range(int(codes.max()) + 1)]
        self._squares: list[Array | None] = [None] * len(self.classes)
        self._parts: list[Part | None] = [None] * len(self.classes)
        self._locks = [threading.Lock() for _ in self.classes]
        self._memory = threading.local()
        sizes = np.bincount(codes)
        self.largest = _largest_pair(sizes)
        self.function = _waiting(kernel, points, int(sizes.max()))
        bounds = ValueBounds.of(kernel, points)
        self.bounds = None if bounds is None else [bounds.part(codes == k) for k in range(len(sizes))]
        self.megabytes = _megabytes(sizes, n_threads)

    @classmethod
    def where_it_pays(cls, X: Any, kernel: Kernel, codes: Array, cache_mb: float, n_threads: int) -> ClassValues | None:
        """The values; None where a pair is too large to be held, or there are fewer than three classes, or the values are
        given."""
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
                points = self.classes[k]
                known = np.empty((len(points), len(points)))
                evaluations = fill_square(self.kernel, points, known)
                self._squares[k] = known
            return known, evaluations

    def pair(self, first: int, second: int, is_whole: bool = False) -> HeldValues:
        """The matrix of all samples of the first class, then all of the second. It is valid until this thread asks for the next
        pair. ``is_whole``: the solver reads all rows, so they are all made now."""
        middle, n = len(self.classes[first]), len(self.classes[first]) + len(self.classes[second])
        bounds = None if self.bounds is None else self.bounds[first].joined(self.bounds[second])
        padded, fill = self._matrices(padded_size(n))[0], partial(self._fill, first, second)
        if is_whole or self.function is None:
            return HeldValues.whole(padded, n, self._error, fill(), bounds)
        if len(self.classes) <= policy.HELD.few_classes:
            part = Part.joined(self._part(first), self._part(second))
            return HeldValues(_rows_in(padded, n, part, part, n, self.function), self._error, 0, fill, bounds)
        evaluations = self.square(first)[1] + self.square(second)[1]
        rows = _rows_in(padded, n, self._part(first), self._part(second), middle, self.function)
        return HeldValues(rows, self._error, evaluations, fill, bounds)

    def _fill(self, first: int, second: int) -> int:
        """Compute the matrix of a pair, and return how many values were computed."""
        (within, n_one), (within_other, n_other) = self.square(first), self.square(second)
        middle, n = len(within), len(within) + len(within_other)
        padded, memory = self._matrices(padded_size(n))
        padded[n:], padded[:, n:] = 0.0, 0.0
        padded[:middle, :middle], padded[middle:n, middle:n] = within, within_other
        _fill_across(self.kernel, self.classes[first], self.classes[second], padded, memory)
        return middle * (n - middle) + n_one + n_other

    def _part(self, k: int) -> Part:
        known = self._parts[k]
        if known is None:
            square = NOTHING if len(self.classes) <= policy.HELD.few_classes else self.square(k)[0]
            known = self._parts[k] = Part.of(self.classes[k], square)
        return known

    def _matrices(self, size: int) -> tuple[Array, Array]:
        """Memory for a matrix of this size and for its dot products. A thread uses the same memory again, because new pages are
        slow."""
        if not hasattr(self._memory, "values"):
            self._memory.values = np.empty(padded_size(self.largest) ** 2)
            self._memory.products = np.empty(self.largest**2 // 4)
        return self._memory.values[: size * size].reshape(size, size), self._memory.products


def _largest_pair(sizes: Array) -> int:
    return int(np.sort(sizes)[-2:].sum())


def _megabytes(sizes: Array, n_threads: int) -> float:
    squares = float(np.square(sizes, dtype=np.float64).sum())
    of_a_pair = 1.25 * padded_size(_largest_pair(sizes)) ** 2  # and a quarter of that for products
    return float(np.dtype(np.float64).itemsize * (squares + n_threads * of_a_pair) / 1e6)


def padded_size(n: int) -> int:
    """The least multiple of MULTIPLE that is not less than n."""
    return -(-n // MULTIPLE) * MULTIPLE

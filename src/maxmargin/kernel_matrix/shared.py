r"""Kernel values that the problems of all pairs of classes share.

With the samples in the order of their classes, the kernel matrix of a pair (a, b) is

.. math:: \begin{pmatrix} K_{aa} & K_{ab} \\ K_{ab}^\top & K_{bb} \end{pmatrix} ,

and of m classes the square :math:`K_{aa}` belongs to m - 1 pairs, :math:`K_{ab}` to one. So what is worth keeping for others is
the m squares alone, an m-th of the whole matrix; a pair makes its :math:`K_{ab}`, in memory that the thread used for the pair
before, and reads the rest. Every kernel value in float32 is computed once, where pairs on their own compute each block of a
working set and each row anew: pairs are small, and their working sets are most of them.

Nothing of this reaches a certificate, which computes what it needs itself, nor the float64 values of solvers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import Crew
from maxmargin.kernel_matrix.blocks import KernelBlocks, fill, mirrored
from maxmargin.kernel_matrix.rows import MEGABYTE, KernelRows
from maxmargin.kernel_matrix.tile_loops import add_scaled_rows, gather
from maxmargin.problem.held_values import MULTIPLE
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Kernel, Precomputed

SHARE_OF_BUDGET = 0.5
"""Of the budget for kernel values, what is shared and what each thread needs for a pair may take; the rest is for solvers."""
MOST_SAMPLES, MOST_IF_CHEAP, CHEAP_NS = 3072, 1536, 4.0
"""Of a larger pair a solver asks for so few rows that to compute its whole matrix takes longer than sharing saves. Where a
value is computed about as fast as it is written and read, that is so earlier."""
VALUE = np.dtype(np.float32).itemsize


class Sizes(NamedTuple):
    """How many samples the classes have, and how many a pair may have that shares."""

    classes: Array
    most: int = MOST_SAMPLES

    def may_share(self, first: int, second: int) -> bool:
        return bool(self.classes[first] + self.classes[second] <= self.most)

    @property
    def sharing(self) -> Array:
        """The sizes of those classes that share with at least the smallest of the others, the least first."""
        ordered = np.sort(self.classes)
        least_others = np.where(np.arange(len(ordered)) == 0, ordered[1], ordered[0])
        return ordered[ordered + least_others <= self.most]

    @property
    def largest(self) -> int:
        """No pair that shares has more samples than this."""
        return int(min(self.most, self.sharing[-2:].sum()))

    def megabytes(self, n_threads: int) -> float:
        """For the squares of all classes that share, and for each thread the matrix of a pair."""
        squares = np.square(self.sharing, dtype=np.float64).sum()
        return float(VALUE * (squares + n_threads * padded(self.largest) ** 2) / MEGABYTE)


class SharedValues:
    """The squares K_aa of all classes, each computed when it is first asked for. Several threads may ask.

    ``megabytes`` is the most that they and the matrices of pairs, one for each thread, can take."""

    def __init__(self, X: Any, kernel: Kernel, codes: Array, n_threads: int = 1) -> None:
        """``codes`` are the classes of the samples: 0, 1, ..."""
        n = X.shape[0]
        everyone = KernelProblem(Rows.from_matrix(X, check=False), np.ones(n, np.int8), np.ones(n), kernel)
        self._blocks = KernelBlocks(everyone, np.float32)
        self.members = [np.flatnonzero(codes == k) for k in range(int(codes.max()) + 1)]
        self.sizes = Sizes(np.bincount(codes), MOST_IF_CHEAP if self._blocks.ns_a_value < CHEAP_NS else MOST_SAMPLES)
        self.megabytes = self.sizes.megabytes(n_threads)
        self._squares: list[Array | None] = [None] * len(self.members)
        self._locks = [threading.Lock() for _ in self.members]
        self._memory = threading.local()

    @classmethod
    def where_it_pays(cls, X: Any, kernel: Kernel, codes: Array, cache_mb: float, n_threads: int) -> SharedValues | None:
        """None where the values are given, or fewer than three classes share, or it would take too much of the budget."""
        if isinstance(kernel, Precomputed) or not _is_worth_it(Sizes(np.bincount(codes)), cache_mb, n_threads):
            return None
        shared = cls(X, kernel, codes, n_threads)
        return shared if _is_worth_it(shared.sizes, cache_mb, n_threads) else None

    @property
    def nbytes(self) -> int:
        """Of the squares that there are."""
        return sum(square.nbytes for square in self._squares if square is not None)

    def square(self, k: int) -> tuple[Array, int]:
        """K_kk, and how many of its values had to be computed for this call."""
        with self._locks[k]:
            known = self._squares[k]
            if known is not None:
                return known, 0
            samples = self.members[k]
            values = np.empty((len(samples), len(samples)), np.float32)
            evaluations = fill(self._blocks, samples, samples, mirrored(values), is_square=True)
            self._squares[k] = values
            return values, evaluations

    def pair(self, first: int, second: int) -> tuple[Array, int]:
        """The kernel matrix of a pair, with zeros to a multiple of MULTIPLE in both directions, until this thread asks for
        that of
        the next pair; and how many values had to be computed."""
        (one, n_one), (other, n_other) = self.square(first), self.square(second)
        middle, n = len(one), len(one) + len(other)
        values = self._matrix(padded(n))
        values[:middle, :middle], values[middle:n, middle:n] = one, other
        values[n:], values[:, n:] = 0.0, 0.0

        def consume(tile: Array, row: int, column: int) -> None:
            rows, columns = slice(row, row + tile.shape[0]), slice(middle + column, middle + column + tile.shape[1])
            values[rows, columns], values[columns, rows] = tile, tile.T

        return values, n_one + n_other + fill(self._blocks, self.members[first], self.members[second], consume)

    def _matrix(self, size: int) -> Array:
        """In the memory that this thread has used before: new pages are slow."""
        if not hasattr(self._memory, "values"):
            self._memory.values = np.empty(padded(self.sizes.largest) ** 2, np.float32)
        memory: Array = self._memory.values
        return memory[: size * size].reshape(size, size)


def _is_worth_it(sizes: Sizes, cache_mb: float, n_threads: int) -> bool:
    if len(sizes.classes) < 3 or len(sizes.sharing) < 3:
        return False
    return sizes.megabytes(n_threads) <= SHARE_OF_BUDGET * cache_mb


@dataclass(frozen=True, eq=False)
class PairProblem(KernelProblem):
    """The problem of two classes: all samples of the first, then all of the second, in the order of ``shared.members``."""

    shared: SharedValues = field(kw_only=True)
    first: int = field(kw_only=True)
    second: int = field(kw_only=True)

    @classmethod
    def of(cls, problem: KernelProblem, shared: SharedValues, first: int, second: int) -> PairProblem:
        """The same problem, and where its kernel values can be had."""
        settings = problem.rows, problem.y, problem.C, problem.kernel, problem.has_offset
        return cls(*settings, shared=shared, first=first, second=second)


class HeldRows:
    """Blocks and sums of rows of a kernel matrix that is held whole, in float32, ``padded`` with zeros to a multiple of
    MULTIPLE.
    They take the place of :class:`KernelRows`."""

    dtype = np.dtype(np.float32)

    def __init__(self, padded: Array, kernel_evaluations: int) -> None:
        self.padded, self.kernel_evaluations = padded, kernel_evaluations

    @classmethod
    def of_pair(cls, problem: PairProblem) -> HeldRows:
        return cls(*problem.shared.pair(problem.first, problem.second))

    @classmethod
    def of(cls, problem: KernelProblem) -> HeldRows:
        """Every value is computed once, and is there twice."""
        n, everyone = problem.n_samples, np.arange(problem.n_samples)
        values = np.empty((padded(n), padded(n)), cls.dtype)
        values[n:], values[:, n:] = 0.0, 0.0
        return cls(values, fill(KernelBlocks(problem, cls.dtype), everyone, everyone, mirrored(values), is_square=True))

    def block(self, chosen: Array, among: Array, out: Array | None = None) -> Array:
        """k(x_i, x_j) for the chosen i and the j among which, into the first rows and columns of ``out`` if given."""
        out = np.empty((len(chosen), len(among)), self.dtype) if out is None else out
        gather(self.padded, chosen, among, out)
        return out

    def add_to(self, sums: Array, chosen: Array, scales: Array) -> None:
        """sums += sum_k scales_k K[chosen_k, :], in float64."""
        crew = Crew(len(chosen) * len(sums))
        crew.share(len(sums), lambda k, start, stop: add_scaled_rows(self.padded, chosen, scales, start, stop, sums, 0))


def padded(n: int) -> int:
    """The least multiple of MULTIPLE that is not less."""
    return -(-n // MULTIPLE) * MULTIPLE


def kernel_rows(problem: KernelProblem, dtype: Any, cache_mb: float) -> KernelRows | HeldRows:
    """Shared if there is something to share, and float32 will do; else the problem's own."""
    if isinstance(problem, PairProblem) and np.dtype(dtype) == HeldRows.dtype:
        return HeldRows.of_pair(problem)
    return KernelRows(problem, dtype, cache_mb)


def held_megabytes(n: int) -> float:
    """What :class:`HeldRows` of so many samples take."""
    return float(VALUE * padded(n) ** 2 / MEGABYTE)

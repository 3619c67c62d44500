r"""Kernel values that the problems of all pairs of classes share.

With the samples in the order of their classes, the kernel matrix of a pair (a, b) is

.. math:: \begin{pmatrix} K_{aa} & K_{ab} \\ K_{ab}^\top & K_{bb} \end{pmatrix} ,

and with m classes the square :math:`K_{aa}` belongs to m - 1 pairs, :math:`K_{ab}` to one. So only the m squares are worth
sharing, an m-th of the whole matrix. A pair computes its :math:`K_{ab}`, in memory that the thread used for the pair before,
and reads the squares. Every kernel value in float32 is computed once. Pairs on their own would compute each block of a working
set and each row anew: a pair is small, and a working set is most of it.

No certificate reads these values: it computes its own. Solvers that ask for float64 compute their own, too."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array, Rows
from maxmargin.kernel_matrix.matrix import KernelMatrix, padded
from maxmargin.kernel_matrix.rows import MEGABYTE
from maxmargin.kernel_matrix.tiles import Tiles, fill, mirrored
from maxmargin.problem.kernels import Kernel, Points

VALUES = np.dtype(np.float32)
"""The element type of shared values."""


@dataclass(frozen=True)
class SharingPolicy:
    """When pairs of classes share kernel values."""

    share_of_budget: float = 0.5
    """The share of the budget for kernel values that the squares, and the matrix of a pair for each thread, may take. The rest
    is for solvers."""
    most_samples: int = 3072
    """Samples of the largest pair that shares. Of a larger pair a solver asks for so few rows that computing its whole matrix
    takes longer than sharing saves."""
    most_if_cheap: int = 1536
    """The same where values are cheap: computed about as fast as they are written and read."""
    cheap_ns: float = 4.0
    """Nanoseconds below which a value is cheap."""


class Sizes(NamedTuple):
    """How many samples the classes have, and how many a pair may have that shares."""

    classes: Array
    most: int = SharingPolicy().most_samples

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
        """Megabytes for the squares of all classes that share, and for the matrix of a pair in each thread."""
        squares = np.square(self.sharing, dtype=np.float64).sum()
        return float(VALUES.itemsize * (squares + n_threads * padded(self.largest) ** 2) / MEGABYTE)

    def are_worth_it(self, budget_mb: float, n_threads: int) -> bool:
        """Whether at least three classes share, and what they share fits in the budget."""
        has_three = len(self.classes) >= 3 and len(self.sharing) >= 3
        return has_three and self.megabytes(n_threads) <= budget_mb


class SharedValues:
    """The squares K_aa of all classes, each computed when it is first asked for. Several threads may ask.

    ``codes`` are the classes of the samples: 0, 1, ...; ``megabytes`` is the most that the squares and the matrices of pairs,
    one for each thread, can take."""

    def __init__(self, kernel: Kernel, X: Any, codes: Array, n_threads: int = 1, policy: SharingPolicy | None = None) -> None:
        policy = policy or SharingPolicy()
        self.kernel = kernel
        self._tiles = Tiles(kernel, Points.of(Rows.from_matrix(X, check=False).matrix), VALUES)
        self.members = [np.flatnonzero(codes == k) for k in range(int(codes.max()) + 1)]
        most = policy.most_if_cheap if self._tiles.ns_a_value < policy.cheap_ns else policy.most_samples
        self.sizes = Sizes(np.bincount(codes), most)
        self.megabytes = self.sizes.megabytes(n_threads)
        self._squares: list[Array | None] = [None] * len(self.members)
        self._locks = [threading.Lock() for _ in self.members]
        self._memory = threading.local()

    @classmethod
    def where_it_pays(cls, kernel: Kernel, X: Any, codes: Array, cache_mb: float, n_threads: int) -> SharedValues | None:
        """The shared values; None where the values are given, or fewer than three classes share, or it would take too much of
        the budget."""
        policy = SharingPolicy()
        budget_mb = policy.share_of_budget * cache_mb
        if kernel.is_given or not Sizes(np.bincount(codes), policy.most_samples).are_worth_it(budget_mb, n_threads):
            return None
        shared = cls(kernel, X, codes, n_threads, policy)
        return shared if shared.sizes.are_worth_it(budget_mb, n_threads) else None

    @property
    def nbytes(self) -> int:
        """Bytes of the squares that are computed so far."""
        return sum(square.nbytes for square in self._squares if square is not None)

    def square(self, k: int) -> tuple[Array, int]:
        """K_kk, and the number of its values that this call has computed."""
        with self._locks[k]:
            known = self._squares[k]
            if known is not None:
                return known, 0
            samples = self.members[k]
            values = np.empty((len(samples), len(samples)), VALUES)
            evaluations = fill(self._tiles, samples, samples, mirrored(values), is_square=True)
            self._squares[k] = values
            return values, evaluations

    def pair(self, first: int, second: int) -> tuple[Array, int]:
        """The kernel matrix of a pair, with zeros to a multiple of MULTIPLE in both directions, and the number of values that
        this call has computed. All samples of the first class come before those of the second. The matrix is valid until this
        thread asks for that of the next pair."""
        (one, n_one), (other, n_other) = self.square(first), self.square(second)
        middle, n = len(one), len(one) + len(other)
        values = self._matrix(padded(n))
        values[:middle, :middle], values[middle:n, middle:n] = one, other
        values[n:], values[:, n:] = 0.0, 0.0

        def consume(tile: Array, row: int, column: int) -> None:
            rows, columns = slice(row, row + tile.shape[0]), slice(middle + column, middle + column + tile.shape[1])
            values[rows, columns], values[columns, rows] = tile, tile.T

        return values, n_one + n_other + fill(self._tiles, self.members[first], self.members[second], consume)

    def _matrix(self, size: int) -> Array:
        """A matrix in the memory that this thread has used before: new pages are slow."""
        if not hasattr(self._memory, "values"):
            self._memory.values = np.empty(padded(self.sizes.largest) ** 2, VALUES)
        memory: Array = self._memory.values
        return memory[: size * size].reshape(size, size)


@dataclass(frozen=True, eq=False)
class PairValues:
    """The ``fast_values`` of the problem of two classes, whose samples are ``points``. They are made when its solve begins, in
    the memory of the thread that solves it."""

    points: Points
    shared: SharedValues
    first: int
    second: int

    @property
    def dtype(self) -> Any:
        return VALUES

    def for_one_solve(self) -> KernelMatrix:
        return KernelMatrix.of_values(self.shared.kernel, self.points, *self.shared.pair(self.first, self.second))

"""KernelMatrix: the kernel values of some points, computed when they are asked for, and kept within a budget.

A kernel matrix belongs to a kernel and points, and to no problem: it knows neither labels nor costs. It may outlive a fit, so
that the next C, or another fold, finds the values that the fit before has computed:

    everyone = KernelMatrix(kernel, points, np.float32, cache_mb=500.0)
    everyone.hold()                              # every value, computed once
    KernelProblem(..., fast_values=everyone)                         # the same points with another C
    KernelProblem(..., fast_values=everyone.part(fold))              # some of the points

Values are computed in tiles on all cores (``tiles``). Rows that were asked for often enough are kept (``rows``), or the whole
matrix is held. A certificate never reads these values.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import Crew, single_threaded_blas
from maxmargin.kernel_matrix.rows import MEGABYTE, RowCache
from maxmargin.kernel_matrix.tile_loops import add_scaled_rows, copy_rows, gather
from maxmargin.kernel_matrix.tiles import Side, Span, TilePolicy, Tiles, fill, mirrored
from maxmargin.problem.held_values import MULTIPLE
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Kernel, Points


@dataclass(frozen=True)
class MatrixPolicy:
    """How the values of a kernel matrix are computed and kept."""

    rows_a_tile: int = 512
    """Rows of a tile, where rows are computed and not a whole matrix."""
    columns_a_tile: int = 1024
    """Columns of such a tile: in float32 it takes two megabytes."""
    rows_a_sum: int = 4096
    """Rows whose sums are made at a time, without a tile. With 1,024 columns that is 2 to 5 ms between two check points."""
    ns_a_new_byte: float = 1.0
    """Nanoseconds to touch a byte of memory for the first time. Measured: 0.25 to 3 on virtual machines."""
    tiles: TilePolicy = field(default_factory=TilePolicy)
    """How tiles are made."""


Consumer = Callable[[Array, int], None]
"""A function that takes a tile of kernel values and the number of its first column."""


@dataclass(eq=False)
class KeptValues:
    """The values that a kernel matrix has kept: all of them, in a matrix with zeros to a multiple of MULTIPLE in both
    directions, or some rows."""

    whole: Array | None = None
    cache: RowCache | None = None


class KernelMatrix:
    """k(x_i, x_j) for all points x, in ``dtype``. ``cache_mb`` is the number of megabytes that rows may take.

    ``kernel_evaluations`` counts the values that were computed; values read from memory do not count. Several threads may read
    a matrix that is held. A matrix that keeps rows belongs to one thread.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Points,
        dtype: Any = np.float32,
        *,
        cache_mb: float = 0.0,
        policy: MatrixPolicy | None = None,
    ) -> None:
        if not cache_mb >= 0.0:
            raise ValueError(f"cache_mb must be a number of megabytes >= 0; got {cache_mb!r}.")
        self.kernel, self.points, self.dtype = kernel, points, np.dtype(dtype)
        self.cache_mb, self.policy = cache_mb, policy or MatrixPolicy()
        self.kernel_evaluations = 0
        self._kept = KeptValues()

    @classmethod
    def of_values(cls, kernel: Kernel, points: Points, whole: Array, kernel_evaluations: int) -> KernelMatrix:
        """A matrix that is held already, padded with zeros, and the number of its values that were computed for it."""
        matrix = cls(kernel, points, whole.dtype)
        matrix._kept.whole, matrix.kernel_evaluations = whole, kernel_evaluations
        return matrix

    @classmethod
    def rounded(cls, kernel: Kernel, points: Points, memory: Array | None = None) -> KernelMatrix:
        """A held matrix in float32 whose values are computed in float64. A distance computed in float32 is wrong in its last
        digits, and the RBF value by gamma times that error. ``memory`` is the ``whole`` of another matrix of equal size that is
        no longer needed: reusing memory is faster than taking new pages."""
        n, tiles = len(points), Tiles(kernel, points, np.float64)
        values = zeros_around(n, np.float32) if memory is None else memory
        evaluations = fill(tiles, np.arange(n), np.arange(n), mirrored(values), is_square=True)
        return cls.of_values(kernel, points, values, evaluations)

    def for_one_solve(self) -> KernelMatrix:
        """The same matrix, with the values that are kept, and a count of evaluations that begins at zero."""
        again = KernelMatrix(self.kernel, self.points, self.dtype, cache_mb=self.cache_mb, policy=self.policy)
        again.__dict__["tiles"], again._kept = self.tiles, self._kept
        return again

    def part(self, samples: Array) -> KernelMatrix:
        """The matrix of some of the points, in this order. Values of a matrix that is held are copied, and not computed
        again."""
        points = self.kernel.part(self.points, samples)
        part = KernelMatrix(self.kernel, points, self.dtype, cache_mb=self.cache_mb, policy=self.policy)
        if self.whole is not None:
            part._kept.whole = zeros_around(len(samples), self.dtype)
            gather(self.whole, samples, samples, part._kept.whole)
        return part

    @cached_property
    def tiles(self) -> Tiles:
        return Tiles(self.kernel, self.points, self.dtype, self.policy.tiles)

    @property
    def n_samples(self) -> int:
        return len(self.points)

    @property
    def whole(self) -> Array | None:
        """The matrix with zeros to a multiple of MULTIPLE in both directions, where it is held."""
        return self._kept.whole

    def hold(self) -> None:
        """Compute every value once, and keep it. Rows that were kept before are dropped."""
        if self.whole is None:
            values, everyone = zeros_around(self.n_samples, self.dtype), np.arange(self.n_samples)
            self.kernel_evaluations += fill(self.tiles, everyone, everyone, mirrored(values), is_square=True)
            self._kept.whole, self._kept.cache = values, None

    def forget(self) -> None:
        """Free the rows and the converted copy of X. Both are made again when they are needed."""
        self._kept.cache = None
        self.__dict__.pop("tiles", None)

    @property
    def megabytes_to_hold(self) -> float:
        return float(self.dtype.itemsize * padded(self.n_samples) ** 2 / MEGABYTE)

    @property
    def nanoseconds_to_hold(self) -> float:
        """Estimated nanoseconds on one core to compute half of the matrix and to write all of it to new memory."""
        a_new_value = self.policy.ns_a_new_byte * self.dtype.itemsize
        return self.n_samples**2 * (0.5 * self.tiles.ns_a_value + a_new_value)

    def nanoseconds(self, ahead: int) -> float:
        """Estimated nanoseconds on one core for the values computed so far, and ``ahead`` more."""
        return (self.kernel_evaluations + ahead) * self.tiles.ns_a_value

    def block(self, chosen: Array, among: Array | None = None, out: Array | None = None) -> Array:
        """k(x_i, x_j) for the chosen i, and for all j or those among which, into the first rows and columns of ``out`` if
        given."""
        n_columns = self.n_samples if among is None else len(among)
        block = np.empty((len(chosen), n_columns), self.dtype) if out is None else out
        if self.whole is not None:
            gather(self.whole, chosen, np.arange(n_columns) if among is None else among, block)
            return block
        other = self.tiles.everyone if among is None else self.tiles.right(among)
        for first in range(0, len(chosen), self.policy.rows_a_tile):
            part = chosen[first : first + self.policy.rows_a_tile]
            self._put(self.tiles.left(part), other, block[first : first + len(part)])
        return block

    def _put(self, one: Side, other: Side, rows: Array) -> None:
        """All values of the one side with the other, into the first columns of the rows."""
        if self.tiles.makes_sums(one, other) and rows.flags.c_contiguous:
            self._spans(one, other, lambda span: self.tiles.put(one, other, span, rows))
        else:
            self._tiles(one, other, _copier(rows))

    def square(self, chosen: Array) -> Array:
        """k(x_i, x_j) for the chosen i and j, each value computed once."""
        if self.whole is not None:
            return self.block(chosen, chosen)
        values = np.empty((len(chosen), len(chosen)), self.dtype)
        self.kernel_evaluations += fill(self.tiles, chosen, chosen, mirrored(values), is_square=True)
        return values

    def row(self, i: int) -> Array:
        """The i-th row, from the cache or into it. The next call of a method may overwrite it."""
        if self.whole is not None:
            return self.whole[i, : self.n_samples]
        one = np.array([i])
        place = int(self._cache.find(one)[0])
        if place < 0:
            place = int(self._cache.make_room(one, at_once=True)[0])
            row = self._cache.rows[place] if place >= 0 else np.empty(self.n_samples, self.dtype)
            self._tiles(self.tiles.left(one), self.tiles.everyone, _copier(row[None, :]))
            return row
        return self._cache.rows[place]

    def add_to(self, sums: Array, chosen: Array, scales: Array) -> None:
        """sums += sum_k scales_k K[chosen_k, :], in float64. No point may be chosen twice."""
        if self.whole is not None:
            _add_rows(self.whole, chosen, scales, sums)
            return
        places = self._cache.find(chosen)
        is_here = places >= 0
        if is_here.any():
            _add_rows(self._cache.rows, places[is_here], scales[is_here], sums)
        missing, missing_scales = chosen[~is_here], scales[~is_here]
        places = self._cache.make_room(missing)
        is_kept = places >= 0
        self._add(sums, self.tiles.everyone, missing[~is_kept], missing_scales[~is_kept])
        self._add_and_keep(sums, missing[is_kept], missing_scales[is_kept], places[is_kept])

    def sums_at(self, places: Array, chosen: Array, scales: Array) -> Array:
        """sum_k scales_k K[chosen_k, i] for the points i in ``places`` alone. No row is kept, or looked for in the cache."""
        if self.whole is not None:
            return np.asarray(self.block(places, chosen) @ scales)
        sums = np.zeros(len(places))
        self._add(sums, self.tiles.right(places), chosen, scales)
        return sums

    def _add(self, sums: Array, other: Side, chosen: Array, scales: Array) -> None:
        """Add the rows of the chosen points, none of which is kept."""
        for first in range(0, len(chosen), self.policy.rows_a_sum):
            part = slice(first, first + self.policy.rows_a_sum)
            one = self.tiles.left(chosen[part])
            if self.tiles.makes_sums(one, other):
                self._spans(one, other, _summer(self.tiles, one, other, scales[part], sums))
            else:
                self._add_by_tiles(sums, other, chosen[part], scales[part])

    def _add_by_tiles(self, sums: Array, other: Side, chosen: Array, scales: Array) -> None:
        for first in range(0, len(chosen), self.policy.rows_a_tile):
            part = slice(first, first + self.policy.rows_a_tile)
            self._tiles(self.tiles.left(chosen[part]), other, _adder(sums, scales[part]))

    def _add_and_keep(self, sums: Array, chosen: Array, scales: Array, places: Array) -> None:
        rows, everyone = self._cache.rows, self.tiles.everyone
        for first in range(0, len(chosen), self.policy.rows_a_tile):
            part = slice(first, first + self.policy.rows_a_tile)
            self._tiles(self.tiles.left(chosen[part]), everyone, _adder(sums, scales[part], rows, places[part]))

    @property
    def _cache(self) -> RowCache:
        if self._kept.cache is None:
            asks = math.ceil(self.policy.ns_a_new_byte * self.dtype.itemsize / self.tiles.ns_a_value)
            self._kept.cache = RowCache(self.n_samples, self.dtype, self.cache_mb, asks)
        return self._kept.cache

    def _tiles(self, one: Side, other: Side, consume: Consumer) -> None:
        """Every tile of the rows of the one side, on all cores."""
        tiles, m, width = self.tiles, one.n_samples, self.policy.columns_a_tile
        memory = threading.local()

        def tile_of(span: Span) -> None:
            if not hasattr(memory, "values"):
                memory.values = np.empty(m * min(width, other.n_samples), self.dtype)
            tile = memory.values[: m * (span.stop - span.start)].reshape(m, span.stop - span.start)
            tiles.tile(one, other, span, tile)
            consume(tile, span.start)

        self._spans(one, other, tile_of)

    def _spans(self, one: Side, other: Side, job: Callable[[Span], None]) -> None:
        """``job`` for every span of columns, on all cores."""
        n, m, width = other.n_samples, one.n_samples, self.policy.columns_a_tile
        self.kernel_evaluations += n * m

        def work(k: int, start: int, stop: int) -> None:
            for first in range(start, stop, width):
                check_point()
                job(Span(first, min(stop, first + width)))

        with single_threaded_blas():
            self.tiles.crew(n * m).share(n, work)


def matrix_of(problem: KernelProblem, dtype: Any, cache_mb: float) -> KernelMatrix:
    """The kernel matrix that comes with the problem, if it has the element type asked for; else a new one within a budget."""
    source = problem.fast_values
    if source is not None and source.dtype == np.dtype(dtype):
        matrix: KernelMatrix = source.for_one_solve()
        return matrix
    return KernelMatrix(problem.kernel, problem.points, dtype, cache_mb=cache_mb)


def padded(n: int) -> int:
    """The least multiple of MULTIPLE that is not less than n."""
    return -(-n // MULTIPLE) * MULTIPLE


def zeros_around(n: int, dtype: Any) -> Array:
    """Memory for n rows and columns, with zeros beyond them to a multiple of MULTIPLE."""
    values = np.empty((padded(n), padded(n)), dtype)
    values[n:], values[:, n:] = 0.0, 0.0
    return values


def _add_rows(rows: Array, places: Array, scales: Array, sums: Array) -> None:
    crew = Crew(len(places) * len(sums))
    crew.share(len(sums), lambda k, start, stop: add_scaled_rows(rows, places, scales, start, stop, sums, 0))


def _adder(sums: Array, scales: Array, rows: Array | None = None, places: Array | None = None) -> Consumer:
    """Adds the rows of a tile to the sums, and where places are given, copies them there."""
    everyone = np.arange(len(scales))

    def consume(tile: Array, first: int) -> None:
        add_scaled_rows(tile, everyone, scales, 0, tile.shape[1], sums, first)
        if rows is not None:
            copy_rows(tile, everyone, rows, places, first)

    return consume


def _summer(tiles: Tiles, one: Side, other: Side, scales: Array, sums: Array) -> Callable[[Span], None]:
    def add(span: Span) -> None:
        tiles.add_sums(one, other, span, scales, sums)

    return add


def _copier(block: Array) -> Consumer:
    def consume(tile: Array, first: int) -> None:
        block[:, first : first + tile.shape[1]] = tile

    return consume

"""Tiles of kernel values in float32 or float64, fast: solvers and predictions use them, certificates use the definition.

A tile is small enough for the caches: dot products first, and then the kernel as a function of them. X is held in the fastest
of three forms:

==========  =====================================================================  =========================================
form        when                                                                   memory besides X
==========  =====================================================================  =========================================
dense       more than a third of X is not zero                                     n d elements, none if X is that already
narrow      X is sparse, and a few hundred rows made dense fit in a cache           the nonzeros, and one such block a thread
wide        X is sparse and has many features                                       twice the nonzeros: the transpose too
==========  =====================================================================  =========================================
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.lanes import lanes
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array, CsrRows, DenseRows
from maxmargin.data.threads import Crew, single_threaded_blas
from maxmargin.kernel_matrix.tile_loops import (
    TileSides,
    affine_of_dots,
    narrow_sums,
    narrow_tile,
    power_of_dots,
    put_columns,
    put_transpose,
    rbf_of_dots,
    wide_dots,
)
from maxmargin.problem.kernels import DotFunction, Kernel, Points


@dataclass(frozen=True)
class TilePolicy:
    """How tiles are made. Nanoseconds are those of one core of an AMD EPYC with AVX2."""

    sparse_below: float = 1.0 / 3.0
    """The share of X that is not zero up to which X is held in a sparse form: there a matrix product is no faster."""
    narrow_features: int = 1 << 14
    """The most features of the narrow form. With more the form is wide."""
    few_features: int = 40
    """The most features of a dense X whose float32 tiles are made by compiled code, and not by a matrix product and a second
    pass. Measured for the RBF kernel, nanoseconds a value: 2 features 0.33 and 0.77, 8 features 0.47 and 0.87, 21 features
    0.76 and 1.06, 54 features 1.55 and 1.74."""
    few_double_features: int = 4
    """The same in float64. Measured: 2 features 1.04 and 1.25, 8 features 1.37 and 1.31."""
    fewest_rows: int = 8
    """The fewest rows of such a tile. With fewer it takes longer to transpose the columns than to multiply."""
    ns_a_feature: float = 0.025
    """Nanoseconds for one feature of one value in the dense form, measured."""
    ns_a_nonzero: float = 0.04
    """Nanoseconds for one stored element of one value in the narrow form, measured: 0.02 with 30 features, more where the
    columns do not fit in the first cache."""
    ns_a_value: float = 0.5
    """Nanoseconds for the kernel function of one dot product, measured for the RBF kernel."""
    ns_a_given_value: float = 1.0
    """Nanoseconds to copy one value that is given. An estimate."""
    ns_a_difference: float = 0.25
    """Nanoseconds for one feature of one value that is made from differences, measured."""
    ns_a_foreign_value: float = 100.0
    """Nanoseconds for one value of a function of the user. An estimate."""
    rows_a_strip: int = 256
    """Rows of a tile where a whole matrix is filled."""
    columns_a_tile: int = 1024
    """Columns of a tile where a whole matrix is filled: a tile of float32 takes one megabyte."""
    elements_a_piece: int = 1 << 15
    """Stored elements of the rows of a wide tile between two check points. With 1,024 columns of news20_bigram an element takes
    0.4 microseconds, so that the check points are 13 ms apart."""
    elements_to_turn: int = 1 << 20
    """Stored elements of X that are transposed between two check points: 20 to 80 ms on news20_bigram."""
    values_to_transpose: int = 10_000_000
    """Values of a matrix from which compiled code writes its lower half. It takes 0.2 s to compile, and saves 2.3 ns for each
    value of that half."""


Form = Any
"""A dense array, or CsrRows in the element type of the tiles."""


@dataclass(frozen=True, eq=False)
class Side:
    """Some of the points as a tile needs them; ``transpose`` stands for ``form`` on the right of wide tiles."""

    samples: Array | slice
    n_samples: int
    form: Form
    sqnorms: Array
    transpose: Form = None

    @property
    def rows(self) -> CsrRows | DenseRows:
        """The rows as a compiled loop sees them."""
        return self.form if isinstance(self.form, CsrRows) else DenseRows(self.form, 0.0)


class Span(NamedTuple):
    """The columns start .. stop of a matrix."""

    start: int
    stop: int


class Tiles:
    """k(x_i, x_j) for sets of points, tile by tile. Several threads may ask for tiles at once, unless the kernel is foreign."""

    def __init__(self, kernel: Kernel, points: Points, dtype: Any = np.float32, policy: TilePolicy | None = None) -> None:
        self.kernel, self.points, self.dtype, self.policy = kernel, points, np.dtype(dtype), policy or TilePolicy()
        self.n_features = int(points.matrix.shape[1])
        self._function = kernel.dot_function
        self._matrix: Any = None if self._function is None else self._fastest_form()
        self._scratch = threading.local()
        self._is_wide = self.n_features > self.policy.narrow_features
        self._is_rbf = self._function is not None and self._function.name == "rbf"
        self._norm_scale = -self._function.gamma / math.log(2.0) if self._function and self._is_rbf else 0.0

    @property
    def ns_a_value(self) -> float:
        """About how many nanoseconds one core needs for a kernel value."""
        policy = self.policy
        if self.kernel.is_given or self.kernel.is_foreign:
            return policy.ns_a_given_value if self.kernel.is_given else policy.ns_a_foreign_value
        if self._matrix is None:
            return policy.ns_a_value + policy.ns_a_difference * self.n_features
        if sparse.issparse(self._matrix):
            return policy.ns_a_value + policy.ns_a_nonzero * self._matrix.nnz / max(1, len(self.points))
        return policy.ns_a_value + policy.ns_a_feature * self.n_features

    def crew(self, n_values: int) -> Crew:
        """Choose the threads that computing this number of values is worth."""
        return Crew(0 if self.kernel.is_foreign else int(n_values * self.ns_a_value))

    @cached_property
    def everyone(self) -> Side:
        """All points, as columns of tiles. They are prepared once."""
        return self.right(slice(None))

    def left(self, samples: Array | slice) -> Side:
        """These points, gathered to be the rows of tiles."""
        if self._matrix is None:
            count = len(self.points) if isinstance(samples, slice) else len(samples)
            return Side(samples, count, None, np.empty(0))
        if isinstance(samples, slice) or self._are_all(samples):
            part = self._matrix
        else:
            part = self._matrix[samples] if sparse.issparse(self._matrix) else self._matrix.take(samples, axis=0)
        sqnorms = self._scaled_sqnorms[samples]
        return Side(samples, int(part.shape[0]), _csr(part) if sparse.issparse(part) else part, sqnorms)

    @cached_property
    def _scaled_sqnorms(self) -> Array:
        return np.asarray((self._norm_scale * self.points.sqnorms).astype(self.dtype))

    def _are_all(self, samples: Array) -> bool:
        """Whether these are all points in their order: then nothing has to be gathered."""
        return len(samples) == len(self.points) and bool((samples == np.arange(len(samples))).all())

    def outside(self, points: Points) -> Side:
        """Points of another matrix, dense or CSR whatever our own are, to be the rows of tiles."""
        n, matrix = len(points), points.matrix
        sqnorms = (self._norm_scale * points.sqnorms).astype(self.dtype)
        if sparse.issparse(self._matrix):
            return Side(slice(0, n), n, _csr(sparse.csr_array(matrix).astype(self.dtype, copy=False)), sqnorms)
        dense = matrix.toarray() if sparse.issparse(matrix) else matrix
        return Side(slice(0, n), n, np.ascontiguousarray(dense, self.dtype), sqnorms)

    def right(self, samples: Array | slice) -> Side:
        """These points, gathered to be the columns of tiles."""
        side = self.left(samples)
        if isinstance(side.form, CsrRows) and self._is_wide:
            return replace(side, form=None, transpose=transposed(side.form, self.n_features, self.policy.elements_to_turn))
        return side

    def tile(self, one: Side, other: Side, columns: Span, out: Array) -> None:
        """k(x, z) for x on the one side and z among these columns of the other, into a C-ordered ``out``."""
        if self._function is None:
            out[:] = self._by_definition(one, other, columns)
            return
        scale = self.dtype.type(-2.0 * self._norm_scale)
        if self.makes_sums(one, other):
            self._narrow_tile(one, other, columns, scale, out, 0)
            return
        self._dots(one, other, columns, out)
        if self._is_rbf:
            rbf_of_dots(out, one.sqnorms, other.sqnorms[columns.start : columns.stop], scale)
        else:
            _apply(self._function, out)

    def makes_sums(self, one: Side, other: Side) -> bool:
        """Whether ``add_sums`` serves these sides: RBF values that compiled code makes at once."""
        return self._is_rbf and other.transpose is None and self._is_narrow(one)

    def put(self, one: Side, other: Side, columns: Span, out: Array) -> None:
        """The values of these columns into the same columns of a C-ordered ``out``, where ``makes_sums`` says that compiled
        code makes them. No tile is made."""
        self._narrow_tile(one, other, columns, self.dtype.type(-2.0 * self._norm_scale), out, columns.start)

    def add_sums(self, one: Side, other: Side, columns: Span, scales: Array, sums: Array) -> None:
        """sums_j += sum_i scales_i k(x_i, z_j) for these columns j. No tile is made."""
        sides, scale = TileSides(one.rows, other.rows, one.sqnorms, other.sqnorms), self.dtype.type(-2.0 * self._norm_scale)
        narrow_sums(sides, scales, columns, scale, self._dense_columns(), sums)

    def _dots(self, one: Side, other: Side, columns: Span, out: Array) -> None:
        if not isinstance(one.form, CsrRows):
            np.matmul(one.form, other.form[columns.start : columns.stop].T, out=out)
        elif other.transpose is not None:
            for here in pieces(one.form, self.policy.elements_a_piece):
                check_point()
                rows = one.form._replace(indptr=one.form.indptr[here.start : here.stop + 1])
                wide_dots(rows, other.transpose, columns.start, columns.stop, out[here.start : here.stop])
        else:
            self._narrow_tile(one, other, columns, None, out, 0)

    def _is_narrow(self, one: Side) -> bool:
        """Whether compiled code makes the dot products and their function at once: from sparse rows, and from short dense
        ones."""
        if isinstance(one.form, CsrRows):
            return True
        most = self.policy.few_features if self.dtype == np.float32 else self.policy.few_double_features
        return self.n_features <= most and one.n_samples >= self.policy.fewest_rows

    def _narrow_tile(self, one: Side, other: Side, columns: Span, scale: Any, out: Array, at: int) -> None:
        sides = TileSides(one.rows, other.rows, one.sqnorms, other.sqnorms)
        narrow_tile(sides, columns.start, columns.stop, scale, self._dense_columns(), out, at)

    def _dense_columns(self) -> Array:
        """This thread's block of dense rows: all zero between two calls."""
        if not hasattr(self._scratch, "columns"):
            self._scratch.columns = np.zeros((self.n_features + 2) * lanes(self.dtype.itemsize), self.dtype)
        return self._scratch.columns

    def _by_definition(self, one: Side, other: Side, columns: Span) -> Array:
        among = slice(*columns) if isinstance(other.samples, slice) else other.samples[columns.start : columns.stop]
        return self.kernel.gram(self.points, one.samples, among)

    def _fastest_form(self) -> Any:
        """X, dense or CSR, in the element type of the tiles."""
        matrix = self.points.matrix
        n_nonzero = matrix.nnz if sparse.issparse(matrix) else np.count_nonzero(matrix)
        if n_nonzero <= self.policy.sparse_below * len(self.points) * self.n_features:
            return sparse.csr_array(matrix).astype(self.dtype, copy=False)
        dense = matrix.astype(self.dtype, copy=False).toarray() if sparse.issparse(matrix) else matrix
        return np.ascontiguousarray(dense, self.dtype)


def transposed(rows: CsrRows, n_columns: int, elements_a_piece: int) -> CsrRows:
    """The columns as rows, with their elements in the order of the rows. The deadline is heard between two pieces."""
    ends = np.cumsum(np.bincount(rows.indices, minlength=n_columns), dtype=np.uint64)
    indptr = np.concatenate([np.zeros(1, np.uint64), ends])
    values, indices, places = np.empty_like(rows.values), np.empty_like(rows.indices), indptr[:-1].copy()
    for here in pieces(rows, elements_a_piece):
        check_point()
        put_columns(rows, here.start, here.stop, places, values, indices)
    return CsrRows(values, indices, indptr, 0.0)


def pieces(rows: CsrRows, elements_a_piece: int) -> list[Span]:
    """All rows, in spans of about so many stored elements, and of one row at least."""
    n = len(rows.indptr) - 1
    stored = int(rows.indptr[-1]) - int(rows.indptr[0])
    size = max(1, elements_a_piece * n // max(1, stored))
    return [Span(first, min(n, first + size)) for first in range(0, n, size)]


Consumer = Callable[[Array, int, int], None]
"""Takes a tile, and the numbers of its first row and column."""


def fill(tiles: Tiles, one: Array, other: Array, consume: Consumer, is_square: bool = False) -> int:
    """Give ``consume`` every tile of k(x_i, x_j) for the i of the one and the j of the other, on all cores. Where the two are
    the same (``is_square``), only the tiles on the diagonal and to the right of it. The number of values computed."""
    right, crew, policy = tiles.right(other), tiles.crew(len(one) * len(other)), tiles.policy
    starts = range(0, len(one), policy.rows_a_strip)

    def strip(start: int) -> int:
        stop = min(len(one), start + policy.rows_a_strip)
        left, n_rows = tiles.left(one[start:stop]), stop - start
        memory = np.empty(n_rows * max(n_rows, min(policy.columns_a_tile, len(other))), tiles.dtype)
        diagonal = Span(start, stop) if is_square else Span(0, 0)
        for span in _spans(diagonal, len(other), policy.columns_a_tile):
            check_point()
            width = span.stop - span.start
            tile = memory[: n_rows * width].reshape(n_rows, width)
            tiles.tile(left, right, span, tile)
            consume(tile, start, span.start)
        return n_rows * (len(other) - diagonal.start)

    with single_threaded_blas():
        return sum(crew.run([(start,) for start in starts], strip))


def mirrored(values: Array, policy: TilePolicy | None = None) -> Consumer:
    """Writes tiles of the upper half of a symmetric matrix to both halves."""
    is_large = values.size >= (policy or TilePolicy()).values_to_transpose

    def consume(tile: Array, row: int, column: int) -> None:
        rows, columns = slice(row, row + tile.shape[0]), slice(column, column + tile.shape[1])
        values[rows, columns] = tile
        if column > row and is_large:
            put_transpose(tile, values, column, row)
        elif column > row:
            values[columns, rows] = tile.T

    return consume


def _spans(diagonal: Span, n: int, width: int) -> list[Span]:
    """The columns of the tile on the diagonal, if there is one, and then spans up to n."""
    first = [diagonal] if diagonal.stop > diagonal.start else []
    return first + [Span(column, min(n, column + width)) for column in range(diagonal.stop, n, width)]


def _apply(function: DotFunction, tile: Array) -> None:
    """The kernel function of the dot products in a tile, in their place."""
    number = tile.dtype.type
    if function.name == "power":
        power_of_dots(tile, number(function.gamma), number(function.coef0), function.degree)
    elif function.name == "tanh":
        affine_of_dots(tile, number(function.gamma), number(function.coef0))
        np.tanh(tile, out=tile)


def _csr(matrix: Any) -> CsrRows:
    """The matrix as a compiled loop sees it. Indices of 32 bits are not copied."""
    is_same = matrix.indices.dtype == np.int32 and matrix.indices.flags.writeable  # read-only arrays would be compiled again
    indices = matrix.indices.view(np.uint32) if is_same else matrix.indices.astype(np.uint32)
    return CsrRows(matrix.data, indices, matrix.indptr.astype(np.uint64), 0.0)

"""Blocks of kernel values in float32 or float64, fast: what solvers use where the certificate uses the definition.

A block is made in tiles small enough for the caches, dot products first and the kernel function at once. X is held in
the one of three forms that is fastest for it:

==========  =====================================================================  =========================================
form        when                                                                   memory besides X
==========  =====================================================================  =========================================
dense       more than a third of X is not zero                                     n d elements, none if X is that already
narrow      X is sparse, and a few hundred rows made dense fit in a cache           the nonzeros, and one such block a thread
wide        X is sparse and has many features                                       twice the nonzeros: the transpose too
==========  =====================================================================  =========================================

One core of an AMD EPYC makes a value of the dense form in 0.025 ns a feature, of the narrow form in 0.06 ns a nonzero."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array, CsrRows
from maxmargin.data.threads import Crew, single_threaded_blas
from maxmargin.kernel_matrix.tile_loops import affine_of_dots, narrow_dots, power_of_dots, rbf_of_dots, wide_dots
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Kernel, Linear, Points, Polynomial, Precomputed, Sigmoid

SPARSE_BELOW = 1.0 / 3.0
"""The share of X that is not zero up to which the narrow form is faster than a matrix product."""
NARROW_BYTES = 1 << 18
"""A block of dense rows should take no more than this, but is never narrower than LEAST_WIDTH."""
LEAST_WIDTH, GREATEST_WIDTH = 64, 256
NARROW_FEATURES = 1 << 14
"""With more features than this the form is wide."""
NS_A_FEATURE, NS_A_NONZERO, NS_A_VALUE = 0.025, 0.06, 0.5

ROWS_A_STRIP, COLUMNS_A_TILE = 256, 1024
"""Of a tile, when many blocks are filled."""

Form = Any
"""A dense array, or CsrRows in the element type of the blocks."""


@dataclass(frozen=True, eq=False)
class Side:
    """Some of the samples, as a block needs them; ``transpose`` stands for ``form`` on the right of wide tiles."""

    samples: Array | slice
    n_samples: int
    form: Form
    sqnorms: Array
    transpose: Form = None


class KernelBlocks:
    """k(x_i, x_j) for sets of samples, tile by tile. Tiles may be asked for by several threads at once."""

    def __init__(self, problem: KernelProblem, dtype: Any = np.float32) -> None:
        self.problem = problem
        self.dtype = np.dtype(dtype)
        self.is_thread_safe = not isinstance(problem.kernel, Custom)
        self._matrix = _matrix(problem, self.dtype)
        self._scratch = threading.local()
        fitting = NARROW_BYTES // (problem.rows.n_features * self.dtype.itemsize)
        self._width = min(GREATEST_WIDTH, max(LEAST_WIDTH, fitting // LEAST_WIDTH * LEAST_WIDTH))
        self._is_wide = problem.rows.n_features > NARROW_FEATURES
        self._norm_scale = -problem.kernel.gamma / math.log(2.0) if isinstance(problem.kernel, RBF) else 0.0

    @property
    def ns_a_value(self) -> float:
        """About how long one core needs for a kernel value."""
        if self._matrix is None:
            return 1.0 if isinstance(self.problem.kernel, Precomputed) else 100.0
        if sparse.issparse(self._matrix):
            return NS_A_VALUE + NS_A_NONZERO * self._matrix.nnz / max(1, self.problem.n_samples)
        return NS_A_VALUE + NS_A_FEATURE * self.problem.rows.n_features

    @cached_property
    def everyone(self) -> Side:
        """All samples, on the right, made once."""
        return self.right(slice(None))

    def left(self, samples: Array | slice) -> Side:
        """These samples, gathered to be the rows of tiles."""
        if self._matrix is None:
            count = self.problem.n_samples if isinstance(samples, slice) else len(samples)
            return Side(samples, count, None, np.empty(0))
        part = self._matrix if isinstance(samples, slice) else self._matrix[samples]
        sqnorms = (self._norm_scale * self.problem.points.sqnorms[samples]).astype(self.dtype)
        return Side(samples, int(part.shape[0]), _csr(part) if sparse.issparse(part) else part, sqnorms)

    def outside(self, matrix: Any) -> Side:
        """Samples that are not of the problem, dense or CSR whatever its own are, to be the rows of tiles."""
        n = int(matrix.shape[0])
        sqnorms = (self._norm_scale * Points.of(matrix).sqnorms).astype(self.dtype)
        if sparse.issparse(self._matrix):
            return Side(slice(0, n), n, _csr(sparse.csr_array(matrix).astype(self.dtype, copy=False)), sqnorms)
        dense = matrix.toarray() if sparse.issparse(matrix) else matrix
        return Side(slice(0, n), n, np.ascontiguousarray(dense, self.dtype), sqnorms)

    def right(self, samples: Array | slice) -> Side:
        """These samples, gathered to be the columns of tiles."""
        side = self.left(samples)
        if isinstance(side.form, CsrRows) and self._is_wide:
            part = self._matrix if isinstance(samples, slice) else self._matrix[samples]
            return replace(side, form=None, transpose=_csr(part.T.tocsr()))
        return side

    def tile(self, one: Side, other: Side, start: int, stop: int, out: Array) -> None:
        """k(x, z) for x on the one side and z among start .. stop of the other, into a C-ordered ``out``."""
        if self._matrix is None:
            out[:] = self._defined(one, other, start, stop)
            return
        self._dots(one, other, start, stop, out)
        if isinstance(self.problem.kernel, RBF):
            scale = self.dtype.type(-2.0 * self._norm_scale)
            rbf_of_dots(out, one.sqnorms, other.sqnorms[start:stop], scale)
        else:
            _of_dots(self.problem.kernel, out)

    def _dots(self, one: Side, other: Side, start: int, stop: int, out: Array) -> None:
        if not isinstance(one.form, CsrRows):
            np.matmul(one.form, other.form[start:stop].T, out=out)
        elif other.transpose is not None:
            wide_dots(one.form, other.transpose, start, stop, out)
        else:
            narrow_dots(one.form, other.form, start, stop, self._width, self._block_of_columns(), out)

    def _block_of_columns(self) -> Array:
        """This thread's block of dense rows: all zero between two calls."""
        if not hasattr(self._scratch, "columns"):
            self._scratch.columns = np.zeros(self.problem.rows.n_features * self._width, self.dtype)
        return self._scratch.columns

    def _defined(self, one: Side, other: Side, start: int, stop: int) -> Array:
        """By the definition, for kernels that are not functions of dot products."""
        columns = slice(start, stop) if isinstance(other.samples, slice) else other.samples[start:stop]
        matrix = self.problem.rows.matrix
        if isinstance(self.problem.kernel, Precomputed) and not self.problem.rows.is_sparse and isinstance(columns, slice):
            return matrix[one.samples, columns]
        return self.problem.gram(one.samples, columns)


Consumer = Callable[[Array, int, int], None]
"""Is given a tile, and the numbers of its first row and column."""


def fill(blocks: KernelBlocks, one: Array, other: Array, consume: Consumer, is_square: bool = False) -> int:
    """Every tile of k(x_i, x_j) for the i of the one and the j of the other, on all cores; where the two are the same, those on
    the diagonal and to the right of it. How many values that are."""
    right = blocks.right(other)
    crew = Crew(int(len(one) * len(other) * blocks.ns_a_value) if blocks.is_thread_safe else 0)
    strips = [(start, min(len(one), start + ROWS_A_STRIP)) for start in range(0, len(one), ROWS_A_STRIP)]

    def strip(start: int, stop: int) -> int:
        left, n_rows = blocks.left(one[start:stop]), stop - start
        memory = np.empty(n_rows * max(n_rows, min(COLUMNS_A_TILE, len(other))), blocks.dtype)
        for column, end in _columns(start if is_square else 0, stop if is_square else 0, len(other)):
            tile = memory[: n_rows * (end - column)].reshape(n_rows, end - column)
            blocks.tile(left, right, column, end, tile)
            consume(tile, start, column)
        return n_rows * (len(other) - start if is_square else len(other))

    with single_threaded_blas():
        return sum(crew.run_long(strips, strip))


def mirrored(values: Array) -> Consumer:
    """Writes tiles from the diagonal on; what is right of the diagonal's own tiles, also below them."""

    def consume(tile: Array, row: int, column: int) -> None:
        rows, columns = slice(row, row + tile.shape[0]), slice(column, column + tile.shape[1])
        values[rows, columns] = tile
        if column > row:
            values[columns, rows] = tile.T

    return consume


def _columns(start: int, stop: int, n: int) -> list[tuple[int, int]]:
    """start .. stop, if that is anything, and then tiles up to n."""
    first = [(start, stop)] if stop > start else []
    return first + [(column, min(n, column + COLUMNS_A_TILE)) for column in range(stop, n, COLUMNS_A_TILE)]


def _of_dots(kernel: Kernel, tile: Array) -> None:
    number = tile.dtype.type
    if isinstance(kernel, Polynomial):
        power_of_dots(tile, number(kernel.gamma), number(kernel.coef0), int(kernel.degree))
    elif isinstance(kernel, Sigmoid):
        affine_of_dots(tile, number(kernel.gamma), number(kernel.coef0))
        np.tanh(tile, out=tile)


def _matrix(problem: KernelProblem, dtype: np.dtype[Any]) -> Any:
    """X in the fastest form, or None where tiles come from the definition."""
    if not isinstance(problem.kernel, Linear | RBF | Polynomial | Sigmoid):
        return None
    matrix = problem.rows.matrix
    n_nonzero = matrix.nnz if problem.rows.is_sparse else np.count_nonzero(matrix)
    is_dense = n_nonzero > SPARSE_BELOW * problem.n_samples * problem.rows.n_features
    if not is_dense:
        return sparse.csr_array(matrix).astype(dtype, copy=False)
    return np.ascontiguousarray(matrix.astype(dtype, copy=False).toarray() if problem.rows.is_sparse else matrix, dtype)


def _csr(matrix: Any) -> CsrRows:
    return CsrRows(matrix.data, matrix.indices.astype(np.uint32), matrix.indptr.astype(np.uint64), 0.0)

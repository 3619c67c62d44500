"""Rows: one validated view of the matrix X, whatever the user brought.

Solvers and the certificate read X only through the named tuples below. So each loop is compiled once for a dense and once for a
sparse layout, and for a third one where all stored elements are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from maxmargin.data import policy
from maxmargin.data.kept import kept

Array: TypeAlias = npt.NDArray[Any]

DTYPES = (np.float64, np.float32)
"""The element types that are kept. Every other type becomes float64."""

NARROW_COLUMNS = 2**16
"""Columns up to which the index of one fits into 16 bits."""


class DenseRows(NamedTuple):
    """What a compiled loop sees of a dense X: row i is ``values[i]`` with ``bias`` appended."""

    values: Array
    bias: float


class CsrRows(NamedTuple):
    """What a compiled loop sees of a sparse X: row i is elements ``indptr[i]:indptr[i + 1]`` with ``bias`` appended."""

    values: Array
    indices: Array
    indptr: Array
    bias: float


class OneValueRows(NamedTuple):
    """What a compiled loop sees of a sparse X whose stored elements are all equal, as in one-hot columns. It takes a sixth of
    the memory of ``CsrRows`` where the index of a column fits into 16 bits."""

    value: float
    indices: Array
    indptr: Array
    bias: float


@dataclass(frozen=True)
class Rows:
    """A finite, two-dimensional X as C-ordered float32/float64 or as canonical CSR, shared and never written to.

    No copy is made of a C-ordered float array or of a CSR matrix that is sorted and free of duplicates;
    dense stays dense, float32 stays float32.
    """

    matrix: Any

    @classmethod
    def from_matrix(cls, X: Any, *, check: bool = True) -> Rows:
        """View X as rows. ``check=False`` trusts that scikit-learn's ``check_array`` has seen X already."""
        if isinstance(X, Rows):
            return X
        if check:
            from sklearn.utils.validation import (
                check_array,  # the import takes a second, and data from our own reader needs no check
            )

            X = check_array(sound(X), accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, order="C")
        return cls(_canonical(X) if sparse.issparse(X) else np.asarray(X))

    def check(self) -> None:
        """Does nothing: whoever made these rows has looked at them. See ``UncheckedRows``."""

    def check_outputs(self, outputs: Array) -> None:
        """Does nothing, too."""

    def taken(self, chosen: Array) -> Rows:
        """A copy of the chosen rows. ``take`` is three times as quick as an index where rows are short."""
        return type(self)(self.matrix[chosen] if self.is_sparse else self.matrix.take(chosen, axis=0))

    @kept
    def is_sparse(self) -> bool:
        return sparse.issparse(self.matrix)

    @kept
    def n_samples(self) -> int:
        return int(self.matrix.shape[0])

    @kept
    def n_features(self) -> int:
        return int(self.matrix.shape[1])

    @kept
    def n_stored(self) -> int:
        """Stored elements: what one pass over X reads."""
        return int(self.matrix.nnz if self.is_sparse else self.matrix.size)

    @kept
    def longest(self) -> int:
        """Stored elements of the longest row."""
        return int(np.diff(self.matrix.indptr).max(initial=0)) if self.is_sparse else self.n_features

    @property
    def nbytes(self) -> int:
        if not self.is_sparse:
            return int(self.matrix.nbytes)
        return int(self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes)

    def dense(self) -> Array:
        """X as a dense array: X itself if it is one."""
        return np.asarray(self.matrix.toarray() if self.is_sparse else self.matrix)

    def column_magnitudes(self) -> Array:
        """The greatest |x_ij| of each column."""
        if not self.is_sparse:
            return np.maximum(self.matrix.max(axis=0), -self.matrix.min(axis=0)).astype(np.float64)
        magnitudes = np.zeros(self.n_features)
        np.maximum.at(magnitudes, self.matrix.indices, np.abs(self.matrix.data))
        return magnitudes

    def compiled(self, bias: float = 0.0) -> DenseRows | CsrRows:
        """The arrays for a compiled loop, with a constant feature of value ``bias`` appended to every row.

        All are read-only views, so an ordinary and a memory-mapped array meet the same machine code; indices
        are unsigned because a signed one costs a wrap-around test at every access.
        """
        if not self.is_sparse:
            return DenseRows(_read_only(self.matrix), float(bias))
        indices = self.matrix.indices
        unsigned = indices.view(np.dtype(f"u{indices.dtype.itemsize}"))
        indptr = self.matrix.indptr.astype(np.int64, copy=False).view(np.uint64)
        return CsrRows(_read_only(self.matrix.data), _read_only(unsigned), _read_only(indptr), float(bias))

    def compact(self, bias: float = 0.0) -> DenseRows | CsrRows | OneValueRows:
        """``compiled``, in less memory if all stored elements are equal. It is for loops that read X many times."""
        rows = self.compiled(bias)
        if not isinstance(rows, CsrRows) or self._narrow_indices is None:
            return rows
        return OneValueRows(float(rows.values[0]), self._narrow_indices, rows.indptr, rows.bias)

    @kept
    def _narrow_indices(self) -> Array | None:
        """The columns of the stored elements in few bytes, if all these elements are equal."""
        rows = self.compiled()
        if not isinstance(rows, CsrRows) or not _is_constant(rows.values):
            return None
        return _read_only(rows.indices.astype(np.uint16 if self.n_features <= NARROW_COLUMNS else np.uint32, copy=False))

    @kept
    def greatest(self) -> float:
        """The greatest |x_ij|."""
        values = self.matrix.data if self.is_sparse else self.matrix
        return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))

    @kept
    def outer_elements(self) -> float:
        """Elements of the lower triangles of all x_i x_i'."""
        if not self.is_sparse:
            return 0.5 * self.n_samples * self.n_features * (self.n_features + 1.0)
        lengths = np.diff(self.matrix.indptr).astype(np.float64)
        return 0.5 * float(lengths @ (lengths + 1.0))

    def squared_norms(self, bias: float = 0.0) -> Array:
        """|x_i|^2 + bias^2 in float64, whatever the type of X. They are computed once where there is no bias."""
        return self._plain_squared_norms if bias == 0.0 else self._squared_norms(bias)

    @kept
    def _plain_squared_norms(self) -> Array:
        return _read_only(self._squared_norms(0.0))

    def _squared_norms(self, bias: float) -> Array:
        from maxmargin.data.row_loops import squared_norms

        norms = np.empty(self.n_samples)
        squared_norms(self.compiled(bias), norms)
        return norms


class NotFiniteError(ValueError):
    """An element of X is not finite."""


class UncheckedRows(Rows):
    """Rows of which nobody knows yet whether they are finite. A solver that reads all of X anyway finds out from the outputs of
    its first pass: a product with a row that is not finite is not finite, whatever the other factor is."""

    def check(self) -> None:
        """Raise NotFiniteError unless every element is finite."""
        values = self.matrix.data if self.is_sparse else self.matrix
        with np.errstate(all="ignore"):
            is_finite = np.isfinite(np.add.reduce(values, axis=None)) or np.isfinite(values).all()
        if not is_finite:
            raise NotFiniteError("X holds numbers that are not finite.")

    def check_outputs(self, outputs: Array) -> None:
        """Look at all elements only where the outputs of all rows leave a doubt: a sum of large ones may overflow."""
        with np.errstate(all="ignore"):
            if not np.isfinite(np.add.reduce(outputs)):
                self.check()


class ChosenRows(Rows):
    """Some rows of a dense X. They are copied when they are first used."""

    def __init__(self, X: Array, chosen: Array) -> None:
        vars(self).update(_X=X, _chosen=chosen)

    @kept
    def matrix(self) -> Array:
        rows: Array = vars(self)["_X"][vars(self)["_chosen"]]
        return rows

    @kept
    def is_sparse(self) -> bool:
        return False

    @kept
    def n_samples(self) -> int:
        return len(vars(self)["_chosen"])

    @kept
    def n_features(self) -> int:
        return int(vars(self)["_X"].shape[1])

    @kept
    def n_stored(self) -> int:
        return self.n_samples * self.n_features


def _canonical(X: Any) -> Any:
    """X as CSR with indices in range, sorted and without duplicates; the caller's matrix is never changed."""
    csr = sound(X).tocsr()
    if csr.has_canonical_format:
        return csr
    if csr is X:
        csr = X.copy()
    csr.sum_duplicates()
    return csr


def sound(X: Any) -> Any:
    """X itself, if its indices are in range.

    SciPy and the compiled loops trust the indices of a sparse matrix: they read and write where the indices point. A matrix
    with wrong indices must reach neither of them."""
    if sparse.issparse(X) and X.format in ("csr", "csc"):
        n_major, n_minor = X.shape if X.format == "csr" else X.shape[::-1]
        _check_compressed(X.indptr, X.indices, len(X.data), n_major, n_minor)
    elif sparse.issparse(X) and X.format == "coo":
        if X.ndim != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D sparse array instead: one row is X.reshape(1, -1).")
        for places, extent in zip(X.coords, X.shape, strict=True):
            _check_range(places, extent)
    return X


def _check_compressed(indptr: Array, indices: Array, n_stored: int, n_major: int, n_minor: int) -> None:
    """Check indptr and indices. Neighbours are compared, not subtracted: the difference of two int64 can overflow."""
    if indptr.dtype.kind != "i" or len(indptr) != n_major + 1:
        raise ValueError(f"The sparse X is broken: its indptr must hold {n_major + 1} whole numbers.")
    if indptr[0] != 0 or indptr[-1] > min(n_stored, len(indices)) or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError("The sparse X is broken: its indptr must rise from 0 to at most the number of stored values.")
    _check_range(indices, n_minor)


def _check_range(indices: Array, extent: int) -> None:
    if indices.dtype.kind not in "iu":
        raise ValueError(f"The sparse X is broken: its indices must be whole numbers, not {indices.dtype}.")
    unsigned = indices.view(np.dtype(f"u{indices.dtype.itemsize}"))  # a negative index becomes a very large one
    if len(unsigned) and int(unsigned.max()) >= extent:
        raise ValueError(f"The sparse X is broken: an index lies outside 0 .. {extent - 1}.")


def _is_constant(values: Array) -> bool:
    """Whether there are values, and all are equal."""
    if len(values) == 0 or np.any(values[: policy.ROWS.first_look] != values[0]):
        return False
    return bool(values.min() == values[0] == values.max())


def _read_only(array: Array) -> Array:
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view

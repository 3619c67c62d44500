"""Where blocks come from: pieces of (X, y), one after the other, of a file, of an array, or of the user's own generator."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import DTYPES, Array, Rows, sound
from maxmargin.io.files import explained
from maxmargin.io.npz import read_npz
from maxmargin.io.svmlight import svmlight_windows
from maxmargin.io.tables import TABLES, table_pieces
from maxmargin.scale_out.blocks import Block, check_values


class Source(NamedTuple):
    """``pieces(n)`` gives the pieces after the first n; ``stamp`` tells one source from another, and is None where nothing
    does."""

    pieces: Callable[[int], Iterator[Block]]
    stamp: list[Any] | None
    merges: bool = False
    """Whether small pieces are put together: where they come from the user."""


class Reading(NamedTuple):
    """How a source is read."""

    y: Any = None
    sample_weight: Any = None
    label_column: str | None = None
    n_features: int | None = None
    zero_based: bool = False
    dtype: Any = np.float64
    block_bytes: int = 0


def source_of(source: Any, reading: Reading) -> Source:
    """The pieces of whatever the user brought."""
    if isinstance(source, (str, os.PathLike)):
        return _file(Path(source), reading)
    if sparse.issparse(source) or isinstance(source, np.ndarray):
        return _array(source, reading, None)
    if not isinstance(source, Iterable):
        raise TypeError(
            f"The source of blocks must be a file, an array, or an iterable of (X, y); got {type(source).__name__}."
        )
    _refuse(reading, "an iterable", "y", "sample_weight", "label_column")
    return Source(lambda skip: _generated(source, skip, reading.dtype), None, merges=True)


def _refuse(reading: Reading, what: str, *names: str) -> None:
    for name in names:
        if getattr(reading, name) is not None:
            raise ValueError(f"{name} does not belong to {what}, which has its own.")


def _file(path: Path, reading: Reading) -> Source:
    status = os.stat(path)
    stamp = [str(path.resolve()), status.st_size, status.st_mtime_ns]
    if path.suffix == ".npy":
        with explained(path, "it is no array of NumPy's, or it is damaged"):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        return _array(array, reading, stamp)
    _refuse(reading, f"a {path.suffix or 'text'} file", "y", "sample_weight")
    if path.suffix == ".npz":
        X, y = read_npz(path, reading.dtype)
        return _array(X, reading._replace(y=y), stamp)
    if path.suffix in TABLES:
        return Source(lambda skip: _table(path, reading, skip), stamp)
    _refuse(reading, f"a {path.suffix or 'text'} file", "label_column")
    return Source(lambda skip: _text(path, reading, skip), stamp)


def _text(path: Path, reading: Reading, skip: int) -> Iterator[Block]:
    windows = svmlight_windows(
        path, n_features=reading.n_features, zero_based=reading.zero_based, dtype=reading.dtype, skip=skip
    )
    for X, y in windows:
        yield Block(X, y)


def _array(X: Any, reading: Reading, stamp: list[Any] | None) -> Source:
    """Slices of about a block each. A memory-mapped array is read slice by slice."""
    if reading.y is None:
        raise ValueError("An array contains no labels: pass y.")
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions; its shape is {X.shape}.")
    y = np.load(reading.y, allow_pickle=False) if isinstance(reading.y, (str, os.PathLike)) else np.asarray(reading.y)
    weights = None if reading.sample_weight is None else np.asarray(reading.sample_weight)
    for name, each in (("y", y), ("sample_weight", weights)):
        if each is not None and each.shape != (X.shape[0],):
            raise ValueError(f"{name} must have one number for each of the {X.shape[0]} rows; its shape is {each.shape}.")
    if sparse.issparse(X):
        X = sound(X).tocsr()
    return Source(lambda skip: _slices(X, y, weights, reading, skip), stamp)


def _slices(X: Any, y: Array, weights: Array | None, reading: Reading, skip: int) -> Iterator[Block]:
    itemsize = np.dtype(reading.dtype).itemsize
    n_bytes = X.nnz * (4 + itemsize) if sparse.issparse(X) else X.size * itemsize
    n_rows = max(1, int(reading.block_bytes * X.shape[0] / max(1, n_bytes)))
    for start in range(skip * n_rows, X.shape[0], n_rows):
        part = slice(start, start + n_rows)
        yield checked(Block(X[part], y[part], None if weights is None else weights[part]), reading.dtype, start)


def _table(path: Path, reading: Reading, skip: int) -> Iterator[Block]:
    """Some rows at a time."""
    start = 0
    for k, (X, y) in enumerate(table_pieces(path, reading.label_column, reading.dtype, reading.block_bytes)):
        if k >= skip:
            yield checked(Block(X.to_numpy(), y), reading.dtype, start)
        start += len(y)


def _generated(source: Iterable[Any], skip: int, dtype: Any) -> Iterator[Block]:
    """The user's pieces. What is written already is asked for again and passed over."""
    start = 0
    for k, piece in enumerate(source):
        if not isinstance(piece, tuple) or len(piece) not in (2, 3):
            raise TypeError(f"A piece must be a tuple (X, y) or (X, y, sample_weight); piece {k} is not such a tuple.")
        if k >= skip:
            yield checked(Block(*piece), dtype, start)
        start += piece[0].shape[0]


def checked(block: Block, dtype: Any, start: int) -> Block:
    """The same in the types that are written. ``start`` is the number of its first row, for complaints."""
    X, weights = _matrix(block.X, dtype), block.sample_weight
    weights = None if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    found = Block(X, _labels(block.y, X.shape[0], start), weights)
    check_values(found, start=start)
    return found


def _matrix(X: Any, dtype: Any) -> Any:
    if np.dtype(dtype).type not in DTYPES:
        raise ValueError(f"dtype must be float64 or float32; got {np.dtype(dtype)}.")
    if not sparse.issparse(X):
        X = np.ascontiguousarray(X, dtype=dtype)
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions; its shape is {X.shape}.")
        return X
    csr = sparse.csr_matrix(sound(X).astype(dtype, copy=False))
    return Rows.from_matrix(csr, check=False).matrix


def _is_label(label: Any) -> bool:
    return isinstance(label, (str, int, np.integer, np.bool_)) or (isinstance(label, float) and math.isfinite(label))


def _labels(y: Any, n_rows: int, start: int) -> Array:
    y = np.asarray(y)
    if y.dtype.kind == "O":
        missing = [k for k, label in enumerate(y.tolist()) if not _is_label(label)]
        if missing:
            raise ValueError(
                f"A label is missing, or is neither a number nor a word: {y[missing[0]]!r} in row {start + missing[0]}."
            )
        y = y.astype(str)
    y = np.ascontiguousarray(y)
    if y.shape != (n_rows,):
        raise ValueError(f"y must have one label for each of {n_rows} rows, from row {start} on; its shape is {y.shape}.")
    if y.dtype.kind not in "biufU":
        raise ValueError(f"Labels must be numbers or words; those from row {start} on are of type {y.dtype}.")
    return y

"""Dask collections as partitions: chunks of X, y and weights that belong together, and lazy results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.scale_out.blocks import Block
from maxmargin.scale_out.sources import checked
from maxmargin.scale_out.stacking import Size


class Partitions(NamedTuple):
    """``blocks`` are delayed. ``names`` are those of the columns of a data frame."""

    blocks: list[Any]
    n_features: int
    names: list[str] | None


class Labels(NamedTuple):
    """The labels that occur in some partitions, the weights of their samples added up, and the bytes of the partitions."""

    classes: Array
    sums: Array
    n_bytes: int


def is_dask(X: Any) -> bool:
    from dask.base import is_dask_collection

    return bool(is_dask_collection(X))


def partitions_of(X: Any, y: Any, sample_weight: Any) -> Partitions:
    """Delayed blocks of chunks that belong together."""
    from dask.delayed import delayed

    if not is_dask(X):
        raise TypeError(
            f"X must be a Dask array or data frame; got {type(X).__name__}. For data in memory use maxmargin.LinearSVC."
        )
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    rows = _row_chunks(X, names)
    labels = _beside(y, X, len(rows), "y")
    weights = [None] * len(rows) if sample_weight is None else _beside(sample_weight, X, len(rows), "sample_weight")
    make = delayed(block_of, pure=True)
    n_features = len(names) if names is not None else int(X.shape[1])
    return Partitions([make(*chunk, k) for k, chunk in enumerate(zip(rows, labels, weights, strict=True))], n_features, names)


def _row_chunks(X: Any, names: list[str] | None) -> list[Any]:
    if names is not None:
        return list(X.to_delayed())
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions; it has {X.ndim}.")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    return list(X.to_delayed().reshape(-1))


def _beside(each: Any, X: Any, n_chunks: int, name: str) -> list[Any]:
    """The chunks of y or of weights that belong to those of X. An array in memory is cut as X is."""
    if not is_dask(each):
        lengths = _lengths(X, name)
        each = np.asarray(each)
        if each.shape != (sum(lengths),):
            raise ValueError(f"{name} must have one value for each of the {sum(lengths)} rows of X; its shape is {each.shape}.")
        return list(np.split(each, np.cumsum(lengths)[:-1]))
    if each.ndim != 1:
        raise ValueError(f"{name} must be one column: a Dask array or series.")
    if hasattr(each, "chunks") and hasattr(X, "chunks") and _is_known(X) and _is_known(each) and each.chunks[0] != X.chunks[0]:
        if sum(each.chunks[0]) != sum(X.chunks[0]):
            raise ValueError(f"{name} has {sum(each.chunks[0])} values for {sum(X.chunks[0])} rows of X.")
        each = each.rechunk({0: X.chunks[0]})
    chunks = list(np.reshape(each.to_delayed(), -1)) if hasattr(each, "chunks") else list(each.to_delayed())
    if len(chunks) != n_chunks:
        raise ValueError(f"X has {n_chunks} partitions and {name} has {len(chunks)}: bring them to the same partitions.")
    return chunks


def _is_known(array: Any) -> bool:
    return not any(np.isnan(length) for length in array.chunks[0])


def _lengths(X: Any, name: str) -> list[int]:
    if hasattr(X, "chunks") and _is_known(X):
        return [int(length) for length in X.chunks[0]]
    if hasattr(X, "map_partitions"):
        return [int(length) for length in X.map_partitions(len).compute()]
    raise ValueError(f"The chunks of X have unknown lengths: pass {name} as a Dask array, or call X.compute_chunk_sizes().")


def block_of(X: Any, y: Any, weights: Any, number: int) -> Block:
    """What a worker makes of the chunks of one partition, checked."""
    try:
        X = _numbers(X) if hasattr(X, "dtypes") else X
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        matrix = X if sparse.issparse(X) else np.asarray(X)
        return checked(Block(matrix, np.asarray(y).reshape(-1), None if weights is None else np.asarray(weights)), dtype, 0)
    except ValueError as error:
        raise ValueError(f"Partition {number} of X and y: {error}") from None


def _numbers(frame: Any) -> Array:
    """The numbers of a data frame, all of whose columns must hold some."""
    for name, kind in frame.dtypes.items():
        if kind.kind not in "biuf":
            raise ValueError(f"column {str(name)!r} does not hold numbers: its type is {kind}.")
    numbers: Array = frame.to_numpy(na_value=np.nan) if frame.isna().any(axis=None) else frame.to_numpy()
    return numbers


def gathered_labels(client: Any, chunks: list[Any]) -> tuple[list[Size], Labels]:
    """What the rows of each partition take, and the labels of all: one small message from each partition."""
    found = client.gather(client.map(labels_of, chunks, pure=False))
    parts = [labels for _, labels in found if len(labels.classes)]
    if not parts:
        raise ValueError("X has no rows: there is nothing to fit.")
    classes, places = np.unique(np.concatenate([labels.classes for labels in parts]), return_inverse=True)
    sums = np.bincount(places, np.concatenate([labels.sums for labels in parts]), len(classes))
    return [size for size, _ in found], Labels(classes, sums, sum(labels.n_bytes for _, labels in found))


def labels_of(block: Block) -> tuple[Size, Labels]:
    """What a worker says of the rows and labels of one partition."""
    classes, places = np.unique(block.y, return_inverse=True)
    return Size.of(block.X), Labels(classes, np.bincount(places, block.sample_weight, len(classes)), block.nbytes)


def mapped(X: Any, predict: Callable[[Any], Array], dtype: Any, n_columns: int) -> Any:
    """A Dask array of what ``predict`` makes of each chunk of rows, computed when it is asked for."""
    import dask.array as da

    if hasattr(X, "columns"):
        X = X.to_dask_array()
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if n_columns == 1:
        return da.map_blocks(_predicted, X, predict, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype))
    chunks = (X.chunks[0], (n_columns,))
    return da.map_blocks(_predicted, X, predict, dtype=dtype, chunks=chunks, meta=np.empty((0, 0), dtype))


def _predicted(X: Any, predict: Callable[[Any], Array]) -> Array:
    """An empty chunk has no prediction, which scikit-learn's checks would refuse."""
    if X.shape[0] == 0:
        one = predict(np.zeros((1, X.shape[1])))
        return one[:0]
    return predict(X)


def computed(*collections: Any) -> Any:
    """What the collections hold; what is no collection stays. Each is computed alone: of arrays beside series Dask warns."""
    from dask.base import compute

    return [compute(each)[0] for each in collections]

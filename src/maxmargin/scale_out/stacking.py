"""All rows of several partitions as one block, written piece by piece into arrays of the final size.

The pieces may come from a disk or from a network. Nothing is in memory twice but the pieces that are under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.scale_out.blocks import Block, Blocks


class Size(NamedTuple):
    """What rows take: their number, stored elements and columns, the type of their elements, and that of their indices; None
    if they are dense."""

    n_rows: int
    n_stored: int
    n_features: int
    values: Any
    indices: Any = None

    @classmethod
    def of(cls, X: Any) -> Size:
        if sparse.issparse(X):
            return cls(X.shape[0], int(X.indptr[-1]), X.shape[1], X.dtype, X.indices.dtype)
        return cls(X.shape[0], X.size, X.shape[1], X.dtype)

    @classmethod
    def listed(cls, blocks: Blocks, k: int) -> Size:
        """The size of a block on a disk, from the list of the blocks."""
        entry = blocks.entries[k]
        kinds = {name: np.dtype(kind) for name, (_, kind, _) in entry.arrays.items()}
        return cls(entry.n_rows, entry.n_stored, blocks.n_features, kinds["values"], kinds.get("indices"))

    def plus(self, other: Size) -> Size:
        """Sparse, if one of the two is."""
        kinds = [kind for kind in (self.indices, other.indices) if kind is not None]
        return Size(
            self.n_rows + other.n_rows,
            self.n_stored + other.n_stored,
            max(self.n_features, other.n_features),
            np.result_type(self.values, other.values),
            np.result_type(*kinds) if kinds else None,
        )

    @property
    def n_bytes(self) -> int:
        """What elements and indices take."""
        return self.n_stored * (self.values.itemsize + (0 if self.indices is None else self.indices.itemsize))

    def less_rows(self) -> Size:
        """The same for no rows."""
        return self._replace(n_rows=0, n_stored=0)


class Piece(NamedTuple):
    """Rows of one partition: its number, the place of the first of them, and the rows."""

    number: int
    start: int
    block: Block


class Collected(NamedTuple):
    """All rows. ``places`` has the number of a partition and the places of rows in it, for pieces in the order of the rows."""

    block: Block
    places: list[tuple[int, Array]]


class Stack:
    """Rows of a known size. Each piece goes to where it belongs."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.is_sparse = size.indices is not None
        self.values = np.empty(size.n_stored if self.is_sparse else (size.n_rows, size.n_features), size.values)
        if self.is_sparse:
            self.indices = np.empty(size.n_stored, size.indices)
            self.ends = np.zeros(size.n_rows + 1, size.indices if size.n_stored < 2**31 else np.int64)
        self.pieces: dict[int, tuple[int, int, Block]] = {}

    def write(self, piece: Piece, at: Size) -> Size:
        """Copy a piece behind rows that take ``at``. Returns what the rows take with it. The piece may be overwritten then."""
        X = piece.block.X
        if self.is_sparse:
            self._write_sparse(X if sparse.issparse(X) else _all_stored(X), at)
        else:
            self.values[at.n_rows : at.n_rows + X.shape[0]] = X
        self.pieces[at.n_rows] = piece.number, piece.start, _copied_labels(piece.block)
        return at.plus(Size.of(X))

    def _write_sparse(self, X: Any, at: Size) -> None:
        here = slice(at.n_stored, at.n_stored + int(X.indptr[-1]))
        self.values[here], self.indices[here] = X.data[: X.indptr[-1]], X.indices[: X.indptr[-1]]
        self.ends[at.n_rows + 1 : at.n_rows + len(X.indptr)] = X.indptr[1:]
        self.ends[at.n_rows + 1 : at.n_rows + len(X.indptr)] += at.n_stored

    def collected(self) -> Collected:
        """The rows, once all pieces are written. The pieces were checked where they came from."""
        X: Any = self.values
        if self.is_sparse:
            X = sparse.csr_matrix((self.values, self.indices, self.ends), (self.size.n_rows, self.size.n_features), copy=False)
            X.has_canonical_format = True
        pieces = [self.pieces[start] for start in sorted(self.pieces)]
        rests = [rest for _, _, rest in pieces]
        has_weights = any(rest.sample_weight is not None for rest in rests)
        weights = np.concatenate([_weights(rest) for rest in rests]) if has_weights else None
        places = [(number, np.arange(start, start + len(rest.y))) for number, start, rest in pieces]
        return Collected(Block(X, np.concatenate([rest.y for rest in rests]), weights), places)


def _copied_labels(block: Block) -> Block:
    """The labels and weights of a block, without its rows."""
    return Block(None, block.y.copy(), None if block.sample_weight is None else block.sample_weight.copy())


def _all_stored(X: Array) -> Any:
    """Dense rows as sparse ones with every element, as many as ``Size`` counts."""
    n, d = X.shape
    return sparse.csr_matrix((X.ravel(), np.tile(np.arange(d), n), np.arange(n + 1) * d), (n, d))


def _weights(block: Block) -> Array:
    return np.ones(len(block.y)) if block.sample_weight is None else block.sample_weight


def rows_between(block: Block, start: int, stop: int) -> Block:
    """Some rows of a block. Most of them are views."""
    X = block.X
    if sparse.issparse(X):
        first, last = int(X.indptr[start]), int(X.indptr[stop])
        starts = X.indptr[start : stop + 1] - first
        rows = sparse.csr_matrix((X.data[first:last], X.indices[first:last], starts), (stop - start, X.shape[1]), copy=False)
    else:
        rows = X[start:stop]
    weights = None if block.sample_weight is None else block.sample_weight[start:stop]
    return Block(rows, block.y[start:stop], weights)


class Portion(NamedTuple):
    """Rows of a partition: its number, the first of them, and the one after the last."""

    number: int
    start: int
    stop: int


def portions_of(sizes: Sequence[Size], n_bytes: int) -> Iterator[Portion]:
    """All rows of partitions of these sizes, in order, in portions of about ``n_bytes`` bytes at most."""
    for number, size in enumerate(sizes):
        n_pieces = min(size.n_rows, -(-size.n_bytes // n_bytes))
        edges = np.linspace(0, size.n_rows, n_pieces + 1).astype(int).tolist()
        yield from (Portion(number, *ends) for ends in pairwise(edges))

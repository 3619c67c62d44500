"""Writing blocks: each file whole or not at all, and the list after each of them, so that an interruption loses one piece."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.io.outputs import remove_unfinished, written
from maxmargin.scale_out import policy
from maxmargin.scale_out.block_list import FORMAT, FORMAT_KEY, LIST, Entry, aligned, read_list
from maxmargin.scale_out.blocks import Block, Blocks, arrays_of
from maxmargin.scale_out.sources import Reading, Source, source_of


def to_blocks(
    source: Any,
    folder: str | os.PathLike[str],
    *,
    y: Any = None,
    sample_weight: Any = None,
    label_column: str | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    dtype: Any = np.float64,
    block_bytes: int | None = None,
) -> Blocks:
    """Write a data set as blocks of rows on a disk, piece by piece, for fits of data that are larger than memory.

    Parameters
    ----------
    source : path, array, sparse matrix, or iterable
        A file of svmlight text (also .gz, .bz2, .xz, .zst), .npz, .csv, .parquet or .npy; an array (also memory-mapped); or an
        iterable of tuples (X, y) or (X, y, sample_weight). A .npz file is read whole; all others are read piece by piece.
    folder : path
        Where the blocks go. It is made if it is not there.
    y, sample_weight : array, optional
        For an array or a .npy file: the labels (an array or the path of a .npy file) and the weights of the samples.
    label_column : str, optional
        For .csv and .parquet: the column with the labels.
    n_features : int, optional
        For text: the width of X. Default: as many as the greatest index needs.
    zero_based : bool, default False
        For text: whether the first feature is called 0.
    dtype : float64 or float32
    block_bytes : int, optional
        The size of a block, about; 16 MB by default.

    Returns
    -------
    Blocks

    When the work is interrupted, or the disk is full, the blocks that are written stay. The same call goes on after them. (An
    iterable is asked again for the pieces that are written, and they are passed over.)

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from maxmargin.io import to_blocks
    >>> def pieces():
    ...     for seed in range(3):
    ...         X = np.random.default_rng(seed).normal(size=(100, 4))
    ...         yield X, np.where(X[:, 0] > 0, 1, -1)
    >>> blocks = to_blocks(pieces(), tempfile.mkdtemp())
    >>> blocks.n_samples, blocks.n_features
    (300, 4)
    """
    size = policy.BLOCKS.block_bytes if block_bytes is None else int(block_bytes)
    if size < 1:
        raise ValueError(f"block_bytes must be at least 1; got {block_bytes!r}.")
    reading = Reading(y, sample_weight, label_column, n_features, bool(zero_based), dtype, size)
    settings = [label_column, n_features, bool(zero_based), np.dtype(dtype).str, size]
    found = source_of(source, reading)
    writer = _Writer(Path(folder), {"stamp": found.stamp, "settings": settings}, n_features or 1)
    if not writer.is_complete:
        writer.write(_gathered(found, writer.n_pieces, size), size)
    return Blocks(folder)


def _gathered(source: Source, skip: int, size: int) -> Iterator[tuple[Block, int]]:
    """Pieces, and how many are done with each: small ones of the user's own are put together."""
    held: list[Block] = []
    n_pieces = skip
    for piece in source.pieces(skip):
        held.append(piece)
        n_pieces += 1
        if not source.merges or sum(block.nbytes for block in held) >= size:
            yield _joined(held), n_pieces
            held = []
    if held:
        yield _joined(held), n_pieces


def _joined(blocks: list[Block]) -> Block:
    """One after the other. Blocks of a sparse X may differ in width."""
    if len(blocks) == 1:
        return blocks[0]
    if len({block.sample_weight is None for block in blocks}) > 1:
        raise ValueError("Some pieces have weights and some have none.")
    weights = None if blocks[0].sample_weight is None else np.concatenate([block.sample_weight for block in blocks])
    if len({sparse.issparse(block.X) for block in blocks}) > 1:
        raise ValueError("Some pieces are sparse and some are dense.")
    if not sparse.issparse(blocks[0].X):
        _check_width({block.X.shape[1] for block in blocks})
        X: Any = np.concatenate([block.X for block in blocks])
    else:
        width = max(block.X.shape[1] for block in blocks)
        X = sparse.vstack([_widened(block.X, width) for block in blocks], format="csr")
    return Block(X, np.concatenate([block.y for block in blocks]), weights)


def _widened(X: Any, width: int) -> Any:
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def _check_width(widths: set[int]) -> None:
    if len(widths) > 1:
        raise ValueError(f"Pieces of a dense X must have one width; they have {sorted(widths)}.")


class OtherBlocks(ValueError):
    """A folder holds blocks that this call may neither use nor replace."""


class _Writer:
    """What is written so far, and the folder."""

    def __init__(self, folder: Path, source: dict[str, Any], n_features: int) -> None:
        self.folder, self.path = folder, folder / LIST
        folder.mkdir(parents=True, exist_ok=True)
        self.list: dict[str, Any] = {
            FORMAT_KEY: FORMAT,
            "source": source,
            "is_complete": False,
            "n_features": n_features,
            "is_sparse": None,
            "has_weights": None,
            "classes": {"labels": [], "dtype": None, "sums": []},
            "blocks": [],
        }
        if self.path.exists():
            self._take_over()
            remove_unfinished(folder)
        else:
            self._save()  # a process that is killed leaves no block without a list

    def _take_over(self) -> None:
        """What an earlier call has written of the same source."""
        found = read_list(self.folder)
        is_same = json.loads(json.dumps(self.list["source"])) == found["source"]
        if not is_same:
            raise OtherBlocks(
                f"{self.folder} holds the blocks of another source, or of other settings: delete it, or name another folder."
            )
        if found["source"]["stamp"] is None and found["is_complete"]:
            raise OtherBlocks(f"{self.folder} holds blocks already, and whether they come from this source cannot be checked.")
        self.list = found

    @property
    def is_complete(self) -> bool:
        return bool(self.list["is_complete"])

    @property
    def n_pieces(self) -> int:
        """Pieces of the source that are written whole. The blocks of one that is not are written again."""
        blocks = self.list["blocks"]
        while blocks and not blocks[-1]["n_pieces"]:
            blocks.pop()
        return int(blocks[-1]["n_pieces"]) if blocks else 0

    def write(self, pieces: Iterator[tuple[Block, int]], size: int) -> None:
        """One thread writes while this one prepares the next piece."""
        with ThreadPoolExecutor(1) as pool:
            writing: Future[None] | None = None
            for piece, n_pieces in pieces:
                if writing is not None:
                    writing.result()
                writing = pool.submit(self._write_piece, piece, n_pieces, size)
            if writing is not None:
                writing.result()
        if not any(block["n_rows"] for block in self.list["blocks"]):
            raise ValueError("The source holds no samples: there is nothing to write.")
        self.list["is_complete"] = True
        self._save()

    def _write_piece(self, piece: Block, n_pieces: int, size: int) -> None:
        self._note(piece)
        n_rows = piece.X.shape[0]
        n_parts = max(1, min(n_rows, -(-piece.nbytes // size)))
        edges = [n_rows * k // n_parts for k in range(n_parts + 1)]
        for start, stop in pairwise(edges):
            part = slice(start, stop)
            weights = None if piece.sample_weight is None else piece.sample_weight[part]
            block = piece if n_parts == 1 else Block(piece.X[part], piece.y[part], weights)
            self.list["blocks"].append(self._write_block(block, n_pieces if stop == n_rows else 0)._asdict())
        self._save()

    def _write_block(self, block: Block, n_pieces: int) -> Entry:
        """The file, and its place in the list."""
        name = f"{len(self.list['blocks']):06d}.block"
        places, at, checksum = {}, 0, 0
        with written(self.folder / name) as file:
            for array_name, array in arrays_of(block).items():
                places[array_name] = (at, array.dtype.str, array.shape)
                content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                gap = bytes(aligned(len(content)) - len(content))
                file.write(content.data)
                file.write(gap)
                checksum = zlib.crc32(gap, zlib.crc32(content.data, checksum))
                at += aligned(len(content))
        n_stored = block.X.nnz if sparse.issparse(block.X) else block.X.size
        return Entry(name, block.X.shape[0], int(n_stored), at, checksum, places, n_pieces)

    def _note(self, piece: Block) -> None:
        """The width, the layout and the labels, which the list has for all blocks."""
        is_sparse, has_weights = bool(sparse.issparse(piece.X)), piece.sample_weight is not None
        for name, value in (("is_sparse", is_sparse), ("has_weights", has_weights)):
            if self.list[name] is not None and self.list[name] != value:
                raise ValueError(f"Pieces must be alike: {name.replace('_', ' ')} is {value} here and was not before.")
            self.list[name] = value
        if not is_sparse and self.list["blocks"]:
            _check_width({self.list["n_features"], piece.X.shape[1]})
        self.list["n_features"] = max(int(self.list["n_features"]), piece.X.shape[1])
        self._note_labels(piece)

    def _note_labels(self, piece: Block) -> None:
        known = self.list["classes"]
        if known is None:
            return
        labels, places = np.unique(piece.y, return_inverse=True)
        sums = np.bincount(places, piece.sample_weight, len(labels))
        if known["dtype"] is not None:
            before = np.array(known["labels"], dtype=known["dtype"])
            joined, at = np.unique(np.concatenate([before, labels]), return_inverse=True)
            labels, sums = joined, np.bincount(at, np.concatenate([known["sums"], sums]), len(joined))
        is_short = len(labels) <= policy.BLOCKS.most_classes
        self.list["classes"] = _listed(labels, sums) if is_short else None

    def _save(self) -> None:
        with written(self.path) as file:
            file.write(json.dumps(self.list).encode())


def _listed(labels: Array, sums: Array) -> dict[str, Any]:
    return {"labels": labels.tolist(), "dtype": labels.dtype.str, "sums": sums.tolist()}

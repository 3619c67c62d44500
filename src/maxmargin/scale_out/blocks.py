"""Blocks of rows on a disk.

A folder holds ``blocks.json``, which lists the blocks in order, and one file for each block. A file is a row of arrays: the
values of X (for a sparse X also its indices and the starts of its rows), the labels, and the weights of the samples if there
are any. Each array begins at a multiple of 64 bytes. The list has the place, type and shape of each array, and the CRC-32 of
the file, which is compared when a block is first read by a process. Later reads compare the size and the time of the last
change.

Blocks are read into a buffer and never memory-mapped. Mapped pages would count towards the memory of the process until the
system drops them, and a file that another process truncates would crash this one.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array, sound
from maxmargin.io.files import MalformedFile
from maxmargin.io.outputs import remove_unfinished
from maxmargin.scale_out.block_list import ALIGNMENT, LIST, Entry, labels_of, read_list


class Block(NamedTuple):
    """Some rows of X, their labels, and their weights if they have any."""

    X: Any
    y: Array
    sample_weight: Array | None = None

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in arrays_of(self).values())


class DamagedBlock(MalformedFile):
    """A block that is missing, or not what was written."""

    def __init__(self, path: Path, sentence: str) -> None:
        super().__init__(path, f"{sentence}; delete the folder and write the blocks again: their source is untouched")


def arrays_of(block: Block) -> dict[str, Array]:
    """The arrays of a block by their names, in the order of the file."""
    X = block.X
    arrays = {"values": X.data, "indices": X.indices, "indptr": X.indptr} if sparse.issparse(X) else {"values": X}
    arrays["y"] = block.y
    return arrays if block.sample_weight is None else {**arrays, "sample_weight": block.sample_weight}


class Blocks:
    """A data set in blocks on a disk, made by :func:`maxmargin.io.to_blocks`: what ``fit_blocks`` trains on.

    Parameters
    ----------
    folder : path
        Where the blocks are.

    Attributes
    ----------
    n_samples, n_features : int
    n_bytes : int
        The size of all blocks together.
    is_sparse : bool
    classes : array or None
        The labels that occur, or None if they are more than 10,000.

    ``len(blocks)`` is the number of blocks, and ``blocks[k]`` reads one: X, y, and the weights of its samples or None.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from maxmargin.io import Blocks, to_blocks
    >>> X, y = np.eye(6), np.array([0, 1, 0, 1, 0, 1])
    >>> folder = tempfile.mkdtemp()
    >>> _ = to_blocks(X, folder, y=y, block_bytes=200)
    >>> blocks = Blocks(folder)
    >>> len(blocks), blocks.n_samples, blocks.classes
    (3, 6, array([0, 1]))
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.description = read_list(self.folder)
        self.entries = [Entry.of(each) for each in self.description["blocks"]]
        self._seen: dict[int, tuple[int, int]] = {}
        self._lock = threading.Lock()
        if not self.description["is_complete"]:
            raise MalformedFile(
                self.folder / LIST, "the blocks are incomplete; call to_blocks again, and it continues from here"
            )

    @property
    def n_samples(self) -> int:
        return sum(entry.n_rows for entry in self.entries)

    @property
    def n_features(self) -> int:
        return int(self.description["n_features"])

    @property
    def n_bytes(self) -> int:
        return sum(entry.n_bytes for entry in self.entries)

    @property
    def most_bytes(self) -> int:
        """The size of the largest block."""
        return max(entry.n_bytes for entry in self.entries)

    @property
    def is_sparse(self) -> bool:
        return bool(self.description["is_sparse"])

    @property
    def classes(self) -> Array | None:
        return labels_of(self.description)

    @property
    def class_sums(self) -> Array:
        """The weights of the samples of each class, added up: their number where they have no weights."""
        return np.array(self.description["classes"]["sums"], dtype=np.float64)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, k: int) -> Block:
        return self.read(range(len(self))[k])

    def __iter__(self) -> Iterator[Block]:
        return (self.read(k) for k in range(len(self)))

    def __repr__(self) -> str:
        size = f"{self.n_samples} x {self.n_features}, {self.n_bytes / 1e6:.1f} MB"
        return f"<Blocks in {str(self.folder)!r}: {len(self)} of them, {size}>"

    def read(self, k: int, buffer: Array | None = None) -> Block:
        """Block k, in ``buffer`` if that is given: an array of bytes, at least as long as the block and a little more."""
        entry, path = self.entries[k], self.folder / self.entries[k].file
        with _opened(path, entry.n_bytes) as file:
            buffer = np.empty(entry.n_bytes + ALIGNMENT, np.uint8) if buffer is None else buffer
            content = buffer[-buffer.ctypes.data % ALIGNMENT :][: entry.n_bytes]
            stamp = _fill(file, path, content)
        block = _block(entry, content, self.n_features)
        self._check(k, path, content, block, stamp)
        return block

    def _check(self, k: int, path: Path, content: Array, block: Block, stamp: tuple[int, int]) -> None:
        """Check the checksum and the indices at the first read, and later that the file is the same one."""
        with self._lock:
            is_known = self._seen.get(k) == stamp
        if is_known:
            return
        if zlib.crc32(content.data) != self.entries[k].checksum:
            raise DamagedBlock(path, "the block has changed: its checksum differs from the one that was written")
        try:
            check_values(block, self.classes)
        except ValueError as error:
            raise DamagedBlock(path, str(error).rstrip(".")) from None
        with self._lock:
            self._seen[k] = stamp

    @property
    def fingerprint(self) -> str:
        """What tells these data from others: the shape and all checksums."""
        text = json.dumps([self.n_features, [[entry.n_rows, entry.checksum] for entry in self.entries]])
        return f"{zlib.crc32(text.encode()):08x}-{self.n_samples}-{self.n_features}"


def check_values(block: Block, classes: Array | None = None, start: int = 0) -> None:
    """Raise a ValueError that says what is wrong with the numbers of a block. ``start`` is the number of its first row."""
    X, y, weights = block
    if not np.isfinite(sound(X).data if sparse.issparse(X) else X).all():
        raise ValueError(f"X holds a value that is not finite, in the rows {start} to {start + X.shape[0] - 1}.")
    if sparse.issparse(X) and not sparse.csr_matrix((X.data, X.indices, X.indptr), X.shape).has_canonical_format:
        raise ValueError("The sparse X is broken: the indices of a row must rise.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"A label is not finite: that of row {start + int(np.argmin(np.isfinite(y)))}.")
    if classes is not None and not np.isin(y, classes).all():
        raise ValueError("It holds a label that the list of blocks does not have.")
    if weights is not None and not (weights.shape == y.shape and np.isfinite(weights).all() and np.all(weights >= 0.0)):
        raise ValueError(f"Weights must be finite, not negative, and one a row; those from row {start} on are not.")


def remove_blocks(folder: Path) -> None:
    """Remove the files that the list names, what a killed process has left half-written, and the list. The folder goes, too, if
    nothing else is in it."""
    for entry in read_list(folder)["blocks"]:
        (folder / entry["file"]).unlink(missing_ok=True)
    remove_unfinished(folder)
    (folder / LIST).unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def _opened(path: Path, n_bytes: int) -> Iterator[Any]:
    """The file of a block, if it has this size: what a list says is not allocated before the file has shown it."""
    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size != n_bytes:
                raise DamagedBlock(path, f"the block has {size} bytes, not the {n_bytes} that were written")
            yield file
    except FileNotFoundError:
        raise DamagedBlock(path, "the block is missing") from None


def _fill(file: Any, path: Path, content: Array) -> tuple[int, int]:
    """Read a whole file into ``content``. Returns its size and the time of its last change."""
    status, filled = os.fstat(file.fileno()), 0
    while filled < len(content):
        n_read = file.readinto(content.data[filled:])
        if not n_read:
            raise DamagedBlock(path, "the block ends too early")
        filled += n_read
    return status.st_size, status.st_mtime_ns


def _block(entry: Entry, content: Array, n_features: int) -> Block:
    """Views of the arrays in the bytes of a file."""
    arrays = {}
    for name, (at, kind, shape) in entry.arrays.items():
        dtype = np.dtype(kind)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        arrays[name] = content[at : at + n_bytes].view(dtype).reshape(shape)
    X = arrays["values"]
    if "indptr" in arrays:
        matrix = sparse.csr_matrix((entry.n_rows, n_features), dtype=X.dtype)
        # SciPy's constructor copies arrays that are short parts of a longer one.
        matrix.data, matrix.indices, matrix.indptr = X, arrays["indices"], arrays["indptr"]
        matrix.has_canonical_format = True  # the first read looks
        X = matrix
    return Block(X, arrays["y"], arrays.get("sample_weight"))

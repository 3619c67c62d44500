"""Opening for reading, replacing as a whole, and complaining with file, line and column."""

from __future__ import annotations

import bz2
import gzip
import lzma
import mmap
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from maxmargin.data import Array


class MalformedFile(ValueError):
    """A file that is not what it should be. The message names the file and, where it can, the line and the column."""

    def __init__(self, path: str | os.PathLike[str], sentence: str, line: int | None = None, column: int | None = None) -> None:
        self.path, self.sentence, self.line, self.column = Path(path), sentence, line, column
        where = "" if line is None else f", line {line}" + ("" if column is None else f", column {column}")
        super().__init__(f"{self.path}{where}: {sentence}.")

    def after(self, n_lines: int) -> MalformedFile:
        """The same complaint about a piece of a file that begins after ``n_lines`` lines."""
        return self if self.line is None else MalformedFile(self.path, self.sentence, self.line + n_lines, self.column)

    @classmethod
    def at(cls, path: str | os.PathLike[str], text: Array, position: int, sentence: str) -> MalformedFile:
        """A complaint about the byte at ``position``; lines and columns count from 1."""
        before = text[:position]
        line_start = int(np.flatnonzero(before == ord("\n"))[-1]) + 1 if (before == ord("\n")).any() else 0
        line = 1 + int(np.count_nonzero(before == ord("\n")))
        return cls(path, sentence, line, position - line_start + 1)


def _blocks(opener: Callable[..., Any]) -> Callable[[Path], Iterator[bytes]]:
    def read(path: Path) -> Iterator[bytes]:
        with opener(path) as file:
            while block := file.read(BLOCK_BYTES):
                yield block

    return read


_plain_blocks = _blocks(partial(open, mode="rb"))


def _zstd_blocks(path: Path) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise ImportError("Reading .zst files needs the package zstandard: pip install maxmargin[files].") from None
    frame = zstandard.ZstdDecompressor().decompressobj()
    fresh = True
    for packed in _plain_blocks(path):
        while packed:
            if frame.eof:
                frame, fresh = zstandard.ZstdDecompressor().decompressobj(), True
            try:
                yield frame.decompress(packed)
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from error
            fresh, packed = False, frame.unused_data if frame.eof else b""
    if not fresh and not frame.eof:  # the library itself would return what it has, and say nothing
        raise EOFError("a frame ends too early")


BLOCK_BYTES = 1 << 22
DECOMPRESSORS: dict[str, Callable[[Path], Iterator[bytes]]] = {
    ".gz": _blocks(gzip.open),
    ".bz2": _blocks(bz2.open),
    ".xz": _blocks(lzma.open),
    ".zst": _zstd_blocks,
}
BROKEN_ARCHIVE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)


def bytes_of(path: Path) -> Array:
    """The bytes of a file: mapped, or decompressed if the name ends in .gz, .bz2, .xz or .zst."""
    if path.suffix in DECOMPRESSORS:
        content = b"".join(_decompressed(path))
        if not content:
            raise MalformedFile(path, "it is empty")
        return np.frombuffer(content, np.uint8)
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise MalformedFile(path, "it is empty")
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def windows_of(path: Path, size: int) -> Iterator[Array]:
    """The bytes of a file of any size, in pieces of whole lines of about ``size`` bytes; never more than two in memory."""
    rest = b""
    for block in _decompressed(path) if path.suffix in DECOMPRESSORS else _plain_blocks(path):
        rest += block
        if len(rest) >= size and (cut := rest.rfind(b"\n") + 1):
            yield np.frombuffer(rest[:cut], np.uint8)
            rest = rest[cut:]
    if rest:
        yield np.frombuffer(rest, np.uint8)


def _decompressed(path: Path) -> Iterator[bytes]:
    try:
        yield from DECOMPRESSORS[path.suffix](path)
    except BROKEN_ARCHIVE as error:
        raise MalformedFile(path, f"the archive is truncated or damaged ({error})") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise MalformedFile(path, f"the archive is truncated or damaged ({error})") from error


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Write under a temporary name in the same folder, sync, and rename: the old file stays until the new one is whole."""
    path = Path(path)
    handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(unfinished, 0o666 & ~_umask())
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

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
from pathlib import Path
from typing import IO, Any

import numpy as np

from maxmargin.data import Array


class MalformedFile(ValueError):
    """A file that is not what it should be. The message names the file and, where it can, the line and the column."""

    def __init__(self, path: str | os.PathLike[str], sentence: str, line: int | None = None, column: int | None = None) -> None:
        self.path, self.sentence, self.line, self.column = Path(path), sentence, line, column
        where = "" if line is None else f", line {line}, column {column}"
        super().__init__(f"{self.path}{where}: {sentence}.")

    @classmethod
    def at(cls, path: str | os.PathLike[str], text: Array, position: int, sentence: str) -> MalformedFile:
        """A complaint about the byte at ``position``; lines and columns count from 1."""
        before = text[:position]
        line_start = int(np.flatnonzero(before == ord("\n"))[-1]) + 1 if (before == ord("\n")).any() else 0
        line = 1 + int(np.count_nonzero(before == ord("\n")))
        return cls(path, sentence, line, position - line_start + 1)


def _reader(opener: Callable[..., Any]) -> Callable[[Path], bytes]:
    def read(path: Path) -> bytes:
        with opener(path) as file:
            content: bytes = file.read()
        return content

    return read


def _read_zstd(path: Path) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise ImportError("Reading .zst files needs the package zstandard: pip install maxmargin[files].") from None
    content, frames = path.read_bytes(), []
    while content:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            frames.append(frame.decompress(content))
        except zstandard.ZstdError as error:
            raise EOFError(str(error)) from error
        if not frame.eof:  # the library itself would return what it has, and say nothing
            raise EOFError("a frame ends too early")
        content = frame.unused_data
    return b"".join(frames)


DECOMPRESSORS: dict[str, Callable[[Path], bytes]] = {
    ".gz": _reader(gzip.open),
    ".bz2": _reader(bz2.open),
    ".xz": _reader(lzma.open),
    ".zst": _read_zstd,
}
BROKEN_ARCHIVE = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)


def bytes_of(path: Path) -> Array:
    """The bytes of a file: mapped, or decompressed if the name ends in .gz, .bz2, .xz or .zst."""
    decompress = DECOMPRESSORS.get(path.suffix)
    if decompress is not None:
        return np.frombuffer(_decompressed(path, decompress), np.uint8)
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise MalformedFile(path, "it is empty")
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def _decompressed(path: Path, decompress: Callable[[Path], bytes]) -> bytes:
    try:
        content = decompress(path)
    except BROKEN_ARCHIVE as error:
        raise MalformedFile(path, f"the archive is truncated or damaged ({error})") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise MalformedFile(path, f"the archive is truncated or damaged ({error})") from error
    if not content:
        raise MalformedFile(path, "it is empty")
    return content


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

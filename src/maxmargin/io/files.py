"""Reading a stranger's file. Memory is bounded, and an error is one sentence that names the file, the line and the column.

Every reader works inside :func:`explained`, so that whatever a library below raises becomes a :class:`MalformedFile`.
"""

from __future__ import annotations

import bz2
import gzip
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.io import policy


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
        before = text[:position].tobytes()
        return cls(path, sentence, 1 + before.count(b"\n"), position - before.rfind(b"\n"))


@contextmanager
def explained(path: str | os.PathLike[str], sentence: str) -> Iterator[None]:
    """The boundary of every reader: whatever goes wrong inside is said of the file, in one sentence.

    The libraries below raise some twenty kinds of errors for a damaged or hostile file, and new versions raise new kinds, so a
    list of them would never be complete. Two errors are passed on, because they are not about the content: a file that cannot
    be opened, and a package that is not installed.
    """
    try:
        yield
    except (MalformedFile, ImportError):
        raise
    except MemoryError as error:
        raise MalformedFile(path, "its content does not fit in memory") from error
    except RecursionError as error:
        raise MalformedFile(path, f"{sentence} (it is nested too deeply)") from error
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:  # it could not be opened
            raise
        raise MalformedFile(path, f"{sentence} ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    """The first line of a library's message, without its full stop, cut to the length of a line."""
    words = str(error).strip().split("\n")[0][:200].removesuffix(".")
    return words or type(error).__name__


def is_regular(path: Path) -> bool:
    """Whether the path is a regular file: it has a size, and is no device and no pipe."""
    return stat.S_ISREG(os.stat(path).st_mode)


def _blocks(opener: Callable[..., Any]) -> Callable[[Path], Iterator[bytes]]:
    def read(path: Path) -> Iterator[bytes]:
        with opener(path) as file:
            while block := file.read(policy.READING.block_bytes):
                yield block

    return read


_plain_blocks = _blocks(partial(open, mode="rb"))


def _xz_blocks(path: Path) -> Iterator[bytes]:
    """``lzma.open`` with a limit on the memory of the decoder, which the header of a file may set to gigabytes."""
    import lzma

    decoder = None  # between two streams
    for packed in _plain_blocks(path):
        while packed or (decoder is not None and not decoder.needs_input):
            if decoder is None:
                packed = packed.lstrip(b"\0")  # the end of a stream may be padded
                if not packed:
                    break
                decoder = lzma.LZMADecompressor(memlimit=policy.READING.xz_memory_bytes)
            yield decoder.decompress(packed, policy.READING.block_bytes)
            packed = decoder.unused_data if decoder.eof else b""
            decoder = None if decoder.eof else decoder
    if decoder is not None:
        raise EOFError("a stream ends too early")


def _zstd_blocks(path: Path) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise ImportError("Reading .zst files needs the package zstandard: pip install maxmargin[files].") from None
    frame = zstandard.ZstdDecompressor().decompressobj()
    fresh = True
    for block in _plain_blocks(path):
        for start in range(0, len(block), policy.READING.packed_bytes):
            packed = block[start : start + policy.READING.packed_bytes]
            while packed:
                if frame.eof:
                    frame, fresh = zstandard.ZstdDecompressor().decompressobj(), True
                yield frame.decompress(packed)
                fresh, packed = False, frame.unused_data if frame.eof else b""
    if not fresh and not frame.eof:  # the library itself would return a part, and raise no error
        raise EOFError("a frame ends too early")


DECOMPRESSORS: dict[str, Callable[[Path], Iterator[bytes]]] = {
    ".gz": _blocks(gzip.open),
    ".bz2": _blocks(bz2.open),
    ".xz": _xz_blocks,
    ".zst": _zstd_blocks,
}


def is_packed(path: Path) -> bool:
    return path.suffix in DECOMPRESSORS


def blocks_of(path: Path) -> Iterator[bytes]:
    """The bytes of a file, decompressed if the name ends in .gz, .bz2, .xz or .zst, some at a time."""
    if not is_packed(path):
        yield from _plain_blocks(path)
        return
    with explained(path, "the archive is truncated or damaged"):
        yield from DECOMPRESSORS[path.suffix](path)


def windows_of(path: Path, size: int) -> Iterator[Array]:
    """The bytes of a file of any size, in pieces of whole lines of about ``size`` bytes; never more than two in memory.

    Every byte is searched for a line end once, and a line without one ends at ``most_line_bytes``.
    """
    rest, searched, n_lines = bytearray(), 0, 0
    for block in blocks_of(path):
        rest += block
        if len(rest) < size:
            continue
        cut = rest.rfind(b"\n", searched) + 1
        searched = len(rest)
        if cut:
            window = read_only(np.frombuffer(rest, np.uint8, cut))  # no copy: what follows the cut goes on elsewhere
            n_lines += lines_in(window)
            rest, searched = rest[cut:], 0
            yield window
        if len(rest) > policy.READING.most_line_bytes:
            raise too_long(path, n_lines + 1)
    if rest:
        yield read_only(np.frombuffer(rest, np.uint8))


def lines_in(text: Array) -> int:
    """The number of line ends, counted in pieces that stay in the cache."""
    size = policy.READING.counted_bytes
    return sum(int(np.count_nonzero(text[at : at + size] == ord("\n"))) for at in range(0, len(text), size))


def too_long(path: Path, line: int | None = None) -> MalformedFile:
    return MalformedFile(
        path, f"a line is longer than {policy.READING.most_line_bytes} bytes: it is not a text file of samples", line
    )


def read_only(array: Array) -> Array:
    """The bytes as a read-only array, so that the parser is compiled for one type only."""
    array.flags.writeable = False
    return array

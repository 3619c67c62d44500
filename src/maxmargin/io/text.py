"""The text of a data file in pieces: on disk, read anew for every pass, or in memory.

A file is never mapped. Another process can truncate or rewrite it at any time: a map would end the process with SIGBUS, and
what a first pass has counted would not be there in the second. Each piece is read into memory of its own instead, and whoever
needs two passes compares what the second finds with the first (:class:`Changed`).
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.io.files import MalformedFile, read_only


class Text(Protocol):
    @property
    def size(self) -> int: ...

    def piece(self, start: int, stop: int) -> Array:
        """The bytes ``start:stop``, read-only."""


class Changed(MalformedFile):
    """A file that another process changed while it was read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "it changed while it was being read: nothing is made of it")


class TextInMemory:
    def __init__(self, content: Array) -> None:
        self.content = content

    @property
    def size(self) -> int:
        return len(self.content)

    def piece(self, start: int, stop: int) -> Array:
        return self.content[start:stop]


class TextOnDisk:
    """A regular file that is open; its pieces may be asked for by several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115, closed by __exit__
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        return int(self._stamp[0])

    def piece(self, start: int, stop: int) -> Array:
        buffer = np.empty(stop - start, np.uint8)
        view, filled = buffer.data, 0
        with self._lock:
            self._file.seek(start)
            while filled < len(buffer):
                n_read = self._file.readinto(view[filled:])
                if not n_read:
                    raise Changed(self.path)
                filled += n_read
        return read_only(buffer)

    def check_unchanged(self) -> None:
        if self._stamp_now() != self._stamp:
            raise Changed(self.path)

    def _stamp_now(self) -> tuple[Any, ...]:
        """Size and time of the last change."""
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns

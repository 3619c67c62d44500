"""Writing files whole or not at all, without losing any other file.

A regular file is written under a temporary name in its folder, synced and renamed, and keeps the permissions of the file that
it replaces. A symbolic link is followed. A device, a pipe and an open descriptor (/dev/null, /dev/stdout) are written through.
Commands check their outputs before the work begins (:meth:`Output.check`).
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

DESCRIPTOR = re.compile(r"/dev/(?:fd/(?P<number>\d+)|(?P<name>stdout|stderr))|/proc/self/fd/(?P<proc>\d+)")
"""Names of files that are already open. Opening them again would write over their content."""
STANDARD = {"stdout": 1, "stderr": 2}
TEMPORARY = ".maxmargin-"
"""The beginning of temporary names. They have one length, so that they fit even where the file name is as long as allowed."""

NAME_OF_TEMPORARY = re.compile(re.escape(TEMPORARY) + "[0-9a-f]{16}")


@dataclass(frozen=True)
class Output:
    """Where a command writes. The output repeats parts of the file ``source``, so a user who may not read the source may not
    read the output either."""

    path: Path
    source: Path | None = None

    def check(self, *inputs: Path | None) -> None:
        """Raise an error, before any work, if the output cannot be written or would destroy one of the inputs."""
        if _descriptor(self.path) is not None:
            return
        status = _status(self.path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise _error(IsADirectoryError, errno.EISDIR, self.path)
        for other in inputs:
            if other is not None and self.is_same_file(other):
                raise ValueError(f"{self.path} would be written over {other}, which this command uses: name another output.")
        if status is None and not self.target.parent.is_dir():
            raise _error(FileNotFoundError, errno.ENOENT, self.path)
        if not os.access(self.target.parent if status is None else self.target, os.W_OK):
            raise _error(PermissionError, errno.EACCES, self.path)
        if status is None:
            self._try_to_write()

    def _try_to_write(self) -> None:
        """Write a file to find out. Some folders only claim to be writable: in /proc, or for root on a foreign file system."""
        with self._named():
            trial = self._temporary()
            os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.unlink(trial)

    def _temporary(self) -> Path:
        return self.target.parent / f"{TEMPORARY}{secrets.token_hex(8)}"

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Name the user's output in an error of the system, which names the temporary file, or none where the disk is full."""
        try:
            yield
        except BrokenPipeError:  # the reader has closed it, and the command ends without a word
            raise
        except OSError as error:
            is_ours = error.filename is None or os.path.basename(str(error.filename)).startswith(TEMPORARY)
            if not is_ours or error.errno is None:
                raise
            raise type(error)(error.errno, error.strerror, str(self.path)) from error

    @property
    def target(self) -> Path:
        """The file behind all symbolic links."""
        return Path(os.path.realpath(self.path))

    def is_same_file(self, other: Path) -> bool:
        """Whether both are one regular file, or would be; a device may be used twice."""
        mine, its = _status(self.path), _status(other)
        if mine is None or its is None:
            return mine is its and self.target == Path(os.path.realpath(other))
        return stat.S_ISREG(mine.st_mode) and os.path.samestat(mine, its)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """A file to write to; a regular one takes the place of the old one when the block ends without an error."""
        with self._named(), self._opened() as file:
            yield file

    def _opened(self) -> AbstractContextManager[IO[bytes]]:
        descriptor, status = _descriptor(self.path), _status(self.path)
        if descriptor is not None:
            return os.fdopen(os.dup(descriptor), "wb")
        if status is not None and not (stat.S_ISREG(status.st_mode) and _can_be_replaced(self.target, status)):
            return open(self.path, "wb")
        return self._replaced(status)

    @contextmanager
    def _replaced(self, status: os.stat_result | None) -> Iterator[IO[bytes]]:
        unfinished = self._temporary()
        mode = 0o666 & self._mode_of_source() if status is None else 0o600
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        try:
            with os.fdopen(handle, "wb") as file:
                if status is not None:
                    _take_over(handle, unfinished, status)
                yield file
                file.flush()
                os.fsync(handle)
            os.replace(unfinished, self.target)
        except BaseException:
            os.unlink(unfinished)
            raise

    def _mode_of_source(self) -> int:
        """The permissions to read the source, or None where the source is a device or a pipe."""
        status = None if self.source is None else _status(self.source)
        if status is None or not stat.S_ISREG(status.st_mode):
            return 0o777
        return stat.S_IMODE(status.st_mode) | stat.S_IRUSR | stat.S_IWUSR


def written(path: str | os.PathLike[str] | Output) -> AbstractContextManager[IO[bytes]]:
    """``Output.open`` for a path or an output."""
    return (path if isinstance(path, Output) else Output(Path(path))).open()


def remove_unfinished(folder: Path) -> None:
    """Remove temporary files that killed processes have left in a folder of ours, where nobody else writes."""
    for path in folder.iterdir():
        if NAME_OF_TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _descriptor(path: Path) -> int | None:
    found = DESCRIPTOR.fullmatch(str(path))
    if found is None:
        return None
    return STANDARD[found["name"]] if found["name"] else int(found["number"] or found["proc"])


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _can_be_replaced(target: Path, status: os.stat_result) -> bool:
    """Whether a new file can get the folder, the owner and the group of the old one. If not, the old file is written over."""
    if not os.access(target.parent, os.W_OK | os.X_OK):
        return False
    if os.name != "posix" or os.geteuid() == 0:
        return True
    return status.st_uid == os.geteuid() and status.st_gid in (os.getegid(), *os.getgroups())


def _take_over(handle: int, path: Path, status: os.stat_result) -> None:
    """Give the new file the owner, the group and the permissions of the file that it replaces."""
    if os.name == "posix":
        os.fchown(handle, status.st_uid, status.st_gid)
    os.chmod(path, stat.S_IMODE(status.st_mode))


def _error(kind: type[OSError], number: int, path: Path) -> OSError:
    return kind(number, os.strerror(number), str(path))

"""``njit`` with a cache on disk that never stands in the way.

Numba keeps compiled functions in the package's folder, in the user's cache, or where ``NUMBA_CACHE_DIR`` says. If none of these
folders can be written, Numba's own ``njit(cache=True)`` fails when a module is imported. If a file of the cache is damaged, it
fails at the first call. The ``njit`` of this module compiles without a cache in the first case, and says so once. In the second
case it compiles the function again: every file begins with a digest of its content. The digest shows damage. It is no
signature. Numba unpickles what it loads, so nobody but its user may be able to write to a cache folder.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime.nrt import rtsys

import maxmargin.data.compiling  # noqa: F401  (hears of every compilation)
from maxmargin.data.plain_compiler import PlainCompiler

DIGEST_BYTES = 32

_said: list[str] = []


class Damaged(OSError):
    """A cache file whose digest is wrong, or which names what is no longer there. It is an OSError, because Numba then takes
    the file for missing, and compiles."""


class CheckedFile(IndexDataCacheFile):
    """The index and the data of one function, each file with a digest of Numba's version and the content in front."""

    def _load_index(self) -> Any:
        try:
            stamp, overloads = self._load(self._index_path)
        except OSError:
            return {}
        return overloads if stamp == self._source_stamp else {}

    def _save_index(self, overloads: Any) -> None:
        self._save(self._index_path, (self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._load(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._save(self._data_path(name), data)

    def _load(self, path: str) -> Any:
        with open(path, "rb") as file:
            content = file.read()
        if content[:DIGEST_BYTES] != self._digest(content[DIGEST_BYTES:]):
            raise Damaged(path)
        try:
            return pickle.loads(content[DIGEST_BYTES:])
        except (AttributeError, ImportError) as error:  # another version of maxmargin wrote it, and a class has moved since
            raise Damaged(path) from error

    def _save(self, path: str, value: Any) -> None:
        content = self._dump(value)
        with self._open_for_write(path) as file:
            file.write(self._digest(content) + content)

    def _digest(self, content: bytes) -> bytes:
        return hashlib.sha256(self._version.encode() + content).digest()


class ForgivingCache(FunctionCache):
    """A cache whose files may be damaged, and whose folder may become full or unwritable."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = CheckedFile(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Load the compiled function, if the cache holds it, without what only a compilation needs.

        Numba would first import every function that it can compile, which takes 0.2 s in a process that compiles nothing.
        Loaded code needs only the runtime of reference counts. A compilation that follows a miss imports the rest itself."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, target_context)

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except OSError as error:
            say_once(str(error))


def say_once(reason: str) -> None:
    if not _said:
        _said.append(reason)
        sentence = f"Compiled code cannot be kept for the next process, which will compile again ({reason})."
        warnings.warn(sentence, RuntimeWarning, stacklevel=2)


def njit(*, cache: bool = False, allocates: bool = True, **options: Any) -> Callable[[Any], Any]:
    """``numba.njit``, with the cache above where ``cache`` asks for one.

    A loop that neither makes an array nor returns one, and is otherwise plain as ``plain_compiler`` has it, says
    ``allocates=False``. Numba then counts no references to its arrays, which belong to the caller, and leaves out passes that
    such a loop has no use for: it is compiled in a tenth to a half less time."""

    def compiled(function: Any) -> Any:
        passes = {} if allocates else {"pipeline_class": PlainCompiler}
        numbas = {"no_cfunc_wrapper": True, "_nrt": allocates} | passes | options  # nobody calls it from C
        dispatcher: Any = numba.njit(**numbas)(function)
        if cache:
            try:
                dispatcher._cache = ForgivingCache(function)
            except RuntimeError:  # Numba finds no folder that it can write to
                say_once("no folder for it can be written")
        return dispatcher

    return compiled

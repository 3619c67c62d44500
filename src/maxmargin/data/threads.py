"""Threads that share the samples of one problem. The compiled loops release the GIL, so they run side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

from maxmargin.data.limits import check_point, tell

T = TypeVar("T")


@dataclass(frozen=True)
class ThreadPolicy:
    """When work is shared among threads."""

    elements_a_thread: int = 1 << 20
    """Stored elements of X for each thread. With fewer, a thread costs more than it saves."""


POLICY = ThreadPolicy()
"""The policy of this process."""


_most_cores: ContextVar[int | None] = ContextVar("most_cores", default=None)


def available_cores() -> int:
    """The cores that this process may use, and at most those of ``at_most_cores``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _most_cores.get() or cores)


@contextmanager
def at_most_cores(n_cores: int) -> Iterator[None]:
    """A context in which work is shared among at most so many threads: a worker of a cluster is given a number of them."""
    token = _most_cores.set(n_cores)
    try:
        yield
    finally:
        _most_cores.reset(token)


class _SingleThreadedBlas:
    """A limit on the threads of BLAS for the whole process. The first thread to enter sets it, the last one to leave takes it
    off. If each thread restored what it found, two threads that leave in the order in which they came would leave the limit
    behind.

    threadpoolctl 3.8 obeys only the first thread that ever set a limit. A limit from another thread silently does nothing: BLAS
    then used one core in the main thread and all cores elsewhere, and the same fit gave other bits there. So the claim of that
    first thread is given up before each change, which the lock makes safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [library.get_num_threads() for library in _libraries()]
                self._set([1] * len(self._before))
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._set(self._before)

    def _set(self, numbers: list[int]) -> None:
        """Nothing is to be set where BLAS uses one thread anyway, as on a single core: setting takes 50 microseconds."""
        if any(number != 1 for number in self._before):
            _set_threads(numbers)


_blas = _SingleThreadedBlas()


def single_threaded_blas() -> _SingleThreadedBlas:
    """A context in which BLAS and LAPACK use one thread. Their own threads spin while they wait, which makes small
    factorisations 5 to 20 times slower as soon as another core is busy."""
    return _blas


@cache
def _libraries() -> list[Any]:
    """The loaded libraries of linear algebra. Each is set directly: threadpoolctl's own context takes 0.1 ms."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _set_threads(numbers: list[int]) -> None:
    _give_up_claims()
    for library, number in zip(_libraries(), numbers, strict=True):
        library.set_num_threads(number)
    _give_up_claims()


def _give_up_claims() -> None:
    """Let any thread set the number of BLAS threads, whichever thread did so before."""
    for library in _libraries():
        give_up = getattr(library, "clear_controlling_thread", None)  # since threadpoolctl 3.8
        if give_up is not None:
            give_up(force=True)


def threads_for(n_stored: int, overhead: int = 0, policy: ThreadPolicy | None = None) -> int:
    """How many threads share ``n_stored`` elements, if each touches ``overhead`` more elements of its own. There is one for
    each core, or fewer where a thread would have too little to do."""
    most = n_stored // ((policy or POLICY).elements_a_thread + overhead)
    return min(available_cores(), most) if most > 1 else 1


class Crew:
    """The threads that share a job."""

    def __init__(self, n_stored: int, overhead: int = 0, policy: ThreadPolicy | None = None) -> None:
        """Start as many threads as ``threads_for`` says."""
        self.size = threads_for(n_stored, overhead, policy)
        self._pool = ThreadPoolExecutor(self.size) if self.size > 1 else None

    @classmethod
    def of_size(cls, size: int) -> Crew:
        """Start as many threads as are asked for."""
        crew = cls(0)
        crew.size = size
        crew._pool = ThreadPoolExecutor(size) if size > 1 else None
        return crew

    def parts(self, n: int) -> list[tuple[int, int]]:
        """0 .. n in as many pieces as there are threads."""
        return list(pairwise(n * k // self.size for k in range(self.size + 1)))

    def share(self, n: int, job: Callable[[int, int, int], T]) -> list[T]:
        """``job(k, start, stop)`` for the k-th part of 0 .. n, each in its thread."""
        if self._pool is None:  # on small data this is called some 50 times in a millisecond
            check_point()
            return [job(0, 0, n)]
        return self.run([(k, start, stop) for k, (start, stop) in enumerate(self.parts(n))], job)

    def run(self, tasks: list[tuple[Any, ...]], job: Callable[..., T]) -> list[T]:
        """Every task, with a check point before each; a job that takes long has check points of its own. When a task fails, or
        Ctrl-C ends the wait, the others end before the error goes on: they write to memory that the caller may use again."""

        def checked(*task: Any) -> T:
            check_point()
            return job(*task)

        if self._pool is None or len(tasks) < 2:
            return [checked(*task) for task in tasks]
        futures = [self._pool.submit(copy_context().run, checked, *task) for task in tasks]
        try:
            return [future.result() for future in futures]
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                tell()
            wait(futures)
            raise

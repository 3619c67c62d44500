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
    parts_a_thread: int = 4
    """Parts of the work for each thread, where they are large enough: a thread on a slow or busy core takes fewer of them."""
    elements_a_part: int = 1 << 18
    """Stored elements of X for each such part: 0.1 to 0.3 ms, beside 15 microseconds for handing it over."""
    own_share: float = 0.25
    """What such a part touches of its own, as a share of its stored elements, at the most."""


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
    """The threads that share a job. The thread that asks for the work is one of them: if it waited for the others, the first
    of them often ran beside a second one on its own core, while another core was idle. Two passes of 2.5 ms then took 2.7 to
    4.9 ms on two cores, and 2.4 to 2.7 ms as it is."""

    def __init__(self, n_stored: int, overhead: int = 0, policy: ThreadPolicy | None = None) -> None:
        """Start as many threads as ``threads_for`` says, less the one that asks."""
        self.size = self.n_parts = threads_for(n_stored, overhead, policy)
        self._pool = ThreadPoolExecutor(self.size - 1) if self.size > 1 else None

    @classmethod
    def in_parts(cls, n_stored: int, overhead: int = 0) -> Crew:
        """A crew that shares its work in several parts for each thread, where each has enough to do."""
        crew = cls(n_stored, overhead)
        if crew.size > 1:
            a_part = max(POLICY.elements_a_part, int(overhead / POLICY.own_share))
            crew.n_parts = max(crew.size, min(POLICY.parts_a_thread * crew.size, n_stored // a_part))
        return crew

    @classmethod
    def of_size(cls, size: int) -> Crew:
        """Start as many threads as are asked for."""
        crew = cls(0)
        crew.size = crew.n_parts = size
        crew._pool = ThreadPoolExecutor(size - 1) if size > 1 else None
        return crew

    def parts(self, n: int) -> list[tuple[int, int]]:
        """0 .. n in as many pieces as the crew has parts."""
        return list(pairwise(n * k // self.n_parts for k in range(self.n_parts + 1)))

    def share(self, n: int, job: Callable[[int, int, int], T]) -> list[T]:
        """``job(k, start, stop)`` for the k-th part of 0 .. n, several at once."""
        if self._pool is None:  # on small data this is called some 50 times in a millisecond
            check_point()
            return [job(0, 0, n)]
        return self.run([(k, start, stop) for k, (start, stop) in enumerate(self.parts(n))], job)

    def run(self, tasks: list[tuple[Any, ...]], job: Callable[..., T]) -> list[T]:
        """Every task, with a check point before each; a job that takes long has check points of its own. The other threads take
        tasks from the front. The calling thread makes the first one, and then those at the end that nobody has begun. When a
        task fails, or Ctrl-C ends the wait, the others end before the error goes on: they write to memory that the caller may
        use again."""

        def checked(*task: Any) -> T:
            check_point()
            return job(*task)

        if self._pool is None or len(tasks) < 2:
            return [checked(*task) for task in tasks]
        futures = [self._pool.submit(copy_context().run, checked, *task) for task in tasks[1:]]
        try:
            first, own = checked(*tasks[0]), []
            for task, future in zip(tasks[:0:-1], futures[::-1], strict=True):
                if not future.cancel():
                    break
                own.append(checked(*task))
            return [first, *(future.result() for future in futures[: len(futures) - len(own)]), *own[::-1]]
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                tell()
            for future in futures:
                future.cancel()
            wait(futures)
            raise

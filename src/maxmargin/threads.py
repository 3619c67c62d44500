"""Threads that share the samples of one problem. The compiled loops release the GIL, so they run side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

T = TypeVar("T")

ELEMENTS_A_THREAD = 1 << 20
"""Below this many stored elements a thread costs more than it saves."""


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _SingleThreadedBlas:
    """The limit is one of the whole process, so the first to enter sets it and the last to leave takes it off: were each to
    restore what it found, two threads that leave in the order in which they came would leave the limit behind. threadpoolctl
    lets one thread at a time set limits and ignores the others, so the right to do so is taken for each of the two."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                _take_control()
                self._limiter = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _take_control()
                self._limiter.restore_original_limits()


_blas = _SingleThreadedBlas()


def single_threaded_blas() -> _SingleThreadedBlas:
    """A context in which BLAS and LAPACK use one thread. Their own threads spin while they wait, which makes small
    factorisations 5 to 20 times slower as soon as another core is busy."""
    return _blas


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def _take_control() -> None:
    """No thread is to keep the others from setting limits."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):  # older versions have no such rule
            library.clear_controlling_thread(force=True)


class Crew:
    """As many threads as there are cores, while each has enough to do to pay for itself."""

    def __init__(self, n_stored: int, overhead: int = 0) -> None:
        """``n_stored`` elements are to be shared; every thread touches ``overhead`` elements more of its own."""
        self.size = max(1, min(available_cores(), n_stored // (ELEMENTS_A_THREAD + overhead)))
        self._pool = ThreadPoolExecutor(self.size) if self.size > 1 else None

    def parts(self, n: int) -> list[tuple[int, int]]:
        """0 .. n in as many pieces as there are threads."""
        return list(pairwise(n * k // self.size for k in range(self.size + 1)))

    def share(self, n: int, job: Callable[[int, int, int], T]) -> list[T]:
        """``job(k, start, stop)`` for the k-th part of 0 .. n, each in its thread."""
        return self.run([(k, start, stop) for k, (start, stop) in enumerate(self.parts(n))], job)

    def run(self, tasks: list[tuple[Any, ...]], job: Callable[..., T]) -> list[T]:
        if self._pool is None or len(tasks) < 2:
            return [job(*task) for task in tasks]
        return [future.result() for future in [self._pool.submit(job, *task) for task in tasks]]

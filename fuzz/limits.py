"""The limits of one case: memory above a baseline, processor time, and a parent who sees when a worker dies."""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GROWTH_BYTES = 200 << 20
"""Address space that a case may take beyond what the worker has before its first case and the size of the input."""
CASE_SECONDS = 5.0
"""Processor time of one case. Wall time would depend on what else the machine does."""


class Hang(BaseException):
    """A case that took too long. Not an Exception: no reader may catch it."""


def address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def peak_address_space() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().split("\n") if line.startswith("VmPeak"))
    return int(line.split()[1]) << 10


def limit_memory(input_bytes: int) -> int:
    """From now on no more than the growth above what is used already. Returns the baseline."""
    baseline = address_space()
    limit = baseline + GROWTH_BYTES + input_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    return baseline


@contextmanager
def limited_time() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Hang

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def clock() -> float:
    return time.process_time()

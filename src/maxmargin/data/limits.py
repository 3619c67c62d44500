"""What ends a fit early: a deadline, Ctrl-C, a callback, or an error in another thread.

Each call of ``solve`` or ``fit`` makes one :class:`Stop`. All binary problems of the fit share it, in all threads, so
``max_seconds`` limits them together. The driver looks at the Stop between two chunks of work. Long computations inside a chunk
or a certificate call ``check_point``, which raises OutOfTimeError when the time is up. The driver then ends with the best
answer so far, as it does at Ctrl-C. A solver never reads the clock itself.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LimitPolicy:
    """How late the end of a fit may be."""

    certificate_seconds: float = 0.7
    """Seconds that the last certificate may go on after the deadline. A fit is to end within one second of its limit, and a
    chunk of work takes 0.1 to 0.3 s."""


POLICY = LimitPolicy()
"""The policy of this process."""


class OutOfTimeError(Exception):
    """A long computation reached a check point after the deadline."""


@dataclass(frozen=True)
class Stop:
    """``deadline`` is a reading of ``time.perf_counter``. ``told`` is shared by all problems of a fit."""

    deadline: float = math.inf
    told: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def after(cls, seconds: float) -> Stop:
        return cls(time.perf_counter() + seconds)

    @classmethod
    def within(cls, seconds: float) -> Stop:
        """Stop after ``seconds``, or when the Stop that this thread already obeys is due. This is for a fit within another."""
        outer = _heard.get()
        if outer is None:
            return cls.after(seconds)
        return cls(min(outer.deadline, time.perf_counter() + seconds), outer.told)

    def share(self, n: float) -> Stop:
        """The Stop of the next of ``n`` problems that are solved one after the other. It gets an equal share of the time
        left."""
        return Stop(time.perf_counter() + self.seconds_left / max(1.0, n), self.told)

    def last_chance(self) -> Stop:
        """The Stop of the last certificate, which may be a little late. A certificate that begins after Ctrl-C has the same
        limit."""
        if self.is_told:
            return Stop.after(POLICY.certificate_seconds)
        return Stop(max(self.deadline, time.perf_counter()) + POLICY.certificate_seconds, self.told)

    def set(self) -> None:
        """Tell every problem of the fit to end."""
        self.told.set()

    @property
    def is_told(self) -> bool:
        return self.told.is_set()

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.perf_counter())

    @property
    def is_late(self) -> bool:
        return time.perf_counter() >= self.deadline

    @property
    def is_due(self) -> bool:
        return self.is_told or self.is_late

    @contextmanager
    def heard(self) -> Iterator[None]:
        """A context in which the check points of this thread obey this Stop."""
        token = _heard.set(self)
        try:
            yield
        finally:
            _heard.reset(token)


_heard: ContextVar[Stop | None] = ContextVar("heard", default=None)


def check_point() -> None:
    """Raise OutOfTimeError if the Stop of this thread is due. Does nothing outside a solve."""
    stop = _heard.get()
    if stop is not None and stop.is_due:
        raise OutOfTimeError

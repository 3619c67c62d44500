"""What ends a fit early: a deadline, Ctrl-C, a callback, or an error in another thread.

Each call of ``solve`` or ``fit`` makes one :class:`Stop`. All binary problems of the fit share it, in all threads, so
``max_seconds`` limits them together. The driver looks at the Stop between two chunks of work. Long computations inside a chunk
or a certificate call ``check_point``, which raises OutOfTimeError when the time is up. The driver then ends with the best
answer so far, as it does at Ctrl-C. The threads of a ``Crew`` hear the Stop of the thread that they work for, and every task
begins with a check point. A solver never reads the clock itself.
"""

from __future__ import annotations

import math
import time
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LimitPolicy:
    """How late the end of a fit may be."""

    certificate_seconds: float = 0.4
    """Seconds that the last certificate of a problem may go on after the problem's own deadline. A fit is to end within one
    second of its limit, also where other processes use the cores, and half of that second is kept for this."""
    told_seconds: float = 0.3
    """Seconds after Ctrl-C for the last certificates of all problems together. With 0.4 s the 45 pairs of mnist ended 0.86 s
    after Ctrl-C with ``SVC``."""
    latest_seconds: float = 0.4
    """Seconds after the limit of a whole fit at which the last certificate of its last problem is given up, however late that
    certificate began. The rest of the second is for problems that are not begun any more, and for the attributes of the model:
    0.2 s with the 45 pairs of mnist on one core."""


POLICY = LimitPolicy()
"""The policy of this process."""


class OutOfTimeError(Exception):
    """A long computation reached a check point after the deadline."""


class Told:
    """Set by Ctrl-C or a callback. ``at`` is the reading of ``time.perf_counter`` when it was first set, and infinite before.
    Nobody waits for it, so that it needs no lock: a ``threading.Event`` takes a hundredth of a small fit to make."""

    def __init__(self) -> None:
        self.at = math.inf

    def set(self) -> None:
        self.at = min(self.at, time.perf_counter())

    def is_set(self) -> bool:
        return self.at < math.inf


@dataclass(frozen=True)
class Stop:
    """``deadline`` and ``latest`` are readings of ``time.perf_counter``: when the work is to end, and when its last certificate
    is. ``latest`` and ``told`` are shared by all problems of a fit."""

    deadline: float = math.inf
    told: Told = field(default_factory=Told)
    latest: float = math.inf

    @classmethod
    def after(cls, seconds: float) -> Stop:
        deadline = time.perf_counter() + seconds
        return cls(deadline, latest=deadline + POLICY.latest_seconds)

    @classmethod
    def within(cls, seconds: float) -> Stop:
        """Stop after ``seconds``, or when the Stop that this thread already obeys is due. This is for a fit within another."""
        outer = _heard.get()
        if outer is None:
            return cls.after(seconds)
        own = cls.after(seconds)
        return cls(min(outer.deadline, own.deadline), outer.told, min(outer.latest, own.latest))

    def share(self, n: float) -> Stop:
        """The Stop of the next of ``n`` problems that are solved one after the other. It gets an equal share of the time
        left."""
        if self.deadline == math.inf:
            return self
        return Stop(time.perf_counter() + self.seconds_left / max(1.0, n), self.told, self.latest)

    def last_chance(self) -> Stop:
        """The Stop of the last certificate, which may be a little late, but not later than ``latest``. After Ctrl-C the last
        certificates of all problems together have as long, counted from Ctrl-C."""
        now, told = time.perf_counter(), self.is_told
        if self.deadline == math.inf and not told:
            return self
        own = self.told.at + POLICY.told_seconds if told else max(self.deadline, now) + POLICY.certificate_seconds
        deadline = min(own, self.latest)
        return Stop(deadline, Told() if told else self.told, self.latest)

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

    def heard(self) -> _Heard:
        """A context in which the check points of this thread obey this Stop."""
        return _Heard(self)


class _Heard:
    """The context of :meth:`Stop.heard`. A class takes a third of the time of a generator, which counts in small fits."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop

    def __enter__(self) -> None:
        self.token = _heard.set(self.stop)

    def __exit__(self, *error: object) -> None:
        _heard.reset(self.token)


_heard: ContextVar[Stop | None] = ContextVar("heard", default=None)


def tell() -> None:
    """Tell the fit under way in this thread, if there is one, to end. Its threads hear it at their next check points."""
    stop = _heard.get()
    if stop is not None:
        stop.set()


def check_point() -> None:
    """Raise OutOfTimeError if the Stop of this thread is due. Does nothing outside a solve. A call takes 0.2 microseconds."""
    stop = _heard.get()
    if stop is not None and stop.is_due:
        raise OutOfTimeError

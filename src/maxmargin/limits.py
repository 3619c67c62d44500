"""What ends the solves of a fit before their time: a moment on the clock, or a word from the user, a callback or an error.

One :class:`Stop` is made for each call of ``solve`` or ``fit``. All binary problems of the fit look at the same one, from
whatever thread, so that ``max_seconds`` counts all of them together.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field

CERTIFICATE_SECONDS = 0.5
"""How long the last certificate may go on after the deadline, in seconds. A limit is heard within one second."""


class OutOfTimeError(Exception):
    """A long computation looked at its :class:`Stop` and gave up. The driver ends with the best answer that it has."""


@dataclass(frozen=True)
class Stop:
    """``deadline`` is a reading of ``time.perf_counter``. ``told`` is shared by all problems of a fit."""

    deadline: float = math.inf
    told: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def after(cls, seconds: float) -> Stop:
        return cls(time.perf_counter() + seconds)

    def share(self, n: float) -> Stop:
        """For one of ``n`` problems that are still to be solved one after the other: an equal share of the time left."""
        now = time.perf_counter()
        return Stop(now + max(0.0, self.deadline - now) / max(1.0, n), self.told)

    def set(self) -> None:
        """Tell every problem of the fit to end."""
        self.told.set()

    @property
    def is_told(self) -> bool:
        return self.told.is_set()

    @property
    def is_late(self) -> bool:
        return time.perf_counter() >= self.deadline

    @property
    def is_due(self) -> bool:
        return self.is_told or self.is_late

    def check(self, grace_seconds: float = 0.0) -> None:
        """Raise OutOfTimeError if the fit is told to end, or is later than ``grace_seconds`` after its deadline."""
        if self.is_told or time.perf_counter() >= self.deadline + grace_seconds:
            raise OutOfTimeError

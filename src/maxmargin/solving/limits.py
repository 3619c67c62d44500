"""When a solve ends: the target, and the limits on epochs and seconds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

from maxmargin.data.limits import Stop
from maxmargin.data.real import is_real


@dataclass(frozen=True)
class Limits:
    """When a solve ends: the target and the two limits. ``begun`` is the reading of ``time.perf_counter`` from which the
    seconds count: a fit makes its limits before it looks at X, because to check and convert X may take a second."""

    tol: float
    max_epochs: float = math.inf
    max_seconds: float = math.inf
    begun: float = field(default_factory=time.perf_counter, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("tol", "max_epochs", "max_seconds"):
            value = getattr(self, name)
            if not is_real(value) or not float(value) >= 0.0:
                raise ValueError(f"{name} must be zero or positive; got {value!r}.")

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.max_seconds - (time.perf_counter() - self.begun))

    def until(self, stop: Stop) -> Limits:
        """The same limits with the time that is left until this Stop, counted from now."""
        return replace(self, max_seconds=stop.seconds_left, begun=time.perf_counter())

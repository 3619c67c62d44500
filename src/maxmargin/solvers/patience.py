"""When a solver has stalled: by the progress that it makes, and not by the clock or the size of a problem."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

STALL_FACTOR = 100.0
"""A solver has stalled when, at the rate at which the dual value rose over the latter half of its work, to close the gap would
take this many times the work that it has done."""
SPACING = 1.1
"""The factor in work from one mark to the next."""


class Mark(NamedTuple):
    """Work done, and the dual value then."""

    work: float
    dual: float


@dataclass
class Patience:
    """``least_work`` is what is done before anything is said to have stalled, in the units of ``note``."""

    least_work: float
    least_primal: float = math.inf
    marks: list[Mark] = field(default_factory=list)

    def note(self, work: float, dual: float, primal: float) -> bool:
        """Whether the solver has stalled, now that it has done so much ``work``. The gap is that to the least primal value."""
        if math.isfinite(primal):
            self.least_primal = min(self.least_primal, primal)
        if self.marks and work < SPACING * self.marks[-1].work:
            return False
        self.marks.append(Mark(work, dual))
        if work < self.least_work:
            return False
        half = next(mark for mark in self.marks if mark.work >= 0.5 * work)
        return (self.least_primal - dual) * (work - half.work) > STALL_FACTOR * work * (dual - half.dual)

"""When a solver has stalled: judged by its progress, never by the clock.

``Patience`` compares the rise of the dual value with the gap that is left. ``IdleRounds`` counts the rounds in which a
value has not fallen. Solvers and the driver use these two wherever they count work without progress."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class StallRule:
    """When work without progress counts as a stall."""

    factor: float = 100.0
    """Times the work done so far. A solver has stalled when closing the gap would take more than that, at the rate at which
    the dual value rose over the latter half of its work."""
    spacing: float = 1.1
    """Ratio of the work at one mark to the work at the mark before. Marks are kept for the whole run, so they must be few."""


class Mark(NamedTuple):
    """Work done, and the dual value then."""

    work: float
    dual: float


@dataclass
class Patience:
    """Decides whether a solver has stalled. Nothing has stalled before ``least_work``, in the units of ``note``."""

    least_work: float
    least_primal: float = math.inf
    marks: list[Mark] = field(default_factory=list)
    rule: StallRule = StallRule()

    def note(self, work: float, dual: float, primal: float) -> bool:
        """Whether the solver has stalled after ``work``. The gap is measured from the least primal value so far."""
        if math.isfinite(primal):
            self.least_primal = min(self.least_primal, primal)
        if self.marks and work < self.rule.spacing * self.marks[-1].work:
            return False
        self.marks.append(Mark(work, dual))
        return work >= self.least_work and self._is_stalled(work, dual)

    def _is_stalled(self, work: float, dual: float) -> bool:
        half = next(mark for mark in self.marks if mark.work >= 0.5 * work)
        return (self.least_primal - dual) * (work - half.work) > self.rule.factor * work * (dual - half.dual)


@dataclass
class IdleRounds:
    """Counts the rounds since a value last fell below ``share`` times its least value before."""

    share: float = 1.0
    least: float = math.inf
    count: int = 0

    def note(self, value: float) -> int:
        """The number of rounds without progress, this one included."""
        has_fallen = value < self.share * self.least
        self.least, self.count = (value, 0) if has_fallen else (self.least, self.count + 1)
        return self.count


@dataclass
class Standstill:
    """Counts the rounds, one after the other, in which the dual value did not rise and the gap did not fall.

    Near the optimum the dual value is flat, so that either is progress; a gap has fallen when it is below ``share`` times its
    least value before. The dual value can rise by no more than the gap: below ``noise`` times the dual value, what looks like a
    rise is rounding, and could go on for ever."""

    most: int
    share: float = 0.99
    noise: float = 2.0**-47
    least_gap: float = math.inf
    greatest_dual: float = -math.inf
    count: int = 0

    def note(self, gap: float, dual: float) -> None:
        rises = dual > self.greatest_dual and gap > self.noise * abs(dual)
        has_progress = rises or gap < self.share * self.least_gap
        self.count = 0 if has_progress else self.count + 1
        self.least_gap, self.greatest_dual = min(gap, self.least_gap), max(dual, self.greatest_dual)

    def note_no_move(self) -> None:
        """No variable moves any more: there is nothing to wait for."""
        self.count = self.most

    def forget_values(self) -> None:
        """The gap and the dual value were computed from rounded values, and may have been too good to be true."""
        self.least_gap, self.greatest_dual = math.inf, -math.inf

    @property
    def is_reached(self) -> bool:
        return self.count >= self.most

"""How fast a solver has been, from counted work, and how much work is left at that pace."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from maxmargin.problem.losses import UNIT_ROUNDOFF


class PaceMark(NamedTuple):
    """The relative gap at some time, and the work until then."""

    gap: float
    work: float


@dataclass
class Pace:
    """The marks of a solve, oldest first. Before the first of them the gap counts as one."""

    marks: list[PaceMark] = field(default_factory=lambda: [PaceMark(1.0, 0.0)])

    def note(self, gap: float, work: float) -> None:
        self.marks.append(PaceMark(gap, work))

    def begin_again(self, now: PaceMark) -> None:
        """Forget what came before: another solver has moved the point."""
        self.marks = [now]

    def a_decade(self, now: PaceMark) -> float:
        """The work of a decade of the gap, at the pace since the gap was ten times as large, or since the beginning. Infinite
        where nothing was done since then."""
        earlier = [mark for mark in self.marks if mark.gap >= 10.0 * now.gap]
        since = earlier[-1] if earlier else self.marks[0]
        decades = math.log10(max(since.gap / now.gap, 1.0 + 2.0 * UNIT_ROUNDOFF))
        return (now.work - since.work) / decades if now.work > since.work else math.inf

    def work_left(self, now: PaceMark, target: float) -> float:
        """The work from now to the target."""
        return self.a_decade(now) * math.log10(now.gap / target)

"""One live line on a terminal: what is being done, for how long, how far the gap is and how many support vectors there are.

A certificate of a kernel problem takes as long as a good part of the fit, so that there are few of them. Between them the line
shows the solver's own estimate, which :func:`watched` lets it tell.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from maxmargin.cli.report import time_text, tolerance_text

if TYPE_CHECKING:  # the line appears at once, before NumPy and Numba are loaded
    from maxmargin.solving.solution import Progress


@dataclass(frozen=True)
class Estimate:
    """Where a solver believes to stand between two certificates. Nothing is proved of it."""

    relative_gap: float
    support_vectors: int


@dataclass(frozen=True)
class ProgressPolicy:
    """How often the line learns something new."""

    seconds_between_estimates: float = 0.2
    """Counting the support vectors of a million samples takes a millisecond, and a person reads five numbers a second."""


class ProgressLine:
    """The line; silent in a pipe.

    It is the callback of the fit and also what rich draws, several times a second, so that the clock runs between certificates.
    """

    def __init__(self, tol: float, *, enabled: bool) -> None:
        self.tol, self.enabled = tol, enabled and sys.stderr.isatty()
        self._status: Any = None
        self.begin("starting")

    def __enter__(self) -> ProgressLine:
        if self.enabled:
            from rich.console import Console

            self._status = Console(stderr=True).status(self, spinner="dots")
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()

    def begin(self, task: str) -> None:
        """The next task; its clock starts at zero."""
        self._task, self.since = task, time.perf_counter()
        self._last: Progress | None = None
        self._estimate: Estimate | None = None

    def __call__(self, progress: Progress) -> None:
        """Take what a certificate shows."""
        self._last = progress

    def estimate(self, estimate: Estimate) -> None:
        """Take what the solver believes, which is newer than the last certificate."""
        self._estimate = estimate

    def __rich__(self) -> Any:
        from rich.text import Text

        return Text(self.text(time.perf_counter() - self.since), no_wrap=True, overflow="ellipsis")

    def text(self, seconds: float) -> str:
        """The line to show when the task has run for ``seconds``. It fits 80 columns."""
        start = f"{self._task}  {time_text(seconds)}"
        if self._estimate is not None:
            return f"{start}  {self._estimated(self._estimate)}"
        return start if self._last is None else f"{start}  {self._certified(self._last)}"

    def _certified(self, last: Progress) -> str:
        gap = f"gap {last.relative_gap:.1e}, target {tolerance_text(self.tol)}"
        return f"epoch {last.epochs:.0f}  {gap}  {last.active} active"

    def _estimated(self, estimate: Estimate) -> str:
        gap = f"{estimate.relative_gap:.1e}" if math.isfinite(estimate.relative_gap) else "unknown"
        return f"gap about {gap}, target {tolerance_text(self.tol)}  {estimate.support_vectors} support vectors"


def watched(solver: Any, line: ProgressLine, policy: ProgressPolicy | None = None) -> Any:
    """A kernel solver with the same settings that tells a progress line its own estimate of the gap now and then.

    It is of a class derived from the solver's, so that whoever changes a setting by ``replace`` gets another that tells."""
    clock = _Clock((policy or ProgressPolicy()).seconds_between_estimates)

    class Watched(type(solver)):  # type: ignore[misc]
        def advance(self, problem: Any, state: Any, budget: Any) -> None:
            """A chunk of the solver's work, and what it believes afterwards."""
            super().advance(problem, state, budget)
            if clock.is_due():
                alpha = self.candidate(problem, state)
                line.estimate(Estimate(float(state.relative_gap), int((alpha != 0.0).sum())))

    return Watched(**{field.name: getattr(solver, field.name) for field in fields(solver) if field.init})


class _Clock:
    """Says at regular intervals that it is time for the next line."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self._next = seconds, 0.0

    def is_due(self) -> bool:
        now = time.perf_counter()
        if now < self._next:
            return False
        self._next = now + self.seconds
        return True

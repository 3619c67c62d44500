"""The relative duality gap against time: of one fit, or of several solvers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, groupby
from typing import Any, NamedTuple

from maxmargin.displays import policy
from maxmargin.displays.style import COLOURS, MARKERS, QUIET, axes_of, legend_of
from maxmargin.solving.solution import Progress

Trace = Sequence[Progress]

AXES = {"seconds": "seconds", "epochs": "epochs (each as many steps as there are samples)"}
"""What the gap can be drawn against, and what the axis is called."""


class GapLine(NamedTuple):
    """One line of the picture; lines with the same label have the same colour."""

    label: str
    x: list[float]
    gaps: list[float]


class ConvergenceDisplay:
    """The relative duality gap against time, a colour for each solver.

    Make one with :meth:`from_estimator` or :meth:`from_solutions`.

    Parameters
    ----------
    lines : sequence of Line
        What is drawn: label, times, relative gaps.
    target : float, optional
        The gap that was asked for: a dotted line.
    against : {"seconds", "epochs"}, default "seconds"
        The unit of the horizontal axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
    target_line_ : matplotlib Line2D or None

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import ConvergenceDisplay, LinearSVC
    >>> model = LinearSVC(tol=1e-6).fit(*load_breast_cancer(return_X_y=True))
    >>> display = ConvergenceDisplay.from_estimator(model)
    >>> display.ax_.get_ylabel()
    'relative duality gap'
    """

    def __init__(self, *, lines: Sequence[GapLine], target: float | None = None, against: str = "seconds") -> None:
        if against not in AXES:
            raise ValueError(f"against must be one of {', '.join(map(repr, AXES))}; got {against!r}.")
        self.lines, self.target, self.against = list(lines), target, against

    @classmethod
    def from_estimator(cls, estimator: Any, *, against: str = "seconds", ax: Any = None, **kwargs: Any) -> ConvergenceDisplay:
        """Draw the trace of a fitted estimator. Every binary problem of several is a line, and the colours are the solvers.

        Parameters
        ----------
        estimator : fitted LinearSVC or SVC
        against : {"seconds", "epochs"}, default "seconds"
        ax : matplotlib Axes, optional
        **kwargs
            For ``plot``.
        """
        if not hasattr(estimator, "trace_"):
            raise ValueError(f"This {type(estimator).__name__} has no trace: it was imported, or is not fitted yet.")
        traces = estimator.trace_ if isinstance(estimator.trace_, list) else [estimator.trace_]
        lines = [line for trace in traces for line in _lines_by_solver(trace, against)]
        return cls(lines=lines, target=estimator.tol, against=against).plot(ax=ax, **kwargs)

    @classmethod
    def from_solutions(
        cls,
        solutions: Mapping[str, Any],
        *,
        target: float | None = None,
        against: str = "seconds",
        ax: Any = None,
        **kwargs: Any,
    ) -> ConvergenceDisplay:
        """Draw several solutions of one problem, a line and a colour for each name.

        Parameters
        ----------
        solutions : mapping from a name to a Solution
        target : float, optional
        against : {"seconds", "epochs"}, default "seconds"
        ax : matplotlib Axes, optional
        **kwargs
            For ``plot``.
        """
        lines = [_line(name, solution.trace, against) for name, solution in solutions.items()]
        return cls(lines=lines, target=target, against=against).plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ConvergenceDisplay:
        """Draw on ``ax``, or on new axes; ``kwargs`` go to every line."""
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        looks = _looks(line.label for line in self.lines)
        self.lines_, named = [], set()
        for line in self.lines:
            style = {"markersize": 5.0, "linewidth": 1.6, **looks[line.label], **kwargs}
            label = line.label if line.label not in named else None
            self.lines_ += self.ax_.plot(line.x, line.gaps, label=label, **style)
            named.add(line.label)
        self.target_line_ = self._draw_target()
        self.ax_.set(xscale=_scale(self.lines), yscale="log", xlabel=AXES[self.against], ylabel="relative duality gap")
        if self.ax_.get_xscale() == "log":
            self._label_decades_only()
        self.ax_.grid(visible=True, which="major", color=QUIET, alpha=0.3)
        legend_of(self.ax_)
        return self

    def _label_decades_only(self) -> None:
        """Between two decades matplotlib would write labels that touch each other."""
        from matplotlib.ticker import NullFormatter

        self.ax_.xaxis.set_minor_formatter(NullFormatter())

    def _draw_target(self) -> Any:
        if not self.target:
            return None
        return self.ax_.axhline(self.target, color=QUIET, linestyle=":", linewidth=1.4, label=f"asked: {self.target:g}")


def _scale(lines: Sequence[GapLine]) -> str:
    """Logarithmic where the times span a decade, else linear: a part of a decade has no room for its ticks."""
    times = [x for line in lines for x in line.x]
    return "log" if times and max(times) >= 10.0 * min(times) else "linear"


def _looks(labels: Iterator[str]) -> dict[str, dict[str, str]]:
    """A colour and a marker for each label, in the order of appearance."""
    names = dict.fromkeys(labels)
    return {name: {"color": c, "marker": m} for name, c, m in zip(names, cycle(COLOURS), cycle(MARKERS), strict=False)}


def _line(label: str, trace: Trace, against: str) -> GapLine:
    """The points that a logarithmic picture can show: time is positive and the gap is finite."""
    rows = [(getattr(row, against), row.relative_gap) for row in trace]
    shown = [(x, max(gap, policy.PICTURE.least_gap)) for x, gap in rows if x > 0.0 and math.isfinite(gap)]
    return GapLine(label, [x for x, _ in shown], [gap for _, gap in shown])


def _lines_by_solver(trace: Trace, against: str) -> Iterator[GapLine]:
    """The trace in pieces, one for each solver at work; a piece begins where the last one ends."""
    last: list[Progress] = []
    for solver, group in groupby(trace, key=lambda row: row.solver):
        rows = list(group)
        yield _line(solver, [*last, *rows], against)
        last = rows[-1:]

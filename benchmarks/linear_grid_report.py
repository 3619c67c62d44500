"""What ``linear_grid`` measured, as tables, verdicts and a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.datasets import NAMES, write_text
from benchmarks.measure import LIBRARIES, Table, geometric_mean, seconds_text, write_figure, write_report
from benchmarks.peers import PEERS

TARGETS = (1e-3, 1e-6)
CERTIFIED_SECONDS = 60.0
LARGE_C, LARGE_MEAN = 10.0, 5.0
MEANS = {"LIBLINEAR": 2.0, "scikit-learn": 3.0}
LEAST_RATIO = 0.8
COVTYPE_SECONDS, A9A_SECONDS = 5.0, 1.0
LONG_SECONDS, AUTO_RATIO = 0.2, 1.3
MEMORY_RATIO = 1.5
COLOURS = {
    "maxmargin": "#d62728",
    "LIBLINEAR": "#1f77b4",
    "scikit-learn": "#ff9f1c",
    "ReHLine": "#2ca02c",
    "Snap ML": "#8c64b8",
}
METHOD = """
Seconds are of whole `fit` calls on data in warm caches, everything compiled; the contestants of a cell take turns and the
fastest run counts, of 7 where a run takes less than 0.2 s, 5 up to 1 s, 3 up to 5 s, 2 up to 15 s, else 1. maxmargin
uses both cores for parts of a fit; the peers use one.

Each peer has the loosest tolerance, on a grid of powers of two (Snap ML: of four), that brings its primal value within the
target of the optimum; the search is not charged to it. The optimum is known from references certified at 1e-9. x: no
tolerance does; then the time is that of the run which met its cap, and in brackets is how far above the optimum the nearest
answer of all was. Caps: LIBLINEAR its 300 iterations; scikit-learn 10,000 iterations (its default is 1,000) or 60 s a
fit; ReHLine and Snap ML 60 s a fit.

Solvers: those in the trace. auto always begins with dcd; a trace without it says that auto switched before the first
certificate. Solvers alone were stopped after three times the time of auto (at least 1 s, at most 60 s); newton is left out
where there are more than 2,000 features.

Memory: growth of the peak resident memory (VmHWM) during the second of two equal fits in a fresh process, over the bytes
of X's three arrays.

Also tried: **skglm** 0.5 installs, and its LinearSVC is this problem, but with its own settings (working sets from 10 samples
on, 50 of them) it ends at three times the optimum on a9a, C = 0.01, whatever the tolerance; with a working set of all
samples it is within 1e-3 there, in 2.3 s. **sklearn-contrib-lightning** does not build: its setup imports NumPy, which pip
does not give it. **thundersvm** is a library for CUDA 9 that does not load here, and like **dlib** it always fits an
intercept. **liblinear-multicore** has -s 3 on several threads, but the module name of liblinear-official, so that one
environment cannot hold both. **cuml** needs a GPU.
""".strip()


@dataclass(frozen=True)
class Ours:
    """The fastest of our fits. ``solvers`` are those of the trace, in order."""

    seconds: float
    relative_gap: float
    is_certified: bool
    excess: float
    solvers: str
    reason: str
    runs: int


@dataclass(frozen=True)
class PeerTime:
    """The fastest of a peer's fits. One that does not get there has the time of the run that its cap ended."""

    seconds: float
    tolerance: float
    excess: float
    reached: bool
    ended: str = ""
    runs: int = 1

    @property
    def is_clocked_out(self) -> bool:
        return self.ended == "clock"


@dataclass(frozen=True)
class Cell:
    """One data set, C and target."""

    name: str
    C: float
    target: float
    ours: Ours
    peers: dict[str, PeerTime]
    solvers: dict[str, float] = field(default_factory=dict)
    """Seconds of our solvers one by one; infinite where one was not done in ``solver_cap`` seconds."""
    solver_cap: float = math.inf

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Cell:
        peers = {name: PeerTime(**peer) for name, peer in saved["peers"].items()}
        return cls(**saved | {"ours": Ours(**saved["ours"]), "peers": peers})

    def ratio(self, peer: str) -> float:
        return self.peers[peer].seconds / self.ours.seconds

    @property
    def auto_ratio(self) -> float:
        """Ours over the best single solver; zero where none was done."""
        return self.ours.seconds / min(self.solvers.values(), default=math.inf)

    def __str__(self) -> str:
        return f"{self.name} C = {self.C:g} at {power(self.target)}"


@dataclass(frozen=True)
class Memory:
    """Bytes that a fit added at its peak, and those of X."""

    name: str
    C: float
    growth: int
    X: int

    @property
    def ratio(self) -> float:
        return self.growth / self.X


@dataclass(frozen=True)
class Grid:
    """All that was measured."""

    cells: Sequence[Cell]
    memory: Sequence[Memory]
    builds: dict[str, float]
    n_expected: int

    @property
    def names(self) -> list[str]:
        return [name for name in NAMES if any(cell.name == name for cell in self.cells)]

    @property
    def peers(self) -> list[str]:
        return [peer for peer in PEERS if any(peer in cell.peers for cell in self.cells)]

    def at(self, target: float) -> list[Cell]:
        return [cell for cell in self.cells if cell.target == target]


def write(grid: Grid, folder: Path, quick: bool) -> None:
    parts = (verdicts(grid), *tables(grid), notes(grid))
    write_report(folder / "linear_grid.md", "LinearSVC over a grid of C: whole fits to 1e-3 and 1e-6", parts, quick)
    raw = {"cells": [asdict(cell) for cell in grid.cells], "memory": [asdict(row) for row in grid.memory]}
    write_text(folder / "linear_grid.json", json.dumps(raw, indent=1) + "\n")
    write_figure(folder / "linear_grid.png", figure(grid))


def verdicts(grid: Grid) -> str:
    lines = [
        *certified_lines(grid),
        *(line for target in TARGETS for peer in grid.peers for line in ratio_lines(grid.at(target), peer, target)),
        *time_lines(grid.cells),
        *auto_lines(grid.cells),
        *memory_lines(grid.memory),
    ]
    if len(grid.cells) < grid.n_expected:
        lines.insert(0, f"**{len(grid.cells)} of {grid.n_expected} cells measured so far.**")
    text = "\n".join(f"- {line}" for line in lines)
    print(f"\n{text}")
    return text


def certified_lines(grid: Grid) -> Iterable[str]:
    for target in TARGETS:
        cells = grid.at(target)
        if cells:
            within = [cell for cell in cells if cell.ours.is_certified and cell.ours.seconds <= CERTIFIED_SECONDS]
            slowest = max(cells, key=lambda cell: cell.ours.seconds)
            yield (
                f"Certified at {power(target)} within {CERTIFIED_SECONDS:g} s: {len(within)} of {len(cells)} cells "
                f"({_met(len(within) == len(cells))}); the longest fit took {seconds_text(slowest.ours.seconds)} s ({slowest})."
            )


def ratio_lines(cells: Sequence[Cell], peer: str, target: float) -> Iterable[str]:
    raced = [cell for cell in cells if peer in cell.peers]
    there = [cell for cell in raced if cell.peers[peer].reached]
    if not there:
        yield f"{peer} at {power(target)}: it gets there in none of {len(raced)} cells."
        return
    least = min(there, key=lambda cell: cell.ratio(peer))
    is_first = target == TARGETS[0]
    figures = (
        _mean("", there, peer, MEANS.get(peer) if is_first else None),
        _mean(f" for C >= {LARGE_C:g}", there, peer, LARGE_MEAN if is_first and peer == "LIBLINEAR" else None),
        f"least {least.ratio(peer):.2f}{_to_reach(least.ratio(peer), LEAST_RATIO if peer == 'LIBLINEAR' else None)}",
    )
    yield (
        f"{peer} at {power(target)} gets there in {len(there)} of {len(raced)} cells; its seconds over ours: "
        f"{', '.join(figures)}, on {least.name} C = {least.C:g}."
    )


def _mean(which: str, cells: Sequence[Cell], peer: str, limit: float | None) -> str:
    chosen = [cell for cell in cells if not which or cell.C >= LARGE_C]
    mean = geometric_mean(cell.ratio(peer) for cell in chosen)
    return f"geometric mean{which} {mean:.2f}{_to_reach(mean, limit if chosen else None)}"


def _to_reach(value: float, limit: float | None) -> str:
    return "" if limit is None else f" (to reach {limit:g}: {_met(value >= limit)})"


def time_lines(cells: Sequence[Cell]) -> Iterable[str]:
    tight = [cell for cell in cells if cell.target == TARGETS[-1]]
    covtype = [cell.ours.seconds for cell in tight if cell.name.startswith("covtype")]
    if covtype:
        yield f"covtype at 1e-6, every C: at most {_allowed(max(covtype), COVTYPE_SECONDS)}."
    a9a = [cell.ours.seconds for cell in tight if cell.name == "a9a" and cell.C == 1000.0]
    if a9a:
        yield f"a9a, C = 1000, at 1e-6: {_allowed(a9a[0], A9A_SECONDS)}."


def _allowed(seconds: float, limit: float) -> str:
    return f"{seconds_text(seconds)} s (allowed {limit:g} s: {_met(seconds <= limit)})"


def auto_lines(cells: Sequence[Cell]) -> Iterable[str]:
    long = [cell for cell in cells if cell.solvers and cell.ours.seconds > LONG_SECONDS]
    if long:
        worst = max(long, key=lambda cell: cell.auto_ratio)
        above = [cell for cell in long if cell.auto_ratio > AUTO_RATIO]
        tail = f" Above it: {'; '.join(f'{cell} ({cell.auto_ratio:.2f})' for cell in above)}." if above else ""
        yield (
            f"auto over the best single solver, in {len(long)} cells longer than {LONG_SECONDS:g} s: at most "
            f"{worst.auto_ratio:.2f} ({worst}; allowed {AUTO_RATIO:g}: {_met(not above)}).{tail}"
        )


def memory_lines(memory: Sequence[Memory]) -> Iterable[str]:
    if memory:
        worst = max(memory, key=lambda row: row.ratio)
        yield (
            f"Memory that a fit to 1e-6 adds at its peak: at most {worst.ratio:.2f} times X's own ({worst.name}, "
            f"C = {worst.C:g}; allowed {MEMORY_RATIO:g}: {_met(worst.ratio <= MEMORY_RATIO)})."
        )


def power(target: float) -> str:
    return f"1e{round(math.log10(target))}"


def _met(is_met: bool) -> str:
    return "met" if is_met else "NOT met"


def tables(grid: Grid) -> Iterable[object]:
    for target in TARGETS:
        if grid.at(target):
            yield f"## Target {power(target)}"
            yield "A peer's cell: seconds, (tolerance), its seconds over ours; x: it never gets there."
            yield target_table(grid, target)
    yield "## Solver auto and each solver alone, seconds"
    yield solver_table(grid.cells)
    if grid.memory:
        yield "## Memory added by a fit to 1e-6, as a multiple of X's own"
        yield memory_table(grid.memory)


def target_table(grid: Grid, target: float) -> Table:
    table = Table("set", "C", "maxmargin s", "certified gap", "solvers", *grid.peers)
    for cell in grid.at(target):
        ours = cell.ours
        gap = f"{ours.relative_gap:.1e}{'' if ours.is_certified else ' NOT certified'}"
        peers = [peer_text(cell, peer) if peer in cell.peers else "-" for peer in grid.peers]
        table.add(cell.name, f"{cell.C:g}", seconds_text(ours.seconds), gap, ours.solvers, *peers)
    return table


def peer_text(cell: Cell, peer: str) -> str:
    time = cell.peers[peer]
    if time.reached:
        return f"{seconds_text(time.seconds)} ({time.tolerance:.2g}) {cell.ratio(peer):.2f}"
    more = ">" if time.is_clocked_out else ""
    return f"x {more}{seconds_text(time.seconds)}{f' [{time.excess:.0e}]' if math.isfinite(time.excess) else ''}"


def solver_table(cells: Sequence[Cell]) -> Table:
    names = sorted({name for cell in cells for name in cell.solvers})
    table = Table("set", "C", "target", "auto", *names, "auto / best", "why it switched")
    for cell in cells:
        alone = [_capped(cell, name) for name in names]
        ratio = f"{cell.auto_ratio:.2f}" if cell.auto_ratio else f"< {cell.ours.seconds / cell.solver_cap:.2f}"
        why = cell.ours.reason if cell.ours.reason != "first" else ""
        table.add(cell.name, f"{cell.C:g}", power(cell.target), seconds_text(cell.ours.seconds), *alone, ratio, why)
    return table


def _capped(cell: Cell, name: str) -> str:
    seconds = cell.solvers.get(name)
    if seconds is None:
        return "-"
    return seconds_text(seconds) if math.isfinite(seconds) else f"> {seconds_text(cell.solver_cap)}"


def memory_table(memory: Sequence[Memory]) -> Table:
    costs = sorted({row.C for row in memory})
    table = Table("set", "X MB", *(f"C = {C:g}" for C in costs))
    for name in dict.fromkeys(row.name for row in memory):
        rows = {row.C: row for row in memory if row.name == name}
        megabytes = f"{next(iter(rows.values())).X / 1e6:.1f}"
        table.add(name, megabytes, *(f"{rows[C].ratio:.2f}" if C in rows else "-" for C in costs))
    return table


def notes(grid: Grid) -> str:
    builds = ", ".join(f"{name} {seconds_text(seconds)} s" for name, seconds in grid.builds.items())
    others = [PEERS[peer] for peer in grid.peers if PEERS[peer].package not in LIBRARIES]
    versions = ", ".join(f"{peer.package} {peer.version}" for peer in others)
    not_counted = "Not counted against LIBLINEAR: the building of its own copy of the data"
    return f"{METHOD}\n\n{not_counted} ({builds}). Also: {versions}."


def figure(grid: Grid) -> Any:
    """A panel for each set: seconds to the tight target against C. A cross: the target was not reached, this long was spent."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    n_rows = math.ceil(len(grid.names) / 3)
    settings: Any = {"font.size": 11, "axes.edgecolor": "#888888", "axes.titlesize": 12, "axes.titleweight": "bold"}
    with pyplot.rc_context(settings):
        made, axes = pyplot.subplots(n_rows, 3, figsize=(11.0, 1.0 + 3.1 * n_rows), squeeze=False, facecolor="white")
        for axis in axes.flat[len(grid.names) :]:
            axis.set_visible(False)
        for axis, name in zip(axes.flat, grid.names, strict=False):
            _panel(axis, name, [cell for cell in grid.at(TARGETS[-1]) if cell.name == name], grid.peers)
        for row in axes:
            row[0].set_ylabel("seconds")
        handles = _legend(pyplot, ["maxmargin", *grid.peers])
        top = 1.0 - 0.4 / made.get_figheight()
        made.suptitle(f"Seconds of a fit to within {power(TARGETS[-1])} of the optimum, hinge loss", y=0.99, fontsize=13)
        made.legend(handles=handles, loc="upper center", ncol=len(handles), frameon=False, bbox_to_anchor=(0.5, top))
        made.tight_layout(rect=(0, 0, 1, top + 0.1 / made.get_figheight()))
    return made


def _panel(axis: Any, name: str, cells: Sequence[Cell], peers: Sequence[str]) -> None:
    for k, peer in enumerate(peers):
        times = [(cell.C, cell.peers[peer]) for cell in cells if peer in cell.peers]
        shift = 1.2 ** (k - (len(peers) - 1) / 2)  # crosses at the same limit of seconds stand side by side
        there = [(C, time.seconds) for C, time in times if time.reached]
        never = [(C * shift, time.seconds) for C, time in times if not time.reached]
        axis.plot(*_columns(there), "-o", color=COLOURS[peer], markersize=4, linewidth=1.5)
        axis.plot(*_columns(never), "x", color=COLOURS[peer], markersize=6, markeredgewidth=1.6)
    ours = [(cell.C, cell.ours.seconds) for cell in cells]
    axis.plot(*_columns(ours), "-o", color=COLOURS["maxmargin"], markersize=6, linewidth=3.0, zorder=5)
    axis.set(xscale="log", yscale="log", title=name.removesuffix(".binary.scale"), xlabel="C")
    axis.grid(color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.minorticks_off()
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _legend(pyplot: Any, names: Sequence[str]) -> list[Any]:
    line: Callable[..., Any] = pyplot.Line2D
    widths = {"maxmargin": 3.0}
    handles = [line([], [], color=COLOURS[name], marker="o", linewidth=widths.get(name, 1.5), label=name) for name in names]
    return [*handles, line([], [], color="#666666", marker="x", linestyle="", markeredgewidth=1.6, label="gave up")]

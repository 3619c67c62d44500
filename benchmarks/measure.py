"""How the benchmarks measure and report: interleaved repeats, tolerances found by search, tables, the machine."""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from benchmarks.datasets import CACHE, ROOT, write_atomically, write_text

RESULTS = ROOT / "benchmarks" / "results"
QUICK_RESULTS = CACHE / "quick-results"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "liblinear-official")
TOLERANCES = tuple(10.0 * 2.0**-k for k in range(18))
"""From 10 down to just under 1e-4."""


class Timed(Protocol):
    @property
    def seconds(self) -> float: ...


class Capped(Timed, Protocol):
    @property
    def hit_cap(self) -> bool: ...


T = TypeVar("T")
TimedT = TypeVar("TimedT", bound=Timed)
F = TypeVar("F", bound=Capped)


def seconds_of(run: Timed) -> float:
    return run.seconds


class Trial(NamedTuple):
    """One run of a peer at one tolerance, and how far above the optimum its answer can be."""

    tolerance: float
    fit: Any
    excess: float


@dataclass(frozen=True)
class Search:
    """The runs of a peer from the loosest tolerance on. ``found`` is the first that was good enough, if any."""

    trials: tuple[Trial, ...]
    found: Trial | None
    ended: str

    @property
    def best(self) -> Trial:
        """The one that was good enough, else the nearest to it."""
        return self.found or min(self.trials, key=lambda trial: trial.excess)

    def __str__(self) -> str:
        return f"{self.found.tolerance:.2g}" if self.found else f"never ({self.ended})"


def fastest_of(runs: Sequence[TimedT]) -> TimedT:
    return min(runs, key=seconds_of)


def interleaved(
    contestants: dict[str, Callable[[], T]],
    repeats: int,
    max_seconds: float = math.inf,
    cost: Callable[[Any], float] = seconds_of,
) -> dict[str, T]:
    """Each contestant's fastest run. They take turns, so that a busy moment of the machine hits all of them alike.

    No further round is begun after ``max_seconds``.
    """
    fastest: dict[str, T] = {}
    start = time.perf_counter()
    for _ in range(repeats):
        for name, run in contestants.items():
            result = run()
            if name not in fastest or cost(result) < cost(fastest[name]):
                fastest[name] = result
        if time.perf_counter() - start > max_seconds:
            break
    return fastest


ROUNDS = ((0.2, 7), (1.0, 5), (5.0, 3), (15.0, 2), (math.inf, 1))
"""Up to so many seconds a run, so many runs."""


def interleaved_by_length(contestants: dict[str, Callable[[], TimedT]], most_rounds: int = 7) -> dict[str, list[TimedT]]:
    """Every run of each contestant. They take turns; how many runs one gets depends on how long its fastest took."""
    runs: dict[str, list[TimedT]] = {name: [] for name in contestants}
    for _ in range(most_rounds):
        for name, run in contestants.items():
            if not runs[name] or len(runs[name]) < _rounds(min(map(seconds_of, runs[name]))):
                runs[name].append(run())
    return runs


def _rounds(seconds: float) -> int:
    return next(rounds for longest, rounds in ROUNDS if seconds <= longest)


def loosest_tolerance(
    run: Callable[[float], F],
    excess: Callable[[F], float],
    target: float,
    grid: Sequence[float] = TOLERANCES,
    max_seconds: float = math.inf,
    beyond: float | None = None,
    max_seconds_beyond: float = math.inf,
) -> Search:
    """Try tolerances from loose to tight until one brings the primal value within ``target`` of the optimum.

    A run that ended at its cap of iterations is the last: a tighter tolerance would make the same run again. So is one that
    took more than ``max_seconds``. With ``beyond`` the search goes on to that excess, for a curve, with a limit of its own.
    """
    trials: list[Trial] = []
    found = None
    for tolerance in grid:
        fit = run(tolerance)
        trials.append(Trial(tolerance, fit, excess(fit)))
        if found is None and trials[-1].excess <= target:
            found = trials[-1]
        if trials[-1].excess <= (target if beyond is None else beyond):
            return Search(tuple(trials), found, "reached")
        if fit.hit_cap:
            return Search(tuple(trials), found, "cap of iterations")
        if fit.seconds > (max_seconds_beyond if found else max_seconds):
            return Search(tuple(trials), found, f"stopped after a run of {fit.seconds:.0f} s")
    return Search(tuple(trials), found, f"not at {grid[-1]:.1g}")


def digest_of_sources(*versions: str) -> str:
    """Of maxmargin's sources and these versions: what was measured with others is measured anew."""
    sources = b"".join(path.read_bytes() for path in sorted((ROOT / "src" / "maxmargin").rglob("*.py")))
    return hashlib.sha256(sources + " ".join(versions).encode()).hexdigest()[:12]


def provenance(note: str | None) -> str:
    """The last commit that changed maxmargin's sources, and how the run was made if that was said."""
    command = ["git", "log", "-1", "--format=%h", "--", "src/maxmargin"]
    commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return " ".join([f"Sources of commit {commit or 'unknown'}.", *([note] if note else [])])


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def seconds_text(seconds: float) -> str:
    """Three significant digits, down to tenths of a millisecond."""
    return f"{seconds:.{max(0, 2 - math.floor(math.log10(max(seconds, 1e-2))))}f}" if math.isfinite(seconds) else "-"


class Table:
    """A Markdown table that prints its rows as they come."""

    def __init__(self, *columns: str, numbers_from: int = 1) -> None:
        self.columns = columns
        self.rows: list[tuple[str, ...]] = []
        self._numbers_from = numbers_from
        print("\n" + " | ".join(columns), flush=True)

    def add(self, *cells: Any) -> None:
        row = tuple(str(cell) for cell in cells)
        if len(row) != len(self.columns):
            raise ValueError(f"{len(self.columns)} columns, {len(row)} cells.")
        self.rows.append(row)
        print(" | ".join(row), flush=True)

    def __str__(self) -> str:
        rule = ["---" if k < self._numbers_from else "---:" for k in range(len(self.columns))]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.columns, rule, *self.rows))


def arguments(description: str | None, own: Callable[[argparse.ArgumentParser], None] | None = None) -> argparse.Namespace:
    """The options that every script has: --quick and --results."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sets and few repeats, to see that it works")
    parser.add_argument("--results", type=Path, help="folder for the results (default: benchmarks/results, quick: in .cache)")
    if own is not None:
        own(parser)
    options = parser.parse_args()
    options.results = options.results or (QUICK_RESULTS if options.quick else RESULTS)
    return options


WALL_CLOCK = "Wall-clock seconds, the minimum of interleaved repeats."


def write_report(path: Path, title: str, parts: Sequence[object], quick: bool, measured: str = WALL_CLOCK) -> None:
    """Title, machine, how it was measured, and the parts with an empty line between them."""
    warning = ["**A quick run: it shows that the script works, not how fast anything is.**"] if quick else []
    text = "\n\n".join([f"# {title}", *warning, machine(measured), *map(str, parts)]) + "\n"
    write_text(path, text)
    print(f"\nwritten: {_relative(path)}")


def write_figure(path: Path, figure: Any) -> None:
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=110))
    print(f"written: {_relative(path)}")


def machine(measured: str = WALL_CLOCK) -> str:
    """One paragraph: processor, memory, versions, date, and how it was measured."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    from maxmargin import __version__

    plural = "s" if cores != 1 else ""
    versions = ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)
    return (
        f"{_processor()}, {cores} core{plural}, {memory:.0f} GiB; {platform.system()}, Python {platform.python_version()}; "
        f"maxmargin {__version__}, {versions}; {datetime.now(UTC):%Y-%m-%d}. "
        f"{measured}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(not installed)"


def _relative(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path

"""How late a limit of seconds and Ctrl-C are heard: by every estimator and solver, on the largest sets.

A limit of 5 s is to end a fit within 6 s. The sets are covtype (30,000 rows for RBF, all for linear models), mnist with all ten
classes, and news20_bigram. Each fit asks for more than it can reach. One process for each set makes the fits one after another;
shorter fits of the same kind, on a few rows and on all, load the compiled code before: compilation is no part of a limit.
Ctrl-C is a real signal to such a process at several moments of a fit without limits.

    python -m benchmarks.limits                 # both tables
    python -m benchmarks.limits --brief         # both, each solver with one loss and one moment of Ctrl-C: fifteen minutes
    python -m benchmarks.limits --only seconds  # or ctrl-c
    python -m benchmarks.limits --only seconds --processor   # seconds of processor time on one core, for a busy machine
    python -m benchmarks.limits --brief --part 1/4           # the first of four parts, three to four minutes each
    python -m benchmarks.limits --brief --kept               # a report of all that was measured so far with these sources
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import maxmargin
from benchmarks.datasets import CACHE, ROOT, Data, load, load_all_digits, write_text
from benchmarks.measure import Table, arguments, digest_of_sources, provenance, seconds_text, write_report
from maxmargin.io import to_blocks

LIMIT_SECONDS, ALLOWED_SECONDS = 5.0, 1.0
"""The limit of a fit, and how much later it may end."""
MOMENTS = (0.3, 1.0, 2.5, 5.0)
"""When Ctrl-C comes, in seconds after the fit began."""
PATIENCE_SECONDS = 300.0
"""A process that has not ended by then is killed."""
WARM_SECONDS, WARM_ROWS = 1.0, 2000
"""The limit of the fits that load the compiled code, and the rows of the first of them."""
COVTYPE_ROWS = 30_000
BLOCKS_MEMORY = "1G"
FOLDER = CACHE / "limits"


class Case(NamedTuple):
    """A data set, and an estimator by its name and settings."""

    data: str
    estimator: str
    settings: dict[str, Any]

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.data}, {self.estimator}, {settings}"

    @property
    def file_name(self) -> str:
        return "".join(letter if letter.isalnum() or letter in "-.=" else "_" for letter in str(self))

    @property
    def is_linear(self) -> bool:
        return self.estimator.startswith("Linear")


LINEAR_SOLVERS = ("auto", "dcd", "avsf", "newton", "pruned-gradient", "pegasos")
KERNEL_SOLVERS = ("auto", "batched-smo", "smo", "irwls")
FREE_SOLVERS = ("auto", "newton")
SETS = ("covtype", "mnist", "news20_bigram")
HARD = {"C": 1e4, "tol": 0.0}


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for data in SETS:
        yield from linear_cases(data, ("squared_hinge",) if options.brief else ("hinge", "squared_hinge"))
        yield from kernel_cases(data)


def linear_cases(data: str, losses: tuple[str, ...]) -> Iterator[Case]:
    is_wide = data == "news20_bigram"
    for loss in losses:
        for solver in LINEAR_SOLVERS:
            if not (is_wide and solver == "newton"):  # its matrix would have 3e12 elements
                yield Case(data, "LinearSVC", {"solver": solver, "loss": loss, **HARD})
        for solver in FREE_SOLVERS if not is_wide else ():
            yield Case(data, "LinearSVC", {"solver": solver, "loss": loss, "penalize_intercept": False, **HARD})
    yield Case(data, "LinearSVC", {"solver": "auto", "loss": "hinge", "n_jobs": 2, **HARD})
    yield Case(data, "LinearSVC", {"solver": "auto", "penalty": "l1", **HARD})
    if data == "mnist":
        yield Case(data, "LinearSVC", {"solver": "auto", "multi_class": "crammer_singer", **HARD})
    yield Case(data, "LinearSVC.fit_blocks", {"solver": "auto", "loss": "hinge", **HARD})
    yield Case(data, "LinearSVCCV", {"solver": "auto", "Cs": 3, "tol": 0.0})
    yield Case(data, "LinearSVR", {"solver": "auto", **HARD})
    yield Case(data, "LinearOneClassSVM", {"solver": "auto", "nu": 0.1, "tol": 0.0})


def kernel_cases(data: str) -> Iterator[Case]:
    for solver in KERNEL_SOLVERS:
        yield Case(data, "SVC", {"kernel": "rbf", "solver": solver, "C": 10.0, "tol": 1e-9})
    yield Case(data, "SVCCV", {"kernel": "rbf", "solver": "auto", "Cs": 3, "tol": 1e-9})
    yield Case(data, "SVR", {"solver": "auto", "C": 10.0, "tol": 1e-9})
    yield Case(data, "NuSVC", {"nu": 0.05, "tol": 1e-9})
    yield Case(data, "NuSVR", {"nu": 0.2, "C": 10.0, "tol": 1e-9})
    yield Case(data, "OneClassSVM", {"nu": 0.1, "tol": 1e-9})
    if data == "news20_bigram":
        yield Case(data, "SVC", {"kernel": "linear", "solver": "auto", "C": 10.0, "tol": 1e-9})


@cache
def _loaded(name: str) -> Data:
    return load_all_digits() if name == "mnist" else load("covtype.binary.scale" if name == "covtype" else name)


def data_of(case: Case) -> Data:
    data = _loaded(case.data)
    return _chosen(data, COVTYPE_ROWS) if case.data == "covtype" and not case.is_linear else data


def _chosen(data: Data, n_rows: int) -> Data:
    chosen = np.random.default_rng(0).permutation(len(data.y))[:n_rows]
    return Data(data.X[chosen], data.y[chosen])


@cache
def blocks_of(name: str) -> Any:
    """The whole set in a folder, which is removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="limits-")
    data = _loaded(name)
    return folder, to_blocks([(data.X, data.y)], Path(folder.name) / "blocks")


@dataclass(frozen=True)
class Ended:
    """How long after the fit began, or after the signal, it ended; and how."""

    case: str
    moment: float
    seconds: float
    statuses: str
    gap: float

    @property
    def late_seconds(self) -> float:
        return self.seconds - self.moment

    @property
    def is_in_time(self) -> bool:
        return self.late_seconds <= ALLOWED_SECONDS


def model_of(case: Case, max_seconds: float | None) -> Any:
    return getattr(maxmargin, case.estimator.removesuffix(".fit_blocks"))(**case.settings, max_seconds=max_seconds)


def fit_of(case: Case) -> Callable[[float | None], Any]:
    """What fits the whole set within so many seconds, after compiled code was loaded."""
    data = data_of(case)
    if case.estimator == "LinearSVC.fit_blocks":
        _, blocks = blocks_of(case.data)

        def fit(max_seconds: float | None) -> Any:
            return model_of(case, max_seconds).fit_blocks(blocks, memory=BLOCKS_MEMORY)
    else:
        few = _chosen(data, WARM_ROWS)
        model_of(case, WARM_SECONDS).fit(few.X, few.y)

        def fit(max_seconds: float | None) -> Any:
            return model_of(case, max_seconds).fit(data.X, data.y)

    fit(WARM_SECONDS)
    return fit


def use_processor_time() -> None:
    """Let every clock of this process count its processor time, on one core. A limit then means what it means on an idle
    machine with one core, whatever other processes do."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    time.perf_counter = time.time = time.process_time


def stay_behind() -> None:
    """Let the parent run first where both have a real-time priority on one core, because it has to send Ctrl-C in time; and let
    the threads of this process take turns, as they do without such a priority."""
    priority = os.sched_getparam(0).sched_priority
    if os.sched_getscheduler(0) == os.SCHED_FIFO and priority > 1:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority - 1))


def _next_line() -> str:
    """What the parent says next. A Ctrl-C that comes after its fit has ended is of no use to the next one."""
    while True:
        try:
            return sys.stdin.readline()
        except KeyboardInterrupt:
            continue


def serve() -> None:
    """What a child process does: for each line with a case and a limit print "ready" before the fit, then a line of JSON."""
    stay_behind()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    for line in iter(_next_line, ""):
        *case, max_seconds = json.loads(line)
        fit = fit_of(Case(*case))
        print("ready", flush=True)
        begun = time.time()
        try:
            model = fit(max_seconds)
        except KeyboardInterrupt:
            print(json.dumps({"begun": begun, "ended": time.time(), "statuses": "KeyboardInterrupt", "gap": 1.0}), flush=True)
            continue
        ended = time.time()
        statuses = model.status_ if isinstance(model.status_, list) else [model.status_]
        names = ", ".join(sorted({status.name for status in statuses}))
        print(json.dumps({"begun": begun, "ended": ended, "statuses": names, "gap": float(model.relative_gap_)}), flush=True)


@dataclass
class Child:
    """A process that has a set in memory, and fits what it is told to."""

    process: subprocess.Popen[bytes]
    unread: bytes = b""

    @classmethod
    def begun(cls, by_processor: bool) -> Child:
        command = "use_processor_time(); serve()" if by_processor else "serve()"
        process = subprocess.Popen(
            [sys.executable, "-c", f"from benchmarks.limits import serve, use_processor_time; {command}"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        return cls(process)

    def tell(self, case: Case, limit: float | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps([*case, limit])}\n".encode())

    def heard(self) -> str | None:
        """The next line; "" from a process that failed, None from one that keeps still for too long."""
        assert self.process.stdout is not None
        while b"\n" not in self.unread:  # two lines may have come at once
            if not self.speaks_within(PATIENCE_SECONDS):
                return None
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                return ""
            self.unread += more
        line, self.unread = self.unread.split(b"\n", 1)
        return f"{line.decode()}\n"

    def speaks_within(self, seconds: float) -> bool:
        """Whether there is something to read now, or within these seconds."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            return bool(self.unread or selector.select(seconds))

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


CHILDREN: dict[str, Child] = {}


def run(case: Case, moment: float, by_signal: bool, by_processor: bool) -> Ended:
    if case.data not in CHILDREN:
        end_children()
        CHILDREN[case.data] = Child.begun(by_processor)
    child = CHILDREN[case.data]
    child.tell(case, None if by_signal else moment)
    said, told = child.heard(), 0.0
    if said == "ready\n":
        if by_signal:
            told = time.time() + moment
            if not child.speaks_within(moment):  # a signal after the end of a fit would meet the reading of the next line
                child.interrupt()
        said = child.heard()
    if not said or said == "ready\n":
        end_children()
        return Ended(str(case), moment, float("inf"), "killed" if said is None else "failed", float("inf"))
    found = json.loads(said)
    seconds = moment + found["ended"] - told if by_signal else found["ended"] - found["begun"]
    return Ended(str(case), moment, seconds, found["statuses"], found["gap"])


def end_children() -> None:
    while CHILDREN:
        CHILDREN.popitem()[1].end()


def kept(case: Case, moment: float, by_signal: bool, options: argparse.Namespace) -> Ended:
    """From the run of the same sources, or measured now."""
    path = path_of(case, moment, by_signal, options)
    if path.exists():
        return Ended(**json.loads(path.read_text()))
    ended = run(case, moment, by_signal, options.processor)
    print(f"{case}: {ended.late_seconds:.2f} s late, {ended.statuses}", flush=True)
    write_text(path, json.dumps(asdict(ended)))
    return ended


def path_of(case: Case, moment: float, by_signal: bool, options: argparse.Namespace) -> Path:
    kind = "signal" if by_signal else "processor" if options.processor else "limit"
    folder: Path = options.run
    return folder / f"{kind}-{moment:g}-{case.file_name}.json"


def chosen(options: argparse.Namespace) -> list[Case]:
    """The fits that are asked for. Those of one part follow one another, so that a set is loaded once or twice in all."""
    found = [case for case in cases(options) if not options.fits or any(word in str(case) for word in options.fits)]
    part, n_parts = options.part
    return found[len(found) * (part - 1) // n_parts : len(found) * part // n_parts]


def part_of(text: str) -> tuple[int, int]:
    """1/4 is the first of four parts."""
    part, n_parts = map(int, text.split("/"))
    if not 1 <= part <= n_parts:
        raise ValueError
    return part, n_parts


def seconds_table(options: argparse.Namespace) -> tuple[str, Table]:
    table = Table("fit", "ended after, s", "status", "relative gap")
    found = []
    for case in chosen(options):
        if options.kept and not path_of(case, LIMIT_SECONDS, False, options).exists():
            continue
        ended = kept(case, LIMIT_SECONDS, False, options)
        late = "" if ended.is_in_time else " **late**"
        table.add(case, seconds_text(ended.seconds) + late, ended.statuses, f"{ended.gap:.1e}")
        found.append(ended)
    verdict = f"{sum(ended.is_in_time for ended in found)} of {len(found)} fits with a limit of {LIMIT_SECONDS:g} s"
    clock = " The clock counts processor time, on one core of a busy machine." if options.processor else ""
    return f"{verdict} end within {LIMIT_SECONDS + ALLOWED_SECONDS:g} s.{clock}", table


def signal_table(options: argparse.Namespace) -> tuple[str, Table]:
    moments = MOMENTS[1:2] if options.brief else MOMENTS
    table = Table("fit", *(f"after {moment:g} s" for moment in moments))
    found = []
    for case in chosen(options):
        is_known = all(path_of(case, moment, True, options).exists() for moment in moments)
        if case.settings.get("solver", "auto") == "auto" and (is_known or not options.kept):
            row = [kept(case, moment, True, options) for moment in moments]
            cells = (seconds_text(e.late_seconds) + ("" if e.is_in_time else f" **late** {e.statuses}") for e in row)
            table.add(case, *cells)
            found += row
    verdict = f"{sum(ended.is_in_time for ended in found)} of {len(found)} signals are heard within {ALLOWED_SECONDS:g} s"
    return f"{verdict}. Seconds from the signal to the end of the fit; a fit that had ended before counts as heard.", table


def kept_tables(options: argparse.Namespace) -> Iterator[object]:
    """What was measured so far: the first table by either clock, and Ctrl-C."""
    yield f"Each fit was made once. What is not in the tables, of {len(chosen(options))} fits, was not measured."
    for options.processor, title in ((False, "A limit of seconds"), (True, "A limit of seconds of processor time")):
        verdict, table = seconds_table(options)
        if table.rows:
            yield from (f"## {title}", verdict, table)
    yield "## Ctrl-C"
    yield from signal_table(options)


STEPS = {"seconds": ("A limit of seconds", seconds_table), "ctrl-c": ("Ctrl-C", signal_table)}


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brief", action="store_true", help="one loss and one moment of Ctrl-C: about fifteen minutes")
    parser.add_argument("--only", choices=STEPS, help="one of the two tables")
    parser.add_argument("--processor", action="store_true", help="limits in seconds of processor time, on one core")
    parser.add_argument("--note", help="how the run was made, for the report")
    parser.add_argument("--kept", action="store_true", help="report what was measured before, and measure nothing")
    parser.add_argument("--part", type=part_of, default=(1, 1), metavar="K/N", help="the K-th of N parts of the fits")
    parser.add_argument("--fits", nargs="+", metavar="WORD", help="the fits alone whose name has one of these words")


def main() -> None:
    options = arguments(__doc__, _own_options)
    options.brief = options.brief or options.quick
    options.run = FOLDER / digest_of_sources()
    parts: list[object] = [provenance(options.note)]
    try:
        if options.kept:
            parts += kept_tables(options)
        for name, (title, measure) in STEPS.items() if not options.kept else ():
            if options.only in (None, name):
                parts += [f"## {title}", *measure(options)]
    finally:
        end_children()
    write_report(options.results / "limits.md", "Limits", parts, options.quick)


if __name__ == "__main__":
    main()

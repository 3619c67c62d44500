"""How late a limit of seconds and Ctrl-C are heard: by every estimator and solver, on the largest sets.

A limit of 5 s is to end a fit within 6 s. The sets are covtype (30,000 rows for RBF, all for linear models), mnist with all ten
classes, and news20_bigram. Each fit asks for more than it can reach, in a fresh process whose compiled code was loaded by a
shorter fit of the same data: compilation is no part of a limit. Ctrl-C is a real signal to such a process at several moments
of a fit without limits.

    python -m benchmarks.limits                 # both tables
    python -m benchmarks.limits --only seconds  # or ctrl-c
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import CACHE, ROOT, Data, load, load_all_digits, write_text
from benchmarks.measure import Table, arguments, digest_of_sources, seconds_text, write_report
from maxmargin import SVC, LinearSVC

LIMIT_SECONDS, ALLOWED_SECONDS = 5.0, 1.0
"""The limit of a fit, and how much later it may end."""
MOMENTS = (0.3, 1.0, 2.5, 5.0)
"""When Ctrl-C comes, in seconds after the fit began."""
PATIENCE_SECONDS = 120.0
"""A process that has not ended by then is killed."""
WARM_SECONDS = 3.0
"""The limit of the fit that loads the compiled code."""
COVTYPE_ROWS = 30_000
FOLDER = CACHE / "limits"


class Case(NamedTuple):
    """A data set, and an estimator by its settings: SVC with ``kernel``, or LinearSVC where that is "none"."""

    data: str
    kernel: str
    solver: str
    settings: dict[str, Any]

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.data}, {'LinearSVC' if self.kernel == 'none' else f'SVC {self.kernel}'}, {self.solver}, {settings}"

    @property
    def file_name(self) -> str:
        return "".join(letter if letter.isalnum() or letter in "-.=" else "_" for letter in str(self))


LINEAR_SOLVERS = ("auto", "dcd", "avsf", "newton", "pruned-gradient", "pegasos")
KERNEL_SOLVERS = ("auto", "batched-smo", "smo", "irwls")
FREE_SOLVERS = ("auto", "newton")


def cases(quick: bool) -> Iterator[Case]:
    hard = {"C": 1e4, "tol": 0.0}
    for data in ("mnist",) if quick else ("covtype", "mnist", "news20_bigram"):
        is_wide = data == "news20_bigram"
        for loss in ("hinge",) if quick else ("hinge", "squared_hinge"):
            for solver in ("auto",) if quick else LINEAR_SOLVERS:
                if not (is_wide and solver == "newton"):  # its matrix would have 3e12 elements
                    yield Case(data, "none", solver, {"loss": loss, **hard})
            for solver in FREE_SOLVERS if not (quick or is_wide) else ():
                yield Case(data, "none", solver, {"loss": loss, "penalize_intercept": False, **hard})
        yield Case(data, "none", "auto", {"loss": "hinge", "n_jobs": 2, **hard})
        for solver in ("auto",) if quick else KERNEL_SOLVERS:
            yield Case(data, "rbf", solver, {"C": 10.0, "tol": 1e-9})
    if not quick:
        yield Case("news20_bigram", "linear", "auto", {"C": 10.0, "tol": 1e-9})


def data_of(case: Case) -> Data:
    if case.data == "mnist":
        return load_all_digits()
    data = load("covtype.binary.scale" if case.data == "covtype" else case.data)
    if case.data == "covtype" and case.kernel != "none":
        chosen = np.random.default_rng(0).permutation(len(data.y))[:COVTYPE_ROWS]
        return Data(data.X[chosen], data.y[chosen])
    return data


def model_of(case: Case, **more: Any) -> Any:
    settings = {**case.settings, "solver": case.solver, **more}
    return LinearSVC(**settings) if case.kernel == "none" else SVC(kernel=case.kernel, **settings)


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


def fitted(case: Case, max_seconds: float | None) -> None:
    """What a child process does: print "ready" before the fit, then a line of JSON."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    data = data_of(case)
    model_of(case, max_seconds=WARM_SECONDS).fit(data.X, data.y)
    model = model_of(case, max_seconds=max_seconds)
    print("ready", flush=True)
    begun = time.time()
    model.fit(data.X, data.y)
    statuses = model.status_ if isinstance(model.status_, list) else [model.status_]
    names = ", ".join(sorted({status.name for status in statuses}))
    print(json.dumps({"begun": begun, "ended": time.time(), "statuses": names, "gap": float(model.relative_gap_)}), flush=True)


def run(case: Case, moment: float, by_signal: bool) -> Ended:
    limit = None if by_signal else moment
    code = f"from benchmarks.limits import Case, fitted; fitted(Case(*{tuple(case)!r}), {limit!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            return Ended(str(case), moment, float("inf"), f"failed: {process.communicate()[1].splitlines()[-1]}", float("inf"))
        told = 0.0
        if by_signal:
            time.sleep(moment)
            told = time.time()
            process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        return Ended(str(case), moment, float("inf"), "killed", float("inf"))
    finally:
        process.kill()
    if not output:
        return Ended(str(case), moment, float("inf"), f"failed: {errors.splitlines()[-1]}", float("inf"))
    found = json.loads(output)
    seconds = moment + found["ended"] - told if by_signal else found["ended"] - found["begun"]
    return Ended(str(case), moment, seconds, found["statuses"], found["gap"])


def kept(case: Case, moment: float, by_signal: bool, options: argparse.Namespace) -> Ended:
    """From the run of the same sources, or measured now."""
    path = options.run / f"{'signal' if by_signal else 'limit'}-{moment:g}-{case.file_name}.json"
    if path.exists():
        return Ended(**json.loads(path.read_text()))
    ended = run(case, moment, by_signal)
    write_text(path, json.dumps(asdict(ended)))
    return ended


def chosen(options: argparse.Namespace) -> list[Case]:
    return [case for case in cases(options.quick) if not options.fits or any(word in str(case) for word in options.fits)]


def seconds_table(options: argparse.Namespace) -> tuple[str, Table]:
    table = Table("fit", "ended after, s", "status", "relative gap")
    found = []
    for case in chosen(options):
        ended = kept(case, LIMIT_SECONDS, False, options)
        late = "" if ended.is_in_time else " **late**"
        table.add(case, seconds_text(ended.seconds) + late, ended.statuses, f"{ended.gap:.1e}")
        found.append(ended)
    verdict = f"{sum(ended.is_in_time for ended in found)} of {len(found)} fits with a limit of {LIMIT_SECONDS:g} s"
    return f"{verdict} end within {LIMIT_SECONDS + ALLOWED_SECONDS:g} s.", table


def signal_table(options: argparse.Namespace) -> tuple[str, Table]:
    moments = MOMENTS[1:2] if options.quick else MOMENTS
    table = Table("fit", *(f"after {moment:g} s" for moment in moments))
    found = []
    for case in chosen(options):
        if case.solver == "auto":
            row = [kept(case, moment, True, options) for moment in moments]
            cells = (seconds_text(e.late_seconds) + ("" if e.is_in_time else f" **late** {e.statuses}") for e in row)
            table.add(case, *cells)
            found += row
    verdict = f"{sum(ended.is_in_time for ended in found)} of {len(found)} signals are heard within {ALLOWED_SECONDS:g} s"
    return f"{verdict}. Seconds from the signal to the end of the fit; a fit that had ended before counts as heard.", table


STEPS = {"seconds": ("A limit of seconds", seconds_table), "ctrl-c": ("Ctrl-C", signal_table)}


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=STEPS, help="one of the two tables")
    parser.add_argument("--fits", nargs="+", metavar="WORD", help="the fits alone whose name has one of these words")


def main() -> None:
    options = arguments(__doc__, _own_options)
    options.run = FOLDER / digest_of_sources()
    parts: list[object] = []
    for name, (title, measure) in STEPS.items():
        if options.only in (None, name):
            parts += [f"## {title}", *measure(options)]
    write_report(options.results / "limits.md", "Limits", parts, options.quick)


if __name__ == "__main__":
    main()

"""Tables as they come, unscaled, with default settings, beside scikit-learn: which fits end certified, and how long they take.

Real tables (scikit-learn's built-in sets, and raw sets of the data folder) and generated ones (unix times, years beside
salaries, mixed scales, one-hot columns, copies), each with at most 5,000 rows. They are in two halves by name. Rules and
constants of maxmargin may be chosen on the tables of ``TUNED_ON``; those of ``SHOWN_ONLY`` are for looking at the outcome.

``LinearSVC`` is fitted with both losses, a penalised and a free intercept, C = 1e-4 to 1e6; ``SVC`` with four kernels, C = 1
and 1000. Everything else is at its default. Every fit of ours has a limit of seconds, so that a run ends. scikit-learn's
``LinearSVC`` ends at its default limit of iterations; its ``SVC`` has none by default, and gets one here. scikit-learn's
``LinearSVC`` has no free intercept, so those fits stand alone.

    python -m benchmarks.raw_data                  # every case that was not yet measured with these sources, then the report
    python -m benchmarks.raw_data --only linear    # or kernel
    python -m benchmarks.raw_data --brief          # both halves, one repeat, C = 1 and 1000, shorter limits: six minutes
    python -m benchmarks.raw_data --set cpu_act
    python -m benchmarks.raw_data --only kernel --model "SVC rbf" --results FOLDER    # some cells, and their report elsewhere
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
import sklearn.svm
from sklearn.exceptions import ConvergenceWarning

from benchmarks.datasets import CACHE, load_raw, write_text
from benchmarks.measure import (
    Table,
    arguments,
    digest_of_sources,
    fastest_of,
    geometric_mean,
    interleaved_by_length,
    provenance,
    seconds_text,
    write_report,
)
from maxmargin import SVC, LinearSVC
from maxmargin.solving.solution import Status
from tests import raw_catalogue

MOST_ROWS, QUICK_ROWS = 5000, 300
CAP_SECONDS, QUICK_CAP_SECONDS = 10.0, 2.0
"""The limit of one fit of ours."""
LIBSVM_ITERATIONS, QUICK_LIBSVM_ITERATIONS = 100_000, 20_000
"""The limit of scikit-learn's SVC for each pair of classes: about a second with 5,000 rows."""
ROUNDS = 3
FOLDER = CACHE / "raw_data"

FILES = {"magic": 2, "abalone": 3, "cal_housing": 2, "cpu_act": 5, "pol": 7}
"""Sets of the data folder, and into how many classes their target is cut."""
TUNED_ON = (
    *("iris", "wine", "digits", "magic", "cpu_act", "abalone"),
    *("unix-times", "salaries", "one-in-millions", "mixed-scales", "one-hot", "duplicated", "few-rows", "separable"),
)
SHOWN_ONLY = (
    *("breast_cancer", "diabetes", "linnerud", "cal_housing", "pol"),
    *("milliseconds", "invoices", "mixed-scales-off-centre", "one-hot-and-amounts", "constant-columns"),
    *("collinear", "wide", "integer-codes"),
)
HALVES = {"tuned on": TUNED_ON, "shown only": SHOWN_ONLY}
LINEAR_COSTS, KERNEL_COSTS = (1e-4, 1.0, 1e3, 1e6), (1.0, 1e3)


@cache
def load(name: str, n_rows: int) -> raw_catalogue.Table:
    if name not in FILES:
        return raw_catalogue.table(name, n_rows)
    X, target = load_raw(name)
    return raw_catalogue.Table(X, raw_catalogue.cut(target, FILES[name])).thinned(n_rows)


class Model(NamedTuple):
    """What is fitted: ours with the settings, and scikit-learn's with the same if it has them."""

    name: str
    settings: dict[str, Any]
    is_linear: bool

    def ours(self, C: float, max_seconds: float) -> Any:
        return (LinearSVC if self.is_linear else SVC)(C=C, max_seconds=max_seconds, **self.settings)

    def theirs(self, C: float, max_iter: int) -> Any | None:
        if "penalize_intercept" in self.settings:
            return None
        if self.is_linear:
            return sklearn.svm.LinearSVC(C=C, **self.settings)
        return sklearn.svm.SVC(C=C, max_iter=max_iter, **self.settings)


FREE = {"penalize_intercept": False}
MODELS = {
    "linear": (
        Model("squared hinge", {}, True),
        Model("hinge", {"loss": "hinge"}, True),
        Model("squared hinge, free intercept", {**FREE}, True),
        Model("hinge, free intercept", {"loss": "hinge", **FREE}, True),
    ),
    "kernel": tuple(Model(f"SVC {kernel}", {"kernel": kernel}, False) for kernel in ("linear", "poly", "rbf", "sigmoid")),
}


class Case(NamedTuple):
    table: str
    model: Model
    C: float

    def __str__(self) -> str:
        return f"{self.table}, {self.model.name}, C = {self.C:g}"

    @property
    def file_name(self) -> str:
        return f"{self}.json".replace(", ", "_").replace(" = ", "-").replace(" ", "-")


@dataclass(frozen=True)
class Row:
    """What a case gave. ``peer_seconds`` is infinite where scikit-learn has no such model."""

    table: str
    rows: int
    columns: int
    classes: int
    model: str
    C: float
    status: str
    gap: float
    seconds: float
    peer_seconds: float
    peer_warned: bool

    @property
    def is_within_tol(self) -> bool:
        return Status[self.status].is_within_tol

    @property
    def has_peer(self) -> bool:
        return math.isfinite(self.peer_seconds)


class Fit(NamedTuple):
    seconds: float
    model: Any
    warned: bool


def timed_fit(model: Any, X: Any, y: Any) -> Fit:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
    return Fit(seconds, model, any(issubclass(warning.category, ConvergenceWarning) for warning in caught))


def worst_status(model: Any) -> Status:
    """The first in the order of the enumeration is CERTIFIED, then STATIONARY; the others name a reason to end early."""
    found = model.status_ if isinstance(model.status_, list) else [model.status_]
    return max(found, key=list(Status).index)


def measure(case: Case, options: argparse.Namespace) -> Row:
    X, y = data = load(case.table, options.rows)
    theirs = case.model.theirs(case.C, options.libsvm_iterations)
    contestants: dict[str, Callable[[], Fit]] = {"ours": lambda: timed_fit(case.model.ours(case.C, options.cap), X, y)}
    if theirs is not None:
        contestants["peer"] = lambda: timed_fit(sklearn.base.clone(theirs), X, y)
    runs = interleaved_by_length(contestants, options.rounds)
    ours = fastest_of(runs["ours"])
    peer = fastest_of(runs["peer"]) if theirs is not None else Fit(math.inf, None, False)
    shape = len(y), X.shape[1], data.n_classes
    gap, status = float(ours.model.relative_gap_), worst_status(ours.model).name
    return Row(case.table, *shape, case.model.name, case.C, status, gap, ours.seconds, peer.seconds, peer.warned)


def warm_up(options: argparse.Namespace) -> None:
    """Compile what every case needs: the seconds are those of a second fit."""
    X, y = load("iris", options.rows)
    for kind in options.kinds:
        for model in chosen_models(kind, options):
            timed_fit(model.ours(1.0, math.inf), X, y)


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for name in options.tables:
        for kind in options.kinds:
            for model in chosen_models(kind, options):
                for C in KERNEL_COSTS if kind == "kernel" or options.brief else LINEAR_COSTS:
                    yield Case(name, model, C)


def chosen_models(kind: str, options: argparse.Namespace) -> list[Model]:
    return [model for model in MODELS[kind] if not options.model or model.name in options.model]


def kept_row(case: Case, options: argparse.Namespace) -> Row:
    """From the run of the same sources, or measured now."""
    path: Path = options.run / case.file_name
    if path.exists():
        return Row(**json.loads(path.read_text()))
    row = measure(case, options)
    write_text(path, json.dumps(asdict(row)))
    print(f"{case}: {' | '.join(cells_of(row))}", flush=True)
    return row


def cells_of(row: Row) -> tuple[str, str, str, str]:
    ended = row.status if row.is_within_tol else f"**{row.status}**"
    peer = f"{seconds_text(row.peer_seconds)}{' !' if row.peer_warned else ''}" if row.has_peer else "-"
    return ended, f"{row.gap:.1e}", seconds_text(row.seconds), peer


def table_of(rows: list[Row]) -> Table:
    table = Table("table", "rows x columns, classes", "model", "C", "ended", "gap", "seconds", "scikit-learn", numbers_from=3)
    for row in rows:
        table.add(row.table, f"{row.rows} x {row.columns}, {row.classes}", row.model, f"{row.C:g}", *cells_of(row))
    return table


def counts_of(rows: list[Row]) -> Table:
    table = Table("model", "fits", "within tol", "longest, s", "scikit-learn warned", "scikit-learn / ours")
    for name in dict.fromkeys(row.model for row in rows):
        own = [row for row in rows if row.model == name]
        beside = [row for row in own if row.has_peer]
        ratio = geometric_mean(row.peer_seconds / row.seconds for row in beside)
        table.add(
            *(name, len(own), sum(row.is_within_tol for row in own), seconds_text(max(row.seconds for row in own))),
            f"{sum(row.peer_warned for row in beside)} of {len(beside)}",
            f"{ratio:.2f}x" if beside else "-",
        )
    return table


def notes(options: argparse.Namespace) -> str:
    return (
        f"Default settings on unscaled columns, at most {options.rows:,} rows. *ended* is the status of our fit, the worst of "
        "its classes; *gap* is the greatest relative duality gap. Each of our fits as a whole has a limit of "
        f"{options.cap:g} s. scikit-learn's column has its seconds, with an exclamation mark where it raised a "
        "ConvergenceWarning. Its `SVC` has no limit by default; here it has "
        f"`max_iter={options.libsvm_iterations:,}`. Runs of a fit: {options.rounds}"
        ", the fastest counts. The tables of the second half are for looking at the outcome: no constant "
        "of maxmargin is to be chosen on them."
    )


def report(rows: list[Row], options: argparse.Namespace) -> None:
    """Counts, then every case, half by half."""
    parts: list[object] = [provenance(options.note), notes(options)]
    for half, names in HALVES.items():
        own = [row for row in rows if row.table in names]
        if own:
            parts += [f"## {half.capitalize()}", counts_of(own), table_of(own)]
    within = sum(row.is_within_tol for row in rows)
    parts.insert(2, f"**{within} of {len(rows)} fits end within tol.**")
    write_report(options.results / "raw_data.md", "Raw data", parts, options.quick)


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=MODELS, help="linear or kernel models; both, if not given")
    parser.add_argument("--set", nargs="+", choices=TUNED_ON + SHOWN_ONLY, metavar="NAME", help="these tables alone")
    names = [model.name for models in MODELS.values() for model in models]
    parser.add_argument("--model", nargs="+", choices=names, metavar="NAME", help=f"these models alone: {', '.join(names)}")
    parser.add_argument("--half", choices=HALVES, help="the tables of one half")
    parser.add_argument("--note", help="how the run was made, for the report")
    parser.add_argument("--brief", action="store_true", help="one repeat, two values of C, shorter limits: about six minutes")
    parser.add_argument("--cap", type=float, help=f"seconds for one fit of ours (default: {CAP_SECONDS:g})")


def main() -> None:
    options = arguments(__doc__, _own_options)
    options.kinds = (options.only,) if options.only else tuple(MODELS)
    options.tables = options.set or (HALVES[options.half] if options.half else TUNED_ON + SHOWN_ONLY)
    is_short = options.quick or options.brief
    options.rows = QUICK_ROWS if options.quick else MOST_ROWS
    options.rounds = 1 if is_short else ROUNDS
    options.cap = options.cap or (QUICK_CAP_SECONDS if options.quick else CAP_SECONDS)
    options.libsvm_iterations = QUICK_LIBSVM_ITERATIONS if is_short else LIBSVM_ITERATIONS
    settings = f"{options.rows}-{options.cap:g}-{options.rounds}-{options.libsvm_iterations}"
    run = f"{digest_of_sources(sklearn.__version__, np.__version__)}-{settings}"
    options.run = FOLDER / run
    warm_up(options)
    report([kept_row(case, options) for case in cases(options)], options)


if __name__ == "__main__":
    main()

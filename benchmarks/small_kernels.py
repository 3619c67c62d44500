"""``SVC`` with every kernel on 500 to 3,000 rows beside scikit-learn's ``SVC``, both at their default settings.

The tables have two to 26 classes, and each is fitted as it comes and with standardised columns. They are in two halves by
name. Rules and constants of maxmargin may be chosen on the tables of ``TUNED_ON``; those of ``KEPT_OUT`` are for looking at the
outcome.

    python -m benchmarks.small_kernels                        # every cell that was not yet measured with these sources
    python -m benchmarks.small_kernels --set digits iris-x4   # these tables; the report has all cells that are measured
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn.svm
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import CACHE, write_text
from benchmarks.kernel_problems import raw
from benchmarks.measure import (
    Table,
    arguments,
    digest_of_sources,
    fastest_of,
    geometric_mean,
    interleaved_by_length,
    provenance,
    write_report,
)
from maxmargin import SVC
from maxmargin.data.rows import Array
from maxmargin.solving.solution import Status

FOLDER = CACHE / "small_kernels"
CAP_SECONDS = 10.0
"""The limit of one fit of ours."""
LIBSVM_WORK = 150_000_000
"""The limit of scikit-learn's SVC for each pair of classes, in iterations times rows; it has none by default."""
COSTS = (1e-2, 1.0, 1e3)
KERNELS: dict[str, dict[str, Any]] = {
    "linear": {"kernel": "linear"},
    "poly 2": {"kernel": "poly", "degree": 2},
    "poly 3": {"kernel": "poly"},
    "sigmoid": {"kernel": "sigmoid"},
    "rbf": {"kernel": "rbf"},
}


class Samples(NamedTuple):
    X: Array
    y: Array


def copies(load: Callable[..., Any], n: int) -> Callable[[], Samples]:
    def make() -> Samples:
        X, y = load(return_X_y=True)
        return Samples(np.tile(X, (n, 1)), np.tile(y, n))

    return make


def _generated(n: int, d: int, n_classes: int, flip: float, seed: int) -> Callable[[], Samples]:
    """Columns of scales from 0.01 to 10,000, away from zero."""

    def make() -> Samples:
        informative = max(3, d // 3)
        X, y = datasets.make_classification(
            n, d, n_informative=informative, n_classes=n_classes, flip_y=flip, n_clusters_per_class=1, random_state=seed
        )
        random = np.random.default_rng(seed)
        return Samples((X + random.normal(size=d)) * 10.0 ** random.uniform(-2.0, 4.0, d), y)

    return make


def file_rows(name: str, n_features: int, n: int) -> Callable[[], Samples]:
    def make() -> Samples:
        X, y = raw(name, n_features)
        return Samples(np.ascontiguousarray(X[:n].toarray()), y[:n])

    return make


def _moons() -> Samples:
    return Samples(*datasets.make_moons(1500, noise=0.25, random_state=0))


TUNED_ON = {
    "digits": copies(datasets.load_digits, 1),
    "iris-x4": copies(datasets.load_iris, 4),
    "breast cancer": copies(datasets.load_breast_cancer, 1),
    "generated 500": _generated(500, 10, 2, 0.01, 0),
    "generated 2000": _generated(2000, 20, 5, 0.05, 1),
    "generated 3000": _generated(3000, 20, 2, 0.1, 2),
}
KEPT_OUT = {
    "wine-x4": copies(datasets.load_wine, 4),
    "pima": file_rows("pima", 8, 768),
    "splice": file_rows("splice", 287, 1000),
    "letter": file_rows("letter.scale", 16, 2600),
    "usps": file_rows("usps", 256, 1500),
    "generated 900": _generated(900, 40, 3, 0.02, 3),
    "generated 1600": _generated(1600, 12, 2, 0.05, 4),
    "moons": _moons,
}
HALVES = {"tuned on": TUNED_ON, "kept out": KEPT_OUT}
TABLES = TUNED_ON | KEPT_OUT


def with_columns(samples: Samples, is_scaled: bool) -> Samples:
    """The samples as they come, or with standardised columns."""
    return Samples(StandardScaler().fit_transform(samples.X), samples.y) if is_scaled else samples


@cache
def load(name: str, is_scaled: bool) -> Samples:
    return with_columns(TABLES[name](), is_scaled)


class Cell(NamedTuple):
    table: str
    is_scaled: bool
    kernel: str
    C: float

    @property
    def file_name(self) -> str:
        return f"{self.table}-{self.is_scaled}-{self.kernel}-{self.C:g}.json".replace(" ", "-")


@dataclass(frozen=True)
class Row:
    table: str
    is_scaled: bool
    kernel: str
    C: float
    rows: int
    columns: int
    classes: int
    status: str
    seconds: float
    peer_seconds: float
    peer_warned: bool

    @property
    def ratio(self) -> float:
        return self.peer_seconds / self.seconds

    @property
    def is_within_tol(self) -> bool:
        return Status[self.status].is_within_tol


class Fit(NamedTuple):
    seconds: float
    model: Any
    warned: bool


def timed(make: Callable[[], Any], samples: Samples) -> Fit:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        model = make().fit(*samples)
        seconds = time.process_time() - start
    return Fit(seconds, model, any(issubclass(warning.category, ConvergenceWarning) for warning in caught))


def measure(cell: Cell, rounds: int) -> Row:
    samples, settings = load(cell.table, cell.is_scaled), {"C": cell.C, **KERNELS[cell.kernel]}
    most = LIBSVM_WORK // len(samples.y)
    contestants = {
        "ours": lambda: timed(lambda: SVC(max_seconds=CAP_SECONDS, **settings), samples),
        "peer": lambda: timed(lambda: sklearn.svm.SVC(max_iter=most, **settings), samples),
    }
    runs = interleaved_by_length(contestants, rounds)
    ours, peer = fastest_of(runs["ours"]), fastest_of(runs["peer"])
    statuses = ours.model.status_ if isinstance(ours.model.status_, list) else [ours.model.status_]
    worst = max(statuses, key=list(Status).index)
    n, d = samples.X.shape
    return Row(*cell, n, d, len(np.unique(samples.y)), worst.name, ours.seconds, peer.seconds, peer.warned)


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    for table in TABLES:
        for is_scaled in (True, False):
            for kernel in KERNELS:
                for C in COSTS:
                    yield Cell(table, is_scaled, kernel, C)


def kept_rows(options: argparse.Namespace) -> list[Row]:
    """The rows of these sources: those asked for are measured, and of the others those that are there."""
    rows = []
    for cell in cells(options):
        path: Path = options.run / cell.file_name
        is_asked = (not options.set or cell.table in options.set) and (not options.kernel or cell.kernel in options.kernel)
        if not path.exists() and is_asked:
            row = measure(cell, options.rounds)
            write_text(path, json.dumps(asdict(row)))
            print(" | ".join(texts_of(row)), flush=True)
        if path.exists():
            rows.append(Row(**json.loads(path.read_text())))
    return rows


def texts_of(row: Row) -> tuple[str, ...]:
    ended = row.status if row.is_within_tol else f"**{row.status}**"
    columns, warned = "standardised" if row.is_scaled else "raw", " !" if row.peer_warned else ""
    ratio = f"{row.ratio:.2f}x"
    return (
        *(row.table, f"{row.rows} x {row.columns}, {row.classes}", columns, row.kernel, f"{row.C:g}", ended),
        *(f"{1e3 * row.seconds:.1f}", f"{1e3 * row.peer_seconds:.1f}{warned}", ratio if row.ratio >= 1.0 else f"**{ratio}**"),
    )


def summary(rows: list[Row]) -> Table:
    table = Table("kernel", "columns", "cells", "within tol", "at least 1x", "mean", "least")
    for kernel in KERNELS:
        for is_scaled in (True, False):
            own = [row for row in rows if row.kernel == kernel and row.is_scaled is is_scaled]
            if own:
                ratios, within = [row.ratio for row in own], sum(row.is_within_tol for row in own)
                table.add(
                    *(kernel, "standardised" if is_scaled else "raw", len(own), within, sum(r >= 1.0 for r in ratios)),
                    *(f"{geometric_mean(ratios):.2f}x", f"{min(ratios):.2f}x"),
                )
    return table


def table_of(rows: list[Row]) -> Table:
    table = Table("table", "rows x columns, classes", "columns", "kernel", "C", "ended", "ms", "scikit-learn", "ratio")
    for row in rows:
        table.add(*texts_of(row))
    return table


def notes(options: argparse.Namespace) -> str:
    return (
        "Whole `fit` calls at default settings, compilation excluded; processor milliseconds of all threads, the least of up "
        f"to {options.rounds} runs in turns. Each of our fits has a limit of {CAP_SECONDS:g} s. scikit-learn's `SVC` has no "
        f"limit by default; here it has one of {LIBSVM_WORK:,} iterations times rows, and an exclamation mark where it ended "
        "there. "
        "*ratio* is scikit-learn's time over ours. No constant was chosen on the tables of the second half."
    )


def report(rows: list[Row], options: argparse.Namespace) -> None:
    parts: list[object] = [provenance(options.note), notes(options)]
    for half, names in HALVES.items():
        own = [row for row in rows if row.table in names]
        if own:
            parts += [f"## {half.capitalize()}", summary(own), table_of(own)]
    write_report(options.results / "small_kernels.md", "Small kernel fits beside scikit-learn", parts, options.quick)


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", nargs="+", choices=TABLES, metavar="NAME", help="these tables alone")
    parser.add_argument("--kernel", nargs="+", choices=KERNELS, metavar="NAME", help="these kernels alone")
    parser.add_argument("--note", help="how the run was made, for the report")


def main() -> None:
    options = arguments(__doc__, _own_options)
    options.rounds = 1 if options.quick else 5
    options.run = FOLDER / f"{digest_of_sources(sklearn.__version__, np.__version__)}-{options.rounds}"
    report(kept_rows(options), options)


if __name__ == "__main__":
    main()

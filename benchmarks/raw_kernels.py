"""``SVC`` on raw tables that no rule was written for: every kernel, gamma and C. Which fits end certified, within which time?

Sixteen tables, made here from seeds that nothing else uses, and three of scikit-learn's. Nothing is scaled. They are in two
halves: rules may be chosen while looking at ``TUNED_ON``; ``SHOWN_ONLY`` is for the outcome. Kernels are linear, polynomial
(degree 2 and 3, coef0 = 0 and 1), RBF and sigmoid, with ``gamma="scale"`` and ``"auto"``, C = 1e-4, 1, 1e3 and 1e6, and 50, 500
and 2,000 rows. Every fit has a limit of 60 s. A sigmoid kernel can only be STATIONARY. Seconds are processor time.

    python -m benchmarks.raw_kernels                          # every case that was not yet run with these sources
    python -m benchmarks.raw_kernels --rows 50 --part 1/4     # some rows, a part of the cases
    python -m benchmarks.raw_kernels --kept                   # a report of all that was run so far
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets

from benchmarks.datasets import CACHE, write_text
from benchmarks.measure import Table, arguments, digest_of_sources, provenance, seconds_text, write_report
from benchmarks.raw_data import worst_status
from maxmargin import SVC
from maxmargin.data.rows import Array
from maxmargin.solving.solution import Status
from tests.raw_catalogue import cut

SEED = 771_409
CAP_SECONDS = 60.0
ROWS, COSTS = (50, 500, 2000), (1e-4, 1.0, 1e3, 1e6)
FOLDER = CACHE / "raw_kernels"
Columns = tuple[Array, Array]
"""The columns, and the score that the classes are cut from."""


def _unix_days(n: int, rng: np.random.Generator) -> Columns:
    """Seconds since 1970, the weekday and an amount."""
    time, amount = rng.integers(946_684_800, 1_750_000_000, n), rng.gamma(2.0, 120.0, n).round(2)
    return np.column_stack([time, time // 86_400 % 7, amount]), (time // 86_400 % 7) / 3.0 + amount / 150.0


def _payroll(n: int, rng: np.random.Generator) -> Columns:
    """Years of service, a salary, the year of birth and a share."""
    service, salary = rng.integers(0, 45, n), rng.lognormal(11.0, 0.5, n).round()
    born, share = rng.integers(1950, 2004, n), rng.beta(2.0, 9.0, n)
    return np.column_stack([service, salary, born, share]), np.log(salary) + service / 30.0 + 3.0 * share


def _laboratory(n: int, rng: np.random.Generator) -> Columns:
    """Nine columns of sizes 1e-9 to 1e7."""
    X = rng.normal(size=(n, 9))
    return (X + rng.normal(size=9)) * 10.0 ** np.arange(-9, 9, 2), X @ rng.normal(size=9)


def _shops(n: int, rng: np.random.Generator) -> Columns:
    """A one-hot column of twelve shops beside counts of goods."""
    shop, counts = rng.integers(0, 12, n), rng.poisson(rng.lognormal(4.0, 2.0, 4), (n, 4))
    return np.column_stack([np.eye(12)[shop], counts]), rng.normal(size=12)[shop] + np.log1p(counts) @ rng.normal(size=4)


def _conflicts(n: int, rng: np.random.Generator) -> Columns:
    """Every row about five times, with classes that do not agree."""
    X = (rng.normal(size=(n // 5, 4)) * np.array([3.0, 200.0, 1e4, 5e5])).round()
    which = rng.integers(0, len(X), n)
    return X[which], X[which, 0] / 3.0 + X[which, 2] / 1e4 + rng.normal(size=n)


def _units(n: int, rng: np.random.Generator) -> Columns:
    """A weight in two units, their sum, a constant, and a column of noise."""
    kilos, noise = rng.gamma(5.0, 12.0, n), rng.normal(size=n)
    X = np.column_stack([kilos, kilos * 2.20462, kilos + noise, np.full(n, 1013.25), noise])
    return X, kilos / 25.0 + noise


def _revenues(n: int, rng: np.random.Generator) -> Columns:
    """Lognormal columns over ten decades."""
    X = rng.lognormal(8.0, 3.0, (n, 5))
    return X, np.log(X) @ rng.normal(size=5)


def _billions(n: int, rng: np.random.Generator) -> Columns:
    """Whole numbers in the billions, one of them with few values."""
    X = np.column_stack([rng.integers(1, 9_000_000_000, (n, 3)), rng.integers(1, 6, n) * 2_000_000_000]).astype(float)
    return X, X[:, 0] / 3e9 - X[:, 3] / 4e9


def _log_lines(n: int, rng: np.random.Generator) -> Columns:
    """Milliseconds since 1970, bytes, a status code."""
    time, size = rng.integers(1_500_000_000_000, 1_750_000_000_000, n), rng.pareto(1.3, n).round(3) * 2000.0
    status = rng.choice([200, 204, 404, 503], n)
    return np.column_stack([time, size, status]), np.log1p(size) + status / 200.0


def _cauchy(n: int, rng: np.random.Generator) -> Columns:
    X = rng.standard_cauchy((n, 4)) * np.array([1.0, 10.0, 1e3, 1e-2])
    return X, np.arctan(X[:, 0]) + np.sign(X[:, 2])


def _genes(n: int, rng: np.random.Generator) -> Columns:
    """Far more columns than rows: at most ninety rows of 700 counts."""
    rate = rng.lognormal(2.0, 2.5, 700)
    X = rng.poisson(rate, (min(n, 90), 700)).astype(float)
    return X, np.log1p(X[:, :12]).sum(axis=1)


def _measurements(n: int, rng: np.random.Generator) -> Columns:
    """Six columns of sizes 0.01 to 1e5, away from zero."""
    X = rng.normal(size=(n, 6))
    return (X + 4.0) * np.array([0.01, 1.0, 30.0, 800.0, 2e4, 1e5]), X[:, 0] * X[:, 1] + X[:, 2]


def _few(n: int, rng: np.random.Generator) -> Columns:
    """Nine rows."""
    X = rng.normal(size=(9, 3)) * np.array([1.0, 1e4, 1e7])
    return X, rng.normal(size=9)


def _accounts(n: int, rng: np.random.Generator) -> Columns:
    """An account number, a balance of either sign, flags and a rate."""
    account, balance = rng.integers(10_000_000, 99_999_999, n), rng.normal(size=n) * 3e4
    flags, rate = rng.integers(0, 2, (n, 3)), rng.uniform(0.001, 0.09, n)
    return np.column_stack([account, balance, flags, rate]), balance / 3e4 + flags @ np.array([1.0, -1.0, 0.5]) + 20.0 * rate


def _places(n: int, rng: np.random.Generator) -> Columns:
    """Latitude, longitude, height in metres and inhabitants."""
    latitude, longitude = rng.uniform(-60.0, 75.0, n), rng.uniform(-180.0, 180.0, n)
    height, people = rng.gamma(1.0, 500.0, n), rng.pareto(1.1, n) * 3000.0
    return np.column_stack([latitude, longitude, height, people]), np.abs(latitude) / 30.0 + np.log1p(people) / 3.0


def _temperatures(n: int, rng: np.random.Generator) -> Columns:
    """The same temperature in two scales with noise, a pressure in pascal, a humidity."""
    celsius, noise = rng.normal(12.0, 9.0, n), rng.normal(size=(n, 2))
    pressure = 101_325.0 + 900.0 * noise[:, 1]
    return np.column_stack([celsius, celsius * 1.8 + 32.0 + 0.1 * noise[:, 0], pressure, rng.uniform(0, 100, n)]), (
        np.sin(celsius / 6.0) + noise[:, 1]
    )


class Maker(NamedTuple):
    columns: Callable[[int, np.random.Generator], Columns]
    n_classes: int


TUNED_ON = {
    "unix-days": Maker(_unix_days, 2),
    "payroll": Maker(_payroll, 3),
    "laboratory": Maker(_laboratory, 2),
    "shops": Maker(_shops, 2),
    "conflicts": Maker(_conflicts, 2),
    "units": Maker(_units, 2),
    "revenues": Maker(_revenues, 5),
    "billions": Maker(_billions, 2),
}
SHOWN_ONLY = {
    "log-lines": Maker(_log_lines, 2),
    "cauchy": Maker(_cauchy, 2),
    "genes": Maker(_genes, 3),
    "measurements": Maker(_measurements, 7),
    "few": Maker(_few, 2),
    "accounts": Maker(_accounts, 5),
    "places": Maker(_places, 2),
    "temperatures": Maker(_temperatures, 2),
}
BUILT_IN = {"wine": "tuned on", "breast_cancer": "shown only", "diabetes": "shown only"}
HALVES = {
    "tuned on": [*TUNED_ON, *(name for name, half in BUILT_IN.items() if half == "tuned on")],
    "shown only": [*SHOWN_ONLY, *(name for name, half in BUILT_IN.items() if half == "shown only")],
}

ALL = [name for half in HALVES.values() for name in half]


@cache
def table(name: str, n: int) -> tuple[Array, Array]:
    """X and y, the same at every call. A built-in set has at most ``n`` rows."""
    makers = TUNED_ON | SHOWN_ONLY
    rng = np.random.default_rng([SEED, [*makers, *BUILT_IN].index(name), n])
    if name in BUILT_IN:
        return _built_in(name, n, rng)
    X, score = makers[name].columns(n, rng)
    noisy = score + 0.4 * score.std() * rng.normal(size=len(score))
    return np.ascontiguousarray(X, dtype=np.float64), cut(noisy, makers[name].n_classes)


def _built_in(name: str, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    own = {"scaled": False} if name == "diabetes" else {}
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True, **own)
    y = cut(y, 4) if name == "diabetes" else y
    chosen = rng.permutation(len(y))[:n]
    return np.ascontiguousarray(X[chosen], dtype=np.float64), y[chosen]


KERNELS: dict[str, dict[str, Any]] = {
    "linear": {"kernel": "linear"},
    "poly 2": {"kernel": "poly", "degree": 2},
    "poly 2 + 1": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "poly 3": {"kernel": "poly", "degree": 3},
    "poly 3 + 1": {"kernel": "poly", "degree": 3, "coef0": 1.0},
    "rbf": {"kernel": "rbf"},
    "sigmoid": {"kernel": "sigmoid"},
}


class Case(NamedTuple):
    table: str
    rows: int
    kernel: str
    gamma: str
    C: float

    def __str__(self) -> str:
        return f"{self.table}, {self.rows} rows, {self.kernel}, gamma={self.gamma}, C = {self.C:g}"


@dataclass(frozen=True)
class Row:
    table: str
    rows: int
    kernel: str
    gamma: str
    C: float
    status: str
    gap: float
    seconds: float

    @property
    def case(self) -> Case:
        return Case(self.table, self.rows, self.kernel, self.gamma, self.C)

    @property
    def is_within_tol(self) -> bool:
        return Status[self.status].is_within_tol


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for rows in options.rows:
        for name in options.tables:
            for kernel in options.kernels:
                for gamma in ("scale",) if kernel == "linear" else ("scale", "auto"):
                    yield from (Case(name, rows, kernel, gamma, C) for C in COSTS)


def measure(case: Case, cap: float) -> Row:
    X, y = table(case.table, case.rows)
    model = SVC(C=case.C, gamma=case.gamma, max_seconds=cap, **KERNELS[case.kernel])
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.process_time() - begun
    return Row(*case, worst_status(model).name, float(model.relative_gap_), seconds)


def kept_rows(options: argparse.Namespace) -> list[Row]:
    """Every case of the options, from the run of the same sources or run now. With ``--kept`` those that were run."""
    found = []
    for case in cases(options):
        path = options.run / f"{case}.json".replace(", ", "_").replace(" = ", "-").replace(" ", "-")
        if not path.exists():
            if options.kept:
                continue
            row = measure(case, options.cap)
            write_text(path, json.dumps(asdict(row)))
            mark = "" if row.is_within_tol and row.seconds < 5.0 else " <---"
            print(f"{case}: {row.status} {row.gap:.1e} {row.seconds:.2f} s{mark}", flush=True)
        found.append(Row(**json.loads(path.read_text())))
    return found


def counts_of(rows: list[Row]) -> Table:
    names = ("kernel", "gamma", *(f"{n:,} rows: within tol" for n in ROWS), "longest, s")
    counts = Table(*names, numbers_from=2)
    for kernel, gamma in dict.fromkeys((row.kernel, row.gamma) for row in rows):
        own = [row for row in rows if (row.kernel, row.gamma) == (kernel, gamma)]
        parts = [[row for row in own if row.rows == n] for n in ROWS]
        cells = [f"{sum(row.is_within_tol for row in part)} of {len(part)}" for part in parts]
        counts.add(kernel, gamma, *cells, seconds_text(max(row.seconds for row in own)))
    return counts


def missed_of(rows: list[Row]) -> Table:
    missed = Table("case", "ended", "gap", "seconds", numbers_from=2)
    for row in rows:
        if not row.is_within_tol:
            missed.add(str(row.case), row.status, f"{row.gap:.1e}", seconds_text(row.seconds))
    return missed


def report(rows: list[Row], options: argparse.Namespace) -> None:
    parts: list[object] = [provenance(options.note), (__doc__ or "").partition("\n\n    python")[0]]
    for half, names in HALVES.items():
        own = [row for row in rows if row.table in names]
        if own:
            within = sum(row.is_within_tol for row in own)
            parts += [f"## {half.capitalize()}", f"**{within} of {len(own)} fits end within tol.**", counts_of(own)]
            parts += ["The others:", missed_of(own)] if within < len(own) else []
    write_report(options.results / "raw_kernels.md", "Kernels on raw tables", parts, options.quick)


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--set", nargs="+", choices=ALL, metavar="NAME", help="these tables alone")
    parser.add_argument("--half", choices=HALVES, help="the tables of one half")
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS, choices=ROWS)
    parser.add_argument("--kernels", nargs="+", default=tuple(KERNELS), choices=KERNELS, metavar="NAME")
    parser.add_argument("--cap", type=float, default=CAP_SECONDS, help="seconds for one fit")
    parser.add_argument("--part", default="1/1", help="K/N: every Nth table, beginning with the Kth")
    parser.add_argument("--kept", action="store_true", help="report what was run so far, and run nothing")
    parser.add_argument("--note", help="how the run was made, for the report")


def main() -> None:
    options = arguments(__doc__, _own_options)
    k, n_parts = map(int, options.part.split("/"))
    options.tables = (options.set or (HALVES[options.half] if options.half else ALL))[k - 1 :: n_parts]
    if options.quick:
        options.tables, options.rows = options.tables[:2], options.rows[:1]
    options.run = FOLDER / f"{digest_of_sources(np.__version__)}-{options.cap:g}"
    report(kept_rows(options), options)


if __name__ == "__main__":
    main()

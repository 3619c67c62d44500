"""LinearSVC with L1 and elastic-net penalties on tables as they come, unscaled: which fits end certified.

The tables of ``tests/raw_catalogue.py``, at most 300 rows each, with a penalised and a free intercept and C from 1e-4 to 1e6.
Everything else is at its default, ``tol`` included; a fit has a limit of seconds, so that a run ends. Every fit is made once.
The report lists all that were not certified, and all that took long.

    python -m benchmarks.raw_sparse [--tables collinear wide] [--ratios 1 0.5] [--cap 5]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import Table, arguments, seconds_text, write_report
from maxmargin import LinearSVC
from tests import raw_catalogue

NAMES = (*raw_catalogue.GENERATED, *raw_catalogue.BUILT_IN)
COSTS = (1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6)
RATIOS = (1.0, 0.9, 0.5, 0.1)
"""``l1_ratio``; 1 is the L1 penalty alone."""
MOST_ROWS = 300
LONG_SECONDS = 1.0


class Case(NamedTuple):
    table: str
    ratio: float
    is_free: bool
    C: float

    @property
    def penalty(self) -> str:
        return "l1" if self.ratio == 1.0 else f"elastic net, {self.ratio:g}"

    def model(self, cap: float) -> LinearSVC:
        settings: dict[str, Any] = {} if self.ratio == 1.0 else {"l1_ratio": self.ratio}
        settings["penalty"] = "l1" if self.ratio == 1.0 else "elasticnet"
        return LinearSVC(C=self.C, penalize_intercept=not self.is_free, max_seconds=cap, **settings)


class Outcome(NamedTuple):
    case: Case
    is_certified: bool
    statuses: str
    gap: float
    seconds: float
    largest: float

    def line(self) -> list[str]:
        case = self.case
        intercept = "free" if case.is_free else "penalised"
        scale = f"{case.C * self.largest:.0e}"
        return [case.table, case.penalty, intercept, f"{case.C:g}", scale, self.statuses, f"{self.gap:.0e}"]


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for name in options.tables:
        for ratio in options.ratios:
            for is_free in (False, True):
                for C in (1.0, 1e4) if options.quick else COSTS:
                    yield Case(name, ratio, is_free, C)


def outcome(case: Case, cap: float) -> Outcome:
    table = raw_catalogue.table(case.table, MOST_ROWS).thinned(MOST_ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        model = case.model(cap).fit(table.X, table.y)
        seconds = time.process_time() - start
    found = model.status_ if isinstance(model.status_, list) else [model.status_]
    names = ", ".join(dict.fromkeys(status.name for status in found if not status.is_as_asked)) or "CERTIFIED"
    is_certified = all(status.is_as_asked for status in found)
    return Outcome(case, is_certified, names, float(model.relative_gap_), seconds, float(np.max(np.abs(table.X))))


def own(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tables", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--ratios", nargs="+", type=float, default=RATIOS)
    parser.add_argument("--cap", type=float, default=5.0, help="seconds of a fit, at most")


def main() -> None:
    options = arguments(__doc__, own)
    found = []
    for case in cases(options):
        found.append(outcome(case, options.cap))
        if not found[-1].is_certified or found[-1].seconds > LONG_SECONDS:
            print(*found[-1].line(), seconds_text(found[-1].seconds), flush=True)
    parts = [(__doc__ or "").split("\n\n")[1], counts(found), *lists(found)]
    measured = f"Processor seconds, each fit once, at most {options.cap:g} s of it."
    write_report(options.results / "raw_sparse.md", "Raw data: sparse linear models", parts, options.quick, measured)


def counts(found: list[Outcome]) -> Table:
    """One line for each penalty and intercept."""
    table = Table("penalty", "intercept", "fits", "certified", "median, s", "longest, s")
    for ratio in dict.fromkeys(one.case.ratio for one in found):
        for is_free in (False, True):
            group = [one for one in found if one.case.ratio == ratio and one.case.is_free == is_free]
            seconds = [one.seconds for one in group]
            certified = sum(one.is_certified for one in group)
            name = "free" if is_free else "penalised"
            median, longest = seconds_text(float(np.median(seconds))), seconds_text(max(seconds))
            table.add(group[0].case.penalty, name, len(group), certified, median, longest)
    return table


def lists(found: list[Outcome]) -> list[str | Table]:
    """What was not certified, and what took long."""
    head = ("table", "penalty", "intercept", "C", "C max abs(x)")
    failed, long = Table(*head, "ended", "gap"), Table(*head, "ended", "gap", "seconds")
    for one in found:
        if not one.is_certified:
            failed.add(*one.line())
        elif one.seconds > LONG_SECONDS:
            long.add(*one.line(), seconds_text(one.seconds))
    return ["## Not certified", failed, f"## Certified after more than {LONG_SECONDS:g} s", long]


if __name__ == "__main__":
    main()

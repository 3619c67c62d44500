"""Whole fits of LinearOneClassSVM to a certified gap of 1e-3 and 1e-6 against LIBLINEAR -s 21.

LIBLINEAR gets the loosest tolerance on a grid that brings its primal value, with the best rho for its w, within the target of
the optimum, found beforehand and at no cost to it; only its training is timed.

    python -m benchmarks.one_class [--sets a9a ijcnn1]
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.datasets import Data, load, load_raw
from benchmarks.measure import (
    Table,
    arguments,
    fastest_of,
    geometric_mean,
    interleaved_by_length,
    loosest_tolerance,
    seconds_text,
    write_report,
)
from benchmarks.regression_peers import Clock, OneClassFit, Prepared, liblinear_one_class
from maxmargin import LinearOneClassSVM, LinearProblem, one_class_problem, solve
from maxmargin.problem.offset import best_offsets

SPARSE, DENSE = ("a9a", "w7a", "ijcnn1", "covtype.binary.scale"), ("cal_housing", "cpu_act", "magic")
SHARES = (0.01, 0.1, 0.5)
TARGETS = (1e-3, 1e-6)
REFERENCE = 1e-8
TOLERANCES = tuple(10.0 ** (1.0 - 0.5 * k) for k in range(29))
"""From 10 to 1e-13: LIBLINEAR's tolerance is a difference of gradients, which has no scale of its own."""
MOST_SECONDS, MOST_PEER_SECONDS = 60.0, 5.0


class Fitted(NamedTuple):
    seconds: float
    model: Any


def loaded(name: str) -> Data:
    return load(name) if name in SPARSE else load_raw(name)


def our_fit(X: Any, nu: float, target: float) -> Fitted:
    model = LinearOneClassSVM(nu=nu, tol=target, max_seconds=MOST_SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = Clock.now()
        model.fit(X)
        return Fitted(Clock.now() - start, model)


def excess(problem: LinearProblem, best: float, fit: OneClassFit) -> float:
    """Relative to the optimum, with the rho that is best for w."""
    outputs = problem.rows.matrix @ fit.w
    level = float(problem.C.sum() - problem.offset_prices.sum())  # type: ignore[union-attr]
    offset = best_offsets(-outputs, problem.C, level).middle
    return (problem.primal(np.append(fit.w, offset)) - best) / abs(best)


def add_rows(table: Table, name: str, nu: float) -> list[float]:
    """A row for each target; returns how many times our seconds LIBLINEAR takes where it gets there."""
    data, ratios = loaded(name), []
    problem, prepared = one_class_problem(data.X, nu), Prepared.of(Data(data.X, np.ones(data.X.shape[0])), -1.0)
    best = solve(problem, tol=REFERENCE, max_seconds=MOST_SECONDS).certificate.dual
    if best == 0.0:
        table.add(name, f"{nu:g}", "-", "-", "-", "-", "w = 0 is optimal")
        return []
    for target in TARGETS:
        first = our_fit(data.X, nu, target)
        search = loosest_tolerance(
            partial(liblinear_one_class, prepared, nu),
            partial(excess, problem, best),
            target,
            TOLERANCES,
            max_seconds=MOST_PEER_SECONDS,
        )
        contestants: dict[str, Any] = {"ours": partial(our_fit, data.X, nu, target)}
        if search.found is not None:
            contestants["theirs"] = partial(liblinear_one_class, prepared, nu, search.found.tolerance)
        runs = {key: fastest_of(fits).seconds for key, fits in interleaved_by_length(contestants).items()}
        ratio = runs.get("theirs", math.nan) / runs["ours"]
        reached = f"{ratio:.2f}" if search.found else f"{search.ended}, within {search.best.excess:.1e}"
        gap = f"{first.model.relative_gap_:.1e}{'' if first.model.status_.is_certified else ' (not certified)'}"
        theirs = seconds_text(runs["theirs"]) if search.found else "-"
        table.add(name, f"{nu:g}", f"{target:.0e}", gap, seconds_text(runs["ours"]), theirs, reached)
        ratios += [ratio] if search.found else []
    return ratios


def main() -> None:
    def own(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sets", nargs="+", default=[*SPARSE, *DENSE])
        parser.add_argument("--processor-time", action="store_true", help="seconds of the processor, for a busy machine")
        parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further row after this")

    options, begun = arguments(__doc__, own), time.perf_counter()
    if options.processor_time:
        Clock.use_processor_time()
    table = Table("set", "nu", "target", "proved gap", "maxmargin [s]", "LIBLINEAR -s 21 [s]", "ratio", numbers_from=1)
    ratios: list[float] = []
    for name in options.sets[:1] if options.quick else options.sets:
        for nu in SHARES:
            if time.perf_counter() - begun < options.seconds:
                ratios += add_rows(table, name, nu)
    mean, worst = geometric_mean(ratios), min(ratios, default=math.nan)
    words = f"Where LIBLINEAR gets to the target ({len(ratios)} rows) it takes {mean:.2f} times as long as maxmargin in the "
    clock = "**Pinned to one core beside other work, and so in seconds of the processor, all threads together.**"
    clock = clock if options.processor_time else ""
    words += f"geometric mean, and at the least {worst:.2f} times. {clock}"
    parts = [__doc__.partition("\n\n    python")[0], table, words]
    write_report(options.results / "one_class.md", "Linear one-class support vector machine", parts, options.quick)


if __name__ == "__main__":
    main()

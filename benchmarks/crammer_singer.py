"""Whole fits of LinearSVC(multi_class="crammer_singer") to a certified gap against LIBLINEAR -s 4, without an intercept.

LIBLINEAR gets the loosest tolerance on a grid that brings its primal value within the target of the optimum, found beforehand
and at no cost to it; only its training is timed.

    python -m benchmarks.crammer_singer [--sets letter.scale usps] [--costs 1] [--targets 1e-3]
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from liblinear.liblinear import PRINT_STRING_FUN, liblinear, parameter, problem, toPyModel
from sklearn.exceptions import ConvergenceWarning

from benchmarks.datasets import Data, load_classes
from benchmarks.measure import Search, Table, arguments, geometric_mean, loosest_tolerance, seconds_text, write_report
from benchmarks.peers import Fit
from maxmargin import LinearSVC
from maxmargin.problem.crammer_singer import CrammerSingerProblem

SETS = ("letter.scale", "usps", "sector.scale", "mnist")
TOLERANCES = tuple(10.0 ** (0.5 - 0.5 * k) for k in range(12))
MOST_SECONDS, MOST_PEER_SECONDS = 30.0, 10.0


class Fitted(NamedTuple):
    seconds: float
    model: Any


def our_fit(data: Data, C: float, target: float) -> Fitted:
    model = LinearSVC(multi_class="crammer_singer", C=C, tol=target, fit_intercept=False, max_seconds=MOST_SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        model.fit(data.X, data.y)
        return Fitted(time.process_time() - start, model)


def their_fit(prepared: Any, shape: tuple[int, int], C: float, tolerance: float) -> Fit:
    options = parameter(f"-s 4 -c {C!r} -e {tolerance!r} -B -1 -q")
    listener = PRINT_STRING_FUN(lambda _: None)
    liblinear.set_print_string_function(listener)
    start = time.process_time()
    pointer = liblinear.train(prepared, options)
    seconds = time.process_time() - start
    model = toPyModel(pointer)
    order = np.argsort(model.get_labels())
    return Fit(seconds, np.ctypeslib.as_array(model.w, (shape[0] * shape[1],)).reshape(shape)[:, order].copy())


def cell(name: str, data: Data, prepared: Any, C: float, target: float, table: Table) -> float | None:
    """One line of the table, and the ratio where both get there."""
    classes, codes = np.unique(data.y, return_inverse=True)
    cost = CrammerSingerProblem.build(data.X, codes, C)
    ours = our_fit(data, C, target)
    lower = ours.model.certificate_.dual
    run = partial(their_fit, prepared, (data.X.shape[1], len(classes)), C)
    search: Search = loosest_tolerance(
        run, lambda fit: (cost.primal(fit.w) - lower) / lower, target, TOLERANCES, max_seconds=MOST_PEER_SECONDS
    )
    theirs = search.found.fit.seconds if search.found else float("nan")
    is_certified = ours.model.status_.is_certified
    ratio = theirs / ours.seconds if search.found and is_certified else None
    table.add(
        name,
        f"{C:g}",
        f"{target:g}",
        seconds_text(ours.seconds),
        f"{ours.model.relative_gap_:.0e}",
        seconds_text(theirs) if search.found else f"never ({search.best.excess:.0e})",
        f"{ratio:.2f}x" if ratio else "-",
    )
    return ratio


def own(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--costs", nargs="+", type=float, default=(1.0,))
    parser.add_argument("--targets", nargs="+", type=float, default=(1e-3, 1e-6))


def main() -> None:
    options = arguments(__doc__, own)
    small = load_classes("letter.scale")
    our_fit(Data(small.X[:200], small.y[:200]), 1.0, 1e-2)  # compiles
    table = Table("set", "C", "gap asked", "ours, s", "gap", "LIBLINEAR -s 4, s", "ratio")
    ratios: list[float] = []
    for name in ("letter.scale",) if options.quick else options.sets:
        data = load_classes(name)
        prepared = problem(data.y, data.X)
        for C in options.costs:
            for target in options.targets:
                ratio = cell(name, data, prepared, C, target, table)
                ratios += [ratio] if ratio else []
    least = min(ratios, default=float("nan"))
    line = f"Geometric mean {geometric_mean(ratios):.2f}x over {len(ratios)} cells, least {least:.2f}x."
    parts = [(__doc__ or "").split("\n\n")[1], table, line, "Processor time, one run each, on one core, beside other work."]
    write_report(options.results / "crammer_singer.md", "Crammer and Singer's machine", parts, options.quick)


if __name__ == "__main__":
    main()

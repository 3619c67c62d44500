"""Whole fits of LinearSVC(penalty="l1") to a certified gap against LIBLINEAR -s 5 and skglm's AndersonCD, without an intercept.

Each peer gets the loosest tolerance on a grid that brings its primal value within the target of the optimum, found beforehand
and at no cost to it; only its training is timed. skglm gets X by columns, and squared hinge as a datafit of its own.

A run measures the sets that it is given; the table has the latest cells of every set, which ``sparse_models.json`` keeps.

    python -m benchmarks.sparse_models [--sets a9a w7a] [--target 1e-6] [--no-skglm]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.datasets import Data, load, load_classes
from benchmarks.measure import (
    Search,
    Table,
    arguments,
    fastest_of,
    geometric_mean,
    interleaved_by_length,
    loosest_tolerance,
    seconds_text,
    write_report,
)
from benchmarks.peers import Fit, LiblinearProblem, liblinear_fit, liblinear_problem
from maxmargin import LinearProblem, LinearSVC, Solution, SquaredHinge, solve
from maxmargin.problem.penalties import L1

SETS = ("a9a", "w7a", "news20_bigram", "mnist", "sector.scale")
COSTS = (0.01, 0.1, 1.0, 10.0)
L1_SQUARED_HINGE = 5
LIBLINEAR_TOLERANCES = tuple(10.0 ** (-1.0 - 0.5 * k) for k in range(17))
SKGLM_TOLERANCES = tuple(10.0 ** (1.0 - 0.5 * k) for k in range(21))
PEERS = ("LIBLINEAR -s 5", "skglm")
MOST_PEER_SECONDS = 2.0
"""A peer's search ends with the first run that takes longer."""


class Fitted(NamedTuple):
    seconds: float
    model: Any


def loaded(name: str) -> Data:
    """``sector`` is its first class against the rest."""
    if name != "sector.scale":
        return load(name)
    data = load_classes(name)
    return Data(data.X, np.where(data.y == data.y.min(), 1.0, -1.0))


def our_fit(data: Data, C: float, target: float) -> Fitted:
    model = LinearSVC(penalty="l1", C=C, tol=target, fit_intercept=False, max_seconds=60.0)
    start = time.perf_counter()
    model.fit(data.X, data.y)
    return Fitted(time.perf_counter() - start, model)


def their_fit(prepared: LiblinearProblem, C: float, tolerance: float) -> Fit:
    return liblinear_fit(prepared, C, L1_SQUARED_HINGE, tolerance)


def skglm_fit(columns: Any, y: Any, C: float, tolerance: float) -> Fit:
    from skglm.penalties import L1 as Lasso
    from skglm.solvers import AndersonCD
    from skglm.utils.jit_compilation import compiled_clone

    from benchmarks.skglm_squared_hinge import SquaredHingeDatafit

    solver = AndersonCD(tol=tolerance, fit_intercept=False, max_iter=50, max_epochs=1_000)
    datafit, penalty = compiled_clone(SquaredHingeDatafit(C)), compiled_clone(Lasso(1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        w = solver.solve(columns, y, datafit, penalty)[0]
        return Fit(time.perf_counter() - start, w)


def excess(problem: LinearProblem, best: Solution, fit: Fit) -> float:
    """How far the peer's primal value is above the proved lower bound, relative to it."""
    return (problem.primal(fit.w) - best.certificate.dual) / best.certificate.dual


def cell(name: str, data: Data, peers: dict[str, Any], C: float, target: float) -> dict[str, Any]:
    """One line of the table, and the ratios of the peers that get there."""
    problem = LinearProblem.build(data.X, data.y, C, SquaredHinge(), penalty=L1())
    best = solve(problem, tol=0.01 * target, max_seconds=60.0)
    searches: dict[str, Search] = {}
    for peer, (run, grid) in peers.items():
        searches[peer] = loosest_tolerance(
            partial(run, C), partial(excess, problem, best), target, grid, max_seconds=MOST_PEER_SECONDS
        )
    contestants: dict[str, Any] = {"ours": partial(our_fit, data, C, target)}
    for peer, search in searches.items():
        if search.found:
            contestants[peer] = partial(peers[peer][0], C, search.found.tolerance)
    runs = interleaved_by_length(contestants, most_rounds=5)
    ours = fastest_of(runs["ours"])
    kept = ours.model.trace_[-1].active
    seconds = {peer: fastest_of(runs[peer]).seconds for peer in peers if peer in runs}
    line = [
        name,
        f"{C:g}",
        seconds_text(ours.seconds),
        f"{ours.model.relative_gap_:.0e}",
        int(np.count_nonzero(ours.model.coef_)),
        f"{100.0 * (1.0 - kept / data.X.shape[1]):.2f}%",
    ]
    for peer in PEERS:
        if peer in seconds:
            line.append(f"{seconds_text(seconds[peer])} ({seconds[peer] / ours.seconds:.1f}x)")
        elif peer in searches:
            longest = max(trial.fit.seconds for trial in searches[peer].trials)
            line.append(f"> {longest:.1f} s ({searches[peer].best.excess:.0e})")
        else:
            line.append("not run")
    return {"line": line, "ratios": {peer: value / ours.seconds for peer, value in seconds.items()}}


def peers_of(data: Data, with_skglm: bool) -> dict[str, Any]:
    prepared = liblinear_problem(data)
    peers: dict[str, Any] = {"LIBLINEAR -s 5": (partial(their_fit, prepared), LIBLINEAR_TOLERANCES)}
    if with_skglm:
        peers["skglm"] = (partial(skglm_fit, data.X.tocsc(), data.y), SKGLM_TOLERANCES)
    return peers


def own(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--target", type=float, default=1e-6)
    parser.add_argument("--no-skglm", action="store_true")


def main() -> None:
    options = arguments(__doc__, own)
    sets = ("a9a",) if options.quick else options.sets
    small = loaded("a9a")
    our_fit(Data(small.X[:200], small.y[:200]), 1.0, 1e-3)  # compiles
    if not options.no_skglm:
        skglm_fit(small.X[:200].tocsc(), small.y[:200], 1.0, 1e-2)
    kept = options.results / "sparse_models.json"
    cells: dict[str, list[dict[str, Any]]] = {} if options.quick or not kept.exists() else json.loads(kept.read_text())
    for name in sets:
        data = loaded(name)
        peers = peers_of(data, not options.no_skglm)
        costs = COSTS[1:2] if options.quick else COSTS
        cells[name] = [cell(name, data, peers, C, options.target) for C in costs]
        if not options.quick:
            kept.write_text(json.dumps(cells, indent=1) + "\n")
    write(options.results / "sparse_models.md", cells, options.target, options.quick)


def write(path: Path, cells: dict[str, list[dict[str, Any]]], target: float, is_quick: bool) -> None:
    table = Table("set", "C", "ours, s", "gap", "not zero", "screened", *PEERS, numbers_from=1)
    rows = [row for name in SETS if name in cells for row in cells[name]]
    for row in rows:
        table.add(*row["line"])
    lines = []
    for peer in PEERS:
        values = [row["ratios"][peer] for row in rows if peer in row["ratios"]]
        least = min(values, default=float("nan"))
        mean = geometric_mean(values)
        lines.append(f"{peer}: geometric mean {mean:.1f}x over the {len(values)} cells that it reaches, least {least:.2f}x.")
    note = "Run pinned to one core, beside other work. Where a peer does not get there: its longest run, and its excess."
    head = (__doc__ or "").split("\n\n")[1]
    write_report(path, f"L1 penalty, to a relative gap of {target:g}", [head, table, *lines, note], is_quick)


if __name__ == "__main__":
    main()

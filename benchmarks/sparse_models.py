"""Whole fits of LinearSVC(penalty="l1") to a certified gap against LIBLINEAR -s 5 and skglm's AndersonCD, without an intercept.

Each peer gets the loosest tolerance on a grid that brings its primal value within the target of the optimum, found beforehand
and at no cost to it; only its training is timed. skglm gets X by columns, and squared hinge as a datafit of its own.

    python -m benchmarks.sparse_models [--sets a9a w7a] [--target 1e-6] [--no-skglm]
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
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


def cell(name: str, data: Data, peers: dict[str, Any], C: float, target: float, table: Table) -> dict[str, float]:
    """One line of the table; the ratios of the peers that get there."""
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
    runs = interleaved_by_length(contestants, most_rounds=3)
    ours = fastest_of(runs["ours"])
    kept = ours.model.trace_[-1].active
    seconds = {peer: fastest_of(runs[peer]).seconds for peer in peers if peer in runs}
    table.add(
        name,
        f"{C:g}",
        seconds_text(ours.seconds),
        f"{ours.model.relative_gap_:.0e}",
        np.count_nonzero(ours.model.coef_),
        f"{100.0 * (1.0 - kept / data.X.shape[1]):.2f}%",
        *(
            f"{seconds_text(seconds[peer])} ({seconds[peer] / ours.seconds:.1f}x)"
            if peer in seconds
            else f"> {max(trial.fit.seconds for trial in searches[peer].trials):.1f} s ({searches[peer].best.excess:.0e})"
            for peer in peers
        ),
    )
    return {peer: value / ours.seconds for peer, value in seconds.items()}


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
    names = ["LIBLINEAR -s 5", *([] if options.no_skglm else ["skglm"])]
    if not options.no_skglm:
        skglm_fit(small.X[:200].tocsc(), small.y[:200], 1.0, 1e-2)
    table = Table("set", "C", "ours, s", "gap", "not zero", "screened", *names, numbers_from=1)
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for name in sets:
        data = loaded(name)
        peers = peers_of(data, not options.no_skglm)
        for C in COSTS[1:2] if options.quick else COSTS:
            for peer, ratio in cell(name, data, peers, C, options.target, table).items():
                ratios[peer].append(ratio)
    lines = [
        f"{peer}: geometric mean {geometric_mean(values):.1f}x over the {len(values)} cells that it reaches, least "
        f"{min(values, default=float('nan')):.2f}x."
        for peer, values in ratios.items()
    ]
    note = "Run pinned to one core, beside other work. Where a peer does not get there: its longest run, and its excess."
    write_report(
        options.results / "sparse_models.md",
        f"L1 penalty, to a relative gap of {options.target:g}",
        [(__doc__ or "").split("\n\n")[1], table, *lines, note],
        options.quick,
    )


if __name__ == "__main__":
    main()

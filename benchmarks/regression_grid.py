"""Whole fits of LinearSVR over sets, scalings, losses, C and epsilon to a certified gap, against LIBLINEAR -s 13 and 11 and
scikit-learn's LinearSVR.

maxmargin is asked for the target, and proves it. A peer gets the loosest tolerance on a grid that brings its primal value
within the target of the optimum, found beforehand and at no cost to it; one that ends at its limit of iterations, or that
takes more than ``MOST_PEER_SECONDS``, does not get there. Epsilon is in standard deviations of the targets. Every cell is kept
in ``.cache/regression_grid`` by the hash of maxmargin's sources, so that a run that was cut off resumes. The tolerances of the
peers are kept beside them: they do not depend on these sources.

    python -m benchmarks.regression_grid                                     # every cell
    python -m benchmarks.regression_grid --only tolerances  # those of the peers, for a machine that is busy
    python -m benchmarks.regression_grid --seconds 240  # every cell of ours; peers in cells drawn at random for so long
    python -m benchmarks.regression_grid --sets abalone --costs 1 --only ours  # some cells, without peers or report
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.datasets import CACHE, Data, load_raw, write_text
from benchmarks.measure import (
    Table,
    arguments,
    digest_of_sources,
    fastest_of,
    geometric_mean,
    interleaved_by_length,
    loosest_tolerance,
    seconds_text,
    write_report,
)
from benchmarks.regression_peers import Clock, Prepared, liblinear_regression, sklearn_regression
from maxmargin import LinearProblem, LinearSVR, solve
from maxmargin.estimators.linear_regressor import LOSSES

SETS = ("cal_housing", "abalone", "cpu_act", "pol")
SCALINGS = ("standardised", "raw")
COSTS = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
EPSILONS = (0.0, 0.1, 0.5)
LOSS_NAMES = ("epsilon_insensitive", "squared_epsilon_insensitive")
TARGET, REFERENCE = 1e-6, 1e-9
"""The relative gap that is asked for, and that of the dual value by which peers are judged."""
TOLERANCES = tuple(10.0 ** (-0.5 * k) for k in range(21))
"""From 1 to 1e-10."""
MOST_SECONDS, MOST_PEER_SECONDS = 20.0, 2.0
"""Limit on a fit of ours; seconds of a peer's fit after which no tighter tolerance is tried."""
FOLDER = CACHE / "regression_grid"
PEERS = ("LIBLINEAR", "scikit-learn")


class Cell(NamedTuple):
    """Which fit is measured."""

    name: str
    scaling: str
    loss: str
    epsilon: float
    C: float

    @property
    def file(self) -> str:
        return f"{self.name}-{self.scaling}-{self.loss}-{self.epsilon:g}-{self.C:g}.json"


@dataclass(frozen=True)
class Outcome:
    """Our fit of a cell, and the seconds of each peer: infinite where it does not get there."""

    seconds: float
    gap: float
    is_certified: bool
    peers: dict[str, float]


class Fitted(NamedTuple):
    seconds: float
    model: Any


@lru_cache(maxsize=8)
def loaded(name: str, scaling: str) -> Data:
    """A set as it comes, or with columns and targets of mean zero and deviation one."""
    X, y = load_raw(name)
    if scaling == "raw":
        return Data(X, y)
    deviations = X.std(axis=0)
    return Data(
        np.ascontiguousarray((X - X.mean(axis=0)) / np.where(deviations > 0.0, deviations, 1.0)), (y - y.mean()) / y.std()
    )


def our_fit(data: Data, cell: Cell, epsilon: float) -> Fitted:
    model = LinearSVR(C=cell.C, epsilon=epsilon, loss=cell.loss, tol=TARGET, max_seconds=MOST_SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = Clock.now()
        model.fit(data.X, data.y)
        return Fitted(Clock.now() - start, model)


def measured(cell: Cell, with_peers: bool) -> Outcome:
    """All times of a cell are taken in turns."""
    data = loaded(cell.name, cell.scaling)
    epsilon = cell.epsilon * float(data.y.std())
    first = our_fit(data, cell, epsilon)  # compiles
    contestants: dict[str, Any] = {"ours": partial(our_fit, data, cell, epsilon)}
    if with_peers:
        contestants |= reaching(data, cell, epsilon)
    runs = interleaved_by_length(contestants)
    seconds = {name: fastest_of(fits).seconds for name, fits in runs.items()}
    certificate = first.model.certificate_
    peers = {peer: seconds.get(peer, math.inf) for peer in PEERS} if with_peers else {}
    return Outcome(seconds["ours"], certificate.relative_gap, first.model.status_.is_certified, peers)


def reaching(data: Data, cell: Cell, epsilon: float) -> dict[str, Any]:
    """The peers that get to the target, each at its tolerance."""
    prepared = Prepared.of(data, 1.0)
    fits = {
        "LIBLINEAR": partial(liblinear_regression, prepared, cell.C, cell.loss, epsilon),
        "scikit-learn": partial(sklearn_regression, data, cell.C, cell.loss, epsilon),
    }
    path = FOLDER / "tolerances" / cell.file
    if not path.exists():
        write_text(path, json.dumps(tolerances_of(fits, data, cell, epsilon)))
    return {peer: partial(fits[peer], tolerance) for peer, tolerance in json.loads(path.read_text()).items()}


def tolerances_of(fits: dict[str, Any], data: Data, cell: Cell, epsilon: float) -> dict[str, float]:
    """The loosest tolerance of each peer that gets to the target."""
    model = LinearSVR(C=cell.C, epsilon=epsilon, loss=cell.loss)
    built = LinearProblem.build(data.X, data.y, cell.C, LOSSES[cell.loss](model), 1.0)
    best = solve(built, tol=REFERENCE, max_seconds=MOST_SECONDS).certificate.dual
    found = {}
    for peer, fit in fits.items():
        search = loosest_tolerance(
            fit, lambda run: built.primal(run.w) / best - 1.0, TARGET, TOLERANCES, max_seconds=MOST_PEER_SECONDS
        )
        if search.found is not None:
            found[peer] = search.found.tolerance
    return found


def outcome_of(cell: Cell, folder: Path, with_peers: bool) -> Outcome:
    """From an earlier run of the same sources, if there is one."""
    path = folder / cell.file
    if path.exists():
        return Outcome(**json.loads(path.read_text()))
    outcome = measured(cell, with_peers)
    if with_peers:
        write_text(path, json.dumps(asdict(outcome)))
    return outcome


def cells_of(options: argparse.Namespace) -> Iterator[Cell]:
    chosen = options.sets, options.scalings, options.losses, options.epsilons, options.costs
    return (Cell(*values) for values in product(*chosen))


def report(outcomes: dict[Cell, Outcome], path: Path, options: argparse.Namespace) -> None:
    ratios = {peer: Table("set", "loss", "cells", "reached", "geometric mean", "least", numbers_from=2) for peer in PEERS}
    fits = Table("set", "loss", "cells", "certified", "geometric mean [s]", "slowest [s]", numbers_from=2)
    groups = sorted({(cell.name, cell.scaling, cell.loss) for cell in outcomes})
    for name, scaling, loss in groups:
        chosen = [found for cell, found in outcomes.items() if cell[:3] == (name, scaling, loss)]
        seconds = [outcome.seconds for outcome in chosen]
        certified = sum(outcome.is_certified for outcome in chosen)
        words = f"{name}, {scaling}", loss
        fits.add(*words, len(chosen), certified, seconds_text(geometric_mean(seconds)), seconds_text(max(seconds)))
        for peer, table in ratios.items():
            table.add(*words, sum(peer in outcome.peers for outcome in chosen), *_ratio_cells(chosen, peer))
    clock = "**Pinned to one core ahead of other work, in seconds of the processor, all threads together.**"
    head = [__doc__.partition("\n\n    python")[0], *([clock] if options.processor_time else []), options.note]
    parts: list[object] = [*head, "## maxmargin to 1e-6", fits]
    for peer, table in ratios.items():
        total = _ratio_cells(list(outcomes.values()), peer)
        n_tried = sum(peer in outcome.peers for outcome in outcomes.values())
        tried = f"It was run in {n_tried} of {len(outcomes)} cells"
        said = f"{tried}, and gets to 1e-6 in {total[0]}. There it takes {total[1]} times as long as maxmargin"
        parts += [f"## {peer}", f"{said} in the geometric mean, and at the least {total[2]} times.", table]
    write_report(path, "Linear support vector regression", parts, options.quick)


def _ratio_cells(outcomes: list[Outcome], peer: str) -> tuple[int, str, str]:
    """Cells in which the peer was run and gets to the target, and how many times our seconds it takes there."""
    ratios = [outcome.peers.get(peer, math.inf) / outcome.seconds for outcome in outcomes]
    ratios = [ratio for ratio in ratios if math.isfinite(ratio)]
    return len(ratios), f"{geometric_mean(ratios):.2f}" if ratios else "-", f"{min(ratios):.2f}" if ratios else "-"


def _add_options(parser: argparse.ArgumentParser) -> None:
    for name, choices, kind in (
        ("sets", SETS, str),
        ("scalings", SCALINGS, str),
        ("losses", LOSS_NAMES, str),
        ("epsilons", EPSILONS, float),
        ("costs", COSTS, float),
    ):
        parser.add_argument(f"--{name}", nargs="+", type=kind, default=list(choices), help=f"of {', '.join(map(str, choices))}")
    parser.add_argument("--only", choices=["ours", "tolerances"], help="maxmargin, or the search of tolerances, alone")
    parser.add_argument("--note", default="", help="which cells the peers were run in, and what else a reader has to know")
    parser.add_argument("--processor-time", action="store_true", help="seconds of the processor, for a busy machine")
    parser.add_argument("--seconds", type=float, default=math.inf, help="run no peer after this; cells come in random order")


def main() -> None:
    options = arguments(__doc__, _add_options)
    if options.processor_time:
        Clock.use_processor_time()
    if options.quick:
        options.costs, options.epsilons = options.costs[::3], options.epsilons[1:2]
    folder, outcomes, begun = FOLDER / digest_of_sources(), {}, time.perf_counter()
    cells = list(cells_of(options))
    if options.seconds < math.inf:
        cells = [cells[k] for k in np.random.default_rng(0).permutation(len(cells))]
    for cell in cells:
        if options.only == "tolerances":
            data = loaded(cell.name, cell.scaling)
            print(*cell, list(reaching(data, cell, cell.epsilon * float(data.y.std()))), flush=True)
            continue
        with_peers = options.only is None and time.perf_counter() - begun < options.seconds
        outcomes[cell] = outcome_of(cell, folder, with_peers)
        peers = " ".join(f"{peer} {seconds_text(seconds)}" for peer, seconds in outcomes[cell].peers.items())
        outcome = outcomes[cell]
        print(*cell, f"ours {seconds_text(outcome.seconds)} s, gap {outcome.gap:.1e}", outcome.is_certified, peers, flush=True)
    if options.only is None:
        report(outcomes, options.results / "regression_grid.md", options)


if __name__ == "__main__":
    main()

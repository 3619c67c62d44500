"""Whole fits of LinearSVC over a grid of C up to 1000, to certified gaps of 1e-3 and 1e-6, against every exact linear SVM
that pip installs here.

Hinge loss, no intercept, from a CSR matrix in memory. maxmargin is asked for the target, and proves it. The peers have no such
option: each gets the loosest tolerance on a grid that brings its primal value within the target of the optimum, found
beforehand and at no cost to it. That search is long; its outcome is kept in ``.cache/linear_grid/searches``, and only
the tolerance is used again: all times of a cell are taken in turns. Cells are kept by the hash of maxmargin's sources, so a
run that was cut off goes on where it was, and a changed library is measured anew.

    python -m benchmarks.linear_grid --only searches     # hours, needs no quiet machine
    python -m benchmarks.linear_grid                     # the timed run, on a quiet one
    python -m benchmarks.linear_grid --only ours         # maxmargin alone, to the terminal: no ratios, no report
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning

from benchmarks.datasets import CACHE, NAMES, ROOT, Data, load, write_text
from benchmarks.footprint import GROWTH_OF_FIT, in_fresh_process
from benchmarks.linear_grid_report import TARGETS, Cell, Grid, Memory, Ours, PeerTime, write
from benchmarks.measure import arguments, digest_of_sources, fastest_of, interleaved_by_length, seconds_text
from benchmarks.peers import PEERS, Fit, Peer, PeerProcess
from benchmarks.references import Reference, reference
from maxmargin import LinearSVC
from maxmargin.data.rows import Array
from maxmargin.solvers.linear.newton.policy import HessianPolicy

COSTS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
QUICK_NAMES, QUICK_COSTS, QUICK_SECONDS_A_FIT = ("a9a", "ijcnn1"), (0.1, 100.0), 1.0
SECONDS_A_SEARCH = 900.0
"""No further tolerance is tried after it."""
LONG_RUN_SECONDS, LONGEST_STEP = 2.0, 4
MAX_SECONDS = 60.0
SOLVERS = ("dcd", "newton", "avsf")
SOLVER_PATIENCE, LEAST_SOLVER_CAP = 3.0, 1.0
FOLDER = CACHE / "linear_grid"

MEMORY = f"""{GROWTH_OF_FIT}
import json, sys, warnings
from benchmarks.datasets import load
from maxmargin import LinearSVC

warnings.simplefilter("ignore")
data = load(sys.argv[1])
model = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-6, C=float(sys.argv[2]), max_seconds=60)
growth, X = growth_of_fit(model, data, "coef_"), data.X
print(json.dumps(dict(growth=growth, X=X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)))
"""


class OurFit(NamedTuple):
    seconds: float
    w: Array
    model: Any

    @property
    def is_certified(self) -> bool:
        return bool(self.model.status_.is_certified)


def our_fit(data: Data, C: float, target: float, solver: str = "auto", max_seconds: float = MAX_SECONDS) -> OurFit:
    model = LinearSVC(loss="hinge", fit_intercept=False, tol=target, C=C, solver=solver, max_seconds=max_seconds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(data.X, data.y)
        seconds = time.perf_counter() - start
    return OurFit(seconds, model.coef_[0], model)


@dataclass(frozen=True)
class Trial:
    """One run of a peer at one tolerance. ``ended`` is empty, "cap" (of iterations), or "clock" after ``seconds``."""

    tolerance: float
    excess: float
    seconds: float
    ended: str


@dataclass
class Search:
    """The runs of a peer on one set and C from the loosest tolerance on, and where they are kept."""

    path: Path
    trials: list[Trial] = field(default_factory=list)

    @classmethod
    def of(cls, peer: Peer, name: str, C: float, quick: bool) -> Search:
        folder = FOLDER / ("quick-searches" if quick else "searches") / f"{peer.package}-{peer.version}"
        path = folder / f"{name}-{C:g}.json"
        return cls(path, [Trial(**trial) for trial in json.loads(path.read_text())] if path.exists() else [])

    def add(self, trial: Trial) -> None:
        self.trials.append(trial)
        _save(self.path, [asdict(trial) for trial in self.trials])

    def next_tolerance(self, peer: Peer) -> float | None:
        """For the loose target, then for the tight one; None when both are settled, or when it has taken too long."""
        spent = sum(min(trial.seconds, peer.max_seconds) for trial in self.trials)  # more only on a busy machine
        if not peer.is_bounded and spent > SECONDS_A_SEARCH:
            return None
        return next(filter(None, (self._next_for(target, peer.tolerances) for target in TARGETS)), None)

    def _next_for(self, target: float, grid: tuple[float, ...]) -> float | None:
        """From loose to tight until one is within the target or met a cap, in longer steps where runs take long. Then
        the neighbour of the last that was not enough is looked for between them."""
        tried = {grid.index(trial.tolerance): trial for trial in self.trials}
        end = min((k for k, trial in tried.items() if trial.excess <= target or trial.ended), default=None)
        last = max((k for k in tried if end is None or k < end), default=-1)
        if end is not None:
            return grid[(last + end) // 2] if end - last > 1 else None
        if last == len(grid) - 1:
            return None
        is_long = last >= 0 and tried[last].seconds > LONG_RUN_SECONDS
        step = math.log2(tried[last].excess / target) / 2 if is_long else 1
        return grid[min(len(grid) - 1, last + min(LONGEST_STEP, max(1, int(step))))]

    def to_time(self, target: float) -> Trial:
        """The one that gets there, else the tightest: it met the cap."""
        return self.first_within(target) or self.tightest

    @property
    def nearest(self) -> float:
        return min(trial.excess for trial in self.trials)

    @property
    def tightest(self) -> Trial:
        return min(self.trials, key=lambda trial: trial.tolerance)

    def first_within(self, target: float) -> Trial | None:
        """The loosest that was good enough."""
        return max((trial for trial in self.trials if trial.excess <= target), key=lambda trial: trial.tolerance, default=None)


def search_all(options: argparse.Namespace) -> None:
    """Peer by peer and set by set, each in a process of its own."""
    for peer in options.peers:
        for name in options.sets:
            process = PeerProcess(peer, name)
            try:
                for C in options.costs:
                    search(process, C, options.quick)
            finally:
                process.close()


def search(process: PeerProcess, C: float, quick: bool) -> None:
    peer, name, best = process.peer, process.set_name, None
    limit = QUICK_SECONDS_A_FIT if quick and not peer.is_bounded else peer.max_seconds
    found = Search.of(peer, name, C, quick)
    while tolerance := found.next_tolerance(peer):
        best = best or reference(name, load(name), C, "hinge")
        found.add(_trial(tolerance, process.fit(C, tolerance, limit), best, limit))
        trial = found.trials[-1]
        gives = f"{tolerance:.2g} gives {trial.excess:.1e} in {seconds_text(trial.seconds)} s {trial.ended}"
        print(f"{peer.name} {name} C = {C:g}: {gives}", flush=True)


def _trial(tolerance: float, fit: Fit | None, best: Reference, limit: float) -> Trial:
    if fit is None:
        return Trial(tolerance, math.inf, limit, "clock")
    return Trial(tolerance, best.excess(fit.w), fit.seconds, "cap" if fit.hit_cap else "")


def time_all(options: argparse.Namespace) -> None:
    """Every cell that is not yet there, saved as it is done."""
    for name in options.sets:
        missing = [(C, target) for C in options.costs for target in TARGETS if not cell_path(options, name, C, target).exists()]
        if not missing:
            continue
        _refuse_unfinished(options, name)
        data = load(name)
        prepared = {peer.name: peer.prepare(data) for peer in options.peers}
        if "LIBLINEAR" in prepared:
            _save(options.run / f"build-{name}.json", prepared["LIBLINEAR"].seconds)
        for C, target in missing:
            cell = time_cell(options, name, data, prepared, C, target)
            _save(cell_path(options, name, C, target), asdict(cell))
            print(_line(cell), flush=True)


def _refuse_unfinished(options: argparse.Namespace, name: str) -> None:
    """A peer must not be said to fail because its search was cut off."""
    pairs = [(peer, C) for peer in options.peers for C in options.costs]
    unfinished = [f"{peer.name} C = {C:g}" for peer, C in pairs if Search.of(peer, name, C, options.quick).next_tolerance(peer)]
    if unfinished:
        raise SystemExit(f"Searches on {name} that are not finished: {', '.join(unfinished)}. First: --only searches.")


def cell_path(options: argparse.Namespace, name: str, C: float, target: float) -> Path:
    path: Path = options.run / f"{name}-{C:g}-{target:g}.json"
    return path


def time_cell(options: argparse.Namespace, name: str, data: Data, prepared: dict[str, Any], C: float, target: float) -> Cell:
    warm = our_fit(data, C, target)  # not counted: it warms the caches and says how long to wait for the others
    cap = min(MAX_SECONDS, max(LEAST_SOLVER_CAP, SOLVER_PATIENCE * warm.seconds))
    solvers = [solver for solver in SOLVERS if solver != "newton" or data.X.shape[1] <= HessianPolicy.most_matrix_weights]
    known = _known_peers(options, name, C, target)
    racing = [peer for peer in options.peers if peer.name not in known]
    found = {peer.name: Search.of(peer, name, C, options.quick) for peer in racing}
    contestants: dict[str, Callable[[], Any]] = {"ours": lambda: our_fit(data, C, target)}
    contestants |= {
        peer.name: partial(peer.fit, prepared[peer.name], C, found[peer.name].to_time(target).tolerance) for peer in racing
    }
    contestants |= {solver: partial(our_fit, data, C, target, solver, cap) for solver in solvers}
    runs = interleaved_by_length(contestants, 2 if options.quick else 7)
    best = reference(name, data, C, "hinge")
    peers = known | {peer: _peer_time(search, runs[peer], best, target) for peer, search in found.items()}
    alone = {solver: _certified_seconds(runs[solver]) for solver in solvers}
    return Cell(name, C, target, _ours(runs["ours"], best), peers, alone, cap)


def _known_peers(options: argparse.Namespace, name: str, C: float, target: float) -> dict[str, PeerTime]:
    """Those that need no run: one that the clock ended, and one that misses the loose target too, as timed there."""
    loose = cell_path(options, name, C, max(TARGETS))
    earlier = Cell.from_dict(json.loads(loose.read_text())).peers if target < max(TARGETS) and loose.exists() else {}
    known = {peer: time for peer, time in earlier.items() if not time.reached}
    for peer in options.peers:
        found = Search.of(peer, name, C, options.quick)
        if found.first_within(target) is None and found.tightest.ended == "clock":
            known[peer.name] = PeerTime(found.tightest.seconds, math.nan, found.nearest, False, "clock")
    return known


def _peer_time(found: Search, runs: list[Fit], best: Reference, target: float) -> PeerTime:
    trial, fastest = found.to_time(target), fastest_of(runs)
    excess = best.excess(fastest.w)
    reached = excess <= target
    return PeerTime(fastest.seconds, trial.tolerance, excess if reached else found.nearest, reached, trial.ended, len(runs))


def _certified_seconds(runs: list[OurFit]) -> float:
    return min((run.seconds for run in runs if run.is_certified), default=math.inf)


def _ours(runs: list[OurFit], best: Reference) -> Ours:
    fastest = fastest_of(runs)
    trace = fastest.model.trace_
    solvers = ", ".join(dict.fromkeys(row.solver for row in trace))
    gap, excess = fastest.model.relative_gap_, best.excess(fastest.w)
    return Ours(fastest.seconds, gap, fastest.is_certified, excess, solvers, trace[-1].reason, len(runs))


def _line(cell: Cell) -> str:
    peers = ", ".join(f"{name} {'' if peer.reached else 'x '}{seconds_text(peer.seconds)}" for name, peer in cell.peers.items())
    alone = ", ".join(f"{name} {seconds_text(seconds)}" for name, seconds in cell.solvers.items())
    return f"{cell}: {seconds_text(cell.ours.seconds)} s by {cell.ours.solvers}; {peers}; {alone}"


def measure_memory(options: argparse.Namespace) -> None:
    for name in options.sets:
        for C in options.costs:
            path = options.run / f"memory-{name}-{C:g}.json"
            if not path.exists():
                memory = Memory(name, C, **in_fresh_process(MEMORY, name, C))
                _save(path, asdict(memory))
                print(f"memory {name} C = {C:g}: {memory.growth / 1e6:.1f} MB, {memory.ratio:.2f} times X", flush=True)


def time_ours(options: argparse.Namespace) -> None:
    for name in options.sets:
        data = load(name)
        for C in options.costs:
            for target in TARGETS:
                our_fit(data, C, target)
                runs = interleaved_by_length({"ours": partial(our_fit, data, C, target)})["ours"]
                ours = _ours(runs, reference(name, data, C, "hinge"))
                print(
                    f"{name} C = {C:g} at {target:g}: {seconds_text(ours.seconds)} s, {ours.relative_gap:.1e}, {ours.solvers}"
                )


def report(options: argparse.Namespace) -> None:
    keys = [(name, C) for name in options.sets for C in options.costs]
    cells = _saved(cell_path(options, name, C, target) for target in TARGETS for name, C in keys)
    memory = _saved(options.run / f"memory-{name}-{C:g}.json" for name, C in keys)
    builds = {name: path for name in options.sets if (path := options.run / f"build-{name}.json").exists()}
    grid = Grid(
        [Cell.from_dict(cell) for cell in cells],
        [Memory(**row) for row in memory],
        {name: json.loads(path.read_text()) for name, path in builds.items()},
        len(TARGETS) * len(keys),
    )
    write(grid, options.results, options.quick)


def _saved(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def _save(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value))


STEPS: dict[str, tuple[Callable[[argparse.Namespace], None], ...]] = {
    "all": (search_all, measure_memory, time_all, report),
    "searches": (search_all,),
    "memory": (measure_memory,),
    "times": (time_all,),
    "ours": (time_ours,),
    "report": (report,),
}


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=STEPS, default="all", help="one step; all of them, if not given")
    parser.add_argument("--sets", nargs="+", choices=NAMES)
    parser.add_argument("--costs", nargs="+", type=float)
    parser.add_argument("--peers", nargs="+", choices=PEERS)
    parser.add_argument("--run", help="a name for this run: cells of other runs, of the same sources, are not used")


def main() -> None:
    options = arguments(__doc__, _own_options)
    options.sets = options.sets or (QUICK_NAMES if options.quick else NAMES)
    options.costs = options.costs or (QUICK_COSTS if options.quick else COSTS)
    options.peers = [peer for peer in map(PEERS.__getitem__, options.peers or PEERS) if peer.version]
    digest = digest_of_sources(*(peer.version for peer in PEERS.values()))
    options.run = FOLDER / "runs" / "-".join(filter(None, (digest, options.run, "quick" if options.quick else "")))
    print(f"Cells: {options.run.relative_to(ROOT)}", flush=True)
    for step in STEPS[options.only]:
        step(options)


if __name__ == "__main__":
    main()

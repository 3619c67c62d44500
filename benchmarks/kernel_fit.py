"""Whole fits of SVC with an RBF kernel to certified gaps of 1e-3 and 1e-6, against scikit-learn's SVC (LIBSVM) and oneDAL, and
to 1e-10 alone.

maxmargin is asked for the target, and proves it. The peers have no such option: each gets the loosest tolerance on a grid
that brings the certified gap of its answer within the target, found beforehand and at no cost to it. Their answers are
judged by the same certificate as ours.

    python -m benchmarks.kernel_fit --only searches      # long, needs no quiet machine
    python -m benchmarks.kernel_fit [--problems a9a ...] [--peers LIBSVM ...]
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn.svm
from scipy import sparse

from benchmarks.datasets import CACHE, Data, write_text
from benchmarks.kernel_problems import HARD, PROBLEMS, QUICK, Named
from benchmarks.measure import (
    Table,
    arguments,
    fastest_of,
    geometric_mean,
    interleaved_by_length,
    seconds_text,
    write_report,
)
from maxmargin import SVC, KernelProblem, certify_kernel
from maxmargin.data.rows import Array

TARGETS = (1e-3, 1e-6)
"""What everyone is asked for."""
FINEST = 1e-10
"""And what maxmargin is asked for besides."""
TOLERANCES = tuple(10.0 ** (-k / 2.0) for k in range(1, 15))
CACHE_MB = 500.0
SLOW_SECONDS = 250.0
"""After a run that took longer a search goes no tighter."""
SAME = 3
"""Nor after so many tolerances that did not bring the gap down."""
METHOD = f"""
Seconds are of whole `fit` calls on data in memory, caches of {CACHE_MB:g} MB for everyone, everything compiled; they take turns
and the fastest run counts. maxmargin and oneDAL use both cores, LIBSVM has one. A peer's tolerance is the loosest of
10^(-k/2) that brings the gap of its alpha, clipped to the box and judged by our certificate, within the target; x: none was
found, and the nearest gap is in brackets. A search ends when tighter tolerances make the gap no smaller, after a run of more
than {SLOW_SECONDS:g} s on a busy machine (covtype with C = 100), and for float32 at 1e-4, below which it may not end.
oneDAL is scikit-learn-intelex in float64 and, on X in float32, in float32.
""".strip()


class Fit(NamedTuple):
    seconds: float
    alpha: Array
    hit_cap: bool = False
    gap: float = math.nan


@dataclass(frozen=True)
class Peer:
    """An estimator with scikit-learn's parameters and attributes."""

    name: str
    package: str
    make: Callable[..., Any]
    dtype: Any = np.float64
    finest: float = TOLERANCES[-1]
    """The tightest tolerance to try: below 1e-4 float32 was seen not to end in minutes."""

    @property
    def version(self) -> str:
        return version(self.package)

    def fit(self, named: Named, data: Data, tolerance: float) -> Fit:
        model = self.make(C=named.C, gamma=named.gamma, tol=tolerance, cache_size=CACHE_MB)
        X = data.X.astype(self.dtype, copy=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            model.fit(X, data.y)
            seconds = time.perf_counter() - start
        alpha = np.zeros(len(data.y))
        coefficients = model.dual_coef_.toarray() if sparse.issparse(model.dual_coef_) else np.asarray(model.dual_coef_)
        alpha[model.support_] = np.abs(coefficients.ravel())
        return Fit(seconds, np.minimum(alpha, named.C))


def peers() -> dict[str, Peer]:
    """Those that are installed."""
    found = {"LIBSVM": Peer("LIBSVM", "scikit-learn", sklearn.svm.SVC)}
    try:
        one_dal = import_module("sklearnex.svm").SVC
    except ImportError:
        return found
    return found | {
        "oneDAL f64": Peer("oneDAL f64", "scikit-learn-intelex", one_dal),
        "oneDAL f32": Peer("oneDAL f32", "scikit-learn-intelex", one_dal, np.float32, 1e-4),
    }


def our_fit(named: Named, data: Data, target: float, solver: str = "auto") -> Fit:
    model = SVC(C=named.C, gamma=named.gamma, tol=target, cache_size=CACHE_MB, solver=solver)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model.fit(data.X, data.y)
        seconds = time.perf_counter() - start
    return Fit(seconds, np.empty(0), model.relative_gap_ > model.tol, model.relative_gap_)


def gap_of(problem: KernelProblem, fit: Fit) -> float:
    return certify_kernel(problem, fit.alpha).certificate.relative_gap


class Trial(NamedTuple):
    """One run of a peer: the certified gap of its answer, and how long it took on a machine that need not be idle."""

    gap: float
    seconds: float


@dataclass
class Search:
    """The runs of a peer on one problem by tolerance, kept in a file: that they are long does not matter then."""

    path: Path
    trials: dict[float, Trial]
    finest: float

    @classmethod
    def of(cls, peer: Peer, named: Named) -> Search:
        path = CACHE / "kernel_fit" / f"{peer.name}-{peer.version}" / f"{named.name}-{named.C:g}.json".replace("/", "-")
        kept = json.loads(path.read_text()) if path.exists() else {}
        return cls(path, {float(tolerance): Trial(*trial) for tolerance, trial in kept.items()}, peer.finest)

    def add(self, tolerance: float, trial: Trial) -> None:
        self.trials[tolerance] = trial
        text = json.dumps({repr(tolerance): trial for tolerance, trial in self.trials.items()})
        write_text(self.path, text)

    def found(self, target: float) -> float | None:
        """The loosest tolerance that was good enough."""
        return max((tolerance for tolerance, trial in self.trials.items() if trial.gap <= target), default=None)

    @property
    def nearest(self) -> float:
        return min(trial.gap for trial in self.trials.values())

    @property
    def is_at_its_end(self) -> bool:
        """Whether a far tighter tolerance has hardly made the gap smaller, or several have not."""
        order = sorted(self.trials, reverse=True)
        gaps = [self.trials[tolerance].gap for tolerance in order]
        is_far = len(order) > 1 and order[-1] < 0.05 * order[-2]
        return (is_far and gaps[-1] > 0.5 * gaps[-2]) or (len(gaps) > SAME and min(gaps[-SAME:]) > 0.9 * min(gaps[:-SAME]))

    def next_tolerance(self) -> float | None:
        """The next to try for the first target that is not settled: gaps shrink about as the tolerance does. A target is
        settled by a tolerance that meets it while the next looser one does not, by a run that took too long, or when tighter
        ones have long made nothing better: float32 may then never end."""
        for target in TARGETS:
            found = self.found(target)
            if found is not None:
                looser = TOLERANCES.index(found) - 1
                if looser >= 0 and TOLERANCES[looser] not in self.trials:
                    return TOLERANCES[looser]
                continue
            if not self.trials:
                return TOLERANCES[1]
            tightest = min(self.trials)
            if self.is_at_its_end or tightest < 1.01 * self.finest or self.trials[tightest].seconds > SLOW_SECONDS:
                continue
            expected = tightest * target / self.trials[tightest].gap
            tighter = [tolerance for tolerance in TOLERANCES if tolerance < 0.99 * tightest]
            tighter = [tolerance for tolerance in tighter if tolerance > 0.99 * self.finest]
            return next((tolerance for tolerance in tighter if tolerance <= 1.5 * expected), tighter[-1])
        return None


def search(named: Named, chosen: dict[str, Peer]) -> None:
    """Find the tolerances of all peers on one problem."""
    pending = [(peer, found) for peer in chosen.values() if (found := Search.of(peer, named)).next_tolerance() is not None]
    if not pending:
        return
    data = named.make()
    problem = named.problem(data)
    for peer, found in pending:
        while (tolerance := found.next_tolerance()) is not None:
            fit = peer.fit(named, data, tolerance)
            found.add(tolerance, Trial(gap_of(problem, fit), fit.seconds))
            trial = found.trials[tolerance]
            print(f"{peer.name} {named}: {tolerance:.1g} gives {trial.gap:.1e} in {seconds_text(trial.seconds)} s", flush=True)


class Row(NamedTuple):
    """One problem to one target; ``seconds`` of the peers that get there."""

    name: str
    C: float
    target: float
    ours: float
    gap: float
    is_certified: bool
    seconds: dict[str, float]

    @property
    def is_hard(self) -> bool:
        return (self.name, self.C) in {(named.name, named.C) for named in HARD}

    def __str__(self) -> str:
        return f"{self.name}, C = {self.C:g}"

    def ratio(self, peer: str) -> float:
        return self.seconds[peer] / self.ours

    @property
    def better_of_one_dal(self) -> float:
        return min((self.ratio(name) for name in self.seconds if name.startswith("oneDAL")), default=math.nan)


def measure(named: Named, chosen: dict[str, Peer], most_rounds: int) -> list[Row]:
    data = named.make()
    searches = {name: Search.of(peer, named) for name, peer in chosen.items()}
    rows = []
    for target in (*TARGETS, FINEST):
        our_fit(named, data, target)  # compiles, and warms the caches
        tolerances = {name: tolerance for name, found in searches.items() if (tolerance := found.found(target)) is not None}
        if target == FINEST:
            tolerances = {}
        contestants: dict[str, Callable[[], Fit]] = {"maxmargin": partial(our_fit, named, data, target)}
        contestants |= {name: partial(chosen[name].fit, named, data, tolerance) for name, tolerance in tolerances.items()}
        runs = interleaved_by_length(contestants, most_rounds)
        seconds = {name: fastest_of(runs[name]).seconds for name in tolerances}
        ours = fastest_of(runs["maxmargin"])
        rows.append(Row(named.name, named.C, target, ours.seconds, ours.gap, not ours.hit_cap, seconds))
        print(f"{named} at {target:g}: {seconds_text(ours.seconds)} s; {seconds}", flush=True)
    return rows


def kept_rows(named: Named, chosen: dict[str, Peer], most_rounds: int, run: str) -> list[Row]:
    """Measured now, or taken from the file of this run: one that is cut off goes on where it was."""
    path = CACHE / "kernel_fit" / f"run-{run}" / f"{named.name}-{named.C:g}.json".replace("/", "-")
    if path.exists():
        return [Row(*fields) for fields in json.loads(path.read_text())]
    rows = measure(named, chosen, most_rounds)
    write_text(path, json.dumps(rows))
    return rows


def table_of(rows: list[Row], chosen: dict[str, Peer]) -> Table:
    table = Table("problem", "target", "maxmargin s", "gap", *chosen)
    for row in rows:
        gap = f"{row.gap:.0e}{'' if row.is_certified else ' NOT certified'}"
        cells = ["" if row.target == FINEST else _peer_text(row, peer) for peer in chosen.values()]
        table.add(row, f"{row.target:g}", seconds_text(row.ours), gap, *cells)
    return table


def _peer_text(row: Row, peer: Peer) -> str:
    named = next(named for named in PROBLEMS + HARD if (named.name, named.C) == (row.name, row.C))
    found = Search.of(peer, named)
    tolerance = found.found(row.target)
    if tolerance is None:
        return f"x [{found.nearest:.0e}]"
    return f"{seconds_text(row.seconds[peer.name])} ({tolerance:.1g}) {row.ratio(peer.name):.2f}x"


def verdicts(rows: list[Row], names: list[str]) -> str:
    """Means over the problems that are not hard; those are named one by one."""
    lines = []
    for target in TARGETS:
        here = [row for row in rows if row.target == target and not row.is_hard]
        lines.append(f"Certified {target:g} on {sum(row.is_certified for row in here)} of {len(here)} problems.")
        for name in names:
            ratios = [row.ratio(name) for row in here if name in row.seconds]
            lines += _mean_line(f"To {target:g}, against {name}", ratios, len(here))
        better = [row.better_of_one_dal for row in here if not math.isnan(row.better_of_one_dal)]
        lines += _mean_line(f"To {target:g}, against the better of oneDAL's two", better, len(here))
        for row in rows:
            if row.target == target and row.is_hard:
                each = ", ".join(f"{name} {row.ratio(name):.2f}x" for name in row.seconds) or "no tolerance of a peer was found"
                lines.append(f"{row} to {target:g}: {seconds_text(row.ours)} s; {each}.")
    return "\n".join(f"- {line}" for line in [*lines, *_finest_lines(rows)])


def _mean_line(what: str, ratios: list[float], n: int) -> list[str]:
    if not ratios:
        return []
    spread = f"{min(ratios):.1f}x to {max(ratios):.1f}x; it gets there on {len(ratios)} of {n}"
    return [f"{what}: {geometric_mean(ratios):.1f}x (geometric mean; {spread})."]


def _finest_lines(rows: list[Row]) -> list[str]:
    finest = {str(row): row for row in rows if row.target == FINEST}
    if not finest:
        return []
    times = {
        str(row): finest[str(row)].ours / row.ours
        for row in rows
        if row.target == TARGETS[-1] and finest[str(row)].is_certified
    }
    slowest = max(times, key=times.__getitem__)
    certified = sum(row.is_certified for row in finest.values())
    missed = "".join(f"; {row} ends at {row.gap:.0e}" for row in finest.values() if not row.is_certified)
    return [
        f"Certified {FINEST:g} on {certified} of {len(finest)} problems{missed}; it takes at most {times[slowest]:.2f} times "
        f"as long as {TARGETS[-1]:g} ({slowest})."
    ]


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=["searches"], help="find the peers' tolerances, for which no quiet machine is needed")
    parser.add_argument("--problems", nargs="+", help="names, such as a9a")
    parser.add_argument("--peers", nargs="*", help="LIBSVM, 'oneDAL f64', 'oneDAL f32'; all that are installed, if not given")
    parser.add_argument("--run", default="", help="a name: what a run of this name has measured already is not measured again")


def main() -> None:
    options = arguments(__doc__, _own_options)
    chosen = {name: peer for name, peer in peers().items() if options.peers is None or name in options.peers}
    names = options.problems or (QUICK if options.quick else [named.name for named in PROBLEMS + HARD])
    problems = [named for named in PROBLEMS + HARD if named.name in names]
    for named in problems:
        search(named, chosen)
    if options.only == "searches":
        return
    rounds = 2 if options.quick else 5
    run = options.run or f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}"
    rows = [row for named in problems for row in kept_rows(named, chosen, rounds, run)]
    parts = (verdicts(rows, list(chosen)), table_of(rows, chosen), METHOD)
    title = "SVC: whole fits with an RBF kernel to 1e-3, 1e-6 and 1e-10"
    write_report(options.results / "kernel_fit.md", title, parts, options.quick)


if __name__ == "__main__":
    main()

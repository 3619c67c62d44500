"""Two versions of maxmargin in turns on the same fits: is the newer one slower anywhere?

Each version runs in a process of its own, with its own sources and its own Numba cache. The two take turns on every cell, and
the least processor time of each counts. Cells are those of ``linear_grid`` (hinge loss, no intercept), ``kernel_fit`` (RBF) and
``dcd_algorithm`` (dual coordinate descent alone, C = 1, until its own rule (17) holds or after 300 sweeps).

    git worktree add --detach ../before e898da0          # version 0.1
    python -m benchmarks.versions ../before [--sets a9a w7a ijcnn1] [--problems w7a banana] [--descents a9a mnist]

A run may be made in slices: cells that were measured before with the same two commits stay in the report.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.datasets import CACHE, ROOT, Data, load, write_text
from benchmarks.kernel_problems import PROBLEMS, Named
from benchmarks.measure import Table, arguments, geometric_mean, write_report

SETS = ("a9a", "w7a", "ijcnn1")
KERNELS = ("w7a", "banana", "usps even/odd", "mnist 3/5", "ijcnn1")
DESCENTS = ("a9a", "w7a", "ijcnn1", "covtype.binary.scale", "mnist", "news20_bigram")
EPSILONS = (0.1, 0.01)
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
TARGETS = (1e-3, 1e-6)
ROUNDS = ((0.3, 7), (2.0, 4), (float("inf"), 3))
"""Up to so many seconds a fit, so many turns."""
ASKED_MEAN, ASKED_LEAST = 0.97, 0.9
"""How much slower the newer version may be in the mean and in any cell."""

WORKER = """
import json, sys, time, warnings
import numpy as np
from scipy import sparse
from maxmargin import DCD, SVC, LinearProblem, LinearSVC
from maxmargin.solvers.base import Budget

warnings.simplefilter("ignore")
kept, problems = {}, {}
MOST_SWEEPS = 300

def data(path):
    if path not in kept:
        kept.clear()
        with np.load(path) as a:
            X = a["X"] if "X" in a else sparse.csr_matrix((a["values"], a["indices"], a["indptr"]), shape=tuple(a["shape"]))
            kept[path] = X, a["y"]
    return kept[path]

def fit(job):
    # seconds of a whole fit, and its gap
    X, y = data(job["path"])
    model = {"LinearSVC": LinearSVC, "SVC": SVC}[job["estimator"]](**job["settings"])
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start, float(model.relative_gap_)

def descend(job):
    # seconds of sweeps until (17) holds, from a problem that is there already; there is no certificate, so no gap
    if job["path"] not in problems:
        problems.clear()
        problems[job["path"]] = LinearProblem.build(*data(job["path"]))
    problem, rule = problems[job["path"]], {"stop": "paper"} if "stop" in DCD.__dataclass_fields__ else {}
    solver = DCD(**job["settings"], **rule)
    start = time.process_time()
    state = solver.init(problem, None, 0)
    while not state.looks_done and state.sweeps < MOST_SWEEPS:
        sweeps = min(10, MOST_SWEEPS - state.sweeps)
        solver.advance(problem, state, Budget(sweeps * max(state.active, 1000), 0.0))
    solver.candidate(problem, state)
    return time.process_time() - start, None

for line in sys.stdin:
    job = json.loads(line)
    print(json.dumps((descend if job["estimator"] == "DCD" else fit)(job)), flush=True)
"""


@dataclass(frozen=True)
class Cell:
    """One fit that both versions make."""

    name: str
    estimator: str
    settings: dict[str, Any]
    path: str

    @property
    def job(self) -> str:
        return json.dumps({"path": self.path, "estimator": self.estimator, "settings": self.settings}) + "\n"


class Version:
    """A process that fits with the sources of one checkout."""

    def __init__(self, checkout: Path, cache: Path) -> None:
        settings = {"PYTHONPATH": str(checkout / "src"), "NUMBA_CACHE_DIR": str(cache)}
        command = [sys.executable, "-c", WORKER]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | settings
        )
        self.checkout = checkout

    def fit(self, cell: Cell) -> float:
        """Processor seconds of one fit; its gap, if it has one, must be within the target."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(cell.job)
        self.process.stdin.flush()
        seconds, gap = json.loads(self.process.stdout.readline())
        if gap is not None and not gap <= cell.settings["tol"]:
            print(f"{self.checkout.name}, {cell.name}: a gap of {gap:.1e} only", flush=True)
        return float(seconds)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def cells(options: argparse.Namespace, folder: Path) -> Iterator[Cell]:
    for name in options.sets:
        path = _save(load(name), folder / f"{name}.npz")
        for C in options.costs:
            for target in TARGETS:
                settings = {"loss": "hinge", "fit_intercept": False, "C": C, "tol": target}
                yield Cell(f"LinearSVC, {name}, C = {C:g}, {target:g}", "LinearSVC", settings, path)
    for named in PROBLEMS:
        if named.name in options.problems:
            yield from _kernel_cells(named, folder)
    for name in options.descents:
        path = _save(load(name), folder / f"{name}.npz")
        for epsilon in EPSILONS:
            yield Cell(f"DCD, {name}, epsilon = {epsilon:g}", "DCD", {"epsilon": epsilon}, path)


def _kernel_cells(named: Named, folder: Path) -> Iterator[Cell]:
    path = _save(named.make(), folder / f"{named.name}.npz".replace("/", "-"))
    for target in TARGETS:
        settings = {"C": named.C, "gamma": named.gamma, "tol": target, "cache_size": 500.0}
        yield Cell(f"SVC, {named}, {target:g}", "SVC", settings, path)


def _save(data: Data, path: Path) -> str:
    X = data.X
    if sparse.issparse(X):
        np.savez(path, values=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=data.y)
    else:
        np.savez(path, X=X, y=data.y)
    return str(path)


def in_turns(before: Version, now: Version, cell: Cell) -> tuple[float, float]:
    """The least processor seconds of each version, after a run of each that may compile."""
    first = max(before.fit(cell), now.fit(cell))
    pairs = [(before.fit(cell), now.fit(cell))]
    for _ in range(next(turns for most, turns in ROUNDS if min(first, *pairs[0]) <= most) - 1):
        pairs.append((before.fit(cell), now.fit(cell)))
    return min(old for old, _ in pairs), min(new for _, new in pairs)


Rows = dict[str, tuple[float, float]]
"""Seconds before and now, by the name of the cell."""


def compare(options: argparse.Namespace) -> Rows:
    """Measure the cells that are asked for, and add what was measured before with the same commits."""
    path = CACHE / "versions" / f"{_commit(options.before)}-{_commit(ROOT)}.json"
    rows: Rows = json.loads(path.read_text()) if path.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        versions = [Version(path, CACHE / f"versions-{k}") for k, path in enumerate((options.before.resolve(), ROOT))]
        for cell in cells(options, Path(folder)):
            old, new = rows[cell.name] = in_turns(versions[0], versions[1], cell)
            print(f"{cell.name}: before {1e3 * old:.1f} ms, now {1e3 * new:.1f} ms, {old / new:.2f}x", flush=True)
            write_text(path, json.dumps(rows))
        for version in versions:
            version.close()
    return rows


def report(options: argparse.Namespace, rows: Rows) -> None:
    table = Table("fit", "before ms", "now ms", "before / now")
    for name, (old, new) in rows.items():
        table.add(name, f"{1e3 * old:.1f}", f"{1e3 * new:.1f}", f"{old / new:.2f}x")
    verdicts = []
    for estimator in ("LinearSVC", "SVC", "DCD"):
        ratios = [old / new for name, (old, new) in rows.items() if name.startswith(estimator)]
        if ratios:
            mean, least = geometric_mean(ratios), min(ratios)
            holds = "holds" if mean >= ASKED_MEAN and least >= ASKED_LEAST else "does not hold"
            verdicts.append(f"- {estimator}: {mean:.2f}x in the geometric mean, {least:.2f}x at least ({holds}).")
    method = (
        f"Before: commit {_commit(options.before)}. Now: commit {_commit(ROOT)}. Whole fits of both in turns; of DCD the "
        "descent alone, until its rule (17) holds or after 300 sweeps. "
        f"Asked: at least {ASKED_MEAN:g}x in the mean and {ASKED_LEAST:g}x in every cell."
    )
    parts = [method, *(["\n".join(verdicts)] if verdicts else []), table]
    title, measured = "This version beside an earlier one", "Processor seconds, the minimum of interleaved repeats."
    write_report(options.results / "versions.md", title, parts, options.quick, measured)


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def own(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, help="a checkout of the earlier version")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--problems", nargs="*", default=KERNELS)
    parser.add_argument("--descents", nargs="*", default=DESCENTS)
    parser.add_argument("--costs", nargs="*", type=float, default=COSTS)


if __name__ == "__main__":
    chosen = arguments(__doc__, own)
    report(chosen, compare(chosen))

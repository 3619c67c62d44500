"""Two regimes that no real set here stands for, generated: one-hot columns, and kernel problems with nearly every sample free.

**One-hot**: 50,000 rows, about 5,000 columns, ten ones a row; squared hinge, no intercept. The peers are LIBLINEAR's Newton
method (-s 2) and its dual coordinate descent (-s 1), both from C, on their own copy of the data, which is not timed.

**Mostly free**: 2,600 x 500 from ``make_classification`` with flipped labels, RBF with the default width and a narrow one,
against scikit-learn-intelex (oneDAL) in float64.

Each peer gets, at no cost to it, the loosest tolerance of a grid that brings its answer within the target, which the
certificate verifies. The residuals of conjugate gradients were chosen on these same one-hot sets (of six choices), so their
rows are no held-out figures.

    python -m benchmarks.regimes
    python -m benchmarks.regimes --only one-hot --costs 100 --results FOLDER     # some cells, and their report elsewhere
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import make_classification

from benchmarks.datasets import Data
from benchmarks.kernel_fit import Peer, our_fit, peers
from benchmarks.kernel_problems import Named
from benchmarks.measure import (
    Table,
    arguments,
    fastest_of,
    interleaved_by_length,
    loosest_tolerance,
    seconds_text,
    write_report,
)
from benchmarks.peers import DUAL_SOLVERS, TRON, Fit, liblinear_fit, liblinear_problem
from maxmargin import LinearSVC
from maxmargin.certificate.kernel import certify_kernel
from maxmargin.certificate.linear import certify
from maxmargin.data.rows import Array
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import SquaredHinge
from maxmargin.solving.driver import solve

TARGETS = (1e-3, 1e-6)
LEVELS = {
    "ten variables of 500 values": ([500] * 10, 0.0),
    "one of 3,600, nine from 500 to 20, values as frequent as 1/k": ([3600, 500, 300, 200, 150, 100, 60, 40, 30, 20], 1.0),
    "3,000, 1,000, eight from 500 to 5, values as frequent as 1/sqrt(k)": ([3000, 1000, 500, 200, 100, 80, 60, 40, 15, 5], 0.5),
}
"""How many values each of ten variables has, and how their frequency falls."""
GRID = tuple(10.0**-k for k in range(1, 11))
LONGEST = 20.0
"""Seconds after which no tighter tolerance of a peer is tried."""
ONE_HOT_COSTS, FREE_COSTS = (1.0, 100.0), (1.0, 10.0, 100.0)
METHODS = {"LIBLINEAR -s 2": TRON, "LIBLINEAR -s 1": DUAL_SOLVERS["squared_hinge"]}


def one_hot(levels: list[int], power: float, n: int) -> Data:
    rng = np.random.default_rng(0)
    columns, first = [], 0
    for size in levels:
        frequency = (1.0 + np.arange(size)) ** -power
        columns.append(first + rng.choice(size, n, p=frequency / frequency.sum()))
        first += size
    indices = np.column_stack(columns).reshape(-1)
    X = sparse.csr_matrix((np.ones(len(indices)), indices, np.arange(0, len(indices) + 1, len(levels))), shape=(n, first))
    y = np.where(X @ rng.normal(size=first) + 2.0 * rng.normal(size=n) > 0.0, 1, -1)
    return Data(X, y)


class Ours(NamedTuple):
    seconds: float
    is_certified: bool


def our_linear_fit(data: Data, C: float, target: float) -> Ours:
    model = LinearSVC(C=C, tol=target, fit_intercept=False)
    start = time.perf_counter()
    model.fit(data.X, data.y)
    return Ours(time.perf_counter() - start, model.relative_gap_ <= model.tol)


def one_hot_table(n: int, costs: list[float] | None) -> Table:
    table = Table("variables", "C", "target", "ours", *METHODS, numbers_from=1)
    for name, (levels, power) in LEVELS.items():
        data = one_hot(levels, power, n)
        prepared = liblinear_problem(data)
        for C in costs or ONE_HOT_COSTS:
            problem = LinearProblem.build(data.X, data.y, C, SquaredHinge())
            reference = solve(problem, tol=1e-9).alpha
            for target in TARGETS:
                table.add(name, f"{C:g}", f"{target:g}", *_one_hot_row(data, prepared, problem, reference, C, target))
    return table


def _one_hot_row(data: Data, prepared: object, problem: LinearProblem, alpha: Array, C: float, target: float) -> list[str]:
    def excess(fit: Fit) -> float:
        return certify(problem, fit.w, alpha).relative_gap

    contestants: dict[str, Callable[[], Ours | Fit]] = {"ours": lambda: our_linear_fit(data, C, target)}
    for name, solver in METHODS.items():

        def run(tolerance: float, solver: int = solver) -> Fit:
            return liblinear_fit(prepared, C, solver, tolerance)  # type: ignore[arg-type]

        found = loosest_tolerance(run, excess, target, GRID, LONGEST).found
        if found is not None:
            contestants[name] = lambda run=run, found=found: run(found.tolerance)  # type: ignore[misc]
    runs = {name: fastest_of(found) for name, found in interleaved_by_length(contestants).items()}
    ours = runs["ours"]
    assert isinstance(ours, Ours)
    cells = [f"{seconds_text(ours.seconds)} {'' if ours.is_certified else '(not certified)'}".strip()]
    for name in METHODS:
        seconds = runs[name].seconds if name in runs else math.inf
        cells.append(f"{seconds_text(seconds)} ({seconds / ours.seconds:.1f}x)" if name in runs else "never")
    return cells


def mostly_free_table(n: int, costs: list[float] | None) -> Table:
    peer = peers().get("oneDAL f64")
    table = Table("labels flipped", "gamma", "C", "target", "free", "ours", "oneDAL f64", "ratio", numbers_from=3)
    for flipped in (0.1, 0.3):
        X, y = make_classification(n, 500, n_informative=20, flip_y=flipped, random_state=1)
        data = Data(X, np.where(y > 0, 1, -1))
        scale = 1.0 / (X.shape[1] * X.var())
        for gamma, width in ((scale, "scale"), (5.0 * scale, "5 scale")):
            for C in costs or FREE_COSTS:
                problem = KernelProblem.build(data.X, data.y, C, RBF(gamma))
                alpha = solve(problem, tol=1e-6).alpha
                free = np.mean((alpha > 0.0) & (alpha < C))
                for target in TARGETS:
                    cells = _mostly_free_row(Named(width, gamma, C, partial(Data, data.X, data.y)), data, problem, peer, target)
                    table.add(f"{flipped:.0%}", width, f"{C:g}", f"{target:g}", f"{free:.0%}", *cells)
    return table


def _mostly_free_row(named: Named, data: Data, problem: KernelProblem, peer: Peer | None, target: float) -> list[str]:
    tolerance = _tolerance_of(peer, named, data, problem, target) if peer else None
    contestants = {"ours": lambda: our_fit(named, data, target)}
    if peer is not None and tolerance is not None:
        contestants["peer"] = lambda: peer.fit(named, data, tolerance)
    seconds = {name: fastest_of(runs).seconds for name, runs in interleaved_by_length(contestants).items()}
    if "peer" not in seconds:
        return [seconds_text(seconds["ours"]), "never", ""]
    return [seconds_text(seconds["ours"]), seconds_text(seconds["peer"]), f"{seconds['peer'] / seconds['ours']:.2f}x"]


def _tolerance_of(peer: Peer, named: Named, data: Data, problem: KernelProblem, target: float) -> float | None:
    """The loosest that brings the peer within the target."""
    for tolerance in GRID:
        fit = peer.fit(named, data, tolerance)
        gap = certify_kernel(problem, fit.alpha).certificate.relative_gap
        if math.isfinite(gap) and gap <= target:
            return tolerance
        if fit.seconds > LONGEST:
            break
    return None


TABLES = {
    "one-hot": ("## One-hot columns, squared hinge", one_hot_table, 50_000, 5000),
    "mostly-free": ("## Nearly every sample free, RBF kernel", mostly_free_table, 2600, 600),
}
"""Title, what makes the table, and its rows, usual and with ``--quick``."""


def _own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=TABLES, help="one of the two tables")
    parser.add_argument("--costs", nargs="+", type=float, help="these values of C alone")


def main() -> None:
    options = arguments(__doc__, _own_options)
    warnings.simplefilter("ignore")
    parts: list[object] = [
        "Generated problems; a peer's column has its seconds and, in brackets, how many times ours that is. «never»: no "
        "tolerance down to 1e-10 brought it within the target, or a run took more than twenty seconds before one did.",
    ]
    for name, (heading, table, n, n_quick) in TABLES.items():
        if options.only in (None, name):
            parts += [heading, table(n_quick if options.quick else n, options.costs)]
    title = "Generated regimes: one-hot columns, mostly free kernel problems"
    write_report(options.results / "regimes.md", title, parts, options.quick)


if __name__ == "__main__":
    main()

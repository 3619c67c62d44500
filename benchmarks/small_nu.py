"""``NuSVC``, ``NuSVR`` and ``OneClassSVM`` on small tables beside scikit-learn's, both at their default settings.

Each table is fitted as it comes and with standardised columns. A nu that is infeasible for some pair of classes is left out.
The tables are in two halves by name. Rules and constants of maxmargin may be chosen on those of ``TUNED_ON``; those of
``KEPT_OUT`` are for looking at the outcome. *gap* is the relative gap of scikit-learn's answer, that of its worst pair of
classes, by our certificate: its default tolerance limits something else, and its answers can be far from the optimum.

    python -m benchmarks.small_nu [--set iris] [--model NuSVC] [--kernel rbf]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import sklearn.svm
from sklearn import datasets

import maxmargin
from benchmarks.measure import Table, arguments, fastest_of, geometric_mean, interleaved_by_length, provenance, write_report
from benchmarks.small_kernels import Samples, copies, file_rows, with_columns
from maxmargin.certificate.nu import certify_nu
from maxmargin.data.rows import Array
from maxmargin.estimators.pairs import Pair, pair_weights
from maxmargin.problem.nu import NuProblem, largest_nu, nu_svc, nu_svr, one_class
from maxmargin.solving.solution import Status

CAP_SECONDS = 10.0
"""The limit of one fit of ours."""
LIBSVM_WORK = 150_000_000
"""The limit of scikit-learn's fits, in iterations times rows; it has none by default."""
SHARES = (0.05, 0.2, 0.5)
KERNELS = ("linear", "poly", "rbf")
MODELS = ("NuSVC", "NuSVR", "OneClassSVM")


def _generated(n: int, d: int, n_classes: int, seed: int) -> Callable[[], Samples]:
    """Columns of scales from 0.01 to 100, away from zero."""

    def make() -> Samples:
        X, y = datasets.make_classification(n, d, n_informative=d // 2, n_classes=n_classes, flip_y=0.05, random_state=seed)
        random = np.random.default_rng(seed)
        return Samples((X + random.normal(size=d)) * 10.0 ** random.uniform(-2.0, 2.0, d), y)

    return make


TUNED_ON = {
    "iris": copies(datasets.load_iris, 1),
    "wine": copies(datasets.load_wine, 1),
    "breast cancer": copies(datasets.load_breast_cancer, 1),
    "digits": copies(datasets.load_digits, 1),
    "generated 100": _generated(100, 10, 2, 0),
    "generated 400": _generated(400, 12, 3, 1),
}
KEPT_OUT = {
    "diabetes": copies(datasets.load_diabetes, 1),
    "pima": file_rows("pima", 8, 768),
    "splice": file_rows("splice", 287, 1000),
    "generated 150": _generated(150, 20, 2, 2),
    "generated 800": _generated(800, 8, 4, 3),
}
HALVES = {"tuned on": TUNED_ON, "kept out": KEPT_OUT}
TABLES = TUNED_ON | KEPT_OUT


@cache
def load(name: str, is_scaled: bool) -> Samples:
    return with_columns(TABLES[name](), is_scaled)


class Cell(NamedTuple):
    table: str
    is_scaled: bool
    model: str
    kernel: str
    nu: float

    @property
    def data(self) -> tuple[Array, ...]:
        """What is fitted. A regression predicts the first column from the others, unless the table is one of a regression."""
        X, y = load(self.table, self.is_scaled)
        if self.model == "NuSVR" and self.table != "diabetes":
            return X[:, 1:], X[:, 0].copy()
        return (X,) if self.model == "OneClassSVM" else (X, y)

    @property
    def settings(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "nu": self.nu}


class Row(NamedTuple):
    cell: Cell
    status: Status
    seconds: float
    peer_seconds: float
    peer_gap: float

    @property
    def ratio(self) -> float:
        return self.peer_seconds / self.seconds


class Fit(NamedTuple):
    seconds: float
    model: Any


def timed(make: Callable[[], Any], data: tuple[Array, ...]) -> Fit:
    model = make()
    start = time.process_time()
    model.fit(*data)
    return Fit(time.process_time() - start, model)


def is_feasible(cell: Cell) -> bool:
    if cell.model != "NuSVC":
        return True
    codes = np.unique(cell.data[1], return_inverse=True)[1]
    counts = np.bincount(codes)
    return (
        cell.table != "diabetes"
        and min(largest_nu(np.repeat([1, -1], [a, b]), np.ones(a + b)) for a in counts for b in counts) >= cell.nu
    )


def measured(cell: Cell) -> Row:
    data = cell.data
    most = LIBSVM_WORK // len(data[0])
    contestants = {
        "ours": lambda: timed(lambda: getattr(maxmargin, cell.model)(max_seconds=CAP_SECONDS, **cell.settings), data),
        "peer": lambda: timed(lambda: getattr(sklearn.svm, cell.model)(max_iter=most, **cell.settings), data),
    }
    contestants["ours"]()
    runs = interleaved_by_length(contestants, 5)
    ours, peer = fastest_of(runs["ours"]), fastest_of(runs["peer"])
    found = ours.model.status_ if isinstance(ours.model.status_, list) else [ours.model.status_]
    worst = max(found, key=list(Status).index)
    return Row(cell, worst, ours.seconds, peer.seconds, max(gaps(cell, ours.model, peer.model)))


def gaps(cell: Cell, ours: Any, peer: Any) -> Iterator[float]:
    """The relative gap of each machine of scikit-learn's answer."""
    kernel, dual = ours._kernel(cell.data[0], None), np.abs(peer.dual_coef_)
    if cell.model == "OneClassSVM":
        yield _gap(one_class(cell.data[0], kernel, cell.nu), peer.support_, dual[0])
    elif cell.model == "NuSVR":
        n, beta = len(cell.data[0]), np.zeros(len(cell.data[0]))
        beta[peer.support_] = peer.dual_coef_[0]
        alpha = np.concatenate([np.maximum(beta, 0.0), np.maximum(-beta, 0.0)])
        X, y = cell.data
        yield _gap(nu_svr(X, y, kernel, cell.nu), np.arange(2 * n), alpha)
    else:
        codes = np.unique(cell.data[1], return_inverse=True)[1]
        weights = np.abs(pair_weights(peer.dual_coef_, peer.n_support_))
        for pair, own in zip(Pair.all_of(codes), weights.T, strict=True):
            alpha = np.zeros(len(codes))
            alpha[peer.support_] = own
            alpha, total = alpha[pair.samples], own.sum()
            problem = nu_svc(cell.data[0][pair.samples], pair.signs, kernel, cell.nu)
            yield _gap(problem, np.arange(len(alpha)), alpha * (cell.nu * len(alpha) / total if total else 1.0))


def _gap(problem: NuProblem, places: Array, alpha: Array) -> float:
    whole = np.zeros(problem.n_samples)
    whole[places] = alpha
    return float(certify_nu(problem, problem.nearest_feasible(whole)).certificate.relative_gap)


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    for table in options.set or TABLES:
        for is_scaled in (True, False):
            for model in options.model or MODELS:
                for kernel in options.kernel or KERNELS:
                    own = [Cell(table, is_scaled, model, kernel, nu) for nu in SHARES]
                    yield from filter(is_feasible, own)


def texts_of(row: Row) -> tuple[str, ...]:
    n, d = row.cell.data[0].shape
    ended = row.status.name if row.status.is_within_tol else f"**{row.status.name}**"
    ratio = f"{row.ratio:.2f}x"
    return (
        *(row.cell.table, f"{n} x {d}", "standardised" if row.cell.is_scaled else "raw", row.cell.model, row.cell.kernel),
        *(f"{row.cell.nu:g}", ended, f"{1e3 * row.seconds:.2f}", f"{1e3 * row.peer_seconds:.2f}", f"{row.peer_gap:.0e}"),
        ratio if row.ratio >= 1.0 else f"**{ratio}**",
    )


def summary(rows: list[Row]) -> Table:
    table = Table("model", "kernel", "cells", "within tol", "at least 1x", "mean", "least")
    for model in MODELS:
        for kernel in KERNELS:
            own = [row for row in rows if row.cell.model == model and row.cell.kernel == kernel]
            if own:
                ratios, within = [row.ratio for row in own], sum(row.status.is_within_tol for row in own)
                fast = sum(ratio >= 1.0 for ratio in ratios)
                table.add(model, kernel, len(own), within, fast, f"{geometric_mean(ratios):.2f}x", f"{min(ratios):.2f}x")
    return table


NOTES = (
    "Whole `fit` calls at default settings, compilation excluded; processor milliseconds of all threads, the least of up to "
    f"five runs in turns. Each of our fits has a limit of {CAP_SECONDS:g} s. scikit-learn has no limit by default; here it has "
    f"one of {LIBSVM_WORK:,} iterations times rows. *ratio* is scikit-learn's time over ours."
)


def main() -> None:
    def own(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--set", nargs="+", choices=TABLES, metavar="NAME", help="these tables alone")
        parser.add_argument("--model", nargs="+", choices=MODELS, metavar="NAME", help="these models alone")
        parser.add_argument("--kernel", nargs="+", choices=KERNELS, metavar="NAME", help="these kernels alone")
        parser.add_argument("--note", help="how the run was made, for the report")

    options = arguments(__doc__, own)
    warnings.simplefilter("ignore")
    names = ("table", "rows x columns", "columns", "model", "kernel", "nu", "ended", "ms", "scikit-learn", "gap", "ratio")
    whole, rows = Table(*names), []
    for cell in cells(options):
        rows.append(measured(cell))
        whole.add(*texts_of(rows[-1]))
    parts: list[object] = [provenance(options.note), (__doc__ or "").partition("\n\n    python")[0], NOTES]
    for half, tables in HALVES.items():
        chosen = [row for row in rows if row.cell.table in tables]
        if chosen:
            parts += [f"## {half.capitalize()}", summary(chosen)]
    write_report(options.results / "small_nu.md", "Small fits with nu beside scikit-learn", [*parts, whole], options.quick)


if __name__ == "__main__":
    main()

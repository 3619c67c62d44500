"""Whole fits of LinearOneClassSVM to a certified gap of 1e-3 and 1e-6 against LIBLINEAR -s 21.

LIBLINEAR gets the loosest tolerance on a grid that brings its primal value, with the best rho for its w, within the target of
the optimum, found beforehand and at no cost to it. Of ours a whole ``fit`` is timed, from X to the model: the checks of X, the
certificate and the bound on rho included. There are two ratios, because the work is not the same. "Training" compares with
LIBLINEAR's function ``train`` alone, for which X is already in its own structures. "Whole call" adds what a user of its Python
package pays to get there from the same X: ``problem(y, X)`` of a CSR matrix, and for a dense array ``csr_matrix(X)`` before
it. That is the fastest way which the package offers: it converts dense rows one by one in Python. ``NAME/scaled`` is a set
whose columns are divided by their deviations (centred columns have the answer w = 0). ``generated`` is 200,000 x 50 normal
numbers around 1. Small are the sets with at most a million stored elements. The column "one pass" is the time of one
certificate: the outputs of all samples, w(alpha), and the bound on the rounding of both. Every row is kept in
``.cache/one_class`` by the hash of maxmargin's sources, so that a run resumes. The tolerances of LIBLINEAR are kept beside
them: they do not depend on these sources.

    python -m benchmarks.one_class --only tolerances                # LIBLINEAR's tolerances, for a machine that is busy
    python -m benchmarks.one_class --processor-time --seconds 100   # again and again, until all rows are there
    python -m benchmarks.one_class --sets a9a ijcnn1
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from liblinear.liblinear import problem
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import CACHE, Data, load, load_classes, load_raw, write_text
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
from benchmarks.regression_peers import Clock, OneClassFit, Prepared, liblinear_one_class
from maxmargin import LinearOneClassSVM, LinearProblem, one_class_problem, solve
from maxmargin.certificate.linear import judge_of
from maxmargin.problem.offset import best_offsets

SPARSE, TEXT, DENSE = (
    ("a9a", "w7a", "ijcnn1", "covtype.binary.scale", "mnist", "news20_bigram"),
    ("sector.scale",),
    ("cal_housing", "cpu_act", "magic"),
)
SETS = (
    *DENSE,
    "cal_housing/scaled",
    "cpu_act/scaled",
    "magic/scaled",
    "a9a",
    "w7a",
    "ijcnn1",
    "sector.scale",
    "covtype.binary.scale",
    "covtype.binary.scale/scaled",
    "mnist",
    "mnist/scaled",
    "news20_bigram",
    "generated",
)
SMALL = 1_000_000
"""Stored elements of X up to which a set is small."""
GENERATED = (200_000, 50)
FOLDER = CACHE / "one_class"
SHARES = (0.01, 0.1, 0.5)
TARGETS = (1e-3, 1e-6)
REFERENCE = 1e-8
TOLERANCES = tuple(10.0 ** (1.0 - 0.5 * k) for k in range(29))
"""From 10 to 1e-13: LIBLINEAR's tolerance is a difference of gradients, which has no scale of its own."""
MOST_SECONDS, MOST_PEER_SECONDS = 60.0, 5.0


class Fitted(NamedTuple):
    seconds: float
    model: Any


@lru_cache(maxsize=1)
def loaded(name: str) -> Data:
    if name.endswith("/scaled"):
        X = loaded(name.removesuffix("/scaled")).X
        scaled = StandardScaler(with_mean=False).fit_transform(X)
        return Data(scaled.tocsr() if sparse.issparse(scaled) else np.ascontiguousarray(scaled), np.ones(X.shape[0]))
    if name == "generated":
        return Data(np.random.default_rng(0).normal(1.0, 1.0, GENERATED), np.ones(GENERATED[0]))
    return load_raw(name) if name in DENSE else load_classes(name) if name in TEXT else load(name)


@lru_cache(maxsize=1)
def prepared_for(name: str) -> Prepared:
    """LIBLINEAR's copy of a set."""
    X = loaded(name).X
    return Prepared.of(Data(X, np.ones(X.shape[0])), -1.0)


@lru_cache(maxsize=1)
def conversion_seconds(name: str) -> float:
    """The fastest of three conversions of X to LIBLINEAR's structures."""
    X, times = loaded(name).X, []
    problem(np.ones(2), sparse.csr_matrix(X[:2]))  # compiles the package's own loop
    for _ in range(3):
        start = Clock.now()
        problem(np.ones(X.shape[0]), sparse.csr_matrix(X))
        times.append(Clock.now() - start)
    return min(times)


class Row(NamedTuple):
    """Seconds of both, of one certificate, and of LIBLINEAR's copy of X. LIBLINEAR's are infinite where it does not get there,
    and ``says`` tells why."""

    elements: int
    gap: float
    is_certified: bool
    ours: float
    theirs: float
    a_pass: float
    says: str
    conversion: float

    @property
    def training_ratio(self) -> float:
        return self.theirs / self.ours

    @property
    def call_ratio(self) -> float:
        return (self.theirs + self.conversion) / self.ours


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


def pass_seconds(problem: LinearProblem, target: float) -> float:
    """The fastest of three certificates of an answer."""
    answer, judge, times = solve(problem, tol=target), judge_of(problem), []
    for _ in range(3):
        start = Clock.now()
        judge.certify(answer.w, answer.alpha)
        times.append(Clock.now() - start)
    return min(times)


class Peer(NamedTuple):
    """The tolerance with which LIBLINEAR gets to a target; or none, and why not."""

    tolerance: float | None
    says: str


def peer_of(name: str, nu: float, target: float) -> Peer:
    """From an earlier search, if there was one."""
    path = FOLDER / "tolerances" / file_name(name, nu, target)
    if not path.exists():
        write_text(path, json.dumps(searched(name, nu, target)))
    return Peer(*json.loads(path.read_text()))


def searched(name: str, nu: float, target: float) -> Peer:
    problem = one_class_problem(loaded(name).X, nu)
    best = solve(problem, tol=REFERENCE, max_seconds=MOST_SECONDS).certificate.dual
    if best == 0.0:
        return Peer(None, "w = 0 is optimal")
    train, far = partial(liblinear_one_class, prepared_for(name), nu), partial(excess, problem, best)
    search = loosest_tolerance(train, far, target, TOLERANCES, max_seconds=MOST_PEER_SECONDS)
    if search.found is None:
        return Peer(None, f"{search.ended}, within {search.best.excess:.1e}")
    return Peer(search.found.tolerance, "")


def measured(name: str, nu: float, target: float) -> Row:
    data, peer = loaded(name), peer_of(name, nu, target)
    first = our_fit(data.X, nu, target)
    contestants: dict[str, Any] = {"ours": partial(our_fit, data.X, nu, target)}
    if peer.tolerance is not None:
        contestants["theirs"] = partial(liblinear_one_class, prepared_for(name), nu, peer.tolerance)
    runs = {key: fastest_of(fits).seconds for key, fits in interleaved_by_length(contestants).items()}
    elements = int(data.X.nnz if sparse.issparse(data.X) else data.X.size)
    found = float(first.model.relative_gap_), bool(first.model.status_.is_certified)
    a_pass = pass_seconds(one_class_problem(data.X, nu), target)
    return Row(elements, *found, runs["ours"], runs.get("theirs", math.inf), a_pass, peer.says, conversion_seconds(name))


def file_name(name: str, nu: float, target: float) -> str:
    return f"{name.replace('/', '-')}-{nu:g}-{target:g}.json"


def row_of(name: str, nu: float, target: float, folder: Path) -> Row:
    """From an earlier run of the same sources, if there is one."""
    path = folder / file_name(name, nu, target)
    if not path.exists():
        write_text(path, json.dumps(measured(name, nu, target)))
    return Row(*json.loads(path.read_text()))


def add_row(table: Table, name: str, nu: float, target: float, row: Row) -> None:
    ratios = (row.says, "") if row.says else (f"{row.training_ratio:.2f}", f"{row.call_ratio:.2f}")
    gap = f"{row.gap:.1e}{'' if row.is_certified else ' (not certified)'}"
    theirs = seconds_text(row.theirs) if math.isfinite(row.theirs) else "-"
    a_pass = seconds_text(row.a_pass) if math.isfinite(row.a_pass) else "-"
    copied = seconds_text(row.conversion)
    table.add(name, f"{nu:g}", f"{target:.0e}", gap, seconds_text(row.ours), theirs, copied, *ratios, a_pass)


def summary(rows: list[Row]) -> str:
    """Means over the small sets, the others, and all, of both ratios."""
    reached = [row for row in rows if math.isfinite(row.theirs)]
    groups = {
        "small sets": [row for row in reached if row.elements <= SMALL],
        "large sets": [row for row in reached if row.elements > SMALL],
        "all sets": reached,
    }
    words = [
        f"- {kind}: " + "; ".join(_mean_of(name, [ratio(row) for row in some]) for name, some in groups.items() if some)
        for kind, ratio in (("training", lambda row: row.training_ratio), ("whole call", lambda row: row.call_ratio))
    ]
    return "\n".join(["Where LIBLINEAR gets to the target it takes so many times as long as maxmargin.", "", *words])


def _mean_of(name: str, ratios: list[float]) -> str:
    return f"{name} {geometric_mean(ratios):.2f} in the geometric mean of {len(ratios)} rows, at the least {min(ratios):.2f}"


def main() -> None:
    def own(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sets", nargs="+", default=list(SETS))
        parser.add_argument("--only", choices=["tolerances"], help="LIBLINEAR's tolerances, without a report")
        parser.add_argument("--processor-time", action="store_true", help="seconds of the processor, for a busy machine")
        parser.add_argument("--note", default="", help="how it was run: a sentence for the head of the table")
        parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further row after this")

    options, begun = arguments(__doc__, own), time.perf_counter()
    if options.processor_time:
        Clock.use_processor_time()
    first = "set", "nu", "target", "proved gap", "maxmargin [s]", "LIBLINEAR -s 21 [s]"
    columns = *first, "its copy of X [s]", "training", "whole call", "one pass [s]"
    table, rows, folder = Table(*columns, numbers_from=1), [], FOLDER / digest_of_sources()
    for name, nu, target in product(options.sets[:1] if options.quick else options.sets, SHARES, TARGETS):
        if options.only:
            print(name, nu, target, peer_of(name, nu, target), flush=True)
        elif time.perf_counter() - begun < options.seconds:
            rows.append(row_of(name, nu, target, folder))
            add_row(table, name, nu, target, rows[-1])
    if options.only:
        return
    clock = "**In seconds of the processor, all threads together.**" if options.processor_time else ""
    chosen = (
        "Sizes of samples and working sets were chosen on magic, cpu_act, a9a, ijcnn1, sector.scale and mnist. Fixed costs "
        "were looked at on cal_housing, the copies of short rows on covtype, and refused certificates on w7a "
        "and news20_bigram, too. The gap of the first sample was chosen on mnist, ijcnn1, a9a, w7a and magic, the width of the "
        "band in large sets on covtype."
    )
    parts = [__doc__.partition("\n\n    python")[0], " ".join([clock, options.note]), table, summary(rows), chosen]
    write_report(options.results / "one_class.md", "Linear one-class support vector machine", parts, options.quick)


if __name__ == "__main__":
    main()

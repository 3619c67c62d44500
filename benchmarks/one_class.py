"""Whole fits of LinearOneClassSVM to a certified gap of 1e-3 and 1e-6 against LIBLINEAR -s 21.

LIBLINEAR gets the loosest tolerance on a grid that brings its primal value, with the best rho for its w, within the target of
the optimum, found beforehand and at no cost to it; only its training is timed. Of ours a whole ``fit`` is timed: the checks of
X, the certificate and the bound on rho included. ``NAME/scaled`` is a set whose columns are divided by their deviations
(centred columns have the answer w = 0). ``generated`` is 200,000 x 50 normal numbers around 1. Small are the sets with at most
a million stored elements. The column "one pass" is the time of one certificate: the outputs of all samples, w(alpha), and the
bound on the rounding of both. Every row is kept in ``.cache/one_class`` by the hash of maxmargin's sources, so that a run
resumes. The tolerances of LIBLINEAR are kept beside them: they do not depend on these sources.

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


class Row(NamedTuple):
    """Seconds of both and of one certificate. LIBLINEAR's are infinite where it does not get there, and ``says`` tells why."""

    elements: int
    gap: float
    is_certified: bool
    ours: float
    theirs: float
    a_pass: float
    says: str


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
    return Row(elements, *found, runs["ours"], runs.get("theirs", math.inf), a_pass, peer.says)


def file_name(name: str, nu: float, target: float) -> str:
    return f"{name.replace('/', '-')}-{nu:g}-{target:g}.json"


def row_of(name: str, nu: float, target: float, folder: Path) -> Row:
    """From an earlier run of the same sources, if there is one."""
    path = folder / file_name(name, nu, target)
    if not path.exists():
        write_text(path, json.dumps(measured(name, nu, target)))
    return Row(*json.loads(path.read_text()))


def add_row(table: Table, name: str, nu: float, target: float, row: Row) -> None:
    ratio = row.says or f"{row.theirs / row.ours:.2f}"
    gap = f"{row.gap:.1e}{'' if row.is_certified else ' (not certified)'}"
    theirs = seconds_text(row.theirs) if math.isfinite(row.theirs) else "-"
    a_pass = seconds_text(row.a_pass) if math.isfinite(row.a_pass) else "-"
    table.add(name, f"{nu:g}", f"{target:.0e}", gap, seconds_text(row.ours), theirs, ratio, a_pass)


def summary(rows: list[Row]) -> str:
    """Means over the small sets, the others, and all."""
    ratios = {
        "small sets": [row.theirs / row.ours for row in rows if row.elements <= SMALL and math.isfinite(row.theirs)],
        "large sets": [row.theirs / row.ours for row in rows if row.elements > SMALL and math.isfinite(row.theirs)],
    }
    ratios["all sets"] = [ratio for some in ratios.values() for ratio in some]
    words = [
        f"{name} {geometric_mean(some):.2f} times in the geometric mean of {len(some)} rows, at the least {min(some):.2f} times"
        for name, some in ratios.items()
        if some
    ]
    return "Where LIBLINEAR gets to the target it takes so many times as long as maxmargin: " + "; ".join(words) + "."


def main() -> None:
    def own(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sets", nargs="+", default=list(SETS))
        parser.add_argument("--only", choices=["tolerances"], help="LIBLINEAR's tolerances, without a report")
        parser.add_argument("--processor-time", action="store_true", help="seconds of the processor, for a busy machine")
        parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further row after this")

    options, begun = arguments(__doc__, own), time.perf_counter()
    if options.processor_time:
        Clock.use_processor_time()
    columns = "set", "nu", "target", "proved gap", "maxmargin [s]", "LIBLINEAR -s 21 [s]", "ratio", "one pass [s]"
    table, rows, folder = Table(*columns, numbers_from=1), [], FOLDER / digest_of_sources()
    for name, nu, target in product(options.sets[:1] if options.quick else options.sets, SHARES, TARGETS):
        if options.only:
            print(name, nu, target, peer_of(name, nu, target), flush=True)
        elif time.perf_counter() - begun < options.seconds:
            rows.append(row_of(name, nu, target, folder))
            add_row(table, name, nu, target, rows[-1])
    if options.only:
        return
    clock = "**Pinned to one core ahead of other work, in seconds of the processor, all threads together.**"
    chosen = "Sizes of samples and working sets were chosen on magic, cpu_act, a9a, ijcnn1, sector.scale and mnist."
    parts = [__doc__.partition("\n\n    python")[0], clock if options.processor_time else "", table, summary(rows), chosen]
    write_report(options.results / "one_class.md", "Linear one-class support vector machine", parts, options.quick)


if __name__ == "__main__":
    main()

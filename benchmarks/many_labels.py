"""Whole fits with many classes or labels against scikit-learn's OneVsRestClassifier(LinearSVC), each with one thread.

``sector`` has 105 classes. The labels of ``news20_bigram`` are made: whether a row has one of some frequent
columns (``--labels``), on the 50,000 columns that occur most often, without these.
scikit-learn runs at its own tolerance of 1e-4. Its gaps are certified after: with its w, and the alpha that answers it, scaled
to the best dual value along its line. Ours is asked for the greatest of these gaps, so that no label of ours is further from
its optimum than scikit-learn's furthest; once more at 1e-3. Both are given every k-th label, ``--part`` of them. A whole fit of
each kind is made before anything is timed, so that no compilation is in a figure; the least of ``--runs`` counts, in turns.

``--whole`` fits all labels with two threads each, at 1e-3 and at ``--tol``, and writes a table of its own; ``--peer`` fits all
with scikit-learn too.

    python -m benchmarks.many_labels [--labels 500] [--part 20] [--runs 2] [--sets sector.scale]
    python -m benchmarks.many_labels --whole [--tol 2e-6] [--peer]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC as ScikitLearns

from benchmarks.datasets import load, load_classes
from benchmarks.measure import Table, arguments, seconds_text, write_report
from maxmargin import LinearProblem, LinearSVC, SquaredHinge, certify

SETS = ("sector.scale", "news20_bigram")


class Labelled(NamedTuple):
    X: Any
    y: Any


def keyword_labels(n_labels: int) -> Labelled:
    """Rows of news20_bigram, and an indicator of frequent columns, which are taken out of X."""
    X = load("news20_bigram").X
    order = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")[:50_000]
    columns = X.tocsc()
    Y = (columns[:, order[500 : 500 + n_labels]].toarray() > 0.0).astype(np.int8)
    rest = np.concatenate([order[:500], order[500 + n_labels :]])
    return Labelled(columns[:, np.sort(rest)].tocsr(), Y)


def subset(data: Labelled, most: int) -> Labelled:
    """Every k-th label, from the most to the least frequent; all classes of a y that is no indicator."""
    if data.y.ndim == 1 or data.y.shape[1] <= most:
        return data
    return Labelled(data.X, np.ascontiguousarray(data.y[:, :: data.y.shape[1] // most]))


def seconds_of_fit(model: Any, data: Labelled, clock: Callable[[], float] = time.process_time) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = clock()
        model.fit(data.X, data.y)
        return clock() - start


def certified_gap(X: Any, y: Any, coef: Any, intercept: float) -> float:
    """The relative gap of one of scikit-learn's models, with the alpha that answers it: 2 C (1 - m)_+, scaled."""
    problem = LinearProblem.build(X, np.where(y, 1, -1), 1.0, SquaredHinge(), 1.0)
    w = np.append(coef, intercept)
    alpha = 2.0 * np.maximum(0.0, 1.0 - problem.margins(w))
    v = problem.weights(alpha)
    share = float(alpha.sum()) / (float(v @ v) + float(np.square(alpha) @ problem.box.D))
    return certify(problem, w, share * alpha).relative_gap


def gaps_of(model: Any, data: Labelled) -> Any:
    """Of every problem of a OneVsRestClassifier."""
    columns = [data.y == label for label in model.classes_] if data.y.ndim == 1 else list(data.y.T == 1)
    pairs = zip(columns, model.estimators_, strict=True)
    return np.array([certified_gap(data.X, y, fit.coef_[0], float(fit.intercept_[0])) for y, fit in pairs])


def own(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--labels", type=int, default=500)
    parser.add_argument("--part", type=int, default=20, help="labels that are fitted")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--whole", action="store_true", help="all labels, with two threads")
    parser.add_argument("--tol", type=float, default=2e-6, help="the second gap asked for with --whole")
    parser.add_argument("--peer", action="store_true", help="all labels with scikit-learn, with two processes")


def line_of(name: str, data: Labelled, runs: int) -> list[Any]:
    """One line of the table."""
    theirs = OneVsRestClassifier(ScikitLearns(random_state=0))
    seconds = [seconds_of_fit(theirs, data)]
    gaps = gaps_of(theirs, data)
    close, rough = LinearSVC(tol=float(gaps.max())), LinearSVC(tol=1e-3)
    seconds_of_fit(close, data)  # compiles what this size needs
    ours, roughly = [seconds_of_fit(close, data)], [seconds_of_fit(rough, data)]
    for _ in range(runs - 1):
        seconds.append(seconds_of_fit(theirs, data))
        ours.append(seconds_of_fit(close, data))
        roughly.append(seconds_of_fit(rough, data))
    assert close.relative_gap_ <= gaps.max(), "not certified"
    median, greatest, ratio = f"{np.median(gaps):.0e}", f"{gaps.max():.0e}", f"{min(seconds) / min(ours):.2f}x"
    shown = [seconds_text(min(times)) for times in (seconds, ours, roughly)]
    return [name, len(close.coef_), shown[0], median, greatest, shown[1], ratio, shown[2]]


def table_of_parts(options: argparse.Namespace) -> Table:
    table = Table(
        "set", "problems", "scikit-learn, s", "its gap, median", "greatest", "ours to that, s", "ratio", "ours to 1e-3, s"
    )
    for name in options.sets:
        if name == "sector.scale":
            table.add(*line_of(name, Labelled(*load_classes(name)), options.runs))
            continue
        labels = keyword_labels(10 if options.quick else options.labels)
        part = subset(labels, 5 if options.quick else options.part)
        table.add(*line_of(f"{name}, {part.y.shape[1]} of {labels.y.shape[1]} labels", part, options.runs))
    return table


def table_of_all(options: argparse.Namespace) -> Table:
    """All labels, each fit once, with two threads or processes: wall-clock seconds, and those of the processors of ours."""
    data = keyword_labels(10 if options.quick else options.labels)
    LinearSVC(tol=1e-3).fit(data.X, data.y[:, :2])  # compiles
    table = Table("fit", "labels", "wall, s", "processors, s", "greatest gap", "certified")
    for tol in (1e-3, options.tol):
        model, begun = LinearSVC(tol=tol, n_jobs=2), time.process_time()
        wall = seconds_of_fit(model, data, time.perf_counter)
        statuses = model.status_ if isinstance(model.status_, list) else [model.status_]
        certified = sum(status.is_certified for status in statuses)
        cells = (seconds_text(wall), seconds_text(time.process_time() - begun), f"{model.relative_gap_:.0e}", certified)
        table.add(f"ours, {tol:g}", len(model.coef_), *cells)
    if options.peer:
        theirs = OneVsRestClassifier(ScikitLearns(random_state=0), n_jobs=2)
        wall = seconds_of_fit(theirs, data, time.perf_counter)
        table.add("scikit-learn", data.y.shape[1], seconds_text(wall), "-", f"{gaps_of(theirs, data).max():.0e}", "-")
    return table


def main() -> None:
    options = arguments(__doc__, own)
    about = (__doc__ or "").split("\n\n")
    if options.whole:
        measured = "Each fit once, with two threads: wall-clock seconds depend on what else runs."
        table, name, title = table_of_all(options), "many_labels_whole.md", "Five hundred labels"
        write_report(options.results / name, title, [about[1], about[2], table], options.quick, measured)
        return
    measured = f"Processor seconds of one thread on a pinned core ahead of other work, the least of {options.runs} in turns."
    parts = [about[1], table_of_parts(options)]
    write_report(options.results / "many_labels.md", "Many classes and labels", parts, options.quick, measured)


if __name__ == "__main__":
    main()

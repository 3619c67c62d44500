"""Whole fits with many classes or labels against scikit-learn's OneVsRestClassifier(LinearSVC), with as many threads.

``sector`` has 105 classes. The labels of ``news20_bigram`` are made: whether a row has one of some frequent
columns (``--labels``; 500 take eleven minutes), on the 50,000 columns that occur most often, without these.
scikit-learn runs at its own tolerance of 1e-4, ours at a certified relative gap of 1e-3.

    python -m benchmarks.many_labels [--labels 200] [--jobs 1]
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC as ScikitLearns

from benchmarks.datasets import load, load_classes
from benchmarks.measure import Table, arguments, seconds_text, write_report
from maxmargin import LinearSVC


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


def seconds_of_fit(model: Any, data: Labelled) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(data.X, data.y)
        return time.perf_counter() - start


def own(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--labels", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)


def main() -> None:
    options = arguments(__doc__, own)
    table = Table("set", "problems", "ours, s", "greatest gap", "scikit-learn, s", "ratio")
    sets = {"sector.scale": Labelled(*load_classes("sector.scale"))}
    sets[f"news20_bigram, {options.labels} labels"] = keyword_labels(10 if options.quick else options.labels)
    for name, data in sets.items():
        LinearSVC(tol=1e-3).fit(data.X[:300], data.y[:300] if data.y.ndim == 1 else data.y[:300, :2])  # compiles
        ours = LinearSVC(tol=1e-3, n_jobs=options.jobs)
        theirs = OneVsRestClassifier(ScikitLearns(random_state=0), n_jobs=options.jobs)
        taken = seconds_of_fit(ours, data), seconds_of_fit(theirs, data)
        table.add(
            name,
            len(ours.coef_),
            seconds_text(taken[0]),
            f"{ours.relative_gap_:.0e}",
            seconds_text(taken[1]),
            f"{taken[1] / taken[0]:.2f}x",
        )
    parts = [(__doc__ or "").split("\n\n")[1], table, "One run each, pinned to one core, beside other work."]
    write_report(options.results / "many_labels.md", "Many classes and labels", parts, options.quick)


if __name__ == "__main__":
    main()

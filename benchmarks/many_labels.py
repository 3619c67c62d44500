"""Whole fits with many classes or labels against scikit-learn's OneVsRestClassifier(LinearSVC), each with one thread.

``sector`` has 105 classes. The labels of ``news20_bigram`` are made: whether a row has one of some frequent
columns (``--labels``), on the 50,000 columns that occur most often, without these.
scikit-learn runs at its own tolerance of 1e-4. Its gaps are certified after: with its w, and the alpha that answers it, scaled
to the best dual value along its line. Ours is asked for the greatest of these gaps, so that no label of ours is further from
its optimum than scikit-learn's furthest; once more at 1e-3. Both are given every k-th label, ``--part`` of them.

    python -m benchmarks.many_labels [--labels 500] [--part 20]
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
from maxmargin import LinearProblem, LinearSVC, SquaredHinge, certify


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


def seconds_of_fit(model: Any, data: Labelled) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        model.fit(data.X, data.y)
        return time.process_time() - start


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


def main() -> None:
    options = arguments(__doc__, own)
    table = Table(
        "set", "problems", "scikit-learn, s", "its gap, median", "greatest", "ours to that, s", "ratio", "ours to 1e-3, s"
    )
    sets = {"sector.scale": Labelled(*load_classes("sector.scale"))}
    labels = keyword_labels(10 if options.quick else options.labels)
    part = subset(labels, 5 if options.quick else options.part)
    sets[f"news20_bigram, {part.y.shape[1]} of {labels.y.shape[1]} labels"] = part
    for name, data in sets.items():
        LinearSVC(tol=1e-3).fit(data.X[:300], data.y[:300] if data.y.ndim == 1 else data.y[:300, :2])  # compiles
        theirs = OneVsRestClassifier(ScikitLearns(random_state=0))
        seconds = seconds_of_fit(theirs, data)
        gaps = gaps_of(theirs, data)
        close = LinearSVC(tol=float(gaps.max()))
        seconds_of_fit(close, data)  # compiles what this size needs
        ours, rough = seconds_of_fit(close, data), seconds_of_fit(LinearSVC(tol=1e-3), data)
        assert close.relative_gap_ <= gaps.max(), "not certified"
        table.add(
            name,
            len(close.coef_),
            seconds_text(seconds),
            f"{np.median(gaps):.0e}",
            f"{gaps.max():.0e}",
            seconds_text(ours),
            f"{seconds / ours:.2f}x",
            seconds_text(rough),
        )
    parts = [(__doc__ or "").split("\n\n")[1], table]
    measured = "Processor seconds of one thread, one run each, beside other work."
    write_report(options.results / "many_labels.md", "Many classes and labels", parts, options.quick, measured)


if __name__ == "__main__":
    main()

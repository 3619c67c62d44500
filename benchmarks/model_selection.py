"""Choosing C from a list of 13 values by 5 folds: LinearSVCCV against GridSearchCV of scikit-learn's LinearSVC.

    python -m benchmarks.model_selection                          # every cell that is not measured yet
    python -m benchmarks.model_selection a9a:hinge w7a:squared_hinge
    python -m benchmarks.model_selection --warm-up ijcnn1:hinge   # compile before a measurement

A cell is a data set and a loss. Its figures are kept in ``.cache`` as soon as they are measured, theirs fold by fold, so that
an interrupted run goes on where it ended. Both searches use the same folds, values, loss and penalised intercept. Processor
seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC as TheirLinearSVC

from benchmarks.datasets import CACHE, ROOT, load, write_text
from maxmargin import LinearSVCCV

CS = np.logspace(-3.0, 3.0, 13)
ROWS = {"covtype.binary.scale": 50_000}
"""Rows, chosen at random, of data sets that are not used as a whole."""
NAMES = ("a9a", "ijcnn1", "w7a", "mushrooms", "covtype.binary.scale", "news20_bigram")
LOSSES = ("hinge", "squared_hinge")
CELLS = tuple(f"{name}:{loss}" for name in NAMES for loss in LOSSES)
N_FOLDS = 5
KEPT = CACHE / "model_selection.json"
TABLE = ROOT / "benchmarks" / "results" / "model_selection.md"


def sample(name: str) -> tuple[Any, Any]:
    X, y = load(name)
    rows = ROWS.get(name, len(y))
    if rows < len(y):
        chosen = np.random.default_rng(0).permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    return X, y


def measure(cell: str, kept: dict[str, Any]) -> None:
    """Our search twice, then theirs, fold by fold. Every figure is kept as soon as it is there."""
    name, loss = cell.split(":")
    X, y = sample(name)
    row = kept.setdefault(cell, {"rows": len(y), "ours": [], "theirs": [], "scores": []})
    while len(row["ours"]) < 2:
        search, seconds = timed_fit(LinearSVCCV(Cs=CS, loss=loss), X, y)
        row["ours"].append(seconds)
        row.update(our_C=search.C_, our_score=search.best_score_)
        keep(kept)
    folds = list(StratifiedKFold(N_FOLDS).split(X, y))
    while len(row["theirs"]) < N_FOLDS:
        fold = folds[len(row["theirs"])]
        one = GridSearchCV(TheirLinearSVC(loss=loss, dual="auto"), {"C": CS}, cv=[fold], refit=False)
        search, seconds = timed_fit(one, X, y)
        row["scores"].append(search.cv_results_["mean_test_score"].tolist())
        row["theirs"].append(seconds)
        keep(kept)
    if "refit" not in row:
        scores = np.array(row["scores"])
        best = int(scores.mean(axis=0).argmax())
        row["their_C"], row["their_score"] = float(CS[best]), float(scores.mean(axis=0)[best])
        row["standard_error"] = float(scores[:, best].std(ddof=1) / np.sqrt(N_FOLDS))
        _, row["refit"] = timed_fit(TheirLinearSVC(loss=loss, dual="auto", C=row["their_C"]), X, y)
        keep(kept)


def warm_up(cell: str) -> None:
    """Compile what the cell takes, on a few rows."""
    name, loss = cell.split(":")
    X, y = sample(name)
    LinearSVCCV(Cs=[0.01, 1.0, 100.0], loss=loss).fit(X[:2000], y[:2000])


def timed_fit(search: Any, X: Any, y: Any) -> tuple[Any, float]:
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # scikit-learn's solver stops at its limit of iterations
        search.fit(X, y)
    return search, time.process_time() - begun


def keep(kept: dict[str, Any]) -> None:
    write_text(KEPT, json.dumps(kept, indent=1))


def table(kept: dict[str, dict[str, Any]]) -> str:
    head = ["data, loss", "rows", "maxmargin (s)", "scikit-learn (s)", "ratio", "our C", "their C", "our score", "their score"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    done = {cell: row for cell, row in sorted(kept.items()) if "refit" in row}
    ratios = []
    for cell, row in done.items():
        ours, theirs = min(row["ours"]), sum(row["theirs"]) + row["refit"]
        ratios.append(theirs / ours)
        figures = [
            cell.replace(":", ", "),
            f"{row['rows']:,}",
            f"{ours:.2f}",
            f"{theirs:.2f}",
            f"{theirs / ours:.1f}",
            f"{row['our_C']:.3g}",
            f"{row['their_C']:.3g}",
            f"{row['our_score']:.4f}",
            f"{row['their_score']:.4f} ± {row['standard_error']:.4f}",
        ]
        lines.append("| " + " | ".join(figures) + " |")
    mean = float(np.exp(np.mean(np.log(ratios))))
    words = [
        "# Choosing C from a list of 13 values",
        "Processor seconds of `LinearSVCCV` and of `GridSearchCV` with scikit-learn's `LinearSVC` (`dual=auto`): "
        "5 folds, 13 values of C from 1e-3 to 1e3, with the final fit, default tolerances (`python -m "
        "benchmarks.model_selection`). maxmargin certifies a relative gap of 1e-4 for each fit, or proves all labels; "
        "scikit-learn's solver of hinge loss stops at 1,000 iterations. Ours is the less of two runs, theirs one run, fold by "
        "fold in the same process or the next. One core of an AMD EPYC, ahead of the other work on the machine.",
        "\n".join(lines),
        f"Geometric mean of the ratios: {mean:.1f}. Least: {min(ratios, default=math.nan):.1f}.",
    ]
    return "\n\n".join(words) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", default=CELLS, metavar="DATA:LOSS", help=f"of {', '.join(CELLS)}; all by default")
    parser.add_argument("--again", action="store_true", help="measure cells that are known, too")
    parser.add_argument("--warm-up", action="store_true", help="compile only")
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for cell in options.cells:
        if cell not in CELLS:
            parser.error(f"{cell} is not one of {', '.join(CELLS)}")
        if options.warm_up:
            warm_up(cell)
            continue
        if options.again:
            kept.pop(cell, None)
        measure(cell, kept)
        print(cell, kept[cell], flush=True)
    if not options.warm_up:
        write_text(TABLE, table(kept))


if __name__ == "__main__":
    main()

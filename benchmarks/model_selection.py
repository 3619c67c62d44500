"""Choosing C from a list of 13 values by 5 folds: LinearSVCCV against GridSearchCV of scikit-learn's LinearSVC.

    python -m benchmarks.model_selection                          # every cell that is not measured yet
    python -m benchmarks.model_selection a9a:hinge w7a:squared_hinge
    python -m benchmarks.model_selection --again --rows 10000 ijcnn1:hinge

A cell is a data set and a loss. Its figures are kept in ``.cache`` as soon as they are measured, so that an interrupted run
goes on where it ended. Both searches use the same folds, values, loss and penalised intercept, and one process. Processor
seconds.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC as TheirLinearSVC

from benchmarks.datasets import CACHE, ROOT, load, write_text
from maxmargin import LinearSVCCV

CS = np.logspace(-3.0, 3.0, 13)
NAMES = ("a9a", "ijcnn1", "w7a", "mushrooms")
LOSSES = ("hinge", "squared_hinge")
CELLS = tuple(f"{name}:{loss}" for name in NAMES for loss in LOSSES)
KEPT = CACHE / "model_selection.json"
TABLE = ROOT / "benchmarks" / "results" / "model_selection.md"


def measured(name: str, loss: Any, rows: int | None) -> dict[str, Any]:
    """Both searches on one data set, ours first; each is compiled or imported before."""
    X, y = load(name)
    if rows is not None and rows < len(y):
        chosen = np.random.default_rng(0).permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    LinearSVCCV(Cs=[0.01, 1.0, 100.0], loss=loss).fit(X[:2000], y[:2000])
    ours, our_seconds = _timed(LinearSVCCV(Cs=CS, loss=loss), X, y)
    theirs, their_seconds = _timed(GridSearchCV(TheirLinearSVC(loss=loss, dual="auto"), {"C": CS}, cv=5), X, y)
    scores = np.array([theirs.cv_results_[f"split{k}_test_score"] for k in range(5)])
    error = float(scores[:, theirs.best_index_].std(ddof=1) / np.sqrt(5.0))
    return {
        "rows": len(y),
        "ours": our_seconds,
        "theirs": their_seconds,
        "our_C": ours.C_,
        "their_C": float(theirs.best_params_["C"]),
        "our_score": ours.best_score_,
        "their_score": float(theirs.best_score_),
        "standard_error": error,
    }


def _timed(search: Any, X: Any, y: Any) -> tuple[Any, float]:
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # scikit-learn's solver stops at its limit of iterations
        search.fit(X, y)
    return search, time.process_time() - begun


def table(kept: dict[str, dict[str, Any]]) -> str:
    head = ["data, loss", "rows", "maxmargin (s)", "scikit-learn (s)", "ratio", "our C", "their C", "our score", "their score"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for cell in sorted(kept):
        row = kept[cell]
        figures = [
            cell.replace(":", ", "),
            f"{row['rows']:,}",
            f"{row['ours']:.2f}",
            f"{row['theirs']:.2f}",
            f"{row['theirs'] / row['ours']:.1f}",
            f"{row['our_C']:.3g}",
            f"{row['their_C']:.3g}",
            f"{row['our_score']:.4f}",
            f"{row['their_score']:.4f} ± {row['standard_error']:.4f}",
        ]
        lines.append("| " + " | ".join(figures) + " |")
    ratios = [row["theirs"] / row["ours"] for row in kept.values()]
    mean = float(np.exp(np.mean(np.log(ratios))))
    words = [
        "# Choosing C from a list of 13 values",
        "Processor seconds of `LinearSVCCV` and of `GridSearchCV` with scikit-learn's `LinearSVC` (`dual=auto`): "
        "5 folds, 13 values of C from 1e-3 to 1e3, with the final fit, default tolerances (`python -m "
        "benchmarks.model_selection`). maxmargin certifies a relative gap of 1e-4 for each fit; scikit-learn's solver of hinge "
        "loss stops at 1,000 iterations. One run on a machine with other work.",
        "\n".join(lines),
        f"Geometric mean of the ratios: {mean:.1f}.",
    ]
    return "\n\n".join(words) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", default=CELLS, metavar="DATA:LOSS", help=f"of {', '.join(CELLS)}; all by default")
    parser.add_argument("--rows", type=int, help="so many rows of each data set, chosen at random")
    parser.add_argument("--again", action="store_true", help="measure cells that are known, too")
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for cell in options.cells:
        if cell not in CELLS:
            parser.error(f"{cell} is not one of {', '.join(CELLS)}")
        if cell in kept and not options.again:
            continue
        name, loss = cell.split(":")
        kept[cell] = measured(name, loss, options.rows)
        write_text(KEPT, json.dumps(kept, indent=1))
        print(cell, kept[cell], flush=True)
    write_text(TABLE, table(kept))


if __name__ == "__main__":
    main()

"""Choosing C from a list of 13 values by 5 folds: LinearSVCCV against GridSearchCV of scikit-learn's LinearSVC.

    python -m benchmarks.model_selection                          # every cell that is not measured yet
    python -m benchmarks.model_selection a9a:hinge w7a:squared_hinge
    python -m benchmarks.model_selection --warm-up ijcnn1:hinge   # compile before a measurement
    python -m benchmarks.model_selection --judge ijcnn1:hinge     # how far scikit-learn's models are from the optimum

A cell is a data set and a loss. Its figures are kept beside the table as soon as they are measured, theirs fold by fold, so
that each cell can be measured alone, and an interrupted run goes on where it ended. ``--one-fold`` measures one fold of theirs
and counts it five times, without their last fit. Both searches use the same folds, values, loss and penalised intercept.
Processor seconds.
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

from benchmarks.datasets import ROOT, load, write_text
from benchmarks.kernel_problems import raw
from maxmargin import LinearSVC, LinearSVCCV

CS = np.logspace(-3.0, 3.0, 13)
ROWS = {"covtype.binary.scale": 50_000}
"""Rows, chosen at random, of data sets that are not used as a whole."""
NAMES = ("a9a", "ijcnn1", "w7a", "mushrooms", "covtype.binary.scale", "news20_bigram")
LOSSES = ("hinge", "squared_hinge")
RANGES = {"a1a": 123, "a9a": 123, "ijcnn1": 22, "w7a": 300, "svmlight_example1.train": 9947}
"""The sets of the proof over a range, and their numbers of features."""
RANGE_CELLS = tuple(f"{name}{way}" for way in ("", ":hinge") for name in RANGES)
CELLS = (*(f"{name}:{loss}" for name in NAMES for loss in LOSSES), *(f"range:{name}" for name in RANGE_CELLS))
REGRET = 0.005
N_FOLDS = 5
TABLE = ROOT / "benchmarks" / "results" / "model_selection.md"
KEPT = TABLE.with_suffix(".json")


def sample(name: str) -> tuple[Any, Any]:
    X, y = load(name)
    rows = ROWS.get(name, len(y))
    if rows < len(y):
        chosen = np.random.default_rng(0).permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    return X, y


def parts(cell: str) -> tuple[str, Any]:
    """The data set and the loss."""
    name, _, loss = cell.partition(":")
    return name, loss


def measure(cell: str, kept: dict[str, Any], n_folds: int = N_FOLDS) -> None:
    """Our search twice, then theirs, fold by fold, on some of the folds. Every figure is kept as soon as it is there."""
    name, loss = parts(cell)
    X, y = sample(name)
    row = kept.setdefault(cell, {"rows": len(y), "ours": [], "theirs": [], "scores": []})
    if "refit" in row:
        return
    while len(row["ours"]) < 2:
        search, seconds = timed_fit(LinearSVCCV(Cs=CS, loss=loss), X, y)
        row["ours"].append(seconds)
        row.update(our_C=search.C_, our_score=search.best_score_, our_first_fold=search.scores_[0].tolist())
        keep(kept)
    folds = list(StratifiedKFold(N_FOLDS).split(X, y))
    while len(row["theirs"]) < n_folds:
        fold = folds[len(row["theirs"])]
        one = GridSearchCV(TheirLinearSVC(loss=loss, dual="auto"), {"C": CS}, cv=[fold], refit=False)
        search, seconds = timed_fit(one, X, y)
        row["scores"].append(search.cv_results_["mean_test_score"].tolist())
        row["theirs"].append(seconds)
        keep(kept)
    scores = np.array(row["scores"])
    best = int(scores.mean(axis=0).argmax())
    row["their_C"], row["their_score"] = float(CS[best]), float(scores.mean(axis=0)[best])
    if n_folds < N_FOLDS:
        keep(kept)
        return
    row["standard_error"] = float(scores[:, best].std(ddof=1) / np.sqrt(N_FOLDS))
    _, row["refit"] = timed_fit(TheirLinearSVC(loss=loss, dual="auto", C=row["their_C"]), X, y)
    keep(kept)


def measure_range(cell: str, kept: dict[str, Any]) -> None:
    """Our proof over six decades, and their search over 13 values of them. Ours is the first fit of its process."""
    name, _, loss = cell.removeprefix("range:").partition(":")
    X, y = range_sample(name)
    options: dict[str, Any] = {"loss": loss or "squared_hinge"}
    search, ours = timed_fit(LinearSVCCV(C_range=(CS[0], CS[-1]), regret=REGRET, **options), X, y)
    _, theirs = timed_fit(GridSearchCV(TheirLinearSVC(dual="auto", **options), {"C": CS}, cv=N_FOLDS), X, y)
    kept[cell] = {"rows": len(y), "ours": ours, "theirs": theirs, "knots": len(search.Cs_), "regret": search.regret_}
    keep(kept)


def judge_theirs(cell: str, kept: dict[str, Any]) -> None:
    """On the first fold, at their best C and at the last but one: the least relative gap that their model can have, by the dual
    value that we certify, its accuracy, and that of our model, which is trained to 1e-8."""
    name, loss = parts(cell)
    X, y = sample(name)
    train, test = next(iter(StratifiedKFold(N_FOLDS).split(X, y)))
    kept[cell]["judged"] = []
    for C in (kept[cell]["their_C"], float(CS[-2])):
        theirs, _ = timed_fit(TheirLinearSVC(loss=loss, dual="auto", C=C), X[train], y[train])
        exact = LinearSVC(loss=loss, C=C, tol=1e-8).fit(X[train], y[train])
        losses = np.maximum(0.0, 1.0 - y[train] * theirs.decision_function(X[train])) ** (1 if loss == "hinge" else 2)
        primal = 0.5 * (float(np.sum(theirs.coef_**2)) + float(theirs.intercept_[0]) ** 2) + C * float(losses.sum())
        certificate: Any = exact.certificate_
        gap = (primal - certificate.dual) / primal
        kept[cell]["judged"].append([C, gap, theirs.score(X[test], y[test]), exact.score(X[test], y[test])])
    keep(kept)


def range_sample(name: str) -> tuple[Any, Any]:
    X, labels = raw(name, RANGES[name])
    return X, np.where(labels > 0, 1.0, -1.0)


def warm_up(cell: str) -> None:
    """Compile what the cell takes, on a few rows."""
    name, loss = parts(cell)
    if name == "range":
        name, _, loss = loss.partition(":")
        X, y = range_sample(name)
        some = np.random.default_rng(0).permutation(len(y))[:1000]
        LinearSVCCV(C_range=(0.1, 1.0), regret=0.1, loss=loss or "squared_hinge").fit(X[some], y[some])
        return
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
    done = {cell: row for cell, row in sorted(kept.items()) if "their_C" in row}
    ratios = []
    for cell, row in done.items():
        ours, theirs = min(row["ours"]), seconds_of_theirs(row)
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
            their_score(row),
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
        f"Geometric mean of the ratios: {mean:.1f}. Least: {min(ratios, default=math.nan):.1f}. Where a score of theirs is "
        "that of the first fold, their time is five times that of the first fold, without a last fit. The row of covtype with "
        "hinge loss is of 78b6232, those of news20_bigram are of e80f59a, the others of 5dc8cc0. Four of scikit-learn's folds "
        "of news20_bigram with squared hinge loss ran beside tests on the other core.",
        "How far scikit-learn's models are from the optimum (`--judge`), on the first fold at its best C and at C = 316: the "
        "least relative gap that its model can have, its accuracy, and the accuracy of a model that is certified to 1e-8. "
        "Where the gap is large, its score says nothing of that C.",
        judged_table(kept),
        "## A proof over a range",
        f"Processor seconds of `LinearSVCCV(C_range=(1e-3, 1e3), regret={REGRET})` (squared hinge loss, or hinge loss where "
        "named), which proves that no C of the six decades has a cross-validated accuracy better by more than the regret, and "
        "of `GridSearchCV` over 13 values of them. Ours is the first fit of a process that finds its compiled functions in "
        "Numba's cache on disk; theirs follows in the same process. One run each, on a pinned core ahead of other work. "
        "a1a and svmlight_example1 were looked at while the bound was made. `python -m benchmarks.range_check` trains random "
        "values of C to 1e-10 on all folds and counts those above their ceiling: none of 1,000 on each of the five sets with "
        "squared hinge loss, on the code of these rows; on earlier code none of 200 on a1a and 100 on ijcnn1 with hinge loss. "
        "a1a and ijcnn1 with hinge loss were looked at while the rulers were made. The rows with squared hinge loss are of "
        "5dc8cc0, that of a1a with hinge loss of 52ee4d4, that of ijcnn1 with hinge loss of uncommitted code between 4d28632 "
        "and it.",
        range_table(kept),
    ]
    return "\n\n".join(words) + "\n"


def seconds_of_theirs(row: dict[str, Any]) -> float:
    """With the last fit; five times the first fold where only that was measured."""
    return sum(row["theirs"]) + row["refit"] if "refit" in row else N_FOLDS * row["theirs"][0]


def their_score(row: dict[str, Any]) -> str:
    if "refit" in row:
        return f"{row['their_score']:.4f} ± {row['standard_error']:.4f}"
    ours = row["our_first_fold"][int(np.argmin(np.abs(CS - row["their_C"])))]
    return f"first fold {row['their_score']:.4f}, ours there {ours:.4f}"


def judged_table(kept: dict[str, dict[str, Any]]) -> str:
    head = ["data, loss", "C", "their gap at least", "their accuracy", "exact accuracy"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for cell, row in sorted(kept.items()):
        for C, gap, theirs, exact in row.get("judged", []):
            lines.append(f"| {cell.replace(':', ', ')} | {C:.3g} | {gap:.1e} | {theirs:.4f} | {exact:.4f} |")
    return "\n".join(lines)


def range_table(kept: dict[str, dict[str, Any]]) -> str:
    head = ["data", "rows", "values of C", "regret proved", "maxmargin (s)", "13 values by scikit-learn (s)", "times"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name in RANGE_CELLS:
        row = kept.get(f"range:{name}")
        if row is not None:
            seconds = f"{row['ours']:.2f} | {row['theirs']:.2f} | {row['ours'] / row['theirs']:.1f}"
            lines.append(f"| {name.replace(':', ', ')} | {row['rows']:,} | {row['knots']} | {row['regret']:.4f} | {seconds} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", default=CELLS, metavar="DATA:LOSS", help=f"of {', '.join(CELLS)}; all by default")
    parser.add_argument("--again", action="store_true", help="measure cells that are known, too")
    parser.add_argument("--one-fold", action="store_true", help="measure one fold of theirs")
    parser.add_argument("--judge", action="store_true", help="judge their models; the cell must have been measured")
    parser.add_argument("--warm-up", action="store_true", help="compile only")
    options = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for cell in options.cells:
        if cell not in CELLS:
            parser.error(f"{cell} is not one of {', '.join(CELLS)}")
        if options.warm_up:
            warm_up(cell)
            continue
        if options.judge:
            judge_theirs(cell, kept)
            continue
        if options.again:
            kept.pop(cell, None)
        if cell.startswith("range:") and cell not in kept:
            measure_range(cell, kept)
        elif not cell.startswith("range:"):
            measure(cell, kept, 1 if options.one_fold else N_FOLDS)
        print(cell, kept[cell], flush=True)
    if not options.warm_up:
        write_text(TABLE, table(kept))


if __name__ == "__main__":
    main()

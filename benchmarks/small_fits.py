"""Whole fits on the small tables that come with scikit-learn, scaled, beside scikit-learn's own classes.

Every cell is a new estimator and its ``fit``: validation, the solve, the certificate and the attributes. Both sides
run in turns; the least time of each counts. What each proves is not the same: ours ends with a certificate.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import sklearn.svm
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import Table, arguments, geometric_mean, interleaved, write_report
from maxmargin import SVC, LinearSVC

TABLES = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
COSTS = (0.01, 1.0, 100.0)
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "LinearSVC, squared hinge": (LinearSVC, sklearn.svm.LinearSVC),
    "LinearSVC, hinge": (lambda C: LinearSVC("l2", "hinge", C=C), lambda C: sklearn.svm.LinearSVC(loss="hinge", C=C)),
    "SVC, rbf": (SVC, sklearn.svm.SVC),
}
MEAN_LIMIT, LEAST_LIMIT = 1.0, 0.5
"""What scikit-learn's time over ours is to be in the geometric mean of each estimator, and in every cell."""


class Fit(NamedTuple):
    seconds: float


def timed(make: Callable[..., Any], C: float, X: Any, y: Any) -> Fit:
    start = time.perf_counter()
    make(C=C).fit(X, y)
    return Fit(time.perf_counter() - start)


def report(rounds: int) -> tuple[Table, Table]:
    cells = Table("table", "estimator", "C", "ours ms", "scikit-learn ms", "ratio", numbers_from=2)
    ratios: dict[str, list[float]] = {}
    for name, load in TABLES.items():
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        for estimator, (ours, theirs) in PAIRS.items():
            for C in COSTS:
                timed(ours, C, X, y)  # compiled, or loaded from the cache
                contestants = {"ours": lambda: timed(ours, C, X, y), "theirs": lambda: timed(theirs, C, X, y)}  # noqa: B023
                runs = interleaved(contestants, rounds)
                mine, other = (runs[key].seconds for key in ("ours", "theirs"))
                ratios.setdefault(estimator, []).append(other / mine)
                cells.add(name, estimator, f"{C:g}", f"{1e3 * mine:.2f}", f"{1e3 * other:.2f}", f"{other / mine:.2f}x")
    return _summary(ratios), cells


def _summary(ratios: dict[str, list[float]]) -> Table:
    table = Table("estimator", "geometric mean", "least", f"asked {MEAN_LIMIT:g}x, {LEAST_LIMIT:g}x")
    for estimator, own in ratios.items():
        mean, least = geometric_mean(own), min(own)
        is_reached = mean >= MEAN_LIMIT and least >= LEAST_LIMIT
        table.add(estimator, f"{mean:.2f}x", f"{least:.2f}x", "yes" if is_reached else "NO")
    return table


def main() -> None:
    options = arguments(__doc__)
    warnings.simplefilter("ignore")
    summary, cells = report(3 if options.quick else 15)
    words = "scikit-learn's time over ours; wall-clock milliseconds, the least of runs in turns."
    parts = [words, summary, "## Cells", cells]
    write_report(options.results / "small_fits.md", "Small fits beside scikit-learn", parts, options.quick)


if __name__ == "__main__":
    main()

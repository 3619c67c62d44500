"""Train on two data sets that come with scikit-learn, print the certificates, and draw the gap against time.

Run by ``make demo``. scikit-learn's LinearSVC solves the same problems; maxmargin's certificate judges both.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as TheirSVC

from maxmargin import Certificate, Hinge, LinearProblem, LinearSVC, certify, solve
from maxmargin.displays.convergence import Curve, draw_gaps

TOL = 1e-6
PICTURE = Path("demo.png")
THEIR_TOLERANCES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
REPEATS = 3


def problems() -> dict[str, tuple[Any, Any]]:
    cancer, digits = load_breast_cancer(), load_digits()
    return {
        "breast cancer": (StandardScaler().fit_transform(cancer.data), cancer.target),
        "digits, 8 against the rest": (digits.data / 16.0, digits.target == 8),
    }


def timed_fit(model: Any, X: Any, y: Any) -> float:
    """Seconds of the fastest of several fits."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def judge(model: Any, problem: LinearProblem, alpha: Any) -> Certificate:
    """Anybody's weights, against the best dual point that is known."""
    return certify(problem, np.append(model.coef_[0], model.intercept_), alpha)


def show(name: str, X: Any, y: Any) -> dict[str, Curve]:
    problem = LinearProblem.build(X, np.where(y, 1, -1), 1.0, Hinge(), intercept_scaling=1.0)
    reference = solve(problem, tol=1e-9)
    model, default = LinearSVC(loss="hinge", tol=TOL), TheirSVC(loss="hinge", random_state=0)
    seconds, default_seconds = timed_fit(model, X, y), timed_fit(default, X, y)
    print(f"\n{name}: {X.shape[0]} samples, {X.shape[1]} features, hinge loss, C = 1")
    print(f"  maxmargin     {1000 * seconds:6.1f} ms  {model.certificate_}")
    print(f"  scikit-learn  {1000 * default_seconds:6.1f} ms  {judge(default, problem, reference.alpha)}")
    print(f"  {model.status_.value}")
    their_curve = []
    for tol in THEIR_TOLERANCES:
        rival = TheirSVC(loss="hinge", tol=tol, max_iter=100_000, random_state=0)
        their_curve.append((timed_fit(rival, X, y), judge(rival, problem, reference.alpha).relative_gap))
    our_curve = [(row.seconds, row.relative_gap) for row in model.trace_]
    return {"maxmargin, one fit": our_curve, "scikit-learn, tol = 1 ... 1e-6": their_curve}


def main() -> None:
    print("Compiling (once on a machine) ...", flush=True)
    first = next(iter(problems().values()))
    start = time.perf_counter()
    LinearSVC(loss="hinge").fit(*first)
    print(f"... the first fit took {time.perf_counter() - start:.1f} s, compilation included. From here on it is cached.")
    panels = {name: show(name, X, y) for name, (X, y) in problems().items()}
    print(f"\nThe gap against time: {draw_gaps(panels, PICTURE, target=TOL).resolve()}")


if __name__ == "__main__":
    main()

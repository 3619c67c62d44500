"""Train on two data sets that come with scikit-learn, print the certificates, and draw the gap against time.

Run by ``make demo``. scikit-learn's LinearSVC solves the same problems; maxmargin's certificate judges both.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as TheirSVC

from maxmargin import Certificate, Hinge, LinearProblem, LinearSVC, Status, certify, solve

TOL = 1e-6
PICTURE = Path("demo.png")
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""What both libraries are asked for, one fit each. They mean different things by it: the picture shows what they reach."""
FLOOR = 1e-9
"""Gaps are judged against a dual point that is within this of the optimum, so that smaller ones are drawn here."""
MAX_ITER = 100_000
"""A hundred times scikit-learn's own limit on iterations."""
REPEATS = 5
OURS, THEIRS, QUIET = "#0072B2", "#D55E00", "#767676"


class Task(NamedTuple):
    """One binary problem, with the cost of a wrong answer."""

    name: str
    X: Any
    y: Any
    C: float


class Run(NamedTuple):
    """The fastest of several fits, and how far from the optimum its answer is."""

    milliseconds: float
    gap: float


def tasks() -> list[Task]:
    """Both with C = 1, the default of both libraries."""
    cancer, digits = load_breast_cancer(), load_digits()
    return [
        Task("breast cancer, C = 1", StandardScaler().fit_transform(cancer.data), cancer.target, 1.0),
        Task("digits, 8 against the rest, C = 1", digits.data / 16.0, digits.target == 8, 1.0),
    ]


def fastest_fit(model: Any, task: Task) -> float:
    """Milliseconds."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(task.X, task.y)
        seconds.append(time.perf_counter() - start)
    return 1000.0 * min(seconds)


def judge(model: Any, problem: LinearProblem, alpha: Any) -> Certificate:
    """Anybody's weights, against the best dual point that is known."""
    return certify(problem, np.append(model.coef_[0], model.intercept_), alpha)


def show(task: Task) -> dict[str, list[Run]]:
    """Print what the fits with their default settings reach, and return a curve for each library."""
    problem = LinearProblem.build(task.X, np.where(task.y, 1, -1), task.C, Hinge(), intercept_scaling=1.0)
    alpha = solve(problem, tol=FLOOR).alpha
    model, rival = LinearSVC(loss="hinge", C=task.C, tol=TOL), TheirSVC(loss="hinge", C=task.C, random_state=0)
    print(f"\n{task.name}: {task.X.shape[0]} samples, {task.X.shape[1]} features, hinge loss")
    print(f"  maxmargin     {fastest_fit(model, task):6.1f} ms  {model.certificate_}")
    print(f"  scikit-learn  {fastest_fit(rival, task):6.1f} ms  {judge(rival, problem, alpha)}")
    assert isinstance(model.status_, Status)  # there are two classes, so it is no list
    print(f"  {model.status_.value}")
    return {
        "maxmargin": [run(LinearSVC(loss="hinge", C=task.C, tol=tol), task, problem, alpha) for tol in TOLERANCES],
        "scikit-learn": [
            run(TheirSVC(loss="hinge", C=task.C, tol=tol, max_iter=MAX_ITER, random_state=0), task, problem, alpha)
            for tol in TOLERANCES
        ],
    }


def run(model: Any, task: Task, problem: LinearProblem, alpha: Any) -> Run:
    milliseconds = fastest_fit(model, task)
    return Run(milliseconds, judge(model, problem, alpha).relative_gap)


def draw(panels: dict[str, dict[str, list[Run]]], path: Path) -> Path:
    """A panel for each problem. The file is renamed when it is whole."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2 * len(panels), 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, curves) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        draw_panel(axes, curves)
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    figure.supxlabel("milliseconds of one fit: further left is faster", fontsize=10)
    figure.supylabel("relative duality gap: further down is nearer to the optimum", fontsize=10)
    unfinished = path.with_name(path.name + ".part")
    figure.savefig(unfinished, format="png", dpi=130)
    os.replace(unfinished, path)
    return path


def draw_panel(axes: Any, curves: dict[str, list[Run]]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for (name, runs), colour, marker in zip(curves.items(), (OURS, THEIRS), "os", strict=True):
        points = [(each.milliseconds, max(each.gap, FLOOR)) for each in runs]
        axes.plot(*zip(*points, strict=True), marker=marker, markersize=6, linewidth=1.8, color=colour, label=name)
    axes.axhspan(FLOOR / 10.0, FLOOR, color=QUIET, alpha=0.12, linewidth=0)
    axes.text(0.99, FLOOR / 3.0, "finer than this is not judged here", color=QUIET, fontsize=8, ha="right", va="center",
              transform=axes.get_yaxis_transform())  # fmt: skip
    axes.set(xscale="log", yscale="log", ylim=(FLOOR / 10.0, 1.0))
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.3, high * 1.3)
    few = (1.0, 2.0, 5.0) if high < 30.0 * low else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=few))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator(numticks=11))
    axes.grid(visible=True, which="major", color=QUIET, alpha=0.25)
    axes.legend(frameon=False, loc="upper right")


def main() -> None:
    print("Compiling (once on a machine) ...", flush=True)
    first = tasks()[0]
    start = time.perf_counter()
    LinearSVC(loss="hinge").fit(first.X, first.y)
    print(f"... the first fit took {time.perf_counter() - start:.1f} s, compilation included. From here on it is cached.")
    print(f"Each library is asked for tolerances from {TOLERANCES[0]:g} to {TOLERANCES[-1]:g}; the gap is what it reached.")
    panels = {task.name: show(task) for task in tasks()}
    print(f"\nThe gap against time: {draw(panels, PICTURE).resolve()}")


if __name__ == "__main__":
    main()

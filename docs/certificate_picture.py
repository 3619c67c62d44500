"""The picture on the landing page: the objective and its bound during a real fit, for light and for dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from maxmargin import Hinge, LinearProblem, Progress, solve
from maxmargin.displays.style import COLOURS

INKS = {"light": "#222222", "dark": "#dddddd"}


def trace() -> tuple[Progress, ...]:
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    problem = LinearProblem.build(X, np.where(y, 1, -1), 1.0, Hinge(), intercept_scaling=1.0)
    return solve(problem, "dcd", tol=1e-6).trace


def draw(folder: Path) -> None:
    """Write certificate-light.svg and certificate-dark.svg."""
    rows = [row for row in trace() if row.epochs > 0]
    for name, ink in INKS.items():
        draw_in(ink, rows, folder / f"certificate-{name}.svg")


def draw_in(ink: str, rows: list[Progress], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    names = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    with mpl.rc_context({**dict.fromkeys(names, ink), "svg.hashsalt": "maxmargin", "font.size": 12.0}):
        figure = Figure(figsize=(8.4, 4.4), layout="constrained")
        FigureCanvasSVG(figure)
        fill(figure.subplots(), rows, ink)
        figure.savefig(path, transparent=True, metadata={"Date": None})


def fill(ax: Any, rows: list[Progress], ink: str) -> None:
    epochs, primal, dual = ([getattr(row, name) for row in rows] for name in ("epochs", "primal", "dual"))
    ax.fill_between(epochs, dual, primal, color=COLOURS[4], alpha=0.28, linewidth=0)
    ax.plot(epochs, primal, "o-", color=COLOURS[0], markersize=5)
    ax.plot(epochs, dual, "s-", color=COLOURS[1], markersize=5)
    optimum = rows[-1].primal
    ax.axhline(optimum, color=ink, linestyle=":", linewidth=1)
    top = optimum + 2.2 * (optimum - dual[0])
    ax.set(xscale="log", ylim=(dual[0] - 0.12 * (top - dual[0]), top), xlabel="work: passes over the data", ylabel="objective")
    k = len(rows) // 4
    note(ax, "objective of the model:\nthe optimum is not above it", (epochs[k], primal[k]), (60, 62), COLOURS[0])
    note(ax, "proved bound:\nno model is below it", (epochs[k], dual[k]), (60, -58), COLOURS[1])
    ax.annotate("the optimum", (epochs[0], optimum), (4, 4), textcoords="offset points", color=ink)
    ax.spines[["top", "right"]].set_visible(False)
    gap = f"they meet: within {rows[-1].relative_gap:.0e}\nof the optimum, proved"
    note(ax, gap, (epochs[-1], optimum), (-30, 52), ink)


def note(ax: Any, text: str, at: tuple[float, float], move: tuple[float, float], colour: str) -> None:
    arrow = {"arrowstyle": "-", "color": colour, "linewidth": 1}
    ax.annotate(text, at, move, textcoords="offset points", color=colour, arrowprops=arrow, ha="center", va="center")

"""The picture on the landing page: the objective and its bound during a real fit, for light and for dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from maxmargin import Certificate, Hinge, LinearProblem, solve
from maxmargin.displays.style import COLOURS

INKS = {"light": "#222222", "dark": "#dddddd"}


EPOCHS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 200)
"""Passes over the data after which the fit is looked at."""


def certificates() -> list[Certificate]:
    """The best point so far after each number of passes: the same fit, stopped earlier and later."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    problem = LinearProblem.build(X, np.where(y, 1, -1), 1.0, Hinge(), intercept_scaling=1.0)
    return [solve(problem, "dcd", tol=1e-7, max_epochs=epochs).certificate for epochs in EPOCHS]


def draw(folder: Path) -> None:
    """Write certificate-light.svg and certificate-dark.svg."""
    rows = certificates()
    for name, ink in INKS.items():
        draw_in(ink, rows, folder / f"certificate-{name}.svg")


def draw_in(ink: str, rows: list[Certificate], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    names = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    with mpl.rc_context({**dict.fromkeys(names, ink), "svg.hashsalt": "maxmargin", "font.size": 12.5}):
        figure = Figure(figsize=(7.0, 4.3), layout="constrained")
        FigureCanvasSVG(figure)
        fill(figure.subplots(), rows, ink)
        figure.savefig(path, transparent=True, metadata={"Date": None})


def fill(ax: Any, rows: list[Certificate], ink: str) -> None:
    epochs = EPOCHS
    primal = np.minimum.accumulate([row.primal for row in rows])  # the best so far
    dual = np.maximum.accumulate([row.dual for row in rows])
    ax.fill_between(epochs, dual, primal, color=COLOURS[4], alpha=0.28, linewidth=0)
    ax.plot(epochs, primal, "o-", color=COLOURS[0], markersize=5)
    ax.plot(epochs, dual, "s-", color=COLOURS[1], markersize=5)
    optimum = rows[-1].primal
    ax.axhline(optimum, color=ink, linestyle=":", linewidth=1)
    top = 2.6 * optimum
    ax.set(xscale="log", xlim=(0.9, 260), ylim=(0.0, top), xlabel="passes over the data", ylabel="objective")
    ax.set_xticks([1, 10, 100], ["1", "10", "100"])
    ax.text(2.2, 0.70 * top, "objective of the model", color=COLOURS[0], weight="bold")
    ax.text(5.2, 0.16 * top, "proved bound:\nno model is below it", color=COLOURS[1], weight="bold", va="center")
    ax.text(1.15, optimum + 0.015 * top, "the optimum", color=ink, style="italic")
    gap = f"they meet:\nwithin {rows[-1].relative_gap:.0e}\nof the optimum,\nproved"
    note(ax, gap, (epochs[-1], optimum), (-22, 76), ink)
    ax.spines[["top", "right"]].set_visible(False)


def note(ax: Any, text: str, at: tuple[float, float], move: tuple[float, float], colour: str) -> None:
    arrow = {"arrowstyle": "-", "color": colour, "linewidth": 1}
    ax.annotate(text, at, move, textcoords="offset points", color=colour, arrowprops=arrow, ha="center", va="center")

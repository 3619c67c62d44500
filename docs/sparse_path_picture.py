"""The picture on the page on sparse models: the weights of an L1 penalty along C, and how many are not zero."""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin.displays.style import COLOURS, QUIET


def draw(folder: Path) -> None:
    """Write sparse-path.svg."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    X, y = load_breast_cancer(return_X_y=True)
    path = maxmargin.path(
        maxmargin.LinearSVC(penalty="l1"), StandardScaler().fit_transform(X), y, C_range=(5e-4, 0.5), tol=1e-3
    )
    names = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    with mpl.rc_context({**dict.fromkeys(names, QUIET), "svg.hashsalt": "maxmargin"}):
        figure = Figure(figsize=(7.0, 4.0), layout="constrained")
        FigureCanvasSVG(figure)
        ax = figure.subplots()
        for k, weights in enumerate(path.coefs.T):
            ax.plot(path.Cs, weights, color=COLOURS[k % len(COLOURS)], linewidth=1.2)
        ax.set(xscale="log", xlabel="C", ylabel="weights")
        counts = ax.twinx()
        counts.plot(path.Cs, path.n_nonzero, color=QUIET, linestyle=":", linewidth=1.6)
        counts.set_ylabel("weights that are not zero (dotted)")
        figure.savefig(folder / "sparse-path.svg", transparent=True, metadata={"Date": None})

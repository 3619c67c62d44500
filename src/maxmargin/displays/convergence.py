"""Pictures of a solve. Needs matplotlib: ``pip install maxmargin[plots]``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

Curve = Sequence[tuple[float, float]]
"""Points (seconds, relative gap)."""


def draw_gaps(panels: Mapping[str, Mapping[str, Curve]], path: str | Path, *, target: float | None = None) -> Path:
    """Draw relative gap against time, a panel for each problem and a line for each solver, and write it to ``path``.

    The file is written under a temporary name and renamed, so an old picture is never left half overwritten.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * len(panels), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, curves) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for (name, curve), marker in zip(curves.items(), cycle("os^Dv*"), strict=False):
            axes.loglog(*zip(*curve, strict=True), marker=marker, markersize=5, linewidth=1.6, label=name)
        if target is not None:
            axes.axhline(target, color="0.4", linestyle=":", linewidth=1.2, label=f"asked: {target:g}")
        axes.set(title=title, xlabel="seconds", ylabel="relative duality gap")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(curves) + (target is not None))
    path = Path(path)
    unfinished = path.with_name(path.name + ".part")
    figure.savefig(unfinished, format=path.suffix.lstrip(".") or "png", dpi=130)
    os.replace(unfinished, path)
    return path

"""Colours that everybody can tell apart, on white and on black, and the axes that a display draws on."""

from __future__ import annotations

from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A6A00", "#8C8C8C")
"""After Okabe and Ito: distinct to readers with any kind of colour blindness. The last two extend their list."""
MARKERS = "os^DvP*X"
"""A second way to tell lines apart, for a print in grey."""
QUIET = "#8C8C8C"
"""A grey with a contrast of at least three to one against white and against black."""


def axes_of(ax: Any) -> Any:
    """The axes given, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def legend_of(ax: Any, **options: Any) -> Any:
    """A legend where something has a label, else nothing."""
    return ax.legend(frameon=False, **options) if ax.get_legend_handles_labels()[1] else None

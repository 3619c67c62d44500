"""A grid over the plane of two features, and the points on it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.displays.style import COLOURS


class Plane(NamedTuple):
    """The grid as two matrices, in the form that matplotlib's contours take, and the names of the features."""

    xx0: Array
    xx1: Array
    names: tuple[str, str]

    @classmethod
    def around(cls, X: Any, resolution: int, margin: float) -> Plane:
        """A grid over the samples X and ``margin`` more on each side, in units of the standard deviation of each feature."""
        points = two_features(X)
        room = margin * points.std(axis=0)
        low, high = points.min(axis=0) - room, points.max(axis=0) + room
        xx0, xx1 = np.meshgrid(*(np.linspace(low[j], high[j], resolution) for j in (0, 1)))
        return cls(xx0, xx1, names_of(X))

    def values(self, function: Any, X: Any) -> Any:
        """``function`` at every point of the grid, which goes in as the type that X has."""
        grid: Any = np.column_stack([self.xx0.ravel(), self.xx1.ravel()])
        if hasattr(X, "columns"):
            grid = type(X)(dict(zip(X.columns, grid.T, strict=True)))
        return function(grid)


def two_features(X: Any) -> Array:
    """X as an array of two columns."""
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"A plane has two features; X has shape {points.shape}.")
    return points


def names_of(X: Any) -> tuple[str, str]:
    """The names of the columns of a table, or plain ones."""
    first, second = getattr(X, "columns", ("feature 0", "feature 1"))
    return str(first), str(second)


def draw_points(ax: Any, points: Array, y: Any, classes: Array) -> list[Any]:
    """The samples, a colour for each class."""
    y = np.asarray(y)
    return [
        ax.scatter(
            *points[y == label].T, s=18, color=COLOURS[k % len(COLOURS)], edgecolors="white", linewidths=0.5, label=str(label)
        )
        for k, label in enumerate(classes)
    ]

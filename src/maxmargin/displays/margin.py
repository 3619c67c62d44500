"""The margin of two classes in the plane, and the support vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.displays.plane import Plane, draw_points, two_features
from maxmargin.displays.style import QUIET, axes_of, legend_of


class MarginDisplay:
    """The boundary, the two lines of margin one, and the support vectors, for two classes and two features.

    Parameters
    ----------
    xx0, xx1 : arrays of shape (resolution, resolution)
        The grid.
    values : array of the same shape
        The decision value at each point.
    support : array of shape (n_support, 2)
        The samples that hold the boundary in place.
    names : (str, str)
        What the features are called.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    contours_ : matplotlib QuadContourSet
        The decision values -1, 0 and 1.
    rings_ : matplotlib PathCollection
        A ring around each support vector.
    points_ : list of matplotlib PathCollection
        The samples.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from maxmargin import LinearSVC, MarginDisplay
    >>> X, y = make_blobs(centers=2, random_state=0)
    >>> display = MarginDisplay.from_estimator(LinearSVC(loss="hinge").fit(X, y), X, y)
    >>> display.contours_.levels.tolist()
    [-1.0, 0.0, 1.0]
    """

    def __init__(self, *, xx0: Array, xx1: Array, values: Array, support: Array, names: tuple[str, str] = ("", "")) -> None:
        self.xx0, self.xx1, self.values, self.support, self.names = xx0, xx1, values, support, names

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, grid_resolution: int = 200, margin: float = 0.6, ax: Any = None, **kwargs: Any
    ) -> MarginDisplay:
        """Compute the decision values of a grid around the training data, and draw them.

        Parameters
        ----------
        estimator : fitted LinearSVC or SVC of two features and two classes
        X : matrix or table of shape (n_samples, 2)
            The data that it was fitted to.
        y : array of shape (n_samples,)
        grid_resolution : int, default 200
            Points of the grid on each side.
        margin : float, default 0.6
            How far the grid reaches beyond X, in standard deviations of each feature.
        ax : matplotlib Axes, optional
        **kwargs
            For ``plot``.
        """
        if len(estimator.classes_) != 2:
            raise ValueError(f"A margin lies between two classes; the model has {len(estimator.classes_)}.")
        plane, points = Plane.around(X, grid_resolution, margin), two_features(X)
        values = plane.values(estimator.decision_function, X).reshape(plane.xx0.shape)
        support = points[_support(estimator, X, points, y)]
        display = cls(xx0=plane.xx0, xx1=plane.xx1, values=values, support=support, names=plane.names).plot(ax=ax, **kwargs)
        display.points_ = draw_points(display.ax_, points, y, estimator.classes_)
        legend_of(display.ax_, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return display

    def plot(self, ax: Any = None, *, color: str = QUIET) -> MarginDisplay:
        """Draw on ``ax``, or on new axes; ``color`` is that of the lines."""
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        self.points_: list[Any] = []
        self.contours_ = self.ax_.contour(
            self.xx0, self.xx1, self.values, levels=[-1.0, 0.0, 1.0], colors=[color], linestyles=["--", "-", "--"]
        )
        self.ax_.clabel(self.contours_, fmt="%+g", fontsize=8)
        label = f"support vectors ({len(self.support)})"
        self.rings_ = self.ax_.scatter(
            *self.support.T, s=90, facecolors="none", edgecolors=color, linewidths=1.3, zorder=3, label=label
        )
        self.ax_.set(xlabel=self.names[0], ylabel=self.names[1])
        return self


def _support(estimator: Any, X: Any, points: Array, y: Any) -> Array:
    """Which samples are support vectors.

    A linear model keeps no list of them. A sample of margin m is none at the exact optimum where m - r |x| > 1, with the
    distance bound r of the certificate; all others are counted."""
    if hasattr(estimator, "support_"):
        return np.asarray(estimator.support_)
    signs = np.where(np.asarray(y) == estimator.classes_[1], 1.0, -1.0)
    is_penalised = estimator.fit_intercept and estimator.penalize_intercept
    lengths = np.hypot(np.linalg.norm(points, axis=1), estimator.intercept_scaling if is_penalised else 0.0)
    reach = estimator.certificate_.distance_bound * lengths + estimator.offset_bound_
    return np.flatnonzero(signs * estimator.decision_function(X) - reach <= 1.0)

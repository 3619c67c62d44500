"""The labels of the plane, and the band around the boundary where they are not proved."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.displays.plane import Plane, draw_points, two_features
from maxmargin.displays.style import COLOURS, QUIET, axes_of, legend_of


class CertifiedRegionDisplay:
    """The label of every point of the plane, and the band where the exact optimum may give another.

    Outside the band every label is proved: no matter where in the distance bound of the certificate the exact optimum is,
    it gives the same label. The smaller the gap, the thinner the band.

    Parameters
    ----------
    xx0, xx1 : arrays of shape (resolution, resolution)
        The grid.
    codes : array of the same shape
        The number of the label at each point.
    proved : array of bool of the same shape
        Where the label is proved.
    classes : array
        The labels.
    names : (str, str)
        What the features are called.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    surface_ : matplotlib QuadContourSet
        The labels.
    band_ : matplotlib QuadContourSet
        Where they are not proved.
    points_ : list of matplotlib PathCollection
        The samples, if they were given.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC, CertifiedRegionDisplay
    >>> X, y = make_moons(200, noise=0.3, random_state=0)
    >>> model = SVC(C=100.0, tol=1e-6, solver="smo").fit(X, y)
    >>> display = CertifiedRegionDisplay.from_estimator(model, X, y=y, grid_resolution=50)
    >>> bool(0.0 < display.proved.mean() < 1.0)
    True
    """

    def __init__(
        self, *, xx0: Array, xx1: Array, codes: Array, proved: Array, classes: Array, names: tuple[str, str] = ("", "")
    ) -> None:
        self.xx0, self.xx1, self.codes, self.proved, self.classes, self.names = xx0, xx1, codes, proved, classes, names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        y: Any = None,
        grid_resolution: int = 200,
        margin: float = 0.6,
        ax: Any = None,
        **kwargs: Any,
    ) -> CertifiedRegionDisplay:
        """Compute the labels of a grid around X with ``certified_predict``, and draw them.

        Parameters
        ----------
        estimator : fitted LinearSVC or SVC of two features
        X : matrix or table of shape (n_samples, 2)
        y : array of shape (n_samples,), optional
            The labels of X. With them the samples are drawn too.
        grid_resolution : int, default 200
            Points of the grid on each side.
        margin : float, default 0.6
            How far the grid reaches beyond X, in standard deviations of each feature.
        ax : matplotlib Axes, optional
        **kwargs
            For ``plot``.
        """
        plane = Plane.around(X, grid_resolution, margin)
        labels, proved = plane.values(estimator.certified_predict, X)
        display = cls(
            xx0=plane.xx0,
            xx1=plane.xx1,
            codes=np.searchsorted(estimator.classes_, labels).reshape(plane.xx0.shape),
            proved=proved.reshape(plane.xx0.shape),
            classes=estimator.classes_,
            names=plane.names,
        ).plot(ax=ax, **kwargs)
        display.points_ = [] if y is None else draw_points(display.ax_, two_features(X), y, estimator.classes_)
        legend_of(display.ax_, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return display

    def plot(self, ax: Any = None, *, alpha: float = 0.25) -> CertifiedRegionDisplay:
        """Draw on ``ax``, or on new axes; ``alpha`` is the opacity of the labels' colours."""
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        self.points_: list[Any] = []
        n_classes = len(self.classes)
        colours = [COLOURS[k % len(COLOURS)] for k in range(n_classes)]
        levels = np.arange(n_classes + 1) - 0.5
        self.surface_ = self.ax_.contourf(self.xx0, self.xx1, self.codes, levels=levels, colors=colours, alpha=alpha)
        self.band_ = self._draw_band()
        for boundary in levels[1:-1]:
            self.ax_.contour(self.xx0, self.xx1, self.codes, levels=[boundary], colors=[QUIET], linewidths=1.2)
        self.ax_.set(xlabel=self.names[0], ylabel=self.names[1])
        return self

    def _draw_band(self) -> Any:
        label = f"not proved ({100.0 * (1.0 - self.proved.mean()):.3g}% of the picture)"
        look: dict[str, Any] = {"alpha": 0.55}
        self.ax_.fill(
            [np.nan], [np.nan], facecolor=QUIET, hatch="////", edgecolor="white", label=label, **look
        )  # for the legend
        band = self.ax_.contourf(
            self.xx0, self.xx1, (~self.proved).astype(float), levels=[0.5, 1.5], colors=[QUIET], hatches=["////"], **look
        )
        band.set_edgecolor("white")
        band.set_linewidth(0.0)
        return band

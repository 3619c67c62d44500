"""The scores of a search over C, with what is proved of them; and the coefficients along a path."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.displays.style import COLOURS, QUIET, axes_of, legend_of


class ModelSelectionDisplay:
    """The mean score of every C as a point, the band in which the score of the exact optimum is proved to be, and over a
    range the ceiling that no C exceeds.

    Make one with :meth:`from_estimator`.

    Parameters
    ----------
    Cs : array of shape (n_Cs,)
    scores : array of shape (n_Cs,)
        Mean scores; NaN where a value was given up.
    low, high : arrays of shape (n_Cs,)
        Bounds on the mean scores.
    best : float
        The C that was chosen.
    ceilings : array of shape (n_Cs - 1,), optional
        Over a range: the greatest score between two neighbours.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : matplotlib Line2D
    band_ : matplotlib collection or None
    ceiling_ : matplotlib StepPatch or None

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import LinearSVCCV, ModelSelectionDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = LinearSVCCV(Cs=[0.01, 0.1, 1.0], tol=1e-8).fit(StandardScaler().fit_transform(X), y)
    >>> ModelSelectionDisplay.from_estimator(search).ax_.get_xlabel()
    'C'
    """

    def __init__(
        self, *, Cs: Array, scores: Array, low: Array, high: Array, best: float, ceilings: Array | None = None
    ) -> None:
        self.Cs, self.scores, self.low, self.high = Cs, scores, low, high
        self.best, self.ceilings = best, ceilings

    @classmethod
    def from_estimator(cls, search: Any, *, ax: Any = None) -> ModelSelectionDisplay:
        """Draw a fitted LinearSVCCV or SVCCV; of several gammas the best one.

        Parameters
        ----------
        search : fitted LinearSVCCV or SVCCV
        ax : matplotlib Axes, optional
        """
        if not hasattr(search, "score_bounds_"):
            raise ValueError(f"This {type(search).__name__} is not a fitted search over C.")
        scores, bounds = search.scores_, search.score_bounds_
        if scores.ndim == 3:
            g = int(np.flatnonzero(search.gammas_ == search.gamma_)[0])
            scores, bounds = scores[:, g], bounds[:, :, g]
        low, high = bounds.mean(axis=1)
        ceilings = getattr(search, "ceilings_", None)
        return cls(Cs=search.Cs_, scores=scores.mean(axis=0), low=low, high=high, best=search.C_, ceilings=ceilings).plot(ax=ax)

    def plot(self, ax: Any = None) -> ModelSelectionDisplay:
        """Draw on ``ax``, or on new axes."""
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        self.band_ = self._draw_band()
        self.ceiling_ = self._draw_ceiling()
        (self.points_,) = self.ax_.plot(self.Cs, self.scores, "o", markersize=4.0, color=COLOURS[0], label="fits")
        self.ax_.axvline(self.best, color=COLOURS[1], linestyle="--", linewidth=1.2, label=f"best: C = {self.best:.3g}")
        self.ax_.set(xscale="log", xlabel="C", ylabel="cross-validated score")
        self.ax_.grid(visible=True, which="major", color=QUIET, alpha=0.3)
        self._zoom()
        legend_of(self.ax_, loc="best")
        return self

    def _draw_band(self) -> Any:
        known = np.isfinite(self.low) & np.isfinite(self.high)
        if not known.any():
            return None
        label = "proved for the exact optimum"
        return self.ax_.fill_between(
            self.Cs[known], self.low[known], self.high[known], color=COLOURS[0], alpha=0.2, linewidth=0.0, label=label
        )

    def _draw_ceiling(self) -> Any:
        if self.ceilings is None:
            return None
        return self.ax_.stairs(self.ceilings, self.Cs, baseline=None, color=COLOURS[2], linewidth=1.4, label="no C is above")

    def _zoom(self) -> None:
        """Limit the axis to the scores: a band from zero to one would hide them."""
        seen = self.scores[np.isfinite(self.scores)]
        tops = seen if self.ceilings is None else np.append(seen, self.ceilings)
        if len(seen):
            room = max(0.02, 0.15 * float(tops.max() - seen.min()))
            self.ax_.set_ylim(float(seen.min()) - room, min(1.0 + room, float(tops.max()) + room))


class PathDisplay:
    """The coefficients along a path, and the number of support vectors.

    Make one with :meth:`from_path`.

    Parameters
    ----------
    Cs : array of shape (n_knots,)
    coefs : array of shape (n_knots, n_lines)
        What is drawn as lines.
    n_support : array of shape (n_knots,)

    Attributes
    ----------
    ax_ : matplotlib Axes
    support_ax_ : matplotlib Axes
        That of the support vectors, on the right.
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import maxmargin
    >>> path = maxmargin.path(maxmargin.LinearSVC(), *load_breast_cancer(return_X_y=True), Cs=[1e-4, 1e-3])
    >>> len(maxmargin.PathDisplay.from_path(path).lines_)
    20
    """

    def __init__(self, *, Cs: Array, coefs: Array, n_support: Array) -> None:
        self.Cs, self.coefs, self.n_support = Cs, coefs, n_support

    @classmethod
    def from_path(cls, path: Any, *, n_lines: int = 20, ax: Any = None) -> PathDisplay:
        """Draw a :class:`maxmargin.Path`: the coefficients that are greatest somewhere on it.

        Parameters
        ----------
        path : Path
        n_lines : int, default 20
            Lines at most.
        ax : matplotlib Axes, optional
        """
        coefs = path.coefs
        chosen = np.sort(np.argsort(-np.abs(coefs).max(axis=0), kind="stable")[:n_lines])
        return cls(Cs=path.Cs, coefs=coefs[:, chosen], n_support=path.n_support).plot(ax=ax)

    def plot(self, ax: Any = None) -> PathDisplay:
        """Draw on ``ax``, or on new axes."""
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        self.lines_ = self.ax_.plot(self.Cs, self.coefs, linewidth=1.2)
        for k, line in enumerate(self.lines_):
            line.set_color(COLOURS[k % len(COLOURS)])
        self.ax_.set(xscale="log", xlabel="C", ylabel="coefficients")
        self.ax_.grid(visible=True, which="major", color=QUIET, alpha=0.3)
        self.support_ax_ = self.ax_.twinx()
        self.support_ax_.plot(self.Cs, self.n_support, color=QUIET, linestyle=":", linewidth=1.6)
        self.support_ax_.set_ylabel("support vectors (dotted)")
        return self

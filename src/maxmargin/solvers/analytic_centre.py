r"""A point far inside of a box that solves linear equations, if there is one.

Newton's method for the analytic centre, begun at a point that solves no equation (S. Boyd and L. Vandenberghe, "Convex
Optimization", 2004, section 10.3): it minimises :math:`-\sum_i \log x_i + \log(c_i - x_i)` where :math:`B' x = b`. A step of
length t leaves 1 - t of what the equations lack. Each step is one problem of least squares, in which every equation is brought
to unit length, so that the scales of the equations drop out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array


@dataclass(frozen=True)
class CentrePolicy:
    """How far the steps go, and when they end."""

    most_steps: int = 60
    """Where there is a point, raw tables of 38 to 500 rows took 8 to 40 steps."""
    to_the_bound: float = 0.9
    """Share of the way to the nearest bound that a step goes at most."""
    shortest: float = 1e-4
    """A step that is shorter than this share of the whole one says that there is no such point."""
    centring: int = 3
    """Whole steps after which the point is far enough inside."""
    cutoff: float = 2.0**-50
    """Share of the greatest singular value below which one counts as zero."""


DEFAULT = CentrePolicy()


def centre(B: Array, b: Array, upper: Array, start: Array, policy: CentrePolicy = DEFAULT) -> Array | None:
    """A point inside of the box with B' x = b, but for rounding. ``start`` is inside of the box. None where the steps find
    none."""
    x, n_whole = start, 0
    with np.errstate(all="ignore"):
        for _ in range(policy.most_steps):
            check_point()
            dx = _step(B, b, upper, x, policy.cutoff)
            length = min(1.0, policy.to_the_bound * _longest(x, upper, dx))
            if not (np.isfinite(dx).all() and length > policy.shortest):
                return None
            x = x + length * dx
            n_whole += length == 1.0
            if n_whole == policy.centring:
                return x
    return None


def _step(B: Array, b: Array, upper: Array, x: Array, cutoff: float) -> Array:
    """Newton's step in units of the root of the barrier's second derivatives."""
    unit = 1.0 / np.sqrt(1.0 / np.square(x) + 1.0 / np.square(upper - x))
    downhill = unit * (1.0 / x - 1.0 / (upper - x))
    columns = B * unit[:, None]
    lengths = np.linalg.norm(columns, axis=0)
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    columns = columns / lengths
    missing = (b - B.T @ x) / lengths - columns.T @ downhill
    if not np.isfinite(columns).all():
        return np.full_like(x, np.nan)
    return np.asarray(unit * (downhill + np.linalg.lstsq(columns.T, missing, rcond=cutoff)[0]))


def _longest(x: Array, upper: Array, dx: Array) -> float:
    """The longest step that stays within the box."""
    room = np.where(dx < 0.0, x, upper - x)
    moves = np.abs(dx)
    return float(np.min(room[moves > 0.0] / moves[moves > 0.0], initial=np.inf))

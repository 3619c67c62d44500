"""The quadratic program of :mod:`maxmargin.solvers.interior_point`, and the settings of that method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.offset import best_offsets


@dataclass(frozen=True)
class InteriorPolicy:
    """How far the steps go, and when they end."""

    most_steps: int = 100
    """The usual number is 15 to 40."""
    idle_steps: int = 8
    """Steps, one after the other, that do not make the gap smaller: rounding is reached."""
    to_the_bound: float = 0.995
    """A step goes at most this share of the way to the nearest bound."""
    ridge: float = 1e-14
    """Added to the ones on the diagonal of a scaled system, so that a factor exists where columns depend on each other."""
    refinements: int = 2
    """How often the residual of a system is solved for. With none the gap of RBF kernels stood still at 1e-10."""
    short_steps: int = 3
    """Steps of least squares to w = 0: the first leaves what rounding makes of it, the others what is left of that."""
    least_directions: tuple[float, ...] = (1e-12, 1e-9, 1e-6, 1e-3)
    """Directions of w that are shorter than this share of the longest are not looked at in these steps; each is tried."""
    zero_directions: tuple[float, ...] = (2.0**-52, 1e-12)
    """The same where directions are made equal: with all of them first, with those that rounding has not made next."""
    face_steps: int = 3
    """Newton steps to the optimum with the free variables alone: one, and two for what its rounding has left."""
    most_decomposed: int = 1024
    """The largest system that is solved by its singular values, on the face and for w = 0. Of twice the size it takes ten
    seconds, in which no limit is heard. An estimate."""
    aim: float = 1e-3
    """Relative gap to reach, as a share of the target, where the point is offered to a judge: nearly at the optimum the steps
    are cheap, and a point that is refused costs a whole certificate."""
    at_bound: float = 1e-7
    """A variable this near to a bound, as a share of its box, is moved there, if its multiplier says so."""


class Program(NamedTuple):
    """The quadratic program. ``groups`` has a column of zeros and ones for each sum. ``shift`` is added to the gradient: what
    the factor has lost of it."""

    M: Array
    w0: Array
    q: Array
    c: Array
    groups: Array
    totals: Array
    shift: Array | float = 0.0

    def weights(self, x: Array) -> Array:
        return np.asarray(self.w0 + self.M.T @ x)

    def gradient(self, x: Array, w: Array | None = None) -> Array:
        return np.asarray(self.M @ (self.weights(x) if w is None else w) - self.q + self.shift)

    def thresholds(self, gradient: Array) -> Array:
        """The best threshold of each group."""
        found = []
        for members, total in zip(self.groups.T > 0.0, self.totals, strict=True):
            found.append(best_offsets(gradient[members], self.c[members], float(total)).middle)
        return np.array(found)

    def gap(self, x: Array, w: Array | None = None) -> float:
        gradient = self.gradient(x, w)
        h = self.groups @ self.thresholds(gradient) - gradient
        apart = 0.0 if w is None else self.weights(x) - w
        return float(np.sum((self.c - x) * np.maximum(0.0, h) + x * np.maximum(0.0, -h)) + 0.5 * np.dot(apart, apart))

    def value(self, x: Array) -> float:
        """The magnitude of the value that is minimised."""
        w = self.weights(x)
        return abs(0.5 * float(w @ w) - float(self.q @ x))

    def gram(self) -> Array | None:
        """M M', where a system of its size takes less work than one of the columns of M: n^3 / 3 and n k^2 multiplications, for
        n rows and k columns. None elsewhere."""
        n, k = self.M.shape
        return np.asarray(self.M @ self.M.T) if 3 * k * k >= n * n else None

    def inside(self) -> Array:
        """A point with the right sums and as far from the bounds as can be."""
        shares = self.totals / (self.groups.T @ self.c)
        return np.asarray((self.groups @ shares) * self.c)

    def with_sums(self, x: Array) -> Array:
        """x with its sums brought back to what they are to be. Rounding of the steps has moved them a little."""
        size = np.minimum(x, self.c - x)
        lacking = (self.totals - self.groups.T @ x) / (self.groups.T @ size)
        return np.asarray(x + size * (self.groups @ lacking))

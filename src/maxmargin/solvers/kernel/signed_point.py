"""Where a solver of kernel problems stands, in signed variables: s_i = y_i alpha_i in its box, and the outputs f = K s.

The dual is D(s) = y . s - s . K s / 2, its gradient v = y - f. With an offset s adds up to zero, and v - b takes the place of
v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.rows import Array
from maxmargin.solvers.kernel.batched_smo_loops import best_offset, extremes, gap_and_dual


class Measure(NamedTuple):
    """How far a point is from optimal. ``top`` is the greatest v that can rise, ``bottom`` the least v that can fall; without
    an offset both are compared with 0."""

    top: float
    bottom: float
    b: float
    gap: float
    dual: float

    @property
    def violation(self) -> float:
        """LIBSVM's measure: zero at the optimum."""
        return max(0.0, self.top - self.bottom)

    def relative(self, is_definite: bool) -> float:
        """The relative gap; LIBSVM's violation where the kernel is not positive semidefinite, and a gap proves nothing."""
        return relative(self.gap, self.dual + self.gap, self.dual) if is_definite else self.violation


@dataclass
class SignedPoint:
    """s in its box, and f = K s as far as it is known."""

    y: Array
    lower: Array
    upper: Array
    s: Array
    f: Array

    @property
    def v(self) -> Array:
        """The gradient of the dual."""
        return self.y - self.f

    @property
    def alpha(self) -> Array:
        return np.abs(self.s)

    @property
    def is_free(self) -> Array:
        """Strictly inside the box."""
        mask: Array = (self.lower < self.s) & (self.s < self.upper)
        return mask

    @property
    def n_free(self) -> int:
        return int(np.count_nonzero(self.is_free))

    def at(self, samples: Array) -> SignedPoint:
        """The point at some of the samples."""
        return SignedPoint(*(array[samples] for array in (self.y, self.lower, self.upper, self.s, self.f)))

    def measure(self, has_offset: bool, b: float | None = None) -> Measure:
        """The violation, the best offset unless one is given, and the gap and the dual value at this offset."""
        v = self.v
        top, bottom = extremes(v, self.s, self.lower, self.upper)
        if not has_offset:
            top, bottom, b = max(top, 0.0), min(bottom, 0.0), 0.0
        elif b is None:
            b = best_offset(v, self.lower, self.upper)
        gap, dual = gap_and_dual(v, self.y, self.s, self.lower, self.upper, b)
        return Measure(top, bottom, b, gap, dual)

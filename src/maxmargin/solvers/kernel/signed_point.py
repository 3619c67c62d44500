"""Where a solver of kernel problems stands, in signed variables: s_i = y_i alpha_i in its box, and the outputs f = K s.

The dual is D(s) = y . s - epsilon |s| - s . K s / 2, with epsilon = 0 but for the tube of regression, and v = y - f. With an
offset s adds up to zero, and v - b takes the place of v.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.rows import Array
from maxmargin.solvers.kernel.batched_smo_loops import best_offset, extremes, gap_and_dual
from maxmargin.solvers.kernel.units import LABELS, Cells, Units, cells_of


class Measure(NamedTuple):
    """How far a point is from optimal. ``top`` is the greatest slope of what can rise, ``bottom`` the least of what can fall;
    without an offset both are compared with 0."""

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
    """s in its box, and f = K s as far as it is known, in the units of the targets."""

    y: Array
    lower: Array
    upper: Array
    s: Array
    f: Array
    units: Units = field(default=LABELS, kw_only=True)

    @property
    def v(self) -> Array:
        """The gradient of the dual, without the tube's."""
        return self.y - self.f

    @property
    def alpha(self) -> Array:
        return self.units.alpha_of(self.s)

    @property
    def is_free(self) -> Array:
        """Strictly inside the box, and not at the kink."""
        mask: Array = (self.lower < self.s) & (self.s < self.upper)
        return mask & (self.s != 0.0) if self.units.epsilon else mask

    @property
    def n_free(self) -> int:
        return int(np.count_nonzero(self.is_free))

    @property
    def slopes(self) -> tuple[Array, Array]:
        """The slopes of the dual, where s_i rises and where it falls."""
        v, epsilon = self.v, self.units.epsilon
        if epsilon == 0.0:
            return v, v
        return v - np.where(self.s >= 0.0, epsilon, -epsilon), v - np.where(self.s > 0.0, epsilon, -epsilon)

    def cell_errors(self, b: float) -> Array:
        """The slopes at the offset b in the cells: zero where a sample is on the edge of its tube, or has a margin of one."""
        error = self.v - b
        return error - self.cells(error).shift

    def cells(self, error: Array) -> Cells:
        return cells_of(self.s, error, self.lower, self.upper, self.units.epsilon)

    def at(self, samples: Array) -> SignedPoint:
        """The point at some of the samples."""
        return SignedPoint(*(array[samples] for array in (self.y, self.lower, self.upper, self.s, self.f)), units=self.units)

    def measure(self, has_offset: bool, b: float | None = None) -> Measure:
        """The violation, the best offset unless one is given, and the gap and the dual value at this offset."""
        v, epsilon = self.v, self.units.epsilon
        top, bottom = extremes(v, self.s, self.lower, self.upper, epsilon)
        if not has_offset:
            top, bottom, b = max(top, 0.0), min(bottom, 0.0), 0.0
        elif b is None:
            b = best_offset(v, self.lower, self.upper, epsilon)
        gap, dual = gap_and_dual(v, self.y, self.s, self.lower, self.upper, b, epsilon)
        return Measure(top, bottom, b, gap, dual)

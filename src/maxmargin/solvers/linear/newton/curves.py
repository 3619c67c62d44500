"""The dual terms of a loss, in the form that the passes of Newton's method take: p_i alpha_i - e |alpha_i| - D_ii alpha_i^2 / 2
with D_ii = softness / C_i, and the bounds of alpha_i. A pass is compiled for each type."""

from __future__ import annotations

from typing import NamedTuple

from maxmargin.data.rows import Array


class Curve(NamedTuple):
    """Two classes: one target and one lower bound for all samples, and no kink."""

    C: Array
    U: Array
    lower: float
    target: float
    softness: float

    @property
    def epsilon(self) -> float:
        return 0.0

    @property
    def is_tube(self) -> bool:
        return False

    @property
    def is_smooth(self) -> bool:
        """Whether the loss has a derivative everywhere, so that Newton needs no proximal term."""
        return self.softness > 0.0


class Tube(NamedTuple):
    """Regression: a target and a lower bound for each sample, and the kink -epsilon |alpha_i|."""

    C: Array
    U: Array
    lower: Array
    target: Array
    softness: float
    epsilon: float

    @property
    def is_tube(self) -> bool:
        return True

    @property
    def is_smooth(self) -> bool:
        """Whether the loss has a derivative everywhere, as for ``Curve``."""
        return self.softness > 0.0

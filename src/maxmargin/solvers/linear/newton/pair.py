"""A primal and a dual point that answer each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.data.rows import Array


@dataclass
class PrimalDualPair:
    """A primal point, the dual point that responds to it, and the gap between them."""

    gap: float
    w: Array
    alpha: Array

    def take(self, gap: float, w: Array, alpha: Array) -> None:
        self.gap = gap
        np.copyto(self.w, w)
        np.copyto(self.alpha, alpha)

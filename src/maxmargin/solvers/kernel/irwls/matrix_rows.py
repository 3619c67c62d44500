"""Kernel rows for IRWLS from a matrix that is held whole, in the place of ``maxmargin.solvers.kernel.active_rows``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.rows import MEGABYTE
from maxmargin.problem.kernel import KernelProblem
from maxmargin.solvers.kernel.active_rows import ActiveRows


@dataclass(frozen=True)
class MatrixRows:
    """``padded`` is the matrix, which may have zeros beyond the rows and columns of the n samples."""

    padded: Array
    n: int
    kernel_evaluations: ClassVar[int] = 0
    """Beyond those of the matrix, which belongs to the problem."""

    def block(self, chosen: Array) -> Array:
        """k(x_i, x_j) for the chosen i and j."""
        values: Array = self.padded[np.ix_(chosen, chosen)]
        return values

    def add_to(self, f: Array, chosen: Array, scales: Array) -> None:
        """f += sum_k scales_k K[chosen_k, :]."""
        f += scales @ self.padded[chosen, : self.n]

    def narrow_to(self, samples: Array) -> None:
        """Nothing is computed, so that shorter rows save nothing."""

    def widen(self) -> None:
        """All columns are there."""


def rows_of(problem: KernelProblem, cache_mb: float) -> MatrixRows | ActiveRows:
    """From the matrix that the problem holds where its samples are few, if it fits in the budget; else computed and kept."""
    held = problem.held
    if held is None or held.padded.nbytes > cache_mb * MEGABYTE:
        return ActiveRows(problem, cache_mb)
    return MatrixRows(held.padded, held.n)

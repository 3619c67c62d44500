"""Systems with more unknowns than equations, whose columns differ by many orders of magnitude."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array


class RowFactor(NamedTuple):
    """A = L Q' with independent rows of A, made of rows of length one. The columns of A, which may differ by many orders of
    magnitude, are sorted: reflections are then stable column by column (Cox and Higham, as in ``level_mending.py``)."""

    lengths: Array
    order: Array
    Q: Array
    R: Array
    chosen: Array

    @classmethod
    def of(cls, A: Array, cutoff: float) -> RowFactor:
        from scipy.linalg import qr

        lengths = np.abs(A).max(axis=1, initial=0.0)
        lengths[lengths == 0.0] = 1.0
        scaled = A / lengths[:, None]
        order = np.argsort(-np.abs(scaled).max(axis=0, initial=0.0), kind="stable")
        Q, R, places = qr(scaled.T[order], mode="economic", pivoting=True)
        sizes = np.abs(np.diag(R))
        rank = int(np.count_nonzero(sizes > cutoff * sizes.max(initial=0.0)))
        return cls(lengths, order, Q[:, :rank], R[:rank, :rank], places[:rank])

    @property
    def rank(self) -> int:
        return len(self.chosen)

    def normal(self, missing: Array) -> Array:
        """y with A A' y = missing; zero for the rows that depend on others."""
        from scipy.linalg import solve_triangular

        found = np.zeros(len(missing))
        found[self.chosen] = solve_triangular(self.R, self._reduced(missing)) / self.lengths[self.chosen]
        return found

    def shortest(self, missing: Array) -> Array:
        """The shortest v with A v = missing."""
        found = np.zeros(len(self.order))
        found[self.order] = self.Q @ self._reduced(missing)
        return found

    def fewest(self, missing: Array) -> Array:
        """A v with A v = missing that has as many elements as A has rank: those with the longest columns."""
        from scipy.linalg import qr

        found, rows = np.zeros(len(self.order)), (self.Q @ self.R).T
        columns = qr(rows, mode="r", pivoting=True)[1][: self.rank]
        found[self.order[columns]] = np.linalg.solve(rows[:, columns], (missing / self.lengths)[self.chosen])
        return found

    def _reduced(self, missing: Array) -> Array:
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self.R, (missing / self.lengths)[self.chosen], trans="T"))

r"""The kernel SVM, in mathematics and with no algorithm.

With :math:`f_i = \sum_j \alpha_j y_j k(x_j, x_i)`, margins :math:`m_i = y_i (f_i + b)` and :math:`|w|^2 = \sum_i \alpha_i
y_i f_i`:

.. math:: P(\alpha, b) = \tfrac12 |w|^2 + \sum_i C_i \max(0, 1 - m_i), \qquad
          D(\alpha) = \sum_i \alpha_i - \tfrac12 |w|^2, \qquad 0 \le \alpha_i \le C_i .

With an offset b the dual has the constraint :math:`\sum_i \alpha_i y_i = 0`, and P is minimised over b, exactly: it is
piecewise linear in b, with a kink at each :math:`y_i - f_i`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data import Array, Rows
from maxmargin.kernel_matrix import MOST_SAMPLES, HeldValues, held_values
from maxmargin.kernels import RBF, Kernel, Points, Precomputed
from maxmargin.losses import Hinge
from maxmargin.problem import costs_of, signs_of

SYMMETRY = 1e-8
"""A precomputed kernel may be unsymmetric by this much, relative to its greatest element: rounding, not a mistake."""


class SignedVariables(NamedTuple):
    """s_i = y_i alpha_i, and its bounds."""

    y: Array
    lower: Array
    upper: Array
    s: Array


@dataclass(frozen=True, eq=False)
class KernelProblem:
    """max D(alpha) over the box, and over sum_i alpha_i y_i = 0 if ``has_offset``. ``matrix`` gives the whole kernel matrix
    where several problems share its parts."""

    rows: Rows
    y: Array
    C: Array
    kernel: Kernel
    has_offset: bool = True
    matrix: Callable[[], HeldValues] | None = field(default=None, repr=False, kw_only=True)

    @classmethod
    def build(cls, X: Any, y: Any, C: Any, kernel: Kernel, has_offset: bool = True, *, check: bool = True) -> KernelProblem:
        """Check everything; a kernel that is not one of ours must have ``block`` and ``diagonal``. ``check=False`` trusts that
        scikit-learn's ``check_array`` has seen X already."""
        if isinstance(kernel, type) or not hasattr(kernel, "block"):
            raise TypeError(f"kernel must be a kernel object such as RBF(gamma=1.0); got {kernel!r}.")
        rows = Rows.from_matrix(X, check=check)
        if isinstance(kernel, Precomputed):
            _check_gram(rows)
        return cls(rows, signs_of(y, rows), costs_of(C, rows), kernel, bool(has_offset))

    @property
    def n_samples(self) -> int:
        return self.rows.n_samples

    @property
    def loss(self) -> Hinge:
        return Hinge()

    @cached_property
    def signs(self) -> Array:
        """y in float64: NumPy is slow where types are mixed."""
        return self.y.astype(np.float64)

    @cached_property
    def positive_cost(self) -> float:
        """The sum of the C_i of the positive class."""
        return float(self.C[self.y > 0].sum())

    @cached_property
    def points(self) -> Points:
        return Points.of(self.rows.matrix)

    @cached_property
    def diagonal(self) -> Array:
        if isinstance(self.kernel, RBF):  # needs no points
            return np.broadcast_to(1.0, self.n_samples)
        return self.kernel.diagonal(self.points)

    @cached_property
    def held(self) -> HeldValues | None:
        """The whole kernel matrix in float64, where the samples are few."""
        if self.matrix is not None:
            return self.matrix()
        return held_values(self.kernel, self.points) if self.n_samples <= MOST_SAMPLES else None

    @property
    def held_evaluations(self) -> int:
        """The values that the matrix took so far."""
        held: HeldValues | None = self.__dict__.get("held")
        return held.evaluations if held is not None else 0

    def gram(self, chosen: Any, among: Any) -> Array:
        """k(x_i, x_j) for the chosen i and the j among which, in float64."""
        if isinstance(self.kernel, Precomputed):
            part = self.rows.matrix[chosen][:, among]
            return np.asarray(part.toarray() if self.rows.is_sparse else part, dtype=np.float64)
        return self.kernel.block(self.points[chosen], self.points[among])

    def is_feasible(self, alpha: Array) -> bool:
        return bool(np.all((alpha >= 0.0) & (alpha <= self.C)))

    def nearest_feasible(self, alpha: Array) -> Array:
        """alpha clipped to its box; with an offset the heavier class is scaled down until sum_i alpha_i y_i = 0."""
        clipped: Array = np.clip(np.asarray(alpha, dtype=np.float64), 0.0, self.C)
        if self.has_offset:
            sums = {sign: float(clipped[self.y == sign].sum()) for sign in (1, -1)}
            heavier = max(sums, key=sums.__getitem__)
            if sums[heavier] > sums[-heavier]:
                clipped[self.y == heavier] *= sums[-heavier] / sums[heavier]
        return clipped

    def signed(self, alpha: Array | None) -> SignedVariables:
        """Where a solver in signed variables starts: at the nearest feasible point to alpha, or at zero."""
        y = self.signs
        s = np.zeros(len(y)) if alpha is None else y * self.nearest_feasible(alpha)
        farthest = y * self.C
        return SignedVariables(y, np.minimum(farthest, 0.0), np.maximum(farthest, 0.0), s)

    def best_offset(self, outputs: Array) -> float:
        """The b with the least sum_i C_i max(0, 1 - y_i (f_i + b)); the middle one if it is an interval; 0 without an offset.

        The slope of that sum is -(sum of the C_i of the positive class) far to the left, and rises by C_i at every kink."""
        if not self.has_offset:
            return 0.0
        kinks, costs = self.signs - outputs, self.C
        if costs.strides == (0,) and costs[0] > 0.0:  # one C for all: the slope is zero after as many kinks as are positive
            return _middle(kinks, int(np.count_nonzero(self.y > 0)))
        present = costs > 0.0
        order = np.argsort(kinks[present], kind="stable")
        kinks, costs = kinks[present][order], costs[present][order]
        slopes = np.cumsum(costs) - self.positive_cost
        tiny = 1e-14 * float(costs.sum())
        low = int(np.searchsorted(slopes, -tiny, side="left"))
        high = int(np.searchsorted(slopes, tiny, side="right"))
        last = len(kinks) - 1
        return float(0.5 * (kinks[min(low, last)] + kinks[min(high, last)]))


def _middle(kinks: Array, rank: int) -> float:
    """Between the kinks number ``rank`` and ``rank`` + 1 in ascending order, or the last of them."""
    ranks = [max(0, rank - 1), min(rank, len(kinks) - 1)]
    ordered = np.partition(kinks, ranks)
    return float(0.5 * (ordered[ranks[0]] + ordered[ranks[1]]))


def _check_gram(rows: Rows) -> None:
    n, d = rows.matrix.shape
    if n != d:
        raise ValueError(f"A precomputed kernel is a square matrix, one row and one column a sample; its shape is {(n, d)}.")
    pair = unequal_pair(rows.matrix)
    if pair is not None:
        i, j = pair
        here, there = float(rows.matrix[i, j]), float(rows.matrix[j, i])
        raise ValueError(f"A precomputed kernel must be symmetric; K[{i}, {j}] is {here:.9g} and K[{j}, {i}] is {there:.9g}.")


def unequal_pair(matrix: Any) -> tuple[int, int] | None:
    """The (i, j) with the greatest |K_ij - K_ji|, if that is more than rounding."""
    if not matrix.shape[0]:
        return None
    differences = abs(matrix - matrix.T)
    if float(differences.max()) <= SYMMETRY * float(abs(matrix).max()):
        return None
    i, j = np.unravel_index(int(differences.argmax()), matrix.shape)
    return int(i), int(j)

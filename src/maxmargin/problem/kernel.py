r"""The kernel SVM, in mathematics and with no algorithm.

With signs :math:`\sigma_i` (the labels, or 1 in regression), signed variables :math:`s_i = \sigma_i \alpha_i`,
:math:`f_i = \sum_j s_j k(x_j, x_i)` and :math:`|w|^2 = \sum_i s_i f_i`:

.. math:: P(\alpha, b) = \tfrac12 |w|^2 + \sum_i C_i \, \ell(\sigma_i (f_i + b), \, t_i), \qquad
          D(\alpha) = \sum_i \left(p_i \alpha_i - e |\alpha_i|\right) - \tfrac12 |w|^2, \qquad L_i \le \alpha_i \le U_i .

The loss is the hinge, or a piecewise linear loss of regression. With an offset b the dual has the constraint
:math:`\sum_i s_i = 0`. P is piecewise linear in b, and the hinge of a sample has its kink at :math:`y_i - f_i`, so P is
minimised over b exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin.data.rows import Array, Rows
from maxmargin.problem import policy
from maxmargin.problem.dual_box import DualBox, Kinks, Loss, repeated
from maxmargin.problem.held_values import HeldValues, ValueBounds, held_values
from maxmargin.problem.kernels import Kernel, Points
from maxmargin.problem.linear import costs_of, signs_of, targets_of
from maxmargin.problem.losses import Hinge
from maxmargin.problem.offset import TIE, balanced


class SignedVariables(NamedTuple):
    """s_i = sigma_i alpha_i, its bounds, and the slope y_i of its linear term in the dual."""

    y: Array
    lower: Array
    upper: Array
    s: Array


class EvenProblem(NamedTuple):
    """What a problem of few samples with hinge loss, an offset and one C for all samples consists of, where its kernel values
    are bounded by lengths: its kernel matrix, those bounds, the labels in float64, and C > 0."""

    held: HeldValues
    bounds: ValueBounds
    signs: Array
    C: float


class FastValues(Protocol):
    """Kernel values that outlive a problem: a ``maxmargin.kernel_matrix.matrix.KernelMatrix`` of its samples, or an object that
    makes one. The values are fast and not exact. Solvers read them, certificates never do."""

    @property
    def dtype(self) -> Any:
        """The element type of the values."""

    def for_one_solve(self) -> Any:
        """The kernel matrix, with a count of evaluations that begins with this solve."""


@dataclass(frozen=True, eq=False)
class KernelProblem:
    """max D(alpha) over the box, and over sum_i s_i = 0 if ``has_offset``. Where several problems share parts of a kernel
    matrix, ``matrix`` gives the whole matrix in float64. ``reads_all``: the solver for few samples reads all of its rows.
    ``fast_values`` are for solvers only."""

    rows: Rows
    y: Array
    C: Array
    kernel: Kernel
    has_offset: bool = True
    matrix: Callable[[], HeldValues] | None = field(default=None, repr=False, kw_only=True)
    reads_all: bool = field(default=False, repr=False, kw_only=True)
    fast_values: FastValues | None = field(default=None, repr=False, kw_only=True)
    loss: Loss = field(default_factory=Hinge, kw_only=True)

    @classmethod
    def build(
        cls,
        X: Any,
        y: Any,
        C: Any,
        kernel: Kernel,
        has_offset: bool = True,
        *,
        loss: Loss | None = None,
        check: bool = True,
        reads_all: bool = False,
    ) -> KernelProblem:
        """Check everything; a kernel that is not one of ours must inherit from ``Kernel``. ``check=False`` trusts that
        scikit-learn's ``check_array`` has seen X already."""
        if isinstance(kernel, type) or not hasattr(kernel, "gram"):
            raise TypeError(f"kernel must be a kernel object such as RBF(gamma=1.0); got {kernel!r}.")
        rows = Rows.from_matrix(X, check=check)
        if kernel.is_given:
            _check_gram(rows)
        loss = Hinge() if loss is None else loss
        if loss.is_smooth:
            raise TypeError(f"A kernel problem takes a piecewise linear loss such as Hinge(); got {loss!r}.")
        y = targets_of(y, rows) if loss.is_regression else signs_of(y, rows)
        problem = cls(rows, y, costs_of(C, rows), kernel, bool(has_offset), loss=loss, reads_all=reads_all)
        suited = kernel.suited_to(problem.points)
        return problem if suited is kernel else replace(problem, kernel=suited)

    @cached_property
    def n_samples(self) -> int:
        return self.rows.n_samples

    @cached_property
    def signs(self) -> Array:
        """sigma, the labels or ones, in float64: NumPy is slow where types are mixed."""
        return np.ones(self.n_samples) if self.loss.is_regression else self.y.astype(np.float64)

    @cached_property
    def targets(self) -> Array:
        """t: ones, or y in regression."""
        return self.y if self.loss.is_regression else repeated(1.0, self.n_samples)

    @cached_property
    def box(self) -> DualBox:
        return self.loss.dual(self.C, self.targets)

    @cached_property
    def points(self) -> Points:
        return Points.of(self.rows.matrix)

    @cached_property
    def diagonal(self) -> Array:
        if self.kernel.is_gaussian:  # needs no points
            return repeated(1.0, self.n_samples)
        if self.matrix is not None and self.held is not None and self.held.bounds is not None:
            return self.held.bounds.diagonal
        return self.kernel.diagonal(self.points)

    @cached_property
    def held(self) -> HeldValues | None:
        """The whole kernel matrix in float64, where the samples are few."""
        if self.matrix is not None:
            return self.matrix()
        is_small = self.n_samples <= policy.HELD.most_samples
        return held_values(self.kernel, self.points, self.reads_all) if is_small else None

    @cached_property
    def even(self) -> EvenProblem | None:
        """The problem in short, where it is that simple. One compiled call then finds all that its certificate needs."""
        is_even = self.has_offset and self.C.strides == (0,) and not self.loss.is_regression
        if not (is_even and self.n_samples and self.C[0] > 0.0) or self.held is None or self.held.bounds is None:
            return None
        return EvenProblem(self.held, self.held.bounds, self.signs, float(self.C[0]))

    @property
    def held_evaluations(self) -> int:
        """How many kernel values were computed for the matrix so far."""
        held: HeldValues | None = self.__dict__.get("held")
        return held.evaluations if held is not None else 0

    def gram(self, chosen: Any, among: Any) -> Array:
        """k(x_i, x_j) in float64, for each i of ``chosen`` and each j of ``among``."""
        return self.kernel.gram(self.points, chosen, among)

    def is_feasible(self, alpha: Array) -> bool:
        L, U = self.box.L, self.box.U
        if L.strides == U.strides == (0,) and len(alpha):  # one bound for all; a NaN is greater than no number
            return bool(alpha.min() >= L[0] and alpha.max() <= U[0])
        return bool(np.all((alpha >= L) & (alpha <= U)))

    def nearest_feasible(self, alpha: Array) -> Array:
        """alpha clipped to its box; with an offset the heavier sign is scaled down until sum_i s_i = 0."""
        clipped: Array = np.clip(np.asarray(alpha, dtype=np.float64), self.box.L, self.box.U)
        if not self.has_offset:
            return clipped
        return np.asarray(self.signs * balanced(self.signs * clipped, np.broadcast_to(False, clipped.shape)))

    def signed(self, alpha: Array | None) -> SignedVariables:
        """Where a solver in signed variables starts: at the nearest feasible point to alpha, or at zero."""
        sigma, box = self.signs, self.box
        s = np.zeros(len(sigma)) if alpha is None else sigma * self.nearest_feasible(alpha)
        if box.L is box.D:  # hinge loss: the box is [0, C], and the slope 1
            signed_costs = sigma * box.U
            return SignedVariables(sigma, np.minimum(signed_costs, 0.0), np.maximum(signed_costs, 0.0), s)
        low, high = sigma * box.L, sigma * box.U
        return SignedVariables(sigma * box.p, np.minimum(low, high), np.maximum(low, high), s)

    @cached_property
    def n_positive(self) -> int:
        return int(np.count_nonzero(self.y > 0))

    @cached_property
    def positive_cost(self) -> float:
        """The sum of the C_i of the positive class."""
        if self.C.strides == (0,) and len(self.C):
            return self.n_positive * float(self.C[0])
        return float(self.C[self.y > 0].sum())

    def kinks(self, outputs: Array) -> Kinks:
        """The offsets at which the losses bend, for outputs without an offset."""
        if self.loss.is_regression:
            kinks: Kinks = self.loss.kinks(outputs, self.C, self.y)  # type: ignore[attr-defined]
            return kinks
        return Kinks(self.signs - outputs, self.C, self.positive_cost)

    def best_offset(self, outputs: Array) -> float:
        """The b with the least sum of losses at the outputs f_i + b; the middle one if it is an interval; 0 without an offset.

        The slope of that sum is minus the level far to the left, and rises by C_i at every kink."""
        if not self.has_offset:
            return 0.0
        kinks, costs, level = self.kinks(outputs)
        is_even = costs.strides == (0,) and costs[0] > 0.0
        if is_even and not self.loss.is_regression:  # the slope is zero after one kink for each positive sample
            return _middle(kinks, self.n_positive)
        present = costs > 0.0
        order = np.argsort(kinks[present], kind="stable")
        kinks, costs = kinks[present][order], costs[present][order]
        slopes = np.cumsum(costs) - level
        tiny = TIE * float(costs.sum())
        low = int(np.searchsorted(slopes, -tiny, side="left"))
        high = int(np.searchsorted(slopes, tiny, side="right"))
        last = len(kinks) - 1
        return float(0.5 * (kinks[min(low, last)] + kinks[min(high, last)]))


def _middle(kinks: Array, rank: int) -> float:
    """Between the kinks number ``rank`` and ``rank`` + 1 in ascending order, or the last of them. ``kinks`` is reordered."""
    ranks = [max(0, rank - 1), min(rank, len(kinks) - 1)]
    kinks.partition(ranks)
    return float(0.5 * (kinks[ranks[0]] + kinks[ranks[1]]))


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
    if float(differences.max()) <= policy.KERNEL.symmetry * float(abs(matrix).max()):
        return None
    i, j = np.unravel_index(int(differences.argmax()), matrix.shape)
    return int(i), int(j)

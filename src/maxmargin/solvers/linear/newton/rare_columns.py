"""Columns with few elements, which are minimised exactly, one after another, after each Newton step; and the dual point that a
step predicts.

Take a column j that occurs in one sample. If the rest of that sample's margin is r < 1, the best w_j brings the margin to
1 - w_j / (2 C): it is nearly a constraint. If r > 1, the sample is not free, the best w_j is zero, and the Hessian knows only
the penalty's 1 in that column. A Newton step that brings r below one leaves w_j as it is; at C = 100 the loss then rises 200
times as steeply as it would if w_j followed, and the exact step along the line is 0.02 instead of 1. On one-hot columns with
many rare values half of all Newton steps were that short.

So the whole step is taken, and every rare column of which a sample crossed its kink moves to its own minimum. A column with
few elements costs next to nothing. In the other columns the kinks of many samples average out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array, CsrRows, DenseRows, OneValueRows
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.newton.conjugate_gradients import ProductHessian
from maxmargin.solvers.linear.newton.curves import Curve
from maxmargin.solvers.linear.newton.frame import Reduction
from maxmargin.solvers.linear.newton.iteration import Asking
from maxmargin.solvers.linear.newton.passes import CompiledPasses
from maxmargin.solvers.linear.newton.state import NewtonState


class Elements(NamedTuple):
    """The stored elements of some columns, column by column: column ``columns[k]`` has those from ``starts[k]`` to
    ``starts[k + 1]``. A value is sigma_i x_ij."""

    columns: Array
    starts: Array
    samples: Array
    values: Array


@dataclass(frozen=True)
class RareColumns:
    elements: Elements

    @classmethod
    def of(cls, problem: LinearProblem, rows: CsrRows | OneValueRows, most: int) -> RareColumns:
        """The columns with at most ``most`` elements."""
        from maxmargin.solvers.linear.newton.rare_column_loops import count_elements, list_elements

        counts = np.zeros(problem.rows.n_features, np.int64)
        count_elements(rows, counts)
        is_rare = (counts > 0) & (counts <= most)
        columns = np.flatnonzero(is_rare)
        if len(columns) == 0:
            return cls.none()
        starts = np.concatenate([[0], np.cumsum(counts[columns])])
        n = int(starts[-1])
        places, samples, values = np.empty(n, rows.indices.dtype), np.empty(n, np.int64), np.empty(n)
        list_elements(rows, problem.signs, is_rare, places, samples, values)
        by_column = np.argsort(places, kind="stable")
        return cls(Elements(columns, starts, samples[by_column], values[by_column]))

    @classmethod
    def none(cls) -> RareColumns:
        return cls(Elements(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0)))

    @property
    def shared(self) -> float:
        """How many other rare elements are in the row of a rare element, in the mean."""
        in_row = np.bincount(self.elements.samples)
        return float(in_row @ (in_row - 1)) / max(1, len(self.elements.samples))

    def settle(self, crossed: Array, margin: Array, curve: Curve, rate: float, w: Array) -> None:
        """Move w_j to its minimum in every rare column with a sample that crossed its kink."""
        from maxmargin.solvers.linear.newton.rare_column_loops import settle

        settle(self.elements, crossed, margin, curve, rate, w)


class SettlingState(NewtonState):
    """The state where directions come from conjugate gradients: after the first step it tries the whole step, with rare columns
    settled, before it searches along the line."""

    wanted_gap = 0.0
    """The gap that is asked for, as far as the least primal value is known."""
    matrix_step = -1
    """The step at which a matrix was made, because products took too long."""

    def _begin(self, reductions: list[Reduction], alpha: Array) -> None:
        self.__dict__.pop("_rare_columns", None)  # they belong to the problem of before
        super()._begin(reductions, alpha)

    def _complete_matrix(self) -> Asking[None]:
        """Go over to a factorisation where products have taken longer than that."""
        hessian = self.passes.hessian
        if isinstance(hessian, ProductHessian) and hessian.is_dearer_than_matrix:
            assert isinstance(self.passes, CompiledPasses)
            self.passes.make_matrix(self.free)
            self.matrix_step = self.inner_steps
        yield from super()._complete_matrix()

    @property
    def _may_be_stiff(self) -> bool:
        return super()._may_be_stiff or self.inner_steps == self.matrix_step

    def _move_along(self, direction: Array) -> Asking[None]:
        self.passes.products(direction, self.along)
        hessian = self.passes.hessian
        if self._may_settle and self.problem.penalizes_intercept and isinstance(hessian, ProductHessian):
            self._predict_dual(direction, hessian)
        if self._difference > self.wanted_gap:
            self._move_on_line(direction)
        yield from ()

    def _predict_dual(self, direction: Array, hessian: ProductHessian) -> None:
        """Make the alpha that the quadratic model predicts for the whole step the anchor, if that raises the dual value. Free
        samples follow their margins and stop at zero, the others stay at zero. Without the stops w(alpha) would be R (w +
        direction) plus the residual.

        At a large C the answer to w + direction has a far lower dual value: a sample that becomes free at a slack t gets an
        alpha of 2 C t, of which the model knows nothing."""
        from maxmargin.solvers.linear.newton.rare_column_loops import predict_alpha

        curve, residual = self.curve, hessian.residual
        assert isinstance(curve, Curve)
        if 0.5 * float(residual @ residual) > self.wanted_gap:
            return
        alpha, w = np.empty_like(self.alpha), self.regulariser.times(self.w + direction) + residual
        point = self.alpha, self.free, self.along
        value = predict_alpha(hessian.rows, self.problem.signs, point, curve, self.prox.rate, alpha, w)
        self._take_anchor(alpha, value - 0.5 * self.regulariser.conjugate(w))

    def _aim(self, target: float) -> None:
        super()._aim(target)
        self.wanted_gap = target * self.caution * self.least_primal

    def _move_on_line(self, direction: Array) -> None:
        if not (self._may_settle and self._has_fallen_by_whole_step(direction)):
            super()._move_on_line(direction)

    @property
    def _may_settle(self) -> bool:
        """Only where F is the primal objective, with the squared hinge, and each column has its own penalty."""
        is_plain = np.isinf(self.penalty) and self.price == 0.0 and self.regulariser.shift is None
        return self.inner_steps > 1 and is_plain and self._has_one_kink

    @cached_property
    def _has_one_kink(self) -> bool:
        curve = self.curve
        is_bounded_below = isinstance(curve, Curve) and curve.is_smooth and curve.lower == 0.0
        return is_bounded_below and bool((np.isinf(curve.U) | (curve.C == 0.0)).all())

    def _has_fallen_by_whole_step(self, direction: Array) -> bool:
        """Take the whole step and settle rare columns. Stand where the step began if the objective does not fall enough, and
        the gap is not far less than before."""
        before = self.primal, self.gradient, self.w.copy(), self.margin.copy()
        enough = self.primal + self.policy.products.sufficient * float(self.gradient @ direction)
        far_better = self.policy.better_pair * self.best_pair.gap
        self._move(direction, 1.0)
        if self.primal <= enough or self.pair_gap < far_better:
            return True
        self.primal, self.gradient, self.w, self.margin = before
        return False

    def _shift(self, direction: Array, length: float) -> None:
        if not (self._may_settle and len(self._rare_columns.elements.columns)):
            super()._shift(direction, length)
            return
        assert isinstance(self.curve, Curve)
        was_below = self.margin < self.curve.target
        super()._shift(direction, length)
        crossed = was_below != (self.margin < self.curve.target)
        self._rare_columns.settle(crossed, self.margin, self.curve, self.prox.rate, self.w)

    @cached_property
    def _rare_columns(self) -> RareColumns:
        """The columns that are settled: none where rare columns share many samples."""
        assert isinstance(self.passes, CompiledPasses)
        rows, policy = self.passes.rows, self.policy.products
        assert not isinstance(rows, DenseRows)
        rare = RareColumns.of(self.problem, rows, policy.rare)
        return rare if rare.shared <= policy.most_shared else RareColumns.none()

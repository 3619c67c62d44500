r"""Newton's method by passes, for few features: :mod:`maxmargin.solvers.linear.newton.newton` where a pass is dear.

In memory a Newton step makes several passes: products with the direction, looks along it, the answer, the matrix. Here a pass
reads a disk or waits for a network, so that a step is one pass. Each partition answers w: it sets its alpha to a(w), and
reports what that changes in w(alpha) and in the sum of outer products of the free samples, :math:`d^2 / 2` numbers. The full
step is tried at once, as its slope :math:`F'(1)` comes with the next gradient. Only where that says that the step went too far,
one more pass looks at several shorter lengths together.

What follows from an answer, the matrix, the proximal term, its penalty, and when an inner problem is solved are those of
``Newton`` (``standing.py``, ``hessian.py``, ``passes.py``). Here is the order of the passes; ``answers.py`` has the tasks.
With a smooth loss there is no proximal term, and a partition need not remember anything but its alpha."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.scale_out.answers import Line, Order, Outer, Slopes, answer_part, matrix_part, slopes_part
from maxmargin.scale_out.descent import dual_point_part
from maxmargin.scale_out.passes import Pass, Solving
from maxmargin.scale_out.policy import PASSES, PassPolicy
from maxmargin.solvers.linear.newton.hessian import Regulariser, SummedHessian
from maxmargin.solvers.linear.newton.line_search import Parabola
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.passes import Changes
from maxmargin.solvers.linear.newton.standing import Standing


class NewtonByPasses(Standing):
    """Where the iteration stands. Weights have a last element for the constant feature, used or not."""

    def __init__(
        self, w: Array, softness: float, width: float | None = None, policy: PassPolicy = PASSES, *, is_cold: bool = True
    ) -> None:
        """``width`` is about how far margins are from those of the optimum, where w is a good guess."""
        size = len(w)
        self.w, self.softness, self.width = w, softness, width
        self.settings, self.policy = Newton(), policy
        self.regulariser = Regulariser(np.ones(size))
        self.hessian = SummedHessian(size, self.settings.policy.matrix)
        self.line, self.length = Line(0, -1, w, np.zeros(size)), 0.0
        self.w_alpha, self.gradient = np.zeros(size), np.zeros(size)
        self.best_w = w.copy()
        self.least_primal, self.dual, self.anchor_dual = math.inf, -math.inf, 0.0
        self.inner_gap = self.pair_gap = math.inf
        self.inner_steps = self.n_free = self.generation = self.n_tight = 0
        first = self.settings.cold_penalty if is_cold else self.settings.penalty
        penalty = first if width is None else 0.5 / width
        self.penalty = math.inf if softness > 0.0 else penalty
        self.is_stuck = self.looks_first = self.has_been_long = self.lacks_matrix = False

    @property
    def gap(self) -> float:
        """The gap of the better of the two points that ``candidate`` chooses between, with the present alpha."""
        return min(self.pair_gap, self._difference_from(self.dual))

    @property
    def candidate(self) -> Array:
        """The w that is best beside the present alpha."""
        return self.w if self.pair_gap <= self._difference_from(self.dual) else self.best_w

    def begin(self, *, is_cold: bool) -> Solving[None]:
        """The first answer. The partitions' alpha is the first anchor, and zero if the start is cold. Where w is a good guess
        the middle of the box is the anchor: the hinge is then rounded over ``width`` on both sides of its kink, and a few steps
        from w solve that."""
        if self.width is None and not is_cold:
            yield from self._find_anchor_dual()
        yield from self._answer(0.0, restarts=True, anchors_in_middle=self.width is not None)

    def resume(self, w: Array) -> Solving[None]:
        """Go on from another w, after others have changed the partitions' alpha, which becomes the anchor."""
        size = len(self.w)
        self.w = np.zeros(size)
        self.w[: len(w)] = w
        self.line = Line(self.line.number + 1, -1, self.w, np.zeros(size))
        self.w_alpha[:] = 0.0
        self.hessian.forget()
        yield from self._answer(0.0, moves_anchor=True, restarts=True)
        yield from self._find_anchor_dual()

    def _find_anchor_dual(self) -> Solving[None]:
        if math.isfinite(self.penalty):
            self.anchor_dual = (yield Pass(dual_point_part, ("anchor",))).value.dual

    def step(self) -> Solving[None]:
        """One Newton step, or one move of the anchor."""
        if self.solves_inner_problem(self.settings.acceptance):
            self.anchor_dual = self.dual
            self.penalty = self._limited(self.penalty * self.settings.factor(self.inner_steps))
            self.inner_steps = 0
            self.looks_first = self.has_been_long
            reach = self.policy.near_reach / self.penalty
            yield from self._answer(self.length, moves_anchor=True, has_matrix=True, reach=reach)
            return
        yield from self._complete_matrix()
        with np.errstate(all="ignore"):
            direction = self.hessian.solve(self._rate, self.regulariser, self.gradient, np.empty(0))
        decrement = 0.0 if direction is None else -float(self.gradient @ direction)
        if direction is None or self._gains_nothing(decrement):
            yield from self._tighten()
            return
        self.inner_steps += 1
        yield from self._move(direction, decrement)

    def _move(self, direction: Array, decrement: float) -> Solving[None]:
        """Try the full step, or look for the best length first where the last steps were shorter."""
        generation = self.generation
        self.line = Line(self.line.number + 1, self.line.number, self.w, direction)
        along = self._penalty_along(direction)
        if self.looks_first:
            length = yield from self._best_length(along)
            self.looks_first = length < self.policy.nearly_full
            yield from self._answer(length, has_matrix=True)
            return
        yield from self._answer(1.0)
        is_too_long = float(self.gradient @ direction) > self.policy.good_slope * decrement
        if is_too_long and generation == self.generation:
            self.looks_first = self.has_been_long = True
            yield from self._answer((yield from self._best_length(along)), has_matrix=True)

    def _tighten(self) -> Solving[None]:
        """No step lowers F any more: move the anchor, or give up where that has not helped."""
        self.n_tight += 1
        if math.isinf(self.penalty) or self.n_tight > self.settings.policy.most_retreats:
            self.is_stuck = True
            return
        self.anchor_dual = max(self.dual, self.anchor_dual)
        yield from self._answer(self.length, moves_anchor=True)

    @property
    def _order(self) -> Order:
        return Order(self.penalty, self.softness, has_matrix=len(self.w) <= self.policy.light_weights)

    @property
    def _rate(self) -> float:
        return self._order.prox(np.empty(0)).rate

    def _complete_matrix(self) -> Solving[None]:
        """Ask for the matrix, where it did not come with the last answers."""
        while self.lacks_matrix:
            reply = yield Pass(matrix_part, (len(self.w),))
            if reply.generation == self.generation:
                outer: Outer = reply.value
                self.hessian.add(outer.values)
                self.lacks_matrix = False
            else:
                yield from self._answer(self.length)

    def _answer(self, length: float, **orders: Any) -> Solving[None]:
        """Let the partitions answer a point of the line. Where one has lost its memory, all report from the beginning."""
        self.length, self.w = length, self.line.point(length)
        reply = yield Pass(answer_part, (self.line, length, self._order._replace(**orders)))
        while reply.generation != self.generation:
            self.generation = reply.generation
            yield from self._find_anchor_dual()
            self.w_alpha = np.zeros(len(self.w))
            self.hessian.forget()
            reply = yield Pass(answer_part, (self.line, length, self._order._replace(restarts=True)))
        changes: Changes = reply.value
        self.w_alpha = self.w_alpha + changes.w_alpha
        self.lacks_matrix = len(changes.outer) == 0
        if not self.lacks_matrix:
            self.hessian.add(changes.outer)
        self.take(changes.response(self.w_alpha))

    def _best_length(self, along: Parabola) -> Solving[float]:
        """About where F' is zero on the line: between two lengths at which it changes sign. A pass looks at several lengths,
        and another pass at shorter ones if F' is positive at all of them."""
        shortest, above = 1.0, (math.inf, 0.0)
        for _ in range(self.policy.line_passes):
            lengths = shortest * self.policy.shorter ** np.arange(self.policy.line_points)
            slopes: Slopes = (yield Pass(slopes_part, (self.line, lengths, self._order))).value
            for t, values in zip(lengths.tolist(), slopes.values.tolist(), strict=True):
                first, second = along.added_to(t, *values)
                if first < 0.0:
                    return t - first / second if math.isinf(above[0]) else _between(t, first, *above)
                above = t, first
            shortest = float(lengths[-1]) * self.policy.shorter
        return shortest


def _between(low: float, value: float, high: float, other: float) -> float:
    """Where the line through two points is zero, the first of which is below zero and the second not."""
    return float(low - value * (high - low) / (other - value))

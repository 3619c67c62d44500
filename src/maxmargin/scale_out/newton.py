r"""Newton's method by passes, for few features: the iteration of :mod:`maxmargin.solvers.linear.newton`, where a pass is dear.

The order of its steps is that of the fit in memory, and the same code (``iteration.py`` there): when an inner problem is
solved, how the penalty and the anchor move, what rounding and a refused certificate ask for, and when the end is reached. So
are what follows from an answer (``standing.py``), the matrix (``hessian.py``) and the loops over samples (``passes.py``). Here
is how the samples are asked, and ``answers.py`` has the tasks.

In memory a Newton step makes several passes: products with the direction, looks along it, the answer, the matrix. Here a pass
reads a disk or waits for a network, so that a step is one pass. Each partition answers w: it sets its alpha to a(w), and
reports what that changes in w(alpha) and in the sum of outer products of the free samples, :math:`d^2 / 2` numbers. The full
step is tried at once, as its slope :math:`F'(1)` comes with the next gradient. Only where that says that the step went too far,
one more pass looks at several shorter lengths together. With a smooth loss there is no proximal term until rounding asks for
one, and a partition need not remember anything but its alpha."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.scale_out.answers import (
    Line,
    Magnitude,
    Order,
    Outer,
    Refined,
    Slopes,
    answer_part,
    magnitude_part,
    matrix_part,
    refine_part,
    slopes_part,
)
from maxmargin.scale_out.descent import dual_point_part
from maxmargin.scale_out.passes import Pass, Solving
from maxmargin.scale_out.policy import PASSES, PassPolicy
from maxmargin.solvers.linear.newton.hessian import Regulariser, SummedHessian
from maxmargin.solvers.linear.newton.iteration import Iteration
from maxmargin.solvers.linear.newton.line_search import Parabola, looks_for_root
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.passes import Changes, Prox


class NewtonByPasses(Iteration):
    """Where the iteration stands. Weights have a last element for the constant feature, used or not."""

    def __init__(
        self, w: Array, softness: float, width: float | None = None, limits: PassPolicy = PASSES, *, is_cold: bool = True
    ) -> None:
        """``width`` is about how far margins are from those of the optimum, where w is a good guess."""
        size = len(w)
        self.w, self.softness, self.width = w, softness, width
        self.settings, self.limits = Newton(), limits
        self.policy = self.settings.policy
        self.regulariser = Regulariser(np.ones(size))
        self.matrix = SummedHessian(size, self.policy.matrix)
        self.line, self.length = Line(0, -1, w, np.zeros(size)), 0.0
        self.w_alpha, self.gradient = np.zeros(size), np.zeros(size)
        self.free, self.best_w = np.empty(0, bool), w.copy()
        self._forget()
        self.caution = limits.certificate_share
        self.dual, self.anchor_dual = -math.inf, 0.0
        self.inner_gap = self.pair_gap = math.inf
        self.n_free = self.generation = 0
        self.magnitude: Magnitude | None = None
        self.refined: Refined | None = None
        self.next_orders: dict[str, Any] = {}
        self.looks_first = self.has_been_long = self.lacks_matrix = False
        first = self.settings.cold_penalty if is_cold else self.settings.penalty
        self._set_penalty(first if width is None else 0.5 / width)

    @property
    def hessian(self) -> SummedHessian:
        return self.matrix

    @property
    def rate(self) -> float:
        return self._prox.rate

    @property
    def _prox(self) -> Prox:
        return self._order.prox(np.empty(0))

    @property
    def is_smooth(self) -> bool:
        return self.softness > 0.0

    @property
    def gap(self) -> float:
        """The gap of the better of the two points that ``candidate`` chooses between, with the present alpha."""
        return min(self.pair_gap, self._difference_from(self.dual))

    @property
    def best_dual(self) -> float:
        return self.dual

    @property
    def candidate(self) -> Array:
        """The w that is best beside the present alpha."""
        return self.w if self.pair_gap <= self._difference_from(self.dual) else self.best_w

    def offer(self) -> Solving[Array]:
        """The w to be judged, with the alpha that the partitions have then: after every second refused certificate the
        refined ones."""
        if self.refusals % 2 == 1:
            return (yield from self._refined())
        return self.candidate

    def begin(self, *, is_cold: bool) -> Solving[None]:
        """The first answer. The partitions' alpha is the first anchor, and zero if the start is cold. Where w is a good guess
        the middle of the box is the anchor: the hinge is then rounded over ``width`` on both sides of its kink, and a few steps
        from w solve that."""
        if self.width is None and not is_cold:
            yield from self._find_anchor_dual()
        yield from self._ask(0.0, restarts=True, anchors_in_middle=self.width is not None)

    def resume(self, w: Array) -> Solving[None]:
        """Go on from another w, after others have changed the partitions' alpha, which becomes the anchor."""
        self._go_to(w)
        self.next_orders.clear()
        self.looks_done = self.is_at_end = False
        yield from self._ask(0.0, moves_anchor=True, restarts=True)
        yield from self._find_anchor_dual()

    def _go_to(self, w: Array) -> None:
        """Stand at a w whose margins no partition knows."""
        size = len(self.w)
        self.w = np.zeros(size)
        self.w[: len(w)] = w
        self.line, self.length = Line(self.line.number + 1, -1, self.w, np.zeros(size)), 0.0

    def _find_anchor_dual(self) -> Solving[None]:
        if math.isfinite(self.penalty):
            self.anchor_dual = (yield Pass(dual_point_part, ("anchor",))).value.dual

    # -- what the samples are asked ----------------------------------------------------------------------------------------

    def _begin_inner_problem(self, penalty: float) -> Solving[None]:
        self.looks_first = self.has_been_long
        yield from super()._begin_inner_problem(penalty)

    def _answer(self) -> Solving[None]:
        """The first answer of an inner problem. Partitions in memory go on with the samples near a kink."""
        reach = 0.0 if self.is_smooth else self.limits.near_reach / self.penalty
        yield from self._ask(self.length, has_matrix=True, reach=reach)

    def _answer_anew(self) -> Solving[None]:
        self._go_to(self.w)
        yield from self._ask(0.0, has_matrix=True, restarts=True)

    def _move_along(self, direction: Array) -> Solving[None]:
        """Try the full step, or look for the best length first where the last steps were shorter."""
        generation, decrement = self.generation, -float(self.gradient @ direction)
        self.line = Line(self.line.number + 1, self.line.number, self.w, direction)
        along = self._penalty_along(direction)
        if self.looks_first:
            length = yield from self._best_length(along)
            self.looks_first = length < self.limits.nearly_full
            yield from self._ask(length, has_matrix=True)
            return
        yield from self._ask(1.0)
        is_too_long = float(self.gradient @ direction) > self.limits.good_slope * decrement
        if is_too_long and generation == self.generation:
            self.looks_first = self.has_been_long = True
            yield from self._ask((yield from self._best_length(along)), has_matrix=True)

    def _best_length(self, along: Parabola) -> Solving[float]:
        """About where F' is zero on the line: a pass looks at several lengths."""
        looks = looks_for_root(self.limits.line_points, self.limits.shorter, self.limits.line_passes)
        lengths = next(looks)
        while True:
            slopes: Slopes = (yield Pass(slopes_part, (self.line, lengths, self._order))).value
            pairs = zip(lengths.tolist(), slopes.values.tolist(), strict=True)
            try:
                lengths = looks.send([along.added_to(t, *values) for t, values in pairs])
            except StopIteration as end:
                return float(end.value)

    def _move_anchor(self) -> float:
        """The next order moves it."""
        return self._take_anchor(self.dual)

    def _take_anchor(self, dual: float) -> float:
        rise = dual - self.anchor_dual
        if rise > 0.0:
            self.anchor_dual = dual
            self.next_orders["moves_anchor"] = True
        return rise

    def _begin_refinement(self) -> Solving[Array]:
        return (yield from self._refine_along(np.zeros(len(self.w))))

    def _refine_along(self, direction: Array) -> Solving[Array]:
        """The partitions' alpha is then no answer to any w: the next answer is from the beginning."""
        reply = yield Pass(refine_part, (direction, self.rate))
        self.next_orders["restarts"] = True
        refined: Refined = reply.value
        self.refined, w_alpha = refined, refined.w_alpha.astype(np.float64)
        self.dual = refined.linear - 0.5 * self.regulariser.conjugate(w_alpha)
        return w_alpha

    def _move_anchor_to_refined(self, w: Array) -> float:
        return self._take_anchor(self.dual)

    def _stiffness(self) -> Solving[float]:
        if self.magnitude is None:
            self.magnitude = (yield Pass(magnitude_part)).value
        return self.magnitude.stiffness

    def _stand_at_anchor(self) -> Solving[None]:
        """Without a proximal term the anchor is zero: nothing has moved it."""
        self._go_to(np.zeros(len(self.w)))
        self.anchor_dual = 0.0
        self.next_orders.update(anchors_at_zero=True, restarts=True)
        yield from ()

    def _go_to_best(self) -> None:
        self._go_to(self.best_w)

    @property
    def _order(self) -> Order:
        return Order(self.penalty, self.softness, has_matrix=len(self.w) <= self.limits.light_weights)

    def _complete_matrix(self) -> Solving[None]:
        """Ask for the matrix, where it did not come with the last answers."""
        while self.lacks_matrix:
            reply = yield Pass(matrix_part, (len(self.w),))
            if reply.generation == self.generation:
                outer: Outer = reply.value
                self.matrix.add(outer.values)
                self.lacks_matrix = False
            else:
                yield from self._ask(self.length)

    def _ask(self, length: float, **orders: Any) -> Solving[None]:
        """Let the partitions answer a point of the line. Where one has lost its memory, all report from the beginning."""
        self.length, self.w = length, self.line.point(length)
        order = self._order._replace(**{**orders, **self.next_orders})
        self.next_orders.clear()
        self._begin_sums(order)
        reply = yield Pass(answer_part, (self.line, length, order))
        while reply.generation != self.generation:
            self.generation = reply.generation
            yield from self._find_anchor_dual()
            order = self._order._replace(restarts=True)
            self._begin_sums(order)
            reply = yield Pass(answer_part, (self.line, length, order))
        changes: Changes = reply.value
        self.w_alpha = self.w_alpha + changes.w_alpha
        self.lacks_matrix = len(changes.outer) == 0
        if not self.lacks_matrix:
            self.matrix.add(changes.outer)
        self.take(changes.response(self.w_alpha))

    def _begin_sums(self, order: Order) -> None:
        """Forget what was added up, where all parts report from the beginning."""
        if order.restarts:
            self.w_alpha = np.zeros(len(self.w))
            self.matrix.forget()

r"""Newton's method by passes, for few features: :mod:`maxmargin.solvers.linear.newton.newton` where a pass is dear.

In memory a Newton step makes several passes: products with the direction, looks along it, the answer, the matrix. Here a pass
reads a disk or waits for a network, so that a step is one pass. Each partition answers w: it sets its alpha to a(w), and
reports what that changes in w(alpha) and in the sum of outer products of the free samples, :math:`d^2 / 2` numbers. The full
step is tried at once, as its slope :math:`F'(1)` comes with the next gradient. Only where that says that the step went too far,
one more pass looks at a dozen shorter lengths together.

The answer, the matrix, the proximal term, and when an inner problem is solved are those of ``Newton``. With a smooth loss there
is no proximal term, and a partition need not remember anything but its alpha."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.scale_out.descent import dual_point_part
from maxmargin.scale_out.passes import Part, Pass, Reply, Solving
from maxmargin.scale_out.policy import PASSES, PassPolicy
from maxmargin.solvers.linear.newton.hessian import Regulariser, SummedHessian
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.passes import Changes, CompiledPasses, Prox, curve_of


class Order(NamedTuple):
    """What the partitions are told: the proximal term, whether alpha or the middle of the box becomes its anchor before they
    answer, and whether they report from the beginning."""

    penalty: float
    softness: float
    moves_anchor: bool = False
    anchors_in_middle: bool = False
    restarts: bool = False

    def prox(self, anchor: Array) -> Prox:
        return Prox.of(anchor, self.penalty, self.softness)


def answer_part(part: Part, w: Array, order: Order) -> Changes:
    """The task: set alpha to the answer to w, and report what changes."""
    problem, memory = part.problem, part.memory
    if not problem.C.any():
        return Changes.none(len(w))
    if memory.free is None:
        memory.free = np.zeros(problem.n_samples, bool)
    has_prox = math.isfinite(order.penalty)
    if has_prox and memory.anchor is None:
        memory.anchor = memory.alpha.copy()
    if has_prox and order.anchors_in_middle:
        memory.anchor = 0.5 * (problem.box.L + problem.box.U)
    elif has_prox and order.moves_anchor:
        np.copyto(memory.anchor, memory.alpha)  # type: ignore[arg-type]
    if order.restarts:
        memory.alpha[:], memory.free[:] = 0.0, False
    with single_threaded_blas(), np.errstate(all="ignore"):
        passes = _passes(part)
        anchor = memory.alpha if memory.anchor is None else memory.anchor
        return passes.changes(w, order.prox(anchor), memory.alpha, memory.free)


def _passes(part: Part) -> CompiledPasses:
    """The compiled passes of a partition, which keep the memory that they work in where the rows stay."""
    passes: CompiledPasses | None = part.memory.kept.get("passes")
    if passes is None:
        passes = CompiledPasses(part.problem, curve_of(part.problem), Newton().policy)
        passes.hessian.in_float32 = False
        if part.stays:
            part.memory.kept["passes"] = passes
    return passes


class Slopes(NamedTuple):
    """Values and slopes of the derivative of the loss along a line, at several lengths."""

    values: Array

    def plus(self, other: Slopes) -> Slopes:
        return Slopes(self.values + other.values)


def slopes_part(part: Part, w: Array, direction: Array, lengths: Array, order: Order) -> Slopes:
    """The task: the derivative of sum_i phi_i along a direction, at several lengths."""
    if not part.problem.C.any():
        return Slopes(np.zeros((len(lengths), 2)))
    passes, n = _passes(part), part.problem.n_samples
    margin, along = np.empty(n), np.empty(n)
    passes.products(w, margin)
    passes.products(direction, along)
    prox = order.prox(part.memory.alpha if part.memory.anchor is None else part.memory.anchor)
    return Slopes(np.array([passes.slope(margin, along, prox, float(t)) for t in lengths]))


@dataclass
class NewtonByPasses:
    """Where the iteration stands. Weights have a last element for the constant feature, used or not."""

    w: Array
    softness: float
    width: float | None = None
    """About how far margins are from those of the optimum, where w is a good guess."""
    settings: Newton = field(default_factory=Newton)
    policy: PassPolicy = PASSES

    def __post_init__(self) -> None:
        size = len(self.w)
        self.regulariser = Regulariser(np.ones(size))
        self.hessian = SummedHessian(size, self.settings.policy.matrix)
        self.w_alpha, self.gradient = np.zeros(size), np.zeros(size)
        self.best_w = self.w.copy()
        self.least_primal, self.dual, self.anchor_dual = math.inf, -math.inf, 0.0
        self.inner_gap = self.pair_gap = math.inf
        self.inner_steps = self.n_free = self.generation = self.n_tight = 0
        penalty = self.settings.cold_penalty if self.width is None else 0.5 / self.width
        self.penalty = math.inf if self.softness > 0.0 else penalty
        self.is_stuck = self.looks_first = self.has_been_long = False

    @property
    def gap(self) -> float:
        """Of the better of the two points that ``candidate`` chooses between, with the present alpha."""
        return min(self.pair_gap, self._difference)

    @property
    def _difference(self) -> float:
        difference = self.least_primal - self.dual
        return difference if difference > self.settings.policy.trusted_difference * abs(self.dual) else math.inf

    @property
    def candidate(self) -> Array:
        """The w that is best beside the present alpha."""
        return self.w if self.pair_gap <= self._difference else self.best_w

    def begin(self) -> Solving[None]:
        """The first answer. The partitions' alpha is the first anchor. Where w is a good guess the middle of the box is: the
        hinge is then rounded over ``width`` on both sides of its kink, and a few steps from w solve that."""
        if self.width is None:
            yield from self._find_anchor_dual()
        yield from self._answer(restarts=True, anchors_in_middle=self.width is not None)

    def resume(self, w: Array) -> Solving[None]:
        """Go on from another w, after others have changed the partitions' alpha, which becomes the anchor."""
        self.w = np.zeros(len(self.w))
        self.w[: len(w)] = w
        self.w_alpha[:] = 0.0
        self.hessian.forget()
        yield from self._answer(moves_anchor=True, restarts=True)
        yield from self._find_anchor_dual()

    def _find_anchor_dual(self) -> Solving[None]:
        if math.isfinite(self.penalty):
            self.anchor_dual = (yield Pass(dual_point_part, ("anchor",))).value.dual

    def step(self) -> Solving[None]:
        """One Newton step, or one move of the anchor."""
        if math.isfinite(self.penalty) and self.inner_gap <= self.settings.acceptance * (self.dual - self.anchor_dual):
            self.anchor_dual = self.dual
            self._change_penalty()
            self.looks_first = self.has_been_long
            yield from self._answer(moves_anchor=True)
            return
        before = self.w
        with np.errstate(all="ignore"):
            direction = self.hessian.solve(self._rate, self.regulariser, self.gradient, np.empty(0))
        slope = 0.0 if direction is None else float(self.gradient @ direction)
        if direction is None or not slope < -self.settings.policy.converged * abs(self.least_primal) * 1e-3:
            yield from self._tighten()
            return
        self.inner_steps += 1
        generation, length = self.generation, 1.0
        if self.looks_first:
            length = yield from self._length(before, direction)
            self.looks_first = length < self.policy.nearly_full
        self.w = before + length * direction
        yield from self._answer()
        is_too_long = float(self.gradient @ direction) > -self.policy.good_slope * slope
        if is_too_long and length == 1.0 and generation == self.generation:
            self.looks_first = self.has_been_long = True
            self.w = before + (yield from self._length(before, direction)) * direction
            yield from self._answer()

    def _tighten(self) -> Solving[None]:
        """No step lowers F any more: move the anchor, or give up where that has not helped."""
        self.n_tight += 1
        if math.isinf(self.penalty) or self.n_tight > self.settings.policy.most_retreats:
            self.is_stuck = True
            return
        self.anchor_dual = max(self.dual, self.anchor_dual)
        yield from self._answer(moves_anchor=True)

    def _change_penalty(self) -> None:
        limits = self.settings.policy
        wanted = self.penalty * self.settings.factor(self.inner_steps)
        self.penalty = max(limits.least_penalty, min(wanted, limits.greatest_penalty))
        self.inner_steps = 0

    @property
    def _order(self) -> Order:
        return Order(self.penalty, self.softness)

    @property
    def _rate(self) -> float:
        return self._order.prox(np.empty(0)).rate

    def _answer(self, **orders: bool) -> Solving[None]:
        """Let the partitions answer the present w. Where one has lost its memory, all report from the beginning."""
        order = self._order._replace(**orders)
        reply = yield Pass(answer_part, (self.w, order))
        while reply.generation != self.generation:
            self.generation = reply.generation
            yield from self._find_anchor_dual()
            self.w_alpha = np.zeros(len(self.w))
            self.hessian.forget()
            reply = yield Pass(answer_part, (self.w, self._order._replace(restarts=True)))
        self._take(reply)

    def _take(self, reply: Reply) -> None:
        changes: Changes = reply.value
        linear, gap_terms, loss, n_free = changes.sums.tolist()
        self.n_free = int(n_free)
        self.w_alpha = self.w_alpha + changes.w_alpha
        self.hessian.add(changes.outer)
        self.gradient = self.w - self.w_alpha
        self.inner_gap = 0.5 * float(self.gradient @ self.gradient)
        self.pair_gap = gap_terms + self.inner_gap
        self.dual = linear - 0.5 * float(self.w_alpha @ self.w_alpha)
        primal = 0.5 * float(self.w @ self.w) + loss
        if primal < self.least_primal:
            self.least_primal, self.best_w = primal, self.w.copy()

    def _length(self, before: Array, direction: Array) -> Solving[float]:
        """The length of a step at which F' is zero, between the two of a dozen at which it changes sign."""
        lengths = self.policy.shorter ** np.arange(self.policy.line_points)
        slopes: Slopes = (yield Pass(slopes_part, (before, direction, lengths, self._order))).value
        along, square = float(before @ direction), float(direction @ direction)
        first = slopes.values[:, 0] + along + lengths * square
        negative = np.flatnonzero(first < 0.0)
        low = int(negative[0]) if len(negative) else len(lengths) - 1
        return (
            float(lengths[low] - min(0.0, first[low]) / (slopes.values[low, 1] + square))
            if low == 0
            else _between(lengths[low], first[low], lengths[low - 1], first[low - 1])
        )


def _between(low: float, value: float, high: float, other: float) -> float:
    """Where the line through two points is zero; the lower end if it has the sign of the other."""
    return float(low - value * (high - low) / (other - value)) if value < 0.0 < other else float(low)

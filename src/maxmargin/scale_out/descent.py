r"""Dual coordinate descent by partitions, for many features.

A partition runs sweeps of :class:`maxmargin.DCD` on its own samples against the common w. On one machine the partitions come
one after the other and each starts from the w that the last one left: block minimisation (H.-F. Yu, C.-J. Hsieh, K.-W. Chang,
C.-J. Lin, KDD 2010). On many machines all partitions start from one w, and the sum of their changes may be too long a step. So
the step along the sum of all changes has the length that maximises the dual (C.-P. Lee and D. Roth, ICML 2015), which is known
from a few sums:

.. math:: \eta = \min\left(1, \frac{\sum_i (p_i - D_{ii} \alpha_i) \Delta_i - e (|\alpha_i + \Delta_i| - |\alpha_i|) - w \cdot
          \Delta w}{|\Delta w|^2 + \sum_i D_{ii} \Delta_i^2}\right) .

With a kink (e > 0) the dual is at least what this says, as :math:`|\alpha|` is convex. A step of length at most one stays in
the box."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.row_loops import add_rows
from maxmargin.data.rows import Array
from maxmargin.scale_out.passes import Part
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.dcd import DCD, CommonPoint


class Visit(NamedTuple):
    """What the partitions are told: how many sweeps, the gap that is enough relative to the dual value, a seed, and the length
    of the last step, which is None where partitions come one after the other."""

    sweeps: int
    target: float
    seed: int
    length: float | None


class Descent(NamedTuple):
    """What visits add up: the change of w (None where it was made in place), the sums of a step's length, and the gap terms
    that the first sweep met."""

    w: Array | None
    linear: float
    square: float
    gap: float
    gain: float

    def plus(self, other: Descent) -> Descent:
        w = None if self.w is None or other.w is None else np.add(self.w, other.w, out=self.w)
        linear, square, gap, gain = (a + b for a, b in zip(self[1:], other[1:], strict=True))
        return Descent(w, linear, square, gap, gain)

    def length(self, w: Array) -> float:
        """The best length of a step from w along the sum of all changes, and at most one."""
        assert self.w is not None
        curvature = float(self.w @ self.w) + self.square
        return float(np.clip((self.linear - float(w @ self.w)) / curvature, 0.0, 1.0)) if curvature > 0.0 else 1.0

    def rise(self, w: Array, length: float) -> float:
        """What a step of this length adds to the dual value, at least."""
        assert self.w is not None
        slope = self.linear - float(w @ self.w)
        return length * slope - 0.5 * length * length * (float(self.w @ self.w) + self.square)


def descend_part(part: Part, common: CommonPoint, visit: Visit) -> Descent:
    """The task. Where partitions come one after the other, ``common.w`` is changed in place for the next one."""
    problem, memory, is_alone = part.problem, part.memory, visit.length is None
    if not is_alone:
        take_step_part(part, visit.length)
    before = memory.alpha.copy()
    w = common.w if is_alone else common.w.copy()
    solver = DCD()
    state = solver.join(problem, before, CommonPoint(w, common.dual), visit.seed + part.number)
    present = max(1, int(state.sweep["present"][0]))
    solver.advance(problem, state, Budget(present, visit.target))
    gap = float(state.sweep["last_gap"][0])
    if visit.sweeps > 1 and not state.looks_done:
        solver.advance(problem, state, Budget((visit.sweeps - 1) * present, visit.target))
    memory.alpha = np.array(state.samples["alpha"])
    if is_alone:
        return Descent(None, 0.0, 0.0, gap, state.dual - common.dual)
    memory.before = before
    box, change = problem.box, memory.alpha - before
    kink = box.e * float(np.sum(np.abs(memory.alpha) - np.abs(before)))
    linear = float(np.sum((box.p - box.D * before) * change)) - kink
    return Descent(w - common.w, linear, float(np.sum(box.D * np.square(change))), gap, 0.0)


def take_step_part(part: Part, length: float | None) -> None:
    """The task: scale the last step to its best length. A partition that has lost its memory has no last step."""
    memory, box = part.memory, part.problem.box
    if memory.before is None or length is None:
        return
    if length != 1.0:
        memory.alpha = np.clip(memory.before + length * (memory.alpha - memory.before), box.L, box.U)
    memory.before = None


class LineValues(NamedTuple):
    """sum_i C_i loss_i at several points between two w."""

    losses: Array

    def plus(self, other: LineValues) -> LineValues:
        return LineValues(self.losses + other.losses)


def line_part(part: Part, w: Array, other: Array, shares: Array) -> LineValues:
    """The task: the loss at w + t (other - w) for each t of ``shares``. w(alpha) swings about the optimum while alpha comes
    near, and a point between two of them is often far better than either."""
    problem = part.problem
    first, second = problem.margins(w), problem.margins(other)
    losses = [float(problem.C @ problem.loss.value(first + t * (second - first), problem.targets)) for t in shares]
    return LineValues(np.array(losses))


class DualPoint(NamedTuple):
    """w(alpha), and sum_i p_i alpha_i - e |alpha_i| - D_ii alpha_i^2 / 2."""

    w: Array
    linear: float

    def plus(self, other: DualPoint) -> DualPoint:
        return DualPoint(np.add(self.w, other.w, out=self.w), self.linear + other.linear)

    @property
    def dual(self) -> float:
        return self.linear - 0.5 * float(self.w @ self.w)


def dual_point_part(part: Part, name: str = "alpha") -> DualPoint:
    """The task: this partition's part of w(alpha) and of the dual value; of its anchor, if that is asked for."""
    problem = part.problem
    alpha: Array = part.memory.arrays.get(name, part.memory.alpha)
    w = np.zeros(problem.rows.n_features + 1)
    add_rows(problem.compiled_rows, alpha * problem.signs, w, 0, len(alpha))
    return DualPoint(w, float(np.sum(problem.box.terms(alpha))))

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

import math
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.linear_sums import PartSums, part_sums
from maxmargin.data.limits import Stop
from maxmargin.data.row_loops import add_rows
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.scale_out.guessing import solved
from maxmargin.scale_out.passes import Part
from maxmargin.scale_out.policy import PassPolicy
from maxmargin.scale_out.remainder import Distances, distances_of, norms_of
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
    """The task. Where partitions come one after the other, ``common.w`` is changed in place for the next one, and samples
    remember what their visit found."""
    problem, memory, is_alone = part.problem, part.memory, visit.length is None
    if not is_alone:
        take_step_part(part, visit.length)
    before = memory.alpha.copy()
    w = common.w if is_alone else common.w.copy()
    solver = DCD()
    state = solver.join(problem, before, CommonPoint(w, common.dual), visit.seed + part.number)
    present = max(1, int(state.sweep["present"][0]))
    solver.advance(problem, state, Budget(present, visit.target))
    gap, terms = float(state.sweep["last_gap"][0]), state.terms
    if is_alone:
        memory.gaps = terms.gaps.astype(np.float32)  # type: ignore[union-attr]
    if visit.sweeps > 1 and not state.looks_done:
        solver.advance(problem, state, Budget((visit.sweeps - 1) * present, visit.target))
    memory.alpha = np.array(state.samples["alpha"])
    if not is_alone:
        return _offered(part, before, w - common.w, gap)
    norms = remember_norms(part).astype(np.float64)
    distance = np.divide(terms.slopes, norms, out=np.full(len(norms), math.inf), where=norms > 0.0)  # type: ignore[union-attr]
    memory.distance = distance.astype(np.float32)
    return Descent(None, 0.0, 0.0, gap, state.dual - common.dual)


def remember_norms(part: Part) -> Array:
    """The |x_i| in float32, for samples whose rows are elsewhere between two passes."""
    if part.memory.norms is None:
        part.memory.norms = norms_of(part.problem).astype(np.float32)
    return part.memory.norms


def _offered(part: Part, before: Array, w: Array, gap: float) -> Descent:
    """The step from ``before`` to the present alpha, which changes w(alpha) by ``w``: its length is not known yet."""
    memory, box = part.memory, part.problem.box
    memory.before = before
    change = memory.alpha - before
    kink = box.e * float(np.sum(np.abs(memory.alpha) - np.abs(before)))
    linear = float(np.sum((box.p - box.D * before) * change)) - kink
    return Descent(w, linear, float(np.sum(box.D * np.square(change))), gap, 0.0)


def solve_part(part: Part, tol: float, seconds: float, seed: int) -> Descent:
    """The task of a first round, where all alpha are zero: the partition solves its own samples by the ordinary solver. Its
    support vectors are about those of all samples (H. P. Graf et al., "Parallel support vector machines: the cascade SVM", NIPS
    2004)."""
    problem, memory = part.problem, part.memory
    if problem.C.any():
        memory.alpha = np.array(solved(problem, tol, Stop.after(seconds), seed).alpha)
    return _offered(part, np.zeros(problem.n_samples), dual_point_part(part).w, math.inf)


def take_step_part(part: Part, length: float | None) -> None:
    """The task: scale the last step to its best length. A partition that has lost its memory has no last step."""
    memory, box = part.memory, part.problem.box
    if memory.before is None or length is None:
        return
    if length != 1.0:
        memory.alpha = np.clip(memory.before + length * (memory.alpha - memory.before), box.L, box.U)
    memory.before = None


class Grid(NamedTuple):
    """Primal points between the best w so far and multiples of w(alpha): (1 - t) best + t s w for every pair of a multiple s
    and a share t. At large C w(alpha) is too short for its margins, and it swings about the optimum while alpha comes near."""

    multiples: Array
    shares: Array

    @classmethod
    def of(cls, limits: PassPolicy) -> Grid:
        """Multiples are dense about one, where the best one is when alpha is nearly optimal."""
        steps = limits.finest_multiple ** np.linspace(0.0, 1.0, limits.multiples)
        multiples = np.concatenate([1.0 - 0.5 * steps[:: limits.lower_multiples], [1.0], 1.0 + steps])
        return cls(multiples, np.linspace(0.0, 1.0, limits.grid_shares))

    def squares(self, best: Array, w: Array) -> Array:
        """|point|^2 of all pairs."""
        a, b, c = float(best @ best), float(best @ w), float(w @ w)
        s, t = self.multiples[:, None], self.shares[None, :]
        squares: Array = (1.0 - t) ** 2 * a + 2.0 * t * (1.0 - t) * s * b + (t * s) ** 2 * c
        return squares


class Look(NamedTuple):
    """What a look at all samples finds: sum_i C_i loss_i on a grid of primal points, how far the samples are from a kink, and
    the sums of the certificate of w(alpha) where they were asked for."""

    losses: Array
    nearness: Distances
    sums: PartSums | None

    def plus(self, other: Look) -> Look:
        sums = None if self.sums is None or other.sums is None else self.sums.plus(other.sums)
        return Look(self.losses + other.losses, self.nearness.plus(other.nearness), sums)


class Sight(NamedTuple):
    """What partitions are told to look at: the best w so far, and how it changed at the last look; w(alpha), and whether its
    certificate is wanted, too; and the grid between both."""

    best: Array
    mix: Mix | None
    w: Array
    judges: bool
    grid: Grid


class Mix(NamedTuple):
    """How the best w has changed at the last look: it is (1 - share) best + share multiple w(alpha)."""

    share: float
    multiple: float

    def of(self, margins: Array) -> Array:
        """The margins of the best w, from those of both points."""
        at_alpha, at_best = margins
        mixed: Array = at_best + self.share * (self.multiple * at_alpha - at_best)
        return mixed


def look_part(part: Part, sight: Sight) -> Look:
    """The task: the loss on the grid, and which samples can still move. The margins of the best w are known from the last
    look, where there was one: a product with all rows is a third of the work."""
    problem, memory, grid, mix = part.problem, part.memory, sight.grid, sight.mix
    margins, sums = _judged_margins(part, sight.w) if sight.judges else (_margins(problem, sight.w), None)
    others = _margins(problem, sight.best) if mix is None or memory.margins is None else mix.of(memory.margins)
    losses = np.empty((len(grid.multiples), len(grid.shares)))
    for column, t in enumerate(grid.shares.tolist()):
        rest, along = (1.0 - t) * others, t * margins
        multiples = grid.multiples if t > 0.0 else grid.multiples[:1]  # all multiples are one point there
        losses[:, column] = [problem.C @ problem.loss.value(rest + s * along, problem.targets) for s in multiples.tolist()]
    near, distances = distances_of(problem, margins, memory.alpha, None if part.stays else remember_norms(part))
    memory.distance, memory.margins = near.astype(np.float32), np.stack([margins, others])
    return Look(losses, distances, sums)


def _judged_margins(part: Part, w: Array) -> tuple[Array, PartSums]:
    """The margins of w, and the sums of its certificate with the alpha of the partition."""
    problem, margins = part.problem, np.empty(part.problem.n_samples)
    return margins, part_sums(problem, w[: problem.n_weights], part.memory.alpha, margins=margins)


def _margins(problem: LinearProblem, w: Array) -> Array:
    """The margins of w, without a product where w is zero."""
    return problem.margins(np.ascontiguousarray(w[: problem.n_weights])) if w.any() else np.zeros(problem.n_samples)


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

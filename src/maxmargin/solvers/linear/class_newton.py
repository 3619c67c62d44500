r"""Newton's method on the proximal dual of Crammer and Singer's machine, for few weights.

The dual descent is slow where columns of X are alike. A proximal step on the dual from the centre c, with weight 1/sigma,

.. math:: \max_b D(b) - \tfrac{1}{2 \sigma} |b - c|^2 = \min_W \tfrac12 |W|^2 + \sum_i \max_{b_i} \left[ -b_i \cdot (e_i + z_i)
          - \tfrac{1}{2 \sigma} |b_i - c_i|^2 \right] ,

is smooth in W: its gradient is W - X'b(W), where b(W) projects c - sigma (e + z) on the feasible rows. Its generalised Hessian
is I + sigma X'MX, where M_i takes the mean off the free classes of sample i and leaves out the others. A sample with all of C_i
on one class, or none, costs nothing (R. T. Rockafellar, SIAM J. Control Optim. 14, 1976; X. Li, D. Sun, K.-C. Toh, SIAM J.
Optim. 28, 2018, for such a method on the Lasso). Any W and b(W) are a pair that a certificate can judge."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.solvers.linear.class_policy import ClassNewtonPolicy
from maxmargin.solvers.linear.class_system import Blocks, Known, Place, System, Work, dense_where_full


@dataclass
class ClassNewton:
    """One solve: ``step`` makes one Newton step in the samples at work. Where the proximal step is done for them, all samples
    are looked at, and the centre moves where it is done for all. ``W`` and ``b`` are the pair of the least gap where all
    samples were seen, which is ``least``; ``gap`` and ``dual`` are those of the last. ``centres`` counts how often the centre
    has moved."""

    problem: CrammerSingerProblem
    policy: ClassNewtonPolicy
    W: Array
    b: Array
    sigma: float
    least: float = np.inf
    gap: float = np.inf
    dual: float = 0.0
    scale: float = 0.0
    has_failed: bool = False
    centres: int = 0
    inner: int = 0
    last_cg: int = 0
    blocks: Blocks | None = None
    place: Place = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        X = _columns(problem, self.policy.dense_share)
        self.single = self.policy.in_single(X, problem.n_classes)
        self.all = Work(np.arange(problem.n_samples), X, problem.y, problem.C, self.b, 0.0, 0.0)
        self.work, self.reach = self.all, np.inf
        self.memory: list[Array] = []
        outputs = np.asarray(X @ self.W)
        self.place = self.whole = Place(self.W, outputs, self.b, np.empty(0, np.int64), np.empty(0), (0.0, 0.0, 0.0, 0.0))
        self.place = self.whole = self._at(self.W, outputs, outputs, 0.0)

    def is_within(self, target: float) -> bool:
        """Whether the least gap is at most this share of its dual value."""
        return self.least <= target * max(self.dual, 0.0)

    def step(self, target: float) -> None:
        """One Newton step towards a relative gap. ``gap`` is that of the last pass over all samples."""
        gradient = self._gradient()
        system = System(self.work, self.place, self.policy, self.sigma, Known(self.blocks, self.last_cg), self.single)
        direction = system.direction(gradient)
        self.blocks, self.last_cg = system.blocks, system.last_cg
        if system.struggles:
            self.single, self.blocks = None, None
        slope = float(np.sum(gradient * direction))
        if not slope < 0.0:
            self.has_failed = self.work is self.all
            self._look_at_all(target)
            self._take(self.all, self.whole)
            return
        self.place = self._searched(direction, self._along(direction), slope)
        self.inner += 1
        if self.work is self.all:
            self._note_gap()
        if self._is_done(target) or self.inner >= self.policy.most_inner:
            self._look_at_all(target)

    def _gradient(self) -> Array:
        """W - W(b) at the place, computed once."""
        if self.place.apart is None:
            self.place = self.place._replace(apart=self.place.W - self.work.weights(self.place.b))
        assert self.place.apart is not None
        return self.place.apart

    def _state(self) -> tuple[float, float]:
        """Half the squared gradient, and what the step from the centre costs."""
        return 0.5 * float(np.sum(np.square(self._gradient()))), 0.5 * (self.place.sums[3] + self.work.moved) / self.sigma

    def _is_done(self, target: float) -> bool:
        """Whether the proximal step is done."""
        rest, cost = self._state()
        return rest <= self.policy.inner_share * max(cost, self.policy.target_share * target * self.scale)

    def _note_gap(self) -> None:
        """The gap at the place, which must be one of all samples."""
        W, b, (_, loss, total, _) = self.place.W, self.place.b, self.place.sums
        dual = total - 0.5 * float(np.sum(np.square(W - self._gradient())))
        primal = 0.5 * float(np.sum(np.square(W))) + loss
        self.gap, self.scale, self.dual = primal - dual, abs(primal), dual
        if self.gap < self.least:
            self.W, self.b, self.least = W, b, self.gap

    def _look_at_all(self, target: float) -> None:
        """The gap; a new centre where the proximal step is done; and the samples at work from here."""
        from maxmargin.solvers.linear.class_newton_loop import compare

        before, kept = self.whole, np.zeros(self.problem.n_samples, bool)
        kept[self.work.ids] = True
        if self.work is not self.all:
            self.work = self.all
            outputs = self._along(self.place.W)
            self.place = self._at(self.place.W, outputs, outputs, 0.0)
            self._note_gap()
        self.whole, ended = self.place, self.inner >= self.policy.most_inner
        changes = compare((self.whole.b, before.b), (self.whole.outputs, before.outputs), kept)
        self.reach = self.policy.reach * math.sqrt(changes / len(kept))
        if self.is_within(target):
            return
        is_done, (rest, cost) = self._is_done(target), self._state()
        if is_done or (ended and cost > rest):
            self._move_centre(target, is_done)
            kept.fill(False)
        if is_done or ended:
            self.inner, self.last_cg = 0, 0
        self._choose(self.place, kept)

    def _move_centre(self, target: float, is_done: bool) -> None:
        """To the b of this place, with a greater sigma where the proximal step is done and the gap is not small enough."""
        if is_done and self.gap > self.policy.target_share * target * self.scale:
            self.sigma *= self.policy.growth_for(self.problem)
        self.work = self.all = self.all._replace(centre=self.place.b)
        self.centres += 1
        outputs = self._along(self.place.W)
        self.place = self._at(self.place.W, outputs, outputs, 0.0)

    def _choose(self, whole: Place, kept: Array) -> None:
        """Take the samples that may come to have two free classes, and those that were at work for this centre or should have
        been: a sample that leaves and returns could do so for ever."""
        at_work = (whole.clear <= self.reach) | kept
        ids = np.flatnonzero(at_work)
        if len(ids) > self.policy.most_at_work * len(at_work):
            self._take(self.all, whole)
            return
        others = np.flatnonzero(~at_work & whole.b.any(axis=1))
        rest = np.asarray(self.all.X[others].T @ whole.b[others])
        moved = float(np.sum(np.square(whole.b - self.all.centre)[~at_work]))
        X = dense_where_full(self.all.X[ids], self.policy.dense_share_at_work)
        work = Work(ids, X, self.all.y[ids], self.all.C[ids], self.all.centre[ids], rest, moved)
        self.whole = whole
        part = Place(whole.W, whole.outputs[ids], whole.b[ids], whole.counts[ids], whole.clear[ids], whole.sums)
        self._take(work, part)

    def _take(self, work: Work, place: Place) -> None:
        self.work, self.place = work, place
        if work is self.all:
            self.whole = place

    def _at(self, W: Array, outputs: Array, along: Array, step: float) -> Place:
        from maxmargin.solvers.linear.class_newton_loop import project

        work, (n, k) = self.work, self.work.centre.shape
        b, counts, clear = self._unused(n, along), np.empty(n, np.int64), np.empty(n)
        buffers = np.empty(k), np.empty(k), np.empty(k)
        sums = project((outputs, along, step), (work.y, work.C, self.sigma), work.centre, b, (counts, clear), buffers)
        return Place(W, outputs, b, counts, clear, sums)

    def _along(self, direction: Array) -> Array:
        """The outputs along a direction, or those of W, in memory that may be changed."""
        X = self.work.X
        return np.asarray(X @ direction) if sparse.issparse(X) else np.matmul(X, direction, out=self._unused(X.shape[0]))

    def _unused(self, n: int, along: Array | None = None) -> Array:
        """n rows for new coefficients or outputs, in memory that no point holds: new memory costs as much as a pass over it."""
        points = (self.place.b, self.whole.b, self.place.outputs, self.whole.outputs)
        held = [self.b, self.all.centre, self.work.centre, *points, *([] if along is None else [along])]
        places = {array.ctypes.data for array in held}
        free = next((memory for memory in self.memory if memory.ctypes.data not in places), None)
        if free is None:
            shape = self.all.centre.shape
            block = np.empty((max(1, self.policy.memory_bytes // (8 * shape[0] * shape[1])), *shape))
            self.memory += list(block)
            free = block[0]
        return free[:n]

    def _searched(self, direction: Array, along: Array, slope: float) -> Place:
        """A zero of the slope along the direction, up to ``slope_share``: the function is convex. An end of the interval that
        stays counts half (the Illinois rule): else it would stay for ever where the slope bends."""
        W, outputs = self.place.W, self.place.outputs
        still, enough = float(np.sum(self.work.rest * direction)), self.policy.slope_share_for(self.problem) * abs(slope)
        low, low_slope, high, high_slope, step = 0.0, slope, np.inf, 0.0, 1.0
        for _ in range(self.policy.most_trials):
            check_point()
            there = W + step * direction
            place = self._at(there, outputs, along, step)
            here = float(np.sum(there * direction)) - still - place.sums[0]
            if abs(here) <= enough:
                break
            if here < 0.0:
                low, low_slope, high_slope = step, here, 0.5 * high_slope
            else:
                high, high_slope, low_slope = step, here, 0.5 * low_slope
            share = low_slope / (low_slope - high_slope)
            step = 2.0 * step if np.isinf(high) else low + (high - low) * min(0.9, max(0.1, share))
        along *= step
        along += outputs
        return place._replace(outputs=along)


def first_sigma(problem: CrammerSingerProblem, policy: ClassNewtonPolicy) -> float:
    lengths = float(np.mean(problem.rows.squared_norms(problem.intercept_scaling)))
    return min(float(np.mean(problem.C)), policy.first_sigma / max(lengths, 1e-300))


def start_of(problem: CrammerSingerProblem, policy: ClassNewtonPolicy, zero: Array, random: np.random.Generator) -> ClassNewton:
    """Newton's method from b = zero. Its first W is that of one proximal step on a part of the samples, with the same expected
    objective: C is greater there, and so is sigma."""
    n, m, shape = problem.n_samples, policy.part_of(problem), (problem.n_weights, problem.n_classes)
    sigma, ids = policy.part_sigma * first_sigma(problem, policy), np.sort(random.choice(n, m, replace=False))
    rows = Rows.from_matrix(problem.rows.matrix[ids], check=False)
    part = replace(problem, rows=rows, y=problem.y[ids], C=problem.C[ids] * (n / m))
    rough = replace(policy, inner_share=policy.part_inner_share)
    small = ClassNewton(part, rough, np.zeros(shape), np.zeros((m, shape[1])), sigma * n / m)
    while small.centres == 0 and not small.has_failed:
        small.step(0.0)
    return ClassNewton(problem, policy, small.W, zero, sigma)


def suits(problem: CrammerSingerProblem, policy: ClassNewtonPolicy) -> bool:
    """Whether W is small enough, beside the samples."""
    return problem.n_weights * problem.n_classes <= policy.most_weights and problem.n_weights <= problem.n_samples


def _columns(problem: CrammerSingerProblem, dense_share: float) -> Any:
    """X with a column for the intercept, dense where most elements are stored."""
    X, n = dense_where_full(problem.rows.matrix, dense_share), problem.n_samples
    X = X.astype(np.float64, copy=False)
    if problem.intercept_scaling == 0.0:
        return X
    constant = np.full((n, 1), problem.intercept_scaling)
    return sparse.hstack([X, constant], format="csr") if sparse.issparse(X) else np.hstack([X, constant])

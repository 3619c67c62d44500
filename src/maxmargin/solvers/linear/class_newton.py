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
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.solvers.linear.class_policy import ClassNewtonPolicy
from maxmargin.solvers.linear.class_system import Blocks, Known, Place, System, Work, dense_where_full


@dataclass
class ClassNewton:
    """One solve: ``step`` makes one Newton step in the samples at work. Where the proximal step is done for them, all samples
    are looked at, and the centre moves where it is done for all. ``W`` and ``b`` are the pair of the least gap of such looks,
    which is ``least``; ``gap`` and ``dual`` are those of the last."""

    problem: CrammerSingerProblem
    policy: ClassNewtonPolicy
    W: Array
    b: Array
    least: float = np.inf
    gap: float = np.inf
    dual: float = 0.0
    scale: float = 0.0
    has_failed: bool = False
    inner: int = 0
    last_cg: int = 0
    blocks: Blocks | None = None
    place: Place = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        X = _columns(problem, self.policy.dense_share)
        self.single = self.policy.in_single(X, problem.n_classes)
        lengths = float(np.mean(problem.rows.squared_norms(problem.intercept_scaling)))
        self.sigma = min(float(np.mean(problem.C)), self.policy.first_sigma / max(lengths, 1e-300))
        self.all = Work(np.arange(problem.n_samples), X, problem.y, problem.C, self.b, 0.0, 0.0)
        self.work, self.reach = self.all, np.inf
        outputs = np.asarray(X @ self.W)
        self.place = self.whole = self._at(self.W, outputs, outputs, 0.0)

    def step(self, target: float) -> None:
        """One Newton step. ``gap`` is that of the last pass over all samples."""
        gradient = self.place.W - self.work.weights(self.place.b)
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
        self.place = self._searched(direction, np.asarray(self.work.X @ direction), slope)
        self.inner += 1
        rest, cost = self._state_of(self.place)
        if rest <= self.policy.inner_share * max(cost, target * self.scale) or self.inner >= self.policy.most_inner:
            self._look_at_all(target)

    def _state_of(self, place: Place) -> tuple[float, float]:
        """Half the squared gradient, and what the step from the centre costs."""
        apart = place.W - self.work.weights(place.b)
        return 0.5 * float(np.sum(np.square(apart))), 0.5 * (place.sums[4] + self.work.moved) / self.sigma

    def _look_at_all(self, target: float) -> None:
        """The gap; a new centre where the proximal step is done; and the samples at work from here."""
        W, before, ids = self.place.W, self.whole, self.work.ids
        outputs = np.asarray(self.all.X @ W)
        self.work = self.all
        whole = self._at(W, outputs, outputs, 0.0)
        kept = np.any(whole.b != before.b, axis=1)
        kept[ids] = True
        loss, total = whole.sums[2:4]
        W_of_b = self.all.weights(whole.b)
        self.dual = total - 0.5 * float(np.sum(np.square(W_of_b)))
        primal = 0.5 * float(np.sum(np.square(W))) + loss
        self.gap, self.scale = primal - self.dual, abs(primal)
        if self.gap < self.least:
            self.W, self.b, self.least = W, whole.b, self.gap
        rest, cost = 0.5 * float(np.sum(np.square(W - W_of_b))), 0.5 * whole.sums[4] / self.sigma
        is_done = rest <= self.policy.inner_share * max(cost, target * self.scale)
        self.reach = self.policy.reach * math.sqrt(float(np.mean(np.square(np.max(np.abs(outputs - before.outputs), axis=1)))))
        if is_done or (self.inner >= self.policy.most_inner and cost > rest):
            if is_done and self.gap > target * self.scale:
                self.sigma *= self.policy.growth_for(self.problem)
            self.work = self.all = self.all._replace(centre=whole.b)
            whole, kept = self._at(W, outputs, outputs, 0.0), np.zeros_like(kept)
        if is_done or self.inner >= self.policy.most_inner:
            self.inner, self.last_cg = 0, 0
        self._choose(whole, kept)

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

        work = self.work
        b, counts, clear = np.empty_like(work.centre), np.empty(len(work.y), np.int64), np.empty(len(work.y))
        sums = project(outputs, along, step, (work.y, work.C, self.sigma), work.centre, b, (counts, clear))
        return Place(W, outputs, b, counts, clear, sums)

    def _searched(self, direction: Array, along: Array, slope: float) -> Place:
        """A zero of the slope along the direction, up to ``slope_share``: the function is convex."""
        W, outputs = self.place.W, self.place.outputs
        still = float(np.sum(self.work.rest * direction))
        low, low_slope, high, high_slope, step = 0.0, slope, np.inf, 0.0, 1.0
        for _ in range(self.policy.most_trials):
            check_point()
            there = W + step * direction
            place = self._at(there, outputs, along, step)
            here = float(np.sum(there * direction)) - still - place.sums[1]
            if abs(here) <= self.policy.slope_share * abs(slope):
                break
            if here < 0.0:
                low, low_slope = step, here
            else:
                high, high_slope = step, here
            share = low_slope / (low_slope - high_slope)
            step = 2.0 * step if np.isinf(high) else low + (high - low) * min(0.9, max(0.1, share))
        return place._replace(outputs=outputs + step * along)


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

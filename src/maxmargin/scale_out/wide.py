"""A fit by passes with many features: rounds of coordinate descent, and looks for a better primal point between them.

On one machine the samples of a round come in hands (``hands.py``): random blocks, and of these the samples that can still move.
Every visit of a sample tells what a solver wants to know of it: how far it is from a kink, and what it adds to the gap. So a
look at all samples, which takes a pass of its own, is worth it only where the gap may be small enough. When all samples that
can move fit in one hand, it is solved to the end, and the next look says whether others must move, too.

On many machines each partition first solves its own samples, and then descends by itself (``descent.py``). Where the user gives
memory for them, the rows that can still move are collected as soon as they fit, and solved there (``remainder.py``). Without
that the rounds are many, however well each of them is used. On news20_bigram in two partitions conjugate gradients on the free
samples of the optimum, preconditioned by the exact solution of each partition, took 100 rounds with squared hinge and C = 1,
and 200 with C = 100, to reduce the residual to about 1e-6, and did not converge with hinge loss."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.scale_out.descent import (
    Descent,
    DualPoint,
    Grid,
    Look,
    Mix,
    Sight,
    Visit,
    descend_part,
    dual_point_part,
    look_part,
    solve_part,
    take_step_part,
)
from maxmargin.scale_out.passes import Deal, Pass, Solving
from maxmargin.scale_out.policy import PASSES
from maxmargin.scale_out.remainder import Distances, Recalled
from maxmargin.solvers.linear.dcd import CommonPoint
from maxmargin.solving.solution import Status

if TYPE_CHECKING:
    from maxmargin.scale_out.fitting import PassesRun


@dataclass
class Rounds:
    """Where the descent stands: w(alpha), D(alpha), the gap terms that the last round met, and what the last look found."""

    w: Array
    dual: float
    gap: float = math.inf
    n_rounds: int = 0
    generation: int = 0
    length: float | None = None
    reach: float = math.inf
    keep: float = math.inf
    is_one_hand: bool = False
    fits: bool = False
    sweeps: int = 0
    expected: float = math.inf

    def take(self, descent: Descent) -> None:
        """The step of a round, made in place or of the best length."""
        if descent.w is None:
            self.dual += descent.gain
            return
        self.gap = descent.gap
        self.length = descent.length(self.w)
        self.dual += descent.rise(self.w, self.length)
        self.w = self.w + self.length * descent.w

    def restart(self, point: DualPoint) -> None:
        self.w, self.dual, self.length, self.reach = point.w, point.dual, None, math.inf

    def expect(self, gap: float) -> None:
        """Estimate the gap from the gap terms that the visits of a round met, and those of the round before. A round goes on
        reducing the gap after it has met a sample: by half of its reduction in the mean of its logarithm, as in a sweep of
        dual coordinate descent."""
        reduction = min(1.0, gap / self.gap) if 0.0 < self.gap < math.inf else 1.0
        self.gap, self.expected = gap, gap * math.sqrt(reduction)

    def rounds_to_look(self, tells: bool) -> int:
        """Rounds between two looks: more of them, the longer the fit takes, and where visits tell the gap (``tells``)."""
        return max(PASSES.told_rounds, self.n_rounds) if tells else max(2, self.n_rounds // 4)

    def is_near(self, tol: float) -> bool:
        """Whether the next look may be the last one. It then judges w(alpha), too, which saves a pass where that suffices."""
        return self.relative_gap <= PASSES.nearly_done * tol

    @property
    def relative_gap(self) -> float:
        """The relative gap of the best primal point, as far as the solver can tell."""
        return self.expected / abs(self.dual) if self.dual != 0.0 else math.inf


class DescentByPasses:
    """The fit of one problem, for its ``run``."""

    def __init__(self, run: PassesRun) -> None:
        self.run, self.limits = run, run.plan.policy
        self.best = np.zeros(run.framing.n_features + 1)
        if run.start is not None:
            self.best[: len(run.start)] = run.start
        self.grid = Grid.of(self.limits)
        self.mix: Mix | None = None
        self.judged_gap, self.judged_at = 1.0, 0

    def solve(self) -> Solving[Status]:
        run = self.run
        run.stage, run.reason = "dcd", "the features are many"
        state = yield from self._beginning()
        if not run.executor.is_sequential and run.start is None and (yield from self._first_round(state)):
            return run.status
        while True:
            yield from self._rounds_to_look(state)
            yield from self._take_step(state)
            yield from self._look(state)
            if (yield from self._ends(state)) or (yield from self._settles(state)):
                return run.status

    def _rounds_to_look(self, state: Rounds) -> Solving[None]:
        """Rounds until a look is worth its pass."""
        run, tells = self.run, self.run.executor.is_sequential
        for _ in range(1 if state.is_near(run.tol) and not tells else state.rounds_to_look(tells)):
            if run.is_short_of_time:
                return
            yield from self._round(state)
            share = self.limits.told_share if tells else self.limits.remainder_share
            if (state.expected if tells else state.gap) <= share * run.tol * abs(state.dual):
                return

    def rounds(self, n_rounds: int) -> Solving[Array]:
        """Some rounds from the partitions' alpha. Returns w(alpha)."""
        state = yield from self._beginning()
        for _ in range(n_rounds):
            yield from self._round(state)
        yield from self._take_step(state)
        return state.w

    def _beginning(self) -> Solving[Rounds]:
        """The alpha of the partitions, which is zero unless an earlier fit goes on."""
        if not self.run.goes_on:
            return Rounds(np.zeros(self.run.framing.n_features + 1), 0.0)
        point = yield from self._dual_point()
        return Rounds(point.w, point.dual)

    def _take_step(self, state: Rounds) -> Solving[None]:
        """Let the partitions make the last step, whose length they do not know yet."""
        if state.length is not None:
            yield from self.run.asked(Pass(take_step_part, (state.length,)))
            state.length = 1.0

    def _ends(self, state: Rounds) -> Solving[bool]:
        """A certificate where the gap looks small enough, has fallen far since the last one, or no longer falls."""
        run, gap = self.run, state.relative_gap
        if run.has_ended:
            return True
        looks_done = gap <= self.limits.certificate_share * run.tol
        if looks_done or self._is_due(gap) or run.stalls(state.expected):
            self.judged_gap, self.judged_at = gap, run.n_passes
            return (yield from run.judge(self.best, self._deal(0)))
        return False

    def _is_due(self, gap: float) -> bool:
        """Whether a certificate is worth its pass for the trace and the checkpoint: not shortly before the last one."""
        limits, run = self.limits, self.run
        is_near = gap <= limits.nearly_done * run.tol
        has_fallen = gap <= limits.judged_share * self.judged_gap and not is_near
        return has_fallen or run.n_passes >= self.judged_at + limits.judged_passes

    def _settles(self, state: Rounds) -> Solving[bool]:
        """On many machines: collect the rows that can still move, if they fit in memory, and solve them there. Whether the fit
        is to end."""
        run = self.run
        if not state.fits:
            return False
        yield from run.settle_in_rounds(self.best)
        if not run.has_ended:
            state.restart((yield from self._dual_point()))
            run.stage, run.reason = "dcd", "the features are many"
        return run.has_ended

    def _look(self, state: Rounds) -> Solving[None]:
        """Find a better primal point, and which samples can still move."""
        run = self.run
        sight = Sight(self.best, self.mix, state.w, state.is_near(run.tol), self.grid)
        look: Look = yield from run.asked(Pass(look_part, (sight,), self._deal(state.n_rounds)))
        values = 0.5 * self.grid.squares(self.best, state.w) + look.losses
        row, column = np.unravel_index(int(np.argmin(values)), values.shape)
        self.mix = Mix(float(self.grid.shares[column]), float(self.grid.multiples[row]))
        self.best *= 1.0 - self.mix.share
        self.best += self.mix.share * self.mix.multiple * state.w
        state.gap = state.expected = float(values[row, column]) - state.dual
        run.has_ended = look.sums is not None and run.certifies(state.w, look.sums)
        self._aim(state, look.nearness)

    def _aim(self, state: Rounds, near: Distances) -> None:
        """Choose the samples of the next round, and how often it sweeps over them."""
        run, limits = self.run, self.limits
        room = run.plan.hand_bytes if run.executor.is_sequential else run.plan.room_bytes
        fitting, violation = near.reach(room), near.violation
        state.is_one_hand = run.executor.is_sequential and fitting >= limits.near * violation
        state.fits = fitting > 0.0 and not run.executor.is_sequential
        state.reach = fitting if state.is_one_hand else limits.far * violation
        state.keep = near.keep(limits.kept_share * run.plan.hand_bytes)
        within = near.bytes_within(state.reach)
        state.sweeps = int(min(limits.most_sweeps, limits.sweeps_a_visit * near.n_bytes / max(1.0, within)))
        run.active = near.n_moving

    def _deal(self, seed: int) -> Deal:
        return Deal(self.run.plan.hand_bytes, seed + 1000 * self.run.plan.seed)

    def _first_round(self, state: Rounds) -> Solving[bool]:
        """Let every partition solve its own samples. Whether the samples that can move after that settle the fit."""
        plan = self.run.plan
        arguments = max(self.limits.first_tol, self.run.tol), plan.stop.seconds_left, plan.seed
        yield from self._descend(state, Pass(solve_part, arguments))
        yield from self._take_step(state)
        yield from self._look(state)
        return (yield from self._settles(state))

    def _round(self, state: Rounds) -> Solving[None]:
        """One visit of all samples that can move."""
        run = self.run
        state.n_rounds += 1
        if not run.executor.is_sequential and state.length is None:
            state.length = 1.0
        sweeps = self._sweeps(state)
        target = max(0.1 * run.tol, 0.02 * state.relative_gap) if state.is_one_hand else 0.02 * run.tol
        visit = Visit(sweeps, target, run.plan.seed + 1000 * state.n_rounds, state.length)
        deal = self._deal(state.n_rounds)._replace(reach=state.reach, keep=state.keep, kind="descent")
        yield from self._descend(state, Pass(descend_part, (CommonPoint(state.w, state.dual), visit), deal))
        recalled: Recalled | None = run.executor.recall(run.which)
        if recalled is not None:
            state.expect(recalled.gap)
            self._aim(state, recalled.distances)
        run.save(self.best)

    def _descend(self, state: Rounds, passed: Pass) -> Solving[None]:
        """One pass that offers a step. If a partition has lost its memory, the next round begins at the alpha that is left."""
        run = self.run
        run.n_passes += 1
        begun = time.perf_counter()
        reply = yield passed
        run.round_seconds = time.perf_counter() - begun
        if reply.generation != state.generation:
            state.generation = reply.generation
            state.restart((yield from self._dual_point()))
        elif reply.value is not None:
            state.take(reply.value)

    def _sweeps(self, state: Rounds) -> int:
        """Sweeps of a visit. Partitions that descend at the same time do not hear of each other meanwhile."""
        if not self.run.executor.is_sequential:
            return self.limits.sweeps_side_by_side
        return self.limits.most_sweeps if state.is_one_hand else max(state.sweeps, self.limits.sweeps_a_visit)

    def _dual_point(self) -> Solving[DualPoint]:
        point: DualPoint = yield from self.run.asked(Pass(dual_point_part, (), self._deal(0)))
        return point

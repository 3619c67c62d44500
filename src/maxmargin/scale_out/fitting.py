"""A whole fit by passes: the choice of the method, when to compute a certificate, when to solve the rest in memory, and when to
end.

Few features: the first w comes from a sample of the rows in memory. With a smooth loss Newton's method goes on from there. With
a piecewise linear loss and a budget of memory, the rows near a kink are solved in memory while the others are taken to stay on
their piece; Newton's method by passes takes over where that does not settle. Many features: coordinate descent by partitions,
until the rows that are not settled fit in memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Certificate, refusal
from maxmargin.certificate.linear_sums import PartSums
from maxmargin.certificate.linear_verdict import ProblemShape, certificate_of_parts
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.problem.losses import Loss
from maxmargin.scale_out import policy
from maxmargin.scale_out.collecting import Crowd, Work, is_cheaper_to_collect
from maxmargin.scale_out.guessing import Guessed, Sampling, guess_part, solved
from maxmargin.scale_out.judging import judged, settled
from maxmargin.scale_out.newton import NewtonByPasses
from maxmargin.scale_out.passes import COLLECT, Deal, Executor, Framing, Given, Interrupted, Pass, Reply, Solving
from maxmargin.scale_out.remainder import Remainder, Survey, sample_part, settle_part, survey_part
from maxmargin.scale_out.stacking import Collected
from maxmargin.scale_out.wide import DescentByPasses
from maxmargin.solving.driver import Limits
from maxmargin.solving.incumbent import status_of
from maxmargin.solving.solution import Progress, Solution, Status


@dataclass(frozen=True)
class Plan:
    """What every problem of a fit is told. ``room_bytes`` is the memory for rows of one problem, and zero where the rows are
    elsewhere; ``total_bytes`` is what all rows would take, and ``hand_bytes`` the memory for rows of
    several blocks that are visited together. ``crowd`` are the workers, where there are some."""

    limits: Limits
    stop: Stop
    seed: int = 0
    callback: Callable[[Progress], Any] | None = None
    room_bytes: float = 0.0
    total_bytes: float = math.inf
    hand_bytes: float = 0.0
    crowd: Crowd = field(default_factory=Crowd)
    policy: policy.PassPolicy = policy.PASSES
    save: Callable[[int, Array], None] | None = None
    """Called with the number of the problem and its w after each certificate: for a checkpoint."""


class Guess(NamedTuple):
    """A first w, and about how far its margins are from those of the optimum; None where that is not known."""

    w: Array = np.empty(0)
    width: float | None = None


@dataclass
class PassesRun:
    """One problem under way. ``start`` is the w of an earlier fit, if there is one, and ``goes_on`` says that the partitions
    may have an alpha from there. ``pass_seconds`` is how long passes took lately, and ``round_seconds`` how long the last visit
    of coordinate descent took."""

    executor: Executor
    which: int
    plan: Plan
    start: Array | None = None
    goes_on: bool = False
    trace: list[Progress] = field(default_factory=list)
    n_passes: int = 0
    started: float = field(default_factory=time.perf_counter)
    stage: str = "passes"
    reason: str = "the rows are in partitions"

    def __post_init__(self) -> None:
        framing = self.framing
        self.shape = ProblemShape(self.executor.n_samples, framing.n_weights, framing.loss, framing.intercept_scaling)
        self.w = np.zeros(framing.n_weights)
        self.certificate: Certificate = refusal(0)
        self.active = self.executor.n_samples
        self.least_gap, self.idle = math.inf, 0
        self.has_ended = False
        self.pass_seconds = self.round_seconds = 0.0

    @property
    def framing(self) -> Framing:
        return self.executor.framings[self.which]

    @property
    def tol(self) -> float:
        return self.plan.limits.tol

    def solve(self) -> Solving[Solution]:
        """Run the fit to its end: certified, at a limit, or stuck."""
        try:
            status = yield from self._solve()
        except Interrupted:
            status = Status.CERTIFIED if self.certificate.meets(self.tol) else status_of(self.plan.stop)
        return self._solution(status)

    def _solve(self) -> Solving[Status]:
        if self._collects_all and (yield from self._in_memory()):
            return self.status
        return (yield from (self._by_newton() if self._is_narrow else DescentByPasses(self).solve()))

    @property
    def _is_narrow(self) -> bool:
        return self.shape.n_weights <= self.plan.policy.narrow_weights

    @property
    def _collects_all(self) -> bool:
        """Whether all rows fit in memory, and are better solved there. All problems use the same rows, one after the other."""
        n_problems, is_smooth = len(self.executor.framings), self.framing.loss.is_smooth
        if self.plan.total_bytes > n_problems * self.plan.room_bytes:
            return False
        if not self._is_narrow or self.executor.is_sequential:
            return True
        work = Work(self.shape.n_weights, self.plan.total_bytes, n_problems, is_smooth)
        return is_cheaper_to_collect(self.plan.crowd, work)

    @property
    def _keeps_rows(self) -> bool:
        """Whether rows near a kink may be solved in memory between passes: workers with few features need no help."""
        return self.plan.room_bytes > 0.0 and self.executor.is_sequential

    @property
    def _has_cheap_rounds(self) -> bool:
        """Whether workers that compute side by side need only a few rounds: rows then stay where they are."""
        return self.framing.loss.is_smooth and not self.executor.is_sequential

    # -- certificates ------------------------------------------------------------------------------------------------------

    def judge(self, w: Array, deal: Deal | None = None) -> Solving[bool]:
        """Certify w with the alpha of the partitions. Whether the fit is to end there."""
        certificate = yield from self._counted(judged(self.shape, np.ascontiguousarray(w[: self.shape.n_weights]), deal))
        return self._note(w, certificate)

    def certifies(self, w: Array, sums: PartSums) -> bool:
        """Whether sums that came with another pass certify w. If not, nothing is noted."""
        w = np.ascontiguousarray(w[: self.shape.n_weights])
        certificate = certificate_of_parts(self.shape, w, sums)
        return certificate.meets(self.tol) and self._note(w, certificate)

    def survey(self, w: Array, uses_alpha: bool) -> Solving[Survey]:
        """The same, and how many rows are near a kink. ``has_ended`` says whether the fit is to end."""
        w = np.ascontiguousarray(w[: self.shape.n_weights])
        survey: Survey = yield from self.asked(Pass(survey_part, (w, uses_alpha)))
        quick = certificate_of_parts(self.shape, w, survey.sums)
        certificate = yield from self._counted(settled(self.shape, w, quick))
        self.has_ended = self._note(w, certificate)
        return survey

    def _note(self, w: Array, certificate: Certificate) -> bool:
        """Take over what is better, write a row of the trace, and ask whether there is a reason to end."""
        worst = certificate.gap + certificate.rounding_error
        if worst < self.certificate.gap + self.certificate.rounding_error or not math.isfinite(self.certificate.gap):
            self.certificate, self.w = certificate, np.array(w[: self.shape.n_weights])
        improved = worst < self.plan.policy.idle_share * self.least_gap
        self.least_gap, self.idle = (worst, 0) if improved else (self.least_gap, self.idle + 1)
        self.trace.append(self._progress(certificate))
        self.save(self.w)
        if self.plan.callback is not None and bool(self.plan.callback(self.trace[-1])):
            self.plan.stop.set()
        return self.certificate.meets(self.tol) or self._limit() is not None

    def save(self, w: Array) -> None:
        """Let a checkpoint be written, if it is time for one, with this w and the alpha of the partitions."""
        if self.plan.save is not None:
            self.plan.save(self.which, w[: self.shape.n_weights])

    def _limit(self) -> Status | None:
        """The limit that is reached, if one is. The last passes before the end of the time are for a certificate."""
        if self.is_short_of_time:
            return status_of(self.plan.stop)
        if self.n_passes >= min(self.plan.limits.max_epochs, self.plan.policy.most_passes):
            return Status.EPOCH_LIMIT
        return Status.PRECISION_LIMIT if self.idle >= self.plan.policy.idle_passes else None

    @property
    def is_short_of_time(self) -> bool:
        """Whether the time left is for a certificate."""
        needed = self.plan.policy.last_passes * self.pass_seconds + self.round_seconds
        return self.plan.stop.is_due or self.plan.stop.seconds_left <= needed

    @property
    def status(self) -> Status:
        if self.certificate.meets(self.tol):
            return Status.CERTIFIED
        return self._limit() or Status.PRECISION_LIMIT

    def _progress(self, certificate: Certificate) -> Progress:
        values = certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap
        seconds = time.perf_counter() - self.started
        steps = self.n_passes * self.shape.n_samples
        return Progress(seconds, float(self.n_passes), steps, *values, self.active, self.stage, self.reason)

    def asked(self, passed: Pass) -> Solving[Any]:
        """The sum of one pass, counted."""
        return (yield from self._timed(passed)).value

    def _timed(self, passed: Pass) -> Solving[Reply]:
        """The reply to one pass, which is counted."""
        self.n_passes += 1
        begun = time.perf_counter()
        reply = yield passed
        self.pass_seconds = max(time.perf_counter() - begun, 0.5 * self.pass_seconds)
        return reply

    def _counted(self, solving: Solving[Any]) -> Solving[Any]:
        """A part of a solver, whose passes are counted."""
        reply = None
        while True:
            try:
                passed = solving.send(reply)  # type: ignore[arg-type]
            except StopIteration as end:
                return end.value
            reply = yield from self._timed(passed)

    # -- few features ------------------------------------------------------------------------------------------------------

    def _by_newton(self) -> Solving[Status]:
        """The first w from a sample, then Newton's method by passes, and the rows near a kink in memory where they fit."""
        guess = Guess(self.start) if self.start is not None else (yield from self._sampled())
        self.stage, self.reason = "newton", "the features are few"
        first = np.zeros(self.framing.n_features + 1)
        first[: len(guess.w)] = guess.w
        is_cold = self.start is None
        if not guess.w.any() and self._begins_with_descent:
            first = yield from DescentByPasses(self).rounds(self.plan.policy.first_rounds)
            is_cold = False
        state = NewtonByPasses(first, softness_of(self.framing.loss), guess.width, is_cold=is_cold)
        yield from self._counted(state.begin(is_cold=is_cold))
        return (yield from self._newton_steps(state))

    @property
    def _begins_with_descent(self) -> bool:
        """Whether a large matrix of all samples, free at w = 0, would be dearer than a few rounds of descent."""
        is_heavy = self.shape.n_weights > self.plan.policy.light_weights
        return is_heavy and not self.framing.loss.is_smooth and not self.executor.is_sequential

    def _newton_steps(self, state: NewtonByPasses) -> Solving[Status]:
        next_try = self.plan.policy.remainder_gap if self._keeps_rows else 0.0
        while True:
            self.active = state.n_free
            self.save(state.candidate)
            if state.looks_done:
                w = yield from self._counted(state.offer())
                if (yield from self.judge(w)) or state.is_stuck:
                    return self.status
                yield from self._counted(state.look_closer(self.tol))
            elif state.gap <= next_try * abs(state.dual):
                next_try *= 0.1 * min(1.0, state.gap / (next_try * abs(state.dual)))
                if (yield from self._settle(state)):
                    return self.status
            if self.stalls(state.gap):
                yield from self.judge(state.candidate)
                return self.status
            yield from self._counted(state.follow(self.tol))
            if not state.looks_done:
                yield from self._counted(state.step(self.tol))

    def stalls(self, gap: float) -> bool:
        """Whether the solver's own gap has not fallen for long, or a limit is reached."""
        improved = gap < self.plan.policy.idle_share * self.least_gap
        self.least_gap, self.idle = (gap, 0) if improved else (self.least_gap, self.idle + 1)
        return self._limit() is not None

    def _sampled(self) -> Solving[Guess]:
        """The w of a sample of the rows, if there is memory for one."""
        if self._has_cheap_rounds:
            return Guess()
        if not self._keeps_rows:
            return (yield from self._guessed())
        room = policy.SHARES.sample / policy.SHARES.rows * self.plan.room_bytes
        share = min(1.0, room / self.plan.total_bytes)
        if share * self.executor.n_samples < self.framing.n_features + 2:
            return Guess()
        remainder: Remainder = yield from self.asked(Pass(sample_part, (share, self.plan.seed)))
        if not remainder.chosen:
            return Guess()
        n_rows = sum(len(each.places) for each in remainder.chosen)
        solution = self._solved(remainder, max(self.tol, policy.PASSES.sample_tol), is_warm=False)
        return Guess(solution.w, width_of(self.shape.n_weights, n_rows))

    def _guessed(self) -> Solving[Guess]:
        """The mean w of samples that the partitions solve for themselves, where rows stay on their workers."""
        limits, d = self.plan.policy, self.shape.n_weights
        tol, seconds = max(self.tol, limits.guess_tol), self.plan.stop.seconds_left
        n, fewest = self.executor.n_samples, limits.guess_rows * d
        found: Guessed | None = None
        if fewest <= limits.guess_share * n:
            sampling = Sampling(limits.guess_share, fewest, n, tol, seconds, self.plan.seed)
            found = yield from self.asked(Pass(guess_part, (self.framing, sampling)))
        if found is None:
            return Guess()
        return Guess(found.w / found.n_rows, width_of(d, found.n_rows))

    # -- the rest in memory ------------------------------------------------------------------------------------------------

    def _in_memory(self) -> Solving[bool]:
        """Fit in memory where all rows fit: they are read once, and an ordinary solver fits them. One more pass over the disk,
        or one more round of the workers, computes the certificate from the rows where they are: a row that was damaged on its
        way would be found. Whether the fit is to end. (A worker that has died meanwhile has lost its alpha.)"""
        self.stage, self.reason = "auto", "all rows fit in memory"
        collected: Collected = yield from self.asked(COLLECT)
        problem = self.framing.problem(collected.block)
        self.active = problem.n_samples
        solution = solved(problem, self.tol, self.plan.stop, self.plan.seed)
        self._give(collected.places, solution)
        if not (yield from self.judge(solution.w)):
            self.start, self.goes_on = self.w, True
        return self.certificate.meets(self.tol) or self.executor.is_sequential or self._limit() is not None

    def _settle(self, state: NewtonByPasses) -> Solving[bool]:
        """Solve the rows near a kink in memory, and judge. Whether the fit is to end; if not, Newton's method goes on."""
        yield from self.settle_in_rounds(state.candidate)
        if self.has_ended:
            return True
        self.stage, self.reason = "newton", "settled rows were none"
        yield from self._counted(state.resume(self.w))
        return False

    def settle_in_rounds(self, w: Array) -> Solving[None]:
        """Judge w, solve the rows near a kink, judge, and begin again from there while that brings the gap down fast."""
        w = np.ascontiguousarray(w[: self.shape.n_weights])
        survey: Survey = yield from self.survey(w, True)
        self.stage, self.reason = "auto", "the rows near a kink are in memory"
        before = math.inf
        while not self.has_ended and self.certificate.gap <= self.plan.policy.fast_share * before:
            before = self.certificate.gap
            reach = min(survey.distances.reach(self.plan.room_bytes), self.certificate.distance_bound)
            if reach <= 0.0:
                return
            remainder = yield from self.asked(Pass(settle_part, (w, reach, True)))
            w = self._finished(remainder, self.plan.policy.remainder_share * self.tol, is_warm=True)
            survey = yield from self.survey(w, True)

    def _finished(self, remainder: Remainder, tol: float, *, is_warm: bool) -> Array:
        """Solve the rows that are left, and give the partitions their alpha."""
        places = [(each.number, each.places) for each in remainder.chosen]
        self.active = sum(len(rows) for _, rows in places)
        solution = self._solved(remainder, tol, is_warm=is_warm)
        self._give(places, solution)
        return solution.w

    def _give(self, places: list[tuple[int, Array]], solution: Solution) -> None:
        edges = np.cumsum([len(rows) for _, rows in places])[:-1]
        alphas = np.split(solution.alpha[: self.active], edges)
        self.executor.give(self.which, [Given(*place, alpha) for place, alpha in zip(places, alphas, strict=True)])

    def _solved(self, remainder: Remainder, tol: float, *, is_warm: bool) -> Solution:
        """By an ordinary solver in memory. The rows of the remainder are given up as soon as the problem has copies of them."""
        problem, alpha = remainder.problem(self.framing)
        remainder.chosen.clear()
        return solved(problem, tol, self.plan.stop, self.plan.seed, alpha if is_warm else None)

    def _solution(self, status: Status) -> Solution:
        if not self.trace:
            self.trace.append(self._progress(self.certificate))
        scaling = self.framing.intercept_scaling
        return Solution(
            w=self.w,
            alpha=np.empty(0),
            b=float(self.w[-1] * scaling) if scaling else 0.0,
            certificate=self.certificate,
            status=status,
            trace=tuple(self.trace),
            seconds=time.perf_counter() - self.started,
            steps=self.n_passes * self.shape.n_samples,
            epochs=float(self.n_passes),
        )


def width_of(n_weights: int, n_rows: int) -> float:
    """About how far the margins of a solution for a sample of rows are from those of the solution for all."""
    return min(1.0, 3.0 * math.sqrt(n_weights / n_rows))


def softness_of(loss: Loss) -> float:
    """D_ii C_i: zero for a piecewise linear loss."""
    return float(loss.dual(np.ones(1), np.ones(1)).D[0])

"""SMO on working sets of a thousand, for hardware that multiplies matrices faster than it reads memory.

An outer iteration chooses a working set W, computes the block K_WW alone, moves pairs of W with the second-order choice of
SMO until W is nearly optimal, and then computes whole rows for those variables only that have changed:

    f += sum over changed j of (s_j - s_j before) K[j, :]     in float64, whatever the rows are.

While more samples violate optimality than W can hold, W is drawn at random from the violators and the free variables, half
from each side, and the worst pair (F. Perez-Cruz et al., "Double chunking for solving SVMs for very large datasets", 2004,
and the rule of papers/irwls_svc): the worst alone make W swing between sets. Later, W is the worst.

Rows are float32 first. What they are wrong by enters f, so f is computed anew in float64 when the target asks for it or a
certificate was refused; from then on only the *changes* of alpha meet float32, which is iterative refinement. If even that
does not reach the target, rows become float64.

Shrinking: samples at a bound whose margin is on the right side of one, by more than FAR times what those that can move
are wrong by in the mean, are left out, and rows get shorter; Joachims' rule asks that of the greatest error, which is ten times
the mean and hardly falls at first. Nothing is proved by that, so before the target counts as reached f is computed for those
of them that were nearest to the margin, and in the end the certificate does so for all. Those that belong to the others come
back (papers/safe_screening, Algorithm 1).

In signed variables s_i = y_i alpha_i, as in ``maxmargin.solvers.kernel.batched_smo_loops``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.rows import MEGABYTE, KernelRows
from maxmargin.kernel_matrix.shared import padded
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import OfDotProducts
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.kernel.active_rows import ActiveRows
from maxmargin.solvers.kernel.batched_smo_loops import (
    best_offset,
    extremes,
    gap_and_dual,
    solve_with_offset,
    solve_without_offset,
)
from maxmargin.solvers.patience import Patience

STEPS_A_VARIABLE = 20
LOCAL_TOLERANCE, GREATEST_LOCAL_TOLERANCE = (0.02, 0.1), (0.01, 0.05)
"""How exactly a working set is solved, relative to the violation and at least: with many samples, and with few, whose kernel
values cost no more than the steps."""
SMALLEST_SET, ROOM = 128, 4
"""When few samples violate optimality or are free, the working set has this many places for each of them, and so many in all at
least. Where 60 samples matter, the kernel values of a thousand took most of the time."""
WIDEST = 4
"""A working set may grow to this many times its usual size when there are that many free variables."""
NEARLY_ALL = 1.5
"""A pair of classes of up to this many times the usual working set is its own working set, where its kernel matrix is there."""
FLOAT32_IS_GOOD_TO = 1e-4
"""The relative gap down to which all of f may come from float32 kernel values."""
SINGLE_STEPS_ABOVE = 1e-4
"""The local violation above which the local gradient may be float32."""
FLOAT32_RANGE = 1e30
NEAR = 0.1
"""Samples whose margin is within this of one have their f computed in float64. What float32 makes f wrong by is far less."""
STILL_ITERATIONS = 4
LOOKS_TO_BE_STUCK, LOOKS_EVER = 3, 60
STEPS_TO_STALL = 2_000_000
"""Steps of pairs before SMO can be said to have stalled: some seconds."""
MANY_SAMPLES = 8192
"""Rows of fewer are short: shrinking would not pay."""
FAR, FAR_ENOUGH, ITERATIONS_TO_SHRINK = 4.0, 0.1, 5
DOUBTFUL = 1.5
"""Those who were left out can have moved so many times as far as any of the others."""
BLOCK_SHARE = 0.1
"""Of the cache's budget, what the block of a working set larger than usual may take."""


@dataclass(frozen=True)
class BatchedSMO:
    """``dtype`` is that of the kernel rows: "auto" is float32, and float64 when that cannot reach the target."""

    working_set: int = 1024
    cache_mb: float = 500.0
    dtype: Literal["auto", "float32", "float64"] = "auto"
    shrinks: bool = True

    def __post_init__(self) -> None:
        if not self.working_set >= 2:
            raise ValueError(f"working_set must be at least 2; got {self.working_set!r}.")
        if not self.cache_mb >= 0.0:
            raise ValueError(f"cache_mb must be a number of megabytes >= 0; got {self.cache_mb!r}.")
        if self.dtype not in ("auto", "float32", "float64"):
            raise ValueError(f"dtype must be 'auto', 'float32' or 'float64'; got {self.dtype!r}.")

    @property
    def name(self) -> str:
        return "batched-smo"

    @property
    def shares_values(self) -> bool:
        """It reads the kernel values that pairs of classes share, where there are some."""
        return self.dtype != "float64"

    def init(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> BatchedSMOState:
        state = BatchedSMOState(
            **problem.signed(warm_start)._asdict(),
            f=np.zeros(problem.n_samples),
            rows=ActiveRows(problem, self.cache_mb, self._first_dtype(problem)),
            random=np.random.default_rng(seed),
        )
        if state.s.any():
            state.compute_outputs(problem, np.arange(problem.n_samples))
        state.survey(problem)
        return state

    def _first_dtype(self, problem: KernelProblem) -> type[np.float32] | type[np.float64]:
        if self.dtype == "auto":
            greatest = float(np.abs(problem.diagonal).max())
            if isinstance(problem.kernel, OfDotProducts):
                greatest = max(greatest, float(problem.points.sqnorms.max()))
            return np.float32 if greatest < FLOAT32_RANGE else np.float64
        return np.float32 if self.dtype == "float32" else np.float64

    def advance(self, problem: KernelProblem, state: BatchedSMOState, budget: Budget) -> None:
        if state.looks_done:
            state.looks_done = False
            state.caution *= 0.5
            if not state.is_exact and state.rows.is_narrow:
                state.recheck(problem, np.inf)
            self._look_closer(problem, state)
        start = state.steps
        while not self._is_over(problem, state, budget.target):
            left = start + budget.steps - state.steps
            if left <= 0 or (state.steps > start and left < state.usual_steps):
                return
            self._iterate(problem, state, left)

    def candidate(self, problem: KernelProblem, state: BatchedSMOState) -> Array:
        """The present alpha."""
        return np.abs(state.s)

    def take_outputs(self, problem: KernelProblem, state: BatchedSMOState, outputs: Array) -> None:
        """The f of the present alpha, which a certificate has computed anyway: saves the solver doing it again."""
        state.f[:] = outputs
        state.f_before, state.b_before = state.f.copy(), state.b
        state.drift = 0.0
        state.is_exact = state.is_complete = True

    def _is_over(self, problem: KernelProblem, state: BatchedSMOState, target: float) -> bool:
        goal = target * state.caution
        if state.relative_gap <= goal and not state.is_complete:
            state.recheck(problem, DOUBTFUL * state.moved)
        if goal < state.precision and state.relative_gap <= state.precision:
            self._look_closer(problem, state)
        state.looks_done = state.relative_gap <= goal
        if not state.looks_done and (state.is_still or state.is_stalled):
            self._look_closer(problem, state)
            state.looks_done = state.relative_gap <= goal
        return state.looks_done or state.is_stuck

    def _look_closer(self, problem: KernelProblem, state: BatchedSMOState) -> None:
        """A certificate was refused, or f is not good enough, or nothing moves: f anew in float64; if the gap has not
        fallen to half since it was last exact, rows in float64; if that does not help either, give up."""
        if state.is_still and not state.is_complete:
            state.recheck(problem, np.inf)
        state.refresh(problem)
        state.survey(problem)
        state.looks = 1 if state.relative_gap < 0.5 * state.least_exact_gap else state.looks + 1
        state.looks_ever += 1
        state.least_exact_gap = min(state.relative_gap, state.least_exact_gap)
        if state.looks > 1 and self.dtype == "auto" and state.rows.dtype == np.float32:
            state.exchange_rows(ActiveRows(problem, self.cache_mb, np.float64))
            state.looks = 1
        state.is_stuck = state.looks > LOOKS_TO_BE_STUCK or state.looks_ever > LOOKS_EVER or state.is_stalled

    def _iterate(self, problem: KernelProblem, state: BatchedSMOState, max_steps: int) -> None:
        """One working set: choose it, solve it, tell everyone."""
        if self.shrinks and not state.is_small:
            state.shrink()
        chosen = state.everyone if self._takes_everyone(state) else state.choose(problem, self._size(state))
        before = state.s[chosen]
        steps = state.solve(problem, chosen, min(STEPS_A_VARIABLE * len(chosen), max_steps))
        state.steps, state.usual_steps = state.steps + steps, steps
        change = state.s[chosen] - before
        moved = change != 0.0
        state.add(chosen[moved], change[moved])
        state.survey(problem)
        if not moved.any():
            state.still_iterations = STILL_ITERATIONS

    def _takes_everyone(self, state: BatchedSMOState) -> bool:
        """Not worth choosing from: nearly all would be chosen, and their block is there."""
        return state.rows.whole is not None and len(state.y) <= NEARLY_ALL * self.working_set

    def _size(self, state: BatchedSMOState) -> int:
        """As many as there are free variables, from the usual size to the widest."""
        affordable = math.isqrt(int(BLOCK_SHARE * MEGABYTE * self.cache_mb / state.rows.dtype.itemsize))
        widest = max(self.working_set, min(WIDEST * self.working_set, affordable))
        return min(max(state.n_free, self.working_set), widest)


@dataclass
class BatchedSMOState:
    """s_i = y_i alpha_i in its box, f = K s, and how far from optimal they are."""

    y: Array
    lower: Array
    upper: Array
    s: Array
    f: Array
    rows: ActiveRows
    random: np.random.Generator
    stage: ClassVar[Stage] = Stage("batched-smo")
    steps: int = 0
    usual_steps: int = 0  # of the last working set: one with far fewer is not worth its kernel values
    looks_done: bool = False
    is_stuck: bool = False
    drift: float = 0.0  # sum of the changes of alpha that have met float32 kernel values since f was exact
    is_exact: bool = True  # f was computed in float64 from the present alpha
    is_complete: bool = True  # f is up to date for those left out as well
    f_before: Array = field(default_factory=lambda: np.empty(0))  # when there was last nobody left out
    b_before: float = 0.0
    iterations: int = 0
    caution: float = 1.0  # falls with every certificate that was refused
    looks: int = 0  # closer looks since the exact gap last fell to half
    looks_ever: int = 0
    still_iterations: int = 0  # outer iterations, one after the other, that made nothing better
    b: float = 0.0  # the offset with the least primal value
    top: float = np.inf
    bottom: float = -np.inf
    relative_gap: float = np.inf  # LIBSVM's violation where the kernel is not positive semidefinite
    least_gap: float = np.inf
    least_exact_gap: float = np.inf  # relative, of the closer looks
    greatest_dual: float = -np.inf
    evaluations_before: int = 0
    is_stalled: bool = False
    patience: Patience = field(default_factory=lambda: Patience(STEPS_TO_STALL))
    memory: Array = field(default_factory=lambda: np.empty(0))

    @property
    def v(self) -> Array:
        """The gradient of the dual."""
        return self.y - self.f

    @property
    def everyone(self) -> Array:
        return np.arange(len(self.y))

    @property
    def active(self) -> int:
        return len(self.rows.samples)

    @property
    def is_small(self) -> bool:
        return len(self.y) < MANY_SAMPLES

    @property
    def is_still(self) -> bool:
        return self.still_iterations >= STILL_ITERATIONS

    @property
    def n_free(self) -> int:
        return int(np.count_nonzero((self.lower < self.s) & (self.s < self.upper)))

    @property
    def kernel_evaluations(self) -> int:
        return self.evaluations_before + self.rows.kernel_evaluations

    def exchange_rows(self, rows: ActiveRows) -> None:
        self.evaluations_before = self.kernel_evaluations
        self.rows = rows

    @property
    def precision(self) -> float:
        """The relative gap down to which the present f can be trusted."""
        total = float(np.abs(self.s).sum())
        return FLOAT32_IS_GOOD_TO * min(1.0, self.drift / total) if total > 0.0 else 0.0

    def add(self, changed: Array, change: Array) -> None:
        """Bring f up to date with a change of s."""
        self.rows.add_to(self.f, changed, change)
        self.is_exact = self.is_exact and len(changed) == 0
        self.is_complete = self.is_complete and not (len(changed) and self.rows.is_narrow)
        if self.rows.dtype == np.float32:
            self.drift += float(np.abs(change).sum())

    def shrink(self) -> None:
        """Bring those back that have to be among the others, if anything new is known of them; leave out, now and then, those
        that are far from moving."""
        self.iterations += 1
        others = self.rows.others
        if self._can_move(0.0)[others].any():
            self.rows.widen()
        if self.iterations % ITERATIONS_TO_SHRINK == 0:
            can_move = self._can_move(self._far)
            can_move[self.rows.others] = False
            if not self.rows.is_narrow:
                self.f_before, self.b_before = self.f.copy(), self.b
            self.rows.narrow_to(np.flatnonzero(can_move))

    @property
    def _far(self) -> float:
        """From the margin: several times the mean error of those that can move, and near the end twice the greatest one."""
        error = (self.v - self.b)[self._can_move(0.0)]
        if not len(error):
            return math.inf
        return max(FAR * math.sqrt(float(np.mean(np.square(error)))), min(FAR_ENOUGH, 2.0 * (self.top - self.bottom)))

    def _can_move(self, far: float) -> Array:
        """Not at a bound that their margin, with so much room, says they should be at."""
        error = self.v - self.b
        mask: Array = ((self.s < self.upper) & (error > -far)) | ((self.s > self.lower) & (error < far))
        return mask & (self.lower < self.upper)

    @property
    def moved(self) -> float:
        """How far from their margin, at most, those who were not left out have moved since others were."""
        change = (self.f - self.f_before)[self.rows.samples]
        return float(np.abs(change + (self.b - self.b_before)).max(initial=0.0))

    def recheck(self, problem: KernelProblem, doubtful: float) -> None:
        """f of those that were left out with a margin not further than this from one."""
        others = self.rows.others
        self.compute_outputs(problem, others[np.abs(self.v - self.b)[others] < doubtful], self.rows.dtype)
        self.is_complete = True
        self.survey(problem)

    def refresh(self, problem: KernelProblem) -> None:
        """f from s in float64, free of the rounding of kernel values and of the steps that led here, for the free variables
        and all samples near the margin: where the others are, their gap terms are zero, and rounding does not change that.
        What was reached with the old f is forgotten, for it may have been too good to be true."""
        if not self.is_exact:
            is_free = (self.lower < self.s) & (self.s < self.upper)
            self.compute_outputs(problem, np.flatnonzero(is_free | (np.abs(self.v - self.b) < NEAR)))
        self.drift, self.is_exact = 0.0, True
        self.least_gap, self.greatest_dual = np.inf, -np.inf

    def compute_outputs(self, problem: KernelProblem, samples: Array, dtype: Any = np.float64) -> None:
        """f of these samples from s."""
        rows, support = KernelRows(problem, dtype, 0.0), np.flatnonzero(self.s)
        self.f[samples] = rows.sums_at(samples, support, self.s[support])
        self.evaluations_before += rows.kernel_evaluations

    def survey(self, problem: KernelProblem) -> None:
        """The violation and the gap at the present f, and whether they are getting better."""
        v = self.v
        self.top, self.bottom = extremes(v, self.s, self.lower, self.upper)
        if problem.has_offset:
            self.b = best_offset(v, self.lower, self.upper)
        else:
            self.top, self.bottom = max(self.top, 0.0), min(self.bottom, 0.0)
        gap, dual = gap_and_dual(v, self.y, self.s, self.lower, self.upper, self.b)
        is_definite = problem.kernel.is_positive_semidefinite
        self.relative_gap = relative(gap, dual + gap, dual) if is_definite else max(0.0, self.top - self.bottom)
        self.is_stalled = self.patience.note(self.steps, dual, dual + gap)
        is_better = gap < 0.99 * self.least_gap or dual > self.greatest_dual
        self.still_iterations = 0 if is_better else self.still_iterations + 1
        self.least_gap, self.greatest_dual = min(gap, self.least_gap), max(dual, self.greatest_dual)

    def choose(self, problem: KernelProblem, size: int) -> Array:
        """The working set, in the order of the samples."""
        v = self.v
        can_rise, can_fall = self.s < self.upper, self.s > self.lower
        can_rise[self.rows.others] = can_fall[self.rows.others] = False
        middle = 0.5 * (self.top + self.bottom) if problem.has_offset else 0.0
        slack = 0.5 * LOCAL_TOLERANCE[self.is_small] * (self.top - self.bottom)
        is_free = can_rise & can_fall
        rising = np.flatnonzero((can_rise & (v > middle + slack)) | (is_free & (v >= middle)))
        falling = np.flatnonzero((can_fall & (v < middle - slack)) | (is_free & (v < middle)))
        if len(rising) + len(falling) <= size:
            enough = max(SMALLEST_SET, ROOM * (len(rising) + len(falling)))
            return self._worst(v, can_rise, can_fall, min(size, enough))
        half = size // 2
        n_rising = min(len(rising), max(half, size - len(falling)))
        drawn = [self._draw(rising, n_rising), self._draw(falling, size - n_rising)]
        worst = [side[[np.argmax(np.abs(v[side] - middle))]] for side in (rising, falling) if len(side)]
        return _rising(len(v), drawn + worst)

    def _draw(self, among: Array, count: int) -> Array:
        return among if count >= len(among) else self.random.choice(among, count, replace=False, shuffle=False)

    def _worst(self, v: Array, can_rise: Array, can_fall: Array, size: int) -> Array:
        """The greatest v of those that can rise, and the least of those that can fall, as many of each."""
        rising, falling = np.flatnonzero(can_rise), np.flatnonzero(can_fall)
        return _rising(len(v), [rising[_greatest(v[rising], size // 2)], falling[_greatest(-v[falling], size // 2)]])

    def solve(self, problem: KernelProblem, chosen: Array, max_steps: int) -> int:
        """SMO on the local block. The steps made."""
        size, K = len(chosen), self._block(chosen)
        violation = self.top - self.bottom
        is_single = self.rows.dtype == np.float32 and violation > SINGLE_STEPS_ABOVE
        number = np.float32 if is_single else np.float64
        v, s, lower, upper = (np.zeros(len(K), kind) for kind in (number, np.float64, np.float64, np.float64))
        v[:size], s[:size] = self.v[chosen], self.s[chosen]
        lower[:size], upper[:size] = self.lower[chosen], self.upper[chosen]
        tolerance = number(min(LOCAL_TOLERANCE[self.is_small] * violation, GREATEST_LOCAL_TOLERANCE[self.is_small]))
        solve = solve_with_offset if problem.has_offset else solve_without_offset
        steps = solve(K, np.diagonal(K).astype(number), v, s, lower, upper, tolerance, max_steps)
        self.s[chosen] = s[:size]
        return int(steps)

    def _block(self, chosen: Array) -> Array:
        """The kernel values of these, with zeros to a multiple of RUN."""
        size = len(chosen)
        if self.rows.whole is not None and size == len(self.y):
            return self.rows.whole
        K = self._memory(padded(size))
        K[size:], K[:, size:] = 0.0, 0.0
        self.rows.block(chosen, out=K)
        return K

    def _memory(self, size: int) -> Array:
        """A matrix for the block, in the memory of the one before if that is enough: new pages are slow."""
        if len(self.memory) < size * size or self.memory.dtype != self.rows.dtype:
            self.memory = np.empty(size * size, self.rows.dtype)
        return self.memory[: size * size].reshape(size, size)


def _rising(n: int, parts: list[Array]) -> Array:
    """All of 0 .. n that are in one of the parts, in rising order."""
    is_in = np.zeros(n, np.bool_)
    for part in parts:
        is_in[part] = True
    return np.flatnonzero(is_in)


def _greatest(values: Array, count: int) -> Array:
    return np.arange(len(values)) if count >= len(values) else np.argpartition(values, len(values) - count)[-count:]

"""Where batched SMO stands: the point, what is known of f, who is set aside, and the next working set.

The method is described in ``maxmargin.solvers.kernel.batched_smo``."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.matrix import KernelMatrix, padded
from maxmargin.problem.kernel import KernelProblem
from maxmargin.solvers.base import Stage
from maxmargin.solvers.kernel.active_rows import ActiveRows
from maxmargin.solvers.kernel.batched_smo_loops import LocalProblem
from maxmargin.solvers.kernel.local_solve import solve_local
from maxmargin.solvers.kernel.signed_point import SignedPoint
from maxmargin.solvers.patience import IdleRounds, Patience, Standstill


@dataclass(frozen=True)
class BatchedPolicy:
    """The numbers that tune batched SMO. "With few samples" means fewer than ``many_samples``: there a kernel value costs no
    more than a step."""

    steps_a_variable: int = 20
    """The most steps of pairs on a working set, for each of its samples."""
    local_tolerance: float = 0.02
    """The violation at which a working set is left, as a share of the violation of all samples."""
    local_tolerance_if_few: float = 0.1
    """The same with few samples."""
    greatest_local_tolerance: float = 0.01
    """The violation at which a working set is left is never greater than this. A difference of margins."""
    greatest_local_tolerance_if_few: float = 0.05
    """The same with few samples."""
    smallest_set: int = 128
    """The fewest samples of a working set. Where 60 samples matter, the kernel values of a thousand took most of the time."""
    room: int = 4
    """Places in a working set for each sample that violates optimality or is free, where those are few."""
    widest: int = 4
    """A working set may grow to this many times its usual size when there are that many free variables."""
    nearly_all: float = 1.5
    """All samples are the working set where they are at most this many times its usual size, and their matrix is held."""
    float32_is_good_to: float = 1e-4
    """The relative gap down to which all of f may come from float32 kernel values."""
    single_steps_above: float = 1e-4
    """The violation of all samples above which the gradient of a working set may be float32. A difference of margins."""
    float32_range: float = 1e30
    """Kernel values and squared norms below this may be float32: its greatest number is 3e38."""
    near: float = 0.1
    """A sample with a margin within this of one has its f computed in float64. What float32 makes f wrong by is far less."""
    still_iterations: int = 4
    """Working sets, one after the other, that raise nothing: then f is computed anew."""
    looks_to_be_stuck: int = 3
    """Closer looks, one after the other, that do not halve the gap: then the solver gives up."""
    looks_ever: int = 60
    """The most closer looks of a solve."""
    steps_to_stall: int = 2_000_000
    """Steps of pairs before the solver can be said to have stalled: some seconds."""
    many_samples: int = 8192
    """Problems with fewer samples are not shrunk: their rows are short."""
    far: float = 4.0
    """A sample at a bound is set aside when it clears the margin by this many times the root-mean-square violation."""
    far_enough: float = 0.1
    """It is also set aside when it clears the margin by this much, or by twice the greatest violation if that is less."""
    iterations_to_shrink: int = 5
    """Working sets from one shrinking to the next."""
    doubtful: float = 1.5
    """Samples set aside may have moved this many times as far as the greatest move of the others."""
    block_share: float = 0.1
    """The share of the cache's budget that the block of a working set larger than usual may take."""


class Work(NamedTuple):
    """What another solver has done for the same problem."""

    steps: int = 0
    kernel_evaluations: int = 0


@dataclass
class BatchedSMOState(SignedPoint):
    """The point, how far from optimal it is, and what is known of f."""

    rows: ActiveRows
    random: np.random.Generator
    policy: BatchedPolicy
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
    looks: IdleRounds = field(default_factory=lambda: IdleRounds(share=0.5))  # closer looks that did not halve the exact gap
    looks_ever: int = 0
    b: float = 0.0  # the offset with the least primal value
    top: float = np.inf
    bottom: float = -np.inf
    relative_gap: float = np.inf  # LIBSVM's violation where the kernel is not positive semidefinite
    evaluations_before: int = 0
    is_stalled: bool = False
    memory: Array = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        self.patience = Patience(self.policy.steps_to_stall)
        self.standstill = Standstill(self.policy.still_iterations)

    @property
    def everyone(self) -> Array:
        return np.arange(len(self.y))

    @property
    def active(self) -> int:
        return len(self.rows.samples)

    @property
    def is_small(self) -> bool:
        return len(self.y) < self.policy.many_samples

    @property
    def local_tolerance(self) -> float:
        """The violation at which a working set is left, as a share of that of all samples."""
        return self.policy.local_tolerance_if_few if self.is_small else self.policy.local_tolerance

    @property
    def greatest_local_tolerance(self) -> float:
        return self.policy.greatest_local_tolerance_if_few if self.is_small else self.policy.greatest_local_tolerance

    @property
    def kernel_evaluations(self) -> int:
        return self.evaluations_before + self.rows.kernel_evaluations

    def exchange_rows(self, rows: ActiveRows) -> None:
        self.evaluations_before = self.kernel_evaluations
        self.rows = rows
        self.looks.count = 0

    def take_outputs(self, outputs: Array) -> None:
        """The f of the present point, which a certificate has computed anyway: saves the solver doing it again."""
        self.f[:] = self.units.outputs_of(outputs)
        self.f_before, self.b_before = self.f.copy(), self.b
        self.drift = 0.0
        self.is_exact = self.is_complete = True

    def take_point(self, s: Array, work: Work) -> None:
        """A point that another solver has found. f is that of the point before, until a certificate hands in the new one."""
        self.s[:] = s
        self._note_handed_over(work)

    def take_part(self, samples: Array, s: Array, f: Array, work: Work) -> None:
        """The same for some of the samples, whose f is known."""
        self.s[samples], self.f[samples] = s, f
        self._note_handed_over(work)

    def take_work(self, work: Work) -> None:
        """Steps and kernel values of another solver of the same problem, for the counts of the whole."""
        self.steps += work.steps
        self.evaluations_before += work.kernel_evaluations

    def go_on(self) -> None:
        """The target that was reached was not the one that counts."""
        self.looks_done = False

    def _note_handed_over(self, work: Work) -> None:
        self.take_work(work)
        self.is_exact = self.looks_done = self.is_stuck = False

    @property
    def precision(self) -> float:
        """The relative gap down to which the present f can be trusted."""
        total = float(np.abs(self.s).sum())
        return self.policy.float32_is_good_to * min(1.0, self.drift / total) if total > 0.0 else 0.0

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
        if self.iterations % self.policy.iterations_to_shrink == 0:
            can_move = self._can_move(self._far)
            can_move[self.rows.others] = False
            if not self.rows.is_narrow:
                self.f_before, self.b_before = self.f.copy(), self.b
            self.rows.narrow_to(np.flatnonzero(can_move))

    @property
    def _far(self) -> float:
        """From the margin: several times the mean error of those that can move, and near the end twice the greatest one."""
        error = self.cell_errors(self.b)[self._can_move(0.0)]
        if not len(error):
            return math.inf
        usual, greatest = math.sqrt(float(np.mean(np.square(error)))), self.top - self.bottom
        return max(self.policy.far * usual, min(self.policy.far_enough, 2.0 * greatest))

    def _can_move(self, far: float) -> Array:
        """Not at a bound that their margin, with so much room, says they should be at."""
        rise, fall = self.slopes
        mask: Array = ((self.s < self.upper) & (rise - self.b > -far)) | ((self.s > self.lower) & (fall - self.b < far))
        return mask & (self.lower < self.upper)

    @property
    def moved(self) -> float:
        """How far from their margin, at most, those who were not left out have moved since others were."""
        change = (self.f - self.f_before)[self.rows.samples]
        return float(np.abs(change + (self.b - self.b_before)).max(initial=0.0))

    def recheck(self, problem: KernelProblem, doubtful: float) -> None:
        """f of those that were left out with a margin not further than this from one."""
        others = self.rows.others
        self.compute_outputs(problem, others[np.abs(self.cell_errors(self.b))[others] < doubtful], self.rows.dtype)
        self.is_complete = True
        self.survey(problem)

    def refresh(self, problem: KernelProblem) -> None:
        """f from s in float64, free of the rounding of kernel values and of the steps that led here, for the free variables
        and all samples near the margin: where the others are, their gap terms are zero, and rounding does not change that.
        What was reached with the old f is forgotten, for it may have been too good to be true."""
        if not self.is_exact:
            is_near = np.abs(self.cell_errors(self.b)) < self.policy.near
            self.compute_outputs(problem, np.flatnonzero(self.is_free | is_near))
        self.drift, self.is_exact = 0.0, True
        self.standstill.forget_values()

    def compute_outputs(self, problem: KernelProblem, samples: Array, dtype: Any = np.float64) -> None:
        """f of these samples from s."""
        rows, support = KernelMatrix(problem.kernel, problem.points, dtype), np.flatnonzero(self.s)
        self.f[samples] = rows.sums_at(samples, support, self.s[support])
        self.evaluations_before += rows.kernel_evaluations

    def survey(self, problem: KernelProblem) -> None:
        """The violation and the gap at the present f, and whether they are getting better."""
        here = self.measure(problem.has_offset)
        self.top, self.bottom, self.b = here.top, here.bottom, here.b
        self.relative_gap = here.relative(problem.kernel.is_positive_semidefinite)
        self.is_stalled = self.patience.note(self.steps, here.dual, here.dual + here.gap)
        self.standstill.note(here.gap, here.dual)

    def choose(self, problem: KernelProblem, size: int) -> Array:
        """The working set, in the order of the samples."""
        rise, fall = self.slopes
        can_rise, can_fall = self.s < self.upper, self.s > self.lower
        can_rise[self.rows.others] = can_fall[self.rows.others] = False
        middle = 0.5 * (self.top + self.bottom) if problem.has_offset else 0.0
        slack = 0.5 * self.local_tolerance * (self.top - self.bottom)
        is_free = can_rise & can_fall & self.is_free
        rising = np.flatnonzero((can_rise & (rise > middle + slack)) | (is_free & (rise >= middle)))
        falling = np.flatnonzero((can_fall & (fall < middle - slack)) | (is_free & (fall < middle)))
        if len(rising) + len(falling) <= size:
            enough = max(self.policy.smallest_set, self.policy.room * (len(rising) + len(falling)))
            return self._worst(can_rise, can_fall, min(size, enough))
        half = size // 2
        n_rising = min(len(rising), max(half, size - len(falling)))
        drawn = [self._draw(rising, n_rising), self._draw(falling, size - n_rising)]
        sides = ((rising, rise), (falling, fall))
        worst = [side[[np.argmax(np.abs(slopes[side] - middle))]] for side, slopes in sides if len(side)]
        return _rising(len(rise), drawn + worst)

    def _draw(self, among: Array, count: int) -> Array:
        return among if count >= len(among) else self.random.choice(among, count, replace=False, shuffle=False)

    def _worst(self, can_rise: Array, can_fall: Array, size: int) -> Array:
        """The greatest slopes of those that can rise, and the least of those that can fall, as many of each."""
        (rise, fall), rising, falling = self.slopes, np.flatnonzero(can_rise), np.flatnonzero(can_fall)
        parts = [rising[_greatest(rise[rising], size // 2)], falling[_greatest(-fall[falling], size // 2)]]
        return _rising(len(rise), parts)

    def solve(self, problem: KernelProblem, chosen: Array, max_steps: int) -> int:
        """SMO on the local block. The steps made."""
        size, K = len(chosen), self._block(chosen)
        violation = self.top - self.bottom
        is_single = self.rows.dtype == np.float32 and violation > self.policy.single_steps_above
        number = np.float32 if is_single else np.float64
        v, s, lower, upper = (np.zeros(len(K), kind) for kind in (number, np.float64, np.float64, np.float64))
        tolerance = number(min(self.local_tolerance * violation, self.greatest_local_tolerance))
        v[:size], s[:size] = self.v[chosen], self.s[chosen]
        lower[:size], upper[:size] = self.lower[chosen], self.upper[chosen]
        local = LocalProblem(K, np.diagonal(K).astype(number), v, s, lower, upper, self.units.epsilon)
        steps = solve_local(local, tolerance, max_steps, problem.has_offset)
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

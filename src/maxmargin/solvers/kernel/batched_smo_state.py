"""The state of batched SMO: the point, the precision of f, the samples set aside, and the choice of the next working set.

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
class Leaving:
    """The violation at which a working set is left: a share of the violation of all samples, but at most a difference of
    margins or, in regression, of outputs in the units of the solver."""

    share: float
    most: float

    def tolerance(self, violation: float) -> float:
        return min(self.share * violation, self.most)


@dataclass(frozen=True)
class BatchedPolicy:
    """The numbers that tune batched SMO. "With few samples" means fewer than ``many_samples``: there a kernel value costs no
    more than a step."""

    steps_a_variable: int = 20
    """Limit on the pair steps on a working set, per sample of the set."""
    leaving: Leaving = Leaving(0.02, 0.01)
    """When a working set is left."""
    leaving_if_few: Leaving = Leaving(0.1, 0.05)
    """The same with few samples."""
    leaving_tube: Leaving = Leaving(0.1, 0.3)
    """The same in regression, where the first violations are several times the size of the targets. Measured on cpu_act with
    8,192 rows at C = 1, 10, 100, milliseconds to 1e-3: with (0.02, 0.01) 188, 461, 2,269, with this 190, 371, 1,703, with
    (0.3, 0.5) 244, 404, 1,684."""
    leaving_tube_if_few: Leaving = Leaving(0.2, 0.5)
    """The same in regression with few samples. Measured on abalone at C = 1, 10, 100: with (0.1, 0.05) 37, 52, 117, with this
    40, 50, 93."""
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
    """The gradient of a working set may be float32 while the violation of all samples is above this. A difference of
    margins."""
    float32_range: float = 1e30
    """Kernel values and squared norms may be float32 if they are below this. The greatest float32 is 3e38."""
    near: float = 0.1
    """f is computed in float64 for a sample whose margin is within this of one. The float32 error of f is far smaller."""
    still_iterations: int = 4
    """f is computed anew after this many working sets in a row that do not raise the dual value."""
    looks_to_be_stuck: int = 3
    """The solver gives up after this many rises in precision in a row that do not halve the gap."""
    looks_ever: int = 60
    """Limit on the rises in precision of a solve."""
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
    """The margin of a sample set aside is assumed to have moved at most this many times as far as the greatest move of the
    active samples."""
    block_share: float = 0.1
    """The share of the cache's budget that the block of a working set larger than usual may take."""


class Work(NamedTuple):
    """Work that another solver has done for the same problem."""

    steps: int = 0
    kernel_evaluations: int = 0


class Movable(NamedTuple):
    """The samples that a working set may take: which of them can rise and which can fall, the slope between the two, and the
    violation among these samples."""

    can_rise: Array
    can_fall: Array
    middle: float
    violation: float


@dataclass
class BatchedSMOState(SignedPoint):
    """The point, how far from optimal it is, and what is known of f."""

    rows: ActiveRows
    random: np.random.Generator
    policy: BatchedPolicy
    stage: ClassVar[Stage] = Stage("batched-smo")
    steps: int = 0
    usual_steps: int = 0  # steps of the last working set: a set with far fewer steps is not worth its kernel values
    looks_done: bool = False
    is_stuck: bool = False
    drift: float = 0.0  # sum of the changes of alpha that have met float32 kernel values since f was exact
    is_exact: bool = True  # f was computed in float64 from the present alpha
    is_complete: bool = True  # f is up to date for the samples set aside as well
    f_before: Array = field(default_factory=lambda: np.empty(0))  # f when no sample was last set aside
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
    values_read: int = 0  # kernel values read from memory: blocks, steps, and rows added to f
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
    def leaving(self) -> Leaving:
        """When a working set is left."""
        policy = self.policy
        if self.units.is_signed:
            return policy.leaving_tube_if_few if self.is_small else policy.leaving_tube
        return policy.leaving_if_few if self.is_small else policy.leaving

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
        """Take over a point of another solver. f stays that of the old point until a certificate delivers the new f."""
        self.s[:] = s
        self._note_handed_over(work)

    def take_part(self, samples: Array, s: Array, f: Array, work: Work) -> None:
        """Take over a point that differs at some samples only, whose f is known."""
        self.s[samples], self.f[samples] = s, f
        self._note_handed_over(work)

    def take_work(self, work: Work) -> None:
        """Steps and kernel values of another solver of the same problem, for the counts of the whole."""
        self.steps += work.steps
        self.evaluations_before += work.kernel_evaluations

    def go_on(self) -> None:
        """Forget that the target was reached: it was a preliminary one."""
        self.looks_done = False

    def _note_handed_over(self, work: Work) -> None:
        self.take_work(work)
        self.is_exact = self.looks_done = self.is_stuck = False

    @property
    def precision(self) -> float:
        """The relative gap down to which the present f can be trusted."""
        total = float(np.abs(self.s).sum())
        return self.policy.float32_is_good_to * min(1.0, self.drift / total) if total > 0.0 else 0.0

    @property
    def certificate_is_cheaper(self) -> bool:
        """Whether a certificate takes fewer kernel values than ``refresh``, and delivers f all the same. It computes the values
        between two support vectors once, n_sv (n - n_sv / 2) in all; ``refresh`` computes n_sv for each sample near the
        margin."""
        return int(np.count_nonzero(self._is_near)) >= len(self.y) - 0.5 * int(np.count_nonzero(self.s))

    @property
    def _is_near(self) -> Array:
        """The samples whose f must be exact: the free variables, and all near the margin."""
        mask: Array = self.is_free | (np.abs(self.cell_errors(self.b)) < self.policy.near)
        return mask

    def add(self, changed: Array, change: Array) -> None:
        """Bring f up to date with a change of s."""
        self.rows.add_to(self.f, changed, change)
        self.is_exact = self.is_exact and len(changed) == 0
        self.is_complete = self.is_complete and not (len(changed) and self.rows.is_narrow)
        if self.rows.dtype == np.float32:
            self.drift += float(np.abs(change).sum())

    def shrink(self) -> None:
        """Bring back the samples that may have to move, if their f was updated. From time to time set aside the samples that
        are far from moving."""
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
        """The distance from the margin at which a sample is set aside: several times the mean violation of the movable samples,
        and near the end twice the greatest one."""
        error = self.cell_errors(self.b)[self._can_move(0.0)]
        if not len(error):
            return math.inf
        usual, greatest = math.sqrt(float(np.mean(np.square(error)))), self.top - self.bottom
        return max(self.policy.far * usual, min(self.policy.far_enough, 2.0 * greatest))

    def _can_move(self, far: float) -> Array:
        """The samples that can still move: each lacks a bound to hold it, or clears the margin by less than ``far``."""
        rise, fall = self.slopes
        mask: Array = ((self.s < self.upper) & (rise - self.b > -far)) | ((self.s > self.lower) & (fall - self.b < far))
        return mask & (self.lower < self.upper)

    @property
    def moved(self) -> float:
        """The greatest move of an active sample's margin since other samples were set aside."""
        change = (self.f - self.f_before)[self.rows.samples]
        return float(np.abs(change + (self.b - self.b_before)).max(initial=0.0))

    def recheck(self, problem: KernelProblem, doubtful: float) -> None:
        """Update f of the samples set aside whose margin is within this of one."""
        others = self.rows.others
        self.compute_outputs(problem, others[np.abs(self.cell_errors(self.b))[others] < doubtful], self.rows.dtype)
        self.is_complete = True
        self.survey(problem)

    def refresh(self, problem: KernelProblem) -> None:
        """Compute f anew from s in float64, for the free variables and all samples near the margin. The gap terms of the other
        samples are zero, and rounding does not change that. The best values reached with the old f are forgotten: rounding may
        have made them too good."""
        if not self.is_exact:
            self.compute_outputs(problem, np.flatnonzero(self._is_near))
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
        can_rise, can_fall = self.s < self.upper, self.s > self.lower
        can_rise[self.rows.others] = can_fall[self.rows.others] = False
        middle = 0.5 * (self.top + self.bottom) if problem.has_offset else 0.0
        return self.choose_among(Movable(can_rise, can_fall, middle, self.top - self.bottom), size)

    def choose_among(self, movable: Movable, size: int) -> Array:
        """A working set of these samples, in the order of the samples."""
        (rise, fall), (can_rise, can_fall, middle, violation) = self.slopes, movable
        slack = 0.5 * self.leaving.share * violation
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
        number = self.number_of(self.v[chosen])
        v, s, lower, upper = (np.zeros(len(K), kind) for kind in (number, np.float64, np.float64, np.float64))
        tolerance = number(self.leaving.tolerance(violation))
        v[:size], s[:size] = self.v[chosen], self.s[chosen]
        lower[:size], upper[:size] = self.lower[chosen], self.upper[chosen]
        local = LocalProblem(K, np.diagonal(K).astype(number), v, s, lower, upper, self.units.epsilon)
        steps = solve_local(local, tolerance, max_steps, problem.has_offset)
        self.s[chosen] = s[:size]
        return int(steps)

    def number_of(self, v: Array) -> type[np.float32] | type[np.float64]:
        """The element type for the gradient of a working set: float32 while that is precise enough, and has room for it."""
        is_rough = self.rows.dtype == np.float32 and self.top - self.bottom > self.policy.single_steps_above
        return np.float32 if is_rough and np.abs(v).max(initial=0.0) < self.policy.float32_range else np.float64

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
    """The numbers of 0 .. n that are in at least one of the parts, in rising order."""
    is_in = np.zeros(n, np.bool_)
    for part in parts:
        is_in[part] = True
    return np.flatnonzero(is_in)


def _greatest(values: Array, count: int) -> Array:
    return np.arange(len(values)) if count >= len(values) else np.argpartition(values, len(values) - count)[-count:]

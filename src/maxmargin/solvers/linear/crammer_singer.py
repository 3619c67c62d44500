"""The sequential dual method for the machine of Crammer and Singer, with shrinking of classes within samples and of samples.

S. S. Keerthi, S. Sundararajan, K.-W. Chang, C.-J. Hsieh, C.-J. Lin, "A sequential dual method for large scale multi-class
linear SVMs", KDD 2008. After a cycle of a few sweeps b is extrapolated along the change of this cycle and of the last, as in
the method of conjugate gradients. All outputs are brought up to date then: they tell the gap, and which samples and classes
return."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.class_frame import fits_inside, has_uneven_columns
from maxmargin.solvers.linear.class_interior import ClassInterior
from maxmargin.solvers.linear.class_newton import ClassNewton, first_sigma, start_of, suits
from maxmargin.solvers.linear.class_policy import ClassInteriorPolicy, ClassNewtonPolicy


@dataclass(frozen=True)
class SequentialDualPolicy:
    """How long a cycle of sweeps is, what is kept in float32, and how far a problem is solved."""

    sweeps_a_cycle: int = 2
    """Sweeps between two looks at all samples. A look costs about half a sweep over all of them."""
    most_sweeps_a_cycle: int = 10
    """The same where few samples are at work: a cycle lasts until its sweeps have visited as many samples as there are."""
    plain_cycles: int = 4
    """Cycles before the first extrapolation: until then the signs of b change too much."""
    least_gain: float = 1e-3
    """An extrapolation must promise this share of the requested gap. Below that the dual value is good enough, and plain sweeps
    bring the primal value closer: on sector, extrapolation to the end stood still at a gap of 3e-6."""
    near: float = 2.0
    """No extrapolation where the gap terms at the visits of the last sweep add up to at most this many times the requested gap:
    the extrapolated point has a greater gap at first."""
    single_bytes: int = 2**20
    """Size of V in float64 from which it is kept in float32. On sector (49 MB) that halved the time of a sweep."""
    refresh_share: float = 3e-4
    """Where V is float32, all outputs are computed in float64 again when the gap has fallen to this share of the gap then."""
    target_share: float = 0.9
    """The solver asks for a certificate when its gap is at most this share of the requested gap."""
    next_share: float = 0.5
    """Factor on that share after each certificate that found the gap too large."""
    few_coefficients: int = 1000
    """Samples times classes up to which a problem is solved to ``fine_target``, whatever gap is requested."""
    fine_target: float = 1e-11
    """The relative gap to which small problems are solved."""
    fine_sweeps: int = 5000
    """Sweeps after which a small problem is solved only to the requested gap."""


@dataclass(frozen=True)
class SequentialDual:
    """Sets all coefficients of one sample at a time to their joint optimum."""

    policy: SequentialDualPolicy = field(default=SequentialDualPolicy(), repr=False)
    newton_policy: ClassNewtonPolicy = field(default=ClassNewtonPolicy(), repr=False)
    interior_policy: ClassInteriorPolicy = field(default=ClassInteriorPolicy(), repr=False)

    @property
    def name(self) -> str:
        return "sequential-dual"

    def init(self, problem: CrammerSingerProblem, warm_start: Array | None, seed: int) -> SequentialDualState:
        b = np.zeros((problem.n_samples, problem.n_classes)) if warm_start is None else _feasible(problem, warm_start)
        is_zero = warm_start is None or not b.any()
        state = SequentialDualState(problem, self.policy, b, np.random.default_rng(seed), is_zero)
        if suits(problem, self.newton_policy):
            state.sweeps_to_newton = self.newton_policy.sweeps_before(problem, self.policy.few_coefficients)
        state.may_go_inside = fits_inside(problem, self.interior_policy)
        if state.may_go_inside and has_uneven_columns(problem, self.interior_policy):
            state.begin_inside(self.interior_policy, "columns have very different sizes")
        return state

    def advance(self, problem: CrammerSingerProblem, state: SequentialDualState, budget: Budget) -> None:
        """Sweep over the active samples until the budget of steps is used."""
        state.go_on()
        end = state.steps + budget.steps
        while state.steps < end and not state.looks_done:
            if state.inside is not None:
                state.step_inside(budget.target)
                continue
            if state.newton is None and state.n_sweeps >= state.sweeps_to_newton:
                state.begin_newton(self.newton_policy)
            if state.newton is None:
                state.cycle(budget.target)
            else:
                state.newton_step(budget.target)
            if state.may_go_inside and not state.looks_done and state.is_slow(self.interior_policy):
                state.begin_inside(self.interior_policy, "other methods are not done")

    def candidate(self, problem: CrammerSingerProblem, state: SequentialDualState) -> tuple[Array | None, Array]:
        """W and b. Where W is that of b it is None: the judge computes it in any case."""
        if state.inside is not None:
            return state.inside.W, state.inside.b
        if state.newton is not None:
            return state.newton.W, state.newton.b
        return None, state.b


class LoopRows(NamedTuple):
    """X in the form that the loop takes; see the loop's module."""

    values: Array
    indices: Array
    indptr: Array
    bias: float
    is_dense: bool


@dataclass
class SequentialDualState:
    """The coefficients, their outputs at the last look, how W has changed since, and the active samples and classes."""

    problem: CrammerSingerProblem
    policy: SequentialDualPolicy
    b: Array
    random: np.random.Generator
    is_zero: bool = False
    """Whether b is zero at the beginning."""
    steps: int = 0
    looks_done: bool = False
    is_stuck: bool = False
    has_best_w: bool = True
    stage: Stage = field(default_factory=lambda: Stage("sequential-dual", "several classes at once"))
    active: int = 0
    n_sweeps: int = 0
    n_cycles: int = 0
    sweeps_to_newton: float = math.inf
    newton: ClassNewton | None = None
    n_newton_steps: int = 0
    inside: ClassInterior | None = None
    may_go_inside: bool = False
    share: float = 1.0
    refreshed_gap: float = math.inf
    visited_gap: float = math.inf
    dual: float = 0.0

    def __post_init__(self) -> None:
        problem, (n, k) = self.problem, self.b.shape
        size = problem.rows.n_features + 1
        is_single = 8 * size * k > self.policy.single_bytes
        dtype: Any = np.float32 if is_single else np.float64
        a_register = _numbers_a_register(dtype)
        stride = -(-k // a_register) * a_register
        self.rows = _loop_rows(problem, dtype)
        self.V, self.last_V = _aligned(size * stride, dtype), _aligned(size * stride, dtype)
        self.work = _aligned(stride, dtype), np.zeros(stride), np.zeros(stride), _aligned(stride, dtype)
        self.samples = problem.rows.squared_norms(problem.intercept_scaling), problem.C, problem.y
        self.last_move = np.zeros((n, k))
        self.base = np.zeros((n, k)) if self.is_zero else problem.outputs(problem.weights(self.b))
        self.active = n

    def look_at_all(self) -> None:
        """Make all samples and classes active. The own class of a sample is the first of its list."""
        n, k = self.b.shape
        classes = np.tile(np.arange(k, dtype=np.int32), (n, 1))
        classes[np.arange(n), self.problem.y], classes[:, 0] = 0, self.problem.y
        self.lists = np.arange(n), classes, np.full(n, k, np.int64)
        self.active = n

    def go_on(self) -> None:
        """After a certificate that was not enough: with outputs in float64, and to a smaller gap."""
        if self.looks_done:
            self.looks_done = False
            if self.inside is not None:
                self.inside.go_on()
                return
            self.share *= self.policy.next_share
            if self.newton is None:
                self.refresh()

    def cycle(self, target: float) -> None:
        """A few sweeps, an extrapolation, and a look at all samples."""
        if self.n_cycles == 0:
            self.look_at_all()
        before = self.b.copy()
        self.V.fill(0.0)
        end = self.steps + len(self.b)
        for turn in range(self.policy.most_sweeps_a_cycle):
            if turn >= self.policy.sweeps_a_cycle and self.steps >= end:
                break
            self._sweep()
        self.n_cycles += 1
        self._extrapolate(before, target)
        self._look(target)

    def _sweep(self) -> None:
        from maxmargin.solvers.linear.crammer_singer_loop import sweep

        self.n_sweeps += 1
        self.steps += max(self.active, 1)
        self.random.shuffle(self.lists[0][: self.active])
        point = self.V, self.base, self.b
        self.visited_gap, self.active = sweep(self.rows, self.samples, point, self.lists, self.work, self.active)

    def _extrapolate(self, before: Array, target: float) -> None:
        """Along the change of this cycle and the last, to the greatest value of the dual on that plane; what is not feasible
        moves back. The dual is quadratic, and its slopes are known from ``base``. Where the value falls, b stays."""
        from maxmargin.solvers.linear.crammer_singer_loop import add_outputs, extrapolate, slopes

        V, last, move = self.V, self.last_V, before
        first, second = slopes(self.problem.y, self.base, self.b, move, self.last_move)
        uu, ud, dd = float(V @ V), float(V @ last), float(last @ last)
        here = first - 0.5 * uu
        steps, gain = _best_steps((uu, ud, dd), (first - uu, second - ud))
        if self._is_worth(gain, target * max(self.dual, 0.0)):
            b = self.b.copy()
            np.multiply(last, last.dtype.type(steps[1]), out=last)
            last += V.dtype.type(1.0 + steps[0]) * V
            extrapolate(self.rows, self.samples, b, (move, self.last_move), steps, last, self.work)
            moved = b - (self.b - move)
            there = float(np.sum(moved[self.problem.own])) - float(np.vdot(moved, self.base)) - 0.5 * float(last @ last)
            if there > here:
                self.b, self.last_move = b, moved
                add_outputs(self.rows, last, self.base, self.work[0])
                return
        self.last_move, self.V, self.last_V = move, last, V
        add_outputs(self.rows, V, self.base, self.work[0])

    def _is_worth(self, gain: float, asked: float) -> bool:
        policy = self.policy
        is_near = self.visited_gap <= policy.near * asked
        return self.n_cycles > policy.plain_cycles and gain > policy.least_gain * asked and not is_near

    def _look(self, target: float) -> None:
        gap = self._gap()
        if self.rows.values.dtype == np.float32 and gap <= self.policy.refresh_share * self.refreshed_gap:
            self.refresh()
            gap = self.refreshed_gap = self._gap()
        if self.b.size <= self.policy.few_coefficients and self.n_sweeps < self.policy.fine_sweeps:
            target = min(target, self.policy.fine_target)
        self.looks_done = gap <= self.policy.target_share * self.share * target * max(self.dual, 0.0)

    def _gap(self) -> float:
        """The gap of b and its W by the outputs. Samples and classes that violate their conditions return to work."""
        from maxmargin.solvers.linear.crammer_singer_loop import look

        at_work = np.zeros(len(self.b), bool)
        at_work[self.lists[0][: self.active]] = True
        gap, self.dual = look(self.samples, self.base, self.b, self.lists, at_work)
        order = np.concatenate([np.flatnonzero(at_work), np.flatnonzero(~at_work)])
        self.lists, self.active = (order, *self.lists[1:]), int(np.count_nonzero(at_work))
        if self.refreshed_gap == math.inf:
            self.refreshed_gap = gap
        return float(gap)

    def refresh(self) -> None:
        """All outputs from b, in float64."""
        self.base = self.problem.outputs(self.problem.weights(self.b))

    def begin_inside(self, policy: ClassInteriorPolicy, reason: str) -> None:
        """The interior-point method begins, and only once."""
        self.inside, self.may_go_inside = ClassInterior(self.problem, policy), False
        self.stage = Stage("class-interior-point", reason)

    def is_slow(self, policy: ClassInteriorPolicy) -> bool:
        """Whether Newton's method has failed or made many steps, or the dual descent many sweeps without it."""
        if self.newton is None:
            return self.n_newton_steps > 0 or self.n_sweeps >= policy.sweeps
        return self.n_newton_steps >= policy.newton_steps

    def step_inside(self, target: float) -> None:
        """One step of the interior-point method. Where it fails, the method of before goes on."""
        assert self.inside is not None
        self.steps += len(self.b)
        self.looks_done = self.inside.step(target)
        if self.inside.has_failed and not self.looks_done:
            self.inside = self.inside.with_less_cost()
        if self.inside is None:
            self.stage = Stage("sequential-dual", "the interior-point method found no step")

    def begin_newton(self, policy: ClassNewtonPolicy) -> None:
        """Newton's method goes on from here."""
        if self.n_sweeps == 0 and policy.part_of(self.problem) > 0 and self.is_zero:
            self.newton = start_of(self.problem, policy, self.b, self.random)
        else:
            W, sigma = self.problem.weights(self.b), first_sigma(self.problem, policy)
            self.newton = ClassNewton(self.problem, policy, W, self.b, sigma)
        self.active = len(self.b)
        self.stage = Stage("class-newton", "few weights, and the dual descent is not done")

    def newton_step(self, target: float) -> None:
        """One step of Newton's method. Where it fails, the dual descent goes on from its b, to the end."""
        newton = self.newton
        assert newton is not None
        newton.step(self.share * target)
        self.n_newton_steps += 1
        self.steps += len(self.b)
        self.looks_done = newton.is_within(self.share * target)
        if newton.has_failed:
            self.newton, self.sweeps_to_newton = None, math.inf
            self.b = _feasible(self.problem, newton.b)
            self.refresh()
            self.last_move.fill(0.0)
            self.last_V.fill(0.0)
            self.stage = Stage("sequential-dual", "Newton's method found no step")
            self.look_at_all()


def _best_steps(products: tuple[float, float, float], slopes: tuple[float, float]) -> tuple[tuple[float, float], float]:
    """The greatest value of slopes . t - t'Gt / 2 and its t; the second move is left out where both are alike."""
    uu, ud, dd = products
    determinant = uu * dd - ud * ud
    if determinant > 1e-6 * uu * dd:
        steps = (dd * slopes[0] - ud * slopes[1]) / determinant, (uu * slopes[1] - ud * slopes[0]) / determinant
    else:
        steps = (slopes[0] / uu if uu > 0.0 else 0.0), 0.0
    return steps, 0.5 * (steps[0] * slopes[0] + steps[1] * slopes[1])


def _feasible(problem: CrammerSingerProblem, b: Array) -> Array:
    """The given coefficients moved to nearby ones that meet the signs and bounds of the dual."""
    others = np.minimum(np.asarray(b, dtype=np.float64).reshape(problem.n_samples, problem.n_classes), 0.0)
    others[problem.own] = 0.0
    A = -others.sum(axis=1)
    others *= np.minimum(1.0, problem.C / np.maximum(A, 1e-300))[:, None]
    others[problem.own] = -others.sum(axis=1)
    return np.ascontiguousarray(others)


def _numbers_a_register(dtype: Any) -> int:
    from maxmargin.solvers.linear.class_row_loops import REGISTER_BYTES

    return REGISTER_BYTES // np.dtype(dtype).itemsize


def _aligned(size: int, dtype: Any) -> Array:
    """Zeros that begin with a cache line: else every register of a loop is read from two of them."""
    spare = _numbers_a_register(dtype)
    whole = np.empty(size + spare, dtype)
    begin = -(whole.ctypes.data // whole.itemsize) % spare
    part = whole[begin : begin + size]
    part.fill(0.0)
    return part


def _loop_rows(problem: CrammerSingerProblem, dtype: Any) -> LoopRows:
    matrix: Any = problem.rows.matrix
    bias = float(problem.intercept_scaling)
    if problem.rows.is_sparse:
        indices = matrix.indices.astype(np.uint32, copy=False).view(np.uint32)
        indptr = matrix.indptr.astype(np.int64, copy=False).view(np.uint64)
        return LoopRows(matrix.data.astype(dtype, copy=False), indices, indptr, bias, False)
    n, d = matrix.shape
    values = matrix.astype(dtype, copy=False).reshape(-1)
    return LoopRows(values, np.zeros(1, np.uint32), np.arange(0, n * d + 1, d).astype(np.uint64), bias, True)

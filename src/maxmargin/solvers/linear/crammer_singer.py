"""The sequential dual method for the machine of Crammer and Singer, with shrinking of classes within samples and of samples.

S. S. Keerthi, S. Sundararajan, K.-W. Chang, C.-J. Hsieh, C.-J. Lin, "A sequential dual method for large scale multi-class
linear SVMs", KDD 2008. Every sweep adds up the gap terms of its samples at their visits. When that sum is small, all classes
and samples return, and the next sum over all of them is an estimate of the whole gap."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.class_newton import ClassNewton, ClassNewtonPolicy, suits


@dataclass(frozen=True)
class SequentialDualPolicy:
    """When shrunk samples and classes return, and how far a problem is solved."""

    first_share: float = 0.1
    """Gap of the active samples, as a share of the objective, at which shrunk samples and classes first return."""
    next_share: float = 0.2
    """Factor on that share after each return that found the gap too large."""
    target_share: float = 0.5
    """The solver asks for a certificate when its gap is at most this share of the requested gap."""
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

    @property
    def name(self) -> str:
        return "sequential-dual"

    def init(self, problem: CrammerSingerProblem, warm_start: Array | None, seed: int) -> SequentialDualState:
        b = np.zeros((problem.n_samples, problem.n_classes)) if warm_start is None else _feasible(problem, warm_start)
        W = problem.weights(b) if b.any() else np.zeros((problem.n_weights, problem.n_classes))
        has_constant = problem.intercept_scaling != 0.0
        rows = _loop_rows(problem)
        W = np.ascontiguousarray(W if has_constant else np.vstack([W, np.zeros(problem.n_classes)]))
        squares = problem.rows.squared_norms(problem.intercept_scaling)
        state = SequentialDualState(problem, rows, W, b, squares, np.random.default_rng(seed), self.policy.first_share)
        state.look_at_all()
        if b.size > self.policy.few_coefficients and suits(problem, self.newton_policy):
            state.sweeps_to_newton = self.newton_policy.sweeps
        return state

    def advance(self, problem: CrammerSingerProblem, state: SequentialDualState, budget: Budget) -> None:
        """Sweep over the active samples until the budget of steps is used."""
        if state.looks_done:
            state.share, state.looks_done = state.share * self.policy.next_share, False
        end = state.steps + budget.steps
        while state.steps < end and not state.looks_done:
            if state.newton is None and state.n_sweeps >= state.sweeps_to_newton:
                state.begin_newton(self.newton_policy)
            if state.newton is None:
                state.sweep(budget.target, self.policy)
            else:
                state.newton_step(budget.target, self.policy)

    def candidate(self, problem: CrammerSingerProblem, state: SequentialDualState) -> tuple[Array, Array]:
        if state.newton is not None:
            return state.newton.W, state.newton.b
        return state.W[: problem.n_weights], state.b


class LoopRows(NamedTuple):
    """X in the form that the loop takes; see the loop's module."""

    values: Array
    indices: Array
    indptr: Array
    bias: float
    is_dense: bool


@dataclass
class SequentialDualState:
    """The coefficients, their W, and the active samples and classes."""

    problem: CrammerSingerProblem
    rows: LoopRows
    W: Array
    b: Array
    squares: Array
    random: np.random.Generator
    share: float
    steps: int = 0
    looks_done: bool = False
    is_stuck: bool = False
    has_best_w: bool = True
    stage: Stage = field(default_factory=lambda: Stage("sequential-dual", "several classes at once"))
    order: Array = field(default_factory=lambda: np.empty(0, np.int64))
    active: int = 0
    is_whole: bool = True
    n_sweeps: int = 0
    sweeps_to_newton: float = math.inf
    newton: ClassNewton | None = None
    newton_share: float = 1.0

    def look_at_all(self) -> None:
        """Make all samples and classes active. The own class of a sample is the first of its list."""
        n, k = self.b.shape
        self.classes = np.tile(np.arange(k, dtype=np.int32), (n, 1))
        self.classes[np.arange(n), self.problem.y], self.classes[:, 0] = 0, self.problem.y
        self.sizes = np.full(n, k, np.int64)
        self.order, self.active, self.is_whole = np.arange(n), n, True

    def sweep(self, target: float, policy: SequentialDualPolicy) -> None:
        from maxmargin.solvers.linear.crammer_singer_loop import sweep

        k = self.problem.n_classes
        self.n_sweeps += 1
        self.random.shuffle(self.order[: self.active])
        samples = self.squares, self.problem.C, self.problem.y
        work = self.classes, self.sizes, np.empty(2 * k), np.empty(k), np.empty(k, np.int64), np.empty(k)
        self.steps += max(self.active, 1)
        gap, self.active = sweep(self.rows, samples, (self.W, self.b), work, self.order, self.active, True)
        was_whole, self.is_whole = self.is_whole, False
        dual = float(self.b[self.problem.own].sum()) - 0.5 * float(np.sum(np.square(self.W)))
        if self.b.size <= policy.few_coefficients and self.steps < policy.fine_sweeps * len(self.b):
            target = min(target, policy.fine_target)
        asked = policy.target_share * target * max(dual, 1e-300)
        if was_whole and gap <= asked:
            self.looks_done = True
        elif gap <= max(asked, self.share * max(dual, 1e-300)) and not was_whole:
            self.look_at_all()
            self.share *= policy.next_share

    def begin_newton(self, policy: ClassNewtonPolicy) -> None:
        """Newton's method goes on from here."""
        self.newton = ClassNewton(self.problem, policy, self.W[: self.problem.n_weights].copy(), self.b)
        self.active = len(self.b)
        self.stage = Stage("class-newton", "few weights, and the dual descent is not done")

    def newton_step(self, target: float, policy: SequentialDualPolicy) -> None:
        """One step of Newton's method. Where it fails, the dual descent goes on from its b, to the end."""
        newton = self.newton
        assert newton is not None
        newton.step(policy.target_share * self.newton_share * target)
        self.steps += len(self.b)
        self.looks_done = newton.least <= self.newton_share * target * max(newton.dual, 0.0)
        if self.looks_done:
            self.newton_share *= policy.target_share
        if newton.has_failed:
            self.newton, self.sweeps_to_newton = None, math.inf
            self.b = _feasible(self.problem, newton.b)
            self.W[: self.problem.n_weights] = self.problem.weights(self.b)
            self.stage = Stage("sequential-dual", "Newton's method found no step")
            self.look_at_all()


def _feasible(problem: CrammerSingerProblem, b: Array) -> Array:
    """The given coefficients moved to nearby ones that meet the signs and bounds of the dual."""
    others = np.minimum(np.asarray(b, dtype=np.float64).reshape(problem.n_samples, problem.n_classes), 0.0)
    others[problem.own] = 0.0
    A = -others.sum(axis=1)
    others *= np.minimum(1.0, problem.C / np.maximum(A, 1e-300))[:, None]
    others[problem.own] = -others.sum(axis=1)
    return np.ascontiguousarray(others)


def _loop_rows(problem: CrammerSingerProblem) -> LoopRows:
    matrix: Any = problem.rows.matrix
    bias = float(problem.intercept_scaling)
    if problem.rows.is_sparse:
        indices = matrix.indices.astype(np.uint32, copy=False).view(np.uint32)
        indptr = matrix.indptr.astype(np.int64, copy=False).view(np.uint64)
        return LoopRows(matrix.data.astype(np.float64, copy=False), indices, indptr, bias, False)
    n, d = matrix.shape
    values = matrix.astype(np.float64, copy=False).reshape(-1)
    return LoopRows(values, np.zeros(1, np.uint32), np.arange(0, n * d + 1, d).astype(np.uint64), bias, True)

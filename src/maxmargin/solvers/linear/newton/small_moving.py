"""The compiled call of Newton's method for the same samples at one cost after another.

The signed columns of X are made once. The sum S of outer products of the free samples belongs to all costs up to a factor, so
that a solve begins with that of the last one. From Python a step takes 0.30 ms on a fold of a1a (1,284 samples, 120 weights,
hinge loss), and in the call 0.14 ms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.newton.frame import is_rotated
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.small_newton import Memory, SmallNewton, SmallState


class KeptMemory(Memory):
    """The memory of the call, which outlives a solve."""

    def move_to(self, problem: LinearProblem, w: Array, alpha: Array, penalty: float) -> None:
        """Begin at this pair of a problem with the same samples, whose costs are those of before times a factor."""
        samples, weights, settings = self.samples, self.weights, self.settings
        top = int(np.argmax(samples.C))
        weights.S[:] *= problem.C[top] / samples.C[top]
        samples.C[:] = problem.C
        alpha = np.clip(alpha, problem.box.L, problem.box.U)
        samples.share[:] = 0.0
        np.divide(alpha, samples.C, out=samples.share, where=samples.C > 0.0)
        samples.anchor[:] = np.clip(samples.share, settings.lower, settings.upper, out=samples.share)
        weights.w_alpha[:], weights.w[:] = problem.weights(alpha), w
        samples.slack[:] = samples.target - problem.margins(w)
        penalty = settings.penalty if settings.penalty == np.inf else penalty
        self.settings = settings._replace(anchor_dual=problem.dual(alpha), penalty=penalty)


class KeptState(SmallState):
    """The state of a solve that uses the memory of the last one."""

    def __init__(self, problem: LinearProblem, memory: KeptMemory, w: Array, alpha: Array) -> None:
        super().__init__(problem, None)
        self.kept, self.w, self.warm_start = memory, w, alpha

    def _begun(self, solver: SmallNewton, budget: Budget) -> Memory:
        assert self.warm_start is not None
        policy = solver.careful.policy
        self.kept.settings = self.kept.settings._replace(converged=max(policy.converged, policy.small_aim * budget.target))
        penalty = solver.careful.penalty if self.w.any() else solver.careful.cold_penalty
        self.kept.move_to(self.problem, self.w, self.warm_start, penalty)
        return self.kept


@dataclass(frozen=True)
class MovedSmallNewton:
    """The compiled call from the pair (w, alpha), with the memory of earlier calls."""

    memory: KeptMemory
    w: Array
    alpha: Array
    call: SmallNewton = field(default_factory=lambda: SmallNewton(Newton()))

    @property
    def name(self) -> str:
        return "newton"

    @staticmethod
    def suits(problem: LinearProblem, most_elements: int, most_weights: int) -> bool:
        """Whether the loss is the hinge loss, the rows are dense and few, and w is short."""
        is_plain = problem.penalizes_intercept and problem.offset_prices is None and not problem.penalty.has_kink
        is_few = problem.n_samples * problem.n_weights <= most_elements and problem.n_weights <= most_weights
        is_hinge = not problem.loss.is_regression and not problem.loss.is_smooth
        return is_plain and is_few and is_hinge and not problem.rows.is_sparse and not is_rotated(problem)

    @staticmethod
    def memory_of(problem: LinearProblem) -> KeptMemory:
        memory = KeptMemory.of(problem, SmallNewton().settings)
        assert isinstance(memory, KeptMemory)
        return memory

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> KeptState:
        return KeptState(problem, self.memory, self.w, self.alpha)

    def advance(self, problem: LinearProblem, state: KeptState, budget: Budget) -> None:
        with single_threaded_blas(), np.errstate(all="ignore"):
            self.call.advance(problem, state, budget)

    def candidate(self, problem: LinearProblem, state: KeptState) -> tuple[Array, Array]:
        """Copies: the memory goes on to other costs while the answer is kept."""
        w, alpha = self.call.candidate(problem, state)
        return w.copy(), alpha.copy()

r"""Pair descent for a free offset with a price: H.-Y. Chou, P.-Y. Lin, C.-J. Lin, "Dual coordinate-descent methods for linear
one-class SVM and SVDD", SDM 2020.

The dual fixes :math:`\sum_i \alpha_i`, so a step changes two samples. An iteration computes all outputs f, takes rho as their
weighted quantile, and pairs the worst violators: a sample below rho whose alpha can rise with a sample above rho whose alpha
can fall. Each pair is moved to its optimum, with its outputs computed anew. The outputs also give the duality gap, which
decides when to stop. The first alpha is at its bound for the samples with the least outputs of w(prices)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.offset import best_offsets
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.newton.frame import with_best_offset
from maxmargin.solvers.linear.pair_descent_loop import descend_pairs


@dataclass(frozen=True)
class PairDescent:
    """``most_pairs`` is the share of the samples that are paired in an iteration. ``sweeps`` is how often each of them is
    paired. ``still_iterations`` iterations in a row without a smaller gap end the solve. On a9a, cpu_act and ijcnn1 (nu = 0.01,
    0.1, 0.5; geometric means) 0.1 and 10 take 14, 3.5 and 30 ms to 1e-3, and 17, 3.6 and 46 ms to 1e-6; 0.05 and 4 take 13, 3.2
    and 33 ms, and 17, 7.2 and 53 ms."""

    most_pairs: float = 0.1
    sweeps: int = 10
    still_iterations: int = 30

    @property
    def name(self) -> str:
        return "pair-descent"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> PairState:
        if problem.offset_prices is None:
            raise ValueError(f"The solver {self.name!r} is for one class: use 'newton' or 'auto'.")
        alpha = first_alpha(problem) if warm_start is None else problem.balanced(np.clip(warm_start, 0.0, problem.box.U))
        return PairState(problem, alpha)

    def advance(self, problem: LinearProblem, state: PairState, budget: Budget) -> None:
        """Whole iterations, at least one."""
        end = state.steps + budget.steps
        if state.looks_done:
            state.look_closer()
        while state.steps < end and not state.looks_done:
            state.judge()
            if state.gap <= budget.target * state.caution * abs(state.dual) or state.idle >= self.still_iterations:
                state.looks_done, state.is_stuck = True, state.idle >= self.still_iterations
                return
            state.improve(max(2, int(self.most_pairs * problem.n_samples)), self.sweeps)

    def candidate(self, problem: LinearProblem, state: PairState) -> tuple[Array, Array]:
        return with_best_offset(problem, state.w[: problem.n_weights], state.plain_outputs), problem.balanced(state.alpha)


class PairState:
    """alpha with its w, the outputs at the beginning of the iteration, and the offset and gap that follow from them."""

    stage: ClassVar[Stage] = Stage("pair-descent")
    has_best_w: ClassVar[bool] = True

    def __init__(self, problem: LinearProblem, alpha: Array) -> None:
        self.problem, self.alpha = problem, np.ascontiguousarray(alpha)
        self.steps = self.iterations = self.idle = 0
        self.looks_done = self.is_stuck = False
        self.caution, self.least_gap = 1.0, np.inf
        self.gap = self.dual = np.inf
        self._upper = np.ascontiguousarray(problem.box.U)
        self._level = float(problem.C.sum() - problem.offset_prices.sum())  # type: ignore[union-attr]
        self._other = np.zeros(problem.rows.n_features + 1)
        self.refresh()

    @property
    def active(self) -> int:
        return self.problem.n_samples

    def refresh(self) -> None:
        """Compute w anew from alpha, which removes the rounding error of earlier steps."""
        self.w = np.append(self.problem.weights(self.alpha)[:-1], 0.0)
        self.plain_outputs: Array | None = None

    def look_closer(self) -> None:
        """A certificate was refused."""
        self.looks_done = False
        self.caution *= 0.5
        self.alpha = np.ascontiguousarray(self.problem.balanced(self.alpha))
        self.refresh()

    def judge(self) -> None:
        """All outputs, rho, and the gap."""
        problem = self.problem
        self.plain_outputs = problem.rows.matrix @ self.w[:-1]
        offset = best_offsets(-self.plain_outputs, problem.C, self._level).middle
        self.outputs = self.plain_outputs + offset
        self.gap = float(np.sum(problem.loss.gap_terms(self.outputs, self.alpha, problem.C, 0.0)))
        self.dual = -0.5 * float(self.w @ self.w)
        self.idle = 0 if self.gap < self.least_gap else self.idle + 1
        self.least_gap = min(self.least_gap, self.gap)
        self.iterations += 1
        self.steps += problem.n_samples

    def improve(self, most: int, sweeps: int) -> None:
        """Pair the worst violators: first with the worst of the other side, then with others."""
        self.plain_outputs = None
        below = _worst(self.outputs, (self.alpha < self._upper), most)
        above = _worst(-self.outputs, (self.alpha > 0.0), most)
        size = max(len(below), len(above))
        if size == 0:
            return
        for sweep in range(sweeps):
            shifted = np.roll(np.resize(above, size), sweep * (size // sweeps))
            pairs = np.column_stack([np.resize(below, size), shifted])
            descend_pairs(self.problem.compiled_rows, pairs, self.alpha, self._upper, self.w, self._other)
        self.steps += 2 * sweeps * size


def _worst(outputs: Array, can_move: Array, most: int) -> Array:
    """The movable samples with the lowest values below zero, in that order. If no value is below zero, the lowest movable
    samples. Many values may be equal: rows without elements all have the same output."""
    chosen = np.flatnonzero(can_move & (outputs < 0.0))
    if not len(chosen):
        movable = np.flatnonzero(can_move)
        return movable[outputs[movable] == outputs[movable].min(initial=np.inf)][:most]
    values = outputs[chosen]
    if len(chosen) > most:
        kept = np.argpartition(values, most)[:most]
        chosen, values = chosen[kept], values[kept]
    return chosen[np.argsort(values, kind="stable")]


def first_alpha(problem: LinearProblem) -> Array:
    """The first alpha: at its bound for the samples with the least outputs of w(prices), as many as the sum allows."""
    prices = problem.offset_prices
    assert prices is not None
    outputs, total = problem.rows.matrix @ problem.weights(prices)[:-1], float(prices.sum())
    if problem.C.strides == (0,):  # one weight for all: the order among the lowest does not matter
        order = np.argpartition(outputs, min(int(total / problem.C[0]), problem.n_samples - 1))
    else:
        order = np.argsort(outputs, kind="stable")
    before = np.cumsum(problem.box.U[order]) - problem.box.U[order]
    alpha = np.empty(problem.n_samples)
    alpha[order] = np.clip(total - before, 0.0, problem.box.U[order])
    return problem.balanced(alpha)

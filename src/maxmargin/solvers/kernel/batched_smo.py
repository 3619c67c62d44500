"""SMO on working sets of a thousand, for hardware that multiplies matrices faster than it reads memory.

An outer iteration chooses a working set W and computes the block K_WW. It moves pairs of W, chosen by SMO's second-order rule,
until W is nearly optimal. Then it computes whole rows for the changed variables only:

    f += sum over changed j of (s_j - s_j before) K[j, :]     in float64, whatever the rows are.

While more samples violate optimality than W can hold, W is drawn at random from the violators and the free variables, half from
each side, and the worst pair (F. Perez-Cruz et al., "Double chunking for solving SVMs for very large datasets", 2004, and the
rule of papers/irwls_svc): with the worst violators alone, W alternates between the same sets. Later, W is the worst violators.

Rows are float32 at first, and their rounding errors enter f. When the target needs more precision, or after a refused
certificate, f is computed anew in float64. From then on only the *changes* of alpha are multiplied by float32 values: this is
iterative refinement. If it does not reach the target either, rows become float64.

Shrinking: a sample at a bound is set aside when it clears the margin by more than ``far`` times the root-mean-square violation
of the samples that can still move, and rows get shorter. Joachims' rule uses the greatest violation instead, which is ten times
the mean and hardly falls at first. Neither rule is a proof. So before the target counts as reached, f is computed for the
samples set aside nearest to the margin, and at the end the certificate computes f for all samples. A sample that has to move
after all comes back (papers/safe_screening, Algorithm 1).

Here are the settings, and when to stop; where the solver stands is in ``maxmargin.solvers.kernel.batched_smo_state``, and the
loops are in ``maxmargin.solvers.kernel.batched_smo_loops``. All of them use the signed variables s_i = y_i alpha_i, and in
regression the units of ``maxmargin.solvers.kernel.units``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.matrix import matrix_of
from maxmargin.kernel_matrix.rows import MEGABYTE
from maxmargin.problem.kernel import KernelProblem
from maxmargin.solvers.base import Budget, KernelSolver
from maxmargin.solvers.kernel.active_rows import ActiveRows, HoldingPolicy
from maxmargin.solvers.kernel.batched_smo_state import BatchedPolicy, BatchedSMOState
from maxmargin.solvers.kernel.units import start_in_units


@dataclass(frozen=True)
class BatchedSMO(KernelSolver):
    """``working_set`` is the usual number of samples of a working set, ``cache_mb`` the budget for kernel values. ``dtype``
    is that of the kernel rows: "auto" is float32, and float64 when that cannot reach the target."""

    working_set: int = 1024
    cache_mb: float = 500.0
    dtype: Literal["auto", "float32", "float64"] = "auto"
    shrinks: bool = True
    policy: BatchedPolicy = field(default_factory=BatchedPolicy)
    holding: HoldingPolicy = field(default_factory=HoldingPolicy)

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
        """It reads the kernel values that pairs of classes share, if there are any."""
        return self.dtype != "float64"

    @property
    def budget_mb(self) -> float:
        return self.cache_mb

    def within(self, budget_mb: float) -> BatchedSMO:
        return replace(self, cache_mb=budget_mb)

    def init(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> BatchedSMOState:
        signed, units = start_in_units(problem, warm_start)
        state = BatchedSMOState(
            **signed._asdict(),
            units=units,
            f=np.zeros(problem.n_samples),
            rows=self._rows(problem, self._first_dtype(problem)),
            random=np.random.default_rng(seed),
            policy=self.policy,
        )
        if state.s.any():
            state.compute_outputs(problem, np.arange(problem.n_samples))
        state.survey(problem)
        return state

    def _rows(self, problem: KernelProblem, dtype: Any) -> ActiveRows:
        return ActiveRows(matrix_of(problem, dtype, self.cache_mb), self.holding)

    def _first_dtype(self, problem: KernelProblem) -> type[np.float32] | type[np.float64]:
        if self.dtype == "auto":
            has_room = problem.kernel.largest_operand(problem.points) < self.policy.float32_range
            return np.float32 if has_room else np.float64
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
        return state.alpha

    def take_outputs(self, problem: KernelProblem, state: BatchedSMOState, outputs: Array) -> None:
        """The f of the present alpha, which a certificate has computed anyway: saves the solver doing it again."""
        state.take_outputs(outputs)

    def _is_over(self, problem: KernelProblem, state: BatchedSMOState, target: float) -> bool:
        goal = target * state.caution
        if state.relative_gap <= goal and not state.is_complete:
            state.recheck(problem, self.policy.doubtful * state.moved)
        if goal < state.precision and state.relative_gap <= state.precision and not state.certificate_is_cheaper:
            self._look_closer(problem, state)
        state.looks_done = state.relative_gap <= goal
        if not state.looks_done and (state.standstill.is_reached or state.is_stalled):
            self._look_closer(problem, state)
            state.looks_done = state.relative_gap <= goal
        return state.looks_done or state.is_stuck

    def _look_closer(self, problem: KernelProblem, state: BatchedSMOState) -> None:
        """Raise the precision after a refused certificate, when f is not precise enough, or when nothing moves. First compute f
        anew in float64. If the gap has not halved since f was last exact, compute rows in float64. If that does not help
        either, give up."""
        if state.standstill.is_reached and not state.is_complete:
            state.recheck(problem, np.inf)
        state.refresh(problem)
        state.survey(problem)
        state.looks_ever += 1
        idle_looks = state.looks.note(state.relative_gap)
        if idle_looks and self.dtype == "auto" and state.rows.dtype == np.float32:
            state.exchange_rows(self._rows(problem, np.float64))
            idle_looks = 0
        state.is_stuck = (
            idle_looks >= self.policy.looks_to_be_stuck or state.looks_ever > self.policy.looks_ever or state.is_stalled
        )

    def _iterate(self, problem: KernelProblem, state: BatchedSMOState, max_steps: int) -> None:
        """Choose a working set, solve it, and update f for all active samples."""
        if self.shrinks and not state.is_small:
            state.shrink()
        chosen = state.everyone if self._takes_everyone(state) else state.choose(problem, self._size(state))
        before = state.s[chosen]
        steps = state.solve(problem, chosen, min(self.policy.steps_a_variable * len(chosen), max_steps))
        state.steps, state.usual_steps = state.steps + steps, steps
        change = state.s[chosen] - before
        moved = change != 0.0
        state.add(chosen[moved], change[moved])
        state.values_read += len(chosen) * (len(chosen) + steps) + state.active * int(np.count_nonzero(moved))
        state.survey(problem)
        if not moved.any():
            state.standstill.note_no_move()

    def _takes_everyone(self, state: BatchedSMOState) -> bool:
        """Whether to take all samples: nearly all would be chosen anyway, and their kernel block is held."""
        return state.rows.whole is not None and len(state.y) <= self.policy.nearly_all * self.working_set

    def _size(self, state: BatchedSMOState) -> int:
        """The size of a working set: the number of free variables, but at least the usual size and at most the widest."""
        affordable = math.isqrt(int(self.policy.block_share * MEGABYTE * self.cache_mb / state.rows.dtype.itemsize))
        widest = max(self.working_set, min(self.policy.widest * self.working_set, affordable))
        return min(max(state.n_free, self.working_set), widest)

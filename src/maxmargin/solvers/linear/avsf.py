"""Adaptive variable selection frequencies: T. Glasmachers, U. Dogan, "Accelerated Linear SVM Training with Adaptive Variable
Selection Frequencies", 2013.

The step is that of dual coordinate descent. A sample whose last steps raised the dual value by more than the average step is
visited more often, and a sample that did not move is visited less often. Each sample has a preference p_i. A sweep has as many
visits as there are samples, and sample i gets a share p_i / sum_j p_j of them (Algorithm 4). After a step with the gain Delta
(Algorithm 5)

    p_i <- min(max(p_i exp(c (Delta / Delta_ref - 1)), p_min), p_max),

where Delta_ref is the fading average of the gains. (The text of the paper has exp(c (Delta - Delta_ref)); this is the form of
its Algorithm 5, which does not depend on the scale of the problem.) The preferences replace shrinking: no sample is ever left
out. AVSF pays off where C is large and the features are many. The loop is in ``maxmargin.solvers.linear.avsf_loop``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.data.random_loops import first_word
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import (
    Budget,
    Stage,
    StoppingRule,
    check_stop,
    ends_by_own_rule,
    refuse_free_intercept,
    refuse_huber,
)
from maxmargin.solvers.linear.avsf_loop import COORDINATE, SWEEP, AscentPlan, Visits, ascend
from maxmargin.solvers.linear.dcd import DCDState, coordinates, dual_terms


@dataclass(frozen=True)
class AVSF:
    """Coordinate ascent with adaptive variable selection frequencies.

    ``learning_rate`` is the paper's c, ``min_preference`` and ``max_preference`` are its p_min and p_max. ``epsilon`` belongs
    to its stopping rule: in a uniform sweep no sample violates its optimality condition by more than epsilon. With
    ``stop="paper"`` a solve ends when the rule holds. With ``stop="gap"`` the rule only triggers a check: if the gap is still
    too large, epsilon is tightened.
    """

    learning_rate: float = 1 / 5
    min_preference: float = 1 / 20
    max_preference: float = 20.0
    epsilon: float = 0.01
    stop: StoppingRule = "gap"

    def __post_init__(self) -> None:
        check_stop(self.stop)
        if not 0.0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be positive and finite; got {self.learning_rate!r}.")
        if not 0.0 < self.min_preference <= 1.0:
            raise ValueError(f"min_preference must lie in (0, 1], as each starts at 1; got {self.min_preference!r}.")
        if not 1.0 <= self.max_preference < math.inf:
            raise ValueError(f"max_preference must be finite and at least 1, as each starts at 1; got {self.max_preference!r}.")
        if not self.epsilon > 0.0:
            raise ValueError(f"epsilon must be positive; got {self.epsilon!r}.")

    @property
    def name(self) -> str:
        return "avsf"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> AVSFState:
        refuse_free_intercept(problem, self.name)
        refuse_huber(problem, self.name)
        samples = coordinates(problem, COORDINATE, warm_start)
        samples["preference"] = 1.0
        present = np.flatnonzero(samples["U"]).astype(np.uint32)
        state = AVSFState(
            samples=samples,
            terms=dual_terms(problem),
            index=np.zeros(len(present) + 1, dtype=np.uint32),
            pool=present,
            w=np.zeros(problem.rows.n_features + 1),
            sweep=np.zeros(1, SWEEP),
            still_sweeps_to_be_stuck=1,
        )
        sweep = state.sweep[0]
        sweep["random"] = first_word(seed)
        sweep["epsilon"] = self.epsilon
        sweep["preference_sum"] = len(present)
        sweep["is_uniform"] = 1
        sweep["violation"] = sweep["relative_gap"] = np.inf
        if warm_start is not None:
            state.refresh(problem)
        return state

    def advance(self, problem: LinearProblem, state: AVSFState, budget: Budget) -> None:
        if state.looks_done:
            state.look_closer(problem)
        target = 0.0 if ends_by_own_rule(self) else float(budget.target) * state.caution
        rates = (float(self.learning_rate), float(self.min_preference), float(self.max_preference))
        line = Visits(state.samples, state.pool, state.index)
        ascend(problem.compiled_rows, state.terms, line, state.w, state.sweep, AscentPlan(*rates, budget.steps, target))
        if ends_by_own_rule(self):
            state.go_on_unless_rule_holds(problem)

    def candidate(self, problem: LinearProblem, state: AVSFState) -> tuple[Array, Array]:
        return state.w[: problem.n_weights], state.samples["alpha"]


@dataclass
class AVSFState(DCDState):
    """The state of dual coordinate descent with a preference for each sample. ``index`` is the schedule, with one spare place
    at its end. ``pool`` holds the samples with C_i > 0."""

    stage: ClassVar[Stage] = Stage("avsf")

    @property
    def active(self) -> int:
        return len(self.pool)

    @property
    def steps_to_sweep_end(self) -> int:
        return len(self.pool) - int(self.sweep["cursor"][0])

    @property
    def violation(self) -> float:
        """v of the last finished sweep: the greatest projected gradient of its visits."""
        return float(self.sweep["violation"][0])

    def _take_all_back(self) -> None:
        """AVSF never leaves a sample out."""

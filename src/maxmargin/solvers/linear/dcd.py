"""Dual coordinate descent: C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A Dual Coordinate
Descent Method for Large-scale Linear SVM", ICML 2008.

Each step sets one alpha_i to its optimum along its axis, eq. (9),

    alpha_i <- min(max(alpha_i - G / Q_ii, 0), U_i),    G = y_i w . x_i - 1 + D_ii alpha_i,    Q_ii = |x_i|^2 + D_ii,

and updates w = sum_i alpha_i y_i x_i, so that a step costs two passes over one row. U and D select the loss: both losses of the
paper and its least squares (section 6) share one code path. The losses of regression have a step of their own
(``coordinate_loops``). The loop is in ``maxmargin.solvers.linear.dcd_loop``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.data.random_loops import first_word
from maxmargin.data.row_loops import add_rows
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
from maxmargin.solvers.linear.coordinate_loops import (
    COORDINATE,
    TWO_SIDED_COORDINATE,
    NotedOneSided,
    NotedTwoSided,
    OneSided,
    TwoSided,
)
from maxmargin.solvers.linear.dcd_loop import CYCLIC, ONLINE, PERMUTED, SWEEP, DescentPlan, Queue, descend


class Order(Enum):
    """The order in which coordinates are visited."""

    CYCLIC = CYCLIC
    """1, 2, ..., n, again and again: Algorithm 1."""
    PERMUTED = PERMUTED
    """A new random permutation for every sweep: section 3.1."""
    ONLINE = ONLINE
    """One random coordinate at a time, with replacement: Algorithm 2."""


@dataclass(frozen=True)
class Shrinking:
    """Leave out a sample at a bound when its gradient exceeds ``factor`` times the worst gradient of the last sweep, eq. (16).

    A factor below one is the paper's more aggressive variant.

    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.factor <= 1.0:
            raise ValueError(f"The factor of Shrinking must lie in (0, 1]; got {self.factor!r}.")


@dataclass(frozen=True)
class DCDPolicy:
    """When w is computed anew to remove rounding error, and when shrunk samples are checked again."""

    still_sweeps_online: int = 64
    """Sweeps without a move after which random draws count as stuck. One sweep in order proves that no coordinate can move.
    Random draws prove nothing: 64 sweeps of them miss a given coordinate with probability e^-64."""
    epochs_to_refresh: int = 30
    """Epochs after which the rounding error that steps leave in w may show in a certificate. An estimate, not measured."""
    tighter: float = 0.3
    """When (17) holds and the gap is still too large, epsilon becomes this share of the violation."""
    check_epochs: int = 4
    """Epochs of work on the active samples after which the shrunk samples are checked."""
    check_slack: float = 2.0
    """A checked sample is shrunk again at once if its gradient exceeds this many times the threshold."""


@dataclass(frozen=True)
class DCD:
    """Dual coordinate descent. ``epsilon`` belongs to the stopping rule (17): M - m < epsilon.

    With ``stop="paper"`` a solve ends when (17) holds for all samples. With ``stop="gap"`` the rule only triggers a check: all
    shrunk samples return, and if the gap is still too large, epsilon is tightened."""

    order: Order = Order.PERMUTED
    shrinking: Shrinking | None = Shrinking()
    epsilon: float = 0.1
    stop: StoppingRule = "gap"
    policy: DCDPolicy = field(default_factory=DCDPolicy)

    def __post_init__(self) -> None:
        check_stop(self.stop)
        if not self.epsilon > 0.0:
            raise ValueError(f"epsilon must be positive; got {self.epsilon!r}.")
        if not (self.shrinking is None or isinstance(self.shrinking, Shrinking)):
            raise TypeError(f"shrinking must be Shrinking(), with its factor, or None; got {self.shrinking!r}.")
        if self.order is Order.ONLINE and self.shrinking is not None:
            raise ValueError("Algorithm 2 (Order.ONLINE) draws from all samples and cannot shrink: set shrinking=None.")

    @property
    def name(self) -> str:
        return "dcd"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> DCDState:
        refuse_free_intercept(problem, self.name)
        refuse_huber(problem, self.name)
        samples = coordinates(problem, COORDINATE, warm_start)
        everyone = np.arange(problem.n_samples, dtype=np.uint32)
        present = everyone if samples["U"].all() else everyone[samples["U"] > 0.0]
        state = DCDState(
            samples=samples,
            terms=dual_terms(problem),
            index=present,
            pool=present if self.order is Order.PERMUTED else present.copy(),
            w=np.zeros(problem.rows.n_features + 1),
            sweep=np.zeros(1, SWEEP),
            policy=self.policy,
            still_sweeps_to_be_stuck=self.policy.still_sweeps_online if self.order is Order.ONLINE else 1,
        )
        sweep = state.sweep[0]
        sweep["present"] = sweep["active"] = len(present)
        sweep["random"] = first_word(seed)
        sweep["epsilon"] = self.epsilon
        sweep["M"], sweep["m"], sweep["M_bar"], sweep["m_bar"] = -np.inf, np.inf, np.inf, -np.inf
        sweep["violation"] = sweep["relative_gap"] = np.inf
        if warm_start is not None:
            state.refresh(problem)
        return state

    def join(self, problem: LinearProblem, alpha: Array, common: CommonPoint, seed: int) -> DCDState:
        """A state for samples that are a part of a problem. Steps change the common w in place. The slopes and gap terms that
        visits find are in ``state.terms``; a sample without a visit has an infinite slope."""
        state = self.init(problem, None, seed)
        found = np.full(problem.n_samples, np.inf), np.zeros(problem.n_samples)
        noted: Any = NotedTwoSided if problem.loss.is_regression else NotedOneSided
        state.terms = noted(*state.terms, *found)
        state.samples["alpha"] = np.clip(alpha, problem.box.L, problem.box.U)
        state.w = common.w
        state.sweep["dual"] = common.dual
        return state

    def advance(self, problem: LinearProblem, state: DCDState, budget: Budget) -> None:
        if state.looks_done:
            state.look_closer(problem)
        shrink_factor = np.inf if self.shrinking is None else float(self.shrinking.factor)
        target = 0.0 if ends_by_own_rule(self) else float(budget.target) * state.caution
        checks = np.uint64(self.policy.check_epochs), self.policy.check_slack
        plan = DescentPlan(self.order.value, shrink_factor, budget.steps, target, *checks)
        line = Queue(state.samples, state.index, state.pool)
        descend(problem.compiled_rows, state.terms, line, state.w, state.sweep, plan)
        if ends_by_own_rule(self):
            state.go_on_unless_rule_holds(problem)

    def candidate(self, problem: LinearProblem, state: DCDState) -> tuple[Array, Array]:
        return state.w[: problem.n_weights], state.samples["alpha"]


Terms = OneSided | TwoSided | NotedOneSided | NotedTwoSided


class CommonPoint(NamedTuple):
    """w(alpha) of all samples, with a last element for the constant feature, and D(alpha)."""

    w: Array
    dual: float


@dataclass
class DCDState:
    """``samples`` holds alpha and the constants of each step. ``terms`` chooses the compiled step. ``sweep`` says where the
    loop stands."""

    samples: Array
    terms: Terms
    index: Array
    pool: Array
    w: Array
    sweep: Array
    still_sweeps_to_be_stuck: int
    policy: DCDPolicy = field(default_factory=DCDPolicy)
    stage: ClassVar[Stage] = Stage("dcd")
    has_best_w: ClassVar[bool] = False
    caution: float = 1.0  # multiplies targets; falls with every refused certificate
    refreshed_at: int = 0
    was_refreshed_when_still: bool = False

    @property
    def steps(self) -> int:
        return int(self.sweep["steps"][0])

    @property
    def sweeps(self) -> int:
        """Sweeps over the active samples: what the paper calls outer iterations."""
        return int(self.sweep["sweeps"][0])

    @property
    def active(self) -> int:
        return int(self.sweep["active"][0])

    @property
    def violation(self) -> float:
        """M - m of the last finished sweep: the left side of (17)."""
        return float(self.sweep["violation"][0])

    @property
    def relative_gap(self) -> float:
        """The relative gap after the last finished sweep, estimated from the gap terms of its visits."""
        return float(self.sweep["relative_gap"][0])

    @property
    def dual(self) -> float:
        """D(alpha), up to the rounding error of the steps since the last refresh."""
        return float(self.sweep["dual"][0])

    @property
    def steps_to_sweep_end(self) -> int:
        return int(self.sweep["active"][0]) - int(self.sweep["cursor"][0])

    @property
    def looks_done(self) -> bool:
        return bool(self.sweep["looks_done"][0])

    @property
    def is_stuck(self) -> bool:
        """No alpha_i moves, not even after w was computed anew."""
        return self._is_still and self.was_refreshed_when_still

    @property
    def _is_still(self) -> bool:
        return int(self.sweep["still_sweeps"][0]) >= self.still_sweeps_to_be_stuck

    def go_on_unless_rule_holds(self, problem: LinearProblem) -> None:
        """A sweep that changed nothing looks done too. With ``stop="gap"`` such a sweep ends a solve, as stuck, only if w was
        computed anew before it."""
        if self.looks_done and not self.violation < float(self.sweep["epsilon"][0]) and not self.is_stuck:
            self.look_closer(problem)

    def look_closer(self, problem: LinearProblem) -> None:
        """React to a refused certificate: bring all samples back and tighten the inner tests."""
        sweep = self.sweep[0]
        self._take_all_back()
        if sweep["violation"] < sweep["epsilon"]:
            sweep["epsilon"] = max(0.0, self.policy.tighter * sweep["violation"])
        self.caution *= 0.7
        sweep["looks_done"] = 0
        if self._is_still:
            self.was_refreshed_when_still = True
            sweep["still_sweeps"] = 0
            self.refresh(problem)
        if self.steps - self.refreshed_at > self.policy.epochs_to_refresh * problem.n_samples:
            self.refresh(problem)

    def _take_all_back(self) -> None:
        sweep = self.sweep[0]
        if sweep["active"] < sweep["present"]:
            sweep["active"] = sweep["present"]
            sweep["M_bar"] *= self.policy.check_slack
            sweep["m_bar"] *= self.policy.check_slack
            np.copyto(self.index, self.pool)

    def refresh(self, problem: LinearProblem) -> None:
        """Compute w and the dual value anew from alpha, which removes the rounding error of earlier steps."""
        alpha = self.samples["alpha"]
        self.refreshed_at = self.steps
        self.w[:] = 0.0
        add_rows(problem.compiled_rows, alpha * problem.signs, self.w, 0, len(alpha))
        self.sweep["dual"] = np.sum(problem.box.terms(alpha)) - 0.5 * (self.w @ self.w)


def dual_terms(problem: LinearProblem) -> OneSided | TwoSided:
    """The type that selects the compiled step."""
    if problem.loss.is_regression:
        return TwoSided(problem.box.e)
    return OneSided(problem.y, -np.inf if np.isinf(problem.box.L).any() else 0.0)


def coordinates(problem: LinearProblem, dtype: np.dtype[Any], warm_start: Array | None) -> Array:
    """The records of the samples. In regression each record also has a target and a lower bound."""
    box = problem.box
    if problem.loss.is_regression:
        dtype = np.dtype([*dtype.descr, *TWO_SIDED_COORDINATE.descr[len(COORDINATE.descr) :]])
    samples = np.zeros(problem.n_samples, dtype)
    samples["U"], samples["D"] = box.U, box.D
    if problem.loss.is_regression:
        samples["L"], samples["target"] = box.L, box.p
    if warm_start is not None:
        samples["alpha"] = np.clip(warm_start, box.L, box.U)
    return samples

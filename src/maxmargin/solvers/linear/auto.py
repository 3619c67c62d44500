"""The default solver: it starts with dual coordinate descent, watches the gap, and switches when another method would be
done sooner.

From the second sweep on, ``auto`` extrapolates the remaining work from the decay of the gap. If the forecast exceeds the cost
of a Newton method (before the fifth sweep: exceeds it by far), and the features are few enough, **semismooth Newton** takes
over from the current alpha. With many features **AVSF** takes over. It works on reduced data: features are renumbered by
frequency, and features that occur once are folded away. For one class **pair descent** comes first, then Newton. A small
problem goes to Newton at once and is solved to rounding error. A regression with few features goes to Newton at once, too, and
so do two classes where the samples are not many.

Each method is a phase (``maxmargin.solvers.linear.phases``). A phase that ends hands over an alpha of the original problem,
from which the next phase starts; no phase touches the state of another.

Every decision compares counted work in estimated nanoseconds (``maxmargin.solvers.linear.costs``), never clock readings, so the
same call gives the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.costs import LinearCosts
from maxmargin.solvers.linear.phases import Coordinates, Handover, NewtonSteps, Pairs, Phase, newton_for
from maxmargin.solvers.linear.switching import AutoPlan, SwitchingPolicy


class OneCall(NamedTuple):
    """A method whose first call is likely to be the whole solve, and what the trace says of it. Where ``most_calls`` is more
    than one, so many may follow: the solver takes the outputs of a certificate that was refused."""

    solver: Any
    stage: Stage
    most_calls: int = 1


@dataclass(frozen=True)
class Auto:
    """Chooses a method and switches to another when that is cheaper. ``policy`` holds the thresholds, ``costs`` the cost
    model."""

    policy: SwitchingPolicy = field(default=SwitchingPolicy(), repr=False)
    costs: LinearCosts = field(default=LinearCosts(), repr=False)

    @property
    def name(self) -> str:
        return "auto"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> AutoState:
        plan = AutoPlan(problem, self.policy, self.costs)
        reason = plan.reason_for_newton
        state = AutoState(plan, seed)
        if problem.offset_prices is not None:
            state.begin(Handover(warm_start, "one class", Pairs))
        elif reason is None:
            state.begin(Handover(warm_start, "first", Coordinates.begin))
        else:
            state.begin(Handover(warm_start, reason, NewtonSteps.begin))
        return state

    def one_call(self, problem: LinearProblem) -> OneCall | None:
        """Newton's method in one compiled call, if that is what the solve begins with; for one class pair descent."""
        if problem.offset_prices is not None:
            return self._one_class_call(problem)
        plan = AutoPlan(problem, self.policy, self.costs)
        if problem.penalty.has_kink or not plan.suits_one_call:
            return None
        return OneCall(newton_for(plan), Stage("newton", plan.reason_for_newton or ""))

    def _one_class_call(self, problem: LinearProblem) -> OneCall | None:
        """Where X is small: there the driver's loop takes about as long as the steps."""
        if problem.rows.n_stored > self.policy.one_class_elements:
            return None
        return OneCall(_pair_descent(), Stage("pair-descent", "one class"), self.policy.one_class_calls)

    def advance(self, problem: LinearProblem, state: AutoState, budget: Budget) -> None:
        handover = state.at_work.advance(budget)
        if handover is not None:
            state.begin(handover)

    def candidate(self, problem: LinearProblem, state: AutoState) -> tuple[Array, Array]:
        return state.candidate()

    def take_outputs(self, problem: LinearProblem, state: AutoState, outputs: Array) -> None:
        """Take the outputs that a certificate computed. Only pair descent has a use for them."""
        if isinstance(state.phase, Pairs):
            state.phase.take_outputs(outputs)


@cache
def _pair_descent() -> Any:
    """Made once: in small fits it counts."""
    from maxmargin.solvers.linear.pair_descent import PairDescent

    return PairDescent()


@dataclass
class AutoState:
    """The current phase and the counters of the whole solve. Between two phases there is no phase, and the alpha that was
    handed over is the candidate: Ctrl-C may arrive at that moment."""

    plan: AutoPlan
    seed: int
    phase: Phase | None = None
    handover: Handover | None = None
    stage: Stage = field(default_factory=lambda: Stage("auto", "first"))
    steps_before: int = 0

    def begin(self, handover: Handover) -> None:
        """Start the next phase. The phase before is freed first: it may hold a copy of X."""
        self.steps_before, self.phase, self.handover = self.steps, None, handover
        self.phase = handover.begin(self.plan, handover, self.seed)
        self.stage = self.phase.stage

    @property
    def at_work(self) -> Phase:
        assert self.phase is not None
        return self.phase

    @property
    def looks_done(self) -> bool:
        return self.phase is not None and self.phase.looks_done

    @property
    def is_stuck(self) -> bool:
        return self.phase is not None and self.phase.is_stuck

    @property
    def steps(self) -> int:
        return self.steps_before + (self.phase.steps if self.phase else 0)

    @property
    def active(self) -> int:
        return self.phase.active if self.phase else 0

    @property
    def has_best_w(self) -> bool:
        return self.phase is not None and self.phase.has_best_w

    def candidate(self) -> tuple[Array, Array]:
        if self.phase is not None:
            return self.phase.candidate()
        problem, alpha = self.plan.problem, self.handover.alpha if self.handover else None
        alpha = problem.first_dual_point if alpha is None else alpha
        return problem.weights(alpha), alpha

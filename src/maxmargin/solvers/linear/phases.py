"""The phases of ``auto``. A phase runs one method on the problem, or on a reduction of it, until it is done or hands over.

A phase offers what the next one starts from, an alpha of the original problem, in a :class:`Handover`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Budget, Solver, Stage
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solvers.linear.dual_mending import rounding_of_alpha
from maxmargin.solvers.linear.switching import AutoPlan, Forecast

if TYPE_CHECKING:
    from maxmargin.solvers.linear.newton.policy import NewtonPolicy
    from maxmargin.solvers.presolve import MergedRows, RenumberedColumns


class Handover(NamedTuple):
    """What a phase passes to the next one: a copy of its dual point for the original problem, the reason for the switch, and
    the function that starts the next phase."""

    alpha: Array | None
    reason: str
    begin: Callable[[AutoPlan, Handover, int], Phase]


class Method:
    """A solver, its state, and the problem that it works on. Every phase is made of these."""

    def __init__(self, solver: Solver, problem: LinearProblem, alpha: Array | None, seed: int) -> None:
        self.solver, self.problem = solver, problem
        self.state: Any = solver.init(problem, alpha, seed)

    def advance(self, steps: int, target: float) -> None:
        self.solver.advance(self.problem, self.state, Budget(steps, target))

    def candidate(self) -> tuple[Array, Array]:
        return self.solver.candidate(self.problem, self.state)


class Phase(ABC):
    """One method at work. The counters are those of ``maxmargin.solvers.base.State``, from the beginning of the phase."""

    def __init__(self, plan: AutoPlan, stage: Stage, method: Method) -> None:
        self.plan, self.stage, self.method = plan, stage, method
        self.looks_done = self.is_stuck = False

    @abstractmethod
    def advance(self, budget: Budget) -> Handover | None:
        """Continue, or hand over to another method."""

    @property
    def steps(self) -> int:
        return int(self.method.state.steps)

    @property
    def active(self) -> int:
        return int(self.method.state.active)

    @property
    def has_best_w(self) -> bool:
        return bool(self.method.state.has_best_w)

    def candidate(self) -> tuple[Array, Array]:
        """The present (w, alpha) for the original problem."""
        return self.method.candidate()


class Coordinates(Phase):
    """Dual coordinate descent, sweep by sweep, with a forecast of the remaining work after each sweep."""

    def __init__(self, plan: AutoPlan, handover: Handover, seed: int, may_switch: bool) -> None:
        method = Method(DCD(), plan.problem, handover.alpha, seed)
        super().__init__(plan, Stage("dcd", handover.reason), method)
        self.may_switch, self.forecast = may_switch, Forecast()

    @classmethod
    def begin(cls, plan: AutoPlan, handover: Handover, seed: int) -> Coordinates:
        return cls(plan, handover, seed, may_switch=True)

    @classmethod
    def begin_last(cls, plan: AutoPlan, handover: Handover, seed: int) -> Coordinates:
        """A phase of coordinate descent that never hands over."""
        return cls(plan, handover, seed, may_switch=False)

    def advance(self, budget: Budget) -> Handover | None:
        state, end = self.method.state, self.steps + budget.steps
        self.looks_done = False
        while self.steps < end and not self.looks_done:
            sweeps, active = state.sweeps, state.active
            self.method.advance(min(end - self.steps, self._to_next_look), budget.target)
            if state.sweeps > sweeps:
                self.forecast.note(state.sweeps, state.relative_gap)
                handover = self._next(budget.target) if state.active <= active else None
                if handover is not None:
                    return handover
            self.looks_done, self.is_stuck = state.looks_done, state.is_stuck
        return None

    @property
    def _to_next_look(self) -> int:
        """Steps to the end of the sweep. More where few samples are active: checking the gap would cost more than their
        sweep."""
        least = int(self.plan.policy.least_look_share * self.plan.problem.n_samples)
        return max(1, int(self.method.state.steps_to_sweep_end), least)

    def _next(self, target: float) -> Handover | None:
        """The method that would be done sooner, if there is one."""
        state, policy = self.method.state, self.plan.policy
        is_done = state.looks_done and not state.is_stuck
        if not self.may_switch or is_done or state.sweeps < policy.first_look_sweeps:
            return None
        begin, why = self._faster_method(self._steps_left(target), target)
        return None if begin is None else Handover(self.candidate()[1].copy(), why, begin)

    def _faster_method(self, left: float, target: float) -> tuple[Callable[..., Phase] | None, str]:
        """The function that starts a method cheaper than the ``left`` steps, and the reason for the switch."""
        plan, policy, ns = self.plan, self.plan.policy, left * self.plan.descent_step_ns
        is_sure = self.method.state.sweeps >= policy.sure_sweeps
        is_long = is_sure and left > policy.long_factor * self.steps
        is_dearer = ns > (1.0 if is_sure else policy.sure_factor) * plan.newton_ns
        if plan.is_narrow and is_dearer:
            return NewtonSteps.begin_merged, f"{self._words(left)}, and the features are few"
        if plan.suits_products and (is_long or ns > plan.newton_ns):
            return NewtonSteps.begin_merged, f"{self._words(left)}, and the loss is smooth"
        if plan.allows_products and (is_dearer or (is_long and plan.is_one_hot)):
            return NewtonSteps.begin_merged, f"{self._words(left)}, and there are more samples than features"
        if not plan.is_narrow and is_long:
            kind = BriefAscent if plan.allows_products else Ascent
            begin = partial(kind, in_single=plan.allows_single(target))
            return begin, f"{self._words(left)}, and the features are many"
        return None, ""

    def _steps_left(self, target: float) -> float:
        """The remaining steps, if as many samples stay active as now."""
        if self.method.state.is_stuck:
            return math.inf
        return self.plan.policy.optimism * self.forecast.sweeps_left(target) * self.active

    def _words(self, steps_left: float) -> str:
        if math.isinf(steps_left):
            return "the gap of dcd does not fall"
        return f"dcd would need about {steps_left / self.plan.problem.n_samples:.0f} more epochs"


class Ascent(Phase):
    """AVSF with an occasional search for a better primal point. The gap of that point, not the gap of w(alpha), decides when to
    ask for a certificate."""

    def __init__(self, plan: AutoPlan, handover: Handover, seed: int, in_single: bool) -> None:
        from maxmargin.solvers.linear.avsf import AVSF
        from maxmargin.solvers.linear.primal_search import PrimalSearch
        from maxmargin.solvers.presolve import RenumberedColumns

        self.is_in_single = in_single and plan.problem.rows.is_sparse
        self.reduction: RenumberedColumns | None = None
        if plan.problem.rows.is_sparse:
            self.reduction = RenumberedColumns.of(plan.problem, in_single)
        problem = self.reduction.problem if self.reduction else plan.problem
        self.search = PrimalSearch(problem, self.reduction)
        super().__init__(plan, Stage("avsf", handover.reason), Method(AVSF(), problem, handover.alpha, seed))
        self.refusals = 0
        self.next_look = plan.policy.look_epochs * plan.problem.n_samples

    @property
    def has_best_w(self) -> bool:
        return True

    def candidate(self) -> tuple[Array, Array]:
        return self.search.candidate(self.method.candidate()[1])

    def advance(self, budget: Budget) -> Handover | None:
        if self._needs_double():
            begin = partial(type(self), in_single=False)
            return Handover(self.candidate()[1].copy(), "float32 is not enough", begin)
        self.looks_done = False
        self.method.advance(min(budget.steps, max(1, self.next_look - self.steps)), budget.target)
        if self.method.state.looks_done or self.steps >= self.next_look:
            self._look(budget.target)
        return None

    def _needs_double(self) -> bool:
        """Switch from float32 to float64 where float32 is not precise enough. A phase that still looks done was refused a
        certificate."""
        self.refusals += self.looks_done
        is_enough = self.refusals >= self.plan.policy.most_refusals or (self.looks_done and self.method.state.is_stuck)
        return self.is_in_single and is_enough

    def _look(self, target: float) -> None:
        state, policy = self.method.state, self.plan.policy
        primal = self.search.look(*self.method.candidate())
        self.is_stuck = state.is_stuck
        self.looks_done = self.is_stuck or primal - state.dual <= target * primal
        stride = max(policy.look_epochs * self.plan.problem.n_samples, policy.look_growth * self.steps)
        self.next_look = self.steps + int(stride)


class BriefAscent(Ascent):
    """AVSF for as long as Newton's method by conjugate gradients would take. On text AVSF is done by then. On one-hot columns
    beside numbers, with noisy labels, it can take a hundred times as long, which its first epochs do not show. So the two
    together take at most about twice as long as the better one."""

    def advance(self, budget: Budget) -> Handover | None:
        handover = super().advance(budget)
        is_long = self.steps * self.plan.descent_step_ns > self.plan.newton_ns
        if handover is not None or self.looks_done or not is_long:
            return handover
        return Handover(self.candidate()[1].copy(), "avsf takes longer than newton would", NewtonSteps.begin_merged)


class Pairs(Phase):
    """Pair descent for problems whose offset has a price, with a forecast of the remaining work."""

    def __init__(self, plan: AutoPlan, handover: Handover, seed: int) -> None:
        from maxmargin.solvers.linear.pair_descent import PairDescent

        method = Method(PairDescent(), plan.problem, handover.alpha, seed)
        super().__init__(plan, Stage("pair-descent", handover.reason), method)
        self.forecast = Forecast()

    def advance(self, budget: Budget) -> Handover | None:
        state, end = self.method.state, self.steps + budget.steps
        self.looks_done = False
        while self.steps < end and not self.looks_done:
            before = abs(state.dual)
            self.method.advance(1, budget.target)
            is_vanishing = abs(state.dual) < self.plan.policy.vanishing * before
            self.forecast.note(state.iterations, state.gap / abs(state.dual) if state.dual else math.inf)
            self.looks_done = state.looks_done and not state.is_stuck
            if state.is_stuck or not (self.looks_done or is_vanishing or not self._is_long(budget.target)):
                return Handover(state.alpha.copy(), "pairs would take longer", NewtonSteps.begin)
        return None

    def take_outputs(self, outputs: Array) -> None:
        self.method.solver.take_outputs(self.plan.problem, self.method.state, outputs)  # type: ignore[attr-defined]

    def _is_long(self, target: float) -> bool:
        """Whether Newton's method would be done sooner, judged by the decay of the gap."""
        state = self.method.state
        if state.iterations < self.plan.policy.sure_sweeps:
            return False
        steps_left = self.forecast.sweeps_left(target) * state.steps / state.iterations
        return steps_left * self.plan.descent_step_ns > self.plan.newton_ns


class NewtonSteps(Phase):
    """Semismooth Newton, on merged rows where enough of them are equal."""

    def __init__(self, plan: AutoPlan, handover: Handover, seed: int, merges_rows: bool) -> None:
        from maxmargin.solvers.presolve import MergedRows

        self.reduction: MergedRows | None = None
        if merges_rows and plan.problem.rows.is_sparse and not plan.problem.loss.is_regression:
            self.reduction = MergedRows.of(plan.problem, plan.policy.merge_saving)
        problem, alpha = plan.problem, handover.alpha
        if self.reduction:
            problem, alpha = self.reduction.problem, None if alpha is None else self.reduction.reduce(alpha)
        super().__init__(plan, Stage("newton", handover.reason), Method(newton_for(plan), problem, alpha, seed))

    @classmethod
    def begin(cls, plan: AutoPlan, handover: Handover, seed: int) -> NewtonSteps:
        return cls(plan, handover, seed, merges_rows=False)

    @classmethod
    def begin_merged(cls, plan: AutoPlan, handover: Handover, seed: int) -> NewtonSteps:
        return cls(plan, handover, seed, merges_rows=True)

    def candidate(self) -> tuple[Array, Array]:
        w, alpha = self.method.candidate()
        return self.reduction.expand(w, alpha) if self.reduction else (w, alpha)

    def advance(self, budget: Budget) -> Handover | None:
        state = self.method.state
        self.method.advance(budget.steps, budget.target)
        self.looks_done, self.is_stuck = state.looks_done, state.is_stuck
        if not self.looks_done and self.plan.allows_products and self._is_crawling:
            begin = partial(Ascent, in_single=False)
            return Handover(self.candidate()[1].copy(), "newton's directions are hard to find", begin)
        if self.is_stuck and self.plan.suits_interior:
            return Handover(self.candidate()[1].copy(), "newton can go no further", InteriorSteps.begin)
        can_be_met = budget.target > 0.0  # with a target of zero the solve ends at rounding error
        if self.is_stuck and can_be_met and self.plan.has_coordinates and not state.meets(budget.target):
            alpha = self._better_than_zero()
            if not self._is_beyond_float64(alpha, budget.target):
                return Handover(alpha, "newton can go no further", Coordinates.begin_last)
        return None

    def _is_beyond_float64(self, alpha: Array, target: float) -> bool:
        """Whether the last digits of alpha alone cost more than the gap that is asked for. Coordinate descent, which has no
        more digits than Newton's method, then gets no farther: on milliseconds since 1970 at C = 1e6 it tried for 4 to
        30 s."""
        problem = self.plan.problem
        return rounding_of_alpha(problem, alpha) > target * abs(problem.dual(alpha))

    @property
    def _is_crawling(self) -> bool:
        """Whether conjugate gradients take long: the columns are too much alike."""
        is_rough = self.method.state.hessian.is_rough
        return bool(is_rough and self.steps > self.plan.most_product_steps * self.plan.problem.n_samples)

    def _better_than_zero(self) -> Array:
        """Hand over to coordinate descent when Newton has reached the precision of float64, or its Hessian overflowed.
        Coordinate descent starts from Newton's alpha, or from zero."""
        alpha = self.candidate()[1].copy()
        with np.errstate(all="ignore"):
            if not self.plan.problem.dual(alpha) >= 0.0:
                alpha[:] = 0.0
        return alpha


class InteriorSteps(Phase):
    """The interior-point method for one class. It is the last phase."""

    @classmethod
    def begin(cls, plan: AutoPlan, handover: Handover, seed: int) -> InteriorSteps:
        from maxmargin.solvers.linear.interior import Interior

        return cls(plan, Stage("interior-point", handover.reason), Method(Interior(), plan.problem, None, seed))

    def advance(self, budget: Budget) -> Handover | None:
        self.method.advance(budget.steps, budget.target)
        self.looks_done, self.is_stuck = self.method.state.looks_done, self.method.state.is_stuck
        return None


def newton_for(plan: AutoPlan) -> Solver:
    """Newton's method as it suits the size of the problem."""
    from maxmargin.solvers.linear.newton.policy import default_policy

    return _newton(plan.is_small, plan.suits_one_call, default_policy())


@lru_cache(maxsize=4)
def _newton(polishes: bool, in_one_call: bool, policy: NewtonPolicy) -> Solver:
    """Made once: in small fits it counts that settings are checked and put together."""
    from maxmargin.solvers.linear.newton.newton import Newton
    from maxmargin.solvers.linear.newton.small_newton import SmallNewton

    careful = Newton(polishes=polishes, policy=policy)
    return SmallNewton(careful) if in_one_call else careful

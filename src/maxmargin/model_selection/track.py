"""One linear problem at one C after another: X is prepared once, and each solve starts where the last one ended.

Where the features are few, the state of Newton's method is moved from C to C (:mod:`maxmargin.solvers.linear.newton.moving`).
Otherwise a solve starts from the alpha of the last one, scaled to the new C. Every solve ends with a certificate, as always."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.model_selection import policy
from maxmargin.model_selection.transfer import scaled_costs, with_costs
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.costs import LinearCosts
from maxmargin.solvers.linear.newton.moving import MovableState, Moved, MovedNewton
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.small_moving import KeptMemory, MovedSmallNewton
from maxmargin.solvers.linear.switching import AutoPlan, SwitchingPolicy
from maxmargin.solvers.registry import solver_named
from maxmargin.solving.driver import Callback, Limits, drive
from maxmargin.solving.solution import Solution, Status


class Place(NamedTuple):
    """A primal and a dual point at some C."""

    C: float
    w: Array
    alpha: Array


@dataclass(eq=False)
class Track:
    """``problem`` is that of C = 1. ``solver`` is what the caller asked for: only "auto" may be replaced."""

    problem: LinearProblem
    solver: Any = "auto"
    place: Place | None = None
    """Where the next solve starts."""
    _moved: Moved | None = field(default=None, repr=False)
    _stands_at: Place | None = field(default=None, repr=False)
    _memory: KeptMemory | None = field(default=None, repr=False)

    def solve(self, C: float, limits: Limits, *, callback: Callback | None = None, seed: int = 0, stop: Stop) -> Solution:
        """Solve at C, from ``place``, which is then the answer."""
        problem = with_costs(self.problem, scaled_costs(self.problem.C, C))
        solution: Solution | None = None
        if self.suits_call:
            solver = self._called(problem, C)
            solution = drive(problem, solver, limits, warm_start=None, callback=callback, seed=seed, stop=stop)
        elif self.is_movable:
            moved, factor = self._ready(C)
            self._moved = None  # an error, or a solve that is cut off, leaves no half-moved state behind
            newton = MovedNewton(moved, factor)
            solution = drive(problem, newton, limits, warm_start=None, callback=callback, seed=seed, stop=stop)
            self._moved = moved if solution.status.is_as_asked else None
        if solution is None or not (solution.status.is_as_asked or stop.is_due or solution.status is Status.EPOCH_LIMIT):
            start, named = self._start(C), solver_named(self.solver)
            solution = drive(problem, named, limits, warm_start=start, callback=callback, seed=seed, stop=stop)
        self.place = self._stands_at = Place(C, solution.w, solution.alpha)
        return solution

    @cached_property
    def suits_call(self) -> bool:
        """Whether each solve is one compiled call."""
        limits = policy.TRACK.call_elements, SwitchingPolicy.few_weights
        return self.solver == "auto" and MovedSmallNewton.suits(self.problem, *limits)

    def _called(self, problem: LinearProblem, C: float) -> MovedSmallNewton:
        """The compiled call from ``place``, or from zero. An alpha at its bound stays there, and the others keep their
        value."""
        if self._memory is None:
            self._memory = MovedSmallNewton.memory_of(problem)
        if self.place is None:
            return MovedSmallNewton(self._memory, np.zeros(problem.n_weights), np.zeros(problem.n_samples))
        w, alpha, factor = self.place.w, self.place.alpha, C / self.place.C
        if factor != 1.0:
            was_high = alpha >= problem.box.U / factor * (1.0 - 4.0 * UNIT_ROUNDOFF)  # the bound itself is rounded
            alpha = np.where(was_high, problem.box.U, np.minimum(alpha, problem.box.U))
        return MovedSmallNewton(self._memory, w, alpha)

    @cached_property
    def is_movable(self) -> bool:
        """Whether a step of Newton's method is cheap beside a sweep of coordinate descent."""
        if self.solver != "auto" or not MovableState.suits(self.problem):
            return False
        plan = AutoPlan(self.problem, SwitchingPolicy(), LinearCosts())
        if plan.is_small or not plan.is_narrow:
            return bool(plan.suits_products and not plan.is_small)
        sweep = plan.descent_step_ns * self.problem.n_samples
        return plan.costs.newton_step(self.problem) <= policy.TRACK.sweeps_a_step * sweep

    def _ready(self, C: float) -> tuple[Moved, float]:
        """The state at ``place``, and by what its costs have to be multiplied."""
        before = self.place
        if self._moved is None:
            first = C if before is None else before.C
            at_first = with_costs(self.problem, scaled_costs(self.problem.C, first))
            self._moved = Moved.begin(at_first, Newton(), SwitchingPolicy.merge_saving)
            if before is not None:
                self._moved.place(before.w, before.alpha)
            return self._moved, C / first
        assert before is not None
        if before is not self._stands_at:
            here = self._moved_to(before.C)
            here.place(before.w, before.alpha)
        return self._moved, C / before.C

    def _moved_to(self, C: float) -> Moved:
        assert self._moved is not None
        assert self._stands_at is not None
        problem = with_costs(self.problem, scaled_costs(self.problem.C, C))
        self._moved.move_to(problem, C / self._stands_at.C)
        return self._moved

    def _start(self, C: float) -> Array | None:
        """Where a solver starts: from alpha, or from w where the penalty has a kink."""
        if self.place is None:
            return None
        if self.problem.penalty.has_kink:
            return self.place.w
        return np.asarray(self.place.alpha * (C / self.place.C))

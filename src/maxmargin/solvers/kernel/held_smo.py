r"""SMO on a kernel matrix that is held whole in float64, and least squares for the free variables: for few samples.

A round is one compiled call of SMO on all samples (``maxmargin.solvers.kernel.batched_smo_loops``), and then one linear
system for the
variables that SMO has left inside their box (papers/irwls_svc, Table 1, step 1; see
``maxmargin.solvers.kernel.irwls.active_set_newton``):

.. math:: \begin{bmatrix} K_{FF} & 1 \\ 1' & 0 \end{bmatrix} \begin{bmatrix} d \\ b \end{bmatrix} = \begin{bmatrix} v_F \\ 0
          \end{bmatrix}

If s + d is inside the box, it is the optimum of that face. If not, active-set Newton takes over. Every round asks SMO for a
violation thirty times smaller than the one before. If a few rounds are not enough, the solver gives up, and its caller can
continue from its alpha.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.rows import Array
from maxmargin.problem.held_values import HeldValues
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.kernel.batched_smo_loops import OnDemandProblem, extremes
from maxmargin.solvers.kernel.held_smo_loops import MOVED, SINGULAR, leap, renew, survey
from maxmargin.solvers.kernel.irwls.active_set_newton import WorkingSet, optimise
from maxmargin.solvers.kernel.local_solve import solve_held
from maxmargin.solvers.kernel.units import Cells, Units, cells_of, start_in_units


@dataclass(frozen=True)
class HeldSMOPolicy:
    """How far SMO and least squares go where the whole kernel matrix is held."""

    first_violation: float = 1e-3
    """Violation, as a difference of margins, at which SMO ends in the first round."""
    next_violation: float = 1.0 / 30.0
    """Factor on that violation in every round after the first."""
    steps_a_sample: int = 50
    """SMO steps in a round, per sample. Least squares cost less than more steps."""
    most_rounds: int = 4
    """Rounds before the solver for many samples takes over."""
    most_systems: int = 200
    """Limit on the linear systems if the solution of the first one is outside the box."""
    near: float = 0.05
    """A sample is near when its margin is within this of one, or within the violation. The near ones take part in those
    systems."""
    few_samples: int = 256
    """Problems with at most this many samples are solved to rounding error, whatever ``tol`` is: that costs little, and equal
    problems get equal answers."""
    most_free: int = 128
    """Free variables up to which compiled code solves their system. LAPACK is faster with more."""
    noise: float = 4.0
    """Units in the last place by which a margin may be wrong. A gap that such errors can explain counts as rounding error."""
    safety: float = 0.5
    """The solver's own gap must fall to this share of the target, because the certificate adds its rounding error."""


@dataclass
class HeldState:
    """s_i = y_i alpha_i in its box, and v = y - K s. Vectors are as long as the padded matrix; there lower = upper = 0."""

    held: HeldValues
    y: Array
    lower: Array
    upper: Array
    s: Array
    v: Array
    diagonal: Array
    n: int
    has_offset: bool
    units: Units
    stage: ClassVar[Stage] = Stage("smo", "few samples: their kernel matrix is held")
    steps: int = 0
    rounds: int = 0
    violation: float = HeldSMOPolicy.first_violation
    target_share: float = HeldSMOPolicy.safety
    offset: float = 0.0  # in the units
    relative_gap: float = np.inf
    is_at_rounding: bool = False
    looks_done: bool = False
    has_given_up: bool = False
    is_stuck: bool = False
    policy: HeldSMOPolicy = field(default_factory=HeldSMOPolicy)
    kernel_evaluations: ClassVar[int] = 0
    """Beyond those of the matrix, which belongs to the problem."""

    @classmethod
    def of(
        cls, problem: KernelProblem, held: HeldValues, warm_start: Array | None, policy: HeldSMOPolicy | None = None
    ) -> HeldState:
        signed, units = start_in_units(problem, warm_start)
        memory, n = np.zeros((6, len(held.rows.values))), held.n
        for row, given in zip(memory, (*signed, signed.y, problem.diagonal), strict=True):
            row[:n] = given
        y, lower, upper, s, v, diagonal = memory
        state = cls(held, y, lower, upper, s, v, diagonal, n, problem.has_offset, units)
        if policy is not None:
            state.policy, state.violation, state.target_share = policy, policy.first_violation, policy.safety
        if warm_start is not None:
            state.renew()
        return state

    @cached_property
    def greatest(self) -> float:
        """No kernel value of a positive semidefinite kernel is greater."""
        return float(self.diagonal.max())

    @property
    def active(self) -> int:
        return self.n

    @property
    def alpha(self) -> Array:
        return self.units.alpha_of(self.s[: self.n])

    @property
    def b(self) -> float:
        return self.units.offset_of(self.offset)

    def advance(self, budget: Budget) -> None:
        """Rounds until the gap is small enough, or one round when the certificate was refused."""
        if self.looks_done:
            self.looks_done, self.target_share = False, 0.1 * self.target_share
            if self.rounds >= self.policy.most_rounds:
                self.has_given_up = True
                return
        goal, left = self.target_share * budget.target, budget.steps
        while self.rounds < self.policy.most_rounds and left > 0:
            before = self.steps
            self.run_round(goal, left)
            left -= self.steps - before
            if self.relative_gap <= goal and (self.n > self.policy.few_samples or self.is_at_rounding):
                break
        self.looks_done = self.relative_gap <= goal or self.is_at_rounding
        self.has_given_up = self.rounds >= self.policy.most_rounds and not self.looks_done

    def run_round(self, goal: float, max_steps: int) -> None:
        self.rounds += 1
        self.run_smo(min(max_steps, self.policy.steps_a_sample * self.n))
        self.survey()
        if self.n <= self.policy.few_samples or self.relative_gap > goal:
            self.finish()
            self.survey()
        self.violation *= self.policy.next_violation

    def run_smo(self, max_steps: int) -> None:
        local = OnDemandProblem(self.held.rows, self.diagonal, self.v, self.s, self.lower, self.upper, self.units.epsilon)
        self.steps += solve_held(self.held, local, self.violation, max_steps, self.has_offset)

    def survey(self) -> None:
        """The offset and the gap at the present v."""
        here = survey(self.v, self.y, self.s, self.lower, self.upper, self.has_offset, self.units.epsilon)
        self.offset, gap = here.b, here.gap
        self.relative_gap = relative(gap, here.dual + gap, here.dual)
        magnitude = 1.0 + abs(self.offset) + here.size * self.greatest
        self.is_at_rounding = gap <= self.policy.noise * UNIT_ROUNDOFF * magnitude * here.room

    def finish(self) -> None:
        """The optimum of the face that SMO has found, or, where that is outside of the box, of all samples near the margin."""
        cells = self.cells()
        free = ((cells.lower < self.s) & (self.s < cells.upper)).nonzero()[0]
        if not self.leap(free, cells):
            self.climb(cells)
        self.renew()

    def cells(self) -> Cells:
        if self.units.epsilon == 0.0:
            return Cells(self.lower, self.upper, 0.0)
        return cells_of(self.s, self.v - self.offset, self.lower, self.upper, self.units.epsilon)

    def leap(self, free: Array, cells: Cells) -> bool:
        """One linear system. False where its solution is not inside the box, or there is none."""
        if not len(free):
            return False
        if len(free) > self.policy.most_free:
            return self.leap_by_elimination(free, cells)
        v = self.v - cells.shift if self.units.epsilon else self.v
        outcome = leap(self.held.with_rows(free), v, self.s, cells.lower, cells.upper, free, self.has_offset)
        self.steps += outcome == MOVED
        return self.leap_by_elimination(free, cells) if outcome == SINGULAR else bool(outcome == MOVED)

    def leap_by_elimination(self, free: Array, cells: Cells) -> bool:
        """The same by LAPACK, which does not need a positive definite matrix."""
        m = len(free)
        system = np.ones((m + 1, m + 1))
        system[:m, :m], system[m, m] = self.held.with_rows(free)[np.ix_(free, free)], 0.0
        right = np.append((self.v - cells.shift)[free], 0.0)
        try:
            change = np.linalg.solve(system, right)[:m] if self.has_offset else np.linalg.solve(system[:m, :m], right[:m])
        except np.linalg.LinAlgError:
            return False
        moved = self.s[free] + change
        if not np.all((moved > cells.lower[free]) & (moved < cells.upper[free])):
            return False
        self.s[free] = moved
        self.steps += 1
        return True

    def climb(self, cells: Cells) -> None:
        n, v = self.n, self.v - cells.shift
        top, bottom = extremes(self.v[:n], self.s[:n], self.lower[:n], self.upper[:n], self.units.epsilon)
        is_free = (cells.lower < self.s) & (self.s < cells.upper)
        is_near = (np.abs(v - self.offset) <= max(self.policy.near, top - bottom)) & (self.lower < self.upper)
        near = np.flatnonzero(is_free | is_near)
        block = np.ascontiguousarray(self.held.with_rows(near)[np.ix_(near, near)])
        work = WorkingSet(block, self.s[near], v[near], cells.lower[near], cells.upper[near], self.has_offset)
        found = optimise(work, max_iterations=self.policy.most_systems)
        self.s[near] = found.s
        self.steps += found.iterations

    def renew(self) -> None:
        """v from s, free of the rounding of the steps that led here."""
        renew(self.held.with_rows(self.s.nonzero()[0]), self.y, self.s, self.v)

    def take_outputs(self, outputs: Array) -> None:
        self.v[: self.n] = self.y[: self.n] - self.units.outputs_of(outputs)

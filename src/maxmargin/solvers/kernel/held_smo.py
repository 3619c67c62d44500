r"""SMO on a kernel matrix that is held whole in float64, and least squares for the free variables: for few samples.

A round is one compiled call of SMO on all samples (``maxmargin.solvers.kernel.batched_smo_loops``), and then one linear
system for the variables that SMO has left inside their box (papers/irwls_svc, Table 1, step 1; see
``maxmargin.solvers.kernel.irwls.active_set_newton``):

.. math:: \begin{bmatrix} K_{FF} & 1 \\ 1' & 0 \end{bmatrix} \begin{bmatrix} d \\ b \end{bmatrix} = \begin{bmatrix} v_F \\ 0
          \end{bmatrix}

If s + d is inside the box, it is the optimum of that face. If not, SMO goes on, and from the third round on, or where SMO is
slow, active-set Newton takes over, or Newton's method on a factor of the kernel matrix. Every round asks SMO for a smaller
violation than the one before. If a few rounds are not enough, the solver gives up, and its caller can continue from its
alpha. The constants are in ``held_smo_policy.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem.held_values import HeldValues
from maxmargin.problem.kernel import EvenProblem, KernelProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.kernel.batched_smo_loops import BentProblem, OnDemandProblem, extremes
from maxmargin.solvers.kernel.face import solution_of
from maxmargin.solvers.kernel.factored import FactoredNewton, factor
from maxmargin.solvers.kernel.held_smo_loops import LEAST_PIVOT, MANY, MOVED, settle
from maxmargin.solvers.kernel.held_smo_policy import HeldSMOPolicy
from maxmargin.solvers.kernel.irwls.active_set_newton import WorkingSet, optimise
from maxmargin.solvers.kernel.local_solve import solve_held
from maxmargin.solvers.kernel.units import LABELS, Cells, Units, cells_of, start_in_units


@dataclass
class HeldState:
    """s_i = y_i alpha_i in its box, and v = y - K s. Vectors are rows of one array, as long as the padded matrix; beyond the
    samples lower = upper = 0. The kernel row of every s_i that is not zero is there."""

    make_problem: Callable[[], KernelProblem]  # asked for where SMO is slow
    held: HeldValues
    vectors: Array
    y: Array
    lower: Array
    upper: Array
    s: Array
    v: Array
    diagonal: Array
    n: int
    has_offset: bool
    units: Units
    is_definite: bool = True
    stage: ClassVar[Stage] = Stage("smo", "few samples: their kernel matrix is held")
    steps: int = 0
    rounds: int = 0
    violation: float = HeldSMOPolicy.first_violation
    target_share: float = HeldSMOPolicy.safety
    offset: float = 0.0  # in the units
    relative_gap: float = np.inf
    is_at_rounding: bool = False
    is_trusted: bool = False  # the gap was not measured
    idle_rounds: int = 0  # in which SMO has made no step
    is_easy: bool = True  # so that it is solved to rounding error
    easy_steps: int = 0  # the steps up to which it is
    looks_done: bool = False
    has_given_up: bool = False
    is_stuck: bool = False
    most_columns: int = 0  # of the factors that were tried
    policy: HeldSMOPolicy = field(default_factory=HeldSMOPolicy)
    kernel_evaluations: ClassVar[int] = 0
    """Beyond those of the matrix, which belongs to the problem."""

    @classmethod
    def of(
        cls, problem: KernelProblem, held: HeldValues, warm_start: Array | None, policy: HeldSMOPolicy | None = None
    ) -> HeldState:
        vectors, n, units = np.zeros((6, len(held.rows.values))), held.n, LABELS
        if warm_start is None and problem.even is not None:
            _begin_even(vectors[:, :n], problem.even)
        else:
            signed, units = start_in_units(problem, warm_start)
            for row, given in zip(vectors, (*signed, signed.y, problem.diagonal), strict=True):
                row[:n] = given
        y, lower, upper, s, v, diagonal = vectors
        is_definite = problem.kernel.is_positive_semidefinite
        state = cls(lambda: problem, held, vectors, y, lower, upper, s, v, diagonal, n, problem.has_offset, units, is_definite)
        if policy is not None:
            state.policy, state.violation, state.target_share = policy, policy.first_violation, policy.safety
        if not is_definite:
            state.target_share = state.policy.stationary_share
        if warm_start is not None:
            held.with_rows(state.s.nonzero()[0])
            state.settle(0)
        return state

    @classmethod
    def begun(
        cls, make_problem: Callable[[], KernelProblem], held: HeldValues, vectors: Array, policy: HeldSMOPolicy
    ) -> HeldState:
        """The state at alpha = 0 of a problem with hinge loss and an offset, from its vectors."""
        y, lower, upper, s, v, diagonal = vectors
        state = cls(make_problem, held, vectors, y, lower, upper, s, v, diagonal, held.n, True, LABELS)
        state.policy, state.violation, state.target_share = policy, policy.first_violation, policy.safety
        return state

    @property
    def active(self) -> int:
        return self.n

    @property
    def insists(self) -> bool:
        """Whether a small gap is not enough."""
        return self.policy.insists and self.is_easy

    @property
    def alpha(self) -> Array:
        return self.units.alpha_of(self.s[: self.n])

    @property
    def b(self) -> float:
        return self.units.offset_of(self.offset)

    def advance(self, budget: Budget) -> None:
        """Rounds until the gap is small enough, or one round when the certificate was refused."""
        if self.looks_done:
            self.looks_done, self.target_share = False, self.target_share if self.is_trusted else 0.1 * self.target_share
            if self.rounds >= self.policy.most_rounds or self.idle_rounds >= self.policy.most_idle:
                self.has_given_up = True
                return
        goal, left = self.target_share * budget.target, budget.steps
        while self.rounds < self.policy.most_rounds and left > 0:
            before = self.steps
            self.run_round(goal, left)
            left -= self.steps - before
            if self.is_at_rounding or (self.relative_gap <= goal and not self.insists):
                break
            if self.idle_rounds >= self.policy.most_idle:
                break
        self.looks_done = self.relative_gap <= goal or self.is_at_rounding
        is_over = self.rounds >= self.policy.most_rounds or self.idle_rounds >= self.policy.most_idle
        self.has_given_up = is_over and not self.looks_done

    def run_round(self, goal: float, max_steps: int) -> None:
        self.rounds += 1
        most = self.steps + min(max_steps, self.policy.steps_a_sample * self.n)
        if not self.is_definite:
            self.run_to_violation(goal, most)
            return
        if self.rounds == 1:
            self.easy_steps = self.steps + self.policy.easy_steps * self.n
            self.is_easy = self.n <= self.policy.few_samples and self.run_smo(self.violation, min(most, self.easy_steps))
        self.is_trusted = self.rounds == 1 and not self.is_easy and self.run_to_gap(goal, most)
        if self.is_trusted:
            self.relative_gap = goal  # not measured: the certificate comes next, and costs no more
            return
        is_there, is_within = self.is_easy and self.rounds == 1, self.relative_gap <= goal
        if not is_there:
            is_there = self.run_smo(self.violation, min(most, self.easy_steps) if is_within else most)
        self.is_easy &= self.steps < self.easy_steps
        self.finish(goal, is_slow=not (is_there or is_within))
        self.violation *= self.next_violation(goal)

    def next_violation(self, goal: float) -> float:
        """Factor on the violation for the next round. The gap falls about as fast as the violation."""
        least, share = self.policy.next_violation, self.policy.share_of_goal
        return least if self.relative_gap <= goal else max(least, share * goal / self.relative_gap)

    def run_to_violation(self, goal: float, most: int) -> None:
        """Run SMO until LIBSVM's violation is that small: where the kernel is not positive semidefinite, there is no gap."""
        is_there = self.run_smo(goal, most)
        self.settle(0)
        self.relative_gap, self.is_at_rounding = goal if is_there else np.inf, is_there

    def run_to_gap(self, goal: float, most: int) -> bool:
        """Run SMO until its violation lets expect this gap. False where that would be a violation for the next rounds."""
        violation = self.policy.greatest_violation
        while self.run_smo(violation, most):
            tube = self.units.epsilon * float(np.abs(self.s).sum())
            dual, cost = 0.5 * float(self.s @ (self.y + self.v)) - tube, float((self.upper - self.lower).max())
            expected = goal * dual / (self.policy.gap_a_violation * cost)
            if not self.violation <= expected < violation:
                return expected >= violation
            violation = expected
        return False

    def run_smo(self, violation: float, most: int) -> bool:
        """Whether the violation is that small now. There are to be at most ``most`` steps in all."""
        if self.steps < most:
            kind: Any = OnDemandProblem if self.held.rows.function.is_gaussian else BentProblem
            local = kind(self.held.rows, self.diagonal, self.v, self.s, self.lower, self.upper, self.units.epsilon)
            made = solve_held(self.held, local, violation, most - self.steps, self.has_offset)
            self.steps, self.idle_rounds = self.steps + made, self.idle_rounds + (made == 0)
        return self.steps < most

    def finish(self, goal: float, is_slow: bool) -> None:
        """The optimum of the face that SMO has found. Where that is outside of the box, the optimum of all samples near the
        margin, if it is time for that: in the last rounds, or if SMO is slow. Newton's method on a factor of the kernel matrix
        comes before that where SMO is slow and the rank is low, unless a short run finds it; and after it where the last round
        finds no optimum. A problem within the goal that takes more than rounds of compiled code is not easy."""
        outcome = self.settle(min(self.policy.most_free, self.n))
        self.is_easy &= outcome != MANY or self.relative_gap > goal
        if outcome == MOVED:
            self.is_at_rounding |= self.relative_gap <= min(goal, self.policy.settled)
        is_enough = not self.is_easy and (outcome == MOVED or self.relative_gap <= goal)
        if self.is_at_rounding or is_enough:
            return
        cells = self.cells()
        if outcome != MANY or not self.leap_by_elimination(cells):
            is_near = self.rounds == 1 and self.relative_gap <= self.policy.almost * goal
            if not self.policy.climbs or (self.rounds < self.policy.climbing_round and (is_near or not is_slow)):
                return
            if self.relative_gap <= goal:
                self.is_easy = False
                return
            is_solved = is_slow and (self.climb_briefly() or self.run_newton(self.policy.most_columns(self.n)))
            if not (is_solved or self.climb(self.cells(), self.policy.most_systems)) and self.rounds >= self.policy.most_rounds:
                self.run_newton(self.n)
        self.settle(0)

    def climb_briefly(self) -> bool:
        """Active-set Newton where the samples are few and most near ones are free. False where it was not tried, or did not
        end."""
        cells = self.cells()
        n_free = int(np.count_nonzero((cells.lower < self.s) & (self.s < cells.upper)))
        is_worth_it = self.n <= self.policy.few_samples and len(self.near(cells)) <= self.policy.sure_face * n_free
        if not is_worth_it or self.climb(cells, self.policy.systems_of_a_try):
            return is_worth_it
        self.settle(0)
        return False

    def settle(self, most_free: int) -> int:
        """Leap if at most so many variables are free, and keep the offset and the gap of where that leads."""
        work, free = np.empty((most_free, most_free + 3)), np.empty(most_free, np.uint64)
        K, epsilon = self.held.rows.values, self.units.epsilon
        self.offset, gap, dual, scale, outcome = settle(K, self.vectors, epsilon, self.has_offset, work, free)
        self.steps += outcome == MOVED and most_free > 0
        self.relative_gap = relative(gap, dual + gap, dual)
        self.is_at_rounding = gap <= self.policy.noise * UNIT_ROUNDOFF * scale
        return int(outcome)

    def cells(self) -> Cells:
        return cells_of(self.s, self.v - self.offset, self.lower, self.upper, self.units.epsilon)

    def leap_by_elimination(self, cells: Cells) -> bool:
        """Leap by LAPACK. False where the solution of the system is not inside the box, does not keep the sum of the variables
        to rounding, or there is none."""
        free = ((cells.lower < self.s) & (self.s < cells.upper)).nonzero()[0]
        system = self.held.with_rows(free).take(free, axis=0).take(free, axis=1)
        change = solution_of(system, (self.v - cells.shift)[free], self.has_offset)
        if change is None:
            return False
        moved = self.s[free] + change
        if self.has_offset and not abs(change.sum()) <= LEAST_PIVOT * np.abs(moved).sum():
            return False
        if not np.all((moved > cells.lower[free]) & (moved < cells.upper[free])):
            return False
        self.s[free] = moved
        self.steps += 1
        return True

    def run_newton(self, most_columns: int) -> bool:
        """Newton's method on a factor of the kernel matrix (``maxmargin.solvers.kernel.factored``), once. False where it was
        tried before, or the factor has more columns."""
        if most_columns <= self.most_columns:
            return False
        problem, self.most_columns = self.make_problem(), most_columns
        L = factor(problem, HeldRows(self.held), most_columns)
        if L is None:
            return False
        self.most_columns = self.n
        newton = FactoredNewton(problem, L, self.alpha)
        while not newton.is_over:
            check_point()
            newton.advance(Budget(self.policy.steps_a_sample * self.n, 0.0))
        self.s[: self.n] = start_in_units(problem, newton.alpha)[0].s
        self.held.with_rows(self.s.nonzero()[0])
        self.steps += newton.steps
        return True

    def near(self, cells: Cells) -> Array:
        """The samples that are free or near the margin."""
        n = self.n
        top, bottom = extremes(self.v[:n], self.s[:n], self.lower[:n], self.upper[:n], self.units.epsilon)
        is_free = (cells.lower < self.s) & (self.s < cells.upper)
        error = np.abs(self.v - cells.shift - self.offset)
        return np.flatnonzero(is_free | ((error <= max(self.policy.near, top - bottom)) & (self.lower < self.upper)))

    def climb(self, cells: Cells, most_systems: int) -> bool:
        """Active-set Newton on all samples near the margin. False where it ends at its limit."""
        near, v = self.near(cells), self.v - cells.shift
        block = np.ascontiguousarray(self.held.with_rows(near)[np.ix_(near, near)])
        work = WorkingSet(block, self.s[near], v[near], cells.lower[near], cells.upper[near], self.has_offset)
        found = optimise(work, max_iterations=most_systems)
        self.s[near] = found.s
        self.steps += found.iterations
        return found.iterations < most_systems

    def take_outputs(self, outputs: Array) -> None:
        self.v[: self.n] = self.y[: self.n] - self.units.outputs_of(outputs)


class HeldRows(NamedTuple):
    """The rows of a matrix that is held, as a factor asks for them."""

    held: HeldValues

    def block(self, chosen: Array) -> Array:
        return np.asarray(self.held.with_rows(chosen)[chosen, : self.held.n])


def _begin_even(vectors: Array, problem: EvenProblem) -> None:
    """What ``start_in_units`` gives at alpha = 0, in a fifth of the time."""
    y, lower, upper, _, v, diagonal = vectors
    np.multiply(problem.signs, problem.C, out=upper)
    np.minimum(upper, 0.0, out=lower)
    np.maximum(upper, 0.0, out=upper)
    y[:], v[:], diagonal[:] = problem.signs, problem.signs, problem.bounds.diagonal

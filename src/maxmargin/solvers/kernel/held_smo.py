r"""SMO on a kernel matrix that is held whole in float64, and least squares for the free variables: for few samples.

A round is one compiled call of SMO on all samples (``maxmargin.solvers.kernel.batched_smo_loops``), and then one linear
system for the
variables that SMO has left inside their box (papers/irwls_svc, Table 1, step 1; see
``maxmargin.solvers.kernel.irwls.active_set_newton``):

.. math:: \begin{bmatrix} K_{FF} & 1 \\ 1' & 0 \end{bmatrix} \begin{bmatrix} d \\ b \end{bmatrix} = \begin{bmatrix} v_F \\ 0
          \end{bmatrix}

If s + d is inside the box, it is the optimum of that face. If not, the whole method of ``irwls_step`` takes over. Every round
asks SMO for a violation thirty times smaller than the one before. When a few rounds have not been enough, the solver gives up,
and whoever has called it can go on from its alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.rows import Array
from maxmargin.problem.held_values import HeldValues
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.kernel.batched_smo_loops import LocalProblem, extremes, solve_with_offset, solve_without_offset
from maxmargin.solvers.kernel.held_smo_loops import MOST_FREE, MOVED, SINGULAR, leap, renew, survey
from maxmargin.solvers.kernel.irwls.active_set_newton import WorkingSet, optimise

FIRST_VIOLATION, NEXT_VIOLATION = 1e-3, 1.0 / 30.0
"""How far SMO goes in the first round, as a difference of margins, and by which factor farther in every round after it."""
STEPS_A_SAMPLE = 50
"""Steps of SMO for each sample, at most, in a round. Least squares cost less than more of them."""
MOST_ROUNDS = 4
MOST_SYSTEMS = 200
"""Linear systems, at most, where the first one leads out of the box."""
NEAR = 0.05
"""Samples whose margin is within this of one, or within the violation, take part in those systems."""
ALWAYS_SQUARE = 256
"""So few samples are always finished to rounding: that costs little, and equal problems get equal answers."""
NOISE = 4.0
"""A gap is nothing but rounding when every margin is wrong by no more units in the last place of what it is added up from."""
SAFETY = 0.5
"""The share of the target that the solver's own gap must come down to: the certificate adds its rounding error."""


@dataclass
class HeldState:
    """s_i = y_i alpha_i in its box, and v = y - K s. Vectors are as long as the padded matrix; there lower = upper = 0."""

    K: Array
    y: Array
    lower: Array
    upper: Array
    s: Array
    v: Array
    diagonal: Array
    n: int
    has_offset: bool
    stage: ClassVar[Stage] = Stage("smo", "few samples: their kernel matrix is held")
    steps: int = 0
    rounds: int = 0
    violation: float = FIRST_VIOLATION
    target_share: float = SAFETY
    b: float = 0.0
    relative_gap: float = np.inf
    is_at_rounding: bool = False
    looks_done: bool = False
    has_given_up: bool = False
    is_stuck: bool = False
    kernel_evaluations: ClassVar[int] = 0
    """Beyond those of the matrix, which belongs to the problem."""

    @classmethod
    def of(cls, problem: KernelProblem, held: HeldValues, warm_start: Array | None) -> HeldState:
        signed = problem.signed(warm_start)
        y, lower, upper, s = (_lengthened(each, len(held.padded)) for each in signed)
        state = cls(held.padded, y, lower, upper, s, y.copy(), np.diagonal(held.padded).copy(), held.n, problem.has_offset)
        if warm_start is not None:
            state.renew()
        return state

    @property
    def greatest(self) -> float:
        """No kernel value of a positive semidefinite kernel is greater."""
        return float(self.diagonal.max())

    @property
    def active(self) -> int:
        return self.n

    @property
    def alpha(self) -> Array:
        return np.abs(self.s[: self.n])

    def advance(self, budget: Budget) -> None:
        """Rounds until the gap is small enough, or one round when the certificate was refused."""
        if self.looks_done:
            self.looks_done, self.target_share = False, 0.1 * self.target_share
            if self.rounds >= MOST_ROUNDS:
                self.has_given_up = True
                return
        goal, left = self.target_share * budget.target, budget.steps
        while self.rounds < MOST_ROUNDS and left > 0:
            before = self.steps
            self.run_round(goal, left)
            left -= self.steps - before
            if self.relative_gap <= goal and (self.n > ALWAYS_SQUARE or self.is_at_rounding):
                break
        self.looks_done = self.relative_gap <= goal or self.is_at_rounding
        self.has_given_up = self.rounds >= MOST_ROUNDS and not self.looks_done

    def run_round(self, goal: float, max_steps: int) -> None:
        self.rounds += 1
        self.run_smo(min(max_steps, STEPS_A_SAMPLE * self.n))
        self.survey()
        if self.n <= ALWAYS_SQUARE or self.relative_gap > goal:
            self.finish()
            self.survey()
        self.violation *= NEXT_VIOLATION

    def run_smo(self, max_steps: int) -> None:
        solve = solve_with_offset if self.has_offset else solve_without_offset
        local = LocalProblem(self.K, self.diagonal, self.v, self.s, self.lower, self.upper)
        self.steps += int(solve(local, self.violation, max_steps))

    def survey(self) -> None:
        """The offset and the gap at the present v."""
        here = survey(self.v, self.y, self.s, self.lower, self.upper, self.has_offset)
        self.b, gap = here.b, here.gap
        self.relative_gap = relative(gap, here.dual + gap, here.dual)
        magnitude = 1.0 + abs(self.b) + here.size * self.greatest
        self.is_at_rounding = gap <= NOISE * UNIT_ROUNDOFF * magnitude * here.room

    def finish(self) -> None:
        """The optimum of the face that SMO has found, or, where that is outside of the box, of all samples near the margin."""
        free = np.flatnonzero((self.lower < self.s) & (self.s < self.upper))
        if not self.leap(free):
            self.climb()
        self.renew()

    def leap(self, free: Array) -> bool:
        """One linear system. False where its solution is not inside the box, or there is none."""
        if not len(free):
            return False
        if len(free) > MOST_FREE:
            return self.leap_by_elimination(free)
        outcome = leap(self.K, self.v, self.s, self.lower, self.upper, free, self.has_offset)
        self.steps += outcome == MOVED
        return self.leap_by_elimination(free) if outcome == SINGULAR else bool(outcome == MOVED)

    def leap_by_elimination(self, free: Array) -> bool:
        """The same by LAPACK, which does not need a positive definite matrix."""
        m = len(free)
        system = np.ones((m + 1, m + 1))
        system[:m, :m], system[m, m] = self.K[np.ix_(free, free)], 0.0
        right = np.append(self.v[free], 0.0)
        try:
            change = np.linalg.solve(system, right)[:m] if self.has_offset else np.linalg.solve(system[:m, :m], right[:m])
        except np.linalg.LinAlgError:
            return False
        moved = self.s[free] + change
        if not np.all((moved > self.lower[free]) & (moved < self.upper[free])):
            return False
        self.s[free] = moved
        self.steps += 1
        return True

    def climb(self) -> None:
        n = self.n
        top, bottom = extremes(self.v[:n], self.s[:n], self.lower[:n], self.upper[:n])
        is_free = (self.lower < self.s) & (self.s < self.upper)
        is_near = (np.abs(self.v - self.b) <= max(NEAR, top - bottom)) & (self.lower < self.upper)
        near = np.flatnonzero(is_free | is_near)
        block = np.ascontiguousarray(self.K[np.ix_(near, near)])
        work = WorkingSet(block, self.s[near], self.v[near], self.lower[near], self.upper[near], self.has_offset)
        found = optimise(work, max_iterations=MOST_SYSTEMS)
        self.s[near] = found.s
        self.steps += found.iterations

    def renew(self) -> None:
        """v from s, free of the rounding of the steps that led here."""
        renew(self.K, self.y, self.s, self.v)

    def take_outputs(self, outputs: Array) -> None:
        self.v[: self.n] = self.y[: self.n] - outputs


def _lengthened(vector: Array, length: int) -> Array:
    longer = np.zeros(length)
    longer[: len(vector)] = vector
    return longer

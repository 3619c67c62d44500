r"""Pair descent for a free offset with a price, on working sets. The pairs are those of H.-Y. Chou, P.-Y. Lin, C.-J. Lin, "Dual
coordinate-descent methods for linear one-class SVM and SVDD", SDM 2020.

The dual fixes :math:`\sum_i \alpha_i`, so a step changes two samples: one below rho whose alpha can rise, and one above rho
whose alpha can fall. At the optimum alpha is at its bound below rho and zero above, so that only the samples near rho have to
move. The problem of one sample out of 16, say, has nearly the same w and rho. One pass over all samples then puts alpha at its
bound below a band around that rho, and to zero above. The samples in the band are the working set, on which pairs are moved
until its own gap is a share of the target. The certificate is the second pass over X. Where it is refused, its outputs choose
the next working set: the samples near rho, and all that violate optimality."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF, summed
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.offset import best_offsets
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.newton import policy as newton_policy
from maxmargin.solvers.linear.pair_point import PairPoint
from maxmargin.solvers.linear.pair_policy import PairPolicy
from maxmargin.solvers.linear.pair_start import on_empty_rows


@dataclass(frozen=True)
class PairDescent:
    """``policy`` holds the sizes of samples and working sets."""

    policy: PairPolicy = field(default=PairPolicy(), repr=False)

    @property
    def name(self) -> str:
        return "pair-descent"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> PairState:
        if problem.offset_prices is None:
            raise ValueError(f"The solver {self.name!r} is for one class: use 'newton' or 'auto'.")
        return PairState(problem, self.policy, warm_start)

    def advance(self, problem: LinearProblem, state: PairState, budget: Budget) -> None:
        """Work on one working set."""
        state.improve(budget.target)

    def candidate(self, problem: LinearProblem, state: PairState) -> tuple[Array, Array]:
        return state.candidate()

    def take_outputs(self, problem: LinearProblem, state: PairState, outputs: Array) -> None:
        """The outputs of the candidate, its offset included. A certificate that was refused has computed them anyway."""
        state.take_outputs(outputs)


class PairState:
    """A dual point with its rho, and what is known of its gap."""

    stage: ClassVar[Stage] = Stage("pair-descent")
    has_best_w: ClassVar[bool] = True

    def __init__(self, problem: LinearProblem, policy: PairPolicy, warm_start: Array | None) -> None:
        self.problem, self.policy = problem, policy
        prices = problem.offset_prices
        assert prices is not None
        self._total = summed(prices)
        self.point = PairPoint(problem.rows, problem.box.U, self._total, policy)
        self.iterations = self.idle = self.refusals = 0
        self.looks_done = self.is_stuck = False
        self.rho, self.longest, self.gap, self.least_gap, self.caution = 0.0, 0.0, math.inf, math.inf, 1.0
        self.has_outputs = False
        self._is_by_shares, self._is_by_mean, self.known_gap = False, False, 0.0
        """Where the first working set is a poor guess, it comes from the mean of X, and a set is solved to a share of the
        relative gap of all samples at the last look at them. No certificate is asked for before the first look."""
        if warm_start is None:
            start = on_empty_rows(problem.rows, problem.box.U, self._total)
        else:
            start = problem.balanced(np.clip(warm_start, 0.0, problem.box.U))
        if start is None:
            self._is_by_shares = self._is_by_mean = not self.point.begin()
            self.known_gap = 1.0 if self._is_by_shares else 0.0
        else:
            self.point.alpha[:] = start
            self.point.refresh()

    @property
    def alpha(self) -> Array:
        return self.point.alpha

    @property
    def w(self) -> Array:
        return self.point.w

    @property
    def dual(self) -> float:
        return -0.5 * self.point.sqnorm

    @property
    def steps(self) -> int:
        return int(self.point.n_read)

    @property
    def active(self) -> int:
        return len(self.point.chosen)

    def improve(self, target: float) -> None:
        """Choose a working set, unless the last one is not done, and move its pairs."""
        wanted = self.caution * target
        if self.looks_done:
            wanted = self._after_refusal(target)
        if len(self.point.chosen) == 0 and self._is_met(wanted):
            return
        last_aim = self.policy.aim * wanted
        aim = self.policy.fall * self.known_gap
        aim = last_aim if aim <= self.policy.leap * last_aim else aim
        found = self.point.descend(aim)
        self.iterations, self.has_outputs = self.iterations + 1, False
        is_slow, self.gap = found.gap > self.policy.slow * self.gap, found.gap
        self.rho, self.longest = found.rho, found.longest
        is_met = found.gap <= aim * abs(self.dual)
        if is_met or is_slow:
            is_last = found.gap <= last_aim * abs(self.dual)
            self.looks_done = is_last and self.refusals < self.policy.most_refusals and not self._is_by_mean
            self.point.chosen = self.point.chosen[:0]

    def _is_met(self, wanted: float) -> bool:
        """Look at all samples, and choose a working set if they ask for one."""
        self._judge()
        self.looks_done = self.gap <= wanted * abs(self.dual)
        return self.looks_done or self.is_stuck

    def _after_refusal(self, target: float) -> float:
        """A certificate was refused. If the gap is within the target by the solver's own sums, they were not precise enough."""
        self.looks_done, self.refusals = False, self.refusals + 1
        self._judge()
        if self.gap <= self.caution * target * abs(self.dual):
            self.caution, self.has_outputs = 0.5 * self.caution, False
            self.point.refresh()
            self._judge()
        return self.caution * target

    def _judge(self) -> None:
        """rho and the gap of all samples, from their outputs, and the next working set."""
        if not self.has_outputs:
            self.point.look()
            self.has_outputs = True
        problem, outputs, self._is_by_mean = self.problem, self.point.outputs, False
        self.rho = best_offsets(outputs, problem.C, self._total).middle
        self.gap = float(np.sum(problem.loss.gap_terms(outputs - self.rho, self.alpha, problem.C, 0.0)))
        self.known_gap = self.gap / abs(self.dual) if self._is_by_shares and self.dual else 0.0
        self.idle = 0 if self.gap < self.least_gap else self.idle + 1
        self.least_gap = min(self.least_gap, self.gap)
        self.is_stuck = self.idle >= self.policy.still_iterations
        self.point.choose(self.rho, self._farthest)

    @property
    def _farthest(self) -> float:
        """How far from rho an output can be whose sample has to move: w* is within sqrt(2 gap) of w, so that no output changes
        by more than that times the longest |x_i|, and neither does rho, a quantile of outputs. The longest is that of the last
        working set: a longer one elsewhere costs time, and not the answer."""
        return 2.0 * math.sqrt(2.0 * self.gap * self.longest) if self.longest > 0.0 else math.inf

    def take_outputs(self, outputs: Array) -> None:
        np.add(outputs, self.border, out=self.point.outputs)
        self.has_outputs = True

    @property
    def _is_zero(self) -> bool:
        rounding = UNIT_ROUNDOFF * self._total
        return self.point.sqnorm <= rounding * rounding * self.longest

    @property
    def border(self) -> float:
        """The support vectors on the border have outputs that are equal up to rounding. This is rho, lowered until all of them
        are on the inner side, whatever the rounding errors of their outputs."""
        near = self.point.outputs if self.has_outputs else self.point.near
        longest = self.longest or float(self.problem.rows.squared_norms().max())
        magnitude = math.sqrt(self.point.sqnorm * longest)
        on_border = near[np.abs(near - self.rho) <= newton_policy.DEFAULT.border * magnitude]
        return float(on_border.min(initial=self.rho)) - UNIT_ROUNDOFF * (self.problem.n_weights + 4) * magnitude

    def candidate(self) -> tuple[Array, Array]:
        """alpha with its w and rho; with w = 0 where w(alpha) is nothing but the rounding of its sums."""
        if self._is_zero:
            return np.zeros_like(self.w), self.alpha
        w = self.point.w.copy()
        w[-1] = -self.border / self.problem.intercept_scaling
        return w, self.alpha

r"""Batched SMO for the problems with nu: the sums of one or two groups of variables are fixed.

Everything is as in ``maxmargin.solvers.kernel.batched_smo``, with two differences. A pair of variables belongs to one group.
And each group has an offset of its own: where the state of batched SMO has v and compares it with b, the state here has
:math:`v_i - b_{g(i)}` and compares it with zero. :math:`b_g` is minus the sign of the group times its threshold
(``maxmargin.problem.nu``). Samples are not set aside.

In nu-SVR a sample has two variables. They share their kernel values (``CopiedRows``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from maxmargin.certificate.certificate import relative
from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.matrix import KernelMatrix, padded
from maxmargin.problem.nu import NuProblem
from maxmargin.problem.offset import best_offsets
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.active_rows import ActiveRows
from maxmargin.solvers.kernel.batched_smo import BatchedSMO
from maxmargin.solvers.kernel.batched_smo_loops import LocalProblem, extremes, gap_and_dual, solve_with_offset
from maxmargin.solvers.kernel.batched_smo_state import BatchedSMOState, Movable
from maxmargin.solvers.kernel.face import change_in_groups
from maxmargin.solvers.kernel.held_nu import HeldNuPolicy, HeldNuState
from maxmargin.solvers.kernel.nu_loops import solve_in_groups
from maxmargin.solvers.kernel.nu_program import Inside, InteriorCosts
from maxmargin.solvers.kernel.units import Units
from maxmargin.solvers.scaled_targets import power_of_two


@dataclass(frozen=True)
class ZeroPolicy:
    """When the solver gives up because w = 0 is optimal. Both values are zero there, no gap is small relative to them, and SMO
    approaches them ever more slowly. The primal value must not be below zero, the value of w = 0."""

    steps_to_zero: int = 50
    """Steps for each variable before the solver gives up. An estimate, not measured."""
    zero_share: float = 1e-4
    """Share of the greatest |w|^2 / 2 that the dual value may be above zero. An estimate, not measured."""


@dataclass(frozen=True)
class NuSMO(BatchedSMO):
    """The settings are those of :class:`BatchedSMO`; ``shrinks`` has no effect."""

    @property
    def name(self) -> str:
        return "nu-smo"

    few_samples: int = 256
    """Problems with at most this many variables are solved to rounding error, whatever ``tol`` is: that costs next to nothing,
    and equal problems get equal answers."""
    few_target: float = 1e-10
    """The relative gap at which the linear system of the free variables of such a problem is solved."""
    zero: ZeroPolicy = field(default_factory=ZeroPolicy)
    """When w = 0 is taken for the answer."""
    interior: InteriorCosts = field(default_factory=InteriorCosts)
    """When the interior-point method takes over."""
    held: HeldNuPolicy = field(default_factory=HeldNuPolicy)
    """How far the solver for few samples goes."""

    def few(self, problem: NuProblem) -> HeldNuState | None:
        """The state of the solver for few samples, where it can solve the problem."""
        return HeldNuState.of(problem, self.held, Inside(problem, self.interior, problem.n_samples))

    def init(self, problem: NuProblem, warm_start: Array | None, seed: int) -> NuState:  # type: ignore[override]
        rows = self._rows(problem.samples, self._first_dtype(problem.samples))
        state = NuState(
            **problem.signed(warm_start)._asdict(),
            f=np.zeros(problem.n_samples),
            rows=CopiedRows(rows.matrix, problem.n_copies) if problem.n_copies > 1 else rows,
            random=np.random.default_rng(seed),
            policy=self.policy,
            limits=self.zero,
            problem=problem,
            inside=Inside(problem, self.interior, self.working_set),
        )
        state.begin()
        return state

    def advance(self, problem: Any, state: Any, budget: Budget) -> None:
        if state.points is not None:
            state.take_next_point()
            return
        is_few = problem.n_samples <= self.few_samples
        target = min(budget.target, self.few_target) if is_few else budget.target
        super().advance(problem.samples, state, budget._replace(target=target))
        if is_few and (state.looks_done or state.is_stuck):
            state.leap()
        if state.is_at_zero and not state.inside.pays_near_zero():
            state.forget_zero()
        is_slow = not state.looks_done and state.inside.pays(state.steps)
        if state.is_stuck or state.is_at_zero or is_slow:
            self._go_inside(problem, state, target)

    def _go_inside(self, problem: NuProblem, state: Any, target: float) -> None:
        """The points of the interior-point method, one after the other, each with a certificate, and SMO's own as the last."""
        state.points = chain(state.inside.points(target), [(self.candidate(problem, state), 0)])
        state.is_stuck = state.is_at_zero = state.looks_done = False
        state.take_next_point()

    def _first_dtype(self, problem: Any) -> Any:
        """Few samples need no float32."""
        return np.float64 if problem.n_samples <= self.few_samples else super()._first_dtype(problem)

    def candidate(self, problem: Any, state: Any) -> Array:
        return np.asarray(np.minimum(state.units.size * np.abs(state.s), problem.C))

    def _look_closer(self, problem: Any, state: Any) -> None:
        super()._look_closer(problem, state)
        if state.problem.n_copies > 1 and not isinstance(state.rows, CopiedRows):  # float64 rows took the place of others
            state.rows = CopiedRows(state.rows.matrix, state.problem.n_copies)


@dataclass
class NuState(BatchedSMOState):
    """``offsets`` is b_g for each group, in the units of the state."""

    problem: NuProblem = field(kw_only=True)
    limits: ZeroPolicy = field(kw_only=True)
    offsets: Array = field(default_factory=lambda: np.zeros(2), kw_only=True)
    ends: list[tuple[float, float]] = field(default_factory=list, kw_only=True)  # top and bottom of each group
    inside: Inside = field(kw_only=True)
    is_at_zero: bool = False
    may_be_zero: bool = True  # until it was found that there is no better method near w = 0
    points: Iterator[tuple[Array, int]] | None = None  # of the interior-point method, that no certificate has seen yet

    @property
    def v(self) -> Array:
        """The gradient of the dual, less the offset of the variable's group."""
        return np.asarray(self.y - self.f - self.offsets[self.problem.group])

    @cached_property
    def largest_value(self) -> float:
        """|w|^2 / 2 is never greater, in the units of the state."""
        total = float(self.problem.totals.sum()) / self.units.size
        return 0.5 * total**2 * float(np.abs(self.problem.samples.diagonal).max(initial=0.0))

    @property
    def is_small(self) -> bool:
        """Samples are never set aside."""
        return True

    def begin(self) -> None:
        """Find f and the units."""
        everyone = np.arange(len(self.y))
        if self.problem.coefficients(np.abs(self.s)).any():
            self.compute_outputs(self.problem, everyone, self.rows.dtype)
            self.drift, self.is_exact = float(np.abs(self.s).sum()), False
        targets = self.problem.targets
        centre = float(np.median(targets))
        size = power_of_two(targets - centre if np.ptp(targets) > 0.0 else self.f - self.f.mean())
        self.units = Units(size, centre, is_signed=True)
        self.y = (self.y - centre) / size
        self.lower, self.upper, self.s, self.f = (each / size for each in (self.lower, self.upper, self.s, self.f))
        self.drift /= size
        self.survey(self.problem)

    def take_outputs(self, outputs: Array) -> None:
        super().take_outputs(self.problem.of_variables(outputs))

    def compute_outputs(self, problem: Any, samples: Array, dtype: Any = np.float64) -> None:
        """f of these variables from s."""
        rows, n = KernelMatrix(problem.kernel, problem.points, dtype), self.problem.samples.n_samples
        coefficients = self.s.reshape(-1, n).sum(axis=0)
        places, support = np.unique(samples % n), np.flatnonzero(coefficients)
        found = np.zeros(n)
        found[places] = rows.sums_at(places, support, coefficients[support])
        self.f[samples] = found[samples % n]
        self.evaluations_before += rows.kernel_evaluations

    def survey(self, problem: Any) -> None:
        """The violation and the gap at the present f, group by group, and whether they are getting better."""
        v, gap, dual, tops, bottoms = self.y - self.f, 0.0, 0.0, [], []
        for g, members in enumerate(self.problem.members):
            own = [each[members] for each in (v, self.y, self.s, self.lower, self.upper)]
            sign, C, total = self.problem.signs[members[0]], self.problem.C[members], float(self.problem.totals[g])
            self.offsets[g] = -sign * best_offsets(-sign * own[0], C, total).middle
            top, bottom = extremes(own[0], *own[2:], 0.0)
            more = gap_and_dual(*own, float(self.offsets[g]), 0.0)
            gap, dual = gap + more[0], dual + more[1]
            tops.append(top - self.offsets[g])
            bottoms.append(bottom - self.offsets[g])
        self.ends = list(zip(tops, bottoms, strict=True))
        self.top, self.bottom, self.b = float(max(tops)), float(min(bottoms)), 0.0
        is_definite = problem.kernel.is_positive_semidefinite
        violation = self.units.size * max(0.0, self.top - self.bottom)  # what the judge of such a kernel looks at
        self.relative_gap = relative(gap, dual + gap, dual) if is_definite else violation
        is_no_better = is_definite and dual + gap >= 0.0 and np.ptp(self.problem.targets) == 0.0
        is_slow = self.steps > self.limits.steps_to_zero * len(self.y)
        self.is_at_zero = (
            self.may_be_zero and is_no_better and is_slow and abs(dual) <= self.limits.zero_share * self.largest_value
        )
        if self.is_at_zero:
            self.relative_gap = 0.0
        self.is_stalled = self.patience.note(self.steps, dual, dual + gap)
        self.standstill.note(gap, dual)

    def choose(self, problem: Any, size: int) -> Array:
        """The working set. Every group has an equal share of it and chooses both sides of its pairs itself: if all variables
        were drawn together, nearly all that can rise would be of one group, nearly all that can fall of the other, and no pair
        could move. A group in which nothing can rise, or nothing can fall, has no pairs. Where there are no pairs at all, the
        working set is one variable, which cannot move."""
        can_rise, can_fall = self.s < self.upper, self.s > self.lower
        chosen = np.zeros(len(self.y), np.bool_)
        with_pairs = [g for g, ends in enumerate(self.ends) if np.isfinite(ends).all()]
        for g in with_pairs:
            (top, bottom), is_own = self.ends[g], self.problem.group == g
            own = Movable(can_rise & is_own, can_fall & is_own, 0.5 * (top + bottom), top - bottom)
            chosen[self.choose_among(own, size // len(with_pairs))] = True
        return np.flatnonzero(chosen) if with_pairs else self.everyone[:1]

    def solve(self, problem: Any, chosen: Array, max_steps: int) -> int:
        """SMO on the local block. The places of the first group are filled up with copies that cannot move."""
        group = self.problem.group[chosen]
        first, second = chosen[group == 0], chosen[group == 1]
        split = padded(len(first)) if len(second) else 0
        fill = np.repeat(first[:1], max(0, split - len(first)))
        places = np.concatenate([first, fill, second])
        K = self._block_of(places)
        size, violation = len(places), self.top - self.bottom
        number = self.number_of(self.v[places])
        v, s, lower, upper = (np.zeros(len(K), kind) for kind in (number, np.float64, np.float64, np.float64))
        can_move = np.ones(size, np.bool_)
        can_move[len(first) : len(first) + len(fill)] = False
        v[:size], s[:size] = self.v[places], np.where(can_move, self.s[places], 0.0)
        lower[:size], upper[:size] = (np.where(can_move, each[places], 0.0) for each in (self.lower, self.upper))
        local = LocalProblem(K, np.diagonal(K).astype(number), v, s, lower, upper, 0.0)
        tolerance = number(self.leaving.tolerance(violation))
        if len(second) and len(first):
            steps = solve_in_groups(local, local.masks, split, tolerance, max_steps)
        else:
            steps = solve_with_offset(local, local.masks, tolerance, max_steps)
        self.s[places[can_move]] = s[:size][can_move]
        return int(steps)

    @property
    def has_other_points(self) -> bool:
        """Whether the interior-point method may have a point that no certificate has seen."""
        return self.points is not None

    def take_next_point(self) -> None:
        """The next point of the interior-point method. After the last of them the solver gives up."""
        assert self.points is not None
        alpha, steps = next(self.points, (None, 0))
        if alpha is None:
            self.is_stuck = True
            return
        self.s[:] = self.problem.signs * alpha / self.units.size
        self.steps += 1 + steps
        self.compute_outputs(self.problem, self.everyone)
        self.survey(self.problem)
        self.looks_done = True

    def forget_zero(self) -> None:
        """Go on near w = 0, because no other method is worth it there."""
        self.may_be_zero = self.is_at_zero = self.looks_done = False
        self.survey(self.problem)

    def leap(self) -> None:
        """Move to the optimum of the face that SMO has found, by one linear system (papers/irwls_svc, Table 1, step 1, with a
        row for the sum of each group). If it is outside the box, nothing moves."""
        free = np.flatnonzero(self.is_free)
        if not len(free):
            return
        own, place = np.unique(free % self.problem.samples.n_samples, return_inverse=True)
        K = KernelMatrix(self.problem.kernel, self.problem.points, np.float64).square(own)
        v = np.empty(len(own))
        v[place] = self.v[free]
        moved = self.s[free] + change_in_groups(K, v, place, self.problem.group[free])
        if np.all((moved > self.lower[free]) & (moved < self.upper[free])):
            self.s[free] = moved
            self.steps += 1
            self.compute_outputs(self.problem, self.everyone)
            self.survey(self.problem)

    def _block_of(self, places: Array) -> Array:
        K = self._memory(padded(len(places)))
        K[len(places) :], K[:, len(places) :] = 0.0, 0.0
        self.rows.block(places, out=K)
        return K


class CopiedRows(ActiveRows):
    """Kernel rows for variables of which several belong to a sample: variable k to sample k modulo their number."""

    def __init__(self, matrix: KernelMatrix, n_copies: int) -> None:
        super().__init__(matrix)
        self.n_copies = n_copies

    @property
    def whole(self) -> Array | None:
        """There is none of all variables."""
        return None

    def block(self, chosen: Array, out: Array | None = None) -> Array:
        return super().block(chosen % self.matrix.n_samples, out)

    def add_to(self, f: Array, chosen: Array, scales: Array) -> None:
        n = self.matrix.n_samples
        coefficients = np.bincount(chosen % n, scales, n)
        moved = np.flatnonzero(coefficients)
        own = f[:n].copy()
        super().add_to(own, moved, coefficients[moved])
        for k in range(self.n_copies):
            f[k * n : (k + 1) * n] = own

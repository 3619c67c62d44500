"""The default solver: it starts with dual coordinate descent, watches the gap, and switches when another method would be
done sooner.

From the second sweep on the work that is left is extrapolated from the gap's decay. If that is more than a Newton method
would need (before the fifth sweep: far more), and the features are few enough for one, **semismooth Newton** takes over
from the present alpha; with many features it is **AVSF**, on data with its features renumbered by frequency and those that
occur once folded away. Nothing is ever begun anew, every alpha is a valid start for the others. A small problem goes to
Newton at once and is finished to rounding error: there that costs next to nothing.

All of it is decided by counted work in estimated nanoseconds, never by the clock, so the same call gives the same answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from maxmargin.data import Array
from maxmargin.problem import LinearProblem
from maxmargin.solvers.base import Budget, Solver, Stage
from maxmargin.solvers.dcd import DCD
from maxmargin.solvers.newton_frame import is_rotated
from maxmargin.solvers.newton_passes import MOST_MATRIX_WEIGHTS, SMALL_ELEMENTS
from maxmargin.threads import Crew

FIRST_LOOK_SWEEPS, SURE_SWEEPS, SURE_FACTOR = 2, 5, 4.0
"""The first sweeps say little of how the gap will fall: before so many of them what is left must be so many times more than
another method needs."""
PATIENCE = 4.0
"""AVSF is worth a switch when what is left is more than this many times what was done."""
MOST_PRODUCT_STEPS = 40
"""Newton steps by conjugate gradients before coordinates are given another chance."""
PRODUCTS_A_STEP = 10
"""Products with the Hessian that a direction takes where there is no matrix: 3 to 30 on generated one-hot columns."""
SMALL_WEIGHTS = 256
"""A problem with few elements and no more weights than this is finished to rounding error."""
FEW_WEIGHTS = 128
"""A small problem with no more weights than this is solved by one compiled call. A larger matrix is factored by LAPACK."""
MERGE_SAVING = 0.3
"""Equal rows are merged when at least this share of the samples goes."""
CACHE_WEIGHTS, CACHE_ELEMENTS = 1 << 16, 1 << 20
"""A longer w, or an X with more elements, does not stay in the near caches."""
OPTIMISM = 2.0
"""The gap falls more and more slowly, and that of the shrunk problem is not all of it: what is left is about twice the
forecast."""
SINGLE_TARGET, SINGLE_RANGE = 5e-7, 1e12
"""For a gap no smaller than this, and values no farther from one, the reduced data is kept in float32 ..."""
MOST_REFUSALS = 3
"""... until so many certificates were refused: then float32 may be the reason."""
LOOK_EPOCHS, LOOK_GROWTH = 4, 0.2
"""How often a better primal point is looked for: it costs half an epoch."""


class Costs(NamedTuple):
    """Estimated nanoseconds, for comparing methods on one problem with each other."""

    descent_step: float
    newton: float

    @classmethod
    def of(cls, problem: LinearProblem) -> Costs:
        n, elements, d = problem.n_samples, problem.rows.n_stored, problem.n_weights
        size = newton_weights(problem)
        an_element = 3.0 if d <= CACHE_WEIGHTS else 6.5
        a_miss = 60.0 if elements > CACHE_ELEMENTS else 0.0
        passes = (3.4 * elements + 24.0 * n) / Crew(elements, 2 * d).size
        factorisation = 0.012 * size**3 if size <= MOST_MATRIX_WEIGHTS else PRODUCTS_A_STEP * 1.5 * elements
        a_newton_step = 150_000.0 + passes + factorisation
        n_newton_steps = 25 if np.isfinite(problem.box.U).all() else 10
        rotation = 0.1 * n * n * d if size < d else 0.0
        return cls(40.0 + a_miss + an_element * elements / n, n_newton_steps * a_newton_step + rotation)


def newton_weights(problem: LinearProblem) -> int:
    """The size of Newton's matrix."""
    return min(problem.n_weights, problem.n_samples + 1) if is_rotated(problem) else problem.n_weights


@dataclass(frozen=True)
class Auto:
    """Has no settings: it is the choice for those who do not want to choose."""

    @property
    def name(self) -> str:
        return "auto"

    def init(self, problem: LinearProblem, warm_start: Array | None, seed: int) -> AutoState:
        state = AutoState(problem, seed)
        reason = state.reason_for_newton
        if reason is None:
            state.begin(DCD(), problem, warm_start, "first")
        else:
            state.begin(newton_for(state), problem, warm_start, reason)
        return state

    def advance(self, problem: LinearProblem, state: AutoState, budget: Budget) -> None:
        was_refused, state.looks_done = state.looks_done, False
        if state.stage.solver == "dcd":
            state.descend(budget)
        elif state.stage.solver == "avsf":
            state.refine(was_refused)
            state.ascend(budget)
        else:
            state.finish(budget)

    def candidate(self, problem: LinearProblem, state: AutoState) -> tuple[Array, Array]:
        return state.candidate()


def newton_for(state: AutoState) -> Solver:
    """Newton's method as it suits the size of the problem."""
    problem = state.problem
    is_short = problem.n_weights <= FEW_WEIGHTS and not is_rotated(problem)
    if state.is_small and problem.penalizes_intercept and is_short:
        from maxmargin.solvers.small_newton import SmallNewton

        return SmallNewton()
    from maxmargin.solvers.newton import Newton

    return Newton(polishes=state.is_small)


@dataclass
class AutoState:
    """The method at work, the problem that it sees, and how the gap fell so far."""

    problem: LinearProblem
    seed: int
    looks_done: bool = False
    is_stuck: bool = False
    is_last: bool = False  # there will be no other switch
    stage: Stage = field(default_factory=lambda: Stage(""))
    solver: Any = None
    inner: Any = None
    handed_over: Array | None = None
    reduction: Any = None
    primal_point: Any = None
    steps_before: int = 0
    last_active: int = 0  # during the last sweep
    next_look: int = 0
    is_in_single: bool = False
    gave_up_products: bool = False
    refusals: int = 0
    history: list[tuple[int, float]] = field(default_factory=list)  # sweeps and relative gap, falling

    @cached_property
    def costs(self) -> Costs:
        return Costs.of(self.problem)

    @property
    def steps(self) -> int:
        return self.steps_before + (int(self.inner.steps) if self.inner else 0)

    @property
    def active(self) -> int:
        return int(self.inner.active) if self.inner else 0

    @property
    def has_best_w(self) -> bool:
        return self.primal_point is not None or bool(self.inner and self.inner.has_best_w)

    @property
    def working(self) -> LinearProblem:
        """The problem that the method at work sees."""
        problem: LinearProblem = self.reduction.problem if self.reduction else self.problem
        return problem

    def begin(self, solver: Solver, problem: LinearProblem, alpha: Array | None, reason: str) -> None:
        self._end_inner(alpha)
        self.solver, self.stage = solver, Stage(solver.name, reason)
        self.inner = solver.init(problem, alpha, self.seed)

    def _end_inner(self, alpha: Array | None) -> None:
        """Free the memory of the method at work. Its alpha is the candidate until the next one has begun: Ctrl-C may come
        between."""
        self.steps_before, self.inner, self.handed_over = self.steps, None, alpha

    def candidate(self) -> tuple[Array, Array]:
        if self.inner:
            w, alpha = self.solver.candidate(self.working, self.inner)
        else:
            alpha = np.zeros(self.working.n_samples) if self.handed_over is None else self.handed_over
            w = self.working.weights(alpha)
        if self.primal_point:
            return self.primal_point.candidate(alpha)
        return self.reduction.expand(w, alpha) if self.reduction else (w, alpha)

    def descend(self, budget: Budget) -> None:
        """Dual coordinate descent, sweep by sweep, with an eye on how long it would still take."""
        end = self.steps + budget.steps
        while self.steps < end and not self.looks_done:
            sweeps, self.last_active = self.inner.sweeps, self.inner.active
            self.solver.advance(self.problem, self.inner, Budget(min(end - self.steps, self._to_sweep_end), budget.target))
            if self.inner.sweeps > sweeps:
                self._remember(self.inner.relative_gap)
                if self._has_switched(budget.target):
                    return
            self.looks_done, self.is_stuck = self.inner.looks_done, self.inner.is_stuck

    def _remember(self, relative_gap: float) -> None:
        """A gap that is not below those before shows them to be too low: that of a few samples is not all of it."""
        while self.history and self.history[-1][1] <= relative_gap:
            self.history.pop()
        self.history.append((self.inner.sweeps, relative_gap))

    @property
    def _to_sweep_end(self) -> int:
        """Or beyond, where so few samples are active that looking at each of their sweeps would cost more than they do."""
        return max(1, int(self.inner.steps_to_sweep_end), self.problem.n_samples // 4)

    def _has_switched(self, target: float) -> bool:
        is_done = self.inner.looks_done and not self.inner.is_stuck
        takes_all_back = self.inner.active > self.last_active
        if self.is_last or is_done or takes_all_back or self.inner.sweeps < FIRST_LOOK_SWEEPS:
            return False
        steps_left = math.inf if self.inner.is_stuck else self._steps_left(target)
        sure = SURE_FACTOR if self.inner.sweeps < SURE_SWEEPS else 1.0
        is_long = self.inner.sweeps >= SURE_SWEEPS and steps_left > PATIENCE * self.steps
        if self._is_narrow and steps_left * self.costs.descent_step > sure * self.costs.newton:
            self._switch_to_newton(f"{self._forecast(steps_left)}, and the features are few")
        elif self._suits_products and (is_long or steps_left * self.costs.descent_step > self.costs.newton):
            self._switch_to_newton(f"{self._forecast(steps_left)}, and the loss is smooth")
        elif not self._is_narrow and is_long:
            in_single = target >= SINGLE_TARGET and self._is_in_range
            self._switch_to_avsf(f"{self._forecast(steps_left)}, and the features are many", in_single)
        else:
            return False
        return True

    def _forecast(self, steps_left: float) -> str:
        if math.isinf(steps_left):
            return "the gap of dcd does not fall"
        return f"dcd would need about {steps_left / self.problem.n_samples:.0f} more epochs"

    def _steps_left(self, target: float) -> float:
        """If the gap falls on as it did over the latter half of what is remembered, with as many samples active as now."""
        if len(self.history) < 2 or target <= 0.0:
            return 0.0 if self.history[-1][1] == 0.0 else math.inf
        (first, first_gap), (last, last_gap) = self.history[(len(self.history) - 1) // 2], self.history[-1]
        if last_gap == 0.0:
            return 0.0
        sweeps_left = max(0.0, math.log(last_gap / target)) * (last - first) / math.log(first_gap / last_gap)
        return OPTIMISM * sweeps_left * self.inner.active

    @property
    def reason_for_newton(self) -> str | None:
        """Why to begin with Newton, if there is a reason."""
        if self.is_small:
            return "a small problem is finished to rounding error"
        if not self.problem.penalizes_intercept:
            return "the intercept is not penalised"
        if self._suits_products and self._is_hard_for_coordinates:
            return "the loss is smooth, and there are more samples than features"
        return None if self._has_coordinates else "the loss has no coordinate descent"

    @property
    def _has_coordinates(self) -> bool:
        """Whether the methods that change one alpha_i at a time can be used."""
        return self.problem.penalizes_intercept and self.problem.box.a == 1.0

    @property
    def is_small(self) -> bool:
        d = newton_weights(self.problem)
        return self.problem.n_samples * self.problem.n_weights <= SMALL_ELEMENTS and d <= SMALL_WEIGHTS

    @property
    def _is_narrow(self) -> bool:
        """A Hessian fits beside X, and its factorisation costs less than it saves."""
        d = newton_weights(self.problem)
        return d <= MOST_MATRIX_WEIGHTS and (d <= self.problem.n_samples + 1 or d <= SMALL_WEIGHTS)

    @property
    def _suits_products(self) -> bool:
        """With many features Newton's directions come from conjugate gradients. They are quick where the loss is smooth and
        there are still more samples than features: on one-hot columns at large C a hundred times as quick as coordinates. On
        text with more features than samples coordinates are quicker."""
        has_more_samples = self.problem.n_weights <= self.problem.n_samples
        return not self._is_narrow and has_more_samples and not self.gave_up_products and self._is_smooth

    @property
    def _is_hard_for_coordinates(self) -> bool:
        """Where C |x|^2 is below one, the penalty dominates, and a few sweeps are enough."""
        return float(self.problem.C.max() * np.mean(self.problem.rows.squared_norms())) >= 1.0

    @cached_property
    def _is_smooth(self) -> bool:
        return bool(np.all(self.problem.box.D[self.problem.C > 0.0] > 0.0))

    def _switch_to_newton(self, reason: str) -> None:
        from maxmargin.solvers.newton import Newton

        alpha = self.inner.samples["alpha"].copy()
        if self.problem.rows.is_sparse:
            from maxmargin.reductions import MergedRows

            self.reduction = MergedRows.of(self.problem, MERGE_SAVING)
            alpha = self.reduction.reduce(alpha) if self.reduction else alpha
        self.begin(Newton(), self.working, alpha, reason)

    @property
    def _is_in_range(self) -> bool:
        """Whether float32 holds every value of X to its full precision."""
        values = self.problem.compiled_rows.values.reshape(-1)
        blocks = (np.abs(values[start : start + CACHE_ELEMENTS]) for start in range(0, len(values), CACHE_ELEMENTS))
        low, high = 1.0 / SINGLE_RANGE, SINGLE_RANGE
        return all(np.all((block <= high) & ((block >= low) | (block == 0.0))) for block in blocks)

    def _switch_to_avsf(self, reason: str, in_single: bool) -> None:
        from maxmargin.reductions import RenumberedColumns
        from maxmargin.solvers.avsf import AVSF
        from maxmargin.solvers.primal_point import PrimalSearch

        alpha = self.candidate()[1].copy()
        self._end_inner(alpha)
        self.primal_point = self.reduction = None
        if self.problem.rows.is_sparse:
            self.reduction = RenumberedColumns.of(self.problem, in_single)
        self.is_in_single, self.refusals = in_single and self.problem.rows.is_sparse, 0
        self.primal_point = PrimalSearch(self.working, self.reduction)
        self.begin(AVSF(), self.working, alpha, reason)
        self.next_look = self.steps + LOOK_EPOCHS * self.problem.n_samples

    def refine(self, was_refused: bool) -> None:
        """What float32 cannot do, float64 finishes."""
        self.refusals += was_refused
        if self.is_in_single and (self.refusals >= MOST_REFUSALS or (was_refused and self.inner.is_stuck)):
            self._switch_to_avsf("float32 is not enough", in_single=False)

    def ascend(self, budget: Budget) -> None:
        """AVSF, and now and then a look for a better primal point: its gap, not that of w(alpha), says when to certify."""
        wanted = min(budget.steps, max(1, self.next_look - self.steps))
        self.solver.advance(self.working, self.inner, Budget(wanted, budget.target))
        if self.inner.looks_done or self.steps >= self.next_look:
            primal = self.primal_point.look(*self.solver.candidate(self.working, self.inner))
            gap = primal - float(self.inner.sweep["dual"][0])
            self.is_stuck = self.inner.is_stuck
            self.looks_done = self.is_stuck or gap <= budget.target * primal
            stride = max(LOOK_EPOCHS * self.problem.n_samples, LOOK_GROWTH * self.inner.steps)
            self.next_look = self.steps + int(stride)

    def finish(self, budget: Budget) -> None:
        """Newton; a small problem as far as float64 goes."""
        self.solver.advance(self.working, self.inner, budget)
        self.looks_done, self.is_stuck = self.inner.looks_done, self.inner.is_stuck
        if self._suits_products and self.inner.steps > MOST_PRODUCT_STEPS * self.problem.n_samples and not self.looks_done:
            self._leave_products()
            return
        is_done = np.isfinite(self.inner.gap) and self.inner.gap <= budget.target * abs(self.inner.best_dual)
        if self.is_stuck and self._can_go_back and not is_done:
            self._go_back()

    def _leave_products(self) -> None:
        """Conjugate gradients crawl: the columns are too much alike."""
        self.gave_up_products = True
        self._switch_to_avsf("newton's directions are hard to find", in_single=False)

    @property
    def _can_go_back(self) -> bool:
        return self._has_coordinates and not self.is_last

    def _go_back(self) -> None:
        """Newton is at the end of float64, or its Hessian overflowed: coordinates may still do better, one at a time."""
        alpha = self.candidate()[1].copy()
        with np.errstate(all="ignore"):
            if not self.problem.dual(alpha) >= 0.0:  # zero is better
                alpha[:] = 0.0
        self.reduction, self.looks_done, self.is_stuck, self.is_last = None, False, False, True
        self.begin(DCD(), self.problem, alpha, "newton can go no further")

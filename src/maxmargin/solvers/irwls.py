"""IRWLS-SVC: F. Perez-Cruz, P. L. Alarcon-Diana, A. Navia-Vazquez, A. Artes-Rodriguez, "Fast training of support vector
classifiers", with and without an offset.

The chunking scheme of section 2.1, with e_i = y_i - f_i - b:

    1. choose a working set (``maxmargin.solvers.selection``: three strategies);
    2. G_in and G_b,in are in its gradient v = y - f and in the sum of its s_i = y_i alpha_i, which stays what it is;
    3. solve it by least squares: Table 1 with a diagonal that fades (``irwls_start``) when little is known of it, and then
       active-set Newton to rounding (``irwls_step``);
    4. the errors of all samples: f += sum over those that changed of (change of s_j) K[j, :];
    5. until (9), (10) and (11) hold with eps and the gap meets the target. If they hold and it does not, eps is lowered.

Samples that a rule of shrinking leaves out get no new f until a certificate, which looks at all samples anyway, is refused. A
working set with more iterations than it is allowed is handed over to SMO. That is counted, and the trace says so."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from maxmargin.certificate import relative
from maxmargin.compiled.batched_smo import RUN, extremes, gap_and_dual, solve_with_offset, solve_without_offset
from maxmargin.data import Array
from maxmargin.kernel_problem import KernelProblem
from maxmargin.limits import check_point
from maxmargin.losses import UNIT_ROUNDOFF
from maxmargin.screening import best_offsets, offset_level
from maxmargin.solvers.active_rows import ActiveRows
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.irwls_start import Reweighted
from maxmargin.solvers.irwls_step import Optimum, Outcome, WorkingSet, optimise
from maxmargin.solvers.patience import Patience
from maxmargin.solvers.selection import Errors, RandomViolators, Selection, worst_pair
from maxmargin.solvers.shrinking import ActiveSet, NoShrinking, ShrinkingRule
from maxmargin.threads import single_threaded_blas

FIRST_EPSILON, LOWER_EPSILON = 1e-3, 0.1
"""The paper's eps, and what it is multiplied by when the conditions hold and the gap does not meet the target."""
USUAL_SIZE, GREATEST_SIZE = 500, 4000
"""Of a working set whose size is left to the solver."""
INNER_ITERATIONS = 60
"""Linear systems that a working set may take before it is handed over to SMO."""
COLD_SHARE, LEAST_COLD = 0.05, 8
"""A working set with more violators at a bound than this, as a share and in number, is begun from scratch."""
LOCAL_TOLERANCE = 0.02
"""Of the greatest violation, the violation at which a working set that does not hold all candidates is left."""
STEPS_A_VARIABLE = 50
"""Of SMO, when it takes over."""
STILL_CHUNKS = 5
"""So many working sets in a row that raise nothing are the end, once f is free of old rounding."""
MOST_STALLS = 2
"""And if something still moves, so many times in which the gap did not fall to half."""
MOST_REFUSALS = 4
"""The same for certificates that were refused."""
STEPS_TO_STALL = 10_000_000
"""Steps before the method can be said to have stalled, each variable of a linear system counted as one."""
MOST_RESETS = 3
"""After so many times that the samples left out had to come back, none is left out any more."""


@dataclass(frozen=True)
class IRWLS:
    """``working_set`` is the paper's q (None: as large as is useful; more than there are samples: all of them). The worst pair
    is added where ``selection`` has left it out."""

    working_set: int | None = None
    selection: Selection = field(default_factory=RandomViolators)
    shrinking: ShrinkingRule = field(default_factory=NoShrinking)
    cache_mb: float = 500.0
    max_inner_iterations: int = INNER_ITERATIONS

    def __post_init__(self) -> None:
        if self.working_set is not None and not _is_whole(self.working_set, 2):
            raise ValueError(f"working_set must be a whole number >= 2, or None; got {self.working_set!r}.")
        if isinstance(self.selection, type) or not hasattr(self.selection, "choose"):
            raise TypeError(f"selection must be a strategy such as RandomViolators() or Largest(); got {self.selection!r}.")
        if isinstance(self.shrinking, type) or not hasattr(self.shrinking, "removable"):
            raise TypeError(f"shrinking must be a rule such as FSafe(0.1) or NoShrinking(); got {self.shrinking!r}.")
        if not self.cache_mb >= 0.0:
            raise ValueError(f"cache_mb must be a number of megabytes >= 0; got {self.cache_mb!r}.")
        if not _is_whole(self.max_inner_iterations, 0):
            raise ValueError(f"max_inner_iterations must be a whole number >= 0; got {self.max_inner_iterations!r}.")

    @property
    def name(self) -> str:
        return "irwls"

    def init(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> IRWLSState:
        state = IRWLSState(
            **problem.signed(warm_start)._asdict(),
            f=np.zeros(problem.n_samples),
            rows=ActiveRows(problem, self.cache_mb),
            diagonal=problem.diagonal,
            samples=np.flatnonzero(problem.C > 0.0),
            has_offset=problem.has_offset,
            is_definite=problem.kernel.is_positive_semidefinite,
            random=np.random.default_rng(seed),
        )
        state.refresh()
        state.survey()
        return state

    def advance(self, problem: KernelProblem, state: IRWLSState, budget: Budget) -> None:
        if state.looks_done and not state.is_stuck:
            state.look_closer()
        end = state.steps + budget.steps
        while not state.is_over(budget.target) and state.steps < end:
            check_point()
            self.iterate(state)

    def candidate(self, problem: KernelProblem, state: IRWLSState) -> Array:
        """The present alpha."""
        return np.abs(state.s)

    def take_outputs(self, problem: KernelProblem, state: IRWLSState, outputs: Array) -> None:
        """The f of the present alpha, which a certificate has computed anyway."""
        state.f[:] = outputs
        state.is_exact = True
        state.take_all_back()

    def iterate(self, state: IRWLSState) -> None:
        """Steps 1 to 4."""
        errors = state.errors()
        size = self._size(errors)
        places = np.union1d(self.selection.choose(errors, size, state.random), worst_pair(errors))
        holds_all = len(places) >= np.count_nonzero(errors.candidates)
        chosen = state.samples[places]
        work = state.working_set(chosen)
        with single_threaded_blas():
            s, b = self.solve_working_set(state, work, 0.0 if holds_all else LOCAL_TOLERANCE * state.violation)
        state.b = b if math.isfinite(b) else 0.0
        state.take(chosen, work, s)
        state.survey()
        state.leave_out(self.shrinking)

    def solve_working_set(self, state: IRWLSState, work: WorkingSet, tolerance: float) -> tuple[Array, float]:
        """Step 3: the s and the b of its optimum. The benchmarks put an interior-point method in its place."""
        found = state.least_squares(work, tolerance, self.max_inner_iterations)
        return (found.s, found.b) if found.outcome is not Outcome.LIMIT else state.smo(work, found, tolerance)

    def _size(self, errors: Errors) -> int:
        """Without a size of its own: many when most of them are free, since then few systems are enough."""
        n = len(errors.e)
        if self.working_set is not None:
            return min(self.working_set, n)
        candidates = int(np.count_nonzero(errors.candidates))
        wrong = int(np.count_nonzero(errors.violates & ~errors.is_free))
        return min(max(candidates, USUAL_SIZE), GREATEST_SIZE if wrong <= COLD_SHARE * candidates else USUAL_SIZE, n)


@dataclass
class IRWLSState:
    """s_i = y_i alpha_i in its box, f = K s, and how far from optimal they are."""

    y: Array
    lower: Array
    upper: Array
    s: Array
    f: Array
    rows: ActiveRows
    diagonal: Array
    samples: Array  # those with C_i > 0 that are not left out; the f of the others is as old as that
    has_offset: bool
    is_definite: bool  # if not, relative_gap is LIBSVM's violation
    random: np.random.Generator
    patience: Patience = field(default_factory=lambda: Patience(STEPS_TO_STALL))
    steps: int = 0
    chunks: int = 0
    inner_iterations: int = 0
    factorisations: int = 0
    handovers: int = 0
    b: float = 0.0
    epsilon: float = FIRST_EPSILON
    caution: float = 1.0  # falls with every certificate that was refused
    looks_done: bool = False
    is_stuck: bool = False
    is_exact: bool = True  # f was computed from the present s, and not by adding up changes
    still_chunks: int = 0  # in a row that made nothing better
    top: float = np.inf
    bottom: float = -np.inf
    gap: float = np.inf
    dual: float = 0.0
    relative_gap: float = np.inf
    best_b: float = 0.0  # that which minimises the primal; b is the multiplier of the last working set
    level: float = 0.0  # of the quantile of y - f that best_b is
    removals: int = 0
    resets: int = 0  # times that all came back
    was_narrow: bool = False  # samples were left out until the last refresh
    greatest_dual: float = -np.inf
    least_gap: float = np.inf
    refusals: int = 0  # of certificates, since the gap last fell to half
    least_refused: float = np.inf
    stalls: int = 0  # the same for working sets that raised nothing
    least_stalled: float = np.inf

    @property
    def stage(self) -> Stage:
        if not self.handovers:
            return Stage("irwls")
        return Stage("irwls", f"asked for; SMO solved {self.handovers} of {self.chunks} working sets that took too long")

    @property
    def active(self) -> int:
        return len(self.samples)

    @property
    def present(self) -> int:
        """Samples with C_i > 0."""
        return int(np.count_nonzero(self.lower < self.upper))

    @property
    def kernel_evaluations(self) -> int:
        return self.rows.kernel_evaluations

    @property
    def violation(self) -> float:
        """Twice the least eps with which (9), (10) and (11) can hold."""
        return max(0.0, self.top - self.bottom)

    def errors(self) -> Errors:
        samples = self.samples
        s = self.s[samples]
        e = (self.y - self.f)[samples] - self.b
        epsilon = min(self.epsilon, 0.5 * self.violation)
        return Errors(e, self.y[samples], s < self.upper[samples], s > self.lower[samples], epsilon)

    def is_over(self, target: float) -> bool:
        """Step 5."""
        self.looks_done = self.relative_gap <= target * self.caution
        if not self.looks_done and self.violation < 2.0 * self.epsilon:
            self.epsilon *= LOWER_EPSILON
        if not self.looks_done and self.still_chunks >= STILL_CHUNKS:
            self._look_why_it_stalls()
            self.looks_done = self.relative_gap <= target * self.caution
        return self.looks_done or self.is_stuck

    def _look_why_it_stalls(self) -> None:
        """Nothing rises: with a new f and all samples once more, and if that does not halve the gap it is the end."""
        has_moved = not self.is_exact or self.active < self.present
        self.refresh()
        self.survey()
        self.stalls = 1 if self.relative_gap < 0.5 * self.least_stalled else self.stalls + 1
        self.least_stalled = min(self.least_stalled, self.relative_gap)
        self.is_stuck = not has_moved or self.stalls > MOST_STALLS

    def look_closer(self) -> None:
        """A certificate was refused: f anew, unless the certificate has left its own here, and a target closer by."""
        self.looks_done = False
        self.caution *= 0.5
        self.refresh()
        self.survey()
        if self.was_narrow:
            self.was_narrow = False
            return
        self.refusals = 1 if self.relative_gap < 0.5 * self.least_refused else self.refusals + 1
        self.least_refused = min(self.least_refused, self.relative_gap)
        self.is_stuck = self.refusals > MOST_REFUSALS or self.relative_gap == 0.0

    def refresh(self) -> None:
        """f of all samples from s, free of the rounding of the steps that led here."""
        self.take_all_back()
        if not self.is_exact or (self.s.any() and not self.f.any()):
            support = np.flatnonzero(self.s)
            self.f[:] = 0.0
            self.rows.add_to(self.f, support, self.s[support])
        self.is_exact = True
        self.still_chunks = 0
        self.greatest_dual, self.least_gap = -np.inf, np.inf

    def survey(self) -> None:
        """The violation and the gap at the present f, over the samples that are not left out, and whether the dual rises."""
        here = self.samples
        v, s, lower, upper = (array[here] for array in (self.y - self.f, self.s, self.lower, self.upper))
        self.top, self.bottom = extremes(v, s, lower, upper)
        if not self.has_offset:
            self.top, self.bottom = max(self.top, 0.0), min(self.bottom, 0.0)
        self.level = offset_level(self.y[here], np.abs(s), upper - lower)
        self.best_b = best_offsets(v, upper - lower, self.level).middle if self.has_offset else 0.0
        self.gap, dual = gap_and_dual(v, self.y[here], s, lower, upper, self.best_b)
        if len(here) == self.present:
            self.dual = dual
        self.relative_gap = relative(self.gap, self.dual + self.gap, self.dual) if self.is_definite else self.violation
        self.is_stuck |= self.patience.note(self.steps, self.dual, self.dual + self.gap)
        is_better = self.dual > self.greatest_dual or self.gap < 0.99 * self.least_gap  # near the top the dual is flat
        self.still_chunks = 0 if is_better else self.still_chunks + 1
        self.greatest_dual, self.least_gap = max(self.dual, self.greatest_dual), min(self.gap, self.least_gap)

    def leave_out(self, rule: ShrinkingRule) -> None:
        """Samples that a rule takes to be at their bounds for good. They come back when a certificate is refused."""
        if self.resets >= MOST_RESETS:
            return
        here = self.samples
        y, s = self.y[here], self.s[here]
        C, alpha = (self.upper - self.lower)[here], np.abs(s)
        noise = UNIT_ROUNDOFF * (len(y) + 8.0) * (1.0 + float(np.abs(self.s).sum()) * float(np.abs(self.diagonal).max()))
        imbalance = abs(float(self.s.sum())) + UNIT_ROUNDOFF * len(y) * float(alpha.sum()) if self.has_offset else 0.0
        kinks = (self.y - self.f)[here]
        known = y, C, alpha, kinks, self.diagonal[here], self.has_offset, self.level, imbalance, self.best_b, self.gap, noise
        removable = rule.removable(ActiveSet(*known))
        if removable.any() and not removable.all():
            self.removals += int(np.count_nonzero(removable))
            self.samples = here[~removable]
            self.rows.narrow_to(self.samples)

    def take_all_back(self) -> None:
        everyone = np.flatnonzero(self.lower < self.upper)
        if len(self.samples) < len(everyone):
            self.was_narrow = True
            self.resets += 1
        self.samples = everyone
        self.rows.widen()

    def working_set(self, chosen: Array) -> WorkingSet:
        """Step 2, and the kernel block by one matrix product."""
        return WorkingSet(
            self.rows.block(chosen),
            self.s[chosen],
            (self.y - self.f)[chosen],
            self.lower[chosen],
            self.upper[chosen],
            self.has_offset,
        )

    def take(self, chosen: Array, work: WorkingSet, s: Array) -> None:
        """Step 4."""
        change = s - work.s
        changed = change != 0.0
        self.dual += float(work.v @ change) - 0.5 * float(change @ (work.K @ change))
        self.s[chosen] = s
        self.rows.add_to(self.f, chosen[changed], change[changed])
        self.chunks += 1
        self.steps += len(chosen)
        self.is_exact = self.is_exact and not changed.any()

    def least_squares(self, work: WorkingSet, tolerance: float, max_iterations: int) -> Optimum:
        is_wrong = self._are_wrong(work)
        if np.count_nonzero(is_wrong) > max(LEAST_COLD, COLD_SHARE * len(is_wrong)):
            work = self._table_1(work, is_wrong, tolerance)
        found = optimise(work, tolerance, max_iterations)
        self._count(len(work.s), found.iterations, found.factorisations)
        return found

    def _are_wrong(self, work: WorkingSet) -> Array:
        """Those at a bound whose error has the wrong sign."""
        e = work.v - self.b
        wrong: Array = ((work.s <= work.lower) & (e > self.epsilon)) | ((work.s >= work.upper) & (e < -self.epsilon))
        return wrong

    def _table_1(self, work: WorkingSet, is_wrong: Array, tolerance: float) -> WorkingSet:
        """From S1 = the free variables and those that are wrong: at the very beginning, all."""
        side = np.where(is_wrong, 0, np.where(work.s <= work.lower, -1, np.where(work.s >= work.upper, 1, 0)))
        total = math.fsum(work.s) if self.has_offset else None
        widths = float(np.abs(work.v - self.b)[is_wrong].max()), tolerance
        table_1 = Reweighted(work.K, work.v + work.K @ work.s, work.lower, work.upper, total, side, widths)
        with np.errstate(all="ignore"):
            table_1.run()
        self._count(len(work.s), table_1.iterations, table_1.factor.factorisations)
        return _better(work, table_1) if table_1.has_settled else work

    def _count(self, size: int, iterations: int, factorisations: int) -> None:
        self.steps += size * iterations
        self.inner_iterations += iterations
        self.factorisations += factorisations

    def smo(self, work: WorkingSet, found: Optimum, tolerance: float) -> tuple[Array, float]:
        """From where least squares got to: pairs of variables, whose number of steps is bounded too."""
        self.handovers += 1
        size = len(work.s)
        padded = -(-size // int(RUN)) * int(RUN)
        K = np.zeros((padded, padded))
        K[:size, :size] = work.K
        v, s, lower, upper = (np.zeros(padded) for _ in range(4))
        v[:size], s[:size], lower[:size], upper[:size] = found.v, found.s, work.lower, work.upper
        solve = solve_with_offset if work.has_offset else solve_without_offset
        steps = solve(K, np.diagonal(K).copy(), v, s, lower, upper, tolerance, STEPS_A_VARIABLE * size)
        self.steps += int(steps)
        top, bottom = extremes(v[:size], s[:size], work.lower, work.upper)
        return s[:size], 0.5 * (top + bottom) if work.has_offset else 0.0


def _better(work: WorkingSet, table_1: Reweighted) -> WorkingSet:
    """The working set moved to where Table 1 led, if the dual is greater there."""
    s = np.clip(table_1.s, work.lower, work.upper)
    change = s - work.s
    change_of_v = work.K @ change
    rises = float(work.v @ change) - 0.5 * float(change @ change_of_v) > 0.0
    return work._replace(s=s, v=work.v - change_of_v) if rises else work


def _is_whole(value: object, at_least: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= at_least)

"""What solves a working set of IRWLS: the engines, as types.

``Table1`` is the algorithm of F. Perez-Cruz et al. as it is printed (``maxmargin.solvers.kernel.irwls.table_1``).
``ActiveSetNewton``, the default, is derived from it: the systems have no weights, and a projection and a line search take
their place (``maxmargin.solvers.kernel.irwls.active_set_newton``), so that it always ends. SMO solves the working sets that an
engine fails to solve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.kernel.batched_smo_loops import RUN, LocalProblem, extremes, solve_with_offset, solve_without_offset
from maxmargin.solvers.kernel.irwls.active_set_newton import Outcome, WorkingSet, optimise
from maxmargin.solvers.kernel.irwls.active_set_newton_loop import OPTIMAL, BlockMemory, Effort, LocalBlock, climb
from maxmargin.solvers.kernel.irwls.start import Fading, FadingTask


@dataclass(frozen=True)
class EnginePolicy:
    """The numbers that tune the engines."""

    cold_share: float = 0.05
    """A working set is started from scratch if at least this share of its samples are violators at a bound."""
    least_cold: int = 8
    """The number of violators at a bound up to which no working set is begun from scratch."""
    small_set: int = 128
    """Samples of a working set up to which the compiled loop is tried first. A system takes it n^3 / 6 multiplications at about
    two a nanosecond. LAPACK makes about seven, but a system takes a quarter of a millisecond in Python: they meet above 128."""
    jitter: float = 8.0
    """Added to the diagonal of a system, in units in the last place of the greatest element of K and for each sample: LU solves
    a system that is perturbed by about as much."""
    most_failures: int = 2
    """Times in a row that the compiled loop makes S1 anew without a move that gains, before it hands the working set over."""
    steps_a_variable: int = 50
    """Steps of SMO for each variable of a working set that is handed over to it."""


class SetTask(NamedTuple):
    """A working set to solve: until no condition is violated by more than ``tolerance``. ``b`` is the offset with which its
    samples were chosen, ``epsilon`` the eps of (9) to (11) at present, ``max_iterations`` the systems it may take."""

    work: WorkingSet
    b: float
    epsilon: float
    tolerance: float
    max_iterations: int


class SolvedSet(NamedTuple):
    """The s and the b of a working set, and the work it took: linear systems, factorisations, and steps, where each variable
    of a system counts as one. ``is_unsettled``: Table 1 did not settle. ``was_handed_over``: SMO had to solve it."""

    s: Array
    b: float
    iterations: int
    factorisations: int
    steps: int
    is_unsettled: bool = False
    was_handed_over: bool = False


class Engine(Protocol):
    @property
    def name(self) -> str:
        """What the trace calls it."""

    def solve(self, task: SetTask) -> SolvedSet: ...


@dataclass(frozen=True)
class ActiveSetNewton:
    """Linear systems in the free variables, moves that never leave the box and always raise the dual. Where little is known of
    a working set, it begins with ``start``. Where the limit on systems is reached, SMO takes over."""

    pairs_a_sample: float = 1.0
    """Pairs of variables that are moved before the systems of a working set of at most ``small_set`` samples, for each sample.
    A pair of forty takes 0.1 us and a system 4 us. Counted to a gap of 1e-3 at the paper's q, without and with pairs: 2,518 and
    515 systems on Gauss-M (C = 1), 292 and 52 on 2,477 rows of w7a (C = 5)."""
    policy: EnginePolicy = EnginePolicy()

    def __post_init__(self) -> None:
        if not 0.0 <= self.pairs_a_sample < math.inf:
            raise ValueError(f"pairs_a_sample must be a number >= 0; got {self.pairs_a_sample!r}.")

    @property
    def name(self) -> str:
        return "active-set Newton"

    def pairs(self, size: int) -> int:
        """The number of pairs that are moved before the first system of a working set of this size."""
        return round(self.pairs_a_sample * size)

    def solve(self, task: SetTask) -> SolvedSet:
        size = len(task.work.s)
        at_once = _by_compiled_loop(task, self.pairs(size)) if size <= self.policy.small_set else None
        return at_once or self._by_lapack(task)

    def _by_lapack(self, task: SetTask) -> SolvedSet:
        is_wrong = _are_wrong(task)
        least = max(self.policy.least_cold, self.policy.cold_share * len(is_wrong))
        begun = _begun(task, is_wrong) if np.count_nonzero(is_wrong) > least else None
        work = begun.work if begun else task.work
        found = optimise(work, task.tolerance, task.max_iterations)
        iterations = found.iterations + (begun.iterations if begun else 0)
        factorisations = found.factorisations + (begun.factorisations if begun else 0)
        counts = iterations, factorisations, len(work.s) * iterations
        if found.outcome is not Outcome.LIMIT:
            return SolvedSet(found.s, found.b, *counts)
        return by_smo(work._replace(s=found.s, v=found.v), task.tolerance, SolvedSet(found.s, found.b, *counts))


def jitter_of(diagonal: Array, size: int) -> float:
    """What is added to the diagonal of a system of this size, so that it can be factored."""
    return EnginePolicy.jitter * UNIT_ROUNDOFF * size * float(np.abs(diagonal).max(initial=0.0))


def _by_compiled_loop(task: SetTask, pairs: int) -> SolvedSet | None:
    """Solve by the compiled loop; None where the loop is not at the optimum after its limit of iterations: then it starts over
    with more care."""
    work = task.work
    size, s, v = len(work.s), work.s.copy(), work.v.copy()
    K = np.ascontiguousarray(work.K, np.float64)
    block = LocalBlock(K, work.lower, work.upper, bool(work.has_offset), BlockMemory.of(size))
    jitter = jitter_of(np.diagonal(K), size)
    effort = Effort(float(task.tolerance), int(task.max_iterations), jitter, pairs, True, EnginePolicy.most_failures)
    outcome, iterations, b = climb(block, s, v, float(task.b), effort)
    if outcome != OPTIMAL or not np.isfinite(v).all():
        return None
    return SolvedSet(s, float(b), int(iterations), int(iterations), size * int(iterations))


def by_smo(work: WorkingSet, tolerance: float, so_far: SolvedSet) -> SolvedSet:
    """Pairs of variables, whose number of steps is bounded too, from where ``work`` stands."""
    size = len(work.s)
    padded = -(-size // int(RUN)) * int(RUN)
    K = np.zeros((padded, padded))
    K[:size, :size] = work.K
    v, s, lower, upper = (np.zeros(padded) for _ in range(4))
    v[:size], s[:size], lower[:size], upper[:size] = work.v, work.s, work.lower, work.upper
    solve = solve_with_offset if work.has_offset else solve_without_offset
    local = LocalProblem(K, np.diagonal(K).copy(), v, s, lower, upper)
    steps = solve(local, local.masks, tolerance, EnginePolicy.steps_a_variable * size)
    top, bottom = extremes(v[:size], s[:size], work.lower, work.upper, 0.0)
    b = 0.5 * (top + bottom) if work.has_offset else 0.0
    return so_far._replace(s=s[:size], b=b, steps=so_far.steps + int(steps), was_handed_over=True)


def _are_wrong(task: SetTask) -> Array:
    """The variables at a bound whose error has the wrong sign."""
    work, e = task.work, task.work.v - task.b
    wrong: Array = ((work.s <= work.lower) & (e > task.epsilon)) | ((work.s >= work.upper) & (e < -task.epsilon))
    return wrong


class _Begun(NamedTuple):
    work: WorkingSet
    iterations: int
    factorisations: int


def _begun(task: SetTask, is_wrong: Array) -> _Begun:
    """Start with S1 = the free variables and the variables that violate their condition. At the very beginning that is all."""
    work = task.work
    side = np.where(is_wrong, 0, np.where(work.s <= work.lower, -1, np.where(work.s >= work.upper, 1, 0)))
    total = math.fsum(work.s) if work.has_offset else None
    widths = float(np.abs(work.v - task.b)[is_wrong].max()), task.tolerance
    fading = Fading(FadingTask(work.K, work.v + work.K @ work.s, work.lower, work.upper, total), side, widths)
    with np.errstate(all="ignore"):
        fading.run()
    return _Begun(_better(work, fading) if fading.has_settled else work, fading.iterations, fading.factor.factorisations)


def _better(work: WorkingSet, fading: Fading) -> WorkingSet:
    """The working set moved to where the start led, if the dual is greater there."""
    s = np.clip(fading.s, work.lower, work.upper)
    change = s - work.s
    change_of_v = work.K @ change
    rises = float(work.v @ change) - 0.5 * float(change @ change_of_v) > 0.0
    return work._replace(s=s, v=work.v - change_of_v) if rises else work

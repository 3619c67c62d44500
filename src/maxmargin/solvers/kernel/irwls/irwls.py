"""IRWLS-SVC: F. Perez-Cruz, P. L. Alarcon-Diana, A. Navia-Vazquez, A. Artes-Rodriguez, "Fast training of support vector
classifiers", with and without an offset.

The chunking scheme of section 2.1, with e_i = y_i - f_i - b:

    1. choose a working set (``maxmargin.solvers.kernel.irwls.selection``: three strategies);
    2. G_in and G_b,in are in its gradient v = y - f and in the sum of its s_i = y_i alpha_i, which stays what it is;
    3. solve it by an engine: active-set Newton, or the paper's Table 1 (``maxmargin.solvers.kernel.irwls.engines``);
    4. the errors of all samples: f += sum over those that changed of (change of s_j) K[j, :];
    5. until (9), (10) and (11) hold with eps: at once with ``stop="paper"``, else when the gap meets the target too. If they
       hold and it does not, eps is lowered.

``IRWLS.as_printed(q)`` has the paper's values for everything.

Samples that a rule of shrinking leaves out get no new f until a certificate, which looks at all samples anyway, is refused.
What an engine does not solve SMO does. That is counted, and the trace says so."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.random_loops import first_word
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.kernel_matrix.matrix import KernelMatrix, matrix_of
from maxmargin.kernel_matrix.rows import MEGABYTE
from maxmargin.problem.kernel import KernelProblem
from maxmargin.screening.shrinking import NoShrinking, ShrinkingRule
from maxmargin.solvers.base import Budget, KernelSolver, StoppingRule, check_stop, refuse_regression
from maxmargin.solvers.kernel.active_rows import ActiveRows, HoldingPolicy
from maxmargin.solvers.kernel.irwls.chunk_loops import ChunkPlan
from maxmargin.solvers.kernel.irwls.engines import ActiveSetNewton, Engine, EnginePolicy, SetTask, jitter_of
from maxmargin.solvers.kernel.irwls.selection import Errors, RandomViolators, Selection, worst_pair
from maxmargin.solvers.kernel.irwls.state import IRWLSPolicy, IRWLSState
from maxmargin.solvers.kernel.irwls.table_1 import Table1


@dataclass(frozen=True)
class IRWLS(KernelSolver):
    """The chunking scheme of IRWLS-SVC.

    Parameters
    ----------
    working_set : int or None
        The paper's q. None: as large as is useful. More than there are samples: all of them.
    selection : Selection
        Which samples the next working set holds: ``RandomViolators()``, ``Largest()``, ``Smallest()``.
    shrinking : ShrinkingRule
        Which samples are left out on the way.
    cache_mb : float
        Megabytes for kernel rows.
    max_inner_iterations : int
        Linear systems that a working set may take before SMO solves it.
    engine : Engine
        What solves a working set: ``ActiveSetNewton()``, or ``Table1()`` as it is printed.
    epsilon : float
        The eps of the stopping conditions (9) to (11).
    stop : "gap" or "paper"
        What ends a solve: a certificate within ``tol``, or (9) to (11).
    adds_worst_pair : bool
        Add the worst pair where ``selection`` has left it out, so that every working set raises the dual. False: working sets
        hold exactly q samples.
    local_tolerance : float
        The share of the greatest violation at which a working set that does not hold all candidates is left;
        ``policy.held_tolerance`` times as much where the kernel matrix is held. 0: each is solved to the end.
    policy : IRWLSPolicy
        The numbers that tune the solver.
    """

    working_set: int | None = None
    selection: Selection = field(default_factory=RandomViolators)
    shrinking: ShrinkingRule = field(default_factory=NoShrinking)
    cache_mb: float = 500.0
    max_inner_iterations: int = 60
    engine: Engine = field(default_factory=ActiveSetNewton)
    epsilon: float = 1e-3
    stop: StoppingRule = "gap"
    adds_worst_pair: bool = True
    local_tolerance: float = 0.02
    policy: IRWLSPolicy = field(default_factory=IRWLSPolicy)

    @classmethod
    def as_printed(cls, working_set: int, selection: Selection | None = None, epsilon: float = 1e-3) -> IRWLS:
        """The paper's algorithm: Table 1, working sets of exactly q solved to the end, and the end by (9) to (11)."""
        return cls(
            working_set,
            selection or RandomViolators(),
            engine=Table1(),
            epsilon=epsilon,
            stop="paper",
            adds_worst_pair=False,
            local_tolerance=0.0,
        )

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
        if isinstance(self.engine, type) or not hasattr(self.engine, "solve"):
            raise TypeError(f"engine must be an engine such as Table1() or ActiveSetNewton(); got {self.engine!r}.")
        if not 0.0 < self.epsilon < math.inf:
            raise ValueError(f"epsilon must be a positive number; got {self.epsilon!r}.")
        check_stop(self.stop)
        if not 0.0 <= self.local_tolerance < 1.0:
            raise ValueError(f"local_tolerance must be a number from 0 to below 1; got {self.local_tolerance!r}.")

    @property
    def name(self) -> str:
        return "irwls"

    @property
    def budget_mb(self) -> float:
        return self.cache_mb

    def within(self, budget_mb: float) -> IRWLS:
        return replace(self, cache_mb=budget_mb)

    def init(self, problem: KernelProblem, warm_start: Array | None, seed: int) -> IRWLSState:
        refuse_regression(problem, self.name)
        state = IRWLSState(
            **problem.signed(warm_start)._asdict(),
            f=np.zeros(problem.n_samples),
            rows=self._rows(problem),
            diagonal=problem.diagonal,
            samples=np.flatnonzero(problem.C > 0.0),
            has_offset=problem.has_offset,
            is_definite=problem.kernel.is_positive_semidefinite,
            random=np.random.default_rng(seed),
            word=first_word(seed),
            policy=self.policy,
            epsilon=self.epsilon,
        )
        state.held = self._held_matrix(problem, state)
        state.refresh()
        if state.held is None:  # the compiled loop surveys by itself
            state.survey()
        return state

    def _rows(self, problem: KernelProblem) -> ActiveRows:
        """Kernel rows: from the matrix that the problem holds where its samples are few, if it fits in the budget; else
        computed and kept."""
        held = problem.held
        if held is None or held.nbytes > self.cache_mb * MEGABYTE:
            return ActiveRows(matrix_of(problem, np.float64, self.cache_mb))
        return ActiveRows(KernelMatrix.of_values(problem.kernel, problem.points, held.padded, 0))

    def _held_matrix(self, problem: KernelProblem, state: IRWLSState) -> Array | None:
        """The kernel matrix, where chunks are made by the compiled loop."""
        n = problem.n_samples
        is_small = self._small_size <= EnginePolicy.small_set and n <= HoldingPolicy.few_samples
        is_ours = isinstance(self.engine, ActiveSetNewton) and hasattr(self.selection, "strategy")
        is_whole = state.active == n and (isinstance(self.shrinking, NoShrinking) or self.working_set is None)
        if not (is_small and is_ours and is_whole) or n * n * np.dtype(np.float64).itemsize > self.cache_mb * MEGABYTE:
            return None
        K = state.rows.whole
        if K is None:
            rows = KernelMatrix(problem.kernel, problem.points, np.float64)
            K = rows.square(np.arange(n))
            state.evaluations_held = rows.kernel_evaluations
        decisive = state.diagonal if state.is_definite else K  # no value of a positive semidefinite kernel is greater
        return K if np.isfinite(decisive).all() else None

    @property
    def _small_size(self) -> int:
        """The size of the working sets that the compiled loop makes."""
        return self.policy.start_size if self.working_set is None else self.working_set

    def advance(self, problem: KernelProblem, state: IRWLSState, budget: Budget) -> None:
        if state.looks_done and not state.is_stuck:
            state.look_closer()
        end = state.steps + budget.steps
        while not self._is_over(state, budget.target) and state.steps < end:
            check_point()
            if state.held is None or self._run_chunks(state, budget.target):
                self.iterate(state)

    def _run_chunks(self, state: IRWLSState, target: float) -> bool:
        """Many chunks by the compiled loop. True if the next working set is not for it: it left one unsolved, or it was only to
        begin."""
        assert isinstance(self.engine, ActiveSetNewton)
        plan = ChunkPlan(
            size=min(self._small_size, state.active),
            strategy=self.selection.strategy,  # type: ignore[attr-defined]
            adds_worst_pair=bool(self.adds_worst_pair),
            local_tolerance=min(self.policy.held_tolerance * float(self.local_tolerance), 1.0),
            max_iterations=int(self.max_inner_iterations),
            jitter=jitter_of(state.diagonal, self._small_size + 2),
            pairs=self.policy.held_pairs * self.engine.pairs(self._small_size),
            most_failures=EnginePolicy.most_failures,
            has_offset=state.has_offset,
            epsilon=float(state.epsilon),
            target=float(target * state.caution) if self.stop == "gap" and state.is_definite else 0.0,
            max_steps=self.policy.most_steps,
        )
        is_unsolved = state.run_chunks(plan)
        if self.working_set is None:
            state.held = None
        return is_unsolved or (self.working_set is None and not self._is_over(state, target))

    def _is_over(self, state: IRWLSState, target: float) -> bool:
        """Step 5."""
        return state.is_over_by_rule() if self.stop == "paper" else state.is_over(target)

    def candidate(self, problem: KernelProblem, state: IRWLSState) -> Array:
        """The present alpha."""
        return state.alpha

    def take_outputs(self, problem: KernelProblem, state: IRWLSState, outputs: Array) -> None:
        """The f of the present alpha, which a certificate has computed anyway."""
        state.take_outputs(outputs)

    def iterate(self, state: IRWLSState) -> None:
        """Steps 1 to 4."""
        errors = state.errors(min(state.epsilon, 0.5 * state.violation))
        places = self.selection.choose(errors, self._size(errors), state.random)
        if self.adds_worst_pair:
            places = np.union1d(places, worst_pair(errors))
        holds_all = len(places) >= np.count_nonzero(errors.candidates)
        chosen = state.samples[places]
        work = state.working_set(chosen)
        tolerance = 0.0 if holds_all else self.local_tolerance * state.violation
        with single_threaded_blas():
            solved = self.engine.solve(SetTask(work, state.b, state.epsilon, tolerance, self.max_inner_iterations))
        state.b = solved.b if math.isfinite(solved.b) else 0.0
        state.count(solved)
        state.take(chosen, work, solved.s)
        state.survey()
        state.leave_out(self.shrinking)

    def _size(self, errors: Errors) -> int:
        """The size of the next working set. Where the settings leave it open, it is larger when most samples are free: few
        systems are enough then."""
        n = len(errors.e)
        if self.working_set is not None:
            return min(self.working_set, n)
        candidates = int(np.count_nonzero(errors.candidates))
        wrong = int(np.count_nonzero(errors.violates & ~errors.is_free))
        usual, is_warm = self.policy.usual_size, wrong <= EnginePolicy.cold_share * candidates
        return min(max(candidates, usual), self.policy.greatest_size if is_warm else usual, n)


def _is_whole(value: object, at_least: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= at_least)

"""All pairs of few classes, one after the other, with little Python around each.

A pair of 140 samples takes 0.1 ms of compiled code. As a problem of its own, with a matrix of its own, a verdict and a bound on
its offset, it took 0.3 ms. Here the kernel matrix of all samples is made once, the parts of a pair are copied from it, and what
is elementwise in the certificates is done for all pairs together (``maxmargin.certificate.even``). Solver and judge are the
compiled loops that a single problem uses, so a first fit compiles nothing more. (One loop for all pairs, that of
``maxmargin.solving.pair_batch``, is faster still, but takes seconds to compile.)"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.even import EvenSums
from maxmargin.certificate.kernel import even_errors
from maxmargin.data.limits import OutOfTimeError, Stop, check_point
from maxmargin.data.rows import Array
from maxmargin.problem.class_pairs import number_of_pairs
from maxmargin.problem.class_rows import whole_matrix
from maxmargin.problem.held_values import NO_FUNCTION, ClassValues, HeldValues, RowFunction, padded_size
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.policy import HELD
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.held_smo import HeldState
from maxmargin.solvers.kernel.held_smo_policy import HeldSMOPolicy
from maxmargin.solving.pair_batch import ROWS, STEPS, BatchGoal, solutions_of, table_of
from maxmargin.solving.policy import DEFAULT, RUN
from maxmargin.solving.solution import Solution

ProblemOf = Callable[[int, int], KernelProblem]
STEPS_A_CHUNK = int(DEFAULT.chunk_elements / DEFAULT.kernel_step_elements)
"""Steps between two moments at which a limit is heard."""


class PairMemory(NamedTuple):
    """Memory for the pairs with so many samples of either class: their kernel matrix, the vectors of the solver, and how these
    begin, which differs from pair to pair in the diagonal of the matrix only."""

    held: HeldValues
    begin: Array
    vectors: Array

    @classmethod
    def of(cls, middle: int, n: int, C: float, function: RowFunction) -> PairMemory:
        """``function`` says for which kernels the loop of SMO is compiled: the one that a single pair would use."""
        padded = padded_size(n)
        begin = np.zeros((6, padded))
        y, lower, upper, _, v, _ = begin
        y[:middle], y[middle:n], upper[:middle], lower[middle:n] = 1.0, -1.0, C, -C
        v[:] = y
        held = HeldValues.whole(np.zeros((padded, padded)), n, 0.0, 0)
        held.rows = held.rows._replace(function=function)
        return cls(held, begin, np.empty_like(begin))

    def take(self, matrix: Array, diagonal: Array, one: slice, other: slice) -> None:
        """Begin a pair whose samples are those of the matrix at these places."""
        middle, n, values = one.stop - one.start, self.held.n, self.held.rows.values
        values[:middle, :middle], values[:middle, middle:n] = matrix[one, one], matrix[one, other]
        values[middle:n, :middle], values[middle:n, middle:n] = matrix[other, one], matrix[other, other]
        self.vectors[:] = self.begin
        self.vectors[5, :middle], self.vectors[5, middle:n] = diagonal[one], diagonal[other]


class PairSums(NamedTuple):
    """The part of a pair in the arrays of an :class:`maxmargin.certificate.even.EvenSums`."""

    samples: Array
    numbers: Array

    def judge(self, held: HeldValues, C: float, errors: tuple[float, float], tol: float) -> bool:
        """Add up what the certificate of alpha needs. Whether it can meet ``tol``: if not, nothing is written."""
        from maxmargin.problem.kernel_loops import ALPHA, ERRORS, LENGTHS, OUTPUTS, SIGNS, even_sums

        alpha, signs, memory = self.samples[ALPHA], self.samples[SIGNS], np.empty((4, held.n))
        known = self.samples[LENGTHS], *errors
        *numbers, sums = even_sums(held.rows.values, held.rows.is_there, alpha, signs, C, known, memory)
        loss, gap, rounding, sqnorm = sums[:4]
        is_enough: bool = numbers[0] > 0 and gap + rounding <= tol * (0.5 * sqnorm + loss)
        if is_enough:
            self.numbers[:] = *numbers, *sums
            self.samples[OUTPUTS], self.samples[ERRORS] = memory[0], memory[2]
        return is_enough


@dataclass(frozen=True, eq=False)
class PairRun:
    """The pairs of classes of a fit by a kernel that is positive semidefinite, and what solves them. ``lengths`` and
    ``diagonal`` are those of all samples, class by class. ``is_uniform``: all lengths are one."""

    values: ClassValues
    lengths: Array
    diagonal: Array
    share: float
    C: float
    policy: HeldSMOPolicy
    is_uniform: bool
    problem_of: ProblemOf

    @classmethod
    def of(cls, values: ClassValues, kernel: Kernel, C: float, policy: HeldSMOPolicy, problem_of: ProblemOf) -> PairRun | None:
        """Prepare all pairs. None where X is sparse, the kernel is not positive semidefinite, or the matrix of all samples
        takes longer than is saved. ``problem_of`` makes the problem of two classes."""
        bounds, n, n_classes = values.bounds, len(values.codes), len(values.classes)
        if bounds is None or values.function is None or not (kernel.is_positive_semidefinite and C > 0.0):
            return None
        if kernel.is_gaussian and n_classes <= HELD.few_classes:  # rows on demand need no values within classes
            return None
        matrix_ns = n * n * (RUN.ns_a_value + RUN.ns_a_feature * values.points.matrix.shape[1])
        if n > HELD.most_samples or matrix_ns > RUN.saved_ns_a_pair * number_of_pairs(n_classes):
            return None
        lengths, diagonal = (np.concatenate(each) for each in zip(*((b.lengths, b.diagonal) for b in bounds), strict=True))
        return cls(values, lengths, diagonal, bounds[0].share, C, policy, kernel.is_gaussian, problem_of)

    def solved(self, goal: BatchGoal, stop: Stop) -> list[Solution | None]:
        """The solutions of all pairs in their order. None where a pair is not certified, or no time is left. After a pair that
        was not certified, the limit on the steps of the next ones is half of what it was: another method is waiting, which may
        take as long as the limit allows, and the pairs of a table are alike."""
        from maxmargin.problem.kernel_loops import LENGTHS, SIGNS

        edges = np.cumsum([0, *(len(points) for points in self.values.classes)])
        table, n_samples = table_of(np.diff(edges), goal)
        found, seconds, matrix = EvenSums.empty(n_samples, self.share), np.zeros(len(table)), whole_matrix(self.values)
        parts = [slice(*ends) for ends in pairwise(edges.tolist())]
        failures, memory_of = 0, cache(lambda middle, n: PairMemory.of(middle, n, self.C, self.values.function or NO_FUNCTION))
        for k, (first, second, place, most_steps, *_) in enumerate(table.tolist()):
            if stop.is_due:
                break
            begun, one, other, n = time.perf_counter(), parts[first], parts[second], int(n_samples[k])
            memory, middle = memory_of(one.stop - one.start, n), one.stop - one.start
            memory.take(matrix, self.diagonal, one, other)
            sums = PairSums(found.samples[:, place : place + n], found.numbers[k])
            sums.samples[SIGNS] = memory.begin[0, :n]
            sums.samples[LENGTHS, :middle], sums.samples[LENGTHS, middle:] = self.lengths[one], self.lengths[other]
            state = HeldState.begun(partial(self.problem_of, first, second), memory.held, memory.vectors, self.policy)
            try:
                self._solve(state, sums, most_steps >> failures, goal.tol)
            except OutOfTimeError:
                break
            failures += not sums.numbers.any()
            table[k, STEPS], table[k, ROWS] = state.steps, n // 2
            seconds[k] = time.perf_counter() - begun
        return solutions_of(goal, found, table, seconds, self.is_uniform)

    def _solve(self, state: HeldState, sums: PairSums, most_steps: int, tol: float) -> None:
        """Advance until the certificate meets ``tol``, the solver gives up, or the steps are made. Where the certificate of an
        answer at rounding is refused, more steps would change nothing."""
        from maxmargin.problem.kernel_loops import ALPHA

        n, errors = state.n, even_errors(self.share, state.n)
        while state.steps < most_steps and not state.has_given_up:
            check_point()
            state.advance(Budget(min(STEPS_A_CHUNK, most_steps - state.steps), tol))
            if state.looks_done:
                np.abs(state.s[:n], out=sums.samples[ALPHA])
                if sums.judge(state.held, self.C, errors, tol) or (state.is_at_rounding and state.relative_gap <= tol):
                    break

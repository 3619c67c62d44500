"""Pairs of classes: which samples each has, and the problems that they make.

The order is that of LIBSVM: (0, 1), (0, 2), ..., and the first class of a pair is its positive one. Nothing here depends on how
many threads solve the problems, so that the answers do not either.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from maxmargin.certificate.hard_margin import InseparableError
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, ChosenRows, Rows
from maxmargin.data.threads import available_cores
from maxmargin.estimators import policy
from maxmargin.kernel_matrix.shared import PairValues, SharedValues
from maxmargin.problem.class_pairs import class_pairs, number_of_pairs
from maxmargin.problem.dual_box import repeated
from maxmargin.problem.held_values import ClassValues
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import KernelSolver
from maxmargin.solvers.kernel.auto import KernelAuto
from maxmargin.solving.driver import Limits
from maxmargin.solving.pair_batch import BatchGoal, PairBatch
from maxmargin.solving.pair_run import PairRun
from maxmargin.solving.solution import Solution
from maxmargin.solving.unsolved import unsolved_pair


@dataclass(frozen=True, eq=False)
class Pair:
    """The samples of two classes; the first is the positive one, and its samples come first, unless there is no third class:
    then the samples are those of X as they are, and X need not be copied."""

    first: int
    second: int
    samples: Array
    signs: Array

    @classmethod
    def all_of(cls, codes: Array) -> list[Pair]:
        """The pairs of all classes 0, 1, ..., which are the codes of the samples."""
        members = [np.flatnonzero(codes == k) for k in range(int(codes.max()) + 1)]
        return [cls._of(first, second, members, codes) for first, second in class_pairs(len(members))]

    @classmethod
    def of(cls, first: int, second: int, codes: Array) -> Pair:
        return cls._of(first, second, {k: np.flatnonzero(codes == k) for k in (first, second)}, codes)

    @classmethod
    def _of(cls, first: int, second: int, members: Any, codes: Array) -> Pair:
        samples = np.concatenate([members[first], members[second]])
        if len(samples) == len(codes):
            return cls(first, second, np.arange(len(codes)), np.where(codes == first, np.int8(1), np.int8(-1)))
        signs = np.ones(len(samples), np.int8)
        signs[len(members[first]) :] = -1
        return cls(first, second, samples, signs)

    def put(self, alpha: Array, signed: Array) -> None:
        """Put its signed coefficients where ``dual_coef_`` of scikit-learn has them: those of the first class in the row before
        that of the second class, and those of the second class in the row of the first."""
        if signed.shape[0] == 1:
            signed[0] = self.signs * alpha
            return
        middle = int(self.signs.argmin())  # the samples of the first class come first
        signed[self.second - 1, self.samples[:middle]] = alpha[:middle]
        signed[self.first, self.samples[middle:]] = -alpha[middle:]

    def rows(self, X: Any) -> Any:
        """The rows of X of this pair."""
        return X if len(self.samples) == X.shape[0] else X[self.samples]

    def late_rows(self, X: Any) -> Rows:
        """The rows of X of this pair, copied when they are asked for: where kernel values are held, that is hardly ever."""
        return Rows(self.rows(X)) if sparse.issparse(X) else ChosenRows(X, self.samples)

    def part(self, X: Any, kernel: Kernel) -> Any:
        """The rows of X of this pair; of kernel values the columns, too."""
        rows = self.rows(X)
        is_part = kernel.is_given and rows is not X
        return rows[:, self.samples] if is_part else rows


class PairProblems(Protocol):
    """The problems of all pairs, and what solves them."""

    @property
    def solver(self) -> Any: ...

    def limits(self, limits: Limits) -> Limits:
        """The limits for the solver."""

    def solved_at_once(self, limits: Limits, stop: Stop) -> list[Solution | None] | None:
        """The solutions of all pairs, None where a pair is not solved. None altogether where the pairs are solved one by
        one."""

    @property
    def most_threads(self) -> int:
        """The greatest useful number of threads. More of them would only wait for each other."""

    def problem(self, pair: Pair) -> Any: ...

    def unsolved(self, pair: Pair, stop: Stop) -> Solution | None:
        """The answer for a pair for which no time is left; None where its problem is needed for that."""

    def finished(self, problem: Any, solution: Solution, limits: Limits) -> Solution:
        """The solution of the kernel's problem from that of the problem that was solved."""


@dataclass(frozen=True, eq=False)
class KernelProblems:
    """The problems as they are, some of which share their kernel values."""

    X: Any
    kernel: Kernel
    costs: Array
    has_offset: bool
    solver: KernelSolver
    shared: SharedValues | ClassValues | None

    @classmethod
    def of(
        cls, X: Any, kernel: Kernel, costs: Array, has_offset: bool, solver: KernelSolver, codes: Array, n_threads: int
    ) -> KernelProblems:
        """Divide the solver's budget for kernel values: all pairs share one part, and the rest is divided among ``n_threads``
        threads."""
        budget_mb = solver.budget_mb
        if budget_mb is None:
            return cls(X, kernel, costs, has_offset, solver, None)
        shared: SharedValues | ClassValues | None = None
        if solver.holds_values:
            shared = ClassValues.where_it_pays(X, kernel, codes, budget_mb, n_threads)
        if shared is None and solver.shares_values:
            shared = SharedValues.where_it_pays(kernel, X, codes, budget_mb, n_threads)
        left_mb = budget_mb - (shared.megabytes if shared else 0.0)
        return cls(X, kernel, costs, has_offset, solver.within(left_mb / n_threads), shared)

    def limits(self, limits: Limits) -> Limits:
        return limits

    def batch(self, is_trial: bool) -> PairBatch | PairRun | None:
        """All pairs for few compiled calls, or for few lines of Python each. None where they differ in their costs, have no
        offset, or are too large."""
        is_even = self.has_offset and self.costs.strides == (0,)
        if not is_even or not isinstance(self.shared, ClassValues) or not isinstance(self.solver, KernelAuto):
            return None
        own = self.solver.policy
        known, codes = (self.shared, self.kernel, float(self.costs[0]), own.trial if is_trial else own.held), self.shared.codes
        return PairBatch.of(*known) or PairRun.of(*known, lambda one, other: self.problem(Pair.of(one, other, codes)))

    def solved_at_once(self, limits: Limits, stop: Stop) -> list[Solution | None] | None:
        """The solutions of all pairs that are found in few compiled calls; None where there is no such way."""
        batch = self.batch(is_trial=False)
        return None if batch is None else batch.solved(BatchGoal(limits.tol, lambda n: sys.maxsize), stop)

    @property
    def most_threads(self) -> int:
        is_short = isinstance(self.shared, ClassValues) and self.shared.largest <= policy.JOBS.short_pair
        return 1 if is_short else available_cores()

    def problem(self, pair: Pair) -> KernelProblem:
        costs = self._costs_of(pair)
        if isinstance(self.shared, ClassValues):
            matrix = partial(self.shared.pair, pair.first, pair.second)
            return KernelProblem(pair.late_rows(self.X), pair.signs, costs, self.kernel, self.has_offset, matrix=matrix)
        rows = pair.part(self.X, self.kernel)
        problem = KernelProblem.build(rows, pair.signs, costs, self.kernel, self.has_offset, check=False)
        if self.shared is not None and self.shared.sizes.may_share(pair.first, pair.second):
            return replace(problem, fast_values=PairValues(problem.points, self.shared, pair.first, pair.second))
        return problem

    def unsolved(self, pair: Pair, stop: Stop) -> Solution | None:
        is_definite = self.kernel.is_positive_semidefinite
        return unsolved_pair(self._costs_of(pair), self.solver, stop) if is_definite else None

    def _costs_of(self, pair: Pair) -> Array:
        """One C for all stays one number that is read many times."""
        if self.costs.strides == (0,):
            return repeated(self.costs[0], len(pair.samples))
        return self.costs[pair.samples]

    def finished(self, problem: KernelProblem | LinearProblem, solution: Solution, limits: Limits) -> Solution:
        return solution


@contextmanager
def ray_of_all_samples(pair: Pair, n_samples: int) -> Iterator[None]:
    """Give the proof that a pair of classes cannot be separated in the numbers of all samples."""
    try:
        yield
    except InseparableError as error:
        ray = np.zeros(n_samples)
        ray[pair.samples] = error.ray
        raise InseparableError(str(error), ray, error.margin) from None


def most_threads(n_pairs: int) -> int:
    """Return the greatest number of threads that is ever used. The budget for kernel values is divided by this number, not by
    the number of threads at work, because the rounding of a solver depends on its budget."""
    return min(available_cores(), n_pairs)


def pair_weights(dual_coef: Array, n_support: Array) -> Array:
    """The coefficients of all support vectors in each pair of classes, a column a pair."""
    n_classes = len(n_support)
    ends = np.cumsum(n_support)
    parts = [slice(end - count, end) for end, count in zip(ends, n_support, strict=True)]
    weights = np.zeros((dual_coef.shape[1], number_of_pairs(n_classes)))
    for k, (i, j) in enumerate(class_pairs(n_classes)):
        weights[parts[i], k] = dual_coef[j - 1, parts[i]]
        weights[parts[j], k] = dual_coef[i, parts[j]]
    return weights

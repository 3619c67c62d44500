"""A problem with nu as a quadratic program with a factor of its kernel matrix: what the interior-point method takes.

The factor is the matrix of the features, where the kernel has a short map, or else the pivoted Cholesky factor
(``maxmargin.solvers.kernel.factored``). Where there are two groups, the signed sum of all variables is zero, and the features
are centred: that changes nothing, and takes away what hides small differences. Groups that are full are constants."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.certificate.precise_sums import precise_sums
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.interior_point import solve_inside, zero_points
from maxmargin.solvers.interior_program import Program
from maxmargin.solvers.kernel.factored import factor, factor_of_falls


@dataclass(frozen=True)
class InteriorCosts:
    """When the interior-point method is worth it, in estimated nanoseconds of counted work."""

    most_columns: int = 4096
    """The most columns of a factor of the kernel matrix."""
    fewest_columns: int = 8
    """The fewest columns for which a factor is looked for."""
    most_elements: int = 20_000_000
    """The most numbers in a factor: 160 megabytes."""
    usual_steps: int = 40
    """Steps that the method is taken to need."""
    ns_a_step: float = 300_000.0
    """Nanoseconds of a step, besides what grows with the samples. Measured roughly on two tables of 300 rows."""
    ns_a_variable: float = 100.0
    """Nanoseconds of a step for each variable. An estimate, not measured."""
    ns_a_flop: float = 0.1
    """Nanoseconds of a multiplication in a product of two matrices. An estimate, not measured."""
    near_zero_ns: float = 1e10
    """Nanoseconds that the method may take where SMO comes near to w = 0 ever more slowly, however little SMO has taken."""
    ns_a_step_and_sample: float = 1.0
    """Nanoseconds of a step of SMO for each sample of its working set, as in ``KernelAutoPolicy``. An estimate."""
    share: float = 0.1
    """The relative gap that is aimed at, as a share of the one that is wanted."""
    zero_share: float = 1e-9
    """Share of the greatest |w|^2 / 2 below which a point with w = 0 is looked for, after a refusal. An estimate, not
    measured."""
    corrections: int = 3
    """How often the program is solved again with what its factor has lost of the gradient. The factor is right to 1e-14, which
    alpha of all samples together makes 1e-11 of the gap: too much where w = 0 is nearly optimal."""
    most_corrected: int = 4096
    """The most samples with which that is done: a second of precise sums. An estimate."""
    points_at_once: int = 2
    """Points that a certificate is asked for before the first correction: the one with the least gap, and the one with the
    least value, which counts where w = 0 is optimal."""
    most_points: int = 4
    """The most points that a certificate is asked for where all of these were refused."""

    def columns_worth(self, n: int, nanoseconds: float) -> int:
        """How many columns a factor may have, for n variables, if the method is to take no longer than this. A step takes n k^2
        multiplications with k columns, or n^3 / 3 if that is less."""
        left = (nanoseconds / self.usual_steps - self.ns_a_step) / n - self.ns_a_variable
        if left <= 0.0:
            return 0
        columns = math.sqrt(left / self.ns_a_flop)
        return n if 3.0 * columns * columns >= n * n else int(columns)


class Inside:
    """Decides when the interior-point method takes over from SMO. How many columns the factor of the kernel matrix has is not
    known before. Whenever SMO has taken long enough for twice as many columns as the last time, or for all, a factor with so
    many is looked for, which takes a small part of that time."""

    def __init__(self, problem: NuProblem, costs: InteriorCosts, working_set: int) -> None:
        self.problem, self.costs, self.working_set = problem, costs, working_set
        self.tried = 0
        self.factor: Array | None = None

    @cached_property
    def is_possible(self) -> bool:
        is_open = any(not self.problem.is_full(g) for g in range(len(self.problem.totals)))
        return self.problem.kernel.is_positive_semidefinite and is_open

    def pays(self, smo_steps: int) -> bool:
        """Whether SMO has taken as long already as this method would."""
        n = self.problem.n_samples
        columns = self.costs.columns_worth(n, self.costs.ns_a_step_and_sample * smo_steps * min(n, self.working_set))
        if columns < min(n, max(self.costs.fewest_columns, 2 * self.tried)) or not self.is_possible:
            return False
        self._look(columns)
        return self.factor is not None

    def pays_near_zero(self) -> bool:
        """Whether this method is worth it where SMO comes near to w = 0."""
        self._look(self.costs.columns_worth(self.problem.n_samples, self.costs.near_zero_ns))
        return self.factor is not None

    def points(self, target: float) -> Iterator[tuple[Array, int]]:
        """As ``interior_points``. None where the kernel matrix has no factor of few columns."""
        self._look(self.costs.most_columns)
        if self.factor is not None:
            yield from interior_points(self.problem, target, self.costs, self.factor)

    def _look(self, most_columns: int) -> None:
        """Look for a factor, unless there is one, or one of so many columns was looked for before."""
        most = min(most_columns, self.costs.most_columns, self.problem.samples.n_samples)
        if self.is_possible and self.factor is None and most > self.tried:
            self.tried = most
            with single_threaded_blas():
                self.factor = _factor_of(self.problem, replace(self.costs, most_columns=most))


def interior_points(problem: NuProblem, target: float, costs: InteriorCosts, F: Array) -> Iterator[tuple[Array, int]]:
    """Feasible points of the problem that may be optimal, the most promising first, each with the steps that led there from the
    one before. F is a factor of the kernel matrix. The program is corrected, and solved again, only after a certificate has
    refused its points: that takes as long as the first solution."""
    is_open = np.array([not problem.is_full(g) for g in range(len(problem.totals))])
    with single_threaded_blas():
        program, free = _program(problem, F, is_open)
        points, steps = _points(problem, program, free, costs.share * target)
    order = _promising(program, [alpha[free] for alpha in points], target)
    seen = order[: costs.points_at_once]
    for k in seen:
        yield points[k], steps
        steps = 0
    rest = [points[k] for k in order if k not in seen]
    if _is_nearly_zero(problem, program, [alpha[free] for alpha in points], costs.zero_share):
        yield from _at_zero(problem, program, free)
    for _ in range(costs.corrections if problem.samples.n_samples <= costs.most_corrected else 0):
        with single_threaded_blas():
            shift = _lost(problem, program, free, points[0])
            if shift is None:
                break
            program = program._replace(shift=shift)
            if program.gap(points[0][free]) <= target * program.value(points[0][free]):
                break
            points, steps = _points(problem, program, free, costs.share * target)
        order = _promising(program, [alpha[free] for alpha in points], target)
        yield points[order[0]], steps
        rest = [points[k] for k in order[1:]] + rest
    yield from ((alpha, 0) for alpha in rest[: costs.most_points])


def _is_nearly_zero(problem: NuProblem, program: Program, points: list[Array], share: float) -> bool:
    """Whether w = 0 may be optimal: all targets are equal, and |w|^2 / 2 of some point is this small a share of what it can
    be."""
    greatest = 0.5 * float(program.totals.max()) ** 2 * float(np.square(program.M).sum(axis=1).max())
    return float(np.ptp(problem.targets)) == 0.0 and min(map(program.value, points)) <= share * greatest


def _at_zero(problem: NuProblem, program: Program, free: Array) -> Iterator[tuple[Array, int]]:
    """Feasible points at which w is zero in every feature, whatever its scale, if there are any."""
    found = zero_points(program)
    while True:
        with single_threaded_blas():  # for the next point alone, and not for its certificate
            x = next(found, None)
        if x is None:
            return
        yield _feasible(problem, free, x), 0


def _promising(program: Program, points: list[Array], target: float) -> list[int]:
    """The order of the points: those whose gap is small enough, the first of all points before the others; then the one with
    the least value, which counts where w = 0 is optimal; then by their gaps."""
    gaps, values = [program.gap(x) for x in points], [program.value(x) for x in points]
    order = sorted(range(len(points)), key=lambda k: (gaps[k] > target * values[k], gaps[k] if k else 0.0))
    lowest = int(np.argmin(values))
    return [order[0], *dict.fromkeys([lowest, *order[1:]])] if lowest != order[0] else order


def _points(problem: NuProblem, program: Program, free: Array, target: float) -> tuple[list[Array], int]:
    """Feasible points from the interior-point method, and its steps."""
    found, steps = solve_inside(program, target)
    return [_feasible(problem, free, x) for x, _ in found], steps


def _feasible(problem: NuProblem, free: Array, x: Array) -> Array:
    """alpha with x at the variables of the program, and the others at their bounds."""
    alpha = problem.C.copy()
    alpha[free] = x
    return problem.nearest_feasible(alpha)


def _lost(problem: NuProblem, program: Program, free: Array, alpha: Array) -> Array | None:
    """What the factor has lost of the gradient at alpha: that of the kernel in twice the precision, less that of the factor.
    None where there are no such sums. A number that is the same for a whole group means nothing, and is left out."""
    coefficients, n = problem.coefficients(alpha), problem.samples.n_samples
    support = np.flatnonzero(coefficients)
    sums = precise_sums(problem.kernel, problem.points, support, coefficients[support], np.arange(n))
    if sums is None:
        return None
    own = program._replace(shift=0.0).gradient(alpha[free]) + program.q
    lost = np.asarray((problem.signs * problem.of_variables(sums.outputs))[free] - own)
    return lost - program.groups @ (program.groups.T @ lost / program.groups.sum(axis=0))


def _factor_of(problem: NuProblem, costs: InteriorCosts) -> Array | None:
    samples, is_centred = problem.samples, len(problem.totals) == 2
    found = feature_map(problem.kernel, problem.rows.n_features, is_centred)
    if found is not None and found.n_features <= costs.most_columns:
        matrix: Any = problem.points.matrix
        features = np.asarray(found.of(matrix.toarray() if sparse.issparse(matrix) else matrix), dtype=np.float64)
        F: Array | None = features if features.size <= costs.most_elements else None
    else:
        most = min(costs.most_columns, costs.most_elements // samples.n_samples)
        kernel: Any = problem.kernel
        if is_centred and kernel.is_gaussian:
            F = factor_of_falls(float(kernel.gamma), problem.points, most)
        else:
            rows = KernelMatrix(kernel, problem.points, np.float64)
            F = factor(replace(samples, has_offset=is_centred), rows, most)
    if F is None or not np.isfinite(F).all():
        return None
    return F - F.mean(axis=0) if is_centred else F


def _program(problem: NuProblem, F: Array, is_open: Array) -> tuple[Program, Array]:
    """The program of the groups that are not full, and their variables."""
    M = problem.signs[:, None] * np.tile(F, (problem.n_copies, 1))
    free = np.flatnonzero(is_open[problem.group])
    full = np.flatnonzero(~is_open[problem.group])
    targets = problem.targets - (np.median(problem.targets) if len(problem.totals) == 2 else 0.0)
    groups = (problem.group[free][:, None] == np.flatnonzero(is_open)).astype(np.float64)
    w0 = M[full].T @ problem.C[full]
    return Program(M[free], w0, (problem.signs * targets)[free], problem.C[free], groups, problem.totals[is_open]), free

r"""A fold of a race with a kernel machine: a piecewise linear loss, with a free offset or none.

**Lengths.** A free offset takes up any constant, so that phi(x) may be counted from any point. Here that is the mean of the
training samples: lengths are the distances from it, which are short where the kernel is wide.

**The offset.** b* is a weighted quantile of the kinks sigma_i - f_i, or y_i - f_i plus and minus epsilon in regression, and
quantiles rise with every kink (:mod:`maxmargin.problem.offset`). The kinks minus b move along lines between two fits, so that
the lesser and the greater of their ends, with the radius of the ball, bound b* at every C in between. Where several offsets are
optimal, the middle one is meant, as in SVC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.certificate.kernel import outputs_of
from maxmargin.certificate.kernel_sums import KernelSums, kernel_sums
from maxmargin.certificate.rounding import OUTWARDS, gamma
from maxmargin.data.rows import Array
from maxmargin.model_selection.race_fold import RaceFold
from maxmargin.model_selection.range_errors import Residuals
from maxmargin.model_selection.range_scores import Counts
from maxmargin.model_selection.rulers import Products
from maxmargin.model_selection.transfer import Fit, kernel_fit, scaled_costs, with_costs
from maxmargin.model_selection.whole_fits import solve_whole
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Points
from maxmargin.problem.offset import middle_offsets


@dataclass(eq=False)
class KernelProducts:
    """Products of phi(x), in float64 and from the data."""

    problem: KernelProblem
    tests: Points

    def among(self, chosen: Array) -> Array:
        held = self.problem.held
        if held is not None:
            return np.asarray(held.with_rows(chosen)[np.ix_(chosen, chosen)])
        return np.asarray(self.problem.gram(chosen, chosen))

    def across(self, tests: Array, chosen: Array) -> Array:
        return np.asarray(self.problem.kernel.block(self.tests[tests], self.problem.points[chosen]))

    def squares(self, tests: Array) -> Array:
        return np.asarray(self.problem.kernel.diagonal(self.tests[tests]))

    @property
    def n_dimensions(self) -> float:
        return math.inf

    @property
    def error(self) -> float:
        problem, greatest = self.problem, float(np.max(self.problem.diagonal))
        held = problem.held.error if problem.held is not None else 0.0
        return max(held, problem.kernel.rounding_error(problem.points, self.tests)) / max(greatest, 1e-300)


@dataclass(eq=False)
class KernelFold(RaceFold):
    """``tests`` are the validation samples, ``row_lengths`` the lengths of the training samples."""

    tests: Any = None
    row_lengths: Any = None

    def train(self, C: float, tol: float, solver: Any) -> None:
        assert isinstance(self.problem, KernelProblem)
        problem = with_costs(self.problem, scaled_costs(self.problem.C, C))
        solution = solve_whole(problem, solver, tol, self._start(C))
        fit = kernel_fit(problem, solution.alpha, solution.b, C)
        self.fits[C], self.scores[C] = fit, self._scores_of(fit)

    def in_order(self, knots: list[float]) -> list[float]:
        """The values of C from the middle upwards, then downwards: at a small C nearly all samples are near the margin. A fit
        that begins at zero takes a hundred times as long as one that begins at the alpha of a larger C (1.5 s for 3,200 rows of
        ijcnn1)."""
        middle = len(knots) // 2
        return knots[middle:] + knots[:middle][::-1]

    def _start(self, C: float) -> Array | None:
        """The mixture of the neighbours, or the nearest fit, scaled to C."""
        if C in self.fits:
            return self.fits[C].alpha
        below = max((each for each in self.fits if each < C), default=None)
        above = min((each for each in self.fits if each > C), default=None)
        if below is not None and above is not None:
            theta = (C - below) / (above - below)
            return (1.0 - theta) * self.fits[below].alpha + theta * self.fits[above].alpha
        near = below if below is not None else above
        return None if near is None else self.fits[near].alpha * (C / near)

    def _scores_of(self, fit: Fit) -> tuple[Array, Array]:
        """The outputs with the offset, times y where there are two classes, and how wrong they can be."""
        values, errors = _sums_at(fit.problem, fit.alpha, self.tests)
        outputs = values + fit.b
        away = fit.v.error + 16.0 * UNIT_ROUNDOFF * fit.v.greatest_norm
        errors = errors + away * self.lengths + 4.0 * UNIT_ROUNDOFF * (np.abs(values) + abs(fit.b))
        return self.counts.signs * outputs, errors * OUTWARDS

    @property
    def products(self) -> Products:
        assert isinstance(self.problem, KernelProblem)
        return KernelProducts(self.problem, self.tests)

    def offset_reach(self, one: Fit, two: Fit, radius: float) -> float:
        problem = self.problem
        assert isinstance(problem, KernelProblem)
        if not problem.has_offset:
            return 0.0
        first, last = (problem.kinks(problem.signs * fit.outputs) for fit in (one, two))
        reach = radius * self.row_lengths + np.maximum(one.output_errors, two.output_errors) + one.v.error + two.v.error
        reach = np.tile(reach * OUTWARDS, len(first.offsets) // len(reach))  # several kinks a sample
        kinks, size = (first.offsets, last.offsets), float(np.max(np.abs(problem.targets)))
        reach = reach + 8.0 * UNIT_ROUNDOFF * (size + np.maximum(*(np.abs(each) for each in kinks)))
        offsets = middle_offsets(np.minimum(*kinks) - reach, np.maximum(*kinks) + reach, first.rises, first.level)
        return max(offsets.high, -offsets.low, 0.0) * OUTWARDS


def _sums_at(problem: Any, alpha: Array, tests: Points) -> KernelSums:
    support = np.flatnonzero(alpha)
    return kernel_sums(problem.kernel, problem.points, support, (alpha * problem.signs)[support], tests)


def kernel_fold(problem: KernelProblem, X_test: Any, counts: Counts | Residuals) -> KernelFold:
    """``problem`` is that of C = 1."""
    if not problem.kernel.is_positive_semidefinite or problem.kernel.is_given:
        raise ValueError("A proof over a range needs a positive semidefinite kernel that is computed from X.")
    tests = Points.of(X_test)
    rows, others = _lengths(problem, tests)
    problem.held  # noqa: B018  (made once for all fits)
    return KernelFold(problem, counts, others, tests=tests, row_lengths=rows)


def _lengths(problem: KernelProblem, tests: Points) -> tuple[Array, Array]:
    """The lengths of the training and of the validation samples: from their mean, if the offset is free."""
    kernel, points = problem.kernel, problem.points
    squares = problem.diagonal, kernel.diagonal(tests)
    errors = kernel.rounding_error(points, points), kernel.rounding_error(points, tests)
    if not problem.has_offset:
        return _roots(squares[0], errors[0]), _roots(squares[1], errors[1])
    everyone, mean = np.arange(problem.n_samples), np.full(problem.n_samples, 1.0 / problem.n_samples)
    sums = outputs_of(problem, mean * problem.signs, everyone), kernel_sums(kernel, points, everyone, mean, tests)
    centre, rounding = _mean_of(sums[0])
    one, two = (
        _roots(own - 2.0 * each.outputs + centre, error + 2.0 * np.max(each.errors) + rounding)
        for own, error, each in zip(squares, errors, sums, strict=True)
    )
    return one, two


def _mean_of(sums: KernelSums) -> tuple[float, float]:
    """The mean of all kernel values, and how wrong it and its sum with others can be."""
    sizes = float(np.max(np.abs(sums.outputs), initial=0.0))
    return float(np.mean(sums.outputs)), float(np.max(sums.errors)) + gamma(len(sums.outputs) + 16.0) * sizes


def _roots(squares: Array, error: float) -> Array:
    return np.asarray(np.sqrt(np.maximum(squares, 0.0) + error + 8.0 * UNIT_ROUNDOFF * np.abs(squares)) * OUTWARDS)

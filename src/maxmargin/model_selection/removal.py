r"""Support vectors of a kernel machine with hinge loss, left out one by one, from one matrix of kernel values.

When sample i is left out, its s_i is distributed among the samples with the greatest slopes. Then SMO makes some steps on the
support vectors and the samples near the margin. The result is a feasible point of the problem without i. Its gap T, over all
samples, bounds the distance of its w from the optimal one by :math:`\sqrt T`, and with it the margin of i
(:mod:`maxmargin.model_selection.transfer`). The steps end when the sign of that margin is proved.

**A sample on the wrong side stays there.** Let w, b be optimal with all samples, and w', b' without i. Both are optimal for
their problems, so that :math:`\ell(m_i) \le \ell(m_i')`: if :math:`m_i < 1`, the margin of i without i is at most :math:`m_i`.

Separate loops (``removal_loops``) compute what a point proves, from the outputs of the fit, which the certificate has computed,
and from rows of kernel values by the definition of the kernel. All bounds include rounding errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.kernel_matrix.matrix import padded
from maxmargin.model_selection.points import Expansion
from maxmargin.model_selection.removal_loops import Judged, add_rows, gap_terms
from maxmargin.model_selection.transfer import Fit
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.offset import Interval, excess_of, offset_interval
from maxmargin.solvers.kernel.batched_smo_loops import LocalProblem, best_offset
from maxmargin.solvers.kernel.irwls.active_set_newton import WorkingSet, optimise
from maxmargin.solvers.kernel.local_solve import solve_local
from maxmargin.solvers.kernel.pass_on_loop import pass_on


@dataclass(frozen=True)
class RemovalPolicy:
    """How much work a sample may take."""

    near: float = 0.5
    """Samples whose margin is below one plus this take part in the steps. The others enter the bounds only."""
    most_megabytes: float = 1000.0
    """The greatest size of the rows of kernel values of the samples that take part."""
    violations: tuple[float, ...] = (0.03, 4e-3, 5e-4, 5e-5, 5e-6, 5e-7)
    """The violations at which SMO pauses for a check, one after the other, until the sign is proved. Differences of margins."""
    most_steps: int = 2000
    """Limit on the steps of SMO between two checks."""
    most_receivers: int = 30
    """The number of samples among which s_i is distributed before SMO begins."""
    turns_before_least_squares: int = 3
    """The number of these pauses before least squares for the samples near the margin precede SMO."""
    near_margin: float = 1e-3
    """Members whose margin is within this of one, or of twice the violation, are near."""
    most_near: int = 1500
    """Near members up to which their least squares are solved."""
    most_systems: int = 60
    """Linear systems of such a solve."""


class Margin(NamedTuple):
    """The least and the greatest that a sample's margin can be when it is left out."""

    low: float
    high: float

    @property
    def is_decided(self) -> bool:
        return self.low > 0.0 or self.high <= 0.0


UNKNOWN = Margin(-math.inf, math.inf)


class Point(NamedTuple):
    """Where SMO stands, at the samples that take part: v = y - f, s, and its box without the sample that is left out."""

    v: Array
    s: Array
    lower: Array
    upper: Array


@dataclass(eq=False)
class Removals:
    """``fit`` is that of a kernel problem with hinge loss; w is w(alpha)."""

    fit: Fit
    policy: RemovalPolicy = field(default_factory=RemovalPolicy)

    def __post_init__(self) -> None:
        problem = self.fit.problem
        assert isinstance(problem, KernelProblem)
        assert isinstance(self.fit.v, Expansion)
        self.problem, self.y = problem, problem.signs
        self.f = self.fit.v.outputs
        self.f_errors = np.array(np.broadcast_to(self.fit.v.output_errors, self.f.shape))
        self.s = self.fit.alpha * self.y
        self.costs = np.ascontiguousarray(problem.C, np.float64)
        self.members = np.flatnonzero((self.s != 0.0) | (self.fit.outputs < 1.0 + self.policy.near))
        self.entry_error = problem.kernel.rounding_error(problem.points, problem.points)
        self.level = float(self.costs[self.y > 0].sum())

    @property
    def is_possible(self) -> bool:
        size = len(self.members) * 8e-6 * (len(self.y) + len(self.members))
        return self.problem.kernel.is_positive_semidefinite and size <= self.policy.most_megabytes

    @cached_property
    def rows(self) -> Array:
        """k(x_i, x_j) for the members i and all j."""
        rows, kernel, points = np.empty((len(self.members), len(self.y))), self.problem.kernel, self.problem.points
        for start in range(0, len(rows), 256):
            check_point()
            chosen = self.members[start : start + 256]
            rows[start : start + 256] = (
                kernel.quick_block(points[chosen], points) if kernel.is_gaussian else self.problem.gram(chosen, slice(None))
            )
        return rows

    @cached_property
    def block(self) -> Array:
        """The columns of the members, with zeros to a multiple of a run of the loops."""
        m = len(self.members)
        block = np.zeros((padded(m), padded(m)))
        block[:m, :m] = self.rows[:, self.members]
        return block

    @cached_property
    def start(self) -> Point:
        m, here = len(self.block), self.members
        bound = self.costs[here] * self.y[here]
        parts = (self.y[here] - self.f[here], self.s[here], np.minimum(bound, 0.0), np.maximum(bound, 0.0))
        return Point(*(_lengthened(part, m) for part in parts))

    @cached_property
    def diagonal(self) -> Array:
        return np.ascontiguousarray(np.diagonal(self.block), np.float64)

    def margin(self, i: int) -> Margin:
        """Of the support vector i, when it is left out."""
        with single_threaded_blas():
            return self._margin(i)

    def _margin(self, i: int) -> Margin:
        if not self._leaves_both_classes(i):
            return UNKNOWN
        place, point = int(np.searchsorted(self.members, i)), Point(*(part.copy() for part in self.start))
        b = self.fit.b if self.problem.has_offset else 0.0
        check_point()
        if self.problem.has_offset:
            if pass_on(self._local(point), place, b, self.policy.most_receivers) != 0.0:
                return UNKNOWN
        else:
            point.v[:] += point.s[place] * self.block[place]
            point.s[place] = point.lower[place] = point.upper[place] = 0.0
        for turn, violation in enumerate(self.policy.violations):
            if turn >= self.policy.turns_before_least_squares:
                self._least_squares(point, b, violation)
            solve_local(self._local(point), violation, self.policy.most_steps, self.problem.has_offset)
            if self.problem.has_offset:
                b = best_offset(point.v, point.lower, point.upper, 0.0)
            found = self._proved(i, point.s, b)
            if found.is_decided:
                return found
        return UNKNOWN

    def _local(self, point: Point) -> LocalProblem:
        return LocalProblem(self.block, self.diagonal, *point)

    def _least_squares(self, point: Point, b: float, violation: float) -> None:
        """The optimum over the free members and those near the margin, while the others stay."""
        v, s, lower, upper = point
        is_near = ((s > lower) & (s < upper)) | (np.abs(v - b) <= max(self.policy.near_margin, 2.0 * violation))
        near = np.flatnonzero(is_near & (upper > lower))
        if not 2 <= len(near) <= self.policy.most_near:
            return
        K = self.block[np.ix_(near, near)]
        work = WorkingSet(K, s[near], v[near], lower[near], upper[near], self.problem.has_offset)
        found = optimise(work, max_iterations=self.policy.most_systems)
        v -= (found.s - s[near]) @ self.block[near]
        s[near] = found.s

    def _leaves_both_classes(self, i: int) -> bool:
        present = (self.costs > 0.0) & (np.arange(len(self.y)) != i)
        return bool((self.y[present] > 0).any() and (self.y[present] < 0).any())

    def _proved(self, i: int, s: Array, b: float) -> Margin:
        """From the ball of the point s of the members, whatever it came from."""
        change = s[: len(self.members)] - self.s[self.members]
        moved = np.flatnonzero(change)
        sizes, lengths = np.abs(change[moved]), self.fit.lengths
        f = self.f.copy()
        add_rows(self.rows, moved, change[moved], f)
        errors = lengths * (gamma(len(moved) + 8.0) * float(sizes @ lengths[self.members[moved]]))
        errors = self.f_errors + errors + self.entry_error * float(sizes.sum())
        of_all = self.s.copy()
        of_all[self.members] = s[: len(self.members)]
        judged = Judged(self.y, self.costs, of_all, f, (errors + 4.0 * UNIT_ROUNDOFF * np.abs(f)) * OUTWARDS, lengths)
        return self._margin_of(i, judged, b)

    def _margin_of(self, i: int, judged: Judged, b: float) -> Margin:
        slack = 8.0 * UNIT_ROUNDOFF * (1.0 + abs(b) + float(np.abs(judged.f).max()))
        terms = gap_terms(judged, b, i, slack) * (1.0 + gamma(len(self.y) + 8.0))
        size = float(np.abs(judged.s).sum())
        share, away = 0.0, 0.0
        if self.problem.has_offset and size > 0.0:
            excess = abs(excess_of(judged.s)) + gamma(PAIRWISE_ROUNDINGS) * UNIT_ROUNDOFF * size
            share = 2.0 * excess / size * OUTWARDS
            away = share * size * float(judged.lengths.max())
            terms += share * size * (1.0 + abs(b) + float(np.abs(judged.f).max()))
        radius = math.sqrt(terms) * OUTWARDS + away
        reach = (radius * float(judged.lengths[i]) + float(judged.errors[i])) * OUTWARDS
        if reach >= abs(float(judged.f[i]) + b):
            return UNKNOWN
        low_b, high_b = self._offsets(judged, radius, i)
        ends = sorted((self.y[i] * (judged.f[i] - reach + low_b), self.y[i] * (judged.f[i] + reach + high_b)))
        return Margin(*(end + sign * 8.0 * UNIT_ROUNDOFF * abs(end) for end, sign in zip(ends, (-1.0, 1.0), strict=True)))

    def _offsets(self, judged: Judged, radius: float, i: int) -> Interval:
        """Every optimal offset without i."""
        if not self.problem.has_offset:
            return Interval(0.0, 0.0)
        others = np.arange(len(self.y)) != i
        kinks, costs = (judged.y - judged.f)[others], self.costs[others]
        farthest = radius * float(judged.lengths.max()) + float(
            judged.errors.max()
        )  # one number for all: one quantile is enough
        reach = farthest * OUTWARDS + 4.0 * UNIT_ROUNDOFF * (1.0 + float(np.abs(kinks).max()))
        level = self.level - (self.costs[i] if self.y[i] > 0 else 0.0)
        return offset_interval(kinks, costs, level, reach, gamma(len(kinks) + 8.0) * self.level)


def _lengthened(values: Array, n: int) -> Array:
    longer = np.zeros(n)
    longer[: len(values)] = values
    return longer


def decided_by_own_margin(fit: Fit) -> Array:
    """The greatest margin that each sample can have when it is left out, by the theorem above; infinite where it says nothing.
    For losses that fall up to the margin one, and stay zero."""
    ball = fit.ball_at(fit.C)
    offsets, centre = fit.offsets_in(ball, fit.C), ball.centre
    assert isinstance(centre, Expansion)
    reach = (ball.radius * fit.lengths + centre.output_errors) * OUTWARDS
    signs = fit.problem.signs
    high = np.where(signs > 0, centre.outputs + reach + offsets.high, -(centre.outputs - reach + offsets.low))
    high = high + 8.0 * UNIT_ROUNDOFF * np.abs(high)
    return np.where(high < 1.0, high, np.inf)

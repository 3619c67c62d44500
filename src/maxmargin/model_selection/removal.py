r"""Support vectors of a kernel machine with hinge loss, left out one by one, from one fit.

**What proves a sign.** Let :math:`P_i` be the primal without sample i, and take any s that is balanced and in the box, but for
:math:`s_i`, which may be anything. Let w = w(s), let b be any offset, and T the sum of the gap terms of all samples but i. If

.. math:: T + s_i (f_i + b) < 0 ,

then every optimum without i has an output of the sign of :math:`-s_i` at sample i. *Proof.* The left side is
:math:`P_i(w, b) - \psi(s)`, where :math:`\psi(s) = \sum_{j \ne i} y_j s_j - \tfrac12 |w(s)|^2` is at most
:math:`P_i(w', b') - s_i (f_i' + b')` for all w' and b'. An optimum with :math:`s_i (f_i' + b') \ge 0` would have
:math:`P_i(w', b') \ge \psi(s) > P_i(w, b)`.

So alpha_i falls until the margin of i is negative, or alpha_i itself: at an optimum of the others, T is zero.

**The walk.** As s_i changes, the optimal s of the others moves on a line until one of them reaches a bound, or one at a bound
reaches the margin. Then the line changes: T. Hastie, S. Rosset, R. Tibshirani and J. Zhu, "The entire regularization path for
the support vector machine", JMLR 2004, and G. Cauwenberghs and T. Poggio, "Incremental and decremental support vector machine
learning", NeurIPS 2000. One factor of the kernel matrix of the free samples serves all walks. A few samples change on each, and
the lines are sums of a few columns: functions that leave the outputs of the free samples as they are.

**A sample on the wrong side stays there.** Let w, b be optimal with all samples, and w', b' without i. Both are optimal for
their problems, so that :math:`\ell(m_i) \le \ell(m_i')`. If :math:`m_i < 1`, the margin of i without i is at most
:math:`m_i`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from maxmargin.certificate.rounding import OUTWARDS, PAIRWISE_ROUNDINGS, gamma
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.model_selection.points import Expansion
from maxmargin.model_selection.removal_judge_loops import OPEN, leave_out_each
from maxmargin.model_selection.removal_loops import (
    AT_LOWER,
    AT_UPPER,
    FREE,
    Columns,
    Start,
    Walk,
    Work,
)
from maxmargin.model_selection.transfer import Fit
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.offset import excess_of


@dataclass(frozen=True)
class RemovalPolicy:
    """How much work a sample may take."""

    most_megabytes: float = 1000.0
    """The greatest size of the columns."""
    most_free: int = 3000
    """The greatest number of free samples, whose matrix is inverted."""
    nears: tuple[float, ...] = (0.5, np.inf)
    """A walk looks at the samples whose residual is at most this; what it leaves open is tried with the next number."""
    first_columns: float = 0.1
    """Samples whose residual is at most this have a column from the beginning. Others get theirs when a walk needs it."""
    most_rounds: int = 8
    """Rounds in which missing columns are added."""
    most_turns: int = 300
    """Segments of a walk."""
    most_changes: int = 120
    """Samples that are in another place than in the fit at one time."""
    overshoot: float = 0.05
    """The share of its C by which alpha_i may become negative."""
    rows_at_once: int = 128
    """Columns that are made at a time, so that their kernel values stay in a cache. An estimate, not measured."""
    spare: float = 0.05
    """Memory for columns that walks may lack, as a share of the number of samples. An estimate, not measured."""
    few_samples: int = 512
    """Every sample has a column from the beginning where there are at most this many: 2 MB."""
    at_bound: float = 1e-9
    """A sample whose alpha is within this share of its C of a bound counts as at the bound."""
    independent: float = 1e-9
    """A free sample takes part in the factor if its pivot is at least this share of the greatest kernel value."""


class Base(NamedTuple):
    """The inverse of the matrix of the free samples, bordered by ones where there is an offset; ``n_free`` of them."""

    inverse: Array
    n_free: int


@dataclass(eq=False)
class Removals:
    """``fit`` is that of a kernel problem with hinge loss; w is w(alpha).

    Samples are in another order here: the free ones first, then all others by their residuals."""

    fit: Fit
    policy: RemovalPolicy = field(default_factory=RemovalPolicy)

    def __post_init__(self) -> None:
        problem, v = self.fit.problem, self.fit.v
        assert isinstance(problem, KernelProblem)
        assert isinstance(v, Expansion)
        self.problem, self.kernel = problem, problem.kernel
        self.b = self.fit.b if problem.has_offset else 0.0
        s, upper, lower = self.fit.alpha * problem.signs, problem.C * (problem.signs > 0), -problem.C * (problem.signs < 0)
        self.s, self.upper, self.lower = s, upper, lower
        self.z = problem.y - (v.outputs + self.b)
        if problem.has_offset and not len(self._inside):  # another optimal offset, at which a sample is at the margin
            self.b += float(self.z[self._nearest])
            self.z = problem.y - (v.outputs + self.b)
        self.errors = np.broadcast_to(v.output_errors, s.shape) + 8.0 * UNIT_ROUNDOFF * (2.0 + np.abs(self.z) + abs(self.b))
        self.entry_error = self.kernel.rounding_error(problem.points, problem.points)
        self.greatest = float(self.fit.lengths.max()) ** 2 * OUTWARDS

    def signs(self, candidates: Array) -> Array:
        """For each of these support vectors 1 if it is proved to be right when it is left out, -1 if it is proved to be wrong,
        and 0 if neither is proved."""
        found = np.zeros(len(candidates), np.int64)
        if not len(candidates) or not self._is_possible(len(candidates)):
            return found
        places = self.ranks[candidates]
        with single_threaded_blas():
            columns = self._columns(np.flatnonzero(self._has_first_column(places)))
            for near in self.policy.nears:
                is_open = (found == OPEN) & self._leaves_both_classes(candidates)
                columns = self._walk(columns, places, near, is_open, found)
        return found

    def _walk(self, columns: Columns, places: Array, near: float, is_open: Array, found: Array) -> Columns:
        """Walk for the open candidates. Those that lack a column are tried again with it."""
        todo = np.flatnonzero(is_open)
        for _ in range(self.policy.most_rounds):
            check_point()
            results = np.zeros((2, len(todo)), np.int64)
            work, settings = self._work(), self._settings(near)
            leave_out_each(columns, self.start, places[todo], work, settings, results)
            found[todo] = results[0]
            missing = np.unique(results[1][results[1] >= 0])
            if not len(missing):
                break
            columns = self._with(columns, missing)
            todo = todo[results[1] >= 0]
        return columns

    def _is_possible(self, n_candidates: int) -> bool:
        n, free = len(self.s), self._inside
        size = 8e-6 * n * (n_candidates + len(free))
        is_small = size <= self.policy.most_megabytes and len(free) <= self.policy.most_free
        return self.kernel.is_positive_semidefinite and is_small

    @cached_property
    def _inside(self) -> Array:
        """Samples between their bounds, not counting what rounding has kept from a bound."""
        room = self.policy.at_bound * (self.upper - self.lower)
        return np.flatnonzero((self.s > self.lower + room) & (self.s < self.upper - room))

    @cached_property
    def _nearest(self) -> int:
        return int(np.argmin(np.abs(self.z)))

    @cached_property
    def free(self) -> Array:
        """Samples strictly between their bounds, whose kernel functions are independent."""
        inside = self._inside
        if not len(inside):
            return np.array([self._nearest] if self.problem.has_offset else [], np.int64)
        least = self.policy.independent * self.greatest
        _, pivots, rank, _ = lapack.dpstrf(self._block(self.problem.points[inside], self.problem.points[inside]), tol=least)
        return np.sort(inside[pivots[:rank] - 1])

    @cached_property
    def order(self) -> Array:
        sizes = np.abs(self.z)
        sizes[self.free] = -1.0
        return np.argsort(sizes, kind="stable")

    @cached_property
    def ranks(self) -> Array:
        """The place of each sample in the order."""
        ranks = np.empty(len(self.order), np.int64)
        ranks[self.order] = np.arange(len(ranks))
        return ranks

    @cached_property
    def points(self):  # type: ignore[no-untyped-def]
        return self.kernel.prepared(self.problem.points)[self.order]

    def _block(self, one, other) -> Array:  # type: ignore[no-untyped-def]
        return self.kernel.quick_block(one, other) if self.kernel.is_gaussian else self.kernel.block(one, other)

    @cached_property
    def start(self) -> Start:
        s, lower, upper = self.s[self.order], self.lower[self.order], self.upper[self.order]
        places = np.where(s - lower < upper - s, AT_LOWER, AT_UPPER)
        places[self.ranks[self._inside]] = FREE
        places[: len(self.free)] = FREE
        idle = np.flatnonzero(places == FREE)[len(self.free) :]
        excess = abs(excess_of(s)) + gamma(PAIRWISE_ROUNDINGS) * UNIT_ROUNDOFF * float(np.abs(s).sum())
        return Start(
            s,
            self.z[self.order],
            self.errors[self.order],
            lower,
            upper,
            places,
            idle,
            self.problem.has_offset,
            excess,
            abs(self.b),
            self.greatest,
        )

    @cached_property
    def base(self) -> Base:
        n, border = len(self.free), int(self.problem.has_offset)
        matrix = np.ones((n + border, n + border))
        matrix[:n, :n] = self._block(self.points[:n], self.points[:n])
        matrix[n:, n:] = 0.0
        return Base(np.linalg.inv(matrix), n)

    @cached_property
    def _free_rows(self) -> Array:
        """The kernel functions of the free samples, and the constant one, at all samples."""
        n = self.base.n_free
        rows = np.ones((len(self.base.inverse), len(self.s)))
        rows[:n] = self._block(self.points[:n], self.points)
        return rows

    def _has_first_column(self, places: Array) -> Array:
        reach = np.inf if len(self.s) <= self.policy.few_samples else self.policy.first_columns
        is_first = np.abs(self.start.z) <= reach
        is_first[places] = True
        is_first[self.start.idle] = True
        is_first[: self.base.n_free] = False
        return np.asarray(is_first)

    def _columns(self, samples: Array) -> Columns:
        """The columns of the free samples and of these."""
        inverse, n = self.base.inverse, self.base.n_free
        n_rows = n + len(samples) + int(self.policy.spare * len(self.s))
        places = np.full(len(self.s), -1)
        places[:n] = np.arange(n)
        memory = np.empty((n_rows, len(self.s)))
        columns = Columns(memory, np.empty((n_rows, n)), np.arange(n_rows), places, np.empty(n_rows), np.empty(n_rows))
        self.n_columns = n
        self._fill(columns, slice(0, n), inverse[:n], None)
        return self._with(columns, samples)

    def _with(self, columns: Columns, samples: Array) -> Columns:
        """More columns, of samples that are not free."""
        first, last = self.n_columns, self.n_columns + len(samples)
        if last > len(columns.samples):
            columns = _lengthened(columns, 2 * last)
        columns.places[samples] = np.arange(first, last)
        columns.samples[first:last] = samples
        for start in range(0, len(samples), self.policy.rows_at_once):
            chosen = samples[start : start + self.policy.rows_at_once]
            own = self._block(self.points[chosen], self.points)
            border = np.ones((len(chosen), len(self.base.inverse) - self.base.n_free))
            weights = -np.hstack([own[:, : self.base.n_free], border]) @ self.base.inverse
            self._fill(columns, slice(first + start, first + start + len(chosen)), weights, own)
        self.n_columns = last
        return columns

    def _fill(self, columns: Columns, rows: slice, weights: Array, own: Array | None) -> None:
        """Set rows to the sums of their own kernel functions and those of the free samples with these weights."""
        n, values = self.base.n_free, columns.values[rows]
        np.matmul(weights, self._free_rows, out=values)
        if own is not None:
            values += own
        sums = (1.0 + np.abs(weights[:, :n]).sum(axis=1)) * OUTWARDS
        sizes = (sums * (1.0 + self.greatest) + np.abs(weights[:, n:]).sum(axis=1)) * OUTWARDS
        columns.weights[rows], columns.sizes[rows] = weights[:, :n], sizes
        columns.errors[rows] = (self.entry_error * sums + gamma(n + 8.0) * sizes) * OUTWARDS

    def _settings(self, near: float) -> Walk:
        n_near = max(self.base.n_free, int(np.count_nonzero(np.abs(self.start.z) <= near)))
        return Walk(n_near, self.policy.most_turns, self.policy.overshoot)

    def _work(self) -> Work:
        n, most = len(self.s), self.policy.most_changes
        longs = [np.empty(n) for _ in range(4)]
        places, chosen = np.empty(n, np.int64), np.empty(most, np.int64)
        return Work(
            longs[0],
            longs[1],
            longs[2],
            np.empty(self.base.n_free),
            longs[3],
            places,
            chosen,
            np.empty(self.n_columns),
            np.empty(most),
            np.empty(most),
            np.empty((most, most)),
        )

    def _leaves_both_classes(self, candidates: Array) -> Array:
        y, present = self.problem.signs, self.problem.C > 0.0
        counts = {sign: int(np.count_nonzero(present & (y == sign))) for sign in (-1.0, 1.0)}
        return np.array([counts[float(sign)] > 1 for sign in y[candidates]], dtype=bool)


def _lengthened(columns: Columns, n_rows: int) -> Columns:
    """The columns with memory for more rows."""
    values, weights, samples, places, errors, sizes = columns
    longer = [
        np.concatenate([part, np.empty((n_rows - len(part), *part.shape[1:]), part.dtype)])
        for part in (values, weights, samples, errors, sizes)
    ]
    return Columns(longer[0], longer[1], longer[2], places, longer[3], longer[4])


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

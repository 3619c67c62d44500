"""The dual point of pair descent: alpha with its w, the working set, and where both begin."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.data.kept import kept
from maxmargin.data.limits import check_point
from maxmargin.data.row_loops import add_rows
from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import Crew
from maxmargin.problem.dual_box import one_or_all, repeated
from maxmargin.solvers.linear.pair_descent_loop import (
    Placed,
    Task,
    WorkingSet,
    descend_pairs,
    find_outputs,
    place_rows,
    raise_least,
)
from maxmargin.solvers.linear.pair_policy import PairPolicy
from maxmargin.solvers.linear.pair_start import keys_at, nearest
from maxmargin.solvers.samples import one_of_each

EVERYWHERE = (-np.inf, np.inf)
"""A band that holds every output."""


class Descended(NamedTuple):
    """What the steps on a working set ended with: rho, the gap of the set, the rows read, and the greatest |x_i|^2."""

    rho: float
    gap: float
    n_read: float
    longest: float


class Sampled(NamedTuple):
    """The w of a problem of some samples, and two outputs around its rho. The samples between them have a given share of the
    weight, half of it on each side of the sum of alpha. In a small sample they are a little farther apart, so that outputs
    which would be equal at the optimum are on one side together: many rows are equal in one-hot columns."""

    w: Array
    band: tuple[float, float]
    slack: float


class PairPoint:
    """alpha in its box with the given sum, and w = w(alpha). The last element of w, that of the offset, is zero."""

    def __init__(self, rows: Rows, upper: Array, total: float, policy: PairPolicy) -> None:
        n = rows.n_samples
        self.rows, self.total, self.policy = rows, total, policy
        self._bounds = one_or_all(upper)
        self.upper = np.array(self._bounds, np.float64)  # one element where all are equal
        self.alpha, self.outputs = np.empty((2, n))  # a large piece of memory comes in large pages
        self.w, self._other = np.zeros(rows.n_features + 1), np.zeros(rows.n_features + 1)
        self.chosen = np.empty(0, np.uint64)
        self.near: Array = np.empty(0)
        self.n_read, self._slack = 0.0, 0.0
        self._sqnorm: float | None = None
        self._compiled = rows.compiled(0.0)
        self._crew = Crew.in_parts(rows.n_stored, rows.n_features)
        self._copy: _Copy | None = None

    @property
    def sqnorm(self) -> float:
        """|w(alpha)|^2. A long w is read once after each change."""
        if self._sqnorm is None:
            self._sqnorm = float(self.w @ self.w)
        return self._sqnorm

    @property
    def size(self) -> int:
        """How many samples are near rho."""
        n = self.rows.n_samples
        return max(self.policy.least_near, int(self._share_near(n // self._every) * n))

    @kept
    def _every(self) -> int:
        """One sample out of so many is solved first."""
        n = self.rows.n_samples
        return max(self.policy.sample_every, math.ceil(n / (self.policy.large_sample * n) ** (2.0 / 3.0)))

    def _share_near(self, n_drawn: int) -> float:
        """The share of all samples that are near the rho of so many samples."""
        return min(self.policy.near_share, self.policy.near_errors / math.sqrt(max(1, n_drawn)))

    def begin(self) -> bool:
        """A first alpha and a first working set, from a sample of the rows or from their mean. Returns whether the working set
        is likely to hold all samples that matter: it comes from a sample, or has all samples."""
        n, policy = self.rows.n_samples, self.policy
        is_sampled = self._is_enough(n // self._every)
        if is_sampled:
            w, band, self._slack = self._sampled()
        else:
            w, band = self._first_mean(policy.mean_every if n > policy.least_near else 1), EVERYWHERE
        below = self._place(w, band)
        self.rows.check_outputs(self.outputs)
        missing, weight = self.total - below, self._weight_of(self._places)
        if not 0.0 <= missing <= weight:
            missing = self.total
            self._place(w, EVERYWHERE)
        self._fill(missing)
        return is_sampled or len(self.chosen) == n

    def _is_enough(self, n_sample: int) -> bool:
        return n_sample >= max(self.policy.least_near, self.policy.sample_a_feature * self.rows.n_features)

    def _sampled(self) -> Sampled:
        """Copy some samples, and solve their problem roughly."""
        chosen = one_of_each(self._every, self.rows.n_samples)
        total = self.total * self._weight_of(chosen) / self._weight
        rows = self.rows.taken(chosen)
        rows.check()
        point = PairPoint(rows, self._upper_of(chosen), total, self.policy)
        found = point._roughly()
        self.n_read += point.n_read
        return found

    def _roughly(self) -> Sampled:
        """Solve the problem of all samples roughly, as one working set."""
        n = self.rows.n_samples
        w = self._sampled().w if self._is_enough(n // self._every) else self._mean(self.policy.mean_every)
        self._place_everywhere(w)
        self._raise(self.total)
        task = self._task(self.policy.sample_gap, self.policy.sample_spread)
        found = self._descend(self, self.chosen, task)
        self.n_read += found.n_read
        half = 0.5 * self._share_near(n) * self._weight
        low, high = keys_at(self.near, self._bounds, [self.total - half, self.total + half])
        slack = task.spread * math.sqrt(self.sqnorm * found.longest)
        return Sampled(self.w, (low - slack, high + slack), slack)

    @property
    def _weight(self) -> float:
        """The sum of the bounds of alpha."""
        return float(self._bounds.sum()) if len(self._bounds) > 1 else float(self._bounds[0]) * self.rows.n_samples

    @property
    def _places(self) -> Array:
        """The working set as NumPy's own kind of index, which is several times as quick."""
        return self.chosen.view(np.intp)

    def _weight_of(self, chosen: Array) -> float:
        is_even = len(self._bounds) == 1
        return float(self._bounds[0]) * len(chosen) if is_even else float(self.upper[chosen].sum())

    def _upper_of(self, chosen: Array) -> Array:
        """The bounds of some samples."""
        is_even = len(self._bounds) == 1
        return repeated(float(self._bounds[0]), len(chosen)) if is_even else self.upper[chosen]

    def _first_mean(self, every: int) -> Array:
        """The mean of some samples, where nobody has looked at X before. A BLAS may leave out columns whose weight is zero, so
        that its outputs do not tell whether a dense X is finite."""
        if not self.rows.is_sparse:
            self.rows.check()
        return self._mean(every)

    def _mean(self, every: int) -> Array:
        """A first direction: the mean of some samples."""
        scales, w = np.zeros(self.rows.n_samples), np.zeros(self.rows.n_features + 1)
        scales[::every] = self.upper[::every]
        if self.rows.n_stored > self.policy.product_elements:
            self._add(scales, w)
        else:
            w[:-1] = self.rows.matrix.T @ scales
        self.n_read += len(scales) // every
        return w

    def _place(self, w: Array, band: tuple[float, float]) -> float:
        """Compute the outputs of w. Below the band alpha is at its bound, and in the band are the samples of the working set.
        Returns the sum of alpha."""
        if band == EVERYWHERE:
            return self._place_everywhere(w)
        n, n_parts = self.rows.n_samples, self._crew.n_parts
        memory, sums = np.empty(n + n_parts, np.uint64), np.zeros((n_parts, len(w)))

        def place(k: int, start: int, stop: int) -> list[_Part]:
            """Each part has its own w, and memory for one sample more than it has."""
            chunks = self._chunks(start, stop)
            return [self._place_chunk(w, band, memory[first + k :], sums[k], first, last) for first, last in chunks]

        parts = [part for parts in self._crew.share(n, place) for part in parts]
        self.w[:] = sums[0] if n_parts == 1 else sums.sum(axis=0)
        self.chosen = parts[0].chosen if len(parts) == 1 else np.concatenate([part.chosen for part in parts])
        self.n_read += n
        return math.fsum(part.below for part in parts)

    def _place_chunk(self, w: Array, band: tuple[float, float], memory: Array, new_w: Array, start: int, stop: int) -> _Part:
        check_point()
        placed = self._placed(memory)
        n_chosen, below = place_rows(self._compiled, w, band, placed, new_w, start, stop)
        return _Part(placed.chosen[:n_chosen], below)

    def _place_everywhere(self, w: Array) -> float:
        """The same where the band holds every output."""
        self.w[:], self.alpha[:] = 0.0, 0.0
        self._find_outputs(w)
        self.chosen = np.arange(self.rows.n_samples, dtype=np.uint64)
        return 0.0

    def _find_outputs(self, w: Array) -> None:
        """All outputs of w. A product serves where X is small, for which nothing is compiled."""
        n = self.rows.n_samples
        if self._crew.size == 1:
            self.outputs[:] = self.rows.matrix @ w[:-1]
        else:
            self._crew.share(n, lambda k, *part: self._find_some_outputs(w, *part))
        self.n_read += n

    def _find_some_outputs(self, w: Array, start: int, stop: int) -> None:
        for first, last in self._chunks(start, stop):
            check_point()
            find_outputs(self._compiled, w, self.outputs, first, last)

    def _fill(self, missing: float) -> None:
        """Raise alpha on the chosen samples, from the least output on, until the sum is right. Where they are many more than
        ``size``, those nearest to the last that was raised stay chosen. Outputs that differ by less than the slack of the
        sample count as equal."""
        if self._slack > 0.0:
            self.outputs[self._places] = np.rint(self.outputs[self._places] / self._slack)
        self._raise(missing)
        if len(self.chosen) > 2 * self.size:
            keys, is_raised = self.outputs[self._places], self.alpha[self._places] > 0.0
            self.chosen = self.chosen[nearest(keys, is_raised, self.size)]

    def _raise(self, missing: float) -> None:
        """Raise alpha on the chosen samples, from the least output on, by ``missing`` together."""
        self._sqnorm = None
        if not self._is_scattered:
            self._raise_on(self, self.chosen, missing)
            return
        copy = self._copied()
        copy.outputs[:], copy.alpha[:] = self.outputs[self._places], 0.0
        self._raise_on(copy, np.arange(len(self.chosen), dtype=np.uint64), missing)
        self.alpha[self._places] = copy.alpha

    def _raise_on(self, point: PairPoint, chosen: Array, missing: float) -> None:
        """Raise alpha of ``point``, whose rows change this w."""
        raise_least(point._compiled, point._placed(chosen), float(missing), np.empty_like(chosen), self.w)

    def _placed(self, chosen: Array) -> Placed:
        return Placed(self.upper, self.alpha, self.outputs, chosen, np.empty(self.policy.rows_together, np.uint64))

    def look(self) -> None:
        """All outputs of the w at hand."""
        self._find_outputs(self.w)

    def choose(self, rho: float, farthest: float) -> None:
        """The next working set, from all outputs: the samples near rho, and those that violate optimality. Samples farther
        than ``farthest`` from rho that do not violate it stay where they are."""
        distance = self.outputs - rho
        reach = np.partition(np.abs(distance[:: self.policy.quantile_every]), self._place_of_size)[self._place_of_size]
        reach = min(reach, farthest)
        violates = ((distance < 0.0) & (self.alpha < self.upper)) | ((distance > 0.0) & (self.alpha > 0.0))
        self.chosen = np.flatnonzero(violates | (np.abs(distance) <= reach)).astype(np.uint64)

    @property
    def _place_of_size(self) -> int:
        every = self.policy.quantile_every
        return min(self.size, self.rows.n_samples - 1) // every

    def descend(self, target: float) -> Descended:
        """Steps on the working set until its relative gap is ``target``."""
        task = self._task(target, self.policy.small_spread)
        self._sqnorm = None
        found = self._descend_on_copy(task) if self._is_scattered else self._descend(self, self.chosen, task)
        self.n_read += found.n_read
        return found

    def _descend_on_copy(self, task: Task) -> Descended:
        copy = self._copied()
        copy.alpha[:] = self.alpha[self._places]
        found = self._descend(copy, np.arange(len(self.chosen), dtype=np.uint64), task)
        self.alpha[self._places] = copy.alpha
        return found

    def _copied(self) -> PairPoint:
        """A point of the chosen rows alone, copied, so that reading them again costs a third."""
        if self._copy is None or self._copy.chosen is not self.chosen:
            point = PairPoint(self.rows.taken(self._places), self._upper_of(self._places), self.total, self.policy)
            self._copy = _Copy(self.chosen, point)
        return self._copy.point

    def _descend(self, point: PairPoint, chosen: Array, task: Task) -> Descended:
        """Steps on the chosen rows of ``point``, which change this w."""
        working_set = _working_set(chosen)
        self.near = working_set.outputs
        return Descended(*descend_pairs(point._compiled, working_set, point.alpha, point.upper, self.w, self._other, task))

    @property
    def _is_scattered(self) -> bool:
        """Whether X is so large and its rows so short that reading some of them again and again waits for memory."""
        rows, policy = self.rows, self.policy
        return rows.n_stored > policy.near_elements and rows.n_stored <= policy.short_row * rows.n_samples

    def _task(self, target: float, spread: float) -> Task:
        """What ends the steps: ``spread`` where the problem is small, and the gap ``target`` elsewhere."""
        policy, n = self.policy, self.rows.n_samples
        spread = spread if n * self.rows.n_features <= policy.small_elements else 0.0
        most_read = float(max(policy.least_read, policy.most_read * n))  # an int would compile the loop once more
        return Task(target, most_read, self.total, spread, self._sweeps, policy.halvings)

    @property
    def _sweeps(self) -> int:
        return self.policy.wide_sweeps if self._is_wide else self.policy.sweeps

    @property
    def _is_wide(self) -> bool:
        return self.rows.n_features > self.rows.n_samples

    def refresh(self) -> None:
        """Compute w anew from alpha, which removes the rounding error of earlier steps."""
        self.w[:], self._sqnorm = 0.0, None
        self._add(self.alpha, self.w)
        self.n_read += self.rows.n_samples

    def _add(self, scales: Array, w: Array) -> None:
        for first, last in self._chunks(0, len(scales)):
            check_point()
            add_rows(self._compiled, scales, w, first, last)

    def _chunks(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The rows from ``start`` to ``stop`` in pieces, with a check point before each."""
        step = self._rows_a_chunk
        return [(first, min(first + step, stop)) for first in range(start, stop, step)]

    @property
    def _rows_a_chunk(self) -> int:
        a_row = self.rows.n_stored // self.rows.n_samples + 1
        return max(1, self.policy.chunk_elements // a_row)


class _Part(NamedTuple):
    """The samples in the band among some rows, and the sum of alpha below it."""

    chosen: Array
    below: float


class _Copy(NamedTuple):
    """The samples of a working set, and a point of their rows alone."""

    chosen: Array
    point: PairPoint


def _working_set(chosen: Array) -> WorkingSet:
    """The chosen samples, and memory for the steps on them."""
    n = len(chosen)
    return WorkingSet(chosen, *np.empty((3, n)), *np.empty((2, n + 1), np.uint64))

"""The dual point of pair descent: alpha with its w, the working set, and where both begin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.data.limits import check_point
from maxmargin.data.row_loops import add_rows
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.dual_box import repeated
from maxmargin.solvers.linear.pair_descent_loop import Placed, Task, WorkingSet, descend_pairs, place_rows
from maxmargin.solvers.samples import one_of_each

EVERYWHERE = (-np.inf, np.inf)
"""A band that holds every output."""


@dataclass(frozen=True)
class PairPolicy:
    """The sizes of pair descent. They were chosen on magic, cpu_act, a9a, ijcnn1, sector and mnist; cal_housing, w7a, covtype
    and news20_bigram were looked at afterwards."""

    sweeps: int = 10
    """How often a violator is paired before outputs are computed anew. Rows read on four sets: 2 sweeps 35, 4 sweeps 31, 10
    sweeps 30 epochs."""
    wide_sweeps: int = 2
    """The same where X has more features than samples, so that an output depends on few other samples: on sector.scale 2 sweeps
    take half the time of 10."""
    halvings: int = 10
    """Halvings of the interval that holds rho. A rough rho is enough to tell the two sides apart, and every rho gives a bound.
    Few halvings leave samples on both sides, down to the last digits of their outputs. An estimate, not measured."""
    alike: float = 1e-6
    """Share of |x_i|^2 + |x_j|^2 below which |x_i - x_j|^2 is not computed as a difference, so that ten digits are left."""
    most_read: float = 2.0
    """Rows read on a working set, as a share of all rows, before all samples are looked at, or another method is considered."""
    least_read: int = 100_000
    """Rows read, if that is more: some milliseconds."""
    aim: float = 0.3
    """Relative gap of the working set, as a share of the target: the other samples add to the gap."""
    small_elements: int = 1 << 15
    """Elements n d up to which a problem is solved to rounding error whatever the target is, if ``least_read`` rows suffice."""
    small_spread: float = 1e-13
    """Difference of two outputs that counts as rounding, as a share of |w| |x|."""
    near_share: float = 0.1
    """Share of the samples in a working set: those nearest to rho."""
    least_near: int = 500
    """Samples in a working set, if that is more. A problem with no more samples is one working set."""
    sample_every: int = 16
    """One sample out of so many is solved first."""
    sample_a_feature: float = 4.0
    """Samples for each feature that the first problem must have, or else it says little about w: text has fewer, and begins at
    the mean of X."""
    sample_gap: float = 1e-2
    """Relative gap of the first problem."""
    mean_every: int = 4
    """One sample out of so many is in that mean."""
    quantile_every: int = 16
    """One output out of so many tells where the band around rho begins and ends."""
    chunk_elements: int = 10_000_000
    """Stored elements of X between two check points."""
    slow: float = 0.5
    """Share of its last gap above which the gap of a working set falls slowly, so that all samples are looked at."""
    still_iterations: int = 4
    """Looks at all samples in a row without a smaller gap that end the descent."""
    most_refusals: int = 3
    """Refused certificates after which the descent looks at all samples itself before it asks for one."""


class Descended(NamedTuple):
    """What the steps on a working set ended with: rho, the gap of the set, the rows read, and the greatest |x_i|^2."""

    rho: float
    gap: float
    n_read: float
    longest: float


class PairPoint:
    """alpha in its box with the given sum, and w = w(alpha). The last element of w, that of the offset, is zero."""

    def __init__(self, rows: Rows, upper: Array, total: float, policy: PairPolicy) -> None:
        n = rows.n_samples
        self.rows, self.upper, self.total, self.policy = rows, np.ascontiguousarray(upper), total, policy
        self.is_even = upper.strides == (0,)  # one bound for all samples
        self.alpha, self.outputs = np.zeros(n), np.empty(n)
        self.w, self._other = np.zeros(rows.n_features + 1), np.zeros(rows.n_features + 1)
        self.chosen = np.empty(0, np.uint64)
        self.near: Array = np.empty(0)
        self.n_read = 0.0
        self._compiled = rows.compiled(0.0)

    @property
    def sqnorm(self) -> float:
        return float(self.w @ self.w)

    @property
    def size(self) -> int:
        """How many samples are near rho."""
        return max(self.policy.least_near, int(self.policy.near_share * self.rows.n_samples))

    def begin(self, is_whole: bool = False) -> None:
        """A first alpha and a first working set, from a sample of the rows or from their mean. ``is_whole``: all samples."""
        n, policy, band = self.rows.n_samples, self.policy, EVERYWHERE
        n_sample = n // policy.sample_every
        if n_sample >= max(policy.least_near, policy.sample_a_feature * self.rows.n_features):
            sample = self._sample()
            w = sample.w
            if not is_whole:
                band = sample.band
        else:
            w = self._mean(policy.mean_every if n > policy.least_near else 1)
        below = self._place(w, band)
        missing, weight = self.total - below, float(self.upper[self.chosen].sum())
        if not 0.0 <= missing <= weight:
            self.w[:], missing = 0.0, self.total
            self._place(w, EVERYWHERE)
        self._fill(missing, n if is_whole else self.size)

    @property
    def band(self) -> tuple[float, float]:
        """Two outputs of the working set, which is all samples, around rho. The samples between them have ``near_share`` of the
        weight, half of it on each side of the sum of alpha."""
        half = 0.5 * self.policy.near_share * float(self.upper.sum())
        low, high = self._outputs_at([self.total - half, self.total + half])
        return low if self.total > half else -np.inf, high

    def _outputs_at(self, weights: list[float]) -> list[float]:
        """Where the bounds of all samples up to an output add up to a weight; infinity where they never do."""
        if self.is_even:
            places = [max(0, math.ceil(weight / float(self.upper[0])) - 1) for weight in weights]
            ordered = np.partition(self.near, [place for place in places if place < len(self.near)])
        else:
            order = np.argsort(self.near)
            places, ordered = np.searchsorted(np.cumsum(self.upper[order]), weights).tolist(), self.near[order]
        return [float(ordered[place]) if place < len(ordered) else np.inf for place in places]

    def _sample(self) -> PairPoint:
        """The problem of some of the samples, solved roughly as one working set."""
        chosen = one_of_each(self.policy.sample_every, self.rows.n_samples)
        rows = Rows(self.rows.matrix[chosen])
        upper = repeated(float(self.upper[0]), len(chosen)) if self.is_even else self.upper[chosen]
        point = PairPoint(rows, upper, self.total * float(upper.sum()) / float(self.upper.sum()), self.policy)
        point.begin(is_whole=True)
        point.descend(self.policy.sample_gap)
        self.n_read += point.n_read
        return point

    def _mean(self, every: int) -> Array:
        """A first direction: the mean of some samples."""
        matrix, upper = self.rows.matrix, self.upper
        if every > 1:
            matrix, upper = matrix[::every], upper[::every]
        self.n_read += len(upper)
        return np.append(np.asarray(matrix.T @ upper), 0.0)

    def _place(self, w: Array, band: tuple[float, float]) -> float:
        """Compute the outputs of w. Below the band alpha is at its bound, and in the band are the samples of the working set.
        Returns the sum of alpha."""
        n, step, total, parts = self.rows.n_samples, self._rows_a_chunk, 0.0, []
        memory = np.empty(n, np.uint64)
        for start in range(0, n, step):
            check_point()
            placed = Placed(self.upper, self.alpha, self.outputs, memory[start:])
            n_chosen, below = place_rows(self._compiled, w, band, placed, self.w, start, min(start + step, n))
            parts.append(placed.chosen[:n_chosen])
            total += below
        self.chosen = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self.n_read += n
        return total

    def _fill(self, missing: float, size: int) -> None:
        """Raise alpha on the chosen samples, from the least output on, until the sum is right. Where they are many more than
        ``size``, those nearest to the last that was raised stay chosen."""
        chosen, (order, last) = self.chosen, self._ordered(self.outputs[self.chosen], missing, size)
        order, n = chosen[order], len(chosen)
        if self.is_even:
            self.alpha[order[:last]] = self.upper[0]
            if last < n:
                self.alpha[order[last]] = min(max(missing - last * self.upper[0], 0.0), self.upper[0])
        else:
            upper = self.upper[order]
            self.alpha[order] = np.clip(missing - (np.cumsum(upper) - upper), 0.0, upper)
        if n > 2 * size:
            first = _window(last, size, n)
            self.chosen = np.sort(order[first : first + size])
        self._add(self.alpha, self.w) if n == len(self.alpha) else self._add_chosen()

    def _ordered(self, outputs: Array, weight: float, size: int) -> tuple[Array, int]:
        """The chosen samples, the least output first, and the place at which the sum of their bounds exceeds ``weight``. Where
        all bounds are equal that place is known, and the order is right only there and at the ends of ``_window``: all else
        would take a sort."""
        if not self.is_even:
            order = np.argsort(outputs)
            return order, int(np.searchsorted(np.cumsum(self.upper[self.chosen[order]]), weight))
        n = len(outputs)
        last = min(int(weight / self.upper[0]), n)
        first = _window(last, size, n)
        places = {min(max(place, 0), n - 1) for place in (first, last, first + size)}
        return np.argpartition(outputs, sorted(places)) if n > 1 else np.arange(n), last

    def _add_chosen(self) -> None:
        """w += sum over the chosen samples of alpha_i x_i"""
        scales = np.zeros(len(self.alpha))
        scales[self.chosen] = self.alpha[self.chosen]
        self._add(scales, self.w)

    def look(self) -> None:
        """All outputs of w."""
        self.outputs = np.asarray(self.rows.matrix @ self.w[:-1])
        self.n_read += self.rows.n_samples

    def choose(self, rho: float) -> None:
        """The next working set, from all outputs: the samples near rho, and those that violate optimality."""
        distance = self.outputs - rho
        reach = np.partition(np.abs(distance[:: self.policy.quantile_every]), self._place_of_size)[self._place_of_size]
        violates = ((distance < 0.0) & (self.alpha < self.upper)) | ((distance > 0.0) & (self.alpha > 0.0))
        self.chosen = np.flatnonzero(violates | (np.abs(distance) <= reach)).astype(np.uint64)

    @property
    def _place_of_size(self) -> int:
        every = self.policy.quantile_every
        return min(self.size, self.rows.n_samples - 1) // every

    def descend(self, target: float) -> Descended:
        """Steps on the working set until its relative gap is ``target``."""
        n, policy, total = len(self.chosen), self.policy, float(self.alpha[self.chosen].sum())
        self.near = np.empty(n)
        memory = np.empty((2, n), np.uint64)
        working_set = WorkingSet(self.chosen, self.near, np.empty(n), memory[0], memory[1])
        most_read = max(policy.least_read, policy.most_read * self.rows.n_samples)
        is_small = self.rows.n_samples * self.rows.n_features <= policy.small_elements
        spread = policy.small_spread if is_small else 0.0
        task = Task(target, most_read, self.total, spread, self._sweeps, policy.halvings, policy.alike)
        found = Descended(*descend_pairs(self._compiled, working_set, self.alpha, self.upper, self.w, self._other, task))
        self._settle(total)
        self.n_read += found.n_read
        return found

    @property
    def _sweeps(self) -> int:
        return self.policy.wide_sweeps if self.rows.n_features > self.rows.n_samples else self.policy.sweeps

    def _settle(self, total: float) -> None:
        """One free alpha takes up what rounding left of the sum."""
        alpha, upper = self.alpha[self.chosen], self.upper[self.chosen]
        rest = float(alpha.sum()) - total
        places = np.flatnonzero((alpha - rest > 0.0) & (alpha - rest < upper))
        if rest != 0.0 and len(places):
            self.alpha[self.chosen[places[0]]] -= rest

    def refresh(self) -> None:
        """Compute w anew from alpha, which removes the rounding error of earlier steps."""
        self.w[:] = 0.0
        self._add(self.alpha, self.w)
        self.n_read += self.rows.n_samples

    def _add(self, scales: Array, w: Array) -> None:
        for start in range(0, len(scales), self._rows_a_chunk):
            check_point()
            add_rows(self._compiled, scales, w, start, min(start + self._rows_a_chunk, len(scales)))

    @property
    def _rows_a_chunk(self) -> int:
        a_row = self.rows.n_stored // self.rows.n_samples + 1
        return max(1, self.policy.chunk_elements // a_row)


def _window(middle: int, size: int, n: int) -> int:
    """Where ``size`` of n places begin that are as near as can be to the middle."""
    return max(0, min(middle - size // 2, n - size))

"""The dual point of pair descent: alpha with its w, the working set, and where both begin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.data.kept import kept
from maxmargin.data.limits import check_point
from maxmargin.data.row_loops import add_rows
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.dual_box import one_or_all, repeated
from maxmargin.solvers.linear.pair_descent_loop import Placed, Task, WorkingSet, descend_pairs, place_rows, raise_least
from maxmargin.solvers.linear.pair_start import keys_at, nearest
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
    wide_sweeps: int = 1
    """The same where X has more features than samples, so that an output depends on few other samples: on sector.scale 2 sweeps
    take half the time of 10, and 1 takes 0.8 to 1.0 of the time of 2. Computing the outputs anew is a seventh of a sweep."""
    halvings: int = 10
    """Halvings of the interval that holds rho. A rough rho is enough to tell the two sides apart, and every rho gives a bound.
    Few halvings leave samples on both sides, down to the last digits of their outputs. An estimate, not measured."""
    most_read: float = 2.0
    """Rows read on a working set, as a share of all rows, before all samples are looked at, or another method is considered."""
    least_read: int = 100_000
    """Rows read, if that is more: some milliseconds."""
    aim: float = 0.3
    """Relative gap of the working set, as a share of the target: the other samples add to the gap."""
    fall: float = 1e-2
    """Relative gap of a working set, as a share of the relative gap of all samples when it was chosen, if that is more, where
    the first set comes from the mean of X: not all that matter are in a set then, so that its last digits would be lost. Whole
    fits on sector.scale with 1e-1, 3e-2, 1e-2, 3e-3: the same within 10%; with the last digits at once they take up to twice as
    long. A set that comes from a sample is a good guess: on w7a shares took 1.3 times as long."""
    leap: float = 10.0
    """How many times the last relative gap that share may be for a set to be solved to the last gap at once: a digit costs less
    than another look at all samples."""
    small_elements: int = 1 << 15
    """Elements n d up to which a problem is solved to rounding error whatever the target is, if ``least_read`` rows suffice."""
    product_elements: int = 1_000_000
    """Stored elements of X up to which the first mean is a product with all of X, which takes about a millisecond and compiles
    nothing."""
    small_spread: float = 1e-13
    """Difference of two outputs that counts as rounding, as a share of |w| |x|."""
    near_share: float = 0.1
    """The greatest share of the samples in a working set: those nearest to rho."""
    near_errors: float = 8.0
    """The share in a large set, if that is less: so many standard errors of a share on each side of rho. In m samples drawn at
    random the share of weight below rho is known to a standard error of at most 1 / (2 sqrt(m)), and their w is not that of all
    samples either. On covtype, as it is and scaled, a band of 0.042 of the samples takes 0.8 to 0.9 of the time of one of 0.1
    in ten of twelve fits; in one a sample that matters is outside, which costs a second certificate."""
    least_near: int = 500
    """Samples in a working set, if that is more. A problem with no more samples is one working set."""
    sample_every: int = 16
    """One sample out of so many is solved first, and fewer in large sets: see ``large_sample``."""
    large_sample: float = 4.0
    """The sample of a large set has (``large_sample`` n)^(2/3) rows. A row of the sample takes about as long as one of the
    band, whose size is ``near_errors`` n / sqrt(m) with m rows in the sample: their sum is least where m^(3/2) is
    ``near_errors`` n / 2, a cost model and not a measurement. From 65,000 rows on this is less than one out of 16."""
    sample_a_feature: float = 4.0
    """Samples for each feature that the first problem must have, or else it says little about w: text has fewer, and begins at
    the mean of X."""
    sample_gap: float = 3e-3
    """Relative gap of the first problem. With 1e-2 five of 36 fits on mnist, ijcnn1, a9a and w7a took 1.2 to 1.8 times as long,
    because samples that matter were not in the band, and one took 0.85 of the time; 1e-3 is no better."""
    sample_spread: float = 1e-4
    """Difference of two outputs at which the first problem ends instead, where it is small, as a share of |w| |x|. Outputs that
    differ by less then count as equal, as many are in one-hot columns: 288 fits of these need 541 certificates (529 with 1e-6),
    against 715 if the first problem ends at its gap. On magic and cpu_act 1e-4 takes 0.94 of the time of 1e-6."""
    mean_every: int = 4
    """One sample out of so many is in that mean."""
    quantile_every: int = 16
    """One output out of so many tells where the band around rho begins and ends."""
    near_elements: int = 500_000
    """Stored elements of X up to which its rows stay in the second-level cache."""
    short_row: int = 32
    """Stored elements of a row in the mean, up to which rows are copied that are read many times. On covtype (12 elements a
    row) rows one after the other take 30 ns each, and rows here and there 100 ns."""
    chunk_elements: int = 10_000_000
    """Stored elements of X between two check points."""
    rows_together: int = 64
    """Rows whose outputs are computed before those below the band are added to w: they stay in the first-level cache."""
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
        n, step, total, parts = self.rows.n_samples, self._rows_a_chunk, 0.0, []
        memory = np.empty(n + 1, np.uint64)
        self.w[:] = 0.0
        for start in range(0, n, step):
            check_point()
            placed = self._placed(memory[start:])
            n_chosen, below = place_rows(self._compiled, w, band, placed, self.w, start, min(start + step, n))
            parts.append(placed.chosen[:n_chosen])
            total += below
        self.chosen = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self.n_read += n
        return total

    def _place_everywhere(self, w: Array) -> float:
        """The same where the band holds every output: a product, for which nothing is compiled."""
        self.w[:], self.alpha[:] = 0.0, 0.0
        self.outputs[:] = self.rows.matrix @ w[:-1]
        self.chosen = np.arange(self.rows.n_samples, dtype=np.uint64)
        self.n_read += self.rows.n_samples
        return 0.0

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
        raise_least(self._compiled, self._placed(self.chosen), float(missing), np.empty_like(self.chosen), self.w)

    def _placed(self, chosen: Array) -> Placed:
        return Placed(self.upper, self.alpha, self.outputs, chosen, np.empty(self.policy.rows_together, np.uint64))

    def look(self) -> None:
        """All outputs of w."""
        self.outputs = np.asarray(self.rows.matrix @ self.w[:-1])
        self.n_read += self.rows.n_samples

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
        """Copy the rows of the working set first, so that reading them again costs a third."""
        near = PairPoint(self.rows.taken(self._places), self._upper_of(self._places), self.total, self.policy)
        near.alpha[:] = self.alpha[self._places]
        found = self._descend(near, np.arange(len(self.chosen), dtype=np.uint64), task)
        self.alpha[self._places] = near.alpha
        return found

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
        for start in range(0, len(scales), self._rows_a_chunk):
            check_point()
            add_rows(self._compiled, scales, w, start, min(start + self._rows_a_chunk, len(scales)))

    @property
    def _rows_a_chunk(self) -> int:
        a_row = self.rows.n_stored // self.rows.n_samples + 1
        return max(1, self.policy.chunk_elements // a_row)


def _working_set(chosen: Array) -> WorkingSet:
    """The chosen samples, and memory for the steps on them."""
    n = len(chosen)
    return WorkingSet(chosen, *np.empty((3, n)), *np.empty((2, n + 1), np.uint64))

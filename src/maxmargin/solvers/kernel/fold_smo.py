r"""SMO for the folds of a cross-validation, on one kernel matrix of all samples.

A sample that the fold holds out has the box [0, 0]: it never moves, and its output f is updated like every other. So the matrix
is not copied, and the validation outputs come for free. Values of C follow each other in rising order. The alpha of the last
one is multiplied by C' / C, so that samples at their bound stay there, and f = K s with it. Where most support vectors are
free, the factor in [1, C' / C] with the greatest dual value is better. The first value of C begins where another fold has
ended.

There are two ways to make steps, both with the loops of :mod:`maxmargin.solvers.kernel.batched_smo_loops`. A step on the whole
matrix takes two of its rows. A step on a working set of q samples takes two rows of a block. But first the block must be read,
and afterwards the rows of the moved samples: together as much as about q steps on the whole matrix. So the first steps are made
on the whole matrix, and working sets follow if these were not enough (the ski-rental rule).

**The pair.** The primal point is :math:`w = t \, w(\alpha)` with :math:`t \ge 1`: if C is far above alpha, margins slightly
below one cost far more than a slightly longer w. Or it is *mended*: with F the free samples,

.. math:: w = w(\alpha) + \sum_{i \in F} d_i \phi(x_i), \qquad (K_{FF} + \lambda I) d = v_F - b .

At the optimum the margins of F are one, and with d they nearly are. In the dual this step would soon leave the box; a primal
point has no box. On banana the dual value was ten times closer to the optimum than the primal value of w(alpha), and the gap of
the mended point 3 to 20 times smaller, so that a third of the steps were enough at large C."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import spotrf, spotrs

from maxmargin.certificate.certificate import relative
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.kernel_matrix.matrix import padded
from maxmargin.kernel_matrix.tile_loops import add_scaled_rows, gather
from maxmargin.solvers.kernel.batched_smo_loops import LocalProblem, best_offset, extremes, gap_and_dual
from maxmargin.solvers.kernel.fold_smo_loops import best_stretch, stretched_loss
from maxmargin.solvers.kernel.local_solve import solve_local


@dataclass(frozen=True)
class FoldPolicy:
    """The numbers that tune SMO on a fold. Measured on banana (5,300 rows) and 4,000 rows of a9a, 325 fits each."""

    working_set: int = 512
    """The least size of a working set, in samples."""
    sets_a_free: float = 2.0
    """The size of a working set, in multiples of the number of free samples. Sets that did not hold them all took twice as long
    on 10,000 rows of ijcnn1."""
    greatest_set: int = 2048
    """The greatest size of a working set, in samples: its kernel block has 16 MB."""
    replaced: float = 0.25
    """Share of a working set that may be replaced to make the next one. With more, all its kernel values are read again, which
    takes as long."""
    greatest_share: float = 0.2
    """The greatest size of a working set, as a share of all samples: a step on a larger one saves little. On 4,000 rows of a9a
    half of the samples took 1.8 times as long as an eighth; on ijcnn1 a fifth took two thirds of the time of a tenth."""
    rushed: float = 0.5
    """A working set on which fewer steps are made, for each of its samples, is followed by steps on the whole matrix."""
    whole_steps: int = 512
    """Steps on the whole matrix before working sets are tried: they read as much memory as a working set and its rows."""
    steps_a_round: int = 512
    """Steps on the whole matrix from one look at the gap to the next."""
    steps_a_variable: int = 10
    """The most steps on a working set, for each of its samples."""
    whole_tolerance: float = 0.3
    """The violation at which a round on the whole matrix ends, as a share of the one before."""
    local_tolerance: float = 0.1
    """The violation at which a working set is left, as a share of that of all samples."""
    greatest_tolerance: float = 0.05
    """Upper limit on both violations. A difference of margins."""
    share: float = 0.9
    """The gap in float32 must fall to this share of the target, because the certificate is computed in float64."""
    stretch_below: float = 1.0
    """The violation below which a longer w is tried. A difference of margins."""
    mended_within: float = 20.0
    """A mended w is tried where the gap is at most this many times the target. On banana it lowered the gap 3 to 50 times."""
    most_free: int = 512
    """Free samples up to which w is mended: their system takes 2 ms, as long as a round."""
    ridge: float = 1e-4
    """What is added to the diagonal of that system, in multiples of its greatest element. Without it the change of w is long
    where the kernel is wide. 1e-5 to 1e-3 gave about the same gaps on banana."""
    offset_passes: int = 32
    """Passes over the gradient in which b is found, each of which halves its interval. The float32 kernel values have 24
    digits."""
    most_rounds: int = 400
    """Rounds, of either kind, before a fit is given up."""
    idle_rounds: int = 12
    """A fit is given up after this many rounds in a row that do not lower the gap by a tenth: rounding error limits it."""


class Mend(NamedTuple):
    """What is added to the signed coefficients of some samples in the primal point only."""

    samples: Array
    change: Array


class Reached(NamedTuple):
    """The primal point is stretch w(alpha), or mended; the gap is an estimate. ``outputs`` are those of the primal point."""

    relative_gap: float
    stretch: float
    b: float
    violation: float
    outputs: Array
    mend: Mend | None = None


class FoldEnd(NamedTuple):
    """Where a fold ended at some C: s and f = K s, and the costs of its samples at C = 1."""

    s: Array
    f: Array
    costs: Array
    b: float


class Block(NamedTuple):
    """A working set and its kernel values. Both are changed in place."""

    samples: Array
    K: Array

    def replace(self, K: Array, wanted: Array, most: float) -> bool:
        """Take in the wanted samples that are missing, in the places of those that are not wanted. False where they are more
        than a share ``most`` of all, where there are not enough places, or where most places are not wanted."""
        if len(self.samples) > 2 * len(wanted):
            return False
        missing = np.setdiff1d(wanted, self.samples, assume_unique=True)
        places = np.flatnonzero(~np.isin(self.samples, wanted))[: len(missing)]
        if len(missing) > len(places) or len(missing) > most * len(self.samples):
            return False
        self.samples[places] = missing
        rows = np.empty((len(missing), len(self.samples)), np.float32)
        gather(K, missing, self.samples, rows)
        self.K[places, : len(self.samples)] = rows
        self.K[: len(self.samples), places] = rows.T
        return True


@dataclass
class FoldSMO:
    """One fold: signs y and costs of all samples at C = 1, zero where a sample is held out. Arrays are as long as the padded
    matrix K."""

    K: Array
    diagonal: Array
    y: Array
    costs: Array
    has_offset: bool
    policy: FoldPolicy = field(default_factory=FoldPolicy)
    C: float = 0.0
    steps: int = 0
    _block: Block | None = None
    _memory: Array | None = None
    """The memory of the last working set: touching new memory takes as long as reading the kernel values."""

    def __post_init__(self) -> None:
        n = len(self.K)
        self.diagonal = self.diagonal.astype(np.float64)
        self.n = len(self.y)
        self.y, self.costs = _lengthened(self.y, n), _lengthened(self.costs, n)
        self.s, self.f = np.zeros(n), np.zeros(n)
        self.lower, self.upper, self.room = np.zeros(n), np.zeros(n), np.zeros(n)

    def move_to(self, C: float) -> None:
        """Switch to another C, which must not be less than the last one."""
        n_free = int(np.count_nonzero(self.is_free))
        self.room = C * self.costs
        self.lower, self.upper = np.minimum(0.0, self.y * self.room), np.maximum(0.0, self.y * self.room)
        if self.C > 0.0:
            stretch = self._stretch_to(C / self.C, n_free)
            self.s, self.f = np.clip(stretch * self.s, self.lower, self.upper), stretch * self.f
        self.C = C

    def _stretch_to(self, most: float, n_free: int) -> float:
        """With ``most`` all samples at C stay there. Where most support vectors are free, the factor up to ``most`` with the
        greatest dual value."""
        sqnorm = float(self.s @ self.f)
        if 2 * n_free <= np.count_nonzero(self.s) or not sqnorm > 0.0:
            return most
        return min(most, max(1.0, float(np.abs(self.s).sum()) / sqnorm))

    @property
    def is_free(self) -> Array:
        mask: Array = (self.s > self.lower) & (self.s < self.upper)
        return mask

    def seed(self, other: FoldEnd) -> None:
        """Start where another fold ended at this C. A sample that the other fold held out is at its upper bound if its margin
        there is below one, and at zero otherwise."""
        v, is_known = self.y - other.f, other.costs > 0.0
        kept = other.s * np.divide(self.costs, other.costs, out=np.zeros(len(v)), where=is_known)
        new = np.where(self.y * (v - other.b) > 0.0, self.y * self.room, 0.0)
        s = np.clip(np.where(is_known, kept, new), self.lower, self.upper)
        if self.has_offset:
            balance(s, v, self.lower, self.upper)
        change = s - other.s
        moved = np.flatnonzero(change)
        self.s, self.f = s, other.f.copy()
        add_scaled_rows(self.K, moved, change[moved], 0, len(self.f), self.f, 0)

    def end(self, b: float) -> FoldEnd:
        return FoldEnd(self.s.copy(), self.f.copy(), self.costs, b)

    def take(self, s: Array, outputs: Array) -> None:
        """A point and its exact outputs."""
        self.s[: self.n], self.f[: self.n] = s, outputs

    def train(self, tol: float) -> Reached:
        """Steps until the relative gap seems to be within ``tol``."""
        best, idle, begun = np.inf, 0, self.steps
        rushed = False
        for _ in range(self.policy.most_rounds):
            here = self.look(self.policy.share * tol)
            if here.relative_gap <= self.policy.share * tol:
                break
            idle = 0 if here.relative_gap < 0.9 * best else idle + 1
            best = min(best, here.relative_gap)
            if idle >= self.policy.idle_rounds:
                break
            check_point()
            if self.steps - begun < self.policy.whole_steps or rushed:
                self._whole_round(here.violation)
                rushed = False
            else:
                rushed = self._working_set(here.violation)
        return here

    def look(self, target: float) -> Reached:
        """The gap of the present alpha with w(alpha); if that is above target, with a longer w, and then with a mended one."""
        v = self.y - self.f
        top, bottom = extremes(v, self.s, self.lower, self.upper, 0.0)
        if not self.has_offset:
            top, bottom = max(top, 0.0), min(bottom, 0.0)
        b = self._best_offset(v)
        gap, dual = gap_and_dual(v, self.y, self.s, self.lower, self.upper, b, 0.0)
        best = Reached(relative(gap, dual + gap, dual), 1.0, b, top - bottom, self.f)
        if target < best.relative_gap and 0.0 < best.violation < self.policy.stretch_below:
            best = _better(best, self._stretched(dual, best))
        if target < best.relative_gap <= self.policy.mended_within * target:
            best = _better(best, self._mended(dual, best))
        return best

    def _best_offset(self, v: Array) -> float:
        return float(best_offset(v, self.lower, self.upper, 0.0, self.policy.offset_passes)) if self.has_offset else 0.0

    def _stretched(self, dual: float, plain: Reached) -> Reached:
        sqnorm = float(self.s @ self.f)
        stretch = best_stretch(self.f, self.y, self.room, sqnorm, plain.b, 1.0 + 2.0 * plain.violation)
        return self._judged(dual, stretch**2 * sqnorm, plain._replace(stretch=stretch, outputs=stretch * self.f))

    def _mended(self, dual: float, plain: Reached) -> Reached:
        """w(alpha) with the change of the free coefficients that brings the margins of the free samples to one."""
        free = np.flatnonzero(self.is_free)
        change = self._change_of_free(free) if 1 < len(free) <= self.policy.most_free else None
        if change is None:
            return plain
        outputs = self.f.copy()
        add_scaled_rows(self.K, free, change, 0, len(outputs), outputs, 0)
        sqnorm = float(self.s @ self.f) + float(change @ (self.f[free] + outputs[free]))
        return self._judged(dual, sqnorm, plain._replace(stretch=1.0, outputs=outputs, mend=Mend(free, change)))

    def _change_of_free(self, free: Array) -> Array | None:
        """d with K_FF d = v_F - b and, with an offset, the sum zero; None where the matrix cannot be factored."""
        K = np.empty((len(free), len(free)), np.float32)
        gather(self.K, free, free, K)
        np.fill_diagonal(K, self.diagonal[free] + self.policy.ridge * self.diagonal[free].max())
        factor, failed = spotrf(K.T, overwrite_a=True, clean=False)  # the ridge is far above the rounding of float32
        if failed:
            return None
        right = np.stack([(self.y - self.f)[free], np.ones(len(free))], axis=1)
        found = spotrs(factor, right.astype(np.float32))[0].astype(np.float64)
        b = found[:, 0].sum() / found[:, 1].sum() if self.has_offset else 0.0
        change: Array = found[:, 0] - b * found[:, 1]
        return change

    def _judged(self, dual: float, sqnorm: float, point: Reached) -> Reached:
        """The gap of a primal point with these outputs, and the best offset."""
        b = self._best_offset(self.y - point.outputs)
        primal = 0.5 * sqnorm + stretched_loss(point.outputs, self.y, self.room, 1.0, b)
        return point._replace(relative_gap=relative(primal - dual, primal, dual), b=b)

    def _whole_round(self, violation: float) -> None:
        v = self.y - self.f  # in float64: every new C stretches the error of f, by a factor of a million in all
        tolerance = min(self.policy.whole_tolerance * violation, self.policy.greatest_tolerance)
        local = LocalProblem(self.K, self.diagonal, v, self.s, self.lower, self.upper)
        self.steps += solve_local(local, tolerance, self.policy.steps_a_round, self.has_offset)
        self.f = self.y - v

    def _working_set(self, violation: float) -> bool:
        """SMO on the worst samples. Whether it was over soon."""
        chosen, K = self._block_with(self._worst())
        size, q = len(chosen), len(K)
        v, diagonal = (_lengthened(each[chosen], q).astype(np.float32) for each in (self.y - self.f, self.diagonal))
        s, lower, upper = (_lengthened(each[chosen], q) for each in (self.s, self.lower, self.upper))
        tolerance = np.float32(min(self.policy.local_tolerance * violation, self.policy.greatest_tolerance))
        most = self.policy.steps_a_variable * size
        steps = solve_local(LocalProblem(K, diagonal, v, s, lower, upper), tolerance, most, self.has_offset)
        change = s[:size] - self.s[chosen]
        moved = change != 0.0
        self.s[chosen] = s[:size]
        add_scaled_rows(self.K, chosen[moved], change[moved], 0, len(self.f), self.f, 0)
        self.steps += steps
        return steps < self.policy.rushed * size

    def _block_with(self, wanted: Array) -> Block:
        """A working set that holds the wanted samples: the last one with the others replaced, if they are few."""
        if self._block is not None and self._block.replace(self.K, wanted, self.policy.replaced):
            return self._block
        size, q = len(wanted), padded(len(wanted))
        if self._memory is None or len(self._memory) < q * q:
            self._memory = np.empty(q * q, np.float32)
        K = self._memory[: q * q].reshape(q, q)
        gather(self.K, wanted, wanted, K)
        K[size:], K[:, size:] = 0.0, 0.0
        self._block = Block(wanted, K)
        return self._block

    def forget(self) -> None:
        """Give the memory of the working set back."""
        self._block, self._memory = None, None

    def _size(self) -> int:
        """The size of the next working set."""
        wanted = max(self.policy.working_set, self.policy.sets_a_free * np.count_nonzero(self.is_free))
        greatest = max(self.policy.working_set, int(self.policy.greatest_share * len(self.K)))
        return int(min(self.policy.greatest_set, greatest, wanted))

    def _worst(self) -> Array:
        """The greatest slopes of those that can rise, and the least of those that can fall, as many of each."""
        v, half = self.y - self.f, self._size() // 2
        is_in = np.zeros(len(v), np.bool_)
        for slopes, can_move in ((v, self.s < self.upper), (-v, self.s > self.lower)):
            movable = np.flatnonzero(can_move)
            worst = movable if len(movable) <= half else movable[np.argpartition(-slopes[movable], half)[:half]]
            is_in[worst] = True
        return np.flatnonzero(is_in)


def _better(one: Reached, other: Reached) -> Reached:
    return other if other.relative_gap < one.relative_gap else one


def balance(s: Array, v: Array, lower: Array, upper: Array) -> None:
    """Make the sum of s zero. The samples whose slopes v are the first to want it move to their bounds; the last of them moves
    a part of the way."""
    total = float(s.sum())
    room, ends = (s - lower, lower) if total > 0.0 else (upper - s, upper)
    order = np.argsort(v if total > 0.0 else -v, kind="stable")
    order = order[room[order] > 0.0]
    reached = np.cumsum(room[order])
    n_whole = int(np.searchsorted(reached, abs(total)))
    whole = order[:n_whole]
    s[whole] = ends[whole]
    if n_whole < len(order):
        s[order[n_whole]] -= float(s.sum())


def _lengthened(values: Array, n: int) -> Array:
    longer = np.zeros(n)
    longer[: len(values)] = values
    return longer

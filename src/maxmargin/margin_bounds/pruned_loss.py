r"""The exact loss of a problem at one w after the other, with as few margins as the bound (2) allows: A. Guillory, J. Bilmes,
"Practical Methods for Exploiting Bounds on Change in the Margin", 2007.

**Exact pruned evaluation** (Algorithms 1 and 2, for hinge, Huber (5) and zero-one loss). At w' all margins are computed and
kept, with the sums :math:`A = \sum_i C_i s_i` and :math:`S = \sum_i C_i s_i y_i x_i`, where :math:`s_i = -\ell'(m_i)` is the
slope. At a later w the bounds decide for most samples that they are still where they were, on the linear piece (s = 1) or on
the zero piece (s = 0). For the set E of the undecided the margins are computed, and

.. math:: \sum_i C_i \ell(m_i) = A - w \cdot S + \sum_{i \in E} C_i \left[ \ell(m_i) - s'_i (1 - m_i) \right], \qquad
          \sum_i C_i s_i y_i x_i = S + \sum_{i \in E} C_i (s_i - s'_i) y_i x_i ,

which is exact: a sample between the knees is never decided. This is the paper's sparse variant, which keeps one sum. A row is
added only if its slope has changed, so dense data do not need the sums for every i that Algorithm 1 stores either
(``maxmargin.margin_bounds.sorted_sums`` has them: Algorithms 1 and 2 as printed).

**The sorted index.** Within a list, bounds with the greatest radius rise with the stored margin, so the undecided samples are
in a range of the sorted list; within the range each has its own radius still. The sort is a counting sort into cells: it only
has to give a range of cells that contains the range of margins. It costs as much as a few passes over all stored margins. So
the first evaluations after margins were stored pass over all of them, and the sort follows when it would have been cheaper.

**When to store margins anew**: the adaptive rule of section 3, see :class:`PrunedLoss`. Every decision is made from counted
work, never by a clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.margin_bounds.bound import ROUNDED_UP, LossAt, Tally, longest_row, pieces_of, samples_of
from maxmargin.margin_bounds.pruned_loss_loops import (
    CELLS,
    ENTRY,
    Knees,
    SlopeSums,
    SortedIndex,
    Undecided,
    add_slopes,
    compare_weights,
    evaluate_all,
    examine,
    greatest_of_lists,
    sort_into_cells,
    undecided_in_cells,
    undecided_in_order,
)
from maxmargin.margin_bounds.spheres import Spheres
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF, Pieces


@dataclass(frozen=True)
class PruningPolicy:
    """What the parts of an evaluation cost, counted in stored elements of rows that follow each other in memory; and when it
    pays to prune."""

    overhead: float = 10.0
    """The paper's c: at most 1 / c of the time may be lost by pruning. An infinite c never prunes."""
    sample_elements: float = 8.0
    """Elements that a sample costs besides those of its row."""
    gap_elements: float = 4.0
    """Elements that it costs besides when some samples before it were left out."""
    far_elements: float = 16.0
    """Elements that it costs besides when it is anywhere in memory."""
    look_elements: float = 2.0
    """Elements that a look at one stored margin costs."""
    sort_elements: float = 17.0
    """Elements that sorting one stored margin costs."""
    call_elements: float = 40_000.0
    """Elements that a pruned evaluation costs before it has looked at a sample."""
    vector_passes: float = 4.0
    """Passes over vectors as long as w in a pruned evaluation."""
    setup_elements: float = 800_000.0
    """Elements that preparing centres and radii costs, however few the samples are."""
    setup_passes: float = 2.5
    """Passes over X besides for that."""
    spread: float = 4.0
    """Half the range of the sorted index, in mean distances of a margin from the knee."""

    def row_elements(self, problem: LinearProblem) -> float:
        """What a sample costs in the mean, in elements."""
        return problem.rows.n_stored / problem.n_samples + self.sample_elements

    def __post_init__(self) -> None:
        if not self.overhead > 0.0:
            raise ValueError(f"overhead must be positive; got {self.overhead!r}.")


@dataclass
class _Stored:
    """Margins at w', and the sums over them."""

    w: Array
    margins: Array
    sums: Array
    loss: float = 0.0
    slopes: float = 0.0
    is_sorted: bool = False


class _Work(NamedTuple):
    """What the parts of an evaluation cost on one problem, in elements, and the periods in evaluations that follow from (3)."""

    row: float
    all_looks: float
    all_samples: float
    call: float
    far: float
    first_period: float
    period: float

    @classmethod
    def of(cls, problem: LinearProblem, policy: PruningPolicy, is_prepared: bool) -> _Work:
        """``is_prepared``: the spheres were given, so that nothing has to be prepared."""
        n, row = problem.n_samples, policy.row_elements(problem)
        all_samples, all_looks = n * row, policy.look_elements * n
        call = 0.0 if is_prepared else policy.call_elements + policy.vector_passes * problem.rows.n_features
        first = policy.overhead * (policy.setup_passes + policy.setup_elements / all_samples)
        if is_prepared:
            first = 0.0 if policy.overhead < math.inf else math.inf
        elif call > 0.5 * all_samples:
            first = math.inf
        period = policy.overhead * (call + all_looks) / all_samples
        far = policy.far_elements - policy.gap_elements
        return cls(row + policy.gap_elements, all_looks, all_samples, call, far, first, period)

    def pays(self, count: int, is_sorted: bool) -> bool:
        """Whether examining ``count`` samples is cheaper than going through all of them in the order of memory."""
        return count * self.row + self.call + (0.0 if is_sorted else self.all_looks) <= self.all_samples

    def look_saving(self, count: int) -> float:
        """What a sorted index would have saved in a look at all stored margins that left ``count`` samples open."""
        return max(0.0, self.all_looks - count * self.far)


class PrunedLoss:
    """The loss of a problem and its subgradient at one w after the other, exactly, with as few margins as (2) allows.

    Margins are stored anew, at the cost of an evaluation of all samples, when SortPeriod evaluations have passed since the
    last time and either a) less than half of the samples were pruned the last time, or b) (pruned since then) - (evaluations
    since then) (pruned the last time) > SortCost. SortPeriod is (3) with c = ``overhead``: as storing margins is free while
    they are computed, what counts against it is the call and the look at them that may prune nothing. When so little is pruned
    that going through all samples in the order of memory is cheaper, that is done until margins are stored again. Nothing at
    all is prepared for a problem so small that a call costs more than half of the samples, and for others not before the
    evaluations have cost ``overhead`` times as much as that would. So the worst that pruning costs is 1 / ``overhead`` of the
    time, and with an infinite ``overhead`` every evaluation is a plain one.

    All vectors are in the layout of the compiled loops: one element more than there are features, the last for the intercept.
    """

    def __init__(
        self,
        problem: LinearProblem,
        shape: Pieces | None = None,
        *,
        spheres: Spheres | None = None,
        overhead: float | None = None,
        policy: PruningPolicy | None = None,
    ) -> None:
        policy = policy or PruningPolicy()
        self.policy = policy if overhead is None else replace(policy, overhead=overhead)
        self.problem = problem
        self.shape = pieces_of(problem.loss) if shape is None else shape
        self.tally = Tally()
        self.average = np.zeros(0)
        self._samples = samples_of(problem)
        self._weights = np.zeros(problem.rows.n_features + 1)
        self._spheres = spheres
        self._stored: _Stored | None = None
        self._stored_weight = 0.0
        self._work = _Work.of(problem, self.policy, is_prepared=spheres is not None)
        self._period = self._work.first_period
        self._is_plain = True
        self._since = self._pruned_since = self._pruned_last = 0
        self._look_cost = 0.0

    def evaluate(self, w: Array, weight: float = 0.0) -> LossAt:
        """The loss at w and minus its gradient. With a ``weight``, weight s_i is added to what :meth:`averages` returns."""
        self.tally.evaluations += 1
        if weight != 0.0 and not len(self.average):
            self.average = np.zeros(self.problem.n_samples)
        if self._is_due():
            result = self._store(w, weight)
        elif self._is_plain:
            result = self._plain(w, weight)
        else:
            result = self._pruned(w, weight)
        self.tally.examined += result.examined
        return result

    @property
    def examined_samples(self) -> Array:
        """Which samples the last evaluation looked at, if it was a pruned one."""
        return self._chosen[: self.problem.n_samples - self._pruned_last].copy()

    def averages(self) -> Array:
        """sum over the evaluations of their weight times s_i, for each sample."""
        if self._stored is not None and self._stored_weight != 0.0:
            add_slopes(self._stored.margins, self.shape, SlopeSums(self.average, self._stored_weight))
            self._stored_weight = 0.0
        return self.average

    def forget_averages(self) -> None:
        self.average[:] = 0.0
        self._stored_weight = 0.0

    def reshape(self, shape: Pieces) -> None:
        """Another loss of the same samples. What was stored belongs to the old one."""
        self.averages()
        self.shape = shape
        self._stored, self._is_plain, self._pruned_last = None, True, 0

    def _is_due(self) -> bool:
        """The rule of section 3."""
        if self._since < self._period:
            return False
        saved_before = self._pruned_since - self._since * self._pruned_last
        return 2 * self._pruned_last < self.problem.n_samples or saved_before > self.problem.n_samples

    def _store(self, w: Array, weight: float) -> LossAt:
        """Algorithm 1 at w, but for the sort."""
        self.averages()
        if self._spheres is None:
            self._spheres = Spheres.default(self.problem)
        if self._stored is None:
            self._prepare()
        stored = self._stored
        assert stored is not None
        result = self._plain(w, weight, stored.margins)
        np.copyto(stored.w, w)
        np.copyto(stored.sums, result.weights)
        stored.loss, stored.slopes, stored.is_sorted = result.loss, result.slopes, False
        self.tally.stored += 1
        self._since = self._pruned_since = self._pruned_last = 0
        self._period = self._work.period
        self._is_plain, self._look_cost = False, 0.0
        return result

    def _prepare(self) -> None:
        problem, spheres = self.problem, self._spheres
        assert spheres is not None
        n, width = problem.n_samples, problem.rows.n_features + 1
        self._stored = _Stored(np.empty(width), np.empty(n), np.empty(width))
        self._chosen, self._chosen_margins = np.empty(n + 1, np.uint32), np.empty(n + 1)
        self._is_around_origin = not spheres.centres[:, :-1].any()
        self._lists = (2 * spheres.cluster + (problem.y > 0)).astype(np.uint16)
        n_lists = 2 * len(spheres.centres)
        self._greatest = np.zeros(n_lists)
        greatest_of_lists(self._lists, spheres.radii, self._greatest)
        squared_centres = np.einsum("kj,kj->k", spheres.centres, spheres.centres)
        greatest_norm = math.sqrt(float(squared_centres.max())) + float(spheres.radii.max())
        self._rounding = 4.0 * (longest_row(problem) + 8) * UNIT_ROUNDOFF * greatest_norm

    def _plain(self, w: Array, weight: float, margins: Array | None = None) -> LossAt:
        """Every sample, in the order of memory."""
        self.tally.plain += 1
        self._since += 1
        self._pruned_last = 0
        self._weights[:] = 0.0
        averages = SlopeSums(self.average, weight)
        kept = _NOWHERE if margins is None else margins
        loss, slopes = evaluate_all(self._samples, w, self.shape, self._weights, kept, averages)
        return LossAt(loss, self._weights, slopes, self.problem.n_samples)

    def _pruned(self, w: Array, weight: float) -> LossAt:
        """Algorithm 2."""
        n, stored = self.problem.n_samples, self._stored
        assert stored is not None
        knees, product = self._move(w, stored)
        count = self._undecided(knees)
        if not self._work.pays(count, stored.is_sorted):
            self._is_plain = True
            return self._plain(w, weight)
        self._since += 1
        self._pruned_last = n - count
        self._pruned_since += n - count
        self._stored_weight += weight
        undecided = Undecided(self._chosen, self._chosen_margins, count)
        averages = SlopeSums(self.average, weight)
        change, slopes = examine(self._samples, w, self.shape, undecided, self._weights, averages)
        settled = stored.loss if self.shape.is_step else stored.slopes - product
        return LossAt(settled + change, self._weights, stored.slopes + slopes, count)

    def _move(self, w: Array, stored: _Stored) -> tuple[Knees, float]:
        """How far w is from w', where the knees of each list are, seen from its stored margins; and w . S."""
        d, spheres = self.problem.rows.n_features, self._spheres
        assert spheres is not None
        squared, norm, product = compare_weights(w, stored.w, stored.sums, d, self._weights)
        slack = self._rounding * (2.0 * math.sqrt(norm + w[d] ** 2) + math.sqrt(squared))
        centres, last = spheres.centres, w[d] - stored.w[d]
        shifts = centres[:, d] * last if self._is_around_origin else centres @ (w - stored.w)
        by_list = np.stack([-shifts, shifts], axis=1).ravel()
        low, high = self.shape.low, self.shape.high
        low = low if low < high else float(np.nextafter(low, -np.inf))  # a margin on the knee is on the zero piece
        distance = math.sqrt(squared) * ROUNDED_UP
        return Knees(low, high, self.shape.low - by_list - slack, self.shape.high - by_list + slack, distance), product

    def _undecided(self, knees: Knees) -> int:
        """Put the samples that the bounds do not decide into ``_chosen``."""
        stored, spheres = self._stored, self._spheres
        assert stored is not None
        assert spheres is not None
        n, chosen = self.problem.n_samples, (self._chosen, self._chosen_margins)
        if not stored.is_sorted and self._look_cost >= self.policy.sort_elements * n:
            self._sort(stored, spheres)
        if stored.is_sorted:
            reach = knees.distance * self._greatest * ROUNDED_UP
            return int(undecided_in_cells(self._index, knees, reach, *chosen))
        count = int(undecided_in_order(stored.margins, spheres.radii, self._lists, knees, *chosen))
        self._look_cost += self._work.look_saving(count)
        return count

    def _sort(self, stored: _Stored, spheres: Spheres) -> None:
        if self.tally.sorted == 0:
            self._entries = np.empty(self.problem.n_samples, ENTRY)
            self._starts = np.empty(CELLS * 2 * len(spheres.centres) + 1, np.int64)
        knee = self.shape.high
        spread = self.policy.spread * float(np.mean(np.abs(stored.margins - knee))) or 1.0
        self._index = SortedIndex(self._entries, self._starts, knee - spread, CELLS / (2.0 * spread))
        sort_into_cells(stored.margins, spheres.radii, self._lists, self._index)
        stored.is_sorted = True
        self.tally.sorted += 1


_NOWHERE = np.empty(0)

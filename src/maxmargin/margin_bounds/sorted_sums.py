r"""Algorithms 1 and 2 as they are printed: A. Guillory, J. Bilmes, "Practical Methods for Exploiting Bounds on Change in
the Margin", 2007, sections 2 and 3.

**Algorithm 1** sorts. It computes the margins :math:`m'_i` of all samples at the current weights, which become w', sorts the
samples by them, and stores sums of :math:`C_j y_j x_j` over the first i samples: for every i, or for i = Boundary alone. The
boundary is the first sample with a margin of at least one.

**Algorithm 2** evaluates at a later w. No margin has moved by more than :math:`m_\delta = |w - w'| \max_i |x_i|`. From the
boundary it goes through the list in both directions and computes margins, until a bound decides the rest of the list:

- forwards, until :math:`m'_i - m_\delta \ge 1`. This sample and all after it have no loss;
- backwards, until :math:`m'_i + m_\delta < 1`. This sample and all before it are on the linear piece, and the stored sum gives
  their loss and their gradient.

**When to sort.** With s d N stored elements of X, (4) estimates both times without their constant factors:

.. math:: \text{SortPeriod} = c \, \frac{s d N + N \log N + d}{s d N + d}, \qquad
          \text{SortCost} = \frac{s d N + N \log N + d}{s d} .

**Where the printed text is open or wrong:**

- Sum_i is over the first i samples of the list, wherever it is used.
- The backward traversal begins one sample below Boundary, because the forward traversal has met Boundary itself.
- Each sample counts with its C_i, and log is the natural logarithm.
- :math:`m_\delta` grows by a bound on the rounding error of a margin, which is about 1e-13 of it.

:class:`maxmargin.margin_bounds.pruned_loss.PrunedLoss` is our variant. The solvers use it unless the paper's is asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.margin_bounds.bound import ROUNDED_UP, LossAt, Tally, longest_row, pieces_of, samples_of
from maxmargin.margin_bounds.pruned_loss_loops import SlopeSums, evaluate_all
from maxmargin.margin_bounds.sorted_sums_loops import ListMove, SortedList, add_prefixes, sum_all, sum_to_boundary, traverse
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF, Pieces


class Resort(Enum):
    """When the margins are computed and sorted again."""

    PERIODIC = "every SortPeriod evaluations"
    """Lines 1 to 3 of Algorithms 2 and 3."""
    ADAPTIVE = "when SortPeriod evaluations have passed, and little is pruned or less than before"
    """Section 3: SortPeriod evaluations have passed, and a) the last one pruned less than half of the samples, or b)
    (pruned since the sort) - (evaluations since the sort) (pruned by the last one) > SortCost."""


@dataclass(frozen=True)
class PrintedEvaluation:
    """How Algorithm 2 is run. The defaults are what the paper's experiments use.

    Parameters
    ----------
    resort : Resort
        When the samples are sorted again.
    stores_all : bool
        True stores Sum_i for every i, as Algorithm 1 is printed, in 8 N (d + 1) bytes. False stores Sum_Boundary alone and
        computes the other sums from it, as section 3 does for sparse data.
    splits_classes : bool
        True sorts each class in a list of its own, so that a change of the offset moves all margins of a list alike. False
        treats the offset as the weight of one more feature. Section 3 has both.
    """

    resort: Resort = Resort.ADAPTIVE
    stores_all: bool = False
    splits_classes: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.resort, Resort):
            raise ValueError(f"resort must be Resort.ADAPTIVE or Resort.PERIODIC; got {self.resort!r}.")


class SortCosts(NamedTuple):
    """Estimates of the work of a sort, of an evaluation, and of one margin. They count elements of X and comparisons, and have
    no constant factors."""

    sort: float
    evaluation: float
    margin: float

    @classmethod
    def of(cls, problem: LinearProblem) -> SortCosts:
        """Estimate as (4) does."""
        n, d, stored = problem.n_samples, problem.rows.n_features, problem.rows.n_stored
        return cls(stored + n * math.log(n) + d, stored + d, max(stored, 1) / n)

    @classmethod
    def of_samples(cls, problem: LinearProblem, k: int) -> SortCosts:
        """Estimate for Algorithm 3, by (3): nothing is sorted, and an evaluation looks at k samples."""
        n, d, stored = problem.n_samples, problem.rows.n_features, problem.rows.n_stored
        return cls(stored + d, k * stored / n + d, max(stored, 1) / n)

    def period(self, c: float) -> float:
        """SortPeriod, (3)."""
        return c * self.sort / self.evaluation

    @property
    def sort_in_margins(self) -> float:
        """SortCost of section 3."""
        return self.sort / self.margin


class Resorting:
    """Decides when to sort: lines 1 to 4 of Algorithm 2, or the rule of section 3."""

    def __init__(self, resort: Resort, n_samples: int, period: float, sort_cost: float) -> None:
        self.period, self.sort_cost = math.ceil(period) if math.isfinite(period) else math.inf, sort_cost
        self._resort, self._n_samples = resort, n_samples
        self._since, self._pruned, self._pruned_last = 0, 0, 0
        self._has_sorted = False

    @property
    def is_due(self) -> bool:
        if not self._has_sorted:
            return self.period < math.inf
        if self._since < self.period or self._resort is Resort.PERIODIC:
            return self._since >= self.period
        benefit = self._pruned - self._since * self._pruned_last
        return 2 * self._pruned_last < self._n_samples or benefit > self.sort_cost

    def begin(self) -> None:
        self._since, self._pruned, self._has_sorted = 0, 0, True

    def forget(self) -> None:
        """Make the next evaluation sort, because the sorted list is of no use any more."""
        self._has_sorted = False

    def count(self, pruned: int) -> None:
        self._since += 1
        self._pruned += pruned
        self._pruned_last = pruned


class SortedSums:
    """Evaluates the loss of a problem and its subgradient at one w after the other, exactly, by Algorithms 1 and 2 as printed.

    ``c`` is the paper's. With an infinite c every evaluation computes all margins. After an evaluation that prunes nothing, all
    margins are computed until the next sort (section 4.2).

    The loss may be hinge, Huber (5), zero-one or squared hinge loss, X dense or sparse, and the problem with or without an
    offset. A vector w has one element more than there are features; the last is that of the offset.
    """

    def __init__(
        self,
        problem: LinearProblem,
        shape: Pieces | None = None,
        settings: PrintedEvaluation | None = None,
        *,
        c: float = 10.0,
    ) -> None:
        if not c > 0.0:
            raise ValueError(f"c must be positive; got {c!r}.")
        self.problem, self.settings = problem, settings or PrintedEvaluation()
        self.shape = pieces_of(problem.loss) if shape is None else shape
        self.tally, self.average = Tally(), np.zeros(0)
        costs = SortCosts.of(problem)
        self.resorting = Resorting(self.settings.resort, problem.n_samples, costs.period(c), costs.sort_in_margins)
        self._samples = samples_of(problem)
        self._weights, self._moved, self._w = (np.zeros(problem.rows.n_features + 1) for _ in range(3))
        has_offset = problem.intercept_scaling != 0.0
        self._splits = has_offset and self.settings.splits_classes
        bias = 0.0 if self._splits else problem.intercept_scaling
        self._radius = math.sqrt(float(problem.rows.squared_norms(bias).max()))
        longest = math.sqrt(self._radius**2 + problem.intercept_scaling**2)
        self._rounding = 4.0 * (longest_row(problem) + 8) * UNIT_ROUNDOFF * longest
        self._lists: list[SortedList] = []
        self._prefix_weights: list[Array] = []
        self._is_plain = True

    def evaluate(self, w: Array, weight: float = 0.0) -> LossAt:
        """Return the loss at w and its subgradient. With a ``weight``, weight times the slope s_i of each sample is added to
        :meth:`averages`."""
        self.tally.evaluations += 1
        if weight != 0.0 and not len(self.average):
            self.average = np.zeros(self.problem.n_samples)
        if self.resorting.is_due:  # lines 1 to 3
            self._sort_by_margin(w)
        result = self._plain(w, weight) if self._is_plain else self._traversed(w, weight)
        self._is_plain = self._is_plain or result.examined == self.problem.n_samples
        self.resorting.count(self.problem.n_samples - result.examined)
        self.tally.examined += result.examined
        return result

    def averages(self) -> Array:
        """Return, for each sample, the sum over the evaluations of their weight times its slope s_i."""
        for listed, weights in zip(self._lists, self._prefix_weights, strict=True):
            if weights.any():
                add_prefixes(listed.samples, weights, self.average)
        return self.average

    def forget_averages(self) -> None:
        self.averages()[:] = 0.0

    def reshape(self, shape: Pieces) -> None:
        """Change to another loss of the same samples. The next evaluation sorts."""
        self.averages()
        self.shape, self._lists, self._prefix_weights, self._is_plain = shape, [], [], True
        self.resorting.forget()

    def _sort_by_margin(self, w: Array) -> None:
        """Run Algorithm 1 for one list, or for one list a class."""
        self.averages()
        np.copyto(self._w, w)
        margins = np.empty(self.problem.n_samples)
        without_gradient = self.shape._replace(is_step=True)
        evaluate_all(self._samples, w, without_gradient, self._moved, margins, SlopeSums(self.average, 0.0))
        classes = [self.problem.y < 0, self.problem.y > 0] if self._splits else [np.ones(len(margins), bool)]
        self._lists = [self._sorted(margins, np.flatnonzero(members)) for members in classes]
        self._prefix_weights = [np.zeros(len(listed.samples) + 1) for listed in self._lists]
        self.resorting.begin()
        self.tally.sorted += 1
        self.tally.stored += 1
        self.tally.examined += self.problem.n_samples
        self._is_plain = False

    def _sorted(self, margins: Array, members: Array) -> SortedList:
        order = np.argsort(margins[members], kind="stable")  # line 3
        samples = members[order].astype(np.uint32)
        knee = self.shape.high if self.shape.is_step else 1.0
        boundary = int(np.searchsorted(margins[samples], knee))  # line 4
        costs = np.concatenate([[0.0], np.cumsum(self.problem.C[samples])])
        sums = np.zeros((len(samples) + 1 if self.settings.stores_all else 1, len(self._w)))
        if self.settings.stores_all:
            sum_all(self._samples, samples, sums)
        else:
            sum_to_boundary(self._samples, samples[:boundary], sums)
        return SortedList(samples, margins[samples], costs, sums, boundary)

    def _traversed(self, w: Array, weight: float) -> LossAt:
        """Algorithm 2, lines 5 to 23."""
        shifts, reach = self._reach(w)
        self._weights[:] = 0.0
        loss, slopes, examined = 0.0, 0.0, 0
        for listed, shift, prefixes in zip(self._lists, shifts, self._prefix_weights, strict=True):
            move, averages = ListMove(shift, reach, self._moved), SlopeSums(self.average, weight)
            found = traverse(self._samples, w, self.shape, listed, move, self._weights, averages)
            prefixes[found.first] += weight if found.first else 0.0
            loss, slopes, examined = loss + found.loss, slopes + found.slopes, examined + found.examined
        return LossAt(loss, self._weights, slopes, examined)

    def _reach(self, w: Array) -> tuple[tuple[float, ...], float]:
        """Return how far the margins of each list moved with the offset, and m_delta of line 5."""
        move = w - self._w
        by_offset = float(move[-1]) * self.problem.intercept_scaling
        shifts = (-by_offset, by_offset) if self._splits else (0.0,)
        distance = float(np.linalg.norm(move[:-1] if self._splits else move))
        slack = self._rounding * (float(np.linalg.norm(w)) + float(np.linalg.norm(self._w)))
        return shifts, distance * self._radius * ROUNDED_UP + slack

    def _plain(self, w: Array, weight: float) -> LossAt:
        """Compute all margins, in the order of memory."""
        self.tally.plain += 1
        self._weights[:] = 0.0
        averages = SlopeSums(self.average, weight)
        loss, slopes = evaluate_all(self._samples, w, self.shape, self._weights, _NOWHERE, averages)
        return LossAt(loss, self._weights, slopes, self.problem.n_samples)


_NOWHERE = np.empty(0)

r"""Bounds on the change in the margin: A. Guillory, J. Bilmes, "Practical Methods for Exploiting Bounds on Change in the
Margin", 2007.

When w' moves to w, the margin of sample i moves by :math:`y_i (w - w') \cdot x_i`, and by Cauchy and Schwarz, for any centre c,

.. math:: \left| y_i (w - w') \cdot x_i - y_i (w - w') \cdot c \right| \le |w - w'| \, |x_i - c| .

With c = 0 that is the paper's (2); another c is its "sphere with a different center" (section 5), and a centre for each cluster
of the data its "separate bounds". The product with c, the *shift*, is one number for all samples of one class and one
cluster: these form a *list*. Where there is an intercept, every centre has the constant feature that every row has: the move of
b is then in the shift, exactly and apart for each class (the two lists of section 3), and :math:`|w - w'|` and
:math:`|x_i - c|` are over the other features alone.

**Exact pruned evaluation** (Algorithms 1 and 2, for hinge, Huber (5) and zero-one loss). At w' all margins are computed and
kept, with the sums :math:`A = \sum_i C_i s_i` and :math:`S = \sum_i C_i s_i y_i x_i`, where :math:`s_i = -\ell'(m_i)` is the
slope. At a later w the bounds decide for most samples that they are still where they were, on the linear piece (s = 1) or on
the zero piece (s = 0). For the set E of the undecided the margins are computed, and

.. math:: \sum_i C_i \ell(m_i) = A - w \cdot S + \sum_{i \in E} C_i \left[ \ell(m_i) - s'_i (1 - m_i) \right], \qquad
          \sum_i C_i s_i y_i x_i = S + \sum_{i \in E} C_i (s_i - s'_i) y_i x_i ,

which is exact: a sample between the knees is never decided. That is the paper's sparse variant, which carries one sum; but a
row is added only where its slope has changed, so the sums for every i that Algorithm 1 stores are not needed for dense data
either (``maxmargin.margin_bounds.sorted_sums`` has them: Algorithms 1 and 2 as printed).

**The sorted index.** Within a list, bounds with the greatest radius rise with the stored margin, so the undecided samples are
in a range of the sorted list; within the range each has its own radius still. The sort is a counting sort into cells: a range
of cells contains the range of margins, and no more is asked of it. It costs as much as a few looks at every stored margin, so
the first looks after margins were stored go through all of them, and it is sorted when that would have been cheaper.

**When to store margins anew**: the adaptive rule of section 3, see :class:`PrunedLoss`. Every decision is made from counted
work, never by a clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array, CsrRows
from maxmargin.margin_bounds.pruned_loss_loops import (
    CELLS,
    ENTRY,
    add_slopes,
    compare_weights,
    evaluate_all,
    examine,
    greatest_of_lists,
    sort_into_cells,
    undecided_in_cells,
    undecided_in_order,
)
from maxmargin.margin_bounds.spheres import Spheres as Spheres
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF, Hinge, Huber, Loss, SquaredHinge

STEP_ELEMENTS = 8.0
"""What a sample costs besides its stored elements, counted in elements."""
GAP_ELEMENTS, FAR_ELEMENTS = 4.0, 16.0
"""What it costs besides when some before it were left out, and when it is anywhere in memory."""
LOOK_ELEMENTS, SORT_ELEMENTS, SETUP_PASSES = 2.0, 17.0, 2.5
"""What a look at a stored margin and what sorting it costs; and the passes over X that it takes to know centres and radii."""
CALL_ELEMENTS, VECTOR_PASSES = 40_000.0, 4.0
"""What a pruned evaluation costs before it has looked at a sample: so much, and so many passes over vectors as long as w."""
SETUP_ELEMENTS = 800_000.0
"""What preparing costs however few the samples are."""
SPREAD = 4.0
"""The cells of the index span this many mean distances of a margin from the knee to either side."""
ROUNDED_UP = 1.0 + 1e-12
"""More than what rounding can take from a computed distance."""


def margin_bounds(margins: Array, distance: float, radii: Array | float, shift: Array | float = 0.0) -> tuple[Array, Array]:
    """(2): the least and the greatest margin that each sample can have at w. ``margins`` are those at w', ``distance`` is
    |w - w'|, ``radii`` are the norms |x_i| or their maximum; or, with ``shift`` = y_i (w - w') . c, the |x_i - c|."""
    if not distance >= 0.0:
        raise ValueError(f"A distance is not negative; got {distance!r}.")
    middle, reach = margins + shift, distance * np.asarray(radii)
    return middle - reach, middle + reach


class Shape(NamedTuple):
    """A loss by its pieces: 1 - m (or 1, if it is a step) up to the margin ``low``, zero from ``high`` on, and
    curvature (high - m)^2 / 2 between."""

    low: float
    high: float
    curvature: float = 0.0
    is_step: bool = False


HINGE, ZERO_ONE = Shape(1.0, 1.0), Shape(0.0, 0.0, is_step=True)
SQUARED_HINGE = Shape(-np.inf, 1.0, 2.0)
"""All of it that can be pruned is the zero piece."""


def huber(width: float) -> Shape:
    """(5): a knee at the distance ``width`` to either side of 1."""
    return Shape(1.0 - Huber(width).width, 1.0 + width, 0.5 / width)


def shape_of(loss: Loss) -> Shape:
    if isinstance(loss, Huber):
        return huber(loss.width)
    if isinstance(loss, Hinge | SquaredHinge):
        return HINGE if isinstance(loss, Hinge) else SQUARED_HINGE
    raise ValueError(f"{loss!r} has no piece on which a sample need not be looked at: use hinge, Huber or squared hinge loss.")


class Evaluation(NamedTuple):
    """sum_i C_i loss(m_i); ``weights`` = sum_i C_i s_i y_i x_i, which is minus its (sub)gradient, and w(alpha) for
    alpha_i = C_i s_i; ``slopes`` = sum_i C_i s_i; and how many margins had to be computed. ``weights`` is a view that the next
    evaluation changes."""

    loss: float
    weights: Array
    slopes: float
    examined: int


@dataclass
class _Stored:
    """Margins at w', the sums over them, and the sorted index if there is one."""

    w: Array
    margins: Array
    sums: Array
    loss: float = 0.0
    slopes: float = 0.0
    is_sorted: bool = False
    origin: float = 0.0
    scale: float = 1.0


@dataclass
class Tally:
    """What has been done so far."""

    evaluations: int = 0
    plain: int = 0
    stored: int = 0
    sorted: int = 0
    examined: int = 0


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
        self, problem: LinearProblem, shape: Shape | None = None, *, spheres: Spheres | None = None, overhead: float = 10.0
    ) -> None:
        if not overhead > 0.0:
            raise ValueError(f"overhead must be positive; got {overhead!r}.")
        self.problem = problem
        self.shape = shape_of(problem.loss) if shape is None else shape
        self.tally = Tally()
        self.average = np.zeros(0)
        self._rows = problem.compiled_rows
        self._C, self._stride = costs_and_stride(problem.C)
        self._weights = np.zeros(problem.rows.n_features + 1)
        self._spheres = spheres
        self._stored: _Stored | None = None
        self._stored_weight = 0.0
        self._row_elements = problem.rows.n_stored / problem.n_samples + STEP_ELEMENTS
        self._overhead = overhead
        self._pass_elements = problem.n_samples * self._row_elements
        self._call_elements = 0.0 if spheres is not None else CALL_ELEMENTS + VECTOR_PASSES * problem.rows.n_features
        self._look_elements = LOOK_ELEMENTS * problem.n_samples
        self._period = overhead * (SETUP_PASSES + SETUP_ELEMENTS / self._pass_elements)
        if spheres is not None:
            self._period = 0.0 if overhead < math.inf else math.inf
        elif self._call_elements > 0.5 * self._pass_elements:
            self._period = math.inf
        self._is_plain = True
        self._since = self._pruned_since = self._pruned_last = 0
        self._look_cost = 0.0

    def evaluate(self, w: Array, weight: float = 0.0) -> Evaluation:
        """With a ``weight``, weight s_i is added to what :meth:`averages` returns."""
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
            add_slopes(self._stored.margins, *self.shape[:3], self._stored_weight, self.average)
            self._stored_weight = 0.0
        return self.average

    def forget_averages(self) -> None:
        self.average[:] = 0.0
        self._stored_weight = 0.0

    def reshape(self, shape: Shape) -> None:
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

    def _store(self, w: Array, weight: float) -> Evaluation:
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
        self._period = self._overhead * (self._call_elements + self._look_elements) / self._pass_elements
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
        longest = int(np.diff(self._rows.indptr).max()) if isinstance(self._rows, CsrRows) else width
        greatest_norm = math.sqrt(float(squared_centres.max())) + float(spheres.radii.max())
        self._rounding = 4.0 * (longest + 8) * UNIT_ROUNDOFF * greatest_norm

    def _plain(self, w: Array, weight: float, margins: Array | None = None) -> Evaluation:
        """Every sample, in the order of memory."""
        self.tally.plain += 1
        self._since += 1
        self._pruned_last = 0
        self._weights[:] = 0.0
        loss, slopes = evaluate_all(
            self._rows, self.problem.y, self._C, self._stride, w, *self.shape, self._weights,
            _NOWHERE if margins is None else margins, margins is not None, self.average, weight,
        )  # fmt: skip
        return Evaluation(loss, self._weights, slopes, self.problem.n_samples)

    def _pruned(self, w: Array, weight: float) -> Evaluation:
        """Algorithm 2."""
        n, stored = self.problem.n_samples, self._stored
        assert stored is not None
        move = self._move(w, stored)
        count = self._undecided(move)
        look = 0.0 if stored.is_sorted else self._look_elements
        if count * (self._row_elements + GAP_ELEMENTS) + self._call_elements + look > self._pass_elements:
            self._is_plain = True
            return self._plain(w, weight)
        self._since += 1
        self._pruned_last = n - count
        self._pruned_since += n - count
        self._stored_weight += weight
        change, slopes = examine(
            self._rows, self.problem.y, self._C, self._stride, w, *self.shape, self._chosen, self._chosen_margins, count,
            self._weights, self.average, weight,
        )  # fmt: skip
        settled = stored.loss if self.shape.is_step else stored.slopes - move.product
        return Evaluation(settled + change, self._weights, stored.slopes + slopes, count)

    def _move(self, w: Array, stored: _Stored) -> _Move:
        """How far w is from w', and where the knees of each list are, seen from its stored margins."""
        d, spheres = self.problem.rows.n_features, self._spheres
        assert spheres is not None
        squared, norm, product = compare_weights(w, stored.w, stored.sums, d, self._weights)
        slack = self._rounding * (2.0 * math.sqrt(norm + w[d] ** 2) + math.sqrt(squared))
        centres, last = spheres.centres, w[d] - stored.w[d]
        shifts = centres[:, d] * last if self._is_around_origin else centres @ (w - stored.w)
        by_list = np.stack([-shifts, shifts], axis=1).ravel()
        distance = math.sqrt(squared) * ROUNDED_UP
        return _Move(distance, product, self.shape.low - by_list - slack, self.shape.high - by_list + slack)

    def _undecided(self, move: _Move) -> int:
        """Put the samples that the bounds do not decide into ``_chosen``."""
        stored, spheres = self._stored, self._spheres
        assert stored is not None
        assert spheres is not None
        n, chosen = self.problem.n_samples, (self._chosen, self._chosen_margins)
        low, high = self.shape[:2]
        knees = (low if low < high else np.nextafter(low, -np.inf), high)  # a margin on the knee is on the zero piece
        if not stored.is_sorted and self._look_cost >= SORT_ELEMENTS * n:
            self._sort(stored, spheres)
        if stored.is_sorted:
            reach = move.distance * self._greatest * ROUNDED_UP
            index = self._entries, self._starts, stored.origin, stored.scale
            return int(undecided_in_cells(*index, *knees, reach, move.distance, move.lows, move.highs, *chosen))
        samples = stored.margins, spheres.radii, self._lists
        count = int(undecided_in_order(*samples, *knees, move.distance, move.lows, move.highs, *chosen))
        self._look_cost += max(0.0, n * LOOK_ELEMENTS - count * (FAR_ELEMENTS - GAP_ELEMENTS))
        return count

    def _sort(self, stored: _Stored, spheres: Spheres) -> None:
        if self.tally.sorted == 0:
            self._entries = np.empty(self.problem.n_samples, ENTRY)
            self._starts = np.empty(CELLS * 2 * len(spheres.centres) + 1, np.int64)
        knee = self.shape.high
        spread = SPREAD * float(np.mean(np.abs(stored.margins - knee))) or 1.0
        stored.origin, stored.scale = knee - spread, CELLS / (2.0 * spread)
        sort_into_cells(stored.margins, spheres.radii, self._lists, stored.origin, stored.scale, self._entries, self._starts)
        stored.is_sorted = True
        self.tally.sorted += 1


class _Move(NamedTuple):
    distance: float
    product: float
    lows: Array
    highs: Array


_NOWHERE = np.empty(0)


def costs_and_stride(C: Array) -> tuple[Array, np.uint64]:
    """C for the loops: one value if it is the same for all, and the stride to read it with."""
    if C.strides == (0,) or (C == C[0]).all():
        return np.ascontiguousarray(C[:1]), np.uint64(0)
    return np.ascontiguousarray(C), np.uint64(1)

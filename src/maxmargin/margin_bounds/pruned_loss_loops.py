"""The passes of the exact pruned evaluation; ``maxmargin.margin_bounds.pruned_loss`` has the mathematics.

A loss is given by its ``maxmargin.problem.losses.Pieces``: it is 1 - m (or 1, if it is a step) up to the margin ``low``, zero
from ``high`` on, and curvature (high - m)^2 / 2 between. Hinge and zero-one loss have low = high. ``slope`` is minus the
derivative.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import prefetch, prefetch_row_start, prefetch_whole_row, row_add, row_dot, row_sqnorm
from maxmargin.data.rows import Array, CsrRows, DenseRows

FAST = {"reassoc", "contract", "nsz", "arcp"}
ENTRY = np.dtype([("margin", "f8"), ("radius", "f4"), ("sample", "u4")])
"""A sample in the sorted index: what its bounds need, side by side."""
CELLS = 4096
"""Cells that each list is sorted into."""
LOCATED_AHEAD, FETCHED_AHEAD = np.uint64(12), np.uint64(6)
"""How many samples ahead a row is located and fetched."""


class Samples(NamedTuple):
    """The data of a problem. ``C`` has one element a sample, or one for all: ``stride`` is 1 or 0."""

    rows: CsrRows | DenseRows
    y: Array
    C: Array
    stride: np.uint64


class SlopeSums(NamedTuple):
    """Where slopes are summed up over evaluations: sums_i += weight slope_i. With the weight zero ``sums`` may be empty."""

    sums: Array
    weight: float


class SortedIndex(NamedTuple):
    """The samples of every list, cell by cell in ascending margin. ``starts`` has the first place of each cell of each list,
    and the end; the cell of a margin is (margin - origin) scale."""

    entries: Array
    starts: Array
    origin: float
    scale: float


class Knees(NamedTuple):
    """Where the loss changes its piece: at the margins ``low`` and ``high`` when margins were stored. ``lows`` and ``highs``
    are where the present knees of each list are as seen from its stored margins, that is without its shift, and
    ``distance`` is |w - w'|."""

    low: float
    high: float
    lows: Array
    highs: Array
    distance: float


class Undecided(NamedTuple):
    """The samples that the bounds leave open and their stored margins: the first ``count`` elements."""

    samples: Array
    margins: Array
    count: int


@njit(inline="always")
def slope_of(margin, pieces):
    """Minus the derivative: 1 up to ``low``, 0 from ``high`` on."""
    if margin >= pieces.high:
        return 0.0
    if margin <= pieces.low:
        return 1.0
    return pieces.curvature * (pieces.high - margin)


@njit(inline="always")
def loss_of(margin, pieces):
    if margin >= pieces.high:
        return 0.0
    if pieces.is_step:
        return 1.0
    if margin <= pieces.low:
        return 1.0 - margin
    return 0.5 * pieces.curvature * (pieces.high - margin) * (pieces.high - margin)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def evaluate_all(samples, w, pieces, gradient, margins, averages):
    """Every sample, in the order of memory: returns sum_i C_i loss(m_i) and sum_i C_i slope_i, and adds
    sum_i C_i slope_i y_i x_i to ``gradient``. The margins are stored, unless ``margins`` is empty."""
    total, slopes = 0.0, 0.0
    rows, y, keeps = samples.rows, samples.y, margins.shape[0] > 0
    for i in range(np.uint64(y.shape[0])):
        sign = np.float64(y[i])
        margin = sign * row_dot(rows, i, w)
        if keeps:
            margins[i] = margin
        if margin < pieces.high:
            cost, slope = samples.C[i * samples.stride], slope_of(margin, pieces)
            total += cost * loss_of(margin, pieces)
            slopes += cost * slope
            if not pieces.is_step:
                row_add(rows, i, cost * slope * sign, gradient)
            if averages.weight != 0.0:
                averages.sums[i] += averages.weight * slope
    return total, slopes


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def sum_clusters(rows, cluster, every, sums, sizes):
    """Add one row out of ``every`` to the line of its cluster in ``sums``, and count them."""
    for i in range(np.uint64(0), np.uint64(cluster.shape[0]), np.uint64(every)):
        k = np.uint64(cluster[i])
        sizes[k] += 1.0
        row_add(rows, i, 1.0, sums[k])


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def squared_radii(rows, cluster, centres, squared_centres, rounding, radii):
    """|x_i - c|^2 from above, for the centre c of each sample: ``rounding`` is the relative error of its three terms."""
    for i in range(np.uint64(cluster.shape[0])):
        k = np.uint64(cluster[i])
        squares = row_sqnorm(rows, i) + squared_centres[k]
        radii[i] = max(squares - 2.0 * row_dot(rows, i, centres[k]), 0.0) + rounding * squares


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def greatest_of_lists(lists, radii, greatest):
    """The greatest radius on each list, where ``greatest`` was no greater."""
    for i in range(np.uint64(lists.shape[0])):
        k = np.uint64(lists[i])
        greatest[k] = max(greatest[k], radii[i])


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def add_slopes(stored, pieces, averages):
    """Add the slopes at the stored margins."""
    for i in range(stored.shape[0]):
        averages.sums[i] += averages.weight * slope_of(stored[i], pieces)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def compare_weights(w, base, sums, n_features, weights):
    """|w - base|^2 and |w|^2 over the features (not the constant one), and w . sums over all; ``sums`` is copied to
    ``weights``, as it passes by."""
    distance, norm, product = 0.0, 0.0, 0.0
    for j in range(n_features):
        step = w[j] - base[j]
        distance += step * step
        norm += w[j] * w[j]
        product += w[j] * sums[j]
        weights[j] = sums[j]
    weights[n_features] = sums[n_features]
    return distance, norm, product + w[n_features] * sums[n_features]


@njit(inline="always")
def cell_of(margin, origin, scale):
    """Never falls as the margin rises, so a range of margins lies within a range of cells."""
    place = (margin - origin) * scale
    return np.int64(min(max(place, 0.0), CELLS - 1.0))


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def sort_into_cells(margins, radii, lists, index):
    """Algorithm 1, line 3, as a counting sort: fills the index."""
    entries, starts, origin, scale = index.entries, index.starts, index.origin, index.scale
    for k in range(starts.shape[0]):
        starts[k] = 0
    for i in range(margins.shape[0]):
        starts[CELLS * np.int64(lists[i]) + cell_of(margins[i], origin, scale) + 1] += 1
    for k in range(1, starts.shape[0]):
        starts[k] += starts[k - 1]
    for i in range(margins.shape[0]):  # starts[cell] moves to the end of its cell, which is where the next begins
        cell = CELLS * np.int64(lists[i]) + cell_of(margins[i], origin, scale)
        place = starts[cell]
        starts[cell] = place + 1
        entry = entries[place]
        entry.margin = margins[i]
        entry.radius = radii[i]
        entry.sample = i
    for k in range(starts.shape[0] - 1, 0, -1):
        starts[k] = starts[k - 1]
    starts[0] = 0


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def undecided_in_cells(index, knees, reach, samples, margins):
    """The samples of which (2) does not say that they are on the same piece as before, list by list. ``reach`` is how far a
    margin of a list can have moved besides its shift. Returns how many samples there are."""
    count = np.uint64(0)
    for k in range(knees.lows.shape[0]):
        first = index.starts[CELLS * k + cell_of(min(knees.low, knees.lows[k] - reach[k]), index.origin, index.scale)]
        end = index.starts[CELLS * k + cell_of(max(knees.high, knees.highs[k] + reach[k]), index.origin, index.scale) + 1]
        for place in range(np.uint64(first), np.uint64(end)):
            entry = index.entries[place]
            samples[count] = entry.sample
            margins[count] = entry.margin
            count += is_undecided(entry.margin, entry.radius, knees, k)
    return count


@njit(inline="always")
def is_undecided(margin, radius, knees, k):
    """Not (linear before and for certain now) and not (zero before and for certain now)."""
    move = knees.distance * radius
    may_leave_linear = np.uint64((margin > knees.low) | (margin + move > knees.lows[k]))
    return may_leave_linear & np.uint64((margin < knees.high) | (margin - move < knees.highs[k]))


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def undecided_in_order(stored, radii, lists, knees, samples, margins):
    """The same from a look at every stored margin, in the order of memory and without a sorted index."""
    count = np.uint64(0)
    for i in range(np.uint64(stored.shape[0])):
        k = np.uint64(lists[i])
        margin = stored[i]
        samples[count] = i
        margins[count] = margin
        count += is_undecided(margin, radii[i], knees, k)
    return count


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def examine(samples, w, pieces, undecided, gradient, averages):
    """Algorithm 2, lines 9 to 11 and 19 to 21, for the undecided samples: by how much they change the loss, and the sum of the
    slopes, from what the stored sums say of them. ``gradient`` moves only where a slope has changed."""
    total, slopes = 0.0, 0.0
    rows, y, chosen, count = samples.rows, samples.y, undecided.samples, np.uint64(undecided.count)
    for s in range(count):
        if s + LOCATED_AHEAD < count:
            prefetch_row_start(rows, np.uint64(chosen[s + LOCATED_AHEAD]))
            prefetch(y, np.uint64(chosen[s + LOCATED_AHEAD]))
        if s + FETCHED_AHEAD < count:
            prefetch_whole_row(rows, np.uint64(chosen[s + FETCHED_AHEAD]))
        i = np.uint64(chosen[s])
        sign, cost = np.float64(y[i]), samples.C[i * samples.stride]
        margin = sign * row_dot(rows, i, w)
        slope, before = slope_of(margin, pieces), slope_of(undecided.margins[s], pieces)
        if pieces.is_step:
            total += cost * (slope - before)
            continue
        total += cost * (loss_of(margin, pieces) - before * (1.0 - margin))
        change = slope - before
        if change != 0.0:
            slopes += cost * change
            row_add(rows, i, cost * change * sign, gradient)
            if averages.weight != 0.0:
                averages.sums[i] += averages.weight * change
    return total, slopes

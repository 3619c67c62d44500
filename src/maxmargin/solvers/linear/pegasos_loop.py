"""The loop of Pegasos with Algorithm 3 of Guillory and Bilmes (2007); ``maxmargin.solvers.linear.pegasos`` has the mathematics.

w is kept as scale times v, so that shrinking and projecting w take one multiplication. The whole state of the loop is in its
arrays and in the one-element record ``record``: the loop can pause after any iteration.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.random_loops import below, next_random
from maxmargin.data.row_loops import prefetch, prefetch_row_start, prefetch_whole_row, row_add, row_dot, row_sqnorm
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.coded_centres_loop import DIRECTIONS, product_with_code
from maxmargin.margin_bounds.pruned_loss_loops import FAST, slope_of

STORED = np.dtype([("margin", "f4"), ("radius", "f4"), ("code", "u8")])
"""The margin of a sample at w', its distance from its centre (negative where y is), and its centre. Few bytes, because every
draw of a sample is a cache miss."""


class Centres(NamedTuple):
    """What the loop knows of the centres: see ``maxmargin.margin_bounds.coded_centres``."""

    vectors: Array
    steps: Array
    half_step: float


class Batch(NamedTuple):
    """The draws of an iteration, and work arrays: the undecided draws, the draws with a slope, and their slopes."""

    drawn: Array
    undecided: Array
    active: Array
    slopes: Array


class ScaledWeights(NamedTuple):
    """w = scale v, w' at which margins were stored, and the record of the loop, of the type ``STATE``."""

    v: Array
    base: Array
    record: Array


class BallDescent(NamedTuple):
    """The pieces of the loss, lambda, the radius of the ball that w is projected to, and whether the lengths that Algorithm 3
    needs are carried along for a few operations a row, as pays where w is long, or computed anew in every iteration."""

    pieces: NamedTuple
    penalty: float
    ball: float
    is_wide: bool


class Pruning(NamedTuple):
    """When to prune: the period in iterations after which margins may be stored again, the margins that must be saved for
    storing to have paid, the weight of an iteration in the mean of the last few, and the share of the margins that must be
    skipped in the mean, after ``fewest_iterations``, for pruning to go on."""

    period: float
    store_worth: float
    recent_weight: float
    least_share: float
    fewest_iterations: float


class CodedBounds(NamedTuple):
    """What is stored of every sample, the centres, and room for w - c w' and its products with the centres."""

    stored: Array
    centres: Centres
    move: Array
    shifts: Array
    pruning: Pruning


class MoveBounds(NamedTuple):
    """The factor c, how far w - c w' reaches outside the span of the directions, and its greatest product with the rounding of
    the codes."""

    factor: float
    distance: float
    slack: float


DRAWN = np.dtype([("count", "f4"), ("slopes", "f4")])
"""How often a sample was drawn since the averages began, and the sum of its slopes then."""

STATE = np.dtype(
    [
        ("random", "u8"),
        ("t", "f8"),  # the number of the iteration: its learning rate is 1 / (lambda t)
        ("scale", "f8"),
        ("sqnorm", "f8"),  # |v|^2
        ("product", "f8"),  # v . w', where w is long
        ("stored_sqnorm", "f8"),  # |w'|^2
        ("prunes", "u8"),
        ("since", "f8"),  # iterations since margins were stored
        ("skipped", "f8"),  # margins not computed since then
        ("recent", "f8"),  # and the mean of that over the last few iterations
        ("examined", "f8"),  # margins computed since the start
    ]
)
INTERNAL: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""Options of functions that only loops call. Python cannot call them, which saves the compilation of a wrapper each."""
LOCATED_AHEAD, FETCHED_AHEAD = np.uint64(16), np.uint64(8)
"""How many draws ahead a row is located and fetched."""
ROUNDING = 4e-6
"""An upper bound on the relative error that float32 margins add to v . w' between two times that it is computed anew."""
SINGLE = 1e-6
"""An upper bound on the relative error of rounding a margin to float32."""
SPAN_ROUNDING = 1e-9
"""An upper bound on the relative rounding error of a squared length after a part of it is subtracted."""
SMALLEST_SCALE = 1e-9
"""When the scale falls below this, it is multiplied into v, so that v does not overflow."""


@njit(**INTERNAL)
def draw(drawn, n, word):
    for s in range(drawn.shape[0]):
        word = next_random(word)
        drawn[s] = below(word, n)
    return word


@njit(inline="always")
def best_factor(product, sqnorm):
    """The c at which c w' is nearest to w: the margins there are c times those at w'."""
    return product / sqnorm if sqnorm > 0.0 else 1.0


@njit(**INTERNAL, fastmath=FAST)
def carried_move(point, bias, shifts):
    """The same from sums that were updated row by row. Of the centres only the constant feature is known."""
    v, base, state = point.v, point.base, point.record[0]
    last = v.shape[0] - 1
    product, squares = state.scale * state.product, state.scale * state.scale * state.sqnorm
    factor = best_factor(product, state.stored_sqnorm)
    shifts[DIRECTIONS] = shifts[DIRECTIONS + 1] = (state.scale * v[last] - factor * base[last]) * bias
    rounding = ROUNDING * (squares + abs(factor) * abs(product))
    return MoveBounds(factor, np.sqrt(max(squares - factor * product, 0.0) + rounding), 0.0)


@njit(**INTERNAL, fastmath=FAST)
def measured_move(point, bounds, bias):
    """Computed from w and w'. ``shifts`` becomes the products of w - c w' with the steps of the codes, and with the mean of
    either class."""
    v, base, scale = point.v, point.base, point.record[0].scale
    centres, move, shifts = bounds.centres, bounds.move, bounds.shifts
    last = v.shape[0] - 1
    product, sqnorm = 0.0, 0.0
    for j in range(last):
        product += v[j] * base[j]
        sqnorm += base[j] * base[j]
    factor = best_factor(scale * product, sqnorm)
    total = 0.0
    for j in range(last):
        move[j] = scale * v[j] - factor * base[j]
        total += move[j] * move[j]
    within = 0.0
    for k in range(0 if centres.half_step > 0.0 else DIRECTIONS, DIRECTIONS + 2):
        shift = 0.0
        for j in range(last):
            shift += move[j] * centres.vectors[k, j]
        if k < DIRECTIONS:
            within += shift * shift
            shifts[k] = shift * centres.steps[k]
        else:
            shifts[k] = shift + (scale * v[last] - factor * base[last]) * bias
    outside = np.sqrt(max(total - within, 0.0) + SPAN_ROUNDING * total)
    return MoveBounds(factor, outside, np.sqrt(within) * centres.half_step)


@njit(**INTERNAL, fastmath={"contract"})
def decide(bounds, batch, pieces, moved):
    """Lines 8 and 10 of Algorithm 3: list the draws that the bounds (2) leave undecided, and the draws whose slope must be
    one."""
    stored, shifts, drawn, undecided, active = bounds.stored, bounds.shifts, batch.drawn, batch.undecided, batch.active
    n_undecided, n_active = np.uint64(0), np.uint64(0)
    shift_negative, shift_positive = shifts[DIRECTIONS], shifts[DIRECTIONS + 1]
    for s in range(np.uint64(drawn.shape[0])):
        if s + LOCATED_AHEAD < np.uint64(drawn.shape[0]):
            prefetch(stored, np.uint64(drawn[s + LOCATED_AHEAD]))
        i = drawn[s]
        margin, radius = moved.factor * np.float64(stored[i].margin), np.float64(stored[i].radius)
        shift = product_with_code(stored[i].code, shifts)
        middle = margin + (shift_positive + shift if radius > 0.0 else -shift_negative - shift)
        reach = moved.distance * abs(radius) + SINGLE * abs(margin) + moved.slack
        is_zero, is_linear = middle - reach >= pieces.high, middle + reach <= pieces.low
        active[n_active] = i
        n_active += np.uint64(is_linear)
        undecided[n_undecided] = i
        n_undecided += np.uint64(not (is_zero | is_linear))
    return n_undecided, n_active


@njit(**INTERNAL)
def prefetch_first(rows, y, samples, count):
    """Fetch the first rows of a loop, before the loop fetches rows ahead of itself. They are a large part of a short list."""
    for s in range(min(LOCATED_AHEAD, count)):
        prefetch_row_start(rows, np.uint64(samples[s]))
        prefetch(y, np.uint64(samples[s]))
    for s in range(min(FETCHED_AHEAD, count)):
        prefetch_whole_row(rows, np.uint64(samples[s]))


@njit(**INTERNAL, fastmath=FAST)
def examine_draws(samples, point, pieces, chosen, n_chosen, batch, n_active):
    """Line 13: the margins of the chosen draws; those with a slope join the active ones."""
    rows, y, active, slopes = samples.rows, samples.y, batch.active, batch.slopes
    v, scale = point.v, point.record[0].scale
    prefetch_first(rows, y, chosen, n_chosen)
    for s in range(n_chosen):
        if s + LOCATED_AHEAD < n_chosen:
            prefetch_row_start(rows, np.uint64(chosen[s + LOCATED_AHEAD]))
            prefetch(y, np.uint64(chosen[s + LOCATED_AHEAD]))
        if s + FETCHED_AHEAD < n_chosen:
            prefetch_whole_row(rows, np.uint64(chosen[s + FETCHED_AHEAD]))
        i = np.uint64(chosen[s])
        margin = np.float64(y[i]) * scale * row_dot(rows, i, v)
        active[n_active] = chosen[s]
        slopes[n_active] = slope_of(margin, pieces)
        n_active += np.uint64(margin < pieces.high)
    return n_active


@njit(**INTERNAL, fastmath=FAST)
def step_and_project(samples, stored, point, batch, descent, n_active, n_linear):
    """w = (1 - 1 / t) w + (1 / (lambda t k)) sum over the draws of C_i s_i y_i x_i, then into the ball. The first ``n_linear``
    of the active draws have not been seen yet, and have the slope one."""
    rows, y, v, state = samples.rows, samples.y, point.v, point.record[0]
    active, k = batch.active, np.float64(batch.drawn.shape[0])
    if state.t > 1.0:  # at the first iteration w is zero
        state.scale *= 1.0 - 1.0 / state.t
    push = 1.0 / (descent.penalty * state.t * k * state.scale)
    prefetch_first(rows, y, active, n_linear)
    for s in range(n_active):
        if s + LOCATED_AHEAD < n_linear:
            prefetch_row_start(rows, np.uint64(active[s + LOCATED_AHEAD]))
            prefetch(y, np.uint64(active[s + LOCATED_AHEAD]))
        if s + FETCHED_AHEAD < n_linear:
            prefetch_whole_row(rows, np.uint64(active[s + FETCHED_AHEAD]))
        i = np.uint64(active[s])
        slope = batch.slopes[s] if s >= n_linear else 1.0
        step = push * samples.C[i * samples.stride] * slope * np.float64(y[i])
        if descent.is_wide:
            state.sqnorm += step * (2.0 * row_dot(rows, i, v) + step * row_sqnorm(rows, i))
            state.product += step * np.float64(y[i]) * np.float64(stored[i].margin)  # w' . x_i
        row_add(rows, i, step, v)
    if not descent.is_wide:
        sqnorm = 0.0
        for j in range(v.shape[0]):
            sqnorm += v[j] * v[j]
        state.sqnorm = sqnorm
    project(point, descent.ball)
    state.t += 1.0


@njit(inline="always")
def project(point, ball):
    """Shrink w into the ball, and take up the scale in v before it gets too small."""
    v, state = point.v, point.record[0]
    norm = state.scale * np.sqrt(max(state.sqnorm, 0.0))
    if norm > ball:
        state.scale *= ball / norm
    if state.scale < SMALLEST_SCALE:
        for j in range(v.shape[0]):
            v[j] *= state.scale
        state.sqnorm *= state.scale * state.scale
        state.product *= state.scale
        state.scale = 1.0


@njit(**INTERNAL)
def count_draws(averages, batch, n_active, n_linear):
    for s in range(batch.drawn.shape[0]):
        averages[batch.drawn[s]].count += np.float32(1.0)
    for s in range(n_active):
        averages[batch.active[s]].slopes += np.float32(batch.slopes[s] if s >= n_linear else 1.0)


@njit(inline="always")
def should_store(state, pruning, k):
    """Section 3: whether case a) holds, or case b), in which the stored margins have paid for themselves."""
    has_paid = state.skipped - state.since * state.recent > pruning.store_worth
    return has_paid or (state.since >= pruning.period and state.recent < 0.5 * k)


@njit(inline="always")
def note_pruned(state, pruning, k, n_undecided):
    """Count the margins of an iteration, and stop pruning where it saves too little."""
    skipped = k - n_undecided
    state.since += 1.0
    state.skipped += skipped
    state.examined += n_undecided
    state.recent += max(pruning.recent_weight, 1.0 / state.since) * (skipped - state.recent)
    if state.since >= pruning.fewest_iterations and state.recent < pruning.least_share * k:
        state.prunes = 0


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def descend_on_draws(samples, point, batch, descent, bounds, averages, iterations):
    """Make iterations of Pegasos, each with ``len(batch.drawn)`` draws, and return their number. It is less than the number
    asked for if margins should be stored first. C is relative to its mean. ``averages`` counts draws and slopes, if it has a
    place for every sample."""
    state, rows, drawn = point.record[0], samples.rows, batch.drawn
    k = np.float64(drawn.shape[0])
    for done in range(iterations):
        if should_store(state, bounds.pruning, k):
            return done
        state.random = draw(drawn, np.uint64(samples.y.shape[0]), state.random)
        prunes = state.prunes != np.uint64(0)
        n_undecided, n_linear = np.uint64(drawn.shape[0]), np.uint64(0)
        if prunes:
            if descent.is_wide:
                moved = carried_move(point, rows.bias, bounds.shifts)
            else:
                moved = measured_move(point, bounds, rows.bias)
            n_undecided, n_linear = decide(bounds, batch, descent.pieces, moved)
        chosen = batch.undecided if prunes else drawn
        n_active = examine_draws(samples, point, descent.pieces, chosen, n_undecided, batch, n_linear)
        step_and_project(samples, bounds.stored, point, batch, descent, n_active, n_linear)
        if averages.shape[0] > 0:
            count_draws(averages, batch, n_active, n_linear)
        note_pruned(state, bounds.pruning, k, n_undecided)
    return iterations

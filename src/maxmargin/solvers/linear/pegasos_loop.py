"""The loop of Pegasos with Algorithm 3 of Guillory and Bilmes (2007); ``maxmargin.solvers.linear.pegasos`` has the mathematics.

w is kept as scale v, so that shrinking and projecting it cost nothing however long it is. All that the loop knows is in its
arrays and in the one-element record ``record``: it can stop after any iteration and go on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.random_loops import below, next_random
from maxmargin.data.row_loops import prefetch, prefetch_row_start, prefetch_whole_row, row_add, row_dot, row_sqnorm
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.coded_centres_loop import DIRECTIONS, product_with_code
from maxmargin.margin_bounds.pruned_loss_loops import FAST, slope_of

STORED = np.dtype([("margin", "f4"), ("radius", "f4"), ("code", "u8")])
"""The margin of a sample at w', how far it is from its centre, negative where y is, and where that is: few bytes, as every draw
of a sample is a miss of the cache."""


class Centres(NamedTuple):
    """What the loop knows of the centres: see ``maxmargin.margin_bounds.coded_centres``."""

    vectors: Array
    steps: Array
    half_step: float


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
FAR, NEAR = np.uint64(16), np.uint64(8)
"""How many draws ahead a row is located and fetched."""
RECENT = 0.1
"""The weight of an iteration in the mean over the last few."""
FEWEST_ITERATIONS, LEAST_SHARE = 10.0, 0.02
"""If after so many iterations no more than this share of the margins can be skipped, none is tried until margins are stored
again."""
ROUNDING = 4e-6
"""More than float32 margins take from v . w', relatively, between two times that it is computed anew."""
SINGLE = 1e-6
"""More than rounding to float32 takes from a margin, relatively."""
SPAN_ROUNDING = 1e-9
"""More than rounding takes from a squared length when a part of it is subtracted, relatively."""
SMALLEST_SCALE = 1e-9


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def draw(drawn, n, word):
    for s in range(drawn.shape[0]):
        word = next_random(word)
        drawn[s] = below(word, n)
    return word


@njit(inline="always")
def best_factor(product, sqnorm):
    """The c at which c w' is nearest to w: the margins there are c times those at w'."""
    return product / sqnorm if sqnorm > 0.0 else 1.0


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def carried_move(state, v, base, bias, shifts):
    """c and |w - c w'|, from what was carried along; nothing but the constant feature is known of the centres."""
    last = v.shape[0] - 1
    product, squares = state.scale * state.product, state.scale * state.scale * state.sqnorm
    factor = best_factor(product, state.stored_sqnorm)
    shifts[DIRECTIONS] = shifts[DIRECTIONS + 1] = (state.scale * v[last] - factor * base[last]) * bias
    rounding = ROUNDING * (squares + abs(factor) * abs(product))
    return factor, np.sqrt(max(squares - factor * product, 0.0) + rounding), 0.0


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def measured_move(scale, v, base, centres, bias, move, shifts):
    """c, how far w - c w' reaches outside the span of the directions, and its greatest product with the rounding of the codes;
    ``shifts`` are its products with the steps of the codes, and with the mean of either class."""
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
    return factor, np.sqrt(max(total - within, 0.0) + SPAN_ROUNDING * total), np.sqrt(within) * centres.half_step


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath={"contract"})
def decide(stored, drawn, shifts, factor, distance, slack, low, high, undecided, active):
    """Lines 8 and 10 of Algorithm 3: the draws that the bounds (2) do not decide, and those whose slope must be one."""
    n_undecided, n_active = np.uint64(0), np.uint64(0)
    shift_negative, shift_positive = shifts[DIRECTIONS], shifts[DIRECTIONS + 1]
    for s in range(np.uint64(drawn.shape[0])):
        if s + FAR < np.uint64(drawn.shape[0]):
            prefetch(stored, np.uint64(drawn[s + FAR]))
        i = drawn[s]
        margin, radius = factor * np.float64(stored[i].margin), np.float64(stored[i].radius)
        shift = product_with_code(stored[i].code, shifts)
        middle = margin + (shift_positive + shift if radius > 0.0 else -shift_negative - shift)
        reach = distance * abs(radius) + SINGLE * abs(margin) + slack
        is_zero, is_linear = middle - reach >= high, middle + reach <= low
        active[n_active] = i
        n_active += np.uint64(is_linear)
        undecided[n_undecided] = i
        n_undecided += np.uint64(not (is_zero | is_linear))
    return n_undecided, n_active


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def prefetch_first(rows, y, samples, count):
    """The rows that a loop begins with, before it fetches others ahead of itself: of a short list they are a large part."""
    for s in range(min(FAR, count)):
        prefetch_row_start(rows, np.uint64(samples[s]))
        prefetch(y, np.uint64(samples[s]))
    for s in range(min(NEAR, count)):
        prefetch_whole_row(rows, np.uint64(samples[s]))


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def examine_draws(rows, y, v, scale, low, high, curvature, undecided, n_undecided, active, slopes, n_active):
    """Line 13: the margins of the undecided draws; those with a slope join the active ones."""
    prefetch_first(rows, y, undecided, n_undecided)
    for s in range(n_undecided):
        if s + FAR < n_undecided:
            prefetch_row_start(rows, np.uint64(undecided[s + FAR]))
            prefetch(y, np.uint64(undecided[s + FAR]))
        if s + NEAR < n_undecided:
            prefetch_whole_row(rows, np.uint64(undecided[s + NEAR]))
        i = np.uint64(undecided[s])
        margin = np.float64(y[i]) * scale * row_dot(rows, i, v)
        active[n_active] = undecided[s]
        slopes[n_active] = slope_of(margin, low, high, curvature)
        n_active += np.uint64(margin < high)
    return n_active


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def step_and_project(rows, y, C, stride, stored, v, state, active, slopes, n_active, n_linear, k, penalty, ball, is_wide):
    """w = (1 - 1 / t) w + (1 / (lambda t k)) sum over the draws of C_i s_i y_i x_i, then into the ball. The first ``n_linear``
    of the active draws have not been seen yet, and have the slope one."""
    if state.t > 1.0:  # at the first iteration w is zero
        state.scale *= 1.0 - 1.0 / state.t
    push = 1.0 / (penalty * state.t * k * state.scale)
    prefetch_first(rows, y, active, n_linear)
    for s in range(n_active):
        if s + FAR < n_linear:
            prefetch_row_start(rows, np.uint64(active[s + FAR]))
            prefetch(y, np.uint64(active[s + FAR]))
        if s + NEAR < n_linear:
            prefetch_whole_row(rows, np.uint64(active[s + NEAR]))
        i = np.uint64(active[s])
        slope = slopes[s] if s >= n_linear else 1.0
        step = push * C[i * stride] * slope * np.float64(y[i])
        if is_wide:
            state.sqnorm += step * (2.0 * row_dot(rows, i, v) + step * row_sqnorm(rows, i))
            state.product += step * np.float64(y[i]) * np.float64(stored[i].margin)  # w' . x_i
        row_add(rows, i, step, v)
    if not is_wide:
        sqnorm = 0.0
        for j in range(v.shape[0]):
            sqnorm += v[j] * v[j]
        state.sqnorm = sqnorm
    norm = state.scale * np.sqrt(max(state.sqnorm, 0.0))
    if norm > ball:
        state.scale *= ball / norm
    if state.scale < SMALLEST_SCALE:
        for j in range(v.shape[0]):
            v[j] *= state.scale
        state.sqnorm *= state.scale * state.scale
        state.product *= state.scale
        state.scale = 1.0
    state.t += 1.0


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def count_draws(averages, drawn, active, slopes, n_active, n_linear):
    for s in range(drawn.shape[0]):
        averages[drawn[s]].count += np.float32(1.0)
    for s in range(n_active):
        averages[active[s]].slopes += np.float32(slopes[s] if s >= n_linear else 1.0)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def descend_on_draws(
    rows, y, C, stride, stored, centres, base, v, record, drawn, undecided, active, slopes, move, shifts, averages,
    low, high, curvature, penalty, ball, is_wide, period, store_worth, iterations,
):  # fmt: skip
    """So many iterations of Pegasos, each with ``len(drawn)`` draws; fewer if margins should be stored before the next: returns
    how many were made.

    ``penalty`` is lambda, ``ball`` the radius that w is projected to, C is relative to its mean. Where ``is_wide``, the lengths
    that Algorithm 3 needs are carried along for a few operations a row; else they are computed from w in every
    iteration. ``averages`` counts draws and slopes, if it has a place for every sample."""
    state = record[0]
    k = np.float64(drawn.shape[0])
    for done in range(iterations):
        if state.since >= period and state.recent < 0.5 * k:  # section 3, a)
            return done
        if state.skipped - state.since * state.recent > store_worth:  # b), by when what was stored has paid for itself
            return done
        state.random = draw(drawn, np.uint64(y.shape[0]), state.random)
        prunes = state.prunes != np.uint64(0)
        n_undecided, n_linear = np.uint64(drawn.shape[0]), np.uint64(0)
        if prunes:
            if is_wide:
                factor, distance, slack = carried_move(state, v, base, rows.bias, shifts)
            else:
                factor, distance, slack = measured_move(state.scale, v, base, centres, rows.bias, move, shifts)
            n_undecided, n_linear = decide(stored, drawn, shifts, factor, distance, slack, low, high, undecided, active)
        n_active = examine_draws(
            rows, y, v, state.scale, low, high, curvature, undecided if prunes else drawn, n_undecided, active, slopes, n_linear
        )
        step_and_project(rows, y, C, stride, stored, v, state, active, slopes, n_active, n_linear, k, penalty, ball, is_wide)
        if averages.shape[0] > 0:
            count_draws(averages, drawn, active, slopes, n_active, n_linear)
        skipped = k - n_undecided
        state.since += 1.0
        state.skipped += skipped
        state.examined += n_undecided
        state.recent += max(RECENT, 1.0 / state.since) * (skipped - state.recent)
        if prunes and state.since >= FEWEST_ITERATIONS and state.recent < LEAST_SHARE * k:
            state.prunes = 0
    return iterations

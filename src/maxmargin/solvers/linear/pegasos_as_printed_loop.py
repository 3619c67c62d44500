"""The loop of Pegasos with Algorithm 3 of Guillory and Bilmes (2007) as it is printed;
``maxmargin.solvers.linear.pegasos_as_printed`` has the mathematics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import prefetch
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.pruned_loss_loops import FAST
from maxmargin.solvers.linear.pegasos_loop import INTERNAL, count_draws, draw, examine_draws, step_and_project

PRINTED = np.dtype([("margin", "f8"), ("norm", "f8")])
"""The margin of a sample at w', and its norm."""
AHEAD = np.uint64(16)
"""How many draws ahead what is stored of a sample is fetched."""


class Rule(NamedTuple):
    """When margins are stored again: SortPeriod in iterations, SortCost in margins, and whether section 3 decides after the
    period. ``rounding`` is how much of |w| + |w'| rounding can add to |w - w'|."""

    period: float
    sort_cost: float
    is_adaptive: bool
    rounding: float


class NormBounds(NamedTuple):
    """What is stored of every sample, of the type ``PRINTED``, and when it is stored again."""

    stored: Array
    rule: Rule


@njit(**INTERNAL)
def is_due(state, rule, k):
    """Lines 1 to 3, or section 3: a) and b)."""
    if state.since < rule.period:
        return False
    benefit = state.skipped - state.since * state.recent
    return not rule.is_adaptive or state.recent < 0.5 * k or benefit > rule.sort_cost


@njit(**INTERNAL, fastmath=FAST)
def distance_moved(point, rounding):
    """Line 5: |w - w'|, and what rounding can add."""
    v, base, scale = point.v, point.base, point.record[0].scale
    total, here, there = 0.0, 0.0, 0.0
    for j in range(v.shape[0]):
        move = scale * v[j] - base[j]
        total += move * move
        here += v[j] * v[j]
        there += base[j] * base[j]
    return np.sqrt(total) + rounding * (scale * np.sqrt(here) + np.sqrt(there))


@njit(**INTERNAL)
def decide_by_norms(stored, batch, pieces, distance):
    """Lines 8 and 10: which draws the bounds (2) leave open, and which have the slope one. Returns how many there are of
    each."""
    drawn, undecided, active = batch.drawn, batch.undecided, batch.active
    n_undecided, n_active = np.uint64(0), np.uint64(0)
    for s in range(np.uint64(drawn.shape[0])):
        if s + AHEAD < np.uint64(drawn.shape[0]):
            prefetch(stored, np.uint64(drawn[s + AHEAD]))
        i = drawn[s]
        margin, reach = stored[i].margin, distance * stored[i].norm
        if margin - reach >= pieces.high:  # line 8
            continue
        if margin + reach < pieces.low:  # line 10
            active[n_active] = i
            n_active += np.uint64(1)
        else:
            undecided[n_undecided] = i
            n_undecided += np.uint64(1)
    return n_undecided, n_active


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def descend_as_printed(samples, point, batch, descent, bounds, averages, iterations):
    """So many iterations of Pegasos; fewer if margins should be stored before the next. Returns how many were made."""
    state, drawn = point.record[0], batch.drawn
    k = np.float64(drawn.shape[0])
    for done in range(iterations):
        if is_due(state, bounds.rule, k):
            return done
        state.random = draw(drawn, np.uint64(samples.y.shape[0]), state.random)  # line 7
        prunes = state.prunes != np.uint64(0)
        n_undecided, n_linear = np.uint64(drawn.shape[0]), np.uint64(0)
        if prunes:
            distance = distance_moved(point, bounds.rule.rounding)
            n_undecided, n_linear = decide_by_norms(bounds.stored, batch, descent.pieces, distance)
        chosen = batch.undecided if prunes else drawn
        n_active = examine_draws(samples, point, descent.pieces, chosen, n_undecided, batch, n_linear)
        step_and_project(samples, bounds.stored, point, batch, descent, n_active, n_linear)
        if averages.shape[0] > 0:
            count_draws(averages, batch, n_active, n_linear)
        skipped = k - n_undecided
        state.since += 1.0
        state.skipped += skipped
        state.recent = skipped
        state.examined += n_undecided
        if prunes and skipped == 0.0:  # section 4.3: standard calculations until margins are stored again
            state.prunes = 0
    return iterations

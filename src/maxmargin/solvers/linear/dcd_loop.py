"""The loop of dual coordinate descent: Hsieh et al. (ICML 2008), Algorithms 1 and 2 with section 3.2.

``descend`` runs any number of steps and can pause after any of them: its whole state is in the arrays and in the one-element
record ``sweep``. During a sweep ``index`` has this layout, from left to right::

    kept so far | shrunk in this sweep | drawn, to come | not drawn yet | shrunk before
    0 ...  kept             ...  cursor      ...     drawn     ...  active   ...   present
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.by_type import loop_by_type
from maxmargin.data.caching import njit
from maxmargin.data.random_loops import below, next_random
from maxmargin.data.row_loops import ONE, prefetch, prefetch_row, prefetch_row_start, row_add, row_dot, row_sqnorm
from maxmargin.data.rows import Array
from maxmargin.solvers.linear.coordinate_loops import (
    UNKNOWN,
    gap_term,
    is_out_of_reach,
    kink_rise,
    minimiser,
    note_visit,
    projected_gradient,
    sign_of,
    slopes_of,
    target_of,
)

SWEEP = np.dtype(
    [
        ("present", "u8"),  # samples with C_i > 0
        ("active", "u8"),  # those not shrunk
        ("cursor", "u8"),
        ("drawn", "u8"),
        ("kept", "u8"),
        ("random", "u8"),
        ("steps", "u8"),
        ("checked", "u8"),  # steps at the end of the last sweep over at least half of the samples
        ("sweeps", "u8"),
        ("moves", "u8"),  # steps of this sweep that changed alpha
        ("still_sweeps", "u8"),  # sweeps over all samples, one after the other, that changed nothing
        ("epsilon", "f8"),
        ("M", "f8"),  # greatest projected gradient of this sweep so far
        ("m", "f8"),  # least
        ("M_bar", "f8"),  # thresholds of (16), from the sweep before
        ("m_bar", "f8"),
        ("violation", "f8"),  # M - m of the last finished sweep
        ("gap", "f8"),  # sum of the gap terms of this sweep's visits so far
        ("last_gap", "f8"),  # of the last finished sweep
        ("relative_gap", "f8"),  # estimate of the gap after that sweep, relative to the dual value
        ("dual", "f8"),  # D(alpha)
        ("looks_done", "u8"),
    ]
)

CYCLIC, PERMUTED, ONLINE = 0, 1, 2


class Queue(NamedTuple):
    """The samples' records, the order of their visits, and the samples that are present."""

    samples: Array
    index: Array
    pool: Array


class DescentPlan(NamedTuple):
    """``shrink_factor`` is infinite for no shrinking. ``target`` is the wanted gap relative to the dual value; with zero only
    the rule (17) with epsilon applies. The last two are fields of ``DCDPolicy``."""

    order: int
    shrink_factor: float
    steps: int
    target: float
    check_epochs: np.uint64
    check_slack: float


LOCATED_AHEAD, FETCHED_AHEAD = np.uint64(4), np.uint64(2)
"""How many steps ahead a coordinate is drawn and its row located, and how many ahead the row is fetched."""

NONE = np.uint64(0)
FAST = {"reassoc", "contract", "nsz", "arcp"}


@loop_by_type("terms", cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def descend(rows, terms, line, w, sweep, plan):
    """Make at most ``plan.steps`` steps; end earlier when the sweep just finished looks like the last."""
    samples, index, pool = line.samples, line.index, line.pool
    order, shrink_factor = plan.order, plan.shrink_factor
    state = sweep[0]
    end = state.steps + np.uint64(plan.steps)
    while state.steps < end and state.looks_done == NONE:
        active = state.active
        last = min(active, state.cursor + (end - state.steps))
        random, drawn, kept = state.random, state.drawn, state.kept
        M, m, gap, dual, moves = state.M, state.m, state.gap, state.dual, state.moves
        above, below_ = state.M_bar * shrink_factor, state.m_bar * shrink_factor

        for s in range(state.cursor, last):
            while drawn < active and drawn <= s + LOCATED_AHEAD:
                if order == PERMUTED:  # section 3.1: Fisher-Yates, a few places ahead
                    random = next_random(random)
                    other = drawn + below(random, active - drawn)
                    index[drawn], index[other] = index[other], index[drawn]
                elif order == ONLINE:  # Algorithm 2
                    random = next_random(random)
                    index[drawn] = pool[below(random, active)]
                ahead = np.uint64(index[drawn])
                prefetch_row_start(rows, ahead)
                prefetch(samples, ahead)
                drawn += ONE
            if s + FETCHED_AHEAD < active:
                prefetch_row(rows, np.uint64(index[s + FETCHED_AHEAD]))

            i = np.uint64(index[s])
            sample = samples[i]
            sign = sign_of(terms, i)
            alpha = sample.alpha
            G = sign * row_dot(rows, i, w) - target_of(terms, sample) + sample.D * alpha  # (12)
            up, down = slopes_of(terms, alpha, G)
            if is_out_of_reach(terms, sample, up, down, above, below_):  # (16)
                note_visit(terms, i, min(abs(up), abs(down)), 0.0)
                continue
            PG = projected_gradient(terms, sample, up, down)  # (8)
            index[s] = index[kept]
            index[kept] = np.uint32(i)
            kept += ONE
            M = max(M, PG)
            m = min(m, PG)
            if PG == 0.0:
                note_visit(terms, i, min(abs(up), abs(down)), 0.0)
                continue
            own_gap = gap_term(terms, sample, G)
            gap += own_gap
            note_visit(terms, i, -abs(PG), own_gap)
            inverse_Q = sample.inverse_Q
            if inverse_Q == UNKNOWN:  # the first visit: the row is in the cache now
                inverse_Q = 1.0 / (sample.D + row_sqnorm(rows, i))
                sample.inverse_Q = inverse_Q
            new_alpha = minimiser(terms, sample, G, up, down, inverse_Q)
            step = new_alpha - alpha
            if step != 0.0:
                sample.alpha = new_alpha
                row_add(rows, i, step * sign, w)  # (13)
                dual -= step * (G + 0.5 * step / inverse_Q) + kink_rise(terms, alpha, new_alpha)
                moves += ONE

        state.steps += last - state.cursor
        state.cursor, state.random, state.drawn, state.kept = last, random, drawn, kept
        state.M, state.m, state.gap, state.dual, state.moves = M, m, gap, dual, moves
        if state.cursor == active:
            end_sweep(state, plan)
            if order == CYCLIC and state.active > kept:
                for k in range(state.present):  # all samples again, in their order
                    index[k] = pool[k]


@njit(allocates=False, nogil=True, error_model="numpy")
def end_sweep(state, plan):
    """Section 3.2: take over the thresholds, shrink, or go back to all samples and check."""
    is_full = state.active == state.present
    state.sweeps += ONE
    state.violation = state.M - state.m
    state.M_bar = state.M if state.M > 0.0 else np.inf
    state.m_bar = state.m if state.m < 0.0 else -np.inf
    state.still_sweeps = state.still_sweeps + ONE if is_full and state.moves == NONE else NONE
    # Each gap term was computed before its step, so the gap is now lower than their sum by about half of the sweep's reduction.
    reduction = min(1.0, state.gap / state.last_gap) if state.last_gap > 0.0 else 1.0
    state.relative_gap = state.gap * np.sqrt(reduction) / abs(state.dual) if state.dual != 0.0 else np.inf
    if plan.target == 0.0:
        end_sweep_by_violation(state)
    else:
        end_sweep_by_gap(state, plan, is_full)
    state.last_gap = state.gap
    state.gap = 0.0
    state.M, state.m = -np.inf, np.inf
    state.cursor, state.drawn, state.kept, state.moves = NONE, NONE, NONE, NONE


@njit(inline="always")
def end_sweep_by_violation(state):
    """The paper's rule (17)."""
    all_kept = state.kept == state.present
    state.active = state.kept
    if state.violation < state.epsilon or state.moves == NONE:
        if all_kept:
            state.looks_done = ONE
        else:
            state.active = state.present
            state.M_bar, state.m_bar = np.inf, -np.inf


@njit(inline="always")
def end_sweep_by_gap(state, plan, is_full):
    """The counterpart of (17) for the gap. When the gap of the active samples is small enough, a certificate checks all
    samples; the cheaper the active samples are, the smaller their gap must be. Otherwise shrunk samples are checked when the
    active ones no longer move, or when the work on the active ones has cost a few times as much as such a check."""
    if state.active + state.active >= state.present:
        state.checked = state.steps
    share = state.active / state.present
    if state.relative_gap <= plan.target * (0.5 + 0.5 * share) or (is_full and state.moves == NONE):
        state.looks_done = ONE
    state.active = state.kept
    if not is_full and (state.moves == NONE or state.steps - state.checked >= plan.check_epochs * state.present):
        state.active = state.present
        state.M_bar *= plan.check_slack
        state.m_bar *= plan.check_slack

"""The semismooth Newton method of ``newton.py`` in one call, for problems with few features.

There a pass over the samples takes some microseconds, and to ask for each pass from Python takes longer than the pass itself.
The features are in rows and the samples in columns, so that a loop over the samples reads memory in order.
What is hard (a matrix that is not positive definite, rounding that hides the rise of the dual value) is left to the method in
Python: the call ends there, and says how small the gap is.

Compile time decides the form. Numba compiles one function for every loss, whose parts are put into it before it is compiled.
Each part stands at one place, loops over the samples are shared, and nothing is allocated. (As fifteen compiled functions that
call each other the same method took seven seconds to compile.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.rows import Array
from maxmargin.solvers.linear.newton.pass_loops import FAST

ROUNDING = 2.0**-52
"""The distance from 1.0 to the next float64: mathematics, not a setting."""
ZERO, ONE = np.uint64(0), np.uint64(1)
FEW = 4.0
"""Of so many samples at most one is visited on its own: more are visited in the order of memory, all of them. Part of the
layout of the loop: a sample on its own takes a line of the cache for each feature."""

OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": FAST,
    "allocates": False,
}


class Settings(NamedTuple):
    """What the loss gives the dual, C_i (p_i a_i - epsilon |a_i| - a_i^2 / (2 hardness)) with a_i = alpha_i / C_i between
    ``lower`` and ``upper``; how many weights, from the first on, are penalised. The others, at most one, are of a free offset:
    what an imbalance e of alpha is counted as, ``imbalance_cost`` |e| + ``imbalance_curvature`` e^2, where e is the element of
    w(alpha) that should be zero, and ``light``, which times the rate is added to the diagonal of the matrix there. Then the
    settings of the proximal-point method: the first penalty, the dual value of the first anchor (minus infinity where it is no
    dual point to improve on), when an inner problem is solved, and what multiplies the penalty after an inner problem of at
    most 3, at most 8, at most 20 and more steps. The rest are fields of ``NewtonPolicy`` and ``LineSearchPolicy``."""

    hardness: float
    epsilon: float
    lower: float
    upper: float
    n_penalised: int
    imbalance_cost: float
    imbalance_curvature: float
    light: float
    penalty: float
    anchor_dual: float
    acceptance: float
    factors: tuple[float, float, float, float]
    converged: float
    better_pair: float
    most_idle: int
    retreat: float
    most_retreats: int
    search_accuracy: float
    most_looks: int
    most_steps: int


class Samples(NamedTuple):
    """An element for each sample: C_i and p_i; a_i = alpha_i / C_i, and that of the anchor of the proximal term; whether a_i is
    free in S, as 1 or 0; by how much the margin m_i changes along the direction, and the slack p_i - m_i; the new a_i; that of
    the best pair; and numbers of samples. Bounds of a_i are the same for all samples, which those of alpha_i are not: the fewer
    arrays a loop reads, the more of them stay in the caches."""

    C: Array
    target: Array
    share: Array
    anchor: Array
    free: Array
    along: Array
    slack: Array
    new: Array
    best: Array
    chosen: Array


class Weights(NamedTuple):
    """An element for each weight: w, w(alpha), minus the gradient and then the direction, minus the gradient, the inverse of
    the diagonal of U, w of the best pair, and how far w can be from the optimum (``weight_bounds.py`` of the certificate),
    infinite but for columns whose numbers use up the digits of alpha. S is the sum of C_i x_i x_i' over the free samples, its
    lower triangle, and U has its factor. ``strip`` holds some samples that are added to S, and a row for products."""

    w: Array
    w_alpha: Array
    direction: Array
    gradient: Array
    inverse: Array
    best_w: Array
    reach: Array
    S: Array
    U: Array
    strip: Array


@njit(**OPTIONS)
def solve_small(Z, samples, weights, settings):
    """Solve from the anchor and w to the precision of float64, in at most ``most_steps`` steps. The first columns of Z are
    sigma_i x_i, with the constant feature. Returns the gap and the dual value of the best pair, the steps made, the samples
    free, and the penalty and the dual value of the anchor with which another call goes on.

    With a free offset b alpha is not balanced. By weak duality D(alpha) - b* sum_i alpha_i sigma_i is at most the optimum. Its
    estimate is with b in place of b*, less what it costs to balance alpha, which is counted in the gap. An inner loop over all
    samples reads at most eight arrays and writes at most one, in the order of memory: the compiler then works on several
    samples at once."""
    C, target, share, anchor, free, along, slack, new, best, chosen = samples
    w, w_alpha, direction, gradient, inverse, best_w, reach, S, U, strip = weights
    hardness, epsilon, penalty, anchor_dual = settings.hardness, settings.epsilon, settings.penalty, settings.anchor_dual
    lower, upper, half, is_kinked = settings.lower, settings.upper, 0.5 / settings.hardness, settings.epsilon > 0.0
    d, n, size = np.uint64(len(w)), np.uint64(len(C)), np.uint64(strip.shape[1])
    n_penalised = np.uint64(settings.n_penalised)
    gap, inner_gap, least_primal, best_gap, best_dual, t = np.inf, np.inf, np.inf, np.inf, 0.0, 0.0
    steps, inner_steps, idle, retreats, is_at_rounding, n_free = 0, 0, 0, 0, False, 0.0
    while True:
        # After a step of length t: the answer a to the slacks, w(alpha), S, and the sums of ``respond`` in ``pass_loops``.
        rate, keep = 1.0 / (1.0 / penalty + 1.0 / hardness), 1.0 / (1.0 + penalty / hardness)
        for i in range(n):
            slack[i] -= t * along[i]
        linear, loss, gap_terms, moved, changed, n_free = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            left = slack[i]
            it = answered(rate * left + keep * anchor[i], epsilon * rate, lower, upper)
            ideal = answered(hardness * left, epsilon * hardness, lower, upper)
            kink, ideal_kink = epsilon * abs(it), epsilon * abs(ideal)
            linear += C[i] * (it * (target[i] - half * it) - kink)
            loss += C[i] * (ideal * (left - half * ideal) - ideal_kink)
            gap_terms += C[i] * ((ideal - it) * (left - half * (ideal + it)) - (ideal_kink - kink))
            is_free = is_inside(it, lower, upper, is_kinked)
            moved += 1.0 if it != share[i] else 0.0
            changed += 1.0 if is_free != (free[i] != 0.0) else 0.0
            n_free += 1.0 if is_free else 0.0
            new[i] = it
        is_sparse = FEW * moved <= n
        is_anew = changed > n_free or FEW * changed > n  # S from zero takes fewer additions, or hardly more
        if is_anew:
            for k in range(d):
                for j in range(d):
                    S[k, j] = 0.0
        n_chosen = ZERO
        for i in range(n):  # chosen are the samples to add to S, or to take from it
            change, now = new[i] - share[i], 1.0 if is_inside(new[i], lower, upper, is_kinked) else 0.0
            scale = now if is_anew else now - free[i]
            if change != 0.0 or scale != 0.0 or now != free[i]:
                if is_sparse:
                    for j in range(d):
                        w_alpha[j] += C[i] * change * Z[j, i]
                free[i], share[i] = now, new[i]
                chosen[n_chosen], new[n_chosen] = i, C[i] * scale
                n_chosen += ONE if scale != 0.0 else ZERO
        if not is_sparse:
            for j in range(d):
                total = 0.0
                for i in range(n):
                    total += C[i] * share[i] * Z[j, i]
                w_alpha[j] = total
        for first in range(ZERO, n_chosen, size):
            length = size if first + size < n_chosen else n_chosen - first
            for j in range(d):
                for i in range(length):
                    strip[j, i] = Z[j, chosen[first + i]]
            for k in range(d):
                for i in range(length):
                    strip[d, i] = new[first + i] * strip[k, i]
                for j in range(k + ONE):
                    total = 0.0
                    for i in range(length):
                        total += strip[d, i] * strip[j, i]
                    S[k, j] += total
        last_gap, last_inner_gap = gap, inner_gap
        inner_gap, primal, dual = 0.0, loss, linear
        for j in range(d):
            w[j] += t * direction[j]
            if j < n_penalised:
                direction[j] = w_alpha[j] - w[j]
                off, is_known = abs(direction[j]), abs(direction[j]) > reach[j]
                cost = reach[j] * (off - 0.5 * reach[j]) if is_known else 0.5 * off * off
                inner_gap += cost
                primal += 0.5 * w[j] * w[j]
                dual -= cost + w[j] * (w_alpha[j] - 0.5 * w[j]) if is_known else 0.5 * w_alpha[j] * w_alpha[j]
            else:
                direction[j], off = w_alpha[j], abs(w_alpha[j])
                imbalance = off * (settings.imbalance_cost + settings.imbalance_curvature * off)
                inner_gap += imbalance
                dual -= imbalance + w[j] * w_alpha[j]
        gap, t = gap_terms + inner_gap, 0.0
        least_primal = primal if primal < least_primal else least_primal
        if gap < settings.better_pair * best_gap:
            best_gap, best_dual = gap, dual
            for i in range(n):
                best[i] = share[i]
            for j in range(d):
                best_w[j] = w[j]
        if inner_steps > 0:  # is the inner problem solved? Then the anchor moves.
            is_at_rounding |= gap == last_gap and inner_gap == last_inner_gap
            rise = dual - anchor_dual
            enough = rise if rise < np.inf else gap_terms
            is_solved = inner_gap <= settings.acceptance * enough or (is_at_rounding and rise > -settings.converged * abs(dual))
            if penalty < np.inf and is_solved:
                idle = 0 if rise > ROUNDING * abs(dual) else idle + 1
                if rise > 0.0:
                    anchor_dual = dual
                    for i in range(n):
                        anchor[i] = share[i]
                penalty *= settings.factors[(inner_steps > 3) + (inner_steps > 8) + (inner_steps > 20)]
                inner_steps = 0
                if gap > settings.converged * abs(dual):
                    continue
            if is_at_rounding and (penalty == np.inf or retreats == settings.most_retreats):
                break
            if is_at_rounding:  # few samples are free, so that the matrix is nearly singular: a smaller penalty frees more
                penalty, retreats, inner_steps, is_at_rounding = penalty * settings.retreat, retreats + 1, 0, False
                for i in range(n):
                    slack[i] = target[i]
                for j in range(d):
                    w[j] = best_w[j]
                    for i in range(n):
                        slack[i] -= w[j] * Z[j, i]
                continue
        if not gap > settings.converged * abs(dual) or steps >= settings.most_steps or idle >= settings.most_idle:
            break
        steps, inner_steps = steps + 1, inner_steps + 1
        for j in range(d):
            gradient[j] = 1.0 if j < n_penalised else rate * settings.light
        decrement = direct(rate, S, U, direction, gradient, inverse)
        is_at_rounding = not decrement > ROUNDING * least_primal
        if not (decrement > 0.0 and decrement < np.inf):
            continue
        # The t > 0 where F'(w + t direction), which rises with t, is 0: Newton from t = 1, kept between two bounds.
        linear, quadratic = 0.0, 0.0
        for j in range(n_penalised):
            linear += w[j] * direction[j]
            quadratic += direction[j] * direction[j]
        for i in range(n):
            along[i] = 0.0
        for j in range(d):
            scale = direction[j]
            for i in range(n):
                along[i] += scale * Z[j, i]
        newer, low, high = 1.0, 0.0, np.inf
        for _ in range(settings.most_looks):
            t = newer
            first_sum, second_sum = 0.0, 0.0
            for i in range(n):
                pull = C[i] * along[i]
                it = answered(rate * (slack[i] - t * along[i]) + keep * anchor[i], epsilon * rate, lower, upper)
                first_sum += it * pull
                second_sum += along[i] * pull if is_inside(it, lower, upper, is_kinked) else 0.0
            slope, curvature = linear + t * quadratic - first_sum, quadratic + rate * second_sum
            if abs(slope) <= settings.search_accuracy * decrement:
                break
            if slope < 0.0:
                low = t
            else:
                high = t
            newer = t - slope / curvature
            if not (low < newer and newer < high):
                newer = 0.5 * (low + high) if high < np.inf else 4.0 * low
            if newer == t or newer == low or newer == high:
                break
    return best_gap, best_dual, steps, n_free, penalty, anchor_dual


@njit(inline="always")
def answered(wanted, shift, lower, upper):
    """``wanted`` moved towards 0 by the shift, and no farther, and into its bounds. By comparisons: Numba compiles ``min`` and
    ``max`` as functions of their own."""
    above, below = wanted - shift, wanted + shift
    above, below = above if above > 0.0 else 0.0, below if below < 0.0 else 0.0
    moved = above + below
    moved = moved if moved < upper else upper
    return moved if moved > lower else lower


@njit(inline="always")
def is_inside(it, lower, upper, is_kinked):
    """Whether a_i is free: between its bounds, and not at the kink at 0 if there is one."""
    return (it > lower) & (it < upper) & ((it != 0.0) | (not is_kinked))


@njit(inline="always")
def direct(rate, S, U, direction, gradient, inverse):
    """The direction -(R + rate S)^-1 g takes the place of -g, and -g that of R, a diagonal matrix. Returns -g . direction, and
    zero where the matrix is not positive definite. U, made row by row, has U' D^-1 U = R + rate S, where D is its diagonal."""
    d, decrement = np.uint64(len(direction)), 0.0
    for k in range(d):
        for i in range(k, d):
            U[k, i] = rate * S[i, k]
        U[k, k] += gradient[k]
        value = direction[k]
        gradient[k] = value
        for earlier in range(k):
            scale = U[earlier, k] * inverse[earlier]
            value -= scale * direction[earlier]
            for i in range(k, d):
                U[k, i] -= scale * U[earlier, i]
        inverse[k] = 1.0 / U[k, k]
        if not (inverse[k] > 0.0 and inverse[k] < np.inf):
            return 0.0
        direction[k] = value
    for j in range(d):
        k = d - ONE - j
        value = direction[k]
        for i in range(k + ONE, d):
            value -= U[k, i] * direction[i]
        direction[k] = value * inverse[k]
        decrement += gradient[k] * direction[k]
    return decrement

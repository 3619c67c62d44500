"""The semismooth Newton method of ``newton.py`` in one call, for problems of some ten thousand elements.

There a pass over the samples takes some microseconds, and to ask for each pass from Python takes longer than the pass itself.
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
ONE = np.uint64(1)

OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
    "fastmath": FAST,
    "allocates": False,
}


class Settings(NamedTuple):
    """What the loss gives the dual, p_i alpha_i - e |alpha_i| - alpha_i^2 / (2 hardness C_i); the settings of the
    proximal-point method: the first penalty, the dual value of the first anchor, when an inner problem is solved, and what
    multiplies the penalty after an inner problem of at most 3, at most 8, at most 20 and more steps. The rest are fields of
    ``NewtonPolicy`` and ``LineSearchPolicy``."""

    hardness: float
    epsilon: float
    penalty: float
    anchor_dual: float
    acceptance: float
    factors: tuple[float, float, float, float]
    converged: float
    better_pair: float
    most_idle: int
    search_accuracy: float
    most_looks: int
    most_steps: int


class Samples(NamedTuple):
    """An element for each sample: C_i, the bounds of alpha_i, and p_i; the anchor of the proximal term; the margin, and its
    change along the direction; alpha_i, whether it is free in S and will be, and alpha_i of the best pair."""

    C: Array
    lower: Array
    upper: Array
    target: Array
    anchor: Array
    margin: Array
    along: Array
    alpha: Array
    free: Array
    becomes_free: Array
    best_alpha: Array


class Weights(NamedTuple):
    """An element for each weight: w, w(alpha), minus the gradient and then the direction, minus the gradient, the inverse of
    the diagonal of U, and w of the best pair. S is the sum of C_i x_i x_i' over the free samples, its lower triangle, and U
    has its factor."""

    w: Array
    w_alpha: Array
    direction: Array
    gradient: Array
    inverse: Array
    best_w: Array
    S: Array
    U: Array


@njit(**OPTIONS)
def solve_small(Z, samples, weights, settings):
    """Solve from the anchor and w to the precision of float64, in at most ``most_steps`` steps. The rows of Z are sigma_i x_i,
    with the constant feature. Returns the gap and the dual value of the best pair, the steps made, and the samples free.

    Only for problems without an intercept or with a penalised one."""
    C, lower, upper, target, anchor, margin, along, alpha, free, becomes_free, best_alpha = samples
    w, w_alpha, direction, gradient, inverse, best_w, S, U = weights
    hardness, epsilon, penalty, anchor_dual = settings.hardness, settings.epsilon, settings.penalty, settings.anchor_dual
    n, d = np.uint64(Z.shape[0]), np.uint64(Z.shape[1])
    gap, inner_gap, least_primal, best_gap, best_dual, t = np.inf, np.inf, np.inf, np.inf, 0.0, 0.0
    steps, inner_steps, idle, is_at_rounding = 0, 0, 0, False
    while True:
        # After a step of length t: the answer alpha to the margins, w(alpha), S, and the sums of ``respond`` in ``pass_loops``.
        rate, keep = 1.0 / (1.0 / penalty + 1.0 / hardness), 1.0 / (1.0 + penalty / hardness)
        linear, loss, gap_terms, n_free, n_changed = 0.0, 0.0, 0.0, 0, 0
        for i in range(n):
            margin[i] += t * along[i]
            slack, gain, steepness = target[i] - margin[i], rate * C[i], hardness * C[i]
            new, is_free = answered(gain * slack + keep * anchor[i], epsilon * gain, lower[i], upper[i])
            is_free = is_free and new < upper[i] and new > lower[i] and (new != 0.0 or epsilon == 0.0)
            change = new - alpha[i]
            if change != 0.0:
                alpha[i] = new
                for j in range(d):
                    w_alpha[j] += change * Z[i, j]
            if steepness > 0.0:
                half_D = 0.5 / steepness
                best, _ = answered(steepness * slack, epsilon * steepness, lower[i], upper[i])
                kink, best_kink = epsilon * abs(new), epsilon * abs(best)
                linear += new * (target[i] - half_D * new) - kink
                loss += best * (slack - half_D * best) - best_kink
                gap_terms += (best - new) * (slack - half_D * (best + new)) - (best_kink - kink)
            n_free += is_free
            n_changed += is_free != free[i]
            becomes_free[i] = is_free
        is_anew = n_changed > n_free  # then S takes fewer additions from zero than from what it was
        if is_anew:
            S[:] = 0.0
        for i in range(n):
            sign = becomes_free[i] - (not is_anew and free[i])
            free[i] = becomes_free[i]
            if sign != 0:
                for k in range(d):
                    scale = sign * C[i] * Z[i, k]
                    for j in range(k + ONE):
                        S[k, j] += scale * Z[i, j]
        last_gap, last_inner_gap = gap, inner_gap
        inner_gap, primal, dual = 0.0, loss, linear
        for j in range(d):
            w[j] += t * direction[j]
            direction[j] = w_alpha[j] - w[j]
            inner_gap += 0.5 * direction[j] * direction[j]
            primal += 0.5 * w[j] * w[j]
            dual -= 0.5 * w_alpha[j] * w_alpha[j]
        gap, t = gap_terms + inner_gap, 0.0
        least_primal = primal if primal < least_primal else least_primal
        if gap < settings.better_pair * best_gap:
            best_gap, best_dual = gap, dual
            for i in range(n):
                best_alpha[i] = alpha[i]
            for j in range(d):
                best_w[j] = w[j]
        if inner_steps > 0:  # is the inner problem solved? Then the anchor moves.
            is_at_rounding |= gap == last_gap and inner_gap == last_inner_gap
            rise = dual - anchor_dual
            is_solved = inner_gap <= settings.acceptance * rise or (is_at_rounding and rise > -settings.converged * abs(dual))
            if penalty < np.inf and is_solved:
                idle = 0 if rise > ROUNDING * abs(dual) else idle + 1
                if rise > 0.0:
                    anchor_dual = dual
                    for i in range(n):
                        anchor[i] = alpha[i]
                penalty *= settings.factors[(inner_steps > 3) + (inner_steps > 8) + (inner_steps > 20)]
                inner_steps = 0
                continue
            if is_at_rounding:
                break
        if not gap > settings.converged * abs(dual) or steps >= settings.most_steps or idle >= settings.most_idle:
            break
        steps, inner_steps = steps + 1, inner_steps + 1
        decrement = direct(rate, S, U, direction, gradient, inverse)
        is_at_rounding = not decrement > ROUNDING * least_primal
        if not (decrement > 0.0 and decrement < np.inf):
            continue
        # The t > 0 where F'(w + t direction), which rises with t, is 0: Newton from t = 1, kept between two bounds.
        linear, quadratic = 0.0, 0.0
        for j in range(d):
            linear += w[j] * direction[j]
            quadratic += direction[j] * direction[j]
        for i in range(n):
            product = 0.0
            for j in range(d):
                product += Z[i, j] * direction[j]
            along[i] = product
        newer, low, high = 1.0, 0.0, np.inf
        for _ in range(settings.most_looks):
            t = newer
            first, second = linear + t * quadratic, quadratic
            for i in range(n):
                gain = rate * C[i]
                wanted = gain * (target[i] - margin[i] - t * along[i]) + keep * anchor[i]
                new, is_inside = answered(wanted, epsilon * gain, lower[i], upper[i])
                first -= new * along[i]
                if is_inside and (new != 0.0 or epsilon == 0.0):
                    second += gain * along[i] * along[i]
            if abs(first) <= settings.search_accuracy * decrement:
                break
            if first < 0.0:
                low = t
            else:
                high = t
            newer = t - first / second
            if not (low < newer and newer < high):
                newer = 0.5 * (low + high) if high < np.inf else 4.0 * low
            if newer == t or newer == low or newer == high:
                break
    return best_gap, best_dual, steps, n_free


@njit(inline="always")
def answered(wanted, shift, lower, upper):
    """``wanted`` moved towards 0 by the shift, and no farther, and into its bounds; and whether the bounds left it there. By
    comparisons: Numba compiles ``min`` and ``max`` as functions of their own."""
    if wanted > shift:
        wanted -= shift
    elif wanted < -shift:
        wanted += shift
    else:
        wanted = 0.0
    new = wanted
    if new > upper:
        new = upper
    if new < lower:
        new = lower
    return new, new == wanted


@njit(inline="always")
def direct(rate, S, U, direction, gradient, inverse):
    """The direction -(1 + rate S)^-1 g takes the place of -g. Returns -g . direction, and zero where the matrix is not positive
    definite. U, made row by row, has U' D^-1 U = 1 + rate S, where D is its diagonal."""
    d, decrement = np.uint64(len(direction)), 0.0
    for k in range(d):
        for i in range(k, d):
            U[k, i] = rate * S[i, k]
        U[k, k] += 1.0
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

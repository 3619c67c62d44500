"""The semismooth Newton method of ``newton.py`` in one call, for problems of some ten thousand elements.

There a pass over the samples takes some microseconds, and to ask for each pass from Python takes longer than the pass itself.
What is hard (a matrix that is not positive definite, rounding that hides the rise of the dual value) is left to the method in
Python: the call ends there, and says how small the gap is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.data.by_type import loop_by_type
from maxmargin.data.caching import njit
from maxmargin.data.row_loops import add_rows
from maxmargin.data.rows import Array
from maxmargin.solvers.kernel.irwls.cholesky_loops import factor, substitute
from maxmargin.solvers.linear.newton.pass_loops import FAST, add_outer, respond, signed_products, slope

ROUNDING = 2.0**-52
"""The distance from 1.0 to the next float64: mathematics, not a setting."""

OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy", "fastmath": FAST}


class Outer(NamedTuple):
    """The settings of the proximal-point method: the first penalty from a point that is given and from zero; when an inner
    problem is solved; what multiplies the penalty after an inner problem of at most 3, at most 8, at most 20 and more steps.
    The rest are fields of ``NewtonPolicy`` and ``LineSearchPolicy``."""

    penalty: float
    cold_penalty: float
    acceptance: float
    factors: tuple[float, float, float, float]
    converged: float
    better_pair: float
    most_idle: int
    search_accuracy: float
    most_looks: int


class Anchored(NamedTuple):
    """The proximal term in alpha_i = clip(keep anchor_i + rate C_i (a - m_i)), as ``respond`` and ``slope`` read it."""

    anchor: Array
    rate: float
    keep: float


class Answered(NamedTuple):
    """What ``respond`` writes: the answer, who is free, whose freedom changed, four sums, and w(alpha)."""

    signs: Array
    alpha: Array
    free: Array
    changed: Array
    sums: Array
    w: Array


class Place(NamedTuple):
    """w, the margins, their change along the direction, and the gradient (and then the direction)."""

    w: Array
    margin: Array
    along: Array
    direction: Array


class Start(NamedTuple):
    """Where to begin, and where the best pair is written to: alpha and w. ``linear`` is the sum of the dual's terms at alpha,
    and ``primal_at_zero`` P(0)."""

    alpha: Array
    w: Array
    linear: float
    primal_at_zero: float
    most_steps: int


class Matrix(NamedTuple):
    """S = sum of C_i x_i x_i' over the samples that are ``inside``, and the memory for its factor."""

    S: Array
    inside: Array
    U: Array


class Values(NamedTuple):
    """Of the present pair: the primal and the dual value, |g|^2 / 2, and the gap."""

    primal: float
    dual: float
    inner_gap: float
    gap: float


class Outcome(NamedTuple):
    """The gap of the pair that was found, its dual value, Newton steps, and samples free."""

    gap: float
    dual: float
    steps: int
    n_free: int


@loop_by_type("curve", **OPTIONS)
def solve_small(rows, signs, curve, outer, start):
    """From ``start.alpha`` to the optimum, as far as float64 goes or ``start.most_steps`` lead.

    Only for problems without an intercept or with a penalised one."""
    alpha, w, most_steps = start.alpha, start.w, start.most_steps
    n, d = len(signs), len(w)
    place = Place(np.empty(d), np.empty(n), np.empty(n), np.empty(d))
    found = Answered(signs, alpha.copy(), np.zeros(n, np.bool_), np.empty(n, np.int64), np.zeros(4), np.zeros(d))
    matrix = Matrix(np.zeros((d, d)), np.zeros(n, np.bool_), np.empty((d, d)))
    prox, penalty, anchor_dual, now = begin(rows, curve, outer, start, place, found)
    copy_to(alpha, found.alpha)
    copy_to(w, place.w)
    best, least_primal, inner_steps, idle, steps = now, now.primal, 0, 0, 0
    while now.gap > outer.converged * abs(now.dual) and steps < most_steps and idle < outer.most_idle:
        steps, inner_steps, before = steps + 1, inner_steps + 1, now
        follow(rows, curve, found.free, matrix)
        decrement = direct(prox.rate, place, matrix)
        is_at_rounding = not decrement > ROUNDING * least_primal
        if decrement > 0.0:
            signed_products(rows, signs, place.direction, place.along, 0, n)
            move(place, search(place, curve, prox, found.sums, decrement, outer))
            now = answer(rows, curve, prox, place, found)
            is_at_rounding |= before.inner_gap == now.inner_gap and before.gap == now.gap
            best = keep(now, best, outer.better_pair, found.alpha, place.w, alpha, w)
            least_primal = min(least_primal, now.primal)
        rise = now.dual - anchor_dual
        is_solved = now.inner_gap <= outer.acceptance * rise or (is_at_rounding and rise > -outer.converged * abs(now.dual))
        if penalty < np.inf and is_solved:
            idle = 0 if rise > ROUNDING * abs(now.dual) else idle + 1
            if rise > 0.0:
                copy_to(prox.anchor, found.alpha)
                anchor_dual = now.dual
            penalty *= factor_after(inner_steps, outer.factors)
            prox, inner_steps = anchored(prox.anchor, penalty, curve.softness), 0
            now = answer(rows, curve, prox, place, found)
            best = keep(now, best, outer.better_pair, found.alpha, place.w, alpha, w)
        elif is_at_rounding:
            break
    return Outcome(best.gap, best.dual, steps, np.sum(found.free))


@loop_by_type("curve", **OPTIONS)
def begin(rows, curve, outer, start, place, found):
    """w = w(alpha) and its answer; or w = 0, if that has the lesser primal value: w(alpha) of a poor alpha can be far off."""
    is_smooth, anchor = curve.softness > 0.0, found.alpha.copy()
    penalty = np.inf if is_smooth else outer.penalty
    prox = anchored(anchor, penalty, curve.softness)
    add_rows(rows, anchor * found.signs, found.w, 0, len(anchor))
    anchor_dual = start.linear - 0.5 * square(found.w)
    copy_to(place.w, found.w)
    signed_products(rows, found.signs, place.w, place.margin, 0, len(anchor))
    now = answer(rows, curve, prox, place, found)
    if not now.primal < start.primal_at_zero or not place.w.any():
        for j in range(len(place.w)):
            place.w[j] = 0.0
        for i in range(len(place.margin)):
            place.margin[i] = 0.0
        penalty = np.inf if is_smooth else outer.cold_penalty
        prox = anchored(anchor, penalty, curve.softness)
        now = answer(rows, curve, prox, place, found)
    return prox, penalty, anchor_dual, now


@njit(inline="always")
def copy_to(target, source):
    """By a loop: a slice assignment takes seconds to compile."""
    for k in range(len(source)):
        target[k] = source[k]


@njit(inline="always")
def keep(now, best, share, its_alpha, its_w, alpha, w):
    """The present pair, which is copied, if its gap is below this share of the best pair's; else the best."""
    if not now.gap < share * best.gap:
        return best
    copy_to(alpha, its_alpha)
    copy_to(w, its_w)
    return now


@loop_by_type("curve", **OPTIONS)
def answer(rows, curve, prox, place, found):
    """The alpha that answers the margins, and the values of the pair. The direction becomes minus the gradient."""
    respond(rows, place.margin, curve, prox, found, 0, len(place.margin))
    linear, gap_terms, loss, _ = found.sums
    for j in range(len(place.w)):
        place.direction[j] = found.w[j] - place.w[j]
    inner_gap = 0.5 * square(place.direction)
    return Values(0.5 * square(place.w) + loss, linear - 0.5 * square(found.w), inner_gap, gap_terms + inner_gap)


@njit(**OPTIONS)
def follow(rows, curve, free, matrix):
    """Bring S up to date with the samples that are free: by those that changed, or from the beginning if they are more."""
    n_changed, n_free = 0, 0
    for i in range(len(free)):
        n_changed += free[i] != matrix.inside[i]
        n_free += free[i]
    if n_changed > n_free:
        for i in range(len(free)):
            matrix.inside[i] = False
        for k in range(len(matrix.S)):
            for j in range(len(matrix.S)):
                matrix.S[k, j] = 0.0
    for i in range(len(free)):
        if free[i] != matrix.inside[i]:
            add_outer(rows, np.uint64(i), curve.C[i] if free[i] else -curve.C[i], matrix.S)
            matrix.inside[i] = free[i]


@njit(**OPTIONS)
def direct(rate, place, matrix):
    """The direction -(1 + rate S)^-1 g takes the place of -g. Returns -g . direction; zero where there is none."""
    d = len(place.w)
    for k in range(d):
        for j in range(k):
            matrix.U[j, k] = rate * matrix.S[k, j]
        matrix.U[k, k] = 1.0 + rate * matrix.S[k, k]
    if not factor(matrix.U, d):
        return 0.0
    gradient = place.direction.copy()
    substitute(matrix.U, d, place.direction)
    decrement = 0.0
    for j in range(d):
        decrement += gradient[j] * place.direction[j]
    return decrement if decrement < np.inf else 0.0


@loop_by_type("curve", **OPTIONS)
def search(place, curve, prox, sums, decrement, outer):
    """The t > 0 with F'(w + t direction) = 0, which rises with t: Newton from t = 1, kept between two bounds. Zero where
    there is no such t among the first numbers that are tried: then the columns are of very different scales."""
    linear, quadratic = 0.0, square(place.direction)
    for j in range(len(place.w)):
        linear += place.w[j] * place.direction[j]
    t, low, high = 1.0, 0.0, np.inf
    for _ in range(outer.most_looks):
        slope(place, curve, prox, t, sums, 0, len(place.margin))
        value, rise = sums[0] + linear + t * quadratic, sums[1] + quadratic
        if abs(value) <= outer.search_accuracy * decrement:
            return t
        if value < 0.0:
            low = t
        else:
            high = t
        newer = t - value / rise
        if not (low < newer and newer < high):
            newer = 0.5 * (low + high) if high < np.inf else 4.0 * low
        if newer == t or newer == low or newer == high:
            return t
        t = newer
    return t


@njit(**OPTIONS)
def move(place, t):
    for j in range(len(place.w)):
        place.w[j] += t * place.direction[j]
    for i in range(len(place.margin)):
        place.margin[i] += t * place.along[i]


@njit(inline="always")
def anchored(anchor, penalty, softness):
    return Anchored(anchor, 1.0 / (1.0 / penalty + softness), 1.0 / (1.0 + penalty * softness))


@njit(inline="always")
def factor_after(inner_steps, factors):
    if inner_steps <= 3:
        return factors[0]
    if inner_steps <= 8:
        return factors[1]
    return factors[2] if inner_steps <= 20 else factors[3]


@njit(**OPTIONS)
def square(v):
    total = 0.0
    for j in range(len(v)):
        total += v[j] * v[j]
    return total

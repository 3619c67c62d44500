"""The passes of the semismooth Newton method over the samples; ``maxmargin.solvers.linear.newton.newton`` has the mathematics.

Each pass works on the samples start <= i < stop, so that threads can share the work. No pass allocates memory.
"""

from __future__ import annotations

import numpy as np

from maxmargin.data.by_type import by_type, loop_by_type
from maxmargin.data.caching import njit
from maxmargin.data.row_loops import ONE, column_of, row_add, row_dot, row_length, row_start, value_of
from maxmargin.solvers.linear.newton.curves import Curve, Tube

FAST = {"reassoc", "contract", "nsz", "arcp"}
IN_ORDER = {"contract", "nsz", "arcp"}
"""Compiler options for sums over short rows. If a sum may be reordered, the compiler makes a loop that adds sixteen elements at
a time. A row of ten elements never enters that loop, and a product takes a third longer."""
TWO = ONE + ONE


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def signed_products(rows, y, w, products, start, stop):
    """products_i = y_i (x_i . w)"""
    for i in range(np.uint64(start), np.uint64(stop)):
        products[i] = y[i] * row_dot(rows, i, w)


@njit(inline="always")
def short_row_dot(rows, i, w):
    """x_i . w of ``OneValueRows``, two elements at a time: in a row of ten the loop itself costs as much as the sum."""
    indices, k, stop = rows.indices, rows.indptr[i], rows.indptr[i + ONE]
    even, odd = 0.0, 0.0
    while k + ONE < stop:
        even += w[indices[k]]
        odd += w[indices[k + ONE]]
        k += TWO
    if k < stop:
        even += w[indices[k]]
    return rows.value * (even + odd) + rows.bias * w[w.shape[0] - 1]


@njit(inline="always")
def short_row_add(rows, i, scale, w):
    """w += scale x_i of ``OneValueRows``, two elements at a time."""
    indices, k, stop, each = rows.indices, rows.indptr[i], rows.indptr[i + ONE], scale * rows.value
    while k + ONE < stop:
        w[indices[k]] += each
        w[indices[k + ONE]] += each
        k += TWO
    if k < stop:
        w[indices[k]] += each
    if rows.bias != 0.0:
        w[w.shape[0] - 1] += scale * rows.bias


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=IN_ORDER)
def short_signed_products(rows, y, w, products, start, stop):
    """``signed_products`` for ``OneValueRows``."""
    for i in range(np.uint64(start), np.uint64(stop)):
        products[i] = y[i] * short_row_dot(rows, i, w)


@by_type
def target_of(curve, i):
    """p_i"""


@target_of.when(Tube)
def _(curve, i):
    return curve.target[i]


@target_of.when(Curve)
def _(curve, i):
    return curve.target


@by_type
def lower_of(curve, i):
    """L_i"""


@lower_of.when(Tube)
def _(curve, i):
    return curve.lower[i]


@lower_of.when(Curve)
def _(curve, i):
    return curve.lower


@by_type
def softened(curve, wanted, gain):
    """The answer with the kink -epsilon |alpha_i| at 0: ``wanted`` moved towards 0 by epsilon gain, and no farther."""


@softened.when(Tube)
def _(curve, wanted, gain):
    return max(0.0, wanted - curve.epsilon * gain) + min(0.0, wanted + curve.epsilon * gain)


@softened.when(Curve)
def _(curve, wanted, gain):
    return wanted


@by_type
def is_off_kink(curve, alpha):
    """Whether the dual is quadratic around alpha_i, as far as the kink is concerned."""


@is_off_kink.when(Tube)
def _(curve, alpha):
    return alpha != 0.0 or curve.epsilon == 0.0


@is_off_kink.when(Curve)
def _(curve, alpha):
    return True


@by_type
def kink_of(curve, alpha):
    """epsilon |alpha_i|"""


@kink_of.when(Tube)
def _(curve, alpha):
    return curve.epsilon * abs(alpha)


@kink_of.when(Curve)
def _(curve, alpha):
    return 0.0


@by_type
def bound_towards(curve, pull, upper, lower):
    """The bound to which a loss without curvature pulls alpha_i."""


@bound_towards.when(Tube)
def _(curve, pull, upper, lower):
    return upper if pull > 0.0 else (lower if pull < 0.0 else 0.0)


@bound_towards.when(Curve)
def _(curve, pull, upper, lower):
    return upper if pull > 0.0 else 0.0


@loop_by_type("curve", cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def respond(rows, margin, curve, prox, found, start, stop):
    """alpha_i = clip(keep anchor_i + rate C_i (p_i - m_i), L_i, U_i), towards 0 by the kink, and what depends on it.

    found.w gains the change in sum_i alpha_i sigma_i x_i; ``found.changed`` lists, from ``start`` on, the samples that became
    free (i) or ceased to be (~i), and their number is returned; ``found.sums`` becomes (sum_i p_i alpha_i - e |alpha_i| - D_ii
    alpha_i^2 / 2, sum of the gap terms, sum of C_i loss_i, samples free). With the slack s = p_i - m_i, C_i loss_i is the
    greatest value of s t - e |t| - D_ii t^2 / 2 in the box, and the gap term is what alpha_i lacks of that value.

    Three loops are faster than one: the first two do without branches, and the last without guesses of the processor about
    which samples moved. On one-hot columns they take 0.3 ms instead of 0.66."""
    linear, gap, loss, n_free, n_changed, n_moved = 0.0, 0.0, 0.0, 0, start, start
    for i in range(np.uint64(start), np.uint64(stop)):
        target, lower, upper = target_of(curve, i), lower_of(curve, i), curve.U[i]
        slack = target - margin[i]
        gain = prox.rate * curve.C[i]
        new = max(min(softened(curve, gain * slack + prox.keep * prox.anchor[i], gain), upper), lower)
        found.step[i] = new - found.alpha[i]
        found.alpha[i] = new
        pull = softened(curve, slack, 1.0)
        if curve.softness == 0.0:
            best = bound_towards(curve, pull, upper, lower)
            linear += target * new - kink_of(curve, new)
            loss += best * slack - kink_of(curve, best)
            gap += (best - new) * slack - (kink_of(curve, best) - kink_of(curve, new))
        else:
            half_D = 0.5 * curve.softness / curve.C[i] if curve.C[i] > 0.0 else 0.0
            best = max(min(pull * curve.C[i] / curve.softness, upper), lower)
            linear += new * (target - half_D * new) - kink_of(curve, new)
            loss += best * (slack - half_D * best) - kink_of(curve, best)
            gap += (best - new) * (slack - half_D * (best + new)) - (kink_of(curve, best) - kink_of(curve, new))
    for i in range(np.uint64(start), np.uint64(stop)):
        new = found.alpha[i]
        is_free = new < curve.U[i] and new > lower_of(curve, i) and is_off_kink(curve, new)
        n_free += is_free
        found.moved[n_moved] = i
        n_moved += found.step[i] != 0.0
        found.changed[n_changed] = np.int64(i) if is_free else ~np.int64(i)
        n_changed += is_free != found.free[i]
        found.free[i] = is_free
    for k in range(start, n_moved):
        i = np.uint64(found.moved[k])
        row_add(rows, i, found.step[i] * found.signs[i], found.w)
    found.sums[0], found.sums[1], found.sums[2], found.sums[3] = linear, gap, loss, n_free
    return n_changed - start


@loop_by_type("curve", cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def slope(line, curve, prox, t, sums, start, stop):
    """The first and second derivative of the loss part at margin + t along: sums = (-sum a_i d_i, sum over the free of
    rate C_i d_i^2)."""
    first, second = 0.0, 0.0
    for i in range(np.uint64(start), np.uint64(stop)):
        d = line.along[i]
        gain = prox.rate * curve.C[i]
        slack = target_of(curve, i) - line.margin[i] - t * d
        wanted = softened(curve, gain * slack + prox.keep * prox.anchor[i], gain)
        new = max(min(wanted, curve.U[i]), lower_of(curve, i))
        first -= new * d
        if new == wanted and is_off_kink(curve, new):
            second += gain * d * d
    sums[0], sums[1] = first, second


@njit(inline="always")
def row_add_squares(rows, i, scale, w):
    """w_j += scale x_ij^2"""
    start = row_start(rows, i)
    for k in range(row_length(rows, i)):
        value = value_of(rows, start, k)
        w[column_of(rows, start, k)] += scale * value * value
    w[w.shape[0] - 1] += scale * rows.bias * rows.bias


@njit(inline="always")
def add_outer(rows, i, scale, S):
    """S += scale x_i x_i', the lower triangle"""
    start, length, last = row_start(rows, i), row_length(rows, i), S.shape[0] - 1
    for k in range(length):
        scaled, line = scale * value_of(rows, start, k), column_of(rows, start, k)
        for j in range(k + ONE):
            S[line, column_of(rows, start, j)] += scaled * value_of(rows, start, j)
    if rows.bias != 0.0:
        for j in range(length):
            S[last, column_of(rows, start, j)] += scale * rows.bias * value_of(rows, start, j)
        S[last, last] += scale * rows.bias * rows.bias


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def add_outer_products(rows, weight, changed, S, start, stop):
    """S += sum of weight_i x_i x_i' over those that became free, minus those that ceased to be."""
    for k in range(start, stop):
        i = changed[k]
        sign = 1.0 if i >= 0 else -1.0
        i = i if i >= 0 else ~i
        add_outer(rows, np.uint64(i), sign * weight[i], S)


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy")
def gather(rows, weight, chosen, block, start, stop):
    """block_k = sqrt(weight_i) x_i for i = chosen_k, with the constant feature: dense rows for BLAS."""
    for k in range(start, stop):
        i = np.uint64(chosen[k])
        line = block[k - start]
        for j in range(line.shape[0]):
            line[j] = 0.0
        row_add(rows, i, np.sqrt(weight[i]), line)


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def add_hessian_product(rows, chosen, C, v, product, start, stop):
    """product += sum over the chosen samples of C_i (x_i . v) x_i, a row at a time."""
    for k in range(start, stop):
        i = np.uint64(chosen[k])
        row_add(rows, i, C[i] * row_dot(rows, i, v), product)


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=IN_ORDER)
def short_add_hessian_product(rows, chosen, C, v, product, start, stop):
    """``add_hessian_product`` for ``OneValueRows``."""
    for k in range(start, stop):
        i = np.uint64(chosen[k])
        short_row_add(rows, i, C[i] * short_row_dot(rows, i, v), product)


@njit(cache=True, allocates=False, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def add_hessian_diagonal(rows, changed, C, diagonal, start, stop):
    """diagonal_j += sum of C_i x_ij^2 over the samples i that became free, minus those ~i that ceased to be."""
    for k in range(start, stop):
        i = changed[k]
        sign = 1.0 if i >= 0 else -1.0
        i = i if i >= 0 else ~i
        row_add_squares(rows, np.uint64(i), sign * C[i], diagonal)

"""The passes over the samples that the semismooth Newton method is made of; see ``maxmargin.solvers.linear.newton.newton``
for the
mathematics.

Each works on the samples start <= i < stop, so that threads can share the work, and none allocates.
"""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import ONE, column_of, row_add, row_dot, row_length, row_start, value_of

FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def signed_products(rows, y, w, products, start, stop):
    """products_i = y_i (x_i . w)"""
    for i in range(np.uint64(start), np.uint64(stop)):
        products[i] = y[i] * row_dot(rows, i, w)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def respond(rows, y, margin, curve, prox, found, sums, w, start, stop):
    """alpha_i = clip(keep anchor_i + rate C_i (a - m_i), L, U_i), and what depends on it.

    w gains the change in sum_i alpha_i y_i x_i; ``found.changed`` lists, from ``start`` on, the samples that became free (i) or
    ceased to be (~i), and their number is returned; ``sums`` becomes (sum_i a alpha_i - D_ii alpha_i^2 / 2, sum of the gap
    terms, sum of C_i loss_i, samples free). With the slack s = a - m, C_i loss_i is the greatest value of s t - D_ii t^2 / 2 in
    the box, and the gap term is what alpha_i lacks of that value."""
    linear, gap, loss, n_free, n_changed = 0.0, 0.0, 0.0, 0, start
    for i in range(np.uint64(start), np.uint64(stop)):
        slack = curve.a - margin[i]
        wanted = prox.rate * curve.C[i] * slack + prox.keep * prox.anchor[i]
        upper = curve.U[i]
        new = max(min(wanted, upper), curve.lower)
        is_free = new == wanted and new < upper and new > curve.lower
        step = new - found.alpha[i]
        if step != 0.0:
            found.alpha[i] = new
            row_add(rows, i, step * y[i], w)
        if curve.softness == 0.0:
            best = upper if slack > 0.0 else 0.0
            linear += curve.a * new
            loss += best * slack
            gap += (best - new) * slack
        elif curve.C[i] > 0.0:
            half_D = 0.5 * curve.softness / curve.C[i]
            best = max(min(0.5 * slack / half_D, upper), curve.lower)
            linear += new * (curve.a - half_D * new)
            loss += best * (slack - half_D * best)
            gap += (best - new) * (slack - half_D * (best + new))
        n_free += is_free
        if is_free != found.free[i]:
            found.free[i] = is_free
            found.changed[n_changed] = np.int64(i) if is_free else ~np.int64(i)
            n_changed += 1
    sums[0], sums[1], sums[2], sums[3] = linear, gap, loss, n_free
    return n_changed - start


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def slope(margin, direction, curve, prox, t, sums, start, stop):
    """The first and second derivative of the loss part at margin + t direction: sums = (-sum a_i d_i, sum over the free of
    rate C_i d_i^2)."""
    first, second = 0.0, 0.0
    for i in range(start, stop):
        d = direction[i]
        gain = prox.rate * curve.C[i]
        wanted = gain * (curve.a - margin[i] - t * d) + prox.keep * prox.anchor[i]
        new = max(min(wanted, curve.U[i]), curve.lower)
        first -= new * d
        if new == wanted:
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


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def add_outer_products(rows, weight, changed, S, start, stop):
    """S += sum of weight_i x_i x_i' over those that became free, minus those that ceased to be."""
    for k in range(start, stop):
        i = changed[k]
        sign = 1.0 if i >= 0 else -1.0
        i = i if i >= 0 else ~i
        add_outer(rows, np.uint64(i), sign * weight[i], S)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def gather(rows, weight, chosen, block, start, stop):
    """block_k = sqrt(weight_i) x_i for i = chosen_k, with the constant feature: dense rows for BLAS."""
    for k in range(start, stop):
        i = np.uint64(chosen[k])
        line = block[k - start]
        for j in range(line.shape[0]):
            line[j] = 0.0
        row_add(rows, i, np.sqrt(weight[i]), line)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def add_hessian_product(rows, free, C, v, product, start, stop):
    """product += sum over the free samples of C_i (x_i . v) x_i, a row at a time."""
    for i in range(np.uint64(start), np.uint64(stop)):
        if free[i]:
            row_add(rows, i, C[i] * row_dot(rows, i, v), product)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def add_hessian_diagonal(rows, free, C, diagonal, start, stop):
    """diagonal_j += sum over the free samples of C_i x_ij^2"""
    for i in range(np.uint64(start), np.uint64(stop)):
        if free[i]:
            row_add_squares(rows, i, C[i], diagonal)

"""The passes over the samples that the semismooth Newton method is made of; see ``maxmargin.solvers.newton`` for the
mathematics.

Each works on the samples start <= i < stop, so that threads can share the work, and none allocates.
"""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from maxmargin.compiled.caching import njit
from maxmargin.compiled.rows import ONE, row_add, row_dot
from maxmargin.data import CsrRows

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


def row_add_squares(rows, i, scale, w):
    """w_j += scale x_ij^2"""
    raise TypeError("row_add_squares exists only inside compiled code")


@overload(row_add_squares, inline="always")
def _row_add_squares(rows, i, scale, w):
    if rows.instance_class is CsrRows:

        def sparse(rows, i, scale, w):
            for k in range(rows.indptr[i], rows.indptr[i + ONE]):
                w[rows.indices[k]] += scale * rows.values[k] * rows.values[k]
            w[w.shape[0] - 1] += scale * rows.bias * rows.bias

        return sparse

    def dense(rows, i, scale, w):
        for j in range(rows.values.shape[1]):
            w[j] += scale * rows.values[i, j] * rows.values[i, j]
        w[w.shape[0] - 1] += scale * rows.bias * rows.bias

    return dense


def add_outer(rows, i, scale, S):
    """S += scale x_i x_i', the lower triangle"""
    raise TypeError("add_outer exists only inside compiled code")


@overload(add_outer, inline="always")
def _add_outer(rows, i, scale, S):
    if rows.instance_class is CsrRows:

        def sparse(rows, i, scale, S):
            first, last = rows.indptr[i], S.shape[0] - 1
            for k in range(first, rows.indptr[i + ONE]):
                scaled = scale * rows.values[k]
                line = S[rows.indices[k]]
                for j in range(first, k + ONE):
                    line[rows.indices[j]] += scaled * rows.values[j]
            if rows.bias != 0.0:
                line = S[last]
                for j in range(first, rows.indptr[i + ONE]):
                    line[rows.indices[j]] += scale * rows.bias * rows.values[j]
                line[last] += scale * rows.bias * rows.bias

        return sparse

    def dense(rows, i, scale, S):
        last = S.shape[0] - 1
        for k in range(last):
            scaled = scale * rows.values[i, k]
            for j in range(k + 1):
                S[k, j] += scaled * rows.values[i, j]
        if rows.bias != 0.0:
            for j in range(last):
                S[last, j] += scale * rows.bias * rows.values[i, j]
            S[last, last] += scale * rows.bias * rows.bias

    return dense


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def add_outer_products(rows, weight, changed, S, start, stop):
    """S += sum of weight_i x_i x_i' over those that became free, minus those that ceased to be."""
    for k in range(start, stop):
        i = changed[k]
        if i >= 0:
            add_outer(rows, np.uint64(i), weight[i], S)
        else:
            add_outer(rows, np.uint64(~i), -weight[~i], S)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
def gather(rows, weight, chosen, block, start, stop):
    """block_k = sqrt(weight_i) x_i for i = chosen_k, with the constant feature: dense rows for BLAS."""
    for k in range(start, stop):
        i = np.uint64(chosen[k])
        line = block[k - start]
        line[:] = 0.0
        row_add(rows, i, np.sqrt(weight[i]), line)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def add_hessian_product(rows, chosen, C, v, product, start, stop):
    """product += sum over the chosen samples of C_i (x_i . v) x_i, a row at a time."""
    for k in range(start, stop):
        i = np.uint64(chosen[k])
        row_add(rows, i, C[i] * row_dot(rows, i, v), product)


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def add_hessian_diagonal(rows, chosen, C, diagonal, start, stop):
    """diagonal_j += sum over the chosen samples of C_i x_ij^2"""
    for k in range(start, stop):
        i = np.uint64(chosen[k])
        row_add_squares(rows, i, C[i], diagonal)

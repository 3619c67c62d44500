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
def respond(rows, y, margin, anchor, penalty, weight, U, is_direct, unbounded, alpha, was_free, changed, sums, w, start, stop):
    """alpha_i = clip(anchor_i + penalty weight_i (1 - m_i), L_i, U_i), and what depends on it.

    w gains the change in sum_i alpha_i y_i x_i; ``changed`` lists, from ``start`` on, the samples that became free (i) or
    ceased to be (~i), and their number is returned; ``sums`` becomes (sum_i alpha_i - D_ii alpha_i^2 / 2, sum of the gap
    terms, sum of C_i loss_i, samples free)."""
    linear, gap, loss, n_free, n_changed = 0.0, 0.0, 0.0, 0, start
    for i in range(np.uint64(start), np.uint64(stop)):
        slack = 1.0 - margin[i]
        wanted = penalty * weight[i] * slack
        if not is_direct:
            wanted += anchor[i]
        upper = U[i]
        new = min(wanted, upper)
        if not unbounded:
            new = max(new, 0.0)
        is_free = new == wanted and new < upper and (new > 0.0 or unbounded)
        step = new - alpha[i]
        if step != 0.0:
            alpha[i] = new
            row_add(rows, i, step * y[i], w)
        if is_direct:  # new is the exact answer to the margin, so its gap term is zero
            if weight[i] > 0.0:
                loss += 0.5 * new * new / weight[i]
                linear += new - 0.5 * new * new / weight[i]
        else:
            linear += new
            loss += upper * max(0.0, slack)
            gap += (upper - new) * max(0.0, slack) + new * max(0.0, -slack)
        n_free += is_free
        if is_free != was_free[i]:
            was_free[i] = is_free
            changed[n_changed] = np.int64(i) if is_free else ~np.int64(i)
            n_changed += 1
    sums[0], sums[1], sums[2], sums[3] = linear, gap, loss, n_free
    return n_changed - start


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def slope(margin, direction, anchor, penalty, weight, U, is_direct, unbounded, t, sums, start, stop):
    """The first and second derivative of the loss part at margin + t direction: sums = (-sum a_i d_i, sum of free g_i
    d_i^2)."""
    first, second = 0.0, 0.0
    for i in range(start, stop):
        d = direction[i]
        gain = penalty * weight[i]
        wanted = gain * (1.0 - margin[i] - t * d)
        if not is_direct:
            wanted += anchor[i]
        new = min(wanted, U[i])
        if not unbounded:
            new = max(new, 0.0)
        first -= new * d
        if new == wanted:
            second += gain * d * d
    sums[0], sums[1] = first, second


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

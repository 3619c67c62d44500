"""Columns of a sparse X: products with a vector, outer products of chosen rows, and descent on a matrix of inner products."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def column_products(columns, kept, s, products):
    """products[k] = x_j . s for the k-th column j = kept[k]."""
    values, indices, indptr = columns
    for k in range(kept.shape[0]):
        j = kept[k]
        total = 0.0
        for e in range(indptr[j], indptr[j + 1]):
            total += values[e] * s[indices[e]]
        products[k] = total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def add_row_squares(rows, C, squares):
    """squares[j] += sum_i C_i x_ij^2"""
    values, indices, indptr = rows
    for i in range(C.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            squares[indices[e]] += C[i] * values[e] * values[e]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def add_outer_products(rows, chosen, weights, H):
    """H += sum_k weights[k] a a' with the row a = rows[chosen[k]], whose indices must rise: the lower half is added up, and the
    upper half copied."""
    values, indices, indptr = rows
    for k in range(chosen.shape[0]):
        start, stop = indptr[chosen[k]], indptr[chosen[k] + 1]
        for e in range(start, stop):
            scaled = weights[k] * values[e]
            target = H[indices[e]]
            for f in range(start, e + 1):
                target[indices[f]] += scaled * values[f]
    for j in range(H.shape[0]):
        for h in range(j):
            H[h, j] = H[j, h]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def descend(model, u, gradient, moved, limits):
    """Coordinate descent on gradient . d + d'Hd/2 + sum_j l1_j |u_j| in place, where ``gradient`` is that at u.

    A sweep over all coordinates is followed by sweeps over those that are not zero (``moved`` lists them), until no step
    lowers the model by more than ``tol``^2 / 2, whatever the units of the columns. Returned is the greatest such root in the
    last sweep over all, and the number of steps."""
    H, l1 = model
    tol, most_updates = limits
    p = u.shape[0]
    updates, worst = 0, np.inf
    while updates < most_updates:
        worst, n_moved = 0.0, 0
        for j in range(p):
            change = step(H, l1, u, gradient, j)
            updates += 1
            worst = max(worst, change)
            if u[j] != 0.0:
                moved[n_moved] = j
                n_moved += 1
        if worst <= tol:
            break
        inner = np.inf
        while inner > 0.3 * tol and updates < most_updates:
            inner = 0.0
            for k in range(n_moved):
                inner = max(inner, step(H, l1, u, gradient, moved[k]))
            updates += max(n_moved, 1)
    return worst, updates


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def step(H, l1, u, gradient, j):
    """The exact minimum along one coordinate. Returned is the root of twice the decrease of the model's quadratic part."""
    curvature = H[j, j]
    if curvature <= 0.0:
        return 0.0
    target = u[j] * curvature - gradient[j]
    if target > l1[j]:
        new = (target - l1[j]) / curvature
    elif target < -l1[j]:
        new = (target + l1[j]) / curvature
    else:
        new = 0.0
    d = new - u[j]
    if d == 0.0:
        return 0.0
    u[j] = new
    row = H[j]
    for k in range(row.shape[0]):
        gradient[k] += d * row[k]
    return abs(d) * np.sqrt(curvature)

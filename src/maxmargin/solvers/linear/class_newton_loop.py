"""The loops of Newton's method on the proximal dual of Crammer and Singer's machine: see ``class_newton``.

``values`` are C, one a sample, and sigma. A row of b adds up to zero, and none is above its bound: C_i for the class of the
sample, zero for the others."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def threshold_of(D, total):
    """The t with sum_m max(0, D_m - t) = total (C. Michelot, J. Optim. Theory Appl. 50, 1986). Ends by the falling count."""
    k = D.shape[0]
    t, before = -np.inf, k + 1
    while True:
        count, added = 0, 0.0
        for m in range(k):
            if D[m] > t:
                count += 1
                added += D[m]
        if count == 0 or count >= before:
            return t
        t, before = (added - total) / count, count


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def project(outputs, along, step, samples, centre, b, found):
    """b is set to the feasible point nearest to centre - sigma (e + z), z = outputs + step along. ``found`` are two arrays: how
    many of a row are below their bounds, and by how much outputs can change before a second one is, which is zero where two
    are. Returned are the sums over the samples of the smoothed loss, of b times ``along``, of the loss itself, of A, and of
    (b - centre)^2."""
    y, C, sigma = samples
    counts, clear = found
    n, k = b.shape
    z, D = np.empty(k), np.empty(k)
    value, slope, loss, total, moved = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        own, c = y[i], C[i]
        for m in range(k):
            z[m] = 1.0 + outputs[i, m] + step * along[i, m]
        z[own] -= 1.0
        for m in range(k):
            D[m] = sigma * z[m] - centre[i, m]
        D[own] += c
        slack, first, second, place = z[own], -np.inf, -np.inf, 0
        for m in range(k):
            slack = max(slack, z[m])
            if D[m] > second:
                second = D[m]
                if second > first:
                    first, second, place = second, first, m
        loss += c * (slack - z[own])
        if first - second >= c:  # all of C_i on one class
            for m in range(k):
                moved += centre[i, m] * centre[i, m]
                b[i, m] = 0.0
            counts[i], clear[i] = 1, (first - second - c) / sigma
            if place == own:
                continue
            b[i, place], b[i, own] = -c, c
            moved += 2.0 * c * (c + centre[i, place] - centre[i, own])
            value += c * (z[place] - z[own])
            slope += c * (along[i, own] - along[i, place])
            total += c
            continue
        t, count = threshold_of(D, c), 0
        for m in range(k):
            bound = c if m == own else 0.0
            new = bound - max(0.0, D[m] - t)
            count += new < bound
            b[i, m] = new
            change = new - centre[i, m]
            value -= new * z[m]
            slope += new * along[i, m]
            moved += change * change
        counts[i], clear[i] = count, 0.0
        total += b[i, own]
    return value - 0.5 * moved / sigma, slope, loss, total, moved


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def add_hessian(X, free, counts, H):
    """H[m, :, q, :] += M_i[m, q] x_i x_i' for m >= q, over the samples; M_i takes the mean off the free classes."""
    n, d = X.shape
    k = free.shape[1]
    ids = np.empty(k, np.int64)
    for i in range(n):
        size = 0
        for m in range(k):
            if free[i, m] > 0.0:
                ids[size] = m
                size += 1
        mean = 1.0 / counts[i]
        for p in range(size):
            for q in range(p + 1):
                share = (1.0 if p == q else 0.0) - mean
                for j in range(d):
                    value, row = share * X[i, j], H[ids[p], j, ids[q]]
                    for h in range(d):
                        row[h] += value * X[i, h]


@njit(cache=True, nogil=True)
def bases(free, n_rows):
    """Rows of length one, at right angles to each other and to (1, ..., 1), on the free classes of each sample."""
    n, k = free.shape
    basis, owner, r = np.zeros((n_rows, k)), np.empty(n_rows, np.int64), 0
    ids = np.empty(k, np.int64)
    for i in range(n):
        count = 0
        for m in range(k):
            if free[i, m]:
                ids[count] = m
                count += 1
        for j in range(1, count):
            size = 1.0 / np.sqrt(j * (j + 1.0))
            for q in range(j):
                basis[r, ids[q]] = size
            basis[r, ids[j]] = -j * size
            owner[r] = i
            r += 1
    return basis, owner

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
def project(outputs, along, step, samples, centre, b, counts):
    """b is set to the feasible point nearest to centre - sigma (e + z), z = outputs + step along; ``counts`` to how many of a
    row are below their bounds. Returned are the sums over the samples of the smoothed loss, of b times ``along``, of the loss
    itself, of A, and of (b - centre)^2."""
    y, C, sigma = samples
    n, k = b.shape
    z, D = np.empty(k), np.empty(k)
    value, slope, loss, total, moved = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        own, c = y[i], C[i]
        for m in range(k):
            z[m] = 1.0 + outputs[i, m] + step * along[i, m]
        z[own] -= 1.0
        slack, base = 0.0, z[own]
        for m in range(k):
            slack = max(slack, z[m] - base)
            D[m] = sigma * z[m] - centre[i, m]
        loss += c * slack
        D[own] += c
        t = threshold_of(D, c)
        count = 0
        for m in range(k):
            bound = c if m == own else 0.0
            new = bound - max(0.0, D[m] - t)
            count += new < bound
            b[i, m] = new
            change = new - centre[i, m]
            value -= new * z[m]
            slope += new * along[i, m]
            moved += change * change
        counts[i] = count
        total += b[i, own]
    return value - 0.5 * moved / sigma, slope, loss, total, moved


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

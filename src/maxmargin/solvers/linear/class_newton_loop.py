"""The loops of Newton's method on the proximal dual of Crammer and Singer's machine: see ``class_newton``.

``values`` are C, one a sample, and sigma. A row of b adds up to zero, and none is above its bound: C_i for the class of the
sample, zero for the others."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit


@njit(inline="always")
def threshold_of(D, ids, size, total):
    """The t with sum_q max(0, D_q - t) = total, over the first ``size`` classes of ``ids``, and how many have D_q > t. These
    come first in ``ids`` then (C. Michelot, J. Optim. Theory Appl. 50, 1986)."""
    t = -np.inf
    while True:
        count, added = 0, 0.0
        for q in range(size):
            if D[ids[q]] > t:
                ids[count] = ids[q]
                added += D[ids[q]]
                count += 1
        if count == 0 or (count == size and t > -np.inf):
            return t, count
        t, size = (added - total) / count, count


@njit(cache=True, allocates=False, nogil=True, fastmath={"reassoc", "contract", "nsz", "nnan"})
def project(point, samples, centre, b, found, work):
    """b is set to the feasible point nearest to centre - sigma (e + z), where ``point`` are outputs, along and step, and z =
    outputs + step along. ``found`` are two arrays: how many of a row are below their bounds, and by how much outputs can change
    before a second one is, which is zero where two are. Returned are the sums over the samples of b times ``along``, of the
    loss, of A, and of (b - centre)^2.

    With D = sigma (e + z) - centre, plus C_i for the class of the sample, b is its bound less max(0, D - t), and these add up
    to C_i: only classes with D within C_i of the greatest matter, one in most rows."""
    outputs, along, step = point
    y, C, sigma = samples
    counts, clear = found
    z, D, ids = work
    n, k = b.shape
    slope, loss, total, moved = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        own, c = y[i], C[i]
        slack, first, before = -np.inf, -np.inf, 0.0
        for m in range(k):
            z[m] = outputs[i, m] + step * along[i, m]
        z[own] -= 1.0
        for m in range(k):
            D[m] = sigma * z[m] - centre[i, m]
            slack = max(slack, z[m])
            before += centre[i, m] * centre[i, m]
            b[i, m] = 0.0
        D[own] += c
        for m in range(k):
            first = max(first, D[m])
        size = 0
        for m in range(k):
            if D[m] >= first - c:
                ids[size] = m
                size += 1
        loss += c * (slack - z[own])
        moved += before
        t = first - c
        if size > 1:
            t, size = threshold_of(D, ids, size, c)
        size = max(size, 1)
        b[i, own] = c
        for q in range(size):
            m = ids[q]
            b[i, m] -= D[m] - t if size > 1 else c
        new = b[i, own]
        total += new
        slope += new * along[i, own]
        moved += new * (new - 2.0 * centre[i, own])
        for q in range(size):
            m = ids[q]
            if m != own:
                new = b[i, m]
                slope += new * along[i, m]
                moved += new * (new - 2.0 * centre[i, m])
        counts[i], clear[i] = size, 0.0
        if size == 1:
            D[ids[0]] = -np.inf
            second = -np.inf
            for m in range(k):
                second = max(second, D[m])
            clear[i] = max(0.0, first - c - second) / sigma
    return slope, loss, total, moved


@njit(cache=True, allocates=False, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def add_hessian(X, samples, b, counts, H, work):
    """H[m, q] += M_i[m, q] x_i x_i' for m >= q, over the samples; M_i takes the mean off the free classes."""
    y, C = samples
    square, ids = work
    n, d = X.shape
    k = b.shape[1]
    for i in range(n):
        if counts[i] < 2:
            continue
        size = 0
        for m in range(k):
            if b[i, m] < (C[i] if m == y[i] else 0.0):
                ids[size] = m
                size += 1
        for j in range(d):
            for h in range(d):
                square[j * d + h] = X[i, j] * X[i, h]
        mean = 1.0 / max(size, 1)
        for p in range(size):
            for q in range(p + 1):
                share, block = (1.0 if p == q else 0.0) - mean, H[ids[p], ids[q]]
                for h in range(d * d):
                    block[h] += share * square[h]


@njit(cache=True, allocates=False, nogil=True, fastmath={"reassoc", "contract", "nsz", "nnan"})
def compare(b, outputs, kept):
    """``kept`` is set where a row of b has changed: both arguments are that of now and that of before. Returned is the sum over
    the samples of the squared greatest change of an output."""
    b_now, b_before = b
    now, before = outputs
    n, k = now.shape
    total = 0.0
    for i in range(n):
        most, differ = 0.0, 0
        for m in range(k):
            most = max(most, abs(now[i, m] - before[i, m]))
            differ += b_now[i, m] != b_before[i, m]
        if differ > 0:
            kept[i] = True
        total += most * most
    return total


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

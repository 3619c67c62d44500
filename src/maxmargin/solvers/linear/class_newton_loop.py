"""The loops of Newton's method on the proximal dual of Crammer and Singer's machine: see ``class_newton``.

``values`` are C, one a sample, and sigma. A row of b adds up to zero, and none is above its bound: C_i for the class of the
sample, zero for the others."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.solvers.linear.threshold_loop import threshold


@njit(cache=True, allocates=False, nogil=True, fastmath={"reassoc", "contract", "nsz", "nnan"})
def project(point, samples, centre, b, found, work):
    """b is set to the feasible point nearest to centre - sigma (e + z), where ``point`` are outputs, along and step, and z =
    outputs + step along. ``found`` are two arrays: how many of a row are below their bounds, and by how much outputs can change
    before a second one is, which is zero where two are. Returned are the sums over the samples of b times ``along``, of the
    loss, of A, and of (b - centre)^2.

    With D = sigma (e + z) - centre, plus C_i for the class of the sample, b is its bound less v = max(0, D - t), and the v add
    up to C_i: only classes with D within C_i of the greatest matter, one in most rows."""
    outputs, along, step = point
    y, C, sigma = samples
    counts, clear = found
    z, D, near = work
    n, k = b.shape
    slope, loss, total, moved = 0.0, 0.0, 0.0, 0.0
    for i in range(n):
        own, c, size, t = y[i], C[i], 0, 0.0
        slack, first, second, squares = -np.inf, -np.inf, -np.inf, c * c
        outputs_i, along_i, centre_i, b_i = outputs[i], along[i], centre[i], b[i]
        for m in range(k):
            z[m] = outputs_i[m] + step * along_i[m]
            D[m] = sigma * z[m] - centre_i[m]
            moved += centre_i[m] * centre_i[m]
        z[own] -= 1.0
        D[own] += c - sigma
        for m in range(k):
            slack, first = max(slack, z[m]), max(first, D[m])
        for m in range(k):
            near[size] = D[m]
            size += D[m] >= first - c
        if size > 1:
            t, size = threshold(near, size, c)
        counts[i], clear[i] = max(size, 1), 0.0
        if size > 1:
            squares = 0.0
            for m in range(k):
                v = max(0.0, D[m] - t)
                b_i[m] = -v
                slope -= v * along_i[m]
                moved += 2.0 * v * centre_i[m]
                squares += v * v
        else:
            for m in range(k):
                v = c if D[m] >= first else 0.0
                b_i[m] = -v
                slope -= v * along_i[m]
                moved += 2.0 * v * centre_i[m]
                second = max(second, D[m] if D[m] < first else -np.inf)
            clear[i] = max(0.0, first - c - second) / sigma
        b_i[own] += c
        total += b_i[own]
        loss += c * (slack - z[own])
        slope += c * along_i[own]
        moved += squares + c * (2.0 * (b_i[own] - centre_i[own]) - c)
    return slope, loss, total, moved


@njit(cache=True, allocates=False, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def add_hessian(X, samples, point, H, whole, work):
    """Fill the upper half of ``whole``: its block (q, m) is sigma sum_i M_i[m, q] x_i x_i', plus I where m = q, and M_i takes
    the mean off the free classes. H, zero before, has the sums: of each symmetric block the rows up to the diagonal."""
    y, C, sigma = samples
    b, counts = point
    square, ids = work
    n, d = X.shape
    k, length = b.shape[1], square.shape[0]
    for i in range(n):
        if counts[i] < 2:
            continue
        size, place = 0, 0
        for m in range(k):
            if b[i, m] < (C[i] if m == y[i] else 0.0):
                ids[size] = m
                size += 1
        for j in range(d):
            for h in range(j + 1):
                square[place + h] = X[i, j] * X[i, h]
            place += j + 1
        mean = 1.0 / max(size, 1)
        for p in range(size):
            for q in range(p + 1):
                share, block = (1.0 if p == q else 0.0) - mean, H[ids[p], ids[q]]
                for h in range(length):
                    block[h] += share * square[h]
    for m in range(k):
        for q in range(m + 1):
            block, place = H[m, q], 0
            for j in range(d):
                for h in range(j + 1):
                    value = sigma * block[place + h]
                    whole[q * d + h, m * d + j] = value
                    whole[q * d + j, m * d + h] = value
                place += j + 1
    for j in range(k * d):
        whole[j, j] += 1.0


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

"""One sweep of the sequential dual method for the machine of Crammer and Singer.

For sample i all b_i^m of the classes that are not shrunk are set to their joint optimum: with Q = |x_i|^2, G_m = e_m + z_m and
B_m = G_m - Q b_m the new ones are min(c_m, (t - B_m) / Q), c_m = C_i for the class of the sample and 0 for the others, and t is
where they add up to zero (S. S. Keerthi, S. Sundararajan, K.-W. Chang, C.-J. Hsieh, C.-J. Lin, "A sequential dual method for
large scale multi-class linear SVMs", KDD 2008). The greatest of D_m = B_m, plus Q C_i for the class of the sample, decide t.

A row is ``values[start:stop]``; its columns are 0, 1, ... where X is dense, else ``indices[start:stop]``. ``order`` lists the
samples at work, ``classes[i, :sizes[i]]`` their classes at work; its own class is always the first."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def outputs_of(rows, i, W, ids, z):
    """z[q] = w_m . x_i for the classes m = ids[q]; all of them in memory order where they are many."""
    values, indices, indptr, bias, is_dense = rows
    start, stop = indptr[i], indptr[i + 1]
    size, k, last = ids.shape[0], W.shape[1], W.shape[0] - 1
    many = 3 * size >= k
    if many:
        for m in range(k):
            z[k + m] = bias * W[last, m]
        for e in range(start, stop):
            value, row = values[e], W[e - start if is_dense else indices[e]]
            for m in range(k):
                z[k + m] += value * row[m]
        for q in range(size):
            z[q] = z[k + ids[q]]
        return
    for q in range(size):
        z[q] = bias * W[last, ids[q]]
    for e in range(start, stop):
        value, row = values[e], W[e - start if is_dense else indices[e]]
        for q in range(size):
            z[q] += value * row[ids[q]]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def threshold(D, size, total):
    """The t with sum_q max(0, D_q - t) = total (C. Michelot, J. Optim. Theory Appl. 50, 1986).

    It ends where the count stops falling, whatever rounding does."""
    t, n = -np.inf, size + 1
    while True:
        count, added = 0, 0.0
        for q in range(size):
            if D[q] > t:
                count += 1
                added += D[q]
        if count == 0 or count >= n:
            return t
        t, n = (added - total) / count, count


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def add_row(rows, i, W, changed, changes, n_changed):
    values, indices, indptr, bias, is_dense = rows
    start, stop, last = indptr[i], indptr[i + 1], W.shape[0] - 1
    for e in range(start, stop):
        value, row = values[e], W[e - start if is_dense else indices[e]]
        for q in range(n_changed):
            row[changed[q]] += value * changes[q]
    if bias != 0.0:
        for q in range(n_changed):
            W[last, changed[q]] += bias * changes[q]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def sweep(rows, samples, point, work, order, n_active, shrinks):
    """One step for each sample at work. Returned are the sum of their gap terms before their steps, and how many are left."""
    squares, C, y = samples
    W, b = point
    classes, sizes, z, D, changed, changes = work
    gap, p = 0.0, 0
    while p < n_active:
        i = order[p]
        p += 1
        if C[i] <= 0.0 or squares[i] <= 0.0:
            gap += C[i]
            continue
        size = sizes[i]
        ids = classes[i, :size]
        outputs_of(rows, i, W, ids, z)
        own, A = z[0], b[i, y[i]]
        slack, least = -np.inf, np.inf
        for q in range(1, size):
            z[q] += 1.0 - own
            slack = max(slack, z[q])
            if b[i, ids[q]] < 0.0:
                least = min(least, z[q])
        xi = max(slack, 0.0)
        term = (C[i] - A) * xi
        for q in range(1, size):
            term -= b[i, ids[q]] * (xi - z[q])
        gap += term
        if A < C[i]:
            least = min(least, 0.0)
        if shrinks:
            q = 1
            while q < size:
                if b[i, ids[q]] == 0.0 and z[q] < least:
                    size -= 1
                    ids[q], ids[size] = ids[size], ids[q]
                    z[q], z[size] = z[size], z[q]
                else:
                    q += 1
            sizes[i] = size
            if (size == 1 and A <= 0.0) or (size == 2 and A >= C[i] and z[1] > 0.0):  # zero, or all of C_i on one class
                n_active -= 1
                p -= 1
                order[p], order[n_active] = order[n_active], order[p]
                continue
        if max(xi, 0.0) - least <= 1e-13 or size == 1:
            continue
        Q = squares[i]
        z[0] = 0.0
        for q in range(size):
            z[q] -= Q * b[i, ids[q]]
            D[q] = z[q]
        D[0] += Q * C[i]
        t = threshold(D, size, Q * C[i])
        n_changed = 0
        for q in range(size):
            bound = C[i] if q == 0 else 0.0
            new = min(bound, (t - z[q]) / Q)
            change = new - b[i, ids[q]]
            if change != 0.0:
                b[i, ids[q]] = new
                changed[n_changed], changes[n_changed] = ids[q], change
                n_changed += 1
        add_row(rows, i, W, changed, changes, n_changed)
    return gap, n_active

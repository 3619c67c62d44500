"""The loops of the sequential dual method for the machine of Crammer and Singer.

For sample i all b_i^m of the classes that are not shrunk are set to their joint optimum: with Q = |x_i|^2, G_m = e_m + z_m and
B_m = G_m - Q b_m the new ones are min(c_m, (t - B_m) / Q), c_m = C_i for the class of the sample and 0 for the others, and t is
where they add up to zero (S. S. Keerthi, S. Sundararajan, K.-W. Chang, C.-J. Hsieh, C.-J. Lin, "A sequential dual method for
large scale multi-class linear SVMs", KDD 2008). The greatest of D_m = B_m, plus Q C_i for the class of the sample, decide t.

``base`` has the outputs z of all samples at the beginning of a cycle of sweeps, and V is how W has changed since: an output is
base[i, m] + v_m . x_i. V may be float32, because its rounding errors are relative to the change. V is flat: the weights
of feature j are V[j * stride : j * stride + n_classes], ``stride`` is rounded up to whole vector registers, and a row adds or
reads all of them. That is faster than a few classes one by one.

A row is ``values[start:stop]``; its columns are 0, 1, ... where X is dense, else ``indices[start:stop]``. ``order`` lists the
samples at work, ``classes[i, :sizes[i]]`` their classes at work; its own class is always the first."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.solvers.linear.class_row_loops import add_row, outputs_of
from maxmargin.solvers.linear.threshold_loop import threshold

LEAST_VIOLATION = 1e-13
"""A smaller violation is rounding: slacks near one are known to about 1e-16 times the number of features. Not a setting."""


@njit(cache=True, allocates=False, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def sweep(rows, samples, point, lists, work, n_active):
    """One step for each sample at work. Returned are the sum of their gap terms before their steps, and how many are left."""
    squares, C, y = samples
    V, base, b = point
    order, classes, sizes = lists
    found, z, D, change = work
    gap, p = 0.0, 0
    while p < n_active:
        i = order[p]
        p += 1
        c, Q, own, size = C[i], squares[i], y[i], sizes[i]
        if c <= 0.0 or Q <= 0.0:
            gap += c
            continue
        outputs_of(rows, i, V, found)
        level, A = found[own] + base[i, own] - 1.0, b[i, own]
        slack, least = -np.inf, np.inf
        for q in range(1, size):
            m = classes[i, q]
            z[q] = found[m] + base[i, m] - level
            slack = max(slack, z[q])
            if b[i, m] < 0.0:
                least = min(least, z[q])
        xi = max(slack, 0.0)
        gap += (c - A) * xi
        for q in range(1, size):
            gap -= b[i, classes[i, q]] * (xi - z[q])
        if A < c:
            least = min(least, 0.0)
        q = 1
        while q < size:
            m = classes[i, q]
            if b[i, m] == 0.0 and z[q] < least:
                size -= 1
                classes[i, q], classes[i, size] = classes[i, size], m
                z[q] = z[size]
            else:
                q += 1
        sizes[i] = size
        if (size == 1 and A <= 0.0) or (size == 2 and A >= c and z[1] > 0.0):  # zero, or all of C_i on one class
            n_active -= 1
            p -= 1
            order[p], order[n_active] = order[n_active], order[p]
            continue
        if xi - least <= LEAST_VIOLATION or size == 1:
            continue
        z[0] = 0.0
        for q in range(size):
            z[q] -= Q * b[i, classes[i, q]]
            D[q] = z[q]
        D[0] += Q * c
        t, _ = threshold(D, size, Q * c)
        for q in range(size):
            m = classes[i, q]
            new = min(c if q == 0 else 0.0, (t - z[q]) / Q)
            change[m] = new - b[i, m]
            b[i, m] = new
        add_row(rows, i, V, change)
        for q in range(size):
            change[classes[i, q]] = 0.0
    return gap, n_active


@njit(cache=True, allocates=False, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def add_outputs(rows, V, base, found):
    """base += X V, for all samples."""
    n, k = base.shape
    for i in range(n):
        outputs_of(rows, i, V, found)
        for m in range(k):
            base[i, m] += found[m]


@njit(cache=True, allocates=False, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def look(samples, base, b, lists, at_work):
    """Samples and classes that violate their conditions return to work. ``base`` must have the outputs of b. Returned are the
    sum of all gap terms, and the value of the dual."""
    _squares, C, y = samples
    _order, classes, sizes = lists
    n, k = b.shape
    gap, dual = 0.0, 0.0
    for i in range(n):
        c, own = C[i], y[i]
        A, level = b[i, own], base[i, own] - 1.0
        xi, least, shrunk = 0.0, np.inf if A >= c else 0.0, -np.inf
        squared = A * (level + 1.0)
        for m in range(k):
            if m != own:
                slack = base[i, m] - level
                xi = max(xi, slack)
                if b[i, m] < 0.0:
                    least = min(least, slack)
                    squared += b[i, m] * base[i, m]
        gap += (c - A) * xi
        for m in range(k):
            if b[i, m] < 0.0:
                gap -= b[i, m] * (xi - (base[i, m] - level)) if m != own else 0.0
        dual += A - 0.5 * squared
        for q in range(sizes[i], k):
            shrunk = max(shrunk, base[i, classes[i, q]] - level)
        if shrunk >= least:
            sizes[i] = k
        if xi - least > LEAST_VIOLATION:
            at_work[i] = True
    return gap, dual


@njit(cache=True, allocates=False, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def slopes(y, base, b, before, moved):
    """``before`` becomes the change of b since. Returned are the slopes of the dual at the beginning of the cycle, along that
    change and along ``moved``."""
    n, k = b.shape
    first, second = 0.0, 0.0
    for i in range(n):
        for m in range(k):
            before[i, m] = b[i, m] - before[i, m]
            first -= before[i, m] * base[i, m]
            second -= moved[i, m] * base[i, m]
        first += before[i, y[i]]
        second += moved[i, y[i]]
    return first, second


@njit(cache=True, allocates=False, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def extrapolate(rows, samples, b, moves, steps, V, work):
    """b moves by steps[0] and steps[1] times the two moves, and to the nearest feasible point from there. V += X'r, where r is
    what the way back changes."""
    _squares, C, y = samples
    first, second = moves
    _found, z, D, change = work
    n, k = b.shape
    for i in range(n):
        own, c, above = y[i], C[i], 0.0
        for m in range(k):
            z[m] = b[i, m] + steps[0] * first[i, m] + steps[1] * second[i, m]
            D[m] = (c if m == own else 0.0) - z[m]
            above = min(above, D[m])
        if above < 0.0:
            t, _size = threshold(D, k, c)
            for m in range(k):
                b[i, m] = (c if m == own else 0.0) - max(0.0, D[m] - t)
                change[m] = b[i, m] - z[m]
            add_row(rows, i, V, change)
            for m in range(k):
                change[m] = 0.0
        else:
            for m in range(k):
                b[i, m] = z[m]

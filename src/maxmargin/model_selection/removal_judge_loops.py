"""Leaving out samples of a kernel machine: what the end of each walk proves.

The judge computes all that a proof needs from the values of the columns, whose errors are known, and uses no fast-math."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.model_selection.removal_loops import walk

RIGHT, OPEN, WRONG = 1, 0, -1


@njit(cache=True, nogil=True, boundscheck=False)
def excess_of_point(columns, start, i, work, shift):
    """An upper bound on T + s_i (f_i + b) at the end of a walk, where T is the sum of the gap terms of all samples but i. The
    error of each output and of each sum is in it.

    The point is that of the amounts of the columns. Its s is rounded, and brought back into the box."""
    n, n_free = start.s.shape[0], columns.weights.shape[1]
    s, z, unit = work.s, work.rates, 2.0**-53
    error, size, n_used, offset = 0.0, 0.0, 8.0, start.offset + abs(shift)
    for k in range(n_free):
        s[k] = start.s[k]
        size += abs(s[k])
    for j in range(np.uint64(n)):
        z[j] = start.z[j] - shift
    moved = 0.0
    for c in range(work.amounts.shape[0]):
        amount = work.amounts[c]
        if amount != 0.0:
            n_used += 1.0
            error += abs(amount) * columns.errors[c]
            size += abs(amount) * columns.sizes[c]
            for k in range(np.uint64(n_free)):
                s[k] += amount * columns.weights[c, k]
            row = np.uint64(c)
            for j in range(np.uint64(n)):
                z[j] -= amount * columns.values[row, j]
            if c >= n_free:
                j = columns.samples[c]
                new = start.s[j] + amount
                s[j] = new if j == i else min(max(new, start.lower[j]), start.upper[j])
                moved += abs(s[j] - new)
    total, travelled = 0.0, 0.0
    for k in range(n_free):
        new = s[k]
        s[k] = new if k == i else min(max(new, start.lower[k]), start.upper[k])
        moved += abs(s[k] - new)
        total += s[k] - start.s[k]
        travelled += abs(s[k] - start.s[k])
    for c in range(n_free, work.amounts.shape[0]):
        if work.amounts[c] != 0.0:
            j = columns.samples[c]
            total += s[j] - start.s[j]
            travelled += abs(s[j] - start.s[j])
    offset += size
    error += moved * start.greatest + 2.0 * n_used * unit * (size * (1.0 + start.greatest) + offset + 2.0)
    terms, greatest = 0.0, 0.0
    for j in range(np.uint64(n)):
        doubt = start.errors[j] + error + 4.0 * n_used * unit * abs(start.z[j])
        term = (start.upper[j] - s[j]) * max(0.0, z[j] + doubt) + (s[j] - start.lower[j]) * max(0.0, doubt - z[j])
        terms += term if j != i else 0.0
        greatest = max(greatest, abs(z[j]))
    sign = 1.0 if start.upper[i] > 0.0 else -1.0
    output = s[i] * (sign - z[i]) + abs(s[i]) * (start.errors[i] + error + 8.0 * unit * (1.0 + abs(z[i])))
    charge = 0.0
    if start.has_offset:
        excess = start.imbalance + abs(total) + 2.0 * (n_free + n_used) * unit * travelled
        charge = 2.0 * excess * (4.0 + greatest + 2.0 * offset + start.greatest * excess)
    return terms * (1.0 + 2.0 * (n + 8.0) * unit) + output + 16.0 * unit * abs(output) + charge


@njit(cache=True, nogil=True, boundscheck=False)
def leave_out_each(columns, start, candidates, work, settings, found):
    """Walk for each candidate, and judge. The first row of ``found`` is RIGHT, WRONG or OPEN. The second is the sample whose
    column the walk lacked, -1 where it came to an end, and -2 where it failed."""
    for k in range(candidates.shape[0]):
        i = candidates[k]
        shift, missing = walk(columns, start, i, work, settings)
        found[0, k], found[1, k] = OPEN, missing
        if missing == -1 and excess_of_point(columns, start, i, work, shift) < 0.0:
            sign = 1.0 if start.upper[i] > 0.0 else -1.0
            found[0, k] = RIGHT if sign * work.s[i] < 0.0 else WRONG

"""-|x - z|^2 / 2 from differences, for the judges and for solvers alike: nothing here uses fast-math."""

from __future__ import annotations

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.error_free_loops import fma


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def dense_half_squares(rows, columns, out):
    """out[i, k] = -|x_i - z_k|^2 / 2 for the rows x_i and the columns z_k. Four features at a time, so that the sums are read
    and written a quarter as often."""
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    width, n_features = np.uint64(columns.shape[1]), np.uint64(columns.shape[0])
    whole = n_features - n_features % four
    for i in range(np.uint64(rows.shape[0])):
        for k in range(width):
            out[i, k] = 0.0
        for f in range(np.uint64(0), whole, four):
            a, b, c, d = rows[i, f], rows[i, f + one], rows[i, f + two], rows[i, f + three]
            for k in range(width):
                p, q = a - columns[f, k], b - columns[f + one, k]
                r, s = c - columns[f + two, k], d - columns[f + three, k]
                out[i, k] = fma(s, s, fma(r, r, fma(q, q, fma(p, p, out[i, k]))))
        for f in range(whole, n_features):
            a = rows[i, f]
            for k in range(width):
                p = a - columns[f, k]
                out[i, k] = fma(p, p, out[i, k])
        for k in range(width):
            out[i, k] *= -0.5


@njit(cache=True, allocates=False, nogil=True, boundscheck=False)
def sparse_half_squares(one, other, start, stop, out):
    """The same for two CSR matrices (values, indices, indptr), whose indices ascend in each row: a merge of two rows. Rows
    start <= i < stop of the one are taken."""
    values, indices, indptr = one
    other_values, other_indices, other_indptr = other
    for i in range(start, stop):
        for k in range(out.shape[1]):
            s, end, t, last = indptr[i], indptr[i + 1], other_indptr[k], other_indptr[k + 1]
            total = 0.0
            while s < end or t < last:
                has_own = s < end and (t >= last or indices[s] <= other_indices[t])
                has_other = t < last and (s >= end or other_indices[t] <= indices[s])
                difference = (values[s] if has_own else 0.0) - (other_values[t] if has_other else 0.0)
                total = fma(difference, difference, total)
                s += has_own
                t += has_other
            out[i, k] = -0.5 * total

r"""What a dual point proves of the samples without one of them: the judge of :mod:`maxmargin.model_selection.removal`.

The outputs are f = f_0 + K' d, where f_0 are outputs that are known up to ``errors``, and d is the change of s at some samples,
whose rows of kernel values are given."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.rows import Array


class Judged(NamedTuple):
    """All samples: y, costs, signed variables s, outputs without an offset and how wrong each can be, and sqrt(k(x, x))."""

    y: Array
    costs: Array
    s: Array
    f: Array
    errors: Array
    lengths: Array


@njit(cache=True, nogil=True, boundscheck=False)
def gap_terms(point, b, skipped, slack):
    """The sum of the gap terms of all samples but one, each at its worst within the error of its output."""
    total = 0.0
    for j in range(np.uint64(point.y.shape[0])):
        residual = 1.0 - point.y[j] * (point.f[j] + b)
        alpha, error = abs(point.s[j]), point.errors[j] + slack
        term = (point.costs[j] - alpha) * max(0.0, residual + error) + alpha * max(0.0, error - residual)
        total += term if j != skipped else 0.0
    return total


@njit(cache=True, nogil=True, boundscheck=False)
def add_rows(rows, chosen, scales, f):
    """f += sum_k scales_k rows[chosen_k]"""
    for k in range(np.uint64(chosen.shape[0])):
        r, scale = np.uint64(chosen[k]), scales[k]
        for j in range(np.uint64(f.shape[0])):
            f[j] += scale * rows[r, j]

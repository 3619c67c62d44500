"""Sets of equal rows of a sparse matrix: a certificate counts each of them once."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.data.rows import Array


def equal_points(matrix: Any) -> tuple[Array, Array]:
    """Find, for each row of a CSR matrix, the number of its set of equal rows, and the first row of each set. Rows that have
    the same product with a fixed vector are compared, neighbour by neighbour; equal rows between which another one comes are
    missed."""
    n, lengths = matrix.shape[0], np.diff(matrix.indptr)
    products = matrix @ np.cos(np.arange(1.0, matrix.shape[1] + 1.0))
    order = np.argsort(products, kind="stable")
    one, other = order[:-1], order[1:]
    is_equal = (products[one] == products[other]) & (lengths[one] == lengths[other])
    alike = np.flatnonzero(is_equal)
    is_equal[alike] = _are_equal(matrix, one[alike], other[alike], lengths)
    is_first = np.concatenate([[True], ~is_equal])[:n]
    group = np.empty(n, np.intp)
    group[order] = np.cumsum(is_first) - 1
    return group, order[is_first]


def _are_equal(matrix: Any, one: Array, other: Array, lengths: Array) -> Array:
    """Whether these pairs of rows, of equal lengths, have the same elements."""
    counts = lengths[one]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    a, b = np.repeat(matrix.indptr[one], counts) + within, np.repeat(matrix.indptr[other], counts) + within
    differs = (matrix.indices[a] != matrix.indices[b]) | (matrix.data[a] != matrix.data[b])
    return np.bincount(np.repeat(np.arange(len(one)), counts), differs, len(one)) == 0.0

"""The passes over a sparse X behind ``maxmargin.solvers.presolve``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import ONE
from maxmargin.data.rows import Array, CsrRows  # noqa: F401  (the type that these loops are compiled for)

SINGLE = np.uint32(0xFFFFFFFF)
"""Replaces the new number of a feature that occurs in one row only."""


class Renumbered(NamedTuple):
    """The rows with new numbers of features, and for each row the sum of the squares that were folded away."""

    values: Array
    indices: Array
    indptr: Array
    folded: Array


SEED, FACTOR, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(32)


@njit(cache=True, nogil=True, boundscheck=False)
def count_features(rows, counts):
    for k in range(rows.indptr[rows.indptr.shape[0] - 1]):
        counts[rows.indices[k]] += np.uint32(1)


@njit(cache=True, nogil=True, boundscheck=False)
def number_by_frequency(counts, numbers, most):
    """New numbers by descending count, by a counting sort; counts above ``most`` count as ``most``. Returns how many are left:
    features that never occur and those that occur once get none."""
    starts = np.zeros(most + 2, np.int64)
    for count in counts:
        starts[min(np.int64(count), most)] += 1
    total = 0
    for c in range(most, 1, -1):
        here = starts[c]
        starts[c] = total
        total += here
    for j in range(counts.shape[0]):
        count = min(np.int64(counts[j]), most)
        if count < 2:
            numbers[j] = SINGLE
        else:
            numbers[j] = np.uint32(starts[count])
            starts[count] += 1
    return total


@njit(cache=True, nogil=True, boundscheck=False)
def kept_lengths(rows, numbers, lengths, start, stop):
    """lengths_i = the elements of row i that have a new number."""
    for i in range(uint64(start), uint64(stop)):
        kept = 0
        for k in range(rows.indptr[i], rows.indptr[i + ONE]):
            kept += numbers[rows.indices[k]] != SINGLE
        lengths[i] = kept


@njit(cache=True, nogil=True, boundscheck=False)
def renumber(rows, numbers, renumbered, start, stop):
    """Rows with the new numbers; the squares of what has none are added up in ``folded``."""
    values, indices, indptr, folded = renumbered.values, renumbered.indices, renumbered.indptr, renumbered.folded
    for i in range(uint64(start), uint64(stop)):
        place = uint64(indptr[i])
        total = 0.0
        for k in range(rows.indptr[i], rows.indptr[i + ONE]):
            number = numbers[rows.indices[k]]
            if number == SINGLE:
                total += np.float64(rows.values[k]) * np.float64(rows.values[k])
            else:
                indices[place] = number
                values[place] = rows.values[k]
                place += ONE
        folded[i] = total


@njit(cache=True, nogil=True, boundscheck=False)
def spread(reduced, numbers, w):
    """w_j = the weight of feature j under its new number, zero for those that have none."""
    for j in range(uint64(numbers.shape[0])):
        w[j] = 0.0 if numbers[j] == SINGLE else reduced[numbers[j]]


@njit(cache=True, nogil=True, boundscheck=False)
def unfold(rows, numbers, scales, w, start, stop):
    """w_j = scale_i x_ij for every feature j that occurs in row i only."""
    for i in range(uint64(start), uint64(stop)):
        if scales[i] != 0.0:
            for k in range(rows.indptr[i], rows.indptr[i + ONE]):
                if numbers[rows.indices[k]] == SINGLE:
                    w[rows.indices[k]] = scales[i] * rows.values[k]


@njit(cache=True, nogil=True, boundscheck=False)
def hash_rows(rows, y, words, hashes, start, stop):
    """A 64-bit hash of every row with its label; ``words`` are the bits of the values."""
    for i in range(uint64(start), uint64(stop)):
        word = SEED ^ uint64(y[i])
        for k in range(rows.indptr[i], rows.indptr[i + ONE]):
            word = (word ^ uint64(rows.indices[k])) * FACTOR
            word = (word ^ (word >> SHIFT) ^ uint64(words[k])) * FACTOR
            word ^= word >> SHIFT
        hashes[i] = word


@njit(cache=True, nogil=True, boundscheck=False)
def group_equal_rows(rows, y, order, hashes, group):
    """group_i = the number of the set of equal rows that i belongs to; rows are compared with the first of their hash. Sets are
    numbered as they come in ``order``, which sorts the hashes. Returns how many there are."""
    n_groups, first = 0, order[0]
    for place in range(order.shape[0]):
        i = order[place]
        if place == 0 or hashes[i] != hashes[first] or not _are_equal(rows, y, uint64(i), uint64(first)):
            first = i
            n_groups += 1
        group[i] = n_groups - 1
    return n_groups


@njit(cache=True, nogil=True, boundscheck=False)
def _are_equal(rows, y, i, j):
    if y[i] != y[j] or rows.indptr[i + ONE] - rows.indptr[i] != rows.indptr[j + ONE] - rows.indptr[j]:
        return False
    offset = rows.indptr[j] - rows.indptr[i]
    for k in range(rows.indptr[i], rows.indptr[i + ONE]):
        if rows.indices[k] != rows.indices[k + offset] or rows.values[k] != rows.values[k + offset]:
            return False
    return True

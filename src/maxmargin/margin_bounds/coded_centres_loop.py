"""The pass that gives every sample a centre of its own in eight bytes; see ``maxmargin.margin_bounds.coded_centres``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.row_loops import row_coordinates, row_dot
from maxmargin.data.rows import Array
from maxmargin.margin_bounds.pruned_loss_loops import FAST

DIRECTIONS = 8
"""Directions: as many as there are bytes in a word, because the code of a sample is one word."""
LARGEST_CODE = 127.0
BYTE, EIGHT = np.uint64(255), np.uint64(8)


class Frame(NamedTuple):
    """The directions u_j in the columns of ``table``, with 1 / s_j in ``units``; and of the means of the two classes
    the vectors, their coordinates and their squared lengths."""

    table: Array
    units: Array
    means: Array
    origins: Array
    squared_means: Array


@njit(cache=True, nogil=True, boundscheck=False, error_model="numpy", fastmath=FAST)
def code_rows(rows, y, frame, rounding, codes, radii):
    """Codes and radii of all samples. ``rounding`` is the relative error of a squared length. A sample too far out for a code
    has an infinite radius."""
    for i in range(np.uint64(y.shape[0])):
        which = np.uint64(y[i] > 0)
        products, sqnorm = row_coordinates(rows, i, frame.table)
        squares = sqnorm + frame.squared_means[which]
        rest = squares - 2.0 * row_dot(rows, i, frame.means[which])
        word, greatest = np.uint64(0), 0.0
        for k in range(np.uint64(DIRECTIONS)):
            coordinate = products[k] - frame.origins[which, k]
            rest -= coordinate * coordinate
            code = np.rint(coordinate * frame.units[k])
            greatest = max(greatest, abs(code))
            word |= (np.uint64(np.int64(code)) & BYTE) << (EIGHT * k)
        codes[i] = word
        radii[i] = np.sqrt(max(rest, 0.0) + rounding * squares) if greatest <= LARGEST_CODE else np.inf


@njit(inline="always")
def decoded(word, k):
    """Byte k of a code, a whole number in -127 .. 127."""
    return np.float64(np.int8((word >> np.uint64(8 * k)) & BYTE))


@njit(inline="always")
def product_with_code(word, weights):
    """The sum of the eight numbers of a code, each times its weight: written out, so that all are in flight at once."""
    return (
        (decoded(word, 0) * weights[0] + decoded(word, 1) * weights[1])
        + (decoded(word, 2) * weights[2] + decoded(word, 3) * weights[3])
        + (decoded(word, 4) * weights[4] + decoded(word, 5) * weights[5])
        + (decoded(word, 6) * weights[6] + decoded(word, 7) * weights[7])
    )

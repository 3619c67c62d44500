"""The kernel matrix of a pair of classes, from the samples of all classes in one piece of memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.rows import Array
from maxmargin.problem.held_values import Part, RowFunction, RowsOnDemand


class RowMemory(NamedTuple):
    """Memory for the rows of the largest pair: see :class:`maxmargin.problem.held_values.RowsOnDemand`."""

    values: Array
    is_there: Array
    power: Array
    bits: Array
    features: Array
    counts: Array
    function: RowFunction

    @classmethod
    def of(cls, padded: int, n_columns: int, function: RowFunction) -> RowMemory:
        """``padded`` is the number of samples of the largest pair, with those that make up a multiple of the width of a
        loop."""
        power, features = np.empty(padded), np.empty(n_columns + 3, np.int64)
        values, is_there, counts = np.empty(padded * padded), np.empty(padded, np.uint8), np.zeros(2, np.int64)
        return cls(values, is_there, power, power.view(np.int64), features, counts, function)


@njit(inline="always")
def rows_of_pair(classes, memory, first, second, padded):
    """The kernel matrix of two classes, with no row made yet. The matrix has ``padded`` rows and columns."""
    starts, squares, width = classes.starts, classes.square_starts, classes.samples.shape[1]
    a, b, c, d = starts[first], starts[first + 1], starts[second], starts[second + 1]
    middle = b - a
    n, size = middle + d - c, d - c
    square = classes.squares[squares[first] : squares[first + 1]].reshape((middle, middle))
    columns = classes.columns[a * width : b * width].reshape((width, middle))
    one = Part(classes.samples[a:b], columns, classes.sqnorms[a:b], square)
    square = classes.squares[squares[second] : squares[second + 1]].reshape((size, size))
    columns = classes.columns[c * width : d * width].reshape((width, size))
    other = Part(classes.samples[c:d], columns, classes.sqnorms[c:d], square)
    is_there, values = memory.is_there[:padded], memory.values[: padded * padded].reshape((padded, padded))
    for i in range(padded):
        is_there[i] = i >= n
        values[0, i] = 0.0  # a loop adds zero times this row before it has chosen one
    memory.counts[0], memory.counts[1] = 0, n
    power, bits = memory.power[:padded], memory.bits[:padded]
    return RowsOnDemand(values, is_there, one, other, middle, n, memory.function, power, bits, memory.features, memory.counts)

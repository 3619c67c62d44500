"""The samples of all classes in one piece of memory, for compiled loops that go through all pairs of classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.caching import njit
from maxmargin.data.rows import Array
from maxmargin.problem.held_values import ClassValues, Part, RowFunction, RowsOnDemand


class ClassRows(NamedTuple):
    """The parts of all classes (:class:`maxmargin.problem.held_values.Part`) one after the other: class k has the samples
    from ``starts[k]`` to ``starts[k + 1]``, and the values within it begin at ``square_starts[k]``. ``diagonal`` and
    ``lengths`` are those of the samples."""

    samples: Array
    columns: Array
    sqnorms: Array
    squares: Array
    starts: Array
    square_starts: Array
    diagonal: Array
    lengths: Array

    @classmethod
    def of(cls, values: ClassValues) -> ClassRows | None:
        """None where the kernel values have no bounds by lengths."""
        if values.bounds is None:
            return None
        parts = [Part.of(points, values.square(k)[0]) for k, points in enumerate(values.classes)]
        sizes = [len(part.samples) for part in parts]
        return cls(
            np.concatenate([part.samples for part in parts]),
            np.concatenate([part.columns.ravel() for part in parts]),
            np.concatenate([part.sqnorms for part in parts]),
            np.concatenate([part.square.ravel() for part in parts]),
            _starts(sizes),
            _starts([size * size for size in sizes]),
            np.concatenate([bounds.diagonal for bounds in values.bounds]),
            np.concatenate([bounds.lengths for bounds in values.bounds]),
        )


def _starts(sizes: list[int]) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


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
    return RowsOnDemand(
        values, is_there, one, other, middle, n, memory.function, power, bits, memory.features, memory.counts
    )

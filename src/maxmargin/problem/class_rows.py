"""The samples of all classes in one piece of memory, for compiled loops that go through all pairs of classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.problem.held_values import ClassValues, Part, fill_square


def whole_matrix(values: ClassValues) -> Array:
    """The kernel values of all samples, class by class."""
    points = values.points[np.argsort(values.codes, kind="stable")]
    out = np.empty((len(points), len(points)))
    fill_square(values.kernel, points, out)
    return out


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
        """Copy the samples of all classes. None where the kernel values have no bounds by lengths."""
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

"""Kernels of things that are not rows of numbers, such as strings, trees or graphs.

Solvers and certificates need a matrix with a row for each sample. If a sample is not a row of numbers, its row is its position
among the training samples, and the user's function is called with the objects at those positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array

ROWS_OF_NUMBERS = "biuf"
"""The kinds of NumPy's types that a matrix can have."""


def are_objects(X: Any) -> bool:
    """Whether X is a sequence of objects, none of them a row of numbers."""
    if sparse.issparse(X) or hasattr(X, "iloc") or not hasattr(X, "__len__"):
        return False
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and X.dtype.kind not in ROWS_OF_NUMBERS
    try:
        return np.asarray(X).dtype.kind not in ROWS_OF_NUMBERS
    except ValueError:  # rows of different lengths
        return True


def places(objects: Sequence[Any]) -> Array:
    """The row of each object: its place."""
    return np.arange(len(objects), dtype=np.float64).reshape(-1, 1)


@dataclass(frozen=True, eq=False)
class ObjectKernel:
    """``function``, which takes two lists of objects, for arrays of places."""

    function: Callable[[list[Any], list[Any]], Any]
    objects: list[Any]

    def __call__(self, one: Array, other: Array) -> Any:
        return self.function(self._at(one), self._at(other))

    def values(self, objects: Sequence[Any], chosen: Array) -> Array:
        """k(x, z) for these objects and the training objects at the places ``chosen``."""
        block = np.asarray(self.function(list(objects), self._at(chosen)), dtype=np.float64)
        if block.shape != (len(objects), len(chosen)):
            raise ValueError(f"The kernel function returned shape {block.shape} for {len(objects)} and {len(chosen)} objects.")
        return block

    def diagonal(self, objects: Sequence[Any]) -> Array:
        """k(x, x)"""
        return np.array([float(np.asarray(self.function([x], [x])).item()) for x in objects])

    def _at(self, chosen: Array) -> list[Any]:
        return [self.objects[int(place)] for place in np.ravel(chosen)]

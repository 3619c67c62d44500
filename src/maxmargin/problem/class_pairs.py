"""The pairs of classes of a one-against-one model, in LIBSVM's order, and the votes of those pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from maxmargin.data.rows import Array


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """(0, 1), (0, 2), ..., (1, 2), ...: the first class of a pair is its positive one."""
    return list(combinations(range(n_classes), 2))


def number_of_pairs(n_classes: int) -> int:
    return n_classes * (n_classes - 1) // 2


def votes(is_first: Array, n_classes: int) -> Array:
    """How many pairs each class wins, for each row of ``is_first``, which has a column for each pair."""
    counts = np.zeros((len(is_first), n_classes), int)
    for k, (i, j) in enumerate(class_pairs(n_classes)):
        counts[:, i] += is_first[:, k]
        counts[:, j] += ~is_first[:, k]
    return counts

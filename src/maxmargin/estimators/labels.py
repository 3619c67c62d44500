"""The binary problems of a linear classifier: one for two classes, one for each class against the rest, or one for each
column of an indicator matrix. All of them share X."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.estimators import checks


class BinaryProblems(NamedTuple):
    """``signs[k]()`` makes the labels +1 and -1 of problem k when its turn comes; ``costs[k]`` are its C_i."""

    classes: Array
    signs: Sequence[Callable[[], Array]]
    costs: Sequence[Array]
    is_multilabel: bool = False


def is_indicator(y: Any) -> bool:
    """Whether y has a column for each label."""
    return bool(sparse.issparse(y) or getattr(y, "ndim", 1) == 2)


def refuse_indicator(model: Any, what: str) -> None:
    """Refuse a model that gives a sample any number of labels, where ``what`` has room for one."""
    if getattr(model, "multilabel_", False):
        raise ValueError(f"{what} has one label for each sample; this model was fitted to an indicator matrix y.")


def dense_indicator(y: Any) -> Array:
    """y as int8 of zeros and ones."""
    return np.asarray(y.toarray() if sparse.issparse(y) else y).astype(np.int8)


def one_against_rest(y: Array, classes: Array, costs: Array) -> BinaryProblems:
    positives = classes[1:] if len(classes) == 2 else classes
    return BinaryProblems(classes, [partial(_equal, y, positive) for positive in positives], [costs] * len(positives))


def one_a_column(Y: Array, C: float, class_weight: Any, sample_weight: Any, X: Any) -> BinaryProblems:
    """One problem for each column of the indicator Y. A weight of a class, 0 or 1, counts in every column by itself."""
    columns = np.ascontiguousarray(Y.T)
    if class_weight is None:
        costs: Sequence[Array] = [checks.weighted_costs(C, sample_weight, X)] * len(columns)
    else:
        both = np.arange(2)
        costs = [
            checks.sample_costs(
                C, class_weight, sample_weight, X, both if 0 < column.sum() < len(column) else column[:1], column
            )
            for column in columns
        ]
    return BinaryProblems(np.arange(len(columns)), [partial(_equal, column, 1) for column in columns], costs, True)


def _equal(y: Array, positive: Any) -> Array:
    """+1 where y is this label, and -1 elsewhere. ``np.where`` takes eight times as long."""
    signs = np.asarray(y == positive, dtype=bool).view(np.int8)
    return 2 * signs - np.int8(1)

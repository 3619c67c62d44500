r"""The RBF kernel from differences of features, for columns so large that dot products lose its digits.

:math:`|x|^2 + |z|^2 - 2 x \cdot z` is wrong by a share of :math:`|x|^2`: with unix times near :math:`10^9` it is wrong by
hundreds, and ``gamma="auto"`` makes that the error of the exponent. A sum of :math:`(x_k - z_k)^2` has no such error, because
the features are given exactly and no term is negative. It takes two to four times as long as a product of matrices, and so
``RBF.suited_to`` chooses it only where it is needed.

**Rounding.** Let :math:`u = 2^{-53}` and let d be the number of features in which one of the two rows is not zero. A difference
is right to u, so its square to 2u, and ``fma`` adds the square with one rounding: a term meets at most d of them, and all terms
are positive, so the sum is right to :math:`(d + 2) u` of itself. The factor :math:`-\gamma / \ln 2` is right to 2u and the
product adds u, which makes :math:`(d + 5) u` of the exponent t. A value :math:`e^{-t}` then changes by at most
:math:`(d + 5) u \, t e^{-t} \le (d + 5) u / e`, and the exponential adds 4u of a value that is at most one. In all that is less
than :math:`(d + 8) u`. Squares below the normal numbers lose :math:`2^{-1074}` each, which gamma multiplies. A square that
overflows is infinite and its value the least normal number, which is right to :math:`2^{-1021}`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array
from maxmargin.problem import policy
from maxmargin.problem.kernel_base import SECOND_ORDER
from maxmargin.problem.kernels import RBF
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.problem.points import Points

LEAST_NUMBER = 2.0**-1074
"""The least positive float64."""


@dataclass(frozen=True)
class RBFByDifferences(RBF):
    """exp(-gamma |x - z|^2) from the differences x - z: see the head of this module."""

    @property
    def dot_function(self) -> None:  # type: ignore[override]
        return None

    def suited_to(self, *parts: Points) -> RBF:
        return self

    def largest_operand(self, points: Points) -> float:
        """No element type narrower than float64 ever holds a difference: only values are rounded to it."""
        return 1.0

    def rounding_error(self, one: Points, other: Points) -> float:
        n_terms = most_differences(one, other)
        relative = (n_terms + 8.0) * UNIT_ROUNDOFF
        return SECOND_ORDER * (relative + float(self.gamma) * n_terms * LEAST_NUMBER)

    def block(self, one: Points, other: Points) -> Array:
        return self.quick_block(one, other)

    def quick_block(self, one: Points, other: Points) -> Array:
        from maxmargin.problem.kernel_loops import rbf_values

        halves = half_squares(one, other)
        power, zeros = np.empty(len(other)), np.zeros(max(len(one), len(other)))
        log2_scale = -self.gamma / math.log(2.0)
        rbf_values(halves, zeros[: len(one)], zeros[: len(other)], log2_scale, power, power.view(np.int64))
        return halves


def most_differences(one: Points, other: Points) -> int:
    """The most features in which one of two rows is not zero."""
    lengths = [int(np.diff(matrix.indptr).max(initial=0)) for matrix in (one.matrix, other.matrix) if sparse.issparse(matrix)]
    n_features = int(one.matrix.shape[1])
    return min(n_features, sum(lengths)) if len(lengths) == 2 else n_features


def half_squares(one: Points, other: Points) -> Array:
    """-|x - z|^2 / 2 for each x of one and z of the other. That is what ``rbf_values`` takes for x . z where norms are zero."""
    halves, size = np.empty((len(one), len(other))), policy.KERNEL.rows_of_differences
    job = (_sparse_job if _are_wide(one, other) else _dense_job)(one.matrix, other.matrix, halves)
    for start in range(0, len(one), size):
        check_point()
        job(start, min(len(one), start + size))
    return halves


def _are_wide(one: Points, other: Points) -> bool:
    are_sparse = sparse.issparse(one.matrix) and sparse.issparse(other.matrix)
    return are_sparse and one.matrix.shape[1] > policy.KERNEL.dense_features


def _dense_job(one: Any, other: Any, halves: Array) -> Callable[[int, int], None]:
    from maxmargin.problem.difference_loops import dense_half_squares

    rows, columns = _dense(one), np.ascontiguousarray(_dense(other).T)
    return lambda start, stop: dense_half_squares(rows[start:stop], columns, halves[start:stop])


def _sparse_job(one: Any, other: Any, halves: Array) -> Callable[[int, int], None]:
    from maxmargin.problem.difference_loops import sparse_half_squares

    rows, columns = _sorted(one), _sorted(other)
    return lambda start, stop: sparse_half_squares(rows, columns, start, stop, halves)


def _dense(matrix: Any) -> Array:
    dense = matrix.toarray() if sparse.issparse(matrix) else matrix
    return np.ascontiguousarray(dense, np.float64)


def _sorted(matrix: Any) -> tuple[Array, Array, Array]:
    """The arrays of a CSR matrix with the features of each row in ascending order."""
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    return matrix.data.astype(np.float64, copy=False), matrix.indices, matrix.indptr

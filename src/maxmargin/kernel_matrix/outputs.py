r"""The outputs of the machines of all pairs of classes at once, for prediction: :math:`f_{ab}(x) = \sum_j s_j k(z_j, x)`.

A support vector of class a has a coefficient in each of the m - 1 pairs that a belongs to, and none in the other
:math:`\binom{m-1}{2}`. So the vectors are taken class by class: a tile of kernel values, as large as the caches like, is
multiplied by the m - 1 coefficients of each of its vectors, which serves all pairs, and forgotten. Vectors are prepared
once, and samples go to all cores in strips.

Fast kernel values in float32 or float64, as solvers have them: the bounds of
:func:`maxmargin.certificate.kernel_sums.kernel_sums`, which
serves certificates and machines of two classes, are not asked for here."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import Crew, single_threaded_blas
from maxmargin.kernel_matrix.blocks import KernelBlocks
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Kernel, Points, Sigmoid

ROWS_A_STRIP, COLUMNS_A_TILE = 256, 512
RIGHT_TO, ROUNDINGS = 1e-3, 8.0
ROWS_A_BLOCK = 4096
"""Samples whose values a kernel function is asked for at a time, or taken from a matrix that is given."""


class ClassCoefficients(NamedTuple):
    """Those of the support vectors start .. stop, which are of one class: a row a vector, a column for each of its pairs."""

    start: int
    stop: int
    values: Array
    pairs: Array

    @classmethod
    def of(cls, dual_coef: Array, n_support: Array, dtype: Any = np.float64) -> list[ClassCoefficients]:
        """From scikit-learn's layout: row r of ``dual_coef`` is for the r-th of the classes other than the vector's own."""
        n_classes, number = len(n_support), {}
        for k, (i, j) in enumerate(combinations(range(n_classes), 2)):
            number[i, j] = number[j, i] = k
        ends, values = np.cumsum(n_support), np.ascontiguousarray(dual_coef.T, dtype)
        return [
            cls(end - count, end, values[end - count : end], np.array([number[i, j] for j in range(n_classes) if j != i]))
            for i, (count, end) in enumerate(zip(n_support.tolist(), ends.tolist(), strict=True))
        ]

    def add(self, tile: Array, first: int, outputs: Array) -> None:
        """What the kernel values of some of the vectors, from the first on, add to the outputs."""
        outputs[:, self.pairs] += tile @ self.values[first - self.start : first - self.start + tile.shape[1]]


def pair_outputs(kernel: Kernel, vectors: Any, dual_coef: Array, n_support: Array, X: Any) -> Array:
    """A column for each pair of classes, without the offsets; in float32 where X is that and its digits suffice."""
    if isinstance(kernel, Custom):
        points = Points.of(vectors)
        return outputs_of_values(lambda rows: kernel.block(Points.of(X[rows]), points), dual_coef, n_support, X.shape[0])
    if X.dtype == np.float32 and _is_single_enough(kernel, vectors, dual_coef, X):
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = _fast_outputs(kernel, vectors, dual_coef, n_support, X, np.float32)
        if np.isfinite(outputs).all():
            return outputs
    return _fast_outputs(kernel, vectors, dual_coef, n_support, X, np.float64)


def _is_single_enough(kernel: Kernel, vectors: Any, dual_coef: Array, X: Any) -> bool:
    """Whether float32 leaves the outputs right to about RIGHT_TO: an output is a sum of coefficients times kernel values, and
    where those are large, as with a large C, the digits that are lost are those that decide."""
    if not X.shape[0] or not dual_coef.size:
        return True
    greatest = 1.0 if isinstance(kernel, RBF | Sigmoid) else _greatest_value(kernel, vectors, X)
    total = float(np.abs(dual_coef).sum(axis=1).max())
    return bool(ROUNDINGS * float(np.finfo(np.float32).eps) * greatest * total <= RIGHT_TO)


def _greatest_value(kernel: Kernel, vectors: Any, X: Any) -> float:
    """No |k(x, z)| is greater: Cauchy and Schwarz."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [float(np.abs(kernel.diagonal(Points.of(part))).max()) for part in (vectors, X)]
        return float(np.sqrt(squares[0] * squares[1]))


def outputs_of_values(values: Any, dual_coef: Array, n_support: Array, n: int) -> Array:
    """The same where ``values(rows)`` gives all kernel values of some samples with the support vectors."""
    coefficients = ClassCoefficients.of(dual_coef, n_support)
    outputs = np.zeros((n, len(n_support) * (len(n_support) - 1) // 2))
    for start in range(0, n, ROWS_A_BLOCK):
        rows = slice(start, start + ROWS_A_BLOCK)
        block = values(rows)
        for own in coefficients:
            own.add(block[:, own.start : own.stop], own.start, outputs[rows])
    return outputs


def _fast_outputs(kernel: Kernel, vectors: Any, dual_coef: Array, n_support: Array, X: Any, dtype: Any) -> Array:
    n_vectors, matrix = dual_coef.shape[1], Rows.from_matrix(X, check=False).matrix
    n, outputs = X.shape[0], np.zeros((X.shape[0], len(n_support) * (len(n_support) - 1) // 2))
    if not n_vectors:
        return outputs
    ones = np.ones(n_vectors)
    blocks = KernelBlocks(KernelProblem(Rows.from_matrix(vectors, check=False), ones, ones, kernel), dtype)
    coefficients, others = ClassCoefficients.of(dual_coef, n_support, dtype), blocks.everyone

    def strip(start: int) -> None:
        here, rows = blocks.outside(matrix[start : start + ROWS_A_STRIP]), outputs[start : start + ROWS_A_STRIP]
        memory = np.empty(len(rows) * COLUMNS_A_TILE, dtype)
        for own in coefficients:
            for first in range(own.start, own.stop, COLUMNS_A_TILE):
                last = min(own.stop, first + COLUMNS_A_TILE)
                tile = memory[: len(rows) * (last - first)].reshape(len(rows), last - first)
                blocks.tile(here, others, first, last, tile)
                own.add(tile, first, rows)

    with single_threaded_blas():
        Crew(int(n * n_vectors * blocks.ns_a_value)).run([(start,) for start in range(0, n, ROWS_A_STRIP)], strip)
    return outputs


def given_values(K: Any, support: Array) -> Array:
    """The columns of the support vectors of kernel values that are given, in float64."""
    part = K[:, support]
    return np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=np.float64)

r"""The outputs of the machines of all pairs of classes at once, for prediction: :math:`f_{ab}(x) = \sum_j s_j k(z_j, x)`.

A support vector of class a has a coefficient in each of the m - 1 pairs that a belongs to, and none in the other
:math:`\binom{m-1}{2}`. So the vectors are taken class by class. A tile of kernel values that fits in the caches is multiplied
by the m - 1 coefficients of each of its vectors, which serves all pairs, and is then dropped. Vectors are prepared once, and
strips of samples are shared among the cores.

This is the only engine of prediction, for two classes and for many. Samples in float32 are predicted in float32 where that is
precise enough, and again in float64 where a label could depend on the missing digits. So the labels are always those of
float64.

Predictions that come with a bound on their error have an engine of their own, that of the certificates:
:func:`maxmargin.certificate.predictions.kernel_decisions`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import single_threaded_blas
from maxmargin.kernel_matrix.tiles import Side, Span, Tiles
from maxmargin.problem.class_pairs import class_pairs, number_of_pairs, votes
from maxmargin.problem.kernels import Kernel, Points


@dataclass(frozen=True)
class PredictionPolicy:
    """How outputs are computed."""

    rows_a_strip: int = 1024
    """Samples that a thread takes at a time."""
    columns_a_tile: int = 128
    """Support vectors of a tile: in float64 it takes one megabyte. They are made dense and transposed for each strip of
    samples, which took a third of the time with strips of 256."""
    rows_a_block: int = 4096
    """Samples per call of a user's kernel function, or per slice of given kernel values."""
    values_a_block: int = 1 << 22
    """Kernel values of such a block in float64: 32 MB, and some 0.1 s between two check points."""
    right_to: float = 1e-3
    """The error of a decision value up to which float32 is good enough, estimated by ``roundings``. A sample with a decision
    value within twice this of zero is predicted again in float64."""
    roundings: float = 8.0
    """The error of a float32 kernel value, in units in the last place of the greatest one. An estimate."""

    def rows_within(self, n_vectors: int) -> int:
        """Rows of a block with so many support vectors."""
        return max(1, min(self.rows_a_block, self.values_a_block // max(1, n_vectors)))


class ClassCoefficients(NamedTuple):
    """The coefficients of the support vectors start .. stop, all of one class: a row a vector, a column for each of its
    pairs."""

    start: int
    stop: int
    values: Array
    pairs: Array

    @classmethod
    def of(cls, dual_coef: Array, n_support: Array, dtype: Any = np.float64) -> list[ClassCoefficients]:
        """Make them from scikit-learn's layout: row r of ``dual_coef`` is for the r-th of the classes other than the vector's
        own."""
        n_classes, number = len(n_support), {}
        for k, (i, j) in enumerate(class_pairs(n_classes)):
            number[i, j] = number[j, i] = k
        ends, values = np.cumsum(n_support), np.ascontiguousarray(dual_coef.T, dtype)
        return [
            cls(end - count, end, values[end - count : end], np.array([number[i, j] for j in range(n_classes) if j != i]))
            for i, (count, end) in enumerate(zip(n_support.tolist(), ends.tolist(), strict=True))
        ]

    def add(self, tile: Array, first: int, outputs: Array) -> None:
        """Add to the outputs what the kernel values of some of the vectors, from the first on, contribute."""
        outputs[:, self.pairs] += tile @ self.values[first - self.start : first - self.start + tile.shape[1]]


@dataclass(frozen=True, eq=False)
class PairMachines:
    """The machines of all pairs of classes, in scikit-learn's layout: support vectors class by class.

    ``vectors`` are rows of X; of a kernel that is given, the numbers of the support vectors among its columns."""

    kernel: Kernel
    vectors: Any
    dual_coef: Array
    n_support: Array
    intercept: Array
    policy: PredictionPolicy = field(default_factory=PredictionPolicy)

    def values(self, X: Any) -> Array:
        """The decision values: a column for each pair of classes, in float64."""
        kernel = self._kernel_for(X)
        if kernel.dot_function is None:
            return self._values_by_definition(X, kernel)
        if X.dtype == np.float32 and self._is_single_enough(X):
            with np.errstate(over="ignore", invalid="ignore"):
                values = self._fast_values(X, np.float32)
            again = np.flatnonzero(self._are_in_doubt(values))
            if len(again):
                values[again] = self._fast_values(X[again], np.float64)
            return values
        return self._fast_values(X, np.float64)

    def _is_single_enough(self, X: Any) -> bool:
        """Whether float32 leaves the decision values right to about ``right_to``. Where coefficients or kernel values are
        large, as with a large C, the digits that float32 loses are those that decide."""
        if not X.shape[0] or not self.dual_coef.size:
            return True
        greatest = self.kernel.greatest_value(Points.of(self.vectors), Points.of(X))
        total = float(np.abs(self.dual_coef).sum(axis=1).max())
        return bool(self.policy.roundings * float(np.finfo(np.float32).eps) * greatest * total <= self.policy.right_to)

    def _are_in_doubt(self, values: Array) -> Array:
        """The samples whose label may need float64: a decision value is near zero or not finite, or two classes tie for the
        greatest number of votes, and the decision values break the tie."""
        mask: Array = np.logical_not(np.all(np.abs(values) > 2.0 * self.policy.right_to, axis=1))
        if len(self.n_support) > 2:
            mask |= _have_shared_first_place(values > 0.0, len(self.n_support))
        return mask

    def _kernel_for(self, X: Any) -> Kernel:
        """The kernel in the form that suits the support vectors and X."""
        return self.kernel if self.kernel.is_given else self.kernel.suited_to(Points.of(self.vectors), Points.of(X))

    def _values_by_definition(self, X: Any, kernel: Kernel) -> Array:
        """The decision values where kernel values are given, come from a function of the user, or from differences."""
        if self.kernel.is_given:
            return self._added_up(lambda rows: given_values(X[rows], self.vectors), X.shape[0])
        points = Points.of(self.vectors)
        return self._added_up(lambda rows: kernel.block(Points.of(X[rows]), points), X.shape[0])

    def _added_up(self, values: Callable[[slice], Array], n: int) -> Array:
        """``values(rows)`` are all kernel values of some samples with the support vectors."""
        coefficients, outputs = self._coefficients(np.float64), self._zeros(n)
        for start in range(0, n, self.policy.rows_a_block):
            rows = slice(start, start + self.policy.rows_a_block)
            block = values(rows)
            for own in coefficients:
                own.add(block[:, own.start : own.stop], own.start, outputs[rows])
        return outputs + self.intercept

    def _fast_values(self, X: Any, dtype: Any) -> Array:
        n, outputs = X.shape[0], self._zeros(X.shape[0])
        if not self.dual_coef.shape[1]:
            return outputs + self.intercept
        points, size = Points.of(Rows.from_matrix(X, check=False).matrix), self.policy.rows_a_strip
        tiles = Tiles(self.kernel, Points.of(Rows.from_matrix(self.vectors, check=False).matrix), dtype)
        coefficients = self._coefficients(dtype)
        vectors = tiles.everyone
        assert len(points.sqnorms) == n  # computed once, before the threads ask for those of their strips

        def strip(start: int) -> None:
            self._add(tiles, tiles.outside(points[start : start + size]), vectors, coefficients, outputs[start : start + size])

        with single_threaded_blas():
            tiles.crew(n * self.dual_coef.shape[1]).run([(start,) for start in range(0, n, size)], strip)
        return outputs + self.intercept

    def _add(self, tiles: Tiles, here: Side, vectors: Side, coefficients: list[ClassCoefficients], outputs: Array) -> None:
        """Add the outputs of a strip of samples, tile by tile."""
        n, width = len(outputs), self.policy.columns_a_tile
        memory = np.empty(n * width, tiles.dtype)
        for own in coefficients:
            for first in range(own.start, own.stop, width):
                last = min(own.stop, first + width)
                tile = memory[: n * (last - first)].reshape(n, last - first)
                tiles.tile(here, vectors, Span(first, last), tile)
                own.add(tile, first, outputs)

    def _zeros(self, n: int) -> Array:
        return np.zeros((n, number_of_pairs(len(self.n_support))))

    def _coefficients(self, dtype: Any) -> list[ClassCoefficients]:
        return ClassCoefficients.of(self.dual_coef, self.n_support, dtype)


class OutputMachines(PairMachines):
    """Machines that share their support vectors, a row of ``dual_coef`` each: the outputs of a regression. All digits of an
    output count, so that every value is computed in float64."""

    def values(self, X: Any) -> Array:
        kernel = self._kernel_for(X)
        return self._values_by_definition(X, kernel) if kernel.dot_function is None else self._fast_values(X, np.float64)

    def _zeros(self, n: int) -> Array:
        return np.zeros((n, len(self.dual_coef)))

    def _coefficients(self, dtype: Any) -> list[ClassCoefficients]:
        n_outputs, n_vectors = self.dual_coef.shape
        return [ClassCoefficients(0, n_vectors, np.ascontiguousarray(self.dual_coef.T, dtype), np.arange(n_outputs))]


def _have_shared_first_place(is_for_first: Array, n_classes: int) -> Array:
    """Whether two classes have the greatest number of votes, for each row of the votes of pairs."""
    counts = votes(is_for_first, n_classes)
    mask: Array = (counts == counts.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return mask


def given_values(K: Any, support: Array) -> Array:
    """The columns of the support vectors of kernel values that are given, in float64."""
    part = K[:, support]
    return np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=np.float64)

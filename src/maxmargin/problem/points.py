"""The rows of X as a kernel sees them, with their squared norms, and their dot products."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.problem import policy


class Points:
    """Some rows of X, dense or CSR, and their squared norms in float64. The norms are computed when they are first used."""

    def __init__(self, matrix: Any, sqnorms: Array | None = None) -> None:
        self.matrix = matrix
        self._sqnorms = sqnorms

    @classmethod
    def of(cls, matrix: Any) -> Points:
        return cls(matrix if sparse.issparse(matrix) else np.asarray(matrix))

    @property
    def sqnorms(self) -> Array:
        if self._sqnorms is None:
            if sparse.issparse(self.matrix):
                squares = self.matrix.astype(np.float64).power(2).sum(axis=1)
                self._sqnorms = np.asarray(squares).reshape(-1)
            else:
                self._sqnorms = np.einsum("ij,ij->i", self.matrix, self.matrix, dtype=np.float64)
        return self._sqnorms

    @property
    def at_most(self) -> float:
        """An upper bound on the squared norms, up to rounding. Of sparse rows whose norms are not known it takes a tenth of the
        time that the norms take."""
        if self._sqnorms is not None or not sparse.issparse(self.matrix):
            return float(self.sqnorms.max(initial=0.0))
        values, lengths = self.matrix.data, np.diff(self.matrix.indptr)
        greatest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
        return float(lengths.max(initial=0)) * greatest * greatest

    def __getitem__(self, chosen: Any) -> Points:
        return Points(self.matrix[chosen], self.sqnorms[chosen])

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def in_double(self) -> Points:
        """The points in float64, and dense if that does not take much more memory: a product of dense blocks is ten times
        faster."""
        if isinstance(self.matrix, np.ndarray) and self.matrix.dtype == np.float64:
            return self
        is_narrow = sparse.issparse(self.matrix) and self.matrix.shape[1] <= policy.KERNEL.dense_features
        matrix = self.matrix.toarray() if is_narrow else self.matrix
        return Points(matrix.astype(np.float64, copy=False), self.sqnorms)


def dot_products(one: Points, other: Points) -> Array:
    """x . z in float64, one matrix product."""
    product = one.in_double().matrix @ other.in_double().matrix.T
    return product if isinstance(product, np.ndarray) else np.asarray(product.toarray())

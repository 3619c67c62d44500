"""X by columns: products of all columns with a vector, and the columns of a working set as rows of their own."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem


class Columns(NamedTuple):
    """What a loop sees of sparse columns, or of sparse rows."""

    values: Array
    indices: Array
    indptr: Array


class Block(Protocol):
    """The columns of a working set: n rows of p elements."""

    def times(self, d: Array) -> Array: ...

    def transposed_times(self, s: Array) -> Array: ...

    @property
    def dense(self) -> Array: ...

    def add_outer(self, chosen: Array, weights: Array, H: Array) -> None:
        """H += sum_i weights_i a_i a_i' over chosen rows."""


class Features(Protocol):
    """The columns of X; the constant column of an intercept has the number n_features."""

    def products(self, s: Array, kept: Array) -> Array:
        """x_j . s for the columns that are kept."""

    def squares(self, C: Array) -> Array:
        """sum_i C_i x_ij^2 for every column."""

    def block(self, chosen: Array) -> Block: ...

    @property
    def passes_for_all(self) -> float:
        """What the inner products of all columns cost, in passes over X."""


def features_of(problem: LinearProblem) -> Features:
    return SparseFeatures(problem) if problem.rows.is_sparse else DenseFeatures(problem)


class SparseFeatures:
    def __init__(self, problem: LinearProblem) -> None:
        self.scaling, self.n_features = problem.intercept_scaling, problem.rows.n_features
        self.by_rows = problem.rows.matrix

    @cached_property
    def matrix(self) -> Any:
        """By columns. Where all features are looked at together it is not made."""
        return self.by_rows.tocsc()

    @cached_property
    def columns(self) -> Columns:
        return _loop_view(self.matrix)

    def products(self, s: Array, kept: Array) -> Array:
        from maxmargin.solvers.linear.sparse_newton.column_loops import column_products

        if len(kept) >= self.n_features:
            return _with_constant(self.by_rows.T @ s, self.scaling * float(s.sum()), self.scaling)[kept]
        found = np.empty(len(kept))
        inside = kept[: np.searchsorted(kept, self.n_features)]
        column_products(self.columns, inside, s, found)
        found[len(inside) :] = self.scaling * float(s.sum())
        return found

    def squares(self, C: Array) -> Array:
        from maxmargin.solvers.linear.sparse_newton.column_loops import add_row_squares

        squared = np.zeros(self.n_features)
        add_row_squares(_loop_view(self.by_rows), np.ascontiguousarray(C), squared)
        return _with_constant(squared, self.scaling**2 * float(C.sum()), self.scaling)

    @property
    def passes_for_all(self) -> float:
        lengths = np.diff(self.by_rows.indptr).astype(np.float64)
        return float(lengths @ lengths) / max(1.0, float(lengths.sum()))

    def block(self, chosen: Array) -> SparseBlock:
        has_constant = len(chosen) > 0 and chosen[-1] == self.n_features
        inside = chosen[:-1] if has_constant else chosen
        part = self.by_rows if len(inside) == self.n_features else self.matrix[:, inside]
        if has_constant:
            constant = sparse.csc_matrix(np.full((self.matrix.shape[0], 1), self.scaling))
            part = sparse.hstack([part, constant], format="csr")
        return SparseBlock(part.tocsr().astype(np.float64, copy=False))


class SparseBlock:
    def __init__(self, matrix: Any) -> None:
        self.matrix, self.transposed = matrix, matrix.T
        self.rows = _loop_view(matrix)

    @property
    def dense(self) -> Array:
        return np.asarray(self.matrix.toarray())

    def times(self, d: Array) -> Array:
        return np.asarray(self.matrix @ d)

    def transposed_times(self, s: Array) -> Array:
        return np.asarray(self.transposed @ s)

    def add_outer(self, chosen: Array, weights: Array, H: Array) -> None:
        from maxmargin.solvers.linear.sparse_newton.column_loops import add_outer_products

        add_outer_products(self.rows, chosen, weights, H)


class DenseFeatures:
    def __init__(self, problem: LinearProblem) -> None:
        self.matrix, self.scaling = problem.rows.matrix, problem.intercept_scaling
        self.n_features = problem.rows.n_features

    def products(self, s: Array, kept: Array) -> Array:
        return _with_constant(s @ self.matrix, self.scaling * float(s.sum()), self.scaling)[kept]

    def squares(self, C: Array) -> Array:
        squared = np.einsum("i,ij,ij->j", C, self.matrix, self.matrix, dtype=np.float64)
        return _with_constant(squared, self.scaling**2 * float(C.sum()), self.scaling)

    @property
    def passes_for_all(self) -> float:
        return float(self.n_features)

    def block(self, chosen: Array) -> DenseBlock:
        inside = chosen[: np.searchsorted(chosen, self.n_features)]
        part = np.empty((len(self.matrix), len(chosen)))
        part[:, : len(inside)] = self.matrix[:, inside]
        part[:, len(inside) :] = self.scaling
        return DenseBlock(part)


class DenseBlock:
    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix

    @property
    def dense(self) -> Array:
        return self.matrix

    def times(self, d: Array) -> Array:
        return np.asarray(self.matrix @ d)

    def transposed_times(self, s: Array) -> Array:
        return np.asarray(s @ self.matrix)

    def add_outer(self, chosen: Array, weights: Array, H: Array) -> None:
        rows = self.matrix if len(chosen) == len(self.matrix) else self.matrix[chosen]
        H += rows.T @ (rows * weights[:, None])


def _with_constant(values: Array, constant: float, scaling: float) -> Array:
    return np.append(values, constant) if scaling else np.asarray(values)


def _loop_view(matrix: Any) -> Columns:
    """The arrays of a compressed matrix with the one signature that the loops are compiled for."""
    indices, indptr = matrix.indices.astype(np.uint32, copy=False), matrix.indptr.astype(np.int64, copy=False)
    return Columns(matrix.data.astype(np.float64, copy=False), indices.view(np.uint32), indptr.view(np.uint64))

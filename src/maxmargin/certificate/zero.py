r"""Is w = 0 optimal? Asked where both values of a problem with nu are below their rounding errors.

:math:`|w(\alpha)|` alone does not tell. Where one column of X is a billion times as large as the others, the rounding of its
weight is longer than all other weights together, and a w that is far from zero would pass for it. But w is zero if and only if
it is zero in columns of any other scales, and where the signed alpha add up to zero, in columns that are moved. So each feature
j is brought to the scale of its own variables, :math:`b_{ij}`, with a column of zeros and ones for each sum of alpha, and

.. math:: r_j = \sum_i \alpha_i b_{ij} - T_j , \qquad |r_j| \le \text{share} \cdot \sum_i |\alpha_i b_{ij}|

has to hold for each. Then a feasible alpha' near alpha with :math:`r = 0` is looked for: with the distances :math:`d_i` of the
:math:`\alpha_i` from their bounds, :math:`\alpha' = \alpha + d_i t_i` is in the box if :math:`|t| \le 1`, and the shortest t
with :math:`\sum_i t_i d_i b_{ij} = -r_j` has :math:`|t| \le |r| / \sigma` for the least singular value :math:`\sigma` of
:math:`d_i b_{ij}`. That proves that w = 0 is optimal. In directions whose singular value is nothing but rounding, r has to be
nothing but rounding, too: so it is where no variable can move, and with columns that depend on each other. A variable without
room makes a row of zeros, which changes neither :math:`\sigma` nor the directions, and is left out. Where fewer rows than
columns are left, rows of zeros complete the directions: no part of r is overlooked. r itself is summed exactly where the
features have no error: its rounding is larger than r, and divided by a small :math:`\sigma` it is too long.

The features of a polynomial kernel are its monomials. Where there are too many of them, :math:`|w|^2` has to be nothing but
rounding by the kernel :math:`(\tilde x \cdot \tilde z + c)^p` with columns within [-1, 1] and c = 1 in place of any positive
``coef0``: its features are the same but for their scales. Of other kernels no features are known, and there the rounding of
the values has to be small beside what they could be, for samples as far apart as these."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.certificate import policy
from maxmargin.certificate.rounding import exact_sums, gamma, two_product
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.nu import NuProblem

ZERO_SHARE = 2.0**-30
"""Share of the terms of a weight that may be left of a zero: 1e-9, a thousandth of the usual ``tol``."""

UNDERFLOW = 2.0**-900
"""More than what products below the smallest normal number can take from an exact sum."""


@dataclass(frozen=True)
class DualPoint:
    """alpha with its upper bounds, the signs of its variables, a column of zeros and ones for each fixed sum, and the sums."""

    alpha: Array
    upper: Array
    signs: Array
    groups: Array
    totals: Array

    @property
    def signed(self) -> Array:
        return self.signs * self.alpha

    @property
    def room(self) -> Array:
        """The distances from the bounds."""
        return np.minimum(self.alpha, self.upper - self.alpha)


class Features(NamedTuple):
    """phi of the rows, and the relative error of its elements."""

    X: Any
    relative_error: float


def is_zero(problem: NuProblem, alpha: Array, noise: float) -> bool:
    """Whether w = 0 is optimal for this problem, and w(alpha) is zero but for rounding. ``noise`` bounds the rounding error of
    the values of its certificate."""
    kernel, matrix, is_balanced = problem.kernel, problem.rows.matrix, len(problem.totals) > 1
    if not kernel.is_polynomial:
        return noise <= ZERO_SHARE * _greatest_value(problem)
    found = _features(kernel, matrix, is_balanced)
    if found is None:
        is_moved = is_balanced and _has_all_degrees(kernel)
        return _is_zero_by_values(kernel, matrix, problem.coefficients(alpha), is_moved)
    groups = (problem.group[:, None] == np.arange(len(problem.totals))).astype(np.float64)
    point = DualPoint(alpha, np.asarray(problem.C), np.asarray(problem.signs), groups, problem.totals)
    return is_zero_in_columns(found.X, point, is_balanced, found.relative_error)


def _features(kernel: Kernel, X: Any, is_balanced: bool) -> Features | None:
    """The features of a polynomial kernel but for their scales. None where there are too many. Monomials of columns within
    [-1, 1] cannot overflow."""
    found, function = feature_map(kernel, X.shape[1], is_balanced), kernel.dot_function
    if found is None or function is None:
        return None
    if found.relative_error == 0.0:
        return Features(X, 0.0)
    X = _equalised(_moved(_dense(X), is_balanced and _has_all_degrees(kernel)))
    return Features(found.of(X), found.relative_error + 4.0 * function.degree * UNIT_ROUNDOFF)


def is_zero_in_columns(X: Any, point: DualPoint, is_moved: bool = False, relative_error: float = 0.0) -> bool:
    """The same for features that are known. Variable k belongs to row k modulo the number of rows. ``relative_error`` is that
    of the elements of X before they are moved."""
    n, k = X.shape[0], X.shape[1]
    if k > policy.ZERO.most_columns:
        return _is_rounding_in_columns(X, point.signed.reshape(-1, n).sum(axis=0))
    dense = _dense(X)
    moved, errors = _moved_with_errors(dense, is_moved, relative_error)
    B = np.hstack([np.tile(moved, (len(point.alpha) // n, 1)) * point.signs[:, None], point.groups])
    errors, sums = (np.concatenate([own, rest]) for own, rest in ((errors, 0.0 * point.totals), (np.zeros(k), point.totals)))
    terms, residual = np.abs(B).T @ point.alpha, B.T @ point.alpha - sums
    rounding = gamma(len(B) + 8.0) * (terms + sums) + errors * float(point.alpha.sum())
    if np.all(np.abs(residual) <= rounding):
        return True
    if not np.all(np.abs(residual) <= ZERO_SHARE * terms + rounding):
        return False
    known = Residual(residual, rounding)
    exact = exact_residual(dense, _centre(dense, is_moved), point) if relative_error == 0.0 else None
    return _has_zero_nearby(B, point.room, exact or known, Uncertainty(rounding, errors))


def exact_residual(X: Array, centre: Array, point: DualPoint) -> Residual | None:
    """r of the columns of X less their centres, and of the sums, with errors of some roundings of r itself: the sums are made
    of products and their rounding errors, and rounded once. None where there are too many elements, or a product overflows."""
    if len(point.alpha) * X.shape[1] > policy.LINEAR.exact_elements:
        return None
    signed = point.signed
    rows = np.ascontiguousarray(np.tile(X, (len(signed) // len(X), 1)).T)
    try:
        excess = math.fsum(signed)
        moved = two_product(centre, np.full(len(centre), -excess))
        of_columns = exact_sums(rows, signed, terms=moved)
        sizes = point.groups.T * point.alpha
        of_groups = [math.fsum([*own, -total]) for own, total in zip(sizes, point.totals, strict=True)]
    except (OverflowError, ValueError):
        return None
    value = np.append(of_columns, of_groups)
    error = 4.0 * UNIT_ROUNDOFF * (np.abs(value) + np.append(np.abs(moved[0]), 0.0 * point.totals)) + UNDERFLOW
    return Residual(value, error)


def is_zero_sum(kernel: Kernel, X: Any, v: Array, is_balanced: bool) -> bool:
    """Whether sum_i v_i phi(x_i) is zero beside its terms: in each feature of a polynomial kernel."""
    if not kernel.is_polynomial or not v.any():
        return True
    found = _features(kernel, X, is_balanced)
    if found is None:
        return _is_zero_by_values(kernel, X, v, is_moved=is_balanced and _has_all_degrees(kernel))
    return are_zeros_beside(np.asarray(found.X.T @ v), found.X, v, is_balanced)


def are_zeros_beside(w: Array, X: Any, v: Array, is_moved: bool = False) -> bool:
    """Whether each weight is zero beside the terms of the weight of v."""
    if not is_moved:
        return bool(np.all(np.abs(w) <= ZERO_SHARE * np.asarray(abs(X).T @ np.abs(v)).reshape(-1)))
    X = _moved(_dense(X), True)
    return bool(np.all(np.abs(X.T @ v) <= ZERO_SHARE * (np.abs(X).T @ np.abs(v))))


def _is_rounding_in_columns(X: Any, v: Array) -> bool:
    return bool(np.all(np.abs(X.T @ v) <= gamma(X.shape[0] + 8.0) * (abs(X).T @ np.abs(v))))


def _moved_with_errors(X: Array, is_moved: bool, relative_error: float) -> tuple[Array, Array]:
    """X with its columns moved to their mean, if asked for, and bounds on the errors of the elements of each column."""
    errors = relative_error * np.abs(X).max(axis=0, initial=0.0)
    X = _moved(X, is_moved)
    return X, errors + 2.0 * UNIT_ROUNDOFF * np.abs(X).max(axis=0, initial=0.0)


class Residual(NamedTuple):
    """r, and how wrong each of its elements can be."""

    value: Array
    error: Array


class Uncertainty(NamedTuple):
    """What counts as nothing in a residual in directions that no variable can move, and the errors of the elements of each
    column."""

    residuals: Array
    elements: Array


def _has_zero_nearby(B: Array, room: Array, residual: Residual, unknown: Uncertainty) -> bool:
    """Whether a t of at most unit length solves sum_i t_i d_i b_i = -residual, with d the room. Columns are brought to unit
    length before. Samples without room make rows of zeros, which change no singular value: they are left out, but for as many
    as make the directions a whole basis."""
    B, errors = _free_rows(B, room), unknown.elements * float(np.linalg.norm(room))
    sizes = np.linalg.norm(B, axis=0)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    B, errors = B / sizes, errors / sizes
    r, error, nothing = (each / sizes for each in (residual.value, residual.error, unknown.residuals))
    if not (np.isfinite(B).all() and np.isfinite(r + error + nothing + errors).all()):
        return False
    _, values, directions = np.linalg.svd(B, full_matrices=False)
    wrong = gamma(float(sum(B.shape)) + 8.0) * float(np.linalg.norm(B)) + float(np.linalg.norm(errors))
    along = np.abs(directions @ r)
    hidden = np.abs(directions) @ error + gamma(len(r) + 8.0) * float(np.linalg.norm(r))
    is_known = values > 2.0 * wrong
    t = (along + hidden)[is_known] / (values[is_known] - wrong)
    return bool(np.linalg.norm(t) <= 1.0 and np.all(along[~is_known] <= (np.abs(directions) @ nothing)[~is_known]))


def _free_rows(B: Array, room: Array) -> Array:
    """The rows d_i b_i with d_i > 0, and rows of zeros if there are fewer than columns."""
    free = np.flatnonzero(room > 0.0)
    scaled = np.zeros((max(len(free), B.shape[1]), B.shape[1]))
    scaled[: len(free)] = B[free] * room[free, None]
    return scaled


def _greatest_value(problem: NuProblem) -> float:
    """The greatest |w|^2 / 2 that alpha can make of samples that are as far apart as these, or as far from zero where there is
    one sum. It is at most four times too small."""
    samples = problem.samples
    squares = np.abs(np.asarray(samples.diagonal, dtype=np.float64))
    if len(problem.totals) > 1:
        squares = squares + squares[0] - 2.0 * samples.kernel.gram(samples.points, slice(0, 1), slice(None))[0]
    return 0.5 * float(problem.totals.max()) ** 2 * float(squares.max(initial=0.0))


def _has_all_degrees(kernel: Kernel) -> bool:
    """Whether the features are all monomials up to the degree, so that moving the columns changes their scales only."""
    function = kernel.dot_function
    return function is None or function.coef0 > 0.0


def _is_zero_by_values(kernel: Kernel, X: Any, v: Array, is_moved: bool) -> bool:
    """Whether the square of w is nothing but rounding, by values of the kernel with columns of equal scales."""
    function = kernel.dot_function
    assert function is not None
    support = np.flatnonzero(v)
    X, v, constant, degree = X[support], v[support], float(function.coef0 > 0.0), int(function.degree)
    X = _equalised(X.astype(np.float64) if sparse.issparse(X) else _moved(_dense(X), is_moved))
    square, magnitude, size = 0.0, 0.0, policy.ZERO.rows_together
    for start in range(0, len(v), size):
        rows, own = X[start : start + size], v[start : start + size]
        square += float(own @ ((_products(rows, X) + constant) ** degree @ v))
        magnitude += float(np.abs(own) @ ((_products(abs(rows), abs(X)) + constant) ** degree @ np.abs(v)))
    return square <= gamma(2.0 * len(v) + (degree + 1.0) * (X.shape[1] + 8.0)) * magnitude


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def _moved(X: Array, is_moved: bool) -> Array:
    """X with its columns moved to their mean, if asked for."""
    return X - _centre(X, is_moved) if is_moved and len(X) else X


def _centre(X: Array, is_moved: bool) -> Array:
    return np.asarray(X.mean(axis=0)) if is_moved and len(X) else np.zeros(X.shape[1])


def _equalised(X: Any) -> Any:
    """X with columns within [-1, 1]."""
    sizes = np.asarray(abs(X).max(axis=0).todense() if sparse.issparse(X) else abs(X).max(axis=0, initial=0.0)).reshape(-1)
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    return sparse.csr_matrix(X.multiply(1.0 / sizes)) if sparse.issparse(X) else X / sizes


def _products(rows: Any, X: Any) -> Array:
    return np.asarray((rows @ X.T).todense() if sparse.issparse(X) else rows @ X.T)

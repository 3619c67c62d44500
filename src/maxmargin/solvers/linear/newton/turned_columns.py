r"""Columns that depend on each other and use up the digits of float64, in coordinates where they do not depend.

A table holds the same time in milliseconds and in nanoseconds, or beside an order number that is made from it. What the two
columns say together is in their difference, a column of size one. To use it, w needs weights that nearly cancel in the greatest
numbers of X, far larger than the weight that such a column has alone. Newton's method cannot see these weights beside the
rounding errors of their columns. So the columns are multiplied by an orthonormal matrix Q that makes them orthogonal. With
w = Q v the penalty is that of v and alpha stays.

A penalised intercept is such a column, too: beside numbers that are far from zero for their spread, the constant feature
depends on them.

Q comes from Jacobi's rotations, since each is small relative to the ratio of the two columns that it makes orthogonal: the
direction of a short column is then known to as many digits as that of a long one. X Q is computed in twice the precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from maxmargin.certificate.rounding import two_product, two_sum
from maxmargin.data.limits import check_point
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.lattice import nearest_multiples
from maxmargin.solvers.linear.newton import policy
from maxmargin.solvers.linear.newton.wide_columns import costly_columns
from maxmargin.solvers.presolve import CentredColumns, PresolvePolicy


@dataclass(frozen=True, eq=False)
class TurnedColumns:
    """A problem with some columns X_c replaced by X_c Q. Where the intercept is free, all columns are centred before, and X_c Q
    again; ``centre`` and ``turned_centre`` have what was taken. If it is penalised, the columns that are far from zero for
    their spread are turned, too, with the constant feature: the longest column of X_c Q is then nearly constant, and the others
    are nearly centred."""

    original: LinearProblem
    problem: LinearProblem
    columns: Array
    basis: Array
    centre: Array
    turned_centre: Array

    @classmethod
    def of(cls, problem: LinearProblem, centred: CentredColumns | None, is_careful: bool) -> TurnedColumns | None:
        """Turn the columns, or return None where no column that uses up the digits of alpha nearly depends on others.
        ``centred`` is the problem with centred columns, if there is one and the intercept is free. With a penalised intercept
        columns are turned only where ``is_careful`` asks for it: most of these problems can be solved without a turn, in less
        time than a turn takes. There a column that is far from zero for its spread depends on the constant feature."""
        inner = problem if centred is None else centred.problem
        if problem.penalizes_intercept and not is_careful:
            return None
        wide = costly_columns(inner, policy.TURNING.costly)
        if not len(wide) or problem.rows.n_features > policy.TURNING.most_columns:
            return None
        X, is_centred = inner.rows.dense().astype(np.float64, copy=False), not problem.penalizes_intercept
        columns, scaling = dependent_columns(X, wide), problem.intercept_scaling
        far = np.empty(0, np.intp) if is_centred else columns_far_from_zero(X)
        if not (len(columns) or np.isin(wide, far).any()):
            return None
        if not is_centred:
            columns = np.union1d(columns, far)
            if scaling != 0.0:
                X, columns, scaling = np.column_stack([X, np.full(len(X), scaling)]), np.append(columns, X.shape[1]), 0.0
        known = "turned columns", is_centred, problem.intercept_scaling, columns.tobytes()
        basis, turned, turned_centre = problem.rows.once(known, lambda: made_orthogonal(X[:, columns], is_centred))
        if not np.isfinite(turned).all():
            return None
        X = X.copy()
        X[:, columns] = turned
        centre = np.zeros(problem.rows.n_features) if centred is None else centred.centre
        turned_problem = replace(problem, rows=Rows(X), intercept_scaling=scaling)
        return cls(problem, turned_problem, columns, basis, centre, turned_centre)

    def reduce(self, alpha: Array) -> Array:
        return alpha

    def expand(self, w: Array, alpha: Array) -> tuple[Array, Array]:
        """w of X as it is. Its great weights nearly cancel, so that their last digits count in the outputs. Where rounding
        costs something, the digits of all of them are chosen together (``lattice.py``). What is left may cost C times itself
        where a margin is below one. Then longer w are tried, each with a rounding of its own."""
        with np.errstate(all="ignore"):
            aim = (1.0 + policy.TURNING.noticeable) * self._value(w, np.zeros(len(alpha)))
            way = _WayBack(self, w)
            found = way.rounded()
            least = self._value(w, way.errors(found))
            stretches = () if self.original.loss.is_regression else policy.TURNING.stretches
            greatest = 0.0
            for stretch in (0.0, *stretches):
                if least <= aim:
                    break
                longer = (1.0 + stretch * greatest) * w
                way = _WayBack(self, longer)
                other = way.nearest()
                errors = way.errors(other)
                value, greatest = self._value(longer, errors), max(greatest, float(np.abs(errors).max()))
                if value < least:
                    found, least = other, value
        return found, alpha

    def _value(self, v: Array, errors: Array) -> float:
        """The primal value where the outputs of v are wrong by ``errors``."""
        problem = self.problem
        return 0.5 * problem.sqnorm(v) + float(problem.C @ problem.loss.value(problem.margins(v) + errors, problem.targets))


def is_turned(reductions: Sequence[object]) -> bool:
    return any(isinstance(reduction, TurnedColumns) for reduction in reductions)


class _WayBack:
    """The way from v to w = Q v and its offset. ``first`` and ``rest`` are Q v in twice the precision. What a w lacks of the
    outputs of v is given in coordinates along X_c Q, which are orthogonal, and along a constant output."""

    def __init__(self, turned: TurnedColumns, v: Array) -> None:
        self.turned, self.v = turned, v
        self.own = v[turned.columns]
        first, rest = product_in_pairs(self.own[None, :], turned.basis.T)
        self.first, self.rest = first[0], rest[0]
        problem = turned.original
        self.has_offset = not problem.penalizes_intercept and problem.intercept_scaling != 0.0
        self.root = math.sqrt(problem.n_samples)
        self.lengths = np.linalg.norm(turned.problem.rows.matrix[:, turned.columns], axis=0)

    def nearest(self) -> Array:
        rounded = self.rounded()
        try:
            return min((self.with_finer_digits(rounded), rounded), key=self.distance)
        except (OverflowError, ValueError, np.linalg.LinAlgError):
            return rounded

    def errors(self, w: Array) -> Array:
        """What the margins of w have more than those of v."""
        columns, lack = self.turned.problem.rows.matrix[:, self.turned.columns], self.turned.basis.T @ self._lack(w)
        outputs = columns @ lack - (self._shift(w) if self.has_offset else 0.0)
        return np.asarray(-outputs * self.turned.original.signs)

    def rounded(self) -> Array:
        w = self.v.copy()
        w[self.turned.columns] = self.first
        if self.has_offset and math.isfinite(shift := self._shift(w)):
            w[-1] -= shift / self.turned.original.intercept_scaling
        return w

    def distance(self, w: Array) -> float:
        return float(np.linalg.norm(self._missing(w)))

    def with_finer_digits(self, w: Array) -> Array:
        turned, aim = self.turned, policy.TURNING.aim * self.root
        digits, steps = np.spacing(np.abs(w[turned.columns])), turned.basis * self.lengths
        if self.has_offset:
            means = turned.centre[turned.columns] + turned.basis @ turned.turned_centre
            constant = self.root * np.append(means, turned.original.intercept_scaling)
            steps = np.column_stack([np.vstack([steps, np.zeros(len(self.own))]), constant])
            digits = np.append(digits, np.spacing(abs(float(w[-1]))))
        steps *= digits[:, None] / aim
        sizes = np.linalg.norm(steps, axis=1)
        coarsest = np.argsort(-sizes, kind="stable")[: min(policy.TURNING.most_digits, np.count_nonzero(sizes > 1.0))]
        if not len(coarsest):
            return w
        prices = np.full(len(coarsest), 1.0 / policy.TURNING.most_multiples)
        multiples = nearest_multiples(steps[coarsest], self._missing(w) / aim, prices)
        moved = w.copy()
        moved[np.append(turned.columns, -1)[coarsest]] += digits[coarsest] * multiples
        return moved

    def _missing(self, w: Array) -> Array:
        missing = self.lengths * (self.turned.basis.T @ self._lack(w))
        return np.append(missing, -self.root * self._shift(w)) if self.has_offset else missing

    def _lack(self, w: Array) -> Array:
        return (self.first - w[self.turned.columns]) + self.rest

    def _shift(self, w: Array) -> float:
        """The constant output that w has too much; not a number where float64 overflows."""
        turned, n_features = self.turned, self.turned.original.rows.n_features
        lost = -(turned.basis.T @ self._lack(w))
        pairs = [
            two_product(turned.turned_centre, self.own),
            two_product(turned.turned_centre, lost),
            two_product(turned.centre, w[:n_features]),
            two_product(np.array([w[-1], -self.v[-1]]), np.full(2, turned.original.intercept_scaling)),
        ]
        parts = np.concatenate([part for pair in pairs for part in pair])
        return math.fsum(parts) if np.isfinite(parts).all() else math.nan


def dependent_columns(X: Array, wide: Array) -> Array:
    """The columns that have a part in the near dependence of a wide one: those that the projection to the small main axes of
    the scaled columns mixes with a wide column. What is left of a column of small numbers would take too great a weight."""
    columns = X - X.mean(axis=0)
    spreads = np.abs(columns).max(axis=0, initial=0.0)
    present = np.flatnonzero(spreads > policy.TURNING.least_spread)
    columns = columns[:, present] / spreads[present]
    columns /= np.sqrt(np.einsum("ij,ij->j", columns, columns))
    values, axes = np.linalg.eigh(columns.T @ columns)
    small = axes[:, values < policy.TURNING.dependent]
    mixes = np.abs(small @ small.T) > policy.TURNING.part
    np.fill_diagonal(mixes, False)
    is_wide = np.isin(present, wide)
    has_part = mixes[:, is_wide].any(axis=1) | (is_wide & mixes.any(axis=1))
    found: Array = present[has_part]
    return found


def columns_far_from_zero(X: Array) -> Array:
    """The columns whose mean is far from zero for their spread, constant ones among them."""
    return np.flatnonzero(np.abs(X.mean(axis=0)) > PresolvePolicy.far_from_zero * X.std(axis=0))


def made_orthogonal(columns: Array, is_centred: bool) -> tuple[Array, Array, Array]:
    """Q, X Q and the mean that was taken from it."""
    basis = orthogonal_basis(columns, is_centred)
    return basis, *turned_from(columns, basis, is_centred)


def orthogonal_basis(columns: Array, is_centred: bool) -> Array:
    """An orthonormal Q for which the columns of X Q are nearly orthogonal, however different their lengths are."""
    basis = np.eye(columns.shape[1])
    for _ in range(policy.TURNING.most_sweeps):
        check_point()
        turned = turned_from(columns, basis, is_centred)[0]
        turned /= np.abs(turned).max() or 1.0
        products = turned.T @ turned
        if not _sweep(products, basis) > policy.TURNING.enough:
            break
    return basis


def _sweep(products: Array, basis: Array) -> float:
    """Rotate each pair of columns once. Gives the greatest cosine between two of them before."""
    greatest = 0.0
    for i in range(len(products)):
        for j in range(i + 1, len(products)):
            mean = float(np.sqrt(max(0.0, products[i, i] * products[j, j])))  # rounding can make a square negative
            if not abs(products[i, j]) > policy.TURNING.enough * mean > 0.0:
                continue
            greatest = max(greatest, abs(float(products[i, j])) / mean)
            ratio = (products[j, j] - products[i, i]) / (2.0 * products[i, j])
            tangent = np.copysign(1.0, ratio) / (abs(ratio) + np.hypot(1.0, ratio))
            cosine = 1.0 / np.hypot(1.0, tangent)
            rotation = cosine * np.array([[1.0, tangent], [-tangent, 1.0]])
            basis[:, [i, j]] = basis[:, [i, j]] @ rotation
            products[:, [i, j]] = products[:, [i, j]] @ rotation
            products[[i, j]] = rotation.T @ products[[i, j]]
    return greatest


def turned_from(columns: Array, basis: Array, is_centred: bool) -> tuple[Array, Array]:
    """X Q from pairs of floats, rounded once, and the mean that was taken from it."""
    with np.errstate(all="ignore"):
        total, rest = product_in_pairs(columns, basis)
        centre = (total + rest).mean(axis=0) if is_centred else np.zeros(basis.shape[1])
        total, lost = two_sum(total, -centre)
        return total + (rest + lost), centre


def product_in_pairs(A: Array, B: Array) -> tuple[Array, Array]:
    """A B and its rounding error."""
    total = np.zeros((len(A), B.shape[1]))
    rest = np.zeros_like(total)
    for column, row in zip(A.T, B, strict=True):
        product, lost = two_product(column[:, None], row[None, :])
        total, lost_too = two_sum(total, product)
        rest += lost + lost_too
    return total, rest

"""The matrix of Newton's method by passes is a packed sum, and its system has the solution of the square matrix."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.solvers.linear.newton.hessian import Regulariser, SummedHessian, packed
from maxmargin.solvers.linear.newton.policy import HessianPolicy


def outer(n_rows, size, seed):
    rows = np.random.default_rng(seed).normal(size=(n_rows, size))
    return rows.T @ rows


@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_the_sum_of_packed_changes_solves_the_system_of_the_sum(size):
    first, second = outer(3, size, 0), outer(40, size, 1)
    gradient = np.random.default_rng(2).normal(size=size)
    hessian = SummedHessian(size, HessianPolicy())
    for change in (first, second):
        hessian.add(packed(np.tril(change)))
    direction = hessian.solve(0.3, Regulariser(np.ones(size)), gradient, np.empty(0))
    expected = -np.linalg.solve(np.eye(size) + 0.3 * (first + second), gradient)
    assert direction == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_a_matrix_that_rounding_made_indefinite_is_helped_by_its_diagonal():
    hessian = SummedHessian(2, HessianPolicy())
    hessian.add(packed(1e18 * np.array([[1.0, 0.0], [1.0 + 1e-15, 1.0]])))
    direction = hessian.solve(1.0, Regulariser(np.ones(2)), np.array([1.0, -1.0]), np.empty(0))
    assert direction is not None
    assert np.isfinite(direction).all()


def test_a_matrix_that_overflows_has_no_direction():
    hessian = SummedHessian(3, HessianPolicy())
    hessian.add(packed(np.full((3, 3), 1e308)))
    assert hessian.solve(1e10, Regulariser(np.ones(3)), np.ones(3), np.empty(0)) is None

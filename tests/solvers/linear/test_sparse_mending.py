"""Feasible alphas for the L1 penalty where the last digit of alpha moves v_j = sum_i s_i x_ij by as much as its limit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import SquaredHinge
from maxmargin.problem.penalties import L1, ElasticNet
from maxmargin.solvers.linear.sparse_newton.mending import mended_in_levels
from maxmargin.solvers.linear.sparse_newton.model import QuadraticModel
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.raw_catalogue import table


def problem_of(C: float, penalty: object, is_free: bool = False, unit: float = 1.0, n: int = 200) -> LinearProblem:
    """Milliseconds since 1970 beside small columns, and labels that say little of them: every sample has an alpha."""
    X, y = table("milliseconds", n)
    X = X * [unit, 1.0, 1.0, 1.0, 1.0]
    labels = np.where(np.random.default_rng(0).random(n) < 0.4, 1 - y, y)
    return LinearProblem.build(X, np.where(labels == 1, 1, -1), C, SquaredHinge(), 1.0, not is_free, penalty=penalty)


def exact_v(problem: LinearProblem, alpha: np.ndarray) -> list[Fraction]:
    signed = [Fraction(float(a)) * int(sign) for a, sign in zip(alpha, problem.signs, strict=True)]
    columns = [*problem.rows.dense().T, np.full(problem.n_samples, problem.intercept_scaling)]
    return [sum(a * Fraction(float(x)) for a, x in zip(signed, column, strict=True)) for column in columns]


@pytest.mark.parametrize("is_free", [False, True], ids=["penalised", "free"])
@pytest.mark.parametrize("C", [1e3, 1e5])
def test_v_is_what_is_stated_in_rational_arithmetic_and_nearly_within_its_limits(C, is_free):
    problem = problem_of(C, L1(), is_free)
    solution = solve(problem, tol=1e-4)
    rough = solution.alpha * (1.0 + 1e-15 * np.random.default_rng(1).normal(size=problem.n_samples))
    assert max(abs(v) for v in exact_v(problem, rough)[:5]) > 2
    found = mended_in_levels(problem, solution.w, rough)
    errors = [abs(v - Fraction(float(wanted))) for v, wanted in zip(exact_v(problem, found.alpha), found.v, strict=True)]
    assert all(error <= Fraction(float(bound)) + Fraction(1, 10**9) for error, bound in zip(errors, found.errors, strict=True))
    assert max(abs(v) for v in exact_v(problem, found.alpha)[:5]) <= 1.001
    assert np.abs(found.alpha - rough).max() <= 1e-6 * rough.max()


@pytest.mark.parametrize("is_free", [False, True], ids=["penalised", "free"])
@pytest.mark.parametrize("penalty", [L1(), ElasticNet(0.5)], ids=repr)
@pytest.mark.parametrize("C", [1.0, 1e3, 1e5])
@pytest.mark.parametrize("unit", [1.0, 1e3], ids=["milliseconds", "microseconds"])
def test_times_since_1970_are_certified(penalty, C, is_free, unit):
    solution = solve(problem_of(C, penalty, is_free, unit), tol=1e-4, max_epochs=3000)
    assert solution.status is Status.CERTIFIED


def test_a_matrix_that_is_singular_up_to_rounding_makes_no_endless_step():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 4)) * [1e7, 1.0, 1e3, 1e-2]
    A = np.column_stack([A, A[:, 0] * (1.0 + 1e-9 * rng.normal(size=30)), A[:, 1] + 1e-8 * A[:, 3]])
    model = QuadraticModel(2.0 * A.T @ A, np.ones(6))
    gradient = -2.0 * A.T @ rng.normal(size=30)
    step = model.best_step(np.zeros(6), gradient, SparseNewtonPolicy()).d
    assert np.abs(A @ step).max() < 10.0
    assert gradient @ step + 0.5 * step @ model.H @ step + np.abs(step).sum() < 0.0

"""Columns that use up the digits of float64 and depend on others: the same time twice, order numbers made from a time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maxmargin import SVC, LinearSVC
from maxmargin.data.rows import Rows
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.linear.newton import turned_columns as module
from maxmargin.solvers.linear.newton.frame import framed
from maxmargin.solvers.linear.newton.turned_columns import TurnedColumns, orthogonal_basis, product_in_pairs, turned_from
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status

N = 60


def orders(n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """A time in milliseconds, an order number that is made from it and 22 random bits, an amount, a count and a rate."""
    rng = np.random.default_rng(14)
    time = np.sort(rng.uniform(1.6e12, 1.7e12, n)).round()
    number = (time - 1.288834974657e12) * 2.0**22 + rng.integers(0, 2**22, n)
    amount, count, rate = rng.lognormal(8.0, 1.2, n).round(), 1 + rng.poisson(2, n), rng.choice([0.0, 0.05, 0.1], n)
    score = np.log(amount) + count / 3.0 - 4.0 * rate
    return np.column_stack([number, time, amount, count, rate]), (score + 0.6 * rng.normal(size=n) > np.median(score)).astype(
        int
    )


def server(n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """The same time in nanoseconds and in milliseconds, bytes sent, a share, memory in bytes, and a constant."""
    rng = np.random.default_rng(15)
    time = (1.7e18 + np.sort(rng.uniform(0.0, 6e14, n))).round()
    sent = 4e12 + np.cumsum(rng.lognormal(16.0, 1.5, n)).round()
    share, memory = 100.0 * rng.beta(2.0, 5.0, n), (2.0**36 * rng.beta(5.0, 3.0, n)).round()
    score = share / 20.0 + memory / 2.0**35
    X = np.column_stack([time, time // 10**6, sent, share, memory, np.full(n, 2.0**36)])
    return X, (score + 0.6 * rng.normal(size=n) > np.median(score)).astype(int)


def laboratory(n: int = N) -> tuple[np.ndarray, np.ndarray]:
    """A frequency, a number of particles and a pressure, all far from zero for their spread, a current, and a constant."""
    rng = np.random.default_rng(16)
    Z = rng.normal(size=(n, 4))
    columns = [
        9.192631770e9 + 10.0 * Z[:, 0],
        6.02e23 * (1.0 + 0.01 * Z[:, 1]),
        101_325.0 + 50.0 * Z[:, 2],
        1e-12 * (3.0 + Z[:, 3]),
    ]
    return np.column_stack([*columns, np.full(n, 299_792_458.0)]), (Z.sum(axis=1) + rng.normal(size=n) > 0.0).astype(int)


TABLES = {"orders": orders, "server": server, "laboratory": laboratory}


def problem_of(X: np.ndarray, y: np.ndarray, penalizes_intercept: bool) -> LinearProblem:
    return LinearProblem(Rows(X), np.where(y == 1, 1.0, -1.0), np.ones(len(y)), Hinge(), 1.0, penalizes_intercept)


@pytest.mark.parametrize("C", [1.0, 1e3, 1e6], ids="C={:g}".format)
@pytest.mark.parametrize("penalize_intercept", [True, False], ids=["penalised", "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("name", TABLES)
def test_times_in_two_columns_are_certified(name, loss, penalize_intercept, C):
    X, y = TABLES[name]()
    model = LinearSVC(loss=loss, penalize_intercept=penalize_intercept, C=C, max_iter=500).fit(X, y)
    assert model.status_ is Status.CERTIFIED
    assert model.relative_gap_ <= model.tol


@pytest.mark.parametrize("C", [1.0, 1e3, 1e6], ids="C={:g}".format)
@pytest.mark.parametrize("name", TABLES)
def test_times_in_two_columns_are_certified_with_a_linear_kernel(name, C):
    X, y = TABLES[name]()
    model = SVC(kernel="linear", C=C, max_iter=500).fit(X, y)
    assert model.status_ is Status.CERTIFIED


@pytest.mark.parametrize("penalizes_intercept", [True, False], ids=["penalised", "free"])
@pytest.mark.parametrize("name", ["orders", "server"])
def test_turned_columns_have_the_outputs_of_the_weights_that_they_lead_to(name, penalizes_intercept):
    X, y = TABLES[name]()
    problem = problem_of(X, y, penalizes_intercept)
    turned = next(reduction for reduction in framed(problem, is_careful=True) if isinstance(reduction, TurnedColumns))
    rng = np.random.default_rng(0)
    greatest = np.append(np.abs(turned.problem.rows.matrix).max(axis=0), 0.0)[: problem.n_weights]
    v = rng.normal(size=turned.problem.n_weights) / (1.0 + greatest)
    w, _ = turned.expand(v, np.zeros(N))
    exact = [sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip([*row, 1.0], w, strict=True)) for row in X]
    outputs = turned.problem.margins(v) * problem.signs
    assert max(abs(float(f - Fraction(float(output)))) for f, output in zip(exact, outputs, strict=True)) < 1e-4


def test_a_basis_makes_columns_orthogonal_whatever_their_lengths_are():
    X, _ = orders()
    columns = X[:, :2]
    basis = orthogonal_basis(columns, is_centred=True)
    turned, _ = turned_from(columns, basis, is_centred=True)
    long, short = np.linalg.norm(turned, axis=0)
    assert abs(turned[:, 0] @ turned[:, 1]) < 1e-3 * long * short
    assert short < np.sqrt(N)  # the random bits are less than a millisecond
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-14)


def test_a_product_in_pairs_is_exact_to_twice_the_precision():
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(4, 3)) * 10.0 ** rng.integers(-9, 9, (4, 3)), rng.normal(size=(3, 2))
    first, rest = product_in_pairs(A, B)
    for i in range(4):
        for j in range(2):
            terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(A[i], B[:, j], strict=True)]
            error = Fraction(float(first[i, j])) + Fraction(float(rest[i, j])) - sum(terms)
            assert abs(error) <= Fraction(2) ** -100 * sum(abs(term) for term in terms)


def test_nothing_is_turned_where_no_column_uses_up_the_digits():
    X, y = orders()
    X = np.column_stack([X[:, 1] / 1e12, X[:, 1] / 1e9, X[:, 2:]])
    for penalizes_intercept in (True, False):
        problem = problem_of(X, y, penalizes_intercept)
        for one in (problem, replace(problem, C=np.full(N, 1e-4))):
            assert not any(isinstance(reduction, TurnedColumns) for reduction in framed(one, is_careful=True))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("scale", [1e30, 1e100])
def test_columns_near_the_end_of_float64_end_without_an_error(copies, scale):
    """Two rows, C = 1e-10: products overflowed, and the square of a column that depends on another one became negative."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for d in (2, 3):
            X = scale * np.tile(rng.normal(size=(2, d)), copies)
            problem = LinearProblem.build(X, [1, -1], 1e-10, Hinge(), 1.0, penalizes_intercept=False)
            solution = solve(problem, tol=1e-4)
            assert np.isfinite(solution.w).all()
            assert solution.status.is_certified == (solution.certificate.relative_gap <= 1e-4)


def test_columns_are_turned_once_for_all_problems_of_the_same_rows(monkeypatch):
    calls = []
    monkeypatch.setattr(module, "orthogonal_basis", lambda *arguments: calls.append(1) or orthogonal_basis(*arguments))
    X, y = server()
    first = LinearProblem.build(X, np.where(y == 1, 1, -1), 1.0, Hinge(), 1.0)
    turned, again, other = (
        TurnedColumns.of(replace(first, C=C * first.C), None, is_careful)
        for C, is_careful in ((1.0, True), (1e3, True), (1.0, False))
    )
    assert len(calls) == 1
    assert other is None
    assert np.array_equal(turned.problem.rows.matrix, again.problem.rows.matrix)
    assert TurnedColumns.of(LinearProblem.build(X, first.signs, 1.0, Hinge(), 2.0), None, True) is not None
    assert len(calls) == 2

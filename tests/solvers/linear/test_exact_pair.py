"""Regression whose objective is below the rounding of a residual: the pair of the free samples, and its certificate."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maxmargin import LinearSVR, Status
from maxmargin.certificate.exact_residuals import exact_residuals
from maxmargin.certificate.linear import certify
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.regression_losses import EpsilonInsensitive, Quantile, SquaredEpsilonInsensitive
from maxmargin.solvers.linear.exact_pair import ExactPolicy, can_be_exact, exact_pair
from maxmargin.solving.driver import solve

LOSSES = [EpsilonInsensitive(0.0), EpsilonInsensitive(0.1), SquaredEpsilonInsensitive(0.1), Quantile(0.3)]
TABLES = {
    "one row of milliseconds": ([[1.6123456789e12, 1.61234567e12, 0.7, 3.0]], [1.25]),
    "one row with a salary": ([[51_300.0, 1978.0, 1.0]], [0.3]),
    "one row of 1e12 beside a boolean": ([[-1.234e12, 1.0, 0.0]], [7.0]),
    "two rows of unix times": ([[1.6e9 + 12.0, 3.5, 1.0], [1.7e9 + 5.0, 2.5, 4.0]], [1.0, 2.0]),
    "three rows of prices beside rates": (
        [[312_000.17, 0.031, 0.5, 2.0], [87_250.99, 0.022, 0.25, 7.0], [1_250_000.0, 0.04, 0.75, 1.0]],
        [0.1, 0.9, -0.4],
    ),
}


def exact(problem: LinearProblem, w: np.ndarray, alpha: np.ndarray) -> Fraction:
    """The gap with epsilon-insensitive loss and a penalised intercept in rational arithmetic, from its definition."""
    rows = [[*map(Fraction, row), Fraction(1)] for row in problem.rows.dense().tolist()]
    weights, dual = [Fraction(v) for v in w], [Fraction(a) for a in alpha]
    e = Fraction(problem.box.e)
    of_alpha = [sum(a * row[j] for a, row in zip(dual, rows, strict=True)) for j in range(len(weights))]
    outputs = [sum(v * x for v, x in zip(weights, row, strict=True)) for row in rows]
    residuals = [Fraction(t) - output for t, output in zip(problem.y, outputs, strict=True)]
    loss = sum(Fraction(c) * max(Fraction(0), abs(r) - e) for c, r in zip(problem.C, residuals, strict=True))
    value = sum(Fraction(t) * a - e * abs(a) for t, a in zip(problem.y, dual, strict=True))
    return sum(v * v for v in weights) / 2 + loss - value + sum(v * v for v in of_alpha) / 2


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e6], ids="C={:g}".format)
@pytest.mark.parametrize("is_penalised", [True, False], ids=["penalised", "free"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("name", TABLES)
def test_a_few_raw_rows_are_certified_although_the_objective_is_below_the_rounding_of_a_target(name, loss, is_penalised, C):
    X, y = map(np.array, TABLES[name])
    solution = solve(LinearProblem.build(X, y, C, loss, 1.0, is_penalised), max_epochs=500)
    assert solution.status is Status.CERTIFIED


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("name", TABLES)
def test_the_certificate_of_an_exact_pair_bounds_the_gap_of_rational_arithmetic(name, epsilon):
    X, y = map(np.array, TABLES[name])
    problem = LinearProblem.build(X, y, 1e6, EpsilonInsensitive(epsilon), 1.0)
    solution = solve(problem)
    certificate, gap = certify(problem, solution.w, solution.alpha), exact(problem, solution.w, solution.alpha)
    assert abs(gap - Fraction(certificate.gap)) <= Fraction(certificate.rounding_error)


def test_a_residual_is_the_rational_one_rounded_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 5)) * [1e12, 1.0, 1e-9, 1e6, 1e18]
    problem = LinearProblem.build(X, rng.normal(size=20), 1.0, EpsilonInsensitive(), 2.5)
    w = rng.normal(size=6) / [1e12, 1.0, 1e-9, 1e6, 1e18, 1.0]
    found = exact_residuals(problem, w)
    for i in range(20):
        total = Fraction(problem.y[i]) - Fraction(w[-1]) * Fraction(2.5)
        assert found[i] == float(total - sum(Fraction(v) * Fraction(x) for v, x in zip(w, X[i], strict=False)))


@pytest.mark.parametrize("is_penalised", [True, False], ids=["penalised", "free"])
def test_an_alpha_with_the_right_free_samples_leads_to_the_optimum(is_penalised):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    problem = LinearProblem.build(X, rng.normal(size=30), 1.0, EpsilonInsensitive(0.1), 1.0, is_penalised)
    solution = solve(problem, tol=1e-12)
    free = (solution.alpha != 0.0) & (np.abs(solution.alpha) < 1.0)
    pair = exact_pair(problem, np.where(free, 0.5 * solution.alpha, solution.alpha))
    assert pair is not None
    assert certify(problem, *pair).relative_gap < 1e-13
    assert pair.alpha[~free] == pytest.approx(solution.alpha[~free], abs=1e-15)


def test_classes_and_many_elements_and_many_free_samples_are_left_alone():
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 7.0
    problem = LinearProblem.build(X, y, 1.0, SquaredEpsilonInsensitive(), 1.0)
    assert can_be_exact(problem)
    assert not can_be_exact(problem, ExactPolicy(most_elements=10))
    assert not can_be_exact(LinearProblem.build(X, np.where(y > 3.0, 1, -1), 1.0))
    assert exact_pair(problem, np.ones(40), ExactPolicy(most_products=10.0)) is None
    assert exact_pair(replace(problem, loss=EpsilonInsensitive(0.1)), np.zeros(40)) is None


def test_no_w_of_float64_is_good_enough_for_nanoseconds_beside_units_and_the_fit_says_so():
    """The last digit of w . x is 1e-16 beside x = 1.6e18. To mend it, weights of unit columns must be 1e-17, and w is 1e-18."""
    X, y = np.array([[1.6123456789123456e18, 0.7, 1.0]]), np.array([1.3])
    with pytest.warns(UserWarning, match="Column 0"):
        model = LinearSVR(C=1.0).fit(X, y)
    assert model.status_ is Status.PRECISION_LIMIT


def test_equal_rows_with_a_free_intercept_alone_are_solved_to_rounding():
    """All samples are free and w is zero: there is no objective of which the rounding of w may cost a share."""
    X, y = np.array([[0.0, 0.75], [0.0, 0.75]]), np.array([-2.5, 2.75])
    loss = SquaredEpsilonInsensitive(0.25)
    problem = LinearProblem.build(X, y, np.array([2.0, 0.5]), loss, 0.5, penalizes_intercept=False)
    solution = solve(problem, tol=0.0, max_epochs=200)
    assert solution.certificate.gap <= 1e-14 * solution.certificate.primal

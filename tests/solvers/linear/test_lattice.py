"""Whole multiples of digits, and what they mend."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import LinearSVR, Status
from maxmargin.certificate.rounding import exact_sums
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.problem.regression_losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from maxmargin.solvers.linear.digit_mending import DigitMending, DigitPolicy, can_mend_digits, mended_in_digits
from maxmargin.solvers.linear.lattice import nearest_multiples
from maxmargin.solving.driver import solve


def milliseconds(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    time = np.round(1.6e12 + 1e11 * rng.random(n))
    X = np.column_stack([time, time + np.round(rng.exponential(3.6e6, n)), rng.normal(size=n), rng.integers(0, 5, n)])
    return X, (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=4) + 0.3 * rng.normal(size=n)


def test_whole_multiples_of_long_vectors_reach_a_vector_that_is_far_shorter_than_all_of_them():
    """Four equations and ten vectors of length 1e10: multiples below 2^24 leave less than 100."""
    rng = np.random.default_rng(0)
    steps, wanted = 1e10 * rng.normal(size=(10, 4)), 1e10 * rng.normal(size=4)
    found = nearest_multiples(steps, wanted, np.full(10, 2.0**-20))
    assert np.array_equal(found, np.round(found))
    assert np.abs(found).max() < 2.0**24
    assert np.abs(exact_sums(np.ascontiguousarray(steps.T), -found, terms=[wanted])).max() < 100.0


def test_multiples_of_three_and_five_make_one():
    found = nearest_multiples(np.array([[3.0], [5.0]]), np.array([1.0]), np.full(2, 1e-3))
    assert found @ [3.0, 5.0] == 1.0


@pytest.mark.parametrize("is_penalised", [True, False], ids=["penalised", "free"])
@pytest.mark.parametrize("loss", [EpsilonInsensitive(0.0), SquaredEpsilonInsensitive(0.1)], ids=str)
def test_digits_of_several_samples_bring_w_of_alpha_to_w_where_a_digit_of_one_moves_it_by_a_hundred(loss, is_penalised):
    X, y = milliseconds(30)
    problem = LinearProblem.build(X, y, 1e6, loss, 1.0, is_penalised)
    solution = solve(problem, tol=1e-3)
    rough = np.clip(solution.alpha * (1.0 + 1e-14 * np.random.default_rng(1).normal(size=30)), problem.box.L, problem.box.U)
    mending = DigitMending(problem, solution.w)
    found = mended_in_digits(problem, solution.w, rough)
    assert problem.is_feasible(found)
    assert mending.distance(rough) > 1e2
    assert mending.distance(found) < 1.0


@pytest.mark.parametrize("C", [1e-2, 1e6], ids="C={:g}".format)
@pytest.mark.parametrize("is_penalised", [True, False], ids=["penalised", "free"])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive", "quantile"])
@pytest.mark.parametrize("n", [8, 30])
def test_a_regression_on_milliseconds_is_certified_although_the_last_digit_of_alpha_costs_more_than_tol(
    n, loss, is_penalised, C
):
    X, y = milliseconds(n, seed=n)
    model = LinearSVR(loss=loss, penalize_intercept=is_penalised, C=C, epsilon=0.1, quantile=0.3, max_iter=1000).fit(X, y)
    assert model.status_ is Status.CERTIFIED


def test_classes_and_many_weights_are_not_mended_in_digits():
    X, y = milliseconds(30)
    problem = LinearProblem.build(X, y, 1.0, EpsilonInsensitive(), 1.0)
    assert can_mend_digits(problem)
    assert not can_mend_digits(problem, DigitPolicy(most_weights=4))
    assert not can_mend_digits(LinearProblem.build(X, np.where(y > 0.0, 1, -1), 1.0, Hinge(), 1.0))

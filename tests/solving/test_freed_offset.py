"""A penalised intercept that rounding keeps from its optimum, and the problem with a free one that is solved in its place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from maxmargin import LinearProblem, LinearSVR, Status, certify, solve
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solving.driver import Limits
from maxmargin.solving.freed_offset import Carrier, freed, hides_offset, judged, may_free, penalised
from maxmargin.solving.policy import FreeingPolicy
from tests.raw_catalogue import beside_a_sensor, table


def milliseconds(C: float = 1e6, n: int = 1500) -> LinearProblem:
    X, y = table("milliseconds", n)
    return LinearProblem.build(X, np.where(y == 2, 1, -1), C, Hinge(), 1.0)


def test_hinge_loss_on_milliseconds_since_1970_is_certified_with_a_large_cost():
    problem = milliseconds()
    solution = solve(problem, tol=1e-4)
    assert solution.status is Status.CERTIFIED
    assert certify(problem, solution.w, solution.alpha).meets(1e-4)
    assert solution.offset_bound == 0.0
    assert solution.b == pytest.approx(solution.w[-1])


def test_a_free_answer_that_is_not_within_tol_changes_nothing_but_the_effort():
    problem = milliseconds(1e-3, 100)
    first, free = solve(problem, tol=1e-3), solve(freed(problem), tol=1e-6)
    kept = judged(problem, first, free, 1e-12)
    assert kept.certificate == first.certificate
    assert kept.status is first.status
    assert kept.steps == first.steps + free.steps
    assert len(kept.trace) == len(first.trace) + len(free.trace)


def test_it_is_tried_where_the_default_solver_is_stuck_and_the_penalty_is_small():
    problem = milliseconds(1e6, 60)
    stuck = replace(solve(problem, tol=1e-4), status=Status.PRECISION_LIMIT)
    limits, share = Limits(1e-4), FreeingPolicy(most_square=0.0)
    assert may_free(problem, Auto(), stuck, limits, share)
    assert not may_free(problem, Auto(), replace(stuck, status=Status.TIME_LIMIT), limits, share)
    assert not may_free(problem, DCD(), stuck, limits, share)
    assert not may_free(freed(problem), Auto(), stuck, limits, share)
    assert not may_free(problem, Auto(), stuck, Limits(0.0), share)
    assert not may_free(problem, Auto(), stuck, Limits(1e-4, max_epochs=5.0), share)
    heavy = replace(stuck, w=np.append(stuck.w[:-1], math.sqrt(stuck.certificate.scale)))
    assert not may_free(problem, Auto(), heavy, limits, share)


def nearly_constant(n: int = 400, offset: float = 1.5e10) -> tuple[np.ndarray, np.ndarray]:
    """A column of 1.5e10 whose values differ by their rounding and little more, and targets far from zero."""
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.normal(size=(n, 3)), offset + 1e-4 * rng.normal(size=n), np.round(rng.lognormal(10, 0.5, n), -2)])
    return X, 1e6 + X[:, 0] - 2.0 * X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scaling", [1.0, 7.0])
def test_weights_that_carry_the_intercept_have_its_outputs_up_to_their_spread(form, scaling):
    X, y = nearly_constant(60, 30.0)
    problem = LinearProblem.build(form(X), np.sign(y - y.mean()), 0.3, Hinge(), scaling)
    carrier, w = Carrier.of(problem), np.array([1.0, -2.0, 0.5, 0.01, 1e-4, 0.7])
    wide = np.column_stack([X, np.full(60, scaling)])
    means, b = wide.mean(axis=0), 0.7 * scaling
    assert carrier.weights @ means == pytest.approx(1.0)
    expected = X @ w[:-1] + b + b * (wide - means) @ carrier.weights
    np.testing.assert_allclose(wide @ carrier.carried(w, scaling), expected, rtol=1e-10)
    others = carrier.weights + 1e-3 * np.array([1.0, 0.0, 0.0, 0.0, 0.0, -means[0] / scaling])
    prices = 1.0 + np.append(X.var(axis=0), 0.0) * 0.3 * 60
    assert prices @ carrier.weights**2 < prices @ others**2


@pytest.mark.parametrize(("n", "seed"), [(160, 1), (160, 2), (400, 0), (400, 1)])
def test_regression_beside_a_nearly_constant_column_is_certified(n, seed):
    """Before, these ended after two to five seconds with a relative gap of up to one. The free answer was there, and its
    intercept too dear."""
    X, y = beside_a_sensor(n, seed)
    assert LinearSVR(C=100.0).fit(X, y).status_ is Status.CERTIFIED


def test_the_free_problem_comes_first_where_a_nearly_constant_column_carries_the_intercept_and_nowhere_else():
    X, y = nearly_constant()
    t, policy = np.sign(y - y.mean()), FreeingPolicy()
    problem, plain = (LinearProblem.build(each, t, 1.0, Hinge(), 1.0) for each in (X, X[:, :3]))
    assert hides_offset(problem, Auto(), Limits(1e-4), policy)
    assert not hides_offset(plain, Auto(), Limits(1e-4), policy)
    assert not hides_offset(problem, DCD(), Limits(1e-4), policy)
    assert not hides_offset(freed(problem), Auto(), Limits(1e-4), policy)


def test_an_answer_whose_intercept_the_columns_carry_is_judged_with_the_weights_that_it_returns():
    X, y = nearly_constant()
    problem = LinearProblem.build(X, np.sign(y - y.mean()), 1.0, Hinge(), 1.0)
    answer = penalised(problem, solve(freed(problem), tol=1e-6), 1e-3)
    assert answer is not None
    assert certify(problem, answer.w, answer.alpha).meets(1e-3)
    assert answer.b == answer.w[-1]

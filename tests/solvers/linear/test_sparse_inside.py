"""The interior-point method for L1 and elastic-net penalties: separable labels, large C, and raw columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from maxmargin.certificate.linear import judge_of
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import SquaredHinge
from maxmargin.problem.penalties import L1, ElasticNet
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.sparse_newton.inside import solve_inside
from maxmargin.solvers.linear.sparse_newton.policy import InsidePolicy, SparseNewtonPolicy
from maxmargin.solvers.linear.sparse_newton.sparse_newton import SparseNewton
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status

PENALTIES = pytest.mark.parametrize("penalty", [L1(), ElasticNet(0.5)], ids=repr)
OFFSETS = pytest.mark.parametrize("is_free", [False, True], ids=["penalised", "free"])


def raw(columns: str, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Amounts beside rates; with times, and numbers whose spread is a hundred-millionth of them. One sample in seven is of the
    class that is asked for."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.lognormal(3.0, 1.5, (n, 14)), rng.normal(size=(n, 4)) * 1e-2, rng.integers(1900, 2000, n)])
    if columns == "times":
        X = np.column_stack([X[:, :4], 1.7e12 + rng.integers(0, 10**9, n)])
    if columns == "numbers":
        X = np.column_stack([X[:, :2], 7e9 + rng.permutation(n), 4e8 + 3.0 * np.arange(n)])
    score = np.log(X[:, 0]) + 0.5 * rng.normal(size=n)
    return X, np.where(score > np.quantile(score, 6 / 7), 1, -1)


def problem_of(columns: str, C: float, penalty: object, is_free: bool) -> LinearProblem:
    X, y = raw(columns)
    return LinearProblem.build(X, y, C, SquaredHinge(), 1.0, not is_free, penalty=penalty)


@OFFSETS
@PENALTIES
@pytest.mark.parametrize("C", [1e3, 1e6])
@pytest.mark.parametrize("columns", ["amounts", "times", "numbers"])
def test_small_classes_of_raw_columns_are_certified_in_few_steps(columns, C, penalty, is_free):
    solution = solve(problem_of(columns, C, penalty, is_free), tol=1e-4, max_epochs=1000)
    assert solution.status is Status.CERTIFIED


@OFFSETS
@PENALTIES
def test_the_last_point_has_the_gap_that_was_asked_for(penalty, is_free):
    problem = problem_of("amounts", 1e3, penalty, is_free)
    points, steps = solve_inside(problem, 1e-8, InsidePolicy())
    assert steps <= 60
    for point in points:
        alpha = point.alpha if not is_free else problem.balanced(point.alpha)
        assert judge_of(problem).certify(point.w, alpha).relative_gap <= 1e-6


@OFFSETS
@PENALTIES
def test_the_optimum_of_the_face_has_the_zeros_of_newtons_method(penalty, is_free):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 10))
    y = np.where(X[:, 0] + 0.3 * X[:, 1] + 0.3 * rng.normal(size=80) > 0, 1, -1)
    problem = LinearProblem.build(X, y, 0.1, SquaredHinge(), 1.0, not is_free, penalty=penalty)
    (face, _), _ = solve_inside(problem, 1e-8, InsidePolicy())
    newton = solve(problem, SparseNewton(SparseNewtonPolicy(inside_after=10**9)), tol=1e-12)
    assert 0 < np.count_nonzero(newton.w) < problem.n_weights
    assert np.array_equal(face.w != 0.0, newton.w != 0.0)
    assert np.allclose(face.w, newton.w, rtol=1e-5, atol=1e-8)


@OFFSETS
def test_samples_without_a_cost_change_no_weight(is_free):
    problem = problem_of("amounts", 10.0, L1(), is_free)
    costs = np.where(np.arange(problem.n_samples) % 5 == 0, 0.0, 10.0)
    with_zeros = replace(problem, C=costs)
    X, y = raw("amounts")
    without = LinearProblem.build(X[costs > 0], y[costs > 0], 10.0, SquaredHinge(), 1.0, not is_free, penalty=L1())
    (face, _), _ = solve_inside(with_zeros, 1e-8, InsidePolicy())
    (fewer, _), _ = solve_inside(without, 1e-8, InsidePolicy())
    assert np.all(face.alpha[costs == 0.0] == 0.0)
    assert with_zeros.primal(face.w) == pytest.approx(without.primal(fewer.w), rel=1e-6)


def test_a_problem_that_newtons_method_solves_in_few_steps_never_goes_inside():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 5))
    y = np.where(X[:, 0] + rng.normal(size=200) > 0, 1, -1)
    problem, solver = LinearProblem.build(X, y, 1.0, SquaredHinge(), 1.0, penalty=L1()), SparseNewton()
    state = solver.init(problem, None, 0)
    while not state.looks_done:
        solver.advance(problem, state, Budget(1, 1e-4))
    assert not state.has_been_inside


def test_points_that_are_refused_are_offered_again_with_a_mended_alpha():
    problem = problem_of("times", 1e3, L1(), False)
    solver = SparseNewton()
    state = solver.init(problem, None, 0)
    state.target = 1e-4
    state.go_inside()
    assert [offer.is_mended for offer in state.offers] == [False, True, True]
    gaps = [state.gap / state.primal]
    while state.offers:
        state.take_offer()
        gaps.append(state.gap / state.primal)
    assert min(gaps[2:]) <= 1e-6


@OFFSETS
@PENALTIES
@pytest.mark.parametrize("unit", [0.0, 1e-300, 1.0, 1e300])
def test_columns_of_any_size_and_one_class_alone_give_points_and_no_error(unit, penalty, is_free):
    problem = problem_of("times", 10.0, penalty, is_free)
    scaled = replace(problem, rows=type(problem.rows)(problem.rows.dense() / 1.8e12 * unit))
    for one in (scaled, replace(scaled, C=np.where(problem.signs > 0.0, 10.0, 0.0))):
        points, _ = solve_inside(one, 1e-8, InsidePolicy())
        assert len(points) == 2

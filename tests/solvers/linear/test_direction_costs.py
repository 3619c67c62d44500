"""Which directions are Newton's: by the matrix or by products, and the way from one to the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.newton.conjugate_gradients import ProductHessian
from maxmargin.solvers.linear.newton.direction_costs import DirectionCosts, begins_with_products
from maxmargin.solvers.linear.newton.hessian import FreeHessian
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.policy import DirectionPolicy, NewtonPolicy
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.solvers.linear.test_conjugate_gradients import one_hot

MANY, FEW = (80,) * 12, (4,) * 12


def problem_of(sizes: tuple[int, ...], loss: object = None, numbers: np.ndarray | None = None) -> LinearProblem:
    X, y = one_hot(20_000, sizes)
    if numbers is not None:
        X = sparse.csr_array(sparse.hstack([X, sparse.csr_array(numbers)]))
    return LinearProblem.build(X, y, 10.0, loss or SquaredHinge(), 1.0)


def test_the_costs_are_those_of_the_rows():
    policy = DirectionPolicy(1.0, 0.5, 2.0, 3.0, 7.0)
    X = sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]]))
    problem = LinearProblem.build(X, [1, -1, 1], 1.0, SquaredHinge(), 0.0)
    costs, d = DirectionCosts.of(problem, replace(NewtonPolicy(), directions=policy)), problem.n_weights
    assert costs == DirectionCosts((1.0 + 0.5 * d) * (3 + 1 + 6), 2.0 * d**3 + 3.0 * d**2, 7.0 * 6)
    assert costs.products_prepaid(2) == (costs.build + 2 * costs.factor) / costs.product
    dense = LinearProblem.build(X.toarray(), [1, -1, 1], 1.0, SquaredHinge(), 0.0)
    assert dense.rows.outer_elements == 18.0


def test_products_are_for_a_smooth_loss_on_many_short_rows_without_large_numbers():
    numbers = np.random.default_rng(0).normal(size=(20_000, 2))
    assert begins_with_products(problem_of(MANY))
    assert begins_with_products(problem_of((150,) * 12, numbers=numbers))
    assert not begins_with_products(problem_of((150,) * 12, numbers=1e9 * numbers))
    assert not begins_with_products(problem_of(MANY, Hinge()))
    assert not begins_with_products(problem_of(FEW))


@pytest.mark.parametrize("sizes", [MANY, FEW])
def test_one_hot_columns_of_any_number_take_few_newton_steps_from_the_first_on(sizes):
    problem = problem_of(sizes)
    solution = solve(problem, tol=1e-8)
    assert solution.status is Status.CERTIFIED
    assert {step.solver for step in solution.trace} == {"newton"}
    assert solution.epochs <= 8


def test_uneven_rows_begin_with_coordinates():
    problem = problem_of(FEW)
    X = problem.rows.matrix.copy()
    X.data[:: len(FEW)] = 0.0
    X.eliminate_zeros()
    X = sparse.csr_array(sparse.vstack([X, problem.rows.matrix]))
    uneven = LinearProblem.build(X, np.tile(problem.signs, 2), 10.0, SquaredHinge(), 1.0)
    state = Auto().init(uneven, None, 0)
    assert state.stage.solver == "dcd"


def test_products_that_take_too_long_give_way_to_the_matrix_and_the_answer_is_the_same():
    problem = problem_of(MANY)
    impatient = Newton(policy=replace(NewtonPolicy(), directions=replace(DirectionPolicy(), patience=1e-3)))
    state = impatient.init(problem, None, 0)
    assert isinstance(state.hessian, ProductHessian)
    assert not state.hessian.is_dearer_than_matrix
    for _ in range(3):
        list(state.turn(1e-10))
    assert isinstance(state.hessian, FreeHessian)
    assert state.matrix_step == 2
    impatients, patients = (solve(problem, solver, tol=1e-10) for solver in (impatient, Newton()))
    assert impatients.status is patients.status is Status.CERTIFIED
    assert impatients.w == pytest.approx(patients.w, abs=1e-4)
    assert impatients.certificate.primal == pytest.approx(patients.certificate.primal, rel=1e-9)

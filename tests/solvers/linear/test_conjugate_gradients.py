"""Newton directions by conjugate gradients: they solve the Newton system, and one-hot columns need few of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.data.rows import CsrRows, OneValueRows
from maxmargin.data.threads import Crew
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.solvers.linear.newton.conjugate_gradients import ProductHessian
from maxmargin.solvers.linear.newton.hessian import Regulariser
from maxmargin.solvers.linear.newton.passes import CompiledPasses, curve_of
from maxmargin.solvers.linear.newton.policy import HessianPolicy, NewtonPolicy
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import labelled
from tests.solvers.linear.test_newton import columns, from_scratch


def one_hot(n: int, sizes: tuple[int, ...], seed: int = 0) -> tuple[sparse.csr_array, np.ndarray]:
    """Rows with one value of each variable, and labels that depend on all of them."""
    rng = np.random.default_rng(seed)
    firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    indices = np.column_stack([first + rng.integers(0, size, n) for first, size in zip(firsts, sizes, strict=True)])
    pointers = np.arange(0, indices.size + 1, len(sizes))
    X = sparse.csr_array((np.ones(indices.size), indices.reshape(-1), pointers), shape=(n, sum(sizes)))
    return X, np.where(X @ rng.normal(size=sum(sizes)) + rng.normal(size=n) > 0.0, 1, -1)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scaling", [0.0, 2.0])
def test_the_direction_solves_the_newton_system_as_closely_as_the_gradient_asks(layout, scaling):
    X, y = labelled(200, 12, 1.0, 0)
    problem = LinearProblem.build(layout(X), y, np.linspace(0.5, 2.0, 200), Hinge(), scaling)
    hessian, free = (
        ProductHessian(problem, np.ascontiguousarray(problem.C), Crew(problem.rows.n_stored), NewtonPolicy()),
        np.arange(200) % 3 == 0,
    )
    hessian.rebuild(free)
    regulariser, gradient = Regulariser(problem.regulariser), np.random.default_rng(0).normal(size=13)
    assert hessian._diagonal == pytest.approx(np.diag(from_scratch(problem, problem.C, free)))
    exact = np.linalg.solve(np.diag(problem.regulariser) + 2.5 * from_scratch(problem, problem.C, free), -gradient)
    for gradients in (1.0, 1e-14):  # relative to the first, a small gradient asks for a small residual
        direction = hessian.solve(2.5, regulariser, gradients * gradient, free)
        assert direction is not None
        assert direction @ gradient < 0.0
    assert direction == pytest.approx(1e-14 * exact, rel=1e-4, abs=1e-19)


@pytest.mark.parametrize(("value", "kind"), [(1.0, OneValueRows), (-0.5, OneValueRows), (None, CsrRows)])
def test_elements_of_one_value_need_no_memory_and_change_no_product(value, kind):
    policy = NewtonPolicy(matrix=HessianPolicy(most_matrix_weights=10))
    X, y = one_hot(300, (90, 7, 20))
    X.data[::4], X.data[30:33] = 0.0, 0.0
    X.eliminate_zeros()  # rows of three elements, of two, and of none
    X.data[:] = np.linspace(0.5, 1.5, X.nnz) if value is None else value
    problem = LinearProblem.build(X, y, np.linspace(0.5, 2.0, 300), SquaredHinge(), 1.5)
    passes, free = CompiledPasses(problem, curve_of(problem), policy), np.arange(300) % 3 > 0
    hessian, margins = passes.hessian, np.empty(300)
    assert isinstance(hessian.rows, kind)
    hessian.rebuild(free)
    v, S = np.random.default_rng(0).normal(size=118), from_scratch(problem, problem.C, free)
    assert hessian._times(v) == pytest.approx(S @ v, abs=1e-9)
    passes.products(v, margins)
    assert margins == pytest.approx(y * (X @ v[:-1] + 1.5 * v[-1]))


def test_the_diagonal_follows_the_free_samples():
    X, y = one_hot(300, (90, 7, 20))
    problem = LinearProblem.build(X, y, np.linspace(0.5, 2.0, 300), SquaredHinge())
    hessian, free = ProductHessian(problem, np.ascontiguousarray(problem.C), Crew(1), NewtonPolicy()), np.arange(300) % 3 > 0
    hessian.rebuild(free)
    hessian.note(np.array([0, ~1, 3, ~2]))
    free[[0, 1, 3, 2]] = True, False, True, False
    hessian.update(free, int(free.sum()))
    assert hessian._diagonal == pytest.approx(np.diag(from_scratch(problem, problem.C, free)), abs=1e-12)


def test_a_direction_ends_where_it_would_bring_the_gap_to_what_is_aimed_at():
    X, y = one_hot(2000, (900, 70, 20))
    problem = LinearProblem.build(X, y, 10.0, SquaredHinge(), 1.0)
    hessian, free = ProductHessian(problem, np.ascontiguousarray(problem.C), Crew(1), NewtonPolicy()), np.ones(2000, bool)
    hessian.rebuild(free)
    regulariser, gradient = Regulariser(problem.regulariser), -problem.weights(np.full(2000, 20.0))
    S = from_scratch(problem, problem.C, free)
    gaps = []
    for aim in (0.0, 0.2 * float(gradient @ gradient)):
        hessian.aim(aim)
        direction = hessian.solve(2.0, regulariser, gradient, free)
        gaps.append(0.5 * float(np.sum(np.square(gradient + direction * problem.regulariser + 2.0 * S @ direction))))
    assert gaps[0] < gaps[1] <= aim


def test_a_direction_that_overflows_is_none():
    problem = LinearProblem.build(np.full((4, 2), 1e200), [1, -1, 1, -1])
    hessian = ProductHessian(problem, np.ones(4), Crew(8), NewtonPolicy())
    with np.errstate(all="ignore"):
        hessian.rebuild(np.ones(4, bool))
        assert hessian.solve(1.0, Regulariser(problem.regulariser), np.full(3, 1e200), np.ones(4, bool)) is None


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_one_hot_columns_with_a_smooth_loss_take_few_newton_steps_without_a_matrix(C):
    X, y = one_hot(6000, (1500, 500, 100, 20))
    solution = solve(LinearProblem.build(X, y, C, SquaredHinge(), 1.0), tol=1e-8)
    assert solution.status is Status.CERTIFIED
    assert solution.trace[-1].solver == "newton"
    assert "smooth" in solution.trace[-1].reason
    assert solution.epochs <= 30


def test_a_free_intercept_needs_no_matrix_of_the_size_of_w_squared():
    X, y = one_hot(3000, (2000, 500, 20))
    problem = LinearProblem.build(X, y, 1.0, Hinge(), 1.0, penalizes_intercept=False)
    solution = solve(problem, tol=1e-4)
    assert solution.status is Status.CERTIFIED
    assert columns(problem).shape[1] > 2000


def test_a_loss_with_kinks_takes_few_newton_steps_on_one_hot_columns():
    """Directions are not aimed at the gap that is asked for: it is not the gap of an inner problem."""
    X, y = one_hot(10_000, (900, 900, 900), seed=1)
    problem = LinearProblem.build(X, y, 100.0, Hinge())
    solution = solve(problem, "newton", tol=1e-3)
    assert solution.status is Status.CERTIFIED
    assert solution.epochs <= 120

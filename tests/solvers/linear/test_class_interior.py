"""The interior-point method for Crammer and Singer's machine, in columns as they come."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate.crammer_singer import certify_crammer_singer
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.solvers.linear import class_interior
from maxmargin.solvers.linear.class_frame import ClassFrame, Normal, coefficients, fits_inside, has_uneven_columns
from maxmargin.solvers.linear.class_interior import ClassInterior
from maxmargin.solvers.linear.class_mending import ClassMending
from maxmargin.solvers.linear.class_policy import ClassInteriorPolicy
from maxmargin.solvers.linear.crammer_singer import SequentialDual
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status

POLICY = ClassInteriorPolicy()


def raw(n: int = 150, C: float = 1.0, k: int = 5, layout=np.asarray, scaling: float = 1.0) -> CrammerSingerProblem:
    """Milliseconds since 1970, an order number, a salary, a rate and two answers."""
    rng = np.random.default_rng(0)
    time, salary, rate = rng.integers(0, 10**9, n), rng.lognormal(10, 1, n), 0.01 * rng.normal(size=n)
    X = np.column_stack([1.7e12 + time, 5e9 + rng.permutation(n), salary, rate, rng.integers(0, 2, (n, 2))])
    score = np.log(salary) + 100.0 * rate + time / 5e8 + 0.5 * rng.normal(size=n)
    y = np.searchsorted(np.quantile(score, np.linspace(0, 1, k + 1)[1:-1]), score)
    return CrammerSingerProblem.build(layout(X), y, C, scaling)


def even(n: int = 200) -> CrammerSingerProblem:
    rng = np.random.default_rng(0)
    return CrammerSingerProblem.build(rng.normal(size=(n, 4)), np.arange(n) % 3, 1.0, 1.0)


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("n", [60, 800])
@pytest.mark.parametrize("scaling", [0.0, 1.0])
def test_raw_columns_are_certified(C, n, scaling):
    solution = solve(raw(n, C, scaling=scaling), tol=1e-4)
    assert solution.status is Status.CERTIFIED
    assert solution.trace[-1].solver == "class-interior-point"


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6, 1e-8])
def test_it_reaches_what_is_asked(tol):
    solution = solve(raw(), tol=tol)
    assert solution.status is Status.CERTIFIED
    assert solution.certificate.relative_gap <= tol


@pytest.mark.parametrize("C", [1e6, 1e8, 1e10])
def test_labels_that_can_be_separated_have_the_answer_of_a_smaller_C(C):
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.lognormal(8, 1, (24, 12)), rng.integers(0, 65536, (24, 2)), rng.normal(size=(24, 4))])
    problem = CrammerSingerProblem.build(X, np.arange(24) % 6, C, 1.0)
    solution, other = solve(problem, tol=1e-4), solve(replace(problem, C=problem.C * (1e3 / C)), tol=1e-4)
    assert solution.status is Status.CERTIFIED
    assert solution.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-4)


@pytest.mark.parametrize(("margin", "is_stretched"), [(1.0 - 1e-6, True), (0.9, False), (1.1, False)])
def test_margins_just_below_one_are_brought_to_a_little_more_than_one(margin, is_stretched):
    problem = CrammerSingerProblem.build(np.eye(6), np.arange(6) % 3)
    inside = ClassInterior(problem, POLICY)
    inside.V = np.zeros((6, 3))
    inside.V[problem.own] = margin
    stretch = inside._stretch(1e-4)
    assert (stretch > 1.0) == is_stretched
    assert not is_stretched or 1.0 < margin * stretch < 1.0 + 1e-6


def test_a_sparse_matrix_has_the_answer_of_a_dense_one():
    dense, other = (solve(raw(layout=layout), tol=1e-6) for layout in (np.asarray, sparse.csr_array))
    assert other.status is Status.CERTIFIED
    assert other.certificate.primal == pytest.approx(dense.certificate.primal, rel=2e-6)


def test_samples_without_cost_change_nothing():
    problem = raw(100)
    C = np.where(np.arange(100) % 3 == 0, 0.0, problem.C)
    kept = CrammerSingerProblem.build(problem.rows.matrix[C > 0.0], problem.y[C > 0.0], 1.0, 1.0)
    solution, other = solve(replace(problem, C=C), tol=1e-6), solve(kept, tol=1e-6)
    assert solution.status is Status.CERTIFIED
    assert solution.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-6)
    assert not solution.alpha.reshape(100, -1)[C == 0.0].any()


def test_only_uneven_columns_and_small_matrices_begin_with_it():
    assert has_uneven_columns(raw(), POLICY)
    assert not has_uneven_columns(even(), POLICY)
    assert fits_inside(raw(), POLICY)
    assert not fits_inside(raw(), replace(POLICY, most_work=1.0))
    assert not fits_inside(raw(), replace(POLICY, greatest=1e11))
    assert not has_uneven_columns(CrammerSingerProblem.build(np.zeros((4, 2)), np.arange(4) % 3), POLICY)


def test_it_takes_over_where_newtons_method_makes_many_steps():
    solver = SequentialDual(interior_policy=replace(POLICY, newton_steps=1))
    solution = solve(even(600), solver, tol=1e-9)
    assert solution.status is Status.CERTIFIED
    assert {row.solver for row in solution.trace} >= {"class-interior-point"}


def test_where_it_fails_the_dual_descent_goes_on(monkeypatch):
    def step(inside, target):
        inside.has_failed = True
        return False

    monkeypatch.setattr(ClassInterior, "step", step)
    problem = even()
    solution = solve(problem, SequentialDual(interior_policy=replace(POLICY, spread=0.0)), tol=1e-4)
    assert solution.status is Status.CERTIFIED
    assert solution.trace[-1].solver != "class-interior-point"


def test_a_matrix_without_a_factor_ends_it_at_the_last_point(monkeypatch):
    def no_factor(*arguments):
        raise class_interior.LinAlgError("none")

    inside = ClassInterior(raw(), POLICY)
    inside.step(1e-4)
    monkeypatch.setattr(class_interior, "Normal", no_factor)
    V, a = inside.V, inside.a
    assert not inside.step(1e-4)
    assert inside.has_failed
    assert inside.V is V
    assert inside.a is a


def test_a_system_is_solved_up_to_a_number_added_to_all_classes():
    rng = np.random.default_rng(1)
    X, D, ridge = rng.normal(size=(30, 3)), rng.random((30, 4)), rng.random(3)
    right = rng.normal(size=(3, 4))
    right -= right.mean(axis=1, keepdims=True)
    normal = Normal(X, D, ridge, POLICY)
    step = normal.solved(right)
    step -= step.mean(axis=1, keepdims=True)
    M = [np.diag(row) - np.outer(row, row) / row.sum() for row in D]
    product = ridge[:, None] * step + sum(np.outer(x, m @ (x @ step)) for x, m in zip(X, M, strict=True))
    np.testing.assert_allclose(product, right, atol=1e-9)
    np.testing.assert_allclose(normal.times_M(X @ step), [m @ (x @ step) for x, m in zip(X, M, strict=True)], atol=1e-12)


def test_the_coefficients_of_a_sample_add_up_to_zero():
    problem = raw(40)
    b = coefficients(problem, np.random.default_rng(0).random((40, 5)))
    np.testing.assert_allclose(b.sum(axis=1), 0.0, atol=1e-15)
    assert np.all(b[problem.own] >= 0.0)


def exact_distance(problem: CrammerSingerProblem, W, b) -> float:
    """|W - W(a)|, rounded at the end."""
    rows = [[*map(Fraction, row.tolist()), Fraction(problem.intercept_scaling)] for row in problem.rows.dense()]
    total = Fraction(0)
    a = -b
    a[problem.own] = 0.0
    others = [[-Fraction(float(value)) for value in row] for row in a]
    for m in range(problem.n_classes):
        own = [-sum(row) if y == m else row[m] for y, row in zip(problem.y, others, strict=True)]
        for j in range(problem.n_weights):
            made = sum(value * row[j] for value, row in zip(own, rows, strict=True))
            total += (Fraction(float(W[j, m])) - made) ** 2
    return float(total) ** 0.5


@pytest.mark.parametrize("C", [1.0, 1e6])
def test_mended_coefficients_make_the_given_weights(C):
    problem = raw(120, C, k=4)
    inside = ClassInterior(problem, POLICY)
    while not inside.step(1e-4):
        assert not inside.has_failed
    plain = exact_distance(problem, inside.W, coefficients(problem, inside.a))
    mended = exact_distance(problem, inside.W, inside.b)
    assert 0.5 * mended**2 <= POLICY.negligible * 1e-4 * inside.primal
    assert mended < plain
    assert certify_crammer_singer(problem, inside.W, inside.b).meets(1e-4)


def test_coefficients_that_leave_their_bounds_are_not_offered(monkeypatch):
    problem = raw(60, k=3)
    inside = ClassInterior(problem, POLICY)
    W, V = np.ones((problem.n_weights, 3)), np.ones((problem.n_weights, 3))
    mending = ClassMending(inside.frame, W, V, inside.a, 1e-9, POLICY)
    for factor in (2.0, -1.0, np.nan):
        monkeypatch.setattr(mending, "mended", lambda fall, factor=factor: factor * inside.a)
        np.testing.assert_array_equal(mending.best(), coefficients(problem, inside.a))


def test_the_lack_of_weights_is_right_to_its_last_digits():
    problem = raw(60, k=3)
    frame, rng = ClassFrame.of(problem, POLICY), np.random.default_rng(2)
    W, a = rng.normal(size=(problem.n_weights, 3)), rng.random((60, 3))
    mending = ClassMending(frame, W, np.zeros((problem.n_weights, 3)), a, 1e-9, POLICY)
    lack = mending._lack(a)
    assert np.linalg.norm(lack) == pytest.approx(exact_distance(problem, W, coefficients(problem, a)), rel=1e-14)


def wide(n: int = 30, d: int = 120, k: int = 4, C: float = 1.0, layout=np.asarray) -> CrammerSingerProblem:
    """Counts of genes, as they come: fewer rows than columns."""
    rng = np.random.default_rng(1)
    return CrammerSingerProblem.build(layout(rng.lognormal(0.0, 3.0, (n, d))), np.arange(n) % k, C, 1.0)


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_fewer_rows_than_columns_are_certified(C, layout):
    solution = solve(wide(C=C, layout=layout), tol=1e-4)
    assert solution.status is Status.CERTIFIED
    assert solution.trace[-1].solver == "class-interior-point"


def test_standardised_columns_with_fewer_rows_and_a_large_C_are_certified():
    rng = np.random.default_rng(2)
    solution = solve(CrammerSingerProblem.build(rng.normal(size=(40, 200)), np.arange(40) % 5, 1e4, 1.0), tol=1e-4)
    assert solution.status is Status.CERTIFIED


def test_the_frame_of_fewer_rows_than_columns_has_a_column_for_each_row_and_its_outputs_are_those_of_the_weights():
    problem = wide()
    frame = ClassFrame.of(problem, POLICY)
    V = np.random.default_rng(3).normal(size=(problem.n_samples, problem.n_classes))
    assert frame.X.shape == (problem.n_samples, problem.n_samples)
    assert frame.X @ V == pytest.approx(problem.outputs(frame.weights(V)), rel=1e-6)
    assert np.sum(frame.ridge[:, None] * np.square(V)) == pytest.approx(np.sum(np.square(frame.weights(V))), rel=1e-10)


def test_fewer_rows_than_columns_count_by_their_rows_and_only_as_long_as_x_may_be_dense():
    assert fits_inside(wide(), replace(POLICY, most_columns=10))
    assert not fits_inside(wide(), replace(POLICY, most_elements=1000.0))
    assert not fits_inside(wide(), replace(POLICY, most_weights=80))

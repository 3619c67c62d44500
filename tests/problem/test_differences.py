"""RBF values from differences: their bound against exact arithmetic, where they are chosen, and the fits that need them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin import SVC, SVR, KernelProblem, NuSVC, OneClassSVM, Status, solve
from maxmargin.certificate.kernel_sums import kernel_sums
from maxmargin.certificate.many_sums import sums_of_many
from maxmargin.io import load_model, save_model
from maxmargin.problem import policy
from maxmargin.problem.differences import RBFByDifferences
from maxmargin.problem.held_values import ClassValues, held_values
from maxmargin.problem.kernels import RBF, Points, Polynomial
from maxmargin.solvers.registry import KERNEL_SOLVERS

FORMS = {"dense": np.asarray, "sparse": sparse.csr_array}


def in_millions(n: int = 120, d: int = 4, seed: int = 0, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Unix times to the second beside small numbers. Some of the times are near each other."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 0] = 1.6e9 + rng.integers(0, 40, n)
    return X, np.argsort(np.argsort(X[:, 1] + 0.1 * X[:, 0] - 1.6e8 + 0.3 * rng.normal(size=n))) * n_classes // n


def exact_square(x: np.ndarray, z: np.ndarray) -> Decimal:
    return sum(((Decimal(float(a)) - Decimal(float(b))) ** 2 for a, b in zip(x, z, strict=True)), Decimal(0))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 9),
    centre=st.sampled_from([0.0, 1e6, 1.7e12]),
    gamma=st.sampled_from([1e-6, 0.25, 50.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    form=st.sampled_from(sorted(FORMS)),
)
def test_a_value_is_as_near_to_the_exact_one_as_the_kernel_says(seed, d, centre, gamma, dtype, form):
    rng = np.random.default_rng(seed)
    X = ((centre + 3.0 * rng.normal(size=(6, d))) * rng.integers(0, 2, size=(6, d))).astype(dtype)
    kernel, points = RBFByDifferences(gamma), Points.of(FORMS[form](X))
    values, error = kernel.block(points, points), kernel.rounding_error(points, points)
    assert error <= 1.01 * (d + 8) * 2.0**-53 + 1e-300
    with localcontext() as context:
        context.prec = 50
        for i, x in enumerate(X):
            for j, z in enumerate(X):
                exact = (-Decimal(gamma) * exact_square(x, z)).exp()
                assert abs(Decimal(float(values[i, j])) - exact) <= Decimal(error)


def test_dense_rows_and_merged_sparse_rows_give_the_same_bits(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(70, 11)) * (rng.random((70, 11)) < 0.4) * 1e6
    kernel = RBFByDifferences(1e-12)
    dense = kernel.block(Points.of(X[:30]), Points.of(X))
    shuffled = sparse.csr_array(X)
    shuffled.indices, shuffled.data = shuffled.indices.copy(), shuffled.data.copy()
    first = slice(shuffled.indptr[3], shuffled.indptr[4])
    shuffled.indices[first], shuffled.data[first] = shuffled.indices[first][::-1].copy(), shuffled.data[first][::-1].copy()
    shuffled.has_sorted_indices = False
    monkeypatch.setattr(policy, "KERNEL", replace(policy.KERNEL, dense_features=5))
    merged = kernel.block(Points.of(shuffled[:30]), Points.of(shuffled))
    assert np.array_equal(dense, merged)


def test_squares_that_overflow_give_the_least_value_and_equal_rows_one():
    points = Points.of(np.array([[1e200, 1.0], [-1e200, 1.0], [1.7e308, -1.7e308], [-1.7e308, 1.7e308]]))
    values = RBFByDifferences(0.5).block(points, points)
    assert np.array_equal(np.diagonal(values), np.ones(4))
    assert np.all(values[~np.eye(4, dtype=bool)] <= 2.0**-1021)


def test_scaled_columns_keep_the_product_of_matrices_and_large_ones_get_differences():
    rng = np.random.default_rng(2)
    scaled, large = Points.of(rng.normal(size=(50, 6))), Points.of(4e6 + rng.normal(size=(50, 6)))
    kernel = RBF(1.0 / 6.0)
    assert kernel.suited_to(scaled) is kernel
    assert kernel.suited_to(large) == RBFByDifferences(1.0 / 6.0)
    assert kernel.suited_to(scaled, large) == RBFByDifferences(1.0 / 6.0)
    assert kernel.suited_to(large).suited_to(scaled) == RBFByDifferences(1.0 / 6.0)
    polynomial = Polynomial(0.5, 1.0, 3)
    assert polynomial.suited_to(large) is polynomial


def test_the_bound_on_norms_costs_no_norms_and_is_one():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(40, 30)) * (rng.random((40, 30)) < 0.3) * 1e3
    points = Points.of(sparse.csr_array(X))
    assert RBF(1e-12).suited_to(points) == RBF(1e-12)
    assert points._sqnorms is None
    assert points.at_most >= points.sqnorms.max()
    assert points.at_most == points.sqnorms.max()  # now that they are known
    assert Points.of(sparse.csr_array((3, 5))).at_most == 0.0


def test_rows_of_very_many_features_are_not_far_because_they_are_long():
    points = Points.of(np.random.default_rng(3).normal(size=(5, 20_000)))
    kernel = RBF(1.0 / 20_000)
    assert kernel.rounding_error(points, points) > policy.KERNEL.coarse
    assert kernel.suited_to(points) is kernel


def test_the_bound_of_sparse_rows_counts_what_they_hold():
    rows = sparse.csr_array(([1.0, 2.0, 3.0], ([0, 1, 1], [5, 70_000, 90_000])), shape=(2, 100_000))
    points = Points.of(rows)
    assert RBF(1.0).rounding_error(points, points) == pytest.approx(10.0 * 2.0**-53 * (1.0 + 4.0 * 13.0))


@pytest.mark.parametrize("form", FORMS)
def test_every_sum_states_its_error(form):
    """Held, in tiles, and of many models at once, against fifty digits."""
    X, _ = in_millions(30)
    kernel, points, n = RBFByDifferences(0.25), Points.of(FORMS[form](X)), 30
    signed = 1e3 * np.random.default_rng(4).normal(size=n)
    sums, many = kernel_sums(kernel, points, np.arange(n), signed), sums_of_many(kernel, points, signed[:, None])
    held = held_values(kernel, points)
    assert held.error <= 1e-14
    with localcontext() as context:
        context.prec = 50
        for i in range(n):
            values = [(-Decimal("0.25") * exact_square(X[i], z)).exp() for z in X]
            exact = sum(Decimal(float(s)) * value for s, value in zip(signed, values, strict=True))
            assert abs(Decimal(float(sums.outputs[i])) - exact) <= Decimal(float(sums.errors[i]))
            assert abs(Decimal(float(many.outputs[i, 0])) - exact) <= Decimal(float(many.errors[0, 0]))
            errors = [abs(Decimal(float(held.values[i, j])) - value) for j, value in enumerate(values)]
            assert max(errors) <= Decimal(held.error)
    assert sums.errors.max() <= 1e-12 * np.abs(signed).sum()


def test_pairs_of_classes_share_values_from_differences():
    X, y = in_millions(90, n_classes=3)
    kernel = RBF(0.25).suited_to(Points.of(X))
    shared = ClassValues(X, kernel, y)
    held, rows = shared.pair(0, 2), np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 2)])
    assert np.array_equal(held.values, kernel.block(Points.of(X[rows]), Points.of(X[rows])))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("C", [1.0, 1e3, 1e6])
def test_a_fit_with_columns_in_the_millions_is_certified(form, dtype, C):
    X, y = in_millions(200)
    X[:, 0] -= 1.6e9 - 4e6  # so that float32 tells neighbours apart
    model = SVC(C=C, gamma="auto").fit(FORMS[form](X.astype(dtype)), y)
    assert model.status_ is Status.CERTIFIED


def test_more_samples_than_are_held_are_certified():
    X, y = in_millions(policy.HELD.most_samples + 200)
    assert SVC(C=100.0, gamma="auto").fit(X, y).status_ is Status.CERTIFIED


def test_every_solver_finds_the_same_optimum():
    X, y = in_millions(150)
    problem = KernelProblem.build(X, 2 * y - 1, 10.0, RBF(0.25))
    solutions = [solve(problem, solver, tol=1e-6) for solver in KERNEL_SOLVERS]
    assert all(solution.status is Status.CERTIFIED for solution in solutions)
    primals = [solution.certificate.primal for solution in solutions]
    assert max(primals) - min(primals) <= 1e-6 * max(primals)


def test_the_other_machines_are_certified_too():
    X, y = in_millions(150)
    regressor = SVR(gamma="auto", C=10.0).fit(X, X[:, 1])
    assert regressor.status_ is Status.CERTIFIED
    assert OneClassSVM(gamma="auto", nu=0.2).fit(X).status_ is Status.CERTIFIED
    assert NuSVC(gamma="auto", nu=0.2).fit(X, y).status_ is Status.CERTIFIED


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_prediction_is_the_sum_that_the_definition_gives(dtype, tmp_path):
    """And that of the model that was written and read again, which has the kernel by its name alone."""
    X, y = in_millions(100)
    X = (X - np.array([1.6e9 - 4e6, 0.0, 0.0, 0.0])).astype(dtype)
    model = SVC(gamma="auto", C=50.0).fit(X, y)
    save_model(model, tmp_path / "model.safetensors")
    again, values = load_model(tmp_path / "model.safetensors"), model.decision_function(X[:10])
    with localcontext() as context:
        context.prec = 50
        for x, value, read in zip(X[:10], values, again.decision_function(X[:10]), strict=True):
            kernel = [(-Decimal("0.25") * exact_square(x, z)).exp() for z in model.support_vectors_]
            exact = sum(Decimal(float(s)) * k for s, k in zip(model.dual_coef_[0], kernel, strict=True))
            exact += Decimal(float(model.intercept_[0]))
            assert abs(Decimal(float(value)) - exact) <= Decimal("1e-10")
            assert read == value

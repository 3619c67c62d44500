"""Finite feature maps: k(x, z) = phi(x) . phi(z), and what is proved of a kernel problem that was solved on them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sklearn.svm
from sklearn.datasets import load_iris

from maxmargin import RBF, SVC, Polynomial, Status
from maxmargin.certificate.certificate import Certificate
from maxmargin.estimators import policy as estimator_policy
from maxmargin.estimators.pair_features import FeatureProblems, certificate_of_kernel, newton_pays
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.problem import policy
from maxmargin.problem.feature_maps import Itself, feature_map
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Linear, Points
from maxmargin.problem.regression_losses import EpsilonInsensitive
from maxmargin.solvers.kernel.factored import factor
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.patience import Patience


def rows(n=9, d=4, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, d)) * 10.0 ** random.uniform(-4.0, 6.0, d)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("coef0", [0.0, 1.5])
@pytest.mark.parametrize("has_offset", [True, False])
def test_products_of_features_are_kernel_values_but_for_a_constant_where_there_is_an_offset(degree, coef0, has_offset):
    X, kernel = rows(), Polynomial(1e-9, coef0, degree)
    found = feature_map(kernel, X.shape[1], has_offset)
    features = found.of(X)
    values = kernel.block(Points.of(X), Points.of(X)) - (coef0**degree if has_offset and coef0 else 0.0)
    assert features.shape == (len(X), found.n_features)
    assert np.abs(features @ features.T - values).max() <= 1e-13 * np.abs(values).max()


def test_a_monomial_is_right_to_its_relative_error():
    """Its square is gamma^p times a whole number times powers of x, exactly."""
    X, kernel = rows(5, 3), Polynomial(0.3, 0.0, 3)
    found = feature_map(kernel, 3, True)
    for x, features in zip(X, found.of(X), strict=True):
        exact = []
        for i in range(3):
            for j in range(i, 3):
                for k in range(j, 3):
                    orders = {1: 1, 2: 3, 3: 6}[len({i, j, k})]
                    product = Fraction(x[i]) * Fraction(x[j]) * Fraction(x[k])
                    exact.append(orders * Fraction(0.3) ** 3 * product**2)
        for square, value in zip(exact, features, strict=True):
            assert abs(Fraction(value) ** 2 - square) <= 2.01 * found.relative_error * square


def test_kernels_without_a_short_map_have_none():
    assert feature_map(RBF(1.0), 3, True) is None
    assert feature_map(Polynomial(1.0, -1.0, 2), 3, True) is None
    assert feature_map(Polynomial(1.0, 0.0, 3), 18, True) is None
    assert feature_map(Polynomial(1.0, 0.0, 3), 17, True).n_features <= policy.KERNEL.most_monomials
    assert isinstance(feature_map(Linear(), 5, True), Itself)


def test_long_sparse_rows_are_left_to_the_kernel():
    from scipy import sparse

    X = sparse.random(500, 20_000, 0.005, random_state=0, format="csr")
    assert not newton_pays(X, 500)
    assert newton_pays(np.ones((500, 20)), 500)


def unix_times(n=300):
    random = np.random.default_rng(1)
    times, ages, rates = 1.4e9 + random.random(n) * 2e8, random.integers(18, 90, n), random.random(n)
    y = (times - 1.5e9) / 1e8 + (ages - 50) / 20 + random.normal(0.0, 0.7, n) > 0.0
    return np.c_[times, ages, rates], y.astype(int)


@pytest.fixture
def without_trials(monkeypatch):
    """Newton's method on the features is the first and only one."""
    monkeypatch.setattr(estimator_policy, "FEATURES", replace(estimator_policy.FEATURES, trial_share=0.0))


@pytest.mark.usefixtures("without_trials")
@pytest.mark.parametrize("kernel", ["linear", "poly"])
@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_columns_of_any_scale_are_certified_and_the_model_predicts_by_w(kernel, C):
    X, y = unix_times()
    model = SVC(kernel=kernel, C=C, max_seconds=30.0).fit(X, y)
    features = model._feature_weights_
    assert model.status_ is Status.CERTIFIED
    assert features is not None
    outputs = features.map.of(X) @ features.weights[0] + model.intercept_[0]
    margins = np.where(y == 1, 1.0, -1.0) * outputs
    primal = 0.5 * float(features.weights[0] @ features.weights[0]) + C * float(np.maximum(0.0, 1.0 - margins).sum())
    assert model.decision_function(X) == pytest.approx(outputs)
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-6)
    if kernel == "linear":
        assert np.array_equal(model.coef_, features.weights)


@pytest.mark.usefixtures("without_trials")
def test_the_certificate_of_features_is_no_better_than_that_of_the_kernel():
    """The primal value of w on the features is within both gaps of the dual value that LIBSVM's alpha has under the kernel."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0], y[y > 0]
    ours = SVC(kernel="poly", tol=1e-9).fit(X, y)
    theirs = sklearn.svm.SVC(kernel="poly", tol=1e-9).fit(X, y)
    values = theirs.dual_coef_[0] @ ours._kernel_.block(*(Points.of(X[theirs.support_]),) * 2) @ theirs.dual_coef_[0]
    dual = np.abs(theirs.dual_coef_).sum() - 0.5 * values
    assert ours._feature_weights_ is not None
    assert ours.certificate_.dual == pytest.approx(dual, rel=1e-6)


def test_a_proved_label_of_a_polynomial_is_that_of_a_much_better_solution():
    X, y = load_iris(return_X_y=True)
    rough, fine = (SVC(kernel="poly", tol=tol).fit(X[::2], y[::2]) for tol in (1e-3, 1e-10))
    labels, proved = rough.certified_predict(X)
    assert proved.any()
    assert np.array_equal(labels[proved], fine.predict(X)[proved])


def test_features_that_overflow_or_outgrow_the_budget_are_left_to_the_kernel():
    X, costs, solver = rows(40), np.ones(40), SVC()._solver()
    known = Polynomial(1e-9, 0.0, 3), costs, True, solver, 40
    assert FeatureProblems.where_it_pays(X, *known, 500.0) is not None
    assert FeatureProblems.where_it_pays(X, *known, 0.001) is None
    assert FeatureProblems.where_it_pays(X * 1e120, Polynomial(1.0, 0.0, 3), *known[1:], 500.0) is None


@pytest.mark.parametrize("has_offset", [True, False])
def test_a_matrix_of_low_rank_is_the_product_of_its_factor(has_offset):
    Z = rows(50, 5)
    problem = KernelProblem.build(Z, np.where(np.arange(50) % 2, 1, -1), 1.0, Linear(), has_offset)
    L = factor(problem, KernelMatrix(problem.kernel, problem.points, np.float64), 20)
    moved = Z - Z[np.argmin(problem.diagonal)] if has_offset else Z
    assert L.shape[1] <= 5
    assert np.abs(L @ L.T - moved @ moved.T).max() <= 1e-12 * np.abs(Z @ Z.T).max()
    assert factor(problem, KernelMatrix(problem.kernel, problem.points, np.float64), 2) is None


@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_a_precomputed_matrix_of_low_rank_and_many_scales_is_certified_within_counted_work(C):
    Z = np.random.default_rng(0).normal(size=(200, 4)) * np.array([1e3, 1.0, 30.0, 0.1])
    y = (Z @ np.array([1e-3, 1.0, 0.0, 5.0]) + np.random.default_rng(1).normal(0.0, 0.5, 200) > 0.0).astype(int)
    model = SVC(kernel="precomputed", C=C, max_seconds=60.0).fit(Z @ Z.T, y)
    assert model.status_ is Status.CERTIFIED
    assert model.trace_[-1].steps <= 500_000


def test_patience_ends_where_the_dual_stands_still_and_not_where_it_rises():
    still, rising = Patience(100.0), Patience(100.0)
    ends = [(still.note(k, 1.0, 2.0), rising.note(k, 2.0 - 1.0 / k, 2.0)) for k in range(1, 1000)]
    assert any(is_still for is_still, _ in ends)
    assert not any(is_rising for _, is_rising in ends)


def test_the_rounding_of_features_counts_by_the_greater_slope_where_outputs_hide_the_side_of_a_kink():
    random = np.random.default_rng(0)
    kernel = Polynomial(1.0, 1.0, 2)
    found = feature_map(kernel, 2, True)
    problems = FeatureProblems(found, random.standard_normal((12, 2)), np.full(12, 3.0), True, Auto())
    features, w, loss = problems.matrix, np.append(random.standard_normal(found.n_features), 1e6), EpsilonInsensitive(0.25)
    targets = (features @ w[:-1] + w[-1]) + 0.25 - 1e-9  # inside the tube, by the last digits of an output
    problem, alpha = problems.regression(targets, loss), np.full(12, 0.3) * np.where(np.arange(12) % 2 == 0, 1.0, -1.0)
    plain = Certificate(1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 12, 0)
    errors = found.relative_error * (np.abs(features) @ np.abs(w[:-1]))
    assert certificate_of_kernel(found, problem, w, alpha, plain).rounding_error >= 2.7 * errors[::2].sum()

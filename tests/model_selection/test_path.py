"""The path: a solution for every C of a range, with a gap that holds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

import maxmargin
from maxmargin import (
    RBF,
    SVC,
    SVR,
    Hinge,
    KernelProblem,
    LinearProblem,
    LinearSVC,
    LinearSVR,
    SquaredHinge,
    certify,
    certify_kernel,
    solve,
)
from maxmargin.model_selection import policy
from tests.model_selection.random_problems import at


@pytest.fixture(scope="module")
def samples():
    X, y = make_classification(300, 8, flip_y=0.1, random_state=0)
    return X, np.where(y == 1, 1, -1)


def random_Cs(low, high, count=25):
    return np.exp(np.random.default_rng(0).uniform(np.log(low), np.log(high), count))


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
@pytest.mark.parametrize("is_penalized", [True, False])
def test_the_certificate_at_any_C_is_within_the_gap_that_the_path_says(samples, loss, is_penalized):
    problem = LinearProblem.build(*samples, 1.0, loss, 1.0, is_penalized)
    path = maxmargin.path(problem, C_range=(1e-2, 10.0), tol=1e-3)
    assert path.is_certified
    for C in random_Cs(1e-2, 10.0):
        point = path(C)
        certificate = certify(at(problem, C), np.append(point.coef, point.intercept), point.alpha)
        assert certificate.gap <= point.gap * (1 + 1e-9) + 1e-12
        assert certificate.relative_gap <= 1e-3


def test_a_path_with_a_kernel_is_certified_at_any_C(samples):
    problem = KernelProblem.build(*samples, 1.0, RBF(0.1))
    path = maxmargin.path(problem, C_range=(0.1, 10.0), tol=1e-2)
    assert path.is_certified
    for C in random_Cs(0.1, 10.0, 10):
        verdict = certify_kernel(at(problem, C), path(C).alpha)
        assert verdict.certificate.relative_gap <= 1e-2


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive", "quantile"])
def test_a_path_of_a_linear_regression_is_certified_at_any_C(samples, loss):
    X, y = samples[0], samples[0] @ np.arange(8.0) + np.random.default_rng(0).normal(size=300)
    model = LinearSVR(loss=loss, epsilon=0.3 if loss != "quantile" else 0.0)
    path = maxmargin.path(model, X, y, C_range=(1e-2, 1.0), tol=1e-2)
    assert path.is_certified
    problem = model.regression_problem(X, y)
    for C in random_Cs(1e-2, 1.0):
        point = path(C)
        certificate = certify(at(problem, C), np.append(point.coef, point.intercept), point.alpha)
        assert certificate.gap <= point.gap * (1 + 1e-9) + 1e-12
        assert certificate.relative_gap <= 1e-2
    fitted = LinearSVR(loss=loss, epsilon=model.epsilon, C=path.Cs[-1], tol=1e-6).fit(X, y)
    assert path(path.Cs[-1]).coef == pytest.approx(fitted.coef_, abs=0.1)


def test_a_path_of_a_kernel_regression_is_certified_at_any_C(samples):
    X, y = samples[0], np.sin(samples[0][:, 0]) + 0.1 * np.random.default_rng(0).normal(size=300)
    model = SVR(gamma=0.1, epsilon=0.05)
    path = maxmargin.path(model, X, y, C_range=(0.1, 10.0), tol=1e-2)
    assert path.is_certified
    for C in random_Cs(0.1, 10.0, 10):
        verdict = certify_kernel(at(model.regression_problem(X, y), C), path(C).alpha)
        assert verdict.certificate.relative_gap <= 1e-2


def test_leave_one_out_takes_no_regression(samples):
    with pytest.raises(TypeError, match="takes"):
        maxmargin.leave_one_out(SVR(), samples[0], samples[0][:, 0])


def test_between_two_knots_every_alpha_is_in_the_box_of_its_C_to_the_last_bit(samples):
    problem = LinearProblem.build(*samples, 1.0, Hinge())
    path = maxmargin.path(problem, Cs=[0.1, 0.12], tol=1e-6)
    for C in np.random.default_rng(0).uniform(0.1, 0.12, 300):
        box, alpha = at(problem, C).box, path(C).alpha
        assert np.all((alpha >= box.L) & (alpha <= box.U))


def test_a_smaller_tol_takes_about_the_inverse_square_root_of_it_in_fits(samples):
    problem = LinearProblem.build(*samples, 1.0, SquaredHinge())
    few, many = (len(maxmargin.path(problem, C_range=(1e-2, 1.0), tol=tol).Cs) for tol in (1e-3, 1e-5))
    assert 3.0 < many / few < 20.0


def test_on_a_list_the_knots_are_the_list_and_the_path_says_its_gap_in_between(samples):
    problem = LinearProblem.build(*samples, 1.0, Hinge())
    path = maxmargin.path(problem, Cs=[1.0, 0.1, 10.0], tol=1e-6)
    assert path.Cs.tolist() == [0.1, 1.0, 10.0]
    assert path(1.0).relative_gap <= 1e-6
    assert path(0.5).relative_gap > 1e-6
    best = solve(at(problem, 0.5), tol=1e-10).certificate
    point = path(0.5)
    assert at(problem, 0.5).primal(point.coef) - best.primal <= point.gap


def test_an_estimator_gives_the_path_of_its_own_problem(samples):
    X, y = samples
    labels = np.where(y > 0, "yes", "no")
    path = maxmargin.path(LinearSVC(class_weight="balanced"), X, labels, Cs=[0.1, 1.0], tol=1e-8)
    model = LinearSVC(class_weight="balanced", C=1.0, tol=1e-8).fit(X, labels)
    assert path(1.0).coef == pytest.approx(model.coef_[0], abs=1e-3)
    assert path(1.0).intercept == pytest.approx(model.intercept_[0], abs=1e-3)


def test_an_estimator_with_a_kernel_gives_the_signs_of_its_decisions(samples):
    X, y = samples
    point = maxmargin.path(SVC(gamma=0.2), X, y, Cs=[2.0], tol=1e-6)(2.0)
    model = SVC(gamma=0.2, C=2.0, tol=1e-6).fit(X, y)
    ours = RBF(0.2).gram(KernelProblem.build(X, y, 1.0, RBF(0.2)).points, slice(None), slice(None)) @ point.coef
    assert ours + point.intercept == pytest.approx(model.decision_function(X), abs=1e-3)


def test_what_a_path_cannot_do_is_said(samples):
    X, y = samples
    problem = LinearProblem.build(X, y)
    with pytest.raises(ValueError, match="either Cs"):
        maxmargin.path(problem)
    with pytest.raises(ValueError, match="smaller one first"):
        maxmargin.path(problem, C_range=(1.0, 0.1))
    with pytest.raises(ValueError, match="positive numbers"):
        maxmargin.path(problem, Cs=[0.0, 1.0])
    with pytest.raises(ValueError, match="two classes"):
        maxmargin.path(LinearSVC(), X, np.arange(len(y)) % 3, Cs=[1.0])
    with pytest.raises(TypeError, match="LinearSVC"):
        maxmargin.path("a9a", X, y, Cs=[1.0])
    with pytest.raises(ValueError, match=r"between 0\.1 and 1"):
        maxmargin.path(problem, Cs=[0.1, 1.0])(2.0)


def raw_table():
    """A salary, a time in seconds since 1970, an age and a rate."""
    random = np.random.default_rng(0)
    n = 400
    columns = random.lognormal(10.5, 0.6, n), 1.6e9 + random.integers(0, 10**8, n), random.integers(18, 80, n), random.random(n)
    X = np.column_stack(columns)
    return X, np.where(np.log(X[:, 0]) + X[:, 2] / 20 + random.normal(size=n) > 12.8, 1, -1)


@pytest.mark.skipif(np.finfo(np.longdouble).eps == np.finfo(float).eps, reason="long double is float64 here")
def test_a_path_over_raw_columns_is_certified_with_few_fits():
    X, y = raw_table()
    found = maxmargin.path(LinearSVC(), X, y, C_range=(1e-3, 1e3))
    assert found.relative_gap <= 1e-3
    assert len(found.Cs) < 100


def test_intervals_that_rounding_limits_are_not_divided(monkeypatch):
    monkeypatch.setattr(policy, "TRANSFER", policy.TransferPolicy(loose=np.inf))  # no sums in long double
    X, y = raw_table()
    found = maxmargin.path(LinearSVC(), 1e3 * X, y, C_range=(1e-3, 1e3))
    assert found.relative_gap > 1e-3
    assert len(found.Cs) < 100

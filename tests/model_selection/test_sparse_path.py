"""The path over C with an L1 or elastic-net penalty: certified at every C, sparse, and zero below the least C."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.svm import l1_min_c

import maxmargin
from maxmargin import LinearProblem, LinearSVC, SquaredHinge, certify, solve
from maxmargin.problem.penalties import L1, ElasticNet
from tests.model_selection.random_problems import at


@pytest.fixture(scope="module")
def samples():
    X, y = make_classification(200, 30, n_informative=5, flip_y=0.1, random_state=0)
    return X, np.where(y == 1, 1, -1)


def random_Cs(low, high, count):
    return np.exp(np.random.default_rng(1).uniform(np.log(low), np.log(high), count))


@pytest.mark.parametrize("penalty", [L1(), ElasticNet(0.7)])
@pytest.mark.parametrize("is_penalized", [True, False])
def test_the_certificate_at_any_C_is_within_the_gap_that_the_path_says(samples, penalty, is_penalized):
    problem = LinearProblem.build(*samples, 1.0, SquaredHinge(), 1.0, is_penalized, penalty)
    path = maxmargin.path(problem, C_range=(1e-2, 1.0), tol=1e-2)
    assert path.is_certified
    for C in random_Cs(1e-2, 1.0, 12):
        point = path(C)
        certificate = certify(at(problem, C), np.append(point.coef, point.intercept), point.alpha)
        assert certificate.gap <= point.gap * (1 + 1e-9) + 1e-12
        assert certificate.relative_gap <= 1e-2


def test_the_bound_between_knots_holds_for_the_optimum_and_is_not_idle(samples):
    problem = LinearProblem.build(*samples, 1.0, SquaredHinge(), penalty=L1())
    path = maxmargin.path(problem, Cs=[0.02, 0.2], tol=1e-8)
    best = solve(at(problem, 0.1), tol=1e-10).certificate
    point = path(0.1)
    assert 0.0 < at(problem, 0.1).primal(point.coef) - best.primal <= point.gap
    assert 1e-8 < point.relative_gap < 1.0


def test_knots_are_the_models_that_fit_gives_and_zero_below_the_least_C(samples):
    X, y = samples
    least = l1_min_c(X, y, loss="squared_hinge", fit_intercept=False)
    model = LinearSVC(penalty="l1", fit_intercept=False)
    path = maxmargin.path(model, X, y, Cs=[0.5 * least, 2.0 * least, 20.0 * least], tol=1e-9)
    assert path.n_nonzero[0] == 0
    assert 0 < path.n_nonzero[1] < path.n_nonzero[2]
    for C, coef in zip(path.Cs, path.coefs, strict=True):
        fitted = LinearSVC(penalty="l1", fit_intercept=False, C=C, tol=1e-9).fit(X, y)
        assert coef == pytest.approx(fitted.coef_[0], abs=1e-4)


def test_a_fit_with_a_kink_proves_nothing_at_another_C(samples):
    problem = LinearProblem.build(*samples, 1.0, SquaredHinge(), penalty=L1())
    knot = maxmargin.path(problem, Cs=[0.1], tol=1e-4).fits[0]
    assert knot.gap_at(0.1) == knot.gap
    with pytest.raises(ValueError, match=r"proves no gap at another C; got 0\.2"):
        knot.gap_at(0.2)

"""Polynomial kernels of columns in the millions and billions: certified, at the optimum that linear programming finds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import linprog

from maxmargin import SVC, Status
from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.kernels import Polynomial


def table(n, seed):
    """Seconds since 1970, an amount in thousands, and a small number. The classes overlap."""
    random = np.random.default_rng(seed)
    X = np.column_stack([random.uniform(1.1e9, 1.7e9, n), random.lognormal(9.0, 1.0, n), random.normal(size=n)])
    score = X[:, 0] / 1e9 + np.log(X[:, 1]) / 3.0 + X[:, 2]
    return X, (score + 0.8 * random.normal(size=n) > np.median(score)).astype(int)


def fitted(X, y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SVC(kernel="poly", gamma="auto", **settings).fit(X, y)


def least_loss(X, y, degree, coef0):
    """The least sum of hinge losses of any polynomial: what remains where the penalty costs nothing."""
    features = feature_map(Polynomial(1.0 / X.shape[1], coef0, degree), X.shape[1], True).of(X)
    scaled = features / np.abs(features).max(axis=0)
    signs, n = np.where(y == 1, 1.0, -1.0), len(y)
    rows = -signs[:, None] * np.column_stack([scaled, np.ones(n)])
    m = rows.shape[1]
    costs = np.concatenate([np.zeros(m), np.ones(n)])
    bounds = [(None, None)] * m + [(0.0, None)] * n
    return linprog(costs, A_ub=np.hstack([rows, -np.eye(n)]), b_ub=-np.ones(n), bounds=bounds, method="highs").fun


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("coef0", [0.0, 1.0])
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e6])
def test_polynomial_kernels_of_unix_times_are_certified(degree, coef0, C):
    X, y = table(150, 5)
    model = fitted(X, y, degree=degree, coef0=coef0, C=C)
    assert model.status_ is Status.CERTIFIED
    assert model.certificate_.meets(1e-3)
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("degree", [2, 3])
def test_where_the_penalty_costs_nothing_the_objective_is_that_of_a_linear_program(degree):
    X, y = table(120, 6)
    model = fitted(X, y, degree=degree, C=1e6)
    assert model.certificate_.primal / 1e6 == pytest.approx(least_loss(X, y, degree, 0.0), rel=2e-3)


def test_separated_classes_of_large_columns_are_certified_whatever_C_is():
    X, y = table(60, 7)
    X[:, 1] += np.where(y == 1, 1e6, 0.0)
    models = [fitted(X, y, C=C) for C in (1.0, 1e6)]
    assert all(model.status_ is Status.CERTIFIED for model in models)
    assert models[0].certificate_.primal == pytest.approx(models[1].certificate_.primal, rel=2e-3)


def test_without_an_intercept_they_are_certified_too():
    X, y = table(100, 8)
    assert fitted(X, y, degree=2, fit_intercept=False).status_ is Status.CERTIFIED


def test_a_spread_far_below_the_digits_of_a_power_ends_with_finite_values():
    """(1e9 + x)^3 has no digits of x^3 left: float64 holds neither such a w nor such an alpha."""
    random = np.random.default_rng(9)
    X = random.normal(size=(60, 3))
    y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
    model = fitted(X + 1e9, y)
    assert model.status_ is Status.PRECISION_LIMIT
    assert np.isfinite([model.certificate_.primal, model.certificate_.dual, model.certificate_.gap]).all()


def test_a_limit_of_time_ends_the_exact_sums():
    X, y = table(400, 10)
    model = fitted(X, y, max_seconds=0.02)
    assert model.status_ in (Status.TIME_LIMIT, Status.PRECISION_LIMIT, Status.CERTIFIED)

"""nu-SVR and one class with the linear kernel as linear problems, where w(alpha) is not precise enough."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maxmargin import NuSVR, OneClassSVM, Status
from maxmargin.certificate.nu_pair import certify_nu_pair
from maxmargin.problem.kernels import Linear
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.nu import nu_svr
from maxmargin.problem.regression_losses import EpsilonInsensitive
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Limits, Stop, drive
from maxmargin.solving.nu_pair import solve_nu_svr_pair
from tests import raw_catalogue

TOL = 1e-6
SHARES = (0.05, 0.3, 0.7, 1.0)


def scales(n: int = 120, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Columns from 1e-4 to 1e9, far from zero, and targets that depend on all of them."""
    rng = np.random.default_rng(seed)
    sizes = np.array([1e-4, 1.0, 1e4, 1e9])
    Z = rng.normal(size=(n, 4))
    return (Z + 3.0) * sizes, Z @ [1.0, -2.0, 0.5, 1.0] + 0.3 * rng.normal(size=n)


def plain(n: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, 2.0, -1.0] + 0.5 * rng.normal(size=n)


def pair_of(X: np.ndarray, y: np.ndarray, nu: float, tol: float = TOL):
    problem = nu_svr(X, y, Linear(), nu, 1.0)
    first = drive(problem, NuSMO(), Limits(tol), warm_start=None, callback=None, seed=0, stop=Stop.after(60.0))
    return first, solve_nu_svr_pair(problem, first, Limits(tol), Stop.after(60.0))


@pytest.mark.parametrize("nu", SHARES)
def test_the_pair_is_the_answer_of_smo_where_both_get_there(nu):
    first, pair = pair_of(*plain(), nu)
    assert first.status is pair.status is Status.CERTIFIED
    assert pair.certificate.primal == pytest.approx(first.certificate.primal, rel=3.0 * TOL)
    X, _ = plain()
    w = X.T @ (first.alpha[:80] - first.alpha[80:])
    assert np.linalg.norm(pair.feature_weights - w) <= pair.certificate.distance_bound + first.certificate.distance_bound
    assert abs(pair.b - first.b) <= pair.offset_bound + first.offset_bound


@pytest.mark.parametrize("nu", SHARES)
def test_targets_that_are_a_multiple_of_columns_are_certified(nu):
    """The residuals are zero at the optimum, and errors in the last digits of w cost a noticeable part of |w|^2."""
    X = raw_catalogue.table("collinear", 300).X[:300]
    assert NuSVR(kernel="linear", nu=nu).fit(X[:, 1:], X[:, 0]).status_ is Status.CERTIFIED


@pytest.mark.parametrize("nu", SHARES)
def test_columns_of_very_different_scales_are_certified(nu):
    X, y = scales()
    model = NuSVR(kernel="linear", nu=nu, tol=1e-4).fit(X, y)
    assert model.status_ is Status.CERTIFIED
    if model._feature_weights_ is not None:
        np.testing.assert_allclose(model.predict(X), X @ model.coef_[0] + model.intercept_[0], rtol=1e-9)
    assert OneClassSVM(kernel="linear", nu=nu, tol=1e-4).fit(X).status_ is Status.CERTIFIED


def test_proved_intervals_of_a_pair_hold_the_predictions_of_a_sharper_one():
    X, y = scales()
    rough, sharp = (NuSVR(kernel="linear", nu=0.4, tol=tol).fit(X, y) for tol in (1e-3, 1e-7))
    assert rough._feature_weights_ is not None
    values, radius = rough.certified_predict(X)
    exact, own = sharp.certified_predict(X)
    assert np.all(np.abs(values - exact) <= radius + own)


def test_the_gap_of_a_pair_is_that_of_exact_arithmetic():
    rng = np.random.default_rng(5)
    X, y, C, epsilon, total = rng.normal(size=(8, 2)), rng.normal(size=8), 0.7, 0.25, 2.0
    beta = rng.uniform(-0.3, 0.3, 8)
    beta[-1] = -beta[:-1].sum()
    beta = beta * min(1.0, C / np.abs(beta).max(), total / np.abs(beta).sum())
    w = rng.normal(size=3)
    loss: object = EpsilonInsensitive(epsilon)
    found = certify_nu_pair(LinearProblem.build(X, y, C, loss, 1.0, False), total, w, beta)
    exact = _exact_gap(X, y, C, epsilon, total, w, beta)
    assert abs(found.gap - exact) <= found.rounding_error + 1e-12
    assert found.primal - found.dual == pytest.approx(exact, rel=1e-10)


def _exact_gap(X, y, C, epsilon, total, w, beta) -> float:
    """P - D of nu-SVR."""

    def dot(a, b) -> Fraction:
        return sum((Fraction(float(u)) * Fraction(float(v)) for u, v in zip(a, b, strict=True)), Fraction(0))

    residuals = [Fraction(float(t)) - dot(x, w[:2]) - Fraction(float(w[2])) for x, t in zip(X, y, strict=True)]
    losses = [max(Fraction(0), abs(residual) - Fraction(epsilon)) for residual in residuals]
    primal = dot(w[:2], w[:2]) / 2 + Fraction(C) * sum(losses) + Fraction(total) * Fraction(epsilon)
    own = [dot(column, beta) for column in X.T]
    return float(primal - (dot(y, beta) - sum(value * value for value in own) / 2))


def test_a_dual_point_with_too_great_a_sum_is_refused():
    X, y = plain()
    loss: object = EpsilonInsensitive(0.1)
    problem = LinearProblem.build(X, y, 1.0, loss, 1.0, False)
    beta = np.concatenate([np.full(40, 0.5), np.full(40, -0.5)])
    assert np.isfinite(certify_nu_pair(problem, 40.0, np.zeros(4), beta).gap)
    assert certify_nu_pair(problem, 39.9, np.zeros(4), beta).gap == np.inf


def test_a_model_file_keeps_the_weights_of_a_pair(tmp_path):
    from maxmargin.io import load_model, save_model

    X, y = scales()
    model = NuSVR(kernel="linear", nu=0.4, tol=1e-4).fit(X, y)
    assert model._feature_weights_ is not None
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))

"""C = infinity in regression: the shortest w within the tube, or a proof that none stays within it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from maxmargin import SVR, InseparableError, LinearSVR, Status
from maxmargin.certificate.hard_margin import certify_hard_margin
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.regression_losses import EpsilonInsensitive

TOL = 1e-6
EPSILON = 0.06


def plane(n: int = 100, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Targets within 0.05 of a linear function with an intercept."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, -2.0, 0.5] + 3.0 + 0.05 * rng.uniform(-1.0, 1.0, n)


intercepts = pytest.mark.parametrize("settings", [{}, {"penalize_intercept": False}], ids=["penalised", "free"])


@intercepts
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_a_tube_that_holds_a_plane_gets_the_certified_shortest_w(settings, loss, is_sparse):
    X, t = plane()
    data = sparse.csr_array(X) if is_sparse else X
    model = LinearSVR(C=np.inf, epsilon=EPSILON, loss=loss, tol=TOL, **settings).fit(data, t)
    assert model.status_ is Status.CERTIFIED
    assert np.abs(t - model.predict(data)).max() <= EPSILON
    large = LinearSVR(C=1e4, epsilon=EPSILON, tol=TOL, **settings).fit(data, t)
    assert model.certificate_.primal == pytest.approx(large.certificate_.primal, rel=3.0 * TOL)


@pytest.mark.parametrize("settings", [{"kernel": "rbf"}, {"kernel": "poly", "coef0": 1.0}, {"kernel": "linear"}], ids=str)
def test_a_tube_that_holds_a_function_of_the_kernel_gets_the_certified_shortest_w(settings):
    X, t = plane()
    model = SVR(C=np.inf, epsilon=EPSILON, tol=TOL, **settings).fit(X, t)
    assert model.status_ is Status.CERTIFIED
    assert np.abs(t - model.predict(X)).max() <= EPSILON
    large = SVR(C=1e6, epsilon=EPSILON, tol=TOL, **settings).fit(X, t)
    assert model.certificate_.primal == pytest.approx(large.certificate_.primal, rel=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_proved_intervals_hold_the_predictions_of_a_sharper_fit(kernel):
    X, t = plane()
    rough, sharp = (SVR(C=np.inf, epsilon=EPSILON, tol=tol, kernel=kernel).fit(X, t) for tol in (1e-2, 1e-7))
    places = np.random.default_rng(1).normal(size=(100, 3))
    values, radius = rough.certified_predict(places)
    exact, own = sharp.certified_predict(places)
    assert np.all(np.isfinite(radius))
    assert np.all(np.abs(values - exact) <= radius + own)


def test_several_targets_are_each_certified():
    X, t = plane()
    model = SVR(C=np.inf, epsilon=EPSILON, tol=TOL, kernel="linear").fit(X, np.column_stack([t, -t]))
    assert model.status_ == [Status.CERTIFIED] * 2


def test_a_tube_that_is_too_narrow_is_refused_with_a_ray_that_proves_it():
    X, t = plane()
    with pytest.raises(InseparableError, match=r"No linear function stays within the tube.*Use a finite C") as refused:
        LinearSVR(C=np.inf, epsilon=0.01, penalize_intercept=False).fit(X, t)
    ray = [Fraction(float(a)) for a in refused.value.ray]
    size = sum(abs(a) for a in ray)
    worth = sum(a * Fraction(float(target)) for a, target in zip(ray, t, strict=True)) - Fraction(0.01) * size
    columns = np.column_stack([X, np.ones(len(t))]).T
    length = sum(sum(a * Fraction(float(x)) for a, x in zip(ray, column, strict=True)) ** 2 for column in columns)
    assert worth > 0
    assert length <= (Fraction(refused.value.margin) * worth) ** 2
    assert refused.value.margin < 1e-10


def test_noise_is_refused_by_a_kernel_of_few_dimensions():
    X, t = plane()
    with pytest.raises(InseparableError, match="no function stays within the tube unless") as refused:
        SVR(C=np.inf, epsilon=0.01, kernel="precomputed").fit(X @ X.T, t)
    ray = refused.value.ray
    worth = ray @ t - 0.01 * np.abs(ray).sum()
    assert np.linalg.norm(np.column_stack([X, np.ones(len(t))]).T @ ray) <= refused.value.margin * worth


def test_equal_samples_with_targets_too_far_apart_are_an_exact_proof():
    X, t = plane()
    X, near, far = np.vstack([X, X[:1]]), np.append(t, t[0] + 0.1), np.append(t, t[0] + 0.2)
    assert SVR(C=np.inf, epsilon=EPSILON).fit(X, near).status_ is Status.CERTIFIED
    with pytest.raises(InseparableError, match="Two samples are equal and have targets more than 2 epsilon apart") as refused:
        SVR(C=np.inf, epsilon=EPSILON).fit(X, far)
    assert np.array_equal(np.flatnonzero(refused.value.ray), [0, len(t)])


def test_a_sample_of_weight_zero_does_not_count():
    X, t = plane()
    far, weights = np.append(t, 50.0), np.append(np.ones(len(t)), 0.0)
    X = np.vstack([X, X[:1]])
    for model in (LinearSVR(C=np.inf, epsilon=EPSILON), SVR(C=np.inf, epsilon=EPSILON)):
        assert model.fit(X, far, weights).status_ is Status.CERTIFIED
        with pytest.raises(InseparableError):
            model.fit(X, far)


def test_constant_targets_are_certified():
    X, _ = plane()
    for model in (LinearSVR(C=np.inf, epsilon=0.1), SVR(C=np.inf), SVR(C=np.inf, kernel="linear")):
        assert model.fit(X, np.full(len(X), 7.0)).status_ is Status.CERTIFIED


def test_an_answer_outside_the_tube_is_refused():
    X, t = plane()
    loss: object = EpsilonInsensitive(EPSILON)
    problem = LinearProblem.build(X, t, 1.0, loss, 1.0)
    model = LinearSVR(C=np.inf, epsilon=EPSILON, tol=TOL, warm_start=True).fit(X, t)
    w, alpha = np.append(model.coef_, model.intercept_), model._warm_start.alphas[0]
    assert certify_hard_margin(problem, w, alpha).meets(TOL)
    assert certify_hard_margin(problem, 1.1 * w, alpha).gap == np.inf


@pytest.mark.parametrize("settings", [{"epsilon": 0.0}, {"loss": "quantile"}], ids=str)
@pytest.mark.parametrize("model", [SVR, LinearSVR])
def test_exact_interpolation_is_refused_because_no_rounded_number_proves_it(model, settings):
    with pytest.raises(ValueError, match="no rounded number proves"):
        model(C=np.inf, **{"epsilon": 0.1, **settings}).fit(*plane())


def test_a_warm_start_does_not_scale_by_infinity():
    X, t = plane()
    for model in (LinearSVR(epsilon=EPSILON, warm_start=True), SVR(epsilon=EPSILON, warm_start=True)):
        model.fit(X, t)
        assert model.set_params(C=np.inf).fit(X, t).status_ is Status.CERTIFIED
        assert model.set_params(C=2.0).fit(X, t).status_ is Status.CERTIFIED

"""SVR: scikit-learn's contract, LIBSVM's answers, what is proved of its own, and data as it comes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, load_linnerud
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVR as TheirSVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVR, NuSVR, Status

KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.3},
    "cubic": {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 3},
    "linear": {"kernel": "linear"},
}
kernels = pytest.mark.parametrize("name", KERNELS)


@parametrize_with_checks([SVR(), SVR(loss="quantile", quantile=0.3), SVR(kernel="linear", epsilon=0.0)])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def drawn(n: int = 150, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.standard_t(3, size=n)


def test_defaults_are_those_of_scikit_learn_but_for_the_cache():
    theirs, ours = TheirSVR().get_params(), SVR().get_params()
    assert {name: ours[name] for name in theirs} == {**theirs, "verbose": 0, "cache_size": 500.0}


@kernels
@pytest.mark.parametrize("epsilon", [0.0, 0.15])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_model_is_that_of_libsvm(name, epsilon, is_sparse):
    X, y = drawn()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    settings = {**KERNELS[name], "C": 0.7, "epsilon": epsilon}
    theirs = TheirSVR(**settings, tol=1e-8).fit(X, y, weights)
    ours = SVR(**settings, tol=1e-10).fit(sparse.csr_array(X) if is_sparse else X, y, weights)
    assert ours.status_ is Status.CERTIFIED
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=2e-4)
    assert ours.dual_coef_.shape[0] == theirs.dual_coef_.shape[0] == 1
    assert ours.intercept_.shape == theirs.intercept_.shape
    np.testing.assert_allclose(ours.dual_coef_.sum(), 0.0, atol=1e-10)
    if name == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)


def test_precomputed_and_callable_kernels_give_the_model_of_the_named_one():
    X, y = drawn()
    settings = {"C": 2.0, "epsilon": 0.1, "tol": 1e-10}
    named = SVR(gamma=0.3, **settings).fit(X[:100], y[:100])
    gram = pairwise_kernels(X, metric="rbf", gamma=0.3)
    given = SVR(kernel="precomputed", **settings).fit(gram[:100, :100], y[:100])
    called = SVR(kernel=lambda A, B: pairwise_kernels(A, B, metric="rbf", gamma=0.3), **settings).fit(X[:100], y[:100])
    expected = named.predict(X[100:])
    np.testing.assert_allclose(given.predict(gram[100:, :100]), expected, atol=1e-6)
    np.testing.assert_allclose(called.predict(X[100:]), expected, atol=1e-6)
    values, radius = given.certified_predict(gram[100:, :100], diagonal=np.ones(50))
    assert np.all(np.abs(values - expected) <= radius + named.certified_predict(X[100:]).radius)


def test_the_sigmoid_kernel_is_stationary_and_proves_nothing():
    X, y = drawn(80)
    model = SVR(kernel="sigmoid", gamma=0.05, tol=1e-4).fit(X, y)
    theirs = TheirSVR(kernel="sigmoid", gamma=0.05, tol=1e-6).fit(X, y)
    assert model.status_ is Status.STATIONARY
    assert np.isinf(model.certified_predict(X).radius).all()
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), atol=0.05)


@kernels
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "quantile"])
def test_the_exact_prediction_lies_within_the_radius(name, loss):
    X, y = drawn()
    settings = {**KERNELS[name], "loss": loss, "quantile": 0.3}
    truth = SVR(**settings, tol=1e-11).fit(X, y).certified_predict(X)
    for tol in (1e-1, 1e-3):
        rough = SVR(**settings, tol=tol, solver="batched-smo").fit(X, y)
        values, radius = rough.certified_predict(X)
        np.testing.assert_allclose(values, rough.predict(X), rtol=1e-10)
        assert np.all(np.abs(values - truth.values) <= radius + truth.radius)
        assert radius.mean() > truth.radius.mean() > 0.0


def test_the_quantile_loss_leaves_the_share_asked_for_below():
    X, y = drawn(400)
    below = [np.mean(y < SVR(loss="quantile", quantile=q, tol=1e-8).fit(X, y).predict(X) - 1e-6) for q in (0.1, 0.5, 0.9)]
    on_or_below = [np.mean(y < SVR(loss="quantile", quantile=q, tol=1e-8).fit(X, y).predict(X) + 1e-6) for q in (0.1, 0.5, 0.9)]
    for q, low, high in zip((0.1, 0.5, 0.9), below, on_or_below, strict=True):
        assert low <= q <= high


@pytest.mark.parametrize("n", [120, 1300])
def test_a_column_of_several_targets_is_fitted_as_it_is_alone(n):
    X, y = drawn(n)
    Y = np.column_stack([y, -200.0 * y + X[:, 0], np.full(n, 1.5)])
    several = SVR(tol=1e-9, gamma=0.3, n_jobs=2).fit(X, Y)
    assert several.dual_coef_.shape[0] == 3
    assert len(several.certificate_) == 3
    for k in range(3):
        alone = SVR(tol=1e-9, gamma=0.3).fit(X, Y[:, k])
        np.testing.assert_allclose(several.predict(X)[:, k], alone.predict(X), atol=1e-3 * max(1.0, np.ptp(Y[:, k])))


@pytest.mark.parametrize("n", [60, 700])
def test_a_sample_of_weight_two_is_the_same_as_two_samples(n):
    X, y = drawn(n)
    counts = np.random.default_rng(0).integers(0, 3, n)
    weighted = SVR(tol=1e-11).fit(X, y, counts.astype(float))
    repeated = SVR(tol=1e-11).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


def test_a_warm_start_finds_the_same_model_in_fewer_steps():
    X, y = drawn(1500)
    cold = SVR(C=2.0, tol=1e-6, solver="batched-smo").fit(X, y)
    warm = SVR(C=1.9, tol=1e-6, solver="batched-smo", warm_start=True).fit(X, y).set_params(C=2.0).fit(X, y)
    np.testing.assert_allclose(warm.predict(X), cold.predict(X), atol=1e-2)
    assert warm.trace_[-1].steps < cold.trace_[-1].steps


@pytest.mark.parametrize("shift", [0.0, 1e7])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_unit_and_the_origin_of_the_targets_do_not_matter(unit, shift):
    X, y = drawn(200)
    plain = SVR(C=3.0, epsilon=0.1, tol=1e-8).fit(X, y)
    moved = SVR(C=3.0 * unit, epsilon=0.1 * unit, tol=1e-8).fit(X, unit * (y + shift))
    assert moved.status_ is Status.CERTIFIED
    np.testing.assert_allclose(moved.predict(X) / unit - shift, plain.predict(X), atol=1e-4 + 1e-14 * shift)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "quantile"])
def test_constant_targets_and_one_sample_are_certified(loss):
    X, _ = drawn(30)
    for rows, target in ((X, 4.0), (X[:1], -7.0), (np.zeros((5, 2)), 1e9)):
        model = SVR(loss=loss, tol=1e-6).fit(rows, np.full(len(rows), target))
        assert model.status_ is Status.CERTIFIED
        np.testing.assert_allclose(model.predict(rows), target, rtol=1e-9, atol=0.1)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_raw_columns_and_raw_targets_are_certified(kernel):
    """Unscaled features of diabetes beside a unix time, and targets of millions."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X = np.column_stack([X, 1.7e9 + np.arange(len(X))])
    model = SVR(kernel=kernel, degree=2, C=1e4, epsilon=1e3, tol=1e-6).fit(X, 1e6 + 1e4 * y)
    assert model.status_ is Status.CERTIFIED


def test_several_outputs_of_a_real_table_are_certified():
    X, Y = load_linnerud(return_X_y=True)
    model = SVR(C=10.0, epsilon=1.0, tol=1e-8).fit(X, Y)
    assert model.status_ == [Status.CERTIFIED] * 3
    assert model.predict(X).shape == Y.shape


def test_a_model_survives_pickling():
    X, y = drawn(60)
    model = SVR().fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": -0.1}, "epsilon must be at least 0"),
        ({"loss": "quantile", "quantile": 1.0}, "quantile must be greater than 0 and less than 1"),
        ({"loss": "squared_epsilon_insensitive"}, "loss must be one of"),
        ({"C": 0.0}, "C must be greater than 0"),
        ({"solver": "smo"}, "is for classification"),
        ({"solver": "irwls"}, "is for classification"),
        ({"kernel": "cosine"}, "kernel must be one of"),
    ],
)
def test_bad_parameters_are_refused_by_a_sentence(settings, message):
    X, y = drawn(20)
    with pytest.raises(ValueError, match=message):
        SVR(**settings).fit(X, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_targets_that_are_not_finite_are_refused(bad):
    X, y = drawn(20)
    y[3] = bad
    with pytest.raises(ValueError, match="y contains"):
        SVR().fit(X, y)


@pytest.mark.parametrize("make", [SVR, NuSVR])
def test_a_target_that_float32_cannot_hold_gives_a_certified_fit_without_a_warning(make):
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = X @ [1.0, 2.0, 3.0]
    y[4] = 1e308
    assert make().fit(X, y).status_ is Status.CERTIFIED

"""LinearSVR: scikit-learn's contract, what is proved of its answers, and data as it comes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVR as TheirSVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LinearSVR, Status

LOSSES = ["epsilon_insensitive", "squared_epsilon_insensitive", "quantile"]
losses = pytest.mark.parametrize("loss", LOSSES)
penalties = pytest.mark.parametrize("is_penalised", [True, False], ids=["penalised", "free"])


@parametrize_with_checks([LinearSVR(), LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.1, penalize_intercept=False)])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def drawn(n: int = 120, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + 3.0 + 0.3 * rng.standard_t(3, size=n)


def test_defaults_are_those_of_scikit_learn_but_for_the_limit_on_iterations():
    theirs, ours = TheirSVR().get_params(), LinearSVR().get_params()
    assert {name: ours[name] for name in theirs} == {**theirs, "max_iter": -1}


@pytest.mark.parametrize("loss", LOSSES[:2])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
@pytest.mark.parametrize("scaling", [None, 1.0, 7.0])
def test_the_model_is_that_of_scikit_learn(loss, epsilon, scaling):
    X, y = drawn()
    settings = {"C": 0.3, "loss": loss, "epsilon": epsilon, "fit_intercept": scaling is not None}
    settings["intercept_scaling"] = scaling or 1.0
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    ours = LinearSVR(**settings, tol=1e-10).fit(X, y, weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = TheirSVR(**settings, tol=1e-9, max_iter=200_000, random_state=0).fit(X, y, weights)
    assert ours.coef_.shape == theirs.coef_.shape
    assert np.shape(ours.intercept_) == (1,)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-2)


@losses
@penalties
def test_the_exact_prediction_lies_within_the_radius(loss, is_penalised):
    X, y = drawn()
    settings = {"loss": loss, "epsilon": 0.1, "quantile": 0.3, "penalize_intercept": is_penalised}
    exact = LinearSVR(**settings, tol=1e-13).fit(X, y) if is_penalised else LinearSVR(**settings, tol=1e-12).fit(X, y)
    truth = exact.certified_predict(X)
    radii = []
    for tol in (1e-1, 1e-3, 1e-6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            solver = "dcd" if is_penalised else "newton"
            rough = LinearSVR(**settings, tol=tol, solver=solver).fit(X, y)
        values, radius = rough.certified_predict(X)
        np.testing.assert_allclose(values, rough.predict(X), rtol=1e-12)
        assert np.all(np.abs(values - truth.values) <= radius + truth.radius)
        radii.append(radius.mean())
    assert radii[0] > radii[-1] > 0.0


@losses
def test_a_column_of_several_targets_is_fitted_as_it_is_alone(loss):
    X, y = drawn()
    Y = np.column_stack([y, -2.0 * y + X[:, 0], np.full(len(y), 1.5)])
    several = LinearSVR(loss=loss, tol=1e-8, n_jobs=2).fit(X, Y)
    assert several.coef_.shape == (3, X.shape[1])
    assert several.intercept_.shape == (3,)
    assert len(several.certificate_) == len(several.status_) == 3
    assert several.predict(X).shape == Y.shape
    assert several.certified_predict(X).radius.shape == Y.shape
    for column in range(3):
        alone = LinearSVR(loss=loss, tol=1e-8).fit(X, Y[:, column])
        np.testing.assert_array_equal(alone.coef_, several.coef_[column])
        np.testing.assert_array_equal(alone.intercept_, several.intercept_[column : column + 1])


@losses
@penalties
def test_a_sample_of_weight_three_is_three_samples_and_one_of_weight_zero_is_none(loss, is_penalised):
    X, y = drawn(60)
    weights = np.array([0.0, 1.0, 3.0])[np.arange(60) % 3]
    settings = {"loss": loss, "epsilon": 0.05, "tol": 1e-11, "penalize_intercept": is_penalised}
    weighted = LinearSVR(**settings).fit(X, y, weights)
    repeats = weights.astype(int)
    repeated = LinearSVR(**settings).fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
    apart = np.linalg.norm(weighted.coef_ - repeated.coef_)
    assert apart <= weighted.certificate_.distance_bound + repeated.certificate_.distance_bound


@losses
def test_sparse_and_dense_data_give_one_model(loss):
    X, y = drawn()
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0.0
    dense = LinearSVR(loss=loss, tol=1e-9).fit(X, y)
    thin = LinearSVR(loss=loss, tol=1e-9).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.coef_, thin.coef_, atol=1e-4)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), thin.predict(X), rtol=1e-12)


def test_warm_start_at_the_answer_ends_at_once_and_another_shape_starts_afresh():
    X, y = drawn(2000, 60)
    model = LinearSVR(C=1e-3, tol=1e-5, warm_start=True, solver="dcd").fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first
    assert model.set_params(C=1.1e-3).fit(X, y).relative_gap_ <= 1e-5
    assert model.fit(X[:500], y[:500]).relative_gap_ <= 1e-5


@pytest.mark.parametrize("value", [0.0, 7.0, -1e6])
@losses
@penalties
def test_constant_targets_get_a_certified_answer(value, loss, is_penalised):
    X, _ = drawn(40)
    model = LinearSVR(loss=loss, penalize_intercept=is_penalised, tol=1e-6).fit(X, np.full(40, value))
    assert model.status_ is Status.CERTIFIED
    if not is_penalised:
        np.testing.assert_allclose(model.predict(X), value, rtol=1e-9)


@losses
@penalties
def test_one_sample_is_enough(loss, is_penalised):
    model = LinearSVR(loss=loss, penalize_intercept=is_penalised, C=100.0).fit([[1.0, 2.0]], [3.0])
    assert model.status_ is Status.CERTIFIED
    assert model.predict([[1.0, 2.0]]) == pytest.approx(3.0, abs=0.05)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": -0.1}, r"epsilon must be at least 0; got -0.1"),
        ({"epsilon": np.nan}, r"epsilon must be a finite number; got nan"),
        ({"quantile": 0.0}, r"quantile must be greater than 0 and less than 1; got 0.0"),
        ({"quantile": 1.5}, r"quantile must be greater than 0 and less than 1; got 1.5"),
        ({"loss": "hinge"}, r"loss must be one of 'epsilon_insensitive', 'squared_epsilon_insensitive', 'quantile'"),
        ({"C": 0.0}, r"C must be greater than 0"),
        ({"tol": -1.0}, r"tol must be at least 0"),
        ({"intercept_scaling": 0.0}, r"intercept_scaling must be greater than 0"),
        ({"max_seconds": 0.0}, r"max_seconds must be greater than 0"),
    ],
)
def test_a_parameter_out_of_range_is_named(settings, message):
    X, y = drawn(20)
    with pytest.raises(ValueError, match=message):
        LinearSVR(**settings).fit(X, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_targets_that_are_not_finite_are_refused_and_leave_the_model_as_it_was(bad):
    X, y = drawn(20)
    model = LinearSVR().fit(X, y)
    before = model.coef_.copy()
    y[3] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.coef_, before)


def test_a_fit_that_is_cut_short_says_so_and_still_knows_how_far_it_is():
    X, y = drawn(3000, 30)
    with pytest.warns(ConvergenceWarning, match=r"asked: 1e-12, reached"):
        model = LinearSVR(solver="dcd", tol=1e-12, max_iter=1).fit(X, y)
    assert model.status_ is Status.EPOCH_LIMIT
    assert np.isfinite(model.certificate_.distance_bound)


@pytest.mark.parametrize("loss", LOSSES)
@penalties
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_raw_columns_beside_each_other_are_fitted_to_the_target(loss, is_penalised, C):
    """A year, a salary, a unix time and a rate, and targets far from zero."""
    rng = np.random.default_rng(3)
    n = 300
    X = np.column_stack(
        [rng.integers(1980, 2024, n), rng.lognormal(11, 0.5, n), 1.6e9 + rng.uniform(0, 1e8, n), rng.uniform(0.0, 0.1, n)]
    )
    y = 250_000.0 + 3.0 * X[:, 1] + 1e6 * X[:, 3] + 2e4 * rng.standard_t(3, n)
    model = LinearSVR(loss=loss, penalize_intercept=is_penalised, C=C, epsilon=1e3, tol=1e-6).fit(X, y)
    assert model.status_ is Status.CERTIFIED


def test_score_is_the_coefficient_of_determination():
    X, y = load_diabetes(return_X_y=True)
    model = LinearSVR(C=100.0, tol=1e-6, penalize_intercept=False).fit(X, y)
    rest = y - model.predict(X)
    assert model.score(X, y) == pytest.approx(1.0 - rest @ rest / np.sum(np.square(y - y.mean())))
    assert model.score(X, y) > 0.4

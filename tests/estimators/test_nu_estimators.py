"""OneClassSVM, NuSVC and NuSVR: scikit-learn's contract, LIBSVM's answers, and what is proved."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn import svm
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, NuSVC, NuSVR, OneClassSVM, Status
from maxmargin.models.proof import prove

LOOP = 10**6
"""With a limit of epochs the driver's loop solves small problems, too, and ends at ``tol``. Without one they are solved to
rounding."""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # random labels: |w|^2 is next to nothing
@parametrize_with_checks([OneClassSVM(), NuSVC(nu=0.3), NuSVR()])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", ["OneClassSVM", "NuSVC", "NuSVR"])
def test_defaults_are_those_of_scikit_learn_but_for_the_cache(name):
    theirs = getattr(svm, name)().get_params()
    theirs.pop("probability", None)
    ours = {"OneClassSVM": OneClassSVM, "NuSVC": NuSVC, "NuSVR": NuSVR}[name]().get_params()
    assert {key: ours[key] for key in theirs} == {**theirs, "cache_size": 500.0, "verbose": 0}


def drawn(n: int = 300, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_one_class_is_that_of_libsvm(kernel):
    X = drawn()[0] + 2.0
    settings = {"kernel": kernel, "gamma": 0.2, "nu": 0.15, "coef0": 1.0}
    theirs, ours = svm.OneClassSVM(**settings, tol=1e-9).fit(X), OneClassSVM(**settings, tol=1e-9).fit(X)
    scale = abs(theirs.offset_[0])
    np.testing.assert_allclose(ours.offset_, theirs.offset_, rtol=1e-4)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-4 * scale)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=2e-4)
    assert np.mean(ours.predict(X) == -1) <= 0.15
    if kernel == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3)


def test_proved_inliers_and_outliers_are_those_of_the_exact_optimum():
    X = drawn(400)[0]
    exact = OneClassSVM(nu=0.2, tol=1e-11).fit(X)
    rough = OneClassSVM(nu=0.2, tol=1e-2, max_iter=LOOP).fit(X)
    labels, proved = rough.certified_predict(X)
    assert 0 < proved.sum() < len(X)
    np.testing.assert_array_equal(labels[proved], exact.predict(X)[proved])
    assert exact.certified_predict(X).proved.mean() > rough.certified_predict(X).proved.mean()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_nu_svc_is_that_of_libsvm_with_three_classes(is_sparse):
    X, y = load_iris(return_X_y=True)
    settings = {"nu": 0.25, "gamma": 0.5}
    theirs = svm.NuSVC(**settings, tol=1e-9).fit(X, y)
    ours = NuSVC(**settings, tol=1e-9).fit(sparse.csr_array(X) if is_sparse else X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    assert ours.rho_.shape == (3,)
    assert ours.status_ == [Status.CERTIFIED] * 3


def test_proved_labels_of_nu_svc_are_those_of_the_exact_optimum():
    X, _ = drawn(400)
    y = np.where(X[:, 0] + 0.3 * X[:, 1] ** 2 > 0.3, 1, 0)
    exact, rough = NuSVC(nu=0.3, tol=1e-10).fit(X, y), NuSVC(nu=0.3, tol=1e-2, max_iter=LOOP).fit(X, y)
    labels, proved = rough.certified_predict(X)
    assert 0 < proved.sum() < len(X)
    np.testing.assert_array_equal(labels[proved], exact.predict(X)[proved])


@pytest.mark.parametrize("weights", ["balanced", {0: 1.0, 1: 1e3}, {0: 1e-4, 1: 1.0}])
def test_class_weights_multiply_the_cost_that_nu_stands_for(weights):
    X, t = drawn()
    y = (t > np.quantile(t, 0.7)).astype(int)
    plain, model = NuSVC(nu=0.3, tol=1e-8).fit(X, y), NuSVC(nu=0.3, tol=1e-8, class_weight=weights).fit(X, y)
    np.testing.assert_allclose(model.cost_, 1.0 / plain.rho_)
    same = SVC(C=float(model.cost_[0]), tol=1e-8, class_weight=weights).fit(X, y)
    assert model.status_ is Status.CERTIFIED
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), atol=1e-3)
    labels, proved = model.certified_predict(X)
    np.testing.assert_array_equal(labels[proved], same.predict(X)[proved])
    (certificate,) = prove(model, X, y, C=1.0, tol=1e-4, max_seconds=30.0)
    assert certificate.meets(1e-4)


def test_weights_of_one_change_nothing():
    X, t = drawn()
    y = (t > 0.0).astype(int)
    plain, model = (NuSVC(nu=0.3, tol=1e-9, class_weight=w).fit(X, y) for w in (None, {0: 1.0, 1: 1.0}))
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("nu", [0.1, 0.5, 1.0])
def test_nu_svr_is_that_of_libsvm_and_its_tube_that_of_svr(nu):
    X, y = drawn()
    theirs, ours = svm.NuSVR(nu=nu, C=2.0, tol=1e-9).fit(X, y), NuSVR(nu=nu, C=2.0, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=2e-3)
    same = svm.SVR(C=2.0, epsilon=max(0.0, ours.epsilon_), tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), same.predict(X), atol=2e-3)
    assert np.mean(np.abs(y - ours.predict(X)) > ours.epsilon_ + 1e-3) <= nu


def test_the_exact_prediction_of_nu_svr_lies_within_the_radius():
    X, y = drawn()
    truth = NuSVR(tol=1e-10).fit(X, y).certified_predict(X)
    values, radius = NuSVR(tol=1e-2, max_iter=LOOP).fit(X, y).certified_predict(X)
    assert np.all(np.abs(values - truth.values) <= radius + truth.radius)
    assert radius.mean() > truth.radius.mean()


def test_a_column_of_several_targets_is_fitted_as_it_is_alone():
    X, y = drawn(120)
    both = NuSVR(tol=1e-9, n_jobs=2).fit(X, np.column_stack([y, 1e3 - 50.0 * y]))
    assert both.epsilon_.shape == (2,)
    np.testing.assert_allclose(both.predict(X)[:, 0], NuSVR(tol=1e-9).fit(X, y).predict(X), atol=1e-6)


@pytest.mark.parametrize("model", [OneClassSVM(), NuSVR(), NuSVC()], ids=["one-class", "nu-svr", "nu-svc"])
def test_a_model_survives_pickling(model):
    X, y = drawn(60)
    model.fit(X, (y > np.median(y)).astype(int))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.parametrize("model", [OneClassSVM, NuSVR, NuSVC])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nu": 0.0}, "nu must be greater than 0"),
        ({"nu": 1.01}, "nu must be greater than 0"),
        ({"solver": "smo"}, "solver must be one of"),
    ],
)
def test_bad_parameters_are_refused_by_a_sentence(model, settings, message):
    X, y = drawn(20)
    with pytest.raises(ValueError, match=message):
        model(**settings).fit(X, (y > 0).astype(int))


def columns_of_many_scales(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng, scales = np.random.default_rng(0), np.logspace(-4.0, 6.0, 11)
    X = rng.normal(size=(n, 11)) * scales
    return X, X @ (rng.normal(size=11) / scales) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("nu", [0.3, 0.8])
def test_a_linear_nu_svr_predicts_by_its_coef_whatever_the_scales_of_the_columns(nu):
    X, y = columns_of_many_scales()
    model = NuSVR(kernel="linear", nu=nu, tol=1e-6).fit(X, y)
    assert model.status_ is Status.CERTIFIED
    assert np.array_equal(model.predict(X), X @ model.coef_[0] + model.intercept_[0])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_linear_nu_svr_that_smo_certifies_predicts_by_its_coef_too(is_sparse):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.normal(size=80)
    data = sparse.csr_array(X) if is_sparse else X
    model = NuSVR(kernel="linear", tol=1e-6).fit(data, y)
    assert model.status_ is Status.CERTIFIED
    assert np.array_equal(model.predict(data), data @ model.coef_[0] + model.intercept_[0])
    values, radius = model.certified_predict(data)
    sharp = NuSVR(kernel="linear", tol=1e-12).fit(data, y)
    assert np.all(np.abs(values - sharp.predict(data)) <= radius + sharp.certified_predict(data)[1])


def test_the_value_of_a_regression_is_not_taken_for_zero_because_kernel_values_are_large():
    """Rounding of sums of kernel values of 1e12 is larger than the optimal value, which is about 400."""
    X, y = columns_of_many_scales()
    model = NuSVR(kernel="linear", nu=0.8, tol=1e-6).fit(X, y)
    w, rest = model.coef_[0], np.abs(y - model.predict(X))
    primal = 0.5 * w @ w + 0.8 * model.epsilon_ * len(y) + np.maximum(0.0, rest - model.epsilon_).sum()
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)
    assert model.certificate_.rounding_error <= 1e-6 * primal


def test_a_saturated_sigmoid_is_stationary_whatever_the_size_of_the_targets():
    """The solver measures the violation in units of the targets, and the judge of a kernel without a proof in targets."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = 1e9 * (1.0 + rng.random((200, 3))), 1e5 * rng.integers(0, 3, 200) + rng.random(200)
        assert NuSVR(kernel="sigmoid", gamma="auto").fit(X, y).status_ is Status.STATIONARY

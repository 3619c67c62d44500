"""Pairs of classes whose kernel has few features: SMO is tried before Newton's method on the features."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sklearn.svm
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, Status
from maxmargin.estimators import policy
from maxmargin.estimators.pair_trials import ratio_of_scales, trial_steps
from maxmargin.solving import at_once
from tests.problem.test_feature_maps import unix_times


def statuses(model):
    return model.status_ if isinstance(model.status_, list) else [model.status_]


def methods(model):
    """Which solver gave the answer of each pair."""
    traces = model.trace_ if isinstance(model.trace_, list) else [model.trace_]
    return [trace[-1].solver for trace in traces]


@pytest.fixture
def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    return X / 16.0, y


@pytest.fixture
def without_trials(monkeypatch):
    def fit(model, *data):
        with monkeypatch.context() as patched:
            patched.setattr(policy, "FEATURES", replace(policy.FEATURES, trial_share=0.0))
            return model.fit(*data)

    return fit


@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {"kernel": "poly", "degree": 2}], ids=str)
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_trial_and_newton_agree_within_their_certificates(settings, C, without_trials):
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    one, other = SVC(C=C, **settings).fit(X, y), without_trials(SVC(C=C, **settings), X, y)
    assert set(methods(one)) == {"smo"}
    assert set(methods(other)) == {"newton"}
    assert set(statuses(one) + statuses(other)) == {Status.CERTIFIED}
    for mine, theirs in zip(one.certificate_, other.certificate_, strict=True):
        assert mine.dual <= theirs.primal + theirs.rounding_error + mine.rounding_error
        assert theirs.dual <= mine.primal + theirs.rounding_error + mine.rounding_error


def test_w_is_that_of_alpha_and_predicts_as_the_kernel_does(digits):
    X, y = digits
    model = SVC(kernel="linear").fit(X, y)
    assert set(methods(model)) == {"smo"}
    assert model._feature_weights_ is not None
    values = model.set_params(decision_function_shape="ovo").decision_function(X)
    assert values == pytest.approx(X @ model.coef_.T + model.intercept_, rel=1e-12, abs=1e-12)
    model._feature_weights_ = None
    assert model.decision_function(X) == pytest.approx(values, rel=1e-9, abs=1e-9)


def test_a_polynomial_whose_pairs_are_all_solved_by_smo_keeps_no_features():
    X, y = load_iris(return_X_y=True)
    model = SVC(kernel="poly", degree=2).fit(X, y)
    assert set(methods(model)) == {"smo"}
    assert model._feature_weights_ is None
    assert (model.predict(X) == sklearn.svm.SVC(kernel="poly", degree=2).fit(X, y).predict(X)).mean() > 0.98


def test_a_trial_goes_on_after_a_refused_certificate():
    """On copies of wine the first certificate of two pairs is refused: SMO expects the gap and does not measure it."""
    X, y = load_wine(return_X_y=True)
    X, y = np.tile((X - X.mean(axis=0)) / X.std(axis=0), (4, 1)), np.tile(y, 4)
    model = SVC(kernel="poly", degree=2).fit(X, y)
    assert set(methods(model)) == {"smo"}
    assert max(len(trace) for trace in model.trace_) > 1
    assert set(statuses(model)) == {Status.CERTIFIED}


@pytest.mark.parametrize("C", [1.0, 1e6])
def test_newton_takes_over_where_smo_does_not_end(C):
    model = SVC(kernel="linear", C=C).fit(*unix_times())
    assert methods(model) == ["newton"]
    assert model.status_ is Status.CERTIFIED


def test_pairs_of_both_methods_make_one_model():
    """The third class is far away: SMO separates it from the others in a few steps, and takes long to separate these."""
    random = np.random.default_rng(0)
    X = random.normal(size=(360, 8))
    y = np.where(X[:, 0] + 0.5 * random.normal(size=360) > 0.0, 1, 0)
    X[300:] += 20.0
    y[300:] = 2
    model = SVC(kernel="linear", C=1000.0, tol=1e-5).fit(X, y)
    assert sorted(set(methods(model))) == ["newton", "smo"]
    assert set(statuses(model)) == {Status.CERTIFIED}
    assert model.coef_.shape == (3, 8)
    labels, proved = model.certified_predict(X)
    fine = SVC(kernel="linear", C=1000.0, tol=1e-8).fit(X, y)
    assert np.array_equal(labels[proved], fine.predict(X)[proved])
    assert proved.mean() > 0.2


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid"])
def test_another_number_of_threads_gives_the_same_bits(digits, kernel):
    one, two = (SVC(kernel=kernel, n_jobs=n_jobs).fit(*digits) for n_jobs in (1, 2))
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert np.array_equal(one.intercept_, two.intercept_)
    assert np.array_equal(one.decision_function(digits[0]), two.decision_function(digits[0]))


def test_a_proved_label_is_that_of_a_much_better_solution(digits):
    X, y = digits
    rough, fine = SVC(kernel="linear", tol=0.05).fit(X[::2], y[::2]), SVC(kernel="linear", tol=1e-9).fit(X[::2], y[::2])
    labels, proved = rough.certified_predict(X)
    assert proved.any()
    assert np.array_equal(labels[proved], fine.predict(X)[proved])


def test_the_distance_bound_holds_for_the_computed_w(digits):
    X, y = digits
    rough, fine = (SVC(kernel="linear", tol=tol).fit(X, y) for tol in (1e-2, 1e-10))
    for w, best, certificate, sharp in zip(rough.coef_, fine.coef_, rough.certificate_, fine.certificate_, strict=True):
        assert np.linalg.norm(w - best) <= certificate.distance_bound + sharp.distance_bound


def test_a_callback_hears_of_a_trial_and_can_end_the_fit(digits):
    heard = []
    model = SVC(kernel="linear", callback=lambda progress: heard.append(progress) or True)
    with pytest.warns(ConvergenceWarning, match="stopped"):
        model.fit(*digits)
    assert heard[0].solver == "smo"
    assert statuses(model)[0] is Status.CERTIFIED
    assert Status.STOPPED in statuses(model)


def test_weights_of_samples_and_no_intercept_are_tried_too(digits):
    X, y = digits
    weights = np.where(np.arange(len(y)) % 2, 1.0, 0.5)
    for model in (SVC(kernel="linear").fit(X, y, weights), SVC(kernel="linear", fit_intercept=False).fit(X, y)):
        assert set(methods(model)) == {"smo"}
        assert set(statuses(model)) == {Status.CERTIFIED}


def test_a_warm_start_begins_at_the_last_alpha(digits):
    model = SVC(kernel="linear", warm_start=True).fit(*digits)
    first = model.n_iter_.sum(), model.dual_coef_
    again = model.fit(*digits)
    assert set(statuses(again)) == {Status.CERTIFIED}
    assert again.n_iter_.sum() <= first[0]


def test_a_trial_takes_no_longer_than_its_share_of_newton(monkeypatch):
    assert trial_steps(400, 10, 10) > 400
    assert trial_steps(1000, 20_000, 100) == 0  # the kernel matrix alone takes longer
    assert trial_steps(8, 10, 10) < trial_steps(40, 10, 10)  # with few samples what a round takes besides its steps decides
    few = trial_steps(400, 10, 10)
    monkeypatch.setattr(policy, "FEATURES", replace(policy.FEATURES, trial_share=0.25))
    assert trial_steps(400, 10, 10) < 0.6 * few


@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
def test_few_samples_with_a_sigmoid_are_stationary_where_libsvm_is(C):
    X, y = load_wine(return_X_y=True)
    X, y = ((X - X.mean(axis=0)) / X.std(axis=0))[y > 0], y[y > 0]
    ours, theirs = SVC(kernel="sigmoid", C=C).fit(X, y), sklearn.svm.SVC(kernel="sigmoid", C=C).fit(X, y)
    assert ours.status_ is Status.STATIONARY
    assert methods(ours) == ["smo"]
    values = np.tanh(X @ X.T / (X.shape[1] * X.var()))

    def objective(model):
        s = np.zeros(len(y))
        s[model.support_] = model.dual_coef_[0]
        return 0.5 * s @ values @ s - np.abs(s).sum()

    assert objective(ours) <= objective(theirs) + 1e-3 * abs(objective(theirs))


def test_a_trial_ends_where_the_certificate_of_an_answer_at_rounding_is_refused(monkeypatch):
    """Columns far from zero: kernel values of 1e18 lose what the certificate needs, and more steps cannot bring it back."""
    rng, counted = np.random.default_rng(9), []
    Z = rng.normal(size=(12, 4))
    X = np.column_stack([293.0 + 3.0 * Z[:, 0], 101_325.0 + 500.0 * Z[:, 1], 1e9 + Z[:, 2], 1e-6 * Z[:, 3]])
    own = at_once.certify_kernel
    monkeypatch.setattr(at_once, "certify_kernel", lambda *one, **more: (counted.append(1), own(*one, **more))[1])
    model = SVC(kernel="linear").fit(X, Z[:, 1] > 0.0)
    assert model.status_ is Status.CERTIFIED
    assert len(counted) <= 4


def test_columns_of_very_different_scales_are_not_tried():
    X, y = load_wine(return_X_y=True)
    assert ratio_of_scales(X) > 300.0
    assert set(methods(SVC(kernel="linear").fit(X, y))) == {"newton"}
    assert ratio_of_scales(X / X.std(axis=0)) == pytest.approx(1.0)


def test_columns_that_hardly_vary_do_not_count(digits):
    X = np.column_stack([digits[0], 1e-9 * np.arange(len(digits[0])), np.ones(len(digits[0]))])
    assert ratio_of_scales(X) < 3.0
    assert ratio_of_scales(np.ones((5, 3))) == 1.0


@pytest.mark.parametrize("seed", [0, 4, 7, 11])
def test_the_weights_that_predict_have_the_objective_of_alpha_which_is_certified(seed):
    """A column of 5e5 beside samples of large weight: summed in float64, w(alpha) would be wrong by more than a margin."""
    random = np.random.default_rng(seed)
    X = np.column_stack([1e-2 * random.standard_normal(21), 555680.811 * random.integers(0, 2, 21)])
    y = np.where(random.random(21) < 0.2, random.integers(0, 2, 21), X[:, 1] > 0.0).astype(int)
    costs = 2.0**-15 * random.choice([1.0, 2.0, 1e6], 21)
    model = SVC(kernel="linear", C=1.0, tol=1e-3).fit(X, y, sample_weight=costs)
    rows = [[Fraction(value) for value in row] for row in X.tolist()]
    alpha, vectors = (model.dual_coef_[0].tolist(), [rows[i] for i in model.support_])
    of_alpha = [sum(Fraction(a) * x[j] for a, x in zip(alpha, vectors, strict=True)) for j in range(2)]

    def primal(w):
        signs, b = (2 * y - 1).tolist(), Fraction(model.intercept_[0].item())
        margins = [sign * (row[0] * w[0] + row[1] * w[1] + b) for sign, row in zip(signs, rows, strict=True)]
        losses = [Fraction(C) * max(Fraction(0), 1 - margin) for C, margin in zip(costs.tolist(), margins, strict=True)]
        return float((w[0] * w[0] + w[1] * w[1]) / 2 + sum(losses))

    assert methods(model) == ["smo"]
    assert primal([Fraction(value) for value in model.coef_[0].tolist()]) == pytest.approx(primal(of_alpha), rel=2e-6)

"""LinearSVRCV and SVRCV: C and gamma of a regression by cross-validation, with bounds on every score."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_regression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVR, SVRCV, LinearSVR, LinearSVRCV
from maxmargin.estimators.search import GIVEN_UP, bounded_errors

CS = [0.01, 0.1, 1.0, 10.0]
SCORES = [None, "neg_mean_squared_error", "neg_mean_absolute_error"]


def samples(n=400, d=8):
    X, y = make_regression(n, d, noise=20.0, random_state=0)
    return X, y / 50.0


def exact(model, X, y, scoring):
    """Scores of every value on every fold, at a gap of 1e-10."""
    search = GridSearchCV(model.set_params(tol=1e-10), {"C": CS}, cv=5, scoring=scoring or "r2", refit=False).fit(X, y)
    return np.stack([search.cv_results_[f"split{k}_test_score"] for k in range(5)])


@pytest.mark.parametrize("scoring", SCORES)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_scores_of_exact_optima_are_within_their_bounds_and_the_best_value_is_found(scoring, loss, is_sparse):
    X, y = samples(3000 if is_sparse else 300, 40 if is_sparse else 8)
    X = sparse.csr_matrix(np.where(np.abs(X) > 0.6, X, 0.0)) if is_sparse else X
    search = LinearSVRCV(CS, scoring=scoring, loss=loss, epsilon=0.1, tol=1e-6).fit(X, y)
    scores = exact(LinearSVR(loss=loss, epsilon=0.1), X, y, scoring)
    low, high = search.score_bounds_
    assert np.all(low <= scores + 1e-9)
    assert np.all(scores <= high + 1e-9)
    assert scores.mean(axis=0).max() - scores.mean(axis=0)[search.Cs_.tolist().index(search.C_)] <= 1e-4
    assert search.score(X, y) <= bounded_errors(scoring).greatest


def test_a_value_that_cannot_win_is_not_trained_on_every_fold():
    X, y = samples()
    search = LinearSVRCV([1e-6, 1e-5, 1.0], loss="squared_epsilon_insensitive", tol=1e-8).fit(X, y)
    assert search.C_ == 1.0
    left = LinearSVRCV([1e-6, 1.0, 10.0], loss="squared_epsilon_insensitive", tol=1e-8).fit(X, y)
    assert np.isnan(left.scores_[:, 0]).sum() == (left.outcomes_[:, 0] == GIVEN_UP).sum()


def test_kernels_find_the_values_of_a_grid_search_and_their_bounds_hold():
    X, y = samples(150, 3)
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.03, 0.3]}
    theirs = GridSearchCV(SVR(tol=1e-8), grid, cv=KFold(5)).fit(X, y)
    search = SVRCV(grid["C"], gammas=grid["gamma"], tol=1e-6).fit(X, y)
    assert (search.C_, search.gamma_) == (theirs.best_params_["C"], theirs.best_params_["gamma"])
    assert search.best_score_ == pytest.approx(theirs.best_score_, abs=1e-3)
    for k in range(5):
        exact_scores = theirs.cv_results_[f"split{k}_test_score"].reshape(3, 2).T
        is_known = ~np.isnan(search.scores_[k])
        assert np.all((search.score_bounds_[0, k] <= exact_scores + 1e-6)[is_known])
        assert np.all((exact_scores <= search.score_bounds_[1, k] + 1e-6)[is_known])


def test_a_precomputed_kernel_gives_scores_without_bounds():
    X, y = samples(80, 3)
    search = SVRCV([0.1, 1.0], kernel="precomputed").fit(X @ X.T, y)
    assert np.isinf(search.score_bounds_).all()
    assert search.predict(X @ X.T).shape == y.shape


@pytest.mark.parametrize("search", [LinearSVRCV([0.1, 1.0], cv=GroupKFold(3)), SVRCV([0.1, 1.0], cv=GroupKFold(3))], ids=repr)
def test_groups_go_to_the_splitter(search):
    X, y = samples(60, 3)
    assert search.fit(X, y, groups=np.arange(60) % 3).scores_.shape[0] == 3


@pytest.mark.parametrize("search", [LinearSVRCV([0.1, 1.0]), SVRCV([0.1, 1.0])], ids=repr)
def test_a_weight_of_two_equals_a_sample_twice(search):
    X, y = samples(40, 3)
    twice = np.concatenate([np.arange(40), np.arange(20)])
    folds = [(np.r_[0:30], np.r_[30:40])], [(np.flatnonzero(twice < 30), np.flatnonzero(twice >= 30))]
    weights = np.where(np.arange(40) < 20, 2.0, 1.0)
    search.set_params(tol=1e-9)
    one = search.set_params(cv=folds[0]).fit(X, y, sample_weight=weights)
    scores, coefficients = one.scores_, one.predict(X)
    other = search.set_params(cv=folds[1]).fit(X[twice], y[twice])
    if not isinstance(search, SVRCV):  # gamma="scale" counts weights in another way
        assert np.allclose(scores, other.scores_, atol=1e-4)
        assert np.allclose(coefficients, other.predict(X), atol=1e-3)


@parametrize_with_checks([LinearSVRCV([0.1, 1.0], cv=2), SVRCV([0.1, 1.0], cv=2)])
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


@pytest.mark.parametrize("search", [LinearSVRCV([0.1, 1.0], cv=2), SVRCV([0.1, 1.0], cv=2)], ids=repr)
def test_the_chosen_model_goes_to_onnx(search):
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    from maxmargin.models.onnx import to_onnx

    X, y = samples(60, 3)
    exported = to_onnx(search.fit(X, y), X)
    session = runtime.InferenceSession(exported.model.SerializeToString())
    values = session.run(None, {"X": X.astype(exported.dtype)})[0].ravel()
    assert np.abs(values - search.predict(X)).max() <= exported.bound

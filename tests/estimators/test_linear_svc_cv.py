"""LinearSVCCV: the scores of separate fits, and bounds that the exact optimum keeps."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_blobs, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import balanced_accuracy_score, f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LinearSVC, LinearSVCCV
from maxmargin.certificate.predictions import CertifiedLabels
from maxmargin.estimators.search import GIVEN_UP, PROVED, bounded_metric

CS = [0.001, 0.03, 1.0, 30.0]


@pytest.fixture(scope="module")
def samples():
    return make_classification(240, 6, flip_y=0.1, random_state=1)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("scoring", [None, "balanced_accuracy", "f1", "roc_auc"])
def test_the_scores_are_those_of_grid_search(samples, loss, scoring):
    search = LinearSVCCV(CS, loss=loss, tol=1e-10, scoring=scoring).fit(*samples)
    grid = GridSearchCV(LinearSVC(loss=loss, tol=1e-10), {"C": CS}, scoring=scoring).fit(*samples)
    trained = ~np.isnan(search.scores_).any(axis=0)
    assert search.C_ == grid.best_params_["C"]
    assert search.best_score_ == pytest.approx(grid.best_score_, abs=1e-9)
    assert search.scores_.mean(axis=0)[trained] == pytest.approx(grid.cv_results_["mean_test_score"][trained], abs=1e-9)
    assert search.coef_ == pytest.approx(grid.best_estimator_.coef_, abs=1e-4)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_the_score_of_the_exact_optimum_is_within_the_bounds(samples, tol):
    coarse = LinearSVCCV(CS, tol=tol).fit(*samples)
    exact = GridSearchCV(LinearSVC(tol=1e-12), {"C": CS}).fit(*samples).cv_results_
    for i in range(5):
        low, high = coarse.score_bounds_[:, i]
        scores = exact[f"split{i}_test_score"]
        assert np.all((low <= scores) & (scores <= high))


def test_a_value_that_cannot_win_is_not_trained_and_says_so():
    X, y = make_blobs(400, centers=2, cluster_std=4.0, random_state=0)
    X[:, 0] += 30.0  # far from the origin: a tiny C with no intercept gives one label to everybody
    search = LinearSVCCV([1e-9, 1e-8, 1.0], fit_intercept=False, tol=1e-8).fit(X, y)
    assert search.C_ == 1.0 or (search.outcomes_ == GIVEN_UP).sum() == 0
    given_up = search.outcomes_ == GIVEN_UP
    assert given_up.any()
    assert np.isnan(search.scores_[given_up]).all()
    assert not np.isnan(search.scores_[~given_up]).any()
    worse = GridSearchCV(LinearSVC(fit_intercept=False, tol=1e-10), {"C": [1e-9, 1e-8, 1.0]}).fit(X, y)
    for k in np.flatnonzero(given_up.any(axis=0)):
        assert worse.cv_results_["mean_test_score"][k] < search.best_score_


def test_a_fold_whose_labels_are_proved_ends_before_tol():
    X, y = make_blobs(1500, centers=[[-3, 0], [3, 0]], random_state=0)
    search = LinearSVCCV([0.01, 0.1, 1.0], tol=1e-12).fit(X, y)
    assert (search.outcomes_ == PROVED).any()
    assert np.array_equal(*search.score_bounds_[:, search.outcomes_ == PROVED])


def test_several_classes_strings_and_threads():
    X, y = make_blobs(200, centers=4, cluster_std=3.0, random_state=0)
    labels = np.array(["a", "b", "c", "d"])[y]
    one, two = (LinearSVCCV([0.1, 1.0], n_jobs=n, tol=1e-6).fit(X, labels) for n in (None, 2))
    assert one.C_ == two.C_
    assert one.best_score_ == two.best_score_
    assert set(one.predict(X)) == set(labels)


def test_the_values_are_sorted_and_a_number_means_so_many():
    X, y = make_classification(60, random_state=0)
    assert LinearSVCCV([1.0, 0.1]).fit(X, y).Cs_.tolist() == [0.1, 1.0]
    assert LinearSVCCV(5).fit(X, y).Cs_ == pytest.approx(np.logspace(-3, 3, 5))
    for wrong in (0, [], [-1.0], [np.nan]):
        with pytest.raises(ValueError, match="positive numbers"):
            LinearSVCCV(wrong).fit(X, y)


def test_without_refit_nothing_predicts_but_C_is_known(samples):
    search = LinearSVCCV(CS, refit=False).fit(*samples)
    assert search.C_ in CS
    with pytest.raises(NotFittedError):
        search.predict(samples[0])


def test_groups_go_to_the_splitter_and_weights_to_the_training_and_the_score(samples):
    X, y = samples
    groups = np.arange(len(y)) % 7
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    search = LinearSVCCV(CS, cv=GroupKFold(3), tol=1e-10).fit(X, y, weights, groups=groups)
    k = CS.index(search.C_)
    for (train, test), score in zip(GroupKFold(3).split(X, y, groups), search.scores_[:, k], strict=True):
        model = LinearSVC(tol=1e-10, C=search.C_).fit(X[train], y[train], weights[train])
        assert score == pytest.approx(model.score(X[test], y[test], weights[test]), abs=1e-9)
    with pytest.raises(TypeError, match="groups"):
        LinearSVCCV(CS).fit(X, y, nonsense=1)


def test_metadata_is_routed_where_it_was_requested(samples):
    X, y = samples
    groups, weights = np.arange(len(y)) % 7, np.linspace(0.5, 2.0, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(balanced_accuracy_score).set_score_request(sample_weight=True)
        search = LinearSVCCV(CS, cv=GroupKFold(3), scoring=scorer, tol=1e-8).set_fit_request(sample_weight=True)
        search.fit(X, y, sample_weight=weights, groups=groups)
        model = LinearSVC(tol=1e-8).set_fit_request(sample_weight=True)
        grid = GridSearchCV(model, {"C": CS}, cv=GroupKFold(3), scoring=scorer)
        grid.fit(X, y, sample_weight=weights, groups=groups)
    assert search.best_score_ == pytest.approx(grid.best_score_, abs=1e-9)


def test_every_outcome_of_the_open_labels_is_within_the_bounds_of_the_metrics():
    random = np.random.default_rng(0)
    for _ in range(50):
        y, labels, proved = random.integers(0, 2, 12), random.integers(0, 2, 12), random.random(12) < 0.6
        weights = random.uniform(0.1, 2.0, 12)
        y[:2] = 0, 1
        for scoring, score in (("f1", f1_score), ("balanced_accuracy", balanced_accuracy_score)):
            bounds = bounded_metric(scoring, np.array([0, 1]))(y, CertifiedLabels(labels, proved), np.array([0, 1]), weights)
            assert bounds.value == pytest.approx(score(y, labels, sample_weight=weights))
            outcome = np.where(proved, labels, random.integers(0, 2, 12))
            assert bounds.low - 1e-12 <= score(y, outcome, sample_weight=weights) <= bounds.high + 1e-12


def test_a_search_that_fails_leaves_the_old_model(samples):
    search = LinearSVCCV(CS, cv=StratifiedKFold(3)).fit(*samples)
    before = search.C_
    with pytest.raises(ValueError, match="classes"):
        search.fit(samples[0], np.zeros(len(samples[1])))
    assert search.C_ == before


@parametrize_with_checks([LinearSVCCV(Cs=[0.1, 1.0], cv=3)])
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)

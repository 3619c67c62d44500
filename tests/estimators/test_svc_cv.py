"""SVCCV: the scores of separate fits, from kernel values that are computed once."""

from __future__ import annotations

import math
import signal
import threading

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, SVCCV
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.estimators.kernel_search import SharedSearch
from maxmargin.estimators.search import GIVEN_UP, OUT_OF_TIME, Fold
from maxmargin.solvers.kernel.fold_smo import FoldSMO
from maxmargin.solving import driver
from maxmargin.solving.solution import Status

CS, GAMMAS = [0.03, 1.0, 30.0], [0.02, 0.2]


@pytest.fixture(scope="module")
def samples():
    return make_classification(240, 6, flip_y=0.1, random_state=1)


def check_against_grid_search(search, model, X, y):
    """Values that were given up are worse than the best one."""
    grid = GridSearchCV(model, {"gamma": search.gammas_, "C": search.Cs_}, scoring=search.scoring, cv=search.cv).fit(X, y)
    results = grid.cv_results_
    means = {(p["gamma"], p["C"]): m for p, m in zip(results["params"], results["mean_test_score"], strict=True)}
    assert search.best_score_ == pytest.approx(grid.best_score_, abs=1e-9)
    for g, gamma in enumerate(search.gammas_):
        for c, C in enumerate(search.Cs_):
            mean = search.scores_[:, g, c].mean()
            if np.isnan(mean):
                assert means[gamma, C] < search.best_score_
            else:
                assert mean == pytest.approx(means[gamma, C], abs=1e-9)


@pytest.mark.parametrize("scoring", [None, "balanced_accuracy", "roc_auc"])
def test_the_scores_are_those_of_grid_search(samples, scoring):
    search = SVCCV(CS, gammas=GAMMAS, tol=1e-9, scoring=scoring).fit(*samples)
    check_against_grid_search(search, SVC(tol=1e-9), *samples)


def test_with_shared_kernel_values_the_scores_are_the_same():
    """More samples than are solved from values of their own in float64."""
    X, y = make_classification(1500, 5, flip_y=0.1, random_state=0)
    search = SVCCV([0.1, 1.0, 10.0], gammas=[0.1], tol=1e-6, cv=3).fit(X, y)
    check_against_grid_search(search, SVC(tol=1e-6), X, y)


@pytest.mark.parametrize("cache_size", [1.0, 15.0])
def test_a_small_memory_changes_no_score(cache_size):
    X, y = make_classification(1700, 5, flip_y=0.1, random_state=0)
    search = SVCCV([1.0], gammas=[0.1], tol=1e-5, cv=3, cache_size=cache_size).fit(X, y)
    plain = SVCCV([1.0], gammas=[0.1], tol=1e-5, cv=3).fit(X, y)
    assert search.scores_ == pytest.approx(plain.scores_, abs=2.0 / 500)


def test_values_that_cannot_win_are_not_trained(samples):
    search = SVCCV([1e-6, 1.0, 10.0], gammas=[0.1, 1e-7], tol=1e-9).fit(*samples)
    assert (search.outcomes_ == GIVEN_UP).any()
    check_against_grid_search(search, SVC(tol=1e-9), *samples)


def test_several_classes_other_kernels_and_threads():
    X, y = make_blobs(150, centers=3, cluster_std=3.0, random_state=0)
    labels = np.array(["a", "b", "c"])[y]
    for parameters in ({"kernel": "linear"}, {"kernel": "poly", "degree": 2}, {"gammas": ["scale", "auto", 0.5]}):
        one, two = (SVCCV([0.1, 1.0], n_jobs=n, tol=1e-6, **parameters).fit(X, labels) for n in (None, 2))
        assert one.best_score_ == two.best_score_
        assert one.score(X, labels) > 0.5


def test_a_precomputed_kernel_is_cut_by_rows_and_columns(samples):
    X, y = samples
    given = SVCCV(CS, kernel="precomputed", tol=1e-9).fit(rbf_kernel(X, gamma=0.1), y)
    own = SVCCV(CS, gammas=[0.1], tol=1e-9).fit(X, y)
    assert given.best_score_ == pytest.approx(own.best_score_, abs=1e-9)
    assert given.C_ == own.C_


def test_what_is_wrong_is_said(samples):
    with pytest.raises(ValueError, match="gamma"):
        SVCCV(gammas=[-1.0]).fit(*samples)
    with pytest.raises(ValueError, match="at least one"):
        SVCCV(gammas=[]).fit(*samples)
    with pytest.raises(NotFittedError):
        SVCCV([1.0], refit=False).fit(*samples).predict(samples[0])


@parametrize_with_checks([SVCCV(Cs=[0.1, 1.0], cv=3)])
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


def test_the_limit_of_seconds_is_that_of_the_whole_search():
    X, y = make_classification(400, 5, flip_y=0.2, random_state=0)
    search = SVCCV(Cs=[0.1, 1.0, 10.0], cv=3, max_seconds=1e-6, tol=0.0)
    made, reached = "9 of 9 fits on folds were not made", "The limit on seconds was reached"
    with pytest.warns(ConvergenceWarning, match=reached), pytest.warns(ConvergenceWarning, match=made):
        search.fit(X, y)
    assert (search.outcomes_ == OUT_OF_TIME).all()
    assert search.C_ == 1.0  # where a search begins
    assert math.isnan(search.best_score_)
    assert search.status_ is Status.TIME_LIMIT
    assert search.predict(X).shape == y.shape


def late(search):
    """A search on a matrix that all folds share, for which there is no time."""
    raise OutOfTimeError


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_values_that_were_tried_in_time_are_compared(n_jobs, monkeypatch):
    """The time is up after the fourth fit on a fold: with one value all folds were trained, with another one of them."""
    X, y = make_classification(200, 5, flip_y=0.2, random_state=0)
    n_fits, train = [], Fold.train

    def counted(fold, C, limits):
        n_fits.append(C)
        return train(fold, C, limits)

    monkeypatch.setattr(SharedSearch, "run", late)
    monkeypatch.setattr(Fold, "train", counted)
    monkeypatch.setattr(Stop, "is_late", property(lambda stop: len(n_fits) >= 4))
    search = SVCCV(Cs=[0.1, 1.0, 10.0], cv=3, max_seconds=1e6, n_jobs=n_jobs)
    reached = "The limit on seconds was reached"
    with pytest.warns(ConvergenceWarning, match=reached), pytest.warns(ConvergenceWarning, match="were not made"):
        search.fit(X, y)
    assert search.C_ == 1.0
    assert (search.outcomes_ == OUT_OF_TIME).sum() >= 3
    assert np.isfinite(search.best_score_)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("max_seconds", [None, 1e6])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_ctrl_c_ends_a_search_and_leaves_the_old_model(n_jobs, max_seconds, tol, monkeypatch):
    """A search that shares its kernel values, and with a small ``tol`` one whose folds are fits of their own."""
    X, y = make_classification(200, 5, flip_y=0.2, random_state=0)
    search = SVCCV(Cs=[0.1, 1.0, 10.0], cv=3, n_jobs=n_jobs, max_seconds=max_seconds, tol=tol).fit(X, y)
    before = search.dual_coef_
    main, once = threading.main_thread().ident, threading.Semaphore(1)

    def interrupted(real):
        def call(*args):
            if once.acquire(blocking=False):
                signal.pthread_kill(main, signal.SIGINT)
            return real(*args)

        return call

    monkeypatch.setattr(FoldSMO, "train", interrupted(FoldSMO.train))
    monkeypatch.setattr(driver, "at_once", interrupted(driver.at_once))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs without one
    try:
        with pytest.raises(KeyboardInterrupt):
            search.fit(X, y)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert search.dual_coef_ is before


def test_a_limit_of_seconds_that_is_not_reached_changes_nothing():
    X, y = make_classification(200, 5, flip_y=0.2, random_state=0)
    free, limited = (SVCCV(Cs=[0.1, 1.0, 10.0], cv=3, max_seconds=each).fit(X, y) for each in (None, 1e6))
    assert np.array_equal(free.scores_, limited.scores_)
    assert np.array_equal(free.dual_coef_, limited.dual_coef_)


def test_folds_are_trained_by_themselves_where_there_is_no_time_for_a_matrix_that_they_share(monkeypatch):
    X, y = make_classification(200, 5, flip_y=0.2, random_state=0)
    monkeypatch.setattr(SharedSearch, "run", late)
    search = SVCCV(Cs=[0.1, 1.0, 10.0], gammas=[0.1, 1.0], cv=3, max_seconds=1e6).fit(X, y)
    assert np.isfinite(search.best_score_)
    assert not (search.outcomes_ == OUT_OF_TIME).any()

"""Groups and weights reach the splitter, the training and the score of every search, by hand and by scikit-learn's routing."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_classification, make_regression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVCCV, SVRCV, LinearSVCCV, LinearSVRCV

LIST, RANGE = {"Cs": [0.1, 1.0]}, {"C_range": (0.1, 1.0), "regret": 0.05}
SEARCHES = {
    "LinearSVCCV": (LinearSVCCV, LIST),
    "SVCCV": (SVCCV, LIST),
    "LinearSVRCV": (LinearSVRCV, LIST),
    "SVRCV": (SVRCV, LIST),
    "LinearSVCCV over a range": (LinearSVCCV, RANGE),
    "SVCCV over a range": (SVCCV, RANGE),
}
N = 80
GROUPS, WEIGHTS = np.arange(N) % 8, np.random.default_rng(0).uniform(0.5, 2.0, N)


def samples_of(cls):
    if cls in (LinearSVRCV, SVRCV):
        return make_regression(N, 4, noise=10.0, random_state=0)
    return make_classification(N, 4, flip_y=0.1, random_state=0)


@pytest.mark.parametrize("name", SEARCHES)
def test_groups_and_weights_are_routed_through_an_outer_cross_validation(name):
    cls, parameters = SEARCHES[name]
    X, y = samples_of(cls)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = get_scorer("r2" if cls in (LinearSVRCV, SVRCV) else "accuracy").set_score_request(sample_weight=True)
        search = cls(cv=LeaveOneGroupOut(), scoring=scorer, **parameters)
        search = search.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        params = {"groups": GROUPS, "sample_weight": WEIGHTS}
        found = cross_validate(
            search, X, y, cv=GroupKFold(4), params=params, error_score="raise", return_estimator=True, return_indices=True
        )
    by_hand = cls(cv=LeaveOneGroupOut(), **parameters)
    for inner, train, test, score in zip(
        found["estimator"], found["indices"]["train"], found["indices"]["test"], found["test_score"], strict=True
    ):
        assert inner.scores_.shape[0] == 6
        by_hand.fit(X[train], y[train], sample_weight=WEIGHTS[train], groups=GROUPS[train])
        assert inner.best_score_ == pytest.approx(by_hand.best_score_, abs=1e-9)
        assert score == pytest.approx(by_hand.score(X[test], y[test], sample_weight=WEIGHTS[test]), abs=1e-9)
        np.testing.assert_allclose(inner.score_bounds_, by_hand.score_bounds_, atol=1e-9)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_pipeline_routes_groups_to_the_splitter_of_a_search(name):
    cls, parameters = SEARCHES[name]
    X, y = samples_of(cls)
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), cls(cv=LeaveOneGroupOut(), **parameters)).fit(X, y, groups=GROUPS)
        assert model[-1].scores_.shape[0] == 8
        with pytest.raises(TypeError, match="groups"):
            cls(cv=3, **parameters).fit(X, y, groups=GROUPS)


@pytest.mark.parametrize("name", SEARCHES)
def test_threads_and_a_missing_last_fit_change_no_score(name):
    cls, parameters = SEARCHES[name]
    X, y = samples_of(cls)
    one = cls(cv=3, **parameters).fit(X, y)
    two = cls(cv=3, refit=False, n_jobs=2, **parameters).fit(X, y)
    assert (two.C_, two.best_score_) == (one.C_, pytest.approx(one.best_score_, abs=1e-9))
    assert not hasattr(two, "certificate_")


@pytest.mark.parametrize("name", [name for name, (_, parameters) in SEARCHES.items() if parameters is LIST])
def test_a_callable_score_is_called_for_every_value_on_every_fold(name):
    cls, parameters = SEARCHES[name]
    X, y = samples_of(cls)
    asked = []

    def score(model, X_test, y_test):
        asked.append(model.C)
        return -model.C

    search = cls(cv=3, scoring=score, **parameters).fit(X, y)
    assert sorted(asked) == 3 * [0.1] + 3 * [1.0]
    assert (search.C_, search.best_score_) == (0.1, pytest.approx(-0.1))

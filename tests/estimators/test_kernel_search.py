"""The folds of an RBF search on one matrix: certified, and with bounds that the exact optimum keeps."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from maxmargin import SVC, SVCCV
from maxmargin.estimators import kernel_search
from maxmargin.estimators.kernel_search import SharedSearch
from maxmargin.estimators.search import GIVEN_UP, TRAINED

CS, GAMMAS = [0.01, 0.3, 10.0, 300.0], [0.05, 1.0]


@pytest.fixture(scope="module")
def samples():
    return make_classification(300, 5, flip_y=0.1, random_state=3)


@pytest.fixture
def judged(monkeypatch):
    """The relative gap of every model whose score was kept."""
    gaps, settle = [], SharedSearch._settle

    def watched(self, key, judged, next_tol):
        fit = self.shared[key[0]].fit(float(self.Cs[key[1]]), self.models[key], judged)
        is_settled = settle(self, key, judged, next_tol)
        gaps.extend([kernel_search.relative_gap(fit)] * is_settled)
        return is_settled

    monkeypatch.setattr(SharedSearch, "_settle", watched)
    return gaps


@pytest.mark.parametrize("parameters", [{}, {"fit_intercept": False}, {"class_weight": "balanced"}, {"scoring": "f1"}])
def test_exact_scores_are_within_the_bounds(samples, parameters, judged):
    search = SVCCV(CS, gammas=GAMMAS, tol=1e-4, **parameters).fit(*samples)
    scoring = parameters.pop("scoring", None)
    grid = GridSearchCV(SVC(tol=1e-9, **parameters), {"gamma": GAMMAS, "C": CS}, scoring=scoring).fit(*samples).cv_results_
    for place, values in enumerate(grid["params"]):
        g, c = GAMMAS.index(values["gamma"]), CS.index(values["C"])
        for i in range(5):
            low, high = search.score_bounds_[:, i, g, c]
            assert low - 1e-12 <= grid[f"split{i}_test_score"][place] <= high + 1e-12
    assert len(judged) > 0
    assert max(judged) <= 1e-4
    assert set(np.unique(search.outcomes_)) <= {TRAINED, GIVEN_UP}


def test_weights_count_as_repeated_samples(samples):
    X, y = samples
    weights = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    folds = list(StratifiedKFold(3).split(X, y))
    weighted = SVCCV([1.0, 10.0], gammas=[0.2], tol=1e-5, cv=folds).fit(X, y, sample_weight=weights)
    places = np.repeat(np.arange(len(y)), weights.astype(int))
    repeated = [(np.flatnonzero(np.isin(places, one)), np.flatnonzero(np.isin(places, other))) for one, other in folds]
    plain = SVCCV([1.0, 10.0], gammas=[0.2], tol=1e-5, cv=repeated).fit(X[places], y[places])
    assert np.all(weighted.score_bounds_[0] <= plain.score_bounds_[1] + 1e-12)
    assert np.all(plain.score_bounds_[0] <= weighted.score_bounds_[1] + 1e-12)


def test_threads_and_a_last_fold_that_is_not_trained_change_no_score():
    X, y = make_classification(400, 4, n_redundant=0, class_sep=3.0, flip_y=0.0, random_state=0)
    y[:100] = y[0]  # one class is larger: a tiny C gives its label to everybody
    values = {"Cs": [1e-7, 1e-6, 1e-5, 1.0], "gammas": [0.1, 1e-4], "tol": 1e-5}
    one, two = (SVCCV(**values, n_jobs=n).fit(X, y) for n in (None, 2))
    assert np.array_equal(one.scores_, two.scores_, equal_nan=True)
    assert (one.outcomes_[:, 1] == GIVEN_UP).any()
    assert one.C_ == 1.0

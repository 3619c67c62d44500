"""The proof over a range: no C in it, trained by hand, has an accuracy above the ceiling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score
from sklearn.model_selection import StratifiedKFold

from maxmargin import LinearSVC, LinearSVCCV
from maxmargin.estimators.range_search import RANGE_SCORES
from maxmargin.model_selection.positions import Open, open_interval
from maxmargin.model_selection.range_scores import ACCURACY, BALANCED_ACCURACY, F1, Counts, greatest_mean
from maxmargin.model_selection.transfer import Parabola


def samples(seed=0):
    return make_classification(200, 5, flip_y=0.15, random_state=seed)


def accuracy(X, y, C, **parameters):
    """The mean over five folds, at an exact optimum."""
    scores = [
        LinearSVC(C=C, tol=1e-11, **parameters).fit(X[train], y[train]).score(X[test], y[test])
        for train, test in StratifiedKFold(5).split(X, y)
    ]
    return float(np.mean(scores))


@pytest.mark.parametrize("parameters", [{"loss": "hinge"}, {"loss": "squared_hinge", "fit_intercept": False}])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_no_C_of_the_range_is_above_its_ceiling(parameters, is_sparse):
    X, y = samples()
    if is_sparse:
        X = sparse.csr_matrix(np.where(np.abs(X) > 0.7, X, 0.0))
    search = LinearSVCCV(C_range=(1e-3, 1e2), regret=0.02, **parameters).fit(X, y)
    assert search.regret_ <= 0.02
    assert "No C between 0.001 and 100" in search.proof_
    assert len(search.ceilings_) == len(search.Cs_) - 1
    for C in np.exp(np.random.default_rng(0).uniform(np.log(1e-3), np.log(1e2), 30)):
        k = int(np.searchsorted(search.Cs_, C)) - 1
        exact = accuracy(X, y, C, **parameters)
        assert exact <= search.ceilings_[k] + 1e-9
        assert exact <= search.best_score_ + 0.02 + 1e-9


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_f1_of_unequal_classes_is_proved_over_the_range_too(loss):
    X, y = make_classification(250, 5, weights=[0.8], flip_y=0.1, random_state=4)
    search = LinearSVCCV(C_range=(1e-2, 10.0), regret=0.05, loss=loss, scoring="f1").fit(X, y)
    assert search.regret_ <= 0.05
    assert "has an F1 above" in search.proof_
    splits = list(StratifiedKFold(5).split(X, y))
    for C in np.exp(np.random.default_rng(1).uniform(np.log(1e-2), np.log(10.0), 20)):
        fits = [LinearSVC(C=C, tol=1e-11, loss=loss).fit(X[train], y[train]).predict(X[test]) for train, test in splits]
        exact = np.mean([f1_score(y[test], labels) for labels, (_, test) in zip(fits, splits, strict=True)])
        assert exact <= search.ceilings_[int(np.searchsorted(search.Cs_, C)) - 1] + 1e-9
    at_best = list(search.Cs_).index(search.C_)
    low, high = search.score_bounds_[:, :, at_best].mean(axis=1)
    assert low - 1e-9 <= search.best_score_ <= high + 1e-9


def test_a_weight_of_two_counts_as_two_samples_over_a_range():
    X, y = make_classification(120, 4, flip_y=0.1, random_state=0)
    weights = np.random.default_rng(0).integers(1, 3, len(y)).astype(float)
    train, test = np.arange(80), np.arange(80, 120)
    again = np.repeat(np.arange(120), weights.astype(int))
    repeated = [(np.flatnonzero(np.isin(again, train)), np.flatnonzero(np.isin(again, test)))]
    one = LinearSVCCV(C_range=(0.01, 1.0), regret=0.02, cv=[(train, test)]).fit(X, y, sample_weight=weights)
    two = LinearSVCCV(C_range=(0.01, 1.0), regret=0.02, cv=repeated).fit(X[again], y[again])
    assert one.best_score_ == pytest.approx(two.best_score_, abs=1e-12)
    assert one.ceilings_.max() == pytest.approx(two.ceilings_.max(), abs=0.02)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_balanced_accuracy_of_unequal_classes_is_proved_over_the_range_too(loss):
    X, y = make_classification(250, 5, weights=[0.85], flip_y=0.1, random_state=3)
    search = LinearSVCCV(C_range=(1e-2, 10.0), regret=0.05, loss=loss, scoring="balanced_accuracy").fit(X, y)
    assert search.regret_ <= 0.05
    assert search.proof_.startswith("Cross-validated balanced accuracy at C =")
    assert "has a balanced accuracy above" in search.proof_
    splits = list(StratifiedKFold(5).split(X, y))
    for C in np.exp(np.random.default_rng(1).uniform(np.log(1e-2), np.log(10.0), 20)):
        fits = [LinearSVC(C=C, tol=1e-11, loss=loss).fit(X[train], y[train]).predict(X[test]) for train, test in splits]
        exact = np.mean([balanced_accuracy_score(y[test], labels) for labels, (_, test) in zip(fits, splits, strict=True)])
        assert exact <= search.ceilings_[int(np.searchsorted(search.Cs_, C)) - 1] + 1e-9
    at_best = list(search.Cs_).index(search.C_)
    low, high = search.score_bounds_[:, :, at_best].mean(axis=1)
    assert low - 1e-9 <= search.best_score_ <= high + 1e-9


def test_the_bounds_at_the_knots_hold_and_the_winner_is_proved():
    X, y = samples(1)
    search = LinearSVCCV(C_range=(1e-2, 10.0), regret=0.02).fit(X, y)
    for k in range(0, len(search.Cs_), 4):
        low, high = search.score_bounds_[:, :, k].mean(axis=1)
        assert low - 1e-9 <= accuracy(X, y, search.Cs_[k]) <= high + 1e-9
    assert search.C_ in search.Cs_
    assert search.predict(X).shape == y.shape


def test_open_positions_are_those_at_which_the_inequality_fails():
    random = np.random.default_rng(0)
    theta = np.linspace(0.0, 1.0, 1001)
    for _ in range(300):
        p0, p1, length = random.normal(), random.normal(), abs(random.normal())
        g = Parabola(*random.uniform(0.0, 0.3, 2), random.uniform(0.0, 2.0))
        gap = g.first * (1 - theta) + g.second * theta + g.bend * theta * (1 - theta)
        p = p0 + theta * (p1 - p0)
        fails = ~((p > 0) & (p**2 > length**2 * gap))
        low, high = (end[0] for end in open_interval(np.array([p0]), np.array([p1]), np.array([length]), g))
        assert np.all(fails <= ((low <= theta) & (theta <= high)))
        inside = (low + 1e-3 <= theta) & (theta <= high - 1e-3)
        assert fails[inside].all()


@pytest.mark.parametrize("score", [ACCURACY, BALANCED_ACCURACY, F1])
def test_the_greatest_mean_of_open_samples_is_that_over_all_positions(score):
    random = np.random.default_rng(1)
    folds = [Counts.of(np.where(random.random(30) < 0.3, 1, -1), score, random.random(30)) for _ in range(3)]
    samples = [np.flatnonzero(random.random(30) < 0.8) for _ in folds]
    opens = [Open(*random.random((2, len(own)))) for own in samples]
    positions = np.concatenate([[0.0, 1.0], *(end for each in opens for end in each)])
    means = []
    for position in positions:
        is_open = [np.ones(30, bool) for _ in folds]
        for mask, own, (low, high) in zip(is_open, samples, opens, strict=True):
            mask[own] = (low <= position) & (position <= high)
        means.append(np.mean([fold.value(mask) for fold, mask in zip(folds, is_open, strict=True)]))
    found = greatest_mean([fold.steps(own, each) for fold, own, each in zip(folds, samples, opens, strict=True)])
    assert found == pytest.approx(max(means), abs=1e-12)


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1"])
def test_the_scores_of_a_range_are_those_of_scikit_learn(name):
    random = np.random.default_rng(2)
    y, labels = (np.where(random.random(50) < share, 1, -1) for share in (0.3, 0.5))
    weights = random.random(50)
    counts = Counts.of(y, RANGE_SCORES[name], weights)
    exact = {"accuracy": accuracy_score, "balanced_accuracy": balanced_accuracy_score, "f1": f1_score}[name]
    assert counts.value(y == labels) == pytest.approx(exact(y, labels, sample_weight=weights))


def test_rows_without_features_are_decided_by_convention():
    X, y = samples(2)
    X[::7] = 0.0
    search = LinearSVCCV(C_range=(1e-2, 1.0), regret=0.03, fit_intercept=False).fit(X, y)
    assert search.regret_ <= 0.03
    assert search.best_score_ == pytest.approx(accuracy(X, y, search.C_, fit_intercept=False), abs=1e-9)


def test_what_a_range_cannot_prove_is_said():
    X, y = samples()
    with pytest.raises(ValueError, match="proves accuracy"):
        LinearSVCCV(C_range=(0.1, 1.0), scoring="roc_auc").fit(X, y)
    with pytest.raises(ValueError, match="penalised"):
        LinearSVCCV(C_range=(0.1, 1.0), penalize_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        LinearSVCCV(C_range=(0.1, 1.0)).fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="regret"):
        LinearSVCCV(C_range=(0.1, 1.0), regret=-1.0).fit(X, y)


def test_a_range_over_columns_that_rounding_hides_ends_with_its_first_knots():
    random = np.random.default_rng(0)
    X = np.column_stack([1.6e12 + random.integers(0, 10**8, 200), random.normal(size=200)])
    y = (X[:, 1] + random.normal(size=200) > 0.0).astype(int)
    with pytest.warns(ConvergenceWarning, match="StandardScaler"):
        search = LinearSVCCV(C_range=(1e-3, 1e3), refit=False).fit(X, y)
    assert search.regret_ > 0.005
    assert len(search.Cs_) <= 20

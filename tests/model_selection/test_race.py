"""The proof over a range: no C in it, trained by hand, has an accuracy above the ceiling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold

from maxmargin import LinearSVC, LinearSVCCV
from maxmargin.model_selection.positions import open_interval, sweep
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


def test_a_sweep_counts_the_intervals_at_every_position():
    random = np.random.default_rng(1)
    low, high, weights = random.random(40), random.random(40), random.random(40)
    found = sweep(low, high, weights)
    for position in random.random(50):
        sums = weights[(low <= position) & (position <= high)].sum()
        k = int(np.searchsorted(found.positions, position, side="right")) - 1
        assert found.sums[k] == pytest.approx(sums, abs=1e-12)
    assert found.sums.max() == pytest.approx(max(weights[(low <= t) & (t <= high)].sum() for t in low), abs=1e-12)


def test_rows_without_features_are_decided_by_convention():
    X, y = samples(2)
    X[::7] = 0.0
    search = LinearSVCCV(C_range=(1e-2, 1.0), regret=0.03, fit_intercept=False).fit(X, y)
    assert search.regret_ <= 0.03
    assert search.best_score_ == pytest.approx(accuracy(X, y, search.C_, fit_intercept=False), abs=1e-9)


def test_what_a_range_cannot_prove_is_said():
    X, y = samples()
    with pytest.raises(ValueError, match="proves accuracy"):
        LinearSVCCV(C_range=(0.1, 1.0), scoring="f1").fit(X, y)
    with pytest.raises(ValueError, match="penalised"):
        LinearSVCCV(C_range=(0.1, 1.0), penalize_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        LinearSVCCV(C_range=(0.1, 1.0)).fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="regret"):
        LinearSVCCV(C_range=(0.1, 1.0), regret=-1.0).fit(X, y)

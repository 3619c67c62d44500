"""The proof over a range of C with kernels: no C and no gamma of the list, trained by hand, has a score above the ceiling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs, make_classification, make_moons
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score
from sklearn.model_selection import StratifiedKFold

from maxmargin import RBF, SVC, SVCCV, Hinge, KernelProblem, LinearProblem
from maxmargin.model_selection.kernel_fold import kernel_fold
from maxmargin.model_selection.linear_fold import linear_fold
from maxmargin.model_selection.range_scores import ACCURACY, Counts
from maxmargin.model_selection.rulers import Rulers
from maxmargin.model_selection.transfer import Between
from maxmargin.problem.offset import middle_offsets

SCORES = {None: accuracy_score, "balanced_accuracy": balanced_accuracy_score, "f1": f1_score}
SPLIT = StratifiedKFold(3)


def exact(X, y, C, gamma, scoring=None, sample_weight=None, **parameters):
    """The mean over three folds, at an exact optimum."""
    scores = []
    for train, test in SPLIT.split(X, y):
        own = None if sample_weight is None else sample_weight[train]
        labels = SVC(C=C, gamma=gamma, tol=1e-10, **parameters).fit(X[train], y[train], own).predict(X[test])
        weights = None if sample_weight is None else sample_weight[test]
        scores.append(SCORES[scoring](y[test], labels, sample_weight=weights))
    return float(np.mean(scores))


def random_values(low, high, n):
    return np.exp(np.random.default_rng(0).uniform(np.log(low), np.log(high), n))


CASES = {
    "accuracy": {},
    "f1": {"scoring": "f1"},
    "balanced accuracy": {"scoring": "balanced_accuracy"},
    "no intercept": {"fit_intercept": False},
    "class weights": {"class_weight": "balanced"},
    "polynomial": {"kernel": "poly", "degree": 2, "coef0": 1.0},
}


@pytest.mark.parametrize("case", CASES)
def test_no_C_and_no_gamma_is_above_its_ceiling(case):
    X, y = make_moons(150, noise=0.35, random_state=1)
    X, y = X[: 150 - 20], y[: 150 - 20]
    gammas, (low, high), parameters = [0.2, 2.0], (5e-2, 20.0), CASES[case]
    search = SVCCV(C_range=(low, high), regret=0.03, gammas=gammas, cv=SPLIT, **parameters).fit(X, y)
    assert search.regret_ <= 0.03
    assert "No C between 0.05 and 20 with gamma = 0.2, 2 has a" in search.proof_
    own = {name: value for name, value in parameters.items() if name != "scoring"}
    for gamma, ceiling in zip(gammas, search.gamma_ceilings_, strict=True):
        for C in random_values(low, high, 10):
            score = exact(X, y, C, gamma, parameters.get("scoring"), **own)
            assert score <= ceiling + 1e-9
            assert score <= search.best_score_ + 0.03 + 1e-9
            if gamma == search.gamma_:
                assert score <= search.ceilings_[int(np.searchsorted(search.Cs_, C)) - 1] + 1e-9


def test_weighted_samples_are_proved_over_the_range_too():
    X, y = make_moons(120, noise=0.35, random_state=2)
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
    search = SVCCV(C_range=(0.05, 20.0), regret=0.04, gammas=[1.0], cv=SPLIT).fit(X, y, sample_weight=weights)
    assert search.regret_ <= 0.04
    for C in random_values(0.05, 20.0, 25):
        assert exact(X, y, C, 1.0, None, weights) <= search.ceilings_[int(np.searchsorted(search.Cs_, C)) - 1] + 1e-9


def test_sparse_rows_and_strings_as_labels_have_the_proof_too():
    X, y = make_classification(120, 6, flip_y=0.1, random_state=0)
    labels = np.array(["no", "yes"])[y]
    dense = SVCCV(C_range=(0.1, 10.0), regret=0.04, cv=SPLIT).fit(X, labels)
    thin = SVCCV(C_range=(0.1, 10.0), regret=0.04, gammas=[dense.gamma_], cv=SPLIT).fit(sparse.csr_matrix(X), labels)
    assert thin.best_score_ == pytest.approx(dense.best_score_, abs=1e-9)
    assert set(dense.predict(X)) == {"no", "yes"}


def test_the_bounds_at_the_knots_hold_and_the_winner_is_proved():
    X, y = make_blobs(120, centers=2, cluster_std=3.0, random_state=0)
    search = SVCCV(C_range=(1e-2, 10.0), regret=0.03, gammas=[0.05], cv=SPLIT).fit(X, y)
    for k in range(0, len(search.Cs_), 3):
        low, high = search.score_bounds_[:, :, k].mean(axis=1)
        assert low - 1e-9 <= exact(X, y, search.Cs_[k], 0.05) <= high + 1e-9
    assert search.scores_.shape == (3, len(search.Cs_))
    assert search.C_ in search.Cs_
    assert search.predict(X).shape == y.shape


@pytest.mark.parametrize("has_offset", [True, False])
def test_rulers_hold_the_outputs_of_the_optimum_between_two_fits(has_offset):
    """For random problems: every optimum in between is within reach of the mixture and its shift."""
    nearer = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        X = random.normal(size=(60, 2))
        y = np.where(X[:, 0] * X[:, 1] + 0.4 * random.normal(size=60) > 0, 1, -1)
        problem = KernelProblem.build(X[:40], y[:40], 1.0, RBF(0.7), has_offset)
        fold = kernel_fold(problem, X[40:], Counts.of(y[40:], ACCURACY))
        nearer += count_within(fold, 10.0 ** random.uniform(-0.5, 2.0))
    assert nearer > 100


def test_rulers_hold_with_a_linear_model_too():
    nearer = 0
    for seed in range(8):
        random = np.random.default_rng(seed)
        X = random.normal(size=(90, 5))
        y = np.where(X[:, 0] + random.normal(size=90) > 0, 1, -1)
        problem = LinearProblem.build(X[:60], y[:60], 1.0, Hinge(), 1.0)
        nearer += count_within(linear_fold(problem, X[60:], Counts.of(y[60:], ACCURACY)), 10.0 ** random.uniform(-1.0, 1.0))
    assert nearer > 100


def count_within(fold, C):
    """Check every validation sample at some C; count those whose reach is shorter than that of the ball."""
    ratio, n_parts, tests = 1.1, 4, np.arange(len(fold.counts.y))
    for each in (C, ratio * C):
        fold.train(each, 1e-11, "auto")
    pair = Between(fold.fits[C], fold.fits[ratio * C])
    away = fold._offset_within(pair)
    ruled = Rulers(pair, fold.products, n_parts, away).on_parts(tests)
    ball = np.sqrt(pair.greatest_gap) * fold.lengths + away
    nearer = 0
    for theta in (0.1, 0.4, 0.5, 0.8):
        k = int(theta * n_parts)
        at = (1.0 - theta) * C + theta * ratio * C
        fold.train(at, 1e-12, "auto")
        (one, _), (two, _), (optimal, _) = (fold.scores[each] for each in (C, ratio * C, at))
        mixed, optimum = (fold.counts.y * each for each in ((1.0 - theta) * one + theta * two, optimal))
        assert np.all(np.abs(optimum - mixed) <= ball + 1e-6)
        if ruled[k] is not None:
            own = theta * n_parts - k
            centre = mixed + (1.0 - own) * ruled[k].shifts[0] + own * ruled[k].shifts[1]
            assert np.all(np.abs(optimum - centre) <= ruled[k].reach + 1e-6)
            nearer += np.count_nonzero(ruled[k].reach < ball)
    return nearer


def test_the_middle_of_the_optimal_offsets_is_within_its_bounds():
    random = np.random.default_rng(0)
    for _ in range(200):
        n = int(random.integers(4, 20))
        y = np.where(np.arange(n) < n // 2, 1, -1)
        problem = KernelProblem.build(random.normal(size=(n, 2)), y, random.choice([1.0, 2.0], n), RBF(1.0))
        outputs, reach = random.normal(size=n), random.random(n)
        found = middle_offsets(
            problem.signs - outputs - reach, problem.signs - outputs + reach, problem.C, problem.positive_cost
        )
        for _ in range(10):
            b = problem.best_offset(outputs + reach * random.uniform(-1.0, 1.0, n))
            assert found.low - 1e-12 <= b <= found.high + 1e-12


def test_equal_classes_at_a_small_C_have_the_middle_offset():
    """Every alpha is at its bound, and any offset between the classes is optimal: a proof needs the middle one."""
    X, y = make_blobs(90, centers=2, cluster_std=1.0, random_state=1)
    search = SVCCV(C_range=(1e-4, 1e-3), regret=0.0, gammas=[0.1], cv=SPLIT).fit(X, y)
    assert search.regret_ == 0.0
    assert search.best_score_ == pytest.approx(exact(X, y, 3e-4, 0.1), abs=1e-9)


def test_what_a_range_of_a_kernel_machine_cannot_prove_is_said():
    X, y = make_moons(60, noise=0.3, random_state=0)
    with pytest.raises(ValueError, match="proves accuracy"):
        SVCCV(C_range=(0.1, 1.0), scoring="roc_auc").fit(X, y)
    with pytest.raises(ValueError, match="computed from X"):
        SVCCV(C_range=(0.1, 1.0), kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="positive semidefinite"):
        SVCCV(C_range=(0.1, 1.0), kernel="sigmoid").fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        SVCCV(C_range=(0.1, 1.0)).fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="label 1"):
        SVCCV(C_range=(0.1, 1.0), scoring="f1").fit(X, np.where(y == 1, 2, 3))


def test_a_gamma_that_cannot_win_takes_fewer_values_of_C_than_it_would_alone():
    X, y = make_moons(200, noise=0.2, random_state=0)
    alone, first, both = (
        SVCCV(C_range=(0.1, 100.0), regret=0.01, gammas=gammas, cv=SPLIT).fit(X, y) for gammas in ([0.03], [1.0], [0.03, 1.0])
    )
    n_values = int(both.proof_.split(" values of C")[0].split()[-1])
    assert n_values < len(alone.Cs_) + len(first.Cs_)
    assert both.gamma_ == 1.0
    assert both.gamma_ceilings_[0] <= both.best_score_ + 0.01 + 1e-9

"""The proof over a range in regression: no C in it, trained by hand, has an error below its bound."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from sklearn.model_selection import KFold

from maxmargin import RBF, SVR, SVRCV, EpsilonInsensitive, KernelProblem, LinearProblem, LinearSVR, LinearSVRCV
from maxmargin.model_selection.kernel_fold import kernel_fold
from maxmargin.model_selection.linear_fold import linear_fold
from maxmargin.model_selection.range_errors import ABSOLUTE_ERROR, R2, SQUARED_ERROR, Enclosed, Pooled, Residuals
from maxmargin.problem.regression_losses import Quantile, SquaredEpsilonInsensitive

SCORES = {
    None: r2_score,
    "neg_mean_squared_error": lambda *given, **more: -mean_squared_error(*given, **more),
    "neg_mean_absolute_error": lambda *given, **more: -mean_absolute_error(*given, **more),
}
SPLIT = KFold(3)
RANGE = (1e-2, 30.0)


def samples(n=90, d=4, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    return X, X @ random.normal(size=d) + 0.3 * X[:, 0] ** 2 + random.standard_t(3, size=n)


def exact(model, X, y, scoring, weights=None):
    """The mean over three folds, at an exact optimum."""
    scores = []
    for train, test in SPLIT.split(X, y):
        own, others = (None, None) if weights is None else (weights[train], weights[test])
        model.set_params(tol=1e-10).fit(X[train], y[train], own)
        scores.append(SCORES[scoring](y[test], model.predict(X[test]), sample_weight=others))
    return float(np.mean(scores))


def random_values(n):
    return np.exp(np.random.default_rng(0).uniform(*np.log(RANGE), n))


def assert_no_C_is_better(search, model, X, y, n=25, weights=None):
    allowed = search.regret if search.scoring is None else search.regret * abs(search.best_score_)
    for C in random_values(n):
        score = exact(model.set_params(C=C), X, y, search.scoring, weights)
        assert score <= search.ceilings_[int(np.searchsorted(search.Cs_, C)) - 1] + 1e-9
        assert score <= search.best_score_ + allowed + 1e-9


@pytest.mark.parametrize("scoring", SCORES)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive", "quantile"])
@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_no_C_of_the_range_has_an_error_below_its_bound(scoring, loss, epsilon):
    X, y = samples()
    parameters = {"loss": loss, "epsilon": epsilon, "quantile": 0.4}
    search = LinearSVRCV(C_range=RANGE, regret=0.01, cv=SPLIT, scoring=scoring, **parameters).fit(X, y)
    assert search.regret_ <= 0.01
    assert len(search.ceilings_) == len(search.Cs_) - 1
    assert_no_C_is_better(search, LinearSVR(**parameters), X, y)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_sparse_rows_weights_and_no_intercept_are_proved_too(loss):
    X, y = samples(120, 6, 1)
    X = sparse.csr_matrix(np.where(np.abs(X) > 0.8, X, 0.0))
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
    parameters = {"loss": loss, "epsilon": 0.2, "fit_intercept": False}
    search = LinearSVRCV(C_range=RANGE, regret=0.01, cv=SPLIT, **parameters).fit(X, y, sample_weight=weights)
    assert search.regret_ <= 0.01
    assert_no_C_is_better(search, LinearSVR(**parameters), X, y, weights=weights)


@pytest.mark.parametrize("scoring", SCORES)
@pytest.mark.parametrize("parameters", [{"epsilon": 0.1}, {"epsilon": 0.0}, {"loss": "quantile", "quantile": 0.3}], ids=str)
def test_no_C_and_no_gamma_has_an_error_below_its_bound(scoring, parameters):
    X, y = samples(75, 2)
    gammas = [0.05, 0.5]
    search = SVRCV(C_range=RANGE, regret=0.03, gammas=gammas, cv=SPLIT, scoring=scoring, **parameters).fit(X, y)
    assert search.regret_ <= 0.03
    assert "with gamma = 0.05, 0.5 has a" in search.proof_
    assert_no_C_is_better(search, SVR(gamma=search.gamma_, **parameters), X, y, 12)
    for gamma, ceiling in zip(gammas, search.gamma_ceilings_, strict=True):
        model = SVR(gamma=gamma, **parameters)
        assert all(exact(model.set_params(C=C), X, y, scoring) <= ceiling + 1e-9 for C in random_values(8))


@pytest.mark.parametrize("scoring", SCORES)
def test_the_scores_at_the_knots_are_within_their_bounds(scoring):
    X, y = samples(seed=2)
    search = LinearSVRCV(C_range=RANGE, regret=0.02, cv=SPLIT, scoring=scoring, epsilon=0.1).fit(X, y)
    for k in range(0, len(search.Cs_), 4):
        low, high = search.score_bounds_[:, :, k].mean(axis=1)
        assert low - 1e-9 <= exact(LinearSVR(C=search.Cs_[k], epsilon=0.1), X, y, scoring) <= high + 1e-9
    assert search.predict(X).shape == y.shape


def test_the_sentence_of_an_error_says_what_no_C_is_below():
    X, y = samples()
    search = LinearSVRCV(C_range=RANGE, regret=0.05, cv=SPLIT, scoring="neg_mean_squared_error").fit(X, y)
    assert search.proof_.startswith("Cross-validated mean squared error at C =")
    assert "No C between 0.01 and 30 has a mean squared error below" in search.proof_
    assert "has an R^2 above" in LinearSVRCV(C_range=RANGE, regret=0.05, cv=SPLIT).fit(X, y).proof_


FOLDS = {
    "epsilon": lambda X, y: LinearProblem.build(X, y, 1.0, EpsilonInsensitive(0.2), 1.0),
    "absolute": lambda X, y: LinearProblem.build(X, y, 1.0, EpsilonInsensitive(0.0), 1.0),
    "quantile": lambda X, y: LinearProblem.build(X, y, 1.0, Quantile(0.7), 1.0),
    "squared": lambda X, y: LinearProblem.build(X, y, 1.0, SquaredEpsilonInsensitive(0.3), 1.0),
    "least squares": lambda X, y: LinearProblem.build(X, y, 1.0, SquaredEpsilonInsensitive(0.0), 1.0),
    "kernel": lambda X, y: KernelProblem.build(X, y, 1.0, RBF(0.3), loss=EpsilonInsensitive(0.1)),
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("is_inverse", [False, True])
def test_every_prediction_in_between_is_in_its_interval(name, is_inverse):
    """At many C between two knots, by both proofs."""
    sharper = 0
    for seed in range(6):
        X, y = samples(90, 3, seed)
        problem = FOLDS[name](X[:60], y[:60])
        make = kernel_fold if isinstance(problem, KernelProblem) else linear_fold
        fold = make(problem, X[60:], Residuals.of(y[60:], SQUARED_ERROR))
        is_inverse = is_inverse and fold.has_gradients
        C, ratio, n_parts = 10.0 ** np.random.default_rng(seed).uniform(-1.5, 1.5), 1.2, 4
        for each in (C, ratio * C):
            fold.train(each, 1e-11, "auto")
        first, second = (way(C, ratio * C, n_parts, is_inverse) for way in (fold.enclosed, fold.sharper_enclosed))
        sharper += np.count_nonzero(second.reach < first.reach)
        for theta in (0.05, 0.3, 0.5, 0.8):
            at = C / ((1.0 - theta) + theta / ratio) if is_inverse else C * (1.0 + theta * (ratio - 1.0))
            fold.train(at, 1e-12, "auto")
            radius = np.sqrt(fold.fits[at].gap) * fold.lengths + fold.offset_reach(fold.fits[at], fold.fits[at], 0.0)
            k, own = int(theta * n_parts), theta * n_parts - int(theta * n_parts)
            for found in (first, second):
                centre = (1.0 - own) * found.first[k] + own * found.last[k]
                assert np.all(np.abs(fold.scores[at][0] - centre) <= found.reach[k] + radius + 1e-9)
    assert sharper > 100


@pytest.mark.parametrize("score", [R2, SQUARED_ERROR, ABSOLUTE_ERROR])
def test_the_least_error_is_below_that_of_any_predictions_in_the_intervals(score):
    random = np.random.default_rng(0)
    for _ in range(50):
        folds = [Residuals.of(random.normal(size=20), score, random.random(20) + 0.1) for _ in range(3)]
        enclosed = []
        for fold in folds:
            centre = fold.y + random.normal(size=(2, 20))
            ends = np.stack([centre[0], centre.mean(axis=0), centre[1]])
            enclosed.append(Enclosed(ends[:-1], ends[1:], random.random((2, 20)) * random.choice([0.01, 0.5])))
        least = Pooled.of(folds, enclosed).least_error()
        errors = []
        for theta in np.linspace(0.0, 1.0, 41):
            k, own = min(1, int(2 * theta)), 2 * theta - min(1, int(2 * theta))
            values = []
            for fold, (first, last, reach) in zip(folds, enclosed, strict=True):
                distance = np.maximum(0.0, np.abs(fold.y - (1 - own) * first[k] - own * last[k]) - reach[k])
                values.append(score.greatest - fold.value(distance))
            errors.append(np.mean(values))
        assert least <= min(errors) + 1e-12
        assert least >= 0.5 * min(errors) - 1e-3  # and not by much, on lines as steep as these


@pytest.mark.parametrize("scoring", SCORES)
def test_the_scores_of_residuals_are_those_of_scikit_learn(scoring):
    random = np.random.default_rng(1)
    y, predictions, weights = random.normal(size=(3, 40))
    weights = np.abs(weights)
    score = {None: R2, "neg_mean_squared_error": SQUARED_ERROR, "neg_mean_absolute_error": ABSOLUTE_ERROR}[scoring]
    bounds = Residuals.of(y, score, weights).bounds(predictions, np.full(40, 1e-12))
    assert bounds.value == pytest.approx(SCORES[scoring](y, predictions, sample_weight=weights))
    assert bounds.low <= bounds.value <= bounds.high


def test_what_a_range_cannot_prove_of_a_regression_is_said():
    X, y = samples(60)
    with pytest.raises(ValueError, match="proves r2"):
        LinearSVRCV(C_range=RANGE, scoring="max_error").fit(X, y)
    with pytest.raises(ValueError, match="penalised"):
        LinearSVRCV(C_range=RANGE, penalize_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match="targets that differ"):
        LinearSVRCV(C_range=RANGE, cv=SPLIT).fit(X, np.repeat([1.0, 2.0, 3.0], 20))
    with pytest.raises(ValueError, match="computed from X"):
        SVRCV(C_range=RANGE, kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="regret"):
        SVRCV(C_range=RANGE, regret=-1.0).fit(X, y)


def test_equal_targets_in_a_fold_have_a_squared_error_all_the_same():
    X, _ = samples(60)
    y = np.repeat([1.0, 2.0, 3.0], 20)
    search = LinearSVRCV(C_range=RANGE, cv=SPLIT, scoring="neg_mean_squared_error", regret=0.02).fit(X, y)
    assert search.regret_ <= 0.02


@pytest.mark.parametrize("search", [LinearSVRCV(epsilon=0.1), SVRCV(gammas=[0.1, 0.5])], ids=repr)
def test_folds_in_threads_prove_the_same(search):
    X, y = samples()
    search.set_params(C_range=RANGE, regret=0.02, cv=SPLIT)
    one, two = (search.set_params(n_jobs=n).fit(X, y).proof_ for n in (1, 2))
    assert one == two


@pytest.mark.parametrize("search", [LinearSVRCV(epsilon=0.1), SVRCV(gammas=[0.1, 0.5])], ids=repr)
@pytest.mark.parametrize("seconds", [1e-6, 0.05, 0.3])
def test_a_range_without_time_says_what_is_proved(search, seconds):
    X, y = samples(200)
    search.set_params(C_range=RANGE, regret=1e-5, cv=SPLIT, max_seconds=seconds)
    with pytest.warns(ConvergenceWarning), warnings.catch_warnings():
        search.fit(X, y)
    assert search.regret_ > 1e-5
    assert "time was up" in search.proof_
    if len(search.ceilings_):
        assert_no_C_is_better_than_said(search, X, y)


def assert_no_C_is_better_than_said(search, X, y):
    model = LinearSVR(epsilon=0.1) if isinstance(search, LinearSVRCV) else SVR(gamma=search.gamma_)
    for C in random_values(10):
        k = int(np.searchsorted(search.Cs_, C)) - 1
        score = exact(model.set_params(C=C), X, y, None)
        assert score <= search.best_score_ + search.regret_ + 1e-9
        if 0 <= k < len(search.ceilings_):
            assert score <= search.ceilings_[k] + 1e-9

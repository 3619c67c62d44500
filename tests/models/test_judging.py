"""A fitted model of scikit-learn's, judged: its gap is that of its weights, whatever its solver says."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.svm as theirs
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin.cli.report import listed
from tests.catalogue import labelled


@pytest.fixture(scope="module")
def samples():
    X, y = labelled(120, 4, 0.8, 1)
    return np.asarray(X.todense()) if sparse.issparse(X) else X, np.asarray(y)


def targets(X):
    return X @ np.arange(1.0, X.shape[1] + 1.0) + np.sin(5.0 * X[:, 0])


CLASSIFIERS = [
    theirs.LinearSVC(loss="hinge", C=0.5, tol=1e-8, max_iter=200_000, random_state=0),
    theirs.LinearSVC(fit_intercept=False, tol=1e-8, random_state=0, class_weight={1: 3.0}),
    theirs.LinearSVC(penalty="l1", tol=1e-8, max_iter=100_000, random_state=0),
    theirs.LinearSVC(multi_class="crammer_singer", tol=1e-8, max_iter=200_000, random_state=0),
    theirs.SVC(tol=1e-8),
    theirs.SVC(kernel="linear", tol=1e-8, class_weight="balanced"),
    theirs.SVC(kernel="poly", degree=2, coef0=1.0, tol=1e-8),
    theirs.NuSVC(nu=0.3, tol=1e-8),
]
REGRESSORS = [
    theirs.LinearSVR(epsilon=0.1, C=0.5, tol=1e-8, max_iter=200_000, random_state=0),
    theirs.LinearSVR(loss="squared_epsilon_insensitive", tol=1e-8, max_iter=200_000, random_state=0),
    theirs.SVR(epsilon=0.2, tol=1e-8),
    theirs.NuSVR(nu=0.4, C=2.0, tol=1e-8),
]


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_a_classifier_trained_to_many_digits_is_proved_to_be_near_its_optimum(model, samples):
    X, y = samples
    assert maxmargin.judge(model.fit(X, y), X, y, tol=1e-8).relative_gap < 1e-4


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_a_regressor_trained_to_many_digits_is_proved_to_be_near_its_optimum(model, samples):
    X, _ = samples
    assert maxmargin.judge(model.fit(X, targets(X)), X, targets(X), tol=1e-8).relative_gap < 1e-4


def test_a_one_class_machine_needs_no_labels(samples):
    X = samples[0] + 3.0
    assert maxmargin.judge(theirs.OneClassSVM(nu=0.2, tol=1e-8).fit(X), X, tol=1e-8).relative_gap < 1e-4


@pytest.mark.parametrize("kind", ["LinearSVC", "SVC", "SVR"])
def test_a_corrupted_model_is_found_out(kind, samples):
    X, y = samples
    y = targets(X) if kind == "SVR" else y
    model = getattr(theirs, kind)(tol=1e-8).fit(X, y)
    weights = model.coef_ if kind == "LinearSVC" else model._dual_coef_ if kind == "SVR" else model.dual_coef_
    good = maxmargin.judge(model, X, y).relative_gap
    weights *= 2.0
    assert maxmargin.judge(model, X, y).relative_gap > max(1e-2, 10.0 * good)


def test_several_classes_have_a_certificate_each(samples):
    X, _ = samples
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    for model, n_problems in ((theirs.LinearSVC(random_state=0), 3), (theirs.SVC(), 3)):
        assert len(listed(maxmargin.judge(model.fit(X, y), X, y))) == n_problems


def test_pipelines_searches_and_our_own_models_are_judged_too(samples):
    X, y = samples
    pipeline = make_pipeline(StandardScaler(), theirs.SVC(tol=1e-8))
    search = GridSearchCV(pipeline, {"svc__C": [0.1, 1.0]}).fit(X, y)
    assert maxmargin.judge(search, X, y).relative_gap < 1e-3
    assert maxmargin.judge(maxmargin.LinearSVC().fit(X, y), X, y).relative_gap < 2e-4


def test_other_models_and_other_lengths_are_refused(samples):
    X, y = samples
    with pytest.raises(TypeError, match="judge takes the estimators of sklearn"):
        maxmargin.judge(LogisticRegression().fit(X, y), X, y)
    with pytest.raises(ValueError, match="X has 120 samples, and y has 119"):
        maxmargin.judge(theirs.SVC().fit(X, y), X, y[1:])

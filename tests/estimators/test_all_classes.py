"""LinearSVC(multi_class="crammer_singer") and indicator matrices y."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC as ScikitLearns

from maxmargin import LinearSVC
from maxmargin.certificate.crammer_singer import certify_crammer_singer
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status


def clouds(n: int = 150, k: int = 4, d: int = 6, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.argmax(X[:, :k] + 0.5 * rng.normal(size=(n, k)), axis=1)
    return X, np.array(["a", "b", "c", "d", "e"])[y]


def objective(model, X, y, C, scaling):
    coef, intercept = model.coef_, model.intercept_
    z = X @ coef.T + intercept
    codes = np.searchsorted(model.classes_, y)
    own = z[np.arange(len(y)), codes][:, None]
    slacks = 1.0 + z - own
    slacks[np.arange(len(y)), codes] = 0.0
    return 0.5 * np.sum(coef**2) + 0.5 * np.sum((intercept / scaling) ** 2) + C * slacks.max(axis=1).sum()


@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_the_objective_is_at_most_scikit_learns(C, layout):
    X, y = clouds()
    ours = LinearSVC(multi_class="crammer_singer", C=C, tol=1e-7, intercept_scaling=2.0).fit(layout(X), y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = ScikitLearns(multi_class="crammer_singer", C=C, tol=1e-7, intercept_scaling=2.0, random_state=0).fit(X, y)
    assert ours.status_ is Status.CERTIFIED
    assert ours.coef_.shape == theirs.coef_.shape
    assert objective(ours, X, y, C, 2.0) == pytest.approx(ours.certificate_.primal, rel=1e-9)
    assert objective(ours, X, y, C, 2.0) <= objective(theirs, X, y, C, 2.0) * (1.0 + 1e-6)
    assert ours.certificate_.dual <= objective(theirs, X, y, C, 2.0) * (1.0 + 1e-12)


def test_with_two_classes_it_is_the_hinge_machine_of_twice_the_cost():
    """w_1 - w_0 is the hinge machine with 2C, and P is half of its P."""
    X, y = clouds(k=2)
    both = LinearSVC(multi_class="crammer_singer", C=0.5, tol=1e-7).fit(X, y)
    hinge = LinearSVC(loss="hinge", C=1.0, tol=1e-10).fit(X, y)
    assert both.coef_.shape == (1, 6)
    assert np.allclose(both.coef_, hinge.coef_, atol=1e-3)
    assert np.allclose(both.intercept_, hinge.intercept_, atol=1e-3)
    assert both.certificate_.primal == pytest.approx(0.5 * hinge.certificate_.primal, rel=1e-6)


@pytest.mark.parametrize("k", [2, 4])
def test_proved_labels_are_those_of_a_far_better_model(k):
    X, y = clouds(k=k)
    rough = LinearSVC(multi_class="crammer_singer", tol=1e-3).fit(X, y)
    best = LinearSVC(multi_class="crammer_singer", tol=1e-7).fit(X, y)
    labels, proved = rough.certified_predict(X)
    assert 0.3 < proved.mean()
    assert np.array_equal(labels[proved], best.predict(X)[proved])
    assert best.certified_predict(X)[1].mean() > 0.95


def test_weights_of_samples_count_as_repeated_samples_do():
    X, y = clouds(40)
    weights = np.random.default_rng(1).integers(1, 4, size=40)
    weighted = LinearSVC(multi_class="crammer_singer", C=0.1, tol=1e-7).fit(X, y, weights.astype(float))
    repeated = LinearSVC(multi_class="crammer_singer", C=0.1, tol=1e-7).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    assert weighted.certificate_.primal == pytest.approx(repeated.certificate_.primal, rel=1e-6)


def test_a_warm_start_takes_fewer_steps():
    X, y = clouds(300)
    model = LinearSVC(multi_class="crammer_singer", tol=1e-6, warm_start=True).fit(X, y)
    cold = model.trace_[-1].steps
    assert model.fit(X, y).trace_[-1].steps < cold


def test_the_answer_of_solve_is_certified_by_the_judge():
    X, y = clouds()
    problem = CrammerSingerProblem.build(sparse.csr_array(X), np.searchsorted(np.unique(y), y), 1.0, 1.0)
    solution = solve(problem, tol=1e-6)
    assert certify_crammer_singer(problem, solution.w, solution.alpha).meets(1e-6)
    with pytest.raises(ValueError, match="The solver 'dcd' cannot fit all classes together"):
        solve(problem, "dcd")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalize_intercept": False}, "penalize_intercept=False goes with multi_class='ovr'"),
        ({"C": np.inf}, "hard margin.* goes with multi_class='ovr'"),
        ({"sharp_proofs": True}, "sharp_proofs=True goes with multi_class='ovr'"),
    ],
)
def test_what_does_not_go_together_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC(multi_class="crammer_singer", **parameters).fit(*clouds())


# Many labels


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("table", [load_iris, load_wine])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_raw_table_is_certified(table, C, kind):
    """Columns as they come, up to 1,680: the dual descent alone takes more than 50,000 sweeps on some."""
    X, y = table(return_X_y=True)
    model = LinearSVC(multi_class="crammer_singer", C=C, tol=1e-4, max_iter=5_000).fit(X.astype(kind), y)
    assert model.status_ is Status.CERTIFIED


def indicator(n: int = 120, k: int = 5, d: int = 8):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, k)) + 0.3 * rng.normal(size=(n, k)) > 0.3).astype(int)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_column_of_the_indicator_is_a_binary_fit(kind, n_jobs):
    X, Y = indicator()
    model = LinearSVC(tol=1e-10, n_jobs=n_jobs).fit(X, kind(Y))
    for j in range(Y.shape[1]):
        alone = LinearSVC(tol=1e-10).fit(X, Y[:, j])
        assert np.array_equal(model.coef_[j], alone.coef_[0])
        assert model.intercept_[j] == alone.intercept_[0]
    assert model.decision_function(X).shape == Y.shape
    assert np.array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))
    assert len(model.certificate_) == 5


def test_predictions_are_those_of_scikit_learns_wrapper():
    X, Y = indicator()
    theirs = OneVsRestClassifier(ScikitLearns(tol=1e-8, max_iter=10_000, random_state=0)).fit(X, Y)
    assert np.array_equal(LinearSVC(tol=1e-8).fit(X, Y).predict(X), theirs.predict(X))
    labels, proved = LinearSVC(tol=1e-8).fit(X, Y).certified_predict(X)
    assert np.array_equal(labels[proved], theirs.predict(X)[proved])
    assert proved.mean() > 0.95


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 3.0}])
def test_class_weights_count_in_every_column_by_itself(class_weight):
    X, Y = indicator()
    model = LinearSVC(tol=1e-10, class_weight=class_weight).fit(X, Y)
    alone = LinearSVC(tol=1e-10, class_weight=class_weight).fit(X, Y[:, 2])
    assert np.array_equal(model.coef_[2], alone.coef_[0])


def test_a_label_that_all_samples_have_or_none_is_predicted_so():
    X, Y = indicator()
    Y[:, 0], Y[:, 1] = 0, 1
    predicted = LinearSVC().fit(X, Y).predict(X)
    assert not predicted[:, 0].any()
    assert predicted[:, 1].all()


def test_an_indicator_goes_with_sparse_models_and_not_with_all_classes_together():
    X, Y = indicator()
    assert LinearSVC(penalty="l1", C=0.1, tol=1e-6).fit(X, Y).coef_.shape == (5, 8)
    with pytest.raises(ValueError, match="takes one class a sample"):
        LinearSVC(multi_class="crammer_singer").fit(X, Y)
    with pytest.raises(ValueError, match=r"must hold zeros and ones.*; this one is multiclass-multioutput"):
        LinearSVC().fit(X, Y + np.arange(5))

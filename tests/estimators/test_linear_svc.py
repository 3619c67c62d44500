"""LinearSVC: scikit-learn's manners, LIBLINEAR's optimum, and a proof of how near it is."""

from __future__ import annotations

import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest
import sklearn.svm
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxmargin
from maxmargin import DCD, LinearSVC, Order, Progress, Status

both_losses = pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
class_counts = pytest.mark.parametrize("n_classes", [2, 3, 5])
job_counts = pytest.mark.parametrize("n_jobs", [1, 2])
intercepts = pytest.mark.parametrize(
    "intercept",
    [{"fit_intercept": False}, {}, {"intercept_scaling": 0.5}, {"intercept_scaling": 10.0}],
    ids=["no-intercept", "intercept", "intercept-of-0.5", "intercept-of-10"],
)
ignore_early_ends = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def clouds(n_classes=2, n=120, d=4, seed=0):
    """Overlapping Gaussian clouds, the classes in turn."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d)), y


def in_a_list(value):
    return value if isinstance(value, list) else [value]


def weights(model):
    """One row for each binary problem: the w of the theory, the weight of the constant feature last."""
    if not model.fit_intercept:
        return model.coef_
    return np.column_stack([model.coef_, model.intercept_ / model.intercept_scaling])


def distance_bounds(model):
    return np.array([certificate.distance_bound for certificate in in_a_list(model.certificate_)])


def steps(model):
    return sum(trace[-1].steps for trace in in_a_list(model.trace_))


def assert_same_optimum(a, b):
    """Two certified answers to one problem are no farther apart than their bounds together."""
    assert (np.linalg.norm(weights(a) - weights(b), axis=1) <= distance_bounds(a) + distance_bounds(b)).all()


def primal_values(model, X, y, W, costs=1.0):
    """P of each binary problem at the rows of W, by the textbook."""
    X = np.column_stack([X, np.full(len(X), model.intercept_scaling)]) if model.fit_intercept else X
    positives = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    signs = np.where(y[:, None] == positives, 1.0, -1.0)
    losses = np.maximum(0.0, 1.0 - signs * (X @ W.T)) ** (1 if model.loss == "hinge" else 2)
    return 0.5 * (W**2).sum(axis=1) + (model.C * costs * losses.T).sum(axis=1)


def assert_near_the_reference(model, X, y, reference, costs=1.0, at_most=1e-3):
    """By strong convexity |W - w*|^2 <= 2 (P(W) - D) for any W and any dual value D: a high D judges the reference."""
    nearly_exact = clone(model).set_params(tol=1e-11).fit(X, y, sample_weight=np.broadcast_to(costs, y.shape))
    duals = np.array([certificate.dual for certificate in in_a_list(nearly_exact.certificate_)])
    excess = primal_values(model, X, y, reference, costs) - duals
    assert (excess >= -1e-12 * duals).all()
    reference_distances = np.sqrt(2.0 * np.maximum(excess, 0.0) + 1e-12 * duals)
    assert (reference_distances <= at_most).all()
    assert (np.linalg.norm(weights(model) - reference, axis=1) <= distance_bounds(model) + reference_distances).all()


def sklearn_weights(model, X, y, **fit_parameters):
    """What scikit-learn's LIBLINEAR answers to the same problems, when it is given time."""
    names = ("loss", "C", "fit_intercept", "intercept_scaling", "class_weight")
    parameters = {name: getattr(model, name) for name in names}
    peer = sklearn.svm.LinearSVC(**parameters, dual=True, tol=1e-9, max_iter=1_000_000, random_state=0)
    peer.fit(X, y, **fit_parameters)
    if not model.fit_intercept:
        return peer.coef_
    return np.column_stack([peer.coef_, peer.intercept_ / peer.intercept_scaling])


# Parameters and attributes


def test_parameters_are_those_of_scikit_learn_and_the_documented_additions():
    ours = inspect.signature(LinearSVC).parameters
    theirs = inspect.signature(sklearn.svm.LinearSVC).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    added = ["solver", "max_seconds", "warm_start", "n_jobs", "callback", "penalize_intercept", "sharp_proofs", "l1_ratio"]
    assert list(ours)[len(theirs) :] == added
    for name in set(theirs) - {"max_iter"}:
        assert ours[name].default == theirs[name].default
        assert ours[name].kind == theirs[name].kind
    assert ours["max_iter"].default == -1


@pytest.mark.parametrize("parameter", inspect.signature(LinearSVC).parameters)
def test_every_parameter_is_documented(parameter):
    assert re.search(rf"^    {parameter} : ", LinearSVC.__doc__, re.MULTILINE)


@class_counts
def test_attributes_have_scikit_learns_names_and_shapes(n_classes):
    X, y = clouds(n_classes)
    model, peer = LinearSVC().fit(X, y), sklearn.svm.LinearSVC().fit(X, y)
    for name in (name for name in vars(peer) if name.endswith("_")):
        assert np.shape(getattr(model, name)) == np.shape(getattr(peer, name)), name
    assert model.coef_.shape == (1 if n_classes == 2 else n_classes, 4)
    assert model.coef_.dtype == model.intercept_.dtype == np.float64
    assert model.n_features_in_ == 4
    assert isinstance(model.n_iter_, int)
    assert model.n_iter_ >= 1


@class_counts
def test_every_binary_problem_has_its_certificate_status_and_trace(n_classes):
    model = LinearSVC(tol=1e-6).fit(*clouds(n_classes))
    for attribute in (model.certificate_, model.status_, model.trace_):
        assert isinstance(attribute, list) == (n_classes > 2)
        assert len(in_a_list(attribute)) == len(model.coef_)
    assert set(in_a_list(model.status_)) == {Status.CERTIFIED}
    gaps = [certificate.relative_gap for certificate in in_a_list(model.certificate_)]
    assert model.relative_gap_ == max(gaps) <= 1e-6
    for certificate, trace in zip(in_a_list(model.certificate_), in_a_list(model.trace_), strict=True):
        assert trace[-1].gap == certificate.gap
        assert [row.steps for row in trace] == sorted(row.steps for row in trace)


@both_losses
@class_counts
def test_the_certificate_holds_the_primal_value_of_the_answer(loss, n_classes):
    X, y = clouds(n_classes)
    model = LinearSVC(loss=loss).fit(X, y)
    primals = [certificate.primal for certificate in in_a_list(model.certificate_)]
    np.testing.assert_allclose(primals, primal_values(model, X, y, weights(model)), rtol=1e-12)


def test_without_an_intercept_it_is_zero():
    assert LinearSVC(fit_intercept=False).fit(*clouds(3)).intercept_.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [0, 1], [False, True], [2.0, 5.0], [-1, 1], ["a", "b", "c"], [10, 20, 30], [0.0, 1.0, 7.0]],
    ids=str,
)
@pytest.mark.parametrize("as_objects", [False, True])
def test_labels_of_any_type_are_only_names(labels, as_objects):
    X, codes = clouds(len(labels))
    y = np.array(labels, dtype=object if as_objects and isinstance(labels[0], str) else None)[codes]
    model = LinearSVC().fit(X, y)
    assert model.classes_.tolist() == labels
    assert model.classes_.dtype == y.dtype
    assert model.predict(X).dtype == y.dtype
    np.testing.assert_array_equal(model.coef_, LinearSVC().fit(X, codes).coef_)
    np.testing.assert_array_equal(model.predict(X), np.array(labels)[LinearSVC().fit(X, codes).predict(X)])


@class_counts
def test_the_decision_is_the_linear_function_and_the_prediction_its_greatest(n_classes):
    X, y = clouds(n_classes)
    model = LinearSVC().fit(X, y)
    scores = X @ model.coef_.T + model.intercept_
    expected = np.ravel(scores) if n_classes == 2 else scores
    assert model.decision_function(X).shape == expected.shape
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-12, atol=1e-12)
    predicted = (scores[:, 0] > 0).astype(int) if n_classes == 2 else scores.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), predicted)
    assert model.score(X, y) == np.mean(predicted == y)
    assert model.score(X, y) > 1.2 / n_classes


@pytest.mark.parametrize("method", ["predict", "decision_function", "sparsify", "densify"])
def test_before_fit_there_is_no_answer(method):
    with pytest.raises(NotFittedError):
        getattr(LinearSVC(), method)(*([np.ones((1, 4))] if method in ("predict", "decision_function") else []))


# The optimum


@both_losses
@class_counts
@intercepts
def test_scikit_learn_finds_the_same_optimum_within_the_certified_distance(loss, n_classes, intercept):
    X, y = clouds(n_classes, seed=1)
    model = LinearSVC(loss=loss, C=0.3, tol=1e-7, **intercept).fit(X, y)
    assert model.relative_gap_ <= 1e-7
    assert_near_the_reference(model, X, y, sklearn_weights(model, X, y))


@both_losses
@pytest.mark.parametrize("C", [1e-3, 1e-1, 1.0, 30.0])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-9])
def test_the_certified_distance_holds_at_every_tolerance(loss, C, tol):
    X, y = clouds(seed=2)
    model = LinearSVC(loss=loss, C=C, tol=tol).fit(X, y)
    assert model.relative_gap_ <= tol
    assert_near_the_reference(model, X, y, sklearn_weights(model, X, y))


@both_losses
def test_scikit_learn_finds_the_same_optimum_under_sample_weights(loss):
    X, y = clouds(3, seed=3)
    costs = np.random.default_rng(3).exponential(size=len(y))
    model = LinearSVC(loss=loss, tol=1e-8).fit(X, y, sample_weight=costs)
    assert_near_the_reference(model, X, y, sklearn_weights(model, X, y, sample_weight=costs), costs)


@both_losses
@intercepts
def test_liblinear_finds_the_same_optimum_within_the_certified_distance(loss, intercept):
    liblinearutil = pytest.importorskip("liblinear.liblinearutil")
    X, y = clouds(seed=4)
    y = 1 - y  # LIBLINEAR's positive class is the first that it meets
    model = LinearSVC(loss=loss, C=0.1, tol=1e-8, **intercept).fit(X, y)
    bias = model.intercept_scaling if model.fit_intercept else -1
    peer = liblinearutil.train(y, X, f"-s {3 if loss == 'hinge' else 2} -c 0.1 -e 1e-9 -B {bias} -q")
    w, b = peer.get_decfun()
    reference = np.array([[*w, b / bias]]) if model.fit_intercept else np.array([w])
    assert_near_the_reference(model, X, y, reference, at_most=0.1)  # its dual solver ends after 300 sweeps


@both_losses
@class_counts
@pytest.mark.parametrize("random_state", [1, 2])
def test_any_two_orders_agree_within_their_certified_distances(loss, n_classes, random_state):
    X, y = clouds(n_classes, seed=5)
    a = LinearSVC(loss=loss, tol=1e-3).fit(X, y)
    b = LinearSVC(loss=loss, tol=1e-6, random_state=random_state).fit(X, y)
    c = LinearSVC(loss=loss, tol=1e-6, solver=DCD(order=Order.CYCLIC)).fit(X, y)
    for one, other in ((a, b), (b, c), (a, c)):
        assert_same_optimum(one, other)


@pytest.mark.parametrize("dual", [True, False])
def test_dual_changes_nothing(dual):
    X, y = clouds()
    np.testing.assert_array_equal(LinearSVC(dual=dual).fit(X, y).coef_, LinearSVC().fit(X, y).coef_)


# Weights


@both_losses
@class_counts
@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0}, {0: 0.25, 1: 2.0}], ids=str)
def test_a_class_weight_is_a_sample_weight(loss, n_classes, class_weight):
    X, y = clouds(n_classes, seed=6)
    keep = (y > 0) | (np.arange(len(y)) < 60)
    X, y = X[keep], y[keep]
    by_class = LinearSVC(loss=loss, class_weight=class_weight, tol=1e-8).fit(X, y)
    by_sample = LinearSVC(loss=loss, tol=1e-8).fit(X, y, sample_weight=compute_sample_weight(class_weight, y))
    assert_same_optimum(by_class, by_sample)
    unweighted = LinearSVC(loss=loss, tol=1e-8).fit(X, y)
    assert np.linalg.norm(by_class.coef_ - unweighted.coef_) > 10 * distance_bounds(by_class).max()


@both_losses
def test_class_weights_and_sample_weights_multiply(loss):
    X, y = clouds(3, seed=7)
    given = np.random.default_rng(7).uniform(0.5, 2.0, size=len(y))
    both = LinearSVC(loss=loss, class_weight={0: 3.0}, tol=1e-8).fit(X, y, sample_weight=given)
    product = LinearSVC(loss=loss, tol=1e-8).fit(X, y, sample_weight=given * np.where(y == 0, 3.0, 1.0))
    assert_same_optimum(both, product)


@both_losses
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0}], ids=str)
@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_whole_sample_weights_are_repetitions_and_zero_is_absence(loss, n_classes, class_weight, make):
    X, y = clouds(n_classes, seed=8)
    times = np.random.default_rng(8).integers(0, 3, size=len(y))
    model = LinearSVC(loss=loss, C=0.5, class_weight=class_weight, tol=1e-9)
    weighted = clone(model).fit(make(X), y, sample_weight=times)
    repeated = clone(model).fit(make(np.repeat(X, times, axis=0)), np.repeat(y, times))
    assert_same_optimum(weighted, repeated)
    assert max(distance_bounds(weighted)) < 1e-3


@both_losses
def test_equal_sample_weights_are_a_factor_of_C(loss):
    X, y = clouds()
    a = LinearSVC(loss=loss, C=0.5, tol=1e-8).fit(X, y, sample_weight=np.full(len(y), 4.0))
    b = LinearSVC(loss=loss, C=2.0, tol=1e-8).fit(X, y)
    assert_same_optimum(a, b)


# Sameness


def test_the_number_of_threads_changes_no_bit():
    X, y = clouds(4)
    one, two = LinearSVC(n_jobs=1).fit(X, y), LinearSVC(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    assert one.certificate_ == two.certificate_


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fits_at_the_same_time_change_no_bit_of_each_other(n_classes):
    X, y = clouds(n_classes, n=300)
    models = [LinearSVC(C=C, loss=loss) for C in (0.1, 1.0, 3.0) for loss in ("hinge", "squared_hinge")]
    in_turn = [clone(model).fit(X, y) for model in models]
    together = threading.Barrier(len(models))

    def fit(model):
        together.wait()
        return model.fit(X, y)

    with ThreadPoolExecutor(len(models)) as pool:
        at_once = list(pool.map(fit, models))
    for one, other in zip(in_turn, at_once, strict=True):
        np.testing.assert_array_equal(one.coef_, other.coef_)
        np.testing.assert_array_equal(one.intercept_, other.intercept_)


@pytest.mark.parametrize("make_state", [lambda: None, lambda: 7, lambda: np.random.RandomState(3)])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_same_random_state_gives_the_same_bits(make_state, n_classes):
    X, y = clouds(n_classes)
    first, second = (LinearSVC(random_state=make_state()).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.intercept_, second.intercept_)


def test_another_random_state_gives_another_order():
    X, y = clouds()
    assert (
        LinearSVC(solver="dcd", random_state=1).fit(X, y).coef_ != LinearSVC(solver="dcd", random_state=2).fit(X, y).coef_
    ).any()


def test_the_global_random_state_is_not_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    LinearSVC().fit(*clouds(3))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# Input


@pytest.mark.filterwarnings("ignore:Constructing a DIA matrix:scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("container", ["matrix", "array"])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_sparse_format_gives_the_answer_of_the_dense_array(layout, container, n_classes):
    X, y = clouds(n_classes)
    X[np.abs(X) < 0.5] = 0.0
    S = getattr(sparse, f"{layout}_{container}")(X)
    from_dense, from_sparse = LinearSVC(tol=1e-8).fit(X, y), LinearSVC(tol=1e-8).fit(S, y)
    assert_same_optimum(from_dense, from_sparse)
    np.testing.assert_allclose(from_sparse.decision_function(S), from_sparse.decision_function(X), rtol=1e-12)
    assert type(from_sparse.decision_function(S)) is np.ndarray


@pytest.mark.parametrize("layout", ["csc", "coo", "lil", "dok"])
def test_formats_that_store_the_same_elements_give_the_same_bits(layout):
    X, y = clouds()
    S = sparse.csr_array(X)
    np.testing.assert_array_equal(LinearSVC().fit(S.asformat(layout), y).coef_, LinearSVC().fit(S, y).coef_)


def csr_with_long_indices(X):
    S = sparse.csr_array(X)
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    return S


@pytest.mark.parametrize("make", [np.array, np.asfortranarray, csr_with_long_indices])
def test_float32_is_trained_on_as_it_is_and_answered_in_float64(make):
    X, y = clouds()
    X = X.astype(np.float32)
    single, double = LinearSVC(tol=1e-8).fit(make(X), y), LinearSVC(tol=1e-8).fit(X.astype(np.float64), y)
    assert single.coef_.dtype == single.decision_function(X).dtype == np.float64
    assert single.relative_gap_ <= 1e-8
    assert_same_optimum(single, double)


@pytest.mark.parametrize(
    "relayout",
    [
        np.asfortranarray,
        lambda X: X[:, ::-1].copy()[:, ::-1],
        lambda X: X.tolist(),
        lambda X: np.frombuffer(X).reshape(X.shape),
    ],
)
def test_the_layout_of_a_dense_array_changes_no_bit(relayout):
    X, y = clouds()
    np.testing.assert_array_equal(LinearSVC().fit(relayout(X), y).coef_, LinearSVC().fit(X, y).coef_)


def test_fit_changes_neither_X_nor_y_nor_the_weights():
    X, y = clouds()
    given = np.ones(len(y))
    copies = X.copy(), y.copy(), given.copy()
    LinearSVC(class_weight="balanced").fit(X, y, sample_weight=given)
    for now, then in zip((X, y, given), copies, strict=True):
        np.testing.assert_array_equal(now, then)
        assert now.flags.writeable


def test_a_data_frame_gives_its_names():
    pandas = pytest.importorskip("pandas")
    X, y = clouds()
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = LinearSVC().fit(frame, pandas.Series(y))
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(model.coef_, LinearSVC().fit(X, y).coef_)
    np.testing.assert_array_equal(model.predict(frame), LinearSVC().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))


def test_an_array_has_no_names():
    assert not hasattr(LinearSVC().fit(*clouds()), "feature_names_in_")


# Starting again


@both_losses
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_second_fit_from_a_warm_start_takes_fewer_steps(loss, n_classes):
    X, y = clouds(n_classes, n=400, d=10)
    model = LinearSVC(loss=loss, tol=1e-6, warm_start=True).fit(X, y)
    first, cold = steps(model), clone(model).fit(X, y)
    assert steps(model.fit(X, y)) < first == steps(cold)
    assert_same_optimum(model, cold)


@both_losses
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_warm_start_at_a_neighbouring_C_takes_fewer_steps(loss, factor):
    X, y = clouds(3, n=400, d=10)
    model = LinearSVC(loss=loss, tol=1e-6, warm_start=True, solver="dcd").fit(X, y)
    warm = model.set_params(C=factor).fit(X, y)
    cold = LinearSVC(loss=loss, C=factor, tol=1e-6, solver="dcd").fit(X, y)
    assert steps(warm) < steps(cold)
    assert_same_optimum(warm, cold)


@pytest.mark.parametrize("change", ["samples", "classes", "weights", "loss", "features", "intercept"])
def test_a_warm_start_that_does_not_fit_does_no_harm(change):
    X, y = clouds(3)
    model = LinearSVC(loss="squared_hinge", tol=1e-7, warm_start=True).fit(X, y)
    fit_parameters = {}
    if change == "samples":
        X, y = X[:-7], y[:-7]
    elif change == "classes":
        y = np.array(["p", "q", "r"])[y]
    elif change == "weights":
        fit_parameters = {"sample_weight": np.arange(len(y)) % 3}
    elif change == "loss":
        model.set_params(loss="hinge")
    elif change == "features":
        X = X[:, :2]
    else:
        model.set_params(fit_intercept=False)
    cold = clone(model).fit(X, y, **fit_parameters)
    assert_same_optimum(model.fit(X, y, **fit_parameters), cold)
    assert model.relative_gap_ <= 1e-7


def test_without_warm_start_every_fit_is_the_first():
    X, y = clouds()
    model = LinearSVC().fit(X, y)
    coef = model.coef_
    np.testing.assert_array_equal(model.fit(X, y).coef_, coef)
    assert steps(model) == steps(LinearSVC().fit(X, y))


def test_a_fit_forgets_the_fit_before():
    pandas = pytest.importorskip("pandas")
    X, y = clouds(3)
    model = LinearSVC().fit(pandas.DataFrame(X, columns=list("abcd")), y)
    model.fit(*clouds(2, d=6))
    assert model.coef_.shape == (1, 6)
    assert model.n_features_in_ == 6
    assert not hasattr(model, "feature_names_in_")
    assert model.status_ is Status.CERTIFIED


# The company it keeps


@class_counts
def test_sparsify_and_densify_change_no_prediction(n_classes):
    X, y = clouds(n_classes)
    model = LinearSVC().fit(X, y)
    coef, scores = model.coef_.copy(), model.decision_function(X)
    assert sparse.issparse(model.sparsify().coef_)
    for Z in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(model.decision_function(Z), scores, rtol=1e-10, atol=1e-12)
        assert type(model.decision_function(Z)) is np.ndarray
    assert isinstance(model.densify().coef_, np.ndarray)
    np.testing.assert_array_equal(model.coef_, coef)
    assert model.densify() is model


@pytest.mark.parametrize("parameters", [{}, {"warm_start": True}, {"solver": DCD(shrinking=None)}], ids=str)
def test_a_pickled_model_is_the_same_model(parameters):
    X, y = clouds(3)
    model = LinearSVC(**parameters).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.coef_, model.coef_)
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    assert copy.get_params() == model.get_params()
    assert (copy.certificate_, copy.status_, copy.trace_) == (model.certificate_, model.status_, model.trace_)
    np.testing.assert_array_equal(copy.fit(X, y).coef_, model.fit(X, y).coef_)


def test_a_clone_has_the_parameters_and_not_the_answer():
    model = LinearSVC(loss="hinge", C=2.0, solver=DCD(epsilon=0.01), max_seconds=60.0).fit(*clouds())
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "coef_")


def test_it_works_at_the_end_of_a_pipeline():
    X, y = clouds(3)
    pipeline = make_pipeline(StandardScaler(), LinearSVC()).fit(X * [1, 10, 100, 1000], y)
    direct = LinearSVC().fit(StandardScaler().fit_transform(X * [1, 10, 100, 1000]), y)
    np.testing.assert_array_equal(pipeline[-1].coef_, direct.coef_)
    pipeline.fit(X, y, linearsvc__sample_weight=np.ones(len(y)))
    assert pipeline.score(X, y) > 0.5


def test_a_grid_search_finds_what_cross_validation_finds():
    X, y = clouds(3)
    grid = {"C": [0.01, 1.0], "loss": ["hinge", "squared_hinge"]}
    search = GridSearchCV(LinearSVC(), grid, cv=3, error_score="raise").fit(X, y)
    own = cross_val_score(LinearSVC(**search.best_params_), X, y, cv=3).mean()
    assert search.best_score_ == pytest.approx(own)
    assert len(search.cv_results_["params"]) == 4


# Ending early


@pytest.mark.parametrize("max_iter", [0, 1, 3])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_fit_that_ends_early_says_what_was_asked_and_what_was_reached(max_iter, n_classes):
    X, y = clouds(n_classes)
    model = LinearSVC(solver="dcd", tol=1e-9, max_iter=max_iter)
    with pytest.warns(ConvergenceWarning, match=r"limit on epochs.*asked: 1e-09, reached: ") as warned:
        model.fit(X, y)
    assert len(warned) == 1
    assert f"reached: {model.relative_gap_:.3g} " in str(warned[0].message)
    assert set(in_a_list(model.status_)) == {Status.EPOCH_LIMIT}
    assert model.n_iter_ == max(1, max_iter)
    assert model.relative_gap_ > 1e-9
    assert np.isfinite(model.coef_).all()
    primals = [certificate.primal for certificate in in_a_list(model.certificate_)]
    np.testing.assert_allclose(primals, primal_values(model, X, y, weights(model)), rtol=1e-12)


def test_the_warning_points_at_the_line_that_called_fit():
    X, y = clouds()
    with pytest.warns(ConvergenceWarning) as warned:
        LinearSVC(tol=1e-9, max_iter=1).fit(X, y)
    assert warned[0].filename == __file__


@ignore_early_ends
def test_an_answer_cut_short_is_within_its_certified_distance_too():
    X, y = clouds(3)
    for max_iter in (0, 1, 2, 5):
        assert_same_optimum(LinearSVC(tol=1e-9, max_iter=max_iter).fit(X, y), LinearSVC(tol=1e-9).fit(X, y))


@job_counts
def test_a_fit_out_of_time_says_so(n_jobs):
    model = LinearSVC(tol=0.0, max_seconds=1e-9, n_jobs=n_jobs)
    with pytest.warns(ConvergenceWarning, match=r"limit on seconds.*asked: 0, reached: "):
        model.fit(*clouds(3))
    assert model.status_ == [Status.TIME_LIMIT] * 3
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("max_seconds", [None, np.inf, 1e9])
def test_time_enough_changes_nothing(max_seconds):
    X, y = clouds()
    np.testing.assert_array_equal(LinearSVC(max_seconds=max_seconds).fit(X, y).coef_, LinearSVC().fit(X, y).coef_)


def test_tol_zero_gives_all_that_float64_can():
    model = LinearSVC(tol=0.0)
    with pytest.warns(ConvergenceWarning, match="asked: 0, reached: "):
        model.fit(*clouds())
    assert model.status_ is Status.PRECISION_LIMIT
    assert model.relative_gap_ < 1e-12


# The callback


@job_counts
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("yes", [True, np.True_], ids=repr)
def test_a_callback_that_returns_true_stops_every_problem(n_jobs, n_classes, yes):
    model = LinearSVC(tol=0.0, n_jobs=n_jobs, callback=lambda progress: yes)
    with pytest.warns(ConvergenceWarning, match=r"user or the callback stopped.*asked: 0, reached: "):
        model.fit(*clouds(n_classes))
    assert set(in_a_list(model.status_)) == {Status.STOPPED}
    assert all(len(trace) == 1 for trace in in_a_list(model.trace_))
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("answer", [None, False, np.False_], ids=repr)
def test_a_callback_that_returns_anything_else_changes_nothing(answer):
    X, y = clouds(3)
    model = LinearSVC(callback=lambda progress: answer).fit(X, y)
    np.testing.assert_array_equal(model.coef_, LinearSVC().fit(X, y).coef_)
    assert model.status_ == [Status.CERTIFIED] * 3


def test_a_certified_answer_is_certified_whatever_the_callback_says():
    model = LinearSVC(tol=1e-3, callback=lambda progress: progress.relative_gap <= 1e-4).fit(*clouds())
    assert model.status_ is Status.CERTIFIED


@job_counts
def test_the_callback_sees_every_row_of_the_trace(n_jobs):
    seen = []
    model = LinearSVC(tol=1e-8, n_jobs=n_jobs, callback=seen.append).fit(*clouds(3))
    assert all(type(progress) is Progress for progress in seen)
    assert sorted(seen, key=id) == sorted((row for trace in model.trace_ for row in trace), key=id)


def test_the_callback_cannot_change_the_progress():
    seen = []
    LinearSVC(callback=seen.append).fit(*clouds())
    for name in ("gap", "steps", "anything"):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(seen[0], name, 0)


def test_the_callback_is_never_called_by_two_threads_at_once():
    inside, overlaps = threading.Lock(), []

    def callback(progress):
        if not inside.acquire(blocking=False):
            overlaps.append(progress)
            return
        threading.Event().wait(0.001)
        inside.release()

    LinearSVC(tol=1e-10, n_jobs=3, callback=callback).fit(*clouds(5))
    assert not overlaps


@job_counts
@pytest.mark.parametrize("n_classes", [2, 3])
def test_verbose_prints_a_line_for_each_certificate(capsys, n_jobs, n_classes):
    model = LinearSVC(verbose=1, n_jobs=n_jobs).fit(*clouds(n_classes))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(len(trace) for trace in in_a_list(model.trace_))
    assert all(re.search(r"relative gap \d\.\d\de[-+]\d\d", line) for line in lines)


def test_without_verbose_nothing_is_printed(capsys):
    LinearSVC().fit(*clouds(3))
    assert capsys.readouterr() == ("", "")


# Ctrl-C

ENDLESS_FIT = """
import signal, sys
import numpy as np
from maxmargin import LinearSVC

signal.signal(signal.SIGINT, signal.default_int_handler)
n_classes, n_jobs = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
X, y = rng.normal(size=(50_000, 50)), rng.integers(n_classes, size=50_000)
model = LinearSVC(loss="hinge", C=1e3, tol=0.0, max_iter=-1, solver="dcd", n_jobs=n_jobs)
model.set_params(callback=lambda progress: print("running", flush=True))
model.fit(X, y)
print("status", *(status.name for status in np.atleast_1d(model.status_)))
print("finite", bool(np.isfinite(model.coef_).all()), model.coef_.shape)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for a single process")
@pytest.mark.parametrize(("n_classes", "n_jobs"), [(2, 1), (3, 2)])
def test_control_c_ends_a_fit_with_the_best_answer_so_far(n_classes, n_jobs, tmp_path):
    script = tmp_path / "endless_fit.py"
    script.write_text(ENDLESS_FIT)
    paths = [str(Path(maxmargin.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, str(script), str(n_classes), str(n_jobs)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    guard = threading.Timer(200.0, process.kill)
    guard.start()
    try:
        assert process.stdout.readline() == "running\n", process.stderr.read()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
    finally:
        guard.cancel()
        process.kill()
    n_problems = 1 if n_classes == 2 else n_classes
    assert process.returncode == 0, errors
    assert output.splitlines()[-2:] == ["status" + " STOPPED" * n_problems, f"finite True ({n_problems}, 50)"]
    assert "ConvergenceWarning: The user or the callback stopped" in errors


# scikit-learn's own checks


@ignore_early_ends
@parametrize_with_checks(
    [
        LinearSVC(),
        LinearSVC(loss="hinge"),
        LinearSVC(loss="hinge", penalize_intercept=False),
        LinearSVC(penalty="l1"),
        LinearSVC(multi_class="crammer_singer"),
    ]
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


def test_a_callback_that_says_stop_at_a_certified_class_stops_the_others():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.integers(0, 4, size=300)
    with pytest.warns(ConvergenceWarning):
        model = LinearSVC(tol=1e-3, callback=lambda progress: progress.relative_gap <= 1e-3).fit(X, y)
    assert model.status_[0] is Status.CERTIFIED
    assert all(status is Status.STOPPED for status in model.status_[1:])

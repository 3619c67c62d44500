"""SVC: scikit-learn's interface and answers, with a certificate."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
import sklearn.svm
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import RBF, SMO, SVC, BatchedSMO, FSafe, KernelProblem, Status, certify_kernel, solve

KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.5},
    "rbf-scale": {"kernel": "rbf"},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 2},
}
kernels = pytest.mark.parametrize("kernel", KERNELS)
solvers = pytest.mark.parametrize("solver", ["auto", "batched-smo", "smo", "irwls"])


@pytest.fixture(scope="module")
def two_classes():
    X, y = make_moons(120, noise=0.25, random_state=0)
    return X, np.where(y == 1, "left", "right")


@pytest.fixture(scope="module")
def three_classes():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X)[:, :3], y


@parametrize_with_checks([SVC(), SVC(kernel="linear"), SVC(fit_intercept=False, tol=1e-6)])
def test_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@kernels
@solvers
def test_it_gives_the_model_of_scikit_learn(two_classes, kernel, solver):
    X, y = two_classes
    ours = SVC(C=2.0, tol=1e-10, solver=solver, **KERNELS[kernel]).fit(X, y)
    theirs = sklearn.svm.SVC(C=2.0, tol=1e-10, **KERNELS[kernel]).fit(X, y)
    assert ours.status_ is Status.CERTIFIED
    assert ours.decision_function(X) == pytest.approx(theirs.decision_function(X), abs=2e-4)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=2e-4)


@kernels
def test_with_three_classes_every_attribute_has_scikit_learns_layout(three_classes, kernel):
    X, y = three_classes
    ours = SVC(tol=1e-10, **KERNELS[kernel]).fit(X, y)
    theirs = sklearn.svm.SVC(tol=1e-10, **KERNELS[kernel]).fit(X, y)
    for shape in ("ovo", "ovr"):
        ours.set_params(decision_function_shape=shape)
        theirs.set_params(decision_function_shape=shape)
        assert ours.decision_function(X) == pytest.approx(theirs.decision_function(X), abs=1e-3)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    assert ours.dual_coef_.shape == (2, len(ours.support_))
    assert ours.n_support_.sum() == len(ours.support_)
    assert len(ours.certificate_) == len(ours.status_) == len(ours.intercept_) == 3
    assert np.array_equal(ours.support_vectors_, X[ours.support_])
    if kernel == "linear":
        assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-3)


def test_ties_are_broken_as_asked(three_classes):
    X, y = three_classes
    model = SVC(break_ties=True).fit(X, y)
    assert np.array_equal(model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)])
    with pytest.raises(ValueError, match="break_ties"):
        model.set_params(decision_function_shape="ovo").predict(X)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_sparse_X_and_a_precomputed_kernel_give_the_same_model(two_classes, fit_intercept):
    X, y = two_classes
    settings = {"C": 3.0, "tol": 1e-9, "fit_intercept": fit_intercept}
    dense = SVC(gamma=0.7, **settings).fit(X, y)
    sparse_model = SVC(gamma=0.7, **settings).fit(sparse.csr_matrix(X), y)
    K = sklearn.metrics.pairwise.rbf_kernel(X, gamma=0.7)
    precomputed = SVC(kernel="precomputed", **settings).fit(K, y)
    custom = SVC(kernel=lambda A, B: sklearn.metrics.pairwise.rbf_kernel(A, B, gamma=0.7), **settings).fit(X, y)
    expected = dense.decision_function(X)
    assert sparse_model.decision_function(sparse.csr_matrix(X)) == pytest.approx(expected, abs=1e-3)
    assert sparse_model.decision_function(X) == pytest.approx(expected, abs=1e-3)
    assert dense.decision_function(sparse.csr_matrix(X)) == pytest.approx(expected, abs=1e-9)
    assert precomputed.decision_function(K) == pytest.approx(expected, abs=1e-3)
    assert custom.decision_function(X) == pytest.approx(expected, abs=1e-3)


def test_a_weight_of_two_is_the_sample_twice(two_classes):
    X, y = two_classes
    weights = 1.0 + (np.arange(len(y)) % 2)
    twice = np.repeat(np.arange(len(y)), weights.astype(int))
    weighted = SVC(tol=1e-10).set_params(gamma=0.5).fit(X, y, sample_weight=weights)
    repeated = SVC(tol=1e-10).set_params(gamma=0.5).fit(X[twice], y[twice])
    assert weighted.decision_function(X) == pytest.approx(repeated.decision_function(X), abs=1e-3)


def test_class_weights_are_sample_weights(two_classes):
    X, y = two_classes
    by_class = SVC(gamma=0.5, tol=1e-9, class_weight={"left": 3.0}).fit(X, y)
    by_sample = SVC(gamma=0.5, tol=1e-9).fit(X, y, sample_weight=np.where(y == "left", 3.0, 1.0))
    assert by_class.decision_function(X) == pytest.approx(by_sample.decision_function(X), abs=1e-4)
    assert by_class.class_weight_ == pytest.approx([3.0, 1.0])


def test_gamma_by_name_is_that_of_scikit_learn(three_classes):
    X, y = three_classes
    for gamma in ("scale", "auto"):
        for matrix in (X, sparse.csr_matrix(X)):
            model, peer = SVC(gamma=gamma).fit(matrix, y), sklearn.svm.SVC(gamma=gamma).fit(matrix, y)
            assert model._kernel_.gamma == pytest.approx(peer._gamma)


def test_a_fit_that_is_cut_short_warns_with_both_gaps():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="Relative duality gap asked"):
        SVC(kernel="linear", C=100.0, tol=1e-12, max_iter=1, solver="smo").fit(X, y)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "sigmoid"])
def test_the_same_call_gives_the_same_bits_from_another_thread_and_with_another_number_of_jobs(kernel):
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4], y[y < 4]
    here = SVC(kernel=kernel, C=10.0, cache_size=2.0).fit(X, y)
    others = [SVC(kernel=kernel, C=10.0, cache_size=2.0, n_jobs=n_jobs) for n_jobs in (None, None, 2, 4)]
    threads = [threading.Thread(target=model.fit, args=(X, y)) for model in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model in others:
        assert np.array_equal(model.dual_coef_, here.dual_coef_)
        assert np.array_equal(model.intercept_, here.intercept_)


def test_a_callback_stops_a_fit(two_classes):
    X, y = two_classes
    with pytest.warns(ConvergenceWarning):
        model = SVC(tol=0.0, solver=SMO(), callback=lambda progress: True).fit(X, y)
    assert model.status_ in (Status.STOPPED, Status.PRECISION_LIMIT)


def test_a_warm_start_needs_fewer_steps(two_classes):
    X, y = two_classes
    model = SVC(tol=1e-8, warm_start=True, gamma=0.5).fit(X, y)
    first = model.trace_[-1].steps
    model.set_params(C=1.05).fit(X, y)
    assert model.trace_[-1].steps < first
    assert model.status_ is Status.CERTIFIED


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": 0.0}, "gamma must be greater than 0"),
        ({"gamma": "wide"}, "gamma must be one of"),
        ({"kernel": "cubic"}, "kernel must be one of"),
        ({"C": -1.0}, "C must be greater than 0"),
        ({"cache_size": 0}, "cache_size must be greater than 0"),
        ({"degree": 1.5, "kernel": "poly"}, "degree must be a whole number"),
        ({"solver": "dcd"}, "no solver named 'dcd'"),
        ({"shrinking": "yes"}, "shrinking must be"),
        ({"decision_function_shape": "all"}, "decision_function_shape"),
    ],
)
def test_a_bad_parameter_is_named(two_classes, settings, message):
    with pytest.raises(ValueError, match=message):
        SVC(**settings).fit(*two_classes)


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.ones((120, 3)), "square"),
        (np.triu(np.ones((120, 120))), "symmetric"),
    ],
)
def test_a_precomputed_kernel_must_be_one(two_classes, K, message):
    with pytest.raises(ValueError, match=message):
        SVC(kernel="precomputed").fit(K, two_classes[1])


def test_a_kernel_function_must_return_a_block(two_classes):
    with pytest.raises(ValueError, match="returned shape"):
        SVC(kernel=lambda A, B: np.ones(3)).fit(*two_classes)


def test_a_sigmoid_kernel_ends_with_an_honest_status(two_classes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(kernel="sigmoid", gamma=2.0, coef0=-1.0, max_seconds=20.0).fit(*two_classes)
    assert not model.status_.is_certified
    assert model.status_ is Status.STATIONARY
    assert not model.certificate_.is_proof


@solvers
@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_where_a_kernel_is_not_positive_semidefinite_libsvms_violation_is_within_tol_and_all_values_are_finite(solver, C):
    X, labels = load_breast_cancer(return_X_y=True)
    model = SVC(kernel="sigmoid", C=C, tol=1e-3, solver=solver).fit(X[:200], labels[:200])
    problem = KernelProblem.build(X[:200], np.where(labels[:200] == 1, 1, -1), C, model._kernel_)
    alpha = np.zeros(200)
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    verdict = certify_kernel(problem, alpha)
    assert model.status_ is Status.STATIONARY
    assert verdict.violation <= 1e-3
    assert np.isfinite([model.certificate_.primal, model.certificate_.dual, model.relative_gap_]).all()
    theirs = sklearn.svm.SVC(kernel="sigmoid", C=C, tol=1e-3).fit(X[:200], labels[:200])
    alpha[:] = 0.0
    alpha[theirs.support_] = np.minimum(np.abs(theirs.dual_coef_[0]), C)
    assert model.certificate_.dual >= certify_kernel(problem, alpha).certificate.dual * (1.0 - 1e-9)


def test_a_precomputed_matrix_that_is_found_not_to_be_positive_semidefinite_is_stationary():
    random = np.random.default_rng(0)
    K = random.normal(size=(40, 40))
    model = SVC(kernel="precomputed", C=10.0).fit(K + K.T, np.arange(40) % 2)
    assert model.status_ is Status.STATIONARY
    assert np.isfinite(model.certificate_.primal)
    assert not model.certificate_.is_proof


@solvers
def test_solve_takes_a_kernel_problem(two_classes, solver):
    X, y = two_classes
    problem = KernelProblem.build(X, np.where(y == "left", 1, -1), 1.0, RBF(0.5))
    solution = solve(problem, solver, tol=1e-8)
    assert solution.status is Status.CERTIFIED
    assert certify_kernel(problem, solution.alpha).certificate == solution.certificate
    assert solution.kernel_evaluations > 0


def test_solvers_with_settings_are_taken_as_they_are(two_classes):
    X, y = two_classes
    for solver in (SMO(shrinking=FSafe(0.1)), BatchedSMO(working_set=16, dtype="float64")):
        assert SVC(tol=1e-6, solver=solver).fit(X, y).status_ is Status.CERTIFIED

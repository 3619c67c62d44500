"""LinearOneClassSVM: scikit-learn's contract, proved labels, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import LinearOneClassSVM, Status
from maxmargin.data.rows import NotFiniteError, UncheckedRows


@parametrize_with_checks([LinearOneClassSVM(), LinearOneClassSVM(nu=0.1)])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def drawn(n: int = 300, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(2.0, 1.0, size=(n, 4))


@pytest.mark.parametrize("nu", [0.05, 0.5])
def test_the_model_is_that_of_scikit_learns_linear_kernel(nu):
    X, weights = drawn(), np.random.default_rng(1).uniform(0.5, 2.0, 300)
    ours = LinearOneClassSVM(nu=nu, tol=1e-10).fit(X, sample_weight=weights)
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-8, max_iter=1_000_000).fit(X, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3)
    np.testing.assert_allclose(ours.offset_, theirs.offset_, rtol=1e-3)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-3, atol=1e-3)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.98


@pytest.mark.parametrize("nu", [0.02, 0.3])
def test_a_proved_label_is_that_of_the_exact_optimum(nu):
    X = drawn(2000)
    exact = LinearOneClassSVM(nu=nu, tol=1e-12).fit(X)
    rough = LinearOneClassSVM(nu=nu, tol=1e-5).fit(X)
    labels, proved = rough.certified_predict(X)
    np.testing.assert_array_equal(labels, rough.predict(X))
    np.testing.assert_array_equal(labels[proved], exact.predict(X)[proved])
    assert proved.mean() > 0.5
    assert set(labels[proved]) == {-1, 1}


def test_sparse_and_dense_data_give_one_model():
    X = drawn()
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0.0
    dense, thin = LinearOneClassSVM(nu=0.2, tol=1e-9).fit(X), LinearOneClassSVM(nu=0.2, tol=1e-9).fit(sparse.csr_array(X))
    np.testing.assert_allclose(dense.coef_, thin.coef_, rtol=1e-5)
    np.testing.assert_array_equal(dense.predict(X), dense.predict(sparse.csr_array(X)))


def test_the_training_samples_on_the_border_are_inliers():
    X = drawn(500)
    for nu in (0.1, 0.25, 0.5):
        assert np.mean(LinearOneClassSVM(nu=nu, tol=1e-9).fit_predict(X) == -1) <= nu


def test_warm_start_at_another_nu_reaches_the_target():
    X = drawn(3000)
    model = LinearOneClassSVM(nu=0.1, tol=1e-6, warm_start=True).fit(X)
    for nu in (0.2, 0.05, 1.0):
        assert model.set_params(nu=nu).fit(X).status_ is Status.CERTIFIED
    assert model.fit(X[:100]).status_ is Status.CERTIFIED


@pytest.mark.parametrize("nu", [0.0, -1.0, 1.5, np.nan, "auto"])
def test_nu_out_of_range_is_named(nu):
    with pytest.raises(ValueError, match=r"nu must be"):
        LinearOneClassSVM(nu=nu).fit(drawn())


@pytest.mark.parametrize("nu", [0.3, 1.0])
def test_one_sample_is_enough(nu):
    model = LinearOneClassSVM(nu=nu).fit([[1.0, 2.0]])
    assert model.status_ is Status.CERTIFIED
    assert model.predict([[1.0, 2.0], [-1.0, -2.0]]).tolist() == [1, -1]


def test_equal_samples_are_all_on_the_border():
    model = LinearOneClassSVM(nu=0.5).fit(np.ones((10, 3)))
    assert model.status_ is Status.CERTIFIED
    assert (model.predict(np.ones((2, 3))) == 1).all()


@pytest.mark.parametrize("solver", ["auto", "pair-descent", "newton"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(40, 3), (9000, 3), (600, 900)])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_an_element_that_is_not_finite_is_found_wherever_it_is(solver, bad, shape, is_sparse):
    """Of a large X no pass is made for it alone: the first outputs tell."""
    rng = np.random.default_rng(0)
    for place in (0, shape[0] // 2, shape[0] - 1):
        X = rng.uniform(0.5, 1.5, shape) * (rng.random(shape) < (0.02 if shape[1] > 100 else 1.0))
        X[place, -1] = bad
        model = LinearOneClassSVM(nu=0.1, solver=solver)
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.fit(sparse.csr_array(X) if is_sparse else X)
        assert not hasattr(model, "coef_")


def test_no_element_that_is_not_finite_is_overlooked_when_no_time_is_left():
    X = np.ones((9000, 3))
    X[-1, -1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        LinearOneClassSVM(max_seconds=1e-9).fit(X)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_finite_rows_whose_sums_overflow_count_as_finite(is_sparse):
    X = np.full((3, 2), 1e308)
    rows = UncheckedRows(sparse.csr_array(X) if is_sparse else X)
    rows.check_outputs(np.full(3, np.inf))
    X[1, 1] = np.inf
    with pytest.raises(NotFiniteError):
        UncheckedRows(sparse.csr_array(X) if is_sparse else X).check_outputs(np.full(3, np.nan))

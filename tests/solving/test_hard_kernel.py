"""C = infinity with a kernel: the function with the greatest margin, or a proof that no margin is beyond rounding."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

from maxmargin import SVC, InseparableError, Status
from maxmargin.certificate.hard_kernel import certify_hard_kernel, kernel_ray
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Linear

TOL = 1e-6


def quadrants(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes that no line separates, and that a product of the two columns does."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    product = X[:, 0] * X[:, 1]
    return X[np.abs(product) > 0.1], np.sign(product[np.abs(product) > 0.1])


def gram(X: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))


SETTINGS = [
    {"kernel": "rbf"},
    {"kernel": "rbf", "fit_intercept": False},
    {"kernel": "poly", "degree": 2},
    {"kernel": "precomputed"},
    {"kernel": "precomputed", "fit_intercept": False},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_separable_classes_get_the_certified_greatest_margin(settings):
    X, y = quadrants()
    data = gram(X) if settings["kernel"] == "precomputed" else X
    model = SVC(C=np.inf, tol=TOL, **settings).fit(data, y)
    assert model.status_ is Status.CERTIFIED
    assert (y * model.decision_function(data)).min() == pytest.approx(1.0, abs=1e-7)
    large = SVC(C=1e6, tol=TOL, **settings).fit(data, y)
    assert model.certificate_.primal == pytest.approx(large.certificate_.primal, rel=3.0 * TOL)


def test_sparse_rows_get_the_same_margin():
    X, y = quadrants()
    dense, spread = (SVC(C=np.inf, tol=TOL).fit(data, y) for data in (X, sparse.csr_array(X)))
    assert dense.certificate_.primal == pytest.approx(spread.certificate_.primal, rel=3.0 * TOL)


def test_a_linear_kernel_gets_the_margin_of_its_precomputed_values():
    X, y = quadrants()
    X, y = X[X[:, 0] > 0.0], y[X[:, 0] > 0.0]
    linear = SVC(C=np.inf, tol=TOL, kernel="linear").fit(X, y)
    given = SVC(C=np.inf, tol=TOL, kernel="precomputed").fit(X @ X.T, y)
    assert linear.certificate_.primal == pytest.approx(given.certificate_.primal, rel=3.0 * TOL)
    assert linear.status_ is given.status_ is Status.CERTIFIED


def test_every_pair_of_three_classes_is_certified():
    X, y = load_iris(return_X_y=True)
    model = SVC(C=np.inf, tol=TOL).fit(X, y)
    assert model.status_ == [Status.CERTIFIED] * 3
    assert np.array_equal(model.predict(X), y)


def test_proved_labels_and_offsets_are_those_of_a_sharper_fit():
    X, y = quadrants()
    rough, sharp = (SVC(C=np.inf, tol=tol, max_iter=-1, cache_size=1).fit(X, y) for tol in (1e-1, 1e-9))
    assert abs(rough.intercept_[0] - sharp.intercept_[0]) <= rough.offset_bound_ + sharp.offset_bound_
    places = np.random.default_rng(1).normal(size=(500, 2))
    labels, proved = rough.certified_predict(places)
    assert np.array_equal(labels[proved], sharp.predict(places)[proved])
    assert sharp.certified_predict(places).proved.mean() > 0.9


@pytest.mark.parametrize("has_offset", [True, False], ids=["offset", "none"])
def test_kernel_values_that_allow_no_margin_are_refused_with_a_proof(has_offset):
    X, y = quadrants()
    with pytest.raises(
        InseparableError, match=r"no function separates the classes with a margin above .* Use a finite C"
    ) as refused:
        SVC(C=np.inf, kernel="precomputed", fit_intercept=has_offset).fit(X @ X.T, y)
    ray = refused.value.ray
    assert np.all(ray >= 0.0)
    assert np.linalg.norm((ray * y) @ X) <= refused.value.margin * ray.sum()
    assert refused.value.margin < 1e-5
    if has_offset:
        assert abs((ray * y).sum()) < 1e-12


def test_equal_samples_of_different_classes_are_an_exact_proof():
    X, y = quadrants()
    X, y = np.vstack([X, X[:1]]), np.append(y, -y[0])
    with pytest.raises(InseparableError, match="Two samples are equal and have different classes") as refused:
        SVC(C=np.inf).fit(X, y)
    assert refused.value.margin == 0.0
    assert np.array_equal(np.flatnonzero(refused.value.ray), [0, len(y) - 1])
    weights = np.append(np.ones(len(y) - 1), 0.0)
    assert SVC(C=np.inf).fit(X, y, weights).status_ is Status.CERTIFIED


def test_the_ray_of_a_pair_of_several_classes_counts_all_samples():
    X, y = load_iris(return_X_y=True)
    X, y = np.vstack([X, X[70:71]]), np.append(y, 2)
    with pytest.raises(InseparableError) as refused:
        SVC(C=np.inf).fit(X, y)
    assert np.array_equal(np.flatnonzero(refused.value.ray), [70, 150])


def test_an_answer_whose_least_margin_is_below_one_is_refused():
    X, y = quadrants()
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5))
    model = SVC(C=np.inf, gamma=0.5, tol=TOL).fit(X, y)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    b = float(model.intercept_[0])
    assert certify_hard_kernel(problem, alpha, b).certificate.meets(TOL)
    assert certify_hard_kernel(problem, 0.999 * alpha, 0.999 * b).certificate.gap == np.inf


def test_a_ray_bounds_the_margin_of_separable_classes_too():
    X, y = quadrants()
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5))
    margin = 1.0 / np.sqrt(2.0 * SVC(C=np.inf, gamma=0.5, tol=TOL).fit(X, y).certificate_.primal)
    for seed in range(5):
        ray = kernel_ray(problem, problem.nearest_feasible(np.random.default_rng(seed).random(len(y))))
        assert ray.margin >= margin
        assert not ray.is_proof


def test_the_ray_of_a_linear_kernel_is_that_of_exact_weights():
    X, y = quadrants()
    problem = KernelProblem.build(X, y, 1.0, Linear())
    alpha = problem.nearest_feasible(np.random.default_rng(0).random(len(y)))
    alpha = alpha / alpha.sum()
    assert kernel_ray(problem, alpha).margin == pytest.approx(np.linalg.norm((alpha * y) @ X), rel=1e-9)


def test_a_kernel_that_is_not_positive_semidefinite_is_refused():
    with pytest.raises(ValueError, match="positive semidefinite"):
        SVC(C=np.inf, kernel="sigmoid").fit(*quadrants())


def test_a_warm_start_does_not_scale_by_infinity():
    X, y = quadrants()
    model = SVC(C=1.0, warm_start=True).fit(X, y)
    assert model.set_params(C=np.inf).fit(X, y).status_ is Status.CERTIFIED
    assert model.set_params(C=1.0).fit(X, y).status_ is Status.CERTIFIED


@pytest.mark.parametrize("C", [-np.inf, np.nan, 0.0, "inf"])
def test_other_values_of_C_are_refused_as_before(C):
    with pytest.raises(ValueError, match="C must be"):
        SVC(C=C).fit(*quadrants())

"""Prediction for several classes: the outputs of all pairs against brute force, whatever the kernel and the form of X."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

import maxmargin.kernel_matrix.tiles as kernel_tiles
from maxmargin import SVC
from maxmargin.data.threads import ThreadPolicy
from maxmargin.estimators.pairs import pair_weights
from maxmargin.kernel_matrix.outputs import ClassCoefficients, PairMachines, PredictionPolicy
from maxmargin.kernel_matrix.tiles import TilePolicy
from maxmargin.problem.kernels import RBF, Custom, Linear, Points, Polynomial, Precomputed, Sigmoid

KERNELS = {
    "linear": Linear(),
    "rbf": RBF(0.4),
    "polynomial": Polynomial(0.3, 1.0, 3),
    "constant": Polynomial(0.3, 1.0, 0),
    "sigmoid": Sigmoid(0.05, -0.1),
    "custom": Custom(lambda A, B: _dense(A @ B.T) ** 2),
}
PRECISION = {np.float32: 1e-5, np.float64: 1e-13}
FORMS = {"dense": np.asarray, "sparse": sparse.csr_array}
N_SUPPORT = np.array([13, 0, 30, 8])


def _dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def model_and_samples(zeros: float, n: int = 90, d: int = 7, seed: int = 0):
    """Support vectors, coefficients and samples; a share of all elements is zero."""
    random = np.random.default_rng(seed)
    vectors, X = random.normal(size=(N_SUPPORT.sum(), d)), random.normal(size=(n, d))
    for matrix in (vectors, X):
        matrix[random.random(matrix.shape) < zeros] = 0.0
    return vectors, random.normal(size=(len(N_SUPPORT) - 1, len(vectors))), X


def pair_outputs(kernel, vectors, dual_coef, X, policy=None, n_support=N_SUPPORT):
    """Decision values with offsets of zero."""
    zeros = np.zeros(len(n_support) * (len(n_support) - 1) // 2)
    return PairMachines(kernel, vectors, dual_coef, n_support, zeros, policy or PredictionPolicy()).values(X)


def brute_force(kernel, vectors, dual_coef, X):
    """By the definition, pair by pair."""
    K, codes = kernel.block(Points.of(X), Points.of(vectors)), np.repeat(np.arange(len(N_SUPPORT)), N_SUPPORT)
    columns = []
    for i, j in combinations(range(len(N_SUPPORT)), 2):
        columns.append(K[:, codes == i] @ dual_coef[j - 1, codes == i] + K[:, codes == j] @ dual_coef[i, codes == j])
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("zeros", [0.0, 0.8])
@pytest.mark.parametrize("of_X", FORMS)
@pytest.mark.parametrize("of_model", FORMS)
@pytest.mark.parametrize("name", KERNELS)
def test_the_outputs_of_all_pairs_are_those_of_brute_force(name, of_model, of_X, zeros, dtype):
    vectors, dual_coef, X = model_and_samples(zeros)
    X = X.astype(dtype)
    expected = brute_force(KERNELS[name], vectors, dual_coef, X.astype(np.float64))
    found = pair_outputs(KERNELS[name], FORMS[of_model](vectors), dual_coef, FORMS[of_X](X))
    assert found.dtype == np.float64
    magnitude = brute_force(_magnitudes(KERNELS[name]), vectors, np.abs(dual_coef), X.astype(np.float64)).max()
    assert np.abs(found - expected).max() <= PRECISION[dtype] * magnitude


def _magnitudes(kernel):
    return Custom(lambda A, B: np.abs(kernel.block(Points.of(A), Points.of(B))))


@pytest.mark.parametrize("of_X", FORMS)
@pytest.mark.parametrize("of_model", FORMS)
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_wide_samples_tiles_of_any_shape_and_threads_change_nothing(name, of_model, of_X, monkeypatch):
    vectors, dual_coef, X = model_and_samples(0.8, d=40)
    expected = brute_force(KERNELS[name], vectors, dual_coef, X)
    monkeypatch.setattr(kernel_tiles, "TilePolicy", partial(TilePolicy, narrow_features=1))
    monkeypatch.setattr("maxmargin.data.threads.POLICY", ThreadPolicy(elements_a_thread=1))
    policy = PredictionPolicy(rows_a_strip=7, columns_a_tile=5)
    found = pair_outputs(KERNELS[name], FORMS[of_model](vectors), dual_coef, FORMS[of_X](X), policy)
    assert np.allclose(found, expected, rtol=0.0, atol=1e-12 * np.abs(expected).max())


def test_float32_samples_beyond_its_range_are_predicted_in_float64():
    vectors, dual_coef, X = model_and_samples(0.0)
    far = (1e20 * X).astype(np.float32)
    expected = brute_force(Polynomial(1.0, 0.0, 2), vectors, dual_coef, far.astype(np.float64))
    found = pair_outputs(Polynomial(1.0, 0.0, 2), vectors, dual_coef, far)
    assert np.allclose(found, expected, rtol=0.0, atol=1e-12 * np.abs(expected).max())


def test_given_values_give_the_same_outputs_whatever_their_form():
    vectors, dual_coef, X = model_and_samples(0.0)
    support = np.random.default_rng(1).permutation(80)[: len(vectors)]
    K = np.zeros((len(X), 80))
    K[:, support] = rbf_kernel(X, vectors, gamma=0.4)
    expected = brute_force(RBF(0.4), vectors, dual_coef, X)
    for given in (K, sparse.csr_array(K)):
        found = pair_outputs(Precomputed(), support, dual_coef, given, PredictionPolicy(rows_a_block=11))
        assert np.allclose(found, expected, rtol=0.0, atol=1e-12)


def test_coefficients_by_class_are_the_nonzero_part_of_those_by_pair():
    dual_coef = np.random.default_rng(0).normal(size=(len(N_SUPPORT) - 1, N_SUPPORT.sum()))
    weights = np.zeros((N_SUPPORT.sum(), 6))
    for own in ClassCoefficients.of(dual_coef, N_SUPPORT):
        weights[own.start : own.stop, own.pairs] = own.values
    assert np.array_equal(weights, pair_weights(dual_coef, N_SUPPORT))


def test_a_machine_without_support_vectors_has_outputs_of_zero():
    none = np.zeros(3, int)
    assert not pair_outputs(RBF(1.0), np.empty((0, 4)), np.empty((2, 0)), np.ones((5, 4)), n_support=none).any()


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("of_model", FORMS)
@pytest.mark.parametrize("of_X", FORMS)
def test_a_fitted_machine_decides_as_its_coefficients_say(of_model, of_X, dtype):
    random = np.random.default_rng(0)
    y = random.integers(5, size=200)
    X = (random.normal(size=(5, 6))[y] + random.normal(size=(200, 6))).astype(dtype)
    model = SVC(gamma=0.3, decision_function_shape="ovo").fit(FORMS[of_model](X), y)
    K = rbf_kernel(X.astype(np.float64), _dense(model.support_vectors_).astype(np.float64), gamma=0.3)
    expected = K @ pair_weights(model.dual_coef_, model.n_support_) + model.intercept_
    assert np.abs(model.decision_function(FORMS[of_X](X)) - expected).max() <= 20.0 * PRECISION[dtype]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("C", "precision"), [(1.0, 1e-5), (1e6, 1e-13)])
def test_float32_predicts_in_float32_only_where_its_digits_suffice(n_classes, C, precision):
    """With C = 1e6 the coefficients are so large that float32 would leave nothing of a decision value near zero."""
    random = np.random.default_rng(3)
    X = random.normal(size=(120, 4)).astype(np.float32)
    y = (np.arange(120) + (random.random(120) < 0.3)) % n_classes
    model = SVC(C=C, gamma=0.3, decision_function_shape="ovo").fit(X.astype(np.float64), y)
    single, double = model.decision_function(X), model.decision_function(X.astype(np.float64))
    scale = np.abs(model.dual_coef_).sum()
    assert np.allclose(single, double, rtol=0.0, atol=precision * scale)
    assert np.allclose(single, double, rtol=0.0, atol=1e-3)


@pytest.mark.parametrize("break_ties", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_labels_are_the_same_whatever_the_element_type_of_the_samples(n_classes, break_ties):
    """Samples on the borders between classes, found by bisection in float32: there a label hangs on the last digit."""
    random = np.random.default_rng(5)
    y = random.integers(n_classes, size=160)
    X = (random.normal(size=(n_classes, 3))[y] + random.normal(size=(160, 3))).astype(np.float32)
    model = SVC(gamma=0.5, break_ties=break_ties).fit(X.astype(np.float64), y)
    near = _bisected(model, X[:80], X[80:])
    assert np.array_equal(model.predict(near), model.predict(near.astype(np.float64)))


def _bisected(model, one, other):
    for _ in range(30):
        middle = (0.5 * (one + other)).astype(np.float32)
        is_one = model.predict(middle.astype(np.float64)) == model.predict(one.astype(np.float64))
        one, other = np.where(is_one[:, None], middle, one), np.where(is_one[:, None], other, middle)
    return np.concatenate([one, other])

"""A model in ONNX predicts as ours does, within the bound that is said."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, SVR, LinearOneClassSVM, LinearSVC, LinearSVCCV, LinearSVR, NuSVC, NuSVR, OneClassSVM

pytest.importorskip("skl2onnx")
runtime = pytest.importorskip("onnxruntime")

from maxmargin.models.onnx import to_onnx  # noqa: E402

X, y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf"},
    "poly, by its features": {"kernel": "poly", "coef0": 1.0},
    "poly without an offset": {"kernel": "poly", "coef0": 1.0, "degree": 2, "fit_intercept": False},
    "poly of a high degree": {"kernel": "poly", "degree": 14, "coef0": 1.0, "gamma": 0.05},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.01},
    "ovo": {"decision_function_shape": "ovo"},
    "break ties": {"break_ties": True},
}


def run(exported, X):
    session = runtime.InferenceSession(exported.model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": np.asarray(X, dtype=exported.dtype)})


def assert_same(model, exported, X, pair_values):
    """Decision values within the bound; labels equal where no value is within it of zero."""
    label, scores = run(exported, X)
    expected = model.decision_function(X)
    assert scores.shape == expected.shape
    clear = np.abs(pair_values).reshape(len(X), -1).min(axis=1) > exported.bound
    assert clear.mean() > 0.9 or exported.dtype == "float32"
    np.testing.assert_array_equal(label[clear], model.predict(X)[clear])
    differences = np.abs(scores[clear] - expected[clear])
    assert differences.max(initial=0.0) <= exported.bound * pair_values.shape[-1] + 1e-15


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("target", [y, y == 1, NAMES[y]], ids=["three classes", "two classes", "words"])
def test_a_linear_model_gives_the_same_outputs_within_the_bound(target, dtype):
    model = LinearSVC().fit(X, target)
    exported = to_onnx(model, X, dtype=dtype)
    label, scores = run(exported, X)
    assert np.abs(scores - model.decision_function(X)).max() <= exported.bound
    assert exported.bound < (1e-12 if dtype == "float64" else 1e-4)
    assert [str(name) for name in label] == [str(name) for name in model.predict(X).astype(label.dtype)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("settings", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_kernel_model_gives_the_same_outputs_within_the_bound(settings, dtype, n_classes):
    chosen = y < n_classes
    rows, target = X[chosen], y[chosen]
    if settings.get("decision_function_shape") == "ovo" and n_classes == 2:
        settings = {}
    model = SVC(**settings).fit(rows, target)
    exported = to_onnx(model, rows, dtype=dtype)
    pair_values = model._pair_values(rows)
    assert_same(model, exported, rows, pair_values)
    ours = SVC(**{**settings, "break_ties": False, "decision_function_shape": "ovo"}).fit(rows, target)
    _, scores = run(to_onnx(ours, rows, dtype=dtype), rows)
    assert np.abs(scores.reshape(pair_values.shape) - pair_values).max() <= exported.bound
    assert exported.bound < 1e-6 or dtype == "float32"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize(
    "model",
    [LinearSVR(), LinearSVR(loss="quantile"), SVR(), SVR(kernel="poly", coef0=1.0), SVR(kernel="linear"), NuSVR()],
    ids=repr,
)
def test_a_regressor_gives_the_same_values_within_the_bound(model, n_outputs, dtype):
    targets = X[:, 3] if n_outputs == 1 else X[:, 2:]
    model.fit(X[:, :2], targets)
    exported = to_onnx(model, X[:, :2], dtype=dtype)
    (values,) = run(exported, X[:, :2])
    assert values.shape == targets.shape
    assert np.abs(values - model.predict(X[:, :2])).max() <= exported.bound
    assert exported.bound < 1e-8 or dtype == "float32"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "model", [OneClassSVM(nu=0.2), OneClassSVM(kernel="linear", nu=0.2), LinearOneClassSVM(nu=0.2)], ids=repr
)
def test_a_one_class_machine_gives_the_same_labels_where_the_bound_allows(model, dtype):
    model.fit(X)
    exported = to_onnx(model, X, dtype=dtype)
    label, scores = run(exported, X)
    expected = model.decision_function(X)
    assert np.abs(scores - expected).max() <= exported.bound
    clear = np.abs(expected) > exported.bound
    assert clear.mean() > 0.5
    np.testing.assert_array_equal(label[clear], model.predict(X)[clear])


@pytest.mark.parametrize("model", [NuSVC(nu=0.2), SVCCV(Cs=[1.0], gammas=[0.2]), LinearSVCCV(Cs=[1.0])], ids=repr)
def test_classifiers_that_are_kinds_of_others_convert_too(model):
    model.fit(X, y)
    label, scores = run(to_onnx(model, X), X)
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-9)


def test_every_estimator_has_a_converter():
    from sklearn.base import BaseEstimator

    import maxmargin
    from maxmargin.models.onnx import CLASSIFIERS, ONE_CLASS, REGRESSORS

    public = {getattr(maxmargin, name) for name in maxmargin.__all__}
    estimators = {each for each in public if isinstance(each, type) and issubclass(each, BaseEstimator)}
    assert estimators == {*CLASSIFIERS, *ONE_CLASS, *REGRESSORS}


def test_a_precomputed_kernel_is_predicted_from_kernel_values():
    K = rbf_kernel(X, gamma=0.3)
    model = SVC(kernel="precomputed").fit(K, y)
    label, _ = run(to_onnx(model, K), K)
    np.testing.assert_array_equal(label, model.predict(K))


def test_a_kernel_that_is_a_function_is_refused():
    model = SVC(kernel=lambda A, B: A @ B.T).fit(X, y)
    with pytest.raises(ValueError, match="cannot be put into an ONNX graph"):
        to_onnx(model, X)


def test_sparse_support_vectors_are_made_dense():
    digits, target = load_digits(return_X_y=True)
    digits, target = digits[:200], target[:200]
    model = SVC().fit(sparse.csr_matrix(digits), target)
    label, _ = run(to_onnx(model, digits), digits)
    np.testing.assert_array_equal(label, model.predict(sparse.csr_matrix(digits)))


def test_a_pipeline_converts_with_skl2onnx_alone():
    import skl2onnx

    rows, target = make_moons(100, noise=0.2, random_state=0)
    pipeline = make_pipeline(StandardScaler(), SVC()).fit(rows, target)
    converted = skl2onnx.to_onnx(pipeline, rows.astype(np.float32))
    session = runtime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    label = session.run(None, {"X": rows.astype(np.float32)})[0]
    np.testing.assert_array_equal(label, pipeline.predict(rows))


def test_the_bound_is_printed_and_the_file_is_read_back(tmp_path):
    exported = to_onnx(LinearSVC().fit(X, y), X)
    assert "MatMul, Add" in str(exported)
    assert f"at most {exported.bound:.2e}" in str(exported)
    path = exported.save(tmp_path / "model.onnx")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert session.run(None, {"X": X})[0].shape == (150,)


def test_an_unknown_precision_is_refused():
    with pytest.raises(ValueError, match="dtype must be 'float64' or 'float32'; got 'float16'"):
        to_onnx(LinearSVC().fit(X, y), X, dtype="float16")

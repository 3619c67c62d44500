"""Our own files of regression, one class and nu: they come back as they were, and lies in them are refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from fuzz.seeds import put_together, taken_apart
from maxmargin import SVR, LinearOneClassSVM, LinearSVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.io import MalformedFile, load_model, save_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) + 1.0
Y = X @ [1.0, 2.0, -1.0] + 0.1 * RNG.normal(size=40)
TWO = np.column_stack([Y, -2.0 * Y])
CLASSES = np.digitize(Y, [1.0, 3.0])

MODELS = {
    "regression": (SVR(tol=1e-6), X, Y),
    "regression by weights": (SVR(kernel="linear", tol=1e-6), X, Y),
    "two regressions by weights": (SVR(kernel="poly", degree=2), X, TWO),
    "regression of values": (SVR(kernel="precomputed"), X @ X.T, Y),
    "quantile": (SVR(loss="quantile", quantile=0.3), sparse.csr_matrix(X), Y),
    "one column": (SVR(), X, Y[:, None]),
    "nu regression": (NuSVR(tol=1e-6), sparse.csr_matrix(X), Y),
    "two nu regressions": (NuSVR(), X, TWO),
    "nu classes": (NuSVC(nu=0.1), X, CLASSES),
    "two nu classes": (NuSVC(nu=0.2, class_weight={0: 1.0, 1: 2.0}), sparse.csr_matrix(X), np.where(Y > np.median(Y), 1, 0)),
    "nu classes of values": (NuSVC(nu=0.1, kernel="precomputed"), X @ X.T, CLASSES),
    "one class": (OneClassSVM(nu=0.2), X, None),
    "one class of values": (OneClassSVM(nu=0.2, kernel="precomputed"), X @ X.T, None),
    "linear regression": (LinearSVR(), X, TWO),
    "linear one class": (LinearOneClassSVM(), X, None),
}
KEPT = (
    "dual_coef_",
    "intercept_",
    "n_support_",
    "offset_",
    "rho_",
    "cost_",
    "epsilon_",
    "shape_fit_",
    "fit_status_",
    "n_iter_",
)
names = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def fitted():
    return {name: model.fit(data, target) for name, (model, data, target) in MODELS.items()}


@names
def test_a_model_comes_back_as_it_was(fitted, tmp_path, name):
    model, data = fitted[name], MODELS[name][1]
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict(data), model.predict(data))
    assert again.certificate_ == model.certificate_
    assert again.status_ == model.status_
    for key in KEPT:
        if hasattr(model, key):
            np.testing.assert_array_equal(getattr(again, key), getattr(model, key))
    if getattr(model, "kernel", None) != "precomputed":
        for ours, theirs in zip(again.certified_predict(data), model.certified_predict(data), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert again.get_params() == model.get_params()


LIES = {
    "nu of two": ("one class", ("parameters", "nu"), 2.0, "nu must be a finite number"),
    "nu of nothing": ("nu classes", ("parameters", "nu"), 0.0, "nu must be a finite number"),
    "another loss": ("regression", ("parameters", "loss"), "squared_epsilon_insensitive", "loss must be one of"),
    "a whole quantile": ("regression", ("parameters", "quantile"), 1.0, "quantile must be less than 1"),
    "a negative tube": ("regression", ("parameters", "epsilon"), -1.0, "epsilon must be a finite number"),
    "classes of a regression": ("regression", ("labels",), [1, 2], "a model of SVR has no labels"),
    "no classes of nu": ("nu classes", ("labels",), [], "labels must be a list of at least 2 items"),
    "outputs that are not there": ("regression", ("n_outputs",), 10**9, "must be float64 of shape"),
    "no outputs": ("regression", ("n_outputs",), 0, "n_outputs must be"),
    "outputs of one class": ("one class", ("n_outputs",), 1, "which this version does not know"),
    "a cost of one class": ("one class", ("parameters", "C"), 1.0, "which this version does not know"),
    "no gamma": ("nu regression", ("gamma",), None, "needs a number gamma"),
    "another estimator": ("regression", ("estimator",), "NuSVR", "the header.parameters has no 'nu'"),
    "epochs of a word": ("nu regression", ("n_iter_",), "many", "n_iter_ must be"),
}


def written(fitted, path, name):
    save_model(fitted[name], path)
    return taken_apart(path.read_bytes())


@pytest.mark.parametrize("lie", LIES)
def test_a_wrong_field_is_refused_in_a_sentence(fitted, tmp_path, lie):
    name, place, value, sentence = LIES[lie]
    model = written(fitted, tmp_path / "model", name)
    at = model.header
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    (tmp_path / "model").write_bytes(put_together(model.header, model.tensors))
    with pytest.raises(MalformedFile, match=sentence):
        load_model(tmp_path / "model")


ARRAYS = {
    "no rho": ("nu classes", "rho_", None, "rho_ is missing"),
    "a negative rho": ("nu classes", "rho_", -1.0, "rho_ must be positive"),
    "a tube that is not finite": ("nu regression", "epsilon_", np.inf, "epsilon_ holds a value that is not finite"),
    "too many support vectors": ("regression", "n_support_", 7, "n_support_ must add up to"),
    "a place that is none": ("one class of values", "support_", 10**6, "support_ must lie between"),
    "no intercept": ("one class", "intercept_", None, "intercept_ must be float64"),
    "a stranger": ("one class", "rho_", 1.0, "rho_ does not belong into a model of OneClassSVM"),
}


@pytest.mark.parametrize("lie", ARRAYS)
def test_a_wrong_array_is_refused_in_a_sentence(fitted, tmp_path, lie):
    name, key, value, sentence = ARRAYS[lie]
    model = written(fitted, tmp_path / "model", name)
    tensors = dict(model.tensors)
    if value is None:
        del tensors[key]
    else:
        tensors[key] = np.full_like(tensors[key], value) if key in tensors else np.array([value])
    (tmp_path / "model").write_bytes(put_together(model.header, tensors))
    with pytest.raises(MalformedFile, match=sentence):
        load_model(tmp_path / "model")


def test_a_function_as_a_kernel_is_code_and_is_not_written(tmp_path):
    with pytest.raises(TypeError, match="The kernel of this NuSVR is a function"):
        save_model(NuSVR(kernel=lambda a, b: a @ b.T).fit(X, Y), tmp_path / "model")


def test_what_is_not_fitted_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        save_model(OneClassSVM(), tmp_path / "model")

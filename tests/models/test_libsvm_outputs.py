"""LIBSVM's models of regression, nu and one class: theirs predict the same here, ours predict the same there."""

from __future__ import annotations

import numpy as np
import pytest
from libsvm.svmutil import svm_load_model, svm_predict, svm_save_model, svm_train

from maxmargin import SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.io import read_libsvm, write_libsvm

KERNELS = {"linear": "-t 0", "poly": "-t 1 -g 0.3 -r 1 -d 2", "rbf": "-t 2 -g 0.3"}
MODELS = {
    "nu-svc": (NuSVC, {"nu": 0.7}, "-s 1 -n 0.7"),
    "one-class": (OneClassSVM, {"nu": 0.2}, "-s 2 -n 0.2"),
    "svr": (SVR, {"epsilon": 0.2}, "-s 3 -p 0.2"),
    "nu-svr": (NuSVR, {"nu": 0.3}, "-s 4 -n 0.3"),
}
models = pytest.mark.parametrize("name", MODELS)
kernels = pytest.mark.parametrize("kernel", KERNELS)


def drawn(name: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)) + 1.0
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=120)
    return X, np.where(y > np.median(y), 2.0, 1.0) if name == "nu-svc" else y


def decisions(model, X: np.ndarray) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@models
@kernels
def test_a_model_of_libsvm_predicts_here_what_it_predicts_there(name, kernel, tmp_path):
    X, y = drawn(name)
    theirs = svm_train(y, X, f"{MODELS[name][2]} {KERNELS[kernel]} -q")
    svm_save_model(str(tmp_path / "model"), theirs)
    labels, _, values = svm_predict(y, X, theirs, "-q")
    ours = read_libsvm(tmp_path / "model")
    assert isinstance(ours, MODELS[name][0])
    np.testing.assert_allclose(ours.predict(X), labels, rtol=1e-6, atol=1e-6)
    if name != "nu-svc":
        np.testing.assert_allclose(decisions(ours, X), np.ravel(values), rtol=1e-6, atol=1e-6)


@models
@kernels
def test_our_model_predicts_there_what_it_predicts_here(name, kernel, tmp_path):
    X, y = drawn(name)
    kind, settings, _ = MODELS[name]
    ours = kind(kernel=kernel, gamma=0.3, coef0=1.0, degree=2, tol=1e-6, **settings).fit(X, y)
    write_libsvm(ours, tmp_path / "model")
    labels, _, values = svm_predict(y, X, svm_load_model(str(tmp_path / "model")), "-q")
    clear = np.abs(decisions(ours, X)) > 1e-5
    np.testing.assert_allclose(np.array(labels)[clear], ours.predict(X)[clear], rtol=1e-6, atol=1e-6)
    assert np.ravel(values).shape == (120,)


@models
def test_a_model_that_is_written_and_read_is_the_same(name, tmp_path):
    X, y = drawn(name)
    kind, settings, _ = MODELS[name]
    ours = kind(tol=1e-6, **settings).fit(X, y)
    write_libsvm(ours, tmp_path / "model")
    np.testing.assert_allclose(decisions(read_libsvm(tmp_path / "model"), X), decisions(ours, X), rtol=1e-9, atol=1e-9)


def test_several_outputs_cannot_be_written(tmp_path):
    X, y = drawn("svr")
    with pytest.raises(ValueError, match="hold one output"):
        write_libsvm(SVR().fit(X, np.column_stack([y, y])), tmp_path / "model")

"""Models on disk: what is loaded predicts the same, and what was damaged, altered or foreign is refused."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
from safetensors.numpy import save_file

import maxmargin
from maxmargin import DCD, LinearSVC
from maxmargin.io import (
    MalformedFile,
    load_model,
    read_liblinear,
    read_libsvm,
    save_model,
    write_liblinear,
    write_libsvm,
)
from tests.catalogue import labelled


def fitted(n_classes=2, labels=None, **parameters):
    X, _ = labelled(90, 5, 1.0, 0)
    labels = np.arange(n_classes) if labels is None else np.asarray(labels)
    y = labels[np.digitize(X[:, 0], np.quantile(X[:, 0], np.linspace(0, 1, len(labels) + 1)[1:-1]))]
    return LinearSVC(tol=1e-3, **parameters).fit(X, y), X


LABELS = {
    "ints": [3, 7],
    "floats": [-1.0, 2.0],
    "strings": ["no", "yes"],
    "objects": np.array(["a", "bc", "déf"], dtype=object),
    "bools": [False, True],
    "three": [0, 1, 2],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_loaded_model_is_the_saved_one(tmp_path, labels, fit_intercept):
    model, X = fitted(labels=labels, fit_intercept=fit_intercept)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.classes_.dtype == model.classes_.dtype
    assert again.get_params() == model.get_params()
    for attribute in ("certificate_", "status_", "trace_", "relative_gap_", "n_iter_", "n_features_in_"):
        assert getattr(again, attribute) == getattr(model, attribute)


def test_parameters_that_are_objects_survive_as_far_as_they_can(tmp_path):
    model, _ = fitted(class_weight={0: 2.0, 1: 1.0}, solver=DCD(shrinking=None), callback=lambda progress: None)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.class_weight == {0: 2.0, 1: 1.0}
    assert again.solver == "dcd"
    assert again.callback is None


def test_a_sparsified_model_can_be_saved(tmp_path):
    model, X = fitted()
    expected = model.predict(X)
    save_model(model.sparsify(), tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").predict(X), expected)


def test_what_cannot_be_saved_is_refused_and_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        save_model(LinearSVC(), tmp_path / "model")
    with pytest.raises(TypeError, match=r"can save LinearSVC, .*SVM; got int"):
        save_model(3, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_every_truncation_and_every_altered_byte_is_refused(tmp_path):
    model, _ = fitted()
    save_model(model, tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    broken = tmp_path / "broken"
    for length in (0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 1):
        broken.write_bytes(content[:length])
        with pytest.raises(MalformedFile, match="broken"):
            load_model(broken)
    for place in range(0, len(content), 7):
        altered = bytearray(content)
        altered[place] ^= 1
        broken.write_bytes(bytes(altered))
        with pytest.raises(MalformedFile, match="broken"):
            load_model(broken)


def test_foreign_files_are_refused(tmp_path):
    save_file({"coef_": np.zeros(3)}, tmp_path / "foreign")
    with pytest.raises(MalformedFile, match="not a maxmargin model"):
        load_model(tmp_path / "foreign")
    (tmp_path / "pickle").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(MalformedFile, match="not a maxmargin model"):
        load_model(tmp_path / "pickle")


def test_the_header_says_which_version_wrote_it(tmp_path):
    model, _ = fitted()
    save_model(model, tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    assert json.loads(header["maxmargin"])["version"] == maxmargin.__version__


@pytest.mark.parametrize("labels", [[-1, 1], [1, 2, 5]])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_liblinear_predicts_the_same_with_an_exported_model(tmp_path, labels, fit_intercept, loss):
    from liblinear.liblinearutil import load_model as their_load
    from liblinear.liblinearutil import predict

    model, X = fitted(labels=labels, fit_intercept=fit_intercept, loss=loss)
    path = tmp_path / "model"
    write_liblinear(model, path)
    theirs, _, _ = predict([], X.tolist(), their_load(str(path)), "-q")
    assert np.array_equal(theirs, model.predict(X))
    again = read_liblinear(path)
    assert again.decision_function(X) == pytest.approx(model.decision_function(X))
    assert again.loss == loss


@pytest.mark.parametrize("labels", [[-1, 1], [1, -1], [4, 2, 9]])
@pytest.mark.parametrize("bias", [-1, 1, 3])
def test_a_model_of_liblinears_predicts_the_same_here(tmp_path, labels, bias):
    from liblinear.liblinearutil import predict, save_model, train

    _, X = fitted()
    y = np.array(labels)[np.arange(90) % len(labels)].astype(float)
    model = train(y.tolist(), X.tolist(), f"-s 3 -c 1 -B {bias} -q")
    save_model(str(tmp_path / "model"), model)
    theirs, _, _ = predict([], X.tolist(), model, "-q")
    assert np.array_equal(read_liblinear(tmp_path / "model").predict(X), theirs)


@pytest.mark.parametrize("labels", [[-1, 1], [7, 3]])
def test_libsvm_models_go_both_ways(tmp_path, labels):
    from libsvm.svmutil import svm_load_model, svm_predict, svm_save_model, svm_train

    model, X = fitted(labels=sorted(labels))
    write_libsvm(model, tmp_path / "ours")
    theirs, _, _ = svm_predict([], X.tolist(), svm_load_model(str(tmp_path / "ours")), "-q")
    assert np.array_equal(theirs, model.predict(X))
    y = np.array(labels)[(X[:, 0] + X[:, 1] > 0).astype(int)]
    trained = svm_train(y.tolist(), X.tolist(), "-t 0 -c 1 -q")
    svm_save_model(str(tmp_path / "theirs"), trained)
    expected, _, _ = svm_predict([], X.tolist(), trained, "-q")
    assert np.array_equal(read_libsvm(tmp_path / "theirs").predict(X), expected)


def test_models_that_the_other_tools_cannot_hold_are_refused(tmp_path):
    with pytest.raises(ValueError, match="whole numbers as labels"):
        write_liblinear(fitted(labels=["a", "b"])[0], tmp_path / "model")
    with pytest.raises(ValueError, match="pairwise"):
        write_libsvm(fitted(3)[0], tmp_path / "model")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("index", ["0", "-3", "99999999999", "x"])
def test_an_impossible_index_in_a_libsvm_model_is_named(tmp_path, index):
    path = tmp_path / "model"
    write_libsvm(fitted()[0], path)
    path.write_text(path.read_text().replace(" 2:", f" {index}:"))
    with pytest.raises(MalformedFile, match=r"line 9: .*(whole number|between 1 and)"):
        read_libsvm(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text.replace("nr_class 2", "nr_class two"), "is not a whole number"),
        (lambda text: text.replace("nr_class 2", "nr_class 3"), "do not fit"),
        (lambda text: text.replace("label 1 0\n", ""), "no 'label'"),
        (lambda text: text.replace("L2R_L2LOSS_SVC_DUAL", "L2R_LR"), "L2R_LR"),
        (lambda text: text[: len(text) * 2 // 3], "truncated|not a number|numbers on a line"),
        (lambda text: text.replace("\nw\n", "\nw\nx"), "is not a number"),
        (lambda text: text.replace("\nw\n", "\nw\nnan\n"), "not finite"),
        (lambda text: text.split("\nw\n")[0], "ends too early"),
    ],
)
def test_a_damaged_text_model_is_named(tmp_path, change, sentence):
    model, _ = fitted()
    path = tmp_path / "model"
    write_liblinear(model, path)
    path.write_text(change(path.read_text()))
    with pytest.raises(MalformedFile, match=sentence):
        read_liblinear(path)

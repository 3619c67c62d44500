"""SVC on disk: what is loaded predicts the same, and what was altered or never true is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save as save_tensors
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import SVC, FSafe
from maxmargin.estimators.kernel_classifier import KernelClassifier
from maxmargin.io import MalformedFile, load_model, save_model
from maxmargin.models.model_file import _digest
from tests.catalogue import labelled

KERNELS = {
    "rbf": {"kernel": "rbf"},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 2},
    "precomputed": {"kernel": "precomputed"},
}


def data(labels=(0, 1)):
    X, _ = labelled(60, 4, 1.0, 0)
    labels = np.asarray(labels)
    return X, labels[np.digitize(X[:, 0], np.quantile(X[:, 0], np.linspace(0, 1, len(labels) + 1)[1:-1]))]


def fitted(labels=(0, 1), is_sparse=False, **parameters):
    X, y = data(labels)
    if parameters.get("kernel") == "precomputed":
        X = rbf_kernel(X, gamma=0.2)
    X = sparse.csr_matrix(X) if is_sparse else X
    return SVC(**parameters).fit(X, y), X


@pytest.mark.parametrize("labels", [[3, 7], ["a", "bc", "déf"]], ids=["two", "three"])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_loaded_machine_is_the_saved_one(tmp_path, kernel, is_sparse, labels):
    model, X = fitted(labels, is_sparse, **KERNELS[kernel])
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.get_params() == model.get_params()
    assert again._kernel_ == model._kernel_
    for attribute in ("dual_coef_", "intercept_", "support_", "n_support_", "class_weight_", "n_iter_"):
        assert np.array_equal(getattr(again, attribute), getattr(model, attribute))
        assert getattr(again, attribute).dtype == getattr(model, attribute).dtype
    for attribute in ("certificate_", "status_", "trace_", "relative_gap_", "n_features_in_", "fit_status_", "shape_fit_"):
        assert getattr(again, attribute) == getattr(model, attribute)
    assert again.support_vectors_.shape == model.support_vectors_.shape
    assert sparse.issparse(again.support_vectors_) == sparse.issparse(model.support_vectors_)


def test_single_precision_stays_single(tmp_path):
    X, y = data()
    model = SVC().fit(X.astype(np.float32), y)
    save_model(model, tmp_path / "model")
    assert load_model(tmp_path / "model").support_vectors_.dtype == np.float32


def test_the_machine_without_scikit_learn_is_loaded_as_the_public_one(tmp_path):
    X, y = data()
    save_model(KernelClassifier(gamma=0.5).fit(X, y), tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert type(again) is SVC
    assert np.array_equal(again.predict(X), SVC(gamma=0.5).fit(X, y).predict(X))


def test_a_shrinking_rule_is_kept_as_true_and_a_solver_by_its_name(tmp_path):
    model, _ = fitted(solver="smo", shrinking=FSafe(0.1))
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert (again.solver, again.shrinking) == ("smo", True)


def test_a_kernel_that_is_code_is_not_saved(tmp_path):
    model, _ = fitted(kernel=lambda A, B: A @ B.T)
    with pytest.raises(TypeError, match="a model file holds none"):
        save_model(model, tmp_path / "model")
    with pytest.raises(ValueError, match="not fitted"):
        save_model(SVC(), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_every_truncation_and_every_altered_byte_is_refused(tmp_path):
    model, _ = fitted(is_sparse=True)
    save_model(model, tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    broken = tmp_path / "broken"
    for length in (0, 8, 100, len(content) // 2, len(content) - 1):
        broken.write_bytes(content[:length])
        with pytest.raises(MalformedFile, match="broken"):
            load_model(broken)
    for place in range(0, len(content), 61):
        altered = bytearray(content)
        altered[place] ^= 1
        broken.write_bytes(bytes(altered))
        with pytest.raises(MalformedFile, match="broken"):
            load_model(broken)


def lying(path, change):
    """A file whose digest is right and whose content is not."""
    from safetensors.numpy import load

    content = path.read_bytes()
    tensors = load(content)
    header = json.loads(json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]["maxmargin"])
    change(header, tensors)
    tensors = {key: np.ascontiguousarray(array) for key, array in tensors.items()}
    text = json.dumps(header)
    path.write_bytes(save_tensors(tensors, {"maxmargin": text, "sha256": _digest(text, tensors)}))


def _set(key, place, value):
    def change(header, tensors):
        tensors[key] = tensors[key].copy()
        tensors[key][place] = value

    return change


def _replace(key, make):
    return lambda header, tensors: tensors.update({key: make(tensors[key])})


def _drop(key):
    return lambda header, tensors: tensors.pop(key)


def _say(**entries):
    return lambda header, tensors: header.update(entries)


def _repeat(key):
    return lambda header, tensors: header.update({key: 2 * header[key]})


def _ask(**parameters):
    return lambda header, tensors: header["parameters"].update(parameters)


LIES = {
    "a coefficient that is not finite": (_set("dual_coef_", (0, 0), np.nan), "not finite"),
    "coefficients of another shape": (_replace("dual_coef_", lambda a: a[:, :-1]), "shape"),
    "no coefficients": (_drop("dual_coef_"), "dual_coef_ must be"),
    "support vectors that do not add up": (_set("n_support_", 0, 1), "add up"),
    "a negative count": (_set("n_support_", 0, -1), "add up"),
    "a place outside of the samples": (_set("support_", 0, 60), "support_ must lie"),
    "a negative place": (_set("support_", 0, -1), "support_ must lie"),
    "an index outside of the features": (_set("support_vectors_.indices", 0, 4), "indices must lie"),
    "a negative index": (_set("support_vectors_.indices", 0, -1), "indices must lie"),
    "an index that comes twice": (_set("support_vectors_.indices", 1, 0), "must rise within"),
    "rows that end elsewhere": (_set("support_vectors_.indptr", -1, 1 << 30), "indptr must rise"),
    "rows that go back": (_set("support_vectors_.indptr", 1, 1 << 30), "indptr must rise"),
    "no indices": (_drop("support_vectors_.indices"), "indices is missing"),
    "no vectors": (_drop("support_vectors_.indptr"), "must hold either"),
    "words for numbers": (_replace("intercept_", lambda a: a.astype(np.int64)), "intercept_ must be float64"),
    "an array too many": (lambda header, tensors: tensors.update(coef_=np.zeros(3)), "coef_ does not belong"),
    "a kernel that is not there": (_ask(kernel="cubic"), "kernel must be one of"),
    "a gamma that is negative": (_say(gamma=-1.0), "gamma must be .* greater than 0; it is -1.0"),
    "a gamma that is a word": (_say(gamma="wide"), "gamma must be .*; it is 'wide'"),
    "a parameter that is not there": (_ask(magic=1), "parameters has 'magic', which this version does not know"),
    "a certificate too many": (_repeat("certificates"), "2 certificates for 1 problems"),
    "a certificate without content": (_say(certificates=[{}]), r"certificates\[0\] has no 'primal'"),
    "a number of features that is none": (_say(n_features_in_="many"), "n_features_in_ must be a whole number"),
    "an unknown estimator": (_say(estimator="os"), "estimator must be one of .*; it is 'os'"),
    "no labels": (lambda header, tensors: header.pop("labels"), "the header has no 'labels'"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_is_as_it_was_written_but_not_true_is_refused(tmp_path, lie):
    model, _ = fitted(is_sparse=True)
    path = tmp_path / "model"
    save_model(model, path)
    change, sentence = LIES[lie]
    lying(path, lambda header, tensors: None)
    assert type(load_model(path)) is SVC
    lying(path, change)
    with pytest.raises(MalformedFile, match=sentence):
        load_model(path)


def test_a_precomputed_machine_may_not_point_outside_of_the_kernel_matrix(tmp_path):
    model, _ = fitted(kernel="precomputed")
    save_model(model, tmp_path / "model")
    lying(tmp_path / "model", _set("support_", 0, 60))
    with pytest.raises(MalformedFile, match="support_ must lie"):
        load_model(tmp_path / "model")

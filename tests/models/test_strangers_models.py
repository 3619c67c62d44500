"""Models from strangers: a digest that is right proves nothing, so every field is checked before it is used."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save as save_tensors

from fuzz.seeds import put_together, taken_apart
from maxmargin import SVC, SVR, LinearSVC
from maxmargin.io import MalformedFile, load_model, memory, read_libsvm, save_model, write_libsvm
from maxmargin.models import policy
from maxmargin.models.checkpoint import Checkpoint

X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.where(X[:, 0] > 0, 1, -1)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    made = {"linear": LinearSVC().fit(X, Y), "kernel": SVC(kernel="poly").fit(X, Y)}
    for name, model in made.items():
        save_model(model, folder / name)
    return {name: taken_apart((folder / name).read_bytes()) for name in made}


def altered(*path, value):
    """A change of one field, named by its path."""

    def change(header):
        at = header
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        return header

    return change


LIES = {
    "a list for a header": ("linear", lambda header: [1], "no table of names and values"),
    "nothing for a header": ("linear", lambda header: None, "no table of names and values"),
    "lists in lists": ("linear", lambda header: "@nested@", "nested too deeply"),
    "no parameters": ("linear", altered("parameters", value=None), "parameters must be a table"),
    "a label of 500 million characters": ("linear", altered("label_type", value="<U500000000"), "is not a type of"),
    "labels of a structured type": ("linear", altered("label_type", value="i4,i4"), "is not a type of"),
    "labels that are Python objects": ("linear", altered("label_type", value="O"), "is not a type of"),
    "labels of another type": ("linear", altered("label_type", value="<U3"), "not all of the type"),
    "a label that does not fit": ("linear", altered("labels", value=[1, 300]), None),
    "one label": ("linear", altered("labels", value=[1]), "labels must be a list of at least 2 items"),
    "a label twice": ("linear", altered("labels", value=[1, 1]), "a label comes twice"),
    "a label that cannot be written": ("linear", altered("labels", value=["\ud800", "b"]), r"labels\[0\] must be"),
    "text for a number": ("linear", altered("parameters", "C", value="one"), "C must be a number"),
    "true for a number": ("linear", altered("parameters", "C", value=True), "C must be a number"),
    "a number beyond all": ("linear", altered("parameters", "C", value=10**400), "C must be a number"),
    "a negative cost": ("linear", altered("parameters", "C", value=-1.0), "C must be a number greater than 0"),
    "a solver of a page": ("linear", altered("parameters", "solver", value="x" * 5000), "solver must be a text of at most"),
    "code for a callback": ("linear", altered("parameters", "callback", value="os.system"), "callback must be one of None"),
    "a billion features": ("linear", altered("n_features_in_", value=10**9), "coef_ must be float64 of shape"),
    "more features than there are": ("linear", altered("n_features_in_", value=10**12), "n_features_in_ must be"),
    "features that are a word": ("linear", altered("n_features_in_", value="3"), "n_features_in_ must be"),
    "a certificate of words": ("linear", altered("certificates", 0, "gap", value="small"), "gap must be a number"),
    "a status that is none": ("linear", altered("statuses", value=["FINE"]), r"statuses\[0\] must be one of"),
    "two statuses": ("linear", altered("statuses", value=["CERTIFIED"] * 2), "2 statuses for 1 problems"),
    "a trace that is none": ("linear", altered("traces", value=[[1]]), r"traces\[0\]\[0\] must be a table"),
    "a field that is not known": ("linear", altered("extra", value=1), "which this version does not know"),
    "no scaling": ("linear", altered("parameters", "intercept_scaling", value=0.0), "intercept_scaling must be positive"),
    "a degree of a billion": ("kernel", altered("parameters", "degree", value=10**9), "degree must be a whole number"),
    "no gamma": ("kernel", altered("gamma", value=None), "needs a number gamma"),
    "a fit of no samples": ("kernel", altered("shape_fit_", value=[0, 3]), "shape_fit_"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_with_a_right_digest_and_a_wrong_field_is_refused_in_a_sentence(tmp_path, models, lie):
    kind, change, sentence = LIES[lie]
    model = models[kind]
    path = tmp_path / "model"
    header = taken_apart(model.content).header
    if sentence is None:  # 300 is no int8
        header["label_type"], sentence = "|i1", "model"
    path.write_bytes(put_together(change(header), model.tensors))
    with pytest.raises(MalformedFile, match=rf"^.*model: .*{sentence}"):
        load_model(path)


def test_an_honest_header_written_again_is_accepted(tmp_path, models):
    for model in models.values():
        (tmp_path / "model").write_bytes(put_together(model.header, model.tensors))
        assert load_model(tmp_path / "model").n_features_in_ == 3


def test_what_could_not_be_read_is_not_written(tmp_path):
    model = SVC(kernel="poly").fit(X, Y)
    model.degree = 10**9
    with pytest.raises(ValueError, match=r"cannot be kept in a file: .*degree"):
        save_model(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_traces_too_long_for_a_header_are_left_out_and_the_model_is_kept(tmp_path, monkeypatch):
    import maxmargin.models.model_file as model_file

    model = LinearSVC().fit(X, Y)
    save_model(model, tmp_path / "model")
    limit = 2 * len(model_file._text_of({**taken_apart((tmp_path / "model").read_bytes()).header, "traces": []})) + 100
    monkeypatch.setattr(policy, "LIMITS", replace(policy.LIMITS, most_header_bytes=limit))
    save_model(model, tmp_path / "short")
    short = load_model(tmp_path / "short")
    assert not hasattr(short, "trace_")
    assert short.certificate_ == model.certificate_
    assert np.array_equal(short.predict(X), model.predict(X))


# Files that are read no farther than their header allows


def first_bytes(length):
    return length.to_bytes(8, "little")


@pytest.mark.parametrize("content", [first_bytes(2**62), first_bytes(0), first_bytes(1 << 30), b"", b"1234567"])
def test_a_file_whose_first_bytes_are_no_length_is_left_there(tmp_path, monkeypatch, content):
    """The file is ten gigabytes long, all of them zero, none of them on disk."""
    path = tmp_path / "model"
    path.write_bytes(content)
    if len(content) == 8:
        os.truncate(path, 10 << 30)
    for read in (load_model, Checkpoint.open):
        with pytest.raises(MalformedFile, match="its first bytes are not a length"):
            read(path)


def test_a_device_is_no_model_and_no_checkpoint():
    with pytest.raises(MalformedFile, match="its first bytes are not a length"):
        load_model("/dev/zero")
    with pytest.raises(MalformedFile, match="must be a regular file"):
        Checkpoint.open("/dev/zero")


def test_arrays_that_would_not_fit_in_memory_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "model"
    text = b'{"a":{"dtype":"F64","shape":[1000000000],"data_offsets":[0,8000000000]}}'
    path.write_bytes(first_bytes(len(text)) + text)
    os.truncate(path, 8 + len(text) + 8_000_000_000)
    monkeypatch.setattr(memory, "memory_bytes", lambda: 16 << 30)
    with pytest.raises(MalformedFile, match=r"would need 24\.0 GB; 12\.9 GB may be used here"):
        load_model(path)


@pytest.mark.parametrize(
    "text", [b"[]", b'"x"', b'{"a": 1}', b'{"a": {"data_offsets": [0, "x"]}}', b"[" * 100_000, b"\xff\xff"]
)
def test_a_header_that_is_no_table_of_arrays_is_refused(tmp_path, text):
    (tmp_path / "model").write_bytes(first_bytes(len(text)) + text)
    with pytest.raises(MalformedFile, match="it is not a maxmargin model, or it is truncated or damaged"):
        load_model(tmp_path / "model")


def test_metadata_that_is_null_is_no_model(tmp_path):
    text = b'{"__metadata__": null, "a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}'
    (tmp_path / "model").write_bytes(first_bytes(len(text)) + text + bytes(8))
    with pytest.raises(MalformedFile, match="not a maxmargin model"):
        load_model(tmp_path / "model")


def test_bytes_behind_the_last_array_are_refused(tmp_path, models):
    (tmp_path / "model").write_bytes(models["linear"].content + b"\0")
    with pytest.raises(MalformedFile, match="something follows its last array"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("alpha", [np.zeros((2, 2)), np.zeros(3, np.float32), np.array(["a", "b"]).view(np.uint8)])
def test_a_checkpoint_whose_alpha_is_no_vector_is_refused(tmp_path, alpha):
    (tmp_path / "state").write_bytes(save_tensors({"key": alpha}, {"maxmargin": "checkpoint 1"}))
    with pytest.raises(MalformedFile, match="an alpha must be a vector of float64"):
        Checkpoint.open(tmp_path / "state")


# LIBSVM's models


@pytest.mark.parametrize("index", ["1.0", "1e0", "0x1", "1_0", "", "1.5"])
def test_an_index_of_a_libsvm_model_is_a_whole_number(tmp_path, index):
    path = tmp_path / "model"
    write_libsvm(SVC(gamma=0.5).fit(X, Y), path)
    path.write_text(path.read_text().replace(" 1:", f" {index}:"))
    with pytest.raises(MalformedFile, match="is not a whole number"):
        read_libsvm(path)


def test_two_words_of_a_linear_model_cannot_ask_for_a_gigabyte(tmp_path):
    lines = ["svm_type c_svc", "kernel_type linear", "nr_class 2", "total_sv 1", "rho 0", "label 1 -1", "nr_sv 1 0", "SV"]
    (tmp_path / "model").write_text("\n".join([*lines, "1 134217728:1", ""]))
    with pytest.raises(MalformedFile, match="line 4: 134217728 weights for 1 values"):
        read_libsvm(tmp_path / "model")


def test_a_degree_beyond_reason_is_named_with_its_line(tmp_path):
    path = tmp_path / "model"
    write_libsvm(SVC(kernel="poly").fit(X, Y), path)
    path.write_text(path.read_text().replace("degree 3", f"degree {10**9}"))
    with pytest.raises(MalformedFile, match="line 3: degree must lie between 0 and 1000"):
        read_libsvm(path)


def test_a_line_of_a_model_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(policy, "LIMITS", replace(policy.LIMITS, most_line_bytes=100))
    (tmp_path / "model").write_text("svm_type c_svc\n" + " " * 1000)
    with pytest.raises(MalformedFile, match="line 2: a line of a model may have at most 100 bytes"):
        read_libsvm(tmp_path / "model")


# A certificate in a file is a claim


def test_info_says_that_a_certificate_is_a_claim(tmp_path, run, models):
    header = taken_apart(models["linear"].content).header
    header["certificates"][0]["gap"] = header["certificates"][0]["relative_gap"] = 0.0
    (tmp_path / "model").write_bytes(put_together(header, models["linear"].tensors))
    code, out, _ = run("info", "model")
    assert code == 0
    assert "what the writer of the file claims (maxmargin certify computes it again from the data)" in out


def test_a_label_with_control_characters_does_nothing_to_a_terminal(tmp_path, run):
    save_model(LinearSVC().fit(X, np.where(Y > 0, "\x1b[2Jgood", "bad\a")), tmp_path / "model")
    _, out, _ = run("info", "model")
    assert "\x1b" not in out
    assert "\a" not in out
    assert "\\x1b[2Jgood" in out


def test_a_polynomial_of_huge_numbers_proves_nothing_and_raises_nothing(tmp_path, models):
    header = taken_apart(models["kernel"].content).header
    header["gamma"] = header["parameters"]["coef0"] = 1e300
    tensors = {key: value for key, value in models["kernel"].tensors.items() if key != "feature_weights"}
    (tmp_path / "model").write_bytes(put_together(header, tensors))
    model = load_model(tmp_path / "model")
    with np.errstate(all="ignore"):
        assert set(model.predict(X)) <= {-1, 1}
        assert not model.certified_predict(X).proved.any()


def test_a_bound_that_is_a_whole_number_beyond_int64_is_taken_for_a_float(tmp_path):
    """JSON does not tell 2^64 from a float; NumPy makes a Python object of it. The fuzzer found the model of a regression."""
    save_model(SVR(kernel="linear").fit(X, X[:, 0]), tmp_path / "model")
    model = taken_apart((tmp_path / "model").read_bytes())
    model.header["certificates"][0]["distance_bound"] = 2**64
    (tmp_path / "model").write_bytes(put_together(model.header, model.tensors))
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded.certificate_.distance_bound, float)
    assert np.all(loaded.certified_predict(X).radius >= 2.0**63)

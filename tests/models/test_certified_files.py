"""Proofs survive a model file, and ``maxmargin predict --certified`` reports and writes them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from maxmargin import SVC, LinearSVC
from maxmargin.io import MalformedFile, load_model, save_model, write_liblinear, write_svmlight
from maxmargin.models.model_file import DIGEST_KEY, HEADER_KEY, _digest, _read
from tests.catalogue import labelled

MODELS = {
    "penalised": LinearSVC(),
    "free": LinearSVC(penalize_intercept=False, loss="hinge", tol=1e-6),
    "sharp": LinearSVC(sharp_proofs=True, loss="hinge", tol=1e-2),
    "sharp-free": LinearSVC(sharp_proofs=True, penalize_intercept=False, tol=1e-2),
    "kernel": SVC(gamma=0.3, tol=1e-6),
    "kernel-without-offset": SVC(gamma=0.3, tol=1e-6, fit_intercept=False),
}


def three_classes(X):
    return np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_loaded_model_proves_what_the_saved_one_did(tmp_path, name, n_classes):
    X, y = labelled(300, 4, 0.7, 0)
    model = MODELS[name].fit(X, y if n_classes == 2 else three_classes(X))
    points = np.random.default_rng(1).normal(size=(500, 4))
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    before, after = model.certified_predict(points), again.certified_predict(points)
    assert np.array_equal(before.labels, after.labels)
    assert np.array_equal(before.proved, after.proved)
    assert before.proved.any()
    assert again.offset_bound_ == model.offset_bound_


def test_a_file_of_before_offset_bounds_were_kept_proves_nothing_with_a_free_intercept(tmp_path):
    X, y = labelled(300, 4, 0.7, 0)
    model = MODELS["kernel"].fit(X, y)
    save_model(model, tmp_path / "model")
    rewrite(tmp_path / "model", lambda header, tensors: header.pop("offset_bounds"))
    again = load_model(tmp_path / "model")
    assert not again.certified_predict(X).proved.any()


def rewrite(path, change):
    header, _ = _read(path)
    tensors = load_file(path)
    change(header, tensors)
    text = json.dumps(header)
    path.write_bytes(save(tensors, {HEADER_KEY: text, DIGEST_KEY: _digest(text, tensors)}))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda header, tensors: header.update(offset_bounds=[0.0, 0.0]), "2 offset_bounds for 1 problems"),
        (lambda header, tensors: tensors.pop("ellipsoid_radii"), "come together"),
        (lambda header, tensors: tensors.update(ellipsoid_radii=-np.ones(1)), "must not be negative"),
        (lambda header, tensors: tensors.update(ellipsoid_factors=np.eye(4)[None]), "of 5 rows"),
        (lambda header, tensors: tensors.update(ellipsoid_factors=-np.eye(5)[None]), "positive on the diagonal"),
        (lambda header, tensors: tensors.update(ellipsoid_factors=np.full((1, 5, 5), np.nan)), "not finite"),
        (lambda header, tensors: tensors.update(ellipsoid_factors=np.ones((1, 5, 3))), "must be float64 of shape"),
    ],
)
def test_proofs_that_do_not_fit_the_model_are_refused(tmp_path, change, sentence):
    X, y = labelled(300, 4, 0.7, 0)
    save_model(MODELS["sharp"].fit(X, y), tmp_path / "model")
    rewrite(tmp_path / "model", change)
    with pytest.raises(MalformedFile, match=sentence):
        load_model(tmp_path / "model")


@pytest.fixture
def data(tmp_path):
    X, y = labelled(300, 4, 0.7, 0)
    write_svmlight(X, y, tmp_path / "data")
    return "data"


@pytest.mark.parametrize("options", [["-e", "1e-8"], ["-e", "1e-3", "--sharp-proofs"], ["-e", "1e-8", "-t", "2", "-g", "0.3"]])
def test_predict_certified_reports_the_share_and_writes_the_mask(run, data, tmp_path, options):
    assert run("train", data, "-q", *options)[0] == 0
    model = load_model(tmp_path / "data.model")
    X, _ = labelled(300, 4, 0.7, 0)
    labels, proved = model.certified_predict(X)
    code, out, err = run("predict", data, "data.model", "out", "--certified")
    assert (code, err) == (0, "")
    assert f"Proved to be the labels that the exact optimum gives: {100 * proved.mean():.4f}% ({proved.sum()} of 300)" in out
    written = np.loadtxt(tmp_path / "out")
    assert np.array_equal(written[:, 0], labels)
    assert np.array_equal(written[:, 1], proved)
    code, out, _ = run("predict", data, "data.model", "values", "--certified", "--decision-values", "--json")
    report = json.loads(out)
    assert report["proved"] == proved.sum()
    assert report["proved_share"] == proved.mean()
    assert np.loadtxt(tmp_path / "values")[:, 0] == pytest.approx(model.decision_function(X))
    assert np.array_equal(np.loadtxt(tmp_path / "values")[:, 1], proved)
    assert "proved" not in json.loads(run("predict", data, "data.model", "--json")[1])


def test_predict_certified_says_why_it_cannot(run, data, tmp_path):
    X, y = labelled(300, 4, 0.7, 0)
    write_liblinear(LinearSVC().fit(X, y), tmp_path / "foreign")
    code, _, err = run("predict", data, "foreign", "--certified")
    assert code == 2
    assert "foreign has no certificate" in err
    save_model(SVC(kernel="precomputed").fit(X @ X.T, y), tmp_path / "kernel")
    code, _, err = run("predict", data, "kernel", "--certified")
    assert code == 2
    assert "needs k(x, x)" in err
    code, _, err = run("train", data, "--sharp-proofs", "-t", "2")
    assert code == 2
    assert "linear models only" in err

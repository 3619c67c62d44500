"""Models with an L1 penalty and of Crammer and Singer in files: ours, and LIBLINEAR's both ways."""

from __future__ import annotations

import numpy as np
import pytest
from liblinear.liblinearutil import load_model as load_theirs
from liblinear.liblinearutil import predict, problem, train
from liblinear.liblinearutil import save_model as save_theirs

from maxmargin import LinearSVC
from maxmargin.io import load_model, read_liblinear, save_model, write_liblinear
from tests.estimators.test_all_classes import clouds

KINDS = {
    "l1": ({"penalty": "l1", "C": 0.1}, 5),
    "all-of-two": ({"multi_class": "crammer_singer"}, 4),
    "all-of-four": ({"multi_class": "crammer_singer"}, 4),
}


def fitted(kind: str):
    X, y = clouds(k=2 if kind == "all-of-two" else 4)
    codes = np.unique(y, return_inverse=True)[1] + 3
    return X, codes, LinearSVC(tol=1e-6, **KINDS[kind][0]).fit(X, codes)


@pytest.mark.parametrize("kind", KINDS)
def test_our_file_gives_back_the_model_with_its_proof(kind, tmp_path):
    X, _, model = fitted(kind)
    save_model(model, tmp_path / "model")
    back = load_model(tmp_path / "model")
    assert np.array_equal(back.coef_, model.coef_)
    assert back.certificate_ == model.certificate_
    assert np.array_equal(back.certified_predict(X).proved, model.certified_predict(X).proved)


@pytest.mark.parametrize("kind", KINDS)
def test_liblinear_predicts_the_same_from_our_model(kind, tmp_path):
    X, codes, model = fitted(kind)
    write_liblinear(model, tmp_path / "model")
    labels, _, _ = predict(codes, X, load_theirs(str(tmp_path / "model")), "-q")
    assert np.array_equal(np.array(labels), model.predict(X))
    assert np.allclose(read_liblinear(tmp_path / "model").decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_liblinears_predicts_the_same_here(kind, tmp_path):
    X, codes, model = fitted(kind)
    theirs = train(problem(codes, X), f"-s {KINDS[kind][1]} -c {model.C} -B 1 -e 0.001 -q")
    save_theirs(str(tmp_path / "model"), theirs)
    labels, _, _ = predict(codes, X, theirs, "-q")
    read = read_liblinear(tmp_path / "model")
    assert (read.multi_class, read.penalty) == (model.multi_class, model.penalty)
    assert np.array_equal(read.predict(X), np.array(labels))


def test_a_model_of_an_indicator_is_not_saved():
    X, y = clouds()
    model = LinearSVC().fit(X, np.column_stack([y == "a", y == "b"]).astype(int))
    with pytest.raises(ValueError, match="indicator matrix y cannot be saved"):
        save_model(model, "model")

"""Models with an L1 penalty and of Crammer and Singer in files: ours, and LIBLINEAR's both ways."""

from __future__ import annotations

import numpy as np
import pytest
from liblinear.liblinearutil import load_model as load_theirs
from liblinear.liblinearutil import predict, problem, train
from liblinear.liblinearutil import save_model as save_theirs
from typer.testing import CliRunner

from maxmargin import LinearSVC
from maxmargin.cli.commands import app
from maxmargin.io import load_model, read_liblinear, save_model, write_liblinear
from maxmargin.models.proof import prove
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


@pytest.mark.parametrize("labels", ["ab", "abcd"])
@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_one_file_holds_the_models_of_all_columns_of_an_indicator(labels, penalty, tmp_path):
    X, y = clouds()
    model = LinearSVC(penalty=penalty).fit(X, np.column_stack([y == label for label in labels]).astype(int))
    save_model(model, tmp_path / "model")
    back = load_model(tmp_path / "model")
    assert back.coef_.shape == (len(labels), X.shape[1])
    assert np.array_equal(back.predict(X), model.predict(X))
    assert back.certificate_ == model.certificate_
    assert np.array_equal(back.certified_predict(X).proved, model.certified_predict(X).proved)


def test_an_indicator_has_no_place_where_a_sample_has_one_label(tmp_path):
    X, y = clouds()
    model = LinearSVC().fit(X, np.column_stack([y == "a", y == "b"]).astype(int))
    with pytest.raises(ValueError, match="LIBLINEAR has one label for each sample"):
        write_liblinear(model, tmp_path / "model")
    with pytest.raises(ValueError, match="data has one label for each sample"):
        prove(model, X, np.zeros(len(X)), C=1.0, tol=1e-3, max_seconds=1.0)
    save_model(model, tmp_path / "model")
    (tmp_path / "data").write_text("0 1:1\n")
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "data"), str(tmp_path / "model")])
    assert done.exit_code == 2
    assert "indicator matrix" in done.output


def test_an_older_file_is_of_classes(tmp_path):
    model = fitted("l1")[2]
    save_model(model, tmp_path / "model")
    assert b"is_multilabel" not in (tmp_path / "model").read_bytes()
    assert not load_model(tmp_path / "model").multilabel_

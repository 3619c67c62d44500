"""``maxmargin train -C``, run as a user runs it."""

from __future__ import annotations

import json

import pytest

from maxmargin.io import write_svmlight
from tests.catalogue import labelled


@pytest.fixture
def data(tmp_path):
    X, y = labelled(150, 5, 0.7, 0)
    write_svmlight(X, y, tmp_path / "data")
    return "data"


@pytest.mark.parametrize("words", [("-s", "3"), ("-B", "-1", "-v", "3"), ("-t", "2", "-g", "0.1"), ("-w1", "2")])
def test_the_best_C_is_that_of_the_best_accuracy_and_no_model_is_written(run, data, tmp_path, words):
    code, out, err = run("train", data, "-C", *words, "--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    trained = {C: a for C, a in zip(report["Cs"], report["accuracies"], strict=True) if a is not None}
    assert report["accuracy"] == max(trained.values()) == trained[report["C"]]
    assert len(report["Cs"]) == 13
    assert report["folds"] == (3 if "-v" in words else 5)
    assert not (tmp_path / "data.model").exists()


def test_the_words_name_the_best_C(run, data):
    code, out, _ = run("train", data, "-C")
    assert code == 0
    assert out.startswith("Best C = ")
    assert out.count("C = ") == 14


def test_a_model_is_refused(run, data):
    code, _, err = run("train", data, "m.model", "-C")
    assert code == 2
    assert "-C writes no model" in err


def test_regression_is_refused(run, data):
    code, _, err = run("train", data, "-C", "-s", "11")
    assert code == 2
    assert "belongs to classification" in err

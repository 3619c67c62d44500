"""``maxmargin train -C``, run as a user runs it."""

from __future__ import annotations

import json

import numpy as np
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


@pytest.mark.parametrize("words", [("-s", "11"), ("-s", "12", "-p", "0.2"), ("-s", "13", "-v", "3"), ("-s", "3", "-t", "2")])
def test_a_regression_is_searched_by_its_mean_squared_error(run, tmp_path, words):
    X, _ = labelled(150, 5, 0.7, 0)
    y = X @ np.arange(1.0, 6.0) + 0.3 * np.random.default_rng(0).normal(size=150)
    write_svmlight(X, y, tmp_path / "numbers")
    code, out, err = run("train", "numbers", "-C", *words, "--json")
    report = json.loads(out)
    assert (code, err) == (0, "")
    trained = {C: error for C, error in zip(report["Cs"], report["mean_squared_errors"], strict=True) if error is not None}
    assert report["mean_squared_error"] == min(trained.values()) == trained[report["C"]] < 0.5 * y.var()
    validated = json.loads(run("train", "numbers", "-c", str(report["C"]), "-v", str(report["folds"]), *words, "--json")[1])
    assert report["mean_squared_error"] == pytest.approx(np.mean(validated["mean_squared_errors"]), rel=0.02)
    code, out, _ = run("train", "numbers", "-C", *words)
    assert out.startswith(f"Best C = {report['C']:g}, cross-validation mean squared error ")
    assert out.count("C = ") == 14


@pytest.mark.parametrize("words", [("-s", "21"), ("-s", "1", "-t", "2"), ("-s", "4", "-t", "2")])
def test_machines_with_nu_are_refused(run, data, words):
    code, _, err = run("train", data, "-C", *words)
    assert code == 2
    assert "-C searches for the C of a classification or a regression" in err

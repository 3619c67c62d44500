"""``maxmargin path``, run as a user runs it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from maxmargin.io import write_svmlight
from tests.catalogue import labelled


@pytest.fixture
def data(tmp_path):
    X, y = labelled(200, 6, 0.7, 0)
    write_svmlight(X, y, tmp_path / "data")
    return "data"


def test_the_path_is_certified_at_every_C_and_drawn(run, data, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, err = run("path", data, "path.png", "--from", "0.01", "--to", "1", "-e", "1e-3")
    assert (code, err) == (0, "")
    assert out.startswith("Certified: between C = 0.01 and 1 the objective is within ")
    assert "Picture: path.png" in out
    assert (tmp_path / "path.png").read_bytes().startswith(b"\x89PNG")


def test_json_has_the_knots(run, data):
    code, out, _ = run("path", data, "--from", "0.01", "--to", "1", "--loss", "hinge", "-B", "-1", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["certified"]
    assert report["Cs"][0] == 0.01
    assert report["Cs"][-1] == 1.0
    assert np.all(np.diff(report["objectives"]) > 0)
    assert len(report["support_vectors"]) == len(report["Cs"])


def test_an_l1_penalty_leaves_fewer_weights(run, data):
    """Its path is certified too, and its weights are zero where C is small."""
    code, out, _ = run("path", data, "--from", "0.001", "--to", "1", "--penalty", "l1", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["certified"]
    assert report["nonzero_weights"][0] < report["nonzero_weights"][-1] <= 6
    _, out, _ = run("path", data, "--from", "0.001", "--to", "1", "--json")
    assert json.loads(out)["nonzero_weights"][0] == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "1", "--to", "0.1"], "the smaller one first"),
        (["picture.nonsense"], "format that matplotlib writes"),
        (["nowhere/path.png"], "not a folder"),
        (["-p", "0.1"], "name its loss with --loss"),
        (["--loss", "quantile", "-p", "0.1"], "The quantile loss has no tube"),
        (["--loss", "epsilon_insensitive", "--penalty", "l1"], "--penalty l1 is for two classes"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(run, data, words, said):
    pytest.importorskip("matplotlib")
    code, out, err = run("path", data, *words)
    assert code == 2
    assert out == ""
    assert said in err


@pytest.mark.parametrize("words", [["--loss", "epsilon_insensitive"], ["--loss", "quantile", "--quantile", "0.9"]])
def test_a_path_of_a_regression_is_certified_and_drawn(run, data, tmp_path, words):
    pytest.importorskip("matplotlib")
    code, out, _ = run("path", data, "p.png", *words, "--from", "0.01", "--to", "1", "-e", "1e-2", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["certified"]
    assert report["relative_gap"] <= 1e-2
    assert (tmp_path / "p.png").stat().st_size > 1000

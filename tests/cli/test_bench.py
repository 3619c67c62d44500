"""``maxmargin bench``, run as a user runs it. No test depends on the seconds that it measures."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn.svm import SVC

from maxmargin.cli.comparison import _ended_after
from maxmargin.io import write_svmlight
from tests.catalogue import labelled


@pytest.fixture
def data(tmp_path):
    X, y = labelled(150, 5, 0.7, 0)
    write_svmlight(X, y, tmp_path / "data")
    return "data"


@pytest.mark.parametrize(
    ("words", "peer"),
    [
        (("-s", "3", "-B", "-1"), "scikit-learn LinearSVC"),
        (("-s", "13", "-p", "0.2"), "scikit-learn LinearSVR"),
        (("-t", "2", "-g", "0.1"), "scikit-learn SVC"),
        (("-t", "2", "-s", "1", "-n", "0.3"), "scikit-learn NuSVC"),
    ],
)
def test_every_contestant_has_a_proved_gap(run, data, words, peer):
    code, out, err = run("bench", data, *words, "--repeats", "1", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    contestants = {each["name"]: each for each in report["contestants"]}
    assert {"maxmargin", peer} <= set(contestants)
    assert contestants["maxmargin"]["relative_gap"] <= 1e-4
    assert all(math.isfinite(each["relative_gap"]) and each["seconds"] > 0.0 for each in contestants.values())
    assert report["n_samples"] == 150


def test_the_words_are_a_table(run, data):
    code, out, _ = run("bench", data, "--repeats", "1")
    assert code == 0
    head, ours, theirs = out.splitlines()[:3]
    assert "gap at most" in head
    assert ours.startswith("maxmargin ")
    assert ours.endswith("certified")
    assert theirs.startswith("scikit-learn LinearSVC")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-s", "21"), "scikit-learn has no LinearOneClassSVM"),
        (("-t", "3"), "no gap can be proved"),
        (("--repeats", "0"), "at least 1"),
        (("--loss", "quantile"), "sklearn refuses"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence_and_exit_code_2(run, data, words, said):
    code, out, err = run("bench", data, *words)
    assert (code, out) == (2, "")
    assert said in err


def test_a_peer_that_takes_longer_than_its_limit_is_ended():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 20)), rng.integers(0, 2, 3000)
    assert _ended_after(0.01, SVC(C=1e6, tol=1e-9), X, y) is None

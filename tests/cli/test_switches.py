"""What users of LIBLINEAR and LIBSVM type, and what they are told."""

from __future__ import annotations

import pytest

from maxmargin.cli.switches import MISSING_LINEAR_TYPES, in_our_words, in_switches
from maxmargin.io import load_model, write_svmlight
from tests.catalogue import labelled


@pytest.fixture
def data(tmp_path):
    X, y = labelled(120, 4, 0.7, 0)
    write_svmlight(X, y, tmp_path / "data")
    return "data"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (["-w1", "2", "-w-1", "0.5", "data"], ["-w", "1=2", "-w", "-1=0.5", "data"]),
        (["-w", "1=2", "-wbalanced", "data"], ["-w", "1=2", "-wbalanced", "data"]),
        (["-h", "0", "data"], ["--no-shrinking", "data"]),
        (["-h", "1", "data"], ["--shrinking", "data"]),
        (["-h"], ["-h"]),
        (["data", "-w2"], ["data", "-w2"]),
    ],
)
def test_the_switches_of_others_become_ours(theirs, ours):
    assert in_our_words(theirs) == ours


def test_the_weights_of_liblinear_are_class_weights(run, data, tmp_path):
    assert run("train", "-w1", "2", "-w-1", "0.5", data)[0] == 0
    assert load_model(tmp_path / "data.model").class_weight == {1.0: 2.0, -1.0: 0.5}


@pytest.mark.parametrize(
    ("kind", "parameter", "value"), [(4, "multi_class", "crammer_singer"), (5, "penalty", "l1"), (3, "loss", "hinge")]
)
def test_types_of_liblinears_are_trained_kept_and_certified(run, data, tmp_path, kind, parameter, value):
    assert run("train", data, "-s", kind, "-e", "1e-6")[0] == 0
    model = load_model(tmp_path / "data.model")
    assert getattr(model, parameter) == value
    assert model.relative_gap_ <= 1e-6
    code, out, _ = run("certify", data, tmp_path / "data.model", "-e", "1e-4")
    assert code == 0, out


@pytest.mark.parametrize("kind", [0, 6, 7])
def test_every_type_of_liblinears_that_is_missing_has_a_sentence(run, data, kind):
    code, out, err = run("train", data, "-s", kind)
    assert (code, out) == (2, "")
    assert err == f"maxmargin: -s {kind} is not supported yet. It is {MISSING_LINEAR_TYPES[kind]}.\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-p", "0.1"), "-p (the epsilon of support vector regression) belongs to regression"),
        (("-n", "0.5"), "-n with a fraction is nu, which belongs to the one-class SVM (-s 21): use -c."),
        (("-b", "1"), "-b 1 is not supported yet: maxmargin trains no probabilities."),
        (("-s", "3", "--loss", "squared_hinge"), "-s 3 is hinge loss, and --loss says squared_hinge"),
        (("-h", "0"), "--shrinking belongs to a kernel: choose one with -t."),
        (("-w7", "2"), "-w names the label 7, which does not occur in the data."),
        (("-w1", "-2"), "-w gives the label 1 the weight -2: a weight is zero or positive."),
        (("-e", "-1"), "-e (tol) must be at least 0; got -1.0."),
        (("-n", "0"), "-n (n_jobs) must be None or a whole number other than 0; got 0."),
        (("--max-seconds", "0"), "--max-seconds (max_seconds) must be greater than 0; got 0.0."),
        (("--max-iter", "-5"), "--max-iter (max_iter) must be a whole number >= 0"),
    ],
)
def test_a_complaint_is_about_what_the_user_wrote(run, data, words, sentence):
    code, out, err = run("train", data, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"maxmargin: {sentence}")


def test_a_sentence_about_something_else_stays_as_it_is():
    assert in_switches("The kernel must be symmetric.") == "The kernel must be symmetric."
    assert in_switches("kernel must be one of 'a'.") == "kernel must be one of 'a'."


def test_shrinking_off_is_kept_in_the_model(run, data, tmp_path):
    assert run("train", data, "-t", "2", "-h", "0")[0] == 0
    assert load_model(tmp_path / "data.model").shrinking is False


def test_the_version_is_one_line(run):
    from maxmargin import __version__

    assert run("--version") == (0, f"maxmargin {__version__}\n", "")


def test_probabilities_of_a_model_without_any_are_refused_in_a_sentence(run, data):
    run("train", data)
    code, out, err = run("predict", data, "data.model", "-b", "1")
    assert (code, out) == (2, "")
    assert err.startswith("maxmargin: data.model holds no probabilities, which -b 1 asks for")
    assert run("predict", data, "data.model", "-b", "0")[0] == 0
    assert "-b takes 0 or 1; got 2." in run("predict", data, "data.model", "-b", "2")[2]

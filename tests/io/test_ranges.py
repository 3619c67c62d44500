"""Scaling as svm-scale does it, and its files of ranges."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import minmax_scale

from maxmargin.io import MalformedFile, policy, ranges, read_svmlight, write_svmlight
from maxmargin.io.ranges import Ends, Ranges

SVM_SCALE = "x\n-1 1\n1 -3 5\n2 0 0.25\n4 1 2\n"
"""As svm-scale writes it for four features, the third of which has one value."""


def scaled(ranges, X):
    return sparse.vstack(list(ranges.blocks(X))).toarray()


@pytest.fixture
def X():
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 6)) * (random.random((50, 6)) < 0.6)
    X[:, 3] = 0.0
    X[:, 5] = 7.0
    return X


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (0.0, 1.0), (2.0, 5.0)])
def test_every_feature_fills_the_bounds_and_constant_ones_are_left_out(X, bounds):
    found = scaled(Ranges.measured([(X, np.ones(50))], Ends(*bounds)), X)
    expected = minmax_scale(X, bounds)
    expected[:, [3, 5]] = 0.0
    assert found == pytest.approx(expected)
    assert found[:, [0, 1, 2, 4]].min(axis=0).tolist() == [bounds[0]] * 4
    assert found[:, [0, 1, 2, 4]].max(axis=0).tolist() == [bounds[1]] * 4


def test_pieces_give_the_ranges_of_the_whole(X):
    whole = Ranges.measured([(X, np.ones(50))], Ends(-1.0, 1.0))
    narrow = X[:20].copy()
    narrow[:, 4:] = 0.0
    X = np.vstack([narrow, X[20:]])
    whole = Ranges.measured([(X, np.ones(50))], Ends(-1.0, 1.0))
    pieces = [(narrow[:, :4], np.ones(20)), (X[20:30], np.ones(10)), (X[30:], np.ones(20))]
    parts = Ranges.measured(pieces, Ends(-1.0, 1.0))
    assert np.array_equal(parts.least, whole.least)
    assert np.array_equal(parts.greatest, whole.greatest)


def test_blocks_do_not_change_what_is_scaled(X, monkeypatch):
    found = Ranges.measured([(X, np.ones(50))], Ends(-1.0, 1.0))
    whole = scaled(found, X)
    monkeypatch.setattr(ranges, "POLICY", replace(ranges.POLICY, most_dense_cells=13))
    assert len(list(found.blocks(X))) == 25
    assert np.array_equal(scaled(found, X), whole)


def test_zeros_stay_zero_where_zero_is_the_least_value():
    X = sparse.csr_matrix([[0.0, 2.0], [4.0, 0.0], [0.0, 1.0]])
    found = next(Ranges.measured([(X, np.ones(3))], Ends(0.0, 1.0)).blocks(X))
    assert found.nnz == 3
    assert found.toarray().tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 0.5]]


def test_a_file_of_svm_scales_is_read_and_written_again_as_it_was(tmp_path):
    (tmp_path / "ranges").write_text(SVM_SCALE)
    found = Ranges.read(tmp_path / "ranges")
    assert found.least.tolist() == [-3.0, 0.0, 0.0, 1.0]
    assert found.is_kept.tolist() == [True, True, False, True]
    found.write(tmp_path / "again")
    assert (tmp_path / "again").read_text() == SVM_SCALE


def test_labels_are_scaled_with_their_own_range(tmp_path):
    (tmp_path / "ranges").write_text("y\n0 1\n-10 30\n" + SVM_SCALE)
    found = Ranges.read(tmp_path / "ranges")
    assert found.labels(np.array([-10.0, 10.0, 30.0])).tolist() == [0.0, 0.5, 1.0]
    found.write(tmp_path / "again")
    assert (tmp_path / "again").read_text() == "y\n0 1\n-10 30\n" + SVM_SCALE


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1: it ends too early"),
        ("z\n", "line 1: a line with 'x' alone belongs here"),
        ("1 1:2\n", "line 1: a line with 'x' alone belongs here"),
        ("x\n", "line 2: it ends too early"),
        ("x\n1\n", "line 2: two numbers belong here, the ends of the range of the bounds of the features"),
        ("x\n1 -1\n", "line 2: the range of the bounds of the features must have a lower end"),
        ("x\n-1 1\n1 2\n", "line 3: two numbers belong here, the ends of the range of the feature 1"),
        ("x\n-1 1\n0 2 3\n", "line 3: '0' is not the index of a feature between 1 and"),
        ("x\n-1 1\n9999999999 2 3\n", "line 3: '9999999999' is not the index"),
        ("x\n-1 1\n1 nan 3\n", "line 3: the range of the feature 1 must have"),
        ("y\n0 1\n", "line 3: it ends too early"),
        ("\xff\n", "it is not a file of ranges"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_line(tmp_path, text, sentence):
    (tmp_path / "ranges").write_bytes(text.encode("latin1"))
    with pytest.raises(MalformedFile, match=sentence.replace("(", r"\(")):
        Ranges.read(tmp_path / "ranges")


# The command


@pytest.fixture
def data(X, tmp_path):
    write_svmlight(X, np.where(X[:, 0] > 0.0, 1, -1), tmp_path / "data")
    return "data"


def test_test_data_is_scaled_as_the_training_data_was(run, data, X, tmp_path):
    assert run("scale", data, "scaled", "-s", "ranges", "-q") == (0, "", "")
    assert read_svmlight(tmp_path / "scaled", n_features=6)[0].toarray() == pytest.approx(
        scaled(Ranges.measured([(X, np.ones(50))], Ends(-1.0, 1.0)), X)
    )
    other = np.array([[10.0, 0.0, -1.0, 5.0, 0.5, 7.0, 3.0]])
    write_svmlight(other, [1], tmp_path / "test")
    code, out, err = run("scale", "test", "test.scaled", "-r", "ranges")
    assert code == 0
    assert out == "Scaled 1 samples, 4 of 5 features (the others have one value only): test.scaled\n"
    assert err == "maxmargin: test: 2 features are not in ranges, and were left out.\n"
    found = read_svmlight(tmp_path / "test.scaled", n_features=6)[0].toarray()
    assert found[0, :5] == pytest.approx(scaled(Ranges.read(tmp_path / "ranges"), other)[0])


def test_the_scaled_data_goes_to_standard_output_unless_a_file_is_named(run, data, tmp_path):
    run("scale", data, "scaled", "-l", "0", "-u", "3")
    code, out, err = run("scale", data, "-l", "0", "-u", "3")
    assert (code, err) == (0, "")
    assert out == (tmp_path / "scaled").read_text()


def test_a_large_file_is_scaled_piece_by_piece(run, data, tmp_path, monkeypatch):
    run("scale", data, "whole")
    monkeypatch.setattr(policy, "READING", replace(policy.READING, window_bytes=500, block_bytes=300))
    run("scale", data, "pieces")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "pieces").read_bytes()


def test_targets_are_scaled_too(run, tmp_path):
    (tmp_path / "data").write_text("10 1:1\n20 1:2\n15 1:3\n")
    assert run("scale", "data", "scaled", "-y", "0", "1", "-s", "ranges")[0] == 0
    assert (tmp_path / "scaled").read_text() == "0 1:-1\n1\n0.5 1:1\n"
    assert (tmp_path / "ranges").read_text() == "y\n0 1\n10 20\nx\n-1 1\n1 1 3\n"


def test_data_that_becomes_dense_is_remarked_on(run, tmp_path):
    write_svmlight(sparse.eye_array(30).tocsr(), np.ones(30), tmp_path / "data")
    _, _, err = run("scale", "data", "scaled")
    assert err == (
        "maxmargin: The scaled data has 900 values that are not zero, where there were 30. If no value is negative, -l 0 keeps "
        "zeros zero.\n"
    )
    assert json.loads(run("scale", "data", "scaled", "-l", "0", "--json")[1])["nonzeros"] == {"before": 30, "after": 30}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("data", "-l", "1", "-u", "1"), "-l 1 and -u 1 are not a range: the lower end must be below the upper end."),
        (("data", "-y", "2", "1"), "-y 2 1 are not a range: the lower end must be below the upper end."),
        (("data", "-r", "ranges", "-s", "other"), "-r ranges says how to scale: leave -s out."),
        (("data", "-r", "ranges", "-l", "0"), "-r ranges says how to scale: leave -l out."),
        (("data", "-r", "nowhere"), "nowhere: No such file or directory."),
        (("data", "missing/output"), "missing/output: No such file or directory."),
        (("data", "data"), "data would be written over data, which this command uses: name another output."),
        (("data", "-s", "data"), "data would be written over data, which this command uses: name another output."),
        (("data", "same", "-s", "same"), "same would be written over same, which this command uses: name another output."),
    ],
)
def test_what_cannot_be_is_said_before_the_work(run, data, words, sentence):
    code, out, err = run("scale", *words)
    assert (code, out, err) == (2, "", f"maxmargin: {sentence}\n")


def test_standard_output_is_written_by_a_process_too(data, tmp_path):
    command = [sys.executable, "-m", "maxmargin", "scale", data, "-l", "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    (tmp_path / "piped").write_bytes(done.stdout)
    assert read_svmlight(tmp_path / "piped")[0].shape[0] == 50

"""``train -v``: stratified folds, warm starts, the accuracy and its spread."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import SVC, LinearSVC
from maxmargin.cli.cross_validation import stratified
from maxmargin.io import write_svmlight
from tests.catalogue import labelled


@pytest.fixture
def three(tmp_path):
    X, _ = labelled(150, 4, 0.7, 0)
    y = np.array([3, 1, 2])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])]
    write_svmlight(X, y, tmp_path / "three")
    return X, y


@pytest.mark.parametrize("n_folds", [2, 3, 7])
def test_folds_differ_by_at_most_one_sample_and_by_one_of_each_class(n_folds):
    y = np.repeat([5, 1, 9], [40, 13, 101])
    folds = stratified(y, n_folds, 0)
    for mask in (y > 0, y == 5, y == 1, y == 9):
        counts = np.bincount(folds[mask], minlength=n_folds)
        assert counts.max() - counts.min() <= 1


def test_the_same_seed_gives_the_same_folds():
    y = np.repeat([0, 1], 50)
    assert np.array_equal(stratified(y, 5, 3), stratified(y, 5, 3))
    assert not np.array_equal(stratified(y, 5, 3), stratified(y, 5, 4))


@pytest.mark.parametrize("words", [(), ("-s", "3"), ("-t", "2", "-g", "0.3"), ("-t", "0")])
def test_the_accuracy_is_that_of_cold_fits_on_the_same_folds(run, three, tmp_path, words):
    X, y = three
    code, out, _ = run("train", "three", "-v", "4", "-e", "1e-8", "--json", *words)
    report = json.loads(out)
    assert code == 0
    assert report["certified"]
    make = {
        (): LinearSVC(tol=1e-8),
        ("-s", "3"): LinearSVC(loss="hinge", tol=1e-8),
        ("-t", "2", "-g", "0.3"): SVC(gamma=0.3, tol=1e-8),
        ("-t", "0"): SVC(kernel="linear", tol=1e-8),
    }[words]
    folds = stratified(y, 4, 0)
    accuracies = [make.fit(X[folds != k], y[folds != k]).score(X[folds == k], y[folds == k]) for k in range(4)]
    assert report["accuracies"] == pytest.approx(accuracies)
    assert report["spread"] == pytest.approx(np.std(accuracies, ddof=1))
    assert not (tmp_path / "three.model").exists()


def test_a_fold_starts_from_the_dual_variables_of_the_one_before(run, three, monkeypatch):
    starts = []
    solve = LinearSVC._starts

    def seen(self, *args):
        starts.append(solve(self, *args))
        return starts[-1]

    monkeypatch.setattr(LinearSVC, "_starts", seen)
    assert run("train", "three", "-v", "3", "-s", "3")[0] == 0
    assert starts[0] is None
    assert all(len(start) == 3 and np.any(start[0] > 0.0) for start in starts[1:])


def test_kernel_values_are_cross_validated_as_their_kernel_is(run, three, tmp_path):
    X, y = three
    K = rbf_kernel(X, gamma=0.3)
    lines = (
        f"{label} 0:{i + 1} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row))
        for i, (label, row) in enumerate(zip(y, K.tolist(), strict=True))
    )
    (tmp_path / "kernel").write_text("\n".join(lines) + "\n")
    theirs = json.loads(run("train", "kernel", "-t", "4", "-v", "3", "--json", "-e", "1e-8")[1])
    ours = json.loads(run("train", "three", "-t", "2", "-g", "0.3", "-v", "3", "--json", "-e", "1e-8")[1])
    assert theirs["accuracies"] == ours["accuracies"]


def test_the_words_say_the_accuracy_and_its_spread(run, three):
    code, out, err = run("train", "three", "-v", "3")
    assert (code, err) == (0, "")
    assert out.startswith("Cross-validation accuracy: ")
    assert "% (3 folds)" in out
    assert "Every fit is certified" in out
    assert run("train", "three", "-v", "3", "-q") == (0, "", "")


def test_fits_that_are_not_certified_exit_with_3(run, three):
    code, out, _ = run("train", "three", "-v", "2", "-t", "3", "-g", "0.01")
    assert code == 3
    assert "NOT every fit is certified" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-v", "1"), "-v takes the number of folds, at least 2; got 1."),
        (("-v", "151"), "-v 151 asks for more folds than there are samples, which are 150."),
        (("model", "-v", "3"), "-v writes no model: leave model out, or train without -v."),
        (("-v", "3", "--checkpoint", "state"), "-v keeps no checkpoint: leave --checkpoint out."),
    ],
)
def test_what_does_not_go_with_folds_is_said(run, three, words, sentence):
    assert run("train", "three", *words) == (2, "", f"maxmargin: {sentence}\n")


def test_a_class_of_one_sample_is_not_in_every_training_set(run, tmp_path):
    X, y = labelled(40, 3, 0.7, 0)
    write_svmlight(X, np.where(np.arange(40) == 7, 5, y), tmp_path / "rare")
    assert run("train", "rare", "-v", "4")[0] == 0
    write_svmlight(X, np.where(np.arange(40) == 7, 5, 1), tmp_path / "alone")
    code, _, err = run("train", "alone", "-v", "4")
    assert code == 2
    assert "only one class is left: ask for fewer folds with -v." in err

"""``train -v``: folds, warm starts, the accuracy or the errors, and their spread."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import SVC, SVR, LinearOneClassSVM, LinearSVC, LinearSVR, NuSVR, OneClassSVM
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


@pytest.fixture
def numbers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(1.0, 1.0, size=(90, 3))
    y = X @ [1.0, -2.0, 0.5] + 4.0 + 0.3 * rng.standard_t(4, 90)
    write_svmlight(X, y, tmp_path / "numbers")
    return X, y


REGRESSIONS = {
    ("-s", "11"): LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.1, tol=1e-8),
    ("-s", "12"): LinearSVR(loss="squared_epsilon_insensitive", epsilon=0.1, tol=1e-8),
    ("-s", "13"): LinearSVR(epsilon=0.1, tol=1e-8),
    ("-s", "3", "-t", "2", "-g", "0.3"): SVR(gamma=0.3, tol=1e-8),
    ("-s", "4", "-t", "2", "-g", "0.3"): NuSVR(gamma=0.3, tol=1e-8),
}


@pytest.mark.parametrize("words", REGRESSIONS)
def test_the_errors_of_a_regression_are_those_of_cold_fits_on_the_same_folds(run, numbers, tmp_path, words):
    X, y = numbers
    tube = () if words[1] == "4" else ("-p", "0.1")
    code, out, _ = run("train", "numbers", "-v", "3", "-e", "1e-8", "--json", *tube, *words)
    report, model, folds = json.loads(out), REGRESSIONS[words], stratified(np.zeros(90), 3, 0)
    predictions = np.empty(90)
    for k in range(3):
        predictions[folds == k] = model.fit(X[folds != k], y[folds != k]).predict(X[folds == k])
    rest = predictions - y
    assert code == 0
    assert report["certified"]
    assert report["mean_squared_error"] == pytest.approx(np.mean(rest**2), rel=1e-4)
    assert report["squared_correlation"] == pytest.approx(np.corrcoef(predictions, y)[0, 1] ** 2, rel=1e-4)
    assert report["mean_squared_errors"] == pytest.approx([np.mean(rest[folds == k] ** 2) for k in range(3)], rel=1e-4)
    assert report["spread"] == pytest.approx(np.std(report["mean_squared_errors"], ddof=1))
    assert not (tmp_path / "numbers.model").exists()


def test_the_words_of_a_regression_say_the_two_figures_of_liblinear(run, numbers):
    code, out, err = run("train", "numbers", "-s", "13", "-v", "3")
    assert (code, err) == (0, "")
    first, second = out.splitlines()[:2]
    assert first.startswith("Cross-validation mean squared error: ")
    assert first.endswith("(3 folds)")
    assert second.startswith("Cross-validation squared correlation coefficient: 0.9")
    assert "Every fit is certified" in out


def test_the_folds_of_a_regression_start_from_the_dual_variables_of_the_one_before(run, numbers, monkeypatch):
    from maxmargin.estimators import linear_regressor

    starts, original = [], linear_regressor.starts_of

    def seen(*args):
        starts.append(original(*args))
        return starts[-1]

    monkeypatch.setattr(linear_regressor, "starts_of", seen)
    assert run("train", "numbers", "-s", "13", "-v", "3")[0] == 0
    assert starts[0] == [None]
    assert all(len(start) == 1 and np.any(start[0] != 0.0) for start in starts[1:])


def test_equal_targets_have_an_error_and_no_correlation(run, tmp_path):
    write_svmlight(np.random.default_rng(0).normal(size=(20, 2)), np.full(20, 3.0), tmp_path / "equal")
    code, out, _ = run("train", "equal", "-s", "13", "-p", "0.1", "-v", "2", "-e", "1e-9", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["mean_squared_error"] == pytest.approx(0.1**2, rel=1e-6)  # every target lies at the edge of the tube
    assert report["squared_correlation"] is None
    assert "undefined, as all targets or all predictions are equal" in run("train", "equal", "-s", "13", "-v", "2")[1]


@pytest.mark.parametrize(
    ("words", "model"),
    [
        (("-s", "21", "-n", "0.2"), LinearOneClassSVM(nu=0.2, tol=1e-8)),
        (("-s", "2", "-t", "2", "-n", "0.2", "-g", "0.3"), OneClassSVM(nu=0.2, gamma=0.3, tol=1e-8)),
    ],
)
def test_the_accuracy_of_one_class_is_the_share_of_labels_that_are_predicted(run, tmp_path, words, model):
    X, _ = labelled(60, 3, 0.7, 1)
    y = np.where(np.arange(60) % 4 == 0, -1, 1)
    write_svmlight(X + 2.0, y, tmp_path / "one")
    code, out, _ = run("train", "one", "-v", "3", "-e", "1e-8", "--json", *words)
    folds = stratified(np.zeros(60), 3, 0)
    right = [np.mean(model.fit(X[folds != k] + 2.0).predict(X[folds == k] + 2.0) == y[folds == k]) for k in range(3)]
    assert code == 0
    assert json.loads(out)["accuracies"] == pytest.approx(right)


def test_one_class_is_compared_with_labels_of_1_and_minus_1_only(run, tmp_path):
    X, _ = labelled(20, 3, 0.7, 1)
    write_svmlight(X, np.arange(20) % 2, tmp_path / "others")
    code, _, err = run("train", "others", "-s", "21", "-v", "3")
    assert code == 2
    assert err.endswith(
        "line 1: the label 0 is neither 1 (an inlier) nor -1 (an outlier), with which -v compares predictions.\n"
    )

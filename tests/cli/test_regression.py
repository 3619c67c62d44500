"""Regression and one class on the command line, and their models in files: LIBLINEAR's -s 11, 12, 13 and 21."""

from __future__ import annotations

import json

import numpy as np
import pytest

from maxmargin import LinearOneClassSVM, LinearSVR
from maxmargin.io import load_model, read_liblinear, save_model, write_liblinear, write_svmlight

kinds = pytest.mark.parametrize(
    ("kind", "loss"),
    [(11, "squared_epsilon_insensitive"), (12, "squared_epsilon_insensitive"), (13, "epsilon_insensitive")],
)


def drawn(n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(2.0, 1.0, size=(n, 4))
    return X, X @ [1.0, -2.0, 0.5, 3.0] + 5.0 + 0.3 * rng.standard_t(4, n)


@pytest.fixture
def data(tmp_path):
    write_svmlight(*drawn(), tmp_path / "data")
    return "data"


@kinds
def test_the_switches_of_liblinear_train_a_regression(run, data, tmp_path, kind, loss):
    code, out, err = run("train", "-s", kind, "-c", 2, "-p", 0.2, "-e", 1e-6, data)
    assert (code, err) == (0, "")
    assert out.startswith("Certified")
    model, (X, y) = load_model(tmp_path / "data.model"), drawn()
    assert (model.loss, model.C, model.epsilon) == (loss, 2.0, 0.2)
    same = LinearSVR(loss=loss, C=2.0, epsilon=0.2, tol=1e-6, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), same.predict(X), rtol=1e-9)
    assert model.relative_gap_ <= 1e-6


def test_predict_reports_the_mean_squared_error_and_r2(run, data, tmp_path):
    assert run("train", "-s", 13, data)[0] == 0
    model, (X, y) = load_model(tmp_path / "data.model"), drawn()
    code, out, _ = run("predict", data, "data.model", "values", "--json")
    report, rest = json.loads(out), y - model.predict(X)
    assert code == 0
    assert report["mean_squared_error"] == pytest.approx(np.mean(rest**2))
    assert report["r2"] == pytest.approx(model.score(X, y))
    np.testing.assert_allclose(np.loadtxt(tmp_path / "values"), model.predict(X), rtol=1e-12)
    assert run("predict", data, "data.model")[1].startswith("Mean squared error: ")


def test_certified_predictions_have_their_radius_in_the_last_column(run, data, tmp_path):
    assert run("train", "-s", 11, "-e", 1e-8, data)[0] == 0
    code, out, _ = run("predict", data, "data.model", "values", "--certified", "--json")
    table, (X, _) = np.loadtxt(tmp_path / "values"), drawn()
    values, radius = load_model(tmp_path / "data.model").certified_predict(X)
    assert code == 0
    np.testing.assert_allclose(table, np.column_stack([values, radius]), rtol=1e-9)
    assert json.loads(out)["greatest_radius"] == pytest.approx(radius.max())


@kinds
@pytest.mark.parametrize("bias", [-1, 1])
def test_models_of_liblinear_are_read_predicted_and_certified(run, data, tmp_path, kind, loss, bias):
    from liblinear.liblinearutil import predict, save_model, train

    X, y = drawn()
    theirs = train(y, X, f"-s {kind} -c 0.5 -p 0.1 -e 1e-6 -B {bias} -q")
    save_model(str(tmp_path / "theirs"), theirs)
    model = read_liblinear(tmp_path / "theirs")
    np.testing.assert_allclose(model.predict(X), predict([], list(map(list, X)), theirs, "-q")[0], rtol=1e-9)
    code, out, _ = run("certify", data, "theirs", "-c", 0.5, "-p", 0.1, "-e", 1e-2)
    assert code == 0
    assert "It is within 0.01." in out
    assert run("certify", data, "theirs", "-c", 5.0, "-p", 0.1, "-e", 1e-4)[0] == 3
    assert "with which epsilon it was trained: give it with -p" in run("certify", data, "theirs", "-c", 0.5)[2]


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_liblinear_predicts_with_a_model_of_ours(tmp_path, loss, has_intercept):
    from liblinear.liblinearutil import load_model as load_theirs
    from liblinear.liblinearutil import predict

    X, y = drawn()
    model = LinearSVR(loss=loss, fit_intercept=has_intercept).fit(X, y)
    write_liblinear(model, tmp_path / "ours")
    values = predict([], list(map(list, X)), load_theirs(str(tmp_path / "ours")), "-q")[0]
    np.testing.assert_allclose(values, model.predict(X), rtol=1e-12)
    np.testing.assert_allclose(read_liblinear(tmp_path / "ours").predict(X), model.predict(X), rtol=1e-12)


def test_a_quantile_is_trained_and_certified_but_is_no_model_of_liblinears(run, data, tmp_path):
    assert run("train", "--loss", "quantile", "--quantile", 0.8, "-R", "-c", 10, data)[0] == 0
    model, (X, y) = load_model(tmp_path / "data.model"), drawn()
    assert np.mean(y <= model.predict(X)) == pytest.approx(0.8, abs=0.05)
    assert run("certify", data, "data.model")[0] == 0
    assert "no model for loss='quantile'" in run("convert", "data.model", "theirs", "--to", "liblinear")[2]


@pytest.mark.parametrize("words", [("-n", "0.2"), ("--nu", "0.2")])
def test_the_one_class_machine_is_trained_predicted_and_certified(run, data, tmp_path, words):
    assert run("train", "-s", 21, *words, "-e", 1e-8, data)[0] == 0
    model, (X, _) = load_model(tmp_path / "data.model"), drawn()
    assert isinstance(model, LinearOneClassSVM)
    assert model.nu == 0.2
    assert run("predict", data, "data.model", "labels", "--certified")[0] == 0
    table = np.loadtxt(tmp_path / "labels")
    np.testing.assert_array_equal(table[:, 0], model.predict(X))
    assert table[:, 1].mean() > 0.5
    assert run("certify", data, "data.model", "-e", 1e-6)[0] == 0
    assert run("info", "data.model")[1].startswith("LinearOneClassSVM with 4 features\n  nu=0.2")


def test_nu_of_one_is_not_one_thread(run, data, tmp_path):
    assert run("train", "-s", 21, "-n", 1, data)[0] == 0
    assert load_model(tmp_path / "data.model").nu == 1.0


def test_one_class_models_of_liblinear_go_both_ways(run, data, tmp_path):
    from liblinear.liblinearutil import load_model as load_theirs
    from liblinear.liblinearutil import predict, train
    from liblinear.liblinearutil import save_model as save_theirs

    X, _ = drawn()
    save_theirs(str(tmp_path / "theirs"), train(np.ones(150), X, "-s 21 -n 0.3 -e 1e-9 -q"))
    assert run("certify", data, "theirs", "-n", 0.3, "-e", 1e-3)[0] == 0
    assert "with which nu it was trained: give it with -n" in run("certify", data, "theirs")[2]
    model = LinearOneClassSVM(nu=0.3, tol=1e-8).fit(X)
    write_liblinear(model, tmp_path / "ours")
    labels, _, values = predict([], list(map(list, X)), load_theirs(str(tmp_path / "ours")), "-q")
    np.testing.assert_allclose(np.ravel(values), model.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(read_liblinear(tmp_path / "ours").decision_function(X), model.decision_function(X), atol=1e-9)
    assert np.mean(labels == model.predict(X)) > 0.97  # the border is rounding


@pytest.mark.parametrize("n_outputs", [None, 1, 3])
def test_a_regression_comes_back_from_its_file_as_it_was(tmp_path, n_outputs):
    X, y = drawn()
    Y = y if n_outputs is None else np.column_stack([y * (k + 1.0) for k in range(n_outputs)])
    model = LinearSVR(epsilon=0.1, tol=1e-7, penalize_intercept=False).fit(X, Y)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.certificate_ == model.certificate_
    np.testing.assert_array_equal(again.certified_predict(X).radius, model.certified_predict(X).radius)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-p", "0.1"), "-p (the epsilon of support vector regression) belongs to regression"),
        (("-n", "0.5"), "-n with a fraction is nu"),
        (("-s", "13", "-p", "-1"), "-p (epsilon) must be at least 0; got -1.0"),
        (("-s", "13", "-w1", "2"), "-w weights classes, and regression has none"),
        (("-s", "13", "--sharp-proofs"), "--sharp-proofs is for classes"),
        (("-s", "21", "-n", "1.5"), "-n (nu) must be greater than 0 and at most 1; got 1.5"),
        (("-s", "21", "-p", "0.1"), "-p does not belong to the one-class SVM"),
        (("-s", "21", "-B", "1"), "has no intercept but its offset"),
        (("--loss", "quantile", "-p", "0.1"), "The quantile loss has no tube"),
        (("--loss", "quantile", "--quantile", "2"), "quantile must be greater than 0 and less than 1; got 2.0"),
        (("-s", "13", "--quantile", "0.5"), "--quantile belongs to --loss quantile"),
        (("-s", "14"), "-s 14 is not a type of LIBLINEAR"),
        (("-s", "13", "--loss", "hinge"), "-s 13 is epsilon_insensitive loss, and --loss says hinge"),
    ],
)
def test_what_does_not_belong_together_is_refused_with_a_sentence(run, data, words, sentence):
    code, _, err = run("train", *words, data)
    assert code == 2
    assert sentence in err


def test_a_target_that_is_no_number_is_named_with_its_line(run, tmp_path):
    (tmp_path / "words").write_text("cheap 1:1\ndear 1:2\n")
    code, _, err = run("train", "-s", 13, "words")
    assert code == 2
    assert "words" in err


def test_a_checkpoint_of_a_regression_resumes(run, data):
    words = ("train", "-s", 13, "-e", 1e-8, "--checkpoint", "state", "--checkpoint-seconds", 0.0, data)
    assert run(*words)[0] == 0
    assert run("train", "-s", 21, "--checkpoint", "state", data)[0] == 0

"""LIBSVM's -s 1 to 4 with -t: trained, predicted, certified, described and converted on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from maxmargin import SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.cli.switches import in_our_words
from maxmargin.io import load_model, write_svmlight

TYPES = {
    1: (NuSVC, ("-n", 0.4), {"nu": 0.4}),
    2: (OneClassSVM, ("-n", 0.2), {"nu": 0.2}),
    3: (SVR, ("-c", 2, "-p", 0.2), {"C": 2.0, "epsilon": 0.2}),
    4: (NuSVR, ("-c", 2, "-n", 0.3), {"C": 2.0, "nu": 0.3}),
}
types = pytest.mark.parametrize("kind", TYPES)


def drawn(kind: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3)) + 1.0
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=90)
    return X, np.where(y > np.median(y), 2.0, 1.0) if kind == 1 else y


@pytest.fixture
def data(tmp_path, request):
    kind = request.getfixturevalue("kind") if "kind" in request.fixturenames else 3
    write_svmlight(*drawn(kind), tmp_path / "data")
    return "data"


def decisions(model, X: np.ndarray) -> np.ndarray:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@types
def test_the_numbers_of_libsvm_train_its_machines(run, data, tmp_path, kind):
    make, words, settings = TYPES[kind]
    code, out, err = run("train", "-s", kind, "-t", 2, "-g", 0.3, *words, "-e", 1e-6, data)
    assert (code, err) == (0, "")
    assert out.startswith("Certified")
    model, (X, y) = load_model(tmp_path / "data.model"), drawn(kind)
    assert type(model) is make
    assert {key: getattr(model, key) for key in settings} == settings
    same = make(gamma=0.3, tol=1e-6, **settings).fit(X, y)
    np.testing.assert_allclose(decisions(model, X), decisions(same, X), atol=1e-9)


@types
@pytest.mark.parametrize("kernel", [0, 2])
def test_a_model_is_predicted_proved_described_and_converted(run, data, tmp_path, kind, kernel):
    make, words, _ = TYPES[kind]
    assert run("train", "-s", kind, "-t", kernel, *words, "-e", 1e-7, data)[0] == 0
    assert run("predict", data, "data.model", "values", "--certified")[0] == 0
    model, (X, _) = load_model(tmp_path / "data.model"), drawn(kind)
    np.testing.assert_allclose(np.loadtxt(tmp_path / "values")[:, 0], model.predict(X), rtol=1e-12)
    assert run("info", "data.model")[1].startswith(f"{make.__name__} with 3 features")
    assert run("certify", data, "data.model", "-e", 1e-5)[0] == 0
    assert run("convert", "data.model", "theirs", "--to", "libsvm")[0] == 0
    of_training = [word for pair in zip(words[::2], words[1::2], strict=True) for word in pair]
    code, out, _ = run("certify", data, "theirs", *of_training, "-e", 1e-5, "--json")
    assert code == 0
    assert json.loads(out)["relative_gap"] <= 1e-5
    assert "does not say with which" in run("certify", data, "theirs")[2]
    code, _, err = run("convert", "data.model", "theirs", "--to", "liblinear")
    assert (code, err.count("\n")) == (2, 1)


@types
def test_a_model_of_libsvms_is_certified(run, data, tmp_path, kind):
    from libsvm.svmutil import svm_save_model, svm_train

    X, y = drawn(kind)
    words = [str(word) for word in TYPES[kind][1]]
    svm_save_model(str(tmp_path / "theirs"), svm_train(y, X, f"-s {kind} -t 2 -g 0.3 {' '.join(words)} -e 1e-5 -q"))
    code, out, _ = run("certify", data, "theirs", *words, "-e", 1e-2)
    assert code == 0
    assert "It is within 0.01." in out
    assert run("convert", "theirs", "ours")[0] == 0
    assert run("certify", data, "ours", *words, "-e", 1e-2)[0] == 0


@types
def test_a_model_that_is_far_from_its_optimum_is_not_certified(run, data, tmp_path, kind):
    wrong = {1: ("-n", 0.8), 2: ("-n", 0.6), 3: ("-c", 20, "-p", 0.5), 4: ("-c", 20, "-n", 0.6)}[kind]
    assert run("train", "-s", kind, "-t", 2, *TYPES[kind][1], data)[0] == 0
    assert run("certify", data, "data.model", *wrong, "-e", 1e-5)[0] == 3


@types
def test_a_checkpoint_is_kept_and_removed(run, data, tmp_path, kind):
    words = ("train", "-s", kind, "-t", 2, "--checkpoint", "state", "--checkpoint-seconds", 0.0, data)
    assert run(*words)[0] == 0
    assert not (tmp_path / "state").exists()


def test_quantiles_have_kernels_too(run, data, tmp_path):
    assert run("train", "-t", "rbf", "--loss", "quantile", "--quantile", 0.9, "-c", 10, "-e", 1e-8, data)[0] == 0
    model, (X, y) = load_model(tmp_path / "data.model"), drawn(3)
    assert (type(model), model.loss, model.quantile) == (SVR, "quantile", 0.9)
    below = y - model.predict(X)  # many samples are on the line, up to rounding
    assert np.mean(below < -1e-3) <= 0.9 <= np.mean(below < 1e-3)


@pytest.mark.parametrize("kind", [1])
def test_nu_classes_are_cross_validated(run, data, kind):
    code, out, _ = run("train", "-s", kind, "-t", 2, "-v", 3, data)
    assert code == 0
    assert out.startswith("Cross-validation accuracy: ")


def test_a_kernel_tells_the_two_families_of_numbers_apart():
    assert in_our_words(["-s", "2", "-t", "2", "-n", "1"]) == ["-s", "2", "-t", "2", "--nu", "1"]
    assert in_our_words(["-s", "2", "-n", "1"]) == ["-s", "2", "-n", "1"]
    assert in_our_words(["-s", "21", "-n", "1"]) == ["-s", "21", "--nu", "1"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-s", 5), "-s 5 is not a type of LIBSVM: with a kernel (-t), 0 is C-SVC, 1 is nu-SVC"),
        (("-s", 0, "-p", 0.1), "-p is the tube of epsilon-SVR (-s 3), and C-SVC (-s 0) has none"),
        (("-s", 3, "-n", 0.1), "-n with a fraction is nu, which epsilon-SVR (-s 3) does not have"),
        (("-s", 3, "-w1", 2), "-w weights classes, and epsilon-SVR (-s 3) has none"),
        (("-s", 3, "--loss", "squared_epsilon_insensitive"), "has the loss epsilon_insensitive or quantile"),
        (("-s", 4, "-B", -1), "nu-SVR (-s 4) always has its offset"),
        (("-s", 4, "-n", 1.5), "-n (nu) must be greater than 0 and at most 1; got 1.5"),
        (("-s", 4, "--quantile", 0.5), "--quantile belongs to --loss quantile"),
        (("-s", 2, "--report", "page.html"), "--report shows margins and labels"),
        (("-s", 4, "-C"), "-C searches for the C of a classification or a regression"),
        (("-s", 3, "-p", -1), "-p (epsilon) must be at least 0; got -1.0"),
    ],
)
def test_what_does_not_belong_together_is_refused_with_a_sentence(run, data, words, sentence):
    code, _, err = run("train", "-t", 2, *words, data)
    assert code == 2
    assert sentence in err


@pytest.mark.parametrize("kind", [1])
def test_the_largest_nu_that_works_is_named(run, data, tmp_path, kind):
    X = drawn(kind)[0]
    write_svmlight(X, np.where(np.arange(90) < 9, 2.0, 1.0), tmp_path / "uneven")
    code, _, err = run("train", "-s", kind, "-t", 2, "-n", 0.5, "uneven")
    assert code == 2
    assert "the largest nu that works is 0.2" in err


@pytest.mark.parametrize("words", [("-s", 3, "-t", 2), ("-s", 13), ("-s", 3, "-t", 0)], ids=str)
def test_an_infinite_cost_keeps_every_residual_within_the_tube(run, tmp_path, words):
    X, _ = drawn(3)
    write_svmlight(X, X @ [1.0, 2.0, -1.0], tmp_path / "data")
    code, out, _ = run("train", *words, "-c", "inf", "-p", 0.1, "data")
    assert code == 0
    assert out.startswith("Certified")
    assert run("predict", "data", "data.model", "values")[0] == 0
    assert np.abs(np.loadtxt(tmp_path / "values") - X @ [1.0, 2.0, -1.0]).max() <= 0.1
    code, _, err = run("certify", "data", "data.model")
    assert (code, err.count("\n")) == (2, 1)
    assert "keeps the certificate of its fit with C = infinity" in err


@pytest.mark.parametrize("words", [("-t", 0), ("-t", 2), ("-s", 3, "-t", 2), ("-s", 13)], ids=str)
def test_an_infinite_cost_that_nothing_meets_is_refused_in_one_line(run, tmp_path, words):
    X, y = drawn(1)
    write_svmlight(np.vstack([X, X]), np.concatenate([y, 3.0 - y]), tmp_path / "data")
    code, _, err = run("train", *words, "-c", "inf", "data")
    assert (code, err.count("\n")) == (2, 1)
    assert "C = infinity" in err

"""The command line with kernels, run as a user runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import SVC
from maxmargin.io import load_model, policy, read_svmlight, write_svmlight
from tests.catalogue import labelled


@pytest.fixture
def data(tmp_path):
    X, y = labelled(150, 4, 0.7, 0)
    write_svmlight(X, y, tmp_path / "data")
    return "data"


@pytest.fixture
def three(tmp_path):
    X, _ = labelled(150, 4, 0.7, 0)
    write_svmlight(X, np.array([3, 1, 2])[np.digitize(X[:, 0], [-0.5, 0.5])], tmp_path / "three")
    return "three"


@pytest.mark.parametrize(
    ("words", "parameters"),
    [
        (("-t", "2", "-g", "0.3"), {"kernel": "rbf", "gamma": 0.3}),
        (("-t", "rbf", "-g", "auto"), {"kernel": "rbf", "gamma": "auto"}),
        (("--kernel", "rbf"), {"kernel": "rbf", "gamma": "scale"}),
        (("-t", "0"), {"kernel": "linear"}),
        (("-t", "1", "-g", "1", "-r", "1", "-d", "2"), {"kernel": "poly", "gamma": 1.0, "coef0": 1.0, "degree": 2}),
        (("-t", "polynomial", "-s", "0"), {"kernel": "poly"}),
        (("-t", "2", "-B", "-1", "-m", "10"), {"kernel": "rbf", "fit_intercept": False, "cache_size": 10.0}),
        (("-t", "2", "-w", "1=3", "--solver", "smo"), {"kernel": "rbf", "class_weight": {1.0: 3.0}, "solver": "smo"}),
    ],
)
def test_the_options_of_libsvm_train_the_machine_that_they_name(run, data, tmp_path, words, parameters):
    code, out, err = run("train", data, "-e", "1e-6", *words)
    assert (code, err) == (0, "")
    assert out.startswith("Certified: the objective is within ")
    X, y = read_svmlight(tmp_path / data)
    expected = SVC(tol=1e-6, random_state=0, **parameters).fit(X, y)
    model = load_model(tmp_path / "data.model")
    assert model.get_params() == expected.get_params()
    assert np.array_equal(model.dual_coef_, expected.dual_coef_)


def test_train_predict_certify_and_info_from_end_to_end(run, three, tmp_path):
    code, out, _ = run("train", three, "-t", "rbf", "-c", "10")
    assert code == 0
    assert "(the worst of 3 binary problems)" in out
    code, out, _ = run("predict", three, "three.model", "labels")
    X, y = read_svmlight(tmp_path / three)
    model = load_model(tmp_path / "three.model")
    assert np.array_equal(np.loadtxt(tmp_path / "labels"), model.predict(X))
    assert out.startswith(f"Accuracy: {100 * np.mean(model.predict(X) == y):.4f}%")
    assert run("certify", three, "three.model", "-e", "1e-3")[0] == 0
    code, out, _ = run("info", "three.model")
    assert "SVC with 4 features, classes 1, 2, 3" in out
    assert "support vectors, kernel RBF(gamma=" in out


def test_json_is_one_object(run, three):
    report = json.loads(run("train", three, "-t", "2", "--json")[1])
    assert report["certified"] is True
    assert report["problems"] == 3
    assert json.loads(run("info", "three.model", "--json")[1])["kernel"].startswith("RBF(")
    assert len(json.loads(run("certify", three, "three.model", "--json")[1])["problems"]) == 3
    assert json.loads(run("predict", three, "three.model", "--json")[1])["samples"] == 150


def test_a_large_file_is_predicted_piece_by_piece(run, data, tmp_path, monkeypatch):
    run("train", data, "-t", "2")
    whole = run("predict", data, "data.model", "whole", "-d")[1]
    monkeypatch.setattr(policy, "READING", replace(policy.READING, window_bytes=500))
    assert run("predict", data, "data.model", "pieces", "-d")[1].replace("pieces", "whole") == whole
    assert np.loadtxt(tmp_path / "whole") == pytest.approx(np.loadtxt(tmp_path / "pieces"), abs=1e-9)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-t", "5"), "-t 5 is not a kernel"),
        (("-t", "cubic"), "-t cubic is not a kernel"),
        (("-t", "2", "-g", "wide"), "-g (gamma) must be one of 'scale', 'auto'"),
        (("-t", "2", "-g", "0"), "-g (gamma) must be greater than 0; got 0.0"),
        (("-t", "1", "-g", "-1"), "-g (gamma) must be greater than 0; got -1.0"),
        (("-t", "4", "--zero-based"), "leave --zero-based out"),
        (("-t", "2", "--loss", "hinge"), "C-SVC (-s 0) has a loss of its own: leave --loss hinge out"),
        (("-t", "2", "-s", "21"), "-s 21 is not a type of LIBSVM"),
        (("-t", "2", "-R"), "leave -R out"),
        (("-t", "2", "-B", "1"), "-B takes only a negative number"),
        (("-t", "2", "--solver", "dcd"), "no solver named 'dcd'"),
        (("-t", "2", "-m", "0"), "-m (cache_size) must be greater than 0"),
        (("-g", "1"), "--gamma belongs to a kernel: choose one with -t"),
        (("-d", "2"), "--degree belongs to a kernel"),
        (("-r", "2"), "--coef0 belongs to a kernel"),
        (("-m", "2"), "--cache-size belongs to a kernel"),
        (("--solver", "smo"), "no solver named 'smo'"),
    ],
)
def test_options_that_do_not_go_together_exit_with_2_and_a_sentence(run, data, tmp_path, words, sentence):
    code, out, err = run("train", data, *words)
    assert (code, out) == (2, "")
    assert err.startswith("maxmargin: ")
    assert sentence in err
    assert not (tmp_path / "data.model").exists()


@pytest.mark.parametrize("name", ["data", "three"])
def test_certify_judges_a_machine_of_libsvms(run, data, three, tmp_path, name):
    from libsvm.svmutil import svm_save_model, svm_train

    X, y = read_svmlight(tmp_path / name)
    svm_save_model(str(tmp_path / "theirs"), svm_train(y, X, "-q -t 2 -g 0.3 -c 2 -e 0.1"))
    code, _, err = run("certify", name, "theirs")
    assert code == 2
    assert "give it with -c" in err
    code, out, _ = run("certify", name, "theirs", "-c", "2", "-e", "0.1")
    assert code == 0
    assert "above the optimum" in out
    code, out, _ = run("certify", name, "theirs", "-c", "2", "-e", "1e-9")
    assert code == 3
    assert "NOT proved" in out


def test_a_wrong_C_is_not_certified(run, data):
    assert run("train", data, "-t", "2", "-c", "5")[0] == 0
    assert run("certify", data, "data.model")[0] == 0
    assert run("certify", data, "data.model", "-c", "0.1")[0] == 3


def test_what_cannot_be_proved_is_said(run, data, three):
    code, out, _ = run("train", data, "-t", "3", "-g", "0.01", "--max-seconds", "60")
    assert code == 3
    assert out.startswith("NOT certified: primal and dual value are ")
    assert "the kernel is not positive semidefinite" in out
    assert "apart, which proves no optimum" in run("info", "data.model")[1]
    assert "not positive semidefinite: no bound" in run("certify", data, "data.model")[2]
    run("train", three, "-t", "2")
    assert "has the label" in run("certify", data, "three.model")[2]


def test_convert_there_and_back(run, three, tmp_path):
    run("train", three, "-t", "2")
    assert run("convert", "three.model", "libsvm", "--to", "libsvm")[0] == 0
    assert run("convert", "libsvm", "back")[0] == 0
    back, model = load_model(tmp_path / "back"), load_model(tmp_path / "three.model")
    assert np.array_equal(back.dual_coef_, model.dual_coef_)
    assert "imported" in run("info", "back")[1]
    for name in ("libsvm", "back"):
        assert run("predict", three, name)[1] == run("predict", three, "three.model")[1]
        assert run("certify", three, name, "-c", "1")[0] == 0
    code, _, err = run("convert", "three.model", "liblinear", "--to", "liblinear")
    assert code == 2
    assert "can be written for LIBSVM" in err


def write_kernel(K, y, path, numbered=True):
    """As LIBSVM's -t 4 has it."""
    names = [f" 0:{i + 1}" if numbered else "" for i in range(len(y))]
    rows = [" ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row)) for row in K.tolist()]
    lines = [f"{label}{name} {row}\n" for label, name, row in zip(y.tolist(), names, rows, strict=True)]
    path.write_text("# kernel values\n\n" + "".join(lines))


@pytest.mark.parametrize("numbered", [True, False])
def test_a_precomputed_kernel_goes_through_every_command(run, tmp_path, numbered):
    X, y = labelled(60, 3, 0.7, 0)
    K = rbf_kernel(X, gamma=0.5)
    write_kernel(K, y, tmp_path / "kernel", numbered)
    write_svmlight(X, y, tmp_path / "data")
    assert run("train", "kernel", "-t", "4", "-e", "1e-6")[0] == 0
    assert "kernel holds the kernel of 60 samples, not of 3" in run("train", "kernel", "-t", "4", "--n-features", "3")[2]
    assert run("train", "data", "-t", "2", "-g", "0.5", "-e", "1e-6")[0] == 0
    assert run("predict", "kernel", "kernel.model", "labels")[0] == 0
    assert np.array_equal(np.loadtxt(tmp_path / "labels"), load_model(tmp_path / "data.model").predict(X))
    assert run("certify", "kernel", "kernel.model")[0] == 0
    assert "60 features" in run("info", "kernel.model")[1]
    write_kernel(K[:30, :30], y[:30], tmp_path / "less")
    assert "less holds the kernel of 30 samples, not of 60" in run("certify", "less", "kernel.model")[2]


def _with(K, i, j, value):
    changed = K.copy()
    changed[i, j] = value
    return changed


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda K: K[:-1], r"kernel, line 3: a kernel value with sample 20, but there are 19 samples: it is not square"),
        (lambda K: _with(K, 4, 2, 9.0), r"kernel, line (5|7): sample (3|5) has .* with sample (3|5), .*: it is not symmetric"),
        (lambda K: _with(K, 4, 2, np.nan), r"kernel, line 7, column \d+: "),
        (lambda K: _with(K, 4, 2, np.inf), r"kernel, line 7, column \d+: "),
    ],
    ids=["not square", "not symmetric", "nan", "inf"],
)
def test_a_precomputed_kernel_that_is_none_is_named_with_its_line(run, tmp_path, change, sentence):
    X, y = labelled(20, 3, 0.7, 0)
    K = change(rbf_kernel(X, gamma=0.5))
    write_kernel(K, y[: len(K)], tmp_path / "kernel")
    code, out, err = run("train", "kernel", "-t", "precomputed")
    assert (code, out) == (2, "")
    assert re.match("maxmargin: " + sentence, err)


def test_a_damaged_machine_of_libsvms_is_named_with_its_line(run, data, tmp_path):
    run("train", data, "-t", "2")
    run("convert", "data.model", "libsvm", "--to", "libsvm")
    text = (tmp_path / "libsvm").read_text()
    (tmp_path / "libsvm").write_text(re.sub("gamma .*", "gamma -1", text))
    assert run("info", "libsvm") == (2, "", "maxmargin: libsvm, line 3: gamma must be positive; it is -1.\n")
    (tmp_path / "libsvm").write_text(text[:-30])
    code, _, err = run("predict", data, "libsvm")
    assert code == 2
    assert re.match(r"maxmargin: libsvm, line \d+: it ends too early", err)


def test_training_from_text_loads_no_scikit_learn(data, tmp_path):
    code = (
        "import sys; from typer.testing import CliRunner; from maxmargin.cli.commands import app;"
        "result = CliRunner().invoke(app, ['train', 'data', 'model', '-t', '2']);"
        "print(result.exit_code, {'sklearn', 'joblib', 'pandas'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert out.strip() == "0 set()"


def test_a_killed_command_goes_on_from_its_checkpoint(tmp_path):
    X, y = labelled(600, 10, 5.0, 0)
    write_svmlight(X, y, tmp_path / "data")
    command = [sys.executable, "-m", "maxmargin", "train", "data", "-t", "2", "-c", "100", "-e", "1e-6", "--json"]
    command += ["--solver", "smo", "--checkpoint", "state", "--checkpoint-seconds", "0.01"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    while process.poll() is None and not (tmp_path / "state").exists():
        time.sleep(0.005)
    process.kill()
    process.wait()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(done.stdout)["relative_gap"] <= 1e-6
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["data", "data.model"]

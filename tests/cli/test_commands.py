"""The command line, run as a user runs it."""

from __future__ import annotations

import gzip
import json
import lzma
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import zstandard
from scipy import sparse

from maxmargin import LinearSVC
from maxmargin.io import load_model, policy, read_svmlight, write_svmlight
from tests.catalogue import labelled


@pytest.fixture
def data(tmp_path):
    X, y = labelled(200, 6, 0.7, 0)
    write_svmlight(X, y, tmp_path / "data")
    return "data"


def test_train_predict_and_info_from_end_to_end(run, data, tmp_path):
    code, out, err = run("train", data, "-e", "1e-6", "-s", "3")
    assert (code, err) == (0, "")
    assert out.startswith("Certified: the objective is within ")
    assert "Model: data.model" in out
    model = load_model(tmp_path / "data.model")
    assert model.loss == "hinge"
    assert model.relative_gap_ <= 1e-6
    code, out, _ = run("predict", data, "data.model", "labels")
    assert code == 0
    assert out.startswith("Accuracy: ")
    assert set((tmp_path / "labels").read_text().split()) == {"1", "-1"}
    code, out, _ = run("info", "data.model")
    assert code == 0
    assert "LinearSVC with 6 features, classes -1, 1" in out
    assert "support vectors" in out


def test_json_is_one_object(run, data):
    code, out, _ = run("train", data, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["certified"] is True
    assert report["relative_gap"] <= 1e-4
    assert json.loads(run("predict", data, "data.model", "--json")[1])["samples"] == 200
    assert json.loads(run("info", "data.model", "--json")[1])["features"] == 6
    assert json.loads(run("certify", data, "data.model", "--json")[1])["certified"] is True


def test_an_uncertified_fit_exits_with_3_and_says_so(run, data, tmp_path):
    code, out, _ = run("train", data, "-e", "1e-12", "--max-iter", "2")
    assert code == 3
    assert out.startswith("NOT certified")
    assert "The limit on epochs was reached before tol." in out
    assert (tmp_path / "data.model").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("train", "nowhere"), "nowhere: No such file or directory."),
        (("train", "broken"), "broken, line 2, column 3: a feature index must be a whole number."),
        (("train", "data", "-c", "0"), "-c (C) must be greater than 0; got 0.0"),
        (("train", "data", "-s", "9"), "-s 9 is not a type of LIBLINEAR"),
        (("train", "data", "--solver", "magic"), "no solver named 'magic'"),
        (("train", "data", "-w", "heavy"), "LABEL=WEIGHT; got 'heavy'"),
        (("train", "data", "--label-column", "y"), "is neither"),
        (
            ("train", "fractions"),
            "fractions, line 1: the label 0.5 is no class, which is a whole number or a word; the labels have 2 distinct",
        ),
        (("train", "alone"), "alone: all 2 samples have the label 1, and a classifier needs two classes."),
        (("predict", "data", "data"), "not a maxmargin model"),
    ],
)
def test_bad_input_exits_with_2_and_a_sentence(run, data, tmp_path, words, sentence):
    (tmp_path / "broken").write_text("1 1:2\n1 x:3\n")
    (tmp_path / "fractions").write_text("0.5 1:2\n1 1:3\n")
    (tmp_path / "alone").write_text("1 1:2\n1 1:3\n")
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith("maxmargin: ")
    assert sentence in err
    assert not (tmp_path / "data.model").exists()


def test_certify_judges_a_model_of_liblinears(run, data, tmp_path):
    from liblinear.liblinearutil import save_model, train

    X, y = labelled(200, 6, 0.7, 0)
    save_model(str(tmp_path / "theirs"), train(y.tolist(), X.tolist(), "-s 3 -c 1 -e 0.1 -q"))
    code, _, err = run("certify", data, "theirs")
    assert code == 2
    assert "give it with -c" in err
    code, out, _ = run("certify", data, "theirs", "-c", "1", "-e", "0.5")
    assert code == 0
    assert "above the optimum" in out
    code, out, _ = run("certify", data, "theirs", "-c", "1", "-e", "1e-9")
    assert code == 3
    assert "NOT proved" in out


def test_convert_there_and_back(run, data, tmp_path):
    run("train", data)
    for kind in ("liblinear", "libsvm"):
        assert run("convert", "data.model", kind, "--to", kind)[0] == 0
        assert run("convert", kind, "back")[0] == 0
        back, model = load_model(tmp_path / "back"), load_model(tmp_path / "data.model")
        assert back.coef_ == pytest.approx(model.coef_)
        assert "imported" in run("info", "back")[1]


def test_class_weights_and_bias(run, data, tmp_path):
    assert run("train", data, "-w", "1=3", "-w", "-1=1", "-B", "-1")[0] == 0
    model = load_model(tmp_path / "data.model")
    assert model.class_weight == {1.0: 3.0, -1.0: 1.0}
    assert model.intercept_.tolist() == [0.0]
    assert run("train", data, "-w", "balanced")[0] == 0


def test_tables_with_a_named_column(run, tmp_path):
    import pandas as pd

    X, y = labelled(100, 3, 0.5, 0)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=np.where(y > 0, "good", "bad"))
    table.to_csv(tmp_path / "table.csv", index=False)
    table.to_parquet(tmp_path / "table.parquet")
    for name in ("table.csv", "table.parquet"):
        assert run("train", name, "--label-column", "kind")[0] == 0
        model = load_model(tmp_path / f"{name}.model")
        assert model.classes_.tolist() == ["bad", "good"]
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        assert "Accuracy" in run("predict", name, f"{name}.model", "--label-column", "kind")[1]
    code, _, err = run("train", "table.csv", "--label-column", "sort")
    assert code == 2
    assert "no column 'sort'; it has 'a', 'b', 'c', 'kind'" in err


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_a_large_file_is_predicted_piece_by_piece(run, data, tmp_path, monkeypatch, suffix):
    text = (tmp_path / data).read_bytes()
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}[suffix]
    (tmp_path / f"packed{suffix}").write_bytes(pack(text))
    (tmp_path / f"broken{suffix}").write_bytes(pack(text + b"1 x:1\n"))
    run("train", data)
    whole = run("predict", data, "data.model", "whole", "-d")[1]
    monkeypatch.setattr(policy, "READING", replace(policy.READING, window_bytes=500, block_bytes=300))
    assert run("predict", f"packed{suffix}", "data.model", "pieces", "-d")[1].replace("pieces", "whole") == whole
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "pieces").read_bytes()
    code, _, err = run("predict", f"broken{suffix}", "data.model", "pieces")
    assert code == 2
    assert f"broken{suffix}, line 201, column 3: a feature index" in err
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "pieces").read_bytes()


def test_a_scipy_matrix_with_labels(run, tmp_path):
    X, y = labelled(100, 3, 0.5, 0)
    csr = sparse.csr_matrix(X)
    arrays = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape, "format": b"csr"}
    np.savez(tmp_path / "matrix.npz", **arrays, y=y)
    np.savez(tmp_path / "unlabelled.npz", **arrays)
    assert run("train", "matrix.npz")[0] == 0
    assert "Accuracy" in run("predict", "matrix.npz", "matrix.npz.model")[1]
    assert "no array 'y'" in run("train", "unlabelled.npz")[2]
    (tmp_path / "broken.npz").write_bytes((tmp_path / "matrix.npz").read_bytes()[:200])
    assert "damaged" in run("train", "broken.npz")[2]


def test_training_from_text_loads_no_scikit_learn_and_gives_the_model_that_it_would(run, data, tmp_path):
    code = (
        "import sys; from typer.testing import CliRunner; from maxmargin.cli.commands import app;"
        "result = CliRunner().invoke(app, ['train', 'data', 'model', '-e', '1e-6', '-B', '2']);"
        "print(result.exit_code, {'sklearn', 'joblib', 'pandas'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert out.strip() == "0 set()"
    X, y = read_svmlight(tmp_path / data)
    expected = LinearSVC(tol=1e-6, intercept_scaling=2.0, random_state=0).fit(X, y)
    model = load_model(tmp_path / "model")
    assert isinstance(model, LinearSVC)
    assert model.get_params() == expected.get_params()
    assert np.array_equal(model.coef_, expected.coef_)
    assert np.array_equal(model.predict(X), expected.predict(X))


def test_help_loads_neither_numba_nor_scikit_learn():
    code = (
        "import sys; from typer.testing import CliRunner; from maxmargin.cli.commands import app;"
        "result = CliRunner().invoke(app, ['train', '--help']);"
        "print(result.exit_code, {'numba', 'sklearn', 'numpy'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "0 set()"

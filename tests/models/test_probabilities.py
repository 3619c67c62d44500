"""The probabilities of LIBSVM's models are those that ``svm-predict -b 1`` prints."""

from __future__ import annotations

import numpy as np
import pytest
from libsvm.svmutil import svm_load_model, svm_predict, svm_save_model, svm_train

from maxmargin import SVC
from maxmargin.io import MalformedFile, read_libsvm, write_libsvm, write_svmlight
from maxmargin.models.probabilities import class_probabilities, coupled, has_probabilities
from tests.catalogue import labelled

X, SIGNS = labelled(150, 4, 0.7, 0)
LABELS = {
    "two, the greater first": np.where(SIGNS[np.argmax(SIGNS > 0)] == SIGNS, 7, 3),
    "two, the smaller first": np.where(SIGNS[0] == SIGNS, 3, 7),
    "three": np.array([3, 1, 2])[np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])],
}


@pytest.fixture(params=[(name, kernel) for name in LABELS for kernel in (0, 2)], ids=str)
def theirs(request, tmp_path):
    """A model of LIBSVM's, in a file, and its labels."""
    name, kernel = request.param
    y = LABELS[name]
    svm_save_model(str(tmp_path / "theirs"), svm_train(y, X, f"-q -b 1 -t {kernel} -g 0.3 -c 2"))
    return tmp_path / "theirs", y


def of_libsvm(path, y):
    """Labels and probabilities, a column for each class in rising order."""
    model = svm_load_model(str(path))
    labels, _, rows = svm_predict(y, X, model, "-q -b 1")
    return np.array(labels), np.array(rows)[:, np.argsort(model.get_labels())]


def test_probabilities_are_those_of_libsvm(theirs):
    path, y = theirs
    model = read_libsvm(path)
    found = class_probabilities(model, X)[:, np.argsort(model.classes_)]
    assert found == pytest.approx(of_libsvm(path, y)[1], abs=1e-9)
    assert found.sum(axis=1) == pytest.approx(1.0)


def test_a_model_that_is_written_again_has_the_same_probabilities(theirs, tmp_path):
    path, y = theirs
    write_libsvm(read_libsvm(path), tmp_path / "again")
    assert of_libsvm(tmp_path / "again", y)[1] == pytest.approx(of_libsvm(path, y)[1], abs=1e-9)


def test_predict_writes_what_svm_predict_writes(theirs, run, tmp_path):
    path, y = theirs
    write_svmlight(X, y, tmp_path / "data")
    assert run("predict", "data", path, "output", "-b", "1")[0] == 0
    head, *lines = (tmp_path / "output").read_text().splitlines()
    assert head == "labels " + " ".join(map(str, read_libsvm(path).classes_))
    labels, probabilities = of_libsvm(path, y)
    rows = np.array([list(map(float, line.split())) for line in lines])
    assert np.array_equal(rows[:, 0], labels)
    order = np.argsort([int(word) for word in head.split()[1:]])
    assert rows[:, 1:][:, order] == pytest.approx(probabilities, abs=1e-9)


def test_converting_a_calibrated_model_says_what_is_lost(theirs, run):
    path, _ = theirs
    code, _, err = run("convert", path, "ours")
    assert code == 0
    assert err == f"maxmargin: {path}: its probabilities are lost, as only LIBSVM's format holds them.\n"
    assert run("convert", path, "again", "--to", "libsvm")[2] == ""


def test_pairs_that_agree_with_a_distribution_are_coupled_to_it():
    p = np.random.default_rng(0).dirichlet(np.ones(5), 200)
    first, second = np.triu_indices(5, 1)
    pairs = p[:, first] / (p[:, first] + p[:, second])
    assert coupled(pairs, 5) == pytest.approx(p, abs=0.01)


def test_a_plain_model_has_no_probabilities():
    assert not has_probabilities(SVC().fit(X, SIGNS))


def test_half_a_sigmoid_is_refused(theirs):
    path, _ = theirs
    lines = [line for line in path.read_text().splitlines() if not line.startswith("probB")]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(MalformedFile, match="the header has no 'probB'"):
        read_libsvm(path)

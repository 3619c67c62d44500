"""LIBSVM's text models: ours predict the same there, and theirs the same here."""

from __future__ import annotations

import os

import numpy as np
import pytest
from libsvm.svmutil import svm_load_model, svm_predict, svm_save_model, svm_train
from scipy import sparse

from maxmargin import SVC, LinearSVC
from maxmargin.io import MalformedFile, load_model, read_libsvm, save_model, write_liblinear, write_libsvm
from maxmargin.models.libsvm import aligned, width_of
from tests.catalogue import labelled

KERNELS = {
    "rbf": ({"kernel": "rbf", "gamma": 0.3}, "-t 2 -g 0.3"),
    "poly": ({"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 2}, "-t 1 -g 0.3 -r 1 -d 2"),
    "sigmoid": ({"kernel": "sigmoid", "gamma": 0.05, "coef0": 0.1}, "-t 3 -g 0.05 -r 0.1"),
    "linear": ({"kernel": "linear"}, "-t 0"),
}
kernels = pytest.mark.parametrize("kernel", KERNELS)
LABELS = {"two": [-1, 1], "two, falling": [7, 3], "three": [4, -2, 9], "four": [2, 1, 4, 3]}
several_labels = pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)


def data(labels):
    """The labels come in the order given."""
    X, _ = labelled(80, 4, 1.0, 0)
    codes = np.digitize(X[:, 0] + 0.3 * X[:, 1], np.quantile(X[:, 0], np.linspace(0, 1, len(labels) + 1)[1:-1]))
    codes[: len(labels)] = np.arange(len(labels))
    return X, np.array(labels)[codes]


def predicted_by_libsvm(path, X):
    labels, _, values = svm_predict([], X.tolist(), svm_load_model(str(path)), "-q")
    return np.array(labels), np.array(values)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # sigmoid may have no optimum to certify
@kernels
@several_labels
def test_libsvm_predicts_the_same_with_an_exported_machine(tmp_path, labels, kernel):
    X, y = data(labels)
    model = SVC(decision_function_shape="ovo", max_seconds=5.0, **KERNELS[kernel][0]).fit(X, y)
    write_libsvm(model, tmp_path / "model")
    theirs, values = predicted_by_libsvm(tmp_path / "model", X)
    assert np.array_equal(theirs, model.predict(X))
    assert values.reshape(len(X), -1) == pytest.approx(model.decision_function(X).reshape(len(X), -1), abs=1e-9)
    again = read_libsvm(tmp_path / "model")
    assert np.array_equal(again.predict(X), model.predict(X))


@kernels
@several_labels
def test_a_machine_of_libsvms_predicts_the_same_here(tmp_path, labels, kernel):
    X, y = data(labels)
    theirs = svm_train(y.tolist(), X.tolist(), f"-q -c 2 {KERNELS[kernel][1]}")
    svm_save_model(str(tmp_path / "model"), theirs)
    expected, values = predicted_by_libsvm(tmp_path / "model", X)
    model = read_libsvm(tmp_path / "model")
    assert np.array_equal(model.predict(X), expected)
    if len(labels) > 2:
        assert type(model) is SVC
        assert model.classes_.tolist() == theirs.get_labels()
        assert model.set_params(decision_function_shape="ovo").decision_function(X) == pytest.approx(values, abs=1e-9)
        assert model.n_support_.sum() == theirs.get_nr_sv()
    else:
        assert type(model) is (LinearSVC if kernel == "linear" else SVC)
        assert model.classes_.tolist() == sorted(labels)
        sign = 1.0 if theirs.get_labels()[0] == model.classes_[1] else -1.0
        assert model.decision_function(X) == pytest.approx(sign * values.ravel(), abs=1e-9)


@several_labels
def test_there_and_back_again_every_number_is_the_same(tmp_path, labels):
    X, y = data(labels)
    svm_save_model(str(tmp_path / "theirs"), svm_train(y.tolist(), X.tolist(), "-q -t 2 -g 0.3"))
    model = read_libsvm(tmp_path / "theirs")
    write_libsvm(model, tmp_path / "ours")
    assert np.array_equal(predicted_by_libsvm(tmp_path / "ours", X)[0], predicted_by_libsvm(tmp_path / "theirs", X)[0])
    again = read_libsvm(tmp_path / "ours")
    assert np.array_equal(again.dual_coef_, model.dual_coef_)
    assert np.array_equal(again.intercept_, model.intercept_)
    assert np.array_equal(again.support_vectors_.toarray(), model.support_vectors_.toarray())
    save_model(model, tmp_path / "native")
    assert np.array_equal(load_model(tmp_path / "native").predict(X), model.predict(X))


def test_a_tie_between_votes_goes_to_the_label_that_libsvm_lists_first(tmp_path):
    """Three pairs, each won by another class."""
    text = (
        "svm_type c_svc\nkernel_type rbf\ngamma 1\nnr_class 3\ntotal_sv 3\nrho -1 1 -1\nlabel 5 3 1\nnr_sv 1 1 1\nSV\n"
        "0 0 1:1 \n0 0 1:1 \n0 0 1:1 \n"
    )
    (tmp_path / "model").write_text(text)
    expected, _ = predicted_by_libsvm(tmp_path / "model", np.ones((1, 2)))
    assert expected == read_libsvm(tmp_path / "model").predict(np.ones((1, 1))) == 5


def test_a_sparse_machine_is_written_as_a_dense_one_is(tmp_path):
    X, y = data([0, 1])
    X[np.abs(X) < 0.5] = 0.0
    for matrix, name in ((X, "dense"), (sparse.csr_matrix(X), "sparse")):
        write_libsvm(SVC(gamma=0.3, tol=1e-9).fit(matrix, y), tmp_path / name)
    dense, thin = (read_libsvm(tmp_path / name) for name in ("dense", "sparse"))
    assert thin.decision_function(X) == pytest.approx(dense.decision_function(X), abs=1e-5)


def test_features_that_no_support_vector_has_count_for_the_distance(tmp_path):
    X, y = data([-1, 1])
    wide = sparse.csr_matrix(np.hstack([X, np.zeros((80, 2)), np.ones((80, 1))]))
    svm_save_model(str(tmp_path / "model"), svm_train(y.tolist(), X.tolist(), "-q -t 2 -g 0.3"))
    model = read_libsvm(tmp_path / "model")
    assert width_of(model) is None
    expected, _ = predicted_by_libsvm(tmp_path / "model", wide.toarray())
    assert np.array_equal(model.predict(aligned(model, wide)), expected)
    narrow = aligned(model, sparse.csr_matrix(X))
    assert np.array_equal(model.predict(narrow), predicted_by_libsvm(tmp_path / "model", X)[0])


def test_machines_that_libsvm_cannot_hold_are_refused(tmp_path):
    X, y = data([0, 1])
    with pytest.raises(ValueError, match="kernel of this model is a function"):
        write_libsvm(SVC(kernel=lambda A, B: A @ B.T).fit(X, y), tmp_path / "model")
    with pytest.raises(ValueError, match="kernel of this model is precomputed"):
        write_libsvm(SVC(kernel="precomputed").fit(X @ X.T, y), tmp_path / "model")
    with pytest.raises(ValueError, match="whole numbers as labels"):
        write_libsvm(SVC().fit(X, np.where(y, "a", "b")), tmp_path / "model")
    with pytest.raises(ValueError, match="can be written for LIBSVM"):
        write_liblinear(SVC().fit(X, y), tmp_path / "model")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("svm_type c_svc", "svm_type epsilon_svr", "line 10: .*is not a whole number"),
        ("kernel_type rbf", "kernel_type precomputed", "line 2: .*only c_svc"),
        ("gamma 0.3", "gamma -0.3", "line 3: gamma must be positive; it is -0.3"),
        ("gamma 0.3", "gamma 0", "line 3: gamma must be positive; it is 0"),
        ("gamma 0.3", "gamma 0_3", "line 3: '0_3' is not a number"),
        ("gamma 0.3\n", "", "line 8: the header has no 'gamma'"),
        ("nr_sv ", "nr_sv 1 ", "line 8: nr_sv must say"),
        ("nr_sv ", "nr_sv_ ", "line 9: the header has no 'nr_sv'"),
        ("total_sv ", "total_sv 1", "line 5: .*support vectors where"),
        ("rho ", "rho 1 ", "line 6: 4 numbers on a line where 3 belong"),
        ("label 1", "label 2", "line 7: the labels '2 2 3' do not fit nr_class 3"),
        ("\nSV\n", "\n", r"line \d+: (a header line|it ends too early)"),
        ("\nSV\n", "\nSV\nx", "line 10: .*is not a number"),
        ("\nSV\n", "\nSV\n1\n", "line 10: 1 numbers on a line where 2 belong"),
        (" 2:", " 1:", "line 10: .*must increase"),
        (" 2:", " 2.5:", "line 10: .*not a whole number"),
        (" 2:", " 2:2:", "line 10: .*not a number"),
        (" 1:", " 1", "line 10: .*(not a whole number|not a number)"),
        (" 2:", " 0:", "line 10: .*between 1 and"),
        (" 2:", " 2:nan 3:", "line 10: .*not finite"),
        (" 2:", " 2:1_0 3:", "line 10: '1_0' is not a number"),
        (" 2:", " ", "line 10: .*(not a whole number|not a number)"),
    ],
)
def test_a_damaged_machine_is_named_with_its_line(tmp_path, old, new, sentence):
    X, y = data([1, 2, 3])
    path = tmp_path / "model"
    write_libsvm(SVC(gamma=0.3).fit(X, y), path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(MalformedFile, match=sentence):
        read_libsvm(path)

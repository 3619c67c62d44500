"""What scikit-learn's users and its neighbours rely on."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris

from maxmargin import SVC, LinearSVC, Status

X, Y = load_iris(return_X_y=True)
WORDS = ["ab", "abc", "xyz", "xy", "abd", "xyy"]


def common_letters(one, other):
    """The number of letters that two words share: an inner product of the indicators of the alphabet."""
    return np.array([[float(len(set(a) & set(b))) for b in other] for a in one])


def letters_of(words):
    return np.array([[float(letter in word) for letter in "abcdxyz"] for word in words])


@pytest.mark.parametrize("model", [LinearSVC(), SVC(), SVC(kernel="linear")])
def test_skops_loads_what_it_dumped(model):
    skops = pytest.importorskip("skops.io")
    model.fit(X, Y)
    data = skops.dumps(model)
    again = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.status_ == model.status_


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", [LinearSVC(), SVC()])
def test_a_pickle_holds_statuses_by_name_and_gives_them_back(model, classes):
    chosen = Y < classes
    model = clone(model).fit(X[chosen], Y[chosen])
    names = model.__getstate__()["status_"]
    assert set([names] if classes == 2 else names) == {"CERTIFIED"}
    again = pickle.loads(pickle.dumps(model))
    assert again.status_ == model.status_
    assert (again.status_ if classes == 2 else again.status_[0]) is Status.CERTIFIED


def test_a_state_with_statuses_themselves_is_still_read():
    model = SVC().fit(X, Y)
    again = SVC()
    again.__setstate__(dict(vars(model)))
    assert again.status_ == model.status_


@pytest.mark.parametrize("classes", [2, 3])
def test_the_weights_of_a_linear_kernel_cannot_be_written_to(classes):
    chosen = Y < classes
    model = SVC(kernel="linear").fit(X[chosen], Y[chosen])
    with pytest.raises(ValueError, match="read-only"):
        model.coef_[0, 0] = 1.0
    with pytest.raises(AttributeError):
        model.coef_ = np.ones((1, 4))


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 0, 1], [0, 0, 1, 1, 2, 2]])
@pytest.mark.parametrize("wrap", [list, np.array, lambda words: np.array(words, dtype=object)])
def test_a_kernel_of_words_is_that_of_their_letters(labels, wrap):
    new = ["abb", "xxy"]
    of_words = SVC(kernel=common_letters, tol=1e-9).fit(wrap(WORDS), labels)
    of_letters = SVC(kernel="linear", tol=1e-9).fit(letters_of(WORDS), labels)
    assert np.allclose(of_words.decision_function(wrap(new)), of_letters.decision_function(letters_of(new)), atol=1e-4)
    assert np.array_equal(of_words.predict(wrap(new)), of_letters.predict(letters_of(new)))
    assert np.array_equal(of_words.certified_predict(wrap(new)).labels, of_words.predict(wrap(new)))
    assert of_words.relative_gap_ <= 1e-9


def test_a_proved_label_of_a_word_is_that_of_the_exact_optimum():
    labels = [0, 0, 1, 1, 0, 1]
    rough = SVC(kernel=common_letters, tol=1e-3).fit(WORDS, labels).certified_predict(WORDS)
    exact = SVC(kernel=common_letters, tol=1e-12).fit(WORDS, labels).predict(WORDS)
    assert rough.proved.any()
    assert np.array_equal(rough.labels[rough.proved], exact[rough.proved])


def test_a_kernel_of_words_that_returns_a_wrong_shape_is_named():
    model = SVC(kernel=common_letters).fit(WORDS, [0, 0, 1, 1, 0, 1])
    model._kernel_ = type(model._kernel_)(type(model._kernel_.function)(lambda one, other: np.ones((1, 1)), WORDS))
    with pytest.raises(ValueError, match="returned shape"):
        model.predict(WORDS)


def test_a_callable_kernel_of_numbers_still_gets_matrices():
    model = SVC(kernel=lambda A, B: A @ B.T).fit(X.tolist(), Y)
    assert model.n_features_in_ == 4
    assert np.array_equal(model.predict(X), SVC(kernel="linear").fit(X, Y).predict(X))


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("format_", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("model", [LinearSVC(), SVC()])
def test_every_sparse_format_gives_the_model_of_csr(model, kind, format_):
    given = kind(X).asformat(format_)
    expected = clone(model).fit(sparse.csr_array(X), Y).decision_function(sparse.csr_array(X))
    assert np.array_equal(clone(model).fit(given, Y).decision_function(given), expected)


def test_a_sparse_precomputed_kernel_is_the_dense_one():
    gram = X @ X.T
    dense = SVC(kernel="precomputed").fit(gram, Y)
    assert np.allclose(SVC(kernel="precomputed").fit(sparse.csr_array(gram), Y).intercept_, dense.intercept_)


@pytest.mark.parametrize("model", [LinearSVC(), SVC()])
@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (-np.ones(150), "all samples have zero or negative weights"),
        (np.zeros(150), "non-zero|zero or negative weights"),
        (np.r_[-1.0, np.ones(149)], "Negative values in data passed to `sample_weight`"),
    ],
)
def test_weights_that_cannot_be_used_are_refused_in_the_words_of_scikit_learn(model, weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        clone(model).fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize(
    ("cls", "parameter", "sentence"),
    [
        (SVC, "probability", "SVC has no parameter 'probability'.*CalibratedClassifierCV"),
        (SVC, "loss", "maxmargin.LinearSVC"),
        (LinearSVC, "probability", "CalibratedClassifierCV"),
        (LinearSVC, "kernel", "maxmargin.SVC"),
        (LinearSVC, "gama", r"^LinearSVC has no parameter 'gama'\.$"),
    ],
)
def test_a_parameter_that_is_not_there_names_its_replacement(cls, parameter, sentence):
    with pytest.raises(TypeError, match=sentence):
        cls(**{parameter: True})


@pytest.mark.parametrize("cls", [SVC, LinearSVC])
def test_the_signature_still_names_every_parameter(cls):
    assert set(inspect.signature(cls).parameters) == set(cls().get_params())

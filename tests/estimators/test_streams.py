"""Labels of points that move: equal to predicting anew at every update, and a liar is found out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris

from maxmargin import SVC, LinearSVC
from maxmargin.estimators.streams import LabelStream, MovedTooFar
from tests.catalogue import labelled

fast = settings(max_examples=25, deadline=None)


def model_named(name: str):
    X, y = load_iris(return_X_y=True)
    X = X[:, :3] - X[:, :3].mean(axis=0)
    if name.endswith("two"):
        y = y == 1
    if name.startswith("linear"):
        return LinearSVC(fit_intercept="free" not in name, tol=1e-2).fit(X, y)
    return SVC(kernel="rbf" if name.startswith("rbf") else "linear", gamma=0.7, tol=1e-2).fit(X, y)


NAMES = ("linear-two", "linear-three", "linear-free-two", "rbf-two", "rbf-three", "kernel-linear-two", "kernel-linear-three")
MODELS: dict[str, object] = {}


def fitted(name: str):
    if name not in MODELS:
        MODELS[name] = model_named(name)
    return MODELS[name]


def walk(rng: np.random.Generator, X: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Every point moves in a random direction, some by as much as they may."""
    direction = rng.normal(size=X.shape)
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    return X + direction * (steps * np.minimum(1.0, rng.uniform(0.0, 1.5, len(X))))[:, None]


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10**6), step=st.sampled_from([0.0, 1e-3, 0.05, 0.5]), is_even=st.booleans(), fetches=st.booleans())
@fast
def test_the_labels_are_those_of_predicting_anew(name, seed, step, is_even, fetches):
    rng = np.random.default_rng(seed)
    model = fitted(name)
    X = rng.normal(size=(200, 3)) * 1.5
    steps = np.full(200, step) if is_even else step * rng.random(200)
    stream = LabelStream(model, X, max_step=step if is_even else steps)
    assert np.array_equal(stream.labels, model.predict(X))
    for _ in range(6):
        X = walk(rng, X, steps)
        asked = []

        def fetch(chosen, X=X, asked=asked):
            asked.extend(chosen.tolist())
            return X[chosen]

        update = stream.update(fetch if fetches else X)
        assert np.array_equal(update.labels, model.predict(X))
        assert not fetches or asked == update.looked_at.tolist()
        if step == 0.0:
            assert len(update.looked_at) == 0


@given(seed=st.integers(0, 10**6), step=st.sampled_from([0.0, 1e-3, 0.1]), turn=st.sampled_from([1e-6, 1e-2, 0.5]))
@fast
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_labels_are_right_when_the_model_moves_too(n_classes, seed, step, turn):
    rng = np.random.default_rng(seed)
    model = model_named("linear-two" if n_classes == 2 else "linear-three")
    X = rng.normal(size=(150, 3)) * 1.5
    stream = LabelStream(model, X, max_step=step)
    for k in range(6):
        X = walk(rng, X, np.full(150, step))
        changes = k % 2 == 0
        if changes:
            model = model_named("linear-two" if n_classes == 2 else "linear-three") if k == 4 else model
            model.coef_ = model.coef_ + turn * rng.normal(size=model.coef_.shape)
            model.intercept_ = model.intercept_ + turn * rng.normal(size=model.intercept_.shape)
        update = stream.update(X, model=model if changes else None)
        assert np.array_equal(update.labels, model.predict(X))


def test_slow_points_are_hardly_looked_at():
    X, y = labelled(5000, 4, 0.1, 1)
    model = LinearSVC().fit(X, y)
    rng = np.random.default_rng(0)
    stream = LabelStream(model, X, max_step=1e-3)
    looks = 0
    for _ in range(20):
        X = walk(rng, X, np.full(5000, 1e-3))
        update = stream.update(X)
        assert np.array_equal(update.labels, model.predict(X))
        looks += len(update.looked_at)
    assert 0 < looks < 0.01 * 20 * 5000


def test_a_point_that_is_looked_at_and_has_moved_more_than_announced_is_an_error():
    model = fitted("linear-two")
    X = np.random.default_rng(0).normal(size=(100, 3))
    stream = LabelStream(model, X, max_step=0.2)
    before = stream.labels
    needed = stream.update(X).looked_at
    assert len(needed)
    moved = X.copy()
    moved[needed[0]] += 0.3
    with pytest.raises(MovedTooFar, match=rf"Point {needed[0]} has moved by 0.519\d* since .* by 0.2 at most \(1 of"):
        stream.update(moved)
    assert np.array_equal(stream.labels, before)
    assert np.array_equal(stream.update(X).labels, before)


def test_an_audit_of_all_points_finds_every_one_that_lies_and_a_sample_finds_it_in_time():
    model = fitted("rbf-two")
    X = np.random.default_rng(0).normal(size=(100, 3))
    far = np.argmax(np.abs(model.decision_function(X)))
    moved = X.copy()
    moved[far] += 0.01
    LabelStream(model, X, max_step=1e-6).update(moved)  # it is not looked at
    with pytest.raises(MovedTooFar, match=f"Point {far} "):
        LabelStream(model, X, max_step=1e-6, audit=1.0).update(moved)
    sampled = LabelStream(model, X, max_step=1e-6, audit=0.2)
    with pytest.raises(MovedTooFar, match=f"Point {far} "):
        update_often(sampled, moved)


def update_often(stream: LabelStream, X: np.ndarray) -> None:
    for _ in range(200):
        stream.update(X)


def test_what_was_announced_adds_up_until_a_point_is_looked_at():
    model = fitted("linear-two")
    X = np.random.default_rng(0).normal(size=(100, 3))
    stream = LabelStream(model, X, max_step=0.01, audit=1.0)
    stream.update(X + 0.005)
    with pytest.raises(MovedTooFar):
        stream.update(X + 0.03)
    lazy = LabelStream(model, X, max_step=0.01)
    far = int(np.argmax(np.abs(model.decision_function(X))))
    for _ in range(4):
        lazy.update(X)
    moved = X.copy()
    moved[far, 0] += 0.045
    assert far not in lazy.update(moved).looked_at
    assert far in lazy.update(moved, max_step=100.0).looked_at
    assert lazy.update(moved, max_step=0.0).looked_at.size == 0


def test_bad_input_is_named():
    model, X = fitted("linear-two"), np.zeros((4, 3))
    with pytest.raises(ValueError, match="max_step must be finite and not negative; it holds -1"):
        LabelStream(model, X, max_step=-1.0)
    with pytest.raises(ValueError, match="one for each of 4 points"):
        LabelStream(model, X, max_step=[1.0, 2.0])
    with pytest.raises(ValueError, match="audit is a share"):
        LabelStream(model, X, max_step=1.0, audit=2.0)
    with pytest.raises(ValueError, match="rows of 3 numbers"):
        LabelStream(model, X[:, :2], max_step=1.0)
    with pytest.raises(TypeError, match="dense"):
        LabelStream(model, sparse.csr_array(X), max_step=1.0)
    with pytest.raises(ValueError, match="not fitted"):
        LabelStream(LinearSVC(), X, max_step=1.0)
    with pytest.raises(TypeError, match="LinearSVC or an SVC; got int"):
        LabelStream(type("int", (), {"classes_": 1})(), X, max_step=1.0)
    poly = SVC(kernel="poly").fit(np.eye(3), [0, 1, 1])
    with pytest.raises(TypeError, match="linear and the RBF kernel"):
        LabelStream(poly, X, max_step=1.0)
    stream = LabelStream(model, X, max_step=1.0)
    with pytest.raises(ValueError, match="the update has shape"):
        stream.update(X[:2])
    with pytest.raises(TypeError, match="dense"):
        stream.update(sparse.csr_array(X))
    with pytest.raises(TypeError, match="must be a LinearSVC, before and after"):
        stream.update(X, model=fitted("rbf-two"))
    with pytest.raises(ValueError, match="unlike the old"):
        stream.update(X, model=fitted("linear-three"))
    with pytest.raises(ValueError, match="rows came"):
        LabelStream(model, X, max_step=9.0, audit=1.0).update(lambda chosen: X[:1])
    with pytest.raises(ValueError, match="not finite"):
        LabelStream(model, X, max_step=9.0, audit=1.0).update(X + np.nan)

"""Ctrl-C ends a search over a range, a path and leave-one-out, wherever it comes, and leaves the old model."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest
from sklearn.datasets import make_classification

import maxmargin
from maxmargin import SVC, SVCCV, SVRCV, LinearSVC, LinearSVCCV, LinearSVRCV
from maxmargin.solving import driver


@pytest.fixture
def ctrl_c_in_fit(monkeypatch):
    """Ctrl-C comes inside the fit of this number, in whatever thread that is: ``solve`` alone would end with an answer."""
    main, left = threading.main_thread().ident, [np.inf]
    lock = threading.Lock()

    def interrupted(real):
        def call(*arguments, **more):
            with lock:
                left[0] -= 1
                is_now = left[0] == 0
            if is_now:
                signal.pthread_kill(main, signal.SIGINT)
            return real(*arguments, **more)

        return call

    monkeypatch.setattr(driver, "at_once", lambda *_, **__: None)  # small problems are solved like large ones
    monkeypatch.setattr(driver._Run, "to_the_end", interrupted(driver._Run.to_the_end))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs without one
    yield lambda number: left.__setitem__(0, number)
    signal.signal(signal.SIGINT, handler)


RANGES = {
    "linear": lambda **more: LinearSVCCV(C_range=(1e-2, 1e2), regret=0.02, loss="hinge", **more),
    "kernel": lambda **more: SVCCV(C_range=(1e-2, 1e2), regret=0.02, **more),
    "linear regression": lambda **more: LinearSVRCV(C_range=(1e-2, 1e2), regret=0.02, **more),
    "kernel regression": lambda **more: SVRCV(C_range=(1e-2, 1e2), regret=0.05, **more),
}


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("number", [1, 7])
@pytest.mark.parametrize("make", RANGES.values(), ids=RANGES)
def test_ctrl_c_ends_a_search_over_a_range_and_leaves_the_old_model(make, number, n_jobs, ctrl_c_in_fit):
    X, y = make_classification(120, 4, n_redundant=0, flip_y=0.2, random_state=0)
    search = make(cv=3, n_jobs=n_jobs).fit(X, y)
    before, proof = search.certificate_, search.proof_
    ctrl_c_in_fit(number)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, 1 - y)
    assert (search.certificate_, search.proof_) == (before, proof)
    ctrl_c_in_fit(np.inf)
    assert search.fit(X, y).proof_ == proof


@pytest.mark.parametrize("model", [LinearSVC(loss="hinge"), SVC()], ids=["linear", "kernel"])
def test_ctrl_c_ends_a_path(model, ctrl_c_in_fit):
    X, y = make_classification(120, 4, n_redundant=0, flip_y=0.2, random_state=0)
    ctrl_c_in_fit(3)
    with pytest.raises(KeyboardInterrupt):
        maxmargin.path(model, X, y, C_range=(1e-2, 1.0))


def test_ctrl_c_ends_leave_one_out(ctrl_c_in_fit):
    X, y = make_classification(120, 4, n_redundant=0, flip_y=0.2, random_state=0)
    ctrl_c_in_fit(1)
    with pytest.raises(KeyboardInterrupt):
        maxmargin.leave_one_out(SVC(), X, y)

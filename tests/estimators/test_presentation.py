"""scikit-learn's callbacks hear of a fit, and its HTML diagram links to our pages."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, SVR, LinearOneClassSVM, LinearSVC, LinearSVCCV, LinearSVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.estimators.presentation import HAS_CALLBACKS

needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn before 1.9 has no callbacks")
X, y = load_iris(return_X_y=True)
ESTIMATORS = [LinearSVC, SVC]
OTHERS = [LinearSVR(), SVR(), NuSVR(), OneClassSVM(nu=0.2), LinearOneClassSVM(nu=0.2), NuSVC(nu=0.2)]
SEARCHES = [LinearSVCCV(Cs=[0.1, 1.0], cv=2), SVCCV(Cs=[0.1, 1.0], cv=2)]


class Recorder:
    """A callback of the protocol that writes down the tasks; ``stop_at`` certificates it asks the fit to stop."""

    def __init__(self, stop_at=None):
        self.events, self.stop_at = [], stop_at

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(f"end {context.task_name}")
        if fitted_estimator is not None:
            self.predicted = fitted_estimator.predict(X)
        return context.task_name == "certificate" and self.events.count("end certificate") == self.stop_at


@needs_callbacks
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_callback_hears_of_the_fit_and_of_every_certificate(kind):
    recorder = Recorder()
    model = kind().set_callbacks(recorder).fit(X, y)
    assert recorder.events[:2] == ["setup", "begin fit"]
    assert recorder.events[-2:] == ["end fit", "teardown"]
    assert recorder.events.count("end certificate") == sum(map(len, model.trace_))
    np.testing.assert_array_equal(recorder.predicted, model.predict(X))


@needs_callbacks
@pytest.mark.parametrize("model", [*OTHERS, *SEARCHES], ids=repr)
def test_a_callback_hears_of_every_estimator(model):
    recorder = Recorder()
    model = clone(model).set_callbacks(recorder).fit(X, y)
    assert recorder.events[:2] == ["setup", "begin fit"]
    assert recorder.events[-2:] == ["end fit", "teardown"]
    assert recorder.events.count("end certificate") > 0
    np.testing.assert_array_equal(recorder.predicted, model.predict(X))


@pytest.mark.parametrize("model", [*OTHERS, *SEARCHES], ids=repr)
def test_every_estimator_describes_itself(model):
    page = clone(model).fit(X, y).report(X, y).html
    assert f"{type(model).__name__} trained by maxmargin" in page
    assert "no model of this training problem" in page
    assert "Predictions" in page


@needs_callbacks
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_model_is_the_same_up_to_rounding_with_callbacks_and_without(kind):
    """A callback hears of each pair of classes, so that pairs are solved one by one and not in one compiled call."""
    watched, alone = kind().set_callbacks(Recorder()).fit(X, y), kind().fit(X, y)
    np.testing.assert_allclose(watched.decision_function(X), alone.decision_function(X), rtol=1e-13, atol=1e-13)
    assert pickle.loads(pickle.dumps(watched.set_callbacks())).relative_gap_ == pytest.approx(alone.relative_gap_, abs=1e-13)


@needs_callbacks
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_fit_that_fails_tears_its_callbacks_down(kind):
    recorder = Recorder()
    with pytest.raises(ValueError, match="C must be greater than 0"):
        kind(C=-1.0).set_callbacks(recorder).fit(X, y)
    assert recorder.events == ["setup", "begin fit", "teardown"]


@needs_callbacks
def test_a_callback_can_stop_a_fit():
    from sklearn.exceptions import ConvergenceWarning

    model = LinearSVC(loss="hinge", solver="dcd", tol=1e-14).set_callbacks(Recorder(stop_at=1))
    with pytest.warns(ConvergenceWarning, match="The user or the callback stopped the solver") as caught:
        model.fit(X, y == 1)
    assert caught[0].filename == __file__


@needs_callbacks
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_progress_bars_and_scores_work_through_a_search_and_a_pipeline(kind, capsys):
    from sklearn.callback import ProgressBar, ScoringMonitor

    monitor = ScoringMonitor(scoring="accuracy")
    pipeline = make_pipeline(StandardScaler(), kind().set_callbacks(monitor))
    search = GridSearchCV(pipeline, {f"{kind.__name__.lower()}__C": [0.1, 1.0]}, cv=2)
    search.set_callbacks(ProgressBar()).fit(X, y)
    scores = [row["accuracy"] for row in monitor.get_logs().data]
    assert len(scores) == 2 * 2 + 1
    assert search.best_estimator_.score(X, y) in scores
    assert "GridSearchCV - fit" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_html_diagram_links_to_the_page_of_the_estimator(kind):
    address = f"https://maxmargin.github.io/maxmargin/api/generated/maxmargin.{kind.__name__}.html"
    assert f'href="{address}"' in kind()._repr_html_()


@needs_callbacks
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_html_diagram_of_a_fitted_model_shows_its_certificates(kind):
    """The table of fitted attributes is as new in scikit-learn as its callbacks are."""
    assert "Certificate" in kind().fit(X, y)._repr_html_()

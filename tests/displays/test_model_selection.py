"""Pictures of a search and of a path show the numbers that they were made of."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

import maxmargin
from maxmargin import SVC, SVCCV, LinearSVC, LinearSVCCV, ModelSelectionDisplay, PathDisplay

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _figures():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def samples():
    return make_classification(150, 5, flip_y=0.1, random_state=0)


def test_the_points_are_the_mean_scores_and_the_band_is_that_of_the_bounds(samples):
    search = LinearSVCCV([0.01, 0.1, 1.0], tol=1e-3).fit(*samples)
    display = ModelSelectionDisplay.from_estimator(search)
    assert display.points_.get_ydata() == pytest.approx(search.scores_.mean(axis=0), nan_ok=True)
    assert display.band_ is not None
    assert display.ceiling_ is None


def test_over_a_range_no_point_is_above_the_ceiling(samples):
    search = LinearSVCCV(C_range=(0.01, 1.0), regret=0.05).fit(*samples)
    display = ModelSelectionDisplay.from_estimator(search)
    heights = np.asarray(display.ceiling_.get_data().values)
    scores = np.asarray(display.points_.get_ydata())
    assert np.all(scores[:-1] <= heights + 1e-9)
    assert np.all(scores[1:] <= heights + 1e-9)


def test_of_several_gammas_the_best_one_is_drawn_and_scores_without_bounds_have_no_band(samples):
    search = SVCCV([0.1, 1.0], gammas=[0.1, 0.5], scoring="roc_auc").fit(*samples)
    display = ModelSelectionDisplay.from_estimator(search)
    g = search.gammas_.tolist().index(search.gamma_)
    assert display.points_.get_ydata() == pytest.approx(search.scores_[:, g].mean(axis=0))
    assert display.band_ is None
    with pytest.raises(ValueError, match="not a fitted search"):
        ModelSelectionDisplay.from_estimator(LinearSVC())


def test_a_path_is_drawn_with_its_greatest_coefficients(samples):
    path = maxmargin.path(LinearSVC(), *samples, Cs=[0.01, 0.1, 1.0])
    display = PathDisplay.from_path(path, n_lines=3)
    assert len(display.lines_) == 3
    kernel = PathDisplay.from_path(maxmargin.path(SVC(), *samples, Cs=[0.1, 1.0]))
    assert len(kernel.lines_) == 20

"""Displays draw what the model says, in scikit-learn's convention."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, make_blobs, make_moons
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, CertifiedRegionDisplay, ConvergenceDisplay, Hinge, LinearProblem, LinearSVC, MarginDisplay, solve
from maxmargin.displays.convergence import GapLine
from maxmargin.displays.style import COLOURS

mpl.use("Agg")


@pytest.fixture
def ax():
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture
def moons():
    return make_moons(80, noise=0.2, random_state=0)


@pytest.fixture
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def test_the_line_of_a_fit_is_its_trace(cancer, ax):
    model = (
        LinearSVC(tol=1e-6, solver="dcd", max_seconds=5).set_params(tol=1e-3).fit(cancer[0] / cancer[0].std(axis=0), cancer[1])
    )
    display = ConvergenceDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax
    x, gaps = display.lines_[0].get_data()
    assert list(gaps) == [row.relative_gap for row in model.trace_ if row.seconds > 0]
    assert list(x) == [row.seconds for row in model.trace_ if row.seconds > 0]
    assert display.target_line_.get_ydata()[0] == 1e-3


def test_every_binary_problem_is_a_line_and_one_solver_has_one_colour_and_one_label(ax):
    X, y = make_blobs(60, centers=3, random_state=0)
    display = ConvergenceDisplay.from_estimator(LinearSVC(solver="dcd").fit(X, y), ax=ax, against="epochs")
    assert len(display.lines_) == 3
    assert {line.get_color() for line in display.lines_} == {COLOURS[0]}
    assert ax.get_legend_handles_labels()[1] == ["dcd", "asked: 0.0001"]


def test_solutions_of_several_solvers_have_colours_of_their_own(cancer, ax):
    X, y = cancer[0], np.where(cancer[1], 1, -1)
    problem = LinearProblem.build(X, y, 1.0, Hinge(), intercept_scaling=1.0)
    solutions = {name: solve(problem, name, tol=1e-2) for name in ("dcd", "avsf")}
    display = ConvergenceDisplay.from_solutions(solutions, target=1e-2, ax=ax)
    assert [line.get_color() for line in display.lines_] == list(COLOURS[:2])
    assert ax.get_yscale() == "log"


def test_times_within_a_decade_are_drawn_on_a_linear_axis(ax):
    lines = [GapLine("dcd", [1.0, 2.0], [0.1, 0.01])]
    assert ConvergenceDisplay(lines=lines).plot(ax=ax).ax_.get_xscale() == "linear"
    lines.append(GapLine("dcd", [20.0], [0.001]))
    assert ConvergenceDisplay(lines=lines).plot(ax=ax).ax_.get_xscale() == "log"


def test_an_unknown_unit_is_refused(cancer):
    model = LinearSVC().fit(*cancer)
    with pytest.raises(ValueError, match="against must be one of 'seconds', 'epochs'; got 'steps'"):
        ConvergenceDisplay.from_estimator(model, against="steps")


def test_a_model_without_a_trace_says_so():
    with pytest.raises(ValueError, match="SVC has no trace"):
        ConvergenceDisplay.from_estimator(SVC())


def test_the_band_is_where_certified_predict_proves_nothing(moons, ax):
    X, y = moons
    model = SVC(tol=1e-2, solver="smo").fit(X, y)
    display = CertifiedRegionDisplay.from_estimator(model, X, y=y, grid_resolution=40, ax=ax)
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    labels, proved = model.certified_predict(grid)
    np.testing.assert_array_equal(display.proved.ravel(), proved)
    np.testing.assert_array_equal(model.classes_[display.codes.ravel()], labels)
    assert 0.0 < proved.mean() < 1.0
    assert len(display.points_) == 2


def test_a_smaller_gap_gives_a_thinner_band():
    X, y = make_moons(200, noise=0.3, random_state=0)
    shares = []
    for tol in (1e-3, 1e-6):
        model = SVC(C=100.0, tol=tol, solver="smo").fit(X, y)
        shares.append(1.0 - CertifiedRegionDisplay.from_estimator(model, X, grid_resolution=40).proved.mean())
    assert shares[1] < 0.5 * shares[0]


def test_the_names_of_a_table_are_the_names_of_the_axes(ax):
    X, y = make_blobs(60, centers=3, random_state=0)
    table = pd.DataFrame(X, columns=["height", "width"])
    CertifiedRegionDisplay.from_estimator(LinearSVC().fit(table, y), table, y=y, grid_resolution=20, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("height", "width")


def test_three_features_make_no_plane():
    X, y = make_blobs(60, n_features=3, centers=2, random_state=0)
    with pytest.raises(ValueError, match="A plane has two features"):
        CertifiedRegionDisplay.from_estimator(LinearSVC().fit(X, y), X)


def test_rings_are_around_the_support_vectors(moons, ax):
    X, y = moons
    model = SVC().fit(X, y)
    display = MarginDisplay.from_estimator(model, X, y, grid_resolution=30, ax=ax)
    np.testing.assert_array_equal(display.rings_.get_offsets(), X[model.support_])
    assert display.contours_.levels.tolist() == [-1.0, 0.0, 1.0]


def test_the_support_vectors_of_a_linear_model_are_those_of_the_kernel_model(ax):
    X, y = make_blobs(80, centers=2, cluster_std=2.0, random_state=4)
    linear = LinearSVC(loss="hinge", penalize_intercept=False, tol=1e-12).fit(X, y)
    kernel = SVC(kernel="linear", tol=1e-12).fit(X, y)
    display = MarginDisplay.from_estimator(linear, X, y, grid_resolution=20, ax=ax)
    np.testing.assert_array_equal(display.support, X[np.sort(kernel.support_)])


def test_a_margin_lies_between_two_classes():
    X, y = make_blobs(60, centers=3, random_state=0)
    with pytest.raises(ValueError, match="the model has 3"):
        MarginDisplay.from_estimator(LinearSVC().fit(X, y), X, y)

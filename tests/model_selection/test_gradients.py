"""Between two fits with squared hinge loss: the optimum is in the enclosure at every position."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.model_selection.gradients import Gradients, Slope, has_gradients
from maxmargin.model_selection.positions import inverse_position, open_below, open_interval
from maxmargin.model_selection.transfer import Parabola, linear_fit, scaled_costs, with_costs
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.solving.driver import solve

N_PARTS = 4


def problem_of(seed: int, scaling: float) -> LinearProblem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 6)) * (rng.random((60, 6)) < 0.6)
    y = np.where(X @ rng.normal(size=6) + 0.7 * rng.normal(size=60) > 0.0, 1, -1)
    return LinearProblem.build(sparse.csr_matrix(X) if seed % 2 else X, y, rng.uniform(0.3, 3.0, 60), SquaredHinge(), scaling)


def optimum(problem: LinearProblem, C: float, tol: float = 1e-12):
    at_C = with_costs(problem, scaled_costs(problem.C, C))
    solution = solve(at_C, tol=tol)
    return linear_fit(at_C, solution.w, solution.alpha, C), solution


def C_at(low, high, theta, is_inverse):
    return 1.0 / ((1.0 - theta) / low + theta / high) if is_inverse else (1.0 - theta) * low + theta * high


def mixture(one, two, theta):
    return (1.0 - theta) * one.w.values + theta * two.w.values


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("scaling", [0.0, 1.0])
@pytest.mark.parametrize("tol", [1e-12, 1e-3])
@pytest.mark.parametrize("is_inverse", [False, True])
def test_the_optimum_is_in_the_ball_and_in_the_ellipsoid_at_every_position(seed, scaling, tol, is_inverse):
    problem = problem_of(seed, scaling)
    C = 10.0 ** np.random.default_rng(seed).uniform(-2.0, 2.0)
    ratio = (1.05, 1.5, 4.0)[seed % 3]
    (one, _), (two, _) = optimum(problem, C, tol), optimum(problem, C * ratio, tol)
    gradients = Gradients((one, two), (Slope.of(one), Slope.of(two)), N_PARTS, is_inverse)
    norm = gradients.sharper_norm
    enclosures = [(gradients.ball, np.eye(problem.n_weights))]
    if norm is not None:
        enclosures.append((gradients.sharper(norm), norm.factor.T))
    for theta in np.linspace(0.0, 1.0, 13):
        k = min(int(theta * N_PARTS), N_PARTS - 1)
        t = theta * N_PARTS - k
        exact, solution = optimum(problem, C_at(one.C, two.C, theta, is_inverse))
        for enclosure, root in enclosures:
            centre = mixture(one, two, theta) - (1.0 - t) * enclosure.shifts[k] - t * enclosure.shifts[k + 1]
            away = np.linalg.norm(root @ (exact.w.values - centre))
            assert away <= enclosure.radii[k] + solution.certificate.distance_bound * np.linalg.norm(root, 2)


@pytest.mark.parametrize("is_inverse", [False, True])
def test_the_radius_falls_like_the_square_of_the_length(is_inverse):
    problem = problem_of(1, 1.0)
    radii = []
    for ratio in (1.2, 1.02):
        one, two = optimum(problem, 0.01)[0], optimum(problem, 0.01 * ratio)[0]
        radii.append(Gradients((one, two), (Slope.of(one), Slope.of(two)), N_PARTS, is_inverse).ball.radii.max())
    assert radii[1] < radii[0] / 50.0


def test_where_w_hardly_changes_positions_in_the_inverse_of_C_have_the_smaller_radius():
    """A separable problem at large C: w is nearly that of the hard margin."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 60))
    problem = LinearProblem.build(X, np.where(X[:, 0] > 0.0, 1, -1), 1.0, SquaredHinge(), 1.0)
    one, two = optimum(problem, 1e3)[0], optimum(problem, 1.5e3)[0]
    radii = [Gradients((one, two), (Slope.of(one), Slope.of(two)), N_PARTS, way).ball.radii.max() for way in (False, True)]
    assert radii[1] < 0.1 * radii[0]


def test_the_position_in_the_inverse_of_C_is_that_of_the_same_C():
    theta = np.array([-1.0, 0.0, 0.25, 0.5, 1.0, 2.0])
    tau = inverse_position(theta, 3.0)
    assert np.array_equal(tau[[0, 1, 4, 5]], theta[[0, 1, 4, 5]])
    for k in (2, 3):
        assert C_at(2.0, 6.0, theta[k], False) == pytest.approx(C_at(2.0, 6.0, tau[k], True))


def test_only_squared_hinge_has_gradients():
    X, y = np.eye(2), np.array([1, -1])
    assert has_gradients(LinearProblem.build(X, y, 1.0, SquaredHinge(), 1.0))
    assert not has_gradients(LinearProblem.build(X, y, 1.0, Hinge(), 1.0))
    assert not has_gradients(LinearProblem.build(X, y, 1.0, SquaredHinge(), 1.0, penalizes_intercept=False))


def test_open_below_agrees_with_the_ball_of_constant_radius():
    rng = np.random.default_rng(0)
    p0, p1, lengths = rng.normal(size=500), rng.normal(size=500), np.abs(rng.normal(size=500))
    line, curve = open_below(p0, p1, 0.5 * lengths), open_interval(p0, p1, lengths, Parabola(0.25, 0.25, 0.0))
    theta = np.linspace(0.0, 1.0, 101)[:, None]
    for found in (line, curve):
        is_open = (found.low <= theta) & (theta <= found.high)
        assert np.all(is_open | ((1.0 - theta) * p0 + theta * p1 > 0.5 * lengths))
    assert np.allclose(np.maximum(line.low, -0.5) * (line.low <= line.high), curve.low * (curve.low <= curve.high), atol=1e-5)

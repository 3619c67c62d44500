"""The ellipsoid around an answer holds the exact optimum, whatever the answer, and is far smaller than the ball."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin import LinearSVC, solve
from maxmargin.certificate.ellipsoid import Ellipsoid, enclose
from maxmargin.certificate.linear import certify
from maxmargin.certificate.policy import EllipsoidPolicy
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.dcd import DCD
from tests.catalogue import LOSSES, PROBLEMS, feasible_point, labelled

fast = settings(max_examples=40, deadline=None)
losses = pytest.mark.parametrize("loss", LOSSES)


def with_constant(problem: LinearProblem, X: np.ndarray) -> np.ndarray:
    scaling = problem.intercept_scaling
    return np.column_stack([X, np.full(len(X), scaling)]) if scaling else X


def assert_holds(problem: LinearProblem, w: np.ndarray, alpha: np.ndarray, X: np.ndarray) -> Ellipsoid | None:
    """No decision value of the exact optimum is out of reach; the optimum itself is known to a reach of its own."""
    found = enclose(problem, w, alpha, certify(problem, w, alpha))
    exact = solve(problem, "newton", tol=0.0)
    own = enclose(problem, exact.w, exact.alpha, exact.certificate)
    rows = with_constant(problem, X)
    lengths = np.linalg.norm(with_constant(problem, X) if problem.penalizes_intercept else X, axis=1)
    unsure = exact.certificate.distance_bound * lengths + exact.offset_bound
    if own is not None:
        unsure = np.minimum(unsure, own.reach(X))
    if found is not None:
        differences = np.abs(rows @ (exact.w - w))
        assert np.all(differences <= found.reach(X) + unsure + 1e-13 * (np.abs(rows) @ (np.abs(w) + np.abs(exact.w))))
    return found


@losses
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("tol", [0.3, 1e-3, 1e-7])
def test_the_optimum_lies_in_the_ellipsoid_of_an_approximate_solution(name, loss, tol):
    problem = PROBLEMS[name](LOSSES[loss])
    rough = solve(problem, DCD(), tol=tol)
    d = problem.rows.n_features
    X = np.vstack([np.random.default_rng(1).normal(size=(100, d)), np.eye(d)])
    assert assert_holds(problem, rough.w, rough.alpha, X) is not None


@losses
@pytest.mark.parametrize("name", PROBLEMS)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=3, deadline=None)
def test_the_optimum_lies_in_the_ellipsoid_of_any_pair(name, loss, seed):
    problem = PROBLEMS[name](LOSSES[loss])
    w, alpha = feasible_point(problem, seed)
    assert_holds(problem, w, alpha, np.random.default_rng(seed).normal(size=(50, problem.rows.n_features)))


@losses
@given(seed=st.integers(0, 10**6), near=st.sampled_from([1e-6, 1e-3, 0.1, 1.0]), shift=st.sampled_from([0.0, 4.0]))
@fast
def test_it_holds_with_a_free_intercept_and_off_the_optimum_in_any_direction(loss, seed, near, shift):
    X, y = labelled(50, 3, 0.7, seed)
    C = np.random.default_rng(seed).exponential(size=50)
    problem = LinearProblem.build(X + shift, y, C, LOSSES[loss], 2.0, penalizes_intercept=False)
    exact = solve(problem, "newton", tol=0.0)
    rng = np.random.default_rng(seed + 1)
    w = exact.w + near * rng.normal(size=4)
    alpha = problem.balanced(exact.alpha * (1.0 - near * rng.random(50)))
    assert_holds(problem, w, alpha, rng.normal(size=(50, 3)) + shift)


@given(seed=st.integers(0, 10**6), loss=st.sampled_from(["hinge", "squared_hinge"]), near=st.sampled_from([1e-4, 1e-2]))
@fast
def test_it_is_nowhere_wider_than_twice_the_ball(seed, loss, near):
    """A >= I, and |g| / 2 <= sqrt(gap); a hundredth goes to rounding."""
    problem = PROBLEMS["overlapping"](LOSSES[loss])
    rng = np.random.default_rng(seed)
    w, alpha = feasible_point(problem, seed)
    exact = solve(problem, "newton", tol=0.0)
    w, alpha = near * w + (1 - near) * exact.w, near * alpha + (1 - near) * exact.alpha
    certificate = certify(problem, w, alpha)
    X = rng.normal(size=(20, 6))
    found = enclose(problem, w, alpha, certificate)
    widest = 2.0 * np.sqrt(certificate.gap + certificate.rounding_error) * np.linalg.norm(X, axis=1)
    assert np.all(found.reach(X) <= 1.05 * widest)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", [{"fit_intercept": False}, {"intercept_scaling": 3.0}, {"penalize_intercept": False}])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_with_sharp_proofs_far_more_is_proved_and_it_is_right(loss, intercept, n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = np.floor(n_classes / 6.0 * (X @ [1.0, 0.5, 0.0, 0.0, 0.2] + 3.0 + 0.5 * rng.normal(size=3000))).clip(0, n_classes - 1)
    if n_classes == 2:
        y = y > 0
    points = rng.normal(size=(2000, 5))
    solver = "newton" if "penalize_intercept" in intercept else DCD()
    settings_ = {"loss": loss, "solver": solver, **intercept}
    best = LinearSVC(tol=1e-11, **{**settings_, "solver": "newton"}).fit(X, y)
    plain = LinearSVC(tol=3e-5, **settings_).fit(X, y)
    sharp = LinearSVC(tol=3e-5, sharp_proofs=True, **settings_).fit(X, y)
    by_ball, by_ellipsoid = plain.certified_predict(points), sharp.certified_predict(points)
    assert np.array_equal(by_ball.labels, by_ellipsoid.labels)
    assert np.all(by_ellipsoid.proved[by_ball.proved])
    assert (~by_ellipsoid.proved).sum() <= 0.5 * (~by_ball.proved).sum()
    assert np.array_equal(by_ellipsoid.labels[by_ellipsoid.proved], best.predict(points)[by_ellipsoid.proved])
    assert np.array_equal(by_ellipsoid.proved, sharp.certified_predict(sparse.csr_matrix(points)).proved)


def test_blocks_do_not_change_it(monkeypatch):
    problem = PROBLEMS["sparse"](LOSSES["hinge"])
    rough = solve(problem, DCD(), tol=1e-3)
    once = enclose(problem, rough.w, rough.alpha, rough.certificate)
    monkeypatch.setattr("maxmargin.certificate.policy.ELLIPSOID", EllipsoidPolicy(elements_a_block=100))
    again = enclose(problem, rough.w, rough.alpha, rough.certificate)
    assert np.allclose(np.tril(once.factor), np.tril(again.factor), rtol=1e-9)
    assert once.radius == pytest.approx(again.radius, rel=1e-9)


def test_what_is_not_certified_or_too_wide_has_no_ellipsoid(monkeypatch):
    problem = PROBLEMS["overlapping"](LOSSES["hinge"])
    outside = np.full(problem.n_samples, 7.0)
    assert enclose(problem, np.zeros(6), outside, certify(problem, np.zeros(6), outside)) is None
    inside = np.full(problem.n_samples, 0.5)
    assert enclose(problem, np.zeros(6), inside, certify(problem, np.zeros(6), inside)) is not None
    monkeypatch.setattr("maxmargin.certificate.policy.ELLIPSOID", EllipsoidPolicy(most_weights=5))
    assert enclose(problem, np.zeros(6), inside, certify(problem, np.zeros(6), inside)) is None
    X, y = labelled(50, 6, 0.5, 0)
    model = LinearSVC(sharp_proofs=True).fit(X, y)
    assert model.ellipsoid_ is None
    assert model.certified_predict(X).proved.any()


def test_an_answer_without_any_free_sample_is_held_by_the_ball_alone():
    problem = LinearProblem.build(np.array([[1.0], [-1.0]]), [1, -1], 0.1)
    w, alpha = np.array([0.2]), np.array([0.1, 0.1])
    found = enclose(problem, w, alpha, certify(problem, w, alpha))
    assert found.reach(np.array([[1.0]]))[0] < 1e-6


def test_sharp_proofs_is_a_flag():
    with pytest.raises(ValueError, match="sharp_proofs must be True or False; got 'yes'"):
        LinearSVC(sharp_proofs="yes").fit([[0.0], [1.0]], [0, 1])


def raw_table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since 1970, a salary, an age and a rate."""
    rng = np.random.default_rng(seed)
    salary, age, rate = rng.lognormal(10.8, 0.5, n), rng.integers(18, 70, n), rng.uniform(0.001, 0.05, n)
    score = np.log(salary) - 10.8 + (age - 44) / 30 - 20.0 * (rate - 0.025) + 0.4 * rng.normal(size=n)
    return np.column_stack([1.6e9 + rng.uniform(0.0, 3e7, n), salary, age, rate]), np.where(score > 0.0, 1, -1)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("seed", range(5))
def test_on_raw_columns_the_optimum_lies_in_the_ellipsoid_and_its_reach_is_far_below_that_of_the_ball(loss, seed):
    X, y = raw_table(150, seed)
    problem = LinearProblem.build(X, y, 1.0, LOSSES[loss], 1.0)
    rough = solve(problem, tol=1e-6)
    found = assert_holds(problem, rough.w, rough.alpha, X)
    assert found is not None
    by_ball = rough.certificate.distance_bound * np.linalg.norm(X, axis=1)
    assert np.median(found.reach(X) / by_ball) < 1e-3

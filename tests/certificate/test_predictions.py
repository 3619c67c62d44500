"""Predictions proved to be those of the exact optimum: against exact solutions, all outcomes of votes, rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError

from maxmargin import SVC, LinearSVC, solve
from maxmargin.certificate.intercept import kernel_offset_bound, linear_offset_bound
from maxmargin.certificate.kernel import certify_kernel
from maxmargin.certificate.linear import certify
from maxmargin.certificate.predictions import (
    Bounds,
    Decisions,
    linear_decisions,
    linear_values,
    norms,
    proved_greatest,
    proved_votes,
    votes,
)
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.dcd import DCD
from tests.catalogue import LOSSES, PROBLEMS, labelled
from tests.screening.test_rules import brute_force, feasible_point, gram, problems, small_problem

fast = settings(max_examples=40, deadline=None)
losses = pytest.mark.parametrize("loss", LOSSES)


def new_points(n_features: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed + 100).normal(size=(300, n_features)) * 2.0


# The ball, without an intercept and with one that is penalised


@losses
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("tol", [0.3, 1e-3, 1e-7])
def test_the_exact_decision_value_is_within_reach_of_the_computed_one(name, loss, tol):
    problem = PROBLEMS[name](LOSSES[loss])
    rough, exact = solve(problem, DCD(), tol=tol), solve(problem, "newton", tol=0.0)
    X, d = new_points(problem.rows.n_features, 1), problem.rows.n_features
    reaches = []
    for solution in (rough, exact):
        bounds = Bounds(np.array([solution.certificate.distance_bound]), np.zeros(1))
        reaches.append(linear_decisions(X, solution.w[None, :d], np.array([solution.b]), bounds, problem.intercept_scaling))
    difference = np.abs(reaches[0].values - reaches[1].values)
    assert np.all(difference <= reaches[0].reach + reaches[1].reach)
    both = (reaches[0].is_proved & reaches[1].is_proved)[:, 0]
    assert np.array_equal(reaches[0].values[both] > 0, reaches[1].values[both] > 0)


def test_the_bound_is_attained_so_that_nothing_smaller_would_do():
    """w = 0 of the problem with the samples +e and -e, C large: w* = e, and the gap 1/2 |w|^2 = 1/2 leaves |w - w*| = 1."""
    problem = LinearProblem.build(np.array([[1.0], [-1.0]]), [1, -1], 10.0)
    certificate = certify(problem, np.zeros(1), np.array([0.5, 0.5]))
    assert certificate.distance_bound >= 1.0
    tight = certify(problem, np.array([1.0 - 1e-3]), np.array([0.5, 0.5]))
    assert tight.distance_bound >= 1e-3


# A free intercept


@problems
@fast
def test_no_optimal_offset_of_a_kernel_problem_is_farther_than_the_bound(seed, n, kernel, C, near):
    problem = small_problem(seed, n, kernel, C, True)
    optimum = brute_force(problem)
    verdict = certify_kernel(problem, feasible_point(problem, optimum, near, seed))
    bound = kernel_offset_bound(problem, verdict)
    outputs = gram(problem) @ (optimum * problem.y)
    kinks = problem.y - outputs
    sums = [float(problem.C @ np.maximum(0.0, 1.0 - problem.y * (outputs + b))) for b in kinks]
    for b, total in zip(kinks, sums, strict=True):
        if total <= min(sums) + 1e-12 * C:  # the ends of the interval of optimal offsets are kinks
            assert abs(b - verdict.b) <= bound + 1e-6 * (1.0 + abs(b))


@losses
@given(seed=st.integers(0, 10**6), near=st.sampled_from([1e-4, 1e-2, 0.3, 1.0]), shift=st.sampled_from([0.0, 3.0]))
@fast
def test_no_optimal_intercept_of_a_linear_problem_is_farther_than_the_bound(loss, seed, near, shift):
    X, y = labelled(40, 3, 0.7, seed)
    rng = np.random.default_rng(seed + 1)
    C = rng.exponential(size=40)
    problem = LinearProblem.build(X + shift, y, C, LOSSES[loss], 2.0, penalizes_intercept=False)
    exact = solve(problem, "newton", tol=0.0)
    w = exact.w + near * rng.normal(size=4)
    alpha = problem.balanced(exact.alpha * (1.0 - near * rng.random(40)))
    bound = linear_offset_bound(problem, w, certify(problem, w, alpha))
    assert abs(2.0 * w[-1] - exact.b) <= bound + exact.offset_bound
    assert exact.offset_bound < 1e-3


def test_the_offset_bound_shrinks_with_the_gap_and_is_zero_where_the_intercept_is_penalised():
    X, y = labelled(200, 3, 0.7, 5)
    bounds = []
    for tol in (1e-2, 1e-5, 1e-9):
        model = LinearSVC(loss="hinge", penalize_intercept=False, tol=tol, solver="newton").fit(X, y)
        bounds.append(model.offset_bound_)
    assert np.isfinite(bounds).all()
    assert bounds[2] < 1e-2 * bounds[0]
    assert LinearSVC().fit(X, y).offset_bound_ == 0.0
    assert SVC(fit_intercept=False).fit(X, y).offset_bound_ == 0.0


# Several classes


def made(values: np.ndarray, reach: np.ndarray) -> Decisions:
    return Decisions(values, reach, np.zeros_like(reach))


def outcomes(decisions: Decisions, row: int) -> set[int]:
    """Every class that can win, by trying each end of each interval."""
    ends = [(v - r, v + r) for v, r in zip(decisions.values[row], decisions.reach[row], strict=True)]
    return {int(np.argmax(corner)) for corner in product(*ends)}


@given(seed=st.integers(0, 10**6), n_classes=st.integers(3, 5))
@fast
def test_one_against_the_rest_is_proved_exactly_where_no_corner_of_the_intervals_changes_the_winner(seed, n_classes):
    rng = np.random.default_rng(seed)
    decisions = made(rng.normal(size=(30, n_classes)), rng.exponential(0.3, size=(30, n_classes)))
    expected = [len(outcomes(decisions, row)) == 1 for row in range(30)]
    assert proved_greatest(decisions).tolist() == expected


def votes_that_can_win(decisions: Decisions, row: int, n_classes: int) -> set[int]:
    """Every class that wins under some outcome of the votes that are not proved."""
    values, proved = decisions.values[row], decisions.is_proved[row]
    choices = [(value > 0,) if certain else (False, True) for value, certain in zip(values, proved, strict=True)]
    return {int(votes(np.array([outcome]), n_classes).argmax()) for outcome in product(*choices)}


@given(seed=st.integers(0, 10**6), n_classes=st.integers(3, 5), unsure=st.floats(0.0, 1.0))
@fast
def test_one_against_one_is_proved_exactly_where_no_outcome_of_the_open_votes_changes_the_winner(seed, n_classes, unsure):
    rng = np.random.default_rng(seed)
    shape = (15, n_classes * (n_classes - 1) // 2)
    decisions = made(rng.normal(size=shape), np.where(rng.random(shape) < unsure, 9.0, 0.0))
    expected = [len(votes_that_can_win(decisions, row, n_classes)) == 1 for row in range(15)]
    assert proved_votes(decisions, n_classes).tolist() == expected


@given(seed=st.integers(0, 10**6))
@fast
def test_where_a_tie_is_not_settled_by_the_order_only_a_strict_lead_is_proved(seed):
    rng = np.random.default_rng(seed)
    decisions = made(rng.normal(size=(20, 6)), np.zeros((20, 6)))
    counts = np.sort(votes(decisions.values > 0, 4), axis=1)
    strict = proved_votes(decisions, 4, ties_go_to_the_first=False)
    assert np.array_equal(strict, counts[:, -1] > counts[:, -2])


# Rounding


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-200, 1e-3, 1.0, 1e8, 1e150]), is_sparse=st.booleans())
@fast
def test_the_rounding_error_of_a_decision_value_and_of_a_norm_is_bounded(seed, scale, is_sparse):
    rng = np.random.default_rng(seed)
    X, coef, b = scale * rng.normal(size=(5, 7)), rng.normal(size=(2, 7)), rng.normal(size=2)
    X[:, 3:5] = 0.0
    coef[0] -= X[0] * ((X[0] / scale) @ coef[0]) / (X[0] @ (X[0] / scale))  # cancels in the first row
    given_X = sparse.csr_array(X) if is_sparse else X
    with np.errstate(all="ignore"):
        values, errors = linear_values(given_X, coef, b)
        lengths = norms(given_X)
    for i in range(5):
        row = [Fraction(float(x)) for x in X[i]]
        square = sum(x * x for x in row)
        assert np.isinf(lengths[i]) or Fraction(float(lengths[i])) ** 2 >= square
        for k in range(2):
            exact = sum((x * Fraction(float(w)) for x, w in zip(row, coef[k], strict=True)), Fraction(float(b[k])))
            assert abs(exact - Fraction(float(values[i, k]))) <= Fraction(float(errors[i, k]))


def test_norms_of_a_sparse_row_with_an_element_stored_in_two_parts_are_those_of_the_sum():
    X = sparse.csr_array((np.array([3.0, 1.0, 3.0]), np.array([0, 1, 1]), np.array([0, 3])), shape=(1, 2))
    assert 5.0 <= norms(X)[0] < 5.0 + 1e-12


def test_what_overflows_proves_nothing():
    X = np.array([[1e200, 1e200], [1.0, 1.0]])
    decisions = linear_decisions(X, np.array([[1e150, 1.0]]), np.zeros(1), Bounds(np.array([1e-9]), np.zeros(1)), 1.0)
    assert decisions.is_proved[:, 0].tolist() == [False, True]
    infinite = linear_decisions(np.zeros((1, 2)), np.ones((1, 2)), np.ones(1), Bounds(np.array([np.inf]), np.zeros(1)), 0.0)
    assert not infinite.is_proved.any()


# The estimators


LINEAR = {
    "no-intercept": {"fit_intercept": False},
    "penalised": {"intercept_scaling": 2.0},
    "free": {"penalize_intercept": False},
}


@pytest.mark.parametrize("intercept", LINEAR)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_proved_label_of_linear_svc_is_that_of_a_much_better_solution(intercept, loss, n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes] if n_classes == 3 else X[y > 0][:, :2], y[y < n_classes] if n_classes == 3 else y[y > 0]
    X = X - X.mean(axis=0) + 0.3
    points = new_points(X.shape[1], 3)
    solver = "newton" if intercept == "free" else DCD()
    best = LinearSVC(loss=loss, tol=1e-11, solver="newton", **LINEAR[intercept]).fit(X, y)
    shares = []
    for tol in (0.3, 1e-3, 1e-6, 1e-9):
        model = LinearSVC(loss=loss, tol=tol, solver=solver, **LINEAR[intercept]).fit(X, y)
        labels, proved = model.certified_predict(points)
        assert np.array_equal(labels, model.predict(points))
        assert np.array_equal(labels[proved], best.predict(points)[proved])
        assert proved.dtype == bool
        shares.append(proved.mean())
    assert shares[-1] > 0.95
    assert shares[0] < shares[-1]
    assert np.array_equal(proved, model.certified_predict(sparse.csr_matrix(points)).proved)


KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.5},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 2},
    "function": {"kernel": lambda A, B: (1.0 + A @ B.T) ** 2},
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_proved_label_of_svc_is_that_of_a_much_better_solution(kernel, fit_intercept, n_classes):
    X, y = make_moons(120, noise=0.25, random_state=0)
    if n_classes == 3:
        y = np.where(X[:, 0] > 1.2, 2, y)
    points = new_points(2, 4) * 0.5
    settings_ = {"fit_intercept": fit_intercept, **KERNELS[kernel]}
    best = SVC(tol=1e-11, **settings_).fit(X, y)
    shares = []
    for tol in (0.3, 1e-3, 1e-6, 1e-10):
        model = SVC(tol=tol, **settings_).fit(X, y)
        labels, proved = model.certified_predict(points)
        assert np.array_equal(labels, model.predict(points))
        assert np.array_equal(labels[proved], best.predict(points)[proved])
        shares.append(proved.mean())
    assert shares[-1] > 0.95
    assert shares[0] <= shares[-1]


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_svc_proves_the_same_of_sparse_and_dense_points_whatever_it_was_trained_on(kernel):
    X, y = labelled(80, 4, 0.7, 2)
    points = new_points(4, 7)
    models = [SVC(tol=1e-8, **KERNELS[kernel]).fit(data, y) for data in (X, sparse.csr_matrix(X))]
    first, *others = (model.certified_predict(data) for model in models for data in (points, sparse.csr_array(points)))
    for other in others:
        assert np.array_equal(first.labels, other.labels)
        assert np.mean(first.proved != other.proved) < 0.02
    assert first.proved.mean() > 0.95


def test_break_ties_asks_for_a_strict_lead_and_gives_the_labels_of_predict():
    X, y = load_iris(return_X_y=True)
    model = SVC(tol=1e-9, break_ties=True).fit(X[:, :2], y)
    labels, proved = model.certified_predict(new_points(2, 5) + X[:, :2].mean(axis=0))
    assert np.array_equal(labels, model.predict(new_points(2, 5) + X[:, :2].mean(axis=0)))
    assert proved.any()
    model.set_params(decision_function_shape="ovo")
    with pytest.raises(ValueError, match="break_ties must be False"):
        model.certified_predict(X[:, :2])


def test_a_precomputed_kernel_needs_its_diagonal():
    X, y = make_moons(60, noise=0.25, random_state=0)
    points = new_points(2, 6)
    rbf = SVC(gamma=0.5, tol=1e-8).fit(X, y)
    model = SVC(kernel="precomputed", tol=1e-8).fit(rbf._kernel_.block(*2 * [points_of(X)]), y)
    values = rbf._kernel_.block(points_of(points), points_of(X))
    labels, proved = model.certified_predict(values, np.ones(300))
    assert np.array_equal(labels, rbf.predict(points))
    assert proved.mean() > 0.95
    with pytest.raises(ValueError, match="diagonal, k"):
        model.certified_predict(values)
    with pytest.raises(ValueError, match="its shape is"):
        model.certified_predict(values, np.ones(3))
    with pytest.raises(ValueError, match="it holds -1"):
        model.certified_predict(values, -np.ones(300))
    with pytest.raises(ValueError, match="with no other kernel"):
        rbf.certified_predict(points, np.ones(300))


def points_of(X):
    from maxmargin.problem.kernels import Points

    return Points.of(X)


def test_nothing_is_proved_with_a_kernel_that_is_not_positive_semidefinite():
    X, y = make_moons(60, noise=0.1, random_state=0)
    for parameters in ({"kernel": "sigmoid", "gamma": 0.1}, {"kernel": "poly", "coef0": -0.5, "gamma": 0.2, "degree": 1}):
        model = SVC(max_iter=2000, tol=1e-2, **parameters).fit(X, y)
        assert not model.certified_predict(X).proved.any()


def test_nothing_can_be_proved_of_a_model_without_a_certificate_or_without_a_fit():
    X, y = labelled(50, 3, 0.5, 1)
    model = LinearSVC().fit(X, y)
    del model.certificate_
    with pytest.raises(ValueError, match="no certificate"):
        model.certified_predict(X)
    with pytest.raises(NotFittedError):
        LinearSVC().certified_predict(X)
    with pytest.raises(ValueError, match="features"):
        LinearSVC().fit(X, y).certified_predict(X[:, :2])


def test_pairs_are_counted_in_the_order_of_libsvm():
    is_first = np.array([[True, False, True]])
    assert list(combinations(range(3), 2)) == [(0, 1), (0, 2), (1, 2)]
    assert votes(is_first, 3).tolist() == [[1, 1, 1]]

"""A proof moves to another C, between two values of C, and to fewer samples, and stays a proof."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maxmargin import Hinge, LinearProblem, SquaredHinge, certify, solve
from maxmargin.model_selection import policy
from maxmargin.model_selection.hinge_pieces import between, gap_pieces
from maxmargin.model_selection.transfer import Between, linear_fit, score_interval
from tests.model_selection.random_problems import Optimum, at, check, fitted, random_problem, score_rows


@pytest.mark.parametrize("block", range(10))
def test_no_bound_is_violated_by_an_optimum_solved_to_1e_12(block):
    wrong = {seed: check(20_000 + seed)[0] for seed in range(30 * block, 30 * block + 30)}
    assert not {seed: found for seed, found in wrong.items() if found}


def linear_problem(seed, loss, n=60, d=4):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.7 * random.normal(size=n) > 0, 1, -1)
    return LinearProblem.build(X, y, 1.0, loss)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
@pytest.mark.parametrize("rho", [0.3, 1.0, 2.5])
def test_the_moved_gap_is_that_of_the_scaled_alpha(loss, rho):
    problem = linear_problem(0, loss)
    solution = solve(problem, tol=1e-2)
    fit = linear_fit(problem, solution.w, solution.alpha, 1.0)
    certificate = certify(at(problem, rho), solution.w, rho * solution.alpha)
    assert fit.gap_at(rho) == pytest.approx(certificate.gap, rel=1e-9)
    assert fit.gap_at(rho) >= certificate.gap


def test_at_an_exact_optimum_the_radius_is_half_the_change_of_scale_times_the_norm():
    problem = linear_problem(1, Hinge())
    solution = solve(problem, tol=1e-13)
    fit = linear_fit(problem, solution.w, solution.alpha, 1.0)
    assert fit.ball_at(1.5).radius == pytest.approx(0.25 * np.linalg.norm(solution.w), rel=1e-5)


def test_the_pieces_have_the_gap_itself_with_hinge_loss_and_their_maximum_is_found():
    problem = linear_problem(2, Hinge())
    one, two = fitted(problem, 0.05, 1e-10), fitted(problem, 0.5, 1e-10)
    pieces = gap_pieces(one, two)
    positions = np.linspace(0.0, 1.0, 2001)
    values = np.array([pieces.value(theta) for theta in positions])
    for theta in (0.0, 0.31, 0.77, 1.0):
        alpha = (1 - theta) * one.alpha + theta * two.alpha
        w = (1 - theta) * one.w.values + theta * two.w.values
        plain = certify(at(problem, (1 - theta) * 0.05 + theta * 0.5), w, alpha)
        assert pieces.value(theta) == pytest.approx(plain.gap, rel=1e-6, abs=1e-9)
    assert pieces.greatest()[1] >= values.max()
    assert pieces.greatest()[1] == pytest.approx(values.max(), rel=1e-3)


def test_the_gap_itself_is_sharper_than_the_parabola():
    problem = linear_problem(3, Hinge())
    one, two = fitted(problem, 0.1, 1e-10), fitted(problem, 0.2, 1e-10)
    assert between(one, two).greatest_gap < 0.9 * Between(one, two).greatest_gap


def test_between_two_fits_the_ball_is_smaller_than_either_end_proves():
    problem = linear_problem(4, SquaredHinge())
    one, two = fitted(problem, 1.0, 1e-11), fitted(problem, 2.0, 1e-11)
    middle = np.sqrt(2.0)
    inside = between(one, two).ball_at(middle).radius
    assert inside < 0.5 * min(one.ball_at(middle).radius, two.ball_at(middle).radius)


def test_the_order_of_the_two_fits_does_not_matter_and_equal_values_of_C_are_refused():
    problem = linear_problem(5, SquaredHinge())
    one, two = fitted(problem, 1.0, 1e-6), fitted(problem, 2.0, 1e-6)
    assert between(two, one).gap_at(1.4) == between(one, two).gap_at(1.4)
    with pytest.raises(ValueError, match="different values of C"):
        between(one, one)


def test_without_one_sample_the_margin_is_in_jaakkola_and_hausslers_interval():
    """[m_i - alpha_i |x_i|^2, m_i] at an exact optimum."""
    problem = linear_problem(6, Hinge())
    fit = fitted(problem, 1.0, 1e-13)
    X, y = problem.rows.matrix, problem.y
    for i in np.flatnonzero(fit.alpha)[:10]:
        fewer = fit.without(np.array([i]))
        length = np.linalg.norm(X[[i]], axis=1)
        low, high = score_interval(fewer.ball_at(1.0), fewer.offsets_at(1.0), score_rows(X[[i]], 0.0), length)
        ends = sorted([y[i] * low[0], y[i] * high[0]])
        assert ends == pytest.approx([fit.outputs[i] - fit.alpha[i] * length[0] ** 2, fit.outputs[i]], abs=1e-4)


def test_scores_of_the_optimum_are_within_their_intervals():
    for seed in range(20):
        problem = random_problem(seed)
        if not isinstance(problem, LinearProblem) or not problem.penalizes_intercept:
            continue
        fit = fitted(problem, 1.0, 1e-3)
        ball, X = fit.ball_at(1.3), np.random.default_rng(seed).normal(size=(8, problem.rows.n_features))
        lengths = np.hypot(np.linalg.norm(X, axis=1), problem.intercept_scaling)
        low, high = score_interval(ball, fit.offsets_at(1.3), score_rows(X, problem.intercept_scaling), lengths)
        w = Optimum(problem, 1.3).solution.w
        exact = X @ w[: X.shape[1]] + w[X.shape[1] :].sum() * problem.intercept_scaling
        assert np.all(low <= exact + 1e-6)
        assert np.all(exact <= high + 1e-6)


@pytest.mark.parametrize("free", [False, True])
def test_w_of_alpha_over_raw_columns_is_within_its_error_in_rational_numbers(free, monkeypatch):
    monkeypatch.setattr(policy, "TRANSFER", policy.TransferPolicy(loose=0.0))  # in long double whatever is lost without
    random = np.random.default_rng(3)
    X = np.column_stack([1.6e9 + random.integers(0, 10**8, 80), random.normal(size=80) * 1e-3])
    problem = LinearProblem.build(X, random.choice([-1, 1], 80), 1.0, SquaredHinge(), penalizes_intercept=not free)
    alpha = problem.balanced(random.random(80)) if free else random.random(80)
    v = linear_fit(problem, np.zeros(problem.n_weights), alpha).v
    signed = [Fraction(each) for each in (alpha * problem.signs).tolist()]
    exact = [sum(Fraction(x) * s for x, s in zip(column, signed, strict=True)) for column in X.T.tolist()]
    distance = sum((value - Fraction(found)) ** 2 for value, found in zip(exact, v.values.tolist(), strict=False))
    assert distance <= Fraction(v.error) ** 2
    is_long = np.finfo(np.longdouble).eps < np.finfo(np.float64).eps
    assert v.error <= (1e-15 if is_long else 1e-13) * float(np.sum(alpha * np.abs(X).max(axis=1)))

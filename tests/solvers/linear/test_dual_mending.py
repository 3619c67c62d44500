"""Mending: the rounding errors of large alphas are made good by small ones."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from operator import mul

import numpy as np
import pytest

from maxmargin.data.rows import Rows
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.problem.regression_losses import EpsilonInsensitive
from maxmargin.solvers.linear.column_mending import ColumnMending, ColumnPolicy, can_be_mended_in_levels, mended_in_levels
from maxmargin.solvers.linear.dual_mending import is_worth_mending, mended, rounding_of_alpha
from maxmargin.solvers.linear.level_mending import LevelPolicy
from maxmargin.solvers.linear.long_sums import RunningProducts, long_sums, rounded
from maxmargin.solvers.linear.newton.frame import straightened
from maxmargin.solving.driver import solve
from tests.raw_catalogue import table


def milliseconds(C, loss):
    """Every row twice, with both labels: equal alphas of the two give w(alpha) = 0 exactly."""
    X, _ = table("milliseconds", 60)
    return LinearProblem.build(np.vstack([X, X]), np.repeat([1, -1], len(X)), C, loss, 1.0)


def balanced_alpha(problem, seed=0):
    """About a third at zero, a third at C, the others between; the same for the two of each pair."""
    rng = np.random.default_rng(seed)
    return problem.C * np.tile(np.clip(rng.uniform(-1.0, 2.0, problem.n_samples // 2), 0.0, 1.0), 2)


def distance(problem, w, alpha):
    """|w - w(alpha)|, by exact arithmetic."""
    rows = np.hstack([problem.rows.dense(), np.full((problem.n_samples, 1), problem.intercept_scaling)])
    signed = [Fraction(float(a)) * int(s) for a, s in zip(alpha, problem.signs, strict=True)]
    columns = [[Fraction(float(x)) for x in column] for column in rows.T]
    missing = [Fraction(float(w_j)) - sum(map(mul, signed, column)) for w_j, column in zip(w, columns, strict=True)]
    return float(sum(each * each for each in missing)) ** 0.5


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_mending_brings_w_of_alpha_to_w_within_a_thousandth_of_the_rounding_of_alpha(loss, seed):
    problem = milliseconds(1e6, loss)
    alpha, w = balanced_alpha(problem, seed), np.zeros(problem.n_weights)
    noise = np.where((alpha > 0.0) & (alpha < problem.C), np.random.default_rng(seed).normal(size=len(alpha)), 0.0)
    rounded = np.clip(alpha + 1e-9 * noise, problem.box.L, problem.box.U)  # as a solver leaves it
    found = mended(problem, w, rounded)
    assert (found >= problem.box.L).all()
    assert (found <= problem.box.U).all()
    assert distance(problem, w, found) < 1e-3 * distance(problem, w, rounded)
    assert np.abs(found - rounded).max() < 1e-6 * problem.C.max()


def test_what_is_not_lost_to_rounding_is_not_mended():
    problem = milliseconds(1e-6, Hinge())
    alpha = balanced_alpha(problem)
    assert rounding_of_alpha(problem, alpha) < 1e-3
    assert not is_worth_mending(problem, alpha, 1.0)
    assert is_worth_mending(milliseconds(1e6, Hinge()), 1e12 * alpha, 1.0)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_with_a_free_intercept_alpha_is_balanced_besides(loss, seed):
    problem = replace(milliseconds(1e6, loss), penalizes_intercept=False)
    X = problem.rows.dense()
    problem = replace(problem, rows=Rows(X - np.round(X.mean(axis=0))))
    alpha, w = balanced_alpha(problem, seed), np.zeros(problem.n_weights)
    noise = np.where((alpha > 0.0) & (alpha < problem.C), np.random.default_rng(seed).normal(size=len(alpha)), 0.0)
    rounded = np.clip(alpha + 1e-9 * noise, problem.box.L, problem.box.U)
    found = mended(problem, np.append(w[:-1], 7.0), rounded)
    assert distance(problem, w, found) < 1e-2 * distance(problem, w, rounded)
    assert abs(math.fsum(found * problem.signs)) * np.abs(X[:, 0]).std() < 1e-2 * distance(problem, w, rounded)


def test_an_offset_with_a_price_is_not_mended():
    problem = milliseconds(1e6, Hinge())
    assert is_worth_mending(problem, problem.C, 1e-9)
    priced = replace(problem, offset_prices=np.full(problem.n_samples, 0.5))
    assert not is_worth_mending(priced, problem.C, 1e-9)


def test_straightening_brings_the_margins_of_free_samples_to_one_and_lowers_the_primal_value():
    """Margins that are off by 1e-4, as rounding leaves them beside order numbers at C = 1e8. A tiny alpha is not free."""
    X, y = table("orders", 160)
    problem = LinearProblem.build(X, np.where(y == 1, 1, -1), 1e6, Hinge(), 1.0)
    solution = solve(problem, tol=1e-6)
    is_free = (solution.alpha > 1.0) & (solution.alpha < 1e6 - 1.0)
    alpha = np.where(solution.alpha == 0.0, 1e-9, solution.alpha)
    off = solution.w + 1e-6 * np.abs(solution.w) * np.random.default_rng(0).normal(size=problem.n_weights)
    assert np.abs(problem.margins(off)[is_free] - 1.0).max() > 1e-4
    straight = straightened(problem, off, alpha)
    assert np.abs(problem.margins(straight)[is_free] - 1.0).max() < 1e-9
    excess = [problem.primal(w) - solution.certificate.dual for w in (off, straight)]
    assert excess[1] < 1e-3 * excess[0]


@pytest.mark.parametrize("penalize_intercept", [True, False], ids=["penalised", "free"])
@pytest.mark.parametrize("seed", range(3))
def test_levels_bring_w_of_alpha_to_w_where_the_last_digit_of_alpha_moves_it_by_a_hundred(penalize_intercept, seed):
    """Nanoseconds since 1970, and a w of their size: alpha changes in its last digits, and by tiny values where it was zero."""
    X, y = table("milliseconds", 120)
    rng, X = np.random.default_rng(seed), X * [1e6, 1.0, 1.0, 1.0, 1.0]
    problem = LinearProblem.build(X, np.where(y == 0, 1, -1), 1.0, SquaredHinge(), 1.0, penalizes_intercept=penalize_intercept)
    solution = solve(problem, tol=1e-6)
    w, alpha = solution.w, problem.C * problem.loss.slope(problem.margins(solution.w))
    rough = alpha * (1.0 + 1e-12 * rng.normal(size=len(alpha)))
    found = mended_in_levels(problem, w, rough)
    if not penalize_intercept:
        w = np.append(w[:-1], 0.0)
    assert (found >= 0.0).all()
    assert distance(problem, w, rough) > 1e3
    assert distance(problem, w, found) < 0.1
    assert np.abs(found - rough).max() < 1e-9 * alpha.max()


def test_regression_and_priced_offsets_and_many_elements_are_not_mended_in_levels():
    problem = milliseconds(1.0, Hinge())
    assert can_be_mended_in_levels(problem)
    assert not can_be_mended_in_levels(replace(problem, offset_prices=np.full(problem.n_samples, 0.5)))
    assert not can_be_mended_in_levels(replace(problem, loss=EpsilonInsensitive()))
    assert not can_be_mended_in_levels(problem, ColumnPolicy(most_elements=10))


@pytest.mark.parametrize("seed", range(3))
def test_an_alpha_without_room_stops_at_it_and_the_others_make_good_what_it_cannot(seed):
    """The second column belongs to the first sample alone, whose alpha must fall by more than a round allows. The others move
    for the first column, which costs 1e12 times as much, and where the first sample stops they must move less."""
    rng, n = np.random.default_rng(seed), 60
    X = np.column_stack([1e12 * rng.normal(size=n), np.arange(n) == 0])
    problem = LinearProblem.build(X, np.where(np.arange(n) % 2 == 0, 1, -1), 1.0, Hinge(), 0.0)
    rough = np.append(0.1, rng.uniform(0.3, 0.7, n - 1))
    w = problem.precise_weights(rough)
    w[1] *= 0.05
    patient, hasty = (ColumnMending(w, rough, LevelPolicy(stops=stops), linear=problem) for stops in (LevelPolicy().stops, 1))
    found = patient.best()
    assert (found >= 0.0).all()
    assert (found <= problem.C).all()
    assert distance(problem, w, found) < 1e-3
    assert distance(problem, w, hasty.best()) > 0.05


@pytest.mark.parametrize("seed", range(3))
def test_long_sums_are_right_where_terms_cancel_to_the_last_digit_of_their_last_digits(seed):
    rng = np.random.default_rng(seed)
    large = rng.normal(size=(37, 3)) * 2.0 ** rng.integers(-10, 60, (37, 3))
    tiny = rng.normal(size=(4, 3)) * 2.0**-80
    terms = rng.permutation(np.concatenate([large, -large, tiny]))
    wanted = [math.fsum(column) for column in terms.T.tolist()]
    assert np.abs(wanted).max() < 2.0**-76
    assert rounded(long_sums(terms)) == pytest.approx(wanted, rel=1e-6)
    assert rounded(long_sums(terms[:1])) == pytest.approx(terms[0])


def test_running_products_are_those_of_every_vector_alone():
    rng = np.random.default_rng(0)
    columns, s = 2.0**50 * rng.normal(size=(40, 3)), rng.normal(size=40) * (np.arange(40) % 3 > 0)
    running = RunningProducts(columns)
    for changed in (slice(None), slice(0, 4), slice(30, 33), slice(0, 0), slice(5, 40)):
        s[changed] = np.where(np.arange(40) % 5 > 1, rng.normal(size=40), 0.0)[changed]
        for found, column in zip(running.of(s).T.tolist(), columns.T.tolist(), strict=True):
            exact = sum(Fraction(a) * Fraction(x) for a, x in zip(s.tolist(), column, strict=True))
            assert abs(sum(map(Fraction, found)) - exact) <= 2.0**-90

"""Regression with few features in one compiled call: the answer of the method in Python, from whatever start."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate.certificate import Counts
from maxmargin.certificate.lane_loops import LANES
from maxmargin.certificate.linear import certify
from maxmargin.certificate.linear_sums import residual_errors
from maxmargin.certificate.residual_loops import KINDS, ResidualSamples, judge_residuals
from maxmargin.data.rows import Array
from maxmargin.problem.dual_box import Loss
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.one_class import Shortfall
from maxmargin.problem.regression_losses import EpsilonInsensitive, Quantile, SquaredEpsilonInsensitive
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.small_newton import SmallNewton
from maxmargin.solvers.linear.phases import newton_for
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status

LOSSES = [
    EpsilonInsensitive(),
    EpsilonInsensitive(0.3),
    SquaredEpsilonInsensitive(),
    SquaredEpsilonInsensitive(0.3),
    Quantile(0.2),
]
losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def data_of(n: int = 3000, d: int = 5) -> tuple[Array, Array]:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, d)) * np.logspace(0, 2, d)
    return X, X @ (rng.normal(size=d) / np.logspace(0, 2, d)) + rng.standard_t(3, size=n) + 4.0


def problem_of(loss: Loss, C: object = 0.5, n: int = 3000) -> LinearProblem:
    return LinearProblem.build(*data_of(n), C, loss, 1.0)


@losses
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e3])
def test_one_call_meets_the_target_and_agrees_with_the_method_in_python(loss, C):
    problem = problem_of(loss, C)
    solver = SmallNewton(Newton())
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(10**9, 1e-7))
    assert state.looks_done
    assert state.careful is None
    certificate = certify(problem, *solver.candidate(problem, state))
    assert certificate.meets(1e-7)
    other = solve(problem, Newton(), tol=1e-9).certificate
    assert certificate.primal == pytest.approx(other.primal, rel=2e-7)


@losses
def test_a_call_that_its_budget_cuts_short_goes_on_where_it_ended(loss):
    problem = problem_of(loss, 10.0)
    solver = SmallNewton(Newton())
    whole, cut = solver.init(problem, None, 0), solver.init(problem, None, 0)
    solver.advance(problem, whole, Budget(10**9, 1e-8))
    for _ in range(100):
        if cut.looks_done:
            break
        solver.advance(problem, cut, Budget(problem.n_samples, 1e-8))
    assert cut.careful is None
    assert cut.calls_steps <= 2 * whole.calls_steps + 5
    assert certify(problem, *solver.candidate(problem, cut)).meets(1e-8)


@losses
def test_targets_in_another_unit_give_the_same_answer_in_that_unit(loss):
    X, y = data_of()
    size = 1024.0  # a power of two, so that nothing is rounded
    scaled = loss.rescaled(1.0 / size)
    plain = solve(LinearProblem.build(X, y, 0.5, loss, 1.0), tol=1e-6)
    other = solve(LinearProblem.build(X, size * y, 0.5 * scaled.cost_factor, scaled.loss, 1.0), tol=1e-6)
    assert np.array_equal(other.w, size * plain.w)
    assert other.certificate.relative_gap == plain.certificate.relative_gap


@losses
def test_the_weight_of_a_sample_counts_as_often_as_the_sample(loss):
    X, y = data_of(600)
    counts = np.arange(600) % 4
    weighted = solve(LinearProblem.build(X, y, 0.5 * counts, loss, 1.0), tol=1e-9).certificate
    repeated = LinearProblem.build(np.repeat(X, counts, axis=0), np.repeat(y, counts), 0.5, loss, 1.0)
    assert weighted.primal == pytest.approx(solve(repeated, tol=1e-9).certificate.primal, rel=1e-8)


@pytest.mark.parametrize("y", [np.zeros(2000), np.full(2000, -3.0), np.full(2000, 1e9)], ids=["zero", "small", "large"])
@losses
def test_constant_targets_are_certified(loss, y):
    X, _ = data_of(2000)
    solution = solve(LinearProblem.build(X, y, 1.0, loss, 1.0), tol=1e-6)
    assert solution.status is Status.CERTIFIED


def test_which_regressions_are_solved_by_one_call():
    def chosen(X: object, y: Array, is_penalized: bool = True) -> type:
        problem = LinearProblem.build(X, y, 1.0, EpsilonInsensitive(0.1), 1.0, is_penalized)
        return type(newton_for(Auto().init(problem, None, 0).plan))

    X, y = data_of(30_000)
    assert chosen(X, y) is SmallNewton
    assert chosen(X.astype(np.float32), y) is SmallNewton
    assert chosen(X, y, is_penalized=False) is SmallNewton
    assert chosen(np.ones((3000, 200)), y[:3000]) is Newton  # the matrix is large
    assert chosen(sparse.random(30_000, 60, 0.02, "csr", random_state=0), y) is Newton  # a dense copy would be far larger


@pytest.mark.parametrize("is_precise", [False, True])
@pytest.mark.parametrize("loss", [*LOSSES, Shortfall()], ids=repr)
def test_the_compiled_sums_of_a_certificate_are_those_of_the_formulas_for_each_sample(loss, is_precise):
    rng = np.random.default_rng(3)
    n = 400
    C, target, output, prices = rng.uniform(0.0, 2.0, n), rng.normal(size=n), rng.normal(size=n), rng.uniform(0.0, 1.0, n)
    C[:20] = 0.0
    output[20:40] = target[20:40]
    box = loss.dual(C, target)
    alpha = np.clip(rng.normal(size=n), box.L, box.U)
    alpha[40:80] = 0.0
    roundings, magnitudes = rng.integers(4, 9, n).astype(float), rng.uniform(0.0, 1e27 if is_precise else 1e12, n)
    error = residual_errors(output, magnitudes, np.abs(target), roundings, is_precise=is_precise)
    sums, samples = np.empty((6, 25)), ResidualSamples(*map(read_only, (alpha, C, target, prices, roundings)))
    counts = judge_residuals(output, magnitudes, samples, loss.residual_pieces(), is_precise, np.empty(KINDS * LANES), sums)
    found = sums.sum(axis=1)
    expected = (
        C @ loss.value(output, target),
        np.sum(box.terms(alpha)),
        np.sum(loss.gap_terms(output, alpha, C, target)),
        np.sum(loss.gap_sensitivity(output, alpha, C, error, target)),
    )
    assert found[:3] == pytest.approx(expected[:3], rel=1e-12)
    in_primal = 0.0 if loss.residual_pieces().is_squared else np.sum(C * error * (loss.value(output, target) > 0.0))
    assert expected[3] * (1.0 - 1e-9) <= found[3] <= 1.001 * (expected[3] + in_primal)
    assert found[4:] == pytest.approx([np.abs(alpha).sum(), np.sum(alpha - prices)])
    assert counts == (*Counts.of(alpha, (alpha == box.U) | (alpha == box.L)), 0)


@pytest.mark.parametrize("loss", [*LOSSES, Shortfall()], ids=repr)
@pytest.mark.parametrize("wrong", [np.nan, -3.0, 3.0])
def test_an_alpha_outside_its_box_is_counted(loss, wrong):
    C, ones = np.array([1.0, 0.0, 1.0]), np.ones(3)
    alpha = np.array([0.0, 0.0, wrong]) if not loss.is_smooth else np.array([0.0, wrong, 0.0])
    samples = ResidualSamples(*map(read_only, (alpha, C, ones, 0.0 * ones, ones)))
    memory = np.empty(KINDS * LANES), np.empty((6, 1))
    counts = judge_residuals(0.0 * ones, ones, samples, loss.residual_pieces(), False, *memory)
    assert counts[2] == 1


def test_the_sums_of_a_certificate_do_not_lose_digits_with_the_number_of_samples():
    """The certificate counts a few roundings for a sum, as for pairwise summation. A plain loop has one for each term."""
    n = 100_000
    problem = LinearProblem.build(np.zeros((n, 1)), np.full(n, 0.1), 1.0, EpsilonInsensitive(0.0))
    found = certify(problem, np.zeros(1), np.zeros(n))
    assert found.gap == pytest.approx(math.fsum([0.1] * n), rel=4e-16)
    assert abs(sum([0.1] * n) / math.fsum([0.1] * n) - 1.0) > 1e-13


def read_only(values: Array) -> Array:
    values = np.array(values)
    values.flags.writeable = False
    return values

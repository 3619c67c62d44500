"""When auto switches: the forecast, the cost model and the hand-over between its phases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate.linear import certify
from maxmargin.data.limits import Stop
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.problem.regression_losses import EpsilonInsensitive, SquaredEpsilonInsensitive
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.costs import LinearCosts
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solvers.linear.phases import Coordinates
from maxmargin.solvers.linear.switching import Forecast, SwitchingPolicy
from maxmargin.solving.driver import Limits, drive, solve
from maxmargin.solving.policy import DrivingPolicy
from maxmargin.solving.solution import Status
from tests.catalogue import labelled
from tests.solvers.linear.test_conjugate_gradients import one_hot


def narrow(C: float) -> LinearProblem:
    return LinearProblem.build(*labelled(17_000, 30, 3.0, 0), C, None, intercept_scaling=1.0)


def test_a_gap_that_halves_every_sweep_needs_as_many_sweeps_as_halvings_are_left():
    forecast = Forecast()
    for sweep in range(1, 9):
        forecast.note(sweep, 0.5**sweep)
    assert forecast.sweeps_left(0.5**20) == pytest.approx(12.0)
    assert forecast.sweeps_left(1.0) == 0.0


def test_a_gap_that_does_not_fall_is_never_closed():
    forecast = Forecast()
    for sweep in range(1, 5):
        forecast.note(sweep, 0.1)
    assert forecast.sweeps_left(1e-3) == math.inf


def test_a_gap_that_rises_shows_those_before_to_be_too_low():
    forecast = Forecast()
    for sweep, gap in enumerate([1.0, 0.1, 0.01, 0.5], 1):
        forecast.note(sweep, gap)
    assert [seen.relative_gap for seen in forecast.seen] == [1.0, 0.5]


def test_a_dearer_newton_step_keeps_auto_with_the_coordinates():
    problem = narrow(300.0)
    solvers = [Auto(costs=replace(LinearCosts(), newton_step_ns=ns)) for ns in (1.0, 1e15)]
    last = [solve(problem, solver, tol=1e-6, max_epochs=200).trace[-1].solver for solver in solvers]
    assert last == ["newton", "dcd"]


def test_the_next_phase_starts_from_the_alpha_that_the_last_one_had():
    problem, solver = narrow(300.0), Auto()
    state = solver.init(problem, None, 0)
    while isinstance(state.phase, Coordinates):
        phase = state.phase
        solver.advance(problem, state, Budget(problem.n_samples, 1e-9))
    assert np.array_equal(state.handover.alpha, phase.candidate()[1])
    assert not np.shares_memory(state.handover.alpha, phase.candidate()[1])


def test_steps_are_counted_over_all_phases():
    problem, solver = narrow(300.0), Auto()
    state, seen = solver.init(problem, None, 0), [0]
    while not state.looks_done:
        solver.advance(problem, state, Budget(problem.n_samples, 1e-6))
        seen.append(state.steps)
    assert seen == sorted(seen)
    assert state.steps > state.phase.steps > 0


def test_settings_of_auto_are_compared_by_value():
    assert Auto() == Auto(SwitchingPolicy(), LinearCosts())
    assert repr(Auto()) == "Auto()"


def test_a_driver_of_little_patience_gives_up_sooner():
    """Coordinate descent at a large C crawls towards a gap that float64 cannot show."""
    problem, limits = narrow(1e6), Limits(1e-15)
    policy = DrivingPolicy(stall_epochs=50, certificate_epochs=5, certificate_elements=1.0)
    solution = drive(problem, DCD(), limits, warm_start=None, callback=None, seed=0, stop=Stop.after(60.0), policy=policy)
    assert solution.status is Status.PRECISION_LIMIT
    assert 50 <= solution.epochs <= 1000


@pytest.mark.parametrize("loss", [EpsilonInsensitive(0.1), SquaredEpsilonInsensitive(0.1)], ids=str)
def test_regression_with_many_sparse_features_is_certified_by_avsf_on_renumbered_columns(loss):
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(300, 3000, density=0.01, random_state=rng))
    problem = LinearProblem.build(X, X @ rng.normal(size=3000) + 0.1 * rng.normal(size=300), 10.0, loss)
    policy = SwitchingPolicy(small_elements=0, most_matrix_weights=0, uses_products=False, long_factor=0.0)
    solution = solve(problem, Auto(policy), tol=1e-6)
    assert solution.status is Status.CERTIFIED
    assert solution.trace[-1].solver == "avsf"
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


def test_coordinates_hand_one_hot_columns_to_newton_and_the_hinge_loss_is_certified():
    """AVSF made thousands of epochs here."""
    X, y = one_hot(10_000, (900, 900, 900), seed=1)
    solution = solve(LinearProblem.build(X, y, 100.0, Hinge()), tol=1e-3)
    assert solution.status is Status.CERTIFIED
    assert {step.solver for step in solution.trace} <= {"dcd", "newton"}
    assert solution.epochs <= 150


@pytest.mark.parametrize("C", [1e-4, 0.1])
def test_a_smooth_loss_on_one_hot_columns_begins_with_newton_and_takes_few_steps_at_a_small_cost(C):
    X, y = one_hot(10_000, (900, 900, 900), seed=1)
    solution = solve(LinearProblem.build(X, y, C, SquaredHinge()), tol=1e-3)
    assert solution.status is Status.CERTIFIED
    assert {step.solver for step in solution.trace} == {"newton"}
    assert solution.epochs <= 3


def test_avsf_makes_no_more_steps_than_newtons_method_would_take():
    """One-hot columns beside a numeric one: AVSF works for as long as a solve by Newton's method takes, then that begins."""
    X, y = one_hot(10_000, (900, 900, 900), seed=1)
    X = sparse.csr_array(sparse.hstack([X, np.random.default_rng(0).normal(size=(10_000, 1))]))
    problem, auto = LinearProblem.build(X, y, 100.0, Hinge()), Auto(costs=replace(LinearCosts(), step_ns=1.0, element_ns=1.0))
    state = auto.init(problem, None, 0)
    seen = []
    while not state.looks_done:
        before = state.stage.solver, state.steps
        auto.advance(problem, state, Budget(problem.n_samples, 1e-3))
        seen += [before] if state.stage.solver != before[0] else []
    assert [solver for solver, _ in seen] == ["dcd", "avsf"]
    steps_before_last_call = seen[1][1] - seen[0][1] - problem.n_samples
    assert steps_before_last_call * state.plan.descent_step_ns <= state.plan.newton_ns
    assert state.stage.solver == "newton"

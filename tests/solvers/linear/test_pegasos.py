"""Pegasos with Algorithm 3: the same iterates with and without pruning, the projection, and its certificate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from maxmargin import LinearSVC
from maxmargin.certificate.linear import certify
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber, LeastSquares, SquaredHinge
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solvers.linear.pegasos import Pegasos
from maxmargin.solvers.linear.pruned_gradient import cost_from_lambda
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import PROBLEMS, labelled

LOSSES = {"hinge": Hinge(), "squared_hinge": SquaredHinge(), "huber": Huber(0.05)}


@pytest.mark.parametrize("problem_name", [name for name in PROBLEMS if name != "large-C"])
@pytest.mark.parametrize("loss_name", LOSSES)
def test_every_problem_is_certified_to_five_percent(problem_name, loss_name):
    """At a large C, that is a small lambda, it would take millions of epochs."""
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    solution = solve(problem, "pegasos", tol=0.05, max_epochs=10_000)
    assert solution.status is Status.CERTIFIED
    assert problem.is_feasible(solution.alpha)
    assert certify(problem, solution.w, solution.alpha) == solution.certificate
    assert solution.trace[-1].solver == "pegasos"


def made(*, is_sparse=False, d=6, scaling=1.0, weighted=False, loss=None, n=3000):
    X, y = labelled(n, d, 0.5, 21)
    X[np.random.default_rng(1).random(X.shape) < 0.4] = 0.0
    X += 0.0 if is_sparse else 0.5
    C = cost_from_lambda(1e-3, n) * (np.random.default_rng(2).exponential(size=n) if weighted else 1.0)
    return LinearProblem.build(sparse.csr_array(X) if is_sparse else X, y, C, loss or Hinge(), scaling)


def far_away():
    """A sample so far out that its centre has no code; it is none of the few rows that the directions are taken from."""
    problem = made(d=12)
    X = problem.rows.matrix.copy()
    X[1] *= 100.0
    return LinearProblem.build(X, problem.y, problem.C[0], Hinge(), 1.0)


MADE = {
    "dense": lambda: made(),
    "sparse": lambda: made(is_sparse=True),
    "more features than directions": lambda: made(d=25),
    "one far away": lambda: far_away(),
    "wide": lambda: made(is_sparse=True),
    "weighted": lambda: made(weighted=True),
    "huber": lambda: made(loss=Huber(0.1)),
    "squared hinge": lambda: made(loss=SquaredHinge()),
    "no intercept": lambda: made(scaling=0.0),
}


@pytest.mark.parametrize("name", MADE)
def test_the_iterates_are_those_without_pruning(name):
    problem = MADE[name]()
    states = []
    k = 5 if name == "wide" else 50  # so few that it does not pay to compute lengths in every iteration
    for overhead in (3.0, math.inf):
        solver = Pegasos(k, overhead)
        state = solver.init(problem, None, 5)
        solver.advance(problem, state, Budget(200_000, 0.0))
        states.append(state)
    pruned, plain = states
    assert pruned.is_wide == (name == "wide")  # lengths carried along
    assert pruned.is_coded == (name != "wide")
    assert pruned.w == pytest.approx(plain.w, rel=1e-7, abs=1e-9 * np.abs(plain.w).max())
    assert pruned.slopes() == pytest.approx(plain.slopes(), rel=1e-5, abs=1e-6)
    assert plain.examined == 200_000
    assert pruned.examined < 0.95 * plain.examined
    assert pruned.times_stored > 0


def test_a_w_that_only_changed_its_length_needs_no_product():
    """Where c w' is w for some c, the margins are c times those that were stored."""
    problem = made(d=25)
    state = Pegasos(50, 3.0).init(problem, None, 5)
    while not state.is_coded:
        state.run(100)
    state._store()
    state.record["scale"] *= 0.7
    before = state.examined
    state.run(1)
    at_the_knee = np.abs(0.7 * state.stored["margin"].astype(float) - 1.0) < 1e-3
    assert state.examined - before <= np.count_nonzero(at_the_knee[state.drawn])


@pytest.mark.parametrize("name", ["dense", "wide", "weighted"])
def test_an_iteration_is_that_of_pegasos(name):
    problem = MADE[name]()
    k = 4 if name == "wide" else 20
    state = Pegasos(k, math.inf).init(problem, None, 1)
    assert state.is_wide == (name == "wide")
    X = problem.rows.matrix.toarray() if problem.rows.is_sparse else problem.rows.matrix
    X = np.column_stack([X, np.full(len(X), problem.intercept_scaling)])
    penalty, share = 1.0 / problem.C.sum(), problem.C / problem.C.mean()
    w = np.zeros(X.shape[1])
    for t in range(1, 40):
        state.run(1)
        batch = state.drawn.astype(int)
        violates = problem.y[batch] * (X[batch] @ w) < 1.0
        push = (share * problem.y)[batch[violates]] @ X[batch[violates]]
        w = (1.0 - 1.0 / t) * w + push / (penalty * t * k)
        w *= min(1.0, 1.0 / math.sqrt(penalty) / np.linalg.norm(w))
        assert state.w == pytest.approx(w, rel=1e-9, abs=1e-9 * np.abs(w).max())


def test_w_never_leaves_the_ball_that_holds_the_optimum():
    for loss, radius in ((Hinge(), 1.0), (Huber(0.1), math.sqrt(2.0))):
        problem = made(loss=loss)
        state = Pegasos(10).init(problem, None, 0)
        bound = radius * math.sqrt(problem.C.sum())
        assert np.linalg.norm(solve(made(), "dcd", tol=1e-6).w) <= bound
        for _ in range(50):
            state.run(1)
            assert np.linalg.norm(state.w) <= bound * (1.0 + 1e-12)


def test_where_nothing_can_be_pruned_it_stops_trying():
    """Labels that have nothing to do with X, rows so long that every bound is useless, and no direction better than another."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 150)), rng.choice([-1, 1], size=2000)
    problem = LinearProblem.build(100.0 * X, y, 1.0, Hinge())
    solver = Pegasos(20)
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(40_000 * 20, 0.0))
    assert 1 <= state.times_stored <= 12  # the period doubles
    assert state.record["prunes"][0] == 0


def test_a_step_at_a_time_is_the_same_as_all_at_once():
    for name in ("dense", "sparse"):
        problem, solver = MADE[name](), Pegasos(20, 3.0)
        whole, chunked = solver.init(problem, None, 7), solver.init(problem, None, 7)
        solver.advance(problem, whole, Budget(2000 * 20, 0.0))
        for _ in range(2000):
            solver.advance(problem, chunked, Budget(1, 0.0))
        assert np.array_equal(whole.w, chunked.w)
        assert whole.examined == chunked.examined


def test_the_seed_decides():
    problem = MADE["dense"]()
    answers = [solve(problem, "pegasos", tol=0.0, max_epochs=5, random_state=seed).w for seed in (1, 1, 2)]
    assert np.array_equal(answers[0], answers[1])
    assert not np.array_equal(answers[0], answers[2])


def test_it_comes_near_dual_coordinate_descent():
    problem = PROBLEMS["with-intercept"](Hinge())
    ours, theirs = solve(problem, "pegasos", tol=1e-2), solve(problem, DCD(), tol=1e-8)
    assert np.linalg.norm(ours.w - theirs.w) <= ours.certificate.distance_bound + theirs.certificate.distance_bound


def test_a_warm_start_is_not_thrown_away():
    problem = MADE["dense"]()
    exact = solve(problem, "dcd", tol=1e-8)
    start = solve(problem, "pegasos", tol=0.0, max_epochs=0, warm_start=exact)
    after = solve(problem, "pegasos", tol=0.0, max_epochs=3, warm_start=exact)
    assert start.certificate.relative_gap < 1e-6
    assert after.certificate.primal <= start.certificate.primal * (1.0 + 1e-12)  # the best is kept
    states = [Pegasos().init(problem, alpha, 0) for alpha in (exact.alpha, None)]
    for state in states:
        state.run(3)
    warm, cold = (problem.primal(state.w) for state in states)
    assert warm < min(cold, 2.5 * exact.certificate.primal)


def test_the_callback_sees_progress_and_can_stop_it():
    seen = []
    solution = solve(made(), "pegasos", tol=0.0, callback=lambda progress: seen.append(progress) or len(seen) == 2)
    assert solution.status is Status.STOPPED
    assert seen[1].steps > seen[0].steps > 0


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_linear_svc_takes_it_by_name(loss):
    X, y = labelled(150, 4, 1.0, 5)
    model = LinearSVC(solver="pegasos", loss=loss, tol=0.05).fit(X, y)
    reference = LinearSVC(solver="dcd", loss=loss, tol=1e-8).fit(X, y)
    assert model.status_ is Status.CERTIFIED
    assert np.mean(model.predict(X) == reference.predict(X)) > 0.9


def test_settings_and_problems_that_make_no_sense_are_refused():
    problem = PROBLEMS["overlapping"](Hinge())
    with pytest.raises(ValueError, match=r"k, the samples of a batch, is 121, but there are only 120 samples"):
        solve(problem, Pegasos(121))
    for k in (0, -3, 2.5):
        with pytest.raises(ValueError, match=rf"whole number of at least 1; got {k}"):
            Pegasos(k)
    with pytest.raises(ValueError, match="overhead must be positive; got 0"):
        Pegasos(overhead=0)
    with pytest.raises(ValueError, match="LeastSquares"):
        solve(PROBLEMS["overlapping"](LeastSquares()), "pegasos")
    X, y = labelled(40, 3, 1.0, 0)
    with pytest.raises(ValueError, match="'pegasos' cannot fit an intercept without penalty"):
        solve(LinearProblem.build(X, y, 1.0, Hinge(), 1.0, False), "pegasos")

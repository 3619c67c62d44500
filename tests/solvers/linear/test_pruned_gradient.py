"""Gradient descent with pruned evaluations: the same iterates as without, and certified on the catalogue to a few digits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from maxmargin import LinearSVC
from maxmargin.certificate.linear import certify
from maxmargin.margin_bounds.pruned_loss import PrunedLoss
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber, LeastSquares, SquaredHinge
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solvers.linear.pruned_gradient import PrunedGradient, cost_from_lambda
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import PROBLEMS, labelled

LOSSES = {"hinge": Hinge(), "squared_hinge": SquaredHinge(), "huber": Huber(0.05)}
REACH = {("large-C", "hinge"): 0.2, ("d-close-to-n", "hinge"): 1e-2}
"""A first-order method comes to 1e-3 within 5000 iterations, but for these."""


@pytest.mark.parametrize("problem_name", PROBLEMS)
@pytest.mark.parametrize("loss_name", LOSSES)
def test_every_problem_is_certified_to_a_few_digits(problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    tol = REACH.get((problem_name, loss_name), 1e-3)
    solution = solve(problem, "pruned-gradient", tol=tol, max_epochs=5000)
    assert solution.status is Status.CERTIFIED
    assert problem.is_feasible(solution.alpha)
    assert certify(problem, solution.w, solution.alpha) == solution.certificate
    assert solution.trace[-1].solver == "pruned-gradient"


@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge"])
def test_it_agrees_with_dual_coordinate_descent_within_the_certified_distances(loss_name):
    problem = PROBLEMS["with-intercept"](LOSSES[loss_name])
    ours, theirs = solve(problem, "pruned-gradient", tol=1e-3), solve(problem, DCD(), tol=1e-8)
    reach = ours.certificate.distance_bound + theirs.certificate.distance_bound
    assert np.linalg.norm(ours.w - theirs.w) <= reach


def big(n=6000, d=6, scaling=1.0, penalised=False, loss=None):
    X, y = labelled(n, d, 1.0, 21)
    return LinearProblem.build(X + 0.5, y, cost_from_lambda(1e-4, n), loss or Huber(0.01), scaling, penalised)


def descents(problem, iterations, **settings):
    """The states of a pruned and of a plain descent, side by side."""
    solvers = PrunedGradient(**settings), PrunedGradient(overhead=math.inf, **settings)
    states = [solver.init(problem, None, 0) for solver in solvers]
    for _ in range(iterations):
        for state in states:
            state.iterate()
        yield states


@pytest.mark.parametrize("width", [0.01, 0.2])
def test_the_iterates_are_those_of_the_plain_descent(width):
    problem = big(loss=Huber(width))
    for pruned, plain in descents(problem, 300):
        if plain.change < 1e-10:  # from here on rounding decides whether the objective rises
            break
        assert pruned.step == plain.step
        assert pruned.w == pytest.approx(plain.w, rel=1e-7, abs=1e-7 * np.abs(plain.w).max())
        assert pruned.objective == pytest.approx(plain.objective, rel=1e-9)
    assert plain.iterations > 40
    assert plain.loss.tally.examined == plain.iterations * problem.n_samples
    assert pruned.loss.tally.examined < 0.9 * plain.loss.tally.examined


def test_what_sets_the_iterates_apart_is_rounding_that_the_descent_itself_magnifies():
    """While the step is longer than 2 / curvature every difference grows. Each step is that of brute force from the same w,
    and in the end one bit of the first w has made as much of a difference to the plain descent."""
    n = 6000
    X, y = labelled(n, 30, 0.3, 21)
    problem = LinearProblem.build(X + 0.5, y, cost_from_lambda(1e-4, n), Huber(0.001), 1.0, False)
    pruned, plain, other = (PrunedGradient(overhead=overhead).init(problem, None, 0) for overhead in (10.0, math.inf, math.inf))
    brute_force = PrunedLoss(problem, overhead=math.inf)
    for k in range(400):
        w, exact = pruned.w.copy(), brute_force.evaluate(pruned.w)
        objective = (exact.loss + 0.5 * w[:-1] @ w[:-1]) / problem.C.sum()
        gradient = np.append(w[:-1], 0.0) - exact.weights
        for state in (pruned, plain, other):
            state.iterate()
        assert pruned.objective == pytest.approx(objective, rel=1e-12)
        assert pruned.w == pytest.approx(w - pruned.step / problem.C.sum() * gradient, rel=1e-11, abs=1e-11 * np.abs(w).max())
        if k == 0:
            other.w = other.origin = np.nextafter(other.w, np.inf)
    apart, by_a_bit = (np.linalg.norm(state.w - plain.w) / np.linalg.norm(plain.w) for state in (pruned, other))
    assert pruned.loss.tally.plain < 150  # of 400
    assert by_a_bit > 1e-6
    assert apart < 100.0 * by_a_bit
    assert pruned.objective == pytest.approx(plain.objective, rel=0.2)


def test_as_it_converges_it_looks_at_ever_fewer_samples():
    *_, (pruned, _) = descents(big(), 400)
    before = pruned.loss.tally.examined
    for _ in range(50):
        pruned.iterate()
    assert pruned.loss.tally.examined - before < 0.1 * 50 * pruned.problem.n_samples


def test_an_iteration_is_the_step_of_the_paper():
    """w - step (lambda w + the gradient of the mean loss), with the step halved when the objective rises."""
    n, penalty = 500, 1e-3
    X, y = labelled(n, 4, 1.0, 3)
    problem = LinearProblem.build(X, y, cost_from_lambda(penalty, n), Huber(0.1))
    state = PrunedGradient(step=8.0).init(problem, None, 0)
    w, step, last = np.zeros(4), 8.0, math.inf
    for k in range(60):
        margins = y * (X @ w)
        objective = Huber(0.1).value(margins).mean() + 0.5 * penalty * w @ w
        if abs(last - objective) < 1e-12 * objective:  # from here on rounding decides whether it rises
            assert k > 20
            break
        step = 0.5 * step if objective > last else step
        slopes = np.clip((1.1 - margins) / 0.2, 0.0, 1.0)
        w, last = w - step * (penalty * w - X.T @ (y * slopes) / n), objective
        state.iterate()
        assert state.objective == pytest.approx(objective, rel=1e-10)
        assert state.step == step
    assert state.w[:4] == pytest.approx(w, rel=1e-8, abs=1e-10)
    assert step < 8.0


def test_for_a_smooth_loss_the_gap_is_half_the_squared_gradient():
    """With alpha_i = C_i s_i of one w."""
    problem = PROBLEMS["overlapping"](Huber(0.2))
    w = np.random.default_rng(0).normal(size=problem.n_weights)
    slopes = np.clip((1.2 - problem.margins(w)) / 0.4, 0.0, 1.0)
    alpha = problem.C * slopes
    gradient = w - problem.weights(alpha)
    assert certify(problem, w, alpha).gap == pytest.approx(0.5 * gradient @ gradient, rel=1e-12)


def test_an_intercept_without_penalty_is_certified():
    problem = big(400, 4, scaling=1.0, loss=Huber(0.05))
    solution = solve(problem, "pruned-gradient", tol=1e-3, max_epochs=5000)
    assert solution.status is Status.CERTIFIED
    assert abs(np.sum(solution.alpha * problem.y)) <= 1e-9 * solution.alpha.sum()


@pytest.mark.parametrize("loss_name", LOSSES)
def test_a_warm_start_near_the_optimum_saves_iterations(loss_name):
    problem = PROBLEMS["overlapping"](LOSSES[loss_name])
    cold = solve(problem, "pruned-gradient", tol=1e-3)
    warm = solve(problem, "pruned-gradient", tol=2e-3, warm_start=cold)
    assert warm.status is Status.CERTIFIED
    assert warm.epochs <= 0.5 * cold.epochs


def test_chunks_change_nothing():
    problem, solver = big(), PrunedGradient(epsilon=1e-12)
    whole, chunked = solver.init(problem, None, 0), solver.init(problem, None, 0)
    solver.advance(problem, whole, Budget(50 * problem.n_samples, 0.0))
    while chunked.iterations < 50:
        solver.advance(problem, chunked, Budget(1, 0.0))
    assert np.array_equal(whole.w, chunked.w)


def test_the_callback_sees_progress_and_can_stop_it():
    seen = []
    solution = solve(big(), "pruned-gradient", tol=0.0, callback=lambda progress: seen.append(progress) or len(seen) == 2)
    assert solution.status is Status.STOPPED
    assert [progress.solver for progress in seen] == ["pruned-gradient"] * 2
    assert seen[1].steps > seen[0].steps > 0


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_linear_svc_takes_it_by_name(loss):
    X, y = labelled(150, 4, 1.0, 5)
    model = LinearSVC(solver="pruned-gradient", loss=loss, tol=1e-2).fit(X, y)
    reference = LinearSVC(solver="dcd", loss=loss, tol=1e-8).fit(X, y)
    assert model.status_ is Status.CERTIFIED
    assert np.mean(model.predict(X) == reference.predict(X)) > 0.95


def test_lambda_and_C_are_the_same_problem():
    n, penalty = 200, 0.01
    X, y = labelled(n, 3, 1.0, 6)
    problem = LinearProblem.build(X, y, cost_from_lambda(penalty, n), Hinge())
    w = np.random.default_rng(0).normal(size=3)
    papers = 0.5 * penalty * w @ w + np.maximum(0.0, 1.0 - y * (X @ w)).mean()
    assert penalty * problem.primal(w) == pytest.approx(papers, rel=1e-12)


@pytest.mark.parametrize("solver", [DCD(), "avsf"])
def test_solvers_that_do_not_know_huber_loss_say_so(solver):
    with pytest.raises(ValueError, match=r"cannot fit Huber\(width=0\.05\): use 'newton' or 'auto'"):
        solve(PROBLEMS["overlapping"](Huber(0.05)), solver)


def test_settings_and_problems_that_make_no_sense_are_refused():
    for name, value in (("step", 0.0), ("width", -0.01), ("width", 0.0), ("epsilon", math.inf)):
        with pytest.raises(ValueError, match=rf"{name} must be positive and finite; got {value}"):
            PrunedGradient(**{name: value})
    with pytest.raises(ValueError, match="overhead must be positive; got 0"):
        PrunedGradient(overhead=0)
    for penalty in (0.0, -1e-3):
        with pytest.raises(ValueError, match=rf"lambda must be positive and finite; got {penalty}"):
            cost_from_lambda(penalty, 10)
    with pytest.raises(ValueError, match=r"Huber loss must be positive and finite; got 0"):
        Huber(0)
    with pytest.raises(ValueError, match="LeastSquares"):
        solve(PROBLEMS["overlapping"](LeastSquares()), "pruned-gradient")


@pytest.mark.parametrize("evaluation", ["pruned", "paper"])
@pytest.mark.parametrize("epsilon", [1e-2, 1e-4])
def test_the_papers_rule_ends_a_solve_at_the_first_small_change_of_the_objective(evaluation, epsilon):
    n, penalty = 500, 1e-3
    X, y = labelled(n, 4, 1.0, 3)
    problem = LinearProblem.build(X, y, cost_from_lambda(penalty, n), Huber(0.1))
    solver = PrunedGradient(step=8.0, epsilon=epsilon, evaluation=evaluation, stop="paper")
    ended = solve(problem, solver, tol=1e-12)
    w, step, last, iterations = np.zeros(4), 8.0, math.inf, 0
    while True:
        margins = y * (X @ w)
        objective = Huber(0.1).value(margins).mean() + 0.5 * penalty * w @ w
        iterations += 1
        step = 0.5 * step if objective > last else step
        if abs(last - objective) < epsilon * last:
            break
        slopes = np.clip((1.1 - margins) / 0.2, 0.0, 1.0)
        w = w - step * (penalty * w - X.T @ (y * slopes) / n)
        last = objective
    assert ended.status is Status.SOLVER_RULE
    assert ended.epochs == iterations > 5
    assert penalty * ended.certificate.primal == pytest.approx(objective, rel=1e-10)
    assert ended.w == pytest.approx(w, rel=1e-8, abs=1e-10)
    assert len(ended.trace) == 1
    assert ended.certificate == certify(problem, ended.w, ended.alpha)

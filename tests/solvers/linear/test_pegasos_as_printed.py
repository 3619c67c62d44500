"""Algorithm 3 as printed: the same iterates as without it and as with our own variant, and the rule for storing margins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from maxmargin import LinearSVC
from maxmargin.certificate.linear import certify
from maxmargin.margin_bounds.sorted_sums import Resort, SortCosts
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.pegasos import Pegasos
from maxmargin.solvers.linear.pegasos_as_printed import PrintedBounds
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import PROBLEMS, labelled
from tests.solvers.linear.test_pegasos import MADE, made

RULES = {"adaptive": PrintedBounds(), "periodic": PrintedBounds(Resort.PERIODIC)}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("rule", RULES)
def test_the_iterates_are_those_without_it_and_those_of_our_own_variant(name, rule):
    problem = MADE[name]()
    k = 5 if name == "wide" else 50
    states = []
    for bounds, overhead in ((RULES[rule], 3.0), ("coded", 3.0), ("paper", math.inf)):
        solver = Pegasos(k, overhead, bounds)
        states.append(solver.init(problem, None, 5))
        solver.advance(problem, states[-1], Budget(200_000, 0.0))
    printed, coded, plain = states
    for other in (coded, plain):
        assert printed.w == pytest.approx(other.w, rel=1e-7, abs=1e-9 * np.abs(other.w).max())
        assert printed.slopes() == pytest.approx(other.slopes(), rel=1e-5, abs=1e-6)
    assert plain.examined == 200_000
    assert plain.times_stored == 0
    assert printed.times_stored > 1
    assert printed.examined < plain.examined


def test_exactly_the_draws_that_lines_8_and_10_leave_open_are_examined():
    problem = made(d=6)
    state = Pegasos(200, 10.0, "paper").init(problem, None, 3)
    state.run(4000)
    state._store()
    X = np.column_stack([problem.rows.matrix, np.full(problem.n_samples, problem.intercept_scaling)])
    norms, base = np.linalg.norm(X, axis=1), state.w
    stored, open_ = problem.y * (X @ base), []
    for _ in range(30):
        before, w = state.examined, state.w
        state.run(1)
        draws = state.drawn.astype(int)
        reach = np.linalg.norm(w - base) * norms[draws]
        open_.append(np.count_nonzero((stored[draws] - reach < 1.0) & (stored[draws] + reach >= 1.0)))
        assert state.examined - before == open_[-1]
    assert 0 < sum(open_) < 30 * 200
    assert state.times_stored > 1


def test_the_period_is_3_with_the_time_of_k_draws():
    problem = made(d=6)
    n, stored = problem.n_samples, problem.rows.n_stored
    state = Pegasos(50, 10.0, PrintedBounds(Resort.PERIODIC)).init(problem, None, 0)
    period = 10.0 * (stored + 6) / (stored * 50 / n + 6)
    assert state.rule.period == pytest.approx(period) == SortCosts.of_samples(problem, 50).period(10.0)
    state.run(4 * math.ceil(period) + 1)
    assert state.times_stored == 5


def test_section_3_keeps_what_is_stored_for_as_long_as_it_serves():
    """At the same period, it stores less often than every period."""
    problem = made(d=6)
    states = [Pegasos(50, 1.0, rule).init(problem, None, 0) for rule in RULES.values()]
    for state in states:
        state.run(20_000)
    adaptive, periodic = states
    assert 1 < adaptive.times_stored < 0.8 * periodic.times_stored


def test_when_no_draw_is_skipped_it_stops_trying_until_margins_are_stored_again():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 150)), rng.choice([-1, 1], size=2000)
    problem = LinearProblem.build(100.0 * X, y, 1.0, Hinge())
    state = Pegasos(20, 10.0, "paper").init(problem, None, 0)
    state.run(2)  # margins are stored at w = 0; the first step is long
    assert state.record["prunes"][0] == 0
    state.run(2 * math.ceil(state.rule.period))
    assert state.times_stored > 1
    assert state.examined >= 0.99 * state.steps


def test_a_step_at_a_time_is_the_same_as_all_at_once():
    problem, solver = MADE["sparse"](), Pegasos(20, 3.0, "paper")
    whole, chunked = solver.init(problem, None, 7), solver.init(problem, None, 7)
    solver.advance(problem, whole, Budget(2000 * 20, 0.0))
    for _ in range(2000):
        solver.advance(problem, chunked, Budget(1, 0.0))
    assert np.array_equal(whole.w, chunked.w)
    assert whole.examined == chunked.examined
    assert whole.times_stored == chunked.times_stored > 1


def test_it_is_certified_and_taken_by_solve_and_by_linear_svc():
    solution = solve(PROBLEMS["with-intercept"](Hinge()), Pegasos(bounds="paper"), tol=0.05, max_epochs=10_000)
    assert solution.status is Status.CERTIFIED
    X, y = labelled(150, 4, 1.0, 5)
    model = LinearSVC(solver=Pegasos(bounds="paper"), loss="hinge", tol=0.05).fit(X, y)
    assert model.status_ is Status.CERTIFIED


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"bounds must be 'coded', 'paper' or a PrintedBounds; got 'tight'"):
        Pegasos(bounds="tight")
    with pytest.raises(ValueError, match=r"resort must be Resort\.ADAPTIVE or Resort\.PERIODIC; got 3"):
        PrintedBounds(3)


@pytest.mark.parametrize("bounds", ["coded", "paper"])
def test_after_T_iterations_the_papers_rule_ends_a_solve(bounds):
    problem = made(d=6)
    ended = solve(problem, Pegasos(50, T=1234, bounds=bounds, stop="paper"), tol=0.5, random_state=5)
    state = Pegasos(50, bounds=bounds).init(problem, None, 5)
    state.run(1234)
    assert ended.status is Status.SOLVER_RULE
    assert ended.steps == 1234 * 50
    assert np.array_equal(ended.w, state.w)
    assert ended.certificate == certify(problem, ended.w, ended.alpha)


def test_T_and_the_papers_rule_go_together():
    for settings in ({"T": 10}, {"stop": "paper"}):
        with pytest.raises(ValueError, match=r"T, the number of iterations, and stop='paper' need each other"):
            Pegasos(**settings)
    for T in (0, 2.5):
        with pytest.raises(ValueError, match=rf"T, the number of iterations, must be a whole number of at least 1; got {T}"):
            Pegasos(T=T, stop="paper")
    with pytest.raises(ValueError, match="stop must be 'gap' or 'paper'; got 'soon'"):
        Pegasos(stop="soon")

"""Adaptive variable selection frequencies: Algorithms 3, 4 and 5 of Glasmachers and Dogan (2013)."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from scipy import sparse

from maxmargin.certificate.linear import certify
from maxmargin.data.random_loops import first_word
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, LeastSquares
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.avsf import AVSF, AVSFState
from maxmargin.solvers.linear.avsf_loop import COORDINATE, SWEEP, define_schedule
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import LOSSES, PROBLEMS, labelled

losses = pytest.mark.parametrize("loss_name", LOSSES)


@pytest.mark.parametrize("problem_name", ["sparse", "weighted"])
@pytest.mark.parametrize("chunk", [1, 37, 151])
def test_a_chunk_at_a_time_is_the_same_as_all_at_once(problem_name, chunk):
    """The loop can be cut anywhere, bit for bit, from the first sweep over adapted ones to the uniform sweep at the end."""
    problem, solver = PROBLEMS[problem_name](Hinge()), AVSF()
    whole, chunked = solver.init(problem, None, 7), solver.init(problem, None, 7)
    while whole.steps < 6000:
        solver.advance(problem, whole, Budget(6000 - whole.steps, 1e-4))
    while chunked.steps < 6000:
        solver.advance(problem, chunked, Budget(min(chunk, 6000 - chunked.steps), 1e-4))
    assert whole.samples.tobytes() == chunked.samples.tobytes()
    assert whole.sweep.tobytes() == chunked.sweep.tobytes()
    assert np.array_equal(whole.w, chunked.w)
    assert np.array_equal(whole.index, chunked.index)


@losses
def test_a_step_never_lowers_the_dual_and_its_running_value_is_right(loss_name):
    problem, solver = PROBLEMS["with-intercept"](LOSSES[loss_name]), AVSF()
    state = solver.init(problem, None, 0)
    last = 0.0
    for _ in range(600):
        solver.advance(problem, state, Budget(1, 0.0))
        value = problem.dual(state.samples["alpha"].copy())
        assert value >= last - 1e-12
        assert value == pytest.approx(float(state.sweep["dual"][0]), rel=1e-9, abs=1e-12)
        last = value


@njit
def schedules(samples, present, schedule, sweep, draws):
    """How often each sample came in each of so many schedules of Algorithm 4."""
    counts = np.zeros((draws, samples.shape[0]))
    for draw in range(draws):
        define_schedule(samples, present, schedule, sweep[0])
        for k in range(present.shape[0]):
            counts[draw, schedule[k]] += 1.0
    return counts


def drawn_schedules(preferences, draws, sum_error=0.0, is_uniform=False):
    n = len(preferences)
    samples, sweep = np.zeros(n, COORDINATE), np.zeros(1, SWEEP)
    samples["preference"] = preferences
    sweep["preference_sum"] = preferences.sum() * (1.0 + sum_error)
    sweep["random"], sweep["is_uniform"] = first_word(0), is_uniform
    present = np.arange(n, dtype=np.uint32)
    counts = schedules(samples, present, np.full(n + 1, 2**32 - 1, np.uint32), sweep, draws)
    return counts, samples["stands_for"]


@pytest.mark.parametrize("n", [1, 2, 40])
def test_the_schedule_has_the_right_length_and_the_right_expected_counts(n):
    preferences = np.exp(np.random.default_rng(n).uniform(np.log(1 / 20), np.log(20.0), n))
    expected = n * preferences / preferences.sum()
    counts, stands_for = drawn_schedules(preferences, 40_000)
    assert np.all(counts.sum(axis=1) == n)
    assert np.abs(counts.mean(axis=0) - expected).max() < 0.02
    assert stands_for == pytest.approx(1.0 / expected)


def test_equal_preferences_give_every_sample_one_place():
    assert np.all(drawn_schedules(np.full(50, 0.3), 1000)[0] == 1.0)
    counts, stands_for = drawn_schedules(np.ones(50), 10, is_uniform=True)
    assert np.all(counts == 1.0)
    assert np.all(stands_for == 1.0)


@pytest.mark.parametrize("sum_error", [-1e-2, -1e-9, 1e-9, 1e-2])
@pytest.mark.parametrize("least", [1e-300, 1 / 20])
def test_a_sum_of_preferences_that_is_off_does_not_change_the_length_of_the_schedule(sum_error, least):
    preferences = np.where(np.arange(30) % 3 == 0, 20.0, least)
    counts, _ = drawn_schedules(preferences, 2000, sum_error)
    assert np.all(counts.sum(axis=1) == 30)


@losses
def test_the_preferences_stay_in_their_bounds_and_their_sum_is_right(loss_name):
    problem, solver = PROBLEMS["overlapping"](LOSSES[loss_name]), AVSF(min_preference=0.2, max_preference=3.0)
    state = solver.init(problem, None, 0)
    least, most = 1.0, 1.0
    for _ in range(200):
        solver.advance(problem, state, Budget(50, 0.0))
        preferences = state.samples["preference"]
        least, most = min(least, preferences.min()), max(most, preferences.max())
        assert state.sweep["preference_sum"][0] == pytest.approx(preferences.sum())
    assert least == 0.2
    assert most == 3.0


def test_the_preferences_follow_algorithm_5_step_by_step():
    problem, solver = PROBLEMS["overlapping"](Hinge()), AVSF()
    state, n = solver.init(problem, None, 3), 120
    preferences, reference, dual = np.ones(n), 0.0, 0.0
    for step in range(5 * n):
        before = state.samples["alpha"].copy()
        solver.advance(problem, state, Budget(1, 0.0))
        gain, dual = state.sweep["dual"][0] - dual, state.sweep["dual"][0]
        if step < n:
            assert np.all(state.samples["preference"] == 1.0)
            reference += gain / n
            continue
        changed = np.flatnonzero(state.samples["preference"] != preferences)
        moved = np.flatnonzero(state.samples["alpha"] != before)
        assert len(changed) <= 1
        assert len(moved) == 0 or moved == changed or state.samples["preference"][moved] in (1 / 20, 20.0)
        for i in changed:
            wanted = preferences[i] * np.exp(0.2 * (gain / reference - 1.0))
            assert state.samples["preference"][i] == pytest.approx(min(max(wanted, 1 / 20), 20.0), rel=1e-6)
        reference = (1.0 - 1.0 / n) * reference + gain / n
        preferences = state.samples["preference"].copy()


def wide_with_a_few_contradictions(C: float) -> LinearProblem:
    """Sparse rows that are easily separated, but for ten that come again, a little shorter, with the other label."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(1000, 5000, density=0.004, random_state=rng))
    y = np.where(X @ rng.normal(size=5000) > 0.0, 1, -1)
    return LinearProblem.build(sparse.vstack([X, 0.9 * X[:10]], format="csr"), np.concatenate([y, -y[:10]]), C)


def test_it_needs_far_fewer_steps_than_dual_coordinate_descent_at_large_C():
    problem = wide_with_a_few_contradictions(100.0)
    adaptive, uniform = (solve(problem, solver, tol=1e-4) for solver in (AVSF(), DCD()))
    assert adaptive.status is uniform.status is Status.CERTIFIED
    assert 5 * adaptive.steps < uniform.steps


def run_by_its_own_rule(problem: LinearProblem, solver: AVSF) -> AVSFState:
    state = solver.init(problem, None, 0)
    while not state.looks_done:
        solver.advance(problem, state, Budget(10_000, 0.0))
    return state


def test_its_own_rule_ends_with_every_projected_gradient_within_epsilon():
    problem = PROBLEMS["overlapping"](Hinge())
    state = run_by_its_own_rule(problem, AVSF(epsilon=1e-3))
    w, alpha = AVSF().candidate(problem, state)
    gradient = problem.margins(w) - 1.0
    projected = np.where(alpha == 0.0, np.minimum(gradient, 0), np.where(alpha == 1.0, np.maximum(gradient, 0), gradient))
    assert state.violation < 1e-3
    assert np.abs(projected).max() < 5 * 1e-3  # the rule sees each gradient at its own moment of the last sweep
    assert state.steps % 120 == 0


def test_its_own_rule_ends_after_a_uniform_sweep():
    """The last sweep but one met epsilon too, and after it the preferences went back to 1."""
    problem, solver = PROBLEMS["overlapping"](Hinge()), AVSF(epsilon=1e-3)
    steps = run_by_its_own_rule(problem, solver).steps
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(steps - 120, 0.0))
    assert state.violation < 1e-3
    assert np.all(state.samples["preference"] == 1.0)
    solver.advance(problem, state, Budget(119, 0.0))
    assert len(set(state.index[:120])) == 120


def test_a_refused_certificate_tightens_epsilon_and_asks_for_a_smaller_gap():
    problem, solver = PROBLEMS["overlapping"](Hinge()), AVSF(epsilon=1e-2)
    state = run_by_its_own_rule(problem, solver)
    violation = state.violation
    solver.advance(problem, state, Budget(1, 1e-3))
    assert state.sweep["epsilon"][0] == pytest.approx(0.3 * violation)
    assert state.caution < 1.0
    assert not state.looks_done


@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [1.0, 30.0])
def test_the_gap_that_it_estimates_is_near_the_true_gap(loss_name, C):
    problem = LinearProblem.build(*labelled(2000, 30, 1.0, 0), C, LOSSES[loss_name])
    solver, ratios = AVSF(), []
    state = solver.init(problem, None, 0)
    for _ in range(60):
        solver.advance(problem, state, Budget(2000, 0.0))
        ratios.append(state.sweep["last_gap"][0] / certify(problem, *solver.candidate(problem, state)).gap)
    assert 0.8 < np.median(ratios) < 2.0
    assert np.all((0.2 < np.array(ratios)) & (np.array(ratios) < 4.0))


def test_the_gap_looked_for_ends_a_run_before_its_own_rule_does():
    problem, solver = LinearProblem.build(*labelled(2000, 5, 1.0, 0), 1.0), AVSF(epsilon=1e-9)
    state = solver.init(problem, None, 0)
    while not state.looks_done:
        solver.advance(problem, state, Budget(10_000, 1e-3))
    assert state.violation > 1e-9
    assert certify(problem, *solver.candidate(problem, state)).relative_gap < 2e-3


def test_a_feature_of_one_row_folded_into_the_diagonal_gives_the_same_run():
    """Such a feature adds x_ij^2 to D_ii. So the hinge is known by its bound, not by D = 0."""
    X, y = labelled(80, 6, 1.0, 0)
    own = np.where(np.arange(80) % 2, np.linspace(0.5, 2.0, 80), 0.0)
    solver = AVSF()
    whole, folded = LinearProblem.build(np.column_stack([X, np.diag(own)]), y), LinearProblem.build(X, y)
    one, other = solver.init(whole, None, 0), solver.init(folded, None, 0)
    other.samples["D"] = np.square(own)
    for _ in range(10):
        solver.advance(whole, one, Budget(80, 0.0))
        solver.advance(folded, other, Budget(80, 0.0))
        assert other.samples["alpha"] == pytest.approx(one.samples["alpha"], abs=1e-9)
        assert other.sweep["dual"][0] == pytest.approx(one.sweep["dual"][0])
        assert other.sweep["last_gap"][0] == pytest.approx(one.sweep["last_gap"][0])


def test_a_zero_row_goes_straight_to_its_bound():
    solution = solve(PROBLEMS["zero-rows"](Hinge()), AVSF(), tol=1e-6)
    assert np.all(solution.alpha[::7] == 1.0)


def test_samples_without_a_cost_are_absent():
    problem, solver = PROBLEMS["weighted"](Hinge()), AVSF()
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(1000, 0.0))
    assert state.active == 64
    assert np.all(state.samples["preference"][::5] == 1.0)
    assert np.all(state.samples["alpha"][::5] == 0.0)


def test_a_warm_start_at_the_optimum_is_certified_at_once_and_near_it_saves_steps():
    problem = PROBLEMS["sparse"](Hinge())
    cold = solve(problem, AVSF(), tol=1e-8)
    assert solve(problem, AVSF(), tol=1e-7, warm_start=cold).steps == 0
    near = LinearProblem.build(problem.rows.matrix, problem.y, 1.02)
    assert solve(near, AVSF(), tol=1e-6, warm_start=cold).steps < solve(near, AVSF(), tol=1e-6).steps


def test_a_first_sweep_without_any_gain_is_survived():
    """Delta_ref is zero then. One sample at a bound moves later, when C has grown: its ratio to Delta_ref is infinite."""
    X, y = np.eye(4), np.ones(4)
    problem, solver = LinearProblem.build(X, y, 0.5), AVSF(epsilon=1e-9)
    state = solver.init(problem, np.full(4, 0.5), 0)
    solver.advance(problem, state, Budget(4, 0.0))
    assert state.sweep["reference_gain"][0] == 0.0
    state.samples["U"] = [0.5, 0.5, 0.5, 0.7]
    while not state.is_stuck:
        solver.advance(problem, state, Budget(100, 0.0))
    assert state.samples["alpha"] == pytest.approx([0.5, 0.5, 0.5, 0.7])
    assert np.all((1 / 20 <= state.samples["preference"]) & (state.samples["preference"] <= 20.0))


def test_asked_for_everything_it_ends_at_the_limit_of_precision():
    solution = solve(PROBLEMS["overlapping"](Hinge()), AVSF(), tol=0.0)
    assert solution.status in (Status.PRECISION_LIMIT, Status.CERTIFIED)
    assert solution.certificate.relative_gap < 1e-12


def test_least_squares_equals_the_normal_equations():
    problem = PROBLEMS["overlapping"](LeastSquares())
    X = problem.rows.matrix
    exact = np.linalg.solve(np.eye(6) + 2.0 * X.T @ X, 2.0 * X.T @ problem.y)
    solution = solve(problem, AVSF(), tol=1e-9)
    assert np.linalg.norm(solution.w - exact) <= solution.certificate.distance_bound + 1e-12


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be positive and finite; got 0"),
        ({"learning_rate": np.inf}, "learning_rate must be positive and finite; got inf"),
        ({"min_preference": 0.0}, r"min_preference must lie in \(0, 1\], as each starts at 1; got 0"),
        ({"min_preference": 2.0}, r"min_preference must lie in \(0, 1\], as each starts at 1; got 2"),
        ({"max_preference": 0.5}, "max_preference must be finite and at least 1, as each starts at 1; got 0.5"),
        ({"max_preference": np.nan}, "max_preference must be finite and at least 1, as each starts at 1; got nan"),
        ({"epsilon": -1.0}, "epsilon must be positive; got -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        AVSF(**settings)

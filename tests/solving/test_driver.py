"""The driver: statuses, limits, callbacks, warm starts, determinism, and input at the edge of float64."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.certificate.intercept import linear_offset_bound
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Polynomial
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.problem.regression_losses import EpsilonInsensitive, Quantile
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solving.driver import seed_from, solve
from maxmargin.solving.solution import Status
from tests.catalogue import LOSSES, PROBLEMS, labelled
from tests.certificate.test_linear import exact_gap
from tests.certificate.test_weight_bounds import assert_below_all


@pytest.fixture
def problem() -> LinearProblem:
    return PROBLEMS["overlapping"](Hinge())


def test_the_trace_has_a_row_for_each_certificate_and_ends_with_the_answer(problem):
    solution = solve(problem, tol=1e-8)
    assert [row.steps for row in solution.trace] == sorted(row.steps for row in solution.trace)
    assert solution.trace[-1].gap == solution.certificate.gap
    assert solution.trace[-1].steps == solution.steps
    assert all(earlier.dual <= later.dual + 1e-9 for earlier, later in zip(solution.trace, solution.trace[1:], strict=False))


def test_an_epoch_limit_is_kept_and_named(problem):
    solution = solve(problem, tol=1e-12, max_epochs=3)
    assert solution.status is Status.EPOCH_LIMIT
    assert solution.steps == 3 * problem.n_samples


def test_no_epochs_at_all_give_the_certificate_of_the_start(problem):
    solution = solve(problem, max_epochs=0)
    assert solution.steps == 0
    assert np.all(solution.w == 0.0)
    assert solution.certificate.relative_gap == 1.0


def test_a_time_limit_is_named():
    solution = solve(LinearProblem.build(*labelled(3000, 20, 3.0, 0), 100.0), "dcd", tol=0.0, max_seconds=0.05)
    assert solution.status is Status.TIME_LIMIT
    assert math.isfinite(solution.certificate.gap)


def test_a_callback_sees_every_certificate_and_can_stop(problem):
    seen = []
    solution = solve(problem, tol=1e-8, callback=seen.append)
    assert tuple(seen) == solution.trace
    with pytest.raises(FrozenInstanceError):
        seen[0].gap = 0.0
    long_one = LinearProblem.build(*labelled(3000, 20, 3.0, 0), 100.0)
    stopped = solve(long_one, "dcd", tol=1e-12, callback=lambda progress: len(seen) > 0)
    assert stopped.status is Status.STOPPED
    assert len(stopped.trace) == 1


def test_an_exception_in_a_callback_is_not_swallowed(problem):
    with pytest.raises(ZeroDivisionError):
        solve(problem, callback=lambda progress: 1 / 0)


def test_ctrl_c_leaves_the_best_answer_so_far():
    def interrupt(progress):
        raise KeyboardInterrupt

    solution = solve(LinearProblem.build(*labelled(3000, 20, 3.0, 0), 100.0), "dcd", tol=1e-12, callback=interrupt)
    assert solution.status is Status.STOPPED
    assert solution.certificate.gap == pytest.approx(min(row.gap for row in solution.trace), rel=1e-9)


def test_ctrl_c_before_the_first_certificate_still_gives_one(problem):
    class Interrupted(DCD):
        def advance(self, problem, state, budget):
            super().advance(problem, state, budget)
            raise KeyboardInterrupt

    solution = solve(problem, Interrupted(), tol=0.0)
    assert solution.status is Status.STOPPED
    assert 0.0 < solution.certificate.relative_gap < 1.0


@pytest.mark.parametrize("loss_name", LOSSES)
def test_a_warm_start_from_the_answer_takes_no_step(loss_name):
    problem = PROBLEMS["with-intercept"](LOSSES[loss_name])
    cold = solve(problem, tol=1e-6)
    for start in (cold, cold.alpha):
        warm = solve(problem, tol=1e-5, warm_start=start)
        assert warm.steps == 0
        assert warm.status is Status.CERTIFIED


def test_a_warm_start_from_a_neighbouring_cost_takes_fewer_steps():
    X, y = labelled(500, 10, 1.0, 0)
    start = solve(LinearProblem.build(X, y, 1.0), tol=1e-6)
    next_one = LinearProblem.build(X, y, 1.1)
    assert solve(next_one, tol=1e-6, warm_start=start.alpha * 1.1).steps < solve(next_one, tol=1e-6).steps


def test_a_warm_start_outside_the_box_is_clipped(problem):
    wild = np.linspace(-5.0, 5.0, problem.n_samples)
    assert solve(problem, tol=1e-6, warm_start=wild).status is Status.CERTIFIED


@pytest.mark.parametrize("bad", [np.zeros(3), np.full(120, np.nan)])
def test_a_warm_start_that_cannot_be_used_is_refused(problem, bad):
    with pytest.raises(ValueError, match="warm_start"):
        solve(problem, warm_start=bad)


def test_the_same_seed_gives_the_same_answer_and_another_seed_another(problem):
    one, same, other = (solve(problem, "dcd", tol=1e-3, random_state=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.w, same.w)
    assert not np.array_equal(one.w, other.w)


def test_threads_solving_at_once_give_the_answers_of_one_after_the_other():
    problems = [LinearProblem.build(*labelled(400, 8, 1.0, seed), 1.0) for seed in range(8)]
    alone = [solve(problem, tol=1e-6).w for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda problem: solve(problem, tol=1e-6).w, problems))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


def test_the_global_random_state_is_left_alone(problem):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    solve(problem, random_state=None)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_seeds_come_from_everything_that_numpy_and_scikit_learn_use():
    assert seed_from(None) == 0
    assert seed_from(np.int64(5)) == 5
    assert seed_from(np.random.RandomState(1)) == seed_from(np.random.RandomState(1))
    assert seed_from(np.random.default_rng(1)) == seed_from(np.random.default_rng(1))
    for bad in (-1, "x", 1.5):
        with pytest.raises(ValueError, match="random_state"):
            seed_from(bad)


@pytest.mark.parametrize("name", ["tol", "max_epochs", "max_seconds"])
@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_limits_that_make_no_sense_are_named(problem, name, value):
    with pytest.raises(ValueError, match=f"{name} must be zero or positive; got {value!r}"):
        solve(problem, **{name: value})


def test_an_unknown_solver_is_named_with_those_there_are(problem):
    there_are = "'auto', 'avsf', 'dcd', 'newton', 'pair-descent', 'pegasos', 'pruned-gradient'"
    with pytest.raises(ValueError, match=f"no solver named 'sgd'; there are {there_are}"):
        solve(problem, "sgd")


def test_asking_for_all_that_float64_can_give_ends_at_the_precision_limit():
    problem = LinearProblem.build(*labelled(40, 3, 1.0, 0), 0.01)
    solution = solve(problem, tol=0.0)
    assert solution.status in (Status.PRECISION_LIMIT, Status.CERTIFIED)
    assert solution.certificate.relative_gap < 1e-12


def test_a_hopelessly_ill_conditioned_problem_ends_and_says_so():
    solution = solve(LinearProblem.build(*labelled(200, 20, 1.0, 0), 1e10), tol=1e-6)
    assert solution.status in (Status.PRECISION_LIMIT, Status.CERTIFIED)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 12),
    d=st.integers(1, 5),
    scale=st.sampled_from([1e-150, 1e-30, 1e-3, 1.0, 1e3, 1e30, 1e150]),
    C=st.sampled_from([1e-10, 1e-3, 1.0, 1e3, 1e10]),
    loss=st.sampled_from(list(LOSSES.values())),
    scaling=st.sampled_from([0.0, 1.0]),
    awkward=st.sampled_from(["plain", "zero rows", "duplicates", "same rows", "one feature huge"]),
)
def test_whatever_comes_in_the_certificate_is_right_and_nothing_hangs(seed, n, d, scale, C, loss, scaling, awkward):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if awkward == "zero rows":
        X[::2] = 0.0
    elif awkward == "duplicates":
        X[n // 2 :] = X[: n - n // 2]
    elif awkward == "same rows":
        X[:] = X[0]
    elif awkward == "one feature huge":
        X[:, 0] *= 1e8
    problem = LinearProblem.build(scale * X, np.where(np.arange(n) % 2 == 0, 1, -1), C, loss, scaling)
    solution = solve(problem, tol=1e-4, max_epochs=3000)
    exact = exact_gap(problem, solution.w, solution.alpha)
    certificate = solution.certificate
    if certificate.has_bounded_weights:
        assert_below_all(problem, solution)
        return
    if math.isfinite(certificate.gap):
        assert abs(certificate.gap - float(exact)) <= certificate.rounding_error * (1 + 1e-9)
    if solution.status is Status.CERTIFIED:
        assert float(exact) <= 1e-4 * max(abs(certificate.primal), abs(certificate.dual))


@pytest.mark.parametrize("C", [1e2, 1e4])
def test_samples_beyond_the_margin_cost_no_precision_at_large_costs(C):
    X, y = labelled(500, 40, 0.0, 0)
    assert solve(LinearProblem.build(X, y, C), tol=1e-5).status is Status.CERTIFIED


@pytest.mark.parametrize("tol", [0.0, 1e-300])
def test_a_tolerance_below_rounding_ends_when_no_step_is_left(tol):
    """Four samples found by the soak: SMO on the held matrix is done, no certificate can say more, and no step is made."""
    X = np.array([[5.0, 6.0, -0.125], [-3.0, -0.125, 0.0], [-0.375, -0.625, 0.375], [1.0, 4.0, -0.5]])
    problem = KernelProblem.build(X, [-1, 1, -1, 1], 1.0, Polynomial(gamma=1.0, coef0=0.0, degree=3), has_offset=False)
    solution = solve(problem, tol=tol)
    assert solution.status is Status.PRECISION_LIMIT
    assert solution.certificate.relative_gap < 1e-13
    assert len(solution.trace) < 100


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
@pytest.mark.parametrize("n", [40, 300])
def test_a_solve_of_few_samples_in_one_go_is_that_of_the_drivers_loop(n, tol):
    random = np.random.default_rng(n)
    X = random.standard_normal((n, 4))
    y = np.where(X[:, 0] + 0.7 * random.standard_normal(n) > 0.0, 1, -1)
    rows = []
    looped = solve(KernelProblem.build(X, y, 2.0, RBF(0.3)), tol=tol, callback=rows.append)
    solution = solve(KernelProblem.build(X, y, 2.0, RBF(0.3)), tol=tol)
    assert len(rows) == len(solution.trace) == 1  # the first answer will do
    assert np.array_equal(solution.alpha, looped.alpha)
    same = ("b", "certificate", "status", "steps", "epochs", "kernel_evaluations", "offset_bound")
    assert all(getattr(solution, name) == getattr(looped, name) for name in same)


def test_an_answer_in_one_go_that_is_not_good_enough_is_left_to_the_driver():
    random = np.random.default_rng(0)
    X, y = random.standard_normal((300, 2)), random.choice([-1, 1], 300)
    problem = KernelProblem.build(X, y, 1e4, RBF(20.0))
    assert solve(problem, tol=1e-6, max_seconds=0.0).status is Status.TIME_LIMIT
    assert solve(problem, tol=0.0).status is Status.PRECISION_LIMIT
    assert solve(problem, tol=1e-6).status is Status.CERTIFIED


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), EpsilonInsensitive(0.1), Quantile(0.3)], ids=repr)
def test_a_linear_answer_in_one_go_bounds_its_free_intercept_as_the_drivers_loop_does(loss):
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 4))
    outputs = X[:, 0] + 0.7 * random.standard_normal(60) + 3.0
    problem = LinearProblem.build(
        X, outputs if loss.is_regression else np.where(outputs > 3.0, 1, -1), 2.0, loss, 1.0, penalizes_intercept=False
    )
    rows = []
    looped, in_one_go = solve(problem, tol=1e-2, callback=rows.append), solve(problem, tol=1e-2)
    assert looped.certificate == in_one_go.certificate
    assert (
        0.0 < looped.offset_bound == in_one_go.offset_bound == linear_offset_bound(problem, in_one_go.w, in_one_go.certificate)
    )

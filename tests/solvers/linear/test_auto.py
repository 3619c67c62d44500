"""The default solver: it goes where the work is least, says why, and gives the same answer to the same call."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate.linear import certify
from maxmargin.models.checkpoint import Checkpoint, Checkpointed
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.switching import SwitchingPolicy
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Solution, Status
from tests.catalogue import LOSSES, PROBLEMS, feasible_point, labelled
from tests.solvers.linear.test_avsf import wide_with_a_few_contradictions

losses = pytest.mark.parametrize("loss_name", LOSSES)


def narrow(C: float, loss=None, n: int = 17_000) -> LinearProblem:
    return LinearProblem.build(*labelled(n, 30, 3.0, 0), C, loss, intercept_scaling=1.0)


def narrow_with_repeated_rows(C: float) -> LinearProblem:
    X, y = labelled(2000, 60, 3.0, 1)
    X[np.random.default_rng(1).random(X.shape) < 0.8] = 0.0
    return LinearProblem.build(sparse.csr_array(np.vstack([X, X, X])), np.tile(y, 3), C)


STAGES = {
    "dcd": lambda: narrow(0.001),
    "newton": lambda: narrow(300.0),
    "few-features": lambda: narrow(300.0, n=4000),
    "newton-on-merged-rows": lambda: narrow_with_repeated_rows(300.0),
    "avsf": lambda: wide_with_a_few_contradictions(1000.0),
    "small": lambda: PROBLEMS["overlapping"](Hinge()),
    "free-intercept": lambda: LinearProblem.build(*labelled(4000, 30, 3.0, 0), 1.0, None, 1.0, penalizes_intercept=False),
}
"""A problem for each way through auto."""
LAST = {"newton-on-merged-rows": "newton", "few-features": "newton", "small": "newton", "free-intercept": "newton"}
stages = pytest.mark.parametrize("stage", STAGES)


def solvers(solution: Solution) -> list[str]:
    """Those at work at the certificates, in turn."""
    names = [row.solver for row in solution.trace]
    return [name for name, before in zip(names, ["", *names], strict=False) if name != before]


# Where it goes

FORECAST = r"(dcd would need about \d+ more epochs|the gap of dcd does not fall)"


@stages
def test_each_way_ends_certified_with_the_solver_meant_for_it(stage):
    problem = STAGES[stage]()
    solution = solve(problem, tol=1e-5)
    assert solution.status is Status.CERTIFIED
    assert solution.trace[-1].solver == LAST.get(stage, stage)
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


def test_a_narrow_problem_at_a_large_C_goes_to_newton_and_says_why():
    last = solve(narrow(300.0), tol=1e-6).trace[-1]
    assert last.solver == "newton"
    assert re.fullmatch(FORECAST + ", and the features are few", last.reason)


def test_a_wide_problem_at_a_large_C_goes_to_avsf_and_says_why():
    last = solve(wide_with_a_few_contradictions(1000.0), tol=1e-5).trace[-1]
    assert last.solver == "avsf"
    assert re.fullmatch(FORECAST + ", and the features are many", last.reason)


@pytest.mark.parametrize("tol", [1e-1, 1e-2])
def test_what_is_nearly_done_stays_where_it_is(tol):
    solution = solve(narrow(0.001), tol=tol)
    assert solvers(solution) == ["dcd"]
    assert {row.reason for row in solution.trace} == {"first"}


def test_a_problem_with_few_features_and_not_many_samples_goes_to_newton_at_once():
    solution = solve(narrow(1.0, n=4000), tol=1e-5)
    assert {(row.solver, row.reason) for row in solution.trace} == {("newton", "the features are few")}
    assert len(solution.trace) == 1


def test_an_intercept_without_penalty_goes_to_newton_at_once():
    solution = solve(STAGES["free-intercept"](), tol=1e-5)
    assert {(row.solver, row.reason) for row in solution.trace} == {("newton", "the intercept is not penalised")}


@pytest.mark.parametrize("problem_name", PROBLEMS)
@losses
@pytest.mark.parametrize("tol", [1e-1, 1e-4])
def test_a_small_problem_is_finished_to_rounding_error_whatever_tol(problem_name, loss_name, tol):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    solution = solve(problem, tol=tol)
    assert solution.status is Status.CERTIFIED
    assert solution.certificate.relative_gap <= 1e-11
    assert solution.trace[-1].reason == "a small problem is finished to rounding error"


@pytest.mark.parametrize("problem_name", PROBLEMS)
@losses
def test_every_problem_is_certified_also_when_it_does_not_count_as_small(problem_name, loss_name):
    """What the catalogue holds is small, so else the coordinates would never be tried on it."""
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    solution = solve(problem, Auto(SwitchingPolicy(small_elements=0, few_class_elements=0)), tol=1e-7)
    assert solution.status is Status.CERTIFIED
    assert solution.certificate.meets(1e-7)
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


@pytest.mark.parametrize("problem_name", PROBLEMS)
@losses
def test_every_problem_is_certified_also_by_avsf_on_renumbered_columns(problem_name, loss_name):
    """With no problem narrow, all that takes long goes to AVSF."""
    not_small = SwitchingPolicy(small_elements=0, few_class_elements=0)
    policy = replace(not_small, most_matrix_weights=0, uses_products=False, long_factor=0.0)
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    solution = solve(problem, Auto(policy), tol=1e-7)
    assert solution.status is Status.CERTIFIED
    assert "newton" not in solvers(solution)
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


# What it says on the way


@stages
def test_the_primal_value_in_the_trace_never_rises_and_the_dual_never_falls(stage):
    trace = solve(STAGES[stage](), tol=1e-8, max_epochs=3000).trace
    for earlier, later in pairwise(trace):
        assert later.primal <= earlier.primal * (1.0 + 1e-12)
        assert later.dual >= earlier.dual - 1e-12 * abs(earlier.dual)
        assert later.steps > earlier.steps
        assert later.gap <= earlier.gap * (1.0 + 1e-9) + 1e-11 * earlier.primal


# Sameness


@stages
def test_the_same_call_gives_the_same_answer_bit_for_bit(stage):
    problem = STAGES[stage]()
    one, other = solve(problem, tol=1e-5, random_state=3), solve(problem, tol=1e-5, random_state=3)
    assert np.array_equal(one.w, other.w)
    assert np.array_equal(one.alpha, other.alpha)
    assert one.certificate == other.certificate
    assert [(row.steps, row.solver, row.gap) for row in one.trace] == [(row.steps, row.solver, row.gap) for row in other.trace]


@stages
def test_the_clock_has_no_say(monkeypatch, stage):
    problem = STAGES[stage]()
    calm = solve(problem, tol=1e-5)
    moments = iter(np.cumsum(np.random.default_rng(0).exponential(1e3, size=10**6)).tolist())
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    wild = solve(problem, tol=1e-5)
    assert np.array_equal(calm.w, wild.w)
    assert np.array_equal(calm.alpha, wild.alpha)
    assert [row.steps for row in calm.trace] == [row.steps for row in wild.trace]


# The best of both


class TwoMinds:
    """Its candidates have in turn a good w with a bad alpha, and a bad w with a good alpha."""

    name = "two minds"

    def __init__(self, good: Solution, bad: tuple[np.ndarray, np.ndarray]) -> None:
        self.good, self.bad = good, bad

    def init(self, problem, warm_start, seed):
        return SimpleNamespace(steps=0, stage=Stage(self.name), active=0, looks_done=False, has_best_w=False, is_stuck=False)

    def advance(self, problem, state, budget):
        state.steps += budget.steps

    def candidate(self, problem, state):
        state.looks_done = not state.looks_done
        return (self.good.w, self.bad[1]) if state.looks_done else (self.bad[0], self.good.alpha)


@losses
def test_the_best_w_and_the_best_alpha_need_not_come_together(loss_name):
    problem = PROBLEMS["overlapping"](LOSSES[loss_name])
    good, bad = solve(problem, tol=1e-9), feasible_point(problem, 0)
    apart = [certify(problem, good.w, bad[1]), certify(problem, bad[0], good.alpha)]
    solution = solve(problem, TwoMinds(good, bad), tol=1e-8)
    assert solution.status is Status.CERTIFIED
    assert solution.certificate.meets(1e-8)
    assert solution.certificate.gap < 1e-3 * min(certificate.gap for certificate in apart)
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


@losses
def test_what_is_kept_is_not_overwritten_by_what_comes_after(loss_name):
    """Candidates may be views: a good one that is overwritten by a bad one must have been copied."""
    problem = PROBLEMS["overlapping"](LOSSES[loss_name])
    good, bad = solve(problem, tol=1e-9), feasible_point(problem, 0)

    class OneMemory(TwoMinds):
        w, alpha = np.empty(problem.n_weights), np.empty(problem.n_samples)

        def candidate(self, problem, state):
            pair = (good.w, good.alpha) if state.steps == 0 else bad
            self.w[:], self.alpha[:] = 0.999 * pair[0], 0.999 * pair[1]
            return self.w, self.alpha

    solution = solve(problem, OneMemory(good, bad), tol=0.0, max_epochs=30, warm_start=np.zeros(problem.n_samples))
    assert solution.status in (Status.EPOCH_LIMIT, Status.PRECISION_LIMIT)
    assert solution.certificate.primal <= problem.primal(0.999 * good.w) * (1.0 + 1e-12)
    assert solution.certificate.dual == pytest.approx(problem.dual(0.999 * good.alpha), rel=1e-12)
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


# Beginning and end


@stages
def test_a_warm_start_from_the_answer_costs_less_than_a_cold_one(stage):
    problem = STAGES[stage]()
    cold = solve(problem, tol=1e-6)
    warm = solve(problem, tol=1e-4, warm_start=cold)
    assert warm.status is Status.CERTIFIED
    assert warm.steps < cold.steps


def test_a_warm_start_may_lie_anywhere():
    problem = narrow(10.0)
    for start in (feasible_point(problem, 0)[1], np.full(problem.n_samples, -3.0), problem.C):
        assert solve(problem, tol=1e-5, warm_start=start).status is Status.CERTIFIED


@stages
@pytest.mark.parametrize("max_epochs", [0, 1, 3, 10, 25])
def test_the_limit_on_epochs_is_kept_in_every_stage(stage, max_epochs):
    problem = STAGES[stage]()
    solution = solve(problem, tol=0.0, max_epochs=max_epochs)
    assert solution.status in (Status.EPOCH_LIMIT, Status.PRECISION_LIMIT)
    assert solution.steps < (max_epochs + 1) * problem.n_samples
    assert solution.status is Status.PRECISION_LIMIT or solution.epochs >= max_epochs
    assert np.isfinite(solution.certificate.gap)
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


@stages
def test_the_limit_on_seconds_is_kept_in_every_stage(monkeypatch, stage):
    """By a clock that goes a second further whenever it is read."""
    problem, start = STAGES[stage](), time.perf_counter()
    for max_seconds in (1, 7, 20):
        ticks = iter(range(10**6))
        monkeypatch.setattr(time, "perf_counter", lambda ticks=ticks: start + next(ticks))
        solution = solve(problem, tol=0.0, max_seconds=max_seconds)
        assert solution.status in (Status.TIME_LIMIT, Status.PRECISION_LIMIT)
        assert certify(problem, solution.w, solution.alpha) == solution.certificate


@stages
def test_a_callback_stops_it_in_every_stage(stage):
    problem, last = STAGES[stage](), LAST.get(stage, stage)
    start = np.zeros(problem.n_samples)  # is certified before the first step
    solution = solve(problem, tol=1e-13, warm_start=start, callback=lambda progress: progress.solver == last)
    assert solution.status in (Status.STOPPED, Status.CERTIFIED)  # Newton may be there at its first certificate
    assert [row.solver for row in solution.trace].count(last) == 1
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


@stages
def test_ctrl_c_in_any_stage_leaves_the_best_answer_so_far(stage):
    last = LAST.get(stage, stage)

    def interrupt(progress):
        if progress.solver == last:
            raise KeyboardInterrupt

    problem = STAGES[stage]()
    solution = solve(problem, tol=1e-13, warm_start=np.zeros(problem.n_samples), callback=interrupt)
    assert solution.status in (Status.STOPPED, Status.CERTIFIED)  # Newton may be there at its first certificate
    assert solution.trace[-1].solver == last
    assert solution.certificate.gap == pytest.approx(min(row.gap for row in solution.trace), rel=1e-6)


@stages
def test_a_chunk_at_a_time_leads_to_the_same_certified_optimum(stage):
    problem, solver = STAGES[stage](), Auto()
    whole = solve(problem, tol=1e-5)
    state, n = solver.init(problem, None, 0), problem.n_samples
    for _ in range(100_000):
        solver.advance(problem, state, Budget(max(1, n // 7), 1e-5))
        if state.looks_done and certify(problem, *solver.candidate(problem, state)).meets(1e-5):
            break
    w, alpha = solver.candidate(problem, state)
    found = certify(problem, w, alpha)
    assert found.meets(1e-5)
    distance = np.linalg.norm((w - whole.w)[: problem.n_penalised])
    assert distance <= found.distance_bound + whole.certificate.distance_bound


def test_data_whose_squares_overflow_leave_numbers_and_not_nan():
    X = np.random.default_rng(0).normal(size=(2, 2)) * np.array([1e158, 1e150])
    solution = solve(LinearProblem.build(X, [1, -1], 1e-3), tol=1e-4, max_epochs=300)
    assert np.isfinite(solution.w).all()
    assert np.isfinite(solution.alpha).all()


# Checkpoints


@stages
def test_a_checkpoint_holds_an_alpha_of_the_original_problem_in_every_stage(tmp_path, stage):
    problem = STAGES[stage]()
    checkpoint = Checkpoint.open(tmp_path / "state")
    solution = solve(problem, Checkpointed(Auto(), checkpoint, seconds=0.0), tol=1e-5)
    assert solution.status is Status.CERTIFIED
    assert solution.trace[-1].solver == LAST.get(stage, stage)
    (alpha,) = Checkpoint.open(tmp_path / "state").alphas.values()
    assert problem.is_feasible(alpha)
    assert certify(problem, solution.w, alpha).dual >= solution.certificate.dual * (1.0 - 1e-4)


@stages
def test_a_solve_cut_short_goes_on_from_its_checkpoint(tmp_path, stage):
    problem, path = STAGES[stage](), tmp_path / "state"
    cold = solve(problem, tol=1e-5)
    cut = solve(problem, Checkpointed(Auto(), Checkpoint.open(path), seconds=0.0), tol=1e-5, max_epochs=0.9 * cold.epochs)
    resumed = solve(problem, Checkpointed(Auto(), Checkpoint.open(path), seconds=0.0), tol=1e-5)
    assert cut.certificate.gap >= 0.0
    assert resumed.status is Status.CERTIFIED
    reach = resumed.certificate.distance_bound + cold.certificate.distance_bound
    assert np.linalg.norm((resumed.w - cold.w)[: problem.n_penalised]) <= reach


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared_hinge"])
@pytest.mark.parametrize("tol", [1e-3, 1e-5])
def test_when_newton_breaks_down_the_coordinates_take_over_and_the_trace_says_so(monkeypatch, loss, tol):
    monkeypatch.setattr("maxmargin.solvers.linear.newton.hessian.FreeHessian.solve", lambda *_: None)
    solution = solve(narrow(300.0, loss), tol=tol, max_epochs=50)
    assert solvers(solution)[-1] == "dcd"
    assert solution.trace[-1].reason.startswith("newton")


def test_what_float32_cannot_reach_float64_finishes():
    solver = Auto(SwitchingPolicy(single_target=0.0))
    solution = solve(wide_with_a_few_contradictions(1000.0), solver, tol=1e-11)
    assert solution.status is Status.CERTIFIED
    assert "float32 is not enough" in {row.reason for row in solution.trace}


@pytest.mark.parametrize("scale", [1e-15, 1.0, 1e15])
def test_values_that_float32_would_round_to_nothing_are_kept_in_float64(scale):
    problem = wide_with_a_few_contradictions(1000.0)
    scaled = LinearProblem.build(problem.rows.matrix * scale, problem.y, 1000.0 / scale**2)
    solution = solve(scaled, tol=1e-4)
    assert solvers(solution)[-1] == "avsf"
    assert solution.certificate.primal * scale**2 == pytest.approx(solve(problem, tol=1e-4).certificate.primal, rel=1e-4)

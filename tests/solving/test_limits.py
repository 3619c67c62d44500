"""Limits: one deadline for all problems of a fit, heard inside long computations; and no solve goes on for ever.

No test waits for the clock. Where time matters the clock is one that moves by a fixed amount at each reading.
"""

from __future__ import annotations

import itertools
import math
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, LinearSVC, LinearSVCCV, NuSVC
from maxmargin.certificate.kernel import certify_kernel
from maxmargin.certificate.linear import certify
from maxmargin.data import limits
from maxmargin.data.limits import OutOfTimeError, Stop, check_point
from maxmargin.data.threads import Crew, ThreadPolicy, single_threaded_blas
from maxmargin.estimators.jobs import run_in_turn
from maxmargin.estimators.pairs import Pair
from maxmargin.kernel_matrix.matrix import KernelMatrix, MatrixPolicy
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber, SquaredHinge
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.batched_smo import BatchedSMO
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solvers.linear.phases import Ascent, Handover
from maxmargin.solvers.presolve import RenumberedColumns
from maxmargin.solving import limits as solving_limits
from maxmargin.solving.driver import Limits, solve
from maxmargin.solving.policy import DrivingPolicy
from maxmargin.solving.solution import Status
from maxmargin.solving.unsolved import unsolved, unsolved_pair
from tests.catalogue import labelled
from tests.data.test_threads import blas_threads
from tests.solvers.linear.test_avsf import wide_with_a_few_contradictions


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is told to move."""
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(limits, "time", SimpleNamespace(perf_counter=lambda: now.seconds))
    return now


# One deadline for all


def test_each_problem_gets_an_equal_share_of_what_is_left(clock):
    left = []

    def job(stop):
        left.append(stop.seconds_left)
        clock.seconds += 1.0  # of a share of 3, 3.67, 5 and 9 seconds
        return stop

    run_in_turn(Stop.within(12.0), [job] * 4, 1)
    assert left == pytest.approx([12 / 4, 11 / 3, 10 / 2, 9.0])


def test_no_time_is_left_for_a_problem_after_the_deadline(clock):
    def job(stop):
        clock.seconds += 10.0
        return stop

    assert [stop.is_late for stop in run_in_turn(Stop.within(12.0), [job] * 3, 1)] == [True, True, True]
    assert clock.seconds == 130.0


def test_threads_that_work_side_by_side_share_the_time_by_rounds(clock):
    stops = run_in_turn(Stop.within(12.0), [lambda stop: stop] * 6, 2)
    assert sorted(stop.seconds_left for stop in stops) == pytest.approx([4.0, 4.8, 6.0, 8.0, 12.0, 12.0])


def test_a_word_to_stop_reaches_every_share():
    stop = Stop.after(10.0)
    share = stop.share(3)
    share.set()
    assert stop.is_told
    assert stop.share(2).is_due


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_every_class_has_a_model_when_there_is_no_time_at_all(n_jobs):
    X, y = labelled(300, 5, 1.0, 0)[0], np.arange(300) % 4
    with pytest.warns(ConvergenceWarning, match="limit on seconds"):
        model = LinearSVC(max_seconds=1e-9, n_jobs=n_jobs).fit(X, y)
    assert model.status_ == [Status.TIME_LIMIT] * 4
    assert model.coef_.shape == (4, 5)
    assert model.relative_gap_ == 1.0
    assert all(len(trace) == 1 for trace in model.trace_)


@pytest.mark.parametrize("penalizes_intercept", [True, False])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Huber(0.3)], ids=str)
def test_the_certificate_of_an_unsolved_problem_is_that_of_zero(loss, penalizes_intercept):
    X, y = labelled(90, 4, 1.0, 0)
    problem = LinearProblem.build(X, y, np.linspace(0.0, 3.0, 90), loss, 1.0, penalizes_intercept)
    quick, judged = unsolved(problem, DCD(), Stop()).certificate, certify(problem, np.zeros(5), np.zeros(90))
    for name in ("primal", "dual", "gap", "relative_gap", "distance_bound"):
        assert getattr(quick, name) == pytest.approx(getattr(judged, name), rel=1e-12)
    assert quick.rounding_error > 0.0


@pytest.mark.parametrize("settings", [{"model": SVC}, {"model": NuSVC, "nu": 0.2}], ids=str)
def test_no_rows_are_gathered_for_a_pair_of_classes_for_which_no_time_is_left(settings, monkeypatch):
    """Of 45 pairs of mnist that takes two seconds."""
    model = settings.pop("model")
    X, y = labelled(1600, 5, 1.0, 0)[0], np.arange(1600) % 4

    def refuse(*_):
        raise AssertionError("rows were gathered")

    monkeypatch.setattr(Pair, "rows", refuse)
    with pytest.warns(ConvergenceWarning, match="limit on seconds"):
        fitted = model(max_seconds=1e-9, **settings).fit(X, y)
    assert fitted.status_ == [Status.TIME_LIMIT] * 6
    assert fitted.predict(X[:5]).shape == (5,)


def test_the_certificate_of_an_unsolved_pair_is_that_of_zero():
    """With the offset zero: another one may be better."""
    X, y = labelled(90, 4, 1.0, 0)
    C = np.linspace(0.0, 3.0, 90)
    quick = unsolved_pair(C, BatchedSMO(), Stop()).certificate
    judged, best = (certify_kernel(KernelProblem.build(X, y, C, RBF(0.5), has), np.zeros(90)).certificate for has in (0, 1))
    for name in ("primal", "dual", "gap", "relative_gap"):
        assert getattr(quick, name) == pytest.approx(getattr(judged, name), rel=1e-12)
    assert quick.primal >= best.primal


def test_seconds_count_from_when_the_limits_were_made(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(solving_limits, "time", SimpleNamespace(perf_counter=lambda: now.seconds))
    limits_of_fit = Limits(1e-3, max_seconds=5.0, begun=100.0)
    now.seconds += 2.0  # to check and convert X
    assert limits_of_fit.seconds_left == 3.0
    assert replace(limits_of_fit, tol=1e-4).seconds_left == 3.0
    assert limits_of_fit.until(Stop()).seconds_left == math.inf


# Heard inside


def test_a_check_point_looks_at_the_stop_that_is_heard_and_at_no_other(clock):
    check_point()
    early, late = Stop.after(5.0), Stop.after(-1.0)
    with early.heard():
        check_point()
        with late.heard(), pytest.raises(OutOfTimeError):
            check_point()
        check_point()
        clock.seconds += 6.0
        with pytest.raises(OutOfTimeError):
            check_point()
    check_point()


def test_a_last_chance_ends_too(clock):
    chance = Stop.after(0.0).last_chance()
    assert not chance.is_due
    clock.seconds += limits.POLICY.certificate_seconds
    assert chance.is_due
    told = Stop()
    told.set()
    assert not told.last_chance().is_due


def test_the_last_chances_of_all_problems_after_ctrl_c_end_together(clock):
    """45 pairs of classes would otherwise have 45 times as long."""
    fit = Stop()
    fit.set()
    first = fit.last_chance()
    clock.seconds += 0.5 * limits.POLICY.told_seconds
    fit.set()
    assert fit.last_chance().deadline == first.deadline
    clock.seconds += limits.POLICY.told_seconds
    assert fit.last_chance().is_due


def test_no_last_chance_of_a_fit_ends_later_than_the_latest_one(clock):
    fit = Stop.after(10.0)
    first = fit.share(4)
    latest = fit.deadline + limits.POLICY.latest_seconds
    assert first.deadline < first.last_chance().deadline < fit.deadline
    clock.seconds += 10.5
    for stop in (fit, first, fit.share(2), fit.last_chance()):
        assert stop.last_chance().deadline <= latest
    with fit.heard():
        assert Stop.within(100.0).latest == latest
    clock.seconds += 10.0
    assert fit.last_chance().is_due


@pytest.mark.parametrize("elements_a_thread", [1, 1 << 30], ids=["threads", "one thread"])
def test_every_task_of_a_crew_and_the_inside_of_each_hear_the_stop_of_the_caller(clock, elements_a_thread, monkeypatch):
    monkeypatch.setattr("maxmargin.data.threads.available_cores", lambda: 2)
    crew, done = Crew(10, policy=ThreadPolicy(elements_a_thread)), []

    def job(k):
        done.append(k)
        clock.seconds += 6.0
        check_point()

    with Stop.after(5.0).heard(), pytest.raises(OutOfTimeError):
        crew.run([(k,) for k in range(8)], job)
    assert len(done) <= crew.size  # a task that has not begun is not begun any more


def test_an_interrupted_crew_tells_its_threads_to_end(monkeypatch):
    monkeypatch.setattr("maxmargin.data.threads.available_cores", lambda: 2)
    stop, ended, has_begun = Stop(), [], threading.Event()

    def job(k):
        if k == 0:
            has_begun.wait()
            raise KeyboardInterrupt
        has_begun.set()
        while not limits._heard.get().is_told:
            time.sleep(0.001)
        ended.append(k)

    with stop.heard(), pytest.raises(KeyboardInterrupt):
        Crew(10, policy=ThreadPolicy(1)).run([(0,), (1,)], job)
    assert stop.is_told
    assert ended == [1]


def test_kernel_values_hear_a_stop_between_two_tiles(monkeypatch):
    """Every look at the clock counts as one second: a row of eight tiles has as many looks."""
    seconds = itertools.count()
    X = np.random.default_rng(0).normal(size=(64, 3))
    policy = MatrixPolicy(columns_a_tile=8)
    matrix = KernelMatrix(RBF(1.0), KernelProblem.build(X, np.sign(X[:, 0]), 1.0, RBF(1.0)).points, np.float64, policy=policy)
    monkeypatch.setattr(limits, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    with Stop(5.0).heard(), pytest.raises(OutOfTimeError):
        matrix.block(np.arange(4))
    assert next(seconds) < 9


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_for_c_without_time_ends_with_a_model(n_jobs):
    X, y = labelled(60, 3, 1.0, 0)
    with pytest.warns(ConvergenceWarning, match="max_seconds"), pytest.warns(ConvergenceWarning, match="limit on seconds"):
        model = LinearSVCCV(Cs=3, max_seconds=1e-9, n_jobs=n_jobs).fit(X, y)
    assert model.coef_.shape == (1, 3)


class StoppedInside(DCD):
    """Its second chunk meets a check point when the fit has been told to end."""

    def advance(self, problem, state, budget):
        super().advance(problem, state, budget._replace(steps=5 * problem.n_samples))
        limits._heard.get().set()
        check_point()


def test_a_chunk_that_is_ended_midway_leaves_its_point_judged():
    problem = LinearProblem.build(*labelled(120, 6, 1.5, 1), 1.0, Hinge())
    solution = solve(problem, StoppedInside(), tol=0.0)
    assert solution.status is Status.STOPPED
    assert 0.0 < solution.certificate.relative_gap < 0.5
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


@pytest.mark.parametrize("error", [KeyboardInterrupt, OutOfTimeError])
def test_an_interruption_between_two_methods_of_auto_keeps_the_alpha_of_the_first(monkeypatch, error):
    def interrupted(*arguments):
        raise error

    monkeypatch.setattr(RenumberedColumns, "of", interrupted)
    problem = wide_with_a_few_contradictions(1.0)
    state = Auto().init(problem, None, 0)
    Auto().advance(problem, state, Budget(problem.n_samples, 1e-9))
    alpha = state.candidate()[1].copy()
    with pytest.raises(error):
        state.begin(Handover(alpha, "a test", partial(Ascent, in_single=False)))
    w, kept = Auto().candidate(problem, state)
    assert np.array_equal(kept, alpha)
    assert certify(problem, w, kept).relative_gap < 1.0


def test_a_crew_does_not_leave_a_task_behind_when_another_fails():
    done, begun = [], threading.Event()

    def task(k):
        if k == 0:
            begun.wait()
            raise ZeroDivisionError
        begun.set()
        time.sleep(0.05)
        done.append(k)

    crew = Crew(1 << 40)
    if crew.size < 2:
        pytest.skip("One core: tasks run one after the other.")
    with pytest.raises(ZeroDivisionError):
        crew.run([(0,), (1,)], task)
    assert done == [1]


def test_the_last_certificate_begins_when_the_time_that_it_takes_is_left(monkeypatch):
    """On a clock that moves by a second at each reading, and by ten while a certificate is made."""
    clock = SimpleNamespace(seconds=0.0)

    def reading():
        clock.seconds += 1.0
        return clock.seconds

    monkeypatch.setattr(limits, "time", SimpleNamespace(perf_counter=reading))
    monkeypatch.setattr(sys.modules["maxmargin.solving.driver"], "time", limits.time)
    certified, begun = DCD.candidate, []

    def slow(solver, problem, state):
        begun.append(clock.seconds)
        clock.seconds += 10.0
        return certified(solver, problem, state)

    monkeypatch.setattr(DCD, "candidate", slow)
    solution = solve(LinearProblem.build(*labelled(300, 5, 3.0, 0), 1e4), "dcd", tol=0.0, max_seconds=60.0)
    assert solution.status is Status.TIME_LIMIT
    assert 30.0 <= begun[-1] <= 50.0


# No solve goes on for ever


@pytest.mark.parametrize("solver", ["auto", "dcd", "avsf"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=str)
def test_seven_equal_rows_of_1e37_end(loss, solver):
    X = np.full((7, 3), 1e37, np.float32)
    problem = LinearProblem.build(X, np.where(np.arange(7) % 2 == 0, 1, -1), 56.0, loss, 1.0)
    solution = solve(problem, solver)
    assert solution.status in (Status.PRECISION_LIMIT, Status.CERTIFIED)
    assert solution.epochs <= 2 * DrivingPolicy().stall_epochs


# Small truths


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Huber(0.5)], ids=str)
def test_an_objective_of_zero_is_certified(loss):
    """One class with a free intercept: w = 0 and b = 1 + h are perfect."""
    X = labelled(20, 3, 1.0, 0)[0]
    solution = solve(LinearProblem.build(X, np.ones(20, int), 1.0, loss, 1.0, False))
    assert solution.certificate.primal == solution.certificate.dual == solution.certificate.gap == 0.0
    assert solution.status is Status.CERTIFIED


def test_an_objective_of_zero_is_certified_for_kernels():
    solution = solve(KernelProblem.build(labelled(20, 3, 1.0, 0)[0], np.ones(20, int), 1.0, RBF(0.5)))
    assert solution.certificate.gap == 0.0
    assert solution.status is Status.CERTIFIED


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_separable_data_is_certified_at_a_cost_of_1e8(loss, penalize_intercept):
    for seed, (n, d) in enumerate([(60, 4), (200, 10), (40, 80)]):
        X, y = labelled(n, d, 0.0, seed)
        model = LinearSVC(loss=loss, C=1e8, penalize_intercept=penalize_intercept).fit(X, y)
        assert model.status_ is Status.CERTIFIED


@pytest.mark.parametrize("penalizes_intercept", [True, False])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_auto_solves_the_huber_loss(C, penalizes_intercept):
    X, y = labelled(150, 5, 1.0, 0)
    problem = LinearProblem.build(X * 10.0 ** np.arange(-2, 3), y, C, Huber(0.5), 1.0, penalizes_intercept)
    assert solve(problem).status is Status.CERTIFIED


def test_a_limit_on_blas_holds_in_whatever_thread_sets_it():
    """threadpoolctl 3.8 ignores all threads but the first that ever set one."""
    seen = []

    def look():
        with single_threaded_blas():
            seen.append(blas_threads())

    look()
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [{1}, {1}]


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_fit_has_the_same_bits_in_every_thread_and_with_every_number_of_jobs(loss, penalize_intercept):
    """With 150 columns the Hessian is made by BLAS."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 150)), np.arange(1500) % 3
    settings = {"loss": loss, "penalize_intercept": penalize_intercept, "C": 10.0}
    bits = [LinearSVC(n_jobs=n_jobs, **settings).fit(X, y).coef_ for n_jobs in (1, 2, 3)]
    threads = [threading.Thread(target=lambda: bits.append(LinearSVC(**settings).fit(X, y).coef_)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(bits) == 5
    assert all(np.array_equal(bits[0], other) for other in bits[1:])


def test_a_stop_without_a_limit_is_never_late():
    assert Stop().seconds_left == math.inf
    assert Stop.after(math.inf).share(5).seconds_left == math.inf
    assert not Stop.after(math.inf).last_chance().is_due

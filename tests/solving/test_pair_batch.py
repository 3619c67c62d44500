"""Many small pairs of classes in few compiled calls: the same certificates, and the same models."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning

from maxmargin import RBF, SVC, KernelProblem, Linear, Polynomial
from maxmargin.certificate.intercept import kernel_offset_bound
from maxmargin.certificate.kernel import certify_kernel
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Rows
from maxmargin.problem.class_pairs import class_pairs
from maxmargin.problem.dual_box import repeated
from maxmargin.problem.held_values import ClassValues
from maxmargin.solvers.kernel.held_smo_policy import HeldSMOPolicy
from maxmargin.solving import pair_batch
from maxmargin.solving.pair_batch import BatchGoal, PairBatch
from maxmargin.solving.policy import BATCH
from maxmargin.solving.solution import Status

FEW = replace(BATCH, fewest_pairs=1)


@pytest.fixture(autouse=True)
def few_pairs_are_enough(monkeypatch):
    """Tables of three to six classes are tried in one call, too."""
    monkeypatch.setattr(pair_batch, "BATCH", FEW)


KERNELS = [RBF(0.3), Linear(), Polynomial(0.5, 1.0, 3)]
ANY = 1 << 40


def table(n=240, n_classes=6, seed=5):
    X, y = make_classification(
        n, 9, n_informative=6, n_classes=n_classes, n_clusters_per_class=1, flip_y=0.1, random_state=seed
    )
    return np.ascontiguousarray(X), y


def solved(kernel, C, X, y, goal, policy=None):
    values = ClassValues(X, kernel, y)
    batch = PairBatch.of(values, kernel, C, policy or HeldSMOPolicy())
    assert batch is not None
    return values, batch.solved(goal, Stop())


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
def test_every_certificate_and_offset_bound_of_a_batch_is_that_of_the_judge_of_one_problem_but_for_rounding(kernel, C):
    X, y = table()
    patient = HeldSMOPolicy(climbs=False, insists=False, most_rounds=1 << 20)
    values, solutions = solved(kernel, C, X, y, BatchGoal(1e-3, lambda n: 100_000), patient)
    assert sum(solution is not None for solution in solutions) >= 10
    for (first, second), solution in zip(class_pairs(6), solutions, strict=True):
        if solution is None:
            continue
        chosen = np.concatenate([np.flatnonzero(y == first), np.flatnonzero(y == second)])
        signs, costs = np.where(y[chosen] == first, 1, -1).astype(np.int8), repeated(C, len(chosen))
        matrix = partial(values.pair, first, second)
        problem = KernelProblem(Rows(X[chosen]), signs, costs, kernel, matrix=matrix)
        verdict = certify_kernel(problem, solution.alpha)
        own, judged = solution.certificate, verdict.certificate
        assert (own.primal, own.dual) == pytest.approx((judged.primal, judged.dual), rel=1e-12)
        assert own.rounding_error == pytest.approx(judged.rounding_error, rel=1e-6)
        assert abs(own.gap - judged.gap) <= 2.0 * own.rounding_error
        assert abs(own.distance_bound**2 - judged.distance_bound**2) <= 4.0 * own.rounding_error
        assert (own.n_support, own.n_at_bound, own.is_proof) == (judged.n_support, judged.n_at_bound, judged.is_proof)
        assert solution.b == pytest.approx(verdict.b, rel=1e-9, abs=1e-12)
        assert solution.offset_bound == pytest.approx(kernel_offset_bound(problem, verdict), rel=0.1)
        assert own.meets(1e-3)


def test_a_rounded_w_moves_the_distance_bound_outwards_and_nothing_else():
    X, y = table()
    _, plain = solved(Linear(), 1.0, X, y, BatchGoal(1e-3, lambda n: ANY))
    _, rounded = solved(Linear(), 1.0, X, y, BatchGoal(1e-3, lambda n: ANY, lambda n, reach, total: 0.25 + 0.0 * reach))
    for one, other in zip(plain, rounded, strict=True):
        if one is None:
            assert other is None
            continue
        assert other.certificate.distance_bound >= one.certificate.distance_bound + 0.25
        assert replace(other.certificate, distance_bound=one.certificate.distance_bound) == one.certificate
        assert np.array_equal(one.alpha, other.alpha)


def test_a_pair_that_is_not_certified_within_its_steps_has_no_solution():
    X, y = table()
    _, solutions = solved(Linear(), 1.0, X, y, BatchGoal(1e-3, lambda n: 2))
    assert solutions == [None] * 15


def test_a_batch_without_time_solves_nothing():
    X, y = table()
    batch = PairBatch.of(ClassValues(X, RBF(0.3), y), RBF(0.3), 1.0, HeldSMOPolicy())
    stop = Stop()
    stop.set()
    assert batch.solved(BatchGoal(1e-3, lambda n: ANY), stop) == [None] * 15


@pytest.mark.parametrize("sample_steps", [1.0, 1e6, 1e12])
def test_the_answer_does_not_depend_on_how_many_pairs_a_call_takes(sample_steps, monkeypatch):
    X, y = table()
    _, expected = solved(RBF(0.3), 1.0, X, y, BatchGoal(1e-3, lambda n: ANY))
    monkeypatch.setattr(pair_batch, "BATCH", replace(FEW, sample_steps_a_call=sample_steps))
    _, found = solved(RBF(0.3), 1.0, X, y, BatchGoal(1e-3, lambda n: ANY))
    assert all(np.array_equal(one.alpha, other.alpha) for one, other in zip(expected, found, strict=True) if one is not None)


def assert_within_bounds(model: SVC, other_model: SVC) -> None:
    """Both are certified, and no pair of one is beyond what is proved of the other."""
    assert set(model.status_) == set(other_model.status_) == {Status.CERTIFIED}
    for one, other in zip(model.certificate_, other_model.certificate_, strict=True):
        rounding = one.rounding_error + other.rounding_error
        assert max(one.dual, other.dual) <= min(one.primal, other.primal) + rounding


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
@pytest.mark.parametrize("load", [load_iris, load_wine, table])
def test_a_model_of_pairs_in_few_calls_is_within_its_bounds_of_one_with_pairs_one_by_one(load, C, kernel, monkeypatch):
    X, y = load() if load is table else load(return_X_y=True)
    at_once = SVC(kernel=kernel, C=C).fit(X, y)
    monkeypatch.setattr(pair_batch, "BATCH", replace(FEW, most_samples=0))
    one_by_one = SVC(kernel=kernel, C=C).fit(X, y)
    assert_within_bounds(at_once, one_by_one)


def test_pairs_above_the_limit_and_sample_weights_are_solved_one_by_one(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("no batch was to be solved")

    monkeypatch.setattr(PairBatch, "solved", refuse)
    X, y = table(n=BATCH.most_samples * 2, n_classes=3)
    SVC().fit(X, y)
    X, y = table()
    SVC().fit(X, y, sample_weight=np.linspace(0.5, 1.0, len(y)))
    SVC(fit_intercept=False).fit(X, y)
    SVC(callback=lambda progress: False).fit(X, y)
    SVC(kernel="sigmoid", gamma=0.01).fit(X, y)


@pytest.mark.parametrize("seconds", [1e-6, 1e-3, 0.02])
def test_a_fit_without_time_keeps_the_pairs_that_were_solved_and_ends_with_a_model(seconds):
    X, y = table()
    X[:, 0] *= 1e8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(kernel="linear", C=1e3, max_seconds=seconds).fit(X, y)
    assert set(model.status_) <= {Status.CERTIFIED, Status.TIME_LIMIT}
    assert model.predict(X).shape == y.shape

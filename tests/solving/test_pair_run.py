"""Pairs of few classes from one kernel matrix: the certificates of the judge of one problem, and the same models."""

from __future__ import annotations

import warnings
from dataclasses import astuple, replace
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
from maxmargin.problem.class_rows import whole_matrix
from maxmargin.problem.dual_box import repeated
from maxmargin.problem.held_values import ClassValues, HeldValues
from maxmargin.solvers.kernel.face import solution_of
from maxmargin.solvers.kernel.held_smo_policy import HeldSMOPolicy
from maxmargin.solving import pair_run
from maxmargin.solving.pair_batch import BatchGoal
from maxmargin.solving.pair_run import PairRun
from maxmargin.solving.policy import RUN
from maxmargin.solving.solution import Status
from tests.solving.test_pair_batch import assert_within_bounds

ANY = 1 << 40


@pytest.fixture(autouse=True)
def every_matrix_is_worth_it(monkeypatch):
    monkeypatch.setattr(pair_run, "RUN", replace(RUN, saved_ns_a_pair=1e9))


def table(n=240, n_classes=6, seed=5):
    X, y = make_classification(
        n, 9, n_informative=6, n_classes=n_classes, n_clusters_per_class=1, flip_y=0.1, random_state=seed
    )
    return np.ascontiguousarray(X), y


def problem_of(X, y, kernel, C, matrix, first, second):
    chosen = np.concatenate([np.flatnonzero(y == first), np.flatnonzero(y == second)])
    signs, costs = np.where(y[chosen] == first, 1, -1).astype(np.int8), repeated(C, len(chosen))
    return KernelProblem(Rows(X[chosen]), signs, costs, kernel, matrix=partial(matrix, first, second))


def of_the_run(values):
    """The matrix of two classes as the run copies it."""
    edges, K = np.cumsum([0, *(len(points) for points in values.classes)]), whole_matrix(values)

    def matrix(first, second):
        chosen = np.r_[edges[first] : edges[first + 1], edges[second] : edges[second + 1]]
        padded = values.pair(first, second, is_whole=True)
        padded.rows.values[: len(chosen), : len(chosen)] = K[np.ix_(chosen, chosen)]
        return HeldValues.whole(padded.rows.values, len(chosen), padded.error, 0, padded.bounds)

    return matrix


@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(0.5, 1.0, 3)], ids=repr)
@pytest.mark.parametrize("C", [0.05, 1.0, 1000.0])
def test_every_certificate_and_offset_bound_is_that_of_the_judge_of_one_problem_to_the_last_bit(kernel, C):
    X, y = table()
    values = ClassValues(X, kernel, y)
    make = partial(problem_of, X, y, kernel, C, of_the_run(values))
    solutions = PairRun.of(values, kernel, C, HeldSMOPolicy(), make).solved(BatchGoal(1e-3, lambda n: ANY), Stop())
    assert sum(solution is not None for solution in solutions) >= 6  # as many as one by one
    for (first, second), solution in zip(class_pairs(6), solutions, strict=True):
        if solution is None:
            continue
        problem = make(first, second)
        verdict = certify_kernel(problem, solution.alpha)
        assert astuple(solution.certificate) == astuple(verdict.certificate)
        assert (solution.b, solution.offset_bound) == (verdict.b, kernel_offset_bound(problem, verdict))
        assert solution.certificate.meets(1e-3)


def test_pairs_with_few_steps_or_without_time_have_no_solution():
    X, y = table()
    values = ClassValues(X, Linear(), y)
    run = PairRun.of(values, Linear(), 1.0, HeldSMOPolicy(climbs=False), partial(problem_of, X, y, Linear(), 1.0, values.pair))
    assert run.solved(BatchGoal(1e-3, lambda n: 2), Stop()) == [None] * 15
    stop = Stop()
    stop.set()
    assert run.solved(BatchGoal(1e-3, lambda n: ANY), stop) == [None] * 15


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("C", [0.01, 1.0, 1e4])
@pytest.mark.parametrize("load", [load_iris, load_wine, table])
def test_a_model_from_one_matrix_is_within_its_bounds_of_one_with_pairs_one_by_one(load, C, kernel, monkeypatch):
    X, y = load() if load is table else load(return_X_y=True)
    at_once = SVC(kernel=kernel, C=C).fit(X, y)
    monkeypatch.setattr(pair_run, "RUN", replace(RUN, saved_ns_a_pair=0.0))
    one_by_one = SVC(kernel=kernel, C=C).fit(X, y)
    assert_within_bounds(at_once, one_by_one)


def test_least_squares_keep_the_sum_of_the_variables_where_kernel_values_differ_by_many_digits():
    """Samples of very different lengths under a cube: the linear system has no digits left, and SMO's own answer counts."""
    rng = np.random.default_rng(7)
    n = 500
    energy, angle, charge = 10 ** rng.normal(9, 2, n), rng.uniform(0, 3.14, n), rng.integers(-3, 4, n)
    X = np.column_stack([energy, 1e-27 * rng.integers(1, 60, n), angle, charge, energy * np.sin(angle)])
    t = np.log10(energy) / 2 + np.cos(angle) + 0.5 * charge + rng.normal(0, 0.6, n)
    y = np.searchsorted(np.quantile(t, np.linspace(0, 1, 8)[1:-1]), t)
    model = SVC(kernel="poly").fit(X, y)
    assert set(model.status_) == {Status.CERTIFIED}


@pytest.mark.parametrize("seconds", [1e-6, 1e-3, 0.02])
def test_a_fit_without_time_ends_with_a_model(seconds):
    X, y = table()
    X[:, 0] *= 1e8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(kernel="poly", C=1e3, max_seconds=seconds).fit(X, y)
    assert set(model.status_) <= {Status.CERTIFIED, Status.TIME_LIMIT}
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("has_offset", [True, False])
@pytest.mark.parametrize("n_equal", [0, 3])
def test_the_system_of_least_squares_is_solved_whether_its_matrix_is_definite_or_not(has_offset, n_equal):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(12, 12 if n_equal == 0 else 4))
    K, v = A @ A.T, rng.normal(size=12)
    if n_equal:
        v = K @ rng.normal(size=12)  # a system with a singular matrix that has solutions
    d = solution_of(K, v, has_offset)
    if d is None:
        assert n_equal  # elimination may find a pivot that is zero
        return
    left = v - K @ d
    assert np.ptp(left) <= 1e-6 if has_offset else np.abs(left).max() <= 1e-6
    assert not has_offset or abs(d.sum()) <= 1e-6 * max(1.0, np.abs(d).sum())

"""Newton's method on the proximal dual of Crammer and Singer's machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.solvers.linear.class_newton import ClassNewton, first_sigma, start_of, suits
from maxmargin.solvers.linear.class_newton_loop import compare, project
from maxmargin.solvers.linear.class_policy import ClassInteriorPolicy, ClassNewtonPolicy
from maxmargin.solvers.linear.class_system import Known, System
from maxmargin.solvers.linear.crammer_singer import SequentialDual, SequentialDualPolicy
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status

NEVER_INSIDE = ClassInteriorPolicy(most_columns=0)
"""No interior-point method after Newton's."""


def alike(C: float = 1.0, layout=np.asarray, scaling: float = 1.0, n: int = 300, k: int = 4) -> CrammerSingerProblem:
    """Columns that are alike: the dual descent needs many sweeps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6)) + 2.0 * rng.normal(size=(n, 1))
    y = np.argmax(X[:, :k] + 0.5 * rng.normal(size=(n, k)), axis=1)
    return CrammerSingerProblem.build(layout(X), y, C, scaling)


def projected(problem: CrammerSingerProblem, outputs, along, step: float, centre, sigma: float):
    """b, how many of a row are free, how far the others are from that, and the sums."""
    n, k = problem.n_samples, problem.n_classes
    b, counts, clear = np.empty((n, k)), np.empty(n, np.int64), np.empty(n)
    samples, work = (problem.y, problem.C, sigma), (np.empty(k), np.empty(k), np.empty(k))
    sums = project((outputs, along, step), samples, centre, b, (counts, clear), work)
    return b, counts, clear, sums


def newton_at(problem: CrammerSingerProblem, policy: ClassNewtonPolicy) -> ClassNewton:
    """From a random W and b = 0."""
    W = np.random.default_rng(2).normal(size=(problem.n_weights, problem.n_classes)) * 0.05
    b = np.zeros((problem.n_samples, problem.n_classes))
    return ClassNewton(problem, policy, W, b, first_sigma(problem, policy))


@pytest.mark.parametrize("C", [1e-4, 1.0, 100.0])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_it_takes_over_and_is_certified(C, layout):
    problem = alike(C, layout)
    solution = solve(problem, tol=1e-6)
    assert solution.status is Status.CERTIFIED
    assert solution.certificate.primal == pytest.approx(problem.primal(solution.w), rel=1e-9)
    if C == 1.0:
        assert solution.trace[-1].solver == "class-newton"


def test_it_finds_what_the_dual_descent_finds():
    problem = alike(0.01)
    descent = SequentialDual(newton_policy=replace(ClassNewtonPolicy(), most_weights=0))
    slow, fast = solve(problem, descent, tol=1e-3), solve(problem, tol=1e-7)
    assert slow.trace[-1].solver == "sequential-dual"
    assert fast.certificate.dual <= slow.certificate.primal
    assert slow.certificate.dual <= fast.certificate.primal
    assert np.linalg.norm(slow.w - fast.w) <= slow.certificate.distance_bound + fast.certificate.distance_bound


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("sigma", [0.02, 0.7, 30.0])
def test_projected_rows_are_feasible_and_nearest(sigma, centred):
    problem, rng = alike(0.5), np.random.default_rng(1)
    shape = problem.n_samples, problem.n_classes
    outputs, along, zero = rng.normal(size=shape), rng.normal(size=shape), np.zeros(shape)
    centre = projected(problem, along, along, 0.0, zero, 1.0)[0] if centred else zero
    b, counts, _, sums = projected(problem, outputs, along, 0.3, centre, sigma)
    e = np.ones(shape)
    e[problem.own] = 0.0
    z = e + outputs + 0.3 * along
    loss = problem.C @ (z.max(axis=1) - z[problem.own])
    assert np.allclose(sums, [np.sum(b * along), loss, b[problem.own].sum(), np.sum((b - centre) ** 2)])
    assert problem.is_feasible(b)
    assert np.allclose(b.sum(axis=1), 0.0, atol=1e-14)
    bounds = np.zeros(shape)
    bounds[problem.own] = problem.C
    assert np.array_equal(counts, np.sum(b < bounds, axis=1))
    towards = centre - sigma * z - b
    for m in range(shape[1]):  # the corners of the feasible rows: zero, and all of C on one class
        corner = zero.copy()
        corner[:, m] -= problem.C
        corner[problem.own] += problem.C
        assert np.all(np.sum(towards * (corner - b), axis=1) <= 1e-12 * sigma)


def test_a_sample_without_cost_is_projected_on_zero():
    problem = replace(alike(), C=np.zeros(300))
    outputs = np.random.default_rng(5).normal(size=(300, 4))
    outputs[:10] = 0.0
    outputs[problem.own] += 1.0  # ties
    b, counts, _, sums = projected(problem, outputs, outputs, 0.0, np.zeros((300, 4)), 2.0)
    assert not b.any()
    assert counts.min() == counts.max() == 1
    assert sums == (0.0, 0.0, 0.0, 0.0)


def test_a_sample_stays_on_one_class_while_its_outputs_change_by_less_than_it_is_clear():
    problem, rng = alike(0.5), np.random.default_rng(3)
    shape = problem.n_samples, problem.n_classes
    outputs, centre = 3.0 * rng.normal(size=shape), np.zeros(shape)
    b, counts, clear, _ = projected(problem, outputs, outputs, 0.0, centre, 0.7)
    assert np.array_equal(counts == 1, clear > 0.0)
    assert 0 < np.sum(counts == 1) < shape[0]
    changes = 0.499 * clear[:, None] * rng.choice([-1.0, 1.0], size=shape)
    second = projected(problem, outputs + changes, outputs, 0.0, centre, 0.7)[0]
    assert np.array_equal(b[counts == 1], second[counts == 1])


def test_changed_rows_are_kept_and_the_greatest_changes_of_outputs_are_added_up():
    rng = np.random.default_rng(4)
    b, outputs, kept = rng.normal(size=(20, 5)), rng.normal(size=(2, 20, 5)), np.zeros(20, bool)
    other = b.copy()
    kept[3] = True
    other[7, 4] += 1e-3
    total = compare((b, other), (outputs[0], outputs[1]), kept)
    assert np.flatnonzero(kept).tolist() == [3, 7]
    assert total == pytest.approx(np.sum(np.max(np.abs(outputs[0] - outputs[1]), axis=1) ** 2))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_many_samples_start_from_a_part_of_them_and_come_to_the_same_answer(layout):
    problem, policy = alike(1.0, layout, n=2000), ClassNewtonPolicy()
    assert policy.part_of(problem) > 0
    start = start_of(problem, policy, np.zeros((problem.n_samples, problem.n_classes)), np.random.default_rng(0))
    assert problem.primal(start.W) < 1.5 * solve(problem, tol=1e-3).certificate.primal < problem.primal_at_zero
    swept = SequentialDual(newton_policy=replace(policy, least_parts=np.inf))
    answers = [solve(problem, solver, tol=1e-8) for solver in ("auto", swept)]
    assert [answer.status for answer in answers] == [Status.CERTIFIED] * 2
    assert answers[0].certificate.primal == pytest.approx(answers[1].certificate.primal, rel=1e-7)
    assert answers[0].epochs < answers[1].epochs


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_samples_that_are_left_out_change_nothing(layout):
    problem = alike(1.0, layout, n=2000)
    answers = []
    for reach, most in ((0.0, 1.0), (1.5, 0.7), (0.0, 0.0)):
        policy = replace(ClassNewtonPolicy(), reach=reach, most_at_work=most, sweeps=2)
        answers.append(solve(problem, SequentialDual(newton_policy=policy, interior_policy=NEVER_INSIDE), tol=1e-7))
    for answer in answers:
        assert answer.status is Status.CERTIFIED
        assert answer.trace[-1].solver == "class-newton"
        assert answer.certificate.primal == pytest.approx(answers[0].certificate.primal, rel=1e-6)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_every_way_solves_the_newton_system(layout):
    problem = alike(0.5, layout)
    policy = replace(ClassNewtonPolicy(), cg_share=1e-10, most_cg=1000, dense_share=2.0, dense_share_at_work=2.0)
    newton = newton_at(problem, policy)
    gradient = newton.place.W - newton.work.weights(newton.place.b)
    system = System(newton.work, newton.place, policy, newton.sigma, Known(), None)
    system.direction(gradient)
    assert system.n_free > 0
    ways = [system._by_conjugate_gradients(), system._by_factor()]
    ways += [] if sparse.issparse(system.X) else [system._by_hessian()]
    assert len(ways) == (3 if layout is np.asarray else 2)
    for direction in ways:
        assert np.linalg.norm(system.times(direction) + gradient) <= 1e-7 * np.linalg.norm(gradient)


def test_float32_in_conjugate_gradients_gives_the_same_direction_up_to_its_precision():
    problem = alike(0.5)
    policy = replace(ClassNewtonPolicy(), cg_share=1e-5, most_cg=1000, most_assembled=0, most_direct=0)
    newton = newton_at(problem, policy)
    gradient = newton.place.W - newton.work.weights(newton.place.b)
    assert newton.single.dtype == np.float32
    one, other = (
        System(newton.work, newton.place, policy, newton.sigma, Known(), X).direction(gradient) for X in (newton.single, None)
    )
    assert 0.0 < np.linalg.norm(one - other) <= 1e-3 * np.linalg.norm(other)


@pytest.mark.parametrize("single_bytes", [0, 2**40])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_the_dual_descent_gets_as_far_in_float32_with_extrapolation(single_bytes, layout):
    problem = alike(0.1, layout, scaling=0.0)
    policy = replace(SequentialDualPolicy(), single_bytes=single_bytes, few_coefficients=0)
    descent = SequentialDual(policy, replace(ClassNewtonPolicy(), most_weights=0), NEVER_INSIDE)
    plain = replace(descent, policy=replace(policy, plain_cycles=10**9))
    answers = [solve(problem, each, tol=1e-6) for each in (descent, plain)]
    for answer in answers:
        assert answer.status is Status.CERTIFIED
        assert answer.trace[-1].solver == "sequential-dual"
    assert answers[0].steps < 0.7 * answers[1].steps


def test_where_it_finds_no_step_the_dual_descent_goes_on(monkeypatch):
    def step(newton, target):
        newton.has_failed = True

    monkeypatch.setattr(ClassNewton, "step", step)
    solution = solve(alike(1e-3), SequentialDual(interior_policy=NEVER_INSIDE), tol=1e-4)
    assert solution.status is Status.CERTIFIED
    assert solution.trace[-1].solver == "sequential-dual"


def test_it_is_for_few_weights():
    assert suits(alike(), ClassNewtonPolicy())
    assert not suits(alike(), replace(ClassNewtonPolicy(), most_weights=10))

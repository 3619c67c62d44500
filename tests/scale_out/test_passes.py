"""Fits by passes give the certified optimum of a fit in memory, whatever the partitions are and whoever runs the passes."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

from maxmargin import (
    EpsilonInsensitive,
    Hinge,
    LinearProblem,
    Quantile,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    Status,
    certify,
    solve,
)
from maxmargin.certificate.linear_sums import part_sums
from maxmargin.certificate.linear_verdict import ProblemShape, certificate_of_parts
from maxmargin.data.limits import Stop
from maxmargin.io import to_blocks
from maxmargin.scale_out import policy
from maxmargin.scale_out.answers import Line, Order, answer_part, refine_part, slopes_part
from maxmargin.scale_out.blocks import Block
from maxmargin.scale_out.descent import (
    Descent,
    Grid,
    Mix,
    Sight,
    Visit,
    descend_part,
    dual_point_part,
    look_part,
    take_step_part,
)
from maxmargin.scale_out.executors import InMemory, OnDisk
from maxmargin.scale_out.fitting import PassesRun, Plan
from maxmargin.scale_out.guessing import Sampling, guess_part
from maxmargin.scale_out.judging import judge_part
from maxmargin.scale_out.passes import Deal, Framing, Memory, Part, Pass, run_together
from maxmargin.scale_out.remainder import distances_of, settle_part
from maxmargin.solvers.linear.dcd import CommonPoint
from maxmargin.solving.driver import Limits

LOSSES = [Hinge(), SquaredHinge()]
REGRESSION = [EpsilonInsensitive(0.1), SquaredEpsilonInsensitive(0.1), Quantile(0.3)]


def data(n=600, d=12, seed=0, density=0.6):
    random = np.random.default_rng(seed)
    X = sparse.csr_matrix(random.normal(size=(n, d)) * (random.random((n, d)) < density))
    w = random.normal(size=d)
    outputs = X @ w + 0.7 * random.normal(size=n)
    return X, np.where(outputs > 0, 1.0, -1.0), outputs


def partitions(X, y, edges):
    return [Block(X[a:b], y[a:b]) for a, b in pairwise(edges)]


def framing(loss, d, C=1.0, scaling=1.0):
    return Framing(loss, scaling, C, d, positive=None if loss.is_regression else 1.0)


def fitted(executor, tol=1e-6, **plan):
    stop = Stop.after(math.inf)
    (solution,) = run_together(executor, [PassesRun(executor, 0, Plan(Limits(tol), stop, **plan)).solve()], stop)
    return solution


@pytest.mark.parametrize("is_precise", [False, True])
@pytest.mark.parametrize("loss", [*LOSSES, *REGRESSION], ids=repr)
def test_the_sums_of_parts_make_the_certificate_of_the_whole(loss, is_precise):
    X, y, outputs = data()
    y = outputs if loss.is_regression else y
    random = np.random.default_rng(1)
    problem = LinearProblem.build(X, y, 2.0, loss, 1.0)
    w = random.normal(size=13)
    alpha = np.clip(random.normal(size=600), problem.box.L, problem.box.U)
    sums = None
    for a, b in ((0, 1), (1, 300), (300, 600)):
        part = LinearProblem.build(X[a:b], y[a:b], 2.0, loss, 1.0)
        each = part_sums(part, w, alpha[a:b], is_precise=is_precise)
        sums = each if sums is None else sums.plus(each)
    found = certificate_of_parts(ProblemShape(600, 13, loss, 1.0), w, sums)
    expected = certify(problem, w, alpha)
    for name in ("primal", "dual", "gap", "relative_gap", "distance_bound"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12)
    assert (found.n_support, found.n_at_bound) == (expected.n_support, expected.n_at_bound)
    assert 0.0 < found.rounding_error < 1e-9 * expected.scale


def test_an_infeasible_part_proves_nothing():
    X, y, _ = data()
    problem = LinearProblem.build(X, y, 1.0, Hinge(), 1.0)
    sums = part_sums(problem, np.zeros(13), np.full(600, 2.0))
    assert not certificate_of_parts(ProblemShape(600, 13, Hinge(), 1.0), np.zeros(13), sums).is_proof


@pytest.mark.parametrize("edges", [[0, 600], [0, 10, 10, 250, 600]], ids=["one", "unequal and empty"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("loss", [*LOSSES, *REGRESSION], ids=repr)
def test_newton_by_passes_finds_the_certified_optimum(loss, C, edges):
    X, y, outputs = data()
    y = outputs if loss.is_regression else y
    executor = InMemory(partitions(X, y, edges), [framing(loss, 12, C)])
    found = fitted(executor)
    expected = solve(LinearProblem.build(X, y, C, loss, 1.0), tol=1e-8)
    assert found.status is Status.CERTIFIED
    alpha = np.concatenate([memory.alpha for memory in executor.memories[0]])
    assert certify(LinearProblem.build(X, y, C, loss, 1.0), found.w, alpha).relative_gap <= 1e-6
    assert np.linalg.norm(found.w - expected.w) <= found.certificate.distance_bound + expected.certificate.distance_bound


def raw_table(n=4000, seed=0):
    """Seconds since 1970, salaries, ages and rates side by side."""
    random = np.random.default_rng(seed)
    salary, age, rate = random.lognormal(11.0, 0.6, n), random.integers(18, 90, n).astype(float), 0.05 * random.random(n)
    X = np.column_stack([1.6e9 + random.integers(0, 30_000_000, n), salary, age, rate, 1e-4 * random.normal(size=(n, 2))])
    score = (salary - 7e4) / 4e4 + (age - 50.0) / 20.0 - 50.0 * (rate - 0.025) + random.normal(size=n)
    return X, np.where(score > 0.3, 1.0, -1.0)


@pytest.mark.parametrize("C", [0.01, 1.0, 1e4, 1e6])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_newton_by_passes_certifies_columns_as_they_come(loss, C):
    X, y = raw_table(seed=1)
    found = fitted(InMemory(partitions(X, y, [0, 20, 1500, 4000]), [framing(loss, 6, C)]))
    assert found.status is Status.CERTIFIED


class LosesMemory(InMemory):
    """A partition forgets all before the first refinement in higher precision."""

    generation = 0

    def run(self, passes):
        if self.generation == 0 and any(passed.task is refine_part for passed in passes.values()):
            self.generation = 1
            self.memories[0][1] = Memory.empty(len(self.partitions[1].y))
        return {which: reply._replace(generation=self.generation) for which, reply in super().run(passes).items()}


def test_a_partition_that_is_lost_does_not_mislead_a_refinement():
    X, y = raw_table(seed=1)
    executor = LosesMemory(partitions(X, y, [0, 20, 1500, 4000]), [framing(SquaredHinge(), 6, 1e6)])
    assert fitted(executor).status is Status.CERTIFIED
    assert executor.generation == 1


@pytest.mark.parametrize("scaling", [0.0, 1.0])
@pytest.mark.parametrize("loss", [*LOSSES, EpsilonInsensitive(0.1)], ids=repr)
def test_descent_by_partitions_finds_the_certified_optimum(loss, scaling):
    X, y, outputs = data(300, 400, density=0.03)
    y = outputs if loss.is_regression else y
    only_descent = policy.PassPolicy(narrow_weights=0)
    executor = InMemory(partitions(X, y, [0, 100, 120, 300]), [framing(loss, 400, 0.5, scaling)])
    found = fitted(executor, tol=1e-4, policy=only_descent)
    expected = solve(LinearProblem.build(X, y, 0.5, loss, scaling), tol=1e-8)
    assert found.status is Status.CERTIFIED
    assert {row.solver for row in found.trace} == {"dcd"}
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-4)


@pytest.mark.parametrize("loss", [*LOSSES, EpsilonInsensitive(0.1), SquaredEpsilonInsensitive(0.1)], ids=repr)
def test_the_step_of_a_round_maximises_the_dual_along_the_sum_of_all_changes(loss):
    X, y, outputs = data(200, 5)
    y = outputs if loss.is_regression else y
    problem = LinearProblem.build(X, y, 1.0, loss, 1.0)
    parts = [Part(LinearProblem.build(X[a : a + 50], y[a : a + 50], 1.0, loss, 1.0), Memory.empty(50), k, True)
             for k, a in enumerate(range(0, 200, 50))]  # fmt: skip
    w, total = np.zeros(6), None
    for part in parts:
        each = descend_part(part, CommonPoint(w, 0.0), Visit(2, 0.0, 3, 1.0))
        total = each if total is None else total.plus(each)
    change = np.concatenate([part.memory.alpha for part in parts])
    assert np.allclose(problem.weights(change), total.w, rtol=1e-12, atol=1e-12)
    length = total.length(w)
    assert 0.0 < length <= 1.0
    duals = [problem.dual(t * change) for t in np.linspace(0.0, 1.0, 101)]
    assert problem.dual(length * change) >= max(duals) - 1e-3 * abs(max(duals))
    assert total.rise(w, length) <= problem.dual(length * change) + 1e-9
    for part in parts:
        take_step_part(part, length)
    point = dual_point_part(parts[0])
    for part in parts[1:]:
        point = point.plus(dual_point_part(part))
    assert point.dual == pytest.approx(problem.dual(length * change), rel=1e-9)


@pytest.mark.parametrize("loss", [*LOSSES, *REGRESSION], ids=repr)
def test_a_look_from_known_margins_finds_what_a_new_one_finds_and_certifies_its_w(loss):
    X, y, outputs = data()
    y, random, grid = outputs if loss.is_regression else y, np.random.default_rng(3), Grid.of(policy.PASSES)
    problem = LinearProblem.build(X, y, 2.0, loss, 1.0)
    memory = Memory(np.clip(random.normal(size=600), problem.box.L, problem.box.U))
    best, w, later = 0.3 * random.normal(size=(3, 13))
    look_part(Part(problem, memory, 0, True), Sight(best, None, w, False, grid))
    mix = Mix(0.25, 1.1)
    mixed = 0.75 * best + 0.25 * 1.1 * w
    known = look_part(Part(problem, memory, 0, True), Sight(mixed, mix, later, True, grid))
    new = look_part(Part(problem, Memory(memory.alpha), 0, True), Sight(mixed, None, later, False, grid))
    assert known.losses == pytest.approx(new.losses, rel=1e-12)
    assert known.nearness.n_moving == new.nearness.n_moving
    assert new.sums is None
    certificate = certificate_of_parts(ProblemShape(600, 13, loss, 1.0), later, known.sums)
    assert certificate.gap == pytest.approx(certify(problem, later, memory.alpha).gap, rel=1e-12)


def test_a_descent_without_change_has_the_full_length():
    assert Descent(np.zeros(3), 0.0, 0.0, 0.0, 0.0).length(np.ones(3)) == 1.0


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.2), Quantile(0.3), SquaredHinge()], ids=repr)
def test_rows_that_are_proved_are_taken_out_for_good(loss):
    """The problem that is left has the optimum of the whole: its w, and its objective."""
    X, y, outputs = data(800, 6)
    y = outputs if loss.is_regression else y
    problem = LinearProblem.build(X, y, 0.05, loss, 1.0)
    optimum = solve(problem, tol=1e-10)
    part = Part(problem, Memory(optimum.alpha.copy()), 0, True)
    remainder = settle_part(part, optimum.w, optimum.certificate.distance_bound, uses_alpha=False)
    n_left = sum(len(each.places) for each in remainder.chosen)
    assert n_left < (800 if loss.is_smooth else 100)
    left, alpha = remainder.problem(framing(loss, 6, 0.05))
    assert left.n_samples <= n_left + 2
    solution = solve(left, tol=1e-9, warm_start=alpha)
    assert np.allclose(solution.w, optimum.w, atol=1e-5 * np.linalg.norm(optimum.w))
    assert solution.certificate.primal == pytest.approx(optimum.certificate.primal, rel=1e-6)


def blocks_of(X, y, folder, **settings):
    return to_blocks(X, folder, y=y, **settings)


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_blocks_on_a_disk_and_a_tenth_in_memory_give_the_optimum(loss, tol, tmp_path):
    X, y, _ = data(6000, 10)
    blocks = blocks_of(X, y, tmp_path, block_bytes=20_000)
    executor = OnDisk(blocks, [framing(loss, 10)])
    found = fitted(executor, tol=tol, room_bytes=0.1 * blocks.n_bytes, total_bytes=blocks.n_bytes)
    problem = LinearProblem.build(X, y, 1.0, loss, 1.0)
    assert found.status is Status.CERTIFIED
    certificate = certify(problem, found.w, executor.alpha(0))
    assert certificate.relative_gap <= tol
    assert certificate.primal == pytest.approx(found.certificate.primal, rel=1e-12)
    assert executor.n_bytes_read == executor.n_passes * blocks.n_bytes


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_many_features_on_a_disk_end_in_memory(loss, tmp_path):
    X, y, _ = data(900, 60, density=0.1)
    blocks = blocks_of(X, y, tmp_path, block_bytes=10_000)
    executor = OnDisk(blocks, [framing(loss, 60, 0.02)])
    wide = policy.PassPolicy(narrow_weights=0)
    found = fitted(executor, room_bytes=0.9 * blocks.n_bytes, total_bytes=blocks.n_bytes + 1e9, policy=wide)
    assert found.status is Status.CERTIFIED
    problem = LinearProblem.build(X, y, 0.02, loss, 1.0)
    assert certify(problem, found.w, executor.alpha(0)).relative_gap <= 1e-6


def test_all_rows_in_memory_are_one_ordinary_fit(tmp_path):
    X, y, _ = data()
    blocks = blocks_of(X, y, tmp_path, block_bytes=4000)
    assert len(blocks) > 3
    executor = OnDisk(blocks, [framing(Hinge(), 12)])
    found = fitted(executor, room_bytes=1e9, total_bytes=blocks.n_bytes)
    assert found.status is Status.CERTIFIED
    assert executor.n_passes == 2
    expected = solve(LinearProblem.build(X, y, 1.0, Hinge(), 1.0), tol=1e-6)
    assert np.array_equal(found.w, expected.w)
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-12)


def test_rows_that_a_client_collects_are_one_ordinary_fit_and_one_pass_for_its_certificate():
    X, y, _ = data()
    executor = InMemory([Block(X[a:b], y[a:b]) for a, b in ((0, 200), (200, 600))], [framing(SquaredHinge(), 12)])
    wide = policy.PassPolicy(narrow_weights=0)
    found = fitted(executor, room_bytes=1e9, total_bytes=1e5, policy=wide)
    expected = solve(LinearProblem.build(X, y, 1.0, SquaredHinge(), 1.0), tol=1e-6)
    assert executor.n_passes == 2
    assert np.array_equal(found.w, expected.w)
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-12)
    assert found.certificate.meets(1e-6)


def test_one_visit_serves_all_problems(tmp_path):
    X, y, _ = data()
    blocks = blocks_of(X, y, tmp_path, block_bytes=4000)
    framings = [framing(SquaredHinge(), 12, C) for C in (0.1, 1.0, 10.0)]
    executor = OnDisk(blocks, framings)
    stop = Stop.after(math.inf)
    runs = [PassesRun(executor, k, Plan(Limits(1e-6), stop)) for k in range(3)]
    found = run_together(executor, [run.solve() for run in runs], stop)
    assert all(solution.status is Status.CERTIFIED for solution in found)
    assert executor.n_passes == max(run.n_passes for run in runs)


def test_a_partition_without_weight_changes_nothing():
    X, y, _ = data()
    weights = np.ones(600)
    weights[:200] = 0.0
    blocks = [Block(X[a:b], y[a:b], weights[a:b]) for a, b in ((0, 200), (200, 600))]
    found = fitted(InMemory(blocks, [framing(Hinge(), 12)]))
    expected = solve(LinearProblem.build(X[200:], y[200:], 1.0, Hinge(), 1.0), tol=1e-8)
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-6)


def test_a_limit_on_passes_ends_the_fit_with_its_certificate():
    X, y, _ = data()
    executor = InMemory(partitions(X, y, [0, 300, 600]), [framing(Hinge(), 12, 100.0)])
    stop = Stop.after(math.inf)
    run = PassesRun(executor, 0, Plan(Limits(1e-12, 4.0), stop))
    (found,) = run_together(executor, [run.solve()], stop)
    assert found.status is Status.EPOCH_LIMIT
    assert found.certificate.is_proof


def test_an_interrupted_fit_ends_with_what_it_has():
    X, y, _ = data()
    executor = InMemory(partitions(X, y, [0, 300, 600]), [framing(Hinge(), 12, 100.0)])
    stop = Stop.after(math.inf)

    def interrupt(passes, run=executor.run):
        if executor.n_passes == 5:
            raise KeyboardInterrupt
        return run(passes)

    executor.run = interrupt
    (found,) = run_together(executor, [PassesRun(executor, 0, Plan(Limits(1e-6), stop)).solve()], stop)
    assert found.status is Status.STOPPED


def test_results_are_added_without_those_of_empty_partitions():
    X, y, _ = data()
    executor = InMemory(partitions(X, y, [0, 0, 600, 600]), [framing(Hinge(), 12)])
    reply = executor.run({0: Pass(dual_point_part)})[0]
    assert reply.value.dual == 0.0


def sorted_wide(loss, seed=0):
    """Many features, and rows sorted by class: every block has one class."""
    X, y, outputs = data(500, 2500, seed, density=0.01)
    order = np.argsort(y, kind="stable")
    return X[order], (outputs if loss.is_regression else y)[order]


WIDE = policy.PassPolicy(narrow_weights=0)


@pytest.mark.parametrize("C", [0.05, 5.0])
@pytest.mark.parametrize("scaling", [0.0, 1.0])
@pytest.mark.parametrize("loss", [*LOSSES, EpsilonInsensitive(0.1)], ids=repr)
def test_many_features_in_hands_of_a_tenth_are_certified_whatever_the_order_of_the_rows(loss, scaling, C, tmp_path):
    X, y = sorted_wide(loss)
    blocks = blocks_of(X, y, tmp_path, block_bytes=2000)
    executor = OnDisk(blocks, [framing(loss, 2500, C, scaling)])
    total = blocks.n_bytes + 96 * 500
    found = fitted(executor, total_bytes=math.inf, hand_bytes=0.1 * total, policy=WIDE)
    assert found.status is Status.CERTIFIED
    problem = LinearProblem.build(X, y, C, loss, scaling)
    assert certify(problem, found.w, executor.alpha(0)).relative_gap <= 1e-6
    assert executor.n_passes < 150


def test_a_certificate_in_hands_is_that_of_blocks(tmp_path):
    X, y, _ = data()
    blocks = blocks_of(X, y, tmp_path, block_bytes=2000)
    executor = OnDisk(blocks, [framing(Hinge(), 12)])
    random = np.random.default_rng(0)
    for memory in executor.memories[0]:
        memory.alpha[:] = random.random(len(memory.alpha))
    w, shape = random.normal(size=13), ProblemShape(600, 13, Hinge(), 1.0)
    plain, dealt = (
        certificate_of_parts(shape, w, executor.run({0: Pass(judge_part, (w, False), deal)})[0].value)
        for deal in (None, Deal(9000.0, 3))
    )
    assert plain.gap == pytest.approx(dealt.gap, rel=1e-12)
    assert plain.primal == pytest.approx(dealt.primal, rel=1e-12)


class Sizes(NamedTuple):
    """The rows of each hand."""

    rows: list[int]
    alphas: list[np.ndarray]

    def plus(self, other):
        return Sizes(self.rows + other.rows, self.alphas + other.alphas)


def sizes_part(part):
    part.memory.alpha = part.memory.alpha + 1.0
    return Sizes([part.problem.n_samples], [part.memory.alpha])


def test_a_hand_holds_what_fits_and_the_worst_samples_stay_in_every_hand(tmp_path):
    X, y, _ = data(600, 12)
    blocks = blocks_of(X, y, tmp_path, block_bytes=2000)
    executor = OnDisk(blocks, [framing(Hinge(), 12)])
    for memory in executor.memories[0]:
        memory.distance = np.full(len(memory.alpha), 1.0, np.float32)
        memory.distance[::2] = 9.0  # far from a kink
        memory.distance[1] = -3.0  # wrong by three
    n_kept = len(executor.memories[0])
    deal = Deal(20_000.0, 0, reach=2.0, keep=2.0, kind="descent")
    first = executor.run({0: Pass(sizes_part, (), deal)})[0].value
    second = executor.run({0: Pass(sizes_part, (), deal._replace(seed=1))})[0].value
    assert len(first.rows) > 1
    assert max(first.rows + second.rows) * 96 <= 20_000
    for memory in executor.memories[0]:
        assert np.all(memory.alpha[::2] == 0.0)
        assert np.all(memory.alpha[3::2] == 2.0)
    assert sum(second.rows) == sum(len(memory.alpha[3::2]) for memory in executor.memories[0]) + n_kept * len(second.rows)
    assert all(memory.alpha[1] >= 1.0 + len(second.rows) for memory in executor.memories[0])
    other = executor.run({0: Pass(sizes_part, (), deal._replace(kind="another"))})[0].value
    assert sum(other.rows) < sum(second.rows)


def part_of(X, y, loss):
    return Part(LinearProblem.build(X, y, 1.0, loss, 1.0), Memory.empty(len(y)), 0, True)


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1), Quantile(0.3)], ids=repr)
def test_the_samples_near_a_kink_alone_give_the_sums_of_all_while_the_others_stay_on_their_side(loss):
    X, y, outputs = data()
    y = outputs if loss.is_regression else y
    w = solve(LinearProblem.build(X, y, 1.0, loss, 1.0), tol=1e-3).w
    direction = 0.003 * np.random.default_rng(2).normal(size=13)
    first, second = Line(0, -1, w, np.zeros(13)), Line(1, 0, w, direction)
    begin, order = Order(20.0, 0.0, anchors_in_middle=True, restarts=True), Order(20.0, 0.0)
    whole, zoomed = part_of(X, y, loss), part_of(X, y, loss)
    answer_part(whole, first, 0.0, begin)
    answer_part(zoomed, first, 0.0, begin._replace(reach=0.08))
    assert 0 < len(zoomed.memory.kept["near"].places) < 150
    lengths = np.array([0.5, 1.0])
    slopes = [slopes_part(part, second, lengths, order).values for part in (whole, zoomed)]
    assert np.allclose(*slopes, rtol=1e-9, atol=1e-9)
    answers = [answer_part(part, second, 1.0, order) for part in (whole, zoomed)]
    for one, other in zip(*answers, strict=True):
        assert np.allclose(one, other, rtol=1e-9, atol=1e-9)
    assert np.allclose(whole.memory.alpha, zoomed.memory.alpha, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_matrix_that_is_asked_for_when_needed_leads_to_the_certified_optimum(loss):
    X, y, _ = data(500, policy.PASSES.light_weights + 20, density=0.1)
    executor = InMemory(partitions(X, y, [0, 200, 500]), [framing(loss, X.shape[1])])
    assert fitted(executor).status is Status.CERTIFIED


def test_a_guess_is_the_solution_for_a_sample_and_needs_both_classes():
    X, y, _ = data(4000, 5)
    wanted = solve(LinearProblem.build(X, y, 1.0, Hinge(), 1.0), tol=1e-6).w
    sampling = Sampling(0.5, 100, 4000, 1e-4, math.inf, 0)
    guess = guess_part(part_of(X, y, Hinge()), framing(Hinge(), 5), sampling)
    assert guess is not None
    assert np.linalg.norm(guess.w / guess.n_rows - wanted) <= 0.2 * np.linalg.norm(wanted)
    assert guess_part(part_of(X, np.ones(4000), Hinge()), framing(Hinge(), 5), sampling) is None


@pytest.mark.parametrize("scaling", [0.0, 1.0])
@pytest.mark.parametrize("loss", [*LOSSES, EpsilonInsensitive(0.1)], ids=repr)
def test_the_rows_that_can_move_are_solved_in_memory_where_partitions_work_side_by_side(loss, scaling):
    X, y, outputs = data(900, 400, density=0.03)
    y = outputs if loss.is_regression else y
    X, y = X[np.argsort(y)], np.sort(y)  # the first partition has one class
    wide = policy.PassPolicy(narrow_weights=0)
    executor = InMemory(partitions(X, y, [0, 300, 300, 500, 900]), [framing(loss, 400, 1.0, scaling)])
    total = 12.0 * X.nnz + 96.0 * 900
    found = fitted(executor, policy=wide, room_bytes=0.9 * total, total_bytes=total)
    problem = LinearProblem.build(X, y, 1.0, loss, scaling)
    expected = solve(problem, tol=1e-8)
    assert found.status is Status.CERTIFIED
    assert "auto" in {row.solver for row in found.trace}
    alpha = np.concatenate([memory.alpha for memory in executor.memories[0]])
    assert certify(problem, found.w, alpha).relative_gap <= 1e-6
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=2e-6)


@pytest.mark.parametrize("narrow_weights", [0, 2000], ids=["descent", "newton"])
def test_a_fit_that_runs_out_of_time_certifies_its_last_point(narrow_weights, monkeypatch):
    """A clock that each pass moves on by one second: the last passes are for the certificate."""
    X, y, _ = data(600, 40, density=0.2)
    executor = InMemory(partitions(X, y, [0, 300, 600]), [framing(Hinge(), 40, 100.0)])
    clock = [0.0]

    def tick(passes, run=executor.run):
        clock[0] += 1.0
        return run(passes)

    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    executor.run = tick
    stop = Stop.after(20.0)
    run = PassesRun(executor, 0, Plan(Limits(1e-12), stop, policy=policy.PassPolicy(narrow_weights=narrow_weights)))
    (found,) = run_together(executor, [run.solve()], stop)
    assert found.status is Status.TIME_LIMIT
    assert found.trace[-1].epochs == executor.n_passes >= 14
    assert math.isfinite(found.certificate.gap)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), EpsilonInsensitive(0.1)], ids=repr)
def test_a_visit_tells_the_gap_term_of_a_sample_and_its_distance_from_a_kink(loss):
    """Compared with the definitions, for one sample at a time: its own step comes after what it tells."""
    random = np.random.default_rng(3)
    X, w = random.normal(size=(40, 4)), random.normal(size=5)
    y = random.normal(size=40) if loss.is_regression else np.where(random.random(40) < 0.5, 1, -1).astype(np.int8)
    n_settled = 0
    for i in range(40):
        problem = LinearProblem.build(X[i : i + 1], y[i : i + 1], 0.7, loss, 1.0)
        low, high = float(problem.box.L[0]), min(float(problem.box.U[0]), 2.0)
        alpha = [low if np.isfinite(low) else -1.0, high, 0.0, random.uniform(max(low, -1.0), high)][i % 4]
        part = Part(problem, Memory(np.array([alpha])), 0, False)
        descend_part(part, CommonPoint(w.copy(), 1.0), Visit(1, 0.0, 0, None))
        margin = problem.margins(w)
        near, _ = distances_of(problem, margin, np.array([alpha]))
        gap = problem.C * loss.value(margin, problem.targets) - problem.box.terms(np.array([alpha])) + alpha * margin
        assert part.memory.gaps[0] == pytest.approx(float(gap[0]), rel=1e-5, abs=1e-7)
        if part.memory.distance[0] > 0.0:
            n_settled += 1
            assert part.memory.distance[0] == pytest.approx(near[0], rel=1e-5)
            assert part.memory.alpha[0] == alpha
        else:
            assert near[0] <= 0.0
    assert 0 < n_settled < 40


def test_samples_recall_what_their_visits_told_and_each_gap_term_once(tmp_path):
    X, y, _ = data(600, 12)
    executor = OnDisk(blocks_of(X, y, tmp_path, block_bytes=2000), [framing(Hinge(), 12)])
    assert executor.recall(0) is None
    visit = Visit(1, 0.0, 0, None)
    deal = Deal(20_000.0, 0, kind="descent", keep=0.5)
    executor.run({0: Pass(descend_part, (CommonPoint(np.zeros(13), 0.0), visit), deal)})
    recalled = executor.recall(0)
    distance = np.concatenate([memory.distance for memory in executor.memories[0]])
    assert recalled.distances.n_moving == np.count_nonzero(distance <= 0.0) > 0
    assert recalled.distances.violation == pytest.approx(np.sqrt(np.mean(np.square(distance[distance <= 0.0]))), rel=1e-5)
    assert recalled.gap > 0.0
    assert executor.recall(0).gap == 0.0

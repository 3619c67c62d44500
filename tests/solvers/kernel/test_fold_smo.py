"""SMO on a fold of one matrix: what is held out never moves, and f is K s all the time."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_moons

from maxmargin import RBF, KernelProblem, solve
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.problem.kernels import Points
from maxmargin.solvers.kernel.fold_smo import Block, FoldPolicy, FoldSMO, balance

POLICIES = {
    "whole": FoldPolicy(),
    "mended": FoldPolicy(mended_within=np.inf, stretch_below=0.0),
    "one set": FoldPolicy(whole_steps=0, rushed=0.0, replaced=1.0),
    "working sets": FoldPolicy(working_set=64, whole_steps=0, steps_a_variable=3, greatest_share=1.0),
}


@pytest.mark.parametrize("has_offset", [True, False])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_rising_values_of_c_are_trained_to_the_target(has_offset, policy):
    X, y = make_classification(300, 4, n_redundant=0, flip_y=0.1, random_state=0)
    y, held_out = np.where(y == 1, 1.0, -1.0), np.arange(300) % 5 == 0
    costs = np.where(held_out, 0.0, np.random.default_rng(0).uniform(0.5, 2.0, 300))
    matrix = KernelMatrix.rounded(RBF(0.5), Points.of(X))
    K = matrix.whole
    fold = FoldSMO(K, np.diagonal(K).copy(), y, costs, has_offset, policy)
    for C in (0.01, 1.0, 100.0):
        fold.move_to(C)
        reached = fold.train(1e-4)
        s, f = fold.s[:300], fold.f[:300]
        assert np.all(s[held_out] == 0.0)
        assert np.all((s * y >= 0.0) & (s * y <= C * costs))
        assert f == pytest.approx(K[:300, :300].astype(float) @ s, abs=1e-9 * np.abs(s).sum())
        assert not has_offset or abs(s.sum()) <= 1e-12 * np.abs(s).sum()
        own = ~held_out
        exact = solve(
            KernelProblem.build(X[own], y[own].astype(int), C * costs[own], RBF(0.5), has_offset), tol=1e-9
        ).certificate
        w = reached.stretch * s
        if reached.mend is not None:
            w[reached.mend.samples] += reached.mend.change
        outputs = K[:300, :300].astype(float) @ w
        assert reached.outputs[:300] == pytest.approx(outputs, abs=1e-9 * np.abs(w).sum())
        primal = 0.5 * w @ outputs + C * costs @ np.maximum(0.0, 1.0 - y * (outputs + reached.b))
        assert exact.dual - 1e-6 * exact.primal <= primal <= (1.0 + 1.1e-4) * exact.primal
        assert np.abs(s).sum() - 0.5 * s @ f >= (1.0 - 1.1e-4) * exact.dual


def test_a_matrix_is_rounded_from_float64():
    X = np.random.default_rng(0).normal(size=(70, 3)) + 100.0  # squared norms of 30,000: float32 would lose the distances
    matrix = KernelMatrix.rounded(RBF(0.5), Points.of(X))
    assert matrix.whole.dtype == np.float32
    assert matrix.whole[:70, :70] == pytest.approx(RBF(0.5).block(Points.of(X), Points.of(X)), abs=1e-7)
    memory = matrix.whole
    assert KernelMatrix.rounded(RBF(0.1), Points.of(X), memory).whole is memory


def a_fold(held_out, has_offset=True):
    X, y = make_classification(300, 4, n_redundant=0, flip_y=0.1, random_state=0)
    y, costs = np.where(y == 1, 1.0, -1.0), np.where(np.arange(300) % 5 == held_out, 0.0, 1.0)
    K = KernelMatrix.rounded(RBF(0.5), Points.of(X)).whole
    return FoldSMO(K, np.diagonal(K).copy(), y * (costs > 0.0), costs, has_offset)


@pytest.mark.parametrize("has_offset", [True, False])
def test_a_fold_begins_at_a_feasible_point_near_that_of_another_one(has_offset):
    one, other = a_fold(0, has_offset), a_fold(1, has_offset)
    for fold in (one, other):
        fold.move_to(0.1)
    before = one.look(1.0).relative_gap
    one.seed(other.end(other.train(1e-4).b))
    s, f = one.s[:300], one.f[:300]
    assert np.all((one.lower <= one.s) & (one.s <= one.upper))
    assert np.all(s[::5] == 0.0)
    assert not has_offset or abs(s.sum()) <= 1e-12 * np.abs(s).sum()
    assert f == pytest.approx(one.K[:300, :300].astype(float) @ s, abs=1e-9)
    assert one.look(1.0).relative_gap < 0.2 * before


def test_a_mended_point_has_less_than_half_the_gap_where_c_is_large():
    X, y = make_moons(400, noise=0.3, random_state=0)
    K = KernelMatrix.rounded(RBF(1.0), Points.of(X)).whole
    gaps = []
    for within in (0.0, np.inf):
        policy = FoldPolicy(mended_within=within, whole_steps=0, steps_a_variable=1, most_rounds=20)
        fold = FoldSMO(K, np.diagonal(K).copy(), np.where(y == 1, 1.0, -1.0), np.ones(400), True, policy)
        fold.move_to(1000.0)
        gaps.append(fold.train(1e-9).relative_gap)
    assert gaps[1] < 0.5 * gaps[0]


def test_a_block_takes_in_what_is_missing_and_keeps_its_values_right():
    rng = np.random.default_rng(0)
    K = rng.normal(size=(50, 50)).astype(np.float32)
    K = K + K.T
    block = Block(np.arange(16), np.zeros((32, 32), np.float32))
    block.K[:16, :16] = K[:16, :16]
    wanted = np.array([0, 1, 2, 3, 4, 5, 6, 7, 20, 40])
    assert block.replace(K, wanted, 0.25)
    assert set(wanted) <= set(block.samples)
    assert np.array_equal(block.K[:16, :16], K[np.ix_(block.samples, block.samples)])
    assert np.all(block.K[16:] == 0.0)
    assert not block.replace(K, np.arange(30, 40), 0.25)  # too many
    assert not block.replace(K, np.arange(4), 1.0)  # the set would be mostly unwanted


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_balancing_moves_the_samples_that_want_it_most(sign):
    v = sign * np.array([0.3, -1.0, 0.5, -2.0, 1.0, 2.0])
    lower, upper = np.array([0.0, 0.0, 0.0, -2.0, -2.0, -2.0]), np.array([2.0, 2.0, 2.0, 0.0, 0.0, 0.0])
    lower, upper = (lower, upper) if sign > 0.0 else (-upper, -lower)
    s = sign * np.array([2.0, 2.0, 0.5, -1.0, 0.0, 0.0])
    balance(s, v, lower, upper)
    assert list(sign * s) == [1.5, 0.0, 0.5, -2.0, 0.0, 0.0]  # by v: first sample 3, then 1, then a part of 0

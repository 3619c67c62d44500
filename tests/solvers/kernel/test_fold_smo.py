"""SMO on a fold of one matrix: what is held out never moves, and f is K s all the time."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from maxmargin import RBF, KernelProblem, solve
from maxmargin.kernel_matrix.matrix import KernelMatrix
from maxmargin.problem.kernels import Points
from maxmargin.solvers.kernel.fold_smo import FoldPolicy, FoldSMO

POLICIES = {"whole": FoldPolicy(), "working sets": FoldPolicy(working_set=64, whole_steps=0, steps_a_variable=3)}


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

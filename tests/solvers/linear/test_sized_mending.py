"""Dual points of nu-SVC whose rounding errors are made good, with a given sum."""

from __future__ import annotations

import numpy as np

from maxmargin.data.rows import Rows
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.linear.sized_mending import mended_to_size


def test_the_sum_is_kept_and_the_weights_come_nearer_on_a_column_of_nanoseconds():
    rng = np.random.default_rng(0)
    n = 120
    X = np.column_stack([1.6e18 + 3e16 * rng.random(n), 1e9 * rng.random(n), rng.normal(size=n)])
    y = np.where(rng.random(n) < 0.5, 1, -1).astype(np.int8)
    problem = LinearProblem(Rows.from_matrix(X), y, np.ones(n), Hinge(), 1.0, False)
    alpha = np.where(rng.random(n) < 0.5, rng.uniform(0.2, 0.8, n), 0.0)
    alpha[y > 0] *= alpha[y < 0].sum() / alpha[y > 0].sum()
    w = np.append(problem.precise_weights(alpha)[:3] * (1.0 + 1e-9), 0.0)
    size = float(alpha.sum()) * (1.0 + 1e-12)
    found = mended_to_size(problem, w, alpha, size)
    before, after = (np.abs(problem.precise_weights(a)[:3] - w[:3]) for a in (alpha, found))
    assert abs(found.sum() - size) <= 1e-14 * size
    assert abs(float((found * y).sum())) <= 1e-12
    assert np.all(after <= 1e-3 * before)
    assert np.all((found >= 0.0) & (found <= 1.0))

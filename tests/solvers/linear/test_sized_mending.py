"""Dual points of nu-SVC whose rounding errors are made good, with a given sum."""

from __future__ import annotations

import numpy as np

from maxmargin.data.rows import Rows
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.problem.regression_losses import EpsilonInsensitive
from maxmargin.solvers.linear.sized_mending import coefficients_mended_to_size, mended_to_size


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


def test_the_coefficients_of_a_regression_keep_the_sum_of_their_sizes():
    rng = np.random.default_rng(1)
    n = 150
    X = np.column_stack([1.6e18 + 3e16 * rng.random(n), rng.normal(size=(n, 3))])
    problem = LinearProblem(Rows.from_matrix(X), rng.normal(size=n), np.ones(n), EpsilonInsensitive(0.1), 1.0, False)
    beta = np.where(rng.random(n) < 0.5, rng.uniform(-0.8, 0.8, n), 0.0)
    beta[beta > 0.0] *= -beta[beta < 0.0].sum() / beta[beta > 0.0].sum()
    beta = np.clip(beta, -1.0, 1.0)
    w = np.append(problem.precise_weights(beta)[:4] * (1.0 + 1e-12), 0.0)
    size = float(np.abs(beta).sum())
    found = coefficients_mended_to_size(problem, w, beta, size)
    before, after = (np.abs(problem.precise_weights(b)[:4] - w[:4]) for b in (beta, found))
    assert abs(np.abs(found).sum() - size) <= 1e-13 * size
    assert after[0] <= 1e-3 * before[0]
    assert np.all(np.abs(found) <= 1.0)

"""The search for a better primal point, and renumbered columns, in regression."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin import EpsilonInsensitive, LinearProblem, Quantile, SquaredEpsilonInsensitive, Status, solve
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.avsf import AVSF
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solvers.linear.primal_search import PrimalPoint, PrimalSearch
from maxmargin.solvers.linear.primal_search_loop import residual_loss_along
from maxmargin.solvers.presolve import RenumberedColumns

LOSSES = {"epsilon": EpsilonInsensitive(0.2), "squared": SquaredEpsilonInsensitive(0.2), "quantile": Quantile(0.3)}
losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def made(loss, n=120, d=300, C=10.0, seed=0) -> LinearProblem:
    """Wide and sparse, with features that occur once."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=0.02, random_state=rng, format="csr") + sparse.random_array(
        (n, d), density=0.005, random_state=rng
    )
    weights = rng.uniform(0.5, 2.0, n)
    return LinearProblem.build(X.tocsr(), X @ rng.normal(size=d) + rng.normal(size=n), C * weights, loss, 1.0)


@losses
@pytest.mark.parametrize("t", [0.0, 0.4, 1.0, 2.0])
def test_the_loss_along_a_line_and_its_derivative_are_those_of_the_textbook(loss, t):
    problem, rng = made(loss), np.random.default_rng(1)
    start, end = rng.normal(size=(2, problem.n_samples))

    def value(at: float) -> float:
        return float(problem.C @ loss.value((1.0 - at) * start + at * end, problem.y))

    total, slope = residual_loss_along(start, end, t, np.ascontiguousarray(problem.C), problem.y, loss.residual_pieces())
    assert total == pytest.approx(value(t), rel=1e-12)
    assert slope == pytest.approx((value(t + 1e-7) - value(t - 1e-7)) / 2e-7, rel=1e-4)


@losses
def test_the_point_is_never_worse_than_what_is_offered_nor_than_before(loss):
    problem = made(loss)
    point, solver, last = PrimalPoint(problem), DCD(shrinking=None), np.inf
    state = solver.init(problem, None, 0)
    for _ in range(15):
        solver.advance(problem, state, Budget(problem.n_samples, 0.0))
        w = solver.candidate(problem, state)[0].copy()
        found = point.offer(w.copy(), problem.margins(w), float(w @ w))
        assert found <= min(last, problem.primal(w)) * (1.0 + 1e-12)
        assert found == pytest.approx(problem.primal(point.best.w), rel=1e-10)
        last = found


@losses
def test_renumbered_columns_give_the_weights_of_alpha_back(loss):
    problem = made(loss)
    reduction = RenumberedColumns.of(problem)
    assert reduction.problem.rows.n_features < problem.rows.n_features
    alpha = np.clip(np.random.default_rng(2).normal(size=problem.n_samples), problem.box.L, problem.box.U)
    w, same = reduction.expand(reduction.problem.weights(alpha), alpha)
    np.testing.assert_allclose(w, problem.weights(alpha), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(same, alpha)
    assert reduction.problem.dual(alpha) == pytest.approx(problem.dual(alpha), rel=1e-10)


@losses
def test_the_search_on_renumbered_columns_ends_at_a_certified_pair(loss):
    problem = made(loss)
    reduction = RenumberedColumns.of(problem)
    search, solver = PrimalSearch(reduction.problem, reduction), AVSF()
    state = solver.init(reduction.problem, None, 0)
    for _ in range(200):
        solver.advance(reduction.problem, state, Budget(20 * problem.n_samples, 1e-6))
        primal = search.look(*solver.candidate(reduction.problem, state))
    w, alpha = search.candidate(solver.candidate(reduction.problem, state)[1])
    assert problem.primal(w) == pytest.approx(primal, rel=1e-9)
    assert primal - problem.dual(alpha) <= 1e-4 * primal


@losses
@pytest.mark.parametrize("C", [0.01, 1000.0])
def test_wide_sparse_regression_is_certified(loss, C):
    """So wide and so hard that auto turns to AVSF."""
    problem = made(loss, n=400, d=5000, C=C)
    assert solve(problem, tol=1e-6).status is Status.CERTIFIED

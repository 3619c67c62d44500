"""Rare columns: each is brought to its own minimum, and Newton's method takes few steps where they decide the kinks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate.linear import certify
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import SquaredHinge
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.newton.curves import Curve
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.passes import curve_of
from maxmargin.solvers.linear.newton.policy import HessianPolicy, NewtonPolicy
from maxmargin.solvers.linear.newton.rare_columns import RareColumns, SettlingState
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status

MOST = 6
"""Elements up to which a column counts as rare in these tests."""


def one_hot_problem(n: int, levels: list[int], power: float, seed: int, C: float = 100.0) -> LinearProblem:
    rng = np.random.default_rng(seed)
    columns, first = [], 0
    for size in levels:
        frequency = (1.0 + np.arange(size)) ** -power
        columns.append(first + rng.choice(size, n, p=frequency / frequency.sum()))
        first += size
    indices = np.column_stack(columns).reshape(-1)
    X = sparse.csr_matrix((np.ones(len(indices)), indices, np.arange(0, len(indices) + 1, len(levels))), shape=(n, first))
    y = np.where(X @ rng.normal(size=first) + 2.0 * rng.normal(size=n) > 0.0, 1, -1)
    return LinearProblem.build(X, y, C, SquaredHinge())


@pytest.fixture
def problem() -> LinearProblem:
    return one_hot_problem(400, [200, 30, 5], 1.0, 0)


def rare_columns_of(problem: LinearProblem) -> RareColumns:
    return RareColumns.of(problem, problem.rows.compact(), MOST)


def test_rare_columns_are_listed_with_their_elements(problem):
    elements = rare_columns_of(problem).elements
    X = problem.rows.matrix.tocsc()
    counts = np.diff(X.indptr)
    assert np.array_equal(elements.columns, np.flatnonzero((counts > 0) & (counts <= MOST)))
    for k, j in enumerate(elements.columns):
        part = slice(elements.starts[k], elements.starts[k + 1])
        assert np.array_equal(elements.samples[part], X[:, j].indices)
        assert np.array_equal(elements.values[part], problem.signs[X[:, j].indices])


@pytest.mark.parametrize("seed", range(5))
def test_a_settled_column_is_at_its_own_minimum_and_the_margins_follow(problem, seed):
    rare, curve = rare_columns_of(problem), curve_of(problem)
    assert isinstance(curve, Curve)
    w = np.random.default_rng(seed).normal(size=problem.n_weights)
    margin = problem.margins(w)
    before = problem.primal(w)
    rare.settle(np.ones(problem.n_samples, bool), margin, curve, 1.0 / curve.softness, w)
    assert np.allclose(margin, problem.margins(w), rtol=0.0, atol=1e-12)
    assert problem.primal(w) < before
    last = rare.elements.columns[-1]
    samples = rare.elements.samples[rare.elements.starts[-2] :]
    slack = np.maximum(0.0, 1.0 - margin[samples])
    assert abs(w[last] - 2.0 * problem.C[samples] * slack @ rare.elements.values[rare.elements.starts[-2] :]) < 1e-9


def test_a_column_without_a_crossing_stays(problem):
    rare, curve = rare_columns_of(problem), curve_of(problem)
    assert isinstance(curve, Curve)
    w = np.ones(problem.n_weights)
    margin = problem.margins(w)
    rare.settle(np.zeros(problem.n_samples, bool), margin, curve, 1.0 / curve.softness, w)
    assert np.all(w == 1.0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_newton_by_products_takes_few_steps_on_skewed_one_hot_columns(power, seed):
    problem = one_hot_problem(6000, [2500, 300, 40, 10], power, seed)
    solver = Newton()
    assert isinstance(solver.init(problem, None, 0), SettlingState)
    rough, precise = (solve(problem, solver, tol=tol) for tol in (1e-3, 1e-8))
    assert rough.status is precise.status is Status.CERTIFIED
    assert rough.epochs <= 12
    assert precise.epochs <= 30
    assert rough.certificate.primal >= precise.certificate.dual


def test_rare_columns_that_share_their_samples_are_not_settled():
    """Two variables with about five rows a value, and one such variable beside a frequent one."""
    shared, alone = (one_hot_problem(6000, levels, 0.0, 0) for levels in ([1200, 1200], [2400, 4]))
    for problem, is_settled in ((shared, False), (alone, True)):
        X = (problem.rows.matrix != 0).astype(float)
        rare = np.asarray(X.sum(axis=0)).ravel() <= NewtonPolicy().products.rare
        in_row = X @ rare
        found = RareColumns.of(problem, problem.rows.compact(), NewtonPolicy().products.rare)
        assert found.shared == pytest.approx(in_row @ (in_row - 1.0) / in_row.sum())
        state = Newton(policy=NewtonPolicy(matrix=HessianPolicy(most_matrix_weights=10))).init(problem, None, 0)
        assert isinstance(state, SettlingState)
        assert (len(state._rare_columns.elements.columns) > 0) is is_settled


@pytest.mark.parametrize("scaling", [0.0, 1.5])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_a_predicted_alpha_is_feasible_and_has_the_dual_value_that_is_claimed(C, scaling):
    problem = one_hot_problem(6000, [1500, 1500], 0.0, 0, C)
    problem = LinearProblem.build(problem.rows.matrix, problem.y, np.linspace(0.5, 1.0, 6000) * C, SquaredHinge(), scaling)
    solver, n_predicted = Newton(), 0
    state = solver.init(problem, None, 0)
    while not state.looks_done:
        before = state.anchor_dual
        solver.advance(problem, state, Budget(1, 1e-4))
        n_predicted += state.anchor_dual > before
        assert np.all(state.anchor >= 0.0)
        assert state.anchor_dual == pytest.approx(problem.dual(state.anchor), rel=1e-9, abs=1e-9)
    assert n_predicted > 0
    assert certify(problem, *solver.candidate(problem, state)).meets(1e-4)

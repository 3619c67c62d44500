"""Separable labels at a large C: Newton's method begins again with a proximal term, and takes tens of steps, not hundreds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.policy import NewtonPolicy
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status


def separable_problem(C: float, loss: Hinge | SquaredHinge, seed: int) -> LinearProblem:
    """A sparse table of 400 x 300 with values up to 1e4: any labels are separable."""
    rng = np.random.default_rng(seed)
    X = sparse.csr_matrix((rng.integers(0, 10_000, (400, 300)) * (rng.random((400, 300)) < 0.05)).astype(float))
    y = np.where(rng.random(400) < 0.5, 1, -1)
    return LinearProblem.build(X, y, C, loss, intercept_scaling=1.0)


@pytest.mark.parametrize("loss", [SquaredHinge(), Hinge()], ids=["squared_hinge", "hinge"])
@pytest.mark.parametrize("C", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_separable_labels_take_tens_of_steps_at_any_large_C(loss, C, seed):
    problem = separable_problem(C, loss, seed)
    start = solve(problem, "dcd", max_epochs=10).alpha
    solution = solve(problem, Newton(), warm_start=start)
    assert solution.status is Status.CERTIFIED
    assert solution.epochs <= 60


def test_the_answer_does_not_depend_on_the_proximal_term():
    problem = separable_problem(1.0, SquaredHinge(), 0)
    start = solve(problem, "dcd", max_epochs=10).alpha
    never = Newton(policy=NewtonPolicy(stiff_steps=0))
    with_term, without = (solve(problem, solver, warm_start=start, tol=1e-8) for solver in (Newton(), never))
    assert with_term.status is without.status is Status.CERTIFIED
    assert with_term.epochs < without.epochs
    distance = with_term.certificate.distance_bound + without.certificate.distance_bound
    assert np.linalg.norm(with_term.w - without.w) <= distance


def counts_problem(shift: float, C: float, seed: int) -> LinearProblem:
    """Counts of 60 genes with means from 0.1 to 1e5, two classes that differ in a third of them, and a free intercept."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(1_000) < 0.5, 1, -1)
    effect = np.where(rng.random(60) < 0.3, rng.normal(size=60) * shift, 0.0)
    means = 10.0 ** rng.uniform(-1.0, 5.0, 60) * np.exp(np.outer(y, effect))
    X = rng.poisson(means * rng.gamma(5.0, 0.2, means.shape)).astype(float)
    return LinearProblem.build(X, y, C, Hinge(), intercept_scaling=1.0, penalizes_intercept=False)


@pytest.mark.parametrize("C", [0.01, 1.0, 1e3])
@pytest.mark.parametrize("seed", range(3))
def test_separable_labels_and_a_free_intercept_take_tens_of_steps(C, seed):
    solution = solve(counts_problem(1.0, C, seed), Newton())
    assert solution.status is Status.CERTIFIED
    assert solution.epochs <= 60


@pytest.mark.parametrize("C", [0.01, 1.0, 1e3])
def test_labels_that_cannot_be_separated_do_not_look_stiff_with_a_free_intercept(C):
    never = Newton(policy=NewtonPolicy(stiff=np.inf))
    answer, plain = (solve(counts_problem(0.05, C, 0), solver) for solver in (Newton(), never))
    assert answer.status is Status.CERTIFIED
    assert answer.epochs == plain.epochs

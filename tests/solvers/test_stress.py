"""Awkward data through every solver: the certificate is right in rational arithmetic, nothing hangs, nothing warns."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Solution, Status
from tests.catalogue import LOSSES
from tests.certificate.test_linear import exact_gap
from tests.certificate.test_weight_bounds import assert_below_all

AWKWARD = {
    "plain": lambda X: X,
    "constant columns": lambda X: np.column_stack([X, np.full(len(X), 3.0), np.full(len(X), -1.0)]),
    "duplicated columns": lambda X: np.column_stack([X, X, -2.0 * X]),
    "zero columns": lambda X: np.column_stack([np.zeros((len(X), 2)), X, np.zeros(len(X))]),
    "zero rows": lambda X: X * (np.arange(len(X)) % 2)[:, None],
    "duplicated rows": lambda X: X[np.arange(len(X)) // 2],
    "same rows": lambda X: np.broadcast_to(X[0], X.shape).copy(),
    "one feature huge": lambda X: X * np.where(np.arange(X.shape[1]) == 0, 1e8, 1.0),
    "far away": lambda X: X + 1e4,
    "all zero": np.zeros_like,
    "as many features as rows": lambda X: np.resize(X, (len(X), len(X))) + np.eye(len(X)),
    "nearly collinear": lambda X: np.column_stack([X, X[:, 0] * (1.0 + 1e-9)]),
}

awkward_cases = {
    "seed": st.integers(0, 10**6),
    "n": st.integers(2, 12),
    "d": st.integers(1, 5),
    "scale": st.sampled_from([1e-150, 1e-30, 1e-3, 1.0, 1e3, 1e30, 1e100]),
    "C": st.sampled_from([1e-10, 1e-3, 1.0, 1e3, 1e10]),
    "awkward": st.sampled_from(list(AWKWARD)),
    "layout": st.sampled_from([np.asarray, sparse.csr_array]),
    "weighted": st.booleans(),
}
few = settings(max_examples=50, deadline=None)


def awkward_data(seed: int, n: int, d: int, scale: float, awkward: str) -> tuple[Array, Array]:
    X = AWKWARD[awkward](np.random.default_rng(seed).normal(size=(n, d)))
    return scale * X, np.where(np.arange(n) % 3 == 0, 1, -1)


def costs(C: float, n: int, weighted: bool) -> Array:
    """Every third sample absent, but for the first of each class."""
    return C * np.where((np.arange(n) % 3 == 2) & weighted, 0.0, 1.0)


def assert_honest(problem: LinearProblem, solution: Solution, tol: float) -> None:
    certificate = solution.certificate
    assert solution.status is not Status.STOPPED
    assert np.isfinite(solution.w).all()
    if not math.isfinite(certificate.gap):
        assert not solution.status.is_certified
        return
    exact = exact_gap(problem, solution.w, solution.alpha)
    assert exact >= 0
    if certificate.has_bounded_weights:
        assert_below_all(problem, solution)
        return
    assert exact <= Fraction(certificate.gap) + Fraction(certificate.rounding_error)
    if problem.penalizes_intercept:
        assert abs(Fraction(certificate.gap) - exact) <= Fraction(certificate.rounding_error)
    if solution.status.is_certified:
        assert exact <= Fraction(tol) * Fraction(max(abs(certificate.primal), abs(certificate.dual)))


@pytest.mark.parametrize("scaling", [0.0, 1.0])
@pytest.mark.parametrize("solver", ["newton", "avsf", "auto"])
@few
@given(loss=st.sampled_from(list(LOSSES.values())), **awkward_cases)
def test_whatever_comes_in_the_certificate_is_right(solver, scaling, seed, n, d, scale, C, loss, awkward, layout, weighted):
    X, y = awkward_data(seed, n, d, scale, awkward)
    problem = LinearProblem.build(layout(X), y, costs(C, n, weighted), loss, scaling)
    assert_honest(problem, solve(problem, solver, tol=1e-4, max_epochs=500), 1e-4)


@pytest.mark.parametrize("solver", ["newton", "auto"])
@few
@given(loss=st.sampled_from([Hinge(), SquaredHinge()]), **awkward_cases)
def test_without_a_penalty_on_the_intercept_it_is_right_too(solver, seed, n, d, scale, C, loss, awkward, layout, weighted):
    X, y = awkward_data(seed, n, d, scale, awkward)
    problem = LinearProblem.build(layout(X), y, costs(C, n, weighted), loss, 1.0, penalizes_intercept=False)
    assert_honest(problem, solve(problem, solver, tol=1e-4, max_epochs=500), 1e-4)


@pytest.mark.parametrize("penalizes_intercept", [True, False])
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 40),
    d=st.integers(1, 8),
    C=st.sampled_from([1e-3, 1.0, 1e3]),
    loss=st.sampled_from([Hinge(), SquaredHinge()]),
    awkward=st.sampled_from([name for name in AWKWARD if name not in ("one feature huge", "far away", "nearly collinear")]),
)
def test_at_ordinary_scales_newton_and_auto_are_certified_in_few_steps(penalizes_intercept, seed, n, d, C, loss, awkward):
    X, y = awkward_data(seed, n, d, 1.0, awkward)
    problem = LinearProblem.build(X, y, C, loss, 1.0, penalizes_intercept)
    for solver in ("newton", "auto"):
        solution = solve(problem, solver, tol=1e-6)
        assert solution.status is Status.CERTIFIED
        assert solution.epochs <= 300

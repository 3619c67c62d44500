"""The solver for few samples: what it does where SMO is slow."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons

from maxmargin.certificate.kernel import certify_kernel
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.auto import KernelAuto
from maxmargin.solvers.kernel.auto_policy import KernelAutoPolicy
from maxmargin.solvers.kernel.held_smo_policy import HeldSMOPolicy
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status


@pytest.mark.parametrize("C", [1e4, 1e6])
def test_few_samples_in_few_dimensions_are_solved_on_a_factor_of_the_kernel_matrix(C):
    """SMO is slow there, and active-set Newton ends at its limit."""
    X, y = make_moons(400, noise=0.35, random_state=7)
    problem = KernelProblem.build(X, np.where(y > 0, 1, -1), C, RBF(1.0))
    state = KernelAuto().few(problem)
    while not (state.looks_done or state.has_given_up):
        state.advance(Budget(10**5, 1e-3))
    assert state.most_columns == state.n  # Newton has run
    assert certify_kernel(problem, state.alpha, tol=1e-3).certificate.meets(1e-3)


@pytest.mark.parametrize("sure_face", [0.0, 4.0, np.inf])
def test_a_short_run_of_least_squares_before_newton_does_not_change_the_optimum(sure_face):
    X, y = make_moons(240, noise=0.3, random_state=0)
    problem = KernelProblem.build(X, np.where(y > 0, 1, -1), 1000.0, RBF(1.0))
    held = HeldSMOPolicy(sure_face=sure_face)
    solution = solve(problem, KernelAuto(policy=KernelAutoPolicy(held=held)), tol=1e-6)
    assert solution.status == Status.CERTIFIED
    assert solution.certificate.primal == pytest.approx(solve(problem, "smo", tol=1e-6).certificate.primal, rel=1e-6)

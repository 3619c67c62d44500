"""What more steps of SMO and least squares would cost, and which of them the default solver chooses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from maxmargin.certificate.kernel import certify_kernel
from maxmargin.problem import policy
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF
from maxmargin.solvers.kernel.auto import KernelAuto
from maxmargin.solvers.kernel.auto_policy import KernelAutoPolicy
from maxmargin.solvers.kernel.batched_smo import BatchedSMO
from maxmargin.solvers.kernel.prices import Prices
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status


@pytest.fixture(autouse=True)
def _many(monkeypatch):
    """The samples are too many for the solver of few samples."""
    monkeypatch.setattr(policy, "HELD", policy.HeldValuesPolicy(most_samples=0))


def noisy(gamma: float, C: float = 1.0) -> KernelProblem:
    X, y = make_classification(800, 20, n_informative=10, flip_y=0.2, random_state=0)
    return KernelProblem.build(X, np.where(y > 0, 1, -1), C, RBF(gamma / 20.0 / X.var()))


@pytest.mark.parametrize(("tol", "last"), [(1e-6, "batched-smo"), (1e-9, "irwls")])
def test_a_narrow_kernel_is_left_to_smo_unless_the_target_is_beyond_float32(tol, last):
    solution = solve(noisy(5.0), KernelAuto(), tol=tol)
    assert solution.status == Status.CERTIFIED
    assert solution.trace[-1].solver == last


def test_few_free_variables_are_left_to_least_squares():
    solution = solve(noisy(0.3), KernelAuto(), tol=1e-6)
    assert solution.trace[-1].solver == "irwls"


def test_smo_and_least_squares_reach_the_same_optimum():
    problem = noisy(5.0, C=10.0)
    by_smo = solve(problem, KernelAuto(), tol=1e-6).certificate
    by_squares = solve(problem, KernelAuto(policy=KernelAutoPolicy(sure_of_pace=0.0)), tol=1e-6).certificate
    assert by_smo.primal == pytest.approx(by_squares.primal, rel=1e-6)


def test_a_certificate_is_cheaper_than_exact_outputs_where_nearly_all_samples_are_near_the_margin():
    problem = noisy(5.0)
    state = BatchedSMO().init(problem, None, 0)
    free = np.arange(problem.n_samples)
    state.s[:] = 0.5 * np.where(problem.signs > 0.0, state.upper, state.lower)
    assert state.certificate_is_cheaper
    state.s[free[:700]] = 0.0
    state.f[free[:700]] = 10.0 * problem.signs[:700]
    assert not state.certificate_is_cheaper


@pytest.mark.parametrize("C", [1.0, 1e4])
def test_the_gap_that_float32_hides_is_known_from_a_few_exact_outputs(C):
    """SMO is run to a gap that float32 values cannot show; the true gap is then what they hide."""
    problem, solver = noisy(3.0, C), BatchedSMO(dtype="float32")
    state = solver.init(problem, None, 0)
    while state.relative_gap > 1e-9:
        solver._iterate(problem, state, 10**6)
    hidden = Prices(problem, state, 1024, KernelAutoPolicy()).hidden_gap(np.flatnonzero(state.is_free))
    true = certify_kernel(problem, state.alpha).certificate.relative_gap
    assert true / 10.0 <= hidden <= 10.0 * true

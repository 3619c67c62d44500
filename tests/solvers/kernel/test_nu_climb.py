"""Active-set Newton with a search of rho, for nu-SVC on a matrix that is held."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from maxmargin import NuSVC, Status
from maxmargin.certificate.nu import certify_nu
from maxmargin.problem.kernels import RBF, Linear, Polynomial
from maxmargin.problem.nu import nu_svc, nu_svr, one_class
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.held_nu import CLIMBED, INSIDE, HeldNuPolicy, HeldNuState
from maxmargin.solvers.kernel.nu_climb import NuClimb, NuClimbPolicy
from maxmargin.solvers.kernel.nu_program import Inside, InteriorCosts
from maxmargin.solvers.kernel.nu_smo import NuSMO

NEVER = NuClimbPolicy(usual_systems=10**9)
AT_ONCE = NuClimbPolicy(usual_systems=0)


def two_classes(n, seed, kernel, nu=0.2, has_weights=False):
    rng = np.random.default_rng(seed)
    X, y = make_classification(n, 6, flip_y=0.1, random_state=seed)
    weights = rng.integers(1, 4, n).astype(np.float64) if has_weights else 1.0
    return nu_svc(X, np.where(y > 0, 1, -1), kernel, nu, weights)


def raw_table(n=300, seed=0):
    """Times to failure, ports and flags, as they come."""
    rng = np.random.default_rng(seed)
    X = np.c_[rng.pareto(1.2, (n, 4)) * 1e3, rng.integers(0, 2, (n, 5)), rng.exponential(2e5, (n, 2))]
    return X, np.log1p(X[:, 0]) - X[:, 5] + 0.5 * rng.standard_normal(n) > 6.0


def after_rounds_of_smo(problem, rounds=6):
    state = HeldNuState.of(problem, HeldNuPolicy())
    state.survey()
    for _ in range(rounds):
        state.run_round()
    return state


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(0.01), Polynomial(1e3, 1.0, 2), Polynomial(1e-3, 1.0, 2)], ids=str)
def test_it_ends_at_the_optimum_whatever_the_scale_of_the_kernel_is(kernel, has_weights):
    for seed in range(3):
        problem = two_classes(120, seed, kernel, 0.4, has_weights)
        state = HeldNuState.of(problem, HeldNuPolicy(first_steps=1))
        state.survey()
        for _ in range(1000):
            if state.relative_gap < 0.3:
                break
            state.run_smo()
        alpha = NuClimb.of(problem, NuClimbPolicy()).climbed(state.alpha)
        assert problem.is_feasible(alpha)
        assert certify_nu(problem, alpha).certificate.meets(1e-6)


def test_the_sum_of_alpha_changes_with_rho_as_its_derivative_says():
    problem = two_classes(80, 1, RBF(0.5))
    climb, state = NuClimb.of(problem, NuClimbPolicy()), after_rounds_of_smo(problem)
    K, s = np.ascontiguousarray(problem.samples.held.padded[:80, :80]), problem.signs * state.alpha
    rho = 0.5 * sum(each.middle for each in problem.best_thresholds(K @ s))
    sums = {}
    for step in (-1e-7, 0.0, 1e-7):
        found, slope = climb._solved(K, s, rho * (1.0 + step))
        sums[step] = np.abs(found).sum()
    assert slope > 0.0
    assert (sums[1e-7] - sums[-1e-7]) / (2e-7 * rho) == pytest.approx(slope, rel=1e-3)


def test_problems_without_a_rho_have_none():
    X, y = make_classification(40, 4, random_state=0)
    few = nu_svc(X[:12], np.where(np.arange(12) < 4, 1, -1), RBF(1.0), 8.0 / 12.0)
    for problem in (one_class(X, RBF(1.0), 0.3), nu_svr(X, y + X[:, 0], RBF(1.0), 0.3), few):
        assert NuClimb.of(problem, NuClimbPolicy()) is None


def test_after_a_climb_that_fails_smo_has_twice_as_long_before_the_next():
    problem = two_classes(60, 0, RBF(0.5))
    climb = NuClimb.of(problem, NuClimbPolicy(most_rhos=0))
    before = climb.pays_at
    assert climb.climbed(problem.first_point) is None
    assert climb.pays_at == 2.0 * before


def test_a_slow_fit_takes_fewer_steps_with_it_and_has_the_same_answer():
    X, y = raw_table()
    kernel = NuSVC(nu=0.4).fit(X, y)._kernel_
    problem = nu_svc(X, np.where(y, 1, -1), kernel, 0.4)
    found = {}
    for policy in (AT_ONCE, NEVER):
        state = HeldNuState.of(problem, HeldNuPolicy(climb=policy), Inside(problem, InteriorCosts(share=0.0), 10**-9))
        state.advance(Budget(10**9, 1e-3))
        assert certify_nu(problem, state.alpha).certificate.meets(1e-3)
        found[policy] = state
    assert found[AT_ONCE].stage is CLIMBED
    assert 2 * found[AT_ONCE].steps < found[NEVER].steps
    assert found[AT_ONCE].dual == pytest.approx(found[NEVER].dual, rel=2e-3)


@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(1.0, 0.0, 3)], ids=str)
def test_no_climb_lowers_the_dual_value(kernel):
    for seed in range(4):
        problem = two_classes(90, seed, kernel, nu=0.3)
        state = HeldNuState.of(problem, HeldNuPolicy(), Inside(problem, InteriorCosts(), 90))
        state.survey()
        for _ in range(8):
            state.run_smo()
            before = state.dual
            state.run_climb()
            assert state.dual >= before
            np.testing.assert_allclose([state.alpha[own].sum() for own in problem.members], problem.totals, rtol=1e-12)
            assert problem.is_feasible(state.alpha)


def test_a_fit_whose_points_stay_above_w_zero_goes_inside_early():
    """The optimal value is 1e-8 of what alpha can make of it: SMO stays above zero for a thousand steps a sample."""
    X, y = raw_table(n=200)
    model = NuSVC(nu=0.05, solver=NuSMO()).fit(X, y)
    assert model.status_ is Status.CERTIFIED
    assert model.trace_[-1].reason in (INSIDE.reason, CLIMBED.reason)
    assert model.trace_[-1].steps < 500 * len(X)

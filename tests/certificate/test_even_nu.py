"""The verdict of one compiled call on problems with nu, against rational arithmetic and the verdict of many steps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maxmargin.certificate.even_nu import even_nu_verdict
from maxmargin.certificate.nu import NuVerdict, certify_nu, threshold_bound
from maxmargin.problem.kernels import RBF, Linear, Polynomial
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.held_nu import HeldNuPolicy, HeldNuState
from tests.problem.test_nu import exact_gap, families, made


def even(family, n=40, seed=0, kernel=None, nu=0.4):
    return made(family, n, seed, kernel, nu, is_weighted=False)


@families
@pytest.mark.parametrize("seed", range(6))
def test_its_gap_equals_rational_arithmetic_within_its_own_rounding_error(family, seed):
    problem, rng = even(family, 8, seed, Linear(), nu=0.5), np.random.default_rng(seed)
    alpha = problem.nearest_feasible(rng.choice([0.0, 0.25, 0.5, 1.0], problem.n_samples))
    found = even_nu_verdict(problem, alpha)
    allowed = Fraction(found.certificate.rounding_error) + Fraction(1, 10**11)  # of the sums of alpha
    assert abs(Fraction(found.certificate.gap) - exact_gap(problem, alpha, found.thresholds)) <= allowed


@families
@pytest.mark.parametrize("n", [5, 31, 32, 33, 200])
@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(0.3, 1.0, 2)])
@pytest.mark.parametrize("nu", [0.13, 0.4, 1.0])
def test_it_is_the_verdict_of_many_steps_with_a_rounding_error_that_is_no_less(family, n, kernel, nu):
    n += family == "nu-svc" and nu == 1.0 and n % 2  # classes of equal size
    problem, rng = even(family, n, 1, kernel, nu), np.random.default_rng(2)
    for alpha in (problem.first_point, problem.nearest_feasible(rng.random(problem.n_samples))):
        found, slow = even_nu_verdict(problem, alpha), certify_nu(problem, alpha)
        np.testing.assert_allclose(found.thresholds, slow.thresholds, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.outputs, slow.outputs, rtol=1e-11, atol=1e-11)
        scale = 1e-12 * (1.0 + slow.certificate.scale)
        for name in ("primal", "dual", "gap"):
            assert getattr(found.certificate, name) == pytest.approx(getattr(slow.certificate, name), abs=scale)
        assert found.certificate.n_support == slow.certificate.n_support
        assert found.certificate.n_at_bound == slow.certificate.n_at_bound
        assert found.certificate.rounding_error >= 0.99 * slow.certificate.rounding_error
        assert found.certificate.distance_bound >= slow.certificate.distance_bound * (1.0 - 1e-9)


@families
def test_sums_that_are_wrong_are_charged_and_points_outside_the_box_have_none(family):
    problem = even(family)
    state = HeldNuState.of(problem, HeldNuPolicy())
    state.advance(Budget(10**6, 1e-6))
    best = even_nu_verdict(problem, state.alpha).certificate
    for factor in (0.999, 0.9, 0.5):
        assert even_nu_verdict(problem, factor * state.alpha).certificate.gap > best.gap
    for bad in (-1e-9, 1.0 + 1e-9, np.nan):
        alpha = state.alpha
        alpha[3] = bad
        assert even_nu_verdict(problem, alpha) is None
        assert not certify_nu(problem, alpha, tol=1e-3).meets(1e-3)


@families
def test_its_bound_on_thresholds_holds_for_the_optimum_and_is_that_of_all_kinks(family):
    problem = even(family, 60)
    state = HeldNuState.of(problem, HeldNuPolicy())
    state.advance(Budget(10**6, 1e-6))
    best = certify_nu(problem, state.alpha, tol=1e-6)
    assert best.kinks is not None
    alpha = problem.nearest_feasible(state.alpha + 1e-3 * np.random.default_rng(0).random(problem.n_samples))
    rough = certify_nu(problem, alpha, tol=1.0)
    assert rough.kinks is not None
    bound = threshold_bound(problem, rough)
    assert np.abs(rough.thresholds - best.thresholds).max() <= bound + threshold_bound(problem, best)
    by_all = NuVerdict(rough.certificate, rough.thresholds, rough.outputs, rough.output_errors, 0)
    assert threshold_bound(problem, by_all) <= bound <= threshold_bound(problem, by_all) * (1.0 + 1e-9)


def test_weights_and_many_samples_have_none():
    assert even_nu_verdict(made("nu-svc"), made("nu-svc").first_point) is None
    many = even("nu-svr", 1025)
    assert even_nu_verdict(many, many.first_point) is None


def test_it_is_the_verdict_of_many_steps_with_as_many_samples_as_it_takes():
    """A group then has 1,024 variables in 33 blocks of 32."""
    problem = even("nu-svr", 1009)
    found, slow = (judge(problem, problem.first_point).certificate for judge in (even_nu_verdict, certify_nu))
    assert found.gap == pytest.approx(slow.gap, rel=1e-12)
    assert found.rounding_error >= 0.99 * slow.rounding_error

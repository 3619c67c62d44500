"""The certificate of machines with nu where w = 0 is optimal, or nearly: the value zero is known exactly there."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maxmargin.certificate.nu import certify_nu
from maxmargin.problem.kernels import RBF, Linear
from maxmargin.problem.nu import nu_svc, nu_svr


def crossed(n: int = 40):
    """Two classes in the same places: their hulls have every point in common, and the optimal value is zero."""
    X = np.random.default_rng(0).integers(-9, 10, size=(n // 2, 3)).astype(float)
    return np.repeat(X, 2, axis=0), np.tile([1, -1], n // 2)


def exact_dual(X, y, alpha) -> Fraction:
    """-|w(alpha)|^2 / 2 of the linear kernel, without rounding."""
    w = [sum(Fraction(a) * int(s) * Fraction(x) for a, s, x in zip(alpha, y, column, strict=True)) for column in X.T]
    return -sum(value * value for value in w) / 2


@pytest.mark.parametrize(("size", "is_zero"), [(1e-1, False), (1e-4, False), (1e-12, True), (0.0, True)])
def test_the_optimal_value_zero_lies_between_dual_and_primal(size, is_zero):
    X, y = crossed()
    problem = nu_svc(X, y, Linear(), 0.4)
    moved = 0.4 + size * np.random.default_rng(1).standard_normal(len(y))
    alpha = problem.nearest_feasible(moved)
    found = certify_nu(problem, alpha, tol=1e-3).certificate
    assert found.dual - found.rounding_error <= 0.0 <= found.primal + found.rounding_error
    assert found.dual - found.rounding_error <= float(exact_dual(X, y, alpha)) + 1e-30
    assert found.meets(1e-3) == is_zero
    assert found.distance_bound >= float(-2 * exact_dual(X, y, alpha)) ** 0.5 * (1.0 - 1e-12)


def test_a_w_that_is_better_than_zero_keeps_its_own_certificate():
    X = np.random.default_rng(2).normal(size=(40, 3))
    y = np.where(X[:, 0] > 0.0, 1, -1)
    problem = nu_svc(X, y, RBF(0.5), 0.3)
    found = certify_nu(problem, problem.nearest_feasible(np.full(40, 0.3))).certificate
    assert found.primal != 0.0


def test_targets_that_differ_have_no_zero():
    """Of nu-SVR with kernel values of 1e12, whose rounding is larger than any value that the targets can have."""
    X = 1e6 * np.random.default_rng(3).normal(size=(30, 4))
    y = np.random.default_rng(4).normal(size=30)
    problem = nu_svr(X, y, Linear(), 0.5, 1.0)
    alpha = problem.nearest_feasible(np.random.default_rng(5).random(60))
    assert not certify_nu(problem, alpha, tol=1e-3).meets(1e-3)


@pytest.mark.parametrize("nu", [0.05, 0.3, 1.0])
def test_constant_targets_are_certified_at_once(nu):
    """alpha of both groups is the same, and w = 0: what is left is the rounding of the sums."""
    X = np.random.default_rng(0).normal(size=(300, 5))
    problem = nu_svr(X, np.zeros(300), RBF(0.2), nu)
    assert certify_nu(problem, problem.first_point, tol=1e-3).certificate.meets(1e-3)

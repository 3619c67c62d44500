"""nu-SVC with a polynomial kernel of large columns, by monomials whose sums are exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maxmargin import NuSVC
from maxmargin.certificate.nu import certify_nu
from maxmargin.data.limits import Stop
from maxmargin.estimators.nu_fit import cost_search, solve_by_features
from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.kernels import Polynomial
from maxmargin.problem.nu import nu_svc
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Limits
from maxmargin.solving.nu_cost import solve_by_cost
from maxmargin.solving.unsolved import unsolved_nu


def noisy(n=80, scale=1.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n) > 0.0, 1, -1)
    return X * np.array([1.0, scale]), y


def nothing_of(problem):
    return unsolved_nu(problem.n_samples, 2, NuSMO(), Stop())


def exact_square(X, y, alpha):
    """|w(alpha)|^2 of the kernel (x . z)^2 / 4, without rounding, but for the sum of alpha, which is the balanced one."""
    rows = [[Fraction(float(v)) for v in row] for row in X]
    signed = [Fraction(float(a)) * int(k) for a, k in zip(alpha, y, strict=True)]
    pairs = ((0, 0, 1), (0, 1, 2), (1, 1, 1))
    return sum(n * sum(s * row[i] * row[j] for s, row in zip(signed, rows, strict=True)) ** 2 for i, j, n in pairs) / 4


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e12])
def test_the_dual_value_is_that_of_exact_arithmetic(scale):
    X, y = noisy(scale=scale)
    problem = nu_svc(X, y, Polynomial(gamma=0.5, degree=2), 0.6)
    map = feature_map(problem.kernel, 2, True)
    found = solve_by_cost(cost_search(problem, map, Limits(tol=1e-6)), nothing_of(problem))
    certificate = found.certificate
    assert certificate.meets(1e-6)
    dual = -float(exact_square(X, y, found.alpha)) / 2
    assert abs(dual - certificate.dual) <= 1e-3 * abs(dual)


def test_it_finds_the_machine_of_smo():
    X, y = noisy()
    problem = nu_svc(X, y, Polynomial(gamma=0.5, degree=2), 0.6)
    map = feature_map(problem.kernel, 2, True)
    found = solve_by_cost(cost_search(problem, map, Limits(tol=1e-6)), nothing_of(problem)).certificate
    smo = NuSVC(kernel="poly", gamma=0.5, degree=2, nu=0.6, tol=1e-9).fit(X, y).certificate_
    assert found.dual <= smo.primal + smo.rounding_error
    assert found.primal >= smo.dual - smo.rounding_error
    assert abs(found.primal - smo.primal) <= 1e-5 * abs(smo.primal)


def test_a_polynomial_kernel_of_nanoseconds_is_certified():
    rng = np.random.default_rng(1)
    X = np.column_stack([1.6e18 + 3e16 * rng.random(120), rng.normal(size=120)])
    y = (X[:, 1] > 0.3).astype(int)
    model = NuSVC(kernel="poly", nu=0.2).fit(X, y)
    assert model.status_.name == "CERTIFIED"
    assert model.score(X, y) > 0.9


def test_far_more_monomials_than_samples_are_left_to_smo():
    X, y = noisy(8)
    problem = nu_svc(X, y, Polynomial(gamma=0.5, degree=3), 0.4)
    map = feature_map(Polynomial(gamma=0.5, degree=40), 2, True)
    found = nothing_of(problem)
    assert solve_by_features(problem, map, Limits(tol=1e-3), found) is found
    assert not certify_nu(problem, found.alpha).certificate.meets(1e-3)

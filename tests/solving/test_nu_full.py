"""nu-SVC with the largest nu: the judge in rational arithmetic, and raw columns."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maxmargin import NuSVC
from maxmargin.certificate.linear import certify
from maxmargin.certificate.nu_pair import with_full_group
from maxmargin.data.limits import Stop
from maxmargin.estimators.nu_fit import cost_search
from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.kernels import Linear
from maxmargin.problem.nu import largest_nu, nu_svc
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Limits, solve
from maxmargin.solving.nu_full import solve_full
from maxmargin.solving.unsolved import unsolved_nu


def uneven(n=60, seed=0, weights=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.normal(size=n) > 2.0, 1, -1)
    s = np.ones(n) if weights is None else rng.uniform(0.5, 2.0, n)
    return X, y, s


def searched(X, y, s, tol=1e-6):
    problem = nu_svc(X, y, Linear(), largest_nu(y, s), s)
    return problem, cost_search(problem, feature_map(Linear(), X.shape[1], True), Limits(tol=tol))


def exact(values):
    return [Fraction(float(value)) for value in values]


def exact_values(X, y, s, solution):
    """P at the answer's w and thresholds and D at its alpha, balanced by the class that is not full, without rounding."""
    rows, w, theta = [exact(row) for row in X], exact(solution.feature_weights), exact(solution.w)
    total = sum(c for c, k in zip(exact(s), y, strict=True) if k == 1)
    alpha = exact(solution.alpha)
    heavier = sum(a for a, k in zip(alpha, y, strict=True) if k == -1)
    alpha = [a if k == 1 else a * total / heavier for a, k in zip(alpha, y, strict=True)]
    outputs = [sum(a * b for a, b in zip(row, w, strict=True)) for row in rows]
    kinks = [theta[int(k == -1)] - int(k) * f for k, f in zip(y, outputs, strict=True)]
    slack = sum(c * max(Fraction(0), own) for c, own in zip(exact(s), kinks, strict=True))
    own = [sum(a * int(k) * row[j] for a, k, row in zip(alpha, y, rows, strict=True)) for j in range(len(w))]
    return sum(v * v for v in w) / 2 + slack - total * sum(theta), -sum(v * v for v in own) / 2


@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_certificate_lies_on_the_safe_sides_of_the_exact_values(is_weighted):
    X, y, s = uneven(weights=is_weighted or None)
    problem, search = searched(X, y, s)
    assert problem.is_full(0)
    found = solve_full(search, unsolved_nu(problem.n_samples, 2, NuSMO(), Stop()))
    primal, dual = exact_values(X, y, s, found)
    certificate = found.certificate
    room = certificate.rounding_error + 1e-12 * abs(certificate.primal)
    assert certificate.meets(1e-6)
    assert abs(float(primal) - certificate.primal) <= room
    assert float(dual) >= certificate.dual - room
    assert float(primal - dual) <= certificate.gap + room


def test_it_finds_the_machine_of_smo():
    X, y, s = uneven(90, 3)
    problem, search = searched(X, y, s)
    found = solve_full(search, unsolved_nu(problem.n_samples, 2, NuSMO(), Stop()))
    smo = NuSVC(kernel="linear", nu=largest_nu(y, s), tol=1e-9).fit(X, y)
    apart = np.linalg.norm(found.feature_weights - smo.rho_[0] * smo.coef_[0])
    assert apart <= found.certificate.distance_bound + smo.certificate_.distance_bound


def full_certificate(C, change):
    """That of C-SVC at this C, with one alpha of the full group changed."""
    X, y, s = uneven()
    _, search = searched(X, y, s)
    linear, is_full = search.linear(C), y == 1
    solution = solve(linear, tol=1e-9)
    alpha = np.where(is_full, linear.C, solution.alpha)
    lacking = alpha[is_full].sum() - alpha[~is_full].sum()
    free = np.flatnonzero(~is_full & (alpha > 0.0) & (alpha < 0.9 * linear.C))[0]
    alpha[free] += lacking + 1e-12 * C
    own = certify(linear, solution.w, alpha)
    alpha[np.flatnonzero(is_full)[0]] *= 1.0 + change
    return with_full_group(own, C, s, alpha * linear.signs, is_full), own


def test_a_full_group_proves_something_at_its_bounds_only():
    assert full_certificate(2.0**-6, 0.0)[0].is_proof
    assert not full_certificate(2.0**-6, -1e-9)[0].is_proof


def test_the_bounds_must_not_be_rounded():
    assert not full_certificate(0.0151, 0.0)[0].is_proof


def test_a_full_group_that_outweighs_the_other_proves_nothing():
    _, y, s = uneven()
    own, is_full = full_certificate(2.0**-6, 0.0)[1], y == 1
    signed = np.where(is_full, 2.0**-6, -(2.0**-6) * (is_full.sum() - 1e-9) / (~is_full).sum())
    assert not with_full_group(own, 2.0**-6, s, signed, is_full).is_proof
    bounded = replace(own, has_bounded_weights=True)
    assert not with_full_group(bounded, 2.0**-6, s, 1.001 * np.where(is_full, 1.0, signed), is_full).is_proof


@pytest.mark.parametrize("scale", [1.0, 1e9, 1e12])
@pytest.mark.parametrize("are_both_full", [False, True])
def test_raw_columns_are_certified_with_the_largest_nu(scale, are_both_full):
    rng = np.random.default_rng(0)
    small = rng.normal(size=80)
    order = np.argsort(small)
    y = np.zeros(80, int)
    y[order[40 if are_both_full else 76 :]] = 1
    X = np.column_stack([rng.uniform(1.0, 2.0, 80) * scale, small + y])
    nu = largest_nu(np.where(y, 1, -1), np.ones(80))
    model = NuSVC(kernel="linear", nu=nu).fit(X, y)
    assert model.status_.name == "CERTIFIED"
    assert model.relative_gap_ <= 1e-3
    assert np.isfinite(model.offset_bound_)

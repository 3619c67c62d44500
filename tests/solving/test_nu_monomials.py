"""nu-SVC with a polynomial kernel of large columns, by monomials whose sums are exact."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maxmargin import NuSVC
from maxmargin.certificate.nu import certify_nu
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.estimators import nu_fit
from maxmargin.estimators.nu_fit import cost_search, solve_by_features
from maxmargin.estimators.pairs import Pair
from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.kernels import Polynomial
from maxmargin.problem.nu import nu_svc
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Limits
from maxmargin.solving.nu_cost import Machine, solve_by_cost
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


def machine_park(n, seed=0):
    """Temperature, pressure in pascal, vibrations and hours of work, as they come."""
    rng = np.random.default_rng(seed)
    parts = 20 + 5 * rng.normal(size=n), 101325 + 900 * rng.normal(size=n), np.abs(rng.normal(size=n)) * 1e-3
    X = np.column_stack([*parts, rng.uniform(0, 8e4, n), 3e3 + 50 * rng.normal(size=n)])
    score = X[:, 0] / 5 + X[:, 2] * 1e3 + X[:, 3] / 4e4
    return X, np.where(score + 0.35 * score.std() * rng.normal(size=n) > np.median(score), 1, -1)


def park_problem(n=150, nu=0.6):
    X, y = machine_park(n)
    kernel = NuSVC(kernel="poly", nu=nu).fit(X[:40], y[:40])._kernel_
    return nu_svc(X, y, kernel, nu), feature_map(kernel, X.shape[1], True)


def test_what_is_left_of_the_values_of_a_machine_is_their_share_in_nu_svc():
    problem, map = park_problem(nu=0.5)
    search = cost_search(problem, map, Limits(tol=1e-8))
    rho = 0.5 * solve_by_cost(search, nothing_of(problem)).w.sum()
    machine = search.solved(1.0 / rho)
    primal, needed = machine.certificate.primal, search.total / rho
    assert search.share_left(machine) == pytest.approx((needed - primal) / primal, rel=1e-3)


def test_machines_whose_values_nearly_cancel_are_solved_as_precisely_as_what_is_left():
    """P of C-SVC is C T and a few thousandths of it: a gap that is a small share of P is a large one of what is left."""
    problem, map = park_problem(nu=0.2)
    search, asked = cost_search(problem, map, Limits(tol=1e-3)), []

    class Recorded(type(search)):
        def solved(self, C, share=1.0):
            asked.append(share)
            return super().solved(C, share)

    fields = {name: getattr(search, name) for name in search.__dataclass_fields__}
    assert solve_by_cost(Recorded(**fields), nothing_of(problem)).status.name == "CERTIFIED"
    assert min(asked) < 0.05


def test_the_search_begins_at_the_rho_of_smo_where_that_is_better_than_w_zero():
    X, y = noisy()
    problem = nu_svc(X, y, Polynomial(gamma=0.5, degree=2), 0.6)
    search = cost_search(problem, feature_map(problem.kernel, 2, True), Limits(tol=1e-6))
    nothing = nothing_of(problem)
    assert search.begin(nothing) == (search.first_cost, search.policy.first_factor)
    better = replace(nothing, w=np.array([0.1, 0.3]), certificate=replace(nothing.certificate, primal=-1.0))
    assert search.begin(better) == (5.0, search.policy.near_factor)
    assert search.begin(replace(better, w=np.array([-0.1, -0.3])))[0] == search.first_cost


def test_a_machine_without_weights_says_nothing_where_C_is_small_beside_one_sample_alone():
    """One sample is ten thousand times as long as the others, and C makes a margin of that sample only."""
    X, y = noisy(120)
    X[0] *= 1e4
    problem = nu_svc(X, y, Polynomial(gamma=0.5, degree=2), 0.6)
    search = cost_search(problem, feature_map(problem.kernel, 2, True), Limits(tol=1e-3))
    nothing = Machine(search.first_cost, np.zeros(4), np.zeros(120))
    assert not search.is_nothing(nothing)
    assert search.is_nothing(nothing._replace(C=1e20 * search.first_cost))
    assert solve_by_cost(search, nothing_of(problem)).status.name == "CERTIFIED"


def test_time_that_ends_before_the_search_begins_leaves_the_answer_of_smo(monkeypatch):
    def no_time(*arguments):
        raise OutOfTimeError

    problem, map = park_problem(40)
    monkeypatch.setattr(nu_fit, "cost_search", no_time)
    found = nothing_of(problem)
    assert solve_by_features(problem, map, Limits(tol=1e-3), found) is found


def test_pairs_with_more_monomials_than_samples_are_searched_too():
    X, y = machine_park(60)
    model, codes = NuSVC(kernel="poly", nu=0.4).fit(X, y), (y > 0).astype(int)
    kernel = Polynomial(gamma=1.0, degree=4)
    assert 60 < feature_map(kernel, X.shape[1], True).n_features <= 240
    assert model._problems(X, kernel, np.broadcast_to(1.0, 60), codes, Pair.all_of(codes)).map is not None

"""nu-SVC by a search of C: raw columns, the judge in rational arithmetic, and models that are saved and judged again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from maxmargin import NuSVC
from maxmargin.certificate.linear import certify
from maxmargin.certificate.nu_pair import with_cost, with_tube
from maxmargin.data.limits import Stop
from maxmargin.estimators.nu_fit import cost_search
from maxmargin.models.model_file import load_model, save_model
from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.kernels import Linear
from maxmargin.problem.nu import nu_svc
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Limits, solve
from maxmargin.solving.nu_cost import Machine, _machines, solve_by_cost
from maxmargin.solving.unsolved import unsolved_nu


def noisy(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X @ [1.0, -2.0, 0.5] + 0.7 * rng.normal(size=n) > 0.0, 1, -1)


def searched(X, y, nu, tol=1e-6, weights=1.0):
    problem = nu_svc(X, y, Linear(), nu, weights)
    found = feature_map(Linear(), X.shape[1], True)
    return problem, cost_search(problem, found, Limits(tol=tol))


def exact_primal(X, y, s, nu, w, b, rho):
    """P at w, b and rho, without rounding."""
    rows = [[Fraction(float(v)) for v in row] for row in X]
    outputs = [sum(a * Fraction(float(c)) for a, c in zip(row, w, strict=True)) + Fraction(float(b)) for row in rows]
    slack = sum(
        Fraction(float(c)) * max(Fraction(0), Fraction(float(rho)) - int(k) * f) for c, k, f in zip(s, y, outputs, strict=True)
    )
    total = Fraction(float(nu)) * sum(Fraction(float(c)) for c in s)
    return sum(Fraction(float(c)) ** 2 for c in w) / 2 - total * Fraction(float(rho)) + slack


@pytest.mark.parametrize("nu", [0.3, 0.6])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_certificate_lies_on_the_safe_sides_of_the_exact_values(nu, is_weighted):
    X, y = noisy()
    s = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if is_weighted else np.ones(len(y))
    problem, search = searched(X, y, nu, weights=s)
    found = solve_by_cost(search, solve_nothing(problem))
    certificate, rho = found.certificate, 0.5 * found.w.sum()
    primal = exact_primal(X, y, s, nu, found.feature_weights, found.b, rho)
    room = certificate.rounding_error + 1e-12 * abs(certificate.primal)
    assert certificate.meets(1e-6)
    assert abs(float(primal) - certificate.primal) <= room
    best = NuSVC(kernel="linear", nu=nu, tol=1e-9).fit(X, y, sample_weight=s).certificate_
    assert certificate.dual <= best.primal + best.rounding_error
    assert certificate.primal >= best.dual - best.rounding_error


def solve_nothing(problem):
    """What SMO leaves when it has not begun."""
    return unsolved_nu(problem.n_samples, 2, NuSMO(), Stop())


def test_it_finds_the_machine_of_smo():
    X, y = noisy(120, 4)
    problem, search = searched(X, y, 0.4)
    found, smo = solve_by_cost(search, solve_nothing(problem)), NuSVC(kernel="linear", nu=0.4, tol=1e-9).fit(X, y)
    apart = np.linalg.norm(found.feature_weights - smo.rho_[0] * smo.coef_[0])
    assert apart <= found.certificate.distance_bound + smo.certificate_.distance_bound


def test_an_alpha_whose_sum_is_too_small_proves_nothing():
    X, y = noisy()
    _, search = searched(X, y, 0.4)
    C = 3.0
    linear = search.linear(C)
    solution = solve(linear, tol=1e-9)
    own, signed = certify(linear, solution.w, solution.alpha), solution.alpha * linear.signs
    assert with_cost(own, C, float(solution.alpha.sum()) / C * (1.0 - 1e-9), signed).is_proof
    assert not with_cost(own, C, float(solution.alpha.sum()) / C * (1.0 + 1e-9), signed).is_proof


def test_intervals_of_weights_prove_nothing_of_another_rho_or_tube():
    X, y = noisy()
    _, search = searched(X, y, 0.4)
    linear = search.linear(3.0)
    solution = solve(linear, tol=1e-9)
    own = replace(certify(linear, solution.w, solution.alpha), has_bounded_weights=True)
    assert not with_cost(own, 3.0, 1.0, solution.alpha * linear.signs).is_proof
    assert not with_tube(own, 0.1, 1e9, solution.alpha * linear.signs).is_proof


def test_a_damaged_machine_is_not_certified():
    X, y = noisy()
    _, search = searched(X, y, 0.4)
    machine = next(m for m in _machines(search, solve_nothing(search.problem)) if search.certified(m).meets(1e-6))
    damaged = Machine(machine.C, machine.w + np.array([0.01, 0.0, 0.0, 0.0]), machine.alpha)
    assert not search.certified(damaged).meets(1e-6)


def separated_beside(scale):
    rng = np.random.default_rng(0)
    small = rng.normal(size=90)
    y = np.digitize(small, [-0.4, 0.4])
    return np.column_stack([rng.uniform(1.0, 2.0, 90) * scale, small + 0.5 * y]), y


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("scale", [1e9, 1e12])
def test_models_on_raw_columns_are_certified_saved_and_judged_again(scale, form, tmp_path):
    X, y = separated_beside(scale)
    X = form(X)
    model = NuSVC(kernel="linear", nu=0.3).fit(X, y)
    assert {status.name for status in model.status_} == {"CERTIFIED"}
    assert model.score(X, y) > 0.95
    labels, proved = model.certified_predict(X)
    np.testing.assert_array_equal(labels, model.predict(X))
    assert proved.shape == y.shape
    save_model(model, tmp_path / "nu.model")
    again = load_model(tmp_path / "nu.model")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def limited(most_ns):
    """A search with a limit on its work."""
    X, y = noisy()
    problem, search = searched(X, y, 0.4, tol=1e-9)
    return problem, replace(search, policy=replace(search.policy, most_ns=most_ns))


def test_a_search_ends_without_a_certificate_when_its_work_is_done():
    problem, search = limited(0.0)
    found = solve_by_cost(search, solve_nothing(problem))
    assert not found.status.is_as_asked
    assert search.is_over
    problem, search = limited(1e12)
    assert solve_by_cost(search, solve_nothing(problem)).status.name == "CERTIFIED"
    assert not search.is_over


def test_the_work_of_a_search_is_that_of_the_epochs_of_its_machines():
    search = limited(1e12)[1]
    search.work.ns = 0.6 * 1e12 - 2.5 * search.ns_an_epoch
    assert search.ns_left == pytest.approx(2.5 * search.ns_an_epoch, rel=1e-6)
    before = search.work.ns
    found = search.solved(1.0)
    assert search.work.ns == before + found.epochs * search.ns_an_epoch


def test_a_search_may_take_all_of_its_work_once_an_answer_is_better_than_w_zero():
    problem, search = limited(1e12)
    assert search.ns_left == search.policy.first_share * 1e12
    solve_by_cost(search, solve_nothing(problem))
    assert search.work.is_promising
    assert search.ns_left == 1e12 - search.work.ns


def test_pairs_of_many_classes_share_the_work_of_a_fit():
    search = limited(1e12)[1]
    assert replace(search, share=0.25).ns_left == 0.25 * search.ns_left

"""The problems with nu and their judge: against rational arithmetic, brute force over the thresholds, and LIBSVM."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from sklearn import svm

from maxmargin.certificate.nu import certify_nu
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Rows
from maxmargin.problem.kernels import RBF, Custom, Linear
from maxmargin.problem.nu import NuProblem, nu_svc, nu_svr, one_class
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Limits, drive
from maxmargin.solving.solution import Solution, Status

FAMILIES = ["one-class", "nu-svc", "nu-svr"]
families = pytest.mark.parametrize("family", FAMILIES)


def made(family: str, n: int = 40, seed: int = 0, kernel=None, nu: float = 0.4, is_weighted: bool = True) -> NuProblem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) + 1.0
    weights = rng.choice([0.5, 1.0, 2.0], n) if is_weighted else 1.0
    kernel = kernel or RBF(0.3)
    if family == "one-class":
        return one_class(X, kernel, nu, weights)
    noise = rng.normal(size=n)
    if family == "nu-svc":
        y = np.where(np.arange(n) % 2 == 0, 1, -1)
        return nu_svc(X + 1.5 * y[:, None], y, kernel, nu, weights)
    return nu_svr(X, np.sin(X[:, 0]) + 0.3 * noise, kernel, nu, weights)


def solved(problem: NuProblem, tol: float) -> Solution:
    limits = Limits(tol, np.inf, 30.0)
    return drive(problem, NuSMO(), limits, warm_start=None, callback=None, seed=0, stop=Stop.after(30.0))


def exact_gap(problem: NuProblem, alpha: np.ndarray, thresholds: np.ndarray) -> Fraction:
    """P - D for the linear kernel, in rational arithmetic, by the definition of both values."""
    X, n = problem.rows.matrix, problem.samples.n_samples
    rows = [[Fraction(float(value)) for value in row] for row in X]
    signed = [Fraction(float(a)) * int(sign) for a, sign in zip(alpha, problem.signs, strict=True)]
    w = [sum(s * rows[k % n][j] for k, s in enumerate(signed)) for j in range(X.shape[1])]
    sqnorm = sum(value * value for value in w)
    theta = [Fraction(float(t)) for t in thresholds]
    primal, dual = sqnorm / 2, -sqnorm / 2
    for k, (sign, target, C, g) in enumerate(zip(problem.signs, problem.targets, problem.C, problem.group, strict=True)):
        f = sum(value * x for value, x in zip(w, rows[k % n], strict=True))
        a = int(sign) * Fraction(float(target))
        primal += Fraction(float(C)) * max(Fraction(0), theta[g] + a - int(sign) * f)
        dual += a * Fraction(float(alpha[k]))
    return primal - sum(Fraction(float(T)) * t for T, t in zip(problem.totals, theta, strict=True)) - dual


@families
@pytest.mark.parametrize("seed", range(6))
def test_the_gap_equals_rational_arithmetic_within_its_own_rounding_error(family, seed):
    problem = made(family, 8, seed, Linear(), nu=0.5)
    rng = np.random.default_rng(seed)
    alpha = problem.nearest_feasible(problem.C * rng.choice([0.0, 0.25, 0.5, 1.0], problem.n_samples))
    verdict = certify_nu(problem, alpha)
    certificate = verdict.certificate
    for members, total in zip(problem.members, problem.totals, strict=True):
        assert sum(map(Fraction, alpha[members].tolist())) == pytest.approx(Fraction(float(total)), rel=1e-14)
    allowed = Fraction(certificate.rounding_error) + Fraction(1, 10**11)  # of the sums, which are right to their last digits
    assert abs(Fraction(certificate.gap) - exact_gap(problem, alpha, verdict.thresholds)) <= allowed
    assert certificate.gap > 0.0


@families
def test_no_other_thresholds_give_a_smaller_gap(family):
    problem = made(family, 12, 1)
    alpha = problem.nearest_feasible(np.random.default_rng(0).uniform(0.0, 2.0, problem.n_samples))
    verdict = certify_nu(problem, alpha)
    kinks = problem.kinks(problem.of_variables(verdict.outputs))
    for others in product(*(kinks[members] for members in problem.members)):
        other = certify_nu(problem, alpha, others).certificate
        assert verdict.certificate.gap <= other.gap * (1.0 + 1e-12)
        assert other.primal >= verdict.certificate.primal - 1e-12 * abs(other.primal)


@families
def test_weak_duality_and_the_distance_to_the_optimum(family):
    problem = made(family, 40, 2)
    best = solved(problem, 1e-11)
    optimum, gram = problem.coefficients(best.alpha), problem.samples.held.values
    rng = np.random.default_rng(3)
    for _ in range(20):
        mixed = problem.nearest_feasible(rng.choice([0.0, 0.5, 0.9, 1.0]) * best.alpha + 0.2 * rng.uniform(0, problem.C))
        certificate = certify_nu(problem, mixed).certificate
        slack = 1e-9 * abs(certificate.primal)
        assert certificate.dual <= best.certificate.primal + slack
        assert certificate.primal >= best.certificate.dual - slack
        away = problem.coefficients(mixed) - optimum
        assert float(away @ gram @ away) <= (certificate.distance_bound + best.certificate.distance_bound) ** 2


@families
def test_corrupted_answers_are_refused_or_charged(family):
    problem = made(family)
    best = solved(problem, 1e-10)
    assert best.status is Status.CERTIFIED
    outside = best.alpha.copy()
    outside[0] = problem.C[0] * 1.01
    assert certify_nu(problem, outside).certificate.gap == np.inf
    lighter = 0.9 * best.alpha  # the sums are wrong
    assert certify_nu(problem, lighter).certificate.relative_gap > 1e-2
    swapped = best.alpha[::-1].copy()
    assert certify_nu(problem, problem.nearest_feasible(swapped)).certificate.relative_gap > 1e-3


@families
@pytest.mark.parametrize("n", [60, 700])
def test_the_answer_of_libsvm_is_certified_and_ours_is_the_same(family, n):
    problem = made(family, n, is_weighted=False)
    X = problem.rows.matrix
    ours = solved(problem, 1e-9)
    assert ours.status is Status.CERTIFIED
    alpha = np.zeros(problem.n_samples)
    settings = {"gamma": 0.3, "tol": 1e-9, "nu": 0.4}
    if family == "one-class":
        model = svm.OneClassSVM(**settings).fit(X)
        alpha[model.support_] = model.dual_coef_[0]
        assert model.offset_[0] == pytest.approx(ours.w[0], abs=1e-4 * abs(ours.w[0]))
    elif family == "nu-svc":
        model = svm.NuSVC(**settings).fit(X, problem.signs)
        rho = 0.5 * ours.w.sum()
        alpha[model.support_] = np.abs(model.dual_coef_[0]) * rho
        assert model.intercept_[0] == pytest.approx(ours.b / rho, abs=1e-4)
    else:
        model = svm.NuSVR(**settings, C=1.0).fit(X, problem.targets[:n])
        alpha[model.support_] = np.maximum(model.dual_coef_[0], 0.0)
        alpha[n + model.support_] = np.maximum(-model.dual_coef_[0], 0.0)
        assert model.intercept_[0] == pytest.approx(ours.b, abs=1e-4)
    theirs = certify_nu(problem, problem.nearest_feasible(alpha)).certificate
    assert theirs.relative_gap < 1e-4
    assert theirs.primal >= ours.certificate.dual


def test_an_infeasible_nu_is_refused_before_any_kernel_value_is_computed():
    def never(A, B):
        raise AssertionError("a kernel value was asked for")

    y = np.array([1] * 9 + [-1])
    with pytest.raises(ValueError, match=r"the largest nu that works is 0\.2"):
        nu_svc(np.ones((10, 2)), y, Custom(never), 0.3)


@pytest.mark.parametrize("nu", [0.0, -0.1, 1.5, np.nan, "half"])
def test_a_nu_that_is_no_share_is_refused(nu):
    with pytest.raises(ValueError, match="nu must be greater than 0"):
        one_class(np.ones((3, 1)), Linear(), nu)


def test_with_nu_one_every_variable_is_at_its_bound_and_rho_is_the_greatest_output():
    problem = made("one-class", 30, nu=1.0)
    answer = solved(problem, 1e-10)
    assert answer.status is Status.CERTIFIED
    np.testing.assert_array_equal(answer.alpha, problem.C)
    assert answer.w[0] == pytest.approx(certify_nu(problem, answer.alpha).outputs.max())


def test_the_largest_nu_is_feasible():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(30) < 9, 1, -1)
    problem = nu_svc(rng.normal(size=(30, 2)) + 0.5 * y[:, None], y, RBF(1.0), 0.6)
    assert solved(problem, 1e-6).status is Status.CERTIFIED


@pytest.mark.parametrize("family", ["nu-svc", "nu-svr"])
def test_with_a_tolerance_outputs_are_sharper_where_rounding_is_in_the_way(family):
    """Columns far from zero: the values of the kernel have lost what tells the samples apart, and the precise sums have not."""
    problem = made(family, 8, 1, Linear(), nu=0.5)
    moved = replace(problem, samples=replace(problem.samples, rows=Rows.from_matrix(problem.rows.matrix + 1e6)))
    alpha = moved.nearest_feasible(moved.C * np.random.default_rng(0).choice([0.0, 0.25, 1.0], moved.n_samples))
    plain, sharp = certify_nu(moved, alpha), certify_nu(moved, alpha, tol=0.0)
    assert sharp.certificate.rounding_error < 0.01 * plain.certificate.rounding_error
    exact = exact_gap(moved, alpha, sharp.thresholds)
    for members, total, theta in zip(moved.members, moved.totals, sharp.thresholds, strict=True):
        exact -= (sum(map(Fraction, alpha[members].tolist())) - Fraction(float(total))) * Fraction(float(theta))
    assert abs(exact - Fraction(sharp.certificate.gap)) <= Fraction(sharp.certificate.rounding_error)


@pytest.mark.parametrize("make", [nu_svc, nu_svr])
def test_a_working_set_holds_both_sides_of_every_group(make):
    """Where nearly all that can rise are of one group, and nearly all that can fall of the other, no pair can move."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 4)), np.where(rng.random(3000) < 0.5, 1.0, -1.0)
    problem = make(X, y, RBF(0.3), 0.05)
    solver = NuSMO(working_set=128)
    state = solver.init(problem, None, 0)
    chosen = state.choose(problem.samples, 128)
    for members in problem.members:
        own = np.intersect1d(chosen, members)
        assert (state.s[own] < state.upper[own]).any()
        assert (state.s[own] > state.lower[own]).any()


def test_smo_with_nu_reaches_the_target_from_working_sets_that_are_few_of_the_samples():
    """Only a share of 1/40 of the variables fits into a working set."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2500, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=2500)
    problem = nu_svr(X, y, RBF(0.3), 0.2, 1.0)
    solution = drive(problem, NuSMO(working_set=128), Limits(1e-3), warm_start=None, callback=None, seed=0, stop=Stop())
    assert solution.status is Status.CERTIFIED

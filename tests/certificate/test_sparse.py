"""The judge of the L1 and elastic-net penalties, against exact rational arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate import policy
from maxmargin.certificate.linear import certify
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import SquaredHinge
from maxmargin.problem.penalties import L1, L2, ElasticNet, penalty_of
from maxmargin.solvers.linear.sparse_newton.mending import mended
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.certificate.test_linear import exactly_balanced
from tests.raw_catalogue import table

PENALTIES = {"l1": L1(), "net-0.9": ElasticNet(0.9), "net-0.5": ElasticNet(0.5), "net-0": ElasticNet(0.0)}
penalties = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
layouts = pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
intercepts = pytest.mark.parametrize("intercept", [(0.0, True), (2.0, True), (1.0, False)], ids=["none", "penalised", "free"])


def made(penalty, layout, intercept, seed: int, n: int = 14, d: int = 6) -> LinearProblem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = np.where(np.arange(n) % 3 == 0, 1, -1)
    C = rng.exponential(size=n)
    C[0] = 0.0
    return LinearProblem.build(layout(X), y, C, SquaredHinge(), *intercept, penalty=penalty)


def exact_rows(problem: LinearProblem) -> list[list[Fraction]]:
    rows = [[Fraction(float(value)) for value in row] for row in problem.rows.dense()]
    return [[*row, Fraction(problem.intercept_scaling)] for row in rows] if problem.intercept_scaling else rows


def exact_weights(problem, alpha: list[Fraction]) -> list[Fraction]:
    rows = exact_rows(problem)
    return [
        sum(a * int(y) * row[j] for a, y, row in zip(alpha, problem.y, rows, strict=True)) for j in range(problem.n_penalised)
    ]


def exact_point(problem, alpha) -> list[Fraction]:
    """alpha, balanced and scaled to be feasible, without any rounding."""
    exact = [Fraction(float(a)) for a in alpha]
    if not problem.penalizes_intercept:
        exact = exactly_balanced(exact, problem.y)
    if problem.penalty.l2 == 0.0:
        greatest = max(1, *(abs(v) for v in exact_weights(problem, exact)))
        exact = [a / greatest for a in exact]
    return exact


def exact_gap(problem: LinearProblem, w, alpha: list[Fraction]) -> Fraction:
    l1, l2 = Fraction(problem.penalty.l1), Fraction(problem.penalty.l2)
    w = [Fraction(float(value)) for value in w]
    primal = sum(l1 * abs(value) + l2 * value * value / 2 for value in w[: problem.n_penalised])
    dual = Fraction(0)
    for row, y, C, a in zip(exact_rows(problem), problem.y, problem.C, alpha, strict=True):
        C = Fraction(float(C))
        slack = max(0, 1 - int(y) * sum(x * value for x, value in zip(row, w, strict=True)))
        primal += C * slack**2
        dual += a - (a * a / (4 * C) if C else 0)
    v = exact_weights(problem, alpha)
    if l2:
        dual -= sum(max(0, abs(value) - l1) ** 2 for value in v) / (2 * l2)
    else:
        assert max(abs(value) for value in v) <= 1
    return primal - dual


def point(problem: LinearProblem, seed: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=problem.n_weights) * (rng.random(problem.n_weights) < 0.6)
    alpha = np.where(problem.C > 0.0, size * rng.exponential(size=problem.n_samples), 0.0)
    return w, alpha if problem.penalizes_intercept else problem.balanced(alpha)


@penalties
@layouts
@intercepts
@pytest.mark.parametrize("size", [1e-3, 3.0])
def test_gap_equals_rational_arithmetic_within_its_own_rounding_bound(penalty, layout, intercept, size):
    for seed in range(3):
        problem = made(penalty, layout, intercept, seed)
        w, alpha = point(problem, seed, size)
        certificate = certify(problem, w, alpha)
        exact = exact_gap(problem, w, exact_point(problem, alpha))
        error = Fraction(certificate.gap) - exact
        room = 2e-13 * float(np.sum(alpha))  # what the safe scaling of alpha may cost
        assert -Fraction(certificate.rounding_error) <= error <= Fraction(certificate.rounding_error + room)
        assert certificate.rounding_error <= 1e-10 * certificate.gap
        assert certificate.primal - certificate.dual == pytest.approx(certificate.gap, rel=1e-11)


@penalties
@intercepts
def test_a_tiny_gap_is_known_as_well_as_a_large_one(penalty, intercept):
    """One sample and one feature: the answer is known in closed form."""
    problem = LinearProblem.build(np.array([[4.0], [-4.0]]), [1, -1], 1.0, SquaredHinge(), *intercept, penalty=penalty)
    w = np.zeros(problem.n_weights)
    # The slope of P in w is l1 + l2 w - 16 (1 - 4 w), and both alphas are 2 (1 - 4 w).
    w[0] = (16.0 - penalty.l1) / (64.0 + penalty.l2)
    alpha = np.full(2, 2.0 * (1.0 - 4.0 * w[0]))
    certificate = certify(problem, w, alpha)
    exact = exact_gap(problem, w, exact_point(problem, alpha))
    assert abs(Fraction(certificate.gap) - exact) <= Fraction(certificate.rounding_error) + Fraction(1, 10**13)
    assert certificate.gap <= 1e-13


@pytest.mark.parametrize("name", ["unix-times", "mixed-scales-off-centre", "salaries"])
@layouts
@intercepts
@penalties
def test_on_columns_as_they_come_the_gap_is_not_below_the_exact_one(name, layout, intercept, penalty):
    X, y = table(name, 20)
    problem = LinearProblem.build(layout(X), np.where(y > 0, 1, -1), 1.0, SquaredHinge(), *intercept, penalty=penalty)
    rng = np.random.default_rng(0)
    alpha = rng.exponential(size=20) / float(np.max(np.abs(X)))
    alpha = alpha if problem.penalizes_intercept else problem.balanced(alpha)
    w = rng.normal(size=problem.n_weights) / np.append(np.max(np.abs(X), axis=0), 1.0)[: problem.n_weights]
    certificate = certify(problem, w, alpha)
    exact = exact_gap(problem, w, exact_point(problem, alpha))
    assert Fraction(certificate.gap + certificate.rounding_error) >= exact
    assert certificate.rounding_error <= 1e-6 * certificate.scale


@intercepts
def test_with_an_l1_penalty_the_gap_is_a_proof_and_bounds_no_distance(intercept):
    problem = made(L1(), np.asarray, intercept, 1)
    certificate = certify(problem, *point(problem, 1, 0.1))
    assert certificate.is_proof
    assert certificate.distance_bound == math.inf
    assert not certificate.is_strongly_convex


@pytest.mark.parametrize("ratio", [0.0, 0.5, 0.9])
def test_the_distance_bound_of_an_elastic_net_holds(ratio):
    """At w(v), which minimises the gap for this alpha, the optimum is at most the bound away."""
    from maxmargin.solving.driver import solve

    problem = made(ElasticNet(ratio), np.asarray, (1.0, True), 2)
    best = solve(problem, tol=1e-12)
    for seed in range(5):
        w, alpha = point(problem, seed, 0.3)
        certificate = certify(problem, w, alpha)
        assert np.linalg.norm(w - best.w) <= certificate.distance_bound


def test_an_elastic_net_without_l1_is_the_ridge_penalty():
    problem = made(ElasticNet(0.0), np.asarray, (1.0, True), 3)
    ridge = made(L2(), np.asarray, (1.0, True), 3)
    w, alpha = point(problem, 3, 0.5)
    one, other = certify(problem, w, alpha), certify(ridge, w, alpha)
    assert one.gap == pytest.approx(other.gap, rel=1e-12)
    assert one.distance_bound == pytest.approx(other.distance_bound, rel=1e-9)


def test_a_negative_alpha_proves_nothing():
    problem = made(L1(), np.asarray, (0.0, True), 4)
    assert not certify(problem, np.zeros(6), np.full(14, -1.0)).is_proof


@penalties
def test_the_conjugate_of_a_penalty_is_the_greatest_difference(penalty):
    """g*(v) >= w . v - g(w) for every w, with equality at the w that answers v."""
    rng = np.random.default_rng(5)
    v = rng.normal(size=4)
    v = v * penalty.feasible_share(v)
    for _ in range(50):
        w = rng.normal(size=4) * 3.0
        assert penalty.conjugate(v) >= w @ v - penalty.value(w) - 1e-12
        gap = penalty.value(w) + penalty.conjugate(v) - w @ v
        assert float(np.sum(penalty.gap_terms(w, v))) == pytest.approx(gap, abs=1e-11)
    answer = (v - np.clip(v, -penalty.l1, penalty.l1)) / penalty.l2 if penalty.l2 else np.zeros(4)
    assert float(np.sum(penalty.gap_terms(answer, v))) == pytest.approx(0.0, abs=1e-14)


def test_the_ratio_names_the_penalty_and_a_wrong_one_is_refused():
    assert penalty_of(1.0) == L1()
    assert penalty_of(0.3) == ElasticNet(0.3)
    with pytest.raises(ValueError, match=r"l1_ratio must be at least 0 and below 1; got 1\.5"):
        ElasticNet(1.5)


@pytest.mark.parametrize("scaling", [0.0, 1.0])
def test_sums_that_rounding_could_hide_are_summed_again_precisely(scaling, monkeypatch):
    """At C = 1e7 the bound of a plain sum takes a share of alpha, and its gap is far above what was asked."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = np.where(X[:, 0] + rng.normal(size=3000) > 0.0, 1, -1)
    problem = LinearProblem.build(X, y, 1e7, SquaredHinge(), scaling, penalty=L1())
    assert solve(problem, tol=1e-6).status is Status.CERTIFIED
    monkeypatch.setattr(policy, "LINEAR", replace(policy.LINEAR, lost_share=math.inf))
    assert solve(problem, tol=1e-6).certificate.relative_gap > 1e-5


@pytest.mark.parametrize("penalizes_intercept", [True, False])
@pytest.mark.parametrize("name", ["one-in-millions", "salaries"])
def test_where_c_times_a_column_is_large_a_mended_alpha_is_certified_and_the_gap_is_that_of_rational_arithmetic(
    name, penalizes_intercept
):
    X, y = table(name, 60)
    y = np.where(y > np.median(y), 1, -1)
    problem = LinearProblem.build(X, y, 1e6, SquaredHinge(), 1.0, penalizes_intercept, L1())
    assert 1e6 * np.abs(X).max() > 1e10
    solution = solve(problem, tol=1e-4)
    assert solution.status is Status.CERTIFIED
    exact = exact_gap(problem, solution.w, exact_point(problem, solution.alpha))
    assert 0 <= exact <= Fraction(solution.certificate.gap) + Fraction(solution.certificate.rounding_error)


def test_a_mended_alpha_is_feasible_and_balanced_in_rational_arithmetic():
    X, y = table("one-in-millions", 60)
    y = np.where(y > np.median(y), 1, -1)
    problem = LinearProblem.build(X, y, 1e6, SquaredHinge(), 1.0, False, L1())
    found = solve(problem, tol=1e-3).alpha
    rough = np.where(found > 1e-9 * found.max(), found, 0.0) * (1.0 + 1e-15 * np.random.default_rng(0).normal(size=60))
    assert max(abs(v) for v in exact_weights(problem, [Fraction(float(a)) for a in rough])) > 1
    columns = np.hstack([X, np.ones((60, 1))])
    alpha = mended(problem, np.arange(problem.n_weights), columns, rough, SparseNewtonPolicy())
    exact = [Fraction(float(a)) for a in alpha]
    assert max(abs(v) for v in exact_weights(problem, exact)) <= 1
    assert sum(a * int(sign) for a, sign in zip(exact, y, strict=True)) == 0
    assert np.allclose(alpha, rough, rtol=1e-9)

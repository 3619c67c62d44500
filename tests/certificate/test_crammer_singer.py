"""The judge of Crammer and Singer's machine, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate.class_sums import Coefficients, plain_sums, precise_sums
from maxmargin.certificate.crammer_singer import certify_coefficients, certify_crammer_singer
from maxmargin.problem.crammer_singer import CrammerSingerProblem

layouts = pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])


def made(layout, k: int = 4, scaling: float = 2.0, seed: int = 0, n: int = 10, d: int = 5) -> CrammerSingerProblem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    C = rng.exponential(size=n)
    C[0] = 0.0
    return CrammerSingerProblem.build(layout(X), np.arange(n) % k, C, scaling)


def point(problem: CrammerSingerProblem, seed: int, share: float):
    rng = np.random.default_rng(seed)
    a = rng.random((problem.n_samples, problem.n_classes)) * (rng.random((problem.n_samples, problem.n_classes)) < 0.6)
    a[problem.own] = 0.0
    a *= share * (problem.C / np.maximum(a.sum(axis=1), 1e-300))[:, None]
    b = -a
    b[problem.own] = a.sum(axis=1)
    return rng.normal(size=(problem.n_weights, problem.n_classes)), b


def exact_gap(problem: CrammerSingerProblem, W, b) -> Fraction:
    rows = [[Fraction(float(x)) for x in row] for row in problem.rows.dense()]
    if problem.intercept_scaling:
        rows = [[*row, Fraction(problem.intercept_scaling)] for row in rows]
    W = [[Fraction(float(value)) for value in row] for row in W]
    d, k = len(W), problem.n_classes
    primal, dual = sum(value**2 for row in W for value in row) / 2, Fraction(0)
    W_of_a = [[Fraction(0)] * k for _ in range(d)]
    for row, y, C, coefficients in zip(rows, problem.y, problem.C, b, strict=True):
        z = [sum(row[j] * W[j][m] for j in range(d)) for m in range(k)]
        primal += Fraction(float(C)) * max((0 if m == y else 1) + z[m] - z[y] for m in range(k))
        a = [Fraction(0) if m == y else -Fraction(float(value)) for m, value in enumerate(coefficients)]
        total, C = sum(a), Fraction(float(C))
        if total > C:
            a = [value * C / total for value in a]
        dual += sum(a)
        for j in range(d):
            for m in range(k):
                W_of_a[j][m] += row[j] * (sum(a) if m == y else -a[m])
    return primal - dual + sum(value**2 for row in W_of_a for value in row) / 2


@layouts
@pytest.mark.parametrize("scaling", [0.0, 2.0])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_gap_equals_rational_arithmetic_within_its_own_rounding_bound(layout, scaling, share):
    for seed in range(3):
        problem = made(layout, scaling=scaling, seed=seed)
        W, b = point(problem, seed, share)
        certificate = certify_crammer_singer(problem, W, b)
        assert abs(Fraction(certificate.gap) - exact_gap(problem, W, b)) <= Fraction(certificate.rounding_error)
        assert certificate.rounding_error <= 1e-10 * certificate.gap
        assert certificate.primal - certificate.dual == pytest.approx(certificate.gap, rel=1e-10)
        assert certificate.primal == pytest.approx(problem.primal(W))
        assert certificate.dual == pytest.approx(problem.dual(b))


def raw_point(layout, k: int = 4, n: int = 12):
    """Times and order numbers, with coefficients whose sums cancel in W(a), and the W that is nearest to their W(a)."""
    rng = np.random.default_rng(n)
    X = np.column_stack([1.7e12 + rng.integers(0, 10**9, n), 5e9 + np.arange(n), rng.normal(size=n), rng.random(n) < 0.5])
    problem = CrammerSingerProblem.build(layout(X), np.arange(n) % k, 10.0, 1.0)
    a = np.zeros((n, k))
    a[np.arange(n), (problem.y + 1) % k] = 1.0 + 1e-13 * rng.normal(size=n)
    a[np.arange(n), (problem.y + 2) % k] = 1e-3 * rng.random(n)
    b = -a
    b[problem.own] = a.sum(axis=1)
    W = np.array([float(value) for value in exact_weights(problem, a)]).reshape(problem.n_weights, k)
    return problem, W, b


def exact_rows(problem: CrammerSingerProblem):
    """The rows with the constant feature, each with each class."""
    for row in problem.rows.dense():
        for m in range(problem.n_classes):
            yield [*map(Fraction, row.tolist()), Fraction(problem.intercept_scaling)], m


def exact_weights(problem: CrammerSingerProblem, a) -> list[Fraction]:
    """W(a), feature by feature."""
    exact, k = [[Fraction(float(value)) for value in row] for row in a], problem.n_classes
    signed = [[sum(row) if m == y else -row[m] for m in range(k)] for y, row in zip(problem.y, exact, strict=True)]
    rows = [row for row, m in exact_rows(problem) if m == 0]
    return [sum(b[m] * row[j] for b, row in zip(signed, rows, strict=True)) for j in range(problem.n_weights) for m in range(k)]


@layouts
def test_precise_sums_equal_rational_arithmetic_within_their_bound(layout):
    problem, W, b = raw_point(layout)
    a = -b
    a[problem.own] = 0.0
    for moved in (W, W * (1.0 + 1e-12), np.zeros_like(W)):
        sums = precise_sums(problem, moved, Coefficients(a, a.sum(axis=1)))
        differences = [Fraction(float(m)) - w for m, w in zip(moved.flat, exact_weights(problem, a), strict=True)]
        exact = np.sqrt(float(sum(value**2 for value in differences)))
        assert abs(sums.apart - exact) <= sums.apart_error
        z = [sum(x * Fraction(float(w)) for x, w in zip(row, moved.T[m], strict=True)) for row, m in exact_rows(problem)]
        wrong = max(abs(Fraction(float(value)) - one) for value, one in zip(sums.outputs.flat, z, strict=True))
        assert wrong <= Fraction(float(sums.wrong.max())) / 2


@layouts
def test_precise_sums_tell_weights_from_the_rounding_of_their_sums(layout):
    problem, W, b = raw_point(layout)
    a = -b
    a[problem.own] = 0.0
    found = Coefficients(a, a.sum(axis=1))
    precise, plain = precise_sums(problem, W, found), plain_sums(problem, W, problem.weights(b), found)
    assert precise.apart <= 1e-15 * np.linalg.norm(W)
    assert precise.apart_error <= 1e-13 * plain.apart_error


@layouts
def test_gap_of_raw_columns_equals_rational_arithmetic_within_its_bound(layout):
    problem, W, b = raw_point(layout)
    certificate = certify_crammer_singer(problem, W, b)
    assert abs(Fraction(certificate.gap) - exact_gap(problem, W, b)) <= Fraction(certificate.rounding_error)
    assert certificate.rounding_error <= 1e-10 * certificate.gap


def test_a_point_outside_its_bounds_proves_nothing():
    problem = made(np.asarray)
    W, b = point(problem, 1, 1.0)
    assert not certify_crammer_singer(problem, W, 2.0 * b).is_proof
    assert not certify_crammer_singer(problem, W, -b).is_proof
    with pytest.raises(ValueError, match=r"W must have the shape \(6, 4\)"):
        certify_crammer_singer(problem, W.T, b)


def test_the_distance_bound_holds_for_all_classes_together():
    from maxmargin.solving.driver import solve

    problem = made(np.asarray, n=30)
    best = solve(problem, tol=1e-10)
    for seed in range(4):
        W, b = point(problem, seed, 0.5)
        certificate = certify_crammer_singer(problem, W, b)
        assert np.linalg.norm(W - best.w) <= certificate.distance_bound


@layouts
@pytest.mark.parametrize("scaling", [0.0, 2.0])
def test_coefficients_are_judged_with_their_own_weights(layout, scaling):
    problem = made(layout, scaling=scaling)
    _, b = point(problem, 3, 1.0)
    W, certificate = certify_coefficients(problem, b)
    exact = float(exact_gap(problem, W, b))
    assert np.allclose(W, problem.weights(b))
    assert abs(certificate.gap - exact) <= certificate.rounding_error
    assert certificate.gap == pytest.approx(certify_crammer_singer(problem, W, b).gap, rel=1e-9)


def test_coefficients_that_are_not_feasible_prove_nothing():
    problem = made(np.asarray)
    _, b = point(problem, 3, 1.0)
    assert not certify_coefficients(problem, -b).certificate.is_proof
    b[0, 0] = np.nan
    assert not certify_coefficients(problem, b).certificate.is_proof


def test_a_certificate_does_not_depend_on_the_size_of_its_blocks(monkeypatch):
    from maxmargin.certificate import crammer_singer

    problem = made(np.asarray)
    W, b = point(problem, 3, 0.7)
    whole = certify_crammer_singer(problem, W, b)
    monkeypatch.setattr(crammer_singer, "CLASSES", crammer_singer.CLASSES.__class__(outputs_a_block=1))
    assert certify_crammer_singer(problem, W, b) == whole

"""Sums of kernel values against the definition and against exact exponentials, in every form that X can have."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.certificate import policy
from maxmargin.certificate.equal_points import equal_points
from maxmargin.certificate.kernel_sum_loops import LANES, JudgedSums, judge_rows
from maxmargin.certificate.kernel_sums import kernel_sums
from maxmargin.problem import kernel_loops
from maxmargin.problem.kernels import RBF, Linear, Points, Polynomial

FORMS = {"dense": np.asarray, "sparse": sparse.csr_array}


@pytest.fixture(autouse=True, params=[0, policy.KERNEL.few_elements], ids=["judged as it is", "small, so judged dense"])
def few_elements(request, monkeypatch):
    """A small sparse X is made dense before it is judged: both ways are tested."""
    monkeypatch.setattr(policy, "KERNEL", replace(policy.KERNEL, few_elements=request.param))


def mostly_zero(n: int, d: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [RBF(0.7), Linear(), Polynomial(0.5, 1.0, 3)])
@pytest.mark.parametrize("n_features", [1, 7, 300])
def test_sums_are_what_the_definition_gives(form, dtype, kernel, n_features):
    points = Points.of(FORMS[form](mostly_zero(333, n_features, 0).astype(dtype)))
    others = Points.of(FORMS[form](mostly_zero(150, n_features, 1).astype(dtype)))
    chosen = np.arange(0, 333, 2)
    signed = np.random.default_rng(2).normal(size=len(chosen))
    for samples in (None, others):
        sums = kernel_sums(kernel, points, chosen, signed, samples)
        block = kernel.block(points[chosen], points if samples is None else samples)
        assert np.allclose(sums.outputs, signed @ block, rtol=1e-10, atol=1e-10)
        if isinstance(kernel, RBF):  # for the others the bound is coarser
            assert np.all(sums.errors <= 1e-10 * (1.0 + np.abs(signed) @ np.abs(block)))


@pytest.mark.parametrize("form", FORMS)
def test_counting_equal_rows_once_changes_nothing(form, monkeypatch):
    X = np.repeat(mostly_zero(60, 5, 3), 4, axis=0)[np.random.default_rng(4).permutation(240)]
    points, chosen = Points.of(FORMS[form](X)), np.arange(200)
    signed = np.random.default_rng(5).normal(size=200)
    plain = kernel_sums(RBF(0.5), points, chosen, signed)
    monkeypatch.setattr(policy, "KERNEL", replace(policy.KERNEL, evaluations_to_prepare=0))
    grouped = kernel_sums(RBF(0.5), points, chosen, signed)
    assert np.allclose(plain.outputs, grouped.outputs, rtol=1e-12, atol=1e-12)
    assert np.all(np.abs(plain.outputs - grouped.outputs) <= plain.errors + grouped.errors)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_rbf_sums_are_as_near_to_exact_ones_as_they_say(form, scale):
    """Against forty digits, with coefficients of very different sizes that nearly cancel."""
    X = scale * mostly_zero(40, 6, 6)
    points, chosen = Points.of(FORMS[form](X)), np.arange(40)
    signed = np.random.default_rng(7).normal(size=40) * 10.0 ** np.random.default_rng(8).integers(-6, 6, size=40)
    kernel = RBF(0.1)
    sums = kernel_sums(kernel, points, chosen, signed)
    with localcontext() as context:
        context.prec = 60
        exact = [[Decimal(float(value)) for value in row] for row in X]
        gamma, coefficients = Decimal(kernel.gamma), [Decimal(float(value)) for value in signed]
        for i, x in enumerate(exact):
            squares = [sum((a - b) ** 2 for a, b in zip(z, x, strict=True)) for z in exact]
            f = sum(c * (-gamma * square).exp() for c, square in zip(coefficients, squares, strict=True))
            assert abs(Decimal(float(sums.outputs[i])) - f) <= Decimal(float(sums.errors[i]))
    assert np.all(sums.errors <= 1e-14 * (1.0 + scale**2) * np.abs(signed).sum())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, -2.0, 1e-300]), min_size=3, max_size=3), min_size=1, max_size=12))
def test_rows_in_one_set_are_equal_and_equal_rows_are_missed_only_when_rounding_hides_them(rows):
    X = np.array(rows)
    group, first = equal_points(sparse.csr_array(X))
    is_one_set, is_equal = group[:, None] == group[None, :], (X[:, None] == X[None, :]).all(axis=2)
    assert np.all(is_equal[is_one_set])
    assert np.array_equal(group[first], np.arange(len(first)))
    if not np.any(X == 1e-300):
        assert np.all(is_one_set[is_equal])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_positive", [0, 1, 40, 150, 151])
def test_a_value_that_serves_both_of_its_sides_gives_the_same_sums(form, n_positive, monkeypatch):
    points, chosen = Points.of(FORMS[form](mostly_zero(333, 7, 6))), np.random.default_rng(7).permutation(333)[:151]
    signed = np.random.default_rng(8).permutation(np.where(np.arange(151) < n_positive, 1.0, -1.0)) * np.linspace(0.1, 9.0, 151)
    plain = kernel_sums(RBF(0.3), points, chosen, signed)
    small = replace(policy.KERNEL, values_to_halve=0, samples_a_task=37, strips_a_turn=2)
    monkeypatch.setattr(policy, "KERNEL", small)
    halved = kernel_sums(RBF(0.3), points, chosen, signed)
    assert not np.array_equal(plain.outputs, halved.outputs)  # another order of additions
    assert np.all(np.abs(plain.outputs - halved.outputs) <= plain.errors + halved.errors)
    assert np.all(halved.errors <= 1e-12 * np.abs(signed).sum())


def test_an_rbf_value_is_right_to_the_last_digit():
    squares = np.concatenate([np.linspace(0.0, 60.0, 2000), 10.0 ** np.linspace(-12, 2.8, 500)])
    values, rests = np.zeros((2, len(squares)))
    origin, others = np.zeros((1, 1)), np.zeros((len(squares), 1))
    job = JudgedSums(origin, np.array([0]), np.ones(1), np.zeros(1), others, squares, -1.0)
    judge_rows(job, 0, len(squares), np.zeros(6 * int(LANES)), values, rests)
    with localcontext() as context:
        context.prec = 40
        exact = [Decimal(2) ** -Decimal(float(square)) for square in squares]
        errors = [abs(Decimal(float(value)) / true - 1) for value, true in zip(values, exact, strict=True)]
    assert max(errors) < 1.5 * 2.0**-53 + 1e-20


def interpolated(degree):
    """The coefficients of the polynomial that is (2^r - 1) / r at the Chebyshev nodes of |r| <= 1/2, in exact arithmetic but
    for 2^r itself, which is summed until nothing changes."""

    nodes = [Fraction(0.5 * math.cos(math.pi * (k + 0.5) / (degree + 1))) for k in range(degree + 1)]
    log2 = Fraction(math.log(2.0)) + Fraction(2.3190468138462996e-17)  # what float64 leaves out
    values = [sum(log2**k * r ** (k - 1) / math.factorial(k) for k in range(1, 30)) for r in nodes]
    differences = list(values)
    for order in range(1, degree + 1):
        for k in range(degree, order - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (nodes[k] - nodes[k - order])
    powers = [Fraction(0)] * (degree + 1)
    for difference, node in zip(reversed(differences), reversed(nodes), strict=True):  # Newton's form, multiplied out
        powers = [difference - node * powers[0]] + [powers[k - 1] - node * powers[k] for k in range(1, degree + 1)]
    return [float(power) for power in powers]


def test_the_exponential_s_polynomial_is_the_one_that_rational_arithmetic_gives():
    assert [getattr(kernel_loops, f"P{k}") for k in range(11)] == interpolated(10)

"""Sums of monomials without rounding, against rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.kernels import Polynomial
from maxmargin.problem.whole_monomials import Scaled, WholeColumn, WholeMonomials, exact_sum


def value_of(number):
    return Fraction(number.whole) * Fraction(2) ** number.exponent


@pytest.mark.parametrize("coef0", [0.0, 1.0])
def test_sums_of_monomials_are_those_of_rational_numbers(coef0):
    random = np.random.default_rng(3)
    X = np.column_stack([random.uniform(1e9, 2e9, 7), random.normal(size=7) * 1e-5, random.integers(0, 3, 7)])
    s = random.normal(size=7) * 10.0 ** random.uniform(-30.0, 6.0, 7)
    found = feature_map(Polynomial(0.25, coef0, 3), 3, True)
    sums = WholeMonomials.of(found, X).sums(s)
    monomials = [row for variables, _ in found.terms() for row in variables.tolist()]
    for variables, total in zip(monomials, sums, strict=True):
        exact = sum(Fraction(c) * math.prod(Fraction(x[j]) for j in variables) for c, x in zip(s, X, strict=True))
        assert value_of(total) == exact


def test_a_column_of_numbers_is_exact_whatever_their_sizes():
    values = np.array([0.0, -0.1, 5e-324, 1.7e308, 3.0])
    column = WholeColumn.of(values)
    assert [Fraction(int(n)) * Fraction(2) ** column.exponent for n in column.numbers] == [Fraction(v) for v in values]


def test_a_whole_number_becomes_the_float_nearest_to_it():
    huge = Scaled(3**700, -900)
    assert abs(Fraction(float(huge)) / value_of(huge) - 1) <= 1.01 * Fraction(2) ** -53
    assert float(Scaled(-(3**700), 0)) == -math.inf
    assert float(Scaled(0, 5)) == 0.0


def test_differences_and_products_are_exact():
    one, other = Scaled.of(1e20), Scaled.of(0.1)
    assert value_of(one.minus(other)) == Fraction(1e20) - Fraction(0.1)
    assert value_of(one.times(other)) == Fraction(1e20) * Fraction(0.1)
    assert value_of(exact_sum(np.array([1e20, 0.1, -1e20]))) == Fraction(0.1)

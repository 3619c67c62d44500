"""The judge of a polynomial kernel in its monomials, against rational arithmetic."""

from __future__ import annotations

import decimal
from fractions import Fraction

import numpy as np
import pytest

from maxmargin.certificate.monomials import monomial_judge
from maxmargin.data.rows import Rows
from maxmargin.problem.feature_maps import Itself, feature_map
from maxmargin.problem.kernels import Polynomial
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge

GAMMA = 0.37


def judge(n=8, has_offset=True, seed=1):
    random = np.random.default_rng(seed)
    X = np.column_stack([random.uniform(1e9, 2e9, n), random.normal(size=n) * 50.0])
    map = feature_map(Polynomial(GAMMA, 0.0, 2), 2, has_offset)
    rows, y = Rows.from_matrix(map.of(X), check=False), np.where(np.arange(n) % 2, 1.0, -1.0)
    problem = LinearProblem(rows, y, np.full(n, 3.0), Hinge(), float(has_offset), not has_offset)
    return monomial_judge(map, problem, X, 1000), X


def exact_features(x):
    """phi(x) to a hundred digits."""
    with decimal.localcontext() as context:
        context.prec = 120
        root = Fraction(decimal.Decimal(2).sqrt())
    x, z, g = Fraction(x[0]), Fraction(x[1]), Fraction(GAMMA)
    return [g * x * x, g * root * x * z, g * z * z]


def exact_values(judge, X, w, alpha):
    """P(w) and D(alpha)."""
    y, C = judge.problem.y, Fraction(3)
    phi = [exact_features(x) for x in X]
    weights = [Fraction(v) for v in w]
    b = weights[3] if len(w) > 3 else 0
    margins = [int(s) * (sum(a * c for a, c in zip(weights, row, strict=False)) + b) for s, row in zip(y, phi, strict=True)]
    own = [sum(Fraction(a) * int(s) * row[j] for a, s, row in zip(alpha, y, phi, strict=True)) for j in range(3)]
    primal = sum(v * v for v in weights[:3]) / 2 + C * sum(max(0, 1 - m) for m in margins)
    return primal, sum(Fraction(a) for a in alpha) - sum(v * v for v in own) / 2


@pytest.mark.parametrize("has_offset", [True, False])
@pytest.mark.parametrize("size", [1e-38, 1e-3, 3.0])
def test_the_gap_is_that_of_rational_arithmetic_to_within_the_rounding_error(has_offset, size):
    own, X = judge(has_offset=has_offset)
    alpha, w = np.full(8, size), np.array([3e-19, -2e-11, 4e-4, 0.3])[: 4 if has_offset else 3]
    found = own.certify(w, alpha)
    primal, dual = exact_values(own, X, w, alpha)
    assert abs(Fraction(found.gap) - (primal - dual)) <= Fraction(found.rounding_error)
    assert found.rounding_error <= 1e-9 * found.scale


def test_an_alpha_out_of_balance_proves_no_more_than_a_balanced_one_near_it():
    own, X = judge()
    alpha, w = np.full(8, 1e-38), np.array([3e-19, -2e-11, 4e-4, 0.3])
    alpha[2] += 1e-40
    found = own.certify(w, alpha)
    primal, _ = exact_values(own, X, w, alpha)
    excess = sum(Fraction(a) * int(s) for a, s in zip(alpha, own.problem.y, strict=True))
    duals = []
    for k in range(8):
        moved = [Fraction(a) for a in alpha]
        moved[k] -= excess * int(own.problem.y[k])
        duals.append(exact_values(own, X, w, moved)[1])
    assert excess != 0
    assert Fraction(found.gap) + Fraction(found.rounding_error) >= primal - max(duals)


def test_an_alpha_outside_its_box_proves_nothing():
    own, _ = judge()
    assert not own.certify(np.zeros(4), np.full(8, 3.5)).is_proof
    assert not own.certify(np.full(4, np.nan), np.zeros(8)).is_proof


def test_there_is_no_judge_for_other_maps_and_for_too_many_numbers():
    own, X = judge()
    assert monomial_judge(Itself(2), own.problem, X, 1000) is None
    assert monomial_judge(own.map, own.problem, X, 23) is None

"""The sums of a certificate, a column of samples at a time."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.certificate.lane_loops import LANES
from maxmargin.certificate.linear import certify
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.problem.one_class import one_class_problem
from maxmargin.problem.regression_losses import EpsilonInsensitive

NUMBERS = (1, 2, LANES - 1, LANES, LANES + 1, 3 * LANES, 101)
"""Numbers of samples around those of whole columns."""


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("is_even", [True, False], ids=["one C", "a C for each sample"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), EpsilonInsensitive(0.1)], ids=repr)
def test_the_gap_is_the_sum_of_the_terms_of_each_sample_whatever_their_number(loss, is_even, n):
    rng = np.random.default_rng(n)
    X, w = rng.normal(size=(n, 3)), rng.normal(size=3)
    y = rng.normal(size=n) if loss.is_regression else np.where(rng.random(n) < 0.5, 1, -1)
    problem = LinearProblem.build(X, y, 2.0 if is_even else rng.uniform(1.0, 2.0, n), loss)
    alpha = np.clip(rng.uniform(-1.0, 2.5, n), problem.box.L, problem.box.U)
    found = certify(problem, w, alpha)
    outputs = problem.signs * (X @ w)
    terms = loss.gap_terms(outputs, alpha, problem.C, problem.targets)
    difference = w - (alpha * problem.signs) @ X
    assert found.gap == pytest.approx(np.sum(terms) + 0.5 * difference @ difference, rel=1e-12)
    assert found.primal == pytest.approx(0.5 * w @ w + problem.C @ loss.value(outputs, problem.targets), rel=1e-12)
    assert found.n_support == np.count_nonzero(alpha)


@pytest.mark.parametrize("n", NUMBERS)
@pytest.mark.parametrize("is_even", [True, False], ids=["one weight", "a weight for each sample"])
def test_the_gap_of_one_class_is_the_sum_of_the_terms_of_each_sample_whatever_their_number(is_even, n):
    rng = np.random.default_rng(n)
    X = rng.normal(2.0, 1.0, size=(n, 3))
    problem = one_class_problem(X, 0.5, 1.0 if is_even else rng.uniform(1.0, 2.0, n))
    alpha, w = 0.5 * problem.C, np.append(rng.normal(size=3), -1.0)
    found = certify(problem, w, alpha)
    outputs = X @ w[:3] + w[3] * problem.intercept_scaling
    terms = np.maximum(0.0, -outputs) * (problem.C - alpha) + np.maximum(0.0, outputs) * alpha
    difference = w[:3] - alpha @ X
    assert found.gap == pytest.approx(np.sum(terms) + 0.5 * difference @ difference, rel=1e-9)
    assert found.n_support == n

"""Mending: the rounding errors of large alphas are made good by small ones."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from operator import mul

import numpy as np
import pytest

from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.solvers.linear.dual_mending import is_worth_mending, mended, rounding_of_alpha
from tests.raw_catalogue import table


def milliseconds(C, loss):
    """Every row twice, with both labels: equal alphas of the two give w(alpha) = 0 exactly."""
    X, _ = table("milliseconds", 60)
    return LinearProblem.build(np.vstack([X, X]), np.repeat([1, -1], len(X)), C, loss, 1.0)


def balanced_alpha(problem, seed=0):
    """About a third at zero, a third at C, the others between; the same for the two of each pair."""
    rng = np.random.default_rng(seed)
    return problem.C * np.tile(np.clip(rng.uniform(-1.0, 2.0, problem.n_samples // 2), 0.0, 1.0), 2)


def distance(problem, w, alpha):
    """|w - w(alpha)|, by exact arithmetic."""
    rows = np.hstack([problem.rows.dense(), np.full((problem.n_samples, 1), problem.intercept_scaling)])
    signed = [Fraction(float(a)) * int(s) for a, s in zip(alpha, problem.signs, strict=True)]
    columns = [[Fraction(float(x)) for x in column] for column in rows.T]
    missing = [Fraction(float(w_j)) - sum(map(mul, signed, column)) for w_j, column in zip(w, columns, strict=True)]
    return float(sum(each * each for each in missing)) ** 0.5


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_mending_brings_w_of_alpha_to_w_within_a_thousandth_of_the_rounding_of_alpha(loss, seed):
    problem = milliseconds(1e6, loss)
    alpha, w = balanced_alpha(problem, seed), np.zeros(problem.n_weights)
    noise = np.where((alpha > 0.0) & (alpha < problem.C), np.random.default_rng(seed).normal(size=len(alpha)), 0.0)
    rounded = np.clip(alpha + 1e-9 * noise, problem.box.L, problem.box.U)  # as a solver leaves it
    found = mended(problem, w, rounded)
    assert (found >= problem.box.L).all()
    assert (found <= problem.box.U).all()
    assert distance(problem, w, found) < 1e-3 * distance(problem, w, rounded)
    assert np.abs(found - rounded).max() < 1e-6 * problem.C.max()


def test_what_is_not_lost_to_rounding_is_not_mended():
    problem = milliseconds(1e-6, Hinge())
    alpha = balanced_alpha(problem)
    assert rounding_of_alpha(problem, alpha) < 1e-3
    assert not is_worth_mending(problem, alpha, 1.0)
    assert is_worth_mending(milliseconds(1e6, Hinge()), 1e12 * alpha, 1.0)


def test_a_free_intercept_is_not_mended_because_alpha_must_stay_balanced():
    problem = replace(milliseconds(1e6, Hinge()), penalizes_intercept=False)
    assert not is_worth_mending(problem, problem.C, 1e-9)

"""The answer to a smaller C, where the classes can be separated: raw columns and a large C."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from maxmargin import SVC, LinearSVC
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solving import at_once as module
from maxmargin.solving.driver import solve
from maxmargin.solving.policy import SmallerCostPolicy
from maxmargin.solving.solution import Status


def factors(n, seed, d=60):
    """Columns of very different sizes and offsets, made of eight factors: measurements beside counts and amounts."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, 8))
    X = F @ rng.normal(size=(8, d)) * 10.0 ** rng.uniform(-3.0, 5.0, d) + 10.0 ** rng.uniform(0.0, 6.0, d)
    return X + rng.normal(size=(n, d)), np.where(F @ rng.normal(size=8) > 0.0, 1, -1)


@pytest.mark.parametrize("C", [1e3, 1e6, 1e8])
@pytest.mark.parametrize("seed", range(4))
def test_classes_that_can_be_separated_have_the_hard_margin_at_every_large_C(seed, C):
    X, y = factors(160, seed)
    hard = SVC(kernel="linear", C=np.inf).fit(X, y)
    if np.abs(hard.dual_coef_).max() >= C:
        return
    soft = SVC(kernel="linear", C=C).fit(X, y)
    assert soft.status_ is Status.CERTIFIED
    assert soft.certificate_.primal == pytest.approx(hard.certificate_.primal, rel=3e-3)


@pytest.mark.parametrize("penalize_intercept", [True, False])
def test_overlapping_classes_have_no_answer_at_a_smaller_cost(penalize_intercept):
    """Their alphas are at every smaller bound."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.where(X[:, 0] + rng.normal(size=80) > 0.0, 1.0, -1.0)
    problem = LinearProblem.build(X, y, 1e4, Hinge(), 1.0, penalize_intercept)
    attempt = module._OneCall(problem, Auto().one_call, 0.0)  # no certificate is good enough
    assert attempt.judged() is None
    assert attempt.with_smaller_cost() is None
    assert attempt.steps_before > 0


def test_its_answer_is_judged_by_the_problem_that_was_asked(monkeypatch):
    """With a share at which alpha is at its bound there is no answer, however good it is for that smaller C."""
    X, y = factors(160, 1)
    problem = LinearProblem.build(X, y, 1.0, Hinge(), 1.0, False)
    attempt = replace(module._OneCall(problem, Auto().one_call, 1e-4), refused=solve(problem).w)
    found = attempt.with_smaller_cost()
    monkeypatch.setattr(module, "SMALLER_COST", SmallerCostPolicy(shares=(1e-9,)))
    assert replace(attempt, trace=[]).with_smaller_cost() is None
    if found is not None:
        assert problem.is_feasible(found.alpha)
        assert found.certificate.meets(1e-4)


@pytest.mark.parametrize("C", [1e4, 1e6])
def test_raw_tables_of_seven_classes_are_certified(C):
    X, _ = factors(350, 5)
    y = np.random.default_rng(5).permutation(350) % 7
    assert all(status is Status.CERTIFIED for status in SVC(kernel="linear", C=C).fit(X, y).status_)
    assert all(status is Status.CERTIFIED for status in LinearSVC(loss="hinge", C=C).fit(X, y).status_)


def test_the_smaller_cost_saves_most_fits_the_method_in_python(monkeypatch):
    calls, tables = [], [factors(n, seed) for n in (120, 160) for seed in range(4)]
    advance = Newton.advance

    def watched(*arguments):
        calls.append(1)
        return advance(*arguments)

    def n_in_python():
        n_calls = []
        for X, y in tables:
            calls.clear()
            SVC(kernel="linear", C=1e6).fit(X, y)
            n_calls.append(len(calls))
        return np.count_nonzero(n_calls)

    monkeypatch.setattr(Newton, "advance", watched)
    with_smaller_cost = n_in_python()
    monkeypatch.setattr(module, "SMALLER_COST", SmallerCostPolicy(shares=()))
    assert with_smaller_cost <= 0.5 * n_in_python()

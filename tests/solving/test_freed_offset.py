"""A penalised intercept that rounding keeps from its optimum, and the problem with a free one that is solved in its place."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from maxmargin import LinearProblem, Status, certify, solve
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solving.driver import Limits
from maxmargin.solving.freed_offset import freed, judged, may_free
from tests.raw_catalogue import table


def milliseconds(C: float = 1e6, n: int = 1500) -> LinearProblem:
    X, y = table("milliseconds", n)
    return LinearProblem.build(X, np.where(y == 2, 1, -1), C, Hinge(), 1.0)


def test_hinge_loss_on_milliseconds_since_1970_is_certified_with_a_large_cost():
    problem = milliseconds()
    solution = solve(problem, tol=1e-4)
    assert solution.status is Status.CERTIFIED
    assert certify(problem, solution.w, solution.alpha).meets(1e-4)
    assert solution.offset_bound == 0.0
    assert solution.b == pytest.approx(solution.w[-1])


def test_a_free_answer_that_is_not_within_tol_changes_nothing_but_the_effort():
    problem = milliseconds(1e-3, 100)
    first, free = solve(problem, tol=1e-3), solve(freed(problem), tol=1e-6)
    kept = judged(problem, first, free, 1e-12)
    assert kept.certificate == first.certificate
    assert kept.status is first.status
    assert kept.steps == first.steps + free.steps
    assert len(kept.trace) == len(first.trace) + len(free.trace)


def test_it_is_tried_where_the_default_solver_is_stuck_and_the_penalty_is_small():
    problem = milliseconds(1e6, 60)
    stuck = replace(solve(problem, tol=1e-4), status=Status.PRECISION_LIMIT)
    limits, share = Limits(1e-4), 0.1
    assert may_free(problem, Auto(), stuck, limits, share)
    assert not may_free(problem, Auto(), replace(stuck, status=Status.TIME_LIMIT), limits, share)
    assert not may_free(problem, DCD(), stuck, limits, share)
    assert not may_free(freed(problem), Auto(), stuck, limits, share)
    assert not may_free(problem, Auto(), stuck, Limits(0.0), share)
    assert not may_free(problem, Auto(), stuck, Limits(1e-4, max_epochs=5.0), share)
    heavy = replace(stuck, w=np.append(stuck.w[:-1], math.sqrt(stuck.certificate.scale)))
    assert not may_free(problem, Auto(), heavy, limits, share)

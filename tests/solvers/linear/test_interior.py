"""One class in columns of very different scales, where pair descent and Newton's method end in rounding."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.problem.one_class import one_class_problem
from maxmargin.solvers.interior_point import solve_inside
from maxmargin.solvers.interior_program import InteriorPolicy, Program
from maxmargin.solvers.linear.costs import LinearCosts
from maxmargin.solvers.linear.interior import Interior
from maxmargin.solvers.linear.switching import AutoPlan, SwitchingPolicy
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests import raw_catalogue


@pytest.mark.parametrize(("name", "nu"), [("mixed-scales", 0.05), ("mixed-scales", 0.3), ("few-rows", 0.05), ("few-rows", 0.3)])
def test_columns_of_all_scales_are_certified(name, nu):
    problem = one_class_problem(raw_catalogue.table(name, 300).thinned(300).X, nu)
    solution = solve(problem)
    assert solution.status is Status.CERTIFIED
    assert solution.trace[-1].solver == "interior-point"


@pytest.mark.parametrize("nu", [0.1, 0.5])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_interior_point_method_has_the_answer_of_pair_descent(nu, is_weighted):
    rng = np.random.default_rng(2)
    problem = one_class_problem(rng.normal(1.0, 1.0, (200, 4)), nu, rng.uniform(0.5, 2.0, 200) if is_weighted else 1.0)
    inside, pairs = solve(problem, Interior(), tol=1e-8), solve(problem, "pair-descent", tol=1e-8)
    assert inside.status is pairs.status is Status.CERTIFIED
    apart = np.linalg.norm((inside.w - pairs.w)[:-1])
    assert apart <= inside.certificate.distance_bound + pairs.certificate.distance_bound


def test_the_first_point_has_as_many_free_variables_as_the_optimum():
    M = np.random.default_rng(1).normal(1.0, 1.0, (50, 3))
    program = Program(M, np.zeros(3), np.zeros(50), np.ones(50), np.ones((50, 1)), np.array([10.5]))
    first = solve_inside(program, 1e-6, InteriorPolicy())[0][0].x
    assert np.count_nonzero((first > 0.0) & (first < 1.0)) <= 4
    assert program.gap(first) <= 1e-12 * program.value(first)


def test_many_features_are_left_out():
    policy = SwitchingPolicy(interior_products=1e4)
    plans = [AutoPlan(one_class_problem(np.ones((100, d)), 0.5), policy, LinearCosts()) for d in (10, 11)]
    assert [plan.suits_interior for plan in plans] == [True, False]

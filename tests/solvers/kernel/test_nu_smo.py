"""SMO for the problems with nu: the working set."""

from __future__ import annotations

import numpy as np

from maxmargin.problem.kernels import RBF
from maxmargin.problem.nu import largest_nu, nu_svc
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.nu_smo import NuSMO


def state_of(n_positive):
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = np.where(np.arange(400) < n_positive, 1, -1)
    problem = nu_svc(X, y, RBF(0.5), largest_nu(y, np.ones(400)))
    solver = NuSMO(working_set=64)
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(steps=1, target=1e-3))
    return problem, state


def test_a_full_group_leaves_the_whole_working_set_to_the_other():
    problem, state = state_of(20)
    assert problem.is_full(0)
    chosen = state.choose(problem, 64)
    assert len(chosen)
    assert np.all(problem.group[chosen] == 1)


def test_where_both_groups_are_full_the_working_set_is_one_variable_that_cannot_move():
    problem, state = state_of(200)
    assert state.choose(problem, 64).tolist() == [0]
    assert state.s[0] == state.upper[0]

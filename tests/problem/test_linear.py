"""The problem's mathematics against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from tests.catalogue import LOSSES, PROBLEMS, feasible_point, labelled


@pytest.mark.parametrize("scaling", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_the_intercept_is_an_appended_column(layout, scaling):
    X, y = labelled(40, 5, 1.0, 0)
    problem = LinearProblem.build(layout(X), y, 0.7, Hinge(), scaling)
    appended = LinearProblem.build(np.column_stack([X, np.full(40, scaling)]), y, 0.7, Hinge())
    w, alpha = feasible_point(appended, 0)
    if scaling == 0.0:
        assert problem.primal(w[:-1]) == pytest.approx(appended.primal(np.append(w[:-1], 0.0)))
    else:
        assert problem.primal(w) == pytest.approx(appended.primal(w))
        assert problem.weights(alpha) == pytest.approx(appended.weights(alpha))
    assert problem.dual(alpha) == pytest.approx(appended.dual(alpha))


@pytest.mark.parametrize("loss_name", LOSSES)
def test_duplicating_a_row_equals_doubling_its_cost(loss_name):
    X, y = labelled(20, 3, 1.0, 1)
    doubled = LinearProblem.build(X, y, np.where(np.arange(20) == 4, 2.0, 1.0), LOSSES[loss_name])
    repeated = LinearProblem.build(np.vstack([X, X[4]]), np.append(y, y[4]), 1.0, LOSSES[loss_name])
    w, alpha = feasible_point(repeated, 2)
    assert doubled.primal(w) == pytest.approx(repeated.primal(w))
    alpha[-1] = alpha[4]
    merged = alpha[:-1].copy()
    merged[4] += alpha[-1]
    assert doubled.dual(merged) == pytest.approx(repeated.dual(alpha))


@pytest.mark.parametrize("problem_name", PROBLEMS)
def test_margins_and_weights_are_adjoint(problem_name):
    problem = PROBLEMS[problem_name](Hinge())
    w, alpha = feasible_point(problem, 3)
    assert alpha @ problem.margins(w) == pytest.approx(problem.weights(alpha) @ w, rel=1e-5, abs=1e-5)


def test_the_problem_does_not_copy_its_data():
    X, y = labelled(40, 5, 1.0, 0)
    problem = LinearProblem.build(X, y, 1.0, Hinge(), 1.0)
    assert np.shares_memory(problem.compiled_rows.values, X)
    assert problem.C.strides == (0,)

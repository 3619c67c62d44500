"""The columns that the method for sparse models works on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import SquaredHinge
from maxmargin.solvers.linear.sparse_newton.features import features_of
from maxmargin.solvers.linear.sparse_newton.model import QuadraticModel
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy


@pytest.mark.parametrize("screened", [[], [0], [2], [3], [0, 2]])
@pytest.mark.parametrize("scaling", [0.0, 1.0])
def test_the_products_of_sparse_and_dense_columns_agree_whatever_is_screened(screened, scaling):
    """One screened column leaves as many as there are features, where there is an intercept."""
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(5, 3)), rng.normal(size=5)
    kept = np.setdiff1d(np.arange(3 + (scaling > 0.0)), screened)
    both = [
        features_of(LinearProblem.build(each, np.array([1, -1, 1, -1, 1]), 1.0, SquaredHinge(), scaling)).products(s, kept)
        for each in (X, sparse.csr_matrix(X))
    ]
    assert both[0].shape == kept.shape
    assert np.allclose(*both)


def test_a_feature_that_no_active_sample_has_keeps_no_other_feature_from_its_newton_step():
    """Its diagonal of H is zero, and with it there is no Cholesky factor."""
    H = np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]])
    step = QuadraticModel(H, np.ones(3))._solution(np.arange(3), np.array([1.0, 1.0, 3.0]))
    assert np.allclose(step, [0.0, 0.0, 1.0])


def test_the_weight_of_a_feature_that_no_active_sample_has_goes_to_zero():
    H, w = np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([1.0, 0.5])
    step = QuadraticModel(H, np.ones(2)).best_step(w, np.array([-1.0, 0.0]), SparseNewtonPolicy()).d
    assert np.allclose(w + step, [1.0, 0.0])

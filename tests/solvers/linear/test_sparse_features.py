"""The columns that the method for sparse models works on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import SquaredHinge
from maxmargin.solvers.linear.sparse_newton.features import features_of


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

"""The sums of many models are those of each of them, within the errors they state."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin import RBF, Linear, Polynomial
from maxmargin.certificate.many_sums import sums_of_many
from maxmargin.problem.kernels import Points


@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), Polynomial(0.5, 1.0, 3)])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_every_sum_is_within_its_error_of_the_exact_one(kernel, is_sparse):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5)) * (rng.random((700, 5)) < 0.5)
    signed = rng.normal(size=(700, 3)) * np.array([1.0, 1e3, 1e-3])
    signed[:, 0] = 0.0
    sums = sums_of_many(kernel, Points.of(sparse.csr_matrix(X) if is_sparse else X), signed)
    exact = X.astype(np.longdouble)
    dots = exact @ exact.T
    if kernel.is_gaussian:
        squares = np.diagonal(dots)
        values = np.exp(-np.longdouble(kernel.gamma) * (squares[:, None] + squares[None, :] - 2 * dots))
    else:
        values = kernel.polynomial(dots)
    everyone = np.arange(700)
    for k in range(3):
        outputs, errors = sums.of(everyone, k)
        assert np.all(np.abs(outputs - values @ signed[:, k]) <= errors)
        assert np.all(errors <= 1e-9 * np.abs(signed[:, k]).sum() * float(np.abs(values).max()))

"""The pivoted Cholesky factor of the RBF kernel, made from what its values lack of one."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import sparse

from maxmargin import NuSVC
from maxmargin.problem.points import Points
from maxmargin.solvers.kernel.factored import FactorPolicy, factor_of_falls


def table(n=40, seed=0, is_far=False):
    """Order numbers beside a small column. The first sample may be far from all others."""
    rng = np.random.default_rng(seed)
    X = np.c_[1e7 + rng.integers(0, 4000, n), rng.normal(size=(n, 2))]
    X[0, 0] = 1e9 if is_far else X[0, 0]
    return X


def fall(x, z, gamma):
    """1 - k(x, z) to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        square = sum((Decimal(float(a)) - Decimal(float(b))) ** 2 for a, b in zip(x, z, strict=True))
        return 1 - (-Decimal(gamma) * square).exp()


def error_of_squares(X, L, gamma, samples):
    """The greatest error of |L_i - L_j|^2 = 2 - 2 k(x_i, x_j), as a share of the greatest of them."""
    errors, greatest = [], 0.0
    for i in samples:
        for j in samples:
            exact = 2 * fall(X[i], X[j], gamma)
            errors.append(abs(float(Decimal(float(np.square(L[i] - L[j]).sum())) - exact)))
            greatest = max(greatest, float(exact))
    return max(errors) / greatest


@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_differences_of_samples_keep_their_digits_where_all_kernel_values_are_one(made):
    X, gamma = table(), 1e-15
    L = factor_of_falls(gamma, Points.of(made(X)), 40)
    assert L is not None
    assert error_of_squares(X, L, gamma, range(12)) < 1e-13


def test_a_sample_far_from_all_others_does_not_take_their_digits():
    """The origin is not that sample."""
    X, gamma = table(is_far=True), 1e-15
    L = factor_of_falls(gamma, Points.of(X), 40)
    assert L is not None
    assert error_of_squares(X, L, gamma, range(1, 12)) < 1e-9


def test_a_factor_without_long_double_is_right_to_float64():
    X, gamma = table(), 1e-15
    L = factor_of_falls(gamma, Points.of(X), 40, FactorPolicy(work_in_long_double=0))
    assert L is not None
    assert error_of_squares(X, L, gamma, range(12)) < 1e-13


def test_a_matrix_with_more_columns_than_asked_for_has_no_factor():
    assert factor_of_falls(1.0, Points.of(table()), 3) is None


def test_equal_samples_have_a_factor_of_zeros():
    L = factor_of_falls(1.0, Points.of(np.ones((5, 2))), 5)
    assert L is not None
    assert not L.any()


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("seed", [1, 2])
def test_rbf_machines_are_certified_where_all_kernel_values_are_one(nu, seed):
    """The usual gamma of order numbers is 1e-15."""
    X = table(80, seed)
    y = X[:, 1] * X[:, 2] + 0.3 * np.random.default_rng(seed).normal(size=len(X)) > 0.0
    assert NuSVC(nu=nu).fit(X, y).certificate_.meets(1e-3)

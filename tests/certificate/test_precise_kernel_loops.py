"""Kernel sums in twice the precision, against decimal arithmetic of 60 digits, and what they are for: tolerances below the
rounding error of a sum in float64."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin import SVC, KernelProblem, Status, certify_kernel
from maxmargin.certificate.kernel_sums import kernel_sums
from maxmargin.certificate.precise_sums import precise_sums
from maxmargin.problem import policy
from maxmargin.problem.differences import RBFByDifferences
from maxmargin.problem.kernels import RBF, Points, Polynomial
from tests.catalogue import labelled


def exact_output(X: np.ndarray, signed: np.ndarray, gamma: float, i: int) -> Decimal:
    rows = [[Decimal(float(value)) for value in row] for row in X]
    squares = [sum((p - q) ** 2 for p, q in zip(rows[i], row, strict=True)) for row in rows]
    return sum(Decimal(float(s)) * (-Decimal(gamma) * square).exp() for s, square in zip(signed, squares, strict=True))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    scale=st.sampled_from([1e-9, 1.0, 30.0]),
    gamma=st.sampled_from([1e-4, 0.7, 50.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    is_sparse=st.booleans(),
    kernel=st.sampled_from([RBF, RBFByDifferences]),
)
def test_a_sum_is_right_within_the_error_that_it_states(seed, n, scale, gamma, dtype, is_sparse, kernel):
    rng = np.random.default_rng(seed)
    X = (scale * rng.normal(size=(n, 3)) * rng.integers(0, 2, size=(n, 3))).astype(dtype)
    X[n // 2] = X[0]
    signed = 100.0 * rng.normal(size=n)
    points = Points.of(sparse.csr_array(X) if is_sparse else X)
    sums = precise_sums(kernel(gamma), points, np.arange(n), signed, np.arange(n))
    assert sums is not None
    with localcontext() as context:
        context.prec = 60
        wrong_by = [abs(Decimal(float(sums.outputs[i])) - exact_output(X, signed, gamma, i)) for i in range(n)]
    assert all(Decimal(float(error)) >= wrong for error, wrong in zip(sums.errors, wrong_by, strict=True))


def test_little_is_lost_where_terms_cancel():
    """sum_j s_j k(x_j, x_i) of terms near 1e6 that nearly cancel: the error is that of the result."""
    rng = np.random.default_rng(0)
    X, signed = rng.normal(size=(200, 5)), 1e6 * np.where(np.arange(200) % 2 == 0, 1.0, -1.0)
    X[1::2] = X[::2] + 1e-9 * rng.normal(size=(100, 5))
    samples = np.arange(0, 200, 7)
    precise = precise_sums(RBF(0.5), Points.of(X), np.arange(200), signed, samples)
    usual = kernel_sums(RBF(0.5), Points.of(X), np.arange(200), signed)
    assert precise is not None
    assert np.all(precise.errors < 1e-4 * usual.errors[samples])
    with localcontext() as context:
        context.prec = 60
        exact = exact_output(X, signed, 0.5, int(samples[3]))
        assert abs(Decimal(float(precise.outputs[3])) - exact) <= Decimal(float(precise.errors[3]))


@pytest.mark.parametrize("is_sparse", [False, True])
def test_differences_lose_nothing_however_far_from_zero_the_columns_are(is_sparse):
    """Milliseconds since 1970: a dot product in twice the precision would be wrong by 1e-7 in the exponent."""
    rng = np.random.default_rng(1)
    X, signed = np.round(1.6e12 + 5.0 * rng.normal(size=(50, 3))), 1e6 * rng.normal(size=50)
    points = Points.of(sparse.csr_array(X) if is_sparse else X)
    sums = precise_sums(RBFByDifferences(0.1), points, np.arange(50), signed, np.arange(0, 50, 7))
    assert sums is not None
    assert np.all(sums.errors <= 1e-15 * np.abs(sums.outputs) + 1e-12)
    with localcontext() as context:
        context.prec = 80
        for output, error, i in zip(sums.outputs, sums.errors, range(0, 50, 7), strict=True):
            assert abs(Decimal(float(output)) - exact_output(X, signed, 0.1, i)) <= Decimal(float(error))


def test_there_is_none_for_very_many_features():
    X = sparse.csr_array(np.eye(3, policy.KERNEL.dense_features + 1))
    assert precise_sums(RBF(1.0), Points.of(X), np.arange(3), np.ones(3), np.arange(3)) is None


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_tolerance_below_the_rounding_error_of_float64_is_certified(is_sparse):
    """With C = 1000 the gap is known to no better than 1e-11 from sums in float64."""
    X, y = labelled(300, 6, 1.0, 5)
    X = sparse.csr_array(X) if is_sparse else X
    model = SVC(C=1000.0, gamma=0.02, tol=1e-12).fit(X, y)
    problem = KernelProblem.build(X, y, 1000.0, RBF(0.02))
    alpha = np.zeros(300)
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    usual = certify_kernel(problem, alpha).certificate
    sharper = certify_kernel(problem, alpha, tol=1e-12)
    assert not usual.meets(1e-12)
    assert sharper.certificate.meets(1e-12)
    assert sharper.certificate.rounding_error < 0.1 * usual.rounding_error
    assert sharper.kernel_evaluations > 0  # beyond the matrix that is held: some samples were judged again
    assert model.status_ is Status.CERTIFIED
    assert model.certificate_.meets(1e-12)
    assert model.certificate_.primal == pytest.approx(sharper.certificate.primal, rel=1e-12)


@pytest.mark.parametrize("kernel", [RBF(0.5), Polynomial(0.5, 1.0, 2)])
def test_nothing_is_made_sharper_that_needs_no_sharpening_or_cannot_be(kernel):
    X, y = labelled(60, 3, 1.0, 1)
    problem = KernelProblem.build(X, y, 1.0, kernel)
    alpha = np.full(60, 0.5)
    alpha[y == 1] *= (y == -1).sum() / max(1, (y == 1).sum()) if (y == 1).sum() > (y == -1).sum() else 1.0
    loose, tight = certify_kernel(problem, alpha, tol=0.9999), certify_kernel(problem, alpha, tol=1e-15)
    assert loose.certificate == tight.certificate == certify_kernel(problem, alpha).certificate

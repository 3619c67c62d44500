"""The judge of kernel models with support vectors of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin import (
    RBF,
    KernelProblem,
    Linear,
    LinearProblem,
    Polynomial,
    Precomputed,
    Sigmoid,
    certify,
    certify_kernel,
    solve,
)
from maxmargin.certificate.model import KernelModel, certify_model
from maxmargin.problem.losses import Hinge
from tests.catalogue import labelled

KERNELS = {"rbf": RBF(0.3), "linear": Linear(), "poly": Polynomial(0.5, 1.0, 2)}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
offsets = pytest.mark.parametrize("has_offset", [True, False])


def problem_with(kernel, has_offset=True, is_sparse=False):
    X, y = labelled(60, 3, 1.0, 0)
    return KernelProblem.build(sparse.csr_matrix(X) if is_sparse else X, y, 1.0, kernel, has_offset)


@kernels
@offsets
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_model_of_an_alpha_gets_the_certificate_of_that_alpha(kernel, has_offset, is_sparse):
    problem = problem_with(kernel, has_offset, is_sparse)
    alpha = solve(problem, tol=1e-2).alpha
    verdict = certify_kernel(problem, alpha)
    support = np.flatnonzero(alpha)
    model = KernelModel((alpha * problem.y)[support], verdict.b, problem.rows.matrix[support])
    certificate = certify_model(problem, model, alpha)
    for value in ("primal", "dual", "gap", "relative_gap"):
        assert getattr(certificate, value) == pytest.approx(getattr(verdict.certificate, value), rel=1e-9, abs=1e-12)
    assert certificate.n_support == len(support)


@kernels
@offsets
def test_the_gap_is_the_difference_of_the_values_and_never_negative(kernel, has_offset):
    problem = problem_with(kernel, has_offset)
    random = np.random.default_rng(0)
    alpha = solve(problem, tol=1e-3).alpha
    for scale in (0.0, 0.1, 10.0):
        b = random.normal() if has_offset else 0.0
        model = KernelModel(scale * random.normal(size=7), b, random.normal(size=(7, 3)))
        certificate = certify_model(problem, model, alpha)
        assert certificate.gap >= 0.0
        assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, abs=1e-6 * certificate.primal)


def test_with_the_linear_kernel_it_says_what_the_linear_judge_says():
    problem = problem_with(Linear(), has_offset=False)
    X, y = problem.rows.matrix, problem.y
    linear = LinearProblem.build(X, y, 1.0, Hinge())
    alpha = solve(linear, tol=1e-3).alpha
    Z, c = np.random.default_rng(1).normal(size=(4, 3)), np.array([0.3, -0.1, 0.2, 0.5])
    ours, expected = certify_model(problem, KernelModel(c, 0.0, Z), alpha), certify(linear, c @ Z, alpha)
    for value in ("primal", "dual", "gap", "distance_bound"):
        assert getattr(ours, value) == pytest.approx(getattr(expected, value), rel=1e-9)


def test_a_precomputed_model_is_named_by_its_samples():
    points = problem_with(RBF(0.3))
    K = points.gram(np.arange(60), np.arange(60))
    problem = KernelProblem.build(K, points.y, 1.0, Precomputed())
    alpha = solve(problem, tol=1e-3).alpha
    certificate = certify_model(problem, KernelModel(alpha * problem.y, 0.1), alpha)
    expected = certify_model(points, KernelModel(alpha * problem.y, 0.1, points.rows.matrix), alpha)
    assert certificate.gap == pytest.approx(expected.gap, rel=1e-9)


def test_a_kernel_that_is_not_positive_semidefinite_has_no_bound():
    problem = problem_with(Sigmoid(0.1))
    with pytest.raises(ValueError, match="not positive semidefinite"):
        certify_model(problem, KernelModel(np.zeros(60), 0.0), np.zeros(60))


def test_a_model_with_an_offset_is_no_answer_to_a_problem_without_one():
    with pytest.raises(ValueError, match="has no offset"):
        certify_model(problem_with(RBF(0.3), has_offset=False), KernelModel(np.zeros(60), 1.0), np.zeros(60))


@pytest.mark.parametrize("alpha", [np.full(60, 2.0), np.full(60, np.nan)])
def test_an_infeasible_dual_point_proves_nothing(alpha):
    assert certify_model(problem_with(RBF(0.3)), KernelModel(np.zeros(60), 0.0), alpha).gap == np.inf


def test_a_model_that_is_not_finite_is_refused():
    assert certify_model(problem_with(RBF(0.3)), KernelModel(np.full(60, np.nan), 0.0), np.zeros(60)).gap == np.inf

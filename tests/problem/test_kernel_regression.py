"""Kernel regression as losses of ``solve``: exact gaps, both solvers, every kernel, LIBSVM, and tables as they come."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVR as TheirSVR

from benchmarks.datasets import data_folder, load_raw
from maxmargin import solve
from maxmargin.certificate.kernel import certify_kernel
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Linear, Polynomial, Sigmoid
from maxmargin.problem.regression_losses import EpsilonInsensitive, Quantile, SquaredEpsilonInsensitive
from maxmargin.solving.solution import Status

LOSSES = {"tube": EpsilonInsensitive(0.25), "absolute": EpsilonInsensitive(0.0), "quantile": Quantile(0.25)}
losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
offsets = pytest.mark.parametrize("has_offset", [True, False], ids=["offset", "no-offset"])
KERNELS = {"rbf": RBF(0.3), "cubic": Polynomial(0.3, 1.0, 3), "linear": Linear()}


def drawn(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_t(3, size=n)


def exact_loss(loss, residual: Fraction) -> Fraction:
    if isinstance(loss, Quantile):
        return Fraction(loss.q) * residual if residual > 0 else (Fraction(loss.q) - 1) * residual
    return max(Fraction(0), abs(residual) - Fraction(loss.epsilon))


def exact_gap(X, y, C, loss, s, b) -> Fraction:
    """P - D for the kernel (x . z + 1)^2, in rational arithmetic."""
    rows = [[Fraction(float(value)) for value in row] for row in X]
    gram = [[(sum(p * q for p, q in zip(one, other, strict=True)) + 1) ** 2 for other in rows] for one in rows]
    s, t = ([Fraction(float(value)) for value in vector] for vector in (s, y))
    outputs = [sum(a * k for a, k in zip(s, row, strict=True)) for row in gram]
    lost = sum(exact_loss(loss, target - f - Fraction(b)) for target, f in zip(t, outputs, strict=True))
    sqnorm = sum(a * f for a, f in zip(s, outputs, strict=True))
    width = Fraction(getattr(loss, "epsilon", 0.0))
    return sqnorm + Fraction(C) * lost - sum(a * target - width * abs(a) for a, target in zip(s, t, strict=True))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 8),
    loss=st.sampled_from(list(LOSSES.values())),
    has_offset=st.booleans(),
    far=st.sampled_from([0.0, 1e6]),
)
def test_the_gap_equals_rational_arithmetic_within_its_own_rounding_error(seed, n, loss, has_offset, far):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n) + far
    problem = KernelProblem.build(X, y, 0.5, Polynomial(1.0, 1.0, 2), has_offset, loss=loss)
    s = np.clip(0.125 * rng.integers(-4, 5, n), problem.box.L, problem.box.U)
    if has_offset:  # exactly balanced
        s = np.clip(s, -0.125, 0.125)
        s[: n - n % 2 : 2] = -s[1 : n - n % 2 + 1 : 2]
        s[n - n % 2 :] = 0.0
    verdict = certify_kernel(problem, s)
    difference = abs(Fraction(verdict.certificate.gap) - exact_gap(X, y, 0.5, loss, s, verdict.b))
    assert difference <= Fraction(verdict.certificate.rounding_error)


@losses
@offsets
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [90, 1200])
def test_both_solvers_are_certified_and_agree(loss, has_offset, name, n):
    X, y = drawn(n)
    problem = KernelProblem.build(X, y, 0.7, KERNELS[name], has_offset, loss=loss)
    one, other = (solve(problem, solver, tol=1e-6, max_seconds=60.0) for solver in ("auto", "batched-smo"))
    assert one.status is other.status is Status.CERTIFIED
    assert one.certificate.dual <= other.certificate.primal * (1.0 + 1e-12)
    assert other.certificate.dual <= one.certificate.primal * (1.0 + 1e-12)


@losses
def test_a_corrupted_answer_is_refused_or_judged_as_what_it_is(loss):
    X, y = drawn(60)
    problem = KernelProblem.build(X, y, 0.7, RBF(0.3), loss=loss)
    best = solve(problem, tol=1e-9)
    outside = best.alpha.copy()
    outside[0] = 1.01 * problem.box.U[0]
    assert certify_kernel(problem, outside).certificate.gap == np.inf
    assert certify_kernel(problem, -problem.nearest_feasible(-best.alpha[::-1])).certificate.relative_gap > 1e-3
    shifted = certify_kernel(problem, best.alpha, best.b + 0.5).certificate
    assert shifted.relative_gap > 1e-3


def test_the_answer_of_libsvm_is_certified():
    X, y = drawn(300)
    model = TheirSVR(C=2.0, epsilon=0.1, gamma=0.3, tol=1e-8).fit(X, y)
    s = np.zeros(300)
    s[model.support_] = model.dual_coef_[0]
    problem = KernelProblem.build(X, y, 2.0, RBF(0.3), loss=EpsilonInsensitive(0.1))
    verdict = certify_kernel(problem, problem.nearest_feasible(s))
    assert verdict.certificate.relative_gap < 1e-6
    assert verdict.b == pytest.approx(model.intercept_[0], abs=1e-4)


@offsets
def test_a_kernel_that_is_not_positive_semidefinite_ends_stationary(has_offset):
    X, y = drawn(80)
    problem = KernelProblem.build(X, y, 0.1, Sigmoid(0.05, -0.1), has_offset, loss=EpsilonInsensitive(0.1))
    answer = solve(problem, tol=1e-4, max_seconds=20.0)
    assert answer.status is Status.STATIONARY
    assert not answer.certificate.is_proof


def test_a_squared_loss_is_refused():
    X, y = drawn(10)
    with pytest.raises(TypeError, match="piecewise linear"):
        KernelProblem.build(X, y, 1.0, RBF(1.0), loss=SquaredEpsilonInsensitive(0.1))


def test_a_tube_that_holds_all_targets_has_the_answer_zero():
    X, y = drawn(50)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.3), loss=EpsilonInsensitive(float(np.ptp(y))))
    answer = solve(problem, tol=1e-9)
    assert answer.status is Status.CERTIFIED
    assert not answer.alpha.any()


@pytest.mark.skipif(not (data_folder() / "abalone.xz").exists(), reason="the data folder is not there")
@pytest.mark.parametrize("name", ["abalone", "cal_housing"])
@pytest.mark.parametrize("is_quantile", [False, True])
def test_raw_tables_are_certified(name, is_quantile):
    """2,000 rows as they come: house values of a hundred thousand, and columns from fractions to thousands."""
    X, y = load_raw(name)
    chosen = np.random.default_rng(0).permutation(len(y))[:2000]
    X, y = np.ascontiguousarray(X[chosen], dtype=np.float64), y[chosen]
    loss = Quantile(0.9) if is_quantile else EpsilonInsensitive(0.1 * float(y.std()))
    width = 1.0 / (X.shape[1] * float(X.var()))
    for C in (float(y.std()), 100.0 * float(y.std())):
        problem = KernelProblem.build(X, y, C, RBF(width), loss=loss)
        answer = solve(problem, tol=1e-6, max_seconds=60.0)
        assert answer.status is Status.CERTIFIED

"""Kernels, the kernel problem and its judge: against scikit-learn, LIBSVM, the linear certificate and rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from maxmargin.certificate.kernel import certify_kernel
from maxmargin.certificate.linear import certify
from maxmargin.certificate.policy import KernelJudgePolicy
from maxmargin.data.threads import ThreadPolicy
from maxmargin.problem import policy
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Custom, Kernel, Linear, Points, Polynomial, Precomputed, Sigmoid
from maxmargin.problem.linear import LinearProblem
from tests.catalogue import labelled

KERNELS: dict[str, tuple[Kernel, dict[str, object]]] = {
    "linear": (Linear(), {"kernel": "linear"}),
    "rbf": (RBF(0.4), {"kernel": "rbf", "gamma": 0.4}),
    "polynomial": (Polynomial(0.3, 1.0, 3), {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 3}),
    "sigmoid": (Sigmoid(0.05, -0.1), {"kernel": "sigmoid", "gamma": 0.05, "coef0": -0.1}),
}
kernels = pytest.mark.parametrize("name", KERNELS)


@pytest.fixture(autouse=True, params=["held", "streamed"], scope="module")
def _few_or_many(request):
    """Every test twice: with the kernel matrix of few samples held, and as if the samples were too many for that."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "streamed":
            patch.setattr(policy, "HELD", policy.HeldValuesPolicy(most_samples=0))
        yield


def balanced_point(problem: KernelProblem, seed: int) -> np.ndarray:
    """A random alpha in the box, some of it on the bounds, with sum_i alpha_i y_i = 0 if there is an offset."""
    rng = np.random.default_rng(seed)
    alpha = problem.C * np.clip(rng.uniform(-0.4, 1.4, problem.n_samples), 0.0, 1.0)
    if problem.has_offset:
        sums = {sign: alpha[problem.y == sign].sum() for sign in (1, -1)}
        heavier = max(sums, key=sums.__getitem__)
        alpha[problem.y == heavier] *= sums[-heavier] / sums[heavier]
    return alpha


@kernels
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_is_what_scikit_learn_means_by_its_name(name, is_sparse, dtype):
    kernel, parameters = KERNELS[name]
    X = labelled(30, 4, 1.0, 0)[0].astype(dtype)
    points = Points.of(sparse.csr_array(X) if is_sparse else X)
    named = {key: value for key, value in parameters.items() if key != "kernel"}
    expected = pairwise_kernels(X.astype(np.float64), metric=str(parameters["kernel"]), **named)
    assert np.allclose(kernel.block(points, points), expected, rtol=1e-6 if dtype is np.float32 else 1e-12)
    assert np.allclose(kernel.diagonal(points), np.diagonal(expected), rtol=1e-6)


@kernels
@pytest.mark.parametrize("has_offset", [False, True])
def test_the_gap_is_never_negative_and_bounds_the_difference_of_the_values(name, has_offset):
    X, y = labelled(60, 3, 1.0, 1)
    problem = KernelProblem.build(X, y, 0.7, KERNELS[name][0], has_offset)
    for seed in range(20):
        certificate = certify_kernel(problem, balanced_point(problem, seed)).certificate
        if np.isfinite(certificate.gap):
            assert certificate.gap >= 0.0
            slack = certificate.rounding_error + 1e-12 * abs(certificate.primal)
            assert abs(certificate.primal - certificate.dual - certificate.gap) <= slack


@pytest.mark.parametrize("has_offset", [False, True])
def test_the_linear_kernel_is_judged_as_the_linear_problem_is(has_offset):
    X, y = labelled(80, 5, 1.0, 2)
    kernel_problem = KernelProblem.build(X, y, 0.5, Linear(), has_offset)
    linear_problem = LinearProblem.build(X, y, 0.5, None, 1.0 if has_offset else 0.0, penalizes_intercept=False)
    for seed in range(5):
        alpha = balanced_point(kernel_problem, seed)
        verdict = certify_kernel(kernel_problem, alpha)
        w = (alpha * y) @ X
        linear = certify(linear_problem, np.append(w, verdict.b) if has_offset else w, alpha)
        assert verdict.certificate.gap == pytest.approx(linear.gap, rel=1e-9)
        assert verdict.certificate.primal == pytest.approx(linear.primal, rel=1e-12)


@pytest.mark.parametrize("name", ["linear", "rbf", "polynomial"])
def test_the_answer_of_libsvm_is_certified_with_its_own_offset_and_with_the_best(name):
    kernel, parameters = KERNELS[name]
    X, y = labelled(200, 4, 1.0, 3)
    model = SVC(C=2.0, tol=1e-8, **parameters).fit(X, y)
    alpha = np.zeros(200)
    alpha[model.support_] = np.minimum(np.abs(model.dual_coef_[0]), 2.0)
    problem = KernelProblem.build(X, y, 2.0, kernel)
    best, own = certify_kernel(problem, alpha), certify_kernel(problem, alpha, float(model.intercept_[0]))
    assert best.certificate.relative_gap < 1e-6
    assert best.certificate.primal <= own.certificate.primal * (1 + 1e-14)
    assert best.b == pytest.approx(model.intercept_[0], abs=1e-4)
    assert np.allclose(best.outputs + model.intercept_, model.decision_function(X), atol=1e-8)


def exact_gap(X: np.ndarray, y: np.ndarray, C: float, alpha: np.ndarray, b: float) -> Fraction:
    """P - D for the kernel (x . z + 1)^2, in rational arithmetic."""
    fractions = [[Fraction(float(value)) for value in row] for row in X]
    gram = [[(sum(p * q for p, q in zip(one, other, strict=True)) + 1) ** 2 for other in fractions] for one in fractions]
    signed = [Fraction(float(a)) * int(sign) for a, sign in zip(alpha, y, strict=True)]
    outputs = [sum(s * k for s, k in zip(signed, row, strict=True)) for row in gram]
    sqnorm = sum(s * f for s, f in zip(signed, outputs, strict=True))
    hinge = sum(max(Fraction(0), 1 - int(sign) * (f + Fraction(b))) for sign, f in zip(y, outputs, strict=True))
    return sqnorm + Fraction(C) * hinge - sum(Fraction(float(a)) for a in alpha)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 9), scale=st.sampled_from([1e-6, 1.0, 1e3]), has_offset=st.booleans())
def test_the_gap_equals_rational_arithmetic_within_its_own_rounding_error(seed, n, scale, has_offset):
    rng = np.random.default_rng(seed)
    X, y = scale * rng.normal(size=(n, 2)), np.where(np.arange(n) % 2 == 0, 1, -1)
    problem = KernelProblem.build(X, y, 0.5, Polynomial(1.0, 1.0, 2), has_offset)
    alpha = 0.125 * rng.integers(0, 5, n)
    if has_offset:
        alpha[: n - n % 2] = np.repeat(alpha[: n - n % 2 : 2], 2)  # exactly balanced
        alpha[n - n % 2 :] = 0.0
    verdict = certify_kernel(problem, alpha)
    difference = abs(Fraction(verdict.certificate.gap) - exact_gap(X, y, 0.5, alpha, verdict.b))
    assert difference <= Fraction(verdict.certificate.rounding_error)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 25), ties=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_best_offset_is_no_worse_than_any_kink(seed, n, ties):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 2)), np.where(np.arange(n) % 3 == 0, 1, -1)
    C = rng.exponential(size=n)
    C[1::4] = 0.0
    problem = KernelProblem.build(X, y, C, RBF(1.0))
    outputs = rng.integers(-2, 3, n).astype(float) if ties else rng.normal(size=n)

    def loss(b: float) -> float:
        return float(problem.C @ np.maximum(0.0, 1.0 - y * (outputs + b)))

    assert loss(problem.best_offset(outputs)) <= min(loss(b) for b in y - outputs) * (1 + 1e-12) + 1e-300


def test_an_unbalanced_alpha_is_charged_for_it():
    X, y = labelled(40, 3, 1.0, 4)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5))
    alpha = balanced_point(problem, 0)
    gaps = []
    for excess in (0.0, 1e-6, 1e-3):
        unbalanced = alpha.copy()
        unbalanced[np.argmax(y > 0)] = min(1.0, unbalanced[np.argmax(y > 0)] * (1.0 - excess))
        certificate = certify_kernel(problem, unbalanced, 0.3).certificate
        gaps.append(certificate.gap)
        assert certificate.primal - certificate.dual <= certificate.gap + certificate.rounding_error + 1e-9
    assert gaps[0] < gaps[1] < gaps[2]


def test_precomputed_and_custom_kernels_are_judged_as_the_kernel_they_hold():
    X, y = labelled(50, 3, 1.0, 5)
    gram = RBF(0.4).block(Points.of(X), Points.of(X))
    alpha = balanced_point(KernelProblem.build(X, y, 1.0, RBF(0.4)), 0)
    expected = certify_kernel(KernelProblem.build(X, y, 1.0, RBF(0.4)), alpha)
    custom = Custom(lambda A, B: pairwise_kernels(A, B, metric="rbf", gamma=0.4))
    for matrix, kernel in ((gram, Precomputed()), (sparse.csr_array(gram), Precomputed()), (X, custom)):
        verdict = certify_kernel(KernelProblem.build(matrix, y, 1.0, kernel), alpha)
        assert verdict.certificate.gap == pytest.approx(expected.certificate.gap, rel=1e-9)
        assert verdict.b == pytest.approx(expected.b, abs=1e-9)


def test_threads_and_tiles_do_not_change_the_verdict(monkeypatch):
    X, y = labelled(300, 4, 1.0, 6)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5))
    alpha = balanced_point(problem, 0)
    once = certify_kernel(problem, alpha).certificate
    monkeypatch.setattr("maxmargin.data.threads.POLICY", ThreadPolicy(elements_a_thread=1))
    monkeypatch.setattr("maxmargin.data.threads.available_cores", lambda: 3)
    small = KernelJudgePolicy(samples_a_task=90, samples_a_tile=37, vectors_a_tile=11)
    monkeypatch.setattr("maxmargin.certificate.policy.KERNEL", small)
    tiled = certify_kernel(problem, alpha).certificate
    assert abs(once.gap - tiled.gap) <= once.rounding_error + tiled.rounding_error


def test_an_alpha_outside_its_box_or_not_finite_is_refused():
    X, y = labelled(20, 3, 1.0, 7)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5))
    for wrong in (1.5, -0.1, np.nan):
        alpha = np.zeros(20)
        alpha[3] = wrong
        assert certify_kernel(problem, alpha).certificate.gap == np.inf


def test_bad_kernels_are_refused_with_a_sentence_that_names_the_value():
    X, y = labelled(10, 3, 1.0, 8)
    with pytest.raises(ValueError, match=r"gamma must be positive and finite; got -1"):
        RBF(-1.0)
    with pytest.raises(ValueError, match=r"gamma must be positive and finite; got 0"):
        Polynomial(0.0)
    with pytest.raises(ValueError, match=r"degree must be a whole number >= 0; got 2.5"):
        Polynomial(1.0, 0.0, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"coef0 must be finite; got nan"):
        Sigmoid(1.0, float("nan"))
    with pytest.raises(TypeError, match=r"kernel object such as RBF\(gamma=1.0\)"):
        KernelProblem.build(X, y, 1.0, RBF)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"square matrix.*\(10, 3\)"):
        KernelProblem.build(X, y, 1.0, Precomputed())
    with pytest.raises(ValueError, match=r"symmetric; K\[0, 1\] is 1 and K\[1, 0\] is 0"):
        KernelProblem.build(np.triu(np.ones((10, 10))), y, 1.0, Precomputed())
    wrong_shape = KernelProblem.build(X, y, 1.0, Custom(lambda A, B: np.ones((2, 2))))
    with pytest.raises(ValueError, match=r"returned shape \(2, 2\) for 10 and 10 rows"):
        certify_kernel(wrong_shape, np.full(10, 0.5))
    not_finite = KernelProblem.build(X, y, 1.0, Custom(lambda A, B: np.full((len(A), len(B)), np.nan)))
    with pytest.raises(ValueError, match="not finite"):
        certify_kernel(not_finite, balanced_point(not_finite, 0))


@pytest.mark.parametrize("has_offset", [False, True])
def test_a_w_of_zero_is_proved_although_rounding_makes_its_square_negative(has_offset):
    """Every row twice, with both labels and alpha = C: w is zero, and what is computed of |w|^2 is rounding of either sign. An
    alpha at its bound adds nothing to the rounding error of the gap."""
    rng, signs = np.random.default_rng(0), set()
    for _ in range(30):
        rows = rng.normal(5e4, 2e4, (12, 4))
        order = rng.permutation(24)
        X, y = np.vstack([rows, rows])[order], np.repeat([1, -1], 12)[order]
        problem = KernelProblem.build(X, y, 1e-3, Linear(), has_offset)
        certificate = certify_kernel(problem, problem.C.copy()).certificate
        signs.add(float(np.sign(24e-3 - certificate.dual)))
        assert certificate.is_proof
        assert np.isfinite(certificate.distance_bound)
    assert -1.0 in signs

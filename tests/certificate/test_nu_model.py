"""Models with nu as they are, judged with any dual point: the gap against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maxmargin.certificate.model import KernelModel
from maxmargin.certificate.nu import certify_nu
from maxmargin.certificate.nu_model import certify_nu_model, completed
from maxmargin.problem.kernels import RBF, Linear, Sigmoid
from maxmargin.problem.nu import NuProblem, nu_svc, nu_svr, one_class
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import solve

KINDS = ("one class", "nu-SVC", "nu-SVR")
kinds = pytest.mark.parametrize("kind", KINDS)
seeds = pytest.mark.parametrize("seed", range(8))


def drawn(kind: str, seed: int, kernel=None) -> NuProblem:
    """Numbers that are few halves, so that rationals stay short, and weights."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 20))
    X, weights = rng.integers(-4, 9, size=(n, 3)) / 2.0, rng.integers(1, 5, size=n) / 2.0
    y = np.where(np.arange(n) % 2 == 0, 1, -1)
    kernel = kernel or Linear()
    if kind == "one class":
        return one_class(X, kernel, 0.25, weights)
    if kind == "nu-SVC":
        return nu_svc(X, y, kernel, 0.25, weights)
    return nu_svr(X, rng.integers(-8, 8, size=n) / 4.0, kernel, 0.25, weights)


def some_model(problem: NuProblem, seed: int) -> KernelModel:
    """Support vectors that are no samples."""
    rng = np.random.default_rng(100 + seed)
    vectors = rng.normal(size=(4, problem.rows.n_features))
    return KernelModel(rng.normal(size=4) / 8.0, float(rng.normal()), vectors)


def exact_gap(problem: NuProblem, model: KernelModel, alpha: np.ndarray, point) -> Fraction:
    """P(scale w, thresholds) - D(alpha) by their definitions, for the linear kernel; alpha has the right sums but for
    rounding, which the last line puts into the price of the thresholds as the certificate does."""

    def exact(array):
        return [Fraction(float(value)) for value in np.ravel(array)]

    def dot(a, b):
        return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))

    X = [exact(row) for row in problem.rows.matrix]
    n, scale = len(X), Fraction(float(point.scale))
    vectors, coefficients = [exact(row) for row in model.vectors], exact(model.coefficients)
    w = [scale * sum(c * v[j] for c, v in zip(coefficients, vectors, strict=True)) for j in range(len(X[0]))]
    signs, targets, costs, dual = (exact(each) for each in (problem.signs, problem.targets, problem.C, alpha))
    thetas, totals = exact(point.thresholds), exact(problem.totals)
    outputs = [dot(w, X[k % n]) for k in range(len(signs))]
    h = [thetas[int(problem.group[k])] + signs[k] * targets[k] - signs[k] * outputs[k] for k in range(len(signs))]
    primal = dot(w, w) / 2 + dot(costs, [max(Fraction(0), each) for each in h]) - dot(totals, thetas)
    w_dual = [sum(dual[k] * signs[k] * X[k % n][j] for k in range(len(signs))) for j in range(len(X[0]))]
    sums = [sum((dual[int(k)] for k in members), Fraction(0)) for members in problem.members]
    excess = [a - b for a, b in zip(sums, totals, strict=True)]
    return (
        primal
        - (dot([s * t for s, t in zip(signs, targets, strict=True)], dual) - dot(w_dual, w_dual) / 2)
        - dot(excess, thetas)
    )


@kinds
@seeds
def test_the_gap_of_any_model_is_that_of_rational_arithmetic(kind, seed):
    problem = drawn(kind, seed)
    model, rng = some_model(problem, seed), np.random.default_rng(seed)
    alpha = problem.nearest_feasible(problem.C * rng.random(problem.n_samples))
    certificate = certify_nu_model(problem, model, alpha)
    w = model.coefficients @ model.vectors
    point = completed(problem, problem.rows.matrix @ w, float(w @ w), model.b)
    truth = exact_gap(problem, model, alpha, point)
    assert truth >= 0
    assert abs(float(truth) - certificate.gap) <= certificate.rounding_error + 1e-13 * certificate.gap
    assert certificate.rounding_error <= 1e-9 * max(1.0, certificate.gap)


@kinds
@pytest.mark.parametrize("kernel", [Linear(), RBF(0.5)], ids=["linear", "rbf"])
def test_the_optimum_is_judged_as_its_own_dual_point_judges_it(kind, kernel):
    problem = drawn(kind, 3, kernel)
    alpha = solve(problem, NuSMO(), tol=1e-10).alpha
    verdict = certify_nu(problem, alpha)
    scale = 0.5 * verdict.thresholds.sum() if kind == "nu-SVC" else 1.0
    model = KernelModel(problem.coefficients(alpha) / scale, verdict.b / scale)
    certificate = certify_nu_model(problem, model, alpha)
    assert certificate.primal <= verdict.certificate.primal + 1e-9 * abs(verdict.certificate.primal)
    assert certificate.relative_gap <= 1e-8


@kinds
def test_what_the_file_does_not_say_is_chosen_best(kind):
    problem = drawn(kind, 5)
    model = some_model(problem, 5)
    w = model.coefficients @ model.vectors
    outputs = problem.rows.matrix @ w
    best = completed(problem, outputs, float(w @ w), model.b)

    def primal(scale, thresholds):
        h = np.asarray(thresholds)[problem.group] - problem.kinks(problem.of_variables(scale * outputs))
        return 0.5 * scale**2 * (w @ w) + problem.C @ np.maximum(0.0, h) - problem.totals @ thresholds

    least = primal(*best)
    if kind == "nu-SVC":
        others = [
            (r, np.array([r * (1.0 - model.b), r * (1.0 + model.b)])) for r in np.linspace(0.0, 3.0 * best.scale + 1.0, 50)
        ]
    elif kind == "nu-SVR":
        others = [(1.0, np.array([-(model.b + e), model.b - e])) for e in np.linspace(0.0, 20.0, 100)]
    else:
        others = [(1.0, np.array([-model.b]))]
    assert all(primal(*other) >= least - 1e-9 * abs(least) for other in others)


@kinds
def test_a_dual_point_outside_its_box_proves_nothing(kind):
    problem = drawn(kind, 1)
    alpha = problem.first_point + 10.0
    assert not np.isfinite(certify_nu_model(problem, some_model(problem, 1), alpha).gap)


def test_a_kernel_that_is_not_positive_semidefinite_is_refused():
    problem = drawn("one class", 1, Sigmoid(1.0, 0.0))
    with pytest.raises(ValueError, match="not positive semidefinite"):
        certify_nu_model(problem, some_model(problem, 1), problem.first_point)

"""Regression as losses of ``solve``: exact gaps, weak duality, every solver, and LIBLINEAR."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from maxmargin import certify, solve
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.problem.regression_losses import EpsilonInsensitive, Quantile, SquaredEpsilonInsensitive
from maxmargin.solving.solution import Status

LOSSES = {
    "epsilon-insensitive": EpsilonInsensitive(0.3),
    "absolute": EpsilonInsensitive(0.0),
    "squared": SquaredEpsilonInsensitive(0.3),
    "least-squares": SquaredEpsilonInsensitive(0.0),
    "quantile": Quantile(0.2),
}
losses = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
intercepts = pytest.mark.parametrize(
    "intercept", [(0.0, True), (1.5, True), (1.5, False)], ids=["no-intercept", "penalised", "free"]
)


def drawn(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points, and a linear function of them with noise whose tails are long."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + 0.7 + 0.5 * rng.standard_t(2, size=n)


def made(loss, intercept=(1.0, True), n=40, d=4, C=1.0, seed=0, is_sparse=False) -> LinearProblem:
    X, y = drawn(n, d, seed)
    if is_sparse:
        X[np.random.default_rng(seed).random(X.shape) < 0.6] = 0.0
        X = sparse.csr_array(X)
    return LinearProblem.build(X, y, C, loss, *intercept)


def exact_loss(loss, residual: Fraction) -> Fraction:
    if isinstance(loss, Quantile):
        q = Fraction(loss.q)
        return q * residual if residual > 0 else (q - 1) * residual
    beyond = max(Fraction(0), abs(residual) - Fraction(loss.epsilon))
    return beyond**2 if isinstance(loss, SquaredEpsilonInsensitive) else beyond


def exact_gap(problem: LinearProblem, w: np.ndarray, alpha: np.ndarray) -> Fraction:
    """P(w) - D(alpha) in rational arithmetic; with a free intercept the heavier sign of alpha is scaled down first."""
    X = problem.rows.matrix.toarray() if problem.rows.is_sparse else problem.rows.matrix
    rows = [[Fraction(float(value)) for value in row] for row in X]
    if problem.intercept_scaling:
        rows = [[*row, Fraction(problem.intercept_scaling)] for row in rows]
    w, alpha = ([Fraction(float(value)) for value in vector] for vector in (w, alpha))
    if not problem.penalizes_intercept and (excess := sum(alpha)) != 0:
        heavier = sum(a for a in alpha if a * excess > 0)
        alpha = [a * (1 - excess / heavier) if a * excess > 0 else a for a in alpha]
    loss, epsilon = problem.loss, Fraction(getattr(problem.loss, "epsilon", 0.0))
    primal = sum(value * value for value in w[: problem.n_penalised]) / 2
    dual, sums = Fraction(0), [Fraction(0)] * len(w)
    for row, target, C, a in zip(rows, problem.y, problem.C, alpha, strict=True):
        t, C = Fraction(float(target)), Fraction(float(C))
        primal += C * exact_loss(loss, t - sum(x * value for x, value in zip(row, w, strict=True)))
        dual += t * a - epsilon * abs(a) - (a * a / (4 * C) if isinstance(loss, SquaredEpsilonInsensitive) else 0)
        sums = [total + a * x for total, x in zip(sums, row, strict=True)]
    return primal - dual + sum(value * value for value in sums[: problem.n_penalised]) / 2


def feasible_point(problem: LinearProblem, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    low, high = np.maximum(problem.box.L, -3.0), np.minimum(problem.box.U, 3.0)
    alpha = low + (high - low) * rng.choice([0.0, 0.3, 0.5, 1.0], size=problem.n_samples)
    return rng.normal(size=problem.n_weights), alpha if problem.penalizes_intercept else problem.balanced(alpha)


@losses
@intercepts
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_gap_equals_rational_arithmetic_within_its_own_rounding_bound(loss, intercept, is_sparse):
    problem = made(loss, intercept, is_sparse=is_sparse)
    for seed in range(3):
        w, alpha = feasible_point(problem, seed)
        certificate, exact = certify(problem, w, alpha), exact_gap(problem, w, alpha)
        assert exact > 0
        # With a free intercept what is charged for rounding in sum_i alpha_i may exceed what it costs.
        assert Fraction(certificate.gap) - exact >= -Fraction(certificate.rounding_error)
        assert Fraction(certificate.gap) - exact <= Fraction(certificate.rounding_error) + Fraction(1e-12) * exact


@losses
@intercepts
def test_gap_near_the_optimum_equals_rational_arithmetic_too(loss, intercept):
    problem = made(loss, intercept)
    solution = solve(problem, "newton", tol=1e-9)
    assert solution.status is Status.CERTIFIED
    exact = exact_gap(problem, solution.w, solution.alpha)
    assert 0 <= exact <= Fraction(solution.certificate.gap) + Fraction(solution.certificate.rounding_error)


@losses
@intercepts
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_all_solvers_agree_within_their_certified_distances(loss, intercept, C):
    problem = made(loss, intercept, n=60, C=C)
    names = ["newton", "auto"] + (["dcd", "avsf"] if problem.penalizes_intercept else [])
    solutions = [solve(problem, name, tol=1e-6, max_epochs=200_000) for name in names]
    assert all(solution.status is Status.CERTIFIED for solution in solutions)
    for one in solutions:
        for other in solutions:
            apart = np.linalg.norm((one.w - other.w)[: problem.n_penalised])
            assert apart <= one.certificate.distance_bound + other.certificate.distance_bound


@losses
def test_an_answer_that_was_tampered_with_is_refused(loss):
    problem = made(loss)
    solution = solve(problem, tol=1e-8)
    outside = solution.alpha.copy()
    if np.isfinite(problem.box.U).all():
        outside[0] = 2.0 * problem.box.U[0]
        assert certify(problem, solution.w, outside).gap == np.inf
    assert not certify(problem, 1.01 * solution.w, solution.alpha).meets(1e-6)
    assert not certify(problem, solution.w, 0.9 * solution.alpha).meets(1e-6)


@losses
@pytest.mark.parametrize("solver", ["dcd", "avsf", "newton"])
def test_a_sample_of_weight_two_is_two_samples(loss, solver):
    X, y = drawn(30, 3, 1)
    weights = np.ones(30)
    weights[:7] = 2.0
    one = solve(LinearProblem.build(X, y, weights, loss, 1.0), solver, tol=1e-9, max_epochs=200_000)
    repeated = LinearProblem.build(np.concatenate([X, X[:7]]), np.concatenate([y, y[:7]]), 1.0, loss, 1.0)
    other = solve(repeated, solver, tol=1e-9, max_epochs=200_000)
    apart = np.linalg.norm(one.w - other.w)
    assert apart <= one.certificate.distance_bound + other.certificate.distance_bound


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
@pytest.mark.parametrize("kind", [11, 13])
def test_the_optimum_is_that_of_liblinear(epsilon, kind):
    from liblinear.liblinearutil import train

    X, y = drawn(80, 5, 3)
    loss = EpsilonInsensitive(epsilon) if kind == 13 else SquaredEpsilonInsensitive(epsilon)
    problem = LinearProblem.build(X, y, 0.05, loss, 1.0)  # at a larger C -s 13 stops early, after 300 iterations
    model = train(y, X, f"-s {kind} -c 0.05 -p {epsilon} -e 1e-7 -B 1 -q")
    theirs = np.array([model.w[j] for j in range(6)])
    ours = solve(problem, tol=1e-9)
    assert certify(problem, theirs, ours.alpha).relative_gap < 1e-6
    assert ours.certificate.primal <= problem.primal(theirs) * (1.0 + 1e-9)


def test_half_the_absolute_loss_is_the_median_quantile():
    X, y = drawn(50, 3, 4)
    absolute = solve(LinearProblem.build(X, y, 1.0, EpsilonInsensitive(0.0), 1.0, False), tol=1e-9)
    median = solve(LinearProblem.build(X, y, 2.0, Quantile(0.5), 1.0, False), tol=1e-9)
    assert median.certificate.primal == pytest.approx(absolute.certificate.primal, rel=1e-8)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.8])
def test_a_share_of_the_targets_is_below_a_quantile_with_a_free_intercept(q):
    X, y = drawn(200, 3, 5)
    problem = LinearProblem.build(X, y, 10.0, Quantile(q), 1.0, False)
    outputs = problem.margins(solve(problem, tol=1e-9).w)
    assert np.mean(y < outputs - 1e-9) <= q <= np.mean(y <= outputs + 1e-9)


def test_a_wide_tube_leaves_every_weight_at_zero():
    X, y = drawn(50, 3, 6)
    solution = solve(LinearProblem.build(X, y, 1.0, EpsilonInsensitive(100.0), 1.0), tol=1e-9)
    assert solution.status is Status.CERTIFIED
    assert not solution.w.any()
    assert not solution.alpha.any()


def test_bad_settings_and_targets_are_named():
    X, y = drawn(10, 2, 7)
    with pytest.raises(ValueError, match=r"epsilon must be finite and not negative; got -1"):
        EpsilonInsensitive(-1)
    with pytest.raises(ValueError, match=r"greater than 0 and less than 1; got 1.0"):
        Quantile(1.0)
    y[3] = np.nan
    with pytest.raises(ValueError, match=r"y\[3\] is nan"):
        LinearProblem.build(X, y, 1.0, EpsilonInsensitive())
    with pytest.raises(ValueError, match=r"labels of a binary problem"):
        LinearProblem.build(X, np.arange(10.0), 1.0, Hinge())


@losses
@pytest.mark.parametrize("shift", [1e6, -3e7])
def test_with_a_free_intercept_targets_far_from_zero_are_as_good_as_near_ones(loss, shift):
    """Their sum with alpha cancels, and neither the solver nor the certificate may lose the gap in it."""
    X, y = drawn(60, 3, 8)
    far = LinearProblem.build(X, np.round(y * 256.0) / 256.0 + shift, 1.0, loss, 1.0, False)
    near = LinearProblem.build(X, far.y - shift, 1.0, loss, 1.0, False)
    one, other = solve(far, tol=1e-6), solve(near, tol=1e-6)
    assert one.status is other.status is Status.CERTIFIED
    assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-6)
    exact = exact_gap(far, one.w, one.alpha)
    assert 0 <= exact <= Fraction(one.certificate.gap) + Fraction(one.certificate.rounding_error)


@losses
@pytest.mark.parametrize("intercept", [(1.0, True), (1.0, False)], ids=["penalised", "free"])
def test_scaling_the_targets_scales_the_answer(loss, intercept):
    from maxmargin.solvers.scaled_targets import ScaledTargets

    problem = made(loss, intercept, C=3.0)
    problem = LinearProblem.build(problem.rows, 1e5 * problem.y + 3e5, problem.C, loss, *intercept)
    scaled = ScaledTargets.of(problem)
    solution = solve(scaled.problem, "newton", tol=1e-9)
    w, alpha = scaled.expand(solution.w, solution.alpha)
    certificate = certify(problem, w, alpha)
    assert certificate.relative_gap < 2e-9
    assert certificate.primal == pytest.approx(scaled.size**2 * solution.certificate.primal, rel=1e-9)
    np.testing.assert_allclose(scaled.reduce(alpha), solution.alpha, rtol=1e-12)

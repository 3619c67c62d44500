"""The judge, against exact rational arithmetic, weak duality, and answers that have been tampered with."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.certificate.linear import certify
from maxmargin.certificate.linear_loops import judge_csr_rows, judge_dense_rows
from maxmargin.certificate.linear_sums import JudgedPair, RowSums
from maxmargin.certificate.policy import LinearJudgePolicy, WeightBoundsPolicy
from maxmargin.certificate.rounding import gamma
from maxmargin.data.rows import Rows
from maxmargin.data.threads import ThreadPolicy
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, LeastSquares, SquaredHinge
from maxmargin.problem.regression_losses import EpsilonInsensitive, Quantile, SquaredEpsilonInsensitive
from maxmargin.solving.driver import solve
from tests.catalogue import LOSSES, PROBLEMS, feasible_point, labelled
from tests.raw_catalogue import table


@pytest.fixture(scope="module", autouse=True, params=[LinearJudgePolicy().many_rows, 1], ids=["numpy", "compiled"])
def many_rows(request):
    """Every statement holds for both passes over the margins, that in NumPy and the compiled one. It is about P(w) - D(alpha).
    (Intervals of single weights, which make the gap smaller, have tests of their own.)"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("maxmargin.certificate.policy.LINEAR", LinearJudgePolicy(many_rows=request.param))
        patch.setattr("maxmargin.certificate.policy.WEIGHTS", WeightBoundsPolicy(most_weights=0))
        yield request.param


problems = pytest.mark.parametrize("problem_name", PROBLEMS)
losses = pytest.mark.parametrize("loss_name", LOSSES)


def exact_gap(problem: LinearProblem, w: np.ndarray, alpha: np.ndarray) -> Fraction:
    """P(w) - D(alpha) in rational arithmetic from the same floating-point numbers. With an intercept without penalty alpha is
    balanced first, as exactly: the class with the greater sum is scaled down."""
    X = problem.rows.matrix.toarray() if problem.rows.is_sparse else problem.rows.matrix
    rows = [[Fraction(float(value)) for value in row] for row in X]
    if problem.intercept_scaling:
        rows = [[*row, Fraction(problem.intercept_scaling)] for row in rows]
    w, alpha = ([Fraction(float(value)) for value in vector] for vector in (w, alpha))
    if not problem.penalizes_intercept:
        alpha = exactly_balanced(alpha, problem.y)
    primal = sum(value * value for value in w[: problem.n_penalised]) / 2
    dual = Fraction(0)
    w_of_alpha = [Fraction(0)] * len(w)
    for row, sign, C, a in zip(rows, problem.y, problem.C, alpha, strict=True):
        y, C = int(sign), Fraction(float(C))
        slack = 1 - y * sum(x * value for x, value in zip(row, w, strict=True))
        if isinstance(problem.loss, Hinge):
            primal, dual = primal + C * max(0, slack), dual + a
        else:
            loss = slack**2 if isinstance(problem.loss, LeastSquares) else max(0, slack) ** 2
            primal, dual = primal + C * loss, dual + a - (a * a / (4 * C) if C else 0)
        w_of_alpha = [total + a * y * x for total, x in zip(w_of_alpha, row, strict=True)]
    return primal - dual + sum(value * value for value in w_of_alpha[: problem.n_penalised]) / 2


def exactly_balanced(alpha: list[Fraction], y: np.ndarray) -> list[Fraction]:
    """alpha with sum_i alpha_i y_i = 0."""
    excess = sum(a * int(sign) for a, sign in zip(alpha, y, strict=True))
    if excess == 0:
        return alpha
    heavier = [int(sign) * excess > 0 for sign in y]
    total = sum(a for a, is_heavy in zip(alpha, heavier, strict=True) if is_heavy)
    return [a * (1 - abs(excess) / total) if is_heavy else a for a, is_heavy in zip(alpha, heavier, strict=True)]


@problems
@losses
@pytest.mark.parametrize("seed", range(2))
def test_gap_equals_rational_arithmetic_within_its_own_rounding_bound(problem_name, loss_name, seed):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    w, alpha = feasible_point(problem, seed)
    certificate = certify(problem, w, alpha)
    error = abs(Fraction(certificate.gap) - exact_gap(problem, w, alpha))
    assert error <= Fraction(certificate.rounding_error)
    assert certificate.rounding_error <= 1e-9 * certificate.gap


@problems
@losses
def test_gap_near_the_optimum_equals_rational_arithmetic_too(problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    solution = solve(problem, tol=1e-9, max_epochs=20_000)
    certificate = solution.certificate
    exact = exact_gap(problem, solution.w, solution.alpha)
    assert exact >= 0
    assert abs(Fraction(certificate.gap) - exact) <= Fraction(certificate.rounding_error)


RAW = ("unix-times", "milliseconds", "mixed-scales-off-centre", "collinear", "salaries")


@pytest.mark.parametrize("name", RAW)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("penalizes_intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_on_columns_as_they_come_a_precise_pass_agrees_with_rational_arithmetic(name, layout, penalizes_intercept, loss):
    """With a free intercept the gap is charged for the imbalance of alpha: it is at least the exact one."""
    X, y = table(name, 40)
    problem = LinearProblem.build(layout(X), np.where(y > 0, 1, -1), 1e4, loss, 1.0, penalizes_intercept)
    solution = solve(problem, tol=1e-4)
    certificate = certify(problem, solution.w, solution.alpha)
    error = Fraction(certificate.gap) - exact_gap(problem, solution.w, solution.alpha)
    assert error >= -Fraction(certificate.rounding_error)
    assert certificate.rounding_error <= 1e-6 * certificate.scale
    assert certificate.dual <= certificate.primal + 1e-12 * certificate.scale
    if penalizes_intercept:
        assert error <= Fraction(certificate.rounding_error)
        assert certificate.primal - certificate.dual == pytest.approx(certificate.gap, abs=1e-7 * certificate.scale)


@problems
@losses
def test_gap_is_primal_minus_dual_and_never_negative(problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    for seed in range(5):
        w, alpha = feasible_point(problem, seed)
        certificate = certify(problem, w, alpha)
        assert certificate.gap >= 0.0
        # float32 data makes problem.margins and problem.weights round in NumPy's own way
        assert certificate.primal == pytest.approx(problem.primal(w), rel=1e-6)
        assert certificate.dual == pytest.approx(problem.dual(alpha), rel=1e-6, abs=1e-6)
        assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, rel=1e-9)
        assert certificate.relative_gap == certificate.gap / max(abs(certificate.primal), abs(certificate.dual))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("loss", [EpsilonInsensitive(0.1), SquaredEpsilonInsensitive(0.1)], ids=repr)
def test_a_gap_is_not_small_beside_a_dual_value_that_targets_far_from_zero_have_spoilt(loss, sign):
    random = np.random.default_rng(0)
    X, targets = random.standard_normal((20, 2)), 1e12 + random.standard_normal(20)
    problem = LinearProblem.build(X, targets, 1.0, loss, 1.0, penalizes_intercept=False)
    w, alpha = np.array([0.3, -5.0, 1e12 + 3.0]), sign * random.uniform(0.0, 0.1, 20)
    for scale in (1.0, 1e-3, 1e-6, 1e-9):
        found = certify(problem, w, scale * alpha)
        assert found.gap > 0.9 * found.primal
        assert not found.meets(0.5)
        assert found.dual == pytest.approx(found.primal - found.gap, abs=2.0 * found.rounding_error)


@pytest.mark.parametrize("loss", [EpsilonInsensitive(0.125), Quantile(0.25)], ids=repr)
def test_the_primal_value_of_a_regression_is_known_within_the_rounding_error(loss):
    """Where every alpha is at its bound, the gap does not depend on the residuals, and the primal value does."""
    random = np.random.default_rng(0)
    is_above = np.arange(20) < (15 if isinstance(loss, Quantile) else 10)
    X, targets = random.standard_normal((20, 2)), 1e13 + np.where(is_above, 1.0, -1.0) * random.uniform(0.5, 2.0, 20)
    problem = LinearProblem.build(X, targets, 2.0**-10, loss, 1.0, penalizes_intercept=False)
    alpha = np.where(is_above, problem.box.U, problem.box.L)
    w = np.append(problem.weights(alpha)[:2], 1e13)
    found, pieces = certify(problem, w, alpha), loss.residual_pieces()
    exact = sum(Fraction(value) ** 2 for value in w[:2].tolist()) / 2
    for x, target, C in zip(X.tolist(), targets.tolist(), problem.C.tolist(), strict=True):
        residual = Fraction(target) - sum(Fraction(a) * Fraction(b) for a, b in zip([*x, 1.0], w.tolist(), strict=True))
        size = Fraction(pieces.up if residual > 0 else pieces.down) * (abs(residual) - Fraction(pieces.epsilon))
        exact += Fraction(C) * max(Fraction(0), size)
    assert abs(Fraction(found.primal) - exact) <= Fraction(found.rounding_error) + Fraction(1, 10**14) * exact


@losses
def test_every_primal_value_is_above_every_dual_value(loss_name):
    problem = PROBLEMS["with-intercept"](LOSSES[loss_name])
    points = [feasible_point(problem, seed) for seed in range(8)]
    assert min(problem.primal(w) for w, _ in points) >= max(problem.dual(alpha) for _, alpha in points)


@losses
def test_an_alpha_outside_its_box_proves_nothing(loss_name):
    problem = PROBLEMS["weighted"](LOSSES[loss_name])
    w, alpha = feasible_point(problem, 0)
    absent = int(np.flatnonzero(problem.C == 0.0)[0])
    alpha[absent] = 1e-300
    certificate = certify(problem, w, alpha)
    assert certificate.gap == certificate.relative_gap == certificate.distance_bound == np.inf
    assert certificate.dual == -np.inf
    assert not certificate.meets(1e300)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_answer_that_is_not_finite_is_refused(bad):
    problem = PROBLEMS["overlapping"](Hinge())
    w, alpha = feasible_point(problem, 0)
    for vector in (w, alpha):
        kept = vector[0]
        vector[0] = bad
        assert certify(problem, w, alpha).gap == np.inf
        vector[0] = kept


@problems
@losses
def test_a_corrupted_answer_is_refused_a_certificate(problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    solution = solve(problem, tol=1e-6, max_epochs=50_000)
    scale = max(1e-3, float(np.abs(solution.w).max()))
    for j in range(len(solution.w)):
        w = solution.w.copy()
        w[j] += scale
        assert not certify(problem, w, solution.alpha).meets(1e-6)
    largest = int(np.argmax(np.abs(solution.alpha) * (problem.rows.squared_norms() > 0)))
    alpha = solution.alpha.copy()
    alpha[largest] = 0.5 * alpha[largest]
    assert certify(problem, solution.w, alpha).gap > solution.certificate.gap


@losses
def test_changed_labels_costs_or_data_break_the_certificate(loss_name):
    problem = PROBLEMS["overlapping"](LOSSES[loss_name])
    solution = solve(problem, tol=1e-6)
    for other in (
        replace(problem, y=-problem.y),
        replace(problem, C=problem.C * 1.1),
        LinearProblem.build(problem.rows.matrix * 1.1, problem.y, problem.C, problem.loss),
    ):
        assert not certify(other, solution.w, np.minimum(solution.alpha, other.box.U)).meets(1e-4)


@problems
@losses
def test_no_certified_w_is_farther_from_another_than_the_two_distance_bounds(problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    best = solve(problem, tol=1e-10, max_epochs=20_000)
    for tol in (1e-1, 1e-3):
        rough = solve(problem, tol=tol)
        distance = np.linalg.norm(rough.w - best.w)
        assert distance <= rough.certificate.distance_bound + best.certificate.distance_bound
    w, alpha = feasible_point(problem, 3)
    anywhere = certify(problem, w, alpha)
    assert np.linalg.norm(w - best.w) <= anywhere.distance_bound + best.certificate.distance_bound


def test_distance_bound_is_the_root_of_the_gap_at_w_of_alpha_and_of_twice_the_gap_elsewhere():
    problem = PROBLEMS["overlapping"](Hinge())
    w, alpha = feasible_point(problem, 0)
    own = certify(problem, problem.weights(alpha), alpha)
    assert own.distance_bound == pytest.approx(np.sqrt(own.gap), rel=1e-6)
    far = certify(problem, 100.0 * w, alpha)
    assert far.distance_bound == pytest.approx(np.sqrt(2.0 * far.gap), rel=1e-6)


def test_support_and_bound_are_counted():
    problem = PROBLEMS["weighted"](Hinge())
    alpha = np.zeros(problem.n_samples)
    present = np.flatnonzero(problem.C > 0.0)
    alpha[present[:5]] = problem.C[present[:5]]
    alpha[present[5:9]] = 0.5 * problem.C[present[5:9]]
    certificate = certify(problem, np.zeros(problem.n_weights), alpha)
    assert (certificate.n_support, certificate.n_at_bound) == (9, 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_threads_and_blocks_do_not_change_the_verdict(monkeypatch, many_rows, dtype, is_sparse):
    from scipy import sparse

    X, y = labelled(500, 9, 1.0, 0)
    X = X.astype(dtype)
    problem = LinearProblem.build(sparse.csr_array(X) if is_sparse else X, y, 0.5, SquaredHinge(), 1.0)
    w, alpha = feasible_point(problem, 0)
    once = certify(problem, w, alpha)
    monkeypatch.setattr("maxmargin.data.threads.POLICY", ThreadPolicy(elements_a_thread=1))
    monkeypatch.setattr("maxmargin.data.threads.available_cores", lambda: 3)
    blocks = LinearJudgePolicy(rows_a_block=17, rows_of_residuals=17, many_rows=many_rows)
    monkeypatch.setattr("maxmargin.certificate.policy.LINEAR", blocks)
    threaded = certify(problem, w, alpha)
    assert abs(once.gap - threaded.gap) <= once.rounding_error + threaded.rounding_error
    assert threaded.primal == pytest.approx(once.primal, rel=1e-13)
    assert threaded.dual == pytest.approx(once.dual, rel=1e-13)


def test_wrong_lengths_are_named():
    problem = PROBLEMS["overlapping"](Hinge())
    with pytest.raises(ValueError, match=r"w must be a vector of 6 numbers.*\(7,\)"):
        certify(problem, np.zeros(7), np.zeros(problem.n_samples))
    with pytest.raises(ValueError, match=r"alpha must be a vector of 120 numbers"):
        certify(problem, np.zeros(6), np.zeros(3))


def test_a_certificate_cannot_be_changed():
    certificate = certify(PROBLEMS["overlapping"](Hinge()), np.zeros(6), np.zeros(120))
    with pytest.raises(FrozenInstanceError):
        certificate.gap = 0.0


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    d=st.integers(1, 4),
    data_scale=st.sampled_from([1e-150, 1e-80, 1e-3, 1.0, 1e3, 1e80, 1e150]),
    weight_scale=st.sampled_from([1e-150, 1e-3, 1.0, 1e3, 1e150]),
    C=st.sampled_from([1e-10, 1e-3, 1.0, 1e5, 1e10]),
    loss=st.sampled_from(list(LOSSES.values())),
    scaling=st.sampled_from([0.0, 1.0, 1e-3, 1e6]),
)
def test_at_any_scale_the_gap_is_right_within_its_bound_or_refused(seed, n, d, data_scale, weight_scale, C, loss, scaling):
    rng = np.random.default_rng(seed)
    X = data_scale * rng.normal(size=(n, d))
    problem = LinearProblem.build(X, np.where(rng.random(n) < 0.5, 1, -1), C, loss, scaling)
    w = weight_scale * rng.normal(size=problem.n_weights)
    alpha = C * rng.random(n)
    certificate = certify(problem, w, alpha)
    if np.isfinite(certificate.gap):
        assert abs(Fraction(certificate.gap) - exact_gap(problem, w, alpha)) <= Fraction(certificate.rounding_error)
    else:
        assert not certificate.meets(1.0)


def assert_sums_are_within_their_bounds(X, w, sums):
    for i, row in enumerate(X):
        terms = [Fraction(float(w[-1])), *(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, w, strict=False))]
        sizes, square = sum(map(abs, terms)), sum(Fraction(float(a)) ** 2 for a in row)
        bound = Fraction(float(gamma(np.count_nonzero(row) + 3.0)))
        assert abs(Fraction(float(sums.outputs[i])) - sum(terms)) <= bound * sizes
        assert abs(Fraction(float(sums.magnitudes[i])) - sizes) <= bound * sizes
        assert abs(Fraction(float(sums.squares[i])) - square) <= bound * square


@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", range(1, 14))
def test_sums_of_rows_of_any_length_are_within_their_bounds(length, dtype, is_sparse):
    """Sums are made of two parts or four, with a rest where the length is no multiple of these."""
    rng, n = np.random.default_rng(length), 30
    X = (rng.standard_normal((n, length)) * 10.0 ** rng.integers(-8, 9, (n, length))).astype(dtype)
    w, alpha = rng.standard_normal(length + 1), np.where(np.arange(n) % 3 == 0, 0.0, rng.standard_normal(n))
    sums = RowSums(*np.empty((3, n)), np.zeros(length + 1))
    rows = Rows.from_matrix(sparse.csr_matrix(X) if is_sparse else X).compiled(1.0)
    judge = judge_csr_rows if is_sparse else judge_dense_rows
    judge(rows, 0, n, JudgedPair(w, w[-1], alpha), sums)
    assert_sums_are_within_their_bounds(X, w, sums)
    wanted = np.append(alpha @ X.astype(np.float64), alpha.sum())
    np.testing.assert_allclose(sums.weights, wanted, rtol=1e-12, atol=1e-12 * np.abs(X).max())

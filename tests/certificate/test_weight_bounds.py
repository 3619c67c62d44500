"""Intervals of single weights hold the exact optimum, known in rational arithmetic, and so does the gap that they leave."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from maxmargin import SVC, LinearSVC, LinearSVR
from maxmargin.certificate.ellipsoid import enclose
from maxmargin.certificate.linear import Judge, certify
from maxmargin.certificate.policy import WeightBoundsPolicy
from maxmargin.certificate.weight_bounds import Pair, Turn, huber, weight_bounds
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, LeastSquares, SquaredHinge
from maxmargin.problem.regression_losses import EpsilonInsensitive
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Solution

SEEDS = range(6)
HALF = Fraction(1, 2)


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Nanoseconds since 1970, account numbers, an income and two flags; and a number that all but the accounts say something
    of."""
    rng = np.random.default_rng(seed)
    times, accounts = 1.6e18 + rng.integers(0, 10**17, n), rng.integers(10**15, 9 * 10**15, n)
    income, flags = np.exp(rng.normal(10, 1, n)), rng.random((n, 2)) < 0.4
    score = (times - 1.65e18) / 5e16 + (np.log(income) - 10) + flags[:, 0] + rng.normal(0, 1.5, n)
    return np.column_stack([times, accounts, income, flags]).astype(float), score


def classes(n: int, seed: int, loss, intercept: str, C: float) -> LinearProblem:
    X, score = table(n, seed)
    y = np.where(score > np.median(score), 1, -1)
    return LinearProblem.build(X, y, C, loss, 0.0 if intercept == "none" else 1.0, intercept != "free")


def exact_rows(problem: LinearProblem) -> list[list[Fraction]]:
    constant = [Fraction(problem.intercept_scaling)] if problem.intercept_scaling else []
    return [[Fraction(float(x)) for x in row] + constant for row in problem.rows.dense()]


def exact_primal(problem: LinearProblem, w) -> Fraction:
    w, total = [v if isinstance(v, Fraction) else Fraction(float(v)) for v in w], Fraction(0)
    for row, sign, C, target in zip(exact_rows(problem), problem.signs, problem.C, problem.targets, strict=True):
        output = sum(x * v for x, v in zip(row, w, strict=True))
        slack = Fraction(float(target)) - int(sign) * output
        if problem.loss.is_regression:
            slack = abs(slack) - Fraction(problem.loss.epsilon)
        if not isinstance(problem.loss, LeastSquares):
            slack = max(Fraction(0), slack)
        total += Fraction(float(C)) * (slack if isinstance(problem.loss, (Hinge, EpsilonInsensitive)) else slack**2)
    return total + HALF * sum(v * v for v in w[: problem.n_penalised])


def exact_optimum(problem: LinearProblem, alpha: np.ndarray) -> list[Fraction]:
    """The optimal w: which samples are free, and which are at a bound, is taken from alpha; the conditions of optimality are
    then solved, and checked, in rational arithmetic."""
    rows, d, n_weights = exact_rows(problem), problem.n_penalised, problem.n_weights
    signs = [int(sign) for sign in problem.signs]
    C = Fraction(float(problem.C[0]))
    if isinstance(problem.loss, SquaredHinge):
        active = [i for i in range(len(rows)) if alpha[i] > 1e-7 * alpha.max()]
        matrix = [[2 * C * sum(rows[i][j] * rows[i][k] for i in active) for k in range(n_weights)] for j in range(n_weights)]
        for j in range(d):
            matrix[j][j] += 1
        w = solved(matrix, [2 * C * sum(signs[i] * rows[i][j] for i in active) for j in range(n_weights)])
        slacks = [1 - s * sum(x * v for x, v in zip(row, w, strict=True)) for row, s in zip(rows, signs, strict=True)]
        assert all((slack >= 0) == (i in active) for i, slack in enumerate(slacks))
        return w
    size = np.abs(alpha) / problem.C
    free = [i for i in range(len(rows)) if 1e-7 < size[i] < 1.0 - 1e-7]
    bound = [i for i in range(len(rows)) if size[i] >= 1.0 - 1e-7]
    pull = {i: signs[i] * (1 if alpha[i] > 0.0 else -1) for i in [*free, *bound]}
    fixed = [C * sum(pull[i] * rows[i][j] for i in bound) for j in range(n_weights)]
    goals = [kink(problem, i, float(alpha[i])) for i in free]  # the output of a free sample
    offset = [] if problem.penalizes_intercept else [n_weights - 1]
    matrix = [[sum(rows[i][j] * rows[k][j] for j in range(d)) for k in free] + [rows[i][j] for j in offset] for i in free]
    right = [goal - sum(rows[i][j] * fixed[j] for j in range(d)) for goal, i in zip(goals, free, strict=True)]
    for j in offset:
        matrix.append([rows[k][j] for k in free] + [Fraction(0)])
        right.append(-fixed[j])
    found = solved(matrix, right)
    signed = dict(zip(free, found, strict=False))
    w = [fixed[j] + sum(signed[i] * rows[i][j] for i in free) for j in range(d)] + found[len(free) :]
    assert all(0 <= signed[i] * pull[i] <= C for i in free)
    for i, row in enumerate(rows):
        output = sum(x * v for x, v in zip(row, w, strict=True))
        beyond = signs[i] * (kink(problem, i, float(alpha[i])) - output)  # how far the sample is on the side of the loss
        beyond = beyond * (1 if alpha[i] >= 0.0 else -1)
        if i in bound:
            assert beyond >= 0
        elif i not in free:
            assert beyond <= 0
    return w


def kink(problem: LinearProblem, i: int, alpha: float) -> Fraction:
    """The output at which the loss of a sample begins."""
    if not problem.loss.is_regression:
        return Fraction(int(problem.signs[i]))
    return Fraction(float(problem.y[i])) - Fraction(problem.loss.epsilon) * (1 if alpha >= 0.0 else -1)


def solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """The solution of a linear system, by elimination."""
    n, rows = len(matrix), [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(n):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def assert_proved(problem: LinearProblem, w: np.ndarray, alpha: np.ndarray, optimum: list[Fraction]) -> None:
    """The certificate of the pair, its distance and its intervals hold."""
    certificate = certify(problem, w, alpha)
    short = exact_primal(problem, [float(v) for v in w]) - exact_primal(problem, optimum)
    assert 0 <= short <= Fraction(certificate.gap) + Fraction(certificate.rounding_error)
    rounding = Fraction(certificate.rounding_error) + Fraction(1e-15 * certificate.primal)
    assert Fraction(certificate.dual) <= exact_primal(problem, optimum) + rounding
    distances = [abs(Fraction(float(v)) - best) for v, best in zip(w, optimum, strict=True)]
    assert sum(v * v for v in distances[: problem.n_penalised]) <= Fraction(certificate.distance_bound) ** 2
    judge = Judge(problem)
    bounds = weight_bounds(problem, Pair(w, alpha), judge._centre, np.arange(problem.rows.n_features))
    assert bounds is not None
    moves = [best - Fraction(float(v)) for v, best in zip(w, optimum, strict=True)]
    for k, axis in enumerate(bounds.turn.basis.T):
        along = sum(Fraction(float(x)) * moves[j] for x, j in zip(axis, bounds.turn.columns, strict=True))
        assert abs(along) <= Fraction(bounds.reaches[bounds.turn.columns[k]])
    if not problem.penalizes_intercept:
        centre = [Fraction(float(c)) for c in judge._centre]
        moved = moves[-1] * Fraction(problem.intercept_scaling) + sum(c * v for c, v in zip(centre, moves, strict=False))
        assert abs(moved) <= Fraction(bounds.offset_reach)
    ellipsoid = enclose(problem, w, alpha, certificate)
    if ellipsoid is not None:
        reach = ellipsoid.reach(problem.rows.matrix)
        for row, own in zip(exact_rows(problem), reach, strict=True):
            moved = sum(x * (best - Fraction(float(v))) for x, v, best in zip(row, w, optimum, strict=True))
            assert abs(moved) <= Fraction(float(own))


def assert_below_all(problem: LinearProblem, solution: Solution) -> None:
    """With intervals of single weights the gap is not that of alpha. For data of any kind, whose exact
    optimum is not known: no primal value that is easily found, in rational arithmetic, is below the bound on the optimum."""
    certificate, w = solution.certificate, solution.w
    worst = Fraction(certificate.gap) + Fraction(certificate.rounding_error)
    bound = exact_primal(problem, w) - worst - Fraction(1e-15 * certificate.primal)
    for factor in (0.0, 0.5, 1.0 - 1e-3, 1.0 - 1e-9, 1.0 + 1e-9, 1.0 + 1e-3, 2.0):
        assert exact_primal(problem, factor * w) >= bound
    for other in (problem.weights(solution.alpha), solve(problem, "newton", tol=1e-9, max_epochs=200).w):
        assert exact_primal(problem, other) >= bound


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("C", [1.0, 1e4])
@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared-hinge"])
def test_the_exact_optimum_is_in_all_intervals(loss, intercept, C, seed):
    problem = classes(25, seed, loss, intercept, C)
    solution = solve(problem, tol=1e-8)
    assert solution.certificate.meets(1e-8)
    assert solution.certificate.has_bounded_weights or intercept != "free"  # some alpha are mended before
    optimum = exact_optimum(problem, solution.alpha)
    assert_proved(problem, solution.w, solution.alpha, optimum)
    rng = np.random.default_rng(seed)
    for size in (1e-6, 1e-2, 0.3):  # and for answers that are not optimal
        alpha = np.clip(solution.alpha * rng.uniform(1.0 - size, 1.0 + size, len(solution.alpha)), 0.0, problem.box.U)
        if not problem.penalizes_intercept:
            alpha = problem.balanced(alpha)
        w = solution.w * rng.uniform(1.0 - size, 1.0 + size, len(solution.w))
        certificate = certify(problem, w, alpha)
        short = exact_primal(problem, [float(v) for v in w]) - exact_primal(problem, optimum)
        assert short <= Fraction(certificate.gap) + Fraction(certificate.rounding_error)
        if certificate.has_bounded_weights:
            assert_proved(problem, w, alpha, optimum)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("intercept", ["free", "penalised"])
def test_the_exact_optimum_of_a_regression_is_in_all_intervals(intercept, seed):
    X, y = table(30, seed)
    problem = LinearProblem.build(X, y, 10.0, EpsilonInsensitive(0.2), 1.0, intercept != "free")
    solution = solve(problem, tol=1e-8)
    assert solution.certificate.meets(1e-8)
    assert_proved(problem, solution.w, solution.alpha, exact_optimum(problem, solution.alpha))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("fit", [LinearSVC, SVC])
def test_numbers_that_use_up_float64_are_certified_at_once(fit, loss):
    """The steps are counted: one compiled call of some dozen Newton steps, where alpha was mended digit by digit."""
    X, score = table(400, 7)
    y = score > np.median(score)
    model = (LinearSVC(loss=loss) if fit is LinearSVC else SVC(kernel="linear")).fit(X, y)
    assert model.certificate_.has_bounded_weights
    assert model.certificate_.meets(model.tol)
    assert len(model.trace_) == 1
    assert sum(row.epochs for row in model.trace_) <= 100


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e4])
def test_linear_regression_on_such_columns_is_certified(C):
    X, y = table(300, 3)
    assert LinearSVR(C=C, epsilon=0.1).fit(X, y).certificate_.meets(1e-3)


@pytest.mark.parametrize(
    ("loss", "intercept"), [(Hinge(), "penalised"), (SquaredHinge(), "free"), (SquaredHinge(), "penalised")]
)
def test_wide_columns_that_depend_on_each_other_are_taken_along_their_axes(loss, intercept):
    """The same times, in milliseconds, in two units."""
    X, score = table(40, 4)
    X[:, 0], X[:, 1] = 1e-6 * X[:, 0], 1.8e-6 * X[:, 0] + 3e11
    problem = LinearProblem.build(X, np.where(score > np.median(score), 1, -1), 1e4, loss, 1.0, intercept != "free")
    solution = solve(problem, tol=1e-6)
    assert solution.certificate.meets(1e-6)
    assert solution.certificate.has_bounded_weights
    assert_proved(problem, solution.w, solution.alpha, exact_optimum(problem, solution.alpha))


def test_without_intervals_the_same_pair_proves_nothing(monkeypatch):
    """The intervals are what proves it, not the rest of the certificate."""
    problem = classes(60, 1, Hinge(), "free", 1.0)
    solution = solve(problem, tol=1e-6)
    assert solution.certificate.meets(1e-6)
    monkeypatch.setattr("maxmargin.certificate.policy.WEIGHTS", WeightBoundsPolicy(most_weights=0))
    plain = certify(problem, solution.w, solution.alpha)
    assert not plain.has_bounded_weights
    assert plain.relative_gap > 1e-3


def test_rounded_features_of_another_problem_have_no_intervals():
    problem = classes(60, 1, Hinge(), "free", 1.0)
    solution = solve(problem, tol=1e-6)
    rounded = replace(problem, has_exact_rows=False)
    assert not certify(rounded, solution.w, solution.alpha).has_bounded_weights


def test_a_wrong_weight_is_charged_for():
    """An answer whose weight of a wide column is off by many intervals is refused, however small that weight is."""
    problem = classes(60, 2, Hinge(), "free", 1.0)
    solution = solve(problem, tol=1e-6)
    w = solution.w.copy()
    w[0] += 1e-16  # times 1e17
    certificate = certify(problem, w, solution.alpha)
    assert certificate.gap >= problem.primal(w) - solution.certificate.primal > 0.01 * solution.certificate.primal


def test_without_any_dual_point_there_are_no_intervals():
    problem = classes(20, 0, Hinge(), "free", 1.0)
    pair = Pair(np.zeros(problem.n_weights), np.zeros(problem.n_samples))
    assert weight_bounds(problem, pair, np.zeros(problem.rows.n_features), np.arange(2)) is None


def test_huber_is_the_maximum_over_the_interval():
    rng = np.random.default_rng(0)
    differences, reaches = rng.normal(size=50), rng.exponential(size=50)
    steps = np.linspace(-1.0, 1.0, 20_001)[:, None] * reaches
    best = (steps * differences - 0.5 * steps**2).max(axis=0)
    np.testing.assert_allclose(huber(differences, reaches), best, atol=1e-7)
    assert huber(np.array([3.0]), np.array([np.inf])) == 4.5


def test_rows_whose_squares_are_beyond_float64_keep_the_axes_of_their_columns():
    rows = np.array([[1e200, 1.0], [2.0, 1e200], [3.0, 1.0]])
    with np.errstate(over="ignore"):
        turn = Turn.of(np.arange(2), rows)
    assert np.array_equal(turn.turned(np.array([3.0, 4.0])), [3.0, 4.0])

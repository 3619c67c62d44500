"""The one-class problem: its certificate against rational arithmetic, its offset, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from maxmargin import Status, certify, one_class_problem, solve
from maxmargin.certificate.linear import judge_of
from maxmargin.problem.offset import filled

shares = pytest.mark.parametrize("nu", [0.03, 0.3, 0.8, 1.0])


def drawn(n: int = 50, d: int = 4, seed: int = 0, centre: float = 1.5) -> np.ndarray:
    return np.random.default_rng(seed).normal(centre, 1.0, size=(n, d))


def made(nu: float, is_sparse: bool = False, weighted: bool = True, **settings):
    X = drawn(**settings)
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], size=len(X)) if weighted else 1.0
    return one_class_problem(sparse.csr_array(X) if is_sparse else X, nu, weights)


def exact_gap(problem, w, alpha) -> Fraction:
    """P - D in rational arithmetic at a feasible alpha: its sum must be that of the prices exactly."""
    X = problem.rows.dense()
    weights = [Fraction(float(value)) for value in w[:-1]]
    b, price = Fraction(float(w[-1])), sum(Fraction(float(c)) for c in problem.offset_prices)
    alpha = [Fraction(float(a)) for a in alpha]
    primal, sums = sum(value * value for value in weights) / 2 + price * b, [Fraction(0)] * len(weights)
    for row, s, a in zip(X, problem.C, alpha, strict=True):
        x = [Fraction(float(value)) for value in row]
        output = sum(u * v for u, v in zip(x, weights, strict=True)) + b
        primal += Fraction(float(s)) * max(Fraction(0), -output)
        sums = [total + a * value for total, value in zip(sums, x, strict=True)]
    assert sum(alpha) == price
    return primal + sum(value * value for value in sums) / 2


def exactly_feasible(problem, rng) -> np.ndarray:
    """Alphas that are multiples of the prices, so that one can be raised by what another is lowered by without rounding."""
    alpha = np.array(problem.offset_prices)
    free = np.flatnonzero(problem.C == 1.0)
    for one, other in rng.permutation(free)[: len(free) // 2 * 2].reshape(-1, 2):
        move = rng.choice([0.25, 0.5, 1.0]) * min(alpha[one], problem.C[other] - alpha[other])
        move = float(np.float32(move))
        if alpha[one] - move >= 0.0 and alpha[other] + move <= problem.C[other]:
            lowered, raised = alpha[one] - move, alpha[other] + move
            if Fraction(lowered) + Fraction(raised) == Fraction(alpha[one]) + Fraction(alpha[other]):
                alpha[one], alpha[other] = lowered, raised
    return alpha


@shares
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_gap_equals_rational_arithmetic_within_its_own_rounding_bound(nu, is_sparse):
    problem = made(nu, is_sparse)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        alpha, w = exactly_feasible(problem, rng), rng.normal(size=problem.n_weights)
        certificate, exact = certify(problem, w, alpha), exact_gap(problem, w, alpha)
        assert exact > 0
        assert abs(Fraction(certificate.gap) - exact) <= Fraction(certificate.rounding_error)


@shares
def test_an_alpha_whose_sum_is_wrong_is_charged_at_least_what_a_feasible_one_lacks(nu):
    """P - D at the nearest feasible point is at most the gap that the certificate shows, and the sum's error counts."""
    problem = made(min(nu, 0.9))
    rng = np.random.default_rng(3)
    w, alpha = rng.normal(size=problem.n_weights), exactly_feasible(problem, rng)
    fair = certify(problem, w, alpha)
    for factor in (0.9, 0.999):
        assert certify(problem, w, factor * alpha).gap >= problem.primal(w) - problem.dual(problem.balanced(factor * alpha))
    assert fair.gap == pytest.approx(problem.primal(w) - problem.dual(alpha), rel=1e-9)


@shares
@pytest.mark.parametrize("weighted", [False, True])
def test_the_answer_is_certified_and_a_corrupted_one_refused(nu, weighted):
    problem = made(nu, weighted=weighted, n=80)
    solution = solve(problem, tol=1e-8)
    assert solution.status is Status.CERTIFIED
    assert certify(problem, 1.01 * solution.w, solution.alpha).relative_gap > 1e-6
    assert not certify(problem, solution.w, 0.99 * solution.alpha).meets(1e-6)
    outside = solution.alpha.copy()
    outside[0] = 2.0 * problem.C.max()
    assert certify(problem, solution.w, outside).gap == np.inf


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_the_optimum_is_that_of_liblinear_and_of_libsvm(nu):
    from liblinear.liblinearutil import train
    from sklearn.svm import OneClassSVM

    X = drawn(200, 5)
    ours = solve(one_class_problem(X, nu), tol=1e-10)
    theirs = train(np.ones(200), X, f"-s 21 -n {nu} -e 1e-8 -q")
    w = np.array([theirs.w[j] for j in range(5)])
    np.testing.assert_allclose(w, ours.w[:-1], rtol=1e-3)
    assert theirs.rho == pytest.approx(-ours.b, rel=1e-3)
    libsvm = OneClassSVM(kernel="linear", nu=nu, tol=1e-8, max_iter=1_000_000).fit(X)
    np.testing.assert_allclose(libsvm.coef_[0], ours.w[:-1], rtol=1e-3)


@shares
def test_the_best_dual_value_equals_that_of_a_quadratic_program(nu):
    """SciPy's SLSQP on the dual of a few samples."""
    from scipy.optimize import minimize

    X = drawn(14, 3, seed=5)
    problem = one_class_problem(X, nu)
    K, total = X @ X.T, nu * 14
    found = minimize(
        lambda a: 0.5 * a @ K @ a,
        np.full(14, nu),
        jac=lambda a: K @ a,
        bounds=[(0.0, 1.0)] * 14,
        constraints={"type": "eq", "fun": lambda a: a.sum() - total, "jac": lambda a: np.ones(14)},
        options={"maxiter": 500, "ftol": 1e-14},
    )
    assert solve(problem, tol=1e-9).certificate.primal == pytest.approx(-found.fun, rel=1e-6)


@shares
def test_at_most_a_share_nu_is_outside_and_at_least_that_share_outside_or_on_the_border(nu):
    problem = made(nu, weighted=True, n=150)
    solution = solve(problem, tol=1e-9)
    outputs = problem.margins(solution.w)
    width, total = 1e-4 * np.abs(outputs).max(), problem.C.sum()
    assert problem.C[outputs < -width].sum() <= nu * total * (1.0 + 1e-12)
    assert problem.C[outputs <= width].sum() >= nu * total * (1.0 - 1e-12)


def test_a_sample_of_weight_two_is_two_samples_and_one_of_weight_zero_none():
    X = drawn(40)
    weights = np.array([0.0, 1.0, 2.0])[np.arange(40) % 3]
    one = solve(one_class_problem(X, 0.2, weights), tol=1e-10)
    other = solve(one_class_problem(np.repeat(X, weights.astype(int), axis=0), 0.2), tol=1e-10)
    assert np.linalg.norm((one.w - other.w)[:-1]) <= one.certificate.distance_bound + other.certificate.distance_bound


@pytest.mark.parametrize("nu", [0.02, 0.4])
def test_the_optimal_offset_lies_within_its_bound(nu):
    problem = made(nu, n=200)
    exact, rough = solve(problem, tol=1e-12), solve(problem, tol=1e-3)
    assert abs(exact.b - rough.b) <= rough.offset_bound + exact.offset_bound


@shares
@pytest.mark.parametrize("n", [1, 30])
def test_samples_around_the_origin_have_the_certified_answer_zero(nu, n):
    """A mean of them is the origin, so that no half-space is better than none: the objective is zero, and so is w."""
    X = drawn(n, 3, centre=0.0)
    problem = one_class_problem(np.concatenate([X, -X]), nu)
    solution = solve(problem, tol=1e-6)
    assert solution.status is Status.CERTIFIED
    assert np.abs(solution.w).max() <= 1e-12
    assert solution.certificate.distance_bound < 1e-10


@pytest.mark.parametrize("nu", [0.1, 0.6])
def test_columns_as_they_come_are_solved(nu):
    rng = np.random.default_rng(2)
    n = 400
    X = np.column_stack([rng.integers(1980, 2024, n), rng.lognormal(11, 0.5, n), rng.uniform(0.0, 0.1, n), np.ones(n)])
    assert solve(one_class_problem(X, nu), tol=1e-6).status is Status.CERTIFIED


def test_filled_keeps_the_box_and_meets_the_sum():
    rng = np.random.default_rng(0)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        upper = rng.uniform(0.0, 2.0, 30)
        prices = upper * rng.uniform(0.01, 1.0)
        alpha = upper * rng.choice([0.0, 0.4, 1.0], size=30)
        found = filled(alpha, upper, prices)
        assert np.all((found >= 0.0) & (found <= upper))
        assert abs(found.sum() - prices.sum()) <= 1e-13 * prices.sum()


@pytest.mark.parametrize("nu", [0.0, -0.5, 1.01, np.nan, "many"])
def test_nu_outside_its_range_is_refused(nu):
    with pytest.raises(ValueError, match="nu must be greater than 0"):
        one_class_problem(drawn(), nu)


def test_solvers_that_change_one_alpha_at_a_time_are_refused():
    with pytest.raises(ValueError, match=r"'dcd' cannot fit an intercept without penalty"):
        solve(one_class_problem(drawn(), 0.5), "dcd")


def test_prices_of_zero_are_an_ordinary_free_offset():
    from maxmargin import EpsilonInsensitive, LinearProblem

    X = drawn()
    plain = LinearProblem.build(X, X[:, 0] + 1.0, 1.0, EpsilonInsensitive(0.1), 1.0, False)
    priced = replace(plain, offset_prices=np.zeros(len(X)))
    w, alpha = np.ones(plain.n_weights), np.zeros(len(X))
    assert certify(priced, w, alpha).gap == pytest.approx(certify(plain, w, alpha).gap)


@pytest.mark.parametrize("nu", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
def test_pair_descent_and_newton_agree_within_their_certified_distances(nu, is_sparse, weighted):
    problem = made(nu, is_sparse, weighted, n=400)
    pairs, newton = (solve(problem, solver, tol=1e-6) for solver in ("pair-descent", "newton"))
    assert pairs.status is newton.status is Status.CERTIFIED
    apart = np.linalg.norm((pairs.w - newton.w)[:-1])
    assert apart <= pairs.certificate.distance_bound + newton.certificate.distance_bound


def test_pair_descent_keeps_the_sum_and_the_box_and_never_raises_the_norm():
    from maxmargin.solvers.base import Budget
    from maxmargin.solvers.linear.pair_descent import PairDescent

    problem, solver = made(0.2, n=300), PairDescent()
    state, last = solver.init(problem, None, 0), np.inf
    for _ in range(10):
        solver.advance(problem, state, Budget(1, 0.0))
        assert np.all((state.alpha >= 0.0) & (state.alpha <= problem.C))
        assert state.alpha.sum() == pytest.approx(problem.offset_prices.sum(), rel=1e-12)
        np.testing.assert_allclose(state.w[:-1], problem.weights(state.alpha)[:-1], rtol=1e-9)
        assert state.w @ state.w <= last * (1.0 + 1e-12)
        last = state.w @ state.w


def test_pair_descent_is_for_one_class_only():
    from maxmargin import LinearProblem

    with pytest.raises(ValueError, match="is for one class"):
        solve(LinearProblem.build(drawn(), np.ones(50) * (-1.0) ** np.arange(50)), "pair-descent")


@pytest.mark.parametrize("nu", [0.05, 0.5])
def test_large_problems_go_from_pairs_to_newton_and_are_certified(nu):
    problem = one_class_problem(drawn(4000, 6), nu)
    assert solve(problem, tol=1e-9).status is Status.CERTIFIED


@pytest.mark.parametrize("nu", [0.01, 0.5])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_problem_that_begins_with_a_sample_of_its_rows_is_solved_like_any_other(nu, is_sparse, weighted):
    problem = made(nu, is_sparse, weighted, n=9000)
    pairs, newton = (solve(problem, solver, tol=1e-7) for solver in ("pair-descent", "newton"))
    assert pairs.status is newton.status is Status.CERTIFIED
    apart = np.linalg.norm((pairs.w - newton.w)[:-1])
    assert apart <= pairs.certificate.distance_bound + newton.certificate.distance_bound


def test_a_sample_that_misleads_costs_time_and_not_the_answer():
    """The rows that are solved first lie apart from all others."""
    from maxmargin.solvers.samples import one_of_each

    X = drawn(9000, 3)
    X[one_of_each(16, 9000)] += 20.0
    for nu in (0.01, 0.3, 0.97, 1.0):
        assert solve(one_class_problem(X, nu), "pair-descent", tol=1e-6).status is Status.CERTIFIED


@pytest.mark.parametrize("nu", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-10])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_bound_on_rho_from_the_kinks_near_it_is_the_bound_from_all_kinks(nu, tol, weighted):
    from maxmargin.certificate.intercept import linear_offset_bound, priced_offset_bound

    problem = made(nu, weighted=weighted, n=400)
    solution, judge, margins = solve(problem, tol=tol), judge_of(problem), np.empty(400)
    certificate = judge.certify(solution.w, solution.alpha, margins)
    near = priced_offset_bound(problem, solution.w, certificate, margins, judge.squares)
    everywhere = linear_offset_bound(problem, solution.w, certificate)
    assert near == pytest.approx(everywhere, rel=1e-6, abs=1e-12 * abs(solution.b))


def test_the_squares_of_a_certificate_are_those_of_the_rows():
    problem = made(0.3, is_sparse=True, n=50)
    judge = judge_of(problem)
    judge.certify(np.ones(problem.n_weights), problem.first_dual_point)
    np.testing.assert_allclose(judge.squares, problem.rows.squared_norms(), rtol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_bound_on_rho_without_a_free_sample_needs_no_pass_over_X(weighted, monkeypatch):
    """Between two samples every rho is optimal, so that the farthest is many times the reach of a kink away."""
    from maxmargin.certificate import intercept

    X = np.concatenate([np.full((60, 1), 1.0), np.full((40, 1), 2.0)])
    problem = one_class_problem(X, 0.6, np.full(100, 0.5) if weighted else 1.0)
    solution, judge, margins = solve(problem, tol=1e-12), judge_of(problem), np.empty(100)
    certificate = judge.certify(solution.w, solution.alpha, margins)
    everywhere = intercept.linear_offset_bound(problem, solution.w, certificate)
    monkeypatch.setattr(intercept, "linear_offset_bound", None)
    near = intercept.priced_offset_bound(problem, solution.w, certificate, margins, judge.squares)
    assert near == pytest.approx(everywhere, rel=1e-9)
    assert near >= 0.49 * float(solution.w[0])


@shares
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("rows_of_residuals", [7, 1 << 15])
def test_one_pass_for_one_class_has_the_sums_of_the_passes_for_any_residuals(
    nu, weighted, is_sparse, rows_of_residuals, monkeypatch
):
    """The sums of the general passes go through other orders of additions, so that they agree to rounding."""
    from maxmargin.certificate import linear_sums, policy

    problem = made(nu, is_sparse, weighted, d=7)
    rng = np.random.default_rng(2)
    w, alpha = rng.normal(size=8), filled(rng.uniform(0.0, 1.0, 50) * problem.C, problem.C, problem.offset_prices)
    monkeypatch.setattr(policy, "LINEAR", replace(policy.LINEAR, rows_of_residuals=rows_of_residuals))
    fused = judge_of(problem).certify(w, alpha, outputs := np.empty(50))
    monkeypatch.setattr(linear_sums, "has_shortfalls", lambda problem: False)
    general = judge_of(problem).certify(w, alpha, wanted := np.empty(50))
    np.testing.assert_allclose(outputs, wanted, rtol=1e-12)
    assert (fused.n_support, fused.n_at_bound) == (general.n_support, general.n_at_bound)
    for name in ("primal", "dual", "gap", "rounding_error", "distance_bound"):
        assert getattr(fused, name) == pytest.approx(getattr(general, name), rel=1e-9)


@pytest.mark.parametrize("wrong", [-0.5, 3.5, np.nan])
def test_an_alpha_outside_its_box_proves_nothing(wrong):
    problem = made(0.3, weighted=False)
    alpha = np.array(problem.offset_prices)
    alpha[7] = wrong
    assert not certify(problem, np.ones(5), alpha).is_proof

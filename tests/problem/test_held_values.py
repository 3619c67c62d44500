"""The kernel matrix of few samples, and the solver that reads it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from decimal import Decimal, getcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from maxmargin import RBF, KernelProblem, Linear, Polynomial, Precomputed, Sigmoid, Status, certify_kernel, solve
from maxmargin.certificate import kernel as kernel_certificate
from maxmargin.certificate.intercept import kernel_offset_bound
from maxmargin.data.rows import ChosenRows
from maxmargin.problem.held_values import MULTIPLE, ClassValues, held_values
from maxmargin.problem.kernel_loops import order
from maxmargin.problem.kernels import Custom, Points
from maxmargin.problem.losses import UNIT_ROUNDOFF
from maxmargin.solvers.base import Budget
from maxmargin.solvers.kernel.auto import KernelAuto, KernelAutoPolicy
from maxmargin.solvers.kernel.held_smo import HeldState
from maxmargin.solvers.kernel.held_smo_loops import MANY, MOVED, OUTSIDE, settle
from maxmargin.solvers.kernel.held_smo_policy import HeldSMOPolicy

KERNELS = [RBF(0.3), Linear(), Polynomial(0.5, 1.0, 3), Custom(lambda A, B: A @ B.T + 1.0)]


def samples(n=70, d=3, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    return X, np.where(X[:, 0] + 0.5 * random.standard_normal(n) > 0.0, 1.0, -1.0)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("n", [1, 64, 300])
def test_the_matrix_is_the_kernels_own_and_ends_in_zeros(kernel, n):
    X, _ = samples(n)
    points = Points.of(X)
    held = held_values(kernel, points)
    error = 2.0 * kernel.rounding_error(points, points)
    assert np.all(np.abs(held.values - kernel.block(points, points)) <= error)
    assert np.array_equal(held.values, held.values.T)
    assert len(held.padded) % MULTIPLE == 0
    assert not held.padded[n:].any()
    assert not held.padded[:, n:].any()
    assert n * (n + 1) // 2 <= held.evaluations <= n * n


def test_rbf_values_are_as_near_to_exact_ones_as_the_kernel_says():
    getcontext().prec = 40
    X, _ = samples(20, 5, 1)
    X *= 30.0
    kernel, points = RBF(0.01), Points.of(X)
    values, error = held_values(kernel, points).values, Decimal(kernel.rounding_error(points, points))
    for i in range(len(X)):
        for j in range(len(X)):
            square = sum((Decimal(float(a)) - Decimal(float(b))) ** 2 for a, b in zip(X[i], X[j], strict=True))
            assert abs(Decimal(float(values[i, j])) - (-Decimal(kernel.gamma) * square).exp()) <= error


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("kernel", KERNELS[:3], ids=lambda kernel: type(kernel).__name__)
def test_pairs_of_classes_get_their_parts_of_one_matrix(kernel, form):
    X, _ = samples(90)
    codes = np.random.default_rng(2).integers(0, 3, size=90)
    shared = ClassValues(form(X), kernel, codes)
    whole = held_values(kernel, Points.of(X)).values
    for first, second in ((0, 1), (1, 2), (0, 2)):
        rows = np.concatenate([np.flatnonzero(codes == first), np.flatnonzero(codes == second)])
        assert np.allclose(shared.pair(first, second).values, whole[np.ix_(rows, rows)], rtol=1e-13, atol=1e-13)
    held = shared.pair(0, 1)
    assert np.all(held.values == held.values.T)
    assert held.evaluations == np.count_nonzero(codes == 0) * np.count_nonzero(codes == 1)


def pairs_of(X, kernel):
    codes = np.random.default_rng(2).integers(0, 3, size=len(X))
    shared = ClassValues(X, kernel, codes)
    for first, second in ((0, 1), (1, 2), (0, 2)):
        samples = np.concatenate([np.flatnonzero(codes == first), np.flatnonzero(codes == second)])
        yield samples, shared.pair(first, second)


DOT_KERNELS = [RBF(0.3), Linear(), Polynomial(0.5, 1.0, 3), Polynomial(0.5, 0.0, 1), Sigmoid(0.2, -0.5)]


@pytest.mark.parametrize("kernel", DOT_KERNELS, ids=repr)
@pytest.mark.parametrize("d", [1, 3, 4, 7, 8])
def test_a_row_on_demand_is_the_row_of_the_whole_matrix_and_the_others_are_not_made(d, kernel):
    X, _ = samples(90, d)
    points = Points.of(X)
    exact, error = kernel.block(points, points), 2.0 * kernel.rounding_error(points, points)
    for chosen, held in [(np.arange(90), held_values(kernel, points)), *pairs_of(X, kernel)]:
        wanted, n = np.array([0, 5, held.n - 1]), held.n
        rows = held.with_rows(wanted)[wanted]
        assert np.all(np.abs(rows[:, :n] - exact[np.ix_(chosen[wanted], chosen)]) <= error)
        assert not rows[:, n:].any()
        assert np.flatnonzero(held.rows.is_there[:n]).tolist() == wanted.tolist()
        assert rows[0, 5] == rows[1, 0]


@pytest.mark.parametrize("degree", [1, 2, 3, 16])
def test_powers_on_demand_are_as_near_to_exact_ones_as_the_bounds_say(degree):
    getcontext().prec = 60
    X, _ = samples(12, 5, 1)
    kernel, points = Polynomial(0.37, 0.6, degree), Points.of(30.0 * X)
    held = held_values(kernel, points)
    values, bounds = held.with_rows(np.arange(4))[:4, :12], held.bounds
    assert not held.rows.is_there[4:12].any()
    for i in range(4):
        for j in range(12):
            dot = sum(Decimal(float(a)) * Decimal(float(b)) for a, b in zip(30.0 * X[i], 30.0 * X[j], strict=True))
            exact = (Decimal(kernel.gamma) * dot + Decimal(kernel.coef0)) ** degree
            assert abs(Decimal(float(values[i, j])) - exact) <= Decimal(bounds.share * bounds.lengths[i] * bounds.lengths[j])


def test_powers_of_a_high_degree_are_made_all_at_once():
    X, _ = samples(30)
    held = held_values(Polynomial(0.1, 1.0, 40), Points.of(X))
    assert held.rows.is_there.all()


def test_all_rows_are_made_at_once_when_many_are_needed():
    X, y = samples(200)
    problem = KernelProblem.build(X, -y * np.where(np.arange(200) % 3, 1, -1), 1e3, RBF(5.0))  # every sample is needed
    held = problem.held
    assert not held.rows.is_there[: held.n].any()
    assert solve(problem, tol=1e-6).status == Status.CERTIFIED
    assert held.rows.is_there.all()
    assert held.evaluations <= 2 * 200**2
    assert np.array_equal(held.values, held_values(problem.kernel, problem.points).values)


def test_what_the_memory_held_before_has_no_effect():
    X, y = samples(300)
    problem = KernelProblem.build(X, y, 2.0, RBF(0.3))
    clean = HeldState.of(problem, held_values(problem.kernel, problem.points), None)
    dirty = HeldState.of(problem, held_values(problem.kernel, problem.points), None)
    dirty.held.rows.values[1:] = np.nan
    for state in (clean, dirty):
        state.run_smo(1e-3, 40)
    assert not dirty.held.rows.is_there[:300].all()
    assert np.array_equal(clean.s, dirty.s)


def test_few_rows_are_made_where_few_samples_are_at_the_margin():
    X, y = samples(400)
    X[:, 0] += 3.0 * y
    problem = KernelProblem.build(X, y, 1.0, RBF(0.05))
    assert solve(problem, tol=1e-4).status == Status.CERTIFIED
    there = np.flatnonzero(problem.held.rows.is_there[:400])
    assert len(there) < 100
    exact = problem.kernel.block(problem.points[there], problem.points)  # the solver's fast-math has not come near the values
    error = 2.0 * problem.kernel.rounding_error(problem.points, problem.points)
    assert np.all(np.abs(problem.held.rows.values[there, :400] - exact) <= error)
    assert problem.held_evaluations < 100 * 400


@pytest.mark.parametrize("has_offset", [True, False])
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("n", [2, 3, 70, 400])
def test_few_samples_are_certified_and_agree_with_another_solver(n, C, has_offset):
    X, y = samples(n)
    y[:2] = 1.0, -1.0
    problem = KernelProblem.build(X, y, C, RBF(0.3), has_offset)
    found, other = solve(problem, tol=1e-6), solve(problem, "batched-smo", tol=1e-6)
    assert found.status == other.status == Status.CERTIFIED
    assert found.certificate.dual <= other.certificate.primal * (1.0 + 1e-12)
    assert other.certificate.dual <= found.certificate.primal * (1.0 + 1e-12)


def test_the_fewest_samples_are_finished_to_rounding_whatever_the_target():
    X, y = samples(100)
    loose, tight = (solve(KernelProblem.build(X, y, 2.0, RBF(0.3)), tol=tol) for tol in (1e-1, 1e-10))
    assert np.allclose(loose.alpha, tight.alpha, rtol=0.0, atol=1e-9)


def test_equal_samples_of_both_labels_are_solved():
    X, y = samples(60)
    X, y = np.vstack([X, X, X]), np.concatenate([y, y, -y])
    found = solve(KernelProblem.build(X, y, 10.0, RBF(0.3)), tol=1e-8)
    assert found.status == Status.CERTIFIED


def test_a_given_matrix_is_solved_like_the_kernel_that_made_it():
    X, y = samples(80)
    K = RBF(0.3).block(Points.of(X), Points.of(X))
    given = solve(KernelProblem.build(K, y, 3.0, Precomputed()), tol=1e-8)
    own = solve(KernelProblem.build(X, y, 3.0, RBF(0.3)), tol=1e-8)
    assert np.allclose(given.alpha, own.alpha, rtol=0.0, atol=1e-6)


def test_a_solver_that_gives_up_hands_its_alpha_over():
    X, y = samples(300)
    problem = KernelProblem.build(X, y, 100.0, RBF(3.0))
    held = HeldSMOPolicy(most_rounds=1, most_systems=1, steps_a_sample=1)
    solver = KernelAuto(policy=KernelAutoPolicy(held=held))
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(1000, 1e-10))
    assert state.few is None
    assert state.many is not None
    assert certify_kernel(problem, solver.candidate(problem, state)).certificate.dual > 0.0
    assert solve(problem, solver, tol=1e-10).status == Status.CERTIFIED


def test_a_matrix_that_does_not_fit_the_budget_is_not_held():
    X, y = samples(300)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.3))
    assert KernelAuto(cache_mb=0.1).init(problem, None, 0).few is None
    assert KernelAuto(cache_mb=10.0).init(problem, None, 0).few is not None


def test_steps_never_lower_the_dual():
    X, y = samples(200)
    problem = KernelProblem.build(X, y, 1000.0, RBF(1.0))
    assert problem.held is not None
    state, duals = HeldState.of(problem, problem.held, None), [0.0]
    for _ in range(20):
        state.run_smo(1e-3, state.steps + 5)
        duals.append(certify_kernel(problem, state.alpha).certificate.dual)
    assert all(later >= earlier - 1e-9 * abs(earlier) for earlier, later in pairwise(duals))


@pytest.mark.parametrize("n", [1, 5, 31, 32, 33, 500, 1024])
@pytest.mark.parametrize("has_offset", [True, False])
def test_sums_of_the_certificate_are_numpys_for_few_samples(n, has_offset):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 3)), np.where(rng.random(n) < 0.5, 1, -1)
    C = rng.random(n) + 0.1
    alpha = np.clip(rng.normal(size=n), 0.0, C)
    problem = KernelProblem.build(X, y, C, RBF(0.5), has_offset)
    sums = kernel_certificate.outputs_of(problem, alpha, np.flatnonzero(alpha))
    few = kernel_certificate._totals(problem, alpha, sums, 0.3, True)
    many = kernel_certificate._totals_of_many(problem, alpha, sums, 0.3, 4.0 * UNIT_ROUNDOFF)
    assert few.balance == pytest.approx(many.balance, rel=1e-13, abs=1e-13)
    assert few[:5] == pytest.approx(many[:5], rel=1e-13, abs=1e-13)
    assert few.n_at_bound == np.count_nonzero(alpha == C)


@pytest.mark.parametrize("n", [2, 3, 33, 500])
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
def test_one_compiled_call_judges_even_costs_as_the_general_code_does(n, share):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 3)), np.where(np.arange(n) < max(1, share * n), 1, -1)
    alpha = np.clip(rng.normal(size=n), 0.0, 0.8)
    alpha[0] = 0.3
    even = KernelProblem.build(X, y, 0.8, RBF(0.5))
    general = KernelProblem.build(X, y, np.full(n, 0.8), RBF(0.5))
    one, other = certify_kernel(even, alpha), certify_kernel(general, alpha)
    assert one.kinks is not None
    assert other.kinks is None
    assert one.b == pytest.approx(other.b, rel=1e-12)
    assert one.outputs == pytest.approx(other.outputs, rel=1e-12, abs=1e-12)
    assert astuple(one.certificate) == pytest.approx(astuple(other.certificate), rel=1e-12)
    assert kernel_offset_bound(even, one) == pytest.approx(kernel_offset_bound(general, other), rel=1e-9)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(0.5, 1.0, 3), Sigmoid(0.2, -0.5)], ids=repr)
@pytest.mark.parametrize("n", [3, 33, 500])
def test_one_compiled_call_judges_every_kernel_of_dot_products(n, kernel):
    """The gap is that of the general code, and both bound their rounding in their own way. The offset's bound is the same."""
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 3)), np.where(np.arange(n) < 0.4 * n, 1, -1)
    alpha = np.clip(rng.normal(size=n), 0.0, 0.8)
    alpha[[0, -1]] = 0.3
    even, general = KernelProblem.build(X, y, 0.8, kernel), KernelProblem.build(X, y, np.full(n, 0.8), kernel)
    alpha = even.nearest_feasible(alpha)
    one, other = certify_kernel(even, alpha), certify_kernel(general, alpha)
    assert (one.kinks is not None, other.kinks) == (True, None)
    assert one.b == pytest.approx(other.b, rel=1e-11)
    assert one.outputs == pytest.approx(other.outputs, rel=1e-11, abs=1e-11)
    assert one.violation == pytest.approx(other.violation, rel=1e-11)
    known = [(verdict.certificate.primal, verdict.certificate.dual, verdict.certificate.gap) for verdict in (one, other)]
    assert known[0] == pytest.approx(known[1], rel=1e-11)
    assert one.certificate.is_proof is other.certificate.is_proof
    assert one.certificate.rounding_error <= 1e-9 * one.certificate.primal
    assert kernel_offset_bound(even, one) == pytest.approx(kernel_offset_bound(general, other), rel=1e-9)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40), st.data())
def test_neighbours_in_order_are_those_of_a_sort(values, data):
    rank = data.draw(st.integers(0, len(values)))
    ordered = [-np.inf, *sorted(values), np.inf]
    assert order.py_func(np.array(values, float), rank) == (ordered[rank], ordered[rank + 1])


def test_an_output_that_is_not_a_number_is_refused_though_its_alpha_is_zero():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.where(np.arange(20) % 2, 1, -1)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5))
    alpha = np.zeros(20)
    alpha[:4] = 0.5
    sums = kernel_certificate.outputs_of(problem, alpha, np.arange(4))
    sums.outputs[11] = np.nan
    assert not kernel_certificate._certificate(problem, alpha, np.arange(4), sums, 0.0).is_proof


def leaped(K, v, s, reach, has_offset, epsilon=0.0, most_free=40):
    """Where a leap of the first twenty samples leads: the outcome, s and v. The others are fixed at zero."""
    n = len(v)
    bound = np.where(np.arange(n) < 20, reach, 0.0)
    vectors = np.stack([v + K @ s, -bound, bound, s, v, np.diag(K)])
    work, free = np.empty((most_free, most_free + 3)), np.empty(most_free, np.uint64)
    outcome = settle(K, vectors, epsilon, has_offset, work, free)[-1]
    return outcome, vectors[3], vectors[4]


@pytest.mark.parametrize("has_offset", [True, False])
@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_a_leap_solves_the_system_of_the_free_samples(has_offset, epsilon):
    rng = np.random.default_rng(1)
    X, s = rng.normal(size=(64, 4)), np.where(np.arange(64) < 20, 1e5, 0.0)
    K, v = np.exp(-np.square(X[:, None] - X).sum(axis=2)), rng.normal(size=64)
    outcome, found, rest = leaped(K, v, s, 1e6, has_offset, epsilon)
    assert outcome == MOVED
    assert not found[20:].any()
    assert rest == pytest.approx(v - K @ (found - s), abs=1e-8)
    slopes = rest[:20] - epsilon
    assert slopes == pytest.approx(np.full(20, slopes.mean() if has_offset else 0.0), abs=1e-7)
    assert found.sum() == pytest.approx(s.sum()) or not has_offset


@pytest.mark.parametrize("has_offset", [True, False])
def test_a_leap_that_would_leave_the_box_is_not_made(has_offset):
    rng = np.random.default_rng(1)
    X, s = rng.normal(size=(64, 4)), np.where(np.arange(64) < 20, 1e-9, 0.0)
    K, v = np.exp(-np.square(X[:, None] - X).sum(axis=2)), rng.normal(size=64)
    outcome, found, rest = leaped(K, v, s, 2e-9, has_offset)
    assert outcome == OUTSIDE
    assert np.array_equal(found, s)
    assert np.array_equal(rest, v)
    assert leaped(K, v, s, 2e-9, has_offset, most_free=19)[0] == MANY


def test_a_leap_takes_equal_samples_as_one():
    rng = np.random.default_rng(1)
    X, s = rng.normal(size=(64, 4)), np.where(np.arange(64) < 20, 1e5, 0.0)
    X[10:20] = X[:10]
    K, y = np.exp(-np.square(X[:, None] - X).sum(axis=2)), rng.normal(size=64)
    y[10:20] = y[:10]
    outcome, found, rest = leaped(K, y - K @ s, s, 1e6, has_offset=True)
    assert outcome == MOVED
    assert rest[:20] == pytest.approx(np.full(20, rest[:20].mean()), abs=1e-7)
    assert np.array_equal(found[10:20], s[10:20] + (found - s)[10:20])


def test_without_a_leap_the_gradient_is_made_anew():
    rng = np.random.default_rng(2)
    y, s = rng.normal(size=64), np.where(rng.random(64) < 0.3, rng.normal(size=64), 0.0)
    K = rng.normal(size=(64, 64))
    K, v = K + K.T, np.zeros(64)
    vectors = np.stack([y, s - 1.0, s + 1.0, s, v, np.diag(K)])
    settle(K, vectors, 0.0, True, np.empty((0, 3)), np.empty(0, np.uint64))
    assert vectors[4] == pytest.approx(y - K @ s)


def test_the_loop_of_the_certificate_refuses_what_is_outside_the_box():
    X, y = samples(80)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.5))
    for wrong in (-1e-9, 1.0 + 1e-9, np.nan):
        alpha = np.full(80, 0.5)
        alpha[7] = wrong
        assert certify_kernel(problem, alpha).certificate.gap == np.inf


def test_a_refused_answer_after_the_last_round_is_handed_over():
    problem = KernelProblem.build(
        np.random.default_rng(0).normal(size=(40, 2)), np.where(np.arange(40) % 2, 1, -1), 1.0, RBF(1.0)
    )
    state = HeldState.of(problem, problem.held, None)
    for _ in range(10):
        state.advance(Budget(10**6, 1e-4))
        if state.has_given_up:
            break
    assert state.has_given_up


def test_rows_of_a_pair_are_copied_when_they_are_asked_for():
    X, chosen = np.arange(20.0).reshape(10, 2), np.array([7, 1, 3])
    rows = ChosenRows(X, chosen)
    assert (rows.n_samples, rows.n_features, rows.n_stored) == (3, 2, 6)
    assert "matrix" not in vars(rows)
    assert np.array_equal(rows.matrix, X[chosen])
    assert rows.compiled(1.0).values.shape == (3, 2)


def test_a_thread_waits_until_another_has_filled_the_matrix():
    rng = np.random.default_rng(5)
    held = held_values(RBF(0.5), Points.of(rng.standard_normal((90, 3))))
    begun, fill = threading.Event(), held._fill

    def slow():
        begun.set()
        time.sleep(0.2)
        return fill()

    held._fill = slow
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lambda: held.padded)
        begun.wait()
        seen = held.values.copy()
        np.testing.assert_array_equal(seen, first.result()[: held.n, : held.n])
    np.testing.assert_allclose(np.diagonal(seen), 1.0)

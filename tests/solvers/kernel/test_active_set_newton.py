"""The optimum of a working set by active-set Newton: optimal to rounding, feasible, and always at an end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.linalg import cholesky
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from maxmargin.solvers.kernel.irwls.active_set_newton import Optimum, Outcome, WorkingSet, optimise
from maxmargin.solvers.kernel.irwls.active_set_newton_loop import OPTIMAL, BlockMemory, Effort, LocalBlock, climb, extremes_of
from maxmargin.solvers.kernel.irwls.cholesky_loops import drop_columns, factor, substitute, substitute_two
from maxmargin.solvers.kernel.irwls.engines import ActiveSetNewton, SetTask
from maxmargin.solvers.kernel.irwls.free_factor import FreeFactor, FreeFactorPolicy
from maxmargin.solvers.kernel.irwls.pair_loops import move_pairs
from maxmargin.solvers.kernel.irwls.selection_loops import kth_lowest
from tests.catalogue import labelled

offsets = pytest.mark.parametrize("has_offset", [False, True])


def working_set(K: np.ndarray, y: np.ndarray, C: float | np.ndarray, has_offset: bool, alpha=None) -> WorkingSet:
    n = len(y)
    alpha = np.zeros(n) if alpha is None else alpha
    return WorkingSet.of_alpha(K, y, np.broadcast_to(np.asarray(C, float), n), alpha, np.zeros(n), has_offset)


def gap(work: WorkingSet, found: Optimum) -> float:
    """The duality gap of the found s as a sum of terms that are never negative, v made anew."""
    right = work.v + work.K @ work.s
    e = right - work.K @ found.s - (found.b if work.has_offset else 0.0)
    return float(np.sum((work.upper - found.s) * np.maximum(e, 0.0) + (found.s - work.lower) * np.maximum(-e, 0.0)))


def dual(work: WorkingSet, s: np.ndarray) -> float:
    return float((work.v + work.K @ work.s) @ s - 0.5 * s @ work.K @ s)


def libsvm(K: np.ndarray, y: np.ndarray, C: float, tol: float) -> np.ndarray:
    model = SVC(C=C, kernel="precomputed", tol=tol).fit(K, y)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.minimum(np.abs(model.dual_coef_[0]), C)
    return alpha


def assert_optimal(work: WorkingSet, found: Optimum, accuracy: float = 1e-12) -> None:
    assert found.outcome in (Outcome.OPTIMAL, Outcome.STILL)
    assert ((found.s >= work.lower) & (found.s <= work.upper)).all()
    total = float(np.abs(found.s).sum())
    if work.has_offset:
        assert abs(found.s.sum() - work.s.sum()) <= 1e-14 * max(1.0, total) * len(found.s)
    assert gap(work, found) <= accuracy * max(1.0, abs(dual(work, found.s)), total * float(np.abs(work.K).max()))


@offsets
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_the_optimum_is_exact_from_a_cold_start_and_from_a_rough_one(kind, C, has_offset):
    X, y = labelled(120, 4, 1.0, 3)
    K = rbf_kernel(X, gamma=0.4) if kind == "rbf" else X @ X.T
    starts = [None, libsvm(K, y, C, 0.1)] if has_offset else [None]
    for alpha in starts:
        work = working_set(K, y, C, has_offset, alpha)
        found = optimise(work, max_iterations=2000)
        assert_optimal(work, found)
        assert dual(work, found.s) >= dual(work, work.s)
    if has_offset:
        reference = libsvm(K, y, C, 1e-10) * y
        assert dual(work, found.s) >= dual(work, reference) * (1.0 - 1e-12)


def test_near_the_optimum_one_factor_is_enough():
    X, y = labelled(200, 4, 1.0, 3)
    K = rbf_kernel(X, gamma=0.4)
    found = optimise(working_set(K, y, 10.0, True, libsvm(K, y, 10.0, 1e-3)))
    assert found.outcome is Outcome.OPTIMAL
    assert found.factorisations == 1
    assert found.iterations <= 10


@offsets
def test_what_the_variables_outside_contribute_is_kept(has_offset):
    """Half of an optimum held fixed: the other half is optimal as it is, and is found again from elsewhere."""
    X, y = labelled(100, 3, 1.0, 5)
    K = rbf_kernel(X, gamma=0.5)
    whole = working_set(K, y, 5.0, has_offset)
    best = optimise(whole)
    inside, outside = np.arange(0, 100, 2), np.arange(1, 100, 2)
    C = np.full(50, 5.0)
    G_in = y[inside] * (K[np.ix_(inside, outside)] @ best.s[outside])
    block = K[np.ix_(inside, inside)]
    here = WorkingSet.of_alpha(block, y[inside], C, best.alpha[inside], G_in, has_offset)
    assert optimise(here).violation <= 1e-12
    start = np.zeros(50)
    if has_offset:  # the constant is the sum that the inside had
        total = best.s[inside].sum()
        side = y[inside] == np.sign(total)
        start[side] = abs(total) / side.sum()
    away = WorkingSet.of_alpha(block, y[inside], C, start, G_in, has_offset)
    again = optimise(away)
    assert_optimal(away, again)
    assert block @ again.s == pytest.approx(block @ best.s[inside], abs=1e-9)


@offsets
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), rank=st.integers(1, 4), C=st.sampled_from([1e-3, 1.0, 100.0]))
@example(seed=1004, n=16, rank=1, C=1.0)
@settings(max_examples=40, deadline=None)
def test_singular_kernels_duplicated_and_contradicting_points_are_solved(has_offset, seed, n, rank, C):
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, size=(n, rank)).astype(float)
    y = np.where(random.random(n) < 0.5, 1.0, -1.0)
    work = working_set(X @ X.T, y, C * random.integers(1, 3, n), has_offset)
    found = optimise(work, max_iterations=5000)
    assert_optimal(work, found, 1e-9 if found.outcome is Outcome.OPTIMAL else 1e-6)  # STILL: rounding of long directions


@offsets
def test_one_free_variable_or_none(has_offset):
    alone = optimise(working_set(np.array([[2.0]]), np.ones(1), 10.0, has_offset))
    assert alone.s == pytest.approx([0.0 if has_offset else 0.5])
    at_their_bounds = optimise(working_set(np.eye(2), np.array([1.0, -1.0]), 0.1, has_offset))
    assert at_their_bounds.s == pytest.approx([0.1, -0.1])
    assert at_their_bounds.outcome is Outcome.OPTIMAL
    one_class = optimise(working_set(np.eye(3), np.ones(3), 1.0, True))
    assert not one_class.s.any()


@offsets
def test_variables_without_weight_stay_where_they_are(has_offset):
    X, y = labelled(40, 3, 1.0, 5)
    C = np.where(np.arange(40) % 3 == 0, 0.0, 2.0)
    work = working_set(rbf_kernel(X, gamma=0.5), y, C, has_offset)
    found = optimise(work)
    assert_optimal(work, found)
    assert not found.s[C == 0.0].any()


@offsets
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_limit_that_is_hit_is_said_and_the_answer_is_feasible_and_no_worse(limit, has_offset):
    X, y = labelled(80, 4, 1.0, 3)
    work = working_set(rbf_kernel(X, gamma=0.4), y, 100.0, has_offset)
    found = optimise(work, max_iterations=limit)
    assert found.outcome is Outcome.LIMIT
    assert found.iterations == limit
    assert ((found.s >= work.lower) & (found.s <= work.upper)).all()
    assert dual(work, found.s) >= 0.0
    if has_offset:
        assert abs(found.s.sum()) <= 1e-12 * max(1.0, np.abs(found.s).sum())


@offsets
def test_a_kernel_that_is_not_positive_semidefinite_ends(has_offset):
    X, y = labelled(60, 3, 1.0, 5)
    for K in (np.tanh(2.0 * X @ X.T + 1.0), -X @ X.T):
        work = working_set(K, y, 1.0, has_offset)
        found = optimise(work, max_iterations=2000)
        assert ((found.s >= work.lower) & (found.s <= work.upper)).all()
        assert dual(work, found.s) >= 0.0


def test_values_that_are_not_finite_are_said():
    K = np.eye(3)
    K[0, 1] = K[1, 0] = np.inf
    work = working_set(np.eye(3), np.array([1.0, -1.0, 1.0]), 1.0, True)
    assert optimise(work._replace(K=K)).outcome is Outcome.NOT_FINITE


@offsets
def test_a_tolerance_ends_it_earlier(has_offset):
    X, y = labelled(100, 4, 1.0, 3)
    work = working_set(rbf_kernel(X, gamma=0.4), y, 10.0, has_offset)
    rough, fine = optimise(work, tolerance=0.1), optimise(work)
    assert fine.violation < rough.violation <= 0.1
    assert rough.iterations < fine.iterations


@offsets
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), rank=st.integers(1, 6), C=st.sampled_from([1e-3, 1.0, 100.0]))
@settings(max_examples=40, deadline=None)
def test_the_compiled_engine_is_optimal_where_it_says_so_and_else_the_other_takes_over(has_offset, seed, n, rank, C):
    random = np.random.default_rng(seed)
    X = random.integers(-2, 3, size=(n, rank)).astype(float)
    y = np.where(random.random(n) < 0.5, 1.0, -1.0)
    work = working_set(X @ X.T, y, C * random.integers(1, 3, n), has_offset)
    solved = ActiveSetNewton().solve(SetTask(work, 0.0, 1e-3, 0.0, 500))
    found = optimise(work, max_iterations=5000)
    assert ((solved.s >= work.lower) & (solved.s <= work.upper)).all()
    assert not has_offset or abs(solved.s.sum()) <= 1e-12 * max(1.0, np.abs(solved.s).sum())
    assert dual(work, solved.s) == pytest.approx(dual(work, found.s), rel=1e-9, abs=1e-9)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), pairs=st.integers(1, 100), C=st.sampled_from([1e-3, 1.0, 100.0]))
@settings(max_examples=40, deadline=None)
@example(seed=960083, n=8, pairs=24, C=100.0)
def test_no_pair_lowers_the_dual_and_every_one_keeps_the_box_and_the_sum(seed, n, pairs, C):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    y = np.where(random.random(n) < 0.5, 1.0, -1.0)
    work = working_set(rbf_kernel(X, gamma=0.3), y, C * random.integers(1, 3, n), True)
    block = LocalBlock(np.ascontiguousarray(work.K), work.lower, work.upper, True, BlockMemory.of(n))
    s, v, best = work.s.copy(), work.v.copy(), dual(work, work.s)
    for _ in range(pairs):
        if move_pairs(block, s, v, 1e-9, 1) == 0:
            break
        rounding = 1e-14 * (np.abs(s).sum() + np.abs(s) @ np.abs(work.K) @ np.abs(s))
        assert dual(work, s) >= best - rounding
        best = dual(work, s)
    assert ((s >= work.lower) & (s <= work.upper)).all()
    assert abs(s.sum()) <= 1e-13 * max(1.0, np.abs(s).sum())
    assert v == pytest.approx(work.v + work.K @ (work.s - s), abs=1e-10 * max(1.0, np.abs(s).sum()))


@pytest.mark.parametrize("n", [2, 7, 33])
def test_many_pairs_in_one_call_are_the_pairs_of_as_many_calls(n):
    random = np.random.default_rng(n)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    work = working_set(rbf_kernel(random.normal(size=(n, 3)), gamma=0.3), y, random.integers(1, 3, n).astype(float), True)
    block = LocalBlock(np.ascontiguousarray(work.K), work.lower, work.upper, True, BlockMemory.of(n))
    s, v, one_s, one_v = work.s.copy(), work.v.copy(), work.s.copy(), work.v.copy()
    steps = move_pairs(block, s, v, 1e-6, 30)
    assert 0 < steps == sum(move_pairs(block, one_s, one_v, 1e-6, 1) for _ in range(30))
    assert s.tobytes() == one_s.tobytes()
    assert v.tobytes() == one_v.tobytes()


@pytest.mark.parametrize("n", [6, 33])
def test_pairs_that_solve_a_working_set_without_a_system_give_it_the_b_that_violates_least(n):
    random = np.random.default_rng(n)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    work = working_set(rbf_kernel(random.normal(size=(n, 3)), gamma=0.3), y, random.integers(1, 3, n).astype(float), True)
    block = LocalBlock(np.ascontiguousarray(work.K), work.lower, work.upper, True, BlockMemory.of(n))
    s, v = work.s.copy(), work.v.copy()
    outcome, systems, b = climb(block, s, v, 7.0, Effort(0.05, 60, 1e-12, 100 * n, False, 2))
    top, bottom = extremes_of(block, s, v)
    assert (outcome, systems) == (OPTIMAL, 0)
    assert 0.0 <= top - bottom <= 0.05
    assert b == pytest.approx(0.5 * (top + bottom), abs=1e-12)


def test_pairs_before_systems_leave_fewer_systems_and_the_same_optimum():
    X, y = labelled(100, 4, 1.0, 3)
    task = SetTask(working_set(rbf_kernel(X, gamma=0.4), y, 100.0, True), 0.0, 1e-3, 0.0, 500)
    with_pairs, without = ActiveSetNewton().solve(task), ActiveSetNewton(pairs_a_sample=0.0).solve(task)
    assert with_pairs.iterations < without.iterations
    assert dual(task.work, with_pairs.s) == pytest.approx(dual(task.work, without.s), rel=1e-12)


@pytest.mark.parametrize("pairs", [-1.0, np.nan, np.inf])
def test_a_number_of_pairs_that_makes_no_sense_is_refused(pairs):
    with pytest.raises(ValueError, match="pairs_a_sample"):
        ActiveSetNewton(pairs)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), k=st.integers(0, 59))
@settings(max_examples=50, deadline=None)
def test_quickselect_finds_what_sorting_finds(seed, n, k):
    values = np.random.default_rng(seed).integers(0, 9, n).astype(float)
    assert kth_lowest(values.copy(), n, k % n) == np.sort(values)[k % n]


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_the_compiled_factor_solves_the_system(seed, n):
    random = np.random.default_rng(seed)
    A = random.normal(size=(n, n))
    matrix, right = A @ A.T + np.eye(n), random.normal(size=n)
    upper, x = matrix.copy(), right.copy()
    assert factor(upper, n)
    substitute(upper, n, x)
    assert matrix @ x == pytest.approx(right, abs=1e-9)
    both, ones = right.copy(), np.ones(n)
    substitute_two(upper, n, both, ones)
    assert both == pytest.approx(x, abs=1e-12 * n)
    assert matrix @ ones == pytest.approx(np.ones(n), abs=1e-9)
    assert not factor(matrix - 1e3 * np.eye(n), n)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), data=st.data())
@settings(max_examples=50, deadline=None)
def test_a_factor_with_columns_dropped_is_that_of_the_smaller_matrix(seed, n, data):
    A = np.random.default_rng(seed).normal(size=(n, n))
    matrix = A @ A.T + np.eye(n)
    places = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=n))), dtype=np.int64)
    kept = np.delete(np.arange(n), places)
    upper = np.ascontiguousarray(cholesky(matrix))
    drop_columns(upper, places)
    expected = cholesky(matrix[np.ix_(kept, kept)]) if len(kept) else np.empty((0, 0))
    assert np.triu(upper[: len(kept), : len(kept)]) == pytest.approx(expected, abs=1e-10 * n)


@pytest.mark.parametrize("rough_from", [1, 1000])
def test_the_factor_follows_the_free_variables(rough_from):
    random = np.random.default_rng(0)
    A = random.normal(size=(80, 80))
    K = A @ A.T + np.eye(80)
    factor, ridge = FreeFactor(K, FreeFactorPolicy(rough_from=rough_from)), random.random(80)
    free = random.random(80) < 0.7
    for _ in range(60):
        free = free.copy()
        free[random.integers(80)] ^= True
        assert factor.follow(free, ridge)
        order = factor.order
        assert np.array_equal(np.sort(order), np.flatnonzero(free))
        right = random.normal(size=(len(order), 2))
        matrix = K[np.ix_(order, order)] + np.diag(ridge[order])
        assert matrix @ factor.solve(right) == pytest.approx(right, abs=1e-9)
    assert factor.updates > 10 * factor.factorisations
    before = factor.factorisations
    assert factor.follow(free, 2.0 * ridge)
    assert factor.factorisations == before + 1


def rbf_matrix(width: float) -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(60, 5))
    return np.exp(-np.square(X[:, None] - X[None]).sum(axis=2) / width)


def test_answers_of_a_factor_in_float32_are_right_to_far_more_digits_than_float32_has():
    K, right = rbf_matrix(2.0), np.random.default_rng(1).normal(size=(60, 2))
    factor = FreeFactor(K, FreeFactorPolicy(rough_from=1))
    assert factor.follow(np.ones(60, bool), np.zeros(60))
    assert factor.is_rough
    assert factor.solve(right) == pytest.approx(np.linalg.solve(K, right), rel=1e-9, abs=1e-9)
    assert factor.is_rough
    assert factor.factorisations == 1


@pytest.mark.parametrize("width", [200.0, 1e4])
def test_a_matrix_too_ill_conditioned_for_float32_is_factored_in_float64(width):
    K, right = rbf_matrix(width), np.random.default_rng(1).normal(size=(60, 2))
    rough, precise = FreeFactor(K, FreeFactorPolicy(rough_from=1)), FreeFactor(K)
    for one in (rough, precise):
        assert one.follow(np.ones(60, bool), np.zeros(60))
    assert np.array_equal(rough.solve(right), precise.solve(right))
    assert not rough.is_rough
    assert rough.follow(np.arange(60) % 2 == 0, np.zeros(60))
    assert not rough.is_rough

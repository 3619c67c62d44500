"""Where pair descent begins: selection by weight, and a start that does not depend on how rows lie in memory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate.linear import Judge
from maxmargin.data.rows import Rows
from maxmargin.problem.one_class import one_class_problem
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.pair_descent import PairDescent
from maxmargin.solvers.linear.pair_descent_loop import Placed, raise_least
from maxmargin.solvers.linear.pair_point import PairPoint
from maxmargin.solvers.linear.pair_policy import PairPolicy
from maxmargin.solvers.linear.pair_start import keys_at, nearest, on_empty_rows
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status


@pytest.mark.parametrize("n", [1, 2, 3, 10, 257])
@pytest.mark.parametrize("n_values", [1, 3, 1000])
@pytest.mark.parametrize("is_even", [True, False])
def test_alpha_is_raised_on_the_least_outputs_until_it_has_the_sum_and_w_follows(n, n_values, is_even):
    rng = np.random.default_rng(n + n_values)
    outputs, X = rng.integers(0, n_values, n + 3).astype(float), rng.integers(-4, 5, (n + 3, 5)).astype(float)
    upper = np.full(n + 3, 2.0) if is_even else rng.integers(0, 5, n + 3).astype(float)
    chosen = np.sort(rng.permutation(n + 3)[:n]).astype(np.uint64)
    places, each = chosen.astype(int), upper[chosen.astype(int)]
    for missing in (0.0, 0.5, 0.3 * each.sum(), each.sum() - 0.5, each.sum()):
        alpha, w = np.zeros(n + 3), np.zeros(6)
        placed = Placed(upper, alpha, outputs.copy(), chosen, np.empty(1, np.uint64))
        raise_least(Rows.from_matrix(X).compiled(0.0), placed, missing, np.empty_like(chosen), w)
        assert alpha.sum() == alpha[places].sum() == pytest.approx(max(0.0, min(missing, each.sum())))
        assert np.all((alpha >= 0.0) & (alpha <= upper))
        assert np.count_nonzero((alpha > 0.0) & (alpha < upper)) <= 1
        is_full, can_rise = alpha[places] > 0.0, alpha[places] < each
        assert outputs[places][is_full].max(initial=-np.inf) <= outputs[places][can_rise].min(initial=np.inf)
        np.testing.assert_allclose(w[:-1], alpha @ X, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 257])
@pytest.mark.parametrize("n_values", [1, 3, 1000])
@pytest.mark.parametrize("is_even", [True, False])
def test_the_key_at_a_weight_is_that_of_the_sample_at_which_the_sum_exceeds_it(n, n_values, is_even):
    rng = np.random.default_rng(n + n_values)
    keys, weights = rng.integers(0, n_values, n).astype(float), rng.integers(0, 5, max(2, n))[:n].astype(float)
    upper = np.array([2.0]) if is_even else weights
    each = np.full(n, upper[0]) if len(upper) == 1 else weights
    order = np.argsort(keys, kind="stable")
    for weight in (0.0, 0.5, 0.3 * each.sum(), each.sum() - 0.5, each.sum(), each.sum() + 1.0):
        exceeds = np.flatnonzero(np.cumsum(each[order]) > weight)
        wanted = keys[order[exceeds[0]]] if len(exceeds) else keys.max()
        assert keys_at(keys, upper, [weight])[0] == (-np.inf if weight <= 0.0 else wanted)


@pytest.mark.parametrize("n_values", [1, 3, 1000])
@pytest.mark.parametrize("n_raised", [0, 3, 50, 97, 100])
def test_the_samples_nearest_to_the_last_that_was_raised_are_on_both_sides_of_it(n_values, n_raised):
    keys = np.random.default_rng(n_values).integers(0, n_values, 100).astype(float)
    is_raised = np.zeros(100, bool)
    is_raised[np.argsort(keys, kind="stable")[:n_raised]] = True
    numbers = nearest(keys, is_raised, 30)
    assert len(numbers) == 30
    assert np.all(np.diff(numbers) > 0)
    ours, others = is_raised[numbers].sum(), 30 - is_raised[numbers].sum()
    assert ours == min(n_raised, max(15, 30 - (100 - n_raised)))
    assert np.array_equal(np.sort(keys[numbers]), np.sort(keys)[n_raised - ours : n_raised + others])


@pytest.mark.parametrize("nu", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_rows_that_are_copied_give_the_answer_of_rows_in_place(nu, is_weighted):
    rng = np.random.default_rng(3)
    X = rng.normal(1.0, 1.0, (20_000, 3))
    problem = one_class_problem(X, nu, rng.uniform(0.5, 2.0, len(X)) if is_weighted else 1.0)
    copied, in_place = (solve(problem, PairDescent(PairPolicy(near_elements=most)), tol=1e-8) for most in (0, 10**9))
    assert copied.status is in_place.status is Status.CERTIFIED
    apart = np.linalg.norm((copied.w - in_place.w)[:-1])
    assert apart <= copied.certificate.distance_bound + in_place.certificate.distance_bound


@pytest.mark.parametrize("nu", [0.05, 0.6])
def test_a_small_problem_has_the_answer_of_the_driver_and_its_bound_on_rho(nu):
    problem = one_class_problem(np.random.default_rng(0).normal(2.0, 1.0, (3000, 4)), nu)
    assert Auto().one_call(problem) is not None
    once, driven = solve(problem, tol=1e-9), solve(problem, tol=1e-9, callback=lambda progress: False)
    assert once.status is driven.status is Status.CERTIFIED
    np.testing.assert_allclose(once.w, driven.w, rtol=1e-7)
    assert 0.0 < once.offset_bound == pytest.approx(driven.offset_bound, rel=1e-6)


def test_a_large_problem_is_left_to_the_driver():
    assert Auto().one_call(one_class_problem(np.ones((110_000, 10)), 0.5)) is None


def test_a_refused_certificate_of_a_small_problem_goes_on_and_the_trace_shows_each():
    rng = np.random.default_rng(1)
    X = np.abs(rng.normal(0.0, 1.0, (12_000, 12))) ** 3
    refused = [solution for nu in (0.05, 0.3, 0.6) if len((solution := solve(one_class_problem(X, nu), tol=1e-10)).trace) > 1]
    assert refused
    for solution in refused:
        assert solution.status is Status.CERTIFIED
        assert {progress.solver for progress in solution.trace} == {"pair-descent"}
        steps = [progress.steps for progress in solution.trace]
        assert steps == sorted(steps)
        assert solution.trace[-1].gap < solution.trace[0].gap


def test_where_the_origin_lies_among_the_samples_w_is_zero_and_the_first_certificate_of_it_is_the_last():
    X = np.random.default_rng(2).normal(0.0, 1.0, (4000, 5))
    problem = one_class_problem(X, 0.8)
    solution = solve(problem, tol=1e-6)
    assert solution.status is Status.CERTIFIED
    assert not solution.w.any()
    assert sum(progress.relative_gap == 0.0 for progress in solution.trace) == 1


@pytest.mark.parametrize("nu", [0.02, 0.3])
def test_working_sets_solved_by_shares_of_the_whole_gap_end_at_the_optimum_of_those_solved_at_once(nu):
    from scipy import sparse

    X = abs(sparse.random(900, 2000, 0.01, format="csr", random_state=0))
    problem = one_class_problem(X, nu)
    shares, at_once = (solve(problem, PairDescent(PairPolicy(fall=fall)), tol=1e-7) for fall in (1e-2, 0.0))
    assert shares.status is at_once.status is Status.CERTIFIED
    apart = np.linalg.norm((shares.w - at_once.w)[:-1])
    assert apart <= shares.certificate.distance_bound + at_once.certificate.distance_bound


def test_text_looks_at_all_samples_before_it_asks_for_a_certificate(monkeypatch):
    """The first working set of text comes from the mean of X, and leaves out samples that matter."""
    rng, order = np.random.default_rng(1), []
    X = sparse.random(1500, 4000, 0.01, "csr", rng=rng)
    look, certify = PairPoint.look, Judge.certify
    monkeypatch.setattr(PairPoint, "look", lambda self: (order.append("look"), look(self))[1])
    monkeypatch.setattr(Judge, "certify", lambda self, *pair: (order.append("certificate"), certify(self, *pair))[1])
    assert solve(one_class_problem(X, 0.5), PairDescent(), tol=1e-3).status is Status.CERTIFIED
    assert order[0] == "look"
    assert order[-1] == "certificate"


@pytest.mark.parametrize("n", [16, 8_000, 60_000, 640_000])
def test_a_working_set_is_a_band_of_standard_errors_in_large_sets_and_a_tenth_in_small_ones(n):
    policy, X = PairPolicy(), np.ones((n, 1))
    problem = one_class_problem(X, 0.5)
    point = PairPoint(problem.rows, problem.box.U, 0.5 * n, policy)
    errors = policy.near_errors / np.sqrt(n // point._every)
    assert point.size == max(policy.least_near, int(min(policy.near_share, errors) * n))


@pytest.mark.parametrize("n", [300_000, 1_000_000, 10_000_000])
def test_the_sample_of_a_large_set_makes_the_rows_of_sample_and_band_fewest(n):
    point = object.__new__(PairPoint)
    point.rows, point.policy = Rows(np.lib.stride_tricks.as_strided(np.ones(1), (n, 1), (0, 8))), PairPolicy()

    def n_rows(every: float) -> float:
        return n / every + point.policy.near_errors * n / np.sqrt(n / every)

    assert point._every > point.policy.sample_every
    assert n_rows(point._every) <= 1.01 * min(n_rows(2.0**k) for k in np.arange(1.0, 12.0, 0.1))


@pytest.mark.parametrize("nu", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("n_columns", [3, 6, 12])
def test_one_hot_columns_are_solved_by_pairs_with_few_certificates(nu, n_columns):
    """Most outputs are equal at the optimum. A sample whose outputs are only nearly so must not part them."""
    X = np.eye(n_columns)[np.random.default_rng(n_columns).integers(0, n_columns, 9000)]
    solution = solve(one_class_problem(X, nu), tol=1e-4)
    assert solution.status is Status.CERTIFIED
    assert {progress.solver for progress in solution.trace} == {"pair-descent"}
    assert len(solution.trace) <= 3


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_w_is_zero_at_once_where_rows_without_elements_can_bear_all_alpha(weighted, tol):
    """Rare columns would otherwise keep the last digits of an alpha that goes to zero."""
    rng = np.random.default_rng(0)
    X = sparse.random(3000, 300, 0.01, random_state=0, data_rvs=lambda n: np.ones(n), format="csr")
    X = sparse.vstack([X, sparse.csr_matrix((200, 300))])[rng.permutation(3200)].tocsr()
    weights = rng.uniform(0.5, 1.5, 3200) if weighted else 1.0
    answer = solve(one_class_problem(X, 0.03, weights), tol=tol)
    assert answer.status is Status.CERTIFIED
    assert not answer.w.any()
    assert len(answer.trace) == 1
    assert not answer.alpha[np.diff(X.indptr) > 0].any()


@pytest.mark.parametrize("total", [0.5, 2.0, 3.5, 6.0])
def test_an_alpha_on_empty_rows_has_the_sum_or_there_is_none(total):
    X = sparse.csr_matrix(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
    upper = np.array([1.0, 5.0, 2.0, 5.0, 0.5])
    alpha = on_empty_rows(Rows.from_matrix(X), upper, total)
    assert (alpha is None) == (total > 3.5)
    if alpha is not None:
        assert alpha.sum() == total
        assert np.all((alpha >= 0.0) & (alpha <= upper))
        assert alpha[1] == alpha[3] == 0.0
    assert on_empty_rows(Rows.from_matrix(X.toarray()), upper, total) is None


def test_one_bound_for_all_samples_gives_what_equal_bounds_give():
    X = np.random.default_rng(5).normal(1.0, 1.0, (4000, 6))
    one, each = (solve(one_class_problem(X, 0.1, weights), tol=1e-6) for weights in (1.0, np.ones(4000)))
    np.testing.assert_allclose(one.alpha, each.alpha, atol=1e-9)
    np.testing.assert_allclose(one.w, each.w, rtol=1e-9)


@pytest.mark.parametrize("nu", [0.05, 0.3])
@pytest.mark.parametrize("target", [1e-2, 1e-4])
def test_a_working_set_after_a_look_at_all_samples_holds_all_whose_alpha_changes(nu, target):
    rng = np.random.default_rng(7)
    X = rng.normal(1.0, 1.0, (20000, 5))
    problem, solver = one_class_problem(X, nu), PairDescent()
    best = solve(problem, tol=1e-11).alpha
    state = solver.init(problem, None, 0)
    while not state.looks_done:
        solver.advance(problem, state, Budget(10**9, target))
    state.longest = float((X * X).sum(axis=1).max())
    state._judge()
    moves = np.flatnonzero(np.abs(best - state.alpha) > 1e-6)
    assert 0 < len(moves) <= len(state.point.chosen) < 0.1 * 20000
    assert np.isin(moves, state.point.chosen).all()

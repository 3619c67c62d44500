"""A better primal point from w(alpha): never worse than what was there, and what it says of itself is true."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar

from maxmargin.data.threads import ThreadPolicy
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber, SquaredHinge
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.avsf import AVSF
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solvers.linear.primal_search import PrimalPoint, PrimalSearch, PrimalSearchPolicy
from maxmargin.solvers.linear.primal_search_loop import loss_along
from maxmargin.solvers.presolve import RenumberedColumns
from tests.catalogue import LOSSES, PROBLEMS, feasible_point, labelled

problems = pytest.mark.parametrize("problem_name", [name for name in PROBLEMS if "float32" not in name])
losses = pytest.mark.parametrize("loss_name", LOSSES)


def offered(point: PrimalPoint, w: np.ndarray) -> float:
    """``offer`` scales what it gets in place."""
    return point.offer(w.copy(), point.problem.margins(w), float(w @ w))


def ascent(problem: LinearProblem, sweeps: int = 12):
    """The w(alpha) of dual coordinate descent after each sweep."""
    solver = DCD(shrinking=None)
    state = solver.init(problem, None, 0)
    for _ in range(sweeps):
        solver.advance(problem, state, Budget(problem.n_samples, 0.0))
        yield solver.candidate(problem, state)[0].copy()


@pytest.mark.parametrize("loss", [*LOSSES.values(), Huber(0.3)], ids=str)
@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 2.5])
def test_the_loss_along_a_line_and_its_derivative_are_those_of_the_textbook(loss, t):
    problem = PROBLEMS["weighted"](loss)
    start, end = (problem.margins(feasible_point(problem, seed)[0]) for seed in (0, 1))

    def value(at: float) -> float:
        return float(problem.C @ problem.loss.value((1.0 - at) * start + at * end))

    total, slope = loss_along(start, end, t, problem.C.copy(), loss.margin_pieces())
    assert total == pytest.approx(value(t), rel=1e-12)
    assert slope == pytest.approx((value(t + 1e-7) - value(t - 1e-7)) / 2e-7, rel=1e-5)


@problems
@losses
def test_it_is_never_worse_than_what_is_offered_nor_than_before(problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    point, last = PrimalPoint(problem), np.inf
    for w in ascent(problem):
        primal = offered(point, w)
        assert primal <= min(problem.primal(w), last) * (1.0 + 1e-13)
        last = primal


@problems
@losses
def test_the_best_point_is_what_it_says_it_is(problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    point = PrimalPoint(problem)
    for w in ascent(problem):
        primal, best = offered(point, w), point.best
        assert primal == best.primal == pytest.approx(problem.primal(best.w), rel=1e-9)
        assert best.margins == pytest.approx(problem.margins(best.w), rel=1e-9, abs=1e-9)
        assert best.sqnorm == pytest.approx(best.w @ best.w, rel=1e-9, abs=1e-300)


@problems
@losses
@pytest.mark.parametrize("factor", [0.02, 0.5, 1.0, 3.0])
def test_on_the_ray_the_minimum_is_found_within_a_few_percent(problem_name, loss_name, factor):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    w = factor * list(ascent(problem, 3))[-1]
    found = offered(PrimalPoint(problem), w)
    best = minimize_scalar(
        lambda t: problem.primal(t * w), bounds=(0.0, PrimalSearchPolicy().farthest), method="bounded", options={"xatol": 1e-10}
    )
    assert found >= best.fun * (1.0 - 1e-6)
    assert found <= 1.05 * best.fun


@losses
def test_between_two_points_nothing_is_lost(loss_name):
    """The second look is on the line between the best point and the new one: convexity makes it better than both ends."""
    problem = PROBLEMS["overlapping"](LOSSES[loss_name])
    point = PrimalPoint(problem)
    for seed in range(6):
        w, _ = feasible_point(problem, seed)
        alone = offered(PrimalPoint(problem), w)
        assert offered(point, w) <= alone * (1.0 + 1e-13)


@losses
def test_the_best_point_owns_its_memory(loss_name):
    problem = PROBLEMS["overlapping"](LOSSES[loss_name])
    point, w = PrimalPoint(problem), next(ascent(problem))
    margins = problem.margins(w)
    primal = point.offer(w, margins, float(w @ w))
    w[:], margins[:] = np.nan, np.nan
    assert problem.primal(point.best.w) == pytest.approx(primal)


@losses
def test_a_w_of_zero_is_survived(loss_name):
    problem = PROBLEMS["overlapping"](LOSSES[loss_name])
    point = PrimalPoint(problem)
    assert offered(point, np.zeros(6)) == pytest.approx(problem.primal(np.zeros(6)))
    for w in ascent(problem, 3):
        assert offered(point, w) < problem.primal(np.zeros(6))


def with_features_of_one_row(loss, dtype=np.float64) -> LinearProblem:
    """Sparse, with features that two rows in three have for themselves, one or three of them, and with an intercept."""
    base = PROBLEMS["sparse"](loss)
    own = sparse.diags_array(np.where(np.arange(150) % 3, 1.3, 0.0)).tocsr()
    more = sparse.diags_array(np.where(np.arange(150) % 3 == 1, -0.7, 0.0)).tocsr()
    for matrix in (own, more):
        matrix.eliminate_zeros()
    X = sparse.hstack([own, base.rows.matrix, more, 2.0 * more], format="csr").astype(dtype)
    return LinearProblem.build(X, base.y, 3.0, loss, 1.0)


@losses
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_on_a_reduced_problem_the_value_is_that_of_the_expanded_w(loss_name, dtype):
    problem = with_features_of_one_row(LOSSES[loss_name], dtype)
    reduction, solver = RenumberedColumns.of(problem), AVSF()
    assert reduction.problem.folded.any()
    search = PrimalSearch(reduction.problem, reduction)
    state, last = solver.init(reduction.problem, None, 0), np.inf
    accuracy = 1e-9 if dtype is np.float64 else 1e-5
    for _ in range(10):
        solver.advance(reduction.problem, state, Budget(150, 0.0))
        primal = search.look(*solver.candidate(reduction.problem, state))
        w, alpha = search.candidate(state.samples["alpha"])
        assert problem.primal(w) == pytest.approx(primal, rel=accuracy)
        assert primal <= min(last, problem.primal(problem.weights(alpha))) * (1.0 + accuracy)
        assert alpha is state.samples["alpha"] or np.shares_memory(alpha, state.samples)
        last = primal


@losses
def test_before_any_look_the_candidate_is_looked_for(loss_name):
    problem = with_features_of_one_row(LOSSES[loss_name])
    reduction = RenumberedColumns.of(problem)
    _, alpha = feasible_point(problem, 0)
    w, _ = PrimalSearch(reduction.problem, reduction).candidate(alpha)
    assert problem.primal(w) <= problem.primal(problem.weights(alpha)) * (1.0 + 1e-12)


def test_without_a_reduction_it_is_the_search_on_the_problem_itself():
    problem = LinearProblem.build(*labelled(60, 5, 1.0, 0), 30.0, SquaredHinge(), 1.0)
    search, point = PrimalSearch(problem, None), PrimalPoint(problem)
    for w in ascent(problem, 5):
        assert search.look(w, np.zeros(60)) == pytest.approx(offered(point, w), rel=1e-9)
    assert problem.primal(search.candidate(np.zeros(60))[0]) == pytest.approx(point.best.primal, rel=1e-9)


def test_threads_measure_the_same_margins(monkeypatch):
    problem = with_features_of_one_row(Hinge())
    reduction = RenumberedColumns.of(problem)
    _, alpha = feasible_point(problem, 0)
    w = reduction.problem.weights(alpha)
    alone = PrimalSearch(reduction.problem, reduction).look(w, alpha)
    monkeypatch.setattr("maxmargin.data.threads.POLICY", ThreadPolicy(elements_a_thread=1))
    monkeypatch.setattr("maxmargin.data.threads.available_cores", lambda: 3)
    assert PrimalSearch(reduction.problem, reduction).look(w, alpha) == pytest.approx(alone, rel=1e-12)

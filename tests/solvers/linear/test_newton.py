"""Semismooth Newton on the augmented Lagrangian: its passes against NumPy, its theorems, and how few steps it needs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from maxmargin.certificate.linear import certify
from maxmargin.data.threads import Crew, ThreadPolicy
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, LeastSquares, SquaredHinge
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.newton.hessian import FreeHessian, Regulariser
from maxmargin.solvers.linear.newton.iteration import finished
from maxmargin.solvers.linear.newton.line_search import looks_for_root
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.passes import CompiledPasses, DensePasses, Passes, Prox, curve_of, passes_for
from maxmargin.solvers.linear.newton.policy import HessianPolicy, NewtonPolicy, default_policy
from maxmargin.solvers.linear.newton.state import NewtonState
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import LOSSES, PROBLEMS, feasible_point, labelled

problems = pytest.mark.parametrize("problem_name", PROBLEMS)
losses = pytest.mark.parametrize("loss_name", LOSSES)


def small_up_to(monkeypatch, elements: int) -> None:
    """Let every ``Newton`` that is made from here on take a problem of so many elements for a small one."""
    matrix = HessianPolicy(small_elements=elements)
    monkeypatch.setattr("maxmargin.solvers.linear.newton.policy.DEFAULT", NewtonPolicy(matrix=matrix))


@pytest.fixture(params=["compiled", "numpy"])
def passes_of(request, monkeypatch):
    """Which passes are used: the compiled ones, which small problems do not see, or those in NumPy."""
    small_up_to(monkeypatch, 0 if request.param == "compiled" else 10**9)
    return {"compiled": CompiledPasses, "numpy": DensePasses}[request.param]


MOST_STEPS = {"hinge": 60, "squared_hinge": 12, "least_squares": 3}


def columns(problem: LinearProblem) -> np.ndarray:
    """X in float64 with the constant feature, as the compiled loops see it: with a zero column if there is no intercept."""
    X = problem.rows.matrix.toarray() if problem.rows.is_sparse else problem.rows.matrix
    return np.column_stack([X.astype(np.float64), np.full(len(X), problem.intercept_scaling)])


def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxmargin.data.threads.POLICY", ThreadPolicy(elements_a_thread=1))
    monkeypatch.setattr("maxmargin.data.threads.available_cores", lambda: 3)


# How far, how fast


@problems
@losses
def test_a_bounded_number_of_steps_ends_at_1e_minus_10_on_every_problem(passes_of, problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    solution = solve(problem, "newton", tol=1e-10)
    assert solution.status is Status.CERTIFIED
    assert solution.certificate.meets(1e-10)
    assert solution.steps <= MOST_STEPS[loss_name] * problem.n_samples
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4, 1e6])
def test_the_number_of_steps_hardly_depends_on_C(C):
    problem = LinearProblem.build(*labelled(300, 10, 1.0, 0), C)
    solution = solve(problem, "newton", tol=1e-8)
    assert solution.status is Status.CERTIFIED
    assert solution.epochs <= 60


@problems
@losses
def test_from_the_optimum_few_steps_lead_to_rounding_error(passes_of, problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    optimum = solve(problem, "newton", tol=1e-10)
    warm = solve(problem, "newton", tol=0.0, warm_start=optimum)
    assert warm.epochs <= 12
    assert warm.certificate.relative_gap <= 1e-10


def test_a_newton_step_is_counted_as_an_epoch(passes_of):
    problem, solver = PROBLEMS["overlapping"](Hinge()), Newton()
    state = solver.init(problem, None, 0)
    for count in (1, 2, 3):
        solver.advance(problem, state, Budget(1, 0.0))
        assert state.steps == count * problem.n_samples
    solver.advance(problem, state, Budget(2 * problem.n_samples, 0.0))
    assert state.steps == 5 * problem.n_samples
    limited = solve(problem, "newton", tol=1e-10, max_epochs=4)
    assert (limited.status, limited.epochs) == (Status.EPOCH_LIMIT, 4.0)


def test_least_squares_is_solved_by_one_step(passes_of):
    problem = PROBLEMS["overlapping"](LeastSquares())
    state = Newton().init(problem, None, 0)
    finished(state.step())
    X = problem.rows.matrix
    exact = np.linalg.solve(np.eye(6) + 2.0 * X.T @ X, 2.0 * X.T @ problem.y)
    assert state.w[:6] == pytest.approx(exact, rel=1e-12)


@losses
def test_chunks_change_nothing_bit_for_bit(passes_of, loss_name):
    problem, solver = PROBLEMS["weighted"](LOSSES[loss_name]), Newton()
    whole, chunked = solver.init(problem, None, 0), solver.init(problem, None, 0)
    solver.advance(problem, whole, Budget(8 * problem.n_samples, 1e-9))
    while chunked.steps < whole.steps:
        solver.advance(problem, chunked, Budget(1, 1e-9))
    assert np.array_equal(whole.w, chunked.w)
    assert np.array_equal(whole.alpha, chunked.alpha)


# The passes over the samples


def random_margins(problem: LinearProblem, seed: int) -> tuple[np.ndarray, ...]:
    """Margins, a direction, and an anchor in the box."""
    rng = np.random.default_rng(seed)
    w, anchor = feasible_point(problem, seed)
    return problem.margins(w).astype(np.float64), rng.normal(size=problem.n_samples), anchor


def answer(problem: LinearProblem, margin: np.ndarray, anchor: np.ndarray, penalty: float) -> np.ndarray:
    """The alpha in the box that maximises a alpha - D alpha^2 / 2 - alpha m - (alpha - anchor)^2 / (2 s C)."""
    box = problem.box
    with np.errstate(all="ignore"):
        wanted = (box.p - margin + anchor / (penalty * problem.C)) / (box.D + 1.0 / (penalty * problem.C))
    return np.clip(np.where(problem.C > 0.0, wanted, 0.0), box.L, box.U)


def prox(problem: LinearProblem, anchor: np.ndarray, penalty: float) -> Prox:
    return Prox.of(anchor, penalty, curve_of(problem).softness)


def penalties(loss_name: str) -> tuple[float, ...]:
    """A smooth loss needs no proximal term."""
    return (0.3, 1e3) if loss_name == "hinge" else (0.3, 1e3, np.inf)


def make(passes_of: type, problem: LinearProblem) -> Passes:
    passes = passes_for(problem, curve_of(problem), default_policy())
    assert type(passes) is passes_of
    return passes


@problems
@losses
@pytest.mark.parametrize("which", [0, -1])
def test_respond_is_the_clipped_answer_and_what_follows_from_it(passes_of, problem_name, loss_name, which):
    problem, penalty = PROBLEMS[problem_name](LOSSES[loss_name]), penalties(loss_name)[which]
    passes, n, X = make(passes_of, problem), problem.n_samples, columns(problem)
    margin, _, anchor = random_margins(problem, 1)
    alpha, free = np.random.default_rng(1).random(n) * (problem.C > 0.0), np.arange(n) % 2 == 0
    assert passes.restart(alpha) == pytest.approx(X.T @ (alpha * problem.y), rel=1e-12, abs=1e-12 * np.abs(X).sum())
    was_free = free.copy()
    sums = passes.respond(margin, prox(problem, anchor, penalty), alpha, free)

    scale = prox(problem, anchor, penalty).rate * problem.C.max()
    assert alpha == pytest.approx(answer(problem, margin, anchor, penalty), rel=1e-12, abs=1e-13 * scale)
    scale = np.abs(X).T @ np.abs(alpha) + np.abs(X).sum() * 1e-3
    assert np.all(np.abs(sums.w_alpha - X.T @ (alpha * problem.y)) <= 1e-11 * scale)
    inside = (problem.box.L < alpha) & (alpha < problem.box.U)
    assert np.array_equal(free, inside)
    assert sums.n_free == inside.sum()
    flips = np.flatnonzero(inside != was_free)
    noted = np.concatenate([*passes.hessian.pending, np.empty(0, np.int64)])
    assert np.array_equal(noted, np.where(inside[flips], flips, ~flips))
    value = np.sum(alpha - 0.5 * problem.box.D * np.square(alpha))
    assert sums.linear == pytest.approx(value, rel=1e-11, abs=1e-11 * np.abs(alpha).sum())
    gap_terms = problem.loss.gap_terms(margin, alpha, problem.C).sum()
    loss = problem.C @ problem.loss.value(margin)
    assert sums.gap_terms == pytest.approx(gap_terms, rel=1e-11, abs=1e-15 * loss)
    assert sums.loss == pytest.approx(loss, rel=1e-9)


def loss_part(problem: LinearProblem, margin: np.ndarray, anchor: np.ndarray, penalty: float) -> float:
    """sum_i phi_i(m_i) = max over the box of a alpha - D alpha^2 / 2 - alpha m - (alpha - anchor)^2 / (2 s C)."""
    alpha, present = answer(problem, margin, anchor, penalty), problem.C > 0.0
    proximal = np.square(alpha - anchor)[present] / (2.0 * penalty * problem.C[present])
    return float(np.sum(problem.box.terms(alpha) - alpha * margin) - np.sum(proximal))


@losses
@pytest.mark.parametrize("problem_name", ["overlapping", "weighted", "sparse", "contradictions"])
@pytest.mark.parametrize("t", [0.0, 0.4, 1.7])
def test_slope_is_the_derivative_along_the_direction(passes_of, problem_name, loss_name, t):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    passes, penalty = make(passes_of, problem), 1.5 if loss_name == "hinge" else np.inf
    margin, direction, anchor = random_margins(problem, 2)

    def measured(at: float) -> tuple[float, float]:
        return passes.slope(margin, direction, prox(problem, anchor, penalty), at)

    def value(at: float) -> float:
        return loss_part(problem, margin + at * direction, anchor, penalty)

    first, second = measured(t)
    alpha = answer(problem, margin + t * direction, anchor, penalty)
    assert first == pytest.approx(-float(alpha @ direction), rel=1e-12)
    assert first == pytest.approx((value(t + 1e-6) - value(t - 1e-6)) / 2e-6, rel=1e-5)
    # no sample passes a kink within so small a step
    assert second == pytest.approx((measured(t + 1e-9)[0] - measured(t - 1e-9)[0]) / 2e-9, rel=1e-3)


@problems
def test_products_are_the_margins(passes_of, problem_name):
    problem = PROBLEMS[problem_name](Hinge())
    w, _ = feasible_point(problem, 4)
    padded, products = np.zeros(problem.rows.n_features + 1), np.empty(problem.n_samples)
    padded[: problem.n_weights] = w
    make(passes_of, problem).products(padded, products)
    assert products == pytest.approx(problem.y * (columns(problem) @ padded), rel=1e-12, abs=1e-12)


@losses
@pytest.mark.parametrize("problem_name", ["overlapping", "sparse", "float32", "weighted"])
def test_the_compiled_passes_and_those_in_numpy_lead_to_the_same_optimum(monkeypatch, problem_name, loss_name):
    problem, answers = PROBLEMS[problem_name](LOSSES[loss_name]), []
    for small in (0, 10**9):
        small_up_to(monkeypatch, small)
        answers.append(solve(problem, "newton", tol=1e-11))
    compiled, numpy = answers
    assert compiled.status is numpy.status is Status.CERTIFIED
    assert abs(compiled.epochs - numpy.epochs) <= 5
    reach = compiled.certificate.distance_bound + numpy.certificate.distance_bound
    assert np.linalg.norm(compiled.w - numpy.w) <= reach


# The inner problem


def inner_values(state: NewtonState) -> tuple[float, float]:
    """F(w), and D_k(a) = D(a) - sum_i (a_i - anchor_i)^2 / (2 s C_i), by the textbook, on the problem that Newton sees."""
    problem = state.problem
    X, R = columns(problem), problem.regulariser
    F = 0.5 * R @ np.square(state.w) + loss_part(problem, problem.y * (X @ state.w), state.anchor, state.penalty)
    alpha, present = state.alpha, problem.C > 0.0
    D = np.sum(alpha - 0.5 * problem.box.D * np.square(alpha)) - 0.5 * R @ np.square(X.T @ (alpha * problem.y))
    D -= np.sum(np.square(alpha - state.anchor)[present] / (2.0 * state.penalty * problem.C[present]))
    return float(F), float(D)


@losses
@pytest.mark.parametrize("problem_name", ["overlapping", "with-intercept", "weighted", "sparse", "float32", "wide"])
def test_the_gap_of_the_inner_problem_is_half_the_squared_gradient(passes_of, problem_name, loss_name):
    problem, solver = PROBLEMS[problem_name](LOSSES[loss_name]), Newton()
    start = 0.5 * feasible_point(problem, 3)[1]
    state = solver.init(problem, start, 0)
    for _ in range(8):
        F, D = inner_values(state)
        assert state.inner_gap == pytest.approx(0.5 * state.gradient @ state.gradient)
        assert F - D == pytest.approx(state.inner_gap, abs=1e-10 * abs(F))
        solver.advance(problem, state, Budget(1, 0.0))


@losses
def test_a_step_never_raises_the_inner_objective_and_an_outer_step_never_lowers_the_dual(loss_name):
    problem, solver = PROBLEMS["with-intercept"](LOSSES[loss_name]), Newton()
    state = solver.init(problem, None, 0)
    for _ in range(25):
        if state.solves_inner_problem(solver.acceptance):
            anchor_dual = state.anchor_dual
            finished(state.go_outside(2.0))
            assert state.anchor_dual >= anchor_dual
            assert state.anchor_dual == pytest.approx(problem.dual(state.anchor), rel=1e-12)
        before = inner_values(state)[0]
        finished(state.step())
        assert inner_values(state)[0] <= before + 1e-13 * abs(before)


@losses
@pytest.mark.parametrize("problem_name", ["overlapping", "with-intercept", "weighted", "wide", "large-C"])
@pytest.mark.parametrize("seed", range(3))
def test_the_line_search_finds_the_minimum_of_a_dense_grid(passes_of, problem_name, loss_name, seed):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    state = Newton().init(problem, 0.5 * feasible_point(problem, seed)[1], 0)
    direction = -state.gradient * np.random.default_rng(seed).uniform(0.5, 2.0, size=len(state.gradient))
    start, X = state.w.copy(), columns(state.problem)
    state.passes.products(direction, state.along)
    found = state._search(direction)

    def value(t: float) -> float:
        w = start + t * direction
        return 0.5 * w @ w + loss_part(problem, problem.y * (X @ w), state.anchor, state.penalty)

    assert found > 0.0
    least = min(value(t) for t in np.linspace(0.0, 3.0 * found, 1000))
    assert value(found) <= least + 1e-6 * (value(0.0) - least)


@pytest.mark.parametrize("root", [3.0, 0.9, 0.02, 1e-6, 1e-20, 1e-40])
def test_a_few_looks_at_several_lengths_find_the_root_of_a_rising_function(root):
    def look(t: float) -> tuple[float, float]:
        return (5.0 * (t - root), 5.0) if t > root else (t - root, 1.0)

    looks, n_looks, found = looks_for_root(6, 0.45, 8), 0, 0.0
    lengths = next(looks)
    while found == 0.0:
        n_looks += 1
        try:
            lengths = looks.send([look(t) for t in lengths])
        except StopIteration as end:
            found = float(end.value)
    assert n_looks <= (1 if root > 0.02 else 6)
    assert 0.45 * root <= found <= root / 0.45


# The Hessian


def from_scratch(problem: LinearProblem, weight: np.ndarray, free: np.ndarray) -> np.ndarray:
    X = columns(problem)[free]
    return (X.T * weight[free]) @ X


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("d", "in_float32"), [(7, True), (40, True), (40, False)])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_hessian_kept_up_to_date_by_changes_equals_one_built_from_scratch(monkeypatch, layout, d, in_float32, threads):
    if threads == 3:
        three_threads(monkeypatch)
    X, y = labelled(200, d, 1.0, 0)
    problem = LinearProblem.build(layout(X), y, np.linspace(0.0, 2.0, 200), Hinge(), 1.0)
    hessian = FreeHessian(problem, np.ascontiguousarray(problem.C), Crew(problem.rows.n_stored), in_float32)
    assert hessian.uses_blas == (d == 40)
    accuracy = 1e-5 if hessian.uses_blas and in_float32 else 1e-12
    rng, free = np.random.default_rng(0), np.zeros(200, bool)
    for share in (0.5, 0.01, 0.2, 0.02, 0.9, 0.01):
        flips = np.flatnonzero(rng.random(200) < share)
        free[flips] ^= True
        hessian.note(np.where(free[flips], flips, ~flips))
        if share == 0.2:
            continue  # two lists of changes are as good as one
        hessian.update(free, int(free.sum()))
        assert not hessian.pending
        wanted = from_scratch(problem, problem.C, free)
        assert np.abs(np.tril(hessian.sums.sum(axis=0) - wanted)).max() <= accuracy * np.abs(wanted).max()
    kept = hessian.sums.sum(axis=0)
    hessian.rebuild(free)
    assert np.abs(np.tril(hessian.sums.sum(axis=0) - kept)).max() <= accuracy * np.abs(kept).max()


@pytest.mark.parametrize("d", [7, 40])
def test_the_hessian_in_numpy_kept_up_to_date_by_changes_equals_one_built_from_scratch(d):
    X, y = labelled(200, d, 1.0, 0)
    problem = LinearProblem.build(X, y, np.linspace(0.0, 2.0, 200), Hinge(), 1.0)
    hessian = DensePasses(problem, curve_of(problem), HessianPolicy()).hessian
    rng, free = np.random.default_rng(0), np.zeros(200, bool)
    for share in (0.5, 0.01, 0.2, 0.9, 0.01):
        flips = np.flatnonzero(rng.random(200) < share)
        free[flips] ^= True
        hessian.note(np.where(free[flips], flips, ~flips))
        hessian.update(free, int(free.sum()))
        wanted = from_scratch(problem, problem.C, free)
        assert np.abs(hessian.sums.sum(axis=0) - wanted).max() <= 1e-12 * np.abs(wanted).max()


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("d", [7, 40])
def test_the_newton_direction_solves_the_newton_system(layout, d):
    X, y = labelled(200, d, 1.0, 0)
    problem = LinearProblem.build(layout(X), y, 1.0, Hinge(), 1.0)
    hessian = FreeHessian(problem, np.ascontiguousarray(problem.C), Crew(problem.rows.n_stored), in_float32=False)
    free, gradient = np.arange(200) % 3 == 0, np.random.default_rng(0).normal(size=d + 1)
    hessian.rebuild(free)
    direction = hessian.solve(2.5, Regulariser(problem.regulariser), gradient, free)
    exact = np.linalg.solve(np.diag(problem.regulariser) + 2.5 * from_scratch(problem, problem.C, free), -gradient)
    assert direction == pytest.approx(exact, rel=1e-9)


def test_a_matrix_that_single_precision_made_indefinite_is_made_anew_in_double():
    X, y = labelled(200, 40, 1.0, 0)
    X[:, 20:] = X[:, :20] * np.linspace(0.5, 1.7, 20)
    problem = LinearProblem.build(1e4 * X, y)
    hessian, free = FreeHessian(problem, np.ones(200), Crew(problem.rows.n_stored)), np.ones(200, bool)
    gradient = np.random.default_rng(0).normal(size=41)
    hessian.rebuild(free)
    direction = hessian.solve(1.0, Regulariser(problem.regulariser), gradient, free)
    assert not hessian.in_float32
    exact = np.linalg.solve(np.eye(41) + from_scratch(problem, problem.C, free), -gradient)
    assert direction == pytest.approx(exact, rel=1e-3, abs=1e-3 * np.abs(exact).max())


def test_a_matrix_that_overflows_gives_no_direction():
    problem = LinearProblem.build(np.full((4, 2), 1e200), [1, -1, 1, -1])
    hessian, free = FreeHessian(problem, np.ones(4), Crew(8)), np.ones(4, bool)
    with np.errstate(over="ignore"):
        hessian.rebuild(free)
    assert hessian.solve(1.0, Regulariser(problem.regulariser), np.ones(3), free) is None


@pytest.mark.parametrize("d", [33, 60])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_single_precision_in_the_hessian_costs_few_steps_and_no_accuracy(monkeypatch, d, loss, C):
    small_up_to(monkeypatch, 0)
    problem = LinearProblem.build(*labelled(400, d, 2.0, 1), C, loss)
    single = solve(problem, "newton", tol=1e-8)
    in_double = partial(FreeHessian, in_float32=False)
    monkeypatch.setattr("maxmargin.solvers.linear.newton.passes.FreeHessian", in_double)
    double = solve(problem, "newton", tol=1e-8)
    assert single.status is double.status is Status.CERTIFIED
    assert single.epochs <= 1.5 * double.epochs + 5
    assert np.linalg.norm(single.w - double.w) <= single.certificate.distance_bound + double.certificate.distance_bound


# Threads


@losses
@pytest.mark.parametrize("problem_name", ["overlapping", "sparse", "weighted", "wide"])
def test_threads_change_the_answer_by_rounding_alone(monkeypatch, problem_name, loss_name):
    small_up_to(monkeypatch, 0)
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    alone = solve(problem, "newton", tol=1e-11)
    three_threads(monkeypatch)
    assert Newton().init(problem, None, 0).passes.crew.size == 3
    together, again = solve(problem, "newton", tol=1e-11), solve(problem, "newton", tol=1e-11)
    assert together.status is Status.CERTIFIED
    assert together.certificate.primal == pytest.approx(alone.certificate.primal, rel=1e-10)
    assert np.linalg.norm(together.w - alone.w) <= together.certificate.distance_bound + alone.certificate.distance_bound
    assert np.array_equal(together.w, again.w)
    assert np.array_equal(together.alpha, again.alpha)


@losses
def test_a_step_of_three_threads_equals_a_step_of_one(monkeypatch, loss_name):
    small_up_to(monkeypatch, 0)
    problem, solver = PROBLEMS["sparse"](LOSSES[loss_name]), Newton()
    alone = solver.init(problem, None, 0)
    three_threads(monkeypatch)
    together = solver.init(problem, None, 0)
    for _ in range(4):
        for state in (alone, together):
            solver.advance(problem, state, Budget(1, 0.0))
        assert together.w == pytest.approx(alone.w, rel=1e-7, abs=1e-9)
        assert together.dual == pytest.approx(alone.dual, rel=1e-9)
        assert together.least_primal == pytest.approx(alone.least_primal, rel=1e-9)


# The edge of float64


@losses
@pytest.mark.parametrize("scale", [1e-160, 1e-100, 1e100, 1e154, 1e160])
@pytest.mark.parametrize("C", [1e-300, 1e-10, 1e10, 1e300])
def test_whatever_the_scale_it_ends_with_an_honest_status(passes_of, loss_name, scale, C):
    X, y = labelled(30, 3, 1.0, 0)
    problem = LinearProblem.build(scale * X, y, C, LOSSES[loss_name], 1.0)
    solution = solve(problem, "newton", tol=1e-6, max_epochs=500)
    assert solution.status is not Status.STOPPED
    assert solution.status.is_certified == certify(problem, solution.w, solution.alpha).meets(1e-6)
    assert np.isfinite(solution.w).all()


@pytest.mark.parametrize("penalty", [1e-8, 1e-3, 1e6, 1e12, 1e300])
def test_a_penalty_that_is_far_off_costs_steps_and_never_honesty(penalty):
    problem = PROBLEMS["overlapping"](Hinge())
    solution = solve(problem, Newton(penalty=penalty), tol=1e-6, max_epochs=300)
    assert solution.status in (Status.CERTIFIED, Status.PRECISION_LIMIT, Status.EPOCH_LIMIT)
    assert solution.status.is_certified == certify(problem, solution.w, solution.alpha).meets(1e-6)
    assert solution.status is Status.CERTIFIED or penalty > 1e6


@pytest.mark.parametrize("name", ["penalty", "cold_penalty", "acceptance", "fall"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_settings_that_make_no_sense_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be positive and finite; got {value!r}"):
        Newton(**{name: value})


@pytest.mark.parametrize("scale", [1e154, 1e160])
@pytest.mark.parametrize("solver", ["newton", "auto"])
def test_no_nan_comes_out_of_an_overflow(scale, solver):
    X, y = labelled(30, 3, 1.0, 0)
    solution = solve(LinearProblem.build(scale * X, y, 1e10, Hinge(), 1.0), solver, tol=1e-6, max_epochs=500)
    assert np.isfinite(solution.w).all()
    assert np.isfinite(solution.alpha).all()


@pytest.mark.parametrize("solver", ["newton", "auto"])
def test_a_feature_on_another_scale_leaves_an_answer_no_worse_than_zero(solver):
    X = np.random.default_rng(853167).normal(size=(31, 7))
    X[:, 0] *= 1e8
    problem = LinearProblem.build(X, np.where(np.arange(31) % 3 == 0, 1, -1), 1.0, Hinge(), 1.0)
    solution = solve(problem, solver, tol=1e-6, max_epochs=300)
    assert solution.certificate.primal <= problem.primal(np.zeros(problem.n_weights))

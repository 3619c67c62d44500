"""Every solver x every problem of the catalogue: certified, in agreement, and invariant where the mathematics is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC as ReferenceSVC

from maxmargin.certificate.linear import certify
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, LeastSquares, SquaredHinge
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.dcd import DCD, Order, Shrinking
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import LOSSES, PROBLEMS, SOLVERS, labelled

problems = pytest.mark.parametrize("problem_name", PROBLEMS)
losses = pytest.mark.parametrize("loss_name", LOSSES)
solvers = pytest.mark.parametrize("solver_name", SOLVERS)


@problems
@losses
@solvers
def test_every_solver_is_certified_on_every_problem(problem_name, loss_name, solver_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    solution = solve(problem, SOLVERS[solver_name], tol=1e-6)
    assert solution.status is Status.CERTIFIED
    assert solution.certificate.meets(1e-6)
    assert problem.is_feasible(solution.alpha)
    assert certify(problem, solution.w, solution.alpha) == solution.certificate
    assert solver_name == "auto" or solution.trace[-1].solver == SOLVERS[solver_name].name


@problems
@losses
def test_any_two_solvers_agree_within_their_certified_distances(problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    answers = [solve(problem, solver, tol=1e-7) for solver in SOLVERS.values()]
    for one in answers:
        for other in answers:
            reach = one.certificate.distance_bound + other.certificate.distance_bound
            assert np.linalg.norm(one.w - other.w) <= reach
            assert one.certificate.dual <= other.certificate.primal * (1.0 + 1e-12)


def liblinear(problem: LinearProblem) -> np.ndarray:
    """The w of LIBLINEAR for the same problem, at its tightest: the best of five runs, because some orders end it early."""
    return min((liblinear_once(problem) for _ in range(5)), key=problem.primal)


def liblinear_once(problem: LinearProblem) -> np.ndarray:
    from liblinear.liblinear import liblinear as library
    from liblinear.liblinear import parameter, toPyModel
    from liblinear.liblinear import problem as training_set

    kind = 3 if isinstance(problem.loss, Hinge) else 1
    bias = problem.intercept_scaling or -1
    X = sparse.csr_matrix(problem.rows.matrix.astype(np.float64))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    data = training_set(problem.y.astype(np.float64), X, bias)
    model = toPyModel(library.train(data, parameter(f"-s {kind} -c {float(problem.C[0])!r} -e 1e-10 -q")))
    w = np.array(model.w[: problem.n_weights])
    return w if model.get_labels()[0] == 1 else -w


@pytest.mark.parametrize("problem_name", [name for name in PROBLEMS if name != "weighted"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared_hinge"])
def test_liblinear_lies_within_the_certified_distances(problem_name, loss):
    problem = PROBLEMS[problem_name](loss)
    ours = solve(problem, tol=1e-9, max_epochs=50_000)
    theirs = liblinear(problem)
    judged = certify(problem, theirs, ours.alpha)
    assert np.linalg.norm(ours.w - theirs) <= ours.certificate.distance_bound + judged.distance_bound
    assert ours.certificate.dual <= judged.primal * (1.0 + 1e-12)
    assert judged.relative_gap < 1e-2 or problem_name == "large-C"  # there it ends after 1000 sweeps, far from the optimum


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss_name", ["hinge", "squared_hinge"])
def test_scikit_learn_lies_within_the_certified_distances_on_weighted_samples(loss_name):
    problem = PROBLEMS["weighted"](LOSSES[loss_name])
    reference = ReferenceSVC(loss=loss_name, tol=1e-10, max_iter=100_000, dual=True)
    reference.fit(problem.rows.matrix, problem.y, sample_weight=problem.C)
    theirs = np.append(reference.coef_, reference.intercept_)
    ours = solve(problem, tol=1e-10, max_epochs=50_000)
    judged = certify(problem, theirs, ours.alpha)
    assert judged.relative_gap < 1e-3
    assert np.linalg.norm(ours.w - theirs) <= ours.certificate.distance_bound + judged.distance_bound


@problems
def test_least_squares_equals_the_normal_equations(problem_name):
    problem = PROBLEMS[problem_name](LeastSquares())
    X = problem.rows.matrix.toarray() if problem.rows.is_sparse else problem.rows.matrix
    X = X.astype(np.float64)
    if problem.intercept_scaling:
        X = np.column_stack([X, np.full(len(X), problem.intercept_scaling)])
    hessian = np.eye(X.shape[1]) + 2.0 * (X.T * problem.C) @ X
    exact = np.linalg.solve(hessian, 2.0 * (X.T * problem.C) @ problem.y)
    solution = solve(problem, tol=1e-9)
    assert np.linalg.norm(solution.w - exact) <= solution.certificate.distance_bound + 1e-12


@problems
@losses
def test_shrinking_on_equals_shrinking_off(problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    on, off = solve(problem, DCD(), tol=1e-8), solve(problem, DCD(shrinking=None), tol=1e-8)
    assert np.linalg.norm(on.w - off.w) <= on.certificate.distance_bound + off.certificate.distance_bound


def test_shrinking_leaves_samples_out_and_saves_steps():
    problem = LinearProblem.build(*labelled(2000, 5, 0.3, 0), 0.1)
    least_active = {}
    for solver in (DCD(), DCD(shrinking=None)):
        state = solver.init(problem, None, 0)
        least_active[solver] = min(_active_after(solver, problem, state) for _ in range(50))
    assert least_active[DCD()] < 1000
    assert least_active[DCD(shrinking=None)] == 2000
    assert solve(problem, DCD(), tol=1e-7).steps < 0.7 * solve(problem, DCD(shrinking=None), tol=1e-7).steps


def _active_after(solver, problem, state):
    solver.advance(problem, state, Budget(500, 0.0))
    return state.active


def test_the_permuted_order_needs_fewer_epochs_than_the_cyclic_one():
    X, y = labelled(3000, 10, 1.0, 1)
    problem = LinearProblem.build(X[np.argsort(y, kind="stable")], np.sort(y), 1.0)
    permuted, cyclic = (solve(problem, DCD(order=order, shrinking=None), tol=1e-3) for order in (Order.PERMUTED, Order.CYCLIC))
    assert permuted.epochs < cyclic.epochs


@losses
@pytest.mark.parametrize("factor", [1e-3, 7.0])
def test_scaling_the_data_and_the_cost_scales_the_answer(loss_name, factor):
    X, y = labelled(60, 4, 1.0, 2)
    plain = solve(LinearProblem.build(X, y, 1.0, LOSSES[loss_name]), tol=1e-9)
    scaled = solve(LinearProblem.build(factor * X, y, 1.0 / factor**2, LOSSES[loss_name]), tol=1e-9)
    assert np.linalg.norm(plain.w - factor * scaled.w) <= (
        plain.certificate.distance_bound + factor * scaled.certificate.distance_bound
    )


@losses
def test_flipping_the_labels_flips_the_answer(loss_name):
    X, y = labelled(60, 4, 1.0, 3)
    plain, flipped = (solve(LinearProblem.build(X, sign * y, 1.0, LOSSES[loss_name]), tol=1e-6) for sign in (1, -1))
    assert np.array_equal(plain.w, -flipped.w)
    assert np.array_equal(plain.alpha, flipped.alpha)


@losses
def test_the_order_of_the_rows_does_not_matter(loss_name):
    X, y = labelled(60, 4, 1.0, 4)
    order = np.random.default_rng(0).permutation(60)
    one = solve(LinearProblem.build(X, y, 1.0, LOSSES[loss_name]), tol=1e-9)
    other = solve(LinearProblem.build(X[order], y[order], 1.0, LOSSES[loss_name]), tol=1e-9)
    assert np.linalg.norm(one.w - other.w) <= one.certificate.distance_bound + other.certificate.distance_bound


@losses
def test_duplicating_a_row_equals_doubling_its_weight(loss_name):
    X, y = labelled(50, 4, 1.0, 5)
    weights = np.where(np.arange(50) % 7 == 0, 2.0, 1.0)
    weights[3] = 0.0
    repeats = weights.astype(int)
    weighted = solve(LinearProblem.build(X, y, weights, LOSSES[loss_name]), tol=1e-10)
    repeated = solve(LinearProblem.build(np.repeat(X, repeats, 0), np.repeat(y, repeats), 1.0, LOSSES[loss_name]), tol=1e-10)
    assert np.linalg.norm(weighted.w - repeated.w) <= (
        weighted.certificate.distance_bound + repeated.certificate.distance_bound
    )
    assert weighted.alpha[3] == 0.0


def test_a_zero_row_goes_straight_to_its_bound():
    problem = PROBLEMS["zero-rows"](Hinge())
    solution = solve(problem, tol=1e-6)
    assert np.all(solution.alpha[::7] == 1.0)


@pytest.mark.parametrize("solver_name", [name for name in SOLVERS if name.startswith(("dcd", "avsf"))])
def test_a_step_at_a_time_is_the_same_as_all_at_once(solver_name):
    """The loop can be cut anywhere: chunks change nothing, bit for bit."""
    problem, solver = PROBLEMS["sparse"](Hinge()), SOLVERS[solver_name]
    whole, chunked = solver.init(problem, None, 7), solver.init(problem, None, 7)
    solver.advance(problem, whole, Budget(1000, 0.0))
    while chunked.steps < 1000 and not chunked.looks_done:
        solver.advance(problem, chunked, Budget(min(37, 1000 - chunked.steps), 0.0))
    assert whole.steps == chunked.steps
    assert np.array_equal(whole.samples["alpha"], chunked.samples["alpha"])
    assert np.array_equal(whole.w, chunked.w)


@losses
def test_a_step_never_lowers_the_dual_and_its_running_value_is_right(loss_name):
    problem, solver = PROBLEMS["with-intercept"](LOSSES[loss_name]), DCD()
    state = solver.init(problem, None, 0)
    last = 0.0
    for _ in range(300):
        solver.advance(problem, state, Budget(1, 0.0))
        value = problem.dual(state.samples["alpha"].copy())
        assert value >= last - 1e-12
        assert value == pytest.approx(float(state.sweep["dual"][0]), rel=1e-9, abs=1e-12)
        last = value


def test_rule_17_ends_with_every_projected_gradient_within_epsilon():
    problem, solver = PROBLEMS["overlapping"](Hinge()), DCD(epsilon=1e-3)
    state = solver.init(problem, None, 0)
    while not state.looks_done:
        solver.advance(problem, state, Budget(10_000, 0.0))
    w, alpha = solver.candidate(problem, state)
    gradient = problem.margins(w) - 1.0
    projected = np.where(alpha == 0.0, np.minimum(gradient, 0), np.where(alpha == 1.0, np.maximum(gradient, 0), gradient))
    assert state.violation < 1e-3
    assert np.ptp(projected) < 10 * 1e-3  # the rule sees each gradient at its own moment of the last sweep


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="ONLINE"):
        DCD(order=Order.ONLINE)
    with pytest.raises(ValueError, match=r"\(0, 1\]; got 0"):
        Shrinking(factor=0.0)
    with pytest.raises(ValueError, match="epsilon must be positive; got -1"):
        DCD(epsilon=-1.0)
    with pytest.raises(TypeError, match=r"shrinking must be Shrinking\(\), with its factor, or None; got False"):
        DCD(shrinking=False)  # type: ignore[arg-type]


def test_the_cyclic_order_is_the_order_of_the_samples_again_after_shrinking():
    problem, solver = LinearProblem.build(*labelled(300, 5, 0.5, 0), 0.1), DCD(order=Order.CYCLIC)
    state = solver.init(problem, None, 0)
    shrunk_once = False
    for _ in range(200):
        solver.advance(problem, state, Budget(max(1, state.active), 0.0))
        shrunk_once |= state.active < 300
        assert np.all(np.diff(state.index[: state.active].astype(int)) > 0)
    assert shrunk_once

"""An intercept without penalty: the dual has the constraint sum_i alpha_i y_i = 0, as LIBSVM's has."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sklearn.svm
from scipy import sparse
from sklearn.utils import shuffle

from maxmargin import LinearSVC
from maxmargin.certificate.linear import certify
from maxmargin.certificate.policy import LinearJudgePolicy
from maxmargin.data.rows import Array
from maxmargin.data.threads import ThreadPolicy
from maxmargin.problem import policy
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, LeastSquares, Loss, SquaredHinge
from maxmargin.solvers.linear.avsf import AVSF
from maxmargin.solvers.linear.dcd import DCD
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Solution, Status
from tests.catalogue import LOSSES, feasible_point, labelled
from tests.certificate.test_linear import exact_gap

losses = pytest.mark.parametrize("loss_name", LOSSES)
box_losses = pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared_hinge"])
solvers = pytest.mark.parametrize("solver", ["newton", "auto"])


def _overlapping(loss: Loss) -> LinearProblem:
    X, y = labelled(120, 6, 1.5, 1)
    return LinearProblem.build(X + 0.7, y, 1.0, loss, 1.0, penalizes_intercept=False)


def _sparse(loss: Loss) -> LinearProblem:
    X, y = labelled(150, 40, 0.5, 5)
    X[np.random.default_rng(5).random(X.shape) < 0.85] = 0.0
    return LinearProblem.build(sparse.csr_array(X), y, 1.0, loss, 3.0, penalizes_intercept=False)


def _float32(loss: Loss) -> LinearProblem:
    X, y = labelled(100, 7, 1.0, 6)
    return LinearProblem.build(X.astype(np.float32), y, 1.0, loss, 0.1, penalizes_intercept=False)


def _wide(loss: Loss) -> LinearProblem:
    return LinearProblem.build(*labelled(30, 80, 0.5, 4), 0.1, loss, 1.0, penalizes_intercept=False)


def _separable(loss: Loss) -> LinearProblem:
    return LinearProblem.build(*labelled(60, 4, 0.0, 3), 10.0, loss, 1.0, penalizes_intercept=False)


def _outnumbered(loss: Loss) -> LinearProblem:
    X, y = labelled(300, 4, 0.5, 7)
    y[:] = -1
    y[:3] = 1
    return LinearProblem.build(X, y, 1.0, loss, 1.0, penalizes_intercept=False)


def _weighted(loss: Loss) -> LinearProblem:
    X, y = labelled(80, 5, 1.0, 9)
    C = np.random.default_rng(9).exponential(size=80)
    C[::5] = 0.0
    return LinearProblem.build(X, y, C, loss, 1.0, penalizes_intercept=False)


def _far_away(loss: Loss) -> LinearProblem:
    """The constant part of every feature is much larger than what differs, and the intercept has to undo it."""
    X, y = labelled(80, 4, 1.0, 10)
    return LinearProblem.build(X + 100.0, y, 1.0, loss, 1.0, penalizes_intercept=False)


def _constant_columns(loss: Loss) -> LinearProblem:
    X, y = labelled(60, 4, 1.0, 13)
    X = np.column_stack([X, X[:, 1], np.full(60, 3.0), np.zeros(60)])
    return LinearProblem.build(X, y, 1.0, loss, 1.0, penalizes_intercept=False)


def _large_C(loss: Loss) -> LinearProblem:
    return LinearProblem.build(*labelled(40, 3, 1.0, 12), 1e3, loss, 1.0, penalizes_intercept=False)


def _small_C(loss: Loss) -> LinearProblem:
    """At the optimum every sample of the smaller class is at its bound, and nothing says where b is but the others."""
    return LinearProblem.build(*labelled(70, 5, 1.0, 11), 1e-6, loss, 1.0, penalizes_intercept=False)


PROBLEMS = {
    "overlapping": _overlapping,
    "sparse": _sparse,
    "float32": _float32,
    "wide": _wide,
    "separable": _separable,
    "outnumbered": _outnumbered,
    "weighted": _weighted,
    "far-away": _far_away,
    "constant-columns": _constant_columns,
    "large-C": _large_C,
    "small-C": _small_C,
}
problems = pytest.mark.parametrize("problem_name", PROBLEMS)


def unpenalised(problem: LinearProblem, w: Array) -> Array:
    return w[: problem.n_penalised]


def libsvm(problem: LinearProblem) -> Array:
    """The w and b of LIBSVM for the same problem; b as the weight of the constant feature."""
    X = problem.rows.matrix.astype(np.float64)
    peer = sklearn.svm.SVC(kernel="linear", C=1.0, tol=1e-6)
    present = problem.C > 0.0
    peer.fit(X[present], problem.y[present], sample_weight=problem.C[present])
    coef = peer.coef_.toarray() if sparse.issparse(peer.coef_) else peer.coef_
    return np.append(coef, peer.intercept_ / problem.intercept_scaling)


# Solutions


@problems
@losses
@solvers
def test_every_problem_is_certified_by_those_that_can(problem_name, loss_name, solver):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    solution = solve(problem, solver, tol=1e-8)
    assert solution.status is Status.CERTIFIED
    assert solution.certificate.meets(1e-8)
    assert problem.is_feasible(solution.alpha)
    assert abs(np.sum(solution.alpha * problem.y)) <= policy.LINEAR.balance * np.sum(np.abs(solution.alpha))
    assert solution.epochs <= 300
    assert solution.b == solution.w[-1] * problem.intercept_scaling
    assert certify(problem, solution.w, solution.alpha) == solution.certificate


@problems
@solvers
def test_libsvm_lies_within_the_certified_distances(problem_name, solver):
    problem = PROBLEMS[problem_name](Hinge())
    ours, theirs = solve(problem, solver, tol=1e-10), libsvm(problem)
    judged = certify(problem, theirs, ours.alpha)
    distance = np.linalg.norm(unpenalised(problem, ours.w - theirs))
    assert distance <= ours.certificate.distance_bound + judged.distance_bound
    assert ours.certificate.dual <= judged.primal * (1.0 + 1e-12)
    assert judged.relative_gap < 1e-3


@pytest.mark.parametrize("problem_name", ["overlapping", "sparse", "outnumbered", "weighted", "separable", "large-C"])
def test_b_is_that_of_libsvm_where_a_free_sample_determines_it(problem_name):
    problem = PROBLEMS[problem_name](Hinge())
    ours, theirs = solve(problem, tol=1e-12), libsvm(problem)
    assert np.any((ours.alpha > 0.0) & (ours.alpha < problem.C))
    assert ours.b == pytest.approx(theirs[-1] * problem.intercept_scaling, abs=1e-5 * max(1.0, np.linalg.norm(ours.w)))


@problems
def test_least_squares_equals_the_normal_equations(problem_name):
    problem = PROBLEMS[problem_name](LeastSquares())
    X = problem.rows.matrix.toarray() if problem.rows.is_sparse else problem.rows.matrix
    X = np.column_stack([X.astype(np.float64), np.full(len(X), problem.intercept_scaling)])
    hessian = np.diag(problem.regulariser) + 2.0 * (X.T * problem.C) @ X
    exact = np.linalg.solve(hessian, 2.0 * (X.T * problem.C) @ problem.y)
    solution = solve(problem, "newton", tol=1e-9)
    reach = solution.certificate.distance_bound + 1e-9
    assert np.linalg.norm(unpenalised(problem, solution.w - exact)) <= reach


@losses
@pytest.mark.parametrize("shift", [1.0, -30.0, 1e3])
def test_shifting_the_data_moves_b_and_leaves_w(loss_name, shift):
    X, y = labelled(90, 4, 1.0, 2)
    towards = shift * np.array([1.0, -2.0, 0.5, 3.0])
    plain, shifted = (
        solve(LinearProblem.build(data, y, 1.0, LOSSES[loss_name], 1.0, penalizes_intercept=False), tol=1e-9)
        for data in (X, X + towards)
    )
    assert plain.status is shifted.status is Status.CERTIFIED
    reach = plain.certificate.distance_bound + shifted.certificate.distance_bound
    assert np.linalg.norm(plain.w[:-1] - shifted.w[:-1]) <= reach
    assert plain.certificate.primal == pytest.approx(shifted.certificate.primal, rel=1e-8)


@losses
def test_the_scale_of_the_constant_feature_does_not_matter(loss_name):
    X, y = labelled(90, 4, 1.0, 2)
    answers = [
        solve(LinearProblem.build(X + 0.5, y, 1.0, LOSSES[loss_name], scaling, penalizes_intercept=False), tol=1e-9)
        for scaling in (1e-3, 1.0, 1e3)
    ]
    for answer in answers[1:]:
        reach = answer.certificate.distance_bound + answers[0].certificate.distance_bound
        assert np.linalg.norm(answer.w[:-1] - answers[0].w[:-1]) <= reach
        assert answer.b == pytest.approx(answers[0].b, abs=1e-3)


@losses
def test_it_is_the_limit_of_a_penalty_on_a_large_constant_feature(loss_name):
    """A weight b / scaling costs b^2 / (2 scaling^2), which goes to zero."""
    X, y = labelled(90, 4, 1.0, 2)
    free = solve(LinearProblem.build(X + 0.5, y, 1.0, LOSSES[loss_name], 1.0, penalizes_intercept=False), tol=1e-10)
    nearly = solve(LinearProblem.build(X + 0.5, y, 1.0, LOSSES[loss_name], 1e4), "newton", tol=1e-10)
    assert nearly.certificate.primal == pytest.approx(free.certificate.primal, rel=1e-6)
    assert nearly.w[:-1] == pytest.approx(free.w[:-1], abs=1e-3)


@losses
def test_duplicating_a_row_equals_doubling_its_weight(loss_name):
    X, y = labelled(50, 4, 1.0, 5)
    weights = np.where(np.arange(50) % 7 == 0, 2.0, 1.0)
    weights[3] = 0.0
    repeats, loss = weights.astype(int), LOSSES[loss_name]
    weighted = solve(LinearProblem.build(X, y, weights, loss, 1.0, penalizes_intercept=False), tol=1e-10)
    repeated = solve(
        LinearProblem.build(np.repeat(X, repeats, 0), np.repeat(y, repeats), 1.0, loss, 1.0, penalizes_intercept=False),
        tol=1e-10,
    )
    reach = weighted.certificate.distance_bound + repeated.certificate.distance_bound
    assert np.linalg.norm(weighted.w[:-1] - repeated.w[:-1]) <= reach
    assert weighted.alpha[3] == 0.0


@losses
def test_a_warm_start_costs_no_more_than_a_cold_one_and_one_off_balance_is_welcome(loss_name):
    problem = PROBLEMS["overlapping"](LOSSES[loss_name])
    cold = solve(problem, tol=1e-6)
    assert solve(problem, tol=1e-6, warm_start=cold).steps <= cold.steps
    assert solve(problem, tol=1e-6, warm_start=0.5 * (problem.y > 0)).status is Status.CERTIFIED


@box_losses
@solvers
@pytest.mark.parametrize("is_weighted", [False, True])
def test_one_class_needs_an_intercept_and_nothing_else(loss, solver, is_weighted):
    """P = D = 0 at w = 0, b = 1: there is no relative gap to speak of, but the value is right and soon found."""
    X, y = labelled(30, 3, 1.0, 0)
    y, C = (y, np.where(y > 0, 1.0, 0.0)) if is_weighted else (np.ones(30), 1.0)
    problem = LinearProblem.build(X, y, C, loss, 1.0, penalizes_intercept=False)
    solution = solve(problem, solver, tol=1e-6, max_epochs=300)
    assert solution.certificate.primal <= 1e-12
    assert np.abs(solution.w[:-1]).max() <= 1e-6


@pytest.mark.parametrize("solver", ["dcd", "avsf", DCD(), AVSF()], ids=str)
def test_solvers_of_one_coordinate_at_a_time_refuse_with_a_sentence(solver):
    name = solver if isinstance(solver, str) else solver.name
    sentence = f"The solver '{name}' cannot fit an intercept without penalty: use 'newton' or 'auto'."
    with pytest.raises(ValueError, match=sentence):
        solve(PROBLEMS["overlapping"](Hinge()), solver)


def test_without_an_intercept_there_is_nothing_to_penalise():
    X, y = labelled(40, 3, 1.0, 0)
    problem = LinearProblem.build(X, y, penalizes_intercept=False)
    assert problem.penalizes_intercept
    assert solve(problem, "dcd").status is Status.CERTIFIED


# Balance


@problems
@box_losses
@pytest.mark.parametrize("seed", range(4))
def test_balanced_stays_in_the_box_and_brings_the_sum_to_zero(problem_name, loss, seed):
    problem = PROBLEMS[problem_name](loss)
    _, alpha = feasible_point(problem, seed)
    balanced = problem.balanced(alpha)
    assert problem.is_feasible(balanced)
    assert abs(np.sum(balanced * problem.y)) <= 1e-14 * np.sum(alpha)
    assert np.all(balanced <= alpha)
    assert problem.dual(balanced) > -np.inf


@box_losses
def test_balanced_leaves_the_bounds_alone_when_that_suffices(loss):
    problem = PROBLEMS["overlapping"](loss)
    alpha = np.where(problem.y > 0, 1.0, 0.0)
    positives, negatives = np.flatnonzero(problem.y > 0), np.flatnonzero(problem.y < 0)
    alpha[negatives[: len(positives) - 5]] = 1.0
    alpha[positives[:10]] = 0.9
    if isinstance(loss, Hinge):
        balanced = problem.balanced(alpha)
        assert np.array_equal(balanced[positives[10:]], alpha[positives[10:]])
        assert np.all(balanced[positives[:10]] < 0.9)
    assert np.array_equal(problem.balanced(problem.balanced(alpha)) > 0.0, problem.balanced(alpha) > 0.0)


def test_an_alpha_in_balance_is_left_as_it_is():
    problem = PROBLEMS["overlapping"](Hinge())
    alpha = np.zeros(problem.n_samples)
    alpha[np.flatnonzero(problem.y > 0)[:4]] = alpha[np.flatnonzero(problem.y < 0)[:4]] = 0.25
    assert np.array_equal(problem.balanced(alpha), alpha)
    assert np.array_equal(problem.balanced(np.zeros(problem.n_samples)), np.zeros(problem.n_samples))


# The certificate


def balanced_point(problem: LinearProblem, seed: int) -> tuple[Array, Array]:
    w, alpha = feasible_point(problem, seed)
    return w, problem.balanced(alpha)


@problems
@box_losses
@pytest.mark.parametrize("seed", range(2))
def test_at_balanced_points_the_gap_is_primal_minus_dual(problem_name, loss, seed):
    problem = PROBLEMS[problem_name](loss)
    w, alpha = balanced_point(problem, seed)
    certificate = certify(problem, w, alpha)
    exact = exact_gap(problem, w, alpha)
    assert exact >= 0
    assert exact <= Fraction(certificate.gap) + Fraction(certificate.rounding_error)
    assert float(exact) == pytest.approx(certificate.gap, rel=1e-9)
    assert certificate.primal == pytest.approx(problem.primal(w), rel=1e-6)
    assert certificate.dual == pytest.approx(problem.dual(alpha), rel=1e-6, abs=1e-6 * certificate.primal)
    assert certificate.rounding_error <= 1e-9 * certificate.gap


@problems
@losses
def test_near_the_optimum_the_exact_gap_is_within_the_certified_one(problem_name, loss_name):
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    solution = solve(problem, tol=1e-9)
    exact = exact_gap(problem, solution.w, solution.alpha)
    certificate = solution.certificate
    assert 0 <= exact <= Fraction(certificate.gap) + Fraction(certificate.rounding_error)
    assert exact <= Fraction(1e-9) * Fraction(max(certificate.primal, certificate.dual))


@box_losses
def test_every_primal_value_is_above_every_dual_value(loss):
    problem = PROBLEMS["overlapping"](loss)
    points = [balanced_point(problem, seed) for seed in range(8)]
    assert min(problem.primal(w) for w, _ in points) >= max(problem.dual(alpha) for _, alpha in points)


def off_balance(problem: LinearProblem, solution: Solution, excess: float) -> Array:
    """The optimal alpha with so much more on the positive samples that have room."""
    room = np.flatnonzero((problem.y > 0) & (solution.alpha < 0.5 * np.minimum(problem.box.U, 10.0)))
    alpha = solution.alpha.copy()
    alpha[room] += excess / len(room)
    assert problem.is_feasible(alpha)
    return alpha


@box_losses
@pytest.mark.parametrize("problem_name", ["overlapping", "sparse", "far-away"])
def test_the_more_an_alpha_is_off_balance_the_more_it_is_charged(problem_name, loss):
    problem = PROBLEMS[problem_name](loss)
    solution = solve(problem, tol=1e-10)
    excesses = (1e-9, 1e-6, 1e-3, 0.1, 1.0)
    judged = [certify(problem, solution.w, off_balance(problem, solution, excess)) for excess in excesses]
    gaps = [certificate.gap for certificate in judged]
    assert gaps == sorted(gaps)
    for excess, certificate in zip(excesses, judged, strict=True):
        assert certificate.gap >= excess * (1.0 - 1e-6)
        assert certificate.dual <= solution.certificate.primal
        assert certificate.primal - certificate.dual <= certificate.gap * (1.0 + 1e-9) + certificate.rounding_error
        exact = exact_gap(problem, solution.w, off_balance(problem, solution, excess))
        assert exact <= Fraction(certificate.gap) + Fraction(certificate.rounding_error)


@box_losses
@pytest.mark.parametrize("seed", range(5))
def test_what_an_unbalanced_alpha_claims_is_never_above_the_optimum(loss, seed):
    problem = PROBLEMS["overlapping"](loss)
    w, alpha = feasible_point(problem, seed)
    certificate = certify(problem, w, alpha)
    optimum = solve(problem, tol=1e-10).certificate
    assert certificate.dual <= optimum.primal
    assert exact_gap(problem, w, alpha) <= Fraction(certificate.gap) + Fraction(certificate.rounding_error)
    assert certificate.primal - optimum.primal <= certificate.gap


@losses
def test_off_balance_the_dual_function_is_minus_infinity(loss_name):
    problem = PROBLEMS["overlapping"](LOSSES[loss_name])
    assert problem.dual(np.where(problem.y > 0, 0.5, 0.0)) == -np.inf


@problems
@losses
def test_no_certified_w_is_farther_from_another_than_the_two_distance_bounds(problem_name, loss_name):
    """The bound is for what is penalised: b need not be unique."""
    problem = PROBLEMS[problem_name](LOSSES[loss_name])
    best, rough = solve(problem, tol=1e-10), solve(problem, "newton", tol=1e-1)
    distance = np.linalg.norm(unpenalised(problem, rough.w - best.w))
    assert distance <= rough.certificate.distance_bound + best.certificate.distance_bound


@box_losses
def test_threads_and_blocks_do_not_change_the_verdict(monkeypatch, loss):
    problem = PROBLEMS["overlapping"](loss)
    w, alpha = balanced_point(problem, 0)
    once, off = certify(problem, w, alpha), certify(problem, w, 0.9 * alpha + 0.1 * (problem.y > 0))
    monkeypatch.setattr("maxmargin.data.threads.POLICY", ThreadPolicy(elements_a_thread=1))
    monkeypatch.setattr("maxmargin.data.threads.available_cores", lambda: 3)
    monkeypatch.setattr("maxmargin.certificate.policy.LINEAR", LinearJudgePolicy(rows_a_block=17))
    assert certify(problem, w, alpha).gap == pytest.approx(once.gap, rel=1e-12)
    assert certify(problem, w, 0.9 * alpha + 0.1 * (problem.y > 0)).gap == pytest.approx(off.gap, rel=1e-12)


# LinearSVC


def clouds(n_classes: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    y = np.arange(150) % n_classes
    return rng.normal(size=(n_classes, 4))[y] + rng.normal(size=(150, 4)) + 5.0, y


def in_a_list(value):
    return value if isinstance(value, list) else [value]


@box_losses
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@solvers
def test_a_fit_is_certified_whatever_the_layout_and_the_number_of_classes(loss, n_classes, layout, solver):
    X, y = clouds(n_classes)
    name = "hinge" if isinstance(loss, Hinge) else "squared_hinge"
    model = LinearSVC(loss=name, C=0.5, tol=1e-8, solver=solver, penalize_intercept=False).fit(layout(X), y)
    assert set(in_a_list(model.status_)) == {Status.CERTIFIED}
    for k, positive in enumerate(range(n_classes) if n_classes > 2 else [1]):
        signs = np.where(y == positive, 1, -1)
        problem = LinearProblem.build(X, signs, 0.5, loss, 1.0, penalizes_intercept=False)
        direct = solve(problem, "newton", tol=1e-10)
        reach = in_a_list(model.certificate_)[k].distance_bound + direct.certificate.distance_bound
        assert np.linalg.norm(model.coef_[k] - direct.w[:-1]) <= reach
        assert problem.primal(np.append(model.coef_[k], model.intercept_[k])) <= direct.certificate.primal * (1.0 + 1e-8)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_the_decision_function_is_that_of_a_kernel_svm_with_a_linear_kernel(layout):
    X, y = clouds(2, seed=1)
    model = LinearSVC(loss="hinge", C=0.3, tol=1e-11, penalize_intercept=False).fit(layout(X), y)
    peer = sklearn.svm.SVC(kernel="linear", C=0.3, tol=1e-9).fit(X, y)
    assert model.decision_function(layout(X)) == pytest.approx(peer.decision_function(X), abs=1e-4)
    assert np.array_equal(model.predict(layout(X)), peer.predict(X))


@box_losses
def test_a_class_of_three_among_hundreds_gets_an_intercept_of_its_own(loss):
    X, y = shuffle(*clouds(2, seed=2), random_state=0)
    keep = (y == 0) | (np.cumsum(y == 1) <= 3)
    X, y = X[keep], y[keep]
    name = "hinge" if isinstance(loss, Hinge) else "squared_hinge"
    model = LinearSVC(loss=name, C=10.0, tol=1e-8, penalize_intercept=False).fit(X, y)
    penalised = LinearSVC(loss=name, C=10.0, tol=1e-8).fit(X, y)
    assert model.status_ is Status.CERTIFIED
    assert model.certificate_.primal < penalised.certificate_.primal


@box_losses
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sample_weights_of_zero_are_absences(loss, n_classes):
    X, y = clouds(n_classes, seed=3)
    times = np.random.default_rng(3).integers(0, 3, size=len(y))
    name = "hinge" if isinstance(loss, Hinge) else "squared_hinge"
    model = LinearSVC(loss=name, C=0.5, tol=1e-9, penalize_intercept=False)
    weighted = model.fit(X, y, sample_weight=times).coef_
    bounds = np.array([certificate.distance_bound for certificate in in_a_list(model.certificate_)])
    repeated = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times)).coef_
    bounds = bounds + [certificate.distance_bound for certificate in in_a_list(model.certificate_)]
    assert np.all(np.linalg.norm(weighted - repeated, axis=1) <= bounds)


@box_losses
@pytest.mark.parametrize("n_classes", [2, 3])
def test_shifting_the_data_changes_no_decision(loss, n_classes):
    X, y = clouds(n_classes, seed=4)
    name = "hinge" if isinstance(loss, Hinge) else "squared_hinge"
    model = LinearSVC(loss=name, tol=1e-11, penalize_intercept=False)
    scores = model.fit(X, y).decision_function(X)
    shifted = X + np.array([30.0, -20.0, 1.0, 0.0])
    assert model.fit(shifted, y).decision_function(shifted) == pytest.approx(scores, abs=1e-4)


def test_alphas_of_either_sign_are_balanced_although_their_class_adds_up_to_zero():
    problem = LinearProblem.build(np.eye(3), [1, 1, -1], 1.0, LeastSquares(), 1.0, penalizes_intercept=False)
    assert problem.dual(problem.balanced(np.array([1.0, -1.0, -1.0]))) > -np.inf


def test_the_rounding_error_is_never_negative():
    problem = LinearProblem.build(np.array([[1.0], [-1.0]]), [1, -1], 1.0, LeastSquares(), 1.0, penalizes_intercept=False)
    assert certify(problem, np.array([0.4, 0.0]), np.array([1.0, -2.0])).rounding_error >= 0.0


def test_a_small_problem_whose_dual_point_is_not_unique_is_finished_in_few_steps():
    X = np.array([[3, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 1], [0, 3], [1, 0], [2, 0], [4, 4], [2, 3], [3, 2]], float)
    y = [-1, -1, -1, 1, 1, 1, -1, -1, -1, 1, 1, 1]
    solution = solve(LinearProblem.build(X, y, 1.0, Hinge(), 1.0, penalizes_intercept=False), tol=1e-4, max_epochs=30_000)
    assert solution.epochs <= 200
    assert solution.certificate.relative_gap <= 1e-11

"""LinearSVC with L1 and elastic-net penalties: against scikit-learn, its rules, and columns as they come."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.svm import LinearSVC as ScikitLearns
from sklearn.svm import l1_min_c

from maxmargin import LinearSVC
from maxmargin.certificate.linear import certify
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, SquaredHinge
from maxmargin.problem.penalties import L1, ElasticNet
from maxmargin.solvers.linear.sparse_newton.policy import SparseNewtonPolicy
from maxmargin.solvers.linear.sparse_newton.sparse_newton import SparseNewton
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests.catalogue import PROBLEMS, labelled
from tests.raw_catalogue import table


def data(n: int = 120, d: int = 30, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, :4] @ [1.0, -2.0, 0.5, 1.0] + 0.5 * rng.normal(size=n) > 0.2, "yes", "no")
    return X, y


@pytest.mark.parametrize("C", [1e-4, 0.01, 1.0, 1e4])
@pytest.mark.parametrize("scaling", [1.0, 10.0])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_the_objective_is_at_most_scikit_learns(C, scaling, layout):
    X, y = data()
    ours = LinearSVC(penalty="l1", dual=False, C=C, tol=1e-9, intercept_scaling=scaling).fit(layout(X), y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = ScikitLearns(penalty="l1", dual=False, C=C, tol=1e-6, intercept_scaling=scaling, max_iter=3000).fit(X, y)

    def objective(model):
        margins = np.where(y == "yes", 1.0, -1.0) * (X @ model.coef_[0] + model.intercept_[0])
        penalty = np.abs(model.coef_).sum() + abs(model.intercept_[0]) / scaling
        return penalty + C * np.sum(np.maximum(0.0, 1.0 - margins) ** 2)

    assert ours.status_ is Status.CERTIFIED
    assert objective(ours) == pytest.approx(ours.certificate_.primal, rel=1e-9)
    assert objective(ours) <= objective(theirs) * (1.0 + 1e-8)
    assert ours.certificate_.dual <= objective(theirs) * (1.0 + 1e-12)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "none"])
@pytest.mark.parametrize("penalty", [L1(), ElasticNet(0.5)], ids=["l1", "net"])
@pytest.mark.parametrize("policy", [SparseNewtonPolicy(), SparseNewtonPolicy(first_features=1, growth=0.0)], ids=["", "small"])
def test_every_problem_of_the_catalogue_is_certified(name, penalty, policy):
    built = PROBLEMS[name](SquaredHinge())
    problem = LinearProblem.build(
        built.rows.matrix, built.y, built.C, SquaredHinge(), built.intercept_scaling, built.penalizes_intercept, penalty
    )
    solution = solve(problem, SparseNewton(policy), tol=1e-8)
    assert solution.status is Status.CERTIFIED
    assert certify(problem, solution.w, solution.alpha).meets(1e-8)


@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("name", ["unix-times", "mixed-scales-off-centre", "collinear", "salaries"])
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
def test_columns_as_they_come_are_certified_where_float64_can_hold_alpha(name, C, penalize_intercept):
    """The dual asks for |sum_i alpha_i y_i x_ij| <= 1. Where C |x| is 1e10 and more, a unit in the last place of alpha moves
    that sum by more than a hundredth. Alpha is mended then, or the fit says that it could not."""
    X, y = table(name, 60)
    y = y > np.median(y)
    model = LinearSVC(penalty="l1", C=C, penalize_intercept=penalize_intercept)
    if C * np.max(np.abs(X)) < 3e9:
        assert model.fit(X, y).status_ is Status.CERTIFIED
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        assert model.status_ in (Status.CERTIFIED, Status.PRECISION_LIMIT)
        assert model.certificate_.is_proof


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_more_features_than_samples_and_a_large_c_are_certified_in_few_steps(penalty, C):
    """Smaller C come first: without them a gap of 0.99 was left after 500 epochs."""
    X, y = table("wide", 300)
    model = LinearSVC(penalty=penalty, C=C).fit(X, y)
    assert model.status_ is Status.CERTIFIED
    assert np.count_nonzero(model.coef_) <= len(y)
    assert model.trace_[-1].epochs < 400


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weights", [None, "random"])
def test_below_l1_min_c_the_certified_answer_is_zero_and_above_it_is_not(fit_intercept, weights):
    X, y = data()
    weights = None if weights is None else np.random.default_rng(1).integers(1, 4, size=len(y)).astype(float)
    rows = X if weights is None else np.repeat(X, weights.astype(int), axis=0)
    labels = y if weights is None else np.repeat(y, weights.astype(int))
    least = l1_min_c(rows, labels, loss="squared_hinge", fit_intercept=fit_intercept)
    below = LinearSVC(penalty="l1", C=0.999 * least, fit_intercept=fit_intercept, tol=1e-12).fit(X, y, weights)
    assert not below.coef_.any()
    assert not below.intercept_.any()
    assert below.relative_gap_ <= 1e-14
    above = LinearSVC(penalty="l1", C=1.01 * least, fit_intercept=fit_intercept, tol=1e-10).fit(X, y, weights)
    assert above.coef_.any() or above.intercept_.any()


def test_with_a_free_intercept_zero_is_the_answer_below_the_bound_of_its_own():
    """C below 1 / max_j |sum_i a_i y_i x_ij|, a_i = 4 S_- / S for the positive class and 4 S_+ / S for the negative."""
    X, y = data()
    signs = np.where(y == "yes", 1.0, -1.0)
    share = np.where(signs > 0, np.mean(signs < 0), np.mean(signs > 0))
    least = 1.0 / np.max(np.abs((4.0 * share * signs) @ X))
    assert not LinearSVC(penalty="l1", penalize_intercept=False, C=0.999 * least, tol=1e-10).fit(X, y).coef_.any()
    assert LinearSVC(penalty="l1", penalize_intercept=False, C=1.01 * least, tol=1e-10).fit(X, y).coef_.any()


def test_an_elastic_net_lies_between_both_penalties():
    X, y = data()
    ridge, net, lasso = (LinearSVC(penalty="elasticnet", l1_ratio=r, C=0.02, tol=1e-9).fit(X, y) for r in (0.0, 0.5, 1.0))
    assert np.allclose(ridge.coef_, LinearSVC(C=0.02, tol=1e-12).fit(X, y).coef_, atol=1e-5)
    assert np.allclose(lasso.coef_, LinearSVC(penalty="l1", C=0.02, tol=1e-9).fit(X, y).coef_, atol=1e-6)
    assert np.count_nonzero(lasso.coef_) < np.count_nonzero(net.coef_) < np.count_nonzero(ridge.coef_)
    assert np.isfinite(net.certificate_.distance_bound)
    assert net.certified_predict(X)[1].mean() > 0.99
    assert not lasso.certified_predict(X)[1].any()


def test_screening_leaves_no_feature_out_that_counts():
    """The features that are left when a solve ends contain every one that is not zero at a far better answer."""
    X, y = labelled(200, 300, 1.0, 3)
    problem = LinearProblem.build(X, y, 0.02, SquaredHinge(), 1.0, penalty=L1())
    best = solve(problem, tol=1e-13)
    state_of = SparseNewton()
    state = state_of.init(problem, None, 0)
    from maxmargin.solvers.base import Budget

    for _ in range(200):
        state_of.advance(problem, state, Budget(1, 1e-6))
        if state.looks_done:
            break
    assert len(state.kept) < 300
    assert set(np.flatnonzero(np.abs(best.w) > 1e-9)) <= set(state.kept)


def test_a_warm_start_takes_fewer_steps_and_gives_the_same_answer():
    X, y = data(400, 80)
    cold = LinearSVC(penalty="l1", C=0.1, tol=1e-8).fit(X, y)
    warm = LinearSVC(penalty="l1", C=0.09, tol=1e-8, warm_start=True).fit(X, y)
    warm.set_params(C=0.1).fit(X, y)
    assert warm.trace_[-1].steps < cold.trace_[-1].steps
    assert warm.certificate_.primal == pytest.approx(cold.certificate_.primal, rel=1e-7)


def test_select_from_model_and_sparsify_find_the_features_that_count():
    X, y = data(400)
    model = LinearSVC(penalty="l1", C=0.02, tol=1e-6).fit(X, y)
    assert np.array_equal(SelectFromModel(model, prefit=True, threshold=1e-5).get_support(), np.abs(model.coef_[0]) > 1e-5)
    assert np.count_nonzero(model.coef_) < 15
    labels = model.predict(X)
    assert sparse.issparse(model.sparsify().coef_)
    assert np.array_equal(model.predict(X), labels)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "l1", "loss": "hinge"}, "penalty='l1' and loss='hinge' is not supported"),
        ({"penalty": "l1", "dual": True}, "penalty='l1' and loss='squared_hinge' are not supported when dual=True"),
    ],
)
def test_what_scikit_learn_refuses_is_refused_in_its_words(parameters, message):
    X, y = data()
    for estimator in (ScikitLearns, LinearSVC):
        with pytest.raises(
            ValueError, match=f"Unsupported set of arguments: The combination of {message}, Parameters: penalty"
        ):
            estimator(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "elasticnet", "l1_ratio": 1.5}, r"l1_ratio must be between 0 and 1; got 1\.5"),
        ({"penalty": "l1", "C": np.inf}, "goes with penalty='l2'; got penalty='l1'"),
        ({"penalty": "l1", "sharp_proofs": True}, "sharp_proofs=True goes with penalty='l2'"),
        ({"penalty": "l1", "solver": "dcd"}, "The solver 'dcd' cannot fit the penalty L1"),
        ({"penalty": "l2", "solver": "sparse-newton"}, "The solver 'sparse-newton' cannot fit the penalty L2"),
    ],
)
def test_what_does_not_go_together_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC(**parameters).fit(*data())


def test_the_solver_refuses_other_losses():
    X, y = labelled(20, 3, 1.0, 0)
    with pytest.raises(ValueError, match="fitted with squared hinge loss only; got Hinge"):
        solve(LinearProblem.build(X, y, 1.0, Hinge(), penalty=L1()))


def test_several_classes_are_fitted_one_against_the_rest():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 6))
    y = np.argmax(X[:, :3] + 0.3 * rng.normal(size=(150, 3)), axis=1)
    model = LinearSVC(penalty="l1", C=0.1, tol=1e-7).fit(X, y)
    assert model.coef_.shape == (3, 6)
    assert model.relative_gap_ <= 1e-7
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_column_without_data_and_repeated_columns_are_no_trouble(dtype):
    X, y = data()
    X = np.column_stack([X, X[:, 0], np.zeros(len(X)), X[:, 0]]).astype(dtype)
    assert LinearSVC(penalty="l1", C=1.0, tol=1e-8).fit(X, y).status_ is Status.CERTIFIED


def test_proofs_that_take_a_ball_around_the_optimum_are_refused():
    from maxmargin import LinearSVCCV, leave_one_out

    X, y = data()
    with pytest.raises(ValueError, match="leave_one_out is proved for the L2 penalty only; got L1"):
        leave_one_out(LinearSVC(penalty="l1"), X, y)
    with pytest.raises(ValueError, match="C_range is proved for penalty='l2'; got penalty='l1'"):
        LinearSVCCV(penalty="l1", C_range=(0.1, 1.0)).fit(X, y)

"""Small problems in one compiled call: the answer of the method in Python, and that method where the call was not enough."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from maxmargin import LinearSVC
from maxmargin.certificate.linear import certify
from maxmargin.estimators import checks
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber, LeastSquares, Loss, SquaredHinge
from maxmargin.solvers.base import Budget
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.newton.newton import Newton
from maxmargin.solvers.linear.newton.small_newton import SmallNewton
from maxmargin.solvers.linear.phases import newton_for
from maxmargin.solving.driver import solve
from maxmargin.solving.solution import Status
from tests import raw_catalogue
from tests.catalogue import labelled

losses = pytest.mark.parametrize(
    "loss", [Hinge(), SquaredHinge(), LeastSquares(), Huber(0.1)], ids=lambda loss: type(loss).__name__
)


def problem_of(
    loss: Loss, C: object = 1.0, scaling: float = 1.0, n: int = 120, d: int = 6, is_penalized: bool = True
) -> LinearProblem:
    X, y = labelled(n, d, 1.0, 3)
    return LinearProblem.build(X, y, C, loss, scaling, is_penalized)


@losses
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("scaling", "is_penalized"), [(0.0, True), (2.0, True), (2.0, False)])
@pytest.mark.parametrize("n", [120, 4])
def test_one_call_is_certified_to_rounding_and_agrees_with_the_method_in_python(loss, C, scaling, is_penalized, n):
    problem = problem_of(loss, C, scaling, n, is_penalized=is_penalized)
    solver = SmallNewton()
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(10**9, 1e-4))
    assert state.looks_done
    assert state.careful is None
    certificate = certify(problem, *solver.candidate(problem, state))
    assert certificate.relative_gap <= 1e-10
    other = solve(problem, Newton(), tol=1e-10).certificate
    assert certificate.primal == pytest.approx(other.primal, rel=1e-9)


@pytest.mark.parametrize("table", ["mixed-scales-off-centre", "unix-times", "salaries", "collinear"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=lambda loss: type(loss).__name__)
def test_one_call_is_enough_for_raw_columns_beside_a_free_offset(table, loss):
    X, y = raw_catalogue.table(table, 300)[:2]
    problem = LinearProblem.build(X, np.where(y == y[0], 1, -1), 1.0, loss, 1.0, False)
    solver = SmallNewton(Newton())
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(10**9, 1e-3))
    assert state.careful is None
    assert certify(problem, *solver.candidate(problem, state)).meets(1e-3)


@losses
def test_samples_of_weight_zero_are_absent(loss):
    C = np.where(np.arange(120) % 3 == 0, 0.0, np.linspace(0.5, 2.0, 120))
    whole = problem_of(loss, C)
    present = np.flatnonzero(C)
    part = LinearProblem.build(whole.rows.matrix[present], whole.y[present], C[present], loss, 1.0)
    assert solve(whole).w == pytest.approx(solve(part).w, abs=1e-7)


@losses
@pytest.mark.parametrize("layout", [np.float32, sparse.csr_matrix])
def test_every_layout_of_the_same_numbers_has_the_same_answer(loss, layout):
    X, y = labelled(120, 6, 1.0, 3)
    X = np.round(X, 2).astype(np.float32).astype(np.float64)
    dense = solve(LinearProblem.build(X, y, 1.0, loss, 1.0))
    other = solve(LinearProblem.build(X.astype(np.float32) if layout is np.float32 else layout(X), y, 1.0, loss, 1.0))
    assert np.array_equal(dense.w, other.w)
    assert np.array_equal(dense.alpha, other.alpha)


@losses
def test_a_start_at_the_optimum_takes_no_more_than_a_few_steps(loss):
    problem = problem_of(loss)
    first = solve(problem)
    again = solve(problem, warm_start=first.alpha)
    assert again.epochs <= min(3, first.epochs)
    assert again.certificate.primal == pytest.approx(first.certificate.primal, rel=1e-10)


def test_a_limit_on_epochs_is_kept_and_the_best_pair_is_certified():
    problem = problem_of(Hinge(), 100.0)
    whole = solve(problem)
    cut = solve(problem, max_epochs=3)
    assert cut.status is Status.EPOCH_LIMIT
    assert cut.epochs == 3 < whole.epochs
    assert cut.certificate.dual <= whole.certificate.primal


def test_a_refused_certificate_is_followed_by_the_careful_method():
    problem = problem_of(Hinge())
    solver = SmallNewton()
    state = solver.init(problem, None, 0)
    solver.advance(problem, state, Budget(10**9, 1e-4))
    steps = state.steps
    solver.advance(problem, state, Budget(10**9, 1e-4))
    assert state.careful is not None
    assert state.steps > steps
    assert state.looks_done
    assert certify(problem, *solver.candidate(problem, state)).meets(1e-4)


def test_columns_of_very_different_scales_are_certified_all_the_same():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)) * [1.0, 1e-6, 1e6, 1e3] + [0.0, 0.0, 1.7e9, 0.0]
    y = np.where(X[:, 0] + rng.normal(size=80) > 0.0, 1, -1)
    for loss in (Hinge(), SquaredHinge()):
        for C in (1e-2, 1.0, 1e4):
            assert solve(LinearProblem.build(X, y, C, loss, 1.0)).status is Status.CERTIFIED


def test_which_problems_are_solved_by_one_call():
    def chosen(n: int, d: int, is_penalized: bool = True) -> type:
        X, y = labelled(n, d, 1.0, 0)
        return type(newton_for(Auto().init(LinearProblem.build(X, y, 1.0, Hinge(), 1.0, is_penalized), None, 0).plan))

    assert chosen(200, 10) is SmallNewton
    assert chosen(200, 10, is_penalized=False) is SmallNewton
    assert chosen(5000, 60, is_penalized=False) is SmallNewton
    assert chosen(5000, 60) is SmallNewton
    assert chosen(9000, 60) is Newton  # coordinate descent comes first
    assert chosen(300, 150) is Newton  # the matrix is large
    assert chosen(30, 100) is SmallNewton  # few long rows are rotated


@pytest.mark.parametrize("labels", [np.int64, np.uint8, str, float])
def test_labels_of_any_type_give_the_same_model(labels):
    X, y = labelled(90, 5, 1.0, 1)
    codes = np.where(y > 0, 7, 3)
    expected = LinearSVC().fit(X, codes)
    model = LinearSVC().fit(X, codes.astype(labels))
    assert model.classes_.dtype == codes.astype(labels).dtype
    assert list(model.classes_) == [labels(3), labels(7)]
    assert np.array_equal(model.coef_, expected.coef_)
    assert model.n_features_in_ == 5


def test_a_fit_on_plain_arrays_forgets_the_names_of_features():
    pandas = pytest.importorskip("pandas")
    X, y = labelled(60, 3, 1.0, 1)
    model = LinearSVC().fit(pandas.DataFrame(X, columns=["a", "b", "c"]), y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert not hasattr(model.fit(X, y), "feature_names_in_")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_by_scikit_learn_s_own_words(value):
    X, y = labelled(60, 3, 1.0, 1)
    X[4, 1] = value
    with pytest.raises(ValueError, match="contains"):
        LinearSVC().fit(X, y)


def test_a_target_with_more_values_than_half_of_the_samples_is_warned_of():
    X, _ = labelled(40, 3, 1.0, 1)
    with pytest.warns(UserWarning, match="unique classes"):
        LinearSVC().fit(X, np.arange(40) // 1.5)


@pytest.mark.parametrize(
    "y",
    [
        np.array([-128, 127] * 300, np.int8),
        np.array([3, 250] * 300, np.uint8),
        np.array([2**62, 2**62 + 1] * 30),
        np.array([0, 2**63] * 30, np.uint64),
        np.array([1.0, -1.0, 4.0] * 30),
        np.array([0.5, 1.0] * 30),
        np.array([1.0, np.inf] * 30),
        np.array([5, 1, 99]),
        np.array(["a", "b"]),
    ],
    ids=lambda y: f"{y.dtype}-{y[0]}",
)
def test_the_labels_that_occur_are_numpys_whatever_their_type(y):
    found = checks._distinct(y)
    assert found.dtype == y.dtype
    assert np.array_equal(found, np.unique(y))

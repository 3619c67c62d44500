"""What cannot be solved is refused in a sentence that names it, and leaves no trace; what is merely odd is solved."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from maxmargin import DCD, Hinge, LinearProblem, LinearSVC, SquaredHinge, Status, solve

N, D = 24, 3


def data(n_classes=2):
    rng = np.random.default_rng(0)
    y = np.arange(N) % n_classes
    return rng.normal(size=(n_classes, D))[y] + rng.normal(size=(N, D)), y


X, CODES = data()
NARROW = X[:, :2]
"""A good X of another width: a fit that fails after it has looked at X must forget that width."""
SIGNS = np.where(CODES == 1, 1, -1)


def spoiled(value, dtype=np.float64):
    Z = X.astype(dtype)
    Z[5, 1] = value
    return Z


def refused(match):
    return pytest.raises((ValueError, TypeError), match=match)


def cases(table):
    """(what is wrong, a pattern of the message) by name."""
    return pytest.mark.parametrize(("wrong", "match"), list(table.values()), ids=list(table))


def parameter_cases(table):
    """The same, named after the parameters themselves."""
    return pytest.mark.parametrize(("wrong", "match"), table, ids=[re.sub(r"\s+", " ", str(wrong))[:60] for wrong, _ in table])


class Memory:
    """What a model was, to compare it with what it is after a fit that failed."""

    def __init__(self, model):
        self.model, self.before = model, dict(vars(model))
        self.coef, self.predictions = model.coef_.copy(), model.predict(X)

    def assert_unchanged(self):
        now = vars(self.model)
        assert list(now) == list(self.before)
        assert all(now[name] is value for name, value in self.before.items())
        np.testing.assert_array_equal(self.model.coef_, self.coef)
        np.testing.assert_array_equal(self.model.predict(X), self.predictions)


@pytest.fixture(params=[{}, {"warm_start": True}], ids=["cold", "warm"])
def fitted(request):
    return LinearSVC(**request.param).fit(X, CODES)


# Parameters of LinearSVC

BAD_PARAMETERS = [
    ({"C": 0.0}, r"C must be greater than 0; got 0\.0"),
    ({"C": -1}, r"C must be .*-1"),
    ({"C": np.nan}, r"C must be .*nan"),
    ({"C": -np.inf}, r"C must be .*inf"),
    ({"C": "one"}, r"C must be .*'one'"),
    ({"C": None}, r"C must be .*None"),
    ({"C": [1.0]}, r"C must be .*\[1\.0\]"),
    ({"loss": "logistic"}, r"loss must be .*'squared_hinge'.*'logistic'"),
    ({"loss": None}, r"loss must be .*None"),
    ({"loss": Hinge()}, r"loss must be .*Hinge\(\)"),
    ({"penalty": "l3"}, r"penalty must be .*'l3'"),
    ({"penalty": None}, r"penalty must be .*None"),
    ({"penalty": "l1", "loss": "hinge"}, r"penalty='l1' and loss='hinge'"),
    ({"penalty": "elasticnet", "l1_ratio": -0.1}, r"l1_ratio must be .*-0\.1"),
    ({"multi_class": "ovo"}, r"multi_class must be .*'ovo'"),
    ({"multi_class": "crammer_singer", "C": np.inf}, r"multi_class='crammer_singer'"),
    ({"dual": "no"}, r"dual must be .*'no'"),
    ({"dual": 2}, r"dual must be .*2"),
    ({"solver": "simplex"}, r"solver.*'simplex'.*'dcd'"),
    ({"solver": None}, r"solver.*None"),
    ({"solver": 3}, r"solver.*3"),
    ({"solver": DCD}, r"solver.*DCD"),
    ({"tol": -1e-4}, r"tol must be .*-0\.0001"),
    ({"tol": np.nan}, r"tol must be .*nan"),
    ({"tol": np.inf}, r"tol must be .*inf"),
    ({"tol": "tight"}, r"tol must be .*'tight'"),
    ({"tol": None}, r"tol must be .*None"),
    ({"max_iter": -2}, r"max_iter must be .*-2"),
    ({"max_iter": 1.5}, r"max_iter must be .*1\.5"),
    ({"max_iter": "many"}, r"max_iter must be .*'many'"),
    ({"max_iter": None}, r"max_iter must be .*None"),
    ({"max_seconds": 0}, r"max_seconds must be .*0"),
    ({"max_seconds": -1.0}, r"max_seconds must be .*-1\.0"),
    ({"max_seconds": np.nan}, r"max_seconds must be .*nan"),
    ({"max_seconds": "long"}, r"max_seconds must be .*'long'"),
    ({"intercept_scaling": 0.0}, r"intercept_scaling must be .*0\.0"),
    ({"intercept_scaling": -1}, r"intercept_scaling must be .*-1"),
    ({"intercept_scaling": np.nan}, r"intercept_scaling must be .*nan"),
    ({"intercept_scaling": "big"}, r"intercept_scaling must be .*'big'"),
    ({"fit_intercept": "yes"}, r"fit_intercept must be .*'yes'"),
    ({"warm_start": "yes"}, r"warm_start must be .*'yes'"),
    ({"n_jobs": 0}, r"n_jobs.*0"),
    ({"n_jobs": "two"}, r"n_jobs.*'two'"),
    ({"callback": 3}, r"callback must be callable; got 3"),
    ({"callback": "print"}, r"callback must be callable; got 'print'"),
    ({"random_state": -1}, r"random_state must be .*-1"),
    ({"random_state": "dice"}, r"random_state must be .*'dice'"),
    ({"random_state": 0.5}, r"random_state must be .*0\.5"),
    ({"class_weight": "heavy"}, r"class_weight.*'heavy'"),
    ({"class_weight": {7: 1.0}}, r"class_weight|class label"),
    ({"class_weight": {0: -1.0}}, r"class_weight must .*-1"),
    ({"class_weight": {0: np.nan}}, r"class_weight must .*nan"),
]


@parameter_cases(BAD_PARAMETERS)
def test_a_bad_parameter_is_named_and_leaves_the_model_as_it_was(fitted, wrong, match):
    memory = Memory(fitted.set_params(**wrong))
    with refused(match):
        fitted.fit(NARROW, CODES)
    memory.assert_unchanged()


@parameter_cases(BAD_PARAMETERS)
def test_a_bad_parameter_is_named_with_several_classes_and_threads_too(wrong, match):
    with refused(match):
        LinearSVC(**{"n_jobs": 2, **wrong}).fit(*data(3))


@parameter_cases(BAD_PARAMETERS)
def test_a_model_that_was_never_fitted_is_not_fitted_by_a_failure(wrong, match):
    model = LinearSVC(**wrong)
    names = list(vars(model))
    with refused(match):
        model.fit(X, CODES)
    assert list(vars(model)) == names
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("intercept_scaling", [0.0, -1.0])
def test_without_an_intercept_its_scaling_does_not_matter(intercept_scaling):
    odd = LinearSVC(fit_intercept=False, intercept_scaling=intercept_scaling).fit(X, CODES)
    np.testing.assert_array_equal(odd.coef_, LinearSVC(fit_intercept=False).fit(X, CODES).coef_)


def test_class_weights_that_are_all_zero_leave_nothing_to_fit(fitted):
    memory = Memory(fitted.set_params(class_weight={0: 0.0, 1: 0.0}))
    with refused(r"class_weight must .*\[0\. 0\.\]"):
        fitted.fit(NARROW, CODES)
    memory.assert_unchanged()


# Data for LinearSVC

BAD_X = {
    "nan": (spoiled(np.nan), "NaN"),
    "infinity": (spoiled(np.inf), "infinity"),
    "minus-infinity": (spoiled(-np.inf), "infinity"),
    "nan-float32": (spoiled(np.nan, np.float32), "NaN"),
    "nan-csr": (sparse.csr_array(spoiled(np.nan)), "NaN"),
    "infinity-csc": (sparse.csc_matrix(spoiled(np.inf)), "infinity"),
    "words": (np.full((N, D), "word"), "word"),
    "word-among-numbers": (spoiled("word", object), "word"),
    "complex": (X * 1j, "Complex"),
    "one-dimension": (X[:, 0], "Expected 2D"),
    "three-dimensions": (X[None], "dim 3"),
    "no-features": (np.empty((N, 0)), r"0 feature\(s\)"),
    "no-features-csr": (sparse.csr_array((N, 0)), r"0 feature\(s\)"),
    "fewer-rows-than-labels": (X[:-1], rf"\[{N - 1}, {N}\]"),
    "more-rows-than-labels": (np.vstack([X, X]), rf"\[{2 * N}, {N}\]"),
    "nothing": (None, "None|Expected 2D"),
}

BAD_Y = {
    "one-class": (np.zeros(N, dtype=int), r"number of classes.*1 class.*0"),
    "one-class-of-words": (np.full(N, "only"), r"number of classes.*1 class: only"),
    "continuous": (X[:, 0], "continuous"),
    "nan": (np.where(CODES == 0, np.nan, 1.0), "NaN"),
    "infinity": (np.where(CODES == 0, np.inf, 1.0), "infinity"),
    "shorter": (CODES[:-1], rf"\[{N}, {N - 1}\]"),
    "longer": (np.append(CODES, 0), rf"\[{N}, {N + 1}\]"),
    "two-columns": (np.column_stack([CODES, 2 + CODES]), r"must hold zeros and ones"),
    "nothing": (None, "y"),
}

BAD_SAMPLE_WEIGHTS = {
    "negative": (np.full(N, -1.0), r"all samples have zero or negative weights"),
    "one-negative": (np.append(np.ones(N - 1), -0.5), r"Negative values in data passed to `sample_weight`; the least is -0\.5"),
    "all-zero": (np.zeros(N), r"at least one non-zero number|all samples have zero"),  # scikit-learn's words before 1.8
    "nan": (np.full(N, np.nan), r"sample_weight contains NaN"),
    "infinity": (np.full(N, np.inf), r"sample_weight contains infinity"),
    "shorter": (np.ones(N - 1), rf"sample_weight.*{N - 1}.*{N}"),
    "longer": (np.ones(N + 1), rf"sample_weight.*{N + 1}.*{N}"),
    "two-columns": (np.ones((N, 2)), r"(?i)sample.weights.*(2D|1D)"),
    "words": (["heavy"] * N, "heavy"),
}


@cases(BAD_X)
def test_a_bad_X_is_refused_and_leaves_the_model_as_it_was(fitted, wrong, match):
    memory = Memory(fitted)
    with refused(match):
        fitted.fit(wrong, CODES)
    memory.assert_unchanged()


@pytest.mark.parametrize("empty", [np.empty((0, D)), sparse.csr_array((0, D))], ids=["dense", "csr"])
def test_an_empty_X_is_refused_and_leaves_the_model_as_it_was(fitted, empty):
    memory = Memory(fitted)
    with refused(r"0 sample\(s\)"):
        fitted.fit(empty, [])
    memory.assert_unchanged()


@cases(BAD_Y)
def test_a_bad_y_is_refused_and_leaves_the_model_as_it_was(fitted, wrong, match):
    memory = Memory(fitted)
    with refused(match):
        fitted.fit(NARROW, wrong)
    memory.assert_unchanged()


@cases(BAD_SAMPLE_WEIGHTS)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_bad_sample_weight_is_refused_and_leaves_the_model_as_it_was(fitted, class_weight, wrong, match):
    memory = Memory(fitted.set_params(class_weight=class_weight))
    with refused(match):
        fitted.fit(NARROW, CODES, sample_weight=wrong)
    memory.assert_unchanged()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_the_callback_reaches_the_caller_and_leaves_the_model_as_it_was(fitted, n_jobs, n_classes):
    def fail(progress):
        raise LookupError("the callback's own")

    memory = Memory(fitted.set_params(callback=fail, n_jobs=n_jobs))
    with pytest.raises(LookupError, match="the callback's own"):
        fitted.fit(NARROW, data(n_classes)[1])
    memory.assert_unchanged()


@pytest.mark.parametrize("method", ["predict", "decision_function"])
@cases({"nan": (spoiled(np.nan), "NaN"), "columns": (X[:, :2], "2 features.*expecting 3"), "row": (X[0], "Expected 2D")})
def test_a_bad_X_gets_no_prediction_and_leaves_the_model_as_it_was(fitted, method, wrong, match):
    memory = Memory(fitted)
    with refused(match):
        getattr(fitted, method)(wrong)
    memory.assert_unchanged()


# LinearProblem.build

BAD_PROBLEMS = [
    ({"C": 0.0}, r"C is zero"),
    ({"C": np.zeros(N)}, r"C is zero"),
    ({"C": -1.0}, r"C must be .*-1"),
    ({"C": np.append(np.ones(N - 1), -2.0)}, r"C must be .*-2"),
    ({"C": np.nan}, r"C must be .*nan"),
    ({"C": np.inf}, r"C must be .*inf"),
    ({"C": "one"}, r"one"),
    ({"C": [1.0, 2.0]}, rf"C must be .*{N}.*\(2,\)"),
    ({"C": np.ones((N, 1))}, rf"C must be .*{N}.*\({N}, 1\)"),
    ({"y": SIGNS[:-1]}, rf"y must .*{N}.*\({N - 1},\)"),
    ({"y": SIGNS[:, None]}, rf"y must .*{N}.*\({N}, 1\)"),
    ({"y": None}, r"y must "),
    ({"y": CODES}, r"\+1 and -1.*y\[0\] is .*0"),
    ({"y": 2 * SIGNS}, r"\+1 and -1.*y\[0\] is .*-2"),
    ({"y": SIGNS.astype(str)}, r"\+1 and -1.*y\[0\] is .*'-1'"),
    ({"y": SIGNS + 0.5}, r"\+1 and -1.*y\[0\] is .*-0\.5"),
    ({"y": np.where(SIGNS > 0, 1.0, np.nan)}, r"\+1 and -1.*y\[0\] is .*nan"),
    ({"loss": "hinge"}, r"loss.*'hinge'"),
    ({"loss": Hinge}, r"loss.*Hinge"),
    ({"loss": 1}, r"loss.*1"),
    ({"intercept_scaling": -1.0}, r"intercept_scaling must be .*-1"),
    ({"intercept_scaling": np.nan}, r"intercept_scaling must be .*nan"),
    ({"intercept_scaling": np.inf}, r"intercept_scaling must be .*inf"),
    ({"intercept_scaling": "big"}, r"intercept_scaling must be .*'big'"),
    ({"intercept_scaling": None}, r"intercept_scaling must be .*None"),
]


@parameter_cases(BAD_PROBLEMS)
def test_a_bad_problem_is_refused_by_name(wrong, match):
    with refused(match):
        LinearProblem.build(**{"X": X, "y": SIGNS, **wrong})


@cases({name: case for name, case in BAD_X.items() if "labels" not in name})
def test_a_problem_of_a_bad_X_is_refused(wrong, match):
    with refused(match):
        LinearProblem.build(wrong, SIGNS)


@pytest.mark.parametrize("wrong", [X[:-1], np.vstack([X, X])])
def test_a_problem_of_as_many_rows_as_labels_is_asked_for(wrong):
    with refused(rf"each of the {len(wrong)} rows of X.*\({N},\)"):
        LinearProblem.build(wrong, SIGNS)


# solve

BAD_SOLVES = [
    ({"solver": "simplex"}, r"solver.*'simplex'.*'dcd'"),
    ({"solver": None}, r"solver.*None"),
    ({"solver": 3}, r"solver.*3"),
    ({"solver": DCD}, r"solver.*DCD"),
    ({"tol": -1e-4}, r"tol must be .*-0\.0001"),
    ({"tol": np.nan}, r"tol must be .*nan"),
    ({"tol": "tight"}, r"tol must be .*'tight'"),
    ({"tol": None}, r"tol must be .*None"),
    ({"max_epochs": -1}, r"max_epochs must be .*-1"),
    ({"max_epochs": np.nan}, r"max_epochs must be .*nan"),
    ({"max_epochs": "many"}, r"max_epochs must be .*'many'"),
    ({"max_seconds": -1}, r"max_seconds must be .*-1"),
    ({"max_seconds": np.nan}, r"max_seconds must be .*nan"),
    ({"max_seconds": "long"}, r"max_seconds must be .*'long'"),
    ({"callback": 3}, r"callback must be callable; got 3"),
    ({"random_state": -1}, r"random_state must be .*-1"),
    ({"random_state": "dice"}, r"random_state must be .*'dice'"),
    ({"random_state": 0.5}, r"random_state must be .*0\.5"),
    ({"warm_start": np.zeros(N - 1)}, rf"warm_start must .*{N} samples.*\({N - 1},\)"),
    ({"warm_start": np.zeros((N, 1))}, rf"warm_start must .*{N} samples.*\({N}, 1\)"),
    ({"warm_start": np.full(N, np.nan)}, r"warm_start .*not finite"),
    ({"warm_start": np.full(N, np.inf)}, r"warm_start .*not finite"),
    ({"warm_start": "here"}, r"here"),
]


@parameter_cases(BAD_SOLVES)
def test_a_bad_argument_of_solve_is_refused_by_name(wrong, match):
    with refused(match):
        solve(LinearProblem.build(X, SIGNS), **wrong)


def test_the_solution_of_another_problem_is_no_warm_start():
    other = solve(LinearProblem.build(X[:-4], SIGNS[:-4]))
    with refused(rf"warm_start must .*{N} samples.*\({N - 4},\)"):
        solve(LinearProblem.build(X, SIGNS), warm_start=other)


def test_a_warm_start_outside_the_box_is_brought_into_it():
    problem = LinearProblem.build(X, SIGNS)
    solution = solve(problem, warm_start=np.linspace(-5.0, 5.0, N), max_epochs=0)
    assert problem.is_feasible(solution.alpha)
    assert np.isfinite(solution.certificate.gap)


# Odd data that can be solved


def odd_data():
    rng = np.random.default_rng(1)
    Z, y = rng.normal(size=(20, 3)), np.where(np.arange(20) % 2, 1, -1)
    Z[:, 0] += 0.5 * y
    some_zero = Z * (np.arange(20) % 4 > 0)[:, None]
    return {
        "zero-rows": (some_zero, y),
        "nothing-but-zeros": (np.zeros((6, 2)), y[:6]),
        "constant-column": (np.column_stack([Z, np.full(20, 2.0)]), y),
        "zero-column": (np.column_stack([Z, np.zeros(20)]), y),
        "duplicated-columns": (np.column_stack([Z, Z]), y),
        "duplicated-rows": (np.vstack([Z, Z, Z]), np.tile(y, 3)),
        "opposite-labels": (np.vstack([Z, Z]), np.append(y, -y)),
        "one-point-with-both-labels": (np.ones((2, 3)), np.array([1, -1])),
        "single-feature": (Z[:, :1], y),
        "single-constant-feature": (np.ones((20, 1)), y),
        "one-sample-a-class": (Z[:2], y[:2]),
        "one-against-many": (Z, np.where(np.arange(20) == 3, 1, -1)),
        "tiny-numbers": (1e-8 * Z, y),
        "more-features-than-samples": (rng.normal(size=(4, 30)), y[:4]),
    }


ODD = odd_data()
every_odd_case = pytest.mark.parametrize("name", ODD)
both_losses = pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=["hinge", "squared_hinge"])
LOSS_NAMES = {Hinge(): "hinge", SquaredHinge(): "squared_hinge"}


def values_by_the_textbook(Z, y, C, loss, scaling, w, alpha):
    """P(w) and D(alpha), written out; alpha is in the box."""
    Z = np.column_stack([Z, np.full(len(Z), scaling)]) if scaling else Z
    slack = np.maximum(0.0, 1.0 - y * (Z @ w))
    w_of_alpha = Z.T @ (alpha * y)
    assert (alpha >= 0.0).all()
    if isinstance(loss, Hinge):
        assert (alpha <= C).all()
        penalties, linear = C * slack.sum(), alpha.sum()
    else:
        penalties, linear = C * (slack**2).sum(), (alpha - alpha**2 / (4.0 * C)).sum()
    return 0.5 * w @ w + penalties, linear - 0.5 * w_of_alpha @ w_of_alpha


@every_odd_case
@both_losses
@pytest.mark.parametrize("scaling", [0.0, 1.0])
@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_odd_data_is_solved_and_its_certificate_is_right(name, loss, scaling, make):
    Z, y = ODD[name]
    C, tol = 0.7, 1e-8
    solution = solve(LinearProblem.build(make(Z), y, C, loss, scaling), tol=tol)
    certificate = solution.certificate
    primal, dual = values_by_the_textbook(Z, y, C, loss, scaling, solution.w, solution.alpha)
    assert solution.status is Status.CERTIFIED
    assert certificate.primal == pytest.approx(primal, rel=1e-12)
    assert certificate.dual == pytest.approx(dual, rel=1e-12)
    assert -1e-12 * primal <= primal - dual <= (tol + 1e-12) * primal
    assert certificate.n_support == np.count_nonzero(solution.alpha)
    other = solve(LinearProblem.build(Z, y, C, loss, scaling), tol=1e-4, random_state=1)
    assert np.linalg.norm(solution.w - other.w) <= certificate.distance_bound + other.certificate.distance_bound


@every_odd_case
@both_losses
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_odd_data_is_fitted_to_the_same_optimum(name, loss, fit_intercept):
    Z, y = ODD[name]
    model = LinearSVC(loss=LOSS_NAMES[loss], C=0.7, tol=1e-8, fit_intercept=fit_intercept).fit(Z, y)
    solution = solve(LinearProblem.build(Z, y, 0.7, loss, float(fit_intercept)), tol=1e-6)
    w = np.append(model.coef_, model.intercept_) if fit_intercept else model.coef_.ravel()
    assert model.status_ is Status.CERTIFIED
    assert np.linalg.norm(w - solution.w) <= model.certificate_.distance_bound + solution.certificate.distance_bound
    assert set(model.predict(Z)) <= {-1, 1}


@both_losses
def test_one_sample_a_class_is_enough_for_many_classes(loss):
    model = LinearSVC(loss=LOSS_NAMES[loss], C=100.0).fit(5.0 * np.eye(5), list("abcde"))
    assert model.predict(5.0 * np.eye(5)).tolist() == list("abcde")
    assert model.status_ == [Status.CERTIFIED] * 5


@both_losses
def test_points_with_both_labels_are_on_neither_side(loss):
    model = LinearSVC(loss=LOSS_NAMES[loss], tol=1e-12).fit(*ODD["one-point-with-both-labels"])
    np.testing.assert_allclose(model.decision_function(np.ones((1, 3))), 0.0, atol=1e-5)


@both_losses
def test_equal_columns_get_equal_weights(loss):
    model = LinearSVC(loss=LOSS_NAMES[loss], tol=1e-9).fit(*ODD["duplicated-columns"])
    np.testing.assert_allclose(model.coef_[0, :3], model.coef_[0, 3:], rtol=1e-12)


@both_losses
def test_a_zero_column_gets_no_weight(loss):
    assert LinearSVC(loss=LOSS_NAMES[loss]).fit(*ODD["zero-column"]).coef_[0, -1] == 0.0


def test_a_refused_model_can_be_mended_and_fitted():
    model = LinearSVC(C=-1.0)
    with refused("C must be"):
        model.fit(X, CODES)
    np.testing.assert_array_equal(model.set_params(C=1.0).fit(X, CODES).coef_, clone(model).fit(X, CODES).coef_)

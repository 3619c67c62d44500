"""C = infinity: the separating hyperplane with the greatest margin, or a proof that there is none."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from maxmargin import InseparableError, LinearSVC, Status
from maxmargin.certificate.hard_margin import Ray, certify_hard_margin, least_margin, with_margin_one
from maxmargin.problem.linear import LinearProblem

intercepts = pytest.mark.parametrize(
    "settings", [{"fit_intercept": False}, {}, {"penalize_intercept": False}], ids=["none", "penalised", "free"]
)


def separable(n: int = 80, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    X = rng.normal(size=(n, d))
    values = X @ w
    return X[np.abs(values) > 0.3], np.sign(values[np.abs(values) > 0.3])


def greatest_margin(X: np.ndarray, y: np.ndarray) -> float:
    """1 / |w*|^2 ... by SciPy's SLSQP on the primal: |w*|^2 / 2."""
    from scipy.optimize import minimize

    start = LinearSVC(C=1e4, loss="hinge", fit_intercept=False, tol=1e-8).fit(X, y).coef_[0]
    margins = {"type": "ineq", "fun": lambda w: y * (X @ w) - 1.0, "jac": lambda w: y[:, None] * X}
    found = minimize(lambda w: 0.5 * w @ w, 2.0 * start, jac=lambda w: w, constraints=margins, options={"ftol": 1e-14})
    return float(found.fun)


@intercepts
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_separable_classes_get_the_certified_greatest_margin(settings, loss, is_sparse):
    X, y = separable()
    model = LinearSVC(C=np.inf, loss=loss, tol=1e-6, **settings).fit(sparse.csr_array(X) if is_sparse else X, y)
    assert model.status_ is Status.CERTIFIED
    margins = y * model.decision_function(X)
    assert margins.min() == pytest.approx(1.0, abs=1e-9)
    assert model.certificate_.primal == pytest.approx(0.5 * np.sum(model.coef_**2) + _offset_term(model), rel=1e-9)


def _offset_term(model: LinearSVC) -> float:
    return 0.5 * float(model.intercept_[0]) ** 2 if model.fit_intercept and model.penalize_intercept else 0.0


@pytest.mark.parametrize("seed", range(5))
def test_w_is_made_longer_until_rounding_leaves_no_margin_below_one(seed):
    """A column far from zero: to make w longer by a rounding error moves margins up and down by far more than that."""
    X, y = separable(seed=seed)
    X = np.column_stack([X, np.full(len(X), 3e9 / 7.0)])
    w = LinearSVC(C=1e4, loss="hinge", fit_intercept=False).fit(X[:, :3], y).coef_[0]
    problem = LinearProblem.build(X, y, 1.0, penalizes_intercept=False, intercept_scaling=1.0)
    for shift in (0.1, 1.0 / 3.0, 0.7):
        found = with_margin_one(problem, np.array([*w, shift, -shift * X[0, 3]]))
        assert 1.0 <= least_margin(problem, found) <= 1.0 + 1e-6


def test_the_margin_is_that_of_a_quadratic_program():
    X, y = separable(40)
    model = LinearSVC(C=np.inf, tol=1e-8, fit_intercept=False).fit(X, y)
    assert model.certificate_.primal == pytest.approx(greatest_margin(X, y), rel=1e-6)


def test_the_exact_optimum_lies_within_the_distance_bound():
    X, y = separable()
    exact, rough = (LinearSVC(C=np.inf, tol=tol, fit_intercept=False).fit(X, y) for tol in (1e-10, 1e-2))
    apart = np.linalg.norm(exact.coef_ - rough.coef_)
    assert apart <= exact.certificate_.distance_bound + rough.certificate_.distance_bound


@intercepts
def test_classes_that_overlap_are_refused_with_a_ray_that_proves_it(settings):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(100, 4)), np.where(rng.random(100) < 0.5, 1.0, -1.0)
    with pytest.raises(InseparableError, match=r"cannot be separated by a hyperplane.*Use a finite C") as refused:
        LinearSVC(C=np.inf, **settings).fit(X, y)
    ray, columns = refused.value.ray, X if settings.get("fit_intercept") is False else np.column_stack([X, np.ones(100)])
    assert np.all(ray >= 0.0)
    exact = [
        sum(Fraction(float(a)) * Fraction(float(s)) * Fraction(float(x)) for a, s, x in zip(ray, y, column, strict=True))
        for column in columns.T
    ]
    total = sum(Fraction(float(a)) for a in ray)
    assert sum(value * value for value in exact) <= (Fraction(refused.value.margin) * total) ** 2
    assert refused.value.margin < 1e-12


def test_two_equal_samples_of_different_classes_cannot_be_separated():
    with pytest.raises(InseparableError):
        LinearSVC(C=np.inf).fit([[1.0, 2.0], [1.0, 2.0], [3.0, 1.0]], [0, 1, 1])


def test_a_sample_of_weight_zero_does_not_count():
    X, y = separable()
    X, y = np.vstack([X, X[:1]]), np.append(y, -y[0])
    weights = np.append(np.ones(len(y) - 1), 0.0)
    assert LinearSVC(C=np.inf, tol=1e-6).fit(X, y, weights).status_ is Status.CERTIFIED
    with pytest.raises(InseparableError):
        LinearSVC(C=np.inf, tol=1e-6).fit(X, y)


def test_an_answer_whose_margin_is_below_one_is_refused():
    X, y = separable()
    problem = LinearProblem.build(X, y, 1.0)
    model = LinearSVC(C=np.inf, tol=1e-6, fit_intercept=False).fit(X, y)
    alpha = np.zeros(len(y))
    assert certify_hard_margin(problem, model.coef_[0], alpha).gap == pytest.approx(model.certificate_.primal)
    assert certify_hard_margin(problem, 0.999 * model.coef_[0], alpha).gap == np.inf
    assert least_margin(problem, model.coef_[0]) >= 1.0


def test_a_ray_bounds_the_margin_of_separable_classes_too():
    X, y = separable()
    problem = LinearProblem.build(X, y, 1.0)
    margin = 1.0 / np.linalg.norm(LinearSVC(C=np.inf, tol=1e-8, fit_intercept=False).fit(X, y).coef_)
    for seed in range(5):
        ray = Ray.of(problem, np.random.default_rng(seed).random(len(y)))
        assert ray.margin >= margin
        assert not ray.is_proof


@pytest.mark.parametrize("C", [-np.inf, np.nan, 0.0, "inf"])
def test_other_values_of_C_are_refused_as_before(C):
    with pytest.raises(ValueError, match="C must be"):
        LinearSVC(C=C).fit(*separable())


@pytest.mark.parametrize("penalizes", [False, True])
@pytest.mark.parametrize("size", [1e9, 1e12, 1e15])
def test_classes_that_a_small_column_separates_are_not_called_inseparable_beside_a_large_one(size, penalizes):
    random = np.random.default_rng(0)
    y = np.where(np.arange(20) < 10, -1, 1)
    X = np.column_stack(
        [y * random.uniform(0.5, 2.0, 20), size * random.standard_normal(20), 1.7e9 + random.integers(0, 10**6, 20)]
    )
    model = LinearSVC(loss="hinge", C=np.inf, penalize_intercept=penalizes)
    try:
        assert np.all(model.fit(X, y).predict(X) == y)
    except InseparableError:
        pytest.fail("the first column separates them")
    except ValueError:
        pass  # neither was proved
    mixed = np.where(np.arange(20) % 2 == 0, -1, 1)
    X[:10], mixed[:10] = X[10:], -mixed[10:]  # equal rows of different classes
    with pytest.raises(InseparableError):
        model.fit(X, mixed)

"""Is w = 0 optimal? No share of a large column may hide a small one, and where it is said, a point with w = 0 exists."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from maxmargin import LinearOneClassSVM, NuSVC, OneClassSVM, Status, certify, one_class_problem
from maxmargin.certificate.model import KernelModel
from maxmargin.certificate.nu import certify_nu
from maxmargin.certificate.nu_model import certify_nu_model
from maxmargin.certificate.zero import DualPoint, _free_rows, exact_residual, is_zero_in_columns
from maxmargin.problem.kernels import RBF, Linear, Polynomial
from maxmargin.problem.nu import nu_svc, one_class

SCALES = (1e5, 1e7, 1e9, 1e12)


def separated(scale: float, n: int = 100):
    """Two classes apart in a small column, beside a large one that says nothing."""
    rng = np.random.default_rng(0)
    small = rng.normal(size=n)
    y = np.where(small > 0.0, 1, -1)
    return np.column_stack([rng.uniform(1.0, 2.0, n) * scale, small + 0.5 * y]), y


def point_of(alpha, X, upper, signs, totals):
    groups = np.column_stack([signs > 0, signs < 0]).astype(float)
    return DualPoint(alpha, upper, signs, groups, np.asarray(totals))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(gamma=1.0), Polynomial(gamma=1.0, coef0=1.0)], ids=str)
def test_a_large_column_does_not_hide_that_a_small_one_separates(kernel, scale):
    X, y = separated(scale)
    problem = nu_svc(X, y, kernel, 0.3)
    level = problem.nearest_feasible(np.full(len(y), 0.3))
    certificate = certify_nu(problem, level, tol=1e-3).certificate
    assert not certificate.meets(1e-3)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("make", [lambda: NuSVC(kernel="linear", nu=0.3), lambda: OneClassSVM(kernel="linear", nu=0.3)])
def test_machines_on_such_columns_are_certified_and_not_zero(make, scale):
    X, y = separated(scale)
    X[:, 0] -= 1.5 * scale
    if isinstance(make(), OneClassSVM):
        X[:, 1] = 1.0 + 0.1 * X[:, 1]
    model = make().fit(X, y) if isinstance(make(), NuSVC) else make().fit(X)
    assert model.status_.name == "CERTIFIED"
    assert model.certificate_.primal < -1.0


@pytest.mark.parametrize("scale", [1.0, 1e5, 1e9])
def test_a_column_of_another_scale_that_says_nothing_changes_the_optimum_little(scale):
    """As long as it cannot be used: the mean of every class is the same there, copy by copy."""
    X, y = separated(1.0, 60)
    twins = np.repeat(X[:, 1], 2), np.repeat(y, 2), np.tile([scale, -scale], 60)
    alone = NuSVC(kernel="linear", nu=0.3, tol=1e-6).fit(twins[0][:, None], twins[1])
    beside = NuSVC(kernel="linear", nu=0.3, tol=1e-6).fit(np.column_stack([twins[0], twins[2]]), twins[1])
    assert beside.certificate_.primal == pytest.approx(alone.certificate_.primal, rel=1e-5)
    np.testing.assert_allclose(beside.rho_ * beside.coef_[0, 0], alone.rho_ * alone.coef_[0, 0], rtol=1e-3)


def test_one_class_in_a_small_column_is_not_hidden_either():
    X = np.column_stack([1e9 * np.random.default_rng(1).normal(size=100), np.linspace(0.5, 1.5, 100)])
    model = LinearOneClassSVM(nu=0.3).fit(X)
    assert model.certificate_.primal < -1.0


@pytest.mark.parametrize("gamma", [1e-10, 1e-14])
def test_samples_that_a_kernel_hardly_tells_apart_are_not_called_equal(gamma):
    X, y = separated(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NuSVC(gamma=gamma, nu=0.3).fit(X, y)
    assert model.certificate_.primal != 0.0


def can_be_zero(X, y, total):
    """The greatest distance from the bounds of an alpha with w = 0 and these sums, by linear programming."""
    n = len(y)
    equations = np.vstack([(X * y[:, None]).T, y > 0, y < 0])
    found = linprog(
        np.append(np.zeros(n), -1.0),
        A_eq=np.column_stack([equations, np.zeros(len(equations))]),
        b_eq=np.concatenate([np.zeros(X.shape[1]), [total, total]]),
        A_ub=np.vstack([np.column_stack([-np.eye(n), np.ones(n)]), np.column_stack([np.eye(n), np.ones(n)])]),
        b_ub=np.concatenate([np.zeros(n), np.ones(n)]),
        bounds=[(None, None)] * (n + 1),
    )
    return found.x[-1], found.x[:n]


def test_what_is_called_zero_can_be_zero():
    """Random small problems, at the alpha that is farthest from the bounds, with noise of all sizes."""
    rng, found = np.random.default_rng(5), []
    for _ in range(150):
        X = rng.normal(size=(12, 3)) * 10.0 ** rng.integers(-6, 7, 3)
        y = np.tile([1.0, -1.0], 6)
        room, alpha = can_be_zero(X / np.abs(X).max(axis=0), y, total=2.0)
        alpha = np.clip(alpha + 10.0 ** rng.uniform(-17.0, -6.0) * rng.normal(size=12), 0.0, 1.0)
        is_zero = is_zero_in_columns(X, point_of(alpha, X, np.ones(12), y, [2.0, 2.0]), is_moved=True)
        assert not is_zero or room > -1e-9
        found.append(is_zero)
    assert 20 < sum(found) < 100


def test_zero_does_not_depend_on_the_scales_of_columns():
    rng = np.random.default_rng(7)
    X = np.repeat(rng.normal(size=(30, 4)), 2, axis=0)
    y = np.tile([1.0, -1.0], 30)
    alpha = np.clip(0.4 + 1e-12 * rng.normal(size=60), 0.0, 1.0)
    for scales in (np.ones(4), 10.0 ** np.array([-9.0, 0.0, 5.0, 12.0])):
        point = point_of(alpha, X, np.ones(60), y, [12.0, 12.0])
        assert is_zero_in_columns(X * scales, point, is_moved=True)


def test_no_variable_that_can_move_leaves_only_what_rounding_allows():
    X, y = np.array([[1.0], [1.0], [3.0], [3.0 + 1e-10]]), np.array([1.0, -1.0, 1.0, -1.0])
    full = point_of(np.ones(4), X, np.ones(4), y, [2.0, 2.0])
    assert not is_zero_in_columns(X, full, is_moved=True)
    assert is_zero_in_columns(np.round(X), full, is_moved=True)


def test_a_model_whose_small_weight_was_changed_is_not_the_zero_of_its_problem():
    """A w that is zero but for a small column, beside a column whose rounding is longer."""
    rng = np.random.default_rng(3)
    X = np.repeat(np.column_stack([1e9 * rng.normal(size=30), rng.normal(size=30)]), 2, axis=0)
    y = np.tile([1, -1], 30)
    problem = nu_svc(X, y, Linear(), 0.4)
    alpha = problem.nearest_feasible(np.full(60, 0.4))
    honest = certify_nu_model(problem, KernelModel(problem.coefficients(alpha), 0.0), alpha)
    assert honest.meets(1e-3)
    small_weight = KernelModel(np.array([1e-3]), 0.0, np.array([[0.0, 1.0]]))
    one = one_class(X, Linear(), 0.4)
    damaged = certify_nu_model(one, small_weight, one.nearest_feasible(np.full(60, 0.4)))
    assert not damaged.meets(1e-3)


def test_rbf_with_every_point_in_both_classes_is_zero():
    X = np.repeat(np.random.default_rng(0).normal(size=(40, 3)), 2, axis=0)
    problem = nu_svc(X, np.tile([1, -1], 40), RBF(0.5), 0.4)
    assert certify_nu(problem, np.full(80, 0.4), tol=1e-3).certificate.meets(1e-3)


@pytest.mark.parametrize("nu", [0.1, 0.5])
@pytest.mark.parametrize("X", [[[-999.0], [7.1]], [[-3.3], [7.1], [0.7]], [[1e9 / 3.0], [-0.1]]], ids=str)
def test_zero_between_samples_on_both_sides_is_certified_whatever_the_last_digits_of_alpha_are(X, nu):
    model = LinearOneClassSVM(nu=nu).fit(np.array(X))
    assert model.status_ is Status.CERTIFIED
    assert (model.certificate_.primal, model.certificate_.gap, model.coef_.any()) == (0.0, 0.0, False)


def test_w_of_zero_is_not_certified_where_no_mean_of_the_samples_is_the_origin():
    X = np.array([[-999.0, 1.0], [7.1, 2.0]])
    problem = one_class_problem(X, 0.5)
    alpha = np.array([7.1, 999.0]) / 1006.1
    assert certify(problem, np.zeros(3), alpha).relative_gap == 1.0


def test_the_residual_of_a_point_is_exact_but_for_its_error():
    """Beside rational arithmetic, with columns of all sizes whose weights are nothing but rounding."""
    rng = np.random.default_rng(11)
    X = np.repeat(rng.normal(size=(15, 4)) * 10.0 ** np.array([-9.0, 0.0, 6.0, 18.0]), 2, axis=0)
    y, centre = np.tile([1.0, -1.0], 15), X.mean(axis=0)
    alpha = np.clip(0.4 + 1e-15 * rng.normal(size=30), 0.0, 1.0)
    point = point_of(alpha, X, np.ones(30), y, [6.0, 6.0])
    found = exact_residual(X, centre, point)
    signed = [Fraction(float(v)) for v in point.signed]
    columns = [
        sum(v * (Fraction(float(x)) - Fraction(float(c))) for v, x in zip(signed, column, strict=True))
        for column, c in zip(X.T, centre, strict=True)
    ]
    sums = [sum(Fraction(float(a)) for a, k in zip(alpha, y, strict=True) if k == sign) - 6 for sign in (1.0, -1.0)]
    for exact, value, error in zip([*columns, *sums], found.value, found.error, strict=True):
        assert abs(exact - Fraction(float(value))) <= Fraction(float(error))
        assert error <= 1e-14 * abs(value) + 1e-30 * np.abs(X).max() + 2.0**-890


def test_a_direction_that_is_hardly_longer_than_rounding_does_not_hide_that_w_can_be_zero():
    """Two columns that differ by little: a residual that is exact is small beside their difference, its usual bound is not."""
    rng = np.random.default_rng(2)
    X = np.repeat(rng.normal(size=(100, 3)), 2, axis=0)
    X = np.column_stack([X, X[:, 0] + 5e-13 * np.repeat(rng.normal(size=100), 2)])
    alpha = 0.4 + 1e-11 * rng.normal(size=200)
    point = point_of(alpha, X, np.ones(200), np.tile([1.0, -1.0], 100), [40.0, 40.0])
    assert is_zero_in_columns(X, point, is_moved=True)


@pytest.mark.parametrize("n_free", [0, 1, 4, 5, 6, 30])
def test_samples_without_room_change_no_singular_value_and_all_directions_are_looked_at(n_free):
    rng = np.random.default_rng(n_free)
    B, room = rng.normal(size=(40, 5)), np.zeros(40)
    room[rng.permutation(40)[:n_free]] = rng.uniform(0.1, 1.0, n_free)
    _, values, directions = np.linalg.svd(_free_rows(B, room), full_matrices=False)
    np.testing.assert_allclose(values, np.linalg.svd(B * room[:, None], compute_uv=False), atol=1e-14)
    np.testing.assert_allclose(directions.T @ directions, np.eye(5), atol=1e-14)


@pytest.mark.parametrize("off", [1e-10, 1e-12])
def test_what_fewer_samples_than_columns_leave_over_is_not_called_zero(off):
    """alpha_1 = alpha_2 in the first column, and alpha_1 = (1 + off) alpha_2 in the second: in rational arithmetic nothing but
    alpha = 0 is a zero, and its sum is wrong."""
    X = np.ones((2, 5))
    X[1] = -1.0
    X[1, 1] = -1.0 - off
    rows = [[Fraction(x) for x in column] for column in X.T]
    assert rows[0][0] * rows[1][1] != rows[0][1] * rows[1][0]
    alpha, one = np.array([0.5, 0.5]), np.ones(2)
    assert not is_zero_in_columns(X, DualPoint(alpha, one, one, one[:, None], np.array([1.0])))


@pytest.mark.parametrize("shift", [0.0, 1e-3])
def test_one_class_is_called_zero_by_its_support_vectors_where_it_is_by_all_samples(shift):
    """Whatever samples without alpha are beside them."""
    rng = np.random.default_rng(3)
    X = rng.integers(-3, 4, (30, 4)).astype(float)
    X = np.vstack([X, -X, rng.normal(size=(200, 4))]) + shift
    alpha = np.append(np.full(60, 0.5), np.zeros(200))
    problem = one_class_problem(X, 30.0 / 260.0)
    certificate = certify(problem, np.zeros(5), problem.balanced(alpha))
    ones = np.ones(260)
    assert is_zero_in_columns(X, DualPoint(alpha, ones, ones, ones[:, None], np.array([30.0]))) == (shift == 0.0)
    assert certificate.meets(1e-6) == (shift == 0.0)

"""The interior-point method of the problems with nu, judged by their certificate, and the fits that need it."""

from __future__ import annotations

import warnings
from itertools import pairwise, product

import numpy as np
import pytest

from maxmargin import NuSVC, NuSVR, OneClassSVM
from maxmargin.certificate.nu import certify_nu
from maxmargin.problem.kernels import RBF, Linear, Polynomial
from maxmargin.problem.nu import nu_svc, nu_svr, one_class
from maxmargin.solvers.interior_point import solve_inside
from maxmargin.solvers.interior_program import InteriorPolicy, Program
from maxmargin.solvers.interior_zero import is_rounding, shortened
from maxmargin.solvers.kernel.nu_program import Inside, InteriorCosts
from tests import raw_catalogue

KERNELS = (Linear(), Polynomial(gamma=0.5, coef0=1.0, degree=2), RBF(0.3))
RAW_TABLES = ("unix-times", "milliseconds", "salaries")

HARD = ("milliseconds", "poly")
"""Cubes of milliseconds beside those of seconds: optimal values are 1e-40 of the kernel's, and not zero."""


def made(family, kernel, nu=0.4, n=60):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3)) * np.array([1.0, 3.0, 0.2]) + 1.0
    y = X @ np.array([1.0, -1.0, 2.0]) + 0.1 * rng.normal(size=n)
    if family == "one class":
        return one_class(X, kernel, nu)
    return nu_svr(X, y, kernel, nu) if family == "regression" else nu_svc(X, np.where(y > y.mean(), 1, -1), kernel, nu)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("family", ["classes", "one class", "regression"])
def test_its_first_point_is_optimal_by_the_certificate(family, kernel):
    problem = made(family, kernel)
    alpha, steps = next(Inside(problem, InteriorCosts(), 1024).points(1e-6))
    assert certify_nu(problem, alpha).certificate.meets(1e-6)
    assert 0 < steps < 60


def test_a_program_whose_optimum_is_known():
    """min x1^2 / 2 + 2 x2^2 - x1 with x1 + x2 = 1: the slopes x1 - 1 and 4 x2 are equal at x = (1, 0), at the bound of both."""
    program = Program(
        np.diag([1.0, 2.0]), np.zeros(2), np.array([1.0, 0.0]), np.array([1.5, 1.5]), np.ones((2, 1)), np.array([1.0])
    )
    points, _ = solve_inside(program, 1e-12)
    np.testing.assert_allclose(points[0].x, [1.0, 0.0], atol=1e-6)


def test_a_group_whose_variables_are_all_at_their_bounds_is_a_constant():
    X, y = np.arange(12.0)[:, None], np.where(np.arange(12) < 4, 1, -1)
    problem = nu_svc(X, y, Linear(), 8.0 / 12.0)
    alpha, _ = next(Inside(problem, InteriorCosts(), 1024).points(1e-6))
    assert np.all(alpha[y > 0] == 1.0)
    assert certify_nu(problem, alpha).certificate.meets(1e-6)


def test_a_kernel_matrix_without_a_short_factor_is_left_to_smo():
    assert not list(Inside(made("classes", RBF(50.0)), InteriorCosts(most_columns=5), 1024).points(1e-6))


def test_it_is_tried_only_when_smo_has_taken_as_long():
    inside = Inside(made("classes", Linear()), InteriorCosts(), 1024)
    assert not inside.pays(1000)
    assert inside.pays(10_000_000)


def test_a_factor_is_looked_for_only_when_there_is_time_for_twice_as_many_columns(monkeypatch):
    looked = []

    def no_factor(problem, costs):
        looked.append(costs.most_columns)

    monkeypatch.setattr("maxmargin.solvers.kernel.nu_program._factor_of", no_factor)
    inside = Inside(made("classes", RBF(50.0), n=200), InteriorCosts(), 1024)
    assert not any(inside.pays(steps) for steps in range(0, 2_000_000, 1000))
    assert 1 < len(looked) <= 6
    assert all(b >= 2 * a for a, b in pairwise(looked[:-1]))
    assert looked[-1] == 200


@pytest.mark.parametrize("n", [120, 300])
def test_noisy_labels_with_a_small_nu_are_certified(n):
    """w is not zero with a kernel that is strictly positive definite, but nearly: SMO comes near to it ever more slowly."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(n, 2)), np.arange(n) % 2
    assert NuSVC(nu=0.1).fit(X, y).status_.is_as_asked


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.7])
@pytest.mark.parametrize(("name", "kernel"), [pair for pair in product(RAW_TABLES, ["linear", "poly"]) if pair != HARD])
def test_fits_of_raw_tables_end_certified(name, kernel, nu):
    """Before, most of the fits of classes here gave up: SMO comes near to w = 0 and no further."""
    table = raw_catalogue.table(name, 300).thinned(300)
    classes, inliers = NuSVC(kernel=kernel, nu=nu), OneClassSVM(kernel=kernel, nu=nu)
    classes.fit(table.X, table.y)
    inliers.fit(table.X)
    found = classes.status_ if isinstance(classes.status_, list) else [classes.status_]
    assert {status.name for status in [*found, inliers.status_]} == {"CERTIFIED"}


def test_regression_on_a_raw_table_with_a_linear_kernel_ends_certified():
    table = raw_catalogue.table("constant-columns", 300)
    model = NuSVR(kernel="linear", nu=0.3).fit(table.X[:, 1:], table.X[:, 0])
    assert model.status_.name == "CERTIFIED"


@pytest.mark.parametrize(
    ("name", "kernel", "nu"),
    [
        ("collinear", "rbf", 0.3),
        ("duplicated", "rbf", 0.3),
        ("invoices", "rbf", 0.05),
        ("mixed-scales", "rbf", 0.05),
        ("salaries", "rbf", 0.05),
    ],
)
def test_classes_for_which_zero_is_nearly_optimal_are_certified(name, kernel, nu):
    """The optimal values are between zero and -1e-6, with terms of the size of one."""
    table = raw_catalogue.table(name, 300).thinned(300)
    model = NuSVC(nu=nu, kernel=kernel).fit(table.X, table.y)
    statuses = model.status_ if isinstance(model.status_, list) else [model.status_]
    assert all(status.is_as_asked for status in statuses)


def test_values_far_below_rounding_are_not_called_zero():
    """Two classes that cubes of the columns can tell apart, by features that are 1e-20 of the largest."""
    table = raw_catalogue.table("milliseconds", 300).thinned(300)
    chosen = table.y < 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NuSVC(nu=0.3, kernel="poly").fit(table.X[chosen], table.y[chosen])
    assert model.status_.name == "PRECISION_LIMIT"
    assert model.certificate_.primal != 0.0


def test_a_point_whose_weights_are_all_rounding_is_the_last_of_the_steps_to_zero():
    """Two samples of each class at mirrored places: the middle of the box has w = 0 at once."""
    M = np.array([[1.0], [-1.0], [-1.0], [1.0]])
    groups = np.repeat(np.eye(2), 2, axis=0)
    program = Program(M, np.zeros(1), np.zeros(4), np.ones(4), groups, np.ones(2))
    found = shortened(program, np.array([0.4, 0.6, 0.5, 0.5]), InteriorPolicy())
    assert len(found) == 1
    assert is_rounding(program, found[0])
    assert not is_rounding(program, np.array([0.4, 0.6, 0.5, 0.5]))


def test_a_weight_is_rounding_only_beside_its_own_terms():
    """The second column is a billionth of the first, and its weight is not zero."""
    M = np.array([[1.0, 1e-9], [-1.0, 1e-9]])
    program = Program(M, np.zeros(2), np.zeros(2), np.ones(2), np.ones((2, 1)), np.ones(1))
    assert not is_rounding(program, np.array([0.5, 0.5]))

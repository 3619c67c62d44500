"""What the warning of a fit without a certificate says, and to whom."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from maxmargin import Hinge, LinearProblem, LinearSVC, NuSVC, solve
from maxmargin.estimators.advice import has_no_margin, large_column, with_cost, without_cost, without_margin
from maxmargin.problem.kernels import RBF, Polynomial, Precomputed


def beside_times(n=200):
    """Labels that a small column tells, beside milliseconds since 1970, which decide the kernel values."""
    rng = np.random.default_rng(0)
    X = np.column_stack([1.6e12 + 3e10 * rng.random(n), 1e9 * rng.random(n), rng.normal(size=(n, 12))])
    return X, (X[:, -1] > 0.0).astype(int)


def warned(model, X, y):
    with pytest.warns(ConvergenceWarning) as found:
        model.fit(X, y)
    return str(found[0].message)


def beside_turnovers(n=60):
    """Labels that a small column tells, now and then wrongly, beside turnovers, whose cubes decide the kernel values."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(n, 4))
    X = np.column_stack([np.exp(2.0 * normal[:, 0] + 27.0), 3.0 * normal[:, 1], np.exp(normal[:, 2] + 10.0)])
    return X, (normal[:, 1] + 0.3 * rng.normal(size=n) > 0.0).astype(int)


def test_a_nu_svc_without_a_margin_is_told_so_and_what_to_do():
    X, y = beside_turnovers()
    message = warned(NuSVC(kernel="poly", nu=0.1), X, y)
    assert "With nu=0.1 this kernel leaves no margin between the classes" in message
    assert "Choose a larger nu" in message
    assert "StandardScaler" in message
    assert f"column 0 of X has values up to {X[:, 0].max():.2g}" in message
    assert "smaller C" not in message


def test_an_rbf_kernel_that_sees_the_times_alone_is_certified():
    assert NuSVC(nu=0.1).fit(*beside_times()).status_.name == "CERTIFIED"


def test_standardised_columns_do_what_the_warning_says():
    X, y = beside_times()
    assert NuSVC(nu=0.1).fit((X - X.mean(axis=0)) / X.std(axis=0), y).status_.name == "CERTIFIED"


def test_the_advice_names_the_column_by_its_name():
    X = pd.DataFrame({"small": [0.5, 1.0], "time": [1.6e12, 1.7e12]})
    assert large_column(X) == ("time", 1.7e12)
    assert large_column(sparse.csr_matrix(X.to_numpy())) == (1, 1.7e12)
    assert large_column(X[["small"]]) is None
    assert large_column(np.array(["a", "b"])) is None


def test_only_an_estimator_with_C_is_told_to_choose_a_smaller_one():
    X, worst = np.array([[1e9], [2e9]]), solve(LinearProblem.build([[1.0], [2.0]], [1, -1], 1.0, Hinge()))
    assert with_cost(worst, X).endswith("or choose a smaller C.")
    assert " C" not in without_cost(None, X).replace(" Column", "")
    assert " C" not in without_margin(0.2, X).replace(" Choose", "")
    assert with_cost(worst, X / 1e9) == without_cost(None, X / 1e9) == ""
    assert without_margin(0.2, X / 1e9).endswith("a kernel that tells the classes apart.")


def test_a_machine_with_a_margin_is_not_told_that_it_has_none():
    X = np.random.default_rng(0).normal(size=(100, 3))
    model = NuSVC(nu=0.3, tol=1e-9).fit(X, X[:, 0] > 0.0)
    solution = Answer(model.certificate_, model.rho_[0] * np.abs(model.dual_coef_[0]))
    assert not has_no_margin(solution, RBF(0.5), model.support_vectors_)
    assert has_no_margin(solution, Polynomial(gamma=1.0), 1e9 * model.support_vectors_)
    assert not has_no_margin(solution, Precomputed(), model.support_vectors_)


class Answer:
    def __init__(self, certificate, alpha):
        self.certificate, self.alpha = certificate, alpha


def test_a_solver_that_was_asked_for_is_not_excused_by_the_columns():
    X, y = load_wine(return_X_y=True)
    message = warned(LinearSVC(loss="hinge", solver="dcd", C=1e6), X[::3], y[::3] == 0)
    assert message.endswith("The solver 'dcd' was asked for; solver='auto' changes to another one where that ends sooner.")

"""The leave-one-out error is that of brute force, and most samples need no refit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

import maxmargin
from maxmargin import (
    RBF,
    SVC,
    EpsilonInsensitive,
    Hinge,
    KernelProblem,
    Linear,
    LinearProblem,
    LinearSVC,
    Polynomial,
    SquaredHinge,
    solve,
)
from maxmargin.model_selection.leave_one_out import _closed_ranges, _offset_ranges
from maxmargin.model_selection.path import fit_of
from maxmargin.model_selection.removal import RemovalPolicy, Removals, decided_by_own_margin
from maxmargin.model_selection.transfer import has_free_offset, with_costs


def samples(seed=0, n=70):
    X, y = make_classification(n, 5, flip_y=0.2, random_state=seed)
    return X, np.where(y == 1, 1, -1)


def problems():
    X, y = samples()
    C = np.random.default_rng(0).uniform(0.1, 2.0, len(y))
    return {
        "hinge": LinearProblem.build(X, y, C, Hinge()),
        "squared hinge, intercept": LinearProblem.build(X, y, C, SquaredHinge(), 1.0),
        "hinge, free intercept": LinearProblem.build(X, y, C, Hinge(), 1.0, False),
        "squared hinge, free intercept": LinearProblem.build(X, y, 0.3, SquaredHinge(), 1.0, False),
        "rbf": KernelProblem.build(X, y, C, RBF(0.2), False),
        "rbf, offset": KernelProblem.build(X, y, 1.0, RBF(0.2), True),
    }


def brute_force_margins(problem):
    """Every sample is left out by hand."""
    margins = np.empty(problem.n_samples)
    for i in range(problem.n_samples):
        C = np.array(problem.C)
        C[i] = 0.0
        solution = solve(with_costs(problem, C), tol=1e-12)
        if isinstance(problem, LinearProblem):
            margins[i] = problem.margins(solution.w)[i]
        else:
            s = solution.alpha * problem.signs
            margins[i] = problem.y[i] * (problem.gram(np.array([i]), slice(None))[0] @ s + solution.b)
    return margins


@pytest.mark.parametrize("name", problems())
def test_it_is_the_error_of_brute_force(name):
    problem = problems()[name]
    loo = maxmargin.leave_one_out(problem)
    margins = brute_force_margins(problem)
    clear = np.abs(margins) > 1e-4
    assert np.array_equal(loo.is_wrong[clear], margins[clear] <= 0.0)
    assert loo.is_proved[clear].all()
    assert loo.error_bounds[0] <= loo.error <= loo.error_bounds[1]


@pytest.mark.parametrize("name", problems())
@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-12])
def test_every_margin_is_within_its_range(name, tol):
    problem = problems()[name]
    fit = fit_of(problem, solve(problem, tol=tol), 1.0)
    low, high = _offset_ranges(fit) if has_free_offset(problem) else _closed_ranges(fit)
    margins = brute_force_margins(problem)
    assert np.all(low <= margins + 1e-5)
    assert np.all(margins <= high + 1e-5)


@pytest.mark.parametrize("C", [0.3, 30.0])
@pytest.mark.parametrize("has_offset", [True, False])
def test_steps_from_the_fit_decide_what_it_leaves_open(C, has_offset):
    X, y = samples(2, 160)
    costs = C * np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    problem = KernelProblem.build(X, y, costs, RBF(0.3), has_offset)
    loo = maxmargin.leave_one_out(problem)
    margins = brute_force_margins(problem)
    clear = np.abs(margins) > 1e-4
    assert loo.was_stepped.sum() >= 10
    assert loo.was_refitted.sum() < 0.2 * loo.was_stepped.sum()
    assert np.array_equal(loo.is_wrong[clear], margins[clear] <= 0.0)


@pytest.mark.parametrize("name", ["rbf", "rbf, offset"])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6, 1e-12])
def test_a_walk_from_a_rough_fit_proves_no_wrong_sign(name, tol):
    problem = problems()[name]
    margins = brute_force_margins(problem)
    fit = fit_of(problem, solve(problem, tol=tol), 1.0)
    support = np.flatnonzero(fit.alpha)
    found = Removals(fit).signs(support)
    assert np.all(margins <= decided_by_own_margin(fit) + 1e-6)
    assert np.all(margins[support[found > 0]] > -1e-9)
    assert np.all(margins[support[found < 0]] < 1e-9)
    assert np.count_nonzero(found) >= (0.95 * len(support) if tol <= 1e-6 else 0)


@pytest.mark.parametrize("C", [1e-3, 0.03, 1.0, 100.0])
@pytest.mark.parametrize("kernel", [RBF(0.05), RBF(3.0), Linear(), Polynomial(0.5, 1.0, 2)])
@pytest.mark.parametrize("has_offset", [True, False])
def test_walks_of_equal_rows_and_of_any_cost_agree_with_brute_force(C, kernel, has_offset):
    """Rounded features: some rows are equal, and the kernel matrix of the free samples is singular. With small costs no sample
    is free."""
    X, y = samples(3, 40)
    X, costs = np.round(X), C * np.random.default_rng(2).choice([0.5, 1.0, 2.0], len(y))
    problem = KernelProblem.build(X, y, costs, kernel, has_offset)
    margins = brute_force_margins(problem)
    fit = fit_of(problem, solve(problem, tol=1e-8), 1.0)
    support = np.flatnonzero(fit.alpha)
    found, clear = Removals(fit).signs(support), np.abs(margins[support]) > 1e-4
    assert np.array_equal(found[clear & (found != 0)] > 0, margins[support][clear & (found != 0)] > 0.0)
    assert np.count_nonzero(found[clear]) >= 0.9 * np.count_nonzero(clear)


def test_columns_that_a_walk_lacks_are_added():
    """With none from the beginning but those of the candidates."""
    X, y = samples(2, 160)
    problem = KernelProblem.build(X, y, 1.0, RBF(0.3))
    fit = fit_of(problem, solve(problem, tol=1e-8), 1.0)
    support = np.flatnonzero(fit.alpha)
    found = Removals(fit).signs(support)
    few = Removals(fit, RemovalPolicy(few_samples=0, first_columns=0.0, spare=0.0, most_rounds=100))
    assert np.array_equal(few.signs(support), found)
    assert few.n_columns > len(support)


def test_without_memory_for_the_columns_every_open_sample_is_refitted():
    problem = problems()["rbf, offset"]
    fit = fit_of(problem, solve(problem, tol=1e-8), 1.0)
    removals = Removals(fit, RemovalPolicy(most_megabytes=0.0))
    assert not removals.signs(np.flatnonzero(fit.alpha)).any()


def test_most_samples_are_decided_by_one_fit():
    X, y = samples(1, 300)
    loo = maxmargin.leave_one_out(LinearProblem.build(X, y, 0.1, Hinge()))
    assert loo.was_refitted.mean() < 0.3
    assert "decided by one fit" in repr(loo)


def test_an_estimator_is_used_with_its_own_C():
    X, y = samples()
    mine = maxmargin.leave_one_out(LinearSVC(C=0.3, loss="hinge"), X, y)
    same = maxmargin.leave_one_out(LinearProblem.build(X, y, 0.3, Hinge(), 1.0))
    assert np.array_equal(mine.is_wrong, same.is_wrong)
    kernel = maxmargin.leave_one_out(SVC(C=1.0, gamma=0.2), X, y)
    assert np.array_equal(kernel.is_wrong, maxmargin.leave_one_out(problems()["rbf, offset"]).is_wrong)


def test_what_it_cannot_do_is_said():
    X, y = samples()
    with pytest.raises(ValueError, match="two classes"):
        maxmargin.leave_one_out(LinearProblem.build(X, y.astype(float), 1.0, EpsilonInsensitive(0.1)))
    with pytest.raises(ValueError, match="needs X and y"):
        maxmargin.leave_one_out(SVC())
    with pytest.raises(TypeError, match="LinearSVC"):
        maxmargin.leave_one_out("a9a", X, y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_on_raw_columns_all_labels_are_proved_and_are_those_of_brute_force(loss):
    rng = np.random.default_rng(5)
    n = 60
    salary, rate = rng.lognormal(10.8, 0.5, n), rng.uniform(0.001, 0.05, n)
    X = np.column_stack([1.6e9 + rng.uniform(0.0, 3e7, n), salary, rate])
    y = np.where(np.log(salary) - 10.8 - 20.0 * (rate - 0.025) + 0.4 * rng.normal(size=n) > 0.0, 1, -1)
    found = maxmargin.leave_one_out(LinearSVC(loss=loss), X, y)
    assert found.is_proved.all()
    assert not found.was_refitted.all()
    for i in range(n):
        others = np.arange(n) != i
        alone = LinearSVC(loss=loss, tol=1e-10).fit(X[others], y[others])
        assert (alone.predict(X[[i]])[0] != y[i]) == found.is_wrong[i]

"""What the estimators with nu share: the check of nu, the choice of the solver, and the solve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import checks, policy
from maxmargin.estimators.pair_features import FeatureWeights, newton_pays
from maxmargin.problem.feature_maps import feature_map
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.nu import NuProblem, check_nu
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Callback, Limits, drive
from maxmargin.solving.nu_pair import PairSolution
from maxmargin.solving.solution import Solution

Pair = Callable[[Solution], Solution]
"""Solves a problem as a linear one, and is given what SMO found."""


def check(model: Any) -> None:
    """Check the parameters ``nu`` and ``solver``."""
    checks.number("nu", model.nu)
    check_nu(model.nu)
    nu_solver(model)


def nu_solver(model: Any, share: float = 1.0) -> NuSMO:
    """The solver with a share of ``cache_size``, unless it is an object with settings of its own."""
    return made_nu_solver(model.solver, share * float(model.cache_size))


def made_nu_solver(solver: Any, cache_mb: float) -> NuSMO:
    """The solver of that name, or the object itself: a NuSMO, or one that saves the states of a NuSMO."""
    if isinstance(getattr(solver, "solver", solver), NuSMO):
        made: NuSMO = solver
        return made
    checks.one_of("solver", solver, ("auto", "nu-smo"))
    return NuSMO(cache_mb=cache_mb)


def solve_with_pair(
    problem: NuProblem, solver: NuSMO, limits: Limits, callback: Callback | None, stop: Stop, pair: Pair
) -> Solution:
    """The solution of SMO, or where it ends without a certificate and the kernel is linear, of the problem as a linear one. SMO
    goes on without a limit of epochs of its own only if that ends without a certificate, too."""
    if not has_linear_form(problem):
        return solve_nu(problem, solver, limits, callback, stop)
    most_epochs = min(limits.max_epochs, policy.NU.epochs_before_pair)
    found = solve_nu(problem, solver, replace(limits, max_epochs=most_epochs), callback, stop)
    if found.status.is_as_asked or stop.is_due:
        return found
    found = better_of(found, pair(found))
    if found.status.is_as_asked or stop.is_due or most_epochs == limits.max_epochs:
        return found
    return better_of(found, solve_nu(problem, solver, limits, callback, stop))


def has_linear_form(problem: NuProblem) -> bool:
    """Whether the features of the kernel are the columns, and Newton's method on them is worth it."""
    found = feature_map(problem.kernel, problem.rows.n_features, True)
    return found is not None and found.relative_error == 0.0 and newton_pays(problem.rows.matrix, problem.samples.n_samples)


def better_of(first: Solution, second: Solution) -> Solution:
    """The one with the smaller gap."""
    return second if second.certificate.gap < first.certificate.gap else first


def weights_of(problem_kernel: Kernel, X: Any, signed: Array, solutions: list[Solution]) -> FeatureWeights | None:
    """The w of each machine, where one of them has its own; the others have w(alpha)."""
    if not any(isinstance(solution, PairSolution) for solution in solutions):
        return None
    found = feature_map(problem_kernel, X.shape[1], True)
    assert found is not None
    rows = [
        solution.feature_weights if isinstance(solution, PairSolution) else np.asarray(X.T @ own).reshape(-1)
        for solution, own in zip(solutions, signed, strict=True)
    ]
    return FeatureWeights(found, np.stack(rows))


def solve_nu(problem: NuProblem, solver: NuSMO, limits: Limits, callback: Callback | None, stop: Stop) -> Solution:
    return drive(problem, solver, limits, warm_start=None, callback=callback, seed=0, stop=stop)

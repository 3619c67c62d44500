"""What the estimators with nu share: the check of nu, the choice of the solver, and the solve."""

from __future__ import annotations

from typing import Any

from maxmargin.data.limits import Stop
from maxmargin.estimators import checks
from maxmargin.problem.nu import NuProblem, check_nu
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Callback, Limits, drive
from maxmargin.solving.solution import Solution


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


def solve_nu(problem: NuProblem, solver: NuSMO, limits: Limits, callback: Callback | None, stop: Stop) -> Solution:
    return drive(problem, solver, limits, warm_start=None, callback=callback, seed=0, stop=stop)

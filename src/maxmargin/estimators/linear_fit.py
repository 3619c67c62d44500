"""What every linear estimator does alike: check the settings of a fit, solve its problems over one X, keep what is proved."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.estimators import checks
from maxmargin.estimators.jobs import run_jobs, serialised
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.registry import solver_named
from maxmargin.solving.driver import Limits, drive, seed_from
from maxmargin.solving.solution import Solution
from maxmargin.solving.unsolved import unsolved

NOTHING = np.empty(0)
"""The alpha of a solution that does not keep one. The alphas of many problems would take more memory than X."""


def checked_limits(model: Any) -> Limits:
    """Check the parameters that all linear estimators have, and read the limits of the fit from them."""
    checks.number("tol", model.tol, at_least=0.0)
    checks.flag("warm_start", model.warm_start)
    checks.thread_count(getattr(model, "n_jobs", None))
    solver_named(model.solver)
    seed_from(model.random_state if isinstance(model.random_state, (int, np.integer)) else None)
    if model.callback is not None and not callable(model.callback):
        raise ValueError(f"callback must be callable; got {model.callback!r}.")
    return Limits(float(model.tol), checks.epochs_from(model.max_iter), checks.seconds_from(model.max_seconds))


def check_intercept(model: Any) -> None:
    """``intercept_scaling`` counts only where there is an intercept."""
    checks.flag("fit_intercept", model.fit_intercept)
    checks.flag("penalize_intercept", model.penalize_intercept)
    checks.number("intercept_scaling", model.intercept_scaling, above=0.0 if model.fit_intercept else -math.inf)


def scaling_of(model: Any) -> float:
    """The value of the constant feature whose weight is the intercept; 0 without an intercept."""
    return float(model.intercept_scaling) if model.fit_intercept else 0.0


def solve_all(
    model: Any, problems: Sequence[Callable[[], LinearProblem]], starts: Sequence[Array | None], limits: Limits
) -> list[Solution]:
    """Solve the problems, each in a thread of its own if ``n_jobs`` allows. A problem is built when its turn comes."""
    solver, seed = solver_named(model.solver), seed_from(model.random_state)
    callback = serialised(model._watcher(), model.verbose)

    def job(build: Callable[[], LinearProblem], start: Array | None) -> Callable[[Stop], Solution]:
        def run(stop: Stop) -> Solution:
            problem = build()
            if stop.is_due and start is None:
                return unsolved(problem, solver, stop)
            if math.isinf(getattr(model, "C", 1.0)):
                from maxmargin.solving.hard_tube import solve_hard_tube

                solution = solve_hard_tube(problem, solver, limits, callback=callback, seed=seed, stop=stop)
            else:
                solution = drive(problem, solver, limits, warm_start=start, callback=callback, seed=seed, stop=stop)
            return solution if model.warm_start else solution.without(NOTHING)

        return run

    return run_jobs(
        [job(*pair) for pair in zip(problems, starts, strict=True)], getattr(model, "n_jobs", None), limits.seconds_left
    )


def keep_proofs(model: Any, solutions: list[Solution]) -> None:
    """Set the attributes that say how good the answers are: one value, or a list where there are several problems."""
    model.n_iter_ = max(1, math.ceil(max(solution.epochs for solution in solutions)))
    model.relative_gap_ = max(solution.certificate.relative_gap for solution in solutions)
    model.certificate_ = one_or_all([solution.certificate for solution in solutions])
    model.status_ = one_or_all([solution.status for solution in solutions])
    model.trace_ = one_or_all([solution.trace for solution in solutions])
    model.offset_bound_ = one_or_all([solution.offset_bound for solution in solutions])


def all_of(value: Any) -> list[Any]:
    """The opposite of ``one_or_all``."""
    return value if isinstance(value, list) else [value]


def one_or_all(values: list[Any]) -> Any:
    """What an estimator shows of several problems: the value of the only one, or the list."""
    return values[0] if len(values) == 1 else values

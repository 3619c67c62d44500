"""What the estimators with nu share: the check of nu, the choice of the solver, and the solve."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.linear import certify
from maxmargin.certificate.monomials import monomial_judge
from maxmargin.certificate.predictions import Values
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.data.threads import single_threaded_blas
from maxmargin.estimators import checks, policy
from maxmargin.estimators.pair_features import FeatureProblems, FeatureWeights, certificate_of_kernel, newton_pays
from maxmargin.problem.feature_maps import FeatureMap, feature_map
from maxmargin.problem.kernels import Kernel
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.problem.nu import NuProblem, check_nu
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.sized_mending import can_be_mended_to_size, mended_to_size, moments_mended_to_size
from maxmargin.solving.at_once import at_once
from maxmargin.solving.driver import Callback, Limits, drive
from maxmargin.solving.nu_cost import CostSearch, solve_by_cost
from maxmargin.solving.nu_full import solve_full
from maxmargin.solving.nu_pair import PairSolution
from maxmargin.solving.nu_zero import zero_answer
from maxmargin.solving.solution import Solution, Status

Pair = Callable[[Solution], Solution]
"""Solves a problem as a linear one, and is given what SMO found."""


def check(model: Any) -> None:
    """Check the parameters ``nu`` and ``solver``."""
    checks.number("nu", model.nu)
    check_nu(model.nu)
    if not _is_solver(model.solver):
        checks.one_of("solver", model.solver, ("auto", "nu-smo"))


def nu_solver(model: Any, share: float = 1.0) -> NuSMO:
    """The solver with a share of ``cache_size``, unless it is an object with settings of its own."""
    return made_nu_solver(model.solver, share * float(model.cache_size))


def made_nu_solver(solver: Any, cache_mb: float) -> NuSMO:
    """The solver of that name, or the object itself: a NuSMO, or one that saves the states of a NuSMO."""
    if _is_solver(solver):
        made: NuSMO = solver
        return made
    checks.one_of("solver", solver, ("auto", "nu-smo"))
    return _default_solver(cache_mb)


@lru_cache(maxsize=8)
def _default_solver(cache_mb: float) -> NuSMO:
    """The solver never changes, so that all fits can share it: to make one takes 7 microseconds."""
    return NuSMO(cache_mb=cache_mb)


def _is_solver(solver: Any) -> bool:
    return not isinstance(solver, str) and isinstance(getattr(solver, "solver", solver), NuSMO)


class LinearForm(NamedTuple):
    """A problem with the linear kernel as a linear one. ``judge`` gives what SMO found its own w on the features, with the
    certificate of that pair; None where predictions by kernel sums will do. ``by_tubes`` solves the problem with any kernel in
    another form, and ``without_tube`` in the simplest one; None where there is no such form."""

    solve: Pair
    judge: Pair | None = None
    by_tubes: Pair | None = None
    without_tube: Callable[[], Solution | None] | None = None


def solve_with_pair(
    problem: NuProblem, solver: NuSMO, limits: Limits, callback: Callback | None, stop: Stop, form: LinearForm
) -> Solution:
    """The solution of SMO, or where it ends without a certificate and the kernel is linear, of the problem as a linear one. SMO
    goes on without a limit of epochs of its own only if that ends without a certificate, too."""
    if limits.max_epochs == math.inf and callback is None:
        with single_threaded_blas():
            few = at_once(problem, _quick(solver, problem), limits.tol, stop)
        if few is not None:
            return _with_weights(problem, few, form)
    if not has_linear_form(problem):
        return _with_weights(problem, _solve_kernel(problem, solver, limits, callback, stop, form), form)
    most_epochs = min(limits.max_epochs, policy.NU.epochs_before_pair)
    found = _with_weights(problem, solve_nu(problem, solver, replace(limits, max_epochs=most_epochs), callback, stop), form)
    if has_weights(found, form) or stop.is_due:
        return found
    found = better_of(found, form.solve(found))
    if found.status.is_as_asked or stop.is_due or most_epochs == limits.max_epochs:
        return found
    return better_of(found, solve_nu(problem, solver, limits, callback, stop))


def _solve_kernel(
    problem: NuProblem, solver: NuSMO, limits: Limits, callback: Callback | None, stop: Stop, form: LinearForm
) -> Solution:
    """The solution of SMO, or of the problem in another form where C is large or SMO gives up."""
    without = form.without_tube() if form.without_tube is not None and not stop.is_due else None
    if without is not None:
        return without
    found = solve_nu(problem, solver, limits, callback, stop)
    is_open = found.status is Status.PRECISION_LIMIT and found.certificate.is_proof
    return better_of(found, form.by_tubes(found)) if is_open and form.by_tubes is not None and not stop.is_due else found


def _quick(solver: NuSMO, problem: NuProblem) -> NuSMO:
    """The solver with fewer rounds for few samples where Newton's method waits."""
    if not (isinstance(solver, NuSMO) and has_linear_form(problem)):
        return solver
    return replace(solver, held=replace(solver.held, most_steps=policy.NU.steps_before_pair, goes_inside=False))


def _with_weights(problem: NuProblem, found: Solution, form: LinearForm) -> Solution:
    """What SMO found with its w on the features, where that pair is certified, too."""
    if form.judge is None or not found.status.is_as_asked or not is_linear(problem):
        return found
    own = form.judge(found)
    return own if own.status.is_as_asked else found


def has_weights(found: Solution, form: LinearForm) -> bool:
    """Whether the solve is over: it has a certificate, and a w where it is to have one."""
    return found.status.is_as_asked and (form.judge is None or isinstance(found, PairSolution))


def is_linear(problem: NuProblem) -> bool:
    """Whether the features of the kernel are the columns."""
    found = feature_map(problem.kernel, problem.rows.n_features, True)
    return found is not None and found.relative_error == 0.0


def has_linear_form(problem: NuProblem) -> bool:
    """Whether the features of the kernel are the columns, and Newton's method on them is worth it."""
    return is_linear(problem) and newton_pays(problem.rows.matrix, problem.samples.n_samples)


def better_of(first: Solution, second: Solution) -> Solution:
    """The second if it is certified; otherwise the one with the smaller gap."""
    if second.status.is_as_asked:
        return second
    return second if not first.status.is_as_asked and second.certificate.gap < first.certificate.gap else first


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


def cost_search(problem: NuProblem, map: FeatureMap, limits: Limits, share: float = 1.0) -> CostSearch:
    """nu-SVC of two classes as linear problems on the features of the kernel, with this share of the work that a fit may
    take."""
    features = FeatureProblems(map, problem.rows.matrix, problem.C, True, Auto())
    rows = Rows.from_matrix(features.matrix, check=False)

    def outputs(w: Array) -> Values:
        return FeatureWeights(features.map, w[None, :-1]).exact_values(features.X, np.zeros(1))

    def linear(C: float) -> LinearProblem:
        known = rows, problem.signs.astype(np.int8), C * problem.C, Hinge(), 1.0, False
        return LinearProblem(*known, has_exact_rows=False)  # intervals of weights say nothing of another rho

    judge, mend = _judge_of(features, linear(1.0))
    stop = Stop.within(limits.seconds_left)
    return CostSearch(problem, linear, judge, mend, outputs, rows.column_magnitudes(), limits, stop, share=share)


def _judge_of(features: FeatureProblems, first: LinearProblem) -> tuple[Any, Any]:
    """What certifies a pair, and what mends it: with exact sums of monomials where these do not take too long."""
    exact = monomial_judge(features.map, first, features.X, policy.NU.most_exact_numbers)
    if exact is not None:
        return (
            lambda linear, w, alpha: replace(exact, problem=linear).certify(w, alpha),
            lambda linear, w, alpha, size: moments_mended_to_size(replace(exact, problem=linear), w, alpha, size),
        )

    def judge(linear: LinearProblem, w: Array, alpha: Array) -> Certificate:
        return certificate_of_kernel(features.map, linear, w, alpha, certify(linear, w, alpha))

    def mend(linear: LinearProblem, w: Array, alpha: Array, size: float) -> Array:
        return mended_to_size(linear, w, alpha, size) if can_be_mended_to_size(linear) else alpha

    return judge, mend


def solve_by_features(problem: NuProblem, map: FeatureMap, limits: Limits, found: Solution, share: float = 1.0) -> Solution:
    """nu-SVC by the features of its kernel, after SMO has found a solution without a certificate, unless monomials are far more
    than samples. ``share`` is that of the work of a fit."""
    most = policy.NU.monomials_a_sample * problem.samples.n_samples
    if map.relative_error > 0.0 and map.n_features > most:
        return found
    zero = zero_answer(problem, map.of(problem.rows.matrix), found)
    if zero is not None:
        return zero
    with suppress(OutOfTimeError):
        search = cost_search(problem, map, limits, share)
        is_full = any(problem.is_full(g) for g in range(len(problem.totals)))
        return better_of(found, solve_full(search, found) if is_full else solve_by_cost(search, found))
    return found


def solve_nu(problem: NuProblem, solver: NuSMO, limits: Limits, callback: Callback | None, stop: Stop) -> Solution:
    return drive(problem, solver, limits, warm_start=None, callback=callback, seed=0, stop=stop)

"""The answers to problems for which no time is left."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.certificate.certificate import Certificate, refusal, relative
from maxmargin.certificate.linear import judge_of
from maxmargin.certificate.rounding import gamma
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import KernelSolver, Solver
from maxmargin.solving.incumbent import status_of
from maxmargin.solving.solution import Progress, Solution


def unsolved(problem: LinearProblem, solver: Solver, stop: Stop) -> Solution:
    """The answer zero to a problem for which no time is left, with its certificate."""
    w, alpha, bound = np.zeros(problem.n_weights), problem.first_dual_point, 0.0 if problem.penalizes_intercept else math.inf
    return _nothing_done(w, alpha, _certificate_at_first(problem), bound, solver.name, stop)


def unsolved_pair(costs: Array, solver: KernelSolver, stop: Stop) -> Solution:
    """The answer alpha = 0 to a problem of two classes with a kernel and the hinge loss, whose rows are not needed for it: to
    gather the rows of 45 pairs of classes takes seconds. With w = 0 every loss is one, and the primal value the sum of C."""
    certificate = _certificate_of_zero(float(costs.sum()), len(costs), 1.0)
    return _nothing_done(np.empty(0), np.zeros(len(costs)), certificate, math.inf, solver.name, stop)


def unsolved_nu(n_samples: int, n_groups: int, solver: KernelSolver, stop: Stop) -> Solution:
    """The same with nu. The sums of alpha = 0 are wrong, so that it proves nothing."""
    return _nothing_done(np.zeros(n_groups), np.zeros(n_samples), refusal(0), math.inf, solver.name, stop)


def _nothing_done(w: Array, alpha: Array, certificate: Certificate, offset_bound: float, name: str, stop: Stop) -> Solution:
    values = certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap
    row = Progress(0.0, 0.0, 0, *values, len(alpha), name, "no time was left")
    return Solution(w, alpha, 0.0, certificate, status_of(stop), (row,), 0.0, 0, 0.0, offset_bound=offset_bound)


def _certificate_at_first(problem: LinearProblem) -> Certificate:
    """The certificate of w = 0 and the first feasible alpha."""
    if problem.offset_prices is None:
        return _certificate_of_zero(problem.primal_at_zero, problem.n_samples, problem.penalty.strong_convexity)
    return judge_of(problem).certify(np.zeros(problem.n_weights), problem.first_dual_point)


def _certificate_of_zero(primal: float, n_samples: int, convexity: float) -> Certificate:
    """The certificate of w = 0 and alpha = 0, without a pass over X. Every margin and the dual value are zero, and the gap is
    the primal value, a sum of n terms that are not negative."""
    rounding = gamma(n_samples + 16) * primal
    return Certificate(
        primal=primal,
        dual=0.0,
        gap=primal,
        relative_gap=relative(primal, primal, 0.0),
        rounding_error=rounding,
        distance_bound=math.sqrt((primal + rounding) / convexity) if convexity else math.inf,
        n_support=0,
        n_at_bound=0,
        is_strongly_convex=convexity > 0.0,
    )

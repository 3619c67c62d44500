"""The answer to a linear problem for which no time is left."""

from __future__ import annotations

import math

import numpy as np

from maxmargin.certificate.certificate import Certificate, relative
from maxmargin.certificate.linear import judge_of
from maxmargin.certificate.rounding import gamma
from maxmargin.data.limits import Stop
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.base import Solver
from maxmargin.solving.incumbent import status_of
from maxmargin.solving.solution import Progress, Solution


def unsolved(problem: LinearProblem, solver: Solver, stop: Stop) -> Solution:
    """The answer zero to a problem for which no time is left, with its certificate."""
    certificate = _certificate_at_first(problem)
    values = certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap
    row = Progress(0.0, 0.0, 0, *values, problem.n_samples, solver.name, "no time was left")
    return Solution(
        w=np.zeros(problem.n_weights),
        alpha=problem.first_dual_point,
        b=0.0,
        certificate=certificate,
        status=status_of(stop),
        trace=(row,),
        seconds=0.0,
        steps=0,
        epochs=0.0,
        offset_bound=0.0 if problem.penalizes_intercept else math.inf,
    )


def _certificate_at_first(problem: LinearProblem) -> Certificate:
    """The certificate of w = 0 and the first feasible alpha."""
    if problem.offset_prices is None:
        return _certificate_of_zero(problem)
    return judge_of(problem).certify(np.zeros(problem.n_weights), problem.first_dual_point)


def _certificate_of_zero(problem: LinearProblem) -> Certificate:
    """The certificate of w = 0 and alpha = 0, without a pass over X. Every margin and the dual value are zero, and the gap is
    the primal value, a sum of n terms that are not negative."""
    primal = problem.primal_at_zero
    rounding = gamma(problem.n_samples + 16) * primal
    convexity = problem.penalty.strong_convexity
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

r"""A penalised intercept that rounding keeps from its optimum: the problem with a free intercept is solved in its place.

A column of milliseconds since 1970 is nearly constant, and so nearly a multiple of the intercept's own column of ones. With a
free intercept the columns are centred, and Newton's method sees the differences alone. With a penalised one it cannot: the
penalty is on the intercept at x = 0, 1970. But with a large C the penalty :math:`b^2 / 2` is nothing beside the losses, so that
the optimum of the one problem is nearly that of the other. The judge of the penalised problem says how nearly."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from maxmargin.certificate.linear import judge_of
from maxmargin.problem.linear import LinearProblem
from maxmargin.solving.solution import Solution, Status

EFFORT = ("trace", "steps", "epochs", "seconds")
"""What two solves add up."""


def may_free(problem: Any, solver: Any, solution: Solution, limits: Any, share: float) -> bool:
    """Whether to try: the default solver has come as far as it can, the intercept is penalised, and its penalty is no more than
    this share of ``tol``."""
    if solution.status is not Status.PRECISION_LIMIT or solver.name != "auto" or limits.max_epochs < math.inf:
        return False
    if not isinstance(problem, LinearProblem) or problem.intercept_scaling == 0.0 or problem.offset_prices is not None:
        return False
    penalty, scale = 0.5 * float(solution.w[-1]) ** 2, solution.certificate.scale
    return problem.penalizes_intercept and not problem.penalty.has_kink and penalty < share * limits.tol * scale < math.inf


def freed(problem: Any) -> LinearProblem:
    """The same problem with a free intercept."""
    return replace(problem, penalizes_intercept=False)


def judged(problem: Any, first: Solution, free: Solution, tol: float) -> Solution:
    """The answer of the free problem as one of the penalised problem, if that is within ``tol``. Else the first answer."""
    judge = judge_of(problem)
    judge.tol = tol
    certificate = judge.certify(free.w, free.alpha)
    effort: dict[str, Any] = {name: getattr(first, name) + getattr(free, name) for name in EFFORT}
    if not certificate.meets(tol):
        return replace(first, **effort)
    return replace(free, certificate=certificate, status=Status.CERTIFIED, offset_bound=0.0, **effort)

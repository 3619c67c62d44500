"""A pair whose certificate was refused, mended where rounding may be what keeps it from ``tol``."""

from __future__ import annotations

from typing import Any, NamedTuple

from maxmargin.certificate.certificate import Certificate
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.digit_mending import can_mend_digits, mended_in_digits
from maxmargin.solvers.linear.dual_mending import is_worth_mending, mended
from maxmargin.solvers.linear.exact_pair import can_be_exact, exact_pair


class JudgedPair(NamedTuple):
    w: Array
    alpha: Array
    certificate: Certificate

    @property
    def bound(self) -> float:
        """The greatest gap that the certificate allows."""
        return self.certificate.gap + self.certificate.rounding_error


def mended_pair(problem: LinearProblem, judge: Any, here: JudgedPair, tol: float) -> JudgedPair:
    """The pair that the free samples of a regression lead to, if it is better; or the same w with an alpha whose rounding
    errors are made good."""
    if here.certificate.meets(tol):
        return here
    if can_be_exact(problem):
        pair = exact_pair(problem, here.alpha)
        if pair is not None:
            here = min(here, JudgedPair(*pair, judge.certify(*pair)), key=lambda one: one.bound)
    if here.certificate.meets(tol) or not is_worth_mending(problem, here.alpha, here.certificate.gap):
        return here
    for mend in (mended, mended_in_digits) if can_mend_digits(problem) else (mended,):
        alpha = mend(problem, here.w, here.alpha)
        found = JudgedPair(here.w, alpha, judge.certify(here.w, alpha))
        here = found if found.certificate.gap < here.certificate.gap else here
        if here.certificate.meets(tol):
            break
    return here

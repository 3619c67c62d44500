"""A pair whose certificate was refused, mended where rounding may be what keeps it from ``tol``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

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


class Mender:
    """Mends pairs of one problem, and remembers which sets of free samples it has tried: each leads to one pair."""

    def __init__(self, problem: LinearProblem, judge: Any) -> None:
        self.problem, self.judge = problem, judge
        self._tried: set[bytes] = set()

    def mended(self, here: JudgedPair, tol: float) -> JudgedPair:
        """The pair that the free samples of a regression lead to, if it is better; or the same w with an alpha whose rounding
        errors are made good."""
        if here.certificate.meets(tol):
            return here
        if can_be_exact(self.problem) and self._is_new(here.alpha):
            here = min(here, self._exact(here), key=lambda one: one.bound)
        if here.certificate.meets(tol) or not is_worth_mending(self.problem, here.alpha, here.certificate.gap):
            return here
        for mend in (mended, mended_in_digits) if can_mend_digits(self.problem) else (mended,):
            found = self._judged(here.w, mend(self.problem, here.w, here.alpha))
            here = found if found.certificate.gap < here.certificate.gap else here
            if here.certificate.meets(tol):
                break
        return here

    def _exact(self, here: JudgedPair) -> JudgedPair:
        pair = exact_pair(self.problem, here.alpha)
        return here if pair is None else self._judged(*pair)

    def _judged(self, w: Array, alpha: Array) -> JudgedPair:
        return JudgedPair(w, alpha, self.judge.certify(w, alpha))

    def _is_new(self, alpha: Array) -> bool:
        """Whether samples are free, at their bounds and at zero as in no pair before."""
        box = self.problem.box
        places = (2 * np.sign(alpha) + (alpha >= box.U) - (alpha <= box.L)).astype(np.int8).tobytes()
        is_new = places not in self._tried
        self._tried.add(places)
        return is_new

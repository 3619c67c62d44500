r"""Polynomial kernels of large columns: Newton's method on features of bounded size, then an alpha for the true features.

Where :math:`C |\phi|^2` is far beyond the digits of float64, the penalty :math:`|w|^2 / 2` says nothing about the weights of
the largest features: any weight that the loss asks for costs nothing. So these features are multiplied by powers of two,
exactly, until :math:`C \phi_e^2` is at most a **stiffness** that Newton's method can bear. The answer has the right free
samples and the right w. Its alpha answers to other features, by changes far below the size of alpha, and
:mod:`maxmargin.solvers.linear.moment_mending` makes them. The judge (:mod:`maxmargin.certificate.monomials`) knows only the
features as they are. If the pair is refused, a greater stiffness is tried.

Classes that can be separated need another way: there the penalty decides, and the alphas are far below C. So C itself is made
smaller first, for each sample by its own length. If no alpha is at its smaller bound, w is the answer for every larger C, once
it is made long enough that no margin is below one, not even by a rounding error."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.monomials import MonomialJudge, monomial_judge
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.moment_mending import MomentMending
from maxmargin.solving.driver import Limits, drive
from maxmargin.solving.solution import Solution, Status


@dataclass(frozen=True)
class StiffPolicy:
    """How a problem with large features is solved."""

    stiffness: tuple[float, ...] = (1e14, 1e18, 1e22, 1e26)
    """The greatest C phi^2, in turn. Newton's method reached a gap of 1e-9 with the second on most tables; with the third its
    own rounding shows, and with the first the penalty cost up to 1% of the objective on collinear columns. Fifty rows of nine
    columns of very different sizes, whose classes can be separated, needed the fourth."""
    share: float = 0.01
    """Share of tol that the problem with bounded features is solved to."""
    most_numbers: int = 2_000_000
    """Samples times features up to which exact sums are made: 0.5 s a sum, and 150 MB."""


DEFAULT = StiffPolicy()
SMALLEST = float(np.finfo(np.float64).tiny)
"""The least normal number: no divisor is smaller."""


def solve_stiff(
    map: Any, problem: LinearProblem, X: Array, solution: Solution, solver: Any, limits: Limits, policy: StiffPolicy = DEFAULT
) -> Solution:
    """The solution, or a better one of the same problem, which ``solver`` left with rounding errors. ``problem`` has phi of the
    rows of X as ``map`` computes it."""
    stop = Stop.within(limits.seconds_left)
    try:
        with stop.heard(), np.errstate(all="ignore"):
            judge = monomial_judge(map, problem, X, policy.most_numbers)
            return solution if judge is None else _StiffSolve(judge, solver, limits, stop, policy).run(solution)
    except (OutOfTimeError, np.linalg.LinAlgError):
        return solution


@dataclass(frozen=True, eq=False)
class _StiffSolve:
    judge: MonomialJudge
    solver: Any
    limits: Limits
    stop: Stop
    policy: StiffPolicy

    def run(self, best: Solution) -> Solution:
        best = self._better(best, best, best.w, best.alpha)
        for stiffness in self.policy.stiffness:
            for attempt in (self._with_smaller_costs, self._with_smaller_features):
                if best.status is Status.CERTIFIED:
                    return best
                best = attempt(best, stiffness)
        return best

    def _scales(self, stiffness: float) -> Array:
        """A power of two for each feature, at most one."""
        greatest = math.sqrt(float(self.judge.problem.C.max())) * self.judge.magnitudes.max(axis=0)
        exponents = np.round(np.log2(math.sqrt(stiffness) / np.maximum(greatest, SMALLEST)))
        return np.exp2(np.minimum(0.0, exponents))

    def _with_smaller_costs(self, best: Solution, stiffness: float) -> Solution:
        problem = self.judge.problem
        smaller = replace(problem, C=np.minimum(problem.C, stiffness / np.maximum(np.square(self.judge.lengths), SMALLEST)))
        found = self._solved(smaller)
        if np.any((found.alpha == smaller.C) & (smaller.C > 0.0)):
            return best
        return self._judged(best, found, self._lengthened(found.w))

    def _lengthened(self, w: Array) -> Array:
        """w, made longer until every margin is at least one, whatever the rounding errors."""
        margins, errors = self.judge.problem.margins(w), self.judge.output_errors(w)
        least = float((margins - 2.0 * errors)[self.judge.problem.C > 0.0].min())
        return w / least if 0.0 < least < 1.0 else w

    def _with_smaller_features(self, best: Solution, stiffness: float) -> Solution:
        problem, scales = self.judge.problem, self._scales(stiffness)
        found = self._solved(replace(problem, rows=Rows.from_matrix(problem.rows.matrix * scales, check=False)))
        return self._judged(best, found, found.w * np.append(scales, 1.0)[: len(found.w)])

    def _solved(self, problem: LinearProblem) -> Solution:
        limits = replace(self.limits, tol=self.policy.share * self.limits.tol)
        return drive(problem, self.solver, limits, warm_start=None, callback=None, seed=0, stop=self.stop)

    def _judged(self, best: Solution, found: Solution, w: Array) -> Solution:
        """The best of ``best`` and the pairs of ``w`` with the alpha of ``found``, as it is and mended."""
        mending, alpha = MomentMending(w, found.alpha, judge=self.judge), found.alpha
        for fall in (None, *mending.attempts()):
            best = self._better(best, found, w, alpha if fall is None else mending.mended(fall))
            if best.status is Status.CERTIFIED:
                break
        return best

    def _better(self, best: Solution, found: Solution, w: Array, alpha: Array) -> Solution:
        """``best``, or the pair if its gap is smaller."""
        certificate = self.judge.certify(w, alpha)
        is_better = _worst(certificate) < _worst(best.certificate)
        return self._solution(best, found, w, alpha, certificate) if is_better else best

    def _solution(self, best: Solution, found: Solution, w: Array, alpha: Array, certificate: Certificate) -> Solution:
        status = Status.CERTIFIED if certificate.meets(self.limits.tol) else best.status
        b = float(w[-1]) * self.judge.problem.intercept_scaling if len(w) > len(self.judge.coefficients) else 0.0
        return replace(
            best,
            w=w,
            alpha=alpha,
            b=b,
            certificate=certificate,
            status=status,
            trace=best.trace if found is best else (*best.trace, *found.trace),
            steps=best.steps + (0 if found is best else found.steps),
            epochs=best.epochs + (0.0 if found is best else found.epochs),
            seconds=best.seconds + (0.0 if found is best else found.seconds),
        )


def _worst(certificate: Certificate) -> float:
    return certificate.gap + certificate.rounding_error

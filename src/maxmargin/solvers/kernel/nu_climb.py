r"""nu-SVC on a kernel matrix that is held, by active-set Newton on C-SVC and Newton's method for rho: where SMO is slow.

nu-SVC is C-SVC with C = 1 / rho for the rho at which :math:`\sum_i \alpha_i = T` (``maxmargin.certificate.nu_pair``). C-SVC has
one sum to keep, so that active-set Newton solves it (``maxmargin.solvers.kernel.irwls.active_set_newton``), from the variables
of the rho before in few systems. While the variables F are free, s is linear in rho:

.. math:: K_{FF} \frac{d s_F}{d \rho} + \frac{d b}{d \rho} 1 = y_F , \qquad 1' \frac{d s_F}{d \rho} = 0 ,
          \qquad \frac{d}{d \rho} \sum_i \alpha_i = y_F' \frac{d s_F}{d \rho} \ge 0 .

So Newton's method for rho ends at the optimum as soon as F is right. The first rho is that of a point of SMO."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.kernel.face import solution_of
from maxmargin.solvers.kernel.irwls.active_set_newton import Outcome, WorkingSet, optimise


@dataclass(frozen=True)
class NuClimbPolicy:
    """When the climb begins, and how far it goes."""

    ns_a_system: float = 50_000.0
    """Nanoseconds of a linear system, besides what grows with the samples."""
    ns_a_pair: float = 0.25
    """Nanoseconds of a linear system for each pair of samples. With 800 samples a system took 0.22 ms."""
    usual_systems: int = 150
    """Systems that a climb is taken to need: SMO has as long before. With 800 samples that is 65 steps a sample. Climbs from
    there needed 13 to 130 systems on three raw tables; from 28 steps a sample, twice as many, and from 12 the rho of SMO was
    of no use on one of them."""
    most_systems: int = 200
    """Limit on the systems for one rho."""
    most_rhos: int = 8
    """Limit on the values of rho. Two to four were needed."""
    close: float = 1e-9
    """Share of T by which the sum of alpha may be wrong. A leap then makes it right."""
    step_down: float = 0.25
    """Factor on rho where Newton's method asks for one that is not positive."""

    def nanoseconds(self, n: int) -> float:
        """What a climb is taken to need for n samples."""
        return self.usual_systems * (self.ns_a_system + self.ns_a_pair * n * n)


class NuClimb:
    """The climb for one problem of nu-SVC whose kernel matrix is held."""

    def __init__(self, problem: NuProblem, policy: NuClimbPolicy) -> None:
        self.problem, self.policy = problem, policy
        self.pays_at = policy.nanoseconds(problem.n_samples)  # of SMO

    @classmethod
    def of(cls, problem: NuProblem, policy: NuClimbPolicy) -> NuClimb | None:
        """Make one, but none for other problems and where every alpha of a group is at its bound: then rho is free."""
        is_classes = len(problem.totals) == 2 and problem.n_copies == 1
        is_open = is_classes and not any(problem.is_full(g) for g in range(2))
        return cls(problem, policy) if is_open else None

    def climbed(self, alpha: Array) -> Array | None:
        """The optimum, from alpha. None where it was not found: then SMO goes on for as long again before the next climb."""
        with single_threaded_blas(), np.errstate(all="ignore"):
            found = self._climbed(alpha)
        if found is None:
            self.pays_at *= 2.0
        return found

    def _climbed(self, alpha: Array) -> Array | None:
        problem, policy, total = self.problem, self.policy, float(self.problem.totals.sum())
        held, n = problem.samples.held, problem.n_samples
        assert held is not None
        K, s = np.ascontiguousarray(held.padded[:n, :n]), problem.signs * alpha
        rho = 0.5 * sum(interval.middle for interval in problem.best_thresholds(K @ s))
        for _ in range(policy.most_rhos):
            found = self._solved(K, s, rho) if 0.0 < rho < np.inf else None
            if found is None:
                return None
            s, slope = found
            lacking = total - float(np.abs(s).sum())
            if abs(lacking) <= policy.close * total:
                return problem.nearest_feasible(np.abs(s))
            moved = rho + lacking / slope
            rho = moved if moved > 0.0 else policy.step_down * rho
        return None

    def _solved(self, K: Array, s: Array, rho: float) -> tuple[Array, float] | None:
        """s of C-SVC with C = 1 / rho, times rho, and the derivative of the sum of alpha. None where there is none."""
        y, C = self.problem.signs, self.problem.C / rho
        work = WorkingSet(K, s / rho, y - K @ s / rho, np.minimum(y * C, 0.0), np.maximum(y * C, 0.0), True)
        found = optimise(work, max_iterations=self.policy.most_systems)
        free = np.flatnonzero((found.s > work.lower) & (found.s < work.upper))
        change = solution_of(K[np.ix_(free, free)], y[free], True) if len(free) else None
        if found.outcome is Outcome.NOT_FINITE or change is None:
            return None
        return found.s * rho, float(y[free] @ change)

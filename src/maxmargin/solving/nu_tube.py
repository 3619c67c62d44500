r"""nu-SVR with any kernel by regressions with a given tube: what is tried where SMO ends without a certificate, or C is large.

:mod:`maxmargin.solving.nu_pair` has the mathematics. Where C is large beside the targets, the regression without a tube has
:math:`\sum_i |\beta_i| \le T`, and is the answer. There the two variables of a sample, which the dual of nu-SVR wants to add up
to T, are so much larger than their difference that the difference has no digits left. The regression has the difference
alone."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from maxmargin.certificate.kernel import certify_kernel
from maxmargin.certificate.nu import NuVerdict, threshold_bound
from maxmargin.certificate.nu_pair import with_tube
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.problem.held_values import HeldValues
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.nu import NuProblem
from maxmargin.problem.regression_losses import EpsilonInsensitive
from maxmargin.solvers.kernel.auto import KernelAuto
from maxmargin.solving.driver import Limits, drive
from maxmargin.solving.nu_pair import Search, Tube, TubePolicy, search_tube
from maxmargin.solving.solution import Solution, Status


def has_small_targets(problem: NuProblem, most_share: float) -> bool:
    """Whether the targets, less their median, are so small that beta without a tube is expected to add up to at most this share
    of T: where kernel values of different samples are small, beta_i is the target over k(x_i, x_i)."""
    n = problem.samples.n_samples
    targets, diagonal = problem.targets[:n], float(np.mean(problem.samples.diagonal))
    size = float(np.abs(targets - np.median(targets)).sum())
    return 0.0 < size <= most_share * diagonal * float(problem.totals.sum())


def solve_without_tube(problem: NuProblem, limits: Limits, stop: Stop) -> Solution | None:
    """The regression without a tube. None where it is not a certified answer."""
    search, begun = KernelSearch(problem, limits, stop), time.perf_counter()
    tube = search.solved(0.0, None)
    found = search.answer(tube, search.latest, limits.tol, begun) if tube.size <= search.total else None
    return found if found is not None and found.status.is_as_asked else None


def solve_nu_svr_tube(problem: NuProblem, first: Solution, limits: Limits, stop: Stop) -> Solution:
    """The best answer that is found. ``first`` is what SMO found, whose trace and steps are kept."""
    search = KernelSearch(problem, replace(limits, tol=TubePolicy.share * limits.tol), stop)
    found: Solution = search_tube(search, first, limits.tol)
    return found


def _given(held: HeldValues) -> HeldValues:
    return held


@dataclass(eq=False)
class _Latest:
    solution: Any = None


@dataclass(frozen=True, eq=False)
class KernelSearch(Search):
    """The regressions of a search, by the kernel: w of a tube is its intercept alone."""

    last: _Latest = field(default_factory=_Latest)

    @property
    def latest(self) -> Solution:
        """The solution of the latest regression."""
        solution: Solution = self.last.solution
        return solution

    @cached_property
    def regression(self) -> KernelProblem:
        """The regression without a tube. All regressions share its kernel values."""
        problem, n = self.problem, self.problem.samples.n_samples
        loss: Any = EpsilonInsensitive(0.0)
        held, costs = problem.samples.held, np.ascontiguousarray(problem.C[:n])
        matrix = None if held is None else partial(_given, held)
        return KernelProblem(problem.rows, problem.targets[:n], costs, problem.kernel, loss=loss, matrix=matrix)

    def kernel(self, epsilon: float) -> KernelProblem:
        loss: Any = EpsilonInsensitive(epsilon)
        return replace(self.regression, loss=loss)

    def constant(self, value: float) -> Array:
        return np.array([value])

    def solved(self, epsilon: float, start: Array | None) -> Tube:
        problem = self.kernel(epsilon)
        self.last.solution = drive(problem, KernelAuto(), self.limits, warm_start=start, callback=None, seed=0, stop=self.stop)
        return Tube(epsilon, np.array([self.latest.b]), self.latest.alpha)

    def answer(self, tube: Tube, first: Solution, tol: float, begun: float) -> Any:
        """The tube with its certificate."""
        most = (1.0 - TubePolicy.inside) * self.total
        beta = tube.beta if tube.size <= most else tube.beta * (most / tube.size)
        verdict = certify_kernel(self.kernel(tube.epsilon), beta, tol=tol)
        certificate = with_tube(verdict.certificate, tube.epsilon, self.total, beta)
        thresholds = np.array([-(verdict.b + tube.epsilon), verdict.b - tube.epsilon])
        judged = NuVerdict(certificate, thresholds, verdict.outputs, verdict.output_errors, 0)
        return replace(
            first,
            w=thresholds,
            alpha=np.concatenate([np.maximum(beta, 0.0), np.maximum(-beta, 0.0)]),
            b=verdict.b,
            certificate=certificate,
            status=Status.CERTIFIED if certificate.meets(tol) else Status.PRECISION_LIMIT,
            seconds=first.seconds + time.perf_counter() - begun,
            offset_bound=threshold_bound(self.problem, judged),
        )

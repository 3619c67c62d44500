r"""C = infinity in regression: the shortest w within the tube, or a proof that none stays within it.

The loss is zero for a w that keeps every residual within epsilon. The problem is solved with a C that grows, and with a tube
that is a little narrower, :math:`\epsilon - \eta`: its w, which leaves that tube by rounding and by what its gap allows, stays
within the tube that was asked for. The narrower tube costs a gap of :math:`\eta \sum_i |\alpha_i|`, so that eta is a share of
``tol`` times the objective over that sum. Linear problems and those with a kernel differ in how an answer is judged and how a
ray is found."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from maxmargin.certificate.hard_kernel import certify_hard_kernel, kernel_ray
from maxmargin.certificate.hard_margin import (
    InseparableError,
    Ray,
    certify_hard_margin,
    epsilon_of,
    linear_hard_offset_bound,
    offset_room,
)
from maxmargin.certificate.kernel import outputs_of
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.regression_losses import EpsilonInsensitive
from maxmargin.solvers.base import KernelSolver, Solver
from maxmargin.solving.driver import Callback, Limits, drive
from maxmargin.solving.hard_kernel import (
    HardKernelPolicy,
    check_definite,
    hard_solution,
    inseparable,
    refuse_equal_samples,
    without_length,
)
from maxmargin.solving.hard_margin import UNDECIDED, cost_unit, interrupted, without_weights
from maxmargin.solving.solution import Solution, Status


@dataclass(frozen=True)
class HardTubePolicy:
    """How C grows, and by how much the tube is narrowed."""

    first: float = 1e2
    """The first C, in units of (the spread of the targets) / (the mean of k(x, x)). An estimate, not measured."""
    factor: float = 1e2
    """The factor on C after each solve. An estimate, not measured."""
    most_solves: int = 8
    """The most solves, each from the alpha of the one before. The last C is 1e16 units: a C that the rounding of a residual
    makes greater than the objective."""
    share: float = 0.25
    """The share of the wanted gap that a solve may leave, and the share that the narrower tube may cost."""
    most_epochs: float = 2000.0
    """Epochs of a solve: where no function stays within the tube, a gap is hard to close, and a ray needs no small gap."""
    least_width: float = 0.5
    """The least share of epsilon that the narrower tube keeps."""
    most_ray: int = 2000
    """Weights up to which a linear ray is made exact. That solves a least-squares problem with as many unknowns."""


class Judged(Protocol):
    """How the answers of a problem are judged, and how a ray is found."""

    @property
    def unit(self) -> float:
        """1 / (the mean of k(x, x))."""

    def answer(self, solution: Solution, begun: float) -> Solution:
        """The solution of a finite C as an answer for C = infinity."""

    def ray(self, alpha: Array) -> Ray: ...

    def refused(self, ray: Ray) -> InseparableError: ...


def solve_hard_tube(
    problem: LinearProblem | KernelProblem,
    solver: Solver | KernelSolver,
    limits: Limits,
    *,
    callback: Callback | None,
    seed: int,
    stop: Stop,
) -> Solution:
    """The answer of ``problem``, a regression, for C = infinity. Of its C only one thing counts: which C_i are zero. Raises
    ``InseparableError``."""
    begun, policy, is_here = time.perf_counter(), HardTubePolicy(), problem.C > 0.0
    judged: Judged = TubeOfKernel(problem) if isinstance(problem, KernelProblem) else LinearTube(problem, policy)
    width = inner = epsilon_of(problem.loss)
    cost = policy.first * judged.unit * (float(np.std(problem.targets[is_here])) or 1.0)
    own_limits = Limits(policy.share * limits.tol, min(limits.max_epochs, policy.most_epochs), limits.max_seconds)
    start: Array | None = None
    for _ in range(policy.most_solves):
        loss: Any = EpsilonInsensitive(inner)
        soft = replace(problem, C=np.where(is_here, cost, 0.0), loss=loss)
        solution = drive(soft, solver, own_limits, warm_start=start, callback=callback, seed=seed, stop=stop)
        answer = judged.answer(solution, begun)
        if answer.certificate.meets(limits.tol):
            return replace(answer, status=Status.CERTIFIED)
        if stop.is_due:
            return interrupted(answer)
        start, size = solution.alpha, float(np.abs(solution.alpha).sum())
        ray = judged.ray(start) if size > 0.0 else None
        if ray is not None and ray.is_proof:
            raise judged.refused(ray)
        cost *= policy.factor
        inner = _narrower(width, solution, size, limits.tol, policy)
    raise ValueError(UNDECIDED.replace("the margin, if there is one,", "what decides it"))


def _narrower(width: float, solution: Solution, size: float, tol: float, policy: HardTubePolicy) -> float:
    """epsilon - eta."""
    if size == 0.0:
        return policy.least_width * width
    eta = policy.share * tol * abs(solution.certificate.dual) / size
    return max(policy.least_width * width, width - eta)


@dataclass(frozen=True, eq=False)
class LinearTube:
    """Answers and rays of linear problems."""

    problem: LinearProblem
    policy: HardTubePolicy

    @property
    def unit(self) -> float:
        return cost_unit(self.problem)

    def answer(self, solution: Solution, begun: float) -> Solution:
        certificate = certify_hard_margin(self.problem, solution.w, solution.alpha)
        bound = linear_hard_offset_bound(self.problem, solution.w, certificate)
        seconds = time.perf_counter() - begun
        return replace(solution, certificate=certificate, offset_bound=bound, seconds=seconds)

    def ray(self, alpha: Array) -> Ray:
        """The better of alpha itself and of alpha without weights."""
        problem, policy = self.problem, self.policy
        rays = [Ray.of(problem, alpha)]
        if problem.n_weights <= policy.most_ray:
            rays.append(Ray.of(problem, without_weights(problem, alpha)))
        return min(rays, key=lambda ray: ray.order)

    def refused(self, ray: Ray) -> InseparableError:
        n_used = int(np.count_nonzero(ray.alpha))
        return InseparableError(
            "No linear function stays within the tube, so that C = infinity has no answer: a combination of rows that is zero "
            f"up to {ray.margin:.0e}, which is rounding, has targets that differ by more than epsilon allows. It has weights "
            f"on {n_used} samples. Use a finite C or a greater epsilon.",
            ray.alpha,
            ray.margin,
        )


class TubeOfKernel:
    """Answers and rays of problems with a kernel."""

    def __init__(self, problem: KernelProblem) -> None:
        check_definite(problem)
        refuse_equal_samples(problem)
        self.problem, self.policy = problem, HardKernelPolicy()

    @property
    def unit(self) -> float:
        return 1.0 / max(float(np.mean(self.problem.diagonal)), 1e-300)

    def answer(self, solution: Solution, begun: float) -> Solution:
        """The answer with the offset in the middle of those that all samples allow."""
        problem, alpha, b = self.problem, solution.alpha, 0.0
        if problem.has_offset:
            is_here = problem.C > 0.0
            low, high = offset_room(problem, outputs_of(problem, alpha, np.flatnonzero(alpha)).outputs)
            b = 0.5 * (float(low[is_here].max()) + float(high[is_here].min()))
        return hard_solution(problem, solution, alpha, certify_hard_kernel(problem, alpha, b), begun)

    def ray(self, alpha: Array) -> Ray:
        """The best of alpha itself and of what its projections to directions of no length leave."""
        rays, chosen = [kernel_ray(self.problem, alpha)], np.flatnonzero(alpha)
        if not rays[0].is_proof and len(chosen) <= self.policy.most_ray:
            for found in without_length(self.problem, chosen, alpha[chosen], self.policy.least_eigenvalues):
                kept = np.zeros(len(alpha))
                kept[chosen] = found
                if kept.any():
                    rays.append(kernel_ray(self.problem, kept))
        return min(rays, key=lambda ray: ray.margin / max(ray.rounding, 1e-300))

    def refused(self, ray: Ray) -> InseparableError:
        return inseparable(self.problem, ray)

r"""C = infinity with a kernel: the function with the greatest margin, or a proof that no margin is beyond rounding.

The greatest margin is half the distance between the convex hulls of the two classes (K. Bennett and E. Bredensteiner, "Duality
and geometry in SVM classifiers", ICML 2000):

.. math:: \min_\alpha \tfrac12 |w(\alpha)|^2, \qquad \alpha \ge 0, \quad
          \sum_{y_i = 1} \alpha_i = \sum_{y_i = -1} \alpha_i = 1 ,

which is nu-SVC with sums of one, whose box never binds: no C has to grow. alpha and b are then scaled until the least margin is
one. Where the hulls meet, alpha is the ray that proves it (:mod:`maxmargin.certificate.hard_kernel`). Without an offset there
is one hull, that of the :math:`y_i \phi(x_i)`, and the problem is that of one class with the kernel
:math:`y_i y_j k(x_i, x_j)`."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.certificate.hard_kernel import certify_hard_kernel, kernel_hard_offset_bound, kernel_ray, ray_of_equal_samples
from maxmargin.certificate.hard_margin import InseparableError, Ray
from maxmargin.certificate.kernel import KernelVerdict, outputs_of
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array, Rows
from maxmargin.problem.dual_box import UNIT_ROUNDOFF
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import Precomputed
from maxmargin.problem.nu import NuProblem
from maxmargin.problem.regression_losses import EpsilonInsensitive
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Callback, Limits, drive
from maxmargin.solving.hard_margin import UNDECIDED, interrupted
from maxmargin.solving.solution import Solution, Status


@dataclass(frozen=True)
class HardKernelPolicy:
    """How far the hulls are brought together, and how a ray is searched."""

    first_share: float = 0.3
    """The relative gap of the first solve, as a share of the one that is wanted. The gap of the hulls is about that of the
    scaled answer."""
    factor: float = 0.03
    """The factor on that share after each solve."""
    most_solves: int = 4
    """The most solves, each from the alpha of the one before."""
    excesses: tuple[float, ...] = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)
    """What the least margin may exceed one by, tried in turn. The relative gap grows by twice as much."""
    most_ray: int = 2000
    """Samples of a ray up to which its length is brought to rounding, by the eigenvectors of their kernel matrix."""
    least_eigenvalues: tuple[float, ...] = (1e-15, 1e-12, 1e-9)
    """Shares of the greatest eigenvalue. Directions below this share count as none; the shares are tried in turn."""
    share_of_ray: float = 1e-9
    """Share of the greatest alpha from which on a sample belongs to the ray."""
    most_samples_without_offset: int = 8000
    """Samples up to which a problem without an offset is solved. Its kernel matrix is held: 512 megabytes."""


def solve_hard_kernel(
    problem: KernelProblem, cache_mb: float, limits: Limits, *, callback: Callback | None, stop: Stop
) -> Solution:
    """The answer of ``problem``, of two classes, for C = infinity. Of its C only one thing counts: which C_i are zero. Raises
    ``InseparableError``."""
    begun, policy = time.perf_counter(), HardKernelPolicy()
    check_definite(problem)
    if len(np.unique(problem.y[problem.C > 0.0])) < 2:
        raise ValueError("The hard margin (C = infinity) needs samples of both classes.")
    refuse_equal_samples(problem)
    hulls, share, start, best = _hulls(problem, policy), policy.first_share, None, None
    for _ in range(policy.most_solves):
        own_limits = replace(limits, tol=share * limits.tol)
        solution = drive(hulls, NuSMO(cache_mb=cache_mb), own_limits, warm_start=start, callback=callback, seed=0, stop=stop)
        alpha, b = scaled(problem, solution.alpha, policy.excesses)
        verdict = certify_hard_kernel(problem, alpha, b)
        if best is None or verdict.certificate.gap < best.certificate.gap:
            best = hard_solution(problem, solution, alpha, verdict, begun)
        if verdict.certificate.meets(limits.tol):
            return replace(best, status=Status.CERTIFIED)
        if stop.is_due:
            return interrupted(best)
        ray = _ray(problem, solution.alpha, policy)
        if ray.is_proof:
            raise inseparable(problem, ray)
        share, start = policy.factor * share, solution.alpha
    raise ValueError(f"{UNDECIDED} No margin exceeds {ray.margin:.2g}.")


def check_definite(problem: KernelProblem) -> None:
    if not problem.kernel.is_positive_semidefinite:
        raise ValueError(
            "C = infinity (the hard margin) asks for a kernel that is positive semidefinite. With another kernel |w|^2 may be "
            "negative, and there is no greatest margin. Use a finite C."
        )


def hard_solution(problem: KernelProblem, solution: Solution, alpha: Array, verdict: KernelVerdict, begun: float) -> Solution:
    """What is known of alpha, scaled or centred, as an answer for C = infinity."""
    bound, seconds = kernel_hard_offset_bound(problem, verdict), time.perf_counter() - begun
    found = replace(solution, w=np.empty(0), alpha=alpha, b=verdict.b, certificate=verdict.certificate)
    return replace(found, offset_bound=bound, seconds=seconds)


def _hulls(problem: KernelProblem, policy: HardKernelPolicy) -> NuProblem:
    n, is_here = problem.n_samples, np.where(problem.C > 0.0, 1.0, 0.0)
    zeros = np.zeros(n)
    loss: Any = EpsilonInsensitive()
    if problem.has_offset:
        samples = replace(problem, y=zeros, C=np.ones(n), loss=loss)
        group = np.where(problem.y > 0, 0, 1).astype(np.int8)
        return NuProblem(samples, problem.signs, zeros, is_here, group, np.ones(2))
    if n > policy.most_samples_without_offset:
        most = policy.most_samples_without_offset
        raise ValueError(f"C = infinity without an intercept takes at most {most:,} samples; there are {n:,}.")
    values = problem.gram(np.arange(n), np.arange(n)) * np.outer(problem.signs, problem.signs)
    samples = KernelProblem(Rows.from_matrix(values), zeros, np.ones(n), Precomputed(), loss=loss)
    return NuProblem(samples, np.ones(n), zeros, is_here, np.zeros(n, np.int8), np.ones(1))


def scaled(problem: KernelProblem, alpha: Array, excesses: tuple[float, ...]) -> tuple[Array, float]:
    """alpha and b with a least margin of one, rounding included, if they can be scaled to it. Outputs round anew after each
    change of alpha, so that the least margin is aimed at one and these excesses in turn."""
    b = _middle(problem, alpha)
    for excess in excesses:
        least = _least_margin(problem, alpha, b)
        if not 0.0 < least < math.inf or 1.0 <= least <= 1.0 + 2.0 * excess:
            break
        alpha, b = alpha * ((1.0 + excess) / least), b * ((1.0 + excess) / least)
    return alpha, b


def _middle(problem: KernelProblem, alpha: Array) -> float:
    """The offset in the middle between the classes."""
    if not problem.has_offset:
        return 0.0
    f, errors = outputs_of(problem, alpha, np.flatnonzero(alpha))
    is_here, is_positive, margins = problem.C > 0.0, problem.y > 0, problem.signs * f - errors
    above, below = (float(margins[is_here & side].min()) for side in (is_positive, ~is_positive))
    return 0.5 * (below - above)


def _least_margin(problem: KernelProblem, alpha: Array, b: float) -> float:
    """The least margin, rounded downwards."""
    f, errors = outputs_of(problem, alpha, np.flatnonzero(alpha))
    values = f + b
    return float((problem.signs * values - errors - 4.0 * UNIT_ROUNDOFF * (np.abs(values) + 1.0))[problem.C > 0.0].min())


def _ray(problem: KernelProblem, alpha: Array, policy: HardKernelPolicy) -> Ray:
    """The best of alpha itself and of what its projections to directions of no length leave."""
    rays = [kernel_ray(problem, alpha)]
    chosen = np.flatnonzero(alpha >= policy.share_of_ray * alpha.max())
    if rays[0].is_proof or len(chosen) > policy.most_ray:
        return rays[0]
    signed = (alpha * problem.signs)[chosen]
    for found in without_length(problem, chosen, signed, policy.least_eigenvalues):
        kept = np.zeros(problem.n_samples)
        kept[chosen] = np.maximum(0.0, found * problem.signs[chosen])
        if kept.any():
            rays.append(kernel_ray(problem, problem.nearest_feasible(kept) if problem.has_offset else kept))
    return min(rays, key=lambda ray: ray.margin / max(ray.rounding, 1e-300))


def without_length(problem: KernelProblem, chosen: Array, signed: Array, shares: tuple[float, ...]) -> list[Array]:
    """The coefficients ``signed`` of the chosen samples, without the part that has a length, for each share of the greatest
    eigenvalue from which on a direction has one."""
    K = np.asarray(problem.gram(chosen, chosen)) + (1.0 if problem.has_offset else 0.0)
    values, vectors = np.linalg.eigh(K)
    parts = vectors.T @ signed
    return [vectors @ np.where(values > share * values[-1], 0.0, parts) for share in shares]


def inseparable(problem: KernelProblem, ray: Ray) -> InseparableError:
    """What is raised where the hulls meet, or where no function stays within the tube, up to rounding."""
    if problem.loss.is_regression:
        what = f"stays within the tube unless |(w, b)| is greater than {1.0 / ray.margin:.2g}"
    else:
        what = f"separates the classes with a margin above {ray.margin:.2g}"
    return InseparableError(
        f"With this kernel no function {what}, which float64 does not tell from none at all, so that C = infinity (the hard "
        f"margin) has no answer. The proof is a dual point with weights on {int(np.count_nonzero(ray.alpha))} samples. Use a "
        "finite C.",
        ray.alpha,
        ray.margin,
    )


def refuse_equal_samples(problem: KernelProblem) -> None:
    ray = ray_of_equal_samples(problem)
    if ray is None:
        return
    what = "targets more than 2 epsilon apart" if problem.loss.is_regression else "different classes"
    raise InseparableError(
        f"Two samples are equal and have {what}, so that C = infinity (the hard margin) has no answer. Use a finite C.",
        ray.alpha,
        ray.margin,
    )

r"""C = infinity: the hyperplane with the greatest margin, or a proof that no hyperplane separates the classes.

Hinge loss is solved with a C that grows until no :math:`\alpha_i` is at its bound and every margin is positive: w, scaled to a
least margin of one, and alpha are then an answer for every greater C. Where the classes cannot be separated, most of alpha is
at the bound and :math:`w(\alpha) / \sum_i \alpha_i` shrinks like 1 / C. What is left of it is taken from the alphas by the
least change in the Euclidean norm, and that is a ray (:mod:`maxmargin.certificate.hard_margin`)."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from maxmargin.certificate.hard_margin import (
    InseparableError,
    Ray,
    certify_hard_margin,
    linear_hard_offset_bound,
    with_margin_one,
)
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge
from maxmargin.solvers.base import Solver
from maxmargin.solving.driver import Callback, Limits, drive
from maxmargin.solving.solution import Solution, Status

UNDECIDED = (
    "The hard margin (C = infinity) could be neither reached nor ruled out: the margin, if there is one, is within the "
    "rounding of the data. Use a finite C."
)


@dataclass(frozen=True)
class HardMarginPolicy:
    """How C grows, in multiples of 1 / (the mean of |x|^2)."""

    first: float = 1e2
    """The first C, in those units. An estimate, not measured."""
    factor: float = 1e2
    """The factor on C after each solve. An estimate, not measured."""
    greatest: float = 1e14
    """The last C. Beyond it the rounding of a margin, times C, exceeds the objective."""
    shares_of_ray: tuple[float, ...] = (1e-12, 1e-4)
    """Shares of the greatest alpha. A sample belongs to the ray if its alpha is at least this share; the shares are tried in
    turn. As C grows, all other alphas stay behind."""
    most_weights: int = 2000
    """Weights up to which a ray is searched. The search solves a least-squares problem with as many unknowns."""


def solve_hard_margin(
    problem: LinearProblem, solver: Solver, limits: Limits, *, callback: Callback | None, seed: int, stop: Stop
) -> Solution:
    """The answer of ``problem`` for C = infinity. Of its C only one thing counts: which C_i are zero. Raises
    ``InseparableError``."""
    begun, policy = time.perf_counter(), HardMarginPolicy()
    if len(np.unique(problem.y[problem.C > 0.0])) < 2:
        raise ValueError("The hard margin (C = infinity) needs samples of both classes.")
    unit = cost_unit(problem)
    solution, multiple = None, policy.first
    while multiple <= policy.greatest and not (solution is not None and stop.is_due):
        soft = replace(problem, C=np.where(problem.C > 0.0, multiple * unit, 0.0), loss=Hinge())
        start = None if solution is None else solution.alpha
        solution = drive(soft, solver, limits, warm_start=start, callback=callback, seed=seed, stop=stop)
        answer = _answer(problem, solution, begun)
        if answer.certificate.meets(limits.tol):
            return replace(answer, status=Status.CERTIFIED)
        _refuse_if_inseparable(soft, solution.alpha, policy)
        multiple *= policy.factor
    if solution is not None and stop.is_due:
        return interrupted(answer)
    raise ValueError(UNDECIDED)


def interrupted(answer: Solution) -> Solution:
    """An answer that does not meet the tolerance when time is up, whatever its status as an answer to a finite C is."""
    return replace(answer, status=Status.TIME_LIMIT) if answer.status.is_as_asked else answer


def cost_unit(problem: LinearProblem) -> float:
    """1 / (the mean of |x|^2)."""
    return 1.0 / max(float(np.mean(problem.rows.squared_norms(problem.intercept_scaling))), 1e-300)


def _answer(problem: LinearProblem, solution: Solution, begun: float) -> Solution:
    """The solution of a soft margin, scaled, as an answer for the hard one."""
    w = with_margin_one(problem, solution.w)
    certificate = certify_hard_margin(problem, w, solution.alpha)
    b = float(w[-1] * problem.intercept_scaling) if problem.intercept_scaling else 0.0
    bound = linear_hard_offset_bound(problem, w, certificate)
    seconds = time.perf_counter() - begun
    return replace(solution, w=w, b=b, certificate=certificate, offset_bound=bound, seconds=seconds)


def _refuse_if_inseparable(soft: LinearProblem, alpha: Array, policy: HardMarginPolicy) -> None:
    if not np.any((alpha >= soft.C) & (soft.C > 0.0)) or soft.n_weights > policy.most_weights:
        return
    rays = [Ray.of(soft, without_weights(soft, alpha, share)) for share in policy.shares_of_ray]
    ray = min(rays, key=lambda ray: ray.order)
    if not ray.is_proof:
        return
    n_used = int(np.count_nonzero(ray.alpha))
    raise InseparableError(
        "The classes cannot be separated by a hyperplane, so that C = infinity (the hard margin) has no answer: a mean of "
        f"samples of one class equals a mean of samples of the other, with weights on {n_used} samples and up to "
        f"{ray.margin:.0e}, which is rounding. Use a finite C.",
        ray.alpha,
        ray.margin,
    )


def without_weights(soft: LinearProblem, alpha: Array, share: float = 0.0) -> Array:
    """alpha with w(alpha) = 0 up to rounding if that can be had, by the least change of those that are at least ``share`` of
    the greatest; the others are set to zero. Where there are two classes none becomes negative."""
    sizes = np.abs(alpha)
    chosen = np.flatnonzero((sizes >= share * sizes.max()) & (sizes > 0.0))
    rows = soft.rows.matrix[chosen]
    columns = (rows.toarray() if soft.rows.is_sparse else np.asarray(rows, dtype=np.float64)).T
    if soft.intercept_scaling:
        columns = np.vstack([columns, np.full(len(chosen), soft.intercept_scaling)])
    columns = columns * soft.signs[chosen]
    found = np.zeros(len(alpha))
    found[chosen] = alpha[chosen] / float(sizes[chosen].sum())
    scales = np.abs(columns) @ np.abs(found[chosen])  # each element of w(alpha) is to be zero up to its own rounding
    scales[~(scales > 0.0)] = 1.0
    columns = columns / scales[:, None]
    for _ in range(3):
        change = np.linalg.lstsq(columns, -soft.precise_weights(found)[: len(columns)] / scales, rcond=None)[0]
        moved = found[chosen] + change
        found[chosen] = moved if soft.loss.is_regression else np.maximum(0.0, moved)
    return found

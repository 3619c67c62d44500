r"""nu-SVC with a finite feature map where w = 0 is optimal: what is tried where SMO ends without a certificate.

The value of w = 0 is zero, at any rho and b = 0. It is the optimum if some feasible alpha has w(alpha) = 0, which means that
the two hulls of nu-SVC have a point in common. ``maxmargin.certificate.zero`` proves from an alpha nearby that there is such a
point. Then primal, dual and gap are exactly zero, and so is the distance of w = 0 from the optimum, which is unique."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.certificate.certificate import Certificate, Counts
from maxmargin.certificate.nu import NuVerdict, threshold_bound
from maxmargin.certificate.zero import DualPoint, exact_residual, is_zero
from maxmargin.data.limits import OutOfTimeError
from maxmargin.data.rows import Array
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.analytic_centre import centre
from maxmargin.solving.nu_pair import PairSolution
from maxmargin.solving.solution import Solution, Status


@dataclass(frozen=True)
class ZeroSteps:
    """Steps of least squares to a point with w = 0."""

    least_directions: tuple[float, ...] = (2.0**-50, 1e-12, 1e-9, 1e-6)
    """Directions of w that are shorter than this share of the longest are left as they are; each is tried."""
    most_steps: int = 4
    """The first leaves what rounding makes of it, the others what is left of that."""
    most_decomposed: int = 1024
    """The largest system that is solved by its singular values. Of twice the size it takes ten seconds. An estimate."""


DEFAULT = ZeroSteps()


def zero_answer(problem: NuProblem, features: Any, first: Solution) -> PairSolution | None:
    """w = 0 with its certificate, if it is proved to be optimal. ``features`` are phi of the samples. ``first`` is what SMO
    found: its alpha may be nearly one with w(alpha) = 0, and its trace and steps are kept."""
    begun = time.perf_counter()
    with suppress(OutOfTimeError):
        for point in _points(problem, features, first.alpha):
            if is_zero(problem, point, 0.0):
                return _answer(problem, features.shape[1], point, first, begun)
    return None


def _points(problem: NuProblem, features: Any, alpha: Array, policy: ZeroSteps = DEFAULT) -> Iterator[Array]:
    """The nearest feasible alpha, and those to which short steps inside of the box lead that make w zero, from there and from
    a point far inside."""
    alpha = problem.nearest_feasible(alpha)
    yield alpha
    X = np.asarray(features.toarray() if hasattr(features, "toarray") else features, dtype=np.float64)
    if min(X.shape) > policy.most_decomposed or not np.isfinite(X).all():
        return
    starts = [start for start in (_centred(problem, X, alpha), alpha) if start is not None]
    for start in starts:
        for share in policy.least_directions:
            yield from _stepped(problem, X, start, share, policy.most_steps)


def _centred(problem: NuProblem, X: Array, alpha: Array) -> Array | None:
    """A feasible alpha far inside of the box with w(alpha) = 0. Groups that are full stay as they are."""
    is_open = np.array([not problem.is_full(g) for g in range(2)])
    free = is_open[problem.group]
    groups = (problem.group[free][:, None] == np.flatnonzero(is_open)).astype(np.float64)
    M = problem.signs[:, None] * (X - X.mean(axis=0))
    upper, totals = problem.C[free], problem.totals[is_open]
    start = groups @ (totals / (groups.T @ upper)) * upper
    found = centre(np.hstack([M[free], groups]), np.append(-M[~free].T @ alpha[~free], totals), upper, start)
    if found is not None:
        alpha = alpha.copy()
        alpha[free] = found
    return None if found is None else alpha


def _stepped(problem: NuProblem, X: Array, alpha: Array, share: float, most_steps: int) -> Iterator[Array]:
    """The point to which steps of least squares lead, without the directions of w that are shorter than this share of the
    longest, if it is inside of the box. What w lacks of zero is summed exactly: rounding of the sums is longer than that."""
    groups, middle = np.eye(2)[problem.group], X.mean(axis=0)
    columns = np.hstack([problem.signs[:, None] * (X - middle), groups])
    for _ in range(most_steps):
        missing = exact_residual(X, middle, DualPoint(alpha, problem.C, problem.signs, groups, problem.totals))
        room = np.minimum(alpha, problem.C - alpha)
        own = columns * room[:, None]
        lengths = np.linalg.norm(own, axis=0)
        lengths = np.where(lengths > 0.0, lengths, 1.0)
        if missing is None or not (np.isfinite(own).all() and np.isfinite(missing.value).all()):
            return
        step = np.linalg.lstsq((own / lengths).T, -missing.value / lengths, rcond=share)[0]
        if not np.abs(step).max() < 1.0:
            return
        alpha = alpha + step * room
    yield alpha


def _answer(problem: NuProblem, n_features: int, alpha: Array, first: Solution, begun: float) -> PairSolution:
    counts, nothing = Counts.of(alpha, alpha == problem.C), np.zeros(problem.samples.n_samples)
    certificate = Certificate(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, *counts)
    verdict = NuVerdict(certificate, np.zeros(2), nothing, nothing, 0)
    found = PairSolution.of(first, np.zeros(n_features), w=np.zeros(2), alpha=alpha, b=0.0, certificate=certificate)
    seconds = first.seconds + time.perf_counter() - begun
    return replace(found, status=Status.CERTIFIED, seconds=seconds, offset_bound=threshold_bound(problem, verdict))

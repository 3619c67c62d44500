r"""nu-SVR and one class with the linear kernel as linear problems: what is tried where SMO ends without a certificate.

nu-SVR is regression with the tube :math:`\epsilon` for which :math:`\sum_i |\beta_i| = T = \nu \sum_i C_i`, a sum that falls as
the tube gets wider. Newton's method solves a linear regression whatever the scales of the columns are. So the tube is searched
between one with a greater sum and one with a smaller sum, and the answer is a mean of these two, w, b, epsilon and beta alike,
whose sum is T. P is convex and D is concave, so that its gap is at most the mean of their gaps plus a share of the difference
of the two tubes. :mod:`maxmargin.certificate.nu_pair` is the judge."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.nu import NuVerdict, threshold_bound
from maxmargin.certificate.nu_pair import certify_nu_pair
from maxmargin.certificate.predictions import linear_values
from maxmargin.data.limits import Stop
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.nu import NuProblem
from maxmargin.problem.one_class import one_class_problem
from maxmargin.problem.regression_losses import EpsilonInsensitive
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solvers.linear.sized_mending import can_be_mended_to_size, coefficients_mended_to_size
from maxmargin.solvers.patience import IdleRounds
from maxmargin.solving.driver import Callback, Limits, drive
from maxmargin.solving.solution import Solution, Status


@dataclass(frozen=True)
class TubePolicy:
    """How a tube is searched."""

    most_solves: int = 60
    """The most regressions. Half of them halve the interval, so that it is then a rounding error of the widest tube."""
    most_idle: int = 10
    """Tubes in a row that do not make the gap smaller, before the search ends. On raw tables with nanoseconds since 1970 it
    went on for 30 more of up to half a second."""
    progress: float = 0.7
    """Share of the gap that must be left at most for a tube that has made it smaller."""
    share: float = 0.1
    """The relative gap of each regression, as a share of the one that is wanted."""
    inside: float = 1e-15
    """Share of T by which the sum of sizes is kept below T, so that rounding does not take it above."""
    inside_if_mended: float = 1e-12
    """The same where rounding errors are made good by least squares, which are right to some digits only."""


@dataclass(frozen=True)
class PairSolution(Solution):
    """A solution with a w of its own on the features, which w(alpha) is not precise enough for."""

    feature_weights: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, solution: Solution, feature_weights: Array, **changes: Any) -> PairSolution:
        return cls(**{**vars(solution), **changes, "feature_weights": feature_weights})


class Tube(NamedTuple):
    """The answer of a regression: its tube, w with the intercept as the last element, and beta."""

    epsilon: float
    w: Array
    beta: Array

    @property
    def size(self) -> float:
        return float(np.abs(self.beta).sum())

    def mean(self, other: Tube, share: float) -> Tube:
        """``share`` of this one, and the rest of the other."""
        rest = 1.0 - share
        return Tube(
            share * self.epsilon + rest * other.epsilon, share * self.w + rest * other.w, share * self.beta + rest * other.beta
        )


def solve_one_class_pair(problem: NuProblem, nu: float, limits: Limits, callback: Callback | None, stop: Stop) -> PairSolution:
    """One class as a linear problem."""
    linear = one_class_problem(problem.rows.matrix, nu, problem.C)
    solution = drive(linear, Auto(), limits, warm_start=None, callback=callback, seed=0, stop=stop)
    return PairSolution.of(solution, solution.w[: problem.rows.n_features])


def solve_nu_svr_pair(problem: NuProblem, first: Solution, limits: Limits, stop: Stop) -> PairSolution:
    """The best pair that is found. ``first`` is what SMO found, whose trace and steps are kept."""
    search = Search(problem, replace(limits, tol=TubePolicy.share * limits.tol), stop)
    found: PairSolution = search_tube(search, first, limits.tol)
    return found


def search_tube(search: Search, first: Solution, tol: float) -> Any:
    """Search the tube, and return the best answer that is found."""
    begun, policy, problem, stop = time.perf_counter(), TubePolicy(), search.problem, search.stop
    total, targets = search.total, problem.targets[: problem.samples.n_samples]
    few = search.solved(0.0, None)
    if few.size <= total:
        return search.answer(few, first, tol, begun)
    middle = 0.5 * (float(targets.max()) + float(targets.min()))
    none = Tube(0.5 * float(np.ptp(targets)), search.constant(middle), np.zeros(len(targets)))
    best, rounds = None, IdleRounds(share=policy.progress)
    for k in range(policy.most_solves):
        share = (total - none.size) / (few.size - none.size)
        found = search.answer(few.mean(none, share), first, tol, begun)
        if best is None or found.certificate.gap < best.certificate.gap:
            best = found
        idle = rounds.note(best.certificate.gap)
        if best.status is Status.CERTIFIED or stop.is_due or idle >= policy.most_idle:
            break
        epsilon = share * few.epsilon + (1.0 - share) * none.epsilon if k % 2 else 0.5 * (few.epsilon + none.epsilon)
        if not few.epsilon < epsilon < none.epsilon:
            break
        found_tube = search.solved(epsilon, few.beta)
        few, none = (found_tube, none) if found_tube.size > total else (few, found_tube)
    assert best is not None
    return best


def judged_nu_svr_pair(problem: NuProblem, found: Solution, limits: Limits, stop: Stop) -> PairSolution:
    """The answer of SMO with its w on the features, as it is in float64, and the certificate of that pair."""
    begun, n = time.perf_counter(), problem.samples.n_samples
    beta = found.alpha[:n] - found.alpha[n:]
    w = np.append(np.asarray(problem.rows.matrix.T @ beta).reshape(-1), found.b)
    tube = Tube(max(0.0, -0.5 * float(found.w.sum())), w, beta)
    return Search(problem, limits, stop).answer(tube, found, limits.tol, begun)


@dataclass(frozen=True, eq=False)
class Search:
    """The regressions of a search, by the columns of X."""

    problem: NuProblem
    limits: Limits
    stop: Stop

    @property
    def total(self) -> float:
        """T"""
        return float(self.problem.totals.sum())

    def constant(self, value: float) -> Array:
        """The w of a model whose outputs are all equal."""
        return np.append(np.zeros(self.problem.rows.n_features), value)

    def linear(self, epsilon: float) -> LinearProblem:
        n = self.problem.samples.n_samples
        loss: Any = EpsilonInsensitive(epsilon)
        return LinearProblem(
            *(self.problem.rows, self.problem.targets[:n], self.problem.C[:n], loss, 1.0),
            penalizes_intercept=False,
            has_exact_rows=False,  # intervals of weights say nothing of another tube
        )

    def solved(self, epsilon: float, start: Array | None) -> Tube:
        problem = self.linear(epsilon)
        solution = drive(problem, Auto(), self.limits, warm_start=start, callback=None, seed=0, stop=self.stop)
        return Tube(epsilon, solution.w, solution.alpha)

    def answer(self, tube: Tube, first: Solution, tol: float, begun: float) -> PairSolution:
        """The tube with its certificate."""
        problem, (beta, certificate) = self.problem, self._judged(tube, tol)
        b = float(tube.w[-1])
        thresholds = np.array([-(b + tube.epsilon), b - tube.epsilon])
        return PairSolution.of(
            first,
            tube.w[:-1],
            w=thresholds,
            alpha=np.concatenate([np.maximum(beta, 0.0), np.maximum(-beta, 0.0)]),
            b=b,
            certificate=certificate,
            status=Status.CERTIFIED if certificate.meets(tol) else Status.PRECISION_LIMIT,
            seconds=first.seconds + time.perf_counter() - begun,
            offset_bound=_bound(problem, tube, thresholds, certificate),
        )

    def _judged(self, tube: Tube, tol: float) -> tuple[Array, Certificate]:
        """beta of the tube with its certificate, or with its rounding errors made good."""
        linear, most = self.linear(tube.epsilon), (1.0 - TubePolicy.inside) * self.total
        beta = tube.beta if tube.size <= most else tube.beta * (most / tube.size)
        found = certify_nu_pair(linear, self.total, tube.w, beta)
        if found.meets(tol) or not can_be_mended_to_size(linear):
            return beta, found
        size = min(float(np.abs(beta).sum()), (1.0 - TubePolicy.inside_if_mended) * self.total)
        mended = coefficients_mended_to_size(linear, tube.w, beta, size)
        again = certify_nu_pair(linear, self.total, tube.w, mended)
        return (mended, again) if again.gap < found.gap else (beta, found)


def _bound(problem: NuProblem, tube: Tube, thresholds: Array, certificate: Certificate) -> float:
    values, errors = linear_values(problem.rows.matrix, tube.w[None, :-1], np.zeros(1))
    return threshold_bound(problem, NuVerdict(certificate, thresholds, values[:, 0], errors[:, 0], 0))

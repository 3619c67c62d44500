r"""nu-SVC with a finite feature map by C-SVC: what is tried where SMO ends without a certificate.

nu-SVC is C-SVC with the C = 1 / rho for which :math:`\sum_i \alpha_i / C = T = \nu \sum_i s_i`, a sum that falls as C grows.
Newton's method solves C-SVC whatever the scales of the columns are. So C is searched between one with a greater sum and one
with a smaller sum, and the answer is a mean of these two, w, b, rho and alpha of the undivided machines alike, whose sum is T.
P is convex and D is concave, so that its gap is at most the mean of their gaps plus a share of the difference of the two rho.
A mean has lost the last digits of alpha, which are worth more than the gap where a column is large. So they are made good, and
a machine whose sum is hardly above T is judged as it is, too. Where w = 0 is optimal the sum is above T for every C, and the
search ends: :mod:`maxmargin.solving.nu_zero` was tried before. :mod:`maxmargin.certificate.nu_pair` is the
judge."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.nu import NuVerdict, threshold_bound
from maxmargin.certificate.nu_pair import with_cost
from maxmargin.certificate.predictions import Values
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.linear.auto import Auto
from maxmargin.solving.at_once import at_once
from maxmargin.solving.driver import Limits, drive
from maxmargin.solving.nu_pair import PairSolution
from maxmargin.solving.solution import Solution, Status


@dataclass(frozen=True)
class CostPolicy:
    """How C is searched."""

    most_solves: int = 80
    """The most machines. From two whose C are a factor of 2^64 apart, 60 lead to two that are next to each other."""
    share: float = 0.1
    """The relative gap of each machine, as a share of the one that is wanted."""
    first_factor: float = 16.0
    """The first factor by which C is changed while no machine on one side of T is known. Every further one is its square."""
    near_factor: float = 2.0
    """The same where SMO has found a point that is better than w = 0, whose rho is near the right one."""
    greatest_factor: float = 2.0**16
    """The greatest of these factors. A machine takes longer with a greater C: of a raw table with 364 monomials 0.1 s at 3e15,
    0.8 s at 1e25."""
    least_part: float = 0.1
    """The least part of an interval of log C that is cut off."""
    most_uncertified: int = 3
    """Machines without a certificate, one after the other, before the search ends. They take the longest, and their means are
    not certified either. With C above 1e35 each took 0.7 s."""
    most_nothings: int = 4
    """Machines of growing C without weights, one after the other, before w = 0 is taken for optimal at every C. An estimate."""
    zero_share: float = 2.0**-30
    """Share of what alpha can make of each weight, below which the weights count as zero."""
    beyond: float = 2.0**-40
    """Share of T by which the sum of alpha is kept above T, so that rounding does not take it below, nor the mending of alpha,
    whose least squares are right to some digits only."""
    nearly: float = 1.1
    """Share of T up to which the sum of alpha of a machine may be, so that it is judged as it is: what is too much counts in
    the gap."""
    room: float = 0.25
    """Share of the gap that is wanted by which the next sum of alpha may be above T. A mean of two machines has lost the last
    digits of their alpha, which are worth more than that where a column is large."""
    ns_an_epoch: float = 1.5e5
    """Nanoseconds of an epoch of a machine, besides what grows with features and samples. These three numbers are right to a
    factor of two or three: epochs of 100 rows took 0.2 to 0.9 ms with 20 to 165 features."""
    ns_a_row: float = 2.5e3
    """The same for each feature, or sample if these are fewer."""
    ns_a_flop: float = 0.12
    """The same for each sample, feature, and feature or sample again, whichever are fewer. Epochs of 500 rows with 165 features
    took 1.5 to 4 ms."""
    most_ns: float = 6e9
    """Estimated nanoseconds of all machines of a search, after which it ends. Of 48 fits with polynomials on twelve raw tables
    of 60 to 5,000 rows, which nothing was chosen on, 3e9 lost two certificates, and 6e9 none. Fits of five classes without an
    answer took 3.7 s with 3e9, 5.8 s with 6e9, and 11 s with 12e9."""
    first_share: float = 0.6
    """Share of this after which the search ends if no answer is better than w = 0 by then. Of 344 searches that found an
    answer all but four had a better one after half of their share."""
    at_bound: float = 2.0**-40
    """Share of its bound by which an alpha may lie below and still counts as at the bound: the mean of two at their bounds is
    rounded."""


@dataclass
class Work:
    """What the machines of a search have taken, in estimated nanoseconds of their epochs, and whether an answer was better than
    w = 0."""

    ns: float = 0.0
    is_promising: bool = False


class Machine(NamedTuple):
    """An answer of C-SVC: C, w with the intercept as the last element, and alpha."""

    C: float
    w: Array
    alpha: Array

    @property
    def size(self) -> float:
        """The sum of alpha of the undivided machine."""
        return float(self.alpha.sum()) / self.C

    def share_of(self, other: Machine, size: float) -> float:
        """The share of the other machine in a mean of this size."""
        return (size - self.size) / (other.size - self.size)

    def mean(self, other: Machine, share: float) -> Machine:
        """``share`` of this one, and the rest of the other, each multiplied by its rho before."""
        own, rest = share / self.C, (1.0 - share) / other.C
        rho = own + rest
        return Machine(1.0 / rho, (own * self.w + rest * other.w) / rho, (own * self.alpha + rest * other.alpha) / rho)


@dataclass(frozen=True, eq=False)
class CostSearch:
    """The problems of C-SVC of a search, and their judge. ``linear`` makes the one with this C, ``judge`` certifies a pair,
    ``mend`` brings w(alpha) to w and the sum of alpha to a number, and ``outputs`` computes w . phi with errors.
    ``sizes`` are the greatest magnitudes of the features. ``share`` is what this search may take of the work of a fit."""

    problem: NuProblem
    linear: Callable[[float], LinearProblem]
    judge: Callable[[LinearProblem, Array, Array], Certificate]
    mend: Callable[[LinearProblem, Array, Array, float], Array]
    outputs: Callable[[Array], Values]
    sizes: Array
    limits: Limits
    stop: Stop
    policy: CostPolicy = CostPolicy()
    share: float = 1.0
    work: Work = field(default_factory=Work)

    @property
    def total(self) -> float:
        """T"""
        return float(self.problem.totals.sum())

    @property
    def first_cost(self) -> float:
        """The C with which all alpha at their bounds could make one margin of the longest sample."""
        length = float(self.sizes @ self.sizes)
        return 1.0 / (self.total * length) if 0.0 < length < math.inf else 1.0

    def solved(self, C: float, share: float = 1.0) -> Solution:
        """The machine. ``share`` is that of its values which is left of them in nu-SVC."""
        problem, tol = self.linear(C), share * self.policy.share * self.limits.tol
        limits = Limits(tol=tol, max_epochs=max(1.0, self.ns_left / self.ns_an_epoch), max_seconds=self.limits.seconds_left)
        found = at_once(problem, Auto(), tol, self.stop)
        found = found or drive(problem, Auto(), limits, warm_start=None, callback=None, seed=0, stop=self.stop)
        self.work.ns += found.epochs * self.ns_an_epoch
        return found

    @property
    def ns_an_epoch(self) -> float:
        """Estimated nanoseconds of an epoch of a machine."""
        n, k = self.problem.samples.n_samples, len(self.sizes)
        fewest = min(n, k)
        return self.policy.ns_an_epoch + (self.policy.ns_a_row + self.policy.ns_a_flop * n * k) * fewest

    @property
    def ns_left(self) -> float:
        share = self.share if self.work.is_promising else self.policy.first_share * self.share
        return share * self.policy.most_ns - self.work.ns

    @property
    def is_over(self) -> bool:
        """Whether the time is up, or all work is done that a search may take."""
        return self.stop.is_due or self.ns_left <= 0.0

    def allowed(self, solution: Solution, C: float) -> float:
        """The share of T that the sum of alpha may be above T for a gap as wanted."""
        needed = C * self.total
        return self.policy.room * self.limits.tol * abs(solution.certificate.primal - needed) / needed

    def share_left(self, solution: Solution) -> float:
        """The share of its values that is left of them in nu-SVC: with the right sum of alpha P is C T less |w|^2 / 2."""
        primal, square = solution.certificate.primal, float(np.square(solution.w[:-1]).sum())
        return min(1.0, 0.5 * square / primal) if primal > 0.0 else 1.0

    def between(self, greater: Machine, smaller: Machine) -> float:
        """A C between those of the two, where the line through their sums over log C is at T."""
        share = (greater.size - self.total) / (greater.size - smaller.size)
        share = min(max(share, self.policy.least_part), 1.0 - self.policy.least_part)
        return float(greater.C * (smaller.C / greater.C) ** share)

    def begin(self, first: Solution) -> tuple[float, float]:
        """The first C and the first factor: near 1 / rho of what SMO has found, if that is better than w = 0."""
        rho = 0.5 * float(first.w.sum())
        if first.certificate.primal < 0.0 < rho:
            return 1.0 / rho, self.policy.near_factor
        return self.first_cost, self.policy.first_factor

    def is_nothing(self, machine: Machine) -> bool:
        """Whether the undivided weights are zero beside what alpha can make of features of these sizes, at a C with which alpha
        could make a margin of half of the samples. With a smaller C, w = 0 is within the gap that is asked for."""
        typical = float(np.median(self.problem.samples.diagonal))
        if 0.0 < machine.C * self.total * typical < 1.0:
            return False
        greatest = machine.C * self.total * self.sizes
        return bool(np.all(np.abs(machine.w[: len(greatest)]) <= self.policy.zero_share * greatest))

    def answer(self, machine: Machine, first: Solution, begun: float) -> PairSolution:
        """The machine with its certificate, undivided."""
        machine, certificate = self.best_of(machine)
        self.work.is_promising |= certificate.primal < -certificate.rounding_error
        n = self.problem.samples.n_samples
        rho, w = 1.0 / machine.C, machine.w / machine.C
        b = float(w[-1])
        thresholds, values = np.array([rho - b, rho + b]), self.outputs(w)
        verdict = NuVerdict(certificate, thresholds, values.values.reshape(n), values.errors.reshape(n), 0)
        return PairSolution.of(
            first,
            w[:-1],
            w=thresholds,
            alpha=np.minimum(machine.alpha / machine.C, self.problem.C),
            b=b,
            certificate=certificate,
            status=Status.CERTIFIED if certificate.meets(self.limits.tol) else Status.PRECISION_LIMIT,
            seconds=first.seconds + time.perf_counter() - begun,
            offset_bound=threshold_bound(self.problem, verdict),
        )

    def best_of(self, machine: Machine) -> tuple[Machine, Certificate]:
        """The machine with its certificate, or the same w with an alpha whose rounding errors are made good. No alpha helps a w
        whose P is above zero, the value of w = 0."""
        certificate, linear = self.certified(machine), self.linear(machine.C)
        if certificate.meets(self.limits.tol) or certificate.primal > certificate.rounding_error:
            return machine, certificate
        is_full = machine.alpha >= (1.0 - self.policy.at_bound) * linear.C
        alpha, aim = np.where(is_full, linear.C, machine.alpha), machine.C * self.total * (1.0 + self.policy.beyond)
        mended = machine._replace(alpha=self.mend(linear, machine.w, alpha, aim))
        again = self.certified(mended)
        return (mended, again) if again.gap < certificate.gap else (machine, certificate)

    def certified(self, machine: Machine) -> Certificate:
        linear = self.linear(machine.C)
        alpha = np.clip(machine.alpha, 0.0, linear.C)
        own = self.judge(linear, machine.w, alpha)
        return with_cost(own, machine.C, self.total, alpha * linear.signs)


def solve_by_cost(search: CostSearch, first: Solution) -> Solution:
    """Search C, and return the best answer that is found. ``first`` is what SMO found, whose trace and steps are kept."""
    return best_answer(search, (partial(search.answer, machine) for machine in _machines(search, first)), first)


def best_answer(search: CostSearch, answers: Iterator[Callable[[Solution, float], Solution]], first: Solution) -> Solution:
    """The first answer with a certificate, or else the one with the least gap. Each answer is computed from ``first`` and the
    time at which the search began. The search ends when its time is over, or its work is done."""
    begun, best = time.perf_counter(), first
    with suppress(OutOfTimeError):
        for answer in answers:
            found = answer(first, begun)
            if best is first or found.certificate.gap < best.certificate.gap:
                best = found
            if best.status is Status.CERTIFIED or search.is_over:
                break
    return best


def _machines(search: CostSearch, first: Solution) -> Iterator[Machine]:
    """Machines whose sum of alpha is T or hardly more, each nearer to the optimum: those that are found, and means of two."""
    policy, aim = search.policy, search.total * (1.0 + search.policy.beyond)
    greater: Any = None
    smaller: Any = None
    (C, factor), failures, nothings, share_left = search.begin(first), 0, 0, 1.0
    for k in range(policy.most_solves):
        solution = search.solved(C, share_left)
        found = Machine(C, solution.w, solution.alpha)
        failures = 0 if solution.status is Status.CERTIFIED else failures + 1
        if failures == policy.most_uncertified:
            return
        if aim <= policy.nearly * found.size and found.size <= policy.nearly * aim:
            share_left = min(share_left, search.share_left(solution))
        if found.size > aim:
            greater = found
            nothings = nothings + 1 if smaller is None and search.is_nothing(found) else 0
            if nothings == policy.most_nothings:
                return
            if found.size <= policy.nearly * aim:
                yield found
        else:
            smaller = found
        if search.is_over:
            return
        if greater is None or smaller is None:
            C, factor = (C * factor if smaller is None else C / factor), min(policy.greatest_factor, factor * factor)
            if not 0.0 < C < math.inf:
                return
            continue
        yield greater.mean(smaller, smaller.share_of(greater, aim))
        share = smaller.share_of(greater, min(aim * (1.0 + search.allowed(solution, C)), 0.5 * (aim + greater.size)))
        C = 1.0 / (share / greater.C + (1.0 - share) / smaller.C) if k % 2 else search.between(greater, smaller)
        if not greater.C < C < smaller.C:
            return

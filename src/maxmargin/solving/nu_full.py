"""nu-SVC with a finite feature map and the largest nu that is feasible: what is tried where SMO ends without a certificate.

One class, or both, then has every alpha at its bound, and rho is free: C-SVC has the same optimum at every C at which that
class is at its bound, too. :mod:`maxmargin.certificate.nu_pair` has the mathematics. A large C leaves the most digits to the
outputs, beside an intercept of about one. So the greatest power of two is searched for."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from maxmargin.certificate.nu import NuVerdict, threshold_bound
from maxmargin.certificate.nu_pair import with_full_group
from maxmargin.data.rows import Array
from maxmargin.solving.nu_cost import CostSearch, Machine, best_answer
from maxmargin.solving.nu_pair import PairSolution
from maxmargin.solving.solution import Solution, Status


@dataclass(frozen=True)
class FullPolicy:
    """How the power of two is searched. All numbers are estimates, not measured."""

    most_step: int = 256
    """The greatest change of the power at once, upwards."""
    step_down: int = 64
    """The change downwards, while the class is not at its bound."""
    last: int = 960
    """The greatest power, and the least but for its sign."""
    most_judged: int = 8
    """Machines, each with half the C of the one before, that are judged at most."""


DEFAULT = FullPolicy()


def solve_full(search: CostSearch, first: Solution) -> Solution:
    """The best answer that is found. ``first`` is what SMO found, whose trace and steps are kept."""
    search = replace(search, share=math.inf)  # the powers of two are few enough
    is_full = _full_group(search)
    machines = _machines(search, is_full)
    return best_answer(search, (partial(_answer, search, machine, is_full) for machine in machines), first)


def _full_group(search: CostSearch) -> Array:
    """The samples of the full group; of two, those with the lesser sum of weights."""
    problem = search.problem
    full = [g for g in range(2) if problem.is_full(g)]
    least = min(full, key=lambda g: math.fsum(problem.C[problem.members[g]]))
    return np.asarray(problem.group == least)


def _machines(search: CostSearch, is_full: Array, policy: FullPolicy = DEFAULT) -> Iterator[Machine]:
    """Machines whose full group is at its bound, that of the greatest C first."""
    power = _greatest_power(search, is_full, policy)
    for k in range(policy.most_judged if power is not None else 0):
        found = _at_bound(search, power - k, is_full)  # type: ignore[operator]
        if found is not None:
            yield found


def _greatest_power(search: CostSearch, is_full: Array, policy: FullPolicy) -> int | None:
    """The greatest power of two at which the group is at its bound. None where none is found."""
    power, step = math.floor(math.log2(search.first_cost)), 1
    while not search.stop.is_due and _at_bound(search, power, is_full) is None:
        power -= policy.step_down
        if power < -policy.last:
            return None
    while step and not search.stop.is_due:
        if power + step <= policy.last and _at_bound(search, power + step, is_full) is not None:
            power, step = power + step, min(2 * step, policy.most_step)
        else:
            step //= 2
    return power


def _at_bound(search: CostSearch, power: int, is_full: Array) -> Machine | None:
    """The machine with C = 2^power, if the full group is at its bound there, and outweighed by the other. The latter is a
    rounding error heavier, which its judge makes good."""
    C = math.ldexp(1.0, power)
    solution, costs = search.solved(C), search.linear(C).C
    at_bound = solution.alpha >= (1.0 - search.policy.at_bound) * costs
    if not at_bound[is_full].all():
        return None
    alpha = np.where(at_bound, costs, solution.alpha)
    lacking = math.fsum([*alpha[is_full], *-alpha[~is_full]])
    if lacking > 0.0:
        room = np.where(is_full, 0.0, np.minimum(alpha, costs - alpha))
        room = room if room.any() else np.where(is_full, 0.0, costs - alpha)
        alpha = np.minimum(costs, alpha + room * (lacking * (1.0 + search.policy.beyond) / max(float(room.sum()), lacking)))
    return Machine(C, solution.w, alpha)


def _answer(search: CostSearch, machine: Machine, is_full: Array, first: Solution, begun: float) -> PairSolution:
    """The machine with its certificate, undivided. The threshold of a full group is its greatest kink, the least that is
    optimal."""
    problem, linear = search.problem, search.linear(machine.C)
    own = search.judge(linear, machine.w, machine.alpha)
    certificate = with_full_group(own, machine.C, problem.C, machine.alpha * linear.signs, is_full)
    w = machine.w / machine.C
    values, rho, b = search.outputs(w), 1.0 / machine.C, float(w[-1])
    outputs = values.values.reshape(-1)
    kinks = problem.kinks(outputs)
    usual, greatest = (rho - b, rho + b), [float(kinks[members].max()) for members in problem.members]
    thresholds = np.array([greatest[g] if problem.is_full(g) else usual[g] for g in range(2)])
    verdict = NuVerdict(certificate, thresholds, outputs, values.errors.reshape(-1), 0)
    return PairSolution.of(
        first,
        w[:-1],
        w=thresholds,
        alpha=np.minimum(machine.alpha / machine.C, problem.C),
        b=verdict.b,
        certificate=certificate,
        status=Status.CERTIFIED if certificate.meets(search.limits.tol) else Status.PRECISION_LIMIT,
        seconds=first.seconds + time.perf_counter() - begun,
        offset_bound=threshold_bound(problem, verdict),
    )

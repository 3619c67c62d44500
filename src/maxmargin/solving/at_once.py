"""A problem of few samples in one go: a state, its first answer, and mostly one certificate.

A model of 26 classes has 325 pairs, each of which is solved in a tenth of a millisecond. The driver's loop, with its chunks,
limits and incumbent, takes longer than that. Where the solver for few samples does not give up, this module is the whole
solve. Its answer is the one that the driver finds: both make the same steps from the same start.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.intercept import kernel_offset_bound
from maxmargin.certificate.kernel import KernelVerdict, certify_kernel
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.data.rows import Array
from maxmargin.problem.kernel import KernelProblem
from maxmargin.solvers.base import Budget
from maxmargin.solving.policy import DEFAULT
from maxmargin.solving.solution import Progress, Solution, Status


def at_once(problem: KernelProblem, solver: Any, tol: float, stop: Stop) -> Solution | None:
    """The solution, or None where the solver has no such state, gives up, or the time is up. The driver then begins again, and
    ends as it always does."""
    begin = getattr(solver, "few", None)
    if begin is None or stop.is_due:
        return None
    try:
        with stop.heard():
            state = begin(problem)
            return None if state is None else _solved(problem, state, tol, stop)
    except OutOfTimeError:
        return None
    except KeyboardInterrupt:
        stop.set()
        return None


def _solved(problem: KernelProblem, state: Any, tol: float, stop: Stop) -> Solution | None:
    """Advance until a certificate meets ``tol`` or the solver gives up."""
    started, trace = time.perf_counter(), []
    budget = Budget(int(DEFAULT.chunk_elements / DEFAULT.kernel_step_elements), tol)
    while True:
        state.advance(budget)
        if not state.looks_done or stop.is_due:
            return None
        alpha = state.alpha
        verdict = certify_kernel(problem, alpha, tol=tol)
        trace.append(_progress(problem, state, verdict.certificate, started))
        if verdict.meets(tol):
            return _solution(problem, alpha, verdict, trace)


def _progress(problem: KernelProblem, state: Any, certificate: Certificate, started: float) -> Progress:
    seconds, epochs, stage = time.perf_counter() - started, state.steps / problem.n_samples, state.stage
    values = certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap
    return Progress(seconds, epochs, state.steps, *values, state.active, stage.solver, stage.reason)


def _solution(problem: KernelProblem, alpha: Array, verdict: KernelVerdict, trace: list[Progress]) -> Solution:
    certificate, last = verdict.certificate, trace[-1]
    return Solution(
        w=np.empty(0),
        alpha=alpha,
        b=verdict.b,
        certificate=certificate,
        status=Status.CERTIFIED if certificate.is_proof else Status.STATIONARY,
        trace=tuple(trace),
        seconds=last.seconds,
        steps=last.steps,
        epochs=last.epochs,
        kernel_evaluations=problem.held_evaluations + verdict.kernel_evaluations,
        offset_bound=kernel_offset_bound(problem, verdict),
    )

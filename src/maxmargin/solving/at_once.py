"""A problem of few samples in one go: a state, its first answer, one certificate.

A model of 26 classes has 325 pairs, each of which is solved in a tenth of a millisecond. The driver's loop, with its chunks,
limits and incumbent, takes longer than that. Where the first answer is within ``tol``, as nearly all are, this module is the
whole solve. Its answer is the one that the driver finds: both make the same steps from the same start.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from maxmargin.certificate.intercept import kernel_offset_bound
from maxmargin.certificate.kernel import KernelVerdict, certify_kernel
from maxmargin.data.limits import OutOfTimeError, Stop
from maxmargin.problem.kernel import KernelProblem
from maxmargin.solvers.base import Budget
from maxmargin.solving.policy import DEFAULT
from maxmargin.solving.solution import Progress, Solution, Status


def at_once(problem: KernelProblem, solver: Any, tol: float, stop: Stop) -> Solution | None:
    """The solution, or None where the solver has no such state, its first answer is not within ``tol``, or the time is up. The
    driver then begins again, and ends as it always does."""
    begin = getattr(solver, "few", None)
    if begin is None or stop.is_due:
        return None
    started = time.perf_counter()
    try:
        with stop.heard():
            state = begin(problem)
            if state is None:
                return None
            state.advance(Budget(int(DEFAULT.chunk_elements / DEFAULT.kernel_step_elements), tol))
            if not state.looks_done or stop.is_due:
                return None
            alpha = np.array(state.alpha)
            verdict = certify_kernel(problem, alpha, tol=tol)
            return _solution(problem, state, alpha, verdict, started) if verdict.meets(tol) else None
    except OutOfTimeError:
        return None
    except KeyboardInterrupt:
        stop.set()
        return None


def _solution(problem: KernelProblem, state: Any, alpha: Any, verdict: KernelVerdict, started: float) -> Solution:
    certificate, steps, stage = verdict.certificate, state.steps, state.stage
    epochs, offset_bound = steps / problem.n_samples, kernel_offset_bound(problem, verdict)
    seconds = time.perf_counter() - started
    values = certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap
    row = Progress(seconds, epochs, steps, *values, state.active, stage.solver, stage.reason)
    return Solution(
        w=np.empty(0),
        alpha=alpha,
        b=verdict.b,
        certificate=certificate,
        status=Status.CERTIFIED if certificate.is_proof else Status.STATIONARY,
        trace=(row,),
        seconds=seconds,
        steps=steps,
        epochs=epochs,
        kernel_evaluations=problem.held_evaluations + verdict.kernel_evaluations,
        offset_bound=offset_bound,
    )

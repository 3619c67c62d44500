"""A small problem in one go: a state, its first answer, and mostly one certificate.

A model of 26 classes has 325 pairs, each of which is solved in a tenth of a millisecond. A linear model of some thousand rows
and few columns takes half a millisecond. The driver's loop, with its chunks, limits and incumbent, takes about as long. Where
the solver for few samples does not give up, or the first answer of a linear solver is within ``tol``, this module is the whole
solve. It makes the steps that the driver makes, from the same start.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.intercept import kernel_offset_bound, linear_offset_bound, priced_offset_bound
from maxmargin.certificate.kernel import KernelVerdict, certify_kernel
from maxmargin.certificate.linear import Judge
from maxmargin.certificate.nu import NuVerdict, certify_nu, threshold_bound
from maxmargin.data.limits import OutOfTimeError, Stop, check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.base import Budget, Stage
from maxmargin.solving.policy import DEFAULT
from maxmargin.solving.solution import Progress, Solution, Status


def at_once(problem: KernelProblem | NuProblem | LinearProblem, solver: Any, tol: float, stop: Stop) -> Solution | None:
    """The solution, or None where the solver has no such state, gives up, or the time is up. The driver then begins again, and
    ends as it always does."""
    if stop.is_due:
        return None
    try:
        with stop.heard():
            if isinstance(problem, LinearProblem):
                return _linear(problem, solver, tol)
            return _of_kernel(problem, solver, tol, stop)
    except OutOfTimeError:
        return None
    except KeyboardInterrupt:
        stop.set()
        return None


def tried(problem: KernelProblem, solver: Any, start: Array | None, most_steps: int, tol: float, stop: Stop) -> Solution | None:
    """The solution by the solver for few samples, if it makes no more than so many steps and a certificate then meets ``tol``;
    else None. Where the certificate of an answer at rounding is refused, more steps would change nothing."""
    state = None if stop.is_due else solver.few(problem, start, is_trial=True)
    started, trace = time.perf_counter(), []
    while state is not None and state.steps < most_steps:
        state.advance(Budget(most_steps - state.steps, tol))
        if not state.looks_done or stop.is_due:
            return None
        verdict = certify_kernel(problem, state.alpha, tol=tol)
        trace.append(_row(problem, state, verdict.certificate, state.stage, started))
        if verdict.meets(tol):
            return _kernel_solution(problem, state.alpha, verdict, trace)
        if state.is_at_rounding:
            return None
    return None


def _linear(problem: LinearProblem, solver: Any, tol: float) -> Solution | None:
    begin, started = getattr(solver, "one_call", None), time.perf_counter()
    call = None if begin is None else begin(problem)
    if call is None:
        return None
    trace: list[Progress] = []
    with single_threaded_blas():
        state = call.solver.init(problem, None, 0)
        chunk = DEFAULT.chunk_elements / DEFAULT.elements_a_step(problem.rows.n_stored, problem.n_samples)
        for k in range(call.most_calls):
            call.solver.advance(problem, state, Budget(int(chunk), tol))
            check_point()
            if not state.looks_done:
                continue
            judged = _judged_linear(problem, *call.solver.candidate(problem, state))
            trace.append(_row(problem, state, judged.certificate, call.stage, started))
            if judged.certificate.meets(tol):
                return _linear_solution(problem, judged, trace)
            if k + 1 < call.most_calls:
                call.solver.take_outputs(problem, state, judged.margins)
    return None


class _Judged(NamedTuple):
    """An answer with its certificate. Where the offset has a price, its outputs and |x_i|^2, too: a solver that was refused
    goes on from these outputs."""

    w: Array
    alpha: Array
    certificate: Certificate
    margins: Array | None = None
    squares: Array | None = None

    def offset_bound(self, problem: LinearProblem) -> float:
        if self.margins is None or self.squares is None:
            return linear_offset_bound(problem, self.w, self.certificate)
        return priced_offset_bound(problem, self.w, self.certificate, self.margins, self.squares)


def _judged_linear(problem: LinearProblem, w: Array, alpha: Array) -> _Judged:
    judge = Judge(problem)
    margins = None if problem.offset_prices is None else np.empty(problem.n_samples)
    return _Judged(w, alpha, judge.certify(w, alpha, margins), margins, judge.squares)


def _linear_solution(problem: LinearProblem, judged: _Judged, trace: list[Progress]) -> Solution:
    scaling, last = problem.intercept_scaling, trace[-1]
    return Solution(
        w=judged.w,
        alpha=judged.alpha,
        b=float(judged.w[-1] * scaling) if scaling else 0.0,
        certificate=judged.certificate,
        status=Status.CERTIFIED,
        trace=tuple(trace),
        seconds=last.seconds,
        steps=last.steps,
        epochs=last.epochs,
        offset_bound=judged.offset_bound(problem),
    )


def _row(problem: Any, state: Any, certificate: Certificate, stage: Stage, started: float) -> Progress:
    """A row of the trace."""
    values = certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap
    epochs, seconds = state.steps / problem.n_samples, time.perf_counter() - started
    return Progress(seconds, epochs, state.steps, *values, state.active, stage.solver, stage.reason)


def _of_kernel(problem: KernelProblem | NuProblem, solver: Any, tol: float, stop: Stop) -> Solution | None:
    """Advance until a certificate meets ``tol`` or the solver gives up."""
    begin, started = getattr(solver, "few", None), time.perf_counter()
    state = None if begin is None else begin(problem)
    budget, trace = Budget(int(DEFAULT.chunk_elements / DEFAULT.kernel_step_elements), tol), []
    while state is not None:
        state.advance(budget)
        if state.has_given_up or stop.is_due:
            return None
        if not state.looks_done:
            continue
        alpha = state.alpha
        verdict = _judged(problem, alpha, tol)
        trace.append(_row(problem, state, verdict.certificate, state.stage, started))
        if verdict.meets(tol):
            return _kernel_solution(problem, alpha, verdict, trace)
    return None


def _judged(problem: KernelProblem | NuProblem, alpha: Array, tol: float) -> KernelVerdict | NuVerdict:
    if isinstance(problem, NuProblem):
        return certify_nu(problem, alpha, tol=tol)
    return certify_kernel(problem, alpha, tol=tol)


def _kernel_solution(problem: Any, alpha: Array, verdict: KernelVerdict | NuVerdict, trace: list[Progress]) -> Solution:
    """With nu, w holds the thresholds."""
    certificate, last = verdict.certificate, trace[-1]
    return Solution(
        w=verdict.thresholds if isinstance(verdict, NuVerdict) else np.empty(0),
        alpha=alpha,
        b=verdict.b,
        certificate=certificate,
        status=Status.CERTIFIED if certificate.is_proof else Status.STATIONARY,
        trace=tuple(trace),
        seconds=last.seconds,
        steps=last.steps,
        epochs=last.epochs,
        kernel_evaluations=problem.held_evaluations + verdict.kernel_evaluations,
        offset_bound=_offset_bound(problem, verdict),
    )


def _offset_bound(problem: Any, verdict: KernelVerdict | NuVerdict) -> float:
    if isinstance(verdict, NuVerdict):
        return threshold_bound(problem, verdict)
    return kernel_offset_bound(problem, verdict)

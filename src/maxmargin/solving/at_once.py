"""A small problem in one go: a state, its first answer, and mostly one certificate.

A model of 26 classes has 325 pairs, each of which is solved in a tenth of a millisecond. A linear model of some thousand rows
and few columns takes half a millisecond. The driver's loop, with its chunks, limits and incumbent, takes about as long. Where
the solver for few samples does not give up, or the first answer of a linear solver is within ``tol``, this module is the whole
solve. It makes the steps that the driver makes, from the same start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate.certificate import Certificate
from maxmargin.certificate.hard_margin import least_margin, with_margin_one
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
from maxmargin.solving.policy import DEFAULT, SMALLER_COST
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
    begin = getattr(solver, "one_call", None)
    if begin is None:
        return None
    attempt = _OneCall(problem, begin, tol)
    with single_threaded_blas():
        judged = attempt.judged() or attempt.with_smaller_cost()
    return None if judged is None else _linear_solution(problem, judged, attempt.trace)


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


@dataclass
class _OneCall:
    """A solve by a solver whose first call is likely to be enough. ``begin`` gives the call for a problem."""

    problem: LinearProblem
    begin: Callable[[LinearProblem], Any]
    tol: float
    trace: list[Progress] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    steps_before: int = 0  # of calls whose answer was not good enough
    refused: Array | None = None  # the w of the first of them

    def judged(self) -> _Judged | None:
        """The answer, if it is within ``tol``."""
        problem, call = self.problem, self.begin(self.problem)
        if call is None:
            return None
        state = call.solver.init(problem, None, 0)
        for k in range(call.most_calls):
            self._advance(problem, call, state)
            if not state.looks_done:
                continue
            judged = _judged_linear(problem, *call.solver.candidate(problem, state))
            if self._is_enough(judged, call, state):
                return judged
            if k + 1 < call.most_calls:
                call.solver.take_outputs(problem, state, judged.margins)
        self.steps_before, self.refused = state.steps, call.solver.candidate(problem, state)[0]
        return None

    def with_smaller_cost(self) -> _Judged | None:
        """The answer to a smaller C, where that is the answer to C itself: where no alpha is at its smaller bound, and w is
        made long enough that no margin is below one, every loss is zero. With a smaller C rounding takes less of a margin's
        price. The search ends where w does not separate the classes."""
        problem, loss = self.problem, self.problem.loss
        if loss.is_regression or loss.is_smooth or self.refused is None:
            return None
        if np.mean(problem.margins(self.refused) <= 0.0) > SMALLER_COST.most_wrong:
            return None
        for share in SMALLER_COST.shares:
            smaller = replace(problem, C=share * problem.C)
            call = self.begin(smaller)
            if call is None:
                return None
            state = call.solver.init(smaller, None, 0)
            self._advance(smaller, call, state)
            w, alpha = call.solver.candidate(smaller, state)
            if np.any((alpha >= smaller.C) & (smaller.C > 0.0)) or not least_margin(problem, w) > 0.0:
                return None
            judged = _judged_linear(problem, with_margin_one(problem, w), alpha)
            if self._is_enough(judged, call, state):
                return judged
            self.steps_before += state.steps
        return None

    def _advance(self, problem: LinearProblem, call: Any, state: Any) -> None:
        chunk = DEFAULT.chunk_elements / DEFAULT.elements_a_step(problem.rows.n_stored, problem.n_samples)
        call.solver.advance(problem, state, Budget(int(chunk), self.tol))
        check_point()

    def _is_enough(self, judged: _Judged, call: Any, state: Any) -> bool:
        row = _row(self.problem, state, judged.certificate, call.stage, self.started)
        steps = self.steps_before + row.steps
        self.trace.append(row if steps == row.steps else replace(row, steps=steps, epochs=steps / self.problem.n_samples))
        return judged.certificate.meets(self.tol)


def _judged_linear(problem: LinearProblem, w: Array, alpha: Array) -> _Judged:
    judge = Judge(problem)
    return _Judged(w, alpha, judge.certify(w, alpha, judge.margins), judge.margins, judge.squares)


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

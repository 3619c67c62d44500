"""The driver: it owns the loop, the clock, the certificate and the callback. A solver only makes steps.

When a certificate is computed depends on counted steps and on the solver's own state, never on the clock, so an answer
depends on the data, the settings and ``random_state`` alone (unless ``max_seconds`` or the user cuts the run short).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxmargin.data.limits import OutOfTimeError, Stop, check_point
from maxmargin.data.rows import Array
from maxmargin.data.threads import single_threaded_blas
from maxmargin.problem.crammer_singer import CrammerSingerProblem
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.nu import NuProblem
from maxmargin.solvers.base import Budget, KernelSolver, Solver, Stage, ends_by_own_rule
from maxmargin.solvers.patience import Patience
from maxmargin.solvers.registry import kernel_solver_named, solver_named, suited
from maxmargin.solving.at_once import at_once
from maxmargin.solving.incumbent import Answer, Known, incumbent_of, status_of
from maxmargin.solving.limits import Limits as Limits
from maxmargin.solving.policy import DEFAULT, DrivingPolicy
from maxmargin.solving.seeds import seed_from as seed_from
from maxmargin.solving.solution import Progress, Solution, Status
from maxmargin.solving.start import start_of

Callback = Callable[[Progress], Any]


def solve(
    problem: LinearProblem | KernelProblem | CrammerSingerProblem,
    solver: str | Solver | KernelSolver = "auto",
    *,
    tol: float = 1e-4,
    max_epochs: float = math.inf,
    max_seconds: float = math.inf,
    warm_start: Array | Solution | None = None,
    callback: Callback | None = None,
    random_state: Any = None,
) -> Solution:
    """Solve to a certified relative duality gap of ``tol``, or say why not.

    Parameters
    ----------
    problem : LinearProblem or KernelProblem
    solver : str or a solver object, default "auto"
        "auto" chooses and switches by itself; "dcd", "avsf", "newton", for L1 and elastic-net penalties
        "sparse-newton", and for a few digits "pruned-gradient" and "pegasos", for linear problems;
        "batched-smo", "smo", "irwls" for kernels;
        or an instance with settings such as ``DCD(order=Order.CYCLIC)``. With ``stop="paper"`` among the
        settings, as in ``DCD(epsilon=0.1, stop="paper")``, the solve ends by the rule of the solver's own paper: its
        status is SOLVER_RULE, its answer is the point at which the solver stood, and its certificate is the only one.
    tol : float
        Target for ``gap / max(|primal|, |dual|)``. Zero asks for all that float64 can give. A solve that ends by the
        solver's own rule does not look at it.
    max_epochs, max_seconds : float, default infinity
        Limits; an epoch is as many steps as there are samples. The limit on seconds is heard within a second.
    warm_start : array of alpha, or a Solution
        Where to start. It is clipped to the box, so a solution for another C will do. With an L1 or elastic-net penalty it is
        a w, since w does not follow from alpha there.
    callback : callable
        Called with a :class:`Progress` at every certificate; returning True ends the solve.
    random_state : int, RandomState, Generator or None
        Seeds the order of the coordinates. None means 0: the same call gives the same answer.

    Ctrl-C ends the solve with status STOPPED and the best answer so far.
    """
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable; got {callback!r}.")
    limits = Limits(tol, max_epochs, max_seconds)
    return drive(
        problem,
        kernel_solver_named(solver) if isinstance(problem, KernelProblem) else solver_named(solver),  # type: ignore[arg-type]
        limits,
        warm_start=warm_start,
        callback=callback,
        seed=seed_from(random_state),
        stop=Stop.within(limits.max_seconds),
    )


def drive(
    problem: LinearProblem | KernelProblem | NuProblem | CrammerSingerProblem,
    solver: Solver | KernelSolver,
    limits: Limits,
    *,
    warm_start: Array | Solution | None,
    callback: Callback | None,
    seed: int,
    stop: Stop,
    policy: DrivingPolicy = DEFAULT,
) -> Solution:
    """``solve`` with everything resolved. ``stop`` knows the deadline, and ends the solve from another thread.

    A linear solve uses one thread of BLAS from beginning to end. That limit holds for the whole process. If it were set for
    parts of a solve only, the rounding of the other parts would depend on what other threads are doing."""
    is_plain = warm_start is None and callback is None and limits.max_epochs == math.inf
    if is_plain and policy is DEFAULT and isinstance(problem, (KernelProblem, LinearProblem, NuProblem)):
        answer = at_once(problem, solver, limits.tol, stop)
        if answer is not None:
            return answer
    start = start_of(warm_start, problem)
    solver = suited(solver, problem)
    with single_threaded_blas() if isinstance(problem, (LinearProblem, CrammerSingerProblem)) else nullcontext():
        run = _RunByOwnRule if ends_by_own_rule(solver) else _Run
        return _driven(run(problem, solver, limits, callback, stop, policy), start, seed)


def _driven(run: _Run, start: Array | None, seed: int) -> Solution:
    stop = run.stop
    try:
        with stop.heard():
            check_point()
            run.start(start, seed)
            status = run.to_the_end()
    except OutOfTimeError:
        status = run.after_interruption()
    except KeyboardInterrupt:
        stop.set()
        if run.state is None:
            raise
        status = run.after_interruption()
    return run.solution(status)


@dataclass
class _Run:
    """One solve under way."""

    problem: LinearProblem | KernelProblem | NuProblem | CrammerSingerProblem
    solver: Any
    limits: Limits
    callback: Callback | None
    stop: Stop
    policy: DrivingPolicy = DEFAULT
    state: Any = None
    answer: Answer | None = None  # the one that meets tol
    trace: list[Progress] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    next_certificate: float = 0.0
    patience: Patience | None = None  # made where a certificate is refused
    was_limited: bool = False  # by rounding, at the last certificate
    certificate_seconds: float = 0.0  # of the latest one: the last must begin that much before the deadline

    def __post_init__(self) -> None:
        self.incumbent = incumbent_of(self.problem, self.policy)

    def start(self, warm_start: Array | None, seed: int) -> None:
        if self.stop.deadline < math.inf:
            self.certificate_seconds = min(
                self.incumbent.certificate_seconds, self.policy.certificate_share * self.stop.seconds_left
            )
        self.state = self.solver.init(self.problem, warm_start, seed)
        if warm_start is None:
            self.next_certificate = self.incumbent.spacing(0)

    def to_the_end(self) -> Status:
        """Advance and judge until there is a reason to end."""
        while True:
            if self._certificate_is_due():
                self.judge()
                status = self._reason_to_end()
                if status is not None:
                    return status
            self.solver.advance(self.problem, self.state, self._budget())

    def judge(self) -> None:
        """Certify where the solver stands, and write a row of the trace."""
        begun = time.perf_counter()
        with self.stop.last_chance().heard():
            self.answer = self._judged()
        self.certificate_seconds = time.perf_counter() - begun
        self._write_trace(self.answer.certificate if self.answer else self.incumbent.known())
        self.next_certificate = self.state.steps + self.incumbent.spacing(self.state.steps)

    def _judged(self) -> Answer | None:
        """The answer that meets tol, if there is one now."""
        answer: Answer | None = self.incumbent.judge(self.solver, self.state, self.limits.tol)
        return answer

    def after_interruption(self) -> Status:
        """Ctrl-C or a check point ended a chunk or a certificate midway. The incumbent may then be half of one answer and half
        of the next. That is a feasible pair too, so it is certified again."""
        self.incumbent.forget_certificate()
        if not self.trace and self.state is not None:
            with suppress(OutOfTimeError):
                self.judge()
        if self.answer is not None:
            return self._status_of_answer
        return status_of(self.stop)

    def _write_trace(self, known: Known) -> None:
        stage = self.state.stage if self.state is not None else Stage(self.solver.name, "no time was left to begin")
        self.trace.append(
            Progress(
                seconds=self.seconds,
                epochs=self.epochs,
                steps=self.steps,
                primal=known.primal,
                dual=known.dual,
                gap=known.gap,
                relative_gap=known.relative_gap,
                active=self.state.active if self.state is not None else self.problem.n_samples,
                solver=stage.solver,
                reason=stage.reason,
            )
        )

    def solution(self, status: Status) -> Solution:
        answer = self.answer or self._best()
        if not self.trace:
            self._write_trace(answer.certificate)
        return Solution(
            w=answer.w,
            alpha=np.ascontiguousarray(answer.alpha),
            b=answer.b,
            certificate=answer.certificate,
            status=status,
            trace=tuple(self.trace),
            seconds=self.seconds,
            steps=self.steps,
            epochs=self.epochs,
            kernel_evaluations=self.incumbent.kernel_evaluations + getattr(self.state, "kernel_evaluations", 0),
            offset_bound=self._offset_bound(answer),
        )

    def _best(self) -> Answer:
        """The best answer. If it has no certificate yet, and no time is left for a long one, it stays without."""
        try:
            with self.stop.last_chance().heard():
                return self.incumbent.best()
        except OutOfTimeError:
            return self.incumbent.best_without_time()

    def _offset_bound(self, answer: Answer) -> float:
        """The bound on the intercept's error. Infinite, which means unknown, if no time is left to compute it."""
        try:
            with self.stop.last_chance().heard():
                return float(self.incumbent.offset_bound(answer))
        except OutOfTimeError:
            return math.inf

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def steps(self) -> int:
        return int(self.state.steps) if self.state is not None else 0

    @property
    def epochs(self) -> float:
        return self.steps / self.problem.n_samples

    def _certificate_is_due(self) -> bool:
        return (
            self.state.looks_done
            or self.state.is_stuck
            or self.state.steps >= min(self.next_certificate, self._max_steps)
            or self.stop.is_told
            or self._is_late
        )

    @property
    def _is_late(self) -> bool:
        """Whether a certificate that begins now ends after the deadline."""
        return time.perf_counter() + self.certificate_seconds >= self.stop.deadline

    @property
    def _status_of_answer(self) -> Status:
        assert self.answer is not None
        return Status.CERTIFIED if self.answer.certificate.is_proof else Status.STATIONARY

    def _reason_to_end(self) -> Status | None:
        if self.callback is not None and bool(self.callback(self.trace[-1])):
            self.stop.set()
        return self._status()

    def _status(self) -> Status | None:
        """The reason to end after this certificate, or None."""
        if self.answer is not None:
            return self._status_of_answer
        if self.stop.is_told or self._is_late:
            return status_of(self.stop)
        if self.state.steps >= self._max_steps:
            return self._status_of_best(Status.EPOCH_LIMIT)
        if self._is_at_its_limit():
            return self._status_of_best(Status.PRECISION_LIMIT)
        return None

    def _status_of_best(self, otherwise: Status) -> Status:
        """The status of the best w with the best alpha. They may come from different moments and meet ``tol`` together, where
        no point of one moment does."""
        best = self.incumbent.best()
        if not best.certificate.meets(self.limits.tol):
            return otherwise
        self.answer = best
        return self._status_of_answer

    def _is_at_its_limit(self) -> bool:
        return self.state.is_stuck or self._stands_still() or self._is_limited_by_rounding() or self._is_stalled()

    def _stands_still(self) -> bool:
        """Whether the solver has stopped making steps: the last rows of the trace all have the same number of steps."""
        last = self.trace[-self.policy.still_certificates :]
        return len(last) == self.policy.still_certificates and last[0].steps == last[-1].steps

    def _is_limited_by_rounding(self) -> bool:
        """Whether rounding limited two certificates in a row. After the first, the solver may have a more careful answer, and
        it may say that it has other ones."""
        was_limited, self.was_limited = self.was_limited, self.incumbent.is_limited_by_rounding
        return was_limited and self.was_limited and not getattr(self.state, "has_other_points", False)

    def _is_stalled(self) -> bool:
        now = self.trace[-1]
        self.patience = self.patience or Patience(self._steps_to_stall, rule=self.policy.stall)
        return self.patience.note(now.steps, now.dual, now.dual + now.gap)

    @property
    def _steps_to_stall(self) -> float:
        elements = self.policy.stall_elements / self.incumbent.elements_a_step
        return float(min(self.policy.stall_epochs * self.problem.n_samples, elements))

    def _budget(self) -> Budget:
        now, a_chunk = self.state.steps, self.policy.chunk_elements / self.incumbent.elements_a_step
        wanted = min(self.next_certificate - now, a_chunk, self._max_steps - now)
        return Budget(max(1, int(wanted)), self.limits.tol)

    @property
    def _max_steps(self) -> float:
        return self.limits.max_epochs * self.problem.n_samples


class _RunByOwnRule(_Run):
    """A solve that ends when the rule of the solver's own paper holds, or at a limit, with a certificate of the point at which
    the solver stands then. It is the only one, unless the solve goes on for so long that its progress has to be judged."""

    def start(self, warm_start: Array | None, seed: int) -> None:
        super().start(warm_start, seed)
        self.next_certificate = max(self.incumbent.spacing(0), self._steps_to_stall)

    def after_interruption(self) -> Status:
        if self.answer is None and self.state is not None:
            with suppress(OutOfTimeError):
                self.judge()
        return self._status() or status_of(self.stop)

    def _judged(self) -> Answer:
        own: Answer = self.incumbent.judge_own(self.solver, self.state)
        return own

    def _status(self) -> Status | None:
        if self.state is not None and self.state.is_stuck:
            return Status.PRECISION_LIMIT
        if self.state is not None and self.state.looks_done:
            return Status.SOLVER_RULE
        if self.stop.is_told or self._is_late:
            return status_of(self.stop)
        if self.steps >= self._max_steps:
            return Status.EPOCH_LIMIT
        if self._is_stalled() or (self.answer is not None and self.answer.certificate.is_limited_by_rounding):
            return Status.PRECISION_LIMIT
        self.answer = None  # it may be a view of memory that the next step changes
        return None

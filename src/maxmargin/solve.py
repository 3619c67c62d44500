"""The driver: it owns the loop, the clock, the certificate and the callback. A solver only makes steps.

When a certificate is computed depends on counted steps and on the solver's own state, never on the clock, so an answer
depends on the data, the settings and ``random_state`` alone (unless ``max_seconds`` or the user cuts the run short).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificate import Certificate, Judge, relative
from maxmargin.data import Array
from maxmargin.problem import LinearProblem
from maxmargin.solution import Progress, Solution, Status
from maxmargin.solvers.base import Budget, Solver
from maxmargin.solvers.primal_point import PrimalPoint
from maxmargin.solvers.registry import solver_named

Callback = Callable[[Progress], Any]

CHUNK_ELEMENTS = 20_000_000
"""Stored elements that one call of ``advance`` may touch: about a tenth of a second, so that Ctrl-C is heard."""
CERTIFICATE_EPOCHS = 24
CERTIFICATE_GROWTH = 0.5
"""A certificate costs at most about one epoch, mostly a third: one in twelve stays well under a tenth of the time. After
many epochs they are spaced by half of the steps so far."""
CERTIFICATE_ELEMENTS = 4_000_000
"""On small problems the fixed cost of a certificate counts: this much work must lie between two."""
TIE = 1e-12
"""Primal values that differ by less, relatively, are the same."""
STALL_ELEMENTS = 10_000_000_000
STALL_FACTOR = 100.0
"""After this much work (some ten seconds) a solve has stalled when, at the rate at which the dual value rose over the latter
half of the run, closing the gap would take this many times the work done so far."""


def solve(
    problem: LinearProblem,
    solver: str | Solver = "auto",
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
    problem : LinearProblem
    solver : str or a solver object, default "auto"
        "auto" chooses and switches by itself; "dcd", "avsf", "newton", or an instance with settings such as
        ``DCD(order=Order.CYCLIC)``.
    tol : float
        Target for ``gap / max(|primal|, |dual|)``. Zero asks for all that float64 can give.
    max_epochs, max_seconds : float, default infinity
        Limits; an epoch is as many steps as there are samples.
    warm_start : array of alpha, or a Solution
        Where to start. It is clipped to the box, so a solution for another C will do.
    callback : callable
        Called with a :class:`Progress` at every certificate; returning True ends the solve.
    random_state : int, RandomState, Generator or None
        Seeds the order of the coordinates. None means 0: the same call gives the same answer.

    Ctrl-C ends the solve with status STOPPED and the best answer so far.
    """
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable; got {callback!r}.")
    return drive(
        problem,
        solver_named(solver),
        Limits(tol, max_epochs, max_seconds),
        warm_start=warm_start,
        callback=callback,
        seed=seed_from(random_state),
        stop=threading.Event(),
    )


@dataclass(frozen=True)
class Limits:
    """When a solve ends: the target and the two limits."""

    tol: float
    max_epochs: float = math.inf
    max_seconds: float = math.inf

    def __post_init__(self) -> None:
        for name in ("tol", "max_epochs", "max_seconds"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not float(value) >= 0.0:
                raise ValueError(f"{name} must be zero or positive; got {value!r}.")


def seed_from(random_state: Any) -> int:
    """One whole number from what scikit-learn and NumPy accept; the global generator is never touched."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    raise ValueError(f"random_state must be None, a whole number >= 0, or a NumPy generator; got {random_state!r}.")


def drive(
    problem: LinearProblem,
    solver: Solver,
    limits: Limits,
    *,
    warm_start: Array | Solution | None,
    callback: Callback | None,
    seed: int,
    stop: threading.Event,
) -> Solution:
    """``solve`` with everything resolved, and with ``stop`` to end it from another thread within a chunk."""
    run = _Run(problem, solver, limits, callback, stop)
    try:
        run.start(_alpha_of(warm_start, problem), seed)
        status = run.to_the_end()
    except KeyboardInterrupt:
        stop.set()
        if run.state is None:
            raise
        if not run.trace:
            run.judge()
        status = Status.STOPPED
    return run.solution(status)


def _alpha_of(warm_start: Array | Solution | None, problem: LinearProblem) -> Array | None:
    if warm_start is None:
        return None
    alpha = np.asarray(warm_start.alpha if isinstance(warm_start, Solution) else warm_start, dtype=np.float64)
    if alpha.shape != (problem.n_samples,):
        raise ValueError(f"warm_start must hold one alpha for each of {problem.n_samples} samples; its shape is {alpha.shape}.")
    if not np.isfinite(alpha).all():
        raise ValueError("warm_start holds a value that is not finite.")
    return alpha


class _Answer(NamedTuple):
    w: Array
    alpha: Array
    certificate: Certificate


class _Best:
    """The best w and the best alpha so far, which may come from different moments: the gap is between those two. Zero is the
    first of both."""

    def __init__(self, problem: LinearProblem) -> None:
        self.problem = problem
        self.w, self.alpha = np.zeros(problem.n_weights), np.zeros(problem.n_samples)
        self.primal, self.dual = float(problem.C.sum() * problem.loss.value(np.zeros(1))[0]), 0.0
        self.certificate: Certificate | None = None
        self.margins = np.empty(problem.n_samples) if problem.penalizes_intercept else None
        self._point: PrimalPoint | None = None
        self._own_w = self.w

    def learn(self, here: _Answer, may_search: bool) -> None:
        """Take over what is better, into the same memory every time, as new pages are slow; and look for a better w still."""
        certificate = here.certificate
        found = self._search(here) if may_search and np.isfinite(certificate.gap) else np.inf
        is_here = certificate.is_limited_by_rounding or certificate.primal < found * (1.0 - TIE)
        improves = min(found, certificate.primal) < self.primal, certificate.dual > self.dual
        if any(improves):
            self.certificate = certificate if all(improves) and is_here else None
        if improves[1]:
            self.dual = certificate.dual
            np.copyto(self.alpha, here.alpha)
        if improves[0] and is_here:
            self.primal, self.w = certificate.primal, self._own_w
            np.copyto(self.w, here.w)
        elif improves[0]:
            assert self._point is not None
            assert self._point.best is not None
            self.primal, self.w = found, self._point.best.w  # owns its memory, and moves only to a better point

    def _search(self, here: _Answer) -> float:
        """The primal value of the best point on a few lines; infinite where there is no such search."""
        if self.margins is None:
            return np.inf
        self._point = self._point or PrimalPoint(self.problem)
        return self._point.offer(here.w, self.margins, float(here.w @ here.w))

    @property
    def gap(self) -> float:
        """By the certificate of the pair if there is one, else by the difference of the two values."""
        return self.certificate.gap if self.certificate else self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        return relative(self.gap, self.primal, self.dual)

    def certified(self, judge: Judge) -> _Answer:
        if self.certificate is None:
            self.certificate = judge.certify(self.w, self.alpha)
        return _Answer(self.w, self.alpha, self.certificate)


@dataclass
class _Run:
    """One solve under way."""

    problem: LinearProblem
    solver: Solver
    limits: Limits
    callback: Callback | None
    stop: threading.Event
    state: Any = None
    certifier: Any = None
    best: Any = None
    answer: _Answer | None = None  # the one that meets tol: the solver's own arrays, or the best pair
    trace: list[Progress] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    next_certificate: int = 0

    def start(self, warm_start: Array | None, seed: int) -> None:
        self.certifier, self.best = Judge(self.problem), _Best(self.problem)
        self.state = self.solver.init(self.problem, warm_start, seed)
        if warm_start is None:
            self.next_certificate = self._spacing()

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
        """Certify where the solver stands, or the best pair of points if that is better, and write a row of the trace."""
        w, alpha = self.solver.candidate(self.problem, self.state)
        here = _Answer(w, alpha, self.certifier.certify(w, alpha, self.best.margins))
        if here.certificate.meets(self.limits.tol):
            self.answer = here
        else:
            self.best.learn(here, may_search=not self.state.has_best_w)
            if self.best.relative_gap <= self.limits.tol:
                pair = self.best.certified(self.certifier)
                self.answer = pair if pair.certificate.meets(self.limits.tol) else None
        self._write_trace(self.answer.certificate if self.answer else self.best)
        self.next_certificate = self.state.steps + self._spacing()

    def _write_trace(self, known: Certificate | _Best) -> None:
        stage = self.state.stage
        self.trace.append(
            Progress(
                seconds=self.seconds,
                epochs=self.epochs,
                steps=self.state.steps,
                primal=known.primal,
                dual=known.dual,
                gap=known.gap,
                relative_gap=known.relative_gap,
                active=self.state.active,
                solver=stage.solver,
                reason=stage.reason,
            )
        )

    def solution(self, status: Status) -> Solution:
        answer = self.answer or self.best.certified(self.certifier)
        scaling = self.problem.intercept_scaling
        return Solution(
            w=answer.w,
            alpha=np.ascontiguousarray(answer.alpha),
            b=float(answer.w[-1] * scaling) if scaling else 0.0,
            certificate=answer.certificate,
            status=status,
            trace=tuple(self.trace),
            seconds=self.seconds,
            steps=self.state.steps,
            epochs=self.epochs,
        )

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def epochs(self) -> float:
        return float(self.state.steps / self.problem.n_samples)

    def _certificate_is_due(self) -> bool:
        return (
            self.state.looks_done
            or self.state.is_stuck
            or self.state.steps >= min(self.next_certificate, self._max_steps)
            or self.seconds >= self.limits.max_seconds
            or self.stop.is_set()
        )

    def _reason_to_end(self) -> Status | None:
        if self.callback is not None and bool(self.callback(self.trace[-1])):
            self.stop.set()
        if self.answer is not None:
            return Status.CERTIFIED
        if self.stop.is_set():
            return Status.STOPPED
        if self.seconds >= self.limits.max_seconds:
            return Status.TIME_LIMIT
        if self.state.steps >= self._max_steps:
            return Status.EPOCH_LIMIT
        if self._is_at_its_limit():
            return Status.PRECISION_LIMIT
        return None

    def _is_at_its_limit(self) -> bool:
        certificate = self.best.certificate
        return self.state.is_stuck or (certificate and certificate.is_limited_by_rounding) or self._is_stalled()

    def _is_stalled(self) -> bool:
        now = self.trace[-1]
        if now.steps * self._elements_a_step < STALL_ELEMENTS:
            return False
        half = next(row for row in self.trace if row.steps >= 0.5 * now.steps)
        rise, steps = now.dual - half.dual, now.steps - half.steps
        return steps > 0 and now.gap * steps > STALL_FACTOR * now.steps * rise

    def _budget(self) -> Budget:
        now = self.state.steps
        wanted = min(self.next_certificate - now, CHUNK_ELEMENTS / self._elements_a_step, self._max_steps - now)
        return Budget(max(1, int(wanted)), self.limits.tol)

    def _spacing(self) -> int:
        least = max(CERTIFICATE_EPOCHS * self.problem.n_samples, CERTIFICATE_ELEMENTS / self._elements_a_step)
        return int(max(least, CERTIFICATE_GROWTH * self.state.steps if self.state else 0.0))

    @property
    def _max_steps(self) -> float:
        return self.limits.max_epochs * self.problem.n_samples

    @property
    def _elements_a_step(self) -> float:
        """Stored elements a row, and what a step costs besides."""
        return self.problem.rows.n_stored / self.problem.n_samples + 8.0
